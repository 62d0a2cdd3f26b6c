from __future__ import annotations

import pytest

from kernelscope.analysis.signatures import SEVERITY, differences, parse_signature

PACKED = "Record(a[type=int8;offset=0],b[type=float32;offset=1];5;False)"
ALIGNED = "Record(a[type=int8;offset=0],b[type=float32;offset=4];8;True)"
OTHER = "Record(a[type=int8;offset=0],b[type=float64;offset=8];16;True)"


@pytest.mark.parametrize(("wanted", "known", "aspects"), [
    ("array(float64, 1d, C)", "array(float32, 1d, C)", ["new_dtype"]),
    ("array(float32, 1d, A)", "array(float32, 1d, C)", ["new_layout"]),
    ("readonly array(float32, 1d, C)", "array(float32, 1d, C)", ["new_access"]),
    ("unaligned array(float32, 1d, C)", "array(float32, 1d, C)", ["new_alignment"]),
    ("readonly array(float64, 2d, A)", "array(float32, 1d, C)",
     ["new_dimensions", "new_dtype", "new_layout", "new_access"]),
    (f"array({ALIGNED}, 1d, C)", f"unaligned array({PACKED}, 1d, C)", ["new_alignment"]),
    (f"array({OTHER}, 1d, C)", f"unaligned array({PACKED}, 1d, C)", ["new_dtype"]),
    (ALIGNED, PACKED, ["new_alignment"]),
    (OTHER, PACKED, ["new_dtype"]),
    ("int64", "float64", ["new_scalar"]),
    ("int32", "bool", ["new_scalar"]),
    ("int64", "array(int64, 1d, C)", ["new_type"]),
    ("none", "int64", ["optional"]),
    ("array(int64, 1d, C)", "none", ["optional"]),
    ("int64", "OptionalType(int64)", ["optional"]),
    ("Literal[int](1)", "int64", ["literal"]),
    ("UniTuple(int64 x 3)", "UniTuple(int64 x 2)", ["tuple_arity"]),
    ("Tuple(int64, float32, int8)", "UniTuple(int64 x 2)", ["tuple_arity"]),
    ("Q(int64 x 2)", "P(int64 x 2)", ["new_type"]),
    ("UniTuple(int64 x 2)", "P(int64 x 2)", ["new_type"]),
    ("IntEnum<int64>(Color)", "int64", ["new_type"]),
])
def test_how_two_arguments_differ(wanted: str, known: str, aspects: list[str]) -> None:
    found, = differences(parse_signature(f"(int8, {wanted})"), parse_signature(f"(int8, {known})"))
    assert (found.position, found.path, list(found.aspects)) == (1, (), aspects)
    assert (found.wanted.text, found.known.text, found.code) == (wanted, known, aspects[0])


def test_tuples_of_one_length_differ_in_their_elements() -> None:
    found = differences(parse_signature("(Tuple(int64, Tuple(float32, UniTuple(int64 x 3))),)"),
                        parse_signature("(Tuple(int32, Tuple(float32, UniTuple(int64 x 2))),)"))
    assert [(each.position, each.path, each.code) for each in found] == [
        (0, (1, 1), "tuple_arity"), (0, (0,), "new_scalar")]
    found, = differences(parse_signature("(P(int64, float32),)"), parse_signature("(P(int64 x 2),)"))
    assert (found.path, found.code) == ((1,), "new_scalar")


def test_the_worst_comes_first_and_then_the_first() -> None:
    wanted = "(readonly array(int8, 1d, C), float32, array(int8, 2d, C), float32)"
    known = "(array(int8, 1d, C), int64, array(int8, 1d, C), int64)"
    found = differences(parse_signature(wanted), parse_signature(known))
    assert [each.position for each in found] == [2, 1, 3, 0]
    assert [each.rank for each in found] == sorted((each.rank for each in found), reverse=True)
    assert SEVERITY[found[0].rank] == "new_dimensions"


def test_other_numbers_of_arguments_and_other_spellings() -> None:
    found, = differences(parse_signature("(int64,)"), parse_signature("(int64, int64)"))
    assert (found.position, found.code, found.wanted.text, found.known.text) == (
        -1, "argument_count", "1 argument", "2 arguments")
    assert differences(parse_signature("(Array(float32, 1, 'C', False, aligned=True),)"),
                       parse_signature("(array(float32, 1d, C),)")) == ()
