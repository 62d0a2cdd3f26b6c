"""Exit codes of `kernelscope study` where the line is wrong, whoever finds it, and where the line is not."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from kernelscope.commands.cli import main

Captured = pytest.CaptureFixture[str]


@pytest.mark.parametrize(("words", "said"), [
    ("launch -t nothing==3", "target 'nothing==3' is none of the targets there are"),
    ("launch -t missing/folder", "target 'missing/folder': there is no such file or folder"),
    ("launch -t a=current -t a=current", "two targets are called 'a'"),
    ("launch -t git:HEAD --repo missing", "a ref of the repository 'missing', and there is no such folder"),
    ("launch --case nope", "there is no case and no group 'nope'"),
    ("launch --args 4-0", "goes backwards"),
    ("launch --args 65", "a kernel with 65 arguments"),
    ("launch --loops 1,2", "2 numbers for 5 cases"),
    ("launch --loops 0", "'0' is no number from 1"),
    ("launch --half-width 200%", "half_width=2.0 is no share of a launch"),
    ("launch --processes 20000", "processes=20000 is no number from 1 to 10,000"),
    ("launch --seed x", "invalid int value: 'x'"),
    ("launch --limit 0s", "'0s' is not a number of seconds above 0"),
    ("launch --repeats 0", "'0' is not a whole number above 0"),
    ("launch --half-width=-1%", "'-1%' is not a percentage, such as 3%"),
    ("launch --loops a,b", "'a,b' are no numbers of loops, such as 10000 or 100000,...,10000"),
    ("launch extra", "unrecognized arguments: extra"),
    ("nothing", "invalid choice: 'nothing'"),
    ("show", "FILE.json"),
    ("against HEAD HEAD~ --repo missing", "there is no such folder"),
    ("anatomy -t nothing==3", "target 'nothing==3' is none of the targets there are"),
    ("anatomy --loops 99999999", "loops=99999999 is no number of launches in a batch"),
    ("suite -t nothing==3", "target 'nothing==3' is none of the targets there are"),
    ("suite --max-time 0", "'0' is not a number of seconds above 0"),
    ("show r.json --fail-over -3%", "not a percentage" if sys.version_info >= (3, 14) else "expected one argument"),
    ("clean now", "unrecognized arguments: now"),
])
def test_wrong_values_are_one_line_and_code_2_also_where_the_study_finds_them(
    words: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KERNELSCOPE_STUDY_ENVIRONMENTS", str(tmp_path))
    monkeypatch.delenv("NUMBA_ENABLE_CUDASIM", raising=False)
    with pytest.raises(SystemExit) as raised:
        main(["study", *words.split()])
    out, line = capsys.readouterr()
    assert raised.value.code == 2 and out == "" and line.count("\n") == 1
    assert said in line and line.endswith(" --help\n") and "see kernelscope" in line


def test_a_target_that_cannot_be_had_is_code_1(tmp_path: Path, cli: Any) -> None:
    ran = cli("study", "launch", "-t", "git:HEAD", "--repo", str(tmp_path), code=1)
    assert ran.stderr.startswith("kernelscope: the baseline cannot be prepared: ") and ran.stderr.count("\n") == 1
    ran = cli("study", "show", "none.json", code=1)
    assert "none.json" in ran.stderr
