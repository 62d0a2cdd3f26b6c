"""``kernelscope recover``: what it lists, writes and removes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from handmade_journals import NAME, Handmade, Launch, rows_of_axpy

import kernelscope


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = Handmade([Launch(0), Launch(1, is_open=True)], rows=rows_of_axpy())
    return made.write(tmp_path / "state" / "kernelscope" / "journals")


@pytest.fixture
def recover(cli: Callable[..., Any], tmp_path: Path) -> Callable[..., Any]:
    return lambda *words, **more: cli("recover", *words, XDG_STATE_HOME=str(tmp_path / "state"), **more)


def test_it_lists_and_writes_a_file_and_leaves_the_journal(recover: Any, folder: Path, tmp_path: Path) -> None:
    ran = recover()
    assert f"{NAME}  " in ran.stdout and "left behind" in ran.stdout
    assert "1 launch unfinished: axpy" in ran.stdout and f"wrote {NAME}.kscope" in ran.stdout
    recording = kernelscope.load(tmp_path / f"{NAME}.kscope")
    assert [row["error"] for row in recording.rows("launches")] == [None, "unfinished"]
    assert folder.is_dir()
    shown = recover("--list", code=0)
    assert "left behind" in shown.stdout and "wrote" not in shown.stdout


def test_it_writes_where_it_is_told_and_removes_when_it_is_told(recover: Any, folder: Path, tmp_path: Path) -> None:
    ran = recover(NAME, "-o", "mine.kscope", "--remove")
    assert f"removed {folder}" in ran.stdout and not folder.exists()
    assert len(kernelscope.load(tmp_path / "mine.kscope").launches) == 2
    assert "no journals in" in recover().stdout


def test_a_file_that_cannot_be_written_keeps_the_journal(recover: Any, folder: Path) -> None:
    ran = recover("-o", "no/folder/x.kscope", "--remove", code=1)
    assert "there is no folder" in ran.stderr or "no folder" in ran.stderr
    assert folder.is_dir()


def test_json_is_for_programs(recover: Any, folder: Path) -> None:
    told = json.loads(recover("--json", "--list").stdout)
    (journal,) = told["journals"]
    assert journal["name"] == NAME and journal["state"] == "left behind" and journal["kernels"] == ["axpy"]
    assert (journal["launches"], journal["unfinished"], told["recovered"]) == (1, 1, None)
    told = json.loads(recover("--json", "--remove").stdout)
    assert (told["recovered"], told["removed"]) == (NAME, True)
    assert [each["path"] for each in told["written"]] == [f"{NAME}.kscope"]
    assert told["health"]["complete"] is False and told["health"]["unfinished_launches"] == 1


@pytest.mark.slow
def test_a_script_that_is_killed_leaves_its_journal(
    process: Any, cli: Any, recover: Any, script: Any, tmp_path: Path,
) -> None:
    ran = process("run", "--journal", str(script("import os; os.kill(os.getpid(), 9)\n")), code=-9,
                  XDG_STATE_HOME=str(tmp_path / "state"))
    assert "wrote" not in ran.stdout
    assert "script.py (unfinished)" in recover("-o", "out.kscope", "--remove").stdout
    assert len(kernelscope.load(tmp_path / "out.kscope").launches) == 3
    cli("run", "--journal-folder", "mine", str(script()))
    assert list((tmp_path / "mine").iterdir()) == []


@pytest.mark.parametrize(("words", "code", "said"), [
    (["nothing"], 1, "'nothing' is no folder, and no journal in"),
    (["--list", "--remove"], 2, "--list only lists"), (["a", "b"], 2, "unrecognized arguments: b"),
])
def test_what_is_wrong_is_one_line(recover: Any, words: list[str], code: int, said: str) -> None:
    ran = recover(*words, code=code)
    assert said in ran.stderr and ran.stderr.count("\n") == 1


def test_a_journal_of_another_version_says_what_to_do(recover: Any, folder: Path) -> None:
    (folder / "slots").write_bytes(Handmade([Launch(0)], version=3).slots())
    assert "cannot be read" in recover("--list").stdout
    assert "recover it with the KernelScope that wrote it" in recover(code=1).stderr
