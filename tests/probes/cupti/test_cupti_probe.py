"""From a launch to its driver call, its kernel and the tables, with a stand-in for CUPTI."""

from __future__ import annotations

import threading

import pytest
from cupti_stand_in import KERNEL, MEMCPY, MEMSET, RUNTIME, SYNCHRONIZATION, column, health
from numba import cuda
from together import run_together

from kernelscope.clock import now
from kernelscope.probes.cupti import CuptiProbe
from kernelscope.probes.scripted import Launch


@pytest.mark.slow
@pytest.mark.parametrize("kernel_bytes", [208, 216, 248])
def test_launches_have_their_kernels(gpu, stand_in, kernels, array, kernel_bytes):
    stand_in.library.stand_in_size(KERNEL, kernel_bytes)
    with gpu(name="launches") as recorder:
        for _ in range(20):
            kernels.axpy[2, 64](array, 2.0, array)
        kernels.noop[1, 1]()
    recording = recorder.recording
    launches, activities = recording.launches, recording.activities
    assert activities.launch_id.tolist() == list(range(21))
    assert activities.specialization_id.tolist() == launches.specialization_id.tolist()
    assert activities.configuration_id.tolist() == launches.configuration_id.tolist()
    assert activities.correlation_id.tolist() == launches.correlation_id.tolist()
    assert launches.correlation_id.is_unique
    assert (launches.execute_ns == 5_000).all()
    assert ((launches.queue_ns <= 2_000) & (launches.queue_ns >= 0)).all()
    assert (activities.start_ns - launches.submit_end_ns).clip(lower=0).tolist() == launches.queue_ns.tolist()
    assert set(activities.kind) == {"kernel"} and set(activities.api) == {"cuLaunchKernelEx"}
    assert (activities.cell_id == 0).all() and (activities.thread_id == 0).all() and (activities.device_id == 0).all()
    assert (activities.submit_start_ns >= launches.submit_start_ns).all()
    assert (activities.submit_end_ns <= launches.submit_end_ns).all()
    assert activities.regs.tolist() == [24] * 21
    assert activities.entry_name.tolist() == [recording.specializations.entry_name[i] for i in
                                              launches.specialization_id]
    assert len(recording.api_calls) == 0
    assert recording.metadata["gpu"]["source"] == "cupti"
    [stated] = health(recording)
    assert stated["status"] == "ok" and stated["dropped"] == 0 and 0 < stated["clock_error_ns"] < 1e6


def test_launch_detail_joins_too(gpu, kernels, array):
    with gpu(detail="launch") as recorder:
        for _ in range(5):
            kernels.axpy[2, 64](array, 2.0, array)
    launches = recorder.recording.launches
    assert recorder.recording.activities.launch_id.tolist() == list(range(5))
    assert launches.execute_ns.tolist() == [5_000] * 5
    assert launches.submit_end_ns.isna().all()
    # From the end of the driver call, on the host clock, to the kernel's start, on CUPTI's.
    error = health(recorder.recording)[0]["clock_error_ns"] + 1
    assert launches.queue_ns.between(2_000 - error, 2_000 + error).all()


def test_threads_keep_their_kernels(gpu, kernels, array):
    kernels.axpy[1, 32](array, 2.0, array)
    barrier = threading.Barrier(4)

    def work():
        barrier.wait()
        for _ in range(25):
            kernels.axpy[1, 32](array, 2.0, array)

    with gpu() as recorder:
        run_together(*[work] * 4)
    recording = recorder.recording
    activities, launches = recording.activities, recording.launches
    assert sorted(activities.launch_id) == list(range(100))
    joined = activities.sort_values("launch_id").reset_index(drop=True)
    assert joined.thread_id.tolist() == launches.thread_id.tolist()
    assert launches.thread_id.value_counts().tolist() == [25] * 4
    assert ((joined.submit_start_ns >= launches.submit_start_ns)
            & (joined.submit_end_ns <= launches.submit_end_ns)).all()


def test_captured_launches_have_no_kernel(gpu, stand_in, kernels, array):
    kernels.noop[1, 1]()
    stream = cuda.stream()
    binding = cuda.cudadrv.driver.binding
    with gpu() as recorder:
        error, = binding.cuStreamBeginCapture(binding.CUstream(int(stream.handle)), binding.CUstreamCaptureMode(2))
        assert not int(error)
        kernels.noop[1, 1, stream]()
        error, graph = binding.cuStreamEndCapture(binding.CUstream(int(stream.handle)))
        assert not int(error)
        stand_in.graph_launch(["noop"], now())
    binding.cuGraphDestroy(graph)
    recording = recorder.recording
    assert recording.launches.correlation_id.notna().all()
    assert recording.launches.execute_ns.isna().all() and recording.launches.queue_ns.isna().all()
    assert column(recording, "activities", "launch_id") == [None]
    assert column(recording, "activities", "cupti_graph_id") == [1]
    assert recording.activities.api.tolist() == ["cuGraphLaunch"]


def test_a_failing_launch_has_none(gpu, kernels, array, monkeypatch):
    kernels.noop[1, 1]()

    def launch(*_):
        raise RuntimeError("CUDA_ERROR_LAUNCH_FAILED")

    monkeypatch.setattr("numba.cuda.dispatcher.launch", launch)
    recorder = gpu().start()
    with pytest.raises(RuntimeError, match="LAUNCH_FAILED"):
        kernels.noop[1, 1]()
    recording = recorder.stop()
    assert recording.launches.error.tolist() == ["RuntimeError"]
    assert recording.launches.correlation_id.isna().all()


START = 2_000_000_000


def test_a_kernel_before_its_launchs_end_did_not_queue(scripted, stand_in):
    script = scripted()
    id = script.launch(START)
    stand_in.kernel(id, "kernel", START + 8_000, START + 20_000)
    launches = script.stop().launches
    assert launches.queue_ns.tolist() == [0]
    assert launches.execute_ns.tolist() == [12_000]


def test_missing_times_are_null(scripted, stand_in):
    script = scripted()
    first, second = script.launch(START), script.launch(START + 100_000)
    stand_in.kernel(first, "kernel", 0, 0)
    stand_in.kernel(second, "kernel", START + 110_000, 0)
    recording = script.stop()
    assert column(recording, "activities", "start_ns") == [None, pytest.approx(START + 110_000, abs=200)]
    assert column(recording, "activities", "end_ns") == [None, None]
    assert column(recording, "activities", "launch_id") == [0, 1]
    assert recording.launches.execute_ns.isna().all() and recording.launches.queue_ns.isna().all()


def test_two_devices(scripted, stand_in):
    script = scripted()
    for number, device in enumerate((0, 3, 0)):
        id = script.launch(START + number * 100_000)
        stand_in.kernel(id, "kernel", START + number * 100_000 + 10_000, START + number * 100_000 + 20_000,
                        device=device, stream=device + 7)
    recording = script.stop()
    assert column(recording, "devices", "ordinal") == [0, 3]
    assert recording.activities.device_id.tolist() == [0, 1, 0]
    assert recording.activities.stream.tolist() == [7, 10, 7]


def test_failed_calls_join_nothing(scripted, stand_in):
    script = scripted()
    script.launch(START, result=701)
    recording = script.stop()
    assert recording.launches.correlation_id.isna().all()
    assert recording.api_calls.result.tolist() == [701]
    assert recording.api_calls.name.tolist() == ["cuLaunchKernel"]


def test_another_kernels_name_does_not_join(gpu, stand_in, kernels, monkeypatch):
    kernels.noop[1, 1]()
    with gpu() as recorder:
        original = stand_in.kernel
        monkeypatch.setattr(stand_in, "kernel", lambda id, name, *rest, **more: original(id, "fill", *rest, **more))
        kernels.noop[1, 1]()
    recording = recorder.recording
    assert recording.activities.name.tolist() == ["fill"]
    ours, others = recording.select(framework="numba-cuda").launches, recording.select(framework="driver").launches
    assert ours.execute_ns.isna().all() and ours.correlation_id.isna().all()
    assert len(others) == 1 and recording.launches.parent_launch_id.tolist()[1] == 0
    assert recording.activities.launch_id.tolist() == [1]


def test_kernels_of_others_and_their_configurations(scripted, stand_in):
    script = scripted()
    id = stand_in.call("cudaLaunchKernel_v7000", script.at(START), START + 3_000, domain=RUNTIME)
    # The driver call inside has the same id, and made nothing else.
    stand_in.call("cuLaunchKernel", START + 500, START + 2_500, id=id)
    stand_in.kernel(id, "_Z4axpyPfi", START + 5_000, START + 6_000, grid=(2, 3, 4), block=(5, 6, 7), cluster=(2, 1, 1),
                    shared=99)
    other = stand_in.call("cudaLaunchKernel_v7000", START + 10_000, START + 13_000, domain=RUNTIME)
    stand_in.kernel(other, None, START + 15_000, START + 16_000)
    recording = script.stop()
    assert recording.activities.api.tolist() == ["cudaLaunchKernel_v7000"] * 2
    assert recording.activities.launch_id.tolist() == recording.launches.launch_id.tolist() == [0, 1]
    assert recording.launches.start_ns.tolist() == recording.activities.submit_start_ns.tolist()
    assert recording.dispatchers.name.tolist() == ["axpy", "?"] and set(recording.dispatchers.framework) == {"driver"}
    assert recording.activities.entry_name.tolist() == ["_Z4axpyPfi", "?"]
    assert recording.activities.name.tolist() == ["axpy(float*, int)", "?"]
    assert len(recording.api_calls) == 0
    found = [recording.rows("configurations")[row] for row in recording.activities.configuration_id]
    assert [list(row.values())[1:] for row in found] == [
        [2, 3, 4, 5, 6, 7, 2, 1, 1, 99, None], [1, 1, 1, 32, 1, 1, None, None, None, 0, None]]


def test_runtime_launches_in_a_launch_join(scripted, stand_in):
    script = scripted()
    script.probe.emit(Launch(start_ns=START))
    id = stand_in.call("cudaLaunchKernel_v7000", script.at(START + 7_100), START + 8_900, domain=RUNTIME)
    stand_in.call("cuLaunchKernel", START + 7_500, START + 8_500, id=id)
    stand_in.kernel(id, "kernel", START + 9_000, START + 9_900)
    recording = script.stop()
    assert recording.activities.launch_id.tolist() == [0]
    assert recording.launches.correlation_id.tolist() == [id]
    assert recording.activities.api.tolist() == ["cudaLaunchKernel_v7000"]


def test_graph_launches(scripted, stand_in):
    script = scripted()
    id = stand_in.graph_launch(["first", "second", "second"], script.at(START))
    empty = stand_in.call("cuGraphLaunch", START + 100_000, START + 101_000)
    recording = script.stop()
    activities = recording.activities
    assert activities.correlation_id.tolist() == [id] * 3
    assert activities.cupti_graph_id.tolist() == [1] * 3
    assert activities.cupti_node_id.tolist() == [1 << 32, (1 << 32) + 1, (1 << 32) + 2]
    assert activities.launch_id.isna().all()
    launches = recording.graph_events[recording.graph_events.kind == "launch"]
    assert launches.correlation_id.tolist() == [id, empty]
    assert launches.exec_id.isna().tolist() == [False, True]  # nothing ran that could tell which graph it was
    assert recording.api_calls.empty


@pytest.mark.parametrize("sizes", [(96, 88, 40), (112, 104, 56)])
def test_copies_sets_and_waits(scripted, stand_in, sizes):
    for kind, size in zip((MEMCPY, MEMSET, SYNCHRONIZATION), sizes, strict=True):
        stand_in.library.stand_in_size(kind, size)
    script = scripted()
    script.at(START)
    copy = stand_in.call("cuMemcpyHtoD_v2", START, START + 9_000)
    stand_in.copy(copy, 1, 1, 3, 5 << 32, START + 2_000, START + 8_000)
    stand_in.copy(0, 10, 3, 3, 64, START + 10_000, START + 11_000, peer=True)
    fill = stand_in.call("cuMemsetD8_v2", START + 12_000, START + 13_000)
    stand_in.memset(fill, 5, 4096, START + 14_000, START + 15_000)
    wait = stand_in.call("cuStreamSynchronize", START + 20_000, START + 30_000)
    stand_in.wait(wait, 3, START + 20_500, START + 29_500, 13)
    stand_in.wait(0, 2, START + 31_000, START + 32_000)  # a stream waits for an event: no host does
    stand_in.call("cuMemAlloc_v2", START + 40_000, START + 45_000)
    stand_in.call("cuCtxGetCurrent", START + 50_000, START + 50_100)
    script.at(START + 60_000)
    recording = script.stop()
    activities = recording.activities
    assert activities.kind.tolist() == ["memcpy", "memcpy", "memset", "sync"]
    assert activities.name.tolist() == ["HtoD", "PtoP", "memset", "stream synchronize"]
    assert column(recording, "activities", "memory") == ["pageable to device", "device to device", "managed", None]
    assert column(recording, "activities", "size_bytes") == [5 << 32, 64, 4096, None]
    assert column(recording, "activities", "api") == ["cuMemcpyHtoD_v2", None, "cuMemsetD8_v2", "cuStreamSynchronize"]
    assert column(recording, "activities", "stream") == [7, 7, 7, 13]
    assert recording.api_calls.name.tolist() == ["cuMemAlloc_v2"]
    assert recording.api_calls.cell_id.tolist() == [0]


def test_only_calls_that_matter_are_asked_for(scripted, stand_in):
    scripted()
    selected = {name for domain, number, name in (
        (1, 4, "cuLaunchKernelEx"), (1, 41, "cuCtxGetCurrent"), (2, 9, "cudaGetDevice"), (2, 7, "cudaLaunchKernel"))
        if stand_in.library.stand_in_watched(domain, number)}
    assert selected == {"cuLaunchKernelEx", "cudaLaunchKernel"}


def test_gpu_none_and_a_dry_run_have_no_cupti_probe():
    from kernelscope.recorder.options import RecordingOptions
    from kernelscope.recorder.session import _probes

    for gpu in ("none", "cupti", "events"):
        assert not any(isinstance(probe, CuptiProbe) for probe in _probes(RecordingOptions(gpu=gpu))[0])
