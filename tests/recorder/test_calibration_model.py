"""Calibrations: what counts, when they hold, and what is refused of a file."""

from __future__ import annotations

import copy
import json
from datetime import timedelta
from typing import Any

import pytest
from calibrations import HERE, TODAY, calibration, cost

from kernelscope.recorder.overhead import MOST_DAYS, Calibration, Interval


@pytest.mark.parametrize(("interval", "is_seen", "counted"), [
    ((95.0, 90.0, 101.0), True, 95.0),
    ((3.0, -5.0, 12.0), False, 12.0),
    ((3.0, 0.0, 12.0), False, 12.0),
    ((-20.0, -30.0, -10.0), False, 30.0),  # no saving: that far off is the measurement
    ((0.0, 0.0, 0.0), False, 1.0),
])
def test_a_cost_is_never_counted_as_nothing(interval: tuple[float, ...], is_seen: bool, counted: float) -> None:
    added = Interval(*interval)
    assert (added.is_seen, added.counted_ns) == (is_seen, counted)


def test_the_largest_cost_that_is_seen_is_stated() -> None:
    none, noisy = cost(95, 90, 101, arguments=0), cost(20, -400, 900)
    assert calibration(none, noisy).worst is none
    assert calibration(none, cost(120, 100, 130)).worst.added.middle_ns == 120
    assert calibration(cost(1, -4, 9), noisy).worst is noisy


def test_a_sound_one_sees_no_difference_between_nothing_and_nothing() -> None:
    assert calibration().is_sound
    assert not calibration(cost(), cost(same=(8.0, 5.0, 9.0))).is_sound


@pytest.mark.parametrize(("setting", "said"), [
    ({"machine": "other"}, "of another machine: other, Fast 9000"),
    ({"processor": "Slow 1"}, "of another machine: box, Slow 1"),
    ({"python": "3.11.7"}, "of Python 3.11.7, and this is 3.12.1"),
    ({"kernelscope": "0.0.9"}, "of kernelscope 0.0.9, and this is 0.1.0"),
    ({"numba_cuda": "0.31.0"}, "of numba-cuda 0.31.0, and this is 0.30.4"),
    ({"detail": "launch", "gpu": "NVIDIA X"}, None),
])
def test_where_it_does_not_hold(setting: dict[str, Any], said: str | None) -> None:
    assert calibration(**setting).objection(HERE, TODAY) == said


def test_one_of_another_gpu_does_not_hold() -> None:
    here = calibration(gpu="NVIDIA Y").setting
    assert calibration(gpu="NVIDIA X").objection(here, TODAY) == "of another GPU: NVIDIA X"
    assert calibration(gpu="NVIDIA Y").objection(here, TODAY) is None


@pytest.mark.parametrize(("days", "said"), [
    (MOST_DAYS, None), (MOST_DAYS + 1, "181 days old, and 180 is the most"), (-0.5, None),
    (-3, "from the future: 2026-11-22"),
])
def test_how_long_it_holds(days: float, said: str | None) -> None:
    assert calibration().objection(HERE, TODAY + timedelta(days=days)) == said


def test_json_keeps_everything() -> None:
    made = calibration(cost(), cost(arguments=0), gpu="NVIDIA X", quiet=False)
    assert Calibration.from_json(json.loads(json.dumps(made.to_json()))) == made


def changed(*path: Any, value: Any) -> Any:
    held: Any = copy.deepcopy(calibration().to_json())
    inner = held
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return held


@pytest.mark.parametrize(("held", "said"), [
    (None, "a calibration is None, and no JSON object"),
    (changed("machine", value=7), "machine is 7, and no text that a calibration has"),
    (changed("python", value=""), "python is ''"),
    (changed("gpu", value="\x1b[31m"), r"gpu is '\\x1b\[31m'"),
    (changed("detail", value="x" * 500), r"detail is 'x+\.\.\.,"),
    (changed("measured", value="yesterday"), "measured is 'yesterday', and no date"),
    (changed("measured", value="2026-11-22T10:00:00"), "without a time zone"),
    (changed("quiet", value=1), "quiet is 1, and neither true nor false"),
    (changed("costs", value=[]), r"costs is \[\], and no list of costs"),
    (changed("costs", 0, value="dear"), "a cost is 'dear'"),
    (changed("costs", 0, "launch_ns", value=-1), "launch_ns is -1, and no number"),
    (changed("costs", 0, "launch_ns", value=True), "launch_ns is True"),
    (changed("costs", 0, "launch_ns", value=10**400), "launch_ns is 10+"),
    (changed("costs", 0, "added", "low_ns", value=float("nan")), "low_ns is nan"),
    (changed("costs", 0, "added", "high_ns", value=float("inf")), "high_ns is inf"),
    (changed("costs", 0, "added", "middle_ns", value=500), "its middle is not between its ends"),
    (changed("costs", 0, "rounds", value=0), "rounds is 0"),
    (changed("costs", 0, "tail", value=None), "tail is None"),
    (changed("costs", 0, "same", value={}), "middle_ns is None"),
])
def test_what_is_no_calibration_is_refused(held: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Calibration.from_json(held)
