"""Where the wall time of a cell went: parts of the main thread that add up to it, other threads beside."""

from __future__ import annotations

from pathlib import Path

import pytest
from counting import lines_run
from handmade import Script

import kernelscope
from kernelscope import Recording
from kernelscope.analysis.gpu import host_states
from kernelscope.analysis.wall_time import NEAR_NS, PARTS, total, wall_times
from kernelscope.views.card.text import summary

RECORDINGS = sorted((Path(__file__).parents[2] / "notebooks" / "recordings").glob("*.kscope"))


def made_of(*threads: str) -> Script:
    made = Script()
    made.rows["threads"] = [{"thread_id": place, "ident": place + 1, "name": name}
                            for place, name in enumerate(threads)]
    made.kernel()
    made.configuration()
    return made


def test_the_parts_add_up_to_the_wall_time() -> None:
    made = made_of("MainThread")
    made.cell(start_ns=1_000, end_ns=2_000)
    made.now = 1_100
    made.launch(specialization=None, phases=(10, 100, 20, 30, 40))
    made.compilation(start_ns=1_105, end_ns=1_205, launch_id=0)
    made.api_call("cuMemcpyHtoD_v2", start_ns=1_400, end_ns=1_450)
    made.api_call("cuMemAlloc_v2", start_ns=1_450, end_ns=1_460)
    made.api_call("cuCtxSynchronize", start_ns=1_950, end_ns=2_100)  # its end is outside of the cell
    made.graph_event("instantiate", 0, start_ns=1_500, end_ns=1_570)
    found, = wall_times(made.recording())
    assert found.cell_id == 0 and found.wall_ns == 1_000 and found.threads == () and found.ranges == {}
    assert found.parts == dict.fromkeys(PARTS, 0) | {
        "dispatch": 10, "compile": 100, "prepare": 20, "submit": 30, "finish": 40, "copy": 50, "memory": 10,
        "graph": 70, "wait": 50, "python": 620}
    assert found.share("dispatch", "prepare", "submit", "finish") == 0.1


def test_what_recording_cost_is_taken_out_of_the_rest_by_launches() -> None:
    made = made_of("MainThread")
    made.cell(start_ns=0, end_ns=1_000)
    made.cell(start_ns=2_000, end_ns=2_100)
    for start, cell in ((100, 0), (200, 0), (300, 0), (2_000, 1)):
        made.now = start
        made.launch(specialization=None, phases=(10, 0, 10, 10, 66 if cell else 10), cell_id=cell)
    made.health(cost_ns=5.0, total_cost_ns=20.0)
    first, second = wall_times(made.recording())
    assert (first.parts["recording"], first.parts["python"]) == (15, 865)
    assert (second.parts["recording"], second.parts["python"]) == (4, 0)  # there is no more of it
    both = total([first, second])
    assert both is not None and both.wall_ns == 1_100 == sum(both.parts.values())


def test_a_run_of_an_autotuner_is_a_part_of_its_own_but_for_its_compiles() -> None:
    made = made_of("MainThread")
    made.cell(start_ns=1_000, end_ns=3_000)
    made.now = 1_100
    made.launch(specialization=None, phases=(10, 0, 20, 30, 40))  # the program's own
    run = made.build("axpy", start_ns=1_500, end_ns=2_500, dispatcher_id=0, key_parts="{}", framework="triton")
    made.now = 1_600
    made.launch(specialization=None, phases=(10, 100, 20, 30, 40), build_id=run)
    made.compilation(start_ns=1_605, end_ns=1_705, launch_id=1)
    made.api_call("cuCtxSynchronize", start_ns=2_000, end_ns=2_100)
    made.api_call("cuCtxSynchronize", start_ns=2_450, end_ns=2_600)  # half a run's, half the program's
    made.collection(start_ns=2_200, end_ns=2_250)
    made.collection(start_ns=2_700, end_ns=2_720)
    made.range("inside", start_ns=1_550, end_ns=2_490)
    made.range("outside", start_ns=2_700, end_ns=2_800)
    made.health(cost_ns=5.0, total_cost_ns=10.0)
    found, = wall_times(made.recording())
    assert found.parts == dict.fromkeys(PARTS, 0) | {
        "dispatch": 10, "prepare": 20, "submit": 30, "finish": 40, "compile": 100, "autotuning": 900, "wait": 100,
        "gc": 20, "recording": 2, "python": 778}
    assert sum(found.parts.values()) == found.wall_ns == 2_000
    assert found.ranges == {"outside": 80} and found.gc_ns == 20


def test_other_threads_are_beside_the_main_one() -> None:
    made = made_of("MainThread", "worker", "idle")
    made.cell(start_ns=0, end_ns=1_000)
    made.now = 100
    made.launch(specialization=None, phases=(10, 0, 10, 10, 10), thread_id=1)
    made.now = 100
    made.launch(specialization=None, phases=(1, 0, 1, 1, 1), thread_id=0)
    found, = wall_times(made.recording())
    assert (found.parts["python"], found.parts["threads"]) == (960, 36)  # the main thread's 4 are in the other's 40
    assert [(each.name, each.parts) for each in found.threads] == [
        ("worker", {"dispatch": 10, "prepare": 10, "submit": 10, "finish": 10})]


def waiting() -> Script:
    """A main thread that launches, waits 700 ns for a thread that launches, and runs Python."""
    made = made_of("MainThread", "autograd", "of another process")
    for row, process in zip(made.rows["threads"], (0, 0, 1), strict=True):
        row["process_id"] = process
    made.rows["processes"] = [{"process_id": at, "status": "ok", "start_ns": 0} for at in (0, 1)]
    made.cell(start_ns=0, end_ns=1_000, process_id=0)
    made.now = 0
    made.launch(specialization=None, phases=(5, 0, 5, 5, 5))
    for at in (100, 400, 780):
        made.now = at
        made.launch(specialization=None, phases=(5, 0, 5, 5, 5), thread_id=1)
    made.now = 900
    made.launch(specialization=None, phases=(20, 0, 20, 20, 20), thread_id=2)
    return made


def test_while_other_threads_work_the_main_one_may_wait_for_them() -> None:
    made = waiting()
    found, = wall_times(made.recording())
    assert found.parts == dict.fromkeys(PARTS, 0) | {
        "dispatch": 5, "prepare": 5, "submit": 5, "finish": 5, "threads": 700, "python": 280}
    assert sum(found.parts.values()) == found.wall_ns
    made.range("step", start_ns=0, end_ns=150)
    assert wall_times(made.recording())[0].ranges == {"step": 80}, "python alone is split by ranges"


def test_a_wait_of_another_thread_is_no_work() -> None:
    made = made_of("MainThread", "watcher")
    made.cell(start_ns=0, end_ns=1_000)
    made.api_call("cuCtxSynchronize", start_ns=100, end_ns=800, thread_id=1)
    made.activity("sync", "context", start_ns=100, end_ns=800, thread_id=1)
    assert wall_times(made.recording())[0].parts["threads"] == 0


def test_what_a_thread_did_long_after_is_another_piece_of_work() -> None:
    made = made_of("MainThread", "worker")
    made.cell(start_ns=0, end_ns=10 * NEAR_NS)
    for start in (100, 100 + 5 * NEAR_NS):
        made.api_call("cuMemAlloc_v2", start_ns=start, end_ns=start + 50, thread_id=1)
    assert wall_times(made.recording())[0].parts["threads"] == 100


@pytest.mark.parametrize("names", [("worker", "other"), ("worker",)])
def test_without_the_main_thread_an_only_one_is_it(names: tuple[str, ...]) -> None:
    made = made_of(*names)
    made.cell(start_ns=0, end_ns=1_000)
    made.now = 100
    made.launch(specialization=None, phases=(10, 0, 10, 10, 10))
    found, = wall_times(made.recording())
    assert found.parts["python"] == (1_000 if len(names) == 2 else 960)
    assert len(found.threads) == len(names) - 1


def test_merged_recordings_have_a_main_thread_each() -> None:
    made = made_of("MainThread", "MainThread")
    for cell in (0, 1):
        made.cell(start_ns=0, end_ns=1_000)
        made.now = 100
        made.launch(specialization=None, phases=(10, 0, 10, 10, 10 * cell), thread_id=cell, cell_id=cell)
    assert [each.parts["finish"] for each in wall_times(made.recording())] == [0, 10]


def of_processes(count: int, launches: int = 1) -> Recording:
    """A thread, a cell, launches and a range for each of so many processes; those of higher numbers launch more."""
    made = made_of(*["MainThread"] * count)
    for number in range(count):
        made._add("processes", "process_id", {"pid": number + 1, "status": "ok", "start_ns": 0})
        made.rows["threads"][number]["process_id"] = number
        made.cell(start_ns=1_000, end_ns=2_000, process_id=number, name=f"rank {number}")
    for number in range(count):
        for _ in range(launches + (number == count - 1)):
            made.now = 1_100
            made.launch(specialization=None, phases=(10, 0, 10, 10, 10 + number), thread_id=number, cell_id=number)
        made.range(f"step {number}", start_ns=1_000, end_ns=2_000, thread_id=number, cell_id=number)
    return made.recording()


def test_work_grows_as_the_number_of_processes_does() -> None:
    """Not as the product of threads and cells, for times, and not as that of processes and rows, on the card."""
    for work in (wall_times, summary):
        some, twice = (lines_run(lambda work=work, count=count: work(of_processes(count))) for count in (100, 200))
        assert twice < 2.3 * some


def test_of_more_processes_than_are_looked_into_the_busiest_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernelscope.analysis.wall_time.MOST_MAIN_THREADS", 3)
    recording = of_processes(5)
    times = wall_times(recording)
    assert [each.cell_id for each in times] == [0, 1, 4]
    assert [each.parts["finish"] for each in times] == [10, 11, 14]
    text = recording.summary()
    assert "in 3 cells of 5 processes together, without 2 cells of processes that did less" in " ".join(text.split())
    assert "without" not in of_processes(3).summary()


def test_threads_of_a_process_are_beside_its_cells_only() -> None:
    made = made_of("MainThread", "MainThread", "worker", "worker")
    for number in range(2):
        made._add("processes", "process_id", {"pid": number + 1, "status": "ok", "start_ns": 0})
        made.cell(start_ns=1_000, end_ns=2_000, process_id=number)
    for number, row in enumerate(made.rows["threads"]):
        row["process_id"] = number % 2
        made.now = 1_100
        made.launch(specialization=None, phases=(10, 0, 10, 10, 10), thread_id=number, cell_id=number % 2)
    assert [[thread.thread_id for thread in each.threads] for each in wall_times(made.recording())] == [[2], [3]]


def test_the_rest_is_split_by_the_innermost_range() -> None:
    made = made_of("MainThread", "worker")
    made.cell(start_ns=0, end_ns=1_000)
    made.now = 150
    made.launch(specialization=None, phases=(10, 0, 10, 10, 10))
    made.range("outer", start_ns=100, end_ns=500)
    made.range("inner", start_ns=120, end_ns=300, parent_range_id=0, depth=1)
    made.range("outer", start_ns=900, end_ns=1_500)
    made.range("elsewhere", start_ns=0, end_ns=1_000, thread_id=1)
    made.range("open", start_ns=50, end_ns=None)
    found, = wall_times(made.recording())
    assert found.ranges == {"outer": 220 + 100, "inner": 140}


def test_garbage_collections_of_the_main_thread_are_a_part_where_nothing_else_is() -> None:
    made = made_of("MainThread", "worker")
    made.cell(start_ns=0, end_ns=1_000)
    made.cell(start_ns=2_000, end_ns=2_100)
    made.now = 100
    made.launch(specialization=None, phases=(10, 0, 50, 10, 10))  # from 100 to 180
    made.range("own", start_ns=200, end_ns=400)
    for start, end in ((120, 150), (170, 210), (300, 340), (990, 2_010), (3_000, 3_100)):
        made.collection(start_ns=start, end_ns=end)
    made.collection(start_ns=500, end_ns=600, thread_id=1)
    first, second = wall_times(made.recording())
    assert (first.parts["gc"], first.gc_ns) == (30 + 40 + 10, 30 + 40 + 40 + 10)
    assert (first.parts["prepare"], first.parts["python"], sum(first.parts.values())) == (50, 840, 1_000)
    assert first.ranges == {"own": 200 - 10 - 40}
    assert (second.parts["gc"], second.parts["python"]) == (10, 90)
    both = total([first, second])
    assert both is not None and (both.parts["gc"], both.gc_ns) == (90, 130)


def test_odd_cells() -> None:
    assert wall_times(Script().recording()) == [] and total([]) is None
    made = made_of("MainThread")
    made.cell(start_ns=100, end_ns=50)
    made.cell(start_ns=100, end_ns=100)
    found, = wall_times(made.recording())
    assert (found.cell_id, found.wall_ns, found.share("python")) == (1, 0, 0.0)


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_in_recordings_of_gpus(path: Path) -> None:
    recording = kernelscope.load(path)
    found = wall_times(recording, host_states(recording))
    assert len(found) == len(recording.cells)
    assert [sum(each.parts.values()) for each in found] == [each.wall_ns for each in found]
    assert all(value >= 0 for each in found for value in each.parts.values())
    assert found == wall_times(recording)
