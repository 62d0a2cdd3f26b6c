"""Recording: start and stop, cells, nested recordings; it ends in a `Recording`.

There is one active session a process: it holds the installed probes and their buffers. The first recorder that
starts opens it, recorders inside join it and take their part of the same buffers, the last one to stop closes it.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import threading
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, TypeVar, overload

from kernelscope.analysis.builds import explain_builds
from kernelscope.analysis.compiles import explain
from kernelscope.clock import Clock, now
from kernelscope.errors import RecorderStateError
from kernelscope.native.log import Journal, Keeping
from kernelscope.probes import base
from kernelscope.probes.base import DETAILS, GPU_SOURCES, Probe, insist
from kernelscope.recorder.session import Part, Session, raw_recording
from kernelscope.recording.build import build
from kernelscope.recording.model import Recording, keep_used

Function = TypeVar("Function", bound=Callable[..., Any])


class Recorder:
    """Records the launches of this process between `start` and `stop`; a context manager for one block.

    Parameters
    ----------
    name : str, optional
        What to call the recording.
    detail : str
        ``phases`` records every phase boundary of a launch, ``launch`` its two ends at less than half the cost.
    gpu : str
        How the GPU's side is recorded: ``cupti`` where that is possible, ``events`` times numba-cuda's kernels with
        CUDA events, which perturbs what it measures, ``none`` leaves it out.
    synchronize : bool
        Whether to wait for the device before stopping.
    code : bool
        Whether the recording holds the kernels' code too: source, inferred types, LLVM, PTX, SASS and machine code. It
        may be private; it is read when recording stops, which takes that much longer.
    mode : str
        ``grow`` keeps every launch, ``ring`` the newest `capacity` of them, ``stop`` the first; by the order in which
        they began. What was not kept is counted.
    capacity : int, optional
        How many launches the modes ``ring`` and ``stop`` keep; 1,000,000 where it is not said.
    journal : True or path, optional
        Keep what is recorded in files as well, in the default folder or in this one, so that a process that is killed
        leaves it.
    probes : sequence of Probe, optional
        Instead of every probe that there is; for tests.
    clock : callable
        The host clock, in nanoseconds; for tests.

    Raises
    ------
    ValueError
        `detail`, `gpu` or `mode` is none of these, or `capacity` or `journal` is of another type.
    """

    def __init__(self, name: str | None = None, *, detail: str = "phases", gpu: str = "cupti", synchronize: bool = True,
                 code: bool = False, mode: str = "grow", capacity: int | None = None, journal: Journal = None,
                 probes: Sequence[Probe] | None = None, clock: Clock = now) -> None:
        if detail not in DETAILS:
            raise ValueError(f"detail {detail!r} is not one of {', '.join(DETAILS)}")
        if gpu not in GPU_SOURCES:
            raise ValueError(f"gpu {gpu!r} is not one of {', '.join(GPU_SOURCES)}")
        self.name = name
        self.detail = detail
        self.gpu = gpu
        self.code = code
        self._keeping = Keeping(mode, capacity, journal)
        self._synchronize = synchronize
        self._probes = probes
        self._clock = clock
        self._session: Session | None = None
        self._part: Part | None = None
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
        self._refuse_another_start()
        try:
            self._session, self._part = Session.join(self, self.detail, self.gpu, self._probes, self._clock,
                                                     self._keeping)
            if self._part.began is None:
                self._session.begin_journal(self.name)
            self._notes += [{"probe": "recorder", "status": "degraded", "message": message}
                            for message in self._differences(self._session)]
            return self
        except BaseException:
            self._give_up()
            raise

    def stop(self) -> Recording:
        """Wait for the device, undo the hooks if this was the last recorder, and return the recording.

        A Ctrl-C while hooks are undone, or registers or code are read, is raised when the recording is made:
        `recording` has it then, without what was not read.

        Raises
        ------
        RecorderStateError
            It is not recording.
        """
        session, part = self._session, self._part
        if session is None or part is None:
            raise RecorderStateError("stop() without start(): this recorder is not recording")
        alone, interrupt = False, None
        try:
            try:
                if self._cells and "end_ns" not in self._cells[-1]:
                    self.end_cell()
                if self._synchronize:
                    self._wait(session)
            finally:
                alone, interrupt = session.leave(self)
                self._session = None  # only now: where a Ctrl-C came first, it can be stopped again
            recording = build(raw_recording(session, part, self.name, self._cells, self._notes, code=self.code))
            self._recording = explain_builds(explain(recording if alone else keep_used(recording)))
            if alone:
                session.end_journal()
        finally:
            if alone:
                interrupt = insist(lambda: session.end_journal(keep=self._recording is None)) or interrupt
                if interrupt is not None and self._recording is None:
                    raise interrupt
        interrupt = part.interrupt or interrupt
        if interrupt is not None:
            raise interrupt
        return self.recording

    def begin_cell(self, name: str | None = None, *, execution_count: int | None = None,
                   source: str | None = None) -> None:
        """Say that a cell's code begins to run now, and so that the cell under way has ended."""
        if self._cells and "end_ns" not in self._cells[-1]:
            self.end_cell()
        self._cells.append({
            "name": name, "execution_count": execution_count, "source": source, "status": "ok",
            "source_sha256": None if source is None else hashlib.sha256(source.encode()).hexdigest(),
            "start_ns": self._clock(),
        })
        self._journal_cell()

    def end_cell(self, error: BaseException | None = None) -> None:
        """Say that the cell's code has ended, and with which exception."""
        if not self._cells or "end_ns" in self._cells[-1]:
            raise RecorderStateError("end_cell() without begin_cell()")
        cell = self._cells[-1]
        cell["end_ns"] = self._clock()
        if error is not None:
            cell["status"] = "interrupted" if isinstance(error, KeyboardInterrupt) else "error"
            cell["error"] = f"{type(error).__name__}: {error}".removesuffix(": ")
        self._journal_cell()

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
        self._refuse_another_start()
        try:
            self.start()
            self.begin_cell(self.name)
            return self
        except BaseException:
            self._give_up()
            raise

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 traceback: TracebackType | None) -> None:
        """Stop; an exception of the block goes on without our hooks' frames in its traceback."""
        try:
            if self._cells and "end_ns" not in self._cells[-1]:
                self.end_cell(error)
            if error is not None:
                base.clean(error, frozenset(base.hook_codes))
            if self._session is not None:  # the block may have stopped it itself
                self.stop()
        finally:
            if self._session is not None:  # a signal handler has raised before it began to stop
                self.stop()

    def _finished(self) -> Recording | None:
        """The recording, if there is one; where a signal handler kept the block's end from stopping, it stops now."""
        if self._session is not None:
            self.stop()
        return self._recording

    def _refuse_another_start(self) -> None:
        if self._session is not None or self._recording is not None:
            raise RecorderStateError("this recorder was started before: make a new one for another recording")

    def _give_up(self) -> None:
        """Leave the session that a start has joined which cannot be finished; of this recorder nothing is kept."""
        session = Session.active

        def undo() -> None:
            if session is not None and session.leave(self)[0]:
                session.end_journal()

        if session is not None and self in session.recorders:
            insist(undo)
        self._session = self._part = None
        self._cells.clear()
        self._notes.clear()

    def _differences(self, session: Session) -> list[str]:
        """What was asked for and is otherwise in the recording around this one: a sentence each."""
        told: list[str] = []
        if self.detail != session.sink.detail:
            told.append(f"recorded with detail {session.sink.detail!r}, as the recording around it, "
                        f"not {self.detail!r}")
        if self.gpu != session.gpu:
            told.append(f"recorded the GPU's side with {session.gpu!r}, as the recording around it, not {self.gpu!r}")
        return told + self._keeping.differences(session.sink.log, session.keeping.journal)

    def _journal_cell(self) -> None:
        """Write the newest cell to the session's journal; cells of recorders inside the first are inside its own."""
        if self._session is None or self._part is None or self._part.began is not None:
            return
        if self._session.journal is not None:
            self._session.journal.cell(len(self._cells) - 1, self._cells[-1])

    def _wait(self, session: Session) -> None:
        start = self._clock()
        try:
            self._synchronize_probes(session)
        finally:
            session.sink.own.append((threading.get_ident(), start, self._clock()))

    def _synchronize_probes(self, session: Session) -> None:
        for probe in session.installed:
            try:
                problem = probe.synchronize()
            except Exception as error:
                if base.from_signal_handler(error):
                    raise
                session.sink.swallow(probe.name, error)
                continue
            if problem:
                self._notes.append({"probe": probe.name, "status": "degraded",
                                    "message": f"the device was not synchronized: {problem}"})
                return  # what keeps one probe from waiting, such as a capture, holds for the others as well
            if self._cells:
                self._cells[-1]["synchronized_ns"] = self._clock()


def record(name: str | None = None, *, detail: str = "phases", gpu: str = "cupti",
           synchronize: bool = True, code: bool = False, mode: str = "grow", capacity: int | None = None,
           journal: Journal = None) -> Recorder:
    """Return a `Recorder` for a ``with`` block; after it, its ``recording`` is the `Recording`.

    >>> with kernelscope.record("warm-up") as r:  # doctest: +SKIP
    ...     kernel[1, 32](array)
    >>> r.recording.launches  # doctest: +SKIP
    """
    return Recorder(name, detail=detail, gpu=gpu, synchronize=synchronize, code=code, mode=mode, capacity=capacity,
                    journal=journal)


@overload
def recorded(function: Function) -> Function: ...
@overload
def recorded(*, name: str | None = None, detail: str = "phases", gpu: str = "cupti", code: bool = False,
             mode: str = "grow", capacity: int | None = None,
             journal: Journal = None) -> Callable[[Function], Function]: ...
def recorded(function: Any = None, *, name: str | None = None, detail: str = "phases", gpu: str = "cupti",
             code: bool = False, mode: str = "grow", capacity: int | None = None, journal: Journal = None) -> Any:
    """Record every call of a function; the newest call's recording is its ``recording`` attribute.

    The function's result, exceptions and signature stay as they are.
    """
    options: Any = {"detail": detail, "gpu": gpu, "code": code, "mode": mode, "capacity": capacity,
                    "journal": journal}
    if function is None:
        return functools.partial(recorded, name=name, **options)

    call: Any
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def call_async(*args: Any, **kwargs: Any) -> Any:
            recorder = Recorder(name or function.__qualname__, **options)
            try:
                with recorder:
                    return await function(*args, **kwargs)
            except BaseException as error:
                base.hide_frame(error)
                raise
            finally:
                call.recording = recorder._finished()

        call = call_async
        call.recording = None
        return call

    @functools.wraps(function)
    def call_plain(*args: Any, **kwargs: Any) -> Any:
        recorder = Recorder(name or function.__qualname__, **options)
        try:
            with recorder:
                return function(*args, **kwargs)
        except BaseException as error:
            base.hide_frame(error)
            raise
        finally:
            call.recording = recorder._finished()

    call = call_plain
    call.recording = None
    return call
