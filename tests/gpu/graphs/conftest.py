"""A device, streams, kernels and captures for the tests of graphs on a GPU."""

from __future__ import annotations

import numpy as np
import pytest


@pytest.fixture(scope="module")
def device():
    core = pytest.importorskip("cuda.core")
    device = core.Device(0)
    device.set_current()
    return device


@pytest.fixture
def stream(device):
    return device.create_stream()


@pytest.fixture(scope="module")
def kernels():
    cuda = pytest.importorskip("numba.cuda")

    @cuda.jit
    def add(out, n):
        i = cuda.grid(1)
        if i < out.size:
            out[i] += n

    @cuda.jit
    def double(out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] *= 2

    array = cuda.to_device(np.zeros(64, np.float32))
    add[2, 32](array, 1)
    double[2, 32](array)
    cuda.synchronize()
    return add, double


@pytest.fixture
def array():
    from numba import cuda

    return cuda.to_device(np.zeros(64, np.float32))


@pytest.fixture
def capture(device, kernels, array):
    add, double = kernels

    def make(grid=2, out=None, n=3, more=0):
        out = array if out is None else out
        builder = device.create_graph_builder().begin_building()
        add[grid, 32, builder.stream](out, n)
        for _ in range(1 + more):
            double[2, 64, builder.stream](out)
        return builder.end_building()

    return make
