"""The same with CUPTI as the source: its stand-in is told what the null driver tells."""

from __future__ import annotations

import ctypes

import pytest
from cupti_stand_in import DRIVER, StandIn, build

from kernelscope.clock import now
from kernelscope.probes.cuda_core import CudaCoreProbe, calls
from kernelscope.probes.cuda_core.graphs import Memory
from kernelscope.probes.cupti import CuptiProbe
from kernelscope.probes.cupti.library import Cupti
from kernelscope.recorder.recorder import Recorder

_FIRST = 100
_Listener = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return build(tmp_path_factory.mktemp("stand_in"))


@pytest.fixture
def stand_in(library):
    """CUPTI that tells of the graphs of the dry run."""
    stand_in, null = StandIn(library), ctypes.CDLL("libcuda.so.1")
    null.kernelscope_dryrun_watchable.restype = ctypes.c_char_p
    numbers = {}
    while (name := null.kernelscope_dryrun_watchable(len(numbers))) is not None:
        numbers[name] = _FIRST + len(numbers)
        stand_in.library.stand_in_function(DRIVER, numbers[name], name)
        null.kernelscope_dryrun_watch(name, 1)
    stand_in.library.stand_in_graph_ids(null.kernelscope_dryrun_exec_id, null.kernelscope_dryrun_node_number)

    def told(data):
        name = ctypes.cast(data + 8, ctypes.POINTER(ctypes.c_char_p))[0]
        stand_in.library.stand_in_told(numbers[name], ctypes.c_void_p(data))

    listener = _Listener(told)
    _alive.append(listener)
    null.kernelscope_dryrun_listen(listener)
    yield stand_in
    null.kernelscope_dryrun_listen(None)
    for name in numbers:
        null.kernelscope_dryrun_watch(name, 0)
    null.kernelscope_dryrun_take_launches(ctypes.create_string_buffer(1 << 16), ctypes.c_size_t(1 << 10))
    assert stand_in.left_on == []


_alive = []


@pytest.fixture
def record(stand_in):
    cupti = Cupti(stand_in.path, stand_in.stamp)
    _alive.append(cupti)

    def make(memory=None, graphs_first=False):
        probes = [CuptiProbe(cupti), CudaCoreProbe(memory=Memory() if memory is None else memory)]
        return Recorder(probes=probes[::-1] if graphs_first else probes).start()

    return make


@pytest.mark.parametrize("graphs_first", [False, True])
def test_cupti_tells_of_graphs(record, capture, graphs_first):
    recorder = record(graphs_first=graphs_first)
    sink = recorder._session.sink
    builder = capture()
    graph = builder.complete()
    graph.update(capture(grid=4))
    graph.close()
    recorder.stop()
    assert [row["kind"] for row in sink.graphs.events] == ["capture", "instantiate", "capture", "update", "close"]
    assert sink.graphs.events[3]["changes"] == "grid of axpy 1 to 4"
    assert sink.graphs.nodes_of[0, 1] == 1
    assert len(sink.graphs.launches["exec"]) == 0, "CUPTI records them itself"
    assert not sink.errors, sink.first_errors
    assert builder is not None


def test_activities_of_a_graph_of_before_have_it(record, capture, stand_in):
    memory = Memory()
    recorder = record(memory)
    first = recorder._session.sink
    graph = capture().complete()
    recorder.stop()
    ((number, position),) = first.graphs.execs.items()
    assert position == 1
    recorder = record(memory)
    sink = recorder._session.sink
    start = now()
    id = stand_in.call("cuGraphLaunch", start, start + 4_000)
    stand_in.kernel(id, "axpy", start + 5_000, start + 6_000, graph=number, node=number << 32)
    stand_in.kernel(stand_in.call("cuGraphLaunch"), "fill", start + 7_000, start + 8_000, graph=999_999,
                    node=999_999 << 32)
    recorder.stop()
    assert [row["kind"] for row in sink.graphs.events] == ["before", "before"]
    known = sink.graphs.events[sink.graphs.execs[number]]
    assert sink.graphs.graphs[known["graph_id"]] == first.graphs.graphs[0]
    assert sink.graphs.events[sink.graphs.execs[999_999]].get("graph_id") is None
    assert graph is not None


def test_captures_are_still_counted_after_the_graphs_probe_has_gone(record, capture, device, k, arrays, stand_in):
    recorder = record()
    probe = recorder._session.installed[1]
    builder = device.create_graph_builder().begin_building(mode="global")
    probe.uninstall()
    assert recorder._session.sink.is_capturing()
    builder.end_building()
    assert not recorder._session.sink.is_capturing()
    recorder.stop()


def test_another_client_of_cupti_leaves_graphs_unseen(record, capture, stand_in, monkeypatch):
    monkeypatch.setattr(calls, "_callback", lambda: None)  # as on a GPU
    stand_in.library.stand_in_hold(b"nsys")
    recorder = record()
    sink = recorder._session.sink
    capture().complete()
    recorder.stop()
    stand_in.library.stand_in_hold(b"")
    assert sink.graphs.events == []
    messages = {row["probe"]: row["message"] for row in [*sink.health, *sink.stated.values()]}
    assert "nsys" in messages["cupti"]
    assert "graphs are not seen" in messages["cuda.core"]
