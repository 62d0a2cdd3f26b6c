"""Traces in Chrome's JSON as recordings: of torch.profiler, of JAX's profiler, and made by hand."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from counting import lines_run
from foreign_traces import event, launched, write_json

import kernelscope
from kernelscope.analysis.columns import Intervals
from kernelscope.analysis.gpu import host_states
from kernelscope.recording.model import Recording
from kernelscope.schema import TABLES
from kernelscope.views.timeline.build import timeline_of

TRACES = Path(__file__).parent / "traces"
#: Of each trace: activities by kind, launches, ranges, API calls, processes.
EXPECTED = {
    "kineto_training": ({"kernel": 105, "memcpy": 10, "memset": 5, "sync": 6}, 105, 15, 25, 1),
    "kineto_graph": ({"kernel": 10, "memcpy": 1, "sync": 3}, 2, 1, 5, 1),
    "kineto_2023": ({"kernel": 79, "memcpy": 16, "memset": 3, "sync": 21}, 79, 8, 212, 1),
    "kineto_event_sync": ({"kernel": 4, "memcpy": 1, "sync": 4}, 4, 1, 3, 1),
    "kineto_triton": ({"kernel": 1, "sync": 1}, 1, 1, 0, 2),
    "jax_matmul": ({"kernel": 12}, 0, 0, 3, 1),
}


def opened(path: Path, events: Any, **head: Any) -> Recording:
    return kernelscope.load(write_json(path / "trace.json", events, **head))


def rows(recording: Recording, table: str, **wanted: Any) -> list[dict[str, Any]]:
    return [row for row in recording.rows(table) if all(row[name] == value for name, value in wanted.items())]


@pytest.mark.parametrize("name", EXPECTED)
def test_what_real_traces_have(name: str) -> None:
    recording = kernelscope.load(TRACES / f"{name}.json.gz")
    kinds = recording.column("activities", "kind").tolist()
    counts = {kind: kinds.count(kind) for kind in dict.fromkeys(sorted(kinds))}
    found = [recording.arrow(table).num_rows for table in ("launches", "ranges", "api_calls", "processes")]
    assert (dict(sorted(EXPECTED[name][0].items())), *EXPECTED[name][1:]) == (counts, *found)
    assert not re.search(r"\d compile", recording.summary())
    assert {-1, *recording.column("activities", "stream").tolist()} <= {-1, 7, 14, 20}
    timeline = timeline_of(recording)
    assert timeline.activities == len(kinds)


@pytest.mark.parametrize("name", EXPECTED)
def test_saved_and_loaded_they_are_the_same(name: str, tmp_path: Path) -> None:
    recording = kernelscope.load(TRACES / f"{name}.json.gz")
    again = kernelscope.load(recording.save(tmp_path / "again.kscope"))
    for table in TABLES:
        assert again.rows(table) == recording.rows(table), table
    assert dict(again.metadata) == dict(recording.metadata)


def test_training_by_range_and_operator() -> None:
    recording = kernelscope.load(TRACES / "kineto_training.json.gz")
    by_range = recording.by_range().set_index("path")
    assert by_range["ranges"].to_dict() == {
        "forward": 5, "Optimizer.step#SGD.step": 5, "Optimizer.zero_grad#SGD.zero_grad": 5}
    assert by_range.loc["forward", "launches"] == 40
    by_operator = recording.by_operator().set_index("operator")
    assert by_operator.loc["aten::addmm", ["calls", "launches"]].tolist() == [10, 25]
    assert by_operator["launches"].sum() == 105  # none without an operator
    (device,) = recording.rows("devices")
    assert (device["name"], device["multiprocessors"], device["uuid"]) == ("NVIDIA H100 80GB HBM3", 132, None)
    assert recording.metadata["imported"]["version"] == "with CUPTI 130001"


def test_kernels_of_graphs_belong_to_the_graph_launches() -> None:
    recording = kernelscope.load(TRACES / "kineto_graph.json.gz")
    launches = rows(recording, "graph_events", kind="launch")
    assert len(launches) == 4 and len({row["exec_id"] for row in launches}) == 1
    for launch in launches:
        assert len(rows(recording, "activities", graph_event_id=launch["graph_event_id"])) == 2
    assert any("told apart by what they ran" in row["message"] for row in recording.rows("health"))
    assert recording.metadata["imported"]["skipped"] == {"python_function": 232, "overhead": 2}


def test_jax_says_its_kernels_configurations() -> None:
    recording = kernelscope.load(TRACES / "jax_matmul.json.gz")
    kernel = rows(recording, "activities", name="gemm_fusion_dot")[0]
    assert (kernel["stream"], kernel["regs"], kernel["end_ns"] - kernel["start_ns"]) == (14, 184, 5_760)
    configuration = recording.rows("configurations")[kernel["configuration_id"]]
    assert [configuration[name] for name in ("griddim_x", "blockdim_x", "sharedmem_bytes")] == [128, 64, 49152]
    assert recording.rows("processes")[0]["pid"] is None  # 701 is what XLA calls every host
    assert "clock" not in recording.metadata


def xla(tid: int, name: str, ts: float, **said: str) -> dict[str, Any]:
    return {"ph": "X", "pid": 1, "tid": tid, "ts": ts, "dur": 2.5, "name": name, "args": said}


def test_copies_and_tracks_of_xla(tmp_path: Path) -> None:
    def named(kind: str, name: str, **where: int) -> dict[str, Any]:
        return {"ph": "M", "pid": 1, "name": kind, "args": {"name": name}, **where}

    recording = opened(tmp_path, {"displayTimeUnit": "ns", "traceEvents": [
        named("process_name", "/device:GPU:3 Compute"), named("thread_name", "Stream #14(MemcpyH2D,Compute)", tid=14),
        named("thread_name", "XLA Ops", tid=90),
        xla(14, "MemcpyH2D", 1.5, correlation_id="7",
            memcpy_details="kind_src:pageable kind_dst:device size:4096 dest:3 async:1"),
        xla(14, "MemcpyD2H", 9, memcpy_details="kind:pageable size:8 dest:0 async:1"),
        xla(14, "Memset", 11.25), xla(90, "fusion", 20),
        {"ph": "X", "pid": 2, "tid": 5, "ts": 0, "dur": 1, "name": "cuMemcpyHtoDAsync_v2",
         "args": {"correlation_id": 7}},
        {"ph": "X", "pid": 2, "tid": 5, "ts": 0, "dur": 1, "name": "PjitFunction(f)"}, {}]})
    first, second, third = recording.rows("activities")
    assert [first[name] for name in ("kind", "name", "memory", "size_bytes", "stream", "start_ns", "api")] == [
        "memcpy", "HtoD", "pageable to device", 4096, 14, 1_500, "cuMemcpyHtoDAsync_v2"]
    assert [second[name] for name in ("name", "memory", "size_bytes", "api")] == ["DtoH", None, 8, None]
    assert (third["kind"], third["size_bytes"], recording.rows("devices")[0]["ordinal"]) == ("memset", None, 3)
    assert recording.metadata["imported"]["skipped"] == {
        "events of tracks that are made of others": 1, "events of the host": 1}


def test_times_are_exact_to_the_nanosecond(tmp_path: Path) -> None:
    # As floats, both times would be a multiple of 250 ns.
    text = json.dumps({"schemaVersion": 1, "traceEvents": launched("f", 0, 5)})
    text = text.replace('"ts": 0,', '"ts": 1712195495505583.123,').replace('"ts": 10,', '"ts": 1712195495505593.126,')
    text = text.replace('"dur": 3,', '"dur": 1.0014999,')
    (tmp_path / "exact.json").write_text(text)
    recording = kernelscope.load(tmp_path / "exact.json")
    (kernel,) = recording.rows("activities")
    assert (kernel["start_ns"], kernel["end_ns"], kernel["submit_end_ns"]) == (10_003, 11_004, 5_000)
    assert recording.metadata["clock"]["wall_ns"] == 1712195495505583123


def test_the_base_time_may_come_last(tmp_path: Path) -> None:
    events = json.dumps(launched("f", 2_000, 5))
    (tmp_path / "last.json").write_text(
        f'{{"traceEvents": {events}, "schemaVersion": 1, "baseTimeNanoseconds": 1790857026000000000}}')
    recording = kernelscope.load(tmp_path / "last.json")
    assert recording.metadata["clock"] == {"host_ns": 0, "wall_ns": 1790857026002000000}


def test_shared_memory_is_known_only_where_there_is_none(tmp_path: Path) -> None:
    with_some = launched("g", 50, 6)
    with_some[1]["args"]["shared memory"] = 512  # static and dynamic: which is not said
    recording = opened(tmp_path, [*launched("f", 10, 5), *with_some])
    shared = {recording.rows("dispatchers")[launch["dispatcher_id"]]["name"]:
              recording.rows("configurations")[launch["configuration_id"]]["sharedmem_bytes"]
              for launch in recording.rows("launches")}
    assert shared == {"f": 0, "g": None}


def test_what_a_trace_does_not_say_is_null(tmp_path: Path) -> None:
    recording = opened(tmp_path, [event("kernel", "f", 10, pid=0, tid=7)])
    (kernel,) = recording.rows("activities")
    assert {kernel[name] for name in ("device_id", "stream", "correlation_id", "regs", "launch_id", "api")} == {None}
    assert recording.rows("launches") == recording.rows("devices") == []


def test_a_list_of_events_may_lack_its_end(tmp_path: Path) -> None:
    text = json.dumps([*launched("f", 10, 5), *launched("g", 50, 6)])
    for name, cut in (("whole", text), ("open", text[:-1]), ("comma", text[:-1] + ",\n")):
        (tmp_path / f"{name}.json").write_text(cut)
        assert len(kernelscope.load(tmp_path / f"{name}.json").rows("launches")) == 2


def test_processes_with_the_same_correlation_ids(tmp_path: Path) -> None:
    recording = opened(tmp_path, [*launched("f", 10, 5, pid=31), *launched("g", 50, 5, pid=32),
                                  *launched("h", 90, 6, pid=32)])
    assert len(recording.rows("processes")) == 3  # one of the kernels that are of either
    assert len(recording.rows("launches")) == 1
    assert any("2 activities may be of several processes" in row["message"] for row in recording.rows("health"))


def test_threads_that_are_called_by_a_text(tmp_path: Path) -> None:
    events = launched("f", 10, 5)
    events[0]["tid"] = "worker a"
    recording = opened(tmp_path, events)
    assert [row["name"] for row in recording.rows("threads")] == ["worker a"]


def test_operators_that_are_inside_of_one_another(tmp_path: Path) -> None:
    recording = opened(tmp_path, [
        event("cpu_op", "outer", 0, 100), event("cpu_op", "inner", 10, 30), event("cpu_op", "inner", 40, 30),
        *launched("f", 12, 5), *launched("f", 42, 6), *launched("f", 90, 7), *launched("f", 200, 8)])
    found = {row["path"]: (row["calls"], row["host_ns"], row["own_ns"]) for row in recording.rows("operators")}
    assert found == {"outer": (1, 100_000, 40_000), "outer / inner": (2, 60_000, 60_000)}
    assert [row["operator_id"] is None for row in recording.rows("launches")] == [False, False, False, True]


def test_names_of_any_kind(tmp_path: Path) -> None:
    names = ["a\x00b\x1b[31m", "\ud800half", "", "ü" * 10, "x" * 100_000]
    recording = opened(tmp_path, [each for at, name in enumerate(names) for each in launched(name, 100 * at, at + 1)])
    again = kernelscope.load(recording.save(tmp_path / "names.kscope"))
    assert again.rows("activities") == recording.rows("activities")
    assert "\x1b" not in recording.summary()
    assert max(len(row["name"]) for row in recording.rows("activities")) == 1 << 16


def test_the_old_names_of_categories(tmp_path: Path) -> None:
    events = launched("f", 10, 5)
    events[0]["cat"], events[1]["cat"] = "Runtime", "Kernel"
    assert len(opened(tmp_path, events).rows("launches")) == 1


def test_two_traces_and_a_recording_become_one(tmp_path: Path) -> None:
    merged = kernelscope.merge([TRACES / "kineto_training.json.gz", TRACES / "kineto_graph.json.gz"])
    assert len(merged.rows("launches")) == 107
    assert [row["pid"] for row in merged.rows("processes")] == [572]  # one process, traced twice


def test_launches_graphs_and_waits_of_rocm(tmp_path: Path) -> None:
    """torch.profiler on ROCm has HIP's functions in CUDA's categories."""
    events = []
    for at, name in enumerate(("hipLaunchKernel", "hipExtModuleLaunchKernel", "hipModuleLaunchKernel",
                               "hipExtLaunchKernel", "hipLaunchCooperativeKernel"), 1):
        events += [event("cuda_runtime", name, 100 * at, 10, correlation=at),
                   event("kernel", f"k{at}", 100 * at + 20, 5, pid=2, tid=0, device=2, stream=0, correlation=at,
                         grid=[4, 1, 1], block=[64, 1, 1])]
    events += [event("cuda_runtime", "hipGraphLaunch", 600, 10, correlation=6),
               *(event("kernel", "node", at, 5, pid=2, tid=0, device=2, stream=0, correlation=6) for at in (620, 630)),
               event("cuda_runtime", "hipMemcpyAsync", 700, 10, correlation=7),
               event("gpu_memcpy", "Memcpy DtoH (Device -> Host)", 720, 10, pid=2, tid=0, device=2, stream=0,
                     correlation=7, bytes=256),
               event("cuda_runtime", "hipDeviceSynchronize", 800, 100, correlation=8),
               event("cuda_runtime", "hipMalloc", 900, 50, correlation=9)]
    device = {"id": 2, "name": "AMD Instinct", "computeMajor": 9, "computeMinor": 4, "warpSize": 64, "numSms": 304}
    recording = opened(tmp_path, events, deviceProperties=[device])
    launches = recording.rows("launches")
    assert [row["execute_ns"] for row in launches] == [5_000] * 5
    (graph,) = rows(recording, "graph_events", kind="launch")
    assert graph["api"] == "hipGraphLaunch"
    assert len(rows(recording, "activities", graph_event_id=graph["graph_event_id"])) == 2
    (copy,) = rows(recording, "activities", kind="memcpy")
    (wait,) = rows(recording, "activities", kind="sync")
    assert (copy["api"], wait["name"], wait["api"]) == (
        "hipMemcpyAsync", "context synchronize", "hipDeviceSynchronize")
    spent = host_states(recording).time_in(Intervals(np.array([0]), np.array([950_000])))
    assert {state: spent[state] for state in ("submit", "graph", "copy", "memory", "wait", "call")} == {
        "submit": 50_000, "graph": 10_000, "copy": 10_000, "memory": 50_000, "wait": 100_000, "call": 0}
    (row,) = recording.rows("devices")
    assert (row["compute_capability"], row["multiprocessors"]) == (None, 304)  # gfx942 is none of CUDA's
    redacted = recording.redacted()
    assert {row["api"] for row in redacted.rows("activities")} >= {"hipLaunchKernel", "hipMemcpyAsync"}


def test_text_that_is_not_in_utf_8(tmp_path: Path) -> None:
    path = write_json(tmp_path / "trace.json", launched("ker\u00eel", 10, 5))
    path.write_bytes(path.read_bytes().replace(rb"\u00ee", b"\xee"))
    recording = kernelscope.load(path)
    assert {row["name"] for row in recording.rows("activities")} == {"ker\ufffdl"}
    (row,) = rows(recording, "health", status="degraded")
    assert "not in UTF-8 from byte" in row["message"] and "which is 0xee" in row["message"]


def test_what_autograd_launched_is_beside_the_range_around_it(tmp_path: Path) -> None:
    events = [event("user_annotation", "ProfilerStep#3", 0, 500), event("user_annotation", "## backward ##", 100, 300),
              *launched("forward", 10, 1), *launched("loss", 110, 2), *launched("optimizer", 420, 3)]
    for at in range(3):
        call, kernel = launched("gradient", 150 + 50 * at, 10 + at)
        events += [{**call, "tid": 77}, kernel]
    found = opened(tmp_path, events).by_range().set_index("path")
    assert found["launches"].to_dict() == {"ProfilerStep#3": 2, "ProfilerStep#3 / ## backward ##": 1}
    assert found["other_launches"].to_dict() == {"ProfilerStep#3": 0, "ProfilerStep#3 / ## backward ##": 3}
    assert found.loc["ProfilerStep#3 / ## backward ##", "other_gpu_ns"] == 9_000


def many_processes(count: int) -> list[dict[str, Any]]:
    """Processes that each launch and wait, inside an operator; every second one has a thread more that does."""
    events: list[dict[str, Any]] = []
    for number in range(count):
        pid, at = 100 + number, 100 * number
        call, kernel = launched("axpy", at + 10, number, pid=pid)
        events += [event("cpu_op", "aten::add", at, 90, pid=pid, tid=pid), call, kernel,
                   event("cuda_runtime", "cudaDeviceSynchronize", at + 50, 20, pid=pid, tid=pid,
                         correlation=1_000_000 + number)]
        if number % 2:
            call, kernel = launched("scale", at + 30, 500_000 + number, pid=pid)
            events += [event("cpu_op", "aten::mul", at + 25, 20, pid=pid, tid=pid + 50_000),
                       {**call, "tid": pid + 50_000}, kernel]
    return events


def test_hundreds_of_processes_with_operators(tmp_path: Path) -> None:
    recording = opened(tmp_path, many_processes(500))
    assert (len(recording.rows("processes")), len(recording.rows("launches"))) == (500, 750)
    assert len(rows(recording, "activities", kind="sync")) == 500
    operators = recording.rows("operators")
    assert len(operators) == 750 and {row["calls"] for row in operators} == {1}
    process = [row["process_id"] for row in recording.rows("threads")]
    for launch in recording.rows("launches"):
        assert operators[launch["operator_id"]]["process_id"] == process[launch["thread_id"]]
    paths = [write_json(tmp_path / f"{count}.json", many_processes(count)) for count in (200, 400)]
    few, many = (lines_run(lambda path=path: kernelscope.load(path)) for path in paths)
    assert many < 2.1 * few


def test_graphs_that_a_trace_names(tmp_path: Path) -> None:
    """Newer versions of Kineto write CUPTI's ids of graphs and nodes; 0 is none. A copy may lack them."""
    events: list[dict[str, Any]] = []
    for at, graph in enumerate((4, 4, 6)):
        events += [event("cuda_runtime", "cudaGraphLaunch", 100 * at, 5, correlation=at),
                   event("kernel", "node", 100 * at + 10, 5, pid=0, tid=7, device=0, stream=7, correlation=at,
                         **{"graph id": graph, "graph node id": graph << 32 | 1}),
                   event("gpu_memcpy", "Memcpy DtoD (Device -> Device)", 100 * at + 20, 5, pid=0, tid=7, device=0,
                         stream=7, correlation=at, bytes=8)]
    call, kernel = launched("alone", 900, 77)
    kernel["args"] |= {"graph id": 0, "graph node id": 0}
    recording = opened(tmp_path, [*events, call, kernel])
    assert [row["cupti_graph_id"] for row in recording.rows("activities")] == [4, 4, 4, 4, 6, 6, None]
    assert rows(recording, "activities", name="node")[0]["cupti_node_id"] == 4 << 32 | 1
    launches = rows(recording, "graph_events", kind="launch")
    assert len(launches) == 3 and len({row["exec_id"] for row in launches}) == 2
    assert not rows(recording, "health", status="degraded")


def test_the_first_versions_of_kineto(tmp_path: Path) -> None:
    """They had other names of categories and devices' properties, and threads as text."""
    call, kernel = launched("axpy", 10, 5)
    device = {"id": 0, "name": "Tesla V100", "major": 7, "minor": 0, "multiProcessorCount": 80,
              "maxThreadsPerMultiProcessor": 2048}
    recording = opened(tmp_path, [
        {**call, "cat": "Runtime", "tid": "31"}, {**kernel, "cat": "Kernel", "tid": "stream 7"},
        event("Operator", "aten::add", 0, 90, tid="31"),
        {"ph": "M", "name": "thread_name", "pid": 31, "tid": "31", "args": {"name": "main"}},
    ], computeProperties=[device])
    (row,) = recording.rows("devices")
    assert (row["name"], row["compute_capability"], row["multiprocessors"], row["max_threads_per_multiprocessor"]) == (
        "Tesla V100", "7.0", 80, 2048)
    assert [(row["ident"], row["name"]) for row in recording.rows("threads")] == [(31, "main")]
    (launch,) = recording.rows("launches")
    assert recording.rows("operators")[launch["operator_id"]]["name"] == "aten::add"
