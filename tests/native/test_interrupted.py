"""Exceptions and Ctrl-C at every place where a hook calls Python: they reach the user, and the next launch is whole."""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest


class Interruption(Exception):
    """What the user's signal handler raises."""


def assert_whole(launches: Any, state: Any, kept: int) -> None:
    """The thread is in no launch, and so many launches are kept."""
    assert state.launch_config is None and state.kernel is None
    rows = launches.rows()
    assert len(rows) == kept
    assert all(row["start_ns"] <= row["end_ns"] for row in rows)
    state.submit_start = 1.0  # goes nowhere
    assert all(row["submit_start_ns"] != 10**9 for row in launches.rows())


@pytest.mark.parametrize("error", [KeyboardInterrupt, Interruption, SystemExit, RecursionError, MemoryError])
@pytest.mark.parametrize(("place", "ended", "voided"), [
    ("new_state", 0, 0), ("begin", 0, 0), ("original", 1, 0), ("end", 0, 1), ("end of a failed one", 0, 1)])
def test_raised_where_python_is_called(launches: Any, place: str, error: type[BaseException], ended: int,
                                       voided: int) -> None:
    raised = error("users")

    def fail(*arguments: Any) -> Any:
        raise raised

    def original(dispatcher: Any, args: Any, config: Any) -> Any:
        if place.startswith("end of"):
            raise LookupError("first")
        return fail() if place == "original" else config

    call = launches.hook(original)
    if place == "new_state":
        launches.new_state = fail
    elif place == "begin":
        launches.begin = fail
    elif place.startswith("end"):
        launches.end = fail
    with pytest.raises(error) as caught:
        call(1, 2, 3)
    assert caught.value is raised
    if place.startswith("end of"):
        assert isinstance(raised.__context__, LookupError)
    assert launches.ring.counts(0)[:3] == (ended, 0, voided)
    launches.new_state = lambda: launches.core.State(launches.ring, 0)
    launches.begin, launches.end = lambda *a: (1, 2), lambda *a: (3, 1)
    place = "none"
    assert call(1, 2, 3) == 3
    assert_whole(launches, launches.states.state, ended + 1)


@pytest.mark.parametrize("fails", [False, True])
def test_asked_again_where_a_ctrl_c_came_first(launches: Any, fails: bool) -> None:
    """The launch has ended: it is kept, and the exception is the user's."""
    asked: list[Any] = []

    def original(*arguments: Any) -> None:
        if fails:
            raise LookupError("first")

    def end(*arguments: Any) -> tuple[int, int]:
        asked.append(arguments)
        if len(asked) == 1:
            raise KeyboardInterrupt
        return 7, 8

    launches.end = end
    with pytest.raises(KeyboardInterrupt) as caught:
        launches.hook(original)(1, 2, 3)
    assert isinstance(caught.value.__context__, LookupError) == fails
    assert asked[0] == asked[1]
    assert launches.ring.counts(0)[:3] == (1, 0, 0)
    assert [(row["target"], row["configuration"]) for row in launches.rows()] == [(7, 8)]


def test_the_same_exception_again_is_not_its_own_context(launches: Any) -> None:
    raised = Interruption()

    def fail(*arguments: Any) -> Any:
        raise raised

    call = launches.hook(lambda dispatcher, args, config: fail())
    launches.end = fail
    with pytest.raises(Interruption) as caught:
        call(1, 2, 3)
    assert caught.value is raised
    assert raised.__context__ is None


@pytest.mark.parametrize("error", [KeyboardInterrupt, Interruption])
@pytest.mark.parametrize("reading", [1, 2])
def test_raised_in_a_clock(make: Callable[..., Any], error: type[BaseException], reading: int) -> None:
    """The launch goes on, and the exception comes up in the main thread right after."""
    readings: list[int] = []

    def clock() -> int:
        readings.append(len(readings))
        if len(readings) == reading:
            raise error
        return 1000 * len(readings)

    launches = make(clock=clock)
    call = launches.hook(lambda dispatcher, args, config: config)
    with pytest.raises(error):  # wherever the next bytecode looks for what is pending
        call(1, 2, 3)
        for _ in range(10):
            time.sleep(0)
    assert call(1, 2, 3) == 3
    ended, under_way, voided, begun, lost = launches.ring.counts(0)
    assert (under_way, begun, lost) == (0, 2, 0)
    assert ended == 2 - voided  # it may come up where the hook asks for ids
    assert [row["start_ns"] for row in launches.rows()].count(-1) == (reading == 1 and voided == 0)


@pytest.mark.parametrize("takes", [False, True])
def test_recursion_to_the_limit(launches: Any, takes: bool) -> None:
    deepest = 0

    def recurse(dispatcher: Any, depth: int, config: Any) -> int:
        nonlocal deepest
        deepest = max(deepest, depth)
        return call(dispatcher, depth + 1, object())

    call = launches.hook(recurse, takes=takes)
    for _ in range(3):
        with pytest.raises(RecursionError):
            call(None, 0, object())
        assert deepest > 100
        ended, under_way, voided, begun, lost = launches.ring.counts(0)
        assert under_way == lost == 0
        assert ended + voided == begun > 100
    state = launches.states.state
    assert state.launch_config is None and state.kernel is None
    before = launches.ring.counts(0)[0]
    assert launches.hook(lambda *arguments: 5)(1, 2, 3) == 5
    assert launches.ring.counts(0)[0] == before + 1


@pytest.fixture
def alarm() -> Iterator[Callable[[Any], None]]:
    """Install a handler of SIGALRM; the former one is put back."""
    if os.environ.get("KERNELSCOPE_WATCHED") == "valgrind":
        pytest.skip("valgrind has signals wait as long as another thread runs, and beyond the end of the test")
    previous = signal.getsignal(signal.SIGALRM)
    yield lambda handler: signal.signal(signal.SIGALRM, handler) and None
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, previous)


def nested(launches: Any) -> Callable[..., Any]:
    """A launch that finds its kernel, submits, and now and then launches in the middle."""
    found = launches.hook(lambda *arguments: None, "found")
    submit = launches.hook(lambda *arguments: None, "submit")

    def launch(dispatcher: Any, depth: int, config: Any) -> int:
        found(dispatcher, config, config)
        if depth:
            call(None, depth - 1, (depth,))
        submit(depth)
        return depth

    call = launches.hook(launch)
    return call


def test_a_handler_that_raises_all_the_time(launches: Any, alarm: Any, no_garbage: None) -> None:
    raised, caught, done = 0, 0, 0

    def handler(*_: Any) -> None:
        nonlocal raised
        raised += 1
        raise Interruption

    def launch_until_raised(before: int) -> None:
        nonlocal done
        # Python 3.11 may overlook a signal that another thread was given, such as one of the test runner's.
        late = time.monotonic() + 0.05
        while raised == before and time.monotonic() < late:
            assert call(None, 2, (1, 2)) == 2
            done += 1

    call = nested(launches)
    for _ in range(2000):  # the ring's own thread is there: CPython 3.12 may miss a signal while a thread is made
        call(None, 1, None)
    alarm(handler)
    until = time.monotonic() + 120
    while caught < 1000 and time.monotonic() < until:
        before = raised
        try:
            signal.setitimer(signal.ITIMER_REAL, random.uniform(2e-5, 1e-4))
            launch_until_raised(before)
        except Interruption:
            caught += 1
    signal.setitimer(signal.ITIMER_REAL, 0)
    assert caught == raised >= 1000
    ended, under_way, voided, begun, lost = launches.ring.counts(0)
    assert under_way == lost == 0
    assert ended + voided == begun >= 3 * done
    assert voided <= caught
    state = launches.states.state
    assert state.launch_config is None and state.kernel is None


def test_a_handler_that_launches_and_collects(launches: Any, alarm: Any) -> None:
    import gc

    inner = launches.hook(lambda dispatcher, args, config: None)
    made = 0

    def handler(*_: Any) -> None:
        nonlocal made
        inner(None, 1, object())
        made += 1
        if made % 50 == 0:
            gc.collect(0)

    call, done = nested(launches), 0
    alarm(handler)
    signal.setitimer(signal.ITIMER_REAL, 1e-4, 1e-4)
    until = time.monotonic() + 120
    while made < 1000 and time.monotonic() < until:
        call(None, 2, (1, 2))
        done += 1
    signal.setitimer(signal.ITIMER_REAL, 0)
    assert made >= 1000
    assert launches.ring.counts(0)[:3] == (3 * done + made, 0, 0)
    rows = launches.rows()
    assert [row["start_ns"] for row in rows] == sorted(row["start_ns"] for row in rows)


def test_a_recording_that_ends_in_the_middle_of_a_launch(launches: Any) -> None:
    """A callback stops it: the hook is given back, forgets and goes, while its own call is under way."""
    def launch(dispatcher: Any, depth: int, config: Any) -> int:
        if depth:
            return call(None, depth - 1, object())
        launches.close()
        launches.hooks.clear()
        return len(launches.rows())

    call = launches.hook(launch)
    assert call(None, 5, object()) == 0
    assert launches.ring.counts(0)[:3] == (6, 0, 0)
    assert not launches.hooks


def test_a_hook_goes_while_another_thread_is_inside(launches: Any) -> None:
    inside, go = threading.Event(), threading.Event()

    def launch(dispatcher: Any, args: Any, config: Any) -> str:
        inside.set()
        assert go.wait(60)
        return "done"

    answers: list[str] = []
    call = launches.hook(launch)
    thread = threading.Thread(target=lambda: answers.append(call(1, 2, object())))
    thread.start()
    assert inside.wait(60)
    launches.close()
    launches.hooks.clear()
    ring = launches.ring
    assert ring.counts(0) == (0, 1, 0, 1, 0)
    assert ring.columns(0)["target"] == b""
    go.set()
    thread.join()
    assert answers == ["done"]
    assert ring.counts(0) == (1, 0, 0, 1, 0)
    assert sys.getrefcount(launch) <= 4
