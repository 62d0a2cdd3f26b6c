"""Launches that were captured into a graph became nodes of it: no count of launches that ran may have them."""

from __future__ import annotations

import re
from typing import Any

import pytest
from graph_stories import rebuilt, with_builds
from handmade import Script

from kernelscope.analysis.activities import by_execution, correlate, join
from kernelscope.analysis.launches import (
    by_cell,
    by_configuration,
    by_kernel,
    by_specialization,
    launch_phases,
)
from kernelscope.analysis.ranges import by_range
from kernelscope.recording.model import Recording
from kernelscope.views.card.model import overview
from kernelscope.views.inspector.model import inspect_kernels


@pytest.fixture
def recording() -> Recording:
    """Three launches of axpy that were captured, four of block_sum that ran, and a range around all."""
    made = rebuilt()
    made.range("all", start_ns=made.rows["cells"][0]["start_ns"])
    return made.recording()


def test_kernels_and_cells(recording: Recording) -> None:
    found = {each.name: each for each in by_kernel(recording)}
    assert (found["axpy"].launches, found["axpy"].captured, found["axpy"].memory_hits) == (0, 3, 0)
    assert (found["axpy"].host_ns, found["axpy"].median_ns) == (None, None)
    assert (found["block_sum"].launches, found["block_sum"].captured, found["block_sum"].host_ns) == (4, 0, 40_000)
    cell, = by_cell(recording)
    assert (cell.launches, cell.captured, cell.kernels, cell.memory_hits) == (4, 3, 2, 4)
    assert cell.totals.host_ns == 40_000


def test_a_compile_inside_a_captured_launch_is_a_compile_all_the_same(script: type[Script]) -> None:
    made = script()
    made.cell()
    made.kernel()
    made.specialization()
    made.configuration()
    made.compilation(specialization_id=0, launch_id=0)
    made.launch(phases=(1, 250_000_000, 1, 1, 1), capture_event_id=0, compilation_id=0)
    shown = overview(made.recording())
    assert (shown.launches, shown.captured, shown.compiles, shown.compile_ns) == (0, 1, 1, 250_000_000)
    assert (shown.totals.host_ns, shown.is_empty) == (None, False)


def test_configurations_specializations_and_ranges(recording: Recording) -> None:
    axpy, = by_configuration(recording)[0]
    assert (axpy.launches, axpy.captured, axpy.host_ns, axpy.median_ns) == (0, 3, 0, None)
    overload, = by_specialization(recording)[0]
    assert (overload.launches, overload.captured) == (0, 3)
    path, = by_range(recording)
    assert (path.launches, path.host_ns) == (4, 40_000)
    kernel = next(each for each in inspect_kernels(recording) if each.name == "axpy")
    assert [(each.launches, each.captured) for each in kernel.specializations] == [(0, 3)]
    assert recording.specializations.captured.tolist() == [3, 0]


def test_each_launch_keeps_its_own_times(recording: Recording) -> None:
    phases = launch_phases(recording)
    assert phases.host_ns.tolist() == [10_000] * 7
    assert phases.own_ns.tolist() == [-1] * 3 + [10_000] * 4


def test_a_captured_launch_inside_one_that_ran_is_taken_out_of_it(script: type[Script]) -> None:
    made = script()
    made.kernel()
    made.specialization()
    made.configuration()
    begin = made.now
    made.launch(phases=(3_000, 0, 40_000, 2_000, 1_000))
    made.launch(parent_launch_id=0, start_ns=begin + 5_000, dispatch_end_ns=begin + 6_000,
                submit_start_ns=begin + 7_000, submit_end_ns=begin + 8_000, end_ns=begin + 9_000, capture_event_id=0)
    assert launch_phases(made.recording()).own_ns.tolist() == [42_000, -1]


def test_the_join_says_captured(recording: Recording) -> None:
    table: Any = correlate(recording)
    assert table.source.tolist()[:7] == ["captured"] * 3 + ["launch"] * 4
    assert table[table.source == "graph"].graph_node_id.notna().all()
    assert len(table[table.source == "graph"]) == 36
    axpy = next(each for each in by_execution(recording) if each.name == "axpy")
    assert (axpy.kernels, axpy.launched, axpy.in_graphs, axpy.others) == (36, 0, 36, 0)


def test_all_kernels_of_one_call_are_its_own(script: type[Script]) -> None:
    made = script(gpu={"source": "cupti"})
    made.cell()
    recording = with_builds(made).recording()
    joined = join(recording)
    assert (joined.joined, joined.execute_ns.tolist()) == (1, [10_000])
    call, = by_execution(recording)
    assert (call.name, call.kernels, call.launched, call.others) == ("reduce_into", 2, 2, 0)
    assert call.queue is None or call.queue.count == 1


def test_a_hidden_launch_configuration_is_unknown(script: type[Script]) -> None:
    made = script()
    made.cell()
    recording = with_builds(made).recording()
    hidden, = by_configuration(recording)[0]
    assert (hidden.griddim, hidden.blockdim, hidden.sharedmem_bytes, hidden.cluster) == (None, None, None, None)
    assert (hidden.blocks, hidden.threads_per_block) == (None, None)
    kernel, = by_kernel(recording)
    assert (kernel.most_blocks, kernel.partial_warps, kernel.shared_bytes) == (0, (0, 0), None)
    from kernelscope.views.card.html import card
    from kernelscope.views.card.text import launches_table, summary

    for output in (card(recording), summary(recording), launches_table(recording)):
        assert "unknown" in output
        assert not re.search(r"(?<![\w-])-1(?![\w.])", re.sub(r"<style>.*?</style>", "", output, flags=re.DOTALL))
