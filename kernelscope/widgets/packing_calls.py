"""GPU activities and what the host called for them: joined, and grouped into graph launches."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kernelscope.analysis.columns import codes, ints, matches, row_count
from kernelscope.analysis.graph_names import run_names
from kernelscope.analysis.graph_runs import graph_runs
from kernelscope.recording.model import Recording
from kernelscope.schema import UNKNOWN
from kernelscope.widgets.packing_clock import Clock

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

#: What a row of the table ``calls`` is, in its column ``source``.
API_CALL, WAIT, ASKING = 0, 1, 2


@dataclass(frozen=True)
class Calls:
    """What `host_calls` finds; all arrays are int64, times count from the recording's first instant.

    Attributes
    ----------
    rows : ndarray, shape (n,)
        The activities that the GPU did and that can be drawn: rows of ``activities``.
    at : ndarray or slice
        The same to index with: a slice where that are all of them, which copies nothing.
    start, end, flags : ndarray, shape (n,)
        When; an unknown end is the start's.
    own_start, own_end : ndarray, shape (n,)
        The driver call of those that a launch of ours made; of the others, as of the one before.
    call_of, graph_of : ndarray, shape (n,)
        Rows of the calls and of the graph launches, -1 for none.
    undrawn : int
        Activities without any time.
    called, returned, called_by, call_flags : ndarray, shape (m,)
        The calls.
    columns : dict of str to ndarray
        More of each call.
    names : list of str
        What their column ``name`` stands for.
    graph_start, graph_end : ndarray, shape (g,)
        Graph launches: from their first node to their last.
    graph_columns : dict of str to ndarray
        More of each graph launch.
    graph_names : list of str
        What their column ``name`` stands for.
    queue, execute : ndarray, shape (launches,)
        As the kernels of the launches have it, -1 where there is none.
    """

    rows: Ints
    at: Ints | slice
    start: Ints
    end: Ints
    flags: Ints
    own_start: Ints
    own_end: Ints
    call_of: Ints
    graph_of: Ints
    undrawn: int
    called: Ints
    returned: Ints
    called_by: Ints
    call_flags: Ints
    columns: dict[str, Ints]
    names: list[str]
    graph_start: Ints
    graph_end: Ints
    graph_columns: dict[str, Ints]
    graph_names: list[str]
    queue: Ints
    execute: Ints


def host_calls(recording: Recording, clock: Clock) -> Calls:
    """Return the GPU's activities with the calls and graph launches that they belong to."""
    sync = matches(recording, "activities", "kind", "sync")
    kernel = matches(recording, "activities", "kind", "kernel")
    start, began = clock.times("activities", "start_ns")
    end, ended = clock.times("activities", "end_ns")
    asked, known = clock.times("activities", "submit_start_ns")
    answered, returned = clock.times("activities", "submit_end_ns")
    if not returned.all():
        answered = np.where(returned, answered, asked)
    if not began.all():
        # What was not measured on the GPU is shown where the host asked for it.
        start = np.where(began, start, np.where(returned | known, answered, end))
    if not ended.all():
        end = np.where(ended, end, start)
    drawn = began | ended | known
    rows = np.flatnonzero(drawn & ~sync)
    if len(rows) and bool((np.diff(start[rows]) < 0).any()):
        rows = rows[np.argsort(start[rows], kind="stable")]
        at: Ints | slice = rows
    else:
        at = slice(None) if len(rows) == len(start) else rows
    launch = ints(recording, "activities", "launch_id")
    own = (launch >= 0) & kernel
    flags = 1 * ~ended + 2 * ~began + 4 * ~(known & own)

    asking = np.flatnonzero(known & ~own & ~sync)
    groups, member = _groups(recording, asking, asked)
    first = asking[groups]
    waits = np.flatnonzero(sync & drawn)
    calls = _Merged(recording, clock, first, waits, (asked, answered), (start, end, ended))
    call_of = np.full(len(start), UNKNOWN, dtype=np.int64)
    call_of[asking] = calls.place_of_asking[member]
    graphs = _Graphs(recording, rows, at, start, end, call_of)
    called = (own & known)[at]
    held = slice(None) if called.all() else np.maximum.accumulate(np.where(called, np.arange(len(rows)), 0))
    queue, execute = _by_launch(recording, clock, rows if own.all() else rows[own[at]], (start, end, began, ended))
    return Calls(
        rows=rows, at=at, start=start[at], end=end[at], flags=flags[at],
        own_start=asked[at][held], own_end=answered[at][held],
        call_of=call_of[at], graph_of=graphs.of, undrawn=int((~drawn).sum()),
        called=calls.start, returned=calls.end, called_by=calls.columns["thread_id"], call_flags=calls.flags,
        columns=calls.columns, names=calls.names,
        graph_start=graphs.start, graph_end=graphs.end, graph_columns=graphs.columns,
        graph_names=graphs.names,
        queue=queue, execute=execute,
    )


class _Merged:
    """API calls, waits, and the calls that asked for activities, in order of start."""

    def __init__(
        self, recording: Recording, clock: Clock, asking: Ints, waits: Ints, submits: tuple[Ints, Ints],
        times: tuple[Ints, Ints, Bools],
    ) -> None:
        begin, _ = clock.times("api_calls", "start_ns")
        finish, _ = clock.times("api_calls", "end_ns")
        asked, answered = submits
        start, end, ended = times
        all_start = np.concatenate((begin, start[waits], asked[asking]))
        order = np.argsort(all_start, kind="stable")
        self.start = all_start[order]
        self.end = np.concatenate((finish, end[waits], answered[asking]))[order]
        zeros = np.zeros(len(begin) + len(waits) + len(asking), dtype=np.int64)
        flags = zeros.copy()
        flags[len(begin):len(begin) + len(waits)] = 1 * ~ended[waits]
        self.flags = flags[order]
        place = np.empty(len(order), dtype=np.int64)
        place[order] = np.arange(len(order))
        self.place_of_asking = place[len(begin) + len(waits):]

        def joined(name: str) -> Ints:
            many = ints(recording, "activities", name)
            return np.concatenate((ints(recording, "api_calls", name), many[waits], many[asking]))[order]

        source = np.repeat(np.array([API_CALL, WAIT, ASKING]), (len(begin), len(waits), len(asking)))
        called, called_words = codes(recording, "api_calls", "name")
        waited, waited_words = codes(recording, "activities", "name")
        api, api_words = codes(recording, "activities", "api")
        self.names = [*called_words, *waited_words, *api_words, "driver call"]
        unnamed = len(self.names) - 1
        after = len(called_words) + len(waited_words)
        asked_by = np.where(api[asking] >= 0, api[asking] + after, unnamed)
        names = np.concatenate((called, waited[waits] + len(called_words), asked_by))
        results = np.concatenate((ints(recording, "api_calls", "result"), zeros[len(begin):] - 1))
        rows = np.concatenate((np.arange(len(begin)), waits, asking))
        many = ints(recording, "activities", "stream")
        streams = np.concatenate((zeros[:len(begin)] - 1, many[waits], many[asking]))
        self.columns = {
            "source": source[order], "name": names[order], "id": rows[order], "result": results[order],
            "thread_id": joined("thread_id"), "cell_id": joined("cell_id"),
            "correlation_id": joined("correlation_id"), "stream": streams[order],
        }


class _Graphs:
    """Launches of graphs of which an activity is drawn, in order of their first one's start."""

    def __init__(
        self, recording: Recording, rows: Ints, at: Ints | slice, start: Ints, end: Ints, call_of: Ints
    ) -> None:
        runs = graph_runs(recording)
        run = runs.of_activity[at]
        nodes = np.flatnonzero(run >= 0)
        self.of = np.full(len(rows), UNKNOWN, dtype=np.int64)
        # Rows are in order of start, so the first of a run is the one that began first.
        shown, first, of = np.unique(run[nodes], return_index=True, return_inverse=True)
        order = np.argsort(nodes[first], kind="stable")
        place = np.empty(len(order), dtype=np.int64)
        place[order] = np.arange(len(order))
        self.of[nodes] = place[of]
        shown, leaders = shown[order], rows[nodes[first[order]]]
        self.start = start[leaders]
        self.end = self.start.copy()
        np.maximum.at(self.end, self.of[nodes], end[rows[nodes]])
        name, self.names = run_names(recording, runs)
        busy = np.zeros(len(order), dtype=np.int64)
        np.add.at(busy, self.of[nodes], np.maximum(end[rows[nodes]] - start[rows[nodes]], 0))
        self.columns = {
            "name": name[shown], "event": runs.event[shown], "graph_id": runs.graph[shown],
            "cupti_graph_id": runs.cupti_graph[shown], "correlation_id": runs.correlation[shown],
            "cell_id": runs.cell[shown], "thread_id": runs.thread[shown],
            "nodes": np.bincount(self.of[nodes], minlength=len(order)).astype(np.int64),
            "first": nodes[first[order]], "call": call_of[leaders], "busy": busy,
        }


def _groups(recording: Recording, asking: Ints, asked: Ints) -> tuple[Ints, Ints]:
    """Activities of one call: the first of each, and the group of each activity."""
    if not len(asking):
        return asking, asking
    correlation = ints(recording, "activities", "correlation_id")[asking]
    thread = ints(recording, "activities", "thread_id")[asking]
    keys = np.stack((asked[asking], thread, correlation), axis=1)
    _, first, member = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    return first, member.reshape(-1)


def _by_launch(
    recording: Recording, clock: Clock, kernels: Ints, times: tuple[Ints, Ints, Bools, Bools]
) -> tuple[Ints, Ints]:
    """Queue and execute of each launch, from its first kernel."""
    start, end, began, ended = times
    count = row_count(recording, "launches")
    queue = np.full(count, UNKNOWN, dtype=np.int64)
    execute = queue.copy()
    submitted, known = clock.times("launches", "submit_end_ns")
    launch = ints(recording, "activities", "launch_id")[kernels]
    if bool((np.diff(launch) <= 0).any()):
        # The first kernel of a launch is written last.
        kernels, launch = kernels[::-1], launch[::-1]
    begun = start[kernels]
    waited = np.maximum(begun - submitted[launch], 0)
    took = end[kernels] - begun
    if not (began.all() and known.all()):
        waited[~(began[kernels] & known[launch])] = UNKNOWN
    if not (began.all() and ended.all()):
        took[~(began[kernels] & ended[kernels])] = UNKNOWN
    queue[launch], execute[launch] = waited, took
    return queue, execute
