"""A worker's side of a recording of a Dask cluster: it records its process, and hands its file over as bytes.

A worker's journal and, once it has stopped, its ``.kscope`` file are in a folder beside its own local directory. Dask
removes that with the worker; the folder stays, so that any worker or nanny of the host can read what a dead one left.
"""

from __future__ import annotations

import contextlib
import os
import platform
import re
import secrets
import stat
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import kernelscope
from kernelscope.errors import KernelScopeError, RecordingFileError
from kernelscope.native.journal import is_held
from kernelscope.recorder.children import found_in, gather
from kernelscope.recorder.environment import process
from kernelscope.recorder.options import RecordingOptions
from kernelscope.recorder.recorder import Recorder
from kernelscope.recorder.session import Session
from kernelscope.recording.file import SUFFIX, save
from kernelscope.recording.journal import remove_journal
from kernelscope.recording.model import Recording

#: This process: several workers may be threads of one, the client's too.
TOKEN = secrets.token_hex(8)
_NAME = re.compile(r"\w[\w.-]{0,200}")
#: Workers that close, or whose client has gone, are given this long to write their files; then journals are read.
_PATIENCE_S, _BETWEEN_S = 5.0, 0.02
_UNUSUAL = r"[^\w.]+"


@dataclass
class _Recorded:
    """What this process records for one recording of a cluster."""

    folder: Path
    recorder: _WorkerRecorder
    workers: list[str] = field(default_factory=list)
    #: Which of them have not closed.
    open: set[str] = field(default_factory=set)
    problem: str = ""


_recorded: dict[str, _Recorded] = {}
_lock = threading.RLock()


def folder_of(local_directory: str | Path, recording: str) -> Path:
    """Return the folder of a recording on a worker's host."""
    return Path(local_directory).parent / f"kernelscope-{recording}"


def begin(worker: Any, settings: Mapping[str, Any]) -> None:
    """Record this process, unless another worker in it has begun to.

    Parameters
    ----------
    worker : distributed.Worker
        Who begins.
    settings : mapping
        ``recording``, its id; ``options``, arguments of `Recorder`, of which those are left out that this version does
        not know.
    """
    with _lock:
        number = settings["recording"]
        held = _recorded.get(number)
        if held is None:
            folder = folder_of(worker.local_directory, number)
            _make(folder)
            known = {each.name for each in fields(RecordingOptions)}
            given: dict[str, Any] = {name: value for name, value in settings["options"].items() if name in known}
            given["journal"] = folder
            recorder = _WorkerRecorder(**given)
            recorder.folder, recorder.worker = folder, str(worker.name)
            recorder.start()
            recorder.tell()
            held = _Recorded(folder, recorder)
            held.recorder.begin_cell(given.get("name"))
            _recorded[number] = held
        held.workers.append(str(worker.name))
        held.open.add(worker.address)


def close(worker: Any, recording: str) -> None:
    """End with a worker that closes, or whose plugin is removed; its file stays in the folder until it is fetched."""
    with _lock:
        held = _recorded.get(recording)
        if held is None:
            return
        held.open.discard(worker.address)
        if not held.open:
            end(recording)
            del _recorded[recording]


def end(recording: str) -> dict[str, Any]:
    """Stop, write the file, and return what is to be said of this process; a second time only say it again."""
    with _lock:
        held = _recorded.get(recording)
        if held is None:
            return {}
        if held.recorder.is_recording:
            try:
                held.recorder.end_cell()
                held.recorder.stop()
            except Exception as error:
                held.problem = f"{type(error).__name__}: {error}"
        return {"token": TOKEN, "pid": os.getpid(), "host": platform.node(), "version": kernelscope.__version__,
                "workers": held.workers, "file": held.recorder.file, "problem": held.problem}


def left_in(folder: Path) -> list[str]:
    """Return the names of the files and journals in a folder; wait a little for workers that are just closing.

    The journal of one that goes on nevertheless is named too: it can be read as far as it is.
    """
    try:
        _check(folder)
        until = time.monotonic() + _PATIENCE_S
        while any(path.suffix != SUFFIX and is_held(path) for path in found_in(folder)) and time.monotonic() < until:
            time.sleep(_BETWEEN_S)
        return [path.name for path in found_in(folder)]
    except (OSError, KernelScopeError):
        return []


def content(folder: Path, name: str) -> bytes:
    """Return one of `left_in` as the bytes of a ``.kscope`` file; a journal is recovered.

    Raises
    ------
    KernelScopeError
        It cannot be read.
    OSError
        It is not there.
    """
    _check(folder)
    if not _NAME.fullmatch(name):
        raise RecordingFileError(f"{name!r} is no file of a recording")
    path = folder / name
    if name.endswith(SUFFIX):
        return path.read_bytes()
    gathered = gather([path])
    if not gathered.recordings:
        raise RecordingFileError("; ".join(gathered.left_out))
    with tempfile.TemporaryDirectory(prefix="kernelscope-") as made:
        return save(gathered.recordings[0], Path(made) / "recovered.kscope", paths=True).read_bytes()


def remove(folder: Path, names: list[str]) -> None:
    """Remove what was fetched, and the folder if nothing is left in it."""
    with contextlib.suppress(OSError, KernelScopeError):
        _check(folder)
        for name in filter(_NAME.fullmatch, names):
            with contextlib.suppress(OSError, KernelScopeError):
                if name.endswith(SUFFIX):
                    (folder / name).unlink()
                else:
                    remove_journal(folder / name)
        folder.rmdir()


def _make(folder: Path) -> None:
    folder.mkdir(mode=0o700, exist_ok=True)
    _check(folder)


def _check(folder: Path) -> None:
    """Refuse a folder that somebody else may write to: that beside it is often one of all users."""
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise KernelScopeError(f"{folder} is not a folder that only this user can write to")


def _file_name(worker: str, journal: str) -> str:
    """Return the name of a worker's file; it ends in that of its journal, which no other has."""
    return f"{re.sub(_UNUSUAL, '_', worker)[:60]}-{journal}{SUFFIX}"


class _WorkerRecorder(Recorder):
    """Writes the recording into a file before its journal goes."""

    folder = Path()
    worker = file = ""

    def tell(self) -> None:
        """Have the recording, and its journal, know which worker it is of."""
        session, part = self._session, self._part
        if session is not None and part is not None and part.began is None:  # else it is another recording's process
            session.sink.metadata["process"] = {**process(), "worker": self.worker, "launcher": "dask"}
            session.begin_journal(self.name)

    def _completed(self, recording: Recording, session: Session) -> None:
        journal = session.journal
        name = secrets.token_hex(8) if journal is None or not journal.is_on else journal.folder.name
        self.file = save(recording, self.folder / _file_name(self.worker, name), paths=True).name
