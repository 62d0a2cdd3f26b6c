"""What a study's result offers: tables, what was not compared, and how it shows itself."""

from __future__ import annotations

from pathlib import Path

import handmade_studies as handmade
import numpy as np
import pytest

from kernelscope.errors import StudyFileError
from kernelscope.studies.result import BATCH, Measured, StudyResult, load


def test_estimates_and_differences_are_worked_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from kernelscope.studies import statistics

    judged: list[Measured] = []
    judge = statistics.judge
    monkeypatch.setattr(statistics, "judge", lambda study: (judged.append(study), judge(study))[1])
    result = StudyResult(handmade.measured())
    assert judged == []
    assert len(result.estimates) == 20 and len(result.differences) == 15
    assert result.differences == judge(result.measured).differences
    assert str(result) and result.to_frame().shape and result.to_json()
    assert judged == [result.measured]


def test_the_frame() -> None:
    result = StudyResult(handmade.measured())
    frame = result.to_frame()
    assert list(frame.columns) == [
        "target", "case", "args", "median_us", "mean_us", "sd_us", "low_us", "high_us", "processes", "batches",
        "difference_us", "difference_low_us", "difference_high_us", "percent", "low_percent", "high_percent", "verdict",
        "advice"]
    assert len(frame) == 20
    slow = frame[(frame.target == "contextvar") & (frame.case == "0 args")].iloc[0]
    assert (slow.args, slow.processes, slow.batches, slow.verdict) == (0, 16, 80, "slower")
    assert slow.difference_low_us < slow.difference_us < slow.difference_high_us
    assert slow.percent == pytest.approx(51, abs=2)
    baseline = frame[frame.target == "baseline"]
    assert baseline[["difference_us", "percent", "low_percent", "verdict"]].isna().all(axis=None)
    assert str(frame.args.dtype) == "Int64" and frame.percent.dtype == np.float64


def test_the_batches() -> None:
    result = StudyResult(handmade.measured({"a": {0: 4.0}}, processes=2, repeats=3))
    assert list(result.batches.columns) == [*BATCH, "us"]
    assert result.batches.host_ns.dtype == np.int64
    assert result.batches.us.tolist() == pytest.approx([row[7] / row[6] / 1000 for row in result.measured.batches])
    assert len(result.batches) == 6


def test_nothing_was_measured() -> None:
    result = StudyResult(Measured([], [], ended="failed"))
    assert (result.baseline, result.worst, result.not_compared) == ("", None, {})
    assert len(result.batches) == 0 and list(result.batches.columns) == [*BATCH, "us"]
    assert len(result.to_frame()) == 0
    assert "Nothing was measured." in str(result)
    assert "Nothing was measured." in result._repr_html_()


def test_what_was_not_compared() -> None:
    result = StudyResult(handmade.troubled())
    assert result.not_compared == {
        "old, graph launch": "numba-cuda 0.20.0 has no cuda.graph",
        "gone": "pip install numba-cuda==99 failed: no matching distribution found",
    }
    assert result.check(50).outcome == "cannot tell"
    other = StudyResult(handmade.measured({"a": {0: 4.0}, "b": {1: 5.0}}))
    assert other.not_compared["b"] == "it has no case in common with the baseline"


def test_lookups() -> None:
    result = StudyResult(handmade.measured())
    assert result.by_place["v2", "1 arg"].target == "v2"
    assert result.against_baseline["v2", "1 arg"].baseline == "baseline"
    assert ("baseline", "1 arg") not in result.against_baseline
    worst = result.worst
    assert worst is not None and (worst.target, worst.case) == ("contextvar", "0 args")
    assert (result.baseline, result.is_dry_run) == ("baseline", False)
    assert result.gpu["driver"] == "580.95.05" and result.host["cores"] == 8
    assert [each.label for each in result.targets] == list(handmade.COSTS)
    assert [each.args for each in result.cases] == [0, 1, 2, 3, 4]


def test_the_page_has_the_card_and_the_figures(tmp_path: Path) -> None:
    result = StudyResult(handmade.dry_run())
    path = result.to_html(tmp_path / "study")
    assert path == tmp_path / "study.html"
    page = path.read_text(encoding="utf-8")
    assert page.startswith("<!DOCTYPE html>")
    assert result._repr_html_() in page
    assert len(result.figures()) == 3
    assert page.count('data-kind="figures"') == 1
    with pytest.raises(StudyFileError, match="there is no folder"):
        result.to_html(tmp_path / "no" / "study.html")
    empty = StudyResult(Measured([], [])).to_html(tmp_path / "empty.html").read_text(encoding="utf-8")
    assert "plotly" not in empty


def test_load_gives_a_result(tmp_path: Path) -> None:
    result = StudyResult(handmade.dry_run())
    again = load(result.save(tmp_path / "study"))
    assert isinstance(again, StudyResult)
    assert str(again) == str(result)
    assert again._repr_html_() == result._repr_html_()
    assert again.is_dry_run
