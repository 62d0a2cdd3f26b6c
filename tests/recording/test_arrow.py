from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kernelscope.recording.parquet import arrow_schema, empty_table, make_table, table_of_rows
from kernelscope.schema import TABLES


@pytest.mark.parametrize("name", TABLES)
def test_arrow_schema_is_the_schema(name: str) -> None:
    schema = arrow_schema(name)
    assert tuple(schema.names) == TABLES[name].names
    assert [field.nullable for field in schema] == [column.nullable for column in TABLES[name].columns]
    assert empty_table(name).schema == schema
    assert empty_table(name).num_rows == 0


def test_unknown_table_is_a_key_error() -> None:
    for function in (arrow_schema, empty_table):
        with pytest.raises(KeyError, match="nothing"):
            function("nothing")


def test_minus_one_in_a_nullable_integer_array_is_null() -> None:
    table = make_table("threads", {"thread_id": np.arange(2), "ident": np.array([-1, 5])})
    assert table.column("ident").to_pylist() == [-1, 5]
    devices = make_table("devices", {"device_id": np.arange(2), "ordinal": np.array([-1, 5])})
    assert devices.column("ordinal").to_pylist() == [None, 5]


def test_minus_one_in_a_list_stays() -> None:
    assert table_of_rows("devices", [{"device_id": 0, "ordinal": -1}]).column("ordinal").to_pylist() == [-1]


@pytest.mark.parametrize("words", [
    ["ok", "failed"], np.array(["ok", "failed"], dtype=object), pa.array(["ok", "failed"]),
    pa.array(["ok", "failed"]).dictionary_encode(), pa.chunked_array([["ok"], ["failed"]]),
    pa.chunked_array([pa.array(["ok"]).dictionary_encode(), pa.array(["failed"]).dictionary_encode()]),
])
def test_categories_come_from_texts_of_any_kind(words: Any) -> None:
    table = make_table("health", {"probe": ["a", "b"], "status": words})
    assert table.schema == arrow_schema("health")
    assert table.column("status").to_pylist() == ["ok", "failed"]


def test_narrower_and_wider_integers_are_cast() -> None:
    table = make_table("threads", {"thread_id": np.arange(2, dtype=np.int64), "ident": np.arange(2, dtype=np.int16)})
    assert table.schema == arrow_schema("threads")


@pytest.mark.parametrize(("columns", "message"), [
    ({"nothing": [1]}, "table 'threads' has no column nothing"),
    ({"thread_id": [0]}, "table 'threads' needs column 'ident'"),
    ({"thread_id": [0], "ident": [1, 2]}, "column threads.ident has 2 rows, not 1"),
    ({"thread_id": [0], "ident": [None]}, "column threads.ident has 1 nulls and may have none"),
    ({"thread_id": [2**40], "ident": [1]}, "1099511627776"),
    ({"thread_id": np.array([2**40]), "ident": [1]}, "1099511627776"),
])
def test_wrong_columns_are_refused(columns: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_table("threads", columns)


def test_wrong_key_of_a_row_is_refused() -> None:
    with pytest.raises(ValueError, match="table 'threads' has no column b, c"):
        table_of_rows("threads", [{"thread_id": 0, "ident": 1}, {"c": 1, "b": 2}])


def test_rows_without_columns_need_their_number() -> None:
    assert make_table("threads", {}).num_rows == 0
    assert table_of_rows("threads", []).num_rows == 0
    with pytest.raises(ValueError, match="needs column"):
        make_table("threads", {}, rows=2)
