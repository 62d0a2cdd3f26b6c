from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from handmade import Script

from kernelscope.errors import UnknownCellError
from kernelscope.recording.integrity import check_tables
from kernelscope.recording.merge import merge
from kernelscope.recording.model import Recording, keep_used, select_cell
from kernelscope.schema import TABLES

Rows = dict[str, list[dict[str, Any]]]
Make = Callable[..., Recording]


def _check(recording: Recording) -> dict[str, int]:
    check_tables({name: recording.arrow(name) for name in TABLES})
    return {name: recording.arrow(name).num_rows for name in TABLES}


def test_first_cell_has_what_it_used(full: Recording) -> None:
    cell = select_cell(full, 0)
    assert _check(cell) == {
        "processes": 1, "cells": 1, "threads": 2, "lines": 1, "stacks": 2, "operators": 1, "devices": 1,
        "dispatchers": 1, "specializations": 1, "configurations": 1, "occupancies": 1, "launches": 1,
        "activities": 1, "api_calls": 1,
        "compilations": 1, "builds": 1, "graphs": 2, "graph_nodes": 4, "graph_edges": 2, "graph_events": 4,
        "passes": 1, "code": 2, "ranges": 2, "collections": 1, "measurements": 1, "metrics": 1,
        "pc_samples": 1, "pm_samples": 1, "health": 2,
    }
    for name in ("cells", "devices", "dispatchers", "specializations", "compilations", "passes"):
        assert cell.rows(name) == full.rows(name)[:1]
    # What was there before the cell began is of no use to it: the capture comes first.
    assert cell.rows("launches") == [{**full.rows("launches")[0], "capture_event_id": 0}]
    assert [(row["kind"], row["exec_id"]) for row in cell.rows("graph_events")] == [
        ("capture", None), ("instantiate", 1), ("instantiate", 2), ("launch", 1)]
    assert cell.metadata == full.metadata


def test_second_cell_is_renumbered(full: Recording) -> None:
    cell = select_cell(full, 1)
    _check(cell)
    assert cell.rows("cells") == [{**full.rows("cells")[1], "cell_id": 0}]
    assert cell.rows("launches") == [{
        **full.rows("launches")[2], "launch_id": 0, "cell_id": 0, "thread_id": 0, "line_id": 0, "stack_id": 0,
        "operator_id": 0,
        "dispatcher_id": 0, "specialization_id": 0, "configuration_id": 0, "device_id": 0,
        # Its parent was launched outside the cell.
        "parent_launch_id": None,
    }]
    assert [row["name"] for row in cell.rows("dispatchers")] == [full.rows("dispatchers")[1]["name"]]
    assert cell.rows("threads")[0]["ident"] == full.rows("threads")[1]["ident"]
    assert cell.rows("occupancies") == [
        {**full.rows("occupancies")[1], "specialization_id": 0, "configuration_id": 0, "device_id": 0}]
    assert cell.rows("compilations") == cell.rows("passes") == []


def test_compilation_inside_a_launch_belongs_to_its_cell(rows: Rows, recording_of: Make) -> None:
    rows["compilations"][0]["cell_id"] = None
    assert len(select_cell(recording_of(rows), 0).rows("compilations")) == 1


def test_compilation_for_a_launch_elsewhere_loses_it(rows: Rows, recording_of: Make) -> None:
    rows["compilations"][1].update(cell_id=1, launch_id=0)
    cell = select_cell(recording_of(rows), 1)
    _check(cell)
    assert [(row["launch_id"], row["thread_id"]) for row in cell.rows("compilations")] == [(None, 0)]


@pytest.mark.parametrize(("start", "kept"), [(99, 1), (100, 2), (925, 2), (950, 2), (951, 1), (None, 1)])
def test_pass_without_compilation_belongs_to_the_cell_that_ran(start: int | None, kept: int, rows: Rows,
                                                               recording_of: Make) -> None:
    rows["passes"][1].update(start_ns=start, specialization_id=1)
    cell = select_cell(recording_of(rows), 0)
    _check(cell)
    assert len(cell.rows("passes")) == kept
    # Its specialization and that one's dispatcher come with it.
    assert len(cell.rows("specializations")) == len(cell.rows("dispatchers")) == kept


def test_cost_is_in_proportion_to_launches(full: Recording) -> None:
    health = select_cell(full, 0).rows("health")
    assert health[0] == {**full.rows("health")[0], "total_cost_ns": pytest.approx(901.5 / 3)}
    assert health[1] == full.rows("health")[1]


def test_cell_of_a_recording_without_launches(recording_of: Make) -> None:
    row = {"cell_id": 0, "start_ns": 0, "end_ns": 1, "status": "ok"}
    health = {"probe": "p", "status": "ok", "total_cost_ns": 5.0}
    cell = select_cell(recording_of({"cells": [row], "health": [health]}), 0)
    assert _check(cell)["launches"] == 0
    assert cell.rows("health")[0]["total_cost_ns"] == 0


@pytest.mark.parametrize("cell_id", [-1, 2, 99])
def test_unknown_cell_names_the_known(cell_id: int, full: Recording) -> None:
    with pytest.raises(UnknownCellError, match=rf"no cell {cell_id} in recording 'größe .*'; known: 0 to 1"):
        select_cell(full, cell_id)
    with pytest.raises(UnknownCellError, match="known: none"):
        select_cell(Recording({}, {}), 0)


def test_cells_together_have_every_launch_of_a_cell(many: Recording) -> None:
    cells = [select_cell(many, number) for number in range(4)]
    for cell in cells:
        _check(cell)
    starts = np.concatenate([cell.column("launches", "start_ns") for cell in cells])
    assert np.array_equal(starts, many.column("launches", "start_ns"))
    merged = merge(cells)
    for name in ("cells", "launches", "specializations", "dispatchers"):
        assert merged.arrow(name).num_rows == many.arrow(name).num_rows
    for column in ("launch_id", "cell_id", "start_ns", "correlation_id"):
        assert np.array_equal(merged.column("launches", column), many.column("launches", column))


def test_keep_used_leaves_out_what_nothing_names(rows: Rows, recording_of: Make, full: Recording) -> None:
    for name, own in (("threads", "thread_id"), ("lines", "line_id"), ("devices", "device_id"),
                      ("dispatchers", "dispatcher_id"), ("specializations", "specialization_id"),
                      ("configurations", "configuration_id")):
        rows[name].insert(0, {**rows[name][1], own: 0})
        for table in TABLES:
            for row in rows[table]:
                if row.get(own) is not None and not (table == name and row is rows[name][0]):
                    row[own] += 1
    rows["occupancies"].append({"specialization_id": 0, "configuration_id": 0, "device_id": 0})
    crowded = recording_of(rows)
    _check(crowded)
    kept = keep_used(crowded)
    for name in TABLES:
        assert kept.rows(name) == full.rows(name)
    assert kept.metadata == crowded.metadata


def test_keep_used_of_an_empty_recording() -> None:
    assert keep_used(Recording({}, {})).arrow("launches").num_rows == 0


@pytest.fixture
def replayed() -> Recording:
    """Cell 0 captures, instantiates and updates graph 0 to 1; cell 1 launches it, and builds and rebuilds another."""
    script = Script()
    for _ in range(3):
        graph = script.graph(fingerprint=f"f{len(script.rows.get('graphs', []))}")
        script.graph_edge(script.graph_node(graph), script.graph_node(graph, "host", "print"))
    script._add("threads", "thread_id", {"ident": 1})
    script.kernel()
    script.specialization()
    script.configuration()
    script.cell(1_000)
    first = script.now
    captured = script.graph_event("capture", 0, 300)
    made = script.graph_event("instantiate", 0, 100, source_event_id=captured)
    rebuilt = script.graph_event("instantiate", 2, 100)
    script.graph_event("update", 1, 50, exec_id=made)
    script.graph_event("update", 0, 50, exec_id=made, outcome="refused")
    open_one = script.graph_event("capture", 0, 0, end_ns=None)
    script.now = script.rows["cells"][0]["end_ns"] = first + 20_000
    script.now += 10_000
    cell = script.cell(90_000)
    script.launch(cell_id=cell, capture_event_id=open_one, graph_node_id=0)
    launched = script.graph_event("launch", 1, exec_id=made, cell_id=cell)
    script.graph_event("instantiate", 2, cell_id=cell, rebuild_of=rebuilt)
    script.activity(cell_id=cell, graph_event_id=launched, graph_node_id=2)
    script.build(cell_id=None, launch_id=0, duration_ns=10)
    script.build(cell_id=0, duration_ns=10)
    return script.recording()


def test_a_cell_that_replays_a_graph_knows_it(replayed: Recording) -> None:
    _check(replayed)
    cell = select_cell(replayed, 1)
    _check(cell)
    events = [(row["kind"], row["graph_id"], row["exec_id"], row["start_ns"] is None, row["rebuild_of"])
              for row in cell.rows("graph_events")]
    assert events == [
        ("before", 1, 0, True, None), ("before", 2, 1, True, None),  # the graph that the update made of it
        ("capture", 0, None, False, None), ("launch", 1, 0, False, None), ("instantiate", 2, 4, False, 1)]
    assert [row["cell_id"] for row in cell.rows("graph_events")] == [None, None, None, 0, 0]
    assert cell.rows("launches")[0]["capture_event_id"] == 2
    assert cell.rows("activities")[0]["graph_event_id"] == 3
    assert [row["fingerprint"] for row in cell.rows("graphs")] == ["f0", "f1", "f2"]
    assert len(cell.rows("graph_edges")) == 3
    assert [row["launch_id"] for row in cell.rows("builds")] == [0]


def test_a_cell_has_the_graphs_that_it_used_only(replayed: Recording) -> None:
    first = select_cell(replayed, 0)
    _check(first)
    assert [row["kind"] for row in first.rows("graph_events")] == [
        "capture", "instantiate", "instantiate", "update", "update", "capture"]
    one = select_cell(first, 0)
    for name in TABLES:
        assert one.rows(name) == first.rows(name), name


def test_keep_used_leaves_out_graphs_that_nothing_names(replayed: Recording) -> None:
    tables = {name: replayed.arrow(name) for name in TABLES}
    kept = keep_used(Recording({**tables, **{name: tables[name].slice(0, 0) for name in (
        "launches", "activities", "builds")}, "graph_events": tables["graph_events"].slice(0, 2)}, {}))
    _check(kept)
    assert [row["fingerprint"] for row in kept.rows("graphs")] == ["f0"]
    assert len(kept.rows("graph_nodes")) == 2
    assert len(kept.rows("graph_edges")) == 1


def test_ranges_stay_in_every_cell_in_which_they_were_open(full: Recording) -> None:
    first, second = select_cell(full, 0), select_cell(full, 1)
    assert first.rows("ranges") == full.rows("ranges")
    assert [row["name"] for row in second.rows("ranges")] == [""]
    assert second.rows("ranges")[0]["cell_id"] is None


def test_ranges_of_a_nested_recording_stay(full: Recording) -> None:
    assert keep_used(full).rows("ranges") == full.rows("ranges")
