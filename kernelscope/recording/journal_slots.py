"""The launches of a journal: a file of 64-byte slots, of which each says by itself whether it was written whole.

Nothing is believed but what a slot's own check confirms: the process was killed in the middle of its work, and the file
may have been cut off or changed since. Slots are checked by the million, vectorized.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kernelscope.errors import JournalError
from kernelscope.journal_layout import (
    COUNTERS,
    COUNTERS_AT,
    HEADER,
    HEADER_BYTES,
    MAGIC,
    MODES,
    MOST_BEHIND,
    SLOT_BYTES,
    SLOT_VERSION,
    opened,
)
from kernelscope.schema import UNKNOWN

SLOT = np.dtype([
    ("sequence", "<u8"), ("start_ns", "<i8"), ("dispatch_end_ns", "<i8"), ("submit_start_ns", "<i8"),
    ("submit_end_ns", "<i8"), ("end_ns", "<i8"), ("target", "<i4"), ("configuration", "<i4"), ("thread", "<i4"),
    ("kind", "<u2"), ("check", "<u2"),
])
#: Kinds of slot: of a launch that could not be recorded after all, of a launch.
VOIDED, LAUNCH = 0, 1
UNDER_WAY = np.uint64(1 << 63)
#: A journal of more is refused: no recording of that many launches fits into memory.
MAX_SLOTS = 1 << 28
#: Instants of a host clock are below this, 36 years after it began to count.
MAX_NS = 1 << 60

_INNER = ("dispatch_end_ns", "submit_start_ns", "submit_end_ns")
_AT_ONCE = 1 << 16
#: A counter beyond this is a damaged one.
_MAX_COUNT = 1 << 40
_CHECKED_OF_LAST = np.uint64(0xFFFF_FFFF_FFFF)


@dataclass(frozen=True)
class Slots:
    """What a slots file holds.

    Attributes
    ----------
    mode : str or None
        grow, ring or stop; None where the header is damaged there.
    capacity : int or None
        Launches that are kept at most.
    pid : int
        The process that wrote it.
    launches : dict of str to ndarray
        ``sequence``, ``thread``, ``target``, ``configuration``, ``start_ns``, the boundaries and ``end_ns``, in order
        of begin; -1 where unknown.
    is_open : ndarray of bool
        Which of them had begun and not returned.
    damaged : int
        Slots that were written to and are not whole.
    repeated : int
        Slots that hold a launch which another holds too.
    missing : int
        Launches that began and are not here: torn, cut off, or not written before the process died.
    lost : int
        Launches that were not kept: overwritten in mode ring, too many for mode stop, or without memory.
    notes : tuple of str
        What is wrong with the file.
    """

    mode: str | None
    capacity: int | None
    pid: int
    launches: dict[str, np.ndarray]
    is_open: np.ndarray
    damaged: int
    repeated: int
    missing: int
    lost: int
    notes: tuple[str, ...]


def read_slots(path: Path) -> Slots:
    """Return the launches of a slots file.

    Raises
    ------
    JournalError
        It cannot be read, is none, is of another version, or is far too large.
    """
    try:
        with opened(path) as file:
            size = os.fstat(file).st_size
            return _read(path, file, size)
    except OSError as error:
        raise JournalError(f"{path} cannot be read: {error.strerror or error}") from None


def slot_checks(slots: np.ndarray) -> np.ndarray:
    """Return what the field ``check`` of each slot must be."""
    words = slots.view("<u8").reshape(-1, SLOT_BYTES // 8)
    is_open = (words[:, 0] & UNDER_WAY) != 0
    state = np.zeros(len(slots), np.uint64)
    for place in range(8):
        word = words[:, place]
        if 2 <= place <= 5:
            word = np.where(is_open, np.uint64(0xFFFF_FFFF_FFFF_FFFF), word)
        elif place == 7:
            word = word & _CHECKED_OF_LAST
        state = (state << np.uint64(9) | state >> np.uint64(55)) ^ word
    state ^= state >> np.uint64(32)
    state ^= state >> np.uint64(16)
    return (state & np.uint64(0xFFFF)).astype(np.uint16)


def _read(path: Path, file: int, size: int) -> Slots:
    header = os.pread(file, HEADER_BYTES, 0)
    if len(header) < COUNTERS_AT + COUNTERS.size:
        raise JournalError(f"{path} is cut off at byte {len(header)}, within its header: no launch is in it")
    magic, version, slot_bytes, _, mode, capacity, pid, _ = HEADER.unpack_from(header)
    if magic != MAGIC:
        raise JournalError(f"{path} is no journal of launches: it begins with {magic[:16]!a}, not {MAGIC!a}")
    if version != SLOT_VERSION or slot_bytes != SLOT_BYTES:
        raise JournalError(
            f"{path} has slots of version {version} and {slot_bytes} bytes; this KernelScope reads version "
            f"{SLOT_VERSION} of {SLOT_BYTES} bytes: recover it with the KernelScope that wrote it, whose version is in "
            "journal.json")
    rest = max(size - HEADER_BYTES, 0)
    if rest // SLOT_BYTES > MAX_SLOTS:
        raise JournalError(f"{path} has room for {rest // SLOT_BYTES:,} launches; at most {MAX_SLOTS:,} are read")
    counted, lost = COUNTERS.unpack_from(header, COUNTERS_AT)
    notes = [f"the slots are cut off at byte {size}, within a slot"] if rest % SLOT_BYTES else []
    parts: list[np.ndarray] = []
    places: list[np.ndarray] = []
    damaged = voided = 0
    for first, block in _blocks(file, rest // SLOT_BYTES):
        block, found = _whole(block)
        are_launches = block["kind"][found] == LAUNCH
        damaged += _written(block) - len(found)
        voided += int((~are_launches).sum())
        found = found[are_launches]
        parts.append(block[found])
        places.append(found + first)
    slots = np.concatenate(parts) if parts else np.empty(0, SLOT)
    place = np.concatenate(places) if places else np.empty(0, np.int64)
    slots, place, strange = _plausible(slots, place, counted)
    slots, repeated = _once(slots, place)
    if counted < _last(slots) <= counted + MOST_BEHIND:
        counted = _last(slots)
    is_known = mode < len(MODES)
    if not is_known or max(counted, lost) > _MAX_COUNT or counted < _last(slots):
        notes.append("the header is damaged: how many launches began is not known")
        missing = lost = 0
    else:
        overwritten = max(counted - capacity, 0) if MODES[mode] == "ring" and capacity else 0
        lost += overwritten
        missing = max(counted - overwritten - voided - len(slots), 0)
    return Slots(
        mode=MODES[mode] if is_known else None, capacity=capacity or None, pid=pid, launches=_columns(slots),
        is_open=(slots["sequence"] & UNDER_WAY) != 0, damaged=damaged + strange, repeated=repeated, missing=missing,
        lost=lost, notes=tuple(notes))


def _blocks(file: int, count: int) -> Iterator[tuple[int, np.ndarray]]:
    """All slots, a part at a time, with the number of its first; what is cut off meanwhile is left out."""
    for first in range(0, count, _AT_ONCE):
        wanted = min(_AT_ONCE, count - first) * SLOT_BYTES
        data = os.pread(file, wanted, HEADER_BYTES + first * SLOT_BYTES)
        if data:
            yield first, np.frombuffer(data[:len(data) // SLOT_BYTES * SLOT_BYTES], SLOT)
        if len(data) < wanted:
            return


def _written(slots: np.ndarray) -> int:
    """How many slots are not empty."""
    return int(slots.view("<u8").reshape(-1, SLOT_BYTES // 8).any(axis=1).sum())


def _whole(slots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The slots, and the places of those whose check is right and whose times are possible."""
    used = np.flatnonzero((slots["sequence"] & ~UNDER_WAY) != 0)
    is_right = slot_checks(slots[used]) == slots["check"][used]
    wrong = used[~is_right]
    if len(wrong):
        # A launch that ends writes its times, then the check, then the sequence number: it may have died before that.
        ended = slots[wrong]
        ended["sequence"] &= ~UNDER_WAY
        is_ended = slot_checks(ended) == ended["check"]
        if is_ended.any():
            slots = slots.copy()
            slots[wrong[is_ended]] = ended[is_ended]
            is_right[~is_right] = is_ended
    used = used[is_right]
    found = slots[used]
    start, end = found["start_ns"], found["end_ns"]
    is_open = (found["sequence"] & UNDER_WAY) != 0
    ended = (end == UNKNOWN) | ((end >= start) & (end < MAX_NS))
    is_launch = (start >= 0) & (start < MAX_NS) & (is_open | ended) & (found["kind"] == LAUNCH)
    return slots, used[is_launch | ((found["kind"] == VOIDED) & ~is_open)]


def _plausible(slots: np.ndarray, place: np.ndarray, counted: int) -> tuple[np.ndarray, np.ndarray, int]:
    """Those that the header counts, or that are where they belong; garbage has a right check once in 65,536 times."""
    index = (slots["sequence"] & ~UNDER_WAY) - np.uint64(1)
    good = (index < np.uint64(min(counted, _MAX_COUNT))) | (index == place.astype(np.uint64))
    if good.sum() * 2 < len(good):  # then it is the header that is wrong
        good = index < np.uint64(_MAX_COUNT)
    return slots[good], place[good], int((~good).sum())


def _once(slots: np.ndarray, place: np.ndarray) -> tuple[np.ndarray, int]:
    """Each launch once, in order of begin: of several the one that has returned, then the one in its place."""
    index = (slots["sequence"] & ~UNDER_WAY) - np.uint64(1)
    is_open = (slots["sequence"] & UNDER_WAY) != 0
    order = np.lexsort((index != place.astype(np.uint64), is_open, index))
    index = index[order]
    first = np.ones(len(index), bool)
    first[1:] = index[1:] != index[:-1]
    return slots[order[first]], int((~first).sum())


def _last(slots: np.ndarray) -> int:
    return int(slots["sequence"][-1] & ~UNDER_WAY) if len(slots) else 0


def _columns(slots: np.ndarray) -> dict[str, Any]:
    """Columns of their own memory; a boundary that is not in order is unknown."""
    is_open = (slots["sequence"] & UNDER_WAY) != 0
    columns: dict[str, Any] = {
        "sequence": (slots["sequence"] & ~UNDER_WAY).astype(np.int64),
        **{name: slots[name].astype(np.int32) for name in ("thread", "target", "configuration")},
        "start_ns": slots["start_ns"].astype(np.int64),
        "end_ns": np.where(is_open, UNKNOWN, slots["end_ns"]).astype(np.int64),
    }
    latest = np.where(columns["end_ns"] == UNKNOWN, MAX_NS, columns["end_ns"])
    before = columns["start_ns"]
    for name in _INNER:
        values = slots[name].astype(np.int64)
        values = np.where((values >= before) & (values <= latest), values, UNKNOWN)
        columns[name] = values
        before = np.maximum(before, values)
    return columns
