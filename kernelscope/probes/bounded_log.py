"""The log in Python with a bound: it keeps the newest launches or the first ones, by the order in which they began.

The hooks know nothing of it. Whenever a thread's chunk is full, chunks of which every launch is certain to be lost are
dropped, whichever thread's they are; which of the rest are kept is decided when they are read. So what is in memory is
the capacity and about two chunks a thread.
"""

from __future__ import annotations

import sys
import threading
from itertools import zip_longest
from typing import NamedTuple

import numpy as np

from kernelscope.clock import Clock, now
from kernelscope.probes.launch_log import (
    LaunchColumns,
    PythonLog,
    ThreadState,
    joined,
    starts_of,
    thread_columns,
)


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
