"""What studies found as answers for programs: estimates and differences with their verdicts, without the batches.

Everything that was measured is in a saved study, which ``-o`` writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from kernelscope.studies import breakdown, text
from kernelscope.studies.breakdown import AnatomyResult
from kernelscope.studies.comparison import Comparison
from kernelscope.studies.comparison import conclusions as compared
from kernelscope.studies.comparison import title as comparison_title
from kernelscope.studies.result import LimitCheck, Measured, StudyResult, TargetReport
from kernelscope.views.answer import Many, answer

Members = dict[str, Any]


def study_answer(result: StudyResult | Comparison | AnatomyResult, limit: int | None = None, *,
                 check: LimitCheck | None = None, written: Many | None = None) -> Members:
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
    match result:
        case AnatomyResult():
            kind, members = "anatomy", {"verdict": _said(breakdown.title(result), breakdown.conclusions(result)),
                                        **_measured(result.measured), "parts": Many(result.parts, asdict, weight=3),
                                        "differences": Many(result.differences, asdict),
                                        "notes": Many(result.measured.notes)}
        case Comparison():
            kind, members = "study_comparison", _comparison(result)
        case StudyResult():
            kind, members = "study", _study(result)
    limits = None if check is None else {
        "limit_percent": check.limit_percent, "outcome": check.outcome, "compared": check.compared,
        "lines": Many(str(check).splitlines())}
    return answer(kind, members | {"fail_over": limits, "written": written}, limit)


def _said(title: str, sentences: Sequence[str]) -> str:
    """Return the headline: what was measured, and what was found."""
    return " ".join(f"{each.rstrip('.')}." for each in (title, *sentences))


def _study(result: StudyResult) -> Members:
    said = [f"{label}: {sentence}" for label, sentence in text.conclusions(result)]
    failed = [f"{label}: {sentence}" for label, sentence in text.failures(result.measured)]
    return {
        "verdict": _said(text.title(result.measured), said), "problems": Many(failed), **_measured(result.measured),
        "differences": Many(result.differences, asdict), "estimates": Many(result.estimates, asdict),
        "notes": Many([*result.measured.notes, *result.notes]),
    }


def _measured(measured: Measured) -> Members:
    host, gpu = measured.host, measured.gpu
    return {
        "study": {
            "created": measured.created or None, "seconds": measured.seconds, "ended": measured.ended,
            "dry_run": measured.is_dry_run, "live": measured.is_live, "notice": text.notice(measured) or None,
            "processor": host.get("processor"), "cores": host.get("cores"), "noise_share": host.get("noise"),
            "gpu": gpu.get("name"), "batches": len(measured.batches)},
        "targets": Many(measured.targets, _target),
    }


def _target(each: TargetReport) -> Members:
    return {"target": each.label, "source": each.source, "framework": each.framework or None,
            "revision": each.revision, "processes": each.processes, "error": each.error,
            "versions": Many([f"{name} {version}" for name, version in each.versions.items()], weight=3),
            "warnings": Many(each.warnings)}


def _comparison(result: Comparison) -> Members:
    said = [f"{label}: {sentence}" for label, sentence in compared(result)]

    def row(each: Any) -> Members:
        place = each.target, each.case
        return asdict(each) | {"old_us": result.old.by_place[place].median_us,
                               "new_us": result.new.by_place[place].median_us}

    return {
        "verdict": _said(comparison_title(result), said),
        **{name: {"created": study.measured.created or None, "targets": Many([each.label for each in study.targets])}
           for name, study in (("old", result.old), ("new", result.new))},
        "dry_run": result.is_dry_run, "differences": Many(result.differences, row), "changes": Many(result.changes),
        "missing": Many([f"{name}: {why}" for name, why in result.missing.items()]), "notes": Many(result.notes),
    }
