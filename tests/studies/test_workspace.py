"""What a study makes on disk goes with it, however it ends; git worktrees among it."""

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
    folder = toy_checkout(tmp_path / "a repository")
    git(folder, "init", "--quiet")
    commit(folder, "first")
    git(folder, "tag", "v1")
    (folder / "numba_cuda" / "second.py").touch()
    commit(folder, "second")
    return folder


@pytest.fixture
def parent(tmp_path: Path) -> Path:
    folder = tmp_path / "temporary files"
    folder.mkdir()
    return folder


def test_everything_goes_at_the_end(repo: Path, parent: Path) -> None:
    let_go: list[str] = []
    with Workspace(parent) as workspace:
        workspace.resources.callback(let_go.append, "lock")
        tree, _ = workspace.worktree(repo, "HEAD")
        assert tree.is_relative_to(workspace.path) and workspace.path.parent == parent
        assert len(git(repo, "worktree", "list").splitlines()) == 2
    assert list(parent.iterdir()) == [] and let_go == ["lock"]
    assert untouched(repo)
    workspace.close()  # again does nothing


@pytest.mark.parametrize("problem", [KeyboardInterrupt, StudyError, SystemExit])
def test_everything_goes_after_an_exception(repo: Path, parent: Path, problem: type[BaseException]) -> None:
    with pytest.raises(problem), Workspace(parent) as workspace:
        workspace.worktree(repo, "HEAD")
        raise problem
    assert list(parent.iterdir()) == []
    assert untouched(repo)


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
    assert untouched(repo)


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
    assert untouched(repo)


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


# ---- Worktrees ----


@pytest.fixture
def slot(tmp_path: Path) -> Path:
    folder = tmp_path / "a slot"
    folder.mkdir()
    return folder


def untouched(repo: Path) -> bool:
    return (len(git(repo, "worktree", "list").splitlines()) == 1 and not (repo / ".git" / "worktrees").exists()
            and git(repo, "status", "--porcelain") == "" and git(repo, "branch", "--show-current") == "main")


def test_worktree_has_the_commit_and_is_removed_with_its_record(repo: Path, slot: Path) -> None:
    tree, found = environments.add(repo, "v1", slot)
    assert found == git(repo, "rev-parse", "HEAD~") == environments.commit_of(repo, ":/first")
    assert (tree / "numba_cuda" / "__init__.py").exists() and not (tree / "numba_cuda" / "second.py").exists()
    assert environments.revision(tree) == environments.short(found) and len(environments.short(found)) == 12
    (tree / "numba_cuda" / "built.so").touch()
    environments.remove(slot)
    assert not slot.exists()
    assert untouched(repo)


def test_worktree_of_a_worktree_and_of_a_subfolder(repo: Path, slot: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    git(repo, "worktree", "add", "--quiet", "--detach", str(other), "HEAD")
    tree, _ = environments.add(other / "numba_cuda", "HEAD~", slot)
    assert not (tree / "numba_cuda" / "second.py").exists()
    environments.remove(slot)
    assert len(git(repo, "worktree", "list").splitlines()) == 2  # the user's own is still there
    assert git(other, "status", "--porcelain") == ""


def test_record_goes_where_the_folder_is_gone_already(repo: Path, slot: Path) -> None:
    tree, _ = environments.add(repo, "HEAD", slot)
    tree.rename(slot.parent / "moved")
    environments.remove(slot)
    environments.remove(slot)  # nothing is left to remove
    assert untouched(repo)


def test_hooks_of_the_user_do_not_run(repo: Path, slot: Path) -> None:
    hook = repo / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch '{repo.parent}/hooked'\n")
    hook.chmod(0o755)
    environments.add(repo, "HEAD", slot)
    assert not (repo.parent / "hooked").exists()


def test_environment_of_a_hook_does_not_lead_elsewhere(repo: Path, slot: Path, tmp_path: Path,
                                                       monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "index"))
    assert environments.add(repo, "v1", slot)[0].is_dir()


@pytest.mark.parametrize(("ref", "problem"), [
    ("nonsense", "has no commit 'nonsense'"), ("--output=x", "cannot begin with a dash"), ("HEAD~99", "has no commit"),
    ("HEAD:numba_cuda", "has no commit"),
])
def test_wrong_refs_are_refused(repo: Path, slot: Path, ref: str, problem: str) -> None:
    with pytest.raises(StudyError, match=problem):
        environments.add(repo, ref, slot)
    assert untouched(repo)


def test_what_a_shallow_clone_lacks(repo: Path, slot: Path, tmp_path: Path) -> None:
    """As continuous integration has a repository."""
    git(tmp_path, "clone", "--quiet", "--depth", "1", f"file://{repo}", "shallow")
    assert environments.add(tmp_path / "shallow", "HEAD", slot)[0].is_dir()
    with pytest.raises(StudyError, match="has no commit 'HEAD~': it is a shallow clone, and {2}git fetch --unshallow"):
        environments.commit_of(tmp_path / "shallow", "HEAD~")


def test_what_is_no_repository_is_refused(slot: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    with pytest.raises(StudyError, match=r"git cannot use .*: not a git repository"):
        environments.add(tmp_path, "HEAD", slot)
    with pytest.raises(StudyError, match="there is no folder"):
        environments.add(tmp_path / "nowhere", "HEAD", slot)
    assert environments.revision(tmp_path) is None


def test_machine_without_git(repo: Path, slot: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(StudyError, match="'git' cannot be run"):
        environments.add(repo, "HEAD", slot)
    assert environments.revision(repo) is None


def test_revision_tells_of_changes(repo: Path) -> None:
    head = git(repo, "rev-parse", "HEAD")[:12]
    assert environments.revision(repo) == head
    (repo / "numba_cuda" / "third.py").touch()
    assert environments.revision(repo) == f"{head}+changes"
    assert environments.revision(repo / "numba_cuda") == f"{head}+changes"
