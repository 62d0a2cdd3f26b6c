"""The shipped test double: a probe that emits given events, at given times, with no framework behind it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from kernelscope.probes.base import Probe
from kernelscope.probes.sink import Sink
from kernelscope.schema import UNKNOWN


@dataclass(frozen=True)
class Launch:
    """One launch to emit.

    Attributes
    ----------
    kernel : str
        The kernel function's name.
    signature : str or None
        Argument types; None for a launch that fails before a specialization is found.
    start_ns : int
        When the launch call is entered.
    phases_ns : sequence of int
        Durations of dispatch, prepare, submit and finish; one value alone is a launch without boundaries.
    griddim, blockdim : tuple of int
        The launch configuration.
    sharedmem_bytes, stream : int
        Dynamic shared memory a block, and the stream's handle.
    error : str or None
        Type of the exception that ends it.
    """

    kernel: str = "kernel"
    signature: str | None = "(array(float32, 1d, C), int64)"
    start_ns: int = 0
    phases_ns: Sequence[int] = (4_000, 3_000, 2_000, 1_000)
    griddim: tuple[int, ...] = (1,)
    blockdim: tuple[int, ...] = (32,)
    sharedmem_bytes: int = 0
    stream: int = 0
    error: str | None = None


@dataclass(frozen=True)
class Compile:
    """One compile or disk-cache load to emit; `attributes` are further columns of ``compilations``."""

    kernel: str = "kernel"
    signature: str = "(array(float32, 1d, C), int64)"
    start_ns: int = 0
    duration_ns: int = 1_000_000
    outcome: str = "compiled"
    trigger: str = "launch"
    attributes: dict[str, Any] = field(default_factory=dict)


class ScriptedProbe(Probe):
    """Emits `Launch` and `Compile` events when told to, or all of a script when it is installed.

    Parameters
    ----------
    script : sequence of Launch or Compile
        Emitted in this order at `install`.
    fail : str or None
        The name of a method (``install``, ``describe``, ``synchronize``) that raises, for tests of failures.
    """

    name = "scripted"

    def __init__(self, script: Sequence[Launch | Compile] = (), fail: str | None = None) -> None:
        super().__init__()
        self._script = list(script)
        self._fail = fail

    def install(self, sink: Sink, detail: str) -> None:
        """Emit the script. See `ProbeProtocol.install`."""
        self._fail_if("install")
        self.sink = sink
        for event in self._script:
            self.emit(event)

    def emit(self, event: Launch | Compile) -> None:
        """Write one event to the session's sink, as of the calling thread."""
        if self.sink is None:
            raise RuntimeError("the scripted probe is not installed")
        if isinstance(event, Launch):
            self._launch(self.sink, event)
        else:
            self._compile(self.sink, event)

    def uninstall(self) -> None:
        """Forget the sink. See `ProbeProtocol.uninstall`."""
        self.sink = None

    def synchronize(self) -> str | None:
        """Have nothing to wait for. See `ProbeProtocol.synchronize`."""
        self._fail_if("synchronize")
        return None

    def describe(self, sink: Sink, used: Iterable[tuple[int, int]]) -> None:
        """Give every specialization 32 registers. See `ProbeProtocol.describe`."""
        self._fail_if("describe")
        for row in sink.specializations.rows:
            row.setdefault("regs", 32)

    def _fail_if(self, method: str) -> None:
        if self._fail == method:
            raise RuntimeError(f"scripted failure in {method}")

    def _launch(self, sink: Sink, event: Launch) -> None:
        dispatcher = _dispatcher(sink, event.kernel)
        specialization = UNKNOWN if event.signature is None else _specialization(sink, event.kernel, event.signature)
        device = sink.devices.intern(("scripted", 0), lambda: {
            "ordinal": 0, "name": "scripted", "compute_capability": "9.0", "multiprocessors": 132,
            "max_threads_per_multiprocessor": 2048,
        })
        target = sink.target(dispatcher, specialization, device, event.error)
        configuration = sink.configuration(event.griddim, event.blockdim, event.sharedmem_bytes, event.stream)
        ends = [event.start_ns]
        for duration in event.phases_ns:
            ends.append(ends[-1] + duration)
        dispatched, submitted, returned = (*ends[1:4], UNKNOWN, UNKNOWN, UNKNOWN)[:3] if len(ends) == 5 else (
            UNKNOWN, UNKNOWN, UNKNOWN)
        sink.launch(event.start_ns, ends[-1], target, configuration, dispatch_end_ns=dispatched,
                    submit_start_ns=submitted, submit_end_ns=returned)

    def _compile(self, sink: Sink, event: Compile) -> None:
        specialization = None
        if event.outcome != "failed":
            specialization = _specialization(sink, event.kernel, event.signature, event.outcome)
        sink.compilations.append({
            "dispatcher_id": _dispatcher(sink, event.kernel), "specialization_id": specialization,
            "thread_id": sink.state().thread_id, "trigger": event.trigger, "signature": event.signature,
            "start_ns": event.start_ns, "end_ns": event.start_ns + event.duration_ns, "outcome": event.outcome,
            **event.attributes,
        })


def _dispatcher(sink: Sink, kernel: str) -> int:
    return sink.dispatchers.intern(("scripted", kernel), lambda: {
        "framework": "scripted", "name": kernel, "module": "__main__", "filename": "script.py", "lineno": 1,
    })


def _specialization(sink: Sink, kernel: str, signature: str, outcome: str = "before") -> int:
    return sink.specializations.intern(("scripted", kernel, signature), lambda: {
        "dispatcher_id": _dispatcher(sink, kernel), "signature": signature, "compute_capability": "9.0",
        "origin": "before" if outcome == "wait" else outcome,
    })
