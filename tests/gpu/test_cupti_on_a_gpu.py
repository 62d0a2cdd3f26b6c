"""What CUPTI says of a real GPU: joined with launches, checked against CUDA events, with other clients about."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import kernelscope

pytestmark = pytest.mark.gpu
cuda = pytest.importorskip("numba.cuda")


@pytest.fixture(scope="module")
def spin():
    @cuda.jit
    def spin(out, rounds):
        value = 1.0
        for _ in range(rounds):
            value = value * 1.0000001 + 1e-7
        out[0] = value

    spin[1, 1](cuda.device_array(1, np.float64), 1000)
    cuda.synchronize()
    return spin


@pytest.fixture(scope="module")
def add_one():
    @cuda.jit
    def add_one(v):
        i = cuda.grid(1)
        if i < v.size:
            v[i] += 1

    add_one[1, 32](cuda.device_array(32, np.float32))
    cuda.synchronize()
    return add_one


@pytest.fixture
def out():
    return cuda.device_array(1, np.float64)


def kernels_of(recording):
    activities = recording.activities
    return activities[activities.kind == "kernel"]


def test_long_kernels_last_as_long_as_cuda_events_say(spin, out):
    measured = []
    with kernelscope.record() as r:
        for _ in range(5):
            first, last = cuda.event(), cuda.event()
            spin[1, 1](out, 400_000)  # the GPU is busy while the host asks for what is measured: no gap before it
            first.record()
            spin[1, 1](out, 4_000_000)
            last.record()
            last.synchronize()
            measured.append(cuda.event_elapsed_time(first, last) * 1e6)
    ours = r.recording.launches.execute_ns.astype("float64").to_numpy()[1::2]
    assert measured[0] > 5e6
    np.testing.assert_allclose(ours, measured, rtol=0.01)


@pytest.mark.parametrize("detail", ["phases", "launch"])
def test_ten_thousand_launches_are_ten_thousand_joined_kernels(add_one, detail):
    v = cuda.to_device(np.zeros(32, np.float32))
    with kernelscope.record(detail=detail) as r:
        for _ in range(10_000):
            add_one[1, 32](v)
    recording = r.recording
    kernels = kernels_of(recording)
    assert len(recording.launches) == len(kernels) == 10_000
    assert kernels.launch_id.tolist() == list(range(10_000))
    assert recording.launches.correlation_id.is_monotonic_increasing
    assert recording.launches.correlation_id.nunique() == 10_000
    assert recording.launches[["queue_ns", "execute_ns"]].notna().all(axis=None)
    assert (kernels.submit_start_ns <= kernels.start_ns).all()
    assert (recording.health.dropped.dropna() == 0).all()
    assert recording.metadata["gpu"]["clock_error_ns"] < 2000
    assert v.copy_to_host()[0] == 10_000


def test_executions_queues_and_gaps_add_up(add_one, spin, out):
    v = cuda.to_device(np.zeros(1 << 20, np.float32))
    with kernelscope.record() as r:
        for _ in range(300):
            add_one[4096, 256](v)
            spin[1, 1](out, 2_000)
    kernels = kernels_of(r.recording).sort_values("start_ns")
    start, end = kernels.start_ns.to_numpy(), kernels.end_ns.to_numpy()
    assert kernels.stream.nunique() == 1
    gaps = start[1:] - end[:-1]
    assert (gaps >= 0).all(), "kernels of one stream do not overlap"
    assert (end - start).sum() + gaps.sum() == end[-1] - start[0]
    launches = r.recording.launches.iloc[kernels.launch_id.to_numpy()]
    late = start > launches.submit_end_ns.to_numpy()
    reached = launches.submit_end_ns.to_numpy() + launches.queue_ns.to_numpy() + launches.execute_ns.to_numpy()
    assert (reached[late] == end[late]).all()
    cell = r.recording.cells.iloc[0]
    assert start[0] >= cell.start_ns
    assert end[-1] <= cell.synchronized_ns


def test_copies_have_the_right_bytes_and_memory():
    host = np.ones(100_000, np.float32)
    pinned = cuda.pinned_array(50_000, np.float32)
    with kernelscope.record() as r:
        device = cuda.to_device(host)
        device.copy_to_host(host)
        half = cuda.to_device(pinned)
        device[:1000].copy_to_device(half[:1000])
    copies = r.recording.activities
    copies = copies[copies.kind == "memcpy"]
    assert list(zip(copies.name, copies.size_bytes, copies.memory, strict=True)) == [
        ("HtoD", 400_000, "pageable to device"), ("DtoH", 400_000, "device to pageable"),
        ("HtoD", 200_000, "pinned to device"), ("DtoD", 4_000, "device to device")]
    assert copies.api.str.startswith("cuMemcpy").all()
    assert copies.cell_id.eq(0).all()
    assert r.recording.api_calls.name.str.startswith("cuMemAlloc").any()


def test_hundred_recordings_stay_right(add_one):
    v = cuda.to_device(np.zeros(32, np.float32))
    for number in range(100):
        with kernelscope.record() as r:
            for _ in range(number % 7 + 1):
                add_one[1, 32](v)
        assert r.recording.launches.execute_ns.notna().sum() == number % 7 + 1
        assert len(kernels_of(r.recording)) == number % 7 + 1


def test_threads_and_streams(add_one):
    import threading

    def work():
        stream = cuda.stream()
        v = cuda.to_device(np.zeros(32, np.float32), stream=stream)
        for _ in range(500):
            add_one[1, 32, stream](v)
        stream.synchronize()

    with kernelscope.record() as r:
        workers = [threading.Thread(target=work) for _ in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    launches = r.recording.launches
    assert len(launches) == 2000
    assert launches.execute_ns.notna().all()
    kernels = kernels_of(r.recording)
    assert kernels.stream.nunique() == 4
    joined = kernels.merge(launches, on="launch_id", suffixes=("", "_of_launch"))
    assert (joined.thread_id == joined.thread_id_of_launch).all()
    assert joined.groupby("stream").thread_id.nunique().eq(1).all()


def test_kernels_of_other_libraries_are_there_too():
    cupy = pytest.importorskip("cupy")
    torch = pytest.importorskip("torch")
    x, t = cupy.arange(1000), torch.ones(1000, device="cuda")
    (x * 2).sum(), (t + 1).sum().item()
    with kernelscope.record() as r:
        (x * 2).sum()
        (t + 1).sum().item()
    kernels = kernels_of(r.recording)
    assert len(r.recording.launches) == 0
    assert len(kernels) >= 4
    assert kernels.launch_id.isna().all()
    assert kernels.name.str.contains("cupy_multiply").any()
    assert kernels.name.str.startswith("void at::native").any()
    assert kernels.api.notna().all()
    assert kernels.thread_id.notna().all()
    assert kernels.configuration_id.notna().all()
    assert kernels.end_ns.max() <= r.recording.cells.synchronized_ns.iloc[0]


def test_kernels_of_a_graph(add_one):
    from cuda.core import Device

    v = cuda.to_device(np.zeros(32, np.float32))
    device = Device()
    device.set_current()
    stream = device.create_stream()
    with kernelscope.record() as r:
        builder = device.create_graph_builder()
        builder.begin_building()
        for _ in range(3):
            add_one[1, 32, builder.stream](v)
        builder.end_building()
        graph = builder.complete()
        for _ in range(5):
            graph.launch(stream)
        stream.sync()
    kernels = kernels_of(r.recording)
    assert len(kernels) == 15
    assert kernels.graph_id.nunique() == 1
    assert kernels.graph_node_id.nunique() == 3
    assert kernels.correlation_id.nunique() == 5
    assert kernels.api.eq("cuGraphLaunch").all()
    assert kernels.launch_id.isna().all()
    assert kernels.specialization_id.notna().all()
    assert len(r.recording.launches) == 3
    assert r.recording.launches.execute_ns.isna().all()
    assert v.copy_to_host()[0] == 15


def test_a_capture_of_torch_that_a_cell_leaves_open_is_not_broken():
    torch = pytest.importorskip("torch")
    t = torch.ones(1000, device="cuda")
    side = torch.cuda.Stream()
    graph = torch.cuda.CUDAGraph()
    t + 1
    torch.cuda.synchronize()
    with kernelscope.record(), torch.cuda.stream(side):
        graph.capture_begin()
        t.add_(1)
    with torch.cuda.stream(side):
        t.add_(1)
        graph.capture_end()
    graph.replay()
    torch.cuda.synchronize()
    assert t[0].item() == 3


def test_native_ranges_of_torch():
    code = """
        import kernelscope, torch
        with kernelscope.record() as r:
            t = torch.ones(1000, device="cuda")
            torch.cuda.nvtx.range_push("outer")
            torch.cuda.nvtx.range_push("inner")
            t + 1
            torch.cuda.nvtx.range_pop()
            torch.cuda.nvtx.range_pop()
            number, other = (torch.cuda.nvtx.range_start(name) for name in ("started", "crossing"))
            torch.cuda.nvtx.range_end(number)
            torch.cuda.nvtx.range_end(other)
            torch.cuda.nvtx.mark("point")
            with kernelscope.annotate("ours", domain="mine", color="green"):
                t + 2
        ranges = r.recording.ranges
        print(ranges[["name", "domain", "kind", "source", "depth"]].to_string())
        assert ranges.name.tolist() == ["outer", "inner", "started", "crossing", "point", "ours"]
        assert ranges.source.tolist() == ["native"] * 5 + ["python"]
        assert ranges.kind.tolist() == ["push_pop", "push_pop", "start_end", "push_pop", "mark", "push_pop"]
        assert ranges.depth.tolist() == [0, 1, 0, 0, 0, 0]
        assert ranges.end_ns.notna().all()
        inner = ranges.iloc[1]
        kernels = r.recording.activities.query("kind == 'kernel'")
        assert ((kernels.submit_start_ns > inner.start_ns) & (kernels.submit_end_ns < inner.end_ns)).sum() == 1
        import os
        assert "NVTX_INJECTION64_PATH" not in os.environ
    """
    run(code)


def test_torch_profiler_in_a_recorded_cell_still_sees_the_gpu():
    code = """
        import kernelscope, torch
        from torch.profiler import ProfilerActivity, profile
        t = torch.ones(1000, device="cuda")
        with kernelscope.record() as r:
            t + 1
            with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as p:
                for _ in range(5):
                    t + 1
                torch.cuda.synchronize()
        assert sum(str(e.device_type).endswith("CUDA") for e in p.events()) >= 5
        health = r.recording.health.set_index("probe")
        row = r.recording.health.query("probe == 'cupti' and status == 'degraded'").iloc[0]
        assert "torch.profiler" in row.message and row.fix
        assert len(r.recording.activities.query("kind == 'kernel'")) == 1
        with kernelscope.record() as r:
            t + 1
        row = r.recording.health.query("probe == 'cupti'").iloc[0]
        assert row.status == "unavailable" and "another CUPTI client" in row.message, row.message
        assert "torch.profiler" in row.fix
        assert r.recording.cells.status.tolist() == ["ok"]
        print(r.recording.summary())
    """
    run(code)


def test_torch_profiler_around_a_recording_degrades_as_told():
    code = """
        import kernelscope, torch, numpy as np
        from numba import cuda
        from torch.profiler import ProfilerActivity, profile

        @cuda.jit
        def nothing():
            pass

        nothing[1, 1]()
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as p:
            with kernelscope.record() as r:
                for _ in range(5):
                    nothing[1, 1]()
            torch.cuda.synchronize()
        assert sum(str(e.device_type).endswith("CUDA") for e in p.events()) >= 5
        recording = r.recording
        assert len(recording.launches) == 5 and recording.launches.execute_ns.isna().all()
        assert len(recording.activities) == 0 and "gpu" not in recording.metadata
        assert recording.health.query("probe == 'cupti'").status.tolist() == ["unavailable"]
    """
    run(code)


def test_recording_starts_cuda_for_nobody():
    code = """
        import ctypes, kernelscope
        import cuda.bindings.driver as driver
        with kernelscope.record() as r:
            error, count = driver.cuDeviceGetCount()
            assert error == driver.CUresult.CUDA_ERROR_NOT_INITIALIZED, error
        assert r.recording.health.status.eq("ok").all(), r.recording.health.to_string()
    """
    run(code)


def test_a_forked_child_leaves_cupti_alone(add_one):
    code = """
        import os, sys
        import numpy as np, kernelscope
        from numba import cuda

        @cuda.jit
        def nothing():
            pass

        nothing[1, 1]()
        recorder = kernelscope.Recorder().start()
        recorder.begin_cell("fork")
        nothing[1, 1]()
        child = os.fork()
        if not child:
            recorder.stop()
            os._exit(0)
        _, status = os.waitpid(child, 0)
        assert status == 0, status
        nothing[1, 1]()
        recording = recorder.stop()
        assert recording.launches.execute_ns.notna().tolist() == [True, True]
    """
    run(code, warnings="ignore::DeprecationWarning")


def test_events_time_kernels_without_cupti(spin, out):
    with kernelscope.record(gpu="events") as r:
        for _ in range(5):
            spin[1, 1](out, 4_000_000)
    recording = r.recording
    assert recording.metadata["gpu"]["source"] == "events"
    assert recording.launches.execute_ns.notna().all()
    assert recording.launches.correlation_id.isna().all()
    kernels = kernels_of(recording)
    assert kernels.launch_id.tolist() == list(range(5))
    assert kernels.name.str.contains("spin").all()
    with kernelscope.record() as r:
        for _ in range(5):
            spin[1, 1](out, 4_000_000)
    ours = recording.launches.execute_ns.astype("float64").median()
    assert ours == pytest.approx(r.recording.launches.execute_ns.astype("float64").median(), rel=0.01)
    row = recording.health.query("probe == 'events'").iloc[0]
    assert "perturbs" in row.message
    assert row.clock_error_ns < 200_000
    begun = kernels.start_ns - recording.launches.submit_start_ns
    assert (begun > -row.clock_error_ns).all()


def test_no_gpu(add_one):
    v = cuda.to_device(np.zeros(32, np.float32))
    with kernelscope.record(gpu="none") as r:
        add_one[1, 32](v)
    assert len(r.recording.activities) == 0
    assert "gpu" not in r.recording.metadata
    assert "cupti" not in r.recording.metadata["probes"]


def run(code, warnings="error"):
    result = subprocess.run([sys.executable, "-W", warnings, "-W", "ignore::UserWarning", "-c", textwrap.dedent(code)],
                            capture_output=True, text=True, timeout=200)
    assert result.returncode == 0, result.stdout + result.stderr


def test_the_newest_cupti_on_this_driver(tmp_path):
    """Another version of CUPTI, with larger records, where a wheel of it is on the path."""
    found = next((path for folder in sys.path for path in Path(folder or ".").glob("nvidia/cu13/lib/libcupti.so.*")
                  if "torch" not in str(path)), None)
    if found is None:
        pytest.skip("no second CUPTI here")
    code = f"""
        import ctypes, kernelscope
        ctypes.CDLL({str(found)!r})
        from numba import cuda
        from kernelscope.probes.cupti import library

        @cuda.jit
        def nothing():
            pass

        with kernelscope.record() as r:
            for _ in range(100):
                nothing[1, 1]()
            cuda.to_device([1.0, 2.0])
        assert library.find() == {str(found)!r}
        print(r.recording.health.to_string())
        assert r.recording.launches.execute_ns.notna().all()
        assert len(r.recording.activities.query("kind == 'memcpy'")) == 1
    """
    run(code)


def test_ctrl_c_reaches_the_user_and_the_recording_stays_right():
    code = """
        import signal, kernelscope
        from numba import cuda

        @cuda.jit
        def nothing():
            pass

        nothing[1, 1]()
        arrived = 0
        for attempt in range(40):
            with kernelscope.record() as r:
                made = 0
                try:
                    signal.signal(signal.SIGALRM, signal.default_int_handler)
                    signal.setitimer(signal.ITIMER_REAL, 0.004 + attempt * 0.0007)
                    while True:
                        nothing[1, 1]()
                        made += 1
                except KeyboardInterrupt:
                    arrived += 1
            launches = r.recording.launches
            assert made <= len(launches) <= made + 1, (made, len(launches))
            assert launches.execute_ns.notna().sum() >= made
            assert (r.recording.health.dropped.dropna() == 0).all()
        assert arrived == 40
    """
    run(code)


@pytest.mark.parametrize("ending", ["pass", "raise SystemExit(0)", "__import__('signal').raise_signal(2)"])
def test_the_interpreter_ends_in_the_middle_of_a_recording(ending):
    code = f"""
        import kernelscope
        from numba import cuda

        @cuda.jit
        def nothing():
            pass

        recorder = kernelscope.Recorder().start()
        for _ in range(5000):
            nothing[1, 1]()
        try:
            {ending}
        except KeyboardInterrupt:
            pass
    """
    run(code)


def test_kernels_of_a_module_that_was_unloaded_keep_their_names():
    code = """
        import gc, kernelscope
        from numba import cuda

        def make():
            @cuda.jit
            def short_lived():
                pass
            return short_lived

        with kernelscope.record() as r:
            for _ in range(3):
                kernel = make()
                kernel[1, 1]()
                del kernel
                gc.collect()
        kernels = r.recording.activities.query("kind == 'kernel'")
        assert kernels.name.str.contains("short_lived").tolist() == [True] * 3, kernels.name.tolist()
    """
    run(code)
