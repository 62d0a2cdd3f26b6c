"""What each process of a recording did: its launches, compiles, GPU and waits, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kernelscope.analysis.activities import COPY, is_gpu_recorded
from kernelscope.analysis.columns import (
    Ints,
    codes,
    count_by,
    data_frame,
    instants,
    ints,
    matches,
    ran,
    union,
)
from kernelscope.analysis.compiles import knows_compiles
from kernelscope.analysis.compiling import compile_times_of, compiles_of
from kernelscope.analysis.launches import LaunchPhases, launch_phases
from kernelscope.analysis.lines import gpu_by, known_sums
from kernelscope.analysis.owners import process_label, processes_of
from kernelscope.recording.model import Recording
from kernelscope.recording.time import (
    FOREVER,
    UNKNOWN_INSTANT,
    instant_or_none,
    is_known,
    otherwise,
)

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class ProcessSummary:
    """One process.

    Attributes
    ----------
    process_id : int
        Its row in ``processes``.
    row : dict
        That row.
    launches : int
        Launches that it made and that ran.
    host_ns : int or None
        Own host time of them; None where it is known of none.
    launching_ns : int or None
        Of that, what is no compile, and no waiting for one of another thread.
    compiles : int or None
        Compiles; None where another tool's trace does not say.
    compile_ns : int or None
        What those, and loads from a disk cache, took themselves; None where the end of none is known.
    gpu_ns : int or None
        How long its kernels, copies and memsets ran, each for itself; None where the GPU was not recorded.
    wait_ns : int or None
        How long it waited for the GPU; None where the GPU was not recorded.
    first_ns, last_ns : int or None
        The first and the last known time of its cells, launches and activities.
    busy_ns : int or None
        Time in which any of its kernels, copies or memsets ran; None where the GPU was not recorded.
    communication_ns : int or None
        Time in which any of its kernels of NCCL, or copies between GPUs, ran.
    hidden_ns : int or None
        Of that, time in which another kernel of its own ran too; the rest is exposed.
    """

    process_id: int
    row: dict[str, Any]
    launches: int
    host_ns: int | None
    launching_ns: int | None
    compiles: int | None
    compile_ns: int | None
    gpu_ns: int | None
    wait_ns: int | None
    first_ns: int | None
    last_ns: int | None
    busy_ns: int | None
    communication_ns: int | None
    hidden_ns: int | None

    @property
    def exposed_ns(self) -> int | None:
        """Return how long it communicated while none of its other kernels ran."""
        if self.communication_ns is None or self.hidden_ns is None:
            return None
        return self.communication_ns - self.hidden_ns

    @property
    def work_ns(self) -> int | None:
        """Return how long its GPUs were busy but for exposed communication, in which it may wait for the others."""
        return None if self.busy_ns is None else self.busy_ns - (self.exposed_ns or 0)

    @property
    def label(self) -> str:
        """Return what to call it: its worker's name, rank or pid."""
        return process_label(self.row)


@dataclass(frozen=True)
class Imbalance:
    """How unlike the processes are in one measure.

    Attributes
    ----------
    measure : str
        ``work`` (`ProcessSummary.work_ns`), or ``host`` (of launches) where the GPU was not recorded.
    slowest, fastest : ProcessSummary
        Those with the most and the least.
    most_ns, mean_ns : float
        What it has, and what the processes have on average.
    share : float
        The difference of the two over the most, 0 to 1: how much of the time the others are done before.
    """

    measure: str
    slowest: ProcessSummary
    fastest: ProcessSummary
    most_ns: float
    mean_ns: float
    share: float


@dataclass(frozen=True)
class RepeatedCompile:
    """One specialization that several processes compiled.

    Attributes
    ----------
    dispatcher_id : int
        The kernel.
    kernel, framework, signature : str
        Its name, whose it is, and the argument types.
    processes, compiles : int
        How many processes compiled it, and how often.
    total_ns, median_ns : int
        How long that took together, and half of them at most.
    at_once : int
        How many began before the first of them was done: a cache that was empty then would not have spared these.
    by : tuple of int
        The processes of those.
    avoidable_ns : int
        What all took but the longest: what a shared cache that has it would spare.
    """

    dispatcher_id: int
    kernel: str
    framework: str
    signature: str
    processes: int
    compiles: int
    total_ns: int
    median_ns: int
    at_once: int
    by: tuple[int, ...]
    avoidable_ns: int


@dataclass(frozen=True)
class Comparison:
    """What only all processes together show.

    Attributes
    ----------
    processes : tuple of ProcessSummary
        In order of the table ``processes``.
    imbalance : Imbalance or None
        None where nothing is known of two of them.
    repeated : tuple of RepeatedCompile
        By time that could be spared, the most first.
    """

    processes: tuple[ProcessSummary, ...]
    imbalance: Imbalance | None
    repeated: tuple[RepeatedCompile, ...]


def comparison(recording: Recording, phases: LaunchPhases | None = None) -> Comparison | None:
    """Return what only all processes together show; None for a recording of one.

    `phases` is what `launch_phases` returns, where it is at hand.
    """
    if recording.arrow("processes").num_rows < 2:
        return None
    found = by_process(recording, phases)
    return Comparison(tuple(found), _imbalance(found), tuple(repeated_compiles(recording)))


def _imbalance(processes: Sequence[ProcessSummary]) -> Imbalance | None:
    for measure in ("work", "host"):
        known = [(each, value) for each in processes if (value := getattr(each, f"{measure}_ns")) is not None]
        if len(known) > 1 and any(value for _, value in known):
            slowest, most = max(known, key=lambda pair: pair[1])
            fastest, _ = min(known, key=lambda pair: pair[1])
            mean = sum(value for _, value in known) / len(known)
            return Imbalance(measure, slowest, fastest, most, mean, (most - mean) / most)
    return None


def repeated_compiles(recording: Recording) -> list[RepeatedCompile]:
    """Return the specializations that several processes compiled each for itself, by the time that could be spared."""
    process = processes_of(recording, "compilations")
    start, end = instants(recording, "compilations", "start_ns", "end_ns")
    specialization = ints(recording, "compilations", "specialization_id")
    spent = compile_times_of(recording).own_ns
    known = np.flatnonzero((process >= 0) & (specialization >= 0) & (end > start) & compiles_of(recording))
    known = known[np.argsort(specialization[known], kind="stable")]
    rows, kernels = recording.rows("specializations"), recording.rows("dispatchers")
    found: list[RepeatedCompile] = []
    for own in np.split(known, np.flatnonzero(np.diff(specialization[known])) + 1):
        count = len(np.unique(process[own]))
        if count < 2:
            continue
        took, row = spent[own], rows[int(specialization[own[0]])]
        first = own[start[own] < end[own].min()]
        kernel = kernels[row["dispatcher_id"]]
        found.append(RepeatedCompile(
            dispatcher_id=row["dispatcher_id"], kernel=kernel["name"], framework=kernel["framework"],
            signature=row["signature"], processes=count, compiles=len(own), total_ns=int(took.sum()),
            median_ns=int(np.median(took)), at_once=len(first), by=tuple(np.unique(process[first]).tolist()),
            avoidable_ns=int(took.sum() - took.max())))
    return sorted(found, key=lambda each: -each.avoidable_ns)


def _busy(recording: Recording, groups: Ints, size: int) -> list[tuple[int | None, int | None, int | None]]:
    """Time in which anything ran; in which something communicated; in which another kernel ran too, by process."""
    if not is_gpu_recorded(recording):
        return [(None, None, None)] * size
    start, end = instants(recording, "activities", "start_ns", "end_ns")
    is_wait, is_kernel = (matches(recording, "activities", "kind", kind) for kind in ("sync", "kernel"))
    # Which activities are communication: kernels of NCCL, by their names, and copies between GPUs.
    name, names = codes(recording, "activities", "name")
    is_nccl = np.array([*(word.startswith("nccl") for word in names), False])
    is_peer = np.array([*(word == "PtoP" for word in names), False])
    communicates = (is_nccl[name] & is_kernel) | (is_peer[name] & matches(recording, "activities", "kind", COPY))
    rows = np.flatnonzero(is_known(start) & (end > start) & ~is_wait)
    rows = rows[np.argsort(groups[rows], kind="stable")]
    found: list[tuple[int | None, int | None, int | None]] = []
    bounds = np.searchsorted(groups[rows], np.arange(size + 1))
    for low, high in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        own = rows[low:high]
        talking, computing = own[communicates[own]], own[is_kernel[own] & ~communicates[own]]
        told = union(start[talking], end[talking])
        found.append((union(start[own], end[own]).total_ns, told.total_ns,
                      told.common_ns(union(start[computing], end[computing]))))
    return found


def by_process(recording: Recording, phases: LaunchPhases | None = None) -> list[ProcessSummary]:
    """Summarize each process, in order of the table ``processes``; none for files that know of none.

    `phases` is what `launch_phases` returns, where it is at hand.
    """
    rows = recording.rows("processes")
    if not rows:
        return []
    size = len(rows) + 1  # the last stands for what has no known process
    groups: dict[str, Ints] = {}
    for table in ("cells", "launches", "compilations", "activities"):
        found = processes_of(recording, table)
        groups[table] = np.where(found >= 0, found, size - 1) if found.min(initial=0) < 0 else found
    totals = (phases or launch_phases(recording)).totals_by(groups["launches"], size)
    compile_ns = known_sums(groups["compilations"], compile_times_of(recording).own_ns, size)
    launches = count_by(groups["launches"], size, ran(recording))
    compiles = count_by(groups["compilations"], size, compiles_of(recording))
    is_known = knows_compiles(recording)
    gpu = gpu_by(recording, groups["launches"], groups["activities"], size)
    first, last = _ends(recording, groups, size)
    busy = _busy(recording, groups["activities"], size)
    return [
        ProcessSummary(
            process_id=at, row=row, launches=int(launches[at]), host_ns=totals[at].host_ns,
            launching_ns=totals[at].launching_ns,
            compiles=int(compiles[at]) if is_known else None, compile_ns=compile_ns[at] if is_known else None,
            gpu_ns=gpu[at][0], wait_ns=gpu[at][2], first_ns=first[at], last_ns=last[at], busy_ns=busy[at][0],
            communication_ns=busy[at][1], hidden_ns=busy[at][2])
        for at, row in enumerate(rows)
    ]


def process_table(recording: Recording) -> pd.DataFrame:
    """Return `by_process` as a DataFrame; the index is the process's id."""
    named = ("host", "pid", "rank", "local_rank", "worker", "gpu_uuid", "status")
    texts = ("host", "worker", "gpu_uuid", "status")
    numbers = ("launches", "host_ns", "compiles", "compile_ns", "gpu_ns", "busy_ns", "wait_ns", "communication_ns",
               "hidden_ns", "exposed_ns", "first_ns", "last_ns")
    kinds = {"process_id": "Int64", **{name: "object" if name in texts else "Int64" for name in named},
             **dict.fromkeys(numbers, "Int64"), "own_cost_ns": "Float64"}
    taken = {name: lambda each, name=name: each.row[name] for name in (*named, "own_cost_ns")}
    return data_frame(by_process(recording), kinds, taken).set_index("process_id")


def _ends(recording: Recording, groups: dict[str, Ints], size: int) -> tuple[list[int | None], list[int | None]]:
    """The first and the last known time by process."""
    first, last = np.full(size, FOREVER), np.full(size, UNKNOWN_INSTANT)
    for table in ("cells", "launches", "activities"):
        for times in instants(recording, table, "start_ns", "end_ns"):
            np.minimum.at(first, groups[table], otherwise(times, FOREVER))
            np.maximum.at(last, groups[table], times)
    return ([None if each == FOREVER else each for each in first.tolist()], [*map(instant_or_none, last.tolist())])
