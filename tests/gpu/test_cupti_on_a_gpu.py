"""What CUPTI says of a real GPU: joined with launches, checked against CUDA events, with other clients about."""

from __future__ import annotations

import numpy as np
import pytest
from together import run_together

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


def test_threads_and_streams(add_one):
    def work():
        stream = cuda.stream()
        v = cuda.to_device(np.zeros(32, np.float32), stream=stream)
        for _ in range(500):
            add_one[1, 32, stream](v)
        stream.synchronize()

    with kernelscope.record() as r:
        run_together(*[work] * 4)
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
    assert set(r.recording.dispatchers.framework) == {"driver"}
    assert r.recording.launches.launch_id.tolist() == kernels.launch_id.tolist()
    assert len(kernels) >= 4
    assert kernels.name.str.contains("cupy_multiply").any()
    assert kernels.name.str.startswith("void at::native").any()
    assert kernels.api.notna().all()
    assert kernels.thread_id.notna().all()
    assert kernels.configuration_id.notna().all()
    assert kernels.end_ns.max() <= r.recording.cells.synchronized_ns.iloc[0]


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
