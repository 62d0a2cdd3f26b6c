"""Why CuPy, cuTile, CuTe DSL, JAX and Warp compile: from what their probes have noted, without them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from handmade import MS, Script

from kernelscope.analysis.compiles import explain


def compiles(*specializations: dict[str, Any], framework: str = "jax", launches: tuple[int, ...] = ()) -> list[Any]:
    """The compiles of a kernel, one of each specialization, with so many launches of each."""
    script = Script()
    script.kernel("step", framework=framework)
    script.configuration()
    for at, facts in enumerate(specializations):
        number = script.specialization(0, f"{at}", attributes=json.dumps(facts))
        script.compilation(0, specialization_id=number, signature=f"{at}", start_ns=at * MS, end_ns=at * MS + 1)
    for number, count in enumerate(launches):
        for _ in range(count):
            script.launch(specialization=number)
    return explain(script.recording()).rows("compilations")


def argument(**aspects: Any) -> dict[str, Any]:
    return {"arguments": {"x": aspects}}


def test_the_nearest_has_the_fewest_differences_then_the_most_launches_and_is_the_earliest() -> None:
    constants = [{"constants": {"n": at, "m": at // 3}} for at in range(4)]
    assert compiles(*constants)[3]["nearest_signature"] == "0"
    assert compiles(*constants[:3], {"constants": {"n": 7, "m": 0}})[3]["nearest_signature"] == "0"
    rows = compiles(*constants[:3], {"constants": {"n": 7, "m": 0}}, launches=(1, 4, 1))
    assert rows[3]["nearest_signature"] == "1"
    assert all(row["fix"].startswith("call it with n=1 every time") for row in rows[1:])


@pytest.mark.parametrize(("specializations", "fix"), [
    ([argument(shape=["8", "3"], ndim=2), argument(shape=["4", "9"], ndim=2), argument(shape=["2", "2"], ndim=2)],
     "pad `x` to the shape (8, 9), or to a few shapes, in every call"),
    ([argument(type="int32"), argument(type="int64"), argument(type="int8")],
     "pass `x` as int64 in every call, if the values allow it"),
    ([argument(type="float32", ndim=1), argument(type="complex64", ndim=1), argument(type="float64", ndim=1)],
     "pass `x` with the dtype complex64 in every call, if the values allow it"),
    ([argument(type="float32"), argument(type="float32", ndim=1), argument(type="int8")],
     "pass `x` as an array of float32 in every call"),
])
def test_fixes_ask_for_what_every_launch_can_have(specializations: list[dict[str, Any]], fix: str) -> None:
    rows = compiles(*specializations)
    assert rows[1]["fix"] == fix
    assert rows[2]["fix"] == fix or "array of" in fix


def test_nothing_is_asked_to_be_passed_as_none() -> None:
    rows = compiles({"arguments": {}}, argument(type="float32"), framework="cute")
    assert rows[1]["fix"] == "pass `x` as float32 in every call"
    rows = compiles(argument(type="float32"), {"arguments": {}}, framework="cute")
    assert rows[1]["fix"] == "pass `x` as float32 in every call"


def test_layouts_come_to_a_contiguous_one() -> None:
    layouts = [argument(type="float32", ndim=2, layout=each) for each in (
        "not C-contiguous", "C-contiguous", "of strides (any, any)")]
    assert {row["fix"] for row in compiles(*layouts, framework="cupy")[1:]} == {
        "pass cupy.ascontiguousarray(x) in every call"}


def test_a_definition_that_ran_again_is_asked_for_the_options_of_the_one_before() -> None:
    script = Script()
    script.configuration()
    for number, level in enumerate(("3", "1")):
        script.kernel("step", framework="cutile")
        specialization = script.specialization(number, "()", attributes=json.dumps({"options": {"opt_level": level}}))
        script.compilation(number, specialization_id=specialization, signature="()", start_ns=number * MS,
                           end_ns=number * MS + 1)
    row = explain(script.recording()).rows("compilations")[1]
    assert row["fix"] == "define the kernel with opt_level=3, and launch that one every time"
