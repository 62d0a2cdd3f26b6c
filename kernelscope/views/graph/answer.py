"""A CUDA graph as an answer for programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, TypedDict

from kernelscope.recording.model import Recording
from kernelscope.recording.redact import shareable
from kernelscope.views.answer import Answer, HealthMembers, Many, answer
from kernelscope.views.card.answer import health_of
from kernelscope.views.graph.model import Node, headline, read_graph


class NodeMembers(TypedDict):
    """A node of a CUDA graph."""

    node: int
    inside: Annotated[int | None, "the node whose body it is in"]
    kind: str
    name: str
    griddim: Many[int] | None
    blockdim: Many[int] | None
    cluster: Many[int] | None
    sharedmem_bytes: int | None
    size_bytes: int | None
    runs: int
    execute_median_ns: float | None
    execute_ns: int | None
    share: float | None


EdgeMembers = TypedDict("EdgeMembers", {"from": int, "to": int})


class GraphAnswer(Answer):
    """What kernelscope graph says."""

    health: HealthMembers
    graph_id: int
    instantiations: int
    launches: int
    execute_ns: int | None
    execute_a_launch_ns: float | None
    nodes: Many[NodeMembers]
    edges: Many[EdgeMembers]
    strange_edges: Annotated[int, "left out, since they lead to no node of the graph"]


def graph_answer(recording: Recording, graph_id: int | None = None, limit: int | None = None) -> dict[str, Any]:
    """Return a graph's nodes and edges, as `kernelscope.views.answer.answer` does; the only graph without an id.

    Raises
    ------
    UnknownGraphError
        As `kernelscope.views.graph.model.find_graph`.
    """
    graph = read_graph(shareable(recording), graph_id)
    edges = [pair for pairs in graph.edges.values() for pair in pairs]

    def dimensions(values: Sequence[int] | None) -> Many[int] | None:
        return None if values is None else Many(values, weight=3)

    def edge(pair: tuple[int, int]) -> EdgeMembers:
        return {"from": pair[0], "to": pair[1]}

    def node(each: Node) -> NodeMembers:
        return {
            "node": each.number, "inside": each.place[0] if each.place[0] >= 0 else None, "kind": each.kind,
            "name": each.name, "griddim": dimensions(each.griddim), "blockdim": dimensions(each.blockdim),
            "cluster": dimensions(each.cluster), "sharedmem_bytes": each.sharedmem_bytes,
            "size_bytes": each.size_bytes, "runs": each.runs, "execute_median_ns": each.execute_ns,
            "execute_ns": each.total_ns, "share": each.share}

    return answer(GraphAnswer, {
        "verdict": f"Graph {graph.graph_id}: {headline(graph)}.", "health": health_of(recording),
        "graph_id": graph.graph_id, "instantiations": graph.instantiations, "launches": graph.launches,
        "execute_ns": graph.total_ns, "execute_a_launch_ns": graph.launch_ns,
        "nodes": Many(graph.nodes, node),
        "edges": Many(edges, edge, weight=2),
        "strange_edges": graph.left_out}, limit)
