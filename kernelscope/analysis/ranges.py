"""NVTX ranges: in which one each launch and each activity was asked for, and what each path of ranges cost.

A launch belongs to the innermost push/pop range that was open on its thread when it started: of the open ones, the
one that was opened last, in whichever domain. Where none was open it belongs to the start/end range that was opened
last, on any thread, and is still open. Marks hold no launches. An activity of the GPU belongs to the range of its
launch; without a recorded launch, to that which was innermost when its thread began the driver call.

What other threads launched while a range's own thread waited, as for autograd's threads in a backward pass, is counted
beside it and is in no sum: see `waits_of_ranges`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from kernelscope.analysis.activities import COPY, GRAPH, KERNEL, SET, Joined, is_gpu_recorded, join
from kernelscope.analysis.columns import (
    Bools,
    Ints,
    codes,
    count_by,
    data_frame,
    instants,
    ints,
    matches,
    percentiles_by,
    ran,
    row_count,
    sum_by,
)
from kernelscope.analysis.launches import PHASES, LaunchPhases, PhaseTotals, launch_phases
from kernelscope.recording.model import Recording
from kernelscope.recording.paths import NamePaths
from kernelscope.recording.ranges import common_name
from kernelscope.recording.time import FOREVER, UNKNOWN_INSTANT, duration_ns, is_known, otherwise
from kernelscope.registry import features
from kernelscope.schema import UNKNOWN

if TYPE_CHECKING:
    import pandas as pd

#: What a range is called that was given no message.
UNNAMED = "(no message)"

#: Where more threads of one process have ranges, it is not looked for which of them waited.
MOST_WAITING = 64
_NO_THREAD = -2
#: Figures of what other threads launched.
_OTHERS = ("other_launches", "other_host_ns", "other_gpu_ns")
#: Figures with those of the ranges inside, beside launches.
_INCLUSIVE = tuple(f"inclusive_{name}" for name in ("host_ns", "gpu_ns", *_OTHERS))


@dataclass(frozen=True)
class RangeSummary:
    """The ranges of one path, and the launches of which they are the innermost ranges.

    Attributes
    ----------
    number : int
        Which of `paths` it is.
    ranges : int
        How many there were.
    unclosed : int
        How many of them were open when recording ended.
    inclusive_ns, exclusive_ns : int or None
        Time from their starts to their ends, with the ranges inside them and without; None where none was closed.
    shortest_ns, median_ns, longest_ns : float or None
        How long one took, ranges inside it included.
    launches : int
        Launches that ran and belong to them, and to no range inside them.
    totals : PhaseTotals
        Own host time of those launches, and its phases.
    activities : int or None
        Activities of the GPU that belong to them, waits of the host not counted; None where the GPU was not recorded.
    kernel_ns, copy_ns, graph_ns : int or None
        How long the kernels among them ran, copies and memsets, and graphs that were traced as a whole: sums over all
        of them. None where the GPU was not recorded, and where there are some of which none was timed.
    inclusive_launches, inclusive_host_ns, inclusive_gpu_ns : int or None
        Launches, own host time of launches, and time of kernels, copies and memsets, those of the ranges inside them
        included.
    other_launches, other_host_ns, other_gpu_ns : int or None
        The same of what other threads launched while they were the innermost ranges of threads that waited
        (`waits_of_ranges`): part of no other figure. None where that is not known.
    inclusive_other_launches, inclusive_other_host_ns, inclusive_other_gpu_ns : int or None
        The same with the ranges inside them.
    paths : NamePaths
        All paths of the recording.
    """

    number: int
    ranges: int
    unclosed: int
    inclusive_ns: int | None
    exclusive_ns: int | None
    shortest_ns: float | None
    median_ns: float | None
    longest_ns: float | None
    launches: int
    totals: PhaseTotals
    activities: int | None = None
    kernel_ns: int | None = None
    copy_ns: int | None = None
    graph_ns: int | None = None
    inclusive_launches: int = 0
    inclusive_host_ns: int | None = None
    inclusive_gpu_ns: int | None = None
    other_launches: int | None = None
    other_host_ns: int | None = None
    other_gpu_ns: int | None = None
    inclusive_other_launches: int | None = None
    inclusive_other_host_ns: int | None = None
    inclusive_other_gpu_ns: int | None = None
    paths: NamePaths = field(default_factory=NamePaths, repr=False, compare=False)

    @property
    def path(self) -> tuple[str, ...]:
        """Return the names from the outermost range to this one; of a long path the first and the last."""
        return self.paths.names(self.number)

    @property
    def depth(self) -> int:
        """Return how many ranges are around it."""
        return self.paths.depths[self.number]

    @property
    def label(self) -> str:
        """Return the name of the ranges, without those around them."""
        return self.paths.labels[self.number]

    @property
    def name(self) -> str:
        """Return the path as text."""
        return self.paths.text(self.number)

    @property
    def host_ns(self) -> int | None:
        """Return own host time of the launches, in nanoseconds."""
        return self.totals.host_ns

    @property
    def gpu_ns(self) -> int | None:
        """Return time of kernels, copies, memsets and whole graphs, in nanoseconds; None where none is known."""
        return _known_sum((self.kernel_ns, self.copy_ns, self.graph_ns))


def attribute(recording: Recording) -> Ints:
    """Return the range that each launch belongs to: its row in ``ranges``, -1 for none.

    Returns
    -------
    ndarray of int64, shape (launches,)
    """
    return open_at(recording, instants(recording, "launches", "start_ns")[0], ints(recording, "launches", "thread_id"))


def attribute_activities(recording: Recording, launches: Ints | None = None) -> Ints:
    """Return the range that each activity belongs to: its row in ``ranges``, -1 for none.

    Parameters
    ----------
    recording : Recording
        What was recorded.
    launches : ndarray of int64, optional
        `attribute` of it, where it is at hand.

    Returns
    -------
    ndarray of int64, shape (activities,)
    """
    launched = ints(recording, "activities", "launch_id")
    if not row_count(recording, "ranges") or not len(launched):
        return np.full(len(launched), UNKNOWN, dtype=np.int64)
    of_launch = np.append(attribute(recording) if launches is None else launches, UNKNOWN)
    result = of_launch[np.where(launched < len(of_launch) - 1, launched, UNKNOWN)]
    called, = instants(recording, "activities", "submit_start_ns")
    alone = np.flatnonzero((launched < 0) & is_known(called))
    if len(alone):
        alone = alone[np.argsort(called[alone], kind="stable")]
        result[alone] = open_at(recording, called[alone], ints(recording, "activities", "thread_id")[alone])
    return result


def by_range(
    recording: Recording, phases: LaunchPhases | None = None, joined: Joined | None = None
) -> list[RangeSummary]:
    """Summarize each path of ranges, in order of total host time, longest first; then as they first began.

    Ranges are of one path where their names are the same without what PyTorch adds for one range, such as ``op_id``.

    Parameters
    ----------
    recording : Recording
        What was recorded.
    phases : LaunchPhases, optional
        `launch_phases` of it, where they are at hand.
    joined : Joined, optional
        `join` of it, where it is at hand.
    """
    if not row_count(recording, "ranges"):
        return []
    paths, path_of = _paths(recording)
    size = len(paths.labels)
    if not size:
        return []
    end, = instants(recording, "ranges", "end_ns")
    counts = count_by(path_of, size)
    unclosed = count_by(path_of, size, ~is_known(end))
    durations = _durations(recording, path_of, size)
    # The value at the end is what a launch in no range takes.
    path_at = np.append(path_of, UNKNOWN)
    innermost = attribute(recording)
    group = path_at[innermost]
    launches = count_by(group, size, ran(recording))
    phases = phases or launch_phases(recording)
    totals = phases.totals_by(group, size)
    gpu: list[_GpuTimes] = [(None, None, None, None)] * size
    if is_gpu_recorded(recording):
        gpu = _gpu_by(recording, group, path_at[attribute_activities(recording, innermost)], size, joined)
    others = _others_by(recording, path_at, size, phases, joined)
    own = [(int(launches[number]), totals[number].host_ns, _known_sum(gpu[number][1:]), *others[number])
           for number in range(size)]
    inclusive = _with_inside(own, paths.around)
    summaries = [
        RangeSummary(number, int(counts[number]), int(unclosed[number]), *durations[number], int(launches[number]),
                     totals[number], *gpu[number], **dict(zip(_OTHERS, others[number], strict=True)),
                     inclusive_launches=inclusive[number][0] or 0,
                     **dict(zip(_INCLUSIVE, inclusive[number][1:], strict=True)), paths=paths)
        for number in range(size)
    ]
    return sorted(summaries, key=lambda each: (-(each.host_ns or 0), -each.launches, -(each.gpu_ns or 0)))


_Sums = tuple[int | None, ...]


def _with_inside(sums: Sequence[_Sums], around: Sequence[int]) -> list[_Sums]:
    """Return sums of paths with those of the paths inside them, which stand after them."""
    inclusive = list(sums)
    for number in range(len(sums) - 1, -1, -1):
        if around[number] >= 0:
            pairs = zip(inclusive[around[number]], inclusive[number], strict=True)
            inclusive[around[number]] = tuple(map(_known_sum, pairs))
    return inclusive


def _known_sum(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def as_tree(ranges: Sequence[RangeSummary]) -> list[RangeSummary]:
    """Return `by_range` with each path followed by those inside it; of one depth the longest first."""
    inside: dict[int, list[RangeSummary]] = {}
    for summary in sorted(ranges, key=lambda summary: (-(summary.inclusive_ns or 0), summary.label), reverse=True):
        inside.setdefault(summary.paths.around[summary.number], []).append(summary)
    tree: list[RangeSummary] = []
    # The last of the stack comes first, and what is inside it before the others: ranges may be deeper than Python's.
    stack = inside.get(UNKNOWN, [])
    while stack:
        tree.append(stack.pop())
        stack += inside.get(tree[-1].number, [])
    return tree


def of_features(recording: Recording) -> Bools:
    """Return which ranges are of a domain that a feature says more of; marks are not."""
    is_one = np.zeros(row_count(recording, "ranges"), np.bool_)
    for domain in (domain for feature in features() for domain in feature.range_domains):
        is_one |= matches(recording, "ranges", "domain", domain)
    return is_one & ~matches(recording, "ranges", "kind", "mark")


def mark_count(recording: Recording) -> int:
    """Return how many marks there are."""
    return int(matches(recording, "ranges", "kind", "mark").sum())


def range_table(recording: Recording) -> pd.DataFrame:
    """Return `by_range` as a DataFrame.

    Its columns are ``path``, ``ranges``, ``unclosed``, ``inclusive_ns``, ``exclusive_ns``, ``shortest_ns``,
    ``median_ns``, ``longest_ns``, ``launches``, ``host_ns``, a column a phase, ``unsplit_ns``, ``activities``,
    ``gpu_ns``, ``kernel_ns``, ``copy_ns``, ``graph_ns``, and of what other threads launched while the range's thread
    waited ``other_launches``, ``other_host_ns`` and ``other_gpu_ns``.
    """
    phases = {f"{name}_ns": f"totals.{name}_ns" for name in (*PHASES, "unsplit")}
    whole = ("ranges", "unclosed", "inclusive_ns", "exclusive_ns")
    spread = dict.fromkeys(("shortest_ns", "median_ns", "longest_ns"), "Float64")
    columns = ("launches", "host_ns", *phases, "activities", "gpu_ns", "kernel_ns", "copy_ns", "graph_ns", *_OTHERS)
    kinds = {"path": "object", **dict.fromkeys(whole, "Int64"), **spread, **dict.fromkeys(columns, "Int64")}
    return data_frame(by_range(recording), kinds, {"path": "name", **phases})


_Durations = tuple[int | None, int | None, float | None, float | None, float | None]
_GpuTimes = tuple[int | None, int | None, int | None, int | None]


def _durations(recording: Recording, path_of: Ints, size: int) -> list[_Durations]:
    """Return inclusive and exclusive time, and the shortest, median and longest range, by path."""
    lasted = duration_ns(*instants(recording, "ranges", "start_ns", "end_ns"))
    inside = sum_by(ints(recording, "ranges", "parent_range_id"), lasted, len(lasted))
    own = np.where(lasted >= 0, np.maximum(lasted - inside, 0), UNKNOWN)
    spread = percentiles_by(path_of, lasted, size, (0.0, 0.5, 1.0))
    known = [[None if np.isnan(value) else float(value) for value in values] for values in spread]
    sums = zip(_sums(path_of, lasted, size), _sums(path_of, own, size), known, strict=True)
    return [(inclusive, exclusive, values[0], values[1], values[2]) for inclusive, exclusive, values in sums]


def open_at(recording: Recording, times: Ints, on: Ints) -> Ints:
    """Return the innermost open range at each of the sorted times, on its thread."""
    result = np.full(len(times), UNKNOWN, dtype=np.int64)
    if not row_count(recording, "ranges") or not len(times):
        return result
    start, end = instants(recording, "ranges", "start_ns", "end_ns")
    end = otherwise(end, FOREVER)
    thread = ints(recording, "ranges", "thread_id")
    nested = np.flatnonzero(matches(recording, "ranges", "kind", "push_pop") & (start < end))
    asked: dict[int, Any] = {int(on[0]): slice(None)} if bool((on == on[0]).all()) else _groups(on)
    for number, ids in _groups(thread[nested]).items():
        if number in asked:
            rows = asked[number]
            result[rows] = _newest(times[rows], nested[ids], start, end)
    process = np.flatnonzero(matches(recording, "ranges", "kind", "start_end") & (start < end))
    if len(process):
        alone = np.flatnonzero(result == UNKNOWN)
        result[alone] = _newest(times[alone], process, start, end)
    return result


def waits_of_ranges(recording: Recording, times: Ints, until: Ints, on: Ints) -> tuple[Ints, Ints] | None:
    """Return which ranges waited for what other threads did at each of the sorted times.

    A push/pop range waits at a time of another thread of its process if it is the innermost of its own thread then, and
    of that thread nothing is recorded at that time: no launch, compile, build or call of CUDA. The other thread

    - has begun in the same wait: where it is inside ranges of its own, the outermost of them has begun after the last
      thing that is recorded of the waiting thread, and after the waiting range, and is of no domain of a feature;
    - does nothing beside the waiting thread, as one does that works for itself: as long as the outermost range around
      the wait is open, nothing of it lies at a time at which something is recorded of the waiting thread.

    So what a thread launches in ranges that were open before is its own, and that of autograd's threads in a backward
    pass is of the range around ``loss.backward()``. Several threads may wait for one.

    Parameters
    ----------
    recording : Recording
        What was recorded.
    times, until, on : ndarray of int64, shape (n,)
        Sorted times at which something began, such as launches, when it ended, and the threads' rows in ``threads``.

    Returns
    -------
    (ndarray of int64, ndarray of int64) or None
        Places in `times`, and the row in ``ranges`` of a range that waited then; a place for each such range. None
        where more than `MOST_WAITING` threads of a process have ranges and others launch: it is not looked for.
    """
    start, end = instants(recording, "ranges", "start_ns", "end_ns")
    end = otherwise(end, FOREVER)
    thread = ints(recording, "ranges", "thread_id")
    nested = np.flatnonzero(matches(recording, "ranges", "kind", "push_pop") & (start < end) & (thread >= 0))
    known = ints(recording, "threads", "process_id")
    owner = np.full(max(len(known), int(thread.max(initial=0)) + 1, int(on.max(initial=0)) + 1), UNKNOWN)
    owner[:len(known)] = known
    waiting = _groups(thread[nested])
    of_process = _groups(np.where(on >= 0, owner[on], _NO_THREAD))
    waiters: dict[int, list[int]] = {}
    for number in waiting:
        waiters.setdefault(int(owner[number]), []).append(number)
    # Where nobody else launches nobody is waited for.
    waiters = {process: numbers for process, numbers in waiters.items() if process in of_process and (
        len(numbers) > 1 or bool((on[of_process[process]] != numbers[0]).any()))}
    if any(len(numbers) > MOST_WAITING for numbers in waiters.values()):
        return None
    places, ranges = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    if waiters:
        work = _work(recording)
        # Those of a feature are work of their own, whenever they begin.
        opened = np.where(of_features(recording), UNKNOWN_INSTANT, start)
        lanes = {number: _Lane(nested[rows], start[nested[rows]], end[nested[rows]], opened[nested[rows]])
                 for number, rows in waiting.items()}
        begun = times.copy()
        for number, at in _groups(on).items():
            if number in lanes:
                begun[at] = lanes[number].begun(times[at])
        for process, numbers in waiters.items():
            for number in numbers:
                at = of_process[process]
                at = at[on[at] != number]
                place, inside = _waits((times[at], until[at], begun[at], on[at]), lanes[number], work.get(number))
                places.append(at[place])
                ranges.append(inside)
    return np.concatenate(places), np.concatenate(ranges)


@dataclass(frozen=True)
class _Lane:
    """The push/pop ranges of one thread, in order of start: rows, starts, ends, and when each counts as begun."""

    ids: Ints
    start: Ints
    end: Ints
    opened: Ints

    def outermost(self, times: Ints) -> Ints:
        """Return the place of the outermost range that is open at each time, -1 for none."""
        until = np.maximum.accumulate(self.end)
        first = np.maximum.accumulate(np.where(np.append(True, self.start[1:] >= until[:-1]),
                                               np.arange(len(self.ids)), 0))
        place = np.searchsorted(self.start, times, side="right") - 1
        return np.where((place >= 0) & (until[place] > times), first[place], UNKNOWN)

    def begun(self, times: Ints) -> Ints:
        """Return when the outermost range that is open at each time began; the time itself where none is."""
        place = self.outermost(times)
        return np.where(place >= 0, self.opened[place], times)


def _waits(others: tuple[Ints, Ints, Ints, Ints], lane: _Lane, work: tuple[Ints, Ints] | None) -> tuple[Ints, Ints]:
    """Return the places of what one thread waited for, and the row of the range that waited.

    `others` are starts and ends of what other threads did, when those began it all, and the threads; `work` are starts
    and ends of what is recorded of the thread itself.
    """
    times, until, begun, on = others
    instance = lane.outermost(times)
    rows = np.flatnonzero(instance >= 0)
    if not len(rows):
        return rows, rows
    times, until, begun, on, instance = (values[rows] for values in (times, until, begun, on, instance))
    began, ended = (np.empty(0, np.int64), np.empty(0, np.int64)) if work is None else work
    before = np.searchsorted(began, times, side="right") - 1
    since = np.append(np.maximum.accumulate(ended), UNKNOWN_INSTANT)[before]
    beside = (since > times) | (np.append(began, FOREVER)[before + 1] < until)
    _, group = np.unique(np.stack((instance, on)), axis=1, return_inverse=True)
    group = group.reshape(-1)
    works_beside = np.zeros(int(group.max()) + 1, dtype=np.bool_)
    works_beside[group[beside]] = True
    inside = _newest(times, np.arange(len(lane.ids)), lane.start, lane.end)
    waits = (inside >= 0) & ~works_beside[group] & (begun >= np.maximum(since, lane.start[inside]))
    return rows[waits], lane.ids[inside[waits]]


def _groups(values: Ints) -> dict[int, Ints]:
    """Return the places of each distinct value, in order."""
    order = np.argsort(values, kind="stable")
    found, first = np.unique(values[order], return_index=True)
    return dict(zip(found.tolist(), np.split(order, first[1:]), strict=True)) if len(order) else {}


def _work(recording: Recording) -> dict[int, tuple[Ints, Ints]]:
    """Return of each thread when it did anything that is recorded, in order of start."""
    found: list[tuple[Ints, Ints, Ints]] = []
    for table, begin, finish in (
            ("launches", "start_ns", "end_ns"), ("compilations", "start_ns", "end_ns"),
            ("builds", "start_ns", "end_ns"), ("graph_events", "start_ns", "end_ns"),
            ("api_calls", "start_ns", "end_ns"), ("activities", "submit_start_ns", "submit_end_ns")):
        began, ended = instants(recording, table, begin, finish)
        thread = ints(recording, table, "thread_id")
        known = is_known(began) & (thread >= 0)
        found.append((thread[known], began[known], np.maximum(ended, began)[known]))
    thread, began, ended = (np.concatenate(columns) for columns in zip(*found, strict=True))
    order = np.argsort(began, kind="stable")
    groups = _groups(thread[order])
    return {number: (began[order[at]], ended[order[at]]) for number, at in groups.items()}


def _others_by(recording: Recording, path_at: Ints, size: int, phases: LaunchPhases,
               joined: Joined | None) -> list[tuple[int | None, int | None, int | None]]:
    """Return launches of other threads that ranges waited for, their host time, and their time on the GPU, by path."""
    is_recorded = is_gpu_recorded(recording)
    joined = (joined or join(recording)) if is_recorded else None
    # What was asked for on the GPU by launches that are recorded, and by other calls.
    alone = np.flatnonzero((ints(recording, "activities", "launch_id") < 0)
                           & ~matches(recording, "activities", "kind", "sync")
                           & is_known(*instants(recording, "activities", "submit_start_ns")))
    times, until = (np.concatenate((launched, called[alone])) for launched, called in zip(
        instants(recording, "launches", "start_ns", "end_ns"),
        instants(recording, "activities", "submit_start_ns", "submit_end_ns"), strict=True))
    on = np.concatenate((ints(recording, "launches", "thread_id"), ints(recording, "activities", "thread_id")[alone]))
    order = np.argsort(times, kind="stable")
    found = waits_of_ranges(recording, times[order], until[order], on[order])
    if found is None:
        return [(None, None, None)] * size
    places, group = _once(order[found[0]], path_at[found[1]], len(order))
    count = len(times) - len(alone)
    is_launch = places < count
    rows, of_launch = places[is_launch], group[is_launch]
    launches, host = count_by(of_launch, size, ran(recording)[rows]), _sums(of_launch, phases.own_ns[rows], size)
    gpu: list[int | None] = [None] * size
    if joined is not None:
        lasted = duration_ns(*instants(recording, "activities", "start_ns", "end_ns"))[alone]
        gpu = _sums(np.concatenate((of_launch, group[~is_launch])),
                    np.concatenate((joined.execute_ns[rows], lasted[places[~is_launch] - count])), size)
    return list(zip(launches.tolist(), host, gpu, strict=True))


def _once(places: Ints, paths: Ints, count: int) -> tuple[Ints, Ints]:
    """Return pairs of a place, of `count`, and a path, each pair once."""
    both = np.unique(paths * max(count, 1) + places)
    return both % max(count, 1), both // max(count, 1)


def _newest(at: Ints, ids: Ints, start: Ints, end: Ints) -> Ints:
    """Return the range among `ids` that was opened last and is open; ranges need not nest."""
    is_closed = end[ids] < FOREVER
    edges = np.concatenate((end[ids[is_closed]], start[ids]))
    # At one instant ends come before starts, for the sort is stable.
    order = np.argsort(edges, kind="stable")
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    closed = len(edges) - len(ids)
    last = np.full(len(ids), len(order), dtype=np.int64)
    last[is_closed] = place[:closed]
    # Rows are in order of start: the newest has the highest number.
    # The value of the last edge that is not later than each launch; both are sorted.
    first = np.searchsorted(at, edges[order], side="left")
    counts = np.diff(np.concatenate(([0], first, [len(at)])))
    return np.repeat(np.concatenate(([UNKNOWN], _highest(place[closed:], last, ids, len(order)))), counts)


def _highest(first: Ints, last: Ints, ids: Ints, size: int) -> Ints:
    """Return the highest id at each of `size` places, over half-open intervals with sorted ids.

    Each interval is two blocks of a power of two places, which may overlap; what is told to a block is passed on to its
    halves, from the largest blocks down.
    """
    level = np.frexp((last - first).astype(np.float64))[1] - 1
    held = np.full(size, UNKNOWN, dtype=np.int64)
    for power in range(int(level.max(initial=0)), -1, -1):
        mine = np.flatnonzero(level == power)
        for block in (first[mine], last[mine] - (1 << power)):
            # Of several ids for one block the last one stays, which is the highest.
            held[block] = np.maximum(held[block], ids[mine])
        if power:
            half, above = 1 << (power - 1), held
            held = above.copy()
            np.maximum(held[half:], above[:-half], out=held[half:])
    return held


def _gpu_by(
    recording: Recording, launches: Ints, activities: Ints, size: int, joined: Joined | None
) -> list[_GpuTimes]:
    """Return activities, time of kernels, of copies and memsets, and of graphs that were traced as a whole, by path."""
    joined = joined or join(recording)
    is_kernel, is_copy, is_set, is_graph = (matches(recording, "activities", "kind", kind)
                                            for kind in (KERNEL, COPY, SET, GRAPH))
    is_copy |= is_set
    lasted = duration_ns(*instants(recording, "activities", "start_ns", "end_ns"))
    kernels = (activities[is_kernel], lasted[is_kernel])
    timed = np.flatnonzero((joined.kernel < 0) & (joined.execute_ns >= 0))
    kernels = (np.concatenate((kernels[0], launches[timed])),
               np.concatenate((kernels[1], joined.execute_ns[timed])))
    counted = count_by(activities, size, is_kernel | is_copy | is_graph)
    return list(zip(
        counted.tolist(), _sums(*kernels, size), _sums(activities[is_copy], lasted[is_copy], size),
        _sums(activities[is_graph], lasted[is_graph], size), strict=True))


def _sums(groups: Ints, values: Ints, size: int) -> list[int | None]:
    """Return sums by group: None where there are values and none is known."""
    known: Bools = values >= 0
    lost = (count_by(groups, size) > 0) & (count_by(groups, size, known) == 0)
    return [None if gone else total for gone, total in
            zip(lost.tolist(), sum_by(groups, values, size).tolist(), strict=True)]


def _paths(recording: Recording) -> tuple[NamePaths, Ints]:
    """Return the distinct paths in order of their first range, and each range's path (-1 for marks)."""
    code, words = codes(recording, "ranges", "name")
    words = [*map(common_name, words), ""]
    names = [words[number] for number in code.tolist()]
    parents = ints(recording, "ranges", "parent_range_id").tolist()
    marks = matches(recording, "ranges", "kind", "mark").tolist()
    found: dict[tuple[int, str], int] = {}
    paths = NamePaths()
    path_of: list[int] = []
    for name, parent, is_mark in zip(names, parents, marks, strict=True):
        if is_mark:
            path_of.append(UNKNOWN)
            continue
        around = path_of[parent] if parent >= 0 else UNKNOWN
        key = (around, name)
        number = found.get(key)
        if number is None:
            number = found[key] = paths.add(name, around, name or UNNAMED)
        path_of.append(number)
    return paths, np.array(path_of, dtype=np.int64)
