"""Choosing a journal and recovering it: what is meant by nothing, a name, a folder, and what is never touched."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from handmade_journals import Handmade, Launch, rows_of_axpy

import kernelscope
from kernelscope.commands.recover import journals_text
from kernelscope.native.journal import default_folder

OLD, NEW, LIVE = (f"2025010{day}-030405-99999{day}-abcd" for day in (1, 2, 3))


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The default folder: two journals that were left behind, and a third that is still being written."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    folder = default_folder()
    for name, count in ((OLD, 1), (NEW, 2), (LIVE, 3)):
        launches = [Launch(index, is_open=index == 1) for index in range(count)]
        Handmade(launches, rows=rows_of_axpy()).write(folder, name)
    lock = os.open(folder / LIVE / "slots", os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_EX)
    yield folder
    os.close(lock)


def test_all_of_the_default_folder_are_listed(base: Path) -> None:
    found = kernelscope.journals()
    assert [(each.name, each.is_live, each.launches, each.unfinished) for each in found] == [
        (OLD, False, 1, 0), (NEW, False, 1, 1), (LIVE, True, 2, 1)]
    assert kernelscope.journals(base) == found and kernelscope.journals(base / OLD) == found[:1]


def test_the_newest_that_nobody_writes_is_recovered(base: Path) -> None:
    recording = kernelscope.recover()
    assert recording.metadata["recovered"]["journal"] == NEW
    assert [row["reason_code"] for row in recording.rows("compilations")] == ["first_use"]
    assert sorted(path.name for path in base.iterdir()) == [OLD, NEW, LIVE]


def test_a_journal_is_named_by_its_name_its_folder_or_itself(base: Path, tmp_path: Path) -> None:
    for named in (OLD, base / OLD, str(base / OLD), kernelscope.journals()[0]):
        assert len(kernelscope.recover(named).launches) == 1
    assert len(kernelscope.recover(base).launches) == 2
    assert len(kernelscope.recover(LIVE).launches) == 3


def test_a_journal_that_cannot_be_read_is_not_the_newest(base: Path) -> None:
    (base / NEW / "slots").write_bytes(b"x" * 9000)
    assert kernelscope.recover().metadata["recovered"]["journal"] == OLD
    with pytest.raises(kernelscope.JournalError, match="is no journal of launches"):
        kernelscope.recover(NEW)


def test_it_is_removed_only_when_asked_and_never_while_it_is_written(base: Path) -> None:
    kernelscope.recover(OLD, remove=True)
    assert sorted(path.name for path in base.iterdir()) == [NEW, LIVE]
    with pytest.raises(kernelscope.JournalError, match="is still being written by process 999999: it is not removed"):
        kernelscope.recover(LIVE, remove=True)
    kernelscope.recover(remove=True)
    with pytest.raises(kernelscope.JournalError, match=f"no journal to recover in {base}; still being written: {LIVE}"):
        kernelscope.recover()


def test_what_is_not_there_is_said_with_what_is(base: Path) -> None:
    with pytest.raises(kernelscope.JournalError, match=f"'nothing' is no folder, and no journal in .*; there: {OLD}, "):
        kernelscope.recover("nothing")
    with pytest.raises(kernelscope.JournalError, match="'/no/where' is no folder"):
        kernelscope.recover("/no/where")


def test_without_any_that_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert kernelscope.journals() == []
    with pytest.raises(kernelscope.JournalError, match="there is no journal to recover in "):
        kernelscope.recover()
    assert journals_text([], tmp_path, 200) == f"no journals in {tmp_path}: no recording was cut short there"


def test_the_table_names_states_and_what_was_under_way(base: Path) -> None:
    (base / OLD / "journal.json").write_text('{"format": 9}')
    text = journals_text(kernelscope.journals(), "the folder", 160)
    lines = text.splitlines()
    assert lines[0] == "Journals in the folder"
    assert lines[1].split() == [
        "journal", "recording", "process", "launches", "unfinished", "lost", "cells", "size", "state"]
    assert lines[2].split()[0] == OLD and lines[2].endswith("cannot be read")
    assert "is a journal of format 9" in lines[3]
    assert lines[-2].split()[:6] == [NEW, "training", "999999", "1", "1", "(axpy)"]
    assert lines[-2].endswith("left behind")
    assert lines[-1].endswith("being written")
