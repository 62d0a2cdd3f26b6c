from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernelscope.recording.file import load, save
from kernelscope.recording.integrity import check_tables
from kernelscope.recording.merge import merge
from kernelscope.recording.model import Recording
from kernelscope.schema import REFERENCES, TABLES

Rows = dict[str, list[dict[str, Any]]]
Make = Callable[..., Recording]
Same = Callable[[Recording, Recording], None]


def _check(recording: Recording) -> None:
    check_tables({name: recording.arrow(name) for name in TABLES})


def _resolved(recording: Recording, table: str) -> list[tuple[Any, ...]]:
    """The rows of a table with ids replaced by what they name, however deep, and without its own."""

    def resolve(name: str, row: dict[str, Any]) -> tuple[Any, ...]:
        found: list[Any] = []
        for column, value in row.items():
            if column == TABLES[name].key or (name, column) in (("specializations", "origin"),
                                                            ("processes", "own_cost_ns")):
                continue
            referred = REFERENCES.get(column)
            # A compilation names its launch, and the launch its compilation: one of the two must end it.
            if referred in ("launches", "graph_events"):
                value = None if value is None else rows[referred][value]["start_ns"]
            elif referred is not None and value is not None:
                value = resolve(referred, rows[referred][value])
            found.append(value)
        return tuple(found)

    rows = {name: recording.rows(name) for name in TABLES}
    return [resolve(table, row) for row in rows[table]]


@pytest.fixture
def other(rows: Rows, recording_of: Make) -> Recording:
    """A second recording: a cell between the first's two, other kernels in another order, one of them the same."""
    rows["cells"] = [{"cell_id": 0, "start_ns": 950, "end_ns": 999, "status": "ok", "name": "between"}]
    rows["dispatchers"] = [
        {"dispatcher_id": 0, "framework": "numba-cuda", "name": "new"},
        {**rows["dispatchers"][0], "dispatcher_id": 1},
    ]
    rows["specializations"] = [
        {"specialization_id": 0, "dispatcher_id": 0, "signature": "()", "origin": "compiled"},
        {**rows["specializations"][0], "specialization_id": 1, "dispatcher_id": 1, "origin": "before"},
    ]
    rows["configurations"].reverse()
    rows["threads"].reverse()
    rows["devices"] = [{"device_id": 0, "ordinal": 1}]
    for name, own in (("configurations", "configuration_id"), ("threads", "thread_id")):
        for number, row in enumerate(rows[name]):
            row[own] = number
    rows["occupancies"] = [{"specialization_id": 1, "configuration_id": 0, "device_id": 0, "occupancy": 0.5}]
    common = {"cell_id": 0, "thread_id": 1, "configuration_id": 0}
    rows["launches"] = [
        {**common, "launch_id": 0, "dispatcher_id": 0, "specialization_id": 0, "start_ns": 100, "cache": "disk",
         "device_id": 0, "cell_id": None},
        {**common, "launch_id": 1, "dispatcher_id": 1, "specialization_id": 1, "start_ns": 960, "compilation_id": 0,
         "parent_launch_id": 0, "cache": "compiled"},
    ]
    rows["compilations"] = [{**common, "compilation_id": 0, "dispatcher_id": 1, "specialization_id": 1,
                             "launch_id": 1, "trigger": "launch", "signature": "()", "start_ns": 961,
                             "end_ns": 970, "outcome": "compiled"}]
    rows["passes"] = [{"compilation_id": 0, "kind": "pass", "name": "p", "duration_ns": 3}]
    for row in rows["builds"]:
        row.update(cell_id=None, launch_id=0)
    for row in rows["graph_events"]:
        row.update(cell_id=None, thread_id=0)
    rows["graphs"][1]["fingerprint"] = "45" * 32
    rows["graph_nodes"][0].update(specialization_id=1, configuration_id=1)
    rows["health"] = [
        {"process_id": 0, "probe": "numba-cuda", "status": "ok", "message": "m", "fix": "f", "dropped": 2, "errors": 5,
         "cost_ns": 100.0, "total_cost_ns": 8.5},
        {"probe": "recorder", "status": "degraded", "dropped": 1},
        {"probe": "recorder", "status": "ok"},
    ]
    return recording_of(rows, name="other")


def test_merged_rows_are_those_of_both(full: Recording, other: Recording) -> None:
    merged = merge([full, other], name="both")
    _check(merged)
    counts = {name: merged.arrow(name).num_rows for name in TABLES}
    assert counts == {
        "processes": 2, "cells": 3, "threads": 2, "lines": 3, "stacks": 5, "operators": 3, "devices": 3,
        "dispatchers": 3, "specializations": 3, "configurations": 2, "occupancies": 3, "launches": 5,
        "activities": 4, "api_calls": 4,
        "compilations": 3, "builds": 4, "graphs": 3, "graph_nodes": 5, "graph_edges": 2, "graph_events": 12,
        "passes": 3, "code": 4, "ranges": 4, "collections": 4, "measurements": 4, "metrics": 4,
        "pc_samples": 4, "pm_samples": 4, "health": 3,
    }
    assert [row["name"] for row in merged.rows("cells")] == ["größe", "between", None]
    assert [row["name"] for row in merged.rows("dispatchers")][::2] == ["axpy.<locals>.kernel", "new"]
    for table in ("cells", "launches", "activities", "api_calls", "compilations", "builds", "graph_events", "passes",
                  "occupancies"):
        # Every id leads to the same names and numbers as before.
        parts = Counter(_resolved(full, table)) + Counter(_resolved(other, table))
        assert Counter(_resolved(merged, table)) == parts


def test_rows_are_in_order_of_start(full: Recording, other: Recording) -> None:
    merged = merge([other, full])
    for table in ("cells", "launches", "api_calls", "compilations", "builds", "graph_events"):
        starts = [-1 if row["start_ns"] is None else row["start_ns"] for row in merged.rows(table)]
        assert starts == sorted(starts)


def test_origin_is_the_firsts(full: Recording, other: Recording) -> None:
    origins = {row["signature"]: row["origin"] for row in merge([full, other]).rows("specializations")}
    assert origins["(float32[::1], int64)"] == "compiled"
    origins = {row["signature"]: row["origin"] for row in merge([other, full]).rows("specializations")}
    assert origins["(float32[::1], int64)"] == "before"


def test_equal_facts_are_added(full: Recording, other: Recording) -> None:
    health = merge([full, other]).rows("health")
    assert health == [
        {"probe": "numba-cuda", "status": "ok", "message": "m", "fix": "f", "dropped": 2, "errors": 2**31 - 1,
         "clock_error_ns": 900.5, "cost_ns": 300.5, "total_cost_ns": 910.0, "process_id": 0},
        {"probe": "recorder", "status": "degraded", "message": None, "fix": None, "dropped": 1, "errors": None,
         "clock_error_ns": None, "cost_ns": None, "total_cost_ns": None, "process_id": None},
        {"probe": "recorder", "status": "ok", "message": None, "fix": None, "dropped": None, "errors": None,
         "clock_error_ns": None, "cost_ns": None, "total_cost_ns": None, "process_id": None},
    ]


def test_metadata_are_the_firsts(full: Recording, other: Recording) -> None:
    assert dict(merge([full, other]).metadata) == {**full.metadata, "merged": 2}
    assert merge([full, other], name="both").name == "both"
    assert merge([merge([full, other]), other, full]).metadata["merged"] == 4


def test_one_recording_stays_as_it_is(full: Recording, assert_same: Same) -> None:
    assert_same(merge([full]), Recording({name: full.arrow(name) for name in TABLES}, {**full.metadata, "merged": 1}))


def test_recording_with_itself_shares_everything_but_events(full: Recording) -> None:
    merged = merge([full, full])
    _check(merged)
    for name in TABLES:
        times = 2 if name in ("cells", "launches", "activities", "api_calls", "compilations", "builds", "graph_events",
                              "passes", "ranges", "collections", "measurements", "metrics", "pc_samples",
                              "pm_samples") else 1
        # One is a line of a cell, and each recording has its own cells; call paths of two frames go through it.
        of_cells = {"lines": 1, "stacks": 2, "operators": 1}.get(name, 0)
        assert merged.arrow(name).num_rows == times * full.arrow(name).num_rows + of_cells, name


def test_rows_that_one_recording_keeps_apart_stay_apart(rows: Rows, recording_of: Make) -> None:
    # A function that is defined again is another dispatcher, equal in all that is recorded of it.
    rows["dispatchers"][1] = {**rows["dispatchers"][0], "dispatcher_id": 1}
    twice = recording_of(rows)
    merged = merge([twice, twice])
    assert merged.arrow("dispatchers").num_rows == 2
    assert Counter(row["dispatcher_id"] for row in merged.rows("launches")) == {0: 4, 1: 2}


def test_what_one_recording_knows_more_of_is_one_row(rows: Rows, recording_of: Make) -> None:
    full = recording_of(rows)
    facts = {"dispatchers": ("arguments", "code_sha256"), "devices": ("multiprocessors",),
             "specializations": ("regs", "cubin_bytes", "spill_store_bytes", "launch_config_sensitive")}
    for table, columns in facts.items():
        for row in rows[table]:
            row.update(dict.fromkeys(columns))
    bare = recording_of(rows)
    for order in ([full, bare], [bare, full]):
        merged = merge(order)
        for table in facts:
            assert merged.rows(table) == full.rows(table), table
    # What contradicts is another one.
    for row in rows["specializations"]:
        row["regs"] = 99
    merged = merge([full, recording_of(rows)])
    assert [row["regs"] for row in merged.rows("specializations")] == [32, 99, 99]


def test_equal_graphs_are_one_with_their_nodes_and_edges_once(rows: Rows, recording_of: Make) -> None:
    whole = recording_of(rows)
    rows["graph_nodes"][0].update(specialization_id=None, configuration_id=None)
    bare = recording_of(rows)
    for order in ([whole, bare], [bare, whole], [bare, whole, bare]):
        merged = merge(order)
        _check(merged)
        for table in ("graphs", "graph_nodes", "graph_edges"):
            assert merged.rows(table) == whole.rows(table), table
    # Equal hashes and other nodes: not the same graph, whoever made them.
    rows["graph_nodes"][2]["kind"] = "memset"
    merged = merge([whole, recording_of(rows)])
    _check(merged)
    assert [row["graph_id"] for row in merged.rows("graph_nodes")] == [0, 0, 0, 1, 2, 2, 2]
    assert [row["graph_id"] for row in merged.rows("graph_edges")] == [0, 0, 2, 2]
    assert [row["graph_node_id"] for row in merged.rows("activities")[2:]] == [0, 4]


def test_graphs_that_one_recording_keeps_apart_stay_apart(rows: Rows, recording_of: Make) -> None:
    rows["graphs"][1]["fingerprint"] = rows["graphs"][0]["fingerprint"]
    rows["graphs"][0].update(nodes=1, edges=0)
    rows["graph_nodes"] = [{**rows["graph_nodes"][3], "graph_node_id": at, "graph_id": at} for at in range(2)]
    rows["graph_edges"] = []
    twice = recording_of(rows)
    merged = merge([twice, twice])
    _check(merged)
    assert merged.rows("graph_nodes") == twice.rows("graph_nodes")
    assert Counter(row["graph_id"] for row in merged.rows("graph_events")) == {0: 6, 1: 2, None: 4}


def test_empty_recordings_merge(full: Recording, assert_same: Same) -> None:
    empty = Recording({}, {})
    assert merge([empty, empty]).arrow("launches").num_rows == 0
    merged = merge([full, empty])
    assert merged.rows("launches") == full.rows("launches")


def test_nothing_and_other_kinds_are_refused(full: Recording, rows: Rows, recording_of: Make) -> None:
    with pytest.raises(ValueError, match="at least one"):
        merge([])
    dry, simulated = recording_of(rows, name="dry", dry_run=True), recording_of(rows, name="sim", simulator=True)
    for pair in ([full, dry], [dry, full], [full, simulated], [dry, simulated]):
        with pytest.raises(ValueError, match="recordings of different kinds cannot be merged: '"):
            merge(pair)
    assert merge([dry, dry]).is_dry_run
    assert merge([simulated, simulated]).is_simulated


def _clock(origin: int) -> dict[str, int]:
    return {"host_ns": 1000, "wall_ns": origin + 1000, "error_ns": 1}


def test_times_of_another_boot_are_moved_by_the_wall_clock(full: Recording, rows: Rows, recording_of: Make) -> None:
    rows["cells"][1]["end_ns"] = 2000
    rows["launches"][2].update(start_ns=1500, end_ns=1600)
    later, hour = 7 * 10**12, 3600 * 10**9
    first = recording_of(rows, clock=_clock(later))
    second = recording_of(rows, clock=_clock(later - hour))
    merged = merge([first, second])
    _check(merged)
    # The second was made an hour before the first.
    assert [row["start_ns"] for row in merged.rows("cells")] == [100 - hour, 1000 - hour, 100, 1000]
    assert merged.rows("launches")[0] | {"launch_id": 0} == {
        **merged.rows("launches")[3], "launch_id": 0, "cell_id": 0, "thread_id": 2, "line_id": 2, "stack_id": 4,
        "operator_id": 2, "compilation_id": 0, "capture_event_id": 2,
        **{name: value - hour for name, value in rows["launches"][0].items()
           if name in ("start_ns", "dispatch_end_ns", "submit_start_ns", "submit_end_ns", "end_ns")},
    }
    assert [row["end_ns"] for row in merged.rows("launches")][1::3] == [None, None]
    assert merged.metadata["clock"] == first.metadata["clock"]


@pytest.mark.parametrize("clock", [None, {}, [], {"host_ns": 1}, {"host_ns": "a", "wall_ns": 5}, _clock(10**9),
                                   {"host_ns": 0, "wall_ns": 10**30}])
def test_times_of_the_same_or_an_unknown_clock_stay(clock: Any, rows: Rows, recording_of: Make) -> None:
    merged = merge([recording_of(rows, clock=_clock(0)), recording_of(rows, clock=clock)])
    assert [row["start_ns"] for row in merged.rows("cells")] == [100, 100, 1000, 1000]


def test_many_launches_merge_and_load(many: Recording, tmp_path: Path) -> None:
    merged = merge([many, many])
    _check(merged)
    assert merged.arrow("launches").num_rows == 600_000
    for column in ("specialization_id", "configuration_id", "thread_id", "end_ns"):
        assert np.array_equal(merged.column("launches", column), np.repeat(many.column("launches", column), 2))
    compiled = merged.column("launches", "compilation_id")
    assert compiled[compiled >= 0].tolist() == [0, 1, 2, 3, 4, 5]
    assert load(save(merged, tmp_path / "x")).arrow("cells").num_rows == 8
