"""Seven kernels with the GPU's counters: recordings of them, and the same metrics as Nsight Compute has them.

    python benchmarks/counters.py record FOLDER     writes counters.kscope, with all metrics of the seven kernels
    python benchmarks/counters.py compare           measures them here and with ncu, and prints the differences
    python benchmarks/counters.py time              how long `basic` takes, first and again, and ncu

It needs a GPU, and ncu on the PATH to compare with.
"""

from __future__ import annotations

import csv
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence

import numpy as np
from numba import cuda, float32

import kernelscope
from kernelscope.counter_sets import SETS

N = 1 << 24
SIDE, TILE = 1024, 32


@cuda.jit
def copy(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = x[i]


@cuda.jit
def axpy(a, x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] += a * x[i]


@cuda.jit
def naive_product(a, b, c):
    i, j = cuda.grid(2)  # neighbouring threads have neighbouring rows: far apart in memory
    if i < c.shape[0] and j < c.shape[1]:
        total = float32(0)
        for k in range(a.shape[1]):
            total += a[i, k] * b[k, j]
        c[i, j] = total


@cuda.jit
def tiled_product(a, b, c):
    left = cuda.shared.array((TILE, TILE), float32)
    right = cuda.shared.array((TILE, TILE), float32)
    column, row = cuda.threadIdx.x, cuda.threadIdx.y
    j, i = cuda.grid(2)
    total = float32(0)
    for tile in range(a.shape[1] // TILE):
        left[row, column] = a[i, tile * TILE + column]
        right[row, column] = b[tile * TILE + row, j]
        cuda.syncthreads()
        for k in range(TILE):
            total += left[row, k] * right[k, column]
        cuda.syncthreads()
    c[i, j] = total


@cuda.jit
def reduction(x, total):
    held = cuda.shared.array(256, float32)
    thread = cuda.threadIdx.x
    own = float32(0)
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        own += x[i]
    held[thread] = own
    width = 128
    while width:
        cuda.syncthreads()
        if thread < width:
            held[thread] += held[thread + width]
        width //= 2
    if thread == 0:
        cuda.atomic.add(total, 0, held[0])


@cuda.jit
def double_by_accident(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = 0.5 * x[i] + 0.25  # these numbers are float64


@cuda.jit
def transpose_with_conflicts(x, y):
    tile = cuda.shared.array((TILE, TILE), float32)
    column, row = cuda.threadIdx.x, cuda.threadIdx.y
    j, i = cuda.grid(2)
    tile[row, column] = x[i, j]
    cuda.syncthreads()
    y[cuda.blockIdx.x * TILE + row, cuda.blockIdx.y * TILE + column] = tile[column, row]  # 32 threads, one bank


def prepared() -> Callable[[], None]:
    """Return a function that launches each kernel once, on data of its own."""
    random = np.random.default_rng(7)
    x, y, total = (cuda.to_device(random.random(size, np.float32)) for size in (N, N, 1))
    a, b, c = (cuda.to_device(random.random((SIDE, SIDE), np.float32)) for _ in range(3))
    square, turned = (cuda.to_device(random.random((4096, 4096), np.float32)) for _ in range(2))

    def launch() -> None:
        copy[N // 256, 256](x, y)
        axpy[N // 256, 256](np.float32(2), x, y)
        naive_product[(SIDE // 16, SIDE // 16), (16, 16)](a, b, c)
        tiled_product[(SIDE // TILE, SIDE // TILE), (TILE, TILE)](a, b, c)
        reduction[1024, 256](x, total)
        double_by_accident[N // 256, 256](x, y)
        transpose_with_conflicts[(4096 // TILE, 4096 // TILE), (TILE, TILE)](square, turned)
        cuda.synchronize()

    return launch


def measured(recording: kernelscope.Recording) -> dict[tuple[str, str], float | None]:
    """Return the metrics of whole launches, by kernel and metric."""
    names = {row["measurement_id"]: row["name"] for row in recording.rows("measurements")}
    return {(names[row["measurement_id"]], row["name"]): row["value"] for row in recording.rows("metrics")
            if row["pc_offset"] is None}


def of_ncu(metrics: Sequence[str]) -> dict[tuple[str, str], float]:
    """Return the same of ncu, which runs this file; clocks and caches as they are."""
    done = subprocess.run(
        ["ncu", "--clock-control", "none", "--cache-control", "none", "--metrics", ",".join(metrics), "--csv",
         "--page", "raw", "--print-units", "base", sys.executable, __file__, "launch"],
        capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    rows = list(csv.DictReader(lines[next(at for at, line in enumerate(lines) if line.startswith('"ID"')):]))
    return {(kernel, metric): float(row[metric].replace(",", "")) for row in rows[1:] for metric in metrics
            for kernel in (next(name for name in KERNELS if name in row["Kernel Name"]),) if row.get(metric)}


KERNELS = ("copy", "axpy", "naive_product", "tiled_product", "reduction", "double_by_accident",
           "transpose_with_conflicts")


def main(arguments: Sequence[str]) -> None:
    """Do what is asked for."""
    launch = prepared()
    launch()
    if arguments == ["launch"]:
        launch()
    elif arguments[0] == "record":
        with kernelscope.record(metrics="full", code=True, name="counters") as recorder:
            for _ in range(3):  # the first launch of each is measured
                launch()
        recorder.recording.save(os.path.join(arguments[1], "counters.kscope"))
        print(recorder.recording.roofline())
    elif arguments == ["compare"]:
        with kernelscope.record(metrics="full") as recorder:
            launch()
        own, theirs = measured(recorder.recording), of_ncu(SETS["full"])
        for metric in SETS["full"]:
            for kernel in KERNELS:
                one, other = own.get((kernel, metric)), theirs.get((kernel, metric))
                off = "" if one is None or not other else f"{(one / other - 1) * 100:+.2f} %"
                print(f"{metric:75} {kernel:25} {one!s:>22} {other!s:>22} {off:>10}")
    elif arguments == ["time"]:
        x, y = (cuda.to_device(np.ones(N, np.float32)) for _ in range(2))
        for wanted in ("basic",) * 6 + ("full",) * 3:
            begun = time.perf_counter()
            with kernelscope.record(metrics=wanted) as recorder:
                axpy[N // 256, 256](np.float32(2), x, y)
            print(f"{wanted}: {time.perf_counter() - begun:.3f} s, {len(recorder.recording.metrics)} values")
        lasted = []
        for _ in range(3):
            begun = time.perf_counter()
            of_ncu(SETS["basic"])
            lasted.append(time.perf_counter() - begun)
        print(f"ncu: {statistics.median(lasted):.3f} s")


if __name__ == "__main__":
    main(sys.argv[1:] or ["compare"])
