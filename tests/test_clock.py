from __future__ import annotations

import itertools
import time
from collections.abc import Iterator

import pytest

from kernelscope import clock
from kernelscope.clock import Alignment, FakeClock, align


def test_now_is_the_host_clock() -> None:
    before = time.perf_counter_ns()
    assert before <= clock.now() <= time.perf_counter_ns()


def test_seconds_are_those_of_the_same_clock() -> None:
    assert clock.in_seconds(clock.now) is time.perf_counter
    assert clock.in_seconds(FakeClock(start_ns=1_500_000_000))() == 1.5


def test_fake_clock_stands_still_until_it_is_moved() -> None:
    fake = FakeClock(start_ns=5)
    assert [fake(), fake()] == [5, 5]
    fake.advance(10)
    assert fake() == 15
    fake.advance(0)
    assert fake() == 15


def test_fake_clock_ticks_after_each_reading() -> None:
    fake = FakeClock(start_ns=0, tick_ns=3)
    assert [fake() for _ in range(4)] == [0, 3, 6, 9]


def test_fake_clock_does_not_run_backwards() -> None:
    with pytest.raises(ValueError, match="a clock does not run backwards: -1 ns"):
        FakeClock().advance(-1)


def test_alignment_is_the_middle_of_a_bracket() -> None:
    assert align(FakeClock(start_ns=100, tick_ns=10), lambda: 7, tries=1) == Alignment(105, 7, 5)
    # An odd width is rounded up: the error is a bound.
    assert align(FakeClock(start_ns=100, tick_ns=11), lambda: 7, tries=1) == Alignment(105, 7, 6)


def test_alignment_keeps_the_tightest_bracket() -> None:
    readings: Iterator[int] = iter([0, 50, 100, 104, 200, 260])
    walls = itertools.count(1)
    assert align(lambda: next(readings), lambda: next(walls), tries=3) == Alignment(102, 2, 2)


def test_alignment_of_the_real_clocks_is_close() -> None:
    """To a second, in which the system may set its clock; the readings here may be any time apart."""
    found = align()
    before, wall, after = time.perf_counter_ns(), time.time_ns(), time.perf_counter_ns()
    assert found.error_ns >= 0
    assert wall - after - 10**9 < found.wall_ns - found.host_ns < wall - before + found.error_ns + 10**9


def test_alignment_needs_a_try() -> None:
    with pytest.raises(ValueError, match="tries must be at least 1, not 0"):
        align(tries=0)
