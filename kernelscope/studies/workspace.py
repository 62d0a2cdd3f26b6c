"""The temporary folder of a study, which goes with everything in it, however the study ends."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import tempfile
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from kernelscope.errors import StudyError
from kernelscope.studies import worktrees
from kernelscope.studies.commands import to_the_end

PREFIX = "kernelscope-study-"
# Locked as long as the study lives: what has it unlocked was left by one that was killed.
_OWNER = "owner"
_TREES = "worktrees"
# A file's name has at most 255 bytes, and labels and git refs may be longer; a path has 4096.
_LONGEST_NAME = 80


class Workspace:
    """A temporary folder with everything that a study makes: worktrees, environments, working folders.

    A context manager: leaving it removes the folder, and git's records of the worktrees in it, also after Ctrl-C or
    another exception. What a study that was killed has left is removed by the next one.

    Parameters
    ----------
    parent : Path, optional
        The folder to make it in; that of temporary files by default.

    Attributes
    ----------
    path : Path
        The folder.
    held : ExitStack
        What else is let go at the end, such as the locks of environments in use.
    """

    def __init__(self, parent: Path | None = None) -> None:
        self._parent = parent or Path(tempfile.gettempdir())
        self._owner: IO[Any] | None = None
        self.path = Path()
        self.held = ExitStack()

    def __enter__(self) -> Workspace:
        sweep(self._parent)
        try:
            self.path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=self._parent)).resolve()
            # Locked under another name, as an unlocked one would be swept away by another study.
            self._owner = (self.path / "locked").open("w")
            fcntl.flock(self._owner, fcntl.LOCK_EX)
            (self.path / "locked").rename(self.path / _OWNER)
        except OSError as problem:
            raise StudyError(f"no folder for the study can be made in {str(self._parent)!r}: {problem.strerror}; set "
                             "TMPDIR to another folder") from problem
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 traceback: TracebackType | None) -> None:
        to_the_end(self.close)

    def close(self) -> None:
        """Remove everything."""
        if self._owner is None:
            return
        _remove(self.path)
        self.held.close()
        self._owner.close()
        self._owner = None

    def folder(self, *names: str) -> Path:
        """Make a new, empty folder, named after `names`, and return it."""
        *parents, name = [re.sub(r"[^A-Za-z0-9._-]+", "-", each)[:_LONGEST_NAME].strip("-.") or "target"
                          for each in names]
        parent = self.path.joinpath(*parents)
        parent.mkdir(parents=True, exist_ok=True)
        for number in range(1, 10_000):
            made = parent / (name if number == 1 else f"{name}-{number}")
            with contextlib.suppress(FileExistsError):
                made.mkdir()
                return made
        raise StudyError(f"{str(parent)!r} has too many folders called {name!r}")

    def worktree(self, repo: Path, ref: str) -> tuple[Path, str]:
        """Make a worktree of a ref of a repository; return its folder and the commit, or raise `StudyError`."""
        return worktrees.add(repo, ref, self.folder(_TREES, ref))


def sweep(parent: Path) -> None:
    """Remove what studies of this user that were killed have left in a folder. Never fails."""
    with contextlib.suppress(OSError):
        for left in list(parent.glob(f"{PREFIX}*")):
            with contextlib.suppress(OSError):
                _sweep(left)


def _sweep(left: Path) -> None:
    status = left.lstat()
    if left.is_symlink() or status.st_uid != os.getuid():
        return
    with (left / _OWNER).open("r+") as owner:
        fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)  # or it is another study that is still at work
        _remove(left.resolve())


def _remove(folder: Path) -> None:
    with contextlib.suppress(OSError):
        for slot in list((folder / _TREES).iterdir()):
            worktrees.remove(slot)
    for _ in range(3):  # a process that is just ending may write another file
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
