"""Which driver calls launched graphs, and which activities of the GPU each launch is made of; vectorized."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from kernelscope.recording.calls import is_graph_launch
from kernelscope.recording.columns import Columns
from kernelscope.recording.spans import Spans
from kernelscope.schema import UNKNOWN

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
        self.activities = _known(seen["cupti_graph_id"])
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
        """Return when the first node of each of `count` events began and the last one ended, -1 for unknown.

        `event` is the number of each part's event.
        """
        start = np.asarray(self._seen["start_ns"], np.int64)[self.activities]
        end = np.asarray(self._seen["end_ns"], np.int64)[self.activities]
        timed = np.flatnonzero((event != UNKNOWN) & (start != UNKNOWN) & (end != UNKNOWN))
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
        timed = np.flatnonzero((self.place != UNKNOWN) & (start != UNKNOWN))
        first, last = extremes(self.place[timed], start[timed], start[timed], len(self.rows))
        begun = self._calls["start_ns"][self.rows]
        first = np.where(first == UNKNOWN, begun, first)
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
    """Return by group the smallest of one column and the largest of another, -1 where a group has no row."""
    low, high = np.full(count, UNKNOWN), np.full(count, UNKNOWN)
    if len(group):
        if (group[1:] < group[:-1]).any():
            order = np.argsort(group, kind="stable")
            group, least, most = group[order], least[order], most[order]
        begins = np.flatnonzero(np.diff(group, prepend=group[0] - 1))
        low[group[begins]] = np.minimum.reduceat(least, begins)
        high[group[begins]] = np.maximum.reduceat(most, begins)
    return low, high


def _known(values: np.ndarray) -> np.ndarray:
    """The rows that are not -1; a column of one value, which takes no memory, is looked at once."""
    if len(values) and not any(values.strides) and values[0] == UNKNOWN:
        return np.empty(0, np.int64)
    return np.flatnonzero(values != UNKNOWN)
