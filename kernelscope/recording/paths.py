"""Paths of names, as of ranges and operators inside each other: numbered, and short as text however deep they are."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field

#: Between the names of a path.
SEPARATOR = " / "
#: Of a path of more names the first and the last are named: in full, the paths of things inside each other have as many
#: names as the square of their number.
MOST_NAMES = 32
_FIRST_NAMES = MOST_NAMES // 2
#: What stands between them.
LEFT_OUT = re.compile(r"\([\d,]+ more\)")

_NO_KEY = bytes(16)


@dataclass(frozen=True, eq=False)
class NamePaths:
    """Paths of names, each after the one around it.

    Attributes
    ----------
    labels : list of str
        The innermost name of each.
    around : list of int
        The path around it, -1 for none.
    depths : list of int
        How many names are around it.
    keys : list of bytes
        What paths of the same names have anywhere, and no others.
    """

    labels: list[str] = field(default_factory=list[str])
    around: list[int] = field(default_factory=list[int])
    depths: list[int] = field(default_factory=list[int])
    keys: list[bytes] = field(default_factory=list[bytes])
    # The path of the first names of a long one, itself for a short one.
    _begins: list[int] = field(default_factory=list[int])

    def add(self, name: str, around: int, label: str | None = None) -> int:
        """Add the path of a name inside of another path, -1 for none, and return its number.

        `label` is what texts have for the name, where that is something else.
        """
        number = len(self.labels)
        depth = 0 if around < 0 else self.depths[around] + 1
        key = hashlib.blake2b(_NO_KEY if around < 0 else self.keys[around], digest_size=len(_NO_KEY))
        key.update(name.encode("utf-8", "surrogatepass"))
        self.labels.append(name if label is None else label)
        self.around.append(around)
        self.depths.append(depth)
        self.keys.append(key.digest())
        self._begins.append(number if depth < _FIRST_NAMES else self._begins[around])
        return number

    def names(self, number: int) -> tuple[str, ...]:
        """Return the names of a path from the outermost on; of more than `MOST_NAMES` the first and the last."""
        left_out = self.depths[number] + 1 - MOST_NAMES
        if left_out <= 0:
            return self._last_names(number, self.depths[number] + 1)
        return (*self._last_names(self._begins[number], _FIRST_NAMES), f"({left_out:,} more)",
                *self._last_names(number, MOST_NAMES - _FIRST_NAMES))

    def text(self, number: int) -> str:
        """Return `names` as a text."""
        return SEPARATOR.join(self.names(number))

    def _last_names(self, number: int, count: int) -> tuple[str, ...]:
        names: list[str] = []
        for _ in range(count):
            names.append(self.labels[number])
            number = self.around[number]
        return tuple(names[::-1])
