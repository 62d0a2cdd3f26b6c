"""Which of PyTorch's operators launched what: the operator that the launching thread was in, by time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kernelscope.recording.columns import THREAD_BITS, Row, cell_finder
from kernelscope.recording.paths import NamePaths
from kernelscope.recording.time import halfway, is_known, otherwise
from kernelscope.schema import UNKNOWN

Ints = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True)
class ThreadOperators:
    """The operators of one thread.

    Attributes
    ----------
    ident : int
        The thread's.
    nodes : sequence of (int, str)
        Operators: the number of the one around each, smaller than its own, -1 for none; and its name.
    events : ndarray of int64, shape (n, 2)
        Instants in order, and the operator that the thread is in from then on, -1 for none.
    """

    ident: int
    nodes: Sequence[tuple[int, str]]
    events: Ints


@dataclass(frozen=True)
class RawOperators:
    """What was recorded of operators.

    Attributes
    ----------
    threads : list of ThreadOperators
        Those of all threads.
    began : int or None
        Since when they count: of a recording inside another one; None for all.
    are_all : bool
        Whether none is missing.
    """

    threads: list[ThreadOperators] = field(default_factory=list)
    began: int | None = None
    are_all: bool = True

    @classmethod
    def from_rows(cls, rows: Sequence[tuple[int, Sequence[tuple[int, str]], bytes]], began: int | None,
                  are_all: bool) -> RawOperators:
        """Return what `kernelscope.native._core.Operators` has."""
        return cls([ThreadOperators(ident, nodes, np.frombuffer(events, np.int64).reshape(-1, 2))
                    for ident, nodes, events in rows], began, are_all)


def add_operators(launches: dict[str, Any], activities: dict[str, Any], raw: RawOperators, threads: Sequence[Row],
                  cells: Sequence[Row]) -> list[Row]:
    """Give launches and activities the operator that was innermost on their thread when they were submitted.

    Returns the rows of ``operators``: those that launches and activities name, one for each process and cell that they
    ran in.

    Parameters
    ----------
    launches, activities : dict of str to array
        Columns, to which ``operator_id`` is added.
    raw : RawOperators
        The operators.
    threads, cells : sequence of dict
        Rows of the tables of that name.
    """
    rows: list[Row] = []
    numbers: dict[tuple[bytes, int, int | None], int] = {}
    if not raw.threads:
        return rows
    tables = [(columns, _submitted(columns), _rows_by_thread(columns)) for columns in (launches, activities) if columns]
    for columns, at, _ in tables:
        columns["operator_id"] = np.full(len(at), UNKNOWN, np.int32)
    cell_of = cell_finder(cells)
    places: dict[int, int] = {}
    for number, row in enumerate(threads):  # of a thread that Python does not know, CUPTI has the lower bits only
        places.setdefault((row.get("ident") or 0) & THREAD_BITS, number)
    for each in raw.threads:
        thread = places.get(each.ident & THREAD_BITS)
        if thread is None or not len(each.events):
            continue
        time, node = each.events[:, 0], each.events[:, 1]
        cell = cell_of(time)
        paths = _paths(each.nodes)
        calls, host, own = _times(each, cell, raw.began)
        process: int | None = threads[thread].get("process_id")
        for columns, at, of_thread in tables:
            mine = of_thread.get(thread, np.empty(0, np.int64))
            mine = mine[is_known(at[mine])]
            place = np.searchsorted(time, at[mine], side="right") - 1
            if not raw.are_all:  # what came after the last that is known is not
                place[place == len(time) - 1] = -1
            found = np.where(place < 0, UNKNOWN, node[place])
            mine, found = mine[found != UNKNOWN], found[found != UNKNOWN]
            in_cell = np.asarray(columns["cell_id"])[mine].astype(np.int64)
            width = len(each.nodes)
            codes, which = np.unique((in_cell - UNKNOWN) * width + found, return_inverse=True)
            ids = np.empty(len(codes), np.int32)
            for number, code in enumerate(codes.tolist()):
                in_one, operator = code // width + UNKNOWN, code % width
                key = paths.keys[operator], in_one, process
                if key not in numbers:
                    numbers[key] = len(rows)
                    rows.append({"name": each.nodes[operator][1], "path": paths.text(operator), "calls": 0,
                                 "host_ns": 0, "own_ns": 0, "cell_id": None if in_one == UNKNOWN else in_one,
                                 "threads": set()})
                ids[number] = numbers[key]
                row = rows[numbers[key]]
                if (each.ident, operator) not in row["threads"]:
                    row["threads"].add((each.ident, operator))
                    row["calls"] += calls.get((operator, in_one), 0)
                    row["host_ns"] += host.get((operator, in_one), 0)
                    row["own_ns"] += own.get((operator, in_one), 0)
            columns["operator_id"][mine] = ids[which]
    for row in rows:
        del row["threads"]
    return rows


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


def _times(each: ThreadOperators, cell: Ints, began: int | None) -> tuple[_Sums, _Sums, _Sums]:
    """How often each operator was called in each cell, its time with what it calls, and without; by operator and cell.

    A call is of the cell that it began in. What of it was before `began` does not count.
    """
    time, node = each.events[:, 0], each.events[:, 1]
    parents = np.array([parent for parent, _ in each.nodes] or [UNKNOWN], np.int64)
    before = np.append(UNKNOWN, node[:-1])
    is_call = (node != UNKNOWN) & (parents[node] == before)
    if began is not None:
        is_call &= time >= began
        time = np.maximum(time, began)
    spent = np.append(np.diff(time), 0)
    width = len(each.nodes)
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
