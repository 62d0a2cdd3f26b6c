"""The launch log: fixed-width records, written by hooks at a launch and read as columns at stop."""

from __future__ import annotations

import functools
import os
import signal
import struct
import sys
import threading
from collections.abc import Callable, Sequence
from itertools import zip_longest
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple, Protocol

import numpy as np

from kernelscope import native
from kernelscope.clock import Clock, now
from kernelscope.errors import KernelScopeError
from kernelscope.schema import UNKNOWN

# Where launches are kept while a recording is under way: fixed-width records by thread, read as columns at stop.
#
# `LaunchLog` is what the sink and the recording session know of it; there are several, and neither knows which it
# has.
# `PythonLog` is the one in Python: a record is all numbers, so that the garbage collector never walks the buffer.

#: Launches, one value each in every array: ``thread_id``, ``target`` and ``configuration`` (int32); ``start_ns``,
#: ``dispatch_end_ns``, ``submit_start_ns``, ``submit_end_ns`` and ``end_ns`` (int64; -1: unknown). Those of a thread
#: are in order of start; those of several threads need not be.
LaunchColumns = dict[str, np.ndarray]

#: start, dispatch end, submit start, submit end, end (s; negative: unknown), target id, configuration id.
PHASES = struct.Struct("5d2i")
#: start, end (s; negative: unknown), target id, configuration id.
ENDS = struct.Struct("2d2i")
RECORDS_A_CHUNK = 4096

_TIMES = ("start", "dispatch_end", "submit_start", "submit_end", "end")
_IDS = ("target", "configuration")
#: `PHASES` and `ENDS` as NumPy sees them.
PHASES_DTYPE = np.dtype([*((name, "f8") for name in _TIMES), *((name, "i4") for name in _IDS)])
ENDS_DTYPE = np.dtype([("start", "f8"), ("end", "f8"), *((name, "i4") for name in _IDS)])


class LaunchLog(Protocol):
    """Keeps the launches of one recording session.

    Attributes
    ----------
    backend : str
        ``python`` or ``native``.
    mode : str
        ``grow`` keeps every launch, ``ring`` the newest, ``stop`` the first; by the order in which they began.
    capacity : int or None
        How many launches the modes ``ring`` and ``stop`` keep.
    """

    backend: str
    mode: str
    capacity: int | None

    def serve(self, state: Callable[[], ThreadState]) -> None:
        """Have hooks that cannot ask the sink themselves ask `state` for the calling thread's state."""
        ...

    def new_state(self, thread_id: int) -> ThreadState:
        """Return the state of the calling thread, which is row `thread_id` of the threads."""
        ...

    def thread_ended(self, state: ThreadState) -> None:
        """A thread writes nothing any more; called wherever Python finalizes what the thread had."""
        ...

    def mark(self) -> int:
        """Return where a recorder's part of the launches begins, if it begins now."""
        ...

    def columns(self, since: int = 0) -> LaunchColumns:
        """Return the kept launches that began at or after the mark `since`, or all of them."""
        ...

    def lost(self, since: int = 0) -> int:
        """Return how many launches that began at or after the mark `since` were not kept, or how many of all."""
        ...


class PythonLog:
    """The log in Python: a list of chunks for each thread, which the hooks pack records into.

    Parameters
    ----------
    clock : callable
        The host clock, in nanoseconds.
    detail : str
        ``phases`` for every phase boundary of a launch, ``launch`` for its two ends.

    Attributes
    ----------
    record : struct.Struct
        The launch records' layout: `PHASES` or `ENDS`.
    """

    def __init__(self, clock: Clock = now, detail: str = "phases") -> None:
        self.backend = "python"
        self.mode = "grow"
        self.capacity: int | None = None
        self.record = PHASES if detail == "phases" else ENDS
        self.clock = clock
        self.states: list[ThreadState] = []
        # Of each mark when it was made, and how many records each thread had then.
        self.marks: list[tuple[int, dict[ThreadState, int]]] = []

    def serve(self, state: Callable[[], ThreadState]) -> None:
        """Do nothing: hooks in Python ask the sink."""

    def new_state(self, thread_id: int) -> ThreadState:
        """Return the state of the calling thread, which is row `thread_id` of the threads."""
        state = ThreadState(thread_id, self.record)
        self.states.append(state)
        return state

    def thread_ended(self, state: ThreadState) -> None:
        """Give back the part of the thread's last chunk that it has not used: a chunk a thread adds up."""
        del state.buffer[state.offset:]

    def mark(self) -> int:
        """Return where a recorder's part of the launches begins, if it begins now."""
        # Before the counts: a launch that begins later is written later.
        began = self.clock()
        self.marks.append((began, {state: state.count() for state in list(self.states)}))
        return len(self.marks)

    def columns(self, since: int = 0) -> LaunchColumns:
        """Return the kept launches that began at or after the mark `since`, or all of them."""
        began, counts = self.marks[since - 1] if since else (None, {})
        return joined([thread_columns(state.thread_id, state.chunks(counts.get(state, 0)), self.record, began)
                       for state in list(self.states)])

    def lost(self, since: int = 0) -> int:
        """Return 0: every launch is kept."""
        return 0


class ThreadState:
    """One thread's launch records and the launch it is in the middle of.

    Parameters
    ----------
    thread_id : int
        The thread's row.
    record : struct.Struct
        Layout of one launch record.

    Attributes
    ----------
    full : list of bytearray
        The chunks that are full and that nobody has taken.
    when_full : callable or None
        Called with the state when a chunk has filled up: it may take what is in `full`.
    """

    __slots__ = ("buffer", "compilation", "dispatch_end", "full", "ident", "kernel", "launch_config", "lock_asked",
                 "lock_held", "name", "offset", "record", "submit_end", "submit_start", "thread_id", "when_full")

    def __init__(self, thread_id: int, record: struct.Struct = PHASES) -> None:
        thread = threading.current_thread()
        self.thread_id = thread_id
        self.ident = thread.ident or 0
        self.name = thread.name
        self.record = record
        self.full: list[bytearray] = []
        self.when_full: Callable[[ThreadState], None] | None = None
        self.buffer = bytearray(record.size * RECORDS_A_CHUNK)
        self.offset = 0
        self.forget()

    def forget(self) -> None:
        """Drop what the launch under way has left here."""
        self.launch_config: Any = None
        self.kernel: Any = None
        self.compilation: Any = None
        self.lock_asked = self.lock_held = UNKNOWN
        self.dispatch_end = self.submit_start = self.submit_end = float(UNKNOWN)

    def write(self, start: float, dispatch_end: float, submit_start: float, submit_end: float, end: float,
              target: int, configuration: int) -> None:
        """Append one launch, times in seconds; with `ENDS` the three inner boundaries are left out."""
        record, pack = self.record, self.record.pack_into
        values: tuple[float, ...] = (start, dispatch_end, submit_start, submit_end, end)
        if record is not PHASES:
            values = start, end
        size, room, chunk = record.size, len(self.buffer), bytearray(record.size * RECORDS_A_CHUNK)
        before = self.full
        # From here to `pack` nothing is called, so that neither another thread nor a signal handler comes between.
        if self.offset >= room:
            self.full, self.buffer, self.offset = [*self.full, self.buffer], chunk, 0
        buffer, offset = self.buffer, self.offset
        self.offset = offset + size
        self.launch_config = None  # says that it is written
        pack(buffer, offset, *values, target, configuration)
        if self.full is not before and self.when_full is not None:
            self.when_full(self)

    def count(self) -> int:
        """Records written so far, without those that were taken."""
        full, offset = self.full, self.offset  # no call in between: a chunk cannot fill up here
        return len(full) * RECORDS_A_CHUNK + min(offset // self.record.size, RECORDS_A_CHUNK)

    def records(self, first: int = 0) -> bytes:
        """The records from number `first` on, as bytes of `record`."""
        return b"".join(self.chunks(first))

    def chunks(self, first: int = 0) -> list[bytearray]:
        """The same in parts; those that are full are the thread's own."""
        full, buffer, offset = self.full, self.buffer, self.offset
        skip, rest = divmod(first, RECORDS_A_CHUNK)
        found = [*full, buffer[:offset]][skip:]
        return [found[0][rest * self.record.size:], *found[1:]] if found and rest else found


def packing(log: LaunchLog) -> tuple[Callable[..., None], int, int]:
    """Return how a hook may write to a state of the log itself, without a call of the state's `write`.

    Returns
    -------
    tuple of callable, int and int
        What packs a record into `ThreadState.buffer` at `ThreadState.offset`, a record's size, and the offset of a
        chunk that is full, with which the hook must call `write`.

    Raises
    ------
    TypeError
        The log's backend is not ``python``: its states have `write` only.
    """
    if not isinstance(log, PythonLog):
        raise TypeError(f"records are packed into the log of the backend 'python' only, not {log.backend!r}: "
                        "call the state's write()")
    return log.record.pack_into, log.record.size, log.record.size * RECORDS_A_CHUNK


def thread_columns(thread_id: int, chunks: Sequence[bytes | bytearray], layout: struct.Struct,
                   began: int | None = None) -> LaunchColumns:
    """Return one thread's records as columns, in order of start: those that began at or after `began`."""
    dtype = PHASES_DTYPE if layout is PHASES else ENDS_DTYPE
    names = dtype.names or ()
    count = sum(map(len, chunks)) // layout.size
    found: LaunchColumns = {
        "thread_id": np.full(count, thread_id, np.int32),
        **{f"{name}_ns": np.empty(count, np.int64) if name in names else np.full(count, UNKNOWN) for name in _TIMES},
        **{name: np.empty(count, np.int32) for name in _IDS},
    }
    start, first = found["start_ns"], 0
    # A chunk stays in the processor's caches from the first column to the last.
    for chunk in chunks:
        rows = np.frombuffer(chunk, dtype)
        part = slice(first, first + len(rows))
        first = part.stop
        for name in names[:-2]:
            # A boundary that the launch did not pass still holds that of the thread's launch before.
            least = 0 if name in ("start", "end") else start[part]
            _nanoseconds(rows[name], found[f"{name}_ns"][part], least)
        for name in _IDS:
            found[name][part] = rows[name]
    if began is not None and np.any(start < began):
        found = {name: values[start >= began] for name, values in found.items()}
        start = found["start_ns"]
    if np.any(start[1:] < start[:-1]):  # a launch within a launch is written first
        order = np.argsort(start, kind="stable")
        found = {name: values[order] for name, values in found.items()}
    return found


def starts_of(records: bytes | bytearray, layout: struct.Struct) -> np.ndarray:
    """Return when the launches of these records began (ns)."""
    seconds = np.frombuffer(records, PHASES_DTYPE if layout is PHASES else ENDS_DTYPE)["start"]
    times = np.empty(len(seconds), np.int64)
    _nanoseconds(seconds, times, 0)
    return times


def joined(parts: list[LaunchColumns]) -> LaunchColumns:
    """Return the launches of all parts, one after another."""
    if len(parts) == 1:
        return parts[0]
    parts = [thread_columns(UNKNOWN, (), PHASES), *parts]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _nanoseconds(seconds: np.ndarray, times: np.ndarray, least: Any) -> None:
    """Fill `times` with nanoseconds, and with -1 where they are less than `least`."""
    values = seconds * 1e9
    times[:] = np.rint(values, out=values)
    np.copyto(times, UNKNOWN, where=times < least)


def from_signal_handler(error: BaseException) -> bool:
    """Whether an exception came out of the user's signal handler, which ran in the middle of our code."""
    handlers = {_code_of(signal.getsignal(number)) for number in signal.valid_signals()} - {None}
    entry = error.__traceback__
    while entry is not None:
        if entry.tb_frame.f_code in handlers:
            return True
        entry = entry.tb_next
    return False


def _code_of(handler: Any) -> CodeType | None:
    while isinstance(handler, functools.partial):
        handler = handler.func
    function = getattr(handler, "__func__", handler)
    if not hasattr(function, "__code__"):
        function = vars(type(function)).get("__call__")
    return getattr(function, "__code__", None)


# The log in Python with a bound: it keeps the newest launches or the first ones, by the order in which they began.
#
# The hooks know nothing of it. Whenever a thread's chunk is full, chunks of which every launch is certain to be
# lost are dropped, whichever thread's they are; which of the rest are kept is decided when they are read. So what
# is in memory is the capacity and about two chunks a thread.

class Chunk(NamedTuple):
    """Launches of one thread that are no longer written to, and when the first and the last of them began (ns)."""

    thread_id: int
    records: bytes | bytearray
    launches: int
    first: int
    last: int


class BoundedLog(PythonLog):
    """Keeps `capacity` launches: the newest or the first.

    Parameters
    ----------
    clock : callable
        The host clock, in nanoseconds.
    detail : str
        ``phases`` for every phase boundary of a launch, ``launch`` for its two ends.
    mode : str
        ``ring`` for the newest launches, ``stop`` for the first.
    capacity : int
        How many.
    """

    def __init__(self, clock: Clock = now, detail: str = "phases", mode: str = "ring", capacity: int = 1) -> None:
        super().__init__(clock, detail)
        self.mode = mode
        self.capacity: int | None = capacity
        self._most = capacity
        self._lock = threading.RLock()
        self._taking = False
        self._filled: list[ThreadState] = []
        self._chunks: list[Chunk] = []
        # How many were dropped that began before the first mark, after it, after the second, ...
        self._dropped: list[int] = []

    def new_state(self, thread_id: int) -> ThreadState:
        """Return the state of the calling thread, which is row `thread_id` of the threads."""
        state = super().new_state(thread_id)
        state.when_full = self._take
        return state

    def thread_ended(self, state: ThreadState) -> None:
        """Take what the thread has written."""
        super().thread_ended(state)
        if state.offset and not sys.is_finalizing():
            state.full, state.buffer, state.offset = [*state.full, state.buffer], bytearray(), 0
            self._take(state)

    def mark(self) -> int:
        """Return where a recorder's part of the launches begins, if it begins now."""
        with self._lock:
            self.marks.append((self.clock(), {}))
            return len(self.marks)

    def columns(self, since: int = 0) -> LaunchColumns:
        """Return the kept launches that began at or after the mark `since`, or all of them; in order of start."""
        held = joined([thread_columns(thread, [records], self.record) for thread, records in self._held()[0]])
        kept = self._kept(held["start_ns"], since)
        return {name: values[kept] for name, values in held.items()}

    def lost(self, since: int = 0) -> int:
        """Return how many launches that began at or after the mark `since` were not kept, or how many of all."""
        pieces, dropped = self._held()
        start = np.concatenate([np.empty(0, np.int64), *(starts_of(records, self.record) for _, records in pieces)])
        of_part = len(start) if not since else int(np.count_nonzero(start >= self.marks[since - 1][0]))
        return sum(dropped[since:]) + of_part - len(self._kept(start, since))

    def _kept(self, start: np.ndarray, since: int) -> np.ndarray:
        """The places of the launches to keep, in order of start."""
        order = np.argsort(start, kind="stable")
        order = order[-self._most:] if self.mode == "ring" else order[:self._most]
        return order if not since else order[start[order] >= self.marks[since - 1][0]]

    def _held(self) -> tuple[list[tuple[int, bytes | bytearray]], list[int]]:
        """Thread ids and records of all launches that are in memory, and how many are not."""
        with self._lock:
            return [*((chunk.thread_id, chunk.records) for chunk in self._chunks),
                    *((state.thread_id, state.records()) for state in list(self.states))], list(self._dropped)

    def _take(self, state: ThreadState) -> None:
        """Take the chunks that the thread has filled, and drop those that are certain to be lost."""
        self._filled.append(state)
        # Whoever is busy with it, or the next one, takes them; or this is a signal handler in the middle of just that.
        if not self._lock.acquire(blocking=False):
            return
        try:
            if not self._taking:
                self._taking = True
                try:
                    while self._filled:
                        self._move(self._filled.pop())
                    self._drop()
                finally:
                    self._taking = False
        finally:
            self._lock.release()

    def _move(self, state: ThreadState) -> None:
        while state.full:
            full = state.full
            chunks = [*self._chunks, *(self._chunk(state.thread_id, records) for records in full)]
            # If nobody has filled another one; nothing is called here, so that nobody comes between.
            state.full, self._chunks = ([], chunks) if state.full is full else (state.full, self._chunks)

    def _chunk(self, thread_id: int, records: bytearray) -> Chunk:
        start = starts_of(records, self.record)
        return Chunk(thread_id, records, len(start), int(start.min()), int(start.max()))

    def _drop(self) -> None:
        chunks = self._chunks
        first, last, counts = (np.array([getattr(chunk, name) for chunk in chunks], np.int64)
                               for name in ("first", "last", "launches"))
        if int(counts.sum()) <= self._most:
            return
        # A chunk is lost if as many launches as are kept began after its last one, or before its first one.
        outside = _counted(-first, counts, -last) if self.mode == "ring" else _counted(last, counts, first)
        lost = outside >= self._most
        if not lost.any():
            return
        times = np.array([began for began, _ in self.marks], np.int64)
        start = np.concatenate([starts_of(chunks[at].records, self.record) for at in np.flatnonzero(lost).tolist()])
        parts = np.bincount(np.searchsorted(times, start, side="right")).tolist()
        dropped = [before + more for before, more in zip_longest(self._dropped, parts, fillvalue=0)]
        kept = [chunk for chunk, is_lost in zip(chunks, lost.tolist(), strict=True) if not is_lost]
        self._chunks, self._dropped = kept, dropped  # both or none, if a signal handler raises


def _counted(keys: np.ndarray, counts: np.ndarray, limits: np.ndarray) -> np.ndarray:
    """For each limit the sum of the counts whose key is below it."""
    order = np.argsort(keys)
    sums = np.concatenate([[0], np.cumsum(counts[order])])
    return sums[np.searchsorted(keys[order], limits, side="left")]


# How launches are to be kept, as a recorder is asked for it, and the log that keeps them so.

BACKENDS = ("native", "python")
#: Says what a recorder without a backend takes: ``native`` or ``python``.
VARIABLE = "KERNELSCOPE_RECORDER"


def make_log(backend: str | None, mode: str, capacity: int | None, detail: str, clock: Clock,
             path: Path | None = None) -> LaunchLog:
    """Return the log of a recording session: see `kernelscope.recorder.options` for what it is asked for.

    The native recorder keeps launches in a new file where it is given a `path`.

    Raises
    ------
    OSError
        The file cannot be made.
    KernelScopeError
        The native recorder is asked for, by `backend` or by the environment, and is not there; or the environment asks
        for what there is not.
    """
    if chosen(backend) == "native":
        if native.core is None:
            raise KernelScopeError(f"the native recorder cannot be used: {native.why_missing()}; "
                                   "or record with backend='python'")
        from kernelscope.native.ring import NativeLog

        return NativeLog(clock, detail, mode, capacity, path)
    if mode == "grow" or capacity is None:
        return PythonLog(clock, detail)
    return BoundedLog(clock, detail, mode, capacity)


def chosen(backend: str | None) -> str:
    """Return which recorder records: as asked for, else as the environment says, else the native one if it is there.

    Raises
    ------
    KernelScopeError
        The environment asks for what there is not.
    """
    if backend is not None:
        return backend
    wanted = os.environ.get(VARIABLE)
    if wanted and wanted not in BACKENDS:
        raise KernelScopeError(f"the environment's {VARIABLE}={wanted!r} is not one of {', '.join(BACKENDS)}")
    return wanted or ("python" if native.core is None else "native")

