"""Signatures as numba prints them, read back into types that can be compared.

Reading never fails: what is not understood becomes a type of kind ``other``, which equals only the same text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

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
_FIELD = re.compile(r"^(?P<name>.*?)\[type=(?P<type>.*);offset=\d+(?:;title=.*)?\]$", re.DOTALL)
_RECORD = re.compile(r"^Record\((?P<fields>.*);\d+;(?:True|False)\)$", re.DOTALL)
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
        """The type as a signature in ``@cuda.jit`` spells it, such as ``float32[:, ::1]``, or None."""
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


@lru_cache(maxsize=1024)
def record_fields(text: str) -> dict[str, str] | None:
    """Return a record type's fields and their types, in order; None where `text` is no record.

    Where they stand in memory, which is what a record's alignment decides, is left out. The dict is a shared one.
    """
    found = _RECORD.match(text)
    if found is None:
        return None
    fields: dict[str, str] = {}
    for part in _top_level(found["fields"], ","):
        field = _FIELD.match(part)
        if field is None:
            return None
        fields[field["name"]] = field["type"]
    return fields


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
    """A tuple, a named one included: ``UniTuple(int64 x 2)``, ``Tuple(int64, float32)``, ``Point(int64 x 2)``."""
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
    """Split at a separator that stands in no bracket and no quotes."""
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
    """Whether the bracket that opens the text closes at its end."""
    depth = 0
    for found in _BRACKET.finditer(text):
        depth += 1 if found[0] in _OPEN else -1
        if depth == 0:
            return found.end() == len(text)
    return text.endswith(")")
