"""Reading one graph of a recording."""

from __future__ import annotations

import pytest
from drawn_graphs import chain, every_kind, script, strange

from kernelscope.errors import UnknownGraphError
from kernelscope.views.graph.model import TOP, find_graph, read_graph


def test_nodes_have_names_configurations_and_places() -> None:
    graph = read_graph(every_kind())
    axpy, scale, loop, reduce_blocks = (graph.nodes[number] for number in (2, 3, 4, 5))
    assert (axpy.kind, axpy.name, axpy.griddim, axpy.blockdim) == ("kernel", "axpy", (4, 1, 1), (128, 1, 1))
    assert (scale.griddim, scale.blockdim, scale.cluster) == ((16, 16, 1), (8, 8, 1), None)
    assert graph.nodes[0].size_bytes == 1 << 20
    assert (loop.place, reduce_blocks.place) == (TOP, (4, 0))
    assert graph.bodies_of(4) == [(4, 0)]
    assert graph.bodies_of(7) == [(7, 0), (7, 1)]
    assert graph.bodies_of(0) == []
    assert graph.bodies[7, 1] == (9, 10)
    assert graph.edges[4, 0] == ((5, 6),)
    assert graph.edge_count == 13


def test_times_are_medians_of_a_node_and_shares_of_the_graph() -> None:
    graph = read_graph(every_kind())
    assert (graph.instantiations, graph.launches) == (1, 20)
    whole = 90 + 3 + 20 + 55 + 2 * 45 + 8 + 88
    assert graph.total_ns == 20 * whole * 1000
    axpy, loop, reduce_blocks, other = (graph.nodes[number] for number in (2, 4, 5, 9))
    assert (axpy.runs, axpy.execute_ns, axpy.total_ns) == (20, 20_000, 400_000)
    assert axpy.share == pytest.approx(20 / whole)
    # A loop's body runs more than once a launch, and the loop itself is no activity.
    assert (reduce_blocks.runs, reduce_blocks.execute_ns) == (40, 40_000)
    assert (loop.runs, loop.execute_ns, loop.total_ns) == (0, None, 20 * 90_000)
    assert loop.share == pytest.approx(90 / whole)
    # The body that never ran has no time, which is not a time of 0.
    assert (other.runs, other.execute_ns, other.total_ns, other.share) == (0, None, None, None)


def test_times_a_launch_are_those_of_launches_that_were_timed() -> None:
    made = script()
    graph = made.graph()
    node = made.graph_node(graph)
    launches = [made.graph_event("launch", graph) for _ in range(5)]
    for launch in launches[:2]:
        made.activity(duration_ns=4_000, graph_event_id=launch, graph_node_id=node)
    read = read_graph(made.recording())
    assert (read.launches, read.timed_launches, read.launch_ns) == (5, 2, 4_000)
    assert read.by_launch(None) is None


def test_without_activities_there_is_no_time() -> None:
    graph = read_graph(every_kind(launches=0))
    assert {(node.execute_ns, node.total_ns, node.share) for node in graph.nodes} == {(None, None, None)}
    assert graph.total_ns is None


def test_activities_that_were_not_timed_count_for_nothing() -> None:
    made = script()
    node = made.graph_node(made.graph(), "kernel", "axpy")
    made.activity(start_ns=None, end_ns=None, graph_node_id=node)
    made.activity(end_ns=made.now - 5, graph_node_id=node)
    made.activity(duration_ns=7_000, graph_node_id=node)
    made.activity(duration_ns=9_000)
    graph = read_graph(made.recording())
    assert (graph.nodes[0].runs, graph.nodes[0].execute_ns, graph.total_ns) == (1, 7_000, 7_000)


def test_each_graph_has_its_own_nodes() -> None:
    made = script()
    for name in ("first", "second"):
        graph = made.graph()
        a, b = made.graph_node(graph, name=name), made.graph_node(graph, name=name)
        made.graph_edge(a, b)
        made.activity(duration_ns=1_000 * (graph + 1), graph_node_id=b)
    graph = read_graph(made.recording(), 1)
    assert [node.name for node in graph.nodes] == ["second", "second"]
    assert [node.number for node in graph.nodes] == [0, 1]
    assert [node.graph_node_id for node in graph.nodes] == [2, 3]
    assert graph.edges[TOP] == ((0, 1),)
    assert [node.total_ns for node in graph.nodes] == [None, 2_000]


def test_what_no_graph_has_is_left_out_and_counted() -> None:
    graph = read_graph(strange())
    assert graph.left_out == 2
    assert graph.edges[TOP] == ((0, 1), (1, 2), (2, 0), (2, 3))
    assert [node.kind for node in graph.nodes] == ["kernel", "hyperspace", "host", "switch", "kernel", "other"]


def test_a_node_around_that_comes_later_is_none() -> None:
    made = script()
    graph = made.graph()
    made.graph_node(graph, "kernel", "a", parent_node_id=1, body=0)
    made.graph_node(graph, "while", None, parent_node_id=0, body=-3)
    read = read_graph(made.recording())
    assert [node.place for node in read.nodes] == [TOP, (0, 0)]


def test_the_only_graph_needs_no_name() -> None:
    assert find_graph(chain(3)) == 0
    assert find_graph(chain(3), 0) == 0


@pytest.mark.parametrize("wanted", [1, -1, True, "0", 2.0])
def test_other_graphs_are_refused_with_those_that_there_are(wanted: object) -> None:
    with pytest.raises(UnknownGraphError, match=r"no graph .*; the recording has graph 0 \(3 nodes\)"):
        find_graph(chain(3), wanted)  # type: ignore[arg-type]


def test_of_several_one_must_be_named() -> None:
    made = script()
    for _ in range(15):
        made.graph_node(made.graph())
    with pytest.raises(UnknownGraphError, match=r"which graph\? .* graphs 0 \(1 node\), .* 11 \(1 node\) and 3 more"):
        read_graph(made.recording())


def test_a_recording_without_graphs_says_so() -> None:
    with pytest.raises(UnknownGraphError, match="has no graph: nothing built or launched"):
        find_graph(script().recording(), 0)
