"""numba-cuda-mlir on a real GPU: results, and what CUPTI says of its launches. KERNELSCOPE_TEST_GPU=1."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import kernelscope

pytestmark = pytest.mark.gpu
cuda = pytest.importorskip("numba_cuda_mlir.cuda")
BOUNDARIES = ["start_ns", "submit_start_ns", "submit_end_ns", "end_ns"]


@pytest.fixture
def axpy():
    @cuda.jit
    def axpy(out, a, x):
        i = cuda.grid(1)
        if i < out.size:
            out[i] += a * x[i]

    return axpy


@pytest.mark.parametrize("detail", ["launch", "phases"])
def test_results_are_right_and_every_launch_is_a_row(axpy, detail):
    x = cuda.to_device(np.arange(1000, dtype=np.float32))
    out = cuda.to_device(np.zeros(1000, dtype=np.float32))
    with kernelscope.record(detail=detail) as r:
        for _ in range(50):
            axpy[4, 256](out, 2.0, x)
    np.testing.assert_allclose(out.copy_to_host(), np.arange(1000) * 100.0)
    recording = r.recording
    assert len(recording.launches) == 50 and not recording.is_dry_run
    assert recording.launches.cache.tolist() == ["compiled"] + ["memory"] * 49
    assert recording.health.errors.isna().all()
    assert recording.cells.synchronized_ns.notna().all()


def test_every_launch_has_its_call_and_its_kernel(axpy):
    x = cuda.to_device(np.ones(1000, dtype=np.float32))
    axpy[4, 256](x, 0.5, x)
    with kernelscope.record(gpu="cupti") as r:
        for _ in range(200):
            axpy[4, 256](x, 0.5, x)
    launches, activities = r.recording.launches, r.recording.activities
    kernels = activities[activities.kind == "kernel"]
    assert kernels.launch_id.tolist() == list(range(200))
    assert launches.execute_ns.notna().all() and launches.queue_ns.notna().all()
    assert launches.correlation_id.notna().all() and (launches.device_id == 0).all()
    # The driver's call is CUPTI's; what comes before it is not told apart, and the phases do not go back in time.
    times = launches[BOUNDARIES].astype("int64").to_numpy()
    assert (np.diff(times, axis=1) >= 0).all()
    assert launches.dispatch_end_ns.isna().all()
    assert (times[:, 2] - times[:, 1]).mean() > 500
    assert set(kernels.entry_name) == {r.recording.specializations.entry_name[0]}
    assert set(kernels.regs) == {r.recording.specializations.regs[0]}


def test_registers_and_occupancy_are_the_drivers(axpy):
    x = cuda.to_device(np.ones(1000, dtype=np.float32))
    with kernelscope.record() as r:
        axpy[4, 256](x, 0.5, x)
    kernel = next(iter(axpy.overloads.values()))
    row = r.recording.specializations.iloc[0]
    own = kernel._codelibrary.get_kernel_attributes()
    assert row.regs == own["regs_per_thread"] > 0
    assert (row.static_shared_bytes, row.local_bytes) == (own["shared_mem_per_block"], own["local_mem_per_thread"])
    occupancy = r.recording.occupancies.iloc[0]
    function = kernel._codelibrary.get_cufunc()._handle
    from cuda.bindings import driver

    error, active = driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(function, 256, 0)
    assert not int(error) and occupancy.active_blocks_per_multiprocessor == active
    assert r.recording.devices.multiprocessors.iloc[0] > 0


def test_clusters_are_what_the_gpu_ran(axpy):
    if cuda.get_current_device().compute_capability < (9, 0):
        pytest.skip("clusters need compute capability 9.0")
    x = cuda.to_device(np.ones(1024, dtype=np.float32))
    with kernelscope.record(gpu="cupti") as r:
        axpy[4, 256, None, 0, 2](x, 0.5, x)
    np.testing.assert_allclose(x.copy_to_host(), 1.5)
    rows = r.recording.rows("configurations")
    ours = rows[r.recording.rows("launches")[0]["configuration_id"]]
    assert (ours["griddim_x"], ours["blockdim_x"], ours["cluster_x"]) == (4, 256, 2)


def test_host_arrays_come_back(axpy):
    host, other = np.ones(1000, dtype=np.float32), np.ones(1000, dtype=np.float32)
    with kernelscope.record(gpu="cupti") as r, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        axpy[4, 256](host, 2.0, other)
        axpy[4, 256](host, 2.0, other)
    np.testing.assert_allclose(host, 5.0)
    activities = r.recording.activities
    assert {"HtoD", "DtoH"} <= set(activities[activities.kind == "memcpy"].name)
    assert (activities.kind == "kernel").sum() == 2


def test_streams_and_captures(axpy):
    from cuda.core import Device

    x = cuda.to_device(np.zeros(1000, dtype=np.float32))
    one = cuda.to_device(np.ones(1000, dtype=np.float32))
    axpy[4, 256](x, 1.0, one)
    cuda.synchronize()
    stream = Device().create_stream()
    builder = stream.create_graph_builder()
    with kernelscope.record(gpu="cupti") as r:
        axpy[4, 256, stream](x, 1.0, one)
        builder.begin_building()
        axpy[4, 256, builder.stream](x, 1.0, one)
        graph = builder.end_building().complete()
        graph.launch(stream)
        graph.launch(stream)
        stream.sync()
    assert x.copy_to_host()[0] == 4.0
    launches = r.recording.launches
    assert len(launches) == 2
    assert launches.execute_ns.notna().tolist() == [True, False], "a captured launch did not run"
    assert launches.capture_event_id.notna().tolist() == [False, True]
    assert r.recording.graph_events.kind.tolist().count("launch") == 2
    kernels = r.recording.activities[r.recording.activities.kind == "kernel"]
    assert len(kernels) == 3 and kernels.launch_id.notna().sum() == 1
