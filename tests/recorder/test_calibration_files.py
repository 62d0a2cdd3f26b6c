"""The file of calibrations: damaged, foreign, locked, refused by the system, and written by several at once."""

from __future__ import annotations

import errno
import json
import os
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from calibrations import HERE, TODAY, calibration, cost

from kernelscope.errors import CalibrationError
from kernelscope.recorder.overhead import calibration_file, measuring, store, stored


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "calibration.json"


def left(path: Path) -> list[str]:
    return sorted(each.name for each in path.parent.iterdir() if "lock" not in each.name)


def test_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    assert calibration_file() == Path("/state/kernelscope/calibration.json")
    monkeypatch.setenv("HOME", "/home/me")
    for value in ("relative", ""):
        monkeypatch.setenv("XDG_STATE_HOME", value)
        assert calibration_file() == Path("/home/me/.local/state/kernelscope/calibration.json")


def test_without_a_home_nothing_is_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setattr(Path, "home", homeless)
    (problem,) = stored().problems
    assert "set XDG_STATE_HOME to a folder that you can write" in problem
    with pytest.raises(CalibrationError, match="there is no home folder"):
        store([calibration()])


def test_what_is_stored_comes_back(path: Path) -> None:
    assert stored(path).problems == stored(path).calibrations == ()
    made = calibration(), calibration(detail="launch")
    assert store(made, path) == path
    assert set(stored(path).calibrations) == set(made)
    assert left(path) == ["calibration.json"]


def test_a_new_one_takes_the_place_of_that_of_its_setting(path: Path) -> None:
    old, foreign = calibration(measured=TODAY - timedelta(days=9)), calibration(machine="other")
    store([old, foreign], path)
    new = calibration(cost(80.0, 70.0, 90.0))
    store([new], path)
    assert stored(path).calibrations == (new, foreign)
    assert stored(path).find(HERE, TODAY) == new


@pytest.mark.parametrize("other", [
    {"machine": "other"}, {"python": "3.13.0"}, {"detail": "launch"}, {"gpu": "NVIDIA X"},
    {"measured": TODAY - timedelta(days=200)}, {"measured": TODAY + timedelta(days=5)},
])
def test_one_of_another_setting_or_time_is_not_found(path: Path, other: Any) -> None:
    store([calibration(**other)], path)
    assert len(stored(path).calibrations) == 1
    assert stored(path).find(HERE, TODAY) is None


@pytest.mark.parametrize(("content", "said"), [
    (b"", "cannot be read: "),
    (b'{"format": 2, "calib', "cannot be read: "),
    (b"[" * 100_000, "cannot be read: "),
    (b"[1]", "holds no calibrations of format 2"),
    (b'{"format": 2, "calibrations": 5}', "holds no calibrations of format 2"),
    (b'{"format": 2, "calibrations": [[]]}', "calibration 1: a calibration is [], and no JSON object"),
    (b" " * (5 * 2**20), "has 5242880 bytes, and 4194304 is the most"),
])
def test_a_damaged_file_is_ignored_and_replaced(path: Path, content: bytes, said: str) -> None:
    path.parent.mkdir()
    path.write_bytes(content)
    (problem,) = stored(path).problems
    assert problem.startswith("calibration.json") and said in problem
    assert stored(path).calibrations == ()
    store([calibration()], path)
    assert stored(path).calibrations == (calibration(),)
    assert stored(path).problems == ()


def test_of_several_one_may_be_damaged(path: Path) -> None:
    store([calibration(), calibration(detail="launch")], path)
    held = json.loads(path.read_text())
    held["calibrations"][0]["costs"] = None
    path.write_text(json.dumps(held))
    assert len(stored(path).calibrations) == 1
    assert stored(path).problems == ("calibration.json, calibration 1: costs is None, and no list of costs",)


def test_what_is_no_file_is_not_waited_for(path: Path) -> None:
    path.parent.mkdir()
    os.mkfifo(path)
    assert stored(path).problems == ("calibration.json cannot be read: it is no regular file",)
    path.unlink()
    path.mkdir()
    assert "cannot be read" in stored(path).problems[0]


def test_a_newer_file_is_left_alone(path: Path) -> None:
    path.parent.mkdir()
    path.write_text('{"format": 3, "calibrations": {}}')
    said = "has format 3 of a newer kernelscope, and this one reads format 2: upgrade it, or remove "
    with pytest.raises(CalibrationError, match=said):
        store([calibration()], path)
    with pytest.raises(CalibrationError, match=said), measuring(path):
        pytest.fail("nothing is measured that cannot be stored")
    assert path.read_text() == '{"format": 3, "calibrations": {}}'


def test_a_folder_that_cannot_be_made_is_told_before_anything_is_measured(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file")
    path = tmp_path / "state" / "kernelscope" / "calibration.json"
    said = "cannot be stored in .*kernelscope: Not a directory; set XDG_STATE_HOME to a folder that you can write"
    with pytest.raises(CalibrationError, match=said), measuring(path):
        pytest.fail("nothing is measured that cannot be stored")
    with pytest.raises(CalibrationError, match=said):
        store([calibration()], path)


def test_a_read_only_folder_is_told_before_anything_is_measured(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path, *_: Any, **__: Any) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(Path, "touch", refuse)
    with pytest.raises(CalibrationError, match="Read-only file system; set XDG_STATE_HOME"), measuring(path):
        pytest.fail("nothing is measured that cannot be stored")


def test_a_full_disk_leaves_what_was_there(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store([calibration()], path)

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(CalibrationError, match="No space left on device"):
        store([calibration(detail="launch")], path)
    assert stored(path).calibrations == (calibration(),)
    assert left(path) == ["calibration.json"]


def test_one_calibration_at_a_time(path: Path) -> None:
    with measuring(path):
        with pytest.raises(CalibrationError, match="another calibration is under way"), measuring(path):
            pytest.fail("two would disturb each other")
        store([calibration()], path)  # who has measured elsewhere may store
    with measuring(path):
        pass


def test_an_exception_while_measuring_is_passed_on(path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), measuring(path):
        raise KeyboardInterrupt
    with measuring(path):
        pass


def test_where_files_have_no_locks_it_goes_on_without(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_locks(*_: Any) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", no_locks)
    with measuring(path):
        store([calibration()], path)
    assert len(stored(path).calibrations) == 1


def test_many_that_store_at_once_lose_nothing(path: Path) -> None:
    machines = [f"m{number}" for number in range(12)]
    threads = [threading.Thread(target=store, args=([calibration(machine=name)], path)) for name in machines]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {each.setting.machine for each in stored(path).calibrations} == set(machines)
    assert left(path) == ["calibration.json"]


def test_the_oldest_go_when_there_are_too_many(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernelscope.recorder.overhead._MOST", 3)
    for day in range(5):
        store([calibration(machine=f"m{day}", measured=TODAY - timedelta(days=day))], path)
    assert [each.setting.machine for each in stored(path).calibrations] == ["m0", "m1", "m2"]
