"""What a study's result offers: tables, what was not compared, and how it shows itself."""

from __future__ import annotations

from pathlib import Path

import handmade_studies as handmade
import numpy as np
import pytest

from kernelscope.errors import StudyFileError
from kernelscope.studies.result import BATCH, Measured, StudyResult


def test_the_frame() -> None:
    result = StudyResult(handmade.measured())
    frame = result.to_frame()
    assert list(frame.columns) == [
        "target", "case", "args", "median_us", "mean_us", "sd_us", "low_us", "high_us", "processes", "batches",
        "difference_us", "difference_low_us", "difference_high_us", "percent", "low_percent", "high_percent", "verdict",
        "advice"]
    assert len(frame) == 20
    assert result.worst is not None and (result.worst.target, result.worst.case) == ("contextvar", "0 args")
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
