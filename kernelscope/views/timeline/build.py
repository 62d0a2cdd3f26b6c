"""Builds the timeline of a recording: its times, lanes and tracks, and which call each activity is of."""

from __future__ import annotations

import heapq
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from kernelscope.analysis.columns import Bools, Ints, Reader, ints, readers, rows_by
from kernelscope.analysis.compiling import launch_waits
from kernelscope.analysis.graphs import build_names, event_names, graph_runs, run_names
from kernelscope.analysis.launches import cell_label, launch_measuring
from kernelscope.analysis.owners import process_names, processes_of
from kernelscope.analysis.ranges import UNNAMED, attribute, attribute_activities
from kernelscope.palette import (
    ASKING_COLOR,
    CALL_COLOR,
    CELL_COLOR,
    COMPILE_COLOR,
    COPY_COLOR,
    EVENT_COLOR,
    GARBAGE_COLOR,
    GRAPH_COLOR,
    KERNEL_COLORS,
    MEMSET_COLOR,
    PASS_COLOR,
    PHASE_COLORS,
    RANGE_COLOR,
    SAMPLE_COLOR,
    WAIT_COLOR,
)
from kernelscope.recording.model import Recording
from kernelscope.recording.time import otherwise
from kernelscope.registry import features, loaded
from kernelscope.schema import UNKNOWN
from kernelscope.units import by_numbers, duration, short_name
from kernelscope.views.timeline.model import (
    API_CALL,
    ASKING,
    EXACT,
    GROUPS,
    NO_END,
    NO_START,
    PARTS,
    WAIT,
    Column,
    Lane,
    Look,
    Process,
    Slices,
    Timeline,
    Track,
    Words,
    device_label,
    title_of,
)

#: Where more launches than this have a kernel, the times of the driver calls inside of them are left out: they are
#: within the launch's submit phase.
MOST_OWN_CALLS = 200_000
# From so many activities on they are joined while the host's side is gone through.
_MANY = 32768
#: Orders lanes of counters behind those of streams.
BELOW_STREAMS = 1 << 62
_OUTCOMES = {"compiled": "compile", "disk": "load", "wait": "wait for", "failed": "failed compile"}
# A range's color comes from a file, and only a color may come into a picture.
_COLOR = re.compile(r"#[0-9a-fA-F]{6}")


def timeline_of(recording: Recording) -> Timeline:
    """Return the timeline of a recording.

    Every launch, activity, API call, compile, pass, range and cell is in it, with its times exact to the nanosecond.
    What has no time at all cannot be drawn, and is counted in ``undrawn``; an activity that was not measured on the GPU
    is shown where the host asked for it, and says so.
    """
    return Builder(recording).timeline()


# Rows for intervals.

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
        row = np.minimum(first_free_rows(start, end), MOST_ROWS - 1)
        depth = int(row.max()) + 1
    return row, depth


def first_free_rows(start: Ints, end: Ints) -> Ints:
    """Return the first free row for each interval, in order of start: no two of a row overlap."""
    row = np.zeros(len(start), dtype=np.int64)
    busy: list[tuple[int, int]] = []
    free: list[int] = []
    for at, (begin, finish) in enumerate(zip(start.tolist(), end.tolist(), strict=True)):
        while busy and busy[0][0] <= begin:
            heapq.heappush(free, heapq.heappop(busy)[1])
        row[at] = heapq.heappop(free) if free else len(busy)
        heapq.heappush(busy, (finish, int(row[at])))
    return row


def combinations(*columns: Ints) -> tuple[Ints, Ints]:
    """Return a code for each row's combination of values (-1 or more each), and the distinct combinations as rows.

    As `numpy.unique` of rows, in order, but quick where columns have few distinct values.
    """
    count = len(columns[0])
    if not count:
        return np.empty(0, dtype=np.int64), np.empty((0, len(columns)), dtype=np.int64)
    keys, size = np.zeros(count, dtype=np.int64), 1
    for column in columns:
        least, most = int(column.min()), int(column.max())
        if least == most:
            continue
        if most - least >= 4 * count:
            distinct, column = np.unique(column, return_inverse=True)
            least, most = 0, len(distinct) - 1
        width = most - least + 1
        if size * width > EXACT:
            distinct, keys = np.unique(keys, return_inverse=True)
            size = len(distinct)
        keys = keys * width + (column - least)
        size *= width
    if size <= 4 * count:
        places = np.full(size, count, dtype=np.int64)
        # Of several assignments the last one stays: the first row of each.
        places[keys[::-1]] = np.arange(count - 1, -1, -1)
        held = np.flatnonzero(places < count)
        first = places[held]
        places[held] = np.arange(len(held))
        codes = places[keys]
    else:
        _, first, codes = np.unique(keys, return_index=True, return_inverse=True)
    return codes, np.stack([column[first] for column in columns], axis=1)


def ranked(codes: Ints, spent: Ints, count: int) -> tuple[Ints, Ints]:
    """Return codes by the time that they took, which took most is 0, and the old code of each new one.

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
    rank = np.full(count + 1, UNKNOWN, dtype=np.int64)
    rank[order] = np.arange(count)
    return rank[codes], order


def _concurrency(start: Ints, end: Ints) -> int:
    """Return the largest number of intervals that are open at once."""
    times = np.concatenate((end, start))
    change = np.repeat(np.array([-1, 1]), len(start))
    # At one instant ends come first; an empty interval is open nowhere then, but takes a row.
    order = np.argsort(times, kind="stable")
    return max(1, int(np.cumsum(change[order]).max()))


class _Lanes:
    """Hands out tracks."""

    def __init__(self) -> None:
        self._lanes: dict[tuple[Any, ...], Lane] = {}
        self._count = 0

    def lane(self, group: str, key: tuple[Any, ...], label: str, note: str = "", process: int = UNKNOWN) -> Lane:
        """Return the lane with that key, a new one where there is none yet."""
        return self._lanes.setdefault((process, group, *key), Lane(group, key, label, note, process=process))

    def place(self, lane: Lane, slices: Slices, at: Ints | slice, kind: str = "") -> None:
        """Give tracks of a lane to some rows of a table, in order of start: as many as it takes for none to overlap."""
        if kind in ("marks", "area"):  # ticks share a track, and samples do not overlap
            row, count = 0, 1
        else:
            row, count = rows_of(slices.start[at], slices.end[at])
        slices.track[at] = row + self._count
        lane.tracks += [Track(self._count + depth, slices.table, depth, kind) for depth in range(count)]
        self._count += count

    def ordered(self, processes: Sequence[Process]) -> list[Lane]:
        """Return all lanes that have a track, from the top down."""
        place = {process.number: at for at, process in enumerate(processes)}
        order = sorted(self._lanes.values(), key=lambda lane: (
            place.get(lane.process, len(place)), GROUPS.index(lane.group), lane.key))
        return [lane for lane in order if lane.tracks]


class _Owners:
    """The processes of a recording of several, and which of them what is recorded is of."""

    def __init__(self, recording: Recording) -> None:
        rows = recording.rows("processes")
        names = process_names(recording)
        self.processes = sorted(
            (Process(at, names[at], row["host"] or "", row["clock_bound_ns"], _about(row))
             for at, row in enumerate(rows)),
            key=lambda each: (by_numbers(each.host), _rank(rows[each.number]), by_numbers(each.label), each.number),
        ) if len(rows) > 1 else []
        self._of_thread, self._of_cell = (
            np.append(ints(recording, table, "process_id"), UNKNOWN) for table in ("threads", "cells"))

        self.activities = processes_of(recording, "activities") if self.processes else np.full(
            recording.arrow("activities").num_rows, UNKNOWN)

    def of(self, thread: Ints, cell: Ints) -> Ints:
        """Return the process of each row, by its thread, else by its cell; -1 for none, and for an only process."""
        if not self.processes:
            return np.broadcast_to(np.int64(UNKNOWN), (len(thread),))
        found = self._of_thread[thread]
        return np.where(found >= 0, found, self._of_cell[cell]) if (found < 0).any() else found

    def listed(self, lanes: Sequence[Lane]) -> list[Process]:
        """Return the processes that have lanes, with one for the lanes of none that is known."""
        if not self.processes:
            return []
        used = {lane.process for lane in lanes}
        return [each for each in (*self.processes, Process(UNKNOWN, "unknown process")) if each.number in used]


def _rank(row: Mapping[str, Any]) -> int:
    return EXACT if row["rank"] is None else int(row["rank"])


def _about(row: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    found = {"machine": row["host"], "pid": row["pid"], "rank": row["rank"], "GPU": row["gpu_uuid"],
             "status": row["status"], "note": row["message"]}
    return tuple((label, str(value)) for label, value in found.items() if value is not None)


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
    "collections": ("start_ns", "end_ns"),
}


@cache
def _times() -> dict[str, tuple[str, ...]]:
    """Return the instants of all tables that are drawn, those of features with lanes among them."""
    tables = [table for feature in features() if feature.lanes for table in loaded(feature.tables)]
    return _TIMES | {table.name: tuple(column.name for column in table.columns if column.kind == "instant")
                     for table in tables}


class _Clock:
    """The recording's first and last instant, and its columns of times from the first on."""

    def __init__(self, readers: Mapping[str, Reader]) -> None:
        self._held = {(table, name): column for table, names in _times().items()
                      for name, column in zip(names, readers[table].times(*names), strict=True)}
        bounds = [bound for values, known in self._held.values() for bound in _bounds(values, known)]
        self.first = min(bounds, default=0)
        # What a file says can be anything; exact numbers end there.
        self.span = min(max(bounds, default=0) - self.first, EXACT // 2)
        self._is_odd = self.span == EXACT // 2

    def times(self, table: str, name: str) -> tuple[Ints, Bools]:
        """Return a column of times from the first instant on (0 for null), and which of them are known."""
        values, known = self._held[table, name]
        if not known.all():
            values = np.where(known, values, self.first)
        if self._is_odd:
            values = np.clip(values, self.first, self.first + self.span)
        return values - self.first, known


def _bounds(values: Ints, known: Bools) -> list[int]:
    held = values if known.all() else values[known]
    return [int(held.min()), int(held.max())] if len(held) else []


@dataclass(frozen=True)
class CounterSamples:
    """Samples of counters over time, which are lanes of a device; those of a lane are in order of time.

    Attributes
    ----------
    metrics, labels : sequence of str
        The metrics, and what their lanes are called.
    order : sequence of int
        Where their lanes stand below a device's streams.
    code : ndarray of int64, shape (n,)
        The metric of each sample, an index into `metrics`.
    device, process, cell : ndarray of int64, shape (n,)
        Rows of ``devices``, ``processes`` and ``cells``; -1 for none.
    start, end : ndarray of int64, shape (n,)
        When it began and ended, in ns from the recording's first instant on.
    value : ndarray of float64, shape (n,)
        In percent; NaN where samples were lost.
    """

    metrics: Sequence[str]
    labels: Sequence[str]
    order: Sequence[int]
    code: Ints
    device: Ints
    process: Ints
    cell: Ints
    start: Ints
    end: Ints
    value: np.ndarray[Any, np.dtype[np.float64]]


class Builder:
    """Makes the timeline of a recording."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.read = readers(recording, *_times(), "specializations")
        self.clock = _Clock(self.read)
        self.lanes = _Lanes()
        self.owner = _Owners(recording)
        self._tables: dict[str, Slices] = {}
        rows = {name: recording.rows(name) for name in ("cells", "threads", "dispatchers", "devices")}
        self._cell_labels = [cell_label(row) for row in rows["cells"]]
        self._threads = [row["name"] or f"thread {row['thread_id']}" for row in rows["threads"]]
        self._kernels = [str(row["name"]) for row in rows["dispatchers"]]
        self._domains = {domain: title for feature in features() for domain, title in feature.range_domains.items()}
        self._operators: list[str] = recording.arrow("operators").column("path").to_pylist()
        self.ordinals = [row["ordinal"] for row in rows["devices"]]
        # By row of ``graph_events`` the row of ``events``, -1 for none; behind them one for rows that are -1.
        timed = self.clock.times("graph_events", "start_ns")[1]
        self._event_rows = np.full(len(timed) + 1, UNKNOWN, dtype=np.int64)
        self._event_rows[np.flatnonzero(timed)] = np.arange(int(timed.sum()))
        self._undrawn = 0
        self._left_out: list[str] = []

    def timeline(self) -> Timeline:
        """Return it."""
        if self.read["activities"].rows < _MANY:
            self._host()
            gpu = self._gpu()
        else:
            # NumPy lets other threads run: the GPU's side is joined while the host's is gone through.
            with ThreadPoolExecutor(1) as beside:
                joined = beside.submit(self._gpu)
                self._host()
                gpu = joined.result()
        self._place_gpu(*gpu)
        self._samples([loaded(feature.lanes)(self) for feature in features() if feature.lanes])
        self._untimed()
        self._waits()
        recording, lanes = self.recording, self.lanes.ordered(self.owner.processes)
        return Timeline(
            recording, title_of(recording.name, self._cell_labels), recording.notice, self.clock.first,
            self.clock.span, self._tables, lanes, self.read["activities"].rows, self._undrawn, self._left_out,
            self.owner.listed(lanes))

    def _host(self) -> None:
        self._cells()
        self._ranges()
        self._launches()
        self._compiles()
        self._events()
        self._builds()
        self._collections()

    def _cells(self) -> None:
        start, _ = self.clock.times("cells", "start_ns")
        end, _ = self.clock.times("cells", "end_ns")
        order = np.argsort(start, kind="stable")
        labels = self._cell_labels
        slices = self.add(
            "cells", start[order], end[order], np.zeros(len(order), dtype=np.int64),
            lambda: Look(Words(order, labels), always("cell", order), always(CELL_COLOR, order)),
            lambda: {"id": Column(order, of="cells")})
        for process, at in rows_by(self.owner.of(0 * order - 1, order)).items():
            self.lanes.place(self.lanes.lane("cells", (), "Cells", process=process), slices, at)

    def _ranges(self) -> None:
        read = self.read["ranges"]
        start, began = self.clock.times("ranges", "start_ns")
        end, ended = self.clock.times("ranges", "end_ns")
        (domain, domains), (kind, kinds) = read.codes("domain", "kind")
        thread, = read.ints("thread_id")
        mark, process = (_is(Column(kind, words=kinds), word) for word in ("mark", "start_end"))
        end = np.where(mark, start, np.where(ended, end, self.clock.span))

        def look() -> Look:
            (name, names), (category, categories), (color, colors) = read.codes("name", "category", "color")
            return Look(
                Words(_or_last(name, names), [*(each or UNNAMED for each in names), UNNAMED]),
                Words(_or_last(category, categories), [*categories, "nvtx"]),
                Words(_or_last(color, colors), [each if _COLOR.fullmatch(each) else RANGE_COLOR
                                                for each in [*colors, RANGE_COLOR]]))

        slices = self.add("ranges", start, end, NO_END * ~(ended | mark) + NO_START * ~began, look, lambda: {
            **self._words(read, {"domain": "domain", "category": "", "color": "color", "kind": "kind",
                                 "source": "source", "name": "", "payload": "payload"}),
            **self.numbers(read, {"thread_id": "", "cell_id": "cell", "line_id": "line", "parent_range_id": ""}),
            "id": Column(np.arange(read.rows), "range")})
        slices.instant = mark
        of, lines = combinations(domain, thread, np.where(mark, 0, np.where(process, 2, 1)),
                                 self.owner.of(thread, read.ints("cell_id")[0]))
        for code, rows in rows_by(of).items():
            number, on, what, owner = lines[code].tolist()
            name = domains[number] if number >= 0 else ""
            title = self._domains.get(name) or f"NVTX {name}".strip()
            lane = self.lanes.lane("nvtx", (number, name, on), title, self._thread(on), owner)
            self.lanes.place(lane, slices, rows, ("marks", "push_pop", "start_end")[what])

    def _launches(self) -> None:
        read = self.read["launches"]
        start, _ = self.clock.times("launches", "start_ns")
        thread, dispatcher, capture, took, compilation = read.ints(
            "thread_id", "dispatcher_id", "capture_event_id", "compile_ns", "compilation_id")
        waits = launch_waits(self.recording)
        waited = np.zeros_like(start) if waits is None else waits
        measuring = launch_measuring(self.recording)
        bounds: list[tuple[Ints, Bools]] = []
        last = start
        for name in _TIMES["launches"][1:]:
            bound, known = self.clock.times("launches", name)
            last = bound if known.all() else np.where(known, bound, last)
            bounds.append((last, known))

        def columns() -> dict[str, Column]:
            return {
                "dispatcher_id": Column(dispatcher), "compile_wait_ns": Column(waited),
                "measuring_ns": Column(np.zeros_like(start) if measuring is None else measuring),
                **self.numbers(read, {
                    "compile_ns": "", "device_id": "device", "thread_id": "", "cell_id": "cell", "line_id": "line",
                    "parent_launch_id": "parent launch", "compilation_id": "compilation",
                    "correlation_id": "correlation_id", "specialization_id": "", "configuration_id": "",
                    "queue_ns": "queue_ns", "execute_ns": "execute_ns", "graph_node_id": "graph node"}),
                "range": Column(attribute(self.recording), "ranges", of="ranges"),
                "operator": self._operator(read),
                **self._words(read, {"cache": "cache", "error": "error"}),
                "capture": Column(self._event_row(capture)), "capture_event_id": Column(capture, "captured by event"),
                "id": Column(np.arange(read.rows), "launch"),
            }

        def look() -> Look:
            return Look(Words(dispatcher, self._kernels), Words((capture >= 0) * 1, ["launch", "captured launch"]),
                        always(PHASE_COLORS["dispatch"], dispatcher))

        slices = self.add("launches", start, last, NO_END * ~bounds[-1][1], look, columns)
        slices.bounds = tuple(bounds)
        slices.compiling, slices.measuring = (took, waited, compilation), measuring
        for lane, at in self._by_thread(thread, read.ints("cell_id")[0]):
            self.lanes.place(lane, slices, at)

    def _compiles(self) -> None:
        read, passes = self.read["compilations"], self.read["passes"]
        start, _ = self.clock.times("compilations", "start_ns")
        end, ended = self.clock.times("compilations", "end_ns")
        thread, dispatcher = read.ints("thread_id", "dispatcher_id")

        def look() -> Look:
            (outcome, outcomes), = read.codes("outcome")
            which, pairs = combinations(outcome, dispatcher)
            names = [f"{_OUTCOMES.get(outcomes[how], 'compile')} {self._kernels[of]}" for how, of in pairs.tolist()]
            return Look(Words(which, names), always("compile", start), always(COMPILE_COLOR, start))

        compiles = self.add("compiles", start, np.where(ended, end, start), NO_END * ~ended, look, lambda: {
            **self.numbers(read, {"thread_id": "", "cell_id": "cell", "line_id": "line", "dispatcher_id": "",
                                   "specialization_id": "", "configuration_id": "", "launch_id": "launch"}),
            "id": Column(np.arange(read.rows), "compilation"), "compile": Column(np.arange(read.rows), of="compiles"),
            **self._words(read, {"reason_code": "reason code"})})

        begin, timed = self.clock.times("passes", "start_ns")
        rows = np.flatnonzero(timed)
        rows = rows[np.argsort(begin[rows], kind="stable")]
        took, owner, made = (each[rows] for each in passes.ints("duration_ns", "compilation_id", "specialization_id"))
        finish = begin[rows] + np.clip(took, 0, self.clock.span)
        phases = self.add("passes", begin[rows], finish, 0 * rows, lambda: _pass_look(passes, rows, "compile phase"),
                           lambda: {
            "compilation_id": Column(owner, "compilation"), **self._words(passes, {"name": "", "kind": "kind"}, rows),
            "specialization_id": Column(made, of="specializations")})
        cell, = read.ints("cell_id")
        for lane, at in self._by_thread(thread, cell):
            self.lanes.place(lane, compiles, at)
        for lane, at in self._by_thread(np.append(thread, UNKNOWN)[owner], np.append(cell, UNKNOWN)[owner]):
            self.lanes.place(lane, phases, at)

    def _waits(self) -> None:
        """Add the waits for the device after cells."""
        (until, _), = self.read["cells"].times("synchronized_ns")
        end, _ = self.clock.times("cells", "end_ns")
        until = otherwise(until, self.clock.first) - self.clock.first
        rows = np.flatnonzero(until > end)
        rows = rows[np.argsort(end[rows], kind="stable")]
        slices = self.add(
            "waits", end[rows], until[rows], 0 * rows,
            lambda: Look(always("wait for the device", rows), always("cell", rows), always(CELL_COLOR, rows)),
            lambda: {"cell_id": Column(rows, "cell", of="cells")})
        for process, at in rows_by(self.owner.of(0 * rows - 1, rows)).items():
            self.lanes.place(self.lanes.lane("cells", (), "Cells", process=process), slices, at)

    def _untimed(self) -> None:
        """Place numba's passes, which have durations only, one after the other from the compile's start."""
        read = self.read["passes"]
        took, owner = read.ints("duration_ns", "compilation_id")
        rows = np.flatnonzero(~self.clock.times("passes", "start_ns")[1] & (owner >= 0))
        rows = rows[np.argsort(owner[rows], kind="stable")]
        took, owner = np.maximum(took[rows], 0), owner[rows]
        passed = np.cumsum(took) - took
        first = np.searchsorted(owner, owner)
        compiles = self._tables["compiles"]
        start = compiles.start[owner] + passed - passed[first]
        slices = self.add("untimed", start, start + took, 0 * rows, lambda: _pass_look(read, rows, "pass"),
                           lambda: {"compilation_id": Column(owner, "compilation")})
        thread, cell = (compiles.columns()[name].values[owner] for name in ("thread_id", "cell_id"))
        for lane, at in self._by_thread(thread, cell, start):
            self.lanes.place(lane, slices, at)

    def _events(self) -> None:
        read = self.read["graph_events"]
        rows = np.flatnonzero(self._event_rows[:-1] >= 0)

        def look() -> Look:
            (kind, kinds), = read.codes("kind")
            name, names = event_names(self.recording)
            return Look(Words(name[rows], names), Words(kind[rows], [f"graph {each}" for each in kinds]),
                        always(EVENT_COLOR, rows))

        def columns() -> dict[str, Column]:
            rebuilt, = read.ints("rebuild_of")
            named = slices.look().names
            return {
                "id": Column(rows, "graph event"),
                **self.numbers(read, {"thread_id": "", "cell_id": "cell", "line_id": "line"}, rows),
                "name": Column(named.codes, words=named.values),
                **self._words(read, {"kind": "", "outcome": "outcome", "change": "changed", "api": "api",
                                     "changes": "changes", "error": "error"}, rows),
                **self.numbers(read, {
                    "graph_id": "graph", "exec_id": "executable graph", "correlation_id": "correlation_id",
                    "queue_ns": "queue_ns", "execute_ns": "execute_ns", "stream": ""}, rows),
                "rebuild_of": Column(self._event_row(rebuilt[rows])),
                "rebuild_of_event": Column(rebuilt[rows], "rebuild of event"),
            }

        slices = self._host_slices("graph_events", "events", rows, look, columns)

    def _builds(self) -> None:
        read = self.read["builds"]
        rows = np.arange(read.rows)

        def look() -> Look:
            (outcome, outcomes), = read.codes("outcome")
            names = build_names(self.recording)
            known = {each: at for at, each in enumerate(dict.fromkeys(names))}
            hit = outcomes.index("hit") if "hit" in outcomes else len(outcomes)
            return Look(Words(np.array([known[each] for each in names], dtype=np.int64), list(known)),
                        always("build cache", rows), Words((outcome != hit) * 1, [CALL_COLOR, COMPILE_COLOR]))

        def columns() -> dict[str, Column]:
            named = slices.look().names
            return {
                "id": Column(rows, "build"), **self.numbers(read, {"thread_id": "", "cell_id": "cell"}),
                "name": Column(named.codes, words=named.values),
                **self._words(read, {
                    "outcome": "outcome", "framework": "framework", "reason": "reason", "fix": "fix",
                    "differing_parts": "differs in", "error": "error", "reason_code": "reason code",
                    "key_parts": "key"}),
                **self.numbers(read, {"launch_id": "launch", "build_ns": "build_ns"}),
            }

        slices = self._host_slices("builds", "builds", rows, look, columns)

    def _collections(self) -> None:
        read = self.read["collections"]
        start, _ = self.clock.times("collections", "start_ns")
        end, _ = self.clock.times("collections", "end_ns")
        thread, generation = read.ints("thread_id", "generation")

        def look() -> Look:
            which, known = combinations(generation)
            names = [f"GC generation {each}" if each >= 0 else "GC" for each, in known.tolist()]
            return Look(Words(which, names), always("garbage collection", which), always(GARBAGE_COLOR, which))

        def columns() -> dict[str, Column]:
            named = slices.look().names
            return {
                "id": Column(np.arange(read.rows), "collection"), "name": Column(named.codes, words=named.values),
                **self.numbers(read, {"thread_id": "", "cell_id": "cell", "generation": "generation",
                                       "collected": "collected", "uncollectable": "uncollectable"})}

        slices = self.add("collections", start, np.maximum(end, start), 0 * start, look, columns)
        for on, at in rows_by(thread).items():
            process = int(self.owner.of(*np.array([[on], [UNKNOWN]]))[0])
            lane = self.lanes.lane("garbage", (on,), "Garbage collection", self._thread(on), process)
            self.lanes.place(lane, slices, at)

    def _host_slices(
        self, source: str, table: str, rows: Ints, look: Callable[[], Look], columns: Callable[[], dict[str, Column]]
    ) -> Slices:
        """Add what host threads did besides launches and compiles, on the threads' lanes."""
        start, _ = self.clock.times(source, "start_ns")
        end, ended = self.clock.times(source, "end_ns")
        start, end, ended = start[rows], end[rows], ended[rows]
        slices = self.add(table, start, np.where(ended, np.maximum(end, start), start), NO_END * ~ended, look, columns)
        thread, cell = (each[rows] for each in self.read[source].ints("thread_id", "cell_id"))
        for lane, at in self._by_thread(thread, cell, start):
            self.lanes.place(lane, slices, at)
        return slices

    # ---- The GPU, and what the host called for it ----

    def _gpu(self) -> tuple[Slices, Slices, Slices, Ints | slice]:
        """Return calls, graph launches and activities, joined, and the rows of the last."""
        read = self.read["activities"]
        (kind, kinds), = read.codes("kind")
        kinds_of = Column(kind, words=kinds)
        sync, kernel = _is(kinds_of, "sync"), _is(kinds_of, "kernel")
        launch, = read.ints("launch_id")
        start, began = self.clock.times("activities", "start_ns")
        end, ended = self.clock.times("activities", "end_ns")
        asked, known = self.clock.times("activities", "submit_start_ns")
        answered, returned = self.clock.times("activities", "submit_end_ns")
        if not returned.all():
            answered = np.where(returned, answered, asked)
        if not began.all():
            # What was not measured on the GPU is shown where the host asked for it.
            start = np.where(began, start, np.where(returned | known, answered, end))
        if not ended.all():
            end = np.where(ended, end, start)
        drawn = began | ended | known
        self._undrawn = int((~drawn).sum())
        rows = np.flatnonzero(drawn & ~sync)
        at: Ints | slice = rows
        if len(rows) and bool((np.diff(start[rows]) < 0).any()):
            at = rows = rows[np.argsort(start[rows], kind="stable")]
        elif len(rows) == len(start):
            at = slice(None)
        own = (launch >= 0) & kernel
        asking = np.flatnonzero(known & ~own & ~sync)
        calls, call_of = self._calls(asking, np.flatnonzero(sync & drawn), (start, end, ended), (asked, answered))
        graphs, graph_of = self._graphs(rows, at, start, end, call_of)
        ask = (asked, answered, (known & own)[at])
        gpu = self._activities(rows, at, (start[at], end[at]), 1 * ~ended + 2 * ~began + 4 * ~(known & own), ask,
                               (call_of[at], graph_of))
        return calls, graphs, gpu, at

    def _calls(
        self, asking: Ints, waits: Ints, times: tuple[Ints, Ints, Bools], submits: tuple[Ints, Ints]
    ) -> tuple[Slices, Ints]:
        """Return API calls, waits and the calls behind activities; and each activity's row among them."""
        api, read = self.read["api_calls"], self.read["activities"]
        start, end, ended = times
        asked, answered = submits
        first, member = self._callers(asking, asked)
        begin, _ = self.clock.times("api_calls", "start_ns")
        finish, _ = self.clock.times("api_calls", "end_ns")
        whole = np.concatenate((begin, start[waits], asked[first]))
        order = np.argsort(whole, kind="stable")
        place = np.empty(len(order), dtype=np.int64)
        place[order] = np.arange(len(order))
        call_of = np.full(len(start), UNKNOWN, dtype=np.int64)
        call_of[asking] = place[len(begin) + len(waits):][member]
        source = np.repeat(np.array([API_CALL, WAIT, ASKING]), (len(begin), len(waits), len(first)))[order]
        flags = np.concatenate((0 * begin, NO_END * ~ended[waits], 0 * first))[order]

        def look() -> Look:
            (called, called_words), = api.codes("name")
            (waited, waited_words), (by, api_words) = read.codes("name", "api")
            names = [*called_words, *waited_words, *api_words, "driver call"]
            after = len(called_words) + len(waited_words)
            asked_by = np.where(by[first] >= 0, by[first] + after, len(names) - 1)
            found = np.concatenate((called, waited[waits] + len(called_words), asked_by))[order]
            return Look(Words(found, names), Words((source == WAIT) * 1, ["driver call", "wait"]),
                        Words(source, [CALL_COLOR, WAIT_COLOR, ASKING_COLOR]))

        def columns() -> dict[str, Column]:
            rows = np.concatenate((np.arange(len(begin)), waits, first))[order]
            none = np.full(len(begin), UNKNOWN)
            *own, result = api.ints("thread_id", "cell_id", "correlation_id", "result")
            of_activities = read.ints("thread_id", "cell_id", "correlation_id", "stream", "line_id")
            thread, cell, correlation, on_stream, line = (
                np.concatenate((mine, many[waits], many[first]))[order]
                for mine, many in zip((*own, none, none), of_activities, strict=True))
            result = np.concatenate((result, np.full(len(waits) + len(first), UNKNOWN)))[order]
            named = slices.look().names
            return {
                "source": Column(source), "name": Column(named.codes, words=named.values), "id": Column(rows),
                "result": Column(result, "result"), "thread_id": Column(thread),
                "cell_id": Column(cell, "cell", of="cells"), "line_id": Column(line, "line", of="lines"),
                "correlation_id": Column(correlation, "correlation_id"), "stream": Column(on_stream, "stream"),
                "api_call": Column(np.where(source == API_CALL, rows, UNKNOWN), "api_call"),
                "activity": Column(np.where(source == WAIT, rows, UNKNOWN), "activity"),
            }

        slices = _slices("calls", whole[order], np.concatenate((finish, end[waits], answered[first]))[order], flags,
                        look, columns)
        return slices, call_of

    def _callers(self, asking: Ints, asked: Ints) -> tuple[Ints, Ints]:
        """Return the first activity of each call, and the call of each activity."""
        if not len(asking):
            return asking, asking
        thread, correlation = self.read["activities"].ints("thread_id", "correlation_id")
        keys = np.stack((asked[asking], thread[asking], correlation[asking]), axis=1)
        _, first, member = np.unique(keys, axis=0, return_index=True, return_inverse=True)
        return asking[first], member.reshape(-1)

    def _graphs(
        self, rows: Ints, at: Ints | slice, start: Ints, end: Ints, call_of: Ints
    ) -> tuple[Slices, Ints]:
        """Return launches of graphs of which an activity is drawn, in order of their first one's start."""
        none = np.full(len(rows), UNKNOWN, dtype=np.int64)
        cupti, = self.read["activities"].ints("cupti_graph_id")
        if not self.read["graph_events"].rows and not (cupti >= 0).any():
            empty = none[:0]
            names = ("event", "graph_id", "cupti_graph_id", "correlation_id", "cell_id", "line_id", "thread_id",
                     "nodes", "first", "call", "busy")
            nothing = {"name": Column(empty, words=[]), **{name: Column(empty) for name in names}}
            return _slices("graphs", empty, empty, empty, lambda: _graph_look(empty, []), lambda: nothing), none
        runs = graph_runs(self.recording)
        run = runs.of_activity[at]
        nodes = np.flatnonzero(run >= 0)
        # Rows are in order of start, so the first of a run is the one that began first.
        shown, first, of = np.unique(run[nodes], return_index=True, return_inverse=True)
        order = np.argsort(nodes[first], kind="stable")
        place = np.empty(len(order), dtype=np.int64)
        place[order] = np.arange(len(order))
        none[nodes] = place[of]
        graph_of, shown, leaders = none, shown[order], rows[nodes[first[order]]]
        begin = start[leaders]
        finish = begin.copy()
        np.maximum.at(finish, graph_of[nodes], end[rows[nodes]])
        busy = np.zeros(len(order), dtype=np.int64)
        np.add.at(busy, graph_of[nodes], np.maximum(end[rows[nodes]] - start[rows[nodes]], 0))
        name, names = run_names(self.recording, runs)

        def columns() -> dict[str, Column]:
            return {
                "name": Column(name[shown], words=names), "event": Column(self._event_row(runs.event[shown])),
                "graph_id": Column(runs.graph[shown], "graph"),
                "cupti_graph_id": Column(runs.cupti_graph[shown], "cupti_graph_id"),
                "correlation_id": Column(runs.correlation[shown], "correlation_id"),
                "cell_id": Column(runs.cell[shown], "cell", of="cells"), "thread_id": Column(runs.thread[shown]),
                "line_id": Column(self.read["activities"].ints("line_id")[0][leaders], "line", of="lines"),
                "nodes": Column(np.bincount(graph_of[nodes], minlength=len(order)).astype(np.int64), "activities"),
                "first": Column(nodes[first[order]]), "call": Column(call_of[leaders]), "busy": Column(busy),
                "event_id": Column(runs.event[shown], "graph event"),
                "device_id": Column(runs.device[shown], "device", of="devices"),
            }

        found = _slices("graphs", begin, finish, 0 * begin, lambda: _graph_look(name[shown], names), columns)
        return found, graph_of

    def _activities(
        self, rows: Ints, at: Ints | slice, times: tuple[Ints, Ints], flags: Ints, ask: tuple[Ints, Ints, Bools],
        owners: tuple[Ints, Ints],
    ) -> Slices:
        """Add the GPU's activities."""
        read = self.read["activities"]
        launch, specialization = (each[at] for each in read.ints("launch_id", "specialization_id"))
        (kind, kinds), (name, names) = ((values[at], words) for values, words in read.codes("kind", "name"))
        kernel = np.append(self._owners(), UNKNOWN)[specialization]
        is_kernel = _is(Column(kind, words=kinds), "kernel")
        # Colors go by the time that kernels took.
        rank, order = ranked(name, np.where(is_kernel, np.maximum(times[1] - times[0], 0), 0), len(names))
        names = [names[each] for each in order.tolist()]

        def look() -> Look:
            shown = np.where(kernel >= 0, kernel, np.where(rank >= 0, rank + len(self._kernels), UNKNOWN))
            copy, other, graph = range(len(KERNEL_COLORS), len(KERNEL_COLORS) + 3)
            inks = np.where(is_kernel, np.maximum(rank, 0) % len(KERNEL_COLORS),
                            np.where(_is(Column(kind, words=kinds), "memset"), other,
                                     np.where(_is(Column(kind, words=kinds), "graph"), graph, copy)))
            return Look(Words(shown, [*self._kernels, *map(short_name, names)]), Words(kind, kinds),
                        Words(inks, [*KERNEL_COLORS, COPY_COLOR, MEMSET_COLOR, GRAPH_COLOR]))

        def columns() -> dict[str, Column]:
            inside = attribute_activities(self.recording, self._tables["launches"].columns()["range"].values)[at]
            found = {
                "launch": Column(launch, "launch"), "kernel": Column(kernel), "name": Column(rank, words=names),
                "id": Column(rows, "activity"),
                **self.numbers(read, {
                    "specialization_id": "", "configuration_id": "", "cell_id": "cell", "line_id": "line",
                    "thread_id": "thread", "correlation_id": "correlation_id", "device_id": "", "stream": "",
                    "size_bytes": "bytes", "graph_node_id": "graph node", "cupti_graph_id": "cupti_graph_id",
                    "cupti_node_id": "cupti_node_id", "graph_event_id": "graph event"}, at),
                "regs": Column(read.ints("regs")[0][at], "registers"),
                "range": Column(inside, "ranges", of="ranges"), "operator": self._operator(read, at),
                "call": Column(owners[0]), "graph": Column(owners[1]),
                **self._words(read, {"kind": "", "entry_name": "", "api": "api", "memory": "memory"}, at),
            }
            full = np.where((kernel >= 0) | (np.array([*map(short_name, names), ""]) != np.array([*names, ""]))[rank],
                            rank, UNKNOWN)
            alone = is_kernel & (launch < 0) & (found["cupti_graph_id"].values < 0)
            found |= {"function": Column(full, "function", words=names),
                      "other": Column(alone - 1, "launched by", words=["other"])}
            if _has_own_calls(launch):
                asked, answered, called = ask
                held = slice(None) if called.all() else np.maximum.accumulate(np.where(called, np.arange(len(rows)), 0))
                found |= {"call_start": Column(asked[at][held]), "call_end": Column(answered[at][held])}
            return found

        if not _has_own_calls(launch):
            self._left_out.append("the driver calls inside of launches")
        return _slices("gpu", *times, flags[at], look, columns)

    def _place_gpu(self, calls: Slices, graphs: Slices, gpu: Slices, at: Ints | slice) -> None:
        self._tables |= {"calls": calls, "graphs": graphs, "gpu": gpu}
        thread, cell = (calls.columns()[name].values for name in ("thread_id", "cell_id")) if len(calls) else (
            calls.start, calls.start)
        for lane, rows in self._by_thread(thread, cell):
            self.lanes.place(lane, calls, rows)
        whose = self.owner.activities[at]
        for process, rows in rows_by(whose[graphs.columns()["first"].values]).items():
            lane = self.lanes.lane("graphs", (), "Graph launches", "first to last node", process)
            self.lanes.place(lane, graphs, rows)
        device, on_stream = (each[at] for each in self.read["activities"].ints("device_id", "stream"))
        of, lines = combinations(whose, device, on_stream)
        for code, rows in rows_by(of).items():
            process, on, each = lines[code].tolist()
            label = device_label(on, self.ordinals[on] if 0 <= on < len(self.ordinals) else None)
            lane = self.lanes.lane("gpu", (on, each), label, f"stream {each}" if each >= 0 else "", process)
            self.lanes.place(lane, gpu, rows)

    def _samples(self, series: Sequence[CounterSamples]) -> None:
        """Add what counters said over time: a lane for each device and metric, below its streams."""
        def joined(name: str) -> Ints:
            return np.concatenate([np.empty(0, np.int64), *(getattr(samples, name) for samples in series)])

        metrics = [metric for samples in series for metric in samples.metrics]
        labels = [label for samples in series for label in samples.labels]
        order = [number for samples in series for number in samples.order]
        device, process, cell, start, end = map(joined, ("device", "process", "cell", "start", "end"))
        first = np.cumsum([0, *(len(samples.metrics) for samples in series)])
        code = np.concatenate([np.empty(0, np.int64), *(
            samples.code + before for samples, before in zip(series, first.tolist(), strict=False))])
        percent = np.concatenate([np.empty(0), *(samples.value for samples in series)])
        lost = np.isnan(percent)
        value = np.where(lost, UNKNOWN, np.rint(np.clip(np.nan_to_num(percent), 0, 100) * PARTS)).astype(np.int64)
        slices = self.add("samples", start, end, 0 * start, lambda: Look(
            Words(code, labels), always("counter", start), always(SAMPLE_COLOR, start)), lambda: {
                "name": Column(code, words=labels), "metric": Column(code, words=metrics), "value": Column(value),
                "device_id": Column(device), "cell_id": Column(cell, "cell", of=_REFERENCES.get("cell_id", ""))})
        whose = process if self.owner.processes else np.full(len(start), UNKNOWN)
        group, keys = combinations(whose, device, code)
        for number, rows in rows_by(group).items():
            owner, on, metric = keys[number].tolist()
            lost_ns = int((end - start)[rows][lost[rows]].sum())
            note = labels[metric] + (f", {duration(lost_ns)} lost" if lost_ns else "")
            label = device_label(on, self.ordinals[on] if 0 <= on < len(self.ordinals) else None)
            self.lanes.place(self.lanes.lane("gpu", (on, BELOW_STREAMS, order[metric]), label, note, owner), slices,
                             rows, "area")

    # ---- What they have in common ----

    def add(
        self, table: str, start: Ints, end: Ints, flags: Ints, look: Callable[[], Look],
        columns: Callable[[], dict[str, Column]],
    ) -> Slices:
        """Add a table of slices, and return it."""
        slices = _slices(table, start, end, flags, look, columns)
        self._tables[table] = slices
        return slices

    def numbers(self, read: Reader, names: Mapping[str, str], at: Ints | slice = slice(None)) -> dict[str, Column]:
        """Return columns of numbers by name, with their labels; ids refer to the table of their name."""
        return {name: Column(values[at], label, of=_REFERENCES.get(name, ""))
                for (name, label), values in zip(names.items(), read.ints(*names), strict=True)}

    def _words(self, read: Reader, names: Mapping[str, str], at: Ints | slice = slice(None)) -> dict[str, Column]:
        """Return columns of texts by name, with their labels."""
        return {name: Column(values[at], label, words)
                for (name, label), (values, words) in zip(names.items(), read.codes(*names), strict=True)}

    def _operator(self, read: Reader, at: Ints | slice = slice(None)) -> Column:
        """Return PyTorch's operators, with those around them."""
        return Column(read.ints("operator_id")[0][at], "operator", self._operators)

    def _event_row(self, event: Ints) -> Ints:
        """Return the rows of ``events`` for rows of ``graph_events``, -1 for none."""
        return self._event_rows[np.where(event < len(self._event_rows) - 1, event, UNKNOWN)]

    def _owners(self) -> Ints:
        """Return the dispatcher of each specialization."""
        return self.read["specializations"].ints("dispatcher_id")[0]

    def _by_thread(self, thread: Ints, cell: Ints, start: Ints | None = None) -> Iterator[tuple[Lane, Ints | slice]]:
        """Yield the lane of each host thread with the rows that go there, in order of `start` where that is given."""
        of, lines = combinations(thread, self.owner.of(thread, cell))
        for code, at in rows_by(of).items():
            on, process = lines[code].tolist()
            lane = self.lanes.lane("host", (on if on >= 0 else 1 << 40,), self._thread(on), "host thread", process)
            if start is not None:
                at = np.arange(len(start))[at]
                at = at[np.argsort(start[at], kind="stable")]
            yield lane, at

    def _thread(self, number: int) -> str:
        return self._threads[number] if 0 <= number < len(self._threads) else "unknown thread"


_REFERENCES = {"cell_id": "cells", "line_id": "lines", "thread_id": "threads", "device_id": "devices",
               "specialization_id": "specializations", "configuration_id": "configurations"}


def _slices(
    table: str, start: Ints, end: Ints, flags: Ints, look: Callable[[], Look], columns: Callable[[], dict[str, Column]]
) -> Slices:
    return Slices(table, start, end, flags, np.zeros(len(start), dtype=np.int64), cache(look), cache(columns))


def _is(column: Column, word: str) -> Bools:
    """Return which values of a column of words are `word`."""
    words = column.words or []
    return column.values == words.index(word) if word in words else np.zeros(len(column.values), dtype=np.bool_)


def _has_own_calls(launch: Ints) -> bool:
    return int((launch >= 0).sum()) <= MOST_OWN_CALLS


def always(word: str, rows: Ints) -> Words:
    """Return a column of one word, which takes no memory."""
    return Words(np.broadcast_to(np.int64(0), (len(rows),)), [word])


def _or_last(codes: Ints, words: Sequence[str]) -> Ints:
    """Return codes with that of a last, additional word for none."""
    return np.where(codes >= 0, codes, len(words))


def _pass_look(read: Reader, rows: Ints, kind: str) -> Look:
    (name, names), = read.codes("name")
    return Look(Words(name[rows], names), always(kind, rows), always(PASS_COLOR, rows))


def _graph_look(names: Ints, words: Sequence[str]) -> Look:
    return Look(Words(names, list(words)), always("graph launch", names), always(GRAPH_COLOR, names))
