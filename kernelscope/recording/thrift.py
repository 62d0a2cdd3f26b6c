"""Structs of Thrift's compact protocol, read by what they may contain.

Parquet's footers and page headers are such structs. pyarrow reads them too, but ends the process where some of their
values are out of range, so a footer from a file is read here before it is given to pyarrow. Fields that are not
expected are an error: what no one looks for cannot mean one thing here and another there.
"""

from __future__ import annotations

from typing import Any

# A field that is expected is one of these types, a dict for a struct of such fields by number, or a list of the one
# type of its elements. The numbers are those of the protocol; a bool's value is in its type, 1 or 2.
BOOL, I16, I32, I64, BINARY = 1, 4, 5, 6, 8

_FALSE, _LIST, _STRUCT = 2, 9, 12
_BITS = {I16: 16, I32: 32, I64: 64}


def read_struct(data: memoryview | bytes, place: int, fields: dict[int, Any]) -> tuple[dict[int, Any], int]:
    """Return the struct at `place` as values by field number, and where it ends.

    Parameters
    ----------
    data : memoryview or bytes
        Where it is.
    place : int
        At which byte it begins.
    fields : dict
        What it may contain: for each field number a type, a dict of fields, or a list of one of these.

    Raises
    ------
    ValueError
        It contains something else, a field twice, or an integer that is out of range.
    IndexError
        It does not end within `data`.
    """
    found: dict[int, Any] = {}
    field = 0
    while True:
        head = data[place]
        place += 1
        if not head:
            return found, place
        # The long form, with the field's number after the type, is never needed for so few fields; without it the
        # numbers can only rise.
        step, kind = head >> 4, head & 15
        field += step
        expected = fields.get(field)
        if not step or expected is None:
            raise ValueError(f"field {field} is not expected")
        if expected == BOOL:
            if kind not in (BOOL, _FALSE):
                raise ValueError(f"field {field} is not a bool")
            found[field] = kind == BOOL
        else:
            found[field], place = _value(data, place, kind, expected)


def _value(data: memoryview | bytes, place: int, kind: int, expected: Any) -> tuple[Any, int]:
    if isinstance(expected, int):
        if kind != expected:
            raise ValueError(f"a value of type {kind}, not {expected}")
        if kind != BINARY:
            return _integer(data, place, _BITS[kind])
        size, place = _varint(data, place, 32)
        if place + size > len(data):
            raise IndexError(f"{size} bytes of text at byte {place}")
        return bytes(data[place : place + size]), place + size
    if isinstance(expected, dict):
        if kind != _STRUCT:
            raise ValueError(f"a value of type {kind}, not a struct")
        return read_struct(data, place, expected)
    if kind != _LIST:
        raise ValueError(f"a value of type {kind}, not a list")
    return _list(data, place, expected[0])


def _list(data: memoryview | bytes, place: int, expected: Any) -> tuple[list[Any], int]:
    head = data[place]
    place += 1
    size, kind = head >> 4, head & 15
    if size == 15:
        size, place = _varint(data, place, 32)
    # An element has a byte at least.
    if size > len(data) - place:
        raise IndexError(f"a list of {size} at byte {place}")
    found: list[Any] = []
    for _ in range(size):
        element, place = _value(data, place, kind, expected)
        found.append(element)
    return found, place


def _integer(data: memoryview | bytes, place: int, bits: int) -> tuple[int, int]:
    value, place = _varint(data, place, bits)
    return (value >> 1) ^ -(value & 1), place


def _varint(data: memoryview | bytes, place: int, bits: int) -> tuple[int, int]:
    """Read an unsigned integer of at most `bits` bits."""
    value = shift = 0
    while True:
        byte = data[place]
        place += 1
        value |= (byte & 127) << shift
        if byte < 128:
            break
        shift += 7
        if shift >= bits:
            raise ValueError("an integer is too long")
    if value >> bits:
        raise ValueError("an integer is too large")
    return value, place
