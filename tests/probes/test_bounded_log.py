"""Logs that keep the newest launches or the first ones: which are kept, what is lost is counted, memory is bounded."""

from __future__ import annotations

import random
import signal
import threading
from typing import Any

import numpy as np
import pytest

from kernelscope.clock import FakeClock
from kernelscope.native import log as native_log
from kernelscope.native.log import RECORDS_A_CHUNK, BoundedLog
from kernelscope.probes.sink import Sink


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_log, "RECORDS_A_CHUNK", 8)


def bounded(mode: str, capacity: int, clock: Any = None) -> tuple[Sink, BoundedLog]:
    clock = clock or FakeClock()
    log = BoundedLog(clock, "phases", mode, capacity)
    return Sink(clock, log=log), log


def starts(log: BoundedLog, since: int = 0) -> list[int]:
    return log.columns(since)["start_ns"].tolist()


def in_memory(log: BoundedLog) -> int:
    return sum(len(records) // log.record.size for _, records in log._held()[0])


def in_thread(function: Any) -> None:
    thread = threading.Thread(target=function)
    thread.start()
    thread.join()


@pytest.mark.parametrize("mode", ["ring", "stop"])
@pytest.mark.parametrize("capacity", [1, 7, 8, 9, 30, 100, 1000])
@pytest.mark.parametrize("count", [0, 1, 8, 9, 100, 777])
def test_as_many_as_asked_for_are_kept_and_the_rest_is_counted(mode, capacity, count):
    sink, log = bounded(mode, capacity)
    most = 0
    for number in range(count):
        sink.launch(number, number + 5, number, 4)
        most = max(most, in_memory(log))
    kept = list(range(count))
    kept = kept[-capacity:] if mode == "ring" else kept[:capacity]
    assert starts(log) == kept == log.columns()["target"].tolist()
    assert log.lost() == count - len(kept)
    assert most <= capacity + 2 * 8


@pytest.mark.parametrize("mode", ["ring", "stop"])
@pytest.mark.parametrize("seed", range(6))
def test_any_order_of_threads_nested_launches_and_marks(mode, seed):
    """Against a list of all launches: nested ones end after those inside them, threads are behind one another."""
    draw = random.Random(seed)
    clock = FakeClock(0, tick_ns=1)
    capacity = draw.choice([1, 20, 50])
    sink, log = bounded(mode, capacity, clock)
    begun: list[int] = []
    marks: list[tuple[int, int]] = []

    def launch(depth: int) -> None:
        start = clock()
        begun.append(start)
        while depth and draw.random() < 0.3:
            launch(depth - 1)
        if draw.random() < 0.02:
            marks.append((log.mark(), clock.time_ns - 1))
        sink.launch(start, clock(), 0, 0)

    def work() -> None:
        for _ in range(draw.randrange(120)):
            launch(3)

    states = []
    for _ in range(4):
        in_thread(work)
        work()
        states.append(draw.random())
    newest = sorted(begun)[-capacity:] if mode == "ring" else sorted(begun)[:capacity]
    assert marks
    for since, began in [(0, 0), *marks]:
        part = [start for start in begun if start >= began]
        kept = [start for start in newest if start >= began]
        assert starts(log, since) == kept
        assert log.lost(since) == len(part) - len(kept)
    assert in_memory(log) <= capacity + 8 * 2 * 5


@pytest.mark.parametrize("mode", ["ring", "stop"])
def test_threads_that_end_leave_no_more_than_is_kept(mode):
    sink, log = bounded(mode, 10)
    for number in range(100):
        in_thread(lambda at=number: [sink.launch(at * 10 + each, 10_000, 0, 0) for each in range(3)])
    assert len(sink.threads) == 100
    assert in_memory(log) <= 10 + 3
    assert log.columns()["thread_id"].tolist() == ([96] + [97] * 3 + [98] * 3 + [99] * 3 if mode == "ring" else
                                                   [0] * 3 + [1] * 3 + [2] * 3 + [3])
    assert log.lost() == 290


def test_threads_at_once(monkeypatch):
    monkeypatch.setattr(native_log, "RECORDS_A_CHUNK", 64)
    log = BoundedLog(mode="ring", capacity=500)
    sink = Sink(log=log)
    numbers = iter(range(10**9))
    barrier = threading.Barrier(8)

    def work() -> None:
        barrier.wait()
        for _ in range(5000):
            at = next(numbers)
            sink.launch(at, at + 1, at, 0)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert starts(log) == list(range(39_500, 40_000))
    assert log.lost() == 39_500
    # While one thread that drops chunks is not running, the others fill more: the next one to drop finds them.
    for at in range(40_000, 40_065):
        sink.launch(at, at + 1, at, 0)
    assert in_memory(log) <= 500 + 2 * 64
    assert starts(log) == list(range(39_565, 40_065))


@pytest.mark.parametrize("line", range(40))
def test_a_signal_handler_may_launch_while_chunks_are_taken(line, monkeypatch):
    """It launches so much in the middle of `_take` and what that calls that chunks fill up again."""
    sink, log = bounded("ring", 20)
    steps = iter(range(10**6))
    launched = iter(range(10**6))

    def launch() -> None:
        sink.launch(next(launched), 10**6, 0, 0)

    def handle(number: int, frame: Any) -> None:
        for _ in range(30):
            launch()

    take = log._take

    def traced(state: Any) -> None:
        import sys

        def trace(frame: Any, event: str, argument: Any) -> Any:
            if event == "line" and next(steps) == line:
                sys.settrace(None)
                signal.raise_signal(signal.SIGUSR1)
                return None
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            take(state)
        finally:
            sys.settrace(before)

    old = signal.signal(signal.SIGUSR1, handle)
    try:
        sink.state().when_full = traced
        for _ in range(60):
            launch()
    finally:
        signal.signal(signal.SIGUSR1, old)
    total = next(launched)
    assert total == 90
    assert starts(log) == list(range(70, 90))
    assert log.lost() == 70


def test_records_of_real_chunks():
    assert RECORDS_A_CHUNK == 4096
    sink, log = bounded("ring", 5)
    sink.launch(1, 2, 3, 4)
    assert {name: values.dtype for name, values in log.columns().items()} == {
        name: np.dtype("i4" if name in ("thread_id", "target", "configuration") else "i8") for name in log.columns()}
    assert (log.backend, log.mode, log.capacity) == ("python", "ring", 5)
