"""A CUDA graph as text: by layers, or for Graphviz."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from kernelscope.recording.model import Recording
from kernelscope.units import MISSING, counted, duration, listed, percent
from kernelscope.views.base import clean, columns, shorten, table, with_notice, wrap
from kernelscope.views.graph import model
from kernelscope.views.graph.layout import Drawing, drawing_of, group, mostly
from kernelscope.views.graph.model import TOP, Graph, Node, Place, kind_of, time_of

#: Nodes of a graph that is listed; of a larger one there is a summary.
MOST_LISTED = 80

_MOST_NAMES = 10
_MOST_WAITED = 6
_DEEPEST = 16
_WIDE, _DETAIL = 90, 27


def graph_text(recording: Recording, graph_id: int | None = None, width: int | None = None) -> str:
    """Return a graph as text, in so many columns or the terminal's; what is given and raised is as of `drawing_of`."""
    return text(drawing_of(recording, graph_id), width)


def text(drawing: Drawing, width: int | None = None) -> str:
    """Return a graph as text: what its SVG shows."""
    width, graph = columns(width), drawing.graph
    head = [wrap(drawing.headline, width, hanging=2)]
    if graph.nodes:
        head += [wrap(line, width, hanging=2) for line in (model.kinds(graph), *drawing.notes)]
        head.append("\n" + (_listed if len(graph.nodes) <= MOST_LISTED else _summary)(drawing, width))
    return with_notice(drawing.notice, "\n".join(head))


def _listed(drawing: Drawing, width: int) -> str:
    rows = list(_rows(drawing, TOP, ""))
    for row in rows:
        # A launch configuration says that it is a kernel, where there is no room for more.
        row[3] = shorten(row[3] if width >= _WIDE else row[3].removeprefix("kernel · "), _DETAIL)
    headers = ["layer", "node", "", "", "time", "share", ""]
    # Columns without values are left out.
    kept = [at for at in range(len(headers)) if any(row[at] not in ("", MISSING) for row in rows)]
    rows = [[row[at] for at in kept] for row in rows]
    left = [place for place, at in enumerate(kept) if at in (2, 3, 6)]
    return table([headers[at] for at in kept], rows, width, left=left, flexible=kept.index(2))


def _rows(drawing: Drawing, place: Place, indent: str) -> Iterator[list[str]]:
    """Return a row for each node; the nodes of a body follow, indented."""
    graph, level = drawing.graph, drawing.layout.levels[place]
    before: dict[int, list[int]] = {}
    for first, then in graph.edges.get(place, ()):
        before.setdefault(then, []).append(first)
    for layer, numbers in enumerate(level.by_layer(), 1):
        for number in numbers:
            node = graph.nodes[number]
            time, share = time_of(graph, node), percent(node.share) if node.share is not None else ""
            yield [f"{layer}" if number == numbers[0] else "", f"{number}", indent + shorten(model.title(node), 60),
                   model.detail(graph, node), time, share, _waits(before.get(number, []))]
            for body in graph.bodies_of(number):
                name = model.body_name(node, body)
                if name:
                    yield ["", "", f"{indent}  {name}:", "", "", "", ""]
                yield from _rows(drawing, body, (indent + ("   " if name else "  "))[:_DEEPEST])


def _waits(numbers: list[int]) -> str:
    return f"after {listed([*map(str, numbers)], _MOST_WAITED)}" if numbers else ""


def _summary(drawing: Drawing, width: int) -> str:
    graph = drawing.graph
    layers = drawing.layout.levels[TOP].by_layer()
    widest = max(map(len, layers))
    parts = [f"{counted(len(layers), 'layer')}, the widest of {counted(widest, 'node')}", "", _bands(drawing, width)]
    total: Counter[str] = Counter()
    number: Counter[str] = Counter()
    for node in graph.nodes:
        if not graph.bodies_of(node.number):
            number[model.title(node)] += 1
            total[model.title(node)] += node.total_ns or 0
    named = sorted(number, key=lambda name: (-total[name], -number[name], name))
    rows = [[clean(name), f"{number[name]:,}",
             duration(graph.by_launch(total[name] or None)),
             percent(total[name] / graph.total_ns) if graph.total_ns else MISSING] for name in named[:_MOST_NAMES]]
    parts += ["", table(["most time", "nodes", "a launch", "share"], rows, width)]
    if len(named) > _MOST_NAMES:
        parts.append(f"  and {counted(len(named) - _MOST_NAMES, 'more name')}")
    return "\n".join(parts)


def _bands(drawing: Drawing, width: int) -> str:
    graph = drawing.graph
    rows = [[f"{band.layers:,}", f"{len(band.numbers):,}", mostly(graph, band),
             duration(graph.by_launch(band.total_ns)), percent(band.share)] for band in group(drawing)]
    return table(["layers", "nodes", "mostly", "a launch", "share"], rows, width, left=(2,), flexible=2)


# A CUDA graph as text for Graphviz.

_SHAPES = {
    "round": "box", "slant": "parallelogram", "roof": "trapezium", "cut": "note", "pill": "ellipse", "stack": "folder",
    "hex": "hexagon", "drum": "cylinder",
}
_INDENT = "  "


def to_dot(recording: Recording, graph_id: int | None = None) -> str:
    """Return a graph in Graphviz's language, all of its nodes and edges with it; what is given is as of `drawing_of`.

    A child graph or conditional node is a node in a cluster with its bodies, each of which is a cluster too.
    """
    return dot(drawing_of(recording, graph_id).graph)


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
    """Return the nodes and edges of one body, nested bodies as clusters."""
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
                label = _quoted(model.body_name(node, body))
                first = graph.bodies[body][0]
                later += [
                    (f"n{number} -> n{first} [style=dotted, lhead=cluster_{number}_{body[1]}];", depth + 1),
                    (f'subgraph cluster_{number}_{body[1]} {{ label={label}; style="rounded,dashed"; color="#7d858f";',
                     depth + 1),
                    (body, depth + 2), ("}", depth + 1)]
            waiting += reversed([*later, ("}", depth)])


def _node(graph: Graph, node: Node) -> str:
    kind = kind_of(node.kind)
    lines = [model.title(node)[:model.LONGEST_NAME], model.detail(graph, node), time_of(graph, node)]
    label = "\n".join(line for line in lines if line)
    return f'n{node.number} [label={_quoted(label)}, shape={_SHAPES[kind.outline]}, color="{kind.color}"];'


def _quoted(text: str) -> str:
    """Return a quoted string of the DOT language, with backslashes escaped."""
    lines = [clean(line).replace("\\", "\\\\").replace('"', '\\"') for line in text.split("\n")]
    return '"' + "\\n".join(lines) + '"'
