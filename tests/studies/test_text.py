"""The study as text: the field's table to the letter, then intervals, verdicts, sentences and numbers."""

from __future__ import annotations

import re
from typing import Any

import handmade_studies as handmade
import pytest

from kernelscope.intervals import FASTER, NO_DIFFERENCE, SLOWER, TOO_NOISY
from kernelscope.studies import text as texts
from kernelscope.studies.result import (
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
    assert first == f"*** {texts.NOTICE} ***"
    assert texts.NOTICE.startswith("dry run: kernels did not execute")
    assert "***" not in text(StudyResult(handmade.measured()), 100)


def test_hostile_names_break_no_line() -> None:
    said = text(StudyResult(handmade.hostile()), 100)
    assert not set(said) & set("\x1b\u202e\t\r")
    assert len([line for line in said.splitlines() if line.startswith("two\\nlines")]) >= 2
    assert max(map(width_of, said.splitlines())) <= 100


# ---- Sentences ----


def found(*verdicts: tuple[str, float]) -> list[Difference]:
    return [Difference("v2", f"{place} args", "main", False, value / 25, 0, 0, value, value - 1, value + 1, verdict,
                       "pin it" if verdict == TOO_NOISY else "") for place, (verdict, value) in enumerate(verdicts)]


@pytest.mark.parametrize(("verdicts", "said"), [
    ([(SLOWER, 9.8)], "slower than main, by 9.8 %"),
    ([(SLOWER, 9.8), (SLOWER, 9.82)], "slower than main in both cases, by 9.8 %"),
    ([(SLOWER, 9.8), (SLOWER, 2.0), (SLOWER, 5.0)], "slower than main in all 3 cases, by 2.0 to 9.8 %"),
    ([(FASTER, -50.2), (FASTER, -49.5)], "faster than main in both cases, by 49.5 to 50.2 %"),
    ([(NO_DIFFERENCE, 0.2)], "no difference seen (more than 1.2 % is ruled out)"),
    ([(NO_DIFFERENCE, 0.2), (NO_DIFFERENCE, -0.5)],
     "no difference seen in any of 2 cases (more than 1.5 % is ruled out)"),
    ([(TOO_NOISY, 3.0)], "too noisy to tell (pin it)"),
    ([(NO_DIFFERENCE, 0.2), (SLOWER, 3.0), (FASTER, -2.0), (TOO_NOISY, 1.0)],
     "slower than main in 1 of 4 cases, by 3.0 %; faster than main in 1 of 4 cases, by 2.0 %; no difference seen in 1 "
     "of 4 cases (more than 1.2 % is ruled out); too noisy to tell in 1 of 4 cases (pin it)"),
])
def test_a_conclusion(verdicts: list[tuple[str, float]], said: str) -> None:
    assert texts.conclusion(found(*verdicts)) == said


def test_how_it_was_measured() -> None:
    said = texts.method(handmade.measured({"a": {0: 4.0}, "b": {0: 4.0}}, seconds=56.9))
    assert said == [
        "16 processes of each target, in each 5 batches a case, of 2,000 launches.",
        "Pinned to core 3.",
        "Others took 0.4 % of the time from a loop that does nothing.",
        "The clock's resolution is 1 ns, and reading it takes 38 ns.",
        "The machine's load was 0.2 before and 1.0 after.",
        texts.METHOD,
        "It ended after 56.9 s: all processes were measured.",
    ]
    one = texts.method(handmade.measured({"a": {0: 4.0}}, processes=1, repeats=1, host={"pinned_to": None}, seconds=0.0,
                                         ended="narrow enough"))
    assert one == ["1 process, in each 1 batch a case, of 2,000 launches.", "Not pinned to a core.",
                   "It ended: all intervals were narrow enough."]


@pytest.mark.parametrize(("ended", "failed", "said"), [
    ("all processes", ["c"], "all processes were measured, but for those of c, which failed."),
    ("narrow enough", ["b", "c"], "all intervals were narrow enough, but for those of b, c, which failed."),
    ("all processes", ["b", "c", "d", "e"],
     "all processes were measured, but for those of b, c, d and 1 more, which failed."),
    ("all processes", ["a", "b", "c", "d", "e"], "no target was left, all had failed."),
    ("time limit", ["c"], "the time limit was reached."),
])
def test_not_all_is_measured_where_a_target_failed(ended: str, failed: list[str], said: str) -> None:
    study = handmade.measured({label: {0: 4.0} for label in "abcde"}, processes=2, seconds=0.0, ended=ended)
    for target in study.targets:
        target.error = "it crashed" if target.label in failed else None
    assert texts.method(study)[-1] == f"It ended: {said}"


def test_amounts_that_differ() -> None:
    study = handmade.measured({"a": {0: 4.0}, "b": {0: 4.0}}, processes=4)
    study.batches = [row for row in study.batches if row[0] == "a" or row[2] < 2][:-1]
    study.batches[0] = (*study.batches[0][:6], 500, *study.batches[0][7:])
    assert texts.method(study)[0].startswith("2 to 4 processes of each target, in each ")
    assert texts.method(study)[0].endswith("of 500 to 2,000 launches.")


def test_what_was_taken_off_is_said() -> None:
    study = handmade.measured({"a": {0: 4.0}})
    study.batches = [(*row[:9], row[7] // 3) for row in study.batches]
    assert "While other processes had the processor, 25 % of the batches' time, is taken off." in texts.method(study)
    study = handmade.measured({"a": {0: 4.0}}, host={"sees_waits": False})
    assert texts.method(study)[1] == ("The system does not tell how long other processes had the processor: it is in "
                                      "the times.")


@pytest.mark.parametrize("value", [None, "", "much", -1, float("inf"), float("nan"), True, [], {"a": 1}, 10**18])
def test_facts_that_make_no_sense_are_left_out(value: Any) -> None:
    host = dict.fromkeys(("noise", "clock_resolution_ns", "clock_read_ns", "load_before", "load_after"), value)
    said = texts.method(handmade.measured({"a": {0: 4.0}}, processes=1, host=host))
    assert len(said) == 2


@pytest.mark.parametrize(("cores", "said"), [
    ([1, 2], "Pinned to one core at a time, of 1, 2."),
    ([4], "Pinned to core 4."), (list(range(15)), "Pinned to one core at a time, of 15 cores."),
    (3, "Pinned to core 3."), ([], "Not pinned to a core."),
    ("<b>", "Pinned to core <b>."), ({"a": 1}, 'core {"a": 1}.')])
def test_pinning(cores: Any, said: str) -> None:
    assert said in " ".join(texts.method(handmade.measured({"a": {0: 4.0}}, processes=1, host={"pinned_to": cores})))


def test_failures_say_what_is_kept() -> None:
    study = handmade.measured({"a": {0: 4.0}, "b": {0: 4.0}, "c": {0: 4.0}}, processes=3)
    study.targets[1].error, study.targets[1].processes = "it\nhung", 1
    study.targets[2].error, study.targets[2].processes = "it crashed", 0
    assert texts.failures(study) == [("b", "failed: it hung. Results of the process before that are kept."),
                                     ("c", "failed: it crashed")]


# ---- Numbers ----


@pytest.mark.parametrize(("value", "half", "said"), [
    (4.1, 0.05, "4.10"), (0.42, 0.003, "0.420"), (0.0421, 0.0004, "0.0421"), (1234.5, 3, "1,234.50"),
    (4.1, None, "4.10"), (0.042, None, "0.042"), (4.1, 0, "4.10"), (4.1, float("inf"), "4.10"), (4.1, 1e-12, "4.10000"),
    (float("inf"), 1, "+∞"), (float("-inf"), 1, "-∞"), (float("nan"), 1, "–"),  # noqa: RUF001
])
def test_micros(value: float, half: float | None, said: str) -> None:
    assert texts.micros(value, half) == said


@pytest.mark.parametrize(("value", "said"), [
    (51.22, "+51.2"), (-0.04, "0.0"), (0.0, "0.0"), (-49.5, "-49.5"), (12345.6, "+12,346"), (999.94, "+999.9")])
def test_shares(value: float, said: str) -> None:
    assert texts.share(value, signed=True) == said


def test_intervals() -> None:
    found = Difference("v2", "a", "main", False, 2.1, 2.05, 2.15, 51.22, 50.0, 52.44, SLOWER)
    assert texts.difference(found) == "+2.10"
    assert texts.difference_interval(found) == "[+2.05, +2.15]"
    assert (texts.difference_percent(found), texts.difference_percent(found, signed=True)) == ("51.2 %", "+51.2 %")
    assert texts.percent_interval(found) == "[+50.0, +52.4] %"
    estimate = Estimate("v2", "a", 4.1, 4.11, 0.05, 4.08, 4.12, 16, 80)
    assert (texts.median(estimate), texts.median_interval(estimate)) == ("4.10", "[4.08, 4.12]")
    assert texts.plain_share(51.22) == "+51.2%"
    assert texts.plain_share(float("nan")) == "?"
