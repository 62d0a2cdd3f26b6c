from __future__ import annotations

import re

import pytest

from kernelscope.schema import SCHEMA_VERSION, TABLES, UNKNOWN, Column, Table

DTYPES = {"int64", "int32", "float64", "bool", "string", "category"}

each_table = pytest.mark.parametrize("table", TABLES.values(), ids=list(TABLES))


@each_table
def test_table_is_described(table: Table) -> None:
    assert TABLES[table.name] is table
    assert re.fullmatch(r"[a-z_]+", table.name)
    assert table.row.startswith("one ")
    assert len(set(table.names)) == len(table.columns) > 0


@each_table
def test_columns_are_described(table: Table) -> None:
    for column in table.columns:
        assert re.fullmatch(r"[a-z][a-z0-9_]*", column.name)
        assert column.dtype in DTYPES
        assert column.meaning.endswith("."), column
        assert column.meaning[0].isupper() or column.meaning.split()[0].strip(",.:") in _WORDS | {"numba"}, column


# What a meaning may begin with besides a capital: a value of the column, or a name.
_WORDS = {"ok", "launch", "compiled", "pass", "numba-cuda", "memory"}


@each_table
def test_units_are_in_the_names(table: Table) -> None:
    for column in table.columns:
        for unit in ("ns", "bytes"):
            assert column.name.endswith(f"_{unit}") == (column.unit == unit), column.name
        assert column.unit in ("", "ns", "bytes")


@each_table
def test_ids_are_integers_and_paths_are_text(table: Table) -> None:
    for column in table.columns:
        if column.name.endswith("_id"):
            assert column.dtype in ("int32", "int64")
        if column.is_path:
            assert column.dtype == "string"


@each_table
def test_own_id_comes_first_and_is_never_null(table: Table) -> None:
    own = f"{table.name.removesuffix('s')}_id" if table.name != "launches" else "launch_id"
    if own in table.names:
        assert table.names[0] == own
        assert not table.columns[0].nullable


def test_launch_ids_have_one_dtype() -> None:
    found = {column.dtype for table in TABLES.values() for column in table.columns if "launch_id" in column.name}
    assert found == {"int64"}


def test_column_is_found_by_name() -> None:
    assert TABLES["threads"].column("name") == Column("name", "string", TABLES["threads"].columns[2].meaning,
                                                      nullable=True)
    with pytest.raises(KeyError, match="table 'threads' has no column 'nothing'; it has thread_id, ident, name"):
        TABLES["threads"].column("nothing")


def test_version_and_unknown_are_what_files_and_buffers_hold() -> None:
    assert SCHEMA_VERSION == 1
    assert UNKNOWN == -1


def test_schema_is_frozen() -> None:
    with pytest.raises(AttributeError):
        TABLES["threads"].columns[0].name = "other"  # type: ignore[misc]
