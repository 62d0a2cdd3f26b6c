from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from handmade import Script

from kernelscope.analysis.advice import longest_rounds, repetition


@pytest.mark.parametrize(("keys", "found"), [
    ([], (0, 0, 0)), ([1], (0, 0, 0)), ([1, 2, 3], (0, 0, 0)), ([7] * 5, (0, 1, 5)),
    ([1, 2] * 4, (0, 2, 4)), ([9, 1, 2, 3, 1, 2, 3, 1, 2, 3, 5], (1, 3, 3)), ([1, 2, 1, 2, 1], (0, 2, 2)),
    ([1, 1, 2, 1, 1, 2, 1, 1, 2], (0, 3, 3)),
])
def test_rounds(keys: list[int], found: tuple[int, int, int]) -> None:
    assert longest_rounds(np.array(keys, dtype=np.int64)) == found


def _loop(script: type[Script], rounds: int, kernels: int = 3, **launch: Any) -> Any:
    made = script()
    for at in range(kernels):
        made.kernel(f"k{at}")
        made.specialization(at)
    made.configuration()
    for _ in range(rounds):
        for at in range(kernels):
            made.launch(at, specialization=at, **launch)
    return made


def test_a_loop_with_its_time(script: type[Script]) -> None:
    made = _loop(script, 25)
    made.rows["launches"][0] |= {"compile_ns": 500, "dispatch_end_ns": made.rows["launches"][0]["dispatch_end_ns"]}
    found = repetition(made.recording())
    assert found is not None
    assert (found.dispatchers, found.rounds, found.cell_id) == ((0, 1, 2), 25, None)
    assert (found.usual_rounds, found.usual_ns, found.long_ns) == (25, 25 * 30_000 - 500, 0)


def test_rounds_that_waited_are_summed_by_themselves(script: type[Script]) -> None:
    made = _loop(script, 25)
    for at in (3, 40):
        made.rows["launches"][at]["end_ns"] += 7_000_000
    found = repetition(made.recording())
    assert found is not None
    assert (found.rounds, found.usual_rounds, found.usual_ns, found.long_ns) == (25, 23, 690_000, 14_060_000)


def test_what_is_no_plain_loop(script: type[Script]) -> None:
    assert repetition(_loop(script, 19).recording()) is None
    assert repetition(_loop(script, 100, kernels=1).recording()) is None
    assert repetition(script().recording()) is None
    assert repetition(_loop(script, 30, capture_event_id=0).recording()) is None
    assert repetition(_loop(script, 30, phases=None, end_ns=None).recording()) is None


def test_other_configurations_are_other_launches(script: type[Script]) -> None:
    made = _loop(script, 40)
    for at, row in enumerate(made.rows["launches"]):
        row["configuration_id"] = at
    for _ in made.rows["launches"]:
        made.configuration()
    assert repetition(made.recording()) is None


def test_threads_are_looked_at_one_by_one(script: type[Script]) -> None:
    made = _loop(script, 60)
    for at, row in enumerate(made.rows["launches"]):
        row["thread_id"] = at % 2
    found = repetition(made.recording())
    assert found is not None
    assert (found.dispatchers, found.rounds) == ((0, 2, 1), 30)
