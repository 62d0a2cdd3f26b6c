"""The roofline as a static SVG picture, for where no script runs and for documents."""

from __future__ import annotations

from collections.abc import Iterator

from kernelscope.features.roofline.figure import tick
from kernelscope.features.roofline.model import (
    HEIGHT,
    LABEL,
    NOTHING,
    WIDTH,
    Dot,
    Panel,
    Roof,
    Shown,
    about,
    decades,
)
from kernelscope.views.base import EXACT_LETTERS, drawn_width, escape, fitted, wrap

#: Panels of a row.
ABREAST = 2
_STYLE = (
    ".kr-ground{fill:#fff}.kr text{fill:#57606a}.kr .kr-ink{fill:#1b1f24}.kr-grid{stroke:#d8dce1}"
    ".kr-roof{stroke:#57606a}.kr-halo{stroke:#fff}"
    "@media(prefers-color-scheme:dark){.kr-ground{fill:#16191d}.kr text{fill:#a0a8b2}.kr .kr-ink{fill:#e4e7eb}"
    ".kr-grid{stroke:#30363d}.kr-roof{stroke:#a0a8b2}.kr-halo{stroke:#16191d}}"
)
_FONT = f"font-family='system-ui,-apple-system,Segoe UI,sans-serif' font-size='{LABEL}' {EXACT_LETTERS}"
_LEFT, _RIGHT, _HEAD, _AXIS, _LINE = 58, 22, 62, 42, 15
_DASHES = {"copy": "", "dram": "6 4", "l2": "2 3", "compute": ""}
_LEGEND = {"copy": "DRAM, as a copy reached it", "dram": "DRAM, peak", "l2": "L2, peak"}
_LETTERS = 84


def roofline_svg(shown: Shown) -> str:
    """Return the panels side by side, two in a row, as an SVG document; it runs no script and loads nothing."""
    wide = _LEFT + WIDTH + _RIGHT
    across = min(max(len(shown.panels), 1), ABREAST)
    width = across * wide
    y, body = 26, [f"<text class='kr-ink' x='10' y='18' font-size='13' font-weight='600'>{escape(about(shown))}</text>"]
    if shown.notice:
        body.append(f"<text x='{20 + drawn_width(about(shown), 13, bold=True):g}' y='18'>{escape(shown.notice)}</text>")
    if not shown.panels:
        body += [f"<text x='10' y='{40 + _LINE * at}'>{escape(line)}</text>"
                 for at, line in enumerate(wrap(NOTHING, _LETTERS, hanging=0).split("\n"))]
        y = 90
    for first in range(0, len(shown.panels), ABREAST):
        row = shown.panels[first:first + ABREAST]
        for at, panel in enumerate(row):
            body.append(f"<g transform='translate({at * wide} {y})'>{''.join(_panel(panel, shown))}</g>")
        y += _HEAD + HEIGHT + _AXIS + _LINE * max(len(_lines(panel)) for panel in row)
    if shown.panels:
        legend, y = _legend(y + 12, width, {roof.kind for panel in shown.panels for roof in panel.roofs},
                            any(dot.l2_intensity for panel in shown.panels for dot in panel.dots))
        body += legend
        y += 16
    return (f"<svg xmlns='http://www.w3.org/2000/svg' width='{width}' height='{y}' viewBox='0 0 {width} {y}' "
            f"class='kr' role='img' {_FONT}><title>{escape(about(shown))}</title><style>{_STYLE}</style>"
            f"<rect class='kr-ground' width='{width}' height='{y}'/>{''.join(body)}</svg>")


def _lines(panel: Panel) -> list[str]:
    return [line for note in panel.notes for line in wrap(note, _LETTERS, hanging=2).split("\n")]


def _panel(panel: Panel, shown: Shown) -> Iterator[str]:
    room = WIDTH + _LEFT - 12
    yield (f"<text class='kr-ink' x='10' y='22' font-size='12' font-weight='600'>"
           f"{escape(fitted(panel.title, room, 12, bold=True))}</text>"
           f"<text x='10' y='40'>{escape(fitted(panel.about, room, LABEL))}</text>"
           f"<text x='10' y='56'>FLOP/s</text>"
           f"<g transform='translate({_LEFT} {_HEAD})'>")
    yield from _axes(shown)
    for roof in panel.roofs:
        yield from _roof(roof, shown)
    for dot in panel.dots:
        yield from _lines_of(dot, shown)
    for dot in panel.dots:
        yield from _dot(dot, shown)
    yield "</g>"
    for at, line in enumerate(_lines(panel)):
        yield f"<text x='10' y='{_HEAD + HEIGHT + _AXIS + _LINE * at + 8}'>{escape(line)}</text>"


def _axes(shown: Shown) -> Iterator[str]:
    yield f"<rect class='kr-grid' width='{WIDTH}' height='{HEIGHT}' fill='none'/>"
    for each in decades(shown.x):
        x = (each - shown.x[0]) / (shown.x[1] - shown.x[0]) * WIDTH
        yield (f"<path class='kr-grid' d='M{x:.1f} 0V{HEIGHT}'/>"
               f"<text x='{x:.1f}' y='{HEIGHT + 15}' text-anchor='middle'>{10.0 ** each:,g}</text>")
    yield f"<text x='{WIDTH}' y='{HEIGHT + 30}' text-anchor='end'>FLOP/byte</text>"
    for each in decades(shown.y):
        y = (shown.y[1] - each) / (shown.y[1] - shown.y[0]) * HEIGHT
        yield (f"<path class='kr-grid' d='M0 {y:.1f}H{WIDTH}'/><text x='-7' y='{y + 4:.1f}' text-anchor='end'>"
               f"{tick(each)}</text>")


def _roof(roof: Roof, shown: Shown) -> Iterator[str]:
    (x, y), (right, top) = shown.place(roof.start), shown.place(roof.end)
    dash = f" stroke-dasharray='{_DASHES[roof.kind]}'" if _DASHES[roof.kind] else ""
    yield (f"<path class='kr-roof' d='M{x:.1f} {y:.1f}L{right:.1f} {top:.1f}' fill='none' stroke-width='1.5'{dash}>"
           f"<title>{escape(roof.label)}</title></path>")
    if roof.kind == "compute":
        yield f"<text x='{right - 6:.1f}' y='{top - 5:.1f}' text-anchor='end'>{escape(roof.label)}</text>"


def _lines_of(dot: Dot, shown: Shown) -> Iterator[str]:
    x, y = shown.place((dot.intensity, dot.flops_per_second))
    if dot.l2_intensity:
        ring = shown.place((dot.l2_intensity, dot.flops_per_second))[0]
        yield f"<path d='M{x:.1f} {y:.1f}H{ring:.1f}' stroke='{dot.color}' stroke-opacity='.6'/>"
        yield f"<circle cx='{ring:.1f}' cy='{y:.1f}' r='3.5' fill='none' stroke='{dot.color}' stroke-width='1.5'/>"
    if dot.roof is not None and dot.roof[1] > dot.flops_per_second:
        above, top = shown.place(dot.roof)
        yield (f"<path d='M{above:.1f} {y:.1f}V{top:.1f}' stroke='{dot.color}' stroke-width='1.2' "
               "stroke-dasharray='2 3'/>")


def _dot(dot: Dot, shown: Shown) -> Iterator[str]:
    x, y = shown.place((dot.intensity, dot.flops_per_second))
    said = escape("\n".join(dot.lines))
    yield f"<circle cx='{x:.1f}' cy='{y:.1f}' r='5' fill='{dot.color}'><title>{said}</title></circle>"
    row, _, column = dot.side.partition(" ")
    anchor, aside = {"right": ("start", 9), "left": ("end", -9)}.get(column, ("middle", 0))
    at = x + aside, y + {"above": -10, "below": 18}.get(row, 4)
    yield (f"<text class='kr-ink kr-halo' paint-order='stroke' stroke-width='3' x='{at[0]:.1f}' y='{at[1]:.1f}' "
           f"text-anchor='{anchor}'>{escape(dot.label)}</text>")


def _legend(y: int, width: int, kinds: set[str], has_rings: bool) -> tuple[list[str], int]:
    """Draw the legend in as many rows as it needs, the first at `y`; return it, and where the last row is."""
    entries = [
        (f"<path class='kr-roof' d='M0 -4h26' stroke-width='1.5' stroke-dasharray='{_DASHES[kind]}'/>", 32, label)
        for kind, label in _LEGEND.items() if kind in kinds]
    entries.append(("<circle cx='6' cy='-4' r='5' fill='#7b828c'/>", 16, "by bytes of DRAM"))
    if has_rings:
        entries.append(("<circle cx='6' cy='-4' r='3.5' fill='none' stroke-width='1.5' class='kr-roof'/>", 16,
                        "by bytes of L2"))
    x, drawn = 10.0, list[str]()
    for mark, indent, label in entries:
        wide = indent + drawn_width(label, LABEL)
        if x + wide > width - 10:
            x, y = 10.0, y + _LINE + 3
        drawn.append(f"<g transform='translate({x:g} {y})'>{mark}<text x='{indent}'>{label}</text></g>")
        x += wide + 18
    return drawn, y
