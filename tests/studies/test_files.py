"""Studies as JSON: the round trip, every refusal, and older files."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import handmade_studies as handmade
import numpy as np
import pytest

from kernelscope.errors import StudyError, StudyFileError
from kernelscope.studies import files
from kernelscope.studies.result import Measured, StudyResult, load

# Written by the first KernelScope that wrote studies: whatever comes later reads it.
FIRST = Path(__file__).parent / "data" / "study-version-1.json"


def content(**changes: Any) -> dict[str, Any]:
    study = handmade.measured({"a": {0: 4.0, "own": 2.0}, "b": {0: 4.1}}, processes=2, repeats=2)
    return {**json.loads(files.to_json(study)), **changes}


def refused(held: Any) -> str:
    with pytest.raises(StudyFileError) as caught:
        files.from_json(held if isinstance(held, str | bytes) else json.dumps(held))
    return str(caught.value)


@pytest.mark.parametrize("make", [
    handmade.measured, handmade.troubled, handmade.dry_run, handmade.hostile,
    lambda: Measured([], []), lambda: handmade.measured({"only": {0: 4.0}}, is_live=True, processes=1),
])
def test_the_round_trip_is_exact(make: Callable[[], Measured], tmp_path: Path) -> None:
    study = make()
    path = StudyResult(study).save(tmp_path / "study.json")
    again = load(path)
    assert again.measured == study
    assert again.to_json() == path.read_text()
    assert again.estimates == StudyResult(study).estimates
    assert again.differences == StudyResult(study).differences


def test_a_file_of_the_first_version_is_read() -> None:
    held = load(FIRST)
    assert [each.label for each in held.targets] == ["baseline", "v2"]
    assert [each.name for each in held.cases] == ["0 args", "own"]
    assert len(held.batches) == 24
    # What was taken off is told since version 2.
    assert set(held.batches.waited_ns) == {0}
    # Fields that later versions have come with their defaults, and what no version has is passed over.
    assert held.targets[1].warnings == []
    assert held.measured.is_live is False
    assert held.measured.notes == []
    assert "0 args" in str(held) and "<svg" in held._repr_html_()


def test_an_older_version_is_brought_up_to_date(monkeypatch: pytest.MonkeyPatch) -> None:
    def upgrade(old: dict[str, Any]) -> dict[str, Any]:
        return {**old, "notes": ["brought up to date"]}

    monkeypatch.setattr(files, "VERSION", 4)
    monkeypatch.setattr(files, "UPGRADES", {**files.UPGRADES, 2: upgrade,
                                            3: lambda old: {**old, "seconds": old["seconds"] + 1}})
    held = files.from_json(json.dumps(content(version=1, seconds=2)))
    assert held.notes == ["brought up to date"]
    assert held.seconds == 3


def test_other_versions_are_refused_by_name() -> None:
    assert "it is of version 3, and this KernelScope" in refused(content(version=3))
    assert "update KernelScope" in refused(content(version=3))
    assert "it is of version 0, which no KernelScope can read; measure again" in refused(content(version=0))
    for wrong in (True, "1", None, 1.0, [1]):
        assert "its 'version' is no whole number" in refused(content(version=wrong))


@pytest.mark.parametrize("kept", [0, 1, 100, 0.5, -2])
def test_a_torn_file_is_refused(kept: float) -> None:
    text = json.dumps(content())
    cut = text[:int(kept * len(text)) if isinstance(kept, float) else kept]
    assert "it is no JSON, or it is cut off" in refused(cut)


@pytest.mark.parametrize(("held", "said"), [
    (b"\xff\xfe\x00", "it is no"),
    (b"\xc3\x28{}", "it is no text: byte 0 is not UTF-8"),
    ("[]", "no study of KernelScope; 'kernelscope study launch -o FILE' writes one"),
    ("{}", "no study of KernelScope"),
    ('{"format": "kernelscope-study", "format": "kernelscope-study"}', "'format' is there twice in one object"),
    ('{"format": "kernelscope-study", "version": NaN}', "NaN is no number of JSON"),
    ('{"format": "kernelscope-study", "version": -Infinity}', "-Infinity is no number of JSON"),
    ('{"format": "kernelscope-study", "version": ' + "9" * 5000 + "}", "its JSON is refused"),
    ('{"format": "kernelscope-study", "version": ' + "9" * 30 + "}", "its 'version' is no whole number"),
    ("[" * 200_000, "its JSON is refused"),
])
def test_what_is_no_study_is_refused(held: str | bytes, said: str) -> None:
    assert said in refused(held)


@pytest.mark.parametrize(("changes", "said"), [
    ({"targets": {}}, "targets is an object, and not a list"),
    ({"targets": [1]}, "targets[0] is 1, and not an object"),
    ({"targets": [{"label": "a", "kind": "ref"}]}, "'targets[0].source' is missing"),
    ({"targets": [{"label": 3, "kind": "ref", "source": ""}]}, "'targets[0].label' is 3, and not text"),
    ({"targets": [{"label": "a", "kind": "ref", "source": "", "versions": {"numpy": 2}}]},
     "'targets[0].versions.numpy' is 2, and not text"),
    ({"targets": [{"label": "a", "kind": "ref", "source": "", "warnings": "no"}]}, "warnings is 'no', and not a list"),
    ({"targets": [{"label": "a", "kind": "ref", "source": "", "error": 1}]}, "error' is 1, and not text"),
    ({"targets": [{"label": "a", "kind": "ref", "source": "", "processes": -1}]}, "processes' is -1, and not a count"),
    ({"targets": [{"label": "a", "kind": "ref", "source": ""}] * 2}, "'targets[1].label' is 'a', as another one's"),
    ({"cases": [{"name": "a", "statement": "x", "args": 1.5}]}, "'cases[0].args' is 1.5, and not a count"),
    ({"cases": [{"name": "a", "statement": "x", "args": True}]}, "'cases[0].args' is True, and not a count"),
    ({"cases": [{"name": "a" * 99, "statement": "x"}] * 2}, "aaa..., as another one's"),
    ({"batches": []}, "'batches' is a list, and not an object"),
    ({"batches": None}, "'batches' is None, and not an object"),
    ({"host": []}, "'host' is a list, and not an object"),
    ({"host": {"noise": 10**30}}, "'host.noise' is 1000000000000000000000000000000, which is too large"),
    ({"seconds": "long"}, "'seconds' is 'long', and not a number of seconds"),
    ({"seconds": -1}, "'seconds' is -1"),
    ({"seconds": True}, "'seconds' is True"),
    ({"is_dry_run": 0}, "'is_dry_run' is 0, and not true or false"),
    ({"notes": [None]}, "'notes[0]' is None, and not text"),
    ({"created": {}}, "'created' is an object, and not text"),
])
def test_wrong_types_are_refused_with_their_place(changes: dict[str, Any], said: str) -> None:
    message = refused(content(**changes))
    assert said in message
    assert "it may be damaged; save it again" in message


def test_what_is_nested_too_deeply_is_refused() -> None:
    deep: Any = 1
    for _ in range(40):
        deep = {"a": deep}
    assert "is nested too deeply" in refused(content(settings={"args": deep}))


def test_infinity_by_another_way_is_refused() -> None:
    text = json.dumps(content(host={"noise": 77})).replace("77", "1e999")
    assert "'host.noise' is inf, which is too large" in refused(text)
    assert "not a number of seconds" in refused(json.dumps(content(seconds=77)).replace("77", "1e999"))


@pytest.mark.parametrize(("name", "value", "said"), [
    ("target", 2, "'batches.target' has 2 at place 0, and not a whole number from 0 to 1"),
    ("case", -1, "'batches.case' has -1 at place 0, and not a whole number from 0 to 1"),
    ("loops", 0, "'batches.loops' has 0 at place 0, and not a whole number from 1"),
    ("host_ns", 0, "'batches.host_ns' has 0"),
    ("sync_ns", -1, "'batches.sync_ns' has -1"),
    ("waited_ns", -1, "'batches.waited_ns' has -1"),
    ("process", 10**9, "'batches.process' has 1000000000 at place 0, and not a whole number from 0 to 100000"),
    ("round", 10**9, "'batches.round' has 1000000000"),
    ("start_ns", 2**63, "'batches.start_ns' has 9223372036854775808"),
    ("place", 0.0, "'batches.place' has 0.0"),
    ("place", True, "'batches.place' has True"),
    ("place", "1", "'batches.place' has '1'"),
    ("place", [1], "'batches.place' has a list"),
])
def test_numbers_that_cannot_be_are_refused(name: str, value: Any, said: str) -> None:
    held = content()
    held["batches"][name][0] = value
    assert said in refused(held)


def test_columns_must_all_be_there_and_equally_long() -> None:
    held = content()
    del held["batches"]["loops"]
    assert "'batches.loops' is missing" in refused(held)
    held = content()
    held["batches"]["loops"].pop()
    assert "the columns of 'batches' have different lengths (target 12, case 12" in refused(held)
    held = content()
    held["batches"]["loops"] = 3
    assert "'batches.loops' is 3, and not a list" in refused(held)


def test_a_name_that_is_there_often_is_refused_quickly() -> None:
    names = ",".join(f'"{place}":1' for place in range(200_000))
    assert "'199999' is there twice" in refused("{" + names + ',"199999":1}')


def test_what_a_file_has_besides_is_passed_over() -> None:
    held = content(more=1)
    held["targets"][0]["more"] = held["batches"]["more"] = [1]
    assert files.from_json(json.dumps(held)) == files.from_json(json.dumps(content()))


def test_errors_name_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "torn.json").write_text("{")
    with pytest.raises(StudyFileError, match=r"^torn\.json: it is no JSON, or it is cut off: .* line 1, column 2"):
        files.load(tmp_path / "torn.json")
    with pytest.raises(StudyFileError, match=r"^cannot read gone\.json: No such file"):
        files.load(tmp_path / "gone.json")
    with pytest.raises(StudyFileError, match=r"is no regular file|Is a directory"):
        files.load(tmp_path)
    with pytest.raises(StudyFileError, match="cannot read"):
        files.load("a\0b")
    monkeypatch.setattr(files, "MAX_FILE_BYTES", 100)
    (tmp_path / "large.json").write_text(" " * 101)
    with pytest.raises(StudyFileError, match=r"large\.json has more than 100 bytes"):
        files.load(tmp_path / "large.json")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="named pipes are POSIX's")
def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    with pytest.raises(StudyFileError, match="is no regular file"):
        files.load(tmp_path / "pipe.json")


def test_writing(tmp_path: Path) -> None:
    study = handmade.dry_run(processes=2)
    assert StudyResult(study).save(tmp_path / "named") == tmp_path / "named.json"
    assert StudyResult(study).save(str(tmp_path / "named.json")) == tmp_path / "named.json"
    assert StudyResult(study).save(tmp_path / "other.txt") == tmp_path / "other.txt"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["named.json", "other.txt"]
    for wrong, said in (("no/study.json", "there is no folder"), ("recording.kscope", "is a recording's name")):
        with pytest.raises(StudyFileError, match=said):
            StudyResult(study).save(tmp_path / wrong)
    with pytest.raises(StudyError, match="names no file"):
        StudyResult(study).save("")
    (tmp_path / "folder.json").mkdir()
    with pytest.raises(StudyFileError, match="a folder has that name"):
        StudyResult(study).save(tmp_path / "folder.json")


def test_no_path_of_the_user_is_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home" / "somebody"
    (home / "work").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(home / "work")
    study = handmade.troubled()
    study.targets[0].source = f"{home}/work/numba cuda"
    study.targets[2].error = f"File '{home}/env/lib/numba.py', line 3"
    study.settings["find_links"] = [str(home / "wheels")]
    text = files.to_json(study)
    assert "somebody" not in text
    held = files.from_json(text)
    assert held.targets[0].source == "./numba cuda"
    assert held.targets[2].error == "File 'numba.py', line 3"
    assert held.settings["find_links"] == ["~/wheels"]


def test_what_json_does_not_know_is_written_all_the_same() -> None:
    host = {"noise": float("nan"), "cores": np.int64(4), "pinned_to": (1, 2), "load": np.float64(0.5),
            "path": Path("a")}
    held = files.from_json(files.to_json(handmade.measured(processes=1, host=host)))
    assert held.host == {"noise": None, "cores": 4, "pinned_to": [1, 2], "load": 0.5, "path": "a"}
