"""The timeline as a static picture: SVG of bounded size for where no script runs.

It stands in a saved notebook in the live timeline's place. Its ground is transparent and its inks are readable on
white and on black, so that it needs to know no theme; spans are drawn by columns of pixels, so that a million of
them take no more bytes than what can be seen.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator

import numpy as np

from kernelscope.analysis.columns import Bools, Floats, Ints, ran, row_count
from kernelscope.analysis.units import counted, duration
from kernelscope.recording.model import Recording
from kernelscope.recording.privacy import shareable
from kernelscope.renderers.base import EXACT_LETTERS, drawn_width, escape, fitted
from kernelscope.renderers.style import PHASE_COLORS
from kernelscope.widgets.picture_lanes import NOTHING, Lane, Lanes, Part, extent, lanes_of

#: Bytes that a picture takes at most, about: where it would take more, it is drawn by coarser columns.
MOST_BYTES = 60_000

_INK = "#767b82"
_LEFT = 132
_TOP = 24
_ROW = 20
_BAR = 15
_FOOT = 26
_SIZE = 11
_FONT = f"font-family='system-ui,-apple-system,Segoe UI,sans-serif' font-size='{_SIZE}' {EXACT_LETTERS}"
_MOST_LABELS = 60
_LEAST_LETTERS, _LEAST_ROOM = 6, 24.0
_SHADES = (0.4, 0.7, 1.0)
_BARELY = 1e-6
_NOTHING = "nothing was recorded"


def picture(recording: Recording, width: int = 960, *, paths: bool = False) -> str:
    """Return the timeline of a recording as an SVG document.

    Parameters
    ----------
    recording : Recording
        What to draw.
    width : int
        Its width in pixels; at least 400.
    paths : bool
        Keep full paths of this machine.

    Returns
    -------
    str
        An ``<svg>`` element that runs no script and loads nothing; names from user code are escaped.
    """
    width = max(int(width), 400)
    recording = shareable(recording, paths=paths)
    shown = lanes_of(recording)
    step = 1.0
    while True:
        drawn = _drawn(recording, shown, width, step)
        if len(drawn) <= MOST_BYTES or step >= 16:
            return drawn
        step *= 2


def image(recording: Recording, width: int = 960) -> str:
    """Return the picture as an ``<img>`` of HTML, which is shown also where inline SVG is not.

    JupyterLab shows no inline SVG of a notebook that it does not trust, but images with their data inside.
    """
    drawn = base64.b64encode(picture(recording, width).encode()).decode()
    return (f'<img alt="{escape(describe(recording))}" style="display: block; max-width: 100%; height: auto" '
            f'src="data:image/svg+xml;base64,{drawn}">')


def describe(recording: Recording) -> str:
    """Return what the timeline shows in one line of text."""
    start, end = extent(recording)
    if (start, end) == NOTHING:
        return f"KernelScope timeline: {_NOTHING}"
    run = ran(recording)
    parts = [counted(int(run.sum()), "launch", "launches")]
    if not run.all():
        parts.append(f"{int((~run).sum()):,} captured")
    if activities := row_count(recording, "activities"):
        parts.append(counted(activities, "GPU activity", "GPU activities"))
    return f"KernelScope timeline: {', '.join(parts)} in {duration(end - start)}"


def _drawn(recording: Recording, shown: Lanes, width: int, step: float) -> str:
    rows = len(shown.lanes)
    height = _TOP + rows * _ROW + _FOOT
    body = [*_axis(shown, width, rows)] if rows else [f"<text x='{_LEFT}' y='16'>{_NOTHING}</text>"]
    for place, lane in enumerate(shown.lanes):
        body += _lane(lane, shown, width, _TOP + place * _ROW, step)
    body += _foot(recording, shown, width, height)
    title = escape(describe(recording))
    return (f"<svg xmlns='http://www.w3.org/2000/svg' width='{width}' height='{height}' viewBox='0 0 {width} {height}' "
            f"role='img' {_FONT} fill='{_INK}'><title>{title}</title>{''.join(body)}</svg>")


def _axis(shown: Lanes, width: int, rows: int) -> Iterator[str]:
    """Lines and times; the first is zero, where the recording starts."""
    span = shown.end_ns - shown.start_ns
    plot = width - _LEFT
    every = _nice(span / max(plot // 110, 1))
    bottom = _TOP + rows * _ROW
    at = 0.0
    while at <= span:
        x = _LEFT + at / span * plot
        yield f"<path d='M{x:.1f} {_TOP - 5}V{bottom}' stroke='{_INK}' stroke-opacity='.28'/>"
        text = _tick(at, every)
        anchor = "" if x + 3 + drawn_width(text, _SIZE) <= width else " text-anchor='end'"
        yield f"<text x='{x + (3 if not anchor else 0):.1f}' y='13'{anchor}>{text}</text>"
        at += every


def _lane(lane: Lane, shown: Lanes, width: int, top: int, step: float) -> Iterator[str]:
    label = fitted(lane.label, _LEFT - 12, _SIZE)
    yield f"<text x='{_LEFT - 8}' y='{top + 13}' text-anchor='end'>{escape(label)}</text>" if label else ""
    yield f"<path d='M{_LEFT} {top + _ROW - .5}H{width}' stroke='{_INK}' stroke-opacity='.16'/>"
    yield from _bars(lane.parts, shown, width - _LEFT, top + _BAR / 2 + 2, step)
    yield from _labels(lane, shown, width, top)


def _bars(parts: tuple[Part, ...], shown: Lanes, plot: int, middle: float, step: float) -> Iterator[str]:
    """One stroke a color and shade, from the columns of pixels in which that color took the most time."""
    if not parts:
        return
    columns = int(plot / step)
    # What is too short to fill any share of its column is seen nevertheless.
    edges = _Edges(shown, columns)
    busy = np.stack([edges.busy(part) for part in parts])
    seen = np.stack([edges.begun(part) for part in parts])
    most = (busy + _BARELY * seen).argmax(axis=0)
    share = busy.sum(axis=0) + _BARELY * seen.any(axis=0)
    shade = np.digitize(share, (0.34, 0.67))
    code = np.where(share > 0, most * len(_SHADES) + shade, -1)
    starts = np.flatnonzero(np.diff(code, prepend=-2))
    ends = np.append(starts[1:], columns)
    for value in np.unique(code[code >= 0]).tolist():
        which = code[starts] == value
        color, opacity = parts[value // len(_SHADES)].color, _SHADES[value % len(_SHADES)]
        faint = "" if opacity == 1 else f" stroke-opacity='{opacity:g}'"
        path = _path(np.float64(step) * starts[which], np.float64(step) * ends[which], middle)
        yield f"<path d='{path}' stroke='{escape(color)}' stroke-width='{_BAR}'{faint}/>"


def _path(starts: Floats, ends: Floats, middle: float) -> str:
    """Horizontal strokes, each relative to the end of the one before it, which is the shortest way to say it."""
    gaps = np.diff(starts, prepend=0.0)
    gaps[1:] = starts[1:] - ends[:-1]
    pieces = [f"M{_LEFT + starts[0]:g} {middle:g}h{ends[0] - starts[0]:g}"]
    lengths = (ends - starts).tolist()
    pieces += [f"m{gap:g} 0h{length:g}" for gap, length in zip(gaps[1:].tolist(), lengths[1:], strict=True)]
    return "".join(pieces)


class _Edges:
    """How much of each column spans cover.

    The time covered before each column's edge is a sum over starts less one over ends, each found by counting: no
    sort is needed, and no loop over spans. Neighbouring phases share a boundary, which is counted once.
    """

    def __init__(self, shown: Lanes, columns: int) -> None:
        self._start_ns = shown.start_ns
        self._scale = columns / (shown.end_ns - shown.start_ns)
        self._columns = columns
        # By identity: the arrays live as long as the lane that is drawn.
        self._counted: dict[int, tuple[Bools, Floats]] = {}

    def busy(self, part: Part) -> Floats:
        """Return the share of each column that the part covers, 0 to 1."""
        busy = np.clip(np.diff(self._count(part.start)[1] - self._count(part.end)[1]), 0.0, 1.0)
        busy[busy < _BARELY] = 0.0
        return np.asarray(busy, dtype=np.float64)

    def begun(self, part: Part) -> Bools:
        """Return whether a span of the part begins in each column."""
        return self._count(part.start)[0]

    def _count(self, times: Ints) -> tuple[Bools, Floats]:
        """Which columns hold a time, and for each column's edge how long ago all times before it were, added up."""
        if id(times) in self._counted:
            return self._counted[id(times)]
        columns = self._columns
        at = np.clip((times - self._start_ns) * self._scale, 0, columns)
        place = np.minimum(at.astype(np.int64), columns - 1)
        number = np.bincount(place, minlength=columns)
        # Sums over a column are of distances from its left edge: they keep their digits however many there are.
        inside = np.bincount(place, weights=at - place, minlength=columns)
        before = np.concatenate(([0.0], np.cumsum(number)))
        passed = before * np.arange(columns + 1) - np.concatenate(
            ([0.0], np.cumsum(number * np.arange(columns) + inside)))
        self._counted[id(times)] = number > 0, np.asarray(passed, dtype=np.float64)
        return self._counted[id(times)]


def _labels(lane: Lane, shown: Lanes, width: int, top: int) -> Iterator[str]:
    """Names on spans that are wide enough, the widest first."""
    scale = (width - _LEFT) / (shown.end_ns - shown.start_ns)
    wide = np.flatnonzero((lane.end - lane.start) * scale >= _LEAST_ROOM)
    longest = wide[np.argsort((lane.start - lane.end)[wide], kind="stable")][:_MOST_LABELS]
    for at in longest.tolist():
        x = _LEFT + max(float(lane.start[at] - shown.start_ns), 0.0) * scale
        place = int(lane.name[at])
        text = lane.words[place] if 0 <= place < len(lane.words) else ""
        label = fitted(text, float(lane.end[at] - lane.start[at]) * scale - 6, _SIZE)
        if len(label) >= min(len(text), _LEAST_LETTERS) > 0:
            yield (f"<text x='{x + 4:.1f}' y='{top + 13.5}' fill='#0c1016' stroke='#fff' stroke-opacity='.4' "
                   f"stroke-width='2' paint-order='stroke'>{escape(label)}</text>")


def _foot(recording: Recording, shown: Lanes, width: int, height: int) -> Iterator[str]:
    x, y = float(_LEFT), height - 8
    for phase, color in PHASE_COLORS.items():
        yield f"<rect x='{x:g}' y='{y - 9}' width='9' height='9' rx='2' fill='{color}'/>"
        yield f"<text x='{x + 13:g}' y='{y}'>{phase}</text>"
        x += 24 + drawn_width(phase, _SIZE)
    said = [text for text in (recording.notice, f"{shown.left_out} more lanes" if shown.left_out else "") if text]
    if said:
        text = fitted("; ".join(said), width - x - 4, _SIZE)
        yield f"<text x='{width - 4}' y='{y}' text-anchor='end'>{escape(text)}</text>"


def _nice(span: float) -> float:
    """The next of 1, 2, 5 times a power of ten."""
    power = 10.0 ** np.floor(np.log10(max(span, 1.0)))
    return float(next(each * power for each in (1, 2, 5, 10) if each * power >= max(span, 1.0)))


def _tick(at: float, every: float) -> str:
    """A time in the unit of the distance between ticks."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if every * 10 >= size:
            return f"{at / size:.1f}".removesuffix(".0") + f" {unit}"
    return f"{at:g} ns"
