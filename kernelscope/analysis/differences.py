"""How two signatures differ, argument by argument, in the terms of the reason codes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kernelscope.analysis.signatures import ArgumentType, parse_type, record_fields

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
        """The reason code: the worst aspect."""
        return self.aspects[0]

    @property
    def rank(self) -> int:
        """How bad it is, from 0."""
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
    aspects = _array_aspects(new, old) if new.kind == old.kind == "array" else (_code(new, old),)
    if aspects:
        found.append(Difference(position, path, aspects, new, old))


def _array_aspects(new: ArgumentType, old: ArgumentType) -> tuple[str, ...]:
    """In what two arrays differ; nothing where only their spelling does."""
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
    """Whether two record types have the same fields of the same types, wherever these stand in memory."""
    fields = record_fields(new)
    other = record_fields(old)
    return fields is not None and other is not None and list(fields.items()) == list(other.items())


def _count(arguments: int) -> ArgumentType:
    text = f"{arguments} argument{'' if arguments == 1 else 's'}"
    return ArgumentType(text, "other", text)
