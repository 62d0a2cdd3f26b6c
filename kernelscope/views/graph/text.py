"""A CUDA graph as text: by layers, or for Graphviz."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from kernelscope.recording.model import Recording
from kernelscope.recording.redact import shareable
from kernelscope.units import MISSING, counted, duration, percent
from kernelscope.views.base import Makes, clean, columns, shorten, table, with_notice, wrap
from kernelscope.views.graph import labels
from kernelscope.views.graph.labels import kind_of
from kernelscope.views.graph.layout import Layout, Level, lay_out
from kernelscope.views.graph.model import TOP, Graph, Node, Place, read_graph
from kernelscope.views.graph.svg import group, mostly

MAKES = Makes("text/plain", ".txt")

#: Nodes of a graph that is listed; of a larger one there is a summary.
MOST_LISTED = 80

_MOST_NAMES = 10
_MOST_WAITED = 6
_DEEPEST = 16
_WIDE, _DETAIL = 90, 27


def graph_text(recording: Recording, graph_id: int | None = None, width: int | None = None) -> str:
    """Return a graph as text: what its picture shows.

    Parameters
    ----------
    recording : Recording
        What holds the graph.
    graph_id : int, optional
        Its row in ``graphs``; the only one by default.
    width : int, optional
        Columns to keep to; the terminal's by default.

    Raises
    ------
    UnknownGraphError
        The recording has no such graph, or several and none was named.
    """
    graph = read_graph(shareable(recording), graph_id)
    return text(graph, lay_out(graph), notice=recording.notice, width=width)


def text(graph: Graph, layout: Layout, *, notice: str = "", width: int | None = None) -> str:
    """Return a graph that was laid out as text."""
    width = columns(width)
    head = [wrap(labels.headline(graph), width, hanging=2)]
    if graph.nodes:
        head.append(wrap(labels.kinds(graph), width, hanging=2))
        head += [wrap(note, width, hanging=2) for note in labels.notes(graph, layout)]
        parts = _listed(graph, layout, width) if len(graph.nodes) <= MOST_LISTED else _summary(graph, layout, width)
        head.append("\n" + parts)
    return with_notice(notice, "\n".join(head))


def _listed(graph: Graph, layout: Layout, width: int) -> str:
    rows = list(_rows(graph, layout, TOP, ""))
    for row in rows:
        # A launch configuration says that it is a kernel, where there is no room for more.
        row[3] = shorten(row[3] if width >= _WIDE else row[3].removeprefix("kernel · "), _DETAIL)
    headers = ["layer", "node", "", "", "time", "share", ""]
    # What no node has takes no room.
    kept = [at for at in range(len(headers)) if any(row[at] not in ("", MISSING) for row in rows)]
    rows = [[row[at] for at in kept] for row in rows]
    left = [place for place, at in enumerate(kept) if at in (2, 3, 6)]
    return table([headers[at] for at in kept], rows, width, left=left, flexible=kept.index(2))


def _rows(graph: Graph, layout: Layout, place: Place, indent: str) -> Iterator[list[str]]:
    """A line a node, below a node with bodies those of the nodes in them, further in."""
    level = layout.levels[place]
    before: dict[int, list[int]] = {}
    for first, then in graph.edges.get(place, ()):
        before.setdefault(then, []).append(first)
    for layer, numbers in enumerate(level.by_layer(), 1):
        for number in numbers:
            node = graph.nodes[number]
            time, share = labels.time_of(graph, node), percent(node.share) if node.share is not None else ""
            yield [f"{layer}" if number == numbers[0] else "", f"{number}", indent + shorten(labels.title(node), 60),
                   labels.detail(graph, node), time, share, _waits(before.get(number, []))]
            for body in graph.bodies_of(number):
                name = labels.body_name(node, body)
                if name:
                    yield ["", "", f"{indent}  {name}:", "", "", "", ""]
                yield from _rows(graph, layout, body, (indent + ("   " if name else "  "))[:_DEEPEST])


def _waits(numbers: list[int]) -> str:
    if not numbers:
        return ""
    more = f" and {len(numbers) - _MOST_WAITED:,} more" if len(numbers) > _MOST_WAITED else ""
    return "after " + ", ".join(map(str, numbers[:_MOST_WAITED])) + more


def _summary(graph: Graph, layout: Layout, width: int) -> str:
    level = layout.levels[TOP]
    parts = [_shape(level), "", _bands(graph, layout, width)]
    total: Counter[str] = Counter()
    number: Counter[str] = Counter()
    for node in graph.nodes:
        if not graph.bodies_of(node.number):
            number[labels.title(node)] += 1
            total[labels.title(node)] += node.total_ns or 0
    named = sorted(number, key=lambda name: (-total[name], -number[name], name))
    rows = [[clean(name), f"{number[name]:,}",
             duration(graph.by_launch(total[name] or None)),
             percent(total[name] / graph.total_ns) if graph.total_ns else MISSING] for name in named[:_MOST_NAMES]]
    parts += ["", table(["most time", "nodes", "a launch", "share"], rows, width)]
    if len(named) > _MOST_NAMES:
        parts.append(f"  and {counted(len(named) - _MOST_NAMES, 'more name')}")
    return "\n".join(parts)


def _shape(level: Level) -> str:
    layers = level.by_layer()
    widest = max(map(len, layers))
    return f"{counted(len(layers), 'layer')}, the widest of {counted(widest, 'node')}"


def _bands(graph: Graph, layout: Layout, width: int) -> str:
    rows = [[f"{band.layers:,}", f"{len(band.numbers):,}", mostly(graph, band),
             duration(graph.by_launch(band.total_ns)), percent(band.share)] for band in group(graph, layout)]
    return table(["layers", "nodes", "mostly", "a launch", "share"], rows, width, left=(2,), flexible=2)


# A CUDA graph as text for Graphviz: bodies are clusters, names are escaped.

MAKES_DOT = Makes("text/vnd.graphviz", ".dot")

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
                label = _quoted(labels.body_name(node, body))
                first = graph.bodies[body][0]
                later += [
                    (f"n{number} -> n{first} [style=dotted, lhead=cluster_{number}_{body[1]}];", depth + 1),
                    (f'subgraph cluster_{number}_{body[1]} {{ label={label}; style="rounded,dashed"; color="#7d858f";',
                     depth + 1),
                    (body, depth + 2), ("}", depth + 1)]
            waiting += reversed([*later, ("}", depth)])


def _node(graph: Graph, node: Node) -> str:
    kind = kind_of(node.kind)
    lines = [labels.title(node)[:labels.LONGEST_NAME], labels.detail(graph, node), labels.time_of(graph, node)]
    label = "\n".join(line for line in lines if line)
    return f'n{node.number} [label={_quoted(label)}, shape={_SHAPES[kind.outline]}, color="{kind.color}"];'


def _quoted(text: str) -> str:
    """A string of the language; a backslash begins an escape in a label."""
    lines = [clean(line).replace("\\", "\\\\").replace('"', '\\"') for line in text.split("\n")]
    return '"' + "\\n".join(lines) + '"'
