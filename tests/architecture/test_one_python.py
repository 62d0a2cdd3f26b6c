"""Tests of one Python: which they are and which have passed is told to .ci/run, that of each passes once."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TESTS = """
import pytest

@pytest.mark.one_python
def test_passes():
    pass

@pytest.mark.one_python
def test_is_skipped():
    pytest.skip("no luck")

@pytest.mark.browser
def test_browser():
    pass

def test_everywhere():
    pass
"""


@pytest.mark.parametrize(("chosen", "passed"), [
    ("", ["test_browser", "test_passes"]), ("browser", ["test_browser"]), ("not one_python", [])])
def test_what_was_left_out_and_skipped_has_not_passed(tmp_path: Path, chosen: str, passed: list[str]) -> None:
    shutil.copy(ROOT / "tests" / "conftest.py", tmp_path)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n  one_python: once\n  browser: it\n  gpu: a GPU\n")
    (tmp_path / "test_toy.py").write_text(TESTS)
    told = tmp_path / "told"
    told.mkdir()
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", chosen], cwd=tmp_path, text=True,
        capture_output=True, env={**os.environ, "PYTHONPATH": str(ROOT), "KERNELSCOPE_ONE_PYTHON": str(told)})
    assert ran.returncode == 0, ran.stdout + ran.stderr

    def of(name: str) -> list[str]:
        file = told / name
        return sorted({line.rpartition("::")[2] for line in file.read_text().splitlines()}) if file.exists() else []

    assert of("wanted") == ["test_browser", "test_is_skipped", "test_passes"]
    assert of("passed") == passed
