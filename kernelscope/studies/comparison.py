"""Two studies beside each other: the same targets and cases, measured at two times, on one machine or on two."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from kernelscope.errors import StudyArgumentError
from kernelscope.studies import text as studies_text
from kernelscope.studies.files import as_json, load_study
from kernelscope.studies.result import (
    Difference,
    Judgement,
    LimitCheck,
    Measured,
    Shown,
    StudyResult,
    TargetReport,
    check,
)
from kernelscope.studies.target import check_path, shown
from kernelscope.studies.text import median
from kernelscope.views.base import columns, shorten, with_notice, wrap
from kernelscope.views.html import heading

if TYPE_CHECKING:
    import pandas as pd

FORMAT = "kernelscope-study-comparison"
VERSION = 1

# What is compared of the machines; a load or a noise is another one at any time.
_HOST = {"processor": "processor", "cores": "number of cores", "system": "system", "governor": "governor"}
_GPU = {"name": "GPU", "driver": "driver", "cuda": "CUDA version"}
# What is asked for does not matter where it only says what to measure, or where to find it.
_NO_SETTINGS = ("args", "cases", "targets", "seed", "limit_s", "find_links", "install", "timeout_s", "pin", "dry_run")
_MOST_TEXT = 60


@dataclass(frozen=True, repr=False)
class Comparison(Shown):
    """The differences between two studies, by targets and cases. Displaying it shows a card.

    Attributes
    ----------
    old, new : StudyResult
        The studies.
    differences : tuple of Difference
        Of the new one from the old one; positive is slower now. They are not between processes that ran side by side,
        so that their intervals are wider than those of one study, and what else changed between the two is in them.
    changes : tuple of str
        What else changed: host, GPU, versions, settings. Then a difference may not be the code's.
    missing : dict of str to str
        Targets and cases of the old study that are not compared, and why.
    notes : tuple of str
        What else to know.
    files : tuple of str
        The names of the two files, without folders; empty for what came from none.
    """

    old: StudyResult
    new: StudyResult
    differences: tuple[Difference, ...]
    changes: tuple[str, ...]
    missing: Mapping[str, str]
    notes: tuple[str, ...] = ()
    files: tuple[str, str] = ("", "")

    @property
    def is_dry_run(self) -> bool:
        """Whether the driver call was a stub in one of the two or in both."""
        return self.old.is_dry_run or self.new.is_dry_run

    @property
    def worst(self) -> Difference | None:
        """The difference that is slowest in percent; None where nothing was compared."""
        return max(self.differences, key=lambda each: each.percent, default=None)

    def check(self, limit: float | str) -> LimitCheck:
        """Return what became slower by more than a limit in percent, and of what that cannot be labels.

        Raises
        ------
        StudyError
            The limit is none.
        """
        return check(self.differences, limit, self.missing)

    def over(self, limit: float | str) -> tuple[Difference, ...]:
        """Return the established slowdowns that are larger than a limit in percent, the largest first."""
        return self.check(limit).over

    def to_frame(self) -> pd.DataFrame:
        """Return the differences as a DataFrame, a row a target and case.

        Returns
        -------
        pandas.DataFrame
            ``target``, ``case``, ``old_us`` and ``new_us`` (medians), ``difference_us``, ``low_us``, ``high_us``,
            ``percent``, ``low_percent``, ``high_percent``, ``verdict`` and ``advice``.
        """
        import pandas as pd

        rows = [(each.target, each.case, *(study.by_place[each.target, each.case].median_us
                                           for study in (self.old, self.new)),
                 *(getattr(each, name) for name in _COLUMNS[4:])) for each in self.differences]
        return pd.DataFrame(rows, columns=_COLUMNS)

    def to_json(self) -> str:
        """Return the differences as JSON, with what else changed and what is not compared, for programs.

        Nothing reads it back: `compare` of the two studies gives it again.
        """
        rows = [{**dataclasses.asdict(each),
                 **{f"{name}_us": study.by_place[each.target, each.case].median_us
                    for name, study in (("old", self.old), ("new", self.new))}} for each in self.differences]
        return as_json({
            "format": FORMAT, "version": VERSION,
            **{name: {"created": study.measured.created, "targets": [each.label for each in study.targets]}
               for name, study in (("old", self.old), ("new", self.new))},
            "is_dry_run": self.is_dry_run, "differences": rows, "changes": list(self.changes),
            "missing": dict(self.missing), "notes": list(self.notes)})

    def __str__(self) -> str:
        return text(self)

    def _repr_html_(self) -> str:
        return card(self)

    def _page(self) -> str:
        return page(self)


def compare(old: StudyResult | str | Path, new: StudyResult | str | Path) -> Comparison:
    """Return how a study differs from an earlier one.

    Targets are compared by their labels and cases by their names; a case whose code changed is not compared.

    Parameters
    ----------
    old, new : StudyResult, str or Path
        The studies, or JSON files of them.

    Raises
    ------
    StudyError
        One is no study and no path.
    StudyFileError
        A file is no study.
    """
    from kernelscope.studies.statistics import judge_unpaired

    before, after = _study(old, "old"), _study(new, "new")
    found: Judgement = judge_unpaired(before.measured, after.measured)
    return Comparison(before, after, found.differences, tuple(changes(before.measured, after.measured)),
                      _missing(before, after, found.differences), found.notes, _file_names(old, new))


def changes(old: Measured, new: Measured) -> list[str]:
    """Return what differs between how and where two studies were measured: sentences without a full stop."""
    messages: list[str] = []
    if old.is_dry_run != new.is_dry_run:
        kinds = [("a GPU", "a dry run")[each.is_dry_run] for each in (old, new)]
        messages.append(f"the old study is of {kinds[0]}, the new one of {kinds[1]}")
    if old.is_live != new.is_live:
        kinds = [("processes of its own", "a running process")[each.is_live] for each in (old, new)]
        messages.append(f"the old study was measured in {kinds[0]}, the new one in {kinds[1]}")
    messages += _changed(old.host, new.host, _HOST)
    # Which core is chosen anew for each study.
    pinned = [{"pinned": "pinned to a core" if each.host.get("pinned_to") else "not pinned"} for each in (old, new)]
    messages += _changed(pinned[0], pinned[1], {"pinned": "processes"})
    messages += _changed(old.gpu, new.gpu, _GPU)
    known = {each.label: each for each in old.targets}
    for target in new.targets:
        if target.label in known:
            messages += _target_changes(known[target.label], target)
    names = [name for name in {**old.settings, **new.settings} if name not in _NO_SETTINGS]
    return messages + _changed(old.settings, new.settings,
                               {name: f"setting {studies_text.name(name)}" for name in names})


def text(comparison: Comparison, width: int | None = None) -> str:
    """Return a comparison as lines of text, at most `width` columns wide; by default as wide as the terminal."""
    from kernelscope.studies.text import differences_table

    width = columns(width)
    lines = [title(comparison)]
    if comparison.differences:
        lines += [wrap(f"{label}: {messages}", width) for label, messages in conclusions(comparison)]
        lines += ["", differences_table(comparison.differences, "case", {}, width)]
    for label, sentences in _sections(comparison):
        lines += ["", label, *(wrap(each, width, 2, hanging=2) for each in sentences)]
    notice = studies_text.NOTICE if comparison.is_dry_run else ""
    return with_notice(notice, "\n".join(lines))


def page(comparison: Comparison) -> str:
    """Return a self-contained HTML document: the card."""
    from kernelscope.studies.card import page_of

    return page_of(title(comparison), card(comparison))


def card(comparison: Comparison) -> str:
    """Return a comparison as a self-contained fragment of HTML, for notebooks."""
    from kernelscope.studies.card import differences_table, framed, head, listed, plain_list

    def medians(each: Difference) -> str:
        return ", ".join(median(study.by_place[each.target, each.case]) for study in (comparison.old, comparison.new))

    new = comparison.new
    parts = [head(title(comparison), new.measured, studies_text.NOTICE if comparison.is_dry_run else ""),
             listed(conclusions(comparison))]
    if comparison.differences:
        targets = [each.label for each in new.targets]
        parts += [heading("Host time of a launch"), differences_table(comparison.differences, targets, medians)]
    for label, sentences in _sections(comparison):
        parts += [heading(label), plain_list(sentences)]
    return framed("".join(parts))


_COLUMNS = ["target", "case", "old_us", "new_us", "difference_us", "low_us", "high_us", "percent", "low_percent",
            "high_percent", "verdict", "advice"]


def _study(given: StudyResult | str | Path, name: str) -> StudyResult:
    if isinstance(given, StudyResult):
        return given
    if not isinstance(cast("object", given), str | os.PathLike):
        raise StudyArgumentError(
            f"{name}={shown(given)} is no study (of launch_overhead, against or suite) and no path of "
            "its file")
    return StudyResult(load_study(check_path(name, given)))


def _file_names(*given: StudyResult | str | Path) -> tuple[str, str]:
    """Return the names of the files, with their folders where the names are equal."""
    paths = [None if isinstance(each, StudyResult) else Path(each).absolute() for each in given]
    names = ["" if each is None else each.name for each in paths]
    if names[0] == names[1]:
        names = ["" if each is None else f"{each.parent.name}/{each.name}" for each in paths]
    return names[0], names[1]


def title(comparison: Comparison) -> str:
    """Return which studies are compared."""
    dates, names = _dates(comparison), [studies_text.name(each) for each in comparison.files]
    labels = ["the older study", "the newer study"]
    for place in range(2):
        if names[place] and names[0] != names[1]:
            labels[place] = f"{names[place]} of {dates[place]}" if dates[place] else names[place]
        elif dates[place]:
            labels[place] = f"the study of {dates[place]}"
    if labels[1].startswith("the study of "):
        labels[0] = labels[0].replace("the study of ", "that of ")
    return f"Launch overhead: {labels[1]} against {labels[0]}"


def _dates(comparison: Comparison) -> list[str]:
    """Return the dates of both studies, as precise as needed to distinguish them; empty if they are equal."""
    whens: list[datetime | None] = []
    for study in (comparison.old, comparison.new):
        try:
            when = datetime.fromisoformat(study.measured.created)
        except ValueError:
            whens.append(None)
        else:
            whens.append(when.astimezone(UTC) if when.tzinfo else when.replace(tzinfo=UTC))
    for form in ("%Y-%m-%d", "%Y-%m-%d %H:%M UTC", "%Y-%m-%d %H:%M:%S UTC"):
        dates = ["" if when is None else when.strftime(form) for when in whens]
        if dates[0] != dates[1]:
            return dates
    return ["", ""]


def conclusions(comparison: Comparison) -> list[tuple[str, str]]:
    """Return the label of each target, and a sentence that compares it with its older self."""
    messages: list[tuple[str, str]] = []
    for target in comparison.new.targets:
        found = [each for each in comparison.differences if each.target == target.label]
        if found:
            # A target may be called "old" as well.
            messages.append((studies_text.name(target.label), studies_text.conclusion(
                [dataclasses.replace(each, baseline="the old study") for each in found])))
    return messages


def _sections(comparison: Comparison) -> list[tuple[str, list[str]]]:
    known: list[str] = [] if comparison.differences else ["No target and case is in both studies: nothing is compared."]
    known += [f"{studies_text.name(name)} is not compared: {studies_text.brief(why)}"
              for name, why in comparison.missing.items()]
    known += [studies_text.brief(each) for each in comparison.notes]
    titled = [("Changed besides, so that a difference may not be the code's", list(comparison.changes)),
             ("To know", known)]
    return [(title, sentences) for title, sentences in titled if sentences]


def _missing(old: StudyResult, new: StudyResult, found: Sequence[Difference]) -> dict[str, str]:
    """Return what the old study has and the comparison lacks, by target or by target and case."""
    compared = {(each.target, each.case) for each in found}
    errors = {each.label: each.error for each in new.targets}
    missing: dict[str, str] = {}
    for target, case in old.by_place:
        if (target, case) in compared:
            continue
        if target not in errors:
            missing[target] = "the new study has no such target"
        elif not any(label == target for label, _ in new.by_place):
            missing[target] = errors[target] or "the new study did not measure it"
        elif (target, case) not in new.by_place:
            missing[f"{target}, {case}"] = "the new study did not measure it"
        else:
            missing[f"{target}, {case}"] = "its code has changed"
    return missing


def _target_changes(old: TargetReport, new: TargetReport) -> list[str]:
    label = studies_text.name(new.label)
    messages = _changed(old.versions, new.versions, {name: f"{studies_text.name(name)} of {label}"
                                                 for name in dict.fromkeys([*old.versions, *new.versions])})
    for what in ("framework", "source", "revision"):
        messages += _changed(vars(old), vars(new), {what: f"{what} of {label}"})
    return messages


def _changed(old: Mapping[str, Any], new: Mapping[str, Any], names: Mapping[str, str]) -> list[str]:
    return [f"{messages}: {_shown(old.get(name))} before, {_shown(new.get(name))} now"
            for name, messages in names.items() if old.get(name) != new.get(name)]


def _shown(value: Any) -> str:
    if value is None or value == "":
        return "unknown"
    return shorten(studies_text.name(value if isinstance(value, str) else json.dumps(value, default=str)), _MOST_TEXT)
