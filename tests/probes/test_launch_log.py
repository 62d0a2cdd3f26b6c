"""What keeps the launches while a recording is under way: the records, their columns, and what a part of them is."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from kernelscope.clock import FakeClock
from kernelscope.native.log import (
    ENDS,
    ENDS_DTYPE,
    PHASES,
    PHASES_DTYPE,
    LaunchColumns,
    PythonLog,
    packing,
    thread_columns,
)
from kernelscope.probes.sink import Sink
from kernelscope.recording.build import LAUNCH_COLUMNS


@pytest.mark.parametrize(("record", "dtype"), [(PHASES, PHASES_DTYPE), (ENDS, ENDS_DTYPE)])
def test_records_are_what_numpy_reads(record, dtype):
    assert record.size == dtype.itemsize


def dtypes(columns: LaunchColumns) -> dict[str, Any]:
    return {name: values.dtype for name, values in columns.items()}


@pytest.mark.parametrize("detail", ["launch", "phases"])
@pytest.mark.parametrize("count", [0, 1, 4095, 4096, 4097, 10_000])
def test_every_launch_comes_back(detail, count):
    sink = Sink(detail=detail)
    for number in range(count):
        sink.launch(number, number + 5, 3, 4, dispatch_end_ns=number + 1)
    assert sink.state().count() == count
    columns = sink.log.columns()
    assert dtypes(columns) == LAUNCH_COLUMNS
    assert columns["start_ns"].tolist() == list(range(count))
    assert columns["end_ns"].tolist() == list(range(5, count + 5))
    assert columns["dispatch_end_ns"].tolist() == [number + 1 if detail == "phases" else -1 for number in range(count)]
    assert columns["submit_start_ns"].tolist() == columns["submit_end_ns"].tolist() == [-1] * count
    assert (columns["target"].tolist(), columns["configuration"].tolist()) == ([3] * count, [4] * count)
    assert columns["thread_id"].tolist() == [0] * count
    assert sink.log.lost() == 0
    first = min(count, 4096)
    assert len(sink.state().records(first)) == (count - first) * (PHASES if detail == "phases" else ENDS).size


def test_a_sink_without_launches_has_the_columns_too():
    assert dtypes(Sink().log.columns()) == LAUNCH_COLUMNS


def test_a_boundary_from_the_launch_before_is_unknown():
    records = PHASES.pack(1e-6, 0.9e-6, 1e-6, -1.0, 2e-6, 0, 0)
    columns = thread_columns(0, [records], PHASES)
    assert [columns[f"{name}_ns"].tolist() for name in ("dispatch_end", "submit_start", "submit_end", "end")] == [
        [-1], [1000], [-1], [2000]]


def test_launches_of_a_thread_are_in_order_of_start():
    sink = Sink()
    for start, end in ((20, 30), (10, 40), (50, 60)):  # a launch within a launch is written first
        sink.launch(start, end, start, 0)
    assert sink.log.columns()["start_ns"].tolist() == [10, 20, 50] == sink.log.columns()["target"].tolist()


def test_a_part_has_what_began_at_the_mark_or_later():
    clock = FakeClock(100)
    sink = Sink(clock)
    sink.launch(50, 60, 0, 0)
    clock.advance(20)
    first = sink.log.mark()
    sink.launch(110, 130, 1, 0)  # under way at the mark
    sink.launch(120, 140, 2, 0)
    clock.advance(30)
    second = sink.log.mark()
    thread = threading.Thread(target=lambda: sink.launch(150, 160, 3, 0))
    thread.start()
    thread.join()
    assert sink.log.columns()["target"].tolist() == [0, 1, 2, 3]
    assert sink.log.columns(first)["target"].tolist() == [2, 3]
    assert sink.log.columns(second)["target"].tolist() == [3]
    assert sink.log.columns(second)["thread_id"].tolist() == [1]
    assert sink.log.lost(first) == 0


def test_a_thread_that_ended_leaves_no_unused_room():
    sink = Sink()
    thread = threading.Thread(target=lambda: sink.launch(1, 2, 7, 0))
    thread.start()
    thread.join()
    state, = sink.threads
    assert len(state.buffer) == PHASES.size
    assert sink.log.columns()["target"].tolist() == [7]


def test_hooks_pack_records_as_the_log_reads_them():
    log = PythonLog(detail="launch")
    pack, size, room = packing(log)
    state = log.new_state(3)
    pack(state.buffer, state.offset, 1e-6, 2e-6, 5, 6)
    state.offset += size
    assert room == len(state.buffer)
    columns = log.columns()
    assert {name: values.tolist() for name, values in columns.items()} == {
        "thread_id": [3], "target": [5], "configuration": [6], "start_ns": [1000], "dispatch_end_ns": [-1],
        "submit_start_ns": [-1], "submit_end_ns": [-1], "end_ns": [2000]}
    assert dtypes(columns) == {name: np.dtype(dtype) for name, dtype in LAUNCH_COLUMNS.items()}


def test_nothing_is_packed_into_another_log():
    other: Any = type("Other", (), {"backend": "native"})()
    with pytest.raises(TypeError, match="not 'native': call the state's write"):
        packing(other)
