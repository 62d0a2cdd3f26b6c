"""The flame graph as static SVG of bounded size, for where no script runs.

It is as wide as the page: frames lie in shares of the width, texts keep their size and are cut off by their frames.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kernelscope.features.call_paths.flame import KINDS, LABELS, Flame
from kernelscope.palette import FRAME_COLORS, INK_FROM, INKS
from kernelscope.units import percent
from kernelscope.views import html
from kernelscope.views.base import EXACT_LETTERS, drawn_width, escape, fitted

#: Rows that are drawn; what is deeper is in the live view.
MOST_ROWS = 24
#: Bytes of the frames of one SVG, about: the widest are drawn.
MOST_BYTES = 8_500
_STYLE = (
    ".kf-ground{fill:#fff}.kf{fill:#57606a}.kf-all{fill:#e3e6ea}.kf-all+svg{fill:#1b1f24}"
    "@media(prefers-color-scheme:dark){.kf-ground{fill:#16191d}.kf{fill:#a0a8b2}.kf-all{fill:#30363d}"
    ".kf-all+svg{fill:#e4e7eb}}"
)
_ROW, _TOP, _SIZE = 18, 22, 11
_FONT = f"font-family='system-ui,-apple-system,Segoe UI,sans-serif' font-size='{_SIZE}' {EXACT_LETTERS}"
# The width of a page on which names are of use, and the least width of a frame in thousandths.
_PAGE, _LEAST_ROOM, _LEAST = 1_100, 26.0, 1.0


def static_svg(flame: Flame, metric: str) -> str:
    """Return the flame graph of one metric as an SVG document as wide as what it is shown in.

    It runs no script and loads nothing; names from user code are escaped.
    """
    return _drawn(flame, metric)[0]


def image(flame: Flame, metric: str) -> str:
    """Return the static SVG as an ``<img>`` of HTML, as wide as the page; texts in it keep their size."""
    drawn, height = _drawn(flame, metric)
    style = f"display: block; width: 100%; max-width: none; height: {height}px; margin: 4px 0; break-inside: avoid"
    return html.image(drawn, describe(flame, metric), style, f'width="100%" height="{height}"')


def images(flame: Flame) -> str:
    """Return the pictures of host time and GPU time, or of what there is else, one below the other."""
    shown = [name for name in ("host", "gpu") if name in flame.metrics] or flame.metrics[:1]
    return "".join([image(flame, name) for name in shown])


def element(flame: Flame) -> str:
    """Return the pictures in the element in which a page draws the flame graph live."""
    return f'<div class="ks-flame">{images(flame)}</div>'


def describe(flame: Flame, metric: str) -> str:
    """Return what the static SVG shows in one line of text."""
    return f"{LABELS[metric]} by call path: {flame.said(metric, int(flame.totals[metric][0]))}"


def _drawn(flame: Flame, metric: str) -> tuple[str, int]:
    total, left, depth = flame.totals[metric], flame.left(metric), flame.depth
    width = total / max(int(total[0]), 1)
    found = np.flatnonzero((width * 1000 >= _LEAST) & (depth < MOST_ROWS))
    found = found[np.lexsort((depth[found], -width[found]))]
    drawn: list[str] = []
    taken, rows = 0, 1
    for at in found.tolist():
        piece = _frame(flame, at, float(left[at]), float(width[at]), int(depth[at]))
        taken += len(piece)
        if taken > MOST_BYTES:
            break
        drawn.append(piece)
        rows = max(rows, int(depth[at]) + 1)
    said = [escape(describe(flame, metric))]
    deeper = int(depth[total > 0].max()) + 1 - MOST_ROWS
    notes = [*([f"{deeper:,} deeper rows are in the live view"] if deeper > 0 else []),
             *([flame.remark] if flame.left_out else [])]
    height = _TOP + rows * _ROW + 22 + 16 * len(notes)
    body = [f"<text x='0' y='14'>{said[0]}</text>", *drawn, *_foot(flame, _TOP + rows * _ROW + 15, notes)]
    return (f"<svg xmlns='http://www.w3.org/2000/svg' width='100%' height='{height}' class='kf' role='img' {_FONT}>"
            f"<title>{said[0]}</title><style>{_STYLE}</style><rect class='kf-ground' width='100%' height='{height}'/>"
            f"{''.join(body)}</svg>"), height


def _frame(flame: Flame, at: int, left: float, width: float, depth: int) -> str:
    """Draw a frame, and its name where it has room: a nested SVG cuts it off where the frame ends."""
    frame, y = flame.frames[int(flame.frame[at])], _TOP + depth * _ROW
    place = f"x='{100 * left:.4g}%' y='{y}' width='{max(100 * width - .05, .05):.4g}%' height='{_ROW - 1}'"
    if frame.kind == "all":
        rect, ink = f"<rect class='kf-all' {place}/>", ""
    else:
        color = FRAME_COLORS[frame.kind]
        rect, ink = f"<rect {place} fill='{color}'/>", f" fill='{ink_on(color)}'"
    room = width * _PAGE - 8
    if room < _LEAST_ROOM:
        return rect
    text = f"{frame.label} · {percent(width)}" if room > drawn_width(frame.label, _SIZE) + 50 else frame.label
    return f"{rect}<svg {place}{ink}><text x='4' y='12.5'>{escape(fitted(text, 1.5 * room, _SIZE))}</text></svg>"


def _foot(flame: Flame, y: int, notes: list[str]) -> Iterator[str]:
    """Draw the legend of the kinds that there are, and below it the notes."""
    x, there = 0.0, {each.kind for each in flame.frames}
    for kind, label in KINDS.items():
        if kind in there:
            yield (f"<rect x='{x:g}' y='{y - 9}' width='9' height='9' rx='2' fill='{FRAME_COLORS[kind]}'/>"
                   f"<text x='{x + 13:g}' y='{y}'>{label}</text>")
            x += 26 + drawn_width(label, _SIZE)
    for place, text in enumerate(notes, start=1):
        yield f"<text x='0' y='{y + 16 * place}'>{escape(text)}</text>"


def ink_on(color: str) -> str:
    """Return the color of a text on a color."""
    share = [int(color[at:at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in share)
    return INKS[0] if 0.2126 * red + 0.7152 * green + 0.0722 * blue > INK_FROM else INKS[1]
