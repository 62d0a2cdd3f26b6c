"""What each line of the user's code launched, compiled, had the GPU do, and waited for.

Work belongs to the line that gave it to the GPU, be it done later; a wait belongs to the line that waited. What has no
known line is a row of its own, so that the rows add up.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kernelscope.analysis.activities import COPY, is_gpu_recorded
from kernelscope.analysis.columns import (
    Bools,
    Ints,
    codes,
    count_by,
    data_frame,
    distinct,
    distinct_pairs,
    ids,
    instants,
    ints,
    matches,
    ran,
    row_count,
    rows_by,
    sum_by,
)
from kernelscope.analysis.compiling import compile_times_of, compiles_of
from kernelscope.analysis.launches import PHASES, LaunchPhases, PhaseTotals, launch_phases
from kernelscope.recording.model import Recording
from kernelscope.recording.time import duration_ns
from kernelscope.schema import UNKNOWN

if TYPE_CHECKING:
    import pandas as pd

#: The most places of a table of pairs; of more, the pairs are sorted.
_LARGEST_TABLE = 1 << 25


@dataclass(frozen=True)
class LineSummary:
    """One line of code, or what has no known line.

    Attributes
    ----------
    line_id : int or None
        Its row in ``lines``; None for what has no known line.
    file : str or None
        The file, or a cell as ``In[3]``.
    line : int or None
        The line's number, from 1.
    function : str or None
        The function that it is in; None outside of functions.
    text : str or None
        The line itself, without the blanks around it; None where it is not known.
    launches : int
        Launches that it made and that ran.
    kernels : tuple of str
        Names of the kernels that it launched, in order of their first launch in the recording; then of those that only
        CUPTI saw, such as a library's.
    totals : PhaseTotals
        Own host time of the launches, and its phases.
    compiles : int
        Compiles that it caused.
    compile_ns : int or None
        What those, and loads from a disk cache, took themselves; None where the end of none is known.
    call_ns : int or None
        How long its other CUDA calls took that gave work to the GPU: copies, memsets, graph launches, and launches that
        only CUPTI saw. None where the GPU was not recorded.
    gpu_ns : int or None
        How long the kernels, copies and memsets ran that it gave to the GPU; None where the GPU was not recorded, and
        where none of them was timed.
    copied_bytes : int or None
        What those copies copied; None where the GPU was not recorded.
    wait_ns : int or None
        How long it waited for the GPU; None where the GPU was not recorded, and for a line of which no wait is known
        while other waits have no known line.
    """

    line_id: int | None
    file: str | None
    line: int | None
    function: str | None
    text: str | None
    launches: int
    kernels: tuple[str, ...]
    totals: PhaseTotals
    compiles: int
    compile_ns: int | None
    call_ns: int | None
    gpu_ns: int | None
    copied_bytes: int | None
    wait_ns: int | None

    @property
    def host_ns(self) -> int | None:
        """Return own host time of the launches, in nanoseconds."""
        return self.totals.host_ns

    @property
    def parts(self) -> dict[str, int]:
        """Return the time of each part, named as in `kernelscope.views.parts`; `call` is of other CUDA calls."""
        return {"compile": max(self.compile_ns or 0, self.totals.compile_ns or 0),
                "compile_wait": self.totals.compile_wait_ns or 0, "measuring": self.totals.measuring_ns or 0,
                "launch": self.totals.launching_ns or 0, "call": self.call_ns or 0, "wait": self.wait_ns or 0}

    @property
    def cost_ns(self) -> int:
        """Return what rows are in order of: launches, other compiles and CUDA calls, and waits, in nanoseconds."""
        return sum(self.parts.values())


def by_line(recording: Recording, phases: LaunchPhases | None = None) -> list[LineSummary]:
    """Summarize each line that did anything, in order of host time and waits, longest first; then by GPU time.

    What has no known line comes last. Where nothing has a line, as in files that know of none, there are no rows.
    """
    size = row_count(recording, "lines") + 1  # the last stands for what has no line
    lines = {table: _lines(recording, table, size) for table in ("launches", "compilations", "activities")}
    if all((each == size - 1).all() for each in lines.values()):
        return []
    launches = count_by(lines["launches"], size, ran(recording))
    totals = (phases or launch_phases(recording)).totals_by(lines["launches"], size)
    compiles = count_by(lines["compilations"], size, compiles_of(recording))
    compile_ns = known_sums(lines["compilations"], compile_times_of(recording).own_ns, size)
    gpu = gpu_by(recording, lines["launches"], lines["activities"], size)
    used = launches + count_by(lines["compilations"], size) + count_by(lines["activities"], size)
    names = kernels_by(recording, lines["launches"], lines["activities"], size)
    rows: list[dict[str, Any]] = [*recording.rows("lines"), dict.fromkeys(("line_id", "file", "line", "function"))]
    texts = line_texts(recording)
    found = [
        LineSummary(
            line_id=rows[at]["line_id"], file=rows[at]["file"], line=rows[at]["line"], function=rows[at]["function"],
            text=texts.get(at), launches=int(launches[at]), kernels=names[at], totals=totals[at],
            compiles=int(compiles[at]), compile_ns=compile_ns[at], gpu_ns=gpu[at][0], copied_bytes=gpu[at][1],
            wait_ns=gpu[at][2], call_ns=gpu[at][3])
        for at in np.flatnonzero(used).tolist()
    ]
    return sorted(found, key=lambda each: (each.line_id is None, -each.cost_ns, -(each.gpu_ns or 0)))


def line_table(recording: Recording) -> pd.DataFrame:
    """Return `by_line` as a DataFrame.

    Its columns are ``file``, ``line``, ``function``, ``text``, ``launches``, ``kernels``, ``host_ns`` with the phases
    ``dispatch_ns``, ``compile_wait_ns``, ``prepare_ns``, ``submit_ns``, ``finish_ns`` and ``unsplit_ns``, ``compiles``,
    ``compile_ns`` (of all compiles: those of launches are in ``host_ns`` too), ``call_ns`` (other CUDA calls),
    ``gpu_ns``, ``wait_ns`` and ``copied_bytes``. The index is the line's id.
    """
    phases = {f"{name}_ns": f"totals.{name}_ns" for name in (*PHASES, "unsplit") if name != "compile"}
    numbers = ("host_ns", *phases, "compiles", "compile_ns", "call_ns", "gpu_ns", "wait_ns", "copied_bytes")
    kinds = {"line_id": "Int64", "file": "object", "line": "Int64", "function": "object", "text": "object",
             "launches": "Int64", "kernels": "object", **dict.fromkeys(numbers, "Int64")}
    return data_frame(by_line(recording), kinds, {
        **phases, "kernels": lambda each: ", ".join(each.kernels)}).set_index("line_id")


def gpu_times(recording: Recording) -> tuple[Ints, Ints]:
    """Return how long each activity lasted, and each launch ran whose kernel has no activity; -1 for unknown."""
    lasted = duration_ns(*instants(recording, "activities", "start_ns", "end_ns"))
    executed = ints(recording, "launches", "execute_ns")
    if bool((executed >= 0).any()):  # kernels that were timed otherwise have no activity
        has_activity = np.zeros(len(executed) + 1, bool)
        has_activity[ints(recording, "activities", "launch_id")] = True
        executed = np.where(has_activity[:-1], UNKNOWN, executed)
    return lasted, executed


def _lines(recording: Recording, table: str, size: int) -> Ints:
    """The line of each row of a table; the last of all for none."""
    found = ids(recording, table, "line_id")
    return np.where(found >= 0, found, size - 1) if found.min(initial=0) < 0 else found


def kernels_by(recording: Recording, lines: Ints, activities: Ints, size: int) -> list[tuple[str, ...]]:
    """Return the names of kernels by group, of launches first, then of other activities.

    `lines` and `activities` are the groups of the rows of ``launches`` and ``activities``, below `size`.
    """
    names: list[str] = recording.arrow("dispatchers").column("name").to_pylist()
    found: list[dict[str, None]] = [{} for _ in range(size)]
    for line, kernel in distinct_pairs(lines, ids(recording, "launches", "dispatcher_id")).tolist():
        found[line][names[kernel]] = None
    others = np.flatnonzero((ints(recording, "activities", "launch_id") < 0)
                            & matches(recording, "activities", "kind", "kernel"))
    if len(others):
        code, values = codes(recording, "activities", "name")
        made, first = _distinct(activities[others] * (len(values) + 1) + code[others] + 1, size * (len(values) + 1))
        for pair in made[np.argsort(first)].tolist():
            line, name = divmod(pair, len(values) + 1)
            if name:
                found[line][values[name - 1] or ""] = None
    return [tuple(each) for each in found]


def _distinct(numbers: Ints, size: int) -> tuple[Ints, Ints]:
    """Return the distinct ones of numbers from 0 to below `size`, in order, and the place of the first of each."""
    if size > _LARGEST_TABLE:
        return np.unique(numbers, return_index=True)
    first = np.full(size, UNKNOWN)
    first[numbers[::-1]] = np.arange(len(numbers))[::-1]
    made = np.flatnonzero(first >= 0)
    return made, first[made]


def gpu_by(recording: Recording, launches: Ints, activities: Ints,
           size: int) -> list[tuple[int | None, int | None, int | None, int | None]]:
    """Return the time of kernels, copies and memsets; bytes copied; time of waits, and of other CUDA calls, by group.

    `launches` and `activities` are the groups of the rows of these tables, the last of `size` for none.
    """
    if not is_gpu_recorded(recording):
        return [(None, None, None, None)] * size
    lasted, executed = gpu_times(recording)
    is_wait = matches(recording, "activities", "kind", "sync")
    at, took = activities, lasted
    if is_wait.any():
        at, took = activities[~is_wait], lasted[~is_wait]
    timed = np.flatnonzero(executed >= 0)
    if len(timed):
        at, took = np.concatenate((at, launches[timed])), np.concatenate((took, executed[timed]))
    copied = np.where(matches(recording, "activities", "kind", COPY), ints(recording, "activities", "size_bytes"), 0)
    waits = sum_by(activities[is_wait], lasted[is_wait], size)
    waited = count_by(activities[is_wait], size)
    others_wait = bool(waited[size - 1])
    waiting = [None if others_wait and not count else total
               for total, count in zip(waits.tolist(), waited.tolist(), strict=True)]
    return list(zip(known_sums(at, took, size), sum_by(activities, copied, size).tolist(), waiting,
                    _calls(recording, activities, is_wait, size), strict=True))


def _calls(recording: Recording, activities: Ints, is_wait: Bools, size: int) -> list[int | None]:
    """How long calls took that were neither inside of a launch nor waits, by line; a call that made several once.

    None for a line of whose calls none is known.
    """
    start, end = instants(recording, "activities", "submit_start_ns", "submit_end_ns")
    took = duration_ns(start, end)
    others = (ints(recording, "activities", "launch_id") < 0) & ~is_wait
    rows, unknown = np.flatnonzero(others & (took >= 0)), np.flatnonzero(others & (took < 0))
    thread = ints(recording, "activities", "thread_id")
    rows = rows[np.lexsort((start[rows], thread[rows]))]
    is_first = np.ones(len(rows), bool)
    is_first[1:] = (start[rows[1:]] != start[rows[:-1]]) | (thread[rows[1:]] != thread[rows[:-1]])
    rows = rows[is_first]
    rows = rows[~_is_inside_launch(recording, thread[rows], start[rows])]
    return known_sums(np.concatenate((activities[rows], activities[unknown])),
                      np.concatenate((took[rows], np.full(len(unknown), UNKNOWN))), size)


def _is_inside_launch(recording: Recording, threads: Ints, times: Ints) -> Bools:
    """Whether each time lies in a launch of its thread; given in order of threads, and in a thread of times."""
    found = np.zeros(len(times), bool)
    begun, ended = instants(recording, "launches", "start_ns", "end_ns")
    launched = rows_by(ids(recording, "launches", "thread_id"))  # in order of their start, as all launches are
    for thread in distinct(threads).tolist():
        if thread not in launched:
            continue
        asked, start = slice(*np.searchsorted(threads, (thread, thread + 1))), begun[launched[thread]]
        reach = np.maximum.accumulate(np.maximum(start, ended[launched[thread]]))  # of those that began until here
        before = np.searchsorted(start, times[asked], side="right") - 1
        found[asked] = (before >= 0) & (reach[before] >= times[asked])
    return found


def known_sums(groups: Ints, values: Ints, size: int) -> list[int | None]:
    """Return sums by group: None where there are values and none is known."""
    if not len(values) or values.min() >= 0:
        return list[int | None](sum_by(groups, values, size).tolist())
    lost = (count_by(groups, size) > 0) & (count_by(groups, size, values >= 0) == 0)
    return [None if gone else total
            for gone, total in zip(lost.tolist(), sum_by(groups, values, size).tolist(), strict=True)]


def line_texts(recording: Recording) -> dict[int, str]:
    """Return the texts of lines, where they are known, by their rows."""
    sources = _sources(recording)
    found: dict[int, str] = {}
    for at, row in enumerate(recording.rows("lines")):
        source = [] if row["cell_id"] is None else sources[row["cell_id"]]
        text = source[row["line"] - 1] if 0 < row["line"] <= len(source) else row["text"]
        if text is not None:
            found[at] = text.strip()
    return found


def _sources(recording: Recording) -> list[list[str]]:
    """The lines of each cell as Python counts them; none of a cell whose source is not known."""
    return [re.split(r"\r\n?|\n", row["source"].rstrip()) if row["source"] else [] for row in recording.rows("cells")]


# The lines among the others of their cells.

@dataclass(frozen=True)
class SourceLine:
    """One line of code, and what it did.

    Attributes
    ----------
    number : int
        From 1.
    text : str or None
        With its indentation, less what all lines of a function have; None where it is not known.
    done : LineSummary or None
        What it did, of all functions on it together; None for nothing.
    line_ids : tuple of int
        Its rows in ``lines``.
    """

    number: int
    text: str | None
    done: LineSummary | None = None
    line_ids: tuple[int, ...] = ()


@dataclass(frozen=True)
class Source:
    """The lines of a recorded cell, or those of a function elsewhere that did anything.

    Attributes
    ----------
    file : str
        The file, or a cell as ``In[3]``.
    function : str or None
        The function; None for a recorded cell, and for what is outside of functions.
    lines : tuple of SourceLine
        All lines of a recorded cell; else those that did anything. In order.
    is_cell : bool
        Whether it is a recorded cell.
    """

    file: str
    function: str | None
    lines: tuple[SourceLine, ...]
    is_cell: bool = False

    @property
    def cost_ns(self) -> int:
        """Return the host time and waits of all of its lines, in nanoseconds."""
        return sum(line.done.cost_ns for line in self.lines if line.done)


@dataclass(frozen=True)
class AnnotatedCode:
    """Code with what its lines did.

    Attributes
    ----------
    sources : tuple of Source
        Recorded cells in order, then files and other cells, what took longest first.
    unknown : LineSummary or None
        What has no known line.
    total : LineSummary
        Everything.
    """

    sources: tuple[Source, ...]
    unknown: LineSummary | None
    total: LineSummary

    @property
    def lines(self) -> list[SourceLine]:
        """Return the lines that did anything."""
        return [line for source in self.sources for line in source.lines if line.done]

    @property
    def longest(self) -> tuple[Source, SourceLine] | None:
        """Return the line that took longest, and where it is; None where none is known."""
        found = [(source, line) for source in self.sources for line in source.lines if line.done]
        return max(found, key=lambda each: each[1].done.cost_ns if each[1].done else 0, default=None)


def annotated(recording: Recording, rows: Sequence[LineSummary] | None = None) -> AnnotatedCode | None:
    """Return the code of the lines that did anything; None where no line is known.

    Parameters
    ----------
    recording : Recording
        Whose code.
    rows : sequence of LineSummary, optional
        Its `by_line`, where that is known.
    """
    rows = by_line(recording) if rows is None else rows
    if not rows:
        return None
    line_rows = recording.rows("lines")
    cells = _sources(recording)
    of_cells: dict[int, dict[int, list[LineSummary]]] = {}
    elsewhere: dict[tuple[str, str | None], dict[int, list[LineSummary]]] = {}
    for each in rows:
        if each.line_id is None or each.file is None or each.line is None:
            continue
        cell = line_rows[each.line_id]["cell_id"]
        if cell is not None and 0 < each.line <= len(cells[cell]):
            place = of_cells.setdefault(cell, {})
        else:
            place = elsewhere.setdefault((each.file, each.function), {})
        place.setdefault(each.line, []).append(each)
    sources = [Source(_cell_file(recording, cell), None, tuple([
        _source_line(number, text, done.get(number, ())) for number, text in enumerate(cells[cell], start=1)]), True)
        for cell, done in sorted(of_cells.items())]
    others = [Source(file, function, _dedented(done, line_rows)) for (file, function), done in elsewhere.items()]
    others.sort(key=lambda each: -each.cost_ns)
    unknown = next((each for each in rows if each.line_id is None), None)
    return AnnotatedCode((*sources, *others), unknown, together(rows))


def together(rows: Sequence[LineSummary]) -> LineSummary:
    """Return the sums of lines as of one: it is where they all are. What is known of none of them is None."""
    def the(name: str) -> Any:
        found = {getattr(each, name) for each in rows}
        return found.pop() if len(found) == 1 else None

    def all_of(name: str) -> int | None:
        return _known_sum(getattr(each, name) for each in rows)

    phases = {f"{name}_ns": _known_sum(each.totals.phase(name) for each in rows) for name in PHASES}
    totals = PhaseTotals(host_ns=_known_sum(each.totals.host_ns for each in rows), **phases,
                         unsplit_ns=sum(each.totals.unsplit_ns for each in rows))
    return LineSummary(
        line_id=the("line_id"), file=the("file"), line=the("line"), function=the("function"), text=the("text"),
        launches=sum(each.launches for each in rows), kernels=tuple(dict.fromkeys(
            name for each in rows for name in each.kernels)), totals=totals,
        compiles=sum(each.compiles for each in rows), compile_ns=all_of("compile_ns"), gpu_ns=all_of("gpu_ns"),
        copied_bytes=all_of("copied_bytes"), wait_ns=all_of("wait_ns"), call_ns=all_of("call_ns"))


def _known_sum(values: Iterable[int | None]) -> int | None:
    known = [each for each in values if each is not None]
    return sum(known) if known else None


def _cell_file(recording: Recording, cell: int) -> str:
    return next(row["file"] for row in recording.rows("lines") if row["cell_id"] == cell)


def _source_line(number: int, text: str | None, done: Sequence[LineSummary]) -> SourceLine:
    return SourceLine(number, text, together(done) if done else None,
                      tuple(sorted([each.line_id for each in done if each.line_id is not None])))


def _dedented(done: dict[int, list[LineSummary]], line_rows: Sequence[dict[str, Any]]) -> tuple[SourceLine, ...]:
    """The lines of a function that did anything, without the indentation that they have in common."""
    numbers = sorted(done)
    texts = [line_rows[done[number][0].line_id or 0]["text"] for number in numbers]
    shown = iter(textwrap.dedent("\n".join([each for each in texts if each is not None])).split("\n"))
    return tuple([_source_line(number, None if text is None else next(shown), done[number])
                  for number, text in zip(numbers, texts, strict=True)])
