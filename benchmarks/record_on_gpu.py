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
from specializations import record_specializations

import kernelscope
from kernelscope.recorder.recorder import Recorder
from kernelscope.recording.model import Recording


def main() -> int:
    """Make every recording and say how large it is."""
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, make in (("quickstart", quickstart), ("many_kernels", many_kernels), ("threads", threads),
                       ("gpu", gpu), ("specializations", record_specializations)):
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


def gpu(name: str) -> Recording:
    """Copies under kernels, NVTX ranges, a graph, and other libraries' kernels, in five cells."""
    import cupy
    import torch
    from cuda.core import Device
    from numba import cuda

    @cuda.jit
    def smooth(out, v):
        i = cuda.grid(1)
        if 0 < i < v.size - 1:
            out[i] = (v[i - 1] + v[i] + v[i + 1]) / 3

    @cuda.jit
    def scale(v, a):
        i = cuda.grid(1)
        if i < v.size:
            v[i] *= a

    n = 1 << 22
    host, result = cuda.pinned_array(n, np.float32), cuda.pinned_array(n, np.float32)
    host[:] = np.arange(n)
    streams = [cuda.stream() for _ in range(3)]
    ones, other = torch.ones(1 << 20, device="cuda"), cupy.ones(1 << 20, cupy.float32)
    (ones + 1).sum().item(), (other * 2).sum().get()  # what they compile and load is not this recording's
    recorder = Recorder(name).start()
    recorder.begin_cell("pipeline", execution_count=1)
    chunk = n // 12
    with kernelscope.annotate("pipeline", color="#5b8ff9"):
        for step in range(12):
            stream, part = streams[step % 3], slice(step * chunk, (step + 1) * chunk)
            with kernelscope.annotate("chunk", color="#f6bd16", payload=step, category="copy"):
                v = cuda.to_device(host[part], stream=stream)
                out = cuda.device_array_like(v, stream=stream)
                for _ in range(4):
                    smooth[(chunk + 255) // 256, 256, stream](out, v)
                out.copy_to_host(result[part], stream=stream)
        for stream in streams:
            stream.synchronize()
    recorder.end_cell()
    recorder.begin_cell("training", execution_count=2)
    v, w = cuda.to_device(host), cuda.device_array(n, np.float32)
    for epoch in range(3):
        with kernelscope.annotate("epoch", domain="training", color="#61d9a3", payload=epoch):
            for _ in range(20):
                with kernelscope.annotate("forward", domain="training", color="#9270ca"):
                    smooth[(n + 255) // 256, 256](w, v)
                with kernelscope.annotate("backward", domain="training", color="#e8684a"):
                    scale[(n + 255) // 256, 256](w, np.float32(0.5))
                    scale[(n + 255) // 256, 256](v, np.float32(0.99))
            float(w[0])  # the loss is read back, as training loops do
    recorder.end_cell()
    recorder.begin_cell("graph", execution_count=3)
    device = Device()
    device.set_current()
    builder = device.create_graph_builder()
    builder.begin_building()
    for _ in range(6):
        smooth[64, 256, builder.stream](w, v)
        scale[64, 256, builder.stream](w, np.float32(0.5))
    builder.end_building()
    graph = builder.complete()
    own = device.create_stream()
    for _ in range(10):
        graph.launch(own)
    own.sync()
    recorder.end_cell()
    recorder.begin_cell("other libraries", execution_count=4)
    for _ in range(10):
        torch.cuda.nvtx.range_push("torch step")
        (ones * 2 + 1).sum().item()
        torch.cuda.nvtx.range_pop()
        (other * 2).sum().get()
        scale[(n + 255) // 256, 256](v, np.float32(1.01))
    recorder.end_cell()
    recorder.begin_cell("many short kernels", execution_count=5)
    short = cuda.device_array(1024, np.float32)
    for _ in range(400):
        scale[4, 256](short, np.float32(1.01))
    recorder.end_cell()
    return recorder.stop()


if __name__ == "__main__":
    sys.exit(main())
