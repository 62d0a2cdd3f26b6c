"""What the card says of each thing, in the rare cases that no recording of tests/snapshots has."""

from __future__ import annotations

from typing import Any

import pytest
from graph_stories import GraphScript
from handmade import MS, US, Script

from kernelscope.units import MISSING
from kernelscope.views.base import defined_at
from kernelscope.views.card import labels
from kernelscope.views.card.model import Overview
from kernelscope.views.card.verdict import verdict


@pytest.mark.parametrize(("row", "place"), [
    ({"module": "solver.step", "filename": "/home/u/solver/step.py", "lineno": 41}, "solver.step · step.py:41"),
    ({"module": "m", "filename": r"C:\users\u\k.py", "lineno": 2}, "m · k.py:2"),
    ({"filename": "/tmp/ipykernel_77/123.py", "lineno": 3}, "notebook cell, line 3"),
    ({"filename": "<ipython-input-7-abcdef>", "lineno": 3}, "In [7], line 3"),
    ({"filename": "<string>", "lineno": None}, "<string>"),
    ({"module": None, "filename": None, "lineno": None}, MISSING),
    ({"module": "__main__", "filename": None, "lineno": None}, "__main__"),
])
def test_places_hold_no_path_of_the_machine(row: dict[str, Any], place: str) -> None:
    assert defined_at("numba-cuda", row.get("module"), row["filename"], row["lineno"]) == place


def test_waiting_for_the_device(script: Any) -> None:
    made = script()
    made.cell()
    made.rows["cells"][0]["synchronized_ns"] = made.rows["cells"][0]["end_ns"] + 2_500_000
    note = labels.synchronize_note(Overview(made.recording()))
    assert note == "waited 2.50 ms for the device after the cell's end"
    assert labels.synchronize_note(Overview(script().recording())) == ""


@pytest.mark.parametrize(("spent", "note"), [
    (0, ""), (9 * US, ""),
    (300 * US, "300 µs of garbage collection inside launches, compiles and CUDA calls is part of their time"),
])
def test_garbage_collections_that_are_in_no_part_of_their_own(spent: int, note: str) -> None:
    made = Script()
    made.rows["threads"] = [{"thread_id": 0, "ident": 1, "name": "MainThread"}]
    made.launchable()
    made.cell(wall_ns=MS)
    start = made.now
    made.launch(phases=(US, 0, 400 * US, US, US))
    made.collection(start + 2 * US, start + 2 * US + spent)
    made.collection(start + 500 * US, start + 700 * US)
    shown = Overview(made.recording())
    assert labels.garbage_note(shown) == note and shown.time is not None
    assert shown.time.parts["gc"] == 200 * US


@pytest.mark.parametrize(("wait_ns", "text"), [
    (None, "by a launch"), (900_000, "by a launch"),
    (20_000_000, "by a launch (20.0 ms waiting for the compiler lock)"),
])
def test_waiting_for_the_compiler_lock_is_told_where_it_is_long(script: Any, wait_ns: int | None, text: str) -> None:
    made = script()
    made.kernel()
    made.compilation(wait_ns=wait_ns)
    assert labels.trigger(Overview(made.recording()).compilations[0]) == text


CALIBRATED = {"kind": "calibrated", "measured": "2026-11-22T10:00:00+00:00", "low_ns": 90.0, "high_ns": 101.0,
              "is_seen": True}
UNSEEN = {**CALIBRATED, "low_ns": -9.0, "high_ns": 13.0, "is_seen": False}


@pytest.mark.parametrize(("facts", "cost", "said"), [
    (None, 95.0, "about 950 ns, 95 ns a launch, 1.0 % of the wall time"),
    ({}, 95.0, "about 950 ns, 95 ns a launch, 1.0 % of the wall time"),
    ({"kind": "estimated"}, 95.0, "about 950 ns, 95 ns a launch, 1.0 % of the wall time, estimated"),
    (CALIBRATED, 95.0, "about 950 ns, 95 ns a launch (90 ns to 101 ns), 1.0 % of the wall time, "
                       "calibrated on 2026-11-22"),
    (UNSEEN, 13.0, "at most 130 ns, 13 ns a launch (-9 ns to 13 ns: no difference seen), 0.1 % of the wall time, "
                   "calibrated on 2026-11-22"),
    ({"kind": "calibrated"}, 95.0, "about 950 ns, 95 ns a launch, 1.0 % of the wall time, calibrated"),
    ({"kind": "partly calibrated"}, 95.0, "about 950 ns, 95 ns a launch, 1.0 % of the wall time, partly calibrated"),
    ({"kind": ["?"]}, 95.0, "about 950 ns, 95 ns a launch, 1.0 % of the wall time"),
    ({"kind": "calibrated", "measured": 7, "low_ns": "x"}, 95.0, "about 950 ns, 95 ns a launch, 1.0 % of the wall "
                                                                 "time, calibrated"),
])
def test_the_cost_of_recording_says_how_it_is_known(script: Any, facts: Any, cost: float, said: str) -> None:
    made = script()
    made.cell(wall_ns=95_000)
    made.health(cost_ns=cost, total_cost_ns=10 * cost)
    made.metadata |= {} if facts is None else {"own_cost": {"numba-cuda": facts}}
    shown = labels.cost(Overview(made.recording()))
    assert shown == f"Recording's own cost: {said}"


# The GPU's side.

def test_copies_idle_time_and_what_is_left_out_are_added_up(gpu_story: Any) -> None:
    assert labels.gpu_lines(Overview(gpu_story().recording())) == [
        "5 kernels ran for 1.22 ms in all, 244 µs each on average; launches queued for 40.0 µs (median), 59.6 µs "
        "(p99).",
        "HtoD: 1.0 MiB in 2 copies, 150 µs at 7.0 GB/s, 33 % hidden under kernels; 1 with pageable memory of the host.",
        "2 memsets.",
        "1 graph launch of 1 graph ran 2 kernels, 20.0 µs.",
        "Other: 1 kernel, 900 µs, whose launches were not recorded: cupy_add.",
        "2 launches have no kernel: captured into a graph, or not recorded.",
        "1 activity left out: the end is before the start, as after a jump of a clock.",
        "1 activity was not timed.",
        "GPU times are within 850 ns of the host clock.",
    ]


def test_devices_are_named_where_there_are_several(gpu_story: Any) -> None:
    made = gpu_story()
    made.device(ordinal=5)
    made.activity(device_id=1, start_ns=made.rows["cells"][0]["start_ns"], duration_ns=5 * MS)
    shown = Overview(made.recording())
    assert [labels.device_name(shown, each) for each in (1, None)] == ["device 5", "unknown device"]
    assert any("HtoD on device 0: 1.0 MiB" in line for line in labels.gpu_lines(shown))


@pytest.mark.parametrize(("source", "execute", "lines"), [
    ("cupti", None, None), ("events", 500, [labels.EVENTS_NOTE, "1 kernel ran for 500 ns."]),
])
def test_busy_time_of_nothing_and_of_events(script: Any, source: str, execute: int | None,
                                            lines: list[str] | None) -> None:
    made = script(gpu={"source": source})
    made.cell()
    if execute is not None:
        made.kernel()
        made.specialization()
        made.configuration()
        made.launch(execute_ns=execute)
        made.launch()
    shown = Overview(made.recording())
    assert verdict(shown.time, 1, (), 0, shown.gpu)[-1] == (
        "The GPU did nothing." if execute is None else "Kernels ran for 500 ns.")
    assert labels.is_shown(shown) is (lines is not None)
    assert lines is None or labels.gpu_lines(shown) == lines


@pytest.mark.parametrize(("launch", "text"), [
    ((2 * MS, 0, 0, 0, 0), "mostly while the host was in Python outside launches (7.00 ms of 9.00 ms)"),
    ((6 * MS, 0, 0, 0, 0), "mostly while the host was in dispatch (6.00 ms of 9.00 ms)"),
    ((0, 6 * MS, 0, 0, 0), "mostly while the host was compiling (6.00 ms of 9.00 ms)"),
    ((2 * MS, 0, 2 * MS, 2 * MS, 0), "mostly while the host was launching (6.00 ms of 9.00 ms)"),
    ((2 * MS, 2 * MS, 0, 1 * MS, 0), "above all while the host was in Python outside launches (4.00 ms of 9.00 ms)"),
    ((9 * MS, 0, 0, 0, 0), "while the host was in dispatch"),
])
def test_why_the_gpu_idles(script: Any, launch: tuple[int, ...], text: str) -> None:
    made = script(gpu={"source": "cupti"})
    made.cell(wall_ns=10 * MS)
    end = made.now + 10 * MS
    made.kernel()
    made.specialization()
    made.configuration()
    made.launch(phases=launch)
    made.activity(launch_id=0, start_ns=end - MS, duration_ns=MS)
    shown = Overview(made.recording())
    assert shown.gpu is not None
    line = labels.idle_line(shown.gpu.idle[0], shown.gpu.busy[0].window_ns)
    assert line == f"idle 90 % of the time: {text}"


def test_many_other_kernels_are_named_in_part(script: Any) -> None:
    made = script(gpu={"source": "cupti"})
    for at in range(5):
        made.activity(name="long_name_" * 6 if at == 1 else f"k{at}", duration_ns=(9 - at) * US)
    assert labels.gpu_lines(Overview(made.recording()))[1] == (
        "Other: 5 kernels, 35.0 µs, whose launches were not recorded: k0, "
        "long_name_long_name_lo…_long_name_long_name_, k2 and 2 more.")


# Graphs and build caches.

def test_notes_of_graphs_that_are_seldom() -> None:
    kept = GraphScript()
    first = kept.instantiate()
    kept.instantiate(1, rebuild_of=first, change="configuration", changes="grid of axpy 4 to 16")
    kept.replay(first)
    assert labels.graph_notes(Overview(kept.recording()).by_topology[0])[0].endswith(
        "(grid of axpy 4 to 16); 1 beside one that is kept")
    made = GraphScript()
    made.graph_event("before", 0, start_ns=None)
    made.instantiate(outcome="failed")
    made.graph_event("upload", 0)
    made.instantiate(rebuild_of=0, change=None)
    assert labels.graph_notes(Overview(made.recording()).by_graph[0]) == [
        "built before recording began", "1 upload", "1 instantiate failed"]


def test_names_and_kernels_are_few_and_short() -> None:
    made = GraphScript()
    for at in range(4):
        made.graph(f"more {at}", "chain")
        made.instantiate(2 + at)
    for name in ("__main__::b(Array<float, 1, C, mutable, aligned>, double)", "void c<float>", "d", "e"):
        made.graph_node(0, "kernel", name)
    graph, = Overview(made.recording()).by_topology
    assert labels.graph_names(graph) == "graphs 0, 1, 2 and 3 more"
    assert labels.graph_kernels(graph) == "axpy, b, void c<float> and 2 more"


def test_why_a_request_was_no_hit() -> None:
    made = Script()
    for row in ({"outcome": "failed", "error": "ValueError: no"}, {"reason_code": "new_dtype"}, {"outcome": "wait"},
                {}):
        made.build(**row)
    assert {labels.miss_reason(each) for each in labels.build_misses(Overview(made.recording()))} == {
        "ValueError: no", "new_dtype", "another thread was building the same", MISSING}
