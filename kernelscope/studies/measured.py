"""What a study measured and found, as plain data: batches, estimates and differences with verdicts."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

#: The columns of `Measured.batches`, each with its dtype. A row is one batch: `loops` launches, timed together.
BATCH = {
    "target": "str",  # the target's label
    "case": "str",  # the case's name
    "process": "int64",  # which process of the target, from 0; the n-th of all targets ran side by side
    "round": "int64",  # which batch of this case in its process, from 0
    "place": "int64",  # in which order batches ran, from 0, over the whole study
    "start_ns": "int64",  # since the study's start
    "loops": "int64",
    "host_ns": "int64",  # of all loops together, on the host: what passed, less `waited_ns`
    "sync_ns": "int64",  # the wait for the device after them, untimed: long where the device was what was waited for
    "waited_ns": "int64",  # how long another process had the processor meanwhile; 0 where that is not known
    "reference_ns": "int64",  # a short loop beside them, the same always: how fast the core was; 0 where not known
}

#: A row of `Measured.batches`.
BatchRow = tuple[str, str, int, int, int, int, int, int, int, int, int]


@dataclass
class TargetReport:
    """What became of a target.

    Attributes
    ----------
    label, kind, source : str
        As in `Target`; `source` is its text.
    framework : str
        ``numba-cuda`` or ``numba-cuda-mlir``; empty if it never started.
    versions : dict of str to str
        Of Python and of each package that matters: numba, numba-cuda, numba-cuda-mlir, cuda-core, cuda-bindings, NumPy.
    revision : str or None
        Of a checkout or ref: the commit, with ``+changes`` where the folder has some.
    unavailable : dict of str to str
        Cases that it cannot run, and why.
    error : str or None
        Why it did not finish. What was measured before is kept.
    warnings : list of str
        What to know about it.
    processes : int
        How many of its processes were measured to their end.
    """

    label: str
    kind: str
    source: str
    framework: str = ""
    versions: dict[str, str] = field(default_factory=dict[str, str])
    revision: str | None = None
    unavailable: dict[str, str] = field(default_factory=dict[str, str])
    error: str | None = None
    warnings: list[str] = field(default_factory=list[str])
    processes: int = 0


@dataclass
class CaseReport:
    """A case as it was measured: `Case` without its callable."""

    name: str
    statement: str
    setup: str = ""
    args: int | None = None
    group: str = "own"
    against: str | None = None
    before: str = ""
    after: str = ""


@dataclass
class Measured:
    """Everything that a study measured.

    Attributes
    ----------
    targets : list of TargetReport
        The first is the baseline.
    cases : list of CaseReport
        In the order of the tables.
    batches : list of tuple
        Rows of `BATCH`, in its columns' order.
    host : dict
        ``processor``, ``cores``, ``pinned_to`` (the cores on one of which they are; None where not), ``moves`` (how
        often they went on to a quieter one), ``quiet`` (the share of batches at quiet moments, 0 to 1), ``system``,
        ``governor``, ``clock_resolution_ns``, ``clock_read_ns``, ``load_before``, ``load_after``, ``noise`` (the share
        of time that a loop which does nothing lost to others, 0 to 1, median over the processes), ``sees_waits``
        (whether the system tells how long another process had the processor, so that it is taken off).
    gpu : dict
        ``name``, ``driver``, ``cuda``, ``clocks_mhz``; empty for none.
    settings : dict
        What `launch_overhead` was asked for: args, loops, repeats, processes, half_width, limit_s, seed, install, ...
    created : str
        When it began: ISO 8601, in UTC.
    seconds : float
        How long it took.
    ended : str
        Why it ended: ``narrow enough``, ``all processes``, ``time limit``, ``interrupted``, ``failed``.
    is_dry_run : bool
        Whether the driver call was a stub.
    is_live : bool
        Whether it was measured in the running process, so that differences between processes are not in the intervals.
    notes : list of str
        What else there is to know.
    """

    targets: list[TargetReport]
    cases: list[CaseReport]
    batches: list[BatchRow] = field(default_factory=list[BatchRow])
    host: dict[str, Any] = field(default_factory=dict[str, Any])
    gpu: dict[str, Any] = field(default_factory=dict[str, Any])
    settings: dict[str, Any] = field(default_factory=dict[str, Any])
    created: str = ""
    seconds: float = 0.0
    ended: str = "all processes"
    is_dry_run: bool = False
    is_live: bool = False
    notes: list[str] = field(default_factory=list[str])


# What a study found: estimates and differences with their verdicts, as plain data.

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
