from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from study_repositories import (
    commit,
    git,
    toy_checkout,
    toy_wheels,
)

from kernelscope.errors import StudyError
from kernelscope.studies import environments, target
from kernelscope.studies.environments import (
    Prepared,
    Workspace,
    add_version_warnings,
    cuda_extra,
    prepare,
    shortened,
)
from kernelscope.studies.result import TargetReport
from kernelscope.studies.target import Package, Target, parse_target

ROOT = Path(__file__).parents[2]


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    monkeypatch.setenv(environments.FOLDER, str(tmp_path / "kept environments"))
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
    """The version that its process imports, from where it must be."""
    file, found = asked(prepared, f"import {package}; print({package}.__file__, {package}.__version__)").rsplit(" ", 1)
    assert prepared.expected is None or Path(file).is_relative_to(prepared.expected)
    return found


@pytest.fixture
def pip(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What pip is asked to install; it installs nothing."""
    wanted: list[list[str]] = []
    monkeypatch.setattr(environments, "install", lambda python, requirements, **how: wanted.append(requirements))
    return wanted


def test_this_environment_is_used_as_it_is(workspace: Workspace) -> None:
    prepared = prepare(Target("now"), workspace)
    assert prepared.python == Path(sys.executable) and prepared.expected is None and prepared.framework is None
    assert prepared.report == TargetReport("now", "current", "this environment")
    assert list(prepared.cwd.iterdir()) == [] and prepared.cwd.is_relative_to(workspace.path)
    assert asked(prepared, "import sys; print(sys.prefix)") == sys.prefix


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
    environments.make(tmp_path / "an environment")
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
    toy_wheels(wheels, "1.5", package="pytest_benchmark")
    said: list[str] = []
    options = {"find_links": [wheels], "no_index": True, "also": ["pytest-benchmark"], "progress": said.append}
    first = prepare(parse_target("numba-cuda==0.30.3"), workspace, **options)
    assert version(first) == "0.30.3" and first.framework == "numba-cuda"
    assert first.report.source == "numba-cuda==0.30.3"
    assert said == ["installing numba-cuda==0.30.3"]
    assert first.environ["PYTHONNOUSERSITE"] == "1"
    assert asked(first, "import numba, pytest_benchmark; print(numba.__version__)") == "0.65.0"
    second = prepare(parse_target("again=numba-cuda==0.30.3"), workspace, **options)
    assert second.python == first.python and second.cwd != first.cwd


def test_another_version_or_build_is_another_environment(workspace: Workspace, wheels: Path,
                                                         pip: list[list[str]]) -> None:
    def python(text: str) -> Path:
        return prepare(parse_target(text), workspace, find_links=[wheels], no_index=True).python

    first, other = python("numba-cuda==0.30.4"), python("numba-cuda[cu12]==0.30.3")
    assert first != other and python("numba-cuda==0.30.4") == first
    # numba 0.66 moved what those before 0.30.4 look for.
    assert pip == [[f"numba-cuda[{cuda_extra()}]==0.30.4", "numpy<2.5"],
                   ["numba-cuda[cu12]==0.30.3", "numpy<2.5", "numba<0.66"]]
    os.utime(wheels / "numba_cuda-0.30.4-py3-none-any.whl", ns=(1, 1))
    assert python("numba-cuda==0.30.4") != first


@pytest.mark.parametrize("text", ["numba-cuda>=0.30", "numba-cuda", "./my wheels/numba_cuda-0.30.4-py3-none-any.whl"])
def test_what_may_be_another_tomorrow_is_not_kept(workspace: Workspace, wheels: Path, text: str, pip: list[list[str]],
                                                  monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(wheels.parent)
    prepared = prepare(parse_target(text), workspace, find_links=["my wheels"], no_index=True)
    assert prepared.python.is_relative_to(workspace.path) and len(pip) == 1


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
    monkeypatch.setenv(environments.FOLDER, str(tmp_path / "kept"))

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(environments, "install", interrupted)
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
    _, errors = study.communicate(timeout=600)
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


def test_refs_are_installed_from_worktrees(workspace: Workspace, tmp_path: Path, pip: list[list[str]],
                                           monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    repo = toy_checkout(tmp_path / "a repo", "9.1")
    git(repo, "init", "--quiet")
    commit(repo, "first")
    (repo / "numba_cuda" / "VERSION").write_text("9.2\n")
    commit(repo, "second")
    (repo / "build").touch()  # what git does not know is no change

    def prepared(ref: str) -> Prepared:
        return prepare(Target("x", "ref", ref, str(repo / "numba_cuda")), workspace, extra="")

    for ref, number in (("HEAD~", "9.1"), ("HEAD", "9.2")):
        found = prepared(ref)
        assert found.report.revision == git(repo, "rev-parse", ref)[:12] and found.report.warnings == []
        assert found.expected is not None and (found.expected / "VERSION").read_text().strip() == number
        assert pip[-1][:2] == ["--editable", str(found.expected.parent)]
        assert "PYTHONDONTWRITEBYTECODE" not in found.environ  # each of its processes would compile it anew
    (repo / "numba_cuda" / "VERSION").write_text("changed")
    assert prepared("HEAD~").report.warnings == []
    assert "has changes that are not committed" in prepared("HEAD").report.warnings[0]
    with pytest.raises(StudyError, match=r"target 'x': the git repository in .* has no commit 'nonsense'"):
        prepared("nonsense")


@pytest.mark.slow
def test_build_that_fails_says_why(workspace: Workspace, wheels: Path, tmp_path: Path) -> None:
    folder = toy_checkout(tmp_path / "checkout", fails='raise SystemExit("error: command gcc failed")')
    with pytest.raises(StudyError, match=r"target 'v2': pip cannot install the checkout: command gcc failed"):
        prepare(Target("v2", "checkout", str(folder)), workspace, find_links=[wheels], no_index=True)


def test_folders_that_cannot_be_measured(workspace: Workspace, tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="target 'x': it has not the source of numba-cuda"):
        prepare(Target("x", "checkout", str(tmp_path)), workspace)
    with pytest.raises(StudyError, match="target 'x': there is no folder"):
        prepare(Target("x", "checkout", str(tmp_path / "nowhere")), workspace)


def test_checkout_as_it_is_may_have_changes(workspace: Workspace, tmp_path: Path,
                                            monkeypatch: pytest.MonkeyPatch) -> None:
    # Of what is installed, nothing is compiled.
    monkeypatch.setattr(target, "installed_package", lambda _: Package("numba-cuda", tmp_path / "installed"))
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    folder = toy_checkout(tmp_path / "wt")
    git(folder, "init", "--quiet")
    head = commit(folder, "as released")
    (folder / "numba_cuda" / "__init__.py").write_text("__version__ = 'edited'\n")
    prepared = prepare(Target("wt", "checkout", str(folder)), workspace, install=False)
    assert prepared.report.revision == f"{head[:12]}+changes" and prepared.python == Path(sys.executable)
    assert version(prepared) == "edited"
    assert not list(folder.rglob("__pycache__"))
    with pytest.raises(StudyError, match="which PYTHONPATH cannot have"):
        prepare(Target("wt", "checkout", str(toy_checkout(tmp_path / "a:b"))), workspace, install=False)


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
def test_released_numba_cuda_is_installed_and_imported(tmp_path: Path) -> None:
    with Workspace(tmp_path) as workspace:
        try:
            prepared = prepare(parse_target("numba-cuda==0.29.0"), workspace, extra="")  # CUDA is not loaded
        except StudyError as problem:
            if os.environ.get("CI") or "cannot be reached" not in str(problem):
                raise
            pytest.skip(f"no network: {problem}")
        module = asked(prepared, "import numba.cuda; print(numba.cuda.__file__)")
        assert prepared.expected is not None and Path(module).is_relative_to(prepared.expected)
        assert version(prepared) == "0.29.0"
