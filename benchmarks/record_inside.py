"""Makes notebooks/recordings/inside.kscope on a real GPU: a matrix product in four versions, measured and sampled.

    python benchmarks/record_inside.py OUTDIR

A session of cells in IPython. Each version has a cell with the GPU's counters and one with samples of its warps, whose
kernels have their own times.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

DATA = """\
import numpy as np
from numba import cuda, float32

a, b = (cuda.to_device(np.random.default_rng(n).random((1024, 1024), np.float32)) for n in (1, 2))
c = cuda.device_array((1024, 1024), np.float32)
expected = a.copy_to_host() @ b.copy_to_host()
"""

VERSIONS = {
    "naive": ("(64, 64), (16, 16)", """\
@cuda.jit(lineinfo=True)
def naive(a, b, c):
    row, column = cuda.grid(2)
    if row < c.shape[0] and column < c.shape[1]:
        total = 0.0
        for k in range(a.shape[1]):
            total += a[row, k] * b[k, column]
        c[row, column] = total
"""),
    "single": ("(64, 64), (16, 16)", """\
@cuda.jit(lineinfo=True)
def single(a, b, c):
    row, column = cuda.grid(2)
    if row < c.shape[0] and column < c.shape[1]:
        total = float32(0)
        for k in range(a.shape[1]):
            total += a[row, k] * b[k, column]
        c[row, column] = total
"""),
    "coalesced": ("(64, 64), (16, 16)", """\
@cuda.jit(lineinfo=True)
def coalesced(a, b, c):
    column, row = cuda.grid(2)
    if row < c.shape[0] and column < c.shape[1]:
        total = float32(0)
        for k in range(a.shape[1]):
            total += a[row, k] * b[k, column]
        c[row, column] = total
"""),
    "tiled": ("(32, 32), (32, 32)", """\
@cuda.jit(lineinfo=True)
def tiled(a, b, c):
    left = cuda.shared.array((32, 32), float32)
    right = cuda.shared.array((32, 32), float32)
    column, row = cuda.grid(2)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    total = float32(0)
    for start in range(0, a.shape[1], 32):
        left[y, x] = a[row, start + x]
        right[y, x] = b[start + y, column]
        cuda.syncthreads()
        for k in range(32):
            total += left[y, k] * right[k, x]
        cuda.syncthreads()
    c[row, column] = total
"""),
}
LAUNCHES = 20


def main() -> int:
    """Run the session and save what it recorded."""
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    from IPython.core.interactiveshell import InteractiveShell

    folder = Path(sys.argv[1]).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    cells = ["%load_ext kernelscope", DATA]
    for name, (sizes, source) in VERSIONS.items():
        launch = f"{name}[{sizes}](a, b, c)"
        repeated = f"for _ in range({LAUNCHES}):\n    {launch}\ncuda.synchronize()\n"
        cells += [f"{source}\n{launch}\nassert np.allclose(c.copy_to_host(), expected, rtol=1e-4)\n",
                  f'%%kernelscope -n "{name}, metrics" --metrics full --code --no-timeline\n{launch}\n',
                  f'%%kernelscope -n "{name}, stalls" --stalls --no-timeline\n{repeated}']
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as place:
        os.chdir(place)
        shell = InteractiveShell.instance()
        for cell in [*cells, f"%kernelscope save {folder / 'inside'}"]:
            shell.run_cell(cell, store_history=True).raise_error()
        os.chdir(before)
    return 0


if __name__ == "__main__":
    sys.exit(main())
