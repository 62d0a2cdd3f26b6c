"""Spans of time by thread, stream or graph, and which of them a time lies in; vectorized."""

from __future__ import annotations

import numpy as np

from kernelscope.schema import UNKNOWN

#: The end of what has no known end.
FOREVER = np.iinfo(np.int64).max


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
