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
    nulls = functools.cache(functools.partial(pa.nulls, rows))  # columns of nulls share what they are made of
    arrays = [_array(name, column, columns.get(column.name), rows, nulls) for column in TABLES[name].columns]
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


@functools.cache
def empty_table(name: str) -> pa.Table:
    """Return the table called `name` without rows."""
    return arrow_schema(name).empty_table()


def _array(table: str, column: Column, values: Any, rows: int, nulls: Callable[[pa.DataType], pa.Array]) -> pa.Array:
    """One column as an Arrow array of the schema's type."""
    wanted = _ARROW_TYPES[column.dtype]
    array: Any
    if values is None:
        if not column.nullable and rows:
            raise ValueError(f"table {table!r} needs column {column.name!r}")
        return nulls(wanted)
    if isinstance(values, np.ndarray) and values.dtype.kind in "iu" and column.nullable:
        mask = values == UNKNOWN
        is_masked = bool(mask.any())
        if is_masked and len(values) == rows and mask.all():
            return nulls(wanted)
        array = pa.array(values, mask=mask if is_masked else None)
        array = array.cast(wanted)
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
