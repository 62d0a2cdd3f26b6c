"""From a log's columns to tables: cells, parents, compiles and caches of launches, whichever way is the short one."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from kernelscope.recording.build import LAUNCH_COLUMNS, RawCollections, RawRecording, build
from kernelscope.recording.columns import cell_finder
from kernelscope.recording.integrity import check_tables
from kernelscope.recording.model import Recording
from kernelscope.recording.parquet import arrow_schema
from kernelscope.schema import TABLES

TARGETS = [{"dispatcher_id": 0, "specialization_id": 0, "device_id": -1, "error": None},
           {"dispatcher_id": 1, "specialization_id": -1, "device_id": -1, "error": "TypeError"},
           {"dispatcher_id": 2, "specialization_id": 1, "device_id": -1, "error": None}]


def launches(*rows: dict[str, int]) -> dict[str, np.ndarray]:
    known = {"thread_id": 0, "target": 0, "configuration": 0}
    return {name: np.array([(known | row).get(name, -1) for row in rows], dtype)
            for name, dtype in LAUNCH_COLUMNS.items()}


def made(columns: dict[str, np.ndarray], **others: Any) -> Recording:
    recording = build(RawRecording(**{
        "launches": columns, "targets": TARGETS, "threads": [{"ident": 1}, {"ident": 2}, {"ident": 3}],
        "dispatchers": [{"framework": "numba-cuda", "name": "a"}, {"framework": "numba-cuda", "name": "b"},
                        {"framework": "simulator", "name": "c"}],
        "specializations": [{"dispatcher_id": at, "signature": "()", "origin": "before"} for at in (0, 2)],
        "configurations": [{"griddim_x": 1}],
    } | others))
    check_tables({name: recording.arrow(name) for name in TABLES})
    return recording


def column(recording: Recording, name: str) -> list[Any]:
    return recording.arrow("launches").column(name).to_pylist()


def test_nothing() -> None:
    recording = build(RawRecording())
    assert [name for name in TABLES if recording.arrow(name).num_rows] == ["processes"]
    assert recording.arrow("launches").schema == arrow_schema("launches")


def test_threads_are_put_in_one_order() -> None:
    recording = made(launches(*({"start_ns": at, "end_ns": at + 5, "thread_id": thread, "dispatch_end_ns": at + 1}
                                for thread, times in ((2, (20, 50)), (0, (10, 50, 90)), (1, (15,))) for at in times)))
    assert column(recording, "start_ns") == [10, 15, 20, 50, 50, 90]
    assert column(recording, "thread_id") == [0, 1, 2, 2, 0, 0]
    assert column(recording, "dispatch_end_ns") == [11, 16, 21, 51, 51, 91]
    assert column(recording, "submit_end_ns") == [None] * 6
    assert column(recording, "launch_id") == list(range(6))


def test_cells_of_times_in_order() -> None:
    for seed in range(20):
        draw = random.Random(seed)
        at, cells = 0, []
        for _ in range(draw.randrange(6)):
            start = at + draw.randrange(4)
            at = start + draw.randrange(8)
            cells.append({"start_ns": start, "end_ns": at})
        cell_of = cell_finder(cells)
        times = np.array(sorted(draw.randrange(-3, 50) for _ in range(draw.randrange(40))), np.int64)
        assert cell_of(times, in_order=True).tolist() == cell_of(times).tolist()


def test_launches_time_in_collections_of_their_thread() -> None:
    for seed in range(40):
        draw = random.Random(seed)
        starts = sorted(draw.randrange(1000) for _ in range(30))
        rows = [{"start_ns": start, "thread_id": draw.randrange(1 + seed % 3),
                 "end_ns": -1 if seed % 4 == 3 and draw.random() < 0.1 else start + draw.randrange(1 + 8 * (seed % 7))}
                for start in starts]
        edges = sorted(draw.sample(range(1100), 2 * draw.randrange(12)))
        found = [(begin, end, 1 + draw.randrange(4), 0, 5, 0)
                 for begin, end in zip(edges[::2], edges[1::2], strict=True)]
        recording = made(launches(*rows), collections=RawCollections(np.array(found, np.int64).reshape(-1, 6)))
        assert column(recording, "gc_ns") == [None if row["end_ns"] < 0 else sum(
            max(0, min(row["end_ns"], end) - max(row["start_ns"], begin))
            for begin, end, ident, *_ in found if ident == row["thread_id"] + 1) for row in rows], seed
        assert [row["ident"] for row in recording.rows("threads")][:3] == [1, 2, 3]
    assert column(made(launches(*rows)), "gc_ns") == [None] * len(rows)


@pytest.mark.parametrize("threads", [1, 3])
def test_parents(threads: int) -> None:
    """One that has not ended, those inside one another, one that begins as another ends, and two at one time."""
    rows = [(0, 100, None), (10, 40, 0), (20, 30, 1), (40, 50, 0), (60, 70, 0), (100, 120, None), (130, -1, None),
            (200, 210, None)]
    held = launches(*({"start_ns": start, "end_ns": end, "thread_id": thread}
                      for thread in range(threads) for start, end, _ in rows))
    recording = made(held)
    parents = column(recording, "parent_launch_id")
    ids = [[number for number, each in enumerate(column(recording, "thread_id")) if each == thread]
           for thread in range(threads)]
    for mine in ids:
        assert [parents[number] for number in mine] == [
            None if parent is None else mine[parent] for _, _, parent in rows]


def test_launches_after_one_another_have_no_parents() -> None:
    recording = made(launches(*({"start_ns": at * 10, "end_ns": at * 10 + 10} for at in range(5))))
    assert column(recording, "parent_launch_id") == [None] * 5


def test_caches_where_nothing_was_compiled() -> None:
    times = ({"start_ns": at * 10, "end_ns": at * 10 + 5} for at in range(3))
    recording = made(launches(*times), targets=TARGETS[:1], dispatchers=[{"framework": "numba-cuda", "name": "a"}],
                     specializations=[{"dispatcher_id": 0, "signature": "()", "origin": "before"}])
    assert (column(recording, "cache"), column(recording, "compile_ns")) == (["memory"] * 3, [0] * 3)
    assert column(recording, "compilation_id") == [None] * 3


def test_caches_of_launches_without_a_specialization_and_of_the_simulator_are_unknown() -> None:
    recording = made(launches(*({"start_ns": at * 10, "end_ns": at * 10 + 5, "target": at % 3} for at in range(6))))
    assert column(recording, "cache") == ["memory", None, None] * 2
    assert column(recording, "compile_ns") == [0, None, None] * 2
    assert column(recording, "error") == [None, "TypeError", None] * 2
    assert column(recording, "specialization_id") == [0, None, 1] * 2


def test_a_compile_is_joined_with_the_innermost_launch_around_it() -> None:
    rows = [{"start_ns": 0, "end_ns": 100}, {"start_ns": 10, "end_ns": 60},
            {"start_ns": 110, "end_ns": 200, "target": 1}, {"start_ns": 15, "end_ns": 20, "thread_id": 1}]
    common = {"specialization_id": 0, "trigger": "launch", "thread_id": 0, "dispatcher_id": 0, "signature": "()"}
    recording = made(launches(*rows), compilations=[
        {**common, "start_ns": 120, "end_ns": 150, "outcome": "failed", "specialization_id": None},
        {**common, "start_ns": 20, "end_ns": 50, "outcome": "compiled"},
        {**common, "start_ns": 70, "end_ns": 80, "outcome": "disk"},
        {**common, "start_ns": 300, "end_ns": 310, "outcome": "compiled"},
    ])
    assert [row["launch_id"] for row in recording.rows("compilations")] == [1, 0, 3, None]
    assert column(recording, "compile_ns") == [10, 30, 0, 30]
    assert column(recording, "cache") == ["disk", "compiled", "memory", None]
    assert column(recording, "compilation_id") == [1, 0, None, 2]
