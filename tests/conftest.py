"""What every test shares: the dry run (or a real GPU on request), and the proof that no hook outlives a test."""

from __future__ import annotations

import atexit
import gc
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

import pytest
from hooked import still_hooked

# A user without a home folder, or with one that cannot be written, has an empty one for the time of the tests; now,
# because conftests of folders look for it when they are imported.
_home = Path(os.environ.get("HOME", ""))
if not _home.is_dir() or not os.access(_home, os.W_OK):
    os.environ["HOME"] = tempfile.mkdtemp(prefix="kernelscope-home-")
    atexit.register(shutil.rmtree, os.environ["HOME"], ignore_errors=True)

# Small grids are what tests launch; numba-cuda's advice on them would be an error here.
os.environ.setdefault("NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS", "0")

ON_GPU = os.environ.get("KERNELSCOPE_TEST_GPU") == "1"

TESTS = Path(__file__).resolve().parent
ROOT = TESTS.parent

#: What depends on the interpreter, its version and its implementation: hooks, the recorder in C, journals, magics,
#: tracebacks, signals and the process that is measured. Continuous integration runs these on every Python (`-m
#: every_python`), and all tests on the default one.
EVERY_PYTHON = (
    "commands/test_children.py", "commands/test_cli_run.py", "commands/test_cli_study_signals.py",
    "commands/test_magic*.py", "features/compare/test_compare_magic.py",
    "dryrun/test_switch.py", "native/*",
    "probes/cuda_core/test_graph_failures.py", "probes/cuda_core/test_graph_watch.py",
    "probes/cuda_core/test_launch.py", "probes/cupti/test_cupti_failures.py",
    "probes/cupti/test_cupti_library.py", "probes/cupti/test_cupti_probe.py", "probes/test_bindings.py",
    "probes/test_callbacks.py", "probes/test_captured_values.py",
    "probes/test_cuda_compute*.py", "probes/test_functions.py", "probes/test_journal.py",
    "probes/test_kernel_source.py", "probes/test_numba_cuda_*.py",
    "probes/test_nvtx*.py", "probes/test_quadrants*.py", "studies/test_bench*.py", "studies/test_commands.py",
    "studies/test_live.py", "studies/test_process.py", "test_clock.py", "test_init.py",
    "probes/test_import_hook.py", "probes/test_probe_base.py", "recorder/test_recorder*.py",
)
#: Folders whose files take long, the longest first.
LONG = ("frameworks", "notebooks", "browser", "snapshots", "studies", "pytest_plugin", "commands", "probes", "native",
        "architecture", "benchmarks")
#: Reasons for which continuous integration may skip a test; none of them can be mended there.
MAY_BE_SKIPPED = (
    "this Python", "no Python 3.12", "there is no sys.monitoring", "CPython 3.14", "this kernel", "one core only",
    "it watches itself", "it compares times", "compiles a build of its own", "what is watched", "valgrind",
    "a sanitizer does not work here", "there is no interpreter without a global lock",
)


def pytest_configure(config: pytest.Config) -> None:
    """Switch the dry run on before anything starts CUDA; with KERNELSCOPE_TEST_GPU=1 the real driver stays."""
    if not ON_GPU:
        import kernelscope

        kernelscope.dryrun.enable()


@cache  # thousands of tests ask it of some hundred files
def depends_on_the_interpreter(file: Path) -> bool:
    """Whether a file of tests is one of `EVERY_PYTHON`."""
    name = os.path.relpath(file, TESTS)
    return any(fnmatch(name, pattern) for pattern in EVERY_PYTHON)


@cache
def place_in_the_queue(file: Path) -> int:
    """Return how early a file of tests is begun: a long one that began last would keep a worker busy alone."""
    folder = os.path.relpath(file, TESTS).partition(os.sep)[0]
    return LONG.index(folder) if folder in LONG else len(LONG)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With ``-m every_python`` other files are not imported at all: that takes as long as some tests."""
    chosen = config.option.markexpr.startswith("every_python")
    is_other = collection_path.name.startswith("test_") and not depends_on_the_interpreter(collection_path)
    return True if chosen and is_other else None


@pytest.hookimpl(tryfirst=True)  # before -m chooses among them
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """GPU tests need KERNELSCOPE_TEST_GPU=1; every other test needs the dry run. Folders that take long come first."""
    dropped = [item for item in items if (item.get_closest_marker("gpu") is not None) != ON_GPU]
    if dropped:
        config.hook.pytest_deselected(items=dropped)
        items[:] = [item for item in items if (item.get_closest_marker("gpu") is not None) == ON_GPU]
    for item in items:
        if depends_on_the_interpreter(item.path):
            item.add_marker("every_python")
    items.sort(key=lambda item: place_in_the_queue(item.path))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Continuous integration skips no test, but for what its Python or its kernel is not made for."""
    report = yield
    if "CI" in os.environ and not ON_GPU and isinstance(report.longrepr, tuple) and report.skipped:
        reason = report.longrepr[2].removeprefix("Skipped: ")
        if not reason.startswith(MAY_BE_SKIPPED):
            report.outcome, report.longrepr = "failed", f"skipped, and continuous integration skips no test: {reason}"
    return report


if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # So a shell starts what it runs in the background, and Python then knows no Ctrl-C; tests interrupt themselves.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True, scope="session")
def no_state_of_the_user(tmp_path_factory: pytest.TempPathFactory) -> None:
    """What this user has calibrated, or left in a journal, is nothing to the tests, nor what they leave to the user."""
    os.environ["XDG_STATE_HOME"] = str(tmp_path_factory.mktemp("state"))


@pytest.fixture(autouse=True)
def no_variable_is_left() -> Iterator[None]:
    """What a test sets in the environment ends with it: numba-cuda reads its settings anew at every compile."""
    before = dict(os.environ)
    yield
    for name in os.environ.keys() - before.keys() - {"PYTEST_CURRENT_TEST"}:
        del os.environ[name]
    for name, value in before.items():
        if name != "PYTEST_CURRENT_TEST" and os.environ.get(name) != value:
            os.environ[name] = value


@pytest.fixture(autouse=True)
def no_hook_is_left() -> Iterator[None]:
    """After every test the launch path is numba-cuda's own again, and nobody records."""
    yield
    from kernelscope import native
    from kernelscope.probes.base import ImportFinder
    from kernelscope.recorder.session import Session

    assert Session.active is None, "a recorder was left running"
    assert not [finder for finder in sys.meta_path if isinstance(finder, ImportFinder)]
    assert not (getattr(sys.unraisablehook, "__module__", None) or "").startswith("kernelscope")
    assert not native.core.taken()
    for path in still_hooked():
        pytest.fail(f"{path} is still hooked")


@pytest.fixture(autouse=True)
def nothing_was_defined_before() -> None:
    """Each test begins as a process does: what others have defined is forgotten."""
    from kernelscope.probes.functions import definitions

    definitions.clear()


@pytest.fixture
def run_python(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run code in a new interpreter with warnings as errors; keyword arguments are environment variables."""

    def run(code: str, *arguments: str, check: bool = True, timeout: float = 600,
            **environment: str) -> subprocess.CompletedProcess[str]:
        script = tmp_path / "script.py"
        if not script.exists() or script.read_text() != code:
            script.write_text(code)  # an unchanged file keeps its time, which numba's disk cache goes by
        path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        result = subprocess.run(
            [sys.executable, "-W", "error", str(script), *arguments],
            env={**os.environ, "PYTHONPATH": path, "KERNELSCOPE_DRYRUN": "0" if ON_GPU else "1", **environment},
            cwd=tmp_path, capture_output=True, text=True, timeout=timeout, check=False)
        if check and result.returncode:
            pytest.fail(f"exit code {result.returncode}\n{result.stdout}\n{result.stderr}")
        return result

    return run


@pytest.fixture
def interruptible() -> None:
    """The test has a signal handler raise at any moment of a framework's own code, which takes locks."""
    if sys.version_info >= (3, 14):
        pytest.skip("CPython 3.14 leaves a lock taken where a signal handler raises right after `with` has taken it, "
                    "numba-cuda's own too")


@pytest.fixture
def no_garbage() -> Iterator[None]:
    """No collection during the test: Python drops what a signal handler raises in a finalizer.

    What other tests have left, such as numba's modules to unload and arrays to free, has finalizers in Python; and what
    they call of the driver would break a capture that is under way. The youngest is collected before, which takes
    little; a full collection takes longer than most tests.
    """
    gc.collect(1)
    gc.disable()
    yield
    gc.enable()
