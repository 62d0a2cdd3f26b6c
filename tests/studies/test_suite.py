"""numba-cuda's benchmarks, run on the dry run: every target the same ones, in turn; what fails is said."""

from __future__ import annotations

import importlib
import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kernelscope.errors import StudyError
from kernelscope.studies import environments, overhead

# The package's `suite` is the function.
running = importlib.import_module("kernelscope.studies.suite")

pytestmark = pytest.mark.skipif(importlib.util.find_spec("pytest_benchmark") is None, reason="needs pytest-benchmark")

# What a target could have in the place of numba-cuda's benchmarks.
MINE = """
import pytest
from numba import cuda
import numpy as np

@cuda.jit
def kernel(a):
    pass

def test_launch(benchmark):
    benchmark(kernel[1, 1], cuda.device_array(1, np.float32))

@pytest.mark.skip(reason="not today")
def test_skipped(benchmark):
    pass

def test_wrong(benchmark):
    raise RuntimeError("no\\nluck")
"""


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Targets have the given benchmarks."""

    def put(text: str = MINE) -> None:
        folder = tmp_path / "benchmarks"
        folder.mkdir()
        (folder / "test_mine.py").write_text(text)
        monkeypatch.setattr(running, "_LOOK", "import json; print(json.dumps({'tools': ['pytest', 'pytest_benchmark'], "
                                              f"'folder': {str(folder)!r}}}))")

    return put


def run(targets: Any = ("current",), **options: Any) -> Any:
    options = {"processes": 2, "max_time_s": 0.02, "dry_run": True, "progress": False, **options}
    return running.suite(targets, **options)


@pytest.mark.slow
def test_the_suite_of_numba_cuda() -> None:
    told: list[tuple[float, str]] = []
    result = run(["current", "again=current"], keyword="one_arg", progress=lambda done, text: told.append((done, text)))
    measured = result.measured
    assert [(each.label, each.processes, each.error) for each in measured.targets] == [
        ("current", 2, None), ("again", 2, None)]
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
    assert {(row[0], row[2]) for row in measured.batches} == {(label, number) for label in ("current", "again")
                                                             for number in (0, 1)}
    assert all(row[7] / row[6] > 1_000 for row in measured.batches)  # nanoseconds a launch
    assert [text for _, text in told if "run" in text][1].startswith("run 1 of 2, again")
    # The second round begins with the other one.
    assert next(text for _, text in told if text.startswith("run 2")).startswith("run 2 of 2, again")
    assert all(0 <= done < 1 for done, _ in told)
    assert "one_arg" in str(result)


@pytest.mark.slow
def test_what_fails_and_what_is_skipped_is_said(mine: Any) -> None:
    mine()
    result = run(processes=1)
    assert [case.name for case in result.cases] == ["launch"]
    assert result.targets[0].unavailable == {"skipped": "skipped: not today", "wrong": "failed: RuntimeError: no luck"}
    assert result.targets[0].error is None


@pytest.mark.slow
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
    with pytest.raises(StudyError, match=r"'current': .* did not end in 8 seconds"):
        run(processes=1, timeout_s=8)


@pytest.mark.slow
def test_a_target_that_cannot_goes_without(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "empty"], check=True)
    result = run(["current", f"empty={tmp_path / 'empty'}"], keyword="one_arg and dispatch-device", processes=1)
    assert result.targets[0].processes == 1 and result.targets[0].error is None
    assert result.targets[1].processes == 0 and "numba" in (result.targets[1].error or "")


def test_a_target_without_the_tools_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running.environments, "run", lambda *_, **__: environments.Finished(
        0, json.dumps({"tools": ["pytest"], "folder": "/nowhere"}), ""))
    with pytest.raises(StudyError, match=r"'current': it has no pytest-benchmark: install them there, python\S* -m pip "
                                         "install pytest pytest-benchmark"):
        run()


@pytest.mark.slow
def test_a_target_without_benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "_LOOK", "print('{\"tools\": [\"pytest\", \"pytest_benchmark\"], \"folder\": null}')")
    result = run(keyword="one_arg and dispatch-device", processes=1)
    assert result.measured.settings["benchmarks"]["of"] == "this environment"
    monkeypatch.setattr(running, "SUITE", "numba/cuda/no/benchmarks")
    with pytest.raises(StudyError, match="'current': it has no benchmarks: no folder numba/cuda/no/benchmarks"):
        run()


@pytest.mark.slow
def test_an_interruption_keeps_what_was_run(mine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    mine()
    runs: list[int] = []

    def interrupted(*arguments: Any) -> Any:
        runs.append(1)
        if len(runs) == 3:
            raise KeyboardInterrupt
        return running.BenchmarkFile("run.json", rounds={"launch": (1, [1e-5])}, statements={"launch": "test_launch"})

    monkeypatch.setattr(running, "_one_run", interrupted)
    with pytest.raises(overhead.StudyInterrupted) as caught:
        run(["current", "again=current"])
    assert caught.value.result.measured.ended == "interrupted"
    assert [each.processes for each in caught.value.result.targets] == [1, 1]


def test_imports_are_changed_for_numba_cuda_mlir() -> None:
    text = ("from numba import cuda\nfrom numba.cuda.core import config\nfrom numba.cuda import types\n"
            "import numba.cuda.x\nskipif(config.ENABLE_CUDASIM)\n")
    for pattern, other in running._FOR_MLIR:
        text = pattern.sub(other, text)
    assert text == ("from numba_cuda_mlir import cuda\nfrom numba_cuda_mlir.numba_cuda.core import config\n"
                    "from numba_cuda_mlir.cuda import types\nimport numba_cuda_mlir.numba_cuda.x\nskipif(False)\n")
