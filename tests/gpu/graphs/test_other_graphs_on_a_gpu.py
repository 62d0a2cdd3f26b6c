"""Graphs of earlier recordings, of other libraries and of odd nodes, on a GPU; what recording costs them."""

from __future__ import annotations

import gc
import time
import weakref

import pytest
from recorded_graphs import Recorded

import kernelscope
from kernelscope.probes.cuda_core.graphs import Memory

pytestmark = pytest.mark.gpu
cuda = pytest.importorskip("numba.cuda")
core = pytest.importorskip("cuda.core")
graph_api = pytest.importorskip("cuda.core.graph")
driver = pytest.importorskip("cuda.bindings.driver")


def test_a_graph_of_an_earlier_recording(capture, stream):
    memory = Memory()
    with Recorded(memory) as r:
        graph = capture().complete()
    with Recorded(memory) as later:
        graph.launch(stream)
        stream.sync()
    assert [row["kind"] for row in later.rows.events] == ["before"]
    assert later.rows.graphs == r.rows.graphs
    later.assert_joined(2)


def test_what_a_graph_keeps_alive_goes_with_it(device, stream):
    class Held:
        def __call__(self):
            pass

    with Recorded() as r:
        held = Held()
        reference = weakref.ref(held)
        definition = graph_api.GraphDefinition()
        definition.callback(held)
        graph = definition.instantiate()
        del held, definition
        graph.close()
        del graph
        deadline = time.monotonic() + 60  # the driver lets go in a thread of its own
        while reference() is not None and time.monotonic() < deadline:
            gc.collect()
            time.sleep(0.01)
        assert reference() is None
    assert [node["kind"] for node in r.rows.nodes] == ["host"]


def test_memory_nodes(device, stream):
    with Recorded() as r:
        definition = graph_api.GraphDefinition()
        allocated = definition.allocate(4096)
        allocated.memset(allocated.dptr, 0, 4096).deallocate(allocated.dptr)
        graph = definition.instantiate()
        graph.launch(stream)
        stream.sync()
    assert [(node["kind"], node["size_bytes"]) for node in r.rows.nodes] == [
        ("mem_alloc", 4096), ("memset", 4096), ("mem_free", None)]
    r.assert_joined(1)


def test_torchs_graphs(stream):
    torch = pytest.importorskip("torch")
    x = torch.zeros(1024, device="cuda")
    warm = torch.cuda.Stream()
    with torch.cuda.stream(warm):
        y = (x + 1) * 2
    torch.cuda.synchronize()
    with Recorded() as r:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = (x + 1) * 2
        graph.replay()
        graph.replay()
        torch.cuda.synchronize()
    assert y[0].item() == 2
    assert len(r.events("capture")) == 1
    assert len(r.events("instantiate")) == 1
    r.assert_joined(4)


def test_captures_that_began_before_the_recording(device, kernels, array, stream):
    """The streams of recorded launches are asked about, those of builders that were closed as well."""
    add, double = kernels
    with kernelscope.record():
        for _ in range(3):  # streams that are destroyed before the recording stops
            builder = device.create_graph_builder().begin_building()
            add[2, 32, builder.stream](array, 1)
            builder.end_building()
            builder.close()
        builder = device.create_graph_builder().begin_building()
        add[2, 32, builder.stream](array, 1)
    with kernelscope.record() as between:
        double[2, 32](array)  # waiting for the device would break the capture
    with kernelscope.record() as last:
        double[2, 32, builder.stream](array)
        graph = builder.end_building().complete()
        graph.launch(stream)
    assert between.recording.launches.capture_event_id.isna().all()
    assert between.recording.health.message.str.contains("would break the capture").any()
    assert last.recording.launches.capture_event_id.notna().all()
    assert last.recording.table("graph_events").kind.tolist() == ["capture", "instantiate", "launch"]
    assert not last.recording.health.errors.fillna(0).any()
    assert array.copy_to_host()[0] == 2
