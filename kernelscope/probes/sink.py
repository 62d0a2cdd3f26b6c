"""Where probes write: launches to a log (`kernelscope.probes.launch_log`), interned rows, and rare events as dicts."""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections import Counter, deque
from collections.abc import Callable, Hashable
from itertools import chain, count
from typing import Any

from kernelscope.clock import Clock, in_seconds, now
from kernelscope.probes.build_rows import BuildRows
from kernelscope.probes.driver_calls import DriverCalls
from kernelscope.probes.gpu import GpuColumns
from kernelscope.probes.graph_rows import GraphRows
from kernelscope.probes.launch_log import LaunchLog, PythonLog, ThreadState
from kernelscope.schema import UNKNOWN

#: What happened, in an NVTX event: a push/pop range was opened; one was closed of which the domain is known, or the
#: whole label; a mark. Start/end ranges have numbers from `RANGE_START` on.
RANGE_PUSH, RANGE_POP, RANGE_EXIT, RANGE_MARK, RANGE_START = range(5)


class Sink:
    """Collects what the probes of one recording session see.

    Parameters
    ----------
    clock : callable
        The host clock, in nanoseconds.
    detail : str
        ``phases`` for every phase boundary of a launch, ``launch`` for its two ends.
    log : LaunchLog, optional
        Keeps the launches; a `PythonLog` that keeps all of them where none is given.

    Attributes
    ----------
    log : LaunchLog
        Keeps the launches.
    states : dict of int to ThreadState
        By `threading.get_ident()`; `state` makes those that are missing.
    thread_listener : callable or None
        Called with the `ThreadState` of each thread that comes, in that thread, before it has written anything.
    seconds : callable
        The host clock in seconds, which launch records are written in.
    dispatchers, specializations, configurations, devices : Interner
        Rows as dicts of the schema's columns, by key.
    targets : Interner
        What a launch record's target id stands for: dicts with ``dispatcher_id``, ``specialization_id``,
        ``device_id`` and ``error``.
    ranges : list of float and int
        NVTX events, four values each: when (s), what happened, a range label's id, the thread's id; what happened is
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

    def __init__(self, clock: Clock = now, detail: str = "phases", log: LaunchLog | None = None) -> None:
        self.clock = clock
        self.seconds = in_seconds(clock)
        self.detail = detail
        self.log = PythonLog(clock, detail) if log is None else log
        self.lock = threading.RLock()
        self.threads: list[ThreadState] = []
        # A plain dict by ident: on a launch path whose caches are cold it is 60 ns faster than `threading.local`.
        self.states: dict[int, ThreadState] = {}
        self._ends = threading.local()
        self.thread_listener: Callable[[ThreadState], None] | None = None
        self.dispatchers = Interner(self.lock)
        self.specializations = Interner(self.lock)
        self.configurations = Interner(self.lock)
        self.devices = Interner(self.lock)
        self.targets = Interner(self.lock)
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
        self.own: list[tuple[int, int, int]] = []
        self.recorded_elsewhere: set[str] = set()
        self._live_streams: dict[int, weakref.ref[Any]] = {}
        self.is_capturing: Callable[[], bool] = lambda: False
        self.driver_calls = DriverCalls()
        self.flush: Callable[[], None] = lambda: None
        self.errors: Counter[str] = Counter()
        self.dropped: Counter[str] = Counter()
        self.first_errors: dict[str, str] = {}
        self.log.serve(self.state)

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
        """Write one launch of the calling thread; the hot paths write to their `ThreadState` themselves."""
        self.state().write(start_ns / 1e9, dispatch_end_ns / 1e9, submit_start_ns / 1e9, submit_end_ns / 1e9,
                               end_ns / 1e9, target, configuration)

    def state(self) -> ThreadState:
        """Return the calling thread's state, made when the thread first asks."""
        ident = threading.get_ident()
        if ident not in self.states:
            with self.lock:
                state = self.log.new_state(len(self.threads))
                farewell = _Farewell(self, ident, state)
                # One step: a signal handler that launches in the middle of this comes before it or finds what it put.
                if self.states.setdefault(ident, state) is state:
                    self.threads.append(state)
                    self.flush()
                    self._ends.of_thread = farewell
                    if self.thread_listener is not None:
                        self.thread_listener(state)
        return self.states[ident]

    def swallow(self, probe: str, error: BaseException) -> None:
        """Count an exception of our own; user code never sees it, the recording's health does."""
        self.errors[probe] += 1
        self.first_errors.setdefault(probe, f"{type(error).__name__}: {error}")


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
            sink.log.thread_ended(state)


def _three(dims: tuple[int, ...]) -> tuple[int, int, int]:
    x, y, z = (*(int(dim) for dim in dims), 1, 1)[:3]
    return x, y, z
