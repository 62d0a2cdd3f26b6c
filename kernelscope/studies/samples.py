"""From batches to what intervals are computed of: one value a process, one difference a pair of processes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from kernelscope.studies.measured import Measured
from kernelscope.studies.resampling import Values

#: How many blocks the batches of a single process are divided into, where there is no other process to compare.
BLOCKS = 16


@dataclass
class Sample:
    """The batches of one case in one target.

    Attributes
    ----------
    processes : dict of int to dict of int to float
        Microseconds a launch, by round, by process.
    waits : list of float
        Of each batch: the wait for the device after it, as a share of the time of its launches.
    """

    processes: dict[int, dict[int, float]] = field(default_factory=dict[int, dict[int, float]])
    waits: list[float] = field(default_factory=list[float])

    @property
    def batches(self) -> int:
        """How many there are."""
        return sum(len(rounds) for rounds in self.processes.values())

    @property
    def device_share(self) -> float:
        """The median of `waits`."""
        return float(np.median(self.waits))

    def medians(self) -> Values:
        """The median of each process's batches, in microseconds a launch."""
        return np.array([np.median(list(rounds.values())) for _, rounds in sorted(self.processes.items())])


def samples(measured: Measured) -> dict[tuple[str, str], Sample]:
    """Return the batches of each target and case that was measured, in the order of the study's targets and cases.

    The processes of a study that was made in the running process are blocks of its batches: there is only one process.
    """
    found: dict[tuple[str, str], Sample] = {}
    for target, case, process, number, _, _, loops, host_ns, sync_ns, _ in measured.batches:
        # A clock that did not advance has measured nothing.
        if loops > 0 and host_ns > 0:
            sample = found.setdefault((target, case), Sample())
            sample.processes.setdefault(process, {})[number] = host_ns / loops / 1e3
            sample.waits.append(sync_ns / host_ns)
    if measured.is_live:
        for sample in found.values():
            if len(sample.processes) == 1:
                (rounds,) = sample.processes.values()
                sample.processes = _blocks(rounds)
    order = [(target.label, case.name) for target in measured.targets for case in measured.cases]
    return {key: found[key] for key in order if key in found}


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
            values.append(float(np.median([mine[number] - others[number] for number in rounds])))
        else:
            values.append(float(np.median(list(mine.values())) - np.median(list(others.values()))))
    return np.array(values), shared


def middle(sample: Sample, processes: Sequence[int] | None = None) -> float:
    """Return the median of processes' medians, in microseconds a launch: of those that are named, or of all."""
    chosen = sample.processes if processes is None else {number: sample.processes[number] for number in processes}
    return float(np.median(Sample(dict(chosen)).medians()))


def _blocks(rounds: dict[int, float]) -> dict[int, dict[int, float]]:
    """Return batches of one process as at most `BLOCKS` blocks of rounds that followed one another."""
    # By the round's number, so that the blocks of all cases hold the same rounds.
    length = -(-(max(rounds) + 1) // BLOCKS)
    blocks: dict[int, dict[int, float]] = {}
    for number, value in rounds.items():
        blocks.setdefault(number // length, {})[number] = value
    return blocks
