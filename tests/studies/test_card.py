"""The study's card, read strictly; hostile names in every place; intervals around a line at zero."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise

import handmade_studies as handmade
import pytest
from cards import HOSTILE, Reader

from kernelscope.intervals import SLOWER, TOO_NOISY
from kernelscope.studies import text
from kernelscope.studies.card import axis as axis_of
from kernelscope.studies.card import card, row
from kernelscope.studies.result import Difference, Judgement, Measured, StudyResult
from kernelscope.studies.statistics import judge


def one_target() -> Measured:
    return handmade.measured({"only": {0: 4.0, "own": 2.0}})


@pytest.mark.parametrize("make", [handmade.measured, handmade.troubled, handmade.dry_run, handmade.hostile, one_target,
                                  lambda: Measured([], []), lambda: handmade.measured(processes=1)])
def test_every_card_is_whole_and_runs_nothing(make: Callable[[], Measured]) -> None:
    html = card(StudyResult(make()))
    read = Reader(html)
    assert not {"script", "img", "iframe", "link", "object"} & read.tags
    assert not [name for name, _ in read.attributes if name.startswith("on") or name in ("src", "href", "id")]
    assert "url(" not in html
    assert not set(html) & set("\x1b\u202e")
    for name, value in read.attributes:
        if name in ("x", "x1", "x2", "cx"):
            assert re.fullmatch(r"\d{1,3}\.\d\d%", value), (name, value)


def test_card_and_text_say_the_same() -> None:
    result = StudyResult(handmade.troubled())
    shown = " ".join(Reader(card(result)).text.split())
    said = " ".join(str(result).split())
    said_of = [*text.conclusions(result), *text.failures(result.measured), *text.remarks(result.measured, result.notes)]
    sentences = [sentence for _, sentence in said_of]
    sentences += [*text.method(result.measured), text.machine(result.measured)]
    assert len(sentences) > 10
    for sentence in sentences:
        assert sentence in shown and sentence in said


def test_what_is_missing_is_told() -> None:
    read = Reader(card(StudyResult(handmade.troubled())))
    graph = next(place for place, row in enumerate(read.rows) if row and row[0] == "graph launch")
    assert [row[0] for row in read.rows[graph:graph + 3]] == ["graph launch", "baseline", "old"]
    assert (read.rows[graph + 2][1], read.rows[graph + 2][4]) == ("-", "not available")
    assert ("title", "numba-cuda 0.20.0 has no cuda.graph") in read.attributes
    assert "failed: pip install numba-cuda==99 failed: no matching distribution found" in read.text
    assert "time limit" in read.texts


def test_many_cases_are_folded() -> None:
    costs = {label: {f"case {place}": 4.0 for place in range(30)} for label in ("a", "b")}
    study = handmade.measured(costs, processes=3, repeats=1)
    html = card(StudyResult(study))
    assert "18</b> more cases" in html
    before, _, folded = html.partition("<details>")
    assert "case 11<" in before and "case 12<" not in before and "case 29<" in folded


@pytest.mark.parametrize("name", [*HOSTILE, *handmade.HOSTILE])
def test_a_hostile_name_anywhere(name: str) -> None:
    study = handmade.measured({name: {0: 4.0, "own": 1.0}, "b": {0: 4.4}}, processes=4, ended=name, notes=[name],
                              gpu=dict.fromkeys(("name", "driver", "cuda", "clocks_mhz"), name),
                              host=dict.fromkeys(("processor", "cores", "system", "governor", "pinned_to"), name))
    study.cases[0].name = name
    study.cases[1].against = name
    study.batches = [(row[0], name if row[1] == "0 args" else row[1], *row[2:]) for row in study.batches]
    study.targets[1].unavailable = {name: name}
    study.targets[1].error = study.targets[1].source = study.targets[1].revision = name
    found = judge(study)
    found = Judgement(found.estimates, tuple(
        type(each)(**{**vars(each), "verdict": name, "advice": name}) for each in found.differences), notes=(name,))
    result = StudyResult(study, found)
    read = Reader(card(result))
    assert not {"script", "img"} & read.tags
    assert not set(card(result) + str(result)) & set("\x1b\u202e")


# ---- Intervals around a line at zero ----


INF = float("inf")


def difference(low: float, middle: float, high: float, verdict: str = SLOWER) -> Difference:
    return Difference("v2", "a", "main", False, middle, low, high, middle, low, high, verdict)


@pytest.mark.parametrize("spans", [
    [(1, 2, 3)], [(-60, -50, -40), (-1, 0, 1)], [(0, 0, 0)], [(-1e-9, 0, 1e-9)], [(200, 210, 300)], [(-INF, 1, INF)],
    [(1e6, 2e6, 3e6)], [(-0.3, 0.2, 0.7)], [(float("nan"),) * 3],
])
def test_an_axis_holds_everything_and_zero(spans: list[tuple[float, float, float]]) -> None:
    held = [difference(*span) for span in spans]
    axis = axis_of(held)
    assert axis.low < 0 < axis.high
    assert 0 in axis.ticks
    assert 2 <= len(axis.ticks) <= 8
    gaps = {round(second - first, 9) for first, second in pairwise(axis.ticks)}
    assert len(gaps) == 1
    assert all(0 <= axis.place(tick) <= 100 for tick in axis.ticks)
    for span in spans:
        assert all(0 <= axis.place(value) <= 100 for value in span)


def test_noise_of_a_tenth_does_not_fill_the_axis() -> None:
    axis = axis_of([difference(-0.1, 0.0, 0.1)])
    assert axis.low <= -1 and axis.high >= 1


def test_what_is_too_noisy_makes_no_room_where_others_tell_more() -> None:
    telling, noisy = difference(1, 2, 3), difference(-500, 5, 510, TOO_NOISY)
    axis = axis_of([telling, noisy])
    assert axis.high < 10
    cut = row(axis, noisy, "#123456")
    # Both ends are arrows, and the line is dashed.
    assert cut.count(" L0 0 L") == 2
    assert "stroke-dasharray" in cut
    assert axis_of([noisy]).high > 500
    little = difference(-6, 1, 7, TOO_NOISY)
    assert axis_of([difference(-4, 0, 4), little]).high > 7
