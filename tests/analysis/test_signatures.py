from __future__ import annotations

import pytest

from kernelscope.analysis.signatures import declaration, parse_signature, parse_type, record_fields

RECORD = "Record(a[type=int32;offset=0],b[type=nestedarray(float64, (2,));offset=4];20;False)"


@pytest.mark.parametrize(("text", "types"), [
    ("()", []),
    ("(int64,)", ["int64"]),
    ("(int64)", ["int64"]),
    ("(array(float32, 1d, C), int64)", ["array(float32, 1d, C)", "int64"]),
    ("(array(float32, 1d, C), int64) -> none", ["array(float32, 1d, C)", "int64"]),
    ("(UniTuple(int64 x 3), Tuple(int64, Tuple(float32, int8)))",
     ["UniTuple(int64 x 3)", "Tuple(int64, Tuple(float32, int8))"]),
    (f"({RECORD}, unaligned array({RECORD}, 1d, C), int32)",
     [RECORD, f"unaligned array({RECORD}, 1d, C)", "int32"]),
    ("(omitted(default='a, (b'), int64)", ["omitted(default='a, (b')", "int64"]),
    ("(Literal[str](it's), int64)", ["Literal[str](it's)", "int64"]),
    ("(Array(float32, 1, 'C', False, aligned=True), int64)", ["Array(float32, 1, 'C', False, aligned=True)", "int64"]),
    ("(P(int64, int32), Literal[str]('a\\'b, c'))", ["P(int64, int32)", "Literal[str]('a\\'b, c')"]),
    ("nonsense", ["nonsense"]),
])
def test_signatures_fall_into_their_arguments(text: str, types: list[str]) -> None:
    assert [kind.text for kind in parse_signature(text)] == types


def test_arrays_are_read_in_both_spellings() -> None:
    for text in ("readonly array(float64, 2d, F)", "Array(float64, 2, 'F', True, aligned=True)"):
        kind = parse_type(text)
        assert (kind.kind, kind.dtype, kind.ndim, kind.layout, kind.readonly, kind.aligned) == (
            "array", "float64", 2, "F", True, True)
    kind = parse_type(f"unaligned readonly array({RECORD}, 1d, C)")
    assert (kind.dtype, kind.readonly, kind.aligned) == (RECORD, True, False)
    assert [parse_type(text).kind for text in ("int64", "bool", "complex64", "Tuple(int64)")] == [
        "scalar", "scalar", "scalar", "tuple"]


@pytest.mark.parametrize(("text", "spelled"), [
    ("(array(float32, 1d, C), int64)", "void(float32[::1], int64)"),
    ("(array(float64, 2d, F), bool)", "void(float64[::1, :], boolean)"),
    ("(array(uint8, 3d, A),)", "void(uint8[:, :, :])"),
    ("(readonly array(float32, 1d, C),)", None),
    ("(array(float32, 0d, C),)", None),
    ("(array(datetime64[D], 1d, C),)", None),
    ("(UniTuple(int64 x 2),)", None),
    ("()", "void()"),
])
def test_signatures_as_cuda_jit_takes_them(text: str, spelled: str | None) -> None:
    assert declaration(text) == spelled


@pytest.mark.parametrize(("text", "name", "elements"), [
    ("UniTuple(int64 x 3)", "", ("int64",) * 3),
    ("UniTuple(UniTuple(int64 x 2) x 2)", "", ("UniTuple(int64 x 2)",) * 2),
    ("UniTuple(array(float32, 1d, C) x 1)", "", ("array(float32, 1d, C)",)),
    ("Tuple(int64, UniTuple(int64 x 3))", "", ("int64", "UniTuple(int64 x 3)")),
    ("Tuple()", "", ()),
    ("Point(int64 x 2)", "Point", ("int64", "int64")),
    ("Point(int64, float32)", "Point", ("int64", "float32")),
])
def test_tuples_have_elements(text: str, name: str, elements: tuple[str, ...]) -> None:
    kind = parse_type(text)
    assert (kind.kind, kind.name, kind.elements) == ("tuple", name, elements)


@pytest.mark.parametrize(("text", "kind"), [
    (RECORD, "record"), ("none", "none"), ("OptionalType(int64)", "optional"), ("?int64", "optional"),
    ("Literal[int](1)", "literal"), ("IntEnum<int64>(Color)", "enum"), ("Enum<int64>(Hue)", "enum"),
    ("type(CUDADispatcher(<function f at 0x7f>))", "other"), ("class(float32)", "other"), ("dtype(float32)", "other"),
    ("reflected list(int64)<iv=None>", "other"), ("slice<a:b>", "other"), ("unicode_type", "other"),
    ("datetime64[D]", "scalar"), ("timedelta64[25s]", "scalar"), ("readonly bytes(uint8, 1d, C)", "other"),
    ("omitted(default=1)", "other"), ("[unichr x 3]", "other"),
])
def test_kinds_of_types(text: str, kind: str) -> None:
    assert parse_type(text).kind == kind


def test_fields_of_records() -> None:
    assert record_fields(RECORD) == {"a": "int32", "b": "nestedarray(float64, (2,))"}
    assert record_fields("float32") is None
    assert record_fields("Record(odd;3;True)") is None


@pytest.mark.parametrize("text", [
    "", "(", ")", "((", "(,)", "'", '("', "Literal[str](x, y)), int64)", "(\\", "->", "array(, 1d, C)",
])
def test_reading_never_fails_and_a_text_equals_itself(text: str) -> None:
    assert parse_signature(text) == parse_signature(text)
    declaration(text)
