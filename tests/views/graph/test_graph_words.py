"""What nodes and graphs are called."""

# ruff: noqa: RUF001 - the sign of multiplication is meant
from __future__ import annotations

from drawn_graphs import chain, every_kind, strange

from kernelscope.views.graph import model
from kernelscope.views.graph.layout import drawing_of
from kernelscope.views.graph.model import read_graph


def test_fields_of_a_kernel() -> None:
    graph = read_graph(every_kind())
    assert dict(model.fields(graph, graph.nodes[3])) == {
        "node": "3, kernel", "grid": "16 × 16 blocks", "block": "8 × 8 threads",
        "time": "55.0 µs, the median of 20 runs", "share": "16 % of the graph's GPU time"}


def test_fields_of_a_box_are_those_of_what_is_in_it() -> None:
    graph = read_graph(every_kind())
    found = dict(model.fields(graph, graph.nodes[4]))
    assert found["inside"] == "2 nodes"
    assert found["time"] == "90.0 µs a launch, all that is inside together"
    assert dict(model.fields(graph, graph.nodes[9])).keys() == {"node", "grid", "block"}
    graph = read_graph(strange())
    assert len(dict(model.fields(graph, graph.nodes[2]))["name"]) == model.LONGEST_NAME + 1


def test_bodies_have_names() -> None:
    graph = read_graph(strange())
    assert model.body_name(graph.nodes[3], (3, 7)) == "case 7"
    graph = read_graph(every_kind())
    assert [model.body_name(graph.nodes[7], (7, body)) for body in range(3)] == ["then", "else", "body 2"]
    assert model.body_name(graph.nodes[4], (4, 0)) == "body"


def test_what_is_not_shown_or_strange_is_noted() -> None:
    assert drawing_of(every_kind()).notes == []
    assert drawing_of(strange()).notes == [
        "1 edge closes a cycle (dashed): no CUDA graph has one",
        "2 edges lead out of a body or to its own node: left out"]
    assert drawing_of(chain(2, dry_run=True)).notice == "dry run: kernels did not execute"
