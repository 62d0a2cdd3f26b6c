"""The processes that Python starts while a recording runs: they record themselves, and become part of it.

They inherit an environment variable with the name of a folder, and each writes its own file there; see
`kernelscope.processes`. Nothing listens on a port, and nothing is unpickled: files are read as any ``.kscope`` file and
any journal is, with the same refusals.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from kernelscope.errors import RecordingFileError
from kernelscope.native.journal import is_held
from kernelscope.processes import OPTIONS, RECORD
from kernelscope.recorder.options import RecordingOptions
from kernelscope.recorder.recover import recovered
from kernelscope.recorder.worker import STOP, spelled, with_status
from kernelscope.recording.file import load
from kernelscope.recording.journal import find_journals, is_journal
from kernelscope.recording.merge import gather
from kernelscope.recording.model import Recording
from kernelscope.recording.parquet import table_of_rows
from kernelscope.recording.trace_files import importer_of
from kernelscope.schema import TABLES
from kernelscope.suggestions import did_you_mean_file
from kernelscope.units import counted

Row = dict[str, Any]

#: Of the folders of a recording's children.
SUFFIX = ".children"
#: Children that still record are given this long to write their files; then their journals are read.
_PATIENCE_S = 5.0
_BETWEEN_S = 0.02
_LISTED = 5


class Children:
    """What the processes that start meanwhile are recorded into, from `begin` to `close`.

    Parameters
    ----------
    options : RecordingOptions
        The recording's; they record with the same.
    base : Path or None
        The folder of the recording's journal; without it the folder is a temporary one.
    """

    #: The one whose folder is in the environment: a recording inside leaves children to it.
    active: ClassVar[Children | None] = None

    def __init__(self, options: RecordingOptions, base: Path | None) -> None:
        self._options = options
        self._base = base
        self._process = os.getpid()
        self._folder: Path | None = None
        self._before: dict[str, str | None] = {}
        self._set: dict[str, str] = {}
        self._older: set[int] = set()
        self._is_unread = False
        self.notes: list[Row] = [] if _is_installed() else [note(
            "there is no kernelscope.pth beside this Python's packages: only child processes that call "
            "kernelscope.processes.start_from_environment() are recorded", "install kernelscope with pip")]

    def begin(self) -> None:
        """Make the folder, which only this user can read, and name it in the environment.

        Raises
        ------
        OSError
            The folder cannot be made.
        """
        if self._base is None:
            self._folder = Path(tempfile.mkdtemp(prefix="kernelscope-", suffix=SUFFIX))
        else:
            self._base.mkdir(mode=0o700, parents=True, exist_ok=True)
            folder = self._base / f"{self._process}-{secrets.token_hex(4)}{SUFFIX}"
            folder.mkdir(mode=0o700)
            self._folder = folder
        self._older = _python_children()
        self._set = {RECORD: str(self._folder), OPTIONS: spelled(self._options)}
        Children.active = self
        for name, value in self._set.items():
            self._before[name] = os.environ.get(name)
            os.environ[name] = value

    def end(self) -> None:
        """Put the environment back as it was, and have children that still record finish; again: nothing."""
        if os.getpid() != self._process or self._folder is None:
            return
        while self._before:
            name, value = next(iter(self._before.items()))
            if os.environ.get(name) == self._set[name]:  # else somebody has changed it since
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value
            del self._before[name]
        if Children.active is self:
            Children.active = None
        with contextlib.suppress(OSError):
            (self._folder / STOP).touch(mode=0o600)

    def joined(self, own: Recording) -> tuple[Recording, BaseException | None]:
        """Return a recording with what the children recorded, and what interrupted the gathering.

        Where it is interrupted, what was read until then is in the recording.
        """
        folder, interrupt = self._folder, None
        if os.getpid() != self._process or folder is None:
            return own, None
        try:
            self._wait(folder)
        except KeyboardInterrupt as error:
            interrupt = error
        notes = [*self.notes]
        still = self._older & _python_children()
        if still:
            notes.append(note(
                f"{counted(len(still), 'child process was', 'child processes were')} there before the recording began, "
                f"and not recorded: pid {', '.join(map(str, sorted(still)[:_LISTED]))}",
                "begin the recording before the pool of processes"))
        whole = own
        try:
            gathered = gather([own, *found_in(folder)], name=own.name, read=read)
            whole, unread = gathered.recording, gathered.interrupt
        except KeyboardInterrupt as error:
            unread = error
        if unread is not None:
            self._is_unread = True
            notes.append(note(f"interrupted: what was not read of the child processes stays in {folder}",
                               "make one recording of this one and that folder: kernelscope merge FILE FOLDER"))
        return _with_health(whole, notes), unread or interrupt

    def close(self) -> None:
        """Remove the folder, unless something in it was not read; journals that are still written to go on nameless."""
        self.end()
        if self._folder is not None and os.getpid() == self._process and not self._is_unread:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _wait(self, folder: Path) -> None:
        """Wait for children that still record, and now finish; not long."""
        until = time.monotonic() + _PATIENCE_S
        while time.monotonic() < until and any(is_held(path) for path in _journals_in(folder)):
            time.sleep(_BETWEEN_S)


def found_in(folder: Path) -> list[Path]:
    """Return the ``.kscope`` files and the journals in a folder, and in those of children in it, sorted by name.

    The journal of a process that has written its file is left out: it was killed before it could remove it.
    """
    try:
        with os.scandir(folder) as listed:
            entries = sorted(listed, key=lambda entry: entry.name)
    except OSError as error:
        raise RecordingFileError(f"{folder} cannot be read: {error.strerror or error}") from None
    files = [Path(entry) for entry in entries if entry.name.endswith(".kscope")]
    paths = list(files)
    for entry in entries:
        path = Path(entry)
        if not entry.is_dir(follow_symlinks=False):
            continue
        if is_journal(path):
            if not any(file.stem.endswith(entry.name) for file in files):
                paths.append(path)
        elif entry.name.endswith(SUFFIX):
            paths += found_in(path)
    return paths


def read(path: Path) -> Recording:
    """Return what one process left: its file, or its journal; of another tool's trace the recording that it makes."""
    if not is_journal(path):
        return load(path)
    (journal,) = find_journals(path)
    recording = recovered(journal)
    if journal.is_live:
        return with_status(recording, "unfinished", "it was still recording: its launches until then")
    return with_status(recording, "killed", "it ended without closing its recording, by a signal or os._exit, or "
                        "its program was replaced by os.exec: recovered from its journal, without what the GPU did")


def note(message: str, fix: str | None = None) -> Row:
    """Return a row of ``health`` of what is missing."""
    return {"probe": "recorder", "status": "degraded", "message": message, "fix": fix}


def found(folders: Sequence[Path]) -> list[Path]:
    """Return the files and journals in these folders, and those that are named themselves, each once.

    Another tool's trace has to be named itself, a folder of Parquet files too.

    Raises
    ------
    RecordingFileError
        There is none, or a folder is not there.
    """
    paths: dict[Path, None] = {}
    for folder in folders:
        if folder.is_dir() and not is_journal(folder) and importer_of(folder) is None:
            paths |= dict.fromkeys(found_in(folder))
        elif os.path.lexists(folder):  # what a link without a file is, `load` says
            paths[folder] = None
        else:
            raise RecordingFileError(f"there is no file or folder {str(folder)!r}"
                                     f"{did_you_mean_file(str(folder), '.kscope')}")
    if not paths:
        raise RecordingFileError(f"there is no recording in {', '.join(map(str, folders))}")
    return list(paths)


def _journals_in(folder: Path) -> list[Path]:
    return [path for path in found_in(folder) if path.suffix != ".kscope"]


def _with_health(recording: Recording, notes: list[Row]) -> Recording:
    if not notes:
        return recording
    health = table_of_rows("health", [*recording.rows("health"), *notes])
    return Recording({**{name: recording.arrow(name) for name in TABLES}, "health": health}, recording.metadata)


def _is_installed() -> bool:
    """Whether Python's packages have the file that it runs when it starts."""
    return any(os.path.isfile(os.path.join(folder, "kernelscope.pth")) for folder in sys.path if "-packages" in folder)


def _python_children() -> set[int]:
    """The pids of this process's children that run Python, but for those that multiprocessing needs for itself."""
    found: set[int] = set()
    with contextlib.suppress(OSError, ValueError):
        for task in Path("/proc/self/task").iterdir():
            found |= {int(pid) for pid in (task / "children").read_text().split()}
    return {pid for pid in found if _runs_python(pid)}


def _runs_python(pid: int) -> bool:
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
        return (os.path.realpath(f"/proc/{pid}/exe") == os.path.realpath(sys.executable)
                and b"resource_tracker" not in command)
    except OSError:
        return False
