"""Limits against recordings made by hand: what counts, which kernel a name means, and what a message says first."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest
from graph_stories import rebuilt
from handmade import MS, Script

from kernelscope.pytest_plugin.checks import (
    LimitError,
    Limits,
    entry,
    exceeded,
    kernels_used,
    limits_of,
    message,
    unrecorded,
)
from kernelscope.recording.model import Recording


def texts(recording: Recording, **limits: Any) -> list[str]:
    return [each.text for each in exceeded(recording, Limits(**limits))]


def one_compile(**row: Any) -> Recording:
    script = Script()
    script.cell()
    script.kernel()
    script.specialization()
    script.configuration()
    script.compilation(**{"specialization_id": 0, "reason_code": "new_dtype", "reason": "why", "launch_id": 0} | row)
    script.launch()
    return script.recording()


def many_compiles(number: int = 9) -> Recording:
    """A first compile that took longest, and others of new types; one kernel's name is made to harm."""
    script = Script(dry_run=True)
    script.cell()
    script.kernel("axpy\x1b[31m")
    script.configuration()
    for at in range(number):
        script.specialization(signature=f"(array(float{at}, 1d, C),)")
        script.compilation(
            duration_ns=(900 if at == 0 else 10 + at) * MS, specialization_id=at, launch_id=at,
            signature=f"(array(float{at}, 1d, C),)", reason_code="first_use" if at == 0 else "new_dtype",
            reason="it is the first" if at == 0 else "new type in argument x", argument=None if at == 0 else "x",
            fix="cache=True" if at == 0 else "cast x")
        script.launch(specialization=at)
    return script.recording()


@pytest.mark.parametrize(("outcome", "counts"), [("compiled", 1), ("disk", 0), ("wait", 0), ("failed", 0)])
def test_only_compiles_count_as_compiles(outcome: str, counts: int) -> None:
    found = texts(one_compile(outcome=outcome), max_compiles=0)
    assert found == ["1 compile, at most 0 allowed"] * counts


def test_limits_that_are_just_kept_are_kept() -> None:
    recording = many_compiles(3)
    assert texts(recording, max_compiles=3, max_specializations=3, max_launches=3) == []
    assert texts(recording, max_compiles=2, max_specializations=2, max_launches=2) == [
        "3 compiles, at most 2 allowed", "axpy\\x1b[31m has 3 specializations, at most 2 allowed",
        "3 launches, at most 2 allowed"]


@pytest.mark.parametrize("name", ["axpy", "make.axpy", "make.<locals>.axpy", "package.kernels.make.axpy"])
@pytest.mark.parametrize("recorded", ["make.axpy", "make.<locals>.axpy"])
def test_a_kernel_is_named_by_its_last_part_or_in_full(name: str, recorded: str) -> None:
    script = Script()
    script.kernel(recorded, module="package.kernels")
    script.specialization()
    script.configuration()
    script.launch()
    assert texts(script.recording(), max_specializations={name: 1}) == []
    assert texts(script.recording(), max_specializations={name: 0}) == [
        f"{recorded} has 1 specialization, at most 0 allowed"]


def test_a_name_that_was_not_met_is_an_excess_unless_its_limit_is_zero() -> None:
    recording = one_compile()
    assert texts(recording, max_specializations={"axpi": 1}) == [
        "no kernel 'axpi' was launched or compiled; seen: __main__.axpy; did you mean 'axpy'?"]
    assert texts(recording, max_specializations={"axpi": 0}) == []
    assert texts(Script().recording(), max_specializations={"axpi": 1}) == [
        "no kernel 'axpi' was launched or compiled; seen: none"]


def test_each_kernel_has_the_limit_of_its_own() -> None:
    script = Script()
    for at, name in enumerate(("one", "two")):
        script.kernel(name)
        script.specialization(at)
        script.specialization(at, "(int64,)")
        script.configuration()
        script.launch(at, specialization=2 * at)
    script.launch(1, specialization=3)
    assert texts(script.recording(), max_specializations=1) == ["two has 2 specializations, at most 1 allowed"]
    assert [(each.name, each.launches, each.specializations) for each in kernels_used(script.recording())] == [
        ("two", 2, (2, 3)), ("one", 1, (0,))]


def test_dispatchers_of_one_definition_are_one_kernel() -> None:
    script = Script()
    script.configuration()
    for at in range(3):
        script.kernel()
        script.specialization(at)
        script.launch(at, specialization=at)
    script.kernel("never launched")
    assert texts(script.recording(), max_specializations=2) == [
        "axpy has 3 specializations of 3 dispatchers, since its definition ran again, at most 2 allowed"]


def test_a_message_begins_with_what_can_be_helped_and_ends_soon() -> None:
    recording = many_compiles()
    told = message(recording, exceeded(recording, Limits(max_compiles=1)), width=100)
    lines = told.splitlines()
    assert lines[0] == "kernelscope: 9 compiles, at most 1 allowed (max_compiles)"
    assert lines[1] == "  18.0 ms  compiled by a launch: axpy\\x1b[31m (array(float8, 1d, C),)"
    assert lines[2:4] == ["           why: new type in argument x [new_dtype, argument x]", "           fix: cast x"]
    assert "17.0 ms" in lines[4]
    assert lines[-2:] == ["  and 3 more compiles", "(dry run: kernels did not execute)"]
    assert "first_use" not in told
    assert "\x1b" not in told
    assert max(map(len, lines)) <= 100


def test_failed_compiles_are_shown_after_those_that_count() -> None:
    script = Script()
    script.kernel()
    script.kernel("broken")
    script.specialization()
    script.configuration()
    script.compilation(specialization_id=0, reason_code="new_dtype", reason="why")
    script.compilation(1, 900 * MS, outcome="failed", reason_code="first_use",
                       reason="first; the compile failed: TypingError")
    script.launch()
    told = message(script.recording(), exceeded(script.recording(), Limits(max_compiles=0)), width=100)
    parts = ("compiled by a launch: axpy", "failed by a launch: broken", "TypingError")
    assert sorted(parts, key=told.index) == list(parts)


def test_loads_are_shown_where_specializations_are_too_many() -> None:
    recording = one_compile(outcome="disk")
    assert "from disk by a launch: axpy" in message(recording, exceeded(recording, Limits(max_specializations=0)))


@pytest.mark.parametrize(("rows", "told"), [
    ([], None),
    ([{"status": "ok", "cost_ns": 800.0}], None),
    ([{"status": "ok", "cost_ns": 800.0}, {"status": "degraded", "message": "an error was swallowed"}], None),
    ([{"status": "unavailable", "message": "numba-cuda 0.29 is too old", "fix": "upgrade"}],
     "numba-cuda 0.29 is too old; upgrade"),
    ([{"probe": "nvtx", "status": "unavailable", "message": "no nvtx"}], None),
])
def test_a_check_that_saw_nothing_says_so(rows: list[dict[str, Any]], told: str | None) -> None:
    script = Script()
    for row in rows:
        script.health(**row)
    assert unrecorded(script.recording()) == told


@pytest.mark.parametrize("probe", ["triton", "torch.compile", "cupy", "cutile", "cuda.core"])
def test_a_framework_that_could_not_be_hooked_fails_the_check(probe: str) -> None:
    script = Script()
    script.health(cost_ns=800.0)
    script.health(probe, "degraded", message="it was not tried")
    assert unrecorded(script.recording()) is None
    script.health(probe, "unavailable", message="it is too old", fix="upgrade")
    assert unrecorded(script.recording()) == "it is too old; upgrade"


def test_launches_that_cupti_alone_sees_have_to_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script()
    script.health("cupti", "unavailable", message="another tool has CUPTI", fix="end it")
    recording, limits = script.recording(), Limits(max_launches=1)
    for name in ("torch", "cupy", "jax", "warp"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    assert unrecorded(recording, limits) is None
    torch: Any = SimpleNamespace(cuda=SimpleNamespace(is_initialized=lambda: False))
    monkeypatch.setitem(sys.modules, "torch", torch)
    assert unrecorded(recording, limits) is None
    torch.cuda.is_initialized = lambda: True
    told = "launches of torch are seen through CUPTI alone: another tool has CUPTI; end it"
    assert unrecorded(recording, limits) == told and unrecorded(recording, Limits(max_compiles=0)) is None


@pytest.mark.parametrize("framework", ["triton", "torch.compile", "cupy", "cutile", "numba-cuda-mlir", "quadrants"])
def test_compiles_of_every_framework_count(framework: str) -> None:
    script = Script()
    script.cell()
    script.launchable("step", framework=framework)
    script.compilation(specialization_id=0, reason_code="new_dtype", reason="why", fix="one dtype")
    found = exceeded(script.recording(), Limits(max_compiles=0, max_specializations={"step": 0}))
    assert [each.limit for each in found] == ["max_compiles", "max_specializations"]
    assert "why: why [new_dtype]" in message(script.recording(), found)


@pytest.mark.parametrize("framework", ["triton", "driver", "cupy", "cutile"])
def test_launches_of_every_framework_count(framework: str) -> None:
    script = Script()
    script.cell()
    script.launchable("step", framework=framework)
    for _ in range(3):
        script.launch()
    assert texts(script.recording(), max_launches=2) == ["3 launches, at most 2 allowed"]
    assert texts(script.recording(), max_launches=3) == []


def test_what_torch_compile_compiles_inside_is_its_own() -> None:
    script = Script()
    script.cell()
    script.kernel("step", framework="torch.compile")
    script.kernel("triton_poi_fused_add_0", framework="triton")
    start = script.now
    script.compilation(0, 900 * MS, reason_code="first_use", reason="it is the first")
    script.compilation(1, 100 * MS, start_ns=start + MS, end_ns=start + 101 * MS, reason_code="first_use", reason="r")
    script.compilation(1, 100 * MS, start_ns=start + MS, end_ns=start + 101 * MS, thread_id=1, reason="r")
    script.compilation(1, 100 * MS, start_ns=start + 901 * MS, end_ns=start + 999 * MS, reason="r")
    assert texts(script.recording(), max_compiles=2) == ["3 compiles, at most 2 allowed"]
    found = entry(script.recording())
    assert (found["compiles"], len(found["compilations"])) == (3, 4)


def test_launches_of_an_autotuner_are_no_launches_of_the_test() -> None:
    script = Script()
    script.cell()
    script.launchable("matmul", framework="triton")
    run = script.tuning({"n": "1"})
    for _ in range(100):
        script.launch(build_id=run)
    script.launch()
    (used,) = kernels_used(script.recording())
    assert (used.launches, used.captured) == (1, 0)
    assert texts(script.recording(), max_launches=1) == []


def test_a_launch_that_failed_is_no_launch_of_the_kernel() -> None:
    script = Script()
    script.cell()
    script.launchable("axpy")
    script.launchable("scale")
    script.launch()
    script.launch(error="ValueError")  # in copying back: the driver had accepted it
    for _ in range(3):
        script.launch(error="CUDAError", submit_end_ns=None)
    script.launch(1, error="CUDAError", dispatch_end_ns=None, submit_start_ns=None, submit_end_ns=None)
    recording = script.recording()
    assert [(each.name, each.launches, each.refused) for each in kernels_used(recording)] == [
        ("axpy", 2, 3), ("scale", 0, 1)]
    assert texts(recording, max_launches=2) == []
    found = exceeded(recording, Limits(max_launches=1))
    assert [each.text for each in found] == ["2 launches, besides 4 that failed, at most 1 allowed"]
    assert "launches: axpy 2 (3 failed), scale 0 (1 failed)" in message(recording, found)
    held = entry(recording)
    assert (held["launches"], held["refused"]) == (2, 4)


def item(*marks: Any) -> Any:
    return SimpleNamespace(nodeid="test_a.py::test_b", iter_markers=lambda name: iter(marks))


def mark(*args: Any, **kwargs: Any) -> Any:
    return SimpleNamespace(args=args, kwargs=kwargs)


def test_the_closest_mark_s_limits_come_first() -> None:
    outer = mark(max_compiles=5, max_launches=2, max_specializations={"a": 1})
    limits = limits_of(item(mark(max_compiles=1, max_launches=None), outer))
    assert limits == Limits(max_compiles=1, max_launches=None, max_specializations={"a": 1})
    assert limits is not None and limits.stated() == {"max_compiles": 1, "max_specializations": {"a": 1}}
    assert limits_of(item()) is None


@pytest.mark.parametrize(("wrong", "told"), [
    (mark(max_compiles=-1), "max_compiles=-1 is not a count: it takes an int of 0 or more"),
    (mark(1), "takes keyword arguments only (max_compiles, max_specializations, max_launches), not 1"),
    (mark(), "names no limit; there are max_compiles, max_specializations, max_launches"),
    (mark(max_compiles=True), "max_compiles=True is not a count: it takes an int of 0 or more"),
    (mark(max_compiles=1.0), "max_compiles=1.0 is not a count: it takes an int of 0 or more"),
    (mark(max_launches={"axpy": 1}), "max_launches={'axpy': 1} is not a count: it takes an int of 0 or more"),
    (mark(max_specializations="2"), "max_specializations='2' is neither a count nor a dict of counts by kernel name"),
    (mark(max_specializations={1: 2}), "max_specializations is by kernel name, and 1 is none"),
    (mark(max_specializations={"axpy": -1}),
     "max_specializations={'axpy': -1} is not a count: it takes an int of 0 or more"),
])
def test_a_wrong_mark_is_told_in_one_line(wrong: Any, told: str) -> None:
    with pytest.raises(LimitError) as caught:
        limits_of(item(wrong))
    assert str(caught.value) == f"test_a.py::test_b: @pytest.mark.kernelscope {told}"


def test_a_wrong_mark_that_a_closer_one_hides_is_told_too() -> None:
    with pytest.raises(LimitError):
        limits_of(item(mark(max_compiles=1), mark(max_compiles="many")))


def test_captured_launches_are_no_launches() -> None:
    recording = rebuilt().recording()
    assert exceeded(recording, Limits(max_launches=4)) == []
    told, = exceeded(recording, Limits(max_launches=3))
    assert told.text == "4 launches, at most 3 allowed"
    assert "launches: block_sum 4" in message(recording, [told])
    held = entry(recording)
    assert (held["launches"], held["captured"]) == (4, 3)
    assert {each["kernel"]: (each["launches"], each["captured"]) for each in held["kernels"]} == {
        "axpy": (0, 3), "block_sum": (4, 0)}
