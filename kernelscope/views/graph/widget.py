"""The picture of a CUDA graph in a notebook: live, static for a saved notebook, and as a page."""

from __future__ import annotations

import base64
import json
import zlib
from pathlib import Path
from typing import Any, cast

import traitlets
from IPython.core.getipython import get_ipython

from kernelscope.recording.model import Recording
from kernelscope.recording.redact import shareable
from kernelscope.units import counted
from kernelscope.views.base import checked, clean, escape, whole_file
from kernelscope.views.graph import labels, svg
from kernelscope.views.graph import layout as graph_layout
from kernelscope.views.graph import text as graph_text
from kernelscope.views.graph.labels import kind_of, outline
from kernelscope.views.graph.layout import Layout, Level, Spot, lay_out
from kernelscope.views.graph.model import TOP, Graph, Place, read_graph
from kernelscope.views.graph.svg import bands, draw, image, texts
from kernelscope.views.html import PAGE
from kernelscope.views.widget import View, front_end


def pack(graph: Graph, layout: Layout, notice: str = "") -> bytes:
    """Return what the front end is given, as a raw deflate stream of JSON.

    Parameters
    ----------
    graph, layout : Graph, Layout
        What it shows.
    notice : str
        What every output of the recording must say.
    """
    packer = zlib.compressobj(1, wbits=-zlib.MAX_WBITS)
    data = json.dumps(facts(graph, layout, notice), separators=(",", ":"), ensure_ascii=False)
    # Half of a surrogate pair is no text that can be encoded; names that are shown are cleaned of them before.
    return packer.compress(data.encode("utf-8", "replace")) + packer.flush()


def facts(graph: Graph, layout: Layout, notice: str = "") -> dict[str, Any]:
    """Return what the front end is given, as JSON values; every text in it is cleaned."""
    first, *about = labels.headline(graph).split(" · ")
    widths = {number: level.width for level in layout.levels.values() for number in level.spots}
    kinds = {node.kind for node in graph.nodes}
    shapes = {(graph.nodes[number].kind, width) for number, width in widths.items()}
    return {
        "title": first, "about": " · ".join(about),
        "notes": [*labels.notes(graph, layout), *([notice] if notice else [])],
        "lengths": {
            "height": graph_layout.HEIGHT, "layer_gap": graph_layout.LAYER_GAP, "column_gap": graph_layout.COLUMN_GAP,
            "shelf_gap": graph_layout.SHELF_GAP, "lane": graph_layout.LANE, "head": graph_layout.HEAD,
            "body_head": graph_layout.BODY_HEAD, "inside": graph_layout.INSIDE, "body_gap": graph_layout.BODY_GAP,
            "turn": graph_layout.TURN, "round": graph_layout.ROUND,
        },
        "style": {
            "text_x": labels.TEXT_X, "name_y": labels.NAME_Y, "detail_y": labels.DETAIL_Y,
            "lone_y": labels.LONE_Y, "sign_x": labels.SIGN_X, "sign_y": labels.SIGN_Y,
            "size": labels.SIZE, "detail_size": labels.DETAIL_SIZE,
        },
        "kinds": {name: {"word": kind_of(name).word, "plural": kind_of(name).plural, "color": kind_of(name).color,
                         "sign": kind_of(name).sign} for name in kinds},
        "outlines": {f"{kind}/{width}": outline(kind_of(kind), width, graph_layout.HEIGHT) for kind, width in shapes},
        "nodes": [_node(graph, number, widths.get(number)) for number in range(len(graph.nodes))],
        "levels": [_level(graph, level) for level in layout.levels.values()],
        "opened": sorted(layout.opened),
    }


def _node(graph: Graph, number: int, width: int | None) -> list[Any]:
    """Kind, around, whether it has bodies, both lines, time, share, the one line of an open box, and all facts."""
    node = graph.nodes[number]
    title, detail = texts(graph, node, width) if width is not None else (clean(labels.title(node))[:40], "")
    share = None if node.share is None else round(node.share, 5)
    # What no picture has room for is found in no search and needs no facts.
    known = labels.facts(graph, node) if width is not None else []
    is_box = bool(graph.bodies_of(number))
    said = labels.line(graph, node)[:labels.LONGEST_NAME]
    return [node.kind, node.place[0], is_box, title, detail, labels.time_of(graph, node), share, said, known]


def _level(graph: Graph, level: Level) -> dict[str, Any]:
    name = "" if level.place == TOP else labels.body_name(graph.nodes[level.place[0]], level.place)
    return {
        "place": level.place, "name": name, "width": level.width, "shelves": level.shelves, "layers": level.layers,
        "lanes": level.lanes,
        "spots": [[number, *_spot(spot)] for number, spot in level.spots.items()],
        "lines": [[line.first, line.then, line.out, line.into, line.lane, line.is_backward,
                   [_spot(bend) for bend in line.bends]] for line in level.lines],
    }


def _spot(spot: Spot) -> list[float]:
    return [spot.column, spot.layer, spot.x]


# The picture of a graph without a kernel: static HTML for a saved notebook, and a page of its own that is live.

#: Nodes that a picture in a saved notebook has at most; of more there is one of groups of layers.
MOST_NODES = 400
#: Closed boxes that such a picture brings along, and nodes in one of them.
MOST_BOXES = 24

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
        return f'<div>{image(bands(graph, layout), labels.headline(graph))}</div>{_soft(said)}'
    picture = draw(graph, layout, notice=notice)
    boxes = _closed(graph, layout)
    more = _soft(f"and {counted(len(boxes) - MOST_BOXES, 'more box', 'more boxes')}") if len(boxes) > MOST_BOXES else ""
    folded = "".join(_folded(graph, layout, number, places) for number, places in boxes[:MOST_BOXES])
    return f"{_scrolled(image(picture, labels.headline(graph)))}{folded}{more}"


def page(graph: Graph, layout: Layout, notice: str = "") -> str:
    """Return the live picture as one HTML document.

    It fetches nothing: its content security policy forbids every connection, and every script but its own.
    """
    # Late, so that a notebook that shows a graph does not load what packs timelines.
    from kernelscope.views.page import hash_of

    script = front_end("graph_page")
    policy = (f"default-src 'none'; script-src {hash_of(script)}; style-src 'unsafe-inline'; img-src data:; "
              "base-uri 'none'; form-action 'none'")
    payload = base64.b64encode(pack(graph, layout, notice)).decode("ascii")
    title = escape(labels.headline(graph))
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
        name = labels.body_name(node, place)
        drawn = draw(graph, layout, (), at=place, foot=False)
        parts.append((_soft(name) if name else "") + _scrolled(image(drawn, f"{labels.line(graph, node)} {name}")))
    summary = escape(f"node {number}: {labels.line(graph, node)}")
    return f'<details style="margin: 4px 0"><summary>{summary}</summary>{"".join(parts)}</details>'


def _scrolled(inside: str) -> str:
    return f'<div style="max-height: 720px; max-width: 100%; overflow: auto">{inside}</div>'


def _soft(text: str) -> str:
    return f'<div style="opacity: .75; font-size: 12px">{escape(text)}</div>'


# The picture of a CUDA graph in a notebook: live, with boxes that open, and a static picture for a saved notebook.

class GraphWidget(View):
    """The picture of one graph of a recording as a widget.

    In a notebook it is live: it is moved and zoomed, boxes open, a node that is chosen stands out with what is before
    and after it. A saved notebook shows a static picture. `str` of it is the same as text.

    Parameters
    ----------
    recording : Recording
        What holds the graph.
    graph_id : int, optional
        Its row in ``graphs``; the only one by default.
    height : int, optional
        The most that the picture takes of the page's height, in pixels.

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
        if height is not None and height <= 0:
            raise ValueError(f"height {height} is no height: give pixels, or None for as many as the graph needs")
        self._graph = read_graph(shareable(recording), graph_id)
        self._layout = lay_out(self._graph)
        self._notice = recording.notice
        super().__init__(height=height or 0)
        self.on_msg(_answer)

    @property
    def graph_id(self) -> int:
        """The graph that is shown: its row in ``graphs``."""
        return self._graph.graph_id

    def to_dot(self) -> str:
        """Return the graph in Graphviz's language, bodies as clusters."""
        return graph_text.dot(self._graph)

    def to_svg(self, path: str | Path | None = None) -> str:
        """Return the picture as an SVG document, and write it where a path is given.

        Parameters
        ----------
        path : str or Path, optional
            Where to; ``.svg`` is added to a name without a suffix. An existing file is replaced.

        Raises
        ------
        RecordingFileError
            It cannot be written, or would take the place of a recording.
        """
        drawn = svg.draw(self._graph, self._layout, notice=self._notice)
        if path is not None:
            _write(path, svg.MAKES.suffix, drawn)
        return drawn

    def to_html(self, path: str | Path) -> Path:
        """Write the live picture as one HTML file that needs neither a server nor a kernel, and return its path.

        Parameters
        ----------
        path : str or Path
            Where to; ``.html`` is added to a name without a suffix. An existing file is replaced.

        Raises
        ------
        RecordingFileError
            It cannot be written, or would take the place of a recording.
        """
        return _write(path, ".html", page(self._graph, self._layout, self._notice))

    def send_data(self) -> None:
        """Send what is shown; a problem is sent as what it says."""
        try:
            packed = pack(self._graph, self._layout, self._notice)
        except Exception as problem:
            self.send({"kind": "error", "message": f"{type(problem).__name__}: {problem}"})
        else:
            self.send({"kind": "data", "header": {"title": labels.headline(self._graph)}}, [packed])

    def twin(self) -> tuple[str, str]:
        """Return the graph as text, and its picture as static HTML."""
        return str(self), twin_html(self._graph, self._layout, self._notice)

    def __repr__(self) -> str:
        return graph_text.text(self._graph, self._layout, notice=self._notice)

    def __str__(self) -> str:
        return repr(self)

    def _ipython_display_(self) -> None:
        shell = get_ipython()
        if shell is not None and "text/html" not in getattr(shell.display_formatter, "active_types", ()):
            print(str(self))
            return
        self.show()


def graph(recording: Recording, graph_id: int | None = None, height: int | None = None) -> GraphWidget:
    """Return the picture of a CUDA graph: its nodes in layers, with kernel, launch configuration and time.

    Parameters
    ----------
    recording : Recording
        What holds the graph.
    graph_id : int, optional
        Its row in ``graphs``; the only one by default.
    height : int, optional
        The most that the picture takes of the page's height, in pixels.

    Raises
    ------
    UnknownGraphError
        The recording has no such graph, or several and none was named; the message lists those that it has.
    ValueError
        The height is not positive.
    """
    return GraphWidget(recording, graph_id, height)


def _answer(widget: GraphWidget, content: object, buffers: object) -> None:
    if isinstance(content, dict) and cast("dict[str, object]", content).get("kind") == "ask":
        widget.send_data()


def _write(path: str | Path, suffix: str, text: str) -> Path:
    target = checked(path)
    if not target.suffix:
        target = target.with_suffix(suffix)
    with whole_file(target) as file:
        file.write(text.encode("utf-8"))
    return target
