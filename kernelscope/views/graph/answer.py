"""A CUDA graph as an answer for programs."""

from __future__ import annotations

from typing import Any

from kernelscope.recording.model import Recording
from kernelscope.recording.redact import shareable
from kernelscope.views.answer import Many, answer
from kernelscope.views.card.answer import health_of
from kernelscope.views.graph.model import Node, headline, read_graph


def graph_answer(recording: Recording, graph_id: int | None = None, limit: int | None = None) -> dict[str, Any]:
    """Return a graph's nodes and edges, as `kernelscope.views.answer.answer` does; the only graph without an id.

    Raises
    ------
    UnknownGraphError
        As `kernelscope.views.graph.model.find_graph`.
    """
    graph = read_graph(shareable(recording), graph_id)
    edges = [(around, pair) for around, pairs in graph.edges.items() for pair in pairs]

    def node(each: Node) -> dict[str, Any]:
        return {
            "node": each.number, "inside": each.place[0] if each.place[0] >= 0 else None, "kind": each.kind,
            "name": each.name, "griddim": each.griddim and Many(each.griddim, weight=3),
            "blockdim": each.blockdim and Many(each.blockdim, weight=3),
            "cluster": each.cluster and Many(each.cluster, weight=3), "sharedmem_bytes": each.sharedmem_bytes,
            "size_bytes": each.size_bytes, "runs": each.runs, "execute_median_ns": each.execute_ns,
            "execute_ns": each.total_ns, "share": each.share}

    return answer("graph", {
        "verdict": f"Graph {graph.graph_id}: {headline(graph)}.", "health": health_of(recording),
        "graph_id": graph.graph_id, "instantiations": graph.instantiations, "launches": graph.launches,
        "execute_ns": graph.total_ns, "execute_a_launch_ns": graph.launch_ns,
        "nodes": Many(graph.nodes, node),
        "edges": Many(edges, lambda each: {"from": each[1][0], "to": each[1][1]}, weight=2),
        "strange_edges": graph.left_out}, limit)
