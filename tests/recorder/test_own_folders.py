"""Recordings and journals go into no folder that somebody else owns or can write to; only the user reads them there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import kernelscope
from kernelscope.errors import KernelScopeError
from kernelscope.recorder.session import Session
from kernelscope.recorder.worker import save_into, start

ROOT = Path(__file__).resolve().parents[2]
CODE = """
import os, nvtx
with nvtx.annotate("step"):
    pass
"""


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


@pytest.fixture
def usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.fixture(params=["group", "others", "somebody else", "sticky"])
def unsafe(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A folder to which somebody else can write."""
    folder = tmp_path / "shared"
    folder.mkdir()
    if request.param == "somebody else":
        if os.geteuid() != 0:
            pytest.skip("only root can give a folder away")
        os.chown(folder, 65534, 65534)
    else:
        os.chown(folder, -1, 12345) if os.geteuid() == 0 else None  # no private group of the user's
        folder.chmod({"group": 0o770, "others": 0o707, "sticky": 0o1777}[request.param])
    return folder


def run(folder: Path) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("KERNELSCOPE_")}
    return subprocess.run(
        [sys.executable, "-c", CODE], capture_output=True, text=True, check=False, timeout=120,
        env={**kept, "PYTHONPATH": str(ROOT), "KERNELSCOPE_RECORD": str(folder), "RANK": "0", "WORLD_SIZE": "1"})


def test_a_process_records_itself_into_no_such_folder_and_goes_on(unsafe: Path) -> None:
    ran = run(unsafe)
    assert ran.returncode == 0
    assert re.fullmatch(rf"kernelscope: pid \d+: this process is not recorded: KernelScopeError: .*{unsafe}.*: "
                        r"recordings go only into a folder that is yours and to which nobody else can write; "
                        r"chmod go-w it, or name one that is not there yet\n", ran.stderr)
    assert os.listdir(unsafe) == []
    with pytest.raises(KernelScopeError, match="chmod go-w it, or name one that is not there yet"):
        save_into(unsafe, kernelscope.Recording({}, {}))
    assert os.listdir(unsafe) == []


def test_no_journal_is_kept_in_such_a_folder_and_recording_goes_on(unsafe: Path) -> None:
    with kernelscope.record(journal=unsafe) as recorder:
        pass
    (row,) = [row for row in recorder.recording.rows("health") if row["probe"] == "journal"]
    assert f"no journal is kept in {unsafe}: " in row["message"]
    assert "journals go only into a folder that is yours and to which nobody else can write" in row["message"]
    assert "chmod go-w it" in row["fix"]
    assert os.listdir(unsafe) == []


@pytest.mark.usefixtures("usual_umask")
@pytest.mark.parametrize("folder", ["mine", "not there", "deep/er", "link", "in a shared one"])
def test_a_folder_of_ones_own_is_taken_and_what_is_written_there_is_private(folder: str, tmp_path: Path) -> None:
    path = tmp_path / folder
    if folder == "mine":
        path.mkdir()  # mode 0755: others may look
    elif folder == "link":
        (tmp_path / "real").mkdir()
        path.symlink_to("real")
    elif folder == "in a shared one":  # as /tmp is, or a volume of a container without the sticky bit
        tmp_path.chmod(0o777)
        path = path / "run"
        path.parent.mkdir()
        path.parent.chmod(0o777)
    ran = run(path)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert mode(path) == (0o755 if folder in ("mine", "link") else 0o700)
    (file,) = path.iterdir()
    assert file.suffix == ".kscope" and mode(file) == 0o600
    if folder == "deep/er":
        assert mode(path.parent) == 0o700


@pytest.mark.usefixtures("usual_umask")
def test_a_journal_in_a_folder_of_ones_own_is_private(tmp_path: Path) -> None:
    with kernelscope.record(journal=tmp_path / "journals"):
        (journal,) = (tmp_path / "journals").iterdir()
        assert (mode(journal.parent), mode(journal)) == (0o700, 0o700)
        assert {mode(file) for file in journal.iterdir()} == {0o600}


@pytest.mark.usefixtures("usual_umask")
def test_files_that_are_saved_are_as_readable_as_others(tmp_path: Path) -> None:
    assert mode(kernelscope.Recording({}, {}).save(tmp_path / "x.kscope")) == 0o644


# Options that the environment has and no recording takes.

@pytest.mark.parametrize(("options", "lines"), [
    ('{"detial": "launch"}', [
        "there is no option 'detial'; did you mean 'detail'? The process is recorded without it"]),
    ('{"nothing like it": 1, "name": "x", "detail": "launch"}', [
        "there is no option 'nothing like it'. 'name' is of no use to a process that records itself. The process is "
        "recorded without them"]),
    ('{"detail": "launch", "lines_of": ["json"], "metrics_of": null, "stacks": true}', []),
    ("", []),
])
def test_unknown_options_of_the_environment_are_named_in_a_line(options: str, lines: list[str], tmp_path: Path) -> None:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("KERNELSCOPE_")}
    code = CODE + """
child = os.fork()
if child == 0:
    os._exit(0)
os.waitpid(child, 0)
"""
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=False, timeout=120,
        env={**kept, "PYTHONPATH": str(ROOT), "KERNELSCOPE_RECORD": str(tmp_path / "run"), "RANK": "0",
             "WORLD_SIZE": "1", "KERNELSCOPE_RECORD_OPTIONS": options})
    assert ran.returncode == 0
    assert [re.sub(r"^kernelscope: pid \d+: KERNELSCOPE_RECORD_OPTIONS: ", "", line)
            for line in ran.stderr.splitlines()] == lines
    assert any(file.suffix == ".kscope" for file in (tmp_path / "run").iterdir())


@pytest.mark.parametrize(("options", "line"), [
    ('{"lines": "no"}', 'lines is "no", and takes true or false'),
    ('{"stacks": 1}', "stacks is 1, and takes true or false"),
    ('{"lines_of": "json"}', 'lines_of is "json", and takes a list of texts'),
    ('{"lines_of": [1]}', "lines_of is [1], and takes a list of texts"),
    ('{"metrics": "basic", "metrics_of": 5}', "metrics_of is 5, and takes a text or null"),
    ('{"detail": "launc"}', "detail 'launc' is not one of launch, phases"),
    ('{"mode": "ring", "capacity": true}', "capacity True is no number of launches: it takes an int of 1 or more"),
    ('{"stalls": 1}', "stalls 1 is none of True, False and 'launches'"),
])
def test_wrong_values_of_the_environment_are_said(options: str, line: str, tmp_path: Path,
                                                  capsys: pytest.CaptureFixture[str]) -> None:
    assert not start(tmp_path / "run", options)
    assert capsys.readouterr().err == (f"kernelscope: pid {os.getpid()}: this process is not recorded: ValueError: "
                                       f"KERNELSCOPE_RECORD_OPTIONS: {line}\n")
    assert Session.active is None and not (tmp_path / "run").exists()
