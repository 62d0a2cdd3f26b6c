"""Overlap: how much of the copies ran while a kernel ran on the same device, by direction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from kernelscope.analysis.activities import COPY, Activities, gpu_activities, known_id
from kernelscope.analysis.columns import Ints, codes, ints, matches
from kernelscope.analysis.intervals import Intervals
from kernelscope.recording.model import Recording
from kernelscope.schema import UNKNOWN

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class CopySummary:
    """The copies of one direction on one device.

    Attributes
    ----------
    device_id : int or None
        The device; None where it is unknown.
    direction : str
        Such as HtoD.
    copies : int
        How many there were.
    size_bytes : int or None
        Bytes copied; None where no copy's size is known.
    copy_ns : int or None
        Time in which any of them ran; None where no copy's times are known.
    hidden_ns : int or None
        Of that, time in which a kernel ran too.
    pageable : int
        How many were from or to pageable memory of the host, which the driver copies once more.
    pageable_bytes : int
        Their bytes.
    pageable_ns : int or None
        Time in which any of those ran; None where no times of theirs are known.
    """

    device_id: int | None
    direction: str
    copies: int
    size_bytes: int | None
    copy_ns: int | None
    hidden_ns: int | None
    pageable: int
    pageable_bytes: int
    pageable_ns: int | None

    @property
    def hidden_share(self) -> float | None:
        """How much of the time was hidden under kernels, 0 to 1."""
        if not self.copy_ns or self.hidden_ns is None:
            return None
        return self.hidden_ns / self.copy_ns

    @property
    def bytes_per_second(self) -> float | None:
        """Bytes over the time in which any of them ran."""
        if not self.copy_ns or self.size_bytes is None:
            return None
        return self.size_bytes / self.copy_ns * 1e9


def overlap(recording: Recording, *, activities: Activities | None = None) -> list[CopySummary]:
    """Summarize the copies of each direction on each device, in order of time spent, longest first.

    Parameters
    ----------
    recording : Recording
        What was recorded.
    activities : Activities, optional
        `gpu_activities` of it, where they are at hand.
    """
    rows = np.flatnonzero(matches(recording, "activities", "kind", COPY))
    if not len(rows):
        return []
    direction, directions = codes(recording, "activities", "name")
    memory, memories = codes(recording, "activities", "memory")
    held = np.array([*("pageable" in word for word in memories), False])
    size = ints(recording, "activities", "size_bytes")[rows]
    device = ints(recording, "activities", "device_id")[rows]
    pageable = held[memory[rows]]
    activities = gpu_activities(recording) if activities is None else activities
    kernels: dict[int, Intervals] = {which: own.kernels().busy for which, own in activities.by_device()}
    copies = activities.where(activities.is_copy)
    timed_direction = direction[copies.row]
    group = (device - UNKNOWN) * len(directions) + direction[rows]
    found: list[CopySummary] = []
    for key in np.unique(group).tolist():
        which, word = key // len(directions) + UNKNOWN, key % len(directions)
        mine = group == key
        timed = copies.where((copies.device == which) & (timed_direction == word))
        busy, paged = timed.busy, timed.where(held[memory[timed.row]])
        found.append(CopySummary(
            device_id=known_id(which),
            direction=directions[word],
            copies=int(mine.sum()),
            size_bytes=_known_sum(size[mine]),
            copy_ns=busy.total_ns if len(timed) else None,
            hidden_ns=kernels[which].common_ns(busy) if len(timed) else None,
            pageable=int((mine & pageable).sum()),
            pageable_bytes=_known_sum(size[mine & pageable]) or 0,
            pageable_ns=paged.busy.total_ns if len(paged) else None,
        ))
    return sorted(found, key=lambda each: (-(each.copy_ns or 0), -(each.size_bytes or 0), each.direction))


def overlap_table(recording: Recording) -> pd.DataFrame:
    """Return `overlap` as a DataFrame.

    Its columns are ``device_id``, ``direction``, ``copies``, ``size_bytes``, ``copy_ns``, ``hidden_ns``,
    ``hidden_share`` and ``bytes_per_second``.
    """
    import pandas as pd

    rows = overlap(recording)
    columns: dict[str, Any] = {
        name: pd.array([getattr(row, name) for row in rows], dtype=kind)
        for name, kind in (
            ("device_id", "Int64"), ("copies", "Int64"), ("size_bytes", "Int64"), ("copy_ns", "Int64"),
            ("hidden_ns", "Int64"), ("hidden_share", "Float64"), ("bytes_per_second", "Float64"),
        )
    }
    table: Any = pd.DataFrame(columns)
    table.insert(1, "direction", pd.Series([row.direction for row in rows], dtype=object))
    return cast("pd.DataFrame", table)


def _known_sum(values: Ints) -> int | None:
    known = values[values >= 0]
    return int(known.sum()) if len(known) else None
