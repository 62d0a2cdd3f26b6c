"""A large graph as a small picture: groups of its layers, with what is in them and what they cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from kernelscope.analysis.graph_layout import Layout
from kernelscope.analysis.graph_nodes import TOP, Graph
from kernelscope.analysis.units import counted, duration, percent
from kernelscope.renderers import graph_words as words
from kernelscope.renderers.base import EXACT_LETTERS, drawn_width, escape, fitted, shorten
from kernelscope.renderers.graph_style import FONT, INK, SIZE, kind_of

_MOST_BANDS = 6
_MOST_NAMES = 3
_WIDTH, _HEIGHT, _STEP = 720, 46, 62
_TOP = 26


@dataclass(frozen=True)
class Band:
    """Some layers of a graph, one after the other.

    Attributes
    ----------
    numbers : tuple of int
        Their nodes.
    layers : int
        How many layers there are.
    total_ns : int or None
        Time of those nodes, over all launches.
    share : float or None
        That over the same of the graph.
    """

    numbers: tuple[int, ...]
    layers: int
    total_ns: int | None
    share: float | None


def group(graph: Graph, layout: Layout, most: int = _MOST_BANDS) -> list[Band]:
    """Return the layers of a graph's top in at most so many groups of about as many nodes each."""
    if TOP not in layout.levels:
        return []
    layers = layout.levels[TOP].by_layer()
    wanted = max(sum(map(len, layers)) / most, 1)
    made: list[Band] = []
    held: list[list[int]] = []
    passed = 0
    for layer in layers:
        held.append(layer)
        passed += len(layer)
        if passed >= wanted * (len(made) + 1) - 1e-9:
            made.append(_band(graph, held))
            held = []
    return [*made, _band(graph, held)] if held else made


def _band(graph: Graph, layers: list[list[int]]) -> Band:
    numbers = tuple(number for layer in layers for number in layer)
    timed = [graph.nodes[number].total_ns or 0 for number in numbers if graph.nodes[number].total_ns is not None]
    total = sum(timed) if timed else None
    return Band(numbers, len(layers), total, None if total is None or not graph.total_ns else total / graph.total_ns)


def mostly(graph: Graph, band: Band) -> str:
    """Return the most frequent nodes of a band with their number: ``axpy × 200``."""  # noqa: RUF002 - the sign
    names = Counter(words.title(graph.nodes[number]) for number in band.numbers)
    most = names.most_common(_MOST_NAMES)
    said = [f"{shorten(name, 30)} × {count:,}" if count > 1 else shorten(name, 30) for name, count in most]  # noqa: RUF001
    others = len(band.numbers) - sum(count for _, count in most)
    return ", ".join([*said, *([f"{others:,} others"] if others else [])])


def bands(graph: Graph, layout: Layout) -> str:
    """Return the graph as groups of layers, as an SVG document."""
    made = group(graph, layout)
    notes = words.notes(graph, layout)
    height = _TOP + len(made) * _STEP + 18 * len(notes)
    body = "".join(piece for at, band in enumerate(made) for piece in _drawn(graph, band, _TOP + at * _STEP, at))
    said = "".join(f"<text x='1' y='{_TOP + len(made) * _STEP + 18 * at:g}'>{escape(note)}</text>"
                   for at, note in enumerate(notes))
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{_WIDTH}' height='{height}' viewBox='0 0 {_WIDTH} {height}' "
        f"role='img' font-family=\"{FONT}\" font-size='{SIZE}' fill='{INK}' {EXACT_LETTERS}>"
        f"<title>{escape(words.headline(graph))}</title>"
        f"<text x='1' y='13'>{escape(fitted(words.kinds(graph), _WIDTH - 1, SIZE))}</text>{body}{said}</svg>"
    )


def _drawn(graph: Graph, band: Band, y: int, at: int) -> Iterator[str]:
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
