"""Perfetto traces, read back with the package's own classes and compared row by row with the recording."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from graph_stories import rebuilt, with_builds
from handmade import MS, US, Script, many_launches
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as proto
from perfetto.trace_builder.proto_builder import TraceProtoBuilder
from perfetto_trace import Read, Slice, read

from kernelscope import Recording, RecordingFileError, load
from kernelscope.analysis.phases import PHASES, launch_phases
from kernelscope.renderers import perfetto, perfetto_proto
from kernelscope.renderers.lanes import OPEN, Slices, Track, Words, always, rows
from kernelscope.renderers.perfetto import to_perfetto

RECORDINGS = Path(__file__).resolve().parents[2] / "notebooks" / "recordings"


def odd() -> Recording:
    """Everything that a recording can have, the odd cases included."""
    made = Script(name="odd", clock={"host_ns": 900 * MS, "wall_ns": 1_700_000_000_000_000_000, "error_ns": 50},
                  gpu={"source": "cupti"})
    made._add("threads", "thread_id", {"ident": 1, "name": "MainThread"})
    made._add("threads", "thread_id", {"ident": 2, "name": "worker"})
    made.device(ordinal=0, name="H100")
    made.device(ordinal=1, name="H100")
    made.cell(execution_count=3, name="first", synchronized_ns=1_120 * MS, source="axpy[1, 32](x)")
    axpy, total = made.kernel("axpy"), made.kernel("block_sum")
    made.specialization(axpy, regs=18)
    made.specialization(total, origin="before")
    made.configuration((4, 2), cluster_x=2, cluster_y=1, cluster_z=1, sharedmem_bytes=1024, stream=2)
    made.range("outer", domain="train", color="#ff0000", category="io", payload="7")
    start = made.now
    compiled = made.compilation(axpy, 2 * MS, start_ns=start + 1_000, end_ns=start + 1_000 + 2 * MS, launch_id=0,
                                cell_id=0, specialization_id=0, reason_code="first", reason="first launch",
                                fix="warm up", configuration_id=0)
    for name, took in (("typing", 300_000), ("lowering", 700_000)):
        made._add("passes", None, {"compilation_id": compiled, "kind": "pass", "name": name, "duration_ns": took})
    made._add("passes", None, {"compilation_id": compiled, "kind": "phase", "name": "nvvm", "duration_ns": 400_000,
                               "start_ns": start + 1_500_000})
    made._add("passes", None, {"specialization_id": 1, "kind": "phase", "name": "load", "duration_ns": 9_000,
                               "start_ns": start + 50 * MS})
    first = made.launch(axpy, (2_000, 2 * MS, 4_000, 2_000, 1_000), compilation_id=compiled, correlation_id=11,
                        queue_ns=0, execute_ns=40_000, device_id=0)
    at = made.rows["launches"][first]["start_ns"]
    # A kernel that starts before its launch's end, as happens when the driver call returns late.
    made.activity("kernel", "axpy", 40_000, start_ns=at + 2 * MS + 7_000, launch_id=first, correlation_id=11,
                  specialization_id=0, configuration_id=0, regs=18, api="cuLaunchKernelEx")
    outer = made.launch(total, specialization=1, thread_id=1)
    base = made.rows["launches"][outer]["start_ns"]
    made.launch(axpy, (500, 0, 500, 500, 500), parent_launch_id=outer, start_ns=base + 500, thread_id=1,
                **{f"{name}_ns": base + 500 + step for name, step in (
                    ("dispatch_end", 500), ("submit_start", 1000), ("submit_end", 1500), ("end", 2000))})
    made.launch(total, None, specialization=1, end_ns=None)
    made.launch(total, specialization=1, end_ns=None, error="CudaAPIError")
    made.activity("kernel", "at::native", 5_000, stream=8, cell_id=None)
    # Two at once on one stream, and one of another device.
    made.activity("memcpy", "HtoD", 60_000, size_bytes=4096, memory="pageable to device", start_ns=made.now + 1_000)
    made.activity("memcpy", "DtoH", 60_000, size_bytes=512, start_ns=made.now + 31_000)
    made.activity("memset", "memset", 1_000, device_id=1, size_bytes=64)
    made.activity("sync", "stream", 30_000, device_id=None, stream=None)
    made.activity("kernel", "unmeasured", 0, start_ns=None)
    made.activity("kernel", "no end", 0, end_ns=None, stream=9)
    made.activity("memcpy", "HtoD", 2_000, stream=11, correlation_id=70, api="cuMemcpyAsync", size_bytes=8,
                  submit_start_ns=made.now - 9_000, submit_end_ns=made.now - 4_000)
    made.now += MS
    made.api_call("cuGraphLaunch", correlation_id=50)
    made.api_call("cuMemAlloc_v2", result=2, thread_id=1)
    for node in range(3):
        made.activity("kernel", f"node_{node}", 2_000, correlation_id=50, cupti_graph_id=4, cupti_node_id=node,
                      start_ns=made.now + 3_000 * node)
    made.range("inner", domain="train", start_ns=at, end_ns=at + 10_000, parent_range_id=0, depth=1, cell_id=0)
    made.range("epoch 1", kind="start_end", start_ns=at + 5, end_ns=at + 900_000)
    made.range("epoch 2", kind="start_end", start_ns=at + 400_000, end_ns=None, thread_id=1)
    made.range("here", kind="mark", start_ns=at + 7, end_ns=None)
    made.range("before", start_ns=None, end_ns=at + 50, thread_id=1)
    for table in ("ranges", "activities"):
        held = sorted(made.rows[table], key=lambda row: -1 if row["start_ns"] is None else row["start_ns"])
        moved = {row["range_id"]: place for place, row in enumerate(held)} if table == "ranges" else {}
        for place, row in enumerate(held):
            row["range_id" if table == "ranges" else "activity_id"] = place
            if table == "ranges" and row.get("parent_range_id") is not None:
                row["parent_range_id"] = moved[row["parent_range_id"]]
        made.rows[table] = held
    return made.recording()


def written(recording: Recording, folder: Path) -> Read:
    return read(to_perfetto(recording, folder / "trace").read_bytes())


@pytest.fixture(scope="module", params=["odd", "many", *sorted(path.stem for path in RECORDINGS.glob("*.kscope"))])
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Recording, Read]:
    makers: dict[str, Any] = {"odd": odd, "many": lambda: many_launches(20_000, 12)}
    recording = makers[request.param]() if request.param in makers else load(RECORDINGS / f"{request.param}.kscope")
    return recording, written(recording, tmp_path_factory.mktemp(request.param))


def by(slices: list[Slice], argument: str) -> dict[int, Slice]:
    found = {each.arguments[argument]: each for each in slices}
    assert len(found) == len(slices)
    return found


def test_every_launch(pair: tuple[Recording, Read]) -> None:
    recording, trace = pair
    slices = by([*trace.of("launch"), *trace.of("captured launch")], "launch")
    assert len(slices) == recording.arrow("launches").num_rows
    names = [row["name"] for row in recording.rows("dispatchers")]
    for row in recording.rows("launches"):
        found = slices[row["launch_id"]]
        assert found.name == names[row["dispatcher_id"]]
        assert found.start == row["start_ns"]
        if row["end_ns"] is not None:
            assert found.end == row["end_ns"] and not found.instant
        else:
            assert found.arguments["end"] == "not recorded"
            assert found.instant is (row["submit_end_ns"] is None)
            assert found.end == row["submit_end_ns"]
        for argument, column in (("queue_ns", "queue_ns"), ("execute_ns", "execute_ns"),
                                 ("correlation_id", "correlation_id"), ("parent launch", "parent_launch_id")):
            assert found.arguments.get(argument) == row[column]


def test_every_phase(pair: tuple[Recording, Read]) -> None:
    recording, trace = pair
    phases = launch_phases(recording).phases
    found = {name: np.full(len(phases[name]), -1) for name in PHASES}
    for each in trace.of("phase"):
        assert each.end is not None and each.parent is not None
        around = each.parent
        if each.name == "compile":
            assert around.name == "dispatch" and around.parent is not None
            around = around.parent
        found[each.name][around.arguments["launch"]] = each.end - each.start
    took = np.maximum(found["compile"], 0)
    found["dispatch"] = np.where(found["dispatch"] >= 0, found["dispatch"] - took, -1)
    for name in PHASES:
        expected = phases[name].copy()
        if name == "compile":  # A compile of no time is not drawn.
            expected[expected == 0] = -1
        assert np.array_equal(found[name], expected), name


def test_every_activity(pair: tuple[Recording, Read]) -> None:
    recording, trace = pair
    slices = by([each for each in trace.slices if "activity" in each.arguments], "activity")
    names = [row["name"] for row in recording.rows("dispatchers")]
    kernels = [row["dispatcher_id"] for row in recording.rows("specializations")]
    for row in recording.rows("activities"):
        if row["start_ns"] is None:
            assert row["activity_id"] not in slices
            continue
        found = slices.pop(row["activity_id"])
        ours = row["specialization_id"] is not None
        expected = names[kernels[row["specialization_id"]]] if ours else row["name"]
        assert (found.name, found.category, found.start, found.end) == (
            expected, row["kind"], row["start_ns"], row["end_ns"])
        assert found.arguments.get("function") == (row["name"] if ours else None)
        assert found.arguments.get("bytes") == row["size_bytes"]
        assert found.arguments.get("cupti_graph_id") == row["cupti_graph_id"]
        assert ("Host" in found.track) is (row["kind"] == "sync")
        assert found.arguments.get("launched by") == (
            "other" if row["kind"] == "kernel" and row["launch_id"] is None and row["cupti_graph_id"] is None else None)
    assert not slices


def test_every_flow_leads_from_a_launch_to_its_kernel(pair: tuple[Recording, Read]) -> None:
    recording, trace = pair
    begun = {flow: each for each in trace.slices for flow in each.flows}
    ended = {flow: each for each in trace.slices for flow in each.arriving}
    assert set(begun) == set(ended)
    joined = {row["launch_id"] for row in recording.rows("activities")
              if row["launch_id"] is not None and row["start_ns"] is not None}
    from_launches = {each.arguments["launch"] for each in begun.values() if each.category == "launch"}
    assert from_launches == joined
    for flow, source in begun.items():
        same = "launch" if source.category == "launch" else "correlation_id"
        assert ended[flow].arguments[same] == source.arguments[same]


def test_every_range(pair: tuple[Recording, Read]) -> None:
    recording, trace = pair
    slices = by([each for each in trace.slices if "range" in each.arguments], "range")
    assert len(slices) == recording.arrow("ranges").num_rows
    for row in recording.rows("ranges"):
        found = slices[row["range_id"]]
        assert found.track[1:3] == ("NVTX ranges", f"domain {row['domain']}" if row["domain"] else "default domain")
        assert found.name == row["name"] and found.category == (row["category"] or "nvtx")
        assert found.instant is (row["kind"] == "mark")
        assert found.end == row["end_ns"]
        assert found.arguments.get("color") == row["color"]
        if row["start_ns"] is None:
            assert found.arguments["start"] == "before recording began"
        else:
            assert found.start == row["start_ns"]
        if row["kind"] == "push_pop" and row["parent_range_id"] is not None:
            assert found.parent is slices[row["parent_range_id"]]


def test_every_compile_and_pass(pair: tuple[Recording, Read]) -> None:
    recording, trace = pair
    slices = by(trace.of("compile"), "compilation")
    for row in recording.rows("compilations"):
        found = slices.pop(row["compilation_id"])
        assert (found.start, found.end) == (row["start_ns"], row["end_ns"])
        assert found.arguments["signature"] == row["signature"]
        assert found.arguments.get("reason") == row["reason"] and found.arguments.get("fix") == row["fix"]
    assert not slices
    shown = [(each.name, each.end - each.start) for each in trace.slices
             if each.category in ("pass", "compile phase") and each.end is not None]
    assert sorted(shown) == sorted((row["name"], row["duration_ns"]) for row in recording.rows("passes"))


def test_slices_lie_inside_each_other(pair: tuple[Recording, Read]) -> None:
    for each in pair[1].slices:
        around = each.parent
        while around is not None:
            assert around.start <= each.start
            assert around.end is None or (each.end if each.end is not None else each.start) <= around.end
            around = around.parent
        if each.category in ("launch", "kernel", "memcpy", "memset"):
            assert each.parent is None


def test_the_lanes_from_top_to_bottom(tmp_path: Path) -> None:
    trace = written(odd(), tmp_path)
    ordered = sorted((path for path in trace.tracks if len(path) == 2),
                     key=lambda path: trace.tracks[path].sibling_order_rank)
    assert [path[1] for path in ordered] == ["Cells", "NVTX ranges", "Host", "GPU 0 · H100", "GPU 1 · H100"]
    host = sorted((path for path in trace.tracks if path[1:3] == ("Host", "MainThread") and len(path) == 4),
                  key=lambda path: trace.tracks[path].sibling_order_rank)
    assert [path[3] for path in host] == ["launches", "compiles", "compiler passes", "driver calls",
                                          "waits for the GPU"]
    assert {path[3] for path in trace.tracks if path[2:3] == ("worker",) and len(path) == 4} == {
        "launches", "nested launches", "driver calls"}
    assert {path[2] for path in trace.tracks if path[1:2] == ("GPU 0 · H100",) and len(path) == 3} == {
        "graph launches", "stream 7", "stream 7 (2)", "stream 8", "stream 9", "stream 11"}
    # Start/end ranges overlap: a row each.
    assert {each.track[-1] for each in trace.slices if each.name.startswith("epoch")} == {
        "start/end ranges", "start/end ranges (2)"}
    assert all(held.child_ordering == proto.TrackDescriptor.EXPLICIT for held in trace.tracks.values())


def test_a_launch_says_everything_that_is_known_of_it(tmp_path: Path) -> None:
    found = by(written(odd(), tmp_path).of("launch"), "launch")[0]
    assert found.arguments == {
        "launch": 0, "compilation": 0, "correlation_id": 11, "queue_ns": 0, "execute_ns": 40_000,
        "grid": "4 × 2", "block": "128", "cluster": "2", "shared memory (bytes)": 1024,  # noqa: RUF001
        "stream": "per-thread default", "signature": "(array(float32, 1d, C),)", "registers": 18,
        "origin": "compiled", "device": "GPU 0 · H100", "cache": "compiled", "ranges": "outer / inner",
        "cell": "In [3] first",
    }


def test_a_cell_and_its_wait_for_the_device(tmp_path: Path) -> None:
    cells = written(odd(), tmp_path).of("cell")
    assert [(each.name, each.start, each.end) for each in cells] == [
        ("In [3] first", 1_000 * MS, 1_100 * MS), ("wait for the device", 1_100 * MS, 1_120 * MS)]
    assert cells[0].arguments["source"] == "axpy[1, 32](x)"


def test_a_graph_launch_spans_its_kernels(tmp_path: Path) -> None:
    trace = written(odd(), tmp_path)
    found, = trace.of("graph launch")
    nodes = [each for each in trace.slices if each.name.startswith("node_")]
    assert (found.name, found.arguments["activities"]) == ("CUPTI graph 4", 3)
    assert (found.start, found.end) == (min(each.start for each in nodes), max(each.end or 0 for each in nodes))
    call, = (each for each in trace.slices if each.name == "cuGraphLaunch")
    assert call.flows == found.arriving


def test_every_driver_call(pair: tuple[Recording, Read]) -> None:
    recording, trace = pair
    expected = [(row["name"], row["start_ns"], row["end_ns"]) for row in recording.rows("api_calls")]
    expected += {(row["api"], row["submit_start_ns"], row["submit_end_ns"]) for row in recording.rows("activities")
                 if row["launch_id"] is None and row["submit_start_ns"] is not None and row["kind"] != "sync"}
    assert sorted((each.name, each.start, each.end) for each in trace.of("driver call")) == sorted(expected)


def test_a_driver_call_leads_to_what_it_made(tmp_path: Path) -> None:
    trace = written(odd(), tmp_path)
    call, = (each for each in trace.slices if each.name == "cuMemcpyAsync")
    assert call.end == call.start + 5_000
    copy, = (each for each in trace.slices if each.track[-1] == "stream 11")
    assert call.flows == copy.arriving != []


def test_times_are_on_the_host_clock_and_wall_time_is_known(tmp_path: Path) -> None:
    snapshot = written(odd(), tmp_path).snapshots[0]
    clocks = {clock.clock_id: clock.timestamp for clock in snapshot.clocks}
    assert snapshot.primary_trace_clock == proto.BuiltinClock.BUILTIN_CLOCK_MONOTONIC
    assert clocks == {proto.BuiltinClock.BUILTIN_CLOCK_MONOTONIC: 900 * MS,
                      proto.BuiltinClock.BUILTIN_CLOCK_REALTIME: 1_700_000_000_000_000_000}


def test_the_bytes_are_those_of_the_packages_builder(tmp_path: Path) -> None:
    """Each packet, read and written again by the package, is the same bytes: nothing in it is unknown or odd."""
    for recording in (odd(), many_launches(300, 3)):
        content = to_perfetto(recording, tmp_path / "trace").read_bytes()
        trace = proto.Trace()
        trace.ParseFromString(content)
        assert len(trace.packet) > 20
        assert trace.SerializeToString() == content


def test_a_lane_is_what_the_packages_builder_makes(tmp_path: Path) -> None:
    """The packets of one kernel, made by hand with the builder, are in the trace byte for byte."""
    made = Script()
    made.activity("kernel", "axpy", 300, correlation_id=5, cell_id=None, thread_id=None, launch_id=None)
    content = to_perfetto(made.recording(), tmp_path / "trace").read_bytes()
    builder = TraceProtoBuilder()
    for kind, delta in ((proto.TrackEvent.TYPE_SLICE_BEGIN, 0), (proto.TrackEvent.TYPE_SLICE_END, 300)):
        packet = builder.add_packet()
        packet.timestamp, packet.trusted_packet_sequence_id = delta, 2
        packet.sequence_flags = proto.TracePacket.SEQ_NEEDS_INCREMENTAL_STATE
        event = packet.track_event
        event.type = kind
        if kind == proto.TrackEvent.TYPE_SLICE_BEGIN:
            event.name_iid = 1
            event.category_iids.append(1)
            event.debug_annotations.add(name_iid=1, int_value=0)
            event.debug_annotations.add(name_iid=3, int_value=5)
            event.debug_annotations.add(name_iid=9, string_value_iid=1)
    assert content.endswith(builder.serialize())


def test_chunks_join(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = to_perfetto(odd(), tmp_path / "whole").read_bytes()
    monkeypatch.setattr(perfetto_proto, "_CHUNK", 2)
    assert to_perfetto(odd(), tmp_path / "parts").read_bytes() == whole


@pytest.mark.parametrize("name", ["<b>x</b>", "a\x1b[31m", "\u202eevil", '"},{"', "", "名前", "x" * 5_000])
def test_hostile_names(hostile: Any, tmp_path: Path, name: str) -> None:
    recording = hostile(name).recording()
    trace = written(recording, tmp_path)
    assert trace.of("launch")
    assert not any(char in each.name for each in trace.slices for char in "\x1b\u202e")
    text = to_perfetto(recording, tmp_path / "trace.json").read_text(encoding="utf-8")
    assert json.loads(text)["traceEvents"]


def test_an_empty_recording(tmp_path: Path) -> None:
    trace = written(Recording({}, {}), tmp_path)
    assert not trace.slices and len(trace.tracks) == 1
    assert json.loads(to_perfetto(Recording({}, {}), tmp_path / "t.json").read_text())["traceEvents"] == []


def test_paths_of_this_machine_stay_here(tmp_path: Path) -> None:
    made = Script()
    made.kernel()
    made.specialization()
    made.configuration()
    made.compilation(cache_file="/home/somebody/cache/axpy.nbi", error="ValueError: /home/somebody/x.py is wrong")
    made.launch()
    recording = made.recording()
    assert b"somebody" not in to_perfetto(recording, tmp_path / "cut").read_bytes()
    assert b"/home/somebody/cache" in to_perfetto(recording, tmp_path / "whole", paths=True).read_bytes()


def test_progress_goes_up_to_one(tmp_path: Path) -> None:
    told: list[float] = []
    to_perfetto(many_launches(40_000, 4), tmp_path / "trace", progress=lambda share, text: told.append(share))
    assert told == sorted(told) and len(told) > 4 and told[-1] == 1.0


def test_ctrl_c_leaves_nothing_and_harms_nothing(tmp_path: Path) -> None:
    (tmp_path / "trace.pftrace").write_text("the earlier one")

    def interrupt(share: float, text: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        to_perfetto(odd(), tmp_path / "trace", progress=interrupt)
    assert [path.name for path in tmp_path.iterdir()] == ["trace.pftrace"]
    assert (tmp_path / "trace.pftrace").read_text() == "the earlier one"


def test_a_recording_is_not_overwritten(tmp_path: Path) -> None:
    with pytest.raises(RecordingFileError, match=r"'a.kscope' is a recording's name"):
        to_perfetto(odd(), tmp_path / "a.kscope")


def test_without_the_package_it_is_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(perfetto, "has_package", lambda: False)
    monkeypatch.setitem(sys.modules, "kernelscope.renderers.perfetto_proto", None)
    assert odd().to_perfetto(tmp_path / "trace.pftrace") == tmp_path / "trace.json"
    assert json.loads((tmp_path / "trace.json").read_text())["traceEvents"]


def test_rows_for_what_overlaps() -> None:
    def lanes(pairs: list[tuple[int, int]], nested: bool) -> list[list[tuple[int, int]]]:
        start, end = (np.array(column, dtype=np.int64) for column in zip(*pairs, strict=True))
        slices = Slices(start, end, Words(np.zeros(len(pairs), np.int64), ["x"]), always("x", len(pairs)))
        return [list(zip(lane.slices.start.tolist(), lane.slices.end.tolist(), strict=True))
                for lane in rows(Track(("x",), "x"), slices, nested=nested)]

    assert lanes([(0, 10), (10, 20), (20, 20)], False) == [[(0, 10), (10, 20), (20, 20)]]
    assert lanes([(5, 9), (0, 10), (10, 20)], False) == [[(0, 10), (10, 20)], [(5, 9)]]
    assert lanes([(5, 9), (0, 10), (10, 20)], True) == [[(0, 10), (5, 9), (10, 20)]]
    assert lanes([(0, 10), (5, 15), (6, 7)], True) == [[(0, 10), (6, 7)], [(5, 15)]]
    assert lanes([(0, OPEN), (5, 15), (20, OPEN)], True) == [[(0, OPEN), (5, 15), (20, OPEN)]]
    assert lanes([(0, OPEN), (5, 15), (20, OPEN)], False) == [[(0, OPEN)], [(5, 15), (20, OPEN)]]


def test_the_json_has_the_same_slices(tmp_path: Path) -> None:
    for recording in (odd(), many_launches(200, 3)):
        trace = written(recording, tmp_path)
        events = json.loads(to_perfetto(recording, tmp_path / "trace.json").read_text())["traceEvents"]
        shown = [each for each in events if each["ph"] in "XBi"]
        expected = sorted((each.name, each.category, each.start) for each in trace.slices)
        assert sorted((each["name"], each["cat"], round(each["ts"] * 1000)) for each in shown) == expected
        ends = sorted(round(each["dur"] * 1000) for each in shown if each["ph"] == "X")
        assert ends == sorted(each.end - each.start for each in trace.slices if each.end is not None)
        flows = [each["id"] for each in events if each["ph"] == "s"]
        assert sorted(flows) == sorted(flow for each in trace.slices for flow in each.flows)
        assert sorted(each["id"] for each in events if each["ph"] == "f") == sorted(flows)
        lanes = {(each["pid"], each["tid"]) for each in shown}
        named = {(each["pid"], each["tid"]) for each in events if each["name"] == "thread_name"}
        assert lanes <= named


def test_microseconds_keep_nanoseconds() -> None:
    from kernelscope.renderers.perfetto_json import _us

    assert [_us(time) for time in (0, 7, 1_000, 1_234_567)] == ["0.000", "0.007", "1.000", "1234.567"]
    assert US == 1_000


def test_graphs_build_caches_and_captured_launches(tmp_path: Path) -> None:
    recording = with_builds(rebuilt()).recording()
    trace = written(recording, tmp_path)
    events = recording.rows("graph_events")
    drawn = [each for each in trace.slices if each.category.startswith("graph ") and "graph event" in each.arguments
             and "activities" not in each.arguments]
    wanted = sorted((row["start_ns"], row["end_ns"]) for row in events)
    assert sorted((each.start, each.end) for each in drawn) == wanted
    names = [each.name for each in drawn]
    assert names.count("instantiate graph 0 · 4 nodes") == 7
    assert names.count("refused update of graph 0 · 4 nodes") == 1
    changed = [each for each in drawn if each.arguments.get("changes") == "argument 1 of axpy"]
    assert len(changed) == 2
    assert {each.arguments["changed"] for each in changed} == {"arguments"}
    assert [each.name for each in trace.of("captured launch")] == ["axpy"] * 3
    assert {each.arguments["captured by event"] for each in trace.of("captured launch")} == {0}
    assert len(trace.of("launch")) == 5
    assert [each.name for each in trace.of("build cache")] == [
        "build reduce_into", "found reduce_into", "build reduce_into", "wait for merge_sort"]
    assert "grid" not in trace.of("launch")[-1].arguments
    runs = [each for each in trace.slices if "activities" in each.arguments]
    assert {each.name for each in runs} == {"graph 0 · 4 nodes", "graph 1 · 4 nodes"}
    assert [each.arguments["activities"] for each in runs] == [4] * 12
