"""Studies on a real GPU: every built-in case, also with torch and CuPy, the graphs' benchmark, numba-cuda's own."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kernelscope import studies
from kernelscope.studies.cases import groups

pytestmark = pytest.mark.gpu
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def every_case():
    return studies.launch_overhead("current", ["all"], processes=2, repeats=3, half_width=None, progress=False)


def test_every_case_runs(every_case):
    (target,) = every_case.targets
    assert target.error is None and not every_case.is_dry_run
    assert every_case.gpu["name"] and every_case.gpu["driver"]
    missing = {module for module in ("torch", "cupy") if importlib.util.find_spec(module) is None}
    assert {name.split()[1] for name in target.unavailable} == missing, target.unavailable
    assert {case.group for case in every_case.cases} == set(groups())


def test_cases_cost_what_they_should(every_case):
    cost = {each.case: each.median_us for each in every_case.estimates}
    assert 1 < cost["0 args"] < cost["4 args"] < cost["26 args"] < 1000
    assert cost["4 ints"] < cost["4 args"] < cost["4 host arrays"]
    # Six batches of each: on a shared host one process runs at another speed than the next.
    assert cost["4 args"] < 1.5 * cost["configured each time"]
    assert cost["graph of 20 kernels"] < cost["20 launches"] / 3
    assert 10 < cost["20 launches"] / cost["explicit stream"] < 30
    assert cost["4 args + recorder (phases)"] < 1.5 * cost["4 args + no recorder"] + 2


def test_the_device_is_not_what_is_waited_for(every_case):
    batches = every_case.batches
    launches = batches[batches["case"].isin(["0 args", "4 args", "26 args", "explicit stream"])]
    assert (launches["sync_ns"] < 0.5 * launches["host_ns"]).mean() > 0.8


def test_eager_against_a_graph(tmp_path):
    out = tmp_path / "eager_vs_graph.json"
    path = filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])
    subprocess.run([sys.executable, ROOT / "benchmarks" / "eager_vs_graph.py", out, "--rounds", "5", "--most", "20"],
                   check=True, timeout=300, env={**os.environ, "PYTHONPATH": os.pathsep.join(path)})
    measured = json.loads(out.read_text())
    assert not measured["is_dry_run"]
    last = measured["rows"][-1]
    assert last["kernels"] == 20 and 50 < last["kernel_us"] < 200  # asked for 100 µs
    assert min(last["eager_wall_ns"]) > 0.8e3 * 20 * last["kernel_us"]
    none = next(row for row in measured["rows"] if row["kernels"] == 20 and not row["spins"])
    assert sorted(none["graph_host_ns"])[2] < sorted(none["eager_host_ns"])[2]


@pytest.mark.skipif(importlib.util.find_spec("pytest_benchmark") is None, reason="needs pytest-benchmark")
def test_the_suite_of_numba_cuda():
    result = studies.suite("current", "one_arg", processes=2, max_time_s=0.1, progress=False)
    (target,) = result.targets
    assert target.error is None and target.processes == 2 and not result.is_dry_run
    assert all(each.median_us > 1 for each in result.estimates)
