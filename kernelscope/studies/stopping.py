"""When a study has measured enough."""

from __future__ import annotations

from kernelscope.studies.measured import Measured
from kernelscope.studies.statistics import judge


class Narrow:
    """Whether every interval of a difference is narrow enough; without differences, those of the medians.

    It looks at the intervals' widths and never at where they are: a study that stops when it has found what it looked
    for finds too much.

    Parameters
    ----------
    half_width : float or None
        How far an interval may reach to one side, as a share of the baseline's median; None: never enough.
    """

    def __init__(self, half_width: float | None) -> None:
        self._half_width = half_width

    def __call__(self, measured: Measured) -> bool:
        """Return whether it is enough."""
        if self._half_width is None:
            return False
        judgement = judge(measured)
        failed = {report.label for report in measured.targets if report.error}
        shares = [(each.high_percent - each.low_percent) / 200 for each in judgement.differences
                  if each.target not in failed]
        if not shares:
            shares = [(each.high_us - each.low_us) / 2 / each.median_us for each in judgement.estimates
                      if each.target not in failed]
        # An interval that is not a number is not narrow.
        return bool(shares) and all(share <= self._half_width for share in shares)
