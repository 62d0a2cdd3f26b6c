from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from everything import everything
from graph_stories import GraphScript
from handmade import US, Script
from unpack import Unpacked, packed, unpacked

import kernelscope
from kernelscope.analysis.ranges import attribute, attribute_activities
from kernelscope.recording.model import Recording
from kernelscope.views.timeline.wire import FORMAT

LAUNCHED = ("compile_ns", "dispatcher_id", "specialization_id", "configuration_id", "device_id", "thread_id", "cell_id",
            "parent_launch_id", "compilation_id", "correlation_id")
DONE = ("specialization_id", "configuration_id", "cell_id", "thread_id", "correlation_id", "device_id", "stream",
        "regs", "size_bytes", "cupti_graph_id", "cupti_node_id")


RECORDED = Path(__file__).resolve().parents[3] / "notebooks" / "recordings" / "gpu.kscope"
MAKERS = {"empty": lambda: Script().recording(), "everything": everything, "gpu": lambda: kernelscope.load(RECORDED)}


@pytest.fixture(scope="module", params=MAKERS)
def recording(request: pytest.FixtureRequest) -> Recording:
    return MAKERS[request.param]()


def absolute(unpacked: Unpacked, values: np.ndarray) -> np.ndarray:
    return values + int(unpacked.header["t0_ns"])


def test_launches_come_back_row_by_row(recording: Recording) -> None:
    back = unpacked(recording)
    assert absolute(back, back.col("launches", "start")).tolist() == recording.column("launches", "start_ns").tolist()
    flags, bound = back.col("launches", "flags"), back.col("launches", "start").copy()
    for bit, name in enumerate(("dispatch_end_ns", "submit_start_ns", "submit_end_ns", "end_ns")):
        bound += back.col("launches", f"part{bit}")
        known = (flags >> bit) & 1 == 1
        wanted = recording.column("launches", name)
        assert (wanted >= 0).tolist() == known.tolist()
        assert absolute(back, bound)[known].tolist() == wanted[known].tolist()
    for name in LAUNCHED:
        assert back.col("launches", name).tolist() == recording.column("launches", name).tolist(), name
    assert back.header["format"] == FORMAT
    assert len(json.dumps(back.header)) < 16_000
    for name in ("cache", "error"):
        assert back.words("launches", name) == recording.column("launches", name).tolist()
    assert back.col("launches", "range").tolist() == attribute(recording).tolist()
    assert back.col("gpu", "range").tolist() == attribute_activities(recording)[back.col("gpu", "id")].tolist()


def test_activities_come_back_row_by_row(recording: Recording) -> None:
    back = unpacked(recording)
    rows = back.col("gpu", "id")
    kinds = recording.column("activities", "kind")
    assert sorted(rows.tolist()) == [at for at, kind in enumerate(kinds) if kind != "sync"]
    start = back.col("gpu", "start")
    assert absolute(back, start).tolist() == recording.column("activities", "start_ns")[rows].tolist()
    end = absolute(back, start + back.col("gpu", "dur"))
    assert end.tolist() == recording.column("activities", "end_ns")[rows].tolist()
    assert back.col("gpu", "launch").tolist() == recording.column("activities", "launch_id")[rows].tolist()
    for name in DONE:
        assert back.col("gpu", name).tolist() == recording.column("activities", name)[rows].tolist(), name
    for name in ("name", "kind", "entry_name", "api", "memory"):
        assert back.words("gpu", name) == recording.column("activities", name)[rows].tolist(), name
    call, asked = back.col("gpu", "call"), recording.column("activities", "submit_start_ns")[rows]
    own = back.col("gpu", "flags") & 4 == 0
    assert absolute(back, back.col("gpu", "call_start"))[own].tolist() == asked[own].tolist()
    other = call >= 0
    assert absolute(back, back.col("calls", "start")[call[other]]).tolist() == asked[other].tolist()
    assert (own | other).tolist() == (asked >= 0).tolist()


def test_queue_and_execute_travel_only_where_the_activities_do_not_say_them() -> None:
    assert "queue_ns" not in unpacked(everything()).columns("launches")
    script = Script()
    script.cell()
    script.kernel()
    script.specialization()
    script.configuration()
    script.launch(queue_ns=700, execute_ns=9_000)
    back = unpacked(script.recording())
    assert back.col("launches", "execute_ns").tolist() == [9_000]
    assert back.col("launches", "queue_ns").tolist() == [700]


def test_graph_launches_are_the_activities_of_one_call() -> None:
    recording = everything(rounds=3)
    back = unpacked(recording)
    assert back.rows("graphs") == 3
    assert back.col("graphs", "nodes").tolist() == [3, 3, 3]
    activities = recording.activities
    for row, correlation in enumerate(back.col("graphs", "correlation_id").tolist()):
        nodes = activities[activities.correlation_id == correlation]
        start = int(back.header["t0_ns"]) + back.col("graphs", "start")[row]
        assert start == nodes.start_ns.min()
        assert start + back.col("graphs", "dur")[row] == nodes.end_ns.max()
        assert back.col("graphs", "busy")[row] == (nodes.end_ns - nodes.start_ns).sum()
        call = back.col("graphs", "call")[row]
        assert back.words("calls", "name")[call] == "cuGraphLaunch"


def test_what_has_no_time_is_counted() -> None:
    script = Script()
    script.device()
    script.activity(start_ns=None, end_ns=None)
    script.activity(start_ns=None, end_ns=None, submit_start_ns=script.now, submit_end_ns=script.now + US)
    script.activity(end_ns=None)
    made = packed(script.recording())
    assert made.header["undrawn"] == 1
    assert Unpacked(made).col("gpu", "flags").tolist() == [5, 7]


@pytest.mark.parametrize("end", [-5_000, 0, 1])
def test_clocks_that_jump_stay_exact(end: int) -> None:
    script = Script()
    script.device()
    script.activity(end_ns=script.now + end)
    script.activity(start_ns=script.now + 2**61, end_ns=script.now + 2**61)
    back = unpacked(script.recording())
    assert back.col("gpu", "dur")[0] == end
    assert back.header["span_ns"] <= 2**52


def test_times_are_exact_an_hour_in() -> None:
    script = Script()
    script.cell(wall_ns=2 * 3_600_000_000_000)
    script.device()
    for at in (0, 3_600_000_000_001, 3_600_000_000_002):
        script.activity(start_ns=script.now + at, duration_ns=1)
    assert unpacked(script.recording()).col("gpu", "start").tolist() == [0, 3_600_000_000_001, 3_600_000_000_002]


# Graphs.

def test_what_has_no_start_is_not_drawn_and_shifts_nothing() -> None:
    made = GraphScript()
    before = made.graph_event("before", 0, start_ns=None)
    made.launch(capture_event_id=made.graph_event("capture", 0))
    made.graph_event("launch", 0, exec_id=before)
    made.instantiate(rebuild_of=before)
    back = unpacked(made.recording())
    assert back.words("events", "kind") == ["capture", "launch", "instantiate"]
    assert back.col("events", "id").tolist() == [1, 2, 3]
    assert back.col("launches", "capture").tolist() == [0]
    assert back.col("events", "rebuild_of").tolist() == [-1, -1, -1]


def test_events_that_overlap_or_have_no_end() -> None:
    made = GraphScript()
    begin = made.now
    made.graph_event("capture", 0, start_ns=begin, end_ns=begin + 1_000)
    made.graph_event("define", 0, start_ns=begin + 100, end_ns=None)
    made.graph_event("instantiate", 0, start_ns=begin + 200, end_ns=begin + 900, thread_id=None)
    back = unpacked(made.recording())
    assert back.col("events", "flags").tolist() == [0, 1, 0]
    assert len(np.unique(back.col("events", "track"))) == 3


def test_a_recording_of_graph_events_alone_has_an_extent() -> None:
    script = Script()
    script.graph_event("launch", None)
    script.build(duration_ns=100)
    assert packed(script.recording()).header["span_ns"] == 10_100
