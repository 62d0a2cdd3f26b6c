"""The layout of a graph's bodies, whatever is open."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from counting import lines_run
from drawn_graphs import chain, every_kind, independent, nested, script, strange, tangle

from kernelscope.recording.model import Recording
from kernelscope.views.graph.layout import DEEPEST, MOST_IN_BODY, MOST_NODES, Layout, lay_out
from kernelscope.views.graph.model import TOP, read_graph


def laid_out(recording: Recording) -> Layout:
    return lay_out(read_graph(recording))


def test_each_body_is_a_level() -> None:
    layout = laid_out(every_kind())
    assert list(layout.levels) == [TOP, (4, 0), (7, 0), (7, 1)]
    assert sorted(layout.levels[TOP].spots) == [0, 1, 2, 3, 4, 7, 11, 12, 13]
    assert layout.levels[7, 1].by_layer() == [[9], [10]]
    assert layout.left_out == 0


def test_a_small_graph_begins_with_its_boxes_open() -> None:
    assert laid_out(every_kind()).opened == {4, 7}
    assert laid_out(nested(30, 3)).opened == set()


def test_edges_point_down_the_layers() -> None:
    level = laid_out(every_kind()).levels[TOP]
    at = {number: layer for layer, numbers in enumerate(level.by_layer()) for number in numbers}
    assert all(at[line.first] < at[line.then] for line in level.lines)
    assert at[13] == len(level.by_layer()) - 1


def test_lines_leave_a_node_in_the_order_of_where_they_go() -> None:
    made = script()
    graph = made.graph()
    for _ in range(4):
        made.graph_node(graph)
    for other in (1, 2, 3):
        made.graph_edge(0, other)
    level = laid_out(made.recording()).levels[TOP]
    lines = sorted(level.lines, key=lambda line: level.spots[line.then].x)
    assert [line.out for line in lines] == [-16.0, 0.0, 16.0]
    assert [line.into for line in lines] == [0.0, 0.0, 0.0]


def test_a_long_chain_is_folded_into_columns() -> None:
    level = laid_out(chain(60)).levels[TOP]
    assert len(level.layers) > 2
    assert sum(level.layers) == 60
    assert list(level.spots) == list(range(60))
    assert [layer for layer, _ in enumerate(level.by_layer())] == list(range(60))
    assert len(level.shelves) == 1
    assert level.lanes == 1
    assert laid_out(chain(8)).levels[TOP].layers == (8,)


def test_columns_end_where_few_lines_go_on() -> None:
    """Two parallel strands that meet every ten steps are cut where they meet."""
    made = script()
    graph = made.graph()
    joints: list[int] = []
    strands: list[list[int]] = []
    for _ in range(8):
        joint = made.graph_node(graph)
        if joints:
            for before in strands:
                made.graph_edge(before[-1], joint)
        joints.append(joint)
        strands = [[made.graph_node(graph) for _ in range(9)] for _ in range(2)]
        for strand in strands:
            for first, then in zip([joint, *strand], strand, strict=False):
                made.graph_edge(first, then)
    level = laid_out(made.recording()).levels[TOP]
    over = [sum(level.spots[line.first].column <= column < level.spots[line.then].column for line in level.lines)
            for column in range(len(level.layers) - 1)]
    assert len(level.layers) > 1
    assert all(number <= 2 for number in over)


def test_independent_nodes_stand_on_shelves() -> None:
    level = laid_out(independent(200)).levels[TOP]
    assert level.layers == (1,) * 200
    assert 8 < len(level.shelves) < 30
    assert level.by_layer() == [list(range(200))]


@pytest.mark.parametrize("made", [chain, independent, tangle, lambda nodes: tangle(nodes, 200)],
                         ids=["chain", "independent", "tangle", "far"])
def test_the_work_grows_with_the_nodes_and_little_faster(made: Callable[[int], Recording]) -> None:
    assert len(lay_out(read_graph(made(2000))).levels[TOP].spots) == 2000
    few, many = read_graph(made(400)), read_graph(made(800))
    assert lines_run(lambda: lay_out(many)) < 3 * lines_run(lambda: lay_out(few))


def test_what_there_is_no_room_for_is_counted() -> None:
    layout = laid_out(independent(MOST_IN_BODY + 7))
    assert layout.levels[TOP].left_out_nodes == 7
    assert layout.left_out == 7
    made = script()
    graph = made.graph()
    for _ in range(3):
        box = made.graph_node(graph, "child", None)
        for _ in range(1_900):
            made.graph_node(graph, parent_node_id=box, body=0)
    layout = laid_out(made.recording())
    assert layout.left_out == 3 * 1_901 - MOST_NODES


def test_deep_nesting_ends() -> None:
    layout = laid_out(nested(1_500, 1))
    assert len([level for level in layout.levels.values() if level.spots]) == DEEPEST + 1
    assert layout.left_out == 2 * 1_500 + 1 - 2 * (DEEPEST + 1)


def test_strange_graphs_are_laid_out() -> None:
    layout = laid_out(strange())
    assert [line.is_backward for line in layout.levels[TOP].lines].count(True) == 1
    assert list(layout.levels[3, 7].spots) == [4]
