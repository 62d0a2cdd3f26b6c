"""Launches of graphs by column: the host's call, and what ran for it on the GPU.

A launch is a row of ``graph_events``. What ran without one, as where graphs were not watched, is grouped by CUPTI's
ids: all nodes of one launch have the correlation id of its call.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kernelscope.analysis.activities import KERNEL
from kernelscope.analysis.columns import Ints, count_by, ints, matches, row_count, sum_by
from kernelscope.recording.model import Recording
from kernelscope.schema import UNKNOWN


@dataclass(frozen=True)
class GraphRuns:
    """Launches of graphs: arrays of int64, -1 where something is unknown.

    Attributes
    ----------
    event : ndarray, shape (runs,)
        The row in ``graph_events``; those without one come last.
    graph, executable : ndarray, shape (runs,)
        The graph, and the event that made the executable graph.
    cupti_graph, correlation, device, cell, thread : ndarray, shape (runs,)
        CUPTI's id of the executable graph and of the call, the device, and the cell and the thread that launched it.
    called, returned : ndarray, shape (runs,)
        When the host entered the call, and when it returned.
    start, end : ndarray, shape (runs,)
        On the GPU, from the first node's start to the last one's end.
    activities, kernels, busy : ndarray, shape (runs,)
        How many activities ran, the kernels among them, and the sum of the times of all.
    first : ndarray, shape (runs,)
        The row in ``activities`` that began first.
    of_activity : ndarray, shape (activities,)
        The run that each activity is of.
    """

    event: Ints
    graph: Ints
    executable: Ints
    cupti_graph: Ints
    correlation: Ints
    device: Ints
    cell: Ints
    thread: Ints
    called: Ints
    returned: Ints
    start: Ints
    end: Ints
    activities: Ints
    kernels: Ints
    busy: Ints
    first: Ints
    of_activity: Ints

    def __len__(self) -> int:
        """How many launches there are."""
        return len(self.event)

    @cached_property
    def execute(self) -> Ints:
        """From the first node's start to the last one's end, in nanoseconds."""
        return np.where((self.start >= 0) & (self.end >= 0), self.end - self.start, UNKNOWN)


def graph_runs(recording: Recording) -> GraphRuns:
    """Return the launches of graphs that were seen, on the host or on the GPU."""
    events = np.flatnonzero(matches(recording, "graph_events", "kind", "launch"))
    place = np.full(row_count(recording, "graph_events") + 1, UNKNOWN, dtype=np.int64)
    place[events] = np.arange(len(events))
    of = place[_within(ints(recording, "activities", "graph_event_id"), len(place) - 1)]
    cupti = ints(recording, "activities", "cupti_graph_id")
    call = ints(recording, "activities", "correlation_id")
    alone = np.flatnonzero((of < 0) & (cupti >= 0))
    count = len(events)
    if len(alone):
        _, ids = np.unique(cupti[alone], return_inverse=True)
        _, calls = np.unique(call[alone], return_inverse=True)
        keys, group = np.unique(ids * (int(calls.max()) + 1) + calls, return_inverse=True)
        of[alone] = count + group
        count += len(keys)
    rows = np.flatnonzero(of >= 0)
    start, end = ints(recording, "activities", "start_ns")[rows], ints(recording, "activities", "end_ns")[rows]
    mine = of[rows]
    began, ended = _least(mine, start, count), _most(mine, np.where(start >= 0, end, UNKNOWN), count)
    queued, executed = (_at_events(recording, events, name) for name in ("queue_ns", "execute_ns"))
    returned = _at_events(recording, events, "end_ns")
    # A launch without activities keeps what its row says of the GPU.
    told = (began[:len(events)] < 0) & (queued >= 0) & (executed >= 0) & (returned >= 0)
    began[:len(events)][told] = (returned + queued)[told]
    ended[:len(events)][told] = (returned + queued + executed)[told]
    leaders = _first(mine, rows, start, count)

    def column(event: str, activity: str) -> Ints:
        values = np.append(ints(recording, "activities", activity), UNKNOWN)[leaders]
        if event:
            own = _at_events(recording, events, event)
            values[:len(events)] = np.where(own >= 0, own, values[:len(events)])
        return values

    none = np.full(count - len(events), UNKNOWN, dtype=np.int64)
    is_kernel = matches(recording, "activities", "kind", KERNEL)[rows]
    return GraphRuns(
        event=np.concatenate((events, none)),
        graph=np.concatenate((_at_events(recording, events, "graph_id"), none)),
        executable=np.concatenate((_at_events(recording, events, "exec_id"), none)),
        cupti_graph=column("", "cupti_graph_id"), correlation=column("correlation_id", "correlation_id"),
        device=column("", "device_id"), cell=column("cell_id", "cell_id"), thread=column("thread_id", "thread_id"),
        called=column("start_ns", "submit_start_ns"), returned=column("end_ns", "submit_end_ns"),
        start=began, end=ended, activities=count_by(mine, count), kernels=count_by(mine, count, is_kernel),
        busy=sum_by(mine, np.where((start >= 0) & (end >= start), end - start, UNKNOWN), count),
        first=leaders, of_activity=of,
    )


def _at_events(recording: Recording, events: Ints, name: str) -> Ints:
    return ints(recording, "graph_events", name)[events]


def _within(ids: Ints, size: int) -> Ints:
    """Ids of a table of `size` rows, -1 for any other."""
    return np.where(ids < size, ids, UNKNOWN)


def _least(groups: Ints, values: Ints, size: int) -> Ints:
    found = np.full(size, np.iinfo(np.int64).max)
    known = values >= 0
    np.minimum.at(found, groups[known], values[known])
    return np.where(found == np.iinfo(np.int64).max, UNKNOWN, found)


def _most(groups: Ints, values: Ints, size: int) -> Ints:
    found = np.full(size, UNKNOWN, dtype=np.int64)
    np.maximum.at(found, groups, values)
    return found


def _first(groups: Ints, rows: Ints, start: Ints, size: int) -> Ints:
    """The row of each group that began first; one without a start only where no other is there."""
    found = np.full(size, UNKNOWN, dtype=np.int64)
    known = np.flatnonzero(start >= 0)
    if bool((np.diff(start[known]) < 0).any()):
        known = known[np.argsort(start[known], kind="stable")]
    # Of several assignments the last one stays.
    for each in (np.flatnonzero(start < 0)[::-1], known[::-1]):
        found[groups[each]] = rows[each]
    return found
