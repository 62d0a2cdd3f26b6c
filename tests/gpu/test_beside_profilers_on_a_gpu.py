"""Recordings and other profilers in one process: in either order, inside each other, and in turn."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(180)]

CODE = """
import json, sys, threading, warnings
warnings.simplefilter("ignore")
import torch, kernelscope
from torch.profiler import ProfilerActivity as Activity, profile, schedule
x, y = (torch.ones(1 << 14, device="cuda") for _ in range(2))
y.add_(x); torch.cuda.synchronize()
found = []

def work(count):
    for _ in range(count):
        y.add_(x)
    torch.cuda.synchronize()

def kernels(profiler):
    return sum(1 for each in profiler.profiler.kineto_results.events()
               if str(each.device_type()).endswith("CUDA") and "vectorized_elementwise" in each.name())

def run(step):
    '''Run a step; return how many kernels it launched.'''
    kind, *rest = step
    if kind == "work":
        work(rest[0])
        return rest[0]
    if kind == "ours":
        with kernelscope.record() as recorded:
            count = sum(run(each) for each in rest)
        r = recorded.recording
        ran = r.activities[r.activities.kind == "kernel"]
        assert len(r.launches) == len(ran) and ran.launch_id.is_unique, (
            r.launches[["start_ns", "submit_start_ns", "submit_end_ns", "end_ns", "correlation_id"]].to_string(),
            r.activities[["name", "api", "launch_id", "thread_id", "submit_start_ns", "correlation_id"]].to_string(),
            r.api_calls[["name", "start_ns", "end_ns"]].to_string())
        said = [row["message"] for row in r.rows("health") if row["probe"] == "cupti"]
        found.append(["ours", count, len(ran), said])
    elif kind in ("theirs", "cpu"):
        with profile(activities=[Activity.CPU] + [Activity.CUDA] * (kind == "theirs")) as profiler:
            count = sum(run(each) for each in rest)
        if kind == "theirs":
            found.append(["theirs", count, kernels(profiler), []])
    elif kind == "schedule":
        seen, count = [], 0
        with profile(activities=[Activity.CPU, Activity.CUDA], schedule=schedule(wait=1, warmup=1, active=2, repeat=2),
                     on_trace_ready=lambda each: seen.append(kernels(each))) as profiler:
            for _ in range(8):
                work(3)
                count += 3
                profiler.step()
        found.append(["theirs", 12, sum(seen), []])
    elif kind == "thread":
        counts = []
        thread = threading.Thread(target=lambda: counts.append(sum(run(each) for each in rest)))
        thread.start(); thread.join()
        count = counts[0]
    elif kind == "jax":
        import jax, jax.numpy as jnp, tempfile
        with tempfile.TemporaryDirectory() as folder, jax.profiler.trace(folder):
            jnp.ones(16).block_until_ready()
        count = 0
    elif kind == "cupy":
        import cupy
        with cupy.cuda.profile():
            count = sum(run(each) for each in rest)
    elif kind == "numba":
        from numba import cuda
        global scale, held
        count = rest[0]
        if "scale" not in globals():
            count += 1
            @cuda.jit
            def scale(a):
                a[0] += 1
            held = cuda.device_array(8)
            scale[1, 1](held)
        for _ in range(rest[0]):
            scale[1, 1](held)
        cuda.synchronize()
    return count

for step in json.loads(sys.argv[1]):
    run(step)
print(json.dumps(found))
"""


def found(*steps: list) -> list[list]:
    done = subprocess.run([sys.executable, "-c", CODE, json.dumps(steps)], capture_output=True, text=True, timeout=170)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def ours(*steps: list) -> list:
    return ["ours", *steps]


def theirs(*steps: list) -> list:
    return ["theirs", *steps]


def work(count: int) -> list:
    return ["work", count]


@pytest.mark.parametrize("steps", [
    pytest.param([ours(work(5)), theirs(work(4)), ours(work(3))], id="ours, theirs, ours"),
    pytest.param([theirs(work(4)), ours(work(5)), theirs(work(3))], id="theirs, ours, theirs"),
    pytest.param([["cpu", work(2)], ours(work(5)), theirs(work(2))], id="theirs of the CPU, ours"),
    pytest.param([ours(work(3), theirs(work(4)), work(2))], id="theirs inside ours"),
    pytest.param([theirs(work(1)), ours(work(3), theirs(work(4)), work(2))], id="theirs, theirs inside ours"),
    pytest.param([ours(work(1), theirs(work(2)), work(3), theirs(work(4)), work(5))], id="theirs twice inside ours"),
    pytest.param([each for at in range(10) for each in (ours(work(2 + at)), theirs(work(3 + at)))], id="ten times"),
    pytest.param([ours(work(2), ["schedule"], work(2))], id="a schedule inside ours"),
    pytest.param([["schedule"], ours(work(4))], id="a schedule, ours"),
    pytest.param([ours(work(2), ours(work(3), theirs(work(4))), work(1))], id="theirs inside ours inside ours"),
    pytest.param([ours(work(2), ["thread", theirs(work(3))], work(1))], id="theirs on another thread inside ours"),
    pytest.param([ours(work(2)), ["jax"], ours(work(3))], id="ours, JAX's, ours"),
    pytest.param([ours(work(2), ["cupy", work(3)], work(1))], id="CuPy's inside ours"),
    pytest.param([theirs(work(2)), ours(["numba", 6], work(3))], id="theirs, ours of two frameworks"),
])
def test_nobody_loses_an_event(steps: list) -> None:
    for who, launched, seen, said in found(*steps):
        assert seen == launched, (who, said)


def test_inside_torchs_profiler_that_loses_nothing_and_ours_says_so() -> None:
    (_, launched, _, said), (_, all_of_them, seen, _) = found(theirs(work(2), ours(work(3)), work(1)))
    assert (launched, all_of_them, seen) == (3, 6, 6)
    assert any("still ran when this recording ended" in each or "took" in each for each in said), said
