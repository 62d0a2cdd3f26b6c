from __future__ import annotations

from typing import Any

import numpy as np
from graph_stories import GraphScript
from handmade import US, Script

from kernelscope.analysis.graphs import graph_runs


def test_a_launch_with_its_nodes() -> None:
    made = GraphScript(gpu={"source": "cupti"})
    executable = made.instantiate()
    event = made.replay(executable)
    row = made.rows["graph_events"][event]
    runs = graph_runs(made.recording())
    assert (runs.event.tolist(), runs.graph.tolist(), runs.executable.tolist()) == ([event], [0], [executable])
    assert runs.called.tolist() == [row["start_ns"]]
    assert runs.returned.tolist() == [row["end_ns"]]
    assert (runs.start - runs.returned).tolist() == [6 * US]
    assert runs.execute.tolist() == [43 * US]
    assert (runs.activities.tolist(), runs.kernels.tolist(), runs.busy.tolist()) == ([4], [3], [40 * US])
    assert runs.first.tolist() == [0]
    assert runs.of_activity.tolist() == [0] * 4


def test_nodes_of_conditional_bodies_have_no_correlation_id_of_their_own() -> None:
    made = GraphScript()
    event = made.replay(made.instantiate())
    made.activity(graph_event_id=event, correlation_id=0, cupti_graph_id=40, start_ns=made.now, duration_ns=5 * US)
    runs = graph_runs(made.recording())
    assert len(runs) == 1
    assert runs.activities.tolist() == [5]
    assert runs.end.tolist() == [made.now + 5 * US]


def test_where_no_activity_was_seen_the_event_tells(script: type[Script]) -> None:
    made = script()
    made.graph_event("launch", None, queue_ns=100, execute_ns=50)
    made.graph_event("launch", None)
    runs = graph_runs(made.recording())
    assert runs.execute.tolist() == [50, -1]
    assert (runs.start[0] - runs.returned[0], runs.start[1]) == (100, -1)
    assert runs.first.tolist() == [-1, -1]
    assert runs.activities.tolist() == [0, 0]


def test_without_events_calls_are_told_apart_by_both_ids(script: type[Script]) -> None:
    made = script()
    for graph, call in ((4, 50), (4, 51), (9, 50), (4, 50)):
        made.activity(cupti_graph_id=graph, correlation_id=call, start_ns=1_000 * call, duration_ns=10)
    made.activity(start_ns=None, cupti_graph_id=4, correlation_id=50)
    runs = graph_runs(made.recording())
    assert len(runs) == 3
    assert sorted(runs.activities.tolist()) == [1, 1, 3]
    assert runs.event.tolist() == [-1] * 3
    assert runs.of_activity.tolist()[0] == runs.of_activity.tolist()[3] == runs.of_activity.tolist()[4]
    # One without a start is the first only where there is no other.
    assert 4 not in runs.first.tolist()


def test_as_one_by_one(script: type[Script]) -> None:
    random = np.random.default_rng(3)
    made: Any = script()
    events = [made.graph_event("launch", None) for _ in range(5)]
    for _ in range(60):
        event = int(random.integers(-1, 5))
        made.activity(
            str(random.choice(["kernel", "memcpy"])), start_ns=int(random.integers(0, 1_000)),
            duration_ns=int(random.integers(0, 50)), graph_event_id=events[event] if event >= 0 else None,
            cupti_graph_id=1 if event >= 0 else None)
    recording = made.recording()
    runs = graph_runs(recording)
    rows = recording.rows("activities")
    for at in range(5):
        own = [row for row in rows if row["graph_event_id"] == at]
        assert runs.activities[at] == len(own)
        assert runs.kernels[at] == sum(row["kind"] == "kernel" for row in own)
        assert runs.start[at] == min((row["start_ns"] for row in own), default=-1)
        assert runs.end[at] == max((row["end_ns"] for row in own), default=-1)
        assert runs.busy[at] == sum(row["end_ns"] - row["start_ns"] for row in own)
