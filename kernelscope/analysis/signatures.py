"""Signatures as numba prints them, read back: argument names, how two differ, and the nearest known one."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple, cast

import numpy as np

from kernelscope.analysis.columns import Ints, items, json_object, mapping


def argument_names(text: str | None) -> tuple[str, ...]:
    """Read a dispatcher's ``arguments``, such as ``x, y, *rest``, into names."""
    return tuple(part.strip() for part in text.split(",")) if text else ()


def named_arguments(signature: str, names: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Return each argument of a signature as its name and its type; one without a name is ``argument 2``."""
    types = parse_signature(signature)
    return tuple((argument_name(names, at), kind.text) for at, kind in enumerate(types))


def argument_name(names: tuple[str, ...], position: int) -> str:
    """Return the Python name of an argument; ``rest[1]`` for what ``*rest`` takes, ``argument 2`` where unknown."""
    return known_name(names, position) or f"argument {position}"


def known_name(names: tuple[str, ...], position: int) -> str | None:
    """Return the Python name of an argument; ``rest[1]`` for what ``*rest`` takes, None where unknown."""
    for at, name in enumerate(names):
        if name.startswith("*") and not name.startswith("**") and position >= at:
            return f"{name[1:]}[{position - at}]"
        if at == position:
            return name
    return None


# Signatures as numba prints them, read back into types that can be compared.
#
# Reading never fails: what is not understood becomes a type of kind ``other``, which equals only the same text.

_ARRAY = re.compile(
    r"^(?P<flags>(?:(?:readonly|unaligned) )*)array\((?P<dtype>.*), (?P<ndim>\d+)d, (?P<layout>[A-Z])\)$",
    re.DOTALL,
)
_ARRAY_REPR = re.compile(
    r"^Array\((?P<dtype>.*), (?P<ndim>\d+), '(?P<layout>[A-Z])', (?P<readonly>True|False)"
    r"(?:, aligned=(?P<aligned>True|False))?\)$",
    re.DOTALL,
)
_SCALAR = re.compile(
    r"^(?:u?int\d+|float\d+|bfloat16|complex\d+|bool(?:ean)?|(?:datetime|timedelta)64(?:\[\w*\])?)$")
_DECLARABLE = re.compile(r"^(?:u?int(?:8|16|32|64)|float(?:16|32|64)|complex(?:64|128)|boolean)$")
_CALL = re.compile(r"^(?P<name>[^\W\d]\w*)\((?P<inside>.*)\)$", re.DOTALL)
_REPEATED = re.compile(r"^(?P<item>.*) x (?P<count>\d{1,4})$", re.DOTALL)
_FIELD = re.compile(r"^(?P<name>.*?)\[type=(?P<type>.*);offset=(?P<offset>\d+)(?:;title=.*)?\]$", re.DOTALL)
_RECORD = re.compile(r"^Record\((?P<fields>.*);(?P<size>\d+);(?P<aligned>True|False)\)$", re.DOTALL)
# What matters for splitting at a separator: escaped characters, brackets, quotes and the separator.
_MARKS = {separator: re.compile(rf"\\.|[()\[\]{{}}'\"]|{separator}", re.DOTALL) for separator in (",", "->")}
_BRACKET = re.compile(r"[()\[\]{}]")
#: What looks like a named tuple and is none.
_NO_TUPLES = frozenset((
    "Array", "array", "Record", "OptionalType", "Optional", "omitted", "type", "class", "dtype", "Function", "List",
    "Set", "range_state", "nestedarray", "DType", "TypeRef", "typeref", "Poison", "undefined", "module", "recursive",
    "bytes", "bytearray", "memoryview",
))
_OPEN, _CLOSE = "([{", ")]}"


@dataclass(frozen=True)
class ArgumentType:
    """The type of one argument.

    Attributes
    ----------
    text : str
        As numba prints it.
    kind : str
        array, scalar, tuple, record, enum, none, optional, literal or other.
    dtype : str
        Of an array its elements' type, else the text.
    ndim : int
        Of an array its dimensions, else 0.
    layout : str
        Of an array C, F or A (any, strided), else empty.
    readonly, aligned : bool
        Of an array, whether it is read-only and whether its elements are aligned.
    name : str
        Of a named tuple its class, else empty.
    elements : tuple of str
        Of a tuple its elements' types.
    """

    text: str
    kind: str
    dtype: str
    ndim: int = 0
    layout: str = ""
    readonly: bool = False
    aligned: bool = True
    name: str = ""
    elements: tuple[str, ...] = ()

    @property
    def declaration(self) -> str | None:
        """Return the type as a signature in ``@cuda.jit`` spells it, such as ``float32[:, ::1]``, or None."""
        dtype = "boolean" if self.dtype == "bool" else self.dtype
        if not _DECLARABLE.match(dtype) or self.readonly or not self.aligned:
            return None
        if self.kind == "scalar":
            return dtype
        if self.kind != "array" or not self.ndim or (self.layout == "F" and self.ndim == 1):
            return None
        axes = [":"] * self.ndim
        if self.layout == "C":
            axes[-1] = "::1"
        elif self.layout == "F":
            axes[0] = "::1"
        return f"{dtype}[{', '.join(axes)}]"


@lru_cache(maxsize=4096)
def parse_signature(text: str) -> tuple[ArgumentType, ...]:
    """Read a signature such as ``(array(float32, 1d, C), int64)`` into its argument types."""
    inner = text.strip()
    if "->" in inner:
        returns = _top_level(inner, "->")
        if len(returns) == 2:
            inner = returns[0].strip()
    if inner.startswith("(") and _closes_at_end(inner):
        inner = inner[1:-1]
    return tuple(parse_type(part.strip()) for part in _top_level(inner, ",") if part.strip())


@lru_cache(maxsize=4096)
def parse_type(text: str) -> ArgumentType:
    """Read one type as numba prints it, by `str` or by `repr`."""
    found = _ARRAY.match(text)
    if found:
        flags = found["flags"].split()
        return ArgumentType(
            text, "array", found["dtype"], int(found["ndim"]), found["layout"],
            readonly="readonly" in flags, aligned="unaligned" not in flags,
        )
    found = _ARRAY_REPR.match(text)
    if found:
        return ArgumentType(
            text, "array", found["dtype"], int(found["ndim"]), found["layout"],
            readonly=found["readonly"] == "True", aligned=found["aligned"] != "False",
        )
    if _SCALAR.match(text):
        return ArgumentType(text, "scalar", text)
    return _tuple(text) or ArgumentType(text, _other_kind(text), text)


def record_fields(text: str) -> dict[str, str] | None:
    """Return a record type's fields and their types, in order; None where `text` is no record.

    Where they stand in memory, which is what a record's alignment decides, is left out. The dict is a shared one.
    """
    found = record_layout(text)
    return None if found is None else found.fields


class RecordLayout(NamedTuple):
    """A record type, read.

    Attributes
    ----------
    fields : dict
        Types by name, in order.
    offsets : tuple of int
        Where the fields begin, in bytes.
    size : int
        Bytes a record.
    aligned : bool
        Whether it is one of ``np.dtype(..., align=True)``.
    """

    fields: dict[str, str]
    offsets: tuple[int, ...]
    size: int
    aligned: bool


@lru_cache(maxsize=1024)
def record_layout(text: str) -> RecordLayout | None:
    """Return a record type with where its fields stand in memory; None where `text` is no record."""
    found = _RECORD.match(text)
    if found is None:
        return None
    fields: dict[str, str] = {}
    offsets: list[int] = []
    for part in _top_level(found["fields"], ","):
        field = _FIELD.match(part)
        if field is None:
            return None
        fields[field["name"]] = field["type"]
        offsets.append(int(field["offset"]))
    return RecordLayout(fields, tuple(offsets), int(found["size"]), found["aligned"] == "True")


def declaration(signature: str) -> str | None:
    """Return the signature as ``@cuda.jit`` takes it, such as ``void(float32[::1], int64)``; None where it cannot."""
    spelled: list[str] = []
    for kind in parse_signature(signature):
        text = kind.declaration
        if text is None:
            return None
        spelled.append(text)
    return f"void({', '.join(spelled)})"


def _tuple(text: str) -> ArgumentType | None:
    """Parse a tuple or named tuple, such as ``UniTuple(int64 x 2)`` or ``Point(int64, float32)``."""
    found = _CALL.match(text)
    if found is None or found["name"] in _NO_TUPLES or not _closes_at_end(text[len(found["name"]):]):
        return None
    name = "" if found["name"] in ("Tuple", "UniTuple") else found["name"]
    repeated = _REPEATED.match(found["inside"])
    if repeated and len(_top_level(found["inside"], ",")) == 1:
        elements = (repeated["item"],) * int(repeated["count"])
    else:
        elements = tuple(part.strip() for part in _top_level(found["inside"], ",") if part.strip())
    return ArgumentType(text, "tuple", text, name=name, elements=elements)


_KINDS = (("Record(", "record"), ("IntEnum<", "enum"), ("Enum<", "enum"), ("OptionalType(", "optional"),
          ("Optional(", "optional"), ("?", "optional"), ("Literal[", "literal"))


def _other_kind(text: str) -> str:
    if text in ("none", "NoneType"):
        return "none"
    return next((kind for beginning, kind in _KINDS if text.startswith(beginning)), "other")


def _top_level(text: str, separator: str) -> list[str]:
    """Split at a separator outside of brackets and quotes."""
    return _split(text, separator, quotes=True) or _split(text, separator, quotes=False) or [text]


def _split(text: str, separator: str, *, quotes: bool) -> list[str] | None:
    """Split, or return None where a quote is never closed: then it is an apostrophe."""
    parts: list[str] = []
    depth = begin = 0
    quote = ""
    for found in _MARKS[separator].finditer(text):
        mark = found[0]
        if quote:
            quote = "" if mark == quote else quote
        elif mark in "'\"":
            quote = mark if quotes else ""
        elif mark in _OPEN:
            depth += 1
        elif mark in _CLOSE:
            depth = max(depth - 1, 0)  # a literal's text may hold a lone bracket
        elif mark == separator and depth == 0:
            parts.append(text[begin:found.start()])
            begin = found.end()
    if quote:
        return None
    return [*parts, text[begin:]]


def _closes_at_end(text: str) -> bool:
    """Return whether the bracket that opens the text closes at its end."""
    depth = 0
    for found in _BRACKET.finditer(text):
        depth += 1 if found[0] in _OPEN else -1
        if depth == 0:
            return found.end() == len(text)
    return text.endswith(")")


# Numba's types as an inspector shows them.

def short_type(text: str) -> str:
    """Return one type in short; what is no array is returned as it is.

    Examples
    --------
    >>> short_type("readonly array(float32, 2d, A)")
    'float32[:, :] A readonly'
    """
    kind = parse_type(text)
    if kind.kind != "array":
        return text
    axes = ", ".join([":"] * kind.ndim) if kind.ndim <= 8 else f"{kind.ndim}d"
    flags = " readonly" * kind.readonly + " unaligned" * (not kind.aligned)
    return f"{kind.dtype}[{axes}] {kind.layout}{flags}"


def short_arguments(arguments: tuple[tuple[str, str], ...]) -> str:
    """Return named arguments, as `kernelscope.views.inspector.model` gives them, in one line.

    Such as ``x: float32[:] C, n: int64``.
    """
    return ", ".join(f"{name}: {short_type(kind)}" for name, kind in arguments) or "no arguments"


# How two signatures differ, argument by argument, in the terms of the reason codes.

#: Ways to differ, smallest first: the largest one of an argument is its code, the largest of all names the reason.
SEVERITY = (
    "new_alignment", "new_access", "new_layout", "new_scalar", "new_dtype", "new_dimensions", "literal", "optional",
    "tuple_arity", "new_type", "argument_count",
)
_RANK = {code: rank for rank, code in enumerate(SEVERITY)}


@dataclass(frozen=True)
class Difference:
    """How one argument, or one element of a tuple, differs from that of a known signature.

    Attributes
    ----------
    position : int
        Which argument, from 0; -1 where the signatures have different numbers of arguments.
    path : tuple of int
        Which element of it, where it is a tuple of as many elements: ``(1, 0)`` for ``x[1][0]``.
    aspects : tuple of str
        In what it differs, worst first: reason codes.
    wanted, known : ArgumentType
        Both types; for another number of arguments a type of kind other whose text says how many.
    """

    position: int
    path: tuple[int, ...]
    aspects: tuple[str, ...]
    wanted: ArgumentType
    known: ArgumentType

    @property
    def code(self) -> str:
        """Return the reason code: the worst aspect."""
        return self.aspects[0]

    @property
    def rank(self) -> int:
        """Return the severity, from 0."""
        return _RANK[self.aspects[0]]


def differences(wanted: Sequence[ArgumentType], known: Sequence[ArgumentType]) -> tuple[Difference, ...]:
    """Return how the arguments of two signatures differ, worst first, by position where they are as bad."""
    if len(wanted) != len(known):
        return (argument_count(len(wanted), len(known)),)
    found: list[Difference] = []
    for position, (new, old) in enumerate(zip(wanted, known, strict=True)):
        if new.text != old.text:
            _compare(found, position, (), new, old)
    found.sort(key=lambda each: (-each.rank, each.position, each.path))
    return tuple(found)


def argument_count(wanted: int, known: int) -> Difference:
    """Return the difference of two numbers of arguments."""
    return Difference(-1, (), ("argument_count",), _count(wanted), _count(known))


def _compare(
    found: list[Difference], position: int, path: tuple[int, ...], new: ArgumentType, old: ArgumentType
) -> None:
    if new.kind == old.kind == "tuple" and new.name == old.name and len(new.elements) == len(old.elements):
        for at, (inner, other) in enumerate(zip(new.elements, old.elements, strict=True)):
            if inner != other:
                _compare(found, position, (*path, at), parse_type(inner), parse_type(other))
        return
    aspects = array_aspects(new, old) if new.kind == old.kind == "array" else (_code(new, old),)
    if aspects:
        found.append(Difference(position, path, aspects, new, old))


def array_aspects(new: ArgumentType, old: ArgumentType) -> tuple[str, ...]:
    """Return the aspects in which two arrays differ; none where only their spelling does."""
    aspects: list[str] = []
    if new.ndim != old.ndim:
        aspects.append("new_dimensions")
    realigned = new.dtype != old.dtype and _same_fields(new.dtype, old.dtype)
    if new.dtype != old.dtype and not realigned:
        aspects.append("new_dtype")
    if new.layout != old.layout:
        aspects.append("new_layout")
    if new.readonly != old.readonly:
        aspects.append("new_access")
    # A packed record's arrays are unaligned by their dtype: with another dtype that tells nothing more.
    if realigned or (new.aligned != old.aligned and "new_dtype" not in aspects):
        aspects.append("new_alignment")
    return tuple(aspects)


def _code(new: ArgumentType, old: ArgumentType) -> str:
    kinds = (new.kind, old.kind)
    if kinds == ("scalar", "scalar"):
        return "new_scalar"
    if "none" in kinds or "optional" in kinds:
        return "optional"
    if "literal" in kinds:
        return "literal"
    if kinds == ("tuple", "tuple") and new.name == old.name:
        return "tuple_arity"
    if kinds == ("record", "record"):
        return "new_alignment" if _same_fields(new.text, old.text) else "new_dtype"
    return "new_type"


def _same_fields(new: str, old: str) -> bool:
    """Return whether two record types have the same fields and types, whatever their offsets."""
    fields = record_fields(new)
    other = record_fields(old)
    return fields is not None and other is not None and list(fields.items()) == list(other.items())


def _count(arguments: int) -> ArgumentType:
    text = f"{arguments} argument{'' if arguments == 1 else 's'}"
    return ArgumentType(text, "other", text)


# The nearest known signature and launch configuration, found in thousands without comparing each pair in Python.

#: So many differences are between types of two kinds, such as an array and a number: more than between two arrays.
_KIND = 6


@lru_cache(maxsize=1 << 16)
def distance(one: str, other: str) -> int:
    """Return in how many things two types differ, as numba prints them.

    Of arrays these are dimensions, dtype, layout, access and alignment; of tuples the number of elements and what
    differs in the elements; of records each field that is new, gone or of another type, the fields' order, and, where
    the fields are the same, where they stand in memory.
    """
    if one == other:
        return 0
    first, second = parse_type(one), parse_type(other)
    if first.kind != second.kind:
        return _KIND
    if first.kind == "tuple":
        shared = zip(first.elements, second.elements, strict=False)
        return (abs(len(first.elements) - len(second.elements)) + (first.name != second.name)
                + sum(distance(inner, outer) for inner, outer in shared))
    numbers = sum(was != present for was, present in zip(_features(first), _features(second), strict=True))
    records = record_layout(first.dtype), record_layout(second.dtype)
    if records[0] is None or records[1] is None or first.dtype == second.dtype:
        return numbers
    # A packed record's arrays are unaligned by their dtype.
    return numbers - 1 - (first.aligned != second.aligned) + _record_distance(records[0], records[1])


def _record_distance(one: RecordLayout, other: RecordLayout) -> int:
    names = {**one.fields, **other.fields}
    changed = sum(one.fields.get(name) != other.fields.get(name) for name in names)
    return (changed + is_reordered(one.fields, other.fields)) or 1


def is_reordered(one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    """Return whether the fields that two records share come in another order."""
    return [name for name in one if name in other] != [name for name in other if name in one]


#: So many signatures of a kernel are compared with a new one, so that many specializations cost no more each than few.
MAX_COMPARED = 2_048


class SignatureIndex:
    """The signatures that a kernel was compiled for, in order; asked for the nearest one of a new signature.

    Parameters
    ----------
    launches : mapping
        Number of launches of each signature in the recording.
    """

    def __init__(self, launches: Mapping[str, int] | None = None) -> None:
        self._launches = launches or {}
        self._texts: dict[str, None] = {}
        self._by_count: dict[int, _Group] = {}

    def __contains__(self, signature: str) -> bool:
        """Return whether the signature is known in this spelling."""
        return signature in self._texts

    def __len__(self) -> int:
        """Return the number of known entries."""
        return len(self._texts)

    def add(self, signature: str) -> None:
        """Take one in; one that is known already keeps its place."""
        if signature in self._texts:
            return
        self._texts[signature] = None
        types = parse_signature(signature)
        self._by_count.setdefault(len(types), _Group(len(types))).add(
            signature, types, self._launches.get(signature, 0))

    def nearest(self, signature: str) -> str | None:
        """Return the known signature with the fewest differences: see `distance`.

        Of signatures with as many arguments the `MAX_COMPARED` that were added last are compared. Of those that differ
        in as many things it is the one with the most launches, and of these the earliest. Where none has as many
        arguments it is one of those whose number is nearest; where none is known, None.
        """
        if signature in self._texts:
            return signature
        if not self._by_count:
            return None
        types = parse_signature(signature)
        count = min(self._by_count, key=lambda count: abs(count - len(types)))
        return self._by_count[count].nearest(types)


class _Group:
    """Signatures with the same number of arguments: which of its argument's known types each argument has."""

    def __init__(self, arguments: int) -> None:
        self._signatures: list[str] = []
        self._launches = np.empty(8, dtype=np.int64)
        self._numbers = np.empty((arguments, 8), dtype=np.int64)
        self._columns = [_Column() for _ in range(arguments)]

    def add(self, signature: str, types: Sequence[ArgumentType], launches: int) -> None:
        size = len(self._signatures)
        if size == len(self._launches):
            self._launches = np.concatenate((self._launches, np.empty_like(self._launches)))
            self._numbers = np.concatenate((self._numbers, np.empty_like(self._numbers)), axis=1)
        self._launches[size] = launches
        for argument, (column, kind) in enumerate(zip(self._columns, types, strict=True)):
            self._numbers[argument, size] = column.number(kind)
        self._signatures.append(signature)

    def nearest(self, types: Sequence[ArgumentType]) -> str:
        size = len(self._signatures)
        first = max(size - MAX_COMPARED, 0)
        total = np.zeros(size - first, dtype=np.int64)
        if len(types) == len(self._columns):
            for column, numbers, kind in zip(self._columns, self._numbers, types, strict=True):
                total += column.distances(kind, numbers[first:size])
        fewest = np.flatnonzero(total == total.min()) + first
        return self._signatures[int(fewest[np.argmax(self._launches[fewest])])]


class _Column:
    """The types that one argument had."""

    def __init__(self) -> None:
        self._texts: dict[str, int] = {}
        self._features = np.empty((8, _FEATURES + 1), dtype=np.int64)

    def number(self, kind: ArgumentType) -> int:
        """Return the number of a type, taken in at first sight."""
        number = self._texts.setdefault(kind.text, len(self._texts))
        if number == len(self._features):
            self._features = np.concatenate((self._features, np.empty_like(self._features)))
        self._features[number] = hash(kind.kind), *map(hash, _features(kind))
        return number

    def distances(self, kind: ArgumentType, numbers: Ints) -> Ints:
        """Return how far the types with these numbers are from another one."""
        distinct, inverse = np.unique(numbers, return_inverse=True)
        features = self._features[distinct]
        same_kind = features[:, 0] == hash(kind.kind)
        result = np.where(same_kind, (features[:, 1:] != [*map(hash, _features(kind))]).sum(axis=1), _KIND)
        if kind.kind == "tuple" or record_layout(kind.dtype) is not None:
            texts = [*self._texts]
            for index in np.flatnonzero(same_kind).tolist():
                result[index] = distance(kind.text, texts[distinct[index]])
        return result[inverse]


_FEATURES = 5


def _features(kind: ArgumentType) -> tuple[object, ...]:
    """Return what counts one each where two types of one kind that have no parts differ."""
    return kind.ndim, kind.dtype, kind.layout, kind.readonly, kind.aligned


class Shape(NamedTuple):
    """A launch configuration without its stream, which no specialization depends on.

    Attributes
    ----------
    griddim, blockdim : str
        Both as a launch spells them: ``4`` or ``(16, 16)``.
    sharedmem_bytes : int
        Dynamic shared memory a block.
    """

    griddim: str
    blockdim: str
    sharedmem_bytes: int

    def __str__(self) -> str:
        """Return the configuration as text, such as ``[4, (16, 16), 64 B shared]``."""
        shared = f", {self.sharedmem_bytes:,} B shared" if self.sharedmem_bytes else ""
        return f"[{self.griddim}, {self.blockdim}{shared}]"


def shape_of(griddim: Sequence[Any], blockdim: Sequence[Any], sharedmem_bytes: int) -> Shape:
    """Return a launch configuration as a launch spells it: ``(4, 1, 1)`` is ``4``."""
    return Shape(_spelled(griddim), _spelled(blockdim), sharedmem_bytes)


def noted_shape(value: object) -> Shape | None:
    """Return the shape of a launch configuration that was noted as JSON; None where it is not valid."""
    held = json_object(value) if isinstance(value, str) else mapping(value)
    grid, block = held.get("griddim"), held.get("blockdim")
    shared = held.get("sharedmem_bytes", held.get("sharedmem", 0))
    if not isinstance(grid, list) or not isinstance(block, list) or not isinstance(shared, int):
        return None
    return shape_of(items(cast("Any", grid)), items(cast("Any", block)), shared)


def _spelled(dims: Sequence[Any]) -> str:
    padded = [*dims, 1, 1, 1][:3]
    while len(padded) > 1 and padded[-1] == 1:
        padded.pop()
    return str(padded[0]) if len(padded) == 1 else f"({', '.join(str(each) for each in padded)})"


class ShapeIndex:
    """Launch configurations that one signature of a kernel was compiled for, in order."""

    def __init__(self) -> None:
        self._all: dict[Shape, int] = {}
        self._latest: dict[tuple[str | int | None, ...], Shape] = {}

    def __contains__(self, shape: Shape) -> bool:
        """Return whether the launch configuration is known."""
        return shape in self._all

    def __len__(self) -> int:
        """Return the number of known entries."""
        return len(self._all)

    def add(self, shape: Shape) -> None:
        """Take one in; one that is known already keeps its place."""
        if shape in self._all:
            return
        self._all[shape] = len(self._all)
        for part in _parts(shape):
            self._latest[part] = shape

    def nearest(self, shape: Shape) -> Shape | None:
        """Return the known one that differs in the fewest of grid, block and shared memory, the latest of these."""
        parts = _parts(shape)
        for same in (parts[:3], parts[3:6], parts[6:]):
            found = [self._latest[part] for part in same if part in self._latest]
            if found:
                return max(found, key=lambda each: self._all[each])
        return None

    def last(self, most: int) -> list[Shape]:
        """Return the latest few, in order."""
        return list(islice(reversed(self._all), most))[::-1]


def _parts(shape: Shape) -> tuple[tuple[str | int | None, ...], ...]:
    """Return the combinations of parts that two configurations can share, most parts first."""
    grid, block, shared = shape
    return ((None, block, shared), (grid, None, shared), (grid, block, None),
            (None, None, shared), (None, block, None), (grid, None, None), (None, None, None))
