from __future__ import annotations

from typing import Any

from graph_stories import GraphScript, rebuilt
from handmade import US, Script

from kernelscope.analysis.graphs import by_graph, by_topology, graph_table, node_times


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


def test_another_graph_has_its_own_line(script: type[Script]) -> None:
    made = GraphScript()
    other = made.graph("g", "another")
    made.graph_node(other, "empty", None)
    executable = made.instantiate(other)
    made.graph_event("launch", other, exec_id=executable)
    made.instantiate()
    assert {each.name: (each.builds, each.launches) for each in by_topology(made.recording())} == {
        "graph 0": (1, 0), "graph 2": (1, 1)}


def test_what_was_not_seen_being_built(script: type[Script]) -> None:
    made = script(gpu={"source": "cupti"})
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


def test_nothing_of_it_in_a_recording_without_graphs(script: type[Script]) -> None:
    assert by_topology(script().recording()) == by_graph(script().recording()) == []
    assert node_times(script().recording(), 0) == []
    assert len(graph_table(script().recording())) == 0


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
