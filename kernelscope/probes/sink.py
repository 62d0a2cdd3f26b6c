"""Where probes write: launches to a log, interned rows, rare events, and columns of the GPU's side."""

from __future__ import annotations

import contextlib
import ctypes
import threading
import weakref
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain, count
from types import CodeType
from typing import Any, Protocol, overload

import numpy as np

from kernelscope.clock import Clock, in_seconds, now
from kernelscope.errors import message_of
from kernelscope.native import core
from kernelscope.native.log import IF_NO_OTHER, NOT_THE_USERS, LaunchLog, ThreadState, from_signal_handler
from kernelscope.probes.lines import OTHERS, USERS, CallPaths, Place, UserCode, place_of
from kernelscope.schema import UNKNOWN

# Who is told of the driver's own calls, and who tells: one probe has the driver's callbacks, another wants them.
#
# CUPTI has one subscriber a process, which is `kernelscope.probes.cupti`'s; in a dry run the null driver calls
# back. Both hand over the address of what CUPTI calls ``CUpti_CallbackData``, before and after a call that is
# watched.

#: Where a callback is, in its call.
BEFORE, AFTER = 0, 1


class CallData(ctypes.Structure):
    """The beginning of ``CUpti_CallbackData``; `params` points to the call's parameters, in order."""

    _fields_ = (("site", ctypes.c_int), ("name", ctypes.c_char_p), ("params", ctypes.c_void_p),
                ("result", ctypes.POINTER(ctypes.c_int)), ("symbol", ctypes.c_char_p), ("context", ctypes.c_void_p),
                ("context_id", ctypes.c_uint32), ("kept", ctypes.POINTER(ctypes.c_uint64)),
                ("correlation_id", ctypes.c_uint32))


class Source(Protocol):
    """Tells of the driver's calls."""

    #: Names of the functions that it can tell of.
    functions: frozenset[str]

    def switch(self, functions: Iterable[str], on: bool) -> None:
        """Tell of calls of these functions, or no more."""
        ...

    def exec_id(self, handle: int) -> int | None:
        """A number that no other executable graph of the process has; the one that activities name it by."""
        ...

    def node_number(self, handle: int) -> int | None:
        """The number of a definition's node that activities of its executable graph name it by."""
        ...


class Listener(Protocol):
    """Is told of the driver's calls."""

    def begin(self, source: Source) -> None:
        """Have the source tell of what it wants."""
        ...

    def end(self) -> None:
        """Want no more; the source goes."""
        ...

    def called(self, data: int) -> None:
        """Hear of one call: the address of its `CallData`, before and after it. Raises nothing."""
        ...


class DriverCalls:
    """Brings a source and a listener together, whichever comes first.

    Attributes
    ----------
    source : Source or None
        The one that is there.
    heard : Callable or None
        What the source calls, with the address of a `CallData`; None while nobody listens.
    is_capturing : Callable
        Whether a capture is under way as far as the listener knows, which asks the driver: also one that began before
        there was a source to tell.
    """

    def __init__(self) -> None:
        self.source: Source | None = None
        self.heard: Callable[[int], None] | None = None
        self.is_capturing: Callable[[], bool] = lambda: False
        self._listener: Listener | None = None

    def offer(self, source: Source) -> None:
        """Have `source` tell whoever listens; the first one stays."""
        if self.source is None:
            self.source = source
            self._begin()

    def withdraw(self, source: Source) -> None:
        """Have `source` tell no more."""
        if self.source is source:
            self._end()
            self.source = None

    def listen(self, listener: Listener) -> None:
        """Tell `listener` from now on."""
        self._listener = listener
        self._begin()

    def leave(self, listener: Listener) -> None:
        """Tell `listener` no more."""
        if self._listener is listener:
            self._end()
            self._listener = None

    def _begin(self) -> None:
        if self.source is not None and self._listener is not None:
            self.heard = self._listener.called
            self._listener.begin(self.source)

    def _end(self) -> None:
        if self.source is not None and self._listener is not None:
            self._listener.end()
        self.heard = None


# What the probes of the GPU's side hand over.

#: Kinds of activity, by code.
KERNEL, MEMCPY, MEMSET, SYNC = range(4)

ACTIVITY = ("kind", "name", "entry", "device", "stream", "start_ns", "end_ns", "correlation_id", "size_bytes", "memory",
            "cupti_graph_id", "cupti_node_id", "regs", "shape")
CALL = ("name", "ident", "start_ns", "end_ns", "correlation_id", "result")
#: Of one end of an NVTX range, or of a mark: `names` indices, the thread's ident (its lower 32 bits), flags, ids.
MARKER = ("flags", "time_ns", "id", "ident", "name", "domain")
#: What some of them have beside it.
MARKER_DATA = ("id", "color", "category")

Columns = dict[str, np.ndarray]


def _empty(names: tuple[str, ...]) -> Columns:
    return {name: np.empty(0, np.int64) for name in names}


@dataclass(eq=False, repr=False)
class GpuColumns:
    """Activities and calls on the host clock; see `kernelscope.recording.joins.RawActivities`."""

    activities: Columns = field(default_factory=lambda: _empty(ACTIVITY))
    calls: Columns = field(default_factory=lambda: _empty(CALL))
    markers: Columns = field(default_factory=lambda: _empty(MARKER))
    marker_data: Columns = field(default_factory=lambda: _empty(MARKER_DATA))
    names: list[str] = field(default_factory=list)
    entries: list[str] = field(default_factory=list)
    shapes: list[tuple[int | None, ...]] = field(default_factory=list)
    has_correlation: bool = True
    #: How many kernels ran in each context, by CUPTI's id of it.
    kernels_in: Counter[int] = field(default_factory=Counter[int])
    #: Correlation ids of calls that have a line, in order, and the ids of their places among the sink's sites.
    sites: tuple[np.ndarray, np.ndarray] = field(
        default_factory=lambda: (np.empty(0, np.int64), np.empty(0, np.int64)))

    def extend(self, activities: list[Columns], calls: list[Columns], markers: Sequence[Columns] = (),
               marker_data: Sequence[Columns] = ()) -> None:
        """Add rows; columns that a part leaves out are unknown."""
        joined = (_joined(self.activities, activities, "kind"), _joined(self.calls, calls, "name"),
                  _joined(self.markers, markers, "id"), _joined(self.marker_data, marker_data, "id"))
        # Together: a Ctrl-C comes before or after.
        self.activities, self.calls, self.markers, self.marker_data = joined


class Places:
    """Gives each text of a list its place in it."""

    def __init__(self, texts: list[str]) -> None:
        self._texts = texts
        self._places = {text: place for place, text in enumerate(texts)}

    def place(self, text: str) -> int:
        """The text's place, which is the end of the list where it is new."""
        found = self._places.get(text)
        if found is None:
            found = self._places[text] = len(self._texts)
            self._texts.append(text)
        return found


def constant(value: int, count: int) -> np.ndarray:
    """Return a column of one value, which takes no memory and cannot be written to."""
    return np.broadcast_to(np.int32(value), count)


def translated(values: np.ndarray, number: Callable[[int], int]) -> np.ndarray:
    """Return ``number(value)`` of each value as int32; it is asked once for each of them, in order of their first row.

    By hashing, no sort; where all values are the same the column takes no memory.
    """
    if len(values) and (values == values[0]).all():
        return constant(number(int(values[0])), len(values))
    import pyarrow as pa  # when recording stops: to load it takes as long as all else that a recording begins with

    encoded = pa.array(values).dictionary_encode()
    found = np.array([number(value) for value in encoded.dictionary.to_pylist()], np.int32)
    return found[encoded.indices.to_numpy()]


def _joined(columns: Columns, parts: Sequence[Columns], whole: str) -> Columns:
    """All rows; `whole` is a column that no part leaves out."""
    filled = [part for part in (columns, *parts) if len(part[whole])]
    if not filled:
        return columns
    return {name: _concatenated([part.get(name, len(part[whole])) for part in filled]) for name in columns}


def _concatenated(parts: list[np.ndarray | int]) -> np.ndarray:
    """One column; a part that does not have it gives its length instead."""
    known = [constant(-1, part) if isinstance(part, int) else part for part in parts]
    if len(known) == 1:
        return known[0]
    if all(not any(part.strides) and part[0] == known[0][0] for part in known):
        return np.broadcast_to(known[0][0], sum(map(len, known)))
    return np.concatenate(known)


# Requests to a library's build cache, as they ended: hits are many, and so are stored as three numbers each.

Row = dict[str, Any]
#: A hit: when it was asked for and answered (ns), and the number that `BuildRows.know` has returned for it.
Hit = tuple[int, int, int]


class BuildRows(Sequence[Row]):
    """Rows of the table ``builds`` in order of their ends: a sequence of dicts that can only grow.

    Attributes
    ----------
    append : callable
        Takes a row as a dict, or a hit on something that is known as a tuple of three numbers, which costs the garbage
        collector nothing. It is atomic, so that threads need no lock.
    """

    def __init__(self) -> None:
        self._kept: list[Row | Hit] = []
        self._known: list[Row] = []
        self.append: Callable[[Row | Hit], None] = self._kept.append

    def know(self, row: Row) -> int:
        """Return the number of something that further hits are to be on; `row` is what each has but its times."""
        self._known.append(row)  # other threads append as well, but never the same dict
        return next(at for at in range(len(self._known) - 1, -1, -1) if self._known[at] is row)

    def __len__(self) -> int:
        return len(self._kept)

    @overload
    def __getitem__(self, at: int) -> Row: ...
    @overload
    def __getitem__(self, at: slice) -> list[Row]: ...
    def __getitem__(self, at: int | slice) -> Row | list[Row]:
        """Return a row, or a list of rows; those of hits are made anew."""
        return [self._row(each) for each in self._kept[at]] if isinstance(at, slice) else self._row(self._kept[at])

    def _row(self, entry: Row | Hit) -> Row:
        if isinstance(entry, dict):
            return entry
        start, end, known = entry
        return {**self._known[known], "start_ns": start, "end_ns": end}


# What probes of graphs hand over.

#: Of one graph launch: the position in `GraphRows.events` of what made the executable graph (-1 unknown), the stream's
#: handle, the thread's ident (its lower 32 bits), when the call was entered and returned (ns), and its result.
LAUNCH = ("exec", "stream", "ident", "start_ns", "end_ns", "result")


@dataclass(eq=False, repr=False)
class GraphRows:
    """Graphs and their lives, as a session sees them.

    Attributes
    ----------
    graphs, nodes, edges : list of dict
        Rows of the tables ``graphs``, ``graph_nodes`` and ``graph_edges``; ids are positions in these lists.
    events : list of dict
        Rows of ``graph_events`` but launches, as they happened, with ``thread_ident`` for the thread and stream handles
        as ``streams``, a list, for captures that others joined; ``exec_id``, ``source_event_id`` and ``rebuild_of`` are
        positions in this list.
    launches : dict of str to ndarray of int64
        `LAUNCH`, where they were seen otherwise than by CUPTI.
    execs : dict of int to int
        For CUPTI's id of an executable graph the position in `events` of what made it.
    nodes_of : dict of (int, int) to int
        For a graph's id and the number of a node in it that CUPTI gives to an activity, the position in `nodes`.
    """

    graphs: list[Row] = field(default_factory=list)
    nodes: list[Row] = field(default_factory=list)
    edges: list[Row] = field(default_factory=list)
    events: list[Row] = field(default_factory=list)
    launches: dict[str, np.ndarray] = field(
        default_factory=lambda: {name: np.empty(0, np.int64) for name in LAUNCH})
    execs: dict[int, int] = field(default_factory=dict)
    nodes_of: dict[tuple[int, int], int] = field(default_factory=dict)


# Where probes write.

#: What happened, in an NVTX event: a push/pop range was opened; one was closed of which the domain is known, or the
#: whole label; a mark. Start/end ranges have numbers from `RANGE_START` on.
RANGE_PUSH, RANGE_POP, RANGE_EXIT, RANGE_MARK, RANGE_START = range(5)

#: Frames of call paths that are kept: of 150 MB at most.
MOST_STACKS = 1 << 18


class Sink:
    """Collects what the probes of one recording session see.

    Parameters
    ----------
    clock : callable
        The host clock, in nanoseconds.
    detail : str
        ``phases`` for every phase boundary of a launch, ``launch`` for its two ends.
    log : LaunchLog, optional
        Keeps the launches; where none is given, one that keeps all of them in memory.
    user_code : UserCode, optional
        Says whose lines are recorded; without it none are.
    stacks : bool
        Whether call paths are recorded too: `has_stacks`.

    Attributes
    ----------
    log : LaunchLog
        Keeps the launches.
    states : dict of int to ThreadState
        By `threading.get_ident()`; `state` makes those that are missing.
    seconds : callable
        The host clock in seconds, in which hooks that are written in Python take times.
    dispatchers, specializations, configurations, devices : Interner
        Rows as dicts of the schema's columns, by key.
    targets : Interner
        What a launch record's target id stands for: dicts with ``dispatcher_id``, ``specialization_id``,
        ``device_id`` and ``error``.
    lines : Interner
        Lines that were met: dicts with ``file``, ``line``, ``function`` and ``user_code``.
    stacks : Interner
        Frames of call paths: dicts with ``parent_stack_id``, None for none, and ``line_id``.
    sites : Interner
        Where something was done: dicts with ``thread_id``, ``line_id`` and ``stack_id``, -1 for none.
    ranges : list of float and int
        NVTX events, four values each: when (s), what happened, a range label's id, the site's id; what happened is
        one of the ``RANGE_`` numbers, or for start/end ranges the n-th of a session 4 + 2n and 5 + 2n.
    range_labels : Interner
        What a range label stands for: dicts with ``name``, ``domain``, ``category``, ``color`` and ``payload``.
    compilations, passes, occupancies, code, health : list of dict
        Rows as they happened; `list.append` is atomic, so that threads need no lock.
    builds : BuildRows
        Requests to build caches, as they ended; read like a list of dict.
    graphs : GraphRows
        Graphs, their nodes and edges, and the events in their lives.
    captures_code : bool
        Whether the recorder that stops now keeps the kernels' code.
    errors, dropped : Counter
        Exceptions of our own that were kept from user code, and launches that are missing, by probe.
    metadata : dict
        What a probe adds to the recording's metadata: plain JSON values.
    gpu : GpuColumns
        What the GPU and the driver did, once a probe has described it.
    stated : dict of str to dict
        A row of health that a probe states anew whenever a recording ends, by probe.
    collections : kernelscope.native._core.Collections or None
        Collections of Python's garbage collector; None where they are not recorded.
    rows : dict of str to list of dict
        What the probes of features recorded, by table, as `kernelscope.registry.Feature.rows` of the feature takes it.
    snapshots : dict of str to callable
        By table, what returns all such rows of the session until now, where a probe has them elsewhere; a recording
        inside another one counts from `RawRecording.began` on.
    before_part : list of callable
        Called before a recording inside another one begins: they add to `rows` what was recorded until then.
    own : list of (int, int, int)
        Thread ident, start and end, in nanoseconds, of the recorder's own waits for the device.
    recorded_elsewhere : set of str
        Modules whose calls of other frameworks' launch functions are part of launches that their own probe records.
    is_capturing : callable
        Whether some stream is known to capture a graph.
    driver_calls : DriverCalls
        Where probes tell each other of the driver's calls.
    flush : callable
        Called when something rare was written down, such as a compile: a journal takes it from there.
    """

    def __init__(self, clock: Clock = now, detail: str = "phases", log: LaunchLog | None = None,
                 user_code: UserCode | None = None, *, stacks: bool = False) -> None:
        self.clock = clock
        self.seconds = in_seconds(clock)
        self.detail = detail
        self.log = LaunchLog(clock, detail) if log is None else log
        self.lock = threading.RLock()
        self.threads: list[ThreadState] = []
        # A plain dict by ident: on a launch path whose caches are cold it is 60 ns faster than `threading.local`.
        self.states: dict[int, ThreadState] = {}
        self._ends = threading.local()
        self.dispatchers = Interner(self.lock)
        self.specializations = Interner(self.lock)
        self.configurations = Interner(self.lock)
        self.devices = Interner(self.lock)
        self.targets = Interner(self.lock)
        self.user_code = user_code
        self.has_stacks = stacks and user_code is not None
        self.lines = Interner(self.lock)
        self.stacks = Interner(self.lock)
        self._is_full = False
        self.sites = Interner(self.lock)
        # Numbers only, which the garbage collector does not walk; `list.extend` is atomic.
        self.ranges: list[float] = []
        self.range_labels = Interner(self.lock)
        self.compilations: list[dict[str, Any]] = []
        self.passes: list[dict[str, Any]] = []
        self.occupancies: list[dict[str, Any]] = []
        self.code: list[dict[str, Any]] = []
        self.builds = BuildRows()
        self.graphs = GraphRows()
        self.captures_code = False
        self.health: list[dict[str, Any]] = []
        self.metadata: dict[str, Any] = {}
        self.gpu = GpuColumns()
        self.stated: dict[str, dict[str, Any]] = {}
        self.collections: core.Collections | None = None
        self.rows: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
        self.snapshots: dict[str, Callable[[], list[dict[str, Any]]]] = {}
        self.before_part: list[Callable[[], None]] = []
        self.own: list[tuple[int, int, int]] = []
        self.recorded_elsewhere: set[str] = set()
        self._live_streams: dict[int, weakref.ref[Any]] = {}
        self.is_capturing: Callable[[], bool] = lambda: False
        self.driver_calls = DriverCalls()
        self.flush: Callable[[], None] = lambda: None
        self.errors: Counter[str] = Counter()
        self.dropped: Counter[str] = Counter()
        self.first_errors: dict[str, str] = {}
        self._paths = CallPaths(user_code, self._line_of) if user_code is not None and stacks else None
        self.log.serve(self.state, None if user_code is None else self._site,
                       None if self._paths is None else self._stack)

    def stream_seen(self, handle: int, stream: Any) -> int:
        """Return the handle of a stream that something is launched into, and follow the stream as long as it lives."""
        if handle and not isinstance(stream, int):
            with contextlib.suppress(TypeError):  # what cannot be followed is never asked about
                self._live_streams[handle] = weakref.ref(stream)
        return handle

    def streams(self) -> list[int]:
        """Return the handles of the streams that something was launched into and that are alive for sure.

        The driver may crash when it is asked about one that was destroyed. Default streams are left out.
        """
        found: list[int] = []
        for handle, reference in list(self._live_streams.items()):
            stream = reference()
            with contextlib.suppress(Exception):  # what does not tell its handle is never asked about
                if stream is not None and int(getattr(stream, "handle", 0) or 0) == handle:  # of a closed one it is 0
                    found.append(handle)
        return found

    def target(self, dispatcher_id: int, specialization_id: int = UNKNOWN, device_id: int = UNKNOWN,
               error: str | None = None) -> int:
        """Return the id of what a launch went to: interned, so that a record needs one integer for it."""
        return self.targets.intern((dispatcher_id, specialization_id, device_id, error), lambda: {
            "dispatcher_id": dispatcher_id,
            "specialization_id": specialization_id,
            "device_id": device_id,
            "error": error,
        })

    def configuration(self, griddim: tuple[int, ...] | None, blockdim: tuple[int, ...] | None,
                      sharedmem: int | None = 0, stream: int | None = 0,
                      cluster: tuple[int, ...] | None = None) -> int:
        """Return the id of a launch configuration; missing dimensions are 1, and those of None unknown."""
        grid, block = (_three(dims) if dims else (None, None, None) for dims in (griddim, blockdim))
        blocks = _three(cluster) if cluster else (None, None, None)
        return self.configurations.intern((grid, block, sharedmem, stream, blocks), lambda: {
            "griddim_x": grid[0], "griddim_y": grid[1], "griddim_z": grid[2],
            "blockdim_x": block[0], "blockdim_y": block[1], "blockdim_z": block[2],
            "cluster_x": blocks[0], "cluster_y": blocks[1], "cluster_z": blocks[2],
            "sharedmem_bytes": sharedmem, "stream": stream,
        })

    def launch(self, start_ns: int, end_ns: int, target: int, configuration: int, *,
               dispatch_end_ns: int = UNKNOWN, submit_start_ns: int = UNKNOWN,
               submit_end_ns: int = UNKNOWN) -> None:
        """Write one launch of the calling thread."""
        self.state().write(start_ns / 1e9, dispatch_end_ns / 1e9, submit_start_ns / 1e9, submit_end_ns / 1e9,
                               end_ns / 1e9, target, configuration)

    def state(self) -> ThreadState:
        """Return the calling thread's state, made when the thread first asks."""
        ident = threading.get_ident()
        if ident not in self.states:
            with self.lock:
                thread = len(self.threads)
                state = self.log.new_state(thread, self._site_of(thread, UNKNOWN))
                farewell = _Farewell(self, ident, state)
                # One step: a signal handler that launches in the middle of this comes before it or finds what it put.
                if self.states.setdefault(ident, state) is state:
                    self.threads.append(state)
                    self.flush()
                    self._ends.of_thread = farewell
        return self.states[ident]

    def line(self) -> int | None:
        """Return the id of the line of the user's code that the calling thread is at; None where it is at none."""
        return self._here()["line_id"]

    def _here(self) -> dict[str, int | None]:
        """The line at which the calling thread is, and the frame of its call path, as columns of a table."""
        site = self.sites.rows[self.state().here()]
        return {name: None if site[name] == UNKNOWN else site[name] for name in ("line_id", "stack_id")}

    def _site(self, code: CodeType, offset: int) -> int:
        """Return the id of an instruction of the calling thread: see `LaunchLog.serve`."""
        return self._site_at(None, code, offset)

    def _site_at(self, thread: int | None, code: CodeType, offset: int) -> int:
        """The id of an instruction; the thread is the calling one where none is given."""
        whose = OTHERS if self.user_code is None else self.user_code.whose(code.co_filename)
        if whose == OTHERS:
            return NOT_THE_USERS
        place = place_of(code, offset)
        site = self._site_of(self.state().thread_id if thread is None else thread, self._line_of(place, True))
        return site if whose == USERS else IF_NO_OTHER - site

    def site_of_call(self, code: CodeType, offset: int) -> int:
        """Return the id of an instruction, whatever thread it is of: see `LaunchLog.serve`."""
        return self._site_at(UNKNOWN, code, offset)

    def site_of_path(self, frames: list[tuple[CodeType, int]]) -> int:
        """Return the id of a call path, whatever thread it is of: see `LaunchLog.serve`."""
        return self._stack_at(UNKNOWN, frames)

    def site_of_caller(self) -> int:
        """Return the id of where the calling thread is, without the thread; -1 where it is at no line."""
        here = self.sites.rows[self.state().here()]
        return UNKNOWN if here["line_id"] == UNKNOWN else self._site_of(UNKNOWN, here["line_id"], here["stack_id"])

    def _stack(self, frames: list[tuple[CodeType, int]]) -> int:
        """Return the id of a call path of the calling thread: see `LaunchLog.serve`."""
        return self._stack_at(None, frames)

    def _stack_at(self, thread: int | None, frames: list[tuple[CodeType, int]]) -> int:
        """The id of a call path; the thread is the calling one where none is given."""
        paths = self._paths
        found = None if paths is None else paths.of(frames)
        if found is None:
            return NOT_THE_USERS
        path, line = found
        thread, caller = self.state().thread_id if thread is None else thread, UNKNOWN
        for each in path:
            stack = self.stacks.find((caller, each))
            if stack is None:
                if len(self.stacks) >= MOST_STACKS:
                    self._tell_full()
                    return self._site_of(thread, line)
                stack = self._called(caller, each)
            caller = stack
        return self._site_of(thread, line, caller)

    def _line_of(self, place: Place, is_users: bool) -> int:
        return self.lines.intern((place, is_users), lambda: {**place._asdict(), "user_code": is_users})

    def _called(self, caller: int, line: int) -> int:
        return self.stacks.intern((caller, line), lambda: {
            "parent_stack_id": None if caller == UNKNOWN else caller, "line_id": line})

    def _tell_full(self) -> None:
        if not self._is_full:
            self._is_full = True
            self.health.append({
                "probe": "recorder", "status": "degraded",
                "message": f"{MOST_STACKS:,} frames of call paths are kept at most: launches by later ones have none",
                "fix": "record a shorter part of the program with stacks"})

    def _site_of(self, thread: int, line: int, stack: int = UNKNOWN) -> int:
        return self.sites.intern((thread, line, stack), lambda: {
            "thread_id": thread, "line_id": line, "stack_id": stack})

    def add_compile(self, row: dict[str, Any], passes: Iterable[dict[str, Any]]) -> int:
        """Add a row of ``compilations``, of the calling thread, and its rows of ``passes``; return its number."""
        row.update(self._here())
        with self.lock:
            number = len(self.compilations)
            self.compilations.append(row)
            self.passes.extend({**each, "compilation_id": number, "specialization_id": row.get("specialization_id")}
                               for each in passes)
        self.flush()
        return number

    def add_occupancy(self, specialization_id: int, configuration_id: int, device_id: int,
                      active: Callable[[int, int], int | None]) -> None:
        """Add a row of ``occupancies``.

        Parameters
        ----------
        specialization_id, configuration_id, device_id : int
            What it is of.
        active : callable
            ``(threads in a block, bytes of shared memory)``: returns how many blocks a multiprocessor runs at once, or
            None where it does not say so.
        """
        shape, most = self.configurations.rows[configuration_id], self.devices.rows[device_id].get(
            "max_threads_per_multiprocessor")
        if None in (shape["blockdim_x"], shape["sharedmem_bytes"]):
            return
        threads = shape["blockdim_x"] * shape["blockdim_y"] * shape["blockdim_z"]
        blocks = active(threads, shape["sharedmem_bytes"])
        if blocks is not None:
            self.occupancies.append({
                "specialization_id": specialization_id, "configuration_id": configuration_id, "device_id": device_id,
                "active_blocks_per_multiprocessor": blocks,
                "occupancy": min(1.0, blocks * threads / most) if most else None,
            })

    def swallow(self, probe: str, error: BaseException) -> None:
        """Count an exception of our own; user code never sees it, the recording's health does."""
        self.errors[probe] += 1
        self.first_errors.setdefault(probe, f"{type(error).__name__}: {message_of(error)}")

    def guard(self, probe: str, error: Exception) -> None:
        """Count an exception of our own in the middle of the user's code; raise what a signal handler has raised."""
        if from_signal_handler(error):
            raise error
        self.swallow(probe, error)


class Interner:
    """Gives equal keys one small id, in order of first sight, and keeps a row for each."""

    def __init__(self, lock: threading.RLock | Any) -> None:
        self._lock = lock
        self._ids: dict[Hashable, int] = {}
        self._numbers = count()
        self.rows: list[dict[str, Any]] = []
        self.objects: list[Any] = []
        #: Called when a row was added, under the lock.
        self.listener: Callable[[], None] | None = None

    def intern(self, key: Hashable, row: Callable[[], dict[str, Any]], live: Any = None) -> int:
        """Return the id of `key`, making its row with `row()` at first sight.

        `live` is kept beside the row until the session ends, for what is asked at stop.
        """
        known = self._ids.get(key)
        if known is not None:
            return known
        with self._lock:
            if key not in self._ids:
                made = row()
                # One call into C, which no signal handler can interrupt, and none that launches can come between.
                deque(chain(map(list.append, (self.rows, self.objects), (made, live)),
                            map(self._ids.setdefault, (key,), self._numbers)), maxlen=0)
                if self.listener is not None:
                    self.listener()
            return self._ids[key]

    def find(self, key: Hashable) -> int | None:
        """Return the id of `key`, or None."""
        return self._ids.get(key)

    def __len__(self) -> int:
        return len(self.rows)


class _Farewell:
    """Lives in a `threading.local` and so dies with its thread: takes the thread's entry away.

    The system gives the ident of a thread that has ended to a new one, which must not go on in its state.
    """

    # Until `__init__` has run, which a signal handler that raises may keep from happening.
    _forget: tuple[Callable[[], Sink | None], int, ThreadState | None] = lambda: None, 0, None

    def __init__(self, sink: Sink, ident: int, state: ThreadState) -> None:
        self._forget = weakref.ref(sink), ident, state

    def __del__(self) -> None:
        found, ident, state = self._forget
        sink = found()
        if sink is not None and state is not None and sink.states.get(ident) is state:
            del sink.states[ident]


def _three(dims: tuple[int, ...]) -> tuple[int, int, int]:
    x, y, z = (*(int(dim) for dim in dims), 1, 1)[:3]
    return x, y, z
