"""Recordings by the recorder, one after another: what they leave, and what they say that they cost."""

from __future__ import annotations

import dis
import gc
import os
from collections.abc import Callable
from typing import Any

import pytest
from counting import lines_run
from numba import cuda

from kernelscope.recorder.recorder import Recorder

#: Under valgrind or a sanitizer launches take as long as those take, and memory is given back later.
WATCHED = "KERNELSCOPE_WATCHED" in os.environ


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
    """A recording of so many launches by the recorder."""
    recorder = Recorder("again", gpu="none", synchronize=False).start()
    for _ in range(launches):
        launch()
    return recorder.stop()


@pytest.mark.slow
def test_hundreds_of_recordings_leave_launches_and_memory_as_they_were(launch: Any) -> None:
    for _ in range(20):
        recorded(launch)
    gc.collect()
    objects, lines = len(gc.get_objects()), lines_run(launch)
    times = 30 if WATCHED else 150
    kept = sum(len(recorded(launch).launches) for _ in range(times))
    gc.collect()
    assert kept == times
    assert len(gc.get_objects()) < objects + 100 + times / 4  # not one a recording
    assert lines_run(launch) == lines


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
