from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kernelscope.analysis.activities import distinct, gpu_activities, is_gpu_recorded, windows


def test_what_has_no_proper_times_is_left_out_and_counted(script: Any) -> None:
    made = script()
    made.activity(start_ns=500, duration_ns=0)
    made.activity(start_ns=100, end_ns=90)
    made.activity(start_ns=None)
    made.activity(start_ns=300, end_ns=None)
    made.activity("sync", "stream", start_ns=10)
    made.activity("memcpy", "HtoD", start_ns=200, duration_ns=50)
    made.activity("memset", "memset", start_ns=400, duration_ns=5)
    found = gpu_activities(made.recording())
    assert found.row.tolist() == [5, 6, 0]
    assert (found.reversed, found.untimed, len(found)) == (1, 2, 3)
    assert found.is_copy.tolist() == [True, False, False]
    assert found.kernels().row.tolist() == [0]
    assert found.busy.total_ns == 55


def test_devices_and_streams_stay_apart(script: Any) -> None:
    made = script()
    for device, stream in ((1, 7), (0, 7), (None, 9), (1, 8)):
        made.activity(device_id=device, stream=stream, start_ns=100, duration_ns=10)
    found = gpu_activities(made.recording())
    assert [(device, len(own)) for device, own in found.by_device()] == [(-1, 1), (0, 1), (1, 2)]
    last = dict(found.by_device())[1]
    assert [(stream, own.row.tolist()) for stream, own in last.by_stream()] == [(7, [0]), (8, [3])]


def test_windows_reach_to_the_synchronization(script: Any) -> None:
    made = script()
    made.cell(start_ns=100, end_ns=200, synchronized_ns=230)
    made.cell(start_ns=300, end_ns=400)
    found = windows(made.recording())
    assert (found.start.tolist(), found.end.tolist()) == ([100, 300], [230, 400])


def test_windows_without_cells(script: Any) -> None:
    made = script()
    assert len(windows(made.recording())) == 0
    made.kernel()
    made.configuration()
    made.launch(specialization=None, start_ns=50, end_ns=None, phases=None)
    made.activity(start_ns=80, duration_ns=20)
    found = windows(made.recording())
    assert (found.start.tolist(), found.end.tolist()) == ([50], [100])


@pytest.mark.parametrize(("metadata", "activities", "recorded"), [
    ({}, 0, False), ({"gpu": {"source": "cupti"}}, 0, True), ({}, 1, True), ({"gpu": None}, 0, False),
])
def test_whether_the_gpu_was_recorded(script: Any, metadata: dict[str, Any], activities: int, recorded: bool) -> None:
    made = script(**metadata)
    for _ in range(activities):
        made.activity()
    assert is_gpu_recorded(made.recording()) is recorded


def test_distinct_ids_near_and_far() -> None:
    assert distinct(np.array([9, -1, 9, 4])) == [-1, 4, 9]
    assert distinct(np.array([2**62, 5, 2**62])) == [5, 2**62]
    assert distinct(np.array([], dtype=np.int64)) == []
