"""Updates and rebuilds: told apart, and what differs is said in words."""

from __future__ import annotations

import pytest
from cuda.bindings import driver
from cuda.core.graph import GraphDefinition

from kernelscope.probes.cuda_core.rows import parameter_names
from kernelscope.recorder.recorder import Recorder


def changes_of(row):
    return row["change"], row["changes"]


def test_an_update_says_what_it_changed(watch, capture, arrays, stream):
    with watch() as seen:
        graph = capture().complete()
        graph.update(capture())
        graph.update(capture(grid=8))
        graph.update(capture(grid=8, array=arrays[1]))
        graph.launch(stream)
        graph.upload(stream)
    same, grid, array = seen.events("update")
    assert {row["outcome"] for row in (same, grid, array)} == {"ok"}
    assert {row["exec_id"] for row in (same, grid, array)} == {1}
    assert changes_of(same) == ("none", None)
    assert changes_of(grid) == ("configuration", "grid of axpy 1 to 8")
    change, words = changes_of(array)
    assert change == "arguments"
    assert words == "argument 1 of axpy; argument 1 of fill", "an array's data is numba's fifth parameter"
    assert same["graph_id"] == 0
    assert grid["graph_id"] == array["graph_id"] == 1, "pointers make no other graph"
    assert seen.shapes(1)[0] == (8, 32, 0)
    assert seen.events("upload")[0]["graph_id"] == 1
    assert grid["source_event_id"] is not None
    assert seen.rows.nodes_of[1, 0] != seen.rows.nodes_of[0, 0], "activities after the update find their nodes"


def test_a_refused_update_leaves_the_graph(watch, capture, stream):
    with watch() as seen:
        graph = capture().complete()
        with pytest.raises(Exception, match="the topology changed"):
            graph.update(capture(more=2))
        graph.upload(stream)
    (row,) = seen.events("update")
    assert row["outcome"] == "refused"
    assert row["error"].startswith("CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED")
    assert changes_of(row) == ("topology", "2 nodes fill added")
    assert row["graph_id"] == seen.events("upload")[0]["graph_id"] == 0


def test_a_refused_update_names_the_node(watch, device, stream):
    buffer = device.allocate(64, stream=stream)

    def define(*, copy):
        definition = GraphDefinition()
        first = definition.memset(buffer, 0, 64)
        if copy:
            first.memcpy(buffer, buffer, 32)
        else:
            first.memset(buffer, 0, 32)
        return definition

    with watch() as seen:
        graph = define(copy=False).instantiate()
        with pytest.raises(Exception, match="a node type changed"):
            graph.update(define(copy=True))
    (row,) = seen.events("update")
    assert row["error"] == "CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED at node 1, memcpy DtoD"
    assert changes_of(row) == ("topology", "node memcpy added; node memset removed")


def test_rebuilds_name_the_nearest_graph(watch, capture, arrays):
    with watch() as seen:
        graphs = [capture().complete(), capture(array=arrays[1]).complete(), capture().complete(),
                  capture(grid=4, n=5).complete(), capture(more=1).complete(), capture(grid=4, n=6).complete()]
    made = seen.events("instantiate")
    first, other, same, grid, longer, number = made
    assert first.get("rebuild_of") is None
    assert other["rebuild_of"] == first["exec_id"]
    assert other["change"] == "arguments"
    assert (same["rebuild_of"], same["change"]) == (first["exec_id"], "none"), "not the latest: the equal one"
    assert (grid["rebuild_of"], grid["change"]) == (same["exec_id"], "configuration")
    assert grid["changes"] == "grid of axpy 1 to 4; argument 2 of axpy"
    assert longer.get("rebuild_of") is None, "another topology is no rebuild"
    assert changes_of(number) == ("arguments", "argument 2 of axpy")
    assert number["rebuild_of"] == grid["exec_id"]
    del graphs


def test_single_nodes(watch, k, arrays, stream, device):
    buffer = device.allocate(64, stream=stream)
    with watch() as seen:
        definition = GraphDefinition()
        memset = definition.memset(buffer, 1, 64)
        copy = memset.memcpy(buffer, buffer, 32)
        graph = definition.instantiate()
        handle = driver.CUgraphExec(int(graph.handle))
        node = driver.CUgraphNode(int(memset.handle))
        params = driver.cuGraphMemsetNodeGetParams(node)[1]
        params.value = 2
        context = driver.cuCtxGetCurrent()[1]
        assert not driver.cuGraphExecMemsetNodeSetParams(handle, node, params, context)[0]
        params.width = 8
        assert not driver.cuGraphExecMemsetNodeSetParams(handle, node, params, context)[0]
        assert not driver.cuGraphNodeSetEnabled(handle, driver.CUgraphNode(int(copy.handle)), 0)[0]
        params.dst = 0
        assert driver.cuGraphExecMemsetNodeSetParams(handle, node, params, context)[0]
    value, width, disabled, failed = seen.events("update")
    assert changes_of(value) == ("arguments", "value of memset")
    assert changes_of(width) == ("configuration", "size of memset 64 to 8 bytes")
    assert changes_of(disabled) == ("configuration", "memcpy DtoD disabled")
    assert (failed["outcome"], failed["error"]) == ("refused", "CUDA_ERROR_INVALID_VALUE")
    assert failed.get("change") is None
    assert seen.nodes(disabled["graph_id"])[1]["attributes"] == '{"enabled": false}'


def test_a_kernel_node_alone(watch, capture, k, arrays):
    with watch() as seen:
        builder = capture()
        graph = builder.complete()
        handle = driver.CUgraphExec(int(graph.handle))
        definition = driver.CUgraph(int(builder.graph_definition.handle))
        count = driver.cuGraphGetNodes(definition)[2]
        nodes = driver.cuGraphGetNodes(definition, count)[1]
        params = driver.cuGraphKernelNodeGetParams(nodes[1])[1]
        params.gridDimX = 16
        assert not driver.cuGraphExecKernelNodeSetParams(handle, nodes[1], params)[0]
    (row,) = seen.events("update")
    assert changes_of(row) == ("configuration", "grid of fill 2 to 16")
    assert [shape[0] for shape in seen.shapes(row["graph_id"])] == [1, 16]


def test_numba_kernels_arguments_have_their_names(capture, arrays, k):
    recorder = Recorder().start()
    sink = recorder._session.sink
    k.axpy[1, 32](arrays[0], 3)
    graphs = [capture(n=number).complete() for number in (1, 2)]
    recorder.stop()
    made = [row for row in sink.graphs.events if row["kind"] == "instantiate"]
    assert changes_of(made[1]) == ("arguments", "argument n of axpy")
    del graphs


@pytest.mark.parametrize(("signature", "names", "expected"), [
    ("(array(float32, 1d, C), int64)", "out, n", ("out",) * 7 + ("n",)),
    ("(Array(float64, 2, 'A', False, aligned=True),)", "x", ("x",) * 9),
    ("(int32, float64)", "a, b", ("a", "b")),
    ("()", "", ()),
    ("(UniTuple(int64 x 2), int64)", "t, n", ()),
    ("(int64, int64)", "n, *rest", ()),
    ("(int64,)", "n, m", ()),
])
def test_parameters_belong_to_arguments(signature, names, expected):
    assert parameter_names(signature, names) == expected


def test_a_rebuild_is_of_what_began_before_it(watch, capture):
    with watch() as seen:
        for _ in range(3):
            capture().complete()
        first, second, _ = seen.events("instantiate")
        # As where threads instantiate at once: what began first returned last.
        first["start_ns"], second["start_ns"] = second["start_ns"], first["start_ns"]
    rows = seen.rows.events
    assert [row.get("rebuild_of") for row in (first, second)] == [rows.index(second), None]
    assert second.get("change") is None


def test_a_node_that_was_added_before_what_it_depends_on(watch, stream, device):
    buffer = device.allocate(64, stream=stream)
    with watch() as seen:
        definition = GraphDefinition()
        copy, memset = definition.memcpy(buffer, buffer, 32), definition.memset(buffer, 1, 64)
        copy.pred.update(memset)
        graph = definition.instantiate()
        node = driver.CUgraphNode(int(memset.handle))
        params = driver.cuGraphMemsetNodeGetParams(node)[1]
        params.value = 2
        handle, context = driver.CUgraphExec(int(graph.handle)), driver.cuCtxGetCurrent()[1]
        assert not driver.cuGraphExecMemsetNodeSetParams(handle, node, params, context)[0]
    assert [row["kind"] for row in seen.nodes(0)] == ["memcpy", "memset"]
    assert seen.edges(0) == [(1, 0)]
    (row,) = seen.events("update")
    assert changes_of(row) == ("arguments", "value of memset")
