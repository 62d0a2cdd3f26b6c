"""An anatomy's result: the parts of a launch in each target, and where a target spends more than the baseline."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelscope.studies import anatomy_files, anatomy_parts
from kernelscope.studies.anatomy_parts import Dissected, PartDifference, PartTime

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

    from kernelscope.studies.measured import Measured


class AnatomyResult:
    """What an anatomy measured, and what was found in it.

    Parameters
    ----------
    dissected : Dissected
        What was measured.
    """

    def __init__(self, dissected: Dissected) -> None:
        self.dissected = anatomy_files.without_paths(dissected)

    @property
    def measured(self) -> Measured:
        """Targets, cases, host, GPU and settings; its batches are the launches without stamps."""
        return self.dissected.measured

    @property
    def is_dry_run(self) -> bool:
        """Whether the driver call was a stub."""
        return self.measured.is_dry_run

    @cached_property
    def parts(self) -> tuple[PartTime, ...]:
        """The time of each part, in microseconds of the host, with what is left over and the whole launch."""
        return anatomy_parts.estimates(self.dissected)

    @cached_property
    def differences(self) -> tuple[PartDifference, ...]:
        """What each part costs more than in the baseline."""
        return anatomy_parts.differences(self.dissected)

    def of(self, target: str, case: str) -> dict[str, PartTime]:
        """Return the parts of one target's launch, by key, in the order in which a launch passes them."""
        return {each.key: each for each in self.parts if (each.target, each.case) == (target, case)}

    def to_frame(self) -> pd.DataFrame:
        """Return a row a part, target and case.

        Its columns are ``us``, ``low_us``, ``high_us``, ``share``, ``reason``, and the difference from the baseline
        where the same part was compared (``difference_us`` and on), else null.
        """
        import pandas as pd

        compared = {(each.target, each.case, each.label): each for each in self.differences}
        rows: list[dict[str, Any]] = []
        for each in self.parts:
            found = compared.get((each.target, each.case, each.key))
            rows.append({
                "case": each.case, "target": each.target, "part": each.key, "note": each.note, "us": each.us,
                "low_us": each.low_us, "high_us": each.high_us, "share": each.share,
                "difference_us": found.difference_us if found else None,
                "difference_low_us": found.low_us if found else None,
                "difference_high_us": found.high_us if found else None,
                "verdict": found.verdict if found else None, "reason": each.reason})
        columns = ["case", "target", "part", "note", "us", "low_us", "high_us", "share", "difference_us",
                   "difference_low_us", "difference_high_us", "verdict", "reason"]
        return pd.DataFrame(rows, columns=columns)

    def plot(self, kind: str | None = None, *, target: str | None = None, case: str | None = None) -> go.Figure:
        """Return a Plotly figure.

        Parameters
        ----------
        kind : str, optional
            ``waterfall``: the parts of one target's launch. ``difference``: from the baseline's launch to a target's,
            which is meant where targets were compared and none is named.
        target : str, optional
            Its label; the baseline's launch, or the difference of the second target, by default.
        case : str, optional
            Its name; the first by default.

        Raises
        ------
        StudyError
            There is no figure, target or case of that name.
        """
        from kernelscope.studies import anatomy_figures

        if kind is None:
            kind = "difference" if self.differences and target is None else "waterfall"
        return anatomy_figures.plot(self, kind, target, case)

    def figures(self) -> list[go.Figure]:
        """Return every waterfall, then every difference, as the page of `to_html` has them."""
        drawn = [self.plot("waterfall", target=target.label, case=case.name) for case in self.measured.cases
                 for target in self.measured.targets if self.of(target.label, case.name)]
        pairs = dict.fromkeys((each.target, each.case) for each in self.differences)
        return drawn + [self.plot("difference", target=target, case=case) for target, case in pairs]

    def to_json(self) -> str:
        """Return everything that was measured, as JSON."""
        return anatomy_files.to_json(self.dissected)

    def save(self, path: str | Path) -> Path:
        """Write everything that was measured to a JSON file, and return its path; `load` reads it.

        Raises
        ------
        StudyFileError
            It cannot be written there.
        """
        from kernelscope.studies import files

        return files.write(path, anatomy_files.to_json(self.dissected).encode("ascii"), files.SUFFIX)

    def to_html(self, path: str | Path) -> Path:
        """Write the card and the figures to one page, which needs no network, and return its path.

        Raises
        ------
        StudyFileError
            It cannot be written there.
        """
        from kernelscope.studies import anatomy_card, files

        return files.write(path, anatomy_card.page(self).encode("utf-8"), ".html")

    def _repr_html_(self) -> str:
        from kernelscope.studies import anatomy_card

        return anatomy_card.card(self)

    def __str__(self) -> str:
        from kernelscope.studies import anatomy_text

        return anatomy_text.text(self)

    __repr__ = __str__


def load(path: str | Path) -> AnatomyResult:
    """Read an anatomy from a JSON file.

    Raises
    ------
    StudyFileError
        It is no anatomy, is damaged, or is of another version; the message says what is wrong and where.
    """
    return AnatomyResult(anatomy_files.load(path))
