"""What a study found: estimates and differences with their verdicts, as plain data."""

from __future__ import annotations

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
        Of the processes' medians: processes of one version differ by more than batches of one process do.
    low_us, high_us : float
        The 95 % bootstrap interval of the median.
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
        Of the medians, in microseconds a launch; positive is slower than the baseline.
    low_us, high_us : float
        Its bootstrap interval, which holds for all differences of the study together with 95 %.
    percent, low_percent, high_percent : float
        The same as a share of the baseline's median.
    verdict : str
        `FASTER`, `SLOWER`, `NO_DIFFERENCE` or `TOO_NOISY`.
    advice : str
        What would help where it is too noisy; what else there is to say; else empty.
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
