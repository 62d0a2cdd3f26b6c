"""One CUDA graph of a recording: its nodes with launch configurations and times, and what each thing is called."""

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
    instants,
    ints,
    matches,
    percentiles_by,
    row_count,
    sum_by,
)
from kernelscope.analysis.launches import Dims
from kernelscope.analysis.launches import dims as dims_of
from kernelscope.errors import UnknownGraphError
from kernelscope.recording.model import Recording
from kernelscope.recording.time import duration_ns
from kernelscope.schema import UNKNOWN
from kernelscope.units import counted, duration, listed, percent, short_name, size
from kernelscope.views.base import clean, dims

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
        Its place among the graph's nodes, from 0, those in bodies included; the number that all views show.
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
        """Return the GPU time of all nodes per launch; None where it is not known."""
        return self.by_launch(self.total_ns)

    def by_launch(self, total_ns: int | None) -> float | None:
        """Return a time over all launches as one a launch; None where either is not known."""
        return None if total_ns is None or not self.timed_launches else total_ns / self.timed_launches

    @property
    def edge_count(self) -> int:
        """Return the number of edges, those in bodies included."""
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
        launches = int(matches(recording, "graph_events", "kind", "launch").sum())
        if launches:
            why = "a trace of another tool has no nodes" if recording.is_imported else "it was built before"
            raise UnknownGraphError(f"no graph was seen being built, so that there is none to show ({why}); it was "
                                    f"launched {counted(launches, 'time')}, of which kernelscope show has the times")
        if recording.is_imported:
            raise UnknownGraphError("the trace has no launch of a CUDA graph, and how graphs are built is in no trace")
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
    named = listed([f"{at} ({counted(row['nodes'], 'node')})" for at, row in enumerate(rows)], _MOST_NAMED)
    return f"the recording has {'graph' if len(rows) == 1 else 'graphs'} {named}"


def read_graph(recording: Recording, graph_id: int | None = None) -> Graph:
    """Return a graph of the recording; without an id the only one.

    Raises
    ------
    UnknownGraphError
        As `find_graph`.
    """
    graph_id = find_graph(recording, graph_id)
    rows = np.flatnonzero(ints(recording, "graph_nodes", "graph_id") == graph_id)
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


def _taken(recording: Recording, table: str, rows: Any) -> list[dict[str, Any]]:
    source: Any = recording
    held: list[dict[str, Any]] = source.arrow(table).take(rows).to_pylist()
    return held


def _places(held: list[dict[str, Any]], number_of: dict[int, int]) -> list[Place]:
    """Return each node's place; a node whose parent does not come before it is at the top."""
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
    """Return how often each node ran, its median and total time; and the number of timed launches."""
    size = len(rows)
    node = ints(recording, "activities", "graph_node_id")
    if not size or not len(node):
        return np.zeros(size, np.int64), np.full(size, np.nan), np.zeros(size, np.int64), 0
    group: NDArray[np.int64] = np.full(max(int(node.max()), int(rows.max())) + 2, UNKNOWN, dtype=np.int64)
    group[rows] = np.arange(size)
    group = group[node]  # An unknown node is -1, the last place, which is of none.
    lasted = duration_ns(*instants(recording, "activities", "start_ns", "end_ns"))
    group = np.where(lasted >= 0, group, UNKNOWN)
    launch = ints(recording, "activities", "graph_event_id")
    launches = len(np.unique(launch[(group >= 0) & (launch >= 0)]))
    median = percentiles_by(group, lasted, size, (0.5,))[:, 0]
    return count_by(group, size), median, sum_by(group, lasted, size), launches


def _with_insides(totals: list[int | None], places: list[Place]) -> list[int | None]:
    """Add the time of their bodies to nodes, last node first, since a node comes after its parent."""
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
        """Return the Python name of a recorded kernel, or else the graph's name for it."""
        at = row["specialization_id"]
        if at is not None and at < len(self._specializations):
            return str(self._dispatchers[int(self._specializations[at])]["name"])
        return str(row["name"] or row["entry_name"] or "")

    def dims(self, at: int | None) -> tuple[Dims | None, Dims | None, Dims | None, int | None]:
        """Return grid, block, cluster and shared memory."""
        if at is None or at >= len(self._configurations):
            return None, None, None, None
        row = self._configurations[at]
        return dims_of(row, "griddim"), dims_of(row, "blockdim"), dims_of(row, "cluster"), row["sharedmem_bytes"]


# Kinds of nodes: what each is called, and what it looks like. Nodes bring their own ground and are drawn in white on
# it, so that one SVG is readable on a light and on a dark page. The front end gets the same table.

@dataclass(frozen=True)
class Kind:
    """How one kind of node is drawn.

    Attributes
    ----------
    word, plural : str
        What it is called.
    color : str
        Its ground; white on it has a contrast of 4.5 at least.
    outline : str
        One of the outlines of ``svg.py``.
    sign : str
        A sign of 16 by 16 pixels, as an SVG path that is stroked.
    """

    word: str
    plural: str
    color: str
    outline: str
    sign: str


KINDS = {
    "kernel": Kind("kernel", "kernels", "#2d66b0", "round",
                   "M1.5 1.5h5v5h-5zM9.5 1.5h5v5h-5zM1.5 9.5h5v5h-5zM9.5 9.5h5v5h-5z"),
    "memcpy": Kind("memcpy", "memcpy nodes", "#b0501c", "slant",
                   "M2 5h11M10 2l3 3-3 3M14 11.5H3M6 8.5l-3 3 3 3"),
    "memset": Kind("memset", "memsets", "#86620f", "roof", "M2 3.5h12M2 8h12M2 12.5h12"),
    "host": Kind("host function", "host functions", "#7549a8", "cut", "M5.5 3L1.5 8l4 5M10.5 3l4 5-4 5"),
    "empty": Kind("empty", "empty nodes", "#626a75", "pill", "M8 3a5 5 0 1 0 .01 0z"),
    "event_record": Kind("event record", "event records", "#a53a68", "pill", "M4 15V2l8.5 3.5L4 9"),
    "event_wait": Kind("event wait", "event waits", "#8f3f86", "pill", "M4 2h8L4 14h8z"),
    "child": Kind("child graph", "child graphs", "#2f6777", "stack", "M1.5 1.5h13v13h-13zM5.5 5.5h5v5h-5z"),
    "if": Kind("if", "ifs", "#0b716a", "hex", "M8 1.2L14.8 8 8 14.8 1.2 8z"),
    "while": Kind("while", "whiles", "#1c7046", "hex", "M13.5 8.5A5.5 5.5 0 1 1 11.5 4M12 .8V4.4H8.4"),
    "switch": Kind("switch", "switches", "#4b6a10", "hex", "M8 1.5V6M8 6L2.5 13.5M8 6v8M8 6l5.5 7.5"),
    "mem_alloc": Kind("memory allocation", "memory allocations", "#a4414a", "drum", "M2 2h12v12H2zM8 5v6M5 8h6"),
    "mem_free": Kind("memory free", "memory frees", "#7d4b4b", "drum", "M2 2h12v12H2zM5 8h6"),
}
#: Whatever else there is, such as what a later driver calls by another name.
OTHER = Kind("other node", "other nodes", "#545c68", "round", "M3 8h.1M8 8h.1M13 8h.1")


def kind_of(name: str) -> Kind:
    """Return how a kind of node is drawn."""
    return KINDS.get(name, OTHER)


# What every output calls things.

_MOST_KINDS = 5
#: Names are untrusted, and as long as their kernel's template arguments are.
LONGEST_NAME = 400
_SHORT = 18


def title(node: Node) -> str:
    """Return what a node is called first of all: the short name of a kernel, a copy's direction, or its kind."""
    name = clean(short_name(node.name))
    if node.kind == "memcpy":
        return f"copy {name}".strip()
    return name or kind_of(node.kind).word


def detail(graph: Graph, node: Node) -> str:
    """Return a node's kind with what matters of it: the launch configuration, bytes, or how many nodes are in it.

    The kind is left out where it is the title.
    """
    word = kind_of(node.kind).word
    return " · ".join(part for part in ("" if title(node) == word else word, _measure(graph, node)) if part)


def line(graph: Graph, node: Node) -> str:
    """Return a node's title and detail in one line; the title is cleaned."""
    return " · ".join(part for part in (clean(title(node)), detail(graph, node)) if part)


def configuration(node: Node) -> str:
    """Return a kernel's grid and block as in a launch, ``[4, 128]``; empty where they are not known."""
    if node.griddim is None or node.blockdim is None:
        return ""
    return f"[{dims(node.griddim)}, {dims(node.blockdim)}]"


def time_of(graph: Graph, node: Node) -> str:
    """Return the median of a node's time; of a node with bodies what they took a launch; empty where not recorded."""
    if node.execute_ns is not None:
        return duration(node.execute_ns)
    a_launch = graph.by_launch(node.total_ns)
    return "" if a_launch is None else duration(a_launch)


def fields(graph: Graph, node: Node) -> list[tuple[str, str]]:
    """Return what there is to know of a node, as pairs of a label and a text; names are cleaned."""
    inside = sum(len(graph.bodies[place]) for place in graph.bodies_of(node.number))
    name = clean(node.name[:LONGEST_NAME]) + ("…" if len(node.name) > LONGEST_NAME else "")
    # Where the title says it in full, once is enough.
    is_said = node.kind == "memcpy" or (name == title(node) and len(name) <= _SHORT)
    found: list[tuple[str, str | None]] = [
        ("node", f"{node.number}, {kind_of(node.kind).word}"),
        ("name", None if is_said else name),
        ("grid", f"{dims(node.griddim)} blocks" if node.griddim else None),
        ("block", f"{dims(node.blockdim)} threads" if node.blockdim else None),
        ("cluster", f"{dims(node.cluster)} blocks" if node.cluster else None),
        ("shared", size(node.sharedmem_bytes) if node.sharedmem_bytes else None),
        ("bytes", None if node.size_bytes is None else size(node.size_bytes)),
        ("inside", counted(inside, "node") if inside else None),
        ("time", _time_sentence(graph, node)),
        ("share", f"{percent(node.share)} of the graph's GPU time" if node.share is not None else None),
    ]
    return [(label, text) for label, text in found if text]


def body_name(node: Node, place: Place) -> str:
    """Return what one of a node's bodies is called; empty for a child graph, which has one."""
    if node.kind == "if":
        return ("then", "else")[place[1]] if place[1] < 2 else f"body {place[1]}"
    if node.kind == "switch":
        return f"case {place[1]}"
    return "" if node.kind == "child" else "body" if place[1] == 0 else f"body {place[1]}"


def kinds(graph: Graph, numbers: tuple[int, ...] | None = None) -> str:
    """Return how many nodes of which kind there are, the most frequent first: ``3 kernels, 1 memcpy``."""
    nodes = graph.nodes if numbers is None else [graph.nodes[number] for number in numbers]
    found: dict[str, int] = {}
    for node in nodes:
        word = kind_of(node.kind).word
        found[word] = found.get(word, 0) + 1
    plurals = {kind_of(node.kind).word: kind_of(node.kind).plural for node in nodes}
    ordered = sorted(found.items(), key=lambda item: -item[1])
    said = [counted(number, word, plurals[word]) for word, number in ordered[:_MOST_KINDS]]
    more = sum(number for _, number in ordered[_MOST_KINDS:])
    return ", ".join([*said, *([f"{more:,} others"] if more else [])])


def headline(graph: Graph) -> str:
    """Return the graph in one line."""
    parts = [f"graph {graph.graph_id}", f"{counted(len(graph.nodes), 'node')}, {counted(graph.edge_count, 'edge')}"]
    lived = [f"{word} {_duration_rows(number)}" for word, number in (
        ("instantiated", graph.instantiations), ("launched", graph.launches)) if number]
    if lived:
        parts.append(", ".join(lived))
    if graph.launch_ns is not None:
        parts.append(f"{duration(graph.launch_ns)} of GPU time a launch")
    return " · ".join(parts)


def _measure(graph: Graph, node: Node) -> str:
    inside = sum(len(graph.bodies[place]) for place in graph.bodies_of(node.number))
    if inside:
        return counted(inside, "node")
    if node.kind == "kernel":
        return configuration(node)
    return "" if node.size_bytes is None else size(node.size_bytes)


def _time_sentence(graph: Graph, node: Node) -> str | None:
    if node.execute_ns is not None:
        return f"{duration(node.execute_ns)}, the median of {counted(node.runs, 'run')}"
    said = time_of(graph, node)
    return f"{said} a launch, all that is inside together" if said else None


def _duration_rows(number: int) -> str:
    return {1: "once", 2: "twice"}.get(number, f"{number:,} times")
