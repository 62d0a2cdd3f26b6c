"""Recordings with a journal: what is in it while they run, and what a finished or a killed process leaves."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import kernelscope
from kernelscope import Recorder, _native
from kernelscope.probes import journal as writer
from kernelscope.probes.scripted import Compile, Launch, ScriptedProbe
from kernelscope.recording.journal import Journal
from kernelscope.session import Session

native = pytest.mark.skipif(_native.core is None, reason="the native recorder is not built")


@pytest.fixture
def record(tmp_path: Path) -> Iterator[Callable[..., tuple[Recorder, ScriptedProbe]]]:
    """Start a recorder with a journal; it is stopped after the test."""
    started: list[Recorder] = []

    def start(name: str = "story", **options: Any) -> tuple[Recorder, ScriptedProbe]:
        probe = ScriptedProbe()
        recorder = Recorder(name, probes=[probe], **{"journal": tmp_path / "journals", **options})
        started.append(recorder.start())
        return recorder, probe

    yield start
    for recorder in reversed(started):
        if recorder.is_recording:
            recorder.stop()


def journals(tmp_path: Path) -> list[Journal]:
    return kernelscope.journals(tmp_path / "journals")


def notes(recording: kernelscope.Recording) -> list[str]:
    return [str(row["message"]) for row in recording.rows("health") if row["probe"] == "journal"]


@native
def test_all_of_it_is_there_while_it_runs_and_gone_when_it_is_made(record: Any, tmp_path: Path) -> None:
    recorder, probe = record()
    recorder.begin_cell("first", execution_count=7, source="axpy[1, 1](a)")
    for event in (Compile(kernel="axpy", start_ns=5), Launch(kernel="axpy", start_ns=10),
                  Launch(kernel="scale", start_ns=50_000)):
        probe.emit(event)
    recorder.end_cell()
    recorder.begin_cell("second")
    (found,) = journals(tmp_path)
    assert found.is_live and found.pid == os.getpid() and found.recording == "story"
    assert (found.launches, found.unfinished, found.missing, found.cells) == (2, 0, 0, 2)
    seen = kernelscope.recover(found)
    assert [row["name"] for row in seen.rows("dispatchers")] == ["axpy", "scale"]
    assert [row["start_ns"] for row in seen.rows("launches")] == [10, 50_000]
    assert [(row["name"], row["status"]) for row in seen.rows("cells")] == [("first", "ok"), ("second", "unfinished")]
    assert len(seen.rows("compilations")) == 1
    assert seen.metadata["detail"] == "phases" and seen.metadata["clock"]["host_ns"] > 0
    made = recorder.stop()
    assert len(made.launches) == 2 and notes(made) == []
    assert list((tmp_path / "journals").iterdir()) == []


@native
def test_a_nested_recording_leaves_the_journal_to_the_one_around_it(record: Any, tmp_path: Path) -> None:
    recorder, probe = record()
    recorder.begin_cell("outer")
    with Recorder("inner", journal=True) as inner:
        probe.emit(Launch(kernel="axpy", start_ns=10))
    assert "the journal of the recording around it" in str(inner.recording.rows("health"))
    (found,) = journals(tmp_path)
    assert (found.launches, found.cells) == (1, 1)
    assert kernelscope.recover(found).rows("specializations")[0]["regs"] == 32  # asked when the inner one stopped
    recorder.stop()
    assert journals(tmp_path) == []


@native
def test_a_recording_that_cannot_be_made_leaves_its_journal(record: Any, tmp_path: Path,
                                                            monkeypatch: pytest.MonkeyPatch) -> None:
    recorder, probe = record()
    probe.emit(Launch(kernel="axpy", start_ns=10))
    monkeypatch.setattr("kernelscope.recorder.build", lambda raw: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        recorder.stop()
    (found,) = journals(tmp_path)
    assert found.launches == 1


def test_the_python_recorder_keeps_none_and_says_so(record: Any, tmp_path: Path) -> None:
    recorder, probe = record(backend="python")
    probe.emit(Launch())
    made = recorder.stop()
    assert len(made.launches) == 1
    assert [note[:59] for note in notes(made)] == ["no journal is kept: that takes the native recorder, and the"]
    assert not (tmp_path / "journals").exists()


@native
@pytest.mark.parametrize("what", ["a file", "a file above"])
def test_a_folder_that_cannot_be_is_said_and_recording_goes_on(record: Any, tmp_path: Path, what: str) -> None:
    (tmp_path / "file").write_text("precious")
    recorder, probe = record(journal=tmp_path / "file" / ("" if what == "a file" else "below"))
    recorder.begin_cell("cell")
    probe.emit(Launch())
    made = recorder.stop()
    assert len(made.launches) == 1 and "is no folder; recording goes on in memory" in notes(made)[0]
    assert (tmp_path / "file").read_text() == "precious"


@native
def test_slots_that_find_no_room_leave_nothing(record: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = writer.make_log

    def full(*asked: Any) -> Any:
        if len(asked) > 5:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(*asked)

    monkeypatch.setattr(writer, "make_log", full)
    recorder, probe = record()
    probe.emit(Launch())
    made = recorder.stop()
    assert len(made.launches) == 1 and "the disk is full; recording goes on in memory" in notes(made)[0]
    assert list((tmp_path / "journals").iterdir()) == []


@native
def test_a_session_that_cannot_begin_leaves_nothing(tmp_path: Path) -> None:
    class Broken(ScriptedProbe):
        def install(self, sink: Any, detail: str) -> None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Recorder(probes=[Broken()], journal=tmp_path).start()
    assert list(tmp_path.iterdir()) == [] and Session.active is None


KILLED = """
import os, signal, sys, threading, time
import numpy as np
from numba import cuda
import kernelscope

@cuda.jit
def axpy(out, a, x):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = a * x[i]

a = cuda.to_device(np.zeros(64, np.float32))
mode, capacity, where, end = sys.argv[1:]
recorder = kernelscope.Recorder("training", journal=where, mode=mode, capacity=int(capacity) or None).start()
recorder.begin_cell("loop", source="for _ in range(9000): ...")
with kernelscope.annotate("epoch"):
    for _ in range(9000):
        axpy[2, 32](a, 2.0, a)
if end == "inside":
    def callback(kernel, config):
        os.kill(os.getpid(), signal.SIGKILL)
    import numba.cuda.dispatcher as dispatcher
    launch = dispatcher.launch
    config = axpy[2, 32]
    config.pre_launch_callbacks.append(callback)
    config(a, 2.0, a)
child = os.fork() if end == "forked" else None
if child == 0:
    axpy[2, 32](a, 2.0, a)
    recorder.stop()
    time.sleep(60)
if child:
    print(child, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@native
@pytest.mark.parametrize(("mode", "capacity", "kept"), [("grow", 0, 9000), ("ring", 100, 100), ("stop", 5000, 5000)])
def test_a_killed_process_leaves_every_launch(run_python: Any, tmp_path: Path, mode: str, capacity: int,
                                              kept: int) -> None:
    ran = run_python(KILLED, mode, str(capacity), str(tmp_path / "journals"), "now", check=False)
    assert ran.returncode == -signal.SIGKILL, ran.stderr
    (found,) = journals(tmp_path)
    assert not found.is_live and (found.launches, found.unfinished, found.missing) == (kept, 0, 0)
    assert found.lost == 9000 - kept
    recording = kernelscope.recover(found)
    launches = recording.launches
    assert len(launches) == kept and launches.start_ns.is_monotonic_increasing
    assert launches.end_ns.notna().all() and (launches.end_ns > launches.start_ns).all()
    assert recording.dispatchers.name.tolist() == ["axpy"] and len(recording.compilations) == 1
    (cell,) = recording.rows("cells")
    assert (cell["name"], cell["status"], cell["source"]) == ("loop", "unfinished", "for _ in range(9000): ...")
    assert recording.save(tmp_path / "out.kscope").exists() and "training: loop (unfinished)" in recording.summary()


@native
def test_a_launch_under_way_is_named(run_python: Any, tmp_path: Path) -> None:
    ran = run_python(KILLED, "grow", "0", str(tmp_path / "journals"), "inside", check=False)
    assert ran.returncode == -signal.SIGKILL, ran.stderr
    (found,) = journals(tmp_path)
    assert (found.launches, found.unfinished, found.kernels) == (9000, 1, ("axpy",))
    recording = kernelscope.recover(found, remove=True)
    assert "1 launch unfinished: axpy" in recording.summary()
    last = recording.rows("launches")[-1]
    assert (last["end_ns"], last["error"]) == (None, "unfinished")
    assert journals(tmp_path) == []


@native
def test_a_child_that_outlives_its_parent_holds_nothing(run_python: Any, tmp_path: Path) -> None:
    script = "import warnings; warnings.simplefilter('ignore', DeprecationWarning)\n" + KILLED  # fork and threads
    ran = run_python(script.replace("time.sleep(60)", "os.close(1); os.close(2); time.sleep(60)"), "grow", "0",
                     str(tmp_path / "journals"), "forked", check=False)
    child = int(ran.stdout)
    try:
        os.kill(child, 0)
        (found,) = journals(tmp_path)
        assert not found.is_live and found.launches == 9000
    finally:
        os.kill(child, signal.SIGKILL)
