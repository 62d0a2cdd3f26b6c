"""What a study's result offers: tables, what was not compared, limits, and how it shows itself."""

from __future__ import annotations

from pathlib import Path

import handmade_studies as handmade
import numpy as np
import pytest

from kernelscope.errors import StudyError, StudyFileError
from kernelscope.intervals import FASTER, NO_DIFFERENCE, SLOWER, TOO_NOISY
from kernelscope.studies.result import (
    BATCH,
    Difference,
    Measured,
    StudyResult,
    check,
    parse_percent,
)


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


# ---- Limits ----


def difference(low: float, middle: float, high: float, verdict: str, **changes: object) -> Difference:
    values = {"target": "v2", "case": "0 args", "baseline": "main", "within": False, **changes}
    return Difference(**values, difference_us=middle / 20, low_us=low / 20, high_us=high / 20, percent=middle,
                      low_percent=low, high_percent=high, verdict=verdict)


@pytest.mark.parametrize(("found", "outcome"), [
    (difference(4, 5, 6, SLOWER), "over"),
    (difference(2, 4, 6, SLOWER), "over"),  # its interval reaches below the limit
    (difference(1, 2, 2.5, SLOWER), "within"),  # established, and small
    (difference(1, 2.5, 4, SLOWER), "cannot tell"),
    (difference(1, 3, 5, SLOWER), "cannot tell"),  # exactly the limit is not above it
    (difference(-1, 0.5, 2, NO_DIFFERENCE), "within"),
    (difference(-1, 0.5, 3, NO_DIFFERENCE), "within"),
    (difference(-2, 1, 4, NO_DIFFERENCE), "cannot tell"),
    (difference(-10, 5, 20, TOO_NOISY), "cannot tell"),  # a busy machine fails nothing
    (difference(float("-inf"), 5, float("inf"), TOO_NOISY), "cannot tell"),
    (difference(-60, -50, -40, FASTER), "within"),
    (difference(float("nan"), float("nan"), float("nan"), NO_DIFFERENCE), "cannot tell"),
])
def test_what_one_difference_comes_to(found: Difference, outcome: str) -> None:
    checked = check([found], "3%")
    assert checked.outcome == outcome
    assert checked.failed == (outcome == "over")
    assert checked.over == ((found,) if outcome == "over" else ())
    assert checked.unsure == ((found,) if outcome == "cannot tell" else ())


def test_the_largest_comes_first_and_cases_of_one_target_are_no_regression() -> None:
    held = [difference(4, 5, 6, SLOWER), difference(8, 9, 10, SLOWER, case="1 arg"),
            difference(90, 99, 110, SLOWER, within=True)]
    checked = check(held, 3)
    assert [each.percent for each in checked.over] == [9, 5]
    assert checked.compared == 2
    assert check([difference(0.1, 0.2, 0.3, SLOWER)], 0).failed
    assert not check([difference(-0.1, 0.2, 0.3, NO_DIFFERENCE)], 0).failed


def test_it_says_what_it_found() -> None:
    held = [difference(4, 5, 6, SLOWER), difference(-10, 5, 20, TOO_NOISY, case="1 arg")]
    assert str(check(held, 3, {"gone": "pip failed"})).splitlines() == [
        "v2, 0 args is slower by 5.0 % ([+4.0, +6.0] %): over the limit of 3 %",
        "v2, 1 arg: cannot tell whether it is within 3 %; it is +5.0 %, [-10.0, +20.0] %, too noisy",
        "gone was not compared: pip failed",
    ]
    assert str(check([difference(-1, 0, 1, NO_DIFFERENCE)], 2.5)) == (
        "no slowdown of more than 2.5 %, in 1 comparison")
    assert str(check([], 3)).startswith("nothing was compared: a limit needs a baseline")
    assert check([], 3).outcome == "cannot tell"
    without_one = check([difference(-1, 0, 1, NO_DIFFERENCE)], 3, {"gone": "it crashed"})
    assert (without_one.outcome, without_one.failed) == ("cannot tell", False)


def test_names_are_neutral() -> None:
    said = str(check([difference(4, 5, 6, SLOWER, target="\x1b[31mred\n", case="x" * 500)], 3, {"\x1b": "\x1b"}))
    assert "\x1b" not in said
    assert max(map(len, said.splitlines())) < 200


@pytest.mark.parametrize(("text", "value"), [
    ("3%", 3), ("3", 3), (" 3 % ", 3), ("0.5 %", 0.5), (".5%", 0.5), ("+2%", 2), ("0", 0), (3, 3), (2.5, 2.5),
    ("3.%", 3)])
def test_limits(text: str | float, value: float) -> None:
    assert parse_percent(text) == value


@pytest.mark.parametrize("text", ["", "%", "-3%", "3 us", "three", "3%%", "nan", "inf", "1e3", "٣%", "3,5%",
                                  "\x1b[31m"])
def test_what_is_no_limit(text: str) -> None:
    with pytest.raises(StudyError, match="is no share of the baseline; give percent, such as 3% or 0.5%") as caught:
        parse_percent(text)
    assert "\x1b" not in str(caught.value)


def test_of_a_study() -> None:
    slow = handmade.measured({"main": {0: 4.0, 1: 5.0}, "v2": {0: 4.4, 1: 5.0}})
    result = StudyResult(slow)
    assert [each.case for each in result.over("3%")] == ["0 args"]
    assert result.over(25) == ()
    assert result.check("3%").failed
    same = StudyResult(handmade.measured({"main": {0: 4.0, 1: 5.0}, "v2": {0: 4.0, 1: 5.0}}))
    assert same.check("3%").outcome == "within"
