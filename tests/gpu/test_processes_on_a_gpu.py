"""Several processes on one GPU: each records itself, and the merged recording has their kernels apart."""

from __future__ import annotations

import os
import subprocess
import sys

import pandas as pd
import pytest

import kernelscope

pytestmark = pytest.mark.gpu
pytest.importorskip("numba.cuda")

LAUNCHES = 40
# The package may be on PYTHONPATH only, where no .pth file is read.
PROGRAM = f"""
import kernelscope; kernelscope.processes.start_from_environment()
import os, sys, time
from pathlib import Path
import numpy as np
from numba import cuda

@cuda.jit
def spin(x, rounds):
    for _ in range(rounds):
        x[0] = x[0] * 0.999 + 1

@cuda.jit
def of_the_first(x):
    x[0] += 1

@cuda.jit
def of_the_second(x):
    x[0] += 2

own = of_the_second if os.environ["RANK"] == "1" else of_the_first
x = cuda.to_device(np.ones(1, np.float32))
own[1, 1](x)
spin[1, 1](x, 1)
here = Path(sys.argv[0]).parent
(here / ("ready-" + os.environ["RANK"])).touch()
while len(list(here.glob("ready-*"))) < 2:
    time.sleep(0.001)
for _ in range({LAUNCHES} - 1):
    spin[1, 1](x, 100_000)
cuda.synchronize()
"""


@pytest.fixture(scope="module")
def merged(tmp_path_factory: pytest.TempPathFactory) -> kernelscope.Recording:
    """Two ranks that launch at the same time on the same GPU."""
    folder = tmp_path_factory.mktemp("ranks")
    (folder / "spin.py").write_text(PROGRAM)
    usual = {**os.environ, "KERNELSCOPE_RECORD": str(folder / "run"), "WORLD_SIZE": "2",
             "NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS": "0"}
    ranks = [
        subprocess.Popen([sys.executable, str(folder / "spin.py")], env={**usual, "RANK": rank, "LOCAL_RANK": rank},
                         stderr=subprocess.PIPE, text=True)
        for rank in "01"]
    said = [each.communicate(timeout=120)[1] for each in ranks]
    assert [each.returncode for each in ranks] == [0, 0], said
    return kernelscope.processes.collect(folder / "run")


def kernels_of(recording: kernelscope.Recording) -> pd.DataFrame:
    found = recording.activities
    return found[found.kind == "kernel"]


def test_each_rank_is_a_process_and_they_share_the_gpu(merged: kernelscope.Recording):
    processes = merged.processes
    assert sorted(processes["rank"]) == [0, 1]
    assert set(processes.status) == {"ok"}
    assert len(merged.devices) == 1
    assert processes.gpu_uuid.tolist() == merged.devices.uuid.tolist() * 2
    assert sorted(merged.dispatchers.name) == ["of_the_first", "of_the_second", "spin"]


def test_the_kernels_of_each_are_apart(merged: kernelscope.Recording):
    for process in merged.processes.itertuples():
        own = merged.select(process=process.process_id)
        assert len(own.launches) == len(kernels_of(own)) == LAUNCHES + 1
        other = "of_the_first" if process.rank == 1 else "of_the_second"
        assert not kernels_of(own).name.str.contains(other).any()


def test_no_kernel_runs_before_its_launch_on_the_clock_of_both(merged: kernelscope.Recording):
    kernels = kernels_of(merged)
    joined = kernels.merge(merged.launches, on="launch_id", suffixes=("", "_of_launch"))
    assert len(joined) == 2 * LAUNCHES + 2
    assert (joined.start_ns >= joined.start_ns_of_launch).all()
    # Both launched at the same time: each has kernels while the other has.
    spins = kernels[kernels.name.str.contains("spin")].groupby("process_id")
    assert spins.start_ns.nth(1).max() < spins.end_ns.max().min()
