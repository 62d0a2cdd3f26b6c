"""Makes notebooks/recordings/counters.kscope on a real GPU: kernels of numba-cuda, measured with the GPU's counters.

    python benchmarks/record_counters.py OUTDIR
    ncu --csv --page raw --metrics NAMES python benchmarks/record_counters.py --launch-only

The second form launches the same kernels and records nothing, so that Nsight Compute can measure them too.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numba import cuda, float32

#: Elements of the arrays: 64 MiB of float32 each, more than an L2 cache holds.
ELEMENTS = 1 << 24
#: Rows and columns of the matrices that are multiplied, and of those that are transposed.
ROWS, WIDE = 1024, 4096
TILE = 32
PADDED = TILE + 1
BLOCK = 256
#: Of each kernel: the first launch compiles and warms up.
LAUNCHES = 2


@cuda.jit(lineinfo=True)
def copy(x: Any, y: Any) -> None:
    i = cuda.grid(1)
    if i < x.size:
        y[i] = x[i]


@cuda.jit(lineinfo=True)
def axpy(a: Any, x: Any, y: Any) -> None:
    i = cuda.grid(1)
    if i < x.size:
        y[i] += a * x[i]


@cuda.jit(lineinfo=True)
def naive_product(a: Any, b: Any, c: Any) -> None:
    column, row = cuda.grid(2)
    if row < c.shape[0] and column < c.shape[1]:
        total = float32(0)
        for k in range(a.shape[1]):
            total += a[row, k] * b[k, column]
        c[row, column] = total


@cuda.jit(lineinfo=True)
def tiled_product(a: Any, b: Any, c: Any) -> None:
    left = cuda.shared.array((TILE, TILE), float32)
    right = cuda.shared.array((TILE, TILE), float32)
    column, row = cuda.grid(2)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    total = float32(0)
    for start in range(0, a.shape[1], TILE):
        left[ty, tx] = a[row, start + tx]
        right[ty, tx] = b[start + ty, column]
        cuda.syncthreads()
        for k in range(TILE):
            total += left[ty, k] * right[k, tx]
        cuda.syncthreads()
    c[row, column] = total


@cuda.jit(lineinfo=True)
def reduction(x: Any, total: Any) -> None:
    held = cuda.shared.array(BLOCK, float32)
    thread = cuda.threadIdx.x
    mine = float32(0)
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        mine += x[i]
    held[thread] = mine
    cuda.syncthreads()
    step = BLOCK // 2
    while step:
        if thread < step:
            held[thread] += held[thread + step]
        cuda.syncthreads()
        step //= 2
    if thread == 0:
        cuda.atomic.add(total, 0, held[0])


@cuda.jit(lineinfo=True)
def transpose(x: Any, y: Any) -> None:
    tile = cuda.shared.array((TILE, TILE), float32)
    column, row = cuda.grid(2)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    tile[ty, tx] = x[row, column]
    cuda.syncthreads()
    # The threads of a warp read one column of the tile: all from one bank.
    y[cuda.blockIdx.x * TILE + ty, cuda.blockIdx.y * TILE + tx] = tile[tx, ty]


@cuda.jit(lineinfo=True)
def padded_transpose(x: Any, y: Any) -> None:
    tile = cuda.shared.array((TILE, PADDED), float32)
    column, row = cuda.grid(2)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    tile[ty, tx] = x[row, column]
    cuda.syncthreads()
    y[cuda.blockIdx.x * TILE + ty, cuda.blockIdx.y * TILE + tx] = tile[tx, ty]


@cuda.jit(lineinfo=True)
def naive_transpose(x: Any, y: Any) -> None:
    column, row = cuda.grid(2)
    if row < x.shape[0] and column < x.shape[1]:
        y[column, row] = x[row, column]


def launches() -> list[tuple[str, Callable[[], None]]]:
    """Return what launches each kernel once, by name; axpy with a float32 and, by accident, with a Python float."""
    x = cuda.to_device(np.random.default_rng(7).random(ELEMENTS, dtype=np.float32))
    y = cuda.device_array_like(x)
    grid = ELEMENTS // BLOCK
    left, right = (cuda.to_device(np.random.default_rng(at).random((ROWS, ROWS), dtype=np.float32)) for at in (1, 2))
    product = cuda.device_array((ROWS, ROWS), np.float32)
    wide, turned = x.reshape(WIDE, WIDE), y.reshape(WIDE, WIDE)
    total = cuda.to_device(np.zeros(1, np.float32))
    tiles, tile = (ROWS // TILE, ROWS // TILE), (TILE, TILE)
    many = (WIDE // TILE, WIDE // TILE)
    return [
        ("copy", lambda: copy[grid, BLOCK](x, y)),
        ("axpy", lambda: axpy[grid, BLOCK](np.float32(0.5), x, y)),
        ("axpy", lambda: axpy[grid, BLOCK](0.5, x, y)),  # a Python float is float64
        ("naive_product", lambda: naive_product[tiles, tile](left, right, product)),
        ("tiled_product", lambda: tiled_product[tiles, tile](left, right, product)),
        ("reduction", lambda: reduction[1024, BLOCK](x, total)),
        ("naive_transpose", lambda: naive_transpose[many, tile](wide, turned)),
        ("transpose", lambda: transpose[many, tile](wide, turned)),
        ("padded_transpose", lambda: padded_transpose[many, tile](wide, turned)),
    ]


def launch_all() -> None:
    """Launch each kernel `LAUNCHES` times, one behind the other."""
    for _, launch in launches():
        for _ in range(LAUNCHES):
            launch()
    cuda.synchronize()


def main() -> int:
    """Make the recording and say how large it is."""
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    if sys.argv[1] == "--launch-only":
        launch_all()
        return 0
    import kernelscope

    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    with kernelscope.record("counters", metrics="full", code=True) as recorder:
        launch_all()
    recording = recorder.recording
    if recording.is_dry_run:
        print("this is no GPU: its recording would say so and is no fixture", file=sys.stderr)
        return 1
    path = recording.save(folder / "counters")
    print(recording.summary())
    print(f"{path}: {recording.arrow('measurements').num_rows} measurements, {path.stat().st_size / 1e3:.0f} kB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
