"""Busy: how much of the time each device ran anything, kernels alone and together with copies, and when."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kernelscope.analysis.activities import Activities, gpu_activities, known_id, windows
from kernelscope.analysis.columns import Floats, Ints, ints
from kernelscope.analysis.intervals import Intervals, union
from kernelscope.recording.model import Recording

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Busy:
    """How busy one device was. What ran at the same time on several streams counts once.

    Attributes
    ----------
    device_id : int or None
        The device; None where it is unknown.
    window_ns : int
        The time that was looked at.
    kernel_ns : int
        Of that, time in which a kernel ran.
    busy_ns : int
        Of that, time in which a kernel, a copy or a memset ran.
    """

    device_id: int | None
    window_ns: int
    kernel_ns: int
    busy_ns: int

    @property
    def share(self) -> float | None:
        """Busy time over all of it, 0 to 1; None where there was no time."""
        return self.busy_ns / self.window_ns if self.window_ns else None

    @property
    def kernel_share(self) -> float | None:
        """Time of kernels over all of it, 0 to 1; None where there was no time."""
        return self.kernel_ns / self.window_ns if self.window_ns else None


@dataclass(frozen=True)
class BusyOverTime:
    """How busy one device was in each of many bins of time.

    Attributes
    ----------
    device_id : int or None
        The device; None where it is unknown.
    edges_ns : ndarray of int64, shape (bins + 1,)
        The bins' edges on the host clock.
    share : ndarray of float64, shape (bins,)
        Time in which anything ran over the bin's, 0 to 1.
    kernel_share : ndarray of float64, shape (bins,)
        The same of kernels alone.
    """

    device_id: int | None
    edges_ns: Ints
    share: Floats
    kernel_share: Floats


def busy(
    recording: Recording, within: Intervals | None = None, *, activities: Activities | None = None
) -> list[Busy]:
    """Return how busy each device was that did anything.

    Parameters
    ----------
    recording : Recording
        What was recorded.
    within : Intervals, optional
        The time to look at; without it `kernelscope.analysis.activities.windows`: the cells, each until the device was
        synchronized.
    activities : Activities, optional
        `gpu_activities` of the recording, where they are at hand.
    """
    activities = gpu_activities(recording) if activities is None else activities
    within = windows(recording) if within is None else within
    found: list[Busy] = []
    for device, own in activities.by_device():
        anything = own.busy
        kernels = own.kernels()
        alone = anything if len(kernels) == len(own) else kernels.busy
        busy_ns = within.common_ns(anything)
        kernel_ns = busy_ns if alone is anything else within.common_ns(alone)
        found.append(Busy(known_id(device), within.total_ns, kernel_ns, busy_ns))
    return found


def busy_over_time(
    recording: Recording, bins: int = 200, within: Intervals | None = None, *, activities: Activities | None = None
) -> list[BusyOverTime]:
    """Return the busy share of each device in bins of equal length, for charts.

    Parameters
    ----------
    recording : Recording
        What was recorded.
    bins : int
        How many; fewer where there are fewer nanoseconds.
    within : Intervals, optional
        The time to look at, from its first start to its last end; as of `busy`.
    activities : Activities, optional
        As of `busy`.

    Raises
    ------
    ValueError
        `bins` is less than 1.
    """
    if bins < 1:
        raise ValueError(f"bins is {bins}; it must be 1 or more")
    activities = gpu_activities(recording) if activities is None else activities
    span = (windows(recording) if within is None else within).span
    if not len(span):
        return []
    edges = _edges(int(span.start[0]), int(span.end[0]), bins)
    widths = np.diff(edges).astype(np.float64)
    return [
        BusyOverTime(known_id(device), edges, np.diff(own.busy.covered(edges)) / widths,
                     np.diff(own.kernels().busy.covered(edges)) / widths)
        for device, own in activities.by_device()
    ]


def busy_by_cell(recording: Recording, *, activities: Activities | None = None) -> list[list[Busy]]:
    """Return `busy` of each cell, in order of ``cells``, until the device was synchronized after it."""
    activities = gpu_activities(recording) if activities is None else activities
    start = ints(recording, "cells", "start_ns")
    end = np.maximum(ints(recording, "cells", "end_ns"), ints(recording, "cells", "synchronized_ns"))
    held = [(known_id(device), own.busy, own.kernels().busy) for device, own in activities.by_device()]
    return [
        [
            Busy(device, each.total_ns, each.common_ns(alone), each.common_ns(anything))
            for device, anything, alone in held
        ]
        for each in (union(start[at:at + 1], end[at:at + 1]) for at in range(len(start)))
    ]


def busy_table(recording: Recording, within: Intervals | None = None) -> pd.DataFrame:
    """Return `busy` as a DataFrame: device_id, window_ns, busy_ns, busy_share, kernel_ns, kernel_share."""
    import pandas as pd

    rows = busy(recording, within)
    return pd.DataFrame({
        "device_id": pd.array([row.device_id for row in rows], dtype="Int64"),
        "window_ns": pd.array([row.window_ns for row in rows], dtype="Int64"),
        "busy_ns": pd.array([row.busy_ns for row in rows], dtype="Int64"),
        "busy_share": pd.array([row.share for row in rows], dtype="Float64"),
        "kernel_ns": pd.array([row.kernel_ns for row in rows], dtype="Int64"),
        "kernel_share": pd.array([row.kernel_share for row in rows], dtype="Float64"),
    })


def _edges(first: int, last: int, bins: int) -> Ints:
    steps = np.linspace(0, last - first, min(bins, last - first) + 1)
    return first + np.rint(steps).astype(np.int64)
