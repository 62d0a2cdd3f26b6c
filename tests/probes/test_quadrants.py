"""The probe of Quadrants against a stand-in; `tests/frameworks/quadrants` has the same against Quadrants itself."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest
import toy_quadrants
from quadrants_calls import F32, F64, array_kernel, body, on_cuda, record
from toy_quadrants import Template

import kernelscope
from kernelscope.probes.quadrants import QuadrantsProbe
from kernelscope.recorder.recorder import Recorder


def test_launches_have_phases_and_come_from_memory(qd: Any) -> None:
    kernel = array_kernel(qd)
    recording = record(*[lambda: kernel(F32, 1.0)] * 3)
    launches = recording.launches
    assert len(launches) == 3
    assert launches["cache"].tolist() == ["compiled", "memory", "memory"]
    times = ["start_ns", "dispatch_end_ns", "submit_start_ns", "submit_end_ns", "end_ns"]
    for row in launches[times].itertuples(index=False):
        assert list(row) == sorted(row)
    assert launches["cell_id"].tolist() == [0, 0, 0]
    assert recording.dispatchers["framework"].tolist() == ["quadrants"]
    assert recording.dispatchers["name"].tolist() == ["body"]
    assert recording.table("specializations")["signature"].tolist() == ["(array(float32, 1d, C), float32)"]


def test_grid_and_block_are_unknown(qd: Any) -> None:
    kernel = array_kernel(qd)
    configurations = record(lambda: kernel(F32, 1.0)).configurations
    assert len(configurations) == 1
    assert configurations[["griddim_x", "blockdim_x", "sharedmem_bytes"]].isna().all(axis=None)
    assert configurations["stream"].tolist() == [0]


def test_stream_is_of_the_configuration(qd: Any) -> None:
    kernel = array_kernel(qd)
    stream = type("Stream", (), {"handle": 77})()
    recording = record(lambda: kernel(F32, 1.0, qd_stream=stream), lambda: kernel(F32, a=1.0))
    assert recording.configurations["stream"].tolist() == [0, 77]
    assert recording.launches["configuration_id"].tolist() == [1, 0]


def test_outer_ends_alone_with_detail_launch(qd: Any) -> None:
    kernel = array_kernel(qd)
    launches = record(*[lambda: kernel(F32, 1.0)] * 2, detail="launch").launches
    assert launches["dispatch_end_ns"].isna().all()
    assert (launches["end_ns"] > launches["start_ns"]).all()
    assert launches["cache"].tolist() == ["compiled", "memory"]


def test_compiles_have_phases_and_reasons(qd: Any) -> None:
    kernel = array_kernel(qd)
    recording = record(lambda: kernel(F32, 1.0), lambda: kernel(F64, 1.0))
    compilations = recording.compilations
    assert compilations["outcome"].tolist() == ["compiled", "disk"]  # the stand-in's offline cache knows names only
    assert compilations["reason_code"].tolist() == ["first_use", "disk"]
    assert compilations["launch_id"].tolist() == [0, 1]
    assert compilations["cache_key"].tolist() == ["key-body", "key-body"]
    assert recording.passes["name"].tolist() == ["front end", "code"] * 2
    assert set(recording.passes["kind"]) == {"phase"}
    assert (recording.launches["compile_ns"] > 0).all()
    assert json.loads(compilations["attributes"][1]) == {"fe_ll_cache": "hit"}
    assert recording.table("specializations")["origin"].tolist() == ["compiled", "disk"]


def test_new_types_are_compared_as_numbas_are(qd: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = array_kernel(qd)
    qd.runtime._prog.offline = _Nothing()
    row = record(lambda: kernel(F32, 1.0), lambda: kernel(F64, 1.0)).rows("compilations")[1]
    assert row["reason_code"] == "new_dtype"
    assert row["argument"] == "x"
    assert "float64" in row["reason"] and "float32" in row["reason"]


def test_another_template_is_a_reason(qd: Any) -> None:
    kernel = qd.Kernel(body, arguments=(("n", Template()),))
    qd.runtime._prog.offline = _Nothing()
    recording = record(lambda: kernel(1), lambda: kernel(2))
    row = recording.rows("compilations")[1]
    assert (row["reason_code"], row["argument"]) == ("literal", "n")
    assert "qd.i32" in row["fix"]
    # Templates are told by their kind: no value of the user's is in a recording.
    assert recording.table("specializations")["signature"].tolist() == ["(template int,)"] * 2


def test_new_program_is_a_reason(qd: Any) -> None:
    kernel = array_kernel(qd)

    def again() -> None:
        kernel.reset()
        toy_quadrants.init(qd)
        kernel(F32, 1.0)

    recording = record(lambda: kernel(F32, 1.0), again)
    assert recording.compilations["reason_code"].tolist() == ["first_use", "recompile"]
    assert "qd.init" in recording.rows("compilations")[1]["reason"]
    assert recording.launches["specialization_id"].tolist() == [0, 1]


def test_fast_cache_is_a_disk_load(qd: Any) -> None:
    kernel = array_kernel(qd, fastcache=True)
    kernel.fast_cached = True
    recording = record(lambda: kernel(F32, 1.0))
    row = recording.rows("compilations")[0]
    assert (row["outcome"], row["reason_code"]) == ("disk", "disk")
    assert json.loads(row["attributes"]) == {"src_ll_cache": "loaded"}
    assert recording.launches["cache"].tolist() == ["disk"]
    assert json.loads(recording.rows("dispatchers")[0]["options"]) == {"fastcache": True}


def test_kernels_from_before_are_known(qd: Any) -> None:
    kernel = array_kernel(qd)
    kernel(F32, 1.0)
    recording = record(lambda: kernel(F32, 1.0))
    assert recording.launches["cache"].tolist() == ["memory"]
    assert recording.table("specializations")["origin"].tolist() == ["before"]
    assert recording.compilations.empty


def test_code_that_is_missing_without_the_front_end(qd: Any) -> None:
    kernel = array_kernel(qd)
    kernel(F32, 1.0)
    kernel.compiled_kernel_data_by_key.clear()  # as after a launch that failed
    recording = record(lambda: kernel(F32, 1.0), lambda: kernel(F32, 1.0))
    assert recording.compilations["outcome"].tolist() == ["disk"]
    assert recording.launches["cache"].tolist() == ["disk", "memory"]


def test_graphs_are_built_once_and_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    qd = on_cuda(monkeypatch)
    kernel = array_kernel(qd, graph=True)
    kernel.graph_do_while_levels = [type("Level", (), {"cond_arg_name": "x", "parent_id": -1})()]
    sink = _sink_of(*[lambda: kernel(F32, 1.0)] * 3)
    (event,) = sink.graphs.events
    assert (event["kind"], event["exec_id"], event["outcome"]) == ("instantiate", 0, "ok")
    assert json.loads(event["attributes"]) == {
        "framework": "quadrants", "kernel": "body", "nodes": 3, "cache_size": 1,
        "do_while": [{"while": "x", "inside": None}]}
    launches = sink.graphs.launches
    assert launches["exec"].tolist() == [0, 0, 0]
    assert launches["start_ns"][0] == launches["end_ns"][0] == event["end_ns"]
    assert (launches["end_ns"][1:] > launches["start_ns"][1:]).all()


def test_graph_launches_without_phases(monkeypatch: pytest.MonkeyPatch) -> None:
    qd = on_cuda(monkeypatch)
    kernel = array_kernel(qd, graph=True)
    probe = QuadrantsProbe()
    recorder = Recorder("toy", detail="launch", probes=[probe]).start()
    for _ in range(2):
        kernel(F32, 1.0)
    launches = recorder.stop().launches
    assert probe.sink is not None
    graphs = probe.sink.graphs.launches
    assert len(probe.sink.graphs.events) == 1
    assert (graphs["start_ns"] >= launches["start_ns"]).all()
    assert (graphs["end_ns"] <= launches["end_ns"]).all()


def test_graph_from_before_recording(monkeypatch: pytest.MonkeyPatch) -> None:
    qd = on_cuda(monkeypatch)
    kernel = array_kernel(qd, graph=True)
    kernel(F32, 1.0)
    sink = _sink_of(lambda: kernel(F32, 1.0))
    (event,) = sink.graphs.events
    assert (event["kind"], event["start_ns"]) == ("before", None)
    assert sink.graphs.launches["exec"].tolist() == [0]


def test_nested_recorders_hand_graphs_over_once(monkeypatch: pytest.MonkeyPatch) -> None:
    qd = on_cuda(monkeypatch)
    kernel = array_kernel(qd, graph=True)

    def nested() -> None:
        kernel(F32, 1.0)
        with kernelscope.record():
            kernel(F32, 1.0)

    sink = _sink_of(nested, lambda: kernel(F32, 1.0))
    assert len(sink.graphs.events) == 1
    assert sink.graphs.launches["exec"].tolist() == [0, 0, 0]


def test_graphs_that_cupti_saw_are_not_told_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    qd = on_cuda(monkeypatch)
    kernel = array_kernel(qd, graph=True)
    probe = QuadrantsProbe()
    recorder = Recorder("toy", probes=[probe]).start()
    kernel(F32, 1.0)
    assert probe._hooks is not None and probe.sink is not None
    mine = probe._hooks.graphs._events[0]
    native = {"kind": "instantiate", "thread_ident": threading.get_ident(), "start_ns": mine["start_ns"]}
    other = {"kind": "instantiate", "thread_ident": threading.get_ident(), "start_ns": mine["end_ns"] + 1}
    graphs = probe.sink.graphs
    graphs.execs[7] = 0
    graphs.events += [native, other]
    probe.describe(probe.sink, ())
    assert graphs.events == [native, other]
    assert json.loads(native["attributes"])["kernel"] == "body"
    assert "attributes" not in other
    assert not len(graphs.launches["exec"])
    graphs.events.clear()
    recorder.stop()


@pytest.mark.parametrize(("arch", "graphs_on", "loops", "because"), [
    ("x64", True, 0, "backend x64"),
    ("cuda", False, 0, "QD_GRAPH"),
    ("cuda", True, 1, "9.0"),
])
def test_graph_kernel_that_fell_back_says_why(monkeypatch: pytest.MonkeyPatch, arch: str, graphs_on: bool, loops: int,
                                              because: str) -> None:
    qd = toy_quadrants.make(arch=arch)
    toy_quadrants.install(qd, monkeypatch)
    vars(qd.modules["quadrants.lang.kernel"])["_GRAPH_ENABLED"] = graphs_on
    monkeypatch.setattr("kernelscope.probes.quadrants.kernels._capability", lambda: 86)
    qd.Program.get_graph_cache_used_on_last_call = lambda self: False
    kernel = array_kernel(qd, graph=True)
    kernel.graph_do_while_levels = [type("Level", (), {"cond_arg_name": "x", "parent_id": -1})()] * loops
    recording = record(*[lambda: kernel(F32, 1.0)] * 2)
    held = json.loads(recording.rows("specializations")[0]["attributes"])
    assert held["graph"] is True
    assert because in held["plain_because"]
    assert recording.graph_events.empty


class _Nothing(set):
    """An offline cache that keeps nothing."""

    def __contains__(self, item: object) -> bool:
        return False


def _sink_of(*calls: Any) -> Any:
    """The sink of a session in which the calls were made."""
    probe = QuadrantsProbe()
    recorder = Recorder("toy", probes=[probe]).start()
    for call in calls:
        call()
    recorder.stop()
    return probe.sink
