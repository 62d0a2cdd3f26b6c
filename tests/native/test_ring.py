"""Rings and states as Python objects: what is written comes back, and misuse is an exception and never a crash."""

from __future__ import annotations

import gc
import math
import os
import weakref
from pathlib import Path
from typing import Any

import pytest

MOST = (1 << 18) << 12


def test_what_is_written_comes_back(launches: Any) -> None:
    state = launches.core.State(launches.ring, 7)
    state.write(1e-6, 1.5e-6, 2e-6, 2.5e-6, 3e-6, 4, 5)
    state.write(1e-6, 0.5e-6, -1.0, 1.5e-6, 2e-6, -1, 2**31 - 1)  # a boundary of the launch before
    names = ("site", "start_ns", "dispatch_end_ns", "submit_start_ns", "submit_end_ns", "end_ns", "target",
             "configuration")
    assert [tuple(row[name] for name in names) for row in launches.rows()] == [
        (7, 1000, 1500, 2000, 2500, 3000, 4, 5), (7, 1000, -1, -1, 1500, 2000, -1, 2**31 - 1)]


@pytest.mark.parametrize("time", [math.nan, math.inf, -math.inf, 1e300, -5.0, 9.3e9])
def test_a_time_that_is_none_is_unknown(launches: Any, time: float) -> None:
    state = launches.state_of_thread()
    state.write(0.0, time, time, time, time, 0, 0)
    state.dispatch_end = time
    assert state.dispatch_end == -1.0
    assert [launches.rows()[0][f"{name}_ns"] for name in ("dispatch_end", "submit_start", "submit_end", "end")] == [
        -1] * 4


@pytest.mark.parametrize("arguments", [
    {"mode": "none"}, {"mode": ""}, {"mode": "ring"}, {"mode": "stop", "capacity": 0}, {"mode": "stop", "capacity": -1},
    {"mode": "ring", "capacity": MOST + 1}, {"mode": "ring", "capacity": 2**64 - 1}, {"path": "a\0b"}])
def test_rings_that_cannot_be(core: Any, arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="is not one of grow, ring, stop|is not between 1 and|null byte"):
        core.Ring(**arguments)


def test_the_largest_ring_takes_no_memory_before_it_is_used(core: Any) -> None:
    ring = core.Ring(mode="ring", capacity=MOST)
    core.State(ring, 0).write(0.0, 0.0, 0.0, 0.0, 0.0, 0, 0)
    assert len(ring.columns(0)["target"]) == 4


@pytest.mark.parametrize("mode", ["grow", "ring", "stop"])
@pytest.mark.parametrize("since", [1, 5, 4096, 4097, 10**6, 2**63, 2**64 - 1])
def test_a_part_that_begins_later_has_fewer(core: Any, mode: str, since: int) -> None:
    ring = core.Ring(mode=mode, capacity=0 if mode == "grow" else 5000)
    state = core.State(ring, 0)
    for number in range(9000):
        state.write(0.0, 0.0, 0.0, 0.0, 0.0, number, 0)
    kept = {"grow": range(9000), "ring": range(4000, 9000), "stop": range(5000)}[mode]
    targets = memoryview(ring.columns(since)["target"]).cast("i").tolist()
    assert targets == [number for number in kept if number >= since]
    assert ring.counts(since) == (len(targets), 0, 0, *ring.mark())
    assert ring.mark() == ((5000, 4000) if mode == "stop" else (9000, 0))


def test_what_cannot_be_had_is_said(core: Any, tmp_path: Path) -> None:
    file = tmp_path / "slots"
    file.write_bytes(b"kept")
    with pytest.raises(FileExistsError):
        core.Ring(path=file)
    assert file.read_bytes() == b"kept"
    with pytest.raises(FileNotFoundError):
        core.Ring(path=tmp_path / "none" / "slots")
    with pytest.raises(OSError, match="is not|Not a directory|directory"):
        core.Ring(path=file / "slots")
    assert os.listdir(tmp_path) == ["slots"]


def test_a_file_goes_on_in_memory_where_the_disk_is_full(run_python: Any, tmp_path: Path) -> None:
    """The limit of a file's size stands for the disk's."""
    run_python("""
import resource, sys
from kernelscope.native import core
resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))
ring = core.Ring(path=sys.argv[1])
state = core.State(ring, 0)
for number in range(50_000):
    state.write(0.0, 0.0, 0.0, 0.0, 0.0, number, 0)
assert memoryview(ring.columns(0)["target"]).cast("i").tolist() == list(range(50_000))
assert ring.mark() == (50_000, 0)
assert ring.failure != 0 and ring.is_in_file
""", str(tmp_path / "slots"))
    assert (tmp_path / "slots").stat().st_size == 4096 + 3 * 4096 * 64
    (tmp_path / "slots").unlink()
    run_python("""
import resource, sys
from kernelscope.native import core
resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
try:
    core.Ring(path=sys.argv[1])
except OSError as error:
    assert error.filename == sys.argv[1]
else:
    raise AssertionError
""", str(tmp_path / "slots"))
    assert not (tmp_path / "slots").exists()


def test_states_are_of_one_ring_and_one_only(core: Any, launches: Any) -> None:
    for arguments in ((), (launches.ring,), (None, 0), (object(), 0), (launches.ring, 2**40), (launches.ring, "0")):
        with pytest.raises((TypeError, OverflowError)):
            core.State(*arguments)
    other = core.Ring()
    for made in (core.State(other, 0), None, 5, object()):
        launches.ring.new_state = lambda made=made: made
        assert launches.hook(lambda *arguments: arguments, takes=False)(1, 2, 3) == (1, 2, 3)
    assert launches.ring.mark() == other.mark() == (0, 0)
    launches.ring.new_state = None  # nothing to call
    with pytest.raises(TypeError, match="not callable"):
        launches.hook(lambda *arguments: arguments, takes=False)(1, 2, 3)
    del launches.ring.new_state
    assert launches.hook(lambda *arguments: arguments, takes=False)(1, 2, 3) == (1, 2, 3)


def test_cycles_are_collected(core: Any) -> None:
    class State(core.State):
        pass

    class Marker:
        pass

    def tangle() -> weakref.ref[Marker]:
        marker = Marker()
        ring = core.Ring()
        state = State(ring, 0)
        hook = core.Hook("call", lambda *arguments: ring, ring, lambda: (marker, hook), lambda: state)
        state.launch_config = state.kernel = ring.new_state = (ring, state, hook, marker)
        hook.know("targets", hook, 0, 0)
        hook.know("configurations", state, 0, 0)
        hook.itself = hook
        return weakref.ref(marker)

    gone = tangle()
    gc.collect()
    assert gone() is None


def test_a_ring_lives_as_long_as_a_state(core: Any) -> None:
    ring = core.Ring()
    state = core.State(ring, 0)
    del ring
    gc.collect()
    for _ in range(10_000):
        state.write(0.0, 0.0, 0.0, 0.0, 0.0, 0, 0)


def test_launches_that_last_are_passed_over_and_come_in_order(make: Any) -> None:
    launches = make(mode="ring", capacity=4)

    def launch(dispatcher: Any, depth: int, config: Any) -> None:
        if depth:
            for _ in range(6):
                call(None, depth - 1, object())

    call = launches.hook(launch)
    call(None, 1, object())
    assert sorted(row["number"] for row in launches.rows()) == [1, 5, 6, 7]
    ended, under_way, voided, begun, lost = launches.ring.counts(0)
    assert (ended, under_way, voided, begun, lost) == (4, 0, 0, 7, 0)


def test_with_no_room_for_a_launch_it_runs_all_the_same(make: Any) -> None:
    launches = make(mode="ring", capacity=2)
    reached = []

    def launch(dispatcher: Any, depth: int, config: Any) -> None:
        reached.append(depth)
        if depth:
            call(None, depth - 1, object())

    call = launches.hook(launch)
    call(None, 5, object())
    assert reached == [5, 4, 3, 2, 1, 0]
    assert launches.ring.counts(0) == (2, 0, 0, 2, 4)
