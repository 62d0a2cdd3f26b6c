"""A worker's side of a recording of a Dask cluster: it records its process, and hands its file over as bytes.

A worker's journal and, once it has stopped, its ``.kscope`` file are in a folder beside its own local directory. Dask
removes that with the worker; the folder stays, so that any worker or nanny of the host can read what a dead one left.
"""

from __future__ import annotations

import asyncio
import errno
import os
import platform
import re
import secrets
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import kernelscope
from kernelscope.clock import now
from kernelscope.dask.clocks import kept, oddity, pings_of_scheduler
from kernelscope.errors import KernelScopeError, RecordingFileError
from kernelscope.native.journal import is_held
from kernelscope.private_folders import why_not_own
from kernelscope.recorder.environment import process
from kernelscope.recorder.options import RecordingOptions
from kernelscope.recorder.recorder import Recorder
from kernelscope.recorder.session import Session
from kernelscope.recorder.worker import save_into

if TYPE_CHECKING:
    from kernelscope.recording.model import Recording

# What makes tables and files of a recording is imported where it is needed: a worker is to begin fast.

_NAME = re.compile(r"\w[\w.-]{0,250}")
#: Workers that close, or whose client has gone, are given this long to write their files; then journals are read.
_PATIENCE_S, _BETWEEN_S = 5.0, 0.02
_SUFFIX = ".kscope"
_TOKEN = secrets.token_hex(8)


@dataclass
class _Recorded:
    """What this process records for one recording of a cluster."""

    folder: Path
    recorder: _WorkerRecorder
    workers: list[str] = field(default_factory=list)
    #: Which of them have not closed.
    open: set[str] = field(default_factory=set)
    problem: str = ""
    #: Pings of the scheduler's clock when it began.
    clock: dict[str, Any] = field(default_factory=dict)
    #: It loads what the end needs: a worker that closes has little time.
    loading: asyncio.Future[None] | None = None


_recorded: dict[str, _Recorded] = {}
_lock = threading.RLock()


def folder_of(local_directory: str | Path, recording: str) -> Path:
    """Return the folder of a recording on a worker's host."""
    return Path(local_directory).parent / f"kernelscope-{recording}"


def token() -> str:
    """Return what tells this process from all others: several workers may be threads of one, and the client's too."""
    return f"{_TOKEN}-{os.getpid()}"


async def begin(worker: Any, settings: Mapping[str, Any]) -> None:
    """Record this process, unless another worker in it has begun to.

    Parameters
    ----------
    worker : distributed.Worker
        Who begins.
    settings : mapping
        ``recording``, its id; ``options``, arguments of `Recorder`, of which those are left out that this version does
        not know.
    """
    pings = await pings_of_scheduler(worker.scheduler, now)
    held = await asyncio.to_thread(_begin, str(worker.name), worker.address, worker.local_directory, settings, pings)
    if held.loading is None:
        held.loading = asyncio.get_running_loop().run_in_executor(None, held.recorder.load)


async def close(worker: Any, recording: str) -> None:
    """End with a worker that closes, or whose plugin is removed; its file stays in the folder until it is fetched."""
    with _lock:
        held = _recorded.get(recording)
        if held is None:
            return
        held.open.discard(worker.address)
        if held.open:
            return
    await end(worker, recording)
    with _lock:
        _recorded.pop(recording, None)


async def end(worker: Any, recording: str) -> dict[str, Any]:
    """Stop, write the file, and return what is to be said of this process; a second time only say it again.

    Nothing is said where it has closed already.
    """
    held = _recorded.get(recording)
    pings = await pings_of_scheduler(worker.scheduler, now) if held and held.recorder.is_recording else {}
    return await asyncio.to_thread(_end, recording, pings)


def _begin(name: str, address: str, local_directory: str, settings: Mapping[str, Any],
           pings: dict[str, Any]) -> _Recorded:
    with _lock:
        number = settings["recording"]
        held = _recorded.get(number)
        if held is None:
            folder = folder_of(local_directory, number)
            folder.mkdir(mode=0o700, exist_ok=True)
            _check(folder)
            known = {each.name for each in fields(RecordingOptions)}
            given: dict[str, Any] = {each: value for each, value in settings["options"].items() if each in known}
            given |= {"journal": folder, "clock": now}
            recorder = _WorkerRecorder(**given)
            recorder.folder = folder
            recorder.start()
            recorder.tell({**process(), "worker": name, "launcher": "dask"}, kept(pings, {}))
            recorder.begin_cell(f"worker {name}")
            held = _recorded[number] = _Recorded(folder, recorder, clock=pings)
        held.workers.append(name)
        held.open.add(address)
        return held


def _end(recording: str, pings: dict[str, Any]) -> dict[str, Any]:
    with _lock:
        held = _recorded.get(recording)
        if held is None:
            return {}
        if held.recorder.is_recording:
            try:
                held.recorder.tell({}, kept(held.clock, pings))
                held.recorder.stop()  # it ends the cell too, once it has what it needs
            except Exception as error:
                held.problem = f"{type(error).__name__}: {error}"
        return {"token": token(), "pid": os.getpid(), "host": platform.node(), "version": kernelscope.__version__,
                "workers": held.workers, "folder": str(held.folder), "file": held.recorder.file,
                "problem": held.problem, "clock": oddity(held.clock)}


def left_in(folder: Path) -> list[str]:
    """Return the names of the files and journals in a folder; wait a little for workers that are just closing.

    The journal of one that goes on nevertheless is named too: it can be read as far as it is. Where the folder is not
    there, nothing is in it.

    Raises
    ------
    KernelScopeError
        It cannot be read, or others than this user can write to it.
    """
    from kernelscope.recorder.children import found_in

    until = time.monotonic() + _PATIENCE_S
    try:
        while True:
            _check(folder)
            names = [path.name for path in found_in(folder)]
            if time.monotonic() > until or not any(
                    not name.endswith(_SUFFIX) and is_held(folder / name) for name in names):
                return names
            time.sleep(_BETWEEN_S)
    except FileNotFoundError:
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
    from kernelscope.recorder.children import read
    from kernelscope.recording.file import save

    _check(folder)
    if not _NAME.fullmatch(name):
        raise RecordingFileError(f"{name!r} is no file of a recording")
    path = folder / name
    if name.endswith(_SUFFIX):
        return path.read_bytes()
    with tempfile.TemporaryDirectory(prefix="kernelscope-") as made:
        return save(read(path), Path(made) / "recovered.kscope", paths=True).read_bytes()


def remove(folder: Path, names: list[str]) -> None:
    """Remove what was fetched, and the folder if nothing is left in it.

    Raises
    ------
    KernelScopeError
        A journal is still written to, or others than this user can write to the folder.
    OSError
        Something cannot be removed.
    """
    from kernelscope.recording.journal import remove_journal

    try:
        _check(folder)
        for name in filter(_NAME.fullmatch, names):
            path = folder / name
            if name.endswith(_SUFFIX):
                path.unlink(missing_ok=True)
            elif path.exists():
                remove_journal(path)
        folder.rmdir()
    except FileNotFoundError:  # another worker of this host has removed it
        pass
    except OSError as error:
        if error.errno != errno.ENOTEMPTY:
            raise


def _check(folder: Path) -> None:
    """Refuse a folder that somebody else may write to: that beside it is often one of all users."""
    reason = why_not_own(folder, links=False)
    if reason is not None:
        raise KernelScopeError(f"{reason}: a worker records only into a folder of its own user's")


class _WorkerRecorder(Recorder):
    """Writes the recording into a file before its journal goes."""

    folder = Path()
    file = ""

    def _load(self) -> None:
        """Leave it to `load`."""

    def load(self) -> None:
        """Import what makes tables."""
        super()._load()

    def tell(self, process: Mapping[str, Any], pings: Mapping[str, Any]) -> None:
        """Have the recording, and its journal, know which worker it is of, and how its clock is found."""
        session, part = self._session, self._part
        if session is None or part is None or part.began is not None:  # it is another recording's process
            return
        told = {name: value for name, value in (("process", process), ("pings", pings)) if value}
        if told:
            session.sink.metadata.update(told)
            session.begin_journal(self.name)

    def _completed(self, recording: Recording, session: Session) -> None:
        journal = session.journal
        name = journal.folder.name if journal is not None and journal.is_on else None
        self.file = save_into(self.folder, recording, name).name
