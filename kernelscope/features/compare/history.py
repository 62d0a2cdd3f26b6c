"""The runs of a cell: stacked bars of its time with the compiles of each run, and as text a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

from kernelscope.features.compare.analyse import Changes
from kernelscope.features.compare.runs import CellRun, previous_run
from kernelscope.features.compare.view import summary_line
from kernelscope.palette import PART_COLORS
from kernelscope.recording.model import Recording
from kernelscope.units import MISSING, count, counted, duration
from kernelscope.views.answer import Answer, Many, WrittenMembers, answer
from kernelscope.views.base import clean, columns, shorten, table, with_notice, wrap, write_text
from kernelscope.views.card.answer import health_of
from kernelscope.views.card.verdict import GROUPS
from kernelscope.views.html import document
from kernelscope.views.parts import part_label

if TYPE_CHECKING:
    import pandas as pd

    from kernelscope.views.notebook_figure import NotebookFigure

#: So many runs are shown, the newest; a chart's labels cannot be read with more.
MOST_RUNS = 100

_NAME = 28
_DATE = "%Y-%m-%d %H:%M"


class CellRunMembers(TypedDict):
    """A run of the cell."""

    cell: str
    file: str | None
    began: Annotated[str | None, "UTC, in ISO 8601"]
    status: str
    complete: Annotated[bool, "as health.complete of its recording"]
    wall_ns: int | None
    parts: Annotated[Mapping[str, int] | None, "where the wall time went, in nanoseconds"]
    launches: int
    compiles: int | None
    disk: Annotated[int | None, "loads from the disk cache"]
    errors: int
    host_ns: int | None
    gpu_ns: int | None
    compile_ns: int | None
    slower: Annotated[int, "differences that are seen from the run before; faster as well"]
    faster: int
    changed: Annotated[str | None, "since the run before, in a line; null for the first run"]


class HistoryAnswer(Answer):
    """What kernelscope history and the tool history of kernelscope mcp say."""

    notice: str | None
    runs: Annotated[Many[CellRunMembers], "the newest first"]
    missing: Annotated[Many[str], "files that could not be read, and why"]
    written: Many[WrittenMembers] | None


def since_last_run(recordings: Sequence[Recording], recording: Recording) -> Callable[[Recording], str] | None:
    """Return what says in a line how a recording, as it is shown, differs from the run before of its only cell.

    None where none of the recordings, the oldest first, has such a run.
    """
    before = previous_run(recordings, recording)
    return None if before is None else lambda after: summary_line(Changes(before, after))


class HistoryView:
    """The runs of one cell: see `kernelscope.history`.

    Parameters
    ----------
    title : str
        What the cell is called.
    runs : sequence of CellRun
        In the order of time, each with what differs from the one before.
    notice : str
        What every output must say, or an empty string.
    missing : sequence of str
        Files that could not be read, and why.
    earlier : int
        How many runs there are before `runs`, which were not looked into.

    Attributes
    ----------
    title, runs, missing, earlier
        As given.
    """

    def __init__(self, title: str, runs: Sequence[CellRun], notice: str = "", missing: Sequence[str] = (),
                 earlier: int = 0) -> None:
        self.title, self.runs, self.notice, self.missing = title, list(runs), notice, list(missing)
        self.earlier = earlier
        self._members: dict[int, CellRunMembers] = {}

    def figure(self) -> NotebookFigure:
        """Return a Plotly figure: a bar a run of its wall time by part, and its compiles as marks."""
        return _figure(self)

    def to_frame(self) -> pd.DataFrame:
        """Return a DataFrame, one row a run in the order of time; times are in nanoseconds.

        Columns are ``cell``, ``file``, ``began`` (UTC), ``status``, ``wall_ns``, ``launches``, ``host_ns``, ``gpu_ns``,
        ``compiles``, ``compile_ns``, ``slower`` and ``faster`` (differences that are seen from the run before), and the
        parts of the wall time, such as ``compile``.
        """
        import pandas as pd

        return pd.DataFrame([{
            "cell": each.label, "file": each.source, "began": None if each.began_ns is None else _when(each.began_ns),
            "status": each.status, "wall_ns": each.wall_ns, "launches": each.launches, "host_ns": each.host_ns,
            "gpu_ns": each.gpu_ns, "compiles": each.compiles, "compile_ns": each.compile_ns,
            "slower": _seen(each, 1), "faster": _seen(each, -1), **each.parts} for each in self.runs])

    def answer(self, limit: int | None = None, written: Many[WrittenMembers] | None = None) -> dict[str, Any]:
        """Return the same as an answer for programs, the newest run first.

        Parameters
        ----------
        limit : int, optional
            That of `kernelscope.views.answer.answer`.
        written : optional
            The member ``written``: the files that were.
        """
        newest = self.runs[-1].changes if self.runs else None
        since = "" if newest is None else f" The newest against the one before: {summary_line(newest)}."
        total = len(self.runs) + self.earlier
        return answer(HistoryAnswer, {
            "verdict": f"{self.title}: {counted(total, 'run')}.{since}", "notice": self.notice or None,
            "runs": Many(range(len(self.runs))[::-1], self._member, more=self.earlier), "missing": Many(self.missing),
            "written": written}, limit)

    def _member(self, place: int) -> CellRunMembers:
        """Return what an answer says of a run: once, also where the answer has to be cut several times."""
        if place not in self._members:
            self._members[place] = _run(self.runs[place])
        return self._members[place]

    def to_html(self, path: str | Path) -> Path:
        """Write a page with the figure that needs no network, and return its path.

        Raises
        ------
        RecordingFileError
            It cannot be written, or would take the place of a recording.
        """
        return write_text(path, ".html", document("History · KernelScope", f"<main>{self._repr_html_()}</main>"))

    def _ipython_display_(self) -> None:
        from kernelscope.views.notebook_figure import show

        show(self.figure(), repr(self))

    def _repr_html_(self) -> str:
        from kernelscope.views.charts import figures_html

        return figures_html([self.figure()], self.notice)

    def __repr__(self) -> str:
        return _text(self)

    def __str__(self) -> str:
        return repr(self)


def _run(each: CellRun) -> CellRunMembers:
    return {
        "cell": each.label, "file": each.source or None,
        "began": None if each.began_ns is None else _when(each.began_ns).isoformat(timespec="milliseconds"),
        "status": each.status, "complete": health_of(each.recording)["complete"], "wall_ns": each.wall_ns,
        "parts": {name: value for name, _, value in _parts(each)} if each.parts else None,
        "launches": each.launches, "compiles": each.compiles, "disk": each.disk, "errors": each.errors,
        "host_ns": each.host_ns, "gpu_ns": each.gpu_ns, "compile_ns": each.compile_ns,
        "slower": _seen(each, 1), "faster": _seen(each, -1),
        "changed": None if each.changes is None else summary_line(each.changes)}


def _when(began_ns: int) -> datetime:
    return datetime.fromtimestamp(began_ns / 1e9, UTC)


def _seen(run: CellRun, sign: int) -> int:
    return 0 if run.changes is None else sum(each.percent * sign > 0 for each in run.changes.seen)


def _parts(run: CellRun) -> list[tuple[str, str, int]]:
    """Return the parts of the wall time as the card has them: name, label, nanoseconds."""
    return [(name, part_label(name), sum(run.parts.get(part, 0) for part in parts)) for name, parts in GROUPS.items()]


def _text(view: HistoryView) -> str:
    width = columns(None)
    shown = view.runs[-MOST_RUNS:]
    has_gpu = any(each.gpu_ns is not None for each in shown)
    has_files = any(each.source for each in shown)
    labels = ["run", *(["file"] if has_files else []), "began (UTC)", "wall", "launches", "launching",
              *(["GPU"] if has_gpu else []), "compiles", "compiling"]
    rows = [[each.label if each.status == "ok" else f"{each.label} ({each.status})",
             *([shorten(clean(each.source) or "this session", _NAME)] if has_files else []),
             MISSING if each.began_ns is None else _when(each.began_ns).strftime(_DATE), duration(each.wall_ns),
             count(each.launches), duration(each.host_ns), *([duration(each.gpu_ns)] if has_gpu else []),
             count(each.compiles), duration(each.compile_ns) if each.compile_ns else ""] for each in shown]
    below = [wrap(clean(f"{_mark(each)}{summary_line(each.changes)}"), width - 4, 0, 2).split("\n")
             if each.changes is not None else [] for each in shown]
    total = len(view.runs) + view.earlier
    title = f"KernelScope: {clean(view.title)}: {counted(total, 'run')}"
    rows = [[clean(cell) for cell in row] for row in rows]
    lines = [title, table(labels, rows, width, left=tuple(range(2 + has_files)), flexible=int(has_files),
                          below=below)]
    if len(shown) < total:
        lines.append(f"  the newest {len(shown):,} of {total:,}")
    lines += [wrap(clean(f"not read: {each}"), width, 2, hanging=2) for each in view.missing]
    return with_notice(view.notice, "\n".join(lines))


def _mark(run: CellRun) -> str:
    """Return whether something repeated became slower or faster: what the eye looks for."""
    slower, faster = _seen(run, 1), _seen(run, -1)
    said = [f"{number} {word}" for number, word in ((slower, "slower"), (faster, "faster")) if number]
    return f"{', '.join(said)}: " if said else ""


def _figure(view: HistoryView) -> NotebookFigure:
    from kernelscope.views.charts import COLORS, figure_of, label, sentence, unit_of

    title = f"Runs of {label(view.title)}"
    shown = [each for each in view.runs[-MOST_RUNS:] if each.parts]
    if not shown:
        return sentence(title, "No run of the cell has a wall time.")
    scale, unit = unit_of(max(sum(each.parts.values()) for each in shown))
    places = list(range(len(shown)))
    names = [label(shorten(clean(f"{each.label} {each.source}".strip()), _NAME)) for each in shown]
    figure = figure_of(title, 400)
    held = [_parts(each) for each in shown]
    for at, (name, said, _) in enumerate(held[0]):
        values = [each[at][2] for each in held]
        if any(values):
            figure.add_bar(
                x=places, y=[value / scale for value in values], name=said, customdata=names,
                marker={"color": PART_COLORS.get(name, COLORS[-1]), "line": {"width": 0}},
                hovertemplate=f"%{{customdata}}<br>{said}: %{{y:,.4~g}} {unit}<extra></extra>")
    compiles = [each.compiles or 0 for each in shown]
    if any(compiles):
        figure.add_scatter(
            x=places, y=compiles, name="compiles (right)", yaxis="y2", mode="lines+markers", customdata=names,
            line={"color": "#7b828c", "width": 1.2, "dash": "dot"}, marker={"size": 6},
            hovertemplate="%{customdata}<br>%{y} compiles<extra></extra>")
        figure.update_layout(yaxis2={"overlaying": "y", "side": "right", "rangemode": "tozero", "showgrid": False,
                                     "tickmode": "linear", "dtick": -(-max(compiles) // 5),
                                     "title": {"text": "compiles"}, "automargin": True})
    for sign, word, color in ((1, "slower", "#d55e00"), (-1, "faster", "#009e73")):
        marked = [at for at in places if _seen(shown[at], sign)]
        if marked:
            figure.add_scatter(
                x=marked, y=[sum(shown[at].parts.values()) / scale for at in marked], mode="markers", cliponaxis=False,
                name=f"{word} than the run before", hovertemplate="%{customdata}<extra></extra>",
                customdata=[_hover(shown[at]) for at in marked],
                marker={"symbol": "triangle-up" if sign > 0 else "triangle-down", "size": 12, "color": color})
    figure.update_layout(barmode="stack", bargap=0.3, yaxis={"title": {"text": unit}, "rangemode": "tozero"})
    figure.update_xaxes(tickmode="array", tickvals=places, ticktext=names, showgrid=False, zeroline=False)
    return figure


def _hover(run: CellRun) -> str:
    from kernelscope.views.charts import label

    assert run.changes is not None
    return label(f"{_mark(run)}{summary_line(run.changes)}")
