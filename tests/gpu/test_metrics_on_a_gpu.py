"""The GPU's counters of launches, read while a cell runs: on a real GPU."""

from __future__ import annotations

import subprocess
import sys
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
                 if each["measurement_id"] == row["measurement_id"] and each["pc_offset"] is None}


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
    assert stated(recording)[0][0] == "ok"
    assert y.copy_to_host()[[0, -1]].tolist() == [7, 7] and n.copy_to_host()[0] == 3 * 128
    assert len(recording.launches) == 6 and len(recording.measurements) == 2
    row, values = measured(recording, "axpy")
    assert (row["launch_id"], row["specialization_id"], row["number"], row["metric_set"]) == (0, 0, 0, wanted)
    assert set(values) == set(kernelscope.features.metrics.sets.SETS[wanted])
    if "dram__bytes.sum" in values:
        assert values["dram__bytes.sum"] == pytest.approx(3 * 4 * N, rel=0.05)
    if wanted in ("roofline", "full"):
        assert values["sm__sass_thread_inst_executed_op_ffma_pred_on.sum"] == N
        assert values["sm__sass_thread_inst_executed_op_dadd_pred_on.sum"] == 0
        assert values["sm__sass_thread_inst_executed_op_ffma_pred_on.sum.peak_sustained"] > 0


@cuda.jit(lineinfo=True)
def strided(x, y):
    i = cuda.grid(1) * 8
    if i < x.size:
        y[i] = x[i] / 3


@cuda.jit
def wait_for(flag):
    while not cuda.atomic.add(flag, 0, 0):
        pass


@cuda.jit
def raise_flag(flag):
    cuda.atomic.add(flag, 0, 1)


def test_what_single_instructions_did_is_kept(arrays):
    x, y = arrays
    with kernelscope.record(metrics="memory") as recorder:
        strided[N // 8 // 256, 256](x, y)
        axpy[N // 256, 256](np.float32(2), x, y)
    _, values = measured(recorder.recording, "strided")
    assert values["smsp__sass_sectors_mem_global.sum"] == 2 * N // 8
    assert values["smsp__sass_sectors_mem_global_ideal.sum"] == 2 * N // 8 // 8
    single = [row for row in recorder.recording.rows("metrics") if row["pc_offset"] is not None]
    assert sum(row["value"] for row in single if row["name"] == "smsp__sass_sectors_mem_global.sum"
               and row["measurement_id"] == 0) == 2 * N // 8


def test_advice_names_the_line(arrays):
    x, y = arrays
    with kernelscope.record(metrics="full", code=True) as recorder:
        strided[N // 8 // 256, 256](x, y)
    recording = recorder.recording
    assert stated(recording)[0][0] == "ok", stated(recording)
    said = " ".join(repr(kernelscope.metrics(recording)).split())
    print(said)
    far = said[said.index("access global memory far apart"):]
    assert "of the sectors too many are at line" in far and "`y[i] = x[i] / 3`" in far
    assert recording.devices.copy_bytes_per_second[0] > 5e11
    print(recording.roofline())


def test_what_was_first_in_the_process_is_measured_too():
    program = """if True:
        import numpy as np, kernelscope
        from numba import cuda
        @cuda.jit
        def k(x):
            x[cuda.grid(1)] += 1
        with kernelscope.record(metrics="full") as r:
            x = cuda.to_device(np.zeros(256, np.float32))
            k[1, 256](x)
        print(r.recording.rows("health"))
        assert len(r.recording.measurements) == 1 and x.copy_to_host().tolist() == [1] * 256
    """
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


def test_what_the_caller_repeats_is_one_range(arrays, capsys):
    x, y = arrays
    calls = []

    def call():
        calls.append(0)
        axpy[N // 256, 256](np.float32(2), x, y)

    view = kernelscope.metrics(call, metrics="full", replay="user")
    row, values = measured(view.recording, "axpy")
    assert "passes, and so often it is called" in capsys.readouterr().err
    assert row["replay"] == "user" and row["passes"] == len(calls) > 3
    assert y.copy_to_host()[[0, -1]].tolist() == [1 + 2 * len(calls)] * 2, "nothing is restored"
    assert values["dram__bytes.sum"] == pytest.approx(3 * 4 * N, rel=0.1)
    assert values["sm__sass_thread_inst_executed_op_ffma_pred_on.sum"] == N
    alone = kernelscope.metrics(axpy[N // 256, 256], np.float32(2), x, y, metrics="full")
    assert values["gpu__time_duration.sum"] > alone.kernels[0].duration_ns, "the GPU waited for the launch too"


def test_kernels_that_wait_for_one_another_are_measured_as_one_range():
    flag, streams = cuda.to_device(np.zeros(1, np.int32)), [cuda.stream(), cuda.stream()]
    wait_for[1, 1](cuda.to_device(np.ones(1, np.int32)))
    raise_flag[1, 1](cuda.to_device(np.ones(1, np.int32)))
    cuda.synchronize()

    def call():
        flag.copy_to_device(np.zeros(1, np.int32))
        wait_for[1, 1, streams[0]](flag)
        raise_flag[1, 1, streams[1]](flag)
        cuda.synchronize()

    view = kernelscope.metrics(call, replay="user")
    (row,) = view.recording.rows("measurements")
    assert [each.rpartition(".")[2] for each in row["name"].split(" + ")] == ["wait_for", "raise_flag"]
    assert view.kernels[0].duration_ns > 0


def test_only_kernels_that_are_named_are_measured(arrays):
    x, y = arrays
    with kernelscope.record(metrics="basic", metrics_of="str*") as recorder:
        axpy[N // 256, 256](np.float32(2), x, y)
        strided[N // 8 // 256, 256](x, y)
    assert [row["name"] for row in recorder.recording.rows("measurements")] == ["strided"]


@pytest.mark.parametrize("wanted", ["basic", "full"])
@pytest.mark.parametrize("kind", ["mapped", "managed"])
def test_memory_of_the_host_is_restored_too(kind, wanted):
    n = {"mapped": cuda.mapped_array, "managed": cuda.managed_array}[kind](1, np.float32)
    n[0] = 0
    with kernelscope.record(metrics=wanted) as recorder:
        count[4, 32](n)
        cuda.synchronize()
    print(kind, wanted, n[0], stated(recorder.recording))
    assert n[0] == 128


def test_launches_that_are_captured_are_not_run(arrays):
    import cupy

    scale = cupy.RawKernel('extern "C" __global__ void scale(float *x) { x[threadIdx.x] *= 2.0f; }', "scale")
    held = cupy.ones(32, np.float32)
    stream = cupy.cuda.Stream(non_blocking=True)
    with kernelscope.record(metrics="roofline") as recorder, stream:
        stream.begin_capture()
        scale((1,), (32,), (held,))
        graph = stream.end_capture()
        graph.launch()
        stream.synchronize()
    assert held.get().tolist() == [2.0] * 32
    assert not recorder.recording.rows("measurements")
    assert "1 launch that graphs were captured of" in stated(recorder.recording)[0][1]


def test_recordings_after_measurements_are_complete(arrays):
    x, y = arrays
    for turn in range(20):
        with kernelscope.record(metrics="full" if turn % 2 else "basic") as recorder:
            axpy[N // 256, 256](np.float32(2), x, y)
        assert len(recorder.recording.measurements) == 1
        if turn % 2:
            assert measured(recorder.recording, "axpy")[1]["sm__sass_thread_inst_executed_op_ffma_pred_on.sum"] == N
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


def test_the_magic_runs_a_cell_again_and_shows_what_was_measured(tmp_path, monkeypatch, capsys):
    pytest.importorskip("IPython")
    from IPython.core.interactiveshell import InteractiveShell

    monkeypatch.chdir(tmp_path)
    shell = InteractiveShell.instance()
    try:
        for cell in ("%load_ext kernelscope", """\
import numpy as np
from numba import cuda

@cuda.jit(lineinfo=True)
def add(x, y):
    i = cuda.grid(1)
    if i < x.size:
        x[i] += 0.5 * y[i]

x, y = (cuda.to_device(np.ones(1 << 22, np.float32)) for _ in range(2))
""", "%%kernelscope -q\nfor _ in range(3):\n    add[1 << 14, 256](x, y)\ncuda.synchronize()\n",
                     "%kernelscope metrics add --set full", "assert x.copy_to_host()[0] == 1 + 2 * 3 * 0.5"):
            shell.run_cell(cell, store_history=True).raise_error()
        said = " ".join(capsys.readouterr().out.split())
        print(said)
        for told in ("is run again", "runs in 10 passes, which takes about", "1 launch measured, each in 10 passes",
                     "4,194,304 double-precision operations", "`x[i] += 0.5 * y[i]`", "achieved occupancy"):
            assert told in said, told
        shell.run_cell("%kernelscope metrics nothing", store_history=True)
        printed = capsys.readouterr()
        assert "no recorded cell launched 'nothing'" in printed.out + printed.err
    finally:
        shell.run_cell("%unload_ext kernelscope")
        InteractiveShell.clear_instance()
