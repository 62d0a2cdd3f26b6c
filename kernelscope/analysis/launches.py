"""Launches: host phases, and totals by kernel, specialization, launch configuration and cell."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np

from kernelscope.analysis.columns import (
    Bools,
    Extremes,
    Floats,
    Histograms,
    Ints,
    Rows,
    captured,
    count_by,
    distinct,
    distinct_by,
    distinct_pairs,
    floats,
    ids,
    in_order,
    instants,
    ints,
    matches,
    one_group,
    parts,
    percentiles_by,
    raised,
    ran,
    ranges_by,
    replays,
    row_count,
    rows_at,
    sum_by,
    trials,
    unfinished,
    unique_pairs,
)
from kernelscope.analysis.compiling import compile_times_of, launch_waits
from kernelscope.analysis.owners import device_owners, process_names
from kernelscope.recording.driver import are_hooked
from kernelscope.recording.model import Recording
from kernelscope.recording.time import UNKNOWN_INSTANT, duration_ns, is_known, otherwise
from kernelscope.schema import MODES, UNKNOWN

# Host phases of each launch, and their totals by group.
#
# A launch's host time runs from ``start_ns`` to ``end_ns`` and has seven phases, in order: dispatch (without the
# compile inside it), compile, compile_wait (in which another thread compiled, and this one waited for it), prepare,
# submit (without the replay inside it), measuring (in which the launch was replayed for the GPU's counters), finish.
# Where all boundaries are known they add up to it exactly.
#
# A launch can be made inside another one (``parent_launch_id``): from a pre-launch callback, or while a kernel
# compiles. Its time is inside its parent's. So that totals count each nanosecond once, what is summed is a
# launch's *own* time: its host time less that of the launches directly inside it, taken out of the phase of the
# parent in which they began. The own times of a launch and of all launches inside it add up to its host time.
#
# A launch that was captured into a graph did not run, and one of an autotuner's benchmark is not the program's own.
# They have phases, but no own time, and so are in no total.
#
# A few launches of many can take most of their time: they waited for something, or did something once. What took more
# than `LONG` times the median, compiles apart, is *long*, and so that a sum says something about the others it is
# summed by itself.

#: The instants between which phases lie.
BOUNDARIES = ("start_ns", "dispatch_end_ns", "submit_start_ns", "submit_end_ns", "end_ns")
#: The phases of a launch's host time, in order.
PHASES = ("dispatch", "compile", "compile_wait", "prepare", "submit", "measuring", "finish")

#: Those in which something was compiled, or waited for.
COMPILING = ("compile", "compile_wait")

#: Those that have nothing to do with how long launching takes.
APART = (*COMPILING, "measuring")

#: What takes more than so many times the median is long.
LONG = 5


@dataclass(frozen=True)
class PhaseTotals:
    """Own host time of some launches, in nanoseconds; a phase is None where no launch recorded it.

    Attributes
    ----------
    host_ns : int or None
        All of it; None where no launch's end was recorded.
    dispatch_ns, compile_ns, compile_wait_ns, prepare_ns, submit_ns, measuring_ns, finish_ns : int or None
        The phases.
    unsplit_ns : int
        What is in `host_ns` and in no phase: launches whose boundaries were not recorded, or that failed.
    """

    host_ns: int | None = None
    dispatch_ns: int | None = None
    compile_ns: int | None = None
    compile_wait_ns: int | None = None
    prepare_ns: int | None = None
    submit_ns: int | None = None
    measuring_ns: int | None = None
    finish_ns: int | None = None
    unsplit_ns: int = 0

    def phase(self, name: str) -> int | None:
        """Return the time of the phase called `name` (one of `PHASES`), or None."""
        value: int | None = getattr(self, f"{name}_ns")
        return value

    @property
    def launching_ns(self) -> int | None:
        """Return the host time without compiles, waiting for those of other threads, and measuring."""
        return None if self.host_ns is None else self.host_ns - sum(self.phase(name) or 0 for name in APART)

    @property
    def segments(self) -> tuple[tuple[str, int], ...]:
        """Return the segments of a bar: phases that took time, then ``unsplit``; their sum is `host_ns`."""
        known = [(name, self.phase(name) or 0) for name in PHASES]
        return tuple((name, value) for name, value in [*known, ("unsplit", self.unsplit_ns)] if value > 0)

    @property
    def is_split(self) -> bool:
        """Return whether any phase is known."""
        return any(self.phase(name) is not None for name in PHASES)


@dataclass(frozen=True)
class PhaseSums:
    """Own host time of groups of launches: arrays of int64, one value a group, in nanoseconds, -1 where unknown.

    Attributes
    ----------
    host_ns : ndarray
        All of it.
    phases : mapping of str to ndarray
        The time in each of `PHASES`.
    """

    host_ns: Ints
    phases: Mapping[str, Ints]

    def __len__(self) -> int:
        """Return the number of groups."""
        return len(self.host_ns)

    def __getitem__(self, group: int) -> PhaseTotals:
        """Return the totals of one group."""
        host, split = int(self.host_ns[group]), {name: int(values[group]) for name, values in self.phases.items()}
        rest = max(host, 0) - sum(max(value, 0) for value in split.values())
        return PhaseTotals(None if host < 0 else host, **{
            f"{name}_ns": None if value < 0 else value for name, value in split.items()}, unsplit_ns=max(rest, 0))

    @property
    def launching_ns(self) -> Ints:
        """Return the host time of each group without compiles, waiting for those of other threads, and measuring."""
        return _launching(self.host_ns, self.phases)

    def less(self, part: PhaseSums) -> PhaseSums:
        """Return the sums of the other launches, given those of some of them."""
        def rest(values: Ints, taken: Ints) -> Ints:
            return np.where(values >= 0, values - np.maximum(taken, 0), UNKNOWN)

        return PhaseSums(rest(self.host_ns, part.host_ns),
                         {name: rest(values, part.phases[name]) for name, values in self.phases.items()})


@dataclass(frozen=True)
class LaunchPhases:
    """Phases of every launch: arrays of integers, one value a launch, in nanoseconds, -1 where unknown.

    They are int32 where no launch took longer than these can say, two seconds: half the memory of millions.

    Attributes
    ----------
    host_ns : ndarray
        End less start, launches inside included.
    own_ns : ndarray
        The same without the launches directly inside; -1 for a launch that was captured into a graph, and for one of an
        autotuner's benchmark.
    phases : mapping of str to ndarray
        Time in each of `PHASES`, launches inside included: they add up to `host_ns` where all are known.
    own_phases : mapping of str to ndarray
        Time in each of `PHASES` without launches inside: they add up to `own_ns` where all are known.
    """

    host_ns: Ints
    own_ns: Ints
    phases: Mapping[str, Ints]
    own_phases: Mapping[str, Ints]

    @cached_property
    def launching_ns(self) -> Ints:
        """Return own time of each launch without compiles, waiting for one, and measuring; -1 where it is unknown."""
        return _launching(self.own_ns, self.own_phases)

    def longest(self, row: int) -> tuple[str | None, int]:
        """Return the phase in which a launch spent the most of its own time, and how much: none of `APART`.

        It is None, and 0, where phases were not recorded.
        """
        spent = {name: int(self.own_phases[name][row]) for name in PHASES if name not in APART}
        phase = max(spent, key=lambda name: spent[name])
        return (phase, spent[phase]) if spent[phase] >= 0 else (None, 0)

    def take(self, rows: Ints) -> LaunchPhases:
        """Return those of the launches at the given places."""
        return LaunchPhases(
            self.host_ns[rows], self.own_ns[rows], {name: values[rows] for name, values in self.phases.items()},
            {name: values[rows] for name, values in self.own_phases.items()},
        )

    def totals_by(self, groups: Ints, size: int) -> PhaseSums:
        """Sum own times by group (int64, one a launch; below 0 is left out), for `size` groups."""
        every = count_by(groups, size)

        def known(values: Ints) -> Ints:
            counts = every if values.min(initial=0) >= 0 else count_by(groups, size, values >= 0)
            return np.where(counts > 0, sum_by(groups, values, size), UNKNOWN)

        return PhaseSums(known(self.own_ns), {name: known(self._summable(name)) for name in PHASES})

    def total(self) -> PhaseTotals:
        """Sum own times over all launches."""
        return self.totals_by(one_group(len(self.host_ns)), 1)[0]

    def _summable(self, name: str) -> Ints:
        # A phase of a launch whose end is unknown is in no total: the phases would exceed the host time.
        if self.own_ns.min(initial=0) >= 0:
            return self.own_phases[name]
        return np.where(self.own_ns >= 0, self.own_phases[name], UNKNOWN)


def launch_phases(recording: Recording) -> LaunchPhases:
    """Return the phases of every launch of the recording."""
    bounds = instants(recording, "launches", *BOUNDARIES)
    compiling, waiting = ints(recording, "launches", "compile_ns"), launch_waits(recording)
    measuring = launch_measuring(recording)
    found = np.empty((1 + len(PHASES), len(compiling)), dtype=np.int32)
    for part in parts(len(compiling)):
        spent = _phases([each[part] for each in bounds], compiling[part], 0 if waiting is None else waiting[part],
                        None if measuring is None else measuring[part])
        if max(int(each.max()) for each in spent) > np.iinfo(found.dtype).max:
            found = found.astype(np.int64)
        for row, each in zip(found, spent, strict=True):
            row[part] = each
    host: Ints = found[0]
    phases: dict[str, Ints] = dict(zip(PHASES, found[1:], strict=True))
    own, own_phases = host, phases
    parent = ids(recording, "launches", "parent_launch_id")
    if parent.max(initial=UNKNOWN) >= 0 and bool(((parent >= 0) & (host >= 0)).any()):
        inside = _inside(recording, parent, host, bounds, compiling)
        own_phases = {name: _less(phases[name], inside[name]) for name in PHASES}
        own = _less(host, sum_by(parent, host, len(host)))
    run = ran(recording)
    if not run.all():
        own = np.where(run, own, UNKNOWN)
        own_phases = {name: np.where(run, values, UNKNOWN) for name, values in own_phases.items()}
    return LaunchPhases(host_ns=host, own_ns=own, phases=phases, own_phases=own_phases)


def launch_measuring(recording: Recording) -> Ints | None:
    """Return how long each launch was replayed for the GPU's counters, in nanoseconds; None where none was."""
    rows = [row for row in replays(recording) if row["launch_id"] is not None]
    if not rows:
        return None
    owner, start, end = (np.array([row[name] for row in rows], np.int64) for name in (
        "launch_id", "start_ns", "end_ns"))
    return sum_by(owner, np.maximum(end - start, 0), row_count(recording, "launches"))


def _phases(bounds: Sequence[Ints], compiling: Ints, waiting: Ints | int, measuring: Ints | None) -> list[Ints]:
    """Return the host time of some launches, and the time in each of `PHASES`.

    `compiling` holds `waiting`, and submit, or where that is not known the whole launch, holds `measuring`.
    """
    start, dispatched, submitting, submitted, end, compiling = _in_order(bounds, compiling)
    host, dispatch = duration_ns(start, end), duration_ns(start, dispatched)
    return [
        host, np.where((dispatch >= 0) & (compiling >= 0), dispatch - compiling, UNKNOWN),
        np.where(compiling >= 0, compiling - waiting, UNKNOWN), np.where(compiling >= 0, waiting, UNKNOWN),
        duration_ns(dispatched, submitting), *_measured(duration_ns(submitting, submitted), host, measuring),
        duration_ns(submitted, end)]


def _measured(submit: Ints, host: Ints, measuring: Ints | None) -> tuple[Ints, Ints]:
    """Return the time of submit without measuring, and of measuring."""
    if measuring is None:
        return submit, np.where(submit >= 0, 0, UNKNOWN)
    taken = np.minimum(measuring, np.where(submit >= 0, submit, host))
    return (np.where(submit >= 0, submit - taken, UNKNOWN),
            np.where((submit >= 0) | (taken > 0), taken, UNKNOWN))


def _in_order(bounds: Sequence[Ints], compiling: Ints) -> list[Ints]:
    """Return the boundaries and compile times; of launches in which a clock went back the inner ones are unknown."""
    start, *inner, end = bounds
    torn = _out_of_order(bounds, compiling)
    if torn.any():
        inner = [np.where(torn, UNKNOWN_INSTANT, times) for times in inner]
        compiling = np.where(torn, UNKNOWN, compiling)
    return [start, *inner, end, compiling]


def long_ones(groups: Ints, values: Ints, size: int) -> Ints:
    """Return the places of the durations that are more than `LONG` times the median of their group.

    Rows below 0 in `groups` (int64, `size` of them) or in `values` are left out.
    """
    limits = np.append(LONG * percentiles_by(groups, values, size, (0.5,))[:, 0], np.inf)
    return np.concatenate([np.empty(0, np.int64), *(
        part.start + np.flatnonzero((values[part] >= 0) & (values[part] > limits[groups[part]]))
        for part in parts(len(values)))])


def phase_totals(recording: Recording) -> PhaseTotals:
    """Return own host time and its phases, over all launches of the recording."""
    return launch_phases(recording).total()


def _out_of_order(bounds: Sequence[Ints], compiling: Ints) -> Bools:
    """Return the launches in which a clock went back: of their phases nothing is known that adds up."""
    reach, torn = bounds[0], np.zeros(len(compiling), dtype=np.bool_)
    for bound in bounds[1:]:
        torn |= is_known(bound) & (bound < reach)
        reach = np.maximum(reach, bound)
    inside = duration_ns(bounds[0], otherwise(bounds[1], bounds[-1]))
    return torn | ((inside >= 0) & (compiling > inside))


def _launching(values: Ints, phases: Mapping[str, Ints]) -> Ints:
    compiling, waiting, measuring = (np.maximum(phases[name], 0) for name in APART)
    return _less(values, compiling + waiting + measuring)


def _less(values: Ints, taken: Ints) -> Ints:
    return np.where(values >= 0, np.maximum(values - taken, 0), UNKNOWN)


def _inside(recording: Recording, parent: Ints, host: Ints, bounds: Sequence[Ints],
            compiling: Ints) -> dict[str, Ints]:
    """Return time of the launches directly inside each launch, by the parent's phase in which they began."""
    children = np.flatnonzero((parent >= 0) & (host >= 0))
    parents = parent[children]
    begun = bounds[0][children]
    _, dispatched, submitting, submitted, *_ = _in_order([bound[parents] for bound in bounds], compiling[parents])

    def past(bound: Ints) -> Bools:
        return is_known(bound) & (begun >= bound)

    where = np.select(
        [past(submitted), past(submitting), past(dispatched), _in_compile(recording, children, parents)],
        [PHASES.index(name) for name in ("finish", "submit", "prepare", "compile")],
        PHASES.index("dispatch"),
    )
    taken: dict[str, Ints] = {}
    for place, name in enumerate(PHASES):
        chosen = where == place
        taken[name] = sum_by(parents[chosen], host[children[chosen]], len(host))
    return taken


def _in_compile(recording: Recording, children: Ints, parents: Ints) -> Bools:
    """Return whether each child began inside a compile that its parent asked for."""
    result = np.zeros(len(children), dtype=np.bool_)
    if not row_count(recording, "compilations"):
        return result
    begun = instants(recording, "launches", "start_ns")[0][children]
    asked_by = ints(recording, "compilations", "launch_id")
    starts, ends = instants(recording, "compilations", "start_ns", "end_ns")
    for row in np.flatnonzero(np.isin(asked_by, parents)).tolist():
        result |= (parents == asked_by[row]) & (begun >= starts[row]) & (begun < ends[row])
    return result


# How many launches the recorder kept and lost, as the recording's metadata say.

@dataclass(frozen=True)
class Kept:
    """What the recorder kept.

    Attributes
    ----------
    mode : str or None
        ``grow``, ``ring`` or ``stop``; None where recordings of several modes were merged.
    launches, lost : int
        Launches that are in the recording, and that are not.
    """

    mode: str | None
    launches: int
    lost: int


def kept(recording: Recording) -> Kept | None:
    """Return how many launches were kept; None where that is not known, or nothing was launched.

    It is not known of recordings of older versions, and of one cell of a longer recording.
    """
    held = recording.metadata.get("recorder")
    found = cast("dict[str, Any]", held) if isinstance(held, dict) else {}
    launches, lost = found.get("kept"), found.get("lost")
    if type(launches) is not int or type(lost) is not int or lost < 0 or launches + lost == 0:
        return None
    if launches != int(are_hooked(recording).sum()):
        return None
    mode = found.get("mode")
    return Kept(mode if mode in MODES else None, launches, lost)


# Totals by kernel.

#: Threads of a warp.
WARP = 32


@dataclass(frozen=True)
class LongLaunches:
    """Launches of a kernel that took more than `kernelscope.analysis.launches.LONG` times its median, compiles apart.

    Attributes
    ----------
    launches : int
        How many there are.
    totals : PhaseTotals
        Their own host time and its phases.
    longest_ns : int
        That of the longest, without compiles.
    phase : str or None
        In which phase that one spent the most; None where its phases were not recorded.
    phase_ns : int
        How much it spent there.
    """

    launches: int
    totals: PhaseTotals
    longest_ns: int
    phase: str | None
    phase_ns: int


@dataclass(frozen=True)
class KernelSummary:
    """One kernel function of a recording; what was not recorded is None, never zero.

    Attributes
    ----------
    dispatcher_id : int
        Its row in ``dispatchers``.
    framework, name : str
        The framework, and the function's qualified Python name.
    module, filename : str or None
        Where it is defined.
    lineno : int or None
        First line of the definition.
    launches, configurations, specializations : int
        Launches that ran; distinct launch configurations and overloads of all launches, or compiled.
    captured, trials : int
        Launches that went into the capture of a graph, and did not run; those of an autotuner's benchmarks.
    compiles, disk_hits, memory_hits, waits : int
        Compiles and disk-cache loads (those outside launches too), launches that found their overload in
        memory, and requests that waited for another thread's compile.
    failed_compiles, errors, unfinished : int
        Compiles and launches that raised; launches that had not returned when the process died.
    compile_ns : int
        Own time of its compiles and disk-cache loads, inside launches and outside.
    totals : PhaseTotals
        Own host time of its launches and its phases.
    median_ns, p99_ns, max_ns : float or None
        Own host time a launch, without compiles, waiting for those of other threads, and measuring.
    histogram : tuple of int
        How many launches took how long: counts in `kernelscope.analysis.columns.BINS` bins of equal ratio, from the
        shortest launch of all kernels to the longest.
    usual_launches : int
        Launches whose host time is known, without the long ones.
    usual : PhaseTotals
        Their own host time and its phases.
    long : LongLaunches or None
        The long ones; None where there are none.
    regs : tuple of int, or None
        Least and most registers a thread among its overloads.
    shared_bytes : tuple of int, or None
        Least and most shared memory a block, static and dynamic together.
    occupancy : tuple of float, or None
        Least and most occupancy, 0 to 1.
    most_blocks : int
        Blocks of its largest grid; 0 without launches, and where the framework hides its grids.
    partial_warps : tuple of int
        Launches whose blocks are no multiple of a warp's 32 threads, and the threads of the largest such block.
    """

    dispatcher_id: int
    framework: str
    name: str
    module: str | None
    filename: str | None
    lineno: int | None
    launches: int
    captured: int
    trials: int
    configurations: int
    specializations: int
    compiles: int
    disk_hits: int
    memory_hits: int
    waits: int
    failed_compiles: int
    errors: int
    unfinished: int
    compile_ns: int
    totals: PhaseTotals
    median_ns: float | None
    p99_ns: float | None
    max_ns: float | None
    histogram: tuple[int, ...]
    usual_launches: int
    usual: PhaseTotals
    long: LongLaunches | None
    regs: tuple[int, int] | None
    shared_bytes: tuple[int, int] | None
    occupancy: tuple[float, float] | None
    most_blocks: int
    partial_warps: tuple[int, int]

    @property
    def host_ns(self) -> int | None:
        """Return own host time of its launches, in nanoseconds."""
        return self.totals.host_ns


def by_kernel(recording: Recording, phases: LaunchPhases | None = None,
              used: Configurations | None = None) -> Rows[KernelSummary]:
    """Summarize each kernel, in order of total host time, longest first.

    Its columns are the numbers of `KernelSummary` that count something, ``host_ns``, ``usual_launching_ns``,
    ``usual_prepare_ns``, ``usual_finish_ns``, ``long_launches``, ``long_launching_ns`` and ``partial_warps``.

    Parameters
    ----------
    recording : Recording
        What was recorded.
    phases : LaunchPhases, optional
        `launch_phases` of it, where they are at hand.
    used : Configurations, optional
        Its launch configurations, likewise.
    """
    size = row_count(recording, "dispatchers")
    phases = phases or launch_phases(recording)
    used = used or Configurations(recording, phases)
    dispatcher = ids(recording, "launches", "dispatcher_id")
    launching = phases.launching_ns
    spread = percentiles_by(dispatcher, launching, size, (0.5, 0.99, 1.0))
    histograms = Histograms(dispatcher, launching, size)
    totals = phases.totals_by(dispatcher, size)
    long = _Long.of(phases, dispatcher, size)
    usual = totals.less(long.totals)
    run = ran(recording)
    outcomes = _outcomes(recording, dispatcher, run, size)
    shapes = _shapes(recording, used, size)
    owner = ints(recording, "specializations", "dispatcher_id")
    regs = ranges_by(owner, _known(ints(recording, "specializations", "regs")), size)
    shared = _shared(recording, used, size)
    occupancy = _occupancy(recording, owner, size)
    counts = {
        "launches": count_by(dispatcher, size, run), "captured": count_by(dispatcher, size, captured(recording)),
        "trials": count_by(dispatcher, size, trials(recording)),
        "configurations": used.counts(size),
        "specializations": _specializations(recording, used, size),
        "compiles": outcomes["compiled"], "disk_hits": outcomes["disk"], "memory_hits": outcomes["memory"],
        "waits": outcomes["wait"], "failed_compiles": outcomes["failed"],
        "errors": count_by(dispatcher, size, raised(recording)),
        "unfinished": count_by(dispatcher, size, unfinished(recording)),
        "compile_ns": _compile_ns(recording, size), "most_blocks": shapes[0],
        "usual_launches": count_by(dispatcher, size, phases.own_ns >= 0) - long.launches,
    }

    def made(ids: list[int]) -> list[KernelSummary]:
        counted = histograms.of(ids)
        return [KernelSummary(
            dispatcher_id=at,
            framework=str(row["framework"]),
            name=str(row["name"]),
            **{column: row[column] for column in ("module", "filename", "lineno")},
            **_numbers(counts, at),
            totals=totals[at],
            median_ns=_number(spread[at, 0]),
            p99_ns=_number(spread[at, 1]),
            max_ns=_number(spread[at, 2]),
            histogram=tuple(counted[place].tolist()),
            usual=usual[at],
            long=long[at],
            regs=_whole(regs[at]),
            shared_bytes=_whole(shared[at]),
            occupancy=occupancy[at],
            partial_warps=(int(shapes[1][at]), int(shapes[2][at])),
        ) for place, (at, row) in enumerate(in_order(recording, "dispatchers", ids))]

    return Rows(np.lexsort((-counts["launches"], -np.maximum(totals.host_ns, 0))), made, {
        **counts, "host_ns": totals.host_ns, "usual_launching_ns": usual.launching_ns,
        "usual_prepare_ns": usual.phases["prepare"], "usual_finish_ns": usual.phases["finish"],
        "long_launches": long.launches, "long_launching_ns": long.totals.launching_ns, "partial_warps": shapes[1],
    })


def _numbers(counts: Mapping[str, Ints], at: int) -> dict[str, Any]:
    """Return the number of each name of one group."""
    return {name: int(values[at]) for name, values in counts.items()}


def _outcomes(recording: Recording, dispatcher: Ints, run: Bools, size: int) -> dict[str, Ints]:
    """Return compiles, disk loads and waits, and memory hits of launches that ran, by dispatcher."""
    asked = ints(recording, "compilations", "dispatcher_id")
    counts = {
        word: count_by(asked, size, matches(recording, "compilations", "outcome", word))
        for word in ("compiled", "disk", "wait", "failed")
    }
    for word in ("compiled", "disk", "wait", "memory"):
        found = matches(recording, "launches", "cache", word)
        launched = count_by(dispatcher, size, found & run if word == "memory" else found)
        # Eager compiles belong to no launch, and a probe without a compile hook writes no compilation: each
        # table knows some that the other does not, and those that both know are the same.
        counts[word] = np.maximum(counts[word], launched) if word in counts else launched
    return counts


def _specializations(recording: Recording, used: Configurations, size: int) -> Ints:
    """Return distinct overloads that a dispatcher launched or compiled."""
    pairs = np.concatenate([used.overloads[:, [0, 2]], distinct_pairs(
        *(ints(recording, "compilations", f"{name}_id") for name in ("dispatcher", "specialization")))])
    return distinct_by(pairs[:, 0], pairs[:, 1], size)


@dataclass(frozen=True)
class _Long:
    """Long launches by dispatcher, the longest of each by its row; -1 for a dispatcher without any."""

    phases: LaunchPhases
    launches: Ints
    totals: PhaseSums
    longest: Ints

    @staticmethod
    def of(phases: LaunchPhases, dispatcher: Ints, size: int) -> _Long:
        rows = long_ones(dispatcher, phases.launching_ns, size)
        rows = rows[np.argsort(phases.launching_ns[rows], kind="stable")]
        owner, longest = dispatcher[rows], np.full(size, UNKNOWN, dtype=np.int64)
        longest[owner] = rows  # of several assignments to one place the last one stays
        return _Long(phases, count_by(owner, size), phases.take(rows).totals_by(owner, size), longest)

    def __getitem__(self, dispatcher: int) -> LongLaunches | None:
        row = int(self.longest[dispatcher])
        if row < 0:
            return None
        return LongLaunches(int(self.launches[dispatcher]), self.totals[dispatcher],
                            int(self.phases.launching_ns[row]), *self.phases.longest(row))


def _compile_ns(recording: Recording, size: int) -> Ints:
    return sum_by(ints(recording, "compilations", "dispatcher_id"), compile_times_of(recording).own_ns, size)


def _shared(recording: Recording, used: Configurations, size: int) -> Extremes:
    """Return range of static plus dynamic shared memory over the pairs of overload and configuration launched."""
    static = ints(recording, "specializations", "static_shared_bytes")
    dynamic = ints(recording, "configurations", "sharedmem_bytes")
    owner = ints(recording, "specializations", "dispatcher_id")
    overload, shape = used.overloads[:, 2], used.overloads[:, 1]
    known = (static[overload] >= 0) & (dynamic[shape] >= 0)
    values = np.where(known, static[overload] + dynamic[shape], -1)
    return ranges_by(owner[overload], _known(values), size)


def _occupancy(recording: Recording, owner: Ints, size: int) -> Extremes:
    overload = ints(recording, "occupancies", "specialization_id")
    return ranges_by(owner[overload], floats(recording, "occupancies", "occupancy"), size)


def _shapes(recording: Recording, used: Configurations, size: int) -> tuple[Ints, Ints, Ints]:
    """Return blocks of the largest grid, launches with partial warps, and their largest block, by dispatcher."""
    blocks, threads = (_product(recording, what)[used.which] for what in ("griddim", "blockdim"))
    most = np.zeros(size, dtype=np.int64)
    np.maximum.at(most, used.owner, blocks)
    # In a grid of one small block there is nothing to gain.
    partial = (threads % WARP != 0) & (blocks > 1)
    largest = np.zeros(size, dtype=np.int64)
    np.maximum.at(largest, used.owner[partial], threads[partial])
    return most, sum_by(used.owner[partial], used.launches[partial], size), largest


def _product(recording: Recording, what: str) -> Ints:
    """Return blocks of each configuration's grid, or threads of its block; 0 where a framework hides them."""
    sides = [ints(recording, "configurations", f"{what}_{axis}") for axis in "xyz"]
    return np.where(np.minimum.reduce(sides) < 0, 0, sides[0] * sides[1] * sides[2])


def _known(values: Ints) -> Floats:
    return np.where(values >= 0, values.astype(np.float64), np.nan)


def _whole(pair: tuple[float, float] | None) -> tuple[int, int] | None:
    return None if pair is None else (int(pair[0]), int(pair[1]))


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


# Totals by specialization.

@dataclass(frozen=True)
class SpecializationSummary:
    """One compiled overload; what was not recorded is None.

    Attributes
    ----------
    specialization_id, dispatcher_id : int
        Its row in ``specializations``, and the kernel.
    signature : str
        Argument types.
    origin : str
        compiled, disk, or before (it was there when recording began).
    compute_capability : str or None
        What it was compiled for.
    launch_config_sensitive : bool or None
        Whether it depends on the launch configuration (LC-S).
    launch_config : str or None
        The launch configuration it is bound to, as JSON.
    launches, captured : int
        Launches that ran it, and those that went into the capture of a graph.
    host_ns : int
        Their own host time.
    median_ns : float or None
        Own host time a launch.
    compile_ns : int or None
        What compiling or loading it took here; None where that was before the recording.
    regs, max_threads : int or None
        Registers a thread, and threads a block at most.
    static_shared_bytes, local_bytes, const_bytes, cubin_bytes : int or None
        Shared memory a block, local memory a thread, constant memory, machine code.
    """

    specialization_id: int
    dispatcher_id: int
    signature: str
    origin: str
    compute_capability: str | None
    launch_config_sensitive: bool | None
    launch_config: str | None
    launches: int
    captured: int
    host_ns: int
    median_ns: float | None
    compile_ns: int | None
    regs: int | None
    max_threads: int | None
    static_shared_bytes: int | None
    local_bytes: int | None
    const_bytes: int | None
    cubin_bytes: int | None


_AS_RECORDED = ("specialization_id", "dispatcher_id", "signature", "origin", "compute_capability",
                "launch_config_sensitive", "launch_config", "regs", "max_threads", "static_shared_bytes", "local_bytes",
                "const_bytes", "cubin_bytes")


class Specializations:
    """Overloads by kernel, held as arrays: rows are made only of those that are asked for.

    Parameters
    ----------
    recording : Recording
        What was recorded.
    phases : LaunchPhases, optional
        `launch_phases` of it, where they are at hand.
    """

    def __init__(self, recording: Recording, phases: LaunchPhases | None = None) -> None:
        phases = phases or launch_phases(recording)
        size = row_count(recording, "specializations")
        launched = ids(recording, "launches", "specialization_id")
        self._recording = recording
        self._counts = {"launches": count_by(launched, size, ran(recording)),
                        "captured": count_by(launched, size, captured(recording)),
                        "host_ns": sum_by(launched, phases.own_ns, size)}
        self._medians = percentiles_by(launched, phases.own_ns, size, (0.5,))[:, 0]
        # Threads that waited meanwhile did not compile.
        waited = matches(recording, "compilations", "outcome", "wait")
        made = np.where(waited, -1, ints(recording, "compilations", "specialization_id"))
        self._compiled = count_by(made, size)
        self._compile_ns = sum_by(made, compile_times_of(recording).own_ns, size)
        owner = ints(recording, "specializations", "dispatcher_id")
        self._order = np.lexsort((-self._counts["launches"], owner))
        self._ends = np.cumsum(np.bincount(owner, minlength=row_count(recording, "dispatchers")))

    def count(self, dispatcher: int) -> int:
        """Return how many overloads the kernel has."""
        return len(_group(self._order, self._ends, dispatcher))

    def of(self, dispatcher: int, most: int | None = None) -> list[SpecializationSummary]:
        """Return the kernel's overloads, most launches first; all of them, or at most `most`."""
        ids = _group(self._order, self._ends, dispatcher)[:most].tolist()
        return [SpecializationSummary(
            **{column: row[column] for column in _AS_RECORDED},
            **_numbers(self._counts, at),
            median_ns=_number(self._medians[at]),
            compile_ns=int(self._compile_ns[at]) if self._compiled[at] else None,
        ) for at, row in in_order(self._recording, "specializations", ids)]


def _group(order: Ints, ends: Ints, dispatcher: int) -> Ints:
    """Return the part of rows in order of their dispatcher that is one's."""
    if not 0 <= dispatcher < len(ends):
        return order[:0]
    return order[int(ends[dispatcher - 1]) if dispatcher else 0:int(ends[dispatcher])]


# Launch configurations by kernel: which grids and blocks each one ran with, and how often.
#
# A stream's handle tells streams of one device apart: that of the default stream is 0 on each. So a configuration
# that was launched on several devices counts as one for each of them.

Dims = tuple[int, int, int]

_SHAPE = (*(f"{what}_{axis}" for what in ("griddim", "blockdim", "cluster") for axis in "xyz"), "sharedmem_bytes")


@dataclass(frozen=True)
class ConfigurationSummary:
    """One launch configuration of one kernel; what was not recorded is None.

    Attributes
    ----------
    dispatcher_id, configuration_id : int
        The kernel, and the row in ``configurations``.
    griddim, blockdim : tuple of int, or None
        Blocks, and threads a block, along x, y, z; None where the framework hides them.
    cluster : tuple of int, or None
        Blocks a cluster along x, y, z; None without clusters.
    sharedmem_bytes : int or None
        Dynamic shared memory a block; None likewise.
    stream : int or None
        The stream's handle; 0 is the default stream. None where all launches were captured: a node has no stream.
    device : int or None
        The ordinal of the stream's device, where the recording has launches on several; else None.
    owner : str
        Whose device it is, where several have one ordinal: a machine or a process.
    launches, captured, errors : int
        Launches with it that ran, those that went into the capture of a graph, and how many raised.
    host_ns : int
        Own host time of those launches.
    median_ns : float or None
        Own host time a launch.
    regs : tuple of int, or None
        Least and most registers a thread among the overloads launched with it.
    occupancy : tuple of float, or None
        Least and most occupancy among those overloads, 0 to 1.
    """

    dispatcher_id: int
    configuration_id: int
    griddim: Dims | None
    blockdim: Dims | None
    cluster: Dims | None
    sharedmem_bytes: int | None
    stream: int | None
    device: int | None
    owner: str
    launches: int
    captured: int
    errors: int
    host_ns: int
    median_ns: float | None
    regs: tuple[int, int] | None
    occupancy: tuple[float, float] | None

    @property
    def blocks(self) -> int | None:
        """Return blocks of the grid; None where the framework hides it."""
        return None if self.griddim is None else math.prod(self.griddim)


class Configurations:
    """Launch configurations by kernel, held as arrays: rows are made only of those that are asked for.

    One that was launched on several devices counts as one for each of them.

    Parameters
    ----------
    recording : Recording
        What was recorded.
    phases : LaunchPhases, optional
        `launch_phases` of it, where they are at hand.

    Attributes
    ----------
    owner, which, launches : ndarray of int64
        By kernel and configuration the kernel, the row in ``configurations``, and how many launches there were,
        captured ones too.
    overloads : ndarray of int64, shape (n, 3)
        The distinct kernels, configurations and overloads that were launched together.
    distinct : int
        How many configurations there are, whichever kernels were launched with them.
    """

    def __init__(self, recording: Recording, phases: LaunchPhases | None = None) -> None:
        phases = phases or launch_phases(recording)
        dispatcher = ids(recording, "launches", "dispatcher_id")
        run, into = ran(recording), captured(recording)
        keys, width = by_device(recording, configurations_of(recording, ~into))
        own, overloads, failed = phases.own_ns, ids(recording, "launches", "specialization_id"), raised(recording)
        kept = run | into
        if not kept.all():  # trials of an autotuner
            dispatcher, keys, own, overloads = (each[kept] for each in (dispatcher, keys, own, overloads))
            failed, run, into = (each[kept] for each in (failed, run, into))
        pairs, pair = unique_pairs(dispatcher, keys)
        count = len(pairs)
        launches, captures = count_by(pair, count, run), count_by(pair, count, into)
        self._counts = {"launches": launches, "captured": captures, "errors": count_by(pair, count, failed),
                        "host_ns": sum_by(pair, own, count)}
        self._medians = percentiles_by(pair, own, count, (0.5,))[:, 0]
        self.owner, self.which, self._device = pairs[:, 0], pairs[:, 1] // width, pairs[:, 1] % width - 1
        self.launches, self.distinct = launches + captures, len(distinct(pairs[:, 1]))
        self._ordinals = [row["ordinal"] for row in recording.rows("devices")]
        self._owners = device_owners(recording)
        self._order = np.lexsort((pairs[:, 1], -captures, -launches, self.owner))
        size = row_count(recording, "dispatchers")
        self._ends = np.cumsum(np.bincount(self.owner, minlength=size))

        # An overload's registers and occupancy belong to each pair that launched it.
        used = distinct_pairs(pair, overloads)
        self.overloads = np.stack([self.owner[used[:, 0]], self.which[used[:, 0]], used[:, 1]], axis=1)
        regs = ints(recording, "specializations", "regs")[used[:, 1]]
        self._regs = ranges_by(used[:, 0], _known(regs), count)
        self._occupancy = _occupancy_of(recording, self.which, self._device if width > 1 else None, used, count, ~into)
        self._recording = recording

    @property
    def dispatchers(self) -> list[int]:
        """Return kernels that were launched, by dispatcher id."""
        return np.unique(self.owner).tolist()

    def counts(self, size: int) -> Ints:
        """Return how many launch configurations each of `size` kernels has."""
        return count_by(self.owner, size)

    def count(self, dispatcher: int) -> int:
        """Return how many launch configurations the kernel has."""
        return len(_group(self._order, self._ends, dispatcher))

    def of(self, dispatcher: int, most: int | None = None) -> list[ConfigurationSummary]:
        """Return the kernel's launch configurations, most launches first; all of them, or at most `most`."""
        places = _group(self._order, self._ends, dispatcher)[:most]
        rows = rows_at(self._recording, "configurations", self.which[places])
        return [self._summary(at, rows[int(self.which[at])]) for at in places.tolist()]

    def _summary(self, at: int, row: Mapping[str, Any]) -> ConfigurationSummary:
        return ConfigurationSummary(
            dispatcher_id=int(self.owner[at]),
            configuration_id=int(self.which[at]),
            griddim=dims(row, "griddim"),
            blockdim=dims(row, "blockdim"),
            cluster=dims(row, "cluster"),
            sharedmem_bytes=row["sharedmem_bytes"],
            stream=row["stream"] if self._counts["launches"][at] else None,
            device=None if self._device[at] < 0 else self._ordinals[int(self._device[at])],
            owner="" if self._device[at] < 0 else self._owners[int(self._device[at])],
            **_numbers(self._counts, at),
            median_ns=_number(self._medians[at]),
            regs=_whole(self._regs[at]),
            occupancy=self._occupancy[at],
        )


def by_configuration(
    recording: Recording, phases: LaunchPhases | None = None
) -> dict[int, list[ConfigurationSummary]]:
    """Summarize launch configurations by kernel (dispatcher id), most launches first."""
    held = Configurations(recording, phases)
    return {dispatcher: held.of(dispatcher) for dispatcher in held.dispatchers}


def configurations_of(recording: Recording, run: Bools | None = None) -> Ints:
    """Return the launch configuration of each launch: a row of ``configurations``, -1 where it has none.

    A graph's node has no stream: a captured launch counts to a configuration that is the same but for its stream, of
    launches that ran where there is one.

    Parameters
    ----------
    recording : Recording
        What was recorded.
    run : ndarray of bool, optional
        Which were not captured, where it is at hand.
    """
    own = ids(recording, "launches", "configuration_id")
    run = ~captured(recording) if run is None else run
    if run.all():
        return own
    return np.where(run, own, _same_but_for_streams(recording, own[run])[own])


def by_device(recording: Recording, configurations: Ints) -> tuple[Ints, int]:
    """Return a number for each launch, equal for one configuration on one device, and how many a configuration has.

    Divided by the second the first is the configuration, and the rest less 1 the device; all rests are 0 where no two
    devices were launched on. A launch without a configuration has -1.

    Parameters
    ----------
    recording : Recording
        What was recorded.
    configurations : ndarray of int64
        `configurations_of` it.
    """
    device = ids(recording, "launches", "device_id")
    used = distinct(device)
    if len(used) < 2:
        return configurations, 1
    width = int(used[-1]) + 2
    most = (int(configurations.max()) + 1) * width
    kind: Any = np.int32 if most <= np.iinfo(np.int32).max else np.int64
    found: Any = np.empty(len(device), dtype=kind)
    for part in parts(len(device)):
        own = configurations[part].astype(np.int64)
        found[part] = np.where(own < 0, UNKNOWN, own * width + device[part] + 1)
    return found, width


def _same_but_for_streams(recording: Recording, preferred: Ints) -> Ints:
    """Return, for each configuration, the representative of its shape, preferably one of `preferred`."""
    shapes = np.stack([ints(recording, "configurations", name) for name in _SHAPE], axis=1)
    _, group = np.unique(shapes, axis=0, return_inverse=True)
    used = np.zeros(len(shapes) + 1, dtype=np.bool_)
    used[preferred] = True
    # Of several assignments to one place the last one stays, which is to be the first that was used.
    order = np.concatenate((np.flatnonzero(~used[:-1])[::-1], np.flatnonzero(used[:-1])[::-1]))
    first = np.empty(int(group.max(initial=UNKNOWN)) + 1, dtype=np.int64)
    first[group[order]] = order
    return np.append(first[group], UNKNOWN)


def dims(row: Mapping[str, Any], what: str) -> Dims | None:
    """Return the three dimensions called `what` (griddim, blockdim or cluster) of a row of ``configurations``.

    None where there are none: a framework that hides its grid, a launch without clusters.
    """
    if row[f"{what}_x"] is None:
        return None
    x, y, z = (int(row[f"{what}_{axis}"] or 1) for axis in "xyz")
    return x, y, z


def _occupancy_of(recording: Recording, which: Ints, device: Ints | None, used: Ints, count: int,
               run: Bools) -> Extremes:
    """Return the range of occupancy by kernel and configuration, on a device; `used` are the pairs with overloads."""
    width = max(row_count(recording, "configurations"), 1)
    overload, shape = (ints(recording, "occupancies", f"{name}_id") for name in ("specialization", "configuration"))
    if not run.all():  # a captured launch counts to another configuration than the one that was asked about
        shared = _same_but_for_streams(recording, which)
        shape, which = shared[shape], shared[which]
    known = overload * width + shape
    wanted = used[:, 1] * width + which[used[:, 0]]
    if device is not None:
        devices = max(row_count(recording, "devices"), 1)
        known = known * devices + ints(recording, "occupancies", "device_id")
        wanted = np.where(device[used[:, 0]] < 0, UNKNOWN, wanted * devices + device[used[:, 0]])
    order = np.argsort(known, kind="stable")
    low = np.searchsorted(known[order], wanted, side="left")
    high = np.searchsorted(known[order], wanted, side="right")
    # One row a device: more than one only where one overload ran on several.
    repeats = high - low
    groups = np.repeat(used[:, 0], repeats)
    offsets = np.arange(repeats.sum()) - np.repeat(np.cumsum(repeats) - repeats, repeats)
    rows = order[np.repeat(low, repeats) + offsets]
    return ranges_by(groups, floats(recording, "occupancies", "occupancy")[rows], count)


# Totals by cell.

def cell_label(row: Mapping[str, Any]) -> str:
    """Return what a row of ``cells`` is called: ``In [3]``, its name, or both."""
    number = "" if row["execution_count"] is None else f"In [{row['execution_count']}]"
    return " ".join(part for part in (number, row["name"] or "") if part) or f"cell {row['cell_id']}"


@dataclass(frozen=True)
class CellSummary:
    """One cell of a recording; what was not recorded is None.

    Attributes
    ----------
    cell_id : int or None
        Its row in ``cells``; None for what ran between cells.
    execution_count : int or None
        The notebook's In [n].
    name : str or None
        The name given by the user.
    status : str
        ok, error, interrupted or unfinished; an empty string between cells.
    error : str or None
        Type and message of the exception that ended the cell.
    launches, captured, kernels, errors : int
        Launches that ran, those that went into the capture of a graph, distinct kernels of both, launches that raised.
    compiles, disk_hits, memory_hits, failed_compiles : int
        Compiles, disk-cache loads, launches that found their overload in memory, compiles that raised.
    totals : PhaseTotals
        Own host time of its launches and its phases.
    wall_ns : int or None
        From the cell's start to its end; None between cells, and where a clock went back.
    synchronize_ns : int or None
        From there to the end of the device's synchronization; None where it was not synchronized.
    process : str
        The name of its process, where there are several.
    """

    cell_id: int | None
    execution_count: int | None
    name: str | None
    status: str
    error: str | None
    launches: int
    captured: int
    kernels: int
    errors: int
    compiles: int
    disk_hits: int
    memory_hits: int
    failed_compiles: int
    totals: PhaseTotals
    wall_ns: int | None
    synchronize_ns: int | None
    process: str = ""

    @property
    def label(self) -> str:
        """Return the cell's label: ``In [3]``, its name, or both."""
        if self.cell_id is None:
            return "between cells"
        return cell_label({"cell_id": self.cell_id, "execution_count": self.execution_count, "name": self.name})

    @property
    def wanted(self) -> str:
        """Return the cell's number or name for a ``%kernelscope`` line; empty where it has neither."""
        return self.name or "" if self.execution_count is None else str(self.execution_count)


def by_cell(recording: Recording, phases: LaunchPhases | None = None) -> list[CellSummary]:
    """Summarize each cell, in the order in which they ran; the row between cells, if any, is last."""
    phases = phases or launch_phases(recording)
    rows, processes = recording.rows("cells"), process_names(recording)
    size = len(rows) + 1
    between = len(rows)
    launched = _placed(ids(recording, "launches", "cell_id"), between)
    compiled = _placed(ints(recording, "compilations", "cell_id"), between)

    run = ran(recording)
    outcomes = {
        word: count_by(compiled, size, matches(recording, "compilations", "outcome", word))
        for word in ("compiled", "disk", "failed")
    }
    for word in ("compiled", "disk"):  # See `kernels._outcomes`: either table may know more.
        seen = count_by(launched, size, matches(recording, "launches", "cache", word))
        outcomes[word] = np.maximum(outcomes[word], seen)
    totals = phases.totals_by(launched, size)
    counts = {
        "launches": count_by(launched, size, run), "captured": count_by(launched, size, captured(recording)),
        "kernels": distinct_by(launched, ids(recording, "launches", "dispatcher_id"), size),
        "errors": count_by(launched, size, raised(recording)),
        "compiles": outcomes["compiled"], "disk_hits": outcomes["disk"], "failed_compiles": outcomes["failed"],
        "memory_hits": count_by(launched, size, run & matches(recording, "launches", "cache", "memory")),
    }

    start, end, synchronized = instants(recording, "cells", "start_ns", "end_ns", "synchronized_ns")
    # Where a clock went back, how long it took is not known.
    walls, waits = ([*(None if lasted < 0 else lasted for lasted in each.tolist()), None]
                    for each in (duration_ns(start, end), duration_ns(end, synchronized)))

    def summary(at: int, row: Mapping[str, Any]) -> CellSummary:
        return CellSummary(
            cell_id=row.get("cell_id"),
            execution_count=row.get("execution_count"),
            name=row.get("name"),
            status=row.get("status") or "",
            error=row.get("error"),
            **_numbers(counts, at),
            totals=totals[at],
            wall_ns=walls[at], synchronize_ns=waits[at],
            process="" if len(processes) < 2 or row.get("process_id") is None else processes[row["process_id"]],
        )

    summaries = [summary(at, row) for at, row in enumerate(rows)]
    if counts["launches"][between] or counts["captured"][between] or bool((compiled == between).any()):
        summaries.append(summary(between, {}))
    return summaries


def _placed(cell: Ints, between: int) -> Ints:
    return np.where(cell >= 0, cell, between) if cell.min(initial=0) < 0 else cell
