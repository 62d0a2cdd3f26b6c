"""Quadrants on a real GPU: its kernels joined with its calls, graphs with and without CUPTI, and what falls back."""

from __future__ import annotations

import json

import numpy as np
import pytest

import kernelscope
from kernelscope.analysis.advice import graph_kernels

pytestmark = pytest.mark.gpu
qd = pytest.importorskip("quadrants")

N = 4096


@pytest.fixture(autouse=True)
def program():
    """A new program for each test, without a cache on disk."""
    qd.init(arch=qd.cuda, offline_cache=False, log_level=qd.ERROR)
    assert qd.cfg.arch == qd.cuda
    yield
    qd.reset()


def kernels():
    @qd.kernel
    def scale(x: qd.types.ndarray(qd.f32, ndim=1), a: qd.f32):
        for i in x:
            x[i] *= a

    @qd.kernel
    def three(x: qd.types.ndarray(qd.f32, ndim=1)):
        for i in x:
            x[i] += 1
        for i in x:
            x[i] *= 2
        for i in x:
            x[i] -= 3

    @qd.kernel(graph=True)
    def step(x: qd.types.ndarray(qd.f32, ndim=1), y: qd.types.ndarray(qd.f32, ndim=1)):
        for i in x:
            x[i] += 1
        for i in y:
            y[i] += x[i]

    @qd.kernel(graph=True)
    def loop(x: qd.types.ndarray(qd.f32, ndim=1), left: qd.types.ndarray(qd.i32, ndim=0)):
        while qd.graph.do_while(left):
            for i in x:
                x[i] += 1
            for _ in range(1):
                left[()] = left[()] - 1

    return {"scale": scale, "three": three, "step": step, "loop": loop}


def vector():
    made = qd.ndarray(qd.f32, shape=(N,))
    made.fill(0.0)
    return made


def launches_of(recording, name):
    found = [row["dispatcher_id"] for row in recording.rows("dispatchers") if row["name"].endswith(name)]
    return [row for row in recording.rows("launches") if row["dispatcher_id"] in found]


def events_of(recording, kind):
    return [row for row in recording.rows("graph_events") if row["kind"] == kind]


def own_health(recording):
    return [row for row in recording.rows("health") if row["probe"] == "quadrants" and row["status"] != "ok"]


def test_kernels_are_joined_with_their_calls():
    held, x = kernels(), vector()
    held["three"](x)
    with kernelscope.record() as r:
        for _ in range(5):
            held["three"](x)
    recording = r.recording
    assert own_health(recording) == []
    assert x.to_numpy()[0] != 0
    rows = launches_of(recording, "three")
    assert len(rows) == 5
    activities = recording.activities
    for row in rows:
        mine = activities[(activities.launch_id == row["launch_id"]) & (activities.kind == "kernel")]
        assert len(mine) >= 3, activities[["kind", "name", "api", "launch_id"]]
        assert row["execute_ns"] > 0
        # The grid is the activity's: the call hides it.
        assert recording.configurations.griddim_x.isna()[row["configuration_id"]]
        assert (recording.configurations.griddim_x.iloc[mine.configuration_id.astype(int)] > 0).all()


@pytest.mark.parametrize("gpu", ["cupti", "none"])
def test_graph_is_built_once_and_replayed(gpu):
    step, x, y = kernels()["step"], vector(), vector()
    with kernelscope.record(gpu=gpu) as r:
        for _ in range(6):
            step(x, y)
        step(y, x)  # other arguments, the same graph
    recording = r.recording
    assert own_health(recording) == []
    assert x.to_numpy()[0] == 6 + 22  # y is 1 + ... + 6, and 1 more when it is the first argument
    built, launched = events_of(recording, "instantiate"), events_of(recording, "launch")
    assert (len(built), len(launched)) == (1, 7)
    assert {row["exec_id"] for row in launched} == {built[0]["graph_event_id"]}
    held = json.loads(built[0]["attributes"])
    assert held["kernel"].endswith("step") and held["nodes"] >= 2 and held["cache_size"] == 1
    (found,) = graph_kernels(recording)
    assert (found.launches, found.replayed, found.plain) == (7, 7, 0)


def test_graph_from_before_recording():
    step, x, y = kernels()["step"], vector(), vector()
    step(x, y)
    with kernelscope.record(gpu="none") as r:
        step(x, y)
    assert [row["kind"] for row in r.recording.rows("graph_events")] == ["before", "launch"]


@pytest.mark.parametrize("gpu", ["cupti", "none"])
def test_loop_runs_on_the_gpu(gpu):
    loop, x = kernels()["loop"], vector()
    left = qd.ndarray(qd.i32, shape=())
    with kernelscope.record(gpu=gpu) as r:
        for _ in range(3):
            left.fill(10)
            loop(x, left)
    recording = r.recording
    assert x.to_numpy()[0] == 30
    assert own_health(recording) == []
    (found,) = graph_kernels(recording)
    assert (found.launches, found.replayed, found.plain, found.loops) == (3, 3, 0, 1)
    (built,) = events_of(recording, "instantiate")
    assert json.loads(built["attributes"])["do_while"] == [{"while": "left", "inside": None}]


def test_fall_back_is_told(run_python):
    result = run_python("""
import quadrants as qd
import kernelscope

qd.init(arch=qd.cuda, offline_cache=False, log_level=qd.ERROR)

@qd.kernel(graph=True)
def step(x: qd.types.ndarray(qd.f32, ndim=1)):
    for i in x:
        x[i] += 1
    for i in x:
        x[i] *= 2

x = qd.ndarray(qd.f32, shape=(64,))
with kernelscope.record() as r:
    for _ in range(3):
        step(x)
print(r.recording.summary())
""", QD_GRAPH="0")
    assert "3 of 3 launches of step, a graph kernel, fell back to plain launches" in " ".join(result.stdout.split())
    assert "QD_GRAPH" in result.stdout


def test_stream_is_recorded():
    scale, x = kernels()["scale"], vector()
    scale(x, 1.0)
    stream = qd.create_stream()
    with kernelscope.record(gpu="none") as r:
        scale(x, 2.0, qd_stream=stream)
        scale(x, 2.0)
    rows = launches_of(r.recording, "scale")
    streams = r.recording.configurations.stream
    assert [streams[row["configuration_id"]] for row in rows] == [stream.handle, 0]
    stream.synchronize()
    stream.destroy()


def test_compute_capability_is_the_devices():
    scale, x = kernels()["scale"], vector()
    with kernelscope.record(gpu="none") as r:
        scale(x, 2.0)
    row = r.recording.rows("specializations")[0]
    assert json.loads(row["attributes"])["arch"] == "cuda"
    assert float(row["compute_capability"]) >= 7


def test_results_are_the_same_while_recorded():
    held, x, y = kernels(), vector(), vector()
    for array in (x, y):
        array.fill(3.0)
    held["three"](x)
    with kernelscope.record():
        held["three"](y)
    np.testing.assert_array_equal(x.to_numpy(), y.to_numpy())
