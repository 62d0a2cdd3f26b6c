"""The sentences about a study."""

from __future__ import annotations

from typing import Any

import handmade_studies as handmade
import pytest

from kernelscope.studies import text
from kernelscope.studies.result import (
    FASTER,
    NO_DIFFERENCE,
    SLOWER,
    TOO_NOISY,
    Difference,
)


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
    assert text.conclusion(found(*verdicts)) == said


def test_how_it_was_measured() -> None:
    said = text.method(handmade.measured({"a": {0: 4.0}, "b": {0: 4.0}}, seconds=56.9))
    assert said == [
        "16 processes of each target, in each 5 batches a case, of 2,000 launches.",
        "Pinned to core 3.",
        "Others took 0.4 % of the time from a loop that does nothing.",
        "The clock's resolution is 1 ns, and reading it takes 38 ns.",
        "The machine's load was 0.2 before and 1.0 after.",
        text.METHOD,
        "It ended after 56.9 s: all processes were measured.",
    ]
    one = text.method(handmade.measured({"a": {0: 4.0}}, processes=1, repeats=1, host={"pinned_to": None}, seconds=0.0,
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
    assert text.method(study)[-1] == f"It ended: {said}"


def test_amounts_that_differ() -> None:
    study = handmade.measured({"a": {0: 4.0}, "b": {0: 4.0}}, processes=4)
    study.batches = [row for row in study.batches if row[0] == "a" or row[2] < 2][:-1]
    study.batches[0] = (*study.batches[0][:6], 500, *study.batches[0][7:])
    assert text.method(study)[0].startswith("2 to 4 processes of each target, in each ")
    assert text.method(study)[0].endswith("of 500 to 2,000 launches.")


def test_what_was_taken_off_is_said() -> None:
    study = handmade.measured({"a": {0: 4.0}})
    study.batches = [(*row[:9], row[7] // 3) for row in study.batches]
    assert "While other processes had the processor, 25 % of the batches' time, is taken off." in text.method(study)
    study = handmade.measured({"a": {0: 4.0}}, host={"sees_waits": False})
    assert text.method(study)[1] == ("The system does not tell how long other processes had the processor: it is in "
                                      "the times.")


@pytest.mark.parametrize("value", [None, "", "much", -1, float("inf"), float("nan"), True, [], {"a": 1}, 10**18])
def test_facts_that_make_no_sense_are_left_out(value: Any) -> None:
    host = dict.fromkeys(("noise", "clock_resolution_ns", "clock_read_ns", "load_before", "load_after"), value)
    said = text.method(handmade.measured({"a": {0: 4.0}}, processes=1, host=host))
    assert len(said) == 2


@pytest.mark.parametrize(("cores", "said"), [
    ([1, 2], "Pinned to one core at a time, of 1, 2."),
    ([4], "Pinned to core 4."), (list(range(15)), "Pinned to one core at a time, of 15 cores."),
    (3, "Pinned to core 3."), ([], "Not pinned to a core."),
    ("<b>", "Pinned to core <b>."), ({"a": 1}, 'core {"a": 1}.')])
def test_pinning(cores: Any, said: str) -> None:
    assert said in " ".join(text.method(handmade.measured({"a": {0: 4.0}}, processes=1, host={"pinned_to": cores})))


def test_failures_say_what_is_kept() -> None:
    study = handmade.measured({"a": {0: 4.0}, "b": {0: 4.0}, "c": {0: 4.0}}, processes=3)
    study.targets[1].error, study.targets[1].processes = "it\nhung", 1
    study.targets[2].error, study.targets[2].processes = "it crashed", 0
    assert text.failures(study) == [("b", "failed: it hung. Results of the process before that are kept."),
                                     ("c", "failed: it crashed")]
