"""Graphs of numba kernels and what-if on a real GPU, with results and times. KERNELSCOPE_TEST_GPU=1."""

from __future__ import annotations

import ctypes
import gc
import re
import time
import weakref
from pathlib import Path

import numpy as np
import pytest

from kernelscope.errors import GraphError
from kernelscope.graphs import (
    Condition,
    EmptyNode,
    IfNode,
    KernelNode,
    MemcpyHtoDNode,
    MemcpyNode,
    MemsetNode,
    WhileNode,
    build,
)

pytestmark = pytest.mark.gpu
cuda = pytest.importorskip("numba.cuda")
GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "graphs.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```$", GUIDE.read_text(encoding="utf-8").partition("\n## Build graphs\n")[2],
                    re.MULTILINE | re.DOTALL)
@pytest.fixture(scope="module")
def empty():
    @cuda.jit
    def empty(a):
        pass

    return empty


@pytest.fixture(scope="module")
def axpy():
    @cuda.jit
    def axpy(out, a, x):
        i = cuda.grid(1)
        if i < out.size:
            out[i] += a * x[i]

    return axpy


@pytest.fixture(scope="module")
def spin():
    @cuda.jit
    def spin(out, rounds):
        x = 1.0
        for _ in range(rounds):
            x = x * 0.999 + 0.001
        out[0] = x

    spin[1, 1](cuda.device_array(1), 1000)
    return spin


@pytest.fixture(scope="module")
def countdown():
    from kernelscope.graphs import set_condition

    @cuda.jit
    def countdown(left, rounds, goes_on):
        left[0] -= 1
        rounds[0] += 1
        if left[0] == 0:
            set_condition(goes_on, 0)

    return countdown


@pytest.fixture(scope="module")
def decide():
    from kernelscope.graphs import set_condition

    @cuda.jit
    def decide(number, condition):
        set_condition(condition, number[0] > 10)

    return decide


# ---- the guide ----

def test_the_guide_s_chain(capfd):
    names = {}
    exec(BLOCKS[0], names)
    ctypes.CDLL(None).fflush(None)  # the kernels' output is C's
    out = capfd.readouterr().out
    assert re.findall(r"(?:add|multiply): [\d.]+", out) == ["add: 3.000000", "multiply: 9.000000"]
    assert names["array"].copy_to_host().tolist() == [9.0]
    names["graph"].launch()
    assert names["array"].copy_to_host().tolist() == [33.0]
    names["graph"].close()


def test_the_guide_s_copies_and_host_function(capsys):
    names = {}
    exec(BLOCKS[1], names)
    assert capsys.readouterr().out == "on the host: 9.0\n"
    assert names["on_host"].tolist() == [9.0]


def test_the_guide_s_update():
    names = {}
    exec(BLOCKS[2], names)
    assert names["changed"] == 1
    assert (names["array"].copy_to_host() == 6.0).all()


def test_the_guide_s_loop():
    names = {}
    exec(BLOCKS[3], names)
    assert names["value"].copy_to_host().tolist() == [100.0 / 128]
    assert names["rounds"].copy_to_host().tolist() == [7]


def test_host_memory_lives_as_long_as_a_launch(spin):
    """A graph that is dropped behind a long kernel: what it copies from afterwards must still be there."""
    size, alive = 4_000_000, []
    device, out = cuda.to_device(np.zeros(size)), cuda.device_array(1)

    def dropped():
        host = np.full(size, 7.0)
        alive.append(weakref.ref(host))
        waits = KernelNode(spin, [out, 100_000_000])
        MemcpyHtoDNode(device, host, host.nbytes, waits).build().launch()

    dropped()
    gc.collect()
    assert alive[0]() is not None, "the kernel runs for some tenths of a second"
    garbage = [np.full(size, 1e9) for _ in range(4)]
    assert (device.copy_to_host() == 7.0).all()
    deadline = time.monotonic() + 30
    while alive[0]() is not None and time.monotonic() < deadline:  # CUDA frees it in a thread of its own
        EmptyNode().build().close()
        time.sleep(0.01)
    assert alive[0]() is None
    del garbage


# ---- nodes ----

@pytest.mark.parametrize("pinned", [False, True])
def test_copies_both_ways_of_pageable_and_pinned_memory(pinned):
    size = 300_000
    make = cuda.pinned_array if pinned else np.empty
    source, back = make(size, np.float32), make(size, np.float32)
    source[:] = np.arange(size)
    back[:] = 0
    one, two = cuda.device_array(size, np.float32), cuda.device_array(size, np.float32)
    up = MemcpyNode.to_device(one, source)
    across = MemcpyNode.on_device(two, one, up)
    stream = cuda.stream()
    with MemcpyNode.to_host(back, two, across).build() as graph:
        for factor in (1, 2):
            source[:] = factor * np.arange(size)
            graph.launch(stream)
            stream.synchronize()
            np.testing.assert_array_equal(back, factor * np.arange(size, dtype=np.float32))
        other = np.full(size, 7, np.float32)
        up.src = other
        assert graph.update() == 1
        graph.launch(stream)
        stream.synchronize()
        assert (back == 7).all()


def test_fills_of_every_width():
    for dtype, value in ((np.uint8, 7), (np.int16, -2), (np.float32, 1.5), (np.float64, 0.0), (np.int64, -1)):
        filled = cuda.to_device(np.full((3, 500), 9, dtype))
        node = MemsetNode(filled, value)
        with node.build() as graph:
            graph.launch()
            assert (filled.copy_to_host() == value).all(), dtype
            node.value = 0
            assert graph.update() == (value != 0)
            graph.launch()
            assert (filled.copy_to_host() == 0).all(), dtype


def test_a_diamond_is_ordered(axpy):
    n = 100_000
    ones = cuda.to_device(np.ones(n, np.float32))
    left, right = (cuda.to_device(np.full(n, 50, np.float32)) for _ in range(2))
    total = cuda.to_device(np.zeros(n, np.float32))
    config = (-(-n // 256), 256)
    first = [MemsetNode(each, 0) for each in (left, right)]
    branches = [KernelNode[config](axpy, [each, factor, ones], node)
                for each, factor, node in ((left, 2.0, first[0]), (right, 3.0, first[1]))]
    sums = KernelNode[config](axpy, [total, 1.0, left], branches)
    last = KernelNode[config](axpy, [total, 1.0, right], sums)
    with last.build() as graph:
        for launched in range(1, 4):
            graph.launch()
            assert (total.copy_to_host() == 5 * launched).all()


def test_dynamic_shared_memory():
    @cuda.jit
    def reverse(a):
        shared = cuda.shared.array(0, np.float64)
        i = cuda.threadIdx.x
        shared[i] = a[i]
        cuda.syncthreads()
        a[i] = shared[a.size - 1 - i]

    array = cuda.to_device(np.arange(64.0))
    with KernelNode[1, 64, 64 * 8](reverse, [array]).build() as graph:
        graph.launch()
        np.testing.assert_array_equal(array.copy_to_host(), np.arange(64.0)[::-1])


def test_updates_of_arguments_grids_and_kernels(axpy, empty):
    n = 1000
    x, out, other = (cuda.to_device(np.full(n, value, np.float32)) for value in (1, 0, 0))
    node = KernelNode[4, 256](axpy, [out, 2.0, x])
    with node.build() as graph:
        graph.launch()
        node.args[:] = [other, 5.0, x]
        node.grid = 2
        assert graph.update() == 1
        graph.launch()
        assert (out.copy_to_host() == 2).all()
        assert (other.copy_to_host() == np.where(np.arange(n) < 512, 5, 0)).all()
        node.kernel, node.args[:] = empty, [other]
        assert graph.update() == 1
        graph.launch()
        cuda.synchronize()
        node.block = 4096
        with pytest.raises(GraphError, match="the graph is as it was"):
            graph.update()
        graph.launch()
        cuda.synchronize()


def test_arrays_of_torch(axpy):
    torch = pytest.importorskip("torch")
    x, out = torch.ones(1000, device="cuda"), torch.zeros(1000, device="cuda")
    torch.cuda.synchronize()
    with KernelNode[4, 256](axpy, [out, 2.0, x]).build() as graph:
        graph.launch(torch.cuda.current_stream().cuda_stream)
        torch.cuda.synchronize()
    assert (out == 2).all()


# ---- conditions ----

def test_a_loop_that_does_not_begin(countdown):
    left, rounds = cuda.to_device(np.array([10])), cuda.to_device(np.zeros(1, np.int64))
    goes_on = Condition(0)
    with WhileNode(goes_on, KernelNode[1, 1](countdown, [left, rounds, goes_on])).build() as graph:
        graph.launch()
        assert rounds.copy_to_host().tolist() == [0]


def test_a_kernel_before_the_branch_decides(decide):
    number, out = cuda.to_device(np.array([5])), cuda.to_device(np.zeros(1, np.float32))
    chosen = Condition()
    kernel = KernelNode[1, 1](decide, [number, chosen])
    branch = IfNode(chosen, MemsetNode(out, 1.0), MemsetNode(out, 2.0), kernel)
    try:
        graph = branch.build()
    except Exception as error:  # a driver before CUDA 12.8
        pytest.skip(f"no second branch: {error}")
    with graph:
        for value, expected in ((5, 2.0), (50, 1.0), (3, 2.0)):
            number.copy_to_device(np.array([value]))
            graph.launch()
            assert out.copy_to_host().tolist() == [expected]


def test_a_loop_in_a_branch_and_an_update_of_its_body(countdown, axpy):
    left, rounds = cuda.to_device(np.array([4])), cuda.to_device(np.zeros(1, np.int64))
    out, x = (cuda.to_device(np.array([value], np.float32)) for value in (0, 1))
    goes_on = Condition(1)
    work = KernelNode[1, 1](axpy, [out, 2.0, x])
    loop = WhileNode(goes_on, KernelNode[1, 1](countdown, [left, rounds, goes_on], work))
    reset = MemcpyNode(left, np.array([4]))
    with IfNode(Condition(1), EmptyNode(loop), deps=reset).build() as graph:
        graph.launch()
        assert (out.copy_to_host().tolist(), rounds.copy_to_host().tolist()) == ([8.0], [4])
        work.args[1] = 10.0
        try:
            assert graph.update() == 1
        except GraphError as error:
            assert "the graph is as it was" in str(error)
            graph.launch()
            assert out.copy_to_host().tolist() == [16.0]
            pytest.skip(f"this driver does not update a body: {error}")
        graph.launch()
        assert out.copy_to_host().tolist() == [48.0]


# ---- refusals ----

def test_another_context_s_array(empty):
    from cuda.bindings import driver

    cuda.current_context()
    made = driver.cuCtxCreate(None, 0, 0) if driver.CUDA_VERSION >= 13000 else driver.cuCtxCreate(0, 0)
    assert not made[0], made
    pointer = driver.cuMemAlloc(32)[1]
    driver.cuCtxPopCurrent()

    class Foreign:
        def __init__(self):
            self.__cuda_array_interface__ = {"shape": (4,), "typestr": "<f8", "data": (int(pointer), False),
                                             "version": 3}

    try:
        with pytest.raises(GraphError, match="memory of another CUDA context"):
            KernelNode[1, 1](empty, [Foreign()]).build()
    finally:
        driver.cuCtxDestroy(made[1])
    with build(KernelNode[1, 1](empty, [cuda.managed_array(4)])) as graph:
        graph.launch()
        cuda.synchronize()
