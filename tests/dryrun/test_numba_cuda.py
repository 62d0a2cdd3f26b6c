"""numba-cuda on the null driver: what it compiles, caches, specializes and launches."""

from __future__ import annotations

import numpy as np
import pytest

from kernelscope import dryrun


@pytest.fixture(autouse=True)
def enabled(context):
    """Numba uses the primary context, as the tests of the driver do."""


@pytest.mark.parametrize("dtype", ["int8", "float16", "complex64", "bool"])
def test_launches_of_many_types(counted, dtype: str) -> None:
    from numba import cuda

    @cuda.jit
    def copy(a, b):
        i = cuda.grid(1)
        if i < a.size:
            b[i] = a[i]

    source = cuda.to_device(np.ones(10, dtype))
    copy[1, 32](source, cuda.device_array_like(source))
    copy[1, 32](source, cuda.device_array_like(source))
    assert len(copy.overloads) == 1
    assert counted() == (2, 0, 0, 0)


def test_arrays_go_there_and_back() -> None:
    from numba import cuda

    host = np.random.default_rng(0).random((20, 50))
    there = cuda.to_device(host)
    copied = cuda.device_array_like(there)
    copied.copy_to_device(there)
    assert (copied.copy_to_host() == host).all()
    assert (there[3:5, 10].copy_to_host() == host[3:5, 10]).all()
    pinned = cuda.pinned_array(10)
    pinned[:] = 3
    assert cuda.to_device(pinned, stream=cuda.stream()).copy_to_host().sum() == 30
    managed, mapped = cuda.managed_array(10), cuda.mapped_array(4)
    managed[:], mapped[:] = 1, 2
    assert managed.sum() == 10 and mapped.sum() == 8
    free, total = cuda.current_context().get_memory_info()
    assert 0 < free < total


def test_host_arrays_and_kernels_that_write_nothing(counted) -> None:
    from numba import cuda
    from numba.cuda.core.errors import NumbaPerformanceWarning

    @cuda.jit
    def increment(a):
        a[0] += 1

    host = np.full(4, 5.0)
    with pytest.warns(NumbaPerformanceWarning, match="Host array"):
        increment[1, 1](host)
    assert host.tolist() == [5.0] * 4
    assert counted()[0] == 1


def test_reduce_and_vectorize(counted) -> None:
    from numba import cuda, vectorize

    add = cuda.reduce(lambda a, b: a + b)
    add(cuda.to_device(np.arange(100.0)))
    assert counted()[0] >= 1

    @vectorize(["float32(float32, float32)"], target="cuda")
    def plus(a, b):
        return a + b

    assert plus(np.ones(8, np.float32), np.ones(8, np.float32)).shape == (8,)
    assert counted()[0] == 1


def test_registers_and_limits() -> None:
    from numba import cuda

    @cuda.jit(launch_bounds=128)
    def bounded(a):
        tile = cuda.shared.array(256, np.float32)
        tile[cuda.threadIdx.x] = a[cuda.threadIdx.x]
        cuda.syncthreads()
        a[cuda.threadIdx.x] = tile[255 - cuda.threadIdx.x]

    array = cuda.device_array(256, np.float32)
    bounded[1, 128](array)
    (compiled,) = bounded.overloads.values()
    assert 0 < compiled.regs_per_thread < 256
    assert compiled.shared_mem_per_block == 1024
    assert compiled.max_threads_per_block == 128
    with pytest.raises(Exception, match="CUDA_ERROR_INVALID_VALUE"):
        bounded[1, 129](array)


def test_cooperative_grids(counted) -> None:
    from numba import cuda

    @cuda.jit
    def whole(a):
        cuda.cg.this_grid().sync()
        a[0] = 1

    array = cuda.device_array(4)
    whole[4, 32](array)
    with pytest.raises(ValueError, match=r"exceeds the limit \(4224\)"):  # what the driver's occupancy allows
        whole[1000000, 32](array)
    assert counted()[0] == 1


CACHED = """
import kernelscope
from numba import cuda

@cuda.jit(cache=True)
def kernel(a):
    a[0] = 1

kernel[1, 1](cuda.device_array(4))
kernel[1, 1](cuda.device_array(4, "float32"))
print(sum(kernel.stats.cache_hits.values()), sum(kernel.stats.cache_misses.values()))
"""


@pytest.mark.slow
def test_the_disk_cache_over_two_processes(run_python, tmp_path) -> None:
    assert run_python(CACHED, NUMBA_CACHE_DIR=str(tmp_path / "numba")).stdout.split() == ["0", "2"]
    assert run_python(CACHED, NUMBA_CACHE_DIR=str(tmp_path / "numba")).stdout.split() == ["2", "0"]


def test_a_numba_stream_is_captured_through_the_bindings(driver, counted) -> None:
    from numba import cuda

    @cuda.jit
    def kernel(a):
        a[0] = 1

    array, stream = cuda.device_array(4), cuda.stream()
    kernel[1, 1](array)
    handle = driver.CUstream(int(getattr(stream.handle, "value", stream.handle)))
    counted()
    driver.do("cuStreamBeginCapture", handle, driver.CUstreamCaptureMode(0))
    kernel[1, 64, stream](array)
    graph = driver.do("cuStreamEndCapture", handle)
    assert driver.do("cuGraphGetNodes", graph, 0)[1] == 1
    assert counted() == (0, 1, 0, 0)
    driver.do("cuGraphDestroy", graph)
    assert dryrun.counters().calls["cuStreamBeginCapture"] >= 1
