"""From what CUPTI saw to the tables ``activities`` and ``api_calls``, and to the launches; pure and vectorized."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kernelscope.recording.api import is_graph_launch, is_launch
from kernelscope.recording.columns import (
    CALL_SITE,
    THREAD_BITS,
    Columns,
    Row,
    Rows,
    Spans,
    by_entry_and_threads,
    by_entry_name,
    cell_finder,
    distinct,
    mapped,
    none,
    taken,
    thread_rows,
    words,
)
from kernelscope.recording.graphs import GraphJoin, RawGraphs
from kernelscope.recording.time import FOREVER, UNKNOWN_INSTANT, delay_ns, is_known, otherwise, recorded
from kernelscope.schema import UNKNOWN


def add_boundaries(launches: dict[str, Any], launch_of_call: np.ndarray, calls: dict[str, np.ndarray]) -> None:
    """Give launches of which only the submit phase's end was seen the times of their driver call.

    Parameters
    ----------
    launches : dict of str to array
        The launches' columns; ``submit_start_ns`` and ``submit_end_ns`` are replaced.
    launch_of_call : ndarray of int64
        The launch that each call submitted, -1 for none.
    calls : dict of str to ndarray
        Driver and runtime calls: ``start_ns`` and ``end_ns``.
    """
    begun, ended = np.asarray(launches["submit_start_ns"]), np.asarray(launches["submit_end_ns"])
    made = np.flatnonzero(launch_of_call != UNKNOWN)
    of = launch_of_call[made]
    wanted = ~is_known(begun[of]) & is_known(ended[of])
    made, of = made[wanted], of[wanted]
    if not len(of):
        return
    first, last = np.asarray(launches["start_ns"])[of], ended[of]
    begun, ended = begun.copy(), ended.copy()
    # Both clocks are one to within a microsecond: a call does not begin before its launch.
    begun[of] = np.clip(calls["start_ns"][made], first, last)
    ended[of] = np.clip(calls["end_ns"][made], begun[of], last)
    launches["submit_start_ns"], launches["submit_end_ns"] = begun, ended


def add_devices(launches: dict[str, Any], launch: np.ndarray, devices: np.ndarray) -> None:
    """Give launches the device of their kernel.

    What a probe says is the device that was current when it first saw a kernel and its stream. The default streams have
    one handle, and cuda.core one object, for all devices.

    Parameters
    ----------
    launches : dict of str to array
        The launches' columns; ``device_id`` is replaced.
    launch : ndarray of int64
        The launch of each activity, -1 for none.
    devices : ndarray of int
        The device's row for each activity.
    """
    known = np.asarray(launches["device_id"])
    rows = np.flatnonzero((launch != UNKNOWN) & (np.asarray(devices) != UNKNOWN))
    rows = rows[known[launch[rows]] != devices[rows]]
    if len(rows):
        known = known.copy()
        known[launch[rows]] = devices[rows]
        launches["device_id"] = known


# A launch, its driver call and its kernel are joined in two steps. The call is the one that its thread made while
# the launch was in its submit phase: both times are on one clock, and a call's middle is further from the phase's
# ends than the clocks are apart. The kernel has the call's correlation id. Where the kernel's name is not the one
# that the launch's specialization has, the two are not joined.

#: Kinds of activity, in the order of their codes.
KINDS = ("kernel", "memcpy", "memset", "sync", "graph")

#: Frameworks of which one call, a row of ``launches``, can launch several kernels.
CALLS_OF_SEVERAL = ("cuda.compute", "quadrants")

_KERNEL, _SYNC = KINDS.index("kernel"), KINDS.index("sync")
_SHAPE = ("griddim_x", "griddim_y", "griddim_z", "blockdim_x", "blockdim_y", "blockdim_z", "cluster_x", "cluster_y",
          "cluster_z", "sharedmem_bytes")


def _no_activities() -> Columns:
    return {name: np.empty(0, np.int64) for name in ACTIVITY_COLUMNS}


def _no_calls() -> Columns:
    return {name: np.empty(0, np.int64) for name in CALL_COLUMNS}


#: Of one activity: code of its kind, `names` and `entries` indices, the device's ordinal, times, ids; -1 is unknown.
ACTIVITY_COLUMNS = ("kind", "name", "entry", "device", "stream", "start_ns", "end_ns", "correlation_id", "size_bytes",
                    "memory", "cupti_graph_id", "cupti_node_id", "regs", "shape")
#: Of one driver or runtime call: `names` index, the thread's ident (its lower 32 bits), times, ids, what it returned.
CALL_COLUMNS = ("name", "ident", "start_ns", "end_ns", "correlation_id", "result")


@dataclass
class RawActivities:
    """What the GPU and the driver did, as columns of int64 or int32; those of one value may be read-only.

    Attributes
    ----------
    activities : dict of str to ndarray
        `ACTIVITY_COLUMNS`; all of one length.
    calls : dict of str to ndarray
        `CALL_COLUMNS`; all of one length.
    names : list of str
        What ``name`` and ``memory`` stand for.
    entries : list of str
        What ``entry`` stands for: mangled kernel names.
    shapes : list of tuple
        What ``shape`` stands for: three grid, three block and three cluster dimensions, and dynamic shared memory in
        bytes; None for unknown ones.
    own : list of (int, int, int)
        Thread ident, start and end of the recorder's own calls, which are left out.
    has_correlation : bool
        Whether correlation ids are CUPTI's; they join the rows in any case.
    sites : dict of str to ndarray
        Of calls of which it is known where they were made: ``correlation_id``, in order, and `CALL_SITE`, the line and
        the innermost frame of the call path, -1 for none.
    """

    activities: Columns = field(default_factory=_no_activities)
    calls: Columns = field(default_factory=_no_calls)
    names: list[str] = field(default_factory=list)
    entries: list[str] = field(default_factory=list)
    shapes: list[tuple[int | None, ...]] = field(default_factory=list)
    own: list[tuple[int, int, int]] = field(default_factory=list)
    has_correlation: bool = True
    sites: Columns = field(default_factory=lambda: {
        name: np.empty(0, np.int64) for name in ("correlation_id", *CALL_SITE)})

    def __len__(self) -> int:
        return len(self.activities["kind"])

    def sites_of(self, correlation: np.ndarray) -> Columns:
        """Return where calls were made, as `CALL_SITE`, by their correlation ids; -1 for none."""
        known = self.sites["correlation_id"]
        if not len(known) or not len(correlation):
            return dict.fromkeys(CALL_SITE, none(len(correlation)))
        at = np.minimum(np.searchsorted(known, correlation), len(known) - 1)
        return {name: np.where(known[at] == correlation, self.sites[name][at], UNKNOWN) for name in CALL_SITE}


@dataclass
class Neighbours:
    """The rows that activities refer to; those that are missing are added.

    Attributes
    ----------
    threads, devices, specializations, configurations, cells, dispatchers : list of dict
        Rows of the tables of that name.
    """

    threads: list[Row]
    devices: list[Row]
    specializations: Sequence[Row]
    configurations: list[Row]
    cells: Sequence[Row]
    dispatchers: Sequence[Row] = ()


def join(raw: RawActivities, launches: dict[str, Any], around: Neighbours,
         graphs: GraphJoin | None = None) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the columns of ``activities`` and of ``api_calls``, and give `launches` what the GPU did for them.

    Where neither an activity nor a call was seen there are no columns.

    Calls that launched a graph, or that a graph's events tell of, are none of the ``api_calls``. A ``graph_event_id``
    is the event's number in `graphs`.

    Parameters
    ----------
    raw : RawActivities
        What was seen.
    launches : dict of str to array
        The launches' columns, in order of start; ``correlation_id``, ``queue_ns`` and ``execute_ns`` are added where
        anything was seen.
    around : Neighbours
        The rows that activities refer to.
    graphs : GraphJoin, optional
        The lives of graphs; it is told of their launches.
    """
    if not len(raw) and not len(raw.calls["ident"]):
        return {}, {}
    graphs = GraphJoin(RawGraphs(), around.threads) if graphs is None else graphs
    # Which launches are calls that launch several kernels, and at the end False for none; None where none is.
    is_one = np.array([row.get("framework") in CALLS_OF_SEVERAL for row in around.dispatchers], bool)
    several = np.append(is_one[launches["dispatcher_id"]], False) if is_one.any() else None
    calls = _without_own(raw)
    seen, place = _timed(raw.activities), CallFinder(calls["correlation_id"])
    first = place.find(calls["correlation_id"])
    launch_of_call = launches_of(calls, first, raw.names, launches, around.threads,
                                 None if several is None else several[:-1])
    call = place.find(seen["correlation_id"])
    is_ours = _is_own(raw, seen, call)
    if len(is_ours):
        others = np.delete(np.arange(len(call)), is_ours)
        seen, call = taken(seen, others), call[others]
    if (seen["start_ns"][1:] < seen["start_ns"][:-1]).any():
        order = np.argsort(seen["start_ns"], kind="stable")
        seen, call = taken(seen, order), call[order]
    in_graphs = graphs.attach(calls, first, raw.names, seen, call)
    seen, call = in_graphs.with_bodies(seen, call)
    asked = Rows(call)
    launch = asked.of(launch_of_call)
    not_its_own = (seen["kind"] != _KERNEL) | (seen["cupti_graph_id"] != UNKNOWN)
    if several is not None:
        not_its_own &= ~several[launch] | (seen["kind"] != _KERNEL)
    launch[not_its_own] = UNKNOWN
    own = launch if several is None else np.where(several[launch], UNKNOWN, launch)
    _name_alike(launch, own, seen["entry"], raw.entries, launches, around.specializations)
    launch_of_call = _kept(launch_of_call, launch, call)
    made = Rows(launch if several is None else np.where(several[launch], UNKNOWN, launch))
    thread_of_call = _thread_ids(calls["ident"], launch_of_call, launches, around.threads)
    _add_to_launches(launches, launch, launch_of_call, calls, seen, raw.has_correlation)
    if several is not None:
        _add_to_several(launches, np.flatnonzero((launch != UNKNOWN) & several[launch]), launch, call, calls, seen)
    graph_event, graph_node = graphs.finish(in_graphs)
    cells = cell_finder(around.cells)
    cell_of_call = cells(calls["start_ns"])
    cell = asked.of(cell_of_call)
    cell[asked.missing] = cells(seen["start_ns"][asked.missing])
    activities = {
        "activity_id": np.arange(len(launch)),
        "kind": words(seen["kind"], KINDS),
        "name": words(seen["name"], raw.names),
        "entry_name": words(seen["entry"], raw.entries),
        "device_id": _device_ids(seen["device"], around.devices),
        "stream": seen["stream"], "start_ns": seen["start_ns"], "end_ns": seen["end_ns"],
        "launch_id": launch,
        "specialization_id": _specialization_ids(made, seen["entry"], raw.entries, seen["shape"], raw.shapes, launches,
                                                 around.specializations),
        "configuration_id": _configuration_ids(made, seen["shape"], raw.shapes, launches, around.configurations),
        "regs": seen["regs"],
        "cell_id": cell,
        "thread_id": asked.of(thread_of_call),
        **_sites(raw, seen, asked, call, launch_of_call, thread_of_call, calls, launches),
        "api": words(asked.of(calls["name"]), raw.names),
        "submit_start_ns": asked.of(calls["start_ns"], UNKNOWN_INSTANT),
        "submit_end_ns": asked.of(calls["end_ns"], UNKNOWN_INSTANT),
        "correlation_id": seen["correlation_id"] if raw.has_correlation else none(len(launch)),
        "size_bytes": seen["size_bytes"], "memory": words(seen["memory"], raw.names),
        "cupti_graph_id": seen["cupti_graph_id"], "cupti_node_id": seen["cupti_node_id"],
    }
    if len(in_graphs.activities):  # else they are left out, which costs nothing
        for name, values in (("graph_event_id", graph_event), ("graph_node_id", graph_node)):
            activities[name] = np.full(len(launch), UNKNOWN)
            activities[name][in_graphs.activities] = values
    alone = np.ones(len(launch_of_call), bool)
    alone[call if not len(asked.missing) else call[call != UNKNOWN]] = False
    alone &= launch_of_call == UNKNOWN
    alone[in_graphs.rows[in_graphs.event != UNKNOWN]] = False
    alone[graphs.told_calls(calls, raw.names)] = False
    alone &= alone[first]  # a driver call inside of a runtime call has its id, and made what that one made
    rows = np.flatnonzero(alone)
    rows = rows[np.argsort(calls["start_ns"][rows], kind="stable")]
    api_calls = {
        "api_call_id": np.arange(len(rows)),
        "cell_id": cell_of_call[rows],
        "thread_id": thread_of_call[rows],
        "name": words(calls["name"][rows], raw.names),
        "start_ns": calls["start_ns"][rows], "end_ns": calls["end_ns"][rows],
        "correlation_id": calls["correlation_id"][rows] if raw.has_correlation else none(len(rows)),
        "result": calls["result"][rows],
    }
    return activities, api_calls


def _timed(columns: Columns) -> Columns:
    """The columns with their times as instants."""
    return columns | {name: recorded(columns[name]) for name in ("start_ns", "end_ns")}


def _without_own(raw: RawActivities) -> Columns:
    """The calls in order of their start, without the recorder's own; with columns of where they were made."""
    calls = _timed(raw.calls) | raw.sites_of(raw.calls["correlation_id"])
    if (calls["start_ns"][1:] < calls["start_ns"][:-1]).any():
        calls = taken(calls, np.argsort(calls["start_ns"], kind="stable"))
    keep = np.ones(len(calls["ident"]), bool)
    for ident, start, end in raw.own:
        first, last = np.searchsorted(calls["start_ns"], (start, end + 1))
        keep[first:last] &= (calls["end_ns"][first:last] > end) | (calls["ident"][first:last] != ident & THREAD_BITS)
    return calls if keep.all() else taken(calls, np.flatnonzero(keep))


def _is_own(raw: RawActivities, seen: Columns, call: np.ndarray) -> np.ndarray:
    """Which waits are the recorder's own: their calls were left out, and they lie inside of its windows."""
    waits = np.flatnonzero((seen["kind"] == _SYNC) & (call == UNKNOWN)) if raw.own else np.empty(0, np.int64)
    found = np.zeros(len(waits), bool)
    begun, ended = seen["start_ns"][waits], seen["end_ns"][waits]
    for _, start, end in raw.own:
        found |= (begun >= start) & (ended <= end)
    return waits[found]


def _name_alike(launch: np.ndarray, own: np.ndarray, entry: np.ndarray, entries: Sequence[str],
                launches: dict[str, Any], specializations: Sequence[Row]) -> None:
    """Take kernels away from launches of specializations that have another name; `own` are launches of one kernel."""
    number = {name: at for at, name in enumerate(entries)}
    wanted = np.array([number.get(row.get("entry_name") or "", _OTHER if row.get("entry_name") else UNKNOWN)
                       for row in specializations] + [UNKNOWN], np.int32)
    expected = wanted[Rows(own).of(np.asarray(launches["specialization_id"]))]
    rows = np.flatnonzero(expected != entry)
    rows = rows[(expected[rows] != UNKNOWN) & (entry[rows] != UNKNOWN)]
    launch[rows] = UNKNOWN


#: A kernel name that no activity has.
_OTHER = -2


def _kept(launch_of_call: np.ndarray, launch: np.ndarray, call: np.ndarray) -> np.ndarray:
    """The calls' launches without those whose kernel turned out to be another's."""
    known = call != UNKNOWN
    others = call[known & (launch == UNKNOWN)]
    others = others[launch_of_call[others] != UNKNOWN]
    if not len(others):
        return launch_of_call
    kept = launch_of_call.copy()
    right = np.zeros(len(kept), bool)
    right[call[known & (launch != UNKNOWN)]] = True
    kept[others[~right[others]]] = UNKNOWN
    return kept


def _add_to_launches(launches: dict[str, Any], launch: np.ndarray, launch_of_call: np.ndarray, calls: Columns,
                     seen: Columns, has_correlation: bool) -> None:
    add_boundaries(launches, launch_of_call, calls)
    total = len(launches["start_ns"])
    columns = {name: np.full(total, UNKNOWN) for name in ("correlation_id", "queue_ns", "execute_ns")}
    made = selected(launch_of_call != UNKNOWN)
    if has_correlation:
        columns["correlation_id"][launch_of_call[made]] = calls["correlation_id"][made]
    returned = launches["submit_end_ns"]
    if not is_known(returned).all():
        of_calls = np.full(total, UNKNOWN_INSTANT)
        of_calls[launch_of_call[made]] = calls["end_ns"][made]
        returned = otherwise(returned, of_calls)
    rows = selected((launch != UNKNOWN) & is_known(seen["start_ns"], seen["end_ns"]))
    of = launch[rows]
    columns["execute_ns"][of] = seen["end_ns"][rows] - seen["start_ns"][rows]
    columns["queue_ns"][of] = delay_ns(returned[of], seen["start_ns"][rows])
    launches.update(columns)


def _add_to_several(launches: dict[str, Any], rows: np.ndarray, launch: np.ndarray, call: np.ndarray, calls: Columns,
                    seen: Columns) -> None:
    """Calls that launched several kernels: how long those ran in all, and how long the first one waited."""
    if not len(rows):
        return
    of = np.unique(launch[rows])
    for name in ("correlation_id", "queue_ns", "execute_ns"):
        launches[name][of] = UNKNOWN
    rows = rows[is_known(seen["start_ns"][rows], seen["end_ns"][rows])]
    lasted = np.asarray(seen["end_ns"], np.int64)[rows] - seen["start_ns"][rows]
    of, first, which = np.unique(launch[rows], return_index=True, return_inverse=True)
    total = np.zeros(len(of), np.int64)
    np.add.at(total, which, lasted)
    launches["execute_ns"][of] = total
    first = rows[first]  # activities are in order of their start
    submitted = launches["submit_end_ns"][of]
    returned = otherwise(submitted, np.append(calls["end_ns"], UNKNOWN_INSTANT)[call[first]])
    launches["queue_ns"][of] = delay_ns(returned, seen["start_ns"][first])


def _thread_ids(idents: np.ndarray, launch_of_call: np.ndarray, launches: dict[str, Any],
                threads: list[Row]) -> np.ndarray:
    """The calls' threads; those that made no launch are added."""
    found = thread_rows(idents, threads)
    made = selected(launch_of_call != UNKNOWN)
    found[made] = np.asarray(launches["thread_id"])[launch_of_call[made]]
    return found


def _sites(raw: RawActivities, seen: Columns, asked: Rows, call: np.ndarray, launch_of_call: np.ndarray,
           thread_of_call: np.ndarray, calls: Columns, launches: dict[str, Any]) -> Columns:
    """Lines and call paths of the calls' launches; of other calls their own, or those of the launch around them."""
    of_launches = {name: np.append(launches[name], UNKNOWN) for name in CALL_SITE}
    known = [name for name in CALL_SITE
             if (of_launches[name] != UNKNOWN).any() or (raw.sites[name] != UNKNOWN).any()]
    if "line_id" not in known:
        return dict.fromkeys(CALL_SITE, none(len(call)))
    of_calls = {name: np.where(launch_of_call == UNKNOWN, calls[name], of_launches[name][launch_of_call])
                for name in known}
    others = np.unique(call[call != UNKNOWN])
    others = others[(launch_of_call[others] == UNKNOWN) & (calls["line_id"][others] == UNKNOWN)]
    if len(others):
        middle = (calls["start_ns"][others] + calls["end_ns"][others]) >> 1
        spans = Spans(launches["thread_id"], launches["start_ns"], otherwise(launches["end_ns"], FOREVER))
        around = spans.around(thread_of_call[others], middle)
        for name, values in of_calls.items():
            values[others] = of_launches[name][around]
    found = {name: asked.of(values) for name, values in of_calls.items()}
    if len(asked.missing) and len(raw.sites["correlation_id"]):  # of calls that are not recorded, such as queries
        missing = raw.sites_of(seen["correlation_id"][asked.missing])
        for name, values in found.items():
            values[asked.missing] = missing[name]
    return dict.fromkeys(CALL_SITE, none(len(call))) | found


def _device_ids(ordinals: np.ndarray, devices: list[Row]) -> np.ndarray:
    rows: dict[Any, int] = {row.get("ordinal"): number for number, row in enumerate(devices)}
    lookup: dict[int, int] = {UNKNOWN: UNKNOWN}
    for ordinal in distinct(ordinals)[0]:
        if ordinal != UNKNOWN and ordinal not in rows:
            rows[ordinal] = len(devices)
            devices.append({"ordinal": ordinal})
        lookup[ordinal] = rows.get(ordinal, UNKNOWN)
    return mapped(ordinals, lookup)


def _specialization_ids(made: Rows, entry: np.ndarray, entries: Sequence[str], shape: np.ndarray,
                        shapes: Sequence[tuple[int | None, ...]], launches: dict[str, Any],
                        specializations: Sequence[Row]) -> np.ndarray:
    """The launch's own; for a kernel that a graph or somebody else launched, the one of that name if it is one only.

    Of several of one kernel it is the one with as many threads a block, if it is one only.
    """
    named, by_threads = by_entry_name(specializations), by_entry_and_threads(specializations)
    by_entry = np.array([named.get(name, UNKNOWN) for name in entries] + [UNKNOWN], np.int32)
    found = made.of(np.asarray(launches["specialization_id"]))
    own = entry[made.missing]
    chosen = by_entry[own]
    if by_threads:
        pairs, which = np.unique(np.stack((own, shape[made.missing])), axis=1, return_inverse=True)
        threads = [int(np.prod([size or 1 for size in each[3:6]])) for each in shapes]
        both: list[tuple[int, int]] = pairs.T.tolist()
        by_pair = np.array([by_threads.get((entries[name], threads[at]), UNKNOWN)
                            if UNKNOWN not in (name, at) else UNKNOWN for name, at in both], np.int32)
        chosen = np.where(chosen == UNKNOWN, by_pair[which.ravel()], chosen)
    found[made.missing] = chosen
    return found


def _configuration_ids(made: Rows, shape: np.ndarray, shapes: Sequence[tuple[int | None, ...]],
                       launches: dict[str, Any], configurations: list[Row]) -> np.ndarray:
    """The launch's own; other kernels' have no stream, and are added where they are new."""
    others = shape[made.missing]
    lookup = np.full(len(shapes) + 1, UNKNOWN)
    known = {tuple(row.get(name) for name in _SHAPE): number for number, row in enumerate(configurations)
             if row.get("stream") is None}
    for number in distinct(others)[0]:
        if number != UNKNOWN:
            lookup[number] = known.setdefault(tuple(shapes[number]), len(configurations))
            if lookup[number] == len(configurations):
                configurations.append({**dict(zip(_SHAPE, shapes[number], strict=True)), "stream": None})
    found = made.of(np.asarray(launches["configuration_id"]))
    found[made.missing] = lookup[others]
    return found


# Which launch a driver call submitted.

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
    submits = np.array([is_launch(name) for name in names], bool)[calls["name"]]
    graphs = None if several is None else np.array([is_graph_launch(name) for name in names], bool)[calls["name"]]
    submits = (submits if graphs is None else submits | graphs) & (calls["result"] <= 0)  # or not known
    begin = otherwise(launches["submit_start_ns"], launches["start_ns"])
    end = otherwise(otherwise(launches["submit_end_ns"], launches["end_ns"]), FOREVER)
    if several is not None:
        begin = np.where(several, launches["start_ns"], begin)
        end = np.where(several, otherwise(launches["end_ns"], FOREVER), end)
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


def selected(mask: np.ndarray) -> np.ndarray | slice:
    """Return the rows where a mask is true: a slice where that is all of them, which copies nothing."""
    return slice(None) if mask.all() else np.flatnonzero(mask)

