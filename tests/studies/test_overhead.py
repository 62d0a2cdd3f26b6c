"""`launch_overhead` and `against`, with fakes for the processes: what is asked, refused, kept and left."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fake_bench
import pytest

import kernelscope
from kernelscope import studies
from kernelscope.errors import StudyError
from kernelscope.studies.cases import Case


def study(*targets: str, **options: Any) -> Any:
    return studies.launch_overhead(targets or ("current",), **{
        "args": "0-1", "processes": 3, "repeats": 2, "progress": False, "timeout_s": 120, **options})


def test_a_study_says_what_it_measured_and_how(fakes: dict[str, Any]) -> None:
    fakes["v2"] = {"ns": 8000}
    result = study("baseline=current", "v2=current", seed=7, half_width=None)
    measured = result.measured
    assert [(report.label, report.kind, report.source) for report in measured.targets] == [
        ("baseline", "current", "this environment"), ("v2", "current", "this environment")]
    assert [(case.name, case.args) for case in measured.cases] == [("0 args", 0), ("1 arg", 1)]
    assert measured.settings == {
        "targets": ["this environment"] * 2, "cases": ["0 args", "1 arg"], "loops": None, "repeats": 2, "processes": 3,
        "half_width": None, "limit_s": None, "install": True, "pin": True, "seed": 7, "timeout_s": 120}
    assert measured.host["cores"] == os.cpu_count()
    assert measured.host["load_after"] >= 0
    assert measured.host["pinned_to"][0] in os.sched_getaffinity(0)
    assert measured.created.endswith("+00:00")
    assert [difference.percent for difference in result.differences] == [100.0, 100.0]
    assert not fakes["workspace"].exists()


def test_the_same_seed_measures_in_the_same_order(fakes: dict[str, Any], tmp_path: Path) -> None:
    orders = []
    for number, seed in enumerate((3, 3, None)):
        labels = [f"a{number}", f"b{number}"]
        result = study(*(f"{label}=current" for label in labels), seed=seed, args="0-4")
        orders.append([(batch[0][0], batch[1]) for batch in result.measured.batches])
        assert isinstance(result.measured.settings["seed"], int)
    assert orders[0] == orders[1] != orders[2]


def test_what_was_asked_for_is_passed_on(fakes: dict[str, Any], tmp_path: Path) -> None:
    study("current", find_links=[tmp_path], no_index=True, install=False, dry_run=True, pin=False)
    (_, how), = fakes["asked"]
    assert how.pop("progress")
    assert how == {"find_links": [str(tmp_path)], "no_index": True, "install": False}
    hello = next(row["request"] for row in fake_bench.done(tmp_path) if row["do"] == "hello")
    library = hello.pop("library")
    assert Path(library).name == "libcuda.so.1"
    folder = str(Path(kernelscope.__file__).parents[1])
    assert hello == {"do": "hello", "framework": None, "pin": None, "dryrun": folder}


@pytest.mark.parametrize(("options", "is_dry"), [({"dry_run": False}, False), ({}, True)])
def test_the_dry_run_of_this_process_is_the_default(fakes: dict[str, Any], tmp_path: Path, options: dict[str, Any],
                                                    is_dry: bool) -> None:
    study("current", **options)
    assert {bool(row["request"].get("dryrun")) for row in fake_bench.done(tmp_path) if row["do"] == "hello"} == {is_dry}


def test_cases_that_record_can_import_kernelscope(fakes: dict[str, Any], tmp_path: Path) -> None:
    recording = Case("recording", "k()", group="recording")
    study("current", args=None, cases=recording)
    hello = next(row["request"] for row in fake_bench.done(tmp_path) if row["do"] == "hello")
    assert hello["kernelscope"] == str(Path(kernelscope.__file__).parents[1])
    prepare = next(row["request"] for row in fake_bench.done(tmp_path) if row["do"] == "prepare")
    assert prepare["case"] == {"name": "recording", "statement": "k()", "setup": "", "args": None, "group": "recording",
                               "against": None, "before": "", "after": "", "most_loops": None, "needs": []}


def test_a_target_that_cannot_be_installed_is_told_and_the_others_are_measured(fakes: dict[str, Any]) -> None:
    fakes["v2"] = StudyError("target 'v2': pip finds no numba-cuda==9")
    result = study("baseline=current", "v2=current", "v3=current")
    errors = {report.label: report.error for report in result.measured.targets}
    assert errors == {"baseline": None, "v2": "pip finds no numba-cuda==9", "v3": None}
    assert {difference.target for difference in result.differences} == {"v3"}
    assert "pip finds no numba-cuda==9" in str(result)


def test_a_baseline_that_cannot_be_installed_is_an_error(fakes: dict[str, Any]) -> None:
    fakes["baseline"] = StudyError("target 'baseline': pip finds no numba-cuda==9")
    with pytest.raises(StudyError, match="^the baseline cannot be prepared: target 'baseline': pip finds no"):
        study("baseline=current", "v2=current")
    assert not fakes["workspace"].exists()
    assert len(fakes["asked"]) == 1


def test_ctrl_c_raises_with_what_was_measured(fakes: dict[str, Any]) -> None:
    def tell(done: float, text: str) -> None:
        if text.startswith("process 2 of 3: round 2"):
            raise KeyboardInterrupt

    with pytest.raises(studies.StudyInterrupted) as caught:
        study("baseline=current", "v2=current", progress=tell)
    result = caught.value.result
    assert isinstance(caught.value, KeyboardInterrupt) and result is not None
    assert result.measured.ended == "interrupted"
    assert [report.processes for report in result.measured.targets] == [1, 1]
    assert {batch[2] for batch in result.measured.batches} == {0, 1}
    assert not fakes["workspace"].exists()


def test_ctrl_c_while_targets_are_made_has_no_result(fakes: dict[str, Any]) -> None:
    fakes["v2"] = KeyboardInterrupt()
    with pytest.raises(studies.StudyInterrupted, match="before anything was measured") as caught:
        study("baseline=current", "v2=current")
    assert caught.value.result is None
    assert not fakes["workspace"].exists()


def test_the_simulator_is_refused_early(fakes: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_ENABLE_CUDASIM", "1")
    with pytest.raises(StudyError, match="the CUDA simulator is on"):
        study()
    monkeypatch.setenv("NUMBA_ENABLE_CUDASIM", "0")
    study()
    monkeypatch.delenv("NUMBA_ENABLE_CUDASIM")
    monkeypatch.setitem(sys.modules, "numba.core.config", SimpleNamespace(ENABLE_CUDASIM=1))
    with pytest.raises(StudyError, match="the CUDA simulator is on"):
        study()
    assert len(fakes["asked"]) == 1


def test_against_compares_refs(fakes: dict[str, Any], tmp_path: Path) -> None:
    result = studies.against("HEAD~", "HEAD", "HEAD~", repo=tmp_path, args="0", processes=2, repeats=1, progress=False)
    assert [target for target, _ in fakes["asked"]] == [
        studies.Target("HEAD~", "ref", "HEAD~", str(tmp_path)), studies.Target("HEAD", "ref", "HEAD", str(tmp_path)),
        studies.Target("HEAD~ (2)", "ref", "HEAD~", str(tmp_path))]
    assert {difference.target for difference in result.differences} == {"HEAD", "HEAD~ (2)"}


def test_it_stops_when_the_intervals_are_narrow(fakes: dict[str, Any]) -> None:
    fakes["v2"] = {"noise": [0.0001, 0.0001]}
    result = study("baseline=current", "v2=current", processes=40)
    assert result.measured.ended == "narrow enough"
    assert result.measured.targets[0].processes == 8


def test_importing_the_package_imports_no_framework(run_python: Callable[..., Any]) -> None:
    run_python("import sys\nfrom kernelscope import studies\n"
               "assert not {'numba', 'cuda', 'pandas', 'plotly', 'numpy'} & set(sys.modules), sys.modules.keys()\n"
               "studies.launch_overhead\n"
               "assert 'numba' not in sys.modules and 'cuda.core' not in sys.modules\n", KERNELSCOPE_DRYRUN="0")


def test_a_folder_may_be_a_path_and_one_folder_of_wheels_a_text(fakes: dict[str, Any], tmp_path: Path) -> None:
    checkout = tmp_path / "checkout"
    (checkout / "numba_cuda").mkdir(parents=True)
    (checkout / "numba_cuda" / "__init__.py").touch()
    for targets in (checkout, [checkout]):
        studies.launch_overhead(targets, args=0, processes=1, repeats=1, progress=False, find_links=str(tmp_path))
    assert [(target.value, how["find_links"]) for target, how in fakes["asked"]] == [
        (str(checkout), [str(tmp_path)])] * 2
