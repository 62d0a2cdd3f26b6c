"""A CUDA graph as SVG, of any number of nodes or small enough for a card; it runs no script and loads nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from kernelscope.recording.model import Recording
from kernelscope.units import counted, duration, percent
from kernelscope.views.base import EXACT_LETTERS, clean, drawn_width, escape, fitted, shorten
from kernelscope.views.graph import model
from kernelscope.views.graph.layout import (
    HEAD,
    Band,
    Drawing,
    Frame,
    Placed,
    drawing_of,
    group,
    mostly,
    place,
)
from kernelscope.views.graph.model import BOXES, TOP, Graph, Kind, Node, Place, kind_of, time_of

#: Nodes that a small picture shows; of more it shows groups of layers.
MOST_SMALL = 40
_SMALL_WIDTH, _SMALL_HEIGHT = 1100, 560
# At a smaller scale texts could not be read.
_READABLE = 0.6

#: Lines, frames and words beside nodes: a gray between, readable on white and on black.
INK = "#7d858f"
FONT = "system-ui,-apple-system,'Segoe UI',sans-serif"
MONO = "ui-monospace,'SFMono-Regular',Menlo,Consolas,'DejaVu Sans Mono',monospace"
#: Offsets of a node's text and of its sign, from its left side and from its top.
TEXT_X, NAME_Y, DETAIL_Y = 37, 20, 34
#: Offset of a name without a second line.
LONE_Y = 28
SIGN_X, SIGN_Y = 12, 14
#: The advance of a letter of a node's name, which is monospaced; the size of other texts, and of a node's second line.
NAME_LETTER, SIZE, DETAIL_SIZE = 6.95, 11, 10.5

_MARGIN = 14
_FOOT = 22


def graph_svg(recording: Recording, graph_id: int | None = None, opened: Iterable[int] | None = None) -> str:
    """Return a graph as an SVG document; names from user code are escaped in it.

    What is given and raised is as of `drawing_of`; `opened` are the numbers of the child graphs and conditional nodes
    that are open, by default all of a small graph.
    """
    return draw(drawing_of(recording, graph_id), opened)


def small(recording: Recording, graph_id: int | None = None) -> str:
    """Return a graph as an SVG document that fits into a card, of at most 1,100 by 560 pixels.

    A graph of more than `MOST_SMALL` nodes, or that could not be read in that space, is drawn with its boxes closed
    or as groups of its layers. What is given and raised is as of `drawing_of`.
    """
    drawing = drawing_of(recording, graph_id)
    most = (_SMALL_WIDTH, _SMALL_HEIGHT)
    for opened in (drawing.layout.opened, frozenset[int]()):
        placed = place(drawing.layout, opened)
        is_readable = placed.width * _READABLE <= most[0] and placed.height * _READABLE <= most[1]
        if len(placed.nodes) <= MOST_SMALL and is_readable:
            return draw(drawing, opened, foot=False, most=most)
    return bands(drawing)


def draw(
    drawing: Drawing, opened: Iterable[int] | None = None, *, at: Place = TOP, foot: bool = True,
    most: tuple[int, int] | None = None,
) -> str:
    """Return a graph as an SVG document.

    Parameters
    ----------
    drawing : Drawing
        What to draw.
    opened : iterable of int, optional
        Numbers of open boxes; those that the layout opens by default.
    at : tuple of int
        The level that is drawn: the graph's own nodes by default, or one body alone.
    foot : bool
        Whether a line below says what graph it is.
    most : tuple of int, optional
        The width and height that it is scaled down to where it is larger.
    """
    graph = drawing.graph
    placed = place(drawing.layout, opened, at)
    notice = [drawing.notice] if drawing.notice else []
    said = [drawing.headline, *drawing.notes, *notice] if foot else []
    if not placed.nodes:
        said = [drawing.headline + " · nothing to draw"]
    needed = max((drawn_width(line, SIZE) for line in said), default=0)
    width = max(placed.width, needed) + 2 * _MARGIN
    height = placed.height + 2 * _MARGIN + (_FOOT + 15 * (len(said) - 1) if said else 0)
    scale = min(1.0, *(limit / each for limit, each in zip(most, (width, height), strict=True))) if most else 1.0
    body = "".join(_drawn(graph, placed))
    lines = "".join(
        f"<text x='{_MARGIN}' y='{placed.height + 2 * _MARGIN + 12 + 15 * at:.0f}' fill='{INK}'>{escape(line)}</text>"
        for at, line in enumerate(said))
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{width * scale:.0f}' height='{height * scale:.0f}' "
        f"viewBox='0 0 {width:.0f} {height:.0f}' role='img' font-family=\"{FONT}\" font-size='{SIZE}' "
        f"{EXACT_LETTERS}>"
        f"<title>{escape(drawing.headline)}</title><g transform='translate({_MARGIN} {_MARGIN})'>{body}</g>"
        f"{lines}</svg>"
    )


def _drawn(graph: Graph, placed: Placed) -> Iterator[str]:
    """Draw boxes from the outside in, then lines, then nodes."""
    open_boxes = {body[0] for body in placed.bodies}
    for number, frame in placed.nodes.items():
        if number in open_boxes:
            yield from _box(graph, graph.nodes[number], frame)
            yield from (_body(graph.nodes[number], body, inside)
                        for body, inside in placed.bodies.items() if body[0] == number)
    yield from _lines(placed)
    for number, frame in placed.nodes.items():
        if number not in open_boxes:
            yield _node(graph, graph.nodes[number], frame)


def _lines(placed: Placed) -> Iterator[str]:
    """Draw all lines as one path, those that close a cycle as another, and arrowheads."""
    for is_backward, dashes in ((False, ""), (True, " stroke-dasharray='5 4'")):
        paths = [(line, path) for _, line, path in placed.lines if line.is_backward is is_backward]
        if paths:
            yield (f"<path d='{''.join(path for _, path in paths)}' fill='none' stroke='{INK}' stroke-width='1.4'"
                   f"{dashes}/>")
    heads: list[str] = []
    for _, line, _ in placed.lines:
        if line.is_backward:
            to = placed.nodes[line.then]
            heads.append(f"M{to.x + to.width / 2 + line.out:.1f} {to.y + to.height:.1f}l-4 7h8z")
        else:
            to = placed.nodes[line.then]
            heads.append(f"M{to.x + to.width / 2 + line.into:.1f} {to.y:.1f}l-4 -7h8z")
    if heads:
        yield f"<path d='{''.join(heads)}' fill='{INK}'/>"


def _node(graph: Graph, node: Node, frame: Frame) -> str:
    kind = kind_of(node.kind)
    width, height = frame.width, frame.height
    time = time_of(graph, node)
    is_box = node.kind in BOXES and bool(graph.bodies_of(node.number))
    name, said = texts(graph, node, width)
    aside = (f"<text x='{width - 13:g}' y='{DETAIL_Y}' text-anchor='end' font-size='{DETAIL_SIZE}'>{escape(time)}"
             "</text>" if time else "")
    below = (f"<text x='{TEXT_X}' y='{DETAIL_Y}' font-size='{DETAIL_SIZE}' fill-opacity='.85'>{escape(said)}</text>"
             if said else "")
    arrow = f"<path d='M{width - 19:g} 10.5l5 4.5-5 4.5z'/>" if is_box else ""
    return (
        f"<g transform='translate({frame.x:.1f} {frame.y:.1f})' fill='#fff'>"
        f"<path d='{outline(kind, width, height)}' fill='{kind.color}'/>"
        f"<path d='{kind.sign}' transform='translate({SIGN_X} {SIGN_Y})' fill='none' stroke='#fff' stroke-width='1.5' "
        f"stroke-linejoin='round' stroke-linecap='round'/>"
        f"<text x='{TEXT_X}' y='{NAME_Y if said or time else LONE_Y}' font-family=\"{MONO}\" font-size='11.5' "
        f"font-weight='600'>{escape(name)}</text>"
        f"{below}{aside}{arrow}{_share(node, width, height)}</g>"
    )


def texts(graph: Graph, node: Node, width: float) -> tuple[str, str]:
    """Return the two lines of a node of that width, each as much of it as fits; they are cleaned and not escaped."""
    room = width - TEXT_X - (24 if graph.bodies_of(node.number) else 10)
    left = width - TEXT_X - 18 - drawn_width(time_of(graph, node), DETAIL_SIZE)
    return (shorten(clean(model.title(node)), int(room / NAME_LETTER)),
            fitted(model.detail(graph, node), left, DETAIL_SIZE))


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


def outline(kind: Kind, width: float, height: float) -> str:
    """Return the outline of a node of that kind and size as an SVG path."""
    return _OUTLINES[kind.outline](round(width), round(height))


def _share(node: Node, width: float, height: float) -> str:
    """Draw a node's share of the graph's time as a bar at its bottom."""
    if node.share is None:
        return ""
    whole = width - TEXT_X - 13
    return (f"<path d='M{TEXT_X} {height - 7:g}h{whole:g}' stroke='#000' stroke-opacity='.28' stroke-width='3'/>"
            f"<path d='M{TEXT_X} {height - 7:g}h{max(whole * min(node.share, 1.0), 1):.1f}' stroke='#fff' "
            "stroke-width='3'/>")


def _box(graph: Graph, node: Node, frame: Frame) -> Iterator[str]:
    kind = kind_of(node.kind)
    time = time_of(graph, node)
    said = fitted(model.line(graph, node), frame.width - TEXT_X - 40 - drawn_width(time, SIZE), SIZE, bold=True)
    x, y, width, height = frame.x, frame.y, frame.width, frame.height
    yield (
        f"<g transform='translate({x:.1f} {y:.1f})'>"
        f"<rect width='{width:.1f}' height='{height:.1f}' rx='10' fill='{kind.color}' fill-opacity='.1' "
        f"stroke='{kind.color}' stroke-width='1.5'/>"
        f"<path d='M0 10Q0 0 10 0H{width - 10:.1f}Q{width:.1f} 0 {width:.1f} 10V{HEAD - 8}H0z' fill='{kind.color}'/>"
        f"<path d='{kind.sign}' transform='translate(11 5)' fill='none' stroke='#fff' stroke-width='1.5' "
        "stroke-linejoin='round' stroke-linecap='round'/>"
        f"<text x='{TEXT_X}' y='17.5' fill='#fff' font-weight='600'>{escape(said)}</text>"
        f"<text x='{width - 28:.1f}' y='17.5' fill='#fff' text-anchor='end'>{escape(time)}</text>"
        f"<path d='M{width - 21:.1f} 10.5h9l-4.5 5z' fill='#fff'/></g>"
    )


def _body(node: Node, at: Place, frame: Frame) -> str:
    name = model.body_name(node, at)
    label = f"<text x='{frame.x + 9:.1f}' y='{frame.y + 14:.1f}' fill='{INK}'>{escape(name)}</text>" if name else ""
    return (f"<rect x='{frame.x:.1f}' y='{frame.y:.1f}' width='{frame.width:.1f}' height='{frame.height:.1f}' rx='7' "
            f"fill='none' stroke='{INK}' stroke-opacity='.5' stroke-dasharray='3 3'/>{label}")


# A large graph as groups of its layers.

_WIDTH, _HEIGHT, _STEP = 720, 46, 62
_TOP = 26


def bands(drawing: Drawing) -> str:
    """Return a graph as groups of layers, as an SVG document."""
    graph, made, notes = drawing.graph, group(drawing), drawing.notes
    height = _TOP + len(made) * _STEP + 18 * len(notes)
    body = "".join(piece for at, band in enumerate(made) for piece in _drawn_band(graph, band, _TOP + at * _STEP, at))
    said = "".join(f"<text x='1' y='{_TOP + len(made) * _STEP + 18 * at:g}'>{escape(note)}</text>"
                   for at, note in enumerate(notes))
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{_WIDTH}' height='{height}' viewBox='0 0 {_WIDTH} {height}' "
        f"role='img' font-family=\"{FONT}\" font-size='{SIZE}' fill='{INK}' {EXACT_LETTERS}>"
        f"<title>{escape(drawing.headline)}</title>"
        f"<text x='1' y='13'>{escape(fitted(model.kinds(graph), _WIDTH - 1, SIZE))}</text>{body}{said}</svg>"
    )


def _drawn_band(graph: Graph, band: Band, y: int, at: int) -> Iterator[str]:
    if at:
        x = _WIDTH / 2
        yield (f"<path d='M{x:g} {y - _STEP + _HEIGHT}v{_STEP - _HEIGHT - 6}' stroke='{INK}' stroke-width='1.4'/>"
               f"<path d='M{x:g} {y}l-4 -7h8z'/>")
    size = f"{counted(len(band.numbers), 'node')} in {counted(band.layers, 'layer')}"
    a_launch = graph.by_launch(band.total_ns)
    cost = "" if a_launch is None else f"{duration(a_launch)} · {percent(band.share)}"
    room = _WIDTH - 44 - drawn_width(size, SIZE, bold=True) - drawn_width(cost, SIZE)
    yield (
        f"<rect x='.75' y='{y + .75}' width='{_WIDTH - 1.5}' height='{_HEIGHT - 1.5}' rx='8' fill='{INK}' "
        f"fill-opacity='.08' stroke='{INK}' stroke-opacity='.6'/>"
        f"<text x='12' y='{y + 19}'><tspan font-weight='600'>{size}</tspan><tspan dx='10'>"
        f"{escape(fitted(mostly(graph, band), room, SIZE))}</tspan></text>"
        f"<text x='{_WIDTH - 12}' y='{y + 19}' text-anchor='end'>{escape(cost)}</text>"
    )
    kinds = Counter(kind_of(graph.nodes[number].kind).color for number in band.numbers)
    x, scale = 12.0, (_WIDTH - 24) / len(band.numbers)
    for color, count in kinds.most_common():
        yield f"<rect x='{x:.1f}' y='{y + 29}' width='{max(count * scale - 1, 0.5):.1f}' height='7' fill='{color}'/>"
        x += count * scale
