"""NVTX ranges: which one each launch was made in, and what the launches of each path of ranges cost on the host.

A launch belongs to the innermost push/pop range that was open on its thread when it started: of the open ones, the
one that was opened last, in whichever domain. Where none was open it belongs to the start/end range that was opened
last, on any thread, and is still open. Marks hold no launches.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from kernelscope.analysis.columns import Ints, count_by, ints, matches, row_count
from kernelscope.analysis.phases import PHASES, LaunchPhases, PhaseTotals, launch_phases
from kernelscope.recording.model import Recording
from kernelscope.schema import UNKNOWN

if TYPE_CHECKING:
    import pandas as pd

#: Between the names of a path.
SEPARATOR = " / "
#: What a range is called that was given no message.
UNNAMED = "(no message)"

_EVER = np.iinfo(np.int64)


@dataclass(frozen=True)
class RangeSummary:
    """The ranges of one path, and the launches of which they are the innermost ranges.

    Attributes
    ----------
    path : tuple of str
        Names from the outermost range to this one.
    ranges : int
        How many there were.
    unclosed : int
        How many of them were open when recording ended.
    launches : int
        Launches that belong to them, and to no range inside them.
    totals : PhaseTotals
        Own host time of those launches, and its phases.
    """

    path: tuple[str, ...]
    ranges: int
    unclosed: int
    launches: int
    totals: PhaseTotals

    @property
    def name(self) -> str:
        """The path as text."""
        return SEPARATOR.join(self.path)

    @property
    def host_ns(self) -> int | None:
        """Own host time of the launches, in nanoseconds."""
        return self.totals.host_ns


def attribute(recording: Recording) -> Ints:
    """Return the range that each launch belongs to: its row in ``ranges``, -1 for none.

    Returns
    -------
    ndarray of int64, shape (launches,)
    """
    launched = ints(recording, "launches", "start_ns")
    result = np.full(len(launched), UNKNOWN, dtype=np.int64)
    if not row_count(recording, "ranges") or not len(launched):
        return result
    start, end = _times(recording)
    thread = ints(recording, "ranges", "thread_id")
    on = ints(recording, "launches", "thread_id")
    nested = matches(recording, "ranges", "kind", "push_pop") & (start < end)
    parent = ints(recording, "ranges", "parent_range_id")
    for number in np.unique(thread[nested]).tolist():
        ids = np.flatnonzero(nested & (thread == number))
        rows: Any = slice(None) if bool((on == number).all()) else np.flatnonzero(on == number)
        result[rows] = _innermost(launched[rows], ids, start, end, parent)
    process = np.flatnonzero(matches(recording, "ranges", "kind", "start_end") & (start < end))
    if len(process):
        alone = np.flatnonzero(result == UNKNOWN)
        result[alone] = _newest(launched[alone], process, start, end)
    return result


def by_range(recording: Recording, phases: LaunchPhases | None = None) -> list[RangeSummary]:
    """Summarize each path of ranges, in order of total host time, longest first; then as they first began.

    Parameters
    ----------
    recording : Recording
        What was recorded.
    phases : LaunchPhases, optional
        `launch_phases` of it, where they are at hand.
    """
    if not row_count(recording, "ranges"):
        return []
    paths, path_of = _paths(recording)
    size = len(paths)
    if not size:
        return []
    _, end = _times(recording)
    counts = count_by(path_of, size)
    unclosed = count_by(path_of, size, end == _EVER.max)
    # The value at the end is what a launch in no range takes.
    group = np.append(path_of, UNKNOWN)[attribute(recording)]
    launches = count_by(group, size)
    totals = (phases or launch_phases(recording)).totals_by(group, size)
    summaries = [
        RangeSummary(path, int(counts[at]), int(unclosed[at]), int(launches[at]), totals[at])
        for at, path in enumerate(paths)
    ]
    return sorted(summaries, key=lambda each: (-(each.host_ns or 0), -each.launches))


def mark_count(recording: Recording) -> int:
    """Return how many marks there are."""
    return int(matches(recording, "ranges", "kind", "mark").sum())


def range_table(recording: Recording) -> pd.DataFrame:
    """Return `by_range` as a DataFrame: path, ranges, unclosed, launches, host_ns and a column a phase."""
    import pandas as pd

    rows = by_range(recording)
    columns: dict[str, Any] = {
        "path": pd.Series([row.name for row in rows], dtype=object),
        "ranges": [row.ranges for row in rows],
        "unclosed": [row.unclosed for row in rows],
        "launches": [row.launches for row in rows],
        "host_ns": [row.host_ns for row in rows],
        **{f"{name}_ns": [row.totals.phase(name) for row in rows] for name in PHASES},
        "unsplit_ns": [row.totals.unsplit_ns for row in rows],
    }
    table = cast("Any", pd.DataFrame(columns))
    return table.astype({name: "Int64" for name in columns if name != "path"})


def _times(recording: Recording) -> tuple[Ints, Ints]:
    """Start and end of each range: the beginning and the end of time where they were not seen."""
    source: Any = recording.arrow("ranges")
    start = source.column("start_ns").fill_null(_EVER.min).to_numpy()
    return start, source.column("end_ns").fill_null(_EVER.max).to_numpy()


def _innermost(launched: Ints, ids: Ints, start: Ints, end: Ints, parent: Ints) -> Ints:
    """The innermost of the ranges `ids`, all of one thread and in order of start, at each of the times."""
    # Where a range ends, the one around it is the innermost again. At one instant ends come before starts, inner ends
    # before outer ones: the sort is stable.
    closed = ids[end[ids] < _EVER.max][::-1]
    times = np.concatenate((end[closed], start[ids]))
    order = np.argsort(times, kind="stable")
    after = np.concatenate((parent[closed], ids))[order]
    # Ranges of two domains need not be inside each other, and a file may say anything: what ends must have been the
    # innermost, and what starts must start inside of its parent.
    before = np.concatenate((closed, parent[ids]))[order]
    if not np.array_equal(before, np.concatenate(([UNKNOWN], after[:-1]))):
        return _newest(launched, ids, start, end)
    return _at(launched, times[order], after)


def _newest(launched: Ints, ids: Ints, start: Ints, end: Ints) -> Ints:
    """The range that was opened last of those `ids` that are open, where they need not be inside each other."""
    closed = ids[end[ids] < _EVER.max]
    times = np.concatenate((end[closed], start[ids]))
    opened = np.concatenate((np.full(len(closed), UNKNOWN), ids))
    order = np.argsort(times, kind="stable")
    values: list[int] = []
    heap: list[int] = []  # rows are in order of start: the newest has the highest number
    for time, row in zip(times[order].tolist(), opened[order].tolist(), strict=True):
        if row >= 0:
            heapq.heappush(heap, -row)
        while heap and end[-heap[0]] <= time:
            heapq.heappop(heap)
        values.append(-heap[0] if heap else UNKNOWN)
    return _at(launched, times[order], np.array(values, dtype=np.int64))


def _at(launched: Ints, times: Ints, values: Ints) -> Ints:
    """The value from the last of `times` that is no later than each launch; both are in order."""
    first = np.searchsorted(launched, times, side="left")
    counts = np.diff(np.concatenate(([0], first, [len(launched)])))
    return np.repeat(np.concatenate(([UNKNOWN], values)), counts)


def _paths(recording: Recording) -> tuple[list[tuple[str, ...]], Ints]:
    """The distinct paths in order of their first range, and each range's path: -1 for marks."""
    source: Any = recording.arrow("ranges")
    names: list[str] = source.column("name").to_pylist()
    parents = ints(recording, "ranges", "parent_range_id").tolist()
    marks = matches(recording, "ranges", "kind", "mark").tolist()
    found: dict[tuple[int, str], int] = {}
    paths: list[tuple[str, ...]] = []
    path_of: list[int] = []
    for name, parent, is_mark in zip(names, parents, marks, strict=True):
        if is_mark:
            path_of.append(UNKNOWN)
            continue
        around = path_of[parent] if parent >= 0 else UNKNOWN
        key = (around, name)
        number = found.get(key)
        if number is None:
            number = found[key] = len(paths)
            paths.append((*(paths[around] if around >= 0 else ()), name or UNNAMED))
        path_of.append(number)
    return paths, np.array(path_of, dtype=np.int64)
