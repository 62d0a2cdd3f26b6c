"""Generations of processes, with fakes that crash, hang, lie and print; the order of batches, and their loops."""

from __future__ import annotations

import dataclasses
import itertools
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fake_bench
import pytest

from kernelscope.errors import StudyError
from kernelscope.studies import runner
from kernelscope.studies.cases import Case
from kernelscope.studies.result import BATCH, Measured
from kernelscope.studies.runner import Plan, Run

CASES = (Case("0 args", "k()"), Case("1 args", "k(a)"))
Study = Callable[..., Measured]


@pytest.fixture
def study(tmp_path: Path) -> Study:
    """Run a study of fakes, each given as its behaviour; the first is the baseline."""

    def run(*behaviours: dict[str, Any], told: list[tuple[float, str]] | None = None,
            is_enough: Callable[[Measured], bool] | None = None, cases: tuple[Case, ...] = CASES,
            into: Measured | None = None, **settings: Any) -> Measured:
        labels = ["baseline", *(f"v{number}" for number in range(2, len(behaviours) + 1))]
        members = [fake_bench.member(tmp_path, label, **behaviour)
                   for label, behaviour in zip(labels, behaviours, strict=True)]
        measured = into or Measured([], [])
        measured.targets = [member.report for member in members]
        plan = dataclasses.replace(Plan(cases, repeats=2, processes=3, timeout_s=120), **settings)
        tell = (lambda done, text: told.append((done, text))) if told is not None else lambda done, text: None
        Run(plan, members, measured, tell, is_enough).run()
        return measured

    return run


def rows(measured: Measured) -> list[dict[str, Any]]:
    return [dict(zip(BATCH, batch, strict=True)) for batch in measured.batches]


def test_every_process_of_every_target_is_measured(study: Study, tmp_path: Path) -> None:
    measured = study({"ns": {"0 args": 3000, "1 args": 4000}}, {"ns": 5000}, {})
    found = Counter((row["target"], row["case"], row["process"], row["round"]) for row in rows(measured))
    assert found == {each: 1 for each in itertools.product(
        ("baseline", "v2", "v3"), ("0 args", "1 args"), range(3), range(2))}
    assert [row["place"] for row in rows(measured)] == list(range(36))
    assert sorted(row["start_ns"] for row in rows(measured)) == [row["start_ns"] for row in rows(measured)]
    times = {(row["target"], row["case"]): row["host_ns"] / row["loops"] for row in rows(measured)}
    assert times["baseline", "0 args"] == 3000
    assert times["baseline", "1 args"] == 4000
    assert times["v2", "1 args"] == 5000
    assert [report.processes for report in measured.targets] == [3, 3, 3]
    assert [report.error for report in measured.targets] == [None] * 3
    assert measured.ended == "all processes"
    assert measured.is_dry_run
    assert measured.host["noise"] == 0.01
    assert measured.host["clock_read_ns"] == 40
    assert measured.targets[1].versions == {"numba-cuda": "0.30.4", "python": "3.12.1"}
    assert measured.seconds > 0


def test_one_process_is_timed_at_a_time_and_all_of_a_generation_live_together(study: Study, tmp_path: Path) -> None:
    study({"takes_s": 0.002}, {"takes_s": 0.002}, {"takes_s": 0.002})
    done = fake_bench.done(tmp_path)
    timed = [row for row in done if row["do"] in ("batch", "noise")]
    assert len(timed) == 3 * 3 * (2 * 2 + 1)
    for earlier, later in itertools.pairwise(timed):
        assert earlier["to"] <= later["from"], "two were timed at once"
    for number in range(3):
        generation = [row for row in done if row["process"] == number]
        batches = [row["from"] for row in generation if row["do"] == "batch"]
        assert max(row["to"] for row in generation if row["do"] == "prepare") < min(batches)
        assert min(row["from"] for row in generation if row["do"] == "bye") > max(batches)


def test_loops_can_be_given_and_a_case_has_its_most(study: Study) -> None:
    cases = (Case("0 args", "k()"), Case("1 args", "k(a)", most_loops=50))
    measured = study({}, cases=cases, loops={"0 args": 700, "1 args": 500})
    assert {(row["case"], row["loops"]) for row in rows(measured)} == {("0 args", 700), ("1 args", 50)}


@pytest.mark.parametrize(("how", "do", "said"), [
    ("crash", "batch", "crashed with SIGSEGV while timing '1 args'; it printed last: about to crash"),
    ("leave", "prepare", "ended with exit code 7 while preparing '1 args'; it printed last: Traceback"),
    ("lie", "batch", "answered host_ns=-5 while timing '1 args'"),
    ("refuse", "hello", "setup, line 3: NameError: nobody"),
])
def test_a_target_that_fails_is_told_and_the_others_go_on(study: Study, how: str, do: str, said: str) -> None:
    case = None if do == "hello" else "1 args"
    measured = study({}, {"fails": [[how, do, case, 1]]}, {})
    baseline, failed, other = measured.targets
    assert failed.error is not None
    assert failed.error.startswith(f"process 2: {said}")
    assert failed.processes == 1
    assert (baseline.error, other.error) == (None, None)
    assert (baseline.processes, other.processes) == (3, 3)
    kept = {row["process"] for row in rows(measured) if row["target"] == "v2" and row["case"] == "1 args"}
    assert kept == {0}
    assert {row["process"] for row in rows(measured) if row["target"] == "v3"} == {0, 1, 2}
    assert measured.ended == "all processes"


def test_a_target_that_cannot_be_started_or_imports_another_framework_is_none(tmp_path: Path) -> None:
    elsewhere = tmp_path / "checkout"
    elsewhere.mkdir()
    good = fake_bench.member(tmp_path, "baseline", expected=tmp_path)
    other = fake_bench.member(tmp_path, "v2", expected=elsewhere)
    gone = dataclasses.replace(fake_bench.member(tmp_path, "v3"), command=["/nowhere/python"])
    measured = Measured([good.report, other.report, gone.report], [])
    Run(Plan(CASES, repeats=1, processes=1), [good, other, gone], measured, lambda done, text: None).run()
    assert (good.report.error, good.report.processes) == (None, 1)
    assert other.report.error == (f"it would measure another one: its framework comes from {tmp_path / 'v2'}, "
                                  f"not from {elsewhere}; look for a .pth file, a sitecustomize or an editable "
                                  "installation that comes first")
    assert gone.report.error == "cannot start /nowhere/python: No such file or directory"


@pytest.mark.parametrize("fails", [["crash", "hello", None, 0], ["crash", "batch", "1 args", 0]])
def test_a_baseline_that_fails_at_once_ends_the_study(study: Study, tmp_path: Path, fails: list[Any]) -> None:
    with pytest.raises(StudyError, match="^the baseline 'baseline' failed: crashed with SIGSEGV"):
        study({"fails": [fails]}, {})
    assert {row["process"] for row in fake_bench.done(tmp_path)} == {0}


def test_a_baseline_that_fails_later_ends_the_study_with_what_there_is(study: Study) -> None:
    measured = study({"fails": [["crash", "batch", "1 args", 1]]}, {})
    assert measured.ended == "failed"
    assert measured.targets[0].processes == 1
    assert [note for note in measured.notes if "the baseline 'baseline' failed after 1 process" in note]
    assert {row["process"] for row in rows(measured)} <= {0, 1}


def test_when_all_fail_it_says_each_reason(tmp_path: Path) -> None:
    alone = fake_bench.member(tmp_path, "baseline", fails=[["refuse", "prepare", None, None]])
    with pytest.raises(StudyError, match="none of the cases can be run; the first failed: setup, line 3: NameError"):
        Run(Plan(CASES), [alone], Measured([alone.report], []), lambda done, text: None).run()


def test_a_case_that_one_target_does_not_have(study: Study, tmp_path: Path) -> None:
    measured = study({}, {"fails": [["unavailable", "prepare", "1 args", None]]})
    assert measured.targets[1].unavailable == {"1 args": "it has no pre-launch callbacks"}
    assert measured.targets[1].error is None
    assert {(row["target"], row["case"]) for row in rows(measured)} == {
        ("baseline", "0 args"), ("baseline", "1 args"), ("v2", "0 args")}
    asked = [row for row in fake_bench.done(tmp_path)
             if (row["label"], row["do"], row["case"]) == ("v2", "prepare", "1 args")]
    assert len(asked) == 1, "it is not asked again"
    assert measured.notes == []


def test_a_case_that_the_baseline_does_not_have(study: Study) -> None:
    measured = study({"fails": [["unavailable", "prepare", "1 args", None]]}, {})
    assert {row["loops"] for row in rows(measured) if row["case"] == "1 args"} == {2500}
    assert {row["target"] for row in rows(measured) if row["case"] == "1 args"} == {"v2"}


def test_a_case_that_no_target_has(study: Study) -> None:
    nobody = {"fails": [["unavailable", "prepare", "1 args", None]]}
    measured = study(nobody, nobody)
    assert measured.notes == ["'1 args' can be run in no target: it has no pre-launch callbacks"]
    assert {row["case"] for row in rows(measured)} == {"0 args"}


def test_a_case_that_fails_while_it_is_timed(study: Study) -> None:
    measured = study({}, {"fails": [["refuse", "batch", "1 args", 1]]})
    assert measured.targets[1].unavailable == {"1 args": "failed: setup, line 3: NameError: nobody"}
    assert measured.targets[1].processes == 3


def test_it_stops_when_it_is_enough_and_not_before_eight(study: Study) -> None:
    asked: list[int] = []

    def is_enough(measured: Measured) -> bool:
        asked.append(1 + max(row["process"] for row in rows(measured)))
        return True

    measured = study({}, {}, processes=20, is_enough=is_enough)
    assert asked == [8]
    assert measured.ended == "narrow enough"
    assert measured.targets[0].processes == 8


@pytest.fixture
def a_second_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """A study takes a second for each batch, and no time for anything else."""
    monkeypatch.setattr(Run, "_elapsed_s", lambda run: float(len(run.measured.batches)))


@pytest.mark.usefixtures("a_second_a_batch")
def test_it_stops_at_the_limit(study: Study) -> None:
    measured = study({}, processes=1000, limit_s=11.0)  # each process has two rounds of two cases
    assert measured.ended == "time limit"
    assert measured.targets[0].processes == 2


@pytest.mark.usefixtures("a_second_a_batch")
def test_a_limit_ends_the_first_process_too(study: Study) -> None:
    measured = study({}, repeats=1000, processes=2, limit_s=11.0)
    assert measured.ended == "time limit"
    assert max(row["round"] for row in rows(measured)) == 5


def test_progress_grows_and_says_what_is_left(study: Study) -> None:
    told: list[tuple[float, str]] = []
    study({}, {}, told=told)
    shares = [share for share, _ in told]
    assert shares == sorted(shares)
    assert 0 <= shares[0] < 0.05
    assert 0.8 < shares[-1] <= 1
    assert told[0][1] == "process 1 of 3: starting 2 processes"
    assert told[-1][1].startswith("process 3 of 3: round 2 of 2, ")
    assert told[-1][1].endswith(" s left at most")


def test_warm_ups_that_never_settle_are_told(study: Study) -> None:
    measured = study({"stable": False}, {})
    assert measured.targets[0].warnings == ["'0 args' was not stable after its warm-up in 3 processes",
                                            "'1 args' was not stable after its warm-up in 3 processes"]
    assert measured.targets[1].warnings == []


def test_a_core_that_cannot_be_had_is_told(study: Study) -> None:
    measured = study({"hello": {"pinned_to": None, "pin_error": "not permitted"}}, cores=(3,))
    assert measured.notes == ["the processes were not put on one processor core: not permitted"]
    assert measured.host["pinned_to"] is None


def test_interrupted_it_keeps_what_was_measured_and_leaves_no_process(study: Study, tmp_path: Path) -> None:
    measured, others = Measured([], []), _children()  # what other tests have left is not this one's

    def interrupt() -> None:
        while len(measured.batches) < 6:
            time.sleep(0.005)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        study({"takes_s": 0.01}, {"takes_s": 0.01}, repeats=500, into=measured)
    assert measured.ended == "interrupted"
    assert len(measured.batches) >= 6
    assert measured.seconds > 0
    assert set(_children()) <= set(others)


def _children() -> list[int]:
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == os.getpid():
                found.append(int(folder.name))
    return found


def test_generations_that_start_together_are_timed_one_after_the_other(study: Study, tmp_path: Path) -> None:
    measured = study({}, {}, processes=5, together=2)
    log = fake_bench.done(tmp_path)
    begun = {(each["label"], each["process"]): each["from"] for each in log if each["do"] == "hello"}
    timed = sorted((each for each in log if each["do"] == "batch"), key=lambda each: each["from"])
    assert len(begun) == 10 and len(timed) == 40
    for number in range(5):
        generation = timed[8 * number:8 * number + 8]
        assert len({(each["label"], each["process"]) for each in generation}) == 2
        # Each second one begins with the processes of the next one at hand.
        assert sum(start < generation[0]["from"] for start in begun.values()) == (4, 4, 8, 8, 10)[number]
    assert [report.processes for report in measured.targets] == [5, 5]


def test_those_that_have_started_end_with_a_study_that_has_enough(study: Study) -> None:
    others = _children()
    measured = study({}, {}, processes=20, together=3, is_enough=lambda measured: True)
    assert [report.processes for report in measured.targets] == [8, 8]
    assert set(_children()) <= set(others)


def test_a_target_that_fails_in_one_of_two_generations_fails_in_both(study: Study) -> None:
    others = _children()
    measured = study({}, {"fails": [["crash", "prepare", "1 args", 1]]}, processes=4, together=2)
    assert (measured.targets[1].error or "").startswith("crashed with SIGSEGV while preparing '1 args'")
    assert [report.processes for report in measured.targets] == [4, 0]
    assert set(_children()) <= set(others)


def test_each_generation_prepares_the_cases_in_an_order_of_its_own(study: Study, tmp_path: Path) -> None:
    cases = tuple(Case(f"{number} args", "k()") for number in range(5))
    study({}, {}, processes=6, together=3, repeats=1, cases=cases)
    orders: dict[tuple[str, int], list[str]] = {}
    for each in sorted(fake_bench.done(tmp_path), key=lambda each: each["from"]):
        if each["do"] == "prepare":
            orders.setdefault((each["label"], each["process"]), []).append(each["case"])
    assert all(sorted(order) == [case.name for case in cases] for order in orders.values())
    for label in ("baseline", "v2"):
        assert len({tuple(order) for (of, _), order in orders.items() if of == label}) > 3
    # Those that are compared, in the same order: each is there for both targets.
    assert all(count % 2 == 0 for count in Counter(map(tuple, orders.values())).values())


def test_loops_are_the_most_that_a_process_of_the_baseline_has_found(study: Study) -> None:
    slow = study({"loops": [900, 2500, 1200]}, {"loops": [9000]}, processes=3, together=3)
    assert {row["loops"] for row in rows(slow)} == {2500}


def test_where_it_is_not_quiet_there_are_half_as_many_rounds_more(study: Study) -> None:
    measured = study({"references": [90_000]}, {}, repeats=4, processes=1, cases=CASES[:1])
    assert Counter(row["target"] for row in rows(measured)) == {"baseline": 6, "v2": 6}
    measured = study({"references": [90_000, 50_000, 50_000]}, {}, repeats=4, processes=1, cases=CASES[:1])
    assert Counter(row["target"] for row in rows(measured)) == {"baseline": 6, "v2": 6}
    assert measured.host["quiet"] == 10 / 12


def test_processes_follow_the_first_of_a_round_to_its_core(study: Study, tmp_path: Path) -> None:
    measured = study({"core": 2}, {"core": 1}, repeats=3, processes=1, cores=(1, 2), cases=CASES[:1])
    asked = [(each["label"], each["core"], each["quiet_ns"]) for each in fake_bench.done(tmp_path)
             if each["do"] == "batch"]
    assert [core for _, core, _ in asked[1:]] == [{"baseline": 2, "v2": 1}[label] for label, _, _ in asked[:-1]]
    assert [quiet_ns for _, _, quiet_ns in asked] == [60_000, None] * 3
    assert measured.host["moves"] == sum(one[0] != other[0] for one, other in itertools.pairwise(asked))


# ---- The order of batches, and their loops ----


TARGETS = ["A", "B", "C"]
NAMES = ["0 args", "1 args", "2 args", "3 args"]


def rounds(repeats: int = 6, seed: int = 1, targets: list[str] = TARGETS) -> list[list[runner.Turn]]:
    return runner.generation(targets, NAMES, repeats, random.Random(seed))


def test_every_round_has_each_case_in_each_target_once() -> None:
    for number, turns in enumerate(rounds()):
        assert sorted(turns) == sorted((number, case, target) for case in NAMES for target in TARGETS)


def test_targets_of_a_case_follow_one_another_and_are_rotated() -> None:
    orders: dict[str, list[str]] = {case: [] for case in NAMES}
    for turns in rounds():
        for place in range(0, len(turns), len(TARGETS)):
            group = turns[place:place + len(TARGETS)]
            assert len({turn.case for turn in group}) == 1
            orders[group[0].case].append("".join(turn.target for turn in group))
    for case in NAMES:
        assert orders[case][1:] == [order[-1] + order[:-1] for order in orders[case][:-1]], "A B C, C A B, B C A"
        assert Counter(order[0] for order in orders[case]) == dict.fromkeys(TARGETS, 2)


def test_cases_come_in_another_order_each_round() -> None:
    orders = {tuple(dict.fromkeys(turn.case for turn in turns)) for turns in rounds(repeats=20)}
    assert len(orders) > 8


def test_the_same_seed_makes_the_same_schedule() -> None:
    assert rounds(seed=3) == rounds(seed=3)
    assert rounds(seed=3) != rounds(seed=4)


@pytest.mark.parametrize(("loops", "found"), [
    (None, None),
    (5000, [5000] * 4),
    ("5_000", [5000] * 4),
    ([4, 3, 2, 1], [4, 3, 2, 1]),
    ("4, 3,2,1", [4, 3, 2, 1]),
    ("8000,...,1000", [8000, 4000, 2000, 1000]),
    ("1,…,1", [1, 1, 1, 1]),
    ("100000,...,10000", [100000, 46416, 21544, 10000]),
])
def test_loops_are_read(loops: Any, found: list[int] | None) -> None:
    parsed = runner.parse_loops(loops, NAMES)
    assert parsed == (None if found is None else dict(zip(NAMES, found, strict=True)))
    assert runner.parse_loops("100,...,10", ["only"]) == {"only": 100}


@pytest.mark.parametrize(("loops", "said"), [
    ("many", "'many' is no number from 1 to 1,000,000,000"),
    (0, "'0' is no number from 1"),
    (-3, "'-3' is no number"),
    (True, "loops=True: give one number"),
    (2.5, "is no number"),
    ("1" * 5000, "is no number"),
    ("1,2", "are 2 numbers for 4 cases"),
    ("1,...", "give one number"),
    ("...,1,...", "give one number"),
    ("1,2,...,3", "give one number"),
])
def test_wrong_loops_are_refused(loops: Any, said: str) -> None:
    with pytest.raises(StudyError, match=said):
        runner.parse_loops(loops if not isinstance(loops, float) else [loops], ["a", "b", "c", "d"])
