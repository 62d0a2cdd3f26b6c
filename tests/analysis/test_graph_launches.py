from __future__ import annotations

from typing import Any

from kernelscope.analysis.graph_launches import GraphLaunches, by_graph


def test_kernels_of_one_graph_launch_share_a_correlation_id(script: Any) -> None:
    made = script()
    for launch in (50, 51):
        for node in range(3):
            made.activity(cupti_graph_id=4, cupti_node_id=node, correlation_id=launch, duration_ns=10)
        made.activity("memcpy", "DtoD", cupti_graph_id=4, cupti_node_id=3, correlation_id=launch, duration_ns=99)
    made.activity(cupti_graph_id=9, start_ns=None)
    made.activity(correlation_id=52)
    assert by_graph(made.recording()) == [GraphLaunches(4, 2, 6, 2, 60), GraphLaunches(9, None, 1, 0, None)]
    assert by_graph(script().recording()) == []
