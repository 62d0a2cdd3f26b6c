"""The journal's writer: what is in the folder after each thing that happened, and what it does when a disk fails."""

from __future__ import annotations

import errno
import json
import os
import stat
import threading
from pathlib import Path
from typing import Any

import pytest

from kernelscope.clock import FakeClock
from kernelscope.native import journal as native_journal
from kernelscope.probes.sink import RANGE_POP, RANGE_PUSH, Sink
from kernelscope.recorder import journal as recorder_journal
from kernelscope.recorder.journal import Journal, make_journal
from kernelscope.recording.journal import read_rows


@pytest.fixture
def journal(tmp_path: Path) -> Any:
    made = Journal(tmp_path / "journals").make()
    yield made
    made.close()


def rows(journal: Journal) -> Any:
    return read_rows(journal.folder / native_journal.ROWS)


def a_target(sink: Sink, name: str = "axpy") -> int:
    dispatcher = sink.dispatchers.intern(name, lambda: {
        "framework": "numba-cuda", "name": name, "filename": "/some/k.py", "_live": object()})
    return sink.target(dispatcher)


def test_rows_are_there_as_soon_as_they_are_interned(journal: Journal) -> None:
    sink = Sink(FakeClock())
    journal.follow(sink, lambda path: Path(path).name if path else None)
    sink.state()
    target = a_target(sink)
    sink.configuration((4,), (32,))
    found = rows(journal)
    assert found.tables["targets"] == {target: {"dispatcher_id": 0}}
    assert found.tables["dispatchers"] == {0: {"framework": "numba-cuda", "name": "axpy", "filename": "k.py"}}
    assert found.tables["configurations"][0]["griddim_x"] == 4
    assert [row["name"] for row in found.tables["threads"].values()] == ["MainThread"]
    assert (found.damaged, found.skipped_bytes) == (0, 0)


def test_rows_that_were_there_before_are_written_once(journal: Journal) -> None:
    sink = Sink(FakeClock())
    a_target(sink)
    journal.follow(sink)
    a_target(sink, "scale")
    sink.flush()
    assert [row["name"] for row in rows(journal).tables["dispatchers"].values()] == ["axpy", "scale"]
    assert rows(journal).records == 4


def test_a_thread_that_comes_is_written(journal: Journal) -> None:
    sink = Sink(FakeClock())
    journal.follow(sink)
    sink.state()
    thread = threading.Thread(target=sink.state, name="worker")
    thread.start()
    thread.join()
    assert [row["name"] for row in rows(journal).tables["threads"].values()] == ["MainThread", "worker"]


def test_lists_and_ranges_are_written_at_a_flush(journal: Journal) -> None:
    sink = Sink(FakeClock())
    journal.follow(sink)
    sink.compilations.append({"dispatcher_id": 0, "signature": "()", "start_ns": 5, "outcome": "compiled",
                              "trigger": "launch", "thread_id": 0})
    sink.passes.append({"compilation_id": 0, "kind": "pass", "name": "p", "duration_ns": 3})
    sink.health.append({"probe": "nvtx", "status": "ok", "message": "m"})
    sink.builds.append({"framework": "cuda.compute", "algorithm": "reduce", "outcome": "hit", "start_ns": 1,
                        "thread_id": 0})
    for number in range(3000):
        sink.ranges.extend((number / 1000, RANGE_PUSH if number % 2 == 0 else RANGE_POP, 0, 0))
    assert rows(journal).records == 0
    sink.flush()
    sink.flush()
    found = rows(journal)
    assert [len(found.tables[name]) for name in ("compilations", "passes", "health", "builds")] == [1, 1, 1, 1]
    assert found.ranges == sink.ranges
    assert found.records == 4 + 3


def test_rows_that_change_are_written_again_when_asked(journal: Journal) -> None:
    sink = Sink(FakeClock())
    journal.follow(sink)
    sink.specializations.intern("a", lambda: {"dispatcher_id": 0, "signature": "()"})
    sink.specializations.intern("b", lambda: {"dispatcher_id": 0, "signature": "(int64)"})
    sink.specializations.rows[1]["regs"] = 40
    journal.flush()
    assert "regs" not in rows(journal).tables["specializations"][1]
    journal.flush(anew=True)
    journal.flush(anew=True)
    assert rows(journal).tables["specializations"][1]["regs"] == 40
    assert rows(journal).records == 3


def test_a_cell_is_written_when_it_begins_and_when_it_ends(journal: Journal) -> None:
    cell = {"name": None, "source": "x = '\ud800'", "status": "ok", "start_ns": 5}
    journal.cell(0, cell)
    journal.cell(0, {**cell, "end_ns": 9})
    found = rows(journal)
    assert found.tables["cells"] == {0: {"source": "x = '?'", "status": "ok", "start_ns": 5, "end_ns": 9}}
    assert found.records == 2


def test_a_text_that_is_too_long_is_left_out(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_journal, "MAX_ROW_BYTES", 70_000)
    journal.cell(0, {"name": "long", "source": "x" * 70_000, "start_ns": 5})
    assert rows(journal).tables["cells"] == {0: {"name": "long", "start_ns": 5}}


def test_folder_and_files_are_for_this_user_only(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "a" / "b").make()
    journal.begin("name", {"detail": "phases", "odd": object()})
    assert stat.S_IMODE(journal.folder.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(journal.folder.stat().st_mode) == 0o700
    assert {path.name: stat.S_IMODE(path.stat().st_mode) for path in journal.folder.iterdir()} == {
        "rows": 0o600, "journal.json": 0o600}
    facts = json.loads((journal.folder / "journal.json").read_text())
    assert facts["format"] == 1 and facts["pid"] == os.getpid() and facts["boot_id"] == native_journal.boot_id()
    assert facts["metadata"] == {"detail": "phases", "odd": None} and facts["name"] == "name"
    assert native_journal.pid_of(journal.folder.name) == os.getpid()
    journal.close()
    assert list((tmp_path / "a" / "b").iterdir()) == []


def test_two_recordings_in_one_folder_have_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = iter(["aaaa", "aaaa", "bbbb"])
    monkeypatch.setattr(recorder_journal.secrets, "token_hex", lambda _: next(tokens))
    first = Journal(tmp_path).make()
    (first.folder / "slots").write_bytes(b"precious")
    second = Journal(tmp_path).make()
    assert first.folder != second.folder
    second.close()
    assert (first.folder / "slots").read_bytes() == b"precious"
    first.close()
    assert list(tmp_path.iterdir()) == []


def test_what_else_is_in_the_folder_stays(tmp_path: Path) -> None:
    journal = Journal(tmp_path).make()
    (journal.folder / "mine.txt").write_text("mine")
    journal.close()
    assert [path.name for path in journal.folder.iterdir()] == ["mine.txt"]


def test_the_end_gives_the_sink_back(tmp_path: Path) -> None:
    journal, sink = Journal(tmp_path).make(), Sink(FakeClock())
    journal.follow(sink)
    journal.close()
    a_target(sink)
    sink.flush()
    journal.flush(anew=True)
    journal.cell(0, {"start_ns": 1})
    journal.close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("number", "words"), [
    (errno.ENOSPC, "the disk is full"), (errno.EROFS, "the file system is read-only"),
    (errno.EIO, "Input/output error")])
def test_a_disk_that_fails_is_said_once_and_recording_goes_on(
    journal: Journal, monkeypatch: pytest.MonkeyPatch, number: int, words: str,
) -> None:
    sink = Sink(FakeClock())
    journal.follow(sink)
    a_target(sink)
    before = (journal.folder / "rows").read_bytes()
    real = os.write

    def full(file: int, data: bytes) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "write", full)
    a_target(sink, "scale")
    monkeypatch.setattr(os, "write", real)
    a_target(sink, "third")
    sink.flush()
    assert len(sink.dispatchers) == 3
    (row,) = sink.health
    assert row == journal.health and row["probe"] == "journal" and row["status"] == "degraded"
    assert row["message"].startswith(f"the journal grows no more in {journal.folder}: {words}; recording goes on in")
    assert "choose another folder" in row["fix"]
    assert (journal.folder / "rows").read_bytes() == before


def test_a_row_that_fits_in_part_only_is_torn(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = Sink(FakeClock())
    journal.follow(sink)
    a_target(sink)
    real = os.write
    monkeypatch.setattr(os, "write", lambda file, data: real(file, data[:20]))
    a_target(sink, "scale")
    found = rows(journal)
    assert [row["name"] for row in found.tables["dispatchers"].values()] == ["axpy"]
    assert found.damaged == 1
    assert "the disk is full" in sink.health[0]["message"]


def a_file(path: Path) -> Path:
    path.write_text("precious")
    return path


@pytest.mark.parametrize(("make", "words"), [
    (lambda path: a_file(path / "file"), "is no folder"),
    (lambda path: a_file(path / "file") / "below", "is no folder"),
    (lambda path: path / ("x" * 300), "File name too long"),
    (lambda path: "nul\0", "null"),
])
def test_a_folder_that_cannot_be_is_said(tmp_path: Path, make: Any, words: str) -> None:
    journal = Journal(make(tmp_path))
    problem = make_journal(journal)
    assert not journal.is_on
    assert problem is not None and words in problem["message"] and "recording goes on in memory" in problem["message"]
    assert [path.read_text() for path in tmp_path.iterdir()] in ([], ["precious"])


def test_a_folder_that_may_not_be_written_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(Path, "mkdir", refuse)
    problem = make_journal(Journal(tmp_path / "journals"))
    assert problem is not None and "it may not be written" in problem["message"]


def test_rows_that_cannot_be_made_leave_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "open", full)
    journal = Journal(tmp_path)
    problem = make_journal(journal)
    assert not journal.is_on and problem is not None and "the disk is full" in problem["message"]
    assert list(tmp_path.iterdir()) == []


def test_the_default_folder_is_the_state_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert native_journal.default_folder() == tmp_path / "kernelscope" / "journals"
    journal = Journal(True).make()
    assert journal.folder.parent == native_journal.default_folder()
    journal.close()
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert native_journal.default_folder() == tmp_path / ".local" / "state" / "kernelscope" / "journals"


def test_a_forked_child_writes_and_removes_nothing(journal: Journal) -> None:
    sink = Sink(FakeClock())
    journal.follow(sink)
    a_target(sink)
    before = (journal.folder / "rows").read_bytes()
    child = os.fork()
    if not child:
        code = 1
        try:
            a_target(sink, "childs")
            sink.compilations.append({"start_ns": 1})
            sink.flush()
            journal.cell(0, {"start_ns": 1})
            journal.begin("child", {})
            journal.close()
            code = 0 if not journal.is_on else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert (journal.folder / "rows").read_bytes() == before
    assert not (journal.folder / "journal.json").exists()
    a_target(sink, "parents")
    assert [row["name"] for row in rows(journal).tables["dispatchers"].values()] == ["axpy", "parents"]
