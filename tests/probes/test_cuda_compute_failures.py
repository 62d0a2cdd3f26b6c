"""What goes wrong around cuda.compute: threads, failing builds, interruptions, versions, missing names."""

from __future__ import annotations

import gc
import importlib.metadata
import sys
import threading
import traceback
import weakref
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
import standin_compute
from compute_calls import IN, OUT, add, launches, no_errors, outcomes, plus, recording, reduce
from standin_compute import Array
from together import run_together

from kernelscope.probes import cuda_compute
from kernelscope.probes.base import hook_codes, without_frames
from kernelscope.probes.cuda_compute import CudaComputeProbe
from kernelscope.probes.sink import Sink


@pytest.mark.parametrize(("fails", "outcome"), [(False, ["miss", "wait"]), (True, ["failed", "failed"])])
def test_two_threads_ask_for_one_build(compute: Any, fails: bool, outcome: list[str]) -> None:
    asked, go_on = threading.Event(), threading.Event()

    def build() -> Any:
        asked.set()
        assert go_on.wait(60)
        if fails:
            raise ValueError("no")
        return object()

    def first() -> None:
        with pytest.raises(ValueError, match="no") if fails else nullcontext():
            reduce(compute)

    def second() -> None:
        assert asked.wait(60)
        threading.Timer(0.1, go_on.set).start()
        first()

    compute.BUILDS["build"] = build
    with recording() as sink:
        run_together(first, second)
    assert sorted(outcomes(sink)) == outcome
    assert len({row["thread_id"] for row in sink.builds}) == len({launch.thread for launch in launches(sink)}) == 2
    if not fails:
        waited = next(row for row in sink.builds if row["outcome"] == "wait")
        assert waited["build_ns"] == 0 and waited["end_ns"] - waited["start_ns"] > 50_000_000


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
        raise error.with_traceback(None)  # it may be that of a run before

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


def without_algorithms(compute: Any) -> None:
    del sys.modules["cuda.compute.algorithms"]


@pytest.mark.parametrize(("version", "change", "message"), [
    ("0.3.9", lambda compute: None, "cuda-cccl 0.3.9 is too old: 0.4.0 or newer is needed"),
    ("1.2.1", lambda compute: setattr(compute, "_BINDINGS_AVAILABLE", False), "has no bindings here"),
    ("1.2.1", without_algorithms, "has no cuda.compute.algorithms"),
])
def test_a_library_that_cannot_be_recorded(compute: Any, monkeypatch: pytest.MonkeyPatch, version: str, change: Any,
                                           message: str) -> None:
    version_is(monkeypatch, version)
    change(compute)
    code = compute.reduce_into.__code__
    with recording() as sink:
        assert compute.reduce_into.__code__ is code
    assert [(row["probe"], row["status"]) for row in sink.health] == [("cuda.compute", "unavailable")]
    assert message in sink.health[0]["message"]
    assert "cuda-cccl==" in sink.health[0]["fix"]


def test_version_too_new(compute: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    version_is(monkeypatch, "1.3.0")
    with recording() as sink:
        reduce(compute)
    assert sink.health[0]["status"] == "degraded"
    assert "cuda-cccl 1.3.0 was not tried, 0.4.0 to 1.2 were" in sink.health[0]["message"]
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


def test_it_waits_for_the_import() -> None:
    sink, probe = Sink(), CudaComputeProbe()
    before = list(sys.meta_path)
    probe.install(sink, "phases")
    assert len(sys.meta_path) == len(before) + 1
    assert probe.cost_per_launch_ns("phases") is None
    probe.uninstall()
    assert sys.meta_path == before
