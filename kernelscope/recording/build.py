"""From raw buffers to tables: joins launches with cells, compiles and parents. Pure; all of it vectorized."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kernelscope.recording.columns import (
    Columns,
    Row,
    Spans,
    cell_finder,
    distinct,
    looked_up,
    mapped,
    none,
)
from kernelscope.recording.driver import add_driver_launches
from kernelscope.recording.graphs import GraphJoin, RawGraphs
from kernelscope.recording.joins import Neighbours, RawActivities, add_devices, join
from kernelscope.recording.model import Recording
from kernelscope.recording.parquet import integer_array, make_table, recorded_table, table_of_rows
from kernelscope.recording.ranges import RawRanges, range_columns
from kernelscope.recording.time import (
    FOREVER,
    instant_or_none,
    instants,
    is_known,
    otherwise,
    recorded,
    row_duration_ns,
)
from kernelscope.registry import features, loaded
from kernelscope.schema import MAX_COUNT, RECORD_TIMES, TABLES, UNFINISHED, UNKNOWN
from kernelscope.units import listed

#: The columns of `RawRecording.launches`.
LAUNCH_COLUMNS = {**dict.fromkeys(("thread_id", "line_id", "stack_id", "target", "configuration"), np.int32),
                  **dict.fromkeys(RECORD_TIMES, np.int64)}

#: What is known of a garbage collection: when it began and was done (ns), the thread's ident, and what it found.
COLLECTION = ("start_ns", "end_ns", "ident", "generation", "collected", "uncollectable")


@dataclass
class RawCollections:
    """Collections of Python's garbage collector.

    Attributes
    ----------
    rows : ndarray of int64, shape (n, 6)
        `COLLECTION` of each, as they ended, -1 where unknown.
    are_all : bool
        Whether none is missing: a journal lacks the last ones.
    """

    rows: np.ndarray
    are_all: bool = True

    @classmethod
    def from_bytes(cls, held: bytes) -> RawCollections:
        """Return what `kernelscope.native._core.Collections` has."""
        return cls(np.frombuffer(held, np.int64).reshape(-1, len(COLLECTION)))

    def column(self, name: str) -> np.ndarray:
        """Return one of `COLLECTION`."""
        return self.rows[:, COLLECTION.index(name)]


@dataclass
class RawRecording:
    """What a recording session collected, before it is a `Recording`.

    Attributes
    ----------
    launches : dict of str to ndarray
        `LAUNCH_COLUMNS`: equally long arrays, times in nanoseconds, -1 where unknown; those of a thread in order of
        start.
    targets : list of dict
        What a launch's target stands for: ``dispatcher_id``, ``specialization_id``, ``device_id`` (-1 unknown)
        and ``error``.
    threads, lines, stacks, cells, dispatchers, specializations, configurations, devices, compilations, passes, code,
    builds, health
        Rows of the tables of that name, and of ``occupancies``; compilations, passes and builds as they happened.
    ranges : RawRanges
        NVTX events as they happened.
    activities : RawActivities
        What the GPU and the driver did.
    collections : RawCollections or None
        Garbage collections; None where they were not recorded.
    rows : dict of str to list of dict
        What the probes of features recorded, by table, as `kernelscope.registry.Feature.rows` of the feature, or
        `joins`, takes it.
    began : int or None
        When this recording began inside another one; None for one by itself.
    graphs : RawGraphs
        Graphs, their nodes and edges, and the events in their lives.
    metadata : dict
        The recording's metadata; as ``process`` what is known of the process, by columns of ``processes``.
    """

    launches: Columns = field(default_factory=lambda: {
        name: np.empty(0, dtype) for name, dtype in LAUNCH_COLUMNS.items()})
    targets: list[Row] = field(default_factory=list)
    threads: list[Row] = field(default_factory=list)
    lines: list[Row] = field(default_factory=list)
    stacks: list[Row] = field(default_factory=list)
    cells: list[Row] = field(default_factory=list)
    dispatchers: list[Row] = field(default_factory=list)
    specializations: list[Row] = field(default_factory=list)
    configurations: list[Row] = field(default_factory=list)
    devices: list[Row] = field(default_factory=list)
    compilations: list[Row] = field(default_factory=list)
    passes: list[Row] = field(default_factory=list)
    occupancies: list[Row] = field(default_factory=list)
    code: list[Row] = field(default_factory=list)
    builds: list[Row] = field(default_factory=list)
    ranges: RawRanges = field(default_factory=RawRanges)
    collections: RawCollections | None = None
    activities: RawActivities = field(default_factory=RawActivities)
    graphs: RawGraphs = field(default_factory=RawGraphs)
    rows: dict[str, list[Row]] = field(default_factory=dict[str, list[Row]])
    began: int | None = None
    health: list[Row] = field(default_factory=list)
    metadata: Row = field(default_factory=dict)


def build(raw: RawRecording) -> Recording:
    """Return the finished recording of a session's raw data."""
    launches = _columns(raw)
    order = sorted(range(len(raw.compilations)), key=lambda number: raw.compilations[number]["start_ns"])
    renumbered: dict[Any, int] = {old: new for new, old in enumerate(order)}
    compilations = [dict(raw.compilations[old]) for old in order]
    ranges = range_columns(raw.ranges)
    builds = _in_order(raw.builds)
    collections = _collections(raw)
    _add_cells(launches, compilations, builds, ranges, raw.cells)
    _add_parents(launches)
    _add_compilations(launches, compilations)
    _add_launches(builds, launches)
    if raw.collections is not None and raw.collections.are_all:
        _add_collections(launches, collections)
    graphs = GraphJoin(raw.graphs, raw.threads)
    activities, api_calls = join(raw.activities, launches, Neighbours(
        raw.threads, raw.devices, raw.specializations, raw.configurations, raw.cells, raw.dispatchers), graphs)
    if activities:
        add_devices(launches, activities["launch_id"], activities["device_id"])
    graphs.mark_captured(launches, raw.configurations, raw.specializations, raw.devices)
    of_graphs, graph_events, event_ids = graphs.rows(raw.cells, raw.specializations)
    for events, name in ((launches, "capture_event_id"), (activities, "graph_event_id")):
        if name in events and len(event_ids) > 1:
            events[name] = event_ids[events[name]]
    add_driver_launches(launches, activities, raw.dispatchers, raw.specializations, raw.configurations,
                        (*compilations, *builds))
    joined: dict[str, Sequence[Row]] = {}
    for feature in features():
        joined |= loaded(feature.joins)(raw, launches, activities) if feature.joins else {}
    _add_tunings(launches, builds)
    passes = [{**row, "compilation_id": renumbered.get(row.get("compilation_id"))} for row in raw.passes]
    rows: dict[str, Sequence[Row]] = {
        "cells": raw.cells, "threads": raw.threads, "lines": _with_cells(raw.lines, raw.cells),
        "stacks": raw.stacks, "devices": raw.devices, "dispatchers": raw.dispatchers,
        "specializations": raw.specializations, "configurations": raw.configurations, "occupancies": raw.occupancies,
        "compilations": compilations, "passes": passes, "code": raw.code, "builds": builds, **of_graphs,
        **joined,
    }
    columns: dict[str, Mapping[str, Any]] = {
        "launches": launches, "activities": activities, "api_calls": api_calls, "graph_events": graph_events,
        "ranges": ranges, "collections": collections}
    for feature in features():
        of_feature = loaded(feature.rows)(raw, launches) if feature.rows else raw.rows
        for table in loaded(feature.tables) if feature.tables else ():
            made: Any = of_feature.get(table.name, [])
            target: dict[str, Any] = columns if isinstance(made, Mapping) else rows
            target[table.name] = made
    left_out: list[str] = []
    tables = {name: recorded_table(name, held, left_out) for name, held in rows.items()}
    tables |= {name: make_table(name, held) for name, held in columns.items()}
    health = recorded_table("health", raw.health, left_out)
    if left_out:
        health = recorded_table("health", [*raw.health, {
            "probe": "recorder", "status": "degraded", "message": "values that cannot be were left out: "
            + listed([each[:_MOST_CHARS] for each in left_out])}], left_out)
    tables = {name: _of_one_process(table) for name, table in {**tables, "health": health}.items()}
    return Recording({**tables, "processes": process_table(raw.metadata.get("process"), tables)}, raw.metadata)


def process_table(held: Any, tables: Mapping[str, pa.Table]) -> pa.Table:
    """Return the table ``processes`` of a recording of one process.

    Parameters
    ----------
    held : Any
        What the metadata say of it, which came from outside; what does not fit its column is left out.
    tables : mapping of str to pyarrow.Table
        The recording's other tables.
    """
    costs = tables["health"].column("total_cost_ns")
    ends = [pc.call_function("max", [tables[name].column(column)]).as_py() for name, column in _ENDS]
    return table_of_rows("processes", [{
        "end_ns": max((end for end in ends if end is not None), default=None), "gpu_uuid": _only_gpu(tables),
        **process_row(held), "process_id": 0,
        "own_cost_ns": pc.call_function("sum", [costs]).as_py()}])


def process_row(held: Any) -> Row:
    """Return columns of ``processes`` from what is said of a process, without what does not fit its column."""
    held = held if isinstance(held, dict) else {}
    row: Row = {"status": "ok"}
    for column in TABLES["processes"].columns:
        value = held.get(column.name)
        if column.is_enumeration:
            fits = value in column.values
        elif column.low is None or column.high is None:
            fits = isinstance(value, str)
        else:
            fits = type(value) is int and column.low <= value <= column.high
        if fits:
            row[column.name] = value
    return row


def _only_gpu(tables: Mapping[str, pa.Table]) -> str | None:
    """The UUID of the GPU that launches and activities were on; None where they were on several."""
    columns = (tables[name].column("device_id") for name in ("launches", "activities"))
    used = {device for column in columns for device in column.unique().to_pylist() if device is not None}
    return tables["devices"].column("uuid")[used.pop()].as_py() if len(used) == 1 else None


#: What says until when a process lived.
_ENDS = (("cells", "end_ns"), ("cells", "synchronized_ns"), ("launches", "end_ns"), ("launches", "start_ns"),
         ("activities", "end_ns"), ("compilations", "end_ns"))


def _of_one_process(table: pa.Table) -> pa.Table:
    """The table with its rows given to the only process, where they name one."""
    at = table.schema.get_field_index("process_id")
    if at < 0 or not table.num_rows:
        return table
    first = integer_array(np.broadcast_to(np.int32(0), table.num_rows), pa.int32())
    return table.set_column(at, table.schema.field(at), first)


#: How much is quoted of a number that was left out.
_MOST_CHARS = 80


def _columns(raw: RawRecording) -> dict[str, Any]:
    """All threads' launches as columns of the schema, in order of start."""
    held = raw.launches
    start = held["start_ns"]
    if np.any(start[1:] < start[:-1]):
        order = np.argsort(start, kind="stable")
        held = {name: values.take(order) for name, values in held.items()}
    target = held["target"]
    goals = {name: np.array([row[name] for row in raw.targets], np.int32)
             for name in ("dispatcher_id", "specialization_id", "device_id")}
    # Frameworks without a compile step (the simulator) have no cache to hit: unknown, not "memory".
    simulated = {number for number, row in enumerate(raw.dispatchers) if row.get("framework") == "simulator"}
    goals["cache"] = np.array([
        UNKNOWN if row["specialization_id"] == UNKNOWN or row["dispatcher_id"] in simulated else 0
        for row in raw.targets], np.int32)
    words, goals["error"] = _coded([row["error"] for row in raw.targets])
    found = looked_up(target, goals)
    return {
        "launch_id": np.arange(len(start), dtype=np.int64),
        "thread_id": held["thread_id"], "line_id": held["line_id"], "stack_id": held["stack_id"],
        "configuration_id": held["configuration"],
        **{name: recorded(held[name]) for name in RECORD_TIMES},
        **found,
        "error": _dictionary(found["error"], words),
    }


def _with_cells(lines: Sequence[Row], cells: Sequence[Row]) -> list[Row]:
    """Lines with the recorded cell that they are of; of several runs under one number the last one."""
    numbers = {f"In[{row['execution_count']}]": at for at, row in enumerate(cells)
               if row.get("execution_count") is not None and row.get("source") is not None}
    timed = [(name, first) for name, at in numbers.items() for first in _timed(cells[at]["source"])]
    found: list[Row] = []
    for row in lines:
        if row["file"] in _TIMED and row.get("function") is None and len(timed) == 1:
            row = {**row, "file": timed[0][0], "line": row["line"] + timed[0][1]}
        elif row["file"] in numbers:
            row = {**row, "line": row["line"] + _empty_lines(cells[numbers[row["file"]]]["source"])}
        found.append({**row, "cell_id": numbers.get(row["file"])})
    return found


def _empty_lines(source: str) -> int:
    """How many empty lines stand first: IPython leaves them out when it counts lines."""
    lines = source.splitlines()
    return next((at for at, line in enumerate(lines) if line.strip()), len(lines))


#: What IPython calls the code that ``%time`` and ``%%time`` run.
_TIMED = ("<timed exec>", "<timed eval>")


def _timed(source: str) -> list[int]:
    """How many lines stand before each code of a cell that is timed."""
    lines = source.splitlines()
    found: list[int] = []
    for at, line in enumerate(lines):
        if line.startswith("%%time") and not line.startswith("%%timeit"):  # leading empty lines do not count
            found.append(next((after for after in range(at + 1, len(lines)) if lines[after].strip()), at + 1))
        elif re.match(r"\s*%time\s", line):
            found.append(at)
    return found


def _in_order(builds: Sequence[Row]) -> list[Row]:
    """Requests to build caches in order of their start."""
    order = sorted(range(len(builds)), key=lambda number: builds[number]["start_ns"])
    renumbered = {old: new for new, old in enumerate(order)}
    return [{**builds[old], "nearest_build_id": renumbered.get(builds[old].get("nearest_build_id", UNKNOWN))}
            for old in order]


def _add_cells(launches: dict[str, Any], compilations: list[Row], builds: list[Row], ranges: dict[str, Any],
               cells: Sequence[Row]) -> None:
    """Give launches, compiles, builds and ranges the cell that was running when they started."""
    for number, row in enumerate(cells):
        row["cell_id"] = number
    cell_of = cell_finder(cells)
    launches["cell_id"] = cell_of(launches["start_ns"], in_order=True)
    rows = [*compilations, *builds]
    times = np.array([row["start_ns"] for row in rows], dtype=np.int64)
    for row, cell in zip(rows, cell_of(times).tolist(), strict=True):
        row["cell_id"] = None if cell == UNKNOWN else cell
    # A start that is not known was before recording began.
    ranges["cell_id"] = cell_of(instants(ranges["start_ns"]))


def _collections(raw: RawRecording) -> Columns:
    """Garbage collections as columns of the schema, in order of start; none where they were not recorded."""
    if raw.collections is None:
        return {}
    held = raw.collections.rows[np.argsort(raw.collections.column("start_ns"), kind="stable")]
    columns = dict(zip(COLLECTION, held.T, strict=True))
    threads: dict[Any, int] = {row.get("ident"): number for number, row in reversed(list(enumerate(raw.threads)))}
    for ident in distinct(columns["ident"])[0]:
        if ident not in threads:
            threads[ident] = len(raw.threads)
            raw.threads.append({"ident": ident, "name": None})
    return {
        "collection_id": np.arange(len(held), dtype=np.int32),
        "cell_id": cell_finder(raw.cells)(columns["start_ns"], in_order=True),
        "thread_id": mapped(columns["ident"], threads),
        "start_ns": columns["start_ns"], "end_ns": np.maximum(columns["end_ns"], columns["start_ns"]),
        **{name: np.minimum(columns[name], MAX_COUNT) for name in COLLECTION[3:]},
    }


def _add_collections(launches: dict[str, Any], collections: Columns) -> None:
    """Give launches the time that they spent in garbage collections of their thread, which do not overlap."""
    ended = launches["end_ns"]
    spent: Any = np.broadcast_to(np.int64(0), len(ended))
    for thread in np.unique(collections["thread_id"]).tolist():
        mine = collections["thread_id"] == thread
        start, end = collections["start_ns"][mine], collections["end_ns"][mine]
        rows, begun = _rows_of(thread, launches)
        near = _near(begun, ended if isinstance(rows, range) else ended[rows], start, end)
        rows = near if isinstance(rows, range) else np.asarray(rows)[near]
        if len(rows):
            times = np.stack((launches["start_ns"][rows], ended[rows]))
            place = np.searchsorted(start, times, side="right")
            before = np.append(0, np.cumsum(end - start))[place]
            before -= np.where(place > 0, np.maximum(end[place - 1] - times, 0), 0)
            spent = spent.copy()
            spent[rows] = before[1] - before[0]
    returned = is_known(ended)
    launches["gc_ns"] = spent if returned.all() else np.where(returned, spent, UNKNOWN)


def _near(begun: np.ndarray, ended: np.ndarray, start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """The places of the launches, in order of begin, during which a collection may have run: most often few."""
    if (ended[1:] < ended[:-1]).any():  # some are inside others
        return np.arange(len(begun))
    first, last = np.searchsorted(ended, start, side="right"), np.searchsorted(begun, end)
    counts = np.maximum(last - first, 0)
    return np.unique(np.repeat(first - np.cumsum(counts) + counts, counts) + np.arange(counts.sum()))


def _add_launches(builds: list[Row], launches: dict[str, Any]) -> None:
    """Join each request to a build cache with the innermost launch that made it."""
    if builds:
        ends = otherwise(launches["end_ns"], FOREVER)
        calls = Spans(launches["thread_id"], launches["start_ns"], ends)
        launch = calls.around(np.array([row["thread_id"] for row in builds]),
                              np.array([row["start_ns"] for row in builds], np.int64))
        for row, number in zip(builds, launch.tolist(), strict=True):
            row["launch_id"] = None if number == UNKNOWN else number


def _add_tunings(launches: dict[str, Any], builds: list[Row]) -> None:
    """Join the launches of an autotuner's benchmarks, also those that a probe did not record, with the tuning run."""
    runs = [number for number, row in enumerate(builds) if row.get("dispatcher_id") is not None]
    if runs and len(launches["start_ns"]):
        thread, start, end = (np.array([builds[number][name] for number in runs], np.int64)
                              for name in ("thread_id", "start_ns", "end_ns"))
        found = Spans(thread, start, end).around(launches["thread_id"], launches["start_ns"])
        launches["build_id"] = np.append(runs, UNKNOWN)[found]


def _add_parents(launches: dict[str, Any]) -> None:
    """Find the launches that were made inside another launch of their thread, and which one that is."""
    start, end, thread = launches["start_ns"], _until(launches), launches["thread_id"]
    parents: np.ndarray | None = None
    for rows in _by_thread(thread):
        begun, ended = start[rows], end[rows]
        if (begun[1:] >= ended[:-1]).all() or (begun[1:] >= np.maximum.accumulate(ended)[:-1]).all():
            continue  # one after another: nothing is nested
        if parents is None:
            parents = np.full(len(start), UNKNOWN, np.int64)
        stack: list[int] = []
        for row in np.arange(len(start))[rows].tolist():
            while stack and end[stack[-1]] <= start[row]:
                stack.pop()
            if stack:
                parents[row] = stack[-1]
            stack.append(row)
    if parents is not None:
        launches["parent_launch_id"] = parents


def _by_thread(thread: np.ndarray) -> list[Any]:
    """The rows of each thread: their numbers, or a slice where one thread has all."""
    if len(thread) and thread.min() == thread.max():
        return [slice(None)]
    return [np.flatnonzero(thread == number) for number in np.flatnonzero(np.bincount(thread)).tolist()]


def _until(launches: Mapping[str, Any]) -> np.ndarray:
    """When launches ended: never, where their process died in them."""
    end, error = launches["end_ns"], launches["error"]
    words = error.dictionary.to_pylist()
    if UNFINISHED not in words:
        return end
    is_open = error.indices.fill_null(UNKNOWN).to_numpy() == words.index(UNFINISHED)
    return np.where(is_open, FOREVER, end)


def _add_compilations(launches: dict[str, Any], compilations: list[Row]) -> None:
    """Join each compile with the launch that asked for it, and derive where launches got their kernel from."""
    inside: dict[int, int] = {}
    joined: dict[int, int] = {}
    outcome: dict[int, int] = {}
    rows_of: dict[int, tuple[Sequence[int] | np.ndarray, np.ndarray]] = {}
    for number in {row["thread_id"] for row in compilations}:
        rows_of[number] = _rows_of(number, launches)
    for number, row in enumerate(compilations):
        if row.get("trigger") in ("launch", "device"):
            launch = _launch_around(launches, *rows_of[row["thread_id"]], row)
            if launch is not None:
                row["launch_id"] = launch
                joined[launch] = number
                code = _CACHES.index(row["outcome"]) if row["outcome"] in _CACHES else UNKNOWN
                outcome[launch] = max(outcome.get(launch, 0), code)
                inside.setdefault(launch, 0)
                if row["trigger"] == "launch":  # a device's code is made in prepare, not in dispatch
                    inside[launch] += row_duration_ns({"end_ns": None, **row}) or 0
    memory = launches["cache"]  # 0 where a launch without a compile has found its kernel in memory, else unknown
    launches["compile_ns"] = _with(memory, inside, np.int64)
    launches["compilation_id"] = _with(none(len(memory)), joined)
    launches["cache"] = _dictionary(_with(memory, {launch: code if memory[launch] != UNKNOWN else UNKNOWN
                                                   for launch, code in outcome.items()}), _CACHES)


def _rows_of(thread: int, launches: Mapping[str, Any]) -> tuple[Sequence[int] | np.ndarray, np.ndarray]:
    """The rows of a thread, and when they began."""
    threads, starts = launches["thread_id"], launches["start_ns"]
    if len(threads) and threads.min() == threads.max() == thread:
        return range(len(threads)), starts
    rows = np.flatnonzero(threads == thread)
    return rows, starts[rows]


def _with(values: np.ndarray, others: Mapping[int, int], dtype: Any = np.int32) -> np.ndarray:
    """The values with others in the place of some; those that are all of one value stay so."""
    if not others:
        return values
    found = values.astype(dtype)
    found[list(others)] = list(others.values())
    return found


#: In order of what a launch with several of them counts as.
_CACHES = ["memory", "wait", "disk", "compiled"]


def _launch_around(launches: Mapping[str, Any], rows: Sequence[int] | np.ndarray, starts: np.ndarray,
                   compilation: Row) -> int | None:
    """The innermost launch among `rows` (of one thread, by start) that a compile happened in."""
    end = launches["end_ns"]
    first, last = compilation["start_ns"], compilation.get("end_ns")
    position = int(np.searchsorted(starts, first, side="right")) - 1
    while position >= 0:
        row = int(rows[position])
        if instant_or_none(end[row]) is None or end[row] >= (first if last is None else last):
            return row
        if "parent_launch_id" not in launches or launches["parent_launch_id"][row] == UNKNOWN:
            return None
        position -= 1
    return None


def _coded(words: Sequence[str | None]) -> tuple[list[str], np.ndarray]:
    """The distinct words in order, and each one's place among them, -1 of None."""
    distinct = sorted({word for word in words if word is not None})
    position = {word: number for number, word in enumerate(distinct)}
    return distinct, np.array([UNKNOWN if word is None else position[word] for word in words], np.int32)


def _dictionary(codes: np.ndarray, words: Sequence[str]) -> pa.Array:
    """A category column from codes into `words`; a code of -1 is null."""
    return pa.DictionaryArray.from_arrays(integer_array(codes, pa.int32()), pa.array(words, pa.string()), safe=False)
