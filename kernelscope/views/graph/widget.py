"""A CUDA graph in a notebook: live, static for a saved notebook, and as a page of its own."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import traitlets

from kernelscope.recording.model import Recording
from kernelscope.units import counted
from kernelscope.views.base import clean, escape, write_text
from kernelscope.views.graph import layout as lengths
from kernelscope.views.graph import model, svg
from kernelscope.views.graph import text as graph_text
from kernelscope.views.graph.layout import Drawing, Level, Spot, drawing_of
from kernelscope.views.graph.model import TOP, Graph, Place, kind_of
from kernelscope.views.graph.svg import bands, draw, outline, texts
from kernelscope.views.html import FRAMED, document, image
from kernelscope.views.widget import View, checked_height, deflated, front_end


def pack(drawing: Drawing) -> bytes:
    """Return what the front end is sent, as a raw deflate stream of JSON."""
    data = json.dumps(message(drawing), separators=(",", ":"), ensure_ascii=False)
    # Half of a surrogate pair is no text that can be encoded; names that are shown are cleaned of them before.
    return deflated(data.encode("utf-8", "replace"))


def message(drawing: Drawing) -> dict[str, Any]:
    """Return what the front end is sent, as JSON values; every text in it is cleaned."""
    graph, layout = drawing.graph, drawing.layout
    first, *about = drawing.headline.split(" · ")
    widths = {number: level.width for level in layout.levels.values() for number in level.spots}
    kinds = {node.kind for node in graph.nodes}
    shapes = {(graph.nodes[number].kind, width) for number, width in widths.items()}
    return {
        "title": first, "about": " · ".join(about),
        "notes": [*drawing.notes, *([drawing.notice] if drawing.notice else [])],
        "lengths": {name: getattr(lengths, name.upper()) for name in (
            "height", "layer_gap", "column_gap", "shelf_gap", "lane", "head", "body_head", "inside", "body_gap", "turn",
            "round")},
        "style": {name: getattr(svg, name.upper()) for name in (
            "text_x", "name_y", "detail_y", "lone_y", "sign_x", "sign_y", "size", "detail_size")},
        "kinds": {name: {"word": kind_of(name).word, "plural": kind_of(name).plural, "color": kind_of(name).color,
                         "sign": kind_of(name).sign} for name in kinds},
        "outlines": {f"{kind}/{width}": outline(kind_of(kind), width, lengths.HEIGHT) for kind, width in shapes},
        "nodes": [_node(graph, number, widths.get(number)) for number in range(len(graph.nodes))],
        "levels": [_level(graph, level) for level in layout.levels.values()],
        "opened": sorted(layout.opened),
    }


def _node(graph: Graph, number: int, width: int | None) -> list[Any]:
    """Return a node as the front end reads it: kind, parent, texts, time, share and fields."""
    node = graph.nodes[number]
    title, detail = texts(graph, node, width) if width is not None else (clean(model.title(node))[:40], "")
    share = None if node.share is None else round(node.share, 5)
    # What no picture has room for is found in no search and needs no fields.
    known = model.fields(graph, node) if width is not None else []
    is_box = bool(graph.bodies_of(number))
    said = model.line(graph, node)[:model.LONGEST_NAME]
    return [node.kind, node.place[0], is_box, title, detail, model.time_of(graph, node), share, said, known]


def _level(graph: Graph, level: Level) -> dict[str, Any]:
    name = "" if level.place == TOP else model.body_name(graph.nodes[level.place[0]], level.place)
    return {
        "place": level.place, "name": name, "width": level.width, "shelves": level.shelves, "layers": level.layers,
        "lanes": level.lanes,
        "spots": [[number, *_spot(spot)] for number, spot in level.spots.items()],
        "lines": [[line.first, line.then, line.out, line.into, line.lane, line.is_backward,
                   [_spot(bend) for bend in line.bends]] for line in level.lines],
    }


def _spot(spot: Spot) -> list[float]:
    return [spot.column, spot.layer, spot.x]


# Without a kernel.

#: Nodes that are drawn in a saved notebook at most; of more there is one of groups of layers.
MOST_NODES = 400
#: Closed boxes that it brings along.
MOST_BOXES = 24

_WIDE = "main { max-width: 1700px; }"
_NO_SCRIPT = "A picture of the graph: the live one needs JavaScript, and a browser of 2023 or later."


def static_html(drawing: Drawing) -> str:
    """Return the graph as static HTML: images with their data inside, and closed boxes that open without a script.

    JupyterLab shows no inline SVG of a notebook that it does not trust, but such images and folded parts.
    """
    shown = [number for level in drawing.layout.levels.values() for number in level.spots if level.place[0] in
             (-1, *drawing.layout.opened)]
    if len(shown) > MOST_NODES:
        said = (f"A summary: all {counted(len(drawing.graph.nodes), 'node')} are in the live view, and in what "
                "to_html() and to_svg() write.")
        return f"<div>{image(bands(drawing), drawing.headline, 'max-width: none')}</div>{_soft(said)}"
    boxes = _closed(drawing)
    more = _soft(f"and {counted(len(boxes) - MOST_BOXES, 'more box', 'more boxes')}") if len(boxes) > MOST_BOXES else ""
    folded = "".join(_folded(drawing, number, places) for number, places in boxes[:MOST_BOXES])
    return f"{_scrolled(draw(drawing), drawing.headline)}{folded}{more}"


def page(drawing: Drawing, *, framed: bool = False) -> str:
    """Return the live view as one HTML document, which fetches nothing, and runs no script but its own.

    Parameters
    ----------
    drawing : Drawing
        The graph.
    framed : bool
        Leave no margins, for a frame in another page.
    """
    payload = base64.b64encode(pack(drawing)).decode("ascii")
    body = (f'<main><div id="kernelscope-graph"><noscript>{static_html(drawing)}<p>{escape(_NO_SCRIPT)}</p></noscript>'
            f'</div></main>\n<script type="application/octet-stream" id="kernelscope-payload">{payload}</script>\n')
    return document(f"{drawing.headline} · KernelScope", body, FRAMED if framed else _WIDE, front_end("graph_page"),
                    images="data:")


def _closed(drawing: Drawing) -> list[tuple[int, list[Place]]]:
    """Return the boxes that are drawn closed, with those of their bodies that can be drawn."""
    layout = drawing.layout
    inside: dict[int, list[Place]] = {}
    for place, level in layout.levels.items():
        if place[0] >= 0 and place[0] not in layout.opened and 0 < len(level.spots) <= MOST_NODES:
            inside.setdefault(place[0], []).append(place)
    return sorted(inside.items())


def _folded(drawing: Drawing, number: int, places: list[Place]) -> str:
    node = drawing.graph.nodes[number]
    line = model.line(drawing.graph, node)
    parts: list[str] = []
    for place in places:
        name = model.body_name(node, place)
        drawn = draw(drawing, (), at=place, foot=False)
        parts.append((_soft(name) if name else "") + _scrolled(drawn, f"{line} {name}"))
    summary = escape(f"node {number}: {line}")
    return f'<details style="margin: 4px 0"><summary>{summary}</summary>{"".join(parts)}</details>'


def _scrolled(svg: str, description: str) -> str:
    drawn = image(svg, description, "max-width: none")
    return f'<div style="max-height: 720px; max-width: 100%; overflow: auto">{drawn}</div>'


def _soft(text: str) -> str:
    return f'<div style="opacity: .75; font-size: 12px">{escape(text)}</div>'


class GraphWidget(View):
    """One graph of a recording as a widget.

    In a notebook it is live: it is moved and zoomed, boxes open, a node that is chosen stands out with what is before
    and after it. A saved notebook shows a static SVG. `str` of it is the same as text.

    Parameters
    ----------
    recording : Recording
        What holds the graph.
    graph_id : int, optional
        Its row in ``graphs``; the only one by default.
    height : int, optional
        The most that it takes of the page's height, in pixels.

    Attributes
    ----------
    graph_id : int
        The graph that is shown.
    height : int
        As given, or 0.

    Raises
    ------
    UnknownGraphError
        The recording has no such graph, or several and none was named; the message lists those that it has.
    ValueError
        The height is not positive.
    """

    bundle = "graph"
    _esm = front_end("widget")

    height = traitlets.Int(0, min=0).tag(sync=True)
    #: What a page calls it where it cannot be shown.
    what = traitlets.Unicode("the graph").tag(sync=True)

    def __init__(self, recording: Recording, graph_id: int | None = None, height: int | None = None) -> None:
        self._drawing = drawing_of(recording, graph_id)
        super().__init__(height=checked_height(height, "graph needs"))

    @property
    def graph_id(self) -> int:
        """Return the graph that is shown: its row in ``graphs``."""
        return self._drawing.graph.graph_id

    def to_dot(self) -> str:
        """Return the graph in Graphviz's language, bodies as clusters."""
        return graph_text.dot(self._drawing.graph)

    def to_svg(self, path: str | Path | None = None) -> str:
        """Return the graph as an SVG document, and write it where a path is given.

        Parameters
        ----------
        path : str or Path, optional
            Where to; ``.svg`` is added to a name without a suffix. An existing file is replaced.

        Raises
        ------
        RecordingFileError
            It cannot be written, or would take the place of a recording.
        """
        drawn = draw(self._drawing)
        if path is not None:
            write_text(path, ".svg", drawn)
        return drawn

    def to_html(self, path: str | Path) -> Path:
        """Write the live view as one HTML file that needs neither a server nor a kernel, and return its path.

        Parameters
        ----------
        path : str or Path
            Where to; ``.html`` is added to a name without a suffix. An existing file is replaced.

        Raises
        ------
        RecordingFileError
            It cannot be written, or would take the place of a recording.
        """
        return write_text(path, ".html", page(self._drawing))

    def data(self) -> tuple[dict[str, Any], bytes]:
        """Return the graph, packed."""
        return {"header": {"title": self._drawing.headline}}, pack(self._drawing)

    def static_version(self) -> tuple[str, str]:
        """Return the graph as text and as static HTML."""
        return str(self), static_html(self._drawing)

    def __repr__(self) -> str:
        return graph_text.text(self._drawing)

    def __str__(self) -> str:
        return repr(self)


def graph(recording: Recording, graph_id: int | None = None, height: int | None = None) -> GraphWidget:
    """Return a CUDA graph as a widget: its nodes in layers, with kernel, launch configuration and time.

    Parameters
    ----------
    recording : Recording
        What holds the graph.
    graph_id : int, optional
        Its row in ``graphs``; the only one by default.
    height : int, optional
        The most that it takes of the page's height, in pixels.

    Raises
    ------
    UnknownGraphError, ValueError
        As `GraphWidget`.
    """
    return GraphWidget(recording, graph_id, height)
