"""What a study measured and found: batches, estimates, differences with verdicts, and `StudyResult` with all of it.

What encodes a result, as text, card, figures or JSON, is imported by the methods that ask for it.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelscope.errors import StudyArgumentError
from kernelscope.intervals import SLOWER
from kernelscope.recording.redact import shareable_values
from kernelscope.studies.target import check_path, is_number, shown
from kernelscope.units import counted
from kernelscope.views.base import clean, shorten

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

    from kernelscope.studies.breakdown import AnatomyResult


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
    """The report on one target: its source, versions, warnings and errors.

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
    """The description of a measured case: `Case` without its callable."""

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
    """The measurements of a study.

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


# What a study found.


@dataclass(frozen=True)
class Estimate:
    """The host time of a launch of one case in one target, in microseconds.

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
    """The difference of a case from the baseline, or from another case of the same target.

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
        One of those of `kernelscope.intervals`: faster, slower, no difference seen, too noisy.
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
    """The estimates and differences of all cases and targets of a study.

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


# Whether a study stays below a limit: what ``--fail-over`` decides.
#
# A difference is over the limit where it is established that the target is slower (the verdict, which is
# corrected for the number of comparisons), and the best estimate of by how much lies above the limit. Code that
# did not change does not fail on a busy machine then: its verdict would have to be wrong first, which happens in
# less than one of 20 studies. And what is slower by more than the limit does fail. To ask for an interval that
# lies wholly above the limit would let a slowdown of twice the limit pass wherever half of the interval's width
# is as large as the limit.
#
# Where a difference is not over the limit, but its interval reaches above it, the study cannot tell. This is
# said, and fails nothing: else every noisy machine would fail. More processes make it rarer.

OVER, UNSURE, WITHIN = "over", "cannot tell", "within"

_PERCENT = re.compile(r"\s*\+?(\d{1,9}(?:\.\d{0,9})?|\.\d{1,9})\s*%?\s*", re.ASCII)
_NAME_WIDTH = 60


@dataclass(frozen=True)
class LimitCheck:
    """The outcome of a limit on slowdowns. ``str()`` of it lists the differences.

    Attributes
    ----------
    limit_percent : float
        The limit, in percent of the baseline's median.
    compared : int
        How many differences were looked at.
    over : tuple of Difference
        Established slowdowns whose best estimate is above the limit, the largest first.
    unsure : tuple of Difference
        Those whose interval reaches above the limit without that: the study cannot tell.
    missing : dict of str to str
        What could not be compared, and why.
    """

    limit_percent: float
    compared: int
    over: tuple[Difference, ...]
    unsure: tuple[Difference, ...]
    missing: Mapping[str, str]

    @property
    def failed(self) -> bool:
        """Whether something is over the limit."""
        return bool(self.over)

    @property
    def outcome(self) -> str:
        """``over``; ``cannot tell`` where nothing is, but something may be or was not compared; else ``within``."""
        if self.over:
            return OVER
        return UNSURE if self.unsure or self.missing or not self.compared else WITHIN

    def __str__(self) -> str:
        from kernelscope.studies.text import difference_percent, percent_interval

        limit = f"{self.limit_percent:g} %"
        lines = [f"{_about(each)} is slower by {difference_percent(each)} ({percent_interval(each)}): "
                 f"over the limit of {limit}" for each in self.over]
        lines += [f"{_about(each)}: cannot tell whether it is within {limit}; it is "
                  f"{difference_percent(each, signed=True)}, {percent_interval(each)}, {each.verdict}"
                  for each in self.unsure]
        lines += [f"{shorten(clean(name), _NAME_WIDTH)} was not compared: {clean(why)}"
                  for name, why in self.missing.items()]
        if not self.compared:
            lines.append("nothing was compared: a limit needs a baseline and another target that measured a case of it")
        elif not lines:
            lines.append(f"no slowdown of more than {limit}, in {counted(self.compared, 'comparison')}")
        return "\n".join(lines)


def check(
    differences: Iterable[Difference], limit: float | str, missing: Mapping[str, str] | None = None,
) -> LimitCheck:
    """Return what is over a limit, and of what that cannot be told.

    Parameters
    ----------
    differences : iterable of Difference
        Those within one target are passed over: how cases differ from one another is no regression.
    limit : float or str
        In percent, or text that `parse_percent` reads.
    missing : mapping, optional
        What could not be compared, and why.

    Raises
    ------
    StudyArgumentError
        The limit is none.
    """
    limit_percent = parse_percent(limit)
    held = sorted((each for each in differences if not each.within), key=lambda each: -each.percent)
    over = tuple(each for each in held if each.verdict == SLOWER and each.percent > limit_percent)
    unsure = tuple(each for each in held if each not in over and not each.high_percent <= limit_percent)
    return LimitCheck(limit_percent, len(held), over, unsure, dict(missing or {}))


def parse_percent(limit: float | str) -> float:
    """Return a limit in percent from a number or a text: ``3``, ``"3"``, ``"3%"``, ``"0.5 %"``.

    Raises
    ------
    StudyArgumentError
        It is no number of percent, or a negative one.
    """
    if isinstance(limit, str):
        found = _PERCENT.fullmatch(limit)
        if found is None:
            raise StudyArgumentError(
                f"{clean(limit)[:60]!r} is no share of the baseline; give percent, such as 3% or 0.5%")
        return float(found[1])
    if not is_number(limit, 0):
        raise StudyArgumentError(f"{shown(limit)} is no share of the baseline; give percent from 0, such as 3 or '3%'")
    return float(limit)


def _about(each: Difference) -> str:
    return f"{shorten(clean(each.target), _NAME_WIDTH)}, {shorten(clean(each.case), _NAME_WIDTH)}"


# All of it in one object.

class Shown(ABC):
    """What is shown as text, as a card in notebooks, and as a page."""

    @abstractmethod
    def __str__(self) -> str:
        """Return the lines of text."""

    @abstractmethod
    def _repr_html_(self) -> str:
        """Return the card."""

    @abstractmethod
    def _page(self) -> str:
        """Return the HTML document."""

    def to_html(self, path: str | Path) -> Path:
        """Write the card, and the figures where there are some, to a page that needs no network; return its path.

        Raises
        ------
        StudyFileError
            It cannot be written there.
        """
        from kernelscope.studies.files import write

        return write(path, self._page().encode(), ".html")

    def __repr__(self) -> str:
        return str(self)


class Saved(Shown):
    """What is saved to a JSON file besides."""

    @abstractmethod
    def to_json(self) -> str:
        """Return it as JSON."""

    def save(self, path: str | Path) -> Path:
        """Write everything that was measured to a JSON file, which `load` reads, and return its path.

        Raises
        ------
        StudyFileError
            It cannot be written there.
        """
        from kernelscope.studies.files import SUFFIX, write

        return write(path, self.to_json().encode("ascii"), SUFFIX)


class StudyResult(Saved):
    """The measurements of a study, with the estimates and differences computed from them.

    Parameters
    ----------
    measured : Measured
        What was measured.
    found : Judgement, optional
        What was found in it, where that is known already; else it is worked out when it is first asked for.
    """

    def __init__(self, measured: Measured, found: Judgement | None = None) -> None:
        from kernelscope.studies.files import without_paths

        self.measured = without_paths(measured)
        if found is not None:
            self._found = found

    @cached_property
    def _found(self) -> Judgement:
        from kernelscope.studies.statistics import judge

        return judge(self.measured)

    @property
    def estimates(self) -> tuple[Estimate, ...]:
        """The host time of a launch of each case in each target, in microseconds."""
        return tuple(self._found.estimates)

    @property
    def differences(self) -> tuple[Difference, ...]:
        """The differences from the baseline, and, with ``within``, from another case of the same target."""
        return tuple(self._found.differences)

    @property
    def notes(self) -> tuple[str, ...]:
        """The notes on all estimates and differences, besides ``measured.notes``."""
        return tuple(shareable_values(list(self._found.notes)))

    @property
    def targets(self) -> tuple[TargetReport, ...]:
        """The targets; the first is the baseline."""
        return tuple(self.measured.targets)

    @property
    def cases(self) -> tuple[CaseReport, ...]:
        """The cases, in the order of the tables."""
        return tuple(self.measured.cases)

    @property
    def baseline(self) -> str:
        """The label of the first target; empty for none."""
        return self.measured.targets[0].label if self.measured.targets else ""

    @property
    def host(self) -> dict[str, Any]:
        """The description of the machine; see `Measured`."""
        return self.measured.host

    @property
    def gpu(self) -> dict[str, Any]:
        """The description of the GPU; see `Measured`."""
        return self.measured.gpu

    @property
    def is_dry_run(self) -> bool:
        """Whether the driver call was a stub."""
        return self.measured.is_dry_run

    @cached_property
    def batches(self) -> pd.DataFrame:
        """The batches, a row each: the columns of `kernelscope.studies.result.BATCH`, and ``us``, a launch's time.

        Times in nanoseconds are of the whole batch; ``us`` is in microseconds.
        """
        import pandas as pd

        columns = list(zip(*self.measured.batches, strict=True)) or [()] * len(BATCH)
        frame = pd.DataFrame({name: pd.Series(column, dtype=dtype) for (name, dtype), column
                              in zip(BATCH.items(), columns, strict=True)})
        return frame.assign(us=frame["host_ns"] / frame["loops"] / 1000)

    def to_frame(self) -> pd.DataFrame:
        """Return estimates and differences as a DataFrame, a row a target and case.

        Returns
        -------
        pandas.DataFrame
            ``target``, ``case``, ``args``; ``median_us``, ``mean_us``, ``sd_us``, ``low_us``, ``high_us``,
            ``processes`` and ``batches`` of the `Estimate`; ``difference_us``, ``difference_low_us``,
            ``difference_high_us``, ``percent``, ``low_percent``, ``high_percent``, ``verdict`` and ``advice`` of the
            `Difference` from the baseline. The latter are null in the baseline's rows, and where it lacks the case.
        """
        import pandas as pd

        args = {each.name: each.args for each in self.cases}
        against = self.against_baseline
        rows = [_row(each, args.get(each.case), against.get((each.target, each.case))) for each in self.estimates]
        frame = pd.DataFrame(rows, columns=_COLUMNS)
        return frame.astype({"args": "Int64", "processes": "int64", "batches": "int64",
                             **{name: "float64" for name in _COLUMNS if name.endswith(("_us", "percent"))}})

    @cached_property
    def by_place(self) -> dict[tuple[str, str], Estimate]:
        """The estimates by target and case."""
        return {(each.target, each.case): each for each in self.estimates}

    @cached_property
    def against_baseline(self) -> dict[tuple[str, str], Difference]:
        """The differences from the baseline by target and case."""
        return {(each.target, each.case): each for each in self.differences if not each.within}

    @property
    def worst(self) -> Difference | None:
        """The difference from the baseline that is slowest in percent; None where nothing was compared."""
        return max(self.against_baseline.values(), key=lambda each: each.percent, default=None)

    @property
    def not_compared(self) -> dict[str, str]:
        """The reasons why something was not compared with the baseline, by target or by target and case."""
        missing: dict[str, str] = {}
        for place, target in enumerate(self.targets):
            if target.error is not None:
                missing[target.label] = target.error
            elif place and not any(label == target.label for label, _ in self.against_baseline):
                missing[target.label] = "it has no case in common with the baseline"
            else:
                missing |= {f"{target.label}, {case}": why for case, why in target.unavailable.items()}
        return missing

    def check(self, limit: float | str) -> LimitCheck:
        """Return what is slower than the baseline by more than a limit, and of what that cannot be told.

        Parameters
        ----------
        limit : float or str
            In percent of the baseline: ``3``, ``"3%"``.

        Raises
        ------
        StudyError
            The limit is none.
        """
        return check(self.differences, limit, self.not_compared)

    def over(self, limit: float | str) -> tuple[Difference, ...]:
        """Return the established slowdowns that are larger than a limit in percent, the largest first.

        See `check`, which also says of what that cannot be told.
        """
        return self.check(limit).over

    def plot(self, kind: str = "intervals", **options: Any) -> go.Figure:
        """Return a Plotly figure: ``intervals``, ``distributions`` or ``drift``.

        Parameters
        ----------
        kind : str
            ``intervals`` by case and target; ``distributions`` of the processes; ``drift`` of the batches over time.
        **options
            See `kernelscope.studies.figures`.
        """
        from kernelscope.studies.figures import plot

        return plot(self, kind, **options)

    def figures(self) -> list[go.Figure]:
        """Return the figures of all kinds, as the page of `to_html` has them; none where nothing was measured."""
        return [self.plot(kind) for kind in ("intervals", "distributions", "drift")] if self.estimates else []

    def to_json(self) -> str:
        """Return the study as JSON, with everything that is needed to check it; see `kernelscope.studies.files`."""
        from kernelscope.studies.files import to_json

        return to_json(self.measured, {"estimates": self.estimates, "differences": self.differences})

    def _repr_html_(self) -> str:
        from kernelscope.studies.card import card

        return card(self)

    def _page(self) -> str:
        from kernelscope.studies.card import page

        return page(self)

    def __str__(self) -> str:
        from kernelscope.studies.text import text

        return text(self)


def load(path: str | Path) -> StudyResult | AnatomyResult:
    """Read a study, or an anatomy, from a JSON file, or refuse it.

    Raises
    ------
    StudyFileError
        It is neither, is damaged, or is of a newer version; the message says what is wrong and where.
    """
    from kernelscope.studies.files import load

    found = load(check_path("path", path))
    if isinstance(found, Measured):
        return StudyResult(found)
    from kernelscope.studies.breakdown import AnatomyResult

    return AnatomyResult(found)


_COLUMNS = ["target", "case", "args", "median_us", "mean_us", "sd_us", "low_us", "high_us", "processes", "batches",
            "difference_us", "difference_low_us", "difference_high_us", "percent", "low_percent", "high_percent",
            "verdict", "advice"]


def _row(each: Estimate, args: int | None, against: Difference | None) -> tuple[Any, ...]:
    first = (each.target, each.case, args, each.median_us, each.mean_us, each.sd_us, each.low_us, each.high_us,
             each.processes, each.batches)
    if against is None:
        return first + (None,) * (len(_COLUMNS) - len(first))
    return (*first, against.difference_us, against.low_us, against.high_us, against.percent, against.low_percent,
            against.high_percent, against.verdict, against.advice)
