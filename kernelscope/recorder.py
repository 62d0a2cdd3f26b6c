"""Recording: start and stop, cells, nested recordings; it ends in a `Recording`.

There is one active session a process: it holds the installed probes and their buffers. The first recorder that
starts opens it, recorders inside join it and take their part of the same buffers, the last one to stop closes it.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import os
import platform
import sys
import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, TypeVar, overload

import numpy as np

from kernelscope import dryrun
from kernelscope.analysis.reasons import explain
from kernelscope.clock import Clock, align, now
from kernelscope.errors import RecorderStateError
from kernelscope.probes import base
from kernelscope.probes.base import DETAILS, Probe
from kernelscope.probes.numba_cuda import NumbaCudaProbe
from kernelscope.probes.simulator import SimulatorProbe
from kernelscope.probes.sink import Sink, ThreadState
from kernelscope.recording.builder import ENDS_DTYPE, PHASES_DTYPE, RawRecording, build
from kernelscope.recording.model import Recording
from kernelscope.recording.select import keep_used
from kernelscope.schema import SCHEMA_VERSION

Function = TypeVar("Function", bound=Callable[..., Any])

_PACKAGES = ("kernelscope", "numba-cuda", "numba", "cuda-core", "cuda-bindings", "numpy", "ipython")


class Recorder:
    """Records the launches of this process between `start` and `stop`; a context manager for one block.

    Parameters
    ----------
    name : str, optional
        What to call the recording.
    detail : str
        ``phases`` records every phase boundary of a launch, ``launch`` its two ends at less than half the cost.
    synchronize : bool
        Whether to wait for the device before stopping.
    probes : sequence of Probe, optional
        Instead of every probe that there is; for tests.
    clock : callable
        The host clock, in nanoseconds; for tests.

    Raises
    ------
    ValueError
        `detail` is neither of the two.
    """

    def __init__(self, name: str | None = None, *, detail: str = "phases", synchronize: bool = True,
                 probes: Sequence[Probe] | None = None, clock: Clock = now) -> None:
        if detail not in DETAILS:
            raise ValueError(f"detail {detail!r} is not one of {', '.join(DETAILS)}")
        self.name = name
        self.detail = detail
        self._synchronize = synchronize
        self._probes = probes
        self._clock = clock
        self._session: _Session | None = None
        self._part: _Part | None = None
        self._cells: list[dict[str, Any]] = []
        self._notes: list[dict[str, Any]] = []
        self._recording: Recording | None = None

    @property
    def recording(self) -> Recording:
        """The finished recording; raises `RecorderStateError` before `stop`."""
        if self._recording is None:
            raise RecorderStateError("the recording is not finished: it is there after stop(), or after the block")
        return self._recording

    @property
    def is_recording(self) -> bool:
        """Whether it has started and not stopped."""
        return self._session is not None

    def start(self) -> Recorder:
        """Hook the frameworks, or join the recording that is under way; return self.

        Raises
        ------
        RecorderStateError
            It was started before: a recorder records once.
        """
        if self._session is not None or self._recording is not None:
            raise RecorderStateError("this recorder was started before: make a new one for another recording")
        self._session, self._part = _Session.join(self.detail, self._probes, self._clock)
        if self.detail != self._session.sink.detail:
            self._notes.append({"probe": "recorder", "status": "degraded",
                                "message": f"recorded with detail {self._session.sink.detail!r}, as the recording "
                                           f"around it, not {self.detail!r}"})
        return self

    def stop(self) -> Recording:
        """Wait for the device, undo the hooks if this was the last recorder, and return the recording.

        Raises
        ------
        RecorderStateError
            It is not recording.
        """
        session, part = self._session, self._part
        if session is None or part is None:
            raise RecorderStateError("stop() without start(): this recorder is not recording")
        try:
            if self._cells and "end_ns" not in self._cells[-1]:
                self.end_cell()
            if self._synchronize:
                self._wait(session)
        finally:
            self._session = None
            alone = session.leave()
        recording = build(_raw(self, session, part))
        self._recording = explain(recording if alone else keep_used(recording))
        return self._recording

    def begin_cell(self, name: str | None = None, *, execution_count: int | None = None,
                   source: str | None = None) -> None:
        """Say that a cell's code begins to run now."""
        self._cells.append({
            "name": name, "execution_count": execution_count, "source": source, "status": "ok",
            "source_sha256": None if source is None else hashlib.sha256(source.encode()).hexdigest(),
            "start_ns": self._clock(),
        })

    def end_cell(self, error: BaseException | None = None) -> None:
        """Say that the cell's code has ended, and with which exception."""
        if not self._cells or "end_ns" in self._cells[-1]:
            raise RecorderStateError("end_cell() without begin_cell()")
        cell = self._cells[-1]
        cell["end_ns"] = self._clock()
        if error is not None:
            cell["status"] = "interrupted" if isinstance(error, KeyboardInterrupt) else "error"
            cell["error"] = f"{type(error).__name__}: {error}"

    def attach(self, kernel: Any) -> None:
        """Record one kernel by its framework's documented means, where the probe could not hook all of them.

        Where everything is recorded anyway this does nothing. What is lost that way is said in ``health``.

        Raises
        ------
        RecorderStateError
            It is not recording.
        ProbeUnavailableError
            `kernel` is nothing that a probe can follow.
        """
        if self._session is None:
            raise RecorderStateError("attach(kernel) is for a recorder that has started")
        for probe in self._session.installed:
            probe.attach(kernel)

    def __enter__(self) -> Recorder:
        """Start, with one cell for the block."""
        self.start()
        self.begin_cell(self.name)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 traceback: TracebackType | None) -> None:
        """Stop; an exception of the block goes on without our hooks' frames in its traceback."""
        self.end_cell(error)
        if error is not None:
            error.__traceback__ = base.without_frames(traceback, frozenset(base.hook_codes))
        self.stop()

    def _wait(self, session: _Session) -> None:
        for probe in session.installed:
            try:
                problem = probe.synchronize()
            except Exception as error:
                session.sink.swallow(probe.name, error)
                continue
            if problem:
                self._notes.append({"probe": probe.name, "status": "degraded",
                                    "message": f"the device was not synchronized: {problem}"})
            elif self._cells:
                self._cells[-1]["synchronized_ns"] = self._clock()


def record(name: str | None = None, *, detail: str = "phases", synchronize: bool = True) -> Recorder:
    """Return a `Recorder` for a ``with`` block; after it, its ``recording`` is the `Recording`.

    >>> with kernelscope.record("warm-up") as r:  # doctest: +SKIP
    ...     kernel[1, 32](array)
    >>> r.recording.launches  # doctest: +SKIP
    """
    return Recorder(name, detail=detail, synchronize=synchronize)


@overload
def recorded(function: Function) -> Function: ...
@overload
def recorded(*, name: str | None = None, detail: str = "phases") -> Callable[[Function], Function]: ...
def recorded(function: Any = None, *, name: str | None = None, detail: str = "phases") -> Any:
    """Record every call of a function; the newest call's recording is its ``recording`` attribute.

    The function's result, exceptions and signature stay as they are.
    """
    if function is None:
        return functools.partial(recorded, name=name, detail=detail)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        recorder = Recorder(name or function.__qualname__, detail=detail)
        try:
            with recorder:
                return function(*args, **kwargs)
        finally:
            call.recording = recorder._recording  # type: ignore[attr-defined]

    call.recording = None  # type: ignore[attr-defined]
    return call


class _Session:
    """The installed probes and their sink, shared by the recorders that are nested in each other."""

    active: _Session | None = None
    lock = threading.RLock()

    def __init__(self, detail: str, probes: Sequence[Probe] | None, clock: Clock) -> None:
        self.sink = Sink(clock, detail)
        self.alignment = align(clock)
        self.installed: list[Probe] = []
        self.recorders = 0
        try:
            for probe in [NumbaCudaProbe(), SimulatorProbe()] if probes is None else probes:
                self._install(probe)
        except BaseException:
            self._uninstall()
            raise

    @classmethod
    def join(cls, detail: str, probes: Sequence[Probe] | None, clock: Clock) -> tuple[_Session, _Part]:
        """Return the active session, opening it if there is none, and the part of it that begins now."""
        with cls.lock:
            if cls.active is None:
                cls.active = cls(detail, probes, clock)
                part = _Part()  # what other threads launched since the first hook went in is of it
            else:
                part = _Part(cls.active.sink)
            cls.active.recorders += 1
            return cls.active, part

    def leave(self) -> bool:
        """Leave the session, closing it if nobody else is in it; return whether it was closed."""
        with _Session.lock:
            self.recorders -= 1
            if self.recorders:
                return False
            _Session.active = None
            self._uninstall()
            return True

    def describe(self, used: set[tuple[int, int]]) -> None:
        """Have the probes fill in what they ask only at stop."""
        for probe in self.installed:
            try:
                probe.describe(self.sink, used)
            except Exception as error:
                self.sink.swallow(probe.name, error)

    def _install(self, probe: Probe) -> None:
        try:
            probe.install(self.sink, self.sink.detail)
        except Exception as error:
            self.sink.health.append({"probe": probe.name, "status": "unavailable",
                                     "message": f"{type(error).__name__}: {error}"})
        else:
            self.installed.append(probe)

    def _uninstall(self) -> None:
        for probe in reversed(self.installed):
            try:
                probe.uninstall()
            except Exception as error:
                self.sink.swallow(probe.name, error)


class _Part:
    """Where a recorder's part of the session's buffers begins: at their start, or at what `sink` holds now."""

    def __init__(self, sink: Sink | None = None) -> None:
        self._records: dict[ThreadState, int] = {}
        self._compilations = self._passes = 0
        if sink is None:
            return
        with sink.lock:
            self._records = {state: state.count() for state in sink.threads}
            self._compilations = len(sink.compilations)
            self._passes = len(sink.passes)

    def launches(self, sink: Sink) -> list[tuple[int, np.ndarray]]:
        """Each thread's records of this part."""
        dtype = PHASES_DTYPE if sink.detail == "phases" else ENDS_DTYPE
        return [
            (state.thread_id, np.frombuffer(state.records(self._records.get(state, 0)), dtype=dtype))
            for state in list(sink.threads)
        ]

    def compilations(self, sink: Sink) -> list[dict[str, Any]]:
        """Compiles that ended in this part."""
        return [dict(row) for row in sink.compilations[self._compilations:]]

    def passes(self, sink: Sink) -> list[dict[str, Any]]:
        """Passes and phases of this part, referring to `compilations`' positions."""
        first = self._compilations
        return [
            {**row, "compilation_id": row["compilation_id"] - first}
            if row.get("compilation_id") is not None and row["compilation_id"] >= first else
            {**row, "compilation_id": None}
            for row in sink.passes[self._passes:]
        ]


def _raw(recorder: Recorder, session: _Session, part: _Part) -> RawRecording:
    """Everything that the builder needs, copied out of the session."""
    sink = session.sink
    launches = part.launches(sink)
    used: set[tuple[int, int]] = set()
    for _, block in launches:
        pairs = np.unique(block["target"].astype(np.int64) << 32 | block["configuration"])
        used.update((int(pair >> 32), int(pair & 0xFFFFFFFF)) for pair in pairs)
    session.describe(used)
    total = sum(len(block) for _, block in launches)
    raw = RawRecording(
        launches=launches,
        targets=list(sink.targets.rows),
        threads=[{"ident": state.ident, "name": state.name} for state in list(sink.threads)],
        cells=recorder._cells,
        dispatchers=[{**row, "filename": _shown_filename(row.get("filename"))} for row in sink.dispatchers.rows],
        specializations=list(sink.specializations.rows),
        configurations=list(sink.configurations.rows),
        devices=list(sink.devices.rows),
        compilations=part.compilations(sink),
        passes=part.passes(sink),
        occupancies=list(sink.occupancies),
        health=[*_health(session, total), *recorder._notes],
    )
    raw.metadata = _metadata(recorder, session, raw)
    return raw


def _health(session: _Session, launches: int) -> list[dict[str, Any]]:
    """What the probes had to say, and what recording cost."""
    sink = session.sink
    rows = list(sink.health)
    for name, count in sink.errors.items():
        rows.append({"probe": name, "status": "degraded", "errors": count, "dropped": sink.dropped[name],
                     "message": f"{count} errors of KernelScope's own were kept from your code; "
                                f"the first: {sink.first_errors[name]}",
                     "fix": "please report it with this message"})
    for probe in session.installed:
        cost = _cost(probe, sink.detail)
        if cost is not None:
            rows.append({"probe": probe.name, "status": "ok", "cost_ns": cost, "total_cost_ns": cost * launches,
                         "message": f"calibrated: {cost:.0f} ns a launch with detail '{sink.detail}'"})
    return rows


_costs: dict[tuple[str, str], float] = {}


def _cost(probe: Probe, detail: str) -> float | None:
    """The probe's calibrated cost, measured once a process: 5 ms are too much for every cell."""
    key = (probe.name, detail)
    if key not in _costs:
        cost = probe.cost_per_launch_ns(detail)
        if cost is None:
            return None
        _costs[key] = cost
    return _costs[key]


def _metadata(recorder: Recorder, session: _Session, raw: RawRecording) -> dict[str, Any]:
    return {
        "name": recorder.name,
        "schema_version": SCHEMA_VERSION,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "detail": session.sink.detail,
        "dry_run": dryrun.is_enabled(),
        "simulator": any(row["framework"] == "simulator" for row in raw.dispatchers),
        "probes": [probe.name for probe in session.installed],
        "clock": {"host_ns": session.alignment.host_ns, "wall_ns": session.alignment.wall_ns,
                  "error_ns": session.alignment.error_ns},
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpus": os.cpu_count(),
        "packages": dict(_versions()),
        **session.sink.metadata,
    }


@functools.cache
def _versions() -> tuple[tuple[str, str], ...]:
    found = []
    for package in _PACKAGES:
        try:
            found.append((package, importlib.metadata.version(package)))
        except importlib.metadata.PackageNotFoundError:
            continue
    return tuple(found)


def _shown_filename(path: str | None) -> str | None:
    """A notebook cell's own name, ``In[3]``, instead of the temporary file that its code pretends to come from."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    namer = getattr(getattr(shell, "compile", None), "format_code_name", None)
    named = namer(path) if namer is not None and path else None
    return named[1] if named else path
