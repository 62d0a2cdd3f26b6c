"""Traces as files: bytes, hostile names, paths, progress, interruptions, JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from handmade import Script, many_launches
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as proto
from perfetto.trace_builder.proto_builder import TraceProtoBuilder
from perfetto_trace import odd, written

from kernelscope import Recording
from kernelscope.views.timeline import perfetto, protobuf
from kernelscope.views.timeline.perfetto import to_perfetto


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
    trace = proto.Trace()
    trace.ParseFromString(content)
    words, = (packet.interned_data for packet in trace.packet if packet.HasField("interned_data"))
    keys = {each.name: each.iid for each in words.debug_annotation_names}
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
            event.debug_annotations.add(name_iid=keys["activity"], int_value=0)
            event.debug_annotations.add(name_iid=keys["correlation_id"], int_value=5)
            event.debug_annotations.add(name_iid=keys["launched by"], string_value_iid=1)
    assert content.endswith(builder.serialize())


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
