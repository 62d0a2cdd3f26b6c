from __future__ import annotations

import pytest

from kernelscope.analysis.signatures import declaration, differences, nearest, parse_signature, parse_type

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
        "scalar", "scalar", "scalar", "other"]


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


@pytest.mark.parametrize(("wanted", "known", "code"), [
    ("array(float64, 1d, C)", "array(float32, 1d, C)", "new_dtype"),
    ("array(float32, 1d, A)", "array(float32, 1d, C)", "new_layout"),
    ("readonly array(float32, 1d, C)", "array(float32, 1d, C)", "new_layout"),
    ("array(float64, 2d, A)", "array(float32, 1d, C)", "new_dimensions"),
    ("int64", "float64", "new_dtype"),
    ("int64", "array(int64, 1d, C)", "new_type"),
    ("none", "int64", "new_type"),
])
def test_how_two_arguments_differ(wanted: str, known: str, code: str) -> None:
    found, = differences(parse_signature(f"(int8, {wanted})"), parse_signature(f"(int8, {known})"))
    assert (found.position, found.code, found.wanted, found.known) == (1, code, wanted, known)


def test_the_nearest_signature_differs_least() -> None:
    known = ["(int64, int64)", "(array(float32, 2d, C), int64)", "(array(float64, 1d, C), int64)", "(int8,)"]
    found = nearest("(array(float32, 1d, C), int64)", known)
    assert found is not None
    assert found[0] == "(array(float64, 1d, C), int64)"
    assert nearest("(int64,)", []) is None
    other_count = nearest("(int64,)", ["(int64, int64)"])
    assert other_count is not None
    assert (other_count[1][0].position, other_count[1][0].wanted) == (-1, "1 argument")


@pytest.mark.parametrize("text", [
    "", "(", ")", "((", "(,)", "'", '("', "Literal[str](x, y)), int64)", "(\\", "->", "array(, 1d, C)",
])
def test_reading_never_fails_and_a_text_equals_itself(text: str) -> None:
    assert differences(parse_signature(text), parse_signature(text)) == ()
    declaration(text)
