"""Why Triton compiles: from what its probe has noted, without Triton."""

from __future__ import annotations

import json
from typing import Any

import pytest
from handmade import MS, Script
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelscope.analysis.compiles import compilations, explain
from kernelscope.analysis.redaction import redacted
from kernelscope.analysis.triton import (
    CODES,
    NO_CONSTEXPR,
    Change,
    Fix,
    changes,
    compare,
    distance,
    fix_text,
    fixes,
    type_fixes,
)
from kernelscope.schema import COMPILE_REASONS

SIGNATURE = "*fp32:16, i32:16, BLOCK=256"


def facts(**changed: Any) -> dict[str, Any]:
    """What the probe notes of a specialization of ``kernel(x, n, BLOCK)``."""
    return {"types": {"x": "*fp32", "n": "i32"}, "constexprs": {"BLOCK": "256"}, "equal_to_1": [],
            "divisible_by_16": ["x", "n"], "options": {"num_warps": 4, "arch": "sm90"}, "environment": {"A": "0"},
            "target": "cuda:90", "device": 0, "hash": "h", **changed}


def made(*specializations: dict[str, Any], origin: str = "compiled", **last: Any) -> Script:
    """A recording with one compile for each specialization; `last` are columns of the last one."""
    script = Script()
    kernel = script.kernel("axpy", framework="triton", arguments="x, n, BLOCK")
    for at, each in enumerate(specializations):
        is_last = at == len(specializations) - 1
        text = f"{SIGNATURE}, {at}"
        came = "compiled" if is_last else origin
        number = script.specialization(kernel, text, attributes=json.dumps(each), origin=came)
        if origin == "compiled" or is_last:
            row = {"specialization_id": number, "signature": text, "trigger": "launch", **(last if is_last else {})}
            script.compilation(kernel, start_ns=at * MS, end_ns=(at + 1) * MS - 1, **row)
    return script


def reason(*specializations: dict[str, Any], **last: Any) -> dict[str, Any]:
    found = explain(made(*specializations, **last).recording()).rows("compilations")[-1]
    assert found["reason_code"] in COMPILE_REASONS
    return found


@pytest.mark.parametrize(("changed", "expected"), [
    ({"types": {"x": "*fp64", "n": "i32"}}, [Change("type", "x", "*fp32", "*fp64")]),
    ({"types": {"x": "*fp32"}, "equal_to_1": ["n"], "divisible_by_16": ["x"]},
     [Change("equal_to_1", "n", "i32:16", "1")]),
    ({"types": {"x": "*fp32"}, "constexprs": {"BLOCK": "256", "n": "8"}, "divisible_by_16": ["x"]},
     [Change("constexpr", "n", NO_CONSTEXPR, "8")]),
    ({"types": {"x": "*fp32", "n[0]": "i32"}, "divisible_by_16": ["x"]}, [Change("type", "n", "i32", "a tuple")]),
    ({"types": {"n": "i32"}}, [Change("type", "x", "*fp32", "nothing")]),
    ({"divisible_by_16": ["n"]}, [Change("divisibility", "x", "*fp32:16", "*fp32")]),
    ({"target": "cuda:80", "options": {"num_warps": 4, "arch": "sm80"}},
     [Change("device", "target", "cuda:90", "cuda:80")]),
    ({"device": 1}, [Change("device", "device", "0", "1")]),
    ({"options": {"num_warps": 8, "arch": "sm90"}, "environment": {}, "constexprs": {"BLOCK": "64"}},
     [Change("constexpr", "BLOCK", "256", "64"), Change("option", "num_warps", "4", "8"),
      Change("setting", "A", "0", "None")]),
    ({}, []),
])
def test_differences_come_worst_first(changed: dict[str, Any], expected: list[Change]) -> None:
    assert list(compare(facts(**changed), facts())) == expected
    assert {each.code for each in expected} <= set(COMPILE_REASONS)


def test_codes_are_of_the_kinds() -> None:
    kinds = [("type", "*fp32", "*fp64"), ("type", "i32", "fp32"), ("type", "*fp32", "i32"), ("type", "None", "*fp32")]
    assert [Change(kind, "x", old, new).code for kind, old, new in kinds] == [
        "new_dtype", "new_scalar", "new_type", "new_type"]
    assert set(CODES) <= set(COMPILE_REASONS)


def test_values_say_what_did_it() -> None:
    noted = {"attributes": json.dumps({"values": {"n": 1000}, "alignments": {"x": 4}})}
    found = reason(facts(), facts(divisible_by_16=[]), **noted)
    assert (found["reason_code"], found["argument"]) == ("divisibility", "x")
    assert found["reason"] == ("pointer `x` is aligned at 4 bytes, not at 16; the nearest known specialization is for "
                               "pointers aligned at 16 bytes; `n` (i32:16 to i32) differs too")
    without = reason(facts(), facts(divisible_by_16=["x"]))
    assert without["reason"].startswith("argument `n` is an integer, not divisible by 16; the nearest")


def test_of_two_one_thing_away_the_nearest_is_the_milder_one() -> None:
    """A pointer that lost its alignment is not said to have changed its dtype."""
    found = reason(facts(), facts(types={"x": "*fp64", "n": "i32"}), facts(divisible_by_16=["n"]))
    assert (found["reason_code"], found["argument"]) == ("divisibility", "x")
    assert found["nearest_signature"] == f"{SIGNATURE}, 0"


def test_the_nearest_has_the_fewest_differences_and_is_the_earliest() -> None:
    further = facts(constexprs={"BLOCK": "32"}, options={"num_warps": 8, "arch": "sm90"})
    known = (further, facts(), facts(constexprs={"BLOCK": "64"}), facts(constexprs={"BLOCK": "128"}))
    found = reason(*known, facts(constexprs={"BLOCK": "512"}))
    assert found["nearest_signature"] == f"{SIGNATURE}, 1"
    before = reason(*known, facts(constexprs={"BLOCK": "512"}), origin="before")
    assert before["nearest_signature"] == f"{SIGNATURE}, 1"


def test_of_equally_near_ones_the_most_launched_is_the_nearest_and_all_fixes_ask_for_it() -> None:
    script = made(*(facts(constexprs={"BLOCK": str(16 << at)}) for at in range(4)))
    script.configuration()
    for _ in range(3):
        script.launch(specialization=2)
    rows = explain(script.recording()).rows("compilations")
    assert rows[3]["nearest_signature"] == f"{SIGNATURE}, 2"
    assert {row["fix"] for row in rows[1:]} == {
        "launch it with BLOCK=64 every time; or, where the kernel does not need `BLOCK` as a constant, drop "
        "tl.constexpr there"}


def form(kind: str) -> dict[str, Any]:
    """Facts of a kernel with the argument ``n`` alone, of a type as a signature has it, or a 1."""
    return {"types": {} if kind == "1" else {"n": kind.removesuffix(":16")}, "constexprs": {},
            "equal_to_1": ["n"] if kind == "1" else [], "divisible_by_16": ["n"] if kind.endswith(":16") else []}


@pytest.mark.parametrize(("one", "other", "count"), [
    ("i32", "i64", 1), ("i32:16", "i64", 2), ("i32", "1", 1), ("i32:16", "1", 2), ("i64", "1", 2), ("i32", "u1", 2),
    ("i32", "fp32", 2), ("1", "fp32", 3), ("*fp32", "*fp64", 1), ("*fp32:16", "*fp32", 1), ("*fp32", "None", 2),
])
def test_the_number_of_things_in_which_two_differ(one: str, other: str, count: int) -> None:
    assert distance(form(one), form(other)) == distance(form(other), form(one)) == count


def test_lengths_of_tuples_and_constants_in_them() -> None:
    pair, triple = ({"types": {f"t[{at}]": "i32" for at in range(count)}} for count in (2, 3))
    assert compare(triple, pair) == (Change("length", "t", "2", "3"),)
    assert compare(pair, triple) == (Change("length", "t", "3", "2"),)
    assert compare({"types": {}}, pair) == (Change("length", "t", "2", "0"),)
    assert compare({"types": {"t[0]": "4"}}, {"types": {"t[0]": "8"}}) == (Change("constexpr", "t[0]", "8", "4"),)
    inner = {"types": {"t[0][0]": "i32", "t[0][1]": "i32", "t[1]": "i32"}}
    assert compare(inner, {"types": {"t[0][0]": "i32", "t[1]": "i32"}}) == (Change("length", "t[0]", "1", "2"),)
    assert fixes([Change("length", "t", "3", "2")]) == (Fix("length", "t", "3"),)


#: Numbers that a launch can be given, as Triton types them.
NUMBERS = st.sampled_from((1, 2, 16, True, False, 3.5, 1 << 33, (1 << 33) + 1, 1 << 63, -5))


def kind_of(value: float) -> str:
    """Triton's type of a number, with ``:16`` where it is divisible, or 1."""
    if isinstance(value, bool | float):
        return "u1" if isinstance(value, bool) else "fp32"
    if value == 1:
        return "1"
    width = "i32" if -(1 << 31) <= value < 1 << 31 else "i64" if value < 1 << 63 else "u64"
    return width + ":16" * (value % 16 == 0)


def key_of(value: float, made: set[tuple[str, str]]) -> tuple[str, str]:
    """What Triton's key has of a number, for a kernel with these fixes: seen with 3.9."""
    kind, names = kind_of(value), {what for what, _ in made}
    annotated = next((value for what, value in made if what == "annotation"), None)
    state = "bool" if kind == "u1" else kind if kind == "1" else "16" if kind.endswith(":16") else ""
    ignored = [""] if "do_not_specialize_on_alignment" not in names else ["16"]
    if "do_not_specialize" in names or "fp32" in (kind, annotated) or state in ignored:
        state = ""
    return annotated or ("i32" if kind == "1" and state == "" else kind.removesuffix(":16")), state


@settings(max_examples=300, deadline=None, derandomize=True, database=None)
@given(st.lists(NUMBERS, min_size=2, max_size=6, unique_by=lambda value: (type(value), value)), st.booleans())
def test_all_fixes_together_leave_one_specialization(values: list[float], is_annotated: bool) -> None:
    """An argument of numbers, of which some kernels annotate an integer."""
    if is_annotated:
        values = [value for value in values if not isinstance(value, float) and -5 < value < 1 << 63]
    script = Script()
    kernel = script.kernel("axpy", framework="triton", arguments="n")
    keys: set[tuple[str, str]] = set()
    compiled: list[float] = []
    for at, value in enumerate(values):
        base = {("annotation", "i64")} if is_annotated else set[tuple[str, str]]()
        key = key_of(value, base)
        if key in keys:
            continue
        keys.add(key)
        compiled.append(value)
        state = "" if is_annotated and key[1] in ("1", "bool") else key[1]
        noted = form(key[0] + ":16" * (state == "16") if state != "1" else "1")
        number = script.specialization(kernel, f"{at}", attributes=json.dumps(noted))
        attributes = {} if isinstance(value, bool | float) else {"values": {"n": value}}
        script.compilation(kernel, specialization_id=number, signature=f"{at}", start_ns=at * MS,
                           end_ns=at * MS + 1, attributes=json.dumps({"definition": {}, **attributes}))
    recording = script.recording()
    rows = explain(recording).rows("compilations")
    made = {(fix.what, fix.value) for each in type_fixes(recording).values() for fix in each}
    if ("none", "") in made:
        assert min(values) < 0 and max(values) >= 1 << 63
        return
    assert len({value for what, value in made if what == "annotation"}) <= 1
    made |= {("annotation", "i64")} if is_annotated else set()
    assert len({key_of(value, made) for value in values}) <= 1, [row["fix"] for row in rows]
    for what, kind in made:
        if what == "annotation" and kind in ("i32", "i64", "u64", "u1"):
            low, high = {"u1": (0, 1), "i32": (-(1 << 31), (1 << 31) - 1), "i64": (-(1 << 63), (1 << 63) - 1),
                         "u64": (0, (1 << 64) - 1)}[kind]
            assert all(low <= value <= high and not isinstance(value, float) for value in compiled), compiled


@pytest.mark.parametrize(("last", "code", "says", "fix"), [
    ({"outcome": "disk"}, "disk", "not compiled: Triton's disk cache had it; it was asked for because num_warps is 8",
     None),
    ({"outcome": "failed", "error": "CompilationError: at 3:4"}, "new_option",
     "; the compile failed: CompilationError: at", "correct what the error names"),
    ({"outcome": "failed", "error": "KeyboardInterrupt"}, "new_option", "KeyboardInterrupt", "it was interrupted"),
    ({"trigger": "compile"}, "new_option", "; a warm-up or triton.compile asked for it", "launch it with num_warps=4"),
])
def test_outcomes(last: dict[str, Any], code: str, says: str, fix: str | None) -> None:
    found = reason(facts(), facts(options={"num_warps": 8, "arch": "sm90"}), **last)
    assert found["reason_code"] == code and says in found["reason"]
    assert found["fix"] is None if fix is None else found["fix"].startswith(fix)


@pytest.mark.parametrize(("changed", "code", "says"), [
    ({"source": "b"}, "redefined", "the definition ran again with new source"),
    ({"globals": {"F": "3", "G": "1"}}, "new_global",
     "the constexpr `F`, which it reads from outside, is 3 instead of 2"),
    ({"functions": {"f": "b"}}, "redefined", "the function `f`, which it calls, is another one"),
    ({"line": 9}, "redefined", "has moved from line 3 to line 9"),
    ({}, "redefined", "with the same source"),
])
@pytest.mark.parametrize("is_recorded", [True, False])
def test_definitions_that_ran_again(changed: dict[str, Any], code: str, says: str, is_recorded: bool) -> None:
    first = {"key": "k", "source": "a", "line": 3, "globals": {"F": "2"}, "functions": {"f": "a"}}
    script, now = Script(), {**first, **changed}
    for at, definition in enumerate((first, now)):
        if at or is_recorded:
            kernel = script.kernel("axpy", framework="triton", arguments="x, n, BLOCK")
            number = script.specialization(kernel, SIGNATURE, attributes=json.dumps(facts()))
            attributes = {"definition": definition, **({"previous": first} if at else {})}
            script.compilation(kernel, specialization_id=number, signature=SIGNATURE, start_ns=at * MS,
                               end_ns=at * MS + 1, attributes=json.dumps(attributes))
    found = explain(script.recording()).rows("compilations")[-1]
    assert found["reason_code"] == code and says in found["reason"]


def test_a_record_without_facts_says_so() -> None:
    found = reason({}, {})
    assert found["reason_code"] == "unknown"


def test_redacted_recordings_keep_the_codes() -> None:
    bare = redacted(made(facts(), facts(types={"x": "*fp64", "n": "i32"})).recording())
    assert [row["reason_code"] for row in bare.rows("compilations")] == ["first_use", "new_dtype"]
    assert "withheld" in bare.rows("compilations")[1]["reason"]


def test_changes_in_brief() -> None:
    assert changes("*fp64, i32, BLOCK=512", "*fp32, i32, BLOCK=256", ("x", "n", "BLOCK")) == (
        "x *fp32 → *fp64, BLOCK 256 → 512")
    assert changes("*fp64", "", ("x",)) == changes("a, b", "a", ("x",)) == ""
    script = made(facts(), facts(types={"x": "*fp64", "n": "i32"}))
    assert [each.framework for each in compilations(script.recording())] == ["triton", "triton"]


@pytest.mark.parametrize(("change", "fix"), [
    (Change("type", "n", "i32", "u64"), "annotate it in the kernel, `n: tl.uint64`, which takes all of these integers"),
    (Change("type", "x", "*fp32", "i32"), "pass `x` as *fp32 in every launch, if the values allow it"),
    (Change("setting", "A", "0", "1"), "keep A=0 for the whole process"),
    (Change("device", "device", "0", "1"), "launch it once there before it matters: each device has its own kernels in "
                                           "memory"),
    (Change("divisibility", "x", "*bf16:16", "*bf16"),
     "slice `x` at a multiple of 16 bytes (8 elements) in every launch"),
    (Change("divisibility", "x", "*fp8e5:16", "*fp8e5"), "at a multiple of 16 bytes (16 elements) in every launch"),
    (Change("divisibility", "x", "*fp64:16", "*fp64"),
     "slice `x` at a multiple of 16 bytes (2 elements) in every launch"),
])
def test_fixes(change: Change, fix: str) -> None:
    assert fix_text([change], fixes([change])).endswith(fix)
