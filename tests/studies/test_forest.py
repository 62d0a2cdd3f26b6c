"""Intervals around a line at zero."""

from __future__ import annotations

from itertools import pairwise

import pytest

from kernelscope.studies import card
from kernelscope.studies.result import SLOWER, TOO_NOISY, Difference

INF = float("inf")


def difference(low: float, middle: float, high: float, verdict: str = SLOWER) -> Difference:
    return Difference("v2", "a", "main", False, middle, low, high, middle, low, high, verdict)


@pytest.mark.parametrize("spans", [
    [(1, 2, 3)], [(-60, -50, -40), (-1, 0, 1)], [(0, 0, 0)], [(-1e-9, 0, 1e-9)], [(200, 210, 300)], [(-INF, 1, INF)],
    [(1e6, 2e6, 3e6)], [(-0.3, 0.2, 0.7)], [(float("nan"),) * 3],
])
def test_an_axis_holds_everything_and_zero(spans: list[tuple[float, float, float]]) -> None:
    held = [difference(*span) for span in spans]
    axis = card.axis(held)
    assert axis.low < 0 < axis.high
    assert 0 in axis.ticks
    assert 2 <= len(axis.ticks) <= 8
    gaps = {round(second - first, 9) for first, second in pairwise(axis.ticks)}
    assert len(gaps) == 1
    assert all(0 <= axis.place(tick) <= 100 for tick in axis.ticks)
    for span in spans:
        assert all(0 <= axis.place(value) <= 100 for value in span)


def test_noise_of_a_tenth_does_not_fill_the_axis() -> None:
    axis = card.axis([difference(-0.1, 0.0, 0.1)])
    assert axis.low <= -1 and axis.high >= 1


def test_what_is_too_noisy_makes_no_room_where_others_tell_more() -> None:
    telling, noisy = difference(1, 2, 3), difference(-500, 5, 510, TOO_NOISY)
    axis = card.axis([telling, noisy])
    assert axis.high < 10
    cut = card.row(axis, noisy, "#123456")
    # Both ends are arrows, and the line is dashed.
    assert cut.count(" L0 0 L") == 2
    assert "stroke-dasharray" in cut
    assert card.axis([noisy]).high > 500
    little = difference(-6, 1, 7, TOO_NOISY)
    assert card.axis([difference(-4, 0, 4), little]).high > 7
