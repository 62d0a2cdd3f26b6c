"""Graphs that are built: their structure, launches, updates, lifetimes and refusals, on the dry run."""

from __future__ import annotations

import gc
import re
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kernelscope
from kernelscope.errors import GraphError
from kernelscope.graphs import (
    Condition,
    EmptyNode,
    HostNode,
    IfNode,
    KernelNode,
    MemcpyNode,
    MemsetNode,
    WhileNode,
    build,
    set_condition,
)

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "graphs-from-kernels.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```$", GUIDE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


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
    problems: list[BaseException] = []

    def launch() -> None:
        try:
            graph.launch()
        except BaseException as error:
            problems.append(error)

    with KernelNode[1, 1](step, [array]).build() as graph:
        thread = threading.Thread(target=launch)
        thread.start()
        thread.join()
    assert (problems, counted()) == ([], (0, 0, 1, 1))


def test_a_closed_graph(step, array) -> None:
    graph = KernelNode[1, 1](step, [array]).build()
    assert not graph.is_closed
    graph.close()
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


# ---- updates ----

def test_updates(cuda, step, scale, array, counted) -> None:
    other, source, back = cuda.to_device(np.zeros(4)), np.ones(4), np.zeros(4)
    seen: list[int] = []
    fill = MemsetNode(array, 0)
    up = MemcpyNode(array, source, fill)
    work = KernelNode[1, 32](scale, [array, 2.0, (1,)], up)
    down = MemcpyNode(back, array, work)
    host = HostNode(seen.append, [1], down)
    with host.build() as graph:
        assert graph.update() == 0
        work.grid, work.args[1] = 5, 3.0
        assert graph.update() == 1
        core = next(node for node in graph.definition.nodes() if type(node).__name__ == "KernelNode")
        assert core.grid == (5, 1, 1)
        work.kernel, work.args[:] = step, [array]
        up.src, up.dst, down.src, fill.dst, host.args[0] = np.full(4, 7.0), other, other, other, 2
        assert graph.update(fill) == 1
        assert graph.update() == 4
        graph.launch()
        cuda.synchronize()
    assert (seen, back.tolist()) == ([2], [7.0] * 4)


def test_a_recording_says_which_node_was_updated(cuda, step, array) -> None:
    @cuda.jit
    def grow(a, factor):
        a[0] *= factor

    # Copies are made before the kernels that they wait for: the driver has them in another order than they run in.
    with kernelscope.record("update") as recorder:
        work = KernelNode[1, 32](grow, [array, 2.0], MemcpyNode(array, np.ones(4)))
        with MemcpyNode(np.zeros(4), array, [work, KernelNode[2, 32](step, [array])]).build() as graph:
            work.args[1] = 3.0
            graph.update()
            graph.launch()
            cuda.synchronize()
    (update,) = (row for row in recorder.recording.rows("graph_events") if row["kind"] == "update")
    assert (update["change"], update["changes"]) == ("arguments", "argument factor of grow")
    assert len(recorder.recording.graphs) == 1


def test_an_update_inside_a_body(cuda, array) -> None:
    seen: list[str] = []
    inside = HostNode(seen.append, ["old"])
    with WhileNode(Condition(1), inside).build() as graph:
        inside.args[0] = "new"
        assert graph.update() == 1
        graph.launch()
        cuda.synchronize()
    assert seen == ["new"]


def test_refused_updates(cuda, step, array) -> None:
    up = MemcpyNode(array, np.zeros(4))
    work = KernelNode[1, 1](step, [array], up)
    loop = WhileNode(Condition(1), EmptyNode(), work)
    with loop.build() as graph:
        work.deps.clear()
        with pytest.raises(GraphError, match="KernelNode of 'step': its dependencies were changed"):
            graph.update()
        work.deps.append(up)
        up.src = array
        with pytest.raises(GraphError, match="it copied another way before"):
            graph.update()
        up.src = np.zeros(4)
        kept, loop.body = loop.body, [EmptyNode()]
        with pytest.raises(GraphError, match="its condition or its body was changed"):
            graph.update()
        loop.body, loop.condition = kept, Condition(1)
        with pytest.raises(GraphError, match="its condition or its body was changed"):
            graph.update(loop)
        with pytest.raises(GraphError, match="EmptyNode is no node of this graph"):
            graph.update(EmptyNode())


def test_an_update_that_cuda_refuses_changes_nothing(cuda, step, array) -> None:
    first, second = (KernelNode[1, 32](step, [array]) for _ in range(2))
    with build([first, second]) as graph:
        first.grid, second.block = 9, 2000
        with pytest.raises(GraphError, match="refused at KernelNode of 'step', and the graph is as it was"):
            graph.update()
        assert {(node.grid[0], node.block[0]) for node in graph.definition.nodes()} == {(1, 32)}
        second.block = 64
        assert graph.update() == 2
        assert {(node.grid[0], node.block[0]) for node in graph.definition.nodes()} == {(9, 32), (1, 64)}
        graph.launch()


def test_a_version_of_cuda_core_that_cannot_change_nodes(step, array, monkeypatch) -> None:
    from kernelscope.graphs import built

    def without(*_: Any) -> None:
        raise AttributeError("'KernelNode' object has no attribute 'update'")

    node = KernelNode[1, 1](step, [array])
    with node.build() as graph:
        node.grid = 2
        changes = iter([without, lambda *_: None])
        monkeypatch.setattr(built, "change", lambda *args: next(changes)(*args))
        with pytest.raises(GraphError, match="this version of cuda-core cannot do it"):
            graph.update()


def test_a_version_of_cuda_core_without_definitions(step, array, monkeypatch) -> None:
    import cuda.core.graph

    monkeypatch.delattr(cuda.core.graph, "GraphDefinition")
    with pytest.raises(GraphError, match="cuda-core .* has no graph definitions; 1.1 and newer have"):
        EmptyNode().build()


def test_a_version_of_numba_without_a_name(cuda, step, array, monkeypatch) -> None:
    from numba.cuda import dispatcher

    monkeypatch.delattr(dispatcher.CUDADispatcher, "_select_launch_config_dispatcher")
    with pytest.raises(GraphError, match="numba-cuda .* has no _select_launch_config_dispatcher, which graphs need"):
        KernelNode[1, 1](step, [array]).build()


def test_the_simulator(run_python) -> None:
    run_python("""
import kernelscope
from kernelscope.graphs import EmptyNode, whatif
for call in (EmptyNode().build, lambda: whatif(lambda: None)):
    try:
        call()
    except kernelscope.GraphError as error:
        assert "the CUDA simulator has no graphs" in str(error)
    else:
        raise AssertionError("not refused")
""", NUMBA_ENABLE_CUDASIM="1")


# ---- refusals ----

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
        "<built-in function print> is no kernel of numba-cuda": lambda: KernelNode[1, 1](print, [array]),
        "CUDA refuses it: .*": lambda: KernelNode[1, 4096](step, [array]),
        r"KernelNode of 'step': .*grid values must be >= 1": lambda: KernelNode[0, 1](step, [array]),
        r"no launch configuration is \[.1, 2., 1, 0\]: unhashable": lambda: KernelNode[[1, 2], 1](step, [array]),
        r"no launch configuration is \['x', 1, 0\]": lambda: KernelNode["x", 1](step, [array]),
        "dst has 32 bytes, and src 24": lambda: MemcpyNode(array, np.zeros(3)),
        "both arrays are on the host": lambda: MemcpyNode(np.zeros(3), np.zeros(3)),
        "it was to copy to host, and its arrays make a copy to device": lambda: MemcpyNode.to_host(array, np.zeros(4)),
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
