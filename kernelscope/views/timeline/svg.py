"""The timeline as static SVG of bounded size, for where no script runs.

A saved notebook shows it in place of the live timeline, with the same lanes, names and colors. It is as wide as the
page: what lies in time is placed in shares of the width, texts keep their size. It has its own ground, light or dark as
the reader prefers. Spans are drawn by columns, so that a million of them take no more bytes than what can be seen;
where many of them share a column, a strip above the lane counts them, which tells 2,000 short launches from a single
long one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kernelscope.analysis.columns import Bools, Floats, Ints
from kernelscope.palette import OTHER_COLOR, PHASE_COLORS, SAMPLE_COLOR
from kernelscope.units import counted, duration
from kernelscope.views import html
from kernelscope.views.base import EXACT_LETTERS, drawn_width, escape, fitted
from kernelscope.views.parts import phase_label
from kernelscope.views.timeline.model import (
    BUSY_COLORS,
    NO_END,
    TITLES,
    Lane,
    Process,
    Segment,
    Slices,
    Timeline,
    Track,
    Words,
)
from kernelscope.views.timeline.wire import SENT

#: The live timeline draws launches that were captured hollow, which strokes cannot be.
CAPTURED_COLOR = "#cdd3da"
#: How many rows a picture draws at most, and how many processes where it draws these alone; it says how many it
#: leaves out.
MOST_ROWS, MOST_PROCESSES = 28, 64
#: Bytes that a picture takes at most, about: where it would take more, it is drawn by coarser columns.
MOST_BYTES = 60_000
#: Columns that the time is drawn in: a pixel or two each, on pages of 700 to 1,600 pixels.
COLUMNS = 720

# Texts and grounds for readers who prefer light or dark: a contrast of more than 4.5:1.
_STYLE = (
    ".ksp-ground{fill:#fff}.ksp{fill:#57606a}.ksp line{stroke:#57606a}.ksp .ksp-cut{stroke:#fff}"
    ".ksp-many{fill-opacity:.72}"
    "@media(prefers-color-scheme:dark){.ksp-ground{fill:#16191d}.ksp{fill:#a0a8b2}.ksp line{stroke:#a0a8b2}"
    ".ksp .ksp-cut{stroke:#16191d}}"
    "@media(min-width:1000px){.ksp-near{display:none}}@media(max-width:999.9px){.ksp-far{display:none}}"
)
# Right of the lanes' names is the plot, and right of that a margin.
_LEFT, _RIGHT = 132, 8
# Plots of pages 700 and 1,000 pixels wide, which decide how much of a name a span has room for.
_NEAR, _FAR = 560, 860
_TOP = 24
_ROW, _THIN = 20, 14
_BAR = 15
_LINE = 17
# The strip of a lane with many spans: its height, and the columns of one of its bars.
_STRIP, _WIDE = 13, 4
_SIZE, _SMALL = 11, 10
_FONT = f"font-family='system-ui,-apple-system,Segoe UI,sans-serif' font-size='{_SIZE}' {EXACT_LETTERS}"
_MOST_LABELS = 60
_LEAST_LETTERS, _LEAST_ROOM = 6, 24.0
# From this many spans on that begin in one bar of the strip, a lane has one.
_MANY = 3
_SHADES = (0.5, 0.75, 1.0)
_BARELY = 1e-6
_NOTHING = "nothing was recorded"
_NONE = np.empty(0, dtype=np.int64)
_OF_PROCESSES = {"host in launches": BUSY_COLORS["launches"], "compiling": BUSY_COLORS["compiles"],
                 "GPU busy": BUSY_COLORS["gpu"]}


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
    below : tuple of Part or None
        Of a process: what is drawn in the lower half, its GPUs; None for a row of a lane.
    is_thin : bool
        Whether it is one of many processes.
    area : Track or None
        The track of samples that it draws.
    """

    label: str
    parts: tuple[Part, ...]
    start: Ints
    end: Ints
    names: Words
    below: tuple[Part, ...] | None = None
    is_thin: bool = False
    area: Track | None = None


def picture(timeline: Timeline, columns: int = COLUMNS) -> str:
    """Return a timeline as an SVG document as wide as what it is shown in.

    Parameters
    ----------
    timeline : Timeline
        What to draw: of a recording as it may be shared.
    columns : int
        Columns that the time is drawn in.

    Returns
    -------
    str
        An ``<svg>`` element that runs no script and loads nothing; names from user code are escaped.
    """
    return _picture(timeline, columns)[0]


def _picture(timeline: Timeline, columns: int = COLUMNS) -> tuple[str, int]:
    """Return the SVG document and its height in pixels."""
    rows, left_out = _rows(timeline)
    least = columns // 16
    while True:
        drawn, height = _drawn(timeline, rows, left_out, columns)
        if len(drawn) <= MOST_BYTES or columns <= least:
            return drawn, height
        columns //= 2


def _rows(timeline: Timeline) -> tuple[list[Row], str]:
    """Return what is drawn, and how much is not: rows of lanes, below those of their process; or of processes alone."""
    if timeline.is_folded:
        shown = timeline.processes[:MOST_PROCESSES]
        is_thin = len(shown) > MOST_ROWS
        return ([_busy(timeline, each, is_thin) for each in shown],
                _more(len(timeline.processes) - len(shown), "process", "processes"))
    launches, rows, left_out = _Launches(timeline), list[Row](), 0
    heads = {each.number: each for each in timeline.processes}
    for lane in timeline.lanes:
        tracks = [track for track in lane.tracks if track.table in SENT]
        if tracks and lane.process in heads:
            rows.append(_busy(timeline, heads.pop(lane.process)))
        room = max(MOST_ROWS - len(rows), 0)
        rows += [_row(timeline, lane, track, launches) for track in tracks[:room]]
        left_out += len(tracks[room:])
    return rows, _more(left_out, "lane", "lanes")


def _more(number: int, one: str, several: str) -> str:
    return f"{number:,} more {one if number == 1 else several}" if number else ""


def _busy(timeline: Timeline, process: Process, is_thin: bool = False) -> Row:
    """Return how busy a process was as a row: its host above, its GPUs below."""
    found = timeline.busy(process.number)
    upper, lower = ([Part(BUSY_COLORS[table], held.start, held.end) for table, held in found.items()
                     if (table == "gpu") is is_gpu and len(held)] for is_gpu in (False, True))
    machines = {each.host for each in timeline.processes}
    label = f"{process.host} {process.label}" if len(machines) > 1 else process.label
    return Row(label.strip(), tuple(upper), _NONE, _NONE, Words(_NONE, []), tuple(lower), is_thin)


def image(timeline: Timeline) -> str:
    """Return the static SVG as an ``<img>`` of HTML, as wide as the page; texts in it keep their size."""
    drawn, height = _picture(timeline)
    # The attributes are for pages that take styles away.
    style = f"display: block; width: 100%; max-width: none; height: {height}px; break-inside: avoid"
    return html.image(drawn, describe(timeline), style, f'width="100%" height="{height}"')


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
            if track.kind == "area":
                means = timeline.means(track, np.linspace(0, max(timeline.span_ns, 1), columns + 1))
                yield track, {SAMPLE_COLOR: np.nan_to_num(means) / 100}
            elif track.table in SENT:
                parts = _row(timeline, lane, track, launches).parts
                yield track, {part.color: edges.busy(part) for part in parts}


def busy_shares(timeline: Timeline, columns: int) -> Iterator[dict[str, Floats]]:
    """Yield for each process the share of each column of the whole time in which it was busy, by color."""
    for process in timeline.processes:
        edges, row = _Edges(max(timeline.span_ns, 1), columns), _busy(timeline, process)
        yield {part.color: edges.busy(part) for part in (*row.parts, *(row.below or ()))}


def _row(timeline: Timeline, lane: Lane, track: Track, launches: _Launches) -> Row:
    """Return a track's spans by color; launches are split by phase."""
    if track.kind == "area":
        return Row(lane.note, (), _NONE, _NONE, Words(_NONE, []), area=track)
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


def _drawn(timeline: Timeline, rows: list[Row], left_out: str, columns: int) -> tuple[str, int]:
    span = max(timeline.span_ns, 1)
    edges = _Edges(span, columns)
    counts = [_begun(row.start, span, columns) for row in rows]
    tops = np.cumsum([_TOP, *((_THIN if row.is_thin else _ROW) + _STRIP * (each is not None)
                              for row, each in zip(rows, counts, strict=True))]).tolist()
    outside: list[str] = []
    inside = [*_axis(span, tops[-1])] if rows else [f"<text x='0' y='16'>{_NOTHING}</text>"]
    bars: list[str] = []
    for row, many, top, bottom in zip(rows, counts, tops, tops[1:], strict=False):
        outside += _gutter(row, many, top, bottom)
        if many is not None:
            bars += _strip(many, top + 1)
        high = bottom - top - 5 if row.is_thin else _BAR
        middle = bottom - 3 - high / 2
        if row.area is not None:
            bars += _area(timeline.means(row.area, np.linspace(0, span, columns + 1)), bottom - 3)
        elif row.below is None:
            bars += _bars(row.parts, edges, middle)
        else:
            bars += _bars(row.parts, edges, middle - high / 4 - 0.5, high / 2)
            bars += _bars(row.below, edges, middle + high / 4 + 0.5, high / 2)
        inside += _labels(row, span, bottom - _ROW)
    is_dense = any(each is not None for each in counts)
    launches = timeline.tables["launches"]
    rare = {"compile_wait": launches.compiling and launches.compiling[1], "measuring": launches.measuring}
    legend = _OF_PROCESSES if timeline.is_folded else {
        phase_label(phase): color for phase, color in PHASE_COLORS.items()
        if phase not in rare or ((held := rare[phase]) is not None and bool((held > 0).any()))}
    foot = [*_foot(legend, _remarks(timeline, left_out, span / columns if is_dense else 0.0), tops[-1])]
    height = tops[-1] + _LINE * len(foot) + 9
    title = escape(describe(timeline))
    # SVG alone has no width that is all but some pixels; HTML in it has.
    plot = (
        f"<foreignObject width='100%' height='{height}'><div xmlns='http://www.w3.org/1999/xhtml' "
        f"style='margin: 0 {_RIGHT}px 0 {_LEFT}px'><svg xmlns='http://www.w3.org/2000/svg' width='100%' "
        f"height='{height}' style='display: block; overflow: visible'><svg width='100%' height='{height}' "
        f"viewBox='0 0 {columns} {height}' preserveAspectRatio='none'>{''.join(bars)}</svg>{''.join(inside)}</svg>"
        "</div></foreignObject>"
    )
    return (f"<svg xmlns='http://www.w3.org/2000/svg' width='100%' height='{height}' class='ksp' role='img' {_FONT}>"
            f"<title>{title}</title><style>{_STYLE}</style>"
            f"<rect class='ksp-ground' width='100%' height='{height}' rx='6'/>"
            f"{''.join(outside)}{plot}{''.join(foot)}</svg>"), height


def _axis(span: int, bottom: int) -> Iterator[str]:
    """Draw the axis: lines and times from 0, the start of the recording."""
    every = _nice(span / (_NEAR // 80))
    at = 0.0
    while at <= span:
        share = 100 * at / span
        x = f"{share:.5g}%"
        yield f"<line x1='{x}' x2='{x}' y1='{_TOP - 5}' y2='{bottom}' stroke-opacity='.28'/>"
        text = _tick(at, every)
        is_last = share / 100 * _NEAR + 3 + drawn_width(text, _SIZE) > _NEAR
        yield f"<text x='{x}' dx='{-3 if is_last else 3}' y='13'{_END if is_last else ''}>{text}</text>"
        at += every


_END = " text-anchor='end'"


def _gutter(row: Row, many: Ints | None, top: int, bottom: int) -> Iterator[str]:
    """Draw a row's name left of the plot, below it how many there are where that cannot be seen, and a line below."""
    size = _SMALL if row.is_thin else _SIZE
    label = fitted(row.label, _LEFT - 12, size)
    if label:
        small = f" font-size='{size}'" if row.is_thin else ""
        yield f"<text x='{_LEFT - 8}' y='{top + (10 if row.is_thin else 13)}'{small}{_END}>{escape(label)}</text>"
    if many is not None:
        text = fitted(f"{len(row.start):,} · max {int(many.max()):,}", _LEFT - 12, _SMALL)
        y = top + 27 if label else top + 20
        yield f"<text x='{_LEFT - 8}' y='{y}' font-size='{_SMALL}'{_END}>{text}</text>"
    yield f"<line x1='{_LEFT}' x2='100%' y1='{bottom - .5}' y2='{bottom - .5}' stroke-opacity='.16'/>"


def _begun(start: Ints, span: int, columns: int) -> Ints | None:
    """Return how many spans begin in each bar of a strip; None where they are few enough to be told apart."""
    bars = -(-columns // _WIDE)
    place = np.clip(start * (columns / span / _WIDE), 0, bars - 1).astype(np.int64)
    counts = np.bincount(place, minlength=bars)
    return counts if counts.max(initial=0) >= _MANY else None


def _strip(counts: Ints, top: int) -> Iterator[str]:
    """Draw how many spans began as bars from below; a single one is still seen."""
    heights = np.where(counts > 0, np.maximum(np.round(counts / counts.max() * (_STRIP - 1)), 2), 0).astype(np.int64)
    starts = np.flatnonzero(np.diff(heights, prepend=0))
    pieces = [f"M0 {top + _STRIP}"]
    at = level = 0
    for place in starts.tolist():
        if place > at:
            pieces.append(f"h{(place - at) * _WIDE}")
        pieces.append(f"v{level - int(heights[place])}")
        at, level = place, int(heights[place])
    pieces.append(f"h{(len(heights) - at) * _WIDE}V{top + _STRIP}z")
    yield f"<path class='ksp-many' d='{''.join(pieces)}'/>"


def _bars(parts: tuple[Part, ...], edges: _Edges, middle: float, high: float = _BAR) -> Iterator[str]:
    """Draw one stroke for each color and shade, in the columns where the color takes most time."""
    if not parts:
        return
    # What is too short to fill any share of its column is seen nevertheless.
    busy = np.stack([edges.busy(part) for part in parts])
    seen = np.stack([edges.begun(part) for part in parts])
    most = (busy + _BARELY * seen).argmax(axis=0)
    share = busy.sum(axis=0) + _BARELY * seen.any(axis=0)
    shade = np.digitize(share, (0.34, 0.67))
    code = np.where(share > 0, most * len(_SHADES) + shade, -1)
    starts = np.flatnonzero(np.diff(code, prepend=-2))
    ends = np.append(starts[1:], len(code))
    for value in np.unique(code[code >= 0]).tolist():
        which = code[starts] == value
        color, opacity = parts[value // len(_SHADES)].color, _SHADES[value % len(_SHADES)]
        faint = "" if opacity == 1 else f" stroke-opacity='{opacity:g}'"
        path = _path(starts[which], ends[which], middle)
        yield f"<path d='{path}' stroke='{escape(color)}' stroke-width='{high:g}'{faint}/>"


def _path(starts: Ints, ends: Ints, middle: float) -> str:
    """Return horizontal strokes as a path in relative coordinates, the shortest form."""
    gaps = np.diff(starts, prepend=0)
    gaps[1:] = starts[1:] - ends[:-1]
    pieces = [f"M{starts[0]} {middle:g}h{ends[0] - starts[0]}"]
    lengths = (ends - starts).tolist()
    pieces += [f"m{gap} 0h{length}" for gap, length in zip(gaps[1:].tolist(), lengths[1:], strict=True)]
    return "".join(pieces)


def _area(means: Floats, bottom: float) -> Iterator[str]:
    """Draw means of columns as an area of steps over a pale one of 100 %; nothing where there is no mean."""
    known = ~np.isnan(means)
    heights = np.where(known, np.round(np.round(np.nan_to_num(means), 6) / 100 * _BAR * 2) / 2, -1)
    yield f"<path d='{_steps(np.where(known, _BAR, -1), bottom)}' fill='{SAMPLE_COLOR}' fill-opacity='.2'/>"
    yield f"<path d='{_steps(heights, bottom)}' fill='{SAMPLE_COLOR}'/>"


def _steps(heights: Floats, bottom: float) -> str:
    """Return the outline of columns of these heights as a path; -1 is no column."""
    starts = np.flatnonzero(np.diff(heights, prepend=-2))
    pieces, is_open = list[str](), False
    for at, until in zip(starts.tolist(), [*starts[1:].tolist(), len(heights)], strict=True):
        high = heights[at]
        if high >= 0:
            pieces.append(("" if is_open else f"M{at} {bottom:g}") + f"V{bottom - high:g}h{until - at}")
        elif is_open:
            pieces.append(f"V{bottom:g}z")
        is_open = high >= 0
    return "".join(pieces) + (f"V{bottom:g}z" if is_open else "")


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


def _labels(row: Row, span: int, top: int) -> Iterator[str]:
    """Draw names on spans that are wide enough on a wide page, the widest first; on a narrow page what has room."""
    took = row.end - row.start
    wide = np.flatnonzero(took * (_FAR / span) >= _LEAST_ROOM)
    for at in wide[np.argsort(-took[wide], kind="stable")][:_MOST_LABELS].tolist():
        x = f"{100 * float(row.start[at]) / span:.5g}%"
        if at and row.start[at] - row.end[at - 1] < span / COLUMNS:
            yield f"<line x1='{x}' x2='{x}' y1='{top + 2}' y2='{top + 2 + _BAR}' class='ksp-cut'/>"
        place = int(row.names.codes[at])
        text = row.names.values[place] if place >= 0 else ""
        near, far = (_shortened(text, float(took[at]) / span * plot - 6) for plot in (_NEAR, _FAR))
        shown = [("", far)] if near == far else [(" class='ksp-near'", near), (" class='ksp-far'", far)]
        for kind, label in shown:
            if label:
                yield (f"<text x='{x}' dx='4' y='{top + 13.5}' fill='#0c1016' "
                       f"stroke='#fff' stroke-opacity='.4' stroke-width='2' paint-order='stroke'{kind}>"
                       f"{escape(label)}</text>")


def _shortened(text: str, room: float) -> str:
    """Return as much of a name as has room, if that is enough to be read; an empty string otherwise."""
    label = fitted(text, room, _SIZE) if room + 6 >= _LEAST_ROOM else ""
    return label if len(label) >= min(len(text), _LEAST_LETTERS) else ""


def _remarks(timeline: Timeline, left_out: str, column_ns: float) -> list[str]:
    """Return what is to say below the lanes; `column_ns` is the length of a column where lanes have strips."""
    strips = f"bars above a lane: how many began in each {duration(round(_WIDE * column_ns))}" if column_ns else ""
    is_mixed = timeline.processes and not timeline.is_folded
    busy = "rows of processes: how busy the host was in launches, and below the GPUs" if is_mixed else ""
    is_sampled = not timeline.is_folded and len(timeline.tables["samples"]) > 0
    areas = "areas: the GPU's counters, 0 to 100 %" if is_sampled else ""
    worst = max(timeline.processes, key=lambda each: each.bound_ns or 0, default=None)
    clock = (f"times of processes can be off by up to ±{duration(worst.bound_ns)} ({worst.label})"
             if worst is not None and worst.bound_ns else "")
    return [text for text in (timeline.notice, strips, areas, busy, clock, left_out) if text]


def _foot(named: Mapping[str, str], remarks: list[str], top: int) -> Iterator[str]:
    """Draw the legend of colors, and below it each remark: a line each."""
    x, y = float(_LEFT), top + _LINE
    legend: list[str] = []
    for phase, color in named.items():
        legend.append(f"<rect x='{x:g}' y='{y - 9}' width='9' height='9' rx='2' fill='{color}'/>")
        legend.append(f"<text x='{x + 13:g}' y='{y}'>{phase}</text>")
        x += 24 + drawn_width(phase, _SIZE)
    yield "".join(legend)
    for place, text in enumerate(remarks, start=1):
        yield f"<text x='{_LEFT}' y='{y + place * _LINE}'>{escape(fitted(text, _NEAR, _SIZE))}</text>"


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
