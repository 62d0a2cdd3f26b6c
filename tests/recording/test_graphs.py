"""The join of graphs: events with calls and activities, captures with launches, and parts of a session."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from counting import lines_run

from kernelscope.recording.build import LAUNCH_COLUMNS as RAW_COLUMNS
from kernelscope.recording.build import RawRecording, build
from kernelscope.recording.graphs import LAUNCH_COLUMNS, RawGraphs
from kernelscope.recording.integrity import check_tables
from kernelscope.recording.joins import ACTIVITY_COLUMNS, CALL_COLUMNS, RawActivities
from kernelscope.recording.model import Recording
from kernelscope.schema import TABLES

IDENT = 0x7F00_0000_1000
NAMES = ["cuGraphLaunch", "cudaGraphLaunch_v10000", "cuLaunchKernel", "cuGraphInstantiateWithParams", "axpy", "HtoD"]
ENTRIES = ["_Zaxpy", "_Zfill"]


def made(**columns: Any) -> Recording:
    """Build a recording of one thread and one cell, and check it."""
    raw = RawRecording(**{
        "threads": [{"ident": IDENT, "name": "MainThread"}],
        "cells": [{"start_ns": 0, "end_ns": 1_000_000, "status": "ok"}],
        "dispatchers": [{"framework": "numba-cuda", "name": "axpy"}, {"framework": "quadrants", "name": "step"}],
        "specializations": [{"dispatcher_id": 0, "signature": "()", "origin": "compiled", "entry_name": "_Zaxpy"}],
        "configurations": [configuration(4, stream=50), configuration(8, stream=50), configuration(4),
                           {"griddim_x": None, "stream": None}],
        "targets": [{"dispatcher_id": 0, "specialization_id": 0, "device_id": -1, "error": None},
                    {"dispatcher_id": 1, "specialization_id": -1, "device_id": -1, "error": None},
                    {"dispatcher_id": 0, "specialization_id": 0, "device_id": -1, "error": "TypeError"}],
    } | columns)
    recording = build(raw)
    check_tables({name: recording.arrow(name) for name in TABLES})
    return recording


def configuration(grid: int, stream: int | None = None) -> dict[str, Any]:
    return {"griddim_x": grid, "griddim_y": 1, "griddim_z": 1, "blockdim_x": 32, "blockdim_y": 1, "blockdim_z": 1,
            "sharedmem_bytes": 0, "stream": stream}


def launches(*rows: tuple[int, int, int, int]) -> dict[str, np.ndarray]:
    """Launches of one thread from start, end (ns), target and configuration, without the boundaries between."""
    given = dict(zip(("start_ns", "end_ns", "target", "configuration"), zip(*rows, strict=True), strict=True))
    return {name: np.array(given.get(name, [0 if name == "thread_id" else -1] * len(rows)), dtype)
            for name, dtype in RAW_COLUMNS.items()}


def gpu(calls: list[tuple[int, int, int, int]], activities: list[dict[str, int]], **columns: Any) -> RawActivities:
    """Calls of name, start, end and correlation id; activities are kernels named axpy unless they say otherwise."""
    held = [dict(zip(("name", "start_ns", "end_ns", "correlation_id"), each, strict=True)) for each in calls]
    both = ((ACTIVITY_COLUMNS, {"kind": 0, "name": 4, "entry": 0}, activities),
            (CALL_COLUMNS, {"ident": IDENT & 0xFFFFFFFF, "result": 0}, held))
    seen, asked = ({name: np.array([(common | row).get(name, -1) for row in rows], np.int64) for name in names}
                   for names, common, rows in both)
    return RawActivities(seen, asked, NAMES, ENTRIES, **columns)


def node(graph: int, number: int, correlation: int, start: int, lasts: int = 10, **row: int) -> dict[str, int]:
    return {"cupti_graph_id": graph, "cupti_node_id": graph << 32 | number, "correlation_id": correlation,
            "start_ns": start, "end_ns": start + lasts, **row}


def event(kind: str, start: int | None = None, end: int | None = None, **row: Any) -> dict[str, Any]:
    return {"kind": kind, "start_ns": start, "end_ns": end, "outcome": "ok", "thread_ident": IDENT, **row}


def graphs(count: int = 1, nodes: int = 2, **columns: Any) -> RawGraphs:
    """Graphs in chains of kernels named axpy, their nodes numbered from 0 by CUPTI; `nodes` of graphs interleave."""
    rows = [{"graph_id": graph, "kind": "kernel", "name": "axpy", "entry_name": "_Zaxpy", "configuration_id": 2}
            for _ in range(nodes) for graph in range(count)]
    edges = [{"graph_id": graph, "from_node_id": at * count + graph, "to_node_id": (at + 1) * count + graph}
             for at in range(nodes - 1) for graph in range(count)]
    held = {"graphs": [{"fingerprint": f"f{graph}", "topology": "t"} for graph in range(count)], "nodes": rows,
            "edges": edges,
            "nodes_of": {(graph, at): at * count + graph for graph in range(count) for at in range(nodes)}}
    return RawGraphs(**held | columns)


def events_of(recording: Recording, *columns: str) -> list[Any]:
    rows = [tuple(row[column] for column in columns) for row in recording.rows("graph_events")]
    return [row[0] for row in rows] if len(columns) == 1 else rows


def test_graphs_nodes_and_edges_are_in_order() -> None:
    recording = made(graphs=graphs(2, 3))
    assert [(row["fingerprint"], row["nodes"], row["edges"]) for row in recording.rows("graphs")] == [
        ("f0", 3, 2), ("f1", 3, 2)]
    assert recording.column("graph_nodes", "graph_id").tolist() == [0, 0, 0, 1, 1, 1]
    assert recording.column("graph_nodes", "specialization_id").tolist() == [0] * 6
    edges = [(row["graph_id"], row["from_node_id"], row["to_node_id"]) for row in recording.rows("graph_edges")]
    assert edges == [(0, 0, 1), (0, 1, 2), (1, 3, 4), (1, 4, 5)]


def test_events_are_in_order_with_cells_and_threads() -> None:
    recording = made(graphs=graphs(1, events=[
        event("instantiate", 300, 340, graph_id=0, source_event_id=1),
        event("capture", 100, 200, graph_id=0, stream=50, thread_ident=77),
        event("before"),
        event("instantiate", 500, 540, graph_id=0, rebuild_of=0, change="none"),
        event("instantiate", 600, 640, outcome="failed", error="CUDA_ERROR_INVALID_VALUE"),
        event("close", 2_000_000, exec_id=0),
    ]))
    assert events_of(recording, "kind", "start_ns", "exec_id", "source_event_id", "rebuild_of") == [
        ("before", None, 0, None, None), ("capture", 100, None, None, None), ("instantiate", 300, 2, 1, None),
        ("instantiate", 500, 3, None, 2), ("instantiate", 600, None, None, None), ("close", 2_000_000, 2, None, None)]
    assert events_of(recording, "cell_id") == [None, 0, 0, 0, 0, None]
    assert events_of(recording, "thread_id") == [0, 1, 0, 0, 0, 0]
    assert recording.rows("threads")[1] == {"thread_id": 1, "ident": 77, "name": None, "process_id": 0}


@pytest.mark.parametrize("runtime", [False, True])
def test_a_launch_is_a_call_with_its_activities(runtime: bool) -> None:
    calls = [(0, 400, 420, 7), (0, 500, 520, 8)]
    if runtime:  # the driver's call inside has its id
        calls = [(1, 398, 422, 7), *calls[:1], (1, 498, 522, 8), *calls[1:]]
    recording = made(
        graphs=graphs(events=[event("instantiate", 300, 340, graph_id=0)], execs={9: 0}),
        activities=gpu([*calls, (3, 305, 330, 3)], [
            node(9, 0, 7, 450), node(9, 1, 7, 465, kind=1, name=5, entry=-1), node(9, 0, 8, 515),
            node(9, 1, 8, 530, 20),
        ]))
    assert events_of(recording, "kind", "graph_id", "exec_id", "correlation_id", "execute_ns") == [
        ("instantiate", 0, 0, 3, None), ("launch", 0, 0, 7, 25), ("launch", 0, 0, 8, 35)]
    assert events_of(recording, "queue_ns") == [None, 28 if runtime else 30, 0]
    assert events_of(recording, "api")[1:] == [NAMES[int(runtime)]] * 2
    assert recording.column("activities", "graph_event_id").tolist() == [1, 1, 2, 2]
    assert recording.column("activities", "graph_node_id").tolist() == [0, 1, 0, 1]
    assert recording.column("activities", "launch_id").tolist() == [-1] * 4
    assert recording.rows("api_calls") == []  # the events tell of all of them


def test_an_executable_graph_that_nobody_saw_being_made() -> None:
    recording = made(activities=gpu([(0, 400, 420, 7), (0, 500, 520, 8), (0, 600, 620, 9), (0, 700, 720, 10)], [
        node(9, 0, 7, 450), node(9, 0, 8, 550), node(5, 0, 9, 650)]))
    assert events_of(recording, "kind", "exec_id", "graph_id") == [
        ("before", 0, None), ("before", 1, None), ("launch", 1, None), ("launch", 1, None), ("launch", 0, None),
        ("launch", None, None)]  # the last one asked for nothing, so that nothing tells which it was
    assert recording.column("activities", "graph_event_id").tolist() == [2, 3, 4]
    assert recording.column("activities", "graph_node_id").tolist() == [-1] * 3


def test_a_launch_runs_the_graph_that_an_update_made_of_it() -> None:
    recording = made(
        graphs=graphs(2, events=[
            event("instantiate", 300, 340, graph_id=0), event("update", 450, 460, graph_id=1, exec_id=0),
            event("update", 550, 560, graph_id=0, exec_id=0, outcome="refused")], execs={9: 0}),
        activities=gpu([(0, 400, 420, 7), (0, 500, 520, 8), (0, 600, 620, 9)],
                       [node(9, 1, each, at) for each, at in ((7, 430), (8, 530), (9, 630))]))
    assert [row for row in events_of(recording, "kind", "graph_id") if row[0] == "launch"] == [
        ("launch", 0), ("launch", 1), ("launch", 1)]
    assert recording.column("activities", "graph_node_id").tolist() == [1, 3, 3]


@pytest.mark.parametrize("order", ["body last", "body first", "nothing else"])
def test_bodies_of_conditional_nodes_belong_to_their_launch(order: str) -> None:
    """Launches are all made before the first of them runs; what bodies run has correlation id 0."""
    calls = [(0, 100 + 10 * at, 105 + 10 * at, 7 + at) for at in range(3)]
    activities: list[dict[str, int]] = []
    expected: list[int] = []
    now = 1_000
    for at in range(3):
        bodies = [node(9, 2 if order != "body first" else 1, 0, now + 20 * each) for each in range(1, 3 + at)]
        if order == "nothing else":
            calls[at] = (0, now, now + 5, 7 + at)
            bodies[0] |= {"correlation_id": 7 + at}
        last = node(9, 0 if order == "body last" else 5, 7 + at, now if order == "body last" else now + 200)
        runs = bodies if order == "nothing else" else [last, *bodies]
        activities += runs
        expected += [at] * len(runs)
        now += 300
    pairs = sorted(zip(activities, expected, strict=True), key=lambda pair: pair[0]["start_ns"])
    recording = made(graphs=graphs(1, 6, events=[event("instantiate", 50, 60, graph_id=0)], execs={9: 0}),
                     activities=gpu(calls, [pair[0] for pair in pairs]))
    assert (recording.column("activities", "graph_event_id") - 1).tolist() == [pair[1] for pair in pairs]
    assert (recording.column("activities", "correlation_id") - 7).tolist() == [pair[1] for pair in pairs]
    assert set(recording.column("activities", "api").tolist()) == {"cuGraphLaunch"}


def test_launches_of_a_log() -> None:
    rows = [(0, 50, IDENT, 400, 410, 0), (-1, 50, IDENT, 500, 510, 0), (0, 50, 77, 600, 610, 1),
            (1, 50, IDENT, 700, 1, 0), (0, 60, IDENT, 250, 260, 0)]  # the last one on a stream that captures
    log = dict(zip(LAUNCH_COLUMNS, np.array(rows, np.int64).T, strict=True))
    recording = made(graphs=graphs(events=[
        event("instantiate", 300, 340, graph_id=0), event("capture", 200, 290, stream=50, streams=[60])], launches=log))
    assert events_of(recording, "kind", "start_ns", "exec_id", "graph_id", "outcome", "thread_id") == [
        ("capture", 200, None, None, "ok", 0), ("instantiate", 300, 1, 0, "ok", 0), ("launch", 400, 1, 0, "ok", 0),
        ("launch", 500, None, None, "ok", 0), ("launch", 600, 1, 0, "failed", 1), ("launch", 700, None, None, "ok", 0)]
    assert events_of(recording, "stream", "api", "error")[4] == (50, "cuGraphLaunch", "CUresult 1")


def test_a_graph_launch_into_a_capture_is_none() -> None:
    recording = made(
        graphs=graphs(events=[event("capture", 100, 200, stream=50)]),
        activities=gpu([(0, 150, 160, 7), (0, 250, 260, 8)], []))
    assert events_of(recording, "kind", "start_ns") == [("capture", 100), ("launch", 250)]
    assert [row["start_ns"] for row in recording.rows("api_calls")] == [150]


def test_a_launch_that_a_probe_tells_of_is_the_call_inside_of_it() -> None:
    recording = made(
        graphs=graphs(events=[event("instantiate", 300, 340, graph_id=0), event("launch", 390, 430, exec_id=0)]),
        activities=gpu([(0, 400, 420, 7)], [node(9, 0, 7, 450)]))
    assert events_of(recording, "kind", "exec_id", "graph_id", "correlation_id", "api", "queue_ns") == [
        ("instantiate", 0, 0, None, None, None), ("launch", 0, 0, 7, "cuGraphLaunch", 20)]


def test_captured_launches_are_nodes_and_did_not_run() -> None:
    rows = [(90, 95, 0, 0), (110, 115, 0, 0), (120, 125, 0, 1), (130, 135, 2, 0), (140, 145, 0, 0), (150, 155, 0, 2),
            (160, 165, 0, 0), (300, 305, 0, 0), (310, 315, 1, 3)]
    held = graphs(1, 2, events=[event("capture", 100, 200, stream=40, streams=[50, 60], graph_id=0)])
    held.nodes[1:1] = [  # in front of the second of that shape: another name, another grid, and a child graph's
        {"graph_id": 0, "kind": "kernel", "entry_name": "_Zfill", "configuration_id": 2},
        {"graph_id": 0, "kind": "kernel", "entry_name": "_Zaxpy", "configuration_id": 1},
        {"graph_id": 0, "kind": "child"},
        {"graph_id": 0, "kind": "kernel", "entry_name": "_Zaxpy", "configuration_id": 2, "parent_node_id": 3,
         "body": 0},
    ]
    held.edges = []
    recording = made(graphs=held, launches=launches(*rows))
    event_ids = recording.column("launches", "capture_event_id").tolist()
    assert event_ids == [-1, 0, 0, -1, 0, -1, 0, -1, -1]  # before, on another stream, or raised: not captured
    assert recording.column("launches", "graph_node_id").tolist() == [-1, 0, 2, -1, 5, -1, -1, -1, -1]


@pytest.mark.parametrize(("first", "second", "captures"), [
    # The handles of the captures' streams with their devices: what became of launches on device 0, 1 and unknown.
    ((50, 0), (50, 1), [0, 1, 1]),
    ((50, 0), (60, 1), [0, -1, 0]),
    ((50, -1), (60, 1), [0, 0, 0]),
    ((50, -1), (50, 1), [0, 1, 1]),
])
def test_streams_of_two_devices_with_one_handle(first: Any, second: Any, captures: list[int]) -> None:
    held = graphs(1, 2, events=[event("capture", at, 200, stream=stream, device=device, graph_id=0)
                                for at, (stream, device) in ((100, first), (110, second))])
    recording = made(
        graphs=held, launches=launches((120, 121, 0, 0), (130, 131, 1, 0), (140, 141, 2, 0)),
        devices=[{"ordinal": 0}, {"ordinal": 1}],
        targets=[{"dispatcher_id": 0, "specialization_id": 0, "device_id": device, "error": None}
                 for device in (0, 1, -1)])
    assert recording.column("launches", "capture_event_id").tolist() == captures


def test_each_thread_has_a_default_stream_of_its_own() -> None:
    """Of the per-thread default stream the handle is 2 in every thread."""
    rows = launches((120, 121, 0, 0), (130, 131, 0, 0))
    rows["thread_id"][:] = 0, 1
    recording = made(
        graphs=graphs(1, 2, events=[event("capture", 100, 200, stream=2, graph_id=0)]), launches=rows,
        threads=[{"ident": IDENT, "name": "MainThread"}, {"ident": IDENT + 1, "name": "other"}],
        configurations=[configuration(4, stream=2), configuration(8, stream=50), configuration(4)])
    assert recording.column("launches", "capture_event_id").tolist() == [0, -1]


def test_captures_of_one_stream_one_after_the_other() -> None:
    rows = [(100 * at + 50 + each, 100 * at + 51 + each, 0, 0) for at in range(1, 4) for each in (1, 2, 45)]
    ends = {1: 190, 2: 290, 3: None}
    held = graphs(1, 2, events=[event("capture", 100 * at + 10, ends[at], stream=50, graph_id=0) for at in (3, 2, 1)])
    recording = made(graphs=held, launches=launches(*rows))
    assert recording.column("launches", "capture_event_id").tolist() == [0, 0, -1, 1, 1, -1, 2, 2, 2]
    assert recording.column("launches", "graph_node_id").tolist() == [0, 1, -1, 0, 1, -1, 0, 1, -1]


def test_a_part_of_a_session_has_its_own_events_and_what_they_need() -> None:
    log = dict(zip(LAUNCH_COLUMNS, np.array([(0, 1, IDENT, 400, 410, 0), (0, 1, IDENT, 600, 610, 0)]).T, strict=True))
    held = graphs(3, events=[
        event("instantiate", 300, 340, graph_id=0, source_event_id=4), event("instantiate", 350, 360, graph_id=1),
        event("update", 450, 460, graph_id=2, exec_id=0), event("before", graph_id=1),
        event("capture", 200, 290, stream=50), event("capture", 470, None, stream=50),
        event("instantiate", 700, 710, graph_id=1, rebuild_of=1, source_event_id=4),
        event("close", 480, 490, exec_id=1),
    ], launches=log, began=500)
    recording = made(graphs=held, launches=launches((520, 530, 0, 0)))
    assert events_of(recording, "kind", "start_ns", "exec_id", "graph_id", "rebuild_of", "source_event_id") == [
        ("before", None, 0, 2, None, None), ("before", None, 1, 1, None, None),
        ("capture", 470, None, None, None, None), ("launch", 600, 0, 2, None, None),
        ("instantiate", 700, 4, 1, 1, None)]
    assert events_of(recording, "thread_id") == [None, None, 0, 0, 0]
    assert recording.column("launches", "capture_event_id").tolist() == [2]


def test_one_call_of_an_algorithm_has_all_of_its_kernels() -> None:
    """A call of an algorithm launches two kernels and a graph, and calls a kernel of numba's in between."""
    recording = made(
        launches=launches((100, 500, 1, 3), (200, 250, 0, 0), (600, 700, 1, 3)),
        activities=gpu([(2, 110, 120, 1), (2, 210, 220, 2), (2, 300, 310, 3), (0, 320, 330, 4), (2, 550, 560, 5)], [
            {"correlation_id": 1, "start_ns": 150, "end_ns": 160, "entry": 1, "shape": 0},
            {"correlation_id": 2, "start_ns": 250, "end_ns": 253},
            {"correlation_id": 3, "start_ns": 350, "end_ns": 365, "entry": 1, "shape": 0},
            node(9, 0, 4, 400), node(9, 1, 4, 420, kind=1, name=5, entry=-1),
            {"correlation_id": 5, "start_ns": 600, "end_ns": 700},
        ], shapes=[(4, 1, 1, 32, 1, 1, None, None, None, 0)]))
    # The last kernel is of a call between the two: nobody's, and so the driver's.
    assert recording.column("activities", "launch_id").tolist() == [0, 1, 0, 0, -1, 2]
    assert recording.column("launches", "execute_ns").tolist() == [35, 3, 100, -1]
    assert recording.column("launches", "queue_ns").tolist() == [30, 30, 40, -1]
    assert recording.column("launches", "correlation_id").tolist() == [-1, 2, 5, -1]
    assert recording.column("activities", "configuration_id").tolist()[0] == 2  # the one without a stream that there is
    assert recording.column("activities", "graph_event_id").tolist() == [-1, -1, -1, 1, 1, -1]
    assert recording.rows("launches")[0]["parent_launch_id"] is None
    assert recording.rows("api_calls") == []
    assert recording.rows("configurations")[3]["griddim_x"] is None


def test_builds_are_in_order_with_their_launch_and_cell() -> None:
    def request(start: int, **row: Any) -> dict[str, Any]:
        return {"thread_id": 0, "framework": "cuda.compute", "algorithm": "reduce_into", "outcome": "miss",
                "start_ns": start, "end_ns": start + 5, **row}

    recording = made(
        launches=launches((100, 500, 1, 3), (200, 250, 0, 0)), threads=[{"ident": IDENT}, {"ident": 5}],
        builds=[request(600, nearest_build_id=1), request(110, nearest_build_id=2), request(2_000_000),
                request(210, thread_id=1, outcome="wait"), request(220)])
    assert [(row["start_ns"], row["launch_id"], row["cell_id"], row["nearest_build_id"])
            for row in recording.rows("builds")] == [
        (110, 0, 0, 4), (210, None, 0, None), (220, 1, 0, None), (600, None, 0, 0), (2_000_000, None, None, None)]


def many_graph_launches(count: int, nodes: int) -> Callable[[], Recording]:
    """So many launches of 50 graphs in turn, each with activities; what joins them."""
    start = 1_000 + np.arange(count) * 100_000
    of = np.repeat(np.arange(count), nodes)
    number = np.tile(np.arange(nodes), count)
    began = np.repeat(start + 5_000, nodes) + number * 2_000
    seen = {name: np.full(count * nodes, -1) for name in ACTIVITY_COLUMNS} | {
        "kind": np.zeros(count * nodes, np.int64), "name": np.full(count * nodes, 4), "start_ns": began,
        "end_ns": began + 1_500, "correlation_id": of + 1, "cupti_graph_id": 9 + of % 50,
        "cupti_node_id": (9 + of % 50) << 32 | number}
    calls = {"name": np.zeros(count, np.int64), "ident": np.full(count, IDENT & 0xFFFFFFFF), "start_ns": start,
             "end_ns": start + 4_000, "correlation_id": np.arange(1, count + 1), "result": np.zeros(count, np.int64)}
    held = graphs(50, nodes, execs={9 + at: at for at in range(50)},
                  events=[event("instantiate", at, at + 1, graph_id=at) for at in range(50)])
    raw = RawActivities(seen, calls, NAMES, ENTRIES)
    return lambda: made(graphs=held, activities=raw, cells=[{"start_ns": 0, "end_ns": 2**60, "status": "ok"}])


def test_the_work_grows_with_the_launches_of_graphs_and_no_faster() -> None:
    count, nodes = 20_000, 4
    recording = many_graph_launches(count, nodes)()
    assert recording.arrow("graph_events").num_rows == count + 50
    assert (recording.column("graph_events", "execute_ns")[50:] == 7_500).all()
    assert np.array_equal(recording.column("activities", "graph_node_id"),
                          np.repeat(np.arange(count), nodes) % 50 * nodes + np.tile(np.arange(nodes), count))
    few, many = many_graph_launches(2_000, nodes), many_graph_launches(4_000, nodes)
    assert lines_run(many) < 2.2 * lines_run(few)
