"""Makes a recording of the columns of another tool's trace, by the same joins as a recording of our own."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa

from kernelscope.errors import RecordingFileError
from kernelscope.recording.api import is_graph_launch, wait_of
from kernelscope.recording.build import RawRecording, build, process_row
from kernelscope.recording.columns import THREAD_BITS, Columns, Row
from kernelscope.recording.integrity import check_tables
from kernelscope.recording.joins import ACTIVITY_COLUMNS, CALL_COLUMNS, KINDS, RawActivities, selected
from kernelscope.recording.model import Recording
from kernelscope.recording.parquet import integer_array, make_table, table_of_rows
from kernelscope.recording.ranges import RawRanges, nested_events
from kernelscope.registry import importers
from kernelscope.schema import MAX_COUNT, MAX_HANDLE, MAX_TIME_NS, SCHEMA_VERSION, UNKNOWN
from kernelscope.units import counted, listed

KERNEL, MEMCPY, MEMSET, SYNC, GRAPH = range(len(KINDS))
#: Of one activity, beside `ACTIVITY_COLUMNS`: what of a kernel's specialization a trace may know.
RESOURCES = {"static": "static_shared_bytes", "local": "local_bytes"}
#: Of one range or mark: `MARK`, `PUSH_POP` or `START_END`; the thread's ident, a place in the labels, times.
RANGE_COLUMNS = ("kind", "ident", "label", "start_ns", "end_ns")
PUSH_POP, START_END, MARK = range(3)
#: Texts are cut at so many letters: longer ones name nothing.
MOST_LETTERS = 1 << 16
#: What is listed of what was skipped.
_LISTED = 8
#: What is listed of a file's own names in a message.
_QUOTED = 4
#: How much of another's message is quoted.
_MOST_QUOTED = 200
_SURROGATES = re.compile("[\ud800-\udfff]")
#: The least and the most that numbers of a trace may be.
_LIMITS = {
    **dict.fromkeys(("start_ns", "end_ns"), (-MAX_TIME_NS, MAX_TIME_NS)),
    **dict.fromkeys(("correlation_id", "cupti_graph_id", "cupti_node_id", "stream"), (UNKNOWN, MAX_HANDLE)),
    **dict.fromkeys(("device", "regs", "result"), (UNKNOWN, MAX_COUNT)),
    **dict.fromkeys(("size_bytes", "static", "local"), (UNKNOWN, MAX_TIME_NS)),
}


@dataclass
class Trace:
    """What a trace says, before it is a recording; all columns are of int64, and -1 is unknown.

    Each row of a column says its ``process``, a place in `processes`.

    Attributes
    ----------
    probe : str
        Who wrote it, as a word of ``health``: one of the `kernelscope.registry.Importer.producers`.
    form : str
        The format, for people.
    version : str or None
        The producer's.
    processes : list of dict
        What is known of each process: columns of ``processes``.
    activities : dict of str to ndarray
        `ACTIVITY_COLUMNS` and `RESOURCES`; those that a format never has may be missing.
    calls : dict of str to ndarray
        `CALL_COLUMNS`; likewise. A thread's ident is the system's number of it.
    ranges : dict of str to ndarray
        `RANGE_COLUMNS`; likewise.
    labels : list of dict
        What a range's ``label`` stands for, as in `kernelscope.recording.ranges.RawRanges`.
    threads : dict of (int, int) to str
        Names of threads by process and ident, of those that have one.
    devices : dict of (int or None, int) to dict
        Rows of ``devices`` by process, None for all of them, and ordinal.
    operators : list of (int, dict)
        PyTorch's operators by thread, as in ``RawRecording.rows["operators"]``, and their process.
    are_graphs_nameless : bool
        Whether activities may not say which executable graph they are part of.
    names, entries : list of str
        What ``name``, ``memory`` and ``entry`` stand for.
    shapes : list of tuple
        Launch configurations: see `RawActivities`.
    wall_ns : int or None
        The wall clock at time 0.
    skipped : Counter
        How many events of each kind are not in the recording, of those that are none of its business.
    problems : list of str
        What is missing although it is its business.
    others : Counter
        How many events of each kind are in the recording, of those that say nothing of a GPU.
    hint : str
        What the file needs to have to be a recording, and how to make one that has it.
    metadata : dict
        Further metadata.
    """

    probe: str
    form: str
    version: str | None = None
    processes: list[Row] = field(default_factory=list)
    activities: Columns = field(default_factory=dict)
    calls: Columns = field(default_factory=dict)
    ranges: Columns = field(default_factory=dict)
    labels: list[Row] = field(default_factory=list)
    threads: dict[tuple[int, int], str] = field(default_factory=dict)
    devices: dict[tuple[int | None, int], Row] = field(default_factory=dict)
    operators: list[tuple[int, Row]] = field(default_factory=list)
    are_graphs_nameless: bool = False
    names: list[str] = field(default_factory=list)
    entries: list[str] = field(default_factory=list)
    shapes: list[tuple[int | None, ...]] = field(default_factory=list)
    wall_ns: int | None = None
    skipped: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    others: Counter[str] = field(default_factory=Counter)
    hint: str = ""
    metadata: Row = field(default_factory=dict)

    @property
    def producer(self) -> str:
        """Return what people call who wrote it."""
        return next(importer.producers[self.probe] for importer in importers() if self.probe in importer.producers)


class Interned:
    """Gives texts, or other values, numbers: their indices in a list."""

    def __init__(self, values: list[Any]) -> None:
        self.values = values
        self._index: dict[Any, int] = {value: index for index, value in enumerate(values)}

    def intern(self, value: Any) -> int:
        """Return the index of a value, which is added where it is new."""
        index = self._index.get(value)
        if index is None:
            index = self._index[value] = len(self.values)
            self.values.append(value)
        return index


def clean_text(value: str) -> str:
    """Return a text of a trace as one that can be written: without halves of letters, and not endless."""
    return _SURROGATES.sub("\ufffd", value[:MOST_LETTERS])


def one_line(error: Exception) -> str:
    """Return what an exception says of a file, of which it may quote anything, for a message."""
    return printable(str(error))[:_MOST_QUOTED]


def printable(text: str) -> str:
    """Return a text of a file, which may be anything, for a message of one line."""
    return "".join(letter if letter.isprintable() else "?" for letter in " ".join(text.split()))


def check_numbers(what: str, columns: Mapping[str, np.ndarray]) -> None:
    """Raise `RecordingFileError` where a number of `what` is none that can be."""
    for name, (low, high) in _LIMITS.items():
        values = columns.get(name)
        if values is not None and len(values) and (values.min() < low or values.max() > high):
            row = int(np.flatnonzero((values < low) | (values > high))[0])
            raise RecordingFileError(f"{what} {row} has {name} {values[row]}, which is not between {low} and {high}: "
                                     "the file is damaged, or was made to harm")


def recording_of(trace: Trace, file: str) -> Recording:
    """Return the recording that a trace makes.

    Parameters
    ----------
    trace : Trace
        What was read; its columns are used up.
    file : str
        The file's name, for messages and as the recording's.

    Raises
    ------
    RecordingFileError
        The trace says nothing of a GPU, or what it says cannot be.
    """
    if not _count(trace.activities) + _count(trace.calls):
        counts = trace.others + trace.skipped
        others = listed([f"{count:,} {printable(name)}" for name, count in counts.most_common(_QUOTED)], _QUOTED,
                        more=len(counts) - _QUOTED)
        raise RecordingFileError(f"is a trace of {trace.producer}, and says nothing of a GPU: no kernel, copy or call "
                                 f"of CUDA or HIP, but {others or 'no events'}; {trace.hint}")
    for what, columns in (("activity", trace.activities), ("call", trace.calls), ("range", trace.ranges)):
        check_numbers(what, columns)
    raw, ids = _raw(trace)
    raw.metadata = _metadata(trace, file, ids.shift)
    recording = _with_processes(_with_resources(build(raw), trace.activities), ids, trace.processes)
    health = table_of_rows("health", [*recording.rows("health"), *_health(trace, file)])
    imported = Recording({**recording.tables, "health": health}, recording.metadata)
    check_tables(imported.tables)
    return imported


def _count(columns: Mapping[str, np.ndarray]) -> int:
    return len(next(iter(columns.values()), ()))


# Numbers that mean something in their process only (threads, devices, correlation ids, executable graphs) become
# numbers of the whole trace, so that one recording is built of all processes at once; then they are what they were.

@dataclass
class _Ids:
    """What the numbers of the whole trace stand for.

    Attributes
    ----------
    shift : int
        What was added to all times so that none is below 0, where -1 would mean that it is not known.
    first : ndarray of int64
        When each process began, on that clock.
    activities : ndarray of int64
        The process of each activity, in order of their start.
    threads : list of (int, int)
        The process and the ident of each thread.
    devices : list of int
        Ordinals.
    correlation, graph : ndarray of int64
        Correlation ids, and ids of executable graphs; the last is -1, for none.
    """

    shift: int
    first: np.ndarray
    activities: np.ndarray
    threads: list[tuple[int, int]] = field(default_factory=list)
    devices: list[int] = field(default_factory=list)
    correlation: np.ndarray = field(default_factory=lambda: np.array([UNKNOWN]))
    graph: np.ndarray = field(default_factory=lambda: np.array([UNKNOWN]))


def _raw(trace: Trace) -> tuple[RawRecording, _Ids]:
    """What a recording is built of; activities are put in the order of their start, in which they stay."""
    ids = _in_order(trace)
    activities, calls = ({name: columns.get(name, np.broadcast_to(np.int64(UNKNOWN), _count(columns)))
                          for name in (*names, "process")}
                         for columns, names in ((trace.activities, ACTIVITY_COLUMNS), (trace.calls, CALL_COLUMNS)))
    if (activities["name"] == UNKNOWN).any():
        trace.names.append("?")
        activities["name"] = np.where(activities["name"] == UNKNOWN, len(trace.names) - 1, activities["name"])
    ids.correlation = _number_correlations(activities, calls)
    if trace.are_graphs_nameless and number_graphs(activities, calls, trace.names):
        trace.problems.append("CUDA graphs have no names in such a trace: they are told apart by what they ran")
    activities["cupti_graph_id"], ids.graph = _numbered(activities["process"], activities["cupti_graph_id"])
    threads = _number_threads(trace, calls, ids)
    raw = RawRecording(threads=threads)
    raw.devices = _number_devices(trace, activities, ids)
    del activities["process"], calls["process"]
    raw.activities = RawActivities(activities, calls, trace.names, trace.entries, trace.shapes)
    raw.ranges = _ranges(trace)
    row_of = {(process, ident & THREAD_BITS): row for row, (process, ident) in enumerate(ids.threads)}
    raw.rows["operators"] = [
        {**row, "ident": row_of[process, row["ident"] & THREAD_BITS],
         "events": row["events"] + np.array([ids.shift, 0])}
        for process, row in trace.operators if (process, row["ident"] & THREAD_BITS) in row_of]
    return raw, ids


def _in_order(trace: Trace) -> _Ids:
    """Put activities in the order of their start, and add to all times what makes none of them negative."""
    if _count(trace.activities):
        order = np.argsort(trace.activities["start_ns"], kind="stable")
        trace.activities = {name: values[order] for name, values in trace.activities.items()}
    never = np.iinfo(np.int64).max
    first = np.full(len(trace.processes), never)
    tables = [columns for columns in (trace.activities, trace.calls, trace.ranges) if _count(columns)]
    for columns in tables:
        np.minimum.at(first, columns["process"], columns["start_ns"])
    shift = max(0, -int(first.min()))
    for columns in tables if shift else ():
        for name in ("start_ns", "end_ns"):
            columns[name] = np.where(columns[name] == UNKNOWN, UNKNOWN, columns[name] + shift)
    return _Ids(shift, np.where(first == never, 0, first) + shift,
                trace.activities.get("process", np.empty(0, np.int64)))


def _numbered(process: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Numbers from 0 on for values that are each one process's, -1 for unknown ones; and what they stand for."""
    rows = selected(values != UNKNOWN)
    distinct, number = _coded(values[rows])
    of = process[rows]
    if len(of) and (of != of[0]).any():
        codes, number = _coded(of * len(distinct) + number)
        distinct = distinct[codes % len(distinct)]
    numbers = np.full(len(values), UNKNOWN)
    numbers[rows] = number
    return numbers, np.append(distinct, UNKNOWN)


def _coded(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct values in the order in which they come, and the index of each value among them."""
    encoded = pa.array(values, pa.int64()).dictionary_encode()
    return encoded.dictionary.to_numpy(), encoded.indices.to_numpy().astype(np.int64)


def _number_correlations(activities: Columns, calls: Columns) -> np.ndarray:
    """Number the correlation ids of all processes; return what the numbers stand for.

    Each call of an unknown id gets a number of its own. 0 stays 0 where it is no call's: so does CUPTI call what ran in
    the bodies of conditional nodes.
    """
    count = _count(calls)
    process = np.concatenate((calls["process"], activities["process"]))
    number, ids_of_numbers = _numbered(process, np.concatenate((calls["correlation_id"], activities["correlation_id"])))
    number = np.where(number == UNKNOWN, UNKNOWN, number + 1)
    of_calls, of_activities = number[:count], number[count:]
    missing = np.flatnonzero(of_calls == UNKNOWN)
    of_calls[missing] = len(ids_of_numbers) + np.arange(len(missing))
    nobody = np.flatnonzero(activities["correlation_id"] == 0)
    of_activities[nobody[~np.isin(of_activities[nobody], of_calls)]] = 0
    calls["correlation_id"], activities["correlation_id"] = of_calls, of_activities
    return np.concatenate(([0], ids_of_numbers, np.full(len(missing), UNKNOWN)))


def _number_threads(trace: Trace, calls: Columns, ids: _Ids) -> list[Row]:
    """Number the threads of calls and ranges, which get the numbers as idents; return the rows of ``threads``."""
    tables = [columns for columns in (calls, trace.ranges) if _count(columns)]
    if not tables:
        return []
    process, ident = (np.concatenate([columns[name] for columns in tables]) for name in ("process", "ident"))
    keys, which = _coded(process * (THREAD_BITS + 1) + (ident & THREAD_BITS))
    order = np.argsort(keys)
    rank = np.empty(len(keys), np.int64)
    rank[order] = np.arange(len(keys))
    which = rank[which]
    whole = np.empty(len(keys), np.int64)
    whole[which[::-1]] = ident[::-1]  # of several assignments to one place NumPy keeps the last
    ids.threads = list(zip((keys[order] // (THREAD_BITS + 1)).tolist(), whole.tolist(), strict=True))
    split = np.split(which, np.cumsum([_count(columns) for columns in tables])[:-1])
    for columns, numbers in zip(tables, split, strict=True):
        columns["ident"] = numbers
    return [{"ident": row, "name": trace.threads.get(key), "process_id": key[0]} for row, key in enumerate(ids.threads)]


def _number_devices(trace: Trace, activities: Columns, ids: _Ids) -> list[Row]:
    """Number the devices of activities: the same GPU may have another ordinal in another process."""
    number, ordinals = _numbered(activities["process"], activities["device"])
    owner = np.full(len(ordinals) - 1, UNKNOWN)
    owner[number[number != UNKNOWN]] = activities["process"][number != UNKNOWN]
    rows: list[Row] = []
    device_ids: dict[Any, int] = {}
    new: list[int] = []
    seen: Counter[Any] = Counter()
    order = np.lexsort((ordinals[:-1], owner))
    for process, ordinal in zip(owner[order].tolist(), ordinals[order].tolist(), strict=True):
        row = trace.devices.get((process, ordinal), trace.devices.get((None, ordinal), {}))
        key: Any = row.get("uuid")
        if key is not None:  # one process keeps apart what it has two numbers for
            seen[process, key] += 1
            key = key, seen[process, key]
        device_id = device_ids.setdefault(ordinal if key is None else key, len(rows))
        if device_id == len(rows):
            rows.append({**row, "ordinal": device_id})
            ids.devices.append(ordinal)
        new.append(device_id)
    device_id_of = np.full(len(ordinals), UNKNOWN)
    device_id_of[order] = new
    activities["device"] = device_id_of[number]
    return rows


def _ranges(trace: Trace) -> RawRanges:
    columns = trace.ranges
    if not _count(columns):
        return RawRanges()
    rows, which = np.unique(columns["ident"], return_inverse=True)
    site = which.reshape(-1)
    sites: list[Row] = [{"thread_id": row, "line_id": UNKNOWN, "stack_id": UNKNOWN} for row in rows.tolist()]
    domains: dict[str | None, int] = {}
    domain = np.array([domains.setdefault(label["domain"], len(domains)) for label in trace.labels])
    kind, label = columns["kind"], columns["label"]
    events, crossing = nested_events(kind == PUSH_POP, kind == MARK, columns["start_ns"], columns["end_ns"],
                                     site * max(len(domains), 1) + domain[label], label, site)
    if crossing:
        trace.problems.append(f"{counted(crossing, 'range')} of a thread that overlap others without being inside of "
                              "them are taken as start/end ranges")
    return RawRanges(events, trace.labels, 0, sites)


def _with_processes(recording: Recording, ids: _Ids, facts: Sequence[Row]) -> Recording:
    """The recording with what its numbers stand for, and with its processes."""
    tables = dict(recording.tables)

    def change(table: str, column: str, values: np.ndarray) -> None:
        index = tables[table].schema.get_field_index(column)
        field_type = tables[table].schema.field(index)
        tables[table] = tables[table].set_column(index, field_type, integer_array(values, field_type.type))

    of_thread, idents = np.array([*ids.threads, (UNKNOWN, UNKNOWN)], np.int64).T
    launch_of = of_thread[recording.column("launches", "thread_id")]
    for table in ("activities", "launches", "api_calls", "graph_events"):
        change(table, "correlation_id", ids.correlation[recording.column(table, "correlation_id")])
    change("activities", "cupti_graph_id", ids.graph[recording.column("activities", "cupti_graph_id")])
    change("activities", "process_id", ids.activities)
    change("threads", "process_id", of_thread[:-1])
    change("threads", "ident", idents[:-1])
    change("devices", "ordinal", np.array(ids.devices, np.int64))
    of_operator = np.full(tables["operators"].num_rows + 1, UNKNOWN)
    for owner, table in ((launch_of, "launches"), (ids.activities, "activities")):
        of_operator[recording.column(table, "operator_id")] = owner
    change("operators", "process_id", of_operator[:-1])
    executable, thread = (recording.column("graph_events", name) for name in ("exec_id", "thread_id"))
    of_event = of_thread[thread]
    launched = np.flatnonzero((of_event != UNKNOWN) & (executable != UNKNOWN))
    of_event[executable[launched]] = of_event[launched]  # what made a graph is of the process that launched it
    change("graph_events", "process_id", of_event)
    size = len(facts)
    until, width, used = np.full(size, UNKNOWN), tables["devices"].num_rows + 1, np.empty(0, np.int64)
    for owner, table in ((launch_of, "launches"), (ids.activities, "activities")):
        np.maximum.at(until, owner, recording.column(table, "end_ns"))
        used = np.union1d(used, _coded(owner * width + recording.column(table, "device_id") + 1)[0])
    process, device = used[used % width > 0] // width, used[used % width > 0] % width - 1
    only = np.bincount(process, minlength=size) == 1
    gpus = dict(zip(process[only[process]].tolist(), device[only[process]].tolist(), strict=True))
    uuids: list[str | None] = tables["devices"].column("uuid").to_pylist()
    tables["processes"] = table_of_rows("processes", [{
        **process_row({"start_ns": begun, **metadata}), "process_id": process_id,
        "end_ns": None if end == UNKNOWN else end, "gpu_uuid": uuids[gpus[process_id]] if process_id in gpus else None}
        for process_id, (metadata, begun, end) in enumerate(
            zip(facts, ids.first.tolist(), until.tolist(), strict=True))])
    return Recording(tables, recording.metadata)


def _with_resources(recording: Recording, activities: Columns) -> Recording:
    """The recording with what the trace says of kernels' memory, where all of a specialization's kernels agree."""
    resources = {column: activities[name] for name, column in RESOURCES.items() if name in activities}
    count = recording.arrow("specializations").num_rows
    if not resources or not count:
        return recording
    rows = recording.arrow("specializations").to_pydict()
    of = recording.column("activities", "specialization_id")
    for column, values in resources.items():
        mine = np.flatnonzero((of != UNKNOWN) & (values != UNKNOWN))
        least, most = np.full(count, np.iinfo(np.int64).max), np.full(count, UNKNOWN)
        np.minimum.at(least, of[mine], values[mine])
        np.maximum.at(most, of[mine], values[mine])
        rows[column] = np.where(least == most, most, UNKNOWN)
    return Recording({**recording.tables, "specializations": make_table("specializations", rows)}, recording.metadata)


def waits(calls: Columns, names: list[str]) -> Columns:
    """Return the waits for the GPU as activities, of a trace that has them as calls only; they may be none."""
    words = Interned(names)
    kinds = np.array([words.intern(wait) if (wait := wait_of(name)) else UNKNOWN for name in list(names)])
    if not _count(calls) or (kinds == UNKNOWN).all():
        return {}
    name = kinds[calls["name"]]
    rows = np.flatnonzero(name != UNKNOWN)
    return {"kind": np.full(len(rows), SYNC), "name": name[rows], **{
        column: calls[column][rows] for column in ("start_ns", "end_ns", "correlation_id", "process")
        if column in calls}}


def joined(parts: Sequence[Columns], names: Iterable[str]) -> Columns:
    """Return columns one after the other; what one part lacks is unknown in it."""
    parts = [columns for columns in parts if _count(columns)]
    return {name: np.concatenate([columns[name] if name in columns else np.full(_count(columns), UNKNOWN)
                                  for columns in parts])
            for name in names if any(name in columns for columns in parts)}


def number_graphs(activities: Columns, calls: Columns, names: Sequence[str]) -> bool:
    """Number the executable graphs of each process that a trace does not name, by what they ran.

    That is all that is known of them. What one call launched has its correlation id, and is of the graph that any of it
    names. Return whether there are any without a name.
    """
    launches = np.array([is_graph_launch(name) for name in names], bool)
    if not _count(calls) or not _count(activities) or not launches.any():
        return False
    ids = calls["correlation_id"][launches[calls["name"]]]
    rows = np.flatnonzero(np.isin(activities["correlation_id"], ids[ids != UNKNOWN]))
    if not len(rows):
        return False
    parts = [activities[name][rows] for name in ("correlation_id", "process", "kind", "name", "shape")]
    order = np.lexsort(parts[::-1])
    rows, columns = rows[order], np.stack([values[order] for values in parts])
    first = np.flatnonzero(np.diff(columns[0], prepend=columns[0][0] - 1))
    numbers = np.maximum.reduceat(activities["cupti_graph_id"][rows], first).tolist()
    graphs: dict[bytes, int] = {}
    often: Counter[int] = Counter()
    named = max(0, *numbers)
    for index, (begin, end) in enumerate(zip(first.tolist(), [*first[1:].tolist(), len(rows)], strict=True)):
        if numbers[index] == UNKNOWN:
            ran, process = columns[1:, begin:end].tobytes(), int(columns[1, begin])
            if ran not in graphs:
                often[process] += 1
                graphs[ran] = named + often[process]
            numbers[index] = graphs[ran]
    activities["cupti_graph_id"] = np.array(activities["cupti_graph_id"])
    activities["cupti_graph_id"][rows] = np.repeat(numbers, np.diff(np.append(first, len(rows))))
    return bool(graphs)


def in_time(columns: Columns, what: tuple[str, str], problems: list[str]) -> Columns:
    """Return the rows that have a start and do not end before it, and say how many others there are, called `what`."""
    if not _count(columns):
        return columns
    start, end = columns["start_ns"], columns["end_ns"]
    wrong = (start == UNKNOWN) | ((end != UNKNOWN) & (end < start))
    if not wrong.any():
        return columns
    problems.append(f"left out: {counted(int(wrong.sum()), *what)} without a start, or with an end before it")
    return {name: values[~wrong] for name, values in columns.items()}


def _metadata(trace: Trace, file: str, shift: int) -> Row:
    suffixes = "|".join(re.escape(suffix) for importer in importers() for suffix in importer.suffixes)
    metadata: Row = {
        "name": re.sub(rf"(\.({suffixes}))+$", "", file) or file,
        "schema_version": SCHEMA_VERSION, "detail": "launch", "simulator": False, "dry_run": False, "probes": [],
        "gpu": {"source": "cupti"},
        "imported": {"from": trace.producer, "format": trace.form, "version": trace.version,
                     "skipped": dict(trace.skipped)},
        **trace.metadata,
    }
    if trace.wall_ns is not None and 0 < trace.wall_ns < MAX_TIME_NS:
        metadata["clock"] = {"host_ns": shift, "wall_ns": trace.wall_ns}
        metadata["created"] = datetime.fromtimestamp(trace.wall_ns / 1e9, UTC).isoformat(timespec="seconds")
    return metadata


def _health(trace: Trace, file: str) -> list[Row]:
    version = f" {trace.version}" if trace.version else ""
    rows: list[Row] = [{
        "probe": trace.probe, "status": "ok",
        "message": f"opened from {file}, {trace.form} of {trace.producer}{version}: what it does not say is null; "
                   "compiles, caches and Python lines are not in such a file"}]
    if trace.skipped:
        most = [f"{count:,} {name}" for name, count in trace.skipped.most_common(_LISTED)]
        rows.append({"probe": trace.probe, "status": "ok", "message": "left out: " + listed(
            most, _LISTED, more=len(trace.skipped) - len(most))})
    rows += [{"probe": trace.probe, "status": "degraded", "message": problem}
             for problem in dict.fromkeys(trace.problems)]
    return rows
