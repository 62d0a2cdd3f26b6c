"""A CUDA graph as text: its layers with what each node waits for, or of a large graph a summary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from kernelscope.analysis.graph_layout import Layout, Level, lay_out
from kernelscope.analysis.graph_nodes import TOP, Graph, Place, read_graph
from kernelscope.analysis.units import MISSING, counted, duration, percent
from kernelscope.recording.model import Recording
from kernelscope.recording.privacy import shareable
from kernelscope.renderers import graph_words as words
from kernelscope.renderers.base import Makes, clean, shorten
from kernelscope.renderers.graph_bands import group, mostly
from kernelscope.renderers.layout import columns, table, with_notice, wrap

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
    head = [wrap(words.headline(graph), width, hanging=2)]
    if graph.nodes:
        head.append(wrap(words.kinds(graph), width, hanging=2))
        head += [wrap(note, width, hanging=2) for note in words.notes(graph, layout)]
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
            time, share = words.time_of(graph, node), percent(node.share) if node.share is not None else ""
            yield [f"{layer}" if number == numbers[0] else "", f"{number}", indent + shorten(words.title(node), 60),
                   words.detail(graph, node), time, share, _waits(before.get(number, []))]
            for body in graph.bodies_of(number):
                name = words.body_name(node, body)
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
            number[words.title(node)] += 1
            total[words.title(node)] += node.total_ns or 0
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
