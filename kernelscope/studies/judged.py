"""What a study found: estimates and differences with their verdicts, as plain data."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

FASTER = "faster"
SLOWER = "slower"
NO_DIFFERENCE = "no difference seen"
TOO_NOISY = "too noisy"


@dataclass(frozen=True)
class Estimate:
    """What one launch of a case costs in one target, in microseconds of the host.

    Attributes
    ----------
    target, case : str
        Which.
    median_us, mean_us, sd_us : float
        Of the processes' medians: processes of one version differ by more than batches of one process do. The standard
        deviation of one process is 0, although it is not known.
    low_us, high_us : float
        The 95 % bootstrap interval of the median; infinite (``-inf``, ``inf``) for one process.
    processes, batches : int
        How many there were.
    """

    target: str
    case: str
    median_us: float
    mean_us: float
    sd_us: float
    low_us: float
    high_us: float
    processes: int
    batches: int


@dataclass(frozen=True)
class Difference:
    """How a case differs from the baseline, or from another case of the same target.

    Attributes
    ----------
    target, case : str
        Which.
    baseline : str
        The target, or, with `within`, the case, that it is compared with.
    within : bool
        Whether it is compared with another case of the same target.
    difference_us : float
        Of the medians, in microseconds a launch; positive is slower than the baseline. It is taken in each pair of
        processes, and this is the middle of the pairs: it need not be the difference of two `Estimate.median_us`.
    low_us, high_us : float
        Its bootstrap interval, which holds for all differences of the study together with 95 %; infinite (``-inf``,
        ``inf``) where there is one pair only.
    percent, low_percent, high_percent : float
        The same as a share of the baseline's median.
    verdict : str
        `FASTER`, `SLOWER`, `NO_DIFFERENCE` or `TOO_NOISY`.
    advice : str
        What would help where it is too noisy; what is ruled out where no difference is seen; what else there is to say;
        else empty.
    pairs : int
        How many pairs of processes it was taken from (the fewer of both, where two studies are compared).
    """

    target: str
    case: str
    baseline: str
    within: bool
    difference_us: float
    low_us: float
    high_us: float
    percent: float
    low_percent: float
    high_percent: float
    verdict: str
    advice: str = ""
    pairs: int = 0

    @property
    def half_width_us(self) -> float:
        """Half of the interval's width, in microseconds a launch."""
        return (self.high_us - self.low_us) / 2


@dataclass(frozen=True)
class Judgement:
    """What a study found, of all its cases and targets.

    Attributes
    ----------
    estimates : tuple of Estimate
        Of each target and case that was measured, in the study's order, cases inside targets.
    differences : tuple of Difference
        First those against the baseline, in the same order; then those within a target.
    confidence : float
        How probable it is that the intervals of all differences hold together.
    comparisons : int
        How many differences they were corrected for.
    notes : tuple of str
        What to know about all of them.
    """

    estimates: tuple[Estimate, ...] = ()
    differences: tuple[Difference, ...] = ()
    confidence: float = 0.95
    comparisons: int = 0
    notes: tuple[str, ...] = ()

    def widest(self, targets: Collection[str] | None = None) -> float:
        """Return the greatest half-width of any interval, as a share of what is compared: what a study waits for.

        Those of differences, each divided by the greater of the two medians; those of estimates where there is no
        difference. Infinite if nothing was measured.

        Parameters
        ----------
        targets : collection of str or None
            The labels of those that count, besides what they are compared with; None for all.
        """
        medians = {(one.target, one.case): one.median_us for one in self.estimates}
        shares: list[float] = []
        for one in self.differences:
            if targets is None or one.target in targets:
                other = (one.target, one.baseline) if one.within else (one.baseline, one.case)
                greater = max(medians[one.target, one.case], medians.get(other, 0.0))
                shares.append(one.half_width_us / greater if greater > 0 else float("inf"))
        if not shares:
            shares = [(one.high_us - one.low_us) / 2 / one.median_us if one.median_us > 0 else float("inf")
                      for one in self.estimates if targets is None or one.target in targets]
        return max(shares, default=float("inf"))
