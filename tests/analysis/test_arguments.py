from __future__ import annotations

import pytest

from kernelscope.analysis.signatures import argument_name, argument_names, known_name, named_arguments


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
