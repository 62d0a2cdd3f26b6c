"""Processes that record themselves: as children of a recording, and by their environment; however they end.

They run in the CUDA simulator, where a process may fork, and where none compiles.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import kernelscope
from kernelscope.errors import RecordingFileError
from kernelscope.recorder.children import Children
from kernelscope.recorder.options import RecordingOptions
from kernelscope.recorder.session import Session
from kernelscope.recorder.worker import spelled, start

ROOT = Path(__file__).resolve().parents[2]

WORK = """
import os, signal, sys

def work(launches):
    from numba import cuda

    @cuda.jit
    def noop():
        pass

    for _ in range(launches):
        noop[1, 1]()
    return os.getpid()

if __name__ == "__main__":
    launches, end = int(sys.argv[1]), sys.argv[2]
    work(launches)
    if end == "raises":
        raise ValueError("on purpose")
    elif end == "lives":
        print("ready", flush=True)
        sys.stdin.read()
        work(50)
    elif end.startswith("SIG"):
        os.kill(os.getpid(), getattr(signal, end))
"""
ENDS = {"raises": 2, "SIGTERM": 4, "SIGKILL": 5, "SIGINT": 6, "lives": 7}

MAIN = """
import json, multiprocessing, os, subprocess, sys
from concurrent.futures import ProcessPoolExecutor
from work import work

if __name__ == "__main__":
    import kernelscope
    before = dict(os.environ)
    ends, out = json.loads(sys.argv[1]), sys.argv[2]
    with kernelscope.record("parent", children=True) as r:
        folder = os.environ["KERNELSCOPE_RECORD"]
        assert os.stat(folder).st_mode & 0o777 == 0o700
        children = {end: subprocess.Popen([sys.executable, "work.py", str(launches), end], stdin=subprocess.PIPE,
                                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
                    for end, launches in ends.items()}
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
            pool.submit(work, 10).result()
        for method in ("forkserver", "fork"):
            process = multiprocessing.get_context(method).Process(target=work, args=(20,), name=method)
            process.start()
            process.join()
        work(100)
        child = os.fork()
        if not child:
            work(30)
            os._exit(0)
        os.waitpid(child, 0)
        children["lives"].stdout.readline()
        codes = {end: child.wait() for end, child in children.items() if end != "lives"}
    assert dict(os.environ) == before
    assert not os.path.exists(folder)
    lives = children["lives"]
    lives.stdin.close()
    codes["lives"] = lives.wait()  # it worked on
    r.recording.save(out, paths=True)
    print(json.dumps(codes))
"""


def environment(**changes: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("KERNELSCOPE_")}
    return {**kept, "NUMBA_ENABLE_CUDASIM": "1", "PYTHONPATH": str(ROOT), **changes}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("children")
    (folder / "work.py").write_text(WORK)
    (folder / "main.py").write_text(MAIN)
    return folder


@pytest.fixture(scope="module")
def family(folder: Path) -> tuple[kernelscope.Recording, dict[str, int]]:
    """One recording with children of all kinds, and how those that it started as subprocesses ended."""
    ran = subprocess.run([sys.executable, "main.py", json.dumps(ENDS), "out.kscope"], cwd=folder, env=environment(),
                         capture_output=True, text=True, timeout=600, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return kernelscope.load(folder / "out.kscope"), json.loads(ran.stdout.splitlines()[-1])


def launches_by_process(recording: kernelscope.Recording) -> Counter[int]:
    process = dict(zip(recording.threads.thread_id, recording.threads.process_id, strict=True))
    return Counter(process[thread] for thread in recording.launches.thread_id)


def test_each_launch_of_each_child_is_there_once(family: tuple[kernelscope.Recording, dict[str, int]]) -> None:
    recording, _ = family
    found = launches_by_process(recording)
    assert sorted(found.values()) == sorted([100, *ENDS.values(), 10, 20, 20, 30])
    assert len(recording.processes) == len(found)
    assert recording.processes.pid.is_unique
    assert recording.cells.process_id.is_unique


def test_how_children_ended_is_said(family: tuple[kernelscope.Recording, dict[str, int]]) -> None:
    recording, codes = family
    found = launches_by_process(recording)
    by_count = {found[row.process_id]: row for row in recording.processes.itertuples()}
    status = {end: by_count[count].status for end, count in ENDS.items()}
    assert status == {"raises": "ok", "SIGTERM": "terminated", "SIGKILL": "killed", "SIGINT": "ok", "lives": "ok"}
    assert by_count[10].status == "ok"  # it returned
    assert by_count[30].status == "killed"  # by os._exit
    assert "replaced by os.exec: recovered from its journal" in by_count[ENDS["SIGKILL"]].message
    cells = {row.process_id: row for row in recording.cells.itertuples()}
    assert cells[by_count[ENDS["raises"]].process_id].error == "ValueError: on purpose"
    # They end as they would without a recording.
    assert codes == {"raises": 1, "SIGTERM": -15, "SIGKILL": -9, "SIGINT": -2, "lives": 0}


def test_children_say_who_started_them(family: tuple[kernelscope.Recording, dict[str, int]]) -> None:
    recording, _ = family
    rows = recording.processes
    parent = rows[rows.launcher.isna()].pid.item()
    assert set(rows[rows.launcher == "multiprocessing"].worker) == {"SpawnProcess-1", "forkserver", "fork"}
    assert (rows[rows.launcher == "subprocess"].parent_pid == parent).all()


def test_ctrl_c_in_the_parent_keeps_the_childrens_launches(folder: Path) -> None:
    (folder / "interrupted.py").write_text(
        "import os, signal, subprocess, sys\n"
        "subprocess.run([sys.executable, 'work.py', '3', 'returns'], check=True)\n"
        "os.kill(os.getpid(), signal.SIGINT)\n")
    ran = subprocess.run(
        [sys.executable, "-m", "kernelscope", "run", "--children", "--journal-folder", "journals", "interrupted.py"],
        cwd=folder, env=environment(), capture_output=True, text=True, timeout=600, check=False)
    assert ran.returncode == 130, ran.stdout + ran.stderr
    recording = kernelscope.load(folder / "interrupted.kscope")
    assert launches_by_process(recording).most_common() == [(1, 3)]
    assert os.listdir(folder / "journals") == []


@pytest.fixture(scope="module")
def ranks(folder: Path) -> Path:
    """Three ranks as torchrun starts them, of which one was killed; and a launcher, which does nothing itself."""
    record = folder / "ranks"
    running = [subprocess.Popen(
        [sys.executable, "work.py", str(count), end], cwd=folder, stderr=subprocess.PIPE, env=environment(
            KERNELSCOPE_RECORD="ranks", KERNELSCOPE_RECORD_OPTIONS='{"detail": "launch"}', RANK=str(rank),
            LOCAL_RANK=str(rank % 2), WORLD_SIZE="3"))
        for rank, (count, end) in enumerate([(4, "returns"), (5, "SIGKILL"), (0, "returns")])]
    running.append(subprocess.Popen([sys.executable, "work.py", "0", "returns"], cwd=folder, stderr=subprocess.PIPE,
                                    env=environment(KERNELSCOPE_RECORD=str(record))))
    assert [(each.communicate(timeout=600)[1], each.returncode) for each in running] == [
        (b"", 0), (b"", -9), (b"", 0), (b"", 0)]
    return record


def test_ranks_record_themselves_and_are_merged(ranks: Path, folder: Path, cli: Any) -> None:
    assert ranks.stat().st_mode & 0o777 == 0o700
    out = folder / "all.kscope"
    told = cli("merge", str(ranks), "-o", str(out), NUMBA_ENABLE_CUDASIM="1").stdout.splitlines()
    assert told[0].startswith("KernelScope: ranks: 3 processes") and told[-1] == f"wrote {out}"
    assert "9 launches, 1 kernel" in told
    assert {"ok: rank 0, rank 2", "killed: rank 1"} <= {*told}
    recording = kernelscope.load(out)
    rows = recording.processes.sort_values("rank")
    assert rows["rank"].tolist() == [0, 1, 2]
    assert rows.local_rank.tolist() == [0, 1, 0]
    assert rows.status.tolist() == ["ok", "killed", "ok"]
    assert [launches_by_process(recording)[process] for process in rows.process_id] == [4, 5, 0]
    assert set(recording.launches.submit_start_ns.isna()) == {True}  # detail 'launch'


def test_what_is_no_recording_is_left_out_and_said(ranks: Path, folder: Path, cli: Any, tmp_path: Path) -> None:
    parts = shutil.copytree(ranks, tmp_path / "parts")
    (parts / "rank7.kscope").write_bytes(b"PK nothing")
    printed = cli("merge", "parts", "-o", str(tmp_path / "some.kscope"), code=1)
    assert "left out: " in printed.stderr and "rank7.kscope" in printed.stderr
    recording = kernelscope.load(tmp_path / "some.kscope")
    assert sorted(recording.processes["rank"].tolist()) == [0, 1, 2] and recording.name == "parts"
    assert any("not merged: rank7.kscope" in message for message in recording.health.message)
    (tmp_path / "none").mkdir()
    assert "there is no recording in" in cli("merge", str(tmp_path / "none"), code=1).stderr
    with pytest.raises(RecordingFileError, match="there is no file or folder"):
        kernelscope.processes.collect(tmp_path / "nothing")


def test_without_the_variable_nothing_is_loaded() -> None:
    code = "import sys; print('kernelscope_at_start' in sys.modules, 'kernelscope' in sys.modules)"
    for changes, wanted in (({}, "False False"), ({"KERNELSCOPE_RECORD": "x"}, "True False")):
        ran = subprocess.run([sys.executable, "-c", code], env=environment(**changes), capture_output=True, text=True,
                             check=True, timeout=600)
        assert ran.stdout.strip() == wanted


def test_a_child_of_a_recording_that_has_ended_goes_on_without(tmp_path: Path) -> None:
    options = spelled(RecordingOptions(detail="launch"))
    assert not start(tmp_path / "gone", options)
    (tmp_path / "stop").touch()
    assert not start(tmp_path, options)
    assert os.listdir(tmp_path) == ["stop"] and Session.active is None


def test_what_keeps_a_process_from_being_recorded_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert not start(tmp_path, '["detail"]')
    assert "is no JSON object" in capsys.readouterr().err
    assert not start(tmp_path, '{"detail": "everything"}')
    assert "detail 'everything' is not one of" in capsys.readouterr().err
    (tmp_path / "file").touch()
    for folder in ("file", "file/below", "x" * 300, "\0", "~nobody-of-this-name/x"):
        assert not start(tmp_path / folder if folder[0] != "~" else Path(folder), "")
        said = capsys.readouterr().err
        assert f"pid {os.getpid()}: this process is not recorded: " in said and said.count("\n") == 1
    assert Session.active is None


def test_the_environment_is_restored_unless_somebody_changed_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELSCOPE_RECORD", "mine")
    monkeypatch.delenv("KERNELSCOPE_RECORD_OPTIONS", raising=False)
    with kernelscope.record(children=True):
        assert os.environ["KERNELSCOPE_RECORD"] != "mine"
        with kernelscope.record(children=True) as inner:
            pass
        os.environ["KERNELSCOPE_RECORD_OPTIONS"] = "{}"
    assert os.environ["KERNELSCOPE_RECORD"] == "mine"
    assert os.environ.pop("KERNELSCOPE_RECORD_OPTIONS") == "{}"
    assert Children.active is None
    assert any("recording around this one" in message for message in inner.recording.health.message)


def test_without_a_folder_for_children_it_records_by_itself(
        monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def fails(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device", "/tmp/x")

    monkeypatch.setattr("tempfile.mkdtemp", fails)
    with kernelscope.record(children=True) as r:
        pass
    assert "child processes are not recorded: No space left on device" in " ".join(r.recording.health.message)
    assert "KERNELSCOPE_RECORD" not in os.environ


def test_ctrl_c_while_children_are_read_keeps_what_there_is(
        ranks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kernelscope.progress import Work
    from kernelscope.recorder import children

    load, interrupt = children.load, Work.interrupt
    read: list[Path] = []
    interrupted = threading.Event()

    def loaded(path: Path) -> Any:
        read.append(path)
        if len(read) == 2:
            os.kill(os.getpid(), signal.SIGINT)
            assert interrupted.wait(60)
        return load(path)

    monkeypatch.setattr(children, "load", loaded)
    monkeypatch.setattr(Work, "interrupt", lambda self: (interrupt(self), interrupted.set()))
    recording = kernelscope.processes.collect(ranks)
    missing = 3 - len(recording.processes)
    assert missing in (1, 2)  # the one that was being read is there, or that before it
    assert any(message.startswith(f"{missing} of 3 recordings not merged: ") and message.endswith("was interrupted")
               for message in recording.health.message)

    # A recording with children keeps their folder then.
    read.clear()
    interrupted.clear()
    with pytest.raises(KeyboardInterrupt), kernelscope.record("parent", children=True, journal=tmp_path) as r:
        for each in ranks.glob("*.kscope"):
            shutil.copy(each, os.environ["KERNELSCOPE_RECORD"])
    (folder,) = tmp_path.glob("*.children")
    assert [row["message"] for row in r.recording.rows("health") if "stays in" in row["message"]] == [
        f"interrupted: what was not read of the child processes stays in {folder}"]
    assert {each.name for each in ranks.glob("*.kscope")} <= set(os.listdir(folder))


def test_children_that_were_there_before_are_named(folder: Path) -> None:
    older = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    try:
        with kernelscope.record(children=True) as r:
            pass
    finally:
        older.send_signal(signal.SIGKILL)
        older.communicate()
    said = " ".join(r.recording.health.message)
    assert "there before the recording began, and not recorded: pid " in said and str(older.pid) in said
