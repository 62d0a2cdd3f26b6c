"""Where the nodes and edges of a CUDA graph stand in its picture, whichever of its boxes are open.

Each body of a graph is laid out once, with all boxes in it closed: connected parts in layers, long narrow parts folded
into columns as text is, the columns on shelves. What a picture shows with some boxes open follows from that without a
further layout: see `kernelscope.analysis.graph_place`, and ``graph_place.js``, which does the same in a page.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from kernelscope.analysis.graph_layers import PITCH, Edge, Layered, layered
from kernelscope.analysis.graph_nodes import TOP, Graph, Node, Place

#: Nodes that a picture has at most, those in closed boxes included; what is left out is said.
MOST_NODES = 4_000
#: Nodes and edges of one body.
MOST_IN_BODY = 2_000
MOST_EDGES = 6_000

#: How many boxes may be inside one another.
DEEPEST = 16

#: Nodes that are shown with all boxes open at first.
MOST_OPEN = 48

#: A node's height; pixels at full size, as all lengths here.
HEIGHT = 48
#: Between a node and the next one beside it, and between layers.
GAP, LAYER_GAP = 26, 30
#: Between columns and between shelves: lines from the end of a column to the next one's top pass there.
COLUMN_GAP, SHELF_GAP = 44, 40
#: Between two such lines.
LANE = 4

_NARROWEST, _WIDEST, _ICON = 176, 236, 50
_LETTER, _SMALL_LETTER = 6.95, 5.9
# Width over height that columns and shelves aim at, and the layers that no part is folded below.
_ASPECT = 1.7
_FOLDED_FROM = 9
# A column ends where at most so many lines go on, if there is such a place near.
_MOST_OVER = 4
_MOST_LANES = 5


@dataclass(frozen=True)
class Spot:
    """Where a node stands while all boxes are closed: its column, its layer in it, and its middle's x in it."""

    column: int
    layer: int
    x: float


@dataclass(frozen=True)
class Line:
    """How an edge goes.

    Attributes
    ----------
    first, then : int
        Numbers of its nodes; `then` waits for `first`.
    out, into : float
        How far from the middle of its node's lower side it begins, and of the upper side it ends.
    bends : tuple of Spot
        Where it passes the layers between.
    lane : int
        Which of the lines over to the next column it is, from 0.
    is_backward : bool
        Whether it closes a cycle: then it is drawn from `then` to `first`, with its head at the beginning.
    """

    first: int
    then: int
    out: float
    into: float
    bends: tuple[Spot, ...]
    lane: int
    is_backward: bool


@dataclass(frozen=True)
class Level:
    """One body of a graph.

    Attributes
    ----------
    place : tuple of int
        Whose body, and which.
    width : int
        The width of its closed nodes.
    shelves : tuple of tuple of int
        Columns by shelf, from the top.
    layers, starts : tuple of int
        How many layers each column has, and how many layers of its part are in columns before it.
    lanes : int
        How many lines there are side by side from the end of a column to the next one's top.
    spots : dict of int to Spot
        Where its nodes stand, by number, in order of reading: by column, layer and x.
    lines : tuple of Line
        Its edges.
    left_out_nodes, left_out_edges : int
        How many of them the picture has no room for.
    """

    place: Place
    width: int
    shelves: tuple[tuple[int, ...], ...]
    layers: tuple[int, ...]
    starts: tuple[int, ...]
    lanes: int
    spots: dict[int, Spot]
    lines: tuple[Line, ...]
    left_out_nodes: int
    left_out_edges: int

    def by_layer(self) -> list[list[int]]:
        """Return the numbers of the nodes in each layer, from left to right; all parts begin in the first one."""
        found: dict[int, list[int]] = {}
        for number, spot in self.spots.items():
            found.setdefault(self.starts[spot.column] + spot.layer, []).append(number)
        return [found[layer] for layer in sorted(found)]


@dataclass(frozen=True)
class Layout:
    """The layout of a graph: its levels by place, and the boxes that are open at first."""

    levels: dict[Place, Level]
    opened: frozenset[int] = field(default_factory=lambda: frozenset[int]())

    @property
    def left_out(self) -> int:
        """Nodes that no picture of it shows."""
        return sum(level.left_out_nodes for level in self.levels.values())


def lay_out(graph: Graph) -> Layout:
    """Return the layout of a graph; of the same graph the same one, but for large ones with many crossing edges."""
    levels: dict[Place, Level] = {}
    room = MOST_NODES
    depth = _depths(graph)
    for place in sorted(graph.bodies, key=lambda each: (depth[each], each)):
        level = _level(graph, place, min(room, MOST_IN_BODY) if depth[place] <= DEEPEST else 0)
        levels[place] = level
        room -= len(level.spots)
    shown = sum(len(level.spots) for level in levels.values())
    boxes = {place[0] for place, level in levels.items() if place != TOP and level.spots}
    return Layout(levels, frozenset(boxes) if shown <= MOST_OPEN else frozenset())


def _depths(graph: Graph) -> dict[Place, int]:
    """How many boxes each place is inside of; a node comes after the one around it."""
    found = {TOP: 0}
    for place in sorted(graph.bodies):
        if place != TOP:
            found[place] = found[graph.nodes[place[0]].place] + 1
    return found


def _level(graph: Graph, place: Place, most: int) -> Level:
    numbers = graph.bodies[place]
    shown = numbers[:most]
    kept = set(shown)
    edges = [edge for edge in graph.edges.get(place, ()) if edge[0] in kept and edge[1] in kept]
    drawn = edges[:MOST_EDGES]
    width = _card_width([graph.nodes[number] for number in shown])
    columns: list[tuple[int, int]] = []
    spots: dict[int, Spot] = {}
    lines: list[Line] = []
    groups: list[tuple[list[int], float, float]] = []
    for part, inside in _with_edges(layered(shown, drawn), drawn):
        first = len(columns)
        groups.append(_take_part(part, inside, width, columns, spots, lines))
        groups[-1][0].extend(range(first, len(columns)))
    ordered = dict(sorted(spots.items(), key=lambda item: (item[1].column, item[1].layer, item[1].x, item[0])))
    left_out_edges = len(graph.edges.get(place, ())) - len(drawn)
    lanes = max((line.lane + 1 for line in lines if spots[line.first].column != spots[line.then].column), default=0)
    return Level(place, width, _shelves(groups), tuple(size for size, _ in columns), tuple(at for _, at in columns),
                 lanes, ordered, tuple(_with_ports(lines, spots, width)), len(numbers) - len(shown), left_out_edges)


def _card_width(nodes: Sequence[Node]) -> int:
    """So that most names and launch configurations fit."""
    longest = max((len(node.name) for node in nodes), default=0) * _LETTER
    details = max((_letters(node) for node in nodes), default=0) * _SMALL_LETTER
    return round(min(max(longest + _ICON, details + _ICON, _NARROWEST), _WIDEST))


def _letters(node: Node) -> int:
    """About how long a node's second line is: the kind, a launch configuration, a time."""
    if node.griddim is None or node.blockdim is None:
        return 20
    return 19 + sum(len(f"{each:,}") + 3 * (place > 0) for dims in (node.griddim, node.blockdim)
                    for place, each in enumerate(dims) if each != 1 or not place)


def _with_edges(parts: list[Layered], edges: list[Edge]) -> list[tuple[Layered, list[Edge]]]:
    part_of = {node: at for at, part in enumerate(parts) for node in part.spots}
    inside: list[list[Edge]] = [[] for _ in parts]
    for edge in edges:
        inside[part_of[edge[0]]].append(edge)
    return list(zip(parts, inside, strict=True))


def _take_part(
    part: Layered, edges: list[Edge], width: int, columns: list[tuple[int, int]], spots: dict[int, Spot],
    lines: list[Line],
) -> tuple[list[int], float, float]:
    """Add a connected part's columns, spots and lines; return a place for its columns, its width and its height."""
    step = (width + GAP) / PITCH
    cuts = _cuts(part, edges, step)
    first = len(columns)
    column_of = [0] * part.layers
    for at, (begin, end) in enumerate(zip(cuts, [*cuts[1:], part.layers], strict=True)):
        column_of[begin:end] = [at] * (end - begin)
        columns.append((end - begin, begin))
    points = [*part.spots.values(), *(point for bends in part.bends.values() for point in bends)]
    low = [min((x for layer, x in points if column_of[layer] == at), default=0.0) for at in range(len(cuts))]
    high = [max((x for layer, x in points if column_of[layer] == at), default=0.0) for at in range(len(cuts))]

    def spot(layer: int, x: float) -> Spot:
        at = column_of[layer]
        return Spot(first + at, layer - cuts[at], round((x - low[at]) * step, 1))

    for node, (layer, x) in part.spots.items():
        spots[node] = spot(layer, x)
    lanes: dict[int, int] = {}
    for edge in edges:
        bends = tuple(spot(layer, x) for layer, x in part.bends.get(edge, ()))
        is_backward = edge in part.backward
        top, bottom = (edge[1], edge[0]) if is_backward else edge
        lane = 0
        for crossed in range(column_of[part.spots[top][0]], column_of[part.spots[bottom][0]]):
            lane = max(lane, lanes.get(crossed, 0))
        for crossed in range(column_of[part.spots[top][0]], column_of[part.spots[bottom][0]]):
            lanes[crossed] = lane + 1
        lines.append(Line(*edge, 0.0, 0.0, bends[::-1] if is_backward else bends, lane % _MOST_LANES, is_backward))
    wide = sum(b - a for a, b in zip(low, high, strict=True)) * step + len(cuts) * (width + COLUMN_GAP)
    return [], wide, max(columns[first:])[0] * (HEIGHT + LAYER_GAP)


def _cuts(part: Layered, edges: list[Edge], step: float) -> list[int]:
    """The layers that columns begin with: one column, unless it would be much higher than wide."""
    if part.layers < _FOLDED_FROM:
        return [0]
    points = [*part.spots.values(), *(point for bends in part.bends.values() for point in bends)]
    width = max(x for _, x in points) * step + PITCH * step + COLUMN_GAP
    height = part.layers * (HEIGHT + LAYER_GAP)
    wanted = math.sqrt(height * _ASPECT / width)
    if wanted < 1.5:
        return [0]
    # How many lines pass the boundary above each layer, counted by where they begin and end.
    over = [0] * (part.layers + 1)
    for a, b in edges:
        low, high = sorted((part.spots[a][0], part.spots[b][0]))
        over[low + 1] += 1
        over[high + 1] -= 1
    for at in range(part.layers):
        over[at + 1] += over[at]
    each = max(part.layers / round(wanted), 2.0)
    cuts, ideal = [0], each
    while ideal < part.layers - 1:
        # The boundary that fewest lines pass, among those near; a column may be a third longer or shorter.
        near = range(max(cuts[-1] + 2, math.floor(ideal - each / 3)),
                     min(math.ceil(ideal + each / 3), part.layers - 2) + 1)
        if near:
            cut = min(near, key=lambda at: (over[at] > 1, over[at], abs(at - ideal)))
            if over[cut] <= _MOST_OVER:
                cuts.append(cut)
        ideal = max(ideal, cuts[-1]) + each
    return cuts


def _shelves(groups: list[tuple[list[int], float, float]]) -> tuple[tuple[int, ...], ...]:
    """Columns by shelf, those of one part together; the highest parts first, so that shelves are filled well."""
    area = sum((width + GAP) * (height + SHELF_GAP) for _, width, height in groups)
    widest = max((width for _, width, _ in groups), default=0.0)
    target = max(math.sqrt(area * _ASPECT), widest)
    shelves: list[list[int]] = []
    filled = target + 1
    for columns, width, _ in sorted(groups, key=lambda group: -group[2]):
        if filled + width > target + 1:
            shelves.append([])
            filled = 0.0
        shelves[-1] += columns
        filled += width
    return tuple(tuple(shelf) for shelf in shelves)


def _with_ports(lines: list[Line], spots: dict[int, Spot], width: int) -> list[Line]:
    """Spread where lines leave and reach a node, in the order of where they come from and go to."""
    leaving: dict[int, list[tuple[float, int]]] = {}
    reaching: dict[int, list[tuple[float, int]]] = {}
    for at, line in enumerate(lines):
        top, bottom = (line.then, line.first) if line.is_backward else (line.first, line.then)
        points = [spots[top], *line.bends, spots[bottom]]
        leaving.setdefault(top, []).append((_toward(points[0], points[1]), at))
        reaching.setdefault(bottom, []).append((_toward(points[-1], points[-2]), at))
    out, into = [0.0] * len(lines), [0.0] * len(lines)
    for found, made in ((leaving, out), (reaching, into)):
        for held in found.values():
            space = min(16.0, (width - 70) / max(len(held) - 1, 1))
            for place, (_, at) in enumerate(sorted(held)):
                made[at] = round((place - (len(held) - 1) / 2) * space, 1)
    return [Line(line.first, line.then, out[at], into[at], line.bends, line.lane, line.is_backward)
            for at, line in enumerate(lines)]


def _toward(spot: Spot, other: Spot) -> float:
    """Where the other one is, left to right; what is in the next column is on the right, in the one before left."""
    return other.x if other.column == spot.column else math.copysign(1e6, other.column - spot.column)
