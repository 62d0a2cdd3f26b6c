"""The rows of one table of events of many recordings, kept as columns of numbers until they are put in order of start.

Where each row stands is known only when all are there. Of what one recording has in a column one number is kept where
all of its rows have the same, else an array of the smallest integers that hold it; beyond a budget arrays go to a
scratch file. Rows come out in pieces of a span of time each, so that no more than one piece is made at once.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeAlias, cast

import numpy as np
import pyarrow as pa

from kernelscope.errors import RecordingFileError
from kernelscope.recording.integrity import REFERENCES, own_id
from kernelscope.recording.model import Renumbering
from kernelscope.recording.parquet import arrow_schema, integer_array
from kernelscope.schema import TABLES, UNKNOWN, Column

#: Tables whose rows are in order of start.
IN_ORDER = ("cells", "launches", "activities", "api_calls", "compilations", "builds", "graph_events", "ranges",
            "collections")
#: Those, and the one whose rows stay as they came.
EVENTS = (*IN_ORDER, "passes")
#: Rows of a piece: what is sorted and written at once where there is a scratch file.
_PIECE = 1 << 18
#: Of so many starts one is looked at to place the pieces.
_SAMPLE = 64
#: Bytes of arrays that stay in memory; those that follow go to the scratch file.
_IN_MEMORY = 64 << 20
#: So many slices of a file are read before their memory is given back.
_PARTS = 256
_SMALLER = (np.int8, np.int16, np.int32)


class _Place(NamedTuple):
    """Where an array is in the scratch file."""

    at: int
    dtype: np.dtype[Any]


#: A column of one recording: an array, one number, or where an array is.
_Held: TypeAlias = "np.ndarray | np.generic | _Place"


class Scratch:
    """Where arrays are kept: in memory, and from a size on in a file.

    Parameters
    ----------
    file : binary file, optional
        Without one everything stays in memory.
    """

    def __init__(self, file: BinaryIO | None = None) -> None:
        self.file = file
        self._left = _IN_MEMORY

    def keep(self, values: np.ndarray) -> np.ndarray | _Place:
        """Return a copy of an array, or where it is in the file."""
        if self.file is None or values.nbytes <= self._left:
            self._left -= values.nbytes
            return values.copy()
        place = self.file.tell()
        self.file.write(memoryview(cast("Any", np.ascontiguousarray(values))).cast("B"))
        self.file.flush()
        return _Place(place, values.dtype)

    def read(self, held: _Held, low: int, high: int, into: np.ndarray) -> None:
        """Put some rows of what was kept into an array."""
        if not isinstance(held, _Place):
            into[:] = held[low:high] if isinstance(held, np.ndarray) else held
            return
        assert self.file is not None
        found = into if into.dtype == held.dtype else np.empty(high - low, held.dtype)
        left, place = memoryview(cast("Any", found)).cast("B"), held.at + low * held.dtype.itemsize
        while len(left):
            taken = os.preadv(self.file.fileno(), [left], place)
            if not taken:
                raise RecordingFileError("the scratch file of the merging is cut off: is the disk full?")
            left, place = left[taken:], place + taken
        if found is not into:
            into[:] = found

    def numbers(self, rows: int) -> Numbers:
        """Return room for as many numbers: in a file of its own where there is one and they are many."""
        if self.file is None or rows <= _PIECE:
            return Numbers(np.empty(rows, np.int32))
        with tempfile.TemporaryFile(dir=Path(self.file.name).parent) as file:
            os.posix_fallocate(file.fileno(), 0, rows * 4)  # where the disk is full, now and not in the middle of it
            mapped = mmap.mmap(file.fileno(), 0)
        return Numbers(np.frombuffer(mapped, np.int32), mapped)


class Numbers:
    """Where each row of a table stands: an array of int32, in memory or in a file.

    Parameters
    ----------
    held : ndarray of int32
        The numbers.
    mapped : mmap, optional
        The file.
    """

    def __init__(self, held: np.ndarray, mapped: mmap.mmap | None = None) -> None:
        self._held, self._mapped = held, mapped

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._held)

    def of(self, rows: np.ndarray) -> np.ndarray:
        """Return where some rows stand."""
        return self._held[rows]

    def put(self, low: int, high: int, values: np.ndarray) -> None:
        """Say where the rows from `low` to `high` stand."""
        self._held[low:high] = values

    def slices(self, parts: Sequence[tuple[int, int]]) -> np.ndarray:
        """Return where the rows of some slices stand."""
        found = np.empty(sum(high - low for low, high in parts), np.int32)
        at = 0
        for number, (low, high) in enumerate(parts):
            found[at:at + high - low] = self._held[low:high]
            at += high - low
            if not number % _PARTS:  # Linux maps many pages around the one that is read
                self.release()
        return found

    def release(self) -> None:
        """Give memory back that is the file's."""
        if self._mapped is not None:
            self._mapped.madvise(mmap.MADV_DONTNEED)


class _Part(NamedTuple):
    """Rows of one run that are in a piece: from `low` to `high`, there from `at` on."""

    run: int
    low: int
    high: int
    at: int


class Events:
    """The rows of one table of all recordings: a run of rows a recording.

    Ids of events count the rows as they came; words stand in `_words`.
    """

    def __init__(self, table: str, scratch: Scratch) -> None:
        self._table, self._scratch = table, scratch
        self._columns = [column for column in TABLES[table].columns if column.name != own_id(table)]
        self._dtypes = {column.name: _dtype(column) for column in self._columns}
        self._words: dict[str, dict[str, int]] = {name: {} for name in self._dtypes}
        self._with_nulls: set[str] = set()
        self._runs: list[tuple[_Held, ...]] = []
        self._firsts = [0]
        self._sampled: list[np.ndarray] = []
        self._cuts: np.ndarray = np.zeros((0, 2), np.int64)
        #: Of each row as it came, where it stands.
        self.new = Numbers(np.empty(0, np.int32))

    @property
    def total(self) -> int:
        """How many rows there are."""
        return self._firsts[-1]

    def add(self, rows: pa.Table, place: Mapping[str, Renumbering]) -> None:
        """Keep a recording's rows; `place` says where the rows went that they name."""
        if not rows.num_rows:
            return
        run: list[_Held] = []
        for column in self._columns:
            values = self._numbers(column, rows.column(column.name), place)
            if column.name == "start_ns":
                self._sampled.append(values[::_SAMPLE].copy())
            run.append(_smallest(values, self._scratch))
        self._runs.append(tuple(run))
        self._firsts.append(self.total + rows.num_rows)

    def order(self) -> None:
        """Find where each row stands when those of all recordings are in order of start."""
        counts = np.diff(self._firsts)
        self.new = self._scratch.numbers(self.total)
        bounds = np.empty(0, np.int64)
        if self._scratch.file is not None and self.total > _PIECE:
            starts = np.sort(np.concatenate(self._sampled))
            bounds = np.unique(starts[::max(len(starts) * _PIECE // self.total, 1)][1:])
        self._sampled.clear()
        self._cuts = np.zeros((len(counts), len(bounds) + 2), np.int32)
        self._cuts[:, -1] = counts
        at_start = next(at for at, column in enumerate(self._columns) if column.name == "start_ns")
        for run, count in enumerate(counts.tolist()):
            if len(bounds):
                starts = np.empty(count, np.int64)
                self._scratch.read(self._runs[run][at_start], 0, count, starts)
                self._cuts[run, 1:-1] = np.searchsorted(starts, bounds)
        base = 0
        for piece in range(len(bounds) + 1):
            parts, rows = self._parts(piece)
            starts = self._gathered(at_start, parts, rows)
            new = np.arange(base, base + rows, dtype=np.int32)
            if (starts[1:] < starts[:-1]).any():
                placed = np.empty(rows, np.int32)
                placed[np.argsort(starts, kind="stable")] = new
                new = placed
            for number, (run, low, high, at) in enumerate(parts):
                self.new.put(self._firsts[run] + low, self._firsts[run] + high, new[at:at + high - low])
                if not number % _PARTS:
                    self.new.release()
            base += rows

    def pieces(self, places: Mapping[str, Numbers]) -> Iterator[pa.Table]:
        """Yield the rows in order; `places` says where the rows of tables of events stand."""
        base, schema = 0, arrow_schema(self._table)
        if not len(self._cuts):  # those that are in no order
            self._cuts = np.stack([np.zeros(len(self._runs), np.int32), np.diff(self._firsts)], axis=1)
        words = {name: pa.array(list(held), pa.string()) for name, held in self._words.items()}
        for piece in range(self._cuts.shape[1] - 1):
            parts, rows = self._parts(piece)
            if not rows:
                continue
            order, of_part = None, np.repeat(np.arange(len(parts)), [part.high - part.low for part in parts])
            if len(self.new):
                new = self.new.slices([(self._firsts[run] + low, self._firsts[run] + high)
                                       for run, low, high, _ in parts])
                if (new[1:] < new[:-1]).any():
                    order = np.empty(rows, np.int64)
                    order[new - base] = np.arange(rows)
                    of_part = of_part.take(order)
            arrays: dict[str, pa.Array] = {}
            for at, column in enumerate(self._columns):
                known = [self._runs[part.run][at] for part in parts]
                if all(isinstance(each, np.generic) for each in known):  # of each recording one number
                    values = self._placed(column, np.array(known, self._dtypes[column.name]), places)
                    is_one = bool((values == values[0]).all())
                    values = np.broadcast_to(values[0], rows) if is_one else values.take(of_part)
                else:
                    values = self._gathered(at, parts, rows)
                    values = self._placed(column, values if order is None else values.take(order), places)
                arrays[column.name] = self._arrow(column, values, words[column.name])
            own = own_id(self._table)
            if own is not None:
                arrays[own] = pa.array(np.arange(base, base + rows), schema.field(own).type)
            for each in places.values():
                each.release()
            yield pa.Table.from_arrays([arrays[name] for name in schema.names], schema=schema)
            base += rows

    def _numbers(self, column: Column, values: pa.ChunkedArray, place: Mapping[str, Renumbering]) -> np.ndarray:
        """A column as numbers: ids where they go, words by their number, nulls as `_null`."""
        dtype = self._dtypes[column.name]
        referred = REFERENCES.get(column.name)
        if values.null_count == len(values):
            if referred is None and not _is_text(column):
                self._with_nulls.add(column.name)
                return np.broadcast_to(_null(dtype), len(values))
            return np.broadcast_to(dtype.type(UNKNOWN), len(values))
        if _is_text(column):
            return self._coded(column.name, values)
        if referred is not None:
            ids = (values.fill_null(UNKNOWN) if values.null_count else values).to_numpy()
            return np.append(place[referred], UNKNOWN)[ids]
        if pa.types.is_boolean(values.type):
            values = values.cast(pa.int8())
        if values.null_count:
            self._with_nulls.add(column.name)
            values = values.fill_null(_null(dtype).item())
        return values.to_numpy()

    def _coded(self, name: str, values: pa.ChunkedArray) -> np.ndarray:
        coded = (values if pa.types.is_dictionary(values.type) else values.dictionary_encode())
        coded = coded.unify_dictionaries().combine_chunks()
        words = self._words[name]
        new = [words.setdefault(word, len(words)) for word in coded.dictionary.to_pylist()]
        indices = coded.indices.fill_null(UNKNOWN) if coded.indices.null_count else coded.indices
        return np.array([*new, UNKNOWN], np.int32)[indices.to_numpy(zero_copy_only=False)]

    def _placed(self, column: Column, values: np.ndarray, places: Mapping[str, Numbers]) -> np.ndarray:
        """Ids of events by where these stand; all else as it is."""
        place = places.get(REFERENCES.get(column.name, ""))
        if place is None:
            return values
        known = np.flatnonzero(values >= 0)
        if len(known):
            values = values.copy()
            values[known] = place.of(values[known])
        return values

    def _arrow(self, column: Column, values: np.ndarray, words: pa.Array) -> pa.Array:
        """A column as Arrow has it."""
        wanted = arrow_schema(self._table).field(column.name).type
        if _is_text(column):
            held = pa.DictionaryArray.from_arrays(integer_array(values, pa.int32()), words, safe=False)
            return held if column.dtype == "category" else held.dictionary_decode()
        if column.name in REFERENCES:
            return integer_array(values, wanted)
        mask = None
        if column.name in self._with_nulls:
            mask = np.isnan(values) if column.dtype == "float64" else values == _null(values.dtype)
            if mask.all():
                return pa.nulls(len(values), wanted)
        return pa.array(values, mask=mask).cast(wanted)

    def _parts(self, piece: int) -> tuple[list[_Part], int]:
        """What a piece is made of, and how many rows it has."""
        lows, highs = self._cuts[:, piece], self._cuts[:, piece + 1]
        runs = np.flatnonzero(highs > lows)
        ends = np.cumsum(highs[runs] - lows[runs], dtype=np.int64)
        begins = ends - (highs[runs] - lows[runs])
        return ([_Part(*each) for each in zip(runs.tolist(), lows[runs].tolist(), highs[runs].tolist(),
                                              begins.tolist(), strict=True)], int(ends[-1]) if len(ends) else 0)

    def _gathered(self, column: int, parts: Sequence[_Part], rows: int) -> np.ndarray:
        """A column of all runs in a piece."""
        found = np.empty(rows, self._dtypes[self._columns[column].name])
        for run, low, high, at in parts:
            self._scratch.read(self._runs[run][column], low, high, found[at:at + high - low])
        return found


def _smallest(values: np.ndarray, scratch: Scratch) -> _Held:
    """One number where all are the same, else what was kept of the smallest integers that hold them."""
    if not any(values.strides):
        return values[0]
    low, high = values.min(), values.max()
    if low == high:
        return values[0]
    if values.dtype.kind == "i":
        smaller = (dtype for dtype in _SMALLER if np.iinfo(dtype).min <= low and high <= np.iinfo(dtype).max)
        values = values.astype(next(smaller, values.dtype), copy=False)
    return scratch.keep(values)


def _is_text(column: Column) -> bool:
    return column.dtype in ("string", "category")


def _dtype(column: Column) -> np.dtype[Any]:
    """What a column is kept as."""
    kinds = {"string": np.int32, "category": np.int32, "bool": np.int8}
    return np.dtype(kinds.get(column.dtype, column.dtype))


def _null(dtype: np.dtype[Any]) -> Any:
    """What stands for null in a column that is neither ids nor words: no table may hold it."""
    return np.float64(np.nan) if dtype.kind == "f" else dtype.type(np.iinfo(dtype).min)
