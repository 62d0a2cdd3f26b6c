"""A CUDA graph as text for Graphviz: bodies are clusters, names are escaped."""

from __future__ import annotations

from collections.abc import Iterator

from kernelscope.analysis.graph_nodes import TOP, Graph, Node, Place, read_graph
from kernelscope.recording.model import Recording
from kernelscope.recording.privacy import shareable
from kernelscope.renderers import graph_words as words
from kernelscope.renderers.base import Makes, clean
from kernelscope.renderers.graph_style import kind_of

MAKES = Makes("text/vnd.graphviz", ".dot")

_SHAPES = {
    "round": "box", "slant": "parallelogram", "roof": "trapezium", "cut": "note", "pill": "ellipse", "stack": "folder",
    "hex": "hexagon", "drum": "cylinder",
}
_INDENT = "  "


def to_dot(recording: Recording, graph_id: int | None = None) -> str:
    """Return a graph in Graphviz's language, all of its nodes and edges with it.

    A child graph or conditional node is a node in a cluster with its bodies, each of which is a cluster too.

    Parameters
    ----------
    recording : Recording
        What holds the graph.
    graph_id : int, optional
        Its row in ``graphs``; the only one by default.

    Raises
    ------
    UnknownGraphError
        The recording has no such graph, or several and none was named.
    """
    return dot(read_graph(shareable(recording), graph_id))


def dot(graph: Graph) -> str:
    """Return a graph that was read in Graphviz's language."""
    lines = [
        f"digraph {_quoted(f'graph {graph.graph_id}')} {{",
        _INDENT + 'node [style="filled,rounded", fontcolor=white, fontname="Helvetica", fontsize=10];',
        _INDENT + 'edge [color="#7d858f"]; fontname="Helvetica"; fontsize=10; compound=true;',
        *_level(graph, TOP, 1),
        "}",
    ]
    return "\n".join(lines) + "\n"


def _level(graph: Graph, place: Place, depth: int) -> Iterator[str]:
    """Nodes of one body, boxes with what is in them, and the body's edges."""
    # Not by recursion: a file may nest deeper than Python calls.
    waiting: list[tuple[str | Place, int]] = [(place, depth)]
    while waiting:
        at, depth = waiting.pop()
        indent = _INDENT * depth
        if isinstance(at, str):
            yield indent + at
            continue
        for first, then in graph.edges.get(at, ()):
            yield f"{indent}n{first} -> n{then};"
        for number in graph.bodies.get(at, ()):
            node, inside = graph.nodes[number], graph.bodies_of(number)
            if not inside:
                yield indent + _node(graph, node)
                continue
            later: list[tuple[str | Place, int]] = [
                (f"subgraph cluster_{number} {{", depth),
                (f'style="rounded"; color="{kind_of(node.kind).color}"; {_node(graph, node)}', depth + 1)]
            for body in inside:
                label = _quoted(words.body_name(node, body))
                first = graph.bodies[body][0]
                later += [
                    (f"n{number} -> n{first} [style=dotted, lhead=cluster_{number}_{body[1]}];", depth + 1),
                    (f'subgraph cluster_{number}_{body[1]} {{ label={label}; style="rounded,dashed"; color="#7d858f";',
                     depth + 1),
                    (body, depth + 2), ("}", depth + 1)]
            waiting += reversed([*later, ("}", depth)])


def _node(graph: Graph, node: Node) -> str:
    kind = kind_of(node.kind)
    lines = [words.title(node)[:words.LONGEST_NAME], words.detail(graph, node), words.time_of(graph, node)]
    label = "\n".join(line for line in lines if line)
    return f'n{node.number} [label={_quoted(label)}, shape={_SHAPES[kind.outline]}, color="{kind.color}"];'


def _quoted(text: str) -> str:
    """A string of the language; a backslash begins an escape in a label."""
    lines = [clean(line).replace("\\", "\\\\").replace('"', '\\"') for line in text.split("\n")]
    return '"' + "\\n".join(lines) + '"'
