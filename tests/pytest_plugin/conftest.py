"""pytest in a process of its own, with the plugin installed as its package installs it, on the dry run."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from handmade import Script

from kernelscope import load
from kernelscope.pytest_plugin.checks import message

ROOT = Path(__file__).resolve().parents[2]

KERNELS = """
import numpy as np
from numba import cuda

@cuda.jit
def axpy(out, a, x):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = a * x[i]

@cuda.jit
def scale(x):
    x[0] *= 2

def array(dtype=np.float32):
    return cuda.to_device(np.zeros(64, dtype))

def launch(*dtypes):
    for dtype in dtypes:
        x = array(dtype)
        axpy[2, 32](x, 2.0, x)
"""

# pytester gives each test a home of its own; the dry run's driver is built once for all of them.
CACHE = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")

Pytest = Callable[..., pytest.RunResult]


@pytest.fixture(scope="module", autouse=True)
def imported(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Import before `pytester` begins what the tests use: it forgets modules that were imported meanwhile."""
    script = Script()
    script.cell()
    path = script.recording().save(tmp_path_factory.mktemp("imported") / "one.kscope")
    assert len(load(path).cells) == 1
    assert message


@pytest.fixture
def distribution(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what pip writes beside the package: its entry points, and the list of its files."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    folder = tmp_path_factory.mktemp("installed")
    info = folder / "kernelscope-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: kernelscope\nVersion: 0.1.0\n")
    points = "\n".join(f"{name} = {home}" for name, home in project["entry-points"]["pytest11"].items())
    (info / "entry_points.txt").write_text(f"[pytest11]\n{points}\n")
    (info / "RECORD").write_text("kernelscope/__init__.py,,\nkernelscope/pytest_plugin/__init__.py,,\n")
    return folder


@pytest.fixture
def run_pytest(pytester: pytest.Pytester, distribution: Path, monkeypatch: pytest.MonkeyPatch) -> Pytest:
    """Run pytest on the test files of `pytester`, warnings as errors; keyword arguments are environment variables."""
    pytester.makepyfile(kernels=KERNELS)
    pytester.makeini("[pytest]\naddopts = --strict-markers --strict-config\nfilterwarnings = error\n")

    def run(*arguments: str, **environment: str) -> pytest.RunResult:
        for name in [each for each in os.environ if each.startswith(("PYTEST_XDIST", "COV_"))]:
            monkeypatch.delenv(name)
        settings = {"PYTHONPATH": os.pathsep.join((str(ROOT), str(distribution))), "KERNELSCOPE_DRYRUN": "1",
                    "XDG_CACHE_HOME": CACHE, "NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS": "0", "COLUMNS": "100", **environment}
        for name, value in settings.items():
            monkeypatch.setenv(name, value)
        return pytester.runpytest_subprocess("-p", "no:cacheprovider", *arguments, timeout=180)

    return run
