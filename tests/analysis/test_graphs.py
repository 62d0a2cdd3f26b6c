from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from graph_stories import GraphScript, rebuilt, with_builds
from handmade import US, Script

from kernelscope.analysis.graphs import (
    build_names,
    by_graph,
    by_topology,
    event_names,
    executables,
    graph_runs,
    graph_table,
    node_times,
    run_names,
)
from kernelscope.recording.time import is_known


def test_one_topology_is_one_line() -> None:
    found, = by_topology(rebuilt().recording())
    assert (found.name, found.graph_ids, found.variants) == ("graph 0", (0, 1), 2)
    assert (found.nodes, found.edges, dict(found.kinds)) == (4, 3, {"kernel": 3, "memcpy": 1})
    assert found.kernels == ("axpy",)
    assert (found.captures, found.captured, found.captured_ns) == (1, 3, 30 * US)
    assert (found.builds, found.before, found.failed) == (7, 0, 0)
    assert found.rebuilds == found.replaced == {"none": 4, "arguments": 2}
    assert found.changes == ("argument 1 of axpy",)
    assert found.rebuild_ns == found.replaced_ns == sum(400 + at for at in range(6)) * US
    assert (found.updates, found.refused, found.uploads, found.reuploads) == (1, 1, 2, 1)
    assert (found.launches, found.kernel_runs, found.other_runs, found.cells) == (12, 36, 12, (0,))
    assert found.build is not None and found.build.total_ns == found.rebuild_ns + 400 * US
    assert found.update is not None and found.update.total_ns == 90 * US
    assert found.refusal is not None and found.refusal.total_ns == 60 * US
    assert found.launch is not None and (found.launch.count, found.launch.p50_ns) == (12, 8 * US)
    assert found.execute is not None and found.execute.p50_ns == 43 * US
    assert found.queue is not None and found.queue.p50_ns == 6 * US
    assert found.busy_ns == 12 * 40 * US


def test_each_graph_has_the_launches_that_ran_as_it() -> None:
    found = {each.name: each for each in by_graph(rebuilt().recording())}
    assert {name: (each.builds, each.launches, each.updates) for name, each in found.items()} == {
        "graph 0": (7, 11, 0), "graph 1": (0, 1, 1)}


def test_a_graph_that_is_kept_and_replayed_is_built_once() -> None:
    made = GraphScript()
    kept = made.instantiate()
    for _ in range(50):
        made.replay(kept)
    found, = by_topology(made.recording())
    assert (found.builds, found.rebuilt, found.launches) == (1, 0, 50)


def test_graphs_of_one_fingerprint_are_one_wherever_they_come_from() -> None:
    made = GraphScript()
    made.graph("fingerprint 0", "chain")
    for graph in (0, 2):
        executable = made.instantiate(graph)
        made.graph_event("launch", graph, exec_id=executable)
    first, second = by_graph(made.recording())
    assert (first.graph_ids, first.builds, first.launches) == ((0, 2), 2, 2)
    assert (second.graph_ids, second.builds) == ((1,), 0)


def test_another_graph_has_its_own_line() -> None:
    made = GraphScript()
    other = made.graph("g", "another")
    made.graph_node(other, "empty", None)
    executable = made.instantiate(other)
    made.graph_event("launch", other, exec_id=executable)
    made.instantiate()
    assert {each.name: (each.builds, each.launches) for each in by_topology(made.recording())} == {
        "graph 0": (1, 0), "graph 2": (1, 1)}


def test_what_was_not_seen_being_built() -> None:
    made = Script(gpu={"source": "cupti"})
    before = made.graph_event("before", None, start_ns=None)
    made.graph_event("launch", None, exec_id=before)
    for launch in (50, 51):
        for node in range(3):
            made.activity(cupti_graph_id=4, cupti_node_id=node, correlation_id=launch, duration_ns=10)
        made.activity("memcpy", "DtoD", cupti_graph_id=4, cupti_node_id=3, correlation_id=launch, duration_ns=99)
    made.activity(cupti_graph_id=9, start_ns=None)
    made.activity(correlation_id=52)
    found = {each.name: each for each in by_topology(made.recording())}
    assert set(found) == {"graph not seen being built", "CUPTI graph 4", "CUPTI graph 9"}
    assert found["graph not seen being built"].before == found["graph not seen being built"].launches == 1
    four = found["CUPTI graph 4"]
    assert (four.launches, four.kernel_runs, four.other_runs, four.busy_ns) == (2, 6, 2, 258)
    assert (four.nodes, four.builds, four.build) == (None, 0, None)
    assert (found["CUPTI graph 9"].launches, found["CUPTI graph 9"].busy_ns) == (0, None)


def test_nothing_of_it_in_a_recording_without_graphs() -> None:
    assert by_topology(Script().recording()) == by_graph(Script().recording()) == []
    assert node_times(Script().recording(), 0) == []
    assert len(graph_table(Script().recording())) == 0


def test_failed_instantiates_and_a_capture_of_nothing() -> None:
    made = GraphScript()
    made.instantiate(outcome="failed", error="CUDA_ERROR_INVALID_VALUE")
    made.graph_event("capture", None, outcome="failed")
    found = by_topology(made.recording())
    assert [(each.name, each.builds, each.failed) for each in found] == [("graph 0", 0, 1)]


def test_an_upload_after_an_update_is_no_second_one() -> None:
    made = GraphScript()
    executable = made.instantiate()
    for kind in ("upload", "update", "upload", "upload"):
        made.graph_event(kind, 0, exec_id=executable)
    found, = by_topology(made.recording())
    assert (found.uploads, found.reuploads) == (3, 1)


def test_time_by_node() -> None:
    made = rebuilt()
    found = node_times(made.recording(), 0)
    assert [(each.kind, each.name, each.runs) for each in found] == [
        *[("kernel", "axpy", 11)] * 3, ("memcpy", "DtoH", 11)]
    assert found[0].execute is not None and found[0].execute.p50_ns == 10 * US
    assert [each.runs for each in node_times(made.recording(), 1)] == [1] * 4
    assert node_times(made.recording(), 7) == []


def test_table_of_graphs() -> None:
    table: Any = graph_table(rebuilt().recording())
    assert table.name.tolist() == ["graph 0", "graph 1"]
    assert table.rebuilds.tolist() == [6, 0]
    assert table.launches.tolist() == [11, 1]
    assert table.build_p50_ns.isna().tolist() == [False, True]
    assert table.execute_total_ns.tolist() == [11 * 43 * US, 43 * US]


def test_a_recording_whose_ids_point_nowhere() -> None:
    made = GraphScript()
    executable = made.instantiate(rebuild_of=99)
    made.graph_event("launch", 77, exec_id=executable)
    made.graph_event("launch", None, exec_id=88)
    made.activity(graph_event_id=66, graph_node_id=55, cupti_graph_id=1, correlation_id=2)
    made.launch(capture_event_id=44)
    assert sum(each.launches for each in by_topology(made.recording())) == 3


def test_each_with_what_became_of_it() -> None:
    first, *others = executables(rebuilt().recording())
    assert (first.graph_id, first.cell_id, first.build_ns, first.rebuild_of) == (0, 0, 400_000, None)
    assert (first.updates, first.refused, first.launches, first.is_closed) == (1, 1, 6, False)
    assert [each.replaces for each in others] == [True] * 6
    assert [each.change for each in others] == [*["none"] * 4, *["arguments"] * 2]
    assert [each.is_closed for each in others] == [False] * 5 + [True]


def test_graphs_that_are_kept_side_by_side_replace_none() -> None:
    made = GraphScript()
    first = made.instantiate()
    second = made.instantiate(1, rebuild_of=first, change="configuration")
    for _ in range(3):
        made.replay(first)
        made.replay(second, 1)
    assert [each.replaces for each in executables(made.recording())] == [False, False]


@pytest.mark.parametrize(("change", "is_closed", "replaces"), [
    ("none", False, True), ("arguments", False, True), ("configuration", False, False), ("configuration", True, True)])
def test_one_of_another_size_may_be_kept_for_later(change: str, is_closed: bool, replaces: bool) -> None:
    made = GraphScript()
    first = made.instantiate()
    made.replay(first)
    made.instantiate(1, rebuild_of=first, change=change)
    if is_closed:
        made.close(first)
    assert [each.replaces for each in executables(made.recording())] == [False, replaces]


def test_what_was_never_launched_nor_closed_is_not_replaced() -> None:
    made = GraphScript()
    first = made.instantiate()
    made.instantiate(rebuild_of=first, change="none")
    assert [each.replaces for each in executables(made.recording())] == [False, False]


def test_a_failed_instantiate_makes_none() -> None:
    made = GraphScript()
    made.instantiate(outcome="failed")
    made.graph_event("before", 0, start_ns=None)
    found, = executables(made.recording())
    assert (found.start_ns, found.build_ns) == (None, None)


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


def test_where_no_activity_was_seen_the_event_tells(made: Script) -> None:
    made.graph_event("launch", None, queue_ns=100, execute_ns=50)
    made.graph_event("launch", None)
    runs = graph_runs(made.recording())
    assert runs.execute.tolist() == [50, -1]
    assert (runs.start[0] - runs.returned[0], is_known(runs.start).tolist()) == (100, [True, False])
    assert runs.first.tolist() == [-1, -1]
    assert runs.activities.tolist() == [0, 0]


def test_without_events_calls_are_told_apart_by_both_ids(made: Script) -> None:
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


def test_as_one_by_one() -> None:
    random = np.random.default_rng(3)
    made: Any = Script()
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


def test_launches_are_named_by_their_graph() -> None:
    made = GraphScript()
    made.replay(made.instantiate(), 1)
    made.activity(cupti_graph_id=77, correlation_id=3)
    made.graph_event("launch", None)
    recording = made.recording()
    runs = graph_runs(recording)
    codes, names = run_names(recording, runs)
    assert [names[at] for at in codes.tolist()] == [
        "graph 1 · 4 nodes", "graph not seen being built", "CUPTI graph 77"]
    assert event_names(Script().recording())[1] == []


def test_requests_to_build_caches() -> None:
    assert build_names(with_builds(Script()).recording()) == [
        "build reduce_into", "found reduce_into", "build reduce_into", "wait for merge_sort"]
