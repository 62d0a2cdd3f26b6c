"""The life of graphs on a real driver: CUPTI's ids, what clones keep, what activities are of, and what it costs."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
from recorded_graphs import Recorded

pytestmark = pytest.mark.gpu
cuda = pytest.importorskip("numba.cuda")
core = pytest.importorskip("cuda.core")
graph_api = pytest.importorskip("cuda.core.graph")
driver = pytest.importorskip("cuda.bindings.driver")


def test_a_capture_its_launches_and_its_nodes(capture, stream, array):
    with Recorded() as r:
        graph = capture().complete()
        for _ in range(3):
            graph.launch(stream)
        stream.sync()
        graph.close()
    assert [row["kind"] for row in r.rows.events] == ["capture", "instantiate", "close"]
    assert [row["api"] for row in r.rows.events] == [
        "cuStreamBeginCapture_v2", "cuGraphInstantiateWithParams", "cuGraphExecDestroy"]
    for row in r.rows.events:
        assert 0 < row["end_ns"] - row["start_ns"] < 1e9
        assert row["correlation_id"]
    activities = r.assert_joined(6)
    assert [node["name"].partition("(")[0].rpartition("::")[2] for *_, node in activities] == ["add", "double"] * 3
    expected = np.float32(0)
    for _ in range(3):
        expected = (expected + 3) * 2
    assert array.copy_to_host()[0] == expected


def test_many_nodes_keep_their_places(device, kernels, array, stream):
    """Clones have the nodes in the order of the definition: each has a configuration of its own."""
    add, _ = kernels
    chooser = random.Random(1)
    with Recorded() as r:
        builder = device.create_graph_builder().begin_building()
        branches = [builder, *builder.split(3)[1:]] if chooser else []
        grids = list(range(1, 101))
        chooser.shuffle(grids)
        for grid in grids:
            add[grid, 32, chooser.choice(branches).stream](array, 1)
        graph = graph_api.GraphBuilder.join(*branches).end_building().complete()
        graph.launch(stream)
        stream.sync()
    r.assert_joined(100)
    (made,) = r.events("instantiate")
    assert r.rows.graphs[made["graph_id"]]["nodes"] == 100
    assert len(r.events("capture")[0]["streams"]) == 3


def test_nodes_that_were_made_before_those_that_they_wait_for(device, kernels, array, stream):
    """Such as kernelscope.graphs makes: copies first. Clones, numbers and updates of one node name the same node."""
    from kernelscope.graphs import KernelNode, MemcpyNode, build

    add, double = kernels
    with Recorded() as r:
        down = MemcpyNode(np.zeros(64, np.float32), array)
        chain = [KernelNode[grid, 32](add, [array, 1]) for grid in range(1, 21)]
        beside = KernelNode[33, 32](double, [array])
        order = random.Random(1).sample(chain, len(chain))
        for before, after in itertools.pairwise(order):
            after.deps.append(before)
        down.deps += [order[-1], beside]
        graph = build([down, *chain])
        graph.launch(stream)
        chain[4].args[1] = 2
        assert graph.update() == 1
        graph.launch(stream)
        stream.sync()
    r.assert_joined(2 * 22)
    (update,) = r.events("update")
    assert update["change"] == "arguments"
    assert len(r.rows.graphs) == 1
    graph.close()


def test_nodes_that_were_removed_leave_gaps(device, stream):
    buffer = device.allocate(1024, stream=stream)
    with Recorded() as r:
        definition = graph_api.GraphDefinition()
        nodes = [definition.memset(buffer, 1, 64 + 4 * place) for place in range(8)]
        nodes[2].destroy()
        nodes[5].destroy()
        definition.memset(buffer, 2, 512)
        graph = definition.instantiate()
        graph.launch(stream)
        stream.sync()
    r.assert_joined(7)


@pytest.mark.parametrize("kind", ["if", "switch"])
def test_conditional_bodies(device, kernels, array, stream, kind):
    add, double = kernels
    with Recorded() as r:
        builder = device.create_graph_builder().begin_building()
        add[1, 64, builder.stream](array, 1)
        condition = builder.create_condition(default_value=1)
        bodies = [builder.if_then(condition)] if kind == "if" else list(builder.switch(condition, 3))
        for place, body in enumerate(bodies):
            body.begin_building()
            double[2 + place, 32, body.stream](array)
            add[4 + place, 32, body.stream](array, 1)
            body.end_building()
        add[7, 32, builder.stream](array, 5)
        graph = builder.end_building().complete()
        graph.launch(stream)
        stream.sync()
    (made,) = r.events("instantiate")
    kinds = [node["kind"] for node in r.rows.nodes if node["graph_id"] == made["graph_id"]]
    assert kinds == ["kernel", kind, *["kernel"] * (2 * len(bodies) + 1)]
    assert {row["graph_id"] for row in r.events("capture")} == {made["graph_id"]}
    r.assert_joined(4)
    assert array.copy_to_host()[0] == 1 * 2 + 1 + 5


def test_child_graphs(device, kernels, array, stream):
    buffer = device.allocate(256, stream=stream)
    with Recorded() as r:
        child, definition = graph_api.GraphDefinition(), graph_api.GraphDefinition()
        child.memset(buffer, 1, 64).memset(buffer, 2, 128)
        first = definition.memset(buffer, 3, 32)
        embedded = first.embed(child)
        embedded.memset(buffer, 4, 256).memcpy(buffer, int(buffer.handle) + 128, 16)
        graph = definition.instantiate()
        graph.launch(stream)
        stream.sync()
    made = r.events("instantiate")[-1]
    kinds = [node["kind"] for node in r.rows.nodes if node["graph_id"] == made["graph_id"]]
    assert kinds == ["memset", "child", "memset", "memset", "memset", "memcpy"]
    r.assert_joined(5)


def test_updates_and_rebuilds(capture, stream, array):
    other = cuda.to_device(np.zeros(64, np.float32))
    with Recorded() as r:
        graph = capture().complete()
        graph.launch(stream)
        stream.sync()
        graph.update(capture(grid=4, out=other))
        graph.launch(stream)
        for _ in range(3):
            with pytest.raises(Exception, match="Graph update failed"):
                graph.update(capture(more=1))  # cuda.core destroys a graph while its exception is set
        again = capture().complete()
        changed = capture(n=4).complete()
        graph.upload(stream)
        stream.sync()
    updated, *refused = r.events("update")
    assert (updated["outcome"], updated["change"]) == ("ok", "configuration")
    assert updated["changes"].startswith("grid of add 2 to 4; argument ")
    assert {row["outcome"] for row in refused} == {"refused"}
    assert refused[0]["error"].startswith("CU_GRAPH_EXEC_UPDATE_ERROR_")
    assert (refused[0]["change"], refused[0]["changes"]) == ("topology", "node double added")
    first, second, third = r.events("instantiate")
    assert (second["rebuild_of"], second["change"]) == (first["exec_id"], "none")
    assert third["change"] == "arguments"
    assert len(third["changes"].split("; ")) == 1
    r.assert_joined(4)
    assert len(r.events("upload")) == 1
    del again, changed
