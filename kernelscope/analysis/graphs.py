"""Graphs: what building, updating and launching each one cost, which builds were rebuilds, and its time by node.

What a rebuild is, and which ones replaced an executable graph, `kernelscope.analysis.executables` says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kernelscope.analysis.columns import Bools, Ints, count_by, ints, row_count, sum_by
from kernelscope.analysis.executables import GraphEvents
from kernelscope.analysis.execution import Spread, spreads_by
from kernelscope.analysis.graph_groups import Groups, Shapes, grouped
from kernelscope.analysis.graph_names import UNSEEN, cupti_label
from kernelscope.analysis.graph_runs import GraphRuns, graph_runs
from kernelscope.recording.model import Recording
from kernelscope.schema import UNKNOWN

if TYPE_CHECKING:
    import pandas as pd

#: What a rebuild changed, in the order in which tables list it.
CHANGES = ("none", "arguments", "configuration", "topology")

_NO_SHAPE: dict[str, Any] = {"nodes": None, "edges": None, "kinds": {}, "kernels": ()}


@dataclass(frozen=True)
class GraphSummary:
    """Graphs of one topology, or one graph; what was not recorded is None.

    Attributes
    ----------
    graph_ids : tuple of int
        Their rows in ``graphs``; empty where the graph was not seen being built.
    cupti_graph_id : int or None
        CUPTI's id of the executable graph, where nothing else is known of it.
    variants : int
        How many different graphs they are: of one topology, with other launch configurations or sizes.
    nodes, edges : int or None
        Of the first of them.
    kinds : dict of str to int
        Its nodes by kind, most first.
    kernels : tuple of str
        Names of its kernels, in the order of nodes, each once.
    captures, captured : int
        Captures that ended in them, and launches that went into these.
    captured_ns : int
        Host time of those launches.
    builds, before, failed : int
        Executable graphs that were made, that were there when recording began, and instantiates that failed.
    rebuilds : dict of str to int
        By what had changed, one of `CHANGES`.
    replaced : dict of str to int
        Of these the ones after which the executable graph before was not launched any more.
    changes : tuple of str
        What had changed, in words, each once.
    rebuild_ns, replaced_ns : int
        Time of the rebuilds, and of those that replaced another.
    updates, refused : int
        Updates that were made, and that the driver would not make.
    uploads, reuploads : int
        Uploads, and how many of them were of an executable graph that was on the device already, unchanged.
    launches : int
        Launches.
    capture, build, update, refusal, upload, launch : Spread or None
        Host time of captures, instantiates, updates, refused updates, uploads and launches.
    queue, execute : Spread or None
        Of launches on the GPU: until the first node began; from there to the last one's end.
    kernel_runs, other_runs : int
        Kernels that ran in them; copies and memsets.
    busy_ns : int or None
        Time of all nodes on the GPU, summed; None where none was timed.
    cells : tuple of int
        Cells in which they were built or launched.
    """

    graph_ids: tuple[int, ...]
    cupti_graph_id: int | None
    variants: int
    nodes: int | None
    edges: int | None
    kinds: Mapping[str, int]
    kernels: tuple[str, ...]
    captures: int
    captured: int
    captured_ns: int
    builds: int
    before: int
    failed: int
    rebuilds: Mapping[str, int]
    replaced: Mapping[str, int]
    changes: tuple[str, ...]
    rebuild_ns: int
    replaced_ns: int
    updates: int
    refused: int
    uploads: int
    reuploads: int
    launches: int
    capture: Spread | None
    build: Spread | None
    update: Spread | None
    refusal: Spread | None
    upload: Spread | None
    launch: Spread | None
    queue: Spread | None
    execute: Spread | None
    kernel_runs: int
    other_runs: int
    busy_ns: int | None
    cells: tuple[int, ...]

    @property
    def name(self) -> str:
        """What to call it: ``graph 0``; the first id of several."""
        if self.graph_ids:
            return f"graph {self.graph_ids[0]}"
        return UNSEEN if self.cupti_graph_id is None else cupti_label(self.cupti_graph_id)

    @property
    def host_ns(self) -> int:
        """Host time of building, updating, uploading and launching, in nanoseconds."""
        held = (self.build, self.update, self.refusal, self.upload, self.launch)
        return self.captured_ns + sum(each.total_ns for each in held if each is not None)

    @property
    def rebuilt(self) -> int:
        """How many builds were rebuilds."""
        return sum(self.rebuilds.values())


@dataclass(frozen=True)
class NodeTime:
    """One node of a graph, over all launches; `execute` is None where none was timed."""

    graph_node_id: int
    kind: str
    name: str | None
    runs: int
    execute: Spread | None


def by_topology(recording: Recording, runs: GraphRuns | None = None) -> list[GraphSummary]:
    """Summarize the graphs of each topology, most host and GPU time first: one line of the card each."""
    return _summaries(recording, runs or graph_runs(recording), "topology")


def by_graph(recording: Recording, runs: GraphRuns | None = None) -> list[GraphSummary]:
    """Summarize each graph: those of one fingerprint are one, from wherever and with whatever arguments launched."""
    return _summaries(recording, runs or graph_runs(recording), "fingerprint")


def graph_table(recording: Recording) -> pd.DataFrame:
    """Return `by_graph` as a DataFrame, one row a graph.

    Its columns are ``name``, ``graph_id``, ``nodes``, ``edges``, ``captured``, ``builds``, ``rebuilds``, ``replaced``,
    ``updates``, ``refused``, ``uploads``, ``reuploads``, ``launches``, and the total and the median of ``build``,
    ``update``, ``launch`` (host) and ``execute`` (GPU) in nanoseconds.
    """
    import pandas as pd

    rows = by_graph(recording)
    columns: dict[str, Any] = {"name": pd.Series([row.name for row in rows], dtype=object)}
    counts: dict[str, list[int | None]] = {
        "graph_id": [row.graph_ids[0] if row.graph_ids else None for row in rows],
        **{name: [getattr(row, name) for row in rows] for name in ("nodes", "edges", "captured", "builds")},
        "rebuilds": [row.rebuilt for row in rows],
        "replaced": [sum(row.replaced.values()) for row in rows],
        **{name: [getattr(row, name) for row in rows]
           for name in ("updates", "refused", "uploads", "reuploads", "launches")},
    }
    columns |= {name: pd.array(values, dtype="Int64") for name, values in counts.items()}
    for name in ("build", "update", "launch", "execute"):
        held: list[Spread | None] = [getattr(row, name) for row in rows]
        columns[f"{name}_total_ns"] = pd.array([each and each.total_ns for each in held], dtype="Int64")
        columns[f"{name}_p50_ns"] = pd.array([each and each.p50_ns for each in held], dtype="Float64")
    return pd.DataFrame(columns)


def node_times(recording: Recording, graph_id: int) -> list[NodeTime]:
    """Return the nodes of one graph, in the order of ``graph_nodes``, with their time on the GPU over all launches."""
    rows = np.flatnonzero(ints(recording, "graph_nodes", "graph_id") == graph_id)
    if not len(rows):
        return []
    node = ints(recording, "activities", "graph_node_id")
    mine = np.flatnonzero((node >= rows[0]) & (node <= rows[-1]))
    start, end = ints(recording, "activities", "start_ns")[mine], ints(recording, "activities", "end_ns")[mine]
    lasted = np.where((start >= 0) & (end >= start), end - start, UNKNOWN)
    group = node[mine] - int(rows[0])
    size = int(rows[-1] - rows[0]) + 1
    runs, spreads = count_by(group, size).tolist(), spreads_by(group, lasted, size)
    table: Any = recording.arrow("graph_nodes")
    held = table.slice(int(rows[0]), size).to_pylist()
    return [
        NodeTime(int(row["graph_node_id"]), str(row["kind"]), row["name"], runs[at], spreads[at])
        for at, row in enumerate(held) if row["graph_id"] == graph_id
    ]


def _summaries(recording: Recording, runs: GraphRuns, column: str) -> list[GraphSummary]:
    if not len(runs) and not row_count(recording, "graph_events") and not row_count(recording, "graphs"):
        return []
    events = GraphEvents(recording)
    groups = grouped(recording, runs, column)
    size = len(groups.keys)
    of = groups.of_event
    build = events.of("instantiate") & events.is_ok
    counts = {
        name: count_by(of, size, where) for name, where in (
            ("captures", events.of("capture")), ("builds", build), ("before", events.of("before")),
            ("failed", events.of("instantiate") & ~events.is_ok), ("updates", events.of("update") & events.is_ok),
            ("refused", events.refused), ("uploads", events.of("upload")), ("reuploads", events.reuploads))
    }
    times = {
        name: spreads_by(of, np.where(where, events.lasted, UNKNOWN), size) for name, where in (
            ("capture", events.of("capture")), ("build", build), ("update", events.of("update") & events.is_ok),
            ("refusal", events.refused), ("upload", events.of("upload")))
    }
    on = groups.of_run
    begun = np.where((runs.called >= 0) & (runs.returned >= runs.called), runs.returned - runs.called, UNKNOWN)
    waited = np.where((runs.start >= 0) & (runs.returned >= 0), np.maximum(runs.start - runs.returned, 0), UNKNOWN)
    times |= {"launch": spreads_by(on, begun, size), "queue": spreads_by(on, waited, size),
              "execute": spreads_by(on, runs.execute, size)}
    # Of activities without a call it is not known how many launches they are of.
    launches = count_by(on, size, (runs.event >= 0) | (runs.correlation > 0))
    ran, kernels, busy = (sum_by(on, each, size) for each in (runs.activities, runs.kernels, runs.busy))
    captured, captured_ns = _captured(recording, groups, size)
    rebuilds, replaced = _rebuilds(events, of, size), _rebuilds(events, of, size, events.replaces)
    changes = _changes(recording, events, groups)
    cells, shapes = _cells(events, runs, groups), Shapes(recording)
    def numbers(at: int) -> dict[str, Any]:
        held: dict[str, Any] = {name: int(values[at]) for name, values in counts.items()}
        return held | {name: values[at] for name, values in times.items()}

    found = [
        GraphSummary(
            graph_ids=tuple(groups.graph_ids[at]), cupti_graph_id=groups.cupti[at], variants=groups.variants[at],
            **(shapes.of(groups.graph_ids[at][0]) if groups.graph_ids[at] else _NO_SHAPE),
            **numbers(at),
            captured=int(captured[at]), captured_ns=int(captured_ns[at]),
            rebuilds=rebuilds[at][0], rebuild_ns=rebuilds[at][1],
            replaced=replaced[at][0], replaced_ns=replaced[at][1], changes=changes.get(at, ()),
            launches=int(launches[at]),
            kernel_runs=int(kernels[at]), other_runs=int(ran[at] - kernels[at]),
            busy_ns=int(busy[at]) if ran[at] and busy[at] else None, cells=cells[at],
        )
        for at in range(size)
    ]
    return sorted(found, key=lambda each: (
        -(each.host_ns + (each.execute.total_ns if each.execute else 0)), each.graph_ids, each.cupti_graph_id or 0))


def _captured(recording: Recording, groups: Groups, size: int) -> tuple[Ints, Ints]:
    """Launches that went into captures, and their host time."""
    capture = ints(recording, "launches", "capture_event_id")
    if not (capture >= 0).any():
        return np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64)
    place = np.append(groups.of_event, UNKNOWN)
    of = place[np.where(capture < len(place) - 1, capture, UNKNOWN)]
    start, end = ints(recording, "launches", "start_ns"), ints(recording, "launches", "end_ns")
    # The time of a launch inside another one is the other's too.
    outer = ints(recording, "launches", "parent_launch_id") < 0
    return count_by(of, size), sum_by(of, np.where(outer & (end >= start), end - start, UNKNOWN), size)


def _rebuilds(events: GraphEvents, of: Ints, size: int, where: Bools | None = None) -> list[tuple[dict[str, int], int]]:
    """By group: rebuilds by what had changed, and their time."""
    chosen = events.of("instantiate") & events.is_ok & (events.rebuild_of >= 0)
    if where is not None:
        chosen = chosen & where
    spent = sum_by(of, np.where(chosen, events.lasted, UNKNOWN), size)
    held = {
        word: count_by(of, size, chosen & (events.change == events.changes.index(word)))
        for word in CHANGES if word in events.changes
    }
    return [
        ({word: int(counts[at]) for word, counts in held.items() if counts[at]}, int(spent[at])) for at in range(size)
    ]


def _changes(recording: Recording, events: GraphEvents, groups: Groups) -> dict[int, tuple[str, ...]]:
    found: dict[int, dict[str, None]] = {}
    source: Any = recording.arrow("graph_events").column("changes")
    if source.null_count == len(source):
        return {}
    chosen = np.flatnonzero(events.of("instantiate") & events.is_ok & (events.rebuild_of >= 0) & (groups.of_event >= 0))
    texts: list[str | None] = source.take(chosen).to_pylist()
    for at, text in zip(chosen.tolist(), texts, strict=True):
        if text:
            found.setdefault(int(groups.of_event[at]), {})[text] = None
    return {at: tuple(words) for at, words in found.items()}


def _cells(events: GraphEvents, runs: GraphRuns, groups: Groups) -> list[tuple[int, ...]]:
    group = np.concatenate((groups.of_event, groups.of_run))
    cell = np.concatenate((np.where(events.of("before"), UNKNOWN, events.cell), runs.cell))
    keep = (group >= 0) & (cell >= 0)
    width = int(cell.max(initial=0)) + 1
    found: list[list[int]] = [[] for _ in groups.keys]
    for key in np.unique(group[keep] * width + cell[keep]).tolist():
        found[key // width].append(key % width)
    return [tuple(each) for each in found]
