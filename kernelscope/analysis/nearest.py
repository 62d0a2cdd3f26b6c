"""The nearest known signature and launch configuration, found in thousands without comparing each pair in Python."""

from __future__ import annotations

from functools import lru_cache
from itertools import islice
from typing import NamedTuple

import numpy as np

from kernelscope.analysis.columns import Ints
from kernelscope.analysis.signatures import parse_signature, parse_type

# What is compared of two arguments that differ, and how much it counts: kind (with a tuple's class), number of
# elements, dimensions, dtype, a scalar's type, layout, access, alignment. They follow `differences.SEVERITY`.
_WEIGHTS = (2_000, 500, 100, 30, 10, 4, 2, 1)


class SignatureIndex:
    """The signatures that a kernel was compiled for, in order; asked for the nearest one of a new signature."""

    def __init__(self) -> None:
        self._texts: dict[str, None] = {}
        self._by_count: dict[int, _Group] = {}
        self._last: str | None = None

    def __contains__(self, signature: str) -> bool:
        """Whether it is known, as it is spelled."""
        return signature in self._texts

    def __len__(self) -> int:
        """How many are known."""
        return len(self._texts)

    def add(self, signature: str) -> None:
        """Take one in; one that is known already keeps its place."""
        if signature in self._texts:
            return
        self._texts[signature] = None
        self._last = signature
        texts, features = _numbers(signature)
        self._by_count.setdefault(len(texts), _Group(len(texts))).add(signature, texts, features)

    def nearest(self, signature: str) -> str | None:
        """Return the known signature that differs in the fewest arguments, and of these in the slightest way.

        Of those that differ as little the latest is it. Where none has as many arguments it is the latest of all;
        where none is known, None.
        """
        if signature in self._texts:
            return signature
        texts, features = _numbers(signature)
        group = self._by_count.get(len(texts))
        return self._last if group is None else group.nearest(texts, features)


class _Group:
    """Signatures with the same number of arguments as numbers: texts by argument, and rows of what is in the types."""

    def __init__(self, arguments: int) -> None:
        self._signatures: list[str] = []
        self._texts = np.empty((arguments, 8), dtype=np.int64)
        self._features = np.empty((8, arguments * len(_WEIGHTS)), dtype=np.int64)
        self._weights = np.array(_WEIGHTS * arguments, dtype=np.float64)

    def add(self, signature: str, texts: Ints, features: Ints) -> None:
        size = len(self._signatures)
        if size == len(self._features):
            self._texts = np.concatenate((self._texts, np.empty_like(self._texts)), axis=1)
            self._features = np.concatenate((self._features, np.empty_like(self._features)))
        self._texts[:, size], self._features[size] = texts, features
        self._signatures.append(signature)

    def nearest(self, texts: Ints, features: Ints) -> str:
        size = len(self._signatures)
        different = (self._texts[:, :size] != texts[:, None]).sum(axis=0, dtype=np.uint16)
        # The latest first, for that is which `argmin` takes of equal ones.
        fewest = np.flatnonzero(different == different.min())[::-1]
        if len(fewest) == 1:
            return self._signatures[int(fewest[0])]
        costs = (self._features[fewest] != features) @ self._weights
        return self._signatures[int(fewest[np.argmin(costs)])]


@lru_cache(maxsize=4096)
def _numbers(signature: str) -> tuple[Ints, Ints]:
    """The types' texts as numbers, and their features; a text stands for itself by its hash."""
    texts = [each.text for each in parse_signature(signature)]
    return (np.array([hash(text) for text in texts], dtype=np.int64),
            np.array([number for text in texts for number in _features(text)], dtype=np.int64))


@lru_cache(maxsize=4096)
def _features(text: str) -> tuple[int, ...]:
    kind = parse_type(text)
    scalar = hash(kind.dtype) if kind.kind == "scalar" else 0
    dtype = 0 if kind.kind == "scalar" else hash(kind.dtype)
    return (hash((kind.kind, kind.name)), len(kind.elements), kind.ndim, dtype, scalar, hash(kind.layout),
            int(kind.readonly), int(kind.aligned))


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
        """``[4, (16, 16), 64 B shared]``."""
        shared = f", {self.sharedmem_bytes:,} B shared" if self.sharedmem_bytes else ""
        return f"[{self.griddim}, {self.blockdim}{shared}]"


class ShapeIndex:
    """Launch configurations that one signature of a kernel was compiled for, in order."""

    def __init__(self) -> None:
        self._all: dict[Shape, int] = {}
        self._latest: dict[tuple[str | int | None, ...], Shape] = {}

    def __contains__(self, shape: Shape) -> bool:
        """Whether it is known."""
        return shape in self._all

    def __len__(self) -> int:
        """How many are known."""
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
    """What two configurations can have in common, most first."""
    grid, block, shared = shape
    return ((None, block, shared), (grid, None, shared), (grid, block, None),
            (None, None, shared), (None, block, None), (grid, None, None), (None, None, None))
