"""Waterfalls of a launch."""

from __future__ import annotations

import itertools

import pytest
from handmade_anatomies import CASE, PARTS, anatomy

from kernelscope.errors import StudyError
from kernelscope.studies.breakdown import AnatomyResult, MeasuredBreakdown
from kernelscope.studies.result import Measured


def test_each_part_begins_where_the_one_before_it_ended() -> None:
    figure = AnatomyResult(anatomy({"old": {}, "new": {}}, noise_ns=0.01)).plot("waterfall")
    bars = [(bar.base[0], bar.x[0]) for bar in figure.data]
    assert len(bars) == len(PARTS) + 2
    for (base, length), (following, _) in itertools.pairwise(bars[:-1]):
        assert following == pytest.approx(base + length)
    assert bars[-1] == (0.0, pytest.approx(12.25))
    assert bars[-2][0] + bars[-2][1] == pytest.approx(12.25)  # with what is left over
    assert list(figure.layout.yaxis.ticktext)[3] == "argument 0, a: array(float32, 1d, C)"
    assert figure.data[1].error_x.array[0] >= 0


def test_from_the_baseline_to_a_target_it_is_what_each_part_adds() -> None:
    figure = AnatomyResult(anatomy({"old": {}, "new": {"argument 1": 2000.0, "finish": -200.0}}, noise_ns=1.0)).plot(
        "difference")
    labels = list(figure.layout.yaxis.ticktext)
    bars = {label: bar for label, bar in zip(labels, figure.data, strict=True)}
    assert bars["argument 1"].x[0] == pytest.approx(2.0, abs=0.01)
    assert bars["argument 1"].marker.color != bars["dispatch"].marker.color != bars["finish"].marker.color
    assert bars["launch"].x[0] == pytest.approx(1.8, abs=0.01)
    assert bars["unattributed"].base[0] + bars["unattributed"].x[0] == pytest.approx(bars["launch"].x[0])


def test_another_target_and_case_can_be_asked_for_and_an_unknown_one_is_told() -> None:
    result = AnatomyResult(anatomy({"old": {}, "new": {}}))
    assert "new" in result.plot("waterfall", target="new", case=CASE).layout.title.text
    with pytest.raises(StudyError, match="no target 'none' was measured; measured: old, new"):
        result.plot(target="none")
    with pytest.raises(StudyError, match=f"no case 'none' was measured; measured: {CASE}"):
        result.plot(case="none")
    with pytest.raises(StudyError, match="no figure 'pie' of an anatomy; known: waterfall, difference"):
        result.plot("pie")


def test_without_anything_to_show_a_sentence_says_so() -> None:
    nothing = AnatomyResult(MeasuredBreakdown(Measured([], [])))
    assert "Nothing was measured" in nothing.plot().layout.annotations[0].text
    one = AnatomyResult(anatomy({"old": {}}))
    assert "No part was compared" in one.plot("difference").layout.annotations[0].text


def test_without_a_kind_it_is_the_difference_where_there_is_one() -> None:
    two = AnatomyResult(anatomy({"old": {}, "new": {}}))
    assert "Where new differs from old" in two.plot().layout.title.text
    assert "Parts of a launch: new" in two.plot(target="new").layout.title.text
    assert "Parts of a launch: old" in AnatomyResult(anatomy({"old": {}})).plot().layout.title.text


def test_labels_are_shown_literally() -> None:
    figure = AnatomyResult(anatomy({"<b>old</b> $x$": {}}, case="<i>case</i>", is_dry_run=True)).plot()
    assert "<b>old" not in figure.layout.title.text.removeprefix("<b>")
    assert "&lt;b&gt;" in figure.layout.title.text and "$" not in figure.layout.title.text
    assert "stub" in figure.layout.title.text
