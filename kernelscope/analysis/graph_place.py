"""A layout with some boxes open: where each node, body and line is, in pixels.

A box that opens stretches what is around it: its layer gets higher, and the strip of its column that it covers gets
wider, with whatever else is in that strip. So nothing changes sides or places, and no line crosses another one that
it did not cross before. ``static/graph_place.js`` does the same in a page; a test holds the two together.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field

from kernelscope.analysis.graph_layout import (
    COLUMN_GAP,
    HEIGHT,
    LANE,
    LAYER_GAP,
    SHELF_GAP,
    Layout,
    Level,
    Line,
    Spot,
)
from kernelscope.analysis.graph_nodes import TOP, Place

#: An open box: its own line on top, that of each body, the space around a body's nodes, and between bodies.
HEAD, BODY_HEAD, INSIDE, BODY_GAP = 34, 20, 16, 12
#: How far a line to the next column goes down before it turns, and how round its corners are.
TURN, ROUND = 10.0, 8.0


@dataclass(frozen=True)
class Frame:
    """Where something is: its left upper corner and its size."""

    x: float
    y: float
    width: float
    height: float


@dataclass
class Placed:
    """What a picture shows.

    Attributes
    ----------
    width, height : float
        Its size.
    nodes : dict of int to Frame
        By number; nodes in closed boxes are in none. A box comes before what is in it.
    bodies : dict of Place to Frame
        The bodies of open boxes.
    lines : list of (Place, Line, str)
        Edges with the level that they are of and their path as SVG writes it.
    """

    width: float = 0.0
    height: float = 0.0
    nodes: dict[int, Frame] = field(default_factory=dict)
    bodies: dict[Place, Frame] = field(default_factory=dict)
    lines: list[tuple[Place, Line, str]] = field(default_factory=list)


def place(layout: Layout, opened: Iterable[int] | None = None, at: Place = TOP) -> Placed:
    """Return where everything is.

    Parameters
    ----------
    layout : Layout
        The layout of all levels.
    opened : iterable of int, optional
        Numbers of the boxes that are open; those that are open at first by default.
    at : tuple of int
        The level that is shown: the graph's own nodes by default, or one body alone.
    """
    made = _Placing(layout, frozenset(layout.opened if opened is None else opened))
    found = Placed()
    if at in layout.levels and layout.levels[at].spots:
        found.width, found.height = made.size(at)
        made.put(at, 0.0, 0.0, found)
    return found


class _Placing:
    """Sizes from the inside out, then positions from the outside in."""

    def __init__(self, layout: Layout, opened: frozenset[int]) -> None:
        self._levels = layout.levels
        self._inside: dict[int, list[Place]] = {}
        for each in sorted(layout.levels):
            if each != TOP and each[0] in opened and layout.levels[each].spots:
                self._inside.setdefault(each[0], []).append(each)
        self._columns: dict[Place, list[_Column]] = {}

    def size(self, at: Place) -> tuple[float, float]:
        """Width and height of a level."""
        columns = self._columns_of(at)
        shelves = self._levels[at].shelves
        rows = [[columns[column] for column in shelf] for shelf in shelves]
        width = max(sum(column.width + COLUMN_GAP for column in row) - COLUMN_GAP for row in rows)
        height = sum(max(column.height for column in row) + SHELF_GAP for row in rows) - SHELF_GAP
        return width, height + 2 * self._edge(at)

    def _edge(self, at: Place) -> float:
        """Room above and below for lines that go from one column to the next."""
        lanes = self._levels[at].lanes
        return TURN + (lanes - 1) * LANE if lanes else 0.0

    def put(self, at: Place, left: float, top: float, found: Placed) -> None:
        """Add a level, and what is open in it, to what is shown."""
        level, columns = self._levels[at], self._columns_of(at)
        y = top + self._edge(at)
        for shelf in level.shelves:
            x = left
            for each in shelf:
                columns[each].left, columns[each].top = x, y
                x += columns[each].width + COLUMN_GAP
            y += max(columns[each].height for each in shelf) + SHELF_GAP
        for number, spot in level.spots.items():
            column = columns[spot.column]
            width, height = self._node_size(number, level)
            middle = column.tops[spot.layer] + column.heights[spot.layer] / 2
            frame = Frame(column.left + column.at(spot.x) - width / 2, column.top + middle - height / 2, width, height)
            found.nodes[number] = frame
            self._put_bodies(number, frame, found)
        found.lines += [(at, line, _path(line, level, columns, found)) for line in level.lines]

    def _put_bodies(self, number: int, frame: Frame, found: Placed) -> None:
        x = frame.x + INSIDE
        for body in self._inside.get(number, ()):
            width = self.size(body)[0]
            found.bodies[body] = Frame(
                x, frame.y + HEAD, width + 2 * INSIDE, frame.height - HEAD - INSIDE)
            self.put(body, x + INSIDE, frame.y + HEAD + BODY_HEAD, found)
            x += width + 2 * INSIDE + BODY_GAP

    def _node_size(self, number: int, level: Level) -> tuple[float, float]:
        if number not in self._inside:
            return float(level.width), float(HEIGHT)
        sizes = [self.size(body) for body in self._inside[number]]
        width = sum(each[0] + 2 * INSIDE + BODY_GAP for each in sizes) - BODY_GAP + 2 * INSIDE
        return max(width, float(level.width)), HEAD + BODY_HEAD + max(each[1] for each in sizes) + 2 * INSIDE

    def _columns_of(self, at: Place) -> list[_Column]:
        if at not in self._columns:
            level = self._levels[at]
            sized = {number: self._node_size(number, level) for number in level.spots}
            held: list[list[tuple[Spot, float, float]]] = [[] for _ in level.layers]
            for number, spot in level.spots.items():
                held[spot.column].append((spot, *sized[number]))
            bends: list[list[float]] = [[] for _ in level.layers]
            for line in level.lines:
                for bend in line.bends:
                    bends[bend.column].append(bend.x)
            self._columns[at] = [
                _Column(layers, held[place], bends[place], level.width) for place, layers in enumerate(level.layers)]
        return self._columns[at]


class _Column:
    """A column's layers, and its x stretched for the boxes that are open in it."""

    def __init__(self, layers: int, held: list[tuple[Spot, float, float]], bends: list[float], width: int) -> None:
        self.left = self.top = 0.0
        self.heights = [float(HEIGHT)] * layers
        for spot, _, height in held:
            self.heights[spot.layer] = max(self.heights[spot.layer], height)
        self.tops: list[float] = []
        y = 0.0
        for height in self.heights:
            self.tops.append(y)
            y += height + LAYER_GAP
        self.height = y - LAYER_GAP
        wide = [(spot.x - width / 2, spot.x + width / 2, each / width - 1) for spot, each, _ in held if each > width]
        edges = sorted({edge for begin, end, _ in wide for edge in (begin, end)})
        # Each strip is as much wider as the widest box in it needs, and what is right of it moves.
        self._strips = [
            (begin, end, max((more for a, b, more in wide if a <= begin and end <= b), default=0.0))
            for begin, end in itertools.pairwise(edges)
        ]
        self._shift = 0.0
        left = min([self.at(spot.x) - each / 2 for spot, each, _ in held] + [self.at(x) for x in bends], default=0.0)
        self._shift = -left
        self.width = max([self.at(spot.x) + each / 2 for spot, each, _ in held] + [self.at(x) for x in bends],
                         default=0.0)

    def at(self, x: float) -> float:
        """Where an x of the closed column is now."""
        moved = x + self._shift
        for begin, end, more in self._strips:
            if x <= begin:
                break
            moved += (min(x, end) - begin) * more
        return moved


def _path(line: Line, level: Level, columns: list[_Column], found: Placed) -> str:
    """A line from the lower side of its upper node, through the layers between, to the upper side of the other one."""
    top, bottom = (line.then, line.first) if line.is_backward else (line.first, line.then)
    above, below = found.nodes[top], found.nodes[bottom]
    spots = [level.spots[top], *line.bends, level.spots[bottom]]
    x, y = above.x + above.width / 2 + line.out, above.y + above.height
    drawn = [f"M{_n(x)} {_n(y)}"]
    for place, (here, spot) in enumerate(itertools.pairwise(spots)):
        column, following = columns[here.column], columns[spot.column]
        is_last = place == len(spots) - 2
        x_next = below.x + below.width / 2 + line.into if is_last else following.left + following.at(spot.x)
        y_next = following.top + following.tops[spot.layer]
        leaves = column.top + column.tops[here.layer] + column.heights[here.layer]
        if leaves > y + 0.05:
            drawn.append(f"V{_n(leaves)}")
        if here.column == spot.column:
            middle = (leaves + y_next) / 2
            drawn.append(f"C{_n(x)} {_n(middle)} {_n(x_next)} {_n(middle)} {_n(x_next)} {_n(y_next)}")
        else:
            aside = following.left - COLUMN_GAP / 2 + line.lane * LANE
            reach = TURN + line.lane * LANE
            drawn.append(_around(x, leaves, aside, x_next, y_next, reach))
        x, y = x_next, y_next
        if not is_last:
            y = following.top + following.tops[spot.layer]
    if below.y > y + 0.05:
        drawn.append(f"V{_n(below.y)}")
    return "".join(drawn)


def _around(x: float, y: float, aside: float, x_next: float, y_next: float, reach: float) -> str:
    """Over to the top of another column: down, to the side, along it, and down again, with round corners."""
    low, high = y + reach, y_next - reach
    points = [(x, y), (x, low), (aside, low), (aside, high), (x_next, high), (x_next, y_next)]
    drawn: list[str] = []
    for before, corner, after in zip(points, points[1:], points[2:], strict=False):
        start, end = _toward(corner, before), _toward(corner, after)
        drawn.append(f"L{_n(start[0])} {_n(start[1])}Q{_n(corner[0])} {_n(corner[1])} {_n(end[0])} {_n(end[1])}")
    return f"{''.join(drawn)}L{_n(x_next)} {_n(y_next)}"


def _toward(corner: tuple[float, float], other: tuple[float, float]) -> tuple[float, float]:
    """A point near the corner, in the direction of the other one."""
    dx, dy = other[0] - corner[0], other[1] - corner[1]
    length = max(abs(dx), abs(dy), 1e-9)
    step = min(ROUND, length / 2) / length
    return corner[0] + dx * step, corner[1] + dy * step


def _n(value: float) -> str:
    """A number with one decimal at most."""
    return f"{value:.1f}".removesuffix(".0")
