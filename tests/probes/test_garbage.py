"""Garbage collections are recorded, whatever users and signals do to ``gc.callbacks`` meanwhile."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import kernelscope
from kernelscope.clock import FakeClock, now
from kernelscope.probes.garbage import GarbageProbe
from kernelscope.probes.scripted import Launch, ScriptedProbe
from kernelscope.recording.model import Recording


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Only collections and callbacks of the test, which leaves none behind."""
    others = list(gc.callbacks)
    gc.callbacks.clear()
    gc.disable()
    yield
    gc.enable()
    left = list(gc.callbacks)
    gc.callbacks[:] = others
    assert left == []


def recorder(*more: Any, **options: Any) -> kernelscope.Recorder:
    return kernelscope.Recorder(probes=[GarbageProbe(), *more], synchronize=False, **options)


def generations(recording: Recording) -> list[int]:
    return recording.column("collections", "generation").tolist()


def cycle() -> None:
    made: list[Any] = []
    made.append(made)


def health(recording: Recording) -> list[str]:
    return [row["message"] for row in recording.rows("health") if row["probe"] == "gc"]


@pytest.mark.parametrize("detail", ["launch", "phases"])
def test_each_collection_is_a_row(detail: str) -> None:
    with kernelscope.record("named", detail=detail) as r:
        cycle()
        before = now()
        gc.collect()
        after = now()
        gc.collect(0)
    first, second = r.recording.rows("collections")
    assert before <= first["start_ns"] <= first["end_ns"] <= after <= second["start_ns"]
    assert (first["collection_id"], first["cell_id"], first["generation"], first["uncollectable"]) == (0, 0, 2, 0)
    assert first["collected"] >= 1 and second["collected"] == 0
    thread, = r.recording.rows("threads")
    assert (thread["ident"], thread["name"]) == (threading.get_ident(), threading.current_thread().name)
    assert "gc" in r.recording.metadata["probes"] and health(r.recording) == []


def test_collections_on_other_threads_have_their_threads() -> None:
    with recorder() as r:
        other = threading.Thread(target=gc.collect, name="sweeper")
        other.start()
        other.join()
        alive, done = threading.Event(), threading.Event()
        kept = threading.Thread(target=lambda: (gc.collect(1), alive.set(), done.wait()), name="kept")
        kept.start()
        alive.wait()
        gc.collect(0)
    done.set()
    kept.join()
    names = [row["name"] for row in r.recording.rows("threads")]
    found = [(row["generation"], names[row["thread_id"]]) for row in r.recording.rows("collections")]
    assert (1, "kept") in found and (0, threading.current_thread().name) in found


def test_launches_have_their_time_in_collections() -> None:
    clock, garbage, probe = FakeClock(0), GarbageProbe(), ScriptedProbe()
    with kernelscope.Recorder(probes=[garbage, probe], clock=clock, synchronize=False) as r:
        assert garbage.sink is not None and garbage.sink.collections is not None
        for at, phase in ((1_020, "start"), (1_050, "stop"), (1_110, "start"), (1_130, "stop"), (1_190, "start"),
                          (1_300, "stop")):
            clock.time_ns = at
            garbage.sink.collections(phase, {"generation": 0})
        for start, took in ((1_000, 100), (1_040, 20), (1_100, 100), (1_400, 50)):
            probe.emit(Launch("axpy", "()", start, (took,)))
    assert r.recording.column("collections", "start_ns").tolist() == [1_020, 1_110, 1_190]
    assert r.recording.column("launches", "gc_ns").tolist() == [30, 10, 30, 0]
    assert r.recording.launches.gc_ns.sum() == 70


def test_without_the_probe_the_time_is_not_known() -> None:
    probe = ScriptedProbe()
    with kernelscope.Recorder(probes=[probe], synchronize=False) as r:
        probe.emit(Launch("axpy", "()", now(), (10,)))
        gc.collect()
    assert r.recording.launches.gc_ns.isna().all() and not len(r.recording.collections)


def test_recordings_one_after_another_and_inside_another() -> None:
    with recorder() as outer:
        gc.collect(2)
        with recorder() as inner:
            gc.collect(1)
        gc.collect(0)
    with recorder() as later:
        gc.collect(1)
    assert [generations(each.recording) for each in (outer, inner, later)] == [[2, 1, 0], [1], [1]]
    assert inner.recording.column("collections", "cell_id").tolist() == [0]


def test_users_callbacks_stay_in_their_order() -> None:
    def first(*_: Any) -> None: ...
    def second(*_: Any) -> None: ...

    class Same:
        def __call__(self, *_: Any) -> None: ...
        def __eq__(self, other: object) -> bool:
            return True
        def __hash__(self) -> int:
            return 1

    same = Same()
    gc.callbacks[:] = [first, same]
    with recorder() as r:
        gc.callbacks.append(second)
        gc.collect(0)
    left = list(gc.callbacks)
    gc.callbacks.clear()
    assert all(found is meant for found, meant in zip(left, [first, same, second], strict=True))
    assert generations(r.recording) == [0]


def test_a_user_who_empties_the_list_is_told_what_is_missing() -> None:
    held = gc.callbacks
    with recorder() as r:
        gc.collect(1)
        gc.callbacks.clear()
        gc.collect(0)
    assert generations(r.recording) == [1]
    assert health(r.recording) == ["gc.callbacks was emptied during the recording: collections of garbage after that "
                                   "are not recorded"]
    gc.callbacks = []  # another list is none that the collector goes by
    try:
        with recorder() as r:
            gc.collect(0)
    finally:
        gc.callbacks = held
    assert generations(r.recording) == [0] and health(r.recording) == []


def test_collections_of_a_frozen_and_of_a_disabled_collector() -> None:
    with recorder() as r:
        gc.freeze()
        gc.collect()
        gc.unfreeze()
        made = [[] for _ in range(2_000)]  # no threshold is looked at
    assert len(made) == 2_000 and generations(r.recording) == [2]


@pytest.mark.parametrize("method", ["install", "uninstall"])
def test_a_ctrl_c_at_any_step_leaves_nothing_behind(method: str) -> None:
    step = reached = 0

    def trace(frame: Any, event: str, _: Any) -> Any:
        nonlocal reached
        if frame.f_code.co_filename.endswith("garbage.py") and event == "line":
            reached += 1
            if reached == step:
                raise KeyboardInterrupt
        return trace

    while step < 1 or reached >= step:
        step, reached = step + 1, 0
        r = recorder()
        if method == "uninstall":
            r.start()
        sys.settrace(trace)
        try:
            r.stop() if method == "uninstall" else r.start()
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(None)
            reached_now = reached
            if r.is_recording:
                r.stop()
        reached = reached_now
        assert gc.callbacks == [], step
        if method == "uninstall":
            assert health(r.recording) == [], step
    assert step > 3


def test_a_killed_process_leaves_its_collections(tmp_path: Any) -> None:
    program = textwrap.dedent("""
        import gc, os, signal
        import kernelscope
        r = kernelscope.Recorder(journal={folder!r}).start()
        gc.disable()
        r.begin_cell("work")
        gc.collect(2)
        gc.collect(0)
        r.end_cell()
        gc.collect(1)  # in no journal: nothing is written after it
        os.kill(os.getpid(), signal.SIGKILL)
    """).format(folder=str(tmp_path / "journals"))
    done = subprocess.run([sys.executable, "-c", program], env={**os.environ, "KERNELSCOPE_DRYRUN": "1"}, check=False)
    assert done.returncode < 0
    recording = kernelscope.recover(tmp_path / "journals")
    found = recording.collections[recording.collections.cell_id == 0]
    assert found.generation.tolist() == [2, 0] and (np.diff(found.start_ns) > 0).all()
    assert recording.rows("threads")[found.thread_id.iloc[0]]["ident"] > 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_forked_child_goes_on_and_the_parent_has_its_own_collections_only() -> None:
    with recorder() as r:
        gc.collect(1)
        child = os.fork()
        if child == 0:
            gc.collect(0)
            r.stop()
            os._exit(0 if len(r.recording.collections) == 2 and not gc.callbacks else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert generations(r.recording) == [1]
