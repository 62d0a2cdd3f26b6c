"""The runs of one cell, in a session and in files: which cells are the same, and what each run took."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kernelscope.analysis.compare import Changes
from kernelscope.analysis.launches import cell_label
from kernelscope.analysis.wall_time import PARTS, total, wall_times
from kernelscope.recording.model import Recording, select_cell

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


def runs_of(cell: Mapping[str, Any], sources: Iterable[tuple[str, Recording]]) -> list[CellRun]:
    """Return the runs of a cell in the order of time, each with what differs from the one before.

    Parameters
    ----------
    cell : mapping
        A row of ``cells``: the runs of `is_same_cell` are its.
    sources : iterable of (str, Recording)
        Names of files, empty for the session, and their recordings; each is looked at once.
    """
    found: list[tuple[int | None, str, Recording]] = []
    for name, recording in sources:
        found.extend((_began(recording, row), name, _only(recording, row))
                     for row in recording.rows("cells") if is_same_cell(row, cell))
    found.sort(key=lambda each: each[0] or 0)
    runs: list[CellRun] = []
    before: Recording | None = None
    for at, (began, name, recording) in enumerate(found):
        last = found[at - 1][0] if at else None
        if before is not None and began is not None and last is not None and began - last < _SAME_RUN_NS:
            continue
        runs.append(_run(began, name, recording, before))
        before = recording
    return runs


def _only(recording: Recording, row: Mapping[str, Any]) -> Recording:
    return recording if recording.arrow("cells").num_rows == 1 else select_cell(recording, row["cell_id"])


def _began(recording: Recording, row: Mapping[str, Any]) -> int | None:
    clock = recording.metadata.get("clock")
    wall, host = (clock.get(name) if isinstance(clock, dict) else None for name in ("wall_ns", "host_ns"))
    return wall - host + row["start_ns"] if isinstance(wall, int) and isinstance(host, int) else None


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
