"""The life of graphs, from the driver's calls: captures, definitions, executable graphs, what they hold."""

from __future__ import annotations

import contextlib
import gc
import weakref

import numpy as np
import pytest
from counting import lines_run
from cuda.core.graph import GraphBuilder, GraphDefinition
from numba import cuda

from kernelscope.clock import now
from kernelscope.probes.cuda_core import read
from kernelscope.probes.cuda_core.graphs import Memory


def test_a_capture_and_its_graph(watch, capture, stream):
    before = now()
    with watch() as seen:
        graph = capture().complete()
        graph.launch(stream)
        graph.launch(stream)
        graph.upload(stream)
        graph.close()
    assert seen.kinds() == ["capture", "instantiate", "upload", "close"]
    captured, made, uploaded, closed = seen.rows.events
    assert before < captured["start_ns"] < captured["end_ns"] < made["start_ns"] < made["end_ns"] < now()
    assert captured["streams"] == [captured["stream"]]
    assert {row["outcome"] for row in seen.rows.events} == {"ok"}
    assert made["api"] == "cuGraphInstantiateWithParams"
    assert made["source_event_id"] == 0
    assert made["exec_id"] == uploaded["exec_id"] == closed["exec_id"] == 1
    assert [row["graph_id"] for row in seen.rows.events] == [0, 0, 0, 0]
    assert uploaded["stream"] == int(stream.handle)
    nodes = seen.nodes(0)
    assert [node["kind"] for node in nodes] == ["kernel", "kernel"]
    assert [node["name"].partition("(")[0].rpartition("::")[2] for node in nodes] == ["axpy", "fill"]
    assert nodes[0]["entry_name"].startswith("_Z")
    assert seen.shapes(0) == [(1, 32, 0), (2, 64, 0)]
    assert seen.edges(0) == [(0, 1)]
    assert (seen.rows.graphs[0]["nodes"], seen.rows.graphs[0]["edges"]) == (2, 1)
    assert seen.rows.nodes_of == {(0, 0): 0, (0, 1): 1}
    launches = seen.rows.launches
    assert launches["exec"].tolist() == [1, 1]
    assert set(launches["stream"]) == {int(stream.handle)}
    assert (launches["start_ns"] > made["end_ns"]).all()
    assert (launches["end_ns"] >= launches["start_ns"]).all()
    assert launches["result"].tolist() == [0, 0]
    assert list(seen.rows.execs.values()) == [1]


def test_streams_that_join_a_capture_are_named(watch, device, k, arrays):
    with watch() as seen:
        builder = device.create_graph_builder().begin_building()
        k.axpy[1, 32, builder.stream](arrays[0], 3)
        left, right = builder.split(2)
        k.fill[1, 32, left.stream](arrays[0])
        k.axpy[1, 32, right.stream](arrays[0], 4)
        handles = [int(each.stream.handle) for each in (left, right)]
        joined = GraphBuilder.join(left, right)
        k.fill[1, 32, joined.stream](arrays[0])
        joined.end_building().complete()
        other = device.create_stream()
        other.wait(device.create_stream().record())  # outside of captures nobody looks
    assert sorted(seen.rows.events[0]["streams"]) == sorted(handles)
    assert seen.edges(0) == [(0, 1), (0, 2), (1, 3), (2, 3)]


@pytest.mark.parametrize("kind", ["if", "while", "switch"])
def test_conditional_nodes_have_bodies(watch, device, k, arrays, stream, kind):
    with watch() as seen:
        builder = device.create_graph_builder().begin_building()
        k.axpy[1, 32, builder.stream](arrays[0], 3)
        condition = builder.create_condition(default_value=1)
        bodies = {"if": lambda: [builder.if_then(condition)], "while": lambda: [builder.while_loop(condition)],
                  "switch": lambda: builder.switch(condition, 3)}[kind]()
        for body in bodies:
            body.begin_building()
            k.fill[1, 64, body.stream](arrays[0])
            k.fill[1, 64, body.stream](arrays[0])
            body.end_building()
        k.axpy[4, 32, builder.stream](arrays[0], 3)
        graph = builder.end_building().complete()
        graph.launch(stream)
    nodes = seen.nodes(0)
    assert [node["kind"] for node in nodes] == ["kernel", kind, *["kernel"] * (2 * len(bodies) + 1)]
    assert [node["parent_node_id"] for node in nodes] == [None, None, *[1] * (2 * len(bodies)), None]
    assert [node["body"] for node in nodes[2:-1]] == [body for body in range(len(bodies)) for _ in range(2)]
    inner = [(2 + 2 * body, 3 + 2 * body) for body in range(len(bodies))]
    assert seen.edges(0) == sorted([(0, 1), (1, len(nodes) - 1), *inner])
    captures = seen.events("capture")
    assert [row["graph_id"] for row in captures] == [0] * (1 + len(bodies)), "what is inside is of the graph around it"
    assert captures[1]["api"] == "cuStreamBeginCaptureToGraph"
    assert len(seen.rows.graphs) == 1
    # Runs are numbered through the definition's own nodes first, and then through what is inside of them.
    last = len(nodes) - 1
    assert [seen.rows.nodes_of[0, number] for number in range(len(nodes))] == [0, 1, last, *range(2, last)]


def test_captures_into_bodies_are_of_a_graph_whose_definition_is_gone(watch, device, k, arrays, stream):
    with watch() as seen:
        builder = device.create_graph_builder().begin_building()
        body = builder.if_then(builder.create_condition(default_value=1)).begin_building()
        k.fill[1, 64, body.stream](arrays[0])
        body.end_building()
        graph = builder.end_building().complete()
        body.close()
        builder.close()
        graph.launch(stream)
    assert [row["graph_id"] for row in seen.events("capture")] == [0, 0]


def test_explicit_definitions(watch, device, k, arrays, stream):
    called = []
    buffer = device.allocate(256, stream=stream)
    event = device.create_event()
    with watch() as seen:
        child, definition = GraphDefinition(), GraphDefinition()
        child.memset(buffer, 7, 256).memcpy(buffer, buffer, 128)
        last = definition.embed(child).callback(lambda: called.append(1)).record(event)
        definition.join(last, definition.empty()).wait(event)
        graph = definition.instantiate()
        graph.launch(stream)
        stream.sync()
    assert called == [1]
    assert seen.kinds() == ["define", "define", "instantiate"]
    assert seen.rows.events[2]["source_event_id"] == 1
    assert seen.rows.events[1]["graph_id"] == seen.rows.events[2]["graph_id"] == 1
    assert seen.rows.events[0]["graph_id"] == 0, "the child that was never instantiated is a graph too"
    nodes = seen.nodes(1)
    assert [node["kind"] for node in nodes] == ["child", "memset", "memcpy", "host", "event_record", "empty", "empty",
                                               "event_wait"]
    assert [node["size_bytes"] for node in nodes[1:3]] == [256, 128]
    assert nodes[2]["name"] == "DtoD"
    first = seen.rows.nodes.index(nodes[0])
    assert [node["parent_node_id"] for node in nodes[:4]] == [None, first, first, None]
    assert seen.rows.graphs[1]["nodes"] == 8


def test_copies_say_their_direction(watch, device, stream, arrays):
    host, array = cuda.pinned_array(16, np.float32), arrays[0]
    plain = np.zeros(16, np.float32)
    with watch() as seen:
        builder = device.create_graph_builder().begin_building()
        on = cuda.external_stream(int(builder.stream.handle))
        array[:16].copy_to_device(host, stream=on)
        array[:8].copy_to_host(plain[:8], stream=on)
        array[:4].copy_to_device(arrays[1][:4], stream=on)
        graph = builder.end_building().complete()
    assert [(node["name"], node["size_bytes"]) for node in seen.nodes(0)] == [("HtoD", 64), ("DtoH", 32), ("DtoD", 16)]
    graph.close()


def test_memory_nodes_are_read_at_once(watch, stream, device):
    with watch() as seen:
        definition = GraphDefinition()
        allocated = definition.allocate(4096)
        allocated.memset(allocated.dptr, 0, 4096).deallocate(allocated.dptr)
        graph = definition.instantiate()
        graph.launch(stream)
    assert [(node["kind"], node["size_bytes"]) for node in seen.nodes(0)] == [
        ("mem_alloc", 4096), ("memset", 4096), ("mem_free", None)]


def test_clusters_and_cooperative_launches(watch, device, stream):
    from cuda.core import LaunchConfig, Program, ProgramOptions, launch

    code = 'extern "C" __global__ void nothing() {}'
    kernel = Program(code, "c++", ProgramOptions(arch=f"sm_{device.arch}")).compile("cubin").get_kernel("nothing")
    with watch() as seen:
        builder = device.create_graph_builder().begin_building()
        launch(builder, LaunchConfig(grid=4, cluster=2, block=32, shmem_size=64), kernel)
        launch(builder, LaunchConfig(grid=4, block=32, is_cooperative=True), kernel)
        builder.end_building().complete()
    first, second = seen.nodes(0)
    row = seen.sink.configurations.rows[first["configuration_id"]]
    assert (row["griddim_x"], row["cluster_x"], row["sharedmem_bytes"], row["stream"]) == (8, 2, 64, None)
    assert second["attributes"] == '{"cooperative": true}'
    assert second["name"] == second["entry_name"] == "nothing"


def test_a_graph_that_was_never_instantiated(watch, capture):
    with watch() as seen:
        kept = capture()
        gone = capture(grid=4)
        gone.close()
        del gone
        gc.collect()
    assert kept.graph_definition is not None
    assert [row["graph_id"] for row in seen.rows.events] == [0, 1]
    assert [seen.shapes(graph)[0][0] for graph in (0, 1)] == [1, 4]


def test_a_capture_that_failed(watch, device, k, arrays):
    from cuda.bindings import driver

    stream = device.create_stream()
    handle = driver.CUstream(int(stream.handle))
    with watch() as seen:
        driver.cuStreamBeginCapture(handle, driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL)
        driver.cuMemAlloc(64)  # not while somebody captures
        assert int(driver.cuStreamEndCapture(handle)[0]) != 0
        driver.cuStreamBeginCapture(handle, driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED)
        assert seen.sink.is_capturing()
    first, second = seen.rows.events
    assert (first["outcome"], first["error"]) == ("failed", "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED")
    assert first["end_ns"] > first["start_ns"]
    assert second["end_ns"] is None
    driver.cuStreamEndCapture(handle)


def test_a_graph_of_an_earlier_recording_is_known(watch, capture, stream):
    memory = Memory()
    with watch(memory) as seen:
        graph = capture().complete()
    with watch(memory) as later:
        graph.launch(stream)
        graph.upload(stream)
        graph.close()
    assert later.kinds() == ["before", "upload", "close"]
    assert later.rows.events[0]["start_ns"] is None
    assert later.rows.events[1]["exec_id"] == 0
    assert later.rows.graphs == seen.rows.graphs
    assert later.nodes(0) and later.rows.launches["exec"].tolist() == [0]


def test_a_graph_of_before_any_recording_is_not_known(watch, capture, stream):
    graph, other = capture().complete(), capture().complete()
    with watch() as seen:
        graph.launch(stream)
        graph.close()
        other.close()
    assert seen.kinds() == ["before", "close"], "nothing happened to the other one"
    assert [row.get("graph_id") for row in seen.rows.events] == [None, None]
    assert seen.rows.launches["exec"].tolist() == [0]
    assert seen.rows.graphs == []


def test_arrays_are_let_go_with_their_graph(watch, device, stream, k):
    """The probe's copy of a graph must not keep alive what the user's graph kept alive."""

    class Held:
        def __call__(self):
            pass

    with watch() as seen:
        held = Held()
        reference = weakref.ref(held)
        definition = GraphDefinition()
        definition.callback(held)
        graph = definition.instantiate()
        del held, definition
        gc.collect()
        assert reference() is not None
        graph.close()
        del graph
        gc.collect()
        assert reference() is None
    assert [node["kind"] for node in seen.nodes(0)] == ["host"]


def test_kernels_are_named_though_their_module_is_unloaded(watch, device, stream):
    from cuda.core import LaunchConfig, Program, ProgramOptions

    def make():
        program = Program('extern "C" __global__ void gone() {}', "c++", ProgramOptions(arch=f"sm_{device.arch}"))
        definition = GraphDefinition()
        definition.launch(LaunchConfig(grid=1, block=1), program.compile("cubin").get_kernel("gone"))
        return definition.instantiate()

    with watch() as seen:
        make().close()
        gc.collect()
    assert seen.nodes(0)[0]["name"] == "gone"


def test_a_thousand_instantiations(watch, capture):
    with watch() as seen:
        builder = capture()
        graphs = [builder.complete() for _ in range(1_000)]
    made = seen.events("instantiate")
    assert len(made) == 1_000
    assert len(seen.rows.graphs) == 1
    assert [row["rebuild_of"] for row in made[1:]] == [row["exec_id"] for row in made[:-1]]
    assert {row["change"] for row in made[1:]} == {"none"}
    assert made[0].get("rebuild_of") is None
    del graphs


def test_copies_are_not_kept_without_bound(watch, capture, monkeypatch):
    monkeypatch.setattr(read, "MOST_COPIES", 4)
    with watch() as seen:
        builder = capture()
        graphs = [builder.complete() for _ in range(20)]
        assert len(seen.probe._watch._copies._waiting) == 4
    assert len(seen.events("instantiate")) == 20
    assert {row["graph_id"] for row in seen.rows.events} == {0}
    del graphs


def test_nothing_of_ours_is_left_in_the_driver(watch, capture, device):
    from cuda.bindings import driver

    with watch() as seen:
        graph = capture().complete()
        copies = seen.probe._watch._copies
        (slot,) = copies._slots.values()
        copy = slot.value
        assert driver.cuGraphGetNodes(driver.CUgraph(copy))[0] == 0
    assert driver.cuGraphGetNodes(driver.CUgraph(copy))[0] != 0
    assert not copies._slots
    assert seen.kinds() == ["capture", "instantiate"], "copies are no events"
    del graph


def test_what_was_in_a_conditional_node_is_forgotten_with_its_graph(watch, device, k, arrays):
    """Its handles may be given to something else: nobody may look into them then."""
    with watch() as seen:
        builder = device.create_graph_builder().begin_building()
        body = builder.if_then(builder.create_condition(default_value=1)).begin_building()
        inner = body.if_then(body.create_condition(default_value=1)).begin_building()
        k.fill[1, 32, inner.stream](arrays[0])
        inner.end_building()
        body.end_building()
        builder.end_building()
        watch_ = seen.probe._watch
        assert len(watch_._conditionals) == 2
        del builder, body, inner
        gc.collect()
        assert not watch_._conditionals
        assert not watch_._bodies
    (outer, *_), nodes = seen.events("capture"), seen.nodes(0)
    assert [node["kind"] for node in nodes] == ["if", "if", "kernel"]
    assert [node["parent_node_id"] for node in nodes] == [None, 0, 1]
    assert outer["graph_id"] == 0


def test_a_conditional_node_of_an_earlier_recording_is_not_looked_into(watch, device, k, arrays):
    with watch():
        builder = device.create_graph_builder().begin_building()
        body = builder.if_then(builder.create_condition(default_value=1)).begin_building()
        k.fill[1, 32, body.stream](arrays[0])
        body.end_building()
        builder.end_building()
    with watch() as seen:
        builder.complete()
    assert [(node["kind"], node["name"], node["attributes"]) for node in seen.nodes(0)] == [
        ("other", "conditional", '{"unknown": "inside"}')]


def test_equal_graphs_share_what_was_read_of_them(watch, capture):
    with watch() as seen:
        builder = capture()
        graphs = [builder.complete() for _ in range(10)]
        seen.probe._watch.settle()
        copies = [event.copy for event in seen.probe._watch.events if event.copy is not None]
        assert len({id(each.content.snapshot) for each in copies}) == 1
        assert len({id(each.handles) for each in copies}) == 1
    del graphs


def test_the_work_at_stop_grows_with_the_nodes_and_no_faster(watch, device, k, arrays):
    def work(nodes):
        builder = device.create_graph_builder().begin_building()
        for number in range(nodes):
            k.axpy[1 + number % 3, 32, builder.stream](arrays[0], number)
        builder.end_building()
        with contextlib.ExitStack() as stack:
            seen = stack.enter_context(watch())
            graph = builder.complete()
            lines = lines_run(stack.close)
        assert seen.rows.graphs[0]["nodes"] == nodes
        assert seen.rows.graphs[0]["edges"] == nodes - 1
        graph.close()
        return lines

    assert work(1000) < 2.2 * work(500)
