"""The schema in Arrow's terms; one table as Parquet bytes and back, measured before it is decoded."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kernelscope.errors import RecordingFileError
from kernelscope.recording.time import null_of
from kernelscope.schema import TABLES, UNKNOWN, Column

_ARROW_TYPES: dict[str, pa.DataType] = {
    "int64": pa.int64(),
    "int32": pa.int32(),
    "float64": pa.float64(),
    "bool": pa.bool_(),
    "string": pa.string(),
    "category": pa.dictionary(pa.int32(), pa.string()),
}


# Schemas and tables do not change: making those of every table again took a third of the time of a short recording.
@functools.cache
def arrow_schema(name: str) -> pa.Schema:
    """Return the Arrow schema of the table called `name`; raises `KeyError` for an unknown one."""
    return pa.schema([
        pa.field(column.name, _ARROW_TYPES[column.dtype], nullable=column.nullable)
        for column in TABLES[name].columns
    ])


def make_table(name: str, columns: Mapping[str, Any], rows: int | None = None) -> pa.Table:
    """Make the table called `name` from columns, with nulls for nullable columns that are left out.

    Parameters
    ----------
    name : str
        A table of `kernelscope.schema.TABLES`.
    columns : mapping of str to array-like
        Arrow arrays, NumPy arrays or lists, all of one length. In a nullable integer column of a NumPy array
        the value `kernelscope.schema.UNKNOWN` (-1) becomes null; in one of instants
        `kernelscope.recording.time.UNKNOWN_INSTANT`.
    rows : int, optional
        How many rows there are; needed only when `columns` is empty.

    Raises
    ------
    ValueError
        A column is not in the schema, has another length, or is null where the schema does not allow it.
    """
    unknown = set(columns) - set(TABLES[name].names)
    if unknown:
        raise ValueError(f"table {name!r} has no column {', '.join(sorted(unknown))}")
    if rows is None:
        rows = len(next(iter(columns.values()))) if columns else 0
    zeros = functools.cache(_zeros)  # columns of nulls and of zeros share what they are made of
    arrays = [_array(name, column, columns.get(column.name), rows, zeros) for column in TABLES[name].columns]
    return pa.Table.from_arrays(arrays, schema=arrow_schema(name))


def table_of_rows(name: str, records: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Make the table called `name` from one mapping a row; a key that is left out is null."""
    unknown = {key for record in records for key in record} - set(TABLES[name].names)
    if unknown:
        raise ValueError(f"table {name!r} has no column {', '.join(sorted(unknown))}")
    columns = {
        column.name: [record.get(column.name) for record in records] for column in TABLES[name].columns
    }
    return make_table(name, columns, rows=len(records))


def recorded_table(name: str, rows: Sequence[Mapping[str, Any]], left_out: list[str]) -> pa.Table:
    """Make the table called `name` from rows as they were recorded, of which the table's own id is the number.

    Keys that the schema does not have are the recorder's own. A launch can be asked for with any grid, and one that the
    driver refuses is recorded too: a number that is out of its column's range becomes null, or the end of the range in
    a column without nulls. So does what a probe writes into an enumeration that has no such value, or the first value
    of that. `left_out` is told of both.
    """
    if not rows:
        return empty_table(name)
    key = TABLES[name].key
    columns: dict[str, Any] = {}
    for column in TABLES[name].columns:
        if column.name == key:
            columns[column.name] = np.arange(len(rows))
            continue
        values = columns[column.name] = [row.get(column.name) for row in rows]
        if column.is_enumeration:
            for at, value in enumerate(values):
                if value is not None and value not in column.values:
                    left_out.append(f"{name}.{column.name} {value!a}")
                    values[at] = None if column.nullable else column.values[0]
        low, high = column.low, column.high
        if low is None or high is None:
            continue
        for at, value in enumerate(values):
            if value is not None and not low <= value <= high:
                left_out.append(f"{name}.{column.name} {value}")
                values[at] = None if column.nullable else low if value < low else high
    return make_table(name, columns)


def _zeros(rows: int) -> pa.Buffer:
    """Zeros for as many numbers of 64 bits: where they are many, they take no memory until somebody writes to them."""
    return pa.py_buffer(np.zeros(rows, np.int64))


def integer_array(values: np.ndarray, wanted: pa.DataType, zeros: Callable[[int], pa.Buffer] = _zeros,
                  null: int = UNKNOWN) -> pa.Array:
    """Return a column of numbers of which the least may be null; of one value (no strides) no row is looked at."""
    rows = len(values)
    if rows and not any(values.strides):
        if values[0] == null:
            return _nulls(wanted, rows, zeros)
        if values[0] == 0:
            return pa.Array.from_buffers(wanted, rows, [None, zeros(rows)], 0)
    mask = None
    if rows and values.min() <= null:  # most columns have none, and to find that makes no array
        mask = values == null
        if mask.all():
            return _nulls(wanted, rows, zeros)
    return pa.array(values, mask=mask).cast(wanted)


def _nulls(wanted: pa.DataType, rows: int, zeros: Callable[[int], pa.Buffer]) -> pa.Array:
    """A column of nulls; those of numbers and of categories are made of zeros."""
    if isinstance(wanted, pa.DictionaryType):
        return pa.DictionaryArray.from_arrays(_nulls(wanted.index_type, rows, zeros), pa.array([], wanted.value_type),
                                              safe=False)
    if not pa.types.is_integer(wanted):
        return pa.nulls(rows, wanted)
    return pa.Array.from_buffers(wanted, rows, [zeros(rows), zeros(rows)], rows)


@functools.cache
def empty_table(name: str) -> pa.Table:
    """Return the table called `name` without rows."""
    return arrow_schema(name).empty_table()


def _array(table: str, column: Column, values: Any, rows: int, zeros: Callable[[int], pa.Buffer]) -> pa.Array:
    """One column as an Arrow array of the schema's type."""
    wanted = _ARROW_TYPES[column.dtype]
    array: Any
    if values is None:
        if not column.nullable and rows:
            raise ValueError(f"table {table!r} needs column {column.name!r}")
        return _nulls(wanted, rows, zeros)
    if isinstance(values, np.ndarray) and values.dtype.kind in "iu" and column.nullable:
        array = integer_array(values, wanted, zeros, null_of(column.name))
    elif isinstance(values, pa.Array | pa.ChunkedArray):
        given = cast("Any", values)
        array = given if given.type == wanted else given.cast(wanted)
        if isinstance(array, pa.ChunkedArray):
            array = array.combine_chunks()
    elif column.dtype == "category":
        array = pa.array(values, pa.string()).dictionary_encode()
    else:
        array = pa.array(values, wanted)
    if len(array) != rows:
        raise ValueError(f"column {table}.{column.name} has {len(array)} rows, not {rows}")
    if array.null_count and not column.nullable:
        raise ValueError(f"column {table}.{column.name} has {array.null_count} nulls and may have none")
    return array


# Structs of Thrift's compact protocol, read by what they may contain.
#
# Parquet's footers and page headers are such structs. pyarrow reads them too, but ends the process where some of
# their values are out of range, so a footer from a file is read here before it is given to pyarrow. Fields that
# are not expected are an error: what no one looks for cannot mean one thing here and another there.

# A field that is expected is one of these types, a dict for a struct of such fields by number, bytes for a struct that
# can be those bytes only, or a list of the one type of its elements. The numbers are those of the protocol; a bool's
# value is in its type, 1 or 2.
BOOL, I16, I32, I64, BINARY = 1, 4, 5, 6, 8

_FALSE, _LIST, _STRUCT = 2, 9, 12
_BITS = {I16: 16, I32: 32, I64: 64}


def read_struct(data: memoryview | bytes, place: int, fields: dict[int, Any], *, after: int = 0,
                until: int = 0) -> tuple[dict[int, Any], int]:
    """Return the struct at `place` as values by field number, and where it ends.

    Parameters
    ----------
    data : memoryview or bytes
        Where it is.
    place : int
        At which byte it begins.
    fields : dict
        What it may contain: for each field number a type, a dict of fields, the bytes of a struct, or a list of one of
        these.
    after, until : int, optional
        Begin behind one field and end behind another.

    Raises
    ------
    ValueError
        It contains something else, a field twice, or an integer that is out of range.
    IndexError
        It does not end within `data`.
    """
    found: dict[int, Any] = {}
    field = after
    while head := data[place]:
        place += 1
        # The long form, with the field's number after the type, is never needed for so few fields; without it the
        # numbers can only rise.
        step, kind = head >> 4, head & 15
        field += step
        expected = fields.get(field)
        if not step or expected is None:
            raise ValueError(f"field {field} is not expected")
        if expected == BOOL:
            if kind not in (BOOL, _FALSE):
                raise ValueError(f"field {field} is not a bool")
            found[field] = kind == BOOL
        elif kind == expected and kind in _BITS and (byte := data[place]) < 128:  # most have one byte
            found[field], place = (byte >> 1) ^ -(byte & 1), place + 1
        elif kind == _STRUCT and isinstance(expected, dict):
            found[field], place = read_struct(data, place, cast("dict[int, Any]", expected))
        else:
            found[field], place = _value(data, place, kind, expected)
        if field == until:
            return found, place
    return found, place + 1


def _value(data: memoryview | bytes, place: int, kind: int, expected: Any) -> tuple[Any, int]:
    wanted = expected if isinstance(expected, int) else _LIST if isinstance(expected, list) else _STRUCT
    if kind != wanted:
        raise ValueError(f"a value of type {kind}, not {wanted}")
    if kind in _BITS:
        value, place = _varint(data, place, _BITS[kind])
        return (value >> 1) ^ -(value & 1), place
    if kind == BINARY:
        size, place = (data[place], place + 1) if data[place] < 128 else _varint(data, place, 32)
        if place + size > len(data):
            raise IndexError(f"{size} bytes of text at byte {place}")
        return bytes(data[place : place + size]), place + size
    if kind == _LIST:
        return _list(data, place, cast("list[Any]", expected)[0])
    if isinstance(expected, bytes):
        return expected, _same(data, place, expected)
    return read_struct(data, place, cast("dict[int, Any]", expected))


def _list(data: memoryview | bytes, place: int, expected: Any) -> tuple[list[Any], int]:
    head = data[place]
    place += 1
    size, kind = head >> 4, head & 15
    if size == 15:
        size, place = _varint(data, place, 32)
    # An element has a byte at least.
    if size > len(data) - place:
        raise IndexError(f"a list of {size} at byte {place}")
    if isinstance(expected, bytes) and kind == _STRUCT:
        return [expected] * size, _same(data, place, expected * size)
    is_number = kind == expected and kind in _BITS
    found: list[Any] = []
    for _ in range(size):
        if is_number and (byte := data[place]) < 128:
            element, place = (byte >> 1) ^ -(byte & 1), place + 1
        elif kind == _STRUCT and isinstance(expected, dict):
            element, place = read_struct(data, place, cast("dict[int, Any]", expected))
        else:
            element, place = _value(data, place, kind, expected)
        found.append(element)
    return found, place


def _same(data: memoryview | bytes, place: int, expected: bytes) -> int:
    """Where bytes end that must be these."""
    end = place + len(expected)
    if data[place:end] != expected:
        raise ValueError(f"a struct at byte {place} is not empty, or not the one that is expected")
    return end


def _varint(data: memoryview | bytes, place: int, bits: int) -> tuple[int, int]:
    """Read an unsigned integer of at most `bits` bits."""
    value = shift = 0
    while True:
        byte = data[place]
        place += 1
        value |= (byte & 127) << shift
        if byte < 128:
            break
        shift += 7
        if shift >= bits:
            raise ValueError("an integer is too long")
    if value >> bits:
        raise ValueError("an integer is too large")
    return value, place


# One table as Parquet bytes and back, with every page measured before one is decoded.
#
# A Parquet file says in four places how much it holds: the schema, the row groups, the column chunks, and the
# header of each page. A decoder believes each where it reads it, so all are read here first and must agree with
# one another, with the manifest, and with a bound on memory. What is accepted is the little that `encode` writes:
# flat columns of the schema's types, zstd or plain, data pages of version 1, no metadata of Arrow's (from which
# extension types would be restored) and no statistics, encryption or other file's chunks.

_ROW_GROUP = 128 * 1024
_MAX_FOOTER_BYTES = 1 << 20
_MAX_SCHEMA_BYTES = 1 << 14
_FIXED_BYTES = {"int64": 8, "int32": 4, "float64": 8, "bool": 1, "string": 8, "category": 4}
_TEXT = ("string", "category")
# Ids of which few are in a long table, each many times, but for those of the table's own rows.
_WHOSE = ("process_id", "cell_id", "thread_id", "line_id", "stack_id", "operator_id", "device_id",
          "dispatcher_id", "specialization_id", "configuration_id")
_MANY_ROWS = 1 << 14
_VERY_MANY_ROWS = 1 << 22

# What follows is from parquet.thrift of parquet-format 2.x: its enums, and its structs as far as `encode` writes them.
_MAGIC = b"PAR1"
_TYPES = {"int64": 2, "int32": 1, "float64": 5, "bool": 0, "string": 6, "category": 6}
_UTF8 = 0
_EMPTY, _STRING = b"\0", b"\x1c\0\0"  # a struct without fields, and one whose field 1 is such a struct
_REQUIRED, _OPTIONAL = 0, 1
_DATA_PAGE, _DICTIONARY_PAGE = 0, 2
_CODECS = (0, 6)  # none, zstd
_PLAIN, _PLAIN_DICTIONARY, _RLE, _DELTA_BINARY_PACKED, _RLE_DICTIONARY = 0, 2, 3, 5, 8
_ENCODINGS = {_PLAIN, _PLAIN_DICTIONARY, _RLE, _DELTA_BINARY_PACKED, _RLE_DICTIONARY}

_COLUMN = {
    1: I32,  # type
    2: [I32],  # encodings
    3: [BINARY],  # path_in_schema
    4: I32,  # codec
    5: I64,  # num_values
    6: I64,  # total_uncompressed_size
    7: I64,  # total_compressed_size
    9: I64,  # data_page_offset
    11: I64,  # dictionary_page_offset
    13: [{1: I32, 2: I32, 3: I32}],  # encoding_stats: page_type, encoding, count
    16: {1: I64, 2: [I64], 3: [I64]},  # size_statistics
}
_ELEMENT = {
    1: I32,  # type
    3: I32,  # repetition_type
    4: BINARY,  # name
    5: I32,  # num_children
    6: I32,  # converted_type
    10: _STRING,  # logicalType
}
_GROUP = {
    1: [{2: I64, 3: _COLUMN}],  # columns: file_offset, meta_data; a file_path would lead to another file
    2: I64,  # total_byte_size
    3: I64,  # num_rows
    5: I64,  # file_offset
    6: I64,  # total_compressed_size
    7: I16,  # ordinal
}
_KEY_VALUE = [{1: BINARY, 2: BINARY}]
_FOOTER: dict[int, Any] = {
    1: I32,  # version
    2: [_ELEMENT],  # schema
    3: I64,  # num_rows
    4: [_GROUP],  # row_groups
    5: _KEY_VALUE,  # key_value_metadata: read to say that it may not be there
    6: BINARY,  # created_by
    7: [_STRING],  # column_orders: each that of the type
}
_PAGE: dict[int, Any] = {
    1: I32,  # type
    2: I32,  # uncompressed_page_size
    3: I32,  # compressed_page_size
    4: I32,  # crc
    5: {1: I32, 2: I32, 3: I32, 4: I32, 5: _EMPTY},  # data page: num_values, encodings of it and levels, no statistics
    7: {1: I32, 2: I32, 3: BOOL},  # dictionary page: num_values, encoding, is_sorted
}


class Budget:
    """How much memory the tables of one file may take when they are decoded.

    The bound grows with the file: launches of a real clock decode to about 10 times their bytes. The floor leaves room
    for regular ones, such as those of a test's clock, which compress a thousandfold.

    Parameters
    ----------
    file_bytes : int
        Size of the file.
    """

    FLOOR_BYTES = 512 << 20
    FACTOR = 100

    def __init__(self, file_bytes: int) -> None:
        self.limit_bytes = max(self.FLOOR_BYTES, self.FACTOR * file_bytes)
        #: What may still be taken.
        self.left_bytes = self.limit_bytes

    def take(self, size: int, what: str) -> None:
        """Count `size` bytes for `what`; raises `RecordingFileError` above the bound."""
        self.left_bytes -= size
        if self.left_bytes < 0:
            raise RecordingFileError(
                f"{what} would take more than the {self.limit_bytes >> 20} MiB of memory "
                f"that are allowed for a file of its size"
            )


# Of many processes, whose rows come in any order, the process, cell and device of a row are what a file is longest by,
# although a thread has one process, and mostly one cell and one GPU. Where each thread has one in all rows of a long
# table, the file has them by thread, and not the column.

#: Ids, by thread and with -1 for null, of columns that a table's file does not have.
ByThread = Mapping[str, np.ndarray]
_BY_THREAD = ("process_id", "cell_id", "device_id")
#: Of more threads the manifest would be too large.
_MAX_THREADS = 1 << 13
_UNSEEN = -2


def may_follow(name: str) -> tuple[str, ...]:
    """Return the columns of a table that its file may have by thread."""
    if "thread_id" not in TABLES[name].names:
        return ()
    return tuple(column.name for column in TABLES[name].columns if column.name in _BY_THREAD and column.nullable)


class Followed:
    """Finds the columns of a table that follow from the thread, as its rows come."""

    def __init__(self, name: str) -> None:
        # By thread; the last is that of rows without one.
        self._held = {column: np.array([UNKNOWN], np.int64) for column in may_follow(name)}

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that have one id a thread in all rows until now."""
        return tuple(self._held)

    def add(self, threads: np.ndarray, columns: Mapping[str, np.ndarray]) -> None:
        """Look at further rows: their threads, and of each of `columns` the ids; -1 is null in both."""
        most = int(threads.max(initial=UNKNOWN)) + 1
        for column, held in tuple(self._held.items()):
            if most >= len(held):
                held = np.concatenate([held[:-1], np.full(most + 1 - len(held), _UNSEEN), held[-1:]])
            ids, before = columns[column], held[threads]
            held[threads] = np.where(before == _UNSEEN, ids, before)
            if most > _MAX_THREADS or (held[threads] != ids).any():
                del self._held[column]
            else:
                self._held[column] = held

    def found(self, rows: int) -> dict[str, np.ndarray]:
        """Return the ids by thread of the columns that need not be in the file of a table of so many rows."""
        if rows < _MANY_ROWS:
            return {}
        # One id in all rows takes no room as it is, and any reader of Parquet has it.
        return {column: np.where(held[:-1] == _UNSEEN, UNKNOWN, held[:-1]) for column, held in self._held.items()
                if len(np.unique(held[:-1][held[:-1] != _UNSEEN])) > 1}


def by_thread(name: str, table: pa.Table) -> ByThread:
    """Return the ids by thread of the columns that need not be in a table's file."""
    if table.num_rows < _MANY_ROWS or not may_follow(name):
        return {}
    found = Followed(name)
    ids = {column: table.column(column).fill_null(UNKNOWN).to_numpy() for column in ("thread_id", *found.columns)}
    found.add(ids["thread_id"], ids)
    return found.found(table.num_rows)


def _followed(name: str, ids: np.ndarray, threads: pa.ChunkedArray, wanted: pa.DataType) -> pa.Array:
    """A column by thread as one of a table; the threads are checked against nothing yet."""
    at = threads.fill_null(UNKNOWN).to_numpy()
    if at.min() < UNKNOWN or at.max() >= len(ids):
        raise RecordingFileError(f"column {name} is known of {len(ids)} threads, and a row has thread "
                                 f"{at.min() if at.min() < UNKNOWN else at.max()}")
    return integer_array(np.append(ids, UNKNOWN).astype(np.int32)[at], wanted)


def encode(name: str, table: pa.Table, left_out: Collection[str] = ()) -> pa.Buffer:
    """Return the table called `name` as the bytes of a Parquet file; see `writer`."""
    sink = pa.BufferOutputStream()
    with writer(name, sink, table.num_rows, left_out) as held:
        held.write_table(table)
    return sink.getvalue()


@dataclass(frozen=True)
class Writer:
    """Writes a table to a file, in pieces."""

    schema: pa.Schema
    file: pq.ParquetWriter

    def write_table(self, table: pa.Table) -> None:
        """Write a piece of the table, as row groups of its own."""
        # Without rows there is no row group: an empty one has chunks that lie nowhere.
        if table.num_rows:
            columns = [table.column(column) for column in self.schema.names]
            self.file.write_table(pa.Table.from_arrays(columns, schema=self.schema), row_group_size=_ROW_GROUP)


@contextmanager
def writer(name: str, sink: Any, rows: int, left_out: Collection[str] = ()) -> Generator[Writer]:
    """Write the table called `name`, of so many rows, to `sink` as a Parquet file without the columns `left_out`.

    Row groups have 128k rows and are compressed with zstd; integers are DELTA_BINARY_PACKED, text has dictionaries. So
    have ids in long tables that say whose a row is: there are few, and many processes come in any order.
    """
    columns = [column for column in TABLES[name].columns if column.name not in left_out]
    schema = pa.schema([arrow_schema(name).field(column.name) for column in columns])
    whose = {*_WHOSE} - {TABLES[name].key} if rows >= _MANY_ROWS else ()
    coded = {column.name for column in columns if column.dtype in _TEXT or column.name in whose}
    with pq.ParquetWriter(
        sink,
        schema,
        compression="zstd",
        # A list is allowed, though pyarrow's signature says bool.
        use_dictionary=cast("Any", [column.name for column in columns if column.name in coded]),
        column_encoding={
            column.name: "DELTA_BINARY_PACKED" for column in columns
            if column.dtype in ("int64", "int32") and column.name not in coded
        },
        write_statistics=False,
        store_schema=False,
    ) as file:
        yield Writer(schema, file)


def fixed_bytes(rows: Mapping[str, int]) -> int:
    """Return the bytes that so many rows of the tables of these names take in memory, without the text they hold."""
    return sum([count * _row_bytes(name) for name, count in rows.items()])


@functools.cache
def _row_bytes(name: str) -> int:
    return sum(_FIXED_BYTES[column.dtype] for column in TABLES[name].columns)


def decode(name: str, data: memoryview, rows: int, budget: Budget, followed: ByThread = MappingProxyType({})
           ) -> pa.Table:
    """Return the table called `name` from the bytes of a Parquet file; a column that was added since reads as null.

    Parameters
    ----------
    name : str
        A table of `kernelscope.schema.TABLES`.
    data : memoryview
        The bytes.
    rows : int
        The rows it must have.
    budget : Budget
        Charged with the uncompressed size of the pages, before they are decoded, and with decoded text.
    followed : mapping of str to array, optional
        Columns that the file does not have, by thread: see `by_thread`.

    Raises
    ------
    RecordingFileError
        A column without nulls is missing, or anything else is not as `encode` writes it. The message names the table,
        not the file.
    """
    key = (name, rows, bytes(data)) if len(data) <= _REPEATED_BYTES and not followed else None
    repeated = None if key is None else _repeated.get(key)  # one look: another thread may clear it meanwhile
    if repeated is not None:
        table, taken = repeated
        budget.take(taken, f"table {name!r}")
        return table
    left = budget.left_bytes
    table = _decoded(name, data, rows, budget, followed)
    if key is not None and table.nbytes <= _REPEATED_BYTES:
        if len(_repeated) >= _MAX_REPEATED:
            _repeated.clear()
        _repeated[key] = table, left - budget.left_bytes
    return table


# Files of one program's processes have many small tables, empty ones above all, in the very same bytes: by name, rows
# and bytes what they held, and what was taken from the budget.
_repeated: dict[Any, tuple[pa.Table, int]] = {}
_REPEATED_BYTES, _MAX_REPEATED = 1 << 14, 128


def _decoded(name: str, data: memoryview, rows: int, budget: Budget, followed: ByThread) -> pa.Table:
    footer = _footer(name, data)
    try:
        columns = _stored_columns(name, footer[2])
        if footer[3] != rows:
            raise RecordingFileError(f"table {name!r} has {footer[3]} rows; the manifest says {rows}")
        for twice in set(followed) & {column.name for column in columns}:
            raise RecordingFileError(f"column {name}.{twice} is in its table and by thread in the manifest")
        _check_chunks(name, columns, data, footer, budget)
    except (LookupError, ValueError) as error:
        raise RecordingFileError(f"table {name!r} has a damaged footer") from error
    if not rows:
        return empty_table(name)
    text = [column.name for column in columns if column.dtype in _TEXT]
    try:
        # Text is read as dictionaries: a row costs an index, however often a hostile page repeats a long string.
        with pq.ParquetFile(pa.py_buffer(data), read_dictionary=text) as file:
            return pa.Table.from_arrays([*_columns(name, columns, file, rows, budget, followed)],
                                        schema=arrow_schema(name))
    except RecordingFileError:
        raise
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise RecordingFileError(f"table {name!r} cannot be decoded: {ascii(reason[:200])[1:-1]}") from error


def _columns(name: str, stored: Sequence[Column], file: pq.ParquetFile, rows: int, budget: Budget,
             followed: ByThread) -> Iterator[Any]:
    """Yield the columns of a table; those without any value share what they are made of, and take no memory."""
    names = {column.name for column in stored}
    # Of few rows, to share the columns out takes longer. Of very many, columns decode one after another, and what one
    # needed only meanwhile goes back before the next: together they would take twice the memory.
    together = file.read(use_threads=rows > _ROW_GROUP) if rows < _VERY_MANY_ROWS else None
    zeros = functools.cache(_zeros)
    for column in TABLES[name].columns:
        values: Any = None
        source = "thread_id" if column.name in followed else column.name
        if source in names:
            held = file.read(columns=[source], use_threads=False) if together is None else together
            values = held.column(source)
            if column.name in followed:
                values = _followed(f"{name}.{column.name}", followed[column.name], values, _ARROW_TYPES[column.dtype])
            elif column.dtype in _TEXT:
                values = _text(column.dtype, values, budget)
        if values is None or values.null_count == rows:
            values = _nulls(_ARROW_TYPES[column.dtype], rows, zeros)
        yield values
        if together is None:
            held = values = None
            pa.default_memory_pool().release_unused()


_NOTHING: dict[int, Any] = {}
# By table, with which bytes the footer that was read last began, up to its schema, and what they say.
_schemas: dict[str, tuple[bytes, dict[int, Any]]] = {}


def _footer(name: str, data: memoryview) -> dict[int, Any]:
    """The footer's values by field number; what `encode` does not write is not in it, or refused."""
    if len(data) < 12 or bytes(data[:4]) != _MAGIC or bytes(data[-4:]) != _MAGIC:
        raise RecordingFileError(f"table {name!r} is not a Parquet file")
    size = int.from_bytes(data[-8:-4], "little")
    if size > min(len(data) - 12, _MAX_FOOTER_BYTES):
        raise RecordingFileError(f"table {name!r} has a footer of {size} bytes")
    held = bytes(data[-8 - size : -8])
    try:
        # A footer begins with the schema, which is the same in nearly every file of a table.
        begin, known = _schemas.get(name, (b"", _NOTHING))
        if not begin or not held.startswith(begin):
            known, place = read_struct(held, 0, _FOOTER, until=2)
            begin = held[:place]
            if 2 in known and len(begin) < _MAX_SCHEMA_BYTES:
                _schemas[name] = begin, known
        found, end = read_struct(held, len(begin), _FOOTER, after=2) if 2 in known else ({}, len(begin))
        footer = {**known, **found}
    except (IndexError, ValueError) as error:
        raise RecordingFileError(f"table {name!r} has a damaged footer, or one of another program: {error}") from None
    if end != size:
        raise RecordingFileError(f"table {name!r} has a damaged footer")
    if 5 in footer:
        # Arrow restores types, those of extensions too, from a key in here.
        raise RecordingFileError(f"table {name!r} carries metadata, from which types would be restored")
    return footer


def _stored_columns(name: str, schema: list[dict[int, Any]]) -> tuple[Column, ...]:
    """Return the columns that a file has, in the schema's order: all but nullable ones that were added after it."""
    root, *elements = schema
    names = [element[4].decode() for element in elements]
    stored = set(names)
    columns = tuple(column for column in TABLES[name].columns if column.name in stored)
    for column in TABLES[name].columns:
        if not column.nullable and column.name not in stored:
            raise RecordingFileError(f"table {name!r} has no column {column.name!r}")
    if names != [column.name for column in columns]:
        extra = [found for found in names if found not in TABLES[name].names] or names
        raise RecordingFileError(f"table {name!r} has a column {extra[0][:60]!a} too many or out of its place")
    if root.get(5) != len(elements) or [element for element in elements if 5 in element]:
        raise RecordingFileError(f"table {name!r} has nested columns")
    for column, element in zip(columns, elements, strict=True):
        kind = _TYPES[column.dtype], *((_UTF8, _STRING) if column.dtype in _TEXT else (None, None))
        if (element.get(1), element.get(6), element.get(10)) != kind:
            raise RecordingFileError(f"column {name}.{column.name} is not of type {column.dtype}")
        if element.get(3) != (_OPTIONAL if column.nullable else _REQUIRED):
            allowed = "may be null" if column.nullable else "may not be null"
            raise RecordingFileError(f"column {name}.{column.name} {allowed}, and the file says otherwise")
    return columns


def _check_chunks(name: str, columns: Sequence[Column], data: memoryview, footer: dict[int, Any],
                  budget: Budget) -> None:
    """Check that the column chunks lie one after the other and hold the pages and rows that they claim."""
    end, rows = len(_MAGIC), 0
    for group in footer[4]:
        rows += group[3]
        for column, chunk in zip(columns, group[1], strict=True):
            where = f"column {name}.{column.name}"
            found = chunk[3]
            begin = found.get(11, found[9])
            size = found[7]
            if begin < end or begin > found[9] or size < 0 or begin + size > len(data) - 8:
                raise RecordingFileError(f"{where} lies outside its place, at byte {begin} of the table")
            end = begin + size
            if found[5] != group[3] or group[3] < 1:
                raise RecordingFileError(f"{where} has {found[5]} values for {group[3]} rows")
            used, pages = set(found[2]), set[int]()
            for counted in found.get(13, ()):
                pages.add(counted[1])
                used.add(counted[2])
            if (
                found[1] != _TYPES[column.dtype]
                or found[3] != [column.name.encode()]
                or found[4] not in _CODECS
                or not used <= _ENCODINGS
                or not pages <= {_DATA_PAGE, _DICTIONARY_PAGE}
            ):
                raise RecordingFileError(f"{where} has a type, codec or encoding that no kernelscope writes")
            budget.take(max(found[6], 0), where)
            _check_pages(where, data[begin:end], found)
    if rows != footer[3]:
        raise RecordingFileError(f"table {name!r} has {rows} rows in its row groups, not {footer[3]}")


def _check_pages(where: str, data: memoryview, chunk: dict[int, Any]) -> None:
    """Walk a column chunk's pages, which must add up to what the chunk says they inflate to."""
    place, values, inflated = 0, 0, 0
    while place < len(data):
        try:
            header, body = read_struct(data, place, _PAGE)
        except (IndexError, ValueError):
            raise RecordingFileError(f"{where} has a damaged page header, at byte {place} of its chunk") from None
        kind, uncompressed, compressed = header.get(1, -1), header.get(2, -1), header.get(3, -1)
        details: dict[int, Any] = header.get(5 if kind == _DATA_PAGE else 7, {})
        count = details.get(1, -1)
        if kind == _DATA_PAGE:
            sound = details.get(2) in _ENCODINGS and details.get(3) == details.get(4) == _RLE
            values += max(count, 0)
        else:
            sound = kind == _DICTIONARY_PAGE and place == 0 and details.get(2) in (_PLAIN, _PLAIN_DICTIONARY)
        if not sound or min(uncompressed, compressed, count) < 0 or body + compressed > len(data):
            raise RecordingFileError(f"{where} has a page that no kernelscope writes, at byte {place} of its chunk")
        inflated += uncompressed + body - place
        place = body + compressed
    if inflated != chunk[6]:
        raise RecordingFileError(f"{where} says that it inflates to {chunk[6]} bytes, its pages to {inflated}")
    if values != chunk[5]:
        raise RecordingFileError(f"{where} has {chunk[5]} values, its pages {values}")


def _text(dtype: str, column: pa.ChunkedArray, budget: Budget) -> pa.ChunkedArray:
    """One decoded column of text, read as dictionaries, in the schema's type."""
    column.validate(full=True)
    if dtype == "category":
        # One dictionary for all row groups, so that codes compare across them.
        return pa.chunked_array([column.unify_dictionaries().combine_chunks()]) if column.num_chunks > 1 else column
    for chunk in column.chunks:
        lengths = pc.call_function("binary_length", [chunk.dictionary]).to_numpy(zero_copy_only=False).astype(np.int64)
        used = chunk.indices.drop_null().to_numpy()
        budget.take(int(lengths[used].sum()), "its text")
    return column.cast(pa.string())
