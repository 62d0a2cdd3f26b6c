"""Which driver call a correlation id stands for, and which launch, graph launch or capture made it; vectorized."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kernelscope.recording.columns import THREAD_BITS, Columns, Row, Spans, distinct
from kernelscope.schema import UNKNOWN

#: How many ids a table may have for each call.
_MOST_SPARSE = 8


class CallFinder:
    """Finds the first call that has a correlation id: of a runtime call and the driver call inside, the runtime's."""

    def __init__(self, correlation: np.ndarray) -> None:
        self._least = int(correlation.min()) if len(correlation) else 0
        self._table: np.ndarray | None = None
        span = int(correlation.max()) - self._least + 1 if len(correlation) else 0
        if span <= _MOST_SPARSE * len(correlation):  # ids count up, and so are places in a table
            self._table = np.full(span, UNKNOWN)
            if (correlation[1:] > correlation[:-1]).all():
                self._table[correlation - self._least] = np.arange(len(correlation))
            else:
                self._table[correlation[::-1] - self._least] = np.arange(len(correlation))[::-1]
        else:
            self._order = np.argsort(correlation, kind="stable")
            self._sorted = correlation[self._order]

    def find(self, correlation: np.ndarray) -> np.ndarray:
        """Return the call's row for each id, -1 for none."""
        if self._table is not None:
            place = correlation - self._least
            if not len(place) or (place.min() >= 0 and place.max() < len(self._table)):
                return self._table[place]
            outside = (place < 0) | (place >= len(self._table))
            return np.where(outside, UNKNOWN, self._table[np.where(outside, 0, place)]) if len(
                self._table) else np.full(len(correlation), UNKNOWN)
        at = np.minimum(np.searchsorted(self._sorted, correlation), len(self._sorted) - 1)
        return np.where(self._sorted[at] == correlation, self._order[at], UNKNOWN)


def launches_of(calls: dict[str, np.ndarray], first: np.ndarray, names: Sequence[str], launches: dict[str, Any],
                threads: Sequence[dict[str, Any]], several: np.ndarray | None = None) -> np.ndarray:
    """Return the launch that each call submitted, -1 for none.

    Parameters
    ----------
    calls : dict of str to ndarray
        Driver and runtime calls in order of their start.
    first : ndarray of int64
        For each call the first one with the same correlation id, which is the one that the launch is given to.
    names : sequence of str
        What the calls' ``name`` stands for.
    launches : dict of str to array
        The launches' columns, in order of start.
    threads : sequence of dict
        Rows of the table ``threads``.
    several : ndarray of bool, optional
        Which launches are calls that launch several kernels or graphs: all of them from their start to their end.
    """
    result = np.full(len(calls["ident"]), UNKNOWN)
    if not len(result) or not len(launches["start_ns"]):
        return result
    submits = np.array([_is_launch(name) for name in names], bool)[calls["name"]]
    graphs = None if several is None else np.array([is_graph_launch(name) for name in names], bool)[calls["name"]]
    submits = (submits if graphs is None else submits | graphs) & (calls["result"] == 0)
    begin = _known(launches["submit_start_ns"], launches["start_ns"])
    end = _known(_known(launches["submit_end_ns"], launches["end_ns"]), np.iinfo(np.int64).max)
    if several is not None:
        begin = np.where(several, launches["start_ns"], begin)
        end = np.where(several, _known(launches["end_ns"], np.iinfo(np.int64).max), end)
    numbers = np.array([(row.get("ident") or 0) & THREAD_BITS for row in threads], np.int64)
    for ident in distinct(calls["ident"][selected(submits)])[0]:
        rows = selected(submits & (calls["ident"] == ident))
        own = selected((numbers == ident)[launches["thread_id"]])
        middle = (calls["start_ns"][rows] + calls["end_ns"][rows]) >> 1
        result[rows] = _around(middle, begin, end, own, launches.get("parent_launch_id"))
    # Several calls in one launch: the last is the kernel's, what came before prepared its arguments.
    joined = np.flatnonzero(result != UNKNOWN)
    made_several = np.empty(0, np.int64)
    if several is not None:
        is_one_of_them = several[result[joined]]
        made_several, joined = joined[is_one_of_them], joined[~is_one_of_them]
        joined = joined if graphs is None else joined[~graphs[joined]]
    of_several = result[made_several]
    last = np.full(len(launches["start_ns"]), UNKNOWN)
    last[result[joined]] = joined  # of several assignments to one place NumPy keeps the last
    made = np.flatnonzero(last != UNKNOWN)
    result.fill(UNKNOWN)
    result[first[last[made]]] = made
    result[first[made_several]] = of_several
    return result


def is_graph_launch(name: str) -> bool:
    """Whether a driver or runtime call launches a graph."""
    return name.startswith(("cuGraphLaunch", "cudaGraphLaunch"))


def _around(times: np.ndarray, begin: np.ndarray, end: np.ndarray, own: np.ndarray | slice,
            parents: np.ndarray | None) -> np.ndarray:
    """Which of a thread's own launches was in its submit phase at each of the times, -1 for none."""
    begins = begin[own]
    order: np.ndarray | None = None
    if (begins[1:] < begins[:-1]).any():
        order = np.argsort(begins, kind="stable")
        begins = begins[order]
    if len(times) == len(begins) and (times >= begins).all() and (times[:-1] < begins[1:]).all():
        at = np.arange(len(times))  # one call a launch, as it mostly is: no search
    else:
        at = np.searchsorted(begins, times, side="right") - 1
    if order is not None:
        at = np.where(at >= 0, order[at], UNKNOWN) if len(order) else at
    candidate = at if isinstance(own, slice) else np.where(at >= 0, own[at], UNKNOWN) if len(own) else at
    while True:  # what ended before the call may stand inside of a launch that did not
        over = (candidate != UNKNOWN) & ((end[candidate] < times) | (begin[candidate] > times))
        if not over.any():
            return candidate
        candidate[over] = UNKNOWN if parents is None else parents[candidate[over]]


def _known(values: np.ndarray, otherwise: Any) -> np.ndarray:
    missing = values == UNKNOWN
    return np.where(missing, otherwise, values) if missing.any() else values


def selected(mask: np.ndarray) -> np.ndarray | slice:
    """Return the rows where a mask is true: a slice where that is all of them, which copies nothing."""
    return slice(None) if mask.all() else np.flatnonzero(mask)


def _is_launch(name: str) -> bool:
    return name.startswith(("cuLaunchKernel", "cuLaunchCooperative", "cudaLaunchKernel", "cudaLaunchCooperative",
                            "cuda.core.launch"))


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
        self.activities = _known_graphs(seen["cupti_graph_id"])
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


def _known_graphs(values: np.ndarray) -> np.ndarray:
    """The rows that are not -1; a column of one value, which takes no memory, is looked at once."""
    if len(values) and not any(values.strides) and values[0] == UNKNOWN:
        return np.empty(0, np.int64)
    return np.flatnonzero(values != UNKNOWN)


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
    submitted = launches["submit_start_ns"][rows]
    time = np.where(submitted == UNKNOWN, launches["start_ns"][rows], submitted)
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
