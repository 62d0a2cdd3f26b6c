"""The timeline as static SVG of bounded size, for where no script runs.

A saved notebook shows it in place of the live timeline, with the same lanes, names and colors. Its ground is
transparent and its inks are readable on white and on black, so that it needs to know no theme; spans are drawn by
columns of pixels, so that a million of them take no more bytes than what can be seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kernelscope.analysis.columns import Bools, Floats, Ints
from kernelscope.palette import OTHER_COLOR, PHASE_COLORS
from kernelscope.units import counted, duration
from kernelscope.views import html
from kernelscope.views.base import EXACT_LETTERS, drawn_width, escape, fitted
from kernelscope.views.timeline.model import (
    NO_END,
    TITLES,
    Lane,
    Segment,
    Slices,
    Timeline,
    Track,
    Words,
)
from kernelscope.views.timeline.wire import SENT

#: The live timeline draws launches that were captured hollow, which strokes cannot be.
CAPTURED_COLOR = "#cdd3da"
#: How many rows a picture draws at most; it says how many it leaves out.
MOST_ROWS = 28
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


@dataclass(frozen=True)
class Part:
    """Spans of one color in a row: times from the timeline's first instant, int64, of one length."""

    color: str
    start: Ints
    end: Ints


@dataclass(frozen=True)
class Row:
    """One row of the static SVG.

    Attributes
    ----------
    label : str
        The label at its left.
    parts : tuple of Part
        What is drawn in it.
    start, end : ndarray of int64
        The spans that can bear a label.
    names : Words
        What they are called; it comes from user code.
    """

    label: str
    parts: tuple[Part, ...]
    start: Ints
    end: Ints
    names: Words


def picture(timeline: Timeline, width: int = 960) -> str:
    """Return a timeline as an SVG document.

    Parameters
    ----------
    timeline : Timeline
        What to draw: of a recording as it may be shared.
    width : int
        Its width in pixels; at least 400.

    Returns
    -------
    str
        An ``<svg>`` element that runs no script and loads nothing; names from user code are escaped.
    """
    width = max(int(width), 400)
    tracks = [(lane, track) for lane in timeline.lanes for track in lane.tracks if track.table in SENT]
    launches = _Launches(timeline)
    rows = [_row(timeline, lane, track, launches) for lane, track in tracks[:MOST_ROWS]]
    step = 1.0
    while True:
        drawn = _drawn(timeline, rows, max(len(tracks) - MOST_ROWS, 0), width, step)
        if len(drawn) <= MOST_BYTES or step >= 16:
            return drawn
        step *= 2


def image(timeline: Timeline) -> str:
    """Return the static SVG as an ``<img>`` of HTML, which gets smaller where there is less room."""
    return html.image(picture(timeline), describe(timeline), "display: block; max-width: 100%; height: auto")


def describe(timeline: Timeline) -> str:
    """Return what a timeline shows in one line of text."""
    if not timeline.lanes:
        return f"KernelScope timeline: {_NOTHING}"
    kinds = timeline.tables["launches"].look().kinds.codes
    captured = int(np.count_nonzero(kinds))
    parts = [counted(len(kinds) - captured, "launch", "launches")]
    if captured:
        parts.append(f"{captured:,} captured")
    if timeline.activities:
        parts.append(counted(timeline.activities, "GPU activity", "GPU activities"))
    return f"KernelScope timeline: {', '.join(parts)} in {duration(max(timeline.span_ns, 1))}"


def shares(timeline: Timeline, columns: int) -> Iterator[tuple[Track, dict[str, Floats]]]:
    """Yield each track that is drawn with the share of each column of the whole time that its colors take."""
    launches, edges = _Launches(timeline), _Edges(max(timeline.span_ns, 1), columns)
    for lane in timeline.lanes:
        for track in lane.tracks:
            if track.table in SENT:
                parts = _row(timeline, lane, track, launches).parts
                yield track, {part.color: edges.busy(part) for part in parts}


def _row(timeline: Timeline, lane: Lane, track: Track, launches: _Launches) -> Row:
    """Return a track's spans by color; launches are split by phase."""
    slices, which = timeline.tables[track.table], timeline.rows(track)
    start, end = slices.start[which], _shown_end(timeline, slices, which)
    if track.table == "launches":
        parts = launches.parts(which, end)
    else:
        inks = slices.look().colors.codes[which]
        colors = slices.look().colors.values
        used = np.unique(inks).tolist()
        parts = [Part(colors[ink], start[inks == ink], end[inks == ink]) for ink in used] if len(used) > 1 else [
            Part(colors[ink], start, end) for ink in used]
    first = track is lane.tracks[0]
    label = lane.name if first else "" if track.depth else TITLES.get(track.table, "")
    return Row(label, tuple(parts), start, end, slices.look().names.take(which))


def _shown_end(timeline: Timeline, slices: Slices, which: Ints | slice) -> Ints:
    """Return ends as drawn: an open slice lasts until its track's next one, or the recording's end."""
    start, end, flags = slices.start[which], slices.end[which], slices.flags[which]
    open_ones = flags & NO_END > 0
    if not open_ones.any():
        return end
    following = np.append(start[1:], timeline.span_ns)
    return np.where(open_ones, np.maximum(end, following), end)


class _Launches:
    """The parts of launches, by track."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline

    @cached_property
    def _segments(self) -> list[Segment]:
        return self._timeline.segments()

    def parts(self, which: Ints | slice, end: Ints) -> list[Part]:
        """Return the spans of some launches by color; what has no end is gray from where it was last seen."""
        slices = self._timeline.tables["launches"]
        captured = slices.look().kinds.codes[which] > 0
        spans: dict[str, list[tuple[Ints, Ints]]] = {}
        for segment in self._segments:
            start, until = segment.start[which], segment.end[which]
            there = (start >= 0) & ~captured
            if not there.all():
                start, until = start[there], until[there]
            if len(start):
                spans.setdefault(PHASE_COLORS.get(segment.name, OTHER_COLOR), []).append((start, until))
        seen = slices.end[which]
        later = (end > seen) & ~captured
        if later.any():
            spans.setdefault(OTHER_COLOR, []).append((seen[later], end[later]))
        if captured.any():
            spans[CAPTURED_COLOR] = [(slices.start[which][captured], end[captured])]
        # Most colors have one pair of arrays, which stay what they are: neighbors share a boundary's.
        return [Part(color, *(each[0] if len(each) == 1 else np.concatenate(each)
                              for each in zip(*pairs, strict=True))) for color, pairs in spans.items()]


def _drawn(timeline: Timeline, rows: list[Row], left_out: int, width: int, step: float) -> str:
    height = _TOP + len(rows) * _ROW + _FOOT
    span = max(timeline.span_ns, 1)
    body = [*_axis(span, width, len(rows))] if rows else [f"<text x='{_LEFT}' y='16'>{_NOTHING}</text>"]
    for place, row in enumerate(rows):
        body += _drawn_row(row, span, width, _TOP + place * _ROW, step)
    body += _foot(timeline.notice, left_out, width, height)
    title = escape(describe(timeline))
    return (f"<svg xmlns='http://www.w3.org/2000/svg' width='{width}' height='{height}' viewBox='0 0 {width} {height}' "
            f"role='img' {_FONT} fill='{_INK}'><title>{title}</title>{''.join(body)}</svg>")


def _axis(span: int, width: int, rows: int) -> Iterator[str]:
    """Draw the axis: lines and times from 0, the start of the recording."""
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


def _drawn_row(row: Row, span: int, width: int, top: int, step: float) -> Iterator[str]:
    label = fitted(row.label, _LEFT - 12, _SIZE)
    yield f"<text x='{_LEFT - 8}' y='{top + 13}' text-anchor='end'>{escape(label)}</text>" if label else ""
    yield f"<path d='M{_LEFT} {top + _ROW - .5}H{width}' stroke='{_INK}' stroke-opacity='.16'/>"
    yield from _bars(row.parts, span, width - _LEFT, top + _BAR / 2 + 2, step)
    yield from _labels(row, span, width, top)


def _bars(parts: tuple[Part, ...], span: int, plot: int, middle: float, step: float) -> Iterator[str]:
    """Draw one stroke for each color and shade, in the pixel columns where the color takes most time."""
    if not parts:
        return
    columns = int(plot / step)
    # What is too short to fill any share of its column is seen nevertheless.
    edges = _Edges(span, columns)
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
    """Return horizontal strokes as a path in relative coordinates, the shortest form."""
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

    def __init__(self, span: int, columns: int) -> None:
        self._scale = columns / span
        self._columns = columns
        # By identity: the arrays live as long as the row that is drawn.
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
        """Return the columns that hold times, and for each edge the sum of distances to earlier times."""
        if id(times) in self._counted:
            return self._counted[id(times)]
        columns = self._columns
        at = np.clip(times * self._scale, 0, columns)
        place = np.minimum(at.astype(np.int64), columns - 1)
        number = np.bincount(place, minlength=columns)
        # Sums over a column are of distances from its left edge: they keep their digits however many there are.
        inside = np.bincount(place, weights=at - place, minlength=columns)
        before = np.concatenate(([0.0], np.cumsum(number)))
        passed = before * np.arange(columns + 1) - np.concatenate(
            ([0.0], np.cumsum(number * np.arange(columns) + inside)))
        self._counted[id(times)] = number > 0, np.asarray(passed, dtype=np.float64)
        return self._counted[id(times)]


def _labels(row: Row, span: int, width: int, top: int) -> Iterator[str]:
    """Draw names on spans that are wide enough, the widest first."""
    scale = (width - _LEFT) / span
    wide = np.flatnonzero((row.end - row.start) * scale >= _LEAST_ROOM)
    longest = wide[np.argsort((row.start - row.end)[wide], kind="stable")][:_MOST_LABELS]
    for at in longest.tolist():
        x = _LEFT + float(row.start[at]) * scale
        place = int(row.names.codes[at])
        text = row.names.values[place] if place >= 0 else ""
        label = fitted(text, float(row.end[at] - row.start[at]) * scale - 6, _SIZE)
        if len(label) >= min(len(text), _LEAST_LETTERS) > 0:
            yield (f"<text x='{x + 4:.1f}' y='{top + 13.5}' fill='#0c1016' stroke='#fff' stroke-opacity='.4' "
                   f"stroke-width='2' paint-order='stroke'>{escape(label)}</text>")


def _foot(notice: str, left_out: int, width: int, height: int) -> Iterator[str]:
    x, y = float(_LEFT), height - 8
    for phase, color in PHASE_COLORS.items():
        yield f"<rect x='{x:g}' y='{y - 9}' width='9' height='9' rx='2' fill='{color}'/>"
        yield f"<text x='{x + 13:g}' y='{y}'>{phase}</text>"
        x += 24 + drawn_width(phase, _SIZE)
    said = [text for text in (notice, f"{left_out} more lanes" if left_out else "") if text]
    if said:
        text = fitted("; ".join(said), width - x - 4, _SIZE)
        yield f"<text x='{width - 4}' y='{y}' text-anchor='end'>{escape(text)}</text>"


def _nice(span: float) -> float:
    """Round up to 1, 2 or 5 times a power of ten."""
    power = 10.0 ** np.floor(np.log10(max(span, 1.0)))
    return float(next(each * power for each in (1, 2, 5, 10) if each * power >= max(span, 1.0)))


def _tick(at: float, every: float) -> str:
    """Format a time in the unit of the distance between ticks."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if every * 10 >= size:
            return f"{at / size:.1f}".removesuffix(".0") + f" {unit}"
    return f"{at:g} ns"
