"""What the pictures and texts of a graph call its nodes, and what kinds of nodes look like."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kernelscope.units import counted, duration, percent, size
from kernelscope.views.base import clean, dims
from kernelscope.views.graph.layout import Layout
from kernelscope.views.graph.model import Graph, Node, Place

# What kinds of nodes look like in the picture of a graph: a color, an outline and a sign each, beside their word.
#
# Nodes bring their own ground and are drawn in white on it, lines and frames in a gray between: so that one
# picture is readable on a light and on a dark page. The widget's front end gets the same table.

#: Lines, frames and words beside nodes: readable on white and on black.
INK = "#7d858f"
FONT = "system-ui,-apple-system,'Segoe UI',sans-serif"
MONO = "ui-monospace,'SFMono-Regular',Menlo,Consolas,'DejaVu Sans Mono',monospace"
#: Where a node's text begins and its sign stands, from its left side and from its top.
TEXT_X, NAME_Y, DETAIL_Y = 37, 20, 34
#: Where a name stands that is alone.
LONE_Y = 28
SIGN_X, SIGN_Y = 12, 14
#: The advance of a letter of a node's name, which is monospaced; the size of other texts, and of a node's second line.
NAME_LETTER, SIZE, DETAIL_SIZE = 6.95, 11, 10.5


@dataclass(frozen=True)
class Kind:
    """How one kind of node is drawn.

    Attributes
    ----------
    word, plural : str
        What it is called.
    color : str
        Its ground; white on it has a contrast of 4.5 at least.
    outline : str
        One of the outlines that `outline` knows.
    sign : str
        A sign of 16 by 16 pixels, as an SVG path that is stroked.
    """

    word: str
    plural: str
    color: str
    outline: str
    sign: str


KINDS = {
    "kernel": Kind("kernel", "kernels", "#2d66b0", "round",
                   "M1.5 1.5h5v5h-5zM9.5 1.5h5v5h-5zM1.5 9.5h5v5h-5zM9.5 9.5h5v5h-5z"),
    "memcpy": Kind("memcpy", "memcpy nodes", "#b0501c", "slant",
                   "M2 5h11M10 2l3 3-3 3M14 11.5H3M6 8.5l-3 3 3 3"),
    "memset": Kind("memset", "memsets", "#86620f", "roof", "M2 3.5h12M2 8h12M2 12.5h12"),
    "host": Kind("host function", "host functions", "#7549a8", "cut", "M5.5 3L1.5 8l4 5M10.5 3l4 5-4 5"),
    "empty": Kind("empty", "empty nodes", "#626a75", "pill", "M8 3a5 5 0 1 0 .01 0z"),
    "event_record": Kind("event record", "event records", "#a53a68", "pill", "M4 15V2l8.5 3.5L4 9"),
    "event_wait": Kind("event wait", "event waits", "#8f3f86", "pill", "M4 2h8L4 14h8z"),
    "child": Kind("child graph", "child graphs", "#2f6777", "stack", "M1.5 1.5h13v13h-13zM5.5 5.5h5v5h-5z"),
    "if": Kind("if", "ifs", "#0b716a", "hex", "M8 1.2L14.8 8 8 14.8 1.2 8z"),
    "while": Kind("while", "whiles", "#1c7046", "hex", "M13.5 8.5A5.5 5.5 0 1 1 11.5 4M12 .8V4.4H8.4"),
    "switch": Kind("switch", "switches", "#4b6a10", "hex", "M8 1.5V6M8 6L2.5 13.5M8 6v8M8 6l5.5 7.5"),
    "mem_alloc": Kind("memory allocation", "memory allocations", "#a4414a", "drum", "M2 2h12v12H2zM8 5v6M5 8h6"),
    "mem_free": Kind("memory free", "memory frees", "#7d4b4b", "drum", "M2 2h12v12H2zM5 8h6"),
}
#: Whatever else there is, such as what a later driver calls by another name.
OTHER = Kind("other node", "other nodes", "#545c68", "round", "M3 8h.1M8 8h.1M13 8h.1")

_OUTLINES = {
    "round": lambda w, h: f"M9 0H{w - 9}Q{w} 0 {w} 9V{h - 9}Q{w} {h} {w - 9} {h}H9Q0 {h} 0 {h - 9}V9Q0 0 9 0z",
    "slant": lambda w, h: f"M13 0H{w - 3}Q{w} 0 {w - 1} 4L{w - 11} {h - 4}Q{w - 12} {h} {w - 16} {h}H3Q0 {h} 1 {h - 4}"
                          "L9 4Q10 0 13 0z",
    "roof": lambda w, h: f"M13 0H{w - 13}Q{w - 9} 0 {w - 8} 4L{w} {h - 4}Q{w} {h} {w - 4} {h}H4Q0 {h} 0 {h - 4}"
                         "L8 4Q9 0 13 0z",
    "cut": lambda w, h: f"M4 0H{w - 14}L{w} 14V{h - 4}Q{w} {h} {w - 4} {h}H4Q0 {h} 0 {h - 4}V4Q0 0 4 0z",
    "pill": lambda w, h: f"M{h / 2:g} 0H{w - h / 2:g}A{h / 2:g} {h / 2:g} 0 0 1 {w - h / 2:g} {h}H{h / 2:g}"
                         f"A{h / 2:g} {h / 2:g} 0 0 1 {h / 2:g} 0z",
    "stack": lambda w, h: f"M0 6Q0 0 6 0H{w - 11}Q{w - 5} 0 {w - 5} 5Q{w} 5 {w} 11V{h - 6}Q{w} {h} {w - 6} {h}H11"
                          f"Q5 {h} 5 {h - 5}Q0 {h - 5} 0 {h - 11}z",
    "hex": lambda w, h: f"M12 0H{w - 12}L{w} {h / 2:g} {w - 12} {h}H12L0 {h / 2:g}z",
    "drum": lambda w, h: f"M0 7Q0 0 {w / 2:g} 0 {w} 0 {w} 7V{h - 7}Q{w} {h} {w / 2:g} {h} 0 {h} 0 {h - 7}z",
}


def kind_of(name: str) -> Kind:
    """Return how a kind of node is drawn."""
    return KINDS.get(name, OTHER)


def outline(kind: Kind, width: float, height: float) -> str:
    """Return the outline of a node of that kind and size as an SVG path."""
    return _OUTLINES[kind.outline](round(width), round(height))


# What the pictures and texts of a graph call things: nodes, their details, bodies, and the graph itself.

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
    a_launch = graph.by_launch(node.total_ns)
    return "" if a_launch is None else duration(a_launch)


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
    lived = [f"{word} {_duration_rows(number)}" for word, number in (
        ("instantiated", graph.instantiations), ("launched", graph.launches)) if number]
    if lived:
        parts.append(", ".join(lived))
    if graph.launch_ns is not None:
        parts.append(f"{duration(graph.launch_ns)} of GPU time a launch")
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


def _duration_rows(number: int) -> str:
    return {1: "once", 2: "twice"}.get(number, f"{number:,} times")
