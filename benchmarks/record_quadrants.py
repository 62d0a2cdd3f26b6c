"""Makes notebooks/recordings/quadrants.kscope on a real GPU: Quadrants' kernels, compiles and graphs.

    python benchmarks/record_quadrants.py OUTDIR

It needs quadrants (Python 3.12), and is real input for tests, notebooks and pictures that run without either.
"""

from __future__ import annotations

import sys
from pathlib import Path

import quadrants as qd

from kernelscope.recorder import Recorder
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
