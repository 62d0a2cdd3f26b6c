"""Layers: what the library is given, and what is made of its answer."""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Callable

import pytest
from counting import lines_run
from drawn_graphs import chain, every_kind, independent, nested, script, strange, tangle
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelscope.recording.model import Recording
from kernelscope.views.graph.layout import (
    DEEPEST,
    HEIGHT,
    MOST_BENDS,
    MOST_IN_BODY,
    MOST_NODES,
    PITCH,
    Frame,
    Layered,
    Layout,
    Placed,
    lay_out,
    layered,
    place,
)
from kernelscope.views.graph.model import TOP, Graph, read_graph

Edges = list[tuple[int, int]]


@st.composite
def graphs(draw: st.DrawFn) -> tuple[int, Edges]:
    size = draw(st.integers(1, 24))
    pair = st.tuples(st.integers(0, size - 1), st.integers(0, size - 1)).filter(lambda edge: edge[0] != edge[1])
    return size, draw(st.lists(pair, max_size=50, unique=True))


def check(part: Layered, edges: Edges) -> None:
    """Edges point down but those that close a cycle, bends are in the layers between, and nothing overlaps."""
    for a, b in edges:
        top, bottom = (b, a) if (a, b) in part.backward else (a, b)
        first, last = part.spots[top][0], part.spots[bottom][0]
        assert first < last
        bends = part.bends.get((a, b), ())
        assert [layer for layer, _ in bends] in ([], list(range(first + 1, last))) or (a, b) in part.backward
    rows: dict[int, list[float]] = {}
    for layer, x in part.spots.values():
        assert 0 <= layer < part.layers
        rows.setdefault(layer, []).append(x)
    assert set(rows) == set(range(part.layers))
    for row in rows.values():
        row.sort()
        assert all(right - left >= PITCH - 1e-6 for left, right in itertools.pairwise(row))


@settings(max_examples=75, deadline=None)
@given(graphs())
def test_any_graph_is_layered(graph: tuple[int, Edges]) -> None:
    size, edges = graph
    parts = layered(range(size), edges)
    assert sorted(node for part in parts for node in part.spots) == list(range(size))
    for part in parts:
        check(part, [edge for edge in edges if edge[0] in part.spots])


@settings(max_examples=40, deadline=None)
@given(graphs())
def test_the_same_graph_is_layered_alike(graph: tuple[int, Edges]) -> None:
    size, edges = graph
    first, second = (layered(range(size), edges) for _ in range(2))
    assert [part.backward for part in first] == [part.backward for part in second]
    assert [{node: layer for node, (layer, _) in part.spots.items()} for part in first] == [
        {node: layer for node, (layer, _) in part.spots.items()} for part in second]


def test_lines_do_not_cross_where_they_need_not() -> None:
    # In the order given, each of the three edges would cross both others.
    [part] = layered(range(8), [(0, 1), (0, 2), (0, 3), (1, 6), (2, 5), (3, 4), (4, 7), (5, 7), (6, 7)])
    upper = sorted((1, 2, 3), key=lambda node: part.spots[node][1])
    lower = sorted((4, 5, 6), key=lambda node: part.spots[node][1])
    assert [{1: 6, 2: 5, 3: 4}[node] for node in upper] == lower


def test_parts_come_in_order_of_their_first_node() -> None:
    parts = layered(range(6), [(3, 4), (1, 5)])
    assert [sorted(part.spots) for part in parts] == [[0], [1, 5], [2], [3, 4]]


def test_a_cycle_is_broken_where_it_comes_back() -> None:
    [part] = layered(range(3), [(0, 1), (1, 2), (2, 0)])
    assert part.backward == {(2, 0)}
    assert [part.spots[node][0] for node in range(3)] == [0, 1, 2]


@pytest.mark.parametrize("edges", [
    pytest.param([(at, at + 1) for at in range(1999)], id="chain"),
    pytest.param([(0, at) for at in range(1, 2000)], id="star"),
    pytest.param([], id="independent"),
    pytest.param([(at, 100 + other) for at in range(100) for other in range(100)], id="all to all"),
    pytest.param([(at, other) for at in range(0, 300) for other in range(at + 1, min(at + 20, 300))], id="dense"),
    pytest.param([(at, at + 1) for at in range(1999)] + [(0, at) for at in range(2, 2000)], id="long lines"),
])
def test_large_graphs_are_laid_out_whole(edges: Edges) -> None:
    size = 1 + max((node for edge in edges for node in edge), default=1999)
    parts = layered(range(size), edges)
    assert sum(len(part.spots) for part in parts) == size
    assert sum(len(bends) for part in parts for bends in part.bends.values()) <= MOST_BENDS


def test_without_the_library_nodes_stand_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fast_sugiyama", None)
    [part] = layered(range(4), [(0, 1), (0, 2), (1, 3), (2, 3), (0, 3)])
    check(part, [(0, 1), (0, 2), (1, 3), (2, 3), (0, 3)])
    assert part.spots == {0: (0, 50.0), 1: (1, 0.0), 2: (1, 100.0), 3: (2, 50.0)}


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
    few, many = read_graph(made(200)), read_graph(made(400))
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


RECORDINGS = {
    "every kind": every_kind, "chain": lambda: chain(60), "independent": lambda: independent(50),
    "tangle": lambda: tangle(80), "nested": lambda: nested(6), "strange": strange,
}
each_graph = pytest.mark.parametrize("recording", [pytest.param(make(), id=name) for name, make in RECORDINGS.items()])


def apart(one: Frame, other: Frame) -> bool:
    return (one.x + one.width <= other.x or other.x + other.width <= one.x
            or one.y + one.height <= other.y or other.y + other.height <= one.y)


def within(inner: Frame, outer: Frame) -> bool:
    return (outer.x <= inner.x and inner.x + inner.width <= outer.x + outer.width + 1e-6
            and outer.y <= inner.y and inner.y + inner.height <= outer.y + outer.height + 1e-6)


def check_placed(graph: Graph, placed: Placed) -> None:
    """Nothing overlaps, what is in a body is inside of it, and lines begin and end at their nodes."""
    whole = Frame(0, 0, placed.width, placed.height)
    by_place: dict[object, list[Frame]] = {}
    for number, frame in placed.nodes.items():
        at = graph.nodes[number].place
        assert within(frame, placed.bodies[at] if at != TOP else whole)
        by_place.setdefault(at, []).append(frame)
    for at, frame in placed.bodies.items():
        assert within(frame, placed.nodes[at[0]])
    for frames in by_place.values():
        assert all(apart(one, other) for one, other in itertools.combinations(frames, 2))
    for _, line, path in placed.lines:
        top, bottom = (line.then, line.first) if line.is_backward else (line.first, line.then)
        numbers = [float(each) for each in re.findall(r"-?[\d.]+", path)]
        above, below = placed.nodes[top], placed.nodes[bottom]
        assert above.x <= numbers[0] <= above.x + above.width
        assert numbers[1] == pytest.approx(above.y + above.height, abs=0.06)
        assert numbers[-1] == pytest.approx(below.y, abs=0.06)
        assert all(number >= -1 for number in numbers)


@each_graph
def test_nothing_overlaps_whatever_is_open(recording: Recording) -> None:
    graph = read_graph(recording)
    layout = lay_out(graph)
    boxes = sorted({at[0] for at in layout.levels if at != TOP})
    for number in range(len(boxes) + 1):
        check_placed(graph, place(layout, boxes[:number]))
        check_placed(graph, place(layout, boxes[number:]))


def test_a_box_in_a_closed_box_is_not_shown() -> None:
    graph = read_graph(nested(3))
    placed = place(lay_out(graph), [graph.bodies[2, 0][-1]])
    assert list(placed.nodes) == [0, 1, 2]
    assert placed.bodies == {}


def test_a_box_that_opens_moves_others_down_and_aside_and_swaps_none() -> None:
    graph = read_graph(every_kind())
    layout = lay_out(graph)
    closed, opened = place(layout, []), place(layout, [4])
    assert closed.nodes[4].height == HEIGHT
    assert opened.nodes[4].height > 3 * HEIGHT
    assert opened.nodes[12].y > closed.nodes[12].y
    for one, other in itertools.combinations(closed.nodes, 2):
        if closed.nodes[one].y == closed.nodes[other].y:
            assert (closed.nodes[one].x < closed.nodes[other].x) == (opened.nodes[one].x < opened.nodes[other].x)


def test_boxes_above_one_another_are_not_added_up() -> None:
    """Two equal boxes in a column make it as wide as one does."""
    made = script()
    graph = made.graph()
    boxes = []
    for _ in range(2):
        boxes.append(made.graph_node(graph, "child", None))
        for _ in range(3):
            made.graph_node(graph, parent_node_id=boxes[-1], body=0)
    made.graph_edge(*boxes)
    layout = lay_out(read_graph(made.recording()))
    assert place(layout, boxes).width == place(layout, boxes[:1]).width > place(layout, []).width


def test_one_body_alone_is_placed() -> None:
    layout = lay_out(read_graph(every_kind()))
    assert list(place(layout, (), (7, 1)).nodes) == [9, 10]


def test_a_line_to_the_next_column_stays_inside() -> None:
    layout = lay_out(read_graph(chain(60)))
    placed = place(layout)
    ends = [path for _, line, path in placed.lines
            if layout.levels[TOP].spots[line.first].column != layout.levels[TOP].spots[line.then].column]
    assert len(ends) == len(layout.levels[TOP].layers) - 1
    for path in ends:
        heights = [float(y) for _, y in re.findall(r"(-?[\d.]+) (-?[\d.]+)", path)]
        assert min(heights) >= 0
        assert max(heights) <= placed.height
