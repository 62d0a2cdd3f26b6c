from __future__ import annotations

from graph_stories import GraphScript, rebuilt, with_builds
from handmade import Script

from kernelscope.analysis.graphs import build_names, event_names, graph_runs, run_names


def test_events_are_named_by_kind_outcome_and_graph() -> None:
    made = rebuilt()
    made.graph_event("before", None, start_ns=None)
    made.graph_event("launch", None, exec_id=1)
    codes, names = event_names(made.recording())
    shown = [names[at] for at in codes.tolist()]
    assert shown[:5] == ["capture graph 0 · 4 nodes", "instantiate graph 0 · 4 nodes", "upload graph 0 · 4 nodes",
                         "upload graph 0 · 4 nodes", "launch graph 0 · 4 nodes"]
    assert "refused update of graph 0 · 4 nodes" in shown
    assert "update graph 1 · 4 nodes" in shown
    # Without a graph of its own an event is of what its executable graph was made from.
    assert shown[-2:] == ["before graph not seen being built", "launch graph 0 · 4 nodes"]


def test_launches_are_named_by_their_graph(script: type[Script]) -> None:
    made = GraphScript()
    made.replay(made.instantiate(), 1)
    made.activity(cupti_graph_id=77, correlation_id=3)
    made.graph_event("launch", None)
    recording = made.recording()
    runs = graph_runs(recording)
    codes, names = run_names(recording, runs)
    assert [names[at] for at in codes.tolist()] == [
        "graph 1 · 4 nodes", "graph not seen being built", "CUPTI graph 77"]
    assert event_names(script().recording())[1] == []


def test_requests_to_build_caches(script: type[Script]) -> None:
    assert build_names(with_builds(script()).recording()) == [
        "build reduce_into", "found reduce_into", "build reduce_into", "wait for merge_sort"]
