"""What the host was doing at each moment: the phases of launches on any thread, compiles, driver calls and waits.

Every moment has one state. Where several threads are in different ones, or a launch is made inside another one, it is
the one nearest to the GPU: submit, prepare, dispatch, finish, compile, a launch without known phases (*unsplit*), a
driver call that is no launch (*call*), a wait for the device (*wait*). The rest is *outside*: Python and other code.
The dispatch of a launch that compiles is without all compiles, whichever launch they are of. What a library builds
for its cache is a compile too; building, updating and launching graphs are driver calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from kernelscope.analysis.columns import Bools, Floats, Ints, ints, matches, row_count
from kernelscope.analysis.intervals import Intervals, joined, union
from kernelscope.analysis.phases import PHASES
from kernelscope.recording.model import Recording

#: States in the order in which tables list them.
STATES: tuple[str, ...] = (*PHASES, "unsplit", "call", "wait", "outside")

#: Those of a launch that compiles nothing.
LAUNCHING: tuple[str, ...] = ("dispatch", "prepare", "submit", "finish", "unsplit")

_NONE = np.empty(0, dtype=np.int64)
#: Of two states at one moment the earlier one here counts.
_FIRST = ("submit", "prepare", "dispatch", "finish", "compile", "unsplit", "call", "wait")


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
        bounds = np.cumsum([0, *(len(each) for each in sets)]).tolist()
        found = [dict.fromkeys(STATES, 0) for _ in sets]
        for state, parts in self.parts.items():
            for part in parts:
                spent = part.common(start, end)
                for each, (first, last) in zip(found, pairwise(bounds), strict=True):
                    each[state] += round(float(spent[first:last].sum()))
        for each, times in zip(found, sets, strict=True):
            each["outside"] = times.total_ns - sum(each.values())
        return found


def host_states(recording: Recording) -> HostStates:
    """Return what the host was doing when."""
    bounds = [
        ints(recording, "launches", name)
        for name in ("start_ns", "dispatch_end_ns", "submit_start_ns", "submit_end_ns", "end_ns")
    ]
    start, end = bounds[0], bounds[-1]
    compiled, compiling = _compiles(recording, start, bounds[1])
    calls, waits = _calls(recording), _waits(recording)
    if _follow_one_another(start, end):
        if bool((bounds[1] < 0).all()):
            parts = {"unsplit": [Intervals(start, end)]}
            return HostStates(_outside_launches(parts, start, end, compiling, calls, waits))
        if all(_in_order(left, right) for left, right in pairwise(bounds)):
            return HostStates(_regular(bounds, compiled, compiling, calls, waits))
    return HostStates(_by_priority(bounds, compiled, compiling, calls, waits))


def dominant(by_state: dict[str, int]) -> str | None:
    """Return the state with the most time; None where there is no time."""
    state = max(STATES, key=lambda each: by_state.get(each, 0))
    return state if by_state.get(state, 0) > 0 else None


def _regular(bounds: Sequence[Ints], compiled: Ints, compiling: Intervals, calls: Intervals,
             waits: Intervals) -> dict[str, list[Intervals]]:
    """Launches one after another, with all their phases: nothing needs to be sorted."""
    start, dispatched, submitting, submitted, end = bounds
    begin, extra = start, list[Intervals]()
    parts: dict[str, list[Intervals]] = {}
    if len(compiled):
        dispatch = union(start[compiled], dispatched[compiled])
        begin = start.copy()
        begin[compiled] = dispatched[compiled]
        extra = [dispatch.minus(compiling)]
        parts["compile"] = [dispatch.within(compiling)]
    parts |= {
        "dispatch": [Intervals(begin, dispatched), *extra],
        "prepare": [Intervals(dispatched, submitting)],
        "submit": [Intervals(submitting, submitted)],
        "finish": [Intervals(submitted, end)],
    }
    return _outside_launches(parts, start, end, compiling, calls, waits)


def _outside_launches(parts: dict[str, list[Intervals]], start: Ints, end: Ints, compiling: Intervals,
                      calls: Intervals, waits: Intervals) -> dict[str, list[Intervals]]:
    """Add what the host did where no launch was under way."""
    if not (len(compiling) or len(calls) or len(waits)):
        return parts
    launches = union(start, end)
    compiling = compiling.minus(launches)
    calls = calls.minus(launches).minus(compiling)
    waits = waits.minus(launches).minus(compiling).minus(calls)
    return parts | {"compile": [*parts.get("compile", []), compiling], "call": [calls], "wait": [waits]}


def _by_priority(bounds: Sequence[Ints], compiled: Ints, compiling: Intervals, calls: Intervals,
                 waits: Intervals) -> dict[str, list[Intervals]]:
    """Launches that overlap, or of which some phases are not known."""
    start, dispatched, submitting, submitted, end = bounds
    is_compiled = np.zeros(len(start), dtype=np.bool_)
    is_compiled[compiled] = True
    dispatch = _known(start, dispatched)
    inside = union(*_both(start, dispatched, is_compiled))
    plain = union(*_both(start, dispatched, ~is_compiled))
    sets = {
        "submit": _known(submitting, submitted),
        "prepare": _known(dispatched, submitting),
        "dispatch": joined(plain, inside.minus(compiling)) if len(compiled) else dispatch,
        "finish": _known(submitted, end),
        "compile": compiling,
        "unsplit": _known(start, end),
        "call": calls,
        "wait": waits,
    }
    parts: dict[str, list[Intervals]] = {}
    cover = Intervals(start[:0], start[:0])
    for state in _FIRST:
        parts[state] = [sets[state].minus(cover)]
        cover = joined(cover, sets[state])
    return parts


def _follow_one_another(start: Ints, end: Ints) -> bool:
    return _in_order(start, end) and bool((end[:-1] <= start[1:]).all())


def _in_order(left: Ints, right: Ints) -> bool:
    return bool((left >= 0).all() and (left <= right).all())


def _known(start: Ints, end: Ints) -> Intervals:
    return union(*_both(start, end))


def _both(start: Ints, end: Ints, where: Bools | None = None) -> tuple[Ints, Ints]:
    known = (start >= 0) & (end >= 0)
    if where is not None:
        known &= where
    return start[known], end[known]


def _compiles(recording: Recording, start: Ints, dispatched: Ints) -> tuple[Ints, Intervals]:
    """The launches inside which something was compiled or loaded, and when anything was."""
    spent = ints(recording, "launches", "compile_ns")
    begun, ended = ints(recording, "compilations", "start_ns"), ints(recording, "compilations", "end_ns")
    asked = ints(recording, "compilations", "launch_id")
    timed = (begun >= 0) & (ended > begun)
    inside = asked[timed & (asked >= 0) & (asked < len(start))]
    compiled = np.flatnonzero((spent > 0) & (dispatched >= 0))
    # Without times of its own a compile is the last thing that dispatch does.
    alone = np.setdiff1d(compiled, inside)
    asked_for = _both(ints(recording, "builds", "start_ns"), ints(recording, "builds", "end_ns"),
                      ~matches(recording, "builds", "outcome", "hit"))
    return np.union1d(compiled, inside).astype(np.int64), union(
        np.concatenate((begun[timed], np.maximum(dispatched[alone] - spent[alone], start[alone]), asked_for[0])),
        np.concatenate((ended[timed], dispatched[alone], asked_for[1])),
    )


def _calls(recording: Recording) -> Intervals:
    """When a thread was in a driver call that was no recorded launch."""
    begun, ended = _both(ints(recording, "api_calls", "start_ns"), ints(recording, "api_calls", "end_ns"))
    if row_count(recording, "graph_events"):
        # A capture is no call: between its two ends other code runs.
        graphs = _both(ints(recording, "graph_events", "start_ns"), ints(recording, "graph_events", "end_ns"),
                       ~matches(recording, "graph_events", "kind", "capture"))
        begun, ended = np.concatenate((begun, graphs[0])), np.concatenate((ended, graphs[1]))
    if not row_count(recording, "activities"):
        return union(begun, ended)
    alone = (ints(recording, "activities", "launch_id") < 0) & ~matches(recording, "activities", "kind", "sync")
    if alone.any():
        submitting = ints(recording, "activities", "submit_start_ns")[alone]
        submitted = ints(recording, "activities", "submit_end_ns")[alone]
        others = _both(submitting, submitted)
        begun, ended = np.concatenate((begun, others[0])), np.concatenate((ended, others[1]))
    return union(begun, ended)


def _waits(recording: Recording) -> Intervals:
    """When a thread waited for the device: by its own call, or the recorder after a cell."""
    waits = np.flatnonzero(matches(recording, "activities", "kind", "sync"))
    start = ints(recording, "activities", "start_ns")[waits]
    end = ints(recording, "activities", "end_ns")[waits]
    ended, synchronized = ints(recording, "cells", "end_ns"), ints(recording, "cells", "synchronized_ns")
    return union(*_both(np.concatenate((start, ended)), np.concatenate((end, synchronized))))


def _near(part: Intervals, first: int, last: int) -> tuple[int, int]:
    """The places of those that may have time in common with what is between two times."""
    low = int(np.searchsorted(part.end, first, side="right"))
    return low, max(low, int(np.searchsorted(part.start, last, side="left")))
