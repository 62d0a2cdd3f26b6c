"""Git worktrees of a study: made from a ref, and removed with git's record of them, whatever happened meanwhile."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

from kernelscope.errors import StudyError
from kernelscope.studies.commands import Finished, last_words, run

# Beside a worktree: the path of the repository's .git folder, which has git's record of it. It is written before git
# is asked, so that nothing is left behind by a study that was killed.
_REPOSITORY = "repository"
_TREE = "tree"
# What makes git look at another repository than that of the folder that it is called in; a hook of git has them set.
_ELSEWHERE = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR", "GIT_PREFIX",
              "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_NAMESPACE")
_DIGITS = 12


def add(repo: Path, ref: str, slot: Path) -> tuple[Path, str]:
    """Make a worktree of a ref, and return its folder and the commit.

    Parameters
    ----------
    repo : Path
        A folder of the repository.
    ref : str
        A branch, a tag, a commit, ``HEAD~3``.
    slot : Path
        An empty folder, which `remove` takes; the worktree is in it.

    Raises
    ------
    StudyError
        `repo` is no repository, it has no such ref, or git fails.
    """
    commit = commit_of(repo, ref)
    common = Path(_asked(repo, "rev-parse", "--git-common-dir"))
    (slot / _REPOSITORY).write_text(str((repo / common).resolve()), encoding="utf-8")
    tree = slot / _TREE
    # The user's hooks are for the user's checkouts.
    finished = _git(repo, "-c", "core.hooksPath=/dev/null", "worktree", "add", "--quiet", "--detach", str(tree), commit)
    if finished.status:
        raise StudyError(f"git cannot make a worktree of {ref!r}: {last_words(finished)}")
    return tree, commit


def remove(slot: Path) -> None:
    """Remove the worktree in a slot, or what there is of it, and git's record of it. Never fails."""
    tree, note = slot / _TREE, slot / _REPOSITORY
    with contextlib.suppress(OSError):
        records = Path(note.read_text(encoding="utf-8")) / "worktrees"
        for record in list(records.iterdir()):
            if _belongs(record, tree):
                shutil.rmtree(record, ignore_errors=True)
        with contextlib.suppress(OSError):
            records.rmdir()  # only if it is empty, as git does
    shutil.rmtree(slot, ignore_errors=True)


def commit_of(repo: Path, ref: str) -> str:
    """Return the commit that a ref of a repository names; raises `StudyError`."""
    if not repo.is_dir():
        raise StudyError(f"there is no folder {str(repo)!r} with a git repository")
    if ref.startswith("-"):
        raise StudyError(f"a git ref cannot begin with a dash, as {ref!r} does")
    is_shallow = _asked(repo, "rev-parse", "--is-shallow-repository") == "true"
    found = _git(repo, "rev-parse", "--verify", "--quiet", ref)  # on its own, as :/words takes all that follows
    finished = _git(repo, "rev-parse", "--verify", "--quiet", f"{found.output.strip()}^{{commit}}")
    if found.status or finished.status:
        step = ("it is a shallow clone, and  git fetch --unshallow  gets the rest, in GitHub Actions fetch-depth: 0"
                if is_shallow else "see  git log --oneline  and  git branch --all")
        raise StudyError(f"the git repository in {str(repo)!r} has no commit {ref!r}: {step}")
    return finished.output.strip()


def revision(folder: Path) -> str | None:
    """Return the commit that a folder has checked out, with ``+changes`` if it has some; None where git knows none."""
    try:
        head = _git(folder, "rev-parse", "--verify", "--quiet", "HEAD")
        status = _git(folder, "status", "--porcelain", "--", ".")
    except StudyError:
        return None
    if head.status or status.status:
        return None
    return short(head.output.strip()) + ("+changes" if status.output.strip() else "")


def leaves_out_changes(folder: Path, commit: str) -> bool:
    """Whether a folder has this commit checked out with changes, which a worktree of the commit has not."""
    head = _git(folder, "rev-parse", "--verify", "--quiet", "HEAD")
    status = _git(folder, "status", "--porcelain", "--untracked-files=no")
    return head.output.strip() == commit and not status.status and bool(status.output.strip())


def short(commit: str) -> str:
    """Return a commit's first digits, as a report has them."""
    return commit[:_DIGITS]


def _belongs(record: Path, tree: Path) -> bool:
    """Whether a record of git is that of a worktree."""
    try:
        written = record / (record / "gitdir").read_text(encoding="utf-8").strip()  # absolute, or relative to it
    except OSError:
        return False
    return written.parent.resolve() == tree.resolve()


def _asked(repo: Path, *arguments: str) -> str:
    finished = _git(repo, *arguments)
    if finished.status:
        raise StudyError(f"git cannot use {str(repo)!r}: {last_words(finished)}")
    return finished.output.strip()


def _git(folder: Path, *arguments: str) -> Finished:
    environ = {name: value for name, value in os.environ.items() if name not in _ELSEWHERE}
    environ |= {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0"}
    return run(["git", *arguments], cwd=folder, environ=environ)
