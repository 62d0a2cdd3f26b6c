"""Studies that are judged by a simple rule: what figures show of them does not depend on the statistics."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from functools import cached_property

from kernelscope.studies.figure_parts import samples_of
from kernelscope.studies.judged import FASTER, NO_DIFFERENCE, SLOWER, TOO_NOISY, Difference, Estimate
from kernelscope.studies.measured import Measured


@dataclass
class Judged:
    """What figures need of a `StudyResult`: medians with intervals of two standard errors, and differences."""

    measured: Measured

    @cached_property
    def estimates(self) -> tuple[Estimate, ...]:
        made = []
        for (target, case), each in self.samples.items():
            middle, spread = statistics.median(each.us), statistics.pstdev(each.us)
            error = 2.5 * spread / len(each.us) ** 0.5
            made.append(Estimate(target, case, middle, statistics.fmean(each.us), spread, middle - error,
                                 middle + error, len(each.us), len(each.batches)))
        order = [each.label for each in self.measured.targets]
        return tuple(sorted(made, key=lambda each: order.index(each.target)))

    @cached_property
    def differences(self) -> tuple[Difference, ...]:
        found = {(each.target, each.case): each for each in self.estimates}
        baseline = self.measured.targets[0].label
        made = [judged(each, found[baseline, each.case], baseline, within=False) for each in self.estimates
                if each.target != baseline and (baseline, each.case) in found]
        for case in self.measured.cases:
            made += [judged(found[each.label, case.name], found[each.label, case.against], case.against, within=True)
                     for each in self.measured.targets
                     if case.against and {(each.label, case.name), (each.label, case.against)} <= {*found}]
        return tuple(made)

    @cached_property
    def samples(self) -> dict:
        return samples_of(self.measured)


def judged(each: Estimate, other: Estimate, baseline: str, *, within: bool) -> Difference:
    gap = each.median_us - other.median_us
    error = ((each.high_us - each.median_us) ** 2 + (other.high_us - other.median_us) ** 2) ** 0.5 * 1.4
    share = 100 / other.median_us
    verdict = SLOWER if gap > error else FASTER if gap < -error else NO_DIFFERENCE
    advice = "" if verdict != NO_DIFFERENCE else f"a difference of more than {error * share:.1f} % would have been seen"
    if error * share > 5:
        verdict, advice = TOO_NOISY, "more processes: 64 would do"
    return Difference(each.target, each.case, baseline, within, gap, gap - error, gap + error, gap * share,
                      (gap - error) * share, (gap + error) * share, verdict, advice)
