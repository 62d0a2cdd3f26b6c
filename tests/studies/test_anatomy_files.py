"""Anatomies as files: what is written is read back, and what is none is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from handmade_anatomies import anatomy

from kernelscope.errors import StudyFileError
from kernelscope.studies import breakdown, files, result
from kernelscope.studies.breakdown import AnatomyResult, load


def test_what_was_measured_is_read_back(tmp_path: Path) -> None:
    made = anatomy({"old": {}, "new": {"submit": 500.0}}, native=["new"], is_dry_run=True)
    path = AnatomyResult(made).save(tmp_path / "anatomy")
    assert path.name == "anatomy.json"
    read = load(path).dissected
    assert read.parts == made.parts
    assert read.measured == made.measured
    assert [row[:5] for row in read.times] == [row[:5] for row in made.times]
    assert [row[5:] for row in read.times] == [pytest.approx(row[5:], abs=0.001) for row in made.times]
    assert str(load(path)) == str(AnatomyResult(made))
    assert load(path).to_json() == AnatomyResult(made).to_json()


def test_a_study_s_load_reads_an_anatomy_too(tmp_path: Path) -> None:
    path = AnatomyResult(anatomy({"old": {}})).save(tmp_path / "a.json")
    assert isinstance(result.load(path), AnatomyResult)


def test_each_kind_of_file_refuses_the_other(tmp_path: Path) -> None:
    made = anatomy({"old": {}})
    with pytest.raises(StudyFileError, match="no anatomy of KernelScope; 'kernelscope study anatomy -o FILE'"):
        breakdown.from_json(files.to_json(made.measured))
    with pytest.raises(StudyFileError, match="no study of KernelScope; 'kernelscope study launch -o FILE'"):
        files.from_json(breakdown.to_json(made))


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
    (change("format", "other"), "no anatomy of KernelScope"),
    (change("version", 2), "of version 2, and this KernelScope"),
    (change("version", True), "an unknown version"),
    (change("version", "1"), "an unknown version"),
    (change("study", None), "no study of KernelScope"),
    (change("study.version", 99), "version 99"),
    (change("parts", {}), "'parts' is no list"),
    (change("parts.0", 1), "'parts[0]' is no object"),
    (change("parts.0.key", 7), "'parts[0]' has a key that is no text"),
    (change("parts.0.key", ""), "'parts[0]' is of no target and case"),
    (change("parts.0.target", "who"), "'parts[0]' is of no target and case"),
    (change("times", []), "'times' is no object"),
    (change("times.target.0", 5), "'times.target' has a value that is no place"),
    (change("times.target.0", True), "'times.target' has a value that is no place"),
    (change("times.process.0", -1), "'times.process' has a value that is no count"),
    (change("times.part.0", None), "'times.part' has a value that is no name"),
    (change("times.part_ns.0", "1"), "'times.part_ns' has a value that is no time"),
    (change("times.part_ns.0", 1e300), "'times.part_ns' has a value that is no time"),
    (change("times.stamps_ns", [1.0]), "different lengths"),
])
def test_what_contradicts_itself_is_refused_with_the_place(changed: Callable[[dict[str, Any]], None],
                                                            said: str) -> None:
    content = json.loads(breakdown.to_json(anatomy({"old": {}})))
    changed(content)
    with pytest.raises(StudyFileError) as caught:
        breakdown.from_json(json.dumps(content))
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


def test_a_file_that_is_not_there_is_an_error_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(StudyFileError, match=r"cannot read none\.json"):
        load(tmp_path / "none.json")


def test_nothing_of_the_home_folder_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    made = anatomy({"old": {}})
    made.measured.notes.append("/home/somebody/numba-cuda was measured")
    assert "somebody" not in breakdown.to_json(made)
