"""One clock for several processes: offset and drift lie within the stated bound, and what cannot be known is said."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from worker_recordings import worker

from kernelscope.recording import clocks
from kernelscope.recording.merge import merge

# A process whose clock is the host's, shifted and with another pace, as the line that asks for it says.
_OTHER = """
import sys, time
for line in sys.stdin:
    base, shift, ppm = map(int, line.split())
    time_ns = time.perf_counter_ns()
    print(time_ns + shift + (time_ns - base) * ppm // 1_000_000, flush=True)
"""


@pytest.fixture(scope="module")
def others() -> Iterator[list[subprocess.Popen[str]]]:
    held = [subprocess.Popen([sys.executable, "-S", "-c", _OTHER], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             text=True, bufsize=1) for _ in range(4)]
    yield held
    for each in held:
        assert each.stdin is not None and each.stdout is not None
        each.stdin.close()
        each.wait(60)
        each.stdout.close()


def test_the_offset_lies_within_its_bound(others: list[subprocess.Popen[str]]) -> None:
    rng, bounds = random.Random(20), []
    for _ in range(25):
        base = time.perf_counter_ns()
        shifts = [(rng.randrange(-10**9, 10**9), rng.randrange(-100, 101)) for _ in others]

        def pings(at: int, base: int = base, shifts: list[tuple[int, int]] = shifts) -> list[clocks.Ping]:
            def call() -> int:
                other = others[at]
                assert other.stdin is not None and other.stdout is not None
                print(base, *shifts[at], file=other.stdin, flush=True)
                return int(other.stdout.readline())

            return clocks.ping(call)

        begin = [pings(at) for at in range(4)]
        time.sleep(0.02)
        end = [pings(at) for at in range(4)]
        for at, (shift, ppm) in enumerate(shifts):
            true = np.linspace(begin[at][0][0], end[at][-1][2], 50).astype(np.int64)
            read = true + shift + (true - base) * ppm // 1_000_000
            found = clocks.fit(begin[at], end[at], (int(read[0]), int(read[-1])))
            assert np.abs(found.moved(read) - true).max() <= found.bound_ns
            bounds.append(found.bound_ns)
    print(f"bounds: median {np.median(bounds) / 1e3:.1f} µs, largest {max(bounds) / 1e3:.1f} µs")


def test_the_fastest_pings_count_and_the_bound_grows_outside_of_them() -> None:
    begin, end = [(0, 1_000, 400), (1_000, 1_550, 1_100)], [(101_000, 101_560, 101_100)]
    found = clocks.fit(begin, end)
    assert (found.at_ns, found.offset_ns, found.bound_ns) == (1_550, -500, 52)
    assert found.moved(np.array([1_550, 101_560], np.int64)).tolist() == [1_050, 101_050]
    assert clocks.fit(begin, end, (-98_460, 101_560)).bound_ns == 154
    assert clocks.fit(begin).moved(np.array([5_550], np.int64)).tolist() == [5_050]
    assert clocks.fit(begin, span=(1_550, 1_001_550)).bound_ns == 51 + 500
    for wrong, message in (((), "no ping"), ([(5, 1, 4)], "answered at 4 ns and sent at 5 ns, later")):
        with pytest.raises(ValueError, match=message):
            clocks.fit(wrong)
    with pytest.raises(ValueError, match="moved apart by 1.00 s in 100 µs: one was set"):
        clocks.fit(begin, [(1_000_001_500 - 500 + 100_050, 101_550, 1_000_001_500 - 400 + 100_050)])


def _pinged(recording: Any, **pings: Any) -> Any:
    return type(recording)(recording.tables, {**recording.metadata, "pings": pings})


def test_merging_puts_pinged_processes_on_one_clock() -> None:
    ahead = [[900, 5_001_000, 1_100]], [[100_900, 5_101_010, 101_100]]
    first = worker(1)
    other = _pinged(worker(2, start_ns=5_001_000, launcher="dask"), begin=ahead[0], end=ahead[1], boot="boot")
    merged = merge([first, other])
    assert merged.column("launches", "start_ns").tolist() == [1_000, 1_000, 1_100, 1_100]
    assert [(row["clock_offset_ns"], row["clock_drift_ppb"]) for row in merged.rows("processes")] == [
        (None, None), (-5_000_000, -99_990)]
    assert merged.rows("processes")[1]["clock_bound_ns"] == 103
    for wrong in ([["a", 1, 2]], [[3, 1, 2]], "x", [[0, 2**61, 1]], [[1, 2]]):
        kept = merge([_pinged(worker(2), begin=wrong, end=[])])
        assert kept.column("launches", "start_ns").tolist() == [1_000, 1_100]


def test_what_is_not_known_of_a_clock_is_said() -> None:
    def made(boot: str, wall_ns: int) -> Any:
        one = worker(2)
        return type(one)(one.tables, {**one.metadata, "clock": {"host_ns": 0, "wall_ns": wall_ns, "boot": boot}})

    rows = merge([worker(1), made("other boot", 10**18 + 10**11)]).rows("processes")
    assert (rows[1]["clock_offset_ns"], rows[1]["clock_bound_ns"]) == (10**11, None)
    assert rows[1]["message"] == "its times were placed by the wall clocks, which can be apart"
    rows = merge([worker(1), made("boot", 10**18 + 10**11)]).rows("processes")
    assert rows[1]["clock_offset_ns"] is None
    assert "its wall clock is 100 s from that of other processes of its machine" in rows[1]["message"]
    assert clocks.before_cause(1_000, 1_000, 0) is None
    assert clocks.before_cause(1_400, 1_000, 900) == (
        "begins 400 ns before what caused it, which the clocks' bound of 900 ns allows")
    assert "more than the clocks' bound of 100 ns" in str(clocks.before_cause(1_400, 1_000, 100))
    assert "is not known" in str(clocks.before_cause(1_400, 1_000, None))


def test_slow_pings_in_a_short_time_are_not_taken_for_a_clock_that_was_set() -> None:
    begin, end = [(0, 100_000, 40_000)], [(500_000, 612_000, 512_000)]  # the offsets differ by less than the pings tell
    assert abs(clocks.fit(begin, end).offset_ns) == 80_000
    with pytest.raises(ValueError, match="one was set"):
        clocks.fit([(0, 100_000, 10)], [(500_000, 612_000, 500_010)])
