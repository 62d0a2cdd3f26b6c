"""The launch log: its columns, what a recorder's part of it is, and what of it was not kept."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from kernelscope.native.log import LaunchLog
from kernelscope.probes.sink import Sink
from kernelscope.schema import RECORD_TIMES


def in_thread(function: Any) -> None:
    thread = threading.Thread(target=function)
    thread.start()
    thread.join()


@pytest.mark.parametrize("detail", ["launch", "phases"])
@pytest.mark.parametrize("count", [0, 1, 4095, 4096, 4097, 10_000])
def test_every_launch_comes_back(detail: str, count: int) -> None:
    sink = Sink(detail=detail)
    for number in range(count):
        sink.launch(number, number + 5, 3, 4, dispatch_end_ns=number + 1)
    columns = sink.log.columns()
    assert {name: values.dtype for name, values in columns.items()} == {
        **dict.fromkeys(("site", "target", "configuration"), np.dtype(np.int32)),
        **dict.fromkeys(RECORD_TIMES, np.dtype(np.int64))}
    assert columns["start_ns"].tolist() == list(range(count))
    assert columns["end_ns"].tolist() == list(range(5, count + 5))
    assert columns["dispatch_end_ns"].tolist() == [number + 1 if detail == "phases" else -1 for number in range(count)]
    assert columns["submit_start_ns"].tolist() == columns["submit_end_ns"].tolist() == [-1] * count
    assert (columns["target"].tolist(), columns["configuration"].tolist()) == ([3] * count, [4] * count)
    assert columns["site"].tolist() == [0] * count
    assert sink.log.lost() == 0


def test_a_part_has_what_began_at_the_mark_or_later() -> None:
    sink = Sink()
    sink.launch(50, 60, 0, 0)
    first = sink.log.mark()
    sink.launch(120, 140, 1, 0)
    second = sink.log.mark()
    in_thread(lambda: sink.launch(150, 160, 2, 0))
    assert sink.log.columns()["target"].tolist() == [0, 1, 2]
    assert sink.log.columns(first)["target"].tolist() == [1, 2]
    assert sink.log.columns(second)["target"].tolist() == [2]
    assert sink.log.columns(second)["site"].tolist() == [1]
    assert sink.log.lost(first) == 0


@pytest.mark.parametrize("mode", ["ring", "stop"])
@pytest.mark.parametrize("capacity", [1, 7, 100, 1000])
@pytest.mark.parametrize("marked", [0, 1, 99, 777])
def test_as_many_as_asked_for_are_kept_and_the_rest_is_counted(mode: str, capacity: int, marked: int) -> None:
    log = LaunchLog(mode=mode, capacity=capacity)
    sink = Sink(log=log)
    for number in range(777):
        if number == marked:
            mark = log.mark()
        (in_thread if number % 100 == 0 else lambda call: call())(lambda at=number: sink.launch(at, at + 5, at, 4))
    if marked == 777:
        mark = log.mark()
    kept = list(range(777))[-capacity:] if mode == "ring" else list(range(777))[:capacity]
    assert log.columns()["target"].tolist() == kept
    assert log.lost() == 777 - len(kept)
    part = [number for number in kept if number >= marked]
    assert log.columns(mark)["start_ns"].tolist() == part
    assert log.lost(mark) == 777 - marked - len(part)
