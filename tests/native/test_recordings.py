"""Recordings by the native recorder, one after another: what they leave, and what they say that they cost."""

from __future__ import annotations

import dis
import gc
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

import pytest
from numba import cuda

from kernelscope.probes.launch_log import PythonLog
from kernelscope.probes.native_log import NativeLog
from kernelscope.probes.numba_cuda import measure_cost
from kernelscope.recorder import Recorder

#: Under valgrind or a sanitizer launches take as long as those take, and memory is given back later.
WATCHED = "KERNELSCOPE_WATCHED" in os.environ

pytestmark = pytest.mark.usefixtures("native_recorder")


@cuda.jit
def nothing():
    pass


@pytest.fixture
def launch() -> Any:
    """A configured kernel that is compiled."""
    configured = nothing[1, 32]
    configured()
    return configured


def recorded(launch: Callable[[], None], launches: int = 1) -> Any:
    """A recording of so many launches by the native recorder."""
    recorder = Recorder("again", backend="native", gpu="none", synchronize=False).start()
    for _ in range(launches):
        launch()
    return recorder.stop()


def fastest_ns(launch: Callable[[], None]) -> float:
    """The fastest of 30 bursts of 200 launches."""
    def burst() -> int:
        start = time.perf_counter_ns()
        for _ in range(200):
            launch()
        return time.perf_counter_ns() - start

    return min(burst() for _ in range(30)) / 200


def test_a_thousand_recordings_leave_launches_and_memory_as_they_were(launch: Any) -> None:
    for _ in range(20):
        recorded(launch)
    gc.collect()
    objects, before = len(gc.get_objects()), fastest_ns(launch)
    times = 30 if WATCHED else 1000
    kept = sum(len(recorded(launch).launches) for _ in range(times))
    gc.collect()
    assert kept == times
    assert len(gc.get_objects()) < objects + 200 + times / 4  # not one a recording
    assert WATCHED or fastest_ns(launch) < 1.25 * before


def test_starting_again_searches_nothing(launch: Any, no_garbage: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A recording is gone when it ends, and not when garbage is collected: the next one finds all as it was."""
    for _ in range(2):
        recorded(launch)
    monkeypatch.setattr(gc, "get_referrers", lambda *_: pytest.fail("it looked at every object of the process"))
    assert len(recorded(launch, 3).launches) == 3


def test_calls_run_as_before_once_a_recording_has_ended(launch: Any) -> None:
    """The interpreter makes the same instructions for calls of a function that was hooked, and is not any more."""
    def found() -> list[str]:
        for _ in range(5000):
            launch()
        code = type(launch).__call__
        return [each.opname for each in dis.get_instructions(code, adaptive=True)]

    before = found()
    recorded(launch, 2000)
    assert found() == before


@pytest.mark.skipif(WATCHED, reason="it is about times")
def test_the_estimate_tells_the_recorders_apart() -> None:
    native, python = [statistics.median(measure_cost("phases", log) for _ in range(5))
                      for log in (NativeLog, PythonLog)]
    assert 0 < native < python / 2
