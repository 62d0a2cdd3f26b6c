"""Recordings with a journal: what is in it while they run, and what a finished or a killed process leaves."""

from __future__ import annotations

import contextlib
import errno
import gc
import inspect
import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from interruptions import Line, handlers, interrupted_at, lines_of

import kernelscope
from kernelscope import Recorder
from kernelscope.native.journal import is_held
from kernelscope.native.log import LaunchLog
from kernelscope.probes.scripted import Compile, Launch, ScriptedProbe
from kernelscope.recorder import journal
from kernelscope.recorder.session import Session
from kernelscope.recording.journal import Journal


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


def test_a_recording_that_cannot_be_made_leaves_its_journal(record: Any, tmp_path: Path,
                                                            monkeypatch: pytest.MonkeyPatch) -> None:
    recorder, probe = record()
    probe.emit(Launch(kernel="axpy", start_ns=10))
    monkeypatch.setattr("kernelscope.recording.build.build", lambda raw: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        recorder.stop()
    (found,) = journals(tmp_path)
    assert found.launches == 1


def test_a_folder_that_cannot_be_is_said_and_recording_goes_on(record: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("precious")
    recorder, probe = record(journal=tmp_path / "file")
    recorder.begin_cell("cell")
    probe.emit(Launch())
    made = recorder.stop()
    assert len(made.launches) == 1 and "is no folder; recording goes on in memory" in notes(made)[0]
    assert (tmp_path / "file").read_text() == "precious"


def test_slots_that_find_no_room_leave_nothing(record: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(clock: Any, detail: str, mode: str, capacity: int | None, path: Path | None = None) -> LaunchLog:
        if path is not None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return LaunchLog(clock, detail, mode, capacity)

    monkeypatch.setattr(journal, "LaunchLog", full)
    recorder, probe = record()
    probe.emit(Launch())
    made = recorder.stop()
    assert len(made.launches) == 1 and "the disk is full; recording goes on in memory" in notes(made)[0]
    assert list((tmp_path / "journals").iterdir()) == []


def test_a_session_that_cannot_begin_leaves_nothing(tmp_path: Path) -> None:
    class Broken(ScriptedProbe):
        def install(self, sink: Any, detail: str) -> None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Recorder(probes=[Broken()], journal=tmp_path).start()
    assert list(tmp_path.iterdir()) == [] and Session.active is None


@pytest.fixture
def signals() -> Iterator[None]:
    yield from handlers()


def descriptors() -> list[str]:
    """What this process has open."""
    gc.collect()
    found = []
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            found.append(os.readlink(f"/proc/self/fd/{number}"))
    return sorted(found)


@pytest.mark.usefixtures("signals")
@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGALRM])
def test_a_start_that_is_interrupted_leaves_nothing(tmp_path: Path, number: int, nested: bool) -> None:
    """A signal handler raises at each line in turn, up to the first statement of the block."""
    begun: list[Recorder] = []

    def start() -> None:
        begun.append(Recorder("inside", probes=[ScriptedProbe()], journal=tmp_path))
        begun[-1].__enter__()

    def leaves_nothing(outer: Recorder | None) -> None:
        assert not begun[-1].is_recording
        if outer is None:
            assert Session.active is None and list(tmp_path.iterdir()) == []
        else:
            assert Session.active is not None and Session.active.recorders == {outer}

    def story(line: Line | None) -> list[Line]:
        """One start, alone or inside of another recording, which goes on as if there had been none."""
        probe, outer = ScriptedProbe(), None
        if nested:
            outer = Recorder("outer", probes=[probe], journal=tmp_path).start()
        found: list[Line] = []
        if line is None:
            found = lines_of(start)
            begun[-1].stop()
        elif interrupted_at(line, start, number):
            leaves_nothing(outer)
        else:  # such as an import, which is done once
            begun[-1].stop()
            leaves_nothing(outer)
        if outer is not None:
            probe.emit(Launch())
            assert len(outer.stop().launches) == 1
        assert list(tmp_path.iterdir()) == []
        return found

    story(None)
    lines, before = story(None), descriptors()
    assert len({file for file, _ in lines}) >= (4 if nested else 10) and len(lines) > (40 if nested else 150)
    for line in lines if number == signal.SIGINT else lines[::4]:
        story(line)
    begun.clear()
    assert descriptors() == before


@pytest.mark.slow
@pytest.mark.usefixtures("signals")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGALRM])
def test_an_end_that_is_interrupted_undoes_all(tmp_path: Path, number: int) -> None:
    """Nobody records any more, whatever was kept; what was not made into a recording stays as a journal."""
    probe = ScriptedProbe()
    recorder = Recorder(probes=[])

    def begun() -> Recorder:
        nonlocal probe, recorder
        probe = ScriptedProbe()
        recorder = Recorder("ends", probes=[probe], journal=tmp_path)
        recorder.__enter__()
        probe.emit(Launch())
        return recorder

    def end() -> None:
        recorder.__exit__(None, None, None)

    for _ in range(2):
        begun()
        lines = lines_of(end)
    before = descriptors()
    own = inspect.getsourcefile(Recorder), Recorder.__exit__.__code__.co_firstlineno
    assert len(lines) > 400
    for line in lines if number == signal.SIGINT else lines[::4]:
        if line[0] == own[0] and own[1] < line[1] <= own[1] + 3:
            continue  # before the first statement that Python lets a function guard
        begun()
        interrupted_at(line, end, number)
        assert Session.active is None and not recorder.is_recording
        for left in kernelscope.journals(tmp_path):
            assert left.launches == 1 and not is_held(left.folder)
            shutil.rmtree(left.folder)
        assert list(tmp_path.iterdir()) == []
    recorder = Recorder()
    assert descriptors() == before


def test_a_cell_that_cannot_begin_stops_the_recording(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder("first", probes=[ScriptedProbe()], journal=tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(Recorder, "begin_cell", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError), recorder:
            raise AssertionError("the block does not begin")
    assert Session.active is None and list(tmp_path.iterdir()) == []
    with recorder:  # nothing of it is left: it can be started again
        pass
    assert len(recorder.recording.rows("cells")) == 1


def test_a_recorder_that_records_is_not_stopped_by_a_second_start(record: Any) -> None:
    recorder, probe = record()
    with pytest.raises(kernelscope.errors.RecorderStateError), recorder:
        raise AssertionError("the block does not begin")
    assert recorder.is_recording
    probe.emit(Launch())
    assert len(recorder.stop().launches) == 1


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


HARMED = """
import faulthandler, json, os, shutil, sys
from pathlib import Path
import numpy as np
from numba import cuda
import kernelscope

@cuda.jit
def axpy(out, a, x):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = a * x[i]

@cuda.jit
def other(out):
    out[0] = 1

def caught():
    with open("/proc/self/status") as status:
        found = next(line for line in status if line.startswith("SigCgt"))
    return int(found.split()[1], 16) & 0x7fffffff  # glibc takes signals from 32 on for itself, when it likes

def truncate(name, size=0):
    os.truncate(folder / name, size)

a = cuda.to_device(np.zeros(64, np.float32))
cases, where = json.loads(sys.argv[1]), sys.argv[2]
faulthandler.enable()
before = caught()
for what, mode, capacity in cases:
    with kernelscope.record("training", journal=where, mode=mode, capacity=capacity) as r:
        for _ in range(6000):
            axpy[2, 32](a, 2.0, a)
        (folder,) = Path(where).iterdir()
        exec(what)
        for _ in range(9000):
            axpy[2, 32](a, 2.0, a)
        other[1, 1](a)
    assert caught() == before, (caught(), before)
    recording = r.recording
    told = [row for row in recording.rows("health") if row["probe"] == "journal"]
    print(json.dumps({
        "launches": len(recording.launches), "told": [row["message"] for row in told],
        "dropped": [row["dropped"] for row in told], "kernels": recording.dispatchers.name.tolist(),
        "bad": int((recording.launches.end_ns < recording.launches.start_ns).sum()),
        "open": [os.readlink(f"/proc/self/fd/{n}") for n in os.listdir("/proc/self/fd")
                 if os.path.exists(f"/proc/self/fd/{n}")],
        "card": recording.summary(),
        "left": sorted(path.name for path in Path(where).rglob("*") if path.is_file())}))
    shutil.rmtree(where, ignore_errors=True)
"""


def harmed(run_python: Any, tmp_path: Path, *cases: tuple[str, str, int | None]) -> Iterator[Any]:
    """Have a process launch 6000 times, do something to its journal, and launch 9001 times more, for each case."""
    ran = run_python(HARMED, json.dumps(cases), str(tmp_path / "journals"))
    for line in ran.stdout.splitlines():
        found = json.loads(line)
        assert found["bad"] == 0 and not [name for name in found["open"] if "journals" in name], found["open"]
        (message,) = found["told"]
        shown = message.replace(f"{tmp_path / 'journals'}/", "")  # a card names no folders
        assert "".join(shown.split()) in "".join(found["card"].split())  # wrapped as it is
        yield found


def test_a_journal_that_is_taken_away_is_said_and_the_recording_is_whole(run_python: Any, tmp_path: Path) -> None:
    cases = [
        ("shutil.rmtree(folder)", "is gone, it was deleted", 0),
        ("os.unlink(folder / 'slots')", "is gone, it was deleted", 0),
        ("truncate('rows')", "its file of rows was truncated", 0),
        ("folder.rename(folder.with_name('moved'))", "it was moved, and stays where it is now", 3),
    ]
    results = harmed(run_python, tmp_path, *((what, "grow", None) for what, *_ in cases))
    for (_, words, left), found in zip(cases, results, strict=True):
        assert found["launches"] == 15_001 and found["kernels"] == ["axpy", "other"] and found["dropped"] == [None]
        (message,) = found["told"]
        assert words in message and message.endswith("this recording has all of its launches")
        assert len(found["left"]) == left


def test_a_journal_whose_launches_are_truncated_ends_no_process(run_python: Any, tmp_path: Path) -> None:
    """What was in that part of the file is lost, and counted; the process goes on, and so does its recording."""
    cases = [(0, "grow", None, 6000), (4096 + 64 * 5000, "grow", None, 1000), (0, "stop", 20_000, 6000),
             (0, "ring", 20_000, 6000)]
    results = harmed(run_python, tmp_path, *((f"truncate('slots', {size})", mode, capacity)
                                             for size, mode, capacity, _ in cases))
    for (_, mode, _, most), found in zip(cases, results, strict=True):
        (message,) = found["told"]
        assert "its file of launches was truncated" in message and found["left"] == []
        lost = 15_001 - found["launches"]
        assert 0 < lost <= most
        if mode == "grow":
            assert message.endswith(f"; {lost:,} launches were lost with it") and found["dropped"] == [lost]


@pytest.mark.slow
def test_a_fault_elsewhere_goes_to_the_handler_that_was_there(run_python: Any, tmp_path: Path) -> None:
    """As that of a file of the user's that is mapped and was truncated: faulthandler's is what handles it."""
    fault = ("import mmap; file = open(folder.parent / 'mine', 'w+b'); file.truncate(8192); "
             "mine = mmap.mmap(file.fileno(), 8192); file.truncate(0); mine[0]")
    ran = run_python(HARMED, json.dumps([(fault, "grow", None)]), str(tmp_path / "journals"), check=False)
    assert ran.returncode == -signal.SIGBUS
    assert "Fatal Python error: Bus error" in ran.stderr and "in <module>" in ran.stderr
    alone = run_python(HARMED.replace("faulthandler.enable()", ""), json.dumps([(fault, "grow", None)]),
                       str(tmp_path / "others"), check=False)
    assert (alone.returncode, alone.stderr) == (-signal.SIGBUS, "")


@pytest.mark.slow
def test_a_handler_that_is_put_over_ours_stays(run_python: Any, tmp_path: Path) -> None:
    script = HARMED.replace("faulthandler.enable()", "").replace("before = caught()", "before = None").replace(
        "assert caught() == before", "assert faulthandler.is_enabled()")
    fault = "; import signal; os.kill(os.getpid(), signal.SIGBUS)"
    ran, ended = (run_python(script, json.dumps([("faulthandler.enable()" + more, "grow", None)]),
                             str(tmp_path / "journals"), check=False) for more in ("", fault))
    assert json.loads(ran.stdout)["launches"] == 15_001
    assert ended.returncode == -signal.SIGBUS and "Fatal Python error: Bus error" in ended.stderr


_COVERED = """
import faulthandler, os, signal, sys
import kernelscope

for name in ("one", "two"):
    with kernelscope.record(journal=os.path.join(sys.argv[1], name)):
        if name == "one":
            faulthandler.enable()  # over our handler, which it puts back before it raises the signal again
        else:
            os.kill(os.getpid(), signal.SIGBUS)
"""


@pytest.mark.slow
def test_a_handler_over_an_earlier_one_of_ours_ends_the_process(run_python: Any, tmp_path: Path) -> None:
    ended = run_python(_COVERED, str(tmp_path / "journals"), check=False, timeout=600)
    assert ended.returncode == -signal.SIGBUS and "Fatal Python error: Bus error" in ended.stderr


@pytest.mark.parametrize(("mode", "capacity", "kept"), [("grow", 0, 9000), ("ring", 100, 100)])
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
