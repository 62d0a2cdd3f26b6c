"""The study's card, read strictly; hostile names in every place."""

from __future__ import annotations

import re
from collections.abc import Callable

import handmade_studies as handmade
import pytest
from cards import HOSTILE, Reader

from kernelscope.studies import text
from kernelscope.studies.card import card
from kernelscope.studies.result import Judgement, Measured, StudyResult


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
    sentences = [sentence for _, sentence in
                 text.conclusions(result) + text.failures(result.measured) + text.remarks(result)]
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
    html = card(StudyResult(study, handmade.found(study)))
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
    found = handmade.found(study)
    found = Judgement(found.estimates, tuple(
        type(each)(**{**vars(each), "verdict": name, "advice": name}) for each in found.differences), notes=(name,))
    result = StudyResult(study, found)
    read = Reader(card(result))
    assert not {"script", "img"} & read.tags
    assert not set(card(result) + str(result)) & set("\x1b\u202e")
