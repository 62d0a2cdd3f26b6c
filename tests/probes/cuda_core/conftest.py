"""Graphs of numba's kernels on the dry run, and what the probe sees of them."""

from __future__ import annotations

import contextlib
import functools
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from cuda.core import Device, Program, ProgramOptions
from numba import cuda

from kernelscope.probes.cuda_core import CudaCoreProbe, calls
from kernelscope.probes.cuda_core.graphs import Memory
from kernelscope.probes.sink import Sink


class Seen:
    """What the probe wrote: `GraphRows`, with short ways to look at them."""

    def __init__(self) -> None:
        self.sink = Sink()
        self.rows = self.sink.graphs
        self.probe: Any = None

    def kinds(self) -> list[str]:
        return [row["kind"] for row in self.rows.events]

    def events(self, kind: str) -> list[dict[str, Any]]:
        return [row for row in self.rows.events if row["kind"] == kind]

    def nodes(self, graph: int) -> list[dict[str, Any]]:
        return [row for row in self.rows.nodes if row["graph_id"] == graph]

    def edges(self, graph: int) -> list[tuple[int, int]]:
        """Pairs of positions among the graph's nodes."""
        first = self.rows.nodes.index(self.nodes(graph)[0])
        return sorted((row["from_node_id"] - first, row["to_node_id"] - first)
                      for row in self.rows.edges if row["graph_id"] == graph)

    def shapes(self, graph: int) -> list[tuple[int, int, int] | None]:
        """Grid, block and shared memory along x of each node."""
        found = []
        for node in self.nodes(graph):
            row = None if node["configuration_id"] is None \
                else self.sink.configurations.rows[node["configuration_id"]]
            found.append(row and (row["griddim_x"], row["blockdim_x"], row["sharedmem_bytes"]))
        return found


@pytest.fixture(autouse=True)
def nobody_listens():
    """After every test the driver tells nobody, and cuda.core's class is as it was."""
    original = vars(Device)["create_graph_builder"]
    yield
    assert not calls._telling
    assert vars(Device)["create_graph_builder"] is original


@pytest.fixture
def watch():
    """Records graphs with the probe alone: a context manager of a `Seen`."""

    @contextlib.contextmanager
    def run(memory: Memory | None = None, **options: Any):
        seen = Seen()
        seen.probe = CudaCoreProbe(memory=Memory() if memory is None else memory, **options)
        seen.probe.install(seen.sink, "phases")
        try:
            yield seen
        finally:
            seen.probe.uninstall()
            seen.probe.describe(seen.sink, ())
        assert not seen.sink.errors, seen.sink.first_errors

    return run


@functools.cache
def compiled() -> SimpleNamespace:
    @cuda.jit
    def axpy(out, n):
        out[0] = n

    @cuda.jit
    def fill(out):
        out[0] = 1

    array = cuda.device_array(64, np.float32)
    axpy[1, 32](array, 3)
    fill[1, 32](array)
    return SimpleNamespace(axpy=axpy, fill=fill)


@pytest.fixture
def k() -> SimpleNamespace:
    """Two kernels that are compiled."""
    return compiled()


@pytest.fixture
def device():
    device = Device(0)
    device.set_current()
    return device


@pytest.fixture
def stream(device):
    stream = device.create_stream()
    yield stream
    stream.close()


@pytest.fixture
def arrays():
    return [cuda.device_array(64, np.float32) for _ in range(2)]


@pytest.fixture
def capture(device, k, arrays):
    """Captures a chain of two kernels: a builder that has ended."""

    def make(grid: int = 1, array: Any = None, more: int = 0, n: int = 3):
        array = arrays[0] if array is None else array
        builder = device.create_graph_builder().begin_building()
        k.axpy[grid, 32, builder.stream](array, n)
        for _ in range(1 + more):
            k.fill[2, 64, builder.stream](array)
        return builder.end_building()

    return make


SOURCE = """
extern "C" __global__ void scale(float *x, float by, int n) { if (threadIdx.x < n) x[threadIdx.x] *= by; }
template <typename T> __global__ void fill(T *x, T value) { x[threadIdx.x] = value; }
"""


@pytest.fixture(scope="session")
def program() -> Any:
    device = Device(0)
    device.set_current()
    program = Program(SOURCE, "c++", ProgramOptions(arch=f"sm_{device.arch}"))
    return program.compile("cubin", name_expressions=("fill<float>",))


@pytest.fixture
def scale(device: Any, program: Any) -> Any:
    return program.get_kernel("scale")


@pytest.fixture
def fill(device: Any, program: Any) -> Any:
    return program.get_kernel("fill<float>")


@pytest.fixture(autouse=True)
def captures_are_left_alone(no_garbage: None) -> None:
    """Nothing that an earlier test has left is freed in the middle of a capture."""
