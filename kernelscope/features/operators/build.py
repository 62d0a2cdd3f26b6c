"""Which of PyTorch's operators launched what: the operator that the launching thread was in, by time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kernelscope.recording.build import RawRecording
from kernelscope.recording.columns import THREAD_BITS, Row, cell_finder
from kernelscope.recording.paths import NamePaths
from kernelscope.recording.time import halfway, is_known, otherwise
from kernelscope.schema import UNKNOWN

Ints = np.ndarray[Any, np.dtype[np.int64]]


def join_operators(raw: RawRecording, launches: dict[str, Any], activities: dict[str, Any]) -> dict[str, list[Row]]:
    """Give launches and activities the operator that was innermost on their thread when they were submitted.

    Returns the rows of ``operators``: those that launches and activities name, one for each process and cell that they
    ran in.

    Parameters
    ----------
    raw : RawRecording
        Its rows of ``operators`` are of one thread each: its ``ident``; its operators, ``nodes``, of each the number of
        the one around it, smaller than its own, -1 for none, and its name; ``events``, an array of int64 of shape
        (n, 2), instants in order and the operator that the thread is in from then on, -1 for none; and ``are_all``,
        whether none is missing. They are those of the whole session.
    launches, activities : dict of str to array
        Columns, to which ``operator_id`` is added.
    """
    rows: list[Row] = []
    numbers: dict[tuple[bytes, int, int | None], int] = {}
    operators = raw.rows.get("operators", [])
    if not operators:
        return {"operators": rows}
    tables = [(columns, _submitted(columns), _rows_by_thread(columns)) for columns in (launches, activities) if columns]
    for columns, at, _ in tables:
        columns["operator_id"] = np.full(len(at), UNKNOWN, np.int32)
    cell_of = cell_finder(raw.cells)
    places: dict[int, int] = {}
    for number, row in enumerate(raw.threads):  # of a thread that Python does not know, CUPTI has the lower bits only
        places.setdefault((row.get("ident") or 0) & THREAD_BITS, number)
    for of_one in operators:
        ident, nodes, events = of_one["ident"], of_one["nodes"], of_one["events"]
        thread = places.get(ident & THREAD_BITS)
        if thread is None or not len(events):
            continue
        time, node = events[:, 0], events[:, 1]
        cell = cell_of(time)
        paths = _paths(nodes)
        calls, host, own = _times(nodes, events, cell, raw.began)
        process: int | None = raw.threads[thread].get("process_id")
        for columns, at, of_thread in tables:
            mine = of_thread.get(thread, np.empty(0, np.int64))
            mine = mine[is_known(at[mine])]
            place = np.searchsorted(time, at[mine], side="right") - 1
            if not of_one["are_all"]:  # what came after the last that is known is not
                place[place == len(time) - 1] = -1
            found = np.where(place < 0, UNKNOWN, node[place])
            mine, found = mine[found != UNKNOWN], found[found != UNKNOWN]
            in_cell = np.asarray(columns["cell_id"])[mine].astype(np.int64)
            width = len(nodes)
            codes, which = np.unique((in_cell - UNKNOWN) * width + found, return_inverse=True)
            ids = np.empty(len(codes), np.int32)
            for number, code in enumerate(codes.tolist()):
                in_one, operator = code // width + UNKNOWN, code % width
                key = paths.keys[operator], in_one, process
                if key not in numbers:
                    numbers[key] = len(rows)
                    rows.append({"name": nodes[operator][1], "path": paths.text(operator), "calls": 0,
                                 "host_ns": 0, "own_ns": 0, "cell_id": None if in_one == UNKNOWN else in_one,
                                 "threads": set()})
                ids[number] = numbers[key]
                row = rows[numbers[key]]
                if (ident, operator) not in row["threads"]:
                    row["threads"].add((ident, operator))
                    row["calls"] += calls.get((operator, in_one), 0)
                    row["host_ns"] += host.get((operator, in_one), 0)
                    row["own_ns"] += own.get((operator, in_one), 0)
            columns["operator_id"][mine] = ids[which]
    for row in rows:
        del row["threads"]
    return {"operators": rows}


def _rows_by_thread(columns: Mapping[str, Any]) -> dict[int, Ints]:
    """The rows of each thread, in order."""
    threads = np.asarray(columns["thread_id"])
    order = np.argsort(threads, kind="stable")
    numbers, first = np.unique(threads[order], return_index=True)
    return dict(zip(numbers.tolist(), np.split(order, first[1:]), strict=True)) if len(order) else {}


def _submitted(columns: Mapping[str, Any]) -> Ints:
    """The middle of each submit, or of the launch where that is not known; unknown where neither is."""
    begun, ended = (np.asarray(columns[name]) for name in ("submit_start_ns", "submit_end_ns"))
    found = halfway(begun, ended)
    if "dispatch_end_ns" in columns:  # launches
        first, last = (np.asarray(columns[name]) for name in ("start_ns", "end_ns"))
        found = otherwise(found, halfway(first, last))
    return found


def _paths(nodes: Sequence[tuple[int, str]]) -> NamePaths:
    paths = NamePaths()
    for parent, name in nodes:
        paths.add(name, parent)
    return paths


_Sums = dict[tuple[int, int], int]


def _times(nodes: Sequence[tuple[int, str]], events: Ints, cell: Ints,
           began: int | None) -> tuple[_Sums, _Sums, _Sums]:
    """How often each operator was called in each cell, its time with what it calls, and without; by operator and cell.

    A call is of the cell that it began in. What of it was before `began` does not count.
    """
    time, node = events[:, 0], events[:, 1]
    parents = np.array([parent for parent, _ in nodes] or [UNKNOWN], np.int64)
    before = np.append(UNKNOWN, node[:-1])
    is_call = (node != UNKNOWN) & (parents[node] == before)
    if began is not None:
        is_call &= time >= began
        time = np.maximum(time, began)
    spent = np.append(np.diff(time), 0)
    width = len(nodes)
    key = (np.asarray(cell, np.int64) - UNKNOWN) * width + node
    inside = node != UNKNOWN
    codes, which = np.unique(key[inside], return_inverse=True)
    sums = (np.bincount(which, weights=is_call[inside], minlength=len(codes)).astype(np.int64),
            np.bincount(which, weights=spent[inside], minlength=len(codes)).astype(np.int64))
    keys = [(code % width, code // width + UNKNOWN) for code in codes.tolist()]
    calls, own = (dict(zip(keys, values.tolist(), strict=True)) for values in sums)
    host = dict(own)
    for operator, in_cell in sorted(keys, reverse=True):  # what is inside has the greater number
        parent = int(parents[operator])
        if parent != UNKNOWN:
            host[parent, in_cell] = host.get((parent, in_cell), 0) + host[operator, in_cell]
    return calls, host, own
