"""Driver calls, streams, memory and kernels for the tests of the null driver, in this process."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kernelscope import dryrun

KERNELS = r"""
__device__ int counter;
__device__ float numbers[3] = {1.f, 2.f, 3.f};
__constant__ float table[100];
extern "C" __global__ void axpy(float a, const float *x, float *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += a * x[i] * table[i % 100];
}
extern "C" __global__ void __launch_bounds__(128, 2) bounded(float *y, char c, short s, double d)
{
    __shared__ float tile[256];
    tile[threadIdx.x] = y[threadIdx.x] * c + s;
    __syncthreads();
    y[threadIdx.x] = tile[255 - threadIdx.x] + d + numbers[threadIdx.x % 3];
    counter++;
}
extern "C" __global__ void dynamic(int *y)
{
    extern __shared__ int scratch[];
    scratch[threadIdx.x] = y[0];
    __syncthreads();
    y[1] = scratch[threadIdx.x ^ 1];
}
extern "C" __global__ void nothing() {}
"""


@functools.cache
def compile_source(kind: str = "cubin", capability: int = 90, source: str = KERNELS) -> bytes:
    """Compile with NVRTC itself, which needs no device."""
    from cuda.bindings import nvrtc

    options = [b"-arch=" + f"{'sm' if kind == 'cubin' else 'compute'}_{capability}".encode()]
    error, program = nvrtc.nvrtcCreateProgram(source.encode(), b"kernels.cu", 0, [], [])
    assert not error, error
    assert not nvrtc.nvrtcCompileProgram(program, len(options), options)[0]
    size_of, get = (
        (nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN)
        if kind == "cubin"
        else (nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX)
    )
    image = b" " * size_of(program)[1]
    assert not get(program, image)[0]
    nvrtc.nvrtcDestroyProgram(program)
    return image


@pytest.fixture(scope="session")
def compile_kernels() -> Callable[..., bytes]:
    """Compile KERNELS, or another source, to a "cubin" or to "ptx" for a capability."""
    return compile_source


@pytest.fixture(scope="session")
def kernel_source() -> str:
    return KERNELS


class Driver:
    """cuda.bindings' driver functions: `do` returns the values of a call that must succeed, `code` its error."""

    def __init__(self) -> None:
        from cuda.bindings import driver

        self.api = driver

    def __getattr__(self, name: str) -> Any:
        return getattr(self.api, name)

    def do(self, name: str, *arguments: Any) -> Any:
        error, *values = getattr(self.api, name)(*arguments)
        assert error == self.api.CUresult.CUDA_SUCCESS, f"{name}: {error.name}"
        return values[0] if len(values) == 1 else tuple(values)

    def code(self, name: str, *arguments: Any) -> str:
        """Return the error's name without its CUDA_ERROR_; SUCCESS for none."""
        error = getattr(self.api, name)(*arguments)[0]
        return error.name.removeprefix("CUDA_").removeprefix("ERROR_")


@pytest.fixture(scope="session")
def driver() -> Driver:
    dryrun.enable()
    driver = Driver()
    driver.do("cuInit", 0)
    return driver


@pytest.fixture
def context(driver: Driver) -> Iterator[Any]:
    context = driver.do("cuDevicePrimaryCtxRetain", 0)
    driver.do("cuCtxPushCurrent", context)
    yield context
    driver.do("cuCtxPopCurrent")
    driver.do("cuDevicePrimaryCtxRelease", 0)


@pytest.fixture
def make_stream(driver: Driver, context: Any) -> Iterator[Callable[..., Any]]:
    """Make streams that go with the test, and with them any capture that it left open."""
    made: list[Any] = []

    def make(flags: int = 1) -> Any:
        made.append(driver.do("cuStreamCreate", flags))
        return made[-1]

    yield make
    for stream in made:
        driver.code("cuStreamDestroy", stream)


@pytest.fixture
def stream(make_stream: Callable[..., Any]) -> Any:
    return make_stream()


@pytest.fixture
def memory(driver: Driver, context: Any) -> Iterator[int]:
    """4 KiB of device memory, as an address."""
    pointer = driver.do("cuMemAlloc", 4096)
    yield int(pointer)
    driver.code("cuMemFree", pointer)


@pytest.fixture
def kernels(driver: Driver, context: Any) -> Iterator[Callable[[str], Any]]:
    """Return the kernel of a name in KERNELS."""
    module = driver.do("cuModuleLoadData", compile_source())
    yield lambda name: driver.do("cuModuleGetFunction", module, name.encode())
    driver.code("cuModuleUnload", module)


@pytest.fixture
def counted(driver: Driver) -> Callable[[], tuple[int, int, int, int]]:
    """Return what was launched since the last call: launches, captured ones, graphs, kernels in graphs."""
    last = dryrun.counters()[:4]

    def since() -> tuple[int, int, int, int]:
        nonlocal last
        before, last = last, dryrun.counters()[:4]
        return tuple(b - a for a, b in zip(before, last, strict=True))  # type: ignore[return-value]

    return since


@pytest.fixture
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """An environment without any of the dry run's variables."""
    for name in [name for name in os.environ if name.startswith("KERNELSCOPE_DRYRUN")]:
        monkeypatch.delenv(name)
    return monkeypatch
