"""Totals by kernel: what each dispatcher launched, compiled and cost on the host."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kernelscope.analysis.columns import (
    Bools,
    Floats,
    Ints,
    count_by,
    distinct_by,
    floats,
    ints,
    matches,
    percentiles_by,
    raised,
    ran,
    ranges_by,
    row_count,
    unfinished,
    unique_pairs,
)
from kernelscope.analysis.configurations import by_device, configurations_of
from kernelscope.analysis.phases import PHASES, LaunchPhases, PhaseTotals, launch_phases, long_ones
from kernelscope.recording.model import Recording

#: Threads of a warp.
WARP = 32


@dataclass(frozen=True)
class LongLaunches:
    """Launches of a kernel that took more than `kernelscope.analysis.phases.LONG` times its median, compiles apart.

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
    captured : int
        Launches that went into the capture of a graph, and did not run.
    compiles, disk_hits, memory_hits, waits : int
        Compiles and disk-cache loads (those outside launches too), launches that found their overload in
        memory, and requests that waited for another thread's compile.
    failed_compiles, errors, unfinished : int
        Compiles and launches that raised; launches that had not returned when the process died.
    compile_ns : int
        Duration of its compiles and disk-cache loads, inside launches and outside.
    totals : PhaseTotals
        Own host time of its launches and its phases.
    median_ns, p95_ns : float or None
        Own host time a launch.
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
    p95_ns: float | None
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
        """Own host time of its launches, in nanoseconds."""
        return self.totals.host_ns


def by_kernel(recording: Recording, phases: LaunchPhases | None = None) -> list[KernelSummary]:
    """Summarize each kernel, in order of total host time, longest first.

    Parameters
    ----------
    recording : Recording
        What was recorded.
    phases : LaunchPhases, optional
        `launch_phases` of it, where they are at hand.
    """
    size = row_count(recording, "dispatchers")
    if not size:
        return []
    phases = phases or launch_phases(recording)
    dispatcher = ints(recording, "launches", "dispatcher_id")
    configuration = configurations_of(recording)
    spread = percentiles_by(dispatcher, phases.own_ns, size, (0.5, 0.95))
    totals = phases.totals_by(dispatcher, size)
    long = _long(phases, dispatcher, size)
    timed = count_by(dispatcher, size, phases.own_ns >= 0)
    run = ran(recording)
    launches = count_by(dispatcher, size, run)
    captured = count_by(dispatcher, size, ~run)
    configurations = distinct_by(dispatcher, by_device(recording, configuration)[0], size)
    specializations = _specializations(recording, dispatcher, size)
    outcomes = _outcomes(recording, dispatcher, run, size)
    errors, begun = (count_by(dispatcher, size, which(recording)) for which in (raised, unfinished))
    compile_ns = _compile_ns(recording, size)
    owner = ints(recording, "specializations", "dispatcher_id")
    regs = ranges_by(owner, _known(ints(recording, "specializations", "regs")), size)
    shared = _shared(recording, dispatcher, configuration, size)
    occupancy = _occupancy(recording, owner, size)
    shapes = _shapes(recording, dispatcher, configuration, size)

    summaries: list[KernelSummary] = []
    for row in recording.rows("dispatchers"):
        at = int(row["dispatcher_id"])
        summaries.append(KernelSummary(
            dispatcher_id=at,
            framework=str(row["framework"]),
            name=str(row["name"]),
            module=row["module"],
            filename=row["filename"],
            lineno=row["lineno"],
            launches=int(launches[at]),
            captured=int(captured[at]),
            configurations=int(configurations[at]),
            specializations=int(specializations[at]),
            compiles=int(outcomes["compiled"][at]),
            disk_hits=int(outcomes["disk"][at]),
            memory_hits=int(outcomes["memory"][at]),
            waits=int(outcomes["wait"][at]),
            failed_compiles=int(outcomes["failed"][at]),
            errors=int(errors[at]),
            unfinished=int(begun[at]),
            compile_ns=int(compile_ns[at]),
            totals=totals[at],
            median_ns=_number(spread[at, 0]),
            p95_ns=_number(spread[at, 1]),
            usual_launches=int(timed[at]) - (long[at].launches if at in long else 0),
            usual=totals[at].less(long[at].totals) if at in long else totals[at],
            long=long.get(at),
            regs=_whole(regs[at]),
            shared_bytes=_whole(shared[at]),
            occupancy=occupancy[at],
            most_blocks=int(shapes[0][at]),
            partial_warps=(int(shapes[1][at]), int(shapes[2][at])),
        ))
    return sorted(summaries, key=lambda kernel: (-(kernel.host_ns or 0), -kernel.launches, kernel.name))


def _outcomes(recording: Recording, dispatcher: Ints, run: Bools, size: int) -> dict[str, Ints]:
    """Compiles, disk loads and waits, and memory hits of launches that ran, by dispatcher."""
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


def _specializations(recording: Recording, dispatcher: Ints, size: int) -> Ints:
    """Distinct overloads that a dispatcher launched or compiled."""
    owners = [dispatcher, ints(recording, "compilations", "dispatcher_id")]
    overloads = [
        ints(recording, "launches", "specialization_id"), ints(recording, "compilations", "specialization_id"),
    ]
    return distinct_by(np.concatenate(owners), np.concatenate(overloads), size)


def _long(phases: LaunchPhases, dispatcher: Ints, size: int) -> dict[int, LongLaunches]:
    """The long launches by dispatcher, of those that have any."""
    launching = phases.launching_ns
    rows = long_ones(dispatcher, launching, size)
    rows = rows[np.argsort(launching[rows], kind="stable")]
    owner, part = dispatcher[rows], phases.take(rows)
    totals, counts = part.totals_by(owner, size), count_by(owner, size)
    found: dict[int, LongLaunches] = {}
    for at, row in zip(owner.tolist(), rows.tolist(), strict=True):  # the last one of each is its longest
        spent = {name: int(phases.own_phases[name][row]) for name in PHASES if name != "compile"}
        phase = max(spent, key=lambda name: spent[name])
        known = spent[phase] >= 0
        found[at] = LongLaunches(int(counts[at]), totals[at], int(launching[row]), phase if known else None,
                                 spent[phase] if known else 0)
    return found


def _compile_ns(recording: Recording, size: int) -> Ints:
    asked = ints(recording, "compilations", "dispatcher_id")
    spent = ints(recording, "compilations", "end_ns") - ints(recording, "compilations", "start_ns")
    return np.rint(np.bincount(asked, weights=spent, minlength=size)[:size]).astype(np.int64)


def _shared(
    recording: Recording, dispatcher: Ints, configuration: Ints, size: int
) -> list[tuple[float, float] | None]:
    """Range of static plus dynamic shared memory over the pairs of overload and configuration launched."""
    static = ints(recording, "specializations", "static_shared_bytes")
    dynamic = ints(recording, "configurations", "sharedmem_bytes")
    owner = ints(recording, "specializations", "dispatcher_id")
    pairs, _ = unique_pairs(ints(recording, "launches", "specialization_id"), configuration)
    overload, used = pairs[:, 0], pairs[:, 1]
    known = (static[overload] >= 0) & (dynamic[used] >= 0)
    values = np.where(known, static[overload] + dynamic[used], -1)
    return ranges_by(owner[overload], _known(values), size)


def _occupancy(recording: Recording, owner: Ints, size: int) -> list[tuple[float, float] | None]:
    overload = ints(recording, "occupancies", "specialization_id")
    return ranges_by(owner[overload], floats(recording, "occupancies", "occupancy"), size)


def _shapes(recording: Recording, dispatcher: Ints, configuration: Ints, size: int) -> tuple[Ints, Ints, Ints]:
    """Blocks of the largest grid, launches with partial warps, and their largest block, by dispatcher."""
    blocks, threads = (_product(recording, what) for what in ("griddim", "blockdim"))
    most = np.zeros(size, dtype=np.int64)
    np.maximum.at(most, dispatcher, blocks[configuration])
    # In a grid of one small block there is nothing to gain.
    partial = ((threads % WARP != 0) & (blocks > 1))[configuration]
    largest = np.zeros(size, dtype=np.int64)
    np.maximum.at(largest, dispatcher[partial], threads[configuration[partial]])
    return most, count_by(dispatcher, size, partial), largest


def _product(recording: Recording, what: str) -> Ints:
    """Blocks of each configuration's grid, or threads of its block; 0 where a framework hides them."""
    sides = [ints(recording, "configurations", f"{what}_{axis}") for axis in "xyz"]
    return np.where(np.minimum.reduce(sides) < 0, 0, sides[0] * sides[1] * sides[2])


def _known(values: Ints) -> Floats:
    return np.where(values >= 0, values.astype(np.float64), np.nan)


def _whole(pair: tuple[float, float] | None) -> tuple[int, int] | None:
    return None if pair is None else (int(pair[0]), int(pair[1]))


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
