"""Graphs that are built: their structure, launches, arguments and lifetimes, on the dry run."""

from __future__ import annotations

import gc
import re
import weakref
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from together import run_together

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
    set_condition,
)

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "graphs.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```$", GUIDE.read_text(encoding="utf-8").partition("\n## Build graphs\n")[2],
                    re.MULTILINE | re.DOTALL)


def kinds(graph: Any) -> list[str]:
    return sorted(type(node).__name__ for node in graph.definition.nodes())


# ---- structure ----

def test_the_guide_s_chain(counted) -> None:
    names: dict[str, Any] = {}
    exec(BLOCKS[0], names)
    graph = names["graph"]
    assert kinds(graph) == ["KernelNode", "KernelNode"]
    ((before, after),) = graph.definition.edges()
    assert (before.kernel.handle, after.kernel.handle) == tuple(
        int(next(iter(names[name].overloads.values()))._codelibrary.get_cufunc().kernel.handle)
        for name in ("add", "multiply")) or before != after
    assert counted() == (0, 0, 1, 2)
    graph.close()


def test_the_guide_s_copies_and_host_function(capsys, counted) -> None:
    names: dict[str, Any] = {}
    exec(BLOCKS[1], names)
    assert capsys.readouterr().out == "on the host: 1.0\n"  # the kernel did not execute
    assert names["graph"].is_closed
    assert counted() == (0, 0, 1, 1)


@pytest.mark.parametrize("block", BLOCKS[2:5], ids=["update", "conditions", "what-if"])
def test_the_guide_s_other_snippets(block: str) -> None:
    names: dict[str, Any] = {}
    exec(block, names)
    assert names.get("changed", 1) == 1


# The first proposal of a graph API for numba, as its authors wrote it.
CHAIN = """
n1 = KernelNode(k1, [arr])
n2 = KernelNode(k2, [arr], [n1])
n3 = KernelNode(k2)
n3.args.append(arr)
n3.deps.append(n2)
g = n3.build()
g.launch()
"""


def test_the_proposal_s_chain(cuda, step, array, counted) -> None:
    def plain(a):
        a[0] *= 3

    names: dict[str, Any] = {"KernelNode": KernelNode, "k1": step, "k2": plain, "arr": array}
    exec(CHAIN, names)
    graph = names["g"]
    assert kinds(graph) == ["KernelNode"] * 3
    assert {(node.grid, node.block) for node in graph.definition.nodes()} == {((1, 1, 1), (1, 1, 1))}
    assert len({int(node.kernel.handle) for node in graph.definition.nodes()}) == 2, "one kernel of one function"
    assert counted() == (0, 0, 1, 3)
    assert graph.update() == 0
    graph.destroy()


def test_a_part_is_copied(cuda) -> None:
    back = np.full(4, 9.0)
    device = cuda.to_device(np.zeros(4))
    up = MemcpyHtoDNode(device, np.array([1.0, 2.0, 3.0]), 16)
    down = MemcpyDtoHNode(back, device, np.int64(24), up)
    with down.build() as graph:
        graph.launch()
        cuda.synchronize()
        assert (device.copy_to_host().tolist(), back.tolist()) == ([1.0, 2.0, 0.0, 0.0], [1.0, 2.0, 0.0, 9.0])
        down.nbytes, down.dst = None, np.full(4, 9.0)
        assert graph.update() == 1
        up.nbytes = 25
        with pytest.raises(GraphError, match="nbytes is 25, and must be from 1 to 24"):
            graph.update()


def test_a_diamond(cuda, step, array) -> None:
    top = MemsetNode(array, 0.0)
    left, right = KernelNode[2, 32](step, [array], top), KernelNode[3, (8, 4)](step, [array], top)
    with build(EmptyNode([left, right])) as graph:
        assert kinds(graph) == ["EmptyNode", "KernelNode", "KernelNode", "MemsetNode"]
        assert len(graph.definition.edges()) == 4
        grids = {node.grid: node.block for node in graph.definition.nodes() if type(node).__name__ == "KernelNode"}
        assert grids == {(2, 1, 1): (32, 1, 1), (3, 1, 1): (8, 4, 1)}
        assert len(graph) == 4


def test_several_ends_and_dynamic_shared_memory(step, array) -> None:
    with build([KernelNode[1, 1, 256](step, [array]), EmptyNode()]) as graph:
        assert kinds(graph) == ["EmptyNode", "KernelNode"]
        (kernel,) = [node for node in graph.definition.nodes() if type(node).__name__ == "KernelNode"]
        assert kernel.shmem_size == 256


def test_copies_in_a_row_run_in_order(cuda, array) -> None:
    back, source = np.zeros(4), np.array([5.0, 6.0, 7.0, 8.0])
    other = cuda.device_array_like(array)
    seen: list[list[float]] = []
    up = MemcpyNode.to_device(array, source)
    across = MemcpyNode.on_device(other, array, up)
    down = MemcpyNode.to_host(back, other, across)
    with HostNode(lambda a: seen.append(a.tolist()), [back], [down]).build() as graph:
        graph.launch()
        cuda.synchronize()
    assert seen == [[5.0, 6.0, 7.0, 8.0]]


def test_fills(cuda) -> None:
    for dtype, value in ((np.uint8, 7), (np.int16, -2), (np.float32, 1.5), (np.float64, 0.0), (np.int64, -1),
                         (np.complex128, 0), (np.bool_, True)):
        filled = cuda.to_device(np.ones((3, 5), dtype))
        with MemsetNode(filled, value).build() as graph:
            graph.launch()
            cuda.synchronize()
        assert (filled.copy_to_host() == value).all(), dtype


def test_a_loop_whose_kernel_sets_the_condition(cuda, array, counted) -> None:
    @cuda.jit
    def count(left, goes_on):
        left[0] -= 1
        if left[0] == 0:
            set_condition(goes_on, 0)

    goes_on = Condition(1)
    body = KernelNode[1, 1](count, [array, goes_on])
    with WhileNode(goes_on, body, MemsetNode(array)).build() as graph:
        assert kinds(graph) == ["MemsetNode", "WhileNode"]
        assert [node.label for node in graph.nodes] == ["MemsetNode", "WhileNode", "KernelNode of 'count'"]
        graph.launch()
        assert counted()[3] == 1  # a dry run goes round once
    (code,) = count.overloads.values()
    assert "cudaGraphSetConditional" in code.inspect_asm((9, 0))
    assert "func_retval" not in code.inspect_asm((9, 0)).partition("cudaGraphSetConditional")[0]


@pytest.mark.parametrize(("default", "expected"), [(1, ["then"]), (0, ["else"])])
def test_two_branches(cuda, default, expected) -> None:
    seen: list[str] = []
    node = IfNode(Condition(default), HostNode(seen.append, ["then"]), HostNode(seen.append, ["else"]))
    with node.build() as graph:
        graph.launch()
        cuda.synchronize()
    assert seen == expected


def test_nested_conditions(step, array, counted) -> None:
    inner = WhileNode(Condition(1), KernelNode[1, 1](step, [array]))
    with IfNode(Condition(1), EmptyNode(inner)).build() as graph:
        graph.launch()
        assert counted() == (0, 0, 1, 1)
        assert len(graph) == 4


# ---- launches ----

def test_streams(cuda, step, array, counted) -> None:
    from cuda.core import Device, Stream

    class Foreign:
        def __cuda_stream__(self) -> tuple[int, int]:
            return 0, int(stream.handle)

    stream = cuda.stream()
    with KernelNode[1, 1](step, [array]).build() as graph:
        for each in (None, 0, stream, int(stream.handle), Foreign(), Stream.from_handle(0), Device().create_stream()):
            graph.launch(each)
        assert counted() == (0, 0, 7, 7)
        with pytest.raises(GraphError, match="'here' is no stream"):
            graph.launch("here")


def test_launches_into_a_capture(step, array, counted) -> None:
    from cuda.core import Device

    builder = Device().create_graph_builder()
    with KernelNode[1, 1](step, [array]).build() as graph:
        builder.begin_building()
        graph.launch(builder)
        builder.end_building()
    assert len(builder.graph_definition.nodes()) == 1
    builder.close()


def test_another_thread_launches(step, array, counted) -> None:
    with KernelNode[1, 1](step, [array]).build() as graph:
        run_together(graph.launch)
    assert counted() == (0, 0, 1, 1)


@pytest.mark.parametrize("end", ["close", "destroy"])
def test_a_closed_graph(end: str, step, array) -> None:
    graph = KernelNode[1, 1](step, [array]).build()
    assert not graph.is_closed
    getattr(graph, end)()
    graph.close()
    assert graph.is_closed and "closed" in repr(graph)
    for call in (graph.launch, graph.update):
        with pytest.raises(GraphError, match="closed: build it again"):
            call()


# ---- arguments ----

def test_kinds_of_arguments(cuda) -> None:
    @cuda.jit
    def every(a, b, flag, pair, number, small):
        a[0] = b[0, 0] + flag + pair[0] + pair[1][0] + number.real + small

    class Foreign:
        def __init__(self, array: Any) -> None:
            self.__cuda_array_interface__ = array.__cuda_array_interface__

    array = cuda.to_device(np.zeros(3))
    strided = cuda.to_device(np.zeros((4, 6)))[::2, ::3]
    args = [Foreign(array), strided, True, (np.float32(1.5), array), 2 + 3j, np.int8(4)]
    with KernelNode[1, 1](every, args).build() as graph:
        assert graph.update() == 0
        args_node = graph.nodes[0]
        args_node.args[5] = np.int8(5)
        assert graph.update() == 1
        graph.launch()


def test_hints_are_taken_as_what_they_hold(cuda, step, array) -> None:
    with KernelNode[1, 1](step, [cuda.InOut(array)]).build() as graph:
        graph.launch()
    with pytest.raises(GraphError, match="host array"):
        KernelNode[1, 1](step, [cuda.Out(np.zeros(3))]).build()


def test_an_uncompiled_kernel_is_compiled_once(cuda, array) -> None:
    @cuda.jit
    def fresh(a):
        a[0] = 1

    KernelNode[1, 1](fresh, [array]).build().close()
    KernelNode[2, 2](fresh, [array]).build().close()
    assert len(fresh.overloads) == 1


def test_a_compile_error_is_numba_s_own(cuda, array) -> None:
    from numba.cuda.core.errors import TypingError

    @cuda.jit
    def wrong(a):
        a[0] = a.nothing

    with pytest.raises(TypingError, match="nothing"):
        KernelNode[1, 1](wrong, [array]).build()


def test_a_specialization_for_the_launch_configuration(cuda, array) -> None:
    """A kernel that is sensitive to it gets the one of the node's."""
    from numba.cuda import launchconfig
    from numba.cuda.extending import overload

    def blocks() -> int:
        return 0

    @overload(blocks, target="cuda")
    def typed():
        config = launchconfig.ensure_current_launch_config()
        config.dispatcher.mark_launch_config_sensitive()
        size = config.blockdim[0]
        return lambda: size

    @cuda.jit
    def sensitive(a):
        a[0] = blocks()

    one, two = KernelNode[1, 32](sensitive, [array]), KernelNode[1, 64](sensitive, [array])
    with build([one, two]) as graph:
        kernels = {int(node.kernel.handle) for node in graph.definition.nodes()}
        assert len(kernels) == 2


# ---- lifetimes ----

def test_the_graph_keeps_what_it_uses(cuda, step) -> None:
    class Held:
        pass

    held, array, host = Held(), cuda.to_device(np.zeros(2)), np.zeros(2)
    alive = [weakref.ref(each) for each in (held, array, host)]
    node = HostNode(print, [held], [MemcpyNode(array, host, KernelNode[1, 1](step, [array]))])
    graph = node.build()
    node.args.clear()
    copy = node.deps[0]
    copy.dst, copy.src, copy.deps[0].args[0] = None, None, None  # type: ignore[attr-defined]
    del node, copy, held, array, host
    gc.collect()
    assert all(each() is not None for each in alive)
    graph.close()
    del graph
    gc.collect()
    assert [each() for each in alive] == [None, None, None]


def test_what_launches_that_are_under_way_use_is_kept(cuda, step, monkeypatch) -> None:
    """As if CUDA had not freed the graph yet: it does when the last launch has ended."""
    from kernelscope.graphs import lifetimes

    libc = lifetimes._libc()
    monkeypatch.setattr(lifetimes, "_libc", lambda: SimpleNamespace(
        calloc=libc.calloc, sem_init=libc.sem_init, sem_post=libc.sem_post, free=libc.free, sem_trywait=lambda _: -1))
    alive: list[Any] = []
    for way in ("dropped", "closed", "in a with block"):
        host = np.zeros(2)
        graph = MemcpyHtoDNode(cuda.to_device(np.zeros(2)), host, host.nbytes).build()
        graph.launch()
        alive.append(weakref.ref(host))
        if way == "closed":
            graph.close()
        elif way != "dropped":
            with graph:
                pass
        del host, graph
    gc.collect()
    assert all(each() is not None for each in alive)
    monkeypatch.undo()
    EmptyNode().build().close()
    gc.collect()
    assert [each() for each in alive] == [None, None, None]
