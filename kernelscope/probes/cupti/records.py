"""CUPTI's activity buffers as NumPy arrays: which records they hold, and the fields that are read of each kind.

A buffer is one record after another, of several kinds and so of several sizes. How large the records of a kind are
differs between versions of CUPTI, which add fields at the end; so the size of a kind is asked of CUPTI when the first
record of it is met. Source of the layouts: ``cupti_activity.h`` of CUDA 12.0 to 13.5; the fields that are read stand
where they stood in 12.0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
from numpy.lib.stride_tricks import as_strided

MEMCPY, MEMSET, DRIVER, RUNTIME, KERNEL, MARKER, MARKER_DATA, MEMCPY_PEER, SYNCHRONIZATION = (
    1, 2, 4, 5, 10, 12, 13, 22, 38)

#: Of each kind the fields that are read: name, dtype, offset in bytes. What has all bits set is then -1, as unknown.
FIELDS: dict[int, list[tuple[str, str, int]]] = {
    KERNEL: [
        ("regs", "u2", 6), ("start", "u8", 16), ("end", "u8", 24), ("device", "i4", 40),
        ("stream", "i4", 48),
        ("grid_x", "i4", 52), ("grid_y", "i4", 56), ("grid_z", "i4", 60),
        ("block_x", "i4", 64), ("block_y", "i4", 68), ("block_z", "i4", 72), ("dynamic_shared", "i4", 80),
        ("correlation", "u4", 92), ("name", "u8", 104), ("graph_node", "u8", 144), ("graph", "u4", 156),
        ("cluster_x", "u4", 176), ("cluster_y", "u4", 180), ("cluster_z", "u4", 184),
    ],
    MEMCPY: [
        ("direction", "u1", 4), ("source", "u1", 5), ("target", "u1", 6), ("bytes", "u8", 8), ("start", "u8", 16),
        ("end", "u8", 24), ("device", "i4", 32), ("stream", "i4", 40), ("correlation", "u4", 44),
        ("graph_node", "u8", 64), ("graph", "u4", 72),
    ],
    MEMCPY_PEER: [
        ("direction", "u1", 4), ("source", "u1", 5), ("target", "u1", 6), ("bytes", "u8", 8), ("start", "u8", 16),
        ("end", "u8", 24), ("device", "i4", 32), ("stream", "i4", 40), ("correlation", "u4", 60),
        ("graph_node", "u8", 72), ("graph", "u4", 80),
    ],
    MEMSET: [
        ("bytes", "u8", 8), ("start", "u8", 16), ("end", "u8", 24), ("device", "i4", 32),
        ("stream", "i4", 40), ("correlation", "u4", 44), ("target", "u2", 50), ("graph_node", "u8", 64),
        ("graph", "u4", 72),
    ],
    SYNCHRONIZATION: [
        ("type", "i4", 4), ("start", "u8", 8), ("end", "u8", 16), ("correlation", "u4", 24),
        ("stream", "i4", 32),
    ],
    DRIVER: [
        ("function", "i4", 4), ("start", "u8", 8), ("end", "u8", 16), ("thread", "u4", 28), ("correlation", "u4", 32),
        ("result", "i4", 36),
    ],
    MARKER: [
        ("flags", "i4", 4), ("timestamp", "u8", 8), ("id", "u4", 16), ("thread", "u4", 28),
        ("name", "u8", 40), ("domain", "u8", 48),
    ],
    MARKER_DATA: [("id", "u4", 8), ("color", "u4", 24), ("category", "u4", 28)],
}
FIELDS[RUNTIME] = FIELDS[DRIVER]

#: The fields of a kernel that are its launch configuration.
SHAPE = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "cluster_x", "cluster_y", "cluster_z",
         "dynamic_shared")

#: The least size of a record, in bytes: what is read of it must lie inside.
_LEAST = {kind: max(offset + int(dtype[1:]) for _, dtype, offset in fields) for kind, fields in FIELDS.items()}
_KINDS = 128
#: The least that a record has, in bytes; less than that at a buffer's end is none.
_HEAD = 8
#: Records that are looked at before a pattern is seen, repetitions that are tried first, and records read at once.
_WINDOW, _FEW, _PART = 24, 16, 4096

#: Asks CUPTI for the size in bytes of the record at an offset of the arena, given where its buffer's records end.
SizeOf = Callable[[int, int], int]


class Sizes:
    """The sizes of records in bytes, by kind; learnt when a kind is first met."""

    def __init__(self) -> None:
        self.by_kind = np.zeros(_KINDS, np.int64)

    def learn(self, kind: int, size: int) -> None:
        """Remember one; raises `ValueError` where it cannot be right."""
        if not 0 <= kind < _KINDS:
            raise ValueError(f"an activity record has kind {kind}, which no CUPTI has")
        if size < _LEAST.get(kind, _HEAD) or size % 8:
            raise ValueError(f"an activity record of kind {kind} has {size} bytes: at least {_LEAST.get(kind, _HEAD)}, "
                             "and a multiple of 8, were expected")
        self.by_kind[kind] = size


def positions(arena: np.ndarray, starts: np.ndarray, ends: np.ndarray, sizes: Sizes,
              size_of: SizeOf) -> tuple[dict[int, np.ndarray], str | None]:
    """Return the offsets of all records by kind, buffer after buffer, and what was wrong with the first bad one.

    What follows a record that makes no sense in its buffer is left out.

    Parameters
    ----------
    arena : ndarray of uint8
        What all buffers lie in; its start and all offsets are multiples of 8.
    starts, ends : ndarray of int64
        Where each buffer's records start and end.
    sizes : Sizes
        Sizes that are known; those that are met for the first time are added.
    size_of : callable
        CUPTI's own answer for one record; raises `ValueError` where it has none.
    """
    walk = _Walk(arena, sizes, size_of)
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        walk.buffer(start, end)
    return {kind: np.concatenate(parts) for kind, parts in walk.at.items()}, walk.problem


class _Walk:
    """Goes from record to record; where their kinds repeat themselves it looks at many at once.

    That is exact: a record of a known kind ends where the next one starts, so that as long as the kinds are those of
    the pattern, the pattern's places are the records' places.
    """

    def __init__(self, arena: np.ndarray, sizes: Sizes, size_of: SizeOf) -> None:
        self.at: dict[int, list[np.ndarray]] = {}
        self.problem: str | None = None
        self._all_kinds = arena.view(np.int32)
        self._kinds: Any = memoryview(cast(Any, self._all_kinds))
        self._sizes = sizes
        self._size_of = size_of
        self._known: list[int] = sizes.by_kind.tolist()

    def buffer(self, at: int, end: int) -> None:
        """Find the records between two offsets."""
        while end - at >= _HEAD:
            places, kinds, following = self._step(at, end)
            for kind in set(kinds):
                self._add(kind, np.array([place for place, other in zip(places, kinds, strict=True) if other == kind],
                                         np.int64))
            if len(places) < _WINDOW:
                return
            period = _period(kinds)
            at = self._repeat(places[-period:], kinds[-period:], following, end) if period else following

    def _step(self, at: int, end: int) -> tuple[list[int], list[int], int]:
        """A window's records one by one: fewer where the buffer ends, or the next makes no sense."""
        places: list[int] = []
        kinds: list[int] = []
        while len(places) < _WINDOW and end - at >= _HEAD:
            kind = self._kinds[at >> 2]
            size = self._known[kind] if 0 <= kind < _KINDS else 0
            if not size:
                try:
                    self._sizes.learn(kind, self._size_of(at, end))
                except ValueError as error:
                    self.problem = self.problem or str(error)
                    break
                self._known = self._sizes.by_kind.tolist()
                size = self._known[kind]
            if at + size > end:
                self.problem = self.problem or f"a record of kind {kind} reaches over the end of its buffer"
                break
            places.append(at)
            kinds.append(kind)
            at += size
        return places, kinds, at

    def _repeat(self, places: list[int], kinds: list[int], at: int, end: int) -> int:
        """Take what goes on as the given records do; return where that ends."""
        stride = at - places[0]
        left = (end - at) // stride
        for most in (_FEW, left):
            count = min(most, left)
            if count <= 0:
                break
            same = np.ones(count, bool)
            for place, kind in zip(places, kinds, strict=True):
                first = (at + place - places[0]) >> 2
                same &= self._all_kinds[first:first + (count - 1) * (stride >> 2) + 1:stride >> 2] == kind
            run = count if same.all() else int(np.argmin(same))
            every = np.arange(at - places[0], at - places[0] + run * stride, stride)
            for kind in set(kinds):
                own = np.array([place for place, other in zip(places, kinds, strict=True) if other == kind], np.int64)
                self._add(kind, (every[:, None] + own).ravel())
            at, left = at + run * stride, left - run
            if run < count:
                break
        return at

    def _add(self, kind: int, places: np.ndarray) -> None:
        self.at.setdefault(kind, []).append(places)


def _period(kinds: list[int]) -> int:
    """After how many records a window's kinds repeat themselves; 0 where they do not."""
    for period in range(1, _WINDOW // 2 + 1):
        if kinds[period:] == kinds[:-period]:
            return period
    return 0


def fields(arena: np.ndarray, at: np.ndarray, kind: int) -> dict[str, np.ndarray]:
    """Return the fields of the records of one kind as columns: int32 where that holds them, else int64.

    Parameters
    ----------
    arena : ndarray of uint8
        What the buffers lie in.
    at : ndarray of int64
        Offsets of records, of this kind only.
    kind : int
        A key of `FIELDS`. Of a kernel's `SHAPE` there is one column, ``shape``: a number that stands for all of them.
    """
    mixed = SHAPE if kind == KERNEL else ()
    columns = {name: np.empty(len(at), np.int64 if dtype in ("u4", "u8") else np.int32)
               for name, dtype, _ in FIELDS[kind] if name not in mixed}
    shape = np.empty(len(at) if mixed else 0, np.int64)
    names, formats, offsets = zip(*FIELDS[kind], strict=True)
    # Records are of a multiple of 8 bytes, so that what is read of one lies inside of it.
    size = -(-_LEAST[kind] // 8) * 8
    layout = np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": size})
    whole = as_strided(arena[:size].view(f"V{size}"), (max(0, len(arena) - size) // 8 + 1,), (8,))
    # A part at a time, so that a record comes into the processor's cache once and not once a field.
    for start in range(0, len(at), _PART):
        part = slice(start, start + _PART)
        records = whole[at[part] >> 3].view(layout)
        for name, values in columns.items():
            values[part] = records[name]
        if mixed:
            shape[part] = _mixed([records[name] for name in mixed])
    return columns | {"shape": shape} if mixed else columns


def _mixed(columns: list[np.ndarray]) -> np.ndarray:
    """One number for each row: 64 bits, so that different rows have different ones, but for one case in a billion."""
    result = np.zeros(len(columns[0]), np.uint64)
    for values in columns:
        result *= np.uint64(0x9E3779B97F4A7C15)
        result ^= result >> np.uint64(29)
        result += values.astype(np.uint64)
    return result.view(np.int64)


def shapes(arena: np.ndarray, at: np.ndarray) -> list[tuple[int, ...]]:
    """Return the `SHAPE` of each of a few kernel records."""
    words = arena.view(np.int32)
    offsets = [offset >> 2 for name in SHAPE for field, _, offset in FIELDS[KERNEL] if field == name]
    return [tuple(int(words[(place >> 2) + offset]) for offset in offsets) for place in at.tolist()]
