"""Instants, of which some are unknown: what stands for an unknown one, and what lies between two of them.

An instant can be any number of nanoseconds, below zero too: those of a recording that was merged with one whose host
clock began later. A table has null for an unknown one. Columns of NumPy have `UNKNOWN_INSTANT`, which no table may
hold; it is in order before all instants, and nothing is added to it or subtracted from it: durations are made here.
A duration is never below zero, so that an unknown one is `kernelscope.schema.UNKNOWN`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelscope.schema import INSTANTS, UNKNOWN

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

#: What stands for an unknown instant in a column of NumPy.
UNKNOWN_INSTANT = int(np.iinfo(np.int64).min)
#: The end of what has no known end.
FOREVER = int(np.iinfo(np.int64).max)


def instants(column: Any) -> Ints:
    """Return a column of instants of a table (Arrow, int64), with `UNKNOWN_INSTANT` for null: not to be written to."""
    if column.null_count == len(column):
        return np.broadcast_to(np.int64(UNKNOWN_INSTANT), (len(column),))
    return (column.fill_null(UNKNOWN_INSTANT) if column.null_count else column).to_numpy()


def recorded(times: Ints) -> Ints:
    """Return instants as a recorder, a journal or another tool's trace has them: -1 is unknown, none is below zero."""
    if not len(times) or times.min() >= 0:  # most columns have none, and to find that makes no array
        return times
    if not any(times.strides):  # one value, which takes no memory
        return np.broadcast_to(np.int64(UNKNOWN_INSTANT), len(times))
    return np.where(times == UNKNOWN, UNKNOWN_INSTANT, times)


def null_of(column: str) -> int:
    """Return what stands for null in a column of whole numbers of that name."""
    return UNKNOWN_INSTANT if column in INSTANTS else UNKNOWN


def masked(column: Any) -> tuple[Ints, Bools]:
    """Return `instants` of a column of a table, and which of them are known; of one without nulls none is looked at."""
    times = instants(column)
    return times, is_known(times) if column.null_count else np.ones(len(times), dtype=np.bool_)


def is_known(*times: Ints) -> Bools:
    """Return where all of some columns are known."""
    known: Bools = times[0] != UNKNOWN_INSTANT
    for each in times[1:]:
        known &= each != UNKNOWN_INSTANT
    return known


def instant_or_none(time: int) -> int | None:
    """Return an instant as a row of a table has it: None for an unknown one."""
    return None if time == UNKNOWN_INSTANT else time


def otherwise(times: Ints, others: Ints | int) -> Ints:
    """Return the instants, and in the place of those that are unknown the others."""
    unknown = times == UNKNOWN_INSTANT
    return np.where(unknown, others, times) if unknown.any() else times


def duration_ns(start: Ints, end: Ints) -> Ints:
    """Return the time from each start to its end, in nanoseconds.

    It is `kernelscope.schema.UNKNOWN` where one of the two is unknown, and where the end comes before the start: a
    clock went back.
    """
    return _but(end - start, (start == UNKNOWN_INSTANT) | (end < start))  # an unknown end comes before every start


def delay_ns(cause: Ints, effect: Ints) -> Ints:
    """Return how long after its cause each effect began, in nanoseconds: 0 where it began before the cause was over.

    It is `kernelscope.schema.UNKNOWN` where one of the two is unknown.
    """
    waited = effect - cause
    np.maximum(waited, 0, out=waited)
    return _but(waited, (cause == UNKNOWN_INSTANT) | (effect == UNKNOWN_INSTANT))


def halfway(start: Ints, end: Ints) -> Ints:
    """Return the instants halfway between two, and the start where the end is unknown."""
    return np.where(is_known(start, end), start + (end - start) // 2, start)


def _but(times: Ints, unknown: Bools) -> Ints:
    """Return durations, of which some are unknown."""
    if unknown.any():  # most often none is
        times[unknown] = UNKNOWN
    return times


def row_duration_ns(row: Mapping[str, Any], start: str = "start_ns", end: str = "end_ns") -> int | None:
    """Return the time between two instants of a row of a table, in nanoseconds: None where one of them is null.

    It is 0 where the end comes before the start.
    """
    return None if row[start] is None or row[end] is None else max(int(row[end] - row[start]), 0)


def row_end_ns(row: Mapping[str, Any]) -> int:
    """Return the end of what a row of a table tells of, or its start where the end is unknown."""
    return row["start_ns"] if row["end_ns"] is None else row["end_ns"]
