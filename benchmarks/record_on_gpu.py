"""Makes the recordings of notebooks/recordings on a real GPU.

    python benchmarks/record_on_gpu.py OUTDIR

They are real input for tests, notebooks and pictures that run without one.
"""

from __future__ import annotations

import sys
import threading
import warnings
from pathlib import Path

import numpy as np

import kernelscope
from kernelscope.recorder import Recorder
from kernelscope.recording.model import Recording


def main() -> int:
    """Make every recording and say how large it is."""
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, make in (("quickstart", quickstart), ("many_kernels", many_kernels), ("threads", threads)):
        recording = make(name)
        if recording.is_dry_run or recording.is_simulated:
            print("this is no GPU: its recordings would say so and are no fixtures", file=sys.stderr)
            return 1
        path = recording.save(folder / name)
        print(f"{path}: {recording.arrow('launches').num_rows} launches, {path.stat().st_size / 1e3:.0f} kB")
    return 0


def quickstart(name: str) -> Recording:
    """Three cells: a first launch and repeats, new specializations, host arrays and streams."""
    from numba import cuda

    @cuda.jit
    def axpy(out, a, x, y):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = a * x[i] + y[i]

    @cuda.jit
    def scale(v, a):
        i = cuda.grid(1)
        if i < v.size:
            v[i] *= a

    n = 1 << 20
    recorder = Recorder(name).start()
    recorder.begin_cell("first launches", execution_count=1)
    x = cuda.to_device(np.arange(n, dtype=np.float32))
    y = cuda.to_device(np.ones(n, dtype=np.float32))
    out = cuda.device_array_like(x)
    for _ in range(100):
        axpy[(n + 255) // 256, 256](out, np.float32(2), x, y)
    recorder.end_cell()
    recorder.begin_cell("more specializations", execution_count=2)
    wide = cuda.to_device(np.arange(n, dtype=np.float64))
    axpy[(n + 255) // 256, 256](wide, 2.0, wide, wide)
    every_second = x[::2]
    axpy[(n // 2 + 255) // 256, 256](every_second, np.float32(2), every_second, every_second)
    recorder.end_cell()
    recorder.begin_cell("host arrays and streams", execution_count=3)
    stream = cuda.stream()
    host = np.ones(n, dtype=np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(5):
            scale[(n + 255) // 256, 256](host, np.float32(1.5))
    for _ in range(50):
        axpy[(n + 255) // 256, 256, stream](out, np.float32(2), x, y)
    stream.synchronize()
    recorder.end_cell()
    return recorder.stop()


def many_kernels(name: str) -> Recording:
    """Forty kernels of one cell, some launched often, one with a signature that the driver refuses to launch."""
    from numba import cuda

    def make(number: int):
        def kernel(v, a):
            i = cuda.grid(1)
            if i < v.size:
                v[i] = v[i] * a + number

        kernel.__name__ = kernel.__qualname__ = f"step_{number:02d}"
        return cuda.jit(kernel)

    kernels = [make(number) for number in range(40)]
    v = cuda.to_device(np.ones(1 << 16, dtype=np.float32))
    with kernelscope.record(name) as r:
        for number, kernel in enumerate(kernels):
            for _ in range(1 + number * number // 10):
                kernel[(1 << 16) // 256, 256](v, np.float32(0.5))
        try:
            kernels[0][1, 2048](v, np.float32(0.5))
        except Exception as error:
            print(f"as meant: {error}")
    return r.recording


def threads(name: str) -> Recording:
    """Four threads with a stream each, 500 launches a thread."""
    from numba import cuda

    @cuda.jit
    def add_one(v):
        i = cuda.grid(1)
        if i < v.size:
            v[i] += 1

    def work() -> None:
        stream = cuda.stream()
        v = cuda.to_device(np.zeros(1 << 14, dtype=np.float32), stream=stream)
        for _ in range(500):
            add_one[64, 256, stream](v)
        stream.synchronize()

    with kernelscope.record(name) as r:
        workers = [threading.Thread(target=work, name=f"worker {number}") for number in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    return r.recording


if __name__ == "__main__":
    sys.exit(main())
