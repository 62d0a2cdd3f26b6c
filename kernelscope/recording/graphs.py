"""From the lives of graphs, as probes saw them, to the graphs' tables; pure and vectorized.

Events are numbered as they came: first those that probes handed over, then graph launches from a log, then those that
CUPTI saw as calls, last the executable graphs that nobody saw being made. `GraphJoin.rows` puts them in order.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from kernelscope.recording.api import is_graph_function, is_graph_launch
from kernelscope.recording.columns import (
    THREAD_BITS,
    Columns,
    Row,
    Spans,
    by_entry_name,
    cell_finder,
    thread_rows,
)
from kernelscope.recording.time import (
    FOREVER,
    UNKNOWN_INSTANT,
    delay_ns,
    duration_ns,
    is_known,
    null_of,
    otherwise,
)
from kernelscope.schema import UNKNOWN

#: Of one graph launch: the position in `RawGraphs.events` of what made the executable graph (-1 unknown), the stream's
#: handle, the thread's ident (its lower 32 bits), when the call was entered and returned (ns), and its result.
LAUNCH_COLUMNS = ("exec", "stream", "ident", "start_ns", "end_ns", "result")

_NUMBERS = ("start_ns", "end_ns", "ident", "exec_id", "graph_id", "source_event_id", "stream", "rebuild_of",
            "correlation_id", "queue_ns", "execute_ns", "line_id")
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
        held["line_id"][event] = np.where(held["line_id"][event] == UNKNOWN, calls["line_id"][rows[matched]],
                                          held["line_id"][event])
        for at, code in zip(event.tolist(), calls["name"][rows[matched]].tolist(), strict=True):
            self._texts["api"][at] = self._texts["api"][at] or names[code]
        found.event[fresh] = len(self) + np.arange(len(fresh))
        rows = rows[fresh]
        self._append_launches({
            "exec_id": execs[fresh], **{name: np.asarray(calls[name], np.int64)[rows]
                                        for name in ("ident", "start_ns", "end_ns", "correlation_id", "result",
                                                     "line_id")}},
            [names[int(code)] for code in calls["name"][rows]])
        return found

    def told_calls(self, calls: Columns, names: Sequence[str]) -> np.ndarray:
        """Return the rows of calls that graphs were built with and that events tell of; those get their ids."""
        is_graphs = np.array([is_graph_function(name) for name in names], bool)
        events = np.flatnonzero(self._are(*_CALLS) & is_known(self._numbers["start_ns"]))
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
        began = np.flatnonzero(is_known(first))
        held["execute_ns"][began] = duration_ns(first, last)[began]
        returned = began[is_known(held["end_ns"][began])]
        held["queue_ns"][returned] = delay_ns(held["end_ns"], first)[returned]
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
        graph = np.where(is_known(self._numbers["start_ns"]), self._numbers["graph_id"], UNKNOWN)
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
                self._numbers[name] = np.concatenate([values, columns.get(name, np.full(count, null_of(name)))])
            for name, values in self._texts.items():
                values.extend(texts.get(name, [None] * count))
            self._is_fresh = np.append(self._is_fresh, np.ones(count, bool))

    def _execs_of(self, cupti_graph: np.ndarray) -> np.ndarray:
        """What made the executable graphs with these ids of CUPTI's; a ``before`` where that was not seen."""
        ids, which = np.unique(cupti_graph, return_inverse=True)
        known = self._raw.execs | {UNKNOWN: UNKNOWN}
        new = [each for each in ids.tolist() if each not in known]
        first = len(self)
        self._append(len(new), {"exec_id": first + np.arange(len(new))}, {
            "kind": ["before"] * len(new), "outcome": ["ok"] * len(new)})
        known |= {each: first + at for at, each in enumerate(new)}
        return np.array([known[each] for each in ids.tolist()], np.int64)[which]

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
        named = by_entry_name(specializations)
        for row in self._nodes:
            number = named.get(row.get("entry_name") or "", UNKNOWN)
            if row.get("specialization_id") is None and number != UNKNOWN:
                row["specialization_id"] = number

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
        cell = np.where(is_known(start), cell_finder(cells)(start), UNKNOWN)
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
                values[earlier] = null_of(name)
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
        return otherwise(self._numbers["end_ns"][rows], FOREVER)

    def _spans(self, rows: np.ndarray) -> Spans:
        """Events as spans by thread."""
        return Spans(self._numbers["ident"][rows], self._numbers["start_ns"][rows], self._ends(rows))


def _numbers(rows: Sequence[Row], name: str) -> np.ndarray:
    values = [row.get(name) for row in rows]
    return np.array([null_of(name) if value is None else value for value in values], np.int64)


# Which driver calls launched graphs, and which activities of the GPU each launch is made of; vectorized.

#: CUPTI's id of an executable graph's node is the graph's id above these bits, and the node's number in them.
NODE_BITS = 32
_NODE_NUMBER = (1 << NODE_BITS) - 1


class GraphCalls:
    """The calls that launched graphs, and the activities that are parts of graphs.

    Parameters
    ----------
    calls : dict of str to ndarray
        Driver and runtime calls in order of their start.
    first : ndarray of int64
        For each call the first one with the same correlation id: a driver call inside of a runtime call counts once.
    names : sequence of str
        What the calls' ``name`` stands for.
    seen : dict of str to ndarray
        Activities in order of their start.
    call : ndarray of int64
        For each activity the call that asked for it, -1 for none.

    Attributes
    ----------
    rows : ndarray of int64, shape (n,)
        Rows of the calls that launched a graph.
    cupti_graph : ndarray of int64, shape (n,)
        CUPTI's id of the executable graph that each launched; -1 where it asked for no activity.
    event : ndarray of int64, shape (n,)
        The number of the event that each is; -1 for none.
    activities : ndarray of int64, shape (m,)
        Rows of the activities that are parts of graphs.
    place : ndarray of int64, shape (m,)
        The place in `rows` of the call that asked for each; -1 for none.
    """

    def __init__(self, calls: Columns, first: np.ndarray, names: Sequence[str], seen: Columns,
                 call: np.ndarray) -> None:
        self._calls, self._seen = calls, seen
        launches = np.array([is_graph_launch(name) for name in names], bool)
        rows = np.flatnonzero(launches[calls["name"]]) if launches.any() else np.empty(0, np.int64)
        self.rows = rows[first[rows] == rows]
        # The rows that are not -1; a column of one value, which takes no memory, is looked at once.
        values = seen["cupti_graph_id"]
        self.activities = (np.empty(0, np.int64) if len(values) and not any(values.strides) and values[0] == UNKNOWN
                           else np.flatnonzero(values != UNKNOWN))
        self._graph = np.asarray(seen["cupti_graph_id"], np.int64)[self.activities]
        asked = call[self.activities]
        place = np.searchsorted(self.rows, asked)
        found = np.append(self.rows, UNKNOWN)[place] == asked
        self.place = np.where(found & (asked != UNKNOWN), place, UNKNOWN)
        told = self.place != UNKNOWN
        self.cupti_graph = np.full(len(self.rows), UNKNOWN)
        self.cupti_graph[self.place[told]] = self._graph[told]
        self.event = np.full(len(self.rows), UNKNOWN)

    def match(self, launches: Spans, numbers: np.ndarray) -> np.ndarray:
        """Give calls the numbers of launches that a probe saw around them, by thread; return which calls they are."""
        calls = self._calls
        middle = (calls["start_ns"][self.rows] + calls["end_ns"][self.rows]) >> 1
        around = launches.around(np.asarray(calls["ident"], np.int64)[self.rows], middle)
        matched = np.flatnonzero(around != UNKNOWN)
        self.event[matched] = numbers[around[matched]]
        return matched

    def fresh(self, capturing: Spans) -> np.ndarray:
        """Return which calls are no events yet, without those that went into a capture of their thread."""
        idents, starts = np.asarray(self._calls["ident"], np.int64)[self.rows], self._calls["start_ns"][self.rows]
        captured = (self.cupti_graph == UNKNOWN) & (capturing.around(idents, starts) != UNKNOWN)
        return np.flatnonzero((self.event == UNKNOWN) & ~captured)

    def with_bodies(self, seen: Columns, call: np.ndarray) -> tuple[Columns, np.ndarray]:
        """Return the activities and their calls, with those of their launch for what bodies of conditional nodes ran.

        Both parameters are those that this was made with, and stay as they are.
        """
        bodies = self._join_bodies()
        if len(bodies):
            rows, launched = self.activities[bodies], self.rows[self.place[bodies]]
            call, correlation = call.copy(), np.array(seen["correlation_id"])
            call[rows] = launched
            correlation[rows] = self._calls["correlation_id"][launched]
            seen = {**seen, "correlation_id": correlation}
        return seen, call

    def of_activities(self, numbers: np.ndarray) -> np.ndarray:
        """Return for each part of a graph what `numbers` has for its call, -1 where there is none."""
        return np.append(numbers, UNKNOWN)[self.place]

    def nodes(self, graph: np.ndarray, known: Mapping[tuple[int, int], int]) -> np.ndarray:
        """Return the node that each part of a graph is a run of.

        Parameters
        ----------
        graph : ndarray of int64, shape (m,)
            The graph's row; -1 for unknown.
        known : mapping of (int, int) to int
            For a graph and the number of a node in it the node's row.
        """
        if not known or not len(graph):
            return np.full(len(graph), UNKNOWN)
        keys = np.array([graph << NODE_BITS | number for graph, number in known], np.int64)
        order = np.argsort(keys)
        rows = np.fromiter(known.values(), np.int64, len(known))[order]
        keys = keys[order]
        wanted = graph << NODE_BITS | self._node_numbers()
        at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        return np.where((graph != UNKNOWN) & (keys[at] == wanted), rows[at], UNKNOWN)

    def times(self, event: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Return when the first node of each of `count` events began and the last one ended, as instants.

        `event` is the number of each part's event.
        """
        start = np.asarray(self._seen["start_ns"], np.int64)[self.activities]
        end = np.asarray(self._seen["end_ns"], np.int64)[self.activities]
        timed = np.flatnonzero((event != UNKNOWN) & is_known(start, end))
        return extremes(event[timed], start[timed], end[timed], count)

    def _join_bodies(self) -> np.ndarray:
        """Find the launches of activities in bodies of conditional nodes; return their places in `activities`.

        CUPTI gives them correlation id 0. One executable graph runs once at a time, so that they are between the other
        nodes of their launch; after all of them and before those of the next launch stands what has a higher number.
        """
        seen = self._seen
        bodies = np.flatnonzero((self.place == UNKNOWN) & (seen["correlation_id"][self.activities] == 0))
        rows = np.flatnonzero(self.cupti_graph != UNKNOWN)
        if not len(bodies) or not len(rows):
            return np.empty(0, np.int64)
        start = np.asarray(seen["start_ns"], np.int64)[self.activities]
        timed = np.flatnonzero((self.place != UNKNOWN) & is_known(start))
        first, last = extremes(self.place[timed], start[timed], start[timed], len(self.rows))
        begun = self._calls["start_ns"][self.rows]
        first = otherwise(first, begun)
        spans = Spans(self.cupti_graph[rows], first[rows], first[rows])
        graph, time = self._graph[bodies], start[bodies]
        place = spans.place(graph, time)
        known = place != UNKNOWN
        following = np.where(known, spans.following(place), spans.first(graph))
        launch = np.where(known, rows[spans.rows[place]], UNKNOWN)
        after = rows[spans.rows[following]]
        number = self._node_numbers()
        lowest = np.full(len(self.rows), _NODE_NUMBER)
        asked = np.flatnonzero(self.place != UNKNOWN)
        np.minimum.at(lowest, self.place[asked], number[asked])
        comes_first = ~known | ((time > last[launch]) & (number[bodies] < lowest[launch]))
        moves = (following != UNKNOWN) & comes_first & (begun[after] <= time)
        launch = np.where(moves, after, launch)
        self.place[bodies] = launch
        return bodies[launch != UNKNOWN]

    def _node_numbers(self) -> np.ndarray:
        return np.asarray(self._seen["cupti_node_id"], np.int64)[self.activities] & _NODE_NUMBER


def extremes(group: np.ndarray, least: np.ndarray, most: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return by group the first instant of one column and the last of another, unknown where a group has no row."""
    low, high = np.full(count, UNKNOWN_INSTANT), np.full(count, UNKNOWN_INSTANT)
    if len(group):
        if (group[1:] < group[:-1]).any():
            order = np.argsort(group, kind="stable")
            group, least, most = group[order], least[order], most[order]
        begins = np.flatnonzero(np.diff(group, prepend=group[0] - 1))
        low[group[begins]] = np.minimum.reduceat(least, begins)
        high[group[begins]] = np.maximum.reduceat(most, begins)
    return low, high


# Which launches went into a capture, and which nodes of its graph they became.

#: The handle of the default stream that CUDA has for each thread in each context.
PER_THREAD = 2

_AXES = "xyz"


class Capturing:
    """Captures as spans of the streams that were part of them.

    A handle tells streams of one context apart only, and `PER_THREAD` is another stream in each thread too. Where the
    device of a capture or of a launch is not known, any fits.

    Parameters
    ----------
    stream, ident, device : ndarray of int64, shape (n,)
        The stream's handle, the thread that began the capture, and the device's ordinal (-1 unknown).
    start, end : ndarray of int64, shape (n,)
        When it began and ended.

    Attributes
    ----------
    streams : ndarray of int64
        The distinct handles.
    """

    def __init__(self, stream: np.ndarray, ident: np.ndarray, device: np.ndarray, start: np.ndarray,
                 end: np.ndarray) -> None:
        self.streams = np.unique(stream)
        self._rows = np.stack([stream, np.where(stream == PER_THREAD, ident, UNKNOWN), device])
        self._times = start, end

    def around(self, stream: np.ndarray, ident: np.ndarray, device: np.ndarray, time: np.ndarray) -> np.ndarray:
        """Return the row of the capture that was under way on a stream, the latest of several; -1 for none."""
        found = np.full(len(stream), UNKNOWN)
        asked = np.flatnonzero(np.isin(stream, self.streams))
        if not len(asked):
            return found
        stream, ident, device, time = (values[asked] for values in (stream, ident, device, time))
        wanted = np.stack([stream, np.where(stream == PER_THREAD, ident, UNKNOWN), device])
        every = np.ones(self._rows.shape[1], bool)
        result = np.full(len(asked), UNKNOWN)
        for captures, launches, columns in ((every, device != UNKNOWN, 3), (every, device == UNKNOWN, 2),
                                            (self._rows[2] == UNKNOWN, device != UNKNOWN, 2)):
            rest = np.flatnonzero(launches & (result == UNKNOWN))
            if len(rest) and captures.any():
                result[rest] = self._around(captures, wanted[:, rest], time[rest], columns)
        found[asked] = result
        return found

    def _around(self, captures: np.ndarray, wanted: np.ndarray, time: np.ndarray, columns: int) -> np.ndarray:
        rows = np.flatnonzero(captures)
        both = np.concatenate([self._rows[:columns, rows], wanted[:columns]], axis=1)
        numbers = np.unique(both, axis=1, return_inverse=True)[1].reshape(-1)
        start, end = self._times
        place = Spans(numbers[:len(rows)], start[rows], end[rows]).around(numbers[len(rows):], time)
        return np.append(rows, UNKNOWN)[place]


def captured_launches(launches: dict[str, Any], configurations: Sequence[Row], threads: Sequence[Row],
                      devices: Sequence[Row], capturing: Capturing) -> np.ndarray:
    """Return the row of `capturing` in which each launch was submitted; -1 for none.

    A launch that raised became no node, and is none of a capture.
    """
    handles = [row.get("stream") for row in configurations]
    stream = np.array([UNKNOWN if handle is None else handle for handle in handles] + [UNKNOWN], np.int64)
    ident = np.array([(row.get("ident") or 0) & THREAD_BITS for row in threads] + [UNKNOWN], np.int64)
    ordinals = [row.get("ordinal") for row in devices]
    ordinal = np.array([UNKNOWN if each is None else each for each in ordinals] + [UNKNOWN], np.int64)
    found = np.full(len(launches["start_ns"]), UNKNOWN)
    candidates = np.isin(stream, capturing.streams)[launches["configuration_id"]]
    rows = np.flatnonzero(candidates & launches["error"].is_null().to_numpy(zero_copy_only=False))
    time = otherwise(launches["submit_start_ns"][rows], launches["start_ns"][rows])
    found[rows] = capturing.around(stream[launches["configuration_id"][rows]], ident[launches["thread_id"][rows]],
                                   ordinal[launches["device_id"][rows]], time)
    return found


def nodes_of_launches(launches: dict[str, Any], capture: np.ndarray, graph_of_capture: np.ndarray,
                      nodes: Sequence[Row], configurations: Sequence[Row],
                      specializations: Sequence[Row]) -> np.ndarray:
    """Return the row in `nodes` that each captured launch became, -1 for none.

    The k-th launch of a kernel with a configuration, in one capture, is the k-th such node of the capture's graph;
    nodes of child graphs were captured elsewhere.

    Parameters
    ----------
    launches : dict of str to array
        The launches' columns, in order of start.
    capture : ndarray of int64
        The capture that each launch went into, -1 for none.
    graph_of_capture : ndarray of int64
        The graph that each capture made, -1 for unknown.
    nodes : sequence of dict
        Rows of the table ``graph_nodes``, with ``graph_node_id``, in order.
    configurations, specializations : sequence of dict
        Rows of the tables of that name.
    """
    found = np.full(len(capture), UNKNOWN)
    captured = np.flatnonzero(capture != UNKNOWN)
    shapes = [_shape(row) for row in configurations]
    wanted = set(graph_of_capture[capture[captured]].tolist())
    alike: defaultdict[Any, list[int]] = defaultdict(list)
    child: set[int] = set()
    for at, row in enumerate(nodes):
        if row["graph_id"] not in wanted:
            continue
        if row["kind"] == "child" or row.get("parent_node_id") in child:
            child.add(at)
        elif row.get("entry_name") and row.get("configuration_id") is not None:
            alike[row["graph_id"], row["entry_name"], shapes[row["configuration_id"]]].append(at)
    numbers: Counter[Any] = Counter()
    for launch, event, specialization, configuration in zip(
            captured.tolist(), capture[captured].tolist(), launches["specialization_id"][captured].tolist(),
            launches["configuration_id"][captured].tolist(), strict=True):
        name = specializations[specialization].get("entry_name") if specialization != UNKNOWN else None
        if not name:
            continue
        key = name, shapes[configuration]
        same = alike.get((int(graph_of_capture[event]), *key), ())
        number = numbers[event, key]
        numbers[event, key] += 1
        if number < len(same):
            found[launch] = same[number]
    return found


def _shape(configuration: Row) -> tuple[Any, ...]:
    """A configuration without its stream; a cluster of one block is none."""
    cluster = tuple(configuration.get(f"cluster_{axis}") or 1 for axis in _AXES)
    return (*(configuration.get(f"{kind}_{axis}") for kind in ("griddim", "blockdim") for axis in _AXES), cluster,
            configuration.get("sharedmem_bytes") or 0)
