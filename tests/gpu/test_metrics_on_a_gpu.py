"""The GPU's counters of launches, read while a cell runs: on a real GPU."""

from __future__ import annotations

import time

import numpy as np
import pytest
from numba import cuda, float32

import kernelscope

pytestmark = pytest.mark.gpu

N = 1 << 24


@cuda.jit
def axpy(a, x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] += a * x[i]


@cuda.jit
def count(n):
    cuda.atomic.add(n, 0, float32(1))


def measured(recording, name):
    (row,) = [row for row in recording.rows("measurements") if row["name"] == name]
    return row, {each["name"]: each["value"] for each in recording.rows("metrics")
                 if each["measurement_id"] == row["measurement_id"]}


def stated(recording):
    return [(row["status"], row["message"]) for row in recording.rows("health") if row["probe"] == "metrics"]


@pytest.fixture
def arrays():
    return cuda.to_device(np.ones(N, np.float32)), cuda.to_device(np.ones(N, np.float32))


@pytest.mark.parametrize("wanted", ["basic", "roofline", "memory", "full"])
def test_each_kernel_s_first_launch_is_measured_and_memory_is_as_after_one_launch(arrays, wanted):
    x, y = arrays
    n = cuda.to_device(np.zeros(1, np.float32))
    axpy[1, 1](np.float32(0), x, y)
    count[1, 1](n)
    n.copy_to_device(np.zeros(1, np.float32))
    cuda.synchronize()
    begun = time.perf_counter()
    with kernelscope.record(metrics=wanted) as recorder:
        for _ in range(3):
            axpy[N // 256, 256](np.float32(2), x, y)
            count[4, 32](n)
    print(wanted, f"{time.perf_counter() - begun:.3f} s", stated(recorder.recording))
    recording = recorder.recording
    assert stated(recording)[0][0] == ("degraded" if wanted != "basic" else "ok")
    assert y.copy_to_host()[[0, -1]].tolist() == [7, 7] and n.copy_to_host()[0] == 3 * 128
    assert len(recording.launches) == 6 and len(recording.measurements) == 2
    row, values = measured(recording, "axpy")
    assert (row["launch_id"], row["specialization_id"], row["number"], row["metric_set"]) == (0, 0, 0, wanted)
    assert set(values) == set(kernelscope.counters.sets.SETS[wanted])
    if "dram__bytes.sum" in values:
        assert values["dram__bytes.sum"] == pytest.approx(3 * 4 * N, rel=0.05)
    if wanted in ("roofline", "full"):
        assert values["sm__sass_thread_inst_executed_op_ffma_pred_on.sum"] is None, "not the 0 that CUPTI returns"
        assert values["sm__sass_thread_inst_executed_op_ffma_pred_on.sum.peak_sustained"] > 0


def test_recordings_after_measurements_are_complete(arrays):
    x, y = arrays
    for _ in range(20):
        with kernelscope.record(metrics="basic") as recorder:
            axpy[N // 256, 256](np.float32(2), x, y)
        assert len(recorder.recording.measurements) == 1
        with kernelscope.record() as recorder:
            for _ in range(5):
                axpy[N // 256, 256](np.float32(2), x, y)
        activities = recorder.recording.activities
        assert activities.kind.eq("kernel").sum() == 5
        assert recorder.recording.launches.execute_ns.notna().all()


def test_an_unknown_metric_is_said_and_the_cell_runs(arrays):
    x, y = arrays
    with kernelscope.record(metrics="sm__nothing.sum") as recorder:
        axpy[N // 256, 256](np.float32(2), x, y)
    ((status, message),) = stated(recorder.recording)
    assert status == "unavailable" and "the metric sm__nothing.sum cannot be measured" in message
    with kernelscope.record(metrics="basic") as recorder:
        axpy[N // 256, 256](np.float32(2), x, y)
    assert stated(recorder.recording)[0][0] == "ok"
