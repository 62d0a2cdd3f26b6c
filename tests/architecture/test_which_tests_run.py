"""Which tests continuous integration runs on every Python, and that it skips none: tests/conftest.py on a toy suite."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SUITE = {
    "native/test_deep.py": "def test_native(): pass",
    "test_init.py": "def test_one_file_of_a_folder(): pass",
    "test_schema.py": """
import pytest

def test_elsewhere(): pass

def test_is_skipped(): pytest.skip("no browser")

def test_is_skipped_for_good(): pytest.skip("this Python has none")

@pytest.mark.skipif(True, reason="no compiler")
def test_is_skipped_before_it_begins(): pass

@pytest.mark.xfail(raises=ZeroDivisionError)
def test_fails_as_expected(): 1 / 0
""",
}


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., dict[str, str]]:
    """Run the suite; the outcome of each test that ran."""
    shutil.copy(ROOT / "tests" / "conftest.py", tmp_path)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n  every_python: it\n  gpu: a GPU\n")
    for name, text in SUITE.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)

    def run(chosen: str = "", **environment: str) -> dict[str, str]:
        inherited = {name: value for name, value in os.environ.items() if name != "CI"} | {"COLUMNS": "200"}
        ran = subprocess.run(
            [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", "-m", chosen], cwd=tmp_path, text=True,
            capture_output=True, env={**inherited, "PYTHONPATH": f"{ROOT}:{ROOT / 'tests' / 'helpers'}", **environment})
        lines = [line.split()[:2] for line in ran.stdout.splitlines() if "::" in line and line.endswith("%]")]
        assert lines, ran.stdout + ran.stderr
        return {name.rpartition("::")[2]: outcome for name, outcome in lines}

    return run


@pytest.mark.slow
def test_tests_need_no_home_folder(run: Callable[..., dict[str, str]], tmp_path: Path) -> None:
    """And make none where there is none."""
    home = tmp_path / "nowhere"
    assert run("every_python", HOME=str(home)) == {"test_native": "PASSED", "test_one_file_of_a_folder": "PASSED"}
    assert run("every_python", HOME="/proc/nothing")["test_native"] == "PASSED"
    assert not home.exists()


@pytest.mark.slow
def test_what_depends_on_the_interpreter_is_chosen_by_its_file(run: Callable[..., dict[str, str]]) -> None:
    assert list(run("every_python")) == ["test_native", "test_one_file_of_a_folder"]


@pytest.mark.slow
def test_continuous_integration_skips_nothing_that_could_run(run: Callable[..., dict[str, str]]) -> None:
    outcomes = run(CI="true")
    assert {name for name, outcome in outcomes.items() if outcome in ("FAILED", "ERROR")} == {
        "test_is_skipped", "test_is_skipped_before_it_begins"}
    assert outcomes["test_is_skipped_for_good"] == "SKIPPED"
    assert outcomes["test_fails_as_expected"] == "XFAIL"


def test_every_file_that_is_named_is_there() -> None:
    code = "from tests.conftest import *; print(*EVERY_PYTHON, *LONG)"
    named = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True,
                           env={**os.environ, "PYTHONPATH": str(ROOT / "tests" / "helpers")}).stdout.split()
    assert [name for name in named if not list((ROOT / "tests").glob(name))] == []
