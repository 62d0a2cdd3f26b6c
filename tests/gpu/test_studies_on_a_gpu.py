"""Whole studies on a real GPU: the same twice is no difference, what is slower is found, every case can be run."""

from __future__ import annotations

from typing import Any

import pytest
from study_repositories import spin_us

from kernelscope import studies
from kernelscope.intervals import NO_DIFFERENCE, SLOWER

pytestmark = pytest.mark.gpu


def test_the_same_target_twice_is_no_difference() -> None:
    result = studies.launch_overhead(["base=current", "one=current", "two=current"], progress=False)
    assert not result.is_dry_run
    assert result.gpu["name"]
    assert [report.error for report in result.targets] == [None] * 3
    assert len(result.differences) == 10
    for difference in result.differences:
        assert difference.verdict == NO_DIFFERENCE, str(result)
        assert (difference.high_percent - difference.low_percent) / 2 < 2.5, str(result)


def test_one_that_spins_is_found() -> None:
    setup = ("import time\n@cuda.jit\ndef kernel():\n    pass\nheld = kernel[1, 1]\nheld()\n"
             "def slower():\n    held()\n    until = time.perf_counter_ns() + 500\n"
             "    while time.perf_counter_ns() < until:\n        pass\n"
             "def same():\n    held()\n")
    result = studies.launch_overhead(
        cases=[studies.case("same()", setup, "plain"), studies.case("slower()", setup, "spins", against="plain")],
        processes=8, progress=False)
    difference, = result.differences
    assert difference.within
    assert difference.verdict == SLOWER, str(result)
    planted = spin_us(500)
    assert planted / 2 < difference.difference_us < 2 * planted, str(result)


def test_callables_of_this_process() -> None:
    from numba import cuda

    @cuda.jit
    def kernel(array: Any) -> None:
        pass

    array = cuda.device_array(1)
    held = kernel[1, 1]
    result = studies.launch_overhead(cases=[
        studies.case(lambda: held(array), name="held"),
        studies.case(lambda: kernel[1, 1](array), name="configured", against="held")], progress=False)
    assert result.measured.is_live
    assert not result.is_dry_run
    assert all(estimate.median_us > 0 for estimate in result.estimates), str(result)
