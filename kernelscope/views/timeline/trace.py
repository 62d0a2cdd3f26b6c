"""What a trace file of a recording shows: lanes of slices, with every fact that is known of each slice."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from kernelscope.analysis.columns import Bools, Ints, codes, ints, matches, ran, row_count
from kernelscope.analysis.graphs import build_names, event_names, graph_runs, run_names
from kernelscope.analysis.launches import by_cell
from kernelscope.analysis.ranges import SEPARATOR, UNNAMED, attribute, attribute_activities
from kernelscope.recording.model import Recording
from kernelscope.schema import UNKNOWN
from kernelscope.views.base import clean, dims, stream

# Lanes of slices: the form in which trace files draw a recording, before any file format.
#
# A lane is one row of one track. Its slices either stand one behind the other, each with parts inside it (a
# launch with its phases), or they nest (ranges, cells, compiles). What overlaps otherwise is put into further
# rows, because trace viewers nest whatever overlaps on one row. Everything is a column, so that a million slices
# cost no Python objects.

#: The end of a slice that was still open when recording ended.
OPEN = int(np.iinfo(np.int64).max)

#: What a slice is annotated with.
Arguments = Mapping[str, "str | int | float"]


@dataclass(frozen=True)
class Track:
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
class Words:
    """A column of few distinct values: a code a slice, -1 for none, and what each code stands for."""

    codes: Ints
    values: list[str]

    def take(self, which: Ints | slice) -> Words:
        """Return the column of the slices `which`."""
        return Words(self.codes[which], self.values)


@dataclass(frozen=True)
class Part:
    """One part of every slice of a lane, such as a phase: it lies inside the slice, behind the part before it.

    Attributes
    ----------
    name : str
        What it is called.
    start, end : ndarray of int64
        One value a slice, in nanoseconds; -1 where the slice has no such part.
    inner : Part or None
        A part inside this one.
    """

    name: str
    start: Ints
    end: Ints
    inner: Part | None = None

    def take(self, which: Ints | slice) -> Part:
        """Return the part of the slices `which`."""
        inner = None if self.inner is None else self.inner.take(which)
        return Part(self.name, self.start[which], self.end[which], inner)


@dataclass(frozen=True)
class Slices:
    """Slices by column; all arrays have one value a slice.

    Attributes
    ----------
    start, end : ndarray of int64
        Nanoseconds of the host clock. `end` is `OPEN` where the slice was never closed, and less than `start` for an
        instant.
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

    def __len__(self) -> int:
        return len(self.start)

    def take(self, which: Ints | slice) -> Slices:
        """Return the slices `which`, in that order; for a `slice` without a copy."""
        return replace(
            self, start=self.start[which], end=self.end[which], names=self.names.take(which),
            categories=self.categories.take(which), details=None if self.details is None else self.details.take(which),
            numbers={name: values[which] for name, values in self.numbers.items()},
            flow_out=None if self.flow_out is None else self.flow_out[which],
            flow_in=None if self.flow_in is None else self.flow_in[which],
            parts=tuple(part.take(which) for part in self.parts),
        )


@dataclass(frozen=True)
class Lane:
    """One row of one track.

    Attributes
    ----------
    track : Track
        Where it is drawn.
    slices : Slices
        In order of start; of those that start together the longest first.
    nested : bool
        Whether slices lie inside each other. Otherwise each starts when the one before it has ended.
    """

    track: Track
    slices: Slices
    nested: bool = False

    def events(self) -> tuple[Ints, Bools]:
        """Return which slice begins or ends at each event of a nested lane, in order, and whether it ends.

        Instants and slices that are still open have no end.
        """
        return _nested_events(self.slices.start.tolist(), self.slices.end.tolist())


def rows(track: Track, slices: Slices, *, nested: bool = False) -> list[Lane]:
    """Return the lanes that the slices need so that none overlaps another in a way that its lane does not allow."""
    if not len(slices):
        return []
    length = np.where(slices.end < slices.start, 0, slices.end - slices.start)
    # Most tables are in order already, and a copy of a million slices takes a while.
    step = np.diff(slices.start)
    if bool(((step < 0) | ((step == 0) & (np.diff(length) > 0))).any()):
        slices = slices.take(np.lexsort((-length, slices.start)))
    row = _nesting_rows(slices) if nested else _flat_rows(slices)
    count = int(row.max()) + 1
    if count == 1:
        return [Lane(track, slices, nested)]
    return [
        Lane(
            replace(track, path=(*track.path[:-1], f"{track.path[-1]}#{at}"),
                    name=track.name if at == 0 else f"{track.name} ({at + 1})"),
            slices.take(np.flatnonzero(row == at)), nested)
        for at in range(count)
    ]


def words(values: Sequence[str | None]) -> Words:
    """Return a column of text by codes."""
    known: dict[str, int] = {}
    codes = [UNKNOWN if value is None else known.setdefault(value, len(known)) for value in values]
    return Words(np.array(codes, dtype=np.int64), list(known))


def always(word: str, count: int) -> Words:
    """Return a column that has the same word everywhere."""
    return Words(np.zeros(count, dtype=np.int64), [word])


def combinations(*columns: Ints) -> tuple[Ints, Ints]:
    """Return a code for each row's combination of values (-1 or more each), and the distinct combinations as rows."""
    keys = np.zeros(len(columns[0]), dtype=np.int64)
    size = 1
    for column in columns:
        width = int(column.max(initial=UNKNOWN)) + 2
        if size > np.iinfo(np.int64).max // max(width, 1):
            distinct, keys = np.unique(keys, return_inverse=True)
            size = len(distinct)
        keys = keys * width + (column + 1)
        size *= width
    _, first, codes = np.unique(keys, return_index=True, return_inverse=True)
    return codes.astype(np.int64), np.stack([column[first] for column in columns], axis=1)


def _flat_rows(slices: Slices) -> Ints:
    """The row of each slice, so that no two slices of a row overlap; most lanes need one."""
    start, end = slices.start, np.maximum(slices.start, slices.end)
    result = np.zeros(len(start), dtype=np.int64)
    if bool((start[1:] >= end[:-1]).all()):
        return result
    busy: list[tuple[int, int]] = []  # until when, and which row
    free: list[int] = []
    for at, (begun, ended) in enumerate(zip(start.tolist(), end.tolist(), strict=True)):
        while busy and busy[0][0] <= begun:
            heapq.heappush(free, heapq.heappop(busy)[1])
        row = heapq.heappop(free) if free else len(busy)
        heapq.heappush(busy, (ended, row))
        result[at] = row
    return result


def _nesting_rows(slices: Slices) -> Ints:
    """The row of each slice, so that two slices of a row lie inside each other or apart."""
    stacks: list[list[int]] = []
    result: list[int] = []
    ends = np.maximum(slices.start, slices.end)
    for begun, ended in zip(slices.start.tolist(), ends.tolist(), strict=True):
        row = 0
        while row < len(stacks) and not _fits(stacks[row], begun, ended):
            row += 1
        if row == len(stacks):
            stacks.append([])
        stacks[row].append(ended)
        result.append(row)
    return np.array(result, dtype=np.int64)


def _fits(stack: list[int], begun: int, ended: int) -> bool:
    """Whether a slice is inside the innermost open one of a row, after those that have ended are taken off it."""
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


# Everything known about a slice of a trace: names, arguments, times and arrows, looked up once for all lanes.

_SPECIALIZATION_FACTS = {
    "signature": "signature", "compute_capability": "compute capability", "regs": "registers",
    "static_shared_bytes": "static shared memory (bytes)", "local_bytes": "local memory (bytes)",
    "launch_config_sensitive": "launch-config sensitive", "origin": "origin",
}
_COMPILE_FACTS = {
    "trigger": "trigger", "outcome": "outcome", "signature": "signature", "reason_code": "reason code",
    "reason": "reason", "fix": "fix", "cache_file": "cache file", "error": "error", "wait_ns": "wait_ns",
    "launch_id": "launch", "compilation_id": "compilation",
}
_EVENT_FACTS = {"outcome": "outcome", "error": "error", "change": "changed", "changes": "changes", "api": "api"}
_BUILD_FACTS = {
    "framework": "framework", "outcome": "outcome", "reason_code": "reason code", "reason": "reason", "fix": "fix",
    "differing_parts": "differs in", "key_parts": "key", "build_ns": "build_ns", "error": "error",
    "launch_id": "launch", "build_id": "build",
}


class Facts:
    """Looks up what a recording says about each slice; text in it is clean of control characters.

    Parameters
    ----------
    recording : Recording
        What to look in.
    """

    outcomes: Mapping[str, str] = {"compiled": "compile", "disk": "load from disk", "wait": "wait for the compile of",
                                   "failed": "failed compile"}

    def __init__(self, recording: Recording) -> None:
        self.recording = recording

    @cached_property
    def cells(self) -> list[str]:
        """Each cell's label, such as ``In [7] sweep``."""
        return [clean(cell.label) for cell in by_cell(self.recording)]

    @cached_property
    def kernels(self) -> list[str]:
        """Each dispatcher's name."""
        return [clean(row["name"]) for row in self.recording.rows("dispatchers")]

    @cached_property
    def threads(self) -> list[str]:
        """Each host thread's name."""
        known = {row["thread_id"]: clean(row["name"] or "") for row in self.recording.rows("threads")}
        highest = max([*known, *(int(ints(self.recording, table, "thread_id").max(initial=UNKNOWN))
                                 for table in ("launches", "compilations", "ranges", "graph_events", "builds",
                                               "api_calls", "activities"))],
                      default=UNKNOWN)
        return [known.get(at) or f"thread {at}" for at in range(highest + 1)]

    @cached_property
    def domains(self) -> list[str]:
        """The NVTX domains, without the default one."""
        return [clean(word) for word in codes(self.recording, "ranges", "domain")[1]]

    def device(self, number: int) -> str:
        """Return what to call a device; -1 is one that is not known."""
        if number == UNKNOWN:
            return "GPU (device unknown)"
        row = self._devices[number]
        ordinal = number if row["ordinal"] is None else row["ordinal"]
        return clean(f"GPU {ordinal}" + (f" · {row['name']}" if row["name"] else ""))

    @cached_property
    def _devices(self) -> list[dict[str, Any]]:
        return self.recording.rows("devices")

    # ---- Arguments ----

    def cell_arguments(self, row: Mapping[str, Any]) -> Arguments:
        """Return a cell's arguments."""
        held = {"status": row["status"], "error": row["error"], "source": row["source"]}
        return {name: clean(value) for name, value in held.items() if value}

    def in_cell(self, cell: int) -> dict[str, str | int | float]:
        """Return the argument that names a cell."""
        return {"cell": self.cells[cell]} if 0 <= cell < len(self.cells) else {}

    def compile_arguments(self, row: Mapping[str, Any]) -> Arguments:
        """Return a compile's arguments: why it was needed, and what would avoid it."""
        cell = self.in_cell(UNKNOWN if row["cell_id"] is None else row["cell_id"])
        where = {} if row["configuration_id"] is None else self.configuration_arguments(row["configuration_id"])
        return _facts(row, _COMPILE_FACTS) | where | cell

    def graph_event_arguments(self, number: int) -> Arguments:
        """Return the arguments of an event in the life of a graph."""
        source: Any = self.recording.arrow("graph_events")
        row = source.slice(number, 1).to_pylist()[0]
        return _facts(row, _EVENT_FACTS) | self.in_cell(UNKNOWN if row["cell_id"] is None else row["cell_id"])

    def build_arguments(self, row: Mapping[str, Any]) -> Arguments:
        """Return the arguments of a request to a build cache."""
        return _facts(row, _BUILD_FACTS) | self.in_cell(UNKNOWN if row["cell_id"] is None else row["cell_id"])

    def specialization_arguments(self, number: int | None) -> dict[str, str | int | float]:
        """Return the arguments of a specialization; nothing for None and for -1."""
        if number is None or number < 0:
            return {}
        return _facts(self._specializations[number], _SPECIALIZATION_FACTS)

    def configuration_arguments(self, number: int) -> dict[str, str | int | float]:
        """Return the arguments of a launch configuration; nothing for -1."""
        if number < 0:
            return {}
        row = self._configurations[number]
        held: dict[str, str | int | float] = {
            word: dims([row[f"{word}dim_{axis}"] for axis in "xyz"])
            for word in ("grid", "block") if row[f"{word}dim_x"] is not None
        }
        if row["cluster_x"] is not None:
            held["cluster"] = dims([row[f"cluster_{axis}"] or 1 for axis in "xyz"])
        if row["sharedmem_bytes"] is not None:
            held["shared memory (bytes)"] = row["sharedmem_bytes"]
        if row["stream"] is not None:
            held["stream"] = stream(row["stream"])
        return held

    @cached_property
    def _specializations(self) -> list[dict[str, Any]]:
        return self.recording.rows("specializations")

    @cached_property
    def _configurations(self) -> list[dict[str, Any]]:
        return self.recording.rows("configurations")

    # ---- Launches ----

    def launch_slices(self) -> Slices:
        """Return all launches, in order, with their phases as parts."""
        recording = self.recording
        start, end = ints(recording, "launches", "start_ns"), ints(recording, "launches", "end_ns")
        bounds = [ints(recording, "launches", name) for name in ("dispatch_end_ns", "submit_start_ns", "submit_end_ns")]
        # Without its end a launch is drawn as far as it is known; where nothing is, as an instant.
        reached = np.maximum.reduce(bounds)
        end = np.where(end >= 0, end, np.where(reached > start, reached, UNKNOWN))
        dispatcher = ints(recording, "launches", "dispatcher_id")
        cache, caches = codes(recording, "launches", "cache")
        error, errors = codes(recording, "launches", "error")
        ended = ints(recording, "launches", "end_ns") >= 0
        columns = (ints(recording, "launches", "specialization_id"), ints(recording, "launches", "configuration_id"),
                   ints(recording, "launches", "device_id"), ints(recording, "launches", "cell_id"), cache, error,
                   self.launch_paths.codes, ended.astype(np.int64))
        detail, distinct = combinations(*columns)

        def described(code: int) -> Arguments:
            spec, configuration, device, cell, source, failed, path, whole = distinct[code].tolist()
            held = self.configuration_arguments(configuration) | self.specialization_arguments(spec)
            held |= {} if device == UNKNOWN else {"device": self.device(device)}
            held |= {} if source == UNKNOWN else {"cache": caches[source]}
            held |= {} if failed == UNKNOWN else {"error": clean(errors[failed])}
            held |= {} if path == UNKNOWN else {"ranges": self.launch_paths.values[path]}
            held |= {} if whole else {"end": "not recorded"}
            return held | self.in_cell(cell)

        count = len(start)
        numbers = {"launch": np.arange(count)}
        for argument, column in (("parent launch", "parent_launch_id"), ("correlation_id", "correlation_id"),
                                 ("queue_ns", "queue_ns"), ("execute_ns", "execute_ns"),
                                 ("compilation", "compilation_id"), ("captured by event", "capture_event_id"),
                                 ("graph node", "graph_node_id")):
            numbers[argument] = ints(recording, "launches", column)
        # An arrow leads to the first activity of a launch: a flow ends where it arrives.
        has_kernel = np.zeros(count, dtype=np.bool_)
        made = ints(recording, "activities", "launch_id")[self.arrivals]
        has_kernel[made] = True
        return Slices(
            start, end, Words(dispatcher, self.kernels),
            Words(np.where(ran(recording), 0, 1), ["launch", "captured launch"]),
            Words(detail, []), described, numbers,
            flow_out=np.where(has_kernel, np.arange(count) + LAUNCH_FLOW, 0), parts=self._phases(start, end, bounds))

    def _phases(self, start: Ints, end: Ints, bounds: list[Ints]) -> tuple[Part, ...]:
        """The phases as parts; a compile lies inside its dispatch, at its own times where they are known."""
        dispatched, submitting, submitted = bounds
        dispatch = _part("dispatch", start, dispatched, start, end)
        took = ints(self.recording, "launches", "compile_ns")
        inside = np.flatnonzero((took > 0) & (dispatch.end >= 0))
        begun, done = np.full(len(start), UNKNOWN, dtype=np.int64), np.full(len(start), UNKNOWN, dtype=np.int64)
        if len(inside):
            which = ints(self.recording, "launches", "compilation_id")[inside]
            asked = np.append(ints(self.recording, "compilations", "start_ns"), UNKNOWN)[which]
            first, last = dispatch.start[inside], dispatch.end[inside]
            known = (asked >= first) & (asked + took[inside] <= last)
            begun[inside] = np.where(known, asked, np.maximum(last - took[inside], first))
            done[inside] = np.minimum(begun[inside] + took[inside], last)
        return (
            Part("dispatch", dispatch.start, dispatch.end, Part("compile", begun, done)),
            _part("prepare", dispatched, submitting, start, end),
            _part("submit", submitting, submitted, start, end),
            _part("finish", submitted, ints(self.recording, "launches", "end_ns"), start, end),
        )

    @cached_property
    def launch_paths(self) -> Words:
        """Each launch's path of NVTX ranges."""
        paths = self.range_paths
        inside = attribute(self.recording)
        return Words(np.append(paths.codes, UNKNOWN)[inside], paths.values)

    # ---- NVTX ----

    @cached_property
    def range_paths(self) -> Words:
        """Each range's path: its name behind those of the ranges around it."""
        parents = ints(self.recording, "ranges", "parent_range_id").tolist()
        known: dict[tuple[int, int], int] = {}
        paths: list[str] = []
        path_of: list[int] = []
        for row, (name, parent) in enumerate(zip(self.range_names.codes.tolist(), parents, strict=True)):
            around = path_of[parent] if 0 <= parent < row else UNKNOWN
            number = known.setdefault((around, name), len(paths))
            if number == len(paths):
                text = self.range_names.values[name]
                paths.append(text if around == UNKNOWN else f"{paths[around]}{SEPARATOR}{text}")
            path_of.append(number)
        return Words(np.array(path_of, dtype=np.int64), paths)

    @cached_property
    def range_names(self) -> Words:
        """Each range's message."""
        source: Any = self.recording.arrow("ranges").column("name").combine_chunks().dictionary_encode()
        values = [clean(name) if name else UNNAMED for name in source.dictionary.to_pylist()]
        return Words(np.asarray(source.indices.to_numpy(zero_copy_only=False), dtype=np.int64), values)

    def range_times(self) -> tuple[Ints, Ints]:
        """Return the ranges' times: the recording's first instant for an unseen start, `OPEN` for an unseen end."""
        start, end = ints(self.recording, "ranges", "start_ns"), ints(self.recording, "ranges", "end_ns")
        return np.where(start < 0, self.first_ns, start), np.where(end < 0, OPEN, end)

    @cached_property
    def first_ns(self) -> int:
        """The earliest time of the recording."""
        found: list[int] = []
        for table in ("cells", "launches", "compilations", "ranges", "activities", "api_calls", "graph_events",
                      "builds"):
            times = ints(self.recording, table, "start_ns")
            found += times[times >= 0][:1].tolist() if table != "cells" else times.tolist()
            ends = ints(self.recording, table, "end_ns") if table == "ranges" else times[:0]
            found += [int(each) for each in ends[ends >= 0][:1]]
        return min(found, default=0)

    def range_arguments(self, row: int) -> Arguments:
        """Return a range's arguments; its color stands here because viewers choose their own."""
        held = {name: values[row] for name, values in self._range_texts.items() if values[row] is not None}
        if self._range_unseen[row]:
            held["start"] = "before recording began"
        cell = int(self._range_cells[row])
        return {name: clean(value) for name, value in held.items()} | self.in_cell(cell)

    @cached_property
    def _range_texts(self) -> dict[str, list[str | None]]:
        source: Any = self.recording
        return {name: source.arrow("ranges").column(name).to_pylist()
                for name in ("domain", "color", "payload", "kind", "source")}

    @cached_property
    def _range_unseen(self) -> list[bool]:
        return (ints(self.recording, "ranges", "start_ns") < 0).tolist()

    @cached_property
    def _range_cells(self) -> Ints:
        return ints(self.recording, "ranges", "cell_id")

    # ---- The GPU ----

    @cached_property
    def timed(self) -> Bools:
        """Which activities can be drawn."""
        return is_timed(self.recording)

    @cached_property
    def arrivals(self) -> Ints:
        """The activities at which arrows end: the first of each launch, kernels before copies."""
        launch = ints(self.recording, "activities", "launch_id")
        kernel = matches(self.recording, "activities", "kind", "kernel")
        waits = matches(self.recording, "activities", "kind", "sync")
        drawn = np.flatnonzero((launch >= 0) & (launch < row_count(self.recording, "launches")) & self.timed & ~waits)
        drawn = drawn[np.argsort(~kernel[drawn], kind="stable")]
        return drawn[np.unique(launch[drawn], return_index=True)[1]]

    def activity_slices(self) -> Slices:
        """Return all activities, in order."""
        recording = self.recording
        start, end = ints(recording, "activities", "start_ns"), ints(recording, "activities", "end_ns")
        kind, kinds = codes(recording, "activities", "kind")
        name, names = codes(recording, "activities", "name")
        api, apis = codes(recording, "activities", "api")
        memory, memories = codes(recording, "activities", "memory")
        launch = ints(recording, "activities", "launch_id")
        graph = ints(recording, "activities", "cupti_graph_id")
        path = np.append(self.range_paths.codes, UNKNOWN)[attribute_activities(recording)]
        kernel = matches(recording, "activities", "kind", "kernel")
        # The driver's name of a kernel of ours is a mangled one; what its author calls it is the dispatcher's.
        spec_of = ints(recording, "activities", "specialization_id")
        ours = spec_of >= 0
        dispatcher = np.append(ints(recording, "specializations", "dispatcher_id"), UNKNOWN)[spec_of]
        shown = np.where(ours, dispatcher + len(names), name)
        detail, distinct = combinations(
            spec_of, np.where(ours, name, UNKNOWN), ints(recording, "activities", "configuration_id"),
            ints(recording, "activities", "cell_id"), ints(recording, "activities", "thread_id"),
            ints(recording, "activities", "regs"), api, memory, path,
            (kernel & (launch < 0) & (graph < 0)).astype(np.int64))

        def described(code: int) -> Arguments:
            spec, function, configuration, cell, thread, regs, call, between, ranges, other = distinct[code].tolist()
            held = self.configuration_arguments(configuration) | self.specialization_arguments(spec)
            held |= {} if function == UNKNOWN else {"function": clean(names[function])}
            held |= {} if regs == UNKNOWN else {"registers": regs}
            held |= {} if between == UNKNOWN else {"memory": clean(memories[between])}
            held |= {} if call == UNKNOWN else {"api": clean(apis[call])}
            held |= {} if ranges == UNKNOWN else {"ranges": self.range_paths.values[ranges]}
            held |= {} if thread == UNKNOWN else {"thread": self.threads[thread]}
            held |= {"launched by": "other"} if other else {}
            return held | self.in_cell(cell)

        flow_in = np.zeros(len(start), dtype=np.int64)
        flow_in[self.arrivals] = launch[self.arrivals] + LAUNCH_FLOW
        called = called_activities(recording)
        flow_in[called] = ints(recording, "activities", "correlation_id")[called] + CALL_FLOW
        numbers = {"activity": np.arange(len(start)), "launch": launch}
        for argument, column in (("correlation_id", "correlation_id"), ("bytes", "size_bytes"),
                                 ("graph event", "graph_event_id"), ("graph node", "graph_node_id"),
                                 ("cupti_graph_id", "cupti_graph_id"), ("cupti_node_id", "cupti_node_id")):
            numbers[argument] = ints(recording, "activities", column)
        return Slices(start, end, Words(shown, [*map(clean, names), *self.kernels]), Words(kind, list(kinds)),
                      Words(detail, []), described, numbers, flow_in=flow_in)


def _part(name: str, start: Ints, end: Ints, first: Ints, last: Ints) -> Part:
    """A part inside its slice: where either end of it is unknown there is none."""
    known = (start >= 0) & (end >= 0) & (start >= first) & (end <= last) & (start <= end)
    return Part(name, np.where(known, start, UNKNOWN), np.where(known, end, UNKNOWN))


def _facts(row: Mapping[str, Any], wanted: Mapping[str, str]) -> dict[str, str | int | float]:
    held: dict[str, str | int | float] = {}
    for column, name in wanted.items():
        value = row[column]
        if isinstance(value, bool):
            held[name] = "yes" if value else "no"
        elif value is not None and value != "":
            held[name] = clean(value) if isinstance(value, str) else value
    return held


# Driver calls and what they made on the GPU: calls that no launch of ours explains, and the launches of graphs.

#: Numbers of arrows: a launch has its row number and the one, a driver call its correlation id and the other.
LAUNCH_FLOW = 1
CALL_FLOW = 1 << 48


class GraphLaunches(NamedTuple):
    """Launches of graphs by column, in order of start; `names` are those of their graphs."""

    names: Words
    event: Ints
    correlation: Ints
    graph: Ints
    cupti_graph: Ints
    device: Ints
    start: Ints
    end: Ints
    activities: Ints


class Calls(NamedTuple):
    """Driver calls by column, each with the first activity that it made."""

    row: Ints
    correlation: Ints
    api: Ints
    cell: Ints
    thread: Ints
    start: Ints
    end: Ints


def graph_launches(recording: Recording) -> GraphLaunches:
    """Return the launches of graphs that made an activity with a time."""
    runs = graph_runs(recording)
    of = np.flatnonzero((runs.start >= 0) & (runs.activities > 0))
    of = of[np.argsort(runs.start[of], kind="stable")]
    name, names = run_names(recording, runs)
    return GraphLaunches(
        Words(name[of], [clean(each) for each in names]), runs.event[of], runs.correlation[of], runs.graph[of],
        runs.cupti_graph[of], runs.device[of], runs.start[of], np.maximum(runs.end[of], runs.start[of]),
        runs.activities[of])


def calls_with_activities(recording: Recording) -> Calls:
    """Return the driver calls behind activities that no recorded launch made; a launch's own is its submit."""
    correlation = ints(recording, "activities", "correlation_id")
    begun, ended = (ints(recording, "activities", f"submit_{which}_ns") for which in ("start", "end"))
    alone = (ints(recording, "activities", "launch_id") < 0) & (correlation >= 0) & (begun >= 0)
    rows = np.flatnonzero(alone & ~matches(recording, "activities", "kind", "sync"))
    rows = rows[np.unique(correlation[rows], return_index=True)[1]]
    cell, thread = (ints(recording, "activities", name)[rows] for name in ("cell_id", "thread_id"))
    api = codes(recording, "activities", "api")[0][rows]
    return Calls(rows, correlation[rows], api, cell, thread, begun[rows], ended[rows])


def is_called(recording: Recording, correlation: Ints) -> Bools:
    """Return which correlation ids are those of a driver call that is drawn."""
    drawn = np.concatenate((ints(recording, "api_calls", "correlation_id"),
                            calls_with_activities(recording).correlation))
    return np.isin(correlation, drawn[drawn >= 0])


def call_flows(recording: Recording, correlation: Ints) -> Ints:
    """Return the arrows that begin at driver calls: to a graph's launch, or to the call's first activity."""
    made = ints(recording, "activities", "correlation_id")[called_activities(recording)]
    arriving = np.isin(correlation, np.concatenate((made, graph_launches(recording).correlation)))
    return np.where(arriving & (correlation >= 0), correlation + CALL_FLOW, 0)


def called_activities(recording: Recording) -> Ints:
    """The activities at which arrows from driver calls end: the first of each call that launched no graph."""
    correlation = ints(recording, "activities", "correlation_id")
    alone = (ints(recording, "activities", "launch_id") < 0) & (correlation >= 0) & is_timed(recording)
    alone &= (ints(recording, "activities", "cupti_graph_id") < 0) & is_called(recording, correlation)
    rows = np.flatnonzero(alone & ~matches(recording, "activities", "kind", "sync"))
    return rows[np.unique(correlation[rows], return_index=True)[1]]


def is_timed(recording: Recording) -> Bools:
    """Return which activities have a start: others cannot be drawn."""
    return ints(recording, "activities", "start_ns") >= 0


# What a trace file of a recording shows: its lanes from top to bottom, with every fact that is known of each slice.
#
# Cells; NVTX ranges by domain; for each host thread its launches with their phases, nested launches, compiles,
# passes, what it did for graphs and in build caches, driver calls and waits; graph launches; and for each GPU its
# streams. Arrows lead from a launch to its kernel, and from a driver call to the graph, the kernel or the copy
# that it asked for.

# Top to bottom, as the timeline has them.
_CELLS, _NVTX, _HOST, _GPU = range(4)
_LAUNCHES, _NESTED, _COMPILES, _PASSES, _EVENTS, _BUILDS, _CALLS, _WAITS = range(8)


def lanes(recording: Recording) -> Iterator[Lane]:
    """Yield every lane that has something in it, group by group, each group's as a whole."""
    facts = Facts(recording)
    yield from _cells(facts)
    yield from _ranges(facts)
    yield from _launches(facts)
    yield from _compiles(facts)
    yield from _passes(facts)
    yield from _graph_events(facts)
    yield from _builds(facts)
    yield from _calls(facts)
    yield from _waits(facts)
    yield from _gpu(facts)
    yield from _graphs(facts)


def groups(recording: Recording) -> list[Track]:
    """Return the groups that lanes can be in: those that are shown are the ones that have a lane."""
    facts = Facts(recording)
    found = [
        Track(("nvtx",), "NVTX ranges", _NVTX),
        *(Track(("nvtx", _key(domain)), f"domain {domain}" if domain else "default domain", place)
          for place, domain in enumerate(["", *facts.domains])),
        Track(("host",), "Host", _HOST),
        *(Track(("host", str(thread)), name, thread) for thread, name in enumerate(facts.threads)),
    ]
    found += [
        Track((f"gpu {device}",), facts.device(device), _GPU + 1 + device)
        for device in range(UNKNOWN, row_count(recording, "devices"))
    ]
    return found


def event_count(recording: Recording) -> int:
    """Return how many rows of the recording a trace shows, for telling how far an export is."""
    return sum(row_count(recording, name) for name in _SHOWN)


_SHOWN = ("cells", "ranges", "launches", "compilations", "passes", "graph_events", "builds", "api_calls", "activities")


def _cells(facts: Facts) -> list[Lane]:
    cells = facts.recording.rows("cells")
    if not cells:
        return []
    waits = [row for row in cells if row["synchronized_ns"] is not None and row["synchronized_ns"] > row["end_ns"]]
    described: list[Arguments] = [facts.cell_arguments(row) for row in cells]
    described += [{"cell": facts.cells[row["cell_id"]]} for row in waits]
    count = len(cells) + len(waits)
    slices = Slices(
        np.array([row["start_ns"] for row in cells] + [row["end_ns"] for row in waits], dtype=np.int64),
        np.array([row["end_ns"] for row in cells] + [row["synchronized_ns"] for row in waits], dtype=np.int64),
        Words(np.minimum(np.arange(count), len(cells)), [*facts.cells, "wait for the device"]),
        always("cell", count), Words(np.arange(count), []), lambda code: described[code])
    return rows(Track(("cells",), "Cells", _CELLS), slices, nested=True)


def _ranges(facts: Facts) -> Iterator[Lane]:
    """A track for each domain and thread, and one for the start/end ranges of each domain: they have no thread."""
    recording = facts.recording
    count = row_count(recording, "ranges")
    if not count:
        return
    domain, domains = codes(recording, "ranges", "domain")
    category, categories = codes(recording, "ranges", "category")
    start, end = facts.range_times()
    mark = matches(recording, "ranges", "kind", "mark")
    free = matches(recording, "ranges", "kind", "start_end")
    heldof = facts.range_arguments
    slices = Slices(
        start, np.where(mark, UNKNOWN, end), facts.range_names,
        Words(np.where(category < 0, len(categories), category), [*map(clean, categories), "nvtx"]),
        Words(np.arange(count), []), heldof, {"range": np.arange(count)})
    thread = ints(recording, "ranges", "thread_id")
    place, distinct = combinations(domain, np.where(free, UNKNOWN, thread))
    for number, (where, on) in enumerate(distinct.tolist()):
        title = "start/end ranges" if on == UNKNOWN else facts.threads[on]
        track = Track(("nvtx", _key(clean(domains[where]) if where >= 0 else ""), str(on)), title, on + 1)
        # Start/end ranges overlap as they like: they get a row each instead of a place inside another.
        yield from rows(track, slices.take(np.flatnonzero(place == number)), nested=on != UNKNOWN)


def _launches(facts: Facts) -> Iterator[Lane]:
    recording = facts.recording
    count = row_count(recording, "launches")
    if not count:
        return
    slices = facts.launch_slices()
    depth = _depths(ints(recording, "launches", "parent_launch_id"))
    place, distinct = combinations(ints(recording, "launches", "thread_id"), depth)
    for number, (thread, level) in enumerate(distinct.tolist()):
        title = "launches" if level == 0 else "nested launches" if level == 1 else f"nested launches, level {level}"
        track = Track(("host", str(thread), f"launches {level}"), title, _LAUNCHES if level == 0 else _NESTED)
        yield from rows(track, slices.take(np.flatnonzero(place == number)))


def _compiles(facts: Facts) -> Iterator[Lane]:
    """Compiles, with those phases inside (NVVM, link, load) whose times were taken."""
    recording = facts.recording
    compiles, passes = recording.rows("compilations"), recording.rows("passes")
    timed = [row for row in passes if row["start_ns"] is not None and row["compilation_id"] is not None]
    if compiles:
        names = [f"{facts.outcomes.get(row['outcome'], row['outcome'])} {facts.kernels[row['dispatcher_id']]}"
                 for row in compiles] + [clean(row["name"]) for row in timed]
        described = [facts.compile_arguments(row) for row in compiles] + [{"kind": row["kind"]} for row in timed]
        slices = _named(
            [row["start_ns"] for row in compiles] + [row["start_ns"] for row in timed],
            [UNKNOWN if row["end_ns"] is None else row["end_ns"] for row in compiles]
            + [row["start_ns"] + row["duration_ns"] for row in timed],
            names, ["compile"] * len(compiles) + ["compile phase"] * len(timed), described)
        thread = np.array([row["thread_id"] for row in compiles]
                          + [compiles[row["compilation_id"]]["thread_id"] for row in timed], dtype=np.int64)
        for on in np.unique(thread).tolist():
            track = Track(("host", str(on), "compiles"), "compiles", _COMPILES)
            yield from rows(track, slices.take(np.flatnonzero(thread == on)), nested=True)
    loads = [row for row in passes if row["start_ns"] is not None and row["compilation_id"] is None]
    if loads:
        slices = _named([row["start_ns"] for row in loads], [row["start_ns"] + row["duration_ns"] for row in loads],
                        [clean(row["name"]) for row in loads], ["compile phase"] * len(loads),
                        [facts.specialization_arguments(row["specialization_id"]) for row in loads])
        track = Track(("host", "loads"), "module loads outside compiles", len(facts.threads))
        yield from rows(track, slices, nested=True)


def _passes(facts: Facts) -> Iterator[Lane]:
    """numba's passes: it keeps their durations only, so that they are drawn one behind the other from the start."""
    compiles = facts.recording.rows("compilations")
    at = [row["start_ns"] for row in compiles]
    found: dict[int, list[tuple[int, int, str, int]]] = {}
    for row in facts.recording.rows("passes"):
        if row["start_ns"] is None and row["compilation_id"] is not None:
            asked = row["compilation_id"]
            held = found.setdefault(compiles[asked]["thread_id"], [])
            held.append((at[asked], at[asked] + row["duration_ns"], clean(row["name"]), asked))
            at[asked] += row["duration_ns"]
    about = "The framework keeps the passes' durations only: they are drawn in order from the compile's start."
    for thread, each in found.items():
        start, end, names, asked = (list(column) for column in zip(*each, strict=True))
        slices = _named(start, end, names, ["pass"] * len(each), [{"compilation": number} for number in asked])
        yield from rows(Track(("host", str(thread), "passes"), "compiler passes", _PASSES, about), slices)


def _graph_events(facts: Facts) -> Iterator[Lane]:
    """Captures, instantiates, updates and so on, on the thread that made them; a capture holds what went into it."""
    recording = facts.recording
    shown = np.flatnonzero(ints(recording, "graph_events", "start_ns") >= 0)
    if not len(shown):
        return
    start, end = ints(recording, "graph_events", "start_ns"), ints(recording, "graph_events", "end_ns")
    name, names = event_names(recording)
    kind, kinds = codes(recording, "graph_events", "kind")
    count = len(start)
    numbers = {
        argument: ints(recording, "graph_events", column) for argument, column in (
            ("graph", "graph_id"), ("executable graph", "exec_id"), ("rebuild of event", "rebuild_of"),
            ("queue_ns", "queue_ns"), ("execute_ns", "execute_ns"), ("correlation_id", "correlation_id"))
    }
    slices = Slices(
        start, np.where(end >= 0, end, OPEN), Words(name, [clean(each) for each in names]),
        Words(kind, [f"graph {each}" for each in kinds]), Words(np.arange(count), []), facts.graph_event_arguments,
        {"graph event": np.arange(count)} | numbers)
    thread = ints(recording, "graph_events", "thread_id")[shown]
    yield from _by_thread(slices.take(shown), thread, "graphs", "graphs", _EVENTS, nested=True)


def _builds(facts: Facts) -> Iterator[Lane]:
    """Requests to build caches of libraries."""
    held = facts.recording.rows("builds")
    if held:
        slices = _named(
            [row["start_ns"] for row in held], [UNKNOWN if row["end_ns"] is None else row["end_ns"] for row in held],
            [clean(each) for each in build_names(facts.recording)], ["build cache"] * len(held),
            [facts.build_arguments(row) for row in held])
        thread = ints(facts.recording, "builds", "thread_id")
        yield from _by_thread(slices, thread, "builds", "build caches", _BUILDS, nested=True)


def _calls(facts: Facts) -> Iterator[Lane]:
    """Driver calls: those that made no activity, and those behind activities that no recorded launch made."""
    recording = facts.recording
    made = calls_with_activities(recording)
    name, names = codes(recording, "api_calls", "name")
    apis = codes(recording, "activities", "api")[1]

    def column(field: str, other: Ints) -> Ints:
        return np.concatenate((ints(recording, "api_calls", field), other))

    count = len(name) + len(made.row)
    if not count:
        return
    correlation = column("correlation_id", made.correlation)
    detail, distinct = combinations(column("cell_id", made.cell), column("result", np.full_like(made.row, UNKNOWN)))

    def described(code: int) -> Arguments:
        where, status = distinct[code].tolist()
        return facts.in_cell(where) | ({"result": status} if status != UNKNOWN else {})

    numbers = {"api_call": np.where(np.arange(count) < len(name), np.arange(count), UNKNOWN),
               "correlation_id": correlation}
    slices = Slices(
        column("start_ns", made.start), column("end_ns", made.end),
        Words(np.concatenate((name, np.where(made.api >= 0, made.api + len(names), len(names) + len(apis)))),
              [*map(clean, names), *map(clean, apis), "driver call"]),
        always("driver call", count), Words(detail, []), described, numbers,
        flow_out=call_flows(recording, correlation))
    yield from _by_thread(slices, column("thread_id", made.thread), "calls", "driver calls", _CALLS)


def _waits(facts: Facts) -> Iterator[Lane]:
    waits = np.flatnonzero(matches(facts.recording, "activities", "kind", "sync") & facts.timed)
    if len(waits):
        thread = ints(facts.recording, "activities", "thread_id")[waits]
        yield from _by_thread(facts.activity_slices().take(waits), thread, "waits", "waits for the GPU", _WAITS)


def _by_thread(
    slices: Slices, thread: Ints, key: str, title: str, rank: int, *, nested: bool = False
) -> Iterator[Lane]:
    for on in np.unique(thread).tolist():
        path = ("host", str(on), key) if on >= 0 else ("host", key)
        named = title if on >= 0 else f"{title}, thread unknown"
        yield from rows(Track(path, named, rank), slices.take(np.flatnonzero(thread == on)), nested=nested)


def _gpu(facts: Facts) -> Iterator[Lane]:
    recording = facts.recording
    shown = np.flatnonzero(~matches(recording, "activities", "kind", "sync") & facts.timed)
    if not len(shown):
        return
    slices = facts.activity_slices()
    device, stream = ints(recording, "activities", "device_id"), ints(recording, "activities", "stream")
    place, distinct = combinations(device[shown], stream[shown])
    order = distinct.tolist()
    for number, (on, which) in enumerate(order):
        title = "stream unknown" if which == UNKNOWN else f"stream {which}"
        yield from rows(Track((f"gpu {on}", f"stream {which}"), title, number + 1),
                        slices.take(shown[place == number]))


def _graphs(facts: Facts) -> Iterator[Lane]:
    """One slice for each launch of a graph: from the start of its first activity to the end of its last."""
    found = graph_launches(facts.recording)
    if not len(found.correlation):
        return
    slices = Slices(
        found.start, found.end, found.names, always("graph launch", len(found.start)),
        numbers={"graph": found.graph, "graph event": found.event, "cupti_graph_id": found.cupti_graph,
                 "activities": found.activities, "correlation_id": found.correlation},
        flow_in=np.where(is_called(facts.recording, found.correlation), found.correlation + CALL_FLOW, 0))
    for on in np.unique(found.device).tolist():
        yield from rows(Track((f"gpu {on}", "graphs"), "graph launches", 0),
                        slices.take(np.flatnonzero(found.device == on)))


def _named(
    start: list[int], end: list[int], names: list[str], categories: list[str], described: list[Any]
) -> Slices:
    """Slices of a small table."""
    known = {name: at for at, name in enumerate(dict.fromkeys(names))}
    kinds = {name: at for at, name in enumerate(dict.fromkeys(categories))}
    return Slices(
        np.array(start, dtype=np.int64), np.array(end, dtype=np.int64),
        Words(np.array([known[name] for name in names], dtype=np.int64), list(known)),
        Words(np.array([kinds[name] for name in categories], dtype=np.int64), list(kinds)),
        Words(np.arange(len(names)), []), lambda code: described[code])


def _depths(parent: Ints) -> Ints:
    """How many launches are around each; a file that names a launch its own ancestor does not loop for ever."""
    depth = np.zeros(len(parent), dtype=np.int64)
    above = parent
    for _ in range(64):
        inside = above >= 0
        if not bool(inside.any()):
            break
        depth += inside
        above = np.where(inside, parent[np.maximum(above, 0)], UNKNOWN)
    return depth


def _key(domain: str) -> str:
    return f"domain {domain}"
