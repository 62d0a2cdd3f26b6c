"""`kernelscope compare` and `kernelscope history`: what they print, and how they end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from two_runs import run


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    """A recording, and one of the same cell in which preparing a launch takes twice as long, with more launches."""
    run(1).save(tmp_path / "a")
    run(2, 410, changed={"prepare": 2.0}).save(tmp_path / "b")
    return "a.kscope", "b.kscope"


def test_what_changed_is_printed(cli: Any, files: tuple[str, str]) -> None:
    text = cli("compare", *files).stdout
    assert text.startswith("KernelScope: b.kscope against a.kscope\n800 → 820 launches (")
    assert "4 slower" in text and "kernel_0" in text
    one = cli("compare", *files, "--limit", "1").stdout
    assert "and 3 more" in one


def test_a_limit_decides_the_exit_code(cli: Any, files: tuple[str, str]) -> None:
    over = cli("compare", *files, "--fail-over", "5%", code=3)
    assert "kernel_0, prepare is slower by " in over.stderr and "over the limit of 5 %" in over.stderr
    back = cli("compare", *reversed(files), "--fail-over", "5")
    assert "no slowdown of more than 5 %, in 12 comparisons" in back.stderr
    # What may be over the limit, and is not established, fails nothing.
    assert "the interval reaches above 5 %" in back.stderr
    assert cli("compare", *files, "--fail-over", "500%").stderr.startswith("no slowdown of more than 500 %")


def test_nothing_to_judge_fails_nothing(cli: Any, tmp_path: Path) -> None:
    run(1, 3).save(tmp_path / "few")
    assert "nothing was compared" in cli("compare", "few.kscope", "few.kscope", "--fail-over", "1").stderr


def test_conditions_decide_the_exit_code(cli: Any, files: tuple[str, str]) -> None:
    ended = cli("compare", *files, "--fail-on", "new-compiles,more-launches", code=3)
    assert ended.stderr == "kernelscope: more-launches: 800 to 820\n"
    assert not cli("compare", *files, "--fail-on", "new-compiles, new-errors").stderr
    assert not cli("compare", *reversed(files), "--fail-on", "more-launches").stderr


@pytest.mark.parametrize(("arguments", "said"), [
    (("--fail-on", "more-lunches"), "'more-lunches' is no condition; did you mean 'more-launches'?"),
    (("--fail-on", ""), "no condition is named; known: new-compiles"),
    (("--fail-over", "much"), "'much' is no share of the baseline"),
    (("--cell", "1", "2", "3"), "--cell names one cell, or one of each file: not 3"),
    (("--limit", "-1"), "not a number of rows"),
])
def test_wrong_arguments(cli: Any, files: tuple[str, str], arguments: tuple[str, ...], said: str) -> None:
    assert said in " ".join(cli("compare", *files, *arguments, code=2).stderr.split())


def test_json_and_pages(cli: Any, files: tuple[str, str], tmp_path: Path) -> None:
    asked = ("compare", *files, "--json", "--limit", "1", "--fail-over", "5", "--fail-on", "more-launches,new-errors")
    ended = cli(*asked, code=3)
    found = json.loads(ended.stdout)
    assert ended.stderr == "" and found["kind"] == "comparison" and found["after"]["recording"] == "b.kscope"
    assert found["judged"]["slower"] == 4 and found["left_out"]["differences"] == 11
    assert found["differences"][0]["verdict"] == "slower" and found["totals"]["after"]["launches"] == 820
    assert found["fail_over"]["outcome"] == "over" and "is slower by" in found["fail_over"]["lines"][0]
    assert found["fail_on"] == {"asked": ["more-launches", "new-errors"], "held": [
        {"condition": "more-launches", "cases": ["800 to 820"]}]}
    none = json.loads(cli("compare", *files, "--json", "--fail-on", "new-errors", "--fail-over", "500%").stdout)
    assert none["fail_on"]["held"] == [] and none["fail_over"]["outcome"] == "within"
    assert cli("compare", *files, "--html", "out.html").stdout == "wrote out.html\n"
    assert "kernel_0" in (tmp_path / "out.html").read_text(encoding="utf-8")
    row, = json.loads(cli("compare", *files, "--html", "again.html", "--json").stdout)["written"]
    assert (row["path"], row["format"]) == ("again.html", "html")
    assert "more" not in cli("compare", *files, "--limit", "0").stdout.partition("\n")[2]


def test_cells_of_files(cli: Any, recorded: Path) -> None:
    text = cli("compare", str(recorded), str(recorded), "--cell", "first", "<second>").stdout
    assert "In [2] <second> of two.kscope against In [1] first of two.kscope" in text
    assert "3 → 0 launches" in text
    assert "no recorded cell '7'" in cli("compare", str(recorded), str(recorded), "--cell", "7", code=1).stderr


def test_what_is_no_recording_is_an_error(cli: Any, files: tuple[str, str]) -> None:
    assert "missing.kscope" in cli("compare", files[0], "missing.kscope", code=1).stderr


def test_the_runs_of_a_cell(cli: Any, tmp_path: Path) -> None:
    (tmp_path / "runs" / "b").mkdir(parents=True)
    for at, folder in enumerate(("runs", "runs/b")):
        clock = {"host_ns": 0, "wall_ns": at * 10**9}
        run(at, cell=at + 1, clock=clock, changed={"prepare": 1.0 + at}).save(tmp_path / folder / "a")
    lines = cli("history", "runs", "2").stdout.splitlines()
    assert lines[0] == "KernelScope: In [2]: 2 runs"
    assert [line.split()[1:3] for line in lines[2:4]] == [["[1]", "a.kscope"], ["[2]", "b/a.kscope"]]
    assert "4 slower: launches " in lines[4]
    found = json.loads(cli("history", "runs", "2", "--json", "--html", "page").stdout)
    assert [(run["cell"], run["file"], run["slower"]) for run in found["runs"]] == [
        ("In [2]", "b/a.kscope", 4), ("In [1]", "a.kscope", 0)]
    assert found["runs"][0]["began"] > found["runs"][1]["began"] and found["runs"][1]["changed"] is None
    assert found["written"][0]["path"] == "page.html"
    assert json.loads(cli("history", "runs", "2", "--json", "--limit", "1").stdout)["left_out"]["runs"] == 1
    assert cli("history", "runs", "2", "--html", "out").stdout == "wrote out.html\n"
    assert "no recorded cell '9'" in cli("history", "runs", "9", code=1).stderr
    assert "there is no folder or file 'nowhere'" in cli("history", "nowhere", "1", code=1).stderr
