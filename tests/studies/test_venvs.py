from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
from study_repositories import toy_wheels

from kernelscope.errors import StudyError
from kernelscope.studies import environments

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of kept environments."""
    monkeypatch.setenv(environments.FOLDER, str(tmp_path / "kept"))
    return tmp_path / "kept"


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return toy_wheels(tmp_path_factory.mktemp("wheels"), "1.0")


class Builder:
    """Stands in for what makes an environment: counts, and fails if told to."""

    def __init__(self, problem: type[BaseException] | None = None) -> None:
        self.calls: list[Path] = []
        self.problem = problem

    def __call__(self, where: Path) -> None:
        self.calls.append(where)
        (where / "bin").mkdir(parents=True)
        (where / "bin" / "python").symlink_to(sys._base_executable)
        if self.problem is not None:
            raise self.problem


def keep(build: Callable[[Path], None], *request: str, held: ExitStack | None = None,
         progress: Callable[[str], None] = print) -> Path:
    with contextlib.ExitStack() as stack:
        return environments.cached_environment("toy", request, build, held or stack, progress)


def names(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


@pytest.mark.slow
def test_environment_installs_without_a_network_and_without_a_pip_of_ours(tmp_path: Path, wheels: Path,
                                                                          monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environments, "_pip_of_this", lambda: None)
    monkeypatch.setenv("PIP_TARGET", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("PIP_USER", "1")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    python = environments.make(tmp_path / "an environment")
    environments.install(python, ["numba-cuda==1.0"], scratch=scratch, find_links=[str(wheels)], no_index=True)
    ran = subprocess.run([python, "-c", "import sys, numba_cuda; print(sys.prefix, numba_cuda.__file__)"],
                         capture_output=True, text=True, check=True, cwd=tmp_path)
    assert ran.stdout.count(str(tmp_path / "an environment")) == 2


def test_failures_of_pip_are_one_line(tmp_path: Path, wheels: Path) -> None:
    python = environments.make(tmp_path / "venv")
    with pytest.raises(StudyError) as failed:
        environments.install(python, ["numba-cuda==2.0"], scratch=tmp_path, find_links=[str(wheels)], no_index=True)
    assert str(failed.value) == (
        "pip cannot install numba-cuda==2.0: Could not find a version that satisfies the requirement numba-cuda==2.0 "
        "(from versions: 1.0) (only folders of --find-links were looked at, as --no-index asks: where there is a "
        "network,  pip download -d FOLDER numba-cuda==2.0  gets all that it needs)")


def test_machine_without_a_network_is_told_what_to_do(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho 'ERROR: Could not find a version that satisfies the requirement x (from "
                      "versions: none)' >&2\nexit 1\n")
    python.chmod(0o755)
    with pytest.MonkeyPatch.context() as patch, pytest.raises(StudyError, match="with --find-links"):
        patch.setattr(environments, "_pip_of_this", lambda: None)
        environments.install(python, ["x"], scratch=tmp_path)


def test_python_that_cannot_make_environments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho 'Error: ensurepip is not available'\nexit 1\n")
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    with pytest.raises(StudyError, match="ensurepip is not available; on Debian and Ubuntu: apt-get"):
        environments.make(tmp_path / "venv")


def test_environment_is_made_once(folder: Path) -> None:
    build = Builder()
    with ExitStack() as held:  # one study may use an environment twice
        made = keep(build, "a", "b", held=held)
        assert keep(build, "a", "b", held=held) == made
    assert keep(build, "a", "b") == made
    assert len(build.calls) == 1
    assert made.parent == folder and (made / "bin" / "python").exists()
    assert keep(build, "a", "c") != made
    assert len(build.calls) == 2


@pytest.mark.parametrize("problem", [KeyboardInterrupt, StudyError])
def test_half_made_environment_goes(folder: Path, problem: type[BaseException]) -> None:
    with pytest.raises(problem):
        keep(Builder(problem))
    assert [name for name in names(folder) if not name.endswith(".lock")] == []
    build = Builder()
    keep(build)
    assert len(build.calls) == 1


def test_environment_whose_interpreter_is_gone_is_made_again(folder: Path) -> None:
    build = Builder()
    python = keep(build) / "bin" / "python"
    python.unlink()
    python.symlink_to(folder / "no-such-python")
    keep(build)
    assert len(build.calls) == 2


def test_what_a_killed_study_left_half_made_goes(folder: Path) -> None:
    code = ("import os, pathlib, signal, contextlib\nfrom kernelscope.studies import environments as venvs\n"
            "def build(where):\n    where.mkdir()\n    (where / 'half').touch()\n    os.kill(os.getpid(), 9)\n"
            "venvs.cached_environment('toy', [], build, contextlib.ExitStack(), print)\n")
    ran = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False)
    assert ran.returncode == -signal.SIGKILL
    assert any(name.startswith(".making-") for name in names(folder))
    made = keep(Builder())
    assert not (made / "half").exists()
    assert names(folder) == [made.name, f"{made.name}.lock"]


def test_two_that_ask_at_once_make_one(folder: Path) -> None:
    waits = "waiting for another study that makes the environment of toy"
    said, found = list[str](), list[Path]()

    class Slow(Builder):
        """Goes on when another one has said that it waits."""

        def __call__(self, where: Path) -> None:
            super().__call__(where)
            deadline = time.monotonic() + 60
            while waits not in said and time.monotonic() < deadline:
                time.sleep(0.005)

    build = Slow()
    threads = [threading.Thread(target=lambda: found.append(keep(build, progress=said.append))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=600)
    assert len(found) == 3 and len({*found}) == 1
    assert len(build.calls) == 1
    assert waits in said


def test_environment_that_nobody_used_is_removed(folder: Path) -> None:
    build = Builder()
    old, kept = keep(build, "old"), keep(build, "kept")
    long_ago = time.time() - 31 * 24 * 3600
    os.utime(old / "used", (long_ago, long_ago))
    keep(build, "new")
    assert not old.exists() and not (folder / f"{old.name}.lock").exists()
    assert kept.exists()


def test_forgetting_leaves_what_is_in_use(folder: Path) -> None:
    assert environments.remove_unused() == []
    with ExitStack() as held:
        used, free = keep(Builder(), "used", held=held), keep(Builder(), "free")
        assert environments.remove_unused() == [free]
        assert used.exists() and not free.exists()
    assert environments.remove_unused() == [used]
    assert names(folder) == []
    assert environments.remove_unused() == []


def test_lock_that_was_removed_meanwhile_is_taken_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, flock, calls = tmp_path / "lock", fcntl.flock, []

    def removed_before(file: object, how: int) -> None:
        calls.append(how)
        if len(calls) == 1:
            path.unlink()
        flock(file, how)  # type: ignore[arg-type]

    monkeypatch.setattr(fcntl, "flock", removed_before)
    with environments._shared(path, print) as lock:
        assert path.stat().st_ino == os.fstat(lock.fileno()).st_ino
    assert len(calls) == 2


def test_what_others_can_change_is_not_run(folder: Path) -> None:
    before = os.umask(0)
    try:
        made = keep(Builder())
    finally:
        os.umask(before)
    assert folder.stat().st_mode & 0o777 == 0o700
    said: list[str] = []
    for each in (made / "bin", made, folder, folder.parent):
        each.chmod(0o755)
    assert keep(Builder()) == made
    for each in (made / "bin", made, folder, folder.parent):
        each.chmod(0o757)
        build = Builder()
        with contextlib.ExitStack() as held:
            alone = keep(build, held=held, progress=said.append)
            assert (alone / "bin" / "python").exists() and not alone.is_relative_to(folder.parent)
            assert alone.parent.stat().st_mode & 0o777 == 0o700
        assert not alone.exists() and len(build.calls) == 1
        assert said == [f"making the environment of toy for this study only: others can write to {each}"]
        said.clear()
        each.chmod(0o755)
    assert keep(Builder()) == made


def test_folder_can_be_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert environments.environments_folder() == tmp_path / "kept"
    monkeypatch.delenv(environments.FOLDER)
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert environments.environments_folder() == Path("/caches/kernelscope/study-environments")
    (tmp_path / "file").touch()
    monkeypatch.setenv(environments.FOLDER, str(tmp_path / "file" / "below"))
    with pytest.raises(StudyError, match=f"set {environments.FOLDER} to another folder"):
        keep(Builder())
