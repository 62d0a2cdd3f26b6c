from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from study_repositories import (
    add_spin,
    commit,
    copy_numba_cuda,
    git,
    numba_cuda_repository,
    toy_checkout,
    toy_wheels,
)

from kernelscope.errors import StudyError
from kernelscope.studies import environments
from kernelscope.studies import environments as studies_environments
from kernelscope.studies.environments import (
    Prepared,
    Workspace,
    add_version_warnings,
    cuda_extra,
    prepare,
    shortened,
)
from kernelscope.studies.result import TargetReport
from kernelscope.studies.target import Target, parse_target

ROOT = Path(__file__).parents[2]


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    monkeypatch.setenv(studies_environments.FOLDER, str(tmp_path / "kept environments"))
    parent = tmp_path / "temporary files"
    parent.mkdir()
    with Workspace(parent) as made:
        yield made
    assert list(parent.iterdir()) == []


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    return toy_wheels(tmp_path / "my wheels", "0.30.3", "0.30.4")


def asked(prepared: Prepared, code: str) -> str:
    """What code prints that is run as a target's process is."""
    ran = subprocess.run([prepared.python, "-c", code], cwd=prepared.cwd, env=prepared.environ, capture_output=True,
                         text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


def version(prepared: Prepared, package: str = "numba_cuda") -> str:
    prepared.check_module(asked(prepared, f"import {package}; print({package}.__file__)"))
    return asked(prepared, f"import {package}; print({package}.__version__)")


def test_this_environment_is_used_as_it_is(workspace: Workspace) -> None:
    prepared = prepare(Target("now"), workspace)
    assert prepared.python == Path(sys.executable) and prepared.expected is None and prepared.framework is None
    assert prepared.report == TargetReport("now", "current", "this environment")
    assert list(prepared.cwd.iterdir()) == [] and prepared.cwd.is_relative_to(workspace.path)
    assert asked(prepared, "import sys; print(sys.prefix)") == sys.prefix
    prepared.check_module("/anywhere")


def test_what_a_process_inherits(workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, value in {"PYTHONPATH": f"here{os.pathsep}{os.pathsep}/there", "PYTHONHASHSEED": "1", "VIRTUAL_ENV": "/v",
                        "PYTHONINSPECT": "1", "KERNELSCOPE_TEST_GPU": "1", "KERNELSCOPE_DRYRUN_CC": "80",
                        "NUMBA_CACHE_DIR": "/users", "NUMBA_CUDA_LOG_LEVEL": "x", "PYTHONWARNINGS": "error",
                        "FORCE_COLOR": "1"}.items():
        monkeypatch.setenv(name, value)
    current = prepare(Target("now"), workspace).environ
    answer = environments.Finished(0, "Python 3.9\n", "")
    monkeypatch.setattr(environments, "run", lambda *_, **__: answer)
    other = prepare(Target("other", "python", sys.executable), workspace).environ
    assert current["PYTHONPATH"] == f"{tmp_path}/here{os.pathsep}/there" and current["VIRTUAL_ENV"] == "/v"
    assert "PYTHONPATH" not in other and "VIRTUAL_ENV" not in other
    for environ in (current, other):
        assert not {"PYTHONHASHSEED", "PYTHONINSPECT", "PYTHONWARNINGS", "KERNELSCOPE_TEST_GPU",
                    "FORCE_COLOR"} & {*environ}
        assert environ["KERNELSCOPE_DRYRUN_CC"] == "80" and environ["NUMBA_CUDA_LOG_LEVEL"] == "x"
        assert Path(environ["NUMBA_CACHE_DIR"]).is_relative_to(workspace.path)
    assert current["NUMBA_CACHE_DIR"] != other["NUMBA_CACHE_DIR"]


def test_interpreter_of_a_virtual_environment(workspace: Workspace, tmp_path: Path) -> None:
    studies_environments.make(tmp_path / "an environment")
    for value in ("an environment", "an environment/bin/python"):
        prepared = prepare(parse_target(f"x={tmp_path / value}"), workspace)
        assert prepared.report.kind == "python"
        assert asked(prepared, "import sys; print(sys.prefix)") == str(tmp_path / "an environment")


@pytest.mark.parametrize(("script", "problem"), [
    (None, "there is no interpreter"), ("echo hello", "is no Python interpreter"),
    ("echo 'bad luck' >&2; exit 3", "does not start: bad luck"), ("echo Python 3", "is no Python interpreter"),
    ("echo Python 3.8", r"is Python 3\.8, and a study measures in Python 3\.9 or newer"),
    ("echo Python 2.7", r"is Python 2\.7, and"),
])
def test_what_is_no_interpreter_is_refused(workspace: Workspace, tmp_path: Path, script: str | None,
                                           problem: str) -> None:
    file = tmp_path / "python"
    if script:
        file.write_text(f"#!/bin/sh\n{script}\n")
        file.chmod(0o755)
    with pytest.raises(StudyError, match=f"target 'x': .*{problem}"):
        prepare(Target("x", "python", str(file)), workspace)


@pytest.mark.slow
def test_requirement_gets_an_environment_that_is_kept(workspace: Workspace, wheels: Path) -> None:
    said: list[str] = []
    options = {"find_links": [wheels], "no_index": True, "progress": said.append}
    first = prepare(parse_target("numba-cuda==0.30.3"), workspace, **options)
    assert version(first) == "0.30.3" and first.framework == "numba-cuda"
    assert first.report.source == "numba-cuda==0.30.3"
    assert said == ["installing numba-cuda==0.30.3"]
    assert first.environ["PYTHONNOUSERSITE"] == "1"
    # numba 0.65.0 is all that there is here; from 0.30.4 on none is asked for.
    assert asked(first, "import numba; print(numba.__version__)") == "0.65.0"
    second = prepare(parse_target("again=numba-cuda==0.30.3"), workspace, **options)
    assert second.python == first.python and second.cwd != first.cwd
    third = prepare(parse_target("numba-cuda[cu12]==0.30.4"), workspace, **options)
    assert version(third) == "0.30.4"
    with pytest.raises(subprocess.CalledProcessError):
        subprocess.run([third.python, "-c", "import numba"], check=True, capture_output=True)
    with pytest.raises(StudyError, match=r"numba-cuda was imported from .* and not from"):
        third.check_module("/usr/lib/python3/dist-packages/numba_cuda/__init__.py")


@pytest.mark.slow
def test_another_build_of_the_same_version_is_another_environment(workspace: Workspace, wheels: Path) -> None:
    target = parse_target("numba-cuda==0.30.4")
    first = prepare(target, workspace, find_links=[wheels], no_index=True)
    wheel = wheels / "numba_cuda-0.30.4-py3-none-any.whl"
    os.utime(wheel, ns=(1, 1))
    assert prepare(target, workspace, find_links=[wheels], no_index=True).python != first.python


@pytest.mark.slow
@pytest.mark.parametrize("text", ["numba-cuda>=0.30", "numba-cuda", "./my wheels/numba_cuda-0.30.4-py3-none-any.whl"])
def test_what_may_be_another_tomorrow_is_not_kept(workspace: Workspace, wheels: Path, text: str,
                                                  monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(wheels.parent)
    prepared = prepare(parse_target(text), workspace, find_links=["my wheels"], no_index=True)
    assert version(prepared) == "0.30.4"
    assert prepared.python.is_relative_to(workspace.path)


@pytest.mark.slow
def test_more_can_be_installed(workspace: Workspace, wheels: Path) -> None:
    toy_wheels(wheels, "1.5", package="pytest_benchmark")
    prepared = prepare(parse_target("numba-cuda==0.30.4"), workspace, find_links=[wheels], no_index=True,
                       also=["pytest-benchmark"])
    assert version(prepared) == "0.30.4" and asked(prepared, "import pytest_benchmark") == ""


def test_requirement_that_cannot_be_installed(workspace: Workspace, wheels: Path, tmp_path: Path) -> None:
    with pytest.raises(StudyError, match=r"target 'x': pip cannot install numba-cuda\[cu\d+\]==9\.9 .*: Could not.*"
                                         r"pip download -d FOLDER 'numba-cuda\[cu\d+\]==9\.9' 'numpy<2\.5'  gets all"):
        prepare(parse_target("x=numba-cuda==9.9"), workspace, find_links=[wheels], no_index=True)
    assert not [each for each in (tmp_path / "kept environments").iterdir() if each.suffix != ".lock"]
    with pytest.raises(StudyError, match=r"--find-links 'nowhere': there is no such folder"):
        prepare(parse_target("numba-cuda==0.30.4"), workspace, find_links=["nowhere"])
    with pytest.raises(StudyError, match="a requirement of neither"):
        prepare(Target("x", "requirement", "torch"), workspace)
    with pytest.raises(StudyError, match="its kind 'nonsense' is none of current, checkout"):
        prepare(Target("x", "nonsense", "torch"), workspace)


def test_interrupted_installation_leaves_nothing(tmp_path: Path, wheels: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(studies_environments.FOLDER, str(tmp_path / "kept"))

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(studies_environments, "install", interrupted)
    for text in ("numba-cuda==0.30.4", "numba-cuda"):
        with pytest.raises(KeyboardInterrupt), Workspace(tmp_path) as workspace:
            prepare(parse_target(text), workspace, find_links=[wheels])
    assert not list(tmp_path.glob("kernelscope-study-*"))
    assert not [each for each in (tmp_path / "kept").iterdir() if each.suffix != ".lock"]


# Ctrl-C of a terminal, in the middle of a build that ignores being asked to end.
STUDY = """
import pathlib, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from kernelscope.studies.environments import prepare
from kernelscope.studies.target import parse_target
from kernelscope.studies.environments import Workspace
with Workspace(pathlib.Path(sys.argv[1])) as workspace:
    prepare(parse_target("git:" + sys.argv[2] + "@HEAD"), workspace, no_index=True, find_links=[sys.argv[3]])
"""
SLOW_BUILD = ("import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
              "open({file!r}, 'w').write(str(os.getpid())); time.sleep(60)")


@pytest.mark.slow
def test_interrupted_study_leaves_no_worktree_no_environment_no_process(tmp_path: Path, wheels: Path) -> None:
    building, parent = tmp_path / "building", tmp_path / "temporary files"
    parent.mkdir()
    repo = toy_checkout(tmp_path / "a repo", fails=SLOW_BUILD.format(file=str(building)))
    git(repo, "init", "--quiet")
    commit(repo, "slow to build")
    study = subprocess.Popen([sys.executable, "-c", STUDY, parent, repo, wheels], stderr=subprocess.PIPE, text=True,
                             env={**os.environ, "PYTHONPATH": str(ROOT)}, start_new_session=True)
    deadline = time.monotonic() + 60
    while not (building.exists() and building.read_text()) and time.monotonic() < deadline and study.poll() is None:
        time.sleep(0.02)
    os.killpg(study.pid, signal.SIGINT)
    _, errors = study.communicate(timeout=60)
    assert errors.strip().endswith("KeyboardInterrupt")
    assert list(parent.iterdir()) == []
    assert len(git(repo, "worktree", "list").splitlines()) == 1 and not (repo / ".git" / "worktrees").exists()
    builder = Path(f"/proc/{building.read_text()}/stat")
    while builder.exists() and builder.read_text().split()[2] != "Z" and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not builder.exists() or builder.read_text().split()[2] == "Z"


def test_checkout_is_installed_editable(workspace: Workspace, wheels: Path, tmp_path: Path) -> None:
    folder = toy_checkout(tmp_path / "my checkout", "9.5")
    prepared = prepare(Target("v2", "checkout", str(folder)), workspace, find_links=[wheels], no_index=True)
    assert version(prepared) == "9.5" and prepared.framework == "numba-cuda"
    assert prepared.expected == folder / "numba_cuda"
    assert prepared.python.is_relative_to(workspace.path) and prepared.report.revision is None
    (folder / "numba_cuda" / "__init__.py").write_text("__version__ = 'edited'\n")
    assert version(prepared) == "edited"


@pytest.mark.slow
def test_refs_are_installed_from_worktrees(workspace: Workspace, wheels: Path, tmp_path: Path) -> None:
    repo = tmp_path / "a repo"
    for number in ("9.1", "9.2"):
        shutil.rmtree(repo / "numba_cuda", ignore_errors=True)
        toy_checkout(repo, number)
        git(repo, "init", "--quiet")
        commit(repo, number)
    found = [prepare(parse_target(f"git:{repo}@{ref}"), workspace, find_links=[wheels], no_index=True)
             for ref in ("HEAD~", "HEAD")]
    assert [version(each) for each in found] == ["9.1", "9.2"]
    assert [each.report.revision for each in found] == [git(repo, "rev-parse", ref)[:12] for ref in ("HEAD~", "HEAD")]
    with pytest.raises(StudyError, match=r"target 'x': the git repository in .* has no commit 'nonsense'"):
        prepare(Target("x", "ref", "nonsense", str(repo)), workspace)


@pytest.mark.slow
def test_build_that_fails_says_why(workspace: Workspace, wheels: Path, tmp_path: Path) -> None:
    folder = toy_checkout(tmp_path / "checkout", fails='raise SystemExit("error: command gcc failed")')
    with pytest.raises(StudyError, match=r"target 'v2': pip cannot install the checkout: command gcc failed"):
        prepare(Target("v2", "checkout", str(folder)), workspace, find_links=[wheels], no_index=True)


@pytest.mark.slow
def test_changes_that_a_ref_has_not_are_told(workspace: Workspace, wheels: Path, tmp_path: Path) -> None:
    repo = toy_checkout(tmp_path / "repo")
    git(repo, "init", "--quiet")
    for message in ("first", "second"):
        (repo / "numba_cuda" / "more.py").write_text(message)
        commit(repo, message)
    (repo / "build").touch()  # what git does not know is no change

    def warned(ref: str) -> bool:
        target = Target("x", "ref", ref, str(repo / "numba_cuda"))
        warnings = prepare(target, workspace, find_links=[wheels], no_index=True, extra="").report.warnings
        return any("has changes that are not committed" in each for each in warnings)

    assert not warned("HEAD")
    (repo / "numba_cuda" / "more.py").write_text("changed")
    assert warned("HEAD") and not warned("HEAD~")


def test_folders_that_cannot_be_measured(workspace: Workspace, tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="target 'x': it has not the source of numba-cuda"):
        prepare(Target("x", "checkout", str(tmp_path)), workspace)
    with pytest.raises(StudyError, match="target 'x': there is no folder"):
        prepare(Target("x", "checkout", str(tmp_path / "nowhere")), workspace)
    with pytest.raises(StudyError, match="which PYTHONPATH cannot have"):
        prepare(Target("wt", "checkout", str(copy_numba_cuda(tmp_path / "a:b"))), workspace, install=False)


IMPORTED = "import numba.cuda, numba.cuda.dispatcher as d; print(numba.cuda.__file__); print(hasattr(d, '_spin_clock'))"


@pytest.mark.slow
@pytest.mark.parametrize("compiled", [True, False])
def test_refs_of_the_real_numba_cuda_are_used_as_they_are(workspace: Workspace, tmp_path: Path, compiled: bool,
                                                          monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    repo = numba_cuda_repository(tmp_path / "numba cuda", compiled=compiled)
    found = [prepare(parse_target(f"git:{repo}@{ref}"), workspace, install=False) for ref in ("HEAD~", "HEAD")]
    spins = []
    for prepared in found:
        module, has_spin = asked(prepared, IMPORTED).splitlines()
        prepared.check_module(module)
        spins.append(has_spin)
        assert prepared.python == Path(sys.executable)
        assert len(prepared.report.warnings) == (not compiled)
        assert prepared.expected is not None and (prepared.expected / "__pycache__").is_dir()
    assert spins == ["False", "True"]


@pytest.mark.slow
def test_checkout_as_it_is_may_have_changes(workspace: Workspace, tmp_path: Path,
                                            monkeypatch: pytest.MonkeyPatch) -> None:
    folder = copy_numba_cuda(tmp_path / "wt")
    git(folder, "init", "--quiet")
    head = commit(folder, "as released")
    add_spin(folder)
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    prepared = prepare(Target("wt", "checkout", str(folder)), workspace, install=False)
    assert prepared.report.revision == f"{head[:12]}+changes"
    module, has_spin = asked(prepared, IMPORTED).splitlines()
    prepared.check_module(module)
    assert has_spin == "True" and Path(module).is_relative_to(folder)
    assert not list(folder.rglob("__pycache__"))


@pytest.mark.parametrize(("installed", "smi", "extra"), [
    ("12.9.1", "", "cu12"), ("13.5.0", "CUDA Version: 12.8", "cu13"), (None, "CUDA Version: 12.8", "cu12"),
    (None, "CUDA UMD Version : 13.0", "cu13"), (None, None, "cu13"),
])
def test_extra_is_that_of_the_installed_cuda_or_of_the_driver(
        monkeypatch: pytest.MonkeyPatch, installed: str | None, smi: str | None, extra: str) -> None:
    def of_package(name: str) -> str:
        if installed is None:
            raise environments.metadata.PackageNotFoundError(name)
        return installed

    def run(*_: object, **__: object) -> subprocess.CompletedProcess[str]:
        if smi is None:
            raise FileNotFoundError("nvidia-smi")
        return subprocess.CompletedProcess([], 0, stdout=smi)

    monkeypatch.setattr(environments.metadata, "version", of_package)
    monkeypatch.setattr(environments.subprocess, "run", run)
    assert cuda_extra() == extra


@pytest.mark.parametrize(("requirement", "extra", "expected"), [
    ("numba-cuda==0.29.0", "cu13", "numba-cuda[cu13]==0.29.0"), ("numba-cuda==0.29.0", "", "numba-cuda==0.29.0"),
    ("numba-cuda[test]", "cu12", "numba-cuda[test]"), ("numba_cuda @ https://x/y[z", "cu12", "numba_cuda @ https://x/y[z"),
    ("/w/numba_cuda-1-py3-none-any.whl", "cu12", "/w/numba_cuda-1-py3-none-any.whl[cu12]"),
    ("/w/numba_cuda-1-py3-none-any.whl[a]", "cu12", "/w/numba_cuda-1-py3-none-any.whl[a]"),
])
def test_extra_is_added_to_requirements_without_one(requirement: str, extra: str, expected: str) -> None:
    assert environments._with_extra(requirement, extra) == expected


def test_other_versions_than_the_baselines_are_told() -> None:
    reports = [TargetReport("failed", "current", ""),
               TargetReport("a", "current", "", versions={"numba_cuda": "1", "NumPy": "2.4", "numba": "0.68"}),
               TargetReport("b", "current", "", versions={"numba-cuda": "2", "numpy": "2.4", "numba": "0.68"}),
               TargetReport("c", "current", "", versions={"numba-cuda": "1", "numpy": "2.3", "cuda-core": "1"})]
    add_version_warnings(reports)
    assert [report.warnings for report in reports] == [
        [], [], [], ["Other versions than in a, besides the framework's: numpy 2.3 (2.4)."]]


def test_reports_do_not_tell_who_somebody_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ann")
    assert shortened("/home/ann/wt and '/home/ann'") == "~/wt and '~'"
    assert shortened("/home/anna/wt") == "/home/anna/wt"
    assert shortened("numba-cuda @ git+https://ann:secret@example.com/x@v1") == "numba-cuda @ git+https://example.com/x@v1"


@pytest.mark.environments
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.slow
def test_released_numba_cuda_is_installed_and_imported(tmp_path: Path) -> None:
    with Workspace(tmp_path) as workspace:
        try:
            prepared = prepare(parse_target("numba-cuda==0.29.0"), workspace)
        except StudyError as problem:
            if os.environ.get("CI") or "cannot be reached" not in str(problem):
                raise
            pytest.skip(f"no network: {problem}")
        prepared.check_module(asked(prepared, "import numba.cuda; print(numba.cuda.__file__)"))
        assert version(prepared) == "0.29.0"
