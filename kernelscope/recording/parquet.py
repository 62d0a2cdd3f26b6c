"""One table as Parquet bytes and back, with every page measured before one is decoded.

A Parquet file says in four places how much it holds: the schema, the row groups, the column chunks, and the header of
each page. A decoder believes each where it reads it, so all are read here first and must agree with one another, with
the manifest, and with a bound on memory. What is accepted is the little that `encode` writes: flat columns of the
schema's types, zstd or plain, data pages of version 1, no metadata of Arrow's (from which extension types would be
restored) and no statistics, encryption or other file's chunks.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kernelscope.errors import RecordingFileError
from kernelscope.recording.arrow import arrow_schema
from kernelscope.schema import TABLES

_ROW_GROUP = 128 * 1024
_MAX_FOOTER_BYTES = 4 << 20

_MAGIC = b"PAR1"
_PHYSICAL = {
    "int64": ("INT64", "NONE"),
    "int32": ("INT32", "NONE"),
    "float64": ("DOUBLE", "NONE"),
    "bool": ("BOOLEAN", "NONE"),
    "string": ("BYTE_ARRAY", "STRING"),
    "category": ("BYTE_ARRAY", "STRING"),
}
_FIXED_BYTES = {"int64": 8, "int32": 4, "float64": 8, "bool": 1, "string": 8, "category": 4}
_TEXT = ("string", "category")

# Enums of parquet.thrift: PageType, Encoding.
_DATA_PAGE, _DICTIONARY_PAGE = 0, 2
_PLAIN, _PLAIN_DICTIONARY, _RLE, _DELTA_BINARY_PACKED, _RLE_DICTIONARY = 0, 2, 3, 5, 8
_VALUE_ENCODINGS = {_PLAIN, _PLAIN_DICTIONARY, _RLE, _DELTA_BINARY_PACKED, _RLE_DICTIONARY}

# Thrift's compact protocol: the types of fields, and the fields of a page header that `encode` writes.
_TRUE, _FALSE, _I32, _STRUCT = 1, 2, 5, 12
_HEADER_FIELDS: dict[int, Any] = {
    1: _I32,  # type
    2: _I32,  # uncompressed_page_size
    3: _I32,  # compressed_page_size
    4: _I32,  # crc
    5: {1: _I32, 2: _I32, 3: _I32, 4: _I32, 5: {}},  # data page: num_values, encodings of it and levels, no statistics
    7: {1: _I32, 2: _I32, 3: _TRUE},  # dictionary page: num_values, encoding, is_sorted
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
        self._left = self.limit_bytes

    def take(self, size: int, what: str) -> None:
        """Count `size` bytes for `what`; raises `RecordingFileError` above the bound."""
        self._left -= size
        if self._left < 0:
            raise RecordingFileError(
                f"{what} would take more than the {self.limit_bytes >> 20} MiB of memory "
                f"that are allowed for a file of its size"
            )


def encode(name: str, table: pa.Table) -> pa.Buffer:
    """Return the table called `name` as the bytes of a Parquet file.

    Row groups have 128k rows and are compressed with zstd; integers are DELTA_BINARY_PACKED, text has dictionaries.
    """
    columns = TABLES[name].columns
    schema = arrow_schema(name)
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(
        sink,
        schema,
        compression="zstd",
        # A list is allowed, though pyarrow's signature says bool.
        use_dictionary=cast("Any", [column.name for column in columns if column.dtype in _TEXT]),
        column_encoding={
            column.name: "DELTA_BINARY_PACKED" for column in columns if column.dtype in ("int64", "int32")
        },
        write_statistics=False,
        store_schema=False,
    ) as writer:
        # Without rows there is no row group: an empty one has chunks that lie nowhere.
        if table.num_rows:
            writer.write_table(pa.Table.from_arrays(table.columns, schema=schema), row_group_size=_ROW_GROUP)
    return sink.getvalue()


def fixed_bytes(name: str, rows: int) -> int:
    """Return the bytes that `rows` rows of the table called `name` take in memory, without the text they hold."""
    return rows * sum(_FIXED_BYTES[column.dtype] for column in TABLES[name].columns)


def decode(name: str, data: memoryview, rows: int, budget: Budget) -> pa.Table:
    """Return the table called `name` from the bytes of a Parquet file.

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

    Raises
    ------
    RecordingFileError
        Anything about it is not as `encode` writes it. The message names the table, not the file.
    """
    _check_frame(name, data)
    text = [column.name for column in TABLES[name].columns if column.dtype in _TEXT]
    try:
        # Text is read as dictionaries: a row costs an index, however often a hostile page repeats a long string.
        with pq.ParquetFile(pa.py_buffer(data), read_dictionary=text) as file:
            _check_schema(name, file.metadata)
            if file.metadata.num_rows != rows:
                raise RecordingFileError(
                    f"table {name!r} has {file.metadata.num_rows} rows; the manifest says {rows}"
                )
            _check_chunks(name, data, file.metadata, budget)
            table = file.read()
        arrays = [_column(column.dtype, table.column(column.name), budget) for column in TABLES[name].columns]
        return pa.Table.from_arrays(arrays, schema=arrow_schema(name))
    except RecordingFileError:
        raise
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise RecordingFileError(f"table {name!r} cannot be decoded: {ascii(reason[:200])[1:-1]}") from error


def _check_frame(name: str, data: memoryview) -> None:
    """Check the ends of the file, and that its footer is small and restores no types of Arrow's."""
    if len(data) < 12 or bytes(data[:4]) != _MAGIC or bytes(data[-4:]) != _MAGIC:
        raise RecordingFileError(f"table {name!r} is not a Parquet file")
    size = int.from_bytes(data[-8:-4], "little")
    if size > min(len(data) - 12, _MAX_FOOTER_BYTES):
        raise RecordingFileError(f"table {name!r} has a footer of {size} bytes")
    if b"ARROW:" in bytes(data[len(data) - 8 - size : len(data) - 8]):
        # Arrow reads this key when it opens a file, so it is looked for beforehand.
        raise RecordingFileError(f"table {name!r} carries metadata of Arrow's, from which types would be restored")


def _check_schema(name: str, metadata: Any) -> None:
    if metadata.metadata:
        raise RecordingFileError(f"table {name!r} carries metadata of its own")
    found = [metadata.schema.column(index) for index in range(metadata.num_columns)]
    names = [column.path for column in found]
    wanted = TABLES[name].names
    for missing in [column for column in wanted if column not in names][:1]:
        raise RecordingFileError(f"table {name!r} has no column {missing!r}")
    if tuple(names) != wanted:
        extra = [column for column in names if column not in wanted] or names
        raise RecordingFileError(f"table {name!r} has a column {extra[0][:60]!a} too many or out of its place")
    for column, there in zip(TABLES[name].columns, found, strict=True):
        kind = (there.physical_type, there.logical_type.type)
        if kind != _PHYSICAL[column.dtype]:
            raise RecordingFileError(
                f"column {name}.{column.name} is {'/'.join(kind)}, not {'/'.join(_PHYSICAL[column.dtype])}"
            )
        if there.max_repetition_level or there.max_definition_level != int(column.nullable):
            allowed = "may be null" if column.nullable else "may not be null"
            raise RecordingFileError(f"column {name}.{column.name} {allowed}, and the file says otherwise")


def _check_chunks(name: str, data: memoryview, metadata: Any, budget: Budget) -> None:
    """Check that the column chunks lie one after the other and hold the pages and rows that they claim."""
    end, rows = len(_MAGIC), 0
    for group_index in range(metadata.num_row_groups):
        group = metadata.row_group(group_index)
        rows += group.num_rows
        for index in range(metadata.num_columns):
            chunk = group.column(index)
            where = f"column {name}.{TABLES[name].columns[index].name}"
            begin = chunk.data_page_offset
            if chunk.has_dictionary_page and chunk.dictionary_page_offset:
                begin = min(begin, chunk.dictionary_page_offset)
            size = chunk.total_compressed_size
            if begin < end or size < 0 or begin + size > len(data) - 8 or chunk.file_path:
                raise RecordingFileError(f"{where} lies outside its place, at byte {begin} of the table")
            end = begin + size
            if chunk.num_values != group.num_rows or group.num_rows < 0:
                raise RecordingFileError(f"{where} has {chunk.num_values} values for {group.num_rows} rows")
            if chunk.compression not in ("ZSTD", "UNCOMPRESSED"):
                raise RecordingFileError(f"{where} is compressed with {chunk.compression}")
            budget.take(max(chunk.total_uncompressed_size, 0), where)
            _check_pages(where, data[begin:end], chunk)
    if rows != metadata.num_rows:
        raise RecordingFileError(f"table {name!r} has {rows} rows in its row groups, not {metadata.num_rows}")


def _check_pages(where: str, data: memoryview, chunk: Any) -> None:
    """Walk a column chunk's pages, which must add up to what the chunk says they inflate to."""
    place, values, inflated = 0, 0, 0
    while place < len(data):
        header, body = _page_header(where, data, place)
        kind, uncompressed, compressed = (header.get(field, -1) for field in (1, 2, 3))
        details: dict[int, int] = header.get(5 if kind == _DATA_PAGE else 7, {})
        if kind == _DATA_PAGE:
            sound = details.get(2) in _VALUE_ENCODINGS and details.get(3) == details.get(4) == _RLE
            values += max(details.get(1, -1), 0)
        else:
            sound = kind == _DICTIONARY_PAGE and place == 0 and details.get(2) in (_PLAIN, _PLAIN_DICTIONARY)
        if not sound or uncompressed < 0 or compressed < 0 or body + compressed > len(data):
            raise RecordingFileError(f"{where} has a page that no kernelscope writes, at byte {place} of its chunk")
        inflated += uncompressed + body - place
        place = body + compressed
    if inflated != chunk.total_uncompressed_size:
        raise RecordingFileError(
            f"{where} says that it inflates to {chunk.total_uncompressed_size} bytes, its pages to {inflated}"
        )
    if values != chunk.num_values:
        raise RecordingFileError(f"{where} has {chunk.num_values} values, its pages {values}")


def _page_header(where: str, data: memoryview, place: int) -> tuple[dict[int, Any], int]:
    """The page header at `place`, as values by field number, and where it ends."""
    try:
        return _struct(data, place, _HEADER_FIELDS)
    except (IndexError, ValueError):
        raise RecordingFileError(f"{where} has a damaged page header, at byte {place} of its chunk") from None


def _struct(data: memoryview, place: int, fields: dict[int, Any]) -> tuple[dict[int, Any], int]:
    """Read a Thrift struct of 32-bit integers, bools and such structs; anything not in `fields` is an error."""
    found: dict[int, Any] = {}
    field = 0
    while True:
        head = data[place]
        place += 1
        if not head:
            return found, place
        # The long form, with the field's number after the type, is never needed for so few fields.
        step, kind = head >> 4, head & 15
        field += step
        expected = fields.get(field)
        if not step or expected is None:
            raise ValueError(field)
        if isinstance(expected, dict) and kind == _STRUCT:
            found[field], place = _struct(data, place, expected)
        elif expected == _I32 == kind:
            found[field], place = _int32(data, place)
        elif expected == _TRUE and kind in (_TRUE, _FALSE):
            found[field] = kind == _TRUE
        else:
            raise ValueError(kind)


def _int32(data: memoryview, place: int) -> tuple[int, int]:
    """Read a zigzag varint of at most 32 bits."""
    value = shift = 0
    while True:
        byte = data[place]
        place += 1
        value |= (byte & 127) << shift
        if byte < 128:
            break
        shift += 7
    if value >> 32 or shift > 28:
        raise ValueError(value)
    return (value >> 1) ^ -(value & 1), place


def _column(dtype: str, column: pa.ChunkedArray, budget: Budget) -> pa.ChunkedArray:
    """One decoded column in the schema's type; text was read as dictionaries."""
    if dtype not in _TEXT:
        return column
    column.validate(full=True)
    if dtype == "category":
        # One dictionary for all row groups, so that codes compare across them.
        return pa.chunked_array([column.unify_dictionaries().combine_chunks()]) if column.num_chunks > 1 else column
    for chunk in column.chunks:
        lengths = pc.call_function("binary_length", [chunk.dictionary]).to_numpy(zero_copy_only=False).astype(np.int64)
        used = chunk.indices.drop_null().to_numpy()
        budget.take(int(lengths[used].sum()), "its text")
    return column.cast(pa.string())
