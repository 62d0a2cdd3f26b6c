"""Launches that took far longer than others of their kernel, and what else happened meanwhile."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from kernelscope.analysis.calls import call_state
from kernelscope.analysis.columns import (
    Bools,
    Intervals,
    Ints,
    codes,
    ids,
    instants,
    ints,
    matches,
    measured_launches,
    one_group,
    row_count,
    rows_at,
    union,
)
from kernelscope.analysis.launches import LaunchPhases, launch_phases, long_ones
from kernelscope.analysis.owners import processes_of
from kernelscope.recording.model import Recording
from kernelscope.schema import UNKNOWN

#: Long launches stand out where they take at least this share of the time, and are at most this share of the launches.
LEAST_TIME, MOST_LAUNCHES = 0.1, 0.1
#: Of fewer launches none stands out.
FEW = 20
#: So many of the longest are described.
DESCRIBED = 5

_LOADING = ("ModuleLoad", "LibraryLoad", "LibraryGetModule", "LinkCreate")


@dataclass(frozen=True)
class Meanwhile:
    """What else happened during a launch.

    Attributes
    ----------
    kind : str
        ``load`` (its thread loaded code into the device), ``copy`` (it copied), ``memset`` (it filled memory),
        ``memory`` (it allocated or freed), ``gc`` (Python collected garbage on its thread), ``other_gc`` (on another
        thread, for which Python's own code waits), ``compile`` (another thread compiled), ``threads`` (other threads
        launched); all of its own process.
    count : int
        How often; of ``threads``, how many of them.
    duration_ns : int
        For how much of the launch, its own compiles left out.
    size_bytes : int or None
        How much was copied, where that is known.
    generation : int or None
        Of garbage collections the oldest generation that was looked at.
    """

    kind: str
    count: int
    duration_ns: int
    size_bytes: int | None = None
    generation: int | None = None


@dataclass(frozen=True)
class LongLaunch:
    """A launch that took long.

    Attributes
    ----------
    launch_id : int
        Its row in ``launches``.
    kernel : str
        The kernel's name.
    launching_ns : int
        Its own host time without compiles.
    phase : str or None
        The phase in which it spent the most; None where phases were not recorded.
    phase_ns : int
        How much it spent there.
    is_first : bool
        Whether it is its specialization's first in the recording: code is loaded then, and looked up for the first
        time.
    meanwhile : tuple of Meanwhile
        What else happened, the longest first.
    """

    launch_id: int
    kernel: str
    launching_ns: int
    phase: str | None
    phase_ns: int
    is_first: bool
    meanwhile: tuple[Meanwhile, ...]


@dataclass(frozen=True)
class Outliers:
    """Launches that took more than `kernelscope.analysis.launches.LONG` times the median of all, or of their kernel.

    Attributes
    ----------
    launches, of : int
        How many there are, and how many launches there are in all.
    spent_ns, of_ns : int
        Their own host time without compiles, and that of all launches.
    longest : tuple of LongLaunch
        The longest of them, at most `DESCRIBED`.
    kernel : str or None
        Whose they are, where all are of one kernel and others launched too.
    """

    launches: int
    of: int
    spent_ns: int
    of_ns: int
    longest: tuple[LongLaunch, ...]
    kernel: str | None = None


def outliers(recording: Recording, phases: LaunchPhases | None = None) -> Outliers | None:
    """Return the launches that took far longer than others; None where they hold no more than their share.

    Parameters
    ----------
    recording : Recording
        What was recorded.
    phases : LaunchPhases, optional
        `launch_phases` of it, where it is at hand.
    """
    phases = launch_phases(recording) if phases is None else phases
    spent, owner = phases.launching_ns.copy(), ids(recording, "launches", "dispatcher_id")
    spent[measured_launches(recording)] = UNKNOWN  # they took as long as their replay
    timed = spent >= 0
    of, of_ns = int(timed.sum()), int(spent[timed].sum())
    if of < FEW:
        return None
    by_kernel = long_ones(owner, spent, int(owner.max()) + 1)
    for rows in (np.union1d(long_ones(one_group(len(owner)), spent, 1), by_kernel), by_kernel):
        held = int(spent[rows].sum())
        if len(rows) and held >= LEAST_TIME * of_ns and len(rows) <= MOST_LAUNCHES * of:
            break
    else:
        return None
    longest = rows[np.argsort(-spent[rows], kind="stable")][:DESCRIBED].tolist()
    names = rows_at(recording, "dispatchers", owner[longest])
    kernels = [str(names[int(owner[row])]["name"]) for row in longest]
    is_of_one = bool((owner[rows] == owner[rows[0]]).all()) and bool((owner[timed] != owner[rows[0]]).any())
    return Outliers(len(rows), of, held, of_ns, tuple(map(partial(_described, recording, phases), longest, kernels)),
                    kernels[0] if is_of_one else None)


def _described(recording: Recording, phases: LaunchPhases, row: int, kernel: str) -> LongLaunch:
    used = ids(recording, "launches", "specialization_id")
    # Each process loads a specialization for itself.
    process = processes_of(recording, "launches")
    own = process == process[row]
    is_first = bool(used[row] >= 0) and int(np.argmax((used == used[row]) & own)) == row
    return LongLaunch(row, kernel, int(phases.launching_ns[row]), *phases.longest(row), is_first,
                      _meanwhile(recording, row))


def _meanwhile(recording: Recording, row: int) -> tuple[Meanwhile, ...]:
    start, end = (int(each[row]) for each in instants(recording, "launches", "start_ns", "end_ns"))
    thread = int(ints(recording, "launches", "thread_id")[row])
    process = int(processes_of(recording, "launches")[row])
    found: list[Meanwhile] = []

    def own(table: str) -> Bools:
        return ints(recording, table, "thread_id") == thread

    def other(table: str) -> Bools:
        return ~own(table) & (processes_of(recording, table) == process)

    def within(table: str, begin: str, finish: str, where: Bools) -> tuple[Ints, Intervals, int]:
        """What overlaps the launch outside of its own compiles; and of that the times, and for how long."""
        begun, ended = instants(recording, table, begin, finish)
        chosen = np.flatnonzero(where & (ended > start) & (begun < end) & (ended >= begun))
        low, high = np.maximum(begun[chosen], start), np.minimum(ended[chosen], end)
        outside = compiled.common(low, high) < high - low
        times = union(low[outside], high[outside])
        return chosen[outside], times, times.total_ns - times.common_ns(compiled)

    compiled = union(np.empty(0, np.int64), np.empty(0, np.int64))
    _, compiled, _ = within("compilations", "start_ns", "end_ns", own("compilations"))

    def during(table: str, begin: str, finish: str, where: Bools, kind: str, size: Ints | None = None,
               generation: Ints | None = None) -> None:
        chosen, _, took = within(table, begin, finish, where)
        if took:
            amount = None if size is None or bool((size[chosen] < 0).any()) else int(size[chosen].sum())
            oldest = UNKNOWN if generation is None else int(generation[chosen].max())
            found.append(Meanwhile(kind, len(chosen), took, amount, None if oldest == UNKNOWN else oldest))

    if row_count(recording, "api_calls"):
        called, names = codes(recording, "api_calls", "name")
        loads = _named(called, names, _LOADING)
        during("api_calls", "start_ns", "end_ns", own("api_calls") & loads, "load")
        memory = np.isin(called, [at for at, name in enumerate(names) if call_state(name) == "memory"])
        during("api_calls", "start_ns", "end_ns", own("api_calls") & memory, "memory")
    if row_count(recording, "activities"):
        for kind, what in (("memcpy", "copy"), ("memset", "memset")):
            during("activities", "submit_start_ns", "submit_end_ns",
                   matches(recording, "activities", "kind", kind) & own("activities"), what,
                   ints(recording, "activities", "size_bytes"))
    if row_count(recording, "collections"):
        for kind, where in (("gc", own("collections")), ("other_gc", other("collections"))):
            during("collections", "start_ns", "end_ns", where, kind,
                   generation=ints(recording, "collections", "generation"))
    if row_count(recording, "compilations"):
        did_compile = ~matches(recording, "compilations", "outcome", "wait")
        during("compilations", "start_ns", "end_ns", other("compilations") & did_compile, "compile")
    threads = ints(recording, "launches", "thread_id")
    others, _, took = within("launches", "start_ns", "end_ns", other("launches"))
    if took:
        found.append(Meanwhile("threads", len(np.unique(threads[others])), took))
    return tuple(sorted(found, key=lambda each: -each.duration_ns))


def _named(called: Ints, names: list[str], contained: tuple[str, ...]) -> Bools:
    places = [place for place, name in enumerate(names) if any(each in name for each in contained)]
    return np.isin(called, places)

