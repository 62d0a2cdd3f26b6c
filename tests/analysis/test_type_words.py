from __future__ import annotations

import pytest

from kernelscope.analysis.signatures import short_arguments, short_type


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
