"""The one host clock: nanoseconds of `time.perf_counter_ns`, and its alignment with wall time.

A clock is any callable of no argument that returns an `int` of nanoseconds; recorders take one as an argument,
so that tests inject a `FakeClock`. `perf_counter_ns` is CLOCK_MONOTONIC on Linux: it never steps back, and one
process's threads agree on it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

Clock = Callable[[], int]

#: The host clock, in nanoseconds since an arbitrary start.
now: Clock = time.perf_counter_ns


#: How often `reference_ns` runs its piece of Python: 0.3 ms in all.
_ROUNDS = 9


def reference_ns() -> float:
    """Return how long a fixed piece of Python takes, in nanoseconds: the median of some runs.

    Host times of two recordings are compared by it: the same processor was seen to be 1.7 times slower for seconds.
    """
    times: list[int] = []
    for _ in range(_ROUNDS):
        begin = now()
        _fixed()
        times.append(now() - begin)
    return float(sorted(times)[_ROUNDS // 2])


def _fixed() -> dict[tuple[str, int], int]:
    """Do what a launch does in Python: make tuples, look things up, call."""
    held: dict[tuple[str, int], int] = {}
    for at in range(120):
        key = ("reference", at & 15)
        held[key] = held.get(key, 0) + len(str(at))
    return held


def in_seconds(clock: Clock) -> Callable[[], float]:
    """Return the same clock in seconds, as a float: cheaper to pack by 15 ns a reading (CPython 3.11).

    A float of seconds gives the nanosecond back exactly up to 46 days of uptime, and within 1 ns up to 90.
    """
    if clock is now:
        return time.perf_counter
    return lambda: clock() / 1e9


@dataclass(frozen=True)
class Alignment:
    """One instant on two clocks.

    Attributes
    ----------
    host_ns : int
        The host clock, in nanoseconds.
    wall_ns : int
        Nanoseconds since the Unix epoch at the same instant.
    error_ns : int
        Half the width of the bracket in which the wall clock was read: the most that the pair can be off.
    """

    host_ns: int
    wall_ns: int
    error_ns: int


def align(clock: Clock = now, wall: Clock = time.time_ns, tries: int = 5) -> Alignment:
    """Read the wall clock between two reads of the host clock and keep the tightest bracket.

    Parameters
    ----------
    clock, wall : callable
        The host clock and the wall clock, both in nanoseconds.
    tries : int
        How many brackets to take.
    """
    best: Alignment | None = None
    for _ in range(tries):
        before = clock()
        instant = wall()
        after = clock()
        error = (after - before + 1) // 2
        if best is None or error < best.error_ns:
            best = Alignment(host_ns=(before + after) // 2, wall_ns=instant, error_ns=error)
    if best is None:
        raise ValueError(f"tries must be at least 1, not {tries}")
    return best


class FakeClock:
    """A clock for tests: it does not advance by itself, or ticks by a fixed step at each reading.

    Parameters
    ----------
    start_ns : int
        The first reading, in nanoseconds.
    tick_ns : int
        Added after each reading, in nanoseconds.
    """

    def __init__(self, start_ns: int = 1_000_000, tick_ns: int = 0) -> None:
        self.time_ns = start_ns
        self.tick_ns = tick_ns

    def __call__(self) -> int:
        """Return the present reading, in nanoseconds."""
        reading = self.time_ns
        self.time_ns += self.tick_ns
        return reading

    def advance(self, duration_ns: int) -> None:
        """Move the clock forward by `duration_ns` nanoseconds."""
        if duration_ns < 0:
            raise ValueError(f"a clock does not run backwards: {duration_ns} ns")
        self.time_ns += duration_ns
