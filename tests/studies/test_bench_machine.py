"""What a benchmark process asks the machine, a double in a GPU's place; and how it finds a core that is quiet."""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from kernelscope.studies.bench import timing as machine
from kernelscope.studies.bench.timing import Quiet


@pytest.mark.parametrize(("jump_ns", "lost"), [(0, 0.0), (20_000_000, 20 / 60), (45_000_000, 45 / 60)])
def test_noise_is_the_share_of_time_that_others_took(monkeypatch: pytest.MonkeyPatch, jump_ns: int,
                                                     lost: float) -> None:
    """Rounds of 25 µs by a clock that jumps once, as if another process had run."""
    calls = iter(range(100_000))

    def clock() -> int:
        number = next(calls)
        return 25_000 * number + (jump_ns if number > 300 else 0)

    monkeypatch.setattr(machine, "_now", clock)
    assert machine.noise(60) == pytest.approx(lost, abs=0.002)


def test_what_was_waited_is_unknown_without_the_kernel_s_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_file(*_: Any) -> int:
        raise FileNotFoundError

    assert machine.time_waited_ns() >= 0
    monkeypatch.setattr(machine.os, "read", lambda *_: b"500 7 3\n")
    assert (machine.time_waited_ns(), machine.counts_waits()) == (7, True)
    monkeypatch.setattr(machine.os, "read", lambda *_: b"500 0 1\n")
    assert (machine.time_waited_ns(), machine.counts_waits()) == (0, True)
    for said in (b"0 0 0\n", b"0\n", b"", b"no numbers"):  # a kernel without these counts, and others
        monkeypatch.setattr(machine.os, "read", lambda *_, said=said: said)
        assert (machine.time_waited_ns(), machine.counts_waits()) == (0, False)
    monkeypatch.setattr(machine.os, "open", no_file)
    assert (machine.time_waited_ns(), machine.counts_waits()) == (0, False)


def test_what_other_threads_have_had_is_counted_and_this_one_s_is_not() -> None:
    def spin() -> None:
        until = time.thread_time() + 0.05
        while time.thread_time() < until:
            pass

    before = machine.other_threads_ns()
    spin()
    assert machine.other_threads_ns() - before < 20e6
    other = threading.Thread(target=spin)
    other.start()
    other.join()
    assert machine.other_threads_ns() - before > 45e6


def test_trying_a_core_leaves_no_trace() -> None:
    allowed = os.sched_getaffinity(0)
    assert machine.may_pin([max(allowed)]) == ([max(allowed)], None)
    assert os.sched_getaffinity(0) == allowed
    assert machine.may_pin(None) == (None, None)
    cores, why = machine.may_pin([65535])
    assert cores is None
    assert str(why).startswith("cores [65535] are refused: ")
    assert os.sched_getaffinity(0) == allowed


def test_a_system_without_affinity_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(machine.os, "sched_setaffinity")
    assert machine.may_pin([0]) == (None, "this system has no processor affinity")


class Libraries:
    """NVIDIA's two libraries, as far as they are asked; `failing` calls return an error."""

    def __init__(self, *failing: str) -> None:
        self.failing = failing

    def __getattr__(self, name: str) -> Any:
        values = {"cuDriverGetVersion": 13000, "cuCtxGetDevice": 0, "cuDeviceGetName": b"NVIDIA H100 80GB HBM3",
                  "cuDeviceGetPCIBusId": b"0000:4A:00.0", "nvmlSystemGetDriverVersion": b"580.95.05",
                  "nvmlDeviceGetClockInfo": 1755, "nvmlDeviceGetMaxClockInfo": 1980}

        def call(*arguments: Any) -> int:
            if name in self.failing:
                return 1
            if name in values:
                # The result is an integer by reference, first or last, or a text in the first argument.
                texts = isinstance(values[name], bytes)
                target = arguments[0] if texts else next(each._obj for each in arguments if hasattr(each, "_obj"))
                target.value = values[name]
            return 0

        return call


def test_a_gpu_is_described(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine.ctypes, "CDLL", lambda name: Libraries())
    assert machine.gpu(False) == {"name": "NVIDIA H100 80GB HBM3", "driver": "580.95.05", "cuda": "13.0",
                                  "clocks_mhz": {"sm": 1755, "sm_max": 1980}}
    assert machine.gpu(True) == {"name": "NVIDIA H100 80GB HBM3", "cuda": "13.0"}


@pytest.mark.parametrize(("failing", "left"), [
    (("nvmlInit_v2",), {"name", "cuda"}),
    (("nvmlSystemGetDriverVersion",), {"name", "cuda", "clocks_mhz"}),
    (("cuDeviceGetPCIBusId",), {"name", "cuda", "driver"}),
    (("cuCtxGetDevice",), {"cuda", "driver"}),
    (("cuDriverGetVersion", "cuDeviceGetName"), {"driver", "clocks_mhz"}),
])
def test_what_a_gpu_does_not_say_is_left_out(monkeypatch: pytest.MonkeyPatch, failing: tuple[str, ...],
                                             left: set[str]) -> None:
    monkeypatch.setattr(machine.ctypes, "CDLL", lambda name: Libraries(*failing))
    assert set(machine.gpu(False)) == left


def test_no_library_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def library(name: str) -> Libraries:
        if "nvidia-ml" in name:
            raise OSError(name)
        return Libraries()

    monkeypatch.setattr(machine.ctypes, "CDLL", library)
    assert set(machine.gpu(False)) == {"name", "cuda"}

    def none(name: str) -> Libraries:
        raise OSError(name)

    monkeypatch.setattr(machine.ctypes, "CDLL", none)
    assert machine.gpu(False) == {}


# ---- A core that is quiet ----


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
