"""What cannot be a node of a graph is refused, and the error says why."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kernelscope.errors import GraphError
from kernelscope.graphs import (
    Condition,
    EmptyNode,
    HostNode,
    IfNode,
    KernelNode,
    MemcpyDtoHNode,
    MemcpyHtoDNode,
    MemcpyNode,
    MemsetNode,
    WhileNode,
    build,
)


def refusals(cuda: Any, step: Any, array: Any) -> dict[str, Callable[[], Any]]:
    shared = EmptyNode()
    condition = Condition(1)
    return {
        "argument 1 is a host array .ndarray of float64.*use cuda.to_device": lambda: KernelNode[1, 1](
            step, [np.zeros(3)]),
        r"takes 1 argument \(a\), and got 2": lambda: KernelNode[1, 1](step, [array, 1]),
        r"takes 1 argument \(a\), and got 0": lambda: KernelNode[1, 1](step),
        "is no kernel of numba-cuda; the launch configuration belongs in": lambda: KernelNode[1, 1](
            step[1, 1], [array]),
        "<built-in function print> is no kernel of numba-cuda, and no Python function": lambda: KernelNode[1, 1](
            print, [array]),
        "CUDA refuses it: .*": lambda: KernelNode[1, 4096](step, [array]),
        r"KernelNode of 'step': .*grid values must be >= 1": lambda: KernelNode[0, 1](step, [array]),
        r"no launch configuration is \[.1, 2., 1, 0\]: unhashable": lambda: KernelNode[[1, 2], 1](step, [array]),
        r"no launch configuration is \['x', 1, 0\]": lambda: KernelNode["x", 1](step, [array]),
        "dst has 32 bytes, and src 24": lambda: MemcpyNode(array, np.zeros(3)),
        "both arrays are on the host": lambda: MemcpyNode(np.zeros(3), np.zeros(3)),
        "it was to copy to host, and its arrays make a copy to device": lambda: MemcpyNode.to_host(array, np.zeros(4)),
        "MemcpyHtoDNode: it was to copy to device, and its arrays make a copy to host .dst is a host array of float64 "
        r"with shape \(4,\), src is a device array .*; dst comes first, then src, or use MemcpyDtoHNode": lambda: (
            MemcpyHtoDNode(np.zeros(4), array, 32)),
        "MemcpyDtoHNode: .* make a copy to device .*, or use MemcpyHtoDNode": lambda: MemcpyDtoHNode(
            array, np.zeros(4)),
        "MemcpyDtoHNode: .* make a copy on device .*; dst comes first, then src$": lambda: MemcpyDtoHNode(
            array, array),
        "MemcpyHtoDNode: both arrays are on the host": lambda: MemcpyHtoDNode(np.zeros(3), np.zeros(3), 8),
        "nbytes is 40, and must be from 1 to 24: dst has 32 bytes, and src 24": lambda: MemcpyHtoDNode(
            array, np.zeros(3), 40),
        "nbytes is 0, and must be from 1 to 32": lambda: MemcpyHtoDNode(array, np.zeros(4), 0),
        "nbytes is -8, and must be": lambda: MemcpyDtoHNode(np.zeros(4), array, -8),
        "nbytes is 8.0, and must be a number of bytes": lambda: MemcpyDtoHNode(
            np.zeros(4), array, 8.0),  # type: ignore[arg-type]
        r"nbytes is \[<EmptyNode>\], and must be a number of bytes; deps come after it": lambda: MemcpyHtoDNode(
            array, np.zeros(4), [EmptyNode()]),  # type: ignore[arg-type]
        "dst has 32 bytes, and src 16; give nbytes to": lambda: MemcpyHtoDNode(array, np.zeros(2)),
        "MemcpyDtoHNode: dst is a read-only host array": lambda: MemcpyDtoHNode(read_only(), array, 32),
        "argument 1 is a host array .*, or a MemcpyHtoDNode before it": lambda: KernelNode(step, [np.zeros(3)]),
        "src is not contiguous": lambda: MemcpyNode(cuda.device_array(2), array[::2]),
        "src is 5, which is no array": lambda: MemcpyNode(array, 5),
        "dst is a read-only host array": lambda: MemcpyNode(read_only(), array),
        "its arrays are empty": lambda: MemcpyNode(cuda.device_array(0), np.zeros(0)),
        "1.5 of float64 is 8 bytes that do not repeat; use a kernel": lambda: MemsetNode(array, 1.5),
        "'x' is no value of float64": lambda: MemsetNode(array, "x"),
        "300 is no value of uint8": lambda: MemsetNode(cuda.device_array(2, np.uint8), 300),
        "dst is a host array": lambda: MemsetNode(np.zeros(2)),
        "7 cannot be called": lambda: HostNode(7),  # type: ignore[arg-type]
        "its body has no node": lambda: WhileNode(Condition(1), []),
        "can be in one place only": lambda: WhileNode(Condition(1), EmptyNode(shared), shared),
        "decides about another node already": lambda: IfNode(
            condition, EmptyNode(), (), IfNode(condition, EmptyNode())),
        "decides about no node around it": lambda: KernelNode[1, 1](step, [Condition()]),
    }


def read_only() -> np.ndarray:
    array = np.zeros(4)
    array.flags.writeable = False
    return array


@pytest.mark.parametrize("message", refusals(None, None, None))
def test_what_is_refused(message, cuda, step, array) -> None:
    node = refusals(cuda, step, array)[message]()
    with pytest.raises(GraphError, match=message):
        node.build()


def test_kernels_that_are_refused(cuda, array) -> None:
    @cuda.jit(debug=True, opt=False)
    def debugged(a):
        a[0] = 1

    @cuda.jit
    def cooperative(a):
        cuda.cg.this_grid().sync()

    @cuda.jit(device=True)
    def device(a):
        return a

    for kernel, message in ((debugged, "compiled with debug=True"), (cooperative, "launched cooperatively"),
                            (device, "it is a device function")):
        with pytest.raises(GraphError, match=f"KernelNode of '{kernel.py_func.__name__}': .*{message}"):
            KernelNode[1, 1](kernel, [array]).build()


def test_no_node(step) -> None:
    with pytest.raises(GraphError, match="a graph needs a node"):
        build([])
    with pytest.raises(GraphError, match="3 is no node"):
        build([3])  # type: ignore[list-item]


def test_a_condition_of_an_inner_node_is_not_set_from_outside(step, array) -> None:
    inner = Condition(1)
    outer = IfNode(Condition(1), WhileNode(inner, EmptyNode()))
    with pytest.raises(GraphError, match="decides about no node around it"):
        build([outer, KernelNode[1, 1](step, [inner])])


@pytest.mark.slow
def test_other_devices_and_contexts(run_python) -> None:
    run_python("""
import kernelscope, numpy as np
from numba import cuda
from cuda.bindings import driver
from kernelscope.graphs import KernelNode, MemsetNode

@cuda.jit
def step(a):
    a[0] += 1

def refused(node, text):
    try:
        node.build()
    except kernelscope.GraphError as error:
        assert text in str(error), error
    else:
        raise AssertionError("not refused")

with cuda.gpus[1]:
    there = cuda.device_array(4)
here = cuda.device_array(4)
refused(KernelNode[1, 1](step, [there]), "argument 1 is memory of device 1, and the graph is built on device 0")
refused(MemsetNode(there), "dst is memory of device 1")
KernelNode[1, 1](step, [cuda.managed_array(4)]).build().close()

made = driver.cuCtxCreate(None, 0, 0) if driver.CUDA_VERSION >= 13000 else driver.cuCtxCreate(0, 0)
assert not made[0], made
class Foreign:
    pass
foreign = Foreign()
pointer = driver.cuMemAlloc(32)[1]
driver.cuCtxPopCurrent()
foreign.__cuda_array_interface__ = {"shape": (4,), "typestr": "<f8", "data": (int(pointer), False), "version": 3}
refused(KernelNode[1, 1](step, [foreign]), "memory of another CUDA context of device 0")

node = KernelNode[1, 1](step, [here])
graph = node.build()
with cuda.gpus[1]:
    try:
        graph.update()
    except kernelscope.GraphError as error:
        assert "another CUDA context" in str(error), error
    else:
        raise AssertionError("not refused")
""", KERNELSCOPE_DRYRUN_DEVICES="2", NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS="0")
