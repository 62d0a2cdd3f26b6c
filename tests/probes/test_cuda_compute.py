"""The cuda.compute probe against a stand-in: calls, requests for builds, undo, threads, failures, unknown versions."""

from __future__ import annotations

import functools
import inspect
import json
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from compute_calls import IN, OUT, add, launches, no_errors, outcomes, plus, recording, reduce
from standin_compute import Array

import kernelscope
from kernelscope.analysis.builds import differing_parts, explain_builds
from kernelscope.probes.cuda_compute import CudaComputeProbe
from kernelscope.recorder.recorder import Recorder
from kernelscope.recording.model import Recording
from kernelscope.recording.parquet import table_of_rows


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
