"""Recording: start and stop, cells, nested recordings; it ends in a `Recording`.

There is one active session a process: it holds the installed probes and their buffers. The first recorder that
starts opens it, recorders inside join it and take their part of the same buffers, the last one to stop closes it.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from types import TracebackType
from typing import TYPE_CHECKING, Any

from kernelscope.clock import Clock, now, reference_ns
from kernelscope.errors import RecorderStateError, message_of
from kernelscope.probes import base
from kernelscope.probes.base import ProbeProtocol, insist
from kernelscope.recorder.option import option
from kernelscope.recorder.options import RecordingOptions, options_text, set_up_by
from kernelscope.recorder.session import Part, Session, raw_recording
from kernelscope.registry import FeatureMethod, features

if TYPE_CHECKING:
    from kernelscope.recorder.children import Children
    from kernelscope.recording.model import Recording


@dataclass(frozen=True, kw_only=True)
class RecorderOptions(RecordingOptions):
    """Options of a recorder: the recording's options, and what tests replace."""

    probes: Sequence[ProbeProtocol] | None = field(
        default=None, metadata=option("instead of every probe that there is; for tests", is_separate=True))
    clock: Clock = field(default=now, metadata=option("the host clock, in nanoseconds; for tests", is_separate=True))


class RecordsOnce:
    """What each recorder has: it starts once, and its recording is there when it has stopped."""

    _recording: Recording | None = None

    @property
    def recording(self) -> Recording:
        """Return the finished recording; raise `RecorderStateError` before `stop`."""
        if self._recording is None:
            raise RecorderStateError("the recording is not finished: it is there after stop(), or after the block")
        return self._recording

    @property
    def is_recording(self) -> bool:
        """Return whether it has started and not stopped."""
        raise NotImplementedError

    def _refuse_another_start(self) -> None:
        if self.is_recording or self._recording is not None:
            raise RecorderStateError("this recorder was started before: make a new one for another recording")


class Recorder(RecordsOnce):
    """Records the launches of this process between `start` and `stop`; a context manager for one block.

    {options}

    Raises
    ------
    ValueError
        An option's value is none that there is.
    """

    @set_up_by(RecorderOptions)
    def __init__(self, options: RecorderOptions) -> None:
        self.name = options.name
        self.options = options
        self._clock = options.clock
        self._session: Session | None = None
        self._part: Part | None = None
        self._cells: list[dict[str, Any]] = []
        self._notes: list[dict[str, Any]] = []
        self._children: Children | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Return what is copied and pickled; raises `RecorderStateError` while it records."""
        if self._session is not None:
            raise RecorderStateError(
                "a recorder cannot be copied or pickled while it records: its recording can, after stop()")
        return dict(vars(self))

    @property
    def is_recording(self) -> bool:
        """Return whether it has started and not stopped."""
        return self._session is not None

    def start(self) -> Recorder:
        """Hook the frameworks, or join the recording that is under way; return self.

        Raises
        ------
        RecorderStateError
            It was started before: a recorder records once.
        """
        self._refuse_another_start()
        self._load()
        try:
            self._session, self._part = Session.join(self, self.options, self.options.probes, self._clock)
            if self._part.began is None:
                self._session.begin_journal(self.name)
            self._notes += [{"probe": "recorder", "status": "degraded", "message": message}
                            for message in self.options.differences(self._session.options)]
            if self.options.children:
                self._begin_children(self._session)
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
        from kernelscope.analysis.builds import explain_builds
        from kernelscope.analysis.compiles import explain
        from kernelscope.recording.build import build
        from kernelscope.recording.model import keep_used

        alone, interrupt = False, None
        try:
            try:
                if self._cells and "end_ns" not in self._cells[-1]:
                    self.end_cell()
                if self.options.synchronize:
                    self._wait(session)
                if self._children is not None:
                    self._children.end()  # they finish while this process makes its own tables
            finally:
                alone, interrupt = session.leave(self)
                self._session = None  # only now: where a Ctrl-C came first, it can be stopped again
            recording = build(raw_recording(session, part, self.name, self._cells, self._notes,
                                            code=self.options.needs_code))
            recording = explain_builds(explain(recording if alone else keep_used(recording)))
            if self._children is not None:
                recording, unread = self._children.joined(recording)
                interrupt = unread or interrupt
            self._completed(recording, session)
            self._recording = recording
            if alone:
                session.end_journal()
        finally:
            if self._children is not None and self._session is None:
                # Without a recording the folder stays beside the journal, for `kernelscope merge`.
                interrupt = insist(self._children.end if self._recording is None else self._children.close) or interrupt
            if alone:
                if session.journal is not None:
                    interrupt = insist(lambda: session.end_journal(keep=self._recording is None)) or interrupt
                if interrupt is not None and self._recording is None:
                    raise interrupt
        interrupt = part.interrupt or interrupt
        if interrupt is not None:
            raise interrupt
        return self.recording

    def begin_cell(self, name: str | None = None, *, execution_count: int | None = None,
                   source: str | None = None) -> None:
        """Begin a cell; a cell under way ends."""
        if self._cells and "end_ns" not in self._cells[-1]:
            self.end_cell()
        self._cells.append({
            "name": name, "execution_count": execution_count, "source": source, "status": "ok",
            "source_sha256": None if source is None else hashlib.sha256(source.encode()).hexdigest(),
            "reference_ns": self._reference(), "start_ns": self._clock(),
        })
        self._journal_cell()

    def end_cell(self, error: BaseException | None = None) -> None:
        """End the cell, with the exception that ended its code if any."""
        if not self._cells or "end_ns" in self._cells[-1]:
            raise RecorderStateError("end_cell() without begin_cell()")
        cell = self._cells[-1]
        cell["end_ns"] = self._clock()
        after = self._reference()
        if after is not None:
            cell["reference_ns"] = (cell["reference_ns"] + after) / 2
        if error is not None:
            cell["status"] = "interrupted" if isinstance(error, KeyboardInterrupt) else "error"
            cell["error"] = f"{type(error).__name__}: {message_of(error)}".removesuffix(": ")
        self._journal_cell()

    def _reference(self) -> float | None:
        """Return how fast the processor is; None by another clock than the host's, as tests have."""
        return reference_ns() if self._clock is now else None

    def attach(self, kernel: Any) -> None:
        """Record one kernel by its framework's documented means, where the probe could not hook all of them.

        Where everything is recorded anyway this does nothing. The table ``health`` lists what is lost that way.

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
        """Return the recording, if there is one; stop first if a signal handler kept the block's end from it."""
        if self._session is not None:
            self.stop()
        return self._recording

    def _load(self) -> None:
        """Import what makes tables now: at the end a Ctrl-C would find it half loaded."""
        for module in ("cubin", "probes.cuda_core.rows", "recorder.overhead", "recording.build", "analysis.builds",
                       "analysis.compiles"):
            importlib.import_module(f"kernelscope.{module}")

    def _completed(self, recording: Recording, session: Session) -> None:
        """Do what is to be done before the journal goes: nothing here."""

    def _begin_children(self, session: Session) -> None:
        """Have the processes that start from now on record themselves."""
        from kernelscope.recorder.children import Children

        if Children.active is not None:
            self._notes.append({"probe": "recorder", "status": "degraded", "message": (
                "child processes are part of the recording around this one, not of this one")})
            return
        base = None if session.journal is None else session.journal.folder.parent
        self._children = Children(self.options, base)
        try:
            self._children.begin()
        except OSError as error:
            self._children.close()
            self._children = None
            self._notes.append({"probe": "recorder", "status": "degraded", "message": (
                f"child processes are not recorded: {error.strerror or error}: {error.filename}"),
                "fix": "free space there, or set TMPDIR to another folder"})

    def _give_up(self) -> None:
        """Leave the session after a failed start, and drop everything recorded."""
        session = Session.active

        def undo() -> None:
            if session is not None and session.leave(self)[0]:
                session.end_journal()

        if session is not None and self in session.recorders:
            insist(undo)
        if self._children is not None:
            insist(self._children.close)
            self._children = None
        self._session = self._part = None
        self._cells.clear()
        self._notes.clear()

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
        for probe in session.active_probes():
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


for _feature in features():
    for _name, _function in _feature.recorder_methods.items():
        setattr(Recorder, _name, FeatureMethod(_function))
Recorder.__doc__ = inspect.cleandoc(Recorder.__doc__ or "").replace("{options}", options_text(RecorderOptions))


def recorder_of(options: RecordingOptions) -> Recorder:
    """Return a recorder with these options."""
    given: dict[str, Any] = {each.name: getattr(options, each.name) for each in fields(options)}
    return Recorder(**given)
