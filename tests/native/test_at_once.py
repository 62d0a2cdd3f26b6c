"""Eight threads at once: with this interpreter, and with interpreters that have no global lock where there are any."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import at_once
import pytest

HERE = Path(__file__).parent
SOURCES = HERE.parents[1] / "kernelscope" / "native" / "csrc"
ASK = """
import json, sysconfig
get = sysconfig.get_config_var
print(json.dumps([sysconfig.get_path("include"), get("EXT_SUFFIX"), get("Py_GIL_DISABLED")]))
"""


@pytest.fixture
def fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under a tool that makes everything 50 times slower."""
    if "KERNELSCOPE_WATCHED" in os.environ:
        monkeypatch.setattr(at_once, "EACH", 800)


@pytest.mark.parametrize("name", at_once.CHECKS)
def test_with_this_interpreter(core: Any, fewer: None, name: str) -> None:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        at_once.CHECKS[name](core)
    finally:
        sys.setswitchinterval(interval)


def free_threaded() -> list[str]:
    """The interpreters without a global lock that are there; more by name in KERNELSCOPE_FREE_THREADED."""
    names = [*filter(None, os.environ.get("KERNELSCOPE_FREE_THREADED", "").split(os.pathsep)),
             "python3.13t", "python3.14t"]
    return [name for name in names if shutil.which(name)]


@pytest.mark.skipif("KERNELSCOPE_WATCHED" in os.environ, reason="compiles a build of its own")
@pytest.mark.parametrize("python", free_threaded() or [pytest.param("", marks=pytest.mark.skip(
    "there is no interpreter without a global lock: test_ring_in_c stands in"))])
def test_without_a_global_lock(python: str, tmp_path: Path) -> None:
    asked = subprocess.run([python, "-c", ASK], capture_output=True, text=True, check=True)
    headers, suffix, is_free = json.loads(asked.stdout)
    assert is_free, f"{python} has a global lock"
    built = tmp_path / f"_core{suffix}"
    subprocess.run(["gcc", "-shared", "-fPIC", "-O2", "-std=c11", "-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE",
                    "-DKS_THREADS=1", "-pthread", f"-I{headers}", *map(str, sorted(SOURCES.glob("*.c"))),
                    "-o", str(built)], check=True)
    environment = {**os.environ, "PYTHONPATH": "", "PYTHON_GIL": "0"}
    done = subprocess.run([python, "-W", "error", at_once.__file__, built], env=environment, capture_output=True,
                          text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [f"no GIL {name}" for name in at_once.CHECKS]
