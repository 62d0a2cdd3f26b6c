"""The life of graphs on a real driver: CUPTI's ids, what clones keep, what activities are of, and what it costs."""

from __future__ import annotations

import gc
import itertools
import random
import statistics
import threading
import time
import weakref

import numpy as np
import pytest

import kernelscope
from kernelscope.probes.cuda_core import CudaCoreProbe
from kernelscope.probes.cuda_core.memory import Memory
from kernelscope.probes.cupti import CuptiProbe
from kernelscope.probes.gpu import KERNEL
from kernelscope.recorder import Recorder

pytestmark = pytest.mark.gpu
cuda = pytest.importorskip("numba.cuda")
core = pytest.importorskip("cuda.core")
graph_api = pytest.importorskip("cuda.core.graph")
driver = pytest.importorskip("cuda.bindings.driver")


@pytest.fixture(scope="module")
def device():
    device = core.Device(0)
    device.set_current()
    return device


@pytest.fixture
def stream(device):
    return device.create_stream()


@pytest.fixture(scope="module")
def kernels():
    @cuda.jit
    def add(out, n):
        i = cuda.grid(1)
        if i < out.size:
            out[i] += n

    @cuda.jit
    def double(out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] *= 2

    array = cuda.to_device(np.zeros(64, np.float32))
    add[2, 32](array, 1)
    double[2, 32](array)
    cuda.synchronize()
    return add, double


@pytest.fixture
def array():
    return cuda.to_device(np.zeros(64, np.float32))


class Recorded:
    """One recording, and what its probes wrote."""

    def __init__(self, memory: Memory | None = None) -> None:
        self._memory = Memory() if memory is None else memory

    def __enter__(self):
        self._recorder = Recorder(probes=[CuptiProbe(), CudaCoreProbe(memory=self._memory)]).start()
        self.sink = self._recorder._session.sink
        return self

    def __exit__(self, *error):
        self._recorder.stop()
        assert not self.sink.errors, self.sink.first_errors
        self.rows = self.sink.graphs

    def events(self, kind):
        return [row for row in self.rows.events if row["kind"] == kind]

    def graph_at(self, exec_id, time_ns):
        """The graph of an executable graph when it was launched."""
        graph = None
        for row in self.rows.events:
            made = row["start_ns"] is None or row["start_ns"] < time_ns
            if row.get("exec_id") == exec_id and made and row.get("graph_id") is not None:
                graph = row["graph_id"]
        return graph

    def activities(self):
        """Each activity of a graph: its start, its own mangled name or kind, and the node that it is said to be."""
        found = []
        columns = self.sink.gpu.activities
        for place in np.flatnonzero(columns["cupti_graph_id"] > 0):
            row = {name: int(values[place]) for name, values in columns.items()}
            assert row["cupti_node_id"] >> 32 == row["cupti_graph_id"]
            graph = self.graph_at(self.rows.execs[row["cupti_graph_id"]], row["start_ns"])
            node = self.rows.nodes_of.get((graph, row["cupti_node_id"] & 0xFFFFFFFF))
            entry = self.sink.gpu.entries[row["entry"]] if row["kind"] == KERNEL else None
            shape = self.sink.gpu.shapes[row["shape"]] if row["kind"] == KERNEL else None
            found.append((row, entry, shape, None if node is None else self.rows.nodes[node]))
        return sorted(found, key=lambda each: each[0]["start_ns"])

    def assert_joined(self, count):
        """Every activity is of a node of its own name and configuration."""
        activities = self.activities()
        assert len(activities) == count
        for row, entry, shape, node in activities:
            assert node is not None, (row, entry, self.rows.nodes_of, self.rows.nodes)
            if row["kind"] == KERNEL:
                assert node["kind"] == "kernel"
                assert node["entry_name"] == entry
                configuration = self.sink.configurations.rows[node["configuration_id"]]
                assert configuration["griddim_x"] == shape[0]
                assert configuration["blockdim_x"] == shape[3]
                assert configuration["sharedmem_bytes"] == shape[9]
            else:
                assert node["kind"] in ("memcpy", "memset")
                assert node["size_bytes"] == row["size_bytes"]
        return activities


@pytest.fixture
def capture(device, kernels, array):
    add, double = kernels

    def make(grid=2, out=None, n=3, more=0):
        out = array if out is None else out
        builder = device.create_graph_builder().begin_building()
        add[grid, 32, builder.stream](out, n)
        for _ in range(1 + more):
            double[2, 64, builder.stream](out)
        return builder.end_building()

    return make


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


def test_single_nodes(capture, stream, array):
    with Recorded() as r:
        builder = capture()
        graph = builder.complete()
        definition = driver.CUgraph(int(builder.graph_definition.handle))
        count = driver.cuGraphGetNodes(definition)[2]
        nodes = driver.cuGraphGetNodes(definition, count)[1]
        params = driver.cuGraphKernelNodeGetParams(nodes[1])[1]
        params.gridDimX = 5
        handle = driver.CUgraphExec(int(graph.handle))
        assert not int(driver.cuGraphExecKernelNodeSetParams(handle, nodes[1], params)[0])
        graph.launch(stream)
        stream.sync()
        assert not int(driver.cuGraphNodeSetEnabled(handle, nodes[0], 0)[0])
    first, second = r.events("update")
    assert (first["change"], first["changes"]) == ("configuration", "grid of double 2 to 5")
    assert second["changes"] == "add disabled"
    r.assert_joined(2)


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
        deadline = time.monotonic() + 5  # the driver lets go in a thread of its own
        while reference() is not None and time.monotonic() < deadline:
            gc.collect()
            time.sleep(0.01)
        assert reference() is None
    assert [node["kind"] for node in r.rows.nodes] == ["host"]


def test_kernels_are_named_though_their_module_is_unloaded(device, stream):
    def make():
        options = core.ProgramOptions(arch=f"sm_{device.arch}")
        code = core.Program('extern "C" __global__ void gone() {}', "c++", options).compile("cubin")
        definition = graph_api.GraphDefinition()
        definition.launch(core.LaunchConfig(grid=1, block=1), code.get_kernel("gone"))
        return definition.instantiate()

    with Recorded() as r:
        make().close()
        gc.collect()
    assert [node["name"] for node in r.rows.nodes] == ["gone"]


def test_clusters_and_cooperative_kernels(device, stream):
    options = core.ProgramOptions(arch=f"sm_{device.arch}")
    code = core.Program('extern "C" __global__ void nothing() {}', "c++", options).compile("cubin")
    kernel = code.get_kernel("nothing")
    with Recorded() as r:
        builder = device.create_graph_builder().begin_building()
        core.launch(builder, core.LaunchConfig(grid=4, cluster=2, block=32, shmem_size=64), kernel)
        core.launch(builder, core.LaunchConfig(grid=4, block=32, is_cooperative=True), kernel)
        graph = builder.end_building().complete()
        graph.launch(stream)
        stream.sync()
    first, second = r.rows.nodes
    row = r.sink.configurations.rows[first["configuration_id"]]
    assert (row["griddim_x"], row["cluster_x"]) == (8, 2)
    assert second["attributes"] == '{"cooperative": true}'
    r.assert_joined(2)


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


def test_threads(device, kernels):
    add, _ = kernels
    failed = []

    def work(grid):
        try:
            device.set_current()
            stream = device.create_stream()
            out = cuda.to_device(np.zeros(64, np.float32))
            for _ in range(20):
                builder = device.create_graph_builder().begin_building()
                add[grid, 32, builder.stream](out, 1)
                graph = builder.end_building().complete()
                graph.launch(stream)
                stream.sync()
                graph.close()
                builder.close()
        except BaseException as error:
            failed.append(error)

    with Recorded() as r:
        workers = [threading.Thread(target=work, args=(grid,)) for grid in range(1, 9)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    assert not failed
    assert len(r.events("instantiate")) == len(r.events("close")) == 160
    r.assert_joined(160)


def test_a_capture_that_failed(device):
    stream = device.create_stream()
    handle = driver.CUstream(int(stream.handle))
    with Recorded() as r:
        driver.cuStreamBeginCapture(handle, driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL)
        assert int(driver.cuMemAlloc(64)[0])
        assert int(driver.cuStreamEndCapture(handle)[0])
    (row,) = r.rows.events
    assert (row["outcome"], row["error"]) == ("failed", "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED")


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


def test_what_it_costs(capture, device, kernels, array, stream):
    """A launch of a graph with the probe and without it, CUPTI in both."""
    graph = capture().complete()

    def measure(with_graphs):
        probes = [CuptiProbe(), CudaCoreProbe(memory=Memory())] if with_graphs else [CuptiProbe()]
        recorder = Recorder(probes=probes).start()
        graph.launch(stream)
        start = time.perf_counter_ns()
        for _ in range(500):
            graph.launch(stream)
        took = (time.perf_counter_ns() - start) / 500
        stream.sync()
        recorder.stop()
        return took

    differences = [measure(True) - measure(False) for _ in range(15)]
    assert abs(statistics.median(differences)) < 600, differences

    add, _ = kernels
    builder = device.create_graph_builder().begin_building()
    for number in range(1_000):
        add[1, 32, builder.stream](array, number)
    builder.end_building()
    best = 1e9
    for _ in range(5):
        sink_recorder = Recorder(probes=[CuptiProbe(), CudaCoreProbe(memory=Memory())]).start()
        session = sink_recorder._session
        probe, sink = session.installed[1], session.sink
        made = builder.complete()
        start = time.perf_counter_ns()
        probe.uninstall()
        probe.describe(sink, ())
        best = min(best, time.perf_counter_ns() - start)
        assert len(sink.graphs.nodes) == 1_000
        sink_recorder.stop()
        made.close()
    assert best < 60e6, best  # benchmarks/graphs.py has the figure


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
