"""The runs of one cell, in a session and in files: which cells are the same, and what each run took."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from kernelscope.analysis.launches import cell_label
from kernelscope.analysis.wall_time import PARTS, total, wall_times
from kernelscope.errors import RecordingFileError
from kernelscope.features.compare.analyse import Changes
from kernelscope.progress import Progress
from kernelscope.recording.model import Recording, select_cell
from kernelscope.recording.redact import shareable

#: Runs that began within so many nanoseconds of each other are one, which is in the session and in a file too.
_SAME_RUN_NS = 1_000_000


@dataclass(frozen=True)
class CellRun:
    """One run of a cell; what was not recorded is None.

    Attributes
    ----------
    label, source : str
        The cell's number, ``In [3]``, or its name where it has none; and the file that it is of, empty for one of the
        session.
    began_ns : int or None
        When it began: nanoseconds since 1970, in UTC.
    status : str
        ok, error, interrupted or unfinished.
    wall_ns : int or None
        How long it took.
    parts : dict of str to int
        Where that went, in nanoseconds, by `kernelscope.analysis.wall_time.PARTS`; empty where it is not known.
    launches, errors : int
        Launches that ran, and launches and compiles that raised.
    compiles, disk : int or None
        Compiles, and loads from the disk cache.
    host_ns, gpu_ns, compile_ns : int or None
        Host time in launches without compiles, time of kernels on the GPU, and of compiles and loads.
    changes : Changes or None
        What differs from the run before; None for the first one.
    recording : Recording
        The run alone.
    """

    label: str
    source: str
    began_ns: int | None
    status: str
    wall_ns: int | None
    parts: Mapping[str, int]
    launches: int
    compiles: int | None
    disk: int | None
    errors: int
    host_ns: int | None
    gpu_ns: int | None
    compile_ns: int | None
    changes: Changes | None
    recording: Recording


@dataclass(frozen=True)
class Source:
    """Where runs of a cell may be.

    Attributes
    ----------
    name : str
        The file's; empty for a recording of the session.
    cells : Recording
        Metadata and the table ``cells``, which tell whether there is a run: of a file, nothing else was read.
    load : callable
        Returns the whole recording, or raises `RecordingFileError`.
    """

    name: str
    cells: Recording
    load: Callable[[], Recording]


@dataclass(frozen=True)
class CellRuns:
    """Runs of a cell.

    Attributes
    ----------
    runs : list of CellRun
        In the order of time.
    earlier : int
        How many runs before those there are, which were not looked into.
    unreadable : list of str
        Files whose runs are left out, and why.
    """

    runs: list[CellRun]
    earlier: int
    unreadable: list[str]


def is_same_cell(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return whether two rows of ``cells`` are of one cell: they have the same name, or the same source."""
    return any(one[key] is not None and one[key] == other[key] for key in ("name", "source_sha256"))


def previous_run(recordings: Sequence[Recording], recording: Recording) -> Recording | None:
    """Return the newest of some recordings, the oldest first, that is an earlier run of a recording's only cell.

    None where there is none, or the recording has not exactly one cell.
    """
    cells = recording.rows("cells")
    if len(cells) != 1:
        return None
    for each in reversed(recordings):
        if each is recording:
            continue
        for row in reversed(each.rows("cells")):
            if is_same_cell(row, cells[0]):
                return _only(each, row)
    return None


def runs_of(cell: Mapping[str, Any], sources: Sequence[Source], most: int | None = None,
            progress: Progress | None = None) -> CellRuns:
    """Return the runs of a cell, each with what differs from the one before.

    Parameters
    ----------
    cell : mapping
        A row of ``cells``: the runs of `is_same_cell` are its.
    sources : sequence of Source
        Where to look; those that have a run are loaded, one after the other.
    most : int, optional
        At most so many runs, the newest; the others are counted. All by default.
    progress : callable, optional
        Called with a fraction from 0 to 1 and a text before each run.
    """
    runs = sorted(((_began(source.cells, row), source, row) for source in sources for row in source.cells.rows("cells")
                   if is_same_cell(row, cell)), key=lambda run: run[0] or 0)
    distinct = runs[:1] + [run for last, run in pairwise(runs) if not _is_same_run(last[0], run[0])]
    # The oldest run that is shown is compared with the one before it.
    recordings: list[tuple[int | None, Source, Recording]] = []
    unreadable: dict[str, str] = {}
    loaded: tuple[Source, Recording] | None = None
    needed = len(distinct) if most is None else min(most + 1, len(distinct))
    while distinct and len(recordings) < needed:
        began, source, row = distinct.pop()
        if progress:
            progress(len(recordings) / needed, f"reading {source.name}")
        if source.name in unreadable:
            continue
        try:
            if loaded is None or loaded[0] is not source:
                loaded = source, shareable(source.load())
        except RecordingFileError as error:
            unreadable[source.name] = f"{source.name}: {' '.join(str(error).split())}"
            continue
        recordings.append((began, source, _only(loaded[1], row)))
    recordings.reverse()
    befores = [None, *(recording for _, _, recording in recordings)]
    # That of the run before the first one is known, but not what it is compared with.
    first = 0 if most is None else max(0, len(recordings) - most)
    compared = [_run(began, source.name, recording, before)
                for (began, source, recording), before in [*zip(recordings, befores, strict=False)][first:]]
    return CellRuns(compared, len(distinct) + first, list(unreadable.values()))


def _is_same_run(began: int | None, next_began: int | None) -> bool:
    return began is not None and next_began is not None and next_began - began < _SAME_RUN_NS


def _only(recording: Recording, row: Mapping[str, Any]) -> Recording:
    return recording if recording.arrow("cells").num_rows == 1 else select_cell(recording, row["cell_id"])


def _began(recording: Recording, row: Mapping[str, Any]) -> int | None:
    clock = recording.metadata.get("clock")
    wall, host = (clock.get(name) if isinstance(clock, dict) else None for name in ("wall_ns", "host_ns"))
    began = wall - host + row["start_ns"] if isinstance(wall, int) and isinstance(host, int) else None
    # A clock that was never set, or a file made to harm: no calendar has it.
    return began if began is not None and 0 <= began < 1 << 63 else None


def _run(began: int | None, name: str, recording: Recording, before: Recording | None) -> CellRun:
    (row,) = recording.rows("cells")
    changes = Changes(recording if before is None else before, recording)
    (totals,) = changes.totals.rows
    assert totals.after is not None
    held: dict[str, Any] = dict(zip([each.key for each in changes.totals.measures], totals.after, strict=True))
    wall = total(wall_times(recording))
    return CellRun(
        cell_label(row if row["execution_count"] is None else {**row, "name": None}), name, began, row["status"],
        held["wall_ns"], {} if wall is None else {part: wall.parts[part] for part in PARTS}, held["launches"],
        held["compiles"], held["disk"], held["errors"], held["host_ns"], held["gpu_ns"], held["compile_ns"],
        None if before is None else changes, recording)
