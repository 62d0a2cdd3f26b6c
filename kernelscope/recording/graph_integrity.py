"""What must hold of the graphs of a recording, so that whoever draws or counts them may follow ids without checking.

The rows of ``graph_nodes`` are in order of their graphs, and a node's body stands after it; edges join nodes of one
body and lead in no circle; an event names what made its executable graph.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from kernelscope.errors import RecordingFileError
from kernelscope.schema import UNKNOWN

#: Bodies and child graphs inside of each other: readers walk them recursively.
MAX_GRAPH_DEPTH = 40

#: For columns that name events: the kinds that those may be.
_KINDS = {
    ("graph_events", "exec_id"): ("instantiate", "before"),
    ("graph_events", "source_event_id"): ("capture", "define"),
    ("graph_events", "rebuild_of"): ("instantiate", "before"),
    ("launches", "capture_event_id"): ("capture",),
    ("activities", "graph_event_id"): ("launch",),
}


def check_graphs(tables: Mapping[str, pa.Table]) -> None:
    """Check graphs, nodes, edges and events against one another; their ids name rows that exist.

    Parameters
    ----------
    tables : mapping of str to pyarrow.Table
        All tables of `kernelscope.schema.TABLES`.

    Raises
    ------
    RecordingFileError
        Nodes are not in order of their graphs; a node is inside of one that stands after it or is of another graph, has
        a body and no parent, or is nested too deep; an edge joins nodes of different graphs or bodies; edges lead in a
        circle; a graph has another number of nodes or edges than it says; an event names one of a kind that cannot be
        meant, or what it rebuilds comes later.
    """
    graph, parent, body = (_ids(tables["graph_nodes"], name) for name in ("graph_id", "parent_node_id", "body"))
    _check_nodes(graph, parent, body)
    edges, first, then = (_ids(tables["graph_edges"], name) for name in ("graph_id", "from_node_id", "to_node_id"))
    _refuse((graph[first] != edges) | (graph[then] != edges), "edge {} joins nodes that are not of its graph")
    _refuse((parent[first] != parent[then]) | (body[first] != body[then]), "edge {} joins nodes of different bodies")
    _check_circles(first, then)
    for name, held in (("nodes", graph), ("edges", edges)):
        said = _ids(tables["graphs"], name)
        _refuse(said != np.bincount(held, minlength=len(said)), f"graph {{}} has another number of {name} than it says")
    _check_events(tables)


def _check_nodes(graph: np.ndarray, parent: np.ndarray, body: np.ndarray) -> None:
    _refuse(np.append(False, graph[1:] < graph[:-1]), "graph node {} is not in order of its graph")
    _refuse(parent >= np.arange(len(parent)), "graph node {} is inside of a node that is not before it")
    inside = parent != UNKNOWN
    around = graph[parent] if len(graph) else graph
    _refuse(inside & (around != graph), "graph node {} is inside of another graph's node")
    _refuse((body >= 0) != inside, "graph node {} must have a body and a parent, or neither")
    around = parent
    for _ in range(MAX_GRAPH_DEPTH):
        if (around == UNKNOWN).all():
            return
        around = np.append(parent, UNKNOWN)[around]
    _refuse(around != UNKNOWN, f"graph node {{}} is nested deeper than {MAX_GRAPH_DEPTH} levels")


def _check_circles(first: np.ndarray, then: np.ndarray) -> None:
    """Edges that all lead to later nodes cannot close a circle, and recorded graphs have no others."""
    if (first < then).all():
        return
    count = int(max(first.max(), then.max())) + 1
    waiting = np.bincount(then, minlength=count)
    begins = np.append(0, np.cumsum(np.bincount(first, minlength=count))).tolist()
    following: list[int] = then[np.argsort(first, kind="stable")].tolist()
    ready: list[int] = np.flatnonzero(waiting == 0).tolist()
    missing: list[int] = waiting.tolist()
    left = count - len(ready)
    # One step an edge: rounds of whole arrays would be as many as the longest path, which a file may make long.
    while ready:
        node = ready.pop()
        for after in following[begins[node]:begins[node + 1]]:
            missing[after] -= 1
            if not missing[after]:
                ready.append(after)
                left -= 1
    if left:
        node = next(at for at, number in enumerate(missing) if number)
        raise RecordingFileError(f"the edges of a graph lead in a circle that node {node} is in or behind")


def _check_events(tables: Mapping[str, pa.Table]) -> None:
    events = tables["graph_events"]
    kinds = events.column("kind").cast(pa.string()).to_numpy().astype(object)
    for (table, column), allowed in _KINDS.items():
        named = _ids(tables[table], column)
        if not len(kinds) or (named == UNKNOWN).all():
            continue
        right = np.append(np.isin(kinds, allowed), True)
        _refuse(~right[named], f"column {table}.{column} names an event in row {{}} that is no {' or '.join(allowed)}")
    row = np.arange(len(kinds))
    execs = _ids(events, "exec_id")
    makes = np.isin(kinds, ("instantiate", "before")) & (execs != UNKNOWN)
    _refuse(makes & (execs != row), "graph event {} makes an executable graph and names another one")
    _refuse(_ids(events, "rebuild_of") >= row, "graph event {} rebuilds one that comes no earlier")


def _refuse(wrong: np.ndarray, message: str) -> None:
    if wrong.any():
        raise RecordingFileError(message.format(int(np.flatnonzero(wrong)[0])))


def _ids(table: pa.Table, name: str) -> np.ndarray:
    column = table.column(name)
    return (column.fill_null(UNKNOWN) if column.null_count else column).to_numpy()
