"""What a study found: estimates, differences and verdicts, computed from batches alone.

How a difference is judged, and why so:

- **The unit is a process.** Two processes of one version differ, by 1 to 2 %, as hash seeds and places in memory do,
  and nothing that is repeated inside a process tells by how much. So there are several processes of each target, and
  each gives one value: the median of its batches.
- **They are paired.** The n-th processes of all targets run side by side, their batches in turn. What is compared is
  taken from the rounds of such a pair: the median of the rounds' differences. What slows the host down for a while,
  or from some time on, hits both.
- **The difference** is the trimmed mean of the pairs' (one in 8 left out at each end), which a process that a
  neighbour disturbed hardly moves. It is close to the difference of the two medians, and need not be equal to it.
- **Its interval** is a bootstrap-t interval: `kernelscope.studies.resampling` says how. All differences of a study, of
  all cases and targets, hold within theirs together with 95 %: this is the correction for their number.
- **The verdict** follows from it. Without zero: faster or slower. With zero: too noisy, if half of its width is more
  than 5 % of the baseline (and more than 0.05 µs); else no difference seen, with what is ruled out.

What it assumes: that differences between processes of one version are as likely up as down, and that pairs are
independent of one another. What it cannot know: what all processes of a target have in common and its next
installation has not (where a library was built, what is beside it in memory at every start); what another day or
temperature would bring. Fewer than 8 processes make wide intervals, honestly so.

On simulated timings with the noise of real ones (``tests/helpers/study_noise.py``) the tests hold it to: at most 5 of
100 studies of equal targets find any difference, at least 94 % of intervals hold a difference that is there, and 2 %
are found.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kernelscope.studies.advice import Situation, device_bound, ruled_out, what_would_help
from kernelscope.studies.judged import (
    FASTER,
    NO_DIFFERENCE,
    SLOWER,
    TOO_NOISY,
    Difference,
    Estimate,
    Judgement,
)
from kernelscope.studies.measured import Measured
from kernelscope.studies.resampling import Column, Part, intervals, median_interval
from kernelscope.studies.samples import Sample, middle, paired, samples

#: Half of an interval may be this wide before it is too noisy, in microseconds a launch, whatever its share.
FLOOR_US = 0.05

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
    asked = [_asked(key, baseline, within, found) for key, baseline, within in _comparisons(measured, found)]
    columns = [_paired_column(one) for one in asked]
    differences = _differences(asked, columns, measured, confidence, resolution, seed)
    estimates = tuple(_estimate(key, sample, seed, measured.is_live) for key, sample in found.items())
    return Judgement(estimates, differences, confidence, len(differences), (_LIVE,) if measured.is_live else ())


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
    asked = [_Asked(target, case, "old", False, sample, before[target, case])
             for (target, case), sample in after.items() if (target, case) in before and case not in changed]
    columns = [_unpaired_column(one) for one in asked]
    differences = _differences(asked, columns, new, confidence, resolution, seed)
    estimates = tuple(_estimate(key, sample, seed, new.is_live) for key, sample in after.items())
    if old.is_live or new.is_live:
        notes.append(_LIVE)
    return Judgement(estimates, differences, confidence, len(differences), tuple(notes))


@dataclass(frozen=True)
class _Asked:
    """A comparison: of which target and case, with what, and the batches of both."""

    target: str
    case: str
    baseline: str
    within: bool
    sample: Sample
    other: Sample


def _comparisons(measured: Measured,
                 found: dict[tuple[str, str], Sample]) -> list[tuple[tuple[str, str], tuple[str, str], bool]]:
    """Return what is compared with what, and whether within a target: what has at least one process in common."""
    first = measured.targets[0].label if measured.targets else ""
    against = {case.name: case.against for case in measured.cases}
    pairs = [((target, case), (first, case), False) for target, case in found if target != first]
    pairs += [((target, case), (target, other), True) for target, case in found if (other := against[case]) is not None]
    return [(key, baseline, within) for key, baseline, within in pairs
            if baseline in found and found[key].processes.keys() & found[baseline].processes.keys()]


def _asked(key: tuple[str, str], baseline: tuple[str, str], within: bool,
           found: dict[tuple[str, str], Sample]) -> _Asked:
    return _Asked(*key, baseline[1] if within else baseline[0], within, found[key], found[baseline])


def _paired_column(asked: _Asked) -> Column:
    values, processes = paired(asked.sample, asked.other)
    scale = math.hypot(middle(asked.sample, processes), middle(asked.other, processes))
    return Column(Part(values, np.array(processes)), scale=scale)


def _unpaired_column(asked: _Asked) -> Column:
    parts = [Part(one.medians(), np.array(sorted(one.processes))) for one in (asked.sample, asked.other)]
    return Column(parts[0], parts[1], scale=math.hypot(middle(asked.sample), middle(asked.other)))


def _differences(asked: Sequence[_Asked], columns: Sequence[Column], measured: Measured, confidence: float,
                 resolution: float, seed: int) -> tuple[Difference, ...]:
    centres, halves = intervals(columns, confidence, seed)
    return tuple(_difference(one, min(column.sizes), float(centre), float(half), measured, resolution)
                 for one, column, centre, half in zip(asked, columns, centres, halves, strict=True))


def _difference(asked: _Asked, pairs: int, centre: float, half: float, measured: Measured,
                resolution: float) -> Difference:
    """Return a difference with its verdict, of its middle and half of its interval's width in microseconds."""
    baseline = middle(asked.other)
    of_percent = 100 / baseline
    low, high = centre - half, centre + half
    limit = max(resolution * baseline, FLOOR_US)
    situation = Situation(pairs, low * of_percent, high * of_percent, limit * of_percent,
                          max(asked.sample.device_share, asked.other.device_share), measured.is_live)
    advice = [device_bound(situation)]
    if low > 0 or high < 0:
        verdict = SLOWER if low > 0 else FASTER
    elif half > limit:
        verdict = TOO_NOISY
        advice.insert(0, what_would_help(situation, measured.host))
    else:
        verdict = NO_DIFFERENCE
        advice.insert(0, ruled_out(situation))
    return Difference(asked.target, asked.case, asked.baseline, asked.within, centre, low, high, centre * of_percent,
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
