"""``compare --json`` and ``history --json``: every answer is as the schema says, and short."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from checked_answers import checked

from kernelscope.commands.answer_schema import answer_schema
from kernelscope.features.compare.analyse import CHANGED, GONE, NEW
from kernelscope.features.compare.view import ComparisonView
from kernelscope.recording.file import load
from kernelscope.views.answer import encoded

HERE = Path(__file__).resolve().parents[3] / "notebooks" / "recordings"
RECORDINGS = sorted(HERE.glob("*.kscope"))

recording = cache(load)


@pytest.mark.parametrize("before", RECORDINGS, ids=lambda path: path.stem)
def test_two_recordings(before: Path) -> None:
    for after in (before, RECORDINGS[RECORDINGS.index(before) - 1]):
        made = ComparisonView(recording(before), recording(after), (before.name, after.name)).answer()
        found = checked(encoded(made))
        assert found["before"]["health"]["complete"] is found["after"]["health"]["complete"] is True
        assert sum(found["judged"].values()) == len(found["differences"]) + found["left_out"].get("differences", 0)
        if before == after:
            assert found["sections"] == {} and found["judged"]["slower"] == found["judged"]["faster"] == 0


def test_compare_and_history(cli: Any) -> None:
    old, new = (str(HERE / f"{each}.kscope") for each in ("quickstart", "specializations"))
    found = checked(cli("compare", old, new, "--json", "--fail-on", "new-kernels,new-compiles", code=3).stdout)
    assert [each["condition"] for each in found["fail_on"]["held"]] == ["new-kernels", "new-compiles"]
    every = checked(cli("compare", old, new, "--json", "--limit", "0").stdout, is_whole=True)
    assert every["left_out"] == every["shortened"] == {}
    runs = checked(cli("history", str(HERE), "first launches", "--json").stdout)["runs"]
    assert len(runs) >= 4 and all(each["complete"] for each in runs)


@pytest.mark.parametrize(("words", "code", "kind"), [
    (["compare", "a.kscope", "none.kscope", "--json"], 1, "RecordingFileError"),
    (["compare", str(RECORDINGS[0]), str(RECORDINGS[0]), "--cell", "99", "--json"], 1, "UnknownCellError"),
    (["compare", "a", "b", "--json", "--fail-on", "more-lunches"], 2, "UsageError"),
    (["compare", "a", "b", "--json", "--fail-over", "much"], 2, "UsageError"),
    (["history", str(HERE), "no such cell", "--json"], 1, "UnknownCellError"),
    (["history", "nowhere", "1", "--json"], 1, "RecordingFileError"),
])
def test_errors_are_json_with_the_same_exit_code(cli: Any, words: list[str], code: int, kind: str) -> None:
    ran = cli(*words, code=code)
    assert checked(ran.stdout)["error"]["kind"] == kind and ran.stderr == ""


def test_enumerations_are_those_of_the_analysis() -> None:
    status = json.loads(answer_schema())["$defs"]["changed_row"]["properties"]["status"]
    assert status == {"enum": [NEW, GONE, CHANGED]}
