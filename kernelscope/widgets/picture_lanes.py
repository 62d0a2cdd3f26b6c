"""The lanes of the timeline's static picture, as data: which spans there are, their colors and their labels."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kernelscope.analysis.columns import Bools, Ints, codes, ints, matches, ran, row_count, unique_pairs
from kernelscope.analysis.graph_names import build_names, event_names, run_names
from kernelscope.analysis.graph_runs import graph_runs
from kernelscope.recording.model import Recording
from kernelscope.renderers.style import PHASE_COLORS
from kernelscope.schema import UNKNOWN
from kernelscope.widgets.packing_rows import ranked

# The colors of the live timeline (static/colors.js); a test compares them.
KERNEL_COLORS = ("#3f7fc4", "#e0a33a", "#1f9e89", "#c77bb5", "#5a6fb0", "#d1744a", "#74b3c9", "#8d8a3f", "#9a7fd1",
                 "#b9a58a")
COPY_COLOR = "#6f8f9f"
MEMSET_COLOR = "#98a39f"
CELL_COLOR = "#9aa7b8"
COMPILE_COLOR = PHASE_COLORS["compile"]
WAIT_COLOR = "#c9a9c0"
GRAPH_COLOR = "#6b9f7f"
EVENT_COLOR = "#4f8f8b"
RANGE_COLOR = "#76a88f"
WHOLE_COLOR = "#9aa0a8"
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
    whole = Part(WHOLE_COLOR, start[~split & run], end[~split & run])
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
