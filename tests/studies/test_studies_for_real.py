"""Studies of real processes on the dry run: what differs is found, what is the same is not, and nothing is left."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from study_repositories import git, numba_cuda_repository, spin_us

from kernelscope import intervals as verdicts
from kernelscope import studies
from kernelscope.errors import StudyError
from kernelscope.studies.result import StudyResult
from kernelscope.studies.statistics import judge

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
#: Many times a launch: found on a machine that does other things as well. benchmarks/sensitivity.py tries 2 %.
SPIN_NS = 200_000
#: Quicker than the defaults; with fewer processes nothing is known for certain.
QUICK = {"processes": 3, "repeats": 20, "half_width": None, "install": False, "progress": False}


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository of the installed numba-cuda, with a space in its path; HEAD spins in every launch."""
    return numba_cuda_repository(tmp_path_factory.mktemp("with a space") / "numba cuda", SPIN_NS)


@pytest.fixture(scope="module")
def result(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> StudyResult:
    """A study of two targets that are the same, one that spins and one that cannot be imported."""
    broken = tmp_path_factory.mktemp("broken")
    shutil.copytree(repository / "numba_cuda", broken / "numba_cuda")
    dispatcher = broken / "numba_cuda/numba/cuda/dispatcher.py"
    dispatcher.write_text("print('half way')\nraise ImportError('no such thing')\n")
    cases = [studies.case("k[1, 1](a)", setup="@cuda.jit\ndef k(a):\n    pass\na = cuda.device_array(3)", name="own"),
             studies.case("nobody()", name="wrong")]
    return studies.launch_overhead(["base=current", "same=current", f"slow={repository}", f"broken={broken}"], cases,
                                   args="0", **QUICK)


def test_a_spin_is_found_and_the_same_target_is_not_slower(result: StudyResult) -> None:
    found = {(each.target, each.case): each for each in result.differences}
    planted = spin_us(SPIN_NS)
    for case in ("0 args", "own"):
        slow = found["slow", case]
        assert slow.verdict == verdicts.SLOWER, str(result)
        assert planted / 2 < slow.difference_us < 2 * planted, str(result)
    # At 95 % one of 20 runs would fail by chance.
    assert {each.verdict for each in judge(result.measured, confidence=0.999).differences if each.target == "same"} <= {
        verdicts.NO_DIFFERENCE, verdicts.TOO_NOISY}, str(result)
    assert result.is_dry_run
    assert "dry run" in str(result)


def test_what_fails_is_told_and_the_others_are_measured(result: StudyResult) -> None:
    assert [report.error for report in result.targets[:3]] == [None] * 3
    assert "no such thing" in str(result.targets[3].error)
    assert [report.processes for report in result.targets] == [3, 3, 3, 0]
    assert all("NameError" in report.unavailable["wrong"] for report in result.targets[:3])
    assert result.targets[2].revision and "whose C sources are the same" in " ".join(result.targets[2].warnings)


def test_refs_are_compared_in_worktrees_that_are_gone_afterwards(repository: Path) -> None:
    result = studies.against("HEAD~", "HEAD", repo=repository, **{**QUICK, "args": "0", "processes": 1})
    difference, = result.differences
    assert (difference.baseline, difference.target) == ("HEAD~", "HEAD")
    assert difference.difference_us > spin_us(SPIN_NS) / 2, str(result)
    assert len(git(repository, "worktree", "list").splitlines()) == 1
    assert git(repository, "status", "--porcelain") == ""


def test_without_a_gpu_and_a_dry_run_it_says_what_to_do() -> None:
    with pytest.raises(StudyError, match=r"the baseline 'current' failed: no CUDA GPU is available.*dry_run=True"):
        studies.launch_overhead(dry_run=False, **{**QUICK, "processes": 1})


INTERRUPTED = """
import sys
from kernelscope import intervals as verdicts
from kernelscope import studies
def tell(done, text):
    print(text, flush=True)
try:
    studies.against("HEAD~", "HEAD", repo=sys.argv[1], args="0", repeats=2, install=False, progress=tell, processes=50)
except studies.StudyInterrupted as interrupted:
    measured = interrupted.result and interrupted.result.measured
    print("interrupted with", len(measured.batches) if measured else None, flush=True)
"""


# Which round it is counts quiet ones, of which a busy machine may have none.
@pytest.mark.parametrize("moment", ["making its environment", ": starting ", "process 2 of 50: round"])
def test_ctrl_c_leaves_no_process_and_no_worktree(repository: Path, tmp_path: Path, moment: str) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "KERNELSCOPE_DRYRUN": "1", "TMPDIR": str(temporary)}
    study = subprocess.Popen([sys.executable, "-c", INTERRUPTED, str(repository)], stdout=subprocess.PIPE, text=True,
                             env=environ, cwd=tmp_path, preexec_fn=_interruptible)
    try:
        assert study.stdout is not None
        seen: list[str] = []
        for line in study.stdout:
            seen.append(line.strip())
            if moment in line:
                break
        time.sleep(0.05)
        children = _descendants(study.pid)
        study.send_signal(signal.SIGINT)
        rest = study.communicate(timeout=600)[0]
    finally:
        study.kill()
        study.wait()
    assert study.returncode == 0, rest
    assert "interrupted with" in rest
    if "round" in moment:
        assert not rest.strip().endswith(("None", " 0"))
    # Those that git has started are nobody's children then, and go when the system finds the time.
    until = time.monotonic() + 60
    while any(map(_lives, children)) and time.monotonic() < until:
        time.sleep(0.02)
    assert not [pid for pid in children if _lives(pid)]
    assert list(temporary.iterdir()) == []
    assert len(git(repository, "worktree", "list").splitlines()) == 1


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _interruptible() -> None:
    # A shell that runs tests in the background has its children ignore Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _descendants(pid: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields: Any = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            children.setdefault(int(fields[1]), []).append(int(folder.name))
    found, todo = [], [pid]
    while todo:
        todo += children.get(todo.pop(), [])
        found = [*found, *[each for each in todo if each not in found]]
    return found
