"""Kernels timed with CUDA events, on the dry run: what is joined, skipped, counted and undone."""

from __future__ import annotations

import sys
import threading

import pytest
from numba import cuda
from numba.cuda import dispatcher as numba_dispatcher

import kernelscope
from kernelscope.probes.numba_cuda import NumbaCudaProbe, events
from kernelscope.recorder.recorder import Recorder


def timed(**options):
    """A recorder as `gpu="events"` makes it where there is a GPU; on the null driver, whose events tell no time."""
    return Recorder(gpu="events", probes=[NumbaCudaProbe(events.EventTimer())], **options)


def test_a_dry_run_has_no_times_of_a_gpu(kernels, array):
    with kernelscope.record(gpu="events") as r:
        kernels.axpy[2, 32](array, 2.0, array)
    assert len(r.recording.activities) == 0
    assert "gpu" not in r.recording.metadata


def health(recording, probe="events"):
    return [row for row in recording.rows("health") if row["probe"] == probe]


@pytest.fixture
def binding():
    return cuda.cudadrv.driver.binding


@pytest.fixture
def balance(binding, monkeypatch):
    """Counts the events that are there."""
    alive = set()
    create, destroy = binding.cuEventCreate, binding.cuEventDestroy

    def created(flags):
        answer = create(flags)
        alive.add(int(answer[1]))
        return answer

    def destroyed(event):
        alive.remove(int(event))
        return destroy(event)

    monkeypatch.setattr(binding, "cuEventCreate", created)
    monkeypatch.setattr(binding, "cuEventDestroy", destroyed)
    return alive


@pytest.mark.parametrize("detail", ["phases", "launch"])
def test_launches_have_their_kernels(kernels, array, detail):
    with timed(detail=detail) as r:
        for _ in range(10):
            kernels.axpy[2, 32](array, 2.0, array)
        kernels.noop[1, 1, cuda.stream()]()
    recording = r.recording
    activities, launches = recording.activities, recording.launches
    assert activities.launch_id.tolist() == list(range(11))
    assert activities.specialization_id.tolist() == launches.specialization_id.tolist()
    assert activities.configuration_id.tolist() == launches.configuration_id.tolist()
    assert (launches.execute_ns == activities.end_ns - activities.start_ns).all()
    assert launches.queue_ns.notna().all()
    assert launches.correlation_id.isna().all() and activities.correlation_id.isna().all()
    assert set(activities.api) == {events.CALL}
    assert all("axpy" in name and "[abi:" not in name for name in activities.name[:10])
    assert len(recording.api_calls) == 0
    assert recording.metadata["gpu"]["source"] == "events"
    [row] = health(recording)
    assert row["status"] == "degraded" and "perturbs" in row["message"] and row["clock_error_ns"] > 500


def test_threads_keep_their_kernels(kernels):
    kernels.noop[1, 1]()

    def work():
        for _ in range(10):
            kernels.noop[1, 1]()

    with timed() as r:
        threads = [threading.Thread(target=work) for _ in range(3)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
    assert sorted(r.recording.activities.launch_id) == list(range(30))
    joined = r.recording.activities.sort_values("launch_id").thread_id.tolist()
    assert joined == r.recording.launches.thread_id.tolist()


def test_the_launchs_own_exception_passes(kernels, balance, monkeypatch):
    kernels.noop[1, 1]()

    def launch(*_):
        raise RuntimeError("CUDA_ERROR_LAUNCH_FAILED")

    monkeypatch.setattr(numba_dispatcher, "launch", launch)
    with pytest.raises(RuntimeError, match="LAUNCH_FAILED"), timed() as r:
        kernels.noop[1, 1]()
    assert r.recording.launches.error.tolist() == ["RuntimeError"]
    assert len(r.recording.activities) == 0
    assert len(balance) == 1  # the clock's mark, which goes with the context


def test_a_capture_is_left_alone(kernels, binding):
    kernels.noop[1, 1]()
    stream = cuda.stream()
    handle = binding.CUstream(int(stream.handle))
    with timed() as r:
        kernels.noop[1, 1]()
        error, = binding.cuStreamBeginCapture(handle, binding.CUstreamCaptureMode(0))
        assert not int(error)
        kernels.noop[1, 1, stream]()
    # The recording has ended in the middle of the capture, which goes on.
    error, graph = binding.cuStreamEndCapture(handle)
    assert not int(error)
    assert binding.cuGraphGetNodes(graph, 9)[2] == 1
    binding.cuGraphDestroy(graph)
    assert r.recording.activities.launch_id.tolist() == [0]
    assert len(r.recording.launches) == 2


def test_what_is_over_the_cap_is_counted(kernels, monkeypatch):
    monkeypatch.setattr(events, "MOST_LAUNCHES", 3)
    with timed() as r:
        for _ in range(5):
            kernels.noop[1, 1]()
    assert len(r.recording.activities) == 3
    assert health(r.recording)[0]["dropped"] == 2


@pytest.mark.parametrize("function", ["cuEventCreate", "cuEventRecord", "cuEventElapsedTime", "cuEventSynchronize",
                                      "cuStreamCreate"])
def test_our_own_failures_reach_nobody(kernels, binding, monkeypatch, function):
    kernels.noop[1, 1]()
    original = getattr(binding, function)
    calls = []

    def fail(*arguments):
        calls.append(arguments)
        return (binding.CUresult.CUDA_ERROR_OUT_OF_MEMORY,) if len(calls) > 12 else original(*arguments)

    with timed() as r:
        monkeypatch.setattr(binding, function, fail)
        calls += [()] * 20 if function == "cuStreamCreate" else []
        for _ in range(20):
            kernels.noop[1, 1]()
    monkeypatch.undo()
    recording = r.recording
    assert len(recording.launches) == 20 and recording.launches.error.isna().all()
    if function != "cuEventSynchronize":
        assert any(row["errors"] for row in health(recording))
    assert recording.metadata["gpu"]["source"] == "events"


def test_events_do_not_pile_up(kernels, balance):
    for _ in range(3):
        balance.clear()
        with timed():
            for _ in range(10):
                kernels.noop[1, 1]()
        assert len(balance) == 2  # the clock's two marks


def test_the_launch_is_numbas_own_afterwards(kernels):
    before = numba_dispatcher.launch
    with timed():
        assert numba_dispatcher.launch is not before
        kernels.noop[1, 1]()
    assert numba_dispatcher.launch is before


def test_without_numba_there_is_nothing_to_say(monkeypatch):
    from kernelscope.probes.sink import Sink

    timer, sink = events.EventTimer(), Sink()
    timer.describe(sink)
    assert sink.stated == {} and "gpu" not in sink.metadata
    assert sys.modules["numba.cuda.dispatcher"] is numba_dispatcher
