"""The order of batches, and how many loops they have."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from kernelscope.errors import StudyError
from kernelscope.studies import runner

TARGETS = ["A", "B", "C"]
CASES = ["0 args", "1 args", "2 args", "3 args"]


def rounds(repeats: int = 6, seed: int = 1, targets: list[str] = TARGETS) -> list[list[runner.Turn]]:
    return runner.generation(targets, CASES, repeats, random.Random(seed))


def test_every_round_has_each_case_in_each_target_once() -> None:
    for number, turns in enumerate(rounds()):
        assert sorted(turns) == sorted((number, case, target) for case in CASES for target in TARGETS)


def test_targets_of_a_case_follow_one_another_and_are_rotated() -> None:
    orders: dict[str, list[str]] = {case: [] for case in CASES}
    for turns in rounds():
        for place in range(0, len(turns), len(TARGETS)):
            group = turns[place:place + len(TARGETS)]
            assert len({turn.case for turn in group}) == 1
            orders[group[0].case].append("".join(turn.target for turn in group))
    for case in CASES:
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
    parsed = runner.parse_loops(loops, CASES)
    assert parsed == (None if found is None else dict(zip(CASES, found, strict=True)))
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
