"""The cuda.compute probe against a stand-in: calls, requests for builds, undo, threads, failures, unknown versions."""

from __future__ import annotations

import functools
import gc
import importlib.metadata
import inspect
import json
import sys
import threading
import traceback
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import standin_compute
from standin_compute import Array

import kernelscope
from kernelscope.analysis.build_reasons import differing_parts, explain_builds
from kernelscope.probes import cuda_compute
from kernelscope.probes.base import hook_codes, without_frames
from kernelscope.probes.cuda_compute import CudaComputeProbe
from kernelscope.probes.sink import Sink
from kernelscope.recorder import Recorder
from kernelscope.recording.arrow import table_of_rows
from kernelscope.recording.builder import PHASES_DTYPE
from kernelscope.recording.model import Recording

IN, OUT = Array(), Array()


def add(a: Any, b: Any) -> Any:
    return a + b


def plus(a: Any, b: Any) -> Any:
    return a + b


@pytest.fixture
def compute(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    version = importlib.metadata.version
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "1.2.1" if name == "cuda-cccl" else version(name))
    with standin_compute.compute() as package:
        yield package


@contextmanager
def recording(sink: Sink | None = None) -> Iterator[Sink]:
    sink, probe = sink or Sink(), CudaComputeProbe()
    probe.install(sink, sink.detail)
    try:
        yield sink
    finally:
        probe.uninstall()


def outcomes(sink: Sink) -> list[str]:
    return [row["outcome"] for row in sink.builds]


def launches(sink: Sink) -> list[SimpleNamespace]:
    """Every launch by start, with its dispatcher's and target's facts."""
    found = []
    for state in sink.threads:
        for record in np.frombuffer(state.records(), PHASES_DTYPE):
            target = sink.targets.rows[record["target"]]
            found.append(SimpleNamespace(
                name=sink.dispatchers.rows[target["dispatcher_id"]]["name"], error=target["error"],
                stream=sink.configurations.rows[record["configuration"]]["stream"], start=record["start"],
                end=record["end"], thread=state.thread_id))
    return sorted(found, key=lambda launch: launch.start)


def reduce(compute: Any, op: Any = add, **kwargs: Any) -> Any:
    return compute.reduce_into(**{"d_in": IN, "d_out": OUT, "num_items": 4, "op": op} | kwargs)


def no_errors(sink: Sink) -> None:
    assert not sink.errors, sink.first_errors
    assert not sink.health, sink.health


def test_two_equal_calls_are_one_build_and_one_hit(compute: Any) -> None:
    with recording() as sink:
        assert [reduce(compute), reduce(compute)] == [4, 4]
    no_errors(sink)
    first, second = sink.builds
    assert [first["outcome"], second["outcome"]] == ["miss", "hit"]
    assert first["algorithm"] == second["algorithm"] == "reduce_into"
    assert first["key_parts"] == second["key_parts"]
    assert first["compute_capability"] == "9.0"
    assert 0 < first["build_ns"] <= first["end_ns"] - first["start_ns"]
    assert second["build_ns"] == 0
    assert first["end_ns"] <= second["start_ns"] <= second["end_ns"]
    assert [(launch.name, launch.stream, launch.error) for launch in launches(sink)] == [("reduce_into", 0, None)] * 2
    assert all(launch.start < launch.end for launch in launches(sink))


def test_key_parts_by_name(compute: Any) -> None:
    scale = 12345.75

    def scaled(a: Any, b: Any) -> Any:
        return a + scale * b

    with recording() as sink:
        compute.make_reduce_into(d_in=IN, d_out=Array("int8"), op=scaled, h_init=np.full(1, 54321.0), determinism="x")
    parts = json.loads(sink.builds[0]["key_parts"])
    assert parts["d_in kind"] == "standin_compute.Array"
    assert (parts["d_in dtype"], parts["d_out dtype"], parts["h_init dtype"]) == ("float32", "int8", "float64")
    assert (parts["op kind"], parts["op name"]) == ("function", "scaled")
    assert parts["op captured scale"] == "float, value 1"
    assert parts["compute_capability"] == "9.0"
    assert "12345" not in json.dumps(list(sink.builds)) and "54321" not in json.dumps(list(sink.builds))


@pytest.mark.parametrize(("change", "differs"), [
    ({"op": plus}, ("op name",)),
    ({"d_in": Array("float64")}, ("d_in dtype",)),
    ({"op": lambda a, b: a * b}, ("op name", "op code")),
])
def test_miss_says_what_differs(compute: Any, change: dict[str, Any], differs: tuple[str, ...]) -> None:
    with recording() as sink:
        reduce(compute)
        reduce(compute, **change)
    assert outcomes(sink) == ["miss", "miss"]
    first, second = (json.loads(row["key_parts"]) for row in sink.builds)
    assert differing_parts(second, first) == differs


def test_reasons_of_a_recording(compute: Any) -> None:
    with recording() as sink:
        reduce(compute)
        reduce(compute, op=plus)
        compute.clear_all_caches()
        reduce(compute)
        reduce(compute)
    rows = [{"build_id": number, **row} for number, row in enumerate(sink.builds)]
    explained = explain_builds(Recording({"builds": table_of_rows("builds", rows)}, {})).rows("builds")
    assert [row["reason_code"] for row in explained] == ["first_use", "new_operator_name", "cache_cleared", None]
    assert [row["nearest_build_id"] for row in explained] == [None, 0, 0, None]


def test_hit_on_what_was_there_before(compute: Any) -> None:
    reduce(compute)
    with recording() as sink:
        reduce(compute)
        reduce(compute)
    assert outcomes(sink) == ["hit", "hit"]
    assert json.loads(sink.builds[0]["key_parts"])["compute_capability"] == "9.0"


def test_functions_that_were_bound_early(compute: Any) -> None:
    make, call = compute.make_reduce_into, compute.reduce_into
    built = make(d_in=IN, d_out=OUT, op=add)
    with recording() as sink:
        make(d_in=IN, d_out=OUT, op=add)
        call(d_in=IN, d_out=OUT, num_items=1, op=add)
        built(temp_storage=None, d_in=IN, d_out=OUT, num_items=1, op=add)
        built(temp_storage=1, d_in=IN, d_out=OUT, num_items=1, op=add)
    # The factory's own call leaves h_init out, and so makes another object of the same build.
    assert outcomes(sink) == ["hit", "hit"]
    assert [launch.name for launch in launches(sink)] == ["reduce_into", "reduce_into"]


def test_asking_for_memory_is_no_launch(compute: Any) -> None:
    with recording() as sink:
        built = compute.make_reduce_into(d_in=IN, d_out=OUT, op=add)
        assert built(temp_storage=None, d_in=IN, d_out=OUT, num_items=1, op=add) == 256
    assert launches(sink) == []


def test_algorithm_made_of_another_is_one_request_and_one_launch(compute: Any) -> None:
    with recording() as sink:
        compute.select(d_in=IN, cond=add, num_items=4)
        compute.select(d_in=IN, cond=add, num_items=4)
        compute.make_select(d_in=IN, cond=add)(temp_storage=1, d_in=IN, cond=add, num_items=4)
    assert [(row["algorithm"], row["outcome"]) for row in sink.builds] == [
        ("select", "miss"), ("select", "hit"), ("select", "hit")]
    assert sink.builds[0]["build_ns"] > 0 and sink.builds[0]["compute_capability"] == "9.0"
    assert [launch.name for launch in launches(sink)] == ["select"] * 3


def test_streams(compute: Any) -> None:
    stream = SimpleNamespace(__cuda_stream__=lambda: (0, 0x7F00))
    with recording() as sink:
        for each in (None, stream, stream, SimpleNamespace()):
            reduce(compute, stream=each)
    assert [launch.stream for launch in launches(sink)] == [0, 0x7F00, 0x7F00, None]
    no_errors(sink)


def test_more_calls_than_a_chunk_holds(compute: Any) -> None:
    with recording() as sink:
        for _ in range(5000):
            reduce(compute)
    assert len(launches(sink)) == len(sink.builds) == 5000
    assert outcomes(sink).count("miss") == 1
    no_errors(sink)


@pytest.mark.parametrize("detail", ["phases", "launch"])
def test_recording_has_the_launches(compute: Any, detail: str) -> None:
    with Recorder(detail=detail, probes=[CudaComputeProbe()]) as recorder:
        for _ in range(3):
            reduce(compute)
    finished = recorder.recording
    builds = finished.builds
    assert builds.outcome.tolist() == ["miss", "hit", "hit"]
    assert builds.launch_id.tolist() == [0, 1, 2]
    assert builds.reason_code[0] == "first_use" and builds.reason_code[1:].isna().all()
    frame = finished.launches
    assert frame.dispatcher_id.tolist() == [0, 0, 0]
    assert (frame.end_ns > frame.start_ns).all()
    assert frame.dispatch_end_ns.isna().all() and frame.specialization_id.isna().all()
    assert finished.dispatchers.framework.tolist() == ["cuda.compute"]
    assert finished.configurations.griddim_x.isna().all()


def test_nested_recordings(compute: Any) -> None:
    with Recorder(probes=[CudaComputeProbe()]) as outer:
        reduce(compute)
        with Recorder(probes=[CudaComputeProbe()]) as inner:
            reduce(compute)
            reduce(compute, op=plus)
        reduce(compute)
    assert inner.recording.builds.outcome.tolist() == ["hit", "miss"]
    assert inner.recording.builds.nearest_build_id.fillna(-1).tolist() == [-1, 0]
    assert outer.recording.builds.outcome.tolist() == ["miss", "hit", "miss", "hit"]
    assert outer.recording.builds.launch_id.tolist() == [0, 1, 2, 3]


def test_cost_is_that_of_its_own_launches(compute: Any) -> None:
    with kernelscope.record() as r:
        for _ in range(10):
            reduce(compute)
    health = {row["probe"]: row for row in r.recording.rows("health") if row["cost_ns"] is not None}
    assert health["cuda.compute"]["total_cost_ns"] == 10 * health["cuda.compute"]["cost_ns"] > 0
    assert all(row["total_cost_ns"] == 0 for probe, row in health.items() if probe != "cuda.compute")
    assert "cuda.compute" in r.recording.summary() or "reduce_into" in r.recording.summary()


def test_launch_around_a_call_goes_on(compute: Any) -> None:
    with recording() as sink:
        state = sink.state()
        state.launch_config = around = object()
        reduce(compute)
        assert state.launch_config is around


def functions_of(compute: Any) -> list[Any]:
    caching, interop = sys.modules["cuda.compute._caching"], sys.modules["cuda.compute._cccl_interop"]
    home = sys.modules["cuda.compute.algorithms._reduce"]
    return [compute.reduce_into, compute.make_reduce_into, compute.make_reduce_into.__wrapped__, compute.select,
            home._Reduce.__call__, caching._cache_single_flight, caching.clear_all_caches, interop.call_build,
            interop.call_compile]


def state_of(function: Any) -> tuple[Any, ...]:
    return (function.__code__, function.__defaults__, dict(function.__kwdefaults__ or {}), function.__closure__,
            dict(vars(function)), str(inspect.signature(function)))


def test_undo_is_exact(compute: Any) -> None:
    before = [state_of(function) for function in functions_of(compute)]
    for _ in range(3):
        with recording():
            reduce(compute)
        assert [state_of(function) for function in functions_of(compute)] == before
    with recording() as sink:
        pass
    reduce(compute)
    assert launches(sink) == [] and list(sink.builds) == []


def test_signatures_while_recording(compute: Any) -> None:
    def shown() -> list[str]:
        home = sys.modules["cuda.compute.algorithms._reduce"]
        return [str(inspect.signature(each)) for each in (compute.reduce_into, compute.make_reduce_into,
                                                          home._Reduce.__call__)]

    before = shown()
    with recording():
        assert shown() == before
        assert compute.reduce_into.__doc__ == "Reduce it."
        with pytest.raises(TypeError, match="missing"):
            compute.reduce_into(d_in=IN)


def test_wrapper_of_another_tool_stays(compute: Any) -> None:
    original, seen = compute.reduce_into, []

    @functools.wraps(original)
    def wrapper(**kwargs: Any) -> Any:
        seen.append(1)
        return original(**kwargs)

    sys.modules["cuda.compute.algorithms"].reduce_into = compute.reduce_into = wrapper  # type: ignore[attr-defined]
    with recording() as sink:
        reduce(compute)
        compute.reduce_into = later = functools.wraps(wrapper)(lambda **kwargs: wrapper(**kwargs))
    reduce(compute)
    assert compute.reduce_into is later
    assert len(seen) == 2 and len(launches(sink)) == 1


def run_together(*actions: Callable[[], Any]) -> None:
    threads = [threading.Thread(target=action) for action in actions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_two_threads_ask_for_one_build(compute: Any) -> None:
    asked, go_on = threading.Event(), threading.Event()

    def build() -> Any:
        asked.set()
        assert go_on.wait(10)
        return object()

    def second() -> None:
        assert asked.wait(10)
        threading.Timer(0.1, go_on.set).start()
        reduce(compute)

    compute.BUILDS["build"] = build
    with recording() as sink:
        run_together(lambda: reduce(compute), second)
    assert sorted(outcomes(sink)) == ["miss", "wait"]
    waited = next(row for row in sink.builds if row["outcome"] == "wait")
    assert waited["build_ns"] == 0 and waited["end_ns"] - waited["start_ns"] > 50_000_000
    assert len({row["thread_id"] for row in sink.builds}) == 2
    assert len({launch.thread for launch in launches(sink)}) == 2


def test_another_threads_build_is_a_hit(compute: Any) -> None:
    with recording() as sink:
        run_together(lambda: reduce(compute))
        reduce(compute)
        reduce(compute)
    assert outcomes(sink) == ["miss", "hit", "hit"]
    assert [row["thread_id"] for row in sink.builds] == [0, 1, 1]


def test_many_threads(compute: Any) -> None:
    with recording() as sink:
        run_together(*(lambda: [reduce(compute) for _ in range(200)] for _ in range(8)))
    assert len(sink.builds) == len(launches(sink)) == 1600
    assert outcomes(sink).count("miss") == 1
    no_errors(sink)


@pytest.mark.parametrize("error", [ValueError("nvrtc:\n  no such header"), KeyboardInterrupt()])
def test_build_that_fails(compute: Any, error: BaseException) -> None:
    def build() -> Any:
        raise error

    compute.BUILDS["build"] = build
    with recording() as sink:
        with pytest.raises(type(error)) as caught:
            reduce(compute)
        compute.BUILDS["build"] = object
        reduce(compute)
    assert caught.value is error
    names = [frame.name for frame in traceback.extract_tb(without_frames(error.__traceback__, frozenset(hook_codes)))]
    assert names == ["test_build_that_fails", "reduce", "reduce_into", "inner", "make_reduce_into", "__init__",
                     "_cache_single_flight", "<lambda>", "call_build", "build"]
    assert outcomes(sink) == ["failed", "miss"]
    shown = "ValueError: nvrtc:" if isinstance(error, ValueError) else "KeyboardInterrupt"
    assert sink.builds[0]["error"] == shown
    assert [launch.error for launch in launches(sink)] == [type(error).__name__, None]
    no_errors(sink)


def test_interrupted_hooks_go_on_with_the_next_request(compute: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    with recording() as sink:
        with monkeypatch.context() as patch:
            patch.setattr(cuda_compute.requests.KeyParts, "of_call", interrupted)
            with pytest.raises(KeyboardInterrupt):
                compute.select(d_in=IN, cond=add, num_items=4)
        with monkeypatch.context() as patch:
            patch.setattr(cuda_compute.requests.Requests, "_asked_for", interrupted)
            with pytest.raises(KeyboardInterrupt):
                reduce(compute, op=plus)
        reduce(compute)
        compute.select(d_in=IN, cond=add, num_items=4)
        reduce(compute)
    assert [(row["algorithm"], row["outcome"]) for row in list(sink.builds)[-3:]] == [
        ("reduce_into", "hit"), ("select", "miss"), ("reduce_into", "hit")]
    assert [launch.name for launch in launches(sink)][-3:] == ["reduce_into", "select", "reduce_into"]


def test_waiting_for_a_build_that_fails(compute: Any) -> None:
    asked, go_on = threading.Event(), threading.Event()

    def build() -> Any:
        asked.set()
        assert go_on.wait(10)
        raise ValueError("no")

    def ask() -> None:
        with pytest.raises(ValueError, match="no"):
            reduce(compute)

    def second() -> None:
        assert asked.wait(10)
        threading.Timer(0.1, go_on.set).start()
        ask()

    compute.BUILDS["build"] = build
    with recording() as sink:
        run_together(ask, second)
    assert outcomes(sink) == ["failed", "failed"]


@pytest.mark.parametrize("error", [RuntimeError("launch"), KeyboardInterrupt()])
def test_call_that_fails(compute: Any, error: BaseException) -> None:
    def run() -> None:
        raise error

    with recording() as sink:
        reduce(compute)
        compute.BUILDS["run"] = run
        with pytest.raises(type(error)) as caught:
            reduce(compute)
        compute.BUILDS["run"] = lambda: None
        reduce(compute)
    assert caught.value is error
    assert [launch.error for launch in launches(sink)] == [None, type(error).__name__, None]
    assert outcomes(sink) == ["miss", "hit", "hit"]


def test_wrong_arguments_are_the_librarys_own_error(compute: Any) -> None:
    with recording() as sink, pytest.raises(TypeError, match="missing 1 required keyword-only argument: 'op'"):
        compute.make_reduce_into(d_in=IN, d_out=OUT)
    assert outcomes(sink) == ["failed"]
    assert sink.builds[0]["key_parts"] is None
    no_errors(sink)


def test_nothing_is_kept_alive(compute: Any) -> None:
    class Thing(Array):
        pass

    def use() -> weakref.ref[Any]:
        array = Thing()

        def op(a: Any, b: Any) -> Any:
            return a + array

        reduce(compute, d_in=array, op=op)
        reduce(compute, d_in=array, op=op)
        return weakref.ref(array)

    with recording() as sink:
        held = use()
        gc.collect()
        assert held() is None
    assert len(sink.builds) == 2


def test_error_of_our_own_is_counted(compute: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> Any:
        raise LookupError("ours")

    monkeypatch.setattr(cuda_compute.requests.KeyParts, "of_call", broken)
    monkeypatch.setattr(cuda_compute.calls.Calls, "dispatcher", broken)
    with recording() as sink:
        assert reduce(compute) == 4
        compute.make_reduce_into(d_in=IN, d_out=OUT, op=add)(temp_storage=1, d_in=IN, d_out=OUT, num_items=1, op=add)
    assert outcomes(sink) == ["miss", "hit"]
    assert sink.errors["cuda.compute"] >= 2 and "ours" in sink.first_errors["cuda.compute"]
    assert sink.dropped["cuda.compute"] == 2 and launches(sink) == []


def test_cubin_that_cannot_be_read(compute: Any) -> None:
    compute.BUILDS["build"] = lambda: SimpleNamespace(_get_cubin=lambda: b"no cubin")
    with recording() as sink:
        reduce(compute)
    assert sink.builds[0]["cubin_bytes"] == 8
    no_errors(sink)


def version_is(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(importlib.metadata, "version", lambda name: text)


def test_version_too_old(compute: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    version_is(monkeypatch, "0.3.9")
    code = compute.reduce_into.__code__
    with recording() as sink:
        assert compute.reduce_into.__code__ is code
        reduce(compute)
    assert [(row["status"], row["message"]) for row in sink.health] == [
        ("unavailable", "cuda-cccl 0.3.9 is too old: 0.4.0 or newer is needed")]
    assert "cuda-cccl==" in sink.health[0]["fix"]


def test_version_too_new(compute: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    version_is(monkeypatch, "1.3.0")
    with recording() as sink:
        reduce(compute)
    assert sink.health[0]["status"] == "degraded"
    assert "cuda-cccl 1.3.0 is newer than 1.2" in sink.health[0]["message"]
    assert outcomes(sink) == ["miss"]


@pytest.mark.parametrize(("module", "name", "said", "seen"), [
    ("_caching", "_cache_single_flight", "waits for another thread (cuda.compute._caching has no function", "miss"),
    ("_cccl_interop", "call_build", "build times (cuda.compute._cccl_interop has no function call_build)", "miss"),
    ("_caching", "clear_all_caches", "clear_all_caches()", "miss"),
    ("_caching", "_process_wide_cache_registry", "builds are not recorded", None),
])
def test_removed_symbol(compute: Any, module: str, name: str, said: str, seen: str | None) -> None:
    delattr(sys.modules[f"cuda.compute.{module}"], name)
    with recording() as sink:
        if name not in ("_cache_single_flight", "call_build"):
            reduce(compute)
    assert [row["status"] for row in sink.health] == ["degraded"]
    assert said in sink.health[0]["message"]
    if name == "clear_all_caches":
        assert outcomes(sink) == [seen]
    if seen is None:
        assert outcomes(sink) == [] and len(launches(sink)) == 1


def test_older_version_without_a_cache_of_builds(monkeypatch: pytest.MonkeyPatch) -> None:
    version_is(monkeypatch, "1.1.0")
    with standin_compute.compute(old=True) as compute, recording() as sink:
        reduce(compute)
        run_together(lambda: reduce(compute))
        reduce(compute, op=plus)
    assert "cuda-cccl 1.1.0 does not show waits for another thread" in sink.health[0]["message"]
    assert outcomes(sink) == ["miss", "hit", "miss"]
    assert [row["thread_id"] for row in sink.builds] == [0, 1, 0]


def test_without_bindings(compute: Any) -> None:
    compute._BINDINGS_AVAILABLE = False
    with recording() as sink:
        pass
    assert [(row["status"], row["probe"]) for row in sink.health] == [("unavailable", "cuda.compute")]


def test_without_algorithms(compute: Any) -> None:
    del sys.modules["cuda.compute.algorithms"]
    with recording() as sink:
        pass
    assert "has no cuda.compute.algorithms" in sink.health[0]["message"]


def test_it_waits_for_the_import() -> None:
    sink, probe = Sink(), CudaComputeProbe()
    before = list(sys.meta_path)
    probe.install(sink, "phases")
    assert len(sys.meta_path) == len(before) + 1
    assert probe.cost_per_launch_ns("phases") is None
    probe.uninstall()
    assert sys.meta_path == before


@pytest.mark.parametrize("detail", ["phases", "launch"])
def test_cost_is_measured(detail: str) -> None:
    assert 0 < cuda_compute.measure_cost(detail, rounds=5) < 20_000
    assert "__signature__" not in vars(cuda_compute._algorithm)
    assert cuda_compute._factory.__code__.co_filename == cuda_compute.__file__
