"""What the GPU did: activities joined with launches, busy time, execution by kernel, copies beside kernels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from kernelscope.analysis.columns import (
    Bools,
    Floats,
    Histograms,
    Intervals,
    Ints,
    Rows,
    captured,
    codes,
    count_by,
    data_frame,
    instants,
    ints,
    matches,
    percentiles_by,
    replays,
    row_count,
    rows_at,
    rows_by,
    sum_by,
    trials,
    union,
)
from kernelscope.analysis.launches import PHASES, launch_phases
from kernelscope.recording.model import Recording
from kernelscope.recording.time import delay_ns, duration_ns, is_known, otherwise
from kernelscope.schema import UNKNOWN

if TYPE_CHECKING:
    import pandas as pd


#: Kinds of activity that the GPU is busy with; another one, sync, is a wait of the host. A graph is one that was traced
#: as a whole: kernels and copies that are not known.
KERNEL, COPY, SET, GRAPH = "kernel", "memcpy", "memset", "graph"

_LARGEST_TABLE = 1 << 20
_SMALL = 1 << 15


@dataclass(frozen=True)
class Activities:
    """The GPU's activities of which both times are known, in order of start; waits of the host are in none.

    Attributes
    ----------
    row : ndarray of int64
        Each one's row in ``activities``.
    is_kernel, is_copy, is_graph : ndarray of bool
        Whether it is a kernel, a copy, or a graph as a whole; the others are memsets.
    device, stream : ndarray of int64
        Its device's row in ``devices``, and CUPTI's id of its stream; -1 where unknown.
    start, end : ndarray of int64
        Its times on the host clock.
    reversed : int
        How many were left out because they end before they start, as after a jump of a clock.
    untimed : int
        How many were left out because a time of theirs was not measured.
    """

    row: Ints
    is_kernel: Bools
    is_copy: Bools
    is_graph: Bools
    device: Ints
    stream: Ints
    start: Ints
    end: Ints
    reversed: int
    untimed: int

    def __len__(self) -> int:
        """Return their number."""
        return len(self.row)

    def where(self, mask: Bools) -> Activities:
        """Return those that a mask selects."""
        return self if mask.all() else self.take(mask)

    def take(self, rows: Any) -> Activities:
        """Return those at the given places."""
        return Activities(
            self.row[rows], self.is_kernel[rows], self.is_copy[rows], self.is_graph[rows], self.device[rows],
            self.stream[rows], self.start[rows], self.end[rows], self.reversed, self.untimed,
        )

    def by_device(self) -> Iterator[tuple[int, Activities]]:
        """Yield each device (-1 where unknown) with its activities: two devices never mix."""
        for device, rows in rows_by(self.device).items():
            yield device, self if isinstance(rows, slice) else self.take(rows)

    def by_stream(self) -> Iterator[tuple[int, Activities]]:
        """Yield each stream (-1 where unknown) with its activities; of one device, for ids are a device's own."""
        streams = distinct(self.stream)
        if len(streams) == 1:
            yield streams[0], self
            return
        low = min(streams, default=0)
        near = max(streams, default=0) - low < _SMALL
        # Small numbers sort in linear time, and one sort is less than a look for each stream.
        order = np.argsort((self.stream - low).astype(np.int16) if near else self.stream, kind="stable")
        together = self.take(order)
        first = np.searchsorted(together.stream, streams).tolist()
        for stream, begin, end in zip(streams, first, [*first[1:], len(self)], strict=True):
            yield stream, together.take(slice(begin, end))

    @cached_property
    def busy(self) -> Intervals:
        """Return the intervals in which any of them ran."""
        return union(self.start, self.end)

    def kernels(self) -> Activities:
        """Return the kernels among them."""
        return self.where(self.is_kernel)

    @property
    def busy_with_graphs(self) -> Intervals:
        """Return the intervals in which a graph ran that was traced as a whole, and no kernel that is known."""
        graphs = self.where(self.is_graph)
        return graphs.busy.minus(self.kernels().busy) if len(graphs) else graphs.busy


def gpu_activities(recording: Recording) -> Activities:
    """Return the activities of the GPU whose times are known."""
    start, end = instants(recording, "activities", "start_ns", "end_ns")
    kernel, copy, memset, graph = (matches(recording, "activities", "kind", kind)
                                   for kind in (KERNEL, COPY, SET, GRAPH))
    is_gpu = kernel | copy | memset | graph
    known = is_gpu & is_known(start, end)
    forward = known & (start <= end)
    rows = np.arange(len(start)) if forward.all() else np.flatnonzero(forward)
    begun = start if len(rows) == len(start) else start[rows]
    ordered = not bool((begun[1:] < begun[:-1]).any())
    if not ordered:
        rows = rows[np.argsort(begun, kind="stable")]

    def taken(values: Any) -> Any:
        return values if ordered and len(rows) == len(start) else values[rows]

    return Activities(
        row=rows, is_kernel=taken(kernel), is_copy=taken(copy), is_graph=taken(graph),
        device=taken(ints(recording, "activities", "device_id")), stream=taken(ints(recording, "activities", "stream")),
        start=taken(start), end=taken(end),
        reversed=int(known.sum()) - int(forward.sum()), untimed=int(is_gpu.sum()) - int(known.sum()),
    )


def is_gpu_recorded(recording: Recording) -> bool:
    """Return whether the GPU's side was recorded, be it that nothing ran on it."""
    return bool(recording.metadata.get("gpu")) or row_count(recording, "activities") > 0


def windows(recording: Recording) -> Intervals:
    """Return the time that shares are of: each cell until the device was synchronized after it.

    Where the recording has no cells, it is the time from its first launch or activity to the end of the last one.
    """
    start, end, synchronized = instants(recording, "cells", "start_ns", "end_ns", "synchronized_ns")
    if len(start):
        return union(start, np.maximum(end, synchronized))  # an unknown one comes before all others
    gpu = gpu_activities(recording)
    launched, returned = instants(recording, "launches", "start_ns", "end_ns")
    starts = np.concatenate((gpu.start, launched))
    ends = np.concatenate((gpu.end, np.maximum(returned, launched)))
    if not len(starts):
        return Intervals(starts, ends)
    return union(starts.min(keepdims=True), ends.max(keepdims=True))


def distinct(values: Ints) -> list[int]:
    """Return the distinct values in order; without a sort where they lie close together, as ids do."""
    if not len(values):
        return []
    low, high = int(values.min()), int(values.max())
    if high - low < _LARGEST_TABLE:
        return (np.flatnonzero(np.bincount(values - low)) + low).tolist()
    return np.unique(values).tolist()


def known_id(value: int) -> int | None:
    """Return an id, or None for `kernelscope.schema.UNKNOWN`."""
    return None if value == UNKNOWN else value


# The join of both sides: each launch with the kernel that it made, and the kernels that no recorded launch made.
#
# A kernel belongs to the launch that its ``launch_id`` names; a launch that is one call of an algorithm has
# several. The others are kernels of graph launches, where they have a ``cupti_graph_id``, or of libraries that no
# probe of a framework knows: *other* kernels. A launch that was captured into a graph has none: its node's
# kernels are the graph's.

#: What a kernel was made by, in the order of `Joined.source`.
SOURCES = ("launch", "graph", "other")


@dataclass(frozen=True)
class Joined:
    """Both sides of a recording joined; -1 where something is unknown or there is none.

    Attributes
    ----------
    kernel : ndarray of int64, shape (launches,)
        The row in ``activities`` of each launch's kernel: of several, the one that started first.
    queue_ns, execute_ns : ndarray of int64, shape (launches,)
        From the end of submit to the kernel's start, 0 where it started before the call returned; and how long it ran,
        or all kernels of the launch together.
    activity : ndarray of int64, shape (kernels,)
        The rows in ``activities`` of all kernels.
    launch : ndarray of int64, shape (kernels,)
        The launch that each of those was joined to; -1 for graph and other kernels.
    source : ndarray of int64, shape (kernels,)
        What made it, as a place in `SOURCES`.
    kernel_queue_ns, kernel_execute_ns : ndarray of int64, shape (kernels,)
        The same as of launches, from the kernel's own driver call.
    """

    kernel: Ints
    queue_ns: Ints
    execute_ns: Ints
    activity: Ints
    launch: Ints
    source: Ints
    kernel_queue_ns: Ints
    kernel_execute_ns: Ints

    @cached_property
    def joined(self) -> int:
        """Return the number of launches that have a kernel."""
        return int((self.kernel >= 0).sum())


def join(recording: Recording) -> Joined:
    """Join launches with kernels.

    What ``launches`` says of queue and execute is taken where no activity tells: kernels that were timed with CUDA
    events have none.
    """
    is_kernel = matches(recording, "activities", "kind", KERNEL)
    rows = np.arange(len(is_kernel)) if is_kernel.all() else np.flatnonzero(is_kernel)

    def of_kernels(values: Ints) -> Ints:
        return values if len(rows) == len(values) else values[rows]

    launched, *graphs = (of_kernels(ints(recording, "activities", name))
                         for name in ("launch_id", "cupti_graph_id", "graph_event_id"))
    graph = np.maximum(*graphs)
    start, end, returned = map(of_kernels, instants(recording, "activities", "start_ns", "end_ns", "submit_end_ns"))
    submitted, = instants(recording, "launches", "submit_end_ns")
    count = len(submitted)
    if count <= int(launched.max(initial=UNKNOWN)):
        launched = np.where(launched < count, launched, UNKNOWN)

    # Of several assignments the last one stays, which is the first kernel: the order is turned around.
    place = np.full(count + 1, UNKNOWN, dtype=np.int64)
    place[launched[::-1]] = np.arange(len(launched) - 1, -1, -1)
    place = place[:count]
    is_joined = place >= 0
    first = np.flatnonzero(is_joined)
    chosen = place if len(first) == count else place[first]
    if len(first) == len(rows):
        joined_to, source = np.empty(len(rows), dtype=np.int64), np.zeros(len(rows), dtype=np.int64)
        joined_to[chosen] = first
    else:
        joined_to = launched
        source = np.where(joined_to >= 0, 0, np.where(graph >= 0, 1, 2))

    execute = duration_ns(start, end)
    since = returned
    if bool(is_known(submitted).any()):
        own = submitted if len(first) == count else submitted[first]
        since = returned.copy()
        since[chosen] = otherwise(own, returned[chosen])
    queue, untimed = delay_ns(since, start), execute < 0
    if untimed.any():
        queue[untimed] = UNKNOWN
    took = execute[chosen]
    if int((joined_to >= 0).sum()) > len(first):
        took = np.where(count_by(joined_to, count, execute >= 0) > 0, sum_by(joined_to, execute, count), UNKNOWN)[first]
    return Joined(
        kernel=_spread(count, first, rows[chosen]),
        queue_ns=_told(recording, "queue_ns", _spread(count, first, queue[chosen])),
        execute_ns=_told(recording, "execute_ns", _spread(count, first, took)),
        activity=rows, launch=joined_to, source=source, kernel_queue_ns=queue, kernel_execute_ns=execute,
    )


def without_trials(recording: Recording, joined: Joined) -> Joined:
    """Return both sides without what an autotuner's benchmarks launched."""
    tried = trials(recording)
    if not tried.any():
        return joined
    own = ~np.append(tried, False)[joined.launch]
    kernel, queue, execute = (np.where(tried, UNKNOWN, values)
                              for values in (joined.kernel, joined.queue_ns, joined.execute_ns))
    return Joined(kernel, queue, execute, *(values[own] for values in (
        joined.activity, joined.launch, joined.source, joined.kernel_queue_ns, joined.kernel_execute_ns)))


def correlate(recording: Recording, joined: Joined | None = None) -> pd.DataFrame:
    """Return one row a launch with its kernel, then one for each graph kernel and other kernel.

    Parameters
    ----------
    recording : Recording
        What was recorded.
    joined : Joined, optional
        `join` of it, where it is at hand.

    Returns
    -------
    DataFrame
        ``source`` (launch, captured, trial of an autotuner, graph or other), ``launch_id``, ``activity_id``, ``name``
        (of the dispatcher, or else of the kernel),
        ``dispatcher_id``, ``device_id``, ``stream``, ``host_ns``, a column a phase, ``queue_ns``,
        ``execute_ns``, ``graph_event_id`` and ``graph_node_id``, ``cupti_graph_id`` and ``cupti_node_id``, and
        ``correlation_id``, which is one for all kernels of one graph launch. What is unknown is null.
    """
    import pandas as pd

    joined = joined or join(recording)
    phases = launch_phases(recording)
    count = len(joined.kernel)
    rest = np.flatnonzero(joined.source != 0)
    activity = np.concatenate((joined.kernel, joined.activity[rest]))
    launch = np.concatenate((np.arange(count), np.full(len(rest), UNKNOWN, dtype=np.int64)))
    overload = _at(recording, "activities", "specialization_id", activity)
    dispatcher = _at(recording, "specializations", "dispatcher_id", overload)
    dispatcher[:count] = ints(recording, "launches", "dispatcher_id")
    correlation = _at(recording, "activities", "correlation_id", activity)
    correlation[:count] = np.where(
        correlation[:count] >= 0, correlation[:count], ints(recording, "launches", "correlation_id"))
    device = _at(recording, "activities", "device_id", activity)
    device[:count] = np.where(device[:count] >= 0, device[:count], ints(recording, "launches", "device_id"))
    none = np.full(len(rest), UNKNOWN, dtype=np.int64)
    columns = {
        "launch_id": launch,
        "activity_id": activity,
        "dispatcher_id": dispatcher,
        "device_id": device,
        "stream": _at(recording, "activities", "stream", activity),
        "host_ns": np.concatenate((phases.host_ns, none)),
        **{f"{name}_ns": np.concatenate((phases.phases[name], none)) for name in PHASES},
        "queue_ns": np.concatenate((joined.queue_ns, joined.kernel_queue_ns[rest])),
        "execute_ns": np.concatenate((joined.execute_ns, joined.kernel_execute_ns[rest])),
        **{name: _at(recording, "activities", name, activity) for name in ("graph_event_id", "graph_node_id")},
        "cupti_graph_id": _at(recording, "activities", "cupti_graph_id", activity),
        "cupti_node_id": _at(recording, "activities", "cupti_node_id", activity),
        "correlation_id": correlation,
    }
    table: Any = pd.DataFrame({name: pd.array(_masked(values), dtype="Int64") for name, values in columns.items()})
    made = np.where(captured(recording), len(SOURCES), np.where(trials(recording), len(SOURCES) + 1, 0))
    source = np.concatenate((made, joined.source[rest]))
    table.insert(0, "source", np.array([*SOURCES, "captured", "trial"], dtype=object)[source])
    table.insert(3, "name", _names(recording, dispatcher, activity))
    return cast("pd.DataFrame", table)


def kernel_dispatchers(recording: Recording, joined: Joined) -> Ints:
    """Return the dispatcher of each kernel of `joined`, through its launch or its specialization; -1 where unknown."""
    overload = _at(recording, "activities", "specialization_id", joined.activity)
    known = _at(recording, "specializations", "dispatcher_id", overload)
    launched = _at(recording, "launches", "dispatcher_id", joined.launch)
    return np.where(launched >= 0, launched, known)


def _names(recording: Recording, dispatcher: Ints, activity: Ints) -> Any:
    source: Any = recording
    called = np.array([*(row["name"] for row in recording.rows("dispatchers")), None], dtype=object)
    names = called[np.where(dispatcher < len(called) - 1, dispatcher, UNKNOWN)]
    unnamed = np.flatnonzero((dispatcher < 0) & (activity >= 0))
    names[unnamed] = source.column("activities", "name")[activity[unnamed]]
    return names


def _at(recording: Recording, table: str, name: str, rows: Ints) -> Ints:
    """Return a column's values at rows; -1 for a row that is -1 or outside of the table."""
    values = np.append(ints(recording, table, name), UNKNOWN)
    return values[np.where(rows < len(values) - 1, rows, UNKNOWN)]


def _spread(size: int, places: Ints, values: Ints) -> Ints:
    if len(places) == size:
        return values
    result = np.full(size, UNKNOWN, dtype=np.int64)
    result[places] = values
    return result


def _told(recording: Recording, name: str, found: Ints) -> Ints:
    """Return the joined values, or else those of the launches' own column."""
    source: Any = recording.arrow("launches").column(name)
    if source.null_count == len(source):
        return found
    missing = found < 0
    return np.where(missing, ints(recording, "launches", name), found) if missing.any() else found


def _masked(values: Ints) -> Any:
    import pandas as pd

    return pd.arrays.IntegerArray(values.astype(np.int64), values < 0)


# Busy time.

@dataclass(frozen=True)
class Busy:
    """How busy one device was. What ran at the same time on several streams counts once.

    Attributes
    ----------
    device_id : int or None
        The device; None where it is unknown.
    window_ns : int
        The time that was looked at.
    kernel_ns : int
        Of that, time in which a kernel ran.
    graph_ns : int
        Of that, time in which a graph ran that was traced as a whole, and no kernel that is known.
    busy_ns : int
        Of that, time in which a kernel, a graph, a copy or a memset ran.
    memset_ns : int
        Of that, time in which memsets ran, and no kernel, graph or copy.
    measuring_ns : int
        Time beside that in which launches were replayed for the GPU's counters: what runs then is not recorded.
    """

    device_id: int | None
    window_ns: int
    kernel_ns: int
    graph_ns: int
    busy_ns: int
    memset_ns: int = 0
    measuring_ns: int = 0

    @property
    def share(self) -> float | None:
        """Return busy time over all of it, 0 to 1; None where there was no time."""
        return self.busy_ns / self.window_ns if self.window_ns else None

    @property
    def kernel_share(self) -> float | None:
        """Return time of kernels over all of it, 0 to 1; None where there was no time."""
        return self.kernel_ns / self.window_ns if self.window_ns else None


@dataclass(frozen=True)
class BusyOverTime:
    """How busy one device was in each of many bins of time.

    Attributes
    ----------
    device_id : int or None
        The device; None where it is unknown.
    edges_ns : ndarray of int64, shape (bins + 1,)
        The bins' edges on the host clock.
    share : ndarray of float64, shape (bins,)
        Time in which anything ran over the bin's, 0 to 1.
    kernel_share : ndarray of float64, shape (bins,)
        The same of kernels alone.
    """

    device_id: int | None
    edges_ns: Ints
    share: Floats
    kernel_share: Floats


def busy(
    recording: Recording, within: Intervals | None = None, *, activities: Activities | None = None
) -> list[Busy]:
    """Return how busy each device was that did anything.

    Parameters
    ----------
    recording : Recording
        What was recorded.
    within : Intervals, optional
        The time to look at; without it `kernelscope.analysis.activities.windows`: the cells, each until the device was
        synchronized.
    activities : Activities, optional
        `gpu_activities` of the recording, where they are at hand.
    """
    activities = gpu_activities(recording) if activities is None else activities
    within = windows(recording) if within is None else within
    found: list[Busy] = []
    for device, own in activities.by_device():
        anything = own.busy
        kernels = own.kernels()
        alone = anything if len(kernels) == len(own) else kernels.busy
        busy_ns = within.common_ns(anything)
        kernel_ns = busy_ns if alone is anything else within.common_ns(alone)
        others = own.where(own.is_kernel | own.is_copy | own.is_graph)
        memset_ns = 0 if len(others) == len(own) else busy_ns - within.common_ns(others.busy)
        measuring_ns = measured(recording, device).minus(anything).common_ns(within)
        found.append(Busy(known_id(device), within.total_ns, kernel_ns, within.common_ns(own.busy_with_graphs),
                          busy_ns, memset_ns, measuring_ns))
    return found


def measured(recording: Recording, device: int) -> Intervals:
    """Return when launches on a device, or on one that is not known, were replayed for the GPU's counters."""
    rows = [row for row in replays(recording) if row["device_id"] in (None, known_id(device))]
    return union(*(np.array([row[name] for row in rows], np.int64) for name in ("start_ns", "end_ns")))


def busy_over_time(
    recording: Recording, bins: int = 200, within: Intervals | None = None, *, activities: Activities | None = None
) -> list[BusyOverTime]:
    """Return the busy share of each device in bins of equal length, for charts.

    Parameters
    ----------
    recording : Recording
        What was recorded.
    bins : int
        How many; fewer where there are fewer nanoseconds.
    within : Intervals, optional
        The time to look at, from its first start to its last end; as of `busy`.
    activities : Activities, optional
        As of `busy`.

    Raises
    ------
    ValueError
        `bins` is less than 1.
    """
    if bins < 1:
        raise ValueError(f"bins is {bins}; it must be 1 or more")
    activities = gpu_activities(recording) if activities is None else activities
    span = (windows(recording) if within is None else within).span
    if not len(span):
        return []
    first = int(span.start[0])
    last = int(span.end[0])
    steps = np.linspace(0, last - first, min(bins, last - first) + 1)
    edges = first + np.rint(steps).astype(np.int64)
    widths = np.diff(edges).astype(np.float64)
    return [
        BusyOverTime(known_id(device), edges, np.diff(own.busy.covered(edges)) / widths,
                     np.diff(own.kernels().busy.covered(edges)) / widths)
        for device, own in activities.by_device()
    ]


def busiest_by_cell(recording: Recording, *, activities: Activities | None = None) -> Floats:
    """Return the busy share of each cell's busiest device, in order of ``cells``.

    A cell is looked at until the device was synchronized after it; the share is NaN where that is no time, and where no
    device did anything in the recording.

    Returns
    -------
    ndarray of float64, shape (cells,)
    """
    activities = gpu_activities(recording) if activities is None else activities
    start, end, synchronized = instants(recording, "cells", "start_ns", "end_ns", "synchronized_ns")
    end = np.maximum(start, np.maximum(end, synchronized))
    # One row of devices at a time: of thousands of workers a value for each device in each cell would be millions.
    most = np.full(len(start), np.nan)
    for _, own in activities.by_device():
        most = np.fmax(most, own.busy.common(start, end))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(end > start, np.rint(most) / (end - start), np.nan)


def busy_table(recording: Recording, within: Intervals | None = None) -> pd.DataFrame:
    """Return `busy` as a DataFrame.

    Its columns are ``device_id``, ``window_ns``, ``busy_ns``, ``busy_share``, ``kernel_ns``, ``kernel_share`` and
    ``graph_ns``.
    """
    return data_frame(busy(recording, within), {
        "device_id": "Int64", "window_ns": "Int64", "busy_ns": "Int64", "busy_share": "Float64", "kernel_ns": "Int64",
        "kernel_share": "Float64", "graph_ns": "Int64"}, {"busy_share": "share"})


# Execution by kernel.

_SHARES = (0.5, 0.9, 0.99, 1.0)


@dataclass(frozen=True)
class Spread:
    """Percentiles of a duration, in nanoseconds.

    Attributes
    ----------
    count : int
        Of how many it is known.
    total_ns : int
        Their sum.
    p50_ns, p90_ns, p99_ns : float
        Percentiles, linearly interpolated.
    max_ns : float
        The longest.
    """

    count: int
    total_ns: int
    p50_ns: float
    p90_ns: float
    p99_ns: float
    max_ns: float

    @property
    def mean_ns(self) -> float:
        """Return the mean, in nanoseconds."""
        return self.total_ns / self.count


@dataclass(frozen=True)
class KernelExecution:
    """One kernel on the GPU.

    Attributes
    ----------
    dispatcher_id : int or None
        Its row in ``dispatchers``; None for kernels that no probe of a framework knows.
    name : str
        The dispatcher's name, or else the kernel's readable one.
    kernels : int
        How often it ran.
    launched, in_graphs, others : int
        Of that, by recorded launches, by graph launches, and by other libraries.
    execute, queue : Spread or None
        How long it ran, and queued after submit; None where that was not measured.
    histogram : tuple of int
        How many ran how long: counts in `kernelscope.analysis.columns.BINS` bins of equal ratio, from the shortest of
        all kernels to the longest; none where that was not measured.
    """

    dispatcher_id: int | None
    name: str
    kernels: int
    launched: int
    in_graphs: int
    others: int
    execute: Spread | None
    queue: Spread | None
    histogram: tuple[int, ...] = ()


def by_execution(recording: Recording, joined: Joined | None = None) -> Rows[KernelExecution]:
    """Summarize each kernel that ran on the GPU, in order of total execution time, longest first.

    Kernels of one dispatcher are one row, whose id is the dispatcher's, those of its graph launches included; others
    are grouped by their names. Launches that were timed with CUDA events count as their kernels; those of an
    autotuner's benchmarks do not count. Its columns are ``kernels``, ``others`` and ``total_ns``.

    Parameters
    ----------
    recording : Recording
        What was recorded.
    joined : Joined, optional
        `join` of it, where it is at hand.
    """
    joined = without_trials(recording, joined or join(recording))
    name, names = codes(recording, "activities", "name")
    called = row_count(recording, "dispatchers")
    dispatcher = kernel_dispatchers(recording, joined)
    alone = np.flatnonzero((joined.kernel < 0) & (joined.execute_ns >= 0))
    # What the launches say goes before the kernels' own: it begins where their submit phase ended.
    launched = joined.launch >= 0
    of_launch = np.append(joined.queue_ns, UNKNOWN)[joined.launch]
    # A graph's kernels wait for those before them, and so do all of a call but its first: that is no queue.
    first = np.append(joined.kernel, UNKNOWN)[joined.launch] == joined.activity
    in_graph = joined.source == SOURCES.index("graph")
    queue = np.where(launched, np.where(first, of_launch, UNKNOWN), np.where(in_graph, UNKNOWN, joined.kernel_queue_ns))
    known = (dispatcher >= 0) & (dispatcher < called)
    key = np.where(known, dispatcher, called + name[joined.activity])
    key = np.concatenate((key, ints(recording, "launches", "dispatcher_id")[alone]))
    source = np.concatenate((joined.source, np.zeros(len(alone), dtype=np.int64)))
    queue = np.concatenate((queue, joined.queue_ns[alone]))
    execute = np.concatenate((joined.kernel_execute_ns, joined.execute_ns[alone]))
    size = called + len(names)
    counts = count_by(key, size)
    by_source = [count_by(key, size, source == place) for place in range(len(SOURCES))]
    executed, queued = spreads_by(key, execute, size), spreads_by(key, queue, size)
    histograms = Histograms(key, execute, size)

    def made(ids: list[int]) -> list[KernelExecution]:
        kernels, counted = rows_at(recording, "dispatchers", [at for at in ids if at < called]), histograms.of(ids)
        return [
            KernelExecution(
                at if at < called else None, str(kernels[at]["name"]) if at < called else names[at - called],
                int(counts[at]), int(by_source[0][at]), int(by_source[1][at]), int(by_source[2][at]),
                executed[at], queued[at], tuple(counted[place].tolist()) if executed.counts[at] else (),
            )
            for place, at in enumerate(ids)
        ]

    found = np.flatnonzero(counts)
    order = np.lexsort((-counts[found], -executed.totals[found]))
    return Rows(found[order], made, {"kernels": counts, "others": by_source[2],
                                     "total_ns": np.where(executed.counts > 0, executed.totals, UNKNOWN)})


def execution_table(recording: Recording) -> pd.DataFrame:
    """Return `by_execution` as a DataFrame.

    Its columns are ``name``, ``dispatcher_id``, ``kernels``, ``launched``, ``in_graphs``, ``others``, and for execute
    and for queue ``_total_ns``, ``_p50_ns``, ``_p90_ns``, ``_p99_ns`` and ``_max_ns``.
    """
    counts = ("dispatcher_id", "kernels", "launched", "in_graphs", "others")
    columns = {"name": "object", **dict.fromkeys(counts, "Int64")}
    spreads = {f"{what}_{name}": f"{what}.{name}" for what in ("execute", "queue")
               for name in ("total_ns", "p50_ns", "p90_ns", "p99_ns", "max_ns")}
    columns |= {name: "Int64" if name.endswith("total_ns") else "Float64" for name in spreads}
    return data_frame(by_execution(recording), columns, spreads)


@dataclass(frozen=True)
class Spreads:
    """The spreads of groups of durations, as arrays: how many there are, their sums, and their percentiles."""

    counts: Ints
    totals: Ints
    shares: Floats

    def __getitem__(self, group: int) -> Spread | None:
        """Return the spread of one group; None for a group of which no duration is known."""
        if not self.counts[group]:
            return None
        return Spread(int(self.counts[group]), int(self.totals[group]), *self.shares[group].tolist())


def spreads_by(groups: Ints, values: Ints, size: int) -> Spreads:
    """Return the spread of durations (int64, -1 unknown) by group."""
    return Spreads(count_by(groups, size, values >= 0), sum_by(groups, values, size),
                   percentiles_by(groups, values, size, _SHARES))


def spread(values: Ints) -> Spread | None:
    """Return the spread of durations (int64, -1 unknown); None where none is known."""
    return spreads_by(np.zeros(len(values), dtype=np.int64), values, 1)[0]


# Overlap.

@dataclass(frozen=True)
class CopySummary:
    """The copies of one direction on one device.

    Attributes
    ----------
    device_id : int or None
        The device; None where it is unknown.
    direction : str
        Such as HtoD.
    copies : int
        How many there were.
    size_bytes : int or None
        Bytes copied; None where no copy's size is known.
    copy_ns : int or None
        Time in which any of them ran; None where no copy's times are known.
    hidden_ns : int or None
        Of that, time in which a kernel ran too.
    pageable : int
        How many were from or to pageable memory of the host, which the driver copies once more.
    pageable_bytes : int
        Their bytes.
    pageable_ns : int or None
        Time in which any of those ran; None where no times of theirs are known.
    """

    device_id: int | None
    direction: str
    copies: int
    size_bytes: int | None
    copy_ns: int | None
    hidden_ns: int | None
    pageable: int
    pageable_bytes: int
    pageable_ns: int | None

    @property
    def hidden_share(self) -> float | None:
        """Return the share of the time that overlapped kernels, 0 to 1."""
        if not self.copy_ns or self.hidden_ns is None:
            return None
        return self.hidden_ns / self.copy_ns

    @property
    def bytes_per_second(self) -> float | None:
        """Return the bytes a second, over the time in which any of them ran."""
        if not self.copy_ns or self.size_bytes is None:
            return None
        return self.size_bytes / self.copy_ns * 1e9


def overlap(recording: Recording, *, activities: Activities | None = None) -> list[CopySummary]:
    """Summarize the copies of each direction on each device, in order of time spent, longest first.

    Parameters
    ----------
    recording : Recording
        What was recorded.
    activities : Activities, optional
        `gpu_activities` of it, where they are at hand.
    """
    rows = np.flatnonzero(matches(recording, "activities", "kind", COPY))
    if not len(rows):
        return []
    direction, directions = codes(recording, "activities", "name")
    memory, memories = codes(recording, "activities", "memory")
    held = np.array([*("pageable" in word for word in memories), False])
    size = ints(recording, "activities", "size_bytes")[rows]
    device = ints(recording, "activities", "device_id")[rows]
    pageable = held[memory[rows]]
    activities = gpu_activities(recording) if activities is None else activities
    kernels: dict[int, Intervals] = {which: own.kernels().busy for which, own in activities.by_device()}
    copies = activities.where(activities.is_copy)
    timed_direction = direction[copies.row]
    group = (device - UNKNOWN) * len(directions) + direction[rows]
    found: list[CopySummary] = []
    for key in np.unique(group).tolist():
        which, word = key // len(directions) + UNKNOWN, key % len(directions)
        mine = group == key
        timed = copies.where((copies.device == which) & (timed_direction == word))
        busy, paged = timed.busy, timed.where(held[memory[timed.row]])
        found.append(CopySummary(
            device_id=known_id(which),
            direction=directions[word],
            copies=int(mine.sum()),
            size_bytes=_known_sum(size[mine]),
            copy_ns=busy.total_ns if len(timed) else None,
            hidden_ns=kernels[which].common_ns(busy) if len(timed) else None,
            pageable=int((mine & pageable).sum()),
            pageable_bytes=_known_sum(size[mine & pageable]) or 0,
            pageable_ns=paged.busy.total_ns if len(paged) else None,
        ))
    return sorted(found, key=lambda each: (-(each.copy_ns or 0), -(each.size_bytes or 0), each.direction))


@dataclass(frozen=True)
class MemsetSummary:
    """The memsets on one device.

    Attributes
    ----------
    device_id : int or None
        The device; None where it is unknown.
    memsets : int
        How many there are.
    size_bytes : int or None
        How much they set; None where that is known of none.
    memset_ns : int or None
        Time in which any of them ran; None where none was timed.
    """

    device_id: int | None
    memsets: int
    size_bytes: int | None
    memset_ns: int | None


def memsets(recording: Recording, *, activities: Activities | None = None) -> list[MemsetSummary]:
    """Summarize the memsets on each device, in order of devices; `activities` as of `overlap`."""
    rows = np.flatnonzero(matches(recording, "activities", "kind", SET))
    if not len(rows):
        return []
    size, device = (ints(recording, "activities", name)[rows] for name in ("size_bytes", "device_id"))
    activities = gpu_activities(recording) if activities is None else activities
    timed = {which: own.where(~(own.is_kernel | own.is_copy | own.is_graph)) for which, own in activities.by_device()}
    return [MemsetSummary(
        known_id(which), int((device == which).sum()), _known_sum(size[device == which]),
        timed[which].busy.total_ns if which in timed and len(timed[which]) else None)
        for which in np.unique(device).tolist()]


def copied_in_launches(recording: Recording) -> dict[int, int]:
    """Return how many bytes launches copied on their own threads, as of host arrays, by the kernel's row.

    Kernels whose launches copied nothing have no entry; a copy inside launches of several kernels is the innermost's.
    """
    copies = matches(recording, "activities", "kind", "memcpy")
    size, thread = (ints(recording, "activities", name)[copies] for name in ("size_bytes", "thread_id"))
    at = instants(recording, "activities", "submit_start_ns")[0][copies]
    start, end = instants(recording, "launches", "start_ns", "end_ns")
    owner, own = (ints(recording, "launches", name) for name in ("dispatcher_id", "thread_id"))
    found: dict[int, int] = {}
    called = is_known(at)
    for each in np.unique(thread[called]).tolist():
        rows, made = np.flatnonzero(own == each), np.flatnonzero((thread == each) & called)
        rows = rows[np.argsort(start[rows], kind="stable")]
        place = np.searchsorted(start[rows], at[made], side="right") - 1
        made, held = made[place >= 0], rows[place[place >= 0]]
        inside = at[made] < end[held]
        kernels, moved = owner[held[inside]], np.maximum(size[made[inside]], 0)
        amounts = sum_by(kernels, moved, row_count(recording, "dispatchers"))
        for kernel in np.unique(kernels[kernels >= 0]).tolist():
            found[kernel] = found.get(kernel, 0) + int(amounts[kernel])
    return found


def overlap_table(recording: Recording) -> pd.DataFrame:
    """Return `overlap` as a DataFrame.

    Its columns are ``device_id``, ``direction``, ``copies``, ``size_bytes``, ``copy_ns``, ``hidden_ns``,
    ``hidden_share`` and ``bytes_per_second``.
    """
    return data_frame(overlap(recording), {
        "device_id": "Int64", "direction": "object", "copies": "Int64", "size_bytes": "Int64", "copy_ns": "Int64",
        "hidden_ns": "Int64", "hidden_share": "Float64", "bytes_per_second": "Float64"}, {})


def _known_sum(values: Ints) -> int | None:
    known = values[values >= 0]
    return int(known.sum()) if len(known) else None
