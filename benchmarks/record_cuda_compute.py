"""Makes notebooks/recordings/cuda_compute.kscope on a real GPU, with cuda.compute and cupy.

    python benchmarks/record_cuda_compute.py OUTDIR

Python operators need numba-cuda-mlir; without it that cell is left out, and the program says so.
"""

from __future__ import annotations

import importlib.util
import sys
import threading
from pathlib import Path

import numpy as np

from kernelscope.recorder.recorder import Recorder
from kernelscope.recording.model import Recording


def main() -> int:
    """Make the recording and say how large it is."""
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    recording = record("cuda_compute")
    if recording.is_dry_run:
        print("this is no GPU: its recording would say so and is no fixture", file=sys.stderr)
        return 1
    path = recording.save(folder / "cuda_compute")
    print(recording.summary())
    print(f"{path}: {recording.arrow('builds').num_rows} requests, {path.stat().st_size / 1e3:.0f} kB")
    return 0


def record(name: str) -> Recording:
    """First uses and hits, other types, another operator's name, a captured number, a sort, two threads."""
    import cupy
    from cuda import compute
    from cuda.compute import OpKind

    values = cupy.arange(1 << 20, dtype=np.float32)
    total, scanned = cupy.empty(1, np.float32), cupy.empty_like(values)
    start = np.zeros(1, np.float32)

    def reduce(op: object, given: object = values, out: object = total) -> None:
        compute.reduce_into(d_in=given, d_out=out, num_items=values.size, op=op, h_init=start)

    recorder = Recorder(name).start()
    recorder.begin_cell("one build and its hits", execution_count=1)
    for _ in range(20):
        reduce(OpKind.PLUS)
    recorder.begin_cell("other types and iterators", execution_count=2)
    reduce(OpKind.PLUS, values.astype(np.float64))
    reduce(OpKind.MAXIMUM)
    reduce(OpKind.PLUS, compute.CountingIterator(np.int32(0)))
    recorder.begin_cell("a scan and a sort", execution_count=3)
    for _ in range(5):
        compute.inclusive_scan(d_in=values, d_out=scanned, op=OpKind.PLUS, init_value=start, num_items=values.size)
        compute.radix_sort(d_in_keys=values, d_out_keys=scanned, d_in_values=None, d_out_values=None,
                           num_items=values.size, order=compute.SortOrder.DESCENDING)
    if importlib.util.find_spec("numba_cuda_mlir") is None:
        print("numba-cuda-mlir is not installed: no Python operators", file=sys.stderr)
    else:
        recorder.begin_cell("operators in Python", execution_count=4)
        for operator in operators():
            reduce(operator)
            reduce(operator)
    recorder.begin_cell("two threads", execution_count=5)
    threads = [threading.Thread(target=reduce, args=(OpKind.MINIMUM,), name=f"worker-{at}") for at in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    recorder.begin_cell("after clear_all_caches()", execution_count=6)
    compute.clear_all_caches()
    reduce(OpKind.PLUS)
    recorder.end_cell()
    return recorder.stop()


def operators() -> list[object]:
    """Two of one code and two names, and two that capture different numbers."""
    def add(a, b):
        return a + b

    def plus(a, b):
        return a + b

    def scaled_by(factor):
        def scaled(a, b):
            return a + factor * b

        return scaled

    return [add, plus, scaled_by(0.5), scaled_by(0.25)]


if __name__ == "__main__":
    sys.exit(main())
