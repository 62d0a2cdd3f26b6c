"""Samples of a device's counters, from a stand-in for CUPTI's PM sampling to the table ``pm_samples``."""

from __future__ import annotations

import ctypes
import time
from collections import Counter

import numpy as np
import pytest

from kernelscope.clock import align
from kernelscope.counters.profiler import _STRUCTURES
from kernelscope.features.lanes import pm_sampling
from kernelscope.features.lanes import record as lanes
from kernelscope.features.lanes.pm_sampling import PmSampling
from kernelscope.features.lanes.record import WANTED, LanesProbe
from kernelscope.probes.cupti.library import CuptiError
from kernelscope.recorder.options import RecordingOptions
from kernelscope.recorder.recorder import Recorder

SM, DRAM, TENSOR = (entry[0] for entry in WANTED)
READ, WRITE = WANTED[1][1].split("+")
INTERVAL = lanes.INTERVAL_NS


class PmStandIn:
    """CUPTI's PM sampling of one device, as a library of ctypes: `sample` adds samples to the device's buffer."""

    def __init__(self):
        self.called = Counter()
        self.fails = {}
        self.passes = lambda metrics: 1
        self.config = ()
        self.pending = []
        self.decoded = []
        self.overflow = False
        self.trigger = None
        self.is_on = False
        self.callbacks = {}

    def sample(self, start_ns, *values, length=INTERVAL):
        self.pending.append((start_ns, start_ns + length, values))

    def cuptiGetResultString(self, result, name):
        ctypes.cast(name, ctypes.POINTER(ctypes.c_char_p))[0] = f"CUPTI_ERROR_{result}".encode()

    def __getattr__(self, name):
        if not name.startswith("cupti"):
            raise AttributeError(name)
        return self.callbacks.setdefault(name, ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(
            lambda address: self.call(name, address)))

    def call(self, name, address):
        if name in self.fails:
            return self.fails[name]
        self.called[name] += 1
        params = _STRUCTURES[name].from_address(address)
        short = name.removeprefix("cuptiPmSampling").removeprefix("cuptiProfiler").removeprefix("cupti")
        return getattr(self, short, lambda params: 0)(params) or 0

    @property
    def left_on(self):
        called = self.called
        return (self.is_on, called["cuptiPmSamplingEnable"] - called["cuptiPmSamplingDisable"],
                called["cuptiProfilerHostInitialize"] - called["cuptiProfilerHostDeinitialize"])

    def DeviceGetChipName(self, params):
        params.chip = b"GX100"

    def HostInitialize(self, params):
        params.host = 1

    def Enable(self, params):
        params.sampler = 2

    def HostConfigAddMetrics(self, params):
        self.config = tuple(params.names[at].decode() for at in range(params.count))
        return 7 if any(self.passes((name,)) == 0 for name in self.config) else 0

    def HostGetConfigImageSize(self, params):
        params.bytes = 8

    def HostGetNumOfPasses(self, params):
        params.passes = self.passes(self.config)

    def GetCounterAvailability(self, params):
        params.bytes = 8

    def SetConfig(self, params):
        if params.trigger in self.fails:
            return self.fails[params.trigger]
        self.trigger = params.trigger

    def GetCounterDataSize(self, params):
        params.bytes = 8

    def CounterDataImageInitialize(self, params):
        self.decoded = []

    def Start(self, params):
        self.is_on = True

    def Stop(self, params):
        self.is_on = False

    def DecodeData(self, params):
        room = pm_sampling.ROOM
        self.decoded, self.pending = self.pending[:room], self.pending[room:]
        params.stopped, params.overflow = 1 if self.pending else 2, self.overflow

    def GetCounterDataInfo(self, params):
        params.completed = len(self.decoded)

    def CounterDataGetSampleInfo(self, params):
        params.start, params.end = self.decoded[params.sample][:2]

    def HostEvaluateToGpuValues(self, params):
        for at, value in enumerate(self.decoded[params.range][2]):
            params.values[at] = value


@pytest.fixture
def pm(monkeypatch):
    made = PmStandIn()
    monkeypatch.setattr(PmSampling, "_load", lambda self, path: setattr(self, "_library", made))
    yield made
    assert made.left_on == (False, 0, 0)


def chosen(wanted=WANTED):
    sampling = PmSampling("libcupti", 0, wanted, INTERVAL)
    sampling.end()
    return sampling.metrics, sampling.missing


def test_the_first_choice_that_fits_into_one_pass_is_sampled(pm):
    assert chosen() == ((SM, DRAM, TENSOR), [])
    pm.passes = lambda metrics: 2 if DRAM in metrics else 1
    assert chosen() == ((SM, READ, WRITE, TENSOR), [])
    pm.passes = lambda metrics: 2 if "tensor" in str(metrics) and SM in metrics else 1
    assert chosen() == ((SM, DRAM), [TENSOR])
    pm.passes = lambda metrics: 0 if SM in metrics else 1
    assert chosen() == ((DRAM, TENSOR), [SM])
    pm.passes = lambda metrics: 0
    with pytest.raises(CuptiError, match="sm__cycles_active.* cannot be measured on GX100"):
        chosen()


def test_samples_by_the_clock_where_the_time_cannot_be(pm):
    assert PmSampling("libcupti", 0, WANTED, INTERVAL).end() is None and pm.trigger == 1
    pm.fails[1] = 27
    sampling = PmSampling("libcupti", 0, WANTED, INTERVAL)
    assert (pm.trigger, sampling.is_by_time) == (0, False)
    sampling.end()


def test_more_samples_than_fit_at_once_are_all_taken(pm, monkeypatch):
    monkeypatch.setattr(pm_sampling, "ROOM", 3)
    sampling = PmSampling("libcupti", 0, WANTED, INTERVAL)
    sampling.start()
    for at in range(8):
        pm.sample(at * INTERVAL, at, 0, 0)
    stop = ctypes.c_uint8(1)
    start, end, values = sampling.drain(stop, 0)
    assert start.tolist() == [at * INTERVAL for at in range(8)]
    assert (end - start == INTERVAL).all() and values[:, 0].tolist() == list(range(8))
    assert sampling.overflows == 2, "CUPTI's own buffer was full"
    pm.sample(9 * INTERVAL, 9, 1.5, 0)
    assert sampling.drain(stop, 0).values.tolist() == [[9, 1.5, 0]] and not len(sampling.drain(stop, 0).start_ns)
    sampling.stop()
    sampling.end()


@pytest.mark.parametrize("call", ["GetCounterAvailability", "Enable", "SetConfig", "GetCounterDataSize",
                                  "CounterDataImageInitialize", "Start"])
def test_what_cupti_refuses_is_said_and_leaves_nothing_on(pm, call):
    pm.fails[f"cuptiPmSampling{call}"] = 35
    with Recorder(probes=[LanesProbe(path="libcupti", devices=[0])]) as recorder:
        pass
    (row,) = lanes_row(recorder.recording)
    assert row["status"] == "unavailable" and row["fix"]
    assert "was not sampled: " in row["message"]
    assert not len(recorder.recording.pm_samples)


def lanes_row(recording):
    return [row for row in recording.rows("health") if row["probe"] == "lanes"]


def rows_of(recording, name):
    return [row for row in recording.rows("pm_samples") if row["name"] == name]


def test_samples_become_rows_on_the_host_clock(pm):
    recorder = Recorder(probes=[LanesProbe(path="libcupti", devices=[0])])
    recorder.start()
    recorder.begin_cell("a")
    both = align(tries=100)  # the tightest of so many: between two readings the system may do something else
    host, wall = both.host_ns, both.wall_ns
    pm.sample(wall - 10**10, 1, 2, 3, length=10**10)  # as CUPTI has the first one: since the device was sampled last
    for at in (0, 1, 4, 5):
        if at == 4:  # what there is after a buffer was full
            pm.sample(wall - 10**12, 6, 6, 6)
            pm.sample(wall + 10**12, 7, 7, 7)
            pm.sample(wall, 8, 8, 8)
            pm.sample(wall + 2 * INTERVAL, 9, 9, 9, length=2 * INTERVAL)
        pm.sample(wall + at * INTERVAL, 10 + at, 20 + at, 30 + at)
    while time.perf_counter_ns() < host + 7 * INTERVAL:
        pass
    recorder.end_cell()
    recording = recorder.stop()
    rows = rows_of(recording, DRAM)
    assert [row["value"] for row in rows] == [20, 21, None, 24, 25]
    times = np.array([[row["start_ns"], row["end_ns"]] for row in rows])
    assert np.allclose(times - host, [[each * INTERVAL for each in span] for span in (
        (0, 1), (1, 2), (2, 4), (4, 5), (5, 6))], atol=200_000)
    assert (times[1:, 0] == times[:-1, 1]).all()
    assert {(row["device_id"], row["cell_id"]) for row in rows} == {(0, 0)}
    assert [row["value"] for row in rows_of(recording, TENSOR)] == [30, 31, None, 34, 35]
    (row,) = lanes_row(recording)
    assert row["status"] == "degraded" and row["clock_error_ns"] >= 0
    assert row["message"] == ("samples of sm__cycles_active, dram__throughput, sm__pipe_tensor_cycles_active, one "
                              "every 100 µs; 200 µs without samples")


def test_samples_are_taken_while_the_cell_runs(pm):
    with Recorder(probes=[LanesProbe(path="libcupti", devices=[0])]):
        pm.sample(time.time_ns(), 1, 1, 1)
        deadline = time.monotonic() + 60
        while pm.pending:
            assert time.monotonic() < deadline, "nobody takes them"
            time.sleep(0.001)


def test_what_is_missing_is_said(pm):
    pm.passes = lambda metrics: 2 if "tensor" in str(metrics) else 1
    with Recorder(probes=[LanesProbe(path="libcupti", devices=[0])]) as recorder:
        pm.overflow = True
    (row,) = lanes_row(recorder.recording)
    assert row["status"] == "degraded" and row["fix"]
    for said in ("sm__pipe_tensor_cycles_active cannot be sampled beside the others on this GPU",
                 "a buffer was full", "the recording was too short for one"):
        assert said in row["message"]


def test_a_failure_meanwhile_keeps_what_was_taken(pm):
    recorder = Recorder(probes=[LanesProbe(path="libcupti", devices=[0])])
    recorder.start()
    now = time.time_ns()
    for at in range(3):
        pm.sample(now + at * INTERVAL, at, at, at)
    deadline = time.monotonic() + 60
    while pm.pending:
        assert time.monotonic() < deadline
        time.sleep(0.001)
    pm.fails["cuptiPmSamplingDecodeData"] = 8
    recording = recorder.stop()
    assert len(rows_of(recording, SM)) == 3
    (row,) = lanes_row(recording)
    assert row["status"] == "degraded"
    assert "then sampling failed: cuptiPmSamplingDecodeData failed: CUPTI_ERROR_8" in row["message"]


def test_a_recording_inside_another_has_its_own_samples(pm):
    outer = Recorder(probes=[LanesProbe(path="libcupti", devices=[0])])
    outer.start()
    now = time.time_ns()
    for at in range(1, 5):
        pm.sample(now + at * INTERVAL, at, at, at)
    time.sleep(0.002)
    inner = Recorder()
    inner.start()
    now = time.time_ns()
    for at in range(3):
        pm.sample(now + at * INTERVAL, 50 + at, 0, 0)
    found = rows_of(inner.stop(), SM)
    assert [row["value"] for row in found if row["value"] is not None] == [50, 51, 52]
    found = [row["value"] for row in rows_of(outer.stop(), SM)]
    assert [value for value in found if value is not None] == [1, 2, 3, 4, 50, 51, 52]


@pytest.mark.parametrize(("options", "said"), [
    ({"metrics": "basic"}, "lanes True cannot stand beside metrics .basic."),
    ({"stalls": True}, "lanes True cannot stand beside stalls"), ({"gpu": "none"}, "needs CUPTI")])
def test_options_that_do_not_go_together_are_refused(options, said):
    with pytest.raises(ValueError, match=said):
        RecordingOptions(lanes=True, **options)


def test_a_machine_without_a_gpu_is_said():
    with Recorder(lanes=True) as recorder:
        pass
    (row,) = lanes_row(recorder.recording)
    assert (row["status"], row["message"]) == (
        "unavailable", "how busy the GPU was was not sampled: there is no GPU here")
