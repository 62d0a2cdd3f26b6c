"""From what was seen of graphs to rows: graphs with their nodes and edges, rebuilds, and what differs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from kernelscope.probes.cuda_core.graphs import Event, Executable, Memory
from kernelscope.probes.cuda_core.read import Node, Shape, Snapshot, compare
from kernelscope.probes.sink import Sink

#: More nodes than these are not written down: graphs that each update changes by one node would fill the memory.
MOST_NODES = 500_000
_ARRAY = r"(?i:array)\(.*?, (\d+)d?, "
#: What numba passes for an array beside its shape and strides.
_ARRAY_PARAMETERS = 5

Numbers = tuple[int | None, ...]


class RowMaker:
    """Makes rows of `GraphRows`, a part at each stop.

    Parameters
    ----------
    sink : Sink
        Whose graphs they are.
    memory : Memory
        What executable graphs of earlier recordings are.
    """

    def __init__(self, sink: Sink, memory: Memory) -> None:
        self._sink = sink
        self._rows = sink.graphs
        self._memory = memory
        self._ids: dict[tuple[str, Numbers], int] = {}
        self._configurations: dict[Shape, int] = {}
        self._latest: dict[str, tuple[int, Snapshot]] = {}
        self._same: dict[tuple[str, str], int] = {}
        self._names: dict[str, tuple[str, ...]] = {}
        self._named = 0
        self.left_out = 0

    def finish(self, events: Iterable[Event]) -> None:
        """Fill in the rows of events, in the order in which they began; those that are complete stay as they are."""
        self._learn_names()
        # They were written down when they ended, and a rebuild is one of what began before it.
        for event in sorted(events, key=lambda event: event.row["start_ns"] or 0):
            if not event.is_finished:
                self._finish(event)

    def launched(self, executable: Executable) -> int:
        """Return the position of the event that made an executable graph, and have activities find it."""
        if executable.number is not None:
            self._rows.execs[executable.number] = executable.made.position
        return executable.made.position

    def _finish(self, event: Event) -> None:
        row, kind = event.row, event.row["kind"]
        row["source_event_id"] = event.source.position if event.source is not None else None
        if event.executable is not None:
            row["exec_id"] = event.executable.made.position
        content = event.copy.content if event.copy is not None else None
        if kind == "instantiate":
            if content is not None:
                row["graph_id"] = self._graph(content.snapshot, content.numbers)
                if event.executable is not None:
                    self._rebuild(event, content.snapshot)
                    self._becomes(event.executable, content.snapshot, content.numbers)
            if event.executable is not None:
                self.launched(event.executable)
        elif kind == "before":
            assert event.executable is not None
            known = self._memory.recall(event.executable.number)
            if known is not None:
                row["graph_id"] = self._graph(*known)
                event.executable.snapshot, event.executable.numbers = known
            self.launched(event.executable)
        elif kind == "update":
            self._update(event)
        elif event.executable is not None:
            row["graph_id"] = self._graph_of(event.executable)
        elif kind in ("capture", "define"):
            row["graph_id"] = self._graph(content.snapshot, content.numbers) if content is not None else None
            # It may be captured into, or be instantiated, when another recorder stops.
            event.is_finished = False
            return
        event.is_finished = True

    def _update(self, event: Event) -> None:
        row, executable = event.row, event.executable
        if executable is None:
            return
        before = executable.snapshot
        after = self._after(event, before)
        if after is not None and before is not None:
            row["change"], row["changes"] = compare(before, after, self._names)
        if after is not None and row["outcome"] == "ok":
            self._becomes(executable, after, executable.numbers)
        row["graph_id"] = self._graph_of(executable)

    def _after(self, event: Event, before: Snapshot | None) -> Snapshot | None:
        """What an update made of an executable graph, or would have."""
        if event.copy is not None:
            return event.copy.content.snapshot if event.copy.content is not None else None
        if before is None or event.place is None or event.place >= len(before.nodes):
            return None
        old = before.nodes[event.place]
        if event.enabled is not None:
            return before.replaced(event.place, old._replace(enabled=event.enabled))
        if event.node is None:
            return None
        shape = event.node.shape
        if shape is not None and old.shape is not None:  # attributes stay
            shape = shape._replace(cluster=old.shape.cluster, cooperative=old.shape.cooperative)
        return before.replaced(event.place, event.node._replace(shape=shape, enabled=old.enabled))

    def _rebuild(self, event: Event, snapshot: Snapshot) -> None:
        """Say what a graph could have been instead of instantiated: the same one if there is, else the latest."""
        latest = self._latest.get(snapshot.topology)
        if latest is not None:
            same = self._same.get((snapshot.fingerprint, snapshot.state))
            event.row["rebuild_of"] = latest[0] if same is None else same
            event.row["change"], event.row["changes"] = \
                ("none", None) if same is not None else compare(latest[1], snapshot, self._names)
        self._latest[snapshot.topology] = event.position, snapshot
        self._same[snapshot.fingerprint, snapshot.state] = event.position

    def _becomes(self, executable: Executable, snapshot: Snapshot, numbers: Numbers) -> None:
        executable.snapshot, executable.numbers = snapshot, numbers
        self._memory.remember(executable.number, snapshot, numbers)

    def _graph_of(self, executable: Executable) -> int | None:
        if executable.snapshot is None:
            return None
        return self._graph(executable.snapshot, executable.numbers)

    def _graph(self, snapshot: Snapshot, numbers: Numbers) -> int | None:
        """The id of a graph; its rows are made at first sight."""
        key = snapshot.fingerprint, numbers
        found = self._ids.get(key)
        if found is not None:
            return found
        nodes, edges = snapshot.count()
        if self._rows.nodes and len(self._rows.nodes) + nodes > MOST_NODES:
            self.left_out += 1
            return None
        found = len(self._rows.graphs)
        first = len(self._rows.nodes)
        self._nodes(found, snapshot, None, None)
        for place, number in enumerate(numbers):
            if number is not None:
                self._rows.nodes_of[found, number] = first + place
        self._rows.graphs.append({"fingerprint": snapshot.fingerprint, "topology": snapshot.topology, "nodes": nodes,
                                  "edges": edges})
        self._ids[key] = found
        return found

    def _nodes(self, graph: int, snapshot: Snapshot, parent: int | None, body: int | None) -> None:
        rows = self._rows.nodes
        places: list[int] = []
        for node in snapshot.nodes:
            places.append(len(rows))
            rows.append({
                "graph_id": graph, "parent_node_id": parent, "body": body, "kind": node.kind, "name": node.name,
                "entry_name": node.entry, "size_bytes": node.size,
                "configuration_id": self._configuration(node.shape) if node.shape is not None else None,
                "attributes": _attributes(node),
            })
            for number, inside in enumerate(node.bodies):
                self._nodes(graph, inside, places[-1], number)
        self._rows.edges += [{"graph_id": graph, "from_node_id": places[first], "to_node_id": places[then]}
                             for first, then in snapshot.edges]

    def _configuration(self, shape: Shape) -> int:
        found = self._configurations.get(shape)
        if found is None:
            found = self._configurations[shape] = self._sink.configuration(
                shape.grid, shape.block, shape.sharedmem, None, shape.cluster)
        return found

    def _learn_names(self) -> None:
        """What the parameters of recorded kernels are called, where each belongs to one Python argument for sure."""
        rows = self._sink.specializations.rows
        for row in rows[self._named:]:
            entry, dispatcher = row.get("entry_name"), row.get("dispatcher_id")
            if entry and dispatcher is not None and dispatcher < len(self._sink.dispatchers.rows):
                names = self._sink.dispatchers.rows[dispatcher].get("arguments") or ""
                found = parameter_names(row.get("signature") or "", names)
                if found:
                    self._names[entry] = found
        self._named = len(rows)


def parameter_names(signature: str, names: str) -> tuple[str, ...]:
    """Return which Python argument each parameter of a numba kernel belongs to; empty where that is not sure.

    Parameters
    ----------
    signature : str
        Argument types, such as ``(array(float32, 1d, C), int64)``.
    names : str
        The arguments' names, such as ``x, n``.
    """
    types, labels = _parts(signature.strip()[1:-1]), [name.strip() for name in names.split(",") if name.strip()]
    if len(types) != len(labels) or any(label.startswith("*") for label in labels):
        return ()
    found: list[str] = []
    for each, label in zip(types, labels, strict=True):
        array = re.match(_ARRAY, each)
        if array is None and "(" in each:
            return ()  # tuples, records and the like have parameters that only numba can count
        found += [label] * (1 if array is None else _ARRAY_PARAMETERS + 2 * int(array[1]))
    return tuple(found)


def _parts(text: str) -> list[str]:
    """A text split at the commas that are in no bracket."""
    found, depth, start = list[str](), 0, 0
    for place, letter in enumerate(text):
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and not depth:
            found.append(text[start:place].strip())
            start = place + 1
    return [each for each in (*found, text[start:].strip()) if each]


def _attributes(node: Node) -> str | None:
    found: dict[str, Any] = {}
    if node.shape is not None and node.shape.cooperative:
        found["cooperative"] = True
    if node.unknown:
        found["unknown"] = node.unknown
    if not node.enabled:
        found["enabled"] = False
    return json.dumps(found) if found else None
