"""The timeline: its lanes, tracks, tables and tooltips, as its front end takes them."""

from __future__ import annotations

import heapq
import json
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from kernelscope.analysis.columns import Bools, Ints, codes, ints, matches, row_count
from kernelscope.analysis.graphs import build_names, event_names, graph_runs, run_names
from kernelscope.analysis.ranges import attribute, attribute_activities
from kernelscope.recording.model import Recording
from kernelscope.schema import UNKNOWN
from kernelscope.views.base import dims, stream
from kernelscope.views.timeline.wire import EXACT, LONG, Columns, Link

_TIMES = {
    "cells": ("start_ns", "end_ns"),
    "launches": ("start_ns", "dispatch_end_ns", "submit_start_ns", "submit_end_ns", "end_ns"),
    "activities": ("start_ns", "end_ns", "submit_start_ns", "submit_end_ns"),
    "api_calls": ("start_ns", "end_ns"),
    "compilations": ("start_ns", "end_ns"),
    "passes": ("start_ns",),
    "ranges": ("start_ns", "end_ns"),
    "graph_events": ("start_ns", "end_ns"),
    "builds": ("start_ns", "end_ns"),
}


class Clock:
    """The recording's first and last instant, and its columns of times from the first on.

    Attributes
    ----------
    first : int
        The first instant, in host-clock nanoseconds.
    span : int
        From the first to the last, in nanoseconds; 0 for an empty recording.
    """

    def __init__(self, recording: Recording) -> None:
        self._recording: Any = recording
        bounds = [each for table, names in _TIMES.items() for name in names for each in self._bounds(table, name)]
        self.first = min(bounds, default=0)
        # What a file says can be anything; exact numbers end there.
        self.span = min(max(bounds, default=0) - self.first, EXACT // 2)
        self._is_odd = self.span == EXACT // 2
        self._held: dict[tuple[str, str], tuple[Ints, Bools]] = {}

    def times(self, table: str, name: str) -> tuple[Ints, Bools]:
        """Return a column of times from the first instant on (0 for null), and which of them are known."""
        if (table, name) not in self._held:
            column = self._recording.arrow(table).column(name)
            known = ~_nulls(column)
            if column.null_count:
                column = column.fill_null(self.first)
            values = np.asarray(column.to_numpy(), dtype=np.int64)
            if self._is_odd:
                values = np.clip(values, self.first, self.first + self.span)
            self._held[table, name] = values - self.first, known
        return self._held[table, name]

    def _bounds(self, table: str, name: str) -> list[int]:
        column = self._recording.arrow(table).column(name)
        if column.null_count == len(column):
            return []
        values = column.drop_null().to_numpy() if column.null_count else column.to_numpy()
        return [int(values.min()), int(values.max())]


def _nulls(column: pa.ChunkedArray) -> Bools:
    if not column.null_count:
        return np.zeros(len(column), dtype=np.bool_)
    return np.asarray(column.is_null().to_numpy(), dtype=np.bool_)


# Rows for intervals: overlapping ones below one another, as few rows as it takes.

#: What overlaps more deeply shares the last row.
MOST_ROWS = 32


def rows_of(start: Ints, end: Ints) -> tuple[Ints, int]:
    """Return the row of each interval, and how many rows there are.

    Intervals inside others come below them; those that do not overlap share a row.

    Parameters
    ----------
    start, end : ndarray of int64, shape (n,)
        In order of start. An end before its start counts as the start.

    Returns
    -------
    ndarray of int64, shape (n,), and int
        Rows from 0, below `MOST_ROWS`.
    """
    row = np.zeros(len(start), dtype=np.int64)
    if not len(start):
        return row, 0
    end = np.maximum(start, end)
    if bool((start[1:] >= end[:-1]).all()):
        return row, 1
    left = np.arange(len(start))
    depth = 0
    # One row a round: what begins after all before it has ended. Right for what is nested, which is most of all.
    while depth < MOST_ROWS:
        reach = np.maximum.accumulate(end[left])
        free = np.ones(len(left), dtype=np.bool_)
        free[1:] = start[left[1:]] >= reach[:-1]
        row[left[free]] = depth
        left = left[~free]
        depth += 1
        if not len(left):
            break
    if depth > 1 and (len(left) or depth > _concurrency(start, end)):
        row = _greedy(start, end)
        depth = int(row.max()) + 1
    return row, depth


def numbered(*columns: Ints) -> tuple[list[tuple[int, ...]], Ints]:
    """Return the distinct rows of some columns, in order, and the number of each row among them.

    As `numpy.unique` of rows, but quick where a column is all one value.
    """
    if not len(columns[0]):
        return [], np.empty(0, dtype=np.int64)
    whole = np.zeros(len(columns[0]), dtype=np.int64)
    found: list[tuple[int, ...]] = [()]
    for column in columns:
        least, most = int(column.min()), int(column.max())
        if least == most:
            found = [(*each, least) for each in found]
            continue
        values, inverse = np.unique(column, return_inverse=True)
        keys, whole = np.unique(whole * len(values) + inverse.reshape(-1), return_inverse=True)
        found = [(*found[key // len(values)], int(values[key % len(values)])) for key in keys.tolist()]
    return found, whole.reshape(-1)


def ranked(codes: Ints, spent: Ints, count: int) -> tuple[Ints, Ints]:
    """Return codes by the time that they took, which took most is 0, and the old code of each new one.

    Kernels get their colors by that, in the timeline and in its picture.

    Parameters
    ----------
    codes : ndarray of int64, shape (n,)
        Below `count`; -1 for none, which stays.
    spent : ndarray of int64, shape (n,)
        Nanoseconds; what is not to count has 0.
    count : int
        How many codes there are.
    """
    total = np.bincount(codes + 1, weights=spent, minlength=count + 1)[1:]
    order = np.argsort(-total, kind="stable")
    rank = np.full(count + 1, -1, dtype=np.int64)
    rank[order] = np.arange(count)
    return rank[codes], order


def _concurrency(start: Ints, end: Ints) -> int:
    """How many intervals are open at once, at most."""
    times = np.concatenate((end, start))
    change = np.repeat(np.array([-1, 1]), len(start))
    # At one instant ends come first; an empty interval is open nowhere then, but takes a row.
    order = np.argsort(times, kind="stable")
    return max(1, int(np.cumsum(change[order]).max()))


def _greedy(start: Ints, end: Ints) -> Ints:
    """The first free row for each, in order of start."""
    row = np.zeros(len(start), dtype=np.int64)
    busy: list[tuple[int, int]] = []
    free: list[int] = []
    rows = 0
    for at, (begin, finish) in enumerate(zip(start.tolist(), end.tolist(), strict=True)):
        while busy and busy[0][0] <= begin:
            heapq.heappush(free, heapq.heappop(busy)[1])
        if free:
            chosen = heapq.heappop(free)
        else:
            chosen = rows
            rows += 1
        row[at] = chosen
        heapq.heappush(busy, (finish, chosen))
    return np.minimum(row, MOST_ROWS - 1)


# Lanes of the timeline and their tracks: which rows there are, in which order, and what each is called.

#: Groups of lanes, from the top of the picture down.
GROUPS = ("cells", "nvtx", "host", "graphs", "gpu")


@dataclass
class Lane:
    """A lane: tracks under one label.

    Attributes
    ----------
    group : str
        One of `GROUPS`.
    key : tuple
        Orders lanes of a group.
    label, note : str
        What it is called, and in smaller type what else there is to say.
    tracks : list of dict
        The number and the table of each track, from the top down.
    """

    group: str
    key: tuple[Any, ...]
    label: str
    note: str = ""
    tracks: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class Lanes:
    """Hands out tracks."""

    _lanes: dict[tuple[Any, ...], Lane] = field(default_factory=dict)
    _count: int = 0

    def lane(self, group: str, key: tuple[Any, ...], label: str, note: str = "") -> Lane:
        """Return the lane with that key, a new one where there is none yet."""
        return self._lanes.setdefault((group, *key), Lane(group, key, label, note))

    def place(self, lane: Lane, table: str, start: Ints, end: Ints, at: Any, track: Ints, kind: str = "") -> None:
        """Give tracks of a lane to the rows `at` of a table: as many as it takes for none to overlap.

        Parameters
        ----------
        lane : Lane
            Which one.
        table : str
            The table on the wire.
        start, end : ndarray of int64
            Of the whole table.
        at : ndarray of int64, or slice
            Its rows, in order of start.
        track : ndarray of int64
            Of the whole table: where the tracks' numbers go.
        kind : str
            What the front end is told of those tracks.
        """
        row, count = rows_of(start[at], end[at])
        track[at] = row + self._count
        for depth in range(count):
            entry: dict[str, Any] = {"track": self._count + depth, "table": table, "depth": depth}
            if kind:
                entry["kind"] = kind
            lane.tracks.append(entry)
        self._count += count

    def ordered(self) -> list[dict[str, Any]]:
        """Return all lanes as JSON values, from the top down."""
        order = sorted(self._lanes.values(), key=lambda lane: (GROUPS.index(lane.group), lane.key))
        return [
            {"group": lane.group, "label": lane.label, "note": lane.note, "tracks": lane.tracks}
            for lane in order if lane.tracks
        ]


# The small tables behind the timeline's tooltips: kernels, specializations, configurations, cells, compiles.

#: Passes that a compile's tooltip names.
MOST_PASSES = 8
_SOURCE_LINES = 3


def facts(recording: Recording) -> dict[str, Any]:
    """Return the small tables as JSON values, one list a table; texts are as the user wrote them."""
    return {
        "cells": [_cell(row) for row in recording.rows("cells")],
        "threads": [_thread(row) for row in recording.rows("threads")],
        "devices": [
            {"ordinal": row["ordinal"], "name": row["name"], "cc": row["compute_capability"]}
            for row in recording.rows("devices")
        ],
        "kernels": [
            _kept({"name": row["name"], "module": row["module"], "file": row["filename"], "line": row["lineno"],
                   "framework": row["framework"], "options": row["options"]})
            for row in recording.rows("dispatchers")
        ],
        "specializations": [_specialization(row) for row in recording.rows("specializations")],
        "configurations": [_configuration(row) for row in recording.rows("configurations")],
        "occupancies": [
            [row["specialization_id"], row["configuration_id"], row["device_id"], row["occupancy"]]
            for row in recording.rows("occupancies")
        ],
        "compiles": _compiles(recording),
    }


def title(recording: Recording) -> str:
    """Return what the recording is called."""
    cells = recording.arrow("cells").num_rows
    if cells == 1:
        label = cell_label(recording.rows("cells")[0])
        if not recording.name or recording.name in label:
            return label
        return f"{recording.name}: {label}"
    counted = f"{cells} cells" if cells else ""
    return ": ".join(part for part in (recording.name, counted) if part) or "recording"


def cell_label(row: dict[str, Any]) -> str:
    """Return what a cell is called: ``In [3]``, its name, or both."""
    number = "" if row["execution_count"] is None else f"In [{row['execution_count']}]"
    return " ".join(part for part in (number, row["name"] or "") if part) or f"cell {row['cell_id']}"


def thread_label(row: dict[str, Any]) -> str:
    """Return what a host thread is called."""
    return row["name"] or f"thread {row['thread_id']}"


def _kept(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if value is not None}


def _cell(row: dict[str, Any]) -> dict[str, Any]:
    lines = (row["source"] or "").strip().splitlines()
    source = "\n".join(lines[:_SOURCE_LINES]) + ("\n…" if len(lines) > _SOURCE_LINES else "")
    waited = None if row["synchronized_ns"] is None else row["synchronized_ns"] - row["end_ns"]
    return _kept({"label": cell_label(row), "status": row["status"], "error": row["error"],
                  "source": source or None, "sync": waited})


def _thread(row: dict[str, Any]) -> dict[str, Any]:
    # The identifier is a 64-bit number, which JavaScript would round.
    return {"label": thread_label(row), "ident": str(row["ident"])}


def _specialization(row: dict[str, Any]) -> dict[str, Any]:
    return _kept({
        "kernel": row["dispatcher_id"], "signature": row["signature"], "cc": row["compute_capability"],
        "regs": row["regs"], "shared": row["static_shared_bytes"], "local": row["local_bytes"],
        "const": row["const_bytes"], "threads": row["max_threads"], "lcs": row["launch_config_sensitive"],
        "bound": row["launch_config"], "cubin": row["cubin_bytes"], "origin": row["origin"],
    })


def _configuration(row: dict[str, Any]) -> dict[str, Any]:
    cluster = [row[f"cluster_{axis}"] for axis in "xyz"]
    return _kept({
        # A framework may hide its grid: then the tooltip has no such line.
        **{word: None if row[f"{word}dim_x"] is None else dims([row[f"{word}dim_{axis}"] for axis in "xyz"])
           for word in ("grid", "block")},
        "cluster": dims([value or 1 for value in cluster]) if any(cluster) else None,
        "shared": row["sharedmem_bytes"], "stream": None if row["stream"] is None else stream(row["stream"]),
    })


def _compiles(recording: Recording) -> list[dict[str, Any]]:
    passes: dict[int, list[tuple[int, str]]] = defaultdict(list)
    for row in recording.rows("passes"):
        if row["compilation_id"] is not None:
            passes[row["compilation_id"]].append((row["duration_ns"], row["name"]))
    return [
        _kept({
            "signature": row["signature"], "outcome": row["outcome"], "trigger": row["trigger"],
            "reason": row["reason"], "fix": row["fix"], "lcs": row["launch_config_sensitive"],
            "wait": row["wait_ns"], "file": row["cache_file"], "error": row["error"],
            "passes": _longest(passes.get(row["compilation_id"], [])),
        })
        for row in recording.rows("compilations")
    ]


def _longest(passes: list[tuple[int, str]]) -> list[list[Any]] | None:
    found = sorted(passes, key=lambda each: -each[0])[:MOST_PASSES]
    return [[name, duration] for duration, name in found] or None


# GPU activities and what the host called for them: joined, and grouped into graph launches.

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


# The host's side of graphs and build caches on the wire: the tables ``events`` and ``builds``.

_NO_END = 1


class HostEvents:
    """What host threads did for graphs and in build caches: what has no start cannot be drawn.

    Parameters
    ----------
    recording : Recording
        What to draw.
    clock : Clock
        Its times.

    Attributes
    ----------
    place : ndarray of int64, shape (graph_events + 1,)
        The row on the wire of each event, -1 for none; behind them one for rows that are -1.
    """

    def __init__(self, recording: Recording, clock: Clock) -> None:
        self._recording = recording
        self._clock = clock
        _, known = clock.times("graph_events", "start_ns")
        self._events = np.flatnonzero(known)
        self.place = np.full(len(known) + 1, UNKNOWN, dtype=np.int64)
        self.place[self._events] = np.arange(len(self._events))

    def row_of(self, event: Ints) -> Ints:
        """Return the rows on the wire of events, -1 for none."""
        return self.place[np.where(event < len(self.place) - 1, event, UNKNOWN)]

    def add(
        self, columns: Columns, lanes: Lanes, host: Callable[[int], Lane], words: dict[str, list[str]]
    ) -> None:
        """Add both tables, their tracks on the lanes of host threads, and what their codes stand for."""
        self._add("graph_events", "events", self._events, columns, lanes, host)
        rows = self._events
        name, words["events.name"] = event_names(self._recording)
        columns.add("events", "name", name[rows])
        for column in ("kind", "outcome", "change", "api"):
            values, words[f"events.{column}"] = codes(self._recording, "graph_events", column)
            columns.add("events", column, values[rows])
        self._texts("graph_events", "events", rows, columns, words, "changes", "error")
        for column in ("graph_id", "exec_id", "correlation_id", "queue_ns", "execute_ns", "stream"):
            columns.add("events", column, ints(self._recording, "graph_events", column)[rows])
        columns.add("events", "rebuild_of", self.row_of(ints(self._recording, "graph_events", "rebuild_of"))[rows])

        rows = np.arange(row_count(self._recording, "builds"))
        self._add("builds", "builds", rows, columns, lanes, host)
        names = build_names(self._recording)
        known = {each: at for at, each in enumerate(dict.fromkeys(names))}
        columns.add("builds", "name", np.array([known[each] for each in names], dtype=np.int64))
        words["builds.name"] = list(known)
        for column in ("outcome", "framework"):
            values, words[f"builds.{column}"] = codes(self._recording, "builds", column)
            columns.add("builds", column, values)
        self._texts("builds", "builds", rows, columns, words, "reason", "fix", "differing_parts", "error")
        for column in ("launch_id", "build_ns"):
            columns.add("builds", column, ints(self._recording, "builds", column))

    def _add(
        self, source: str, table: str, rows: Ints, columns: Columns, lanes: Lanes, host: Callable[[int], Lane]
    ) -> None:
        start = self._clock.times(source, "start_ns")[0][rows]
        end, ended = (each[rows] for each in self._clock.times(source, "end_ns"))
        end = np.where(ended, np.maximum(end, start), start)
        thread = ints(self._recording, source, "thread_id")[rows]
        track = np.zeros(len(rows), dtype=np.int64)
        for on in np.unique(thread).tolist():
            at = np.flatnonzero(thread == on)
            lanes.place(host(on), table, start, end, at[np.argsort(start[at], kind="stable")], track)
        columns.add(table, "dur", end - start)
        columns.add(table, "start", start, duration="dur")
        columns.add(table, "flags", _NO_END * ~ended)
        columns.add(table, "track", track)
        columns.add(table, "id", rows)
        columns.add(table, "thread_id", thread)
        columns.add(table, "cell_id", ints(self._recording, source, "cell_id")[rows])

    def _texts(
        self, source: str, table: str, rows: Ints, columns: Columns, words: dict[str, list[str]], *names: str
    ) -> None:
        """Columns of free text, each distinct text once."""
        held: Any = self._recording
        for name in names:
            column = held.arrow(source).column(name).combine_chunks().dictionary_encode()
            values = np.asarray(column.indices.fill_null(UNKNOWN).to_numpy(zero_copy_only=False), dtype=np.int64)
            columns.add(table, name, values[rows])
            words[f"{table}.{name}"] = column.dictionary.to_pylist()


# The tables on the wire: what of a recording is drawn, in which track, and what its tooltip tells.
#
# ``cells``, ``ranges``, ``launches``, ``compiles``, ``passes``; ``events`` (what the host did for graphs) and
# ``builds``
# (requests to build caches); ``gpu`` (activities of the GPU), ``graphs`` (one row a graph launch on the GPU) and
# ``calls`` (what the host called or waited for: API calls, waits, and the calls that asked for activities outside of
# our launches). Each has ``start``, ``dur``, ``track`` and ``flags``: 1 where the end is unknown, 2 where the
# start is.

NO_END, NO_START = 1, 2
#: In the tables `gpu`: the driver call's own times are unknown.
NO_CALL = 4
#: Where more launches than this have a kernel, the times of the driver calls inside of them are left out: they are
#: within the launch's submit phase, and would be a quarter of all bytes.
MOST_OWN_CALLS = 200_000
#: Which of a launch's boundaries are known, in its ``flags``.
BOUNDS = ("dispatch_end_ns", "submit_start_ns", "submit_end_ns", "end_ns")


class Builder:
    """Fills columns, lanes and texts from a recording.

    Attributes
    ----------
    clock : Clock
        Its times.
    texts : dict
        The words that columns of codes stand for, by table and column.
    undrawn : int
        Activities that have no time.
    left_out : list of str
        What does not travel, for the recording is large.
    """

    def __init__(self, recording: Recording, columns: Columns, lanes: Lanes) -> None:
        self.clock = Clock(recording)
        self.texts: dict[str, Any] = {"words": {}}
        self.undrawn = 0
        self.left_out: list[str] = []
        self._recording = recording
        self._columns = columns
        self._lanes = lanes
        self._events = HostEvents(recording, self.clock)
        self._range: Ints = np.empty(0, dtype=np.int64)
        self._threads = [thread_label(row) for row in recording.rows("threads")]

    def build(self) -> None:
        """Fill them."""
        if row_count(self._recording, "activities") < LONG:
            self._host_side()
            self._activities(host_calls(self._recording, self.clock))
            return
        # NumPy lets other threads run: the GPU's side is joined while the host's is gone through.
        with ThreadPoolExecutor(1) as beside:
            calls = beside.submit(host_calls, self._recording, self.clock)
            self._host_side()
            self._activities(calls.result())

    def _host_side(self) -> None:
        self._cells()
        self._ranges()
        self._launches()
        self._compiles()
        self._events.add(self._columns, self._lanes, self._host, self.texts["words"])

    def _cells(self) -> None:
        start, _ = self.clock.times("cells", "start_ns")
        end, _ = self.clock.times("cells", "end_ns")
        order = np.argsort(start, kind="stable")
        start, end = start[order], end[order]
        track = np.zeros(len(start), dtype=np.int64)
        self._lanes.place(self._lanes.lane("cells", (), "Cells"), "cells", start, end, slice(None), track)
        self._times("cells", start, end, track, np.zeros(len(start), dtype=np.int64))
        self._columns.add("cells", "id", order)

    def _ranges(self) -> None:
        start, began = self.clock.times("ranges", "start_ns")
        end, ended = self.clock.times("ranges", "end_ns")
        end = np.where(ended, end, self.clock.span)
        thread = self._ints("ranges", "thread_id")
        mark = matches(self._recording, "ranges", "kind", "mark")
        process = matches(self._recording, "ranges", "kind", "start_end")
        domain, names = codes(self._recording, "ranges", "domain")
        track = np.zeros(len(start), dtype=np.int64)
        end = np.where(mark, start, end)
        for number in np.unique(domain).tolist():
            name = names[number] if number >= 0 else ""
            for on in np.unique(thread[domain == number]).tolist():
                here = (domain == number) & (thread == on)
                self._range_tracks(here, on, number, name, (mark, process), (start, end, track))
        self._times("ranges", start, end, track, NO_END * ~(ended | mark) + NO_START * ~began)
        self._words("ranges", "domain", "category", "color", "kind", "source")
        self._strings("ranges", "name", "payload")
        self._plain("ranges", "thread_id", "cell_id", "parent_range_id")

    def _range_tracks(
        self, here: Bools, on: int, number: int, name: str, kinds: tuple[Bools, Bools], times: tuple[Ints, ...]
    ) -> None:
        mark, process = kinds
        start, end, track = times
        thread = self._thread(on)
        for what, rows in (("mark", here & mark), ("push_pop", here & ~mark & ~process),
                           ("start_end", here & process)):
            at = np.flatnonzero(rows)
            if not len(at):
                continue
            lane = self._lanes.lane("nvtx", (number, name, on), f"NVTX {name}".strip(), thread)
            if what == "mark":
                # All marks share a track: they are ticks.
                first = at[:1]
                self._lanes.place(lane, "ranges", start, end, first, track, kind="marks")
                track[at] = track[first]
            else:
                self._lanes.place(lane, "ranges", start, end, at, track)

    def _launches(self) -> None:
        start, _ = self.clock.times("launches", "start_ns")
        thread = self._ints("launches", "thread_id")
        last, flags, parts = start, np.zeros(len(start), dtype=np.int64), {}
        for bit, name in enumerate(BOUNDS):
            bound, known = self.clock.times("launches", name)
            bound = np.where(known, bound, last)
            parts[f"part{bit}"] = bound - last
            flags += known.astype(np.int64) << bit
            last = bound
        track = np.zeros(len(start), dtype=np.int64)
        for on in np.unique(thread).tolist():
            at = slice(None) if bool((thread == on).all()) else np.flatnonzero(thread == on)
            self._lanes.place(self._host(on), "launches", start, last, at, track)
        self._plain("launches", "dispatcher_id")
        for name, values in parts.items():
            self._columns.add("launches", name, values, like="dispatcher_id")
        self._columns.add_sum("launches", "dur", list(parts))
        self._columns.add("launches", "start", start, duration="dur")
        self._columns.add("launches", "flags", flags)
        self._columns.add("launches", "track", track)
        self._columns.add_sum("launches", "submit_start", ["start", "part0", "part1"])
        self._columns.add_sum("launches", "submit_end", ["submit_start", "part2"])
        self._plain("launches", "compile_ns", "device_id", "thread_id", "cell_id",
                    "parent_launch_id", "compilation_id", "correlation_id")
        for name in ("specialization_id", "configuration_id"):
            self._columns.add("launches", name, self._ints("launches", name), like="dispatcher_id")
        self._range = attribute(self._recording)
        self._columns.add("launches", "range", self._range)
        self._words("launches", "cache", "error")
        self._columns.add("launches", "capture", self._events.row_of(self._ints("launches", "capture_event_id")))

    def _compiles(self) -> None:
        start, _ = self.clock.times("compilations", "start_ns")
        end, ended = self.clock.times("compilations", "end_ns")
        end = np.where(ended, end, start)
        thread = self._ints("compilations", "thread_id")
        track = np.zeros(len(start), dtype=np.int64)
        passes, timed = self.clock.times("passes", "start_ns")
        rows = np.flatnonzero(timed)
        rows = rows[np.argsort(passes[rows], kind="stable")]
        begin = passes[rows]
        finish = begin + np.clip(self._ints("passes", "duration_ns")[rows], 0, self.clock.span)
        owner = self._ints("passes", "compilation_id")[rows]
        on = np.append(thread, -1)[owner]
        inside = np.zeros(len(rows), dtype=np.int64)
        for number in np.unique(np.concatenate((thread, on))).tolist():
            lane = self._host(number)
            self._lanes.place(lane, "compiles", start, end, np.flatnonzero(thread == number), track)
            self._lanes.place(lane, "passes", begin, finish, np.flatnonzero(on == number), inside)
        self._times("compiles", start, end, track, NO_END * ~ended)
        for name in ("thread_id", "cell_id", "dispatcher_id", "specialization_id", "configuration_id", "launch_id"):
            self._columns.add("compiles", name, self._ints("compilations", name))
        self._times("passes", begin, finish, inside, 0 * begin)
        self._columns.add("passes", "compilation_id", owner)
        for name in ("name", "kind"):
            self._words("passes", name, rows=rows)

    def _activities(self, calls: Calls) -> None:
        self._calls(calls)
        self._graphs(calls)
        start, end, rows, at, flags = calls.start, calls.end, calls.rows, calls.at, calls.flags
        self.undrawn += calls.undrawn
        track = np.zeros(len(rows), dtype=np.int64)
        device = self._ints("activities", "device_id")[at]
        stream = self._ints("activities", "stream")[at]
        pairs, of = numbered(device, stream)
        for number, (on, each) in enumerate(pairs):
            those = slice(None) if len(pairs) == 1 else np.flatnonzero(of == number)
            label = f"GPU {self._ordinal(on)}" if on >= 0 else "GPU"
            lane = self._lanes.lane("gpu", (on, each), label, f"stream {each}" if each >= 0 else "")
            self._lanes.place(lane, "gpu", start, end, those, track)
        launch = self._ints("activities", "launch_id")[at]
        self._columns.add("gpu", "launch", launch)
        specialization = self._ints("activities", "specialization_id")[at]
        owner = np.append(self._ints("specializations", "dispatcher_id"), -1)
        self._columns.add("gpu", "kernel", owner[specialization], link=Link("launch", "launches", "dispatcher_id"))
        lasted = end - start
        self._names(at, lasted)
        self._columns.add("gpu", "dur", lasted, like="name")
        self._columns.add("gpu", "start", start, duration="dur", link=Link("launch", "launches", "submit_end"))
        self._columns.add("gpu", "flags", flags)
        self._columns.add("gpu", "track", track)
        self._columns.add("gpu", "id", rows)
        for name in ("specialization_id", "configuration_id", "cell_id", "thread_id", "correlation_id"):
            self._columns.add("gpu", name, self._ints("activities", name)[at],
                              link=Link("launch", "launches", name))
        for name in ("device_id", "stream", "regs", "size_bytes", "graph_node_id", "cupti_graph_id", "cupti_node_id"):
            self._columns.add("gpu", name, self._ints("activities", name)[at], like="name")
        self._columns.add("gpu", "range", attribute_activities(self._recording, self._range)[at],
                          link=Link("launch", "launches", "range"))
        self._columns.add("gpu", "call", calls.call_of)
        self._columns.add("gpu", "graph", calls.graph_of)
        if self._has_own_calls(launch):
            self._columns.add("gpu", "call_start", calls.own_start, link=Link("launch", "launches", "submit_start"))
            self._columns.add("gpu", "call_end", calls.own_end, link=Link("launch", "launches", "submit_end"))
        self._words("gpu", "kind", "entry_name", "api", "memory", rows=at, table_name="activities", like="name")
        self._measured(calls)

    def _has_own_calls(self, launch: Ints) -> bool:
        """Whether the driver calls inside of launches travel too: noise of two bytes and a half each."""
        if int((launch >= 0).sum()) <= MOST_OWN_CALLS:
            return True
        self.left_out.append("the driver calls inside of launches")
        return False

    def _calls(self, calls: Calls) -> None:
        track = np.zeros(len(calls.called), dtype=np.int64)
        for on in np.unique(calls.called_by).tolist():
            at = np.flatnonzero(calls.called_by == on)
            self._lanes.place(self._host(on), "calls", calls.called, calls.returned, at, track)
        self._times("calls", calls.called, calls.returned, track, calls.call_flags)
        for name, values in calls.columns.items():
            self._columns.add("calls", name, values)
        self.texts["words"]["calls.name"] = calls.names

    def _graphs(self, calls: Calls) -> None:
        track = np.zeros(len(calls.graph_start), dtype=np.int64)
        lane = self._lanes.lane("graphs", (), "Graph launches", "first to last node")
        self._lanes.place(lane, "graphs", calls.graph_start, calls.graph_end, slice(None), track)
        self._times("graphs", calls.graph_start, calls.graph_end, track, 0 * track)
        for name, values in calls.graph_columns.items():
            self._columns.add("graphs", name, self._events.row_of(values) if name == "event" else values)
        self.texts["words"]["graphs.name"] = calls.graph_names

    def _names(self, at: Ints | slice, duration: Ints) -> None:
        """Kernels' names in order of the time that they took: the front end's colors go by it."""
        values, words = codes(self._recording, "activities", "name")
        values = values[at]
        kernel = matches(self._recording, "activities", "kind", "kernel")[at]
        names, order = ranked(values, np.where(kernel, np.maximum(duration, 0), 0), len(words))
        self._columns.add("gpu", "name", names, like="kernel")
        self.texts["words"]["gpu.name"] = [words[at] for at in order.tolist()]

    def _measured(self, calls: Calls) -> None:
        """Queue and execute of the launches, where they are not what the activities say anyway."""
        for name, derived in (("queue_ns", calls.queue), ("execute_ns", calls.execute)):
            held = self._ints("launches", name)
            if not np.array_equal(held, derived):
                self._columns.add("launches", name, held)

    def _times(self, table: str, start: Ints, end: Ints, track: Ints, flags: Ints) -> None:
        self._columns.add(table, "dur", end - start)
        self._columns.add(table, "start", start, duration="dur")
        self._columns.add(table, "flags", flags)
        self._columns.add(table, "track", track)

    def _plain(self, table: str, *names: str) -> None:
        for name in names:
            self._columns.add(table, name, self._ints(table, name))

    def _words(
        self, table: str, *names: str, rows: Any = slice(None), table_name: str = "", like: str = ""
    ) -> None:
        for name in names:
            values, words = codes(self._recording, table_name or table, name)
            self._columns.add(table, name, values[rows], like=like)
            self.texts["words"][f"{table}.{name}"] = words

    def _strings(self, table: str, *names: str) -> None:
        """Columns of free text, each distinct text once."""
        source: Any = self._recording
        for name in names:
            column = source.arrow(table).column(name).combine_chunks().dictionary_encode()
            values = np.asarray(column.indices.fill_null(-1).to_numpy(zero_copy_only=False), dtype=np.int64)
            self._columns.add(table, name, values)
            self.texts["words"][f"{table}.{name}"] = column.dictionary.to_pylist()

    def _ints(self, table: str, name: str) -> Ints:
        """A column; one without any value is not filled in, row by row."""
        source: Any = self._recording
        column = source.arrow(table).column(name)
        if len(column) and column.null_count == len(column):
            return np.broadcast_to(np.int64(UNKNOWN), (len(column),))
        return ints(self._recording, table, name)

    def _host(self, thread: int) -> Lane:
        return self._lanes.lane("host", (thread if thread >= 0 else 1 << 40,), self._thread(thread), "host thread")

    def _thread(self, number: int) -> str:
        return self._threads[number] if 0 <= number < len(self._threads) else "unknown thread"

    def _ordinal(self, device: int) -> int:
        rows = self._recording.rows("devices") if row_count(self._recording, "devices") else []
        value = rows[device]["ordinal"] if device < len(rows) else None
        return device if value is None else int(value)


# `pack`: a recording as the timeline's front end takes it, a small header and one stream of deflated columns.
#
# The header is JSON: where the columns are and how they are coded, the lanes and their tracks, and what the page
# says. The payload is one raw deflate stream: columns of integers (see `kernelscope.views.timeline.wire`), and at
# its end a JSON object with the texts and the small tables. Times are nanoseconds since ``t0_ns``, the
# recording's first instant: exact in JavaScript's numbers up to 52 days.

#: Raised whenever the front end must read something differently.
FORMAT = 1


@dataclass(frozen=True)
class Packed:
    """A recording on the wire.

    Attributes
    ----------
    header : dict
        JSON values only.
    payload : bytes
        Raw deflate.
    """

    header: dict[str, Any]
    payload: bytes

    @property
    def size(self) -> int:
        """Bytes of both."""
        return len(self.payload) + len(json.dumps(self.header, separators=(",", ":")))

    @property
    def events(self) -> int:
        """How many things are drawn."""
        return sum(int(table["rows"]) for table in self.header["tables"].values())


def pack(recording: Recording) -> Packed:
    """Return what the timeline draws of a recording.

    Every launch, activity, API call, compile, pass with a start, range and cell is in it, with its times exact to the
    nanosecond. What has no time at all cannot be drawn, and is counted in ``header["undrawn"]``; what was left out of a
    large recording is named in ``header["left_out"]``.
    """
    columns, lanes = Columns(), Lanes()
    builder = Builder(recording, columns, lanes)
    builder.build()
    texts = json.dumps(builder.texts | facts(recording), ensure_ascii=False, separators=(",", ":"))
    columns.add_text(texts)
    header: dict[str, Any] = {
        "format": FORMAT,
        "title": title(recording),
        "notice": recording.notice,
        "t0_ns": str(builder.clock.first),
        "span_ns": builder.clock.span,
        "bytes": columns.size,
        "inflated": columns.whole_size,
        "tables": {
            name: {"rows": len(next(iter(columns.values[name].values()))), "columns": specs}
            for name, specs in columns.specs.items()
        },
        "lanes": lanes.ordered(),
        "undrawn": builder.undrawn,
        "left_out": builder.left_out,
    }
    return Packed(header, columns.deflate())
