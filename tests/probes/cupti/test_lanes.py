"""Samples of a device's counters, from a stand-in for CUPTI's PM sampling to the table ``pm_samples``."""

from __future__ import annotations

import time
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest

from kernelscope.counters import lanes, pm_sampling
from kernelscope.counters.lanes import WANTED, LanesProbe
from kernelscope.counters.pm_sampling import PmSampling
from kernelscope.probes.cupti.library import CuptiError
from kernelscope.recorder.options import RecordingOptions
from kernelscope.recorder.recorder import Recorder

SM, DRAM, TENSOR = (entry[0] for entry in WANTED)
READ, WRITE = WANTED[1][1].split("+")
INTERVAL = lanes.INTERVAL_NS


class PmStandIn:
    """CUPTI's PM sampling of one device: `sample` adds samples to its buffer."""

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

    def sample(self, start_ns, *values, length=INTERVAL):
        self.pending.append((start_ns, start_ns + length, values))

    def call(self, profiler, name, **given):
        if self.fails.get(name):
            raise self.fails[name]
        self.called[name] += 1
        short = name.removeprefix("cuptiPmSampling").removeprefix("cuptiProfiler").removeprefix("cupti")
        done = getattr(self, short, lambda **_: {})(**given)
        return SimpleNamespace(**done or {})

    @property
    def left_on(self):
        called = self.called
        return (self.is_on, called["cuptiPmSamplingEnable"] - called["cuptiPmSamplingDisable"],
                called["cuptiProfilerHostInitialize"] - called["cuptiProfilerHostDeinitialize"])

    def DeviceGetChipName(self, **_):
        return {"chip": b"GX100"}

    def HostInitialize(self, **_):
        return {"host": 1}

    def HostConfigAddMetrics(self, names, count, **_):
        self.config = tuple(names[at].decode() for at in range(count))
        unknown = [name for name in self.config if self.passes((name,)) == 0]
        if unknown:
            raise CuptiError("CUPTI_ERROR_INVALID_METRIC_NAME")

    def HostGetConfigImageSize(self, **_):
        return {"bytes": 8}

    def HostGetNumOfPasses(self, **_):
        return {"passes": self.passes(self.config)}

    def GetCounterAvailability(self, **_):
        return {"bytes": 8}

    def Enable(self, **_):
        return {"sampler": 2}

    def SetConfig(self, trigger, **_):
        self.trigger = trigger

    def GetCounterDataSize(self, **_):
        return {"bytes": 8}

    def CounterDataImageInitialize(self, **_):
        self.decoded = []

    def Start(self, **_):
        self.is_on = True

    def Stop(self, **_):
        self.is_on = False

    def DecodeData(self, **_):
        room = pm_sampling.ROOM
        self.decoded, self.pending = self.pending[:room], self.pending[room:]
        return {"stopped": 1 if self.pending else 2, "overflow": self.overflow}

    def GetCounterDataInfo(self, **_):
        return {"completed": len(self.decoded)}

    def CounterDataGetSampleInfo(self, sample, **_):
        return {"start": self.decoded[sample][0], "end": self.decoded[sample][1]}

    def HostEvaluateToGpuValues(self, range, values, **_):
        for at, value in enumerate(self.decoded[range][2]):
            values[at] = value


@pytest.fixture
def pm(monkeypatch):
    made = PmStandIn()
    monkeypatch.setattr(PmSampling, "_load", lambda self, path: None)
    monkeypatch.setattr(PmSampling, "_call", lambda self, name, **given: made.call(self, name, **given))
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
    refused, pm.SetConfig = pm.SetConfig, lambda trigger, **_: refused(0) if trigger == 0 else _refuse()
    sampling = PmSampling("libcupti", 0, WANTED, INTERVAL)
    assert (pm.trigger, sampling.is_by_time) == (0, False)
    sampling.end()


def _refuse():
    raise CuptiError("CUPTI_ERROR_NOT_SUPPORTED")


def test_more_samples_than_fit_at_once_are_all_taken(pm, monkeypatch):
    monkeypatch.setattr(pm_sampling, "ROOM", 3)
    sampling = PmSampling("libcupti", 0, WANTED, INTERVAL)
    sampling.start()
    for at in range(8):
        pm.sample(at * INTERVAL, at, 0, 0)
    start, end, values = sampling.taken()
    assert start.tolist() == [at * INTERVAL for at in range(1, 8)], "the first began before"
    assert (end - start == INTERVAL).all() and values[:, 0].tolist() == list(range(1, 8))
    pm.sample(9 * INTERVAL, 9, 0, 0)
    assert sampling.taken().values.tolist() == [[9, 0, 0]] and not len(sampling.taken().start_ns)
    sampling.stop()
    sampling.end()


@pytest.mark.parametrize("call", ["GetCounterAvailability", "Enable", "SetConfig", "GetCounterDataSize",
                                  "CounterDataImageInitialize", "Start"])
def test_what_cupti_refuses_is_said_and_leaves_nothing_on(pm, call):
    pm.fails[f"cuptiPmSampling{call}"] = CuptiError("CUPTI_ERROR_INSUFFICIENT_PRIVILEGES", "ask an administrator")
    with Recorder(probes=[LanesProbe(path="libcupti", devices=[0])]) as recorder:
        pass
    (row,) = lanes_row(recorder.recording)
    assert (row["status"], row["fix"]) == ("unavailable", "ask an administrator")
    assert "was not sampled: CUPTI_ERROR_INSUFFICIENT_PRIVILEGES" in row["message"]
    assert not len(recorder.recording.pm_samples)


def lanes_row(recording):
    return [row for row in recording.rows("health") if row["probe"] == "lanes"]


def rows_of(recording, name):
    return [row for row in recording.rows("pm_samples") if row["name"] == name]


def test_samples_become_rows_on_the_host_clock(pm):
    recorder = Recorder(probes=[LanesProbe(path="libcupti", devices=[0])])
    recorder.start()
    recorder.begin_cell("a")
    host, wall = time.perf_counter_ns(), time.time_ns()
    for at in (-1, 0, 1, 4, 5):  # the first began before, and between 2 and 4 some are missing
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
    assert row["message"] == ("4 samples of sm__cycles_active, dram__throughput, sm__pipe_tensor_cycles_active, one "
                              "every 100 µs; 200 µs without samples")


def test_samples_are_taken_while_the_cell_runs(pm, monkeypatch):
    monkeypatch.setattr(lanes, "_EVERY_S", 0.001)
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
    for said in ("0 samples", "sm__pipe_tensor_cycles_active cannot be sampled beside the others on this GPU",
                 "the GPU's buffer was full", "too little ran for one"):
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
    pm.fails["cuptiPmSamplingDecodeData"] = CuptiError("CUPTI_ERROR_OUT_OF_MEMORY")
    recording = recorder.stop()
    assert len(rows_of(recording, SM)) == 2
    (row,) = lanes_row(recording)
    assert row["status"] == "degraded" and "then sampling failed: CUPTI_ERROR_OUT_OF_MEMORY" in row["message"]


def test_a_recording_inside_another_has_its_own_samples(pm):
    outer = Recorder(probes=[LanesProbe(path="libcupti", devices=[0])])
    outer.start()
    now = time.time_ns()
    for at in range(5):
        pm.sample(now + (at - 4) * INTERVAL, at, at, at)
    time.sleep(0.002)
    inner = Recorder()
    inner.start()
    now = time.time_ns()
    for at in range(3):
        pm.sample(now + at * INTERVAL, 50 + at, 0, 0)
    found = rows_of(inner.stop(), SM)
    assert [row["value"] for row in found if row["value"] is not None] == [50, 51, 52]
    assert [row["value"] for row in rows_of(outer.stop(), SM) if row["value"] is not None] == [1, 2, 3, 4, 50, 51, 52]


@pytest.mark.parametrize(("options", "said"), [
    ({"metrics": "basic"}, "beside metrics"), ({"stalls": True}, "beside stalls"), ({"gpu": "none"}, "needs CUPTI")])
def test_options_that_do_not_go_together_are_refused(options, said):
    with pytest.raises(ValueError, match=said):
        RecordingOptions(lanes=True, **options)


def test_a_machine_without_a_gpu_is_said():
    with Recorder(lanes=True) as recorder:
        pass
    (row,) = lanes_row(recorder.recording)
    assert (row["status"], row["message"]) == (
        "unavailable", "how busy the GPU was was not sampled: there is no GPU here")
