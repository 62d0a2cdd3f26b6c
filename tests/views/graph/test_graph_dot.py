"""Graphs for Graphviz."""

from __future__ import annotations

import re

import pytest
from drawn_graphs import every_kind, nested, script, strange

from kernelscope.views.graph.text import to_dot

STRING = re.compile(r'"(?:[^"\\]|\\.)*"')


def skeleton(dot: str) -> str:
    """The text without its strings: what is left has no name of the user's."""
    return STRING.sub('""', dot)


def test_all_nodes_and_edges_are_in_it() -> None:
    dot = to_dot(every_kind())
    assert sorted(re.findall(r"subgraph (\w+)", dot)) == [
        "cluster_4", "cluster_4_0", "cluster_7", "cluster_7_0", "cluster_7_1"]
    assert 'label="then"' in dot and "n4 -> n5 [style=dotted, lhead=cluster_4_0];" in dot
    assert dot.startswith('digraph "graph 0" {')
    assert set(re.findall(r"\bn(\d+) \[label", dot)) == {str(number) for number in range(14)}
    edges = re.findall(r"n(\d+) -> n(\d+);", dot)
    assert len(edges) == 13
    assert ("0", "2") in edges
    assert 'n2 [label="axpy\\nkernel · [4, 128]\\n20.0 µs", shape=box, color="#2d66b0"];' in dot


@pytest.mark.parametrize("make", [strange, lambda: nested(1_200, 1)])
def test_braces_and_strings_are_closed(make: object) -> None:
    left = skeleton(to_dot(make()))  # type: ignore[operator]
    assert left.count("{") == left.count("}")
    assert re.fullmatch(r'[\w\s{}\[\]=,;:>\-"#.]*', left)


def test_names_are_escaped() -> None:
    made = script()
    made.graph_node(made.graph(), name='a"];\nn1 -> n2 \\"')
    dot = to_dot(made.recording())
    assert 'label="a\\"];\\\\nn1 -> n2 \\\\\\"\\nkernel"' in dot
    assert len(re.findall(r"n\d+ \[", skeleton(dot))) == 1
