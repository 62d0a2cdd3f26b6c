"""The GPU's counters of launches, from the stand-in for CUPTI to the tables ``measurements`` and ``metrics``."""

from __future__ import annotations

import ctypes
import signal
import threading

import numpy as np
import pytest
from cupti_stand_in import NUMBERS
from numba import cuda
from numba.cuda import dispatcher
from numba.cuda.cudadrv import driver

from kernelscope.counters.examine import examine
from kernelscope.errors import RecorderStateError
from kernelscope.features.metrics.record import MeasurementsProbe
from kernelscope.features.metrics.sets import SETS
from kernelscope.probes.numba_cuda import NumbaCudaProbe
from kernelscope.recorder.recorder import Recorder

CONTEXT = 0x7700
VALUES = {name: 10.0 * (place + 1) for place, name in enumerate(SETS["basic"])}
LAUNCH = NUMBERS[1, "cuLaunchKernel"]


@cuda.jit
def first(array):
    array[0] = 1


@cuda.jit
def second(array):
    array[0] = 2


@pytest.fixture
def array():
    return cuda.to_device(np.zeros(1, np.float32))


@pytest.fixture
def measure(stand_in, monkeypatch):
    """Makes recorders that measure with the stand-in, which sees each launch on the dry run."""
    original, binding = dispatcher.launch, driver.binding

    def launch(stream, config, kernel, *args):
        original(stream, config, kernel, *args)
        name = binding.cuKernelGetName(binding.CUkernel(int(kernel.handle)))[1]
        stand_in.library.stand_in_launched(LAUNCH, name, ctypes.c_void_p(launch.context))

    launch.context = CONTEXT
    monkeypatch.setattr(dispatcher, "launch", launch)
    for name, value in VALUES.items():
        stand_in.library.stand_in_metric(name.encode(), ctypes.c_double(value))

    def make(wanted="basic", **how):
        probe = MeasurementsProbe(wanted, path=stand_in.path, contexts=[(CONTEXT, 0)], **how)
        return Recorder(probes=[NumbaCudaProbe(), probe], metrics=wanted, replay=how.get("replay", "kernel"))

    make.launch = launch
    return make


def stated(recording):
    row, = (row for row in recording.rows("health") if row["probe"] == "metrics")
    return row


def values(recording):
    """The metrics of each measured kernel."""
    found = {row["measurement_id"]: (row["name"].rpartition(".")[2], {}) for row in recording.rows("measurements")}
    for row in recording.rows("metrics"):
        found[row["measurement_id"]][1][row["name"]] = row["value"]
    return dict(found.values())


def plus(more):
    return {name: value + more for name, value in VALUES.items()}


def test_values_reach_the_tables(measure, array, stand_in):
    with measure() as recorder:
        for _ in range(3):
            first[2, 32](array)
            second[2, 32](array)
        assert stand_in.library.stand_in_profiler_enables() == 1
    recording = recorder.recording
    assert values(recording) == {"first": VALUES, "second": plus(1000)}
    rows = recording.rows("measurements")
    assert [(row["launch_id"], row["passes"], row["replay"], row["metric_set"]) for row in rows] == [
        (0, 3, "kernel", "basic"), (1, 3, "kernel", "basic")]
    assert all(row["end_ns"] > row["start_ns"] for row in rows)
    assert {row["unit"] for row in recording.rows("metrics")} == {"ns", "byte", "%"}
    assert stand_in.library.stand_in_profiler_replays() == 6
    assert (stated(recording)["status"], len(recording.launches)) == ("ok", 6)


def test_how_often_launches_run_is_said_before_and_each_one_that_was_measured(measure, array, stand_in):
    said, replays = [], stand_in.library.stand_in_profiler_replays
    with measure(notify=lambda text, stays: said.append((text, stays, replays()))) as recorder:
        first[2, 32](array)
        second[2, 32](array)
    assert [(stays, count) for _, stays, count in said] == [(True, 0), (False, 3), (False, 6), (True, 6)]
    assert said[0][0] == ("metrics basic: the first launch of each kernel runs in 3 passes, which takes about 0.2 s "
                          "and 3 times as long as the kernel itself")
    assert said[2][0].startswith("2 launches measured, the last of ") and "second" in said[2][0]
    assert said[3][0] == stated(recorder.recording)["message"]


def test_what_the_caller_repeats_is_one_range(measure, array, stand_in):
    with measure(replay="user") as recorder:
        for _ in recorder.passes():
            first[2, 32](array)
            second[2, 32](array)
    assert len(recorder.recording.launches) == 6 and stand_in.library.stand_in_profiler_replays() == 6
    recording = recorder.recording
    row, = recording.rows("measurements")
    assert (row["replay"], row["passes"], row["entry_name"], row["specialization_id"]) == ("user", 3, None, None)
    assert {each["name"]: each["value"] for each in recording.rows("metrics")} == VALUES
    assert row["name"].count(" + ") == 1 and stated(recording)["status"] == "ok"
    with measure(replay="user") as recorder:
        for _ in recorder.passes():
            first[2, 32](array)
    assert values(recorder.recording) == {"first": VALUES}
    assert recorder.recording.rows("measurements")[0]["specialization_id"] == 0


def test_counting_ends_where_its_pass_is_left(measure, array, stand_in, monkeypatch):
    done = []

    class Counts:
        def __init__(self, *_):
            pass

        def begin(self):
            done.append("begin")

        def take(self):
            done.append("take")
            return []

        def end(self):
            done.append("end")

    monkeypatch.setattr("kernelscope.features.metrics.record.InstructionCounts", Counts)
    counted = "dram__bytes.sum,sm__sass_thread_inst_executed_op_ffma_pred_on.sum"
    with measure(counted, replay="user") as recorder:
        for _ in recorder.passes():
            first[2, 32](array)
        assert done == ["begin", "take", "end"]
        with pytest.raises(RecorderStateError, match="called before"):
            recorder.passes()
    assert values(recorder.recording)["first"]["dram__bytes.sum"] == VALUES["dram__bytes.sum"]
    assert len(recorder.recording.launches) == 2
    done.clear()
    with measure(counted, replay="user") as recorder:
        for number in recorder.passes():
            if number == 1:
                break
    assert done == ["begin", "end"] and stand_in.left_on == []


def test_passes_that_do_not_come_to_their_end_measure_nothing(measure, array, stand_in):
    with measure(replay="user") as recorder:
        for _ in recorder.passes():
            first[2, 32](array)
            break
    assert stand_in.left_on == []
    row = stated(recorder.recording)
    assert row["status"] == "degraded" and "a range that could not be measured: its passes did not" in row["message"]
    with pytest.raises(ZeroDivisionError), measure(replay="user") as recorder:
        for _ in recorder.passes():
            first[2, 32](array)
            raise ZeroDivisionError
    assert stand_in.left_on == [] and not len(recorder.recording.measurements)
    stand_in.fail("cuptiRangeProfilerStart", 26)
    with measure(replay="user") as recorder:
        for _ in recorder.passes():
            first[2, 32](array)
    assert "another tool" in stated(recorder.recording)["message"]
    with measure() as recorder, pytest.raises(RecorderStateError, match="replay='user'"):
        recorder.passes()


def test_what_could_not_be_evaluated_is_null(measure, array, stand_in):
    stand_in.library.stand_in_metric(b"lts__t_bytes.sum", ctypes.c_double(float("nan")))
    with measure("lts__t_bytes.sum,dram__bytes.sum") as recorder:
        first[2, 32](array)
    assert values(recorder.recording) == {"first": {
        "lts__t_bytes.sum": None, "dram__bytes.sum": VALUES["dram__bytes.sum"]}}


def test_an_unknown_metric_is_said_by_name(measure, array):
    with measure("dram__bytes.sum,sm__nothing.sum") as recorder:
        first[2, 32](array)
    recording = recorder.recording
    row = stated(recording)
    assert row["status"] == "unavailable" and "the metric sm__nothing.sum cannot be measured on GH100" in row["message"]
    assert "dram" not in row["message"]
    assert (len(recording.launches), len(recording.measurements)) == (1, 0)


@pytest.mark.parametrize(("code", "what", "fix"), [
    (35, "only administrators", "NVreg_RestrictProfilingToAdminUsers=0"),
    (26, "another tool holds", "dcgmi profile --pause"), (27, "CUPTI_ERROR_NOT_SUPPORTED", "kernelscope doctor"),
])
@pytest.mark.parametrize("call", ["cuptiProfilerInitialize", "cuptiRangeProfilerEnable", "cuptiRangeProfilerSetConfig"])
def test_a_refusal_is_said_with_what_has_to_be_done(measure, array, stand_in, call, code, what, fix):
    stand_in.fail(call, code)
    with measure() as recorder:
        assert stand_in.left_on == []
        first[2, 32](array)
    row = stated(recorder.recording)
    assert row["status"] == "unavailable" and what in row["message"] and fix in row["fix"]
    assert len(recorder.recording.launches) == 1


def test_a_chip_that_is_not_supported_is_said_by_name(measure, array, stand_in):
    stand_in.library.stand_in_chip(b"GP104", 0)
    with measure() as recorder:
        first[2, 32](array)
    row = stated(recorder.recording)
    assert row["status"] == "unavailable" and "GP104: its architecture is older than Volta's" in row["message"]


@pytest.mark.parametrize("where", ["stand_in_signal_at_launch", "stand_in_signal_at_stop"])
def test_a_ctrl_c_while_a_launch_is_measured_leaves_nothing_on(measure, array, stand_in, no_garbage, where):
    first[2, 32](array)
    getattr(stand_in.library, where)(signal.SIGINT)
    recorder = measure()
    with pytest.raises(KeyboardInterrupt), recorder:
        first[2, 32](array)
        for _ in range(10_000_000):  # it comes a moment later
            pass
    assert stand_in.left_on == []
    recording = recorder.recording
    assert values(recording) == {"first": VALUES}
    assert stated(recording)["status"] == "ok"
    with measure() as recorder:
        launched = threading.Thread(target=lambda: second[2, 32](array))
        launched.start()
        launched.join(60)
        assert not launched.is_alive(), "it waits for a measurement that was interrupted"
    assert values(recorder.recording) == {"second": VALUES}


def test_launches_of_two_threads_are_measured_in_turn(measure, array, stand_in):
    kernels = first, second
    for kernel in kernels:
        kernel[2, 32](array)
    stand_in.library.stand_in_launch_time(20_000)
    together = threading.Barrier(2)

    def launch(kernel):
        together.wait(60)
        for _ in range(3):
            kernel[2, 32](array)

    with measure() as recorder:
        threads = [threading.Thread(target=launch, args=(kernel,)) for kernel in kernels]
        for each in threads:
            each.start()
        for each in threads:
            each.join(60)
        assert not any(each.is_alive() for each in threads)
    recording = recorder.recording
    assert stand_in.library.stand_in_profiler_overlaps() == 0
    assert stated(recording)["status"] == "ok" and len(recording.launches) == 6
    found = values(recording)
    assert set(found) == {"first", "second"}
    assert sorted(each["dram__bytes.sum"] for each in found.values()) == [
        VALUES["dram__bytes.sum"], VALUES["dram__bytes.sum"] + 1000]


def test_another_recording_afterwards_measures_again(measure, array, stand_in):
    for number in range(1, 4):
        with measure() as recorder:
            first[2, 32](array)
        assert values(recorder.recording) == {"first": VALUES}
        assert stand_in.left_on == [] and stand_in.library.stand_in_profiler_enables() == number


def test_a_recording_inside_does_not_disturb_the_one_around_it(measure, array, stand_in):
    with measure() as outer:
        first[2, 32](array)
        with measure() as inner:
            second[2, 32](array)
        first[2, 32](array)
    assert stand_in.library.stand_in_profiler_enables() == 1
    assert values(outer.recording) == {"first": VALUES, "second": plus(1000)}
    assert (len(inner.recording.launches), len(outer.recording.launches)) == (1, 3)


def test_launches_in_other_contexts_are_counted(measure, array):
    measure.launch.context = CONTEXT + 1
    with measure() as recorder:
        first[2, 32](array)
    row = stated(recorder.recording)
    assert row["status"] == "degraded" and "1 launch in other contexts" in row["message"]


def test_a_launch_that_could_not_be_measured_is_counted_and_the_next_is_measured(measure, array, stand_in):
    stand_in.fail("cuptiRangeProfilerStart", 26)
    with measure() as recorder:
        first[2, 32](array)
        stand_in.fail("cuptiRangeProfilerStart", 0)
        second[2, 32](array)
    row = stated(recorder.recording)
    assert row["status"] == "degraded" and "1 launch that could not be measured: another tool" in row["message"]
    assert "dcgmi profile --pause" in row["fix"]
    assert values(recorder.recording) == {"second": VALUES}


def test_the_doctor_s_trial_measures_and_says_what_it_found(measure, stand_in):
    found = examine(stand_in.path, [(CONTEXT, 0)])
    assert found["may_read"] and "CUPTI was asked" in found["why"] and found["chip"] == "GH100"
    assert list(found["libraries"]) == ["libcupti (API 130001)", "libnvperf_host"]
    assert found["libraries"]["libnvperf_host"].endswith("/libnvperf_host.so")
    stand_in.fail("cuptiRangeProfilerStart", 26)
    found = examine(stand_in.path, [(CONTEXT, 0)])
    assert not found["may_read"] and "CUPTI_ERROR_HARDWARE_BUSY" in found["why"] and found["fix"] in found["text"]
    assert stand_in.left_on == []
