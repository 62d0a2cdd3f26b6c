"""The timeline as a static picture: SVG of bounded size for where no script runs."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kernelscope.analysis.columns import (
    Bools,
    Floats,
    Ints,
    codes,
    ints,
    matches,
    ran,
    row_count,
    unique_pairs,
)
from kernelscope.analysis.graphs import build_names, event_names, graph_runs, run_names
from kernelscope.palette import (
    CELL_COLOR,
    COMPILE_COLOR,
    COPY_COLOR,
    EVENT_COLOR,
    GRAPH_COLOR,
    KERNEL_COLORS,
    MEMSET_COLOR,
    PHASE_COLORS,
    RANGE_COLOR,
    UNSPLIT_COLOR,
    WAIT_COLOR,
)
from kernelscope.recording.model import Recording
from kernelscope.recording.redact import shareable
from kernelscope.schema import UNKNOWN
from kernelscope.units import counted, duration
from kernelscope.views.base import EXACT_LETTERS, drawn_width, escape, fitted
from kernelscope.views.timeline.model import ranked

#: The live timeline draws launches that were captured hollow, which strokes cannot be.
CAPTURED_COLOR = "#cdd3da"
# Of -2 and -1 too.
_ACTIVITY_COLORS = (*KERNEL_COLORS, COPY_COLOR, MEMSET_COLOR)

# A range's color comes from a file, and only a color may come into the picture.
_COLOR = re.compile(r"#[0-9a-fA-F]{6}")

#: How many lanes a picture draws at most; it says how many it leaves out.
MOST_LANES = 28
#: The extent of a recording without any time.
NOTHING = (0, 1)

_DEEPEST = 8


@dataclass(frozen=True)
class Part:
    """Spans of one color in a lane: absolute times in nanoseconds, int64, of one length."""

    color: str
    start: Ints
    end: Ints


@dataclass(frozen=True)
class Lane:
    """One row of the picture.

    Attributes
    ----------
    label : str
        What stands at its left.
    parts : tuple of Part
        What is drawn in it.
    start, end, name : ndarray of int64
        The spans that can bear a label, and each one's place in `words`.
    words : list of str
        Labels; they come from user code.
    """

    label: str
    parts: tuple[Part, ...]
    start: Ints
    end: Ints
    name: Ints
    words: list[str]


@dataclass(frozen=True)
class Lanes:
    """What a picture draws: from `start_ns` to `end_ns`, and how many lanes are left out."""

    lanes: tuple[Lane, ...]
    start_ns: int
    end_ns: int
    left_out: int


def lanes_of(recording: Recording, most: int = MOST_LANES) -> Lanes:
    """Return the picture's lanes: cells, ranges, host threads, graphs, and the GPU by device and stream."""
    start, end = extent(recording)
    found = [lane for make in (_cells, _ranges, _threads, _graphs, _streams) for lane in make(recording, end)]
    return Lanes(tuple(found[:most]), start, end, max(len(found) - most, 0))


def extent(recording: Recording) -> tuple[int, int]:
    """Return the first and the last time of the recording, in nanoseconds; an empty one lasts a nanosecond."""
    known: list[Ints] = []
    for table in ("cells", "launches", "compilations", "activities", "ranges", "api_calls", "graph_events", "builds"):
        for name in ("start_ns", "end_ns"):
            values = ints(recording, table, name)
            known.append(values[values >= 0])
    times = np.concatenate(known)
    if not len(times):
        return NOTHING
    first, last = int(times.min()), int(times.max())
    return first, max(last, first + 1)


def _cells(recording: Recording, last: int) -> Iterator[Lane]:
    rows = recording.rows("cells")
    if rows:
        words = [_cell_word(row["execution_count"], row["name"]) for row in rows]
        yield _plain("cells", recording, "cells", np.ones(len(rows), np.bool_), last, CELL_COLOR,
                     np.arange(len(rows), dtype=np.int64), words)


def _cell_word(number: int | None, name: str | None) -> str:
    return " ".join(part for part in (f"In [{number}]" if number is not None else "", name or "") if part)


def _ranges(recording: Recording, last: int) -> Iterator[Lane]:
    rows = recording.rows("ranges")
    if not rows:
        return
    start = ints(recording, "ranges", "start_ns")
    end = ints(recording, "ranges", "end_ns")
    thread = ints(recording, "ranges", "thread_id")
    domain, domains = codes(recording, "ranges", "domain")
    colors = np.array([row["color"] if _COLOR.fullmatch(row["color"] or "") else RANGE_COLOR for row in rows],
                      dtype=object)
    mark = matches(recording, "ranges", "kind", "mark")
    words = [str(row["name"]) for row in rows]
    begin = np.where(start >= 0, start, 0)
    finish = np.where(mark, start, np.where(end >= 0, end, last))
    for which in np.unique(domain).tolist():
        of = np.flatnonzero(domain == which)
        called = domains[which] if which >= 0 else ""
        for place, row in enumerate(_packed(begin[of], finish[of], thread[of])):
            at = of[row]
            label = f"NVTX {called}".rstrip() if place == 0 else ""
            parts = tuple(Part(str(color), begin[at[colors[at] == color]], finish[at[colors[at] == color]])
                          for color in dict.fromkeys(colors[at].tolist()))
            yield Lane(label, parts, begin[at], finish[at], at, words)


def _packed(start: Ints, end: Ints, thread: Ints) -> list[Ints]:
    """Rows of intervals that do not overlap in a row, the outer ones first; there are few ranges, so a loop will do."""
    rows: list[list[int]] = []
    ends: list[int] = []
    for at in np.lexsort((-end, start)).tolist():
        place = next((row for row, until in enumerate(ends) if until <= start[at]), None)
        if place is None:
            place = len(rows)
            rows.append([])
            ends.append(0)
        rows[place].append(at)
        ends[place] = int(end[at])
    return [np.array(row, dtype=np.int64) for row in rows]


def _threads(recording: Recording, last: int) -> Iterator[Lane]:
    thread = ints(recording, "launches", "thread_id")
    compile_thread = ints(recording, "compilations", "thread_id")
    depth = _depth(ints(recording, "launches", "parent_launch_id"))
    names = {int(row["thread_id"]): str(row["name"] or "") for row in recording.rows("threads")}
    dispatcher = ints(recording, "launches", "dispatcher_id")
    words = [str(row["name"]) for row in recording.rows("dispatchers")]
    waits = matches(recording, "activities", "kind", "sync")
    waiting = ints(recording, "activities", "thread_id")
    known = ints(recording, "graph_events", "start_ns") >= 0
    for_graphs, building = ints(recording, "graph_events", "thread_id"), ints(recording, "builds", "thread_id")
    used = [each[each >= 0] for each in (thread, compile_thread, for_graphs[known], building, waiting[waits])]
    size = max(int(each.max(initial=0)) for each in used) + 1
    for which in np.flatnonzero(sum(np.bincount(each, minlength=size) for each in used)).tolist():
        label = names.get(which) or f"thread {which}"
        of = thread == which
        for row in np.flatnonzero(np.bincount(depth[of])).tolist():
            yield _launch_lane(label, recording, of & (depth == row), last, dispatcher, words)
            label = ""
        of = compile_thread == which
        if of.any():
            compiled = ints(recording, "compilations", "dispatcher_id")
            yield _plain(label or "compiles", recording, "compilations", of, last, COMPILE_COLOR, compiled, words)
            label = ""
        of = known & (for_graphs == which)
        if of.any():
            named, called = event_names(recording)
            yield _plain(label or "graphs", recording, "graph_events", of, last, EVENT_COLOR, named, called)
            label = ""
        of = building == which
        if of.any():
            found = build_names(recording)
            yield _plain(label or "build caches", recording, "builds", of, last, COMPILE_COLOR,
                         np.arange(len(found)), found)
            label = ""
        of = waits & (waiting == which)
        if of.any():
            code, spoken = codes(recording, "activities", "name")
            yield _plain(label or "waits", recording, "activities", of, last, WAIT_COLOR, code, spoken)


def _depth(parent: Ints) -> Ints:
    depth = np.zeros(len(parent), dtype=np.int64)
    above = parent.copy()
    while (held := above >= 0).any() and depth.max(initial=0) < _DEEPEST:
        depth[held] += 1
        above = np.where(held, parent[np.where(held, above, 0)], -1)
    return depth


def _launch_lane(label: str, recording: Recording, of: Bools, last: int, name: Ints, words: list[str]) -> Lane:
    """Launches of one thread and depth, with their phases; a boundary that is unknown gives its time to the next."""
    which = slice(None) if of.all() else of
    start, end, dispatch_end, submit_start, submit_end, compiling = (
        ints(recording, "launches", column)[which]
        for column in ("start_ns", "end_ns", "dispatch_end_ns", "submit_start_ns", "submit_end_ns", "compile_ns"))
    end = np.where(end >= 0, end, last)
    split = dispatch_end >= 0
    dispatched = np.minimum(np.maximum(dispatch_end, start), end)
    submitting = np.minimum(np.maximum(submit_start, dispatched), end)
    submitted = np.minimum(np.maximum(submit_end, submitting), end)
    compiled = np.maximum(dispatched - np.maximum(compiling, 0), start)
    edges = [start, compiled, dispatched, submitting, submitted, end]
    run = ran(recording)[which]
    whole = Part(UNSPLIT_COLOR, start[~split & run], end[~split & run])
    captured = Part(CAPTURED_COLOR, start[~run], end[~run])
    if not (split & run).all():
        edges = [edge[split & run] for edge in edges]
    parts = [Part(PHASE_COLORS[phase], edges[place], edges[place + 1]) for place, phase in enumerate(PHASE_COLORS)]
    parts = [part for part in (*parts, whole, captured) if len(part.start)]
    return Lane(label, tuple(parts), start, end, name[which], words)


def _graphs(recording: Recording, last: int) -> Iterator[Lane]:
    runs = graph_runs(recording)
    of = np.flatnonzero((runs.start >= 0) & (runs.end >= 0))
    if len(of):
        begin, finish = runs.start[of], runs.end[of]
        name, words = run_names(recording, runs)
        yield Lane("graph launches", (Part(GRAPH_COLOR, begin, finish),), begin, finish, name[of], words)


def _streams(recording: Recording, last: int) -> Iterator[Lane]:
    if not row_count(recording, "activities"):
        return
    device = ints(recording, "activities", "device_id")
    stream = ints(recording, "activities", "stream")
    start = ints(recording, "activities", "start_ns")
    end = ints(recording, "activities", "end_ns")
    name, words = codes(recording, "activities", "name")
    kernel = matches(recording, "activities", "kind", "kernel")
    shown = ~matches(recording, "activities", "kind", "sync") & (start >= 0)
    lasted = np.where(kernel & shown & (end >= 0), np.maximum(end - start, 0), 0)
    end = np.where(end >= 0, end, last)
    color = np.where(kernel, np.maximum(ranked(name, lasted, len(words))[0], 0) % len(KERNEL_COLORS),
                     np.where(matches(recording, "activities", "kind", "memcpy"), -2, -1))
    ordinals = {int(row["device_id"]): row["ordinal"] for row in recording.rows("devices")}
    pair, of_pair = unique_pairs(np.where(shown, device + 1, UNKNOWN), stream + 1)
    several = len(np.unique(pair[:, 0])) > 1
    for place, (on, of_stream) in enumerate((pair - 1).tolist()):
        of = np.flatnonzero(of_pair == place)
        label = f"GPU {ordinals.get(on, on)}, " if several else "GPU "
        begin, finish, inks = start[of], end[of], color[of]
        parts = tuple(Part(_ACTIVITY_COLORS[ink], begin[inks == ink], finish[inks == ink])
                      for ink in np.unique(inks).tolist())
        yield Lane(f"{label}stream {of_stream}" if of_stream >= 0 else f"{label}no stream", parts, begin, finish,
                   name[of], words)


def _plain(label: str, recording: Recording, table: str, of: Bools, last: int, color: str, name: Ints,
           words: list[str]) -> Lane:
    """A lane of one color; an unknown end is the recording's."""
    start = ints(recording, table, "start_ns")[of]
    end = ints(recording, table, "end_ns")[of]
    end = np.where(end >= 0, end, last)
    return Lane(label, (Part(color, start, end),), start, end, name[of], words)


# The timeline as a static picture: SVG of bounded size for where no script runs.
#
# It stands in a saved notebook in the live timeline's place. Its ground is transparent and its inks are readable on
# white and on black, so that it needs to know no theme; spans are drawn by columns of pixels, so that a million of
# them take no more bytes than what can be seen.

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
