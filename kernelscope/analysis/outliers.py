"""Launches that took far longer than others of their kernel, and what else happened meanwhile."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from kernelscope.analysis.columns import Bools, Ints, codes, ints, matches, row_count, rows_at, union
from kernelscope.analysis.launches import LaunchPhases, launch_phases, long_ones
from kernelscope.analysis.owners import has_processes
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
        ``load`` (its thread loaded code into the device), ``copy`` (it copied), ``memory`` (it allocated or freed),
        ``gc`` (Python collected garbage on its thread), ``other_gc`` (on another thread, for which Python's own code
        waits), ``compile`` (another thread compiled), ``threads`` (other threads launched).
    count : int
        How often; of ``threads``, how many of them.
    duration_ns : int
        For how much of the launch.
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
    spent, owner = phases.launching_ns, ints(recording, "launches", "dispatcher_id")
    timed = spent >= 0
    of, of_ns = int(timed.sum()), int(spent[timed].sum())
    if of < FEW:
        return None
    by_kernel = long_ones(owner, spent, int(owner.max()) + 1)
    for rows in (np.union1d(long_ones(np.zeros_like(owner), spent, 1), by_kernel), by_kernel):
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
    used = ints(recording, "launches", "specialization_id")
    # Each process loads a specialization for itself.
    own = _of_process(recording, "launches", int(ints(recording, "launches", "thread_id")[row]))
    is_first = bool(used[row] >= 0) and int(np.argmax((used == used[row]) & own)) == row
    return LongLaunch(row, kernel, int(phases.launching_ns[row]), *phases.longest(row), is_first,
                      _meanwhile(recording, row))


def _of_process(recording: Recording, table: str, thread: int) -> Bools:
    """Return which rows of a table may be of the process of a thread: those of no other thread's process."""
    if not has_processes(recording):
        return np.ones(row_count(recording, table), dtype=np.bool_)
    owner = np.append(ints(recording, "threads", "process_id"), UNKNOWN)
    whose = owner[ints(recording, table, "thread_id")]
    return (whose == owner[thread]) | (whose < 0) | bool(owner[thread] < 0)


def _meanwhile(recording: Recording, row: int) -> tuple[Meanwhile, ...]:
    start, end = (int(ints(recording, "launches", name)[row]) for name in ("start_ns", "end_ns"))
    thread = int(ints(recording, "launches", "thread_id")[row])
    found: list[Meanwhile] = []

    def during(table: str, begin: str, finish: str, where: Bools, kind: str, size: Ints | None = None,
               generation: Ints | None = None) -> None:
        begun, ended = ints(recording, table, begin), ints(recording, table, finish)
        chosen = np.flatnonzero(where & (ended > start) & (begun < end) & (ended >= begun))
        if len(chosen):
            times = union(np.maximum(begun[chosen], start), np.minimum(ended[chosen], end))
            amount = None if size is None or bool((size[chosen] < 0).any()) else int(size[chosen].sum())
            oldest = UNKNOWN if generation is None else int(generation[chosen].max())
            found.append(Meanwhile(kind, len(chosen), times.total_ns, amount, None if oldest == UNKNOWN else oldest))

    if row_count(recording, "api_calls"):
        called, names = codes(recording, "api_calls", "name")
        own = ints(recording, "api_calls", "thread_id") == thread
        loads = _named(called, names, _LOADING)
        during("api_calls", "start_ns", "end_ns", own & loads, "load")
        during("api_calls", "start_ns", "end_ns", own & ~loads & _named(called, names, ("Mem", "Malloc", "Free")),
               "memory")
    if row_count(recording, "activities"):
        own = matches(recording, "activities", "kind", "memcpy")
        own &= ints(recording, "activities", "thread_id") == thread
        during("activities", "submit_start_ns", "submit_end_ns", own, "copy",
               ints(recording, "activities", "size_bytes"))
    if row_count(recording, "collections"):
        own = ints(recording, "collections", "thread_id") == thread
        others = ~own & _of_process(recording, "collections", thread)
        for kind, where in (("gc", own), ("other_gc", others)):
            during("collections", "start_ns", "end_ns", where, kind,
                   generation=ints(recording, "collections", "generation"))
    if row_count(recording, "compilations"):
        others = ints(recording, "compilations", "thread_id") != thread
        during("compilations", "start_ns", "end_ns", others & _of_process(recording, "compilations", thread), "compile")
    threads = ints(recording, "launches", "thread_id")
    begun, ended = ints(recording, "launches", "start_ns"), ints(recording, "launches", "end_ns")
    others = np.flatnonzero((threads != thread) & (ended > start) & (begun < end)
                            & _of_process(recording, "launches", thread))
    if len(others):
        times = union(np.maximum(begun[others], start), np.minimum(ended[others], end))
        found.append(Meanwhile("threads", len(np.unique(threads[others])), times.total_ns))
    return tuple(sorted(found, key=lambda each: -each.duration_ns))


def _named(called: Ints, names: list[str], contained: tuple[str, ...]) -> Bools:
    places = [place for place, name in enumerate(names) if any(each in name for each in contained)]
    return np.isin(called, places)

