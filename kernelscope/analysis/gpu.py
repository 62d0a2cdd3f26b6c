"""When the GPU had nothing to do, what the host did then, and everything that a summary shows of the GPU."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, cast, overload

import numpy as np

from kernelscope.analysis.activities import (
    Activities,
    Busy,
    CopySummary,
    Joined,
    KernelExecution,
    MemsetSummary,
    Spread,
    busiest_by_cell,
    busy,
    by_execution,
    gpu_activities,
    is_gpu_recorded,
    join,
    known_id,
    measured,
    memsets,
    overlap,
    spread,
    spreads_by,
    windows,
    without_trials,
)
from kernelscope.analysis.calls import CALL_STATES, call_state
from kernelscope.analysis.columns import (
    Bools,
    Floats,
    Intervals,
    Ints,
    Rows,
    codes,
    data_frame,
    floats,
    ids,
    instants,
    ints,
    joined,
    matches,
    replays,
    row_count,
    rows_by,
    trials,
    tuning_runs,
    union,
)
from kernelscope.analysis.compiling import compile_times_of
from kernelscope.analysis.launches import BOUNDARIES, PHASES
from kernelscope.analysis.owners import device_names, device_processes, has_processes, processes_of
from kernelscope.analysis.tuning import TuningGpu, tuning_gpu
from kernelscope.recording.model import Recording
from kernelscope.recording.time import duration_ns, is_known
from kernelscope.schema import UNKNOWN

if TYPE_CHECKING:
    import pandas as pd


# What the host was doing at each moment: the phases of launches on any thread, compiles, driver calls and waits.
#
# Every moment has one state. Where several threads are in different ones, or a launch is made inside another one,
# it is the one nearest to the GPU: a launch that is replayed for the GPU's counters (*measuring*), submit, prepare,
# dispatch, finish, compile, waiting for a compile of another thread (*compile_wait*), a launch without known phases
# (*unsplit*), work on graphs (*graph*: building, updating, launching them), a copy, a memset, an allocation (*memory*),
# another call of the driver or the runtime (*call*), a wait for the device (*wait*). The rest is *outside*: Python and
# other code. The dispatch of a launch that compiles is without all compiles, whichever launch they are of. What a
# library builds for its cache is a compile too.
#
# While launches are replayed for the counters the GPU works, though nothing that it does then is recorded: such time is
# no gap.

#: States in the order in which tables list them.
STATES: tuple[str, ...] = (*PHASES, "unsplit", "graph", "copy", "memset", "memory", "call", "wait", "outside")

#: Of so many devices a summary tells one by one.
MOST_DEVICES = 4

#: Those of a launch that compiles nothing.
LAUNCHING: tuple[str, ...] = ("dispatch", "prepare", "submit", "finish", "unsplit")

_NONE = np.empty(0, dtype=np.int64)
#: Of two states at one moment the earlier one here counts.
_FIRST = ("measuring", "submit", "prepare", "dispatch", "finish", "compile", "compile_wait", "unsplit", "graph", "copy",
          "memset", "memory", "call", "wait")


@dataclass(frozen=True)
class HostStates:
    """When the host was in which state.

    Attributes
    ----------
    parts : dict of str to list of Intervals
        By state, ``outside`` excepted; no two have time in common. Those of launches may touch and take no time.
    """

    parts: dict[str, list[Intervals]]

    def time_in(self, times: Intervals) -> dict[str, int]:
        """Return how much of `times` the host spent in each of `STATES`, in nanoseconds; they add up to it."""
        found = dict.fromkeys(STATES, 0)
        if not len(times):
            return found
        first, last = int(times.start[0]), int(times.end[-1])
        # The phases of launches share their boundaries: each is looked up once, and held so that its id stays its own.
        known: dict[int, tuple[Ints, Floats]] = {}

        def covered(values: Ints) -> Floats:
            if id(values) not in known:
                known[id(values)] = (values, times.covered(values))
            return known[id(values)][1]

        for state, parts in self.parts.items():
            for part in parts:
                low, high = _near(part, first, last)
                if low == 0 and high == len(part):
                    spent = covered(part.end) - covered(part.start)
                else:
                    spent = times.common(part.start[low:high], part.end[low:high])
                found[state] += round(float(spent.sum()))
        found["outside"] = times.total_ns - sum(found.values())
        return found

    def times_in(self, sets: Sequence[Intervals]) -> list[dict[str, int]]:
        """Return `time_in` of each of several sets, which together cost little more than one."""
        start = np.concatenate([each.start for each in sets] or [_NONE])
        end = np.concatenate([each.end for each in sets] or [_NONE])
        whose = np.repeat(np.arange(len(sets)), [len(each) for each in sets])
        by_state = dict.fromkeys(STATES, np.zeros(len(sets), dtype=np.int64))
        for state, parts in self.parts.items():
            for part in parts:
                spent = np.bincount(whose, weights=part.common(start, end), minlength=len(sets))
                by_state[state] = by_state[state] + np.rint(spent).astype(np.int64)
        by_state["outside"] = np.array([times.total_ns for times in sets], np.int64) - sum(by_state.values())
        return [dict(zip(STATES, values, strict=True)) for values in np.array([*by_state.values()]).T.tolist()]


def host_states(recording: Recording, thread_id: int | Ints | None = None) -> HostStates:
    """Return what the host was doing when.

    Parameters
    ----------
    recording : Recording
        What was recorded.
    thread_id : int or ndarray of int64, optional
        The row in ``threads`` of the one to look at, or the rows of several; without it, all are.
    """
    return _states(_Host(recording), thread_id)


def host_states_of(recording: Recording, threads: Iterable[int]) -> Iterator[tuple[int, HostStates]]:
    """Yield several threads with `host_states` of each; the columns are looked through once for all of them."""
    host = _Host(recording)
    for thread in threads:
        yield thread, _states(host, thread)


class _Host:
    """What the states of the host are made of, with the rows of a thread at hand."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.bounds = instants(recording, "launches", *BOUNDARIES)
        self.compile_ns = ints(recording, "launches", "compile_ns")
        self.compiled = (self.compile_ns > 0) & is_known(self.bounds[1])
        self.waiting = matches(recording, "launches", "cache", "wait")
        self.compile_wait_ns = compile_times_of(recording).wait_ns
        #: False; for whoever needs a mark on some launches, and takes it away.
        self.marked = np.zeros(len(self.compiled), dtype=np.bool_)
        self._rows: dict[str, dict[int, Ints | slice]] = {}

    @overload
    def rows(self, table: str, thread_id: int | Ints | None) -> Ints | slice: ...

    @overload
    def rows(self, table: str, thread_id: int | Ints | None, where: Bools) -> Ints: ...

    def rows(self, table: str, thread_id: int | Ints | None, where: Bools | None = None) -> Ints | slice:
        """Return which rows of a table are a thread's, or of several, where `where` holds; all, without a thread.

        What is of no known thread is of the threads of its process together.
        """
        if thread_id is None:
            return slice(None) if where is None else np.flatnonzero(where)
        if not isinstance(thread_id, int):
            is_wanted = np.zeros(row_count(self.recording, "threads") + 1, dtype=np.bool_)  # the last: of none known
            is_wanted[thread_id] = True
            threads = ints(self.recording, table, "thread_id")
            those = is_wanted[threads]
            if threads.min(initial=0) < 0:
                owners = ints(self.recording, "threads", "process_id")[thread_id]
                those |= (threads < 0) & np.isin(processes_of(self.recording, table), owners[owners >= 0])
            return np.flatnonzero(those if where is None else those & where)
        if table not in self._rows:
            self._rows[table] = rows_by(ids(self.recording, table, "thread_id"))
        rows = self._rows[table].get(thread_id, _NONE)
        if where is None:
            return rows
        return np.flatnonzero(where) if isinstance(rows, slice) else rows[where[rows]]

    @cached_property
    def built(self) -> Bools:
        """Which rows of ``builds`` took time to build: an autotuner's runs compile and launch."""
        return ~(matches(self.recording, "builds", "outcome", "hit") | tuning_runs(self.recording))

    @cached_property
    def events(self) -> Bools:
        """Which rows of ``graph_events`` are calls: between the two ends of a capture other code runs."""
        return ~matches(self.recording, "graph_events", "kind", "capture")

    @cached_property
    def waits(self) -> Bools:
        """Which rows of ``activities`` are waits."""
        return matches(self.recording, "activities", "kind", "sync")

    def measuring(self, thread_id: int | Ints | None) -> Intervals:
        """Return when a thread's launches, or those of several, were replayed for the GPU's counters.

        What launch it was that was replayed is not always known: then it is of no thread.
        """
        held = replays(self.recording)
        if held and thread_id is not None:
            owner = ints(self.recording, "launches", "thread_id")
            whose = np.array([UNKNOWN if row["launch_id"] is None else owner[row["launch_id"]] for row in held])
            held = [row for row, is_own in zip(held, np.isin(whose, thread_id).tolist(), strict=True) if is_own]
        return union(*(np.array([row[name] for row in held], np.int64) for name in ("start_ns", "end_ns")))

    @cached_property
    def calls(self) -> dict[str, Bools]:
        """By state, which rows of ``api_calls`` are of it."""
        return _by_state(self.recording, "api_calls", "name")

    @cached_property
    def asked(self) -> dict[str, Bools]:
        """By state, which rows of ``activities`` a call of it asked for that was no recorded launch."""
        alone = (ints(self.recording, "activities", "launch_id") < 0) & ~self.waits
        return {state: rows & alone for state, rows in _by_state(self.recording, "activities", "api").items()}


def _states(host: _Host, thread_id: int | Ints | None) -> HostStates:
    rows = host.rows("launches", thread_id)
    bounds = [each[rows] for each in host.bounds]
    start, end = bounds[0], bounds[-1]
    compiled, compiling, waiting = _compiles(host, thread_id, rows)
    calls = _calls(host, thread_id)
    measuring = host.measuring(thread_id)
    if _in_order(start, end) and (end[:-1] <= start[1:]).all() and not len(measuring):
        if not len(compiling) and not len(waiting) and not any([bool(is_known(each).any()) for each in bounds[1:4]]):
            parts = {"unsplit": [Intervals(start, end)]}
            return HostStates(_outside_launches(parts, start, end, calls))
        if all(_in_order(left, right) for left, right in pairwise(bounds)):
            return HostStates(_regular(bounds, np.flatnonzero(compiled), compiling, waiting, calls))
    return HostStates(_by_priority(bounds, compiled, {
        "measuring": measuring, "compile": compiling, "compile_wait": waiting, **calls}))


def dominant(by_state: dict[str, int]) -> str | None:
    """Return the state with the most time; None where there is no time."""
    state = max(STATES, key=lambda each: by_state.get(each, 0))
    return state if by_state.get(state, 0) > 0 else None


def _regular(bounds: Sequence[Ints], compiled: Ints, compiling: Intervals, waiting: Intervals,
             calls: Mapping[str, Intervals]) -> dict[str, list[Intervals]]:
    """Return the states of launches that do not overlap and have all phases, without sorting."""
    start, dispatched, submitting, submitted, end = bounds
    begin, extra = start, list[Intervals]()
    parts: dict[str, list[Intervals]] = {}
    if len(compiled):
        dispatch = union(start[compiled], dispatched[compiled])
        begin = start.copy()
        begin[compiled] = dispatched[compiled]
        extra = [dispatch.minus(joined(compiling, waiting))]
        parts["compile"] = [dispatch.within(compiling)]
        parts["compile_wait"] = [dispatch.within(waiting)]
    parts |= {
        "dispatch": [Intervals(begin, dispatched), *extra],
        "prepare": [Intervals(dispatched, submitting)],
        "submit": [Intervals(submitting, submitted)],
        "finish": [Intervals(submitted, end)],
    }
    return _outside_launches(parts, start, end, {"compile": compiling, "compile_wait": waiting, **calls})


def _outside_launches(parts: dict[str, list[Intervals]], start: Ints, end: Ints,
                      others: Mapping[str, Intervals]) -> dict[str, list[Intervals]]:
    """Add what the host did where no launch was under way."""
    found = {state: each for state, each in others.items() if len(each)}
    cover = union(start, end) if found else Intervals(_NONE, _NONE)
    for state, each in found.items():
        parts[state] = [*parts.get(state, []), each.minus(cover)]
        cover = joined(cover, each)
    return parts


def _by_priority(bounds: Sequence[Ints], compiled: Bools,
                 others: Mapping[str, Intervals]) -> dict[str, list[Intervals]]:
    """Return the states of launches that overlap, lack phases or were measured, and others, by priority."""
    start, dispatched, submitting, submitted, end = bounds
    dispatch = _known(start, dispatched)
    inside = union(*_both(start, dispatched, compiled))
    plain = union(*_both(start, dispatched, ~compiled))
    sets = {
        "submit": _known(submitting, submitted),
        "prepare": _known(dispatched, submitting),
        "dispatch": joined(
            plain, inside.minus(joined(others["compile"], others["compile_wait"]))) if compiled.any() else dispatch,
        "finish": _known(submitted, end),
        "unsplit": _known(start, end),
        **others,
    }
    parts: dict[str, list[Intervals]] = {}
    cover = Intervals(start[:0], start[:0])
    for state in _FIRST:
        parts[state] = [sets[state].minus(cover)]
        cover = joined(cover, sets[state])
    return parts


def _in_order(left: Ints, right: Ints) -> bool:
    return bool(is_known(left).all() and (left <= right).all())


def _known(start: Ints, end: Ints) -> Intervals:
    return union(*_both(start, end))


def _both(start: Ints, end: Ints, where: Bools | None = None) -> tuple[Ints, Ints]:
    known = is_known(start, end)
    if where is not None:
        known &= where
    return start[known], end[known]


def _compiles(host: _Host, thread_id: int | Ints | None,
              launches: Ints | slice) -> tuple[Bools, Intervals, Intervals]:
    """Return which of a thread's launches compiled or waited for a compile, and the intervals of all its compiles.

    The last are those in which it waited for a compile of another thread and, of several threads, none compiled.
    """
    recording, (start, dispatched, *_), spent = host.recording, host.bounds, host.compile_ns
    rows = host.rows("compilations", thread_id)
    begun, ended = (times[rows] for times in instants(recording, "compilations", "start_ns", "end_ns"))
    asked = ints(recording, "compilations", "launch_id")[rows]
    waited = np.maximum(host.compile_wait_ns[rows], 0)
    timed = is_known(begun) & (ended > begun)
    inside = asked[timed & (asked >= 0) & (asked < len(start))]
    host.marked[inside] = True
    compiled = host.compiled[launches] | host.marked[launches]
    # A compile whose times were not recorded is taken to be the end of dispatch.
    alone = host.rows("launches", thread_id, host.compiled)
    alone = alone[~host.marked[alone]]
    host.marked[inside] = False
    is_waiting = host.waiting[alone]
    asked_alone = np.maximum(dispatched[alone] - spent[alone], start[alone])
    requests = host.rows("builds", thread_id, host.built)
    start_of_build, end_of_build = instants(recording, "builds", "start_ns", "end_ns")
    asked_for = _both(start_of_build[requests], end_of_build[requests])
    # Who waits for another's compile asks for the compiler lock first of all.
    compiling = union(
        np.concatenate(((begun + waited)[timed], asked_alone[~is_waiting], asked_for[0])),
        np.concatenate((ended[timed], dispatched[alone[~is_waiting]], asked_for[1])))
    waiting = union(np.concatenate((begun[timed], asked_alone[is_waiting])),
                    np.concatenate(((begun + waited)[timed], dispatched[alone[is_waiting]])))
    return compiled, compiling, waiting.minus(compiling)


def _calls(host: _Host, thread_id: int | Ints | None) -> dict[str, Intervals]:
    """Return the intervals of what a thread called that was no recorded launch, by state.

    The recorder's own waits for the device, after a cell's end, are of no thread but of the cell's process.
    """
    recording = host.recording
    found: dict[str, list[tuple[Ints, Ints]]] = {state: [] for state in CALL_STATES}

    def add(state: str, table: str, rows: Ints | Bools | slice, start: str = "start_ns",
            end: str = "end_ns") -> None:
        begun, ended = instants(recording, table, start, end)
        found[state].append((begun[rows], ended[rows]))

    if row_count(recording, "graph_events"):
        add("graph", "graph_events", host.rows("graph_events", thread_id, host.events))
    for state, rows in host.calls.items():
        add(state, "api_calls", host.rows("api_calls", thread_id, rows))
    for state, rows in host.asked.items():
        add(state, "activities", host.rows("activities", thread_id, rows), "submit_start_ns", "submit_end_ns")
    if row_count(recording, "activities"):
        add("wait", "activities", host.rows("activities", thread_id, host.waits))
    if not isinstance(thread_id, int):
        cells = slice(None) if thread_id is None else np.isin(
            ints(recording, "cells", "process_id"), ints(recording, "threads", "process_id")[thread_id])
        add("wait", "cells", cells, "end_ns", "synchronized_ns")
    return {state: joined(*[_known(*times) for times in found[state]]) for state in _FIRST if state in found}


@dataclass(frozen=True)
class CallSummary:
    """The calls of one function of the CUDA driver or runtime.

    Attributes
    ----------
    name : str
        The function.
    times : Spread
        How long its calls took on the host, those inside launches too.
    """

    name: str
    times: Spread


def by_call(recording: Recording) -> tuple[CallSummary, ...]:
    """Summarize the recorded calls of the CUDA driver and runtime by function, in order of total time, longest first.

    These are the calls that started something on the GPU, waited for it, or are in ``api_calls``; the others of a
    program are not recorded.
    """
    waits = matches(recording, "activities", "kind", "sync")
    functions: dict[str, int] = {}
    owners, spent = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for table, name, begin, finish, rows in (
            ("api_calls", "name", "start_ns", "end_ns", np.ones(row_count(recording, "api_calls"), bool)),
            ("activities", "api", "submit_start_ns", "submit_end_ns", ~waits),
            ("activities", "api", "start_ns", "end_ns", waits)):
        called, names = codes(recording, table, name)
        thread, (start, end) = ints(recording, table, "thread_id"), instants(recording, table, begin, finish)
        took = duration_ns(start, end)
        found = np.flatnonzero(rows & (called >= 0) & (called < len(names)) & (took >= 0))
        # All that one call asked for, such as a graph's kernels, says the same of it.
        found = found[np.lexsort((thread[found], start[found]))]
        again = (np.diff(start[found]) == 0) & (np.diff(thread[found]) == 0)
        found = np.delete(found, np.flatnonzero(again) + 1)
        place = np.array([functions.setdefault(each, len(functions)) for each in names], np.int64)
        if len(found):
            owners.append(place[called[found]])
            spent.append(took[found])
    spreads = spreads_by(np.concatenate(owners), np.concatenate(spent), len(functions))
    summaries = [CallSummary(name, times) for name, at in functions.items() if (times := spreads[at]) is not None]
    return tuple(sorted(summaries, key=lambda each: (-each.times.total_ns, each.name)))


def _by_state(recording: Recording, table: str, column: str) -> dict[str, Bools]:
    """Return by the state that a call's name tells which rows are of it."""
    called, names = codes(recording, table, column)
    states = [call_state(name) for name in (*names, "")]
    return {} if not len(called) else {
        state: np.isin(called, [place if place < len(names) else -1
                                for place, each in enumerate(states) if each == state])
        for state in dict.fromkeys(states)}


def _near(part: Intervals, first: int, last: int) -> tuple[int, int]:
    """Return the range of intervals that may overlap the time between two instants."""
    low = int(np.searchsorted(part.end, first, side="right"))
    return low, max(low, int(np.searchsorted(part.start, last, side="left")))


# Gaps.

@dataclass(frozen=True)
class LaneGaps:
    """The gaps of one stream, or of one device over all of its streams.

    Attributes
    ----------
    device_id : int or None
        The device; None where it is unknown.
    stream : int or None
        CUPTI's id of the stream; None where it is unknown, and over all streams.
    all_streams : bool
        Whether these are the gaps over all streams of the device.
    activities : int
        How many activities it had.
    busy_ns : int
        Time in which any of them ran.
    idle : Intervals
        The gaps: between activities, or all idle time of the windows that were asked for.
    by_state : dict of str to int
        Time in each state of the host (`kernelscope.analysis.gpu.STATES`), in nanoseconds; they add up to `idle_ns`.
    """

    device_id: int | None
    stream: int | None
    all_streams: bool
    activities: int
    busy_ns: int
    idle: Intervals
    by_state: dict[str, int]

    @property
    def idle_ns(self) -> int:
        """Return the sum of all gaps, in nanoseconds."""
        return self.idle.total_ns

    @property
    def dominant(self) -> str | None:
        """Return the host's most frequent state during the gaps; None without gaps."""
        return dominant(self.by_state)


@dataclass(frozen=True)
class Gap:
    """One gap.

    Attributes
    ----------
    device_id, stream : int or None
        As of `LaneGaps`.
    start_ns, end_ns : int
        When it was, on the host clock.
    before, after : int or None
        The row in ``activities`` of the one that ended last before it, and of the one that ended it; None at the edge
        of a window.
    by_state : dict of str to int
        What the host did meanwhile.
    """

    device_id: int | None
    stream: int | None
    start_ns: int
    end_ns: int
    before: int | None
    after: int | None
    by_state: dict[str, int]

    @property
    def duration_ns(self) -> int:
        """Return the duration in nanoseconds."""
        return self.end_ns - self.start_ns

    @property
    def dominant(self) -> str | None:
        """Return the host's most frequent state during the gap."""
        return dominant(self.by_state)


def gaps(
    recording: Recording, within: Intervals | None = None, *, by_stream: bool = True,
    activities: Activities | None = None, host: HostStates | None = None,
) -> list[LaneGaps]:
    """Return the gaps of each device over all its streams, each followed by those of its streams.

    Parameters
    ----------
    recording : Recording
        What was recorded.
    within : Intervals, optional
        Where to look, such as `kernelscope.analysis.activities.windows`: all idle time inside, before the first
        activity and after the last one too. Without it, gaps are what is between activities.
    by_stream : bool
        Whether streams have rows of their own.
    activities, host : optional
        `gpu_activities` and `host_states` of the recording, where they are at hand.
    """
    activities = gpu_activities(recording) if activities is None else activities
    host = host_states(recording) if host is None else host
    lanes: list[LaneGaps] = []
    devices = [*activities.by_device()]
    replays = [measured(recording, device) for device, _ in devices]
    of_devices = [_idle(own, within, measuring) for (_, own), measuring in zip(devices, replays, strict=True)]
    idle_sets = [idle for idle, _ in of_devices]
    states = host.times_in(idle_sets) if len(devices) > MOST_DEVICES else [host.time_in(idle) for idle in idle_sets]
    for (device, own), measuring, (idle, busy_ns), by_state in zip(devices, replays, of_devices, states, strict=True):
        lanes.append(LaneGaps(known_id(device), None, True, len(own), busy_ns, idle, by_state))
        if not by_stream:
            continue
        streams = [(known_id(stream), each) for stream, each in own.by_stream()]
        if len(streams) == 1:  # the same gaps
            lanes.append(replace(lanes[-1], stream=streams[0][0], all_streams=False))
            continue
        found = [_idle(each, within, measuring) for _, each in streams]
        for (stream, each), (idle, busy_ns), by_state in zip(
                streams, found, host.times_in([idle for idle, _ in found]), strict=True):
            lanes.append(LaneGaps(known_id(device), stream, False, len(each), busy_ns, idle, by_state))
    return lanes


def largest_gaps(
    recording: Recording, count: int = 10, within: Intervals | None = None, *, by_stream: bool = False,
) -> list[Gap]:
    """Return the longest gaps with what the host did in each, longest first.

    Parameters
    ----------
    recording : Recording
        What was recorded.
    count : int
        How many at most.
    within : Intervals, optional
        As of `gaps`.
    by_stream : bool
        Whether to look on each stream, rather than over all streams of each device.
    """
    activities, host = gpu_activities(recording), host_states(recording)
    found: list[tuple[LaneGaps, Activities, int]] = []
    for lane in gaps(recording, within, by_stream=by_stream, activities=activities, host=host):
        if lane.all_streams == by_stream:
            continue
        mask = activities.device == (-1 if lane.device_id is None else lane.device_id)
        if by_stream:
            mask &= activities.stream == (-1 if lane.stream is None else lane.stream)
        own = activities.where(mask)
        longest = np.argsort(-lane.idle.durations, kind="stable")[:count].tolist()
        found += [(lane, own, place) for place in longest]
    found.sort(key=lambda each: -int(each[0].idle.durations[each[2]]))
    return [_gap(lane, own, place, host) for lane, own, place in found[:count]]


def gap_table(recording: Recording, within: Intervals | None = None) -> pd.DataFrame:
    """Return `gaps` as a DataFrame: a row a device and a row a stream.

    Its columns are ``device_id``, ``stream`` (null over all streams), ``all_streams``, ``activities``, ``busy_ns``,
    ``gaps``, ``idle_ns``, ``longest_ns``, ``dominant`` and a column a state of the host, such as ``dispatch_ns``.
    """
    def longest(lane: LaneGaps) -> int | None:
        return int(lane.idle.durations.max()) if len(lane.idle) else None

    states = {f"{state}_ns": lambda lane, state=state: lane.by_state[state] for state in STATES}
    return data_frame(gaps(recording, within), {
        "device_id": "Int64", "stream": "Int64", "all_streams": "boolean", "activities": "Int64", "busy_ns": "Int64",
        "gaps": "Int64", "idle_ns": "Int64", "longest_ns": "Int64", "dominant": "object",
        **dict.fromkeys(states, "Int64")}, {"gaps": lambda lane: len(lane.idle), "longest_ns": longest, **states})


def _idle(own: Activities, within: Intervals | None, measuring: Intervals) -> tuple[Intervals, int]:
    """Return the gaps, and the busy time; `measuring` is neither."""
    if within is None:
        return own.busy.between().minus(measuring), own.busy.total_ns
    return within.minus(own.busy).minus(measuring), within.common_ns(own.busy)


def _gap(lane: LaneGaps, own: Activities, place: int, host: HostStates) -> Gap:
    start, end = lane.idle.start[place:place + 1], lane.idle.end[place:place + 1]
    return Gap(
        lane.device_id, lane.stream, int(start[0]), int(end[0]),
        _first(own.row[(own.end == start[0])]), _first(own.row[(own.start == end[0])]),
        host.time_in(Intervals(start, end)),
    )


def _first(rows: Ints) -> int | None:
    return int(rows[0]) if len(rows) else None


# `gpu_summary`.

@dataclass(frozen=True)
class GpuSummary:
    """What the GPU did; what was not measured is None.

    Attributes
    ----------
    source : str
        What measured it: cupti or events.
    devices : dict of int to str
        What to call each device, by its id: by CUDA's ordinal.
    busy : tuple of Busy
        How busy each device was in the cells, each until the device was synchronized.
    idle : tuple of LaneGaps
        The idle time of each device in the same windows, with what the host did meanwhile.
    by_cell : dict of int to float
        The busy share of each cell, 0 to 1, of its busiest device.
    kernels : int
        Kernels that ran, or were timed.
    joined : int
        Launches whose kernel is known.
    execute, queue : Spread or None
        How long kernels ran, whoever launched them; how long those of launches queued.
    execution : Rows of KernelExecution
        By kernel, in order of total execution time.
    copies : tuple of CopySummary
        By direction.
    memsets : tuple of MemsetSummary
        By device.
    tuning : TuningGpu or None
        What ran for autotuners' benchmarks, which is part of `busy`; their kernels are else nowhere. None where nothing
        was tuned.
    reversed, untimed : int
        Activities that were left out, because their end is before their start or a time was not measured.
    clock_error_ns : float or None
        How far the GPU's times can be off on the host clock.
    """

    source: str
    devices: Mapping[int, str]
    busy: tuple[Busy, ...]
    idle: tuple[LaneGaps, ...]
    by_cell: Mapping[int, float]
    kernels: int
    joined: int
    execute: Spread | None
    queue: Spread | None
    execution: Rows[KernelExecution]
    copies: tuple[CopySummary, ...]
    memsets: tuple[MemsetSummary, ...]
    tuning: TuningGpu | None
    reversed: int
    untimed: int
    clock_error_ns: float | None

    @property
    def others(self) -> Rows[KernelExecution]:
        """Return the kernels that neither a recorded launch nor a graph launched."""
        return self.execution.where(self.execution.column("others") > 0)


def gpu_summary(recording: Recording, joined: Joined | None = None,
                host: HostStates | None = None) -> GpuSummary | None:
    """Return what a summary shows of the GPU's side; None where that was not recorded.

    Parameters
    ----------
    recording : Recording
        What was recorded.
    joined, host : optional
        `join` and `host_states` of it, where they are at hand.
    """
    if not is_gpu_recorded(recording):
        return None
    everything = joined or join(recording)
    joined = without_trials(recording, everything)
    activities = gpu_activities(recording)
    within = windows(recording)
    execution, working = by_execution(recording, joined), tuple(busy(recording, within, activities=activities))
    alone = joined.execute_ns[joined.kernel < 0]
    executed = np.concatenate((joined.kernel_execute_ns, alone[alone >= 0]))
    errors = floats(recording, "health", "clock_error_ns")
    known = errors[np.isfinite(errors)]
    return GpuSummary(
        source=_source(recording),
        devices=dict(enumerate(device_names(recording))),
        busy=working,
        idle=(tuple(_idle_of_processes(recording, within, activities, working)) if has_processes(recording) else
              tuple(gaps(recording, within, by_stream=False, activities=activities, host=host))),
        by_cell={
            cell: share for cell, share in enumerate(busiest_by_cell(recording, activities=activities).tolist())
            if share == share
        },
        kernels=execution.total("kernels"),
        joined=int(((joined.kernel >= 0) | (joined.execute_ns >= 0)).sum()),
        execute=spread(executed),
        queue=spread(joined.queue_ns),
        execution=execution,
        copies=tuple(overlap(recording, activities=activities)),
        memsets=tuple(memsets(recording, activities=activities)),
        tuning=_tuning_gpu(recording, everything),
        reversed=activities.reversed,
        untimed=activities.untimed,
        clock_error_ns=float(known.max()) if len(known) else None,
    )


def _tuning_gpu(recording: Recording, everything: Joined) -> TuningGpu | None:
    """Return what ran for all benchmarks together; without activities, what launches' events timed are trials."""
    runs = tuning_gpu(recording).values()
    if runs:
        return TuningGpu(*(sum(getattr(each, name) for each in runs)
                           for name in ("trials_ns", "flush_ns", "others_ns")))
    tried = everything.kernel_execute_ns[np.append(trials(recording), False)[everything.launch]]
    spent = int(tried[tried >= 0].sum())
    return TuningGpu(spent, 0, 0) if spent else None


def told_devices(busy: Sequence[Busy]) -> Sequence[Busy]:
    """Return the devices of which a summary tells one by one: of more than `MOST_DEVICES` the least and most busy."""
    if len(busy) <= MOST_DEVICES:
        return busy
    order = sorted(busy, key=lambda each: each.share or 0.0)
    return order[0], order[-1]


def _idle_of_processes(recording: Recording, within: Intervals, activities: Activities,
                       busy: Sequence[Busy]) -> Iterator[LaneGaps]:
    """Yield what the processes that used a device did while it idled; no others made it wait."""
    told, users = {each.device_id for each in told_devices(busy)}, device_processes(recording)
    owner = ints(recording, "threads", "process_id")
    for device, own in activities.by_device():
        number = known_id(device)
        if number in told:
            threads = np.flatnonzero(np.isin(owner, [] if number is None else users[number]))
            idle, busy_ns = _idle(own, within, measured(recording, device))
            yield LaneGaps(number, None, True, len(own), busy_ns, idle, host_states(recording, threads).time_in(idle))


def _source(recording: Recording) -> str:
    held: object = recording.metadata.get("gpu")
    source = cast("dict[str, Any]", held).get("source") if isinstance(held, dict) else None
    return source if isinstance(source, str) else "cupti"
