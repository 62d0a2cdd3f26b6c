"""CUPTI's activity buffers as NumPy arrays: which records they hold, and the fields that are read of each kind.

A buffer is one record after another, of several kinds and so of several sizes. How large the records of a kind are
differs between versions of CUPTI, which add fields at the end; so the size of a kind is asked of CUPTI
when the first record of it is met, and all buffers of an arena are walked at once, one record of each at a step.
Source of the layouts: ``cupti_activity.h`` of CUDA 12.0 to 13.5; the fields that are read stand where they stood in 12.0.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

MEMCPY, MEMSET, DRIVER, RUNTIME, KERNEL, MARKER, MARKER_DATA, MEMCPY_PEER, SYNCHRONIZATION = (
    1, 2, 4, 5, 10, 12, 13, 22, 38)

#: Of each kind the fields that are read: name, dtype, offset in bytes.
FIELDS: dict[int, list[tuple[str, str, int]]] = {
    KERNEL: [
        ("regs", "u2", 6), ("start", "u8", 16), ("end", "u8", 24), ("device", "u4", 40), ("context", "u4", 44),
        ("stream", "u4", 48),
        ("grid_x", "i4", 52), ("grid_y", "i4", 56), ("grid_z", "i4", 60),
        ("block_x", "i4", 64), ("block_y", "i4", 68), ("block_z", "i4", 72), ("dynamic_shared", "i4", 80),
        ("correlation", "u4", 92), ("name", "u8", 104), ("graph_node", "u8", 144), ("graph", "u4", 156),
        ("cluster_x", "u4", 176), ("cluster_y", "u4", 180), ("cluster_z", "u4", 184),
    ],
    MEMCPY: [
        ("direction", "u1", 4), ("source", "u1", 5), ("target", "u1", 6), ("bytes", "u8", 8), ("start", "u8", 16),
        ("end", "u8", 24), ("device", "u4", 32), ("context", "u4", 36), ("stream", "u4", 40), ("correlation", "u4", 44),
        ("graph_node", "u8", 64), ("graph", "u4", 72),
    ],
    MEMCPY_PEER: [
        ("direction", "u1", 4), ("source", "u1", 5), ("target", "u1", 6), ("bytes", "u8", 8), ("start", "u8", 16),
        ("end", "u8", 24), ("device", "u4", 32), ("context", "u4", 36), ("stream", "u4", 40), ("correlation", "u4", 60),
        ("graph_node", "u8", 72), ("graph", "u4", 80),
    ],
    MEMSET: [
        ("bytes", "u8", 8), ("start", "u8", 16), ("end", "u8", 24), ("device", "u4", 32), ("context", "u4", 36),
        ("stream", "u4", 40), ("correlation", "u4", 44), ("target", "u2", 50), ("graph_node", "u8", 64),
        ("graph", "u4", 72),
    ],
    SYNCHRONIZATION: [
        ("type", "i4", 4), ("start", "u8", 8), ("end", "u8", 16), ("correlation", "u4", 24), ("context", "u4", 28),
        ("stream", "u4", 32),
    ],
    DRIVER: [
        ("function", "u4", 4), ("start", "u8", 8), ("end", "u8", 16), ("thread", "u4", 28), ("correlation", "u4", 32),
        ("result", "u4", 36),
    ],
    MARKER: [
        ("flags", "i4", 4), ("timestamp", "u8", 8), ("id", "u4", 16), ("object", "i4", 20), ("thread", "u4", 28),
        ("name", "u8", 40), ("domain", "u8", 48),
    ],
    MARKER_DATA: [("id", "u4", 8), ("color", "u4", 24), ("category", "u4", 28)],
}
FIELDS[RUNTIME] = FIELDS[DRIVER]

#: The least size of a record, in bytes: what is read of it must lie inside.
_LEAST = {kind: max(offset + int(dtype[1:]) for _, dtype, offset in fields) for kind, fields in FIELDS.items()}
_KINDS = 128
#: The least that a record has, in bytes; less than that at a buffer's end is none.
_HEAD = 8

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
            raise ValueError(f"an activity record of kind {kind} has {size} bytes: at least {_LEAST.get(kind, _HEAD)}, and "
                             "a multiple of 8, were expected")
        self.by_kind[kind] = size


def positions(arena: np.ndarray, starts: np.ndarray, ends: np.ndarray, sizes: Sizes,
              size_of: SizeOf) -> tuple[np.ndarray, str | None]:
    """Return the offsets of all records, in ascending order, and what was wrong with the first that made no sense.

    What follows such a record in its buffer is left out.

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
    kinds = arena.view(np.int32)
    filled = ends - starts >= _HEAD
    at, end = starts[filled], ends[filled]
    found: list[np.ndarray] = []
    problem: str | None = None
    while len(at):
        kind = kinds[at >> 2]
        size = np.where((kind >= 0) & (kind < _KINDS), sizes.by_kind[kind & (_KINDS - 1)], 0)
        for row in np.flatnonzero(size == 0).tolist():
            try:
                if not 0 <= kind[row] < _KINDS or not sizes.by_kind[kind[row]]:
                    sizes.learn(int(kind[row]), size_of(int(at[row]), int(end[row])))
                size[row] = sizes.by_kind[kind[row]]
            except ValueError as error:
                problem = problem or str(error)
        following = at + size
        wrong = (size == 0) | (following > end)
        if wrong.any():
            problem = problem or "an activity record reaches over the end of its buffer"
            at, end, following = at[~wrong], end[~wrong], following[~wrong]
        found.append(at)
        on = end - following >= _HEAD
        at = following
        if not on.all():
            at, end = at[on], end[on]
    return np.sort(np.concatenate(found)) if found else np.empty(0, np.int64), problem


def fields(arena: np.ndarray, at: np.ndarray, kind: int) -> dict[str, np.ndarray]:
    """Return the fields of the records of one kind as int64 columns.

    Parameters
    ----------
    arena : ndarray of uint8
        What the buffers lie in.
    at : ndarray of int64
        Offsets of records, of this kind only.
    kind : int
        A key of `FIELDS`.
    """
    columns: dict[str, np.ndarray] = {}
    for name, dtype, offset in FIELDS[kind]:
        wanted = np.dtype(dtype)
        columns[name] = arena.view(wanted)[(at + offset) // wanted.itemsize].astype(np.int64)
    return columns


def by_kind(arena: np.ndarray, at: np.ndarray) -> dict[int, np.ndarray]:
    """Return the records' offsets by kind, of the kinds that are read."""
    kinds = arena.view(np.int32)[at >> 2]
    return {kind: at[kinds == kind] for kind in FIELDS if (kinds == kind).any()}
