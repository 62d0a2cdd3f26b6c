"""Every launch is one row, with its kernel, configuration and phases, against the real numba-cuda."""

from __future__ import annotations

import threading
import warnings

import numpy as np
import pytest
from numba import cuda
from numba.cuda import dispatcher as numba_dispatcher

import kernelscope
from kernelscope.recorder.recorder import Recorder

BOUNDARIES = ["start_ns", "dispatch_end_ns", "submit_start_ns", "submit_end_ns", "end_ns"]


def names(recording):
    """Kernel name of each launch, in order."""
    of = dict(zip(recording.dispatchers.dispatcher_id, recording.dispatchers.name, strict=True))
    return [of[number].rsplit(".", 1)[-1] for number in recording.launches.dispatcher_id]


@pytest.mark.parametrize("detail", ["launch", "phases"])
def test_every_launch_is_one_row(kernels, array, detail):
    with kernelscope.record(detail=detail) as r:
        for _ in range(37):
            kernels.axpy[2, 32](array, 2.0, array)
        kernels.noop[1, 1]()
    launches = r.recording.launches
    assert names(r.recording) == ["axpy"] * 37 + ["noop"]
    assert launches.specialization_id.notna().all()
    assert launches.error.isna().all()
    assert list(launches.cache) == ["compiled"] + ["memory"] * 36 + ["compiled"]
    assert (launches.device_id == 0).all()
    assert (launches.end_ns > launches.start_ns).all()
    assert (launches[BOUNDARIES[1:4]].isna() == (detail == "launch")).all(axis=None)
    assert launches.launch_id.tolist() == list(range(38))


def test_phases_are_ordered_and_add_up(kernels, array):
    with kernelscope.record() as r:
        for _ in range(20):
            kernels.axpy[2, 32](array, 2.0, array)
    launches = r.recording.launches
    times = launches[BOUNDARIES].astype("int64").to_numpy()
    assert (np.diff(times, axis=1) >= 0).all()
    assert (times[1:, 0] >= times[:-1, 4]).all()
    dispatch = launches.dispatch_end_ns - launches.start_ns - launches.compile_ns
    assert (dispatch > 0).all()
    total = (dispatch + launches.compile_ns + (launches.submit_start_ns - launches.dispatch_end_ns)
             + (launches.submit_end_ns - launches.submit_start_ns) + (launches.end_ns - launches.submit_end_ns))
    assert (total == launches.end_ns - launches.start_ns).all()


def test_configurations_are_what_was_asked_for(kernels, array):
    stream = cuda.stream()
    with kernelscope.record() as r:
        kernels.axpy[3, 64](array, 1.0, array)
        kernels.axpy[(2, 3), (4, 5, 6), stream, 128](array, 1.0, array)
        held = kernels.axpy[3, (64,)]
        held(array, 1.0, array)
        held(array, 2.0, array)
    recording = r.recording
    joined = recording.launches.merge(recording.configurations, on="configuration_id")
    shapes = joined[["griddim_x", "griddim_y", "griddim_z", "blockdim_x", "blockdim_y", "blockdim_z",
                     "sharedmem_bytes"]].to_numpy().tolist()
    assert shapes == [[3, 1, 1, 64, 1, 1, 0], [2, 3, 1, 4, 5, 6, 128], [3, 1, 1, 64, 1, 1, 0], [3, 1, 1, 64, 1, 1, 0]]
    assert joined.stream.tolist() == [0, int(stream.handle), 0, 0]
    assert len(recording.configurations) == 2


def test_specializations_have_the_drivers_numbers(kernels, array):
    with kernelscope.record() as r:
        kernels.axpy[2, 32](array, 2.0, array)
    row = r.recording.specializations.iloc[0]
    kernel = next(iter(kernels.axpy.overloads.values()))
    assert row.regs == kernel.regs_per_thread
    assert row.static_shared_bytes == kernel.shared_mem_per_block
    assert row.local_bytes == kernel.local_mem_per_thread
    assert row.const_bytes == kernel.const_mem_size
    assert row.max_threads == kernel.max_threads_per_block
    assert row.signature == "(array(float32, 1d, C), float64, array(float32, 1d, C))"
    assert row.compute_capability == "9.0"
    assert row.cubin_bytes > 0
    assert row.origin == "compiled"
    occupancy = r.recording.occupancies.iloc[0]
    cufunc = kernel._codelibrary.get_cufunc()
    active = cuda.current_context().get_active_blocks_per_multiprocessor(cufunc, 32, 0)
    assert occupancy.active_blocks_per_multiprocessor == active
    assert occupancy.occupancy == pytest.approx(active * 32 / 2048)


def test_what_was_compiled_before_is_said_so(kernels, array):
    kernels.axpy[2, 32](array, 2.0, array)
    with kernelscope.record() as r:
        kernels.axpy[2, 32](array, 2.0, array)
    assert r.recording.specializations.origin.tolist() == ["before"]
    assert r.recording.launches.cache.tolist() == ["memory"]
    assert len(r.recording.compilations) == 0


def test_forall_and_specialize_are_recorded_with_their_function(kernels, array):
    with kernelscope.record() as r:
        kernels.axpy.forall(64)(array, 1.0, array)
        kernels.axpy.specialize(array, 1.0, array)[2, 32](array, 1.0, array)
        kernels.axpy[2, 32](array, 1.0, array)
    recording = r.recording
    assert len(recording.launches) == 3
    assert recording.dispatchers.name.str.endswith("axpy").tolist() == [True]
    assert recording.compilations.trigger.tolist() == ["specialize", "launch"]
    assert recording.specializations.origin.tolist() == ["compiled", "compiled"]


def test_eager_signatures_compile_at_the_definition():
    with kernelscope.record() as r:

        @cuda.jit(["void(float32[:])", "void(float64[:, ::1])"])
        def eager(x):
            x[0] = 0

        eager[1, 32](cuda.device_array(4, np.float32))
        eager[1, 32](cuda.device_array((4, 4), np.float64))
    compilations = r.recording.compilations
    assert compilations.trigger.tolist() == ["eager", "eager"]
    assert compilations.launch_id.isna().all()
    assert r.recording.launches.cache.tolist() == ["memory", "memory"]


def test_host_arrays_are_copied_in_prepare_and_back_in_finish(kernels):
    host = np.zeros(1_000_000, np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numba-cuda advises against host arrays, which is the point here
        with kernelscope.record() as r:
            kernels.axpy[2, 32](host, 2.0, host)
            kernels.axpy[2, 32](host, 2.0, host)
    second = r.recording.launches.iloc[1]
    assert second.submit_start_ns - second.dispatch_end_ns > second.submit_end_ns - second.submit_start_ns
    assert second.end_ns - second.submit_end_ns > second.submit_end_ns - second.submit_start_ns


def test_eight_threads_launching_at_once(kernels, array):
    kernels.axpy[2, 32](array, 2.0, array)
    start = threading.Barrier(8)

    def work():
        start.wait()
        for _ in range(300):
            kernels.axpy[2, 32](array, 2.0, array)

    with kernelscope.record() as r:
        threads = [threading.Thread(target=work, name=f"worker {number}") for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    launches = r.recording.launches
    assert len(launches) == 2400
    assert (launches.groupby("thread_id").size() == 300).all()
    assert launches.parent_launch_id.isna().all()
    assert launches.start_ns.is_monotonic_increasing
    assert set(r.recording.threads.name) >= {f"worker {number}" for number in range(8)}
    for _, rows in launches.groupby("thread_id"):
        times = rows[BOUNDARIES].astype("int64").to_numpy()
        assert (np.diff(times, axis=1) >= 0).all()
        assert (times[1:, 0] >= times[:-1, 4]).all()


def test_eight_threads_compiling_the_same_kernel(kernels, array):
    start = threading.Barrier(8)

    def work():
        start.wait()
        kernels.axpy[2, 32](array, 2.0, array)

    with kernelscope.record() as r:
        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    compilations = r.recording.compilations
    assert (compilations.outcome == "compiled").sum() == sum(kernels.axpy.stats.cache_misses.values())
    assert set(compilations.outcome) <= {"compiled", "wait"}
    assert len(r.recording.launches) == 8
    assert r.recording.launches.cache.notna().all()


def test_launches_from_inside_a_launch_have_a_parent(kernels, array):
    inner = kernels.noop[1, 1]

    class Launching:
        def prepare_args(self, ty, val, **kwargs):
            inner()
            return ty, val

    @cuda.jit(extensions=[Launching()])
    def outer(x):
        x[0] = 1

    outer[1, 1](array)
    with kernelscope.record() as r:
        outer[1, 1](array)
    launches = r.recording.launches
    assert names(r.recording) == ["outer", "noop"]
    assert launches.parent_launch_id.isna().tolist() == [True, False]
    assert launches.parent_launch_id[1] == 0
    times = launches[BOUNDARIES].astype("int64").to_numpy()
    assert (np.diff(times, axis=1) >= 0).all(), "the nested launch left its times in the outer one"


def test_launch_config_sensitive_kernels_count_once(kernels, array):
    with kernelscope.record() as r:
        for blockdim in (32, 64, 32, 64, 96):
            kernels.sensitive[1, blockdim](array)
    recording = r.recording
    assert len(recording.launches) == 5
    assert recording.launches.cache.tolist() == ["compiled", "compiled", "memory", "memory", "compiled"]
    assert len(recording.dispatchers) == 1
    assert recording.specializations.launch_config_sensitive.all()
    assert recording.compilations.launch_config_sensitive.all()
    seen = recording.compilations.merge(recording.configurations, on="configuration_id").blockdim_x.tolist()
    assert sorted(seen) == [32, 64, 96]
    assert recording.launches.parent_launch_id.isna().all()


def launch_path():
    """What a launch runs: the functions themselves, their code and their defaults."""
    functions = [vars(numba_dispatcher.CUDADispatcher)["call"], vars(numba_dispatcher._Kernel)["launch"]]
    return [numba_dispatcher.launch, *functions, *[function.__code__ for function in functions],
            *[(function.__defaults__, function.__kwdefaults__) for function in functions]]


def test_a_loaded_and_idle_package_leaves_the_originals():
    before = launch_path()
    with kernelscope.record():
        assert launch_path() != before
    after = launch_path()
    assert after == before
    assert all(now is then for now, then in zip(after[:5], before[:5], strict=True))


def test_arguments_are_not_kept_alive(kernels):
    import gc
    import weakref

    array = cuda.device_array(4, np.float32)
    gone = weakref.ref(array)
    recorder = Recorder().start()
    try:
        kernels.axpy[1, 32](array, 1.0, array)
        del array
        gc.collect()
        assert gone() is None
    finally:
        recorder.stop()
