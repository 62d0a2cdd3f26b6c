"""Neutral names, and numba's types with neutral names in the place of a user's."""

from __future__ import annotations

import re

# A digit first is a number, a dimension such as 2d, or an address.
_TOKEN = re.compile(r"\w+")
_NUMBER = re.compile(r"\d+d?|0x[0-9a-f]+|\d+e\d+")
_NUMERIC = re.compile(r"(?:u?int|float|complex|bfloat|bool|fp)\d*(?:_\d+|_?e\dm\d(?:fn|fnuz|fnu)?)?"
                      r"|[<>|=]?[iufcbSUV]\d+")
_WORDS = frozenset(_TOKEN.findall(
    "array Array readonly unaligned mutable aligned boolean bool none None void x C F A True False nestedarray "
    "UniTuple Tuple NamedTuple NamedUniTuple StarArgTuple StarArgUniTuple Record type offset Optional OptionalType "
    "omitted default Literal LiteralStrKey int str float complex unicode_type bytes undefined pyobject "
    "IntEnumMember EnumMember IntEnumClass EnumClass Enum class function CUDADispatcher Dispatcher type at Function "
    "Module RawPointer CPointer voidptr uintp intp size_t DType dtype slice range_state_int32 range_state_int64 "
    "range_iter_int32 range_iter_int64 datetime64 timedelta64 NPDatetime NPTimedelta ns us ms s m h D W M Y "
    "List Set Dict reflected list set dict DictType ListType cuda dim3 Dim3 grid_group GridGroup random "
    "xoroshiro128p_type xoroshiro128p curand"))


class Names:
    """Neutral names that stay distinct: the same text of the same kind gets the same name, ``kernel_1`` and on."""

    def __init__(self) -> None:
        self._held: dict[str, dict[str, str]] = {}
        self._counted: dict[str, int] = {}

    def of(self, kind: str, text: str) -> str:
        """Return the name that stands for a text."""
        held = self._held.setdefault(kind, {})
        if text not in held:
            self._counted[kind] = self._counted.get(kind, 0) + 1
            held[text] = f"{kind}_{self._counted[kind]}"
        return held[text]

    def same(self, kind: str, text: str, name: str) -> None:
        """Let a text of this kind have a name that another kind gave; the first one stays."""
        self._held.setdefault(kind, {}).setdefault(text, name)


def neutral_types(names: Names, text: str) -> str:
    """Return a signature in which record fields, enumerations, functions and strings have neutral names.

    Numbers stay, those of literal types included.
    """

    def neutral(found: re.Match[str]) -> str:
        token = found.group()
        if token in _WORDS or _NUMBER.fullmatch(token) or _NUMERIC.fullmatch(token):
            return token
        return names.of("name", token)

    return _TOKEN.sub(neutral, text)
