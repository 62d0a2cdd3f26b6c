"""The types that all launches of a kernel can have, and the fixes of its compiles together."""

from __future__ import annotations

import re
from typing import Any

import pytest
from handmade import MS, Script
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernelscope.analysis.common_types import Conversion, common_type
from kernelscope.analysis.compiles import explain, refusal, type_conversions
from kernelscope.analysis.signatures import ArgumentType, parse_signature, parse_type

MN = "Record(m[type=float32;offset=0],n[type=int32;offset=4];8;False)"
MN16 = "Record(m[type=float32;offset=0],n[type=int32;offset=4];16;False)"
NM = "Record(n[type=int32;offset=0],m[type=float32;offset=4];8;False)"
MNO = "Record(m[type=float32;offset=0],n[type=int32;offset=4],o[type=int8;offset=8];9;False)"
MN64 = "Record(m[type=float64;offset=0],n[type=int32;offset=8];12;False)"


def recorded(launches: list[tuple[str, int]], **kernel: Any) -> Script:
    """A recording of a kernel: a compile of each signature, and so many launches of it."""
    script = Script()
    script.kernel("axpy", **kernel)
    script.configuration()
    for at, (signature, count) in enumerate(launches):
        number = script.specialization(0, signature)
        script.compilation(signature=signature, specialization_id=number, start_ns=at * MS, end_ns=(at + 1) * MS - 1)
        for _ in range(count):
            script.launch(specialization=number)
    return script


def convert(signature: str, fixes: list[Conversion]) -> str:
    """The signature of a launch after the fixes."""
    types = [kind.text for kind in parse_signature(signature)]
    for fix in fixes:
        types[fix.position] = _converted(parse_type(types[fix.position]), fix.path, fix).text
    return f"({', '.join(types)})"


def _converted(kind: ArgumentType, path: tuple[int, ...], fix: Conversion) -> ArgumentType:
    if path:
        elements = [*kind.elements]
        elements[path[0]] = _converted(parse_type(elements[path[0]]), path[1:], fix).text
        alike = len(set(elements)) == 1
        inside = f"{elements[0]} x {len(elements)}" if alike else ", ".join(elements)
        return parse_type(f"{kind.name or ('UniTuple' if alike else 'Tuple')}({inside})")
    if fix.aspects == ("type",):
        return fix.target
    assert kind.kind == fix.target.kind == "array"
    column = {"new_dtype": "dtype", "new_dimensions": "ndim", "new_layout": "layout", "new_access": "readonly",
              "new_alignment": "aligned"}
    held = {name: getattr(kind, name) for name in column.values()}
    held |= {column[aspect]: getattr(fix.target, column[aspect]) for aspect in fix.aspects}
    if {"new_dtype", "new_alignment"} & {*fix.aspects}:  # one astype() does both
        held |= {"dtype": fix.target.dtype, "aligned": fix.target.aligned}
    flags = "readonly " * held["readonly"] + "unaligned " * (not held["aligned"])
    return parse_type(f"{flags}array({held['dtype']}, {held['ndim']}d, {held['layout']})")


def fixes_of(script: Script) -> list[tuple[Conversion, ...]]:
    return list(type_conversions(script.recording()).values())


def test_the_fixes_of_a_kernel_ask_for_one_type_of_each_argument() -> None:
    f4, f8 = "array(float32, 1d, C)", "array(float64, 1d, C)"
    signatures = [f"({f4}, {f4})", f"({f8}, {f8})", f"({f4}, {f8})", f"({f8}, {f4})"]
    rows = explain(recorded([(each, 1) for each in signatures]).recording()).rows("compilations")
    assert all("float64" not in row["fix"] for row in rows[1:])
    # That of the most launches, whichever was the first.
    rows = explain(recorded([(each, count) for count, each in enumerate(signatures[:3])]).recording()).rows(
        "compilations")
    assert [re.findall(r"np\.(float\d+)", row["fix"]) for row in rows[1:]] == [["float32", "float64"], ["float32"]]
    assert "void(float32[::1], float64[::1])" in rows[0]["fix"], "what is to be declared is the same"


def test_layouts_come_to_one() -> None:
    plane = "array(float64, 2d, {})".format
    rows = explain(recorded([(f"({plane(layout)},)", 1) for layout in "CFA"]).recording()).rows("compilations")
    assert [re.search(r"np\.as\w+", row["fix"])[0] for row in rows[1:]] == ["np.ascontiguousarray"] * 2


@pytest.mark.parametrize(("types", "common"), [
    (["int32", "int64"], "int64"), (["int64", "int32"], "int64"), (["uint8", "int32"], "int32"),
    (["uint8", "int8"], "int16"), (["uint32", "int32"], "int64"), (["uint64", "int64"], "int64"),
    (["bool", "int8"], "int8"), (["float32", "float64"], "float32"), (["float64", "float32"], "float64"),
    (["float16", "float32"], "float32"), (["float16", "int64"], "float32"), (["float16", "int8"], "float16"),
    (["int64", "float32"], "float32"), (["float64", "complex64"], "complex64"), (["float16", "bfloat16"], "bfloat16"),
    (["none", "int64"], "int64"), (["omitted(default=1)", "float32"], "float32"),
    (["omitted(default=1)", "int8"], "int64"),
    (["Literal[int](3)", "Literal[int](4)"], "int64"), (["Literal[str](a)", "Literal[str](b)"], None),
    (["OptionalType(int64)", "int64"], "int64"), (["none", "OptionalType(int64)"], "int64"),
    (["IntEnum<int64>(A)", "Enum<int64>(B)"], "int64"), (["IntEnum<int64>(A)", "float32"], "float32"),
    (["array([unichr x 3], 1d, C)", "array([unichr x 5], 1d, C)"], "array([unichr x 5], 1d, C)"),
    (["array([char x 9], 1d, C)", "array([unichr x 5], 1d, C)"], "array([unichr x 9], 1d, C)"),
    (["array(int8, 3d, F)", "array(int8, 2d, F)"], "array(int8, 2d, C)"),
    (["array(int8, 0d, C)", "array(int8, 2d, F)"], "array(int8, 1d, C)"),
    (["array(int8, 2d, A)", "array(int8, 2d, F)"], "array(int8, 2d, F)"),
    (["readonly array(int8, 1d, A)", "readonly array(int16, 1d, A)"], "array(int16, 1d, C)"),
    (["float64", "array(float32, 2d, C)"], "array(float64, 2d, C)"),
    (["UniTuple(int32 x 2)", "Tuple(int64, float32)"], "Tuple(int64, float32)"),
    (["UniTuple(int64 x 2)", "UniTuple(int64 x 3)"], "UniTuple(int64 x 3)"), (["Tuple()", "UniTuple(int8 x 1)"],
                                                                            "UniTuple(int8 x 1)"),
    (["P(int64 x 2)", "P(int64, float32)"], "P(int64, float32)"), (["P(int64 x 2)", "Q(int64 x 2)"], "P(int64 x 2)"),
    ([MN, MNO], MNO), ([MN, NM], MN), ([MN, MN16], MN), ([MN, MN64], MN), ([MN64, MN], MN64),
    (["type(float32)", "int64"], "type(float32)"),
])
def test_the_common_type(types: list[str], common: str | None) -> None:
    found = common_type([(parse_type(text), 1) for text in types])
    assert (None if found is None else found.text) == common


@pytest.mark.parametrize(("launches", "fix"), [
    ([("(int32,)", 1), ("(int64,)", 1)], "pass argument `x` as int(value) in every launch"),
    ([("(none,)", 1), ("(int64,)", 1)], "pass argument `x` as int(value) in every launch"),
    ([("(unicode_type,)", 5), ("(int64,)", 1)], "pass argument `x` as int(value) in every launch"),
    ([(f"({MN},)", 1), (f"({MNO},)", 1)],
     "pass argument `x` with one np.dtype, record(m float32, n int32, o int8) in every launch"),
    ([(f"(unaligned array({MN}, 1d, C),)", 1), (f"(unaligned array({MN16}, 1d, C),)", 1)],
     "pass argument `x` as array.astype(dtype) in every launch; dtype is record(m float32, n int32); its itemsize has "
     "to be 8 bytes; convert a device array on the host, before it goes to the device"),
    ([("(readonly array(int8, 2d, F),)", 1), ("(array(int8, 2d, F),)", 1)],
     'pass argument `x` as array.copy(order="F") in every launch; convert a device array on the host, before it goes '
     "to the device"),
    ([("(Literal[str](a),)", 1), ("(Literal[str](b),)", 1)],
     "declare argument `x` by its plain type, such as int64: a literal type takes one value only"),
    ([("(UniTuple(int64 x 3),)", 1), ("(UniTuple(int64 x 2),)", 1)],
     "pass argument `x` with 3 elements in every launch; an array takes any number"),
])
def test_the_text_of_a_fix(launches: list[tuple[str, int]], fix: str) -> None:
    assert explain(recorded(launches, arguments="x").recording()).rows("compilations")[-1]["fix"] == fix


def test_records_say_all_that_differs() -> None:
    row = explain(recorded([(f"({MNO},)", 5), (f"({NM},)", 1)], arguments="x").recording()).rows("compilations")[1]
    assert "(field `o` is gone; its fields in another order)" in row["reason"]
    row = explain(recorded([(f"({MN},)", 1), (f"({MN16},)", 1)], arguments="x").recording()).rows("compilations")[1]
    assert "records of 16 bytes, not of 8, with the same fields" in row["reason"]


DTYPES = ("bool", "int8", "uint8", "int32", "int64", "uint64", "float16", "float32", "float64", "complex64",
          "datetime64[D]", "datetime64[s]", "[unichr x 3]", "[unichr x 5]", "[char x 4]", MN, NM, MNO, MN16, MN64)
ARRAYS = st.builds(
    lambda readonly, aligned, dtype, ndim, layout: (
        f"{'readonly ' * readonly}{'unaligned ' * (not aligned)}array({dtype}, {ndim}d, {layout})"),
    st.booleans(), st.booleans(), st.sampled_from(DTYPES), st.integers(0, 3), st.sampled_from("CFA"))
SCALARS = st.sampled_from((*DTYPES[:12], "Literal[int](1)", "Literal[int](2)", "OptionalType(int64)",
                           "omitted(default=1.5)", "IntEnum<int64>(Color)", "Enum<int64>(Hue)"))
PLAIN = st.one_of(ARRAYS, SCALARS, st.sampled_from((MN, NM, MNO, "none", "unicode_type")))


def tuples(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    def text(elements: list[str], name: str) -> str:
        if elements and len({*elements}) == 1:
            return f"{name or 'UniTuple'}({elements[0]} x {len(elements)})"
        return f"{name or 'Tuple'}({', '.join(elements)})"

    return st.builds(text, st.lists(inner, max_size=3), st.just("")) | st.builds(
        text, st.lists(inner, min_size=2, max_size=2), st.sampled_from("PQ"))


#: Argument types of one kernel: each argument of one kind mostly.
SIGNATURES = st.lists(st.sampled_from((ARRAYS, SCALARS, tuples(PLAIN), PLAIN)), min_size=1, max_size=3).flatmap(
    lambda kinds: st.lists(st.tuples(*kinds), min_size=2, max_size=5, unique=True))


@settings(max_examples=300, deadline=None, derandomize=True, database=None,
          suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(SIGNATURES, st.lists(st.integers(0, 3), min_size=5, max_size=5))
def test_all_fixes_together_leave_one_specialization(signatures: list[tuple[str, ...]], counts: list[int]) -> None:
    texts = [f"({', '.join(each)},)" for each in signatures]
    script = recorded(list(zip(texts, counts, strict=False)), arguments="x, y, z")
    rows = explain(script.recording()).rows("compilations")
    fixes = fixes_of(script)
    for position in range(len(signatures[0])):
        targets = {(fix.path, fix.target.text) for each in fixes for fix in each if fix.position == position}
        assert len(targets) == len({path for path, _ in targets}), "one target of each argument"
        kinds = [refusal(each[position]) for each in signatures]
        # What no launch takes, and what has no type in common, is not a matter of how it is passed.
        fixable = common_type([(parse_type(each[position]), 1) for each, kind in zip(signatures, kinds, strict=True)
                               if kind is None]) if not all(kinds) else None
        if fixable is None:
            continue
        passable = [text for text, each in zip(texts, signatures, strict=True) if refusal(each[position]) is None]
        after = {parse_signature(convert(text, [fix for fix in fixes[texts.index(text)] if fix.position == position]))[
            position].text for text in passable[1:]}
        assert len(after) <= 1
        # The first compile is compared with none: that its launches are to change is said by another one.
        first = parse_signature(passable[0])[position].text
        assert after <= {first} or any(fix.position == position for each in fixes for fix in each)
    for row, found in zip(rows[1:], fixes[1:], strict=True):
        assert row["fix"]
        assert "nothing in every" not in row["fix"] and "None in every" not in row["fix"]
        for fix in found:
            assert refusal(fix.target.text) is None
