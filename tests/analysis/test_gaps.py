from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kernelscope.analysis.activities import windows
from kernelscope.analysis.gpu import STATES, gap_table, gaps, host_states, largest_gaps


def story(script: Any) -> Any:
    """Two streams of one device, and another device; two launches."""
    made = script()
    made.device()
    made.device(ordinal=1)
    made.cell(start_ns=0, end_ns=900, synchronized_ns=1_000)
    made.kernel()
    made.configuration()
    for at in (100, 300):
        made.now = at
        made.launch(specialization=None, phases=(20, 0, 20, 20, 20))
    made.activity(start_ns=150, duration_ns=50, stream=7)
    made.activity(start_ns=160, duration_ns=20, stream=8)  # inside the other one
    made.activity(start_ns=360, duration_ns=100, stream=8)
    made.activity(start_ns=500, duration_ns=100, stream=7)
    made.activity(start_ns=250, duration_ns=50, device_id=1)
    made.activity(start_ns=800, end_ns=700)  # a clock jumped
    return made


def test_gaps_over_all_streams_and_on_each(script: Any) -> None:
    lanes = gaps(story(script).recording())
    found = [
        (lane.device_id, lane.stream, lane.all_streams, lane.activities, lane.busy_ns,
         list(zip(lane.idle.start.tolist(), lane.idle.end.tolist(), strict=True)))
        for lane in lanes
    ]
    assert found == [
        (0, None, True, 4, 250, [(200, 360), (460, 500)]),
        (0, 7, False, 2, 150, [(200, 500)]),
        (0, 8, False, 2, 120, [(180, 360)]),
        (1, None, True, 1, 50, []),
        (1, 7, False, 1, 50, []),
    ]
    assert lanes[0].by_state == dict.fromkeys(STATES, 0) | {
        "dispatch": 20, "prepare": 20, "submit": 20, "outside": 140}
    assert (lanes[0].idle_ns, lanes[0].dominant, lanes[3].dominant) == (200, "outside", None)
    assert lanes[0].idle_share == pytest.approx(200 / 450)
    assert lanes[3].idle_share == 0


def test_idle_time_of_windows_has_the_edges_too(script: Any) -> None:
    recording = story(script).recording()
    lane = gaps(recording, windows(recording), by_stream=False)[0]
    assert list(zip(lane.idle.start.tolist(), lane.idle.end.tolist(), strict=True)) == [
        (0, 150), (200, 360), (460, 500), (600, 1_000)]
    assert lane.busy_ns + lane.idle_ns == 1_000
    assert sum(lane.by_state.values()) == lane.idle_ns
    assert (lane.by_state["wait"], lane.by_state["finish"]) == (100, 0)


def test_the_largest_gaps_and_their_neighbours(script: Any) -> None:
    recording = story(script).recording()
    found = largest_gaps(recording, 2)
    assert [(gap.device_id, gap.stream, gap.start_ns, gap.end_ns, gap.before, gap.after) for gap in found] == [
        (0, None, 200, 360, 0, 2), (0, None, 460, 500, 2, 3)]
    assert (found[0].duration_ns, found[0].dominant, found[0].by_state["submit"]) == (160, "outside", 20)
    assert [(gap.stream, gap.duration_ns) for gap in largest_gaps(recording, 1, by_stream=True)] == [(7, 300)]
    edge = largest_gaps(recording, 1, windows(recording))[0]
    assert (edge.device_id, edge.start_ns, edge.end_ns, edge.before, edge.after) == (1, 300, 1_000, 4, None)


def test_as_a_table(script: Any) -> None:
    table = gap_table(story(script).recording())
    assert table.gaps.tolist() == [2, 1, 1, 0, 0]
    assert table.longest_ns.fillna(-1).tolist() == [160, 300, 180, -1, -1]
    assert table.stream.fillna(-1).tolist() == [-1, 7, 8, -1, 7]
    assert table[[f"{state}_ns" for state in STATES]].sum(axis=1).tolist() == table.idle_ns.tolist()
    assert len(gap_table(script().recording())) == 0


@pytest.mark.parametrize("seed", range(15))
def test_as_moment_by_moment(script: Any, seed: int) -> None:
    random = np.random.default_rng(seed)
    made = script()
    made.kernel()
    made.configuration()
    made.now = 0
    for _ in range(9):
        made.launch(specialization=None, phases=(5, 0, 7, 4, 3))
        made.now += int(random.integers(-4_990, -4_960))
    busy: dict[tuple[Any, Any], set[int]] = {}
    for _ in range(30):
        device, stream = random.choice([0, 1, None]), int(random.integers(5, 8))
        start, length = int(random.integers(0, 300)), int(random.integers(0, 20))
        kind = str(random.choice(["kernel", "memcpy", "memset", "sync"]))
        made.activity(kind, "x", start_ns=start, duration_ns=length, device_id=device, stream=stream)
        if kind != "sync":
            for key in ((device, stream), (device, None)):
                busy.setdefault(key, set()).update(range(start, start + length))
    recording = made.recording()
    for lane in gaps(recording):
        own = busy[lane.device_id, lane.stream]
        idle = {at for first, last in zip(lane.idle.start.tolist(), lane.idle.end.tolist(), strict=True)
                for at in range(first, last)}
        assert lane.busy_ns == len(own)
        assert lane.by_state == host_states(recording).time_in(lane.idle)
        assert idle == (set(range(min(own), max(own) + 1)) - own if own else set())
    assert {(lane.device_id, lane.stream) for lane in gaps(recording)} == set(busy)
