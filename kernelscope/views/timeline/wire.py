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
    what is usual (the median of a sample) with the value of another column (of words or ids) of the same table.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby
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
#: Columns from so many rows on are worth a thread.
LONG = 32768


_Ways = dict[str, tuple[Callable[[slice], Ints], dict[str, Any]]]


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


@dataclass(frozen=True)
class _Near:
    """The columns that one column may be predicted from."""

    duration: str = ""
    lasting: Ints | None = None
    link: Link | None = None
    key: Ints | None = None
    linked: Ints | None = None
    like: str = ""
    group: Ints | None = None


@dataclass(frozen=True)
class _Coded:
    """A column's spec, and its planes of bytes: deflated already where they are long."""

    spec: dict[str, Any]
    planes: tuple[Bytes | bytes, ...] = ()
    length: int = 0


class Columns:
    """Collects columns of tables, and makes one stream of bytes of them.

    Long columns are coded by several threads while the next ones are made.

    Attributes
    ----------
    values : dict of str to dict of str to ndarray
        What was added.
    """

    def __init__(self) -> None:
        self.values: dict[str, dict[str, Ints]] = {}
        self._added: list[tuple[str, _Coded | Future[_Coded]]] = []
        self._texts: list[Bytes] = []
        self._pool: ThreadPoolExecutor | None = None

    def add(
        self, table: str, name: str, values: Any, *, duration: str = "", link: Link | None = None, like: str = ""
    ) -> None:
        """Add a column.

        Parameters
        ----------
        table, name : str
            What it is.
        values : array-like of int
            One value a row, within plus or minus `EXACT`; not to be changed afterwards.
        duration : str
            The column of the same table that holds durations, where this one holds starts.
        link : Link, optional
            What the column is near to.
        like : str
            A column of the same table that this one goes with: small numbers, -1 at least.
        """
        column = np.asarray(values, dtype=np.int64)
        # One value for all rows, as `broadcast_to` makes it, needs no look at each.
        seen = column[:1] if column.strides == (0,) else column
        least, most = (int(seen.min()), int(seen.max())) if len(seen) else (0, 0)
        if least < -EXACT or most > EXACT:
            column = np.clip(column, -EXACT, EXACT)
            least, most = max(least, -EXACT), min(most, EXACT)
        held = self.values.setdefault(table, {})
        if least == most:
            self._added.append((table, _Coded({"n": name, "b": least})))
        else:
            near = _Near(
                duration, held.get(duration), link, None if link is None else held[link.key],
                None if link is None else self.values.get(link.table, {}).get(link.column), like, held.get(like))
            self._added.append((table, self._start(name, column, near)))
        held[name] = column

    def add_sum(self, table: str, name: str, parts: Sequence[str]) -> None:
        """Add a column that is the sum of two or more others of its table: it takes no bytes."""
        held = self.values[table]
        total = held[parts[0]].copy()
        for part in parts[1:]:
            total += held[part]
        held[name] = total
        self._added.append((table, _Coded({"n": name, "p": "sum", "of": list(parts)})))

    def add_text(self, text: str) -> None:
        """Append a text to the stream; it lies behind all columns."""
        self._texts.append(np.frombuffer(text.encode("utf-8"), dtype=np.uint8))

    @property
    def specs(self) -> dict[str, list[dict[str, Any]]]:
        """By table, how to decode each column, in order of adding."""
        specs: dict[str, list[dict[str, Any]]] = {}
        at = 0
        for table, coded in self._coded():
            place = {"at": at} if coded.length else {}
            specs.setdefault(table, []).append(coded.spec | place)
            at += coded.length
        return specs

    @property
    def size(self) -> int:
        """Bytes of all columns, inflated."""
        return sum(coded.length for _, coded in self._coded())

    @property
    def whole_size(self) -> int:
        """Bytes of the stream, inflated: columns and texts."""
        return self.size + sum(len(text) for text in self._texts)

    def deflate(self) -> bytes:
        """Return the stream: raw deflate, as ``DecompressionStream("deflate-raw")`` reads it."""
        planes: list[Bytes | bytes] = [plane for _, coded in self._coded() for plane in coded.planes]
        planes += [_part(text) if len(text) >= LONG else text for text in self._texts]
        parts: list[bytes] = []
        for isolated, several in groupby(planes, lambda each: isinstance(each, bytes)):
            joined = b"".join(bytes(each) for each in several)
            parts.append(joined if isolated else _blocks(joined, zlib.Z_DEFAULT_STRATEGY, 9))
        # An empty last block ends the stream.
        return b"".join((*parts, b"\x03\x00"))

    def _start(self, name: str, column: Ints, near: _Near) -> _Coded | Future[_Coded]:
        if len(column) < LONG:
            return _code(name, column, near)
        self._pool = self._pool or ThreadPoolExecutor(min(4, os.cpu_count() or 1))
        return self._pool.submit(_code, name, column, near)

    def _coded(self) -> list[tuple[str, _Coded]]:
        """Return all columns, once they are coded."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None
        done = [(table, each.result() if isinstance(each, Future) else each) for table, each in self._added]
        self._added = [*done]
        return done


def _code(name: str, column: Ints, near: _Near) -> _Coded:
    """Code a column of which not all values are the same, by the prediction that suits it."""
    ways = _ways(column, near)
    way = _cheapest(len(column), ways)
    residual, more = ways[way][0](slice(0, len(column))), ways[way][1]
    least, most = int(residual.min()), int(residual.max())
    spec: dict[str, Any] = {"n": name, "b": least, "p": way, **more}
    width = ((most - least).bit_length() + 7) // 8
    if not width:
        return _Coded(spec)
    residual = residual - least
    parts = residual.view(np.uint8).reshape(-1, 8)
    planes = [np.ascontiguousarray(parts[:, place]) for place in range(width)]
    kept = tuple(_part(plane) if len(plane) >= LONG else plane for plane in planes)
    return _Coded(spec | {"k": width}, kept, width * len(column))


def _ways(column: Ints, near: _Near) -> _Ways:
    """By prediction, the differences in a part of the column, and what the front end must know besides."""

    def before(part: slice, values: Ints) -> Ints:
        first = part.start or 0
        out = np.empty(part.stop - first, dtype=np.int64)
        out[1:] = values[first:part.stop - 1]
        out[:1] = values[first - 1] if first else _zeroth(column, values)
        return out

    zeroth = {"v": _zeroth(column, column)}
    ways: _Ways = {
        "raw": (lambda part: column[part], {}),
        "delta": (lambda part: column[part] - before(part, column), zeroth),
    }
    if near.lasting is not None:
        end = column + near.lasting
        ways["gap"] = (lambda part: column[part] - before(part, end),
                       {"dur": near.duration, "v": _zeroth(column, end)})
    key, linked, link = near.key, near.linked, near.link
    if link is not None and key is not None and linked is not None and len(linked):
        more = {"key": link.key, "of": [link.table, link.column], **zeroth}
        ways["via"] = (lambda part: column[part] - np.where(
            key[part] >= 0, linked[key[part]], before(part, column)), more)
    group = near.group
    if group is not None and int(group.max()) + 2 <= _MOST_MAPPED:
        usual = _usual(group, column)
        ways["map"] = (lambda part: column[part] - usual[group[part] + 1], {"key": near.like, "map": usual.tolist()})
    return ways


def _cheapest(count: int, ways: _Ways) -> str:
    """The prediction whose differences deflate to the least, in two samples of a long column."""
    parts = [slice(0, min(count, _SAMPLE))]
    if count > 2 * _SAMPLE:
        parts.append(slice(count // 2, count // 2 + _SAMPLE))
    costs: dict[str, int] = {}
    for name, (way, _) in ways.items():
        costs[name] = sum(_cost(way(part)) for part in parts)
        if not costs[name]:
            break
    return min(costs, key=lambda each: costs[each])


def _usual(key: Ints, column: Ints) -> Ints:
    """The median of the values that come with each key, from -1 on, in a sample; that of all for keys not in it."""
    step = max(1, len(key) // (4 * _SAMPLE))
    groups, values = key[::step] + 1, column[::step]
    usual = np.full(int(key.max()) + 2, int(np.median(values)), dtype=np.int64)
    order = np.lexsort((values, groups))
    groups, values = groups[order], values[order]
    found, first, count = np.unique(groups, return_index=True, return_counts=True)
    usual[found] = values[first + count // 2]
    return usual


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
