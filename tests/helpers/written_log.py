"""A log whose states nobody can pack records into, as those of the native recorder are: they have `write` alone."""

from __future__ import annotations

from typing import Any

from kernelscope.clock import Clock, now
from kernelscope.probes.launch_log import LaunchColumns, PythonLog, ThreadState


class WrittenState:
    """What a hook may use of a thread's state."""

    __slots__ = ("_state", "compilation", "dispatch_end", "ident", "kernel", "launch_config", "lock_asked", "lock_held",
                 "name", "submit_end", "submit_start", "thread_id")

    def __init__(self, state: ThreadState) -> None:
        self._state = state
        self.thread_id, self.ident, self.name = state.thread_id, state.ident, state.name
        self.forget()

    def forget(self) -> None:
        """Drop what the launch under way has left here."""
        for name in ("launch_config", "kernel", "compilation"):
            setattr(self, name, None)
        self.lock_asked = self.lock_held = -1
        self.dispatch_end = self.submit_start = self.submit_end = -1.0

    def write(self, *values: Any) -> None:
        """Append one launch."""
        self._state.write(*values)
        self.launch_config = None

    def count(self) -> int:
        """Launches written so far."""
        return self._state.count()


class WrittenLog:
    """Keeps every launch in a `PythonLog` that hooks do not see."""

    def __init__(self, clock: Clock = now, detail: str = "phases") -> None:
        self.backend, self.mode = "native", "grow"
        self.capacity: int | None = None
        self._log = PythonLog(clock, detail)

    def new_state(self, thread_id: int) -> Any:
        """Return the state of the calling thread."""
        return WrittenState(self._log.new_state(thread_id))

    def thread_ended(self, state: Any) -> None:
        """Do nothing."""

    def mark(self) -> int:
        """Return where a recorder's part begins."""
        return self._log.mark()

    def columns(self, since: int = 0) -> LaunchColumns:
        """Return the launches."""
        return self._log.columns(since)

    def lost(self, since: int = 0) -> int:
        """Return 0."""
        return 0
