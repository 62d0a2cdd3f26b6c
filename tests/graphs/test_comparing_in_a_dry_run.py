"""What-if in a dry run says what it captured, and claims no time and no result."""

from __future__ import annotations

from typing import Any

import pytest

from kernelscope.graphs import from_recording, whatif

pytestmark = pytest.mark.usefixtures("nothing_is_left")


def claims_nothing(result: Any) -> None:
    assert result.is_dry_run
    assert (result.host, result.gpu, result.equal, result.replays_to_pay_off) == (None, None, None, None)
    assert (result.capture_ns, result.instantiate_ns, result.samples, len(result.to_frame())) == (None, None, 0, 0)


def test_a_function(cuda, step, array, counted) -> None:
    def function() -> None:
        for _ in range(20):
            step[1, 32](array)
        array.copy_to_device(array)
        step[1, 32](array)

    result = whatif(function)
    claims_nothing(result)
    assert (result.rounds, result.launches, result.copies, result.nodes, result.arrays) == (None, 21, 1, 22, 1)
    assert counted() == (21, 21, 0, 0), "run once, captured once, and not replayed"
    assert "Captured and instantiated: 22 nodes, on 1 array of 32 B." in str(result)
    assert array.copy_to_host().tolist() == [0.0, 1.0, 2.0, 3.0]


def test_a_round_of_a_cell(step, scale, array, recorded) -> None:
    names = {"step": step, "scale": scale, "a": array}
    source = "for _ in range(30):\n    step[1, 1](a)\n    scale[1, 1](a, 2.0, a)\n"
    result = from_recording(recorded(source, names), namespace=names)
    claims_nothing(result)
    assert (result.rounds, result.launches, result.nodes) == (30, 2, 2)
