"""What studies found as answers for programs: estimates and differences with their verdicts, without the batches.

Everything that was measured is in a saved study, which ``-o`` writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any, TypedDict

from kernelscope.studies import breakdown, text
from kernelscope.studies.breakdown import AnatomyResult
from kernelscope.studies.comparison import Comparison
from kernelscope.studies.comparison import conclusions as compared
from kernelscope.studies.comparison import title as comparison_title
from kernelscope.studies.result import Difference, LimitCheck, Measured, StudyResult, TargetReport
from kernelscope.views.answer import Answer, FailOverMembers, Many, WrittenMembers, answer


class StudyMembers(TypedDict):
    """What was measured, where and when."""

    created: str | None
    seconds: float
    ended: str
    dry_run: bool
    live: bool
    notice: str | None
    processor: str | None
    cores: int | None
    noise_share: float | None
    gpu: str | None
    batches: int


class TargetMembers(TypedDict):
    """A version that was measured."""

    target: str
    source: str
    framework: str | None
    revision: str | None
    processes: int
    error: str | None
    versions: Many[str]
    warnings: Many[str]


class _Measured(TypedDict):
    study: StudyMembers
    targets: Many[TargetMembers]


class _Outcome(TypedDict):
    fail_over: FailOverMembers | None
    written: Many[WrittenMembers] | None


class _Difference(TypedDict):
    target: str
    case: str
    baseline: str
    within: Annotated[bool, "compared with another case of the same target"]
    difference_us: float | None
    low_us: float | None
    high_us: float | None
    percent: float | None
    low_percent: float | None
    high_percent: float | None
    verdict: Annotated[str, "faster, slower, no difference seen or too noisy"]
    advice: str
    pairs: int


class DifferenceMembers(_Difference, total=False):
    """The difference of two cases or targets."""

    old_us: Annotated[float | None, "of a comparison: the medians"]
    new_us: Annotated[float | None, "of a comparison: the medians"]


class EstimateMembers(TypedDict):
    """The host time of a launch of a case."""

    target: str
    case: str
    median_us: float | None
    mean_us: float | None
    sd_us: float | None
    low_us: Annotated[float | None, "the 95 % interval of the median; null where there was one process"]
    high_us: Annotated[float | None, "the 95 % interval of the median; null where there was one process"]
    processes: int
    batches: int


class PartMembers(TypedDict):
    """A part of a launch."""

    target: str
    case: str
    key: str
    note: str
    us: float | None
    low_us: float | None
    high_us: float | None
    share: float | None
    reason: str | None


class PartDifferenceMembers(TypedDict):
    """The difference of a part's time between two targets."""

    target: str
    case: str
    baseline: str
    label: str
    difference_us: float | None
    low_us: float | None
    high_us: float | None
    verdict: str


class OldStudyMembers(TypedDict):
    """One of two compared studies."""

    created: str | None
    targets: Many[str]


class StudyAnswer(Answer, _Measured, _Outcome):
    """What kernelscope study launch, against, suite and show say."""

    problems: Many[str]
    differences: Many[DifferenceMembers]
    estimates: Many[EstimateMembers]
    notes: Many[str]


class StudyComparisonAnswer(Answer, _Outcome):
    """What kernelscope study compare says."""

    old: OldStudyMembers
    new: OldStudyMembers
    dry_run: bool
    differences: Many[DifferenceMembers]
    changes: Annotated[Many[str], "what else changed between the two"]
    missing: Many[str]
    notes: Many[str]


class AnatomyAnswer(Answer, _Measured, _Outcome):
    """What kernelscope study anatomy says, and study show of an anatomy."""

    parts: Many[PartMembers]
    differences: Many[PartDifferenceMembers]
    notes: Many[str]


def study_answer(result: StudyResult | Comparison | AnatomyResult, limit: int | None = None, *,
                 check: LimitCheck | None = None, written: Many[WrittenMembers] | None = None) -> dict[str, Any]:
    """Return the answer of a study, a comparison or an anatomy, as `kernelscope.views.answer.answer` does.

    Parameters
    ----------
    result : StudyResult, Comparison or AnatomyResult
        What was found.
    limit : int, optional
        How many rows a list may have.
    check : LimitCheck, optional
        What became of the limit of ``--fail-over``.
    written : optional
        The member ``written``: the files that were.
    """
    outcome: _Outcome = {
        "fail_over": None if check is None else {
            "limit_percent": check.limit_percent, "outcome": check.outcome, "compared": check.compared,
            "lines": Many(str(check).splitlines())},
        "written": written}
    match result:
        case AnatomyResult():
            return answer(AnatomyAnswer, _anatomy(result, outcome), limit)
        case Comparison():
            return answer(StudyComparisonAnswer, _comparison(result, outcome), limit)
        case StudyResult():
            return answer(StudyAnswer, _study(result, outcome), limit)


def _said(title: str, sentences: Sequence[str]) -> str:
    """Return the headline: what was measured, and what was found."""
    return " ".join(f"{each.rstrip('.')}." for each in (title, *sentences))


def _study(result: StudyResult, outcome: _Outcome) -> StudyAnswer:
    said = [f"{label}: {sentence}" for label, sentence in text.conclusions(result)]
    failed = [f"{label}: {sentence}" for label, sentence in text.failures(result.measured)]
    return {
        "verdict": _said(text.title(result.measured), said), "problems": Many(failed), **_measured(result.measured),
        "differences": Many(result.differences, lambda difference: DifferenceMembers(**asdict(difference))),
        "estimates": Many(result.estimates, lambda estimate: EstimateMembers(**asdict(estimate))),
        "notes": Many([*result.measured.notes, *result.notes]), **outcome,
    }


def _measured(measured: Measured) -> _Measured:
    host, gpu = measured.host, measured.gpu
    return {
        "study": {
            "created": measured.created or None, "seconds": measured.seconds, "ended": measured.ended,
            "dry_run": measured.is_dry_run, "live": measured.is_live, "notice": text.notice(measured) or None,
            "processor": host.get("processor"), "cores": host.get("cores"), "noise_share": host.get("noise"),
            "gpu": gpu.get("name"), "batches": len(measured.batches)},
        "targets": Many(measured.targets, _target),
    }


def _target(each: TargetReport) -> TargetMembers:
    return {"target": each.label, "source": each.source, "framework": each.framework or None,
            "revision": each.revision, "processes": each.processes, "error": each.error,
            "versions": Many([f"{name} {version}" for name, version in each.versions.items()], weight=3),
            "warnings": Many(each.warnings)}


def _comparison(result: Comparison, outcome: _Outcome) -> StudyComparisonAnswer:
    said = [f"{label}: {sentence}" for label, sentence in compared(result)]

    def side(study: StudyResult) -> OldStudyMembers:
        return {"created": study.measured.created or None, "targets": Many([target.label for target in study.targets])}

    def row(difference: Difference) -> DifferenceMembers:
        case = difference.target, difference.case
        return DifferenceMembers(**asdict(difference), old_us=result.old.by_place[case].median_us,
                                 new_us=result.new.by_place[case].median_us)

    return {
        "verdict": _said(comparison_title(result), said),
        "old": side(result.old), "new": side(result.new),
        "dry_run": result.is_dry_run, "differences": Many(result.differences, row), "changes": Many(result.changes),
        "missing": Many([f"{name}: {why}" for name, why in result.missing.items()]), "notes": Many(result.notes),
        **outcome,
    }


def _anatomy(result: AnatomyResult, outcome: _Outcome) -> AnatomyAnswer:
    return {
        "verdict": _said(breakdown.title(result), breakdown.conclusions(result)),
        **_measured(result.measured),
        "parts": Many(result.parts, lambda row: PartMembers(**asdict(row)), weight=3),
        "differences": Many(result.differences, lambda difference: PartDifferenceMembers(**asdict(difference))),
        "notes": Many(result.measured.notes), **outcome,
    }
