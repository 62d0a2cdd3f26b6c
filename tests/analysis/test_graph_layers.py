"""Layers: what the library is given, and what is made of its answer."""

from __future__ import annotations

import itertools
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelscope.views.graph.layout import MOST_BENDS, PITCH, Layered, layered

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


@settings(max_examples=150, deadline=None)
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


def test_a_diamond_is_the_same_each_time() -> None:
    edges = [(0, 1), (0, 2), (1, 3), (2, 3), (0, 4), (4, 5), (5, 3), (0, 3)]
    made = {repr(sorted(layered(range(6), edges)[0].spots.items())) for _ in range(20)}
    assert len(made) == 1


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


def test_of_two_edges_both_ways_one_points_up() -> None:
    [part] = layered(range(2), [(0, 1), (1, 0)])
    assert part.backward == {(1, 0)}
    check(part, [(0, 1), (1, 0)])


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
