"""cuda.core on the dry run: a device, a stream and kernels that were compiled from C++."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from cuda.core import Device, Program, ProgramOptions

SOURCE = """
extern "C" __global__ void scale(float *x, float by, int n) { if (threadIdx.x < n) x[threadIdx.x] *= by; }
template <typename T> __global__ void fill(T *x, T value) { x[threadIdx.x] = value; }
"""


@pytest.fixture
def core_device() -> Any:
    device = Device(0)
    device.set_current()
    return device


@pytest.fixture
def core_stream(core_device: Any) -> Iterator[Any]:
    stream = core_device.create_stream()
    yield stream
    stream.close()


@pytest.fixture(scope="session")
def program() -> Any:
    device = Device(0)
    device.set_current()
    program = Program(SOURCE, "c++", ProgramOptions(arch=f"sm_{device.arch}"))
    return program.compile("cubin", name_expressions=("fill<float>",))


@pytest.fixture
def scale(core_device: Any, program: Any) -> Any:
    return program.get_kernel("scale")


@pytest.fixture
def fill(core_device: Any, program: Any) -> Any:
    return program.get_kernel("fill<float>")
