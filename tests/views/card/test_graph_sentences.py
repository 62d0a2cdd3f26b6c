from __future__ import annotations

from graph_stories import GraphScript, rebuilt, with_builds
from handmade import Script

from kernelscope.units import MISSING
from kernelscope.views.card import labels
from kernelscope.views.card.model import overview


def test_kept_rebuilds_are_told_from_those_that_replace() -> None:
    made = GraphScript()
    first = made.instantiate()
    made.instantiate(1, rebuild_of=first, change="configuration", changes="grid of axpy 4 to 16")
    made.replay(first)
    graph, = overview(made.recording()).by_topology
    assert labels.graph_notes(graph) == [
        "1 rebuild, 400 µs: 1 with another launch configuration or size (grid of axpy 4 to 16); 1 beside one that is "
        "kept",
        "2 graphs of one topology, with other launch configurations or sizes"]


def test_notes_of_what_is_seldom() -> None:
    made = GraphScript()
    made.graph_event("before", 0, start_ns=None)
    made.instantiate(outcome="failed")
    made.graph_event("upload", 0)
    made.instantiate(rebuild_of=0, change=None)
    graph = overview(made.recording()).by_graph[0]
    assert labels.graph_notes(graph) == ["built before recording began", "1 upload", "1 instantiate failed"]


def test_names_and_kernels_are_few() -> None:
    made = GraphScript()
    for at in range(4):
        made.graph(f"more {at}", "chain")
        made.instantiate(2 + at)
    for name in ("a", "b", "c", "d"):
        made.graph_node(0, "kernel", name)
    graph, = overview(made.recording()).by_topology
    assert labels.graph_names(graph) == "graphs 0, 1, 2 and 3 more"
    assert labels.graph_kernels(graph) == "axpy, a, b and 2 more"


def test_mangled_names_are_short() -> None:
    made = Script()
    made.graph()
    made.graph_event("instantiate")
    for name in ("__main__::axpy(Array<float, 1, C, mutable, aligned>, double)", "void fill<float>"):
        made.graph_node(0, "kernel", name)
    graph, = overview(made.recording()).by_topology
    assert labels.graph_kernels(graph) == "axpy, void fill<float>"


def test_the_gpu_s_sentence() -> None:
    assert labels.graph_runs_line(overview(rebuilt().recording())) == (
        "12 graph launches of 2 graphs ran 36 kernels and 12 copies and memsets, 480 µs.")
    assert labels.graph_runs_line(overview(Script().recording())) == ""


def test_cells_are_named_where_there_are_several() -> None:
    made = rebuilt()
    assert labels.cells_of(overview(made.recording()).by_topology[0], overview(made.recording())) == ""
    made.cell(execution_count=6)
    made.graph_event("launch", 0, exec_id=1, cell_id=1)
    shown = overview(made.recording())
    assert labels.cells_of(shown.by_topology[0], shown) == "In [5] replay, In [6]"


def test_why_a_request_was_no_hit() -> None:
    made = with_builds(Script())
    made.build(outcome="failed", error="ValueError: no")
    made.build(reason_code="new_dtype")
    shown = overview(made.recording())
    assert {labels.miss_reason(each) for each in labels.build_misses(shown)} == {
        "only the operator's name `add2` differs", MISSING, "another thread was building the same", "ValueError: no",
        "new_dtype"}
