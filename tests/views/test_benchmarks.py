"""Recordings and studies as benchmarks of other programs: Bencher Metric Format, and pytest-benchmark's JSON."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from handmade import Script

from kernelscope import studies
from kernelscope.commands.cli import main
from kernelscope.errors import KernelScopeError
from kernelscope.recording.file import load
from kernelscope.views.benchmarks import WHOLE, Benchmark, pytest_benchmark
from kernelscope.views.card.model import Overview

HERE = Path(__file__).resolve().parents[2] / "notebooks" / "recordings"
STUDY = HERE / "launch_overhead.json"

#: https://bencher.dev/bmf.json
BMF: dict[str, Any] = {
    "$schema": "http://json-schema.org/draft-07/schema", "type": "object",
    "patternProperties": {".+": {"type": "object", "patternProperties": {".+": {
        "type": "object", "required": ["value"],
        "properties": {name: {"type": "number"} for name in ("value", "lower_value", "upper_value")}}}}}}


def exported(source: Path, form: str, path: Path) -> Any:
    assert main(["export", str(source), "--to", form, "-o", str(path)]) == 0
    return json.loads(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("source", [*sorted(HERE.glob("*.kscope")), STUDY], ids=lambda path: path.stem)
def test_bmf_is_as_bencher_s_schema_says(source: Path, tmp_path: Path) -> None:
    found = exported(source, "bmf", tmp_path / "out.bmf.json")
    jsonschema.validate(found, BMF)
    assert found
    for measures in found.values():
        for name, measure in measures.items():
            assert len(name) <= 64 and name == name.lower().replace("_", "-")
            assert measure.get("lower_value", 0) <= measure["value"] <= measure.get("upper_value", 1e18)


def test_kernels_have_the_card_s_numbers(tmp_path: Path) -> None:
    found = exported(HERE / "specializations.kscope", "bmf", tmp_path / "out.bmf.json")
    shown = Overview(load(HERE / "specializations.kscope"))
    axpy = next(each for each in shown.by_kernel if each.name == "axpy")
    assert found["axpy"]["latency"]["value"] == axpy.median_ns
    assert found["axpy"]["compiles"]["value"] == axpy.compiles
    assert found[WHOLE]["compiles"]["value"] == 17 and found[WHOLE]["wall-time"]["value"] == shown.wall_ns
    assert "cached #2" in found


def test_a_study_has_its_medians(tmp_path: Path) -> None:
    found = exported(STUDY, "bmf", tmp_path / "out.bmf.json")
    for each in studies.load(STUDY).estimates:
        measure = found[f"{each.case} [{each.target}]"]["latency"]
        assert measure["value"] == pytest.approx(each.median_us * 1000)
        assert measure["lower_value"] == pytest.approx(each.low_us * 1000)


@pytest.mark.parametrize("source", [HERE / "quickstart.kscope", HERE / "torch_training.kscope", STUDY],
                         ids=lambda path: path.stem)
def test_pytest_benchmark_compares_the_file(source: Path, tmp_path: Path) -> None:
    found = exported(source, "pytest-benchmark", tmp_path / "out.benchmark.json")
    assert {"machine_info", "commit_info", "benchmarks", "datetime", "version"} == set(found)
    ran = subprocess.run([sys.executable, "-c", "from pytest_benchmark.cli import main; main()", "compare",
                          str(tmp_path / "out.benchmark.json")],
                         capture_output=True, text=True, cwd=tmp_path, check=False,
                         env={**os.environ, "PYTHONPATH": str(HERE.parents[1])})
    assert ran.returncode == 0, ran.stderr
    assert all(each["name"][:20] in ran.stdout for each in found["benchmarks"])
    read = studies.read_benchmarks([str(tmp_path / "out.benchmark.json")])
    assert len(read.cases) == len(found["benchmarks"])


@pytest.mark.parametrize("times", [[5.0], [1.0, 2.0], [3.0, 1.0, 2.0], [1.0, 1.0, 2.0, 50.0, 3.0], [*range(1, 101)]])
def test_statistics_are_those_of_pytest_benchmark(times: list[float]) -> None:
    from pytest_benchmark.stats import Stats

    theirs = Stats()
    for each in times:
        theirs.update(each / 1e9)
    text = pytest_benchmark([Benchmark("a", "g", np.array(times))], {}, None)
    ours = json.loads(text)["benchmarks"][0]["stats"]
    assert set(theirs.as_dict()) <= {*ours, "data"}
    assert ours["median"] == pytest.approx(statistics.median(times) / 1e9)
    for name in ("min", "max", "mean", "stddev", "rounds", "median", "iqr", "q1", "q3", "ops", "total"):
        assert ours[name] == pytest.approx(getattr(theirs, name)), name


def test_what_cannot_be_written_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    empty = Script(name="empty").recording()
    with pytest.raises(KernelScopeError, match="no launch whose time is known"):
        empty.to_pytest_benchmark(tmp_path / "a.json")
    assert json.loads(empty.to_bmf(tmp_path / "b").read_text(encoding="utf-8"))[WHOLE]["launches"] == {"value": 0}
    for words, said in ((["--to", "html"], "a study can be written --to bmf or pytest-benchmark"),
                        (["--to", "bmf", "--cell", "1"], "--cell is about recordings")):
        with pytest.raises(SystemExit, match="2"):
            main(["export", str(STUDY), *words])
        assert said in capsys.readouterr().err
