"""Who is told of the driver's own calls, and who tells: one probe has the driver's callbacks, another wants them.

CUPTI has one subscriber a process, which is `kernelscope.probes.cupti`'s; in a dry run the null driver calls back. Both
hand over the address of what CUPTI calls ``CUpti_CallbackData``, before and after a call that is watched.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable
from typing import Protocol

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
