"""Quadrants on a real GPU: its kernels joined with its calls, and graphs with and without CUPTI."""

from __future__ import annotations

import json

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

    return {"three": three, "step": step, "loop": loop}


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
