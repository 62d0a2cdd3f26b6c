"""pytest on files of tests, with the plugin as the package installs it, on the dry run."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from handmade import Script
from numba import cuda

import kernelscope
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


@pytest.fixture(scope="session")
def imported(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Import before `pytester` begins what the tests use: it forgets modules that were imported meanwhile."""
    script = Script()
    script.cell()
    path = script.recording().save(tmp_path_factory.mktemp("imported") / "one.kscope")
    assert len(kernelscope.load(path).cells) == 1 and message

    @cuda.jit
    def kernel(x):
        x[0] = 1

    with kernelscope.record("imported"):
        kernel[1, 1](cuda.to_device(np.zeros(1)))


@pytest.fixture
def run_pytest(imported: None, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Pytest:
    """Run pytest in this process, warnings as errors; with environment variables as keywords in one of its own."""
    pytester.makepyfile(kernels=KERNELS)
    pytester.makeini(
        "[pytest]\nfilterwarnings = error\naddopts = --strict-markers --strict-config -p no:cacheprovider\n")

    def run(*arguments: str, **environment: str) -> pytest.RunResult:
        for name in [each for each in os.environ if each.startswith(("PYTEST_XDIST", "COV_"))]:
            monkeypatch.delenv(name)
        settings = {"PYTHONPATH": str(ROOT), "KERNELSCOPE_DRYRUN": "1", "XDG_CACHE_HOME": CACHE,
                    "NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS": "0", "COLUMNS": "100", **environment}
        for name, value in settings.items():
            monkeypatch.setenv(name, value)
        if environment:
            return pytester.runpytest_subprocess(*arguments, timeout=600)
        return pytester.runpytest_inprocess(*arguments, no_reraise_ctrlc=True)

    return run
