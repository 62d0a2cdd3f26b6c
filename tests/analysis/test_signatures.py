from __future__ import annotations

import pytest

from kernelscope.analysis import signatures
from kernelscope.analysis.signatures import (
    SEVERITY,
    Shape,
    ShapeIndex,
    SignatureIndex,
    argument_name,
    argument_names,
    declaration,
    differences,
    distance,
    known_name,
    named_arguments,
    parse_signature,
    parse_type,
    record_fields,
    short_arguments,
    short_type,
)

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


PACKED = "Record(a[type=int8;offset=0],b[type=float32;offset=1];5;False)"
ALIGNED = "Record(a[type=int8;offset=0],b[type=float32;offset=4];8;True)"
OTHER = "Record(a[type=int8;offset=0],b[type=float64;offset=8];16;True)"


@pytest.mark.parametrize(("wanted", "known", "aspects"), [
    ("readonly array(float64, 2d, A)", "array(float32, 1d, C)",
     ["new_dimensions", "new_dtype", "new_layout", "new_access"]),
    (f"array({ALIGNED}, 1d, C)", f"unaligned array({PACKED}, 1d, C)", ["new_alignment"]),
    (f"array({OTHER}, 1d, C)", f"unaligned array({PACKED}, 1d, C)", ["new_dtype"]),
    (ALIGNED, PACKED, ["new_alignment"]),
    (OTHER, PACKED, ["new_dtype"]),
    ("int32", "bool", ["new_scalar"]),
    ("array(int64, 1d, C)", "none", ["optional"]),
    ("int64", "OptionalType(int64)", ["optional"]),
    ("UniTuple(int64 x 3)", "UniTuple(int64 x 2)", ["tuple_arity"]),
    ("Tuple(int64, float32, int8)", "UniTuple(int64 x 2)", ["tuple_arity"]),
    ("Q(int64 x 2)", "P(int64 x 2)", ["new_type"]),
    ("UniTuple(int64 x 2)", "P(int64 x 2)", ["new_type"]),
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


def _nearest(wanted: str, known: list[str], launches: dict[str, int] | None = None) -> str | None:
    index = SignatureIndex(launches)
    for each in known:
        index.add(each)
    return index.nearest(wanted)


MN = "Record(m[type=float32;offset=0],n[type=int32;offset=4];8;False)"
MNO = "Record(m[type=float32;offset=0],n[type=int32;offset=4],o[type=int8;offset=8];9;False)"
NM = "Record(n[type=int32;offset=0],m[type=float32;offset=4];8;False)"


@pytest.mark.parametrize(("wanted", "known", "nearest"), [
    # Another kind of type is further than all that two arrays can differ in.
    ("(array(float32, 1d, C), int64)", ["(int64, int64)", "(readonly array(float64, 2d, A), int64)", "(int8,)"],
     "(readonly array(float64, 2d, A), int64)"),
    ("(int64, int64)", ["(none, int64)", "(int32, int32)"], "(int32, int32)"),
    ("(UniTuple(int64 x 2),)", ["(int64,)", "(UniTuple(int64 x 3),)"], "(UniTuple(int64 x 3),)"),
    # Aspects, elements and fields count one each.
    ("(array(int8, 1d, C),)", ["(readonly array(int8, 1d, A),)", "(array(int16, 1d, C),)"], "(array(int16, 1d, C),)"),
    ("(array(int8, 1d, C), int8)", ["(array(int8, 2d, A), int8)", "(array(int8, 1d, A), int8)"],
     "(array(int8, 1d, A), int8)"),
    ("(Tuple(int8, int16),)", ["(UniTuple(int8 x 3),)", "(Tuple(int8, int32),)"], "(Tuple(int8, int32),)"),
    (f"({NM},)", [f"({MNO},)", f"({MN},)"], f"({MN},)"),
    (f"(array({NM}, 1d, C),)", ["(array(int8, 2d, C),)", f"(array({MNO}, 1d, C),)", f"(array({MN}, 1d, C),)"],
     f"(array({MN}, 1d, C),)"),
    # The earliest of equally near ones; the same one; other numbers of arguments.
    ("(int64,)", ["(int8,)", "(int16,)"], "(int8,)"),
    ("(int64,)", ["(int16,)", "(int64,)"], "(int64,)"),
    ("(int64,)", ["(int64, int64, int64)", "(int64, int64)", "(int64, int8)"], "(int64, int64)"),
    ("(int64, int8)", ["(int8,)", "(int64, int64)"], "(int64, int64)"),
    ("()", ["()"], "()"),
    ("(int64,)", [], None),
])
def test_the_nearest_signature(wanted: str, known: list[str], nearest: str | None) -> None:
    assert _nearest(wanted, known) == nearest


def test_of_equally_near_signatures_the_most_launched_is_the_nearest() -> None:
    known = ["(int8,)", "(int16,)", "(int32,)", "(none,)"]
    assert _nearest("(int64,)", known, {"(int16,)": 3, "(int32,)": 3, "(none,)": 9}) == "(int16,)"


@pytest.mark.parametrize(("one", "other", "count"), [
    (MN, MN, 0), (MN, NM, 1), (MN, MNO, 1), (NM, MNO, 2), (MN, MN.replace(";8;", ";16;"), 1),
    (MN, MN.replace("float32", "float64").replace("int32", "int64"), 2),
    ("readonly array(float64, 2d, A)", "array(float32, 1d, C)", 4), ("UniTuple(int8 x 3)", "Tuple(int8, int16)", 2),
    ("P(int64 x 2)", "Q(int64 x 2)", 1), ("int64", "float64", 1),
])
def test_the_number_of_things_in_which_types_differ(one: str, other: str, count: int) -> None:
    assert distance(one, other) == distance(other, one) == count


def test_many_signatures_are_found_among_many() -> None:
    known = [f"(array(float32, {at}d, C), int64, UniTuple(int64 x {at}))" for at in range(1, 40)]
    assert _nearest("(array(float64, 7d, C), int64, UniTuple(int64 x 7))", known) == known[6]
    index = SignatureIndex()
    for each in [*known, *known]:
        index.add(each)
    assert len(index) == 39
    assert known[3] in index
    assert "(int64,)" not in index


def test_the_nearest_launch_configuration() -> None:
    index = ShapeIndex()
    assert index.nearest(Shape("1", "32", 0)) is None
    for shape in (Shape("1", "32", 0), Shape("2", "64", 0), Shape("9", "(16, 16)", 64)):
        index.add(shape)
    index.add(Shape("1", "32", 0))
    assert len(index) == 3
    assert Shape("2", "64", 0) in index
    assert index.nearest(Shape("2", "32", 0)) == Shape("2", "64", 0), "the latest of two that differ in one"
    assert index.nearest(Shape("2", "64", 8)) == Shape("2", "64", 0)
    assert index.nearest(Shape("9", "32", 8)) == Shape("9", "(16, 16)", 64), "the grid is the same"
    assert index.nearest(Shape("7", "7", 7)) == Shape("9", "(16, 16)", 64)
    assert index.last(2) == [Shape("2", "64", 0), Shape("9", "(16, 16)", 64)]
    assert str(Shape("9", "(16, 16)", 4096)) == "[9, (16, 16), 4,096 B shared]"


@pytest.mark.parametrize(("text", "names"), [
    ("x, y, *rest", ("x", "y", "*rest")), ("x", ("x",)), ("", ()), (None, ()),
])
def test_names_are_read(text: str | None, names: tuple[str, ...]) -> None:
    assert argument_names(text) == names


def test_names_by_position() -> None:
    names = ("x", "*rest")
    assert [known_name(names, at) for at in range(4)] == ["x", "rest[0]", "rest[1]", "rest[2]"]
    assert known_name(("x",), 1) is None
    assert argument_name(("x",), 1) == "argument 1"
    assert named_arguments("(int64, float32)", ("x",)) == (("x", "int64"), ("argument 1", "float32"))


@pytest.mark.parametrize(("text", "short"), [
    ("array(float32, 1d, C)", "float32[:] C"),
    ("array(float64, 3d, A)", "float64[:, :, :] A"),
    ("readonly unaligned array(int8, 2d, F)", "int8[:, :] F readonly unaligned"),
    ("array(int8, 0d, C)", "int8[] C"),
    ("array(int8, 9d, C)", "int8[9d] C"),
    ("array(Record(a[type=int32;offset=0];4;False), 1d, C)", "Record(a[type=int32;offset=0];4;False)[:] C"),
    ("int64", "int64"),
    ("UniTuple(int64 x 2)", "UniTuple(int64 x 2)"),
    ("", ""),
])
def test_short_type(text: str, short: str) -> None:
    assert short_type(text) == short


def test_short_arguments() -> None:
    assert short_arguments((("x", "array(float32, 1d, C)"), ("n", "int64"))) == "x: float32[:] C, n: int64"
    assert short_arguments(()) == "no arguments"


def test_of_many_signatures_the_newest_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signatures, "MAX_COMPARED", 3)
    known = [f"(array(float32, {number}d, C), int64)" for number in range(1, 7)]
    assert _nearest("(array(float32, 1d, C), int32)", known) == known[3]
    assert _nearest("(array(float32, 5d, C), int32)", known) == known[4]
    assert _nearest(known[0], known) == known[0]
