"""Columns of a recording as NumPy arrays, sums and percentiles by group, and sets of intervals."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast, overload

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kernelscope.recording.model import Recording
from kernelscope.recording.parquet import make_table
from kernelscope.recording.time import instants as instants_of
from kernelscope.recording.time import masked
from kernelscope.schema import INSTANTS, TABLES, UNFINISHED, UNKNOWN

if TYPE_CHECKING:
    import pandas as pd

# Here alone the analysis touches Arrow's types, which have no type stubs.

#: Of large tables also int32, where `ids` and what is made of them say so.
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

_Row = TypeVar("_Row")
#: So many rows are made at once.
_AT_ONCE = 1024
#: A table of so many keys is small.
_FEW_KEYS = 1 << 16
#: So many rows at once stay in the processor's cache, and what is made of them takes no memory to speak of.
_PART = 1 << 15
#: Where there are so many rows a bucket, a percentile is looked for in its bucket.
_ROWS_A_BUCKET = 4


def ints(recording: Recording, table: str, name: str) -> Ints:
    """Return an integer column as int64, with `kernelscope.schema.UNKNOWN` (-1) for null: not to be written to.

    Columns of instants are read with `instants`: -1 is one of them.
    """
    return _whole(_column(recording, table, name), name)


def instants(recording: Recording, table: str, *names: str) -> tuple[Ints, ...]:
    """Return columns of instants, with `kernelscope.recording.time.UNKNOWN_INSTANT` for null: not to be written to."""
    return tuple(instants_of(_column(recording, table, name)) for name in names)


def ids(recording: Recording, table: str, name: str) -> Ints:
    """Return `ints` in the column's own type, mostly int32: for what only counts, sums and looks up by them.

    Millions of ids take half the memory so. What multiplies them makes int64 of them first.
    """
    return _filled(_column(recording, table, name))


def launch_counts(recording: Recording) -> dict[int, int]:
    """Return the number of launches of each specialization that was launched."""
    numbers = ids(recording, "launches", "specialization_id")
    counts = np.bincount(numbers[numbers != UNKNOWN])
    return {int(number): int(counts[number]) for number in np.flatnonzero(counts)}


def floats(recording: Recording, table: str, name: str) -> Floats:
    """Return a float column, with NaN for null."""
    return np.asarray(_column(recording, table, name).to_numpy(), dtype=np.float64)


def codes(recording: Recording, table: str, name: str) -> tuple[Ints, list[str]]:
    """Return a category column as codes (int64, -1 for null) and the words that they stand for.

    The words are never decoded a row: that would cost 100,000 strings where four are distinct.
    """
    return _wide(_coded(_column(recording, table, name)))


def readers(recording: Recording, *tables: str) -> dict[str, Reader]:
    """Return a reader for each of some tables."""
    held = {name: _table(recording, name) for name in tables}
    return {name: Reader(table) for name, table in held.items()}


class Reader:
    """Reads many columns of one table, each as what it is.

    Attributes
    ----------
    rows : int
        How many rows the table has.
    """

    def __init__(self, table: Any) -> None:
        self._table = table
        self.rows = int(table.num_rows)

    def ints(self, *names: str) -> list[Ints]:
        """Return integer columns as int64, -1 for null; one without any value is not filled in, row by row."""
        return [_whole(self._table.column(name), name) for name in names]

    def times(self, *names: str) -> list[tuple[Ints, Bools]]:
        """Return columns of instants, and which of them are known."""
        return [masked(self._table.column(name)) for name in names]

    def codes(self, *names: str) -> list[tuple[Ints, list[str]]]:
        """Return columns of words as codes, -1 for null, and the words; free text too, each distinct one once."""
        return [_wide(_coded(self._table.column(name))) for name in names]


def _whole(column: Any, name: str) -> Ints:
    if name in INSTANTS:
        raise ValueError(f"{name!r} is a column of instants, of which -1 is one: read it with `instants`")
    return np.asarray(_filled(column), dtype=np.int64)


def _filled(column: Any) -> Ints:
    if column.null_count == len(column):
        return np.broadcast_to(np.int64(UNKNOWN), (len(column),))
    return (column.fill_null(UNKNOWN) if column.null_count else column).to_numpy()


def _coded(column: Any) -> tuple[Ints, list[str]]:
    if column.null_count == len(column):
        return np.broadcast_to(np.int64(UNKNOWN), (len(column),)), []
    coded = column.dictionary_encode() if pa.types.is_string(column.type) else column
    coded = coded.unify_dictionaries().combine_chunks()
    indices = coded.indices.fill_null(UNKNOWN) if coded.indices.null_count else coded.indices
    return indices.to_numpy(zero_copy_only=False), coded.dictionary.to_pylist()


def _wide(coded: tuple[Ints, list[str]]) -> tuple[Ints, list[str]]:
    return np.asarray(coded[0], dtype=np.int64), coded[1]


def matches(recording: Recording, table: str, name: str, word: str) -> Bools:
    """Return which rows of a category column are `word`."""
    values, words = _coded(_column(recording, table, name))
    if word not in words:
        return np.zeros(len(values), dtype=np.bool_)
    return values == words.index(word)


def ran(recording: Recording) -> Bools:
    """Return which launches ran and are the program's own: neither `captured` nor `trials`."""
    return ~(captured(recording) | trials(recording))


def captured(recording: Recording) -> Bools:
    """Return which launches went into the capture of a graph, as nodes of it; those of `trials` are none."""
    return _refers(recording, "capture_event_id") & ~trials(recording)


def trials(recording: Recording) -> Bools:
    """Return which launches an autotuner's benchmarks made: there can be thousands for each of the program's own."""
    return _refers(recording, "build_id")


def tuning_runs(recording: Recording) -> Bools:
    """Return which rows of ``builds`` are runs of an autotuner: those that name a kernel function."""
    return _refers(recording, "dispatcher_id", "builds")


def replays(recording: Recording) -> list[dict[str, Any]]:
    """Return the rows of launches that ran several times to be measured: `kernelscope.schema.Table.is_replay`."""
    return [row for table in TABLES.values() if table.is_replay for row in recording.rows(table.name)]


def measured_launches(recording: Recording) -> Ints:
    """Return the launches that were replayed for the GPU's counters, and took as long as that."""
    return np.array([row["launch_id"] for row in replays(recording) if row["launch_id"] is not None], np.int64)


def _refers(recording: Recording, name: str, table: str = "launches") -> Bools:
    """Return which launches, or rows of another table, have an id in a column."""
    source = _column(recording, table, name)
    if source.null_count == len(source):
        return np.zeros(len(source), dtype=np.bool_)
    return ints(recording, table, name) >= 0


def raised(recording: Recording) -> Bools:
    """Return which launches raised, but for `trials`: of those under way when the process died that is not known."""
    failed, errors = _coded(_column(recording, "launches", "error"))
    found = (failed >= 0) & (failed != errors.index(UNFINISHED)) if UNFINISHED in errors else failed >= 0
    return found & ~trials(recording)


def unfinished(recording: Recording) -> Bools:
    """Return which launches had begun and not returned when the process died."""
    return matches(recording, "launches", "error", UNFINISHED)


def row_count(recording: Recording, table: str) -> int:
    """Return how many rows the table has."""
    return _table(recording, table).num_rows


def rows_at(recording: Recording, table: str, rows: Ints | Sequence[int]) -> dict[int, dict[str, Any]]:
    """Return some rows of a table by their numbers, as `Recording.rows` has them; the others are never made."""
    wanted = np.unique(np.asarray(rows, dtype=np.int64))
    return dict(zip(wanted.tolist(), _table(recording, table).take(wanted).to_pylist(), strict=True))


def in_order(recording: Recording, table: str, rows: Sequence[int]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield some rows of a table, each with its number, in the order in which the numbers are given."""
    held = rows_at(recording, table, rows)
    yield from ((row, held[row]) for row in rows)


class _MadeRows(Generic[_Row]):
    """Returns rows by id that were made before."""

    def __init__(self, rows: dict[int, _Row]) -> None:
        self._rows = rows

    def __call__(self, ids: list[int]) -> list[_Row]:
        return [self._rows[each] for each in ids]


class Rows(Sequence[_Row], Generic[_Row]):
    """Rows that are made when they are asked for: of a million kernels a view shows some, and sums up all.

    Parameters
    ----------
    ids : ndarray of int64
        Their ids, in order.
    make : callable
        Returns the rows of a list of ids.
    columns : mapping of str to ndarray of int64
        Numbers by id, for what looks at all rows; -1 where one is unknown.
    """

    def __init__(self, ids: Ints, make: Callable[[list[int]], list[_Row]], columns: Mapping[str, Ints]) -> None:
        self.ids = ids
        self._make = make
        self._columns = columns

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the rows themselves, all of which are made for it."""
        return Rows, (self.ids, _MadeRows(dict(zip(self.ids.tolist(), self, strict=True))), dict(self._columns))

    def __len__(self) -> int:
        """Return their number."""
        return len(self.ids)

    @overload
    def __getitem__(self, place: int) -> _Row: ...
    @overload
    def __getitem__(self, place: slice) -> Rows[_Row]: ...
    def __getitem__(self, place: int | slice) -> _Row | Rows[_Row]:
        """Return the row at a place, or those of a slice, which are not made yet."""
        return self._of(self.ids[place]) if isinstance(place, slice) else self._make([int(self.ids[place])])[0]

    def __iter__(self) -> Iterator[_Row]:
        """Yield the rows in order."""
        for begin in range(0, len(self), _AT_ONCE):
            yield from self._make(self.ids[begin:begin + _AT_ONCE].tolist())

    def column(self, name: str) -> Ints:
        """Return a number of each row, in order."""
        return self._columns[name][self.ids]

    def total(self, name: str) -> int:
        """Return the sum of a number over all rows; what is unknown counts nothing."""
        return int(np.maximum(self.column(name), 0).sum())

    def where(self, mask: Bools) -> Rows[_Row]:
        """Return the rows that a mask selects, in order."""
        return self._of(self.ids[mask])

    def by_id(self, ids: Sequence[int]) -> dict[int, _Row]:
        """Return the rows of some ids; an id of which there is none is left out."""
        known = [each for each in ids if 0 <= each < len(self._held) and self._held[each]]
        return dict(zip(known, self._make(known), strict=True))

    @cached_property
    def _held(self) -> Bools:
        held = np.zeros(int(self.ids.max(initial=UNKNOWN)) + 1, dtype=np.bool_)
        held[self.ids] = True
        return held

    def _of(self, ids: Ints) -> Rows[_Row]:
        part = copy(self)
        part.ids = ids
        part.__dict__.pop("_held", None)
        return part


def with_columns(recording: Recording, table: str, columns: Mapping[str, Sequence[object]]) -> Recording:
    """Return a copy of the recording in which some columns of one table are replaced."""
    held = _table(recording, table)
    replaced = {name: held.column(name) for name in TABLES[table].names} | dict(columns)
    made = cast(Any, make_table)(table, replaced, rows=held.num_rows)
    return Recording({**cast(Any, recording.tables), table: made}, recording.metadata)


def _table(recording: Recording, table: str) -> Any:
    source: Any = recording
    return source.tables[table]


def _column(recording: Recording, table: str, name: str) -> Any:
    return _table(recording, table).column(name)


def json_object(text: str | None) -> dict[str, Any]:
    """Read a column of JSON: an object, or an empty one for null, for another value and for what is torn."""
    if not text:
        return {}
    try:
        return dict(mapping(json.loads(text)))
    except ValueError:
        return {}


def mapping(value: object) -> Mapping[str, Any]:
    """Return a JSON object as it is, and an empty one for anything else."""
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}


def items(value: object) -> list[Any]:
    """Return the items of a JSON list; none of anything else."""
    return list(cast("list[Any]", value)) if isinstance(value, list) else []


def texts(value: object) -> list[str]:
    """Return the items of a JSON list as texts; none of anything else."""
    return [str(each) for each in items(value)]


def data_frame(rows: Sequence[object], columns: Mapping[str, str],
               paths: Mapping[str, str | Callable[[Any], object]]) -> pd.DataFrame:
    """Return a DataFrame of objects, with nulls where an attribute is None.

    Parameters
    ----------
    rows : sequence
        One object a row.
    columns : mapping of str to str
        The columns' names and dtypes.
    paths : mapping of str to str or callable
        For columns that are no attributes of that name, such as ``execute.total_ns``, or what a row is given to.
    """
    import pandas as pd

    def value(row: Any, path: str | Callable[[Any], object]) -> object:
        if callable(path):
            return path(row)
        for name in path.split("."):
            row = None if row is None else getattr(row, name)
        return row

    return pd.DataFrame({name: pd.Series([value(row, paths.get(name, name)) for row in rows], dtype=cast("Any", kind))
                         for name, kind in columns.items()})


def owner_of(dispatcher: Mapping[str, Any]) -> str | None:
    """Return whose kernel a row of ``dispatchers`` is: user, ufunc, reduce or library; None where that is unknown."""
    owner = json_object(dispatcher["attributes"]).get("owner")
    return owner if isinstance(owner, str) else None


def parts(rows: int, least: int = 0) -> Iterator[slice]:
    """Yield the rows in pieces that stay in the processor's cache, none smaller than `least` but for the last."""
    size = max(_PART, least)
    yield from (slice(begin, min(begin + size, rows)) for begin in range(0, rows, size))


def count_by(groups: Ints, size: int, where: Bools | None = None) -> Ints:
    """Count rows by group; groups below 0 are left out."""
    counts = np.zeros(size, dtype=np.int64)
    for part in parts(len(groups), size):
        some = groups[part] if where is None else groups[part][where[part]]
        if some.min(initial=0) < 0:
            some = some[some >= 0]
        counts += np.bincount(some, minlength=size)[:size]
    return counts


def sum_by(groups: Ints, values: Ints, size: int) -> Ints:
    """Sum values by group; groups below 0 and unknown values (below 0) are left out.

    Sums run in float64, which is exact up to 2**53 ns, or 104 days.
    """
    totals = np.zeros(size)
    for some, amounts in _known_parts(groups, values, size):
        totals += np.bincount(some, weights=amounts, minlength=size)[:size]
    return np.rint(totals).astype(np.int64)


def _known_parts(groups: Ints, values: Ints, least: int = 0) -> Iterator[tuple[Ints, Ints]]:
    """Yield the rows in pieces, without those that are below 0 in either."""
    for part in parts(len(groups), least):
        some, amounts = groups[part], values[part]
        if some.min(initial=0) < 0 or amounts.min(initial=0) < 0:
            keep = (some >= 0) & (amounts >= 0)
            some, amounts = some[keep], amounts[keep]
        yield some, amounts


def distinct_by(groups: Ints, values: Ints, size: int) -> Ints:
    """Count distinct values by group; rows below 0 in either are left out."""
    return count_by(distinct_pairs(groups, values)[:, 0], size)


def one_group(count: int) -> Ints:
    """Return a group for all rows, 0, which takes no memory."""
    return np.broadcast_to(np.int64(0), (count,))


def distinct(values: Ints) -> Ints:
    """Return the distinct values from 0 on, in order."""
    return distinct_pairs(one_group(len(values)), values)[:, 1]


def distinct_pairs(left: Ints, right: Ints) -> Ints:
    """Return the distinct pairs, as rows (left, right) in order; what is below 0 in either has none."""
    return _pairs(left, right)[0]


def unique_pairs(left: Ints, right: Ints) -> tuple[Ints, Ints]:
    """Return the distinct pairs, as rows (left, right) in order, and the pair of each row (-1 for none).

    A row that is below 0 in either has no pair.
    """
    pairs, pair_of_row = _pairs(left, right)
    return pairs, pair_of_row()


def _pairs(left: Ints, right: Ints) -> tuple[Ints, Callable[[], Ints]]:
    """Return the distinct pairs, and what finds the pair of each row: int32 where there are not too many."""
    width = int(right.max(initial=UNKNOWN)) + 1
    most = (int(left.max(initial=UNKNOWN)) + 1) * width
    if most <= max(len(left), _FEW_KEYS):  # a table of all that there can be is faster than to sort
        there = np.zeros(most + 1, dtype=np.bool_)  # the last is that of no pair
        for part in parts(len(left)):
            there[_pair_keys(left[part], right[part], width)] = True
        held = np.flatnonzero(there[:-1])
        place = np.append(np.cumsum(there[:-1]) - 1, UNKNOWN).astype(np.int32 if len(held) < _MOST_INT32 else np.int64)
    else:
        # Sorted, they are found several times faster than by the hashes of NumPy's `unique`.
        held = np.sort(_pair_keys(left, right, width))
        held = held[np.append(True, held[1:] != held[:-1]) & (held >= 0)]
        place = None

    def pair_of_row() -> Ints:
        found = np.empty(len(left), dtype=np.int64 if place is None else place.dtype)
        for part in parts(len(left)):
            keys = _pair_keys(left[part], right[part], width)
            found[part] = (np.where(keys < 0, UNKNOWN, np.searchsorted(held, keys)) if place is None else place[keys])
        return found

    return np.stack([held // width, held % width], axis=1) if width else np.empty((0, 2), np.int64), pair_of_row


_MOST_INT32 = np.iinfo(np.int32).max


def _pair_keys(left: Ints, right: Ints, width: int) -> Ints:
    """A number for each pair, in order of the pairs; -1 where either is below 0."""
    keys = left * np.int64(width) + right
    if left.min(initial=0) < 0 or right.min(initial=0) < 0:
        keys[(left < 0) | (right < 0)] = UNKNOWN
    return keys


def percentiles_by(groups: Ints, values: Ints, size: int, shares: Sequence[float]) -> Floats:
    """Return percentiles by group, linearly interpolated as `numpy.percentile` does: NaN for an empty group.

    Parameters
    ----------
    groups, values : ndarray of int64
        Rows below 0 in either are left out.
    size : int
        How many groups there are.
    shares : sequence of float
        Which percentiles, from 0 to 1.

    Returns
    -------
    ndarray of float64, shape (size, len(shares))
    """
    result = np.full((size, len(shares)), np.nan)
    buckets = _bucket(np.array([values.max(initial=0)]))[0] + 1
    if size * int(buckets) * _ROWS_A_BUCKET >= len(values):
        counts, find = _sorted(groups, values, size)
    else:
        counts, find = _in_buckets(groups, values, size, int(buckets))
    held = np.flatnonzero(counts)
    starts = (np.cumsum(counts) - counts)[held]
    position = (counts[held] - 1) * np.array(shares)[:, None]
    low, high = np.floor(position).astype(np.int64), np.ceil(position).astype(np.int64)
    below, above = find(np.stack([starts + low, starts + high]))
    result[held] = (below + (above - below) * (position - low)).T
    return result


def _sorted(groups: Ints, values: Ints, size: int) -> tuple[Ints, Callable[[Ints], Floats]]:
    """Return the counts by group, and what finds values by their places among all in order of group and value."""
    keep = _selected((groups >= 0) & (values >= 0))
    ordered = _ordered(groups[keep], values[keep])
    return count_by(groups[keep], size), lambda places: ordered[places].astype(np.float64)


def _in_buckets(groups: Ints, values: Ints, size: int, buckets: int) -> tuple[Ints, Callable[[Ints], Floats]]:
    """Return the same as `_sorted`, without a sort of all: only those are sorted that are about equal to the wanted."""
    table = np.zeros(size * buckets, dtype=np.int64)
    for some, amounts in _known_parts(groups, values, len(table)):
        table += np.bincount(some * np.int64(buckets) + _bucket(amounts), minlength=len(table))
    ends = np.cumsum(table)

    def find(places: Ints) -> Floats:
        of = np.searchsorted(ends, places, side="right")
        wanted = np.unique(of)
        is_wanted = np.zeros(len(table), dtype=np.bool_)
        is_wanted[wanted] = True
        near: list[tuple[Ints, Ints]] = []
        for some, amounts in _known_parts(groups, values):
            chosen = is_wanted[some * np.int64(buckets) + _bucket(amounts)]
            near.append((some[chosen], amounts[chosen]))
        ordered = _ordered(*(np.concatenate(each) for each in zip(*near, strict=True)))
        begins = np.cumsum(table[wanted]) - table[wanted]
        at = begins[np.searchsorted(wanted, of)] + places - (ends - table)[of]
        return ordered[at].astype(np.float64)

    return table.reshape(size, buckets).sum(axis=1), find


def _bucket(values: Ints) -> Ints:
    """Return a small number for each value from 0 on that grows with it: 128 from one power of two to the next."""
    return np.maximum((values.astype(np.float64).view(np.int64) >> 45) - (1023 << 7), 0)


#: Of a histogram.
BINS = 24


class Histograms:
    """Histograms of groups, with bins of equal ratio from the least value of all groups to the greatest.

    Parameters
    ----------
    groups, values : ndarray of int64
        Rows below 0 in either are left out; a value of 0 counts as 1.
    size : int
        How many groups there are.
    """

    def __init__(self, groups: Ints, values: Ints, size: int) -> None:
        low, high = np.inf, 0.0
        for _, amounts in _known_parts(groups, values):
            if len(amounts):
                low = min(low, float(np.log2(max(int(amounts.min()), 1))))
                high = max(high, float(np.log2(max(int(amounts.max()), 1))))
        # Where all are about equal they are in the middle one.
        width = max((high - low) / BINS, 0.01)
        low -= (BINS * width - (high - low)) / 2

        def keys(some: Ints, amounts: Ints) -> Ints:
            logs = np.log2(np.maximum(amounts, 1))
            return some * np.int64(BINS) + np.clip((logs - low) / width, 0, BINS - 1).astype(np.int64)

        most = size * BINS
        if most <= max(len(groups), _FEW_KEYS):
            counts = np.zeros(most, dtype=np.int64)
            for part in _known_parts(groups, values, most):
                counts += np.bincount(keys(*part), minlength=most)[:most]
            self._keys = np.flatnonzero(counts)
            self._counts = counts[self._keys]
        else:  # of many groups most have few values
            held = np.sort(np.concatenate([keys(*part) for part in _known_parts(groups, values)] or [_NONE]))
            first = np.flatnonzero(np.append(True, held[1:] != held[:-1])) if len(held) else _NONE
            self._keys, self._counts = held[first], np.diff(np.append(first, len(held)))

    def of(self, groups: Sequence[int]) -> Ints:
        """Return the histograms of some groups: an array of shape (groups, BINS)."""
        wanted = np.asarray(groups, dtype=np.int64)[:, None] * BINS + np.arange(BINS)
        if not len(self._keys):
            return np.zeros(wanted.shape, dtype=np.int64)
        place = np.minimum(np.searchsorted(self._keys, wanted), len(self._keys) - 1)
        return np.where(self._keys[place] == wanted, self._counts[place], 0)


def _selected(keep: Bools) -> Bools | slice:
    """Return all rows as a slice where none is left out, which copies nothing."""
    return slice(None) if keep.all() else keep


def _ordered(groups: Ints, values: Ints) -> Ints:
    """Sort values by group and value, with one sort of combined keys where they fit."""
    if not len(values):
        return values
    width = int(values.max()) + 1
    if int(groups.max()) >= np.iinfo(np.int64).max // width:
        return values[np.lexsort((values, groups))]
    return np.sort(groups * np.int64(width) + values) % width


@dataclass(frozen=True)
class Extremes:
    """The least and the greatest value of each group; infinite where none is known."""

    least: Floats
    greatest: Floats

    def __getitem__(self, group: int) -> tuple[float, float] | None:
        """Return those of one group; None where no value is known."""
        low, high = float(self.least[group]), float(self.greatest[group])
        return (low, high) if low <= high else None


def ranges_by(groups: Ints, values: Floats, size: int) -> Extremes:
    """Return the least and greatest value by group; values that are not known are NaN."""
    keep = (groups >= 0) & np.isfinite(values)
    least = np.full(size, np.inf)
    greatest = np.full(size, -np.inf)
    np.minimum.at(least, groups[keep], values[keep])
    np.maximum.at(greatest, groups[keep], values[keep])
    return Extremes(least, greatest)


def union_ns(start: Ints, end: Ints, lane: Ints) -> int:
    """Return the time that intervals cover, with an overlap inside one lane (a thread) counted once."""
    return sum(union(start[lane == which], end[lane == which]).total_ns for which in np.unique(lane))


def rows_by(codes: Ints) -> dict[int, Ints | slice]:
    """Return the rows of each code, in order; all of them as a ``slice`` where there is one code."""
    if not len(codes):
        return {}
    least, most = int(codes.min()), int(codes.max())
    if least == most:
        return {least: slice(None)}
    # Small numbers are sorted by their digits, in no more than two rounds.
    narrow = (codes - least).astype(np.uint16) if most - least < 1 << 16 else codes - least
    order = np.argsort(narrow, kind="stable")
    first = np.concatenate(([0], np.flatnonzero(np.diff(narrow[order])) + 1, [len(order)])).tolist()
    return {int(codes[order[low]]): order[low:high] for low, high in pairwise(first)}


# Sets of intervals of time.

#: So many times less than there are intervals are looked up one by one.
FEW = 4
#: Up to here a float64 is a whole number.
_EXACT = 1 << 53

_NONE = np.empty(0, dtype=np.int64)


@dataclass(frozen=True)
class Intervals:
    """Intervals in order of time, none of which touches the next: half-open, in nanoseconds of the host clock.

    Attributes
    ----------
    start, end : ndarray of int64, shape (n,)
        Each ``end`` is greater than its ``start`` and less than the next ``start``.
    """

    start: Ints
    end: Ints

    def __len__(self) -> int:
        """Return their number."""
        return len(self.start)

    @property
    def durations(self) -> Ints:
        """Return the duration of each, in nanoseconds."""
        return self.end - self.start

    @cached_property
    def _sums(self) -> Ints:
        """Return the cumulative duration up to the end of each."""
        return np.cumsum(self.durations)

    @cached_property
    def _steps(self) -> tuple[Floats, Floats]:
        """Return all edges, and the cumulative duration up to each."""
        edges, sums = np.empty(2 * len(self)), np.empty(2 * len(self))
        edges[0::2], edges[1::2] = self.start - self.start[0], self.end - self.start[0]
        sums[0::2], sums[1::2] = self._sums - self.durations, self._sums
        return edges, sums

    @property
    def total_ns(self) -> int:
        """Return the total duration, in nanoseconds."""
        return int(self.durations.sum())

    @property
    def span(self) -> Intervals:
        """Return the interval from the first start to the last end; empty without intervals."""
        return Intervals(self.start[:1], self.end[-1:])

    def covered(self, times: Ints) -> Floats:
        """Return how much of the time before each of `times` is covered: whole nanoseconds, exact up to 2**53."""
        if not len(self):
            return np.zeros(len(times))
        # Recordings of machines that began months apart span more than the numbers below tell exactly.
        if len(times) * FEW < len(self) or int(self.end[-1]) - int(self.start[0]) > _EXACT:
            found = np.searchsorted(self.start, times, side="right") - 1
            inside = np.minimum(times, self.end[found]) - self.end[found]
            return np.where(found >= 0, self._sums[found] + inside, 0).astype(np.float64)
        # Between two edges the slope is exactly 0 or 1. With sorted times this is faster than a binary search.
        return np.interp(times - self.start[0], *self._steps)

    def common(self, start: Ints, end: Ints) -> Floats:
        """Return how much of each interval from `start` to `end` (which may overlap) is covered, in nanoseconds."""
        return self.covered(end) - self.covered(start)

    def common_ns(self, other: Intervals) -> int:
        """Return how much time is in this set and in the other."""
        if len(other) > len(self):
            return other.common_ns(self)
        return round(float(self.common(other.start, other.end).sum()))

    def complement(self, begin: int, end: int) -> Intervals:
        """Return what is in no interval, from `begin` to `end`."""
        start = np.concatenate((np.array([begin], dtype=np.int64), self.end))
        until = np.concatenate((self.start, np.array([end], dtype=np.int64)))
        start, until = np.clip(start, begin, end), np.clip(until, begin, end)
        keep = start < until
        return Intervals(start[keep], until[keep])

    def between(self) -> Intervals:
        """Return what is between the intervals."""
        return Intervals(self.end[:-1], self.start[1:])

    def within(self, other: Intervals) -> Intervals:
        """Return what is in this set and in the other."""
        starts = np.concatenate((
            self.start[_holds(other, self.start)], other.start[_holds(self, other.start, inside=True)],
        ))
        ends = np.concatenate((
            self.end[_holds_end(other, self.end)], other.end[_holds_end(self, other.end, inside=True)],
        ))
        starts.sort(kind="stable")
        ends.sort(kind="stable")
        return Intervals(starts, ends)

    def minus(self, other: Intervals) -> Intervals:
        """Return what is in this set and not in the other."""
        if not len(self) or not len(other):
            return self
        other = _touching(other, self)
        begin, end = int(self.start[0]), int(self.end[-1])
        return self.within(other.complement(begin, end))


def union(start: Ints, end: Ints) -> Intervals:
    """Return the union of intervals in any order, which may overlap and touch; those of no time are in none."""
    lasting = start < end
    if not lasting.all():
        start, end = start[lasting], end[lasting]
    if not len(start):
        return Intervals(_NONE, _NONE)
    if bool((start[1:] < start[:-1]).any()):
        order = np.argsort(start, kind="stable")
        start, end = start[order], end[order]
    reach = end if bool((end[1:] >= end[:-1]).all()) else np.maximum.accumulate(end)
    apart = start[1:] > reach[:-1]
    if apart.all():
        return Intervals(start, reach)
    first = np.flatnonzero(np.concatenate(([True], apart)))
    last = np.concatenate((first[1:], [len(start)])) - 1
    return Intervals(start[first], reach[last])


def joined(*sets: Intervals) -> Intervals:
    """Return what is in any of the sets."""
    kept = [each for each in sets if len(each)]
    if len(kept) == 1:
        return kept[0]
    return union(*(np.concatenate([getattr(each, name) for each in kept] or [_NONE]) for name in ("start", "end")))


def _holds(holder: Intervals, times: Ints, *, inside: bool = False) -> Bools:
    """Return whether each time is in an interval; with `inside`, its start excluded."""
    if not len(holder):
        return np.zeros(len(times), dtype=np.bool_)
    found = np.searchsorted(holder.start, times, side="left" if inside else "right") - 1
    return (found >= 0) & (times < holder.end[found])


def _holds_end(holder: Intervals, times: Ints, *, inside: bool = False) -> Bools:
    """Return whether each time is an interval's interior or end; with `inside`, its end excluded."""
    if not len(holder):
        return np.zeros(len(times), dtype=np.bool_)
    found = np.searchsorted(holder.start, times, side="left") - 1
    until = holder.end[found]
    return (found >= 0) & ((times < until) if inside else (times <= until))


def _touching(many: Intervals, few: Intervals) -> Intervals:
    """Return the intervals of `many` that overlap `few`, or all where `few` is not much smaller."""
    if len(few) * 8 > len(many):
        return many
    first = np.searchsorted(many.end, few.start, side="right")
    last = np.searchsorted(many.start, few.end, side="left")
    first[1:] = np.maximum(first[1:], last[:-1])
    counts = np.maximum(last - first, 0)
    rows = np.repeat(first - (np.cumsum(counts) - counts), counts) + np.arange(int(counts.sum()))
    return Intervals(many.start[rows], many.end[rows])
