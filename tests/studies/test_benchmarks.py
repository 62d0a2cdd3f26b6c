"""Files of pytest-benchmark as studies: what is read, how it is compared, what is refused."""

from __future__ import annotations

import json
import math
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from kernelscope.errors import StudyError, StudyFileError
from kernelscope.studies.benchmark_suite import measured_of, read_benchmarks, read_file
from kernelscope.studies.result import load


def written(path: Path, made: dict[str, Any] | None = None, **changes: Any) -> Path:
    """Write a file as pytest-benchmark does; a benchmark is the seconds of its rounds, or its stats."""
    made = {"test_one": [1e-5] * 3} if made is None else made
    data = {
        "machine_info": {"node": "box", "machine": "x86_64", "system": "Linux", "release": "6.1",
                         "python_version": "3.12.1", "cpu": {"brand_raw": "A processor", "count": 8}},
        "commit_info": {"id": "abc123", "dirty": False},
        "benchmarks": [
            {"group": None, "name": name, "fullname": f"test_launch.py::{name}", "params": None, "extra_info": {},
             "stats": stats if isinstance(stats, dict) else
             {"median": sorted(stats)[len(stats) // 2], "rounds": len(stats), "iterations": 1, "data": stats}}
            for name, stats in made.items()],
        "datetime": "2026-01-02T03:04:05.000000+00:00", "version": "5.3.1"}
    path.write_text(json.dumps({**data, **changes}))
    return path


def test_what_a_file_says(tmp_path: Path) -> None:
    benchmarks = {"test_one": [1e-5, 2e-5], "other": {"median": 3e-6, "iterations": 7}}
    file = read_file(written(tmp_path / "run.json", benchmarks))
    assert file.rounds == {"one": (1, [1e-5, 2e-5]), "other": (7, [3e-6])}
    assert file.statements == {"one": "test_launch.py::test_one", "other": "test_launch.py::other"}
    assert file.revision == "abc123" and not file.has_rounds and file.path == "run.json"
    dirty = written(tmp_path / "dirty.json", commit_info={"id": "abc123", "dirty": True}, version="4.0.0")
    assert read_file(dirty).revision == "abc123+changes"
    for commit in ({"id": "unversioned"}, {"error": "no git"}, None, "x"):
        assert read_file(written(tmp_path / "none.json", commit_info=commit)).revision is None


def test_rounds_become_batches_that_followed_each_other(tmp_path: Path) -> None:
    seconds = [1e-5 + number * 1e-7 for number in range(101)]
    stats = {"iterations": 3, "median": 1e-5, "data": seconds}
    measured = measured_of({"a": [read_file(written(tmp_path / "a.json", {"test_one": stats}))]})
    rows = measured.batches
    assert len(rows) == 17  # 6 rounds in each but the last, so that there are 20 at most
    assert [row[3] for row in rows] == [row[4] for row in rows] == list(range(17))
    assert [row[6] for row in rows] == [18] * 16 + [15]
    assert sum(row[7] for row in rows) == pytest.approx(math.fsum(seconds) * 3e9, abs=20)
    assert rows[0][7] == pytest.approx(math.fsum(seconds[:6]) * 3e9, abs=1)
    assert {row[8] for row in rows} == {0}
    assert [row[5] for row in rows] == [sum(other[7] for other in rows[:place]) for place in range(17)]


def test_files_are_processes_and_the_nth_belong_together(tmp_path: Path) -> None:
    files = {
        "base": [read_file(written(tmp_path / f"b{number}.json", {"test_one": [1e-5], "test_two": [2e-5]},
                                   datetime=f"2026-01-02T03:04:0{number}+00:00")) for number in (0, 4)],
        "new": [read_file(written(tmp_path / f"n{number}.json", {"test_one": [3e-5]},
                                  datetime=f"2026-01-02T03:04:0{number}+00:00")) for number in (2, 6)]}
    measured = measured_of(files)
    assert [(row[0], row[1], row[2], row[4], row[5] // 10**9) for row in measured.batches] == [
        ("base", "one", 0, 0, 0), ("base", "two", 0, 1, 0), ("new", "one", 0, 2, 2),
        ("base", "one", 1, 3, 4), ("base", "two", 1, 4, 4), ("new", "one", 1, 5, 6)]
    assert [(report.label, report.kind, report.processes, report.source) for report in measured.targets] == [
        ("base", "file", 2, "b0.json, b4.json"), ("new", "file", 2, "n2.json, n6.json")]
    assert measured.targets[1].unavailable == {"two": "not in its files: skipped, failed, or not run"}
    assert measured.targets[0].versions == {"python": "3.12.1"} and measured.targets[0].revision == "abc123"
    assert measured.created == "2026-01-02T03:04:00+00:00"
    assert measured.host == {"processor": "A processor", "cores": 8, "pinned_to": None, "system": "Linux 6.1 x86_64"}
    assert measured.notes == ["read from files of pytest-benchmark, which does not wait for the device after a launch"]


def test_signatures_are_compared_with_dispatch(tmp_path: Path) -> None:
    names = ["test_one_arg[dispatch-device_array]", "test_one_arg[signature-device_array]",
             "test_many[signature-torch]"]
    measured = measured_of({"a": [read_file(written(tmp_path / "a.json", {name: [1e-5] for name in names}))]})
    assert [(case.name, case.against, case.group) for case in measured.cases] == [
        ("one_arg[dispatch-device_array]", None, "suite"),
        ("one_arg[signature-device_array]", "one_arg[dispatch-device_array]", "suite"),
        ("many[signature-torch]", None, "suite")]


def test_what_is_doubtful_is_said(tmp_path: Path) -> None:
    plain = written(tmp_path / "plain.json")
    other = written(tmp_path / "other.json", {"test_one": {"median": 1e-5, "iterations": 1}},
                    machine_info={"node": "z"}, commit_info={"id": "def"}, datetime=None)
    measured = measured_of({"a": [read_file(plain), read_file(other)]})
    assert any("have no single rounds, only their median" in note for note in measured.notes)
    assert "the files are of different machines: A processor, z" in measured.notes
    assert measured.targets[0].warnings == ["its files are of several commits: abc123, def"]


def test_one_name_in_two_files_of_tests(tmp_path: Path) -> None:
    path = written(tmp_path / "a.json")
    data = json.loads(path.read_text())
    data["benchmarks"].append({**data["benchmarks"][0], "fullname": "test_other.py::test_one"})
    path.write_text(json.dumps(data))
    assert list(read_file(path).rounds) == ["one", "test_other.py::test_one"]
    data["benchmarks"].append(data["benchmarks"][1])
    path.write_text(json.dumps(data))
    with pytest.raises(StudyFileError, match=r"a.json: benchmark 2: 'test_other.py::test_one' is there twice"):
        read_file(path)


def test_files_by_label(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a.json", "b.json", "c=d.json"):
        written(tmp_path / name)

    def labels(files: Any) -> list[tuple[str, int]]:
        return [(report.label, report.processes) for report in read_benchmarks(files).targets]

    assert labels("a.json") == [("a", 1)]
    assert labels(["base=a.json", Path("b.json"), "base=b.json"]) == [("base", 2), ("b", 1)]
    assert labels(["c=d.json"]) == [("c=d", 1)]  # there is such a file
    assert labels({"base": "a.json", "new": ["a.json", "b.json"]}) == [("base", 1), ("new", 2)]
    with pytest.raises(StudyError, match="there are no files to compare"):
        labels([])
    with pytest.raises(StudyError, match="target 'new' has no file"):
        labels({"base": "a.json", "new": []})


def test_differences_between_files(tmp_path: Path) -> None:
    files = {label: [written(tmp_path / f"{label}{number}.json", {"test_one": [cost * (1 + number * 1e-3)] * 5})
                     for number in range(8)] for label, cost in (("base", 1e-5), ("slow", 2e-5), ("same", 1.0001e-5))}
    result = read_benchmarks(files)
    assert {each.target: each.verdict for each in result.differences} == {
        "slow": "slower", "same": "no difference seen"}
    assert [round(each.median_us, 1) for each in result.estimates] == [10.0, 20.1, 10.0]
    assert "slow" in str(result)


@pytest.mark.parametrize(("changes", "said"), [
    ({"version": "3.4.1"}, "is of pytest-benchmark '3.4.1'; this KernelScope reads the files of versions 4 and 5"),
    ({"version": None}, "is of pytest-benchmark None"),
    ({"benchmarks": {}}, "is no file of pytest-benchmark: it has no list 'benchmarks'"),
    ({"benchmarks": [3]}, "benchmark 0 is no object"),
    ({"benchmarks": [{"name": "x"}]}, "benchmark 0 has no name or no stats"),
    ({"benchmarks": [{"name": "x", "stats": {"iterations": 1.5, "median": 1}}]}, "its iterations 1.5 are no whole"),
    ({"benchmarks": [{"name": "x", "stats": {"iterations": 1, "median": "1"}}]}, "its median '1' is no number above 0"),
    ({"benchmarks": [{"name": "x", "stats": {"iterations": True, "median": 1}}]}, "its iterations True is no number"),
    ({"benchmarks": [{"name": "x", "stats": {"iterations": 1, "data": [1, -1]}}]}, "its data -1 is no number above 0"),
    ({"benchmarks": [{"name": "x", "stats": {"iterations": 1, "data": [math.nan]}}]}, "its data nan is no number"),
    ({"datetime": "yesterday"}, "its datetime 'yesterday' is no date"),
    ({"datetime": 5}, "its datetime 5 is no date"),
    ({"datetime": "x" * 5000}, "its datetime 'x+…x+' is no date$"),
    ({"version": "x" * 5000}, "is of pytest-benchmark 'x+…x+'; this"),
    ({"benchmarks": [{"name": "a", "stats": {"iterations": 10**400, "median": 1}}]}, "its iterations 10+…0+ is no nu"),
    ({"benchmarks": [{"name": "a", "stats": {"iterations": 1, "median": 1e308}}]}, "its median 1e.308 is no number"),
    ({"benchmarks": [{"name": "a", "stats": {"iterations": 10**9, "data": [1, 1]}}]}, "its rounds took 2e.09 seconds"),
])
def test_files_that_are_refused(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(StudyFileError, match=f"bad.json: .*{said}"):
        read_file(written(tmp_path / "bad.json", **changes))


def test_what_is_no_file_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StudyFileError, match="cannot read nowhere.json: No such file or directory"):
        read_file(tmp_path / "nowhere.json")
    torn = tmp_path / "torn.json"
    for text in ("{", "[" * 100_000, '{"version": "5.0.0"', "\x00"):
        torn.write_text(text)
        with pytest.raises(StudyFileError, match=r"torn.json: is no JSON \(.*write it with pytest --benchmark-json="):
            read_file(torn)
    pipe = tmp_path / "pipe.json"
    os.mkfifo(pipe)
    with pytest.raises(StudyFileError, match=r"pipe.json is no regular file"):  # or it would wait for a writer
        read_file(pipe)
    torn.write_bytes(b"\xff\xfe{}")
    with pytest.raises(StudyFileError, match="torn.json: is no JSON"):
        read_file(torn)
    monkeypatch.setattr(sys.modules[read_file.__module__], "MOST_BYTES", 3)
    with pytest.raises(StudyFileError, match="torn.json has more than 3 bytes"):
        read_file(torn)


def test_what_a_file_says_of_its_machine_may_be_anything(tmp_path: Path) -> None:
    machine = {"node": [1], "cpu": {"count": "x"}}
    odd = written(tmp_path / "odd.json", {"test_one\ud800": [1e-300]}, machine_info=machine, datetime="9999-01-01")
    result = read_benchmarks({"a": [written(tmp_path / "a.json")], "b": [odd]})
    assert "one\\ud800" in str(result) and result._repr_html_() and len(result.batches) == 4
    assert len(result.to_frame()) == 2
    again = load(result.save(tmp_path / "saved.json"))
    assert [each.name for each in again.cases] == ["one", "one\\ud800"]
    assert len(again.to_frame()) == 2
