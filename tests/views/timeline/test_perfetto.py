"""Perfetto traces, read back with the package's own classes and compared row by row with the recording."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from handmade import MS, Script, many_launches
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as proto
from perfetto_trace import Read, Slice, odd, written

from kernelscope import Recording, load
from kernelscope.analysis.launches import COMPILING, PHASES, launch_phases
from kernelscope.views.timeline import perfetto, protobuf
from kernelscope.views.timeline.build import MOST_ROWS
from kernelscope.views.timeline.perfetto import to_perfetto
from kernelscope.views.timeline.trace import MOST_LEVELS

RECORDINGS = Path(__file__).resolve().parents[3] / "notebooks" / "recordings"


@pytest.fixture(scope="module", params=["odd", "specializations"])
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Recording, Read]:
    recording = odd() if request.param == "odd" else load(RECORDINGS / f"{request.param}.kscope")
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
        if each.name == "measuring":
            assert around.name == "submit" and around.parent is not None
            around = around.parent
        elif each.name in COMPILING:
            assert around.name == "dispatch" and around.parent is not None
            around = around.parent
        found[each.name][around.arguments["launch"]] = each.end - each.start
    took = sum(np.maximum(found[name], 0) for name in COMPILING)
    found["dispatch"] = np.where(found["dispatch"] >= 0, found["dispatch"] - took, -1)
    found["submit"] = np.where(found["submit"] >= 0, found["submit"] - np.maximum(found["measuring"], 0), -1)
    for name in PHASES:
        expected = phases[name].copy()
        if name == "measuring":
            expected[expected == 0] = -1
        if name in COMPILING:  # A compile of no time is not drawn, and neither is one in a launch of unknown phases.
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


def test_times_are_on_the_host_clock_and_wall_time_is_known(tmp_path: Path) -> None:
    snapshot = written(odd(), tmp_path).snapshots[0]
    clocks = {clock.clock_id: clock.timestamp for clock in snapshot.clocks}
    assert snapshot.primary_trace_clock == proto.BuiltinClock.BUILTIN_CLOCK_MONOTONIC
    assert clocks == {proto.BuiltinClock.BUILTIN_CLOCK_MONOTONIC: 900 * MS,
                      proto.BuiltinClock.BUILTIN_CLOCK_REALTIME: 1_700_000_000_000_000_000}


# Traces as files.

def test_the_bytes_are_those_of_the_packages_builder(tmp_path: Path) -> None:
    """Each packet, read and written again by the package, is the same bytes: nothing in it is unknown or odd."""
    content = to_perfetto(odd(), tmp_path / "trace").read_bytes()
    trace = proto.Trace()
    trace.ParseFromString(content)
    assert len(trace.packet) > 20
    assert trace.SerializeToString() == content


def test_chunks_join(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = to_perfetto(odd(), tmp_path / "whole").read_bytes()
    monkeypatch.setattr(protobuf, "_CHUNK", 2)
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


def test_without_the_package_it_is_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(perfetto, "has_package", lambda: False)
    monkeypatch.setitem(sys.modules, "kernelscope.views.timeline.protobuf", None)
    assert odd().to_perfetto(tmp_path / "trace.pftrace") == tmp_path / "trace.json"
    assert json.loads((tmp_path / "trace.json").read_text())["traceEvents"]


def test_what_overlaps_is_in_rows_that_a_viewer_can_nest(tmp_path: Path) -> None:
    def lanes(kind: str, *pairs: tuple[int, int | None]) -> list[list[tuple[int, int | None]]]:
        made = Script()
        for start, end in sorted(pairs, key=lambda pair: pair[0]):
            made.range("x", kind=kind, start_ns=start, end_ns=end)
        made.range("last", domain="other", start_ns=90, end_ns=100)
        found: dict[tuple[str, ...], list[tuple[int, int | None]]] = {}
        for each in (each for each in written(made.recording(), tmp_path).slices if each.name == "x"):
            found.setdefault(each.track, []).append((each.start, each.end))
        return list(found.values())

    assert lanes("start_end", (0, 10), (10, 20), (20, 20)) == [[(0, 10), (10, 20), (20, 20)]]
    assert lanes("start_end", (5, 9), (0, 10), (10, 20)) == [[(0, 10), (10, 20)], [(5, 9)]]
    assert lanes("push_pop", (5, 9), (0, 10), (10, 20)) == [[(0, 10), (5, 9), (10, 20)]]
    assert lanes("push_pop", (0, 10), (5, 15), (6, 7)) == [[(0, 10), (6, 7)], [(5, 15)]]
    assert lanes("push_pop", (0, None), (5, 15), (20, None)) == [[(0, None), (5, 15), (20, None)]]
    assert lanes("start_end", (0, None), (5, 15), (20, None)) == [[(0, None)], [(5, 15), (20, None)]]


@pytest.mark.parametrize("crossing", [False, True])
def test_what_overlaps_by_the_thousand_is_in_few_tracks(tmp_path: Path, crossing: bool) -> None:
    """Launches inside each other, and ranges that cross: beyond all rows each is a point, and none is lost."""
    count = MOST_LEVELS + 50
    script = Script()
    script.launchable()
    for at in range(count):
        times = {"dispatch_end_ns": at + 10, "submit_start_ns": at + 20, "submit_end_ns": at + 30}
        if crossing:
            script.range(f"range {at}", start_ns=at, end_ns=count + at, domain="d")
        else:
            script.launch(start_ns=at, phases=None, end_ns=10 * count - at, parent_launch_id=at - 1 if at else None,
                          **times)
    trace = written(script.recording(), tmp_path)
    slices = [each for each in trace.slices if each.name.startswith("range ") or each.category == "launch"]
    assert len(slices) == count
    tracks = len({each.track for each in slices})
    assert tracks < MOST_LEVELS + MOST_ROWS + 1 and sum(each.instant for each in slices) == count - tracks + 1
    assert sorted(each.start for each in slices) == [*range(count)]


def test_a_track_names_what_it_has_only(tmp_path: Path) -> None:
    """Of ranges in domains of their own each track would name those of all others."""
    def names(count: int) -> int:
        script = Script()
        for at in range(count):
            script.range(f"range {at}", start_ns=at * 10, end_ns=at * 10 + 5, domain=f"domain {at}")
        path = to_perfetto(script.recording(), tmp_path / "out.pftrace")
        trace = proto.Trace.FromString(path.read_bytes())
        return sum(len(packet.interned_data.event_names) for packet in trace.packet)

    assert (names(20), names(40)) == (20, 40)


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
