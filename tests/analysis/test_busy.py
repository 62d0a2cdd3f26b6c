from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kernelscope.analysis.activities import busy, busy_by_cell, busy_over_time, busy_table
from kernelscope.analysis.columns import union


def story(script: Any) -> Any:
    made = script()
    made.device()
    made.device(ordinal=1)
    made.cell(start_ns=100, end_ns=200, synchronized_ns=300)
    made.cell(start_ns=500, end_ns=600)
    made.activity(start_ns=150, duration_ns=50)
    made.activity(start_ns=170, duration_ns=60, stream=8)
    made.activity("memcpy", "HtoD", start_ns=220, duration_ns=30)
    made.activity(start_ns=590, duration_ns=100)  # goes on after the cell
    made.activity(start_ns=350, duration_ns=50)  # between cells
    made.activity("memset", "memset", start_ns=510, duration_ns=10, device_id=1)
    made.activity("sync", "stream", start_ns=100, duration_ns=200)
    return made


def test_what_runs_at_once_counts_once(script: Any) -> None:
    found = busy(story(script).recording())
    assert [(each.device_id, each.window_ns, each.kernel_ns, each.busy_ns) for each in found] == [
        (0, 300, 80 + 10, 100 + 10), (1, 300, 0, 10)]
    assert found[0].share == pytest.approx(110 / 300)
    assert found[0].kernel_share == pytest.approx(90 / 300)


def test_by_cell_and_in_a_window(script: Any) -> None:
    recording = story(script).recording()
    first, second = busy_by_cell(recording)
    assert [(each.device_id, each.window_ns, each.busy_ns) for each in first] == [(0, 200, 100), (1, 200, 0)]
    assert [each.busy_ns for each in second] == [10, 10]
    window = union(np.array([340, 595]), np.array([360, 1_000]))
    assert [(each.window_ns, each.busy_ns) for each in busy(recording, window)] == [(425, 10 + 95), (425, 0)]


def test_over_time(script: Any) -> None:
    found = busy_over_time(story(script).recording(), 5)
    assert found[0].edges_ns.tolist() == [100, 200, 300, 400, 500, 600]
    assert found[0].share.tolist() == [0.5, 0.5, 0.5, 0, 0.1]
    assert found[0].kernel_share.tolist() == [0.5, 0.3, 0.5, 0, 0.1]
    assert found[1].share.tolist() == [0, 0, 0, 0, 0.1]
    assert len(busy_over_time(story(script).recording(), 10_000)[0].share) == 500
    with pytest.raises(ValueError, match="bins is 0; it must be 1 or more"):
        busy_over_time(story(script).recording(), 0)


def test_without_anything(script: Any) -> None:
    assert busy(script().recording()) == []
    assert busy_over_time(script().recording()) == []
    assert busy_by_cell(script().recording()) == []
    made = script()
    made.cell(start_ns=100, end_ns=100)
    made.activity(start_ns=100, duration_ns=5)
    assert [(each.window_ns, each.share, each.kernel_share) for each in busy(made.recording())] == [(0, None, None)]


def test_as_a_table(script: Any) -> None:
    table = busy_table(story(script).recording())
    assert table.busy_ns.tolist() == [110, 10]
    assert table.columns.tolist() == ["device_id", "window_ns", "busy_ns", "busy_share", "kernel_ns", "kernel_share"]


@pytest.mark.parametrize("seed", range(10))
def test_bins_add_up(script: Any, seed: int) -> None:
    random = np.random.default_rng(seed)
    made = script()
    made.cell(start_ns=0, end_ns=1_000)
    held: set[int] = set()
    for _ in range(40):
        start, length = int(random.integers(-50, 1_050)), int(random.integers(0, 40))
        start = max(start, 0)
        made.activity(start_ns=start, duration_ns=length, stream=int(random.integers(1, 4)))
        held.update(range(start, start + length))
    recording = made.recording()
    inside = len([at for at in held if at < 1_000])
    assert busy(recording)[0].busy_ns == inside
    over_time = busy_over_time(recording, int(random.integers(1, 60)))[0]
    assert float((over_time.share * np.diff(over_time.edges_ns)).sum()) == pytest.approx(inside)
    assert (over_time.share <= 1).all()
