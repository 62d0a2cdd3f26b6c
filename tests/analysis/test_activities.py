from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from counting import lines_run
from handmade import Script

from kernelscope.analysis.activities import (
    busiest_by_cell,
    busy,
    busy_over_time,
    busy_table,
    by_execution,
    correlate,
    distinct,
    execution_table,
    gpu_activities,
    is_gpu_recorded,
    join,
    kernel_dispatchers,
    overlap,
    overlap_table,
    spread,
    windows,
)
from kernelscope.analysis.columns import union
from kernelscope.analysis.gpu import gpu_summary


def test_what_has_no_proper_times_is_left_out_and_counted(made: Script) -> None:
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


def test_devices_and_streams_stay_apart(made: Script) -> None:
    for device, stream in ((1, 7), (0, 7), (None, 9), (1, 8)):
        made.activity(device_id=device, stream=stream, start_ns=100, duration_ns=10)
    found = gpu_activities(made.recording())
    assert [(device, len(own)) for device, own in found.by_device()] == [(-1, 1), (0, 1), (1, 2)]
    last = dict(found.by_device())[1]
    assert [(stream, own.row.tolist()) for stream, own in last.by_stream()] == [(7, [0]), (8, [3])]


def test_windows_reach_to_the_synchronization(made: Script) -> None:
    made.cell(start_ns=100, end_ns=200, synchronized_ns=230)
    made.cell(start_ns=300, end_ns=400)
    found = windows(made.recording())
    assert (found.start.tolist(), found.end.tolist()) == ([100, 300], [230, 400])


def test_windows_without_cells(made: Script) -> None:
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
def test_whether_the_gpu_was_recorded(metadata: dict[str, Any], activities: int, recorded: bool) -> None:
    made = Script(**metadata)
    for _ in range(activities):
        made.activity()
    assert is_gpu_recorded(made.recording()) is recorded


def test_distinct_ids_near_and_far() -> None:
    assert distinct(np.array([9, -1, 9, 4])) == [-1, 4, 9]
    assert distinct(np.array([2**62, 5, 2**62])) == [5, 2**62]
    assert distinct(np.array([], dtype=np.int64)) == []


def busy_story() -> Any:
    made = Script()
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


def test_what_runs_at_once_counts_once() -> None:
    found = busy(busy_story().recording())
    assert [(each.device_id, each.window_ns, each.kernel_ns, each.busy_ns) for each in found] == [
        (0, 300, 80 + 10, 100 + 10), (1, 300, 0, 10)]
    assert found[0].share == pytest.approx(110 / 300)
    assert found[0].kernel_share == pytest.approx(90 / 300)


def test_by_cell_and_in_a_window() -> None:
    recording = busy_story().recording()
    assert busiest_by_cell(recording).tolist() == [100 / 200, 10 / 100]
    window = union(np.array([340, 595]), np.array([360, 1_000]))
    assert [(each.window_ns, each.busy_ns) for each in busy(recording, window)] == [(425, 10 + 95), (425, 0)]


def test_work_on_devices_grows_as_their_number_does() -> None:
    """Not as the product of devices and cells."""
    def work(count: int) -> int:
        made = Script()
        for number in range(count):
            made.device(ordinal=number)
            made.cell(start_ns=100 * number, end_ns=100 * number + 50)
            made.activity(start_ns=100 * number, duration_ns=10, device_id=number)
        recording = made.recording()
        assert busiest_by_cell(recording).tolist() == [0.2] * count
        return lines_run(lambda: gpu_summary(recording))

    assert work(200) < 2.2 * work(100)


def test_over_time() -> None:
    found = busy_over_time(busy_story().recording(), 5)
    assert found[0].edges_ns.tolist() == [100, 200, 300, 400, 500, 600]
    assert found[0].share.tolist() == [0.5, 0.5, 0.5, 0, 0.1]
    assert found[0].kernel_share.tolist() == [0.5, 0.3, 0.5, 0, 0.1]
    assert found[1].share.tolist() == [0, 0, 0, 0, 0.1]
    assert len(busy_over_time(busy_story().recording(), 10_000)[0].share) == 500
    with pytest.raises(ValueError, match="bins is 0; it must be 1 or more"):
        busy_over_time(busy_story().recording(), 0)


def test_without_anything() -> None:
    assert busy(Script().recording()) == []
    assert busy_over_time(Script().recording()) == []
    assert not len(busiest_by_cell(Script().recording()))
    made = Script()
    made.cell(start_ns=100, end_ns=100)
    made.activity(start_ns=100, duration_ns=5)
    assert [(each.window_ns, each.share, each.kernel_share) for each in busy(made.recording())] == [(0, None, None)]


def test_busy_as_a_table() -> None:
    table = busy_table(busy_story().recording())
    assert table.busy_ns.tolist() == [110, 10]
    assert table.columns.tolist() == ["device_id", "window_ns", "busy_ns", "busy_share", "kernel_ns", "kernel_share",
                                      "graph_ns"]


@pytest.mark.parametrize("seed", range(10))
def test_bins_add_up(made: Script, seed: int) -> None:
    random = np.random.default_rng(seed)
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


def copies() -> Any:
    made = Script()
    made.device()
    made.device(ordinal=1)
    made.activity(start_ns=100, duration_ns=100)
    made.activity("memcpy", "HtoD", start_ns=150, duration_ns=100, size_bytes=400, memory="pageable to device")
    made.activity("memcpy", "HtoD", start_ns=200, duration_ns=100, size_bytes=600, memory="pinned to device", stream=9)
    made.activity("memcpy", "DtoH", start_ns=110, duration_ns=20, size_bytes=None)
    made.activity("memcpy", "HtoD", start_ns=150, duration_ns=10, size_bytes=1, device_id=1)  # no kernel runs there
    made.activity("memcpy", "DtoD", start_ns=None, size_bytes=8)
    return made


def test_copies_under_kernels_of_their_device() -> None:
    found = {(each.device_id, each.direction): each for each in overlap(copies().recording())}
    down, up = found[0, "HtoD"], found[0, "DtoH"]
    assert (down.copies, down.size_bytes, down.copy_ns, down.hidden_ns) == (2, 1_000, 150, 50)
    assert down.hidden_share == pytest.approx(1 / 3)
    assert down.bytes_per_second == pytest.approx(1_000 / 150e-9)
    assert (down.pageable, down.pageable_bytes, down.pageable_ns) == (1, 400, 100)
    assert (up.size_bytes, up.copy_ns, up.hidden_ns, up.hidden_share, up.bytes_per_second) == (None, 20, 20, 1.0, None)
    assert (found[1, "HtoD"].hidden_ns, found[1, "HtoD"].pageable, found[1, "HtoD"].pageable_ns) == (0, 0, None)
    untimed = found[0, "DtoD"]
    assert (untimed.copies, untimed.size_bytes, untimed.copy_ns, untimed.hidden_ns) == (1, 8, None, None)
    assert (untimed.hidden_share, untimed.bytes_per_second) == (None, None)


def test_order_and_table() -> None:
    table = overlap_table(copies().recording())
    assert table.direction.tolist() == ["HtoD", "DtoH", "HtoD", "DtoD"]
    assert table.device_id.tolist() == [0, 0, 1, 0]
    assert table.copy_ns.isna().tolist() == [False, False, False, True]
    assert len(overlap_table(Script().recording())) == 0


@pytest.mark.parametrize("seed", range(12))
def test_overlap_as_moment_by_moment(made: Script, seed: int) -> None:
    random = np.random.default_rng(seed)
    held: dict[tuple[str, Any], set[int]] = {}
    for _ in range(30):
        device = random.choice([0, 1, None])
        what = str(random.choice(["kernel", "HtoD", "DtoH"]))
        start, length = int(random.integers(0, 200)), int(random.integers(0, 25))
        made.activity("kernel" if what == "kernel" else "memcpy", what, start_ns=start, duration_ns=length,
                      device_id=device)
        held.setdefault((what, device), set()).update(range(start, start + length))
    found = overlap(made.recording())
    assert {(each.direction, each.device_id) for each in found} == {key for key in held if key[0] != "kernel"}
    for each in found:
        own = held[each.direction, each.device_id]
        assert (each.copy_ns, each.hidden_ns) == (len(own), len(own & held.get(("kernel", each.device_id), set())))


def test_queue_and_execute(made: Script) -> None:
    made.launchable()
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


def test_unknown_times_stay_unknown(made: Script) -> None:
    made.launchable()
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


def test_what_events_measured_is_taken_where_no_activity_tells() -> None:
    made = Script(gpu={"source": "events"})
    made.launchable()
    made.launch(execute_ns=700)
    made.launch(execute_ns=800, queue_ns=3)
    made.activity(launch_id=1, duration_ns=90, submit_end_ns=0, start_ns=made.now)
    joined = join(made.recording())
    assert joined.execute_ns.tolist() == [700, 90]
    assert joined.queue_ns[0] == -1


def test_several_kernels_of_one_launch_are_all_its_own(made: Script) -> None:
    made.launchable()
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


def test_table_of_launches_graph_kernels_and_others() -> None:
    made = Script()
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
    assert correlate(Script().recording()).columns.tolist() == table.columns.tolist()


@pytest.mark.parametrize("seed", range(10))
def test_the_join_as_one_by_one(made: Script, seed: int) -> None:
    random = np.random.default_rng(seed)
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


def execution_story() -> Any:
    made = Script()
    for at, name in enumerate(("axpy", "idle")):
        made.kernel(name)
        made.specialization(at)
    made.configuration()
    for duration in (10, 20, 30):
        made.now += 1_000
        launch = made.launch(0, (1, 0, 1, 1, 1))
        made.activity(launch_id=launch, start_ns=made.rows["launches"][launch]["submit_end_ns"] + duration,
                      duration_ns=duration)
    made.activity(specialization_id=0, cupti_graph_id=1, start_ns=made.now, duration_ns=100, submit_end_ns=0)
    for name, duration in (("cupy_add", 7), ("cupy_add", 9), ("axpy", 5)):
        made.activity(name=name, start_ns=made.now, duration_ns=duration, submit_end_ns=made.now - 4)
    made.activity(name="untimed", start_ns=None)
    return made


def test_by_dispatcher_and_by_name() -> None:
    found = by_execution(execution_story().recording())
    assert [sum(each.histogram) for each in found] == [each.execute.count if each.execute else 0 for each in found]
    assert [(each.name, each.dispatcher_id, each.kernels, each.launched, each.in_graphs, each.others)
            for each in found] == [
        ("axpy", 0, 4, 3, 1, 0), ("cupy_add", None, 2, 0, 0, 2), ("axpy", None, 1, 0, 0, 1),
        ("untimed", None, 1, 0, 0, 1)]
    own, cupy, _, untimed = found
    assert own.execute is not None
    assert own.queue is not None
    assert (own.execute.count, own.execute.total_ns, own.execute.p50_ns, own.execute.max_ns) == (4, 160, 25, 100)
    assert (own.queue.count, own.queue.total_ns, own.queue.p50_ns) == (3, 60, 20), "a graph's kernels do not queue"
    assert cupy.queue is not None
    assert cupy.queue.p50_ns == 4
    assert (untimed.execute, untimed.queue) == (None, None)


def test_launches_timed_with_events() -> None:
    made = Script(gpu={"source": "events"})
    made.launchable()
    made.launch(execute_ns=500)
    made.launch(execute_ns=700)
    made.launch()
    only = by_execution(made.recording())[0]
    assert (only.kernels, only.launched, only.queue) == (2, 2, None)
    assert only.execute is not None
    assert only.execute.total_ns == 1_200


def test_execution_as_a_table() -> None:
    table = execution_table(execution_story().recording())
    assert table.name.tolist() == ["axpy", "cupy_add", "axpy", "untimed"]
    assert table.execute_total_ns.isna().tolist() == [False, False, False, True]
    assert table.dispatcher_id.isna().tolist() == [False, True, True, True]
    assert execution_table(Script().recording()).columns.tolist() == table.columns.tolist()


@pytest.mark.parametrize("seed", range(5))
def test_percentiles_are_numpy_s(seed: int) -> None:
    random = np.random.default_rng(seed)
    values = random.integers(-1, 1_000, 200)
    found = spread(values)
    known = values[values >= 0]
    assert found is not None
    assert (found.count, found.total_ns) == (len(known), known.sum())
    assert [found.p50_ns, found.p90_ns, found.p99_ns, found.max_ns] == pytest.approx(
        np.percentile(known, [50, 90, 99, 100]).tolist())
    assert spread(np.array([-1, -1])) is None
    assert spread(np.array([], dtype=np.int64)) is None
