"""The timeline as trace files draw it: lanes of slices, with everything that is known of each slice.

A lane is one row of one track. Its slices either stand one behind the other, each with parts inside it (a launch with
its phases), or they nest (ranges, cells, compiles). What overlaps otherwise is put into further rows, because trace
viewers nest whatever overlaps on one row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby
from typing import Any, cast

import numpy as np

from kernelscope.analysis.columns import Bools, Floats, Ints, ints, row_count, rows_by
from kernelscope.schema import MAX_TIME_NS, UNKNOWN
from kernelscope.views.base import clean
from kernelscope.views.frames import frame_of_line
from kernelscope.views.timeline.build import combinations, first_free_rows
from kernelscope.views.timeline.model import (
    GROUPS,
    LABELS,
    NO_END,
    NO_START,
    PARTS,
    TITLES,
    Column,
    Lane,
    Process,
    Slices,
    Timeline,
    Track,
    Words,
)

#: The end of a slice that was still open when recording ended.
OPEN = int(np.iinfo(np.int64).max)

#: So many rows a lane has; what overlaps more deeply is a point in one more. Rows for all of it may be as many as
#: there are slices, which no viewer draws.
MOST_LEVELS = 256

#: What a slice is annotated with.
Arguments = Mapping[str, "str | int | float"]

# From the top of a lane down, and those of them whose slices lie inside each other.
_TABLES = ("cells", "waits", "ranges", "launches", "compiles", "passes", "untimed", "events", "builds", "calls",
           "collections", "graphs", "gpu", "samples")
#: Tables of the recording that slices are rows of, and that have call paths.
_RECORDED = {"launches": "launches", "compiles": "compilations", "gpu": "activities"}
_NESTED = ("cells", "waits", "ranges", "compiles", "passes", "events", "builds")
_ABOUT = {"untimed": "The framework keeps the durations of its passes only: they are drawn in order from the compile's "
                     "start.",
          "samples": "A share of the peak, 0 to 100 %; 0 also where samples were lost."}
_UNSEEN = {NO_START: ("start", "before recording, or not measured"), NO_END: ("end", "not recorded")}


@dataclass(frozen=True)
class TraceTrack:
    """A line of the viewer, or a group of lines.

    Attributes
    ----------
    path : tuple of str
        Keys from the outermost group to this track, each unique in its group.
    name : str
        What is shown.
    rank : int
        Its place among its siblings.
    about : str
        A sentence more about it.
    """

    path: tuple[str, ...]
    name: str
    rank: int = 0
    about: str = ""


@dataclass(frozen=True)
class Part:
    """One part of every slice of a lane, such as a phase: it lies inside the slice, behind the part before it.

    Attributes
    ----------
    name : str
        What it is called.
    start, end : ndarray of int64
        One value a slice, in nanoseconds; -1 where the slice has no such part.
    inner : tuple of Part
        The parts inside this one, in order of time.
    """

    name: str
    start: Ints
    end: Ints
    inner: tuple[Part, ...] = ()

    def take(self, which: Ints | slice) -> Part:
        """Return the part of the slices `which`."""
        inner = tuple([part.take(which) for part in self.inner])
        return Part(self.name, self.start[which], self.end[which], inner)

    def without(self, which: Bools) -> Part:
        """Return the part, which the slices `which` do not have."""
        start, end = (np.where(which, UNKNOWN, times) for times in (self.start, self.end))
        return Part(self.name, start, end, tuple([part.without(which) for part in self.inner]))


@dataclass(frozen=True)
class StackFrames:
    """The frames of call paths: for each the one that called it (-1 for none), and its label's place in `labels`."""

    parent: Ints
    label: Ints
    labels: list[str]

    def path(self, stack: int) -> list[int]:
        """Return the labels of a call path by their places, the outermost frame first."""
        found: list[int] = []
        while stack >= 0:
            found.append(int(self.label[stack]))
            stack = int(self.parent[stack])
        return found[::-1]


@dataclass(frozen=True)
class TraceSlices:
    """Slices by column; all arrays have one value a slice.

    Attributes
    ----------
    start, end : ndarray of int64
        Nanoseconds of the trace's clock, none below 0: see `clock_of`. `end` is `OPEN` where the slice was never
        closed, and less than `start` for an instant.
    names, categories : Words
        What they are called, and of what kind they are.
    details : Words or None
        Codes of `described`.
    described : callable
        Gives the arguments for a code of `details`.
    numbers : mapping of str to ndarray of int64
        Arguments that differ from slice to slice; -1 where a slice has none.
    flow_out, flow_in : ndarray of int64 or None
        Number of the arrow that begins or ends at the slice; 0 for none.
    parts : tuple of Part
        What is inside each slice, in order; only for slices that do not nest.
    stacks : ndarray of int64 or None
        Each slice's call path: its innermost frame in `frames`; -1 for none.
    frames : StackFrames or None
        The frames of all call paths.
    values : ndarray of float64 or None
        Of samples: percents, NaN where samples were lost.
    """

    start: Ints
    end: Ints
    names: Words
    categories: Words
    details: Words | None = None
    described: Callable[[int], Arguments] = lambda code: {}
    numbers: Mapping[str, Ints] = field(default_factory=dict[str, Ints])
    flow_out: Ints | None = None
    flow_in: Ints | None = None
    parts: tuple[Part, ...] = ()
    stacks: Ints | None = None
    frames: StackFrames | None = None
    values: Floats | None = None

    def __len__(self) -> int:
        return len(self.start)

    def take(self, which: Ints | slice) -> TraceSlices:
        """Return the slices `which`, in that order; for a `slice` without a copy."""
        return replace(
            self, start=self.start[which], end=self.end[which], names=self.names.take(which),
            categories=self.categories.take(which), details=None if self.details is None else self.details.take(which),
            numbers={name: values[which] for name, values in self.numbers.items()},
            flow_out=None if self.flow_out is None else self.flow_out[which],
            flow_in=None if self.flow_in is None else self.flow_in[which],
            parts=tuple(part.take(which) for part in self.parts),
            stacks=None if self.stacks is None else self.stacks[which],
            values=None if self.values is None else self.values[which],
        )

    def as_points(self, which: Bools) -> TraceSlices:
        """Return the slices, those of `which` without durations and parts."""
        return replace(self, end=np.where(which, self.start - 1, self.end),
                       parts=tuple(part.without(which) for part in self.parts))

    def steps(self) -> tuple[Ints, Floats]:
        """Return when the values of samples change, and what they are from then on: 0 where there is no sample."""
        ends = np.flatnonzero(np.append(self.end[:-1] < self.start[1:], True))
        times, values = np.concatenate((self.start, self.end[ends])), np.append(
            np.zeros(0) if self.values is None else np.nan_to_num(self.values), np.zeros(len(ends)))
        order = np.argsort(times, kind="stable")
        return times[order], values[order]


@dataclass(frozen=True)
class TraceLane:
    """One row of one track.

    Attributes
    ----------
    track : TraceTrack
        Where it is drawn.
    slices : Slices
        In order of start; of those that start together the longest first.
    nested : bool
        Whether slices lie inside each other. Otherwise each starts when the one before it has ended.
    groups : tuple of TraceTrack
        What the track is in, from the outermost on.
    """

    track: TraceTrack
    slices: TraceSlices
    nested: bool = False
    groups: tuple[TraceTrack, ...] = ()

    def events(self) -> tuple[Ints, Bools]:
        """Return which slice begins or ends at each event of a nested lane, in order, and whether it ends.

        Instants and slices that are still open have no end.
        """
        return _nested_events(self.slices.start.tolist(), self.slices.end.tolist())


def clock_of(timeline: Timeline) -> tuple[dict[str, Any], int]:
    """Return the recording's clock as a trace has it, and the timeline's first instant on it.

    Trace formats have no times below zero: where a recording has some, all are moved by as much as that takes, and the
    clock's own ``host_ns`` too, so that it still says where they stand in wall time.
    """
    held = timeline.recording.metadata.get("clock")
    clock = dict(cast("dict[str, Any]", held)) if isinstance(held, dict) else {}
    first, host = timeline.first_ns, clock.get("host_ns")
    if not isinstance(host, int) or abs(host) > MAX_TIME_NS:
        return clock, max(first, 0)
    shift = max(0, -min(first, host))
    return {**clock, "host_ns": host + shift}, first + shift


def lanes(timeline: Timeline) -> Iterator[TraceLane]:
    """Yield every lane that has something in it, group by group, each group's as a whole."""
    tables = _Tables(timeline)
    devices = timeline.words("devices")
    places = {process.number: (at, process) for at, process in enumerate(timeline.processes)}
    are_several_machines = len({process.host for process in timeline.processes}) > 1
    for place, lane in enumerate(timeline.lanes):
        for (table, kind), tracks in groupby(sorted(lane.tracks, key=_order), key=_line):
            slices, found = tables.slices(table), [timeline.rows(track) for track in tracks]
            is_nested = table in _NESTED and kind != "start_end"
            if is_nested and len(found) > 1:
                found = [np.concatenate([np.arange(len(slices))[each] for each in found])]
            more = [each for rows in found for each in _rows(slices.take(rows), is_nested)]
            groups, line = _place(devices, lane, place, table, kind)
            if places:
                groups, line = _in_process(*places[lane.process], are_several_machines, groups, line)
            for depth, each in enumerate(more):
                track = line if not depth else replace(
                    line, path=(*line.path[:-1], f"{line.path[-1]}#{depth}"), name=_deeper(table, line.name, depth))
                if depth >= MOST_LEVELS and depth == len(more) - 1:
                    track = replace(track, about=f"{track.about} What overlaps more deeply is a point here.".strip())
                yield TraceLane(track, each, is_nested, groups)


def _in_process(at: int, process: Process, are_several_machines: bool, groups: tuple[TraceTrack, ...],
                line: TraceTrack) -> tuple[tuple[TraceTrack, ...], TraceTrack]:
    """Return the groups around a line and the line, inside the group of their process."""
    name = f"{process.host} {process.label}" if are_several_machines else process.label
    outer = TraceTrack((f"process {process.number}",), clean(name.strip()), at)
    *inner, line = [replace(track, path=(*outer.path, *track.path)) for track in (*groups, line)]
    return (outer, *inner), line


def _line(track: Track) -> tuple[str, str]:
    """Return the key of a slice's line: a line for each table, with marks among the ranges."""
    return track.table, track.kind.replace("marks", "push_pop")


def _order(track: Track) -> tuple[int, str, int]:
    return _TABLES.index(track.table), _line(track)[1], track.number


def _place(
    devices: Sequence[str], lane: Lane, place: int, table: str, kind: str
) -> tuple[tuple[TraceTrack, ...], TraceTrack]:
    """Return the groups around a line of the viewer, and the line."""
    number = str(place)
    group = GROUPS.index(lane.group)
    if lane.group == "host":
        around = (TraceTrack(("host",), "Host", group), TraceTrack(("host", number), clean(lane.label), place))
        return around, TraceTrack(("host", number, table), TITLES[table], _TABLES.index(table),
                                  _ABOUT.get(table, ""))
    if lane.group == "nvtx":
        key, domain = str(lane.key[0]), clean(lane.key[1])
        around = (TraceTrack(("nvtx",), "NVTX ranges", group),
                  TraceTrack(("nvtx", key), f"domain {domain}" if domain else "default domain", int(key) + 1))
        name = f"start/end ranges, {lane.note}" if kind == "start_end" else lane.note
        return around, TraceTrack(("nvtx", key, f"{number} {kind}"), clean(name), place)
    if lane.group == "garbage":
        return (TraceTrack(("garbage",), lane.label, group),), TraceTrack(("garbage", number), clean(lane.note), place)
    if lane.group == "gpu":
        on = int(lane.key[0])
        name = devices[on] if on >= 0 else "GPU (device unknown)"
        around = (TraceTrack((f"gpu {on}",), clean(name), group + 1 + on),)
        if table == "samples":
            return around, TraceTrack((f"gpu {on}", number), clean(lane.note), place, _ABOUT[table])
        return around, TraceTrack((f"gpu {on}", number), lane.note or "stream unknown", place)
    if table == "waits":
        return (), TraceTrack((table,), "Waits for the device", group + 1)
    return (), TraceTrack((lane.group,), lane.label, group + (lane.group != "cells"))


def _deeper(table: str, name: str, depth: int) -> str:
    if table == "launches":
        return "nested launches" if depth == 1 else f"nested launches, level {depth}"
    return f"{name} ({depth + 1})"


def _rows(slices: TraceSlices, nested: bool) -> list[TraceSlices]:
    """Assign slices to rows without overlaps that a row does not allow; most need one row."""
    length = np.where(slices.end < slices.start, 0, slices.end - slices.start)
    # Most tables are in order already, and a copy of a million slices takes a while.
    step = np.diff(slices.start)
    if bool(((step < 0) | ((step == 0) & (np.diff(length) > 0))).any()):
        slices = slices.take(np.lexsort((-length, slices.start)))
    ends = np.maximum(slices.start, slices.end)
    if bool((slices.start[1:] >= ends[:-1]).all()):
        return [slices]
    row = _nesting_rows(slices.start, ends) if nested else first_free_rows(slices.start, ends)
    too_deep = row >= MOST_LEVELS
    if too_deep.any():
        slices, row = slices.as_points(too_deep), np.minimum(row, MOST_LEVELS)
    by_row = rows_by(row)
    return [slices.take(by_row[at]) for at in range(len(by_row))]


class _Tables:
    """The timeline's tables as slices of a trace."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        _, self._first_ns = clock_of(timeline)
        self._held: dict[str, TraceSlices] = {}

    def slices(self, table: str) -> TraceSlices:
        """Return all slices of a table."""
        if table not in self._held:
            self._held[table] = self._made(self._timeline.tables[table])
        return self._held[table]

    def _made(self, slices: Slices) -> TraceSlices:
        first = self._first_ns
        unended = slices.flags & NO_END > 0
        end = slices.end + first
        # Of ranges alone it is known that they went on to the end; what has no extent otherwise is a point.
        instant = unended & (slices.end <= slices.start) if slices.instant is None else slices.instant
        if slices.instant is not None:
            end = np.where(unended, OPEN, end)
        if instant.any():
            end = np.where(instant, slices.start + first - 1, end)
        look = slices.look()
        numbers = {column.label: column.values for column in slices.columns().values()
                   if column.label and column.words is None and not column.of}
        details, described = self._details(slices)
        outgoing, arriving = self._flows.get(slices.table, (None, None))
        return TraceSlices(
            slices.start + first, end, _cleaned(look.names), _cleaned(look.kinds), details, described, numbers,
            outgoing, arriving, self._phases() if slices.table == "launches" else (), self._stacks(slices),
            self._frames, _percents(slices))

    def _stacks(self, slices: Slices) -> Ints | None:
        """Return the call path of each slice of the tables that have any."""
        if self._frames is None or slices.table not in _RECORDED:
            return None
        stacks = ints(self._timeline.recording, _RECORDED[slices.table], "stack_id")
        return stacks[slices.columns()["id"].values] if len(slices) else stacks[:0]

    @cached_property
    def _frames(self) -> StackFrames | None:
        recording = self._timeline.recording
        if not row_count(recording, "stacks"):
            return None
        labels = [frame_of_line(row).line for row in recording.rows("lines")]
        return StackFrames(ints(recording, "stacks", "parent_stack_id"), ints(recording, "stacks", "line_id"), labels)

    def _details(self, slices: Slices) -> tuple[Words, Callable[[int], Arguments]]:
        """Return the arguments of slices; each distinct combination of values is encoded once."""
        told: list[tuple[str, Ints, Sequence[Arguments] | Sequence[str]]] = []
        for column in slices.columns().values():
            if column.of in LABELS and not column.label:
                told.append(("", column.values, self._facts(column.of)))
            elif column.label and (column.words is not None or column.of):
                words = self._words(column)
                told.append((column.label, words.codes, words.values))
        values = [each[1] for each in told] + [slices.flags & (NO_START | NO_END)]
        codes, distinct = combinations(*values)
        rows = distinct.tolist()

        def described(code: int) -> Arguments:
            held: dict[str, str | int | float] = {}
            *row, unseen = rows[code]
            for at, (label, _, words) in zip(row, told, strict=True):
                value = words[at] if 0 <= at < len(words) else ""
                held |= {label: clean(value)} if label and value else value if isinstance(value, Mapping) else {}
            return held | {label: text for bit, (label, text) in _UNSEEN.items() if unseen & bit}

        return Words(codes, []), described

    def _words(self, column: Column) -> Words:
        if column.of == "ranges":
            paths = self._timeline.range_paths
            return Words(np.append(paths.codes, UNKNOWN)[column.values], paths.values)
        return Words(column.values, self._timeline.words(column.of) if column.of else column.words or [])

    def _facts(self, table: str) -> list[Arguments]:
        """Return the fields of each row of a small table, by label."""
        labels = LABELS[table]
        return [{label: _said(row[name]) for name, label in labels.items() if row.get(name) not in (None, "")}
                for row in self._timeline.facts[table]]

    @cached_property
    def _flows(self) -> dict[str, tuple[Ints | None, Ints | None]]:
        """Return, by table, the arrow that begins and the one that ends at each slice; 0 for none."""
        found: dict[str, tuple[Ints | None, Ints | None]] = {}
        count = 1
        for flow in self._timeline.flows():
            numbers = np.arange(count, count + len(flow.rows))
            count += len(numbers)
            for side, table, rows in ((0, flow.source, flow.rows), (1, flow.target, flow.targets)):
                sides = found.setdefault(table, (None, None))
                held = sides[side]
                held = np.zeros(len(self._timeline.tables[table]), dtype=np.int64) if held is None else held
                held[rows] = numbers
                found[table] = (held, sides[1]) if side == 0 else (sides[0], held)
        return found

    def _phases(self) -> tuple[Part, ...]:
        """Return the phases of launches: compiles and waits for them lie inside dispatch, unknown ones are left out."""
        first, parts = self._first_ns, dict[str, Part]()
        for each in self._timeline.segments():
            start, end = (np.where(times >= 0, times + first, UNKNOWN) for times in (each.start, each.end))
            if each.name in parts:  # what is left of the dispatch behind the compile
                end = np.maximum(parts[each.name].end, end)
                start = parts[each.name].start
            if each.name != "other":
                parts[each.name] = Part(each.name, start, end)
        for phase, inner in (("dispatch", ("compile_wait", "compile")), ("submit", ("measuring",))):
            inside = tuple([parts.pop(name) for name in inner if name in parts])
            if inside and phase in parts:
                start = parts[phase].start if phase == "dispatch" else np.where(
                    inside[0].start >= 0, inside[0].start, parts[phase].start)
                parts[phase] = replace(parts[phase], start=start, inner=inside)
        return tuple(parts.values())


def _percents(slices: Slices) -> Floats | None:
    """Return the values of samples; None of other slices."""
    if slices.table != "samples":
        return None
    value = slices.columns()["value"].values
    return np.where(value < 0, np.nan, value / PARTS)


def _cleaned(words: Words) -> Words:
    return Words(words.codes, [*map(clean, words.values)])


def _said(value: str | int | float | bool) -> str | int | float:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return clean(value) if isinstance(value, str) else value


def _nesting_rows(starts: Ints, ends: Ints) -> Ints:
    """Return the row of each slice, so that two slices of a row lie inside each other or apart.

    What fits into none of `MOST_LEVELS` rows gets that number.
    """
    stacks: list[list[int]] = []
    result: list[int] = []
    for begun, ended in zip(starts.tolist(), ends.tolist(), strict=True):
        row = 0
        while row < len(stacks) and not _fits(stacks[row], begun, ended):
            row += 1
        if row < MOST_LEVELS:
            if row == len(stacks):
                stacks.append([])
            stacks[row].append(ended)
        result.append(row)
    return np.array(result, dtype=np.int64)


def _fits(stack: list[int], begun: int, ended: int) -> bool:
    """Return whether a slice fits into the innermost open slice of a row, after closing ended ones."""
    while stack and stack[-1] <= begun:
        stack.pop()
    return not stack or ended <= stack[-1]


def _nested_events(starts: list[int], ends: list[int]) -> tuple[Ints, Bools]:
    which: list[int] = []
    closes: list[bool] = []
    stack: list[tuple[int, int]] = []

    def close_until(time: int) -> None:
        while stack and stack[-1][0] <= time:
            which.append(stack.pop()[1])
            closes.append(True)

    for at, (start, end) in enumerate(zip(starts, ends, strict=True)):
        close_until(start)
        which.append(at)
        closes.append(False)
        if end >= start:
            stack.append((end, at))
    close_until(OPEN - 1)
    return np.array(which, dtype=np.int64), np.array(closes, dtype=np.bool_)
