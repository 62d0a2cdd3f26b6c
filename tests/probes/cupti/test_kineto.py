"""The GPU's side through torch.profiler, where that has CUPTI: a torch that says what a real one said on an H200."""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from cupti_stand_in import health

from kernelscope.probes.cupti import CuptiProbe, kineto
from kernelscope.probes.sink import GpuColumns
from kernelscope.recorder.recorder import Recorder

TRACE = json.loads(Path(__file__).with_name("kineto_trace.json").read_text())
#: When the recording begins, on the wall clock: before the trace's first record.
BEGUN = TRACE["baseTimeNanoseconds"] + 4_606_042_462_000_000
WIDE = "void at::native::vectorized_elementwise_kernel<4, "


class Result:
    """What torch gives at a session's end: the records of the trace since the last one."""

    def __init__(self, events: list[dict[str, Any]]) -> None:
        self._events, self.saved = events, 0

    def save(self, path: str) -> None:
        assert not self.saved, "Trace is already saved."
        self.saved += 1
        Path(path).write_text(json.dumps({**TRACE, "traceEvents": self._events}))

    def events(self) -> list[Any]:
        return [self._event(each) for each in self._events if each["ph"] == "X"]

    @staticmethod
    def _event(each: dict[str, Any]) -> Any:
        said, on_gpu = each.get("args", {}), each["cat"] in ("kernel", "gpu_memcpy", "gpu_memset")
        start, took = TRACE["baseTimeNanoseconds"] + round(each["ts"] * 1000), round(each.get("dur", 0) * 1000)
        values = {"name": each["name"], "correlation_id": said.get("correlation", 0), "start_ns": start,
                  "duration_ns": took, "device_type": "DeviceType.CUDA" if on_gpu else "DeviceType.CPU",
                  "device_index": said.get("device", 1), "device_resource_id": int(each["tid"]),
                  "is_user_annotation": False}
        return SimpleNamespace(**{name: lambda value=value: value for name, value in values.items()})


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A torch whose profiler records what is put into ``happens``; ``sessions`` are the results of ended ones."""
    state = SimpleNamespace(happens=[], sessions=[], running=None, lost=0, prepared=0)

    def enable(*_: Any) -> None:
        state.lost += state.running is not None  # a session inside another ends that one without its result
        state.running = "on"

    def disable() -> Result:
        assert state.running, "Can't disable Kineto profiler when it's not running"
        state.running = None
        state.sessions.append(Result(state.happens))
        state.happens = []
        return state.sessions[-1]

    class profile:
        kineto_results: Any = None

        def _prepare_trace(self) -> None:
            state.lost += state.running is not None
            state.prepared += 1

        def _start_trace(self) -> None:
            assert state.prepared
            state.prepared -= 1
            enable()

        def __enter__(self) -> Any:
            self._prepare_trace()
            self._start_trace()
            return self

        def __exit__(self, *_: Any) -> bool:
            self.kineto_results = disable()
            return False

    experimental = SimpleNamespace(_ExperimentalConfig=object)
    modules = {
        "torch": {"_C": SimpleNamespace(_profiler=experimental, _autograd=SimpleNamespace(
            _profiler_type=lambda: "ActiveProfilerType.KINETO" if state.running else "ActiveProfilerType.NONE"))},
        "torch.autograd": {
            "ProfilerConfig": lambda *_: None, "ProfilerState": SimpleNamespace(KINETO=1),
            "ProfilerActivity": SimpleNamespace(CUDA=2), "_prepare_profiler": lambda *_: None,
            "_enable_profiler": enable, "_disable_profiler": disable},
        "torch.autograd.profiler": {"profile": profile},
    }
    for name, held in modules.items():
        module = ModuleType(name)
        vars(module).update(held)
        monkeypatch.setitem(sys.modules, name, module)
    state.profile = profile
    return state


@pytest.fixture
def record(cupti: Any, stand_in: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes recorders whose CUPTI is another client's, on a clock that is the trace's."""
    stand_in.library.stand_in_hold(b"CUPTI for <not provided>")
    monkeypatch.setattr(kineto, "align", lambda _: SimpleNamespace(host_ns=1_000, wall_ns=BEGUN, error_ns=40))
    return lambda: Recorder(probes=[CuptiProbe(cupti)], clock=lambda: 1_000)


def test_what_kineto_wrote_becomes_activities_and_calls(torch: SimpleNamespace, record: Any) -> None:
    with record() as recorder:
        torch.happens += TRACE["traceEvents"]
    recording = recorder.recording
    kinds = recording.activities.kind.value_counts().to_dict()
    assert kinds == {"kernel": 7, "memcpy": 2, "sync": 3}
    kernel = recording.activities[recording.activities.correlation_id == 42177].iloc[0]
    assert kernel["name"].startswith(WIDE) and (kernel["regs"], kernel["stream"]) == (32, 7)
    assert (kernel["end_ns"] - kernel["start_ns"], kernel["api"]) == (960, "cudaLaunchKernel")
    assert kernel["start_ns"] == 1_000 + 1_025_425
    launch, = recording.rows("launches")
    assert (launch["start_ns"], launch["end_ns"]) == (1_000 + 943_013, 1_000 + 943_013 + 88_841)
    shape = recording.rows("configurations")[launch["configuration_id"]]
    assert (shape["griddim_x"], shape["blockdim_x"], shape["sharedmem_bytes"]) == (64, 128, None)
    copies = recording.activities[recording.activities.kind == "memcpy"]
    assert copies[["name", "memory", "size_bytes"]].to_numpy().tolist() == [
        ["HtoD", "pageable to device", 4_000], ["DtoH", "device to pageable", 4_000]]
    waits = recording.activities[recording.activities.kind == "sync"]
    assert waits.name.tolist() == ["stream synchronize", "context synchronize", "context synchronize"]
    assert recording.graph_events.kind.tolist().count("launch") == 3  # of one graph, by what it ran
    assert recording.activities.cupti_graph_id.dropna().unique().tolist() == [1]
    assert "cudaEventQuery" not in recording.api_calls.name.tolist()
    row, = health(recording)
    assert row["status"] == "degraded" and "torch.profiler has CUPTI" in row["message"]
    assert (torch.running, torch.lost) == (None, 0)


def test_threads_are_told_by_the_lower_bits_of_their_idents() -> None:
    """A trace has the absolute value of a signed number."""
    ident = threading.get_ident() & 0xFFFFFFFF
    signed = ident - (1 << 32) if ident >> 31 else ident
    call = {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "tid": abs(signed), "ts": 1.5, "dur": 0.25,
            "args": {"correlation": 3}}
    found, = kineto.of_trace({"traceEvents": [call, {**call, "ph": "s"}, {**call, "cat": "overhead"}]})
    assert (found.thread, found.start_ns, found.end_ns, found.correlation_id) == (ident, 1_500, 1_750, 3)


def test_the_users_profiler_runs_inside_a_recording(torch: SimpleNamespace, record: Any) -> None:
    """Both have all of their own: ours ends before, reads the user's result, which stays whole, and goes on after."""
    events = TRACE["traceEvents"]
    with record() as recorder:
        for _ in range(3):
            torch.happens += events[:5]
            with torch.profile() as theirs:
                torch.happens += events[5:]
            assert torch.running  # ours again
            assert theirs.kineto_results.saved == 0
    assert torch.lost == 0 and torch.running is None
    recording = recorder.recording
    assert recording.activities.kind.value_counts().to_dict()["kernel"] == 3 * 7
    assert vars(torch.profile)["__exit__"].__name__ == "__exit__"


def test_a_recording_inside_the_users_profiler_leaves_it_alone(torch: SimpleNamespace, record: Any) -> None:
    with torch.profile() as theirs:
        with record() as recorder:
            torch.happens += TRACE["traceEvents"]
        assert torch.running
    assert torch.lost == 0 and theirs.kineto_results.saved == 0
    assert len(theirs.kineto_results.events()) == 25
    assert any("still ran when this recording ended" in row["message"] for row in health(recorder.recording))


def test_the_profiler_starts_in_the_middle_of_a_recording_of_cupti(torch: SimpleNamespace, cupti: Any, stand_in: Any,
                                                                   monkeypatch: pytest.MonkeyPatch) -> None:
    """What CUPTI gave before stays, and what runs after it comes through Kineto."""
    monkeypatch.setattr(kineto, "align", lambda _: SimpleNamespace(host_ns=1_000, wall_ns=BEGUN, error_ns=40))
    with Recorder(probes=[CuptiProbe(cupti)]) as recorder:
        stand_in.launch("before")
        with torch.profile():
            assert stand_in.left_on == []  # we were gone when torch began
            torch.happens += TRACE["traceEvents"][:5]
        torch.happens += TRACE["traceEvents"][5:]
    names = recorder.recording.activities.name[recorder.recording.activities.kind == "kernel"].tolist()
    assert names.count("before") == 1 and len(names) == 1 + 7


def test_what_is_prepared_in_a_schedule_waits_until_it_starts(torch: SimpleNamespace, record: Any) -> None:
    events, theirs = TRACE["traceEvents"], torch.profile()
    with record() as recorder:
        theirs._prepare_trace()
        torch.happens += events
        theirs._start_trace()
        torch.happens += events
        theirs.__exit__(None, None, None)
        theirs._prepare_trace()
        assert torch.prepared == 0
    assert torch.prepared == 1 and torch.lost == 0  # prepared when our session had ended
    assert recorder.recording.activities.kind.tolist().count("kernel") == 2 * 7


def test_a_result_that_cannot_be_read_harms_nobody(torch: SimpleNamespace, record: Any,
                                                   monkeypatch: pytest.MonkeyPatch) -> None:
    with record() as recorder:
        with monkeypatch.context() as patched:
            patched.setattr(Result, "events", lambda _: 1 // 0)
            with torch.profile() as theirs:
                torch.happens += TRACE["traceEvents"]
        torch.happens += TRACE["traceEvents"][:5]
    assert theirs.kineto_results is not None
    assert sum(row["errors"] or 0 for row in recorder.recording.rows("health")) == 1


def test_without_torch_the_holder_is_named(record: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("torch", "torch.autograd", "torch.autograd.profiler"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    with record() as recorder:
        pass
    row, = health(recorder.recording)
    assert row["status"] == "unavailable" and "another CUPTI client" in row["message"]


def test_columns_are_added_to() -> None:
    columns = GpuColumns()
    source = kineto.Kineto(columns)
    source._add([])
    assert len(columns.activities["kind"]) == 0 == len(columns.calls["name"])
