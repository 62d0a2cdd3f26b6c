"""The one type of each argument that leaves a kernel one specialization, and what to convert to get there.

The type of an argument is chosen once for a whole recording, so that no two fixes of one kernel contradict each other.
Values are not recorded: of two types the one is taken whose range has the values of both. Of two that have as much,
such as two floats, it is that of a signature that was compiled before the recording, then of the one with the most
launches, then the one with more launches, then the first one. What cannot be passed at all, such as None, is never
chosen.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from kernelscope.analysis.signatures import ArgumentType, Difference, array_aspects, parse_type, record_fields

_Value = TypeVar("_Value")
#: Values in order of first appearance, each with its number of launches.
Counts = Sequence[tuple[_Value, int]]

_NUMBERS = ("array", "scalar", "enum")
_TEXT = re.compile(r"^\[(unichr|char) x (\d+)\]$")
_ENUM = re.compile(r"^(?:Int)?Enum<(.+)>\(")
_LITERAL = re.compile(r"^Literal\[(int|bool)\]")
_OPTIONAL = re.compile(r"^(?:Optional(?:Type)?\((?P<inside>.*)\)|\?(?P<type>.*))$", re.DOTALL)
_OMITTED = re.compile(r"^omitted\(default=(.*)\)$", re.DOTALL)
_INTEGER = re.compile(r"^(u?)int(\d+)$")
_PYTHON: Final = {bool: "bool", int: "int64", float: "float64", complex: "complex128"}


@dataclass(frozen=True)
class Conversion:
    """What to convert an argument to, or an element of a tuple, in every launch.

    Attributes
    ----------
    position : int
        Which argument, from 0.
    path : tuple of int
        Which element of it: see `kernelscope.analysis.signatures.Difference`.
    aspects : tuple of str
        What to convert: of an array, the reason codes of what is to be that of `target` (``new_dtype``,
        ``new_layout``...); else ``type``, the type as a whole.
    wanted, nearest, target : ArgumentType
        What the compile was for, what the specialization that it was compared with has, and what all launches can have.
    """

    position: int
    path: tuple[int, ...]
    aspects: tuple[str, ...]
    wanted: ArgumentType
    nearest: ArgumentType
    target: ArgumentType


def common_signature(signatures: Mapping[str, int], parse: Callable[[str], Sequence[ArgumentType]],
                     is_passable: Callable[[str], bool],
                     compiled_before: Container[str] = ()) -> tuple[ArgumentType | None, ...]:
    """Return the one type of each argument that every launch can pass, None where there is none.

    Parameters
    ----------
    signatures : mapping
        Signatures with as many arguments each, in order of first appearance, with their numbers of launches.
    parse : callable
        Returns a signature's types.
    is_passable : callable
        Returns whether a launch takes an argument of a type.
    compiled_before : container of str, optional
        Signatures that were compiled before the recording: where several would do, one of these needs no compile.
    """
    columns: list[dict[str, int]] = []
    main = max(signatures, key=lambda signature: (signature in compiled_before, signatures[signature]), default=None)
    outweighing = sum(signatures.values()) + 1
    for signature, launches in signatures.items():
        types = parse(signature)
        weight = launches + outweighing * (signature == main)
        columns = columns or [{} for _ in types]
        for column, kind in zip(columns, types, strict=True):
            column[kind.text] = column.get(kind.text, 0) + weight
    return tuple(_passable(column, is_passable) for column in columns)


def _passable(column: Mapping[str, int], is_passable: Callable[[str], bool]) -> ArgumentType | None:
    if len(column) == 1:
        return parse_type(next(iter(column)))
    return common_type([(parse_type(text), launches) for text, launches in column.items() if is_passable(text)])


def common_type(types: Counts[ArgumentType]) -> ArgumentType | None:
    """Return the type that the values of all these types can be passed as, or None."""
    if len({kind.text for kind, _ in types}) == 1:
        return types[0][0]
    plain = [(kind, launches) for kind, launches in ((_plain(kind), launches) for kind, launches in types)
             if kind is not None]
    if not plain:
        return None
    group = most([(_group(kind), launches) for kind, launches in plain])
    plain = [(kind, launches) for kind, launches in plain if _group(kind) == group]
    if len({kind.text for kind, _ in plain}) == 1:
        kind = plain[0][0]
        # What is converted, such as a number to an array, comes out contiguous, writable and aligned.
        return kind if kind.kind != "array" or len(types) == 1 else _array(plain)
    if group == "tuple":
        return _tuple(plain)
    if group != "number":
        dtype = common_dtype([(kind.dtype, launches) for kind, launches in plain])
        return next(kind for kind, _ in plain if kind.dtype == dtype)
    if any(kind.kind == "array" for kind, _ in plain):
        return _array(plain)
    return parse_type(common_dtype([(_value_type(kind), launches) for kind, launches in plain]))


def most(values: Counts[_Value]) -> _Value:
    """Return the value with the most launches, the first one of these."""
    launches: dict[_Value, int] = {}
    for value, count in values:
        launches[value] = launches.get(value, 0) + count
    return max(launches, key=lambda value: launches[value])


def _group(kind: ArgumentType) -> str:
    """Return which types a value can be converted between: numbers, tuples, records, or this type alone."""
    return "number" if kind.kind in _NUMBERS else kind.kind if kind.kind in ("tuple", "record") else kind.text


def _plain(kind: ArgumentType) -> ArgumentType | None:
    """Return the type without that it is optional, omitted, or of one value; None where nothing is left of it."""
    if kind.kind == "none":
        return None
    if kind.kind == "literal":
        found = _LITERAL.match(kind.text)
        return None if found is None else parse_type({"int": "int64", "bool": "bool"}[found[1]])
    if kind.kind == "optional":
        found = _OPTIONAL.match(kind.text)
        return kind if found is None else parse_type(found["inside"] or found["type"])
    if (found := _OMITTED.match(kind.text)) is not None:
        try:
            default: Any = ast.literal_eval(found[1])
        except (ValueError, SyntaxError):
            return None
        return None if type(default) not in _PYTHON else parse_type(_PYTHON[type(default)])
    return kind


def _value_type(kind: ArgumentType) -> str:
    """Return a number's type, of an enum's member that of its value."""
    found = _ENUM.match(kind.text) if kind.kind == "enum" else None
    return kind.dtype if found is None else found[1]


def _array(types: Counts[ArgumentType]) -> ArgumentType:
    """Return the array that numbers and arrays of several types can be passed as: writable and aligned."""
    arrays = [(kind, launches) for kind, launches in types if kind.kind == "array"]
    dtype = common_dtype([(_value_type(kind), launches) for kind, launches in types])
    dims = {kind.ndim for kind, _ in arrays}
    ndim = dims.pop() if len(dims) == 1 else max(min(dims), 1)
    contiguous = [(kind.layout, launches) for kind, launches in arrays if kind.layout != "A"]
    layout = most(contiguous) if contiguous and ndim > 1 and not dims else "C"
    same = [kind for kind, _ in arrays if kind.dtype == dtype]
    # Arrays of packed records are unaligned by their dtype.
    packed = record_fields(dtype) is not None and bool(same) and not same[0].aligned
    return parse_type(f"{'unaligned ' * packed}array({dtype}, {ndim}d, {layout})")


def _tuple(types: Counts[ArgumentType]) -> ArgumentType | None:
    """Return the tuple whose elements are common types; without a class, with as many elements as the longest one."""
    name = most([(kind.name, launches) for kind, launches in types])
    alike = [(len(kind.elements), launches) for kind, launches in types if kind.name == name]
    size = most(alike) if name else max(count for count, _ in alike)
    elements: list[str] = []
    for at in range(size):
        element = common_type([(parse_type(kind.elements[at]), launches) for kind, launches in types
                               if at < len(kind.elements)])
        if element is None:
            return None
        elements.append(element.text)
    if elements and len(set(elements)) == 1:
        return parse_type(f"{name or 'UniTuple'}({elements[0]} x {size})")
    return parse_type(f"{name or 'Tuple'}({', '.join(elements)})")


def common_dtype(dtypes: Counts[str]) -> str:
    """Return the dtype that holds the values of all; of those that hold as much, the one with the most launches."""
    texts = [_TEXT.match(dtype) for dtype, _ in dtypes]
    if all(texts):
        longest = max(int(found[2]) for found in texts if found)
        kind = "unichr" if any(found and found[1] == "unichr" for found in texts) else "char"
        return f"[{kind} x {longest}]"
    if all(is_number(dtype) for dtype, _ in dtypes):
        complexes = [(dtype, launches) for dtype, launches in dtypes if dtype.startswith("complex")]
        if complexes:
            return most(complexes)
        return _integer(dtypes) if all(_range(dtype) is not None for dtype, _ in dtypes) else _float(dtypes)
    if all(record_fields(dtype) is not None for dtype, _ in dtypes):
        return _record(dtypes)
    return most(dtypes)


def is_number(dtype: str) -> bool:
    """Return whether a dtype is of numbers or truth values."""
    return dtype.startswith(("complex", "float", "bfloat")) or _range(dtype) is not None


def _float(dtypes: Counts[str]) -> str:
    """Return a float type whose range has all values: float16 ends at 65504."""
    wide = [(dtype, launches) for dtype, launches in dtypes if dtype.startswith("float") and dtype != "float16"]
    if wide:
        return most(wide)
    if any(dtype == "bfloat16" for dtype, _ in dtypes):
        return "bfloat16"
    bounds = [found for dtype, _ in dtypes if (found := _range(dtype)) is not None]
    return "float32" if any(low < -65504 or high > 65504 for low, high in bounds) else "float16"


def _integer(dtypes: Counts[str]) -> str:
    """Return an integer type whose range has all values; int64 where none has, which is what a Python int is."""
    bounds = [found for dtype, _ in dtypes if (found := _range(dtype)) is not None]
    low, high = min(bound[0] for bound in bounds), max(bound[1] for bound in bounds)
    for dtype in (*dict.fromkeys(dtype for dtype, _ in dtypes), "int16", "int32", "int64"):
        found = _range(dtype)
        if found is not None and found[0] <= low and high <= found[1]:
            return dtype
    return "int64"


def _range(dtype: str) -> tuple[int, int] | None:
    """Return the least and the greatest integer of a type; None where it is no integer type."""
    if dtype in ("bool", "boolean"):
        return 0, 1
    found = _INTEGER.match(dtype)
    if found is None:
        return None
    bits = int(found[2])
    return (0, 2**bits - 1) if found[1] else (-2**(bits - 1), 2**(bits - 1) - 1)


def _record(dtypes: Counts[str]) -> str:
    """Return the record type that has every field, of which the others have as wide types; else the most launched."""
    fields = {dtype: record_fields(dtype) or {} for dtype, _ in dtypes}
    names = {name for each in fields.values() for name in each}
    full = [(dtype, launches) for dtype, launches in dtypes if fields[dtype].keys() == names]
    holding = [(dtype, launches) for dtype, launches in full if all(
        common_dtype([(kind, 1), (fields[dtype][name], 1)]) == fields[dtype][name]
        for each in fields.values() for name, kind in each.items())]
    return most(holding or full or dtypes)


def holds(target: str, dtype: str) -> bool:
    """Return whether a dtype has every value of another one exactly."""
    if target == dtype:
        return True
    texts = _TEXT.match(target), _TEXT.match(dtype)
    if texts[0] and texts[1]:
        return int(texts[0][2]) >= int(texts[1][2])
    fields, others = record_fields(target), record_fields(dtype)
    if fields is not None and others is not None:
        return all(name in fields and holds(fields[name], kind) for name, kind in others.items())
    bounds, other = _range(target), _range(dtype)
    if other is None:
        kinds = [re.match(r"^(float|complex)(\d+)$", each) for each in (target, dtype)]
        if kinds[0] is None or kinds[1] is None:
            return False
        bits = [int(kind[2]) // (2 if kind[1] == "complex" else 1) for kind in kinds if kind is not None]
        return bits[0] >= bits[1] and (kinds[0][1], kinds[1][1]) != ("float", "complex")
    if bounds is not None:
        return bounds[0] <= other[0] and other[1] <= bounds[1]
    digits = {"float16": 11, "bfloat16": 8, "float32": 24, "complex64": 24, "float64": 53, "complex128": 53}.get(target)
    return digits is not None and other[1] <= 2**digits


def conversions(wanted: Sequence[ArgumentType], nearest: Sequence[ArgumentType],
                common: Sequence[ArgumentType | None], differences: Iterable[Difference]) -> tuple[Conversion, ...]:
    """Return what to convert so that a launch has the common types, the arguments of `differences` first.

    An argument is in it that has another type than the nearest signature, even if it is the common one and the other
    launches are to change; and one that has not the common type.
    """
    found: list[Conversion] = []
    for position, (new, old, target) in enumerate(zip(wanted, nearest, common, strict=True)):
        if target is not None:
            _convert(found, position, (), new, old, target)
    order = list(dict.fromkeys((each.position, each.path) for each in differences))
    ranks = {at: rank for rank, at in enumerate(order)}
    return tuple(sorted(found, key=lambda each: (ranks.get((each.position, each.path), len(ranks)), each.position,
                                                 each.path)))


def _convert(found: list[Conversion], position: int, path: tuple[int, ...], new: ArgumentType, old: ArgumentType,
             target: ArgumentType) -> None:
    if new.text == old.text == target.text:
        return
    if new.kind == old.kind == target.kind == "tuple" and len({(each.name, len(each.elements)) for each in (
            new, old, target)}) == 1:
        for at, inner in enumerate(zip(new.elements, old.elements, target.elements, strict=True)):
            _convert(found, position, (*path, at), *map(parse_type, inner))
        return
    aspects: tuple[str, ...] = ("type",)
    if new.kind == old.kind == target.kind == "array":
        aspects = tuple(dict.fromkeys((*array_aspects(new, old), *array_aspects(new, target))))
    if aspects:
        found.append(Conversion(position, path, aspects, new, old, target))
