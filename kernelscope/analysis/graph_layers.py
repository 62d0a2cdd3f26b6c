"""Layers of a directed graph and the order in them: Sugiyama's method, by the library fast-sugiyama.

The library ends the process where it is given a cycle, and its time grows without bound with edges over many layers.
So it gets neither: what it cannot have is taken out first and drawn all the same.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

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
    """Nodes and edges by connected part."""
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
    """How many nodes come before each one at least, but for the edges that close a cycle; and those edges."""
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
    """The layout with the fewest crossings of a few; of equal ones always the same."""
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
    """Layers by rank in the order given, where the library is not installed: lines may cross more than they must."""
    rows: dict[int, list[int]] = {}
    for node, layer in enumerate(rank):
        rows.setdefault(layer, []).append(node)
    widest = max(map(len, rows.values()))
    spots = {node: (layer, (place + (widest - len(row)) / 2) * PITCH)
             for layer, row in rows.items() for place, node in enumerate(row)}
    low = min(x for _, x in spots.values())
    return {node: (layer, x - low) for node, (layer, x) in spots.items()}, {}


def _read(size: int, made: Any, rank: list[int]) -> tuple[Spots, Bends]:
    """The library's answer: y counts from the bottom, and a long edge is a chain over nodes of its own."""
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
    """Push apart what stands too close; the library's own distances pass untouched."""
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
    """What tells two equally good layouts apart: the first nodes stand left."""
    return sorted((layer, x, node) for node, (layer, x) in spots.items())


def _steps(made: tuple[Spots, Bends], edges: list[Edge]) -> dict[int, list[tuple[float, float]]]:
    """For each layer where lines leave it and where they arrive in the next one."""
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
