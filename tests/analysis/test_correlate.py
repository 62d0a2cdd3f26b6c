from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kernelscope.analysis.activities import correlate, join, kernel_dispatchers


def test_queue_and_execute(script: Any) -> None:
    made = script()
    made.kernel()
    made.specialization()
    made.configuration()
    made.now = 1_000
    first = made.launch(phases=(100, 0, 100, 100, 100))  # submit 1,200 to 1,300
    made.now = 2_000
    early = made.launch(phases=(100, 0, 100, 100, 100))
    made.now = 3_000
    ends = made.launch(phases=None)
    made.now = 4_000
    lost = made.launch()
    made.activity(start_ns=1_350, duration_ns=500, launch_id=first, submit_start_ns=1_201, submit_end_ns=1_299)
    made.activity(start_ns=2_250, duration_ns=20, launch_id=early)  # it began before the call returned
    made.activity(start_ns=3_500, duration_ns=7, launch_id=ends, submit_start_ns=3_100, submit_end_ns=3_200)
    joined = join(made.recording())
    assert joined.kernel.tolist() == [0, 1, 2, -1]
    assert joined.queue_ns.tolist() == [50, 0, 300, -1]
    assert joined.execute_ns.tolist() == [500, 20, 7, -1]
    assert joined.joined == 3
    assert lost == 3


def test_unknown_times_stay_unknown(script: Any) -> None:
    made = script()
    made.kernel()
    made.specialization()
    made.configuration()
    made.launch()
    made.launch()
    made.launch()
    made.launch(phases=None)
    made.activity(start_ns=None, launch_id=0)
    made.activity(start_ns=500, end_ns=400, launch_id=1)  # a clock jumped
    made.activity(start_ns=9_000, end_ns=None, launch_id=2)
    made.activity(start_ns=9_500, duration_ns=0, launch_id=3)  # when its call returned is not known
    made.activity(start_ns=9_600, launch_id=77)  # there is no such launch
    joined = join(made.recording())
    assert joined.execute_ns.tolist() == [-1, -1, -1, 0]
    assert joined.queue_ns.tolist() == [-1] * 4
    assert sorted(joined.source.tolist()) == [0, 0, 0, 0, 2]


def test_what_events_measured_is_taken_where_no_activity_tells(script: Any) -> None:
    made = script(gpu={"source": "events"})
    made.kernel()
    made.specialization()
    made.configuration()
    made.launch(execute_ns=700)
    made.launch(execute_ns=800, queue_ns=3)
    made.activity(launch_id=1, duration_ns=90, submit_end_ns=0, start_ns=made.now)
    joined = join(made.recording())
    assert joined.execute_ns.tolist() == [700, 90]
    assert joined.queue_ns[0] == -1


def test_several_kernels_of_one_launch_are_all_its_own(script: Any) -> None:
    made = script()
    made.kernel()
    made.specialization()
    made.configuration()
    made.now = 0
    made.launch(phases=(1, 0, 1, 1, 1))
    made.activity("memcpy", "HtoD", launch_id=0, start_ns=2)
    made.activity(launch_id=0, start_ns=10, duration_ns=5)
    made.activity(launch_id=0, start_ns=20, duration_ns=6)
    joined = join(made.recording())
    assert joined.kernel.tolist() == [1]
    assert joined.activity.tolist() == [1, 2]
    assert joined.launch.tolist() == [0, 0]
    assert joined.source.tolist() == [0, 0]
    assert joined.execute_ns.tolist() == [11]
    assert joined.queue_ns.tolist() == [7]


def test_table_of_launches_graph_kernels_and_others(script: Any) -> None:
    made = script()
    made.device()
    made.cell()
    made.kernel("<b>axpy</b>")
    made.specialization()
    made.configuration()
    made.now = 1_000
    made.launch(phases=(100, 20, 100, 100, 100), correlation_id=9)
    made.now = 5_000
    made.launch(phases=None, correlation_id=10)
    made.activity(launch_id=0, start_ns=1_400, duration_ns=30, correlation_id=9)
    made.activity(name="axpy", start_ns=1_500, duration_ns=40, correlation_id=11, cupti_graph_id=2, cupti_node_id=1,
                  specialization_id=0)
    made.activity(name="cupy_add", start_ns=1_600, duration_ns=50, submit_end_ns=1_590, correlation_id=12)
    table = correlate(made.recording())
    assert table.source.tolist() == ["launch", "launch", "graph", "other"]
    assert table.name.tolist() == ["<b>axpy</b>", "<b>axpy</b>", "<b>axpy</b>", "cupy_add"]
    assert table.launch_id.tolist()[:2] == [0, 1]
    assert table.activity_id.isna().tolist() == [False, True, False, False]
    assert table.dispatcher_id.isna().tolist() == [False, False, False, True]
    assert table.correlation_id.tolist() == [9, 10, 11, 12]
    assert table.cupti_graph_id.isna().tolist() == [True, True, False, True]
    assert table.execute_ns.fillna(-1).tolist() == [30, -1, 40, 50]
    assert table.queue_ns.fillna(-1).tolist() == [80, -1, -1, 10]
    row = table.iloc[0]
    assert [row[f"{name}_ns"] for name in ("host", "dispatch", "compile", "prepare", "submit", "finish")] == [
        420, 100, 20, 100, 100, 100]
    assert correlate(script().recording()).columns.tolist() == table.columns.tolist()


@pytest.mark.parametrize("seed", range(10))
def test_as_one_by_one(script: Any, seed: int) -> None:
    random = np.random.default_rng(seed)
    made = script()
    for name in ("a", "b"):
        made.kernel(name)
        made.specialization(len(made.rows["dispatchers"]) - 1)
    made.configuration()
    for _ in range(40):
        made.launch(int(random.integers(0, 2)), phases=None if random.random() < 0.3 else (3, 0, 4, 2, 1))
    end = made.now
    for at in np.sort(random.integers(0, end, 60)).tolist():
        launch = int(random.integers(0, 40)) if random.random() < 0.7 else None
        made.activity(
            str(random.choice(["kernel", "kernel", "memcpy"])), start_ns=at, duration_ns=int(random.integers(-3, 50)),
            launch_id=launch, submit_end_ns=int(random.integers(0, end)) if random.random() < 0.5 else None,
            specialization_id=1 if launch is None else None)
    recording = made.recording()
    joined = join(recording)
    taken: dict[int, int] = {}
    spent: dict[int, int] = {}
    activities, launches = recording.rows("activities"), recording.rows("launches")
    for number, row in enumerate(activities):
        if row["kind"] == "kernel" and row["launch_id"] is not None:
            taken.setdefault(row["launch_id"], number)
            if row["end_ns"] >= row["start_ns"]:
                spent[row["launch_id"]] = spent.get(row["launch_id"], 0) + row["end_ns"] - row["start_ns"]
    for launch, row in enumerate(launches):
        number = taken.get(launch, -1)
        assert joined.kernel[launch] == number
        kernel = activities[number] if number >= 0 else None
        known = kernel is not None and kernel["end_ns"] >= kernel["start_ns"]
        since = row["submit_end_ns"] if row["submit_end_ns"] is not None else kernel and kernel["submit_end_ns"]
        assert joined.execute_ns[launch] == spent.get(launch, -1)
        assert joined.queue_ns[launch] == (
            max(kernel["start_ns"] - since, 0) if kernel and known and since is not None else -1)
    dispatchers = kernel_dispatchers(recording, joined)
    for place, number in enumerate(joined.activity.tolist()):
        launch = joined.launch[place]
        assert dispatchers[place] == (
            launches[launch]["dispatcher_id"] if launch >= 0
            else 1 if activities[number]["specialization_id"] == 1 else -1)
