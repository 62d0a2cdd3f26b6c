"""The events of graphs as they are written down, each once."""

from __future__ import annotations

from typing import Any

from kernelscope.probes.cuda_core.calls import Call
from kernelscope.probes.cuda_core.driver import SUCCESS, Driver
from kernelscope.probes.cuda_core.holding import Held
from kernelscope.probes.cuda_core.lives import Event, Executable, Row
from kernelscope.probes.sink import Sink


class EventLog:
    """Writes events to the sink.

    Parameters
    ----------
    sink : Sink
        Where their rows go.
    driver : Driver
        Who knows what errors are called.

    Attributes
    ----------
    events : list of Event
        All of them, as they happened.
    """

    def __init__(self, sink: Sink, driver: Driver) -> None:
        self._sink = sink
        self._driver = driver
        self.events: list[Event] = []

    def add(self, kind: str, call: Call, *, held: Held | None = None, source: Event | None = None,
            executable: Executable | None = None, **more: Any) -> Event:
        """Write down what a call did; a call that is heard of twice is the same event."""
        for written in reversed(self.events[-8:]):  # an interruption came after it had been written down
            row = written.row
            if row["start_ns"] == call.start_ns and row["thread_ident"] == call.ident and row["kind"] == kind:
                return written
        event = Event({"kind": kind, "thread_ident": call.ident, "start_ns": call.start_ns, "end_ns": call.end_ns,
                       "api": call.api, **self.outcome(call.result), "correlation_id": call.correlation_id or None,
                       **more})
        event.held, event.source, event.executable = held, source, executable
        self.write(event)
        return event

    def add_earlier(self, kind: str, **more: Any) -> Event:
        """Write down what happened before recording began; nobody knows when."""
        event = Event({"kind": kind, "thread_ident": None, "start_ns": None, "end_ns": None, "outcome": "ok", **more})
        self.write(event)
        return event

    def write(self, event: Event) -> None:
        """Have the event's row in the sink, and its position in the event."""
        rows = self._sink.graphs.events
        event.position = len(rows)
        rows.append(event.row)
        self.events.append(event)

    def outcome(self, result: int) -> Row:
        """Return what came of a call, as columns."""
        if result == SUCCESS:
            return {"outcome": "ok", "error": None}
        return {"outcome": "failed", "error": self._driver.error_name(result)}
