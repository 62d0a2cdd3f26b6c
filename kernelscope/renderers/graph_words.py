"""What the pictures and texts of a graph call things: nodes, their details, bodies, and the graph itself."""

from __future__ import annotations

import re

from kernelscope.analysis.graph_layout import Layout
from kernelscope.analysis.graph_nodes import Graph, Node, Place
from kernelscope.analysis.units import counted, duration, percent, size
from kernelscope.renderers.base import clean, dims
from kernelscope.renderers.graph_style import kind_of

_MOST_KINDS = 5
#: Names are untrusted, and as long as their kernel's template arguments are.
LONGEST_NAME = 400
_SHORT = 18
_TOKENS = re.compile(r"[<>()]|[^<>()]+")


def title(node: Node) -> str:
    """Return what a node is called first of all: the short name of a kernel, a copy's direction, or its kind."""
    name = short_name(node.name)
    if node.kind == "memcpy":
        return f"copy {name}".strip()
    return name or kind_of(node.kind).word


def detail(graph: Graph, node: Node) -> str:
    """Return a node's kind with what matters of it: the launch configuration, bytes, or how many nodes are in it.

    The kind is left out where it is the title.
    """
    word = kind_of(node.kind).word
    return " · ".join(part for part in ("" if title(node) == word else word, _measure(graph, node)) if part)


def line(graph: Graph, node: Node) -> str:
    """Return a node's title and detail in one line; the title is cleaned."""
    return " · ".join(part for part in (clean(title(node)), detail(graph, node)) if part)


def configuration(node: Node) -> str:
    """Return a kernel's grid and block as in a launch, ``[4, 128]``; empty where they are not known."""
    if node.griddim is None or node.blockdim is None:
        return ""
    return f"[{dims(node.griddim)}, {dims(node.blockdim)}]"


def time_of(graph: Graph, node: Node) -> str:
    """Return the median of a node's time; of a node with bodies what they took a launch; empty where not recorded."""
    if node.execute_ns is not None:
        return duration(node.execute_ns)
    if node.total_ns is not None and graph.launches:
        return duration(node.total_ns / graph.launches)
    return ""


def facts(graph: Graph, node: Node) -> list[tuple[str, str]]:
    """Return what there is to know of a node, as pairs of a label and a text; names are cleaned."""
    inside = sum(len(graph.bodies[place]) for place in graph.bodies_of(node.number))
    name = clean(node.name[:LONGEST_NAME]) + ("…" if len(node.name) > LONGEST_NAME else "")
    # Where the title says it in full, once is enough.
    is_said = node.kind == "memcpy" or (name == title(node) and len(name) <= _SHORT)
    found: list[tuple[str, str | None]] = [
        ("node", f"{node.number}, {kind_of(node.kind).word}"),
        ("name", None if is_said else name),
        ("grid", f"{dims(node.griddim)} blocks" if node.griddim else None),
        ("block", f"{dims(node.blockdim)} threads" if node.blockdim else None),
        ("cluster", f"{dims(node.cluster)} blocks" if node.cluster else None),
        ("shared", size(node.sharedmem_bytes) if node.sharedmem_bytes else None),
        ("bytes", None if node.size_bytes is None else size(node.size_bytes)),
        ("inside", counted(inside, "node") if inside else None),
        ("time", _time_sentence(graph, node)),
        ("share", f"{percent(node.share)} of the graph's GPU time" if node.share is not None else None),
    ]
    return [(label, text) for label, text in found if text]


def body_name(node: Node, place: Place) -> str:
    """Return what one of a node's bodies is called; empty for a child graph, which has one."""
    if node.kind == "if":
        return ("then", "else")[place[1]] if place[1] < 2 else f"body {place[1]}"
    if node.kind == "switch":
        return f"case {place[1]}"
    return "" if node.kind == "child" else "body" if place[1] == 0 else f"body {place[1]}"


def kinds(graph: Graph, numbers: tuple[int, ...] | None = None) -> str:
    """Return how many nodes of which kind there are, the most frequent first: ``3 kernels, 1 memcpy``."""
    nodes = graph.nodes if numbers is None else [graph.nodes[number] for number in numbers]
    found: dict[str, int] = {}
    for node in nodes:
        word = kind_of(node.kind).word
        found[word] = found.get(word, 0) + 1
    plurals = {kind_of(node.kind).word: kind_of(node.kind).plural for node in nodes}
    ordered = sorted(found.items(), key=lambda item: -item[1])
    said = [counted(number, word, plurals[word]) for word, number in ordered[:_MOST_KINDS]]
    more = sum(number for _, number in ordered[_MOST_KINDS:])
    return ", ".join([*said, *([f"{more:,} others"] if more else [])])


def headline(graph: Graph) -> str:
    """Return the graph in one line."""
    parts = [f"graph {graph.graph_id}", f"{counted(len(graph.nodes), 'node')}, {counted(graph.edge_count, 'edge')}"]
    lived = [f"{word} {_times(number)}" for word, number in (
        ("instantiated", graph.instantiations), ("launched", graph.launches)) if number]
    if lived:
        parts.append(", ".join(lived))
    if graph.total_ns is not None and graph.launches:
        parts.append(f"{duration(graph.total_ns / graph.launches)} of GPU time a launch")
    return " · ".join(parts)


def notes(graph: Graph, layout: Layout) -> list[str]:
    """Return what the picture lacks, and what is strange in the recording."""
    edges = sum(level.left_out_edges for level in layout.levels.values())
    backward = sum(line.is_backward for level in layout.levels.values() for line in level.lines)
    found = [
        f"{counted(layout.left_out, 'node')} of {len(graph.nodes):,} left out" if layout.left_out else "",
        f"{counted(edges, 'edge')} of {graph.edge_count:,} left out" if edges else "",
        f"{counted(backward, 'edge closes', 'edges close')} a cycle (dashed): no CUDA graph has one"
        if backward else "",
        f"{counted(graph.left_out, 'edge leads', 'edges lead')} out of a body or to its own node: left out"
        if graph.left_out else "",
    ]
    return [each for each in found if each]


def short_name(name: str) -> str:
    """Return a kernel's name without what comes before its last part, its template arguments and its parameters."""
    held = " ".join(clean(name[:20_000]).split())
    if "<locals>." in held:
        return held.rpartition("<locals>.")[2]
    if "::" not in held and "(" not in held and not held.startswith("void "):
        return held
    kept, depth = "", 0
    for token in _TOKENS.findall(held.replace("(anonymous namespace)::", "")):
        if token in "<(":
            depth += 1
        elif token in ">)":
            depth = max(depth - 1, 0)
        elif not depth:
            kept += token
    return kept.strip().rpartition(" ")[2].rpartition("::")[2] or held


def _measure(graph: Graph, node: Node) -> str:
    inside = sum(len(graph.bodies[place]) for place in graph.bodies_of(node.number))
    if inside:
        return counted(inside, "node")
    if node.kind == "kernel":
        return configuration(node)
    return "" if node.size_bytes is None else size(node.size_bytes)


def _time_sentence(graph: Graph, node: Node) -> str | None:
    if node.execute_ns is not None:
        return f"{duration(node.execute_ns)}, the median of {counted(node.runs, 'run')}"
    said = time_of(graph, node)
    return f"{said} a launch, all that is inside together" if said else None


def _times(number: int) -> str:
    return {1: "once", 2: "twice"}.get(number, f"{number:,} times")
