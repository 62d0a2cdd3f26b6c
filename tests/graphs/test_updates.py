"""Updates of built graphs, and versions of the libraries that lack what graphs need."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kernelscope
from kernelscope.errors import GraphError
from kernelscope.graphs import (
    Condition,
    EmptyNode,
    HostNode,
    KernelNode,
    MemcpyNode,
    MemsetNode,
    WhileNode,
    build,
    whatif,
)


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
    from kernelscope.graphs import nodes

    def without(*_: Any) -> None:
        raise AttributeError("'KernelNode' object has no attribute 'update'")

    node = KernelNode[1, 1](step, [array])
    with node.build() as graph:
        node.grid = 2
        changes = iter([without, lambda *_: None])
        monkeypatch.setattr(nodes, "change", lambda *args: next(changes)(*args))
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


@pytest.mark.parametrize("call", [EmptyNode().build, lambda: whatif(lambda: None)])
def test_the_simulator(call: Any, monkeypatch) -> None:
    monkeypatch.setattr("numba.core.config.ENABLE_CUDASIM", 1)
    with pytest.raises(GraphError, match="the CUDA simulator has no graphs"):
        call()
