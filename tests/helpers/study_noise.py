"""Studies of launch overhead that were never run: batches with the noise of real ones.

Its size was fitted to A/A studies on the dry run with the default settings: three processes side by side, 20
generations of them, 25 batches of 2 ms of 5 cases, on 4 cores that others used as well. There:

- Two processes of one version, compared round by round, differ with a standard deviation of 1.3 to 1.8 % (2.6 % where
  others took a third of the processor's time), of which about 1.1 % is common to all cases.
- Batches scatter around their process's median with 2.8 to 3.4 %, as far as quartiles say; 5 in 100 are 6 to 8 % above
  it, 1 in 100 is 10 to 25 % above it, and 1 in 100 is 8 % below. Some of that hits all targets in a round (correlated
  with 0.3 to 0.4), and some lasts: the two halves of a process differ by 2.0 to 2.3 %, where independent batches would
  by 1.4 to 1.7 %.
- The whole host drifts, and steps by some per cent while a study runs: generations scatter with 1.7 to 2.6 %.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from kernelscope.studies.result import BatchRow, CaseReport, Measured, TargetReport
from kernelscope.studies.runner import BATCH_MS, PROCESSES, REPEATS

#: What a launch takes with 0 to 4 arguments, in microseconds.
CASES = {"0 arguments": 4.0, "1 argument": 7.0, "2 arguments": 10.0, "3 arguments": 13.0, "4 arguments": 16.0}


@dataclass(frozen=True)
class Noise:
    """What moves timings, each as a standard deviation or a mean in per cent, or as how often in batches."""

    process: float = 0.75
    process_and_case: float = 0.6
    # Of Student's t with three degrees of freedom: its tails are as long as those of real batches, on both sides.
    batch: float = 2.1
    # From round to round of a generation, of all targets.
    walk: float = 0.25
    drift: float = 0.4
    step: float = 4.0
    # All targets of a round; single batches; and all batches of a generation, while a neighbour works.
    round_rate: float = 0.12
    round_size: float = 5.0
    batch_rate: float = 0.02
    batch_size: float = 9.0
    neighbour_rate: float = 0.1
    neighbour_size: float = 3.0
    twice_rate: float = 0.003


NONE = Noise(*[0] * 13)
#: A host that does nothing else.
QUIET = Noise(process=0.4, process_and_case=0.4, batch=1.5, walk=0.1, drift=0.2, step=1, round_rate=0.05)


def times(chance: np.random.Generator, processes: int, repeats: int, targets: int, cases: int,
          noise: Noise = Noise()) -> np.ndarray:
    """By how much each batch takes longer: factors of shape (processes, repeats, targets, cases)."""
    n, r, t, c = processes, repeats, targets, cases
    percent = chance.normal(0, 1, (n, 1, t, 1)) * noise.process
    percent = percent + chance.normal(0, 1, (n, 1, t, c)) * noise.process_and_case
    percent = percent + chance.standard_t(3, (n, r, t, c)) * noise.batch
    percent = percent + np.cumsum(chance.normal(0, 1, (n, r)), axis=1)[:, :, None, None] * noise.walk
    percent = percent + np.cumsum(chance.normal(0, 1, n))[:, None, None, None] * noise.drift
    percent = percent + (np.arange(n) >= chance.integers(0, n))[:, None, None, None] * noise.step
    disturbed = (chance.random((n, r, 1, c)) < noise.round_rate) * chance.exponential(1, (n, r, 1, c))
    percent = percent + noise.round_size * disturbed * chance.uniform(0.5, 1.5, (n, r, t, c))
    percent = percent + (chance.random((n, r, t, c)) < noise.batch_rate) * chance.exponential(
        1, (n, r, t, c)) * noise.batch_size
    percent = percent + (chance.random((n, 1, 1, 1)) < noise.neighbour_rate) * chance.exponential(
        1, (n, r, t, c)) * noise.neighbour_size
    return np.exp(percent / 100) * np.where(chance.random((n, r, t, c)) < noise.twice_rate, 2, 1)


def study(seed: int, *, targets: int = 3, cases: Mapping[str, float] = CASES,
          processes: int = PROCESSES, repeats: int = REPEATS,
          slower: Mapping[tuple[str, str], float] | None = None, against: Mapping[str, str] | None = None,
          noise: Noise = Noise(), live: bool = False) -> Measured:
    """A study of targets ``t0`` (the baseline), ``t1``, ... of the same speed.

    Parameters
    ----------
    slower : mapping of (target, case) to float
        Where one is slower, and by which share; a case of ``*`` is all of a target's.
    against : mapping of str to str
        Cases that are compared within a target, and with which.
    """
    slower, against = slower or {}, against or {}
    labels = [f"t{number}" for number in range(targets)]
    factors = times(np.random.default_rng(seed), processes, repeats, targets, len(cases), noise)
    for (label, name) in slower:
        chosen = list(range(len(cases))) if name == "*" else [list(cases).index(name)]
        factors[:, :, labels.index(label), chosen] *= 1 + slower[label, name]
    loops = [round(BATCH_MS * 1000 / us) for us in cases.values()]
    ns = np.array([each * us * 1000 for each, us in zip(loops, cases.values(), strict=True)])
    took_ns = np.rint(factors * ns).astype(np.int64).swapaxes(2, 3).ravel().tolist()
    turns = itertools.product(range(processes), range(repeats), zip(cases, loops, strict=True), labels)
    batches: list[BatchRow] = [
        (label, name, process, number, place, 0, each, host_ns, 2_000, 0, 0)
        for place, ((process, number, (name, each), label), host_ns) in enumerate(zip(turns, took_ns, strict=True))]
    return Measured([TargetReport(label, "current", "", processes=processes) for label in labels],
                    [CaseReport(name, f"k{place}[1, 1]()", args=place, against=against.get(name))
                     for place, name in enumerate(cases)], batches, is_live=live)


def without(measured: Measured, *, target: str | None = None, case: str | None = None, since: int = 0) -> Measured:
    """A study without the batches of a target, a case, or both, from a process on."""
    measured.batches = [row for row in measured.batches
                        if not (target in (None, row[0]) and case in (None, row[1]) and row[2] >= since)]
    return measured
