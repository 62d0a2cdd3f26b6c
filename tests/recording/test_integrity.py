from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from kernelscope.errors import RecordingFileError
from kernelscope.recording.integrity import (
    JSON_COLUMNS,
    MAX_JSON_DEPTH,
    REFERENCES,
    check_depth,
    check_tables,
    own_id,
)
from kernelscope.recording.model import Recording
from kernelscope.recording.parquet import arrow_schema, table_of_rows
from kernelscope.schema import TABLES

Rows = dict[str, list[dict[str, Any]]]


def _tables(rows: Rows) -> dict[str, pa.Table]:
    return {name: table_of_rows(name, rows[name]) for name in TABLES}


def test_sound_tables_pass(rows: Rows, million: Recording) -> None:
    check_tables(_tables(rows))
    check_tables({name: million.arrow(name) for name in TABLES})
    check_tables({name: arrow_schema(name).empty_table() for name in TABLES})


@pytest.mark.parametrize(("table", "column"), [
    (table, column) for table in TABLES for column in TABLES[table].names
    if column in REFERENCES and column != own_id(table)
])
@pytest.mark.parametrize("wrong", [-1, -(2**31), 99, 2**31 - 1])
def test_id_outside_its_table_is_refused(table: str, column: str, wrong: int, rows: Rows) -> None:
    rows[table][0][column] = wrong
    count = len(rows[REFERENCES[column]])
    with pytest.raises(RecordingFileError, match=rf"^column {table}\.{column} has {wrong} in row 0, which is no row of "
                                                 rf"table '{REFERENCES[column]}': it has {count} rows$"):
        check_tables(_tables(rows))


@pytest.mark.parametrize("table", [table for table in TABLES if own_id(table)])
def test_own_ids_are_row_numbers(table: str, rows: Rows) -> None:
    own = own_id(table)
    assert own is not None
    rows[table][1][own] = 0
    with pytest.raises(RecordingFileError, match=rf"column {table}\.{own} has 0 in row 1, not the row's number"):
        check_tables(_tables(rows))


def test_wrong_id_is_found_in_a_later_chunk(rows: Rows) -> None:
    tables = _tables(rows)
    tables["threads"] = pa.concat_tables([tables["threads"], tables["threads"]])
    with pytest.raises(RecordingFileError, match="has 0 in row 2"):
        check_tables(tables)


def test_every_id_column_of_the_schema_is_known() -> None:
    ids = {column for table in TABLES.values() for column in table.names if column.endswith("_id")}
    assert ids - {"correlation_id", "cupti_graph_id", "cupti_node_id"} == set(REFERENCES) - {"rebuild_of"}


@pytest.mark.parametrize("table", [
    "launches", "activities", "api_calls", "compilations", "builds", "graph_events", "ranges"])
def test_events_are_in_order_of_start(table: str, rows: Rows) -> None:
    rows[table][0]["start_ns"] = 100
    rows[table][1]["start_ns"] = -(2**61)
    with pytest.raises(RecordingFileError, match=f"table '{table}' is not in order of start_ns at row 1"):
        check_tables(_tables(rows))


def test_order_is_checked_across_chunks(rows: Rows) -> None:
    for number, row in enumerate(rows["launches"]):
        row.update(start_ns=100 - number, parent_launch_id=None)
    tables = _tables(rows)
    launches = tables["launches"]
    tables["launches"] = pa.concat_tables([launches.slice(0, 1), launches.slice(1, 0), launches.slice(1)])
    with pytest.raises(RecordingFileError, match="not in order of start_ns at row 1"):
        check_tables(tables)


@pytest.mark.parametrize("parents", [[0, None, None], [1, 0, None], [2, 0, 1], [None, 2, 1]])
def test_launch_inside_itself_is_refused(parents: list[int | None], rows: Rows) -> None:
    for row, parent in zip(rows["launches"], parents, strict=True):
        row["parent_launch_id"] = parent
    with pytest.raises(RecordingFileError, match=r"launch \d is inside itself"):
        check_tables(_tables(rows))


@pytest.mark.parametrize("parents", [[None] * 3, [None, 0, 0], [None, 0, 1], [1, 2, None]])
def test_nested_launches_pass(parents: list[int | None], rows: Rows) -> None:
    for row, parent in zip(rows["launches"], parents, strict=True):
        row["parent_launch_id"] = parent
    check_tables(_tables(rows))


def test_deep_nesting_passes(rows: Rows) -> None:
    launch = rows["launches"][0]
    rows["launches"] = [{**launch, "launch_id": i, "parent_launch_id": i - 1 if i else None} for i in range(1000)]
    check_tables(_tables(rows))


@pytest.mark.parametrize(("table", "column"), [
    (table, column) for table in TABLES for column in TABLES[table].names
    if column in JSON_COLUMNS
])
@pytest.mark.parametrize(("text", "message"), [
    ("{", "not JSON"), ("", "not JSON"), ("[1]", "not an object"), ("3", "not an object"), ("[" * 99_999, "not JSON"),
    ('{"a":' * 99 + "1" + "}" * 99, "nested deeper"),
])
def test_json_columns_hold_json_objects(table: str, column: str, text: str, message: str, rows: Rows) -> None:
    rows[table][0][column] = text
    with pytest.raises(RecordingFileError, match=rf"column {table}\.{column} .*{message}"):
        check_tables(_tables(rows))


def test_null_where_none_may_be_is_refused(rows: Rows) -> None:
    tables = _tables(rows)
    threads = tables["threads"]
    tables["threads"] = threads.set_column(1, threads.schema.field(1), pa.array([1, None], pa.int64()))
    with pytest.raises(RecordingFileError, match=r"column threads\.ident has 1 nulls and may have none"):
        check_tables(tables)


def _nested(make: Callable[[Any], Any], depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = make(value)
    return value


@pytest.mark.parametrize("make", [lambda value: [value], lambda value: {"a": value, "b": 2}, lambda value: (1, value)])
def test_depth_is_bounded(make: Callable[[Any], Any]) -> None:
    check_depth(_nested(make, MAX_JSON_DEPTH - 1), "it")
    with pytest.raises(RecordingFileError, match="it is nested deeper than 40 levels"):
        check_depth(_nested(make, MAX_JSON_DEPTH + 1), "it")


def test_range_before_its_parent_is_refused(rows: Rows) -> None:
    rows["ranges"][0]["parent_range_id"] = 1
    with pytest.raises(RecordingFileError, match="range 0 is inside range 1, which begins no earlier"):
        check_tables(_tables(rows))
