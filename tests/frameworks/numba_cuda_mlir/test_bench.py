"""A study's benchmark process with numba-cuda-mlir, on the dry run."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from pathlib import Path

from bench_process import Bench, empty_kernel


def test_launches_are_timed(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    try:
        # By name: the environment of an older version has numba-cuda as well, which is found first.
        hello = bench.hello(framework="numba-cuda-mlir")
        assert hello["ok"], hello
        assert hello["framework"] == "numba-cuda-mlir"
        assert hello["versions"]["numba-cuda-mlir"] == importlib.metadata.version("numba-cuda-mlir")
        spec = importlib.util.find_spec("numba_cuda_mlir")
        assert spec is not None
        assert hello["module"] == str(Path(str(spec.origin)).parent / "cuda")
        assert hello["is_dry_run"] is True
        for arguments in (0, 2):
            bench.must("prepare", case=empty_kernel(arguments), batch_ms=2)
            batch = bench.must("batch", case=f"{arguments} args", loops=100)
            assert 100 * 500 < batch["host_ns"] < 1e9
        # A host array, and a launch configuration that is made each time: advice on neither.
        setup = "@cuda.jit\ndef kernel(a):\n    pass\nhost = np.zeros(3)\n"
        bench.must("prepare", case={"name": "host", "setup": setup, "statement": "kernel[1, 1](host)"}, batch_ms=1)
        bench.must("bye")
        assert bench.process.wait(60) == 0
        assert "Warning" not in bench.output.read_text()
    finally:
        bench.close()


def test_numba_cuda_is_not_taken_for_it(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    try:
        hello = bench.hello(framework="numba-cuda")
        if importlib.util.find_spec("numba_cuda") is None:
            assert hello["error"].startswith("numba-cuda is not installed for ")
        else:
            assert hello["framework"] == "numba-cuda", hello
    finally:
        bench.close()
