"""Traces in Chrome's JSON: those of torch.profiler (Kineto), of XLA (JAX, TensorFlow), and others of that form.

Events are decoded one after another, so that they are never all in memory as objects. Numbers with a fraction stay
text until they are nanoseconds: as floats, microseconds since 1970 are exact to 250 ns only.

Sources: "Trace Event Format" of the Chromium project; what torch.profiler writes, ``libkineto/src/output_json.cpp`` of
pytorch/kineto; what XLA writes, ``xla/tsl/profiler/convert/trace_events_to_json.cc`` and
``xla/backends/profiler/gpu/cupti_utils.cc`` of openxla/xla.
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, cast

import numpy as np

from kernelscope.errors import RecordingFileError
from kernelscope.importers.chrome.recognize import GZIP_MAGIC
from kernelscope.progress import Progress
from kernelscope.recording.api import is_function
from kernelscope.recording.columns import Columns, Row
from kernelscope.recording.joins import ACTIVITY_COLUMNS
from kernelscope.recording.model import Recording
from kernelscope.recording.traces import (
    KERNEL,
    MEMCPY,
    MEMSET,
    PUSH_POP,
    RANGE_COLUMNS,
    SYNC,
    Interned,
    Trace,
    clean_text,
    in_time,
    joined,
    one_line,
    recording_of,
    waits,
)
from kernelscope.schema import MAX_COUNT, MAX_HANDLE, MAX_TIME_NS, UNKNOWN
from kernelscope.units import listed

#: A trace of more text is refused.
MOST_BYTES = 2 << 30
#: By how much a compressed trace may grow; those of real programs grow by 10 to 60.
MOST_GROWTH = 200
_LEAST_BYTES = 64 << 20
_CHUNK = 1 << 22
_EVENTS_BETWEEN = 1 << 14
_MOST_LISTED = 80
#: What is listed of a file's own names in a message.
_QUOTED = 4

_SPACE = re.compile(r"[ \t\n\r]*")
_NEXT = re.compile(r"[ \t\n\r]*([,\]}])[ \t\n\r]*")
_COLON = re.compile(r"[ \t\n\r]*:[ \t\n\r]*")
_PLAIN = re.compile(r"(\d{1,18})(?:\.(\d{1,3})0*)?")


def read(path: Path, progress: Progress | None = None) -> Recording:
    """Return the recording of a trace in Chrome's JSON, plain or compressed with gzip.

    Raises
    ------
    RecordingFileError
        It is no such trace, says nothing of a GPU, is damaged, or was made to harm.
    """
    try:
        reader = _Reader()
        reader.read(*_text(path), progress)
        if progress:
            progress(0.8, "joining launches and kernels")
        recording = recording_of(reader.trace(), path.name)
    except RecordingFileError as error:
        raise RecordingFileError(f"{path.name}: {error}") from error.__cause__
    except OSError as error:
        raise RecordingFileError(f"{path.name}: cannot be read: {error.strerror or error}") from error
    if progress:
        progress(1.0, f"read {path.name}")
    return recording


# The text, and the events in it.


def _text(path: Path) -> tuple[str, str]:
    """The file's text, of which there is not more than may be; and what is wrong with it, empty for nothing."""
    size = path.stat().st_size
    with open(path, "rb") as file:
        is_packed = file.read(2) == GZIP_MAGIC
        file.seek(0)
        most = min(MOST_BYTES, max(_LEAST_BYTES, MOST_GROWTH * size)) if is_packed else MOST_BYTES
        source = gzip.GzipFile(fileobj=file) if is_packed else file
        content = bytearray()
        try:
            while chunk := source.read(_CHUNK):
                content += chunk
                if len(content) > most:
                    raise RecordingFileError(
                        f"has more than {most >> 20} MiB of text, which is more than is opened of a file of {size} "
                        "bytes: trace a shorter time")
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise RecordingFileError(
                f"is damaged after {len(content)} bytes of its text: {one_line(error)}; copy it again") from None
    try:
        return content.decode("utf-8-sig"), ""
    except UnicodeDecodeError as error:
        return content.decode("utf-8-sig", errors="replace"), (
            f"is not in UTF-8 from byte {error.start} on, which is {content[error.start]:#04x}: letters that cannot be "
            "read are replaced by \ufffd")


_decode = json.JSONDecoder(parse_float=str, parse_constant=lambda _: None, strict=False).raw_decode


def _value(text: str, position: int) -> tuple[Any, int]:
    """The JSON value that begins at a place, and where it ends."""
    try:
        return _decode(text, position)
    except RecursionError:
        raise RecordingFileError(f"is nested too deeply from letter {position} on") from None
    except ValueError as error:
        error_position = error.pos if isinstance(error, json.JSONDecodeError) else position
        if error_position >= len(text):
            raise RecordingFileError(f"is cut off at letter {len(text)}; copy it again, or trace it again") from None
        raise RecordingFileError(f"is no JSON at letter {error_position}: {str(error)[:_MOST_LISTED]}") from None


def _end(text: str, position: int, closing: str) -> tuple[bool, int]:
    """Whether a list or an object ends here, and where it goes on."""
    match = _NEXT.match(text, position)
    if match is None or match[1] not in (",", closing):
        raise RecordingFileError(f"is cut off at letter {len(text)}; copy it again, or trace it again"
                                 if not text[position:].strip() else
                                 f"is no JSON at letter {position}: , or {closing} is missing")
    return match[1] == closing, match.end()


def _listed_values(text: str, position: int, *, may_stop: bool = False) -> Iterator[tuple[Any, int]]:
    """Yield the values of a list that begins at a place, and where each ends; last None, and where the list ends."""
    position = _skipped(text, position + 1)
    is_over = text[position:position + 1] == "]"
    if is_over:
        position += 1
    while not is_over:
        if may_stop and position >= len(text):
            break
        value, position = _value(text, position)
        yield value, position
        if may_stop and not text[position:position + 64].strip() and not text[position:].strip():
            break
        is_over, position = _end(text, position, "]")
    yield None, position


def _skipped(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    return position if match is None else match.end()


# Numbers of events.


def _ns(value: Any, what: str, event: Row) -> int:
    """Microseconds, a whole number or the text of one, as nanoseconds."""
    if type(value) is int:
        ns = value * 1000
    elif isinstance(value, str):
        plain = _PLAIN.fullmatch(value)
        if plain:
            return int(plain[1]) * 1000 + (int(plain[2].ljust(3, "0")) if plain[2] else 0)
        try:
            number = Decimal(value)
            ns = round(number * 1000) if number.is_finite() and number.adjusted() < 20 else None
        except InvalidOperation:
            ns = None
    else:
        ns = None
    if ns is None or abs(ns) > MAX_TIME_NS:
        raise RecordingFileError(f"event {_shown(event.get('name'))} has {_shown(value)} as its {what}, which is no "
                                 "time in microseconds: the file is damaged, or was made to harm")
    return ns


def _shown(value: Any) -> str:
    text = ascii(value)
    return text if len(text) <= _MOST_LISTED else text[:_MOST_LISTED - 3] + "..."


def _whole(value: Any, most: int = MAX_HANDLE) -> int:
    """A whole number, or the text of one; -1 for anything else."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20:
        value = int(value)
    return value if type(value) is int and 0 <= value <= most else UNKNOWN


def _sizes(value: Any) -> tuple[int | None, ...]:
    """Three dimensions; None for unknown ones."""
    if not isinstance(value, list):
        return None, None, None
    sizes = [_whole(size, MAX_COUNT) for size in cast("list[Any]", value)[:3]]
    return tuple(size if size > 0 else None for size in [*sizes, *[UNKNOWN] * 3][:3])


#: Of one activity, beside the process's number.
_ACTIVITY = ("kind", "name", "entry", "device", "stream", "start_ns", "end_ns", "correlation_id", "size_bytes",
             "memory", "regs", "shape", "static", "cupti_graph_id", "cupti_node_id", "process")
_CALL = ("name", "ident", "start_ns", "end_ns", "correlation_id", "process")
_RANGE = (*RANGE_COLUMNS, "process")
_OPERATOR = ("name", "ident", "start_ns", "end_ns", "process")

_ON_GPU = {"kernel": KERNEL, "gpu_memcpy": MEMCPY, "gpu_memset": MEMSET, "cuda_sync": SYNC,
           # The names that Kineto had for them first.
           "Kernel": KERNEL, "Memcpy": MEMCPY, "Memset": MEMSET}
_CALLS = ("cuda_runtime", "cuda_driver", "Runtime")
_OPERATORS = ("cpu_op", "Operator")
_ANNOTATIONS = ("user_annotation",)
_HOST_WAITS = {"Stream Sync": "stream synchronize", "Event Sync": "event synchronize",
               "Context Sync": "context synchronize"}
_DEVICE = re.compile(r"/device:GPU:(\d{1,4})\b")
_STREAM = re.compile(r"Stream #(\d{1,9})\b")
_DETAIL = re.compile(r"(\w+):(\S+)")
_DIRECTION = re.compile(r"Memcpy ?([HDAP])(?:2|to)([HDAP])\b")
_MEMORY = re.compile(r"\((.+)\)$")


class _Reader:
    """Reads the events of one trace into columns."""

    def __init__(self) -> None:
        self._trace = Trace("chrome", "a Chrome trace", skipped=Counter())
        self._names, self._entries, self._shapes = (Interned(values) for values in (
            self._trace.names, self._trace.entries, self._trace.shapes))
        self._operators, self._labels, self._pids = Interned([]), Interned([]), Interned([])
        self._columns = {table: {name: array("q") for name in names} for table, names in (
            ("activities", _ACTIVITY), ("calls", _CALL), ("ranges", _RANGE), ("operators", _OPERATOR))}
        self._skipped: Counter[str] = self._trace.skipped
        self._head: Row = {}
        self._devices: dict[Any, int] = {}
        self._streams: dict[tuple[Any, Any], int | None] = {}
        self._threads: dict[tuple[Any, Any], str] = {}
        self._idents: dict[Any, int] = {}
        self._seen: set[str] = set()

    def read(self, text: str, problem: str, progress: Progress | None) -> None:
        """Read all events; `problem` is what is wrong with the text, empty for nothing."""
        if problem:
            self._trace.problems.append(f"the text {problem}")
        position = _skipped(text, 0)
        if text[position:position + 1] == "[":
            self._events(text, position, progress, may_stop=True)
            return
        position = _skipped(text, position + 1)
        is_over, has_events = text[position:position + 1] == "}", False
        while not is_over:
            key, position = _value(text, position)
            colon = _COLON.match(text, position)
            if not isinstance(key, str) or colon is None:
                raise RecordingFileError(f"is no JSON at letter {position}: a name and a colon were expected")
            position = colon.end()
            if key == "traceEvents" and text[position:position + 1] == "[":
                position = self._events(text, position, progress)
                has_events = True
            else:
                self._head[key], position = _value(text, position)
            is_over, position = _end(text, position, "}")
        if not has_events:
            names = listed([_shown(name) for name in self._head], _QUOTED)
            raise RecordingFileError(f"is JSON, but neither a recording nor a trace: it has {names or 'nothing'} and "
                                     "no list traceEvents, which Chrome's JSON has")

    def _events(self, text: str, position: int, progress: Progress | None, *, may_stop: bool = False) -> int:
        end = position
        for count, (event, end) in enumerate(_listed_values(text, position, may_stop=may_stop)):
            if isinstance(event, dict):
                self._event(cast("Row", event))
            if progress and count and count % _EVENTS_BETWEEN == 0:
                about = float(f"{count * len(text) / end:.2g}")
                progress(0.8 * end / len(text), f"reading {about:.0f} events")
        return end

    def _event(self, event: Row) -> None:
        phase, kind = event.get("ph"), event.get("cat")
        if phase == "M":
            self._name(event)
        elif phase == "X":
            if not isinstance(kind, str):
                self._uncategorized(event)
            elif kind in _ON_GPU:
                self._activity(_ON_GPU[kind], event)
            elif kind in _CALLS:
                self._call(event)
            elif kind in _OPERATORS:
                self._add("operators", event, name=self._operators.intern(_name(event)))
            elif kind in _ANNOTATIONS:
                self._add("ranges", event, kind=PUSH_POP, label=self._labels.intern(_name(event)))
            elif kind not in _PASSED_OVER:
                self._skipped[clean_text(kind)[:40]] += 1
        elif phase in _OTHER_PHASES and kind not in _PASSED_OVER:
            self._skipped[f"{clean_text(kind)[:40] if isinstance(kind, str) else 'other'} ({phase})"] += 1

    def _name(self, event: Row) -> None:
        """Metadata: what a process or a thread is called."""
        arguments = event.get("args")
        name = cast("Row", arguments).get("name") if isinstance(arguments, dict) else None
        pid, tid = _hashable(event.get("pid")), _number(_hashable(event.get("tid")))
        if not isinstance(name, str):
            return
        if event.get("name") == "process_name":
            match = _DEVICE.search(name)
            if match:
                self._devices[pid] = int(match[1])
        elif event.get("name") == "thread_name":
            stream = _STREAM.match(name)
            self._streams[pid, tid] = int(stream[1]) if stream else None
            self._threads[pid, tid] = clean_text(name)

    def _uncategorized(self, event: Row) -> None:
        """An event as XLA writes it: its track says what it is."""
        pid, tid = _hashable(event.get("pid")), _number(_hashable(event.get("tid")))
        name = _name(event)
        if pid in self._devices:
            stream = self._streams.get((pid, tid))
            if stream is None:
                self._skipped["events of tracks that are made of others"] += 1
                return
            word = name[:6].lower()
            kind = MEMCPY if word == "memcpy" else MEMSET if word == "memset" else KERNEL
            self._activity(kind, event, self._devices[pid], stream)
        elif is_function(name):
            self._call(event)
        else:
            self._skipped["events of the host"] += 1

    def _activity(self, kind: int, event: Row, device: int | None = None, stream: int | None = None) -> None:
        arguments = _arguments(event)
        name, entry, memory, shape, size = _name(event), UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN
        details: dict[str, str] = {}
        if device is not None:
            self._seen.add("xla")
            for key in _DETAILS:
                if isinstance(arguments.get(key), str):
                    details |= dict(_DETAIL.findall(arguments[key]))
        if kind == KERNEL:
            shape = self._shape(arguments, details)
            if name.startswith("_Z"):
                entry = self._entries.intern(name)
        elif kind == SYNC:
            if name not in _HOST_WAITS:
                self._skipped["waits of streams"] += 1
                return
            name = _HOST_WAITS[name]
        else:
            match = _MEMORY.search(name)
            text = match[1].replace(" -> ", " to ").lower().replace(" static", "") if match else None
            if "kind_src" in details and "kind_dst" in details:
                text = f"{details['kind_src']} to {details['kind_dst']}".replace("_static", "")
            memory = UNKNOWN if text is None else self._names.intern(text)
            size = _whole(arguments.get("bytes", details.get("size", details.get("num_bytes"))), MAX_TIME_NS)
            match = _DIRECTION.match(name)
            name = "memset" if kind == MEMSET else f"{match[1]}to{match[2]}" if match else name
        self._add(
            "activities", event, kind=kind, name=self._names.intern(name), entry=entry, memory=memory, shape=shape,
            size_bytes=size, device=_whole(arguments.get("device"), MAX_COUNT) if device is None else device,
            stream=_stream(arguments.get("stream")) if stream is None else stream,
            correlation_id=_correlation(arguments), static=_whole(details.get("static_shared"), MAX_TIME_NS),
            cupti_graph_id=_whole(arguments.get("graph id")) or UNKNOWN,  # 0 is none
            cupti_node_id=_whole(arguments.get("graph node id")) or UNKNOWN,
            regs=_whole(arguments.get("registers per thread", details.get("regs")), MAX_COUNT))

    def _shape(self, arguments: Row, details: dict[str, str]) -> int:
        """Return the index of a kernel's launch configuration."""
        grid, block = (_sizes(arguments.get(name, details.get(name, "").split(","))) for name in ("grid", "block"))
        # Kineto has the sum of what the kernel declares and what its launch asks for.
        total = _whole(arguments.get("shared memory"), MAX_TIME_NS)
        shared = _whole(details.get("dynamic_shared"), MAX_TIME_NS) if details else 0 if total == 0 else UNKNOWN
        return self._shapes.intern((*grid, *block, None, None, None, None if shared == UNKNOWN else shared))

    def _call(self, event: Row) -> None:
        self._add("calls", event, name=self._names.intern(_name(event)), correlation_id=_correlation(_arguments(event)))

    def _add(self, table: str, event: Row, **values: int) -> None:
        start = _ns(event.get("ts"), "ts", event)
        columns = self._columns[table]
        values["start_ns"] = start
        values["end_ns"] = start + _ns(event["dur"], "dur", event) if "dur" in event else UNKNOWN
        values["process"] = self._pids.intern(_hashable(event.get("pid")))
        if table != "activities":
            values["ident"] = self._ident(event.get("pid"), event.get("tid"))
        for name, column in columns.items():
            column.append(values[name])

    def _ident(self, pid: Any, tid: Any) -> int:
        """A thread's number; those that are called by a text get one that is free."""
        tid = _number(tid)
        if type(tid) is int and -MAX_HANDLE <= tid <= MAX_HANDLE:
            return abs(tid)
        key = _hashable(pid), _hashable(tid)
        ident = self._idents.get(key)
        if ident is None:
            ident = self._idents[key] = _FIRST_IDENT + len(self._idents)
            self._threads[pid, ident] = clean_text(str(tid))
        return ident

    def trace(self) -> Trace:
        """Return what was read."""
        trace, tables = self._trace, {table: {name: np.frombuffer(values, np.int64) for name, values in columns.items()}
                                      for table, columns in self._columns.items()}
        activities, calls, ranges = (in_time(tables[name], (word, name), trace.problems) for name, word in (
            ("activities", "activity"), ("calls", "call"), ("ranges", "range")))
        operators = tables["operators"]
        base = self._origin([activities, calls, ranges, operators])
        trace.labels = [{"name": name, "domain": None, "category": None, "color": None, "payload": None}
                        for name in self._labels.values]
        owner = self._owners(activities, calls)
        numbers = np.union1d(calls["process"], ranges["process"])
        if len(numbers) <= 1:  # there is one process only
            owner[owner == UNKNOWN] = numbers[0] if len(numbers) else UNKNOWN
        activities["process"] = owner
        if len(calls["process"]):
            # Where nothing tells of a process's waits, its calls do.
            with_waits = np.unique(owner[activities["kind"] == SYNC])
            derived = waits(calls, trace.names)
            if derived:
                without_waits = ~np.isin(derived["process"], with_waits)
                activities = joined([activities, {name: values[without_waits] for name, values in derived.items()}],
                                    (*ACTIVITY_COLUMNS, "static", "process"))
        numbers = np.union1d(numbers, activities["process"])
        for columns in (activities, calls, ranges):
            columns["process"] = np.searchsorted(numbers, columns["process"])
        trace.activities, trace.calls, trace.ranges = activities, calls, ranges
        trace.are_graphs_nameless = True
        index_of = {number: index for index, number in enumerate(numbers.tolist())}
        pids = {self._pids.values[number]: index for number, index in index_of.items() if number != UNKNOWN}
        trace.threads = {(pids[pid], ident): name for (pid, ident), name in self._threads.items()
                         if pid in pids and type(ident) is int}
        trace.operators = _operators(operators, self._operators.values, index_of)
        trace.devices = {(None, ordinal): row for ordinal, row in self._described_devices().items()}
        trace.processes = [{} for _ in index_of]
        for pid, index in pids.items():
            if "xla" not in self._seen and type(pid) is int and 0 < pid <= MAX_HANDLE:
                trace.processes[index]["pid"] = pid
        trace.others = Counter({name: len(tables[table]["start_ns"]) for table, name in (
            ("operators", "cpu_op"), ("ranges", "user_annotation")) if len(tables[table]["start_ns"])})
        trace.hint = ("needed are events of the categories kernel, gpu_memcpy, gpu_memset, cuda_runtime or "
                      "cuda_driver, as torch.profiler writes them with ProfilerActivity.CUDA")
        self._say_who(trace, base, is_one=len(trace.processes) == 1)
        return trace

    def _origin(self, tables: Sequence[Columns]) -> int:
        """Take the first time from all times, and return it."""
        base = min((int(table["start_ns"].min()) for table in tables if len(table["start_ns"])), default=0)
        for columns in tables:
            columns["start_ns"] = columns["start_ns"] - base
            columns["end_ns"] = np.where(columns["end_ns"] == UNKNOWN, UNKNOWN, columns["end_ns"] - base)
        return base

    def _owners(self, activities: Columns, calls: Columns) -> np.ndarray:
        """The process of each activity: that of the call with its correlation id; -1 where several are possible."""
        hosts = np.unique(calls["process"])
        if len(hosts) == 1:
            return np.full(len(activities["start_ns"]), int(hosts[0]))
        has_id = calls["correlation_id"] != UNKNOWN
        ids, process = np.unique(np.stack((calls["correlation_id"][has_id], calls["process"][has_id])), axis=1)
        first = np.searchsorted(ids, activities["correlation_id"])
        count = np.searchsorted(ids, activities["correlation_id"], side="right") - first
        owners = np.where(count == 1, np.append(process, UNKNOWN)[first], UNKNOWN)
        if (count > 1).any():
            self._trace.problems.append(f"{int((count > 1).sum()):,} activities may be of several processes, whose "
                                        "calls have the same correlation ids: they have no launch")
        return owners

    def _described_devices(self) -> dict[int, Row]:
        listing = self._head.get("deviceProperties", self._head.get("computeProperties"))
        is_hip = any(is_function(name) and name.startswith("hip") for name in self._names.values)
        devices: dict[int, Row] = {}
        for properties in cast("list[Any]", listing) if isinstance(listing, list) else ():
            if not isinstance(properties, dict):
                continue
            row = cast("Row", properties)
            number, name = _whole(row.get("id"), MAX_COUNT), row.get("name")
            major, minor = (_whole(row.get(f"compute{word}", row.get(word.lower())), 100)
                            for word in ("Major", "Minor"))
            if is_hip:  # the version of the GPU's instructions, and no compute capability of CUDA's
                major = UNKNOWN
            if number != UNKNOWN:
                devices[number] = {
                    "name": clean_text(name) if isinstance(name, str) else None,
                    "compute_capability": f"{major}.{minor}" if UNKNOWN not in (major, minor) else None,
                    **{ours: value for theirs, ours in _PROPERTIES.items()
                       if (value := _whole(row.get(theirs), MAX_COUNT)) > 0}}
        return devices

    def _say_who(self, trace: Trace, base: int, *, is_one: bool) -> None:
        """Say who wrote the trace, when, and in which process."""
        head = self._head
        if "xla" in self._seen:
            trace.probe = "xla"
        elif "schemaVersion" in head or "deviceProperties" in head:
            trace.probe, trace.form = "torch.profiler", "a JSON trace"
            version = _whole(head.get("schemaVersion"), MAX_COUNT)
            trace.form += f" (schema {version})" if version != UNKNOWN else ""
            cupti = _whole(head.get("cupti_version"), MAX_COUNT)
            trace.version = f"with CUPTI {cupti}" if cupti != UNKNOWN else None
            start = head.get("baseTimeNanoseconds", 0)
            wall = (start if type(start) is int else 0) + base
            trace.wall_ns = wall if wall > _YEAR_2000_NS else None
            driver = _whole(head.get("cuda_driver_version"), MAX_COUNT)
            if driver > 0:
                trace.metadata["cuda_driver_version"] = f"{driver // 1000}.{driver % 1000 // 10}"
        info = head.get("distributedInfo")
        rank = _whole(cast("Row", info).get("rank"), MAX_COUNT) if isinstance(info, dict) else UNKNOWN
        if is_one and rank != UNKNOWN:
            trace.processes[0]["rank"] = rank


_DETAILS = ("kernel_details", "memcpy_details", "Memset_details", "memset_details")
#: What Kineto calls properties of a device, the second names in its first versions.
_PROPERTIES = {
    "numSms": "multiprocessors", "multiProcessorCount": "multiprocessors",
    "maxThreadsPerMultiprocessor": "max_threads_per_multiprocessor",
    "maxThreadsPerMultiProcessor": "max_threads_per_multiprocessor",
    "regsPerMultiprocessor": "registers_per_multiprocessor",
    "sharedMemPerMultiprocessor": "shared_per_multiprocessor_bytes"}
#: What says the same as other events: arrows between them, spans of all, and ranges as the GPU had them.
_PASSED_OVER = ("ac2g", "fwdbwd", "Trace", "gpu_user_annotation")
#: Beginnings, ends, marks, counters and asynchronous events.
_OTHER_PHASES = ("B", "E", "C", "b", "e", "n")
#: CUPTI's number of no stream, in 32 bits.
_NO_STREAM = 0xFFFFFFFF
_YEAR_2000_NS = 946_684_800 * 10**9
#: Above all numbers that Linux gives to threads.
_FIRST_IDENT = 1 << 22


def _hashable(value: Any) -> Any:
    return value if isinstance(value, str | int) else None


def _number(tid: Any) -> Any:
    """A thread's number, which the first versions of Kineto wrote as text."""
    return int(tid) if isinstance(tid, str) and tid.isascii() and tid.isdigit() and len(tid) < 19 else tid


def _arguments(event: Row) -> Row:
    arguments = event.get("args")
    return cast("Row", arguments) if isinstance(arguments, dict) else {}


def _name(event: Row) -> str:
    name = event.get("name")
    return clean_text(name) if isinstance(name, str) else "?"


def _stream(value: Any) -> int:
    stream = _whole(value)
    return UNKNOWN if stream == _NO_STREAM else stream


def _correlation(arguments: Row) -> int:
    return _whole(arguments.get("correlation", arguments.get("correlation_id")))


def _operators(columns: Columns, names: Sequence[str], index_of: Mapping[int, int]) -> list[tuple[int, Row]]:
    """Return operators by thread, and the index of their process: which is inside of which follows from their times."""
    operators: list[tuple[int, Row]] = []
    ended = np.flatnonzero((columns["end_ns"] != UNKNOWN) & np.isin(columns["process"], [*index_of]))
    keys = [columns[name][ended] for name in ("process", "ident")]
    rows = ended[np.lexsort((-columns["end_ns"][ended], columns["start_ns"][ended], *keys[::-1]))]
    threads = np.stack([columns[name][rows] for name in ("process", "ident")])
    first = np.flatnonzero((np.diff(threads, prepend=UNKNOWN) != 0).any(axis=0))
    for thread_rows in np.split(rows, first[1:]) if len(rows) else ():
        nodes: list[tuple[int, str]] = []
        node_of: dict[tuple[int, int], int] = {}
        events: list[tuple[int, int]] = []
        stack: list[tuple[int, int]] = []
        times: list[list[int]] = [columns[name][thread_rows].tolist() for name in ("start_ns", "end_ns", "name")]
        for start, end, name in zip(*times, strict=True):
            while stack and stack[-1][0] <= start:
                events.append((stack.pop()[0], stack[-1][1] if stack else UNKNOWN))
            around = stack[-1][1] if stack else UNKNOWN
            node = node_of.get((around, name))
            if node is None:
                node = node_of[around, name] = len(nodes)
                nodes.append((around, str(names[name])))
            stack.append((min(end, stack[-1][0]) if stack else end, node))
            events.append((start, node))
        while stack:
            events.append((stack.pop()[0], stack[-1][1] if stack else UNKNOWN))
        process, ident = int(columns["process"][thread_rows[0]]), int(columns["ident"][thread_rows[0]])
        operators.append((index_of[process], {"ident": ident, "nodes": nodes, "are_all": True,
                                              "events": np.array(events, np.int64).reshape(-1, 2)}))
    return operators
