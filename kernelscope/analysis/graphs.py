"""Graphs: what building, updating and launching each one cost, which builds were rebuilds, time by node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from kernelscope.analysis.activities import GRAPH, KERNEL, Spread, spreads_by
from kernelscope.analysis.columns import (
    Bools,
    Ints,
    codes,
    count_by,
    data_frame,
    instants,
    ints,
    matches,
    row_count,
    sum_by,
)
from kernelscope.analysis.owners import processes_of
from kernelscope.recording.model import Recording
from kernelscope.recording.time import (
    FOREVER,
    UNKNOWN_INSTANT,
    delay_ns,
    duration_ns,
    instant_or_none,
    is_known,
    otherwise,
)
from kernelscope.schema import UNKNOWN
from kernelscope.units import counted

if TYPE_CHECKING:
    import pandas as pd


#: What a graph is called that nothing is known of but that it ran.
UNSEEN = "graph not seen being built"

_BUILDS = {"hit": "found", "miss": "build", "wait": "wait for", "failed": "failed build of"}


def graph_labels(recording: Recording) -> list[str]:
    """Return what to call each graph: ``graph 0 · 20 nodes``."""
    nodes = ints(recording, "graphs", "nodes").tolist()
    return [f"graph {at} · {counted(each, 'node')}" for at, each in enumerate(nodes)]


def cupti_label(cupti_graph_id: int) -> str:
    """Return what to call an executable graph of which only CUPTI's id is known."""
    return f"CUPTI graph {cupti_graph_id}"


def run_names(recording: Recording, runs: GraphRuns) -> tuple[Ints, list[str]]:
    """Return what to call the graph of each launch, as codes (int64) and the names that they stand for."""
    labels = graph_labels(recording)
    cupti, of = np.unique(np.append(runs.cupti_graph, UNKNOWN), return_inverse=True)
    found = np.where((runs.graph >= 0) & (runs.graph < len(labels)), runs.graph, len(labels) + of[:-1])
    return found, [*labels, *(UNSEEN if each < 0 else cupti_label(each) for each in cupti.tolist())]


def event_names(recording: Recording) -> tuple[Ints, list[str]]:
    """Return what to call each row of ``graph_events``, as codes (int64) and the names that they stand for.

    Such as ``instantiate graph 0 · 20 nodes`` and ``refused update of graph 0 · 20 nodes``.
    """
    labels = [*graph_labels(recording), UNSEEN]
    kind, kinds = codes(recording, "graph_events", "kind")
    outcome, outcomes = codes(recording, "graph_events", "outcome")
    graph, made = ints(recording, "graph_events", "graph_id"), ints(recording, "graph_events", "exec_id")
    # An event without a graph belongs to the graph that its executable graph was made from.
    owner = np.append(graph, UNKNOWN)[np.where(made < len(graph), made, UNKNOWN)]
    of = np.where(graph >= 0, graph, owner)
    of = np.where((of >= 0) & (of < len(labels) - 1), of, len(labels) - 1)
    wide, high = len(labels), len(outcomes) + 1
    keys, found = np.unique((kind * high + outcome + 1) * wide + of, return_inverse=True)
    names: list[str] = []
    for key in keys.tolist():
        word, how = kinds[key // wide // high], key // wide % high - 1
        went = "" if how < 0 or outcomes[how] == "ok" else f"{outcomes[how]} "
        names.append(f"{went}{word} {'of ' if went else ''}{labels[key % wide]}")
    return found.astype(np.int64), names


def build_names(recording: Recording) -> list[str]:
    """Return what to call each row of ``builds``: ``build reduce_into``, ``found reduce_into``."""
    return [f"{_BUILDS.get(row['outcome'], row['outcome'])} {row['algorithm']}" for row in recording.rows("builds")]


# Launches of graphs by column: the host's call, and what ran for it on the GPU.
#
# A launch is a row of ``graph_events``. What ran without one, as where graphs were not watched, is grouped by CUPTI's
# ids: all nodes of one launch have the correlation id of its call.

@dataclass(frozen=True)
class GraphRuns:
    """Launches of graphs: arrays of int64, -1 where something is unknown, and of instants `UNKNOWN_INSTANT`.

    Attributes
    ----------
    event : ndarray, shape (runs,)
        The row in ``graph_events``; those without one come last.
    graph, executable : ndarray, shape (runs,)
        The graph, and the event that made the executable graph.
    cupti_graph, correlation, device, cell, thread : ndarray, shape (runs,)
        CUPTI's id of the executable graph and of the call, the device, and the cell and the thread that launched it.
    called, returned : ndarray, shape (runs,)
        When the host entered the call, and when it returned.
    start, end : ndarray, shape (runs,)
        On the GPU, from the first node's start to the last one's end.
    activities, kernels, busy : ndarray, shape (runs,)
        How many activities ran, the kernels among them, and the sum of the times of all; a graph that was traced as a
        whole is none of the first two.
    is_whole : ndarray of bool, shape (runs,)
        Whether it was traced as a whole.
    first : ndarray, shape (runs,)
        The row in ``activities`` that began first.
    of_activity : ndarray, shape (activities,)
        The run that each activity is of.
    """

    event: Ints
    graph: Ints
    executable: Ints
    cupti_graph: Ints
    correlation: Ints
    device: Ints
    cell: Ints
    thread: Ints
    called: Ints
    returned: Ints
    start: Ints
    end: Ints
    activities: Ints
    kernels: Ints
    busy: Ints
    is_whole: Bools
    first: Ints
    of_activity: Ints

    def __len__(self) -> int:
        """Return how many launches there are."""
        return len(self.event)

    @cached_property
    def execute(self) -> Ints:
        """Return the time from the first node's start to the last one's end, in nanoseconds."""
        return duration_ns(self.start, self.end)


def graph_runs(recording: Recording) -> GraphRuns:
    """Return the launches of graphs that were seen, on the host or on the GPU."""
    events = np.flatnonzero(matches(recording, "graph_events", "kind", "launch"))
    place = np.full(row_count(recording, "graph_events") + 1, UNKNOWN, dtype=np.int64)
    place[events] = np.arange(len(events))
    of = place[_within(ints(recording, "activities", "graph_event_id"), len(place) - 1)]
    cupti = ints(recording, "activities", "cupti_graph_id")
    call, cell = (ints(recording, "activities", name) for name in ("correlation_id", "cell_id"))
    alone = np.flatnonzero((of < 0) & (cupti >= 0))
    count = len(events)
    if len(alone):
        group = np.zeros(len(alone), dtype=np.int64)
        # Several processes may have the same ids; files of older versions know of no processes, but of cells.
        for each in (cupti, call, processes_of(recording, "activities"), cell):
            if bool((each[alone] != each[alone[0]]).any()):
                values, which = np.unique(each[alone], return_inverse=True)
                group = np.unique(group * len(values) + which, return_inverse=True)[1]
        of[alone] = count + group
        count += int(group.max()) + 1
    rows = np.flatnonzero(of >= 0)
    start, end, asked, answered = instants(
        recording, "activities", "start_ns", "end_ns", "submit_start_ns", "submit_end_ns")
    start, end = start[rows], end[rows]
    mine = of[rows]
    timed = is_known(start)
    began, ended = _least(mine[timed], start[timed], count), _most(mine[timed], end[timed], count)
    queued, executed = (_at_events(recording, events, name) for name in ("queue_ns", "execute_ns"))
    entered, returned = (each[events] for each in instants(recording, "graph_events", "start_ns", "end_ns"))
    # A launch without activities keeps what its row says of the GPU.
    told = ~is_known(began[:len(events)]) & (queued >= 0) & (executed >= 0) & is_known(returned)
    began[:len(events)][told] = (returned + queued)[told]
    ended[:len(events)][told] = (returned + queued + executed)[told]
    leaders = _first(mine, rows, start, count)

    def column(event: str, activity: str) -> Ints:
        values = np.append(ints(recording, "activities", activity), UNKNOWN)[leaders]
        if event:
            own = _at_events(recording, events, event)
            values[:len(events)] = np.where(own >= 0, own, values[:len(events)])
        return values

    def times(own: Ints, of_leader: Ints) -> Ints:
        values = np.append(of_leader, UNKNOWN_INSTANT)[leaders]
        values[:len(events)] = otherwise(own, values[:len(events)])
        return values

    none = np.full(count - len(events), UNKNOWN, dtype=np.int64)
    is_kernel, is_whole = (matches(recording, "activities", "kind", kind)[rows] for kind in (KERNEL, GRAPH))
    return GraphRuns(
        event=np.concatenate((events, none)),
        graph=np.concatenate((_at_events(recording, events, "graph_id"), none)),
        executable=np.concatenate((_at_events(recording, events, "exec_id"), none)),
        cupti_graph=column("", "cupti_graph_id"), correlation=column("correlation_id", "correlation_id"),
        device=column("", "device_id"), cell=column("cell_id", "cell_id"), thread=column("thread_id", "thread_id"),
        called=times(entered, asked), returned=times(returned, answered),
        start=began, end=ended, activities=count_by(mine, count, ~is_whole), kernels=count_by(mine, count, is_kernel),
        is_whole=count_by(mine, count, is_whole) > 0,
        busy=sum_by(mine, duration_ns(start, end), count),
        first=leaders, of_activity=of,
    )


def _at_events(recording: Recording, events: Ints, name: str) -> Ints:
    return ints(recording, "graph_events", name)[events]


def _within(ids: Ints, size: int) -> Ints:
    """Return ids of a table of `size` rows, -1 for any other."""
    return np.where(ids < size, ids, UNKNOWN)


def _least(groups: Ints, values: Ints, size: int) -> Ints:
    found = np.full(size, FOREVER)
    np.minimum.at(found, groups, values)
    return np.where(found == FOREVER, UNKNOWN_INSTANT, found)


def _most(groups: Ints, values: Ints, size: int) -> Ints:
    found = np.full(size, UNKNOWN_INSTANT)
    np.maximum.at(found, groups, values)
    return found


def _first(groups: Ints, rows: Ints, start: Ints, size: int) -> Ints:
    """Return each group's first row; one without a start only where there is no other."""
    found = np.full(size, UNKNOWN, dtype=np.int64)
    is_timed = is_known(start)
    known = np.flatnonzero(is_timed)
    if bool((np.diff(start[known]) < 0).any()):
        known = known[np.argsort(start[known], kind="stable")]
    # Of several assignments the last one stays.
    for each in (np.flatnonzero(~is_timed)[::-1], known[::-1]):
        found[groups[each]] = rows[each]
    return found


# Executable graphs: which builds were rebuilds, of what, and whether they were needed.
#
# A *build* is an instantiate: it makes an executable graph. It is a *rebuild* where the same topology was
# instantiated before; what differs is nothing, arguments, or the launch configuration. A rebuild *replaces* the
# executable graph before it where that one was launched or closed, and is not launched any more: then it could
# have been launched again, or updated. Where both go on to be launched, as of graphs that are kept for several
# sizes, each was needed; and so of graphs with other launch configurations as long as the one before is not
# closed, for it may be kept for later.

@dataclass(frozen=True)
class Executable:
    """One executable graph.

    Attributes
    ----------
    exec_id : int
        The event that it came from: an instantiate, or before.
    graph_id, cell_id, start_ns, build_ns : int or None
        Its graph; where, when and how long it was built.
    rebuild_of : int or None
        The executable graph of the same topology that could have been used.
    change : str or None
        What differs from that one.
    replaces : bool
        Whether that one was not launched any more afterwards.
    updates, refused, launches : int
        Of it.
    is_closed : bool
        Whether it was seen being destroyed: then these are all that there were.
    """

    exec_id: int
    graph_id: int | None
    cell_id: int | None
    start_ns: int | None
    build_ns: int | None
    rebuild_of: int | None
    change: str | None
    replaces: bool
    updates: int
    refused: int
    launches: int
    is_closed: bool


def executables(recording: Recording) -> list[Executable]:
    """Return every executable graph, as they were made; an instantiate that failed made none."""
    events = GraphEvents(recording)
    words = [None if at < 0 else events.changes[at] for at in events.change.tolist()]
    made = np.flatnonzero((events.of("instantiate") & events.is_ok) | events.of("before")).tolist()
    size = len(events.kind)
    counts = {
        name: count_by(events.executable, size, where).tolist()
        for name, where in (("updates", events.of("update") & events.is_ok), ("refused", events.refused),
                            ("launches", events.of("launch")), ("closed", events.of("close")))
    }
    replaces = events.replaces
    return [
        Executable(
            exec_id=at, graph_id=_known(events.graph[at]), cell_id=_known(events.cell[at]),
            start_ns=instant_or_none(int(events.start[at])), build_ns=_known(events.lasted[at]),
            rebuild_of=_known(events.rebuild_of[at]), change=words[at], replaces=bool(replaces[at]),
            updates=counts["updates"][at], refused=counts["refused"][at], launches=counts["launches"][at],
            is_closed=bool(counts["closed"][at]),
        )
        for at in made
    ]


class GraphEvents:
    """The table ``graph_events`` by column."""

    def __init__(self, recording: Recording) -> None:
        self.kind, self._kinds = codes(recording, "graph_events", "kind")
        self.change, self.changes = codes(recording, "graph_events", "change")
        self.is_ok = matches(recording, "graph_events", "outcome", "ok")
        self.graph, self.executable, self.cell, self.rebuild_of = (
            ints(recording, "graph_events", name) for name in ("graph_id", "exec_id", "cell_id", "rebuild_of"))
        self.start, end = instants(recording, "graph_events", "start_ns", "end_ns")
        self.lasted = duration_ns(self.start, end)
        self.refused = self.of("update") & ~self.is_ok

    def of(self, *kinds: str) -> Bools:
        """Return which events are of these kinds."""
        wanted = [at for at, word in enumerate(self._kinds) if word in kinds]
        return np.isin(self.kind, np.array(wanted, dtype=np.int64))

    @property
    def replaces(self) -> Bools:
        """Return which rebuilds replaced the previous executable graph; see above."""
        size = len(self.kind)
        last, closed = np.full(size + 1, UNKNOWN_INSTANT), np.zeros(size + 1, dtype=np.bool_)
        known = (self.executable >= 0) & (self.executable < size)
        launched = self.of("launch") & known
        np.maximum.at(last, self.executable[launched], self.start[launched])
        closed[self.executable[self.of("close") & known]] = True
        before = np.where(self.rebuild_of < size, self.rebuild_of, UNKNOWN)
        is_rebuild = self.of("instantiate") & self.is_ok & (before >= 0)
        resized = self.change == (self.changes.index("configuration") if "configuration" in self.changes else size)
        return is_rebuild & (last[before] <= self.start) & (closed[before] | (is_known(last[before]) & ~resized))

    @property
    def reuploads(self) -> Bools:
        """Return which uploads repeated one: the graph had been uploaded or launched since its last change."""
        changes, places = self.of("instantiate", "before", "update") & self.is_ok, self.of("upload", "launch")
        found = np.zeros(len(self.kind), dtype=np.bool_)
        uploads = self.of("upload") & self.is_ok
        there: dict[int, bool] = {}
        for at in np.flatnonzero(changes | places).tolist() if uploads.any() else ():
            on = int(self.executable[at])
            found[at] = uploads[at] and there.get(on, False)
            there[on] = not changes[at]
        return found


def _known(value: Any) -> int | None:
    return None if value < 0 else int(value)


# Which graphs belong together.

#: A key of a group: its kind (graph, executable or cupti), and its text or number.
Key = tuple[str, Any]


@dataclass(frozen=True)
class Groups:
    """Groups of graphs.

    Attributes
    ----------
    keys : list
        What each group is: graphs of one topology or fingerprint; or an executable graph that was not seen being built,
        by its event or by CUPTI's id.
    graph_ids : list of list of int
        By group its rows in ``graphs``.
    variants : list of int
        By group how many different fingerprints those have.
    cupti : list of int or None
        CUPTI's id, where nothing else is known.
    of_event, of_run : ndarray of int64
        The group of each row of ``graph_events`` and of each launch; -1 for none.
    """

    keys: list[Key]
    graph_ids: list[list[int]]
    variants: list[int]
    cupti: list[int | None]
    of_event: Ints
    of_run: Ints


def grouped(recording: Recording, runs: GraphRuns, column: str) -> Groups:
    """Return graphs in groups by a column of ``graphs``: topology or fingerprint."""
    found: dict[Key, int] = {}
    graph_ids: list[list[int]] = []
    table: Any = recording.arrow("graphs")
    texts: list[str] = table.column(column).to_pylist()
    prints: list[str] = table.column("fingerprint").to_pylist()
    of_graph = np.full(len(texts) + 1, UNKNOWN, dtype=np.int64)
    for graph, text in enumerate(texts):
        at = found.setdefault(("graph", text), len(found))
        if at == len(graph_ids):
            graph_ids.append([])
        graph_ids[at].append(graph)
        of_graph[graph] = at
    graph, made = ints(recording, "graph_events", "graph_id"), ints(recording, "graph_events", "exec_id")
    # An event without a graph belongs to the graph that its executable graph was made from.
    own = np.append(graph, UNKNOWN)
    own = np.where(own >= 0, own, np.append(own[_within(made, len(graph))], UNKNOWN))[:len(graph)]
    of_event = of_graph[_within(own, len(texts))]
    unseen = np.flatnonzero((of_event < 0) & (made >= 0))
    for at in unseen.tolist():
        of_event[at] = found.setdefault(("executable", int(made[at])), len(found))
    of_run = np.append(of_event, UNKNOWN)[_within(runs.event, len(of_event))]
    for at in np.flatnonzero((of_run < 0) & (runs.cupti_graph >= 0)).tolist():
        of_run[at] = found.setdefault(("cupti", int(runs.cupti_graph[at])), len(found))
    graph_ids += [[] for _ in range(len(found) - len(graph_ids))]
    return Groups(
        list(found), graph_ids, [len({prints[each] for each in ids}) for ids in graph_ids],
        [key[1] if key[0] == "cupti" else None for key in found], of_event, of_run,
    )


class Shapes:
    """Nodes by kind and kernels of graphs, looked up for as many as are asked for.

    Parameters
    ----------
    recording : Recording
        What was recorded.
    """

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._graphs = recording.rows("graphs")
        graph = ints(recording, "graph_nodes", "graph_id")
        self._order = np.argsort(graph, kind="stable")
        self._first = np.searchsorted(graph[self._order], np.arange(len(self._graphs) + 1))
        self._kind, self._kinds = codes(recording, "graph_nodes", "kind")
        dispatcher = [str(row["name"]) for row in recording.rows("dispatchers")]
        self._dispatchers: list[str | None] = [*dispatcher, None]
        owner = np.append(ints(recording, "specializations", "dispatcher_id"), UNKNOWN)
        self._owner = owner[_within(ints(recording, "graph_nodes", "specialization_id"), len(owner) - 1)]

    def of(self, graph_id: int) -> dict[str, Any]:
        """Return nodes, edges, kinds and kernels of a graph, as `kernelscope.analysis.graphs.GraphSummary` has them.

        A kernel that a recorded dispatcher compiled has the dispatcher's name.
        """
        row = self._graphs[graph_id]
        rows = self._order[int(self._first[graph_id]):int(self._first[graph_id + 1])]
        counts = Counter(self._kinds[at] for at in self._kind[rows].tolist())
        is_kernel = self._kind[rows] == (self._kinds.index("kernel") if "kernel" in self._kinds else len(self._kinds))
        kernels = rows[is_kernel]
        source: Any = self._recording.arrow("graph_nodes")
        held = source.select(["name", "entry_name"]).take(kernels).to_pylist()
        found = dict.fromkeys(
            self._dispatchers[at] or each["name"] or each["entry_name"] or "a kernel"
            for at, each in zip(self._owner[kernels].tolist(), held, strict=True))
        return {"nodes": row["nodes"], "edges": row["edges"], "kinds": dict(counts.most_common()),
                "kernels": tuple(found)}


# What a rebuild is, and which ones replaced an executable graph, `executables` says.

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
        Descriptions of the changes, without repetition.
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
    whole_runs : int
        Launches that were traced as a whole: of what ran in them the time is known, and no more.
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
    whole_runs: int
    busy_ns: int | None
    cells: tuple[int, ...]

    @property
    def name(self) -> str:
        """Return the name, such as ``graph 0``; the first id of several."""
        if self.graph_ids:
            return f"graph {self.graph_ids[0]}"
        return UNSEEN if self.cupti_graph_id is None else cupti_label(self.cupti_graph_id)

    @property
    def host_ns(self) -> int:
        """Return host time of building, updating, uploading and launching, in nanoseconds."""
        held = (self.build, self.update, self.refusal, self.upload, self.launch)
        return self.captured_ns + sum(each.total_ns for each in held if each is not None)

    @property
    def rebuilt(self) -> int:
        """Return the number of builds that were rebuilds."""
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
    columns = {"name": "object"} | dict.fromkeys((
        "graph_id", "nodes", "edges", "captured", "builds", "rebuilds", "replaced", "updates", "refused", "uploads",
        "reuploads", "launches"), "Int64")
    spreads = {f"{what}_{name}": f"{what}.{name}" for what in ("build", "update", "launch", "execute")
               for name in ("total_ns", "p50_ns")}
    columns |= {name: "Int64" if name.endswith("total_ns") else "Float64" for name in spreads}
    return data_frame(by_graph(recording), columns, {
        "graph_id": lambda row: row.graph_ids[0] if row.graph_ids else None, "rebuilds": "rebuilt",
        "replaced": lambda row: sum(row.replaced.values()), **spreads})


def node_times(recording: Recording, graph_id: int) -> list[NodeTime]:
    """Return the nodes of one graph, in the order of ``graph_nodes``, with their time on the GPU over all launches."""
    rows = np.flatnonzero(ints(recording, "graph_nodes", "graph_id") == graph_id)
    if not len(rows):
        return []
    node = ints(recording, "activities", "graph_node_id")
    mine = np.flatnonzero((node >= rows[0]) & (node <= rows[-1]))
    start, end = instants(recording, "activities", "start_ns", "end_ns")
    lasted = duration_ns(start[mine], end[mine])
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
    times: dict[str, Any] = {
        name: spreads_by(of, np.where(where, events.lasted, UNKNOWN), size) for name, where in (
            ("capture", events.of("capture")), ("build", build), ("update", events.of("update") & events.is_ok),
            ("refusal", events.refused), ("upload", events.of("upload")))
    }
    on = groups.of_run
    begun, waited = duration_ns(runs.called, runs.returned), delay_ns(runs.returned, runs.start)
    times |= {"launch": spreads_by(on, begun, size), "queue": spreads_by(on, waited, size),
              "execute": spreads_by(on, runs.execute, size)}
    # Of activities without a call it is not known how many launches they are of.
    counts["launches"] = count_by(on, size, (runs.event >= 0) | (runs.correlation > 0))
    ran, kernels, busy = (sum_by(on, each, size) for each in (runs.activities, runs.kernels, runs.busy))
    whole = count_by(on, size, runs.is_whole)
    counts["captured"], counts["captured_ns"] = _captured(recording, groups, size)
    rebuilds, replaced = _rebuilds(events, of, size), _rebuilds(events, of, size, events.replaces)
    changes = _changes(recording, events, groups)
    cells, shapes = _cells(events, runs, groups), Shapes(recording)
    found = [
        GraphSummary(
            graph_ids=tuple(groups.graph_ids[at]), cupti_graph_id=groups.cupti[at], variants=groups.variants[at],
            **(shapes.of(groups.graph_ids[at][0]) if groups.graph_ids[at] else _NO_SHAPE),
            **{name: int(values[at]) for name, values in counts.items()},
            **{name: values[at] for name, values in times.items()},
            rebuilds=rebuilds[at][0], rebuild_ns=rebuilds[at][1],
            replaced=replaced[at][0], replaced_ns=replaced[at][1], changes=changes.get(at, ()),
            kernel_runs=int(kernels[at]), other_runs=int(ran[at] - kernels[at]),
            whole_runs=int(whole[at]), busy_ns=int(busy[at]) if (ran[at] or whole[at]) and busy[at] else None,
            cells=cells[at],
        )
        for at in range(size)
    ]
    return sorted(found, key=lambda each: (
        -(each.host_ns + (each.execute.total_ns if each.execute else 0)), each.graph_ids, each.cupti_graph_id or 0))


def _captured(recording: Recording, groups: Groups, size: int) -> tuple[Ints, Ints]:
    """Return the number of captured launches by group, and their host time."""
    capture = ints(recording, "launches", "capture_event_id")
    if not (capture >= 0).any():
        return np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64)
    place = np.append(groups.of_event, UNKNOWN)
    of = place[np.where(capture < len(place) - 1, capture, UNKNOWN)]
    lasted = duration_ns(*instants(recording, "launches", "start_ns", "end_ns"))
    # The time of a launch inside another one is the other's too.
    outer = ints(recording, "launches", "parent_launch_id") < 0
    return count_by(of, size), sum_by(of, np.where(outer, lasted, UNKNOWN), size)


def _rebuilds(events: GraphEvents, of: Ints, size: int, where: Bools | None = None) -> list[tuple[dict[str, int], int]]:
    """Return, for each group, rebuilds by change, and their time."""
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
