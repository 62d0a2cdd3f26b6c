"""The callback of Python's garbage collector: when each collection was, without a Ctrl-C lost."""

from __future__ import annotations

import gc
import itertools
import signal
import sys
import threading
from typing import Any

import numpy as np
import pytest

from kernelscope.clock import now
from kernelscope.native import core


def rows(made: core.Collections) -> Any:
    return np.frombuffer(made.rows(), np.int64).reshape(-1, 6)


@pytest.fixture
def listening() -> Any:
    made: list[core.Collections] = []

    def begin(clock: Any = None) -> core.Collections:
        made.append(core.Collections(clock))
        gc.callbacks.append(made[-1])
        return made[-1]

    others = list(gc.callbacks)  # one in Python, such as Hypothesis has, loses exceptions of signal handlers
    gc.callbacks.clear()
    gc.disable()
    yield begin
    gc.enable()
    gc.callbacks[:] = others


def test_collections_are_kept_with_their_times_and_numbers(listening: Any) -> None:
    made, before = listening(), now()
    cycle: list[Any] = []
    cycle.append(cycle)
    del cycle
    for generation in (2, 0):
        gc.collect(generation)
    found = rows(made)
    assert before <= found[0, 0] <= found[0, 1] <= found[1, 0] <= found[1, 1] <= now()
    assert found[:, 2].tolist() == [threading.get_ident()] * 2
    if sys.version_info[:2] != (3, 14):  # its incremental collector has other generations
        assert found[:, 3].tolist() == [2, 0]
    assert found[0, 4] >= 1 and found[:, 5].tolist() == [0, 0]
    assert made.dropped == 0


def test_a_collection_that_began_before_is_not_kept() -> None:
    made = core.Collections()
    made("stop", {"generation": 0, "collected": 0, "uncollectable": 0})
    assert made.rows() == b""


def test_what_the_collector_does_not_say_is_not_known() -> None:
    made = core.Collections(itertools.count(10).__next__)
    made("start", {})
    made("stop", {})
    assert rows(made).tolist() == [[10, 11, threading.get_ident(), -1, -1, -1]]


@pytest.mark.parametrize("arguments", [(), ("start",), (1, {}), ("start", {}, 2)])
def test_wrong_calls_are_refused(arguments: tuple[Any, ...]) -> None:
    with pytest.raises(TypeError, match="takes a phase and a dict"):
        core.Collections()(*arguments)


def test_more_than_there_is_room_for_are_counted() -> None:
    made = core.Collections(lambda: 1)
    for _ in range((1 << 20) + 3):
        made("start", {})
        made("stop", {})
    assert len(made.rows()) == (1 << 20) * 48 and made.dropped == 3


def test_no_exception_of_a_signal_handler_is_lost(listening: Any) -> None:
    class Alarm(Exception):
        pass

    raised = caught = 0
    armed = False

    def handler(number: int, frame: Any) -> None:
        nonlocal armed, raised
        if armed:
            armed = False  # until the exception is caught
            raised += 1
            raise Alarm

    before = signal.signal(signal.SIGALRM, handler)
    listening()
    until = now() + 300_000_000
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
        while now() < until or not raised:
            try:
                armed = True
                for _ in range(50):
                    gc.collect(0)
                armed = False
            except Alarm:
                caught += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert raised == caught
