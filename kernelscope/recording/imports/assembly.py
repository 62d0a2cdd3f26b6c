"""From the columns of a foreign trace to a recording: the joins are those of a recording of our own."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import numpy as np

from kernelscope.errors import RecordingFileError
from kernelscope.recording.api import is_graph_launch, wait_of
from kernelscope.recording.build import RawRecording, build
from kernelscope.recording.columns import THREAD_BITS, Columns, Row
from kernelscope.recording.integrity import check_tables
from kernelscope.recording.joins import ACTIVITY_COLUMNS, CALL_COLUMNS, KINDS, RawActivities
from kernelscope.recording.merge import merge
from kernelscope.recording.model import Recording
from kernelscope.recording.operators import RawOperators, ThreadOperators
from kernelscope.recording.parquet import make_table, table_of_rows
from kernelscope.recording.ranges import RawRanges, nested_events
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
class Process:
    """What a trace says of one process; all columns are of int64, and -1 is unknown.

    Attributes
    ----------
    facts : dict
        Columns of ``processes``.
    activities : dict of str to ndarray
        `ACTIVITY_COLUMNS` and `RESOURCES`; those that a format never has may be missing.
    calls : dict of str to ndarray
        `CALL_COLUMNS`; likewise. A thread's ident is the system's number of it.
    ranges : dict of str to ndarray
        `RANGE_COLUMNS`; likewise.
    labels : list of dict
        What a range's ``label`` stands for, as in `kernelscope.recording.ranges.RawRanges`.
    threads : dict of int to (str or None)
        Names of threads by ident.
    devices : dict of int to dict
        Rows of ``devices`` by ordinal.
    operators : list of ThreadOperators
        PyTorch's operators.
    """

    facts: Row = field(default_factory=dict)
    activities: Columns = field(default_factory=dict)
    calls: Columns = field(default_factory=dict)
    ranges: Columns = field(default_factory=dict)
    labels: list[Row] = field(default_factory=list)
    threads: dict[int, str | None] = field(default_factory=dict)
    devices: dict[int, Row] = field(default_factory=dict)
    operators: list[ThreadOperators] = field(default_factory=list)


@dataclass
class Trace:
    """What a trace says, before it is a recording.

    Attributes
    ----------
    probe : str
        Who wrote it, as a word of ``health``: nsys, torch.profiler, xla or chrome.
    producer, form : str
        The same for people, and the format.
    version : str or None
        The producer's.
    processes : list of Process
        All processes.
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
    producer: str
    form: str
    version: str | None = None
    processes: list[Process] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    entries: list[str] = field(default_factory=list)
    shapes: list[tuple[int | None, ...]] = field(default_factory=list)
    wall_ns: int | None = None
    skipped: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    others: Counter[str] = field(default_factory=Counter)
    hint: str = ""
    metadata: Row = field(default_factory=dict)


class Places:
    """Gives texts, or other values, their places in a list."""

    def __init__(self, held: list[Any]) -> None:
        self.held = held
        self._places: dict[Any, int] = {each: at for at, each in enumerate(held)}

    def place(self, value: Any) -> int:
        """Return the place of a value, which is added where it is new."""
        at = self._places.get(value)
        if at is None:
            at = self._places[value] = len(self.held)
            self.held.append(value)
        return at


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
    kept = [each for each in trace.processes if any(len(next(iter(columns.values()), ())) for columns in (
        each.activities, each.calls, each.ranges))]
    if not any(_count(each.activities) + _count(each.calls) for each in kept):
        counts = trace.others + trace.skipped
        others = listed([f"{count:,} {printable(name)}" for name, count in counts.most_common(_QUOTED)], _QUOTED,
                        more=len(counts) - _QUOTED)
        raise RecordingFileError(f"is a trace of {trace.producer}, and says nothing of a GPU: no kernel, copy or call "
                                 f"of CUDA or HIP, but {others or 'no events'}; {trace.hint}")
    made: list[Recording] = []
    shift = _origin(kept)
    for process in kept:
        _check(process)
        raw = _raw(trace, process, shift)
        raw.metadata = _metadata(trace, file, shift) | {"process": {
            "start_ns": _first(process), **process.facts}}
        static = {name: process.activities.get(name) for name in RESOURCES}
        made.append(_with_resources(build(raw), static))
    recording = made[0] if len(made) == 1 else merge(made)
    metadata = {name: value for name, value in recording.metadata.items() if name not in ("merged", "process")}
    if "clock" in metadata:
        metadata["clock"] = {name: value for name, value in metadata["clock"].items() if name != "boot"}
    health = table_of_rows("health", [*recording.rows("health"), *_health(trace, file)])
    found = Recording({**recording.tables, "health": health}, metadata)
    check_tables(found.tables)
    return found


def _count(columns: Mapping[str, np.ndarray]) -> int:
    return len(next(iter(columns.values()), ()))


def _times(process: Process) -> Iterable[np.ndarray]:
    for columns in (process.activities, process.calls, process.ranges):
        if "start_ns" in columns and len(columns["start_ns"]):
            yield columns["start_ns"]


def _first(process: Process) -> int:
    return min((int(each.min()) for each in _times(process)), default=0)


def _origin(processes: Sequence[Process]) -> int:
    """What is added to all times so that none is below 0, where -1 would mean that it is not known."""
    return max(0, -min(_first(each) for each in processes))


def _check(process: Process) -> None:
    for what, columns in (("activity", process.activities), ("call", process.calls), ("range", process.ranges)):
        check_numbers(what, columns)


def _raw(trace: Trace, process: Process, shift: int) -> RawRecording:
    _in_order(process)
    count = _count(process.activities)
    activities = {name: process.activities.get(name, np.broadcast_to(np.int64(UNKNOWN), count))
                  for name in ACTIVITY_COLUMNS}
    calls = {name: process.calls.get(name, np.broadcast_to(np.int64(UNKNOWN), _count(process.calls)))
             for name in CALL_COLUMNS}
    if (activities["name"] == UNKNOWN).any():
        trace.names.append("?")
        activities["name"] = np.where(activities["name"] == UNKNOWN, len(trace.names) - 1, activities["name"])
    if shift:
        for columns in (activities, calls, process.ranges):
            for name in ("start_ns", "end_ns"):
                if name in columns:
                    columns[name] = np.where(columns[name] == UNKNOWN, UNKNOWN, columns[name] + shift)
        process.operators = [ThreadOperators(each.ident, each.nodes, each.events + np.array([shift, 0]))
                             for each in process.operators]
    has_correlation = not (calls["correlation_id"] == UNKNOWN).any()
    if not has_correlation:  # calls of an unknown id are not one another's
        missing = np.flatnonzero(calls["correlation_id"] == UNKNOWN)
        calls["correlation_id"] = np.array(calls["correlation_id"])
        calls["correlation_id"][missing] = UNKNOWN - 1 - np.arange(len(missing))
    threads: list[Row] = [{"ident": ident, "name": name} for ident, name in process.threads.items()]
    raw = RawRecording(threads=threads)
    raw.activities = RawActivities(activities, calls, trace.names, trace.entries, trace.shapes,
                                   has_correlation=has_correlation)
    raw.ranges = _ranges(process, threads, trace.problems)
    raw.operators = RawOperators(process.operators)
    used = {int(each) for each in np.unique(activities["device"])} - {UNKNOWN}
    raw.devices = [{**row, "ordinal": ordinal} for ordinal, row in process.devices.items() if ordinal in used]
    return raw


def _in_order(process: Process) -> None:
    """Put activities in the order of their start, in which they stay."""
    if _count(process.activities):
        order = np.argsort(process.activities["start_ns"], kind="stable")
        process.activities = {name: values[order] for name, values in process.activities.items()}


def _ranges(process: Process, threads: list[Row], problems: list[str]) -> RawRanges:
    held = process.ranges
    if not _count(held):
        return RawRanges()
    places = {row["ident"] & THREAD_BITS: at for at, row in reversed(list(enumerate(threads)))}
    idents, which = np.unique(held["ident"], return_inverse=True)
    rows: list[int] = []
    for ident in idents.tolist():
        at = places.get(ident & THREAD_BITS)
        if at is None:
            at = places[ident & THREAD_BITS] = len(threads)
            threads.append({"ident": ident, "name": None})
        rows.append(at)
    site = which.ravel()
    sites: list[Row] = [{"thread_id": row, "line_id": UNKNOWN, "stack_id": UNKNOWN} for row in rows]
    domains: dict[str | None, int] = {}
    domain = np.array([domains.setdefault(each["domain"], len(domains)) for each in process.labels])
    events, crossing = nested_events(held["kind"] == PUSH_POP, held["kind"] == MARK, held["start_ns"], held["end_ns"],
                                     site * max(len(domains), 1) + domain[held["label"]], held["label"], site)
    if crossing:
        problems.append(f"{counted(crossing, 'range')} of a thread that overlap others without being inside of them "
                        "are taken as start/end ranges")
    return RawRanges(events, process.labels, 0, sites)


def _with_resources(recording: Recording, held: Mapping[str, np.ndarray | None]) -> Recording:
    """The recording with what the trace says of kernels' memory, where all of a specialization's kernels agree."""
    known = {RESOURCES[name]: values for name, values in held.items() if values is not None}
    count = recording.arrow("specializations").num_rows
    if not known or not count:
        return recording
    rows = recording.arrow("specializations").to_pydict()
    of = recording.column("activities", "specialization_id")
    for column, values in known.items():
        mine = np.flatnonzero((of != UNKNOWN) & (values != UNKNOWN))
        least, most = np.full(count, np.iinfo(np.int64).max), np.full(count, UNKNOWN)
        np.minimum.at(least, of[mine], values[mine])
        np.maximum.at(most, of[mine], values[mine])
        rows[column] = np.where(least == most, most, UNKNOWN)
    return Recording({**recording.tables, "specializations": make_table("specializations", rows)}, recording.metadata)


def waits(calls: Columns, names: list[str]) -> Columns:
    """Return the waits for the GPU as activities, of a trace that has them as calls only; they may be none."""
    words = Places(names)
    kinds = np.array([words.place(wait) if (wait := wait_of(name)) else UNKNOWN for name in list(names)])
    if not _count(calls) or (kinds == UNKNOWN).all():
        return {}
    name = kinds[calls["name"]]
    rows = np.flatnonzero(name != UNKNOWN)
    return {"kind": np.full(len(rows), SYNC), "name": name[rows],
            **{each: calls[each][rows] for each in ("start_ns", "end_ns", "correlation_id")}}


def joined(parts: Sequence[Columns], names: Iterable[str]) -> Columns:
    """Return columns one after the other; what one part lacks is unknown in it."""
    parts = [part for part in parts if _count(part)]
    return {name: np.concatenate([part[name] if name in part else np.full(_count(part), UNKNOWN) for part in parts])
            for name in names if any(name in part for part in parts)}


def number_graphs(activities: Columns, calls: Columns, names: Sequence[str]) -> bool:
    """Number the executable graphs of a trace that does not name them, by what they ran; return whether there are any.

    That is all that is known of them. What one call launched has its correlation id.
    """
    launches = np.array([is_graph_launch(name) for name in names], bool)
    if not _count(calls) or not _count(activities) or not launches.any():
        return False
    ids = calls["correlation_id"][launches[calls["name"]]]
    rows = np.flatnonzero(np.isin(activities["correlation_id"], ids[ids != UNKNOWN]))
    if not len(rows):
        return False
    parts = [activities[name][rows] for name in ("correlation_id", "kind", "name", "shape") if name in activities]
    order = np.lexsort(parts[::-1])
    rows, columns = rows[order], np.stack([part[order] for part in parts])
    first = np.flatnonzero(np.diff(columns[0], prepend=columns[0][0] - 1))
    graphs: dict[bytes, int] = {}
    numbers = [graphs.setdefault(columns[1:, begin:end].tobytes(), len(graphs) + 1)
               for begin, end in zip(first.tolist(), [*first[1:].tolist(), len(rows)], strict=True)]
    activities["cupti_graph_id"] = np.array(activities.get("cupti_graph_id", np.full(_count(activities), UNKNOWN)))
    activities["cupti_graph_id"][rows] = np.repeat(numbers, np.diff(np.append(first, len(rows))))
    return True


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
    made: Row = {
        "name": re.sub(r"(\.(json|gz|sqlite|db|pt|trace|parquetdir|nsys-rep|_pqtdir))+$", "", file) or file,
        "schema_version": SCHEMA_VERSION, "detail": "launch", "simulator": False, "dry_run": False, "probes": [],
        "gpu": {"source": "cupti"},
        "imported": {"from": trace.producer, "format": trace.form, "version": trace.version,
                     "skipped": dict(trace.skipped)},
        **trace.metadata,
    }
    if trace.wall_ns is not None and 0 < trace.wall_ns < MAX_TIME_NS:
        # The processes of one file are on one clock.
        made["clock"] = {"host_ns": shift, "wall_ns": trace.wall_ns, "boot": file}
        made["created"] = datetime.fromtimestamp(trace.wall_ns / 1e9, UTC).isoformat(timespec="seconds")
    return made


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
    rows += [{"probe": trace.probe, "status": "degraded", "message": each} for each in dict.fromkeys(trace.problems)]
    return rows
