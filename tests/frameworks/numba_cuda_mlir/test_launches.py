"""Every launch of numba-cuda-mlir is one row: its configuration, its specialization, what is seen of its phases."""

from __future__ import annotations

import gc
import threading
import weakref

import numpy as np
import pytest
from cuda.core import Device
from numba_cuda_mlir import cuda

import kernelscope
from kernelscope import dryrun


@pytest.mark.parametrize("detail", ["launch", "phases"])
def test_every_launch_is_one_row(kernels, array, detail):
    held = kernels.axpy[2, 32]
    before = dryrun.counters().launches
    with kernelscope.record(detail=detail) as r:
        for _ in range(20):
            kernels.axpy[2, 32](array, 2.0, array)
            held(array, 2.0, array)
            kernels.noop[1, 1]()
    launches = r.recording.launches
    assert len(launches) == dryrun.counters().launches - before == 60
    assert launches.cache.astype(str).value_counts().to_dict() == {"memory": 58, "compiled": 2}
    assert launches.error.isna().all() and launches.specialization_id.notna().all()
    names = r.recording.dispatchers.name.str.rpartition(".")[2]
    assert launches.dispatcher_id.map(names).value_counts().to_dict() == {"axpy": 40, "noop": 20}
    assert set(r.recording.dispatchers.framework) == {"numba-cuda-mlir"}
    assert r.recording.health.errors.isna().all()


def test_of_the_boundaries_only_the_launchers_return_is_seen(kernels, array):
    with kernelscope.record() as r:
        for _ in range(5):
            kernels.axpy[2, 32](array, 2.0, array)
    launches = r.recording.launches
    assert launches[["dispatch_end_ns", "submit_start_ns"]].isna().all(axis=None)
    assert (launches.start_ns < launches.submit_end_ns).all() and (launches.submit_end_ns <= launches.end_ns).all()
    assert launches.compile_ns.iloc[0] > 0 and (launches.compile_ns.iloc[1:] == 0).all()
    assert (launches.start_ns.iloc[1:].to_numpy() >= launches.end_ns.iloc[:-1].to_numpy()).all()
    with kernelscope.record(detail="launch") as ends:
        kernels.axpy[2, 32](array, 2.0, array)
    assert ends.recording.launches.submit_end_ns.isna().all()


def test_configurations_are_what_was_asked_for(kernels):
    own, foreign = cuda.stream(), Device().create_stream()
    with kernelscope.record() as r:
        kernels.noop[(2, 3), (4, 5)]()
        kernels.noop[8, 32, own, 256]()
        kernels.noop[8, 32, foreign]()
        kernels.noop[8, 32, None, None, 4]()
        kernels.noop[(8, 2), 32, 0, 0, (2, 2)]()
    rows = r.recording.rows("configurations")
    assert [[row[f"{part}_{axis}"] for part in ("griddim", "blockdim") for axis in "xyz"] for row in rows] == [
        [2, 3, 1, 4, 5, 1], *[[8, 1, 1, 32, 1, 1]] * 3, [8, 2, 1, 32, 1, 1]]
    assert [row["stream"] for row in rows] == [0, int(own.handle), int(foreign.handle), 0, 0]
    assert [row["sharedmem_bytes"] for row in rows] == [0, 256, 0, 0, 0]
    assert [[row[f"cluster_{axis}"] for axis in "xyz"] for row in rows] == [
        [None] * 3, [None] * 3, [None] * 3, [4, 1, 1], [2, 2, 1]]


def test_specializations_have_what_the_machine_code_says(kernels, array):
    with kernelscope.record() as r:
        kernels.axpy[2, 32](array, 2.0, array)
    row = r.recording.rows("specializations")[0]
    assert row["signature"] == "(array(float32, 1d, C), float64, array(float32, 1d, C))"
    assert row["compute_capability"] == "9.0" and row["origin"] == "compiled"
    assert row["regs"] == next(iter(kernels.axpy.get_regs_per_thread().values()))
    assert row["cubin_bytes"] == len(next(iter(kernels.axpy.overloads.values())).metadata["cubin"])
    assert row["entry_name"].startswith("_Z") and row["launch_config_sensitive"] is False
    occupancy = r.recording.rows("occupancies")[0]
    assert occupancy["active_blocks_per_multiprocessor"] > 0 and 0 < occupancy["occupancy"] <= 1
    assert r.recording.rows("devices")[0]["compute_capability"] == "9.0"


def test_a_kernel_is_loaded_for_its_occupancy_and_let_go(kernels, array):
    kernels.axpy[2, 32](array, 2.0, array)
    before = dryrun.counters().calls
    with kernelscope.record() as r:
        for block in (32, 64, 128):
            kernels.axpy[2, block](array, 2.0, array)
    after = dryrun.counters().calls
    assert after["cuModuleLoadData"] - before.get("cuModuleLoadData", 0) == 1
    assert after["cuModuleUnload"] - before.get("cuModuleUnload", 0) == 1
    assert len(r.recording.occupancies) == 3


def test_what_was_compiled_before_is_said_so(kernels, array):
    kernels.axpy[2, 32](array, 2.0, array)
    with kernelscope.record() as r:
        kernels.axpy[2, 32](array, 2.0, array)
    assert r.recording.specializations.origin.tolist() == ["before"]
    assert r.recording.launches.cache.tolist() == ["memory"]
    assert r.recording.compilations.empty


def test_a_launch_has_the_specialization_that_numba_reuses(kernels):
    """Of an integer of another width, numba-cuda-mlir runs what it has."""

    @cuda.jit
    def fill(x, value):
        x[0] = value

    x = cuda.to_device(np.zeros(4, np.int64))
    with kernelscope.record() as r:
        fill[1, 1](x, np.int32(3))
        fill[1, 1](x, np.int64(3))
        fill[1, 1](x, 3.5)
    assert r.recording.launches.specialization_id.tolist() == [0, 0, 1]
    assert len(r.recording.compilations) == len(fill.overloads) == 2


def test_host_arrays_are_copied_around_the_launch(kernels):
    host = np.zeros(1 << 16, np.float32)
    with kernelscope.record() as r:
        for _ in range(3):
            kernels.axpy[2, 32](host, 2.0, host)
    launches = r.recording.launches
    assert launches.specialization_id.tolist() == [0, 0, 0]
    assert (launches.end_ns > launches.submit_end_ns).all()


def test_forall_is_a_launch_of_its_kernel(kernels, array):
    with kernelscope.record() as r:
        kernels.axpy.forall(64)(array, 2.0, array)
        kernels.axpy[1, 128](array, 2.0, array)
    assert len(r.recording.launches) == 2 and len(r.recording.specializations) == 1
    assert len(set(r.recording.launches.configuration_id)) == 1


def test_a_captured_launch_is_a_row_and_the_capture_stays_whole(kernels, array):
    stream = Device().create_stream()
    kernels.axpy[2, 32, stream](array, 2.0, array)
    builder = stream.create_graph_builder()
    with kernelscope.record() as r:
        builder.begin_building()
        kernels.axpy[2, 32, builder.stream](array, 2.0, array)
        kernels.axpy[2, 32, builder.stream](array, 2.0, array)
        graph = builder.end_building().complete()
        graph.launch(stream)
    assert len(r.recording.launches) == 2
    assert r.recording.launches.capture_event_id.tolist() == [0, 0]
    assert r.recording.graph_events.kind.tolist() == ["capture", "instantiate", "launch"]
    assert r.recording.graph_nodes.specialization_id.tolist() == [0, 0]
    assert r.recording.configurations.stream.dropna().tolist() == [int(builder.stream.handle)]


def test_launches_from_inside_a_launch_have_a_parent(array, kernels):
    class Launching:
        def prepare_args(self, ty, val, **kwargs):
            kernels.noop[1, 1]()
            return ty, val

    @cuda.jit(extensions=[Launching()])
    def outer(x):
        x[0] = 1

    outer[1, 1](array)
    with kernelscope.record() as r:
        outer[1, 1](array)
    launches = r.recording.launches
    assert launches.parent_launch_id.isna().tolist() == [True, False]
    assert launches.parent_launch_id[1] == 0
    assert r.recording.dispatchers.name.iloc[launches.dispatcher_id[1]].endswith("noop")


@pytest.mark.parametrize("detail", ["launch", "phases"])
def test_threads_launching_at_once(kernels, array, detail):
    kernels.axpy[2, 32](array, 2.0, array)
    each, number = 300, 6
    go = threading.Barrier(number)

    def launch():
        go.wait()
        for _ in range(each):
            kernels.axpy[2, 32](array, 2.0, array)

    with kernelscope.record(detail=detail) as r:
        threads = [threading.Thread(target=launch) for _ in range(number)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert r.recording.launches.thread_id.value_counts().tolist() == [each] * number
    for _, rows in r.recording.launches.groupby("thread_id"):
        assert (rows.start_ns.iloc[1:].to_numpy() >= rows.end_ns.iloc[:-1].to_numpy()).all()


def test_many_launches_lose_nothing(kernels):
    noop = kernels.noop[1, 1]
    noop()
    count = 20_007  # more than the log's first blocks hold
    with kernelscope.record() as r:
        for _ in range(count):
            noop()
    assert len(r.recording.launches) == count
    assert r.recording.launches.specialization_id.notna().all()


def test_arguments_are_not_kept_alive(kernels):
    class Watched(np.ndarray):
        pass

    host = np.zeros(64, np.float32).view(Watched)
    device = cuda.to_device(np.zeros(64, np.float32))
    gone = [weakref.ref(host), weakref.ref(device)]
    with kernelscope.record():
        kernels.axpy[2, 32](device, 2.0, device)
        kernels.axpy[2, 32](device, 2.0, host)
        del host, device
        gc.collect()
        assert [each() for each in gone] == [None, None]


def test_many_types_and_configurations_need_no_more_memory(kernels):
    host = np.zeros(8, np.float32)
    with kernelscope.record() as r:
        for at in range(1500):  # host arrays: a list of types of its own for each launch
            kernels.axpy[1 + at % 3, 32](host, 2.0, host)
    assert len(r.recording.launches) == 1500 and r.recording.launches.specialization_id.notna().all()


def test_several_devices_are_told_apart_by_the_gpus_records_only(run_python):
    done = run_python("""
import numpy as np, kernelscope
from numba_cuda_mlir import cuda
@cuda.jit
def noop(): pass
with kernelscope.record() as r:
    noop[1, 1]()
assert r.recording.launches.device_id.isna().all()
assert r.recording.cells.synchronized_ns.notna().all()
print("ok")
""", KERNELSCOPE_DRYRUN_DEVICES="2")
    assert done.stdout.strip() == "ok"
