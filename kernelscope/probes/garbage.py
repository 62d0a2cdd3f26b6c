"""The probe of Python's garbage collector: when each collection was, through ``gc.callbacks``."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable
from typing import Any

from kernelscope.clock import now
from kernelscope.native import core
from kernelscope.probes.base import Probe
from kernelscope.probes.sink import Sink

#: The list that the collector itself goes by, also where the attribute is bound to another one.
_CALLBACKS: list[Callable[..., Any]] = gc.callbacks


class GarbageProbe(Probe):
    """Puts a callback in C into ``gc.callbacks``: one in Python would lose a Ctrl-C, which the collector swallows.

    Launches run through no hook of it.
    """

    name = "gc"

    def __init__(self) -> None:
        super().__init__()
        self._callback: core.Collections | None = None
        self._was_there = False

    def install(self, sink: Sink, detail: str) -> None:
        """Record collections from now on. See `ProbeProtocol.install`."""
        self.sink = sink
        self.is_installed = True
        # Before it is called: what a Ctrl-C interrupts is undone too.
        sink.collections = self._callback = core.Collections(None if sink.clock is now else sink.clock)
        _CALLBACKS.append(self._callback)

    def uninstall(self) -> None:
        """Take the callback out, and say so where somebody else had done that. See `ProbeProtocol.uninstall`."""
        self.is_installed = False
        if self._callback is None or self.sink is None:
            return
        self._was_there = self._was_there or self._place() is not None
        while (place := self._place()) is not None:
            del _CALLBACKS[place]
        self._report_removal(self.sink)
        self._callback = None

    def describe(self, sink: Sink, used: Iterable[tuple[int, int]]) -> None:
        """Say where collections are missing. See `ProbeProtocol.describe`."""
        if self._callback is not None and self._place() is None:  # a recorder inside another one stops
            self._report_removal(sink)
        held = sink.collections
        if held is not None and held.dropped:
            sink.stated[self.name] = {
                "probe": self.name, "status": "degraded", "dropped": held.dropped,
                "message": f"kept the first {len(held):,} collections of garbage of {len(held) + held.dropped:,}"}

    def _report_removal(self, sink: Sink) -> None:
        if not self._was_there:
            sink.stated.setdefault(self.name, {
                "probe": self.name, "status": "degraded",
                "message": "gc.callbacks was emptied during the recording: collections of garbage after that are not "
                           "recorded",
                "fix": "remove callbacks of your own only, with gc.callbacks.remove(callback)"})

    def _place(self) -> int | None:
        """Return where the callback is in the list; compared by identity, for another's ``==`` may say anything."""
        return next((place for place, each in enumerate(_CALLBACKS) if each is self._callback), None)
