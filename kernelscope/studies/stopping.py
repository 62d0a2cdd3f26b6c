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
        How far an interval may reach to one side, as `Judgement.widest` has it; None: never enough.
    """

    def __init__(self, half_width: float | None) -> None:
        self._half_width = half_width

    def __call__(self, measured: Measured) -> bool:
        """Return whether it is enough."""
        if self._half_width is None:
            return False
        # Those of a target that failed will not become narrower.
        living = [report.label for report in measured.targets if not report.error]
        return judge(measured).widest(living) <= self._half_width
