"""Anatomies as files: what is written is read back, and what is none is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from handmade_anatomies import anatomy

from kernelscope.errors import StudyFileError
from kernelscope.studies import files, result
from kernelscope.studies.breakdown import AnatomyResult
from kernelscope.studies.compare import compare
from kernelscope.studies.result import load


def test_what_was_measured_is_read_back(tmp_path: Path) -> None:
    made = anatomy({"old": {}, "new": {"submit": 500.0}}, native=["new"], is_dry_run=True)
    path = AnatomyResult(made).save(tmp_path / "anatomy")
    assert path.name == "anatomy.json"
    read = load(path).breakdown
    assert read.parts == made.parts
    assert read.measured == made.measured
    assert [row[:5] for row in read.times] == [row[:5] for row in made.times]
    assert [row[5:] for row in read.times] == [pytest.approx(row[5:], abs=0.001) for row in made.times]
    assert str(load(path)) == str(AnatomyResult(made))
    assert load(path).to_json() == AnatomyResult(made).to_json()


def test_a_comparison_refuses_an_anatomy(tmp_path: Path) -> None:
    path = AnatomyResult(anatomy({"old": {}})).save(tmp_path / "a.json")
    assert isinstance(result.load(path), AnatomyResult)
    with pytest.raises(StudyFileError, match="it is an anatomy and no study"):
        compare(path, path)


def change(name: str, value: Any) -> Callable[[dict[str, Any]], None]:
    def changed(content: dict[str, Any]) -> None:
        *path, last = name.split(".")
        for each in path:
            content = content[int(each)] if each.isdigit() else content[each]
        if isinstance(content, list):
            content[int(last)] = value
        else:
            content[last] = value

    return changed


@pytest.mark.parametrize(("changed", "said"), [
    (change("format", "other"), "no study of KernelScope"),
    (change("version", 2), "of version 2, and this KernelScope"),
    (change("version", True), "no whole number"),
    (change("study", None), "'study' is None, and not an object"),
    (change("study.version", 99), "version 99"),
    (change("parts", {}), "'parts' is an object, and not a list"),
    (change("parts.0", 1), "parts[0] is 1, and not an object"),
    (change("parts.0.key", 7), "'parts[0].key' is 7, and not text"),
    (change("parts.0.key", ""), "'parts[0]' is of no target and case"),
    (change("parts.0.target", "who"), "'parts[0]' is of no target and case"),
    (change("times", []), "'times' is a list, and not an object"),
    (change("times.target.0", 5), "'times.target' has 5 at place 0, and not a whole number from 0 to 0"),
    (change("times.target.0", True), "'times.target' has True at place 0"),
    (change("times.process.0", -1), "'times.process' has -1 at place 0, and not a whole number from 0 to 1000000"),
    (change("times.part.0", None), "'times.part' has None at place 0, and not a name"),
    (change("times.part_ns.0", "1"), "'times.part_ns' has '1' at place 0, and not a number"),
    (change("times.part_ns.0", 1e300), "'times.part_ns' has 1e+300 at place 0, and not a number"),
    (change("times.stamps_ns", [1.0]), "different lengths"),
])
def test_what_contradicts_itself_is_refused_with_the_place(changed: Callable[[dict[str, Any]], None],
                                                            said: str) -> None:
    content = json.loads(files.anatomy_to_json(anatomy({"old": {}})))
    changed(content)
    with pytest.raises(StudyFileError) as caught:
        files.from_json(json.dumps(content))
    assert said in str(caught.value)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": "kernelscope-anatomy", "version": 1}', "NaN",
                                  '{"format": "kernelscope-anatomy", "version": NaN}'])
def test_what_is_torn_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "torn.json"
    file.write_text(text)
    with pytest.raises(StudyFileError, match=r"torn\.json: "):
        load(file)
    with pytest.raises(StudyFileError):
        result.load(file)


def test_nothing_of_the_home_folder_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    made = anatomy({"old": {}})
    made.measured.notes.append("/home/somebody/numba-cuda was measured")
    assert "somebody" not in files.anatomy_to_json(made)
