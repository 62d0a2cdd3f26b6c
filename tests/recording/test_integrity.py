"""Graphs that are none are refused, also where a file has very many of them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from counting import lines_run
from handmade import Script

from kernelscope.errors import RecordingFileError
from kernelscope.recording.integrity import (
    MAX_GRAPH_DEPTH,
    MAX_JSON_DEPTH,
    check_depth,
    check_graphs,
    check_tables,
)
from kernelscope.recording.model import Recording
from kernelscope.recording.parquet import arrow_schema, make_table, table_of_rows
from kernelscope.schema import JSON_COLUMNS, REFERENCES, TABLES

Rows = dict[str, list[dict[str, Any]]]


def _tables(rows: Rows) -> dict[str, pa.Table]:
    return {name: table_of_rows(name, rows[name]) for name in TABLES}


def test_sound_tables_pass(rows: Rows, many: Recording) -> None:
    check_tables(_tables(rows))
    check_tables({name: many.arrow(name) for name in TABLES})
    check_tables({name: arrow_schema(name).empty_table() for name in TABLES})


@pytest.mark.parametrize(("table", "column"), [
    (table, column) for table in TABLES for column in TABLES[table].names
    if column in REFERENCES and column != TABLES[table].key
])
def test_id_outside_its_table_is_refused(table: str, column: str, rows: Rows) -> None:
    count = len(rows[REFERENCES[column]])
    for wrong in (-1, -(2**31), count, 2**31 - 1):
        rows[table][0][column] = wrong
        with pytest.raises(RecordingFileError, match=rf"^column {table}\.{column} has {wrong} in row 0, which is no "
                                                     rf"row of table '{REFERENCES[column]}': it has {count} rows$"):
            check_tables(_tables(rows))


@pytest.mark.parametrize("table", [table for table in TABLES if TABLES[table].key])
def test_own_ids_are_row_numbers(table: str, rows: Rows) -> None:
    own = TABLES[table].key
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


@pytest.mark.parametrize("parents", [[0, None, None], [None, 2, 0], [2, 0, 1]])
def test_a_call_path_that_leads_in_a_circle_is_refused(parents: list[int | None], rows: Rows) -> None:
    for row, parent in zip(rows["stacks"], parents, strict=True):
        row["parent_stack_id"] = parent
    with pytest.raises(RecordingFileError, match=r"stack \d was called by one that does not stand before it"):
        check_tables(_tables(rows))


def test_a_call_path_has_no_more_frames_than_are_recorded(rows: Rows) -> None:
    rows["stacks"] = [{"stack_id": at, "parent_stack_id": at - 1 if at else None, "line_id": 0} for at in range(512)]
    rows["stacks"].insert(100, {**rows["stacks"][100], "parent_stack_id": None})  # a path beside it
    for at, row in enumerate(rows["stacks"]):
        row["parent_stack_id"] = None if at in (0, 100) else at - 2 if at == 101 else at - 1
        row["stack_id"] = at
    check_tables(_tables(rows))
    rows["stacks"].append({"stack_id": 513, "parent_stack_id": 512, "line_id": 0})
    with pytest.raises(RecordingFileError, match="stack 513 has more than 512 frames"):
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




def _check(recording: Recording) -> None:
    check_tables({name: recording.arrow(name) for name in TABLES})


@pytest.mark.parametrize(("table", "row", "changes", "message"), [
    ("graph_nodes", 3, {"graph_id": 0}, "graph 0 has another number of nodes than it says"),
    ("graph_nodes", 0, {"graph_id": 1}, "graph node 1 is not in order of its graph"),
    ("graph_nodes", 1, {"parent_node_id": 1, "body": 0}, "graph node 1 is inside of a node that is not before it"),
    ("graph_nodes", 1, {"parent_node_id": 2, "body": 0}, "graph node 1 is inside of a node that is not before it"),
    ("graph_nodes", 3, {"parent_node_id": 0, "body": 0}, "graph node 3 is inside of another graph's node"),
    ("graph_nodes", 2, {"body": None}, "graph node 2 must have a body and a parent, or neither"),
    ("graph_nodes", 2, {"body": -1}, "column graph_nodes.body has -1 in row 2"),
    ("graph_nodes", 0, {"body": 0}, "graph node 0 must have a body and a parent, or neither"),
    ("graph_edges", 0, {"graph_id": 1}, "edge 0 joins nodes that are not of its graph"),
    ("graph_edges", 1, {"to_node_id": 3}, "edge 1 joins nodes that are not of its graph"),
    ("graph_edges", 1, {"to_node_id": 2}, "edge 1 joins nodes of different bodies"),
    ("graph_edges", 1, {"to_node_id": 0}, "lead in a circle that node 0 is in or behind"),
    ("graph_edges", 1, {"from_node_id": 1, "to_node_id": 0}, "lead in a circle that node 0 is in or behind"),
    ("graphs", 1, {"nodes": 2}, "graph 1 has another number of nodes than it says"),
    ("graphs", 0, {"edges": 99}, "graph 0 has another number of edges than it says"),
    ("graph_events", 4, {"exec_id": 1}, "column graph_events.exec_id names an event in row 4 that is no instantiate"),
    ("graph_events", 3, {"exec_id": 2}, "graph event 3 makes an executable graph and names another one"),
    ("graph_events", 2, {"source_event_id": 0}, "graph_events.source_event_id names an event in row 2 that is no capt"),
    ("graph_events", 3, {"rebuild_of": 3}, "graph event 3 rebuilds one that comes no earlier"),
    ("graph_events", 3, {"rebuild_of": 1}, "column graph_events.rebuild_of names an event in row 3 that is no instan"),
    ("launches", 0, {"capture_event_id": 2}, "column launches.capture_event_id names an event in row 0 that is no cap"),
    ("activities", 1, {"graph_event_id": 2}, "activities.graph_event_id names an event in row 1 that is no launch"),
])
def test_what_is_no_graph_is_refused(table: str, row: int, changes: Any, message: str, rows: Rows,
                                     recording_of: Callable[..., Recording]) -> None:
    rows[table][row].update(changes)
    with pytest.raises(RecordingFileError, match=message):
        _check(recording_of(rows))


def test_edges_to_earlier_nodes_are_sound_where_they_close_no_circle() -> None:
    script = Script()
    graph = script.graph()
    nodes = [script.graph_node(graph) for _ in range(4)]
    for first, then in ((3, 0), (0, 2), (3, 2), (2, 1)):
        script.graph_edge(nodes[first], nodes[then])
    _check(script.recording())
    script.graph_edge(nodes[1], nodes[0])
    with pytest.raises(RecordingFileError, match="circle"):
        _check(script.recording())


@pytest.mark.parametrize(("depth", "sound"), [(MAX_GRAPH_DEPTH, True), (MAX_GRAPH_DEPTH + 1, False)])
def test_bodies_are_nested_so_deep_only(depth: int, sound: bool) -> None:
    script = Script()
    graph = script.graph()
    node = script.graph_node(graph, "while")
    for _ in range(depth):
        node = script.graph_node(graph, "while", parent_node_id=node, body=0)
    if sound:
        _check(script.recording())
    else:
        with pytest.raises(RecordingFileError, match=f"nested deeper than {MAX_GRAPH_DEPTH} levels"):
            _check(script.recording())


@pytest.mark.parametrize("close", [False, True])
def test_the_work_grows_with_a_path_against_the_order_of_its_nodes_and_no_faster(close: bool) -> None:
    def work(count: int) -> int:
        order = np.random.default_rng(3).permutation(count).astype(np.int32)
        first, then = order[:-1], order[1:]
        if close:
            first, then = np.append(first, order[-1]), np.append(then, order[count // 2])
        tables = {name: pa.table({}) for name in TABLES} | {
            "graphs": make_table("graphs", {"graph_id": np.zeros(1, np.int32), "fingerprint": ["f"],
                                            "topology": ["t"], "nodes": np.array([count]),
                                            "edges": np.array([len(first)])}),
            "graph_nodes": make_table("graph_nodes", {
                "graph_node_id": np.arange(count), "graph_id": np.zeros(count, np.int32),
                "kind": ["empty"] * count}),
            "graph_edges": make_table("graph_edges", {
                "graph_id": np.zeros(len(first), np.int32), "from_node_id": first, "to_node_id": then}),
            **{name: Recording({}, {}).arrow(name) for name in ("graph_events", "launches", "activities")},
        }

        def check() -> None:
            with pytest.raises(RecordingFileError, match="circle") if close else contextlib.nullcontext():
                check_graphs(tables)

        return lines_run(check)

    assert work(20_000) < 2.2 * work(10_000)
