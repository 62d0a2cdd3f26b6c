"""From batches to what intervals are computed of: one value a process, one difference a pair of processes.

Batches at quiet moments are what counts: those beside which a short loop, the same always, took hardly longer than it
does at best in that target (`kernelscope.studies.bench.quiet` says why). Which they are is decided by that loop alone
and never by what a launch took. Where they are less than half of a process's batches, the quieter half counts.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from kernelscope.studies.measured import BatchRow, Measured
from kernelscope.studies.resampling import Values

#: How many blocks the batches of a single process are divided into, where there is no other process to compare.
BLOCKS = 16
#: A moment is quiet where the reference takes at most so many times as long as at best. On the host of an H100 it took
#: up to 1.2 times as long while nobody was beside it, and 1.5 to 2 times as long else.
QUIET = 1.2

# One of so many batches counts at least. With fewer than half, differences on a busy host varied by a quarter more.
_ONE_OF = 2
# The share of a target's references that are taken for the best ones.
_BEST = 0.05

Rounds = dict[int, float]


@dataclass
class Sample:
    """The batches of one case in one target.

    Attributes
    ----------
    processes : dict of int to dict of int to float
        Microseconds a launch, by round, by process.
    slowness : dict of int to dict of int to float
        How many times as long as at best the reference took, by round, by process; of what is not in it, 1.
    waits : list of float
        Of each batch: the wait for the device after it, as a share of the time of its launches.
    """

    processes: dict[int, Rounds] = field(default_factory=dict[int, Rounds])
    slowness: dict[int, Rounds] = field(default_factory=dict[int, Rounds])
    waits: list[float] = field(default_factory=list[float])

    @property
    def batches(self) -> int:
        """How many there are."""
        return sum(len(rounds) for rounds in self.processes.values())

    @property
    def device_share(self) -> float:
        """The median of `waits`."""
        return statistics.median(self.waits)

    def counted(self, process: int) -> list[float]:
        """Return the batches of a process that count, in microseconds a launch."""
        rounds = self.processes[process]
        return [rounds[number] for number in quiet_rounds(self.slow(process, rounds))]

    def slow(self, process: int, rounds: Sequence[int] | Rounds) -> Rounds:
        """Return how slow the core was in rounds of a process."""
        known = self.slowness.get(process, {})
        return {number: known.get(number, 1.0) for number in rounds}

    def medians(self) -> Values:
        """The median of each process's batches, in microseconds a launch."""
        return np.array([statistics.median(self.counted(process)) for process in sorted(self.processes)])


def samples(measured: Measured) -> dict[tuple[str, str], Sample]:
    """Return the batches of each target and case that was measured, in the order of the study's targets and cases.

    The processes of a study that was made in the running process are blocks of its batches: there is only one process.
    """
    best = _best(measured)
    found: dict[tuple[str, str], Sample] = {}
    for target, case, process, number, _, _, loops, host_ns, sync_ns, _, reference_ns in measured.batches:
        # A clock that did not advance has measured nothing.
        if loops > 0 and host_ns > 0:
            sample = found.setdefault((target, case), Sample())
            sample.processes.setdefault(process, {})[number] = host_ns / loops / 1e3
            sample.waits.append(sync_ns / host_ns)
            if reference_ns:
                sample.slowness.setdefault(process, {})[number] = reference_ns / best[target]
    if measured.is_live:
        for sample in found.values():
            if len(sample.processes) == 1:
                (process,) = sample.processes
                slowness = sample.slow(process, sample.processes[process])
                sample.slowness, sample.processes = _blocks(slowness), _blocks(sample.processes[process])
    order = [(target.label, case.name) for target in measured.targets for case in measured.cases]
    return {key: found[key] for key in order if key in found}


def quiet_rounds(slowness: Mapping[int, float]) -> list[int]:
    """Return the rounds that count, of those whose slowness is given: the quiet ones, and the quieter half at least."""
    quiet = [number for number, slow in slowness.items() if slow <= QUIET]
    least = math.ceil(len(slowness) / _ONE_OF)
    return quiet if len(quiet) >= least else sorted(slowness, key=slowness.__getitem__)[:least]


def counting(measured: Measured) -> list[BatchRow]:
    """Return the batches that count, each for itself: in a pair of processes both of a round have to be quiet."""
    best = _best(measured)
    processes: dict[tuple[str, str, int], list[BatchRow]] = {}
    for row in measured.batches:
        processes.setdefault(row[:3], []).append(row)
    kept: list[BatchRow] = []
    for (target, _, _), rows in processes.items():
        slowness = {place: row[10] / best[target] if row[10] else 1.0 for place, row in enumerate(rows)}
        kept += [rows[place] for place in quiet_rounds(slowness)]
    return kept


def quiet_share(measured: Measured) -> float | None:
    """Return the share of batches at quiet moments, 0 to 1; None where nothing tells."""
    best = _best(measured)
    known = [row[10] <= QUIET * best[row[0]] for row in measured.batches if row[10]]
    return sum(known) / len(known) if known else None


def paired(sample: Sample, other: Sample) -> tuple[Values, list[int]]:
    """Return how much more `sample` takes than `other`, in microseconds a launch, and in which processes.

    The batches of a round ran directly after one another, so that what disturbs one often disturbs the other as well:
    the value of a pair of processes is the median of the rounds' differences. Without common rounds, it is the
    difference of medians.
    """
    values: list[float] = []
    shared = sorted(sample.processes.keys() & other.processes.keys())
    for process in shared:
        mine, others = sample.processes[process], other.processes[process]
        rounds = sorted(mine.keys() & others.keys())
        if rounds:
            one, two = sample.slow(process, rounds), other.slow(process, rounds)
            counted = quiet_rounds({number: max(one[number], two[number]) for number in rounds})
            values.append(statistics.median([mine[number] - others[number] for number in counted]))
        else:
            values.append(statistics.median(sample.counted(process)) - statistics.median(other.counted(process)))
    return np.array(values), shared


def middle(sample: Sample, processes: Sequence[int] | None = None) -> float:
    """Return the median of processes' medians, in microseconds a launch: of those that are named, or of all."""
    chosen = sample.processes if processes is None else processes
    return statistics.median(statistics.median(sample.counted(process)) for process in chosen)


def _best(measured: Measured) -> dict[str, float]:
    """Return what the reference takes at best in each target, in nanoseconds."""
    references: dict[str, list[int]] = {}
    for row in measured.batches:
        if row[10]:
            references.setdefault(row[0], []).append(row[10])
    return {target: float(np.quantile(held, _BEST)) for target, held in references.items()}


def _blocks(rounds: Rounds) -> dict[int, Rounds]:
    """Return batches of one process as at most `BLOCKS` blocks of rounds that followed one another."""
    # By the round's number, so that the blocks of all cases hold the same rounds.
    length = -(-(max(rounds) + 1) // BLOCKS)
    blocks: dict[int, Rounds] = {}
    for number, value in rounds.items():
        blocks.setdefault(number // length, {})[number] = value
    return blocks
