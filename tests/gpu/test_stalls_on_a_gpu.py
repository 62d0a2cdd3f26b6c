"""Stall reasons by line on a real GPU: kernels whose hot line is known by construction. KERNELSCOPE_TEST_GPU=1."""

from __future__ import annotations

import ctypes
import inspect
import statistics
import time
from pathlib import Path

import numpy as np
import pytest

import kernelscope
from kernelscope.features.stalls.analyse import by_kernel

pytestmark = pytest.mark.gpu
cuda = pytest.importorskip("numba.cuda")
float32, float64, int64 = cuda.float32, cuda.float64, cuda.int64
COUNT = 1 << 22


@cuda.jit(lineinfo=True)
def scattered(y, x, order):
    i = cuda.grid(1)
    if i < y.size:
        j = order[i]
        y[i] = x[j] * float32(2)  # hot


@cuda.jit(lineinfo=True)
def conflicting(y):
    shared = cuda.shared.array(8192, float32)
    t = cuda.threadIdx.x
    shared[t] = t
    cuda.syncthreads()
    total = float32(0)
    for k in range(200):
        total += shared[(t * 32 + k) % 8192]  # hot
    y[cuda.grid(1)] = total


@cuda.jit(lineinfo=True)
def dividing(y):
    i = cuda.grid(1)
    a = float64(i + 1)
    for _ in range(100):
        a = 1.0 / (a + 1.5)  # hot
    y[i] = a


@cuda.jit(lineinfo=True)
def waiting(y):
    t = cuda.threadIdx.x
    a = float32(t)
    if t < 32:
        for _ in range(2000):
            a = a * float32(0.5) + float32(1)
    cuda.syncthreads()  # hot
    y[cuda.grid(1)] = a


@cuda.jit(lineinfo=True)
def counting(y):
    i = cuda.grid(1)
    for _ in range(20):
        cuda.atomic.add(y, i % 7, float32(1))  # hot


@cuda.jit(device=True, lineinfo=True)
def refined(a):
    for _ in range(64):
        a = a * a - float32(0.5) / (a + float32(1))  # hot
    return a


@cuda.jit(lineinfo=True)
def calling(y):
    i = cuda.grid(1)
    y[i] = refined(float32(i))


@cuda.jit(lineinfo=True)
def divided_integers(y, m):
    i = cuda.grid(1)
    a = i + 1234567
    for _ in range(64):
        a = a + (a * 7 + 98765432101) // (m + a)  # hot
    y[i] = a


@cuda.jit
def small(y):
    i = cuda.grid(1)
    if i < y.size:
        y[i] += 1


@pytest.fixture(scope="module")
def arrays():
    return make_arrays()


def make_arrays():
    order = np.random.default_rng(0).permutation(COUNT).astype(np.int32)
    return {"y": cuda.to_device(np.zeros(COUNT, np.float32)), "x": cuda.to_device(np.ones(COUNT, np.float32)),
            "order": cuda.to_device(order), "d": cuda.to_device(np.zeros(COUNT)),
            "n": cuda.to_device(np.zeros(COUNT, np.int64))}


def launches(arrays):
    """Each kernel with its arguments, its configuration, the function that has its hot line, and stalls of that."""
    y, x, order, d, n = (arrays[name] for name in ("y", "x", "order", "d", "n"))
    all_of_it = (COUNT // 256, 256)
    return [
        (scattered, all_of_it, (y, x, order), scattered, {"long_scoreboard"}),
        (conflicting, (4096, 1024), (y,), conflicting, {"short_scoreboard", "mio_throttle"}),
        (dividing, all_of_it, (d,), dividing, {"math_pipe_throttle", "wait", "short_scoreboard", "dispatch_stall"}),
        (waiting, (4096, 1024), (y,), waiting, {"barrier"}),
        (counting, all_of_it, (y,), counting, {"lg_throttle", "long_scoreboard", "drain", "membar"}),
        (calling, all_of_it, (y,), refined, None),
        (divided_integers, all_of_it, (n, 3), divided_integers, None),
    ]


def hot_line(function):
    lines, first = inspect.getsourcelines(function.py_func)
    return first + next(at for at, line in enumerate(lines) if line.rstrip().endswith("# hot"))


def run(each, times=5):
    kernel, configuration, arguments, *_ = each
    for _ in range(times):
        kernel[configuration](*arguments)


def stated(recording):
    row, = (row for row in recording.rows("health") if row["probe"] == "stalls")
    return row


@pytest.mark.parametrize("stalls", [True, "launches"])
def test_the_hot_line_of_each_kernel_is_found(arrays, stalls):
    with kernelscope.record(stalls=stalls) as r:
        for each in launches(arrays):
            run(each)
    recording = r.recording
    print(recording.summary()[-6000:])
    found = {each.kernel.rpartition(".")[2]: each for each in by_kernel(recording)}
    wrong = {}
    for kernel, _, _, function, reasons in launches(arrays):
        name = kernel.py_func.__name__
        first = found[name].lines[0] if name in found and found[name].lines else None
        print(name, None if first is None else (first.line, first.text, first.share, first.reasons[:4]))
        if first is None or first.line != hot_line(function) or (reasons and first.main not in reasons):
            wrong[name] = first
    assert not wrong
    assert stated(recording)["status"] == "ok", stated(recording)
    # What CUPTI records beside it is all there.
    assert len(recording.launches) == 35
    assert recording.launches.execute_ns.notna().all()
    assert recording.pc_samples.launch_id.notna().all() == (stalls == "launches")
    # A recording without samples after it is whole too.
    with kernelscope.record() as r:
        run(launches(arrays)[0])
    assert not len(r.recording.pc_samples)
    assert r.recording.launches.execute_ns.notna().all()


def test_sampling_slows_a_cell_down_little(arrays):
    y = cuda.to_device(np.zeros(1 << 24, np.float32))
    launch = small[(1 << 24) // 256, 256]

    def cell():
        begin = time.perf_counter()
        for _ in range(1000):
            launch(y)
        cuda.synchronize()
        return time.perf_counter() - begin

    cell()
    times = {"none": [], "record": [], "stalls": []}
    for _ in range(5):
        times["none"].append(cell())
        with kernelscope.record():
            times["record"].append(cell())
        with kernelscope.record(stalls=True) as r:
            times["stalls"].append(cell())
    none, record, stalls = (statistics.median(each) for each in times.values())
    print(f"1,000 launches: {none * 1e3:.2f} ms, recorded {record / none - 1:+.2%}, "
          f"with stalls {stalls / none - 1:+.2%}, over recording {stalls / record - 1:+.2%}; {times}")
    print(r.recording.health[["probe", "message"]].to_string())
    assert stalls < 1.05 * record


def test_little_room_at_once_loses_nothing(arrays, monkeypatch):
    counts = []
    for room in (8192, 20):
        monkeypatch.setattr("kernelscope.features.stalls.pc_sampling._ROOM", room)
        with kernelscope.record(stalls=True) as r:
            run(launches(arrays)[5])
        assert stated(r.recording)["status"] == "ok", stated(r.recording)
        counts.append((r.recording.pc_samples.pc_offset.nunique(), int(r.recording.pc_samples.samples.sum())))
    print("instructions and samples:", counts)
    (instructions, samples), (others, of_others) = counts
    assert min(instructions, others) > 100
    assert of_others == pytest.approx(samples, rel=0.1)


def test_kernels_of_a_context_that_is_made_meanwhile_are_counted(arrays):
    driver, code = ctypes.CDLL("libcuda.so.1"), (
        b".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry nothing()\n{\n    ret;\n}\n")
    context, module, function, popped = (ctypes.c_void_p() for _ in range(4))
    with kernelscope.record(stalls=True) as r:
        run(launches(arrays)[0])
        results = [driver.cuCtxCreate_v2(ctypes.byref(context), 0, 0),
                   driver.cuModuleLoadData(ctypes.byref(module), code),
                   driver.cuModuleGetFunction(ctypes.byref(function), module, b"nothing"),
                   *(driver.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, None, None) for _ in range(3)),
                   driver.cuCtxSynchronize(), driver.cuCtxPopCurrent_v2(ctypes.byref(popped))]
    driver.cuCtxDestroy_v2(context)
    assert not any(results), results
    row = stated(r.recording)
    print(row)
    assert row["status"] == "degraded"
    assert "; 3 kernels ran in CUDA contexts that were made after recording began" in row["message"]
    assert len(r.recording.pc_samples)


def test_recordings_after_one_another_are_whole(arrays):
    counts = []
    for _ in range(10):
        with kernelscope.record(stalls=True) as r:
            run(launches(arrays)[0], 3)
        assert r.recording.launches.execute_ns.notna().all()
        counts.append(int(r.recording.pc_samples.samples.sum()))
    print(counts)
    assert min(counts) > 0


def test_kernels_that_were_loaded_between_recordings_are_sampled_too(run_python):
    """In a process of its own: after lanes were recorded, CUPTI does not tell of kernels that are loaded since."""
    assert run_python(f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
import test_stalls_on_a_gpu
test_stalls_on_a_gpu.record_kernels_that_were_loaded_between()
print("all of them were sampled")
""").stdout.endswith("all of them were sampled\n")


def record_kernels_that_were_loaded_between():
    first, *_ = launches(make_arrays())
    with kernelscope.record(stalls=True):
        run(first)
    for between in ({}, {"metrics": "basic"}, {"metrics": "full"}):
        with kernelscope.record(**between):
            run(first)
        loaded = (cuda.jit(lineinfo=True)(scattered.py_func), *first[1:])
        run(loaded)
        with kernelscope.record(**between) as r:
            run(loaded)
        assert len(r.recording.measurements) == bool(between.get("metrics")), (between, r.recording.health)
        with kernelscope.record(stalls=True) as r:
            run(loaded)
        assert stated(r.recording)["status"] == "ok", (between, stated(r.recording))
        assert by_kernel(r.recording)[0].lines, between
        assert r.recording.launches.execute_ns.notna().all(), between


def test_a_recording_after_lanes_is_whole(arrays):
    for options in ({"lanes": True}, {"stalls": True}, {}):
        with kernelscope.record(**options) as r:
            run(launches(arrays)[0])
        assert r.recording.launches.execute_ns.notna().all(), options
        assert bool(len(r.recording.pc_samples)) == ("stalls" in options)
