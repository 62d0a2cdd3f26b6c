from __future__ import annotations

import threading
from pathlib import Path

import pytest
from study_repositories import commit, git, toy_checkout

from kernelscope.errors import StudyError
from kernelscope.studies import environments


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


def test_threads_make_worktrees_of_one_repository(repo: Path, tmp_path: Path) -> None:
    slots = [tmp_path / f"slot{number}" for number in range(4)]
    trees: list[Path] = []

    def make(slot: Path) -> None:
        slot.mkdir()
        trees.append(environments.add(repo, "HEAD", slot)[0])

    threads = [threading.Thread(target=make, args=[slot]) for slot in slots]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(trees) == 4
    for slot in slots:
        environments.remove(slot)
    assert untouched(repo)
