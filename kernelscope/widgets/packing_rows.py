"""Rows for intervals: overlapping ones below one another, as few rows as it takes."""

from __future__ import annotations

import heapq

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
#: What overlaps more deeply shares the last row.
MOST_ROWS = 32


def rows_of(start: Ints, end: Ints) -> tuple[Ints, int]:
    """Return the row of each interval, and how many rows there are.

    Intervals inside others come below them; those that do not overlap share a row.

    Parameters
    ----------
    start, end : ndarray of int64, shape (n,)
        In order of start. An end before its start counts as the start.

    Returns
    -------
    ndarray of int64, shape (n,), and int
        Rows from 0, below `MOST_ROWS`.
    """
    row = np.zeros(len(start), dtype=np.int64)
    if not len(start):
        return row, 0
    end = np.maximum(start, end)
    if bool((start[1:] >= end[:-1]).all()):
        return row, 1
    left = np.arange(len(start))
    depth = 0
    # One row a round: what begins after all before it has ended. Right for what is nested, which is most of all.
    while depth < MOST_ROWS:
        reach = np.maximum.accumulate(end[left])
        free = np.ones(len(left), dtype=np.bool_)
        free[1:] = start[left[1:]] >= reach[:-1]
        row[left[free]] = depth
        left = left[~free]
        depth += 1
        if not len(left):
            break
    if depth > 1 and (len(left) or depth > _concurrency(start, end)):
        row = _greedy(start, end)
        depth = int(row.max()) + 1
    return row, depth


def numbered(*columns: Ints) -> tuple[list[tuple[int, ...]], Ints]:
    """Return the distinct rows of some columns, in order, and the number of each row among them.

    As `numpy.unique` of rows, but quick where a column is all one value.
    """
    if not len(columns[0]):
        return [], np.empty(0, dtype=np.int64)
    whole = np.zeros(len(columns[0]), dtype=np.int64)
    found: list[tuple[int, ...]] = [()]
    for column in columns:
        least, most = int(column.min()), int(column.max())
        if least == most:
            found = [(*each, least) for each in found]
            continue
        values, inverse = np.unique(column, return_inverse=True)
        keys, whole = np.unique(whole * len(values) + inverse.reshape(-1), return_inverse=True)
        found = [(*found[key // len(values)], int(values[key % len(values)])) for key in keys.tolist()]
    return found, whole.reshape(-1)


def ranked(codes: Ints, spent: Ints, count: int) -> tuple[Ints, Ints]:
    """Return codes by the time that they took, which took most is 0, and the old code of each new one.

    Kernels get their colors by that, in the timeline and in its picture.

    Parameters
    ----------
    codes : ndarray of int64, shape (n,)
        Below `count`; -1 for none, which stays.
    spent : ndarray of int64, shape (n,)
        Nanoseconds; what is not to count has 0.
    count : int
        How many codes there are.
    """
    total = np.bincount(codes + 1, weights=spent, minlength=count + 1)[1:]
    order = np.argsort(-total, kind="stable")
    rank = np.full(count + 1, -1, dtype=np.int64)
    rank[order] = np.arange(count)
    return rank[codes], order


def _concurrency(start: Ints, end: Ints) -> int:
    """How many intervals are open at once, at most."""
    times = np.concatenate((end, start))
    change = np.repeat(np.array([-1, 1]), len(start))
    # At one instant ends come first; an empty interval is open nowhere then, but takes a row.
    order = np.argsort(times, kind="stable")
    return max(1, int(np.cumsum(change[order]).max()))


def _greedy(start: Ints, end: Ints) -> Ints:
    """The first free row for each, in order of start."""
    row = np.zeros(len(start), dtype=np.int64)
    busy: list[tuple[int, int]] = []
    free: list[int] = []
    rows = 0
    for at, (begin, finish) in enumerate(zip(start.tolist(), end.tolist(), strict=True)):
        while busy and busy[0][0] <= begin:
            heapq.heappush(free, heapq.heappop(busy)[1])
        if free:
            chosen = heapq.heappop(free)
        else:
            chosen = rows
            rows += 1
        row[at] = chosen
        heapq.heappush(busy, (finish, chosen))
    return np.minimum(row, MOST_ROWS - 1)
