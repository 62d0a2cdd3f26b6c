"""numba-cuda's benchmarks, run on the dry run: every target the same ones, in turn; what fails is said."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kernelscope.errors import StudyError
from kernelscope.studies import benchmark_suite, environments, overhead
from kernelscope.studies.benchmark_suite import BenchmarkFile

pytestmark = pytest.mark.skipif(importlib.util.find_spec("pytest_benchmark") is None, reason="needs pytest-benchmark")

# What a target could have in the place of numba-cuda's benchmarks.
MINE = """
import pytest

def test_launch(benchmark):
    benchmark(int)

@pytest.mark.skip(reason="not today")
def test_skipped(benchmark):
    pass

def test_wrong(benchmark):
    raise RuntimeError("no\\nluck")
"""


@pytest.fixture
def mine(fakes: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Targets that are fakes have the given benchmarks, which run in this environment."""

    def put(text: str = MINE) -> None:
        folder = tmp_path / "benchmarks"
        folder.mkdir()
        (folder / "test_mine.py").write_text(text)
        looked = environments.Finished(0, json.dumps({"tools": ["pytest", "pytest_benchmark"],
                                                      "folder": str(folder)}), "")
        run = environments.run
        monkeypatch.setattr(environments, "run", lambda command, **how: (
            looked if "-c" in command else run([sys.executable, *command[1:]], **how)))

    return put


def run(targets: Any = ("current",), **options: Any) -> Any:
    options = {"processes": 2, "max_time_s": 0.02, "dry_run": True, "progress": False, **options}
    return benchmark_suite.suite(targets, **options)


@pytest.mark.slow
def test_the_suite_of_numba_cuda(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "empty"], check=True)
    result = run(["current", f"empty={tmp_path / 'empty'}"], processes=1,
                 keyword="one_arg and (device or dispatch-torch)")
    measured = result.measured
    assert [(each.label, each.processes) for each in measured.targets] == [("current", 1), ("empty", 0)]
    assert measured.targets[0].error is None and "numba" in (measured.targets[1].error or "")
    assert [(case.name, case.against) for case in measured.cases] == [
        ("one_arg[dispatch-device_array]", None),
        ("one_arg[signature-device_array]", "one_arg[dispatch-device_array]")]
    assert measured.targets[0].versions["numba-cuda"] and measured.targets[0].framework == "numba-cuda"
    assert measured.is_dry_run and measured.gpu
    if importlib.util.find_spec("torch") is None:
        why = measured.targets[0].unavailable["one_arg[dispatch-torch]"]
        assert why.startswith("skipped: could not import 'torch'")
    assert measured.settings["benchmarks"]["of"] == "'current'"
    assert any(note.startswith("all targets ran the benchmarks of 'current'") for note in measured.notes)
    assert all(row[7] / row[6] > 1_000 for row in measured.batches)  # nanoseconds a launch
    assert "one_arg" in str(result)


@pytest.mark.slow
def test_what_fails_and_what_is_skipped_is_said(mine: Any) -> None:
    mine()
    result = run(processes=1)
    assert [case.name for case in result.cases] == ["launch"]
    assert result.targets[0].unavailable == {"skipped": "skipped: not today", "wrong": "failed: RuntimeError: no luck"}
    assert result.targets[0].error is None


@pytest.mark.parametrize(("text", "said"), [
    ("import nothing_of_the_kind\n", "'current': no benchmark ran: .*No module named 'nothing_of_the_kind'"),
    ("import os\ndef test_wrong(benchmark):\n    print('last words', flush=True); os._exit(3)\n", "no benchmark ran: "),
])
def test_a_suite_that_runs_nothing(mine: Any, text: str, said: str) -> None:
    mine(text)
    with pytest.raises(StudyError, match=said):
        run(processes=1)


@pytest.mark.slow
def test_a_suite_that_hangs(mine: Any) -> None:
    mine("import time\ndef test_hangs(benchmark):\n    time.sleep(600)\n")
    with pytest.raises(StudyError, match=r"'current': .* did not end in 2 seconds"):
        run(processes=1, timeout_s=2)


def test_a_target_without_the_tools_is_told_what_to_install(fakes: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environments, "run", lambda *_, **__: environments.Finished(
        0, json.dumps({"tools": ["pytest"], "folder": "/nowhere"}), ""))
    with pytest.raises(StudyError, match=r"'current': it has no pytest-benchmark: install them there, python\S* -m pip "
                                         "install pytest pytest-benchmark"):
        run()


def test_a_target_without_benchmarks(fakes: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environments, "run", lambda *_, **__: environments.Finished(
        0, json.dumps({"tools": ["pytest", "pytest_benchmark"], "folder": None}), ""))
    monkeypatch.setattr(benchmark_suite, "_one_run", lambda *_: BenchmarkFile("run.json", rounds={"x": (1, [1e-5])}))
    assert run(processes=1).measured.settings["benchmarks"]["of"] == "this environment"
    monkeypatch.setattr(benchmark_suite, "SUITE", "numba/cuda/no/benchmarks")
    with pytest.raises(StudyError, match="'current': it has no benchmarks: no folder numba/cuda/no/benchmarks"):
        run()


@pytest.mark.parametrize("is_interrupted", [False, True])
def test_targets_take_turns_and_an_interruption_keeps_what_was_run(mine: Any, monkeypatch: pytest.MonkeyPatch,
                                                                   is_interrupted: bool) -> None:
    mine()
    runs: list[str] = []
    told: list[tuple[float, str]] = []

    def one_run(runner: Any, *_: Any) -> Any:
        runs.append(runner.report.label)
        if is_interrupted and len(runs) == 4:
            raise KeyboardInterrupt
        return BenchmarkFile("run.json", rounds={"launch": (1, [1e-5])}, statements={"launch": "test_launch"})

    monkeypatch.setattr(benchmark_suite, "_one_run", one_run)
    options = {"processes": 3, "progress": lambda done, text: told.append((done, text))}
    if is_interrupted:
        with pytest.raises(overhead.StudyInterrupted) as caught:
            run(["current", "again=current"], **options)
        assert caught.value.result.measured.ended == "interrupted"
        assert [each.processes for each in caught.value.result.targets] == [1, 2]
    else:
        result = run(["current", "again=current"], **options)
        assert [each.processes for each in result.targets] == [3, 3]
        assert {(row[0], row[2]) for row in result.measured.batches} == {
            (label, number) for label in ("current", "again") for number in range(3)}
    # Each round begins with the other one.
    assert runs[:4] == ["current", "again", "again", "current"]
    assert next(text for _, text in told if text.startswith("run 2")).startswith("run 2 of 3, again")
    assert all(0 <= done < 1 for done, _ in told)


def test_imports_are_changed_for_numba_cuda_mlir() -> None:
    text = ("from numba import cuda\nfrom numba.cuda.core import config\nfrom numba.cuda import types\n"
            "import numba.cuda.x\nskipif(config.ENABLE_CUDASIM)\n")
    for pattern, other in benchmark_suite._FOR_MLIR:
        text = pattern.sub(other, text)
    assert text == ("from numba_cuda_mlir import cuda\nfrom numba_cuda_mlir.numba_cuda.core import config\n"
                    "from numba_cuda_mlir.cuda import types\nimport numba_cuda_mlir.numba_cuda.x\nskipif(False)\n")
