"""What a study found: estimates, differences and verdicts, computed from batches alone."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kernelscope.intervals import (
    FLOOR_US,
    NO_DIFFERENCE,
    TOO_NOISY,
    Column,
    Part,
    Values,
    intervals,
    median_interval,
    ruled_out,
    verdict_of,
)
from kernelscope.studies.result import BatchRow, Difference, Estimate, Judgement, Measured
from kernelscope.units import percent

# From batches to what intervals are computed of: one value a process, one difference a pair of processes.
#
# Batches at quiet moments are what counts: those beside which a short loop, the same always, took hardly longer
# than it does at best in that target (`kernelscope.studies.bench.timing` says why). Which they are is decided by
# that loop alone and never by what a launch took. Where they are less than half of a process's batches, the
# quieter half counts.

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
    _medians: dict[int, float] = field(default_factory=dict[int, float])

    @property
    def batches(self) -> int:
        """Return the number of batches."""
        return sum(len(rounds) for rounds in self.processes.values())

    @property
    def device_share(self) -> float:
        """Return the median of `waits`."""
        return statistics.median(self.waits)

    def counted(self, process: int) -> list[float]:
        """Return the batches of a process that count, in microseconds a launch."""
        rounds = self.processes[process]
        if process not in self.slowness:
            return list(rounds.values())
        return [rounds[number] for number in quiet_rounds(self.slow(process, rounds))]

    def median(self, process: int) -> float:
        """Return the median of a process's batches that count, in microseconds a launch."""
        if process not in self._medians:
            self._medians[process] = statistics.median(self.counted(process))
        return self._medians[process]

    def slow(self, process: int, rounds: Sequence[int] | Rounds) -> Rounds:
        """Return how slow the core was in rounds of a process."""
        known = self.slowness.get(process, {})
        return {number: known.get(number, 1.0) for number in rounds}

    def medians(self) -> Values:
        """Return the median of each process's batches, in microseconds a launch."""
        return np.array([self.median(process) for process in sorted(self.processes)])


#: By target and case.
Samples = dict[tuple[str, str], Sample]


def samples(measured: Measured) -> Samples:
    """Return the batches of each target and case that was measured, in the order of the study's targets and cases.

    The processes of a study that was made in the running process are blocks of its batches: there is only one process.
    """
    best = _best(measured)
    found: Samples = {}
    for target, case, process, number, _, _, loops, host_ns, sync_ns, _, reference_ns in measured.batches:
        # A clock that did not advance has measured nothing.
        if loops > 0 and host_ns > 0:
            sample = found.get((target, case))
            if sample is None:
                sample = found[target, case] = Sample()
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
    remaining: list[BatchRow] = []
    for (target, _, _), rows in processes.items():
        slowness = {place: row[10] / best[target] if row[10] else 1.0 for place, row in enumerate(rows)}
        remaining += [rows[place] for place in quiet_rounds(slowness)]
    return remaining


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
            if process in sample.slowness or process in other.slowness:
                one, two = sample.slow(process, rounds), other.slow(process, rounds)
                rounds = quiet_rounds({number: max(one[number], two[number]) for number in rounds})
            values.append(statistics.median([mine[number] - others[number] for number in rounds]))
        else:
            values.append(sample.median(process) - other.median(process))
    return np.array(values), shared


def middle(sample: Sample, processes: Sequence[int] | None = None) -> float:
    """Return the median of processes' medians, in microseconds a launch: of those that are named, or of all."""
    chosen = sample.processes if processes is None else processes
    return statistics.median(sample.median(process) for process in chosen)


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


# What to say besides a verdict.

#: Of fewer processes, intervals are wide whatever is measured.
FEW = 8

# A wait for the device, as a share of the launches before it, from which the device is what was waited for: its queue
# holds about a thousand launches, and a batch has some thousands.
_DEVICE_BOUND = 0.1
# More processes than these are no advice.
_MOST_PROCESSES = 100
# The share of the time that may go to others.
_QUIET = 0.02
# The share of batches that may be the quiet ones.
_OFTEN = 0.5


def device_bound(share: float) -> str:
    """Return a note that the host waited for the device for this share of its batches, or an empty text."""
    if share < _DEVICE_BOUND:
        return ""
    return (f"the wait for the device after a batch was {percent(share)} of the batch: "
            f"the device may set this pace, not the host")


def what_would_help(pairs: int, half_percent: float, limit_percent: float, measured: Measured) -> str:
    """Return what would make an interval narrower.

    Parameters
    ----------
    pairs : int
        How many pairs of processes there are.
    half_percent, limit_percent : float
        Half of the interval's width, and above which it is too wide.
    measured : Measured
        Whose host may be noisy.
    """
    one, many = ("block of batches", "blocks of batches") if measured.is_live else ("process", "processes")
    if pairs < 2:
        return (f"one {one} of each cannot tell a difference of versions from that between {many}: "
                f"measure at least {FEW}")
    needed = math.ceil(pairs * (half_percent / limit_percent) ** 2)
    hints = [f"the interval is {percent(half_percent / 100)} to each side"]
    if pairs < FEW:
        hints.append(f"{pairs} {many} are few: measure at least {FEW}")
    elif needed <= _MOST_PROCESSES:
        hints.append(f"about {needed} {many} instead of {pairs} would bring it below {percent(limit_percent / 100)}")
    else:
        hints.append(f"more {many} alone would not do")
    return "; ".join([*hints, *noise(measured.host)])


def noise(host: dict[str, Any]) -> list[str]:
    """Return the reasons why the host is noisy.

    Parameters
    ----------
    host : dict
        `Measured.host`; what it does not say is not guessed.
    """
    hints: list[str] = []
    lost = host.get("noise")
    if isinstance(lost, int | float) and lost > _QUIET:
        hints.append(f"{percent(lost)} of the processor's time went to others: close what else runs")
    quiet = host.get("quiet")
    if isinstance(quiet, int | float) and quiet < _OFTEN:
        hints.append(f"only {percent(quiet)} of the batches ran at quiet moments")
    if "pinned_to" in host and host["pinned_to"] is None:
        hints.append("the processes were not pinned to a processor")
    governor = host.get("governor")
    if isinstance(governor, str) and governor not in ("", "performance"):
        hints.append(f"the frequency governor is {governor}, not performance")
    return hints


# What a study found: estimates, differences and verdicts, computed from batches alone.
#
# How a difference is judged, and why so:
#
# - **The unit is a process.** Two processes of one version differ, by 1 to 2 %, as hash seeds and places in memory
#   do, and nothing that is repeated inside a process tells by how much. So there are several processes of each
#   target, and each gives one value: the median of its batches.
# - **They are paired.** The n-th processes of all targets run side by side, their batches in turn. What is compared
#   is taken from the rounds of such a pair: the median of the rounds' differences. What slows the host down for a
#   while, or from some time on, hits both.
# - **The difference** is the trimmed mean of the pairs' (one in 8 left out at each end), which a process that a
#   neighbour disturbed hardly moves. It is close to the difference of the two medians, and need not be equal to it.
# - **Its interval** is a bootstrap-t interval: the resampling above says how. All differences of a study, of all
#   cases and targets, hold within theirs together with 95 %: this is the correction for their number.
# - **The verdict** follows from it. Without zero: faster or slower. With zero: too noisy, if half of its width is
#   more than 5 % of the baseline (and more than 0.05 µs); else no difference seen, with what is ruled out.
#
# What it assumes: that differences between processes of one version are as likely up as down, and that pairs are
# independent of one another. What it cannot know: what all processes of a target have in common and its next
# installation has not (where a library was built, what is beside it in memory at every start); what another day or
# temperature would bring. Fewer than 8 processes make wide intervals, honestly so.
#
# On simulated timings with the noise of real ones (``tests/helpers/study_noise.py``) the tests hold it to: at
# most 5 of 100 studies of equal targets find any difference, at least 94 % of intervals hold a difference that is
# there, and 2 % are found.

_LIVE = ("Everything was measured in one process: intervals say how batches differ, not how processes would, so that "
         "another process may find other differences.")
_TWO_STUDIES = ("The two studies ran at different times: what else changed between them, such as the processor's "
                "frequency or temperature, is in the differences and not in their intervals.")


def judge(measured: Measured, *, confidence: float = 0.95, resolution: float = 0.05, seed: int = 0) -> Judgement:
    """Return what a study found: the same for the same measurements.

    Each case is compared with itself in the baseline, the first target; and, if it has a case to be compared with, with
    that one in the same target.

    Parameters
    ----------
    measured : Measured
        Whatever was measured: targets, cases and processes may be missing. Pairs are made of what is there.
    confidence : float
        How probable it is that the intervals of all differences hold together.
    resolution : float
        Half of an interval that is wider than this share of the baseline is too noisy, if it holds zero.
    seed : int
        For the resampling.
    """
    found = samples(measured)
    return _judged(_comparisons(measured, found), _paired_column, found, measured, confidence, resolution, seed,
                   (_LIVE,) if measured.is_live else ())


def judge_unpaired(old: Measured, new: Measured, *, confidence: float = 0.95, resolution: float = 0.05,
                   seed: int = 0) -> Judgement:
    """Return how two studies differ, in targets of the same label and cases of the same name and code.

    Their processes did not run side by side, so that they are not paired: what the machine did between the two studies
    is in the differences.

    Parameters
    ----------
    old, new : Measured
        The studies. The old one is the baseline; what it is called in `Difference.baseline` is ``old``.
    confidence, resolution, seed : float, float, int
        As for `judge`.

    Returns
    -------
    Judgement
        The estimates are those of the new study.
    """
    before, after = samples(old), samples(new)
    notes = [_TWO_STUDIES]
    old_code, new_code = _code(old), _code(new)
    changed = [name for name, code in new_code.items() if old_code.get(name, code) != code]
    if changed:
        notes.append(f"Not compared, as their code has changed: {', '.join(changed)}.")
    comparisons = [_Comparison(target, case, "old", False, sample, before[target, case])
                   for (target, case), sample in after.items() if (target, case) in before and case not in changed]
    if old.is_live or new.is_live:
        notes.append(_LIVE)
    return _judged(comparisons, _unpaired_column, after, new, confidence, resolution, seed, tuple(notes))


@dataclass(frozen=True)
class _Comparison:
    """A target and case with a baseline, and the batches of both."""

    target: str
    case: str
    baseline: str
    within: bool
    sample: Sample
    other: Sample


def _comparisons(measured: Measured, found: Samples) -> list[_Comparison]:
    """Return what is compared with what: targets and cases that have at least one process in common."""
    first = measured.targets[0].label if measured.targets else ""
    against = {case.name: case.against for case in measured.cases}
    pairs = [_Comparison(target, case, first, False, sample, found[first, case])
             for (target, case), sample in found.items() if target != first and (first, case) in found]
    pairs += [_Comparison(target, case, other, True, sample, found[target, other])
              for (target, case), sample in found.items()
              if (other := against[case]) is not None and (target, other) in found]
    return [each for each in pairs if each.sample.processes.keys() & each.other.processes.keys()]


def _paired_column(each: _Comparison) -> Column:
    values, processes = paired(each.sample, each.other)
    scale = math.hypot(middle(each.sample, processes), middle(each.other, processes))
    return Column(Part(values, np.array(processes)), scale=scale)


def _unpaired_column(each: _Comparison) -> Column:
    parts = [Part(one.medians(), np.array(sorted(one.processes))) for one in (each.sample, each.other)]
    return Column(parts[0], parts[1], scale=math.hypot(middle(each.sample), middle(each.other)))


def _judged(comparisons: Sequence[_Comparison], column_of: Callable[[_Comparison], Column], found: Samples,
            measured: Measured, confidence: float, resolution: float, seed: int, notes: tuple[str, ...]) -> Judgement:
    columns = [column_of(each) for each in comparisons]
    centres, halves = intervals(columns, confidence, seed)
    differences = tuple(_difference(each, min(column.sizes), float(centre), float(half), measured, resolution)
                        for each, column, centre, half in zip(comparisons, columns, centres, halves, strict=True))
    estimates = tuple(_estimate(key, sample, seed, measured.is_live) for key, sample in found.items())
    return Judgement(estimates, differences, confidence, len(differences), notes)


def _difference(each: _Comparison, pairs: int, centre: float, half: float, measured: Measured,
                resolution: float) -> Difference:
    """Return a difference with its verdict, of its middle and half of its interval's width in microseconds."""
    baseline = middle(each.other)
    of_percent = 100 / baseline
    low, high = centre - half, centre + half
    limit = max(resolution * baseline, FLOOR_US)
    advice = [device_bound(max(each.sample.device_share, each.other.device_share))]
    verdict = verdict_of(low, high, half, limit)
    if verdict == TOO_NOISY:
        advice.insert(0, what_would_help(pairs, half * of_percent, limit * of_percent, measured))
    elif verdict == NO_DIFFERENCE:
        advice.insert(0, ruled_out(low * of_percent, high * of_percent))
    return Difference(each.target, each.case, each.baseline, each.within, centre, low, high, centre * of_percent,
                      low * of_percent, high * of_percent, verdict, "; ".join(filter(None, advice)), pairs)


def _estimate(key: tuple[str, str], sample: Sample, seed: int, is_live: bool) -> Estimate:
    values = sample.medians()
    low, high = median_interval(values, 0.95, seed)
    spread = float(values.std(ddof=1)) if len(values) > 1 else 0.0
    return Estimate(*key, float(np.median(values)), float(values.mean()), spread, low, high,
                    1 if is_live else len(values), sample.batches)


def _code(measured: Measured) -> dict[str, tuple[str, str, str, str]]:
    """Return what each case runs."""
    return {case.name: (case.statement, case.setup, case.before, case.after) for case in measured.cases}
