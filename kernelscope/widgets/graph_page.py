"""The picture of a graph without a kernel: static HTML for a saved notebook, and a page of its own that is live."""

from __future__ import annotations

import base64

from kernelscope.analysis.graph_layout import Layout
from kernelscope.analysis.graph_nodes import Graph, Place
from kernelscope.analysis.units import counted
from kernelscope.renderers import graph_words as words
from kernelscope.renderers.base import escape
from kernelscope.renderers.graph_bands import bands
from kernelscope.renderers.graph_svg import draw
from kernelscope.renderers.style import PAGE
from kernelscope.widgets.frontend import front_end
from kernelscope.widgets.graph_wire import pack

#: Nodes that a picture in a saved notebook has at most; of more there is one of groups of layers.
MOST_NODES = 400
#: Closed boxes that such a picture brings along, and nodes in one of them.
MOST_BOXES = 24

_START = """
const text = document.getElementById("kernelscope-payload").textContent.trim();
const payload = Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
window.kernelscope = mount(document.getElementById("kernelscope-graph"), {
  payload, height: Math.max(320, window.innerHeight - 150),
});
"""
_WIDE = "main { max-width: 1700px; }"
_NO_SCRIPT = "A picture of the graph: the live one needs JavaScript, and a browser of 2023 or later."


def twin_html(graph: Graph, layout: Layout, notice: str = "") -> str:
    """Return the static picture as HTML: images with their data inside, and closed boxes that open without a script.

    JupyterLab shows no inline SVG of a notebook that it does not trust, but such images and folded parts.
    """
    shown = [number for level in layout.levels.values() for number in level.spots if level.place[0] in
             (-1, *layout.opened)]
    if len(shown) > MOST_NODES:
        said = (f"A summary: the picture of {counted(len(graph.nodes), 'node')} is in the live view, and in what "
                "to_html() and to_svg() write.")
        return f'<div>{_image(bands(graph, layout), words.headline(graph))}</div>{_soft(said)}'
    picture = draw(graph, layout, notice=notice)
    boxes = _closed(graph, layout)
    more = _soft(f"and {counted(len(boxes) - MOST_BOXES, 'more box', 'more boxes')}") if len(boxes) > MOST_BOXES else ""
    folded = "".join(_folded(graph, layout, number, places) for number, places in boxes[:MOST_BOXES])
    return f"{_scrolled(_image(picture, words.headline(graph)))}{folded}{more}"


def page(graph: Graph, layout: Layout, notice: str = "") -> str:
    """Return the live picture as one HTML document.

    It fetches nothing: its content security policy forbids every connection, and every script but its own.
    """
    # Late, so that a notebook that shows a graph does not load what packs timelines.
    from kernelscope.widgets.page import hash_of

    script = front_end("graph") + _START
    policy = (f"default-src 'none'; script-src {hash_of(script)}; style-src 'unsafe-inline'; img-src data:; "
              "base-uri 'none'; form-action 'none'")
    payload = base64.b64encode(pack(graph, layout, notice)).decode("ascii")
    title = escape(words.headline(graph))
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title} · KernelScope</title><style>{PAGE}{_WIDE}</style></head>\n"
        f'<body><main><div id="kernelscope-graph"><noscript>{twin_html(graph, layout, notice)}<p>{escape(_NO_SCRIPT)}'
        f'</p></noscript></div></main>\n<script type="application/octet-stream" id="kernelscope-payload">{payload}'
        f'</script>\n<script type="module">{script}</script></body></html>\n'
    )


def _closed(graph: Graph, layout: Layout) -> list[tuple[int, list[Place]]]:
    """Boxes that the picture shows closed, with the bodies that can be drawn."""
    inside: dict[int, list[Place]] = {}
    for place, level in layout.levels.items():
        if place[0] >= 0 and place[0] not in layout.opened and 0 < len(level.spots) <= MOST_NODES:
            inside.setdefault(place[0], []).append(place)
    return sorted(inside.items())


def _folded(graph: Graph, layout: Layout, number: int, places: list[Place]) -> str:
    node = graph.nodes[number]
    parts: list[str] = []
    for place in places:
        name = words.body_name(node, place)
        drawn = draw(graph, layout, (), at=place, foot=False)
        parts.append((_soft(name) if name else "") + _scrolled(_image(drawn, f"{words.line(graph, node)} {name}")))
    summary = escape(f"node {number}: {words.line(graph, node)}")
    return f'<details style="margin: 4px 0"><summary>{summary}</summary>{"".join(parts)}</details>'


def _image(drawn: str, said: str) -> str:
    data = base64.b64encode(drawn.encode("utf-8", "replace")).decode("ascii")
    return f'<img alt="{escape(said)}" style="max-width: none" src="data:image/svg+xml;base64,{data}">'


def _scrolled(inside: str) -> str:
    return f'<div style="max-height: 720px; max-width: 100%; overflow: auto">{inside}</div>'


def _soft(text: str) -> str:
    return f'<div style="opacity: .75; font-size: 12px">{escape(text)}</div>'
