"""Signatures as numba prints them, read back into types that can be compared.

Reading never fails: what is not understood becomes a type of kind ``other``, which equals only the same text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
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
_SCALAR = re.compile(r"^(?:u?int\d+|float\d+|bfloat16|complex\d+|bool(?:ean)?)$")
_DECLARABLE = re.compile(r"^(?:u?int(?:8|16|32|64)|float(?:16|32|64)|complex(?:64|128)|boolean)$")
_OPEN, _CLOSE = "([{", ")]}"


@dataclass(frozen=True)
class ArgumentType:
    """The type of one argument.

    Attributes
    ----------
    text : str
        As numba prints it.
    kind : str
        array, scalar or other.
    dtype : str
        Of an array its elements' type, else the text.
    ndim : int
        Of an array its dimensions, else 0.
    layout : str
        Of an array C, F or A (any, strided), else empty.
    readonly, aligned : bool
        Of an array, whether it is read-only and whether its elements are aligned.
    """

    text: str
    kind: str
    dtype: str
    ndim: int = 0
    layout: str = ""
    readonly: bool = False
    aligned: bool = True

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


@dataclass(frozen=True)
class Difference:
    """How one argument differs from that of a known signature.

    Attributes
    ----------
    position : int
        Which argument, from 0; -1 where the signatures have different numbers of arguments.
    code : str
        new_layout, new_dtype, new_dimensions or new_type: the reason code.
    wanted, known : str
        Both types as text; for another number of arguments, both signatures.
    """

    position: int
    code: str
    wanted: str
    known: str


#: Ways to differ, smallest first: the largest one of a signature names the reason.
SEVERITY = ("new_layout", "new_dtype", "new_dimensions", "new_type")


@lru_cache(maxsize=4096)
def parse_signature(text: str) -> tuple[ArgumentType, ...]:
    """Read a signature such as ``(array(float32, 1d, C), int64)`` into its argument types."""
    inner = text.strip()
    returns = _top_level(inner, "->")
    if len(returns) == 2:
        inner = returns[0].strip()
    if inner.startswith("(") and _closes_at_end(inner):
        inner = inner[1:-1]
    return tuple(parse_type(part.strip()) for part in _top_level(inner, ",") if part.strip())


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
    return ArgumentType(text, "scalar" if _SCALAR.match(text) else "other", text)


def declaration(signature: str) -> str | None:
    """Return the signature as ``@cuda.jit`` takes it, such as ``void(float32[::1], int64)``; None where it cannot."""
    spelled: list[str] = []
    for kind in parse_signature(signature):
        text = kind.declaration
        if text is None:
            return None
        spelled.append(text)
    return f"void({', '.join(spelled)})"


def nearest(signature: str, known: Iterable[str]) -> tuple[str, tuple[Difference, ...]] | None:
    """Return the known signature that differs least, and how it differs; None where none is known.

    Of two that differ as little, the later one wins.
    """
    best: tuple[tuple[int, int], str, tuple[Difference, ...]] | None = None
    wanted = parse_signature(signature)
    for candidate in known:
        found = differences(wanted, parse_signature(candidate))
        cost = (sum(SEVERITY.index(each.code) + 1 for each in found), len(found))
        if best is None or cost <= best[0]:
            best = (cost, candidate, found)
    return None if best is None else (best[1], best[2])


def differences(wanted: Sequence[ArgumentType], known: Sequence[ArgumentType]) -> tuple[Difference, ...]:
    """Return how the arguments of two signatures differ, by position."""
    if len(wanted) != len(known):
        return (Difference(-1, "new_type", _count(len(wanted)), _count(len(known))),)
    return tuple(
        Difference(position, _code(new, old), new.text, old.text)
        for position, (new, old) in enumerate(zip(wanted, known, strict=True))
        if new.text != old.text
    )


def _code(wanted: ArgumentType, known: ArgumentType) -> str:
    if wanted.kind == known.kind == "array":
        if wanted.ndim != known.ndim:
            return "new_dimensions"
        return "new_dtype" if wanted.dtype != known.dtype else "new_layout"
    if wanted.kind == known.kind == "scalar":
        return "new_dtype"
    return "new_type"


def _count(arguments: int) -> str:
    return f"{arguments} argument{'' if arguments == 1 else 's'}"


def _top_level(text: str, separator: str) -> list[str]:
    """Split at a separator that stands in no bracket and no quotes."""
    return _split(text, separator, quotes=True) or _split(text, separator, quotes=False) or [text]


def _split(text: str, separator: str, *, quotes: bool) -> list[str] | None:
    """Split, or return None where a quote is never closed: then it is an apostrophe."""
    parts: list[str] = []
    depth = begin = at = 0
    quote = ""
    while at < len(text):
        char = text[at]
        if quote:
            if char == "\\":
                at += 1
            elif char == quote:
                quote = ""
        elif quotes and char in "'\"":
            quote = char
        elif depth == 0 and text.startswith(separator, at):
            parts.append(text[begin:at])
            at += len(separator)
            begin = at
            continue
        elif char in _OPEN:
            depth += 1
        elif char in _CLOSE:
            depth = max(depth - 1, 0)  # a literal's text may hold a lone bracket
        at += 1
    if quote:
        return None
    return [*parts, text[begin:]]


def _closes_at_end(text: str) -> bool:
    """Whether the bracket that opens the text closes at its end."""
    depth = 0
    for at, char in enumerate(text):
        depth += (char in _OPEN) - (char in _CLOSE)
        if depth == 0:
            return at == len(text) - 1
    return text.endswith(")")
