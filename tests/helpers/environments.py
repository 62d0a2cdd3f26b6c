"""Virtual environments for frameworks that cannot live beside numba-cuda: made once, kept, and used by many runs."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import tomllib
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelscope.studies.environments import cached_environment

ROOT = Path(__file__).resolve().parents[2]
#: The oldest Python that every framework runs on.
OLDEST = (3, 12)
#: Seconds that the tests of one environment may take.
LIMIT_S = 600
#: What the tests inside need besides KernelScope's own dependencies and the framework.
TEST_TOOLS = ("pytest>=8.2", "pytest-timeout>=2.3", "setuptools>=77")
#: What the extras of frameworks for CUDA 13 ask for, in common.
# cuda.tile 1.7 does not take 13.5.
CUDA = "cuda-toolkit[cudart,nvcc,nvjitlink,nvrtc,nvvm]==13.*,<13.5"
#: Set inside of such an environment; `tests/frameworks/conftest.py` collects the frameworks' tests there only.
INSIDE = "KERNELSCOPE_TEST_FRAMEWORK"

# Frameworks are installed by several threads at a time.
_COMPILING = threading.Lock()
# What pip says where it cannot reach its index. A requirement that does not exist has a list of versions after "from".
_OFFLINE = re.compile(r"NewConnectionError|ConnectTimeout|ProxyError|NameResolutionError|from versions: none")


class CannotInstallError(Exception):
    """pip failed.

    Attributes
    ----------
    offline : bool
        Whether it was because the index cannot be reached.
    """

    def __init__(self, output: str) -> None:
        super().__init__(output)
        self.offline = _OFFLINE.search(output) is not None


@dataclass(frozen=True)
class Outcome:
    """How a run of tests ended: pytest's exit status, its output, and how many tests there were and were skipped."""

    status: int
    output: str
    tests: int
    skipped: int


def run_tests(requirements: Path) -> Outcome:
    """Run the tests beside `requirements` in the environment of it, which is made if there is none yet.

    Raises
    ------
    LookupError
        No interpreter is new enough.
    CannotInstallError
        pip failed.
    """
    name = f"{requirements.parent.name}-{requirements.stem}"
    with ExitStack() as held, tempfile.TemporaryDirectory() as folder:
        python = environment(name, requirements_of(requirements), held)
        compile_extension(python)
        report = Path(folder) / "report.xml"
        status, output = _run_to_the_limit(
            python, "-W", "error", "-m", "pytest", "-W", "error", "-p", "no:cacheprovider", "-q",
            f"--junitxml={report}", requirements.parent, cwd=ROOT, env=_inner_environment())
        tests, skipped = _counts(report)
    return Outcome(status, output, tests, skipped)


def compile_extension(python: Path, root: Path = ROOT) -> None:
    """Compile the checkout's C extension in place for an interpreter for which it is not there, or is old."""
    code = "from kernelscope import native; native.core; raise SystemExit(native.why_old() is not None)"
    with _COMPILING, tempfile.TemporaryDirectory() as folder:
        if _run(python, "-c", code, cwd=root, env=_inner_environment()).returncode:
            done = _run(python, "setup.py", "-q", "build_ext", "--inplace", "--force", "--build-temp", folder, cwd=root)
            if done.returncode:
                raise CannotInstallError(done.stdout)


def common_requirements() -> list[str]:
    """KernelScope's own dependencies, the test tools, and CUDA."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [*project["dependencies"], *TEST_TOOLS, CUDA]


def requirements_of(file: Path) -> list[str]:
    """What every framework's environment has, and the lines of a requirements file that say something."""
    lines = [line.partition("#")[0].strip() for line in file.read_text(encoding="utf-8").splitlines()]
    return [*common_requirements(), *filter(None, lines)]


def environment(name: str, requirements: Sequence[str], held: ExitStack) -> Path:
    """Return the interpreter of an environment that has `requirements`: one that studies keep, in their folder.

    It is made where there is none yet; nothing removes it while `held` is open. What all have in common is installed
    once, in an environment whose files the others link. Raises what `run_tests` raises.
    """
    python = find_python()

    def make(name: str, requirements: Sequence[str], common: Path | None) -> Path:
        def build(folder: Path) -> None:
            subprocess.run([python, "-m", "venv", "--without-pip", folder], check=True)
            if common is not None:
                shutil.copytree(packages_of(common), packages_of(folder), copy_function=os.link, dirs_exist_ok=True)
            pip_install(folder / "bin" / "python", requirements)

        request = [_version(python), os.path.realpath(python), *sorted(requirements)]
        return cached_environment(name, request, build, held, print)

    return make(name, requirements, make("frameworks", common_requirements(), None)) / "bin" / "python"


def packages_of(environment: Path) -> Path:
    """Return the folder of an environment's packages."""
    (folder,) = environment.glob("lib/python*/site-packages")
    return folder


def pip_install(python: Path, requirements: Sequence[str]) -> None:
    """Install into the environment of that interpreter what is not there; raises `CannotInstallError`."""
    if not (packages_of(python.parents[1]) / "pip").exists():
        subprocess.run([python, "-m", "ensurepip"], stdout=subprocess.DEVNULL, check=True)
    # Python compiles what is imported, which is a small part of what is installed.
    ran = _run(python, "-m", "pip", "--disable-pip-version-check", "--quiet", "install", "--no-compile", *requirements)
    if ran.returncode:
        raise CannotInstallError(ran.stdout)


def find_python(root: Path | None = None) -> str:
    """Return an interpreter that is new enough: this one, one on the PATH, or one of pyenv's; raises `LookupError`."""
    if sys.version_info[:2] >= OLDEST:
        return sys._base_executable  # that of the environment that runs this would carry its packages' path along
    versions = [f"{OLDEST[0]}.{minor}" for minor in (OLDEST[1], OLDEST[1] + 1)]
    pyenv = (root or Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))) / "versions"
    for version in versions:
        for candidate in (f"python{version}", *sorted(map(str, pyenv.glob(f"{version}.*/bin/python")))):
            found = shutil.which(candidate)
            if found and _version(found).startswith(version):
                return found
    raise LookupError(f"no Python {' or '.join(versions)} on the PATH or in {pyenv}")


def _run(*command: str | Path, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, whichever that is, its errors among its output."""
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **options)


def _run_to_the_limit(*command: str | Path, **options: Any) -> tuple[int, str]:
    """Run Python's tests for `LIMIT_S` at most, and return the exit status and the output.

    What hangs then aborts, and the output ends with the stacks of its threads, which pytest's faulthandler prints.
    """
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options) as process:
        try:
            output, _ = process.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGABRT)
            output, _ = process.communicate()
    return process.returncode, output


def _inner_environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith(("PYTEST_", "COV_", "PYTHON", "VIRTUAL_ENV"))}
    return kept | {"PYTHONPATH": str(ROOT), "PYTHONNOUSERSITE": "1", INSIDE: "1"}


def _counts(report: Path) -> tuple[int, int]:
    """How many tests a JUnit report tells of, and how many of them were skipped."""
    if not report.exists():
        return 0, 0
    suites = list(ElementTree.parse(report).getroot().iter("testsuite"))
    return tuple(sum(int(suite.get(name, 0)) for suite in suites) for name in ("tests", "skipped"))  # type: ignore


def _version(python: str | Path) -> str:
    """Such as 3.12.1, or an empty text for what does not run."""
    code = "import platform; print(platform.python_version())"
    try:
        ran = subprocess.run([python, "-I", "-c", code], capture_output=True, text=True, timeout=600, check=False)
    except OSError:
        return ""
    return "" if ran.returncode else ran.stdout.strip()
