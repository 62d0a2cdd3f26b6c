"""A process that records itself, from now to its end, into a file of its own in a folder.

Its journal is in that folder while it records, so that a signal that kills it loses nothing that was completed. At its
end the journal gives way to a ``.kscope`` file, whose name has the journal's in it. SIGTERM, which launchers end their
processes with, and SIGHUP, where the program has no handler for them, leave the time for that.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import json
import os
import re
import secrets
import signal
import sys
import threading
from collections.abc import Mapping
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast

from kernelscope.errors import KernelScopeError
from kernelscope.native import core
from kernelscope.native.log import from_signal_handler
from kernelscope.private_folders import make_private, why_not_own
from kernelscope.probes.base import insist
from kernelscope.processes import OPTIONS, RECORD, start_from_environment
from kernelscope.recorder.environment import process
from kernelscope.recorder.launcher import PARENT, options_of
from kernelscope.recorder.option import option_of
from kernelscope.recorder.options import RecordingOptions
from kernelscope.recorder.recorder import Recorder
from kernelscope.recorder.session import Session
from kernelscope.suggestions import did_you_mean

if TYPE_CHECKING:
    from kernelscope.recording.model import Recording

#: In a folder whose recording has ended: who still records ends too.
STOP = "stop"
#: A process of these tables' rows did something.
_WORK = ("launches", "compilations", "activities", "api_calls", "builds", "ranges", "graph_events")
#: Options that say nothing to another process.
_OWN = frozenset(each.name for each in fields(RecordingOptions) if not option_of(each).is_inherited)
#: How often a child looks whether the recording has ended.
_BETWEEN_S = 0.1
#: So much later at most a signal that ends the process does so; launchers send SIGKILL after 30 s, some after 1 s.
_BEFORE_SIGNAL_S = 20.0


def start(folder: Path, options: str) -> bool:
    """Record this process from now on into `folder`, and return whether it is recorded; see `kernelscope.processes`."""
    if Worker.active is not None:
        return True
    try:
        given = options_of(options)
        folder = folder.expanduser().absolute()
        if PARENT in given and not _goes_on(folder):
            return False  # the recording has ended: its processes go on without
        _warn_of(given)
        worker = Worker(folder, given)
        worker.begin()
        Worker.active = worker
        return True
    except Exception as error:
        if from_signal_handler(error):
            raise
        _complain(f"this process is not recorded: {type(error).__name__}: {error}")
        return False


def _warn_of(given: Mapping[str, Any]) -> None:
    """Say on stderr which options are none that a process takes from its environment; a forked process need not.

    Raises
    ------
    ValueError
        An option has a value that it does not take; the message names both.
    """
    known = {each.name: each for each in fields(RecordingOptions) if each.name not in _OWN}
    parts: list[str] = []
    for name, value in given.items():
        if name in _OWN:
            parts.append(f"{name!r} is of no use to a process that records itself.")
        elif name not in known and name != PARENT:
            near = did_you_mean(name, known)
            parts.append(f"there is no option {name!r}{near or '.'}")
        elif name in known and known[name].type in _TYPES:
            type_, text = _TYPES[known[name].type]
            items = cast("list[Any]", value) if isinstance(value, list) else []
            if not isinstance(value, type_) or not all(isinstance(each, str) for each in items):
                raise ValueError(f"{OPTIONS}: {name} is {json.dumps(value)}, and takes {text}")
    try:
        RecordingOptions(**known_options(given))
    except ValueError as error:
        raise ValueError(f"{OPTIONS}: {error}") from None
    line = f"{OPTIONS}: {' '.join(parts)} The process is recorded without {'it' if len(parts) == 1 else 'them'}"
    if parts and line not in _warned:
        _warned.add(line)
        _complain(line)


#: What options of these types are in JSON; the others are checked with the recording's options.
_TYPES: dict[Any, tuple[type | tuple[type, ...], str]] = {
    "bool": (bool, "true or false"), "Sequence[str]": (list, "a list of texts"),
    "str | None": ((str, type(None)), "a text or null")}
#: Lines that were said in this process, or in the one that it was forked from.
_warned: set[str] = set()


def own_folder(folder: Path, *, is_guest: bool = False) -> None:
    """Make a folder to record into, for this user only; one of a guest's is in a folder that is there.

    Raises
    ------
    OSError
        It cannot be made.
    KernelScopeError
        It is there, and somebody else owns it or can write to it.
    """
    if is_guest:
        folder.mkdir(mode=0o700, exist_ok=True)
    else:
        make_private(folder)
    reason = why_not_own(folder)
    if reason is not None:
        raise KernelScopeError(f"{reason}: recordings go only into a folder that is yours and to which nobody else can "
                               "write; chmod go-w it, or name one that is not there yet")


def known_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that this version knows, without those that say nothing to another process."""
    known = {each.name for each in fields(RecordingOptions)} - _OWN
    return {name: value for name, value in given.items() if name in known}


def spelled(options: RecordingOptions) -> str:
    """Return what `OPTIONS` is for the children of a recording."""
    given = {each.name: getattr(options, each.name) for each in fields(RecordingOptions) if each.name not in _OWN}
    return json.dumps({PARENT: os.getpid(), **given}, default=list)


class Worker:
    """Records this process into a folder, between `begin` and `finish`.

    Parameters
    ----------
    folder : Path
        Where; it is made, readable for this user only.
    given : mapping
        Options of `RecordingOptions`, those that this version knows.
    """

    active: ClassVar[Worker | None] = None

    def __init__(self, folder: Path, given: Mapping[str, Any]) -> None:
        self._folder = folder
        self._process = os.getpid()
        self._is_child = PARENT in given
        self._lock = threading.RLock()
        self._has_ended = threading.Event()
        self.recorder = OwnRecorder(_label(), journal=folder, **known_options(given))

    def begin(self) -> None:
        """Start to record, and see to it that the end of the process is not missed."""
        own_folder(self._folder, is_guest=self._is_child)
        self.recorder.folder, self.recorder.is_guest = self._folder, self._is_child
        self.recorder.start()
        self.recorder.begin_cell(self.recorder.name)
        atexit.register(self._at_exit)
        utilities = sys.modules.get("multiprocessing.util")
        if utilities is not None:
            # A process of multiprocessing may end with os._exit, after these. One that was just forked forgets those
            # that there are, and calls what is registered for after a fork.
            self._finish_with(utilities)
            utilities.register_after_fork(self, lambda worker: worker._finish_with(utilities))
        core.before_end(self._end_by, _BEFORE_SIGNAL_S)
        if self._is_child:
            threading.Thread(target=self._follow, name="kernelscope", daemon=True).start()

    def finish(self) -> None:
        """Stop, and write the file; what is wrong is said on stderr."""
        if os.getpid() != self._process:
            return
        try:
            with self._lock:
                if not self._has_ended.is_set():
                    self._has_ended.set()
                    self._write()
        finally:
            core.before_end(None, 0)

    def _write(self) -> None:
        if Worker.active is self:
            Worker.active = None
        try:
            error = self.recorder.signal or getattr(sys, "last_value", None)  # what ended the program
            with contextlib.suppress(Exception):
                self.recorder.end_cell(error)
            self.recorder.stop()
        except KeyboardInterrupt:  # the process ends, or its parent's recording
            pass
        except Exception as error:
            if from_signal_handler(error):
                raise
            _complain(f"the recording of this process is left as a journal in {self._folder}: "
                      f"{type(error).__name__}: {error}")

    def _end_by(self, number: int) -> None:
        """Finish before a signal ends the process; called on a thread of the extension's."""
        self.recorder.signal = EndingSignal(signal.Signals(number).name)
        self.finish()

    def _at_exit(self) -> None:
        """Finish, and leave what the process ends with: after an uncaught Ctrl-C, by SIGINT.

        CPython notes that when a text that it ran was left by one, and forgets it when another is run, as a dataclass
        or a named tuple does whose module is imported now.
        """
        self.finish()
        if isinstance(getattr(sys, "last_value", None), KeyboardInterrupt):
            with contextlib.suppress(KeyboardInterrupt):
                exec("raise KeyboardInterrupt")

    def _finish_with(self, utilities: Any) -> None:
        if os.getpid() == self._process:
            utilities.Finalize(None, self.finish, exitpriority=-1000)

    def _follow(self) -> None:
        """End this recording with that of the process's parent; the process goes on."""
        while not self._has_ended.wait(_BETWEEN_S):
            if not _goes_on(self._folder):
                self.finish()


class EndingSignal(KeyboardInterrupt):
    """What ended the cell of a process that a signal ended: its name."""


class OwnRecorder(Recorder):
    """Writes the recording into a file before its journal goes."""

    folder = Path()
    file: Path | None = None
    #: Whether somebody else makes and removes the folder, and so gives the recording up.
    is_guest = False
    signal: EndingSignal | None = None

    def _load(self) -> None:
        """Leave it to the end, but for what cannot be loaded there: a process is to start as fast as without us."""
        importlib.import_module("concurrent.futures.thread")  # pyarrow and pandas need it

    def _wait(self, session: Session) -> None:
        """Wait for the device, unless a signal ends the process: it may wait for a rank that is gone."""
        if self.signal is None:
            super()._wait(session)

    def _completed(self, recording: Recording, session: Session) -> None:
        made = cast("dict[str, Any]", recording.metadata.get("process") or {})
        is_one_of_many = "rank" in made or made.get("launcher") not in (None, "subprocess")
        did_nothing = not any(recording.arrow(name).num_rows for name in _WORK)
        if (did_nothing and not is_one_of_many) or (self.is_guest and not self.folder.is_dir()):
            return  # such as a launcher, which imports a framework and uses no GPU
        if self.signal is not None:
            recording = with_status(recording, "terminated", f"it was ended by {self.signal}; all that it had done "
                                    "until then is in its recording, the GPU's side too")
        journal = None if session.journal is None else session.journal.folder.name
        self.file = save_into(self.folder, recording, journal)


def save_into(folder: Path, recording: Recording, journal: str | None = None) -> Path:
    """Write a process's recording into a folder, which is made for this user only, and return the file.

    Its name has the process's rank and host, and the name of its journal, or one that is made likewise. It keeps paths
    and the host's name, and only this user can read it, as a journal.

    Raises
    ------
    KernelScopeError
        Somebody else could write to the folder, or it cannot be written.
    """
    from kernelscope.recording.file import save

    own_folder(folder)
    made = cast("dict[str, Any]", recording.metadata.get("process") or {})
    if journal is None:
        journal = f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{os.getpid()}-{secrets.token_hex(2)}"
    who = [f"rank{made['rank']}" if "rank" in made else made.get("worker"), made.get("host")]
    named = [re.sub(r"[^\w.]+", "_", str(each))[:60] for each in who if each]
    return save(recording, folder / f"{'-'.join([*named, journal])}.kscope", paths=True, mode=0o600)


def with_status(recording: Recording, status: str, message: str) -> Recording:
    """Return the recording of one process, with how that ended."""
    from kernelscope.recording.model import Recording
    from kernelscope.recording.parquet import table_of_rows
    from kernelscope.schema import TABLES

    table = table_of_rows("processes", [{**row, "status": status, "message": message}
                                        for row in recording.rows("processes")])
    return Recording({**{name: recording.arrow(name) for name in TABLES}, "processes": table}, recording.metadata)


def _label() -> str:
    """Return what to call this process: its rank, or its name, or its script's name."""
    made = process()
    if "rank" in made:
        return f"rank {made['rank']}"
    script = os.path.basename(sys.argv[0]) if getattr(sys, "argv", None) else ""
    return str(made.get("worker") or (script if script not in ("", "-c", "-m") else f"process {os.getpid()}"))


def _goes_on(folder: Path) -> bool:
    return folder.is_dir() and not (folder / STOP).exists()


def _complain(message: str) -> None:
    if sys.stderr is not None:
        with contextlib.suppress(OSError, ValueError):
            print(f"kernelscope: pid {os.getpid()}: {' '.join(message.split())}", file=sys.stderr, flush=True)


def leave_to_parent() -> None:
    """In a forked child, take the hooks of the parent's recording out, and begin one of the child's own."""
    from kernelscope.recorder.children import Children

    if Worker.active is None and Children.active is None:
        return
    Worker.active = Children.active = None
    try:
        session = Session.active
        Session.lock = threading.RLock()  # a thread that the child does not have may hold the other
        Session.active = None
        if session is not None:
            session.recorders.clear()
            insist(session._uninstall)
        if os.environ.get(RECORD):
            start_from_environment()
    except Exception as error:
        _complain(f"this forked process is not recorded: {type(error).__name__}: {error}")


os.register_at_fork(after_in_child=leave_to_parent)
