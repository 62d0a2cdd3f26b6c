"""How targets become interpreters that can be started: worktrees, virtual environments, and what processes inherit."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path

from kernelscope.errors import StudyError
from kernelscope.studies import checkouts, commands, venvs, worktrees
from kernelscope.studies.checkouts import Package
from kernelscope.studies.measured import TargetReport
from kernelscope.studies.target import FORMS, KINDS, Target, framework_of
from kernelscope.studies.workspace import Workspace

# What releases of numba-cuda fail with is not looked for on every installation: NumPy 2.5 has no row_stack, which
# those up to 0.30.4 at least call. numba-cuda-mlir gets the same NumPy, so that it is no difference between the two.
_NUMPY = "numpy<2.5"
# Up to 0.30.3, numba-cuda does not find types that numba 0.66 has moved, and cannot be imported.
_NUMBA_MOVED, _NUMBA = (0, 30, 4), "numba<0.66"
_PINNED = re.compile(r"[A-Za-z0-9._-]+\s*(\[[^\]]*\])?\s*==\s*[^\s*,;]+")
# What a user may have set for an interpreter of his own, and what makes one target's processes differ from another's.
_OF_THIS_PYTHON = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "VIRTUAL_ENV_PROMPT", "__PYVENV_LAUNCHER__",
                   "PYTHONEXECUTABLE", "PYTHONPLATLIBDIR")
_NEVER = ("PYTHONHASHSEED", "PYTHONINSPECT", "PYTHONSTARTUP", "PYTHONWARNINGS", *commands.COLORS)
_COMPARED = ("python", "numpy", "numba", "llvmlite", "cuda-bindings", "cuda-core")
_LONGEST_PYTHON_S = 60.0
# Any Python understands it.
_VERSION = 'import sys; print("Python %d.%d" % sys.version_info[:2])'
_OLDEST = (3, 9)


@dataclass
class Prepared:
    """A target that can be started.

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

    def check_module(self, module: str | Path) -> None:
        """Refuse a process that imported another numba-cuda than the target's.

        Parameters
        ----------
        module : str or Path
            The file or folder that the process imported the framework from.

        Raises
        ------
        StudyError
            It is not in the folder that it should be in.
        """
        if self.expected is not None and not Path(module).resolve().is_relative_to(self.expected.resolve()):
            raise StudyError(f"target {self.target.label!r}: {self.framework} was imported from "
                             f"{shortened(str(module))!r} and not from {shortened(str(self.expected))!r}: look for a "
                             ".pth file, a sitecustomize or an editable installation that comes first")


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
        packages, and they need no compiling: see `kernelscope.studies.checkouts`.
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
        It cannot be had; the message begins with the label and says why.
    """
    request = _Request(target, workspace, install, _links(find_links), no_index,
                       cuda_extra() if extra is None else extra, tuple(also), progress or _silent)
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
    """Tell each target what else than the framework differs from the baseline, the first, once versions are known."""
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
    """What `prepare` was asked for."""

    target: Target
    workspace: Workspace
    install: bool
    find_links: tuple[str, ...]
    no_index: bool
    extra: str
    also: tuple[str, ...] = ()
    progress: Callable[[str], None] = field(default=lambda _: None)

    def prepared(self, python: Path, environ: dict[str, str], *, revision: str | None = None,
                 warnings: Sequence[str] = (), package: Package | None = None, framework: str | None = None,
                 expected: Path | None = None) -> Prepared:
        """Put a target together; with `package`, the framework is that and must come from there."""
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
        """An environment with these requirements and NumPy, in the workspace or in a folder; its interpreter."""
        where = where or self.workspace.folder("environments", self.target.label) / "venv"
        python = venvs.make(where)
        venvs.install(python, [*requirements, *self.also], find_links=self.find_links, no_index=self.no_index,
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
    finished = commands.run([python, "-c", _VERSION], environ=environ, cwd=request.workspace.path,
                            timeout_s=_LONGEST_PYTHON_S)
    version = re.fullmatch(r"Python (\d+)\.(\d+)", finished.output.strip())
    if finished.status or version is None:
        raise StudyError(f"{shortened(str(python))!r} is no Python interpreter, or does not start: "
                         f"{commands.last_words(finished)}")
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

        python = venvs.kept(framework, sources, build, request.workspace.held, request.progress) / "bin" / "python"
    else:
        python = request.venv(*wanted)
    return request.prepared(python, _environ(own=True, isolated=True), framework=framework,
                            expected=python.parent.parent)


def _checkout(request: _Request) -> Prepared:
    folder = Path(request.target.value).expanduser().absolute()
    if not folder.is_dir():
        raise StudyError(f"there is no folder {shortened(str(folder))!r}")
    return _source(request, folder, worktrees.revision(folder))


def _ref(request: _Request) -> Prepared:
    target = request.target
    repo = Path(target.repo or ".").expanduser().absolute()
    tree, commit = request.workspace.worktree(repo, target.value)
    said = ["The repository has changes that are not committed, and so not measured: name its folder as a target."]
    return _source(request, tree, worktrees.short(commit), said if worktrees.leaves_out_changes(repo, commit) else [])


def _source(request: _Request, folder: Path, revision: str | None, warnings: Sequence[str] = ()) -> Prepared:
    """A folder with source, installed or as it is."""
    package = checkouts.find_package(folder)
    if package is None:
        raise StudyError("it has not the source of numba-cuda or numba-cuda-mlir: there is no numba_cuda, "
                         "src/numba_cuda_mlir or the like")
    if request.install:
        request.progress(f"installing {request.target} (its extensions are compiled)")
        python = request.venv("--editable", f"{folder}[{request.extra}]" if request.extra else str(folder),
                              *_bounds(package.framework, package.version or ""))
        return request.prepared(python, _environ(own=True, isolated=True), revision=revision, package=package,
                                warnings=warnings)
    package, notes = checkouts.usable_as_is(package, request.workspace.folder("copies", request.target.label))
    environ = _environ(own=False)
    first = str(package.path.parent)
    if os.pathsep in first:
        raise StudyError(f"{shortened(first)!r} has a {os.pathsep!r} in it, which PYTHONPATH cannot have: move it")
    environ["PYTHONPATH"] = os.pathsep.join(filter(None, [first, environ.get("PYTHONPATH", "")]))
    return request.prepared(_this_python(), environ, revision=revision, warnings=[*warnings, *notes], package=package)


def _environ(*, own: bool, isolated: bool = False) -> dict[str, str]:
    """What a target's process inherits of this one's environment.

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
    """A requirement with the extra that brings CUDA's compilers, if it names none of its own."""
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
    """What a version of a framework needs besides what its metadata says; from its requirement, wheel or version."""
    found = re.search(r"(?:==\s*|-|^)(\d+)\.(\d+)(?:\.(\d+))?", text.split("[")[0] if ".whl" in text else text)
    version = tuple(int(number or 0) for number in found.groups()) if found else None
    moved = framework == "numba-cuda" and version is not None and version < _NUMBA_MOVED
    return [_NUMPY, *([_NUMBA] if moved else [])]


def _links(find_links: Sequence[str | Path]) -> tuple[str, ...]:
    """Folders of wheels as absolute paths, since pip runs elsewhere; addresses as they are."""
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
    """What is in the folders of wheels: another build of the same version is another environment."""
    told = list[str]()
    for link in map(Path, find_links):
        told.append(str(link))
        files = sorted(link.iterdir()) if link.is_dir() else [link]
        told += [f"{file.name} {status.st_size} {status.st_mtime_ns}" for file in files
                 if (status := file.stat()) and file.suffix in (".whl", ".gz", ".zip")]
    return told


def _this_python() -> Path:
    if not sys.executable:
        raise StudyError("this Python does not know its own interpreter, as one that is embedded: name it as a target")
    return Path(sys.executable)


def _normalized(versions: dict[str, str]) -> dict[str, str]:
    return {name.lower().replace("_", "-"): version for name, version in versions.items()}


def _silent(_: str) -> None:
    """Say nothing."""
