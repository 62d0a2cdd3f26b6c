"""A study's figures: what they hold, what they say, and that they draw themselves."""

from __future__ import annotations

import functools
import json
import math
import statistics
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from browsing import chromiums, in_both_fonts
from handmade_studies import COSTS, HOSTILE, dry_run, hostile, measured, troubled

from kernelscope.intervals import NO_DIFFERENCE, TOO_NOISY
from kernelscope.studies import figures
from kernelscope.studies.figures import batches_of
from kernelscope.studies.result import CaseReport, Judgement, Measured, StudyResult
from kernelscope.views.charts import MOST_MARKS, figures_html


@pytest.fixture(scope="module")
def study() -> StudyResult:
    """Four targets, 0 to 4 arguments."""
    return StudyResult(measured())


@functools.cache
def ways(targets: int, count: int = 12, **options: Any) -> StudyResult:
    """Cases that differ by more than a number of arguments; one is compared with another."""
    cases = [CaseReport(f"way {at}", "k()", against="way 0" if at == 1 else None) for at in range(count)]
    costs = {f"target {place}": {f"way {at}": 4.0 + at + place * (at % 2) for at in range(count)}
             for place in range(targets)}
    return StudyResult(measured(costs, cases=cases, **options))


def marks(figure: Any) -> int:
    return sum(len(trace.q1 if trace.type == "box" else trace.x) for trace in figure.data)


def on(figure: Any, axis: str) -> dict[str, Any]:
    """The traces of one part by the name that the legend shows."""
    return {trace.name: trace for trace in figure.data if (trace.xaxis or "x") == axis}


def test_intervals_by_number_of_arguments(study: StudyResult) -> None:
    figure = figures.plot(study)
    lines, differences = on(figure, "x"), on(figure, "x2")
    assert list(lines) == list(COSTS) and list(differences) == list(COSTS)[1:]
    # The estimates may come in any order, and lines must not run back and forth.
    held = {each.case: each for each in sorted(study.estimates, key=lambda each: each.case) if each.target == "v2"}
    line = lines["v2"]
    assert [round(x) for x in line.x] == [0, 1, 2, 3, 4]
    assert list(line.y) == [each.median_us for each in held.values()]
    assert [y + up for y, up in zip(line.y, line.error_y.array, strict=True)] == pytest.approx(
        [each.high_us for each in held.values()])
    assert [y - down for y, down in zip(line.y, line.error_y.arrayminus, strict=True)] == pytest.approx(
        [each.low_us for each in held.values()])
    percents = {each.case: each.percent for each in study.differences if each.target == "v2"}
    assert list(differences["v2"].y) == [percents[case] for case in held]
    assert figure.layout.yaxis2.zerolinewidth > 1 and list(figure.layout.xaxis.ticktext) == list("01234")
    # No two targets lie on each other.
    assert len({trace.x[0] for trace in lines.values()}) == len(COSTS)


def test_a_difference_that_was_not_seen_is_hollow(study: StudyResult) -> None:
    for axis, result in (("x2", study), ("x2", ways(3))):
        traces = on(figures.intervals(result), axis)
        assert traces
        for name, trace in traces.items():
            places = [each.name for each in result.measured.cases]
            held = [each for each in result.differences if each.target == name and not each.within]
            if result is study:
                held.sort(key=lambda each: places.index(each.case))
            verdicts = [each.verdict for each in held]
            assert [symbol.endswith("-open") for symbol in trace.marker.symbol] == [
                verdict in (NO_DIFFERENCE, TOO_NOISY) for verdict in verdicts]
    verdicts = {each.verdict for each in study.differences}
    assert len(verdicts) == 3


def test_intervals_by_row() -> None:
    result = ways(3)
    figure = figures.intervals(result)
    assert list(figure.layout.yaxis.ticktext) == [f"way {at}" for at in range(12)]
    assert tuple(figure.layout.yaxis.range) == tuple(figure.layout.yaxis2.range) == (11.5, -0.5)
    assert not figure.layout.yaxis2.showticklabels
    assert list(on(figure, "x2")) == ["target 1", "target 2"]
    within = on(figure, "x3")
    assert list(within) == ["target 0", "target 1", "target 2"]
    assert list(figure.layout.yaxis3.ticktext) == ["way 1<br>against way 0"]
    assert within["target 1"].x[0] == pytest.approx(next(
        each.percent for each in result.differences if each.within and each.target == "target 1"))


def test_one_target_has_no_place_for_differences() -> None:
    figure = figures.intervals(StudyResult(measured({"only": COSTS["baseline"]})))
    assert list(on(figure, "x")) == ["only"] and not on(figure, "x2")
    assert tuple(figure.layout.xaxis.domain) == (0, 1) and not figure.layout.showlegend


@pytest.mark.parametrize(("args", "by_number"), [((0, 1, 2, 4), True), ((0, 26), False), ((0, 1, 2, 26), False)])
def test_numbers_far_from_each_other_are_rows(args: tuple[int, ...], by_number: bool) -> None:
    figure = figures.intervals(StudyResult(measured({"one": {each: 4.0 + each for each in args}})))
    assert (figure.layout.yaxis.ticktext is None) == by_number


def test_costs_far_from_each_other_are_logarithmic() -> None:
    near = figures.intervals(StudyResult(measured({"one": {"short": 4.0, "long": 80.0}})))
    far = figures.intervals(StudyResult(measured({"one": {"short": 4.0, "long": 800.0}})))
    assert near.layout.xaxis.type is None and far.layout.xaxis.type == "log"
    assert {"5", "1,000"} <= {*far.layout.xaxis.ticktext}
    farther = figures.intervals(StudyResult(measured({"one": {"short": 0.2, "long": 800.0}})))
    assert list(farther.layout.xaxis.ticktext) == ["0.1", "1", "10", "100", "1,000"]


def test_distributions_are_of_processes(study: StudyResult) -> None:
    figure = figures.plot(study, "distributions", cases=["2 args"])
    processes = batches_of(study.measured)["v2", "2 args"]
    values = [statistics.median(us for _, us in each) for each in processes.values()]
    assert len(values) == 16
    points = next(each for each in figure.data if each.type == "scatter" and each.name == "v2")
    box = next(each for each in figure.data if each.type == "box" and each.name == "v2")
    assert list(points.x) == values
    assert box.median[0] == statistics.median(values) and box.upperfence[0] == max(values)
    assert list(figure.layout.yaxis.ticktext) == list(COSTS)


def test_drift_has_every_batch(study: StudyResult) -> None:
    figure = figures.plot(study, "drift")
    assert marks(figure) == len(study.measured.batches)
    assert [trace.name for trace in figure.data if trace.showlegend] == list(COSTS)
    first = next(row for row in study.measured.batches if row[:2] == ("v2", "0 args"))
    assert on(figure, "x")["v2"].y[0] == pytest.approx(first[7] / first[6] / 1000)
    assert on(figure, "x")["v2"].x[0] == pytest.approx(first[5] / 1e9)


def test_drift_marks_what_lies_far_above_at_the_edge() -> None:
    result = StudyResult(measured({"one": {0: 4.0}}))
    row = list(result.measured.batches[7])
    row[7] *= 40
    result.measured.batches[7] = tuple(row)
    (trace,) = figures.drift(result).data
    assert max(trace.y) < 8.0
    assert [symbol == "triangle-up-open" for symbol in trace.marker.symbol].count(True) == 1
    assert f"{row[7] / row[6] / 1000:.1f} µs" in trace.customdata[7]


@pytest.mark.parametrize("kind", figures.KINDS)
def test_at_most_two_thousand_marks(kind: str) -> None:
    for result in (ways(6, processes=40), ways(6, 30, processes=6, repeats=7)):
        figure = figures.plot(result, kind)
        assert 0 < marks(figure) <= MOST_MARKS
        if kind != "intervals" and len(result.measured.cases) == 30:
            assert "the first 12 of 30 cases" in figure.layout.title.text


@pytest.mark.parametrize("kind", figures.KINDS)
def test_names_are_shown_literally(kind: str) -> None:
    for name in (*HOSTILE, "$x^2$", "%{y}"):
        costs = {"base": {name: 4.0, "x": 4.0}, name: {name: 4.2, "x": 4.0}}
        cases = [CaseReport(name, name, against="x"), CaseReport("x", "x")]
        result = StudyResult(measured(costs, cases=cases, processes=4))
        told = tuple(replace(each, advice=name) for each in result.differences)
        result = StudyResult(result.measured, Judgement(result.estimates, told))
        figure = figures.plot(result, kind)
        text = figure.to_json()
        assert "<img" not in text and "<script" not in text and "$x" not in text
        assert "\\u001b" not in text and "\u202e" not in text and "\\u202e\"" not in text
        assert all(trace.hovertemplate in (None, "%{customdata}<extra></extra>") for trace in figure.data)
    assert marks(figures.plot(StudyResult(hostile()), kind))


@pytest.mark.parametrize("kind", figures.KINDS)
def test_what_is_missing_is_a_sentence(kind: str) -> None:
    figure = figures.plot(StudyResult(Measured([], [])), kind)
    assert not figure.data and figure.layout.annotations[0].text.startswith("Nothing was measured")


@pytest.mark.parametrize("kind", figures.KINDS)
def test_targets_that_failed_are_left_out_and_others_keep_their_colors(kind: str) -> None:
    figure = figures.plot(StudyResult(troubled()), kind)
    assert {trace.name for trace in figure.data} == {"baseline", "old"}
    costs = {"baseline": COSTS["baseline"], "gone": {}, "old": COSTS["v2"]}
    without = figures.plot(StudyResult(measured(costs)), kind)
    # The third target has the third color, as if the second were there.
    assert {trace.marker.color for trace in without.data if trace.name == "old"} == {"#e69f00"}


@pytest.mark.parametrize("kind", figures.KINDS)
def test_a_dry_run_says_so(kind: str) -> None:
    assert "dry run: the driver call is a stub" in figures.plot(StudyResult(dry_run()), kind).layout.title.text
    assert "dry run" not in figures.plot(StudyResult(measured()), kind).layout.title.text


def test_what_is_not_known_is_no_number(study: StudyResult) -> None:
    first = StudyResult(measured(processes=1))
    estimates = tuple(replace(each, low_us=-math.inf, high_us=math.nan) for each in first.estimates)
    differences = (
        *(replace(each, low_percent=-math.inf, high_percent=math.inf, low_us=-math.inf, high_us=math.inf)
          for each in first.differences if each.target == "v2"),
        replace(first.differences[0], percent=math.nan))
    figure = figures.intervals(StudyResult(first.measured, Judgement(estimates, differences)))
    json.loads(json.dumps(figure.to_plotly_json(), allow_nan=False, default=list))
    assert "its interval is not known" in on(figure, "x2")["v2"].customdata[0]
    assert "1 process, 5 batches" in on(figure, "x")["v2"].customdata[0]
    assert "contextvar" not in on(figure, "x2")


@in_both_fonts
@pytest.mark.browser
@pytest.mark.slow
def test_they_draw_themselves(study: StudyResult, tmp_path: Path, font: str) -> None:
    page_path = tmp_path / "page.html"
    results = study, ways(6), StudyResult(hostile())
    drawn = [figures.plot(result, kind) for result in results for kind in figures.KINDS]
    page_path.write_text('<!DOCTYPE html><meta charset="utf-8"><body>' + figures_html(drawn), encoding="utf-8")
    with chromiums(tmp_path) as chromium:
        page = chromium(font).new_page(viewport={"width": 900, "height": 700})
        problems: list[str] = []
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda message: problems.append(message.text) if message.type != "log" else None)
        page.on("dialog", lambda dialog: (problems.append("dialog"), dialog.dismiss()))
        page.goto(page_path.as_uri())
        page.wait_for_function("document.querySelectorAll('[data-drawn=done]').length == 1", timeout=60_000)
        labels = {each.strip() for each in page.locator(".ytick text").all_text_contents()}
        # Titles, headings, axes and legends are inside of their figure, and do not cover each other.
        bad = page.evaluate("""() => [...document.querySelectorAll(".js-plotly-plot")].flatMap((figure, at) => {
            const outer = figure.getBoundingClientRect();
            const box = (node) => node.getBoundingClientRect();
            const found = [];
            const texts = [...figure.querySelectorAll(".gtitle, .annotation text, .legendtext, .xtitle")];
            for (const node of texts) {
                const place = box(node);
                if (place.top < outer.top - 1 || place.bottom > outer.bottom + 1 || place.right > outer.right + 1)
                    found.push(`${at}: ${node.textContent} is cut off`);
                for (const other of texts) {
                    const second = box(other);
                    if (node !== other && place.left < second.right - 1 && second.left < place.right - 1
                        && place.top < second.bottom - 3 && second.top < place.bottom - 3)
                        found.push(`${at}: ${node.textContent} covers ${other.textContent}`);
                }
            }
            return found;
        })""")
    assert not problems
    assert bad == []
    assert "<script>alert(1)</script>" in labels


@pytest.mark.parametrize("counts", [(0, 1), (0, 2, 4), (0, 1, 2, 3, 4)], ids=str)
@pytest.mark.parametrize("count", [1, 2, 4])
def test_marks_stay_near_their_number_of_arguments(counts: tuple[int, ...], count: int) -> None:
    costs = {label: {args: of[args] for args in counts} for label, of in list(COSTS.items())[:count]}
    figure = StudyResult(measured(costs)).plot()
    for trace in figure.data:
        axis = figure.layout["xaxis2" if trace.xaxis == "x2" else "xaxis"]
        whole = axis.range[1] - axis.range[0]
        assert all(axis.range[0] < x < axis.range[1] for x in (*trace.x, *counts))
        assert all(abs(x - args) < 0.04 * whole for x, args in zip(trace.x, counts, strict=True))
    # One that is compared alone lies at its number.
    alone = [list(trace.x) for trace in figure.data if trace.xaxis == "x2"]
    assert count != 2 or alone == [list(counts)]
