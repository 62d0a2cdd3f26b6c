"""Sets of intervals of time: union, complement, difference, and how much of other intervals they cover."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kernelscope.analysis.columns import Bools, Floats, Ints

_NONE = np.empty(0, dtype=np.int64)


@dataclass(frozen=True)
class Intervals:
    """Intervals in order of time, none of which touches the next: half-open, in nanoseconds of the host clock.

    Attributes
    ----------
    start, end : ndarray of int64, shape (n,)
        Each ``end`` is greater than its ``start`` and less than the next ``start``.
    """

    start: Ints
    end: Ints

    def __len__(self) -> int:
        """How many there are."""
        return len(self.start)

    @property
    def durations(self) -> Ints:
        """How long each is, in nanoseconds."""
        return self.end - self.start

    @cached_property
    def _sums(self) -> Ints:
        """How much is covered up to the end of each."""
        return np.cumsum(self.durations)

    @cached_property
    def _steps(self) -> tuple[Floats, Floats]:
        """All edges, from the first one on, and how much is covered up to each."""
        edges, sums = np.empty(2 * len(self)), np.empty(2 * len(self))
        edges[0::2], edges[1::2] = self.start - self.start[0], self.end - self.start[0]
        sums[0::2], sums[1::2] = self._sums - self.durations, self._sums
        return edges, sums

    @property
    def total_ns(self) -> int:
        """How long all are together."""
        return int(self.durations.sum())

    @property
    def span(self) -> Intervals:
        """The one interval from the first start to the last end; none of none."""
        return Intervals(self.start[:1], self.end[-1:])

    def covered(self, times: Ints) -> Floats:
        """Return how much of the time before each of `times` is covered: whole nanoseconds, exact up to 2**53."""
        if not len(self):
            return np.zeros(len(times))
        if len(times) * 8 < len(self):
            found = np.searchsorted(self.start, times, side="right") - 1
            inside = np.minimum(times, self.end[found]) - self.end[found]
            return np.where(found >= 0, self._sums[found] + inside, 0).astype(np.float64)
        # Between two edges the slope is exactly 0 or 1. With sorted times this is faster than a binary search.
        return np.interp(times - self.start[0], *self._steps)

    def common(self, start: Ints, end: Ints) -> Floats:
        """Return how much of each interval from `start` to `end` (which may overlap) is covered, in nanoseconds."""
        return self.covered(end) - self.covered(start)

    def common_ns(self, other: Intervals) -> int:
        """Return how much time is in this set and in the other."""
        if len(other) > len(self):
            return other.common_ns(self)
        return round(float(self.common(other.start, other.end).sum()))

    def complement(self, begin: int, end: int) -> Intervals:
        """Return what is in no interval, from `begin` to `end`."""
        start = np.concatenate((np.array([begin], dtype=np.int64), self.end))
        until = np.concatenate((self.start, np.array([end], dtype=np.int64)))
        start, until = np.clip(start, begin, end), np.clip(until, begin, end)
        keep = start < until
        return Intervals(start[keep], until[keep])

    def between(self) -> Intervals:
        """Return what is between the intervals."""
        return Intervals(self.end[:-1], self.start[1:])

    def within(self, other: Intervals) -> Intervals:
        """Return what is in this set and in the other."""
        starts = np.concatenate((
            self.start[_holds(other, self.start)], other.start[_holds(self, other.start, inside=True)],
        ))
        ends = np.concatenate((
            self.end[_holds_end(other, self.end)], other.end[_holds_end(self, other.end, inside=True)],
        ))
        starts.sort(kind="stable")
        ends.sort(kind="stable")
        return Intervals(starts, ends)

    def minus(self, other: Intervals) -> Intervals:
        """Return what is in this set and not in the other."""
        if not len(self) or not len(other):
            return self
        other = _touching(other, self)
        begin, end = int(self.start[0]), int(self.end[-1])
        return self.within(other.complement(begin, end))


def union(start: Ints, end: Ints) -> Intervals:
    """Return the union of intervals in any order, which may overlap and touch; those of no time are in none."""
    lasting = start < end
    if not lasting.all():
        start, end = start[lasting], end[lasting]
    if not len(start):
        return Intervals(_NONE, _NONE)
    if bool((start[1:] < start[:-1]).any()):
        order = np.argsort(start, kind="stable")
        start, end = start[order], end[order]
    reach = end if bool((end[1:] >= end[:-1]).all()) else np.maximum.accumulate(end)
    apart = start[1:] > reach[:-1]
    if apart.all():
        return Intervals(start, reach)
    first = np.flatnonzero(np.concatenate(([True], apart)))
    last = np.concatenate((first[1:], [len(start)])) - 1
    return Intervals(start[first], reach[last])


def joined(*sets: Intervals) -> Intervals:
    """Return what is in any of the sets."""
    kept = [each for each in sets if len(each)]
    if len(kept) == 1:
        return kept[0]
    return union(*(np.concatenate([getattr(each, name) for each in kept] or [_NONE]) for name in ("start", "end")))


def _holds(holder: Intervals, times: Ints, *, inside: bool = False) -> Bools:
    """Whether each time is in an interval; `inside`: and not its start."""
    if not len(holder):
        return np.zeros(len(times), dtype=np.bool_)
    found = np.searchsorted(holder.start, times, side="left" if inside else "right") - 1
    return (found >= 0) & (times < holder.end[found])


def _holds_end(holder: Intervals, times: Ints, *, inside: bool = False) -> Bools:
    """Whether an interval that ends at each time is in one up to its end; `inside`: and its end is later."""
    if not len(holder):
        return np.zeros(len(times), dtype=np.bool_)
    found = np.searchsorted(holder.start, times, side="left") - 1
    until = holder.end[found]
    return (found >= 0) & ((times < until) if inside else (times <= until))


def _touching(many: Intervals, few: Intervals) -> Intervals:
    """Those of `many` that have time in common with any of `few`, or all of them where few is not much less."""
    if len(few) * 8 > len(many):
        return many
    first = np.searchsorted(many.end, few.start, side="right")
    last = np.searchsorted(many.start, few.end, side="left")
    first[1:] = np.maximum(first[1:], last[:-1])
    counts = np.maximum(last - first, 0)
    rows = np.repeat(first - (np.cumsum(counts) - counts), counts) + np.arange(int(counts.sum()))
    return Intervals(many.start[rows], many.end[rows])
