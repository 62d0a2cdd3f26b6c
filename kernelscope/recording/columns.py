"""Columns of numbers while a recording is put together: spans of time, rows of other tables, cells by time."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from kernelscope.schema import UNKNOWN


class Spans:
    """Spans in groups: the spans of one group may lie inside of each other and overlap.

    Parameters
    ----------
    group : ndarray of int64, shape (n,)
        What each belongs to, such as a thread's number or a stream's handle.
    start, end : ndarray of int64, shape (n,)
        When it began and ended; both belong to it.

    Attributes
    ----------
    groups : ndarray
        The distinct groups, in order.
    rows : ndarray of int64, shape (n,)
        The spans by group, and in a group by start: places are positions in here.
    """

    def __init__(self, group: np.ndarray, start: np.ndarray, end: np.ndarray) -> None:
        count = len(start)
        self.groups = np.unique(group)
        # Ranks instead of times, so that a group and a time fit into one number.
        self._starts, rank = _ranked(start)
        ends, end_rank = _ranked(end)
        number = np.searchsorted(self.groups, group).astype(np.int64)
        key = number * (count + 1) + rank
        self.rows = np.argsort(key)
        self._keys = key[self.rows]
        self._group = number[self.rows]
        self._end = end[self.rows]
        reach = np.maximum.accumulate(self._group * (count + 1) + end_rank[self.rows]) % (count + 1)
        # How far the spans of the group reach that began until here.
        self._reach = ends[reach - 1] if count else ends

    def place(self, group: np.ndarray, time: np.ndarray) -> np.ndarray:
        """Return the place of the group's latest span that had begun by then, -1 for none."""
        if not len(self._keys) or not len(time):
            return np.full(len(time), UNKNOWN)
        at = np.minimum(np.searchsorted(self.groups, group), len(self.groups) - 1)
        begun = np.searchsorted(self._starts, time, side="right")
        place = np.searchsorted(self._keys, at * (len(self._keys) + 1) + begun, side="right") - 1
        return np.where((self.groups[at] == group) & (place >= 0) & (self._group[place] == at), place, UNKNOWN)

    def before(self, group: np.ndarray, time: np.ndarray) -> np.ndarray:
        """Return the row of the group's latest span that had begun by then, -1 for none."""
        return self._rows_at(self.place(group, time))

    def around(self, group: np.ndarray, time: np.ndarray) -> np.ndarray:
        """Return the row of the group's span that the time lies in, of several the one that began last; -1 for none."""
        place = self.place(group, time)
        if not len(self._end):
            return place
        while True:
            over = np.flatnonzero((place != UNKNOWN) & (self._end[place] < time))
            if not len(over):
                return self._rows_at(place)
            # What began earlier may have lasted longer; where it reaches so far there is one before in the group.
            reaches = self._reach[place[over]] >= time[over]
            place[over] = np.where(reaches, place[over] - 1, UNKNOWN)

    def first(self, group: np.ndarray) -> np.ndarray:
        """Return the place of the group's first span, -1 for none."""
        if not len(self._keys):
            return np.full(len(group), UNKNOWN)
        at = np.minimum(np.searchsorted(self.groups, group), len(self.groups) - 1)
        return np.where(self.groups[at] == group, np.searchsorted(self._group, at), UNKNOWN)

    def following(self, place: np.ndarray) -> np.ndarray:
        """Return the place of the next span of the same group, -1 for none."""
        if not len(self._keys):
            return place
        after = np.minimum(place + 1, len(self._group) - 1)
        same = (place != UNKNOWN) & (after > place)
        return np.where(same & (self._group[after] == self._group[place]), after, UNKNOWN)

    def _rows_at(self, place: np.ndarray) -> np.ndarray:
        return np.where(place != UNKNOWN, self.rows[place], UNKNOWN) if len(self.rows) else place


def _ranked(times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The times in order, and for each its rank in it, from 1."""
    order = np.argsort(times, kind="stable")
    rank = np.empty(len(times), np.int64)
    rank[order] = np.arange(1, len(times) + 1)
    return times[order], rank


#: The bits of a thread's ident that CUPTI gives.
THREAD_BITS = 0xFFFFFFFF

Row = dict[str, Any]
Columns = dict[str, np.ndarray]


class Rows:
    """Rows of another table, of which -1 is none.

    Attributes
    ----------
    missing : ndarray of int64
        Where there is none.
    """

    def __init__(self, rows: np.ndarray) -> None:
        self._rows = rows
        self.missing = np.flatnonzero(rows == UNKNOWN)

    def of(self, values: np.ndarray, null: int = UNKNOWN) -> np.ndarray:
        """Return ``values[rows]``, and `null` where there is none."""
        if not len(values):
            return np.full(len(self._rows), null, values.dtype)
        found = values[self._rows]
        found[self.missing] = null
        return found


def taken(columns: Columns, rows: np.ndarray) -> Columns:
    """Return rows of all columns; those of one value stay what they are and take no memory."""
    return {name: values[rows] if any(values.strides) or not len(values) else np.broadcast_to(values[0], len(rows))
            for name, values in columns.items()}


def looked_up(rows: np.ndarray, tables: dict[str, np.ndarray]) -> Columns:
    """Return ``values[rows]`` of each table; where all that may be meant are the same, it takes no memory."""
    if not len(rows):
        return {name: values[:0] for name, values in tables.items()}
    first, last = int(rows.min()), int(rows.max()) + 1
    found = {name: np.broadcast_to(values[first], len(rows)) if (values[first:last] == values[first]).all() else
             np.empty(len(rows), values.dtype) for name, values in tables.items()}
    varied = [name for name, values in found.items() if any(values.strides)]
    for begin in range(0, len(rows) if varied else 0, _PART):
        part = slice(begin, begin + _PART)
        places = rows[part].astype(np.intp)
        for name in varied:
            tables[name].take(places, out=found[name][part], mode="clip")  # the mode that needs no buffer
    return found


#: Rows whose places stay in the processor's cache.
_PART = 1 << 15


#: What a site stands for: the host thread, the line of the user's code, the frame of the call path; -1 for none.
SITE = ("thread_id", "line_id", "stack_id")
#: The same of a call of the driver, whose thread is known otherwise.
CALL_SITE = SITE[1:]


def at_sites(site: np.ndarray, sites: Sequence[Row]) -> Columns:
    """Return the columns of `SITE` of what was done at places; `sites` has a row for each place."""
    return looked_up(site, {name: np.array([row[name] for row in sites], np.int32)
                            for name in SITE})


def none(count: int) -> np.ndarray:
    """Return a column of unknown ids, which takes no memory."""
    return np.broadcast_to(np.int32(UNKNOWN), count)


def distinct(values: np.ndarray) -> tuple[list[int], np.ndarray]:
    """Return the distinct values, and each row's place among them: by hashing, no sort."""
    if len(values) and (values == values[0]).all():
        return [int(values[0])], np.broadcast_to(np.int32(0), len(values))
    encoded = pa.array(values).dictionary_encode()
    return encoded.dictionary.to_pylist(), encoded.indices.to_numpy()


def mapped(values: np.ndarray, lookup: dict[int, int]) -> np.ndarray:
    """Return what `lookup` has for each value."""
    known, which = distinct(values)
    if len(known) == 1:
        return np.broadcast_to(np.int32(lookup[known[0]]), len(values))
    return np.array([lookup[value] for value in known], np.int32)[which] if len(values) else values


def words(codes: np.ndarray, texts: Sequence[str | None]) -> Any:
    """Return a category column from codes into `texts`, of which several may be the same; -1 and None are null."""
    used = np.zeros(len(texts) + 1, bool)
    if len(codes) and not any(codes.strides):
        used[codes[0]] = True
    else:
        used[codes] = True
    found: dict[str, int] = {}
    lookup = np.array([found.setdefault(text, len(found)) if is_used and text is not None else UNKNOWN
                       for text, is_used in zip(texts, used.tolist(), strict=False)] + [UNKNOWN], np.int32)
    indices = lookup[codes]
    missing = indices == UNKNOWN if used[-1] or None in texts else None
    return pa.DictionaryArray.from_arrays(
        pa.array(indices, pa.int32(), mask=missing), pa.array(list(found), pa.string()))


def thread_rows(idents: np.ndarray, threads: list[Row]) -> np.ndarray:
    """Return the threads' rows by the lower bits of their idents; those that are missing are added."""
    rows: dict[int, int] = {}
    for number, row in enumerate(threads):
        rows.setdefault((row.get("ident") or 0) & THREAD_BITS, number)
    found, which = distinct(idents)
    numbers: list[int] = []
    for ident in found:
        if ident not in rows:
            rows[ident] = len(threads)
            threads.append({"ident": ident, "name": None})
        numbers.append(rows[ident])
    return np.array(numbers, np.int32)[which]


def by_entry_name(specializations: Sequence[Row]) -> dict[str, int]:
    """Return the row of the specialization with each mangled name; -1 for a name that several have."""
    found: dict[str, int] = {}
    for number, row in enumerate(specializations):
        name = row.get("entry_name")
        if name:
            found[name] = UNKNOWN if name in found else number
    return found


def by_entry_and_threads(specializations: Sequence[Row]) -> dict[tuple[str, int], int]:
    """Return the row of Triton's specialization with each mangled name and number of threads a block.

    For names that several specializations of one kernel have, where the number tells these apart: torch's inductor
    tries configurations with different numbers of warps, and launches what it chose without Triton.
    """
    alike: dict[str, list[int]] = {}
    for number, row in enumerate(specializations):
        if row.get("entry_name"):
            alike.setdefault(row["entry_name"], []).append(number)
    found: dict[tuple[str, int], int] = {}
    for name, rows in alike.items():
        if len(rows) < 2 or len({specializations[row]["dispatcher_id"] for row in rows}) > 1:
            continue
        threads = [_triton_threads(specializations[row].get("attributes")) for row in rows]
        if None not in threads:
            found |= {(name, own): row for row, own in zip(rows, threads, strict=True)
                      if own is not None and threads.count(own) == 1}
    return found


def _triton_threads(attributes: str | None) -> int | None:
    options = json.loads(attributes or "{}").get("options")
    warps = options.get("num_warps") if isinstance(options, dict) else None
    return warps * _WARP if isinstance(warps, int) else None


_WARP = 32


def cell_finder(cells: Sequence[Row]) -> Any:
    """Return a function that gives for each time the cell that ran, -1 for none; faster for times `in_order`."""
    starts = np.array([row["start_ns"] for row in cells], np.int64)
    ends = np.array([row["end_ns"] for row in cells], np.int64)

    def cell_of(times: np.ndarray, *, in_order: bool = False) -> np.ndarray:
        if not len(starts):
            return none(len(times))
        if in_order:
            first = np.searchsorted(times, starts)
            last = np.minimum(np.searchsorted(times, ends, side="right"), np.append(first[1:], len(times)))
            every = np.flatnonzero((first == 0) & (last == len(times)))
            if len(every):
                return np.broadcast_to(every[-1:].astype(np.int32), len(times))
            found = np.full(len(times), UNKNOWN, np.int32)
            for cell, (begin, end) in enumerate(zip(first.tolist(), last.tolist(), strict=True)):
                found[begin:end] = cell
            return found
        found = (np.searchsorted(starts, times, side="right") - 1).astype(np.int32)
        found[(found < 0) | (times > ends[found])] = UNKNOWN
        return found

    return cell_of
