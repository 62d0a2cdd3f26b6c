"""Exports of Nsight Systems as recordings: SQLite and Parquet, of two versions, of one process and of several."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from counting import lines_run
from foreign_traces import EPOCH_NS, MS, US, Tables, global_id, nsys_tables, write_folder, write_sqlite

import kernelscope
from kernelscope.analysis.activities import busy_table
from kernelscope.recording.model import Recording
from kernelscope.schema import TABLES
from kernelscope.units import MISSING
from kernelscope.views.timeline.build import timeline_of

Write = Callable[[Path, Tables], Path]


@pytest.fixture
def recording(tmp_path: Path) -> Recording:
    return kernelscope.load(write_sqlite(tmp_path / "report.sqlite", nsys_tables()))


def rows(recording: Recording, table: str, **wanted: Any) -> list[dict[str, Any]]:
    return [row for row in recording.rows(table) if all(row[name] == value for name, value in wanted.items())]


def assert_same(recording: Recording, other: Recording, *, but: tuple[str, ...] = ()) -> None:
    for name in TABLES:
        if name not in but:
            assert recording.rows(name) == other.rows(name), name


def test_a_call_that_launched_a_kernel_is_a_launch(recording: Recording) -> None:
    launch, *others = recording.rows("launches")
    assert len(others) == 3
    assert (launch["start_ns"], launch["end_ns"]) == (launch["submit_start_ns"], launch["submit_end_ns"])
    assert (launch["queue_ns"], launch["execute_ns"]) == (2_000, 3_000)
    assert launch["dispatch_end_ns"] is launch["compile_ns"] is launch["cache"] is launch["gc_ns"] is None
    kernel = recording.rows("dispatchers")[launch["dispatcher_id"]]
    assert (kernel["framework"], kernel["name"]) == ("driver", "axpy<float>")
    configuration = recording.rows("configurations")[launch["configuration_id"]]
    assert (configuration["griddim_x"], configuration["blockdim_x"], configuration["sharedmem_bytes"]) == (8, 256, 0)
    assert configuration["cluster_x"] is configuration["stream"] is None


def test_what_is_known_of_a_kernel(recording: Recording) -> None:
    axpy, scale = recording.rows("specializations")
    assert (axpy["entry_name"], axpy["signature"], axpy["regs"]) == ("_Z4axpyIfEviPf", "(int, float*)", 24)
    assert (axpy["static_shared_bytes"], axpy["local_bytes"], scale["regs"]) == (128, 16, 25)
    assert axpy["cubin_bytes"] is axpy["compute_capability"] is None


def test_copies_sets_and_waits(recording: Recording) -> None:
    (copy,) = rows(recording, "activities", kind="memcpy")
    assert (copy["name"], copy["memory"], copy["size_bytes"]) == ("HtoD", "pageable to device", 4096)
    assert copy["api"] == "cudaMemcpyAsync_v3020"
    (memset,) = rows(recording, "activities", kind="memset")
    assert (memset["name"], memset["memory"], memset["size_bytes"], memset["api"]) == ("memset", "device", 512, None)
    (wait,) = rows(recording, "activities", kind="sync")  # a stream that waits is not the host that waits
    assert (wait["name"], wait["api"]) == ("stream synchronize", "cudaStreamSynchronize_v3020")
    assert {row["name"] for row in recording.rows("api_calls")} == {"cudaMalloc_v3020"}


def test_graph_launches(recording: Recording) -> None:
    (launch,) = rows(recording, "graph_events", kind="launch")
    nodes = rows(recording, "activities", graph_event_id=launch["graph_event_id"])
    assert [row["cupti_node_id"] & 0xFFFFFFFF for row in nodes] == [1, 2]
    assert {row["cupti_graph_id"] for row in nodes} == {9} and {row["launch_id"] for row in nodes} == {None}
    assert launch["execute_ns"] == 7_000


def test_ranges_and_marks(recording: Recording) -> None:
    training, step = rows(recording, "ranges", name="training")[0], rows(recording, "ranges", name="step")[0]
    assert (training["domain"], training["kind"], training["depth"]) == ("train", "push_pop", 0)
    assert training["color"] is training["category"] is training["payload"] is None
    assert (step["category"], step["color"], step["payload"]) == ("steps", "#76b900", "0")
    assert (step["depth"], step["parent_range_id"]) == (1, training["range_id"])
    assert [row["kind"] for row in rows(recording, "ranges", domain=None, category=None)] == ["start_end", "mark"]
    found = recording.by_range().set_index("path")
    assert found.loc["training / step", "launches"] == 4
    assert found.loc["training / step", "kernel_ns"] == 12_000


def test_threads_devices_and_the_clock(recording: Recording) -> None:
    assert [(row["ident"], row["name"]) for row in recording.rows("threads")] == [(4000, "main")]
    (device,) = recording.rows("devices")
    assert (device["name"], device["uuid"], device["compute_capability"]) == ("NVIDIA H100", "GPU-uuid-0", "9.0")
    assert (device["multiprocessors"], device["max_threads_per_multiprocessor"]) == (132, 2048)
    assert device["copy_bytes_per_second"] is None
    (process,) = recording.rows("processes")
    assert (process["pid"], process["start_ns"]) == (4000, 10 * MS)
    assert recording.metadata["clock"] == {"host_ns": 0, "wall_ns": EPOCH_NS}


def test_who_wrote_it_and_what_was_left_out(recording: Recording) -> None:
    assert recording.is_imported
    assert recording.metadata["imported"] == {
        "from": "Nsight Systems", "format": "a SQLite export (schema 3.15.1)", "version": "2024.7.1.84-1",
        "skipped": {"OSRT_API": 7}}
    messages = [(row["status"], row["message"]) for row in recording.rows("health")]
    assert messages[1:] == [("ok", "left out: 7 OSRT_API"),
                            ("degraded", "Nsight Systems said: Not all CUDA events were collected.")]


def test_the_card_claims_no_compiles(recording: Recording) -> None:
    text = recording.summary()
    assert "4 launches, 1 graph launch, 6 ran on the GPU, 2 kernels, 20.0 µs in launches" in text
    assert "compiles" not in text.split("Recording\n")[0]
    assert "Python outside" not in text  # the program may have been of any language
    assert "Nsight Systems 2024.7.1" in " ".join(text.split())


def test_the_timeline_has_the_gpu_and_the_ranges(recording: Recording) -> None:
    timeline = timeline_of(recording)
    assert {name: len(timeline.tables[name]) for name in ("launches", "ranges", "gpu", "graphs")} == {
        "launches": 4, "ranges": 7, "gpu": 8, "graphs": 1}
    assert (timeline.first_ns, timeline.span_ns, timeline.undrawn) == (10 * MS, 421_000, 0)


@pytest.mark.parametrize("write", [write_sqlite, write_folder])
@pytest.mark.parametrize("version", [2020, 2024])
def test_both_forms_say_the_same(tmp_path: Path, write: Write, version: int) -> None:
    expected = kernelscope.load(write_sqlite(tmp_path / "first", nsys_tables(version=version, processes=2)))
    found = kernelscope.load(write(tmp_path / "report", nsys_tables(version=version, processes=2)))
    assert_same(found, expected, but=("health",))


@pytest.mark.parametrize("write", [write_sqlite, write_folder])
def test_an_old_export_leaves_unknown_what_it_does_not_say(tmp_path: Path, write: Write) -> None:
    recording = kernelscope.load(write(tmp_path / "old", nsys_tables(version=2020)))
    assert len(recording.rows("launches")) == 4
    assert {row["memory"] for row in recording.rows("activities")} == {None}
    assert {row["entry_name"] for row in recording.rows("specializations")} == {None}
    assert {row["local_bytes"] for row in recording.rows("specializations")} == {None}
    assert {row["name"] for row in recording.rows("devices")} == {None}
    assert {row["name"] for row in recording.rows("ranges")} == {"training", "step", "copy in", "mark"}
    assert "clock" not in recording.metadata and recording.metadata["imported"]["version"] is None


def test_several_processes_stay_apart(tmp_path: Path) -> None:
    recording = kernelscope.load(write_sqlite(tmp_path / "two.sqlite", nsys_tables(processes=2)))
    assert [(row["pid"], row["host"], row["gpu_uuid"]) for row in recording.rows("processes")] == [
        (4000, "node7", "GPU-uuid-0"), (4001, "node7", "GPU-uuid-1")]
    for process in (0, 1):
        own = recording.select(process=process)
        assert (len(own.rows("launches")), len(own.rows("activities"))) == (4, 9)
        assert own.by_range().set_index("path").loc["training / step", "launches"] == 4
    assert len(recording.rows("health")) == 3
    assert f"pid 4000 4 20.0 µs {MISSING} {MISSING}" in " ".join(recording.summary().split())


def test_a_call_and_a_kernel_of_two_processes_are_not_joined(tmp_path: Path) -> None:
    tables = nsys_tables(processes=2)
    names, kernels = tables["CUPTI_ACTIVITY_KIND_KERNEL"]
    at = names.index("globalPid")
    tables["CUPTI_ACTIVITY_KIND_KERNEL"] = names, [
        (*row[:at], global_id(4000), *row[at + 1:]) for row in kernels]  # all kernels are of the first one
    recording = kernelscope.load(write_sqlite(tmp_path / "two.sqlite", tables))
    process = recording.column("launches", "thread_id")
    assert len(process) == 4 and set(process.tolist()) == {0}


def test_saved_and_loaded_it_is_the_same(recording: Recording, tmp_path: Path) -> None:
    again = kernelscope.load(recording.save(tmp_path / "again.kscope"))
    assert_same(again, recording)
    assert dict(again.metadata) == dict(recording.metadata)
    assert again.summary() == recording.summary()


def test_redacted_it_names_nothing(recording: Recording) -> None:
    redacted = recording.redacted()
    assert redacted.metadata["imported"] == {"from": "Nsight Systems"}
    text = redacted.summary()
    assert not any(word in text for word in ("axpy", "training", "report", "OSRT"))
    assert "compiles" not in text.split("Recording\n")[0]


def with_whole_graphs(*, extra: tuple[str, ...] = ("graphId", "graphExecId")) -> Tables:
    """An export whose graph launch was traced as a whole, as nsys does without --cuda-graph-trace=node."""
    tables = nsys_tables()
    names, kernels = tables["CUPTI_ACTIVITY_KIND_KERNEL"]
    node = names.index("graphNodeId")
    nodes = [row for row in kernels if row[node] is not None]
    tables["CUPTI_ACTIVITY_KIND_KERNEL"] = names, [row for row in kernels if row[node] is None]
    correlation = nodes[0][names.index("correlationId")]
    tables["CUPTI_ACTIVITY_KIND_GRAPH_TRACE"] = (
        ("start", "end", "deviceId", "contextId", "streamId", "correlationId", "globalPid", *extra),
        [(nodes[0][0], nodes[0][0] + 7 * US, 0, 1, 7, correlation, global_id(4000), *(3, 9)[:len(extra)])])
    return tables


@pytest.mark.parametrize("write", [write_sqlite, write_folder])
def test_graphs_that_were_traced_as_a_whole_are_busy_time(tmp_path: Path, write: Write) -> None:
    recording = kernelscope.load(write(tmp_path / "whole", with_whole_graphs()))
    (graph,) = rows(recording, "activities", kind="graph")
    assert (graph["name"], graph["cupti_graph_id"], graph["launch_id"]) == ("CUDA graph 9", 9, None)
    (launch,) = rows(recording, "graph_events", kind="launch")
    assert (graph["graph_event_id"], launch["execute_ns"]) == (launch["graph_event_id"], 7_000)
    assert len(recording.rows("launches")) == 4 and len(rows(recording, "activities", kind="kernel")) == 4
    busy = busy_table(recording).iloc[0]
    assert (busy["kernel_ns"], busy["graph_ns"], busy["busy_ns"]) == (12_000, 7_000, 12_000 + 7_000 + 8_000 + 1_000)
    found = recording.by_range().set_index("path").loc["training"]
    assert (found["graph_ns"], found["gpu_ns"]) == (7_000, 7_000 + 8_000)
    assert any("1 launch of graphs traced as a whole" in row["message"] and row["status"] == "degraded"
               for row in recording.rows("health"))
    text = recording.summary()
    assert "kernel 12.0 µs" in text and "graphs 7.00 µs" in text
    assert "1 graph launch of 1 graph ran for 7.00 µs, traced as a whole" in " ".join(text.split())
    assert "copy or memset" not in text  # what ran in the graph is not known
    assert {row["name"] for row in recording.redacted().rows("activities") if row["kind"] == "graph"} == {
        "CUDA graph 9"}


def test_a_whole_graph_of_an_export_without_executable_graphs(tmp_path: Path) -> None:
    recording = kernelscope.load(write_sqlite(tmp_path / "whole", with_whole_graphs(extra=("graphId",))))
    (graph,) = rows(recording, "activities", kind="graph")
    assert (graph["name"], graph["cupti_graph_id"]) == ("CUDA graph 3", 3)


@pytest.mark.parametrize("write", [write_sqlite, write_folder])
def test_only_warnings_and_errors_are_degraded(tmp_path: Path, write: Write) -> None:
    tables = nsys_tables()
    tables["DIAGNOSTIC_EVENT"] = ("severity", "text"), [(1, "a"), (2, "b"), (3, "c"), (4, "d"), (0, "e"), (None, "f")]
    recording = kernelscope.load(write(tmp_path / "report", tables))
    assert [row["message"] for row in rows(recording, "health", status="degraded")] == [
        "Nsight Systems said: b", "Nsight Systems said: c"]
    tables["ENUM_DIAGNOSTIC_SEVERITY_LEVEL"] = ("id", "label"), [(4, "Warning"), (2, "Verbose")]  # the file's own
    recording = kernelscope.load(write(tmp_path / "other", tables))
    assert [row["message"] for row in rows(recording, "health", status="degraded")] == ["Nsight Systems said: d"]


@pytest.mark.parametrize("write", [write_sqlite, write_folder])
def test_the_newest_version_of_a_table_is_read(tmp_path: Path, write: Write) -> None:
    expected = kernelscope.load(write(tmp_path / "plain", nsys_tables()))
    tables = nsys_tables()
    for name in ("KERNEL", "MEMCPY", "MEMSET", "SYNCHRONIZATION", "RUNTIME"):
        tables[f"CUPTI_ACTIVITY_KIND_{name}_V3"] = tables.pop(f"CUPTI_ACTIVITY_KIND_{name}")
    tables["NVTX_EVENTS_V2"], tables["StringIds_V10"] = tables.pop("NVTX_EVENTS"), tables.pop("StringIds")
    tables["OSRT_API_V2"] = tables.pop("OSRT_API")
    tables["StringIds"] = tables["StringIds_V10"][0], []
    assert_same(kernelscope.load(write(tmp_path / "new", tables)), expected, but=("health",))
    names, kernels = tables["CUPTI_ACTIVITY_KIND_KERNEL_V3"]
    tables["CUPTI_ACTIVITY_KIND_KERNEL_V2"] = names, kernels[:3]
    tables["CUPTI_ACTIVITY_KIND_KERNEL_V4"] = names, []
    both = kernelscope.load(write(tmp_path / "both", tables))
    assert_same(both, expected, but=("health",))
    assert any("left out: 3 rows of the table CUPTI_ACTIVITY_KIND_KERNEL_V2" in row["message"]
               for row in rows(both, "health", status="degraded"))


def test_a_table_of_the_gpu_that_is_not_known_is_told(tmp_path: Path) -> None:
    tables = nsys_tables()
    tables["CUPTI_ACTIVITY_KIND_DECOMPRESSION"] = ("start", "end", "streamId"), [(1, 2, 7)] * 6
    tables["CUPTI_ACTIVITY_KIND_OVERHEAD"] = ("start", "end", "globalTid"), [(1, 2, 7)] * 5
    recording = kernelscope.load(write_sqlite(tmp_path / "report", tables))
    messages = [row["message"] for row in rows(recording, "health", status="degraded")]
    assert sum("6 rows of the table CUPTI_ACTIVITY_KIND_DECOMPRESSION, which is not known" in each
               for each in messages) == 1
    assert not any("OVERHEAD" in each for each in messages)
    assert recording.metadata["imported"]["skipped"]["CUPTI_ACTIVITY_KIND_OVERHEAD"] == 5


@pytest.mark.parametrize("write", [write_sqlite, write_folder])
def test_texts_that_are_not_in_utf_8(tmp_path: Path, write: Write) -> None:
    path = write(tmp_path / "report", nsys_tables())
    broken = b"sc\xffle(float*)"
    if path.is_dir():
        table = pq.read_table(path / "StringIds.parquet")
        values = [broken if text == "scale(float*)" else text.encode() for text in table["value"].to_pylist()]
        text = pa.Array.from_buffers(pa.string(), len(values), pa.array(values, pa.binary()).buffers())
        pq.write_table(table.set_column(1, "value", text), path / "StringIds.parquet")
    else:
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("UPDATE StringIds SET value = CAST(? AS TEXT) WHERE value = 'scale(float*)'", (broken,))
            connection.commit()
    recording = kernelscope.load(path)
    assert {row["name"] for row in rows(recording, "activities", kind="kernel")} == {
        "void axpy<float>(int, float*)", "sc\ufffdle(float*)"}
    assert [row["message"] for row in rows(recording, "health", status="degraded")][-1] == (
        "1 text is not in UTF-8: letters that cannot be read are replaced by \ufffd")


def test_waits_come_of_calls_where_the_export_has_none(tmp_path: Path) -> None:
    tables = nsys_tables()
    del tables["CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"]
    recording = kernelscope.load(write_sqlite(tmp_path / "calls.sqlite", tables))
    (wait,) = rows(recording, "activities", kind="sync")
    assert (wait["name"], wait["device_id"], wait["end_ns"] - wait["start_ns"]) == ("stream synchronize", None, 40_000)


def test_what_ends_before_it_starts_is_left_out(tmp_path: Path) -> None:
    tables = nsys_tables()
    names, copies = tables["CUPTI_ACTIVITY_KIND_MEMCPY"]
    tables["CUPTI_ACTIVITY_KIND_MEMCPY"] = names, [*copies, (5_000, 4_000, *copies[0][2:])]
    recording = kernelscope.load(write_sqlite(tmp_path / "reversed.sqlite", tables))
    assert len(rows(recording, "activities", kind="memcpy")) == 1
    assert "left out: 1 activity without a start, or with an end before it" in [
        row["message"] for row in recording.rows("health")]


def test_ranges_that_overlap_are_start_end_ranges(tmp_path: Path) -> None:
    tables = nsys_tables()
    names, ranges = tables["NVTX_EVENTS"]
    thread = global_id(4000, 4000)
    tables["NVTX_EVENTS"] = names, [*ranges, *(
        (begin * MS, end and end * MS, 59, thread, name, None, 0, None, None, None)
        for begin, end, name in ((20, 23, "first"), (22, 25, "second"), (26, 26, "empty"), (30, None, "open")))]
    recording = kernelscope.load(write_sqlite(tmp_path / "cross.sqlite", tables))
    kinds = {row["name"]: (row["kind"], row["end_ns"]) for row in recording.rows("ranges")}
    assert kinds["first"] == ("start_end", 23 * MS) and kinds["second"] == ("start_end", 25 * MS)
    assert kinds["empty"] == ("push_pop", 26 * MS) and kinds["open"] == ("start_end", None)
    assert kinds["step"][0] == "push_pop"


def test_what_begins_before_the_session_did(tmp_path: Path) -> None:
    tables = nsys_tables()
    names, copies = tables["CUPTI_ACTIVITY_KIND_MEMCPY"]
    tables["CUPTI_ACTIVITY_KIND_MEMCPY"] = names, [(-7, 9_000, *copies[0][2:])]
    recording = kernelscope.load(write_sqlite(tmp_path / "early.sqlite", tables))
    (copy,) = rows(recording, "activities", kind="memcpy")
    assert (copy["start_ns"], copy["end_ns"]) == (0, 9_007)
    assert recording.metadata["clock"] == {"host_ns": 7, "wall_ns": EPOCH_NS}
    assert np.all(recording.column("launches", "start_ns") >= 0)


def test_progress_ends_at_one(tmp_path: Path) -> None:
    told: list[float] = []
    kernelscope.load(write_sqlite(tmp_path / "report.sqlite", nsys_tables()),
                     progress=lambda fraction, text: told.append(fraction))
    assert told == sorted(told) and told[-1] == 1.0


def many_processes(count: int) -> Tables:
    """An export of processes that each launch two kernels, on two GPUs of their own, with the same correlation ids."""
    calls, kernels, ranges, devices = ([] for _ in range(4))
    for number in range(count):
        pid, begun = 4000 + number, 10 * MS + number * 10 * US
        for at in range(2):
            start = begun + at * 2 * US
            calls.append((start, start + US, global_id(pid, pid), 7 + at, 1, 0))
            kernels.append((start + US, start + 2 * US, at, 7, 7 + at, global_id(pid), 2, 3, 24, 8, 1, 1, 64, 1, 1))
            devices.append((pid, at, 2 * number + at, f"uuid-{2 * number + at}", 132))
        ranges.append((begun, begun + 9 * US, 59, global_id(pid, pid), "step"))
    return {
        "StringIds": (("id", "value"), [(1, "cudaLaunchKernel_v7000"), (2, "axpy(int)"), (3, "axpy")]),
        "CUPTI_ACTIVITY_KIND_RUNTIME": (("start", "end", "globalTid", "correlationId", "nameId", "returnValue"), calls),
        "CUPTI_ACTIVITY_KIND_KERNEL": ((
            "start", "end", "deviceId", "streamId", "correlationId", "globalPid", "demangledName", "shortName",
            "registersPerThread", "gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ"), kernels),
        "NVTX_EVENTS": (("start", "end", "eventType", "globalTid", "text"), ranges),
        "TARGET_INFO_GPU": (("id", "name", "uuid"), [
            (number, "NVIDIA H100", f"uuid-{number}") for number in range(2 * count)]),
        "TARGET_INFO_CUDA_DEVICE": (("pid", "cudaId", "gpuId", "uuid", "numMultiprocessors"), devices)}


def test_thousands_of_processes_and_devices(tmp_path: Path) -> None:
    recording = kernelscope.load(write_sqlite(tmp_path / "many.sqlite", many_processes(2_000)))
    processes, devices = recording.rows("processes"), recording.rows("devices")
    assert (len(processes), len(devices), len(recording.rows("launches"))) == (2_000, 4_000, 4_000)
    assert [row["pid"] for row in processes] == list(range(4_000, 6_000))
    assert {(row["name"], row["ordinal"]) for row in devices} == {("NVIDIA H100", 0), ("NVIDIA H100", 1)}
    launch, kernel = recording.rows("launches")[-1], recording.rows("activities")[-1]
    thread = recording.rows("threads")[launch["thread_id"]]
    assert (thread["ident"], thread["process_id"], kernel["process_id"]) == (5_999, 1_999, 1_999)
    assert launch["correlation_id"] == kernel["correlation_id"] == 8 and kernel["launch_id"] == launch["launch_id"]
    assert devices[kernel["device_id"]]["uuid"] == "GPU-uuid-3999"
    assert processes[1_999]["start_ns"] == 10 * MS + 1_999 * 10 * US
    (steps,) = recording.by_range().to_dict("records")
    assert (steps["ranges"], steps["launches"], steps["other_launches"]) == (2_000, 4_000, 0)


def test_twice_as_many_processes_are_twice_the_work(tmp_path: Path) -> None:
    paths = {count: write_sqlite(tmp_path / f"{count}.sqlite", many_processes(count)) for count in (300, 600)}
    kernelscope.load(paths[300])  # what is imported once does not count
    few, many = (lines_run(lambda path=path: kernelscope.load(path)) for path in paths.values())
    assert many < 2.1 * few


def test_ids_of_graphs_are_those_of_their_process(tmp_path: Path) -> None:
    recording = kernelscope.load(write_sqlite(tmp_path / "two.sqlite", nsys_tables(processes=2)))
    launches = rows(recording, "graph_events", kind="launch")
    assert [row["process_id"] for row in launches] == [0, 1] and len({row["exec_id"] for row in launches}) == 2
    assert [row["process_id"] for row in rows(recording, "graph_events", kind="before")] == [0, 1]
    nodes = [row for row in recording.rows("activities") if row["graph_event_id"] is not None]
    assert [(row["process_id"], row["cupti_graph_id"]) for row in nodes] == [(0, 9), (0, 9), (1, 9), (1, 9)]
