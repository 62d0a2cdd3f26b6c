"""One CUDA graph of a recording: its nodes with their launch configurations and times, its bodies and its edges."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelscope.analysis.columns import (
    Floats,
    Ints,
    codes,
    count_by,
    ints,
    percentiles_by,
    row_count,
    sum_by,
)
from kernelscope.errors import UnknownGraphError
from kernelscope.recording.model import Recording
from kernelscope.schema import UNKNOWN
from kernelscope.units import counted

#: Where a node is: the number of the node around it (`TOP` at the top), and which of that node's bodies.
Place = tuple[int, int]
#: The place of a graph's own nodes.
TOP: Place = (UNKNOWN, 0)

#: Kinds of node that hold others: a child graph, and conditional nodes.
BOXES = ("child", "if", "while", "switch")

_MOST_NAMED = 12


@dataclass(frozen=True)
class Node:
    """One node; what was not recorded is None.

    Attributes
    ----------
    number : int
        Its place among the graph's nodes, from 0, those in bodies included; what pictures and texts call it.
    graph_node_id : int
        Its row in ``graph_nodes``.
    place : tuple of int
        The node around it (-1 at the top) and which of its bodies.
    kind, name : str
        Its kind, and the kernel's name, a copy's direction or a host function's name; empty where it has none.
    griddim, blockdim, cluster : tuple of int, or None
        A kernel's launch configuration, x, y and z.
    sharedmem_bytes, size_bytes : int or None
        Dynamic shared memory a block; bytes copied, set or allocated.
    runs : int
        How often it was seen to run on the GPU.
    execute_ns : float or None
        Median of how long it ran.
    total_ns : int or None
        All its runs together; of a node with bodies, those of the nodes in them.
    share : float or None
        That over the same of the whole graph, 0 to 1.
    """

    number: int
    graph_node_id: int
    place: Place
    kind: str
    name: str
    griddim: tuple[int, ...] | None
    blockdim: tuple[int, ...] | None
    cluster: tuple[int, ...] | None
    sharedmem_bytes: int | None
    size_bytes: int | None
    runs: int
    execute_ns: float | None
    total_ns: int | None
    share: float | None


@dataclass(frozen=True)
class Graph:
    """A graph with everything in it.

    Attributes
    ----------
    graph_id : int
        Its row in ``graphs``.
    nodes : tuple of Node
        By their number.
    bodies : dict
        For each place that has nodes, their numbers in order.
    edges : dict
        For each such place its edges, as (number of the first, number of the one that waits); no edge is there twice.
    instantiations, launches : int
        How often it was seen to be instantiated and launched.
    timed_launches : int
        Launches of which nodes' times are known.
    total_ns : int or None
        Time of all its nodes on the GPU, over those launches.
    left_out : int
        Edges that join nodes of different places or a node with itself, which no CUDA graph has.
    """

    graph_id: int
    nodes: tuple[Node, ...]
    bodies: dict[Place, tuple[int, ...]]
    edges: dict[Place, tuple[tuple[int, int], ...]]
    instantiations: int
    launches: int
    timed_launches: int
    total_ns: int | None
    left_out: int

    @property
    def launch_ns(self) -> float | None:
        """Time of all its nodes on the GPU, a launch; None where it is not known."""
        return self.by_launch(self.total_ns)

    def by_launch(self, total_ns: int | None) -> float | None:
        """Return a time over all launches as one a launch; None where either is not known."""
        return None if total_ns is None or not self.timed_launches else total_ns / self.timed_launches

    @property
    def edge_count(self) -> int:
        """Edges, those in bodies included."""
        return sum(len(each) for each in self.edges.values())

    def bodies_of(self, number: int) -> list[Place]:
        """Return the places inside a node, in order."""
        return self._inside.get(number, [])

    @cached_property
    def _inside(self) -> dict[int, list[Place]]:
        inside: dict[int, list[Place]] = {}
        for place in sorted(self.bodies):
            inside.setdefault(place[0], []).append(place)
        return inside


def find_graph(recording: Recording, graph_id: int | None = None) -> int:
    """Return the id of the graph that is meant: the one given, or without one the only one.

    Raises
    ------
    UnknownGraphError
        The recording has no such graph, or more than one and none was given; the message lists those that it has.
    """
    known = row_count(recording, "graphs")
    if not known:
        raise UnknownGraphError("the recording has no graph: nothing built or launched a CUDA graph while it ran")
    if graph_id is None and known == 1:
        return 0
    # A bool is an int too, and names no graph.
    if isinstance(graph_id, int) and not isinstance(graph_id, bool) and 0 <= graph_id < known:
        return graph_id
    said = "which graph?" if graph_id is None else f"no graph {graph_id!r};"
    raise UnknownGraphError(f"{said} {known_graphs(recording)}")


def known_graphs(recording: Recording) -> str:
    """Return which graphs a recording has, as a part of a sentence."""
    rows = recording.rows("graphs")
    named = [f"{at} ({counted(row['nodes'], 'node')})" for at, row in enumerate(rows[:_MOST_NAMED])]
    more = f" and {len(rows) - _MOST_NAMED:,} more" if len(rows) > _MOST_NAMED else ""
    return f"the recording has {'graph' if len(rows) == 1 else 'graphs'} {', '.join(named)}{more}"


def read_graph(recording: Recording, graph_id: int | None = None) -> Graph:
    """Return a graph of the recording; without an id the only one.

    Raises
    ------
    UnknownGraphError
        As `find_graph`.
    """
    graph_id = find_graph(recording, graph_id)
    rows = _rows_of(recording, graph_id)
    held = _taken(recording, "graph_nodes", rows)
    number_of = {int(row): at for at, row in enumerate(rows.tolist())}
    places = _places(held, number_of)
    bodies: dict[Place, list[int]] = {}
    for number, place in enumerate(places):
        bodies.setdefault(place, []).append(number)
    edges, left_out = _edges(recording, graph_id, number_of, places)
    runs, median, total, timed_launches = _times(recording, rows)
    totals = _with_insides([int(each) if runs[at] else None for at, each in enumerate(total.tolist())], places)
    # Only what is at the top adds up to the whole: what is in a body is a part of the node around it.
    whole = [totals[at] for at, place in enumerate(places) if place == TOP]
    timed = [each for each in whole if each is not None]
    whole_ns = sum(timed) if timed else None
    names = _Names(recording)
    nodes = tuple(
        Node(
            number, int(rows[number]), places[number], str(row["kind"] or "other"), names.name(row),
            *names.dims(row["configuration_id"]), row["size_bytes"], int(runs[number]),
            float(median[number]) if runs[number] else None, totals[number],
            None if totals[number] is None or not whole_ns else (totals[number] or 0) / whole_ns,
        )
        for number, row in enumerate(held)
    )
    events, words = codes(recording, "graph_events", "kind")
    of_graph = ints(recording, "graph_events", "graph_id") == graph_id
    seen = {word: int((of_graph & (events == at)).sum()) for at, word in enumerate(words)}
    return Graph(
        graph_id, nodes, {place: tuple(numbers) for place, numbers in bodies.items()},
        {place: tuple(pairs) for place, pairs in edges.items()}, seen.get("instantiate", 0), seen.get("launch", 0),
        timed_launches or seen.get("launch", 0), whole_ns, left_out,
    )


def _rows_of(recording: Recording, graph_id: int) -> Ints:
    return np.flatnonzero(ints(recording, "graph_nodes", "graph_id") == graph_id)


def _taken(recording: Recording, table: str, rows: Any) -> list[dict[str, Any]]:
    source: Any = recording
    held: list[dict[str, Any]] = source.arrow(table).take(rows).to_pylist()
    return held


def _places(held: list[dict[str, Any]], number_of: dict[int, int]) -> list[Place]:
    """Where each node is. A node comes after the one around it; what a file says otherwise is at the top."""
    found: list[Place] = []
    for number, row in enumerate(held):
        around = number_of.get(row["parent_node_id"], UNKNOWN) if row["parent_node_id"] is not None else UNKNOWN
        is_inside = 0 <= around < number
        found.append((around, max(int(row["body"] or 0), 0)) if is_inside else TOP)
    return found


def _edges(
    recording: Recording, graph_id: int, number_of: dict[int, int], places: list[Place],
) -> tuple[dict[Place, list[tuple[int, int]]], int]:
    mine = np.flatnonzero(ints(recording, "graph_edges", "graph_id") == graph_id)
    first = ints(recording, "graph_edges", "from_node_id")[mine].tolist()
    then = ints(recording, "graph_edges", "to_node_id")[mine].tolist()
    found: dict[Place, dict[tuple[int, int], None]] = {}
    strange = 0
    for pair in zip(first, then, strict=True):
        a, b = number_of.get(pair[0], UNKNOWN), number_of.get(pair[1], UNKNOWN)
        if a < 0 or b < 0 or a == b or places[a] != places[b]:
            strange += 1
        else:
            found.setdefault(places[a], {})[a, b] = None
    return {place: list(pairs) for place, pairs in found.items()}, strange


def _times(recording: Recording, rows: Ints) -> tuple[Ints, Floats, Ints, int]:
    """How often each node ran, the median and the sum; and in how many launches of the graph."""
    size = len(rows)
    node = ints(recording, "activities", "graph_node_id")
    if not size or not len(node):
        return np.zeros(size, np.int64), np.full(size, np.nan), np.zeros(size, np.int64), 0
    group: NDArray[np.int64] = np.full(max(int(node.max()), int(rows.max())) + 2, UNKNOWN, dtype=np.int64)
    group[rows] = np.arange(size)
    group = group[node]  # An unknown node is -1, the last place, which is of none.
    start, end = ints(recording, "activities", "start_ns"), ints(recording, "activities", "end_ns")
    lasted = np.where((start >= 0) & (end >= start), end - start, UNKNOWN)
    group = np.where(lasted >= 0, group, UNKNOWN)
    launch = ints(recording, "activities", "graph_event_id")
    launches = len(np.unique(launch[(group >= 0) & (launch >= 0)]))
    median = percentiles_by(group, lasted, size, (0.5,))[:, 0]
    return count_by(group, size), median, sum_by(group, lasted, size), launches


def _with_insides(totals: list[int | None], places: list[Place]) -> list[int | None]:
    """Nodes with bodies have the time of what is in them; from the last, since a node comes after the one around it."""
    made = list(totals)
    for number in range(len(made) - 1, -1, -1):
        around, inside = places[number][0], made[number]
        if around >= 0 and inside is not None:
            made[around] = (made[around] or 0) + inside
    return made


class _Names:
    """Names and launch configurations by row."""

    def __init__(self, recording: Recording) -> None:
        self._dispatchers = recording.rows("dispatchers")
        self._specializations = ints(recording, "specializations", "dispatcher_id")
        self._configurations = recording.rows("configurations")

    def name(self, row: dict[str, Any]) -> str:
        """The Python name of a recorded kernel, or else what the graph has."""
        at = row["specialization_id"]
        if at is not None and at < len(self._specializations):
            return str(self._dispatchers[int(self._specializations[at])]["name"])
        return str(row["name"] or row["entry_name"] or "")

    def dims(self, at: int | None) -> tuple[
        tuple[int, ...] | None, tuple[int, ...] | None, tuple[int, ...] | None, int | None
    ]:
        """Grid, block, cluster and shared memory."""
        if at is None or at >= len(self._configurations):
            return None, None, None, None
        row = self._configurations[at]
        grid, block, cluster = (
            _known_dims(row, prefix) for prefix in ("griddim", "blockdim", "cluster"))
        return grid, block, cluster, row["sharedmem_bytes"]


def _known_dims(row: dict[str, Any], prefix: str) -> tuple[int, ...] | None:
    found = tuple(row[f"{prefix}_{axis}"] for axis in "xyz")
    return None if None in found else found
