"""Whether a study stays below a limit: what ``--fail-over`` decides.

A difference is over the limit where it is established that the target is slower (the verdict, which is corrected for
the number of comparisons), and the best estimate of by how much lies above the limit. Code that did not change does not
fail on a busy machine then: its verdict would have to be wrong first, which happens in less than one of 20 studies. And
what is slower by more than the limit does fail. To ask for an interval that lies wholly above the limit would let a
slowdown of twice the limit pass wherever half of the interval's width is as large as the limit.

Where a difference is not over the limit, but its interval reaches above it, the study cannot tell. This is said, and
fails nothing: else every noisy machine would fail. More processes make it rarer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kernelscope.analysis.units import counted
from kernelscope.errors import StudyArgumentError
from kernelscope.renderers.base import clean, shorten
from kernelscope.studies.arguments import is_number, shown
from kernelscope.studies.judged import SLOWER, Difference
from kernelscope.studies.numbers import percent, percent_interval

OVER, UNSURE, WITHIN = "over", "cannot tell", "within"

_PERCENT = re.compile(r"\s*\+?(\d{1,9}(?:\.\d{0,9})?|\.\d{1,9})\s*%?\s*", re.ASCII)
_NAME_WIDTH = 60


@dataclass(frozen=True)
class LimitCheck:
    """What a limit on slowdowns came to. Its text says so in lines.

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
        limit = f"{self.limit_percent:g} %"
        lines = [f"{_about(each)} is slower by {percent(each)} ({percent_interval(each)}): over the limit of {limit}"
                 for each in self.over]
        lines += [f"{_about(each)}: cannot tell whether it is within {limit}; it is {percent(each, signed=True)}, "
                  f"{percent_interval(each)}, {each.verdict}" for each in self.unsure]
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
