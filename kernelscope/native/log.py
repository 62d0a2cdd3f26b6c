"""The launch log: slots that hooks in C write to, in memory or in a journal's file, read as columns at stop."""

from __future__ import annotations

import functools
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from types import CodeType
from typing import Any, TypeVar

import numpy as np

from kernelscope.clock import Clock, now
from kernelscope.native import core
from kernelscope.schema import UNKNOWN

Given = TypeVar("Given")

#: Launches, one value each in every array: ``site``, ``target`` and ``configuration`` (int32); ``start_ns``,
#: ``dispatch_end_ns``, ``submit_start_ns``, ``submit_end_ns`` and ``end_ns`` (int64; -1: unknown); in the order in
#: which they began.
LaunchColumns = dict[str, np.ndarray]

#: Bits of a mark that count launches; those above count the ones that found no room.
_COUNT_BITS = 64


class LaunchLog:
    """Keeps the launches of one recording session.

    Parameters
    ----------
    clock : callable
        The host clock, in nanoseconds; any other than the usual one is called through Python.
    detail : str
        ``phases`` for every phase boundary of a launch, ``launch`` for its two ends.
    mode : str
        ``grow`` keeps every launch, ``ring`` the newest, ``stop`` the first; by the order in which they began.
    capacity : int, optional
        How many launches the modes ``ring`` and ``stop`` keep.
    path : Path, optional
        Of the file that launches are kept in; it must not exist.

    Attributes
    ----------
    ring : kernelscope.native._core.Ring
        What the hooks write to.

    Raises
    ------
    OSError
        The file cannot be made, or the disk has no room for it.
    """

    def __init__(self, clock: Clock = now, detail: str = "phases", mode: str = "grow", capacity: int | None = None,
                 path: Path | None = None) -> None:
        self.mode = mode
        self.capacity = capacity
        self.ring = core.Ring(mode=mode, capacity=capacity or 0, path=path, phases=detail == "phases",
                              clock=None if clock is now else clock)

    def serve(self, state: Callable[[], ThreadState], site: Callable[[CodeType, int], int] | None = None,
              stack: Callable[[list[tuple[CodeType, int]]], int] | None = None) -> None:
        """Have hooks ask `state` for a thread's state when they first meet the thread, the others for lines.

        Parameters
        ----------
        state : callable
            Returns the calling thread's state.
        site : callable, optional
            Given a code object and an offset in it, as a frame has them, returns an id; `NOT_THE_USERS`; or one that
            holds if no frame around it is the user's, counted down from `IF_NO_OTHER`. Without it lines are not
            recorded.
        stack : callable, optional
            Given such pairs of all frames of a call path, innermost first, of a deep one the `core.MOST_FRAMES`
            innermost, returns an id or `NOT_THE_USERS`. Without it call paths are not recorded.
        """
        self.ring.new_state = _ours_is(None, state)  # the launch is not recorded
        if site is not None:
            self.ring.new_site = _ours_is(NOT_THE_USERS, site)
        if stack is not None:
            self.ring.new_stack = _ours_is(NOT_THE_USERS, stack)

    def hook(self, kind: str, original: Callable[..., Any], begin: Callable[..., Any] | None = None,
             end: Callable[..., Any] | None = None, most: int = 0, tools: tuple[Any, ...] = ()) -> Any:
        """Return a hook that writes to this log. See `kernelscope.native._core.Hook`."""
        return core.Hook(kind, original, self.ring, begin, end, most, tools)

    def new_state(self, thread_id: int, site: int) -> ThreadState:
        """Return the state of the calling thread, which is row `thread_id` of the threads; `site` is its own id."""
        state = ThreadState(self.ring, site)
        state.thread_id = thread_id
        return state

    def mark(self) -> int:
        """Return where a recorder's part of the launches begins, if it begins now."""
        begun, lost = self.ring.mark()
        return begun + (lost << _COUNT_BITS)

    def columns(self, since: int = 0) -> LaunchColumns:
        """Return the kept launches that began at or after the mark `since`, or all of them."""
        found: dict[str, bytearray] = self.ring.columns(since % (1 << _COUNT_BITS))
        numbers = np.frombuffer(found.pop("number", b""), np.int64)
        columns = {name: np.frombuffer(column, np.int64 if name.endswith("_ns") else np.int32)
                   for name, column in found.items()}
        if np.all(numbers[1:] > numbers[:-1]):
            return columns
        order = np.argsort(numbers)  # a launch that lasted was passed over: newer ones come before it
        return {name: values[order] for name, values in columns.items()}

    def leave_file(self) -> None:
        """Let go of the file that launches are kept in, with what is in it; they cannot be read any more."""
        self.ring.leave_file()

    def lost(self, since: int = 0) -> int:
        """Return how many launches that began at or after the mark `since` were not kept, or how many of all."""
        lost_before, first = divmod(since, 1 << _COUNT_BITS)
        if self.mode != "ring" and self.ring.harm != "truncated":  # what has a slot keeps it
            return self.ring.mark()[1] - lost_before
        ended, under_way, voided, begun, lost = self.ring.counts(first)
        return begun - first - ended - under_way - voided + lost - lost_before


class ThreadState(core.State):
    """One thread's launch under way. Its times and what it launches are C's: see `kernelscope.native._core.State`."""

    __slots__ = ("compilation", "ident", "lock_asked", "lock_held", "name", "thread_id")

    def __init__(self, ring: core.Ring, site: int) -> None:
        self.thread_id = UNKNOWN
        thread = threading.current_thread()
        self.ident = thread.ident or 0
        self.name = thread.name
        self.forget()

    def forget(self) -> None:
        """Drop what the launch under way has left here."""
        super().forget()
        self.compilation: Any = None
        self.lock_asked = self.lock_held = UNKNOWN


#: What a site's id is where the code is not the user's; from where on ids count that hold if no other is; and where no
#: line at all holds then.
NOT_THE_USERS, IF_NO_OTHER, NO_LINE = -1, -2, -(1 << 31)


def _ours_is(otherwise: Any, call: Callable[..., Given]) -> Callable[..., Given]:
    """Return `call` with `otherwise` in the place of what it raises, unless a signal handler of the user's did."""
    def called(*args: Any) -> Given:
        try:
            return call(*args)
        except Exception as problem:
            if from_signal_handler(problem):  # the user's
                raise
            return otherwise

    return called


def from_signal_handler(error: BaseException) -> bool:
    """Return whether an exception was raised by a signal handler of the user that interrupted our code."""
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
