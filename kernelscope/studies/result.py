"""`StudyResult`: what a study measured and found. Displaying it shows a card, printing it the text."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from kernelscope.recording.privacy import shareable_values
from kernelscope.studies import files
from kernelscope.studies.judged import Difference, Estimate
from kernelscope.studies.limits import LimitCheck, check
from kernelscope.studies.measured import BATCH, CaseReport, Measured, TargetReport

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

    from kernelscope.studies.anatomy_result import AnatomyResult


class Found(Protocol):
    """What is found in what was measured; see `kernelscope.studies.statistics.judge`."""

    @property
    def estimates(self) -> Sequence[Estimate]:
        """What a launch of each case costs in each target."""
        ...

    @property
    def differences(self) -> Sequence[Difference]:
        """What differs from the baseline, and from other cases of the same target."""
        ...

    @property
    def notes(self) -> Sequence[str]:
        """What to know about all of them."""
        ...


class StudyResult:
    """What a study measured, and what was found in it.

    Parameters
    ----------
    measured : Measured
        What was measured.
    found : Found, optional
        What was found in it, where that is known already; else it is worked out when it is first asked for.
    """

    def __init__(self, measured: Measured, found: Found | None = None) -> None:
        self.measured = files.without_paths(measured)
        if found is not None:
            self.__dict__["_found"] = found

    @cached_property
    def _found(self) -> Found:
        from kernelscope.studies.statistics import judge

        return judge(self.measured)

    @property
    def estimates(self) -> tuple[Estimate, ...]:
        """What a launch of each case costs in each target, in microseconds of the host."""
        return tuple(self._found.estimates)

    @property
    def differences(self) -> tuple[Difference, ...]:
        """How each case differs from the baseline's, and, with ``within``, from another case of the same target."""
        return tuple(self._found.differences)

    @property
    def notes(self) -> tuple[str, ...]:
        """What to know about all that was found, besides ``measured.notes``."""
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
        """What is known about the machine; see `Measured`."""
        return self.measured.host

    @property
    def gpu(self) -> dict[str, Any]:
        """What is known about the GPU; see `Measured`."""
        return self.measured.gpu

    @property
    def is_dry_run(self) -> bool:
        """Whether the driver call was a stub."""
        return self.measured.is_dry_run

    @cached_property
    def batches(self) -> pd.DataFrame:
        """The batches, a row each: the columns of `kernelscope.studies.measured.BATCH`, and ``us``, a launch's time.

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
        """What was to be compared with the baseline and was not, and why, by target or by target and case."""
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
        figures = importlib.import_module("kernelscope.studies.figures")
        return figures.plot(self, kind, **options)

    def figures(self) -> list[go.Figure]:
        """Return the figures of all kinds, as the page of `to_html` has them; none where nothing was measured."""
        return [self.plot(kind) for kind in ("intervals", "distributions", "drift")] if self.estimates else []

    def to_json(self) -> str:
        """Return the study as JSON, with everything that is needed to check it; see `kernelscope.studies.files`."""
        return files.to_json(self.measured, {"estimates": self.estimates, "differences": self.differences})

    def save(self, path: str | Path) -> Path:
        """Write the study to a JSON file, which `load` reads, and return its path.

        Raises
        ------
        StudyFileError
            It cannot be written there.
        """
        return files.save(self.measured, path, {"estimates": self.estimates, "differences": self.differences})

    def to_html(self, path: str | Path) -> Path:
        """Write the card and the figures to an HTML page that needs no network, and return its path.

        Raises
        ------
        StudyFileError
            It cannot be written there.
        """
        from kernelscope.studies.card import page

        return files.write(path, page(self).encode(), ".html")

    def __str__(self) -> str:
        from kernelscope.studies.text import text

        return text(self)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from kernelscope.studies.card import card

        return card(self)


def load(path: str | Path) -> StudyResult | AnatomyResult:
    """Read a study, or an anatomy, from a JSON file, or refuse it.

    Raises
    ------
    StudyFileError
        It is neither, is damaged, or is of a newer version; the message says what is wrong and where.
    """
    from kernelscope.studies import anatomy_files
    from kernelscope.studies.anatomy_result import AnatomyResult
    from kernelscope.studies.arguments import path as path_of

    path = path_of("path", path)
    if anatomy_files.is_anatomy(path):
        return AnatomyResult(anatomy_files.load(path))
    return StudyResult(files.load(path))


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
