"""What the live picture of a graph gets from Python: all there is, as deflated JSON; it asks for nothing later."""

from __future__ import annotations

import json
import zlib
from typing import Any

from kernelscope.analysis import graph_layout, graph_place
from kernelscope.analysis.graph_layout import Layout, Level, Spot
from kernelscope.analysis.graph_nodes import TOP, Graph
from kernelscope.renderers import graph_style
from kernelscope.renderers import graph_words as words
from kernelscope.renderers.base import clean
from kernelscope.renderers.graph_style import kind_of, outline
from kernelscope.renderers.graph_svg import texts


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
    first, *about = words.headline(graph).split(" · ")
    widths = {number: level.width for level in layout.levels.values() for number in level.spots}
    kinds = {node.kind for node in graph.nodes}
    shapes = {(graph.nodes[number].kind, width) for number, width in widths.items()}
    return {
        "title": first, "about": " · ".join(about),
        "notes": [*words.notes(graph, layout), *([notice] if notice else [])],
        "lengths": {
            "height": graph_layout.HEIGHT, "layer_gap": graph_layout.LAYER_GAP, "column_gap": graph_layout.COLUMN_GAP,
            "shelf_gap": graph_layout.SHELF_GAP, "lane": graph_layout.LANE, "head": graph_place.HEAD,
            "body_head": graph_place.BODY_HEAD, "inside": graph_place.INSIDE, "body_gap": graph_place.BODY_GAP,
            "turn": graph_place.TURN, "round": graph_place.ROUND,
        },
        "style": {
            "text_x": graph_style.TEXT_X, "name_y": graph_style.NAME_Y, "detail_y": graph_style.DETAIL_Y,
            "lone_y": graph_style.LONE_Y, "sign_x": graph_style.SIGN_X, "sign_y": graph_style.SIGN_Y,
            "size": graph_style.SIZE, "detail_size": graph_style.DETAIL_SIZE,
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
    title, detail = texts(graph, node, width) if width is not None else (clean(words.title(node))[:40], "")
    share = None if node.share is None else round(node.share, 5)
    # What no picture has room for is found in no search and needs no facts.
    known = words.facts(graph, node) if width is not None else []
    is_box = bool(graph.bodies_of(number))
    said = words.line(graph, node)[:words.LONGEST_NAME]
    return [node.kind, node.place[0], is_box, title, detail, words.time_of(graph, node), share, said, known]


def _level(graph: Graph, level: Level) -> dict[str, Any]:
    name = "" if level.place == TOP else words.body_name(graph.nodes[level.place[0]], level.place)
    return {
        "place": level.place, "name": name, "width": level.width, "shelves": level.shelves, "layers": level.layers,
        "lanes": level.lanes,
        "spots": [[number, *_spot(spot)] for number, spot in level.spots.items()],
        "lines": [[line.first, line.then, line.out, line.into, line.lane, line.is_backward,
                   [_spot(bend) for bend in line.bends]] for line in level.lines],
    }


def _spot(spot: Spot) -> list[float]:
    return [spot.column, spot.layer, spot.x]
