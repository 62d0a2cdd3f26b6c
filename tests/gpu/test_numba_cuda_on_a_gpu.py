"""The same launches on a real GPU, with results checked and the driver's own numbers. KERNELSCOPE_TEST_GPU=1."""

from __future__ import annotations

import threading
import warnings

import numpy as np
import pytest

import kernelscope

pytestmark = pytest.mark.gpu
cuda = pytest.importorskip("numba.cuda")
BOUNDARIES = ["start_ns", "dispatch_end_ns", "submit_start_ns", "submit_end_ns", "end_ns"]


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
    assert len(recording.launches) == 50
    assert not recording.is_dry_run
    assert recording.launches.cache.tolist() == ["compiled"] + ["memory"] * 49
    assert recording.health.errors.isna().all()
    assert recording.cells.synchronized_ns.notna().all()


def test_phases_add_up(axpy):
    x = cuda.to_device(np.ones(1000, dtype=np.float32))
    with kernelscope.record() as r:
        for _ in range(200):
            axpy[4, 256](x, 0.5, x)
    times = r.recording.launches[BOUNDARIES].astype("int64").to_numpy()
    assert (np.diff(times, axis=1) >= 0).all()
    assert (times[1:, 0] >= times[:-1, 4]).all()


def test_the_drivers_numbers(axpy):
    x = cuda.to_device(np.ones(1000, dtype=np.float32))
    with kernelscope.record() as r:
        axpy[4, 256](x, 0.5, x)
    kernel = next(iter(axpy.overloads.values()))
    row = r.recording.specializations.iloc[0]
    assert row.regs == kernel.regs_per_thread > 0
    assert row.max_threads == kernel.max_threads_per_block
    assert row.static_shared_bytes == kernel.shared_mem_per_block
    assert row.local_bytes == kernel.local_mem_per_thread
    assert row.const_bytes == kernel.const_mem_size
    device = r.recording.devices.iloc[0]
    assert device.multiprocessors == cuda.get_current_device().MULTIPROCESSOR_COUNT
    occupancy = r.recording.occupancies.iloc[0]
    active = cuda.current_context().get_active_blocks_per_multiprocessor(kernel._codelibrary.get_cufunc(), 256, 0)
    assert occupancy.active_blocks_per_multiprocessor == active
    assert 0 < occupancy.occupancy <= 1


def test_shared_memory_kernel_with_its_static_size():
    @cuda.jit
    def block_sum(out, x):
        shared = cuda.shared.array(256, np.float32)
        i = cuda.threadIdx.x
        shared[i] = x[cuda.grid(1)]
        cuda.syncthreads()
        step = 128
        while step:
            if i < step:
                shared[i] += shared[i + step]
            cuda.syncthreads()
            step //= 2
        if i == 0:
            out[cuda.blockIdx.x] = shared[0]

    x = cuda.to_device(np.arange(1024, dtype=np.float32))
    out = cuda.device_array(4, np.float32)
    with kernelscope.record() as r:
        block_sum[4, 256](out, x)
    assert out.copy_to_host().sum() == np.arange(1024).sum()
    assert r.recording.specializations.static_shared_bytes[0] == 1024


def test_streams_forall_reduce_and_host_arrays(axpy):
    stream = cuda.stream()
    x = cuda.to_device(np.ones(64, dtype=np.float32))
    host = np.zeros(64, dtype=np.float32)
    total = cuda.reduce(lambda a, b: a + b)
    with kernelscope.record() as r, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numba-cuda advises against host arrays, which is the point here
        axpy[1, 64, stream](x, 1.0, x)
        stream.synchronize()
        axpy.forall(64)(x, 1.0, x)
        axpy[1, 64](host, 3.0, x)
        assert total(np.arange(10000.0)) == 49995000.0
    np.testing.assert_allclose(host, 12.0)
    assert len(r.recording.launches) >= 4
    assert int(stream.handle) in r.recording.configurations.stream.tolist()


def test_a_launch_that_the_driver_refuses(axpy):
    x = cuda.to_device(np.ones(64, dtype=np.float32))
    with kernelscope.record() as r, pytest.raises(Exception, match="INVALID_VALUE"):
        axpy[1, 2048](x, 1.0, x)
    assert r.recording.launches.error.notna().all()
    axpy[1, 64](x, 1.0, x)
    cuda.synchronize()


def test_a_capture_left_open_is_not_broken(axpy):
    """Synchronizing while a stream captures would invalidate the capture: the recorder must not."""
    from cuda.core import Device

    x = cuda.to_device(np.ones(64, dtype=np.float32))
    axpy[1, 64](x, 1.0, x)
    cuda.synchronize()
    builder = Device().create_graph_builder()
    builder.begin_building()
    with kernelscope.record() as r:
        axpy[1, 64, builder.stream](x, 1.0, x)
    builder.end_building()
    graph = builder.complete()
    stream = Device().create_stream()
    graph.launch(stream)
    stream.sync()
    assert x.copy_to_host()[0] == 4.0
    assert len(r.recording.launches) == 1
    assert "capturing" in " ".join(r.recording.health.message)


def test_eight_threads(axpy):
    arrays = [cuda.to_device(np.zeros(64, dtype=np.float32)) for _ in range(8)]
    one = cuda.to_device(np.ones(64, dtype=np.float32))
    axpy[1, 64](arrays[0], 0.0, one)

    def work(array):
        for _ in range(300):
            axpy[1, 64](array, 1.0, one)

    with kernelscope.record() as r:
        threads = [threading.Thread(target=work, args=(array,)) for array in arrays]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(r.recording.launches) == 2400
    for array in arrays:
        np.testing.assert_allclose(array.copy_to_host(), 300.0)


def test_a_recording_from_here_opens_again(axpy, tmp_path):
    x = cuda.to_device(np.ones(64, dtype=np.float32))
    with kernelscope.record("saved on a GPU") as r:
        axpy[1, 64](x, 1.0, x)
    path = r.recording.save(tmp_path / "gpu")
    again = kernelscope.load(path)
    assert again.launches.equals(r.recording.launches)
    assert "dry run" not in again.summary()
