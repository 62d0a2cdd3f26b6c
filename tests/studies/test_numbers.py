"""Microseconds and percent with as many digits as they are worth."""

from __future__ import annotations

import pytest

from kernelscope.studies import text as numbers
from kernelscope.studies.result import SLOWER, Difference, Estimate


@pytest.mark.parametrize(("value", "half", "text"), [
    (4.1, 0.05, "4.10"), (0.42, 0.003, "0.420"), (0.0421, 0.0004, "0.0421"), (1234.5, 3, "1,234.50"),
    (4.1, None, "4.10"), (0.042, None, "0.042"), (4.1, 0, "4.10"), (4.1, float("inf"), "4.10"), (4.1, 1e-12, "4.10000"),
    (float("inf"), 1, "+∞"), (float("-inf"), 1, "-∞"), (float("nan"), 1, "–"),  # noqa: RUF001
])
def test_micros(value: float, half: float | None, text: str) -> None:
    assert numbers.micros(value, half) == text


@pytest.mark.parametrize(("value", "text"), [
    (51.22, "+51.2"), (-0.04, "0.0"), (0.0, "0.0"), (-49.5, "-49.5"), (12345.6, "+12,346"), (999.94, "+999.9")])
def test_shares(value: float, text: str) -> None:
    assert numbers.share(value, signed=True) == text


def test_intervals() -> None:
    found = Difference("v2", "a", "main", False, 2.1, 2.05, 2.15, 51.22, 50.0, 52.44, SLOWER)
    assert numbers.difference(found) == "+2.10"
    assert numbers.difference_interval(found) == "[+2.05, +2.15]"
    assert (numbers.difference_percent(found), numbers.difference_percent(found, signed=True)) == ("51.2 %", "+51.2 %")
    assert numbers.percent_interval(found) == "[+50.0, +52.4] %"
    estimate = Estimate("v2", "a", 4.1, 4.11, 0.05, 4.08, 4.12, 16, 80)
    assert (numbers.median(estimate), numbers.median_interval(estimate)) == ("4.10", "[4.08, 4.12]")
    assert numbers.plain_share(51.22) == "+51.2%"
    assert numbers.plain_share(float("nan")) == "?"
