"""Many launches: all are there, no reference is lost or left, and nothing grows but the slots.

KERNELSCOPE_EVENTS says how many (200,000 without it; 10,000,000 takes 15 s).
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import os
import sys
import tracemalloc
from typing import Any

import numpy as np
import pytest

WATCHED = "KERNELSCOPE_WATCHED" in os.environ
EVENTS = int(os.environ.get("KERNELSCOPE_EVENTS", "20000" if WATCHED else "200000"))


def hooked_launches(launches: Any) -> Any:
    """A function that does nothing, and what its callers call; its hooks know everything."""
    kernel, config = object(), object()
    found = launches.hook(lambda *arguments: None, "found", takes=False)
    submit = launches.hook(lambda *arguments: None, "submit", takes=False)

    def launch(dispatcher: Any, args: Any, config: Any) -> None:
        found(dispatcher, kernel, config)
        submit(args)

    call = launches.hook(launch)
    launches.hooks[-1].know("configurations", config, 5, 6)
    launches.hooks[-1].know("targets", kernel, 7, 0)
    return call, kernel, config


@pytest.mark.slow
def test_hooked(launches: Any) -> None:
    call, _, config = hooked_launches(launches)
    for _ in range(EVENTS):
        call(None, 1, config)
    columns = {name: np.frombuffer(values, np.int64 if name.endswith("_ns") else np.int32)
               for name, values in launches.ring.columns(0).items()}
    assert {name: len(values) for name, values in columns.items()} == dict.fromkeys(columns, EVENTS)
    assert (columns["target"] == 7).all() and (columns["configuration"] == 5).all()
    names = ("start_ns", "dispatch_end_ns", "submit_start_ns", "submit_end_ns", "end_ns")
    assert all((columns[one] <= columns[two]).all() for one, two in itertools.pairwise(names))
    assert (columns["start_ns"][1:] >= columns["end_ns"][:-1]).all()


def counts(*objects: Any) -> list[int]:
    return [sys.getrefcount(each) for each in objects]


@pytest.mark.parametrize("outcome", ["known", "failed", "new configurations", "unknown kernel", "no room"])
def test_reference_counts_are_stable(make: Any, outcome: str) -> None:
    launches = make(mode="stop", capacity=10) if outcome == "no room" else make()
    call, kernel, config = hooked_launches(launches)
    args: tuple[Any, ...] = (object(),)
    if outcome == "failed":
        def fail(dispatcher: Any, args: Any, config: Any) -> None:
            raise LookupError

        call = launches.hook(fail)
    launches.end = lambda *arguments: (300, 400)
    call_kept = launches.hook(lambda dispatcher, args, config: None) if outcome == "unknown kernel" else call

    def many(times: int) -> None:
        for _ in range(times):
            with contextlib.suppress(LookupError):
                call_kept(kernel, args, [] if outcome == "new configurations" else config)

    held = (kernel, config, args, args[0], launches.ring, call_kept, launches.states.__dict__, launches.begin)
    many(2000)
    gc.collect()
    state = launches.states.state
    before, total = counts(*held, state), getattr(sys, "gettotalrefcount", lambda: 0)()
    many(EVENTS // 10)
    gc.collect()
    after, grown = counts(*held, state), getattr(sys, "gettotalrefcount", lambda: 0)() - total
    assert after == before
    assert abs(grown) < 200, "references in all, which only a debug build of Python counts"


def test_nothing_grows_but_the_slots(make: Any) -> None:
    launches = make(mode="ring", capacity=5000)
    call, _, config = hooked_launches(launches)
    for _ in range(6000):
        call(None, 1, config)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for _ in range(EVENTS // 10):
            call(None, 1, config)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 10_000


def resident() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(WATCHED, reason="what is watched is not given back at once")
def test_rings_come_and_go(core: Any) -> None:
    def one() -> None:
        write = core.State(core.Ring(), 0).write
        for _ in range(5000):  # two segments, and the thread that makes the second
            write(0.0, 0.0, 0.0, 0.0, 0.0, 0, 0)

    for _ in range(20):
        one()
    before, threads = resident(), len(os.listdir("/proc/self/task"))
    for _ in range(300):
        one()
    assert resident() - before < 4_000_000
    assert len(os.listdir("/proc/self/task")) < threads + 20


def test_a_forked_child_goes_on_by_itself(core: Any, tmp_path: Any) -> None:
    """In the middle of a launch, with the file its parent's."""
    ring = core.Ring(path=tmp_path / "slots")
    state = core.State(ring, 0)
    ring.new_state = lambda: state
    children: list[int] = []

    def launch(dispatcher: Any, args: Any, config: Any) -> int:
        if args == 9000:
            children.append(os.fork())
        return args

    hook = core.Hook("call", launch, ring, lambda *arguments: (1, 2), lambda *arguments: (3, 1))
    for number in range(12_000):
        assert hook(None, number, launch) == number
        if children == [0] and number == 9500:
            break
    if children == [0]:  # no exception may leave the child
        fine = ring.counts(0) == (9501, 0, 0, 9501, 0) and not ring.is_in_file
        os._exit(0 if fine and len(ring.columns(0)["target"]) == 4 * 9501 else 1)
    assert os.waitpid(children[0], 0)[1] == 0
    assert ring.counts(0) == (12_000, 0, 0, 12_000, 0)
    assert ring.is_in_file
    slots = np.fromfile(tmp_path / "slots", np.uint64, offset=4096).reshape(-1, 8)
    assert np.array_equal(slots[:12_000, 0], np.arange(1, 12_001, dtype=np.uint64))
    assert not slots[12_000:].any()
