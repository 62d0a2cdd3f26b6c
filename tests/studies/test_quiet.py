"""A thread goes on to another core where the reference is slow, stays where it is not, and gives up in the end."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable

import pytest

from kernelscope.studies.bench import timing as machine
from kernelscope.studies.bench.timing import Quiet

FAST, SLOW = 50_000, 90_000


@pytest.fixture
def been(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The cores that the thread was put on, in turn."""
    cores: list[int] = []
    monkeypatch.setattr(os, "sched_setaffinity", lambda pid, wanted: cores.append(*wanted))
    return cores


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch, been: list[int]) -> Callable[..., None]:
    """Say which cores are slow; a reference takes no time."""
    def say(*cores: int) -> None:
        monkeypatch.setattr(machine, "time_reference_ns", lambda: SLOW if been and been[-1] in cores else FAST)
    return say


def test_a_core_that_is_quiet_is_not_left(been: list[int], slow: Callable[..., None]) -> None:
    slow(1, 2)
    cores = Quiet([3, 1, 2])
    assert cores.seek(None, 60_000)
    assert not cores.seek(3, 60_000)
    assert (been, cores.core) == ([3], 3)


def test_it_goes_on_to_the_next_quiet_core(been: list[int], slow: Callable[..., None]) -> None:
    slow(3, 1)
    cores = Quiet([3, 1, 2])
    assert cores.seek(1, 60_000)
    assert (been, cores.core) == ([1, 2], 2)
    slow(2, 3)
    assert cores.seek(2, 60_000)
    assert (been, cores.core) == ([1, 2, 3, 1], 1)


def test_one_slow_reference_of_four_is_enough_to_go_on(been: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    times = itertools.chain([FAST, FAST, FAST, SLOW], itertools.repeat(FAST))
    monkeypatch.setattr(machine, "time_reference_ns", lambda: next(times))
    Quiet([3, 1, 2]).seek(None, 60_000)
    assert been == [3, 1]


def test_without_a_quiet_core_it_gives_up(been: list[int], slow: Callable[..., None],
                                         monkeypatch: pytest.MonkeyPatch) -> None:
    slow(1, 2, 3)
    readings = itertools.count(0, machine._LONGEST_NS // 4)
    monkeypatch.setattr(machine, "_now", lambda: next(readings))
    Quiet([3, 1, 2]).seek(3, 60_000)
    assert been == [3, 1, 2, 3]


def test_without_a_limit_or_cores_nothing_is_sought(been: list[int], slow: Callable[..., None]) -> None:
    slow(3)
    assert Quiet([3, 1]).seek(None, None)
    assert been == [3]
    none = Quiet(None)
    assert not none.seek(3, 60_000)
    assert (been, none.core) == ([3], None)


def test_a_core_that_is_not_its_own_is_not_gone_to(been: list[int]) -> None:
    cores = Quiet([3, 1])
    cores.go(7)
    cores.go(1)
    cores.go(9)
    assert (been, cores.core) == ([3, 1], 1)


def test_what_is_best_is_that_of_the_fast_cores(been: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "time_reference_ns", lambda: {3: SLOW, 1: SLOW, 2: FAST}[been[-1]])
    cores = Quiet([3, 1, 2])
    cores.go(1)
    assert cores.best_ns() == FAST
    assert cores.core == 1
    assert set(been) == {1, 2, 3}


def test_the_thread_is_really_put_on_the_core_and_no_other_thread_is() -> None:
    allowed = sorted(os.sched_getaffinity(0))
    found: list[tuple[set[int], int | None]] = []

    def seek() -> None:
        cores = Quiet(allowed)
        cores.seek(allowed[-1], None)
        found.append((os.sched_getaffinity(0), allowed[-1]))
        cores.seek(allowed[-1], 1)  # nothing is as fast: it ends on some core
        found.append((os.sched_getaffinity(0), cores.core))

    thread = threading.Thread(target=seek)
    thread.start()
    thread.join()
    assert len(found) == 2 and all(where == {core} for where, core in found)
    assert sorted(os.sched_getaffinity(0)) == allowed
