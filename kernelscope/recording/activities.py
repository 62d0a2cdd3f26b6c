"""From what CUPTI saw, on the host clock, to the tables ``activities`` and ``api_calls``; pure and vectorized.

A launch, its driver call and its kernel are joined in two steps. The call is the one that its thread made while the
launch was in its submit phase: both times are on one clock, and a call's middle is further from the phase's ends than
the clocks are apart. The kernel has the call's correlation id. Where the kernel's name is not the one that the launch's
specialization has, the two are not joined.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from kernelscope.recording.calls import THREAD_BITS, CallFinder, distinct, launches_of
from kernelscope.schema import UNKNOWN

#: Kinds of activity, in the order of their codes.
KINDS = ("kernel", "memcpy", "memset", "sync")

_KERNEL, _SYNC = KINDS.index("kernel"), KINDS.index("sync")
_SHAPE = ("griddim_x", "griddim_y", "griddim_z", "blockdim_x", "blockdim_y", "blockdim_z", "cluster_x", "cluster_y",
          "cluster_z", "sharedmem_bytes")

Row = dict[str, Any]
Columns = dict[str, np.ndarray]


def _no_activities() -> Columns:
    return {name: np.empty(0, np.int64) for name in ACTIVITY_COLUMNS}


def _no_calls() -> Columns:
    return {name: np.empty(0, np.int64) for name in CALL_COLUMNS}


#: Of one activity: code of its kind, `names` and `entries` indices, the device's ordinal, times, ids; -1 is unknown.
ACTIVITY_COLUMNS = ("kind", "name", "entry", "device", "stream", "start_ns", "end_ns", "correlation_id", "size_bytes",
                    "memory", "graph_id", "graph_node_id", "regs", "shape")
#: Of one driver or runtime call: `names` index, the thread's ident (its lower 32 bits), times, ids, what it returned.
CALL_COLUMNS = ("name", "ident", "start_ns", "end_ns", "correlation_id", "result")


@dataclass
class RawActivities:
    """What the GPU and the driver did, as columns of int64.

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
    """

    activities: Columns = field(default_factory=_no_activities)
    calls: Columns = field(default_factory=_no_calls)
    names: list[str] = field(default_factory=list)
    entries: list[str] = field(default_factory=list)
    shapes: list[tuple[int | None, ...]] = field(default_factory=list)
    own: list[tuple[int, int, int]] = field(default_factory=list)
    has_correlation: bool = True

    def __len__(self) -> int:
        return len(self.activities["kind"])


@dataclass
class Neighbours:
    """The rows that activities refer to; those that are missing are added.

    Attributes
    ----------
    threads, devices, specializations, configurations, cells : list of dict
        Rows of the tables of that name.
    """

    threads: list[Row]
    devices: list[Row]
    specializations: Sequence[Row]
    configurations: list[Row]
    cells: Sequence[Row]


def join(raw: RawActivities, launches: dict[str, Any], around: Neighbours) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the columns of ``activities`` and of ``api_calls``, and give `launches` what the GPU did for them.

    Parameters
    ----------
    raw : RawActivities
        What was seen.
    launches : dict of str to array
        The launches' columns, in order of start; ``correlation_id``, ``queue_ns`` and ``execute_ns`` are added.
    around : Neighbours
        The rows that activities refer to.
    """
    calls = _without_own(raw)
    seen, place = raw.activities, CallFinder(calls["correlation_id"])
    first = place.find(calls["correlation_id"])
    launch_of_call = launches_of(calls, first, raw.names, launches, around.threads)
    call = place.find(seen["correlation_id"])
    is_ours = _is_own(raw, seen, call, calls)
    if is_ours.any():
        seen = {name: values[~is_ours] for name, values in seen.items()}
        call = call[~is_ours]
    if (seen["start_ns"][1:] < seen["start_ns"][:-1]).any():
        order = np.argsort(seen["start_ns"], kind="stable")
        seen = {name: values[order] for name, values in seen.items()}
        call = call[order]
    is_kernel = (seen["kind"] == _KERNEL) & (seen["graph_id"] == UNKNOWN)
    launch = np.where(is_kernel, _at(launch_of_call, call), UNKNOWN)
    launch = _named_alike(launch, seen["entry"], raw.entries, launches, around.specializations)
    launch_of_call = _kept(launch_of_call, launch, call)
    thread_of_call = _thread_ids(calls["ident"], launch_of_call, launches, around.threads)
    _add_to_launches(launches, launch, launch_of_call, calls, seen, raw.has_correlation)
    cells = _cell_finder(around.cells)
    asked = np.where(call == UNKNOWN, seen["start_ns"], _at(calls["start_ns"], call))
    activities = {
        "activity_id": np.arange(len(launch)),
        "kind": _words(seen["kind"], KINDS),
        "name": _words(seen["name"], raw.names),
        "entry_name": _words(seen["entry"], raw.entries),
        "device_id": _device_ids(seen["device"], around.devices),
        "stream": seen["stream"], "start_ns": seen["start_ns"], "end_ns": seen["end_ns"],
        "launch_id": launch,
        "specialization_id": _specialization_ids(launch, seen["entry"], raw.entries, launches, around.specializations),
        "configuration_id": _configuration_ids(launch, seen["shape"], raw.shapes, launches, around.configurations),
        "regs": seen["regs"],
        "cell_id": cells(asked),
        "thread_id": _at(thread_of_call, call),
        "api": _words(_at(calls["name"], call), raw.names),
        "submit_start_ns": _at(calls["start_ns"], call), "submit_end_ns": _at(calls["end_ns"], call),
        "correlation_id": seen["correlation_id"] if raw.has_correlation else np.full(len(launch), UNKNOWN),
        "size_bytes": seen["size_bytes"], "memory": _words(seen["memory"], raw.names),
        "graph_id": seen["graph_id"], "graph_node_id": seen["graph_node_id"],
    }
    alone = np.ones(len(launch_of_call), bool)
    alone[call[call != UNKNOWN]] = False
    alone &= launch_of_call == UNKNOWN
    alone &= alone[first]  # a driver call inside of a runtime call has its id, and made what that one made
    rows = np.flatnonzero(alone)
    rows = rows[np.argsort(calls["start_ns"][rows], kind="stable")]
    api_calls = {
        "api_call_id": np.arange(len(rows)),
        "cell_id": cells(calls["start_ns"][rows]),
        "thread_id": thread_of_call[rows],
        "name": _words(calls["name"][rows], raw.names),
        "start_ns": calls["start_ns"][rows], "end_ns": calls["end_ns"][rows],
        "correlation_id": calls["correlation_id"][rows] if raw.has_correlation else np.full(len(rows), UNKNOWN),
        "result": calls["result"][rows],
    }
    return activities, api_calls


def _without_own(raw: RawActivities) -> Columns:
    """The calls in order of their start, without the recorder's own."""
    calls = raw.calls
    keep = np.ones(len(calls["ident"]), bool)
    for ident, start, end in raw.own:
        inside = (calls["start_ns"] >= start) & (calls["end_ns"] <= end)
        keep &= ~(inside & (calls["ident"] == ident & THREAD_BITS))
    in_order = (calls["start_ns"][1:] >= calls["start_ns"][:-1]).all()
    if keep.all() and in_order:
        return calls
    order = np.flatnonzero(keep)
    if not in_order:
        order = order[np.argsort(calls["start_ns"][order], kind="stable")]
    return {name: values[order] for name, values in calls.items()}


def _is_own(raw: RawActivities, seen: Columns, call: np.ndarray, calls: Columns) -> np.ndarray:
    """Which waits are the recorder's own: their calls were left out, and they lie inside of its windows."""
    found = np.zeros(len(seen["kind"]), bool)
    for _, start, end in raw.own:
        found |= ((seen["kind"] == _SYNC) & (call == UNKNOWN) & (seen["start_ns"] >= start)
                  & (seen["end_ns"] <= end))
    return found


def _named_alike(launch: np.ndarray, entry: np.ndarray, entries: Sequence[str], launches: dict[str, Any],
                 specializations: Sequence[Row]) -> np.ndarray:
    """Take kernels away from launches of specializations that have another name."""
    number = {name: at for at, name in enumerate(entries)}
    wanted = np.array([number.get(row.get("entry_name") or "", _OTHER if row.get("entry_name") else UNKNOWN)
                       for row in specializations] + [UNKNOWN], np.int64)
    specialization = _at(np.asarray(launches["specialization_id"]), launch)
    expected = wanted[specialization]
    wrong = (launch != UNKNOWN) & (expected != UNKNOWN) & (entry != UNKNOWN) & (expected != entry)
    return np.where(wrong, UNKNOWN, launch)


#: A kernel name that no activity has.
_OTHER = -2


def _kept(launch_of_call: np.ndarray, launch: np.ndarray, call: np.ndarray) -> np.ndarray:
    """The calls' launches without those whose kernel turned out to be another's."""
    kept = launch_of_call.copy()
    known = call != UNKNOWN
    asked, right = np.zeros(len(kept), bool), np.zeros(len(kept), bool)
    asked[call[known & (launch == UNKNOWN)]] = True
    right[call[known & (launch != UNKNOWN)]] = True
    kept[asked & ~right] = UNKNOWN
    return kept


def _add_to_launches(launches: dict[str, Any], launch: np.ndarray, launch_of_call: np.ndarray, calls: Columns,
                     seen: Columns, has_correlation: bool) -> None:
    total = len(launches["start_ns"])
    columns = {name: np.full(total, UNKNOWN) for name in ("correlation_id", "queue_ns", "execute_ns")}
    made = launch_of_call != UNKNOWN
    if has_correlation:
        columns["correlation_id"][launch_of_call[made]] = calls["correlation_id"][made]
    returned = np.full(total, UNKNOWN)
    returned[launch_of_call[made]] = calls["end_ns"][made]
    returned = np.where(launches["submit_end_ns"] == UNKNOWN, returned, launches["submit_end_ns"])
    rows = np.flatnonzero((launch != UNKNOWN) & (seen["start_ns"] != UNKNOWN) & (seen["end_ns"] != UNKNOWN))
    of = launch[rows]
    columns["execute_ns"][of] = seen["end_ns"][rows] - seen["start_ns"][rows]
    queued = np.maximum(0, seen["start_ns"][rows] - returned[of])
    columns["queue_ns"][of] = np.where(returned[of] == UNKNOWN, UNKNOWN, queued)
    launches.update(columns)


def _thread_ids(idents: np.ndarray, launch_of_call: np.ndarray, launches: dict[str, Any],
                threads: list[Row]) -> np.ndarray:
    """The calls' threads; those that made no launch are added."""
    rows: dict[int, int] = {}
    for number, row in enumerate(threads):
        rows.setdefault((row.get("ident") or 0) & THREAD_BITS, number)
    found_idents, which = distinct(idents)
    numbers: list[int] = []
    for ident in found_idents:
        if ident not in rows:
            rows[ident] = len(threads)
            threads.append({"ident": ident, "name": None})
        numbers.append(rows[ident])
    found = np.array(numbers, np.int64)[which]
    return np.where(launch_of_call == UNKNOWN, found, _at(np.asarray(launches["thread_id"]), launch_of_call))


def _device_ids(ordinals: np.ndarray, devices: list[Row]) -> np.ndarray:
    rows: dict[Any, int] = {row.get("ordinal"): number for number, row in enumerate(devices)}
    lookup: dict[int, int] = {UNKNOWN: UNKNOWN}
    for ordinal in distinct(ordinals)[0]:
        if ordinal != UNKNOWN and ordinal not in rows:
            rows[ordinal] = len(devices)
            devices.append({"ordinal": ordinal})
        lookup[ordinal] = rows.get(ordinal, UNKNOWN)
    return _mapped(ordinals, lookup)


def _specialization_ids(launch: np.ndarray, entry: np.ndarray, entries: Sequence[str], launches: dict[str, Any],
                        specializations: Sequence[Row]) -> np.ndarray:
    """The launch's own; for a kernel that a graph or somebody else launched, the one of that name if it is one only."""
    named: dict[str, int] = {}
    for number, row in enumerate(specializations):
        name = row.get("entry_name")
        if name:
            named[name] = _OTHER if name in named else number
    by_entry = np.array([named.get(name, UNKNOWN) for name in entries] + [UNKNOWN], np.int64)[entry]
    by_entry = np.where(by_entry == _OTHER, UNKNOWN, by_entry)
    return np.where(launch == UNKNOWN, by_entry, _at(np.asarray(launches["specialization_id"]), launch))


def _configuration_ids(launch: np.ndarray, shape: np.ndarray, shapes: Sequence[tuple[int | None, ...]],
                       launches: dict[str, Any], configurations: list[Row]) -> np.ndarray:
    """The launch's own; other kernels' are added, without a stream."""
    added: dict[int, int] = {UNKNOWN: UNKNOWN}
    for number in distinct(shape[launch == UNKNOWN])[0]:
        if number != UNKNOWN:
            added[number] = len(configurations)
            configurations.append({**dict(zip(_SHAPE, shapes[number], strict=True)), "stream": None})
    own = _at(np.asarray(launches["configuration_id"]), launch)
    lookup = np.full(len(shapes) + 1, UNKNOWN)
    for number, row in added.items():
        lookup[number] = row
    return np.where(launch == UNKNOWN, lookup[shape], own)


def _cell_finder(cells: Sequence[Row]) -> Any:
    starts = np.array([row["start_ns"] for row in cells], np.int64)
    ends = np.array([row["end_ns"] for row in cells], np.int64)

    def cell_of(times: np.ndarray) -> np.ndarray:
        if not len(starts):
            return np.full(len(times), UNKNOWN)
        found = np.searchsorted(starts, times, side="right") - 1
        return np.where((found >= 0) & (times <= ends[found]), found, UNKNOWN)

    return cell_of


def _at(values: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """``values[rows]``, -1 where the row is -1."""
    missing = rows == UNKNOWN
    if not missing.any():
        return values[rows]
    return np.where(missing, UNKNOWN, values[rows]) if len(values) else np.full(len(rows), UNKNOWN)


def _mapped(values: np.ndarray, lookup: dict[int, int]) -> np.ndarray:
    known, which = distinct(values)
    return np.array([lookup[value] for value in known], np.int64)[which] if len(values) else values


def _words(codes: np.ndarray, words: Sequence[str]) -> Any:
    """A category column from codes into `words`, of which several may be the same; -1 is null."""
    used = np.bincount(codes + 1, minlength=len(words) + 1)[1:] > 0
    distinct: dict[str, int] = {}
    lookup = np.array([distinct.setdefault(word, len(distinct)) if is_used else UNKNOWN
                       for word, is_used in zip(words, used.tolist(), strict=True)] + [UNKNOWN], np.int32)
    indices = lookup[codes]
    missing = indices == UNKNOWN
    return pa.DictionaryArray.from_arrays(
        pa.array(indices, pa.int32(), mask=missing if missing.any() else None), pa.array(list(distinct), pa.string()))
