"""Where things are with boxes open and closed."""

from __future__ import annotations

import itertools
import re

import pytest
from drawn_graphs import chain, every_kind, independent, nested, script, strange, tangle

from kernelscope.recording.model import Recording
from kernelscope.views.graph.layout import HEIGHT, Frame, Placed, lay_out, place
from kernelscope.views.graph.model import TOP, Graph, read_graph

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


def check(graph: Graph, placed: Placed) -> None:
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
        check(graph, place(layout, boxes[:number]))
        check(graph, place(layout, boxes[number:]))


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
