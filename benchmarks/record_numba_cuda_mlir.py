"""Makes ``notebooks/recordings/numba_cuda_mlir.kscope`` on a real GPU, and measures what recording costs there.

    python benchmarks/record_numba_cuda_mlir.py OUTDIR
    python benchmarks/record_numba_cuda_mlir.py --cost

The second one, which the dry run can do too, prints a launch's host time and what each level of detail adds to it:
medians of rounds that take turns.
"""

from __future__ import annotations

import statistics
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import kernelscope
from kernelscope.recorder.recorder import Recorder
from kernelscope.recording.model import Recording

_ROUNDS, _LAUNCHES = 80, 300


def main() -> int:
    """Make the recording and say how large it is, or measure."""
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    warnings.simplefilter("ignore")
    if sys.argv[1] == "--cost":
        return cost()
    recording = session("numba_cuda_mlir")
    if recording.is_dry_run or recording.is_simulated:
        print("this is no GPU: its recording would say so and is no fixture", file=sys.stderr)
        return 1
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    path = recording.save(folder / "numba_cuda_mlir")
    print(f"{path}: {recording.arrow('launches').num_rows} launches, {path.stat().st_size / 1e3:.0f} kB")
    return 0


def session(name: str) -> Recording:
    """Five cells: first launches, new types, streams and clusters, launch configurations, host arrays."""
    from numba_cuda_mlir import cuda

    class UsesLaunchConfig:
        """Marks a kernel as one that depends on its launch configuration, as libraries do."""

        uses_launch_config = True

        def prepare_args(self, ty: Any, val: Any, **kwargs: Any) -> tuple[Any, Any]:
            return ty, val

    @cuda.jit(lineinfo=True)
    def axpy(out, a, x):
        i = cuda.grid(1)
        if i < out.size:
            out[i] += a * x[i]

    @cuda.jit(lineinfo=True)
    def block_sum(out, x):
        shared = cuda.shared.array(256, np.float32)
        thread = cuda.threadIdx.x
        i = cuda.grid(1)
        shared[thread] = x[i] if i < x.size else 0
        cuda.syncthreads()
        step = 128
        while step > 0:
            if thread < step:
                shared[thread] += shared[thread + step]
            cuda.syncthreads()
            step //= 2
        if thread == 0:
            out[cuda.blockIdx.x] = shared[0]

    @cuda.jit(extensions=[UsesLaunchConfig()])
    def scale(x, a):
        i = cuda.grid(1)
        if i < x.size:
            x[i] *= a

    n = 1 << 20
    recorder = Recorder(name, code=True).start()
    recorder.begin_cell("first launches", execution_count=1)
    x = cuda.to_device(np.arange(n, dtype=np.float32))
    out = cuda.to_device(np.zeros(n, dtype=np.float32))
    for _ in range(20):
        axpy[n // 256, 256](out, 0.5, x)
    recorder.end_cell()
    recorder.begin_cell("new types", execution_count=2)
    axpy[n // 256, 256](out, 2, x)
    axpy[n // 256, 256](cuda.to_device(np.zeros(n)), 2, x)
    recorder.end_cell()
    recorder.begin_cell("streams and clusters", execution_count=3)
    streams = [cuda.stream() for _ in range(2)]
    sums = [cuda.to_device(np.zeros(n // 256, dtype=np.float32)) for _ in streams]
    for at in range(20):
        block_sum[n // 256, 256, streams[at % 2]](sums[at % 2], x)
    if cuda.get_current_device().compute_capability >= (9, 0):
        axpy[n // 256, 256, None, 0, 2](out, 0.5, x)
    recorder.end_cell()
    recorder.begin_cell("launch configurations", execution_count=4)
    for block in (64, 128, 256, 128):
        scale[n // block, block](x, 1.0)
    recorder.end_cell()
    recorder.begin_cell("host arrays", execution_count=5)
    host = np.ones(n, dtype=np.float32)
    for _ in range(3):
        axpy[n // 256, 256](host, 0.5, host)
    recorder.end_cell()
    return recorder.stop()


def cost() -> int:
    """Print what recording adds to one launch."""
    from numba_cuda_mlir import cuda

    @cuda.jit
    def noop():
        pass

    @cuda.jit
    def axpy(out, a, x):
        i = cuda.grid(1)
        if i < out.size:
            out[i] += a * x[i]

    x = cuda.to_device(np.zeros(64, dtype=np.float32))
    held, empty = axpy[2, 32], noop[1, 1]
    print(f"{'':8}{'detail':10}{'bare':>10}{'added':>10}")
    for name, launch in (("noop", empty), ("axpy", lambda: held(x, 2.0, x))):
        for detail in ("launch", "phases"):
            launch()
            bare, added = _measured(launch, detail, cuda.synchronize)
            print(f"{name:8}{detail:10}{bare / 1e3:7.2f} µs{added / 1e3:7.2f} µs")
    return 0


def _measured(launch: Callable[[], Any], detail: str, wait: Callable[[], Any]) -> tuple[float, float]:
    """Medians of a launch's host time without a recorder, and of what one adds; in nanoseconds."""
    bare, added = [], []
    for _ in range(_ROUNDS):
        without = _once(launch, wait)
        with kernelscope.record(detail=detail, gpu="none"):
            launch()  # the first one of a recording looks things up
            recorded = _once(launch, wait)
        bare.append(without)
        added.append(recorded - without)
    return statistics.median(bare), statistics.median(added)


def _once(launch: Callable[[], Any], wait: Callable[[], Any]) -> float:
    wait()
    start = time.perf_counter_ns()
    for _ in range(_LAUNCHES):
        launch()
    return (time.perf_counter_ns() - start) / _LAUNCHES


if __name__ == "__main__":
    raise SystemExit(main())
