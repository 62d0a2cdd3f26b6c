from __future__ import annotations

import numpy as np
from graph_stories import GraphScript, rebuilt
from handmade import Script
from unpack import packed, unpacked


def test_events_come_back_row_by_row() -> None:
    recording = rebuilt().recording()
    back = unpacked(recording)
    first = int(back.header["t0_ns"])
    assert (back.col("events", "start") + first).tolist() == recording.column("graph_events", "start_ns").tolist()
    assert (back.col("events", "start") + back.col("events", "dur") + first).tolist() == (
        recording.column("graph_events", "end_ns").tolist())
    for name in ("graph_id", "exec_id", "correlation_id", "queue_ns", "execute_ns", "stream", "thread_id", "cell_id"):
        assert back.col("events", name).tolist() == recording.column("graph_events", name).tolist(), name
    assert back.words("events", "name")[:2] == ["capture graph 0 · 4 nodes", "instantiate graph 0 · 4 nodes"]
    assert back.words("events", "changes").count("argument 1 of axpy") == 2
    assert (back.col("events", "rebuild_of") >= 0).sum() == 6


def test_launches_know_their_capture_and_runs_their_event() -> None:
    recording = rebuilt().recording()
    back = unpacked(recording)
    assert back.col("launches", "capture").tolist() == [0, 0, 0, -1, -1, -1, -1]
    asked = back.col("graphs", "event")
    assert [back.words("events", "kind")[at] for at in asked.tolist()] == ["launch"] * 12
    names = back.words("graphs", "name")
    assert (names.count("graph 0 · 4 nodes"), names.count("graph 1 · 4 nodes")) == (11, 1)
    assert back.col("graphs", "nodes").tolist() == [4] * 12
    assert back.col("gpu", "graph_node_id").tolist()[:4] == [0, 1, 2, 3]


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
