"""How targets become interpreters: worktrees, virtual environments and the folder that holds them."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from types import TracebackType
from typing import IO, Any, NamedTuple

from kernelscope.errors import StudyError
from kernelscope.private_folders import make_private, why_not_private
from kernelscope.studies.result import TargetReport
from kernelscope.studies.target import FORMS, KINDS, Package, Target, find_package, framework_of, usable_as_is

# How long what was told to end may take before it is killed.
_GRACE_S = 3.0
_MOST_INTERRUPTIONS = 100
_ERROR = re.compile(r"^\s*(?:\w+\.)*(?:error|fatal|fatal error|\w*Error)\s*:", re.IGNORECASE)
_DIAGNOSIS = re.compile(r"^[^\s:]+:\d+(?::\d+)?:\s*(?:fatal )?error:")  # a compiler's, with file and line
# Lines of pip that only say that something failed, which an earlier line says better.
_VAGUE = re.compile(r"subprocess-exited-with-error|Failed (?:to build|building)|Could not build wheels|No matching "
                    r"distribution|metadata-generation-failed|failed-wheel-build|failed to build", re.IGNORECASE)
# What no other line says better: what comes after it only follows.
_FULL = re.compile(r"No space left on device|Disk quota exceeded|unable to write file")
_COLOR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_LONGEST = 300

COLORS = ("FORCE_COLOR", "CLICOLOR_FORCE", "CLICOLOR", "PY_COLORS")
"""What asks programs for colours although no terminal is there; a notebook's kernel sets some of them."""


class Finished(NamedTuple):
    """The exit status and the output of a command."""

    status: int
    output: str
    errors: str


def run(command: Sequence[str | Path], *, cwd: Path | None = None, environ: Mapping[str, str] | None = None,
        timeout_s: float | None = None) -> Finished:
    """Run a command in a new process group, and return how it ended.

    An exception meanwhile, such as Ctrl-C's, ends the whole group before it goes on.

    Raises
    ------
    StudyError
        It cannot be started, or did not end in `timeout_s` seconds.
    """
    process: subprocess.Popen[str] | None = None
    try:
        with interrupts_postponed():
            process = subprocess.Popen(
                command, cwd=cwd, env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.PIPE, text=True, encoding="utf-8", errors="replace", start_new_session=True)
        output, errors = process.communicate(timeout=timeout_s)
    except BaseException as problem:
        if process is None and isinstance(problem, OSError):
            raise StudyError(f"{str(command[0])!r} cannot be run: {problem.strerror or problem}") from problem
        if process is not None:
            end(process)
        if isinstance(problem, subprocess.TimeoutExpired):
            raise StudyError(f"{str(command[0])!r} did not end in {timeout_s:g} seconds") from None
        raise
    return Finished(process.returncode, output, errors)


def end(process: subprocess.Popen[str]) -> None:
    """End a process group: SIGTERM first, then SIGKILL."""
    _signal(process, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_GRACE_S)
    _signal(process, signal.SIGKILL)
    process.wait()
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()


@contextmanager
def interrupts_postponed() -> Generator[None]:
    """Delay a Ctrl-C until the end of the block, so that what the block starts is registered and can be ended."""
    came: list[tuple[int, Any]] = []
    before: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if callable(handler := signal.getsignal(number)):
                before[number] = handler
                signal.signal(number, lambda *given: came.append(given))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if came:
        before[came[0][0]](*came[0])


def run_uninterrupted(action: Callable[[], object]) -> None:
    """Do what must be done however impatient the user is: after a Ctrl-C once more, and what was raised is raised then.

    One that is held down comes 30 times a second. `action` must be one that goes on where it was interrupted.
    """
    interrupted: KeyboardInterrupt | None = None
    for _ in range(_MOST_INTERRUPTIONS):
        try:
            action()
            break
        except KeyboardInterrupt as again:
            interrupted = again
    if interrupted is not None:
        raise interrupted


def error_line(finished: Finished) -> str:
    """Return the one line of a failed command's output that says best why it failed."""
    written = _COLOR.sub("", f"{finished.output}\n{finished.errors}")
    lines = [line.strip() for line in written.splitlines() if line.strip()]
    errors = [line for line in lines if _ERROR.match(line)]
    clear = [line for line in errors if not _VAGUE.search(line)]
    diagnosed = [line for line in lines if _DIAGNOSIS.match(line)][:1]  # those after it follow from it, mostly
    full = [line for line in lines if _FULL.search(line)]
    line = (full or diagnosed or clear or errors or lines or [f"it ended with status {finished.status}"])[-1]
    line = re.sub(r"^(?:ERROR|error|fatal):\s*", "", line)
    line = re.sub(r"^Command '\['([^']+)'.*\]' returned", r"\1 returned", line)  # without pages of options
    line = re.sub(r"\(from versions: [^,()]+(?:, [^,()]+)+, ([^,()]+)\)", r"(the newest is \1)", line)  # or versions
    return line if len(line) <= _LONGEST else line[:_LONGEST - 1] + "…"


def _signal(process: subprocess.Popen[str], number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


# The temporary folder of a study.

PREFIX = "kernelscope-study-"
# Locked as long as the study lives: what has it unlocked was left by one that was killed.
_OWNER = "owner"
_TREES = "worktrees"
# A file's name has at most 255 bytes, and labels and git refs may be longer; a path has 4096.
_LONGEST_NAME = 80


class Workspace:
    """A temporary folder for everything that a study makes: worktrees, environments, working folders.

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
    resources : ExitStack
        What else is let go at the end, such as the locks of environments in use.
    """

    def __init__(self, parent: Path | None = None) -> None:
        self._parent = parent or Path(tempfile.gettempdir())
        self._owner: IO[Any] | None = None
        self.path = Path()
        self.resources = ExitStack()

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
        run_uninterrupted(self.close)

    def close(self) -> None:
        """Remove everything."""
        if self._owner is None:
            return
        _remove(self.path)
        self.resources.close()
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
        return add(repo, ref, self.folder(_TREES, ref))


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
            remove(slot)
    for _ in range(3):  # a process that is just ending may write another file
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return


# Git worktrees of a study.

# Beside a worktree: the path of the repository's .git folder, which has git's record of it. It is written before git
# is asked, so that nothing is left behind by a study that was killed.
_REPOSITORY = "repository"
_TREE = "tree"
# What makes git look at another repository than that of the folder that it is called in; a hook of git has them set.
_ELSEWHERE = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR", "GIT_PREFIX",
              "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_NAMESPACE")
_DIGITS = 12


def add(repo: Path, ref: str, slot: Path) -> tuple[Path, str]:
    """Make a worktree of a ref, and return its folder and the commit.

    Parameters
    ----------
    repo : Path
        A folder of the repository.
    ref : str
        A branch, a tag, a commit, ``HEAD~3``.
    slot : Path
        An empty folder, which `remove` takes; the worktree is in it.

    Raises
    ------
    StudyError
        `repo` is no repository, it has no such ref, or git fails.
    """
    commit = commit_of(repo, ref)
    common = Path(_asked(repo, "rev-parse", "--git-common-dir"))
    (slot / _REPOSITORY).write_text(str((repo / common).resolve()), encoding="utf-8")
    tree = slot / _TREE
    # The user's hooks are for the user's checkouts.
    finished = _git(repo, "-c", "core.hooksPath=/dev/null", "worktree", "add", "--quiet", "--detach", str(tree), commit)
    if finished.status:
        raise StudyError(f"git cannot make a worktree of {ref!r}: {error_line(finished)}")
    return tree, commit


def remove(slot: Path) -> None:
    """Remove the worktree in a slot, complete or not, and git's record of it. Never fails."""
    tree, note = slot / _TREE, slot / _REPOSITORY
    with contextlib.suppress(OSError):
        records = Path(note.read_text(encoding="utf-8")) / "worktrees"
        for record in list(records.iterdir()):
            if _belongs(record, tree):
                shutil.rmtree(record, ignore_errors=True)
        with contextlib.suppress(OSError):
            records.rmdir()  # only if it is empty, as git does
    shutil.rmtree(slot, ignore_errors=True)


def commit_of(repo: Path, ref: str) -> str:
    """Return the commit that a ref of a repository names; raises `StudyError`."""
    if not repo.is_dir():
        raise StudyError(f"there is no folder {str(repo)!r} with a git repository")
    if ref.startswith("-"):
        raise StudyError(f"a git ref cannot begin with a dash, as {ref!r} does")
    is_shallow = _asked(repo, "rev-parse", "--is-shallow-repository") == "true"
    found = _git(repo, "rev-parse", "--verify", "--quiet", ref)  # on its own, as :/words takes all that follows
    finished = _git(repo, "rev-parse", "--verify", "--quiet", f"{found.output.strip()}^{{commit}}")
    if found.status or finished.status:
        step = ("it is a shallow clone, and  git fetch --unshallow  gets the rest, in GitHub Actions fetch-depth: 0"
                if is_shallow else "see  git log --oneline  and  git branch --all")
        raise StudyError(f"the git repository in {str(repo)!r} has no commit {ref!r}: {step}")
    return finished.output.strip()


def revision(folder: Path) -> str | None:
    """Return the commit that a folder has checked out, with ``+changes`` if it has some; None where git knows none."""
    try:
        head = _git(folder, "rev-parse", "--verify", "--quiet", "HEAD")
        status = _git(folder, "status", "--porcelain", "--", ".")
    except StudyError:
        return None
    if head.status or status.status:
        return None
    return short(head.output.strip()) + ("+changes" if status.output.strip() else "")


def leaves_out_changes(folder: Path, commit: str) -> bool:
    """Return whether a folder has this commit checked out with changes that are not committed."""
    head = _git(folder, "rev-parse", "--verify", "--quiet", "HEAD")
    status = _git(folder, "status", "--porcelain", "--untracked-files=no")
    return head.output.strip() == commit and not status.status and bool(status.output.strip())


def short(commit: str) -> str:
    """Return a commit's first digits, as a report has them."""
    return commit[:_DIGITS]


def _belongs(record: Path, tree: Path) -> bool:
    """Return whether one of git's records belongs to a worktree."""
    try:
        written = record / (record / "gitdir").read_text(encoding="utf-8").strip()  # absolute, or relative to it
    except OSError:
        return False
    return written.parent.resolve() == tree.resolve()


def _asked(repo: Path, *arguments: str) -> str:
    finished = _git(repo, *arguments)
    if finished.status:
        raise StudyError(f"git cannot use {str(repo)!r}: {error_line(finished)}")
    return finished.output.strip()


def _git(folder: Path, *arguments: str) -> Finished:
    environ = {name: value for name, value in os.environ.items() if name not in _ELSEWHERE}
    environ |= {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0"}
    return run(["git", *arguments], cwd=folder, environ=environ)


# Virtual environments of a study's targets.

FOLDER = "KERNELSCOPE_STUDY_ENVIRONMENTS"
"""The environment variable that names the folder of the environments that are kept."""

# An environment that no study has used for so long is removed by the next one that makes one.
_UNUSED_S = 30 * 24 * 3600
_MAKING = ".making-"
# Of one that is not kept, as somebody else could change what is.
_TEMPORARY_PREFIX = "kernelscope-environment-"
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
        raise StudyError(f"{sys.executable} cannot make a virtual environment: {error_line(finished)}{hint}")
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
    # The environment variables for pip, without settings that would install elsewhere.
    dropped = ("PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_PYTHON", "PIP_REQUIREMENT", "PIP_EDITABLE", "PYTHONPATH",
               "PYTHONHOME", "VIRTUAL_ENV", *COLORS)
    environ = {name: value for name, value in os.environ.items() if name not in dropped}
    finished = run([*pip, *options, "install", *(["--no-index"] if no_index else []), *links, *requirements],
                   cwd=scratch, environ=environ | {"PIP_USER": "0", "PIP_REQUIRE_VIRTUALENV": "0",
                                                   "TMPDIR": str(scratch), "LC_ALL": "C.UTF-8"})
    if finished.status:
        raise StudyError(f"pip cannot install {_named(requirements)}: {error_line(finished)}"
                         f"{_next_step(finished, no_index, requirements)}")


def cached_environment(name: str, request: Sequence[str], build: Callable[[Path], None], resources: ExitStack,
                       progress: Callable[[str], None]) -> Path:
    """Return the folder of a cached environment, which is made if there is none yet.

    It is kept only where nobody but the user can change it; else it goes with `resources`, and `progress` is told why.
    It is made under another name, and renamed when it is complete, so that none is left half-made. It is locked as long
    as `resources` is open: another study may use it meanwhile, but nothing removes it.

    Parameters
    ----------
    name : str
        What its folder's name begins with.
    request : sequence of str
        Everything that it is made from: another request is another environment.
    build : callable
        Given a folder that does not exist yet, makes the environment there.
    resources : ExitStack
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
            raise _cache_error(folder, problem) from problem
        # Again, as somebody else may have made one of that name; and what is run from it must be the user's as well.
        why = why_not_private(folder) or why_not_private(made) or why_not_private(made / "bin")
    if why is not None:
        progress(f"making the environment of {name} for this study only: {why}")
        alone = Path(resources.enter_context(tempfile.TemporaryDirectory(prefix=_TEMPORARY_PREFIX))) / "environment"
        build(alone)
        return alone

    def waiting() -> None:
        progress(f"waiting for another study that makes the environment of {name}")

    try:
        remove_unused(older_than_s=_UNUSED_S, but=made)
        lock = resources.enter_context(_shared(folder / f"{made.name}.lock", waiting))
    except OSError as problem:
        raise _cache_error(folder, problem) from problem
    if not _is_usable(made):
        _lock(lock, fcntl.LOCK_EX, waiting)
        if not _is_usable(made):  # nobody else has made it meanwhile
            _build(made, build)
        fcntl.flock(lock, fcntl.LOCK_SH)
    (made / _STAMP).touch()
    return made


def _cache_error(folder: Path, problem: OSError) -> StudyError:
    return StudyError(f"environments cannot be kept in {str(folder)!r}: {problem.strerror}; set {FOLDER} to another "
                      "folder")


def remove_unused(older_than_s: float = 0.0, but: Path | None = None) -> list[Path]:
    """Remove cached environments that no study uses, or has used for that time; return their folders."""
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
    """Return the folder of the cached environments: in the user's cache, or what `FOLDER` names."""
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
    """Yield a shared lock on a file, which protects its environment from removal."""
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
    """Return whether it exists and its interpreter runs: the interpreter it was made with may be gone."""
    python = made / "bin" / "python"
    if not python.exists():
        return False
    return run([python, "-I", "-c", ""], timeout_s=60).status == 0


def _pip_of_this() -> str | None:
    """Return the version of this environment's pip, None if it cannot install into another environment."""
    try:
        version = metadata.version("pip")
    except metadata.PackageNotFoundError:
        return None
    numbers = tuple(int(number) for number in re.findall(r"\d+", version)[:2])
    return version if numbers >= _OWN_PIP else None


def _next_step(finished: Finished, no_index: bool, requirements: Sequence[str]) -> str:
    if no_index:
        fill = "" if requirements[0] == "--editable" else (
            f": where there is a network,  pip download -d FOLDER {shlex.join(requirements)}  gets all that it needs")
        return f" (only folders of --find-links were looked at, as --no-index asks{fill})"
    if _OFFLINE.search(_all(finished)):
        return " (the package index cannot be reached, or does not have it: name a folder of wheels with --find-links)"
    return ""


def _named(requirements: Sequence[str]) -> str:
    """Return a description of the requirements; the folder of a worktree would tell the user nothing."""
    return "the checkout" if requirements[0] == "--editable" else " ".join(requirements)


def _all(finished: Finished) -> str:
    return finished.output + finished.errors


# How targets become interpreters that can be started.

# What releases of numba-cuda fail with is not looked for on every installation: NumPy 2.5 has no row_stack, which
# those up to 0.30.4 at least call. numba-cuda-mlir gets the same NumPy, so that it is no difference between the two.
_NUMPY = "numpy<2.5"
# Up to 0.30.3, numba-cuda does not find types that numba 0.66 has moved, and cannot be imported.
_NUMBA_MOVED, _NUMBA = (0, 30, 4), "numba<0.66"
_PINNED = re.compile(r"[A-Za-z0-9._-]+\s*(\[[^\]]*\])?\s*==\s*[^\s*,;]+")
# What a user may have set for an interpreter of his own, and what makes one target's processes differ from another's.
_OF_THIS_PYTHON = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "VIRTUAL_ENV_PROMPT", "__PYVENV_LAUNCHER__",
                   "PYTHONEXECUTABLE", "PYTHONPLATLIBDIR")
_NEVER = ("PYTHONHASHSEED", "PYTHONINSPECT", "PYTHONSTARTUP", "PYTHONWARNINGS", *COLORS)
_COMPARED = ("python", "numpy", "numba", "llvmlite", "cuda-bindings", "cuda-core")
_LONGEST_PYTHON_S = 60.0
# Any Python understands it.
_VERSION = 'import sys; print("Python %d.%d" % sys.version_info[:2])'
_OLDEST = (3, 9)


@dataclass
class Prepared:
    """A target whose processes can be started.

    Attributes
    ----------
    target : Target
        Which.
    python : Path
        The interpreter to start; without ``-I`` or ``-E``, as a checkout may be on its ``PYTHONPATH``.
    environ : dict of str to str
        The whole environment of the process.
    cwd : Path
        An empty folder of the study's own to start it in.
    report : TargetReport
        Label, kind, source and revision are filled in.
    framework : str or None
        ``numba-cuda`` or ``numba-cuda-mlir`` where the target says which; None if its process has to find out.
    expected : Path or None
        The folder that the framework must be imported from; None for any.
    """

    target: Target
    python: Path
    environ: dict[str, str]
    cwd: Path
    report: TargetReport
    framework: str | None = None
    expected: Path | None = None


def prepare(target: Target, workspace: Workspace, *, install: bool = True, find_links: Sequence[str | Path] = (),
            no_index: bool = False, extra: str | None = None, also: Sequence[str] = (),
            progress: Callable[[str], None] | None = None) -> Prepared:
    """Make what is needed to start a target's processes.

    This environment and interpreters are used as they are. A requirement gets an environment of its own, which is kept
    for the next study where that is certain to be the same: for a version that is pinned with ``==``. A checkout or a
    ref's worktree is installed, editable, into an environment of its own, made for this study; as always with editable
    installations, what is compiled is written to the folder of the checkout.

    Parameters
    ----------
    target : Target
        Which.
    workspace : Workspace
        Where worktrees and environments are made.
    install : bool, optional
        Whether checkouts and refs are installed. If not, this environment's interpreter runs them, with all of its
        packages, and they need no compiling: see `kernelscope.studies.target`.
    find_links : sequence of str or Path, optional
        Folders or pages with wheels, for pip.
    no_index : bool, optional
        Whether pip may use nothing else, as on a machine without a network.
    extra : str, optional
        The extra of the framework that brings CUDA's compilers: ``cu12``, ``cu13``, or an empty text for none. By
        default that of the CUDA that is installed here, or that the driver supports.
    also : sequence of str, optional
        More requirements for environments that are made.
    progress : callable, optional
        Given a line on what takes time.

    Raises
    ------
    StudyError
        The target cannot be prepared; the message begins with the label and says why.
    """
    request = _Request(target, workspace, install, _links(find_links), no_index,
                       cuda_extra() if extra is None else extra, tuple(also), progress or (lambda _: None))
    makers = {"current": _current, "python": _python, "requirement": _requirement, "checkout": _checkout, "ref": _ref}
    try:
        if target.kind not in makers:
            raise StudyError(f"its kind {target.kind!r} is none of {', '.join(KINDS)}")
        return makers[target.kind](request)
    except StudyError as problem:
        raise StudyError(f"target {target.label!r}: {problem}") from problem
    except OSError as problem:
        raise StudyError(f"target {target.label!r}: {shortened(str(problem))}") from problem


def cuda_extra() -> str:
    """Return the extra that brings the CUDA of this environment, or that of the driver: ``cu12`` or ``cu13``."""
    try:
        installed = metadata.version("cuda-bindings").partition(".")[0]
    except metadata.PackageNotFoundError:
        installed = ""
    if installed in ("12", "13"):
        return f"cu{installed}"
    try:
        found = subprocess.run(["nvidia-smi"], capture_output=True, text=True, timeout=30, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        found = ""
    return "cu12" if re.search(r"CUDA[A-Za-z ]*Version: *12\.", found) else "cu13"


def add_version_warnings(reports: Sequence[TargetReport]) -> None:
    """Add a warning to each target with other versions than the first, besides the framework's."""
    known = [report for report in reports if report.versions]
    for report in known[1:]:
        ours, baseline = _normalized(report.versions), _normalized(known[0].versions)
        differing = [f"{name} {ours[name]} ({baseline[name]})" for name in _COMPARED
                     if name in ours and name in baseline and ours[name] != baseline[name]]
        if differing:
            report.warnings.append(f"Other versions than in {known[0].label}, besides the framework's: "
                                   f"{', '.join(differing)}.")


def shortened(text: str) -> str:
    """Return a text with the user's home folder as ``~`` and without the password of an address."""
    home = str(Path.home())
    if len(home) > 1:
        text = re.sub(rf"{re.escape(home)}(?=/|$|['\" ])", "~", text)
    return re.sub(r"(?<=://)[^/@\s]+@", "", text)


@dataclass(frozen=True)
class _Request:
    """The arguments of `prepare`."""

    target: Target
    workspace: Workspace
    install: bool
    find_links: tuple[str, ...]
    no_index: bool
    extra: str
    also: tuple[str, ...]
    progress: Callable[[str], None]

    def prepared(self, python: Path, environ: dict[str, str], *, revision: str | None = None,
                 warnings: Sequence[str] = (), package: Package | None = None, framework: str | None = None,
                 expected: Path | None = None) -> Prepared:
        """Return the prepared target; with `package`, the framework must be imported from there."""
        target = self.target
        home = self.workspace.folder("processes", target.label)
        for name in ("empty", "cache"):
            (home / name).mkdir()
        # The user's disk cache may hold what another version has compiled, and must not get more from here.
        environ = environ | {"NUMBA_CACHE_DIR": str(home / "cache")}
        report = TargetReport(target.label, target.kind, shortened(str(target)), revision=revision,
                              warnings=list(warnings))
        if package is not None:
            framework, expected = package.framework, package.path
            if expected.is_relative_to(self.workspace.path):  # else each process would compile its modules anew
                environ.pop("PYTHONDONTWRITEBYTECODE", None)
        return Prepared(target, python, environ, home / "empty", report, framework, expected)

    def venv(self, *requirements: str, where: Path | None = None) -> Path:
        """Make an environment with these requirements and NumPy, and return its interpreter."""
        where = where or self.workspace.folder("environments", self.target.label) / "venv"
        python = make(where)
        install(python, [*requirements, *self.also], find_links=self.find_links, no_index=self.no_index,
                      scratch=self.workspace.folder("pip"))
        return python


def _current(request: _Request) -> Prepared:
    return request.prepared(_this_python(), _environ(own=False))


def _python(request: _Request) -> Prepared:
    given = Path(request.target.value).expanduser().absolute()  # resolved, it would be that which a venv was made of
    python = given / "bin" / "python" if given.is_dir() else given
    if not python.exists():
        raise StudyError(f"there is no interpreter {shortened(str(python))!r}")
    environ = _environ(own=True)
    finished = run([python, "-c", _VERSION], environ=environ, cwd=request.workspace.path,
                            timeout_s=_LONGEST_PYTHON_S)
    version = re.fullmatch(r"Python (\d+)\.(\d+)", finished.output.strip())
    if finished.status or version is None:
        raise StudyError(f"{shortened(str(python))!r} is no Python interpreter, or does not start: "
                         f"{error_line(finished)}")
    if (int(version[1]), int(version[2])) < _OLDEST:
        raise StudyError(f"{shortened(str(python))!r} is {version[0]}, and a study measures in Python "
                         f"{'.'.join(map(str, _OLDEST))} or newer")
    return request.prepared(python, environ)


def _requirement(request: _Request) -> Prepared:
    text = request.target.value.strip()
    framework = framework_of(text)
    if framework is None:
        raise StudyError(f"{text!r} is a requirement of neither numba-cuda nor numba-cuda-mlir: it must be {FORMS}")
    wanted = [_with_extra(text, request.extra), *_bounds(framework, text)]
    request.progress(f"installing {text}")
    if _PINNED.fullmatch(text) and not any("://" in link for link in request.find_links):
        sources = [*wanted, *request.also, str(request.no_index), *_wheels(request.find_links)]

        def build(where: Path) -> None:
            request.venv(*wanted, where=where)

        folder = cached_environment(framework, sources, build, request.workspace.resources, request.progress)
        python = folder / "bin" / "python"
    else:
        python = request.venv(*wanted)
    return request.prepared(python, _environ(own=True, isolated=True), framework=framework,
                            expected=python.parent.parent)


def _checkout(request: _Request) -> Prepared:
    folder = Path(request.target.value).expanduser().absolute()
    if not folder.is_dir():
        raise StudyError(f"there is no folder {shortened(str(folder))!r}")
    return _source(request, folder, revision(folder))


def _ref(request: _Request) -> Prepared:
    target = request.target
    repo = Path(target.repo or ".").expanduser().absolute()
    tree, commit = request.workspace.worktree(repo, target.value)
    said = ["The repository has changes that are not committed, and so not measured: name its folder as a target."]
    return _source(request, tree, short(commit), said if leaves_out_changes(repo, commit) else [])


def _source(request: _Request, folder: Path, revision: str | None, warnings: Sequence[str] = ()) -> Prepared:
    """Prepare a folder with source, installed or as it is."""
    package = find_package(folder)
    if package is None:
        raise StudyError("it has not the source of numba-cuda or numba-cuda-mlir: there is no numba_cuda, "
                         "src/numba_cuda_mlir or the like")
    if request.install:
        request.progress(f"installing {request.target} (its extensions are compiled)")
        python = request.venv("--editable", f"{folder}[{request.extra}]" if request.extra else str(folder),
                              *_bounds(package.framework, package.version or ""))
        return request.prepared(python, _environ(own=True, isolated=True), revision=revision, package=package,
                                warnings=warnings)
    package, notes = usable_as_is(package, request.workspace.folder("copies", request.target.label))
    environ = _environ(own=False)
    first = str(package.path.parent)
    if os.pathsep in first:
        raise StudyError(f"{shortened(first)!r} has a {os.pathsep!r} in it, which PYTHONPATH cannot have: move it")
    environ["PYTHONPATH"] = os.pathsep.join(filter(None, [first, environ.get("PYTHONPATH", "")]))
    return request.prepared(_this_python(), environ, revision=revision, warnings=[*warnings, *notes], package=package)


def _environ(*, own: bool, isolated: bool = False) -> dict[str, str]:
    """Return the environment variables of a target's process.

    Parameters
    ----------
    own : bool
        Whether the target has an interpreter of its own, to which the paths of this one mean nothing.
    isolated : bool, optional
        Whether it must not see the packages of the user's own site folder.
    """
    environ = {name: value for name, value in os.environ.items() if name not in _NEVER
               and not (name.startswith("KERNELSCOPE_") and not name.startswith("KERNELSCOPE_DRYRUN"))
               and not (own and name in _OF_THIS_PYTHON)}
    if environ.get("PYTHONPATH"):
        # It starts in another folder.
        environ["PYTHONPATH"] = os.pathsep.join(str(Path(each).absolute()) for each in
                                                environ["PYTHONPATH"].split(os.pathsep) if each)
    return environ | ({"PYTHONNOUSERSITE": "1"} if isolated else {})


def _with_extra(requirement: str, extra: str) -> str:
    """Return a requirement with the extra that brings CUDA's compilers, unless it names an extra."""
    if not extra:
        return requirement
    path = requirement.split("[")[0]
    if path.endswith(".whl"):
        file = str(Path(path).expanduser().absolute())
        return file + (requirement[len(path):] or f"[{extra}]")
    if "[" in requirement.partition(";")[0]:
        return requirement
    return re.sub(r"^[A-Za-z0-9._-]+", rf"\g<0>[{extra}]", requirement, count=1)


def _bounds(framework: str, text: str) -> list[str]:
    """Return the requirements that a framework's metadata lacks, from its requirement, wheel or version."""
    found = re.search(r"(?:==\s*|-|^)(\d+)\.(\d+)(?:\.(\d+))?", text.split("[")[0] if ".whl" in text else text)
    version = tuple(int(number or 0) for number in found.groups()) if found else None
    moved = framework == "numba-cuda" and version is not None and version < _NUMBA_MOVED
    return [_NUMPY, *([_NUMBA] if moved else [])]


def _links(find_links: Sequence[str | Path]) -> tuple[str, ...]:
    """Return folders of wheels as absolute paths, since pip runs elsewhere; addresses unchanged."""
    found = list[str]()
    for link in map(str, find_links):
        if "://" not in link:
            path = Path(link).expanduser().absolute()
            if not path.exists():
                raise StudyError(f"--find-links {link!r}: there is no such folder")
            link = str(path)
        found.append(link)
    return tuple(found)


def _wheels(find_links: Sequence[str]) -> list[str]:
    """Return the contents of the folders of wheels: another build of the same version is another environment."""
    found = list[str]()
    for link in map(Path, find_links):
        found.append(str(link))
        files = sorted(link.iterdir()) if link.is_dir() else [link]
        found += [f"{file.name} {status.st_size} {status.st_mtime_ns}" for file in files
                 if (status := file.stat()) and file.suffix in (".whl", ".gz", ".zip")]
    return found


def _this_python() -> Path:
    if not sys.executable:
        raise StudyError("this Python does not know its own interpreter, as one that is embedded: name it as a target")
    return Path(sys.executable)


def _normalized(versions: dict[str, str]) -> dict[str, str]:
    return {name.lower().replace("_", "-"): version for name, version in versions.items()}

