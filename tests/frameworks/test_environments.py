"""Frameworks that cannot live beside numba-cuda are tested in environments of their own, and how those are made."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import environments
import pytest
from environments import CannotInstallError, Outcome

HERE = Path(__file__).parent
#: Frameworks that are installed and tested at a time.
AT_ONCE = 3
REQUIREMENTS = sorted(HERE.glob("*/requirements*.txt"))


@pytest.fixture(scope="module")
def runs(request: pytest.FixtureRequest) -> Iterator[dict[Path, Future[Outcome]]]:
    """The runs of all frameworks that were asked for, a few at a time: pip spends half of its time waiting."""
    asked = [item.callspec.params["requirements"] for item in request.session.items
             if getattr(item, "originalname", None) == "test_framework_in_its_environment"]
    pool = ThreadPoolExecutor(max_workers=AT_ONCE)
    try:
        yield {requirements: pool.submit(environments.run_tests, requirements) for requirements in asked}
    finally:
        pool.shutdown(cancel_futures=True)


@pytest.mark.environments
@pytest.mark.slow
@pytest.mark.timeout(1200)  # the first time an environment is downloaded and installed
@pytest.mark.parametrize("requirements", REQUIREMENTS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_framework_in_its_environment(runs: dict[Path, Future[Outcome]], requirements: Path) -> None:
    try:
        outcome = runs[requirements].result()
    except LookupError as problem:
        pytest.skip(str(problem))
    except CannotInstallError as problem:
        if os.environ.get("CI") or not getattr(problem, "offline", True):
            raise
        pytest.skip(f"no environment for {requirements.parent.name}: {str(problem).strip().splitlines()[-1]}")
    assert outcome.status == 0, outcome.output
    assert outcome.tests
    assert not outcome.skipped, f"nothing may be skipped inside:\n{outcome.output}"


def test_failures_and_skips_inside_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environments, "environment", lambda *_: Path(sys.executable))
    (tmp_path / "requirements.txt").touch()
    (tmp_path / "test_toy.py").write_text("""
import os
import pytest

def test_inside():
    assert os.environ["KERNELSCOPE_TEST_FRAMEWORK"] == "1"

@pytest.mark.skip
def test_skipped():
    pass

def test_fails():
    assert False, "as it should"
""")
    outcome = environments.run_tests(tmp_path / "requirements.txt")
    assert (outcome.status, outcome.tests, outcome.skipped) == (1, 3, 1)
    assert "as it should" in outcome.output


def test_a_test_that_hangs_inside_ends_with_its_stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environments, "environment", lambda *_: Path(sys.executable))
    monkeypatch.setattr(environments, "compile_extension", lambda *_: None)
    communicate = subprocess.Popen.communicate

    def until_the_test_waits(process: subprocess.Popen[str], timeout: float | None = None) -> tuple[str, str]:
        if timeout is None:
            return communicate(process)
        while not (tmp_path / "waits").exists():
            time.sleep(0.01)
        raise subprocess.TimeoutExpired("pytest", timeout)

    monkeypatch.setattr(subprocess.Popen, "communicate", until_the_test_waits)
    (tmp_path / "requirements.txt").touch()
    (tmp_path / "test_toy.py").write_text(f"""
import time
from pathlib import Path

def test_waits():
    Path({str(tmp_path)!r}, "waits").touch()
    time.sleep(3600)
""")
    outcome = environments.run_tests(tmp_path / "requirements.txt")
    assert outcome.status == -signal.SIGABRT
    assert "in test_waits" in outcome.output


def test_every_framework_has_requirements() -> None:
    folders = {path.parent for path in HERE.glob("*/test_*.py")}
    assert folders == {path.parent for path in REQUIREMENTS}


def test_an_environment_is_made_once_and_runs_the_interpreter_that_was_found(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, ...]] = []
    monkeypatch.setenv("KERNELSCOPE_STUDY_ENVIRONMENTS", str(tmp_path))
    monkeypatch.setattr(environments, "find_python", lambda: sys._base_executable)
    monkeypatch.setattr(environments, "common_requirements", lambda: ["common"])

    def install(python: Path, requirements: Sequence[str]) -> None:
        asked.append((*requirements,))
        (environments.packages_of(python.parents[1]) / f"installed_{requirements[0]}.py").touch()

    monkeypatch.setattr(environments, "pip_install", install)
    with ExitStack() as held:
        python, again, other = (environments.environment("toy", each, held) for each in (["a", "b"], ["b", "a"], ["c"]))
    assert python == again != other and asked == [("common",), ("a", "b"), ("c",)]
    code = "import sys, installed_a, installed_common; print(sys.prefix)"
    prefix = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    assert prefix.stdout.strip() == str(python.parents[1])


@pytest.mark.parametrize(("output", "offline"), [
    ("Failed: NewConnectionError('<pip...>: Failed to establish a new connection')", True),
    ("ERROR: Could not find a version that satisfies the requirement a (from versions: none)", True),
    ("ERROR: Could not find a version that satisfies the requirement a==9 (from versions: 1.0, 1.1)", False),
    ("ERROR: ResolutionImpossible", False),
])
def test_offline_is_told_from_wrong_requirements(output: str, offline: bool) -> None:
    assert CannotInstallError(output).offline is offline


def test_requirements_have_kernelscopes_own(tmp_path: Path) -> None:
    file = tmp_path / "requirements.txt"
    file.write_text("# of the toy\ntoy==1.0  # the newest\n\n")
    wanted = environments.requirements_of(file)
    assert wanted[-1] == "toy==1.0"
    assert any(each.startswith("pyarrow") for each in wanted)
    assert any(each.startswith("pytest") for each in wanted)


def test_python_of_pyenv_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environments, "OLDEST", (99, 1))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LookupError, match=r"no Python 99\.1 or 99\.2"):
        environments.find_python(tmp_path)
    python = tmp_path / "versions" / "99.2.0" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text("#!/bin/sh\necho 99.2.0\n")
    python.chmod(0o755)
    assert environments.find_python(tmp_path) == str(python)
