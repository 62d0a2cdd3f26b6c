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
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import kernelscope
from kernelscope.errors import KernelScopeError, RecordingFileError
from kernelscope.recorder.environment import environment
from kernelscope.recorder.options import RecordingOptions
from kernelscope.recorder.recorder import Recorder
from kernelscope.recorder.recover import recovered
from kernelscope.recording.file import SUFFIX, save
from kernelscope.recording.journal import find_journals, remove_journal
from kernelscope.recording.model import Recording

#: This process: several workers may be threads of one, the client's too.
TOKEN = secrets.token_hex(8)
_NAME = re.compile(r"[\w.-]{1,200}")


@dataclass
class _Recorded:
    """What this process records for one recording of a cluster."""

    folder: Path
    recorder: Recorder
    workers: list[str] = field(default_factory=list)
    #: Which of them have not closed.
    open: set[str] = field(default_factory=set)
    file: str = ""
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
            given = {name: value for name, value in settings["options"].items() if name in known}
            held = _Recorded(folder, Recorder(**{**given, "journal": folder}))
            held.recorder.start()
            _tell(held.recorder, str(worker.name))
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
                journal = _journal(held.recorder)
                held.recorder.end_cell()
                recorded = held.recorder.stop()
                held.file = _write(recorded, held.folder, held.workers[0], journal)
            except Exception as error:
                held.problem = f"{type(error).__name__}: {error}"
        return {"token": TOKEN, "pid": os.getpid(), "host": platform.node(), "version": kernelscope.__version__,
                "workers": held.workers, "file": held.file, "problem": held.problem}


def left_in(folder: Path) -> list[str]:
    """Return the names of what is in a folder: files, and journals that nobody writes to any more."""
    try:
        _check(folder)
    except (OSError, KernelScopeError):
        return []
    files = [path.name for path in folder.iterdir() if path.suffix == SUFFIX and not path.is_symlink()]
    dead = [each.name for each in find_journals(folder) if not each.is_live]
    # The journal of a process that had written its file, and was killed before it could remove the journal.
    return sorted(files + [name for name in dead if not any(file.endswith(name + SUFFIX) for file in files)])


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
    (journal,) = find_journals(path)
    recording = _killed(recovered(journal))
    with tempfile.TemporaryDirectory(prefix="kernelscope-") as made:
        return save(recording, Path(made) / "recovered.kscope", paths=True).read_bytes()


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


def _tell(recorder: Recorder, worker: str) -> None:
    """Have the recording, and its journal, know which worker it is of."""
    session = recorder._session
    if session is None or recorder._part is None or recorder._part.began is not None:
        return  # inside another recording, whose process this is
    made: Any = environment().get("process") or {"host": platform.node() or None, "pid": os.getpid()}
    session.sink.metadata["process"] = {**made, "worker": worker, "launcher": "dask"}
    session.begin_journal(recorder.name)


def _journal(recorder: Recorder) -> str:
    """Return the name of the journal's folder; another one of its kind where there is none."""
    session = recorder._session
    journal = None if session is None else session.journal
    return secrets.token_hex(8) if journal is None or not journal.is_on else journal.folder.name


def _write(recording: Recording, folder: Path, worker: str, journal: str) -> str:
    name = f"{re.sub(r'[^\w.]+', '_', worker)[:60]}-{journal}{SUFFIX}"
    save(recording, folder / name, paths=True, overwrite=True)
    return name


def _killed(recording: Recording) -> Recording:
    """Return a recovered recording, with the fact that its worker was killed."""
    return recording
