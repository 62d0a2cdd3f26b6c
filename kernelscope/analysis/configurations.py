"""Launch configurations by kernel: which grids and blocks each one ran with, and how often."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kernelscope.analysis.columns import (
    codes,
    count_by,
    floats,
    ints,
    percentiles_by,
    ranges_by,
    row_count,
    sum_by,
    unique_pairs,
)
from kernelscope.analysis.phases import LaunchPhases, launch_phases
from kernelscope.recording.model import Recording

Dims = tuple[int, int, int]


@dataclass(frozen=True)
class ConfigurationSummary:
    """One launch configuration of one kernel; what was not recorded is None.

    Attributes
    ----------
    dispatcher_id, configuration_id : int
        The kernel, and the row in ``configurations``.
    griddim, blockdim : tuple of int
        Blocks, and threads a block, along x, y, z.
    cluster : tuple of int, or None
        Blocks a cluster along x, y, z; None without clusters.
    sharedmem_bytes : int
        Dynamic shared memory a block.
    stream : int or None
        The stream's handle; 0 is the default stream.
    launches, errors : int
        Launches with it, and how many of them raised.
    host_ns : int
        Own host time of those launches.
    median_ns : float or None
        Own host time a launch.
    regs : tuple of int, or None
        Least and most registers a thread among the overloads launched with it.
    occupancy : tuple of float, or None
        Least and most occupancy among those overloads, 0 to 1.
    """

    dispatcher_id: int
    configuration_id: int
    griddim: Dims
    blockdim: Dims
    cluster: Dims | None
    sharedmem_bytes: int
    stream: int | None
    launches: int
    errors: int
    host_ns: int
    median_ns: float | None
    regs: tuple[int, int] | None
    occupancy: tuple[float, float] | None

    @property
    def blocks(self) -> int:
        """Blocks of the grid."""
        return self.griddim[0] * self.griddim[1] * self.griddim[2]

    @property
    def threads_per_block(self) -> int:
        """Threads of a block."""
        return self.blockdim[0] * self.blockdim[1] * self.blockdim[2]


def by_configuration(
    recording: Recording, phases: LaunchPhases | None = None
) -> dict[int, list[ConfigurationSummary]]:
    """Summarize launch configurations by kernel (dispatcher id), most launches first."""
    size = row_count(recording, "dispatchers")
    if not size or not row_count(recording, "launches"):
        return {}
    phases = phases or launch_phases(recording)
    dispatcher = ints(recording, "launches", "dispatcher_id")
    configuration = ints(recording, "launches", "configuration_id")
    overload = ints(recording, "launches", "specialization_id")
    pairs, pair = unique_pairs(dispatcher, configuration)
    count = len(pairs)
    launches = count_by(pair, count)
    failed, _ = codes(recording, "launches", "error")
    errors = count_by(pair, count, failed >= 0)
    host = sum_by(pair, phases.own_ns, count)
    medians = percentiles_by(pair, phases.own_ns, count, (0.5,))[:, 0]

    # An overload's registers and occupancy belong to each pair that launched it.
    used, _ = unique_pairs(pair, overload)
    regs_of = ints(recording, "specializations", "regs")[used[:, 1]]
    regs = ranges_by(used[:, 0], np.where(regs_of >= 0, regs_of.astype(np.float64), np.nan), count)
    occupancy = _occupancy(recording, pairs, used, count)

    columns = {
        name: ints(recording, "configurations", name)
        for name in (
            "griddim_x", "griddim_y", "griddim_z", "blockdim_x", "blockdim_y", "blockdim_z",
            "cluster_x", "cluster_y", "cluster_z", "sharedmem_bytes", "stream",
        )
    }
    streams = _streams(recording)
    result: dict[int, list[ConfigurationSummary]] = {}
    for at in np.lexsort((pairs[:, 1], -launches)).tolist():
        owner, which = int(pairs[at, 0]), int(pairs[at, 1])

        def dims(what: str, which: int = which) -> Dims:
            x, y, z = (int(columns[f"{what}_{axis}"][which]) for axis in "xyz")
            return x, y, z

        cluster = dims("cluster")
        least = regs[at]
        result.setdefault(owner, []).append(ConfigurationSummary(
            dispatcher_id=owner,
            configuration_id=which,
            griddim=dims("griddim"),
            blockdim=dims("blockdim"),
            cluster=cluster if cluster[0] > 0 else None,
            sharedmem_bytes=int(columns["sharedmem_bytes"][which]),
            stream=streams[which],
            launches=int(launches[at]),
            errors=int(errors[at]),
            host_ns=int(host[at]),
            median_ns=float(medians[at]) if np.isfinite(medians[at]) else None,
            regs=None if least is None else (int(least[0]), int(least[1])),
            occupancy=occupancy[at],
        ))
    return result


def _streams(recording: Recording) -> list[int | None]:
    # A handle may be any 64-bit number, so that -1 cannot stand for null here.
    return [row["stream"] for row in recording.rows("configurations")]


def _occupancy(
    recording: Recording, pairs: np.ndarray[tuple[int, ...], np.dtype[np.int64]],
    used: np.ndarray[tuple[int, ...], np.dtype[np.int64]], count: int,
) -> list[tuple[float, float] | None]:
    """Range of occupancy by pair of kernel and configuration."""
    width = max(row_count(recording, "configurations"), 1)
    overload = ints(recording, "occupancies", "specialization_id")
    known = overload * width + ints(recording, "occupancies", "configuration_id")
    order = np.argsort(known, kind="stable")
    wanted = used[:, 1] * width + pairs[used[:, 0], 1]
    low = np.searchsorted(known[order], wanted, side="left")
    high = np.searchsorted(known[order], wanted, side="right")
    # One row a device: more than one only where one overload ran on several.
    repeats = high - low
    groups = np.repeat(used[:, 0], repeats)
    offsets = np.arange(repeats.sum()) - np.repeat(np.cumsum(repeats) - repeats, repeats)
    rows = order[np.repeat(low, repeats) + offsets]
    return ranges_by(groups, floats(recording, "occupancies", "occupancy")[rows], count)
