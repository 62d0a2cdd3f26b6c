from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from study_repositories import commit, git, toy_checkout

from kernelscope.errors import StudyError
from kernelscope.studies import environments
from kernelscope.studies.environments import Workspace

ROOT = Path(__file__).parents[2]


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    folder = toy_checkout(tmp_path / "repository")
    git(folder, "init", "--quiet")
    commit(folder, "first")
    return folder


@pytest.fixture
def parent(tmp_path: Path) -> Path:
    folder = tmp_path / "temporary files"
    folder.mkdir()
    return folder


def test_everything_goes_at_the_end(repo: Path, parent: Path) -> None:
    let_go: list[str] = []
    with Workspace(parent) as workspace:
        workspace.held.callback(let_go.append, "lock")
        tree, _ = workspace.worktree(repo, "HEAD")
        assert tree.is_relative_to(workspace.path) and workspace.path.parent == parent
        assert len(git(repo, "worktree", "list").splitlines()) == 2
    assert list(parent.iterdir()) == [] and let_go == ["lock"]
    assert len(git(repo, "worktree", "list").splitlines()) == 1
    workspace.close()  # again does nothing


@pytest.mark.parametrize("problem", [KeyboardInterrupt, StudyError, SystemExit])
def test_everything_goes_after_an_exception(repo: Path, parent: Path, problem: type[BaseException]) -> None:
    with pytest.raises(problem), Workspace(parent) as workspace:
        workspace.worktree(repo, "HEAD")
        raise problem
    assert list(parent.iterdir()) == []
    assert len(git(repo, "worktree", "list").splitlines()) == 1


@pytest.mark.parametrize("interruptions", [1, 19])  # a second Ctrl-C, and one that is held down
def test_interruptions_while_it_ends_do_not_leave_anything(repo: Path, parent: Path, monkeypatch: pytest.MonkeyPatch,
                                                           interruptions: int) -> None:
    remove, calls = environments._remove, []

    def interrupted(folder: Path) -> None:
        calls.append(folder)
        if len(calls) <= interruptions:
            raise KeyboardInterrupt
        remove(folder)

    monkeypatch.setattr(environments, "_remove", interrupted)
    with pytest.raises(KeyboardInterrupt), Workspace(parent) as workspace:
        workspace.worktree(repo, "HEAD")
    assert len(calls) > interruptions
    assert list(parent.iterdir()) == []
    assert len(git(repo, "worktree", "list").splitlines()) == 1


def test_names_may_be_longer_than_those_of_files(repo: Path, parent: Path) -> None:
    with Workspace(parent) as workspace:
        first, second = (workspace.folder("processes", "x" * 300 + end) for end in "ab")
        assert first != second and first.is_dir() and second.is_dir()
        tree, _ = workspace.worktree(repo, "HEAD" + "^0" * 200)
        assert (tree / "numba_cuda").is_dir()


def test_folders_are_new_and_stay_inside(parent: Path) -> None:
    with Workspace(parent) as workspace:
        made = [workspace.folder("a", name) for name in ("x", "x", "../../y", "feature/z", "…", "..")]
        assert len({*made}) == len(made)
        assert all(each.parent == workspace.path / "a" for each in made)
        assert [each.name for each in made] == ["x", "x-2", "y", "feature-z", "target", "target-2"]


def killed(repo: Path, parent: Path) -> Path:
    """Kill a study in the middle; the folder that it leaves."""
    code = ("import os, pathlib, signal, sys\nfrom kernelscope.studies.environments import Workspace\n"
            "with Workspace(pathlib.Path(sys.argv[2])) as w:\n    w.worktree(pathlib.Path(sys.argv[1]), 'HEAD')\n"
            "    os.kill(os.getpid(), signal.SIGKILL)\n")
    ran = subprocess.run([sys.executable, "-c", code, repo, parent], env={**os.environ, "PYTHONPATH": str(ROOT)},
                         check=False)
    assert ran.returncode == -signal.SIGKILL
    left, = parent.iterdir()
    return left


def test_next_study_removes_what_a_killed_one_left(repo: Path, parent: Path) -> None:
    left = killed(repo, parent)
    assert len(git(repo, "worktree", "list").splitlines()) == 2
    with Workspace(parent) as workspace:
        assert list(parent.iterdir()) == [workspace.path]
        assert not left.exists()
    assert len(git(repo, "worktree", "list").splitlines()) == 1
    assert not (repo / ".git" / "worktrees").exists()


def test_studies_at_work_and_folders_of_others_stay(repo: Path, parent: Path) -> None:
    for name in (f"{environments.PREFIX}without-an-owner", "something-else"):
        (parent / name).mkdir()
    (parent / f"{environments.PREFIX}file").touch()
    aimed = parent / "aimed"
    aimed.mkdir()
    (aimed / "owner").touch()
    (parent / f"{environments.PREFIX}link").symlink_to(aimed)
    with Workspace(parent) as first, Workspace(parent) as second:
        assert first.path.exists() and second.path.exists()
    assert sorted(each.name for each in parent.iterdir()) == sorted([
        "aimed", f"{environments.PREFIX}without-an-owner", "something-else", f"{environments.PREFIX}file",
        f"{environments.PREFIX}link"])
    assert (aimed / "owner").exists()


def test_no_place_for_it_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="set TMPDIR to another"), Workspace(tmp_path / "nowhere"):
        pass
