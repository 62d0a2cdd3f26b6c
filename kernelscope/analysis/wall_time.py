"""The wall time of each cell, split into what is known of it: the parts add up to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kernelscope.analysis.columns import (
    Intervals,
    Ints,
    codes,
    count_by,
    ids,
    instants,
    ints,
    joined,
    matches,
    row_count,
    sum_by,
    trials,
    tuning_runs,
    union,
)
from kernelscope.analysis.gpu import STATES, HostStates, host_states_of
from kernelscope.recording.driver import are_hooked
from kernelscope.recording.model import Recording
from kernelscope.recording.ranges import common_name
from kernelscope.schema import UNKNOWN

#: What a cell's wall time goes into, in the order in which tables list it: what the main thread did in launches and
#: other CUDA calls (`kernelscope.analysis.gpu.STATES`), runs of an autotuner without their compiles (``autotuning``),
#: measurements with the GPU's counters (``measuring``), Python's garbage collections outside of those (``gc``), what
#: recording cost, and the rest: Python and libraries.
PARTS: tuple[str, ...] = (*[each for each in STATES if each != "outside"], "autotuning", "measuring", "gc", "recording",
                          "python")

#: So many threads have rows of their own; the others are left out.
MOST_THREADS = 16

#: Who runs a notebook's cells.
_MAIN = "MainThread"
_EVENTS = ("launches", "activities", "api_calls", "compilations", "builds", "graph_events")


@dataclass(frozen=True)
class ThreadTime:
    """What a thread did in launches, autotuning and other CUDA calls, in nanoseconds; what it did else is not known."""

    thread_id: int
    name: str
    parts: dict[str, int]

    @property
    def total_ns(self) -> int:
        """Return all of it."""
        return sum(self.parts.values())


@dataclass(frozen=True)
class WallTime:
    """Where the wall time of one cell, or of several, went.

    Attributes
    ----------
    cell_id : int or None
        The cell's row in ``cells``; None for several.
    wall_ns : int
        From start to end.
    parts : dict of str to int
        Nanoseconds of the main thread by part (`PARTS`); they add up to `wall_ns`. A garbage collection inside a
        launch, a compile, autotuning, measuring or a CUDA call is time of that, as in all other tables. ``recording``
        is an estimate that is taken out of ``python``.
    ranges : dict of str to int
        How much of ``python`` was in which NVTX range, by the name of the innermost one; the longest first.
    threads : tuple of ThreadTime
        What other threads did meanwhile, the busiest first: at most `MOST_THREADS`.
    gc_ns : int
        Garbage collections of the main thread, wherever they were but in autotuning: those inside launches too.
    """

    cell_id: int | None
    wall_ns: int
    parts: dict[str, int]
    ranges: dict[str, int]
    threads: tuple[ThreadTime, ...]
    gc_ns: int = 0

    def share(self, *parts: str) -> float:
        """Return the share of some parts together, from 0 to 1."""
        return sum(self.parts[part] for part in parts) / self.wall_ns if self.wall_ns else 0.0


def wall_times(recording: Recording, host: HostStates | None = None) -> list[WallTime]:
    """Return where the wall time of each cell went, in order; a cell whose clock went back is left out.

    Parameters
    ----------
    recording : Recording
        What was recorded.
    host : HostStates, optional
        `host_states` of the whole recording, where it is at hand: it serves where all that happened is of one thread.
    """
    start, end = instants(recording, "cells", "start_ns", "end_ns")
    cells = np.flatnonzero(end >= start).tolist()
    if not cells:
        return []
    windows = [_window(int(start[cell]), int(end[cell])) for cell in cells]
    owner, whose = (ints(recording, table, "process_id").tolist() for table in ("threads", "cells"))
    active = _active(recording)
    main = _main_threads(recording, cells)
    watched = dict.fromkeys((*main, *[each for each in active if each not in main][:MOST_THREADS]))
    costs = _recording_costs(recording, cells)
    names = {row["thread_id"]: row["name"] or "" for row in recording.rows("threads")}
    threads = [thread for thread in watched if thread is not None]
    found: dict[int, list[dict[str, int]]] = {}
    collected: dict[int, list[dict[str, int]]] = {}
    ranges: dict[int, dict[str, int]] = {}
    # One thread at a time: the states of all of them would take more memory than the recording.
    is_all_of_one = threads == active and len(threads) == 1 and not _is_any_of_no_thread(recording)
    for thread, states in ([(threads[0], host)] if host is not None and is_all_of_one else
                           host_states_of(recording, threads)):
        found[thread] = states.times_in(windows)
        tuning, measuring = _tuning(recording, thread), _measuring(recording, thread)
        for part, held in (("autotuning", tuning.minus(measuring)), ("measuring", measuring)):
            inside = states.times_in([_inside(held, each) for each in windows]) if len(held) else []
            for parts, spent in zip(found[thread], inside, strict=len(held) > 0):
                del spent["compile"]
                parts |= {state: parts[state] - value for state, value in spent.items()}
                parts[part] = sum(spent.values())
        held = joined(tuning, measuring)
        own = [place for place, each in enumerate(main) if each == thread]
        if own:
            garbage = _garbage(recording, thread).minus(held)
            ranges |= {place: _by_range(recording, thread, windows[place], states, joined(garbage, held))
                       for place in own}
            if len(garbage):
                collected[thread] = states.times_in([_inside(garbage, each) for each in windows])
    result: list[WallTime] = []
    for place, cell in enumerate(cells):
        thread, wall = main[place], windows[place].total_ns
        parts = dict.fromkeys(STATES, 0) | {"outside": wall} if thread is None else dict(found[thread][place])
        collecting = collected[thread][place] if thread in collected else {}
        gc = collecting.get("outside", 0)
        rest = parts.pop("outside") - gc
        recorded = min(round(costs[place]), rest)
        others = [ThreadTime(each, names.get(each, ""), {state: value for state, value in times[place].items()
                                                         if value and state != "outside"})
                  for each, times in found.items() if each != thread and _is_same(owner[each], whose[cell])]
        others = sorted((each for each in others if each.parts), key=lambda each: -each.total_ns)
        result.append(WallTime(
            cell, wall, {part: parts.get(part, 0) for part in PARTS} | {
                "gc": gc, "recording": recorded, "python": rest - recorded},
            ranges.get(place, {}),
            tuple(others), sum(collecting.values())))
    return result


def total(times: Sequence[WallTime]) -> WallTime | None:
    """Return the sum over cells; None without any."""
    if len(times) < 2:
        return times[0] if times else None
    threads: dict[int, ThreadTime] = {}
    ranges: dict[str, int] = {}
    for each in times:
        for thread in each.threads:
            held = threads.get(thread.thread_id)
            parts = dict(held.parts) if held else {}
            for state, value in thread.parts.items():
                parts[state] = parts.get(state, 0) + value
            threads[thread.thread_id] = ThreadTime(thread.thread_id, thread.name, parts)
        for name, value in each.ranges.items():
            ranges[name] = ranges.get(name, 0) + value
    return WallTime(
        None, sum(each.wall_ns for each in times), {part: sum(each.parts[part] for each in times) for part in PARTS},
        _longest_first(ranges), tuple(sorted(threads.values(), key=lambda each: -each.total_ns)),
        sum(each.gc_ns for each in times))


def _window(start: int, end: int) -> Intervals:
    within = slice(0, 1 if start < end else 0)
    return Intervals(np.array([start], dtype=np.int64)[within], np.array([end], dtype=np.int64)[within])


def _active(recording: Recording) -> list[int]:
    """Return the threads that did anything that was recorded, the busiest first."""
    events = np.zeros(row_count(recording, "threads"), dtype=np.int64)
    for table in _EVENTS:
        if row_count(recording, table):
            events += count_by(ids(recording, table, "thread_id"), len(events))
    return [thread for thread in np.argsort(-events, kind="stable").tolist() if events[thread]]


def _is_any_of_no_thread(recording: Recording) -> bool:
    """Return whether a wait for the GPU is of a thread that is not known, as one in a call that CUPTI did not tell."""
    return bool(row_count(recording, "activities")) and bool(
        (matches(recording, "activities", "kind", "sync") & (ids(recording, "activities", "thread_id") < 0)).any())


def _main_threads(recording: Recording, cells: Sequence[int]) -> list[int | None]:
    """Return the main thread of each cell; None where it did nothing that was recorded, or is not known.

    Several recordings that were merged have several: a cell's is that of its process, and of several of these the one
    that launched most in it. Where none has Python's name of it, an only thread is taken to be it.
    """
    rows = recording.rows("threads")
    named = [row["thread_id"] for row in rows if row["name"] == _MAIN] or ([0] if len(rows) == 1 else [])
    owner, whose = (ints(recording, table, "process_id").tolist() for table in ("threads", "cells"))
    of_process: dict[int, list[int]] = {}
    counts: dict[int, Ints] = {}
    cell_of, thread_of = (ids(recording, "launches", name) for name in ("cell_id", "thread_id"))

    def launches(thread: int, cell: int) -> int:
        if thread not in counts:
            counts[thread] = count_by(cell_of[thread_of == thread], max(cells) + 1)
        return int(counts[thread][cell])

    found: list[int | None] = []
    for cell in cells:
        process = whose[cell]
        if process not in of_process:
            of_process[process] = [each for each in named if _is_same(owner[each], process)]
        own = of_process[process]
        found.append(max(own, key=lambda thread, cell=cell: launches(thread, cell)) if len(own) > 1 else
                     own[0] if own else None)
    return found


def _is_same(one: int, other: int) -> bool:
    """Return whether two processes are the same, or one of them is not known, as in files of older versions."""
    return one == other or UNKNOWN in (one, other)


def _recording_costs(recording: Recording, cells: Sequence[int]) -> list[float]:
    """Return what recording cost in each cell, in nanoseconds: the stated cost, by the cells' launches and ranges.

    That of an autotuner's launches is left out: it is part of the autotuning.
    """
    stated = sum(row["total_cost_ns"] or 0.0 for row in recording.rows("health"))
    counts = np.zeros(row_count(recording, "cells"), dtype=np.int64)
    events = 0
    for table in ("launches", "ranges"):
        if row_count(recording, table):
            owner = ids(recording, table, "cell_id")
            is_own = np.ones(len(owner), dtype=np.bool_)
            if table == "launches":
                hooked = are_hooked(recording)
                owner, is_own = owner[hooked], ~trials(recording)[hooked]
            counts += count_by(owner[is_own], len(counts))
            events += len(owner)
    return [stated * int(counts[cell]) / events if events else 0.0 for cell in cells]


def _tuning(recording: Recording, thread: int) -> Intervals:
    """Return a thread's runs of an autotuner."""
    rows = np.flatnonzero(tuning_runs(recording) & (ints(recording, "builds", "thread_id") == thread))
    return union(*(each[rows] for each in instants(recording, "builds", "start_ns", "end_ns")))


def _measuring(recording: Recording, thread: int) -> Intervals:
    """Return when a thread's launches were replayed for the GPU's counters."""
    owner = ints(recording, "launches", "thread_id")
    rows = [row for row in recording.rows("measurements")
            if row["launch_id"] is not None and owner[row["launch_id"]] == thread]
    return union(*(np.array([row[name] for row in rows], np.int64) for name in ("start_ns", "end_ns")))


def _garbage(recording: Recording, thread: int) -> Intervals:
    """Return a thread's garbage collections."""
    rows = np.flatnonzero(ints(recording, "collections", "thread_id") == thread)
    return union(*(each[rows] for each in instants(recording, "collections", "start_ns", "end_ns")))


def _inside(held: Intervals, window: Intervals) -> Intervals:
    """Return what is in a window; no others are looked at."""
    first, last = np.searchsorted(held.end, window.start, side="right"), np.searchsorted(held.start, window.end)
    near = slice(*first.tolist(), *last.tolist()) if len(window) else slice(0, 0)
    return Intervals(held.start[near], held.end[near]).within(window)


def _by_range(recording: Recording, thread: int, window: Intervals, states: HostStates,
              known: Intervals) -> dict[str, int]:
    """Return how much of the time in which a thread did nothing that is known was in which NVTX range."""
    if not row_count(recording, "ranges") or not len(window):
        return {}
    opened, closed = instants(recording, "ranges", "start_ns", "end_ns")
    rows = np.flatnonzero((ints(recording, "ranges", "thread_id") == thread) & (closed > opened))
    begin, finish = int(window.start[0]), int(window.end[0])
    start, end = np.clip(opened[rows], begin, finish), np.clip(closed[rows], begin, finish)
    spent = np.zeros(row_count(recording, "ranges"), dtype=np.int64)
    spent[rows] = np.rint(_rest(window, states).minus(known).common(start, end))
    parent = ints(recording, "ranges", "parent_range_id")
    own = np.maximum(spent - sum_by(np.where(spent > 0, parent, -1), spent, len(spent)), 0)
    label, words = codes(recording, "ranges", "name")
    names = [common_name(word) for word in (*words, "")]
    place = {name: at for at, name in enumerate(dict.fromkeys(names))}
    sums = sum_by(np.array([place[name] for name in names], np.int64)[label], own, len(place)).tolist()
    return _longest_first({name: value for name, value in zip(place, sums, strict=True) if value})


def _rest(window: Intervals, states: HostStates) -> Intervals:
    rest = window
    for parts in states.parts.values():
        for part in parts:
            rest = rest.minus(part)
    return rest


def _longest_first(values: dict[str, int]) -> dict[str, int]:
    return dict(sorted(values.items(), key=lambda item: -item[1]))


