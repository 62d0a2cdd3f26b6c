from __future__ import annotations

import re

import pytest

from kernelscope.schema import SCHEMA_VERSION, TABLES, UNKNOWN, Column, Neutral

DTYPES = {"int64", "int32", "float64", "bool", "string", "category"}

COLUMNS = [(table, column) for table in TABLES.values() for column in table.columns]


def test_names_are_distinct_and_say_what_a_column_holds() -> None:
    """Whoever reads a recording goes by them: units, ids of rows, paths."""
    for name, table in TABLES.items():
        assert table.name == name and len(set(table.names)) == len(table.columns) > 0
    for table, column in COLUMNS:
        assert re.fullmatch(r"[a-z][a-z0-9_]*", column.name)
        assert column.dtype in DTYPES and column.unit in ("", "ns", "bytes")
        for unit in ("ns", "bytes"):
            assert column.name.endswith(f"_{unit}") == (column.unit == unit), column.name
        assert not column.name.endswith("_id") or column.dtype in ("int32", "int64")
        assert not column.is_path or column.dtype == "string"
        assert len(set(column.values)) == len(column.values)
        assert not column.values or column.dtype in ("string", "category")
        assert not column.is_enumeration or all(value in column.meaning for value in column.values), column.name
        if column.name == ("launch_id" if table.name == "launches" else f"{table.name.removesuffix('s')}_id"):
            assert table.columns[0] is column and not column.nullable


def test_launch_ids_have_one_dtype() -> None:
    assert {column.dtype for _, column in COLUMNS if "launch_id" in column.name} == {"int64"}


def test_column_is_found_by_name() -> None:
    assert TABLES["threads"].column("name") == Column("name", "string", "text", TABLES["threads"].columns[2].meaning,
                                                      nullable=True, values=("MainThread",), is_open=True,
                                                      redaction=Neutral("thread"))
    with pytest.raises(KeyError, match="table 'threads' has no column 'nothing'; it has thread_id, ident, name"):
        TABLES["threads"].column("nothing")


def test_version_and_unknown_are_what_files_and_buffers_hold() -> None:
    assert SCHEMA_VERSION == 7
    assert UNKNOWN == -1
