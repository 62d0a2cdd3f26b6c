"""What a benchmark process asks the machine; the libraries of a GPU are played by a double."""

from __future__ import annotations

import os
import threading
import time
from typing import Any

import pytest

from kernelscope.studies.bench import timing as machine


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
