"""Integer columns as few bytes as they need: predicted, cut into byte planes, deflated.

What travels of a column is the difference between each value and a prediction of it, less the least difference, in
as many bytes as the greatest needs. A column whose differences are all the same takes no bytes at all. The first
bytes of all differences come first, then all second bytes, and so on: high bytes are mostly equal, and deflate takes
them to nearly nothing, while the noise of the low bytes only passes its entropy coder. Values come back exactly.

Predictions, chosen for each column by what a sample of it deflates to:

``raw``
    0.
``delta``
    the value of the row before; for the first row what leaves the difference that the second has.
``gap``
    the end of the row before: its value plus that of the column of durations.
``via``
    a column of another table, at the row that a key names; where the key is negative, as ``delta``.
``map``
    the first value that came with the value of another column (of words or ids) of the same table.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Bytes = NDArray[np.uint8]
#: One deflate stream is made of parts; each is compressed the way that suits it.
_WAYS = ((zlib.Z_HUFFMAN_ONLY, 1), (zlib.Z_RLE, 1), (zlib.Z_DEFAULT_STRATEGY, 4))
#: JavaScript's numbers are exact up to here.
EXACT = 2**52
_SAMPLE = 4096
#: What deflates to more than this share is stored, which a browser inflates several times faster.
_STORED = 0.985
_MOST_MAPPED = 1024
_SMALL = 65536


@dataclass(frozen=True)
class Link:
    """A column of another table that a column is near to.

    Attributes
    ----------
    key : str
        The column of the own table that holds rows of the other one, negative for none; it must be added first.
    table, column : str
        Where the prediction is.
    """

    key: str
    table: str
    column: str


@dataclass
class Columns:
    """Collects columns of tables, and makes one stream of bytes of them.

    Attributes
    ----------
    specs : dict of str to list of dict
        By table, how to decode each column, in order of adding.
    values : dict of str to dict of str to ndarray
        What was added.
    """

    specs: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    values: dict[str, dict[str, Ints]] = field(default_factory=dict)
    _planes: list[Bytes] = field(default_factory=list)
    _size: int = 0
    _text_size: int = 0

    def add(
        self, table: str, name: str, values: Any, *, duration: str = "", link: Link | None = None, like: str = ""
    ) -> None:
        """Add a column.

        Parameters
        ----------
        table, name : str
            What it is.
        values : array-like of int
            One value a row, within plus or minus `EXACT`.
        duration : str
            The column of the same table that holds durations, where this one holds starts.
        link : Link, optional
            What the column is near to.
        like : str
            A column of the same table that this one goes with: small numbers, -1 at least.
        """
        column = np.clip(np.asarray(values, dtype=np.int64), -EXACT, EXACT)
        held = self.values.setdefault(table, {})
        ways = self._ways(held, column, duration, link)
        spec: dict[str, Any] = {}
        if like and len(column) and column.min() != column.max():
            key = held[like]
            first = np.zeros(int(key.max()) + 2, dtype=np.int64)
            first[key[::-1] + 1] = column[::-1]
            if len(first) <= _MOST_MAPPED:
                ways["map"] = lambda part: column[part] - first[key[part] + 1]
                spec = {"key": like, "map": first.tolist()}
        best = self._best(column, ways)
        spec = best | (spec if best.get("p") == "map" else {})
        if best.get("p") in ("delta", "via"):
            spec["v"] = _zeroth(column, column)
        how = spec.pop("residual")
        spec = {"n": name, **spec}
        if spec.get("p") == "gap":
            spec |= {"dur": duration, "v": _zeroth(column, column + held[duration])}
        if spec.get("p") == "via" and link is not None:
            spec |= {"key": link.key, "of": [link.table, link.column]}
        self._store(spec, how)
        self.specs.setdefault(table, []).append(spec)
        held[name] = column

    def add_sum(self, table: str, name: str, parts: Sequence[str]) -> None:
        """Add a column that is the sum of others of its table: it takes no bytes."""
        held = self.values[table]
        held[name] = np.sum([held[part] for part in parts], axis=0)
        self.specs[table].append({"n": name, "p": "sum", "of": list(parts)})

    def add_text(self, text: str) -> None:
        """Append a text to the stream; it lies behind all columns."""
        self._planes.append(np.frombuffer(text.encode("utf-8"), dtype=np.uint8))
        self._text_size += len(self._planes[-1])

    def deflate(self) -> bytes:
        """Return the stream: raw deflate, as ``DecompressionStream("deflate-raw")`` reads it."""
        return _deflate(self._planes)

    @property
    def size(self) -> int:
        """Bytes of all columns, inflated."""
        return self._size

    @property
    def whole_size(self) -> int:
        """Bytes of the stream, inflated: columns and texts."""
        return self._size + self._text_size

    def _ways(
        self, held: dict[str, Ints], column: Ints, duration: str, link: Link | None
    ) -> dict[str, Callable[[slice], Ints]]:
        def before(part: slice, values: Ints) -> Ints:
            first = part.start or 0
            out = np.empty(part.stop - first, dtype=np.int64)
            out[1:] = values[first:part.stop - 1]
            out[:1] = values[first - 1] if first else _zeroth(column, values)
            return out

        ways: dict[str, Callable[[slice], Ints]] = {
            "raw": lambda part: column[part],
            "delta": lambda part: column[part] - before(part, column),
        }
        if duration:
            end = column + held[duration]
            ways["gap"] = lambda part: column[part] - before(part, end)
        if link is not None:
            key, near = held[link.key], self.values.get(link.table, {}).get(link.column)
            if near is not None and len(near):
                ways["via"] = lambda part: column[part] - np.where(
                    key[part] >= 0, near[key[part]], before(part, column))
        return ways

    @staticmethod
    def _best(column: Ints, ways: dict[str, Callable[[slice], Ints]]) -> dict[str, Any]:
        count = len(column)
        if not count or column.min() == column.max():
            return {"b": int(column[0]) if count else 0, "residual": None}
        parts = [slice(0, min(count, _SAMPLE))]
        if count > 2 * _SAMPLE:
            parts.append(slice(count // 2, count // 2 + _SAMPLE))
        costs = {name: sum(_cost(way(part)) for part in parts) for name, way in ways.items()}
        name = min(costs, key=lambda each: costs[each])
        return {"p": name, "residual": ways[name](slice(0, count))}

    def _store(self, spec: dict[str, Any], residual: Ints | None) -> None:
        if residual is None:
            return
        least, most = int(residual.min()), int(residual.max())
        spec["b"] = least
        width = ((most - least).bit_length() + 7) // 8
        if not width:
            return
        spec["k"] = width
        spec["at"] = self._size
        parts = (residual - least).view(np.uint8).reshape(-1, 8)
        self._planes += [np.ascontiguousarray(parts[:, place]) for place in range(width)]
        self._size += width * len(residual)


def _zeroth(values: Ints, predictions: Ints) -> int:
    """A prediction of the first value that is off by as much as the second one's is from the first row."""
    return int(values[0] - values[1] + predictions[0]) if len(values) > 1 else 0


def _cost(residual: Ints) -> int:
    """About how many bytes a sample of differences deflates to."""
    shifted = residual - residual.min()
    width = (int(shifted.max()).bit_length() + 7) // 8
    if not width:
        return 0
    planes = np.ascontiguousarray(shifted.view(np.uint8).reshape(-1, 8)[:, :width].T)
    return len(zlib.compress(planes.data, 1))


def _deflate(planes: Sequence[Bytes]) -> bytes:
    """One raw deflate stream of all planes, each compressed in the way that suits it, in parallel."""
    if sum(map(len, planes)) <= _SMALL:
        whole = zlib.compressobj(9, zlib.DEFLATED, -15, 9)
        return whole.compress(b"".join(each.tobytes() for each in planes)) + whole.flush()
    with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
        parts = list(pool.map(_part, planes))
    # An empty last block ends the stream.
    return b"".join((*parts, b"\x03\x00"))


def _part(plane: Bytes) -> bytes:
    """A plane as deflate blocks that end on a byte and look back at nothing before them."""
    middle = max(0, len(plane) // 2 - _SAMPLE)
    sample = plane[middle:middle + 2 * _SAMPLE].tobytes()
    strategy, level = min(_WAYS, key=lambda way: len(_blocks(sample, *way)))
    if len(_blocks(sample, strategy, level)) > _STORED * len(sample):
        level = 0
    return _blocks(plane.data, strategy, level)


def _blocks(data: Any, strategy: int, level: int) -> bytes:
    packer = zlib.compressobj(level, zlib.DEFLATED, -15, 9, strategy)
    return packer.compress(data) + packer.flush(zlib.Z_SYNC_FLUSH)
