"""The wall time of each cell, split into what is known of it: the parts add up to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kernelscope.analysis.calls import call_state
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
    rows_by,
    sum_by,
    trials,
    tuning_runs,
    union,
    unique_pairs,
)
from kernelscope.analysis.gpu import STATES, HostStates, host_states_of
from kernelscope.analysis.launches import APART
from kernelscope.recording.driver import are_hooked
from kernelscope.recording.model import Recording
from kernelscope.recording.ranges import common_name
from kernelscope.recording.time import is_known
from kernelscope.schema import INSTANTS, UNKNOWN

#: What a cell's wall time goes into, in the order in which tables list it: what the main thread did in launches and
#: other CUDA calls (`kernelscope.analysis.gpu.STATES`), runs of an autotuner without their compiles and measurements
#: with the GPU's counters (``autotuning``), Python's garbage collections outside of those (``gc``), what it did or
#: waited for while other threads of its process worked (``threads``), what recording cost, and the rest: Python and
#: libraries.
PARTS: tuple[str, ...] = (*[each for each in STATES if each != "outside"], "autotuning", "gc", "threads",
                          "recording", "python")

#: What other threads did for less than so long between two launches or calls is taken for one piece of work.
NEAR_NS = 1_000_000

#: So many threads have rows of their own; the others are left out.
MOST_THREADS = 16
#: So many main threads, as many as there are processes, are looked into: the busiest.
MOST_MAIN_THREADS = 2_000

#: Who runs a notebook's cells.
_MAIN = "MainThread"
_EVENTS = ("launches", "activities", "api_calls", "compilations", "builds", "graph_events")
#: Where what a thread did is, and the columns of its times.
_WORK = tuple((table, *(("submit_start_ns", "submit_end_ns") if table == "activities" else ("start_ns", "end_ns")))
              for table in _EVENTS)
_NONE = np.empty(0, np.int64)


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
        launch, a compile, autotuning, measuring or a CUDA call is time of that, as in all other tables. ``threads`` is
        time in which nothing is known of the main thread, while other threads of its process launched, compiled or
        called CUDA: it may have waited for them, as in PyTorch's ``backward()``. ``recording`` is an estimate that is
        taken out of ``python``.
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
    main = _main_threads(recording, cells)
    # The threads that did anything that was recorded, the busiest first.
    events = np.zeros(row_count(recording, "threads"), dtype=np.int64)
    for table in _EVENTS:
        if row_count(recording, table):
            events += count_by(ids(recording, table, "thread_id"), len(events))
    active = [thread for thread in np.argsort(-events, kind="stable").tolist() if events[thread]]
    looked_into = _busiest(main, active)
    cells = [cell for cell, thread in zip(cells, main, strict=True) if thread is None or thread in looked_into]
    main = [thread for thread in main if thread is None or thread in looked_into]
    windows = [_window(int(start[cell]), int(end[cell])) for cell in cells]
    watched = dict.fromkeys((*looked_into, *[each for each in active if each not in looked_into][:MOST_THREADS]))
    costs = _recording_costs(recording, cells)
    names = {row["thread_id"]: row["name"] or "" for row in recording.rows("threads")}
    threads = [*watched]
    places_of = _places(recording, cells, main, threads)
    rows = _RowsOfThreads(recording)
    own_parts: list[dict[str, int]] = [{} for _ in cells]
    others: list[list[ThreadTime]] = [[] for _ in cells]
    collected: dict[int, dict[str, int]] = {}
    beside: dict[int, int] = {}
    ranges: dict[int, dict[str, int]] = {}
    # One thread at a time: the states of all of them would take more memory than the recording.
    is_all_of_one = threads == active and len(threads) == 1 and not _is_any_of_no_thread(recording)
    for thread, states in ([(threads[0], host)] if host is not None and is_all_of_one else
                           host_states_of(recording, threads)):
        places = places_of[thread]
        in_places = [windows[place] for place in places]
        times = states.times_in(in_places)
        held = rows.intervals("builds", thread)
        inside = states.times_in([_inside(held, each) for each in in_places]) if len(held) else []
        for parts, spent in zip(times, inside, strict=len(held) > 0):
            for state in APART:
                del spent[state]
            parts |= {state: parts[state] - value for state, value in spent.items()}
            parts["autotuning"] = sum(spent.values())
        own: list[int] = []
        for place, parts in zip(places, times, strict=True):
            if main[place] == thread:
                own_parts[place] = parts
                own.append(place)
            elif some := {state: value for state, value in parts.items() if value and state != "outside"}:
                others[place].append(ThreadTime(thread, names.get(thread, ""), some))
        if own:
            garbage, working = rows.intervals("collections", thread).minus(held), _others(recording, thread)
            for place in own:
                inside, covered = _inside(working, windows[place]), joined(garbage, held)
                if len(inside):
                    beside[place] = _rest(windows[place], states).minus(covered).common_ns(inside)
                    covered = joined(covered, inside)
                if thread in rows.of("ranges"):
                    ranges[place] = _by_range(rows, thread, windows[place], states, covered)
            if len(garbage):
                collected |= zip(own, states.times_in([_inside(garbage, windows[place]) for place in own]), strict=True)
    result: list[WallTime] = []
    for place, cell in enumerate(cells):
        wall = windows[place].total_ns
        parts = own_parts[place] or dict.fromkeys(STATES, 0) | {"outside": wall}
        collecting = collected.get(place, {})
        gc = collecting.get("outside", 0)
        rest = parts.pop("outside") - gc - beside.get(place, 0)
        recorded = min(round(costs[place]), rest)
        result.append(WallTime(
            cell, wall, {part: parts.get(part, 0) for part in PARTS} | {
                "gc": gc, "threads": beside.get(place, 0), "recording": recorded, "python": rest - recorded},
            ranges.get(place, {}),
            tuple(sorted(others[place], key=lambda each: -each.total_ns)), sum(collecting.values())))
    return result


def _busiest(main: Sequence[int | None], active: Sequence[int]) -> dict[int, None]:
    """Return the main threads that are looked into, in order of their first cell: all, or the busiest."""
    threads = dict.fromkeys(thread for thread in main if thread is not None)
    if len(threads) <= MOST_MAIN_THREADS:
        return threads
    busiest = {*[*(thread for thread in active if thread in threads), *threads][:MOST_MAIN_THREADS]}
    return dict.fromkeys(thread for thread in threads if thread in busiest)


def _places(recording: Recording, cells: Sequence[int], main: Sequence[int | None],
            threads: Sequence[int]) -> dict[int, list[int]]:
    """Return for each thread the places in `cells` where its time is asked for.

    They are those of which it is the main thread, and of the `MOST_THREADS` first of a process, and of others than main
    threads, all of the process: every thread in every cell would be the product of their numbers.
    """
    owner, whose = (ints(recording, table, "process_id").tolist() for table in ("threads", "cells"))
    of_thread: dict[int, set[int]] = {thread: set() for thread in threads}
    of_process: dict[int, list[int]] = {}
    for place, (cell, thread) in enumerate(zip(cells, main, strict=True)):
        of_process.setdefault(whose[cell], []).append(place)
        if thread is not None:
            of_thread[thread].add(place)
    is_main = {thread for thread in main if thread is not None}
    mains: dict[int, int] = {}
    for number, thread in enumerate(threads):
        process = owner[thread]
        mains[process] = mains.get(process, 0) + (thread in is_main)
        if thread not in is_main or mains[process] <= MOST_THREADS:
            for other in of_process if process == UNKNOWN else (process,):
                of_thread[thread].update(of_process.get(other, ()))
        if thread not in is_main or number < MOST_THREADS:
            of_thread[thread].update(of_process.get(UNKNOWN, ()))
    return {thread: sorted(places) for thread, places in of_thread.items()}


def cells_left_out(recording: Recording, times: Sequence[WallTime]) -> int:
    """Return how many cells `wall_times` did not look into: those of further main threads than `MOST_MAIN_THREADS`."""
    start, end = instants(recording, "cells", "start_ns", "end_ns")
    return int((end >= start).sum()) - len(times)


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
    cell_of, thread_of = (ids(recording, "launches", name) for name in ("cell_id", "thread_id"))
    launched = np.flatnonzero((cell_of >= 0) & np.isin(thread_of, named))
    pairs, which = unique_pairs(cell_of[launched], thread_of[launched])
    most: dict[int, tuple[int, int]] = {}
    for (cell, thread), number in zip(pairs.tolist(), count_by(which, len(pairs)).tolist(), strict=True):
        if _is_same(owner[thread], whose[cell]):
            most[cell] = max(most.get(cell, (0, 0)), (number, -thread))
    # Of a process that launched nothing in a cell the first one; of one that is not known the first of all.
    first = {owner[thread]: thread for thread in reversed(named)}
    of_all = min(named, default=None)

    def of_cell(cell: int) -> int | None:
        if cell in most:
            return -most[cell][1]
        if whose[cell] == UNKNOWN:
            return of_all
        return min([first[process] for process in (whose[cell], UNKNOWN) if process in first], default=None)

    return [of_cell(cell) for cell in cells]


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


class _RowsOfThreads:
    """Which rows of a table are a thread's, and columns of it, looked through once for all threads."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self._rows: dict[str, dict[int, Ints | slice]] = {}
        self._columns: dict[tuple[str, str], Ints] = {}

    def of(self, table: str) -> dict[int, Ints | slice]:
        """Return the rows of a table by thread: of ``builds`` those that are runs of an autotuner."""
        if table not in self._rows:
            thread = ids(self.recording, table, "thread_id")
            if table == "builds":
                thread = np.where(tuning_runs(self.recording), thread, UNKNOWN)
            self._rows[table] = rows_by(thread)
        return self._rows[table]

    def column(self, table: str, name: str) -> Ints:
        """Return `kernelscope.analysis.columns.instants` or `ints` of a column."""
        if (table, name) not in self._columns:
            self._columns[table, name] = (instants(self.recording, table, name)[0] if name in INSTANTS else
                                          ints(self.recording, table, name))
        return self._columns[table, name]

    def intervals(self, table: str, thread: int) -> Intervals:
        """Return when any of a thread's rows of a table was under way."""
        rows = self.of(table).get(thread, slice(0, 0))
        return union(*(self.column(table, name)[rows] for name in ("start_ns", "end_ns")))

    @cached_property
    def range_names(self) -> tuple[Ints, list[str]]:
        """The name of each range (`common_name`) as a code, and the names."""
        label, words = codes(self.recording, "ranges", "name")
        names = [common_name(word) for word in (*words, "")]
        place = {name: code for code, name in enumerate(dict.fromkeys(names))}
        return np.array([place[name] for name in names], np.int64)[label], list(place)


def _others(recording: Recording, thread: int) -> Intervals:
    """Return when other threads of a thread's process worked: what is less than `NEAR_NS` apart is together.

    Waits are no work. A thread whose process is not known is taken to be of the same.
    """
    owner = ints(recording, "threads", "process_id")
    is_other = np.append((owner == owner[thread]) | (owner == UNKNOWN) | (owner[thread] == UNKNOWN), False)
    is_other[thread] = False
    if not is_other.any():
        return union(_NONE, _NONE)
    times: list[tuple[Ints, Ints]] = []
    for table, begin, finish in _WORK:
        rows = is_other[ints(recording, table, "thread_id")]
        if not rows.any():
            continue
        if table == "compilations":
            rows &= ~matches(recording, table, "outcome", "wait")
        elif table == "graph_events":  # between the two ends of a capture other code runs
            rows &= ~matches(recording, table, "kind", "capture")
        elif table == "activities":
            rows &= ~matches(recording, table, "kind", "sync")
        elif table == "api_calls":
            called, names = codes(recording, table, "name")
            rows &= ~np.isin(called, [at for at, name in enumerate(names) if call_state(name) == "wait"])
        start, end = (times[rows] for times in instants(recording, table, begin, finish))
        known = is_known(start) & (end >= start)
        times.append((start[known], end[known]))
    work = union(*(np.concatenate([each[side] for each in times] or [_NONE]) for side in (0, 1)))
    apart = work.start[1:] - work.end[:-1] >= NEAR_NS
    return Intervals(work.start[np.append(True, apart)[:len(work)]], work.end[np.append(apart, True)[:len(work)]])


def _inside(held: Intervals, window: Intervals) -> Intervals:
    """Return what is in a window; no others are looked at."""
    first, last = np.searchsorted(held.end, window.start, side="right"), np.searchsorted(held.start, window.end)
    near = slice(*first.tolist(), *last.tolist()) if len(window) else slice(0, 0)
    return Intervals(held.start[near], held.end[near]).within(window)


def _by_range(rows: _RowsOfThreads, thread: int, window: Intervals, states: HostStates,
              known: Intervals) -> dict[str, int]:
    """Return how much of the time in which a thread did nothing that is known was in which NVTX range."""
    if not len(window):
        return {}
    begin, finish = int(window.start[0]), int(window.end[0])
    of_thread = rows.of("ranges")[thread]
    start, end, parent = (rows.column("ranges", name)[of_thread] for name in ("start_ns", "end_ns", "parent_range_id"))
    near = np.flatnonzero((start < finish) & (end > begin) & (end > start))
    if not len(near):
        return {}
    numbers = near if isinstance(of_thread, slice) else of_thread[near]
    start, end, parent = np.clip(start[near], begin, finish), np.clip(end[near], begin, finish), parent[near]
    spent = np.rint(_rest(window, states).minus(known).common(start, end)).astype(np.int64)
    # A parent that is not near has no time that could be less.
    place = np.minimum(np.searchsorted(numbers, parent), len(numbers) - 1)
    inside = np.where((spent > 0) & (numbers[place] == parent), place, UNKNOWN)
    own = np.maximum(spent - sum_by(inside, spent, len(spent)), 0)
    code, names = rows.range_names
    labels, which = np.unique(code[numbers], return_inverse=True)
    sums = zip(labels.tolist(), sum_by(which, own, len(labels)).tolist(), strict=True)
    return _longest_first({names[label]: value for label, value in sums if value})


def _rest(window: Intervals, states: HostStates) -> Intervals:
    rest = window
    for parts in states.parts.values():
        for part in parts:
            rest = rest.minus(part)
    return rest


def _longest_first(values: dict[str, int]) -> dict[str, int]:
    return dict(sorted(values.items(), key=lambda item: -item[1]))


