"""The pytest marker's limits of Triton's compiles, specializations and launches, on the null driver."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

TESTS = """
import pytest
import triton
import triton.language as tl
from kernelscope import dryrun


@triton.jit
def axpy(x, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, 16)
    tl.store(x + i, tl.load(x + i, mask=i < n), mask=i < n)


def launch(*sizes):
    x = dryrun.array(4096)
    for n in sizes:
        axpy[(1,)](x, n, BLOCK=16)


@pytest.mark.kernelscope(max_compiles=1, max_specializations={"axpy": 1}, max_launches=2)
def test_within():
    launch(1024, 2048)


@pytest.mark.kernelscope(max_compiles=0)
def test_compiles():
    launch(1000)


@pytest.mark.kernelscope(max_specializations={"axpy": 1})
def test_specializations():
    launch(1024, 1000)


@pytest.mark.kernelscope(max_launches=2)
def test_launches():
    launch(1024, 1024, 1024)


@pytest.mark.kernelscope(max_compiles=2, max_launches=1)
def test_tunes():
    def bench(call, quantiles):
        for _ in range(10):
            call()
        return [1.0, 1.0, 1.0]

    configs = [triton.Config({"BLOCK": 16}, num_warps=warps) for warps in (1, 2)]
    triton.autotune(configs=configs, key=["n"], do_bench=bench)(axpy)[(1,)](dryrun.array(4096), 1024)


@pytest.mark.kernelscope(max_compiles=9)
def test_unseen(monkeypatch):
    pass


@pytest.fixture(autouse=True)
def old(request, monkeypatch):
    if request.node.name == "test_unseen":
        monkeypatch.setattr(triton, "__version__", "3.3.1")
"""


def test_triton_counts(tmp_path: Path) -> None:
    (tmp_path / "test_kernels.py").write_text(TESTS)
    own = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    # Whether the checkout is installed, and so brings the plugin by itself, does not matter.
    own |= {"KERNELSCOPE_DRYRUN": "1", "COLUMNS": "120", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "kernelscope.pytest_plugin", "-p", "no:cacheprovider", "-q", "-rN",
         "--rootdir", str(tmp_path), "test_kernels.py"],
        cwd=tmp_path, env=own, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    assert "4 failed, 2 passed" in ran.stdout, ran.stdout
    for text in ("1 compile, at most 0 allowed (max_compiles)", "argument `n` is 1000, not divisible by 16",
                 "do_not_specialize_on_alignment", "axpy has 2 specializations, at most 1 allowed",
                 "3 launches, at most 2 allowed (max_launches)", "triton 3.3.1 is too old"):
        assert text in ran.stdout, ran.stdout
