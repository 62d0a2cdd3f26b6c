from __future__ import annotations

from typing import Any

import pytest

from kernelscope.recording.parquet import BINARY, BOOL, I16, I32, I64, read_struct

FIELDS: dict[int, Any] = {1: I32, 2: I64, 3: BINARY, 4: BOOL, 5: [I32], 6: {1: BOOL}, 7: I16, 8: [{}], 9: b"\x11\0",
                          10: [b"\x11\0"], 11: [BINARY], 15: BOOL}


@pytest.mark.parametrize(("data", "found"), [
    ("00", {}),
    ("15 01 00", {1: -1}),
    ("15 fe ff ff ff 0f 00", {1: 2**31 - 1}),
    ("26 ff ff ff ff ff ff ff ff ff 01 00", {2: -(2**63)}),
    ("38 03 61 62 63 00", {3: b"abc"}),
    ("41 00", {4: True}),
    ("42 00", {4: False}),
    ("59 35 02 04 06 00", {5: [1, 2, 3]}),
    ("59 f5 0f" + "02" * 15 + "00", {5: [1] * 15}),
    ("6c 11 00 00", {6: {1: True}}),
    ("74 03 00", {7: -2}),
    ("89 2c 00 00 00", {8: [{}, {}]}),
    ("15 02 e2 00", {1: 1, 15: False}),
    ("9c 11 00 00", {9: b"\x11\0"}),
    ("a9 2c 11 00 11 00 00", {10: [b"\x11\0"] * 2}),
    ("a9 0c 00", {10: []}),
    ("b9 28 01 61 00 00", {11: [b"a", b""]}),
    ("59 25 80 01 02 00", {5: [64, 1]}),
])
def test_values_are_read(data: str, found: dict[int, Any]) -> None:
    raw = bytes.fromhex(data)
    assert read_struct(raw, 0, FIELDS) == (found, len(raw))
    assert read_struct(memoryview(b"\xff" + raw + b"\xff"), 1, FIELDS) == (found, len(raw) + 1)
    for size in range(len(raw)):
        with pytest.raises((IndexError, ValueError)):
            read_struct(raw[:size], 0, FIELDS)


@pytest.mark.parametrize("data", [
    "c5 02 00",  # field 12
    "16 02 00",  # an i64 where an i32 is expected
    "15 02 05 02 02 00",  # the long form: field 1 again
    "15 80 80 80 80 10 00",  # 33 bits
    "15 80 80 80 80 80 00 00",  # more bytes than any i32
    "26 80 80 80 80 80 80 80 80 80 02 00",  # 65 bits
    "38 80 80 80 80 80 00 00",  # a text's length
    "59 36 02 02 02 00",  # a list of i64
    "58 00 00",  # no list
    "59 f5 ff ff ff ff 0f 00",  # 4 billion elements
    "65 02 00",  # no struct
    "45 02 00",  # no bool
    "89 fc ff ff ff ff 0f 00",  # 4 billion empty structs
    "9c 12 00 00",  # another struct than the one that can be
    "9c 11 11 00",  # the same and more
    "95 02 00",  # a number in its place
    "a9 2c 11 00 12 00 00",  # another struct in a list
    "a9 25 02 02 00",  # numbers in its place
    "a9 fc ff ff ff ff 0f 00",  # 4 billion of them
    "59 22 02 02 00",  # a list of bools
    "b9 26 02 02 00",  # numbers in the place of text
])
def test_anything_else_is_refused(data: str) -> None:
    with pytest.raises((IndexError, ValueError)):
        read_struct(bytes.fromhex(data), 0, FIELDS)
