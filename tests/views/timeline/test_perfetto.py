"""Perfetto traces, read back with the package's own classes and compared row by row with the recording."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from graph_stories import rebuilt, with_builds
from handmade import MS, many_launches
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as proto
from perfetto_trace import Read, Slice, odd, written

from kernelscope import Recording, load
from kernelscope.analysis.launches import PHASES, launch_phases

RECORDINGS = Path(__file__).resolve().parents[3] / "notebooks" / "recordings"


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
        if name == "compile":  # A compile of no time is not drawn, and neither is one in a launch of unknown phases.
            expected[(expected == 0) | (phases["dispatch"] < 0)] = -1
        assert np.array_equal(found[name], expected), name


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
    assert [path[1] for path in ordered] == [
        "Cells", "Waits for the device", "NVTX ranges", "Host", "Graph launches", "GPU 0 (H100)", "GPU 1 (H100)"]
    host = sorted((path for path in trace.tracks if path[1:3] == ("Host", "MainThread") and len(path) == 4),
                  key=lambda path: trace.tracks[path].sibling_order_rank)
    assert [path[3] for path in host] == ["launches", "compiles", "compile phases", "compiler passes", "driver calls"]
    assert {path[3] for path in trace.tracks if path[2:3] == ("worker",) and len(path) == 4} == {
        "launches", "nested launches", "driver calls"}
    assert {path[2] for path in trace.tracks if path[1:2] == ("GPU 0 (H100)",) and len(path) == 3} == {
        "stream 7", "stream 7 (2)", "stream 8", "stream 9", "stream 11"}
    # Start/end ranges overlap as they like: they have rows of their own.
    assert {each.track[-1] for each in trace.slices if each.name.startswith("epoch")} == {
        "start/end ranges, MainThread", "start/end ranges, worker"}
    assert all(held.child_ordering == proto.TrackDescriptor.EXPLICIT for held in trace.tracks.values())


def test_a_launch_says_everything_that_is_known_of_it(tmp_path: Path) -> None:
    found = by(written(odd(), tmp_path).of("launch"), "launch")[0]
    assert found.arguments == {
        "launch": 0, "compilation": 0, "correlation_id": 11, "queue_ns": 0, "execute_ns": 40_000,
        "grid": "4 × 2", "block": "128", "cluster": "2", "shared memory (bytes)": 1024,  # noqa: RUF001
        "stream": "per-thread default", "signature": "(array(float32, 1d, C),)", "registers": 18,
        "origin": "compiled", "device": "GPU 0 (H100)", "cache": "compiled", "ranges": "outer / inner",
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
