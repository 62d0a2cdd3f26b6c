"""The rows of one table of events of many recordings, kept as columns of numbers until they are put in order of start.

Where each row stands is known only when all are there. Until then rows are kept in runs, each in order of start: a long
recording is one, and of short ones several, so that ten times as many recordings are not ten times as many runs. Of
what a run has in a column one number is kept where all of its rows have the same, else an array of the smallest
integers that hold it; beyond a budget arrays go to a scratch file. Rows come out in pieces of a span of time each, so
that no more than one piece is made at once.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeAlias, cast

import numpy as np
import pyarrow as pa

from kernelscope.errors import RecordingFileError
from kernelscope.recording.model import Renumbering
from kernelscope.recording.parquet import Followed, arrow_schema, integer_array
from kernelscope.schema import REFERENCES, TABLES, UNKNOWN, Column

#: Tables whose rows are in order of start.
IN_ORDER = ("cells", *(table.name for table in TABLES.values() if table.is_ordered))
#: Those, and the ones whose rows stay as they came.
EVENTS = (*IN_ORDER, *(table.name for table in TABLES.values()
                       if (table.is_event or table.part_of) and not table.is_ordered))
#: Rows of a piece: what is sorted and written at once where there is a scratch file.
_PIECE = 1 << 18
#: Of so many starts one is looked at to place the pieces.
_SAMPLE = 64
#: Bytes of arrays that stay in memory; those that follow go to the scratch file.
_IN_MEMORY = 64 << 20
#: Recordings of fewer rows make a run together, until there are as many rows, or so many recordings.
_RUN, _TOGETHER = 1 << 17, 256
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

    def of(self, rows: np.ndarray) -> np.ndarray:
        """Return where some rows stand."""
        return self._held[rows]

    def put(self, rows: np.ndarray, values: np.ndarray) -> None:
        """Say where some rows stand."""
        self._held[rows] = values

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
    """The rows of one table of all recordings: runs of rows in order of start.

    Ids of events count the rows as they came; words stand in `_words`.
    """

    def __init__(self, table: str, scratch: Scratch) -> None:
        self._table, self._scratch = table, scratch
        self._columns = [column for column in TABLES[table].columns if column.name != TABLES[table].key]
        self._at = {column.name: at for at, column in enumerate(self._columns)}
        self._dtypes = {column.name: _dtype(column) for column in self._columns}
        self._words: dict[str, dict[str, int]] = {name: {} for name in self._dtypes}
        self._with_nulls: set[str] = set()
        self._waiting: list[list[np.ndarray]] = []
        self._runs: list[tuple[_Held, ...]] = []
        # Of each run which of its rows each one was; None where they came in order.
        self._came: list[_Held | None] = []
        self._firsts = [0]
        self._sampled: list[np.ndarray] = []
        self._cuts: np.ndarray = np.zeros((0, 2), np.int64)
        self._follows = Followed(table)
        #: How many rows there are.
        self.total = 0
        #: Tables of events whose rows these name.
        self.named: set[str] = set()
        #: Of each row as it came, where it stands, once `order` was asked for it.
        self.new = Numbers(np.empty(0, np.int32))

    def add(self, rows: pa.Table, place: Mapping[str, Renumbering]) -> None:
        """Keep a recording's rows; `place` says where the rows went that they name."""
        count = rows.num_rows
        if not count:
            return
        if self._waiting and (self.total - self._firsts[-1] + count > _RUN or len(self._waiting) == _TOGETHER):
            self._close()
        run = [_thin(self._numbers(column, rows.column(column.name), place)) for column in self._columns]
        if self._follows.columns:
            ids = {name: run[self._at[name]] for name in ("thread_id", *self._follows.columns)}
            if not any(any(each.strides) for each in ids.values()):  # one thread, and one of each
                ids = {name: each[:1] for name, each in ids.items()}
            self._follows.add(ids["thread_id"], ids)
        self._waiting.append(run)
        self.total += count

    def _close(self) -> None:
        """Make a run of what was added since the last one."""
        if not self._waiting:
            return
        run = [_joined([each[at] for each in self._waiting]) for at in range(len(self._columns))]
        came = None
        if self._table in IN_ORDER:
            starts = run[self._at["start_ns"]]
            if (starts[1:] < starts[:-1]).any():
                came = np.argsort(starts, kind="stable")
                run = [each.take(came) if any(each.strides) else each for each in run]
            self._sampled.append(run[self._at["start_ns"]][::_SAMPLE].copy())
        self._waiting.clear()
        self._runs.append(tuple(_smallest(each, self._scratch) for each in run))
        self._came.append(None if came is None else self._scratch.keep(came.astype(np.int32)))
        self._firsts.append(self.total)

    def order(self, *, is_named: bool) -> None:
        """Find in which pieces each run is, and where each row stands if other rows name it."""
        self._close()
        counts = np.diff(self._firsts)
        bounds = np.empty(0, np.int64)
        if self._scratch.file is not None and self.total > _PIECE:
            starts = np.sort(np.concatenate(self._sampled))
            bounds = np.unique(starts[::max(len(starts) * _PIECE // self.total, 1)][1:])
        self._sampled.clear()
        self._cuts = np.zeros((len(counts), len(bounds) + 2), np.int32)
        self._cuts[:, -1] = counts
        if len(bounds):
            for run, count in enumerate(counts.tolist()):
                starts = np.empty(count, np.int64)
                self._scratch.read(self._runs[run][self._at["start_ns"]], 0, count, starts)
                self._cuts[run, 1:-1] = np.searchsorted(starts, bounds)
        if not is_named:
            return
        self.new = self._scratch.numbers(self.total)
        base = 0
        for piece in range(len(bounds) + 1):
            parts, rows = self._parts(piece)
            order = self._order(parts, rows)
            new = np.arange(base, base + rows, dtype=np.int32)
            if order is not None:
                new[order] = new.copy()
            for run, low, high, at in parts:
                came = np.arange(low, high, dtype=np.int32)
                if (held := self._came[run]) is not None:
                    self._scratch.read(held, low, high, came)
                self.new.put(self._firsts[run] + came, new[at:at + high - low])
            self.new.release()
            base += rows

    def by_thread(self, places: Mapping[str, Numbers]) -> dict[str, np.ndarray]:
        """Return the columns that follow from the thread: see `kernelscope.recording.parquet.by_thread`."""
        return {name: self._placed(self._columns[self._at[name]], ids, places)
                for name, ids in self._follows.found(self.total).items()}

    def pieces(self, places: Mapping[str, Numbers], left_out: Collection[str] = ()) -> Iterator[pa.Table]:
        """Yield the rows in order without some columns; `places` says where the rows of tables of events stand."""
        base = 0
        schema = pa.schema([each for each in arrow_schema(self._table) if each.name not in left_out])
        columns = [(at, column) for at, column in enumerate(self._columns) if column.name not in left_out]
        if not len(self._cuts):  # those that are in no order
            self._close()
            self._cuts = np.stack([np.zeros(len(self._runs), np.int32), np.diff(self._firsts)], axis=1)
        words = {name: pa.array(list(held), pa.string()) for name, held in self._words.items()}
        for piece in range(self._cuts.shape[1] - 1):
            parts, rows = self._parts(piece)
            if not rows:
                continue
            order = self._order(parts, rows)
            of_part = np.repeat(np.arange(len(parts)), [part.high - part.low for part in parts])
            if order is not None:
                of_part = of_part.take(order)
            arrays: dict[str, pa.Array] = {}
            for at, column in columns:
                known = [self._runs[part.run][at] for part in parts]
                if all(isinstance(each, np.generic) for each in known):  # of each run one number
                    values = self._placed(column, np.array(known, self._dtypes[column.name]), places)
                    is_one = bool((values == values[0]).all())
                    values = np.broadcast_to(values[0], rows) if is_one else values.take(of_part)
                else:
                    values = self._gathered(at, parts, rows)
                    values = self._placed(column, values if order is None else values.take(order), places)
                arrays[column.name] = self._arrow(column, values, words[column.name])
            key = TABLES[self._table].key
            if key is not None:
                arrays[key] = pa.array(np.arange(base, base + rows), schema.field(key).type)
            for each in places.values():
                each.release()
            yield pa.Table.from_arrays([arrays[name] for name in schema.names], schema=schema)
            base += rows

    def _order(self, parts: Sequence[_Part], rows: int) -> np.ndarray | None:
        """In which order the rows of a piece's parts are; None where they are in it, and where the table has none."""
        if self._table not in IN_ORDER:
            return None
        starts = self._gathered(self._at["start_ns"], parts, rows)
        # Of runs that are in order each, a stable sort merges them.
        return np.argsort(starts, kind="stable") if (starts[1:] < starts[:-1]).any() else None

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
            self.named.add(referred)
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


def _thin(values: np.ndarray) -> np.ndarray:
    """A column, as one number for all rows where they are the same."""
    if any(values.strides) and values[0] == values[-1] and (values == values[0]).all():
        return np.broadcast_to(values[0], len(values))
    return values


def _joined(columns: Sequence[np.ndarray]) -> np.ndarray:
    """Columns one after the other; one number for all rows where they are the same."""
    if len(columns) == 1:
        return columns[0]
    first = columns[0][0]
    if not any(any(each.strides) or each[0] != first for each in columns):
        return np.broadcast_to(first, sum(len(each) for each in columns))
    return np.concatenate(columns)


def _smallest(values: np.ndarray, scratch: Scratch) -> _Held:
    """One number where all are the same, else what was kept of the smallest integers that hold them."""
    if not any(values.strides):
        return values[0]
    if values.dtype.kind == "i":
        low, high = values.min(), values.max()
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
