"""`gpu_summary`: everything that a summary shows of the GPU's side, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from kernelscope.analysis.activities import gpu_activities, is_gpu_recorded, windows
from kernelscope.analysis.busy import Busy, busy, busy_by_cell
from kernelscope.analysis.columns import floats
from kernelscope.analysis.correlate import Joined, join
from kernelscope.analysis.execution import KernelExecution, Spread, by_execution, spread
from kernelscope.analysis.gaps import LaneGaps, gaps
from kernelscope.analysis.overlap import CopySummary, overlap
from kernelscope.recording.model import Recording


@dataclass(frozen=True)
class GpuSummary:
    """What the GPU did; what was not measured is None.

    Attributes
    ----------
    source : str
        What measured it: cupti or events.
    devices : dict of int to str
        What to call each device, by its id: by CUDA's ordinal.
    busy : tuple of Busy
        How busy each device was in the cells, each until the device was synchronized.
    idle : tuple of LaneGaps
        The idle time of each device in the same windows, with what the host did meanwhile.
    by_cell : dict of int to float
        The busy share of each cell, 0 to 1, of its busiest device.
    kernels : int
        Kernels that ran, or were timed.
    joined : int
        Launches whose kernel is known.
    execute, queue : Spread or None
        How long kernels ran, whoever launched them; how long those of launches queued.
    execution : tuple of KernelExecution
        By kernel, in order of total execution time.
    copies : tuple of CopySummary
        By direction.
    reversed, untimed : int
        Activities that were left out, because their end is before their start or a time was not measured.
    clock_error_ns : float or None
        How far the GPU's times can be off on the host clock.
    """

    source: str
    devices: Mapping[int, str]
    busy: tuple[Busy, ...]
    idle: tuple[LaneGaps, ...]
    by_cell: Mapping[int, float]
    kernels: int
    joined: int
    execute: Spread | None
    queue: Spread | None
    execution: tuple[KernelExecution, ...]
    copies: tuple[CopySummary, ...]
    reversed: int
    untimed: int
    clock_error_ns: float | None

    @property
    def others(self) -> tuple[KernelExecution, ...]:
        """The kernels of which some were launched by no recorded launch and no graph."""
        return tuple(each for each in self.execution if each.others)

    def of_dispatcher(self) -> dict[int, KernelExecution]:
        """Return the execution of each dispatcher's kernels, by its id."""
        return {each.dispatcher_id: each for each in self.execution if each.dispatcher_id is not None}


def gpu_summary(recording: Recording, joined: Joined | None = None) -> GpuSummary | None:
    """Return what a summary shows of the GPU's side; None where that was not recorded.

    Parameters
    ----------
    recording : Recording
        What was recorded.
    joined : Joined, optional
        `join` of it, where it is at hand.
    """
    if not is_gpu_recorded(recording):
        return None
    joined = joined or join(recording)
    activities = gpu_activities(recording)
    within = windows(recording)
    execution = tuple(by_execution(recording, joined))
    alone = joined.execute_ns[joined.kernel < 0]
    executed = np.concatenate((joined.kernel_execute_ns, alone[alone >= 0]))
    errors = floats(recording, "health", "clock_error_ns")
    known = errors[np.isfinite(errors)]
    return GpuSummary(
        source=_source(recording),
        devices={
            row["device_id"]: f"device {row['ordinal']}" for row in recording.rows("devices")
            if row["ordinal"] is not None
        },
        busy=tuple(busy(recording, within, activities=activities)),
        idle=tuple(gaps(recording, within, by_stream=False, activities=activities)),
        by_cell={
            cell: max(shares) for cell, each in enumerate(busy_by_cell(recording, activities=activities))
            if (shares := [row.share for row in each if row.share is not None])
        },
        kernels=sum(each.kernels for each in execution),
        joined=int(((joined.kernel >= 0) | (joined.execute_ns >= 0)).sum()),
        execute=spread(executed),
        queue=spread(joined.queue_ns),
        execution=execution,
        copies=tuple(overlap(recording, activities=activities)),
        reversed=activities.reversed,
        untimed=activities.untimed,
        clock_error_ns=float(known.max()) if len(known) else None,
    )


def _source(recording: Recording) -> str:
    held: object = recording.metadata.get("gpu")
    source = cast("dict[str, Any]", held).get("source") if isinstance(held, dict) else None
    return source if isinstance(source, str) else "cupti"
