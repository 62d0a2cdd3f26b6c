"""What follows from the times of a launch's parts: estimates that add up, and where a target differs."""

from __future__ import annotations

import pytest
from handmade_anatomies import CASE, NATIVE, PARTS, anatomy

from kernelscope.studies.breakdown import (
    LAUNCH,
    UNATTRIBUTED,
    AnatomyResult,
    MeasuredBreakdown,
    PartReport,
    differences,
    estimates,
    unseen,
)
from kernelscope.studies.result import FASTER, NO_DIFFERENCE, SLOWER, TOO_NOISY, Measured


def by_key(made: MeasuredBreakdown, target: str = "old") -> dict[str, float]:
    return {each.key: each.us or 0.0 for each in estimates(made) if each.target == target}


def verdicts(made: MeasuredBreakdown) -> dict[str, str]:
    return {each.label: each.verdict for each in differences(made)}


def test_a_part_is_its_time_without_that_of_the_stamps() -> None:
    found = by_key(anatomy({"old": {}}, noise_ns=0.01))
    assert {key: value for key, value in found.items() if key not in (LAUNCH, UNATTRIBUTED)} == pytest.approx(
        {key: value / 1e3 for key, (_, _, value) in PARTS.items()}, abs=1e-4)


def test_the_parts_and_what_is_left_over_make_the_launch() -> None:
    found = by_key(anatomy({"old": {}}, noise_ns=300.0, left_over_ns=-120.0))
    assert sum(value for key, value in found.items() if key != LAUNCH) == pytest.approx(found[LAUNCH])
    assert found[UNATTRIBUTED] == pytest.approx(-0.12)


def test_an_estimate_has_an_interval_and_a_share_of_the_launch() -> None:
    found = {each.key: each for each in estimates(anatomy({"old": {}}))}
    part = found["dispatch"]
    assert part.us is not None and part.low_us is not None and part.high_us is not None and part.share is not None
    assert part.low_us < 2.5 < part.high_us
    assert part.high_us - part.low_us < 0.05
    assert part.share == pytest.approx(2500 / 12250, rel=0.02)
    assert found[LAUNCH].share == pytest.approx(1.0)


def test_what_a_target_spends_more_is_found_in_its_part_and_nowhere_else() -> None:
    found = differences(anatomy({"old": {}, "new": {"argument 1": 2000.0}}))
    assert {each.label: each.verdict for each in found} == {
        **dict.fromkeys(PARTS, NO_DIFFERENCE), "argument 1": SLOWER, LAUNCH: SLOWER}
    assert verdicts(anatomy({"old": {}, "new": {"dispatch": -500.0}}))["dispatch"] == FASTER
    part = next(each for each in found if each.label == "argument 1")
    assert part.low_us < 2.0 < part.high_us
    assert part.difference_us == pytest.approx(2.0, abs=0.05)
    assert (part.target, part.baseline, part.case) == ("new", "old", CASE)


def test_two_of_the_same_do_not_differ_and_noise_is_called_noise() -> None:
    assert set(verdicts(anatomy({"old": {}, "new": {}})).values()) == {NO_DIFFERENCE}
    assert TOO_NOISY in verdicts(anatomy({"old": {}, "new": {}}, processes=4, noise_ns=3000.0)).values()
    one_process = anatomy({"old": {}, "new": {"dispatch": 5000.0}}, processes=1)
    assert set(verdicts(one_process).values()) == {TOO_NOISY}
    assert by_key(one_process)["dispatch"] == pytest.approx(2.5, abs=0.1)


def test_intervals_of_all_parts_hold_together() -> None:
    missed = 0
    for seed in range(40):
        made = anatomy({"old": {}, "new": {}}, noise_ns=30.0 + seed)
        missed += any(each.verdict in (SLOWER, FASTER) for each in differences(made))
    assert missed <= 5


def test_parts_that_only_one_has_are_compared_together_with_what_lies_beside_them() -> None:
    found = {each.label: each for each in differences(anatomy({"old": {}, "new": {}}, native=["new"]))}
    together = "set-up + arguments + configuration object + submit"
    assert list(found) == ["configure", "dispatch", together, "finish", LAUNCH]
    native = NATIVE["set-up"][2] + NATIVE["submit"][2]
    assert found[together].difference_us == pytest.approx((native - 1000 - 6000 - 700 - 1400) / 1e3, abs=0.05)


def test_parts_that_are_told_apart_in_one_only_are_compared_together() -> None:
    made = anatomy({"old": {}, "new": {}})
    # As of a version without a loop over arguments.
    taken = ("set-up", "argument 0", "argument 1", "configuration object")
    made.parts = [part for part in made.parts if part.target == "old" or part.key not in taken]
    place = next(at for at, part in enumerate(made.parts) if (part.target, part.key) == ("new", "submit"))
    made.parts.insert(place, PartReport("new", CASE, "other", "launched", "submit"))
    made.parts.append(PartReport("new", CASE, "arguments", reason="no loop"))
    made.times = [(*row[:4], "other", *row[5:]) if (row[0], row[4]) == ("new", "set-up") else row
                  for row in made.times]
    labels = [each.label for each in differences(made)]
    assert labels == ["configure", "dispatch", "set-up + arguments + configuration object + other", "submit", "finish",
                      LAUNCH]


def test_a_part_that_cannot_be_timed_is_null_with_its_reason_and_is_not_compared() -> None:
    made = anatomy({"old": {}, "new": {}}, unseen={"dispatch": "passed 0 times in 50 launches"})
    part = next(each for each in estimates(made) if (each.target, each.key) == ("new", "dispatch"))
    assert (part.us, part.share, part.reason) == (None, None, "passed 0 times in 50 launches")
    assert unseen(made, "new", CASE) == {"passed 0 times in 50 launches": ["dispatch"]}
    labels = [each.label for each in differences(made)]
    # What lies before the gap has another end than in the baseline.
    assert "dispatch" not in labels and "submit" in labels and LAUNCH in labels
    assert not [label for label in labels if "dispatch" in label]


def test_a_part_that_one_process_lacks_is_in_no_interval() -> None:
    made = anatomy({"old": {}})
    made.times = [row for row in made.times if not (row[2] == 3 and row[4] == "submit")]
    part = next(each for each in estimates(made) if each.key == "submit")
    assert (part.us, part.reason) == (None, "not timed in every process")


def test_a_target_without_a_case_is_left_out() -> None:
    made = anatomy({"old": {}, "new": {}})
    made.times = [row for row in made.times if row[0] == "old"]
    assert {each.target for each in estimates(made)} == {"old"}
    assert differences(made) == ()
    assert estimates(MeasuredBreakdown(Measured([], []))) == ()


def test_a_frame_has_a_row_a_part_with_the_difference_beside_it() -> None:
    frame = AnatomyResult(anatomy({"old": {}, "new": {"submit": 900.0}})).to_frame()
    assert len(frame) == 2 * (len(PARTS) + 2)
    row = frame[(frame["target"] == "new") & (frame["part"] == "submit")].iloc[0]
    assert row["verdict"] == SLOWER
    assert row["difference_us"] == pytest.approx(0.9, abs=0.05)
    assert frame[frame["target"] == "old"]["difference_us"].isna().all()
