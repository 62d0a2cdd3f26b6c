"""Two recordings beside each other: as text, page and answer; both in one timeline; kernels of both as a diff."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypedDict

from kernelscope.analysis.launches import cell_label
from kernelscope.analysis.side_by_side import side_by_side
from kernelscope.features.compare.analyse import (
    CHANGED,
    GONE,
    NEW,
    ON_GPU,
    OTHER_PROCESS,
    SAME,
    SAME_PROCESS,
    Changes,
    Difference,
    Measure,
    Row,
    Section,
    Values,
    is_same_process,
    slowness_of,
)
from kernelscope.intervals import FASTER, NO_DIFFERENCE, SLOWER, TOO_NOISY
from kernelscope.recording.file import load
from kernelscope.recording.model import Recording
from kernelscope.recording.redact import shareable
from kernelscope.units import MISSING, count, counted, duration, percent, size
from kernelscope.views.answer import (
    Answer,
    FailOverMembers,
    HealthMembers,
    Many,
    OneOf,
    WrittenMembers,
    answer,
)
from kernelscope.views.base import clean, columns, cut, escape, shorten, table, with_notice, wrap, write_text
from kernelscope.views.card.answer import health_of
from kernelscope.views.card.verdict import GROUPS
from kernelscope.views.html import (
    document,
    folded,
    heading,
    left_out,
    name_of,
    style,
    style_element,
    table_of,
)
from kernelscope.views.parts import part_label

if TYPE_CHECKING:
    import pandas as pd

    from kernelscope.views.inspector.widget import InspectorWidget
    from kernelscope.views.timeline.widget import TimelineWidget

#: How many rows a table has in a text; a page has ten times as many.
FIRST_ROWS = 8

_NAME, _DETAIL = 40, 90
#: Host times of all launches that are nearer to each other need no word.
_ALIKE = 0.2
# Names have the room that numbers leave; where there is little, a row has its name on a line, and the rest below it.
_STYLE = """
.kscope .ks-rows table { table-layout: fixed; }
.kscope .ks-rows th:nth-child(1) { width: 54px; }
.kscope .ks-rows th:nth-child(2) { width: 38%; }
.kscope .ks-rows th:nth-child(4) { width: 22%; }
.kscope .ks-rows table.ks-table :is(th, td):first-child { min-width: 0; }
.kscope .ks-judged th:first-child { width: 36%; }
@container (max-width: 680px) {
  .kscope :is(.ks-rows, .ks-judged) thead { display: none; }
  .kscope :is(.ks-rows, .ks-judged) :is(table.ks-table, tbody) { display: block; }
  .kscope :is(.ks-rows, .ks-judged) tbody tr:nth-child(n) { display: flex; flex-wrap: wrap; gap: 0 12px;
    padding: 3px 4px; }
  .kscope :is(.ks-rows, .ks-judged) tr:nth-child(n) td:nth-child(n) { padding: 0; border: 0; min-width: 0; }
  .kscope .ks-rows td:nth-child(2) { flex: 1 0 calc(100% - 66px); width: 0; }
  .kscope .ks-rows td:nth-child(n + 3) { color: var(--ks-soft); }
  .kscope .ks-judged td:first-child { flex: 1 0 100%; }
  .kscope .ks-judged td:nth-child(4)::before { content: "→ "; }
  .kscope :is(.ks-rows, .ks-judged) tbody tr + tr { border-top: 1px solid var(--ks-line); }
}
"""
_MEASURES = {"host": "host time", "execute": "on the GPU"}


class ComparedRecordingMembers(TypedDict):
    """One of two compared recordings."""

    recording: str
    notice: str | None
    health: HealthMembers


Numbers = Annotated[Mapping[str, float | None], "by measure, as launches, compiles or host_ns; null is not known"]


class BothSidesMembers(TypedDict):
    """Numbers of both recordings; null where it is not there."""

    before: Numbers | None
    after: Numbers | None


class ComparedTimeMembers(TypedDict):
    """A part of the wall time in both recordings."""

    part: str
    what: str
    before_ns: float
    after_ns: float


class JudgedMembers(TypedDict):
    """How many differences have which verdict."""

    slower: int
    faster: int
    too_noisy: int
    no_difference_seen: int


class LaunchDifferenceMembers(TypedDict):
    """How the times of a kernel or graph differ."""

    name: Annotated[str, "the kernel or graph"]
    signature: str
    configuration: Annotated[str, "the launch configuration where it is the time on the GPU"]
    measure: Annotated[str, "host, a phase of a launch, or execute, the time on the GPU"]
    before_ns: float
    after_ns: float
    percent: Annotated[float, "positive is slower; low_percent and high_percent are its interval"]
    low_percent: float
    high_percent: float
    verdict: str
    advice: str
    before_launches: int
    after_launches: int


class ChangedRowMembers(TypedDict):
    """A thing that is new, gone or changed."""

    name: str
    detail: str | None
    status: Annotated[str, OneOf((NEW, GONE, CHANGED))]
    before: Numbers | None
    after: Numbers | None


class ComparedSectionMembers(TypedDict):
    """Things of one kind, matched by what they are."""

    title: str
    counts: Annotated[Mapping[str, int], "how many rows are new, gone, changed or same"]
    changed: Many[ChangedRowMembers]


class HeldConditionMembers(TypedDict):
    """A condition that held."""

    condition: str
    cases: Many[str]


class FailOnMembers(TypedDict):
    """What became of the conditions of --fail-on."""

    asked: Many[str]
    held: Annotated[Many[HeldConditionMembers], "the conditions that held; the exit code is 3 then"]


class OutcomeMembers(TypedDict):
    """What became of the options of a comparison."""

    fail_over: FailOverMembers | None
    fail_on: FailOnMembers | None
    written: Many[WrittenMembers] | None


class ComparisonAnswer(Answer, OutcomeMembers):
    """What kernelscope compare and the tool compare of kernelscope mcp say."""

    before: ComparedRecordingMembers
    after: ComparedRecordingMembers
    totals: Annotated[BothSidesMembers, "sums over each recording"]
    time: Annotated[Many[ComparedTimeMembers], "where the wall time of the cells went"]
    judged: Annotated[JudgedMembers, "how many differences have which verdict"]
    differences: Annotated[Many[LaunchDifferenceMembers],
        "what repeats: slower first, then faster, too noisy, no difference seen; the largest first"]
    sections: Annotated[Mapping[str, ComparedSectionMembers],
        "what is matched by what it is, by kind: kernels, compiles, specializations, configurations, graphs, "
        "builds, copies, lines, ranges, processes, errors; those with a change"]
    changed_besides: Annotated[Many[str], "what else changed, so that a difference may not be the code's"]
    notes: Many[str]


class ComparisonView:
    """What differs between two recordings: see `compare`.

    Parameters
    ----------
    before, after : Recording
        The two.
    names : tuple of str
        What to call them.

    Attributes
    ----------
    before, after : Recording
        The same.
    names : tuple of str
        The same; told apart where they were equal.
    changes : Changes
        The data: see `kernelscope.features.compare.analyse`.
    """

    def __init__(self, before: Recording, after: Recording, names: tuple[str, str]) -> None:
        self.before, self.after = before, after
        self.names = names if names[0] != names[1] else (f"{names[0]}, first", f"{names[1]}, second")
        self.changes = Changes(shareable(before), shareable(after))

    @property
    def differences(self) -> tuple[Difference, ...]:
        """What repeats, with intervals and verdicts: slower, faster, too noisy, no difference seen."""
        return self.changes.differences

    @property
    def sections(self) -> tuple[Section, ...]:
        """What is matched by what it is: kernels, compiles, specializations, graphs, lines of code, and so on."""
        return self.changes.sections

    @property
    def summary(self) -> str:
        """What changed, in one line."""
        return summary_line(self.changes)

    def over(self, limit_percent: float) -> tuple[Difference, ...]:
        """Return what is slower by more than a limit in percent, the largest first."""
        return self.changes.over(limit_percent)

    def to_frame(self) -> pd.DataFrame:
        """Return `differences` as a DataFrame, one row each; times are in nanoseconds.

        Columns are ``name``, ``signature``, ``configuration``, ``measure``, ``before_ns``, ``after_ns``, ``percent``,
        ``low_percent``, ``high_percent``, ``verdict``, ``advice``, ``before_launches`` and ``after_launches``.
        """
        import pandas as pd

        names = ("name", "signature", "configuration", "measure", "before_ns", "after_ns", "percent", "low_percent",
                 "high_percent", "verdict", "advice")
        rows = [(*(getattr(each, name) for name in names), *each.launches) for each in self.differences]
        return pd.DataFrame(rows, columns=[*names, "before_launches", "after_launches"])

    def answer(self, limit: int | None = None, members: OutcomeMembers | None = None) -> dict[str, Any]:
        """Return the same as an answer for programs.

        Parameters
        ----------
        limit : int, optional
            That of `kernelscope.views.answer.answer`.
        members : mapping, optional
            What else it says: ``fail_over``, ``fail_on``, ``written``.
        """
        return answer(ComparisonAnswer, _members(
            self, members or {"fail_over": None, "fail_on": None, "written": None}), limit)

    def to_html(self, path: str | Path) -> Path:
        """Write a page that needs no network, and return its path.

        Raises
        ------
        RecordingFileError
            It cannot be written, or would take the place of a recording.
        """
        return write_text(path, ".html", document("Comparison · KernelScope", f"<main>{self._repr_html_()}</main>"))

    @cached_property
    def together(self) -> Recording:
        """Both as one recording, which begin at the same time: see `kernelscope.analysis.side_by_side`."""
        return side_by_side(self.before, self.after, (f"1: {self.names[0]}", f"2: {self.names[1]}"))

    def timeline(self, height: int | None = None) -> TimelineWidget:
        """Return the timeline of both, one above the other, aligned at the start of their first cells.

        Parameters
        ----------
        height : int, optional
            Its height in pixels.

        Raises
        ------
        ValueError
            One is of a dry run or the simulator and the other is not; or the height is not positive.
        """
        from kernelscope.views.timeline.widget import TimelineWidget

        return TimelineWidget(self.together, height)

    def inspect(self, kernel: str) -> InspectorWidget:
        """Return the inspector with the specializations of both recordings, which can be compared as any two.

        As text it is a diff of those that both have: types and resources, and code where it was recorded.

        Parameters
        ----------
        kernel : str
            Its qualified name, or the last part of it.

        Raises
        ------
        UnknownKernelError
            Neither recording has such a kernel.
        ValueError
            One is of a dry run or the simulator and the other is not.
        """
        from kernelscope.views.inspector.both import DiffInspector

        return DiffInspector(self.together, kernel)

    def _repr_html_(self) -> str:
        return compared_html(self)

    def __repr__(self) -> str:
        return compared_text(self)

    def __str__(self) -> str:
        return repr(self)


def compare(before: Recording | str | Path, after: Recording | str | Path) -> ComparisonView:
    """Return what differs between two recordings, such as two runs of a cell.

    Kernels, specializations, launch configurations, compiles, graphs, lines, NVTX ranges and processes are matched by
    what they are: some are new, gone, or changed. Host times of launches by phase, times on the GPU, and graph launches
    have intervals, and verdicts: slower, faster, no difference seen, too noisy. What happens once is counted.

    Parameters
    ----------
    before, after : Recording, str or Path
        The two, or their files. A cell of a recording of several is ``recording.select(cell=0)``.

    Returns
    -------
    ComparisonView
        Displaying it shows what changed. ``summary`` is a line, ``differences`` and ``sections`` the data;
        ``timeline()`` and ``inspect(kernel)`` show both together.

    Raises
    ------
    RecordingFileError
        A file cannot be read.
    """
    found = [each if isinstance(each, Recording) else load(each) for each in (before, after)]
    names = [title_of(each) if isinstance(given, Recording) else Path(given).name
             for each, given in zip(found, (before, after), strict=True)]
    return ComparisonView(found[0], found[1], (names[0], names[1]))


def compare_with(recording: Recording, other: Recording | str | Path) -> ComparisonView:
    """Return what differs in another recording, a later one of the same thing: see `kernelscope.compare`."""
    return compare(recording, other)


def title_of(recording: Recording) -> str:
    """Return what to call a recording: its only cell, or its name."""
    cells = recording.rows("cells")
    return cell_label(cells[0]) if len(cells) == 1 else recording.name or "recording"


# What changed, in one line.

def summary_line(changes: Changes) -> str:
    """Return what changed, in one line: ``2 compiles fewer (-128 ms), launches 1.90 ms → 1.20 ms, GPU unchanged``."""
    totals = changes.totals
    (row,) = totals.rows
    assert row.before is not None and row.after is not None
    keys = [each.key for each in totals.measures]
    was, now = (dict(zip(keys, side, strict=True)) for side in (row.before, row.after))
    parts: list[str] = []
    for key, noun in (("errors", "error"), ("compiles", "compile"), ("disk", "load from disk")):
        old, new = was[key], now[key]
        more = 0 if old is None or new is None else int(new - old)
        if more:
            many = counted(abs(more), noun, "loads from disk" if key == "disk" else None)
            spent = (now["compile_ns"] or 0) - (was["compile_ns"] or 0)
            took = ""
            if key == "compiles" and spent:
                is_alike = (spent > 0) is (more > 0)
                took = f" ({_signed_duration(spent) if is_alike else _arrow(was['compile_ns'], now['compile_ns'])})"
            parts.append(f"{many} {'more' if more > 0 else 'fewer'}{took}")
    old_launches, new_launches = was["launches"] or 0, now["launches"] or 0
    kernels = changes.section("kernels")
    is_same_work = all(was[key] == now[key] for key in ("launches", "captured", "graph_launches")) and (
        kernels is None or all(row.status == SAME for row in kernels.rows))
    for label, key, is_gpu in (("launches", "host_ns", False), ("GPU", "gpu_ns", True)):
        old, new = was[key], now[key]
        if old_launches != new_launches and not is_gpu:
            took = f" ({_arrow(old, new)})" if old is not None and new is not None else ""
            parts.append(f"{count(old_launches)} → {counted(int(new_launches), 'launch', 'launches')}{took}")
            continue
        if old is None or new is None or not (old or new):
            continue
        own = [each for each in changes.differences if (each.measure == "execute") is is_gpu]
        took = f"{label} {_arrow(old, new)}"
        if not is_same_work or any(each.is_seen for each in own):
            parts.append(took)
        elif _is_mostly_unchanged([each for each in own if each.measure in ("host", "execute")]):
            is_alike = is_gpu or not old or abs(new / old - 1) < _ALIKE
            why = "not told apart" if slowness_of(changes.before, changes.after) is None else (
                "as the processor's speed explains")
            parts.append(f"{label} unchanged" if is_alike else f"{took} ({why})")
        else:
            parts.append(f"{took} ({'too noisy' if own else 'too few'} to tell)")
    return ", ".join(parts) or "nothing changed"


def _is_mostly_unchanged(differences: Sequence[Difference]) -> bool:
    """Return whether at least as many show no difference as are too noisy to show one."""
    unseen = sum(each.verdict == NO_DIFFERENCE for each in differences)
    return 0 < unseen >= len(differences) - unseen


def _arrow(old: float | None, new: float | None) -> str:
    return f"{duration(old)} → {duration(new)}"


def _signed_duration(value: float) -> str:
    sign = "" if round(value) == 0 else "+" if value > 0 else "−"  # noqa: RUF001 - a minus is meant
    return f"{sign}{duration(abs(value))}"


def _signed_percent(value: float) -> str:
    return percent(0) if not value else f"{'+' if value > 0 else '−'}{percent(abs(value) / 100)}"  # noqa: RUF001


# What both forms show, as text that is formatted.

class _Part(NamedTuple):
    """A table of the comparison: its title, figures, labels and rows, how many are left out, and lines below rows."""

    key: str
    title: str
    figures: str
    labels: tuple[str, ...]
    rows: list[tuple[str, ...]]
    more: int
    left: tuple[int, ...]
    below: tuple[str, ...] = ()


def _parts(view: ComparisonView, limit: int) -> list[_Part]:
    changes = view.changes
    (row,) = changes.totals.rows
    assert row.before is not None and row.after is not None
    rows = [(each.label, _value(each, old), _value(each, new), _delta(each, old, new))
            for each, old, new in zip(changes.totals.measures, row.before, row.after, strict=True) if old or new]
    found = [_Part("totals", "In all", "", ("", "before", "after", "difference"), rows, 0, (0,)) if rows else None,
             _time_part(changes), _judged_part(changes, limit)]
    found += [_section_part(each, limit) for each in changes.sections if each.changed]
    return [each for each in found if each is not None]


def _time_part(changes: Changes) -> _Part | None:
    rows = [(label, duration(old), duration(new), _signed_duration(new - old))
            for _, label, old, new in _time(changes)]
    return _Part("time", "Wall time", "", ("", "before", "after", "difference"), rows, 0, (0,)) if rows else None


def _time(changes: Changes) -> list[tuple[str, str, float, float]]:
    """Return where the wall time went before and after, by the parts that the card has: name, label, nanoseconds."""
    held = {row.name: row for row in changes.time.rows}
    rows: list[tuple[str, str, float, float]] = []
    for name, parts in GROUPS.items():
        old, new = (sum(side[0] or 0 for part in parts if part in held and (side := _side(held[part], at)) is not None)
                    for at in (0, 1))
        if old or new:
            rows.append((name, part_label(name), old, new))
    return rows


def _side(row: Row, at: int) -> Values | None:
    return (row.before, row.after)[at]


def _judged_part(changes: Changes, limit: int) -> _Part | None:
    if not changes.differences:
        return None
    seen = changes.seen
    rows = [(shorten(clean(each.name), _NAME), _MEASURES.get(each.measure, each.measure),
             duration(each.before_ns), duration(each.after_ns), _signed_percent(each.percent),
             f"{_signed_percent(each.low_percent)} to {_signed_percent(each.high_percent)}", each.verdict)
            for each in seen[:limit]]
    return _Part("differences", "Faster or slower", verdicts_text(changes.differences),
                 ("a launch of", "measure", "before", "after", "difference", "interval", "verdict"), rows,
                 len(seen) - len(rows), (0, 1, 6), tuple(clean(each.configuration) for each in seen[:limit]))


def verdicts_text(differences: Sequence[Difference]) -> str:
    """Return how many differences have which verdict."""
    unseen = [each for each in differences if each.verdict == NO_DIFFERENCE]
    numbers = [(sum(each.percent > 0 for each in differences if each.is_seen), "slower"),
               (sum(each.percent < 0 for each in differences if each.is_seen), "faster"),
               (len(unseen), NO_DIFFERENCE),
               (sum(each.verdict == TOO_NOISY for each in differences), TOO_NOISY)]
    return ", ".join(f"{number:,} {word}" for number, word in numbers if number)


def _section_part(section: Section, limit: int) -> _Part:
    held = section.changed
    rows = [(row.status, shorten(clean(row.name), _NAME), _numbers(section.measures, row),
             shorten(clean(row.detail), _DETAIL)) for row in held[:limit]]
    counts = section.counts()
    figures = ", ".join(f"{number:,} {status}" for status, number in counts.items())
    return _Part(section.key, section.title, figures, ("", "", "", ""), rows, len(held) - len(rows), (0, 1, 2, 3))


def _numbers(measures: Sequence[Measure], row: Row) -> str:
    """Return a row's numbers: of one that is new or gone those that it has, else those that differ, and times."""
    if row.before is None or row.after is None:
        side = row.after or row.before or ()
        return ", ".join(f"{each.label} {_value(each, value)}"
                         for each, value in zip(measures, side, strict=True) if value)
    return ", ".join(f"{each.label} {_value(each, old)} → {_value(each, new)}"
                     for each, old, new in zip(measures, row.before, row.after, strict=True)
                     if old != new and (each.is_exact or old or new))


def _value(measure: Measure, value: float | None) -> str:
    if value is None:
        return MISSING
    return {"ns": duration, "bytes": size}.get(measure.unit, count)(value)


def _delta(measure: Measure, old: float | None, new: float | None) -> str:
    if old is None or new is None or old == new:
        return ""
    more = new - old
    return _signed_duration(more) if measure.unit == "ns" else (
        f"{'+' if more > 0 else '−'}{_value(measure, abs(more))}")  # noqa: RUF001


def _notes(changes: Changes) -> Iterable[tuple[str, tuple[str, ...]]]:
    margin = ("An interval has a margin for what differs between two runs of the same code: "
              + (f"{percent(SAME_PROCESS)} of the first, for two cells of one process ({percent(ON_GPU)} on the GPU)."
                 if is_same_process(changes.before, changes.after)
                 else f"{percent(OTHER_PROCESS)} of the first, for two processes."))
    yield "Changed besides, so that a difference may not be the code's", changes.changes
    yield "To know", (*changes.notes, *((margin,) if changes.differences else ()))


def _heading(view: ComparisonView) -> str:
    return f"{view.names[1]} against {view.names[0]}"


def _notice(view: ComparisonView) -> str:
    return " / ".join(dict.fromkeys(each.notice for each in (view.before, view.after) if each.notice))


def compared_text(view: ComparisonView, width: int | None = None, limit: int = FIRST_ROWS) -> str:
    """Return a comparison as lines of text, at most `width` columns wide, and `limit` rows of each table."""
    width = columns(width)
    blocks = ["\n".join([shorten(clean(f"KernelScope: {_heading(view)}"), width),
                         wrap(clean(view.summary), width, hanging=2)])]
    for part in _parts(view, limit):
        lines = [wrap(f"{part.title}: {part.figures}" if part.figures else part.title, width, hanging=2)]
        if part.rows and any(part.labels):
            below = [[each] if each else [] for each in part.below] or None
            lines.append(table(part.labels, part.rows, width, left=part.left, below=below))
        else:
            lines += [line for row in part.rows for line in _row_lines(row, width)]
        blocks.append("\n".join([*lines, *([f"  and {part.more:,} more"] if part.more else [])]))
    for title, sentences in _notes(view.changes):
        if sentences:
            blocks.append("\n".join([title, *(wrap(clean(each), width, 2, hanging=2) for each in sentences)]))
    return with_notice(_notice(view), "\n\n".join(blocks))


def _row_lines(row: Sequence[str], width: int) -> list[str]:
    status, name, numbers, detail = row
    head = wrap(f"{status:<7}  {name}{f': {numbers}' if numbers else ''}", width, 2, hanging=9)
    return [head, *([shorten(f"{'':11}{detail}", width)] if detail else [])]


def compared_html(view: ComparisonView, limit: int = 10 * FIRST_ROWS) -> str:
    """Return a comparison as a self-contained fragment of HTML."""
    title = escape(cut(_heading(view)))
    notice = f'<span class="ks-notice" role="note">{escape(_notice(view))}</span>' if _notice(view) else ""
    body = [f'<div class="ks-top"><span class="ks-title" role="heading" aria-level="3">{title}</span> {notice} '
            f'<span class="ks-maker">KernelScope</span></div><div class="ks-verdict">{escape(view.summary)}</div>']
    body.extend(map(_part_html, _parts(view, limit)))
    for heading_text, sentences in _notes(view.changes):
        if sentences:
            items = "".join(f"<li>{escape(each)}</li>" for each in sentences)
            body.append(f'{heading(heading_text)}<ul class="ks-list">{items}</ul>')
    return f'{style_element(style(), _STYLE)}<div class="kscope">{"".join(body)}</div>'


def _part_html(part: _Part) -> str:
    if any(part.labels):
        labels = part.labels
        name_at = 0 if part.below else -1
    else:
        labels, name_at = ("", "Name", "Numbers", "What it is"), 1
    below = part.below or ("",) * len(part.rows)
    rows = ["".join(f'<td class="ks-left">{name_of(cell) if at == name_at else escape(cell)}'
                    f'{f"<small>{escape(under)}</small>" if under and at == name_at else ""}</td>'
                    if at in part.left else f"<td>{escape(cell)}</td>" for at, cell in enumerate(row))
            for row, under in zip(part.rows, below, strict=True)]
    made = table_of([("", each[:1].upper() + each[1:], "") for each in labels], rows, left=part.left, dense=True,
                    label=part.title) if rows else ""
    if part.key not in ("totals", "time"):
        made = f'<div class="{"ks-judged" if part.key == "differences" else "ks-rows"}">{made}</div>' if made else ""
    made += left_out(part.more)
    if part.key in ("totals", "differences"):
        return heading(part.title, part.figures) + made
    figures = f": {escape(part.figures)}" if part.figures else ""
    return folded(f"<b>{escape(part.title)}</b>{figures}", made, is_open=part.key in ("kernels", "compiles", "errors"))


# For programs.

def _members(view: ComparisonView, outcome: OutcomeMembers) -> ComparisonAnswer:
    changes = view.changes
    judged = Counter(each.verdict for each in changes.differences)

    def side(name: str, recording: Recording) -> ComparedRecordingMembers:
        return {"recording": name, "notice": recording.notice or None, "health": health_of(recording)}

    def row(section: Section, each: Row) -> ChangedRowMembers:
        return {"name": each.name, "detail": each.detail or None, "status": each.status,
                **_both(section.measures, each)}

    def part(section: Section) -> ComparedSectionMembers:
        return {"title": section.title, "counts": section.counts(),
                "changed": Many(section.changed, lambda each: row(section, each))}

    return {
        "verdict": f"{_heading(view)}: {view.summary}.",
        "before": side(view.names[0], view.before), "after": side(view.names[1], view.after),
        "totals": _both(changes.totals.measures, changes.totals.rows[0]),
        "time": Many(_time(changes), lambda each: {
            "part": each[0], "what": each[1], "before_ns": each[2], "after_ns": each[3]}, weight=2),
        "judged": {"slower": judged[SLOWER], "faster": judged[FASTER], "too_noisy": judged[TOO_NOISY],
                   "no_difference_seen": judged[NO_DIFFERENCE]},
        "differences": Many(changes.differences, _difference),
        "sections": {each.key: part(each) for each in changes.sections if each.changed},
        "changed_besides": Many(changes.changes), "notes": Many(changes.notes), **outcome,
    }


def _both(measures: Sequence[Measure], row: Row) -> BothSidesMembers:
    """Return a row's numbers of both sides by measure."""
    def numbers(values: Values | None) -> Mapping[str, float | None] | None:
        return None if values is None else dict(zip([measure.key for measure in measures], values, strict=True))

    return {"before": numbers(row.before), "after": numbers(row.after)}


def _difference(each: Difference) -> LaunchDifferenceMembers:
    before, after = each.launches
    return {
        "name": each.name, "signature": each.signature, "configuration": each.configuration, "measure": each.measure,
        "before_ns": each.before_ns, "after_ns": each.after_ns, "percent": each.percent,
        "low_percent": each.low_percent, "high_percent": each.high_percent, "verdict": each.verdict,
        "advice": each.advice, "before_launches": before, "after_launches": after}
