"""Virtual environments of a study's targets: made for the study, or kept for the next one where that gives the same."""

from __future__ import annotations

import fcntl
import hashlib
import importlib.metadata
import json
import os
import re
import shlex
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

from kernelscope.errors import StudyError
from kernelscope.private_folders import make_private, why_not_private
from kernelscope.studies.commands import COLORS, Finished, last_words, run

FOLDER = "KERNELSCOPE_STUDY_ENVIRONMENTS"
"""The environment variable that names the folder of the environments that are kept."""

# An environment that no study has used for so long is removed by the next one that makes one.
_FORGOTTEN_S = 30 * 24 * 3600
_MAKING = ".making-"
# Of one that is not kept, as somebody else could change what is.
_ALONE = "kernelscope-environment-"
_STAMP = "used"
# What pip says where it cannot reach its index. A requirement that does not exist has a list of versions after "from".
_OFFLINE = re.compile(r"NewConnectionError|ConnectTimeout|ProxyError|NameResolutionError|from versions: none|"
                      r"Temporary failure in name resolution|Connection refused")
# The first pip that can install into another environment.
_OWN_PIP = (22, 3)


def make(where: Path) -> Path:
    """Make a virtual environment of this interpreter in a folder, without packages; return its interpreter.

    Raises
    ------
    StudyError
        There is no module venv, or it fails.
    """
    options = [] if _pip_of_this() is None else ["--without-pip"]
    finished = run([sys.executable, "-m", "venv", *options, where])
    if finished.status:
        hint = "; on Debian and Ubuntu: apt-get install python3-venv" if "ensurepip" in _all(finished) else ""
        raise StudyError(f"{sys.executable} cannot make a virtual environment: {last_words(finished)}{hint}")
    return where / "bin" / "python"


def install(python: Path, requirements: Sequence[str], *, scratch: Path, find_links: Sequence[str] = (),
            no_index: bool = False) -> None:
    """Install requirements into the environment of an interpreter that `make` returned.

    Parameters
    ----------
    python : Path
        The environment's interpreter.
    requirements : sequence of str
        As pip takes them on its command line, ``--editable`` and a folder among them.
    scratch : Path
        The folder for pip's temporary files, which are left if it is interrupted.
    find_links : sequence of str, optional
        Folders or pages with wheels.
    no_index : bool, optional
        Whether to look at nothing else.

    Raises
    ------
    StudyError
        pip fails.
    """
    pip = [sys.executable, "-m", "pip", "--python", str(python)] if _pip_of_this() else [str(python), "-m", "pip"]
    options = ["--disable-pip-version-check", "--no-input", "--quiet", "--retries", "2"]
    links = [word for link in find_links for word in ("--find-links", link)]
    finished = run([*pip, *options, "install", *(["--no-index"] if no_index else []), *links, *requirements],
                   cwd=scratch, environ=_environ_of_pip(scratch))
    if finished.status:
        raise StudyError(f"pip cannot install {_told(requirements)}: {last_words(finished)}"
                         f"{_next_step(finished, no_index, requirements)}")


def kept(name: str, request: Sequence[str], build: Callable[[Path], None], held: ExitStack,
         progress: Callable[[str], None]) -> Path:
    """Return the folder of an environment that is kept, which is made where there is none yet.

    It is kept only where nobody but the user can change it; else it goes with `held`, and `progress` is told why.
    It is made under another name, and renamed when it is complete, so that none is left half-made. It is locked as long
    as `held` is open: another study may use it meanwhile, but nothing removes it.

    Parameters
    ----------
    name : str
        What its folder's name begins with.
    request : sequence of str
        Everything that it is made from: another request is another environment.
    build : callable
        Given a folder that does not exist yet, makes the environment there.
    held : ExitStack
        What the lock is let go with.
    progress : callable
        Given a line on what takes time.
    """
    key = hashlib.sha256(json.dumps([sys.version, os.path.realpath(sys.executable), *request]).encode()).hexdigest()
    folder = environments_folder()
    made = folder / f"{name}-{key[:16]}"
    why = why_not_private(folder)
    if why is None:
        try:
            make_private(folder)
        except OSError as problem:
            raise _cannot_be_kept(folder, problem) from problem
        # Again, as somebody else may have made one of that name; and what is run from it must be the user's as well.
        why = why_not_private(folder) or why_not_private(made) or why_not_private(made / "bin")
    if why is not None:
        progress(f"making the environment of {name} for this study only: {why}")
        alone = Path(held.enter_context(tempfile.TemporaryDirectory(prefix=_ALONE))) / "environment"
        build(alone)
        return alone

    def waiting() -> None:
        progress(f"waiting for another study that makes the environment of {name}")

    try:
        forget(older_than_s=_FORGOTTEN_S, but=made)
        lock = held.enter_context(_shared(folder / f"{made.name}.lock", waiting))
    except OSError as problem:
        raise _cannot_be_kept(folder, problem) from problem
    if not _is_usable(made):
        _lock(lock, fcntl.LOCK_EX, waiting)
        if not _is_usable(made):  # nobody else has made it meanwhile
            _build(made, build)
        fcntl.flock(lock, fcntl.LOCK_SH)
    (made / _STAMP).touch()
    return made


def _cannot_be_kept(folder: Path, problem: OSError) -> StudyError:
    return StudyError(f"environments cannot be kept in {str(folder)!r}: {problem.strerror}; set {FOLDER} to another "
                      "folder")


def forget(older_than_s: float = 0.0, but: Path | None = None) -> list[Path]:
    """Remove kept environments that no study uses now, or none has used for so long; return their folders."""
    folder, removed = environments_folder(), list[Path]()
    if not folder.is_dir():
        return removed
    for lock in sorted(folder.glob("*.lock")):
        made = folder / lock.name.removesuffix(".lock")
        stamp = made / _STAMP
        if made == but or (stamp.exists() and time.time() - stamp.stat().st_mtime < older_than_s):
            continue
        with lock.open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                continue
            shutil.rmtree(folder / f"{_MAKING}{made.name}", ignore_errors=True)
            if made.exists():
                removed.append(made)
                shutil.rmtree(made, ignore_errors=True)
                lock.unlink(missing_ok=True)  # without an environment, a study may be about to make it
    return removed


def environments_folder() -> Path:
    """Return the folder of the environments that are kept: one in the user's cache, or what `FOLDER` names."""
    chosen = os.environ.get(FOLDER)
    if chosen:
        return Path(chosen).expanduser().absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kernelscope" / "study-environments"


def _build(made: Path, build: Callable[[Path], None]) -> None:
    """Make an environment under another name, which it has until it is complete."""
    making = made.with_name(f"{_MAKING}{made.name}")
    for left in (made, making):
        shutil.rmtree(left, ignore_errors=True)
    try:
        build(making)
        making.rename(made)
    except BaseException:
        shutil.rmtree(making, ignore_errors=True)
        raise


@contextmanager
def _shared(path: Path, waiting: Callable[[], None]) -> Generator[IO[Any]]:
    """Lock a file against removing what it stands for."""
    while True:
        with path.open("a") as lock:
            _lock(lock, fcntl.LOCK_SH, waiting)
            # Between opening and locking it may have been removed, with the environment.
            if path.exists() and path.stat().st_ino == os.fstat(lock.fileno()).st_ino:
                yield lock
                return


def _lock(file: IO[Any], how: int, waiting: Callable[[], None]) -> None:
    try:
        fcntl.flock(file, how | fcntl.LOCK_NB)
    except OSError:
        waiting()
        fcntl.flock(file, how)


def _is_usable(made: Path) -> bool:
    """Whether it is there and its interpreter runs: that which it was made with may be gone."""
    python = made / "bin" / "python"
    if not python.exists():
        return False
    return run([python, "-I", "-c", ""], timeout_s=60).status == 0


def _pip_of_this() -> str | None:
    """The version of this environment's pip, if it has one that can install into another environment."""
    try:
        version = importlib.metadata.version("pip")
    except importlib.metadata.PackageNotFoundError:
        return None
    numbers = tuple(int(number) for number in re.findall(r"\d+", version)[:2])
    return version if numbers >= _OWN_PIP else None


def _environ_of_pip(scratch: Path) -> dict[str, str]:
    """What pip inherits of this process's environment: no settings that would install elsewhere."""
    dropped = ("PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_PYTHON", "PIP_REQUIREMENT", "PIP_EDITABLE", "PYTHONPATH",
               "PYTHONHOME", "VIRTUAL_ENV", *COLORS)
    environ = {name: value for name, value in os.environ.items() if name not in dropped}
    return environ | {"PIP_USER": "0", "PIP_REQUIRE_VIRTUALENV": "0", "TMPDIR": str(scratch), "LC_ALL": "C.UTF-8"}


def _next_step(finished: Finished, no_index: bool, requirements: Sequence[str]) -> str:
    if no_index:
        fill = "" if requirements[0] == "--editable" else (
            f": where there is a network,  pip download -d FOLDER {shlex.join(requirements)}  gets all that it needs")
        return f" (only folders of --find-links were looked at, as --no-index asks{fill})"
    if _OFFLINE.search(_all(finished)):
        return " (the package index cannot be reached, or does not have it: name a folder of wheels with --find-links)"
    return ""


def _told(requirements: Sequence[str]) -> str:
    """What was to be installed, in words: a checkout's folder may be a worktree that nobody knows."""
    return "the checkout" if requirements[0] == "--editable" else " ".join(requirements)


def _all(finished: Finished) -> str:
    return finished.output + finished.errors
