"""From the lives of graphs, as probes saw them, to the graphs' tables; pure and vectorized.

Events are numbered as they came: first those that probes handed over, then graph launches from a log, then those that
CUPTI saw as calls, last the executable graphs that nobody saw being made. `GraphJoin.rows` puts them in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from kernelscope.recording.calls import Capturing, GraphCalls, captured_launches, nodes_of_launches
from kernelscope.recording.columns import FOREVER, THREAD_BITS, Columns, Row, Spans, cell_finder, thread_rows
from kernelscope.schema import UNKNOWN

#: Of one graph launch: the position in `RawGraphs.events` of what made the executable graph (-1 unknown), the stream's
#: handle, the thread's ident (its lower 32 bits), when the call was entered and returned (ns), and its result.
LAUNCH_COLUMNS = ("exec", "stream", "ident", "start_ns", "end_ns", "result")

_NUMBERS = ("start_ns", "end_ns", "ident", "exec_id", "graph_id", "source_event_id", "stream", "rebuild_of",
            "correlation_id", "queue_ns", "execute_ns")
_TEXTS = ("kind", "api", "outcome", "error", "change", "changes", "attributes")
#: What makes an executable graph.
_MAKERS = ("instantiate", "before")
#: Events that CUPTI may have recorded as calls too; launches are joined on their own.
_CALLS = ("instantiate", "update", "upload", "define", "close")


@dataclass
class RawGraphs:
    """What probes saw of graphs, before it is tables; see `kernelscope.probes.sink.GraphRows`.

    Attributes
    ----------
    graphs, nodes, edges : list of dict
        Rows of the tables ``graphs``, ``graph_nodes`` and ``graph_edges``; ids are positions in these lists.
    events : list of dict
        Rows of ``graph_events`` as they happened; ids in them are positions. ``thread_ident`` says the thread,
        ``streams`` has the handles of further streams of a capture.
    launches : dict of str to ndarray of int64
        `LAUNCH_COLUMNS` of graph launches that were seen otherwise than by CUPTI.
    execs : dict of int to int
        For CUPTI's id of an executable graph the position in `events` of what made it.
    nodes_of : dict of (int, int) to int
        For a graph's id and the number of a node in it the position in `nodes`.
    began : int or None
        When the recording began, where events were seen before it: what made a graph that is used in it becomes a
        ``before``, and what is not used is left out.
    """

    graphs: list[Row] = field(default_factory=list)
    nodes: list[Row] = field(default_factory=list)
    edges: list[Row] = field(default_factory=list)
    events: list[Row] = field(default_factory=list)
    launches: Columns = field(default_factory=lambda: {name: np.empty(0, np.int64) for name in LAUNCH_COLUMNS})
    execs: dict[int, int] = field(default_factory=dict)
    nodes_of: dict[tuple[int, int], int] = field(default_factory=dict)
    began: int | None = None


class GraphJoin:
    """Puts one recording's graphs together: with the GPU's activities, with the launches, and then as tables.

    Parameters
    ----------
    raw : RawGraphs
        What was seen; it is not changed.
    threads : list of dict
        Rows of the table ``threads``; those that only worked on graphs are added.
    """

    def __init__(self, raw: RawGraphs, threads: list[Row]) -> None:
        self._raw = raw
        self._threads = threads
        rows = raw.events
        self._numbers: Columns = {name: _numbers(rows, name) for name in _NUMBERS}
        self._texts: dict[str, list[Any]] = {name: [row.get(name) for row in rows] for name in _TEXTS}
        self._numbers["ident"] = np.array([self._ident_of(row) for row in rows], np.int64)
        self._is_fresh = np.zeros(len(rows), bool)
        self._name_execs()
        self._place_nodes()
        self._find_captures()
        self._append_log()

    def __len__(self) -> int:
        return len(self._is_fresh)

    def attach(self, calls: Columns, first: np.ndarray, names: Sequence[str], seen: Columns,
               call: np.ndarray) -> GraphCalls:
        """Make events of the calls that launched graphs, and find which activities are parts of them.

        The parameters are those of `GraphCalls`.
        """
        found = GraphCalls(calls, first, names, seen, call)
        held, rows = self._numbers, found.rows
        told = np.flatnonzero(self._are("launch"))
        matched = found.match(self._spans(told), told)
        fresh = found.fresh(self._capturing_threads)
        event = found.event[matched]
        without = held["exec_id"][event] == UNKNOWN
        execs = np.full(len(rows), UNKNOWN)
        wanted = np.sort(np.concatenate([fresh, matched[without]]))
        execs[wanted] = self._execs_of(found.cupti_graph[wanted])
        held["correlation_id"][event] = calls["correlation_id"][rows[matched]]
        held["exec_id"][event[without]] = execs[matched[without]]
        for at, code in zip(event.tolist(), calls["name"][rows[matched]].tolist(), strict=True):
            self._texts["api"][at] = self._texts["api"][at] or names[code]
        found.event[fresh] = len(self) + np.arange(len(fresh))
        rows = rows[fresh]
        self._append_launches({
            "exec_id": execs[fresh], **{name: np.asarray(calls[name], np.int64)[rows]
                                        for name in ("ident", "start_ns", "end_ns", "correlation_id", "result")}},
            [names[int(code)] for code in calls["name"][rows]])
        return found

    def told_calls(self, calls: Columns, names: Sequence[str]) -> np.ndarray:
        """Return the rows of calls that graphs were built with and that events tell of; those get their ids."""
        is_graphs = np.array([name.startswith(("cuGraph", "cudaGraph")) for name in names], bool)
        events = np.flatnonzero(self._are(*_CALLS) & (self._numbers["start_ns"] != UNKNOWN))
        if not is_graphs.any() or not len(events):
            return np.empty(0, np.int64)
        rows = np.flatnonzero(is_graphs[calls["name"]])
        middle = (calls["start_ns"][rows] + calls["end_ns"][rows]) >> 1
        around = self._spans(events).around(np.asarray(calls["ident"], np.int64)[rows], middle)
        inside = np.flatnonzero(around != UNKNOWN)[::-1]  # of several the first call stays
        self._numbers["correlation_id"][events[around[inside]]] = calls["correlation_id"][rows[inside]]
        return rows[inside]

    def finish(self, found: GraphCalls) -> tuple[np.ndarray, np.ndarray]:
        """Return event and node of each activity that is part of a graph, and learn how long each launch took.

        Events are numbered as they came: see `ids`.
        """
        held = self._numbers
        self._name_graphs()
        event = found.of_activities(found.event)
        first, last = found.times(event, len(self))
        began = np.flatnonzero(first != UNKNOWN)
        held["execute_ns"][began] = (last - first)[began]
        returned = began[held["end_ns"][began] != UNKNOWN]
        held["queue_ns"][returned] = np.maximum(first - held["end_ns"], 0)[returned]
        graph = np.append(held["graph_id"], UNKNOWN)[event]
        node = found.nodes(graph, self._raw.nodes_of)
        return event, np.append(self._node_ids, UNKNOWN)[node]

    def mark_captured(self, launches: dict[str, Any], configurations: Sequence[Row],
                      specializations: Sequence[Row], devices: Sequence[Row]) -> None:
        """Give launches that went into a capture the columns ``capture_event_id`` and ``graph_node_id``."""
        if not len(self._captures) or not len(launches["start_ns"]):
            return
        span = captured_launches(launches, configurations, self._threads, devices, self._capturing)
        if (span == UNKNOWN).all():
            return
        capture = np.append(self._captures, UNKNOWN)[span]
        launches["capture_event_id"] = capture
        # Of a capture that began before the recording did the first launches are not known.
        graph = np.where(self._numbers["start_ns"] == UNKNOWN, UNKNOWN, self._numbers["graph_id"])
        launches["graph_node_id"] = nodes_of_launches(
            launches, capture, graph, self._nodes, configurations, specializations)

    def rows(self, cells: Sequence[Row], specializations: Sequence[Row],
             ) -> tuple[dict[str, Sequence[Row]], dict[str, Any], np.ndarray]:
        """Return what the graphs' tables are made of, and for the number of each event its row; -1 for no row.

        The tables are those of graphs, nodes and edges, as rows, and that of events, as columns. The last number stands
        in for no event.
        """
        self._name_graphs()
        events, ids = self._events(cells)
        self._name_specializations(specializations)
        raw = self._raw
        node_graphs = _numbers(self._nodes, "graph_id")
        edges = [{**row, "from_node_id": int(self._node_ids[row["from_node_id"]]),
                  "to_node_id": int(self._node_ids[row["to_node_id"]])}
                 for row in sorted(raw.edges, key=lambda row: row["graph_id"])]
        nodes_of, edges_of = (np.bincount(each[each >= 0], minlength=len(raw.graphs)).tolist()
                              for each in (node_graphs, _numbers(edges, "graph_id")))
        graphs = [{**row, "nodes": nodes_of[at], "edges": edges_of[at]} for at, row in enumerate(raw.graphs)]
        return {"graphs": graphs, "graph_nodes": self._nodes, "graph_edges": edges}, events, ids

    def _ident_of(self, row: Row) -> int:
        ident = row.get("thread_ident")
        if ident is None and row.get("thread_id") is not None:
            ident = self._threads[row["thread_id"]].get("ident")
        return UNKNOWN if ident is None else ident & THREAD_BITS

    def _name_execs(self) -> None:
        """What makes an executable graph is it; what is named as one and does not make any is none."""
        execs = self._numbers["exec_id"]
        makes = self._are(*_MAKERS) & self._succeeded()
        own = np.flatnonzero(makes)
        execs[own] = own
        named = np.flatnonzero(execs != UNKNOWN)
        wrong = named[~makes[execs[named]]]
        execs[wrong] = UNKNOWN

    def _place_nodes(self) -> None:
        """Put the nodes of one graph beside each other: their ids in order, and the rows in that order."""
        graph = _numbers(self._raw.nodes, "graph_id")
        order = np.argsort(graph, kind="stable")
        self._node_ids = np.empty(len(order), np.int64)
        self._node_ids[order] = np.arange(len(order))
        ids = self._node_ids.tolist()
        self._nodes: list[Row] = []
        for new, old in enumerate(order.tolist()):
            row = self._raw.nodes[old]
            parent = row.get("parent_node_id")
            self._nodes.append({**row, "graph_node_id": new, "parent_node_id": None if parent is None else ids[parent]})

    def _find_captures(self) -> None:
        """Captures as spans, by stream and by the thread that began them."""
        held, rows = self._numbers, self._raw.events
        captures = np.flatnonzero(self._are("capture"))
        # Of streams that joined a capture the device is not known: it may be another one.
        streams = np.array([
            (at, stream, rows[at].get("device", UNKNOWN) if stream == rows[at].get("stream") else UNKNOWN)
            for at in captures.tolist()
            for stream in dict.fromkeys((rows[at].get("stream"), *(rows[at].get("streams") or ())))
            if stream is not None
        ], np.int64).reshape(-1, 3)
        self._captures = streams[:, 0]
        self._capturing = Capturing(streams[:, 1], held["ident"][self._captures], streams[:, 2],
                                    held["start_ns"][self._captures], self._ends(self._captures))
        self._capturing_threads = self._spans(captures)

    def _append_log(self) -> None:
        """The launches of the log; one on a stream that captures becomes a node of the capture, and is none."""
        log, began = self._raw.launches, self._raw.began
        anywhere = np.full(len(log["stream"]), UNKNOWN)
        keep = self._capturing.around(
            log["stream"], log["ident"] & THREAD_BITS, anywhere, log["start_ns"]) == UNKNOWN
        if began is not None:
            keep &= log["start_ns"] >= began
        kept = {name: values[keep] for name, values in log.items()}
        kept["ident"] &= THREAD_BITS
        execs = kept.pop("exec")
        named = np.append(self._numbers["exec_id"], UNKNOWN)
        outside = (execs < 0) | (execs >= len(named))
        self._append_launches({**kept, "exec_id": named[np.where(outside, UNKNOWN, execs)]},
                              ["cuGraphLaunch"] * len(execs))

    def _append_launches(self, columns: Columns, api: Sequence[str]) -> None:
        count = len(api)
        results: list[int] = columns.pop("result").tolist()
        self._append(count, columns, {
            "kind": ["launch"] * count, "api": list(api), "outcome": ["failed" if each else "ok" for each in results],
            "error": [f"CUresult {each}" if each else None for each in results]})

    def _append(self, count: int, columns: Columns, texts: dict[str, list[Any]]) -> None:
        if count:
            for name, values in self._numbers.items():
                self._numbers[name] = np.concatenate([values, columns.get(name, np.full(count, UNKNOWN))])
            for name, values in self._texts.items():
                values.extend(texts.get(name, [None] * count))
            self._is_fresh = np.append(self._is_fresh, np.ones(count, bool))

    def _execs_of(self, cupti_graph: np.ndarray) -> np.ndarray:
        """What made the executable graphs with these ids of CUPTI's; a ``before`` where that was not seen."""
        found: dict[int, int] = {UNKNOWN: UNKNOWN}
        ids, which = np.unique(cupti_graph, return_inverse=True)
        for each in ids.tolist():
            if each not in found:
                found[each] = at = self._raw.execs.get(each, len(self))
                if at == len(self):
                    self._append(1, {"exec_id": np.array([at])}, {"kind": ["before"], "outcome": ["ok"]})
        return np.array([found[each] for each in ids.tolist()], np.int64)[which]

    def _name_graphs(self) -> None:
        """The graph of each launch is that of the last instantiate or update of the executable graph before it."""
        held = self._numbers
        made = np.flatnonzero(self._are(*_MAKERS, "update") & self._succeeded() & (held["exec_id"] != UNKNOWN))
        launched = np.flatnonzero(self._are("launch") & (held["exec_id"] != UNKNOWN) & (held["graph_id"] == UNKNOWN))
        if len(made) and len(launched):
            begun = held["start_ns"][made]
            spans = Spans(held["exec_id"][made], begun, begun)
            last = spans.before(held["exec_id"][launched], held["start_ns"][launched])
            held["graph_id"][launched] = np.append(held["graph_id"][made], UNKNOWN)[last]

    def _name_specializations(self, specializations: Sequence[Row]) -> None:
        """A node is a run of the specialization of that name, if it is one only."""
        named: dict[str, int | None] = {}
        for number, row in enumerate(specializations):
            name = row.get("entry_name")
            if name:
                named[name] = None if name in named else number
        for row in self._nodes:
            if row.get("specialization_id") is None and row.get("entry_name"):
                row["specialization_id"] = named.get(row["entry_name"])

    def _events(self, cells: Sequence[Row]) -> tuple[dict[str, Any], np.ndarray]:
        """The events' columns, in order, and the row of each number; those from before the recording as `before`."""
        if not len(self):
            return {}, np.full(1, UNKNOWN)
        held, texts = self._numbers, self._texts
        kept = self._cut()
        order = kept[np.argsort(held["start_ns"][kept], kind="stable")]
        ids = np.full(len(self) + 1, UNKNOWN)
        ids[order] = np.arange(len(order))
        columns: dict[str, Any] = {name: held[name][order] for name in _NUMBERS if name != "ident"}
        for name in ("exec_id", "source_event_id", "rebuild_of"):
            columns[name] = ids[columns[name]]
        rebuilt = columns["rebuild_of"]
        no_rebuild = rebuilt >= np.arange(len(order))
        rebuilt[no_rebuild] = UNKNOWN
        for at in order[no_rebuild].tolist():
            texts["change"][at] = texts["changes"][at] = None
        ident = held["ident"][order]
        known = np.flatnonzero(ident != UNKNOWN)
        thread = np.full(len(order), UNKNOWN)
        thread[known] = thread_rows(ident[known], self._threads)
        start = columns["start_ns"]
        cell = np.where(start == UNKNOWN, UNKNOWN, cell_finder(cells)(start))
        columns |= {"graph_event_id": np.arange(len(order)), "thread_id": thread, "cell_id": cell}
        columns |= {name: pa.array(values, pa.string()).take(pa.array(order)) for name, values in texts.items()}
        return columns, ids

    def _cut(self) -> np.ndarray:
        """The numbers of the events that stay: what is used and was made earlier becomes a ``before``."""
        began, held, texts = self._raw.began, self._numbers, self._texts
        if began is None:
            return np.arange(len(self))
        own = (held["start_ns"] >= began) | self._is_fresh
        own |= self._are("capture") & (self._ends(slice(None)) >= began)
        used = np.unique(np.concatenate([held[name][own] for name in ("exec_id", "rebuild_of")]))
        earlier = used[(used != UNKNOWN)]
        earlier = earlier[~own[earlier]]
        # An update before the recording began has changed what was there when it began.
        updates = np.flatnonzero(self._are("update") & self._succeeded() & ~own)
        updates = updates[np.isin(held["exec_id"][updates], earlier)]
        updates = updates[np.argsort(held["start_ns"][updates], kind="stable")]
        held["graph_id"][held["exec_id"][updates]] = held["graph_id"][updates]
        for name, values in held.items():
            if name not in ("exec_id", "graph_id"):
                values[earlier] = UNKNOWN
        held["exec_id"][earlier] = earlier
        for at in earlier.tolist():
            for name, values in texts.items():
                values[at] = {"kind": "before", "outcome": "ok", "attributes": values[at]}.get(name)
        own[earlier] = True
        return np.flatnonzero(own)

    def _are(self, *kinds: str) -> np.ndarray:
        return np.array([kind in kinds for kind in self._texts["kind"]], bool)

    def _succeeded(self) -> np.ndarray:
        return np.array([word == "ok" for word in self._texts["outcome"]], bool)

    def _ends(self, rows: np.ndarray | slice) -> np.ndarray:
        ends = self._numbers["end_ns"][rows]
        return np.where(ends == UNKNOWN, FOREVER, ends)

    def _spans(self, rows: np.ndarray) -> Spans:
        """Events as spans by thread."""
        return Spans(self._numbers["ident"][rows], self._numbers["start_ns"][rows], self._ends(rows))


def _numbers(rows: Sequence[Row], name: str) -> np.ndarray:
    values = [row.get(name) for row in rows]
    return np.array([UNKNOWN if value is None else value for value in values], np.int64)
