"""Makes notebooks/recordings/quadrants.kscope on a real GPU: Quadrants' kernels, compiles and graphs.

    python benchmarks/record_quadrants.py OUTDIR
    python benchmarks/record_quadrants.py --cost

It needs quadrants (Python 3.12), and is real input for tests, notebooks and pictures that run without either. The
second one prints what recording adds to a call, as the median of pairs that take turns.
"""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path
from typing import Any

import quadrants as qd

import kernelscope
from kernelscope.recorder.recorder import Recorder
from kernelscope.recording.model import Recording

N = 1 << 20


@qd.kernel
def scale(x: qd.types.ndarray(ndim=1), a: qd.f32):
    for i in x:
        x[i] *= a


@qd.kernel
def repeat(times: qd.template(), x: qd.types.ndarray(qd.f32, ndim=1)):
    for i in x:
        for _ in qd.static(range(times)):
            x[i] = x[i] * 0.5 + 1.0


@qd.kernel(graph=True)
def step(x: qd.types.ndarray(qd.f32, ndim=1), v: qd.types.ndarray(qd.f32, ndim=1), dt: qd.f32):
    for i in v:
        v[i] -= x[i] * dt
    for i in x:
        x[i] += v[i] * dt
    for i in x:
        x[i] = qd.max(x[i], -1.0)


@qd.kernel(graph=True)
def converge(x: qd.types.ndarray(qd.f32, ndim=1), left: qd.types.ndarray(qd.i32, ndim=0)):
    while qd.graph.do_while(left):
        for i in x:
            x[i] = 0.5 * (x[i] + 2.0 / x[i])
        for _ in range(1):
            left[()] = left[()] - 1


def main() -> int:
    """Make the recording and say how large it is."""
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    if sys.argv[1] == "--cost":
        return cost()
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    qd.init(arch=qd.cuda, offline_cache=False)
    if qd.cfg.arch != qd.cuda:
        print("this is no GPU: its recording would say so and is no fixture", file=sys.stderr)
        return 1
    recording = record("quadrants")
    path = recording.save(folder / "quadrants")
    print(recording.summary())
    print(f"{path}: {recording.arrow('launches').num_rows} launches, {path.stat().st_size / 1e3:.0f} kB")
    return 0


def cost() -> int:
    """Print what recording adds to a call of a kernel and of a graph kernel."""
    qd.init(offline_cache=False)
    x, v = (qd.ndarray(qd.f32, shape=(4096,)) for _ in range(2))
    for kernel, arguments in ((scale, (x, 1.0)), (step, (x, v, 0.1))):
        kernel(*arguments)
        pairs = []
        for _ in range(15):
            bare = took_ns(kernel, arguments)
            with kernelscope.record(gpu="none"):
                pairs.append((bare, took_ns(kernel, arguments)))
        bare = statistics.median(bare for bare, _ in pairs)
        added = statistics.median(recorded - bare for bare, recorded in pairs)
        print(f"{kernel.__name__}: {bare:.0f} ns bare, {added:+.0f} ns recorded")
    return 0


def took_ns(kernel: Any, arguments: tuple[Any, ...], calls: int = 500) -> float:
    """Return what a call takes on the host."""
    qd.sync()
    begun = time.perf_counter_ns()
    for _ in range(calls):
        kernel(*arguments)
    spent = (time.perf_counter_ns() - begun) / calls
    qd.sync()
    return spent


def record(name: str) -> Recording:
    """Record four cells: first launches, a template's values, a graph that is replayed, a loop on the GPU."""
    x, v, double = (qd.ndarray(dtype, shape=(N,)) for dtype in (qd.f32, qd.f32, qd.f64))
    left = qd.ndarray(qd.i32, shape=())
    recorder = Recorder(name).start()
    recorder.begin_cell("first launches", execution_count=1)
    for _ in range(20):
        scale(x, 0.5)
    scale(double, 0.5)
    recorder.end_cell()
    recorder.begin_cell("template values", execution_count=2)
    for times in (1, 2, 4, 1, 2, 4):
        repeat(times, x)
    recorder.end_cell()
    recorder.begin_cell("a graph", execution_count=3)
    for _ in range(50):
        step(x, v, 0.01)
    step(v, x, 0.01)
    recorder.end_cell()
    recorder.begin_cell("a loop in a graph", execution_count=4)
    x.fill(1.0)
    for _ in range(5):
        left[()] = 8
        converge(x, left)
    recorder.end_cell()
    return recorder.stop()


if __name__ == "__main__":
    sys.exit(main())
