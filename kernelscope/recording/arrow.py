"""The schema in Arrow's terms, and tables made and checked against it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np
import pyarrow as pa

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
        the value `kernelscope.schema.UNKNOWN` (-1) becomes null.
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


def in_range(name: str, records: Sequence[Mapping[str, Any]], left_out: list[str]) -> Sequence[Mapping[str, Any]]:
    """Return the rows of a table without numbers that are out of their column's range.

    A launch can be asked for with any grid, and one that the driver refuses is recorded too. Such a number becomes
    null, or the end of the range in a column without nulls; `left_out` is told of it.
    """
    names = {key for record in records for key in record}
    for column in TABLES[name].columns:
        if column.low is None or column.high is None or column.name not in names:
            continue
        wrong = [at for at, record in enumerate(records) if (value := record.get(column.name)) is not None
                 and not column.low <= value <= column.high]
        if wrong:
            cleaned = [dict(record) for record in records]
            for at in wrong:
                value = cleaned[at][column.name]
                left_out.append(f"{name}.{column.name} {value}")
                end = column.low if value < column.low else column.high
                cleaned[at][column.name] = None if column.nullable else end
            records = cleaned
    return records


def _zeros(rows: int) -> pa.Buffer:
    """Zeros for as many numbers of 64 bits: where they are many, they take no memory until somebody writes to them."""
    return pa.py_buffer(np.zeros(rows, np.int64))


def integer_array(values: np.ndarray, wanted: pa.DataType, zeros: Callable[[int], pa.Buffer] = _zeros) -> pa.Array:
    """Return a column of numbers in which -1 is null; of one that has one value (no strides) no row is looked at."""
    rows = len(values)
    if rows and not any(values.strides):
        if values[0] == UNKNOWN:
            return _nulls(wanted, rows, zeros)
        if values[0] == 0:
            return pa.Array.from_buffers(wanted, rows, [None, zeros(rows)], 0)
    mask = None
    if rows and values.min() < 0:  # most columns have none, and to find that makes no array
        mask = values == UNKNOWN
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
        array = integer_array(values, wanted, zeros)
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
