"""Recordings and other profilers in one process: in either order, inside each other, and in turn."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

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


def found(*steps: Any, code: str = CODE) -> list[list]:
    done = subprocess.run([sys.executable, "-c", code, json.dumps(steps)], capture_output=True, text=True, timeout=170)
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


JAX_CODE = """
import glob, json, os, sys, tempfile, warnings
warnings.simplefilter("ignore")
os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
import jax, jax.numpy as jnp, kernelscope
f = jax.jit(lambda x: x + 1)
x = f(jnp.ones(1 << 14))
x.block_until_ready()
found = []

def kernels(folder):
    (path,) = glob.glob(folder + "/**/*.xplane.pb", recursive=True)
    return sum(len(list(line.events)) for plane in jax.profiler.ProfileData.from_file(path).planes
               if "GPU" in plane.name for line in plane.lines if line.name.startswith("Stream"))

def run(step):
    global x
    kind, *rest = step
    if kind == "work":
        for _ in range(rest[0]):
            x = f(x)
        x.block_until_ready()
        return rest[0]
    if kind == "ours":
        with kernelscope.record() as recorded:
            count = sum(run(each) for each in rest)
        r = recorded.recording
        said = [row["message"] for row in r.rows("health") if row["probe"] == "cupti"]
        found.append(["ours", count, int((r.activities.kind == "kernel").sum()), said])
        assert len(r.launches) == found[-1][2], (len(r.launches), found, r.activities.to_string())
    else:
        with tempfile.TemporaryDirectory() as folder:
            with jax.profiler.trace(folder):
                count = sum(run(each) for each in rest)
            found.append(["theirs", count, kernels(folder), []])
    return count

for step in json.loads(sys.argv[1]):
    run(step)
print(json.dumps(found))
"""


@pytest.mark.parametrize("steps", [
    pytest.param([ours(work(5)), theirs(work(4)), ours(work(3))], id="ours, JAX's, ours"),
    pytest.param([theirs(work(4)), ours(work(5)), theirs(work(3))], id="JAX's, ours, JAX's"),
    pytest.param([each for at in range(5) for each in (ours(work(2 + at)), theirs(work(3 + at)))], id="five times"),
    pytest.param([ours(work(2), theirs(work(3)), work(1), theirs(work(2)), work(4))], id="JAX's twice inside ours"),
    pytest.param([theirs(work(2), ours(work(3)), work(1))], id="ours inside JAX's"),
])
def test_jaxs_profiler_loses_nothing_and_ours_says_what_it_does_not_have(steps: list) -> None:
    pytest.importorskip("jax")
    nested = any(isinstance(each, list) and each[0] in ("ours", "theirs") for step in steps for each in step[1:])
    inside = sum(each[1] for step in steps for part in step[1:] if step[0] == "ours" and part[0] == "theirs"
                 for each in part[1:])
    for who, launched, seen, said in found(*steps, code=JAX_CODE):
        if who == "ours" and nested:
            assert any("JAX's profiler ran for" in each for each in said), said
            assert seen == (launched - inside if inside else 0), said
        else:
            assert seen == launched and not any("JAX" in each for each in said), (who, said)


CUPY_CODE = """
import json, sys, warnings
warnings.simplefilter("ignore")
import cupy, cupyx.profiler, kernelscope
kernel = cupy.RawKernel('extern "C" __global__ void twice(float* x) { x[threadIdx.x] *= 2; }', "twice")
x = cupy.ones(32, "float32")

def work():
    kernel((1,), (32,), (x,))

work()
found = []
for how in json.loads(sys.argv[1]):
    with kernelscope.record() as recorded:
        if how == "benchmark":
            done = cupyx.profiler.benchmark(work, n_repeat=5, n_warmup=2)
            assert done.gpu_times.shape == (1, 5) and (done.gpu_times > 0).all()
        elif how == "profile":
            with cupyx.profiler.profile():
                for _ in range(7):
                    work()
        elif how == "range":
            with cupyx.profiler.time_range("seven"):
                for _ in range(7):
                    work()
        cupy.cuda.Device().synchronize()
    r = recorded.recording
    found.append([how, 7, int((r.activities.name == "twice").sum()), r.ranges.name.tolist() + [
        row["message"] for row in r.rows("health") if row["status"] != "ok"]])
print(json.dumps(found))
"""


def test_cupys_profilers_inside_ours() -> None:
    pytest.importorskip("cupy")
    for how, launched, seen, said in found("benchmark", "profile", "range", "benchmark", code=CUPY_CODE):
        assert seen == launched, (how, said)


@pytest.mark.parametrize("tool", [["ncu", "--section", "LaunchStats"], ["nsys", "profile", "-o", "report"]])
def test_nsight_is_told_by_name(tool: list[str], tmp_path: Path) -> None:
    pytest.importorskip("cupy")
    if shutil.which(tool[0]) is None:
        pytest.skip(f"no {tool[0]}")
    result, code = tmp_path / "result.json", tmp_path / "code.py"
    code.write_text(CUPY_CODE.replace("print(", f"open({str(result)!r}, 'w').write("))
    done = subprocess.run([*tool, sys.executable, code, '["profile"]'], capture_output=True, text=True, timeout=170,
                          cwd=tmp_path)
    assert result.exists(), done.stdout + done.stderr
    ((_, _, seen, said),) = json.loads(result.read_text())
    name = {"ncu": "Nsight Compute", "nsys": "Nsight Systems"}[tool[0]]
    assert any(name in each for each in said), (seen, said)
