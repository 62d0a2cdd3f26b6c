"""``compare`` and ``history``: two recordings beside each other, and the runs of a cell."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from kernelscope.analysis.launches import cell_label
from kernelscope.commands import output
from kernelscope.commands.inspect import session_recordings
from kernelscope.commands.output import loaded, print_answer
from kernelscope.commands.show import find_cell, find_cell_row
from kernelscope.commands.verb import Verb, add_json, number
from kernelscope.errors import KernelScopeError, RecordingFileError, StudyArgumentError, UnknownCellError
from kernelscope.features.compare.analyse import CONDITIONS, Difference
from kernelscope.features.compare.history import MOST_RUNS, HistoryView
from kernelscope.features.compare.runs import Source, previous_run, runs_of
from kernelscope.features.compare.view import FIRST_ROWS, ComparisonView, compare, compared_text, title_of
from kernelscope.progress import Progress
from kernelscope.recording.file import load, load_cells
from kernelscope.recording.model import Recording
from kernelscope.recording.redact import shareable
from kernelscope.suggestions import did_you_mean
from kernelscope.views.answer import DEFAULT_LIMIT, FailOverMembers, Many, written
from kernelscope.views.base import clean

if TYPE_CHECKING:
    from kernelscope.commands.session import NotebookSession

#: The exit code beside 0 and those of all verbs: over the limit of ``--fail-over``, or a condition of ``--fail-on``.
OVER = 3

_ABOUT = f"""\
Show what differs between two .kscope files, the earlier one first: what is new, gone or changed among kernels,
specializations, launch configurations, compiles, graphs, lines of code, NVTX ranges and processes; and where launches
or kernels became faster or slower, with intervals that hold for all of them together.

--fail-over P ends with exit code {OVER} where something is established to be slower, and its best estimate is above P
percent. --fail-on ends with it where one of its conditions holds:
{chr(10).join(f'  {name:<15} {said}' for name, (said, _) in CONDITIONS.items())}

Exit codes: 0 done; 1 an error, such as a file that cannot be read; 2 wrong arguments; {OVER} as said; 130
interrupted."""

_HISTORY = """\
Show the runs of a cell in the .kscope files of a folder, and of the folders in it: how long each took and with what,
how many compiles there were, and what changed since the run before. CELL is a cell's name or number; runs are cells of
the same name, or of the same source."""


def _arguments(parser: argparse.ArgumentParser, in_notebook: bool) -> None:
    if in_notebook:
        parser.add_argument("cells", metavar="CELL", nargs="*",
                            help="two numbers or names of cells, the earlier first; of one its run before, too")
        parser.add_argument("--last", action="store_true",
                            help="the newest recorded cell and its run before, which is so without a CELL too")
        parser.add_argument("--timeline", action="store_true", help="show both in one timeline as well")
        return
    parser.add_argument("files", metavar="FILE.kscope", nargs=2)
    parser.add_argument("--cell", metavar="N", nargs="+",
                        help="of one cell only: its execution count or name; a second one is that of the second file")
    parser.add_argument("--fail-over", metavar="P", help="exit code 3 where something is slower by more than P percent")
    parser.add_argument("--fail-on", metavar="WHAT,...", type=_conditions,
                        help=f"exit code 3 where one of these holds: {', '.join(CONDITIONS)}")
    parser.add_argument("--html", metavar="OUT.html", help="write it as a page")
    add_json(parser, rows=False)
    parser.add_argument("--limit", metavar="ROWS", type=number("a number of rows", 0),
                        help=f"how many rows a table, or a list of --json, has at most; 0 for all (default: "
                             f"{FIRST_ROWS}, of --json as many as fit)")


def _conditions(text: str) -> list[str]:
    """Read the conditions of ``--fail-on``."""
    names = [each.strip() for each in text.split(",") if each.strip()]
    for name in names:
        if name not in CONDITIONS:
            known = did_you_mean(name, CONDITIONS) or f"; known: {', '.join(CONDITIONS)}"
            raise argparse.ArgumentTypeError(f"{name!r} is no condition{known}")
    if not names:
        raise argparse.ArgumentTypeError(f"no condition is named; known: {', '.join(CONDITIONS)}")
    return names


def main(arguments: argparse.Namespace) -> int:
    """Print or write the comparison; return the exit code."""
    limit = None
    if arguments.fail_over is not None:
        from kernelscope.studies.result import parse_percent

        try:
            limit = parse_percent(arguments.fail_over)
        except StudyArgumentError as error:
            arguments.parser.error(f"argument --fail-over: {error}")
    cells = arguments.cell or []
    if len(cells) > 2:
        arguments.parser.error(f"--cell names one cell, or one of each file: not {len(cells)}")
    recordings = [loaded(file) for file in arguments.files]
    names = [Path(file).name for file in arguments.files]
    view = compared(recordings, names, cells)
    page = view.to_html(arguments.html) if arguments.html else None
    over = None if limit is None else _over(view, limit)
    held = {name: CONDITIONS[name][1](view.changes) for name in arguments.fail_on or ()}
    failed = (over is not None and over.failed) or any(held.values())
    if arguments.json:
        print_answer(view.answer(arguments.limit, {
            "fail_over": None if over is None else over.member(),
            "fail_on": None if arguments.fail_on is None else {
                "asked": Many(arguments.fail_on, weight=2),
                "held": Many([name for name in held if held[name]], lambda name: {
                    "condition": name, "cases": Many(held[name], weight=2)})},
            "written": None if page is None else written([page])}))
        return OVER if failed else 0
    rows = FIRST_ROWS if arguments.limit is None else arguments.limit or sys.maxsize
    print(compared_text(view, limit=rows) if page is None else f"wrote {page}", flush=True)
    for line in () if over is None else over.lines:
        print(line, file=sys.stderr)
    for name, cases in held.items():
        for each in cases[:rows]:
            print(f"kernelscope: {name}: {clean(each)}", file=sys.stderr)
    return OVER if failed else 0


def compared(recordings: Sequence[Recording], names: Sequence[str], cells: Sequence[str]) -> ComparisonView:
    """Return the comparison of two recordings by name; of `cells` only, one of each of them or one name for both.

    Raises
    ------
    UnknownCellError
        There is no such cell.
    """
    if cells:
        recordings = [find_cell([each], cells[min(at, len(cells) - 1)]) for at, each in enumerate(recordings)]
        names = [f"{title_of(each)} of {name}" for each, name in zip(recordings, names, strict=True)]
    return ComparisonView(recordings[0], recordings[1], (names[0], names[1]))


class _Limit(NamedTuple):
    """What became of ``--fail-over``: as studies say it, in lines."""

    limit_percent: float
    outcome: str
    compared: int
    failed: bool
    lines: list[str]

    def member(self) -> FailOverMembers:
        """Return it as an answer has it."""
        return {"limit_percent": self.limit_percent, "outcome": self.outcome, "compared": self.compared,
                "lines": Many(self.lines)}


def _over(view: ComparisonView, limit: float) -> _Limit:
    """Return what is over a limit in percent."""
    from kernelscope.studies.result import check

    found = check([_as_study(each) for each in view.differences], limit)
    # Where an interval only reaches above the limit, nothing fails: how many do is enough to know.
    lines = (str(replace(found, unsure=())).splitlines() if found.compared else
             ["nothing was compared: no kernel has enough launches in both"])
    if found.unsure:
        lines.append(f"of {len(found.unsure):,} of {found.compared:,} differences the interval reaches above "
                     f"{limit:g} %: that they are within it is not established")
    return _Limit(limit, found.outcome, found.compared, found.failed, lines)


def _as_study(each: Difference) -> Any:
    from kernelscope.studies.result import Difference as StudyDifference

    by_us = each.before_ns / 1e5
    return StudyDifference(
        each.name, each.measure, "", False, (each.after_ns - each.before_ns) / 1e3, each.low_percent * by_us,
        each.high_percent * by_us, each.percent, each.low_percent, each.high_percent, each.verdict, each.advice)


def _magic(session: NotebookSession, asked: argparse.Namespace) -> None:
    """Show two cells of this session beside each other."""
    if len(asked.cells) > 2:
        asked.parser.error(f"compare takes two cells, or one and its run before: not {len(asked.cells)}")
    if asked.last and asked.cells:
        asked.parser.error("--last is about the newest recorded cell: leave out CELL")
    if len(asked.cells) == 2:
        before, after = (find_cell(session.recordings, each) for each in asked.cells)
    else:
        after = find_cell(session.recordings, asked.cells[0] if asked.cells else None)
        # Those before `after`; all, where it is a part of one.
        places = [at for at, each in enumerate(session.recordings) if each is after]
        earlier = previous_run(list(session.recordings[:places[0]]) if places else list(session.recordings), after)
        if earlier is None:
            raise UnknownCellError(f"no earlier run of {title_of(after)} was recorded: a run is of the same cell where "
                                   "its source is the same, or its name")
        before = earlier
    view = compare(before, after)
    output.publish(session.shell, repr(view), view._repr_html_)
    if asked.timeline:
        view.timeline()._ipython_display_()


def _history_arguments(parser: argparse.ArgumentParser, in_notebook: bool) -> None:
    if in_notebook:
        parser.add_argument("cell", metavar="CELL", nargs="?", help="the cell's number or name; the newest without")
        parser.add_argument("--in", dest="folder", metavar="FOLDER",
                            help="the runs in the .kscope files of this folder, too")
        return
    parser.add_argument("folder", metavar="FOLDER", help="where the .kscope files are; or one file")
    parser.add_argument("cell", metavar="CELL", help="a cell's name, or its number in the newest file that has it")
    parser.add_argument("--html", metavar="OUT.html", help="write a page with the chart")
    add_json(parser)


def history(cell: str | int | None = None, folder: str | Path | None = None,
            recordings: Iterable[Recording] | None = None, *, most: int | None = None) -> HistoryView:
    """Return the runs of a cell: how long each took and with what, its compiles, and what changed since the one before.

    A notebook shows it as a chart, a terminal as a table; ``figure()`` is a Plotly figure, ``to_frame()`` a DataFrame.

    Parameters
    ----------
    cell : str or int, optional
        A cell's name or execution count; the newest one without. Cells of the same name, or of the same source, are its
        runs.
    folder : str or Path, optional
        A folder with ``.kscope`` files, in folders of it too; or one file.
    recordings : iterable of Recording, optional
        Where else to look, the oldest first; this session's recordings if nothing is given.
    most : int, optional
        At most so many runs, the newest; older ones are counted. A file is loaded only if it has a run that is shown.

    Raises
    ------
    UnknownCellError
        There is no such cell; the message lists those that there are.
    RecordingFileError
        The folder is not there, or no file of it can be read.
    """
    held = session_recordings() if recordings is None else list(recordings)
    missing: list[str] = []
    files = [] if folder is None else _read(Path(folder).expanduser(), missing)
    session = [Source("", recording, partial(_itself, recording)) for recording in held]
    return history_of(cell, [*files, *session], missing, most)


def _itself(recording: Recording) -> Recording:
    return recording


def history_of(cell: str | int | None, sources: Sequence[Source], missing: Sequence[str], most: int | None = None,
               progress: Progress | None = None) -> HistoryView:
    """Return the same of sources, the oldest first; `missing` could not be read.

    Raises
    ------
    UnknownCellError
        There is no such cell.
    """
    sources = [replace(source, cells=shareable(source.cells)) for source in sources]
    cells = [source.cells for source in sources]
    _, row = find_cell_row(cells, None if cell is None else str(cell))
    result = runs_of(row, sources, most, progress)
    notices = dict.fromkeys(recording.notice for recording in cells if recording.notice)
    return HistoryView(row["name"] or cell_label(row), result.runs, " / ".join(notices),
                       [*missing, *result.unreadable], result.earlier)


def _read(folder: Path, missing: list[str]) -> list[Source]:
    """Return the recordings of a folder; those that cannot be read are said."""
    if not os.path.lexists(folder):
        raise RecordingFileError(f"there is no folder or file {str(folder)!r}")
    files = sorted(folder.rglob("*.kscope")) if folder.is_dir() else [folder]
    named = ((file.name if file == folder else file.relative_to(folder).as_posix(), file) for file in files)
    return oldest_first(named, str(folder), missing)


def oldest_first(files: Iterable[tuple[str, Path]], folder: str, missing: list[str],
                 read_cells: Callable[[Path], Recording] = load_cells,
                 read: Callable[[Path], Recording] = load) -> list[Source]:
    """Return the recordings of files by name; of those that cannot be read `missing` gets a line.

    Parameters
    ----------
    files : iterable of (str, Path)
        Names and paths.
    folder : str
        What a message calls where they are.
    missing : list of str
        Gets the lines.
    read_cells, read : callable, optional
        Read what `Source.cells` has, and the whole recording.

    Raises
    ------
    RecordingFileError
        None can be read.
    """
    sources: list[Source] = []
    for name, file in files:
        try:
            sources.append(Source(name, read_cells(file), partial(read, file)))
        except KernelScopeError as error:
            missing.append(f"{name}: {' '.join(str(error).removeprefix(f'{file.name}: ').split())}")
    if not sources:
        raise RecordingFileError(f"no .kscope file of {folder!r} can be read"
                                 + (f": {missing[0]}" if missing else ": there is none"))
    return sorted(sources, key=lambda source: str(source.cells.metadata.get("created") or ""))


def _history_main(arguments: argparse.Namespace) -> int:
    """Print or write the runs of a cell; return the exit code."""
    most = MOST_RUNS
    if arguments.json:
        rows = DEFAULT_LIMIT if arguments.limit is None else arguments.limit
        most = (max(rows, MOST_RUNS) if arguments.html else rows) or None
    view = history(arguments.cell, arguments.folder, [], most=most)
    page = view.to_html(arguments.html) if arguments.html else None
    if arguments.json:
        print_answer(view.answer(arguments.limit, None if page is None else written([page])))
    elif page is not None:
        print(f"wrote {page}")
    else:
        print(view)
    return 0


def _history_magic(session: NotebookSession, asked: argparse.Namespace) -> None:
    """Show the runs of a cell of this session."""
    history(asked.cell, asked.folder, session.recordings, most=MOST_RUNS)._ipython_display_()


VERBS = {"compare": Verb(_arguments, main, _magic, about=_ABOUT),
         "history": Verb(_history_arguments, _history_main, _history_magic, about=_HISTORY)}
