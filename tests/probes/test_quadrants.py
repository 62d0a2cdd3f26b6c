"""The probe of Quadrants against a stand-in; `tests/frameworks/quadrants` has the same against Quadrants itself."""

from __future__ import annotations

import gc
import json
import threading
import weakref
from typing import Any

import pytest
import toy_quadrants
from toy_quadrants import Annotation, Array, NdarrayType, Template

import kernelscope
from kernelscope.probes.quadrants import QuadrantsProbe, measure_cost
from kernelscope.recorder import Recorder
from kernelscope.recording.model import Recording

F32, F64 = Array("f32"), Array("f64")


def body(x: Any, a: float) -> None:
    """A kernel's function."""


@pytest.fixture
def qd(monkeypatch: pytest.MonkeyPatch) -> Any:
    package = toy_quadrants.make()
    toy_quadrants.install(package, monkeypatch)
    return package


def on_cuda(monkeypatch: pytest.MonkeyPatch, **options: Any) -> Any:
    package = toy_quadrants.make(arch="cuda", **options)
    toy_quadrants.install(package, monkeypatch)
    return package


def record(*calls: Any, **options: Any) -> Recording:
    recorder = Recorder("toy", probes=[QuadrantsProbe()], **options).start()
    recorder.begin_cell("calls", execution_count=1)
    for call in calls:
        call()
    recorder.end_cell()
    return recorder.stop()


def array_kernel(qd: Any, **options: Any) -> Any:
    return qd.Kernel(body, arguments=(("x", NdarrayType()), ("a", Annotation("f32"))), **options)


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
    assert probe._sink is not None
    graphs = probe._sink.graphs.launches
    assert len(probe._sink.graphs.events) == 1
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
    assert probe._hooks is not None and probe._sink is not None
    mine = probe._hooks.graphs._events[0]
    native = {"kind": "instantiate", "thread_ident": threading.get_ident(), "start_ns": mine["start_ns"]}
    other = {"kind": "instantiate", "thread_ident": threading.get_ident(), "start_ns": mine["end_ns"] + 1}
    graphs = probe._sink.graphs
    graphs.execs[7] = 0
    graphs.events += [native, other]
    probe.describe(probe._sink, ())
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
    monkeypatch.setattr("kernelscope.probes.quadrants.facts._capability", lambda: 86)
    qd.Program.get_graph_cache_used_on_last_call = lambda self: False
    kernel = array_kernel(qd, graph=True)
    kernel.graph_do_while_levels = [type("Level", (), {"cond_arg_name": "x", "parent_id": -1})()] * loops
    recording = record(*[lambda: kernel(F32, 1.0)] * 2)
    held = json.loads(recording.rows("specializations")[0]["attributes"])
    assert held["graph"] is True
    assert because in held["plain_because"]
    assert recording.graph_events.empty


def test_what_the_kernel_raises_passes_and_is_recorded(qd: Any) -> None:
    kernel = array_kernel(qd)

    def fail() -> None:
        kernel.on_device = lambda: 1 / 0
        with pytest.raises(ZeroDivisionError):
            kernel(F32, 1.0)
        kernel.on_device = None
        kernel(F32, 1.0)

    recording = record(fail)
    assert recording.launches["error"].tolist()[0] == "ZeroDivisionError"
    assert recording.launches["submit_end_ns"].isna().tolist() == [True, False]
    assert recording.compilations["outcome"].tolist() == ["compiled"]  # what failed was the launch
    assert recording.launches["specialization_id"].tolist() == [0, 0]


def test_failed_compile_is_told_in_a_line(qd: Any) -> None:
    def wrong() -> None:
        """The stand-in goes by the name."""

    kernel = qd.Kernel(wrong)

    def fail() -> None:
        with pytest.raises(SyntaxError):
            kernel()

    recording = record(fail)
    row = recording.rows("compilations")[0]
    assert (row["outcome"], row["error"]) == ("failed", "SyntaxError: No such name")
    assert row["specialization_id"] is None
    assert recording.launches["error"].tolist() == ["SyntaxError"]
    assert recording.launches["specialization_id"].isna().all()


def test_ctrl_c_passes(qd: Any) -> None:
    kernel = array_kernel(qd)

    def interrupt() -> None:
        raise KeyboardInterrupt

    def stop() -> None:
        kernel.on_device = interrupt
        with pytest.raises(KeyboardInterrupt):
            kernel(F32, 1.0)

    assert record(stop).launches["error"].tolist() == ["KeyboardInterrupt"]


def test_results_pass_and_arguments_are_not_kept(qd: Any) -> None:
    kernel = qd.Kernel(body, arguments=(("x", NdarrayType()),))
    array = Array("f32")
    results: list[Any] = []
    recorder = Recorder("toy", probes=[QuadrantsProbe()]).start()
    results.append(kernel(array))
    assert results.pop() == (array,)
    gone = weakref.ref(array)
    del array
    gc.collect()
    assert gone() is None
    recorder.stop()


def test_undone_exactly(qd: Any) -> None:
    owners = (qd.Kernel, qd.KernelCxx, qd.Program)
    before = [dict(vars(owner)) for owner in owners]
    codes = [qd.Kernel.__call__.__code__, qd.Program.launch_kernel.__code__]
    kernel = array_kernel(qd)
    record(lambda: kernel(F32, 1.0))
    assert [dict(vars(owner)) for owner in owners] == before
    assert [qd.Kernel.__call__.__code__, qd.Program.launch_kernel.__code__] == codes
    assert qd.Kernel.__call__.__kwdefaults__ is None
    kernel(F32, 1.0)


def test_wrapper_of_another_tool_stays(qd: Any) -> None:
    kernel = array_kernel(qd)
    probe = QuadrantsProbe()
    recorder = Recorder("toy", probes=[probe]).start()
    seen: list[str] = []
    inner = qd.Kernel.__call__

    def outer(self: Any, *args: Any, **kwargs: Any) -> Any:
        seen.append("outer")
        return inner(self, *args, **kwargs)

    qd.Kernel.__call__ = outer
    kernel(F32, 1.0)
    recording = recorder.stop()
    assert len(recording.launches) == 1
    kernel(F32, 1.0)
    assert seen == ["outer", "outer"]
    assert qd.Kernel.__call__ is outer


def test_threads_have_their_own_launches(qd: Any) -> None:
    kernel = array_kernel(qd)

    def launch() -> None:
        for _ in range(100):
            kernel(F32, 1.0)

    def run() -> None:
        threads = [threading.Thread(target=launch) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    launches = record(run).launches
    assert len(launches) == 400
    assert launches["thread_id"].value_counts().tolist() == [100] * 4
    assert launches["error"].isna().all()


def test_many_launches_fill_more_than_a_chunk(qd: Any) -> None:
    kernel = array_kernel(qd)

    def run() -> None:
        for _ in range(10_000):
            kernel(F32, 1.0)

    launches = record(run).launches
    assert len(launches) == 10_000
    assert (launches["cache"] == "memory").sum() == 9_999


def test_launch_inside_of_a_launch_is_its_child(qd: Any) -> None:
    kernel, inner = array_kernel(qd), qd.Kernel(body)
    kernel.on_device = lambda: inner()
    launches = record(lambda: kernel(F32, 1.0)).launches
    assert launches["parent_launch_id"].tolist()[1] == 0
    assert launches["dispatcher_id"].nunique() == 2


def test_error_of_our_own_is_swallowed(qd: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> int:
        raise RuntimeError("ours")

    monkeypatch.setattr("kernelscope.probes.quadrants.facts.Facts.target", broken)
    kernel = array_kernel(qd)
    results: list[Any] = []
    recording = record(lambda: results.append(kernel(F32, 1.0)))
    assert results == [(F32, 1.0)]
    assert "ours" in recording.health["message"].tolist()[0]
    assert recording.health["dropped"].tolist()[0] == 1


def test_version_that_was_not_tried_is_degraded(monkeypatch: pytest.MonkeyPatch) -> None:
    qd = toy_quadrants.make(version="9.9.0")
    toy_quadrants.install(qd, monkeypatch)
    kernel = array_kernel(qd)
    recording = record(lambda: kernel(F32, 1.0))
    row = recording.rows("health")[0]
    assert (row["probe"], row["status"]) == ("quadrants", "degraded")
    assert "quadrants 9.9.0 was not tried" in row["message"]
    assert len(recording.launches) == 1


def test_missing_getter_leaves_graphs_out(monkeypatch: pytest.MonkeyPatch) -> None:
    qd = on_cuda(monkeypatch)
    del qd.Program.get_graph_total_builds
    kernel = array_kernel(qd, graph=True)
    recording = record(lambda: kernel(F32, 1.0))
    row = recording.rows("health")[0]
    assert row["status"] == "degraded"
    assert "get_graph_total_builds" in row["message"]
    assert len(recording.launches) == 1


@pytest.mark.parametrize(("owner", "name"), [
    ("Kernel", "launch_kernel"), ("KernelCxx", "make_launch_context"), ("Program", "launch_kernel"),
    ("Program", "compile_kernel"),
])
def test_missing_function_makes_it_unavailable(qd: Any, owner: str, name: str) -> None:
    delattr(getattr(qd, owner), name)
    row = record().rows("health")[0]
    assert (row["probe"], row["status"]) == ("quadrants", "unavailable")
    assert f"{owner} has no {name}" in row["message"]
    assert "quadrants==" in row["fix"]


def test_other_signature_makes_it_unavailable(qd: Any) -> None:
    qd.Kernel.__call__ = lambda self, *args: None
    assert "does not take (self, py_args, kwargs)" in record().rows("health")[0]["message"]


def test_missing_front_end_function_is_told(qd: Any) -> None:
    del qd.Kernel._try_load_fastcache
    qd.Kernel.materialize = lambda self, key, args, features=None: self.materialized_kernels.setdefault(
        key, qd.KernelCxx(self))
    kernel = array_kernel(qd)
    recording = record(lambda: kernel(F32, 1.0))
    assert "front end" in recording.rows("health")[0]["message"]
    assert recording.launches["cache"].tolist() == ["compiled"]


def test_device_is_waited_for_only_after_launches(qd: Any) -> None:
    kernel = array_kernel(qd)
    record()
    assert qd.runtime._prog.synchronized == 0
    record(lambda: kernel(F32, 1.0))
    assert qd.runtime._prog.synchronized


def test_failure_of_the_device_is_told(qd: Any) -> None:
    kernel = array_kernel(qd)
    probe = QuadrantsProbe()
    recorder = Recorder("toy", probes=[probe]).start()
    kernel(F32, 1.0)
    qd.Program.synchronize = lambda self: 1 / 0
    assert probe.synchronize() == "ZeroDivisionError: division by zero"
    assert probe._sink is not None
    probe._sink.is_capturing = lambda: True
    assert "capturing" in (probe.synchronize() or "")
    recorder.stop()


def test_recorded_only_while_hooked(qd: Any) -> None:
    kernel = array_kernel(qd)
    kernel(F32, 1.0)
    assert len(record(lambda: kernel(F32, 1.0)).launches) == 1
    kernel(F32, 1.0)
    assert len(record(lambda: kernel(F32, 1.0)).launches) == 1


def test_cost_is_measured() -> None:
    assert 0 <= measure_cost("phases", rounds=3, launches=20) < 1e6


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
    return probe._sink
