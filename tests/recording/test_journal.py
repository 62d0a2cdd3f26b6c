"""Journals of processes that died: what is found, and the recording that comes of it."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from handmade_journals import START, Handmade, Launch, record, rows_of_axpy

import kernelscope
from kernelscope.errors import JournalError
from kernelscope.native import journal
from kernelscope.recording import journal as reader
from kernelscope.recording.journal import find_journals, look, read_journal, remove_journal
from kernelscope.recording.model import Recording

RANGES = [(START - 1_000) / 1e9, 0, 0, 0, (START + 15_000) / 1e9, 1, 0, 0]


def story(**changes: Any) -> Handmade:
    """Twenty launches, the last under way in it one that was made inside of it."""
    launches = [*(Launch(index) for index in range(20)), Launch(20, is_open=True), Launch(21, target=1)]
    return Handmade(launches, rows=[*rows_of_axpy(), ("range_labels", 0, {"name": "epoch"})], ranges=RANGES, **changes)


def health(recording: Recording) -> Any:
    (row,) = [row for row in recording.rows("health") if row["probe"] == "journal"]
    return row


def test_a_journal_becomes_a_recording(tmp_path: Path) -> None:
    recording = read_journal(story().write(tmp_path))
    launches = recording.rows("launches")
    assert [row["start_ns"] for row in launches] == [START + 10_000 * index for index in range(22)]
    assert [row["end_ns"] for row in launches] == [
        *(START + 10_000 * index + 8_000 for index in range(20)), None, START + 218_000]
    assert [row["error"] for row in launches] == [None] * 20 + ["unfinished", "TypeError"]
    assert launches[0]["dispatch_end_ns"] == START + 2_000 and launches[0]["submit_end_ns"] == START + 7_000
    assert launches[20]["submit_start_ns"] == START + 204_000 and launches[20]["submit_end_ns"] is None
    assert launches[21]["parent_launch_id"] == 20 and launches[20]["parent_launch_id"] is None
    assert {row["cell_id"] for row in launches} == {0}
    assert launches[0]["compilation_id"] == 0
    assert [row["cache"] for row in launches[:2]] == ["compiled", "memory"]
    assert [row["compilation_id"] for row in recording.rows("passes")] == [0]
    assert {(row["line_id"], row["stack_id"]) for row in launches} == {(0, 1)}
    assert recording.rows("stacks") == [{"stack_id": 0, "parent_stack_id": None, "line_id": 0},
                                        {"stack_id": 1, "parent_stack_id": 0, "line_id": 1}]
    (cell,) = recording.rows("cells")
    assert (cell["status"], cell["execution_count"], cell["end_ns"]) == ("unfinished", 3, START + 218_000)
    assert [(row["name"], row["end_ns"]) for row in recording.rows("ranges")] == [("epoch", START + 15_000)]
    assert recording.name == "training" and recording.is_dry_run
    assert recording.metadata["packages"] == {"numba-cuda": "0.30.4"}


def test_the_recording_says_what_it_is(tmp_path: Path) -> None:
    recording = read_journal(story().write(tmp_path))
    row = health(recording)
    assert row["status"] == "degraded" and row["dropped"] is None
    assert row["message"] == (
        "recovered 21 launches of process 999999, which ended without stopping its recording; "
        "1 launch unfinished: axpy; what the GPU did, graphs and registers are not in a journal")
    assert recording.metadata["recovered"] == {
        "journal": "20250102-030405-999999-abcd", "pid": 999999, "launches": 21, "unfinished": {"axpy": 1},
        "missing": 0, "lost": 0, "damaged_slots": 0, "repeated_slots": 0, "damaged_rows": 0, "skipped_bytes": 0,
        "unknown_ids": 0,
        "mode": "grow", "notes": []}


def test_the_card_names_what_was_under_way(tmp_path: Path) -> None:
    recording = read_journal(story().write(tmp_path))
    text, html = recording.summary(), recording._repr_html_()
    assert "1 launch unfinished: axpy" in text.splitlines()[2]
    assert "22 launches, 1 failed, 1 unfinished, 1 inside others, " in text
    assert "training: In [3] (unfinished)" in text
    assert '<div class="ks-error">1 launch unfinished: axpy</div>' in html


def test_every_view_copes_with_a_launch_without_an_end(tmp_path: Path) -> None:
    recording = read_journal(story().write(tmp_path / "journals"))
    path = recording.save(tmp_path / "out.kscope")
    again = kernelscope.load(path)
    assert again.rows("launches") == recording.rows("launches")
    for write, name in ((again.to_html, "a.html"), (again.to_perfetto, "a.json"), (again.to_perfetto, "a.pftrace"),
                        (again.to_parquet, "parquet"), (again.to_csv, "csv")):
        assert write(tmp_path / name).exists()
    assert "unfinished" in (tmp_path / "csv" / "launches.csv").read_text()
    assert kernelscope.timeline(again)._repr_mimebundle_()
    assert len(again.specializations) == 1 and len(again.by_range()) == 1
    assert "unfinished" in kernelscope.views.card.text.launches_table(again, 30)


def test_what_is_found_is_told_in_numbers(tmp_path: Path) -> None:
    story().write(tmp_path)
    (tmp_path / "no journal").mkdir()
    (tmp_path / "20250102-030405-7-ffff").write_text("a file")
    os.symlink(tmp_path / "no journal", tmp_path / "link")
    (found,) = find_journals(tmp_path)
    assert (found.name, found.pid, found.is_live, found.recording) == (
        "20250102-030405-999999-abcd", 999999, False, "training")
    assert (found.launches, found.unfinished, found.missing, found.lost, found.cells) == (21, 1, 0, 0, 1)
    assert found.kernels == ("axpy",) and found.problem is None and found.created == "2025-01-02T03:04:05+00:00"
    assert found.size_bytes > 4096 * 64
    assert find_journals(found.folder) == [found]


def test_journals_are_the_oldest_first(tmp_path: Path) -> None:
    for name in ("20250102-030405-2-abcd", "20250101-030405-3-abcd"):
        story().write(tmp_path, name)
    assert [found.pid for found in find_journals(tmp_path)] == [999999, 999999]
    assert [found.name[:8] for found in find_journals(tmp_path)] == ["20250101", "20250102"]


def test_no_default_folder_has_no_journals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert find_journals() == []
    with pytest.raises(JournalError, match="nowhere cannot be read: No such file"):
        find_journals(tmp_path / "nowhere")


@pytest.fixture
def held() -> Any:
    """Hold the lock on a journal's slots, as its process does."""
    files: list[int] = []

    def hold(folder: Path) -> None:
        files.append(os.open(folder / "slots", os.O_RDWR))
        fcntl.flock(files[-1], fcntl.LOCK_EX)

    yield hold
    for file in files:
        os.close(file)


def test_what_is_still_written_is_read_and_never_removed(tmp_path: Path, held: Callable[[Path], None]) -> None:
    folder = story().write(tmp_path)
    held(folder)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert find_journals(tmp_path)[0].is_live
    assert len(read_journal(folder).launches) == 22
    with pytest.raises(JournalError, match="is still being written"):
        remove_journal(folder)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert journal.left_behind(tmp_path) == []


def test_what_nobody_writes_is_removed(tmp_path: Path) -> None:
    folder = story().write(tmp_path)
    assert journal.left_behind(tmp_path) == [folder.name]
    remove_journal(folder)
    assert list(tmp_path.iterdir()) == []


def test_other_files_are_never_removed(tmp_path: Path) -> None:
    folder = story().write(tmp_path)
    (folder / "mine.txt").write_text("mine")
    with pytest.raises(JournalError, match="was not removed: Directory not empty"):
        remove_journal(folder)
    assert [path.name for path in folder.iterdir()] == ["mine.txt"]


def test_a_journal_that_is_just_being_made_is_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / f"20250102-030405-{os.getpid()}-abcd"
    folder.mkdir()
    assert journal.left_behind(tmp_path) == []
    (folder / "slots").write_bytes(Handmade().slots())
    assert journal.left_behind(tmp_path) == [] and look(folder).is_live
    with pytest.raises(JournalError, match="is still being written"):
        remove_journal(folder)
    os.utime(folder, (1, 1))
    assert journal.left_behind(tmp_path) == [folder.name]


def test_a_pipe_and_links_are_not_opened(tmp_path: Path) -> None:
    folder = tmp_path / "20250102-030405-1-abcd"
    folder.mkdir()
    os.mkfifo(folder / "slots")
    assert find_journals(tmp_path) == []
    (folder / "journal.json").write_text("{}")
    assert read_journal(folder).launches.empty
    real = story().write(tmp_path / "real")
    os.unlink(folder / "slots")
    os.symlink(real / "slots", folder / "slots")
    assert read_journal(folder).launches.empty


def test_a_process_is_known_by_its_id_and_boot() -> None:
    assert journal.is_running(os.getpid(), journal.boot_id()) and journal.is_running(os.getpid(), None)
    assert not journal.is_running(os.getpid(), "another boot")
    assert not any(journal.is_running(pid, None) for pid in (None, 0, -1, 2**31 - 1, 2**70))
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as killed:
        assert journal.is_running(killed.pid, None)
        killed.kill()
        os.waitid(os.P_PID, killed.pid, os.WEXITED | os.WNOWAIT)
        assert not journal.is_running(killed.pid, None), "it has ended, although nobody has asked how"


# ---- What is damaged ----


@pytest.mark.parametrize("facts", [
    b"", b"{", b"[]", b"null", b"[" * 100_000, b'{"a": ' * 50_000, b"\xff\xfe", b"{" + b" " * (5 << 20) + b"}",
    b'{"name": 7, "pid": "x", "metadata": [], "created": {}}',
    b'{"pid": 1e400, "metadata": {"clock": {"host_ns": "x"}}}',
    b'{"metadata": ' + b'{"a":' * 60 + b"1" + b"}" * 60 + b"}", b"9" * 10_000,
])
def test_without_its_facts_a_journal_is_still_recovered(tmp_path: Path, facts: bytes) -> None:
    folder = story().write(tmp_path)
    (folder / "journal.json").write_bytes(facts)
    recording = read_journal(folder)
    assert len(recording.launches) == 22
    assert recording.metadata["recovered"]["pid"] == 999999
    recording.save(tmp_path / "out.kscope")
    assert recording.summary()
    (folder / "journal.json").unlink()
    recording = read_journal(folder)
    assert "journal.json is missing or damaged" in health(recording)["message"]


def test_another_format_is_refused_with_what_to_do(tmp_path: Path) -> None:
    folder = story(facts={"format": 2}).write(tmp_path)
    with pytest.raises(JournalError, match=r"format 2; this KernelScope reads format 1: recover it with the Kern"):
        read_journal(folder)
    (found,) = find_journals(tmp_path)
    assert found.problem is not None and "format 2" in found.problem


def test_slots_of_another_version_are_refused_with_what_to_do(tmp_path: Path) -> None:
    folder = story(version=3).write(tmp_path)
    with pytest.raises(JournalError, match="slots of version 3 and 64 bytes; this KernelScope reads version 2"):
        read_journal(folder)
    (found,) = find_journals(tmp_path)
    assert found.problem is not None and found.launches == 0 and found.cells == 0


def test_no_journal_is_refused(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match=r"is no journal: it has neither journal\.json nor slots"):
        read_journal(tmp_path)


def test_lost_rows_leave_unknown_kernels(tmp_path: Path) -> None:
    made = story()
    made.rows = [row for row in made.rows if row[0] in ("cells", "compilations", "passes")]
    recording = read_journal(made.write(tmp_path))
    launches = recording.rows("launches")
    assert len(launches) == 22 and {row["dispatcher_id"] for row in launches} == {0}
    assert [row["name"] for row in recording.rows("dispatchers")] == ["unknown"]
    assert [row["name"] for row in recording.rows("threads")] == ["unknown"]
    assert launches[20]["error"] == "unfinished"
    assert "ids without their rows are unknown" in health(recording)["message"]
    assert "unknown" in recording.summary()
    recording.save(tmp_path / "out.kscope")


def test_a_journal_of_rows_alone_is_recovered(tmp_path: Path) -> None:
    folder = story().write(tmp_path)
    (folder / "slots").unlink()
    recording = read_journal(folder)
    assert recording.launches.empty and len(recording.compilations) == 1
    recording.save(tmp_path / "out.kscope")


def test_ids_are_numbered_anew_without_gaps(tmp_path: Path) -> None:
    rows = rows_of_axpy()
    far = [(table, number + 1_000_000_000 if table in ("dispatchers", "targets") else number,
            {name: value + 1_000_000_000 if name == "dispatcher_id" else value for name, value in row.items()})
           for table, number, row in rows]
    made = Handmade([Launch(0, target=1_000_000_000), Launch(1, target=5)], rows=far)
    recording = read_journal(made.write(tmp_path))
    assert [row["name"] for row in recording.rows("dispatchers")] == ["axpy", "scale", "unknown"]
    assert [row["dispatcher_id"] for row in recording.rows("launches")] == [0, 2]
    assert [row["dispatcher_id"] for row in recording.rows("specializations")] == [0]


def test_cells_whose_ends_are_lost_reach_to_the_next(tmp_path: Path) -> None:
    rows = [row for row in rows_of_axpy() if row[0] != "cells"]
    rows += [("cells", 1, {"start_ns": START + 50_000, "status": "ok", "name": "b"}),
             ("cells", 0, {"start_ns": START, "status": "ok", "name": "a"}),
             ("cells", 2, {"start_ns": START + 60_000, "end_ns": START + 70_000, "status": "error", "name": "c"})]
    recording = read_journal(Handmade([Launch(index) for index in range(8)], rows=rows).write(tmp_path))
    assert [(row["name"], row["end_ns"] - START, row["status"]) for row in recording.rows("cells")] == [
        ("a", 50_000, "unfinished"), ("b", 60_000, "unfinished"), ("c", 70_000, "error")]
    assert [row["cell_id"] for row in recording.rows("launches")] == [0, 0, 0, 0, 0, 1, 2, 2]


HOSTILE = [
    {"t": "dispatchers", "i": 0, "r": {"framework": ["x"], "name": {"a": 1}, "lineno": 1 << 80, "attributes": "[1]"}},
    {"t": "dispatchers", "i": -1, "r": {"name": "x"}},
    {"t": "dispatchers", "i": 1 << 40, "r": {"name": "x"}},
    {"t": "dispatchers", "i": True, "r": {"name": "x"}},
    {"t": "dispatchers", "i": 0, "r": {"framework": "\ud800", "name": "\udfff", "attributes": '{"a":' * 90}},
    {"t": "specializations", "i": 0, "r": {"dispatcher_id": 77, "signature": None, "regs": 1.5,
                                           "max_threads": float("nan")}},
    {"t": "targets", "i": 0, "r": {"dispatcher_id": -5, "specialization_id": 1 << 30, "device_id": "x", "error": 3}},
    {"t": "targets", "i": 0, "r": {}},
    {"t": "threads", "i": 0, "r": {"ident": 1 << 70, "name": 5}},
    {"t": "stacks", "i": 0, "r": {"parent_stack_id": 1, "line_id": 0}},
    {"t": "stacks", "i": 1, "r": {"parent_stack_id": 1, "line_id": 1 << 40}},
    {"t": "stacks", "i": 2, "r": {"parent_stack_id": 90, "line_id": 90}},
    {"t": "sites", "i": 0, "r": {"thread_id": 0, "line_id": -7, "stack_id": 40}},
    {"t": "cells", "i": 0, "r": {"start_ns": 1 << 62, "end_ns": -(1 << 62), "status": 5}},
    {"t": "cells", "i": 5, "r": {"start_ns": START + 5, "end_ns": 3, "cell_id": 99}},
    {"t": "compilations", "i": 0, "r": {"dispatcher_id": 9, "thread_id": 9, "start_ns": 5, "end_ns": 1,
                                        "launch_id": 10**9}},
    {"t": "compilations", "i": 1, "r": {"start_ns": None}},
    {"t": "passes", "i": 0, "r": {"compilation_id": 40, "duration_ns": 1 << 63}},
    {"t": "passes", "i": 1, "r": {"compilation_id": 0, "specialization_id": 40, "duration_ns": 7}},
    {"t": "occupancies", "i": 0, "r": {"specialization_id": 0, "configuration_id": 90, "device_id": 0,
                                       "occupancy": 1e400}},
    {"t": "builds", "i": 0, "r": {"nearest_build_id": 0, "start_ns": 5, "thread_id": 3, "key_parts": "no JSON"}},
    {"t": "builds", "i": 1, "r": {"nearest_build_id": 90, "start_ns": 4}},
    {"t": "health", "i": 0, "r": {"dropped": -(1 << 31), "cost_ns": 1e308, "total_cost_ns": 10**400}},
    {"t": "range_labels", "i": 0, "r": {"name": 5}},
    {"t": "ranges", "v": [1, 2, 3]}, {"t": "ranges", "v": [1e30, 0, 0, 0]}, {"t": "ranges", "v": {"a": 1}},
    {"t": "ranges", "v": [5e8, 4 * 10**8, 77, 88, 5, -3, -9, -9, 5, 1, 1e8, 1e8]},
    {"t": "no table", "i": 0, "r": {}}, {"t": ["dispatchers"], "i": 0, "r": {}}, {"t": "launches", "i": 0, "r": {}},
    [1, 2], "text", 7, None, {"t": "cells"}, {"r": 5, "i": 0, "t": "cells"},
]


@pytest.mark.parametrize("content", HOSTILE, ids=lambda content: json.dumps(content)[:40])
def test_rows_that_were_made_to_harm_do_none(tmp_path: Path, content: Any) -> None:
    folder = story().write(tmp_path / "journals")
    with (folder / "rows").open("ab") as file:
        file.write(record(content))
    recording = read_journal(folder)
    assert len(recording.launches) == 22
    recording.save(tmp_path / "out.kscope")
    assert recording.summary() and recording._repr_html_()


def test_what_contradicts_itself_in_spite_of_all_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: Any) -> None:
        raise ValueError("odd")

    monkeypatch.setattr(reader, "build", fail)
    with pytest.raises(JournalError, match="contradicts itself: ValueError: odd"):
        read_journal(story().write(tmp_path))
