"""The timeline of a recording: slices by column, the lanes that they are in, and what is known of each.

A `Timeline` is made once, by `kernelscope.views.timeline.build`, and every form in which it is shown prints it: the
live widget's wire (`wire`), the static picture (`svg`), and traces in protobuf and JSON (`perfetto`). Names, colors,
lanes, times and labels are decided here and nowhere else. Everything is a column, so that a million slices cost no
Python objects; what only some forms show is computed when it is first asked for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from kernelscope.analysis.columns import Bools, Floats, Intervals, Ints, rows_by, union
from kernelscope.analysis.launches import APART, cell_label
from kernelscope.analysis.launches import dims as dims_of
from kernelscope.analysis.owners import device_owners, process_names
from kernelscope.palette import COMPILE_COLOR, KERNEL_COLORS, PHASE_COLORS
from kernelscope.recording.model import Recording
from kernelscope.recording.paths import NamePaths
from kernelscope.recording.time import row_duration_ns
from kernelscope.schema import UNKNOWN
from kernelscope.views.base import dims, stream
from kernelscope.views.keys import link_keys

#: Bits of a slice's flags: its end is unknown, its start is.
NO_END, NO_START = 1, 2
#: Of an activity: the times of the driver call inside of its launch are unknown.
NO_CALL = 4
#: Groups of lanes, from the top down.
GROUPS = ("cells", "nvtx", "host", "garbage", "graphs", "gpu")
#: What the slices of a track are called where their lane has others too.
TITLES = {
    "launches": "launches", "compiles": "compiles", "passes": "compile phases", "untimed": "compiler passes",
    "events": "graphs", "builds": "build caches", "calls": "driver calls",
}
#: Values of samples are percents, in so many parts of one.
PARTS = 100

#: What a row of the table ``calls`` is, in its column ``source``.
API_CALL, WAIT, ASKING = 0, 1, 2
#: Passes that are told of a compile.
MOST_PASSES = 8
#: The longest time that is exact in JavaScript's numbers: 52 days.
EXACT = 2**52

#: The groups of more processes, or of more lanes, begin folded.
FEW_PROCESSES, FEW_LANES = 4, 24

#: By table, the colors in which a group's header shows how busy its processes were; what is first lies on top.
BUSY_COLORS = {"compiles": COMPILE_COLOR, "launches": PHASE_COLORS["dispatch"], "gpu": KERNEL_COLORS[2]}

_NO_ROWS = np.empty(0, dtype=np.int64)


@dataclass(frozen=True)
class Words:
    """A column of few distinct texts: one code per slice (-1 for none), and the text of each code."""

    codes: Ints
    values: list[str]

    def take(self, which: Ints | slice) -> Words:
        """Return the column of the slices `which`."""
        return Words(self.codes[which], self.values)


@dataclass(frozen=True)
class Column:
    """Something that is known of each slice of a table.

    Attributes
    ----------
    values : ndarray of int64
        Numbers, codes or rows; -1 for none.
    label : str
        Its label; empty where only the front end uses it.
    words : list of str, optional
        What the values are codes of.
    of : str
        The table that the values are rows of: one of `Timeline.facts`, or of `Timeline.tables`.
    """

    values: Ints
    label: str = ""
    words: list[str] | None = None
    of: str = ""


@dataclass(frozen=True)
class Look:
    """How the slices of a table are shown: their names, of what kind they are, and their colors."""

    names: Words
    kinds: Words
    colors: Words


@dataclass
class Slices:
    """The slices of one table: arrays of int64 with a value a slice, in order of start in each track.

    Attributes
    ----------
    table : str
        Its name.
    start, end : ndarray
        Nanoseconds from the timeline's first instant on. An end that is unknown is as far as the slice was seen.
    flags : ndarray
        `NO_END`, `NO_START`, `NO_CALL`.
    track : ndarray
        The number of the track that each is in.
    look, columns : callable
        Return how they are shown, and what else is known of them by name; computed when first asked for.
    bounds : tuple of (ndarray, ndarray)
        Of launches: the ends of dispatch, prepare, submit and finish, and which of them are known; an unknown one is
        that of the phase before it.
    compiling : tuple of (ndarray, ndarray, ndarray), optional
        Of launches: how long each compiled or waited for a compile of another thread, of that how long it waited, and
        the row of ``compiles``; -1 where that is unknown, or none.
    measuring : ndarray, optional
        Of launches: how long each was replayed for the GPU's counters, which is part of submit.
    instant : ndarray of bool, optional
        Which of them are points in time.
    """

    table: str
    start: Ints
    end: Ints
    flags: Ints
    track: Ints
    look: Callable[[], Look]
    columns: Callable[[], dict[str, Column]]
    bounds: tuple[tuple[Ints, Bools], ...] = ()
    compiling: tuple[Ints, Ints, Ints] | None = None
    measuring: Ints | None = None
    instant: Bools | None = None

    def __len__(self) -> int:
        """Return their number."""
        return len(self.start)


@dataclass(frozen=True)
class Track:
    """One row of a lane.

    Attributes
    ----------
    number : int
        As the slices have it.
    table : str
        The slices' table.
    depth : int
        How many rows of the same slices are above it.
    kind : str
        ``marks``, ``push_pop`` or ``start_end`` of ranges; ``area`` of samples; else empty.
    """

    number: int
    table: str
    depth: int
    kind: str = ""


@dataclass
class Lane:
    """Tracks under one label.

    Attributes
    ----------
    group : str
        One of `GROUPS`.
    key : tuple
        Orders the lanes of a group, and is another for each of them.
    label, note : str
        What it is called, and in smaller type what else there is to say.
    tracks : list of Track
        From the top down.
    process : int
        The row in ``processes`` of what it is of; -1 in a recording of one process, and where that is not known.
    """

    group: str
    key: tuple[Any, ...]
    label: str
    note: str = ""
    tracks: list[Track] = field(default_factory=list)
    process: int = UNKNOWN

    @property
    def name(self) -> str:
        """Return a unique name: that of a stream includes the GPU, that of ranges and collections the thread."""
        label = "GC" if self.group == "garbage" else self.label
        return ", ".join(filter(None, (label, self.note if self.group in ("nvtx", "garbage", "gpu") else "")))


@dataclass(frozen=True)
class Process:
    """A process of several: its lanes are a group, under the name of its machine where there are several.

    Attributes
    ----------
    number : int
        Its row in ``processes``; -1 for the lanes of which no process is known.
    label, host : str
        What it is called, and its machine; empty where that is not known.
    bound_ns : int or None
        How far its times can be off; None where that is not known.
    about : tuple of (str, str)
        What else is known of it, by label.
    """

    number: int
    label: str
    host: str = ""
    bound_ns: int | None = None
    about: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Segment:
    """A part of each launch: times from the timeline's first instant, int64.

    Attributes
    ----------
    name : str
        A phase, or ``other``.
    start, end : ndarray of int64
        One value a launch; -1 where it has no such part.
    """

    name: str
    start: Ints
    end: Ints


@dataclass(frozen=True)
class Flow:
    """Arrows between slices of two tables: each leads from a row of the one to a row of the other."""

    source: str
    rows: Ints
    target: str
    targets: Ints


@dataclass
class Timeline:
    """What a timeline shows of a recording.

    Attributes
    ----------
    recording : Recording
        Of what.
    title, notice : str
        What it is called, and what every output of it must say.
    first_ns, span_ns : int
        The first instant on the host clock, and from it to the last one; 0 and 0 where nothing has a time.
    tables : dict of str to Slices
        ``cells``, ``ranges``, ``launches``, ``compiles``, ``passes``; ``events`` (what the host did for graphs) and
        ``builds`` (requests to build caches); ``collections`` (of Python's garbage collector); ``calls`` (what the host
        called or waited for: API calls, waits, and the calls that asked for activities outside of our launches),
        ``graphs`` (one row a graph launch on the GPU), ``gpu`` (its activities) and ``samples`` (of its counters, as
        `PARTS` of a percent, -1 where samples were lost). Only traces show ``waits`` (of
        cells for the device) and ``untimed``, the compiler passes of which the framework keeps durations only: they
        stand one behind the other from the compile's start.
    lanes : list of Lane
        From the top down.
    activities : int
        How many there are of the GPU, waits for it included.
    undrawn : int
        Those of them that have no time at all.
    left_out : list of str
        What is not told, for the recording is large.
    processes : list of Process
        Where there are several, from the top down: machine by machine.
    """

    recording: Recording
    title: str
    notice: str
    first_ns: int
    span_ns: int
    tables: dict[str, Slices]
    lanes: list[Lane]
    activities: int
    undrawn: int
    left_out: list[str]
    processes: list[Process] = field(default_factory=list["Process"])

    def rows(self, track: Track) -> Ints | slice:
        """Return which slices of its table are in a track, in order."""
        if track.table not in self._split:
            self._split[track.table] = rows_by(self.tables[track.table].track)
        return self._split[track.table].get(track.number, _NO_ROWS)

    @cached_property
    def _split(self) -> dict[str, dict[int, Ints | slice]]:
        return {}

    @property
    def is_folded(self) -> bool:
        """Return whether the groups of processes begin folded."""
        return len(self.processes) > FEW_PROCESSES or (bool(self.processes) and len(self.lanes) > FEW_LANES)

    def busy(self, process: int) -> dict[str, Intervals]:
        """Return when any thread of a process was in launches or compiling, and when its GPUs were busy.

        Returns
        -------
        dict of str to Intervals
            By table: ``compiles``, ``launches``, ``gpu``. Times are from the timeline's first instant; what has no
            known end counts as far as it was seen.
        """
        tracks = [track for lane in self.lanes if lane.process == process for track in lane.tracks]

        def of(table: str) -> Intervals:
            slices, rows = self.tables[table], [self.rows(track) for track in tracks if track.table == table]
            if len(rows) == 1:
                return union(slices.start[rows[0]], slices.end[rows[0]])
            held = np.concatenate([np.arange(len(slices))[each] for each in rows] or [_NO_ROWS])
            return union(slices.start[held], slices.end[held])

        return {table: of(table) for table in BUSY_COLORS}

    def means(self, track: Track, edges: Floats) -> Floats:
        """Return the mean of a track of samples between each two times and the next, in percent; NaN where none is."""
        slices, which = self.tables[track.table], self.rows(track)
        value = slices.columns()["value"].values[which]
        times = np.maximum.accumulate(np.stack((slices.start[which], slices.end[which]), axis=1).ravel())
        took = np.where(value >= 0, times[1::2] - times[::2], 0)

        def until(amounts: Ints) -> Floats:
            # It grows from each start to the end, and stays until the next start.
            sums = np.cumsum(amounts).astype(np.float64)
            grown = np.stack((sums - amounts, sums), axis=1).ravel()
            return np.diff(np.interp(edges, times, grown)) if len(times) else np.zeros(len(edges) - 1)

        known = until(took)
        total = until(took * np.maximum(value, 0))
        return np.divide(total, known * PARTS, out=np.full(len(known), np.nan), where=known > 0)

    @cached_property
    def facts(self) -> dict[str, list[dict[str, Any]]]:
        """Return the small tables that slices refer to; texts are unescaped, nulls are left out."""
        return _facts(self.recording)

    def words(self, table: str) -> list[str]:
        """Return what to call each row of ``cells``, ``lines``, ``threads`` or ``devices``."""
        if table == "devices":
            return [device_label(at, row["ordinal"]) + (f" ({row['name']})" if row["name"] else "")
                    + (f" of {row['owner']}" if "owner" in row else "")
                    for at, row in enumerate(self.facts["devices"])]
        if table == "lines":
            return [" ".join(row.values()) for row in self.facts["lines"]]
        return [row["label"] for row in self.facts[table]]

    @cached_property
    def range_paths(self) -> Words:
        """Return each range's path: the names of the ranges around it, then its own; of a long one the ends."""
        names = self.tables["ranges"].look().names
        known: dict[tuple[int, int], int] = {}
        paths = NamePaths()
        found: list[int] = []
        parents = self.tables["ranges"].columns()["parent_range_id"].values.tolist()
        for row, (name, parent) in enumerate(zip(names.codes.tolist(), parents, strict=True)):
            around = found[parent] if 0 <= parent < row else UNKNOWN
            number = known.setdefault((around, name), len(known))
            if number == len(paths.labels):
                paths.add(names.values[name], around)
            found.append(number)
        return Words(np.array(found, dtype=np.int64), [*map(paths.text, range(len(paths.labels)))])

    def segments(self) -> list[Segment]:
        """Return the parts of all launches in order of time: phases, and ``other`` where a bound is not known.

        A compile lies inside the dispatch, which is two parts then: where its own row says that it began, else just
        before the dispatch ended. Waiting for another thread's comes before it. A replay for
        the GPU's counters begins the submit.
        """
        launches = self.tables["launches"]
        (dispatched, has_dispatch), (submitting, has_submit), (submitted, has_submitted), (end, ended) = launches.bounds
        start = launches.start
        took, waited, compilation = launches.compiling or (0 * start, 0 * start, 0 * start - 1)
        compiled = begun = waiting = dispatched
        is_compiled = (took > 0) & (dispatched > start)
        if is_compiled.any():
            spent = np.where(is_compiled, np.minimum(took, dispatched - start), 0)
            told = np.append(self.tables["compiles"].start, EXACT)[compilation]
            begun = np.where(is_compiled, np.maximum(start, np.minimum(told, dispatched - spent)), dispatched)
            compiled = begun + spent
            waiting = begun + np.minimum(np.maximum(waited, 0), spent)
        begins = submitting if launches.measuring is None else np.where(
            has_submit & has_submitted, np.minimum(submitting + launches.measuring, submitted), submitting)
        is_split = has_dispatch & (took >= 0)
        last = np.maximum(end, start)
        found: list[Segment] = []
        for name, begin, finish, known in (
            ("dispatch", start, begun, is_split),
            ("compile_wait", begun, waiting, is_compiled & (waiting > begun)),
            ("compile", waiting, compiled, is_compiled & (compiled > waiting)),
            ("dispatch", compiled, dispatched, is_split & is_compiled),
            ("prepare", dispatched, submitting, has_dispatch & has_submit),
            ("measuring", submitting, begins, begins > submitting),
            ("submit", begins, submitted, has_submit & has_submitted),
            ("finish", submitted, end, has_submitted & ended),
        ):
            there = (begin <= finish) & (begin >= start) & (finish <= last)
            gray = there & (begin < finish) & ~known & (name not in APART)
            for called, which in ((name, known & there), ("other", gray)):
                if which.all():
                    found.append(Segment(called, begin, finish))
                elif which.any():
                    found.append(Segment(called, np.where(which, begin, UNKNOWN), np.where(which, finish, UNKNOWN)))
        return found

    def flows(self) -> list[Flow]:
        """Return the arrows: from a launch to its first activity, kernels before copies, and from other driver calls.

        Those lead to the launch of a graph that they asked for, else to the first activity.
        """
        gpu, calls, graphs = (self.tables[name] for name in ("gpu", "calls", "graphs"))
        if not len(gpu):
            return []
        launch, correlation = gpu.columns()["launch"].values, gpu.columns()["correlation_id"].values
        began = gpu.flags & NO_START == 0
        kinds = gpu.look().kinds
        kernel = np.append(np.array(kinds.values) == "kernel", False)[kinds.codes]
        made = np.flatnonzero((launch >= 0) & (launch < len(self.tables["launches"])) & began)
        made = made[np.argsort(~kernel[made], kind="stable")]
        made = made[np.unique(launch[made], return_index=True)[1]]

        asked = np.flatnonzero((calls.columns()["correlation_id"].values >= 0)
                               & (calls.columns()["source"].values != WAIT))
        numbers, first = np.unique(calls.columns()["correlation_id"].values[asked], return_index=True)

        def called(target: str, rows: Ints, by: Ints) -> Flow:
            place = np.searchsorted(numbers, by)
            known = np.append(numbers, UNKNOWN)[place] == by
            reached, which = np.unique(place[known], return_index=True)
            return Flow("calls", asked[first][reached], target, rows[known][which])

        alone = np.flatnonzero((launch < 0) & (gpu.columns()["cupti_graph_id"].values < 0) & began & (correlation >= 0))
        runs = np.flatnonzero(graphs.columns()["correlation_id"].values >= 0)
        return [
            Flow("launches", launch[made], "gpu", made),
            called("graphs", runs, graphs.columns()["correlation_id"].values[runs]),
            called("gpu", alone, correlation[alone]),
        ]


# What is known of the rows that slices refer to.

#: By table of `Timeline.facts`, what each of its values is called where all that is known of a slice is listed.
LABELS: Mapping[str, Mapping[str, str]] = {
    "cells": {"status": "status", "error": "error", "source": "source"},
    "specializations": {
        "signature": "signature", "cc": "compute capability", "regs": "registers",
        "shared": "static shared memory (bytes)", "local": "local memory (bytes)", "lcs": "launch-config sensitive",
        "bound": "bound to", "origin": "origin",
    },
    "configurations": {
        "grid": "grid", "block": "block", "cluster": "cluster", "shared": "shared memory (bytes)", "stream": "stream",
    },
    "compiles": {
        "trigger": "trigger", "outcome": "outcome", "signature": "signature", "reason": "reason", "fix": "fix",
        "file": "cache file", "error": "error", "wait": "wait_ns",
    },
}


def device_label(number: int, ordinal: int | None) -> str:
    """Return what a device is called; -1 is one that is not known."""
    return "GPU" if number < 0 else f"GPU {number if ordinal is None else ordinal}"


def title_of(name: str, cells: Sequence[str]) -> str:
    """Return what a recording of that name and of these cells is called."""
    if len(cells) == 1:
        return cells[0] if not name or name in cells[0] else f"{name}: {cells[0]}"
    counted = f"{len(cells)} cells" if cells else ""
    return ": ".join(part for part in (name, counted) if part) or "recording"


def _facts(recording: Recording) -> dict[str, list[dict[str, Any]]]:
    rows = {name: recording.rows(name) for name in (
        "cells", "threads", "devices", "dispatchers", "specializations", "configurations", "occupancies", "passes",
        "compilations")}
    kept = {
        "kernels": ("dispatchers", {"name": "name", "module": "module", "filename": "file", "lineno": "line",
                                    "framework": "framework", "options": "options"}),
        "specializations": ("specializations", {
            "dispatcher_id": "kernel", "signature": "signature", "compute_capability": "cc", "regs": "regs",
            "static_shared_bytes": "shared", "local_bytes": "local", "const_bytes": "const", "max_threads": "threads",
            "launch_config_sensitive": "lcs", "launch_config": "bound", "cubin_bytes": "cubin", "origin": "origin"}),
        "occupancies": ("occupancies", {"specialization_id": "specialization", "configuration_id": "configuration",
                                        "device_id": "device", "occupancy": "occupancy"}),
        "compiles": ("compilations", {
            "signature": "signature", "outcome": "outcome", "trigger": "trigger", "reason": "reason", "fix": "fix",
            "launch_config_sensitive": "lcs", "wait_ns": "wait", "cache_file": "file", "error": "error"}),
    }
    found = {name: [{word: row[column] for column, word in words.items() if row[column] is not None}
                    for row in rows[table]] for name, (table, words) in kept.items()}
    _add_passes(found["compiles"], rows["passes"])
    for at, key in link_keys(recording)[1].items():
        found["specializations"][at]["key"] = key
    names = process_names(recording)
    return found | {
        "cells": [_cell(row) | _process_of(row, names) for row in rows["cells"]],
        "lines": [_line(row) for row in recording.rows("lines")],
        # An identifier is a 64-bit number, which JavaScript would round.
        "threads": [{"label": row["name"] or f"thread {row['thread_id']}", "ident": str(row["ident"]),
                     **_process_of(row, names)} for row in rows["threads"]],
        "devices": [{"ordinal": row["ordinal"], "name": row["name"], "cc": row["compute_capability"],
                     **({"owner": owner} if owner else {})}
                    for row, owner in zip(rows["devices"], device_owners(recording), strict=True)],
        "configurations": [_configuration(row) for row in rows["configurations"]],
    }


def _process_of(row: Mapping[str, Any], names: list[str]) -> dict[str, str]:
    """Return the name of the process that a row names, where there are several."""
    at = row["process_id"]
    return {} if len(names) < 2 or at is None else {"process": str(names[at])}


def _cell(row: Mapping[str, Any]) -> dict[str, Any]:
    held = {"label": cell_label(row), "status": row["status"], "error": row["error"], "source": row["source"],
            "sync": row_duration_ns(row, "end_ns", "synchronized_ns")}
    return {name: value for name, value in held.items() if value is not None}


def _line(row: Mapping[str, Any]) -> dict[str, Any]:
    # A recording of call paths has lines of libraries too, of which no slice is.
    if row.get("user_code") is False:
        return {}
    file = re.split(r"[\\/]", row["file"])[-1]  # as the card has it
    return {"at": f"{file}:{row['line']}"} | ({"in": row["function"]} if row["function"] else {})


def _configuration(row: Mapping[str, Any]) -> dict[str, Any]:
    # A framework may hide its grid: then there is no such line.
    found: dict[str, Any] = {name: None if (each := dims_of(row, column)) is None else dims(each) for name, column in (
        ("grid", "griddim"), ("block", "blockdim"), ("cluster", "cluster"))}
    found |= {"shared": row["sharedmem_bytes"], "stream": None if row["stream"] is None else stream(row["stream"])}
    return {name: value for name, value in found.items() if value is not None}


def _add_passes(compiles: list[dict[str, Any]], passes: Sequence[Mapping[str, Any]]) -> None:
    """Add to each compile its longest passes."""
    found: dict[int, list[tuple[int, str]]] = {}
    for row in passes:
        if row["compilation_id"] is not None:
            found.setdefault(row["compilation_id"], []).append((row["duration_ns"], row["name"]))
    for at, taken in found.items():
        longest = sorted(taken, key=lambda each: -each[0])[:MOST_PASSES]
        compiles[at]["passes"] = [[name, duration] for duration, name in longest]
