"""Launches that were captured into a graph became nodes of it: no count of launches that ran may have them."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pandas as pd
import pytest
from graph_stories import rebuilt, with_builds
from handmade import MS, Script, many_launches

from kernelscope.analysis.activities import by_execution, correlate, join
from kernelscope.analysis.launches import (
    PHASES,
    Configurations,
    PhaseTotals,
    Specializations,
    by_cell,
    by_configuration,
    by_kernel,
    configurations_of,
    launch_phases,
    phase_totals,
)
from kernelscope.analysis.ranges import by_range
from kernelscope.recording.model import Recording
from kernelscope.schema import TABLES
from kernelscope.views.card.model import Overview
from kernelscope.views.inspector.model import inspect_kernels


def _base(**metadata: Any) -> Any:
    made = Script(**metadata)
    made.launchable()
    return made


def test_phases_of_a_launch_add_up_exactly() -> None:
    made = _base()
    random = np.random.default_rng(1)
    for _ in range(200):
        made.launch(phases=tuple(random.integers(0, 10_000, 5).tolist()))
    phases = launch_phases(made.recording())
    assert (sum(phases.phases[name] for name in PHASES) == phases.host_ns).all()
    total = phases.total()
    assert sum(total.phase(name) or 0 for name in PHASES) == total.host_ns == int(phases.host_ns.sum())
    assert (total.unsplit_ns, total.is_split) == (0, True)


def test_compile_is_taken_out_of_dispatch() -> None:
    made = _base()
    made.launch(phases=(3, 100, 4, 5, 6))
    total = phase_totals(made.recording())
    assert total == PhaseTotals(118, 3, 100, 0, 4, 5, 0, 6, 0)
    assert total.segments == (("dispatch", 3), ("compile", 100), ("prepare", 4), ("submit", 5), ("finish", 6))


def test_what_was_not_recorded_is_none_and_its_time_unsplit() -> None:
    made = _base()
    made.launch(phases=None)
    total = phase_totals(made.recording())
    assert (total.host_ns, total.unsplit_ns, total.is_split) == (10_000, 10_000, False)
    assert [total.phase(name) for name in PHASES] == [None] * len(PHASES)
    assert total.segments == (("unsplit", 10_000),)


def test_a_failed_launch_has_host_time_without_phases() -> None:
    made = _base()
    made.launch(phases=(1, 0, 2, 3, 4))
    made.launch(phases=None, error="TypeError")
    total = phase_totals(made.recording())
    assert (total.host_ns, total.dispatch_ns, total.unsplit_ns) == (10_010, 1, 10_000)


def test_a_launch_without_an_end_is_in_no_total() -> None:
    made = _base()
    made.launch(phases=(1, 0, 2, 3, 4), end_ns=None)
    phases = launch_phases(made.recording())
    assert phases.host_ns.tolist() == [-1]
    assert phases.phases["prepare"].tolist() == [2]
    assert phases.total() == PhaseTotals()


def test_nothing_launched() -> None:
    from kernelscope.recording.model import Recording

    assert phase_totals(Recording({}, {})) == PhaseTotals()


def _nested(start_ns: int) -> Any:
    """A launch of 1000 to 1100 (20 + 30 compile, 20, 10, 20), and one of 4 ns inside it."""
    made = _base()
    made.now = 1_000
    made.launch(phases=(20, 30, 20, 10, 20), compilation_id=0)
    made.compilation(launch_id=0, start_ns=1_005, end_ns=1_035, specialization_id=0)
    made.launch(phases=(1, 0, 1, 1, 1), parent_launch_id=0)
    child = made.rows["launches"][1]
    moved = start_ns - child["start_ns"]
    for name in ("start_ns", "dispatch_end_ns", "submit_start_ns", "submit_end_ns", "end_ns"):
        child[name] += moved
    return made.recording()


def test_a_nested_launch_is_counted_once_and_taken_from_the_phase_it_began_in() -> None:
    for start, phase in ((1_001, "dispatch"), (1_010, "compile"), (1_055, "prepare"), (1_072, "submit"),
                         (1_085, "finish")):
        phases = launch_phases(_nested(start))
        assert phases.host_ns.tolist() == [100, 4]
        assert phases.own_ns.tolist() == [96, 4]
        taken = {name: int(phases.phases[name][0] - phases.own_phases[name][0]) for name in PHASES}
        assert taken == {name: 4 if name == phase else 0 for name in PHASES}
        assert (sum(phases.own_phases[name] for name in PHASES) == phases.own_ns).all()
        assert phases.total().host_ns == 100


def test_a_launch_of_seconds_among_short_ones_keeps_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernelscope.analysis.columns._PART", 2)
    made = _base()
    times = [40, 41, 42, 3 * 10**9, 43]
    for each in times:
        made.launch(phases=(10, 0, 10, 10, each - 30))
    recording = made.recording()
    phases = launch_phases(recording)
    assert phases.host_ns.tolist() == times and phases.phases["finish"].tolist() == [each - 30 for each in times]
    assert phases.total().host_ns == sum(times)
    assert by_kernel(recording)[0].max_ns == 3 * 10**9


def test_totals_by_group_leave_out_rows_without_one() -> None:
    made = _base()
    for _ in range(3):
        made.launch(phases=(1, 0, 2, 3, 4))
    totals = launch_phases(made.recording()).totals_by(np.array([1, -1, 1]), 2)
    assert [total.host_ns for total in totals] == [None, 20]


def test_cells_in_order_and_what_ran_between_them(made: Script) -> None:
    made.cell(wall_ns=1_000, execution_count=3, name="warm-up")
    made.rows["cells"][0]["synchronized_ns"] = made.rows["cells"][0]["end_ns"] + 40
    made.cell(wall_ns=500, status="error", error="ValueError: no")
    for name in ("a", "b"):
        made.kernel(name)
    made.specialization()
    made.configuration()
    made.launch(0, (1, 0, 1, 1, 1), cell_id=0)
    made.launch(1, (1, 6, 1, 1, 1), cell_id=0)
    made.launch(0, (1, 0, 1, 1, 1), cell_id=1, error="ValueError", cache="disk")
    made.launch(0, (1, 0, 1, 1, 1), cell_id=None)
    made.compilation(1, 6, cell_id=0, launch_id=1, specialization_id=0)
    made.compilation(1, 6, cell_id=1, outcome="failed")
    first, second, between = by_cell(made.recording())
    assert (first.cell_id, first.label, first.status, first.error) == (0, "In [3] warm-up", "ok", None)
    assert (first.launches, first.kernels, first.compiles, first.memory_hits) == (2, 2, 1, 1)
    assert (first.totals.host_ns, first.totals.compile_ns, first.wall_ns, first.synchronize_ns) == (14, 6, 1_000, 40)
    assert (second.label, second.status, second.error, second.errors) == ("cell 1", "error", "ValueError: no", 1)
    assert (second.disk_hits, second.failed_compiles, second.synchronize_ns) == (1, 1, None)
    assert (between.cell_id, between.label, between.launches, between.wall_ns) == (None, "between cells", 1, None)


def test_a_cell_without_launches_is_a_row() -> None:
    made = Script()
    made.cell(wall_ns=9)
    cell, = by_cell(made.recording())
    assert (cell.launches, cell.totals.host_ns, cell.wall_ns) == (0, None, 9)
    assert by_cell(Script().recording()) == []


def kernels_recording() -> Any:
    made = Script()
    made.cell()
    slow, fast = made.kernel("slow", module="m", filename="/x/y.py", lineno=3), made.kernel("fast")
    made.specialization(slow, regs=32, static_shared_bytes=1024)
    made.specialization(slow, "(float64,)", regs=40, static_shared_bytes=0)
    made.specialization(fast)
    made.configuration((2,), (100,), sharedmem_bytes=512)
    made.configuration((7, 2), (32,))
    made.occupancy(0, 0, 0.5)
    made.occupancy(1, 1, 1.0)
    made.compilation(slow, 1_000, specialization_id=0, launch_id=0)
    made.launch(slow, (10, 1_000, 10, 10, 10), 0, 0)
    for spent in (100, 200, 300):
        made.launch(slow, (10, 0, spent, 10, 10), 0, 0)
    made.launch(slow, (10, 0, 10, 10, 10), 1, 1, cache="disk")
    made.launch(fast, (1, 0, 1, 1, 1), 2, 1)
    made.launch(fast, None, None, 1, error="TypeError", cache=None)
    made.rows["launches"][-1]["end_ns"] = made.rows["launches"][-1]["start_ns"] + 5
    made.compilation(fast, 50, trigger="eager", specialization_id=2)
    made.compilation(fast, 50, outcome="failed", error="TypingError: no")
    made.compilation(fast, 50, outcome="wait", specialization_id=2)
    return made.recording()


def test_kernels_come_in_order_of_host_time() -> None:
    slow, fast = by_kernel(kernels_recording())
    assert (slow.name, slow.module, slow.filename, slow.lineno) == ("slow", "m", "/x/y.py", 3)
    assert slow.host_ns == 1_040 + 130 + 230 + 330 + 40
    assert (slow.launches, slow.configurations, slow.specializations) == (5, 2, 2)
    assert (slow.compiles, slow.disk_hits, slow.memory_hits, slow.errors) == (1, 1, 3, 0)
    # Without compiles: 40, 40, 130, 230 and 330.
    assert (slow.median_ns, slow.max_ns, slow.compile_ns) == (130, 330, 1_000)
    assert slow.p99_ns == pytest.approx(230 + 0.96 * (330 - 230))
    assert (sum(slow.histogram), slow.histogram[-1], sum(fast.histogram), fast.histogram[0]) == (5, 1, 2, 1)
    assert (slow.usual_launches, slow.usual, slow.long) == (5, slow.totals, None), "its compile does not count"
    assert (fast.launches, fast.compiles, fast.failed_compiles, fast.waits, fast.errors) == (2, 1, 1, 1, 1)
    assert (fast.totals.unsplit_ns, fast.host_ns) == (5, 9)


def test_resources_are_ranges_over_what_was_launched() -> None:
    slow, fast = by_kernel(kernels_recording())
    assert (slow.regs, slow.shared_bytes, slow.occupancy) == ((32, 40), (0, 1_536), (0.5, 1.0))
    assert (fast.regs, fast.shared_bytes, fast.occupancy) == (None, None, None)


def test_shapes_of_grids_and_blocks() -> None:
    slow, fast = by_kernel(kernels_recording())
    assert (slow.most_blocks, slow.partial_warps) == (14, (4, 100))
    assert (fast.most_blocks, fast.partial_warps) == (14, (0, 0))


def test_totals_by_kernel_add_up_to_all() -> None:
    recording = many_launches(5_000, 40)
    kernels = by_kernel(recording)
    total = phase_totals(recording)
    assert len(kernels) == 40
    assert sum(kernel.launches for kernel in kernels) == 5_000
    assert sum(kernel.host_ns or 0 for kernel in kernels) == total.host_ns
    for name in ("dispatch", "compile", "prepare", "submit", "finish"):
        assert sum(kernel.totals.phase(name) or 0 for kernel in kernels) == total.phase(name)


def test_long_launches_are_summed_by_themselves(made: Script) -> None:
    made.launchable()
    for _ in range(9):
        made.launch(phases=(10, 0, 20, 10, 10))
    made.launch(phases=(10, 900_000, 20, 10, 10))
    for submit in (5_000, 9_000):
        made.launch(phases=(10, 0, 20, submit, 10))
    kernel, = by_kernel(made.recording())
    long = kernel.long
    assert long is not None
    assert (long.launches, long.totals.host_ns, long.totals.submit_ns) == (2, 14_080, 14_000)
    assert (long.longest_ns, long.phase, long.phase_ns) == (9_040, "submit", 9_000)
    assert (kernel.usual_launches, kernel.usual.host_ns, kernel.usual.launching_ns) == (10, 900_500, 500)
    for each in by_kernel(many_launches(5_000, 40)):
        assert each.usual_launches == each.launches and each.long is None


def test_a_kernel_that_never_ran_is_listed_without_times() -> None:
    made = Script()
    made.kernel()
    kernel, = by_kernel(made.recording())
    assert (kernel.launches, kernel.host_ns, kernel.median_ns, kernel.usual_launches) == (0, None, None, 0)
    assert (kernel.usual, kernel.long) == (kernel.totals, None)
    assert [*by_kernel(Script().recording())] == []


def test_launches_alone_tell_of_compiles_where_no_compilation_was_recorded(made: Script) -> None:
    made.kernel()
    made.configuration()
    made.launch(cache="compiled", specialization=None)
    assert by_kernel(made.recording())[0].compiles == 1


def configurations_recording() -> Any:
    made = Script()
    for name in ("a", "unused", "b"):
        made.kernel(name)
    made.specialization(0, regs=20)
    made.specialization(0, "(float64,)", regs=30)
    made.configuration((4, 2), (16, 16), sharedmem_bytes=256, stream=-7)
    made.configuration((1,), (32,), cluster_x=2, cluster_y=1, cluster_z=1)
    made.occupancy(0, 0, 0.5)
    made.occupancy(1, 0, 0.75)
    made.occupancy(1, 1, 1.0)
    made.launch(0, (1, 0, 1, 1, 1), 0, 1)
    made.launch(0, (1, 0, 1, 1, 7), 0, 0)
    made.launch(0, (1, 0, 1, 1, 1), 1, 0, error="ValueError")
    made.launch(2, (1, 0, 1, 1, 1), None, 1)
    return made.recording()


def test_configurations_by_kernel_with_most_launches_first() -> None:
    found = by_configuration(configurations_recording())
    assert list(found) == [0, 2]
    first, second = found[0]
    assert (first.griddim, first.blockdim, first.cluster) == ((4, 2, 1), (16, 16, 1), None)
    assert (first.blocks, first.sharedmem_bytes, first.stream) == (8, 256, -7)
    assert (first.launches, first.errors, first.host_ns, first.median_ns) == (2, 1, 14, 7)
    assert (first.regs, first.occupancy) == ((20, 30), (0.5, 0.75))
    assert (second.cluster, second.regs, second.occupancy) == ((2, 1, 1), (20, 20), None)
    assert (found[2][0].launches, found[2][0].regs) == (1, None)


def test_only_rows_that_are_asked_for() -> None:
    held = Configurations(configurations_recording())
    assert [held.count(dispatcher) for dispatcher in range(4)] == [2, 0, 1, 0]
    assert len(held.of(0, 1)) == 1
    assert held.of(9) == []


def test_no_configurations() -> None:
    assert by_configuration(Script().recording()) == {}


def test_a_captured_launch_counts_to_the_configuration_of_its_shape(made: Script) -> None:
    made.kernel()
    made.specialization()
    for stream in (17, 18, 0):
        made.configuration((4,), stream=stream)
    made.configuration((8,), stream=19)
    made.configuration((8,), stream=20)
    for configuration in (0, 1, 3, 4):
        made.launch(configuration=configuration, capture_event_id=0)
    made.launch(configuration=2)
    recording = made.recording()
    assert configurations_of(recording).tolist() == [2, 2, 3, 3, 2]
    found = [(each.griddim, each.stream, each.launches, each.captured) for each in by_configuration(recording)[0]]
    assert found == [((4, 1, 1), 0, 1, 2), ((8, 1, 1), None, 0, 2)], "a node has no stream"
    assert by_kernel(recording)[0].configurations == 2


def test_a_captured_launch_has_the_occupancy_of_its_shape(made: Script) -> None:
    for name in ("axpy", "scale"):
        made.specialization(made.kernel(name))
    for grid, stream in ((4, 0), (4, 17), (8, 18), (8, 19)):
        made.configuration((grid,), stream=stream)
    made.launch(configuration=0)
    for kernel, configuration in ((0, 1), (1, 1), (1, 2), (1, 3)):
        made.launch(kernel, specialization=kernel, configuration=configuration, capture_event_id=0)
    for specialization, configuration, share in ((0, 0, 0.5), (0, 1, 0.5), (1, 1, 0.25), (1, 2, 0.75), (1, 3, 0.75)):
        made.rows.setdefault("occupancies", []).append({
            "specialization_id": specialization, "configuration_id": configuration, "device_id": 0,
            "active_blocks_per_multiprocessor": 8, "occupancy": share})
    found = by_configuration(made.recording())
    shown = {kernel: [(each.griddim, each.occupancy) for each in held] for kernel, held in found.items()}
    assert shown == {0: [((4, 1, 1), (0.5, 0.5))], 1: [((8, 1, 1), (0.75, 0.75)), ((4, 1, 1), (0.25, 0.25))]}


def test_the_default_streams_of_two_devices_are_two(made: Script) -> None:
    from kernelscope.views.card.labels import configuration_values
    from kernelscope.views.card.model import Overview

    for ordinal in (1, 3):
        made.device(ordinal=ordinal)
    made.launchable()
    for device in (0, 1, 1, None):
        made.launch(device_id=device)
    made.occupancy(0, 0, 0.5)
    made.rows["occupancies"].append({**made.rows["occupancies"][0], "device_id": 1, "occupancy": 0.75})
    recording = made.recording()
    found = by_configuration(recording)[0]
    assert [(each.device, each.launches, each.occupancy) for each in found] == [
        (3, 2, (0.75, 0.75)), (None, 1, None), (1, 1, (0.5, 0.5))]
    assert [configuration_values(each)["stream"] for each in found] == [
        "default on device 3", "default", "default on device 1"]
    shown = Overview(recording)
    assert (shown.configurations, shown.by_kernel[0].configurations) == (3, 3)
    for row in made.rows["launches"]:
        row["device_id"] = 1
    (only,) = by_configuration(made.recording())[0]
    assert (only.device, only.launches, only.occupancy) == (None, 4, (0.5, 0.75))


@pytest.mark.slow
def test_a_dry_run_on_the_default_streams_of_two_devices(run_python: Any) -> None:
    run_python("""
import kernelscope, numpy as np
from numba import cuda
from kernelscope.analysis.launches import by_configuration

@cuda.jit
def step(a):
    a[0] += 1

with kernelscope.record(gpu="none") as recorder:
    for device, launches in ((0, 2), (1, 3)):
        with cuda.gpus[device]:
            array = cuda.to_device(np.zeros(4))
            for _ in range(launches):
                step[1, 1](array)
found = by_configuration(recorder.recording)[0]
assert [(each.stream, each.device, each.launches) for each in found] == [(0, 1, 3), (0, 0, 2)], found
text = recorder.recording.summary()
assert "default on device 0" in text and "default on device 1" in text, text
""", KERNELSCOPE_DRYRUN_DEVICES="2", NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS="0")


def test_overloads_by_kernel_with_most_launches_first() -> None:
    made = Script()
    made.kernel("a")
    made.kernel("b")
    made.specialization(0, "(int64,)", origin="before", regs=12)
    made.specialization(0, "(float32,)", cubin_bytes=4_096)
    made.specialization(1)
    made.configuration()
    made.compilation(0, 700, specialization_id=1)
    made.launch(0, (1, 0, 1, 1, 1), 1)
    made.launch(0, (1, 0, 1, 1, 3), 1)
    made.launch(0, None, None)
    found = Specializations(made.recording())
    first, second = found.of(0)
    assert (first.signature, first.launches, first.host_ns, first.median_ns) == ("(float32,)", 2, 10, 5)
    assert (first.compile_ns, first.cubin_bytes, first.regs) == (700, 4_096, None)
    assert (second.origin, second.launches, second.compile_ns, second.median_ns) == ("before", 0, None, None)
    assert (found.count(0), found.count(1), found.count(2), found.of(0, 1)) == (2, 1, 0, [first])
    assert Specializations(Script().recording()).of(0) == []


def test_threads_that_waited_did_not_compile(made: Script) -> None:
    made.kernel("axpy")
    made.specialization(0)
    made.compilation(specialization_id=0, start_ns=0, end_ns=300)
    for thread in (1, 2):
        made.compilation(specialization_id=0, outcome="wait", thread_id=thread, start_ns=0, end_ns=310, wait_ns=310)
    made.specialization(0)
    made.compilation(specialization_id=1, outcome="wait", thread_id=1, start_ns=400, end_ns=500, wait_ns=100)
    recording = made.recording()
    assert [each.compile_ns for each in Specializations(recording).of(0)] == [300, None]
    inspected, = inspect_kernels(recording)
    assert [each.compile_ns for each in inspected.specializations] == [300, None]
    assert inspected.compile_ns == 300


MORE = ["kernel", "arguments", "launches", "captured", "compile_ns", "median_ns", "configurations", "occupancy",
        "limited_by", "cache_file", "reason_code"]


@pytest.fixture
def recording() -> Recording:
    script = Script()
    script.device()
    script.kernel("axpy", arguments="x, n")
    script.kernel("total")
    script.specialization(0, "(array(float32, 1d, C), int64)", regs=18, spill_store_bytes=0)
    script.specialization(1, "(int64,)", origin="before")
    script.configuration((4,))
    script.configuration((4,), stream=7)
    script.configuration((8,))
    script.occupancy(0, 0, 1.0)
    script.occupancy(0, 2, 0.5)
    for at in (0, 1, 2):
        script.launch(0, configuration=at)
    script.compilation(0, 50 * MS, specialization_id=0, outcome="wait")
    script.compilation(0, 30 * MS, specialization_id=0, cache_file="axpy.nbi")
    return script.recording()


def test_the_facts_stand_behind_the_table_s_columns(recording: Recording) -> None:
    frame = recording.specializations
    assert list(frame.columns) == [*TABLES["specializations"].names, *MORE]
    pd.testing.assert_frame_equal(frame[list(TABLES["specializations"].names)], recording.table("specializations"))
    axpy, total = frame.to_dict("records")
    assert (axpy["kernel"], axpy["arguments"]) == ("axpy", "x: float32[:] C, n: int64")
    assert (axpy["launches"], axpy["configurations"], axpy["occupancy"]) == (3, 2, 0.5)
    assert axpy["compile_ns"] == 30 * MS, "a thread that waited did not compile"
    assert axpy["cache_file"] == "axpy.nbi" and axpy["reason_code"]
    assert (total["kernel"], total["arguments"], total["launches"]) == ("total", "argument 0: int64", 0)
    assert all(pd.isna(total[name]) for name in ("compile_ns", "median_ns", "occupancy", "cache_file", "reason_code"))


def test_columns_have_their_types_in_an_empty_recording_too(recording: Recording) -> None:
    empty = Recording({}, {}).specializations
    assert len(empty) == 0
    assert empty[MORE].dtypes.to_dict() == recording.specializations[MORE].dtypes.to_dict()
    assert str(empty.dtypes["compile_ns"]) == "Int64" and str(empty.dtypes["launches"]) == "int64"


def test_it_says_what_the_inspector_says(recording: Recording) -> None:
    held = {each.specialization_id: each for kernel in inspect_kernels(recording) for each in kernel.specializations}
    for row in recording.specializations.to_dict("records"):
        assert row["launches"] == held[row["specialization_id"]].launches
        assert json.dumps(row["regs"] if pd.notna(row["regs"]) else None) == json.dumps(
            held[row["specialization_id"]].regs)


@pytest.fixture
def replayed() -> Recording:
    """Three launches of axpy that were captured, four of block_sum that ran, and a range around all."""
    made = rebuilt()
    made.range("all", start_ns=made.rows["cells"][0]["start_ns"])
    return made.recording()


def test_kernels_and_cells(replayed: Recording) -> None:
    found = {each.name: each for each in by_kernel(replayed)}
    assert (found["axpy"].launches, found["axpy"].captured, found["axpy"].memory_hits) == (0, 3, 0)
    assert (found["axpy"].host_ns, found["axpy"].median_ns) == (None, None)
    assert (found["block_sum"].launches, found["block_sum"].captured, found["block_sum"].host_ns) == (4, 0, 40_000)
    cell, = by_cell(replayed)
    assert (cell.launches, cell.captured, cell.kernels, cell.memory_hits) == (4, 3, 2, 4)
    assert cell.totals.host_ns == 40_000


def test_a_compile_inside_a_captured_launch_is_a_compile_all_the_same(made: Script) -> None:
    made.cell()
    made.launchable()
    made.compilation(specialization_id=0, launch_id=0)
    made.launch(phases=(1, 250_000_000, 1, 1, 1), capture_event_id=0, compilation_id=0)
    shown = Overview(made.recording())
    assert (shown.launches, shown.captured, shown.compiles, shown.compile_ns) == (0, 1, 1, 250_000_000)
    assert (shown.totals.host_ns, shown.is_empty) == (None, False)


def test_configurations_specializations_and_ranges(replayed: Recording) -> None:
    axpy, = by_configuration(replayed)[0]
    assert (axpy.launches, axpy.captured, axpy.host_ns, axpy.median_ns) == (0, 3, 0, None)
    overload, = Specializations(replayed).of(0)
    assert (overload.launches, overload.captured) == (0, 3)
    path, = by_range(replayed)
    assert (path.launches, path.host_ns) == (4, 40_000)
    kernel = next(each for each in inspect_kernels(replayed) if each.name == "axpy")
    assert [(each.launches, each.captured) for each in kernel.specializations] == [(0, 3)]
    assert replayed.specializations.captured.tolist() == [3, 0]


def test_each_launch_keeps_its_own_times(replayed: Recording) -> None:
    phases = launch_phases(replayed)
    assert phases.host_ns.tolist() == [10_000] * 7
    assert phases.own_ns.tolist() == [-1] * 3 + [10_000] * 4


def test_a_captured_launch_inside_one_that_ran_is_taken_out_of_it(made: Script) -> None:
    made.launchable()
    begin = made.now
    made.launch(phases=(3_000, 0, 40_000, 2_000, 1_000))
    made.launch(parent_launch_id=0, start_ns=begin + 5_000, dispatch_end_ns=begin + 6_000,
                submit_start_ns=begin + 7_000, submit_end_ns=begin + 8_000, end_ns=begin + 9_000, capture_event_id=0)
    assert launch_phases(made.recording()).own_ns.tolist() == [42_000, -1]


def test_the_join_says_captured(replayed: Recording) -> None:
    table: Any = correlate(replayed)
    assert table.source.tolist()[:7] == ["captured"] * 3 + ["launch"] * 4
    assert table[table.source == "graph"].graph_node_id.notna().all()
    assert len(table[table.source == "graph"]) == 36
    axpy = next(each for each in by_execution(replayed) if each.name == "axpy")
    assert (axpy.kernels, axpy.launched, axpy.in_graphs, axpy.others) == (36, 0, 36, 0)


def test_all_kernels_of_one_call_are_its_own() -> None:
    made = Script(gpu={"source": "cupti"})
    made.cell()
    recording = with_builds(made).recording()
    joined = join(recording)
    assert (joined.joined, joined.execute_ns.tolist()) == (1, [10_000])
    call, = by_execution(recording)
    assert (call.name, call.kernels, call.launched, call.others) == ("reduce_into", 2, 2, 0)
    assert call.queue is None or call.queue.count == 1


def test_a_hidden_launch_configuration_is_unknown(made: Script) -> None:
    made.cell()
    recording = with_builds(made).recording()
    hidden, = by_configuration(recording)[0]
    assert (hidden.griddim, hidden.blockdim, hidden.sharedmem_bytes, hidden.cluster) == (None, None, None, None)
    assert hidden.blocks is None
    kernel, = by_kernel(recording)
    assert (kernel.most_blocks, kernel.partial_warps, kernel.shared_bytes) == (0, (0, 0), None)
    from kernelscope.views.card.html import card
    from kernelscope.views.card.text import launches_table, summary

    for output in (card(recording), summary(recording), launches_table(recording)):
        assert "unknown" in output
        assert not re.search(r"(?<![\w-])-1(?![\w.])", re.sub(r"<style>.*?</style>", "", output, flags=re.DOTALL))
