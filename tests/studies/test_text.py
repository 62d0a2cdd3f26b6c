"""The study as text: the field's table to the letter, then intervals, verdicts and how it was measured."""

from __future__ import annotations

import re

import handmade_studies as handmade
import pytest

from kernelscope.studies import text as studies_text
from kernelscope.studies.result import (
    NO_DIFFERENCE,
    SLOWER,
    TOO_NOISY,
    Difference,
    Estimate,
    Judgement,
    StudyResult,
)
from kernelscope.studies.text import overhead, text
from kernelscope.views.base import width_of

FIELD = """\
Launch overhead (us/launch):
args  baseline            contextvar          v2
0     4.10 +/- 0.05       6.20 +/- 0.06       4.50 +/- 0.04
Deltas vs baseline:
0                         2.10 (+51.2%)       0.40 (+9.8%)"""


def given(*, case: str = "0 args", advice: str = "") -> StudyResult:
    """A study that found what stands in the field's example."""
    study = handmade.measured({label: {0: 4.0} for label in ("baseline", "contextvar", "v2")}, processes=2)
    study.cases[0].name = case
    study.batches = [(row[0], case, *row[2:]) for row in study.batches]
    costs = {"baseline": (4.10, 0.05), "contextvar": (6.20, 0.06), "v2": (4.50, 0.04)}
    estimates = tuple(Estimate(label, case, mean, mean, sd, mean - 0.02, mean + 0.02, 16, 80)
                      for label, (mean, sd) in costs.items())
    differences = (
        Difference("contextvar", case, "baseline", False, 2.1, 2.05, 2.15, 51.22, 50.0, 52.44, SLOWER),
        Difference("v2", case, "baseline", False, 0.4, -0.3, 1.1, 9.76, -7.3, 26.8, TOO_NOISY, advice),
    )
    return StudyResult(study, Judgement(estimates, differences))


def test_the_table_of_the_field() -> None:
    assert text(given(), 100).startswith(FIELD + "\n")


def test_intervals_and_verdicts_follow() -> None:
    said = text(given(advice="about 90 processes would tell"), 100)
    assert """
contextvar: slower than baseline, by 51.2 %
v2: too noisy to tell (about 90 processes would tell)

Differences from baseline, with intervals
  target      args  µs/launch        interval      %        interval  verdict
  contextvar  0         +2.10  [+2.05, +2.15]  +51.2  [+50.0, +52.4]  slower
""" in said
    assert "  too noisy\n    about 90 processes would tell\n" in said


def test_what_is_ruled_out_is_said_once() -> None:
    result = StudyResult(handmade.measured({"a": {0: 4.0, 1: 5.0}, "b": {0: 4.0, 1: 5.0}}))
    assert {each.verdict for each in result.differences} == {NO_DIFFERENCE}
    said = text(result, 100)
    said_of_b = next(line for line in said.splitlines() if line.startswith("b: "))
    assert re.fullmatch(r"b: no difference seen in any of 2 cases \(more than \d\.\d % is ruled out\)", said_of_b)
    assert said.count("is ruled out") == 1


@pytest.mark.parametrize("targets", [1, 2, 6, 11])
@pytest.mark.parametrize("width", [60, 100, 120])
@pytest.mark.parametrize("label", ["v", "a label of middle length"])
def test_no_line_is_too_long(targets: int, width: int, label: str) -> None:
    costs = {f"{label} {place}": {0: 4.0 + place, 1: 5.0 + place} for place in range(targets)}
    result = StudyResult(handmade.measured(costs, processes=4))
    said = overhead(result, width)
    assert max(map(width_of, said.splitlines())) <= max(width, 6 + 2 * 28)
    # Every target is there, and each block begins with the baseline.
    assert all(f"{label} {place}" in said for place in range(targets))
    heads = [line for line in said.splitlines() if line.startswith("args")]
    assert all(f"{label} 0" in line for line in heads)
    assert (len(heads) > 1) == ((targets * 28 > width and label != "v") or targets * 15 > width)


def test_one_target_has_intervals_and_no_deltas() -> None:
    said = text(StudyResult(handmade.measured({"only": {0: 4.0}})), 100)
    assert "Deltas" not in said and "Differences" not in said
    assert re.search(r"Medians, with intervals of 95 %\n  target  args  µs/launch +interval\n"
                     r"  only +0 +4\.\d\d  \[", said)


def test_cases_within_a_target() -> None:
    study = handmade.measured({"a": {4: 6.0, 0: 4.0}, "b": {4: 7.0, 0: 4.0}})
    study.cases[1].against = "4 args"
    said = text(StudyResult(study), 100)
    assert re.search(r"Cases compared within a target\n  case +µs/launch .*\n  a, against 4 args:\n"
                     r"    0 args +-2\.\d\d .*\n  b, against 4 args:\n    0 args +-[23]\.\d\d ", said)


def test_long_names_of_cases_compared_within_a_target_are_not_cut() -> None:
    names = ["4 args", "1 pre-launch callback", "explicit stream", "4 pre-launch callbacks", "graph of 20 kernels"]
    study = handmade.measured({"baseline": {name: 600.0 + place for place, name in enumerate(names)}})
    for case, against in zip(study.cases[1:], ("4 args", "4 args", "4 args", "explicit stream"), strict=True):
        case.against = against
    said = text(StudyResult(study), 86).partition("Cases compared")[2]
    assert "…" not in said and all(name in said for name in names)
    assert said.count("baseline, against 4 args:\n") == said.count("baseline, against explicit stream:\n") == 1
    assert max(map(len, said.splitlines())) <= 86
    assert said.count("  interval") == 1
    assert text(StudyResult(study), 120).partition("Cases compared")[2].count("  interval") == 2


def test_trouble_is_told() -> None:
    said = text(StudyResult(handmade.troubled()), 100)
    assert "gone: failed: pip install numba-cuda==99 failed: no matching distribution found\n" in said
    assert "old: without graph launch: numba-cuda 0.20.0 has no cuda.graph" in said
    assert "old: its processes were killed twice and started again" in said
    assert "A recording was under way in this process." in said
    assert "the time limit was reached" in " ".join(said.split())
    assert re.search(r"^graph launch +2\.\d\d \+/- 0\.\d\d +- +-$", said, re.MULTILINE)


def test_a_dry_run_says_so_first() -> None:
    first = text(StudyResult(handmade.dry_run()), 100).splitlines()[0]
    assert first == f"*** {studies_text.NOTICE} ***"
    assert studies_text.NOTICE.startswith("dry run: kernels did not execute")
    assert "***" not in text(StudyResult(handmade.measured()), 100)


def test_hostile_names_break_no_line() -> None:
    said = text(StudyResult(handmade.hostile()), 100)
    assert not set(said) & set("\x1b\u202e\t\r")
    assert len([line for line in said.splitlines() if line.startswith("two\\nlines")]) >= 2
    assert max(map(width_of, said.splitlines())) <= 100
