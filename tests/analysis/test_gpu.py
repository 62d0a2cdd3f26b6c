from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from handmade import MS, US, Script

from kernelscope.analysis.activities import windows
from kernelscope.analysis.columns import union
from kernelscope.analysis.gpu import (
    STATES,
    by_call,
    dominant,
    gap_table,
    gaps,
    gpu_summary,
    host_states,
    largest_gaps,
)
from kernelscope.recording.model import Recording
from kernelscope.views.card.model import Overview


def test_nothing_where_the_gpu_was_not_recorded(made: Script) -> None:
    made.launchable()
    made.launch()
    assert gpu_summary(made.recording()) is None
    assert Overview(made.recording()).gpu is None


def test_recorded_and_nothing_ran() -> None:
    made = Script(gpu={"source": "cupti"})
    made.cell()
    found = gpu_summary(made.recording())
    assert found is not None
    assert (found.kernels, found.busy, found.idle, found.execute, found.queue) == (0, (), (), None, None)
    assert (found.copies, [*found.others], found.clock_error_ns, found.by_cell) == ((), [], None, {})


def test_both_sides() -> None:
    made = Script(gpu={"source": "cupti"})
    made.device(ordinal=3)
    made.cell(wall_ns=MS)
    begin = made.now
    made.launchable()
    launch = made.launch()
    made.activity(launch_id=launch, start_ns=begin + 100 * US, duration_ns=200 * US)
    made.activity(name="cupy_add", start_ns=begin + 400 * US, duration_ns=50 * US)
    made.activity(start_ns=10, end_ns=5)
    made.health("cupti", clock_error_ns=700.0)
    made.health("numba-cuda")
    found = gpu_summary(made.recording())
    assert found is not None
    assert (found.source, found.devices, found.joined, found.clock_error_ns) == ("cupti", {0: "device 3"}, 1, 700.0)
    assert (found.busy[0].busy_ns, found.by_cell, found.reversed, found.untimed) == (250 * US, {0: 0.25}, 1, 0)
    assert found.idle[0].idle_ns == 750 * US
    assert [each.name for each in found.others] == ["cupy_add", "axpy"]
    assert list(found.execution.by_id((0, 9, -1))) == [0]


def test_only_other_kernels_are_not_nothing() -> None:
    made = Script(gpu={"source": "cupti"})
    made.cell()
    assert Overview(made.recording()).is_empty
    made.activity(name="cupy_add")
    assert not Overview(made.recording()).is_empty


def test_metadata_from_a_file_may_say_anything() -> None:
    for gpu in ("yes", {"source": 7}, [1], 1, {"source": None}):
        found = gpu_summary(Script(gpu=gpu).recording())
        assert found is not None
        assert found.source == "cupti"


def story() -> Any:
    """Two streams of one device, and another device; two launches."""
    made = Script()
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


def test_gaps_over_all_streams_and_on_each() -> None:
    lanes = gaps(story().recording())
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


def test_idle_time_of_windows_has_the_edges_too() -> None:
    recording = story().recording()
    lane = gaps(recording, windows(recording), by_stream=False)[0]
    assert list(zip(lane.idle.start.tolist(), lane.idle.end.tolist(), strict=True)) == [
        (0, 150), (200, 360), (460, 500), (600, 1_000)]
    assert lane.busy_ns + lane.idle_ns == 1_000
    assert sum(lane.by_state.values()) == lane.idle_ns
    assert (lane.by_state["wait"], lane.by_state["finish"]) == (100, 0)


def test_the_largest_gaps_and_their_neighbours() -> None:
    recording = story().recording()
    found = largest_gaps(recording, 2)
    assert [(gap.device_id, gap.stream, gap.start_ns, gap.end_ns, gap.before, gap.after) for gap in found] == [
        (0, None, 200, 360, 0, 2), (0, None, 460, 500, 2, 3)]
    assert (found[0].duration_ns, found[0].dominant, found[0].by_state["submit"]) == (160, "outside", 20)
    assert [(gap.stream, gap.duration_ns) for gap in largest_gaps(recording, 1, by_stream=True)] == [(7, 300)]
    edge = largest_gaps(recording, 1, windows(recording))[0]
    assert (edge.device_id, edge.start_ns, edge.end_ns, edge.before, edge.after) == (1, 300, 1_000, 4, None)


def test_gaps_as_a_table() -> None:
    table = gap_table(story().recording())
    assert table.gaps.tolist() == [2, 1, 1, 0, 0]
    assert table.longest_ns.fillna(-1).tolist() == [160, 300, 180, -1, -1]
    assert table.stream.fillna(-1).tolist() == [-1, 7, 8, -1, 7]
    assert table[[f"{state}_ns" for state in STATES]].sum(axis=1).tolist() == table.idle_ns.tolist()
    assert len(gap_table(Script().recording())) == 0


@pytest.mark.parametrize("seed", range(15))
def test_gaps_as_moment_by_moment(made: Script, seed: int) -> None:
    random = np.random.default_rng(seed)
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


ORDER = ("submit", "prepare", "dispatch", "finish", "compile", "unsplit", "graph", "copy", "memset", "memory", "call",
         "wait")
CALLS = {"cuGraphUpload": "graph", "cuMemcpyHtoD_v2": "copy", "cuMemAlloc_v2": "memory", "cudaFreeAsync": "memory",
         "cuMemsetD8_v2": "memset", "cuCtxSynchronize": "wait", "cuLibraryLoadData": "call", "cuLaunchKernel": "call"}


def one_by_one(recording: Recording, last: int, thread_id: int | None = None) -> list[str]:
    """The state at each moment, found the slow way."""
    held: list[set[str]] = [set() for _ in range(last)]

    def mark(state: str, start: int | None, end: int | None, without: tuple[tuple[int, int], ...] = ()) -> None:
        if start is None or end is None:
            return
        for at in range(start, min(end, last)):
            if not any(a <= at < b for a, b in without):
                held[at].add(state)

    def rows(table: str) -> list[dict[str, Any]]:
        return [row for row in recording.rows(table) if thread_id is None or row["thread_id"] == thread_id]

    launches = recording.rows("launches")
    compiles = [(row["start_ns"], row["end_ns"]) for row in rows("compilations")]
    asked = {row["launch_id"] for row in recording.rows("compilations")}
    for number, row in enumerate(launches):
        if (row["compile_ns"] and number not in asked and row["dispatch_end_ns"] is not None
                and thread_id in (None, row["thread_id"])):
            compiles.append((row["dispatch_end_ns"] - row["compile_ns"], row["dispatch_end_ns"]))
            asked.add(number)
    for row in rows("launches"):
        number = row["launch_id"]
        bounds = [row[f"{name}_ns"] for name in ("start", "dispatch_end", "submit_start", "submit_end", "end")]
        mark("dispatch", bounds[0], bounds[1], tuple(compiles) if number in asked else ())
        mark("prepare", bounds[1], bounds[2])
        mark("submit", bounds[2], bounds[3])
        mark("finish", bounds[3], bounds[4])
        mark("unsplit", bounds[0], bounds[4])
    for start, end in compiles:
        mark("compile", start, end)
    for row in rows("api_calls"):
        mark(CALLS[row["name"]], row["start_ns"], row["end_ns"])
    for row in rows("activities"):
        if row["kind"] == "sync":
            mark("wait", row["start_ns"], row["end_ns"])
        elif row["launch_id"] is None:
            mark("call", row["submit_start_ns"], row["submit_end_ns"])
    for row in recording.rows("cells") if thread_id is None else []:
        mark("wait", row["end_ns"], row["synchronized_ns"])
    return [next((state for state in ORDER if state in each), "outside") for each in held]


def sums(states: list[str], start: int, end: int) -> dict[str, int]:
    return {state: states[start:end].count(state) for state in STATES}


def spans(*pairs: tuple[int, int]) -> Any:
    return union(np.array([a for a, _ in pairs]), np.array([b for _, b in pairs]))


def test_phases_of_launches_one_after_another(made: Script) -> None:
    made.kernel()
    made.configuration()
    made.now = 100
    made.launch(specialization=None, phases=(10, 0, 20, 30, 40))
    made.now = 300
    made.launch(specialization=None, phases=(10, 0, 20, 30, 40))
    found = host_states(made.recording()).time_in(spans((105, 135), (150, 310)))
    assert found == dict.fromkeys(STATES, 0) | {
        "dispatch": 5 + 10, "prepare": 20, "submit": 5 + 10, "finish": 40, "outside": 100}
    assert dominant(found) == "outside"
    assert dominant(dict.fromkeys(STATES, 0)) is None


def test_a_compile_is_no_dispatch(made: Script) -> None:
    made.kernel()
    made.configuration()
    made.compilation(start_ns=120, end_ns=170, launch_id=0)
    made.now = 100
    made.launch(specialization=None, phases=(20, 50, 5, 5, 5), compilation_id=0)
    made.now = 300
    made.launch(specialization=None, phases=(10, 40, 5, 5, 5))  # the times of its compile are not known
    found = host_states(made.recording()).time_in(spans((0, 500)))
    assert (found["dispatch"], found["compile"]) == (20 + 10, 50 + 40)


def test_waits_and_other_calls(made: Script) -> None:
    made.cell(start_ns=0, end_ns=400, synchronized_ns=450)
    made.kernel()
    made.configuration()
    made.now = 100
    made.launch(specialization=None, phases=(10, 0, 10, 10, 50))
    made.activity("sync", "stream", start_ns=140, duration_ns=100)  # partly while the launch finishes
    made.api_call(start_ns=200, end_ns=210)
    made.activity("kernel", "cupy_add", start_ns=300, submit_start_ns=260, submit_end_ns=270)
    found = host_states(made.recording()).time_in(spans((0, 500)))
    assert (found["finish"], found["wait"], found["memory"], found["call"]) == (50, 60 - 10 + 50, 10, 10)
    assert sum(found.values()) == 500


def test_host_states_as_moment_by_moment() -> None:
    for seed in range(40):
        random = np.random.default_rng(seed)
        made, last = Script(), 900
        made.kernel()
        made.configuration()
        overlapping, partly = seed % 2 == 1, seed % 4 == 3
        at = 0
        for _ in range(25):
            at += int(random.integers(-25, 40) if overlapping else random.integers(0, 10))
            at = max(at, 0)
            phases = tuple(int(each) for each in random.integers(0, 8, 5))
            phases = phases if random.random() < 0.3 else (phases[0], 0, *phases[2:])
            row: dict[str, Any] = {"start_ns": at, "thread_id": int(random.integers(0, 2)) if overlapping else 0}
            made.now = at
            if partly and random.random() < 0.4:
                row[str(random.choice(["submit_start_ns", "end_ns", "dispatch_end_ns"]))] = None
            launch = made.launch(0, phases, None, **row)
            held = made.rows["launches"][launch]
            if phases[1] and random.random() < 0.5 and held["dispatch_end_ns"] is not None:
                start = at + int(random.integers(0, phases[0] + 1))
                made.compilation(start_ns=start, end_ns=start + phases[1], launch_id=launch)
            if not overlapping:
                at += sum(phases)
        made.rows["launches"].sort(key=lambda row: row["start_ns"])
        renumbered = {row["launch_id"]: number for number, row in enumerate(made.rows["launches"])}
        for row in made.rows["launches"]:
            row["launch_id"] = renumbered[row["launch_id"]]
        for row in made.rows.get("compilations", []):
            row["launch_id"] = renumbered[row["launch_id"]]
        for _ in range(int(random.integers(0, 5))):
            begun = int(random.integers(0, 400))
            made.api_call(str(random.choice(list(CALLS))), start_ns=begun, end_ns=begun + int(random.integers(1, 60)),
                          thread_id=int(random.integers(0, 2)))
            begun = int(random.integers(0, 400))
            made.activity("sync", "stream", start_ns=begun, duration_ns=int(random.integers(0, 90)))
        recording = made.recording()
        of_thread = host_states(recording, 0).time_in(spans((0, last)))
        assert of_thread == sums(one_by_one(recording, last, 0), 0, last)
        states, found = one_by_one(recording, last), host_states(recording)
        for start, end in [(0, last), *np.sort(random.integers(0, last, (12, 2)), axis=1).tolist()]:
            assert found.time_in(spans((start, end))) == sums(states, start, end)
        sets = []
        for count in (3, 60):
            windows = union(begun := random.integers(0, last - 20, count), begun + random.integers(0, 20, count))
            pairs = zip(windows.start.tolist(), windows.end.tolist(), strict=True)
            inside = [state for start, end in pairs for state in states[start:end]]
            assert found.time_in(windows) == sums(inside, 0, len(inside))
            sets.append(windows)
        assert found.times_in(sets) == [found.time_in(windows) for windows in sets]
        assert found.times_in([]) == []


def test_building_for_a_cache_is_a_compile_and_capturing_a_graph_is_no_work_on_it(made: Script) -> None:
    made.build(start_ns=0, end_ns=100)
    made.build(outcome="hit", start_ns=100, end_ns=150)
    made.graph_event("capture", 0, start_ns=200, end_ns=400)
    made.graph_event("instantiate", 0, start_ns=400, end_ns=450)
    made.graph_event("before", 0, start_ns=None)
    found = host_states(made.recording()).time_in(spans((0, 500)))
    assert (found["compile"], found["graph"], found["outside"]) == (100, 50, 350)


def test_calls_are_summed_by_function() -> None:
    made = Script(gpu={"source": "cupti"})
    made.api_call("cuMemAlloc_v2", start_ns=1_000, end_ns=3_000)
    made.api_call("cuMemAlloc_v2", start_ns=5_000, end_ns=9_000, thread_id=1)
    made.api_call("cuModuleLoadData", start_ns=6_000, end_ns=7_000)
    for _ in range(3):  # one call, such as of a graph, that asked for three kernels
        made.activity(api="cuGraphLaunch", submit_start_ns=20_000, submit_end_ns=25_000)
    made.activity(api="cuGraphLaunch", submit_start_ns=20_000, submit_end_ns=21_000, thread_id=1)
    made.activity("sync", "stream", api="cuStreamSynchronize", start_ns=30_000, duration_ns=9_000)
    made.activity(api=None, submit_start_ns=50_000, submit_end_ns=51_000)
    found = by_call(made.recording())
    assert [(each.name, each.times.count, each.times.total_ns, each.times.max_ns) for each in found] == [
        ("cuStreamSynchronize", 1, 9_000, 9_000), ("cuGraphLaunch", 2, 6_000, 5_000),
        ("cuMemAlloc_v2", 2, 6_000, 4_000), ("cuModuleLoadData", 1, 1_000, 1_000)]
    assert by_call(Script().recording()) == ()
