from __future__ import annotations

import pytest

from kernelscope.analysis.signatures import Shape, ShapeIndex, SignatureIndex


def _nearest(wanted: str, known: list[str]) -> str | None:
    index = SignatureIndex()
    for each in known:
        index.add(each)
    return index.nearest(wanted)


@pytest.mark.parametrize(("wanted", "known", "nearest"), [
    # The slightest way to differ, worst ones last.
    ("(array(float32, 1d, C), int64)",
     ["(int64, int64)", "(array(float32, 2d, C), int64)", "(array(float64, 1d, C), int64)", "(int8,)"],
     "(array(float64, 1d, C), int64)"),
    ("(array(int8, 1d, C),)", ["(array(int8, 1d, A),)", "(readonly array(int8, 1d, C),)", "(array(int16, 1d, C),)"],
     "(readonly array(int8, 1d, C),)"),
    ("(UniTuple(int64 x 2),)", ["(int64,)", "(UniTuple(int64 x 3),)"], "(UniTuple(int64 x 3),)"),
    # One argument that differs altogether is nearer than two that differ a little.
    ("(int64, int64)", ["(int32, int32)", "(none, int64)"], "(none, int64)"),
    # The latest of equally near ones; the same one; other numbers of arguments.
    ("(int64,)", ["(int8,)", "(int16,)"], "(int16,)"),
    ("(int64,)", ["(int64,)", "(int16,)"], "(int64,)"),
    ("(int64,)", ["(int64, int64)", "(int64, int8)"], "(int64, int8)"),
    ("(int64, int8)", ["(int64, int64)", "(int8,)"], "(int64, int64)"),
    ("()", ["()"], "()"),
    ("(int64,)", [], None),
])
def test_the_nearest_signature(wanted: str, known: list[str], nearest: str | None) -> None:
    assert _nearest(wanted, known) == nearest


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
