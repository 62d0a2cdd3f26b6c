"""What the GPU did, as arrays: activities whose time is known, in order, by device and stream."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from kernelscope.analysis.columns import Bools, Ints, codes, ints, row_count
from kernelscope.analysis.intervals import Intervals, union
from kernelscope.recording.model import Recording
from kernelscope.schema import UNKNOWN

#: Kinds of activity that the GPU is busy with; the fourth, sync, is a wait of the host.
KERNEL, COPY, SET = "kernel", "memcpy", "memset"

_LARGEST_TABLE = 1 << 20


@dataclass(frozen=True)
class Activities:
    """The GPU's activities of which both times are known, in order of start; waits of the host are in none.

    Attributes
    ----------
    row : ndarray of int64
        Each one's row in ``activities``.
    is_kernel, is_copy : ndarray of bool
        Whether it is a kernel, or a copy; the others are memsets.
    device, stream : ndarray of int64
        Its device's row in ``devices``, and CUPTI's id of its stream; -1 where unknown.
    start, end : ndarray of int64
        Its times on the host clock.
    reversed : int
        How many were left out because they end before they start, as after a jump of a clock.
    untimed : int
        How many were left out because a time of theirs was not measured.
    """

    row: Ints
    is_kernel: Bools
    is_copy: Bools
    device: Ints
    stream: Ints
    start: Ints
    end: Ints
    reversed: int
    untimed: int

    def __len__(self) -> int:
        """How many there are."""
        return len(self.row)

    def where(self, mask: Bools) -> Activities:
        """Return those that a mask selects."""
        if mask.all():
            return self
        return Activities(
            self.row[mask], self.is_kernel[mask], self.is_copy[mask], self.device[mask], self.stream[mask],
            self.start[mask], self.end[mask], self.reversed, self.untimed,
        )

    def by_device(self) -> Iterator[tuple[int, Activities]]:
        """Yield each device (-1 where unknown) with its activities: two devices never mix."""
        for device in distinct(self.device):
            yield device, self.where(self.device == device)

    def by_stream(self) -> Iterator[tuple[int, Activities]]:
        """Yield each stream (-1 where unknown) with its activities; of one device, for ids are a device's own."""
        for stream in distinct(self.stream):
            yield stream, self.where(self.stream == stream)

    @cached_property
    def busy(self) -> Intervals:
        """When any of them ran."""
        return union(self.start, self.end)

    def kernels(self) -> Activities:
        """Return the kernels among them."""
        return self.where(self.is_kernel)


def gpu_activities(recording: Recording) -> Activities:
    """Return the activities of the GPU whose times are known."""
    kind, words = codes(recording, "activities", "kind")
    start = ints(recording, "activities", "start_ns")
    end = ints(recording, "activities", "end_ns")
    kernel, copy = _is(kind, words, KERNEL), _is(kind, words, COPY)
    is_gpu = kernel | copy | _is(kind, words, SET)
    source: Any = recording.arrow("activities")
    known = is_gpu
    if source.column("start_ns").null_count or source.column("end_ns").null_count:
        known = is_gpu & (start >= 0) & (end >= 0)
    forward = known & (start <= end)
    rows = np.arange(len(kind)) if forward.all() else np.flatnonzero(forward)
    begun = start if len(rows) == len(kind) else start[rows]
    ordered = not bool((begun[1:] < begun[:-1]).any())
    if not ordered:
        rows = rows[np.argsort(begun, kind="stable")]

    def taken(values: Any) -> Any:
        return values if ordered and len(rows) == len(kind) else values[rows]

    return Activities(
        row=rows, is_kernel=taken(kernel), is_copy=taken(copy),
        device=taken(ints(recording, "activities", "device_id")), stream=taken(ints(recording, "activities", "stream")),
        start=taken(start), end=taken(end),
        reversed=int(known.sum()) - int(forward.sum()), untimed=int(is_gpu.sum()) - int(known.sum()),
    )


def is_gpu_recorded(recording: Recording) -> bool:
    """Return whether the GPU's side was recorded, be it that nothing ran on it."""
    return bool(recording.metadata.get("gpu")) or row_count(recording, "activities") > 0


def windows(recording: Recording) -> Intervals:
    """Return the time that shares are of: each cell until the device was synchronized after it.

    Where the recording has no cells, it is the time from its first launch or activity to the end of the last one.
    """
    start = ints(recording, "cells", "start_ns")
    if len(start):
        end = np.maximum(ints(recording, "cells", "end_ns"), ints(recording, "cells", "synchronized_ns"))
        return union(start, end)
    gpu = gpu_activities(recording)
    launched = ints(recording, "launches", "start_ns")
    starts = np.concatenate((gpu.start, launched))
    ends = np.concatenate((gpu.end, np.maximum(ints(recording, "launches", "end_ns"), launched)))
    if not len(starts):
        return Intervals(starts, ends)
    return union(starts.min(keepdims=True), ends.max(keepdims=True))


def distinct(values: Ints) -> list[int]:
    """Return the distinct values in order; without a sort where they lie close together, as ids do."""
    if not len(values):
        return []
    low, high = int(values.min()), int(values.max())
    if high - low < _LARGEST_TABLE:
        return (np.flatnonzero(np.bincount(values - low)) + low).tolist()
    return np.unique(values).tolist()


def known_id(value: int) -> int | None:
    """Return an id, or None for `kernelscope.schema.UNKNOWN`."""
    return None if value == UNKNOWN else value


def _is(kind: Ints, words: list[str], word: str) -> Bools:
    if word not in words:
        return np.zeros(len(kind), dtype=np.bool_)
    return kind == words.index(word)
