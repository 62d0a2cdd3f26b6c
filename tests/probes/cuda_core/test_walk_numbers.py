"""The numbers of nodes' runs, as CUPTI gave them on an H100 (driver 580): each node is named by its kernel's block."""

from __future__ import annotations

import pytest

from kernelscope.probes.cuda_core.read import Node, Snapshot, numbers_of


def graph(*nodes):
    """A graph: a number is a kernel, a tuple a child graph, and a list a conditional node with its bodies."""
    return Snapshot(tuple(_node(each) for each in nodes), ())


def _node(made):
    if isinstance(made, int):
        return Node("kernel", str(made))
    return Node("child" if isinstance(made, tuple) else "switch", bodies=tuple(
        graph(*body) for body in ([made] if isinstance(made, tuple) else made)))


def seen(snapshot, top):
    """By kernel the number of its runs."""
    return {int(node.name): number for node, number in zip(snapshot.walk(), numbers_of(snapshot, top), strict=True)
            if node.kind == "kernel"}


@pytest.mark.parametrize(("made", "numbers"), [
    ((1, [(2, 3)], 4, [(5, 6)], 7), {1: 0, 2: 5, 3: 6, 4: 2, 5: 7, 6: 8, 7: 4}),
    ((1, [(2, [(3, 4)], 5)], 6), {1: 0, 2: 3, 3: 6, 4: 7, 5: 5, 6: 2}),
    ((1, [(2, [(3, 4)], 5)], 6, [(7, 8)], 9), {1: 0, 2: 5, 3: 8, 4: 9, 5: 7, 6: 2, 7: 10, 8: 11, 9: 4}),
    ((1, [(10, 11), (12, 13), (14, 15)], 2), {1: 0, 10: 3, 11: 4, 12: 5, 13: 6, 14: 7, 15: 8, 2: 2}),
    ((1, (2, 3), 4, (5, 6), 7), {1: 0, 2: 5, 3: 6, 4: 2, 5: 7, 6: 8, 7: 4}),
    ((1, (2, (3, 4), 5), 6), {1: 0, 2: 3, 3: 6, 4: 7, 5: 5, 6: 2}),
    ((1, (2, 3), [(4, 5)], 6, (7, 8), 9), {1: 0, 2: 6, 3: 7, 4: 8, 5: 9, 6: 3, 7: 10, 8: 11, 9: 5}),
    ((1, [(4, (2, 3), 5)], 6, (7, 8), 9), {1: 0, 4: 5, 2: 8, 3: 9, 5: 7, 6: 2, 7: 10, 8: 11, 9: 4}),
])
def test_numbers_of_runs(made, numbers):
    snapshot = graph(*made)
    assert seen(snapshot, range(len(made))) == numbers


def test_what_is_inside_is_unknown_where_a_number_is():
    snapshot = graph(1, (2, 3), 4)
    assert numbers_of(snapshot, [0, None, 2]) == (0, None, None, None, 2)
    assert numbers_of(snapshot, [None] * 3) == (None,) * 5


def test_removed_nodes_leave_gaps():
    assert numbers_of(graph(1, (2, 3), 4), [1, 4, 5]) == (1, 4, 6, 7, 5)
