"""What every test shares: the dry run (or a real GPU on request), and the proof that no hook outlives a test."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

# Small grids are what tests launch; numba-cuda's advice on them would be an error here.
os.environ.setdefault("NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS", "0")

ON_GPU = os.environ.get("KERNELSCOPE_TEST_GPU") == "1"

ROOT = Path(__file__).resolve().parent.parent


def pytest_configure(config: pytest.Config) -> None:
    """Switch the dry run on before anything starts CUDA; with KERNELSCOPE_TEST_GPU=1 the real driver stays."""
    if not ON_GPU:
        import kernelscope

        kernelscope.dryrun.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """GPU tests need KERNELSCOPE_TEST_GPU=1; every other test needs the dry run."""
    wanted = [item for item in items if (item.get_closest_marker("gpu") is not None) == ON_GPU]
    dropped = [item for item in items if item not in wanted]
    if dropped:
        config.hook.pytest_deselected(items=dropped)
        items[:] = wanted


@pytest.fixture(autouse=True)
def no_hook_is_left() -> Iterator[None]:
    """After every test the launch path is numba-cuda's own again, and nobody records."""
    yield
    from kernelscope.probes.base import ImportHook
    from kernelscope.session import Session

    assert Session.active is None, "a recorder was left running"
    assert not [finder for finder in sys.meta_path if isinstance(finder, ImportHook)]
    dispatcher = sys.modules.get("numba.cuda.dispatcher")
    if dispatcher is not None:
        codegen, driver = sys.modules["numba.cuda.codegen"], sys.modules["numba.cuda.cudadrv.driver"]
        for hooked in (
            dispatcher.CUDADispatcher.call, dispatcher.CUDADispatcher.compile, dispatcher._Kernel.launch,
            dispatcher.launch, dispatcher.compile_cuda, codegen.CUDACodeLibrary.get_asm_strs,
            codegen.CUDACodeLibrary.get_cubin, codegen.CUDACodeLibrary.get_ltoir,
            codegen.CUDACodeLibrary.get_cufunc, driver.Context.create_module_image,
        ):
            module = getattr(hooked, "__module__", "") or ""
            assert not module.startswith("kernelscope"), f"{hooked!r} is still hooked"


@pytest.fixture
def run_python(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run code in a new interpreter with warnings as errors; keyword arguments are environment variables."""

    def run(code: str, *arguments: str, check: bool = True, timeout: float = 120,
            **environment: str) -> subprocess.CompletedProcess[str]:
        script = tmp_path / "script.py"
        if not script.exists() or script.read_text() != code:
            script.write_text(code)  # an unchanged file keeps its time, which numba's disk cache goes by
        result = subprocess.run(
            [sys.executable, "-W", "error", str(script), *arguments],
            env={**os.environ, "PYTHONPATH": str(ROOT), "KERNELSCOPE_DRYRUN": "0" if ON_GPU else "1", **environment},
            cwd=tmp_path, capture_output=True, text=True, timeout=timeout, check=False)
        if check and result.returncode:
            pytest.fail(f"exit code {result.returncode}\n{result.stdout}\n{result.stderr}")
        return result

    return run
