"""What `record_on_gpu` launches for the recording of specializations: types, resources, caches, new dispatchers."""

from __future__ import annotations

import tempfile

import numpy as np
from numba import config, cuda, float32
from numba.cuda import launchconfig
from numba.cuda.core import rewrites

from kernelscope.recorder.recorder import Recorder
from kernelscope.recording.model import Recording


def record_specializations(name: str) -> Recording:
    """Seven cells, each with another reason to compile; with the kernels' code."""
    recorder = Recorder(name, code=True).start()
    for number, cell in enumerate((_first_launches, _other_types, _churn, _launch_config_sensitive, _disk_cache,
                                   _spills, _made_anew), start=1):
        prepared = cell()
        recorder.begin_cell(cell.__name__.strip("_").replace("_", " "), execution_count=number)
        prepared()
        recorder.end_cell()
    return recorder.stop()


_SIZE = 1 << 20


@cuda.jit(lineinfo=True)
def axpy(out, a, x, y, n):
    i = cuda.grid(1)
    if i < n:
        out[i] = a * x[i] + y[i]


@cuda.jit(lineinfo=True)
def blur(out, image, weight):
    tile = cuda.shared.array((18, 18), float32)
    column, row = cuda.grid(2)
    tx, ty = cuda.threadIdx.x + 1, cuda.threadIdx.y + 1
    height, width = image.shape
    if row < height and column < width:
        tile[ty, tx] = image[row, column]
        if ty == 1:
            tile[0, tx] = image[max(row - 1, 0), column]
            tile[17, tx] = image[min(row + 16, height - 1), column]
        if tx == 1:
            tile[ty, 0] = image[row, max(column - 1, 0)]
            tile[ty, 17] = image[row, min(column + 16, width - 1)]
    cuda.syncthreads()
    if row < height and column < width:
        around = tile[ty - 1, tx] + tile[ty + 1, tx] + tile[ty, tx - 1] + tile[ty, tx + 1]
        out[row, column] = weight * around + (1 - 4 * weight) * tile[ty, tx]


@cuda.jit
def gather(out, source, index):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = source[index[i]]


@cuda.jit
def tiled(v, a):
    i = cuda.grid(1)
    if i < v.size:
        v[i] = v[i] * a + cuda.blockDim.x


@cuda.jit(max_registers=24, lineinfo=True)
def horner(out, x):
    i = cuda.grid(1)
    if i < out.size:
        c0, c1, c2, c3, c4, c5 = x[i, 0], x[i, 1], x[i, 2], x[i, 3], x[i, 4], x[i, 5]
        c6, c7, c8, c9, ca, cb = x[i, 6], x[i, 7], x[i, 8], x[i, 9], x[i, 10], x[i, 11]
        for step in range(64):
            c0 += c1 * step
            c1 += c2 * c0
            c2 += c3 * c1
            c3 += c4 * c2
            c4 += c5 * c3
            c5 += c6 * c4
            c6 += c7 * c5
            c7 += c8 * c6
            c8 += c9 * c7
            c9 += ca * c8
            ca += cb * c9
            cb += c0 * ca
        out[i] = c0 + c1 + c2 + c3 + c4 + c5 + c6 + c7 + c8 + c9 + ca + cb


def cached(v, a):
    i = cuda.grid(1)
    if i < v.size:
        v[i] = v[i] / a


@rewrites.register_rewrite("after-inference")
class MarkTiled(rewrites.Rewrite):
    """Marks kernels called tiled, as a library does that compiles the launch configuration in."""

    def __init__(self, state) -> None:
        super().__init__(state)
        self._block = None

    def match(self, func_ir, block, typemap, calltypes):
        if self._block is not None or func_ir.func_id.func_name != "tiled":
            return False
        self._block = block
        return True

    def apply(self):
        launchconfig.ensure_current_launch_config().dispatcher.mark_launch_config_sensitive()
        return self._block


def _first_launches():
    x, y = (cuda.to_device(np.ones(_SIZE, np.float32)) for _ in range(2))
    image = cuda.to_device(np.random.default_rng(1).random((1024, 1024), np.float32))

    def run() -> None:
        out = cuda.device_array_like(x)
        for _ in range(40):
            axpy[_SIZE // 256, 256](out, np.float32(2), x, y, _SIZE)
        for threads in (64, 1024):
            axpy[_SIZE // threads, threads](out, np.float32(2), x, y, _SIZE)
        blurred = cuda.device_array_like(image)
        for _ in range(20):
            blur[(64, 64), (16, 16)](blurred, image, np.float32(0.125))

    return run


def _other_types():
    x = cuda.to_device(np.ones(_SIZE, np.float32))
    wide = cuda.to_device(np.ones(_SIZE, np.float64))

    def run() -> None:
        axpy[_SIZE // 256, 256](wide, 2.0, wide, wide, _SIZE)
        every_second = x[::2]
        axpy[_SIZE // 512, 256](every_second, np.float32(2), every_second, every_second, _SIZE // 2)
        axpy[_SIZE // 256, 256](x, np.float32(2), x, x, np.int32(_SIZE))

    return run


def _churn():
    source = cuda.to_device(np.arange(4096, dtype=np.float32))
    out = cuda.device_array(4096, np.float32)
    indices = [cuda.to_device(np.arange(4096).astype(kind)) for kind in ("i8", "i4", "u4", "i2", "u2")]

    def run() -> None:
        for index in indices:
            gather[16, 256](out, source, index)

    return run


def _launch_config_sensitive():
    v = cuda.to_device(np.ones(4096, np.float32))

    def run() -> None:
        for threads in (128, 256, 128, 256):
            tiled[4096 // threads, threads](v, np.float32(0.5))

    return run


def _disk_cache():
    config.CACHE_DIR = tempfile.mkdtemp(prefix="kernelscope-cache-")
    v = cuda.to_device(np.ones(4096, np.float32))

    def run() -> None:
        # As three processes do: each has a dispatcher of its own, and the disk cache is all that they share.
        for options in ({}, {}, {"fastmath": True}):
            cuda.jit(cached, cache=True, **options)[16, 256](v, np.float32(1.5))

    return run


def _spills():
    x, out = cuda.to_device(np.full((8192, 12), 1e-3)), cuda.device_array(8192, np.float64)

    def run() -> None:
        for _ in range(10):
            horner[32, 256](out, x)

    return run


def _made_anew():
    v = cuda.to_device(np.ones(4096, np.float32))

    def run() -> None:
        for _ in range(3):

            @cuda.jit
            def scale(v, a):
                i = cuda.grid(1)
                if i < v.size:
                    v[i] *= a

            scale[16, 256](v, np.float32(2))

    return run
