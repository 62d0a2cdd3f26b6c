"""Launch configurations by kernel: which grids and blocks each one ran with, and how often.

A stream's handle tells streams of one device apart: that of the default stream is 0 on each. So a configuration that
was launched on several devices counts as one for each of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelscope.analysis.columns import (
    Bools,
    Ints,
    count_by,
    floats,
    ints,
    percentiles_by,
    raised,
    ran,
    ranges_by,
    row_count,
    sum_by,
    unique_pairs,
)
from kernelscope.analysis.phases import LaunchPhases, launch_phases
from kernelscope.recording.model import Recording
from kernelscope.schema import UNKNOWN

Dims = tuple[int, int, int]

_SHAPE = (*(f"{what}_{axis}" for what in ("griddim", "blockdim", "cluster") for axis in "xyz"), "sharedmem_bytes")


@dataclass(frozen=True)
class ConfigurationSummary:
    """One launch configuration of one kernel; what was not recorded is None.

    Attributes
    ----------
    dispatcher_id, configuration_id : int
        The kernel, and the row in ``configurations``.
    griddim, blockdim : tuple of int, or None
        Blocks, and threads a block, along x, y, z; None where the framework hides them.
    cluster : tuple of int, or None
        Blocks a cluster along x, y, z; None without clusters.
    sharedmem_bytes : int or None
        Dynamic shared memory a block; None likewise.
    stream : int or None
        The stream's handle; 0 is the default stream. None where all launches were captured: a node has no stream.
    device : int or None
        The ordinal of the stream's device, where the recording has launches on several; else None.
    launches, captured, errors : int
        Launches with it that ran, those that went into the capture of a graph, and how many raised.
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
    griddim: Dims | None
    blockdim: Dims | None
    cluster: Dims | None
    sharedmem_bytes: int | None
    stream: int | None
    device: int | None
    launches: int
    captured: int
    errors: int
    host_ns: int
    median_ns: float | None
    regs: tuple[int, int] | None
    occupancy: tuple[float, float] | None

    @property
    def blocks(self) -> int | None:
        """Blocks of the grid; None where the framework hides it."""
        return None if self.griddim is None else math.prod(self.griddim)

    @property
    def threads_per_block(self) -> int | None:
        """Threads of a block; None where the framework hides it."""
        return None if self.blockdim is None else math.prod(self.blockdim)


class Configurations:
    """Launch configurations by kernel, held as arrays: rows are made only of those that are asked for.

    Parameters
    ----------
    recording : Recording
        What was recorded.
    phases : LaunchPhases, optional
        `launch_phases` of it, where they are at hand.
    """

    def __init__(self, recording: Recording, phases: LaunchPhases | None = None) -> None:
        phases = phases or launch_phases(recording)
        dispatcher = ints(recording, "launches", "dispatcher_id")
        run = ran(recording)
        keys, width = by_device(recording, configurations_of(recording, run))
        pairs, pair = unique_pairs(dispatcher, keys)
        count = len(pairs)
        self._launches, self._captured = count_by(pair, count, run), count_by(pair, count, ~run)
        self._errors = count_by(pair, count, raised(recording))
        self._host = sum_by(pair, phases.own_ns, count)
        self._medians = percentiles_by(pair, phases.own_ns, count, (0.5,))[:, 0]
        self._owner, self._which, self._device = pairs[:, 0], pairs[:, 1] // width, pairs[:, 1] % width - 1
        self._ordinals = [row["ordinal"] for row in recording.rows("devices")]
        self._order = np.lexsort((pairs[:, 1], -self._captured, -self._launches, self._owner))
        size = row_count(recording, "dispatchers")
        self._ends = np.cumsum(np.bincount(self._owner, minlength=size))

        # An overload's registers and occupancy belong to each pair that launched it.
        used, _ = unique_pairs(pair, ints(recording, "launches", "specialization_id"))
        regs = ints(recording, "specializations", "regs")[used[:, 1]]
        self._regs = ranges_by(used[:, 0], np.where(regs >= 0, regs.astype(np.float64), np.nan), count)
        self._occupancy = _occupancy(recording, self._which, self._device if width > 1 else None, used, count, run)
        self._rows = recording.rows("configurations")

    @property
    def dispatchers(self) -> list[int]:
        """Kernels that were launched, by dispatcher id."""
        return np.unique(self._owner).tolist()

    def count(self, dispatcher: int) -> int:
        """Return how many launch configurations the kernel has."""
        return len(self._of(dispatcher))

    def of(self, dispatcher: int, most: int | None = None) -> list[ConfigurationSummary]:
        """Return the kernel's launch configurations, most launches first; all of them, or at most `most`."""
        return [self._summary(at) for at in self._of(dispatcher)[:most].tolist()]

    def _of(self, dispatcher: int) -> Ints:
        if not 0 <= dispatcher < len(self._ends):
            return self._order[:0]
        begin = int(self._ends[dispatcher - 1]) if dispatcher else 0
        return self._order[begin:int(self._ends[dispatcher])]

    def _summary(self, at: int) -> ConfigurationSummary:
        row = self._rows[int(self._which[at])]
        regs = self._regs[at]
        median = float(self._medians[at])
        return ConfigurationSummary(
            dispatcher_id=int(self._owner[at]),
            configuration_id=int(self._which[at]),
            griddim=dims(row, "griddim"),
            blockdim=dims(row, "blockdim"),
            cluster=dims(row, "cluster"),
            sharedmem_bytes=row["sharedmem_bytes"],
            stream=row["stream"] if self._launches[at] else None,
            device=None if self._device[at] < 0 else self._ordinals[int(self._device[at])],
            launches=int(self._launches[at]),
            captured=int(self._captured[at]),
            errors=int(self._errors[at]),
            host_ns=int(self._host[at]),
            median_ns=median if np.isfinite(median) else None,
            regs=None if regs is None else (int(regs[0]), int(regs[1])),
            occupancy=self._occupancy[at],
        )


def by_configuration(
    recording: Recording, phases: LaunchPhases | None = None
) -> dict[int, list[ConfigurationSummary]]:
    """Summarize launch configurations by kernel (dispatcher id), most launches first."""
    held = Configurations(recording, phases)
    return {dispatcher: held.of(dispatcher) for dispatcher in held.dispatchers}


def configurations_of(recording: Recording, run: Bools | None = None) -> Ints:
    """Return the launch configuration of each launch: a row of ``configurations``, -1 where it has none.

    A graph's node has no stream: a captured launch counts to a configuration that is the same but for its stream, of
    launches that ran where there is one.

    Parameters
    ----------
    recording : Recording
        What was recorded.
    run : ndarray of bool, optional
        `kernelscope.analysis.columns.ran` of it, where it is at hand.
    """
    own = ints(recording, "launches", "configuration_id")
    run = ran(recording) if run is None else run
    if run.all():
        return own
    return np.where(run, own, _same_but_for_streams(recording, own[run])[own])


def by_device(recording: Recording, configurations: Ints) -> tuple[Ints, int]:
    """Return a number for each launch, equal for one configuration on one device, and how many a configuration has.

    Divided by the second the first is the configuration, and the rest less 1 the device; all rests are 0 where no two
    devices were launched on. A launch without a configuration has -1.

    Parameters
    ----------
    recording : Recording
        What was recorded.
    configurations : ndarray of int64
        `configurations_of` it.
    """
    device = ints(recording, "launches", "device_id")
    if not bool((device >= 0).any()) or int(device[device >= 0].min()) == int(device.max()):
        return configurations, 1
    width = int(device.max()) + 2
    return np.where(configurations < 0, UNKNOWN, configurations * width + device + 1), width


def _same_but_for_streams(recording: Recording, preferred: Ints) -> Ints:
    """For each row of ``configurations`` the one that stands for all of its shape, of `preferred` if it can be."""
    rows = recording.rows("configurations")
    shapes = [tuple(row[name] for name in _SHAPE) for row in rows]
    used = np.zeros(len(rows) + 1, dtype=np.bool_)
    used[preferred] = True
    first: dict[tuple[Any, ...], int] = {}
    for at in sorted(range(len(rows)), key=lambda each: not used[each]):
        first.setdefault(shapes[at], at)
    return np.array([*(first[shape] for shape in shapes), UNKNOWN], dtype=np.int64)


def dims(row: Mapping[str, Any], what: str) -> Dims | None:
    """Return the three dimensions called `what` (griddim, blockdim or cluster) of a row of ``configurations``.

    None where there are none: a framework that hides its grid, a launch without clusters.
    """
    if row[f"{what}_x"] is None:
        return None
    x, y, z = (int(row[f"{what}_{axis}"] or 1) for axis in "xyz")
    return x, y, z


def _occupancy(recording: Recording, which: Ints, device: Ints | None, used: Ints, count: int,
               run: Bools) -> list[tuple[float, float] | None]:
    """Range of occupancy by pair of kernel and configuration, on a device; `used` are its pairs with overloads."""
    width = max(row_count(recording, "configurations"), 1)
    overload, shape = (ints(recording, "occupancies", f"{name}_id") for name in ("specialization", "configuration"))
    if not run.all():  # a captured launch counts to another configuration than the one that was asked about
        shared = _same_but_for_streams(recording, which)
        shape, which = shared[shape], shared[which]
    known = overload * width + shape
    wanted = used[:, 1] * width + which[used[:, 0]]
    if device is not None:
        devices = max(row_count(recording, "devices"), 1)
        known = known * devices + ints(recording, "occupancies", "device_id")
        wanted = np.where(device[used[:, 0]] < 0, UNKNOWN, wanted * devices + device[used[:, 0]])
    order = np.argsort(known, kind="stable")
    low = np.searchsorted(known[order], wanted, side="left")
    high = np.searchsorted(known[order], wanted, side="right")
    # One row a device: more than one only where one overload ran on several.
    repeats = high - low
    groups = np.repeat(used[:, 0], repeats)
    offsets = np.arange(repeats.sum()) - np.repeat(np.cumsum(repeats) - repeats, repeats)
    rows = order[np.repeat(low, repeats) + offsets]
    return ranges_by(groups, floats(recording, "occupancies", "occupancy")[rows], count)
