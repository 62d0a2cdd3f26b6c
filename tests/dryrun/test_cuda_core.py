"""cuda.core on the null driver, as far as no other test of cuda.core shows it."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

#: Nothing that an earlier test has left is freed in the middle of a capture.
pytestmark = pytest.mark.usefixtures("no_garbage")


@pytest.fixture
def device(driver, context):
    from cuda.core import Device

    device = Device(0)
    device.set_current()
    return device


@pytest.fixture
def core_stream(device):
    stream = device.create_stream()
    yield stream
    stream.close()


@pytest.fixture
def kernel():
    """A numba kernel, compiled before the test counts anything."""
    from numba import cuda

    @cuda.jit
    def kernel(a, n):
        i = cuda.grid(1)
        if i < n:
            a[i] = i

    array = cuda.device_array(64, np.float32)
    kernel[1, 64](array, 64)
    return lambda on: kernel[1, 64, on](array, 64)


def kinds(builder) -> list[str]:
    return [type(node).__name__ for node in builder.graph_definition.nodes()]


@pytest.mark.parametrize("kind", ["cubin", "ptx"])
def test_a_program(device, core_stream, counted, kernel_source, kind: str) -> None:
    from cuda.core import LaunchConfig, Program, ProgramOptions, launch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NVRTC's PTX is newer than what a driver of 13.0 takes
        module = Program(kernel_source, "c++", ProgramOptions(arch=f"sm_{device.arch}")).compile(kind)
    kernel = module.get_kernel("axpy")
    buffer = device.allocate(256, stream=core_stream)
    launch(core_stream, LaunchConfig(grid=4, block=64), kernel, np.float32(2), buffer, buffer, np.int32(64))
    core_stream.sync()
    assert counted() == (1, 0, 0, 0)
    assert kernel.num_arguments == 4
    assert [(info.offset, info.size) for info in kernel.arguments_info] == [(0, 4), (8, 8), (16, 8), (24, 4)]
    assert kernel.attributes.num_regs > 0 and kernel.attributes.max_threads_per_block == 1024
    assert kernel.occupancy.max_active_blocks_per_multiprocessor(128, 0) == 16
    buffer.close(core_stream)
    with pytest.raises(Exception, match="CUDA_ERROR_NOT_FOUND"):
        module.get_kernel("absent")


def test_conditional_nodes_follow_their_default(device, core_stream, kernel, counted) -> None:
    builder = device.create_graph_builder().begin_building()

    def fill(*branches) -> None:
        for branch in branches:
            branch.begin_building()
            kernel(branch)
            branch.end_building()

    fill(builder.if_then(builder.create_condition(default_value=1)))
    fill(*builder.if_else(builder.create_condition(default_value=0)))
    fill(builder.while_loop(builder.create_condition(default_value=1)))
    fill(*builder.switch(builder.create_condition(default_value=2), 3))
    fill(*builder.switch(builder.create_condition(default_value=3), 3))
    graph = builder.end_building().complete()
    counted()
    graph.launch(core_stream)
    assert counted() == (0, 0, 1, 4)
    assert len(kinds(builder)) == 5
    assert all("onditional" in kind or kind.endswith("Node") for kind in kinds(builder))
