"""A CUDA graph as it is shown: layers (Sugiyama's method), where nodes and edges stand, and groups of layers."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from kernelscope.recording.model import Recording
from kernelscope.recording.redact import shareable
from kernelscope.units import counted
from kernelscope.views.base import shorten
from kernelscope.views.graph.model import TOP, Graph, Node, Place, headline, read_graph, title


@dataclass(frozen=True)
class Drawing:
    """A graph and its layout: what the SVG, the text, Graphviz's file and the widget print.

    Attributes
    ----------
    graph : Graph
        The graph, without the paths of this machine.
    notice : str
        What every output of the recording must say.
    """

    graph: Graph
    notice: str = ""

    @cached_property
    def layout(self) -> Layout:
        """Return the positions of nodes and edges; computed once."""
        return lay_out(self.graph)

    @property
    def headline(self) -> str:
        """Return the graph's headline."""
        return headline(self.graph)

    @property
    def notes(self) -> list[str]:
        """Return notes on what is not shown, and on inconsistencies in the recording."""
        levels = self.layout.levels.values()
        edges = sum(level.left_out_edges for level in levels)
        backward = sum(line.is_backward for level in levels for line in level.lines)
        graph, left_out = self.graph, self.layout.left_out
        found = [
            f"{counted(left_out, 'node')} of {len(graph.nodes):,} left out" if left_out else "",
            f"{counted(edges, 'edge')} of {graph.edge_count:,} left out" if edges else "",
            f"{counted(backward, 'edge closes', 'edges close')} a cycle (dashed): no CUDA graph has one"
            if backward else "",
            f"{counted(graph.left_out, 'edge leads', 'edges lead')} out of a body or to its own node: left out"
            if graph.left_out else "",
        ]
        return [each for each in found if each]


def drawing_of(recording: Recording, graph_id: int | None = None) -> Drawing:
    """Return a graph of a recording as it is shown, without the paths of this machine.

    Parameters
    ----------
    recording : Recording
        What holds the graph.
    graph_id : int, optional
        Its row in ``graphs``; the only one by default.

    Raises
    ------
    UnknownGraphError
        The recording has no such graph, or several and none was named; the message lists those that it has.
    """
    return Drawing(read_graph(shareable(recording), graph_id), recording.notice)


# Layers of a directed graph and the order in them: Sugiyama's method, by the library fast-sugiyama.
#
# The library ends the process where it is given a cycle, and its time grows without bound with edges over many
# layers.
# So it gets neither: what it cannot have is taken out first and drawn all the same.

Edge = tuple[int, int]

#: The distance of two neighbours in the coordinates of `Layered`; lines keep half of it from a node.
PITCH = 100.0
#: So many bends of lines at most: 2,000 nodes and this many take 0.2 s, thirty times as many a minute.
MOST_BENDS = 8_000

# The library's order differs from run to run. Of a few small ones the best is taken, and mostly is the same one.
_TRIES = 8
_FEW = 160
_FEW_EDGES = 800
# What lines keep from one another and from nodes, in shares of a pitch, where the library's order has to be spread.
_APART = {2: 1.0, 1: 0.45, 0: 0.1}


@dataclass(frozen=True)
class Layered:
    """One connected part of a graph in layers.

    Attributes
    ----------
    spots : dict
        For each node its layer, from 0 at the top, and its middle's x, from 0, in steps of `PITCH`.
    bends : dict
        For each edge that goes over more than one layer where it passes each layer between, as (layer, x).
    layers : int
        How many layers there are.
    backward : frozenset
        Edges that close a cycle: they point upwards.
    """

    spots: dict[int, tuple[int, float]]
    bends: dict[Edge, tuple[tuple[int, float], ...]]
    layers: int
    backward: frozenset[Edge]


def layered(nodes: Sequence[int], edges: Sequence[Edge]) -> list[Layered]:
    """Return the connected parts of a graph, each in layers, in order of their first node.

    Parameters
    ----------
    nodes : sequence of int
        Their order decides where everything else leaves a choice.
    edges : sequence of tuple of int
        Pairs of different nodes; none twice.
    """
    return [_part(held, inside) for held, inside in _parts(nodes, edges)]


def _parts(nodes: Sequence[int], edges: Sequence[Edge]) -> list[tuple[list[int], list[Edge]]]:
    """Return nodes and edges by connected part."""
    leader = {node: node for node in nodes}

    def find(node: int) -> int:
        while leader[node] != node:
            leader[node] = node = leader[leader[node]]
        return node

    for a, b in edges:
        leader[find(b)] = find(a)
    held: dict[int, tuple[list[int], list[Edge]]] = {}
    for node in nodes:
        held.setdefault(find(node), ([], []))[0].append(node)
    for edge in edges:
        held[find(edge[0])][1].append(edge)
    return list(held.values())


def _part(nodes: list[int], edges: list[Edge]) -> Layered:
    if not edges:
        return Layered({nodes[0]: (0, 0.0)}, {}, 1, frozenset())
    rank, backward = _ranks(nodes, edges)
    forward = {(b, a) if (a, b) in backward else (a, b) for a, b in edges}
    # In a fixed order, the shortest first: each node keeps the edge that makes its rank.
    ordered = sorted(forward, key=lambda edge: (rank[edge[1]] - rank[edge[0]], edge))
    kept, spent = 0, 0
    for edge in ordered:
        spent += rank[edge[1]] - rank[edge[0]] - 1
        if spent > MOST_BENDS:
            break
        kept += 1
    # A library without cycles, loops and doubles: it has the nodes as 0, 1, 2, which tells them from its own.
    at = {node: place for place, node in enumerate(nodes)}
    drawn = [(at[a], at[b]) for a, b in ordered[:kept]]
    spots, bends = _best(len(nodes), drawn, [rank[node] for node in nodes])
    renamed = {(nodes[a], nodes[b]): tuple(points) for (a, b), points in bends.items()}
    for a, b in backward:
        if (b, a) in renamed:
            renamed[a, b] = tuple(reversed(renamed.pop((b, a))))
    layers = 1 + max(layer for layer, _ in spots.values())
    return Layered({nodes[place]: spot for place, spot in spots.items()}, renamed, layers, frozenset(backward))


def _ranks(nodes: list[int], edges: list[Edge]) -> tuple[dict[int, int], set[Edge]]:
    """Return each node's rank, without the edges that close a cycle; and those edges."""
    after: dict[int, list[int]] = {node: [] for node in nodes}
    waits = dict.fromkeys(nodes, 0)
    for a, b in edges:
        after[a].append(b)
        waits[b] += 1
    rank: dict[int, int] = {}
    ready = [node for node in nodes if not waits[node]]
    backward: set[Edge] = set()
    done: set[int] = set()
    left = iter(nodes)
    while len(done) < len(nodes):
        if not ready:
            # All that are left wait in a cycle: the first of them goes now, and what leads to it points upwards.
            ready.append(next(node for node in left if node not in done))
        node = ready.pop()
        if node in done:
            continue
        done.add(node)
        rank.setdefault(node, 0)
        for other in after[node]:
            if other in done:
                backward.add((node, other))
                continue
            rank[other] = max(rank.get(other, 0), rank[node] + 1)
            waits[other] -= 1
            if not waits[other]:
                ready.append(other)
    return rank, backward


Spots = dict[int, tuple[int, float]]
Bends = dict[Edge, list[tuple[int, float]]]


def _best(size: int, edges: list[Edge], rank: list[int]) -> tuple[Spots, Bends]:
    """Return the layout with the fewest crossings of several attempts; ties are deterministic."""
    try:
        from fast_sugiyama import from_edges
    except ImportError:
        return _plain(edges, rank)
    tries = _TRIES if size <= _FEW and sum(rank[b] - rank[a] for a, b in edges) <= 2 * _FEW else 1
    # Layers that make lines short take the library seconds for a thousand edges that lead anywhere.
    how: Any = {} if len(edges) <= _FEW_EDGES else {"ranking_type": "up", "transpose": False}
    made = [_read(size, from_edges(edges, vertex_spacing=PITCH, **how), rank) for _ in range(tries)]
    mirrored = [_mirrored(*each) for each in made]
    if tries == 1:
        return min(made[0], mirrored[0], key=lambda each: _order(each[0]))
    return min([*made, *mirrored], key=lambda each: (_crossings(each, edges), _length(each, edges), _order(each[0])))


def _plain(edges: list[Edge], rank: list[int]) -> tuple[Spots, Bends]:
    """Return layers by rank in the given order, for where the library is not installed."""
    rows: dict[int, list[int]] = {}
    for node, layer in enumerate(rank):
        rows.setdefault(layer, []).append(node)
    widest = max(map(len, rows.values()))
    spots = {node: (layer, (place + (widest - len(row)) / 2) * PITCH)
             for layer, row in rows.items() for place, node in enumerate(row)}
    low = min(x for _, x in spots.values())
    return {node: (layer, x - low) for node, (layer, x) in spots.items()}, {}


def _read(size: int, made: Any, rank: list[int]) -> tuple[Spots, Bends]:
    """Read the library's result: y counts from the bottom, and long edges have dummy nodes."""
    spots: Spots = {}
    bends: Bends = {}
    right = 0.0
    for positions, _, _, chain in made:
        top = max(y for _, (_, y) in positions)
        found = {node: (round((top - y) / PITCH), x) for node, (x, y) in positions}
        _spread(found, size)
        low = min(x for _, x in found.values())
        # One connected part can have been cut into several by leaving out edges: then they stand side by side.
        first = min((rank[node] for node in found if node < size), default=0) if len(made) > 1 else 0
        found = {node: (layer + first, x - low + right) for node, (layer, x) in found.items()}
        right = PITCH + max(x for _, x in found.values())
        spots |= {node: spot for node, spot in found.items() if node < size}
        after: dict[int, int] = {a: b for a, b in chain or [] if a >= size}
        for a, b in chain or []:
            if a < size <= b:
                points: list[tuple[int, float]] = []
                while b >= size:
                    points.append(found[b])
                    b = after[b]
                bends[a, b] = points
    for node in range(size):
        if node not in spots:  # Every edge of it was left out.
            spots[node] = (rank[node], right)
            right += PITCH
    return spots, bends


def _spread(found: Spots, size: int) -> None:
    """Push apart nodes that are too close; the library's own distances pass untouched."""
    rows: dict[int, list[int]] = {}
    for node, (layer, _) in found.items():
        rows.setdefault(layer, []).append(node)
    for layer, row in rows.items():
        row.sort(key=lambda node: found[node][1])
        for left, right in itertools.pairwise(row):
            least = found[left][1] + PITCH * _APART[(left < size) + (right < size)]
            if found[right][1] < least:
                found[right] = (layer, least)


def _mirrored(spots: Spots, bends: Bends) -> tuple[Spots, Bends]:
    points = [x for _, x in spots.values()] + [x for each in bends.values() for _, x in each]
    right = max(points)
    return ({node: (layer, right - x) for node, (layer, x) in spots.items()},
            {edge: [(layer, right - x) for layer, x in each] for edge, each in bends.items()})


def _order(spots: Spots) -> list[tuple[int, float, int]]:
    """Return the sort key among equally good layouts: the first nodes are at the left."""
    return sorted((layer, x, node) for node, (layer, x) in spots.items())


def _steps(made: tuple[Spots, Bends], edges: list[Edge]) -> dict[int, list[tuple[float, float]]]:
    """Return, for each layer, where lines leave it and where they reach the next one."""
    spots, bends = made
    found: dict[int, list[tuple[float, float]]] = {}
    for a, b in edges:
        points = [spots[a], *bends.get((a, b), ()), spots[b]]
        for (layer, x), (_, x_next) in itertools.pairwise(points):
            found.setdefault(layer, []).append((x, x_next))
    return found


def _crossings(made: tuple[Spots, Bends], edges: list[Edge]) -> int:
    count = 0
    for steps in _steps(made, edges).values():
        for at, (a, b) in enumerate(steps):
            count += sum((a - c) * (b - d) < 0 for c, d in steps[:at])
    return count


def _length(made: tuple[Spots, Bends], edges: list[Edge]) -> float:
    return round(sum(abs(a - b) for steps in _steps(made, edges).values() for a, b in steps))


# Positions of the nodes and edges of a CUDA graph, whichever of its boxes are open.
#
# Each body of a graph is laid out once, with all boxes in it closed: connected parts in layers, long narrow parts
# folded into columns as text is, the columns on shelves. What a picture shows with some boxes open follows from
# that without a further layout: see `place`, and ``frontend/graph/place.ts``, which does the same in a page.

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
    """The position of a node while all boxes are closed: its column, its layer in it, and its middle's x in it."""

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
        """Return the number of nodes that are not drawn."""
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
    """Return the nesting depth of each place; a node comes after its parent."""
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
    # A card width that most names and launch configurations fit into.
    nodes = [graph.nodes[number] for number in shown]
    longest = max((len(node.name) for node in nodes), default=0) * _LETTER
    details = max((_letters(node) for node in nodes), default=0) * _SMALL_LETTER
    width = round(min(max(longest + _ICON, details + _ICON, _NARROWEST), _WIDEST))
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


def _letters(node: Node) -> int:
    """Return the approximate length of a node's second line: kind, launch configuration, time."""
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
    """Return the first layer of each column: one column, unless it would be much taller than wide."""
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
    """Return columns by shelf; the tallest parts come first, so that shelves are filled well."""
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
    """Return the sort position of the other node; the next column is right, the previous one left."""
    return other.x if other.column == spot.column else math.copysign(1e6, other.column - spot.column)


# A layout with some boxes open: where each node, body and line is, in pixels.
#
# A box that opens stretches what is around it: its layer gets higher, and the strip of its column that it covers gets
# wider, with whatever else is in that strip. So nothing changes sides or places, and no line crosses another one that
# it did not cross before. ``frontend/graph/place.ts`` does the same in a page; a test holds the two together.

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
        """Return width and height of a level."""
        columns = self._columns_of(at)
        shelves = self._levels[at].shelves
        rows = [[columns[column] for column in shelf] for shelf in shelves]
        width = max(sum(column.width + COLUMN_GAP for column in row) - COLUMN_GAP for row in rows)
        height = sum(max(column.height for column in row) + SHELF_GAP for row in rows) - SHELF_GAP
        return width, height + 2 * self._edge(at)

    def _edge(self, at: Place) -> float:
        """Return the space above and below for lines between columns."""
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
        """Return the current position of an x of the closed column."""
        moved = x + self._shift
        for begin, end, more in self._strips:
            if x <= begin:
                break
            moved += (min(x, end) - begin) * more
        return moved


def _path(line: Line, level: Level, columns: list[_Column], found: Placed) -> str:
    """Return a path from the bottom of the upper node, through the layers between, to the lower node."""
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
    """Return a path to the top of another column, with rounded corners."""
    low, high = y + reach, y_next - reach
    points = [(x, y), (x, low), (aside, low), (aside, high), (x_next, high), (x_next, y_next)]
    drawn: list[str] = []
    for before, corner, after in zip(points, points[1:], points[2:], strict=False):
        start, end = _toward_box(corner, before), _toward_box(corner, after)
        drawn.append(f"L{_n(start[0])} {_n(start[1])}Q{_n(corner[0])} {_n(corner[1])} {_n(end[0])} {_n(end[1])}")
    return f"{''.join(drawn)}L{_n(x_next)} {_n(y_next)}"


def _toward_box(corner: tuple[float, float], other: tuple[float, float]) -> tuple[float, float]:
    """Return a point near the corner, in the direction of the other one."""
    dx, dy = other[0] - corner[0], other[1] - corner[1]
    length = max(abs(dx), abs(dy), 1e-9)
    step = min(ROUND, length / 2) / length
    return corner[0] + dx * step, corner[1] + dy * step


def _n(value: float) -> str:
    """Format a number with at most one decimal."""
    return f"{value:.1f}".removesuffix(".0")


# A large graph in short.

#: So many groups at most.
MOST_BANDS = 6
_MOST_NAMES = 3


@dataclass(frozen=True)
class Band:
    """Some layers of a graph, one after the other.

    Attributes
    ----------
    numbers : tuple of int
        Their nodes.
    layers : int
        How many layers there are.
    total_ns : int or None
        Time of those nodes, over all launches.
    share : float or None
        That over the same of the graph.
    """

    numbers: tuple[int, ...]
    layers: int
    total_ns: int | None
    share: float | None


def group(drawing: Drawing, most: int = MOST_BANDS) -> list[Band]:
    """Return the layers of a graph's top in at most so many groups of about as many nodes each."""
    graph, layout = drawing.graph, drawing.layout
    if TOP not in layout.levels:
        return []
    layers = layout.levels[TOP].by_layer()
    wanted = max(sum(map(len, layers)) / most, 1)
    made: list[Band] = []
    held: list[list[int]] = []
    passed = 0
    for layer in layers:
        held.append(layer)
        passed += len(layer)
        if passed >= wanted * (len(made) + 1) - 1e-9:
            made.append(_band(graph, held))
            held = []
    return [*made, _band(graph, held)] if held else made


def _band(graph: Graph, layers: list[list[int]]) -> Band:
    numbers = tuple(number for layer in layers for number in layer)
    timed = [graph.nodes[number].total_ns or 0 for number in numbers if graph.nodes[number].total_ns is not None]
    total = sum(timed) if timed else None
    return Band(numbers, len(layers), total, None if total is None or not graph.total_ns else total / graph.total_ns)


def mostly(graph: Graph, band: Band) -> str:
    """Return the most frequent nodes of a band with their number: ``axpy × 200``."""  # noqa: RUF002 - the sign
    names = Counter(title(graph.nodes[number]) for number in band.numbers)
    most = names.most_common(_MOST_NAMES)
    said = [f"{shorten(name, 30)} × {count:,}" if count > 1 else shorten(name, 30) for name, count in most]  # noqa: RUF001
    others = len(band.numbers) - sum(count for _, count in most)
    return ", ".join([*said, *([f"{others:,} others"] if others else [])])
