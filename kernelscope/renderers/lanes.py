"""Lanes of slices: the form in which trace files draw a recording, before any file format.

A lane is one row of one track. Its slices either stand one behind the other, each with parts inside it (a launch with
its phases), or they nest (ranges, cells, compiles). What overlaps otherwise is put into further rows, because trace
viewers nest whatever overlaps on one row. Everything is a column, so that a million slices cost no Python objects.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from kernelscope.analysis.columns import Bools, Ints
from kernelscope.schema import UNKNOWN

#: The end of a slice that was still open when recording ended.
OPEN = int(np.iinfo(np.int64).max)

#: What a slice is annotated with.
Arguments = Mapping[str, "str | int | float"]


@dataclass(frozen=True)
class Track:
    """A line of the viewer, or a group of lines.

    Attributes
    ----------
    path : tuple of str
        Keys from the outermost group to this track, each unique in its group.
    name : str
        What is shown.
    rank : int
        Its place among its siblings.
    about : str
        A sentence more about it.
    """

    path: tuple[str, ...]
    name: str
    rank: int = 0
    about: str = ""


@dataclass(frozen=True)
class Words:
    """A column of few distinct values: a code a slice, -1 for none, and what each code stands for."""

    codes: Ints
    values: list[str]

    def take(self, which: Ints | slice) -> Words:
        """Return the column of the slices `which`."""
        return Words(self.codes[which], self.values)


@dataclass(frozen=True)
class Part:
    """One part of every slice of a lane, such as a phase: it lies inside the slice, behind the part before it.

    Attributes
    ----------
    name : str
        What it is called.
    start, end : ndarray of int64
        One value a slice, in nanoseconds; -1 where the slice has no such part.
    inner : Part or None
        A part inside this one.
    """

    name: str
    start: Ints
    end: Ints
    inner: Part | None = None

    def take(self, which: Ints | slice) -> Part:
        """Return the part of the slices `which`."""
        inner = None if self.inner is None else self.inner.take(which)
        return Part(self.name, self.start[which], self.end[which], inner)


@dataclass(frozen=True)
class Slices:
    """Slices by column; all arrays have one value a slice.

    Attributes
    ----------
    start, end : ndarray of int64
        Nanoseconds of the host clock. `end` is `OPEN` where the slice was never closed, and less than `start` for an
        instant.
    names, categories : Words
        What they are called, and of what kind they are.
    details : Words or None
        Codes of `described`.
    described : callable
        Gives the arguments for a code of `details`.
    numbers : mapping of str to ndarray of int64
        Arguments that differ from slice to slice; -1 where a slice has none.
    flow_out, flow_in : ndarray of int64 or None
        Number of the arrow that begins or ends at the slice; 0 for none.
    parts : tuple of Part
        What is inside each slice, in order; only for slices that do not nest.
    """

    start: Ints
    end: Ints
    names: Words
    categories: Words
    details: Words | None = None
    described: Callable[[int], Arguments] = lambda code: {}
    numbers: Mapping[str, Ints] = field(default_factory=dict[str, Ints])
    flow_out: Ints | None = None
    flow_in: Ints | None = None
    parts: tuple[Part, ...] = ()

    def __len__(self) -> int:
        return len(self.start)

    def take(self, which: Ints | slice) -> Slices:
        """Return the slices `which`, in that order; for a `slice` without a copy."""
        return replace(
            self, start=self.start[which], end=self.end[which], names=self.names.take(which),
            categories=self.categories.take(which), details=None if self.details is None else self.details.take(which),
            numbers={name: values[which] for name, values in self.numbers.items()},
            flow_out=None if self.flow_out is None else self.flow_out[which],
            flow_in=None if self.flow_in is None else self.flow_in[which],
            parts=tuple(part.take(which) for part in self.parts),
        )


@dataclass(frozen=True)
class Lane:
    """One row of one track.

    Attributes
    ----------
    track : Track
        Where it is drawn.
    slices : Slices
        In order of start; of those that start together the longest first.
    nested : bool
        Whether slices lie inside each other. Otherwise each starts when the one before it has ended.
    """

    track: Track
    slices: Slices
    nested: bool = False

    def events(self) -> tuple[Ints, Bools]:
        """Return which slice begins or ends at each event of a nested lane, in order, and whether it ends.

        Instants and slices that are still open have no end.
        """
        return _nested_events(self.slices.start.tolist(), self.slices.end.tolist())


def rows(track: Track, slices: Slices, *, nested: bool = False) -> list[Lane]:
    """Return the lanes that the slices need so that none overlaps another in a way that its lane does not allow."""
    if not len(slices):
        return []
    length = np.where(slices.end < slices.start, 0, slices.end - slices.start)
    # Most tables are in order already, and a copy of a million slices takes a while.
    step = np.diff(slices.start)
    if bool(((step < 0) | ((step == 0) & (np.diff(length) > 0))).any()):
        slices = slices.take(np.lexsort((-length, slices.start)))
    row = _nesting_rows(slices) if nested else _flat_rows(slices)
    count = int(row.max()) + 1
    if count == 1:
        return [Lane(track, slices, nested)]
    return [
        Lane(
            replace(track, path=(*track.path[:-1], f"{track.path[-1]}#{at}"),
                    name=track.name if at == 0 else f"{track.name} ({at + 1})"),
            slices.take(np.flatnonzero(row == at)), nested)
        for at in range(count)
    ]


def words(values: Sequence[str | None]) -> Words:
    """Return a column of text by codes."""
    known: dict[str, int] = {}
    codes = [UNKNOWN if value is None else known.setdefault(value, len(known)) for value in values]
    return Words(np.array(codes, dtype=np.int64), list(known))


def always(word: str, count: int) -> Words:
    """Return a column that has the same word everywhere."""
    return Words(np.zeros(count, dtype=np.int64), [word])


def combinations(*columns: Ints) -> tuple[Ints, Ints]:
    """Return a code for each row's combination of values (-1 or more each), and the distinct combinations as rows."""
    keys = np.zeros(len(columns[0]), dtype=np.int64)
    size = 1
    for column in columns:
        width = int(column.max(initial=UNKNOWN)) + 2
        if size > np.iinfo(np.int64).max // max(width, 1):
            distinct, keys = np.unique(keys, return_inverse=True)
            size = len(distinct)
        keys = keys * width + (column + 1)
        size *= width
    _, first, codes = np.unique(keys, return_index=True, return_inverse=True)
    return codes.astype(np.int64), np.stack([column[first] for column in columns], axis=1)


def _flat_rows(slices: Slices) -> Ints:
    """The row of each slice, so that no two slices of a row overlap; most lanes need one."""
    start, end = slices.start, np.maximum(slices.start, slices.end)
    result = np.zeros(len(start), dtype=np.int64)
    if bool((start[1:] >= end[:-1]).all()):
        return result
    busy: list[tuple[int, int]] = []  # until when, and which row
    free: list[int] = []
    for at, (begun, ended) in enumerate(zip(start.tolist(), end.tolist(), strict=True)):
        while busy and busy[0][0] <= begun:
            heapq.heappush(free, heapq.heappop(busy)[1])
        row = heapq.heappop(free) if free else len(busy)
        heapq.heappush(busy, (ended, row))
        result[at] = row
    return result


def _nesting_rows(slices: Slices) -> Ints:
    """The row of each slice, so that two slices of a row lie inside each other or apart."""
    stacks: list[list[int]] = []
    result: list[int] = []
    ends = np.maximum(slices.start, slices.end)
    for begun, ended in zip(slices.start.tolist(), ends.tolist(), strict=True):
        row = 0
        while row < len(stacks) and not _fits(stacks[row], begun, ended):
            row += 1
        if row == len(stacks):
            stacks.append([])
        stacks[row].append(ended)
        result.append(row)
    return np.array(result, dtype=np.int64)


def _fits(stack: list[int], begun: int, ended: int) -> bool:
    """Whether a slice is inside the innermost open one of a row, after those that have ended are taken off it."""
    while stack and stack[-1] <= begun:
        stack.pop()
    return not stack or ended <= stack[-1]


def _nested_events(starts: list[int], ends: list[int]) -> tuple[Ints, Bools]:
    which: list[int] = []
    closes: list[bool] = []
    stack: list[tuple[int, int]] = []

    def close_until(time: int) -> None:
        while stack and stack[-1][0] <= time:
            which.append(stack.pop()[1])
            closes.append(True)

    for at, (start, end) in enumerate(zip(starts, ends, strict=True)):
        close_until(start)
        which.append(at)
        closes.append(False)
        if end >= start:
            stack.append((end, at))
    close_until(OPEN - 1)
    return np.array(which, dtype=np.int64), np.array(closes, dtype=np.bool_)
