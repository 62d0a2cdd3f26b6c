"""What the tasks of Dask did, by key prefix and by process: they are ranges of domain ``dask``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kernelscope.analysis.columns import Ints, count_by, data_frame, instants, ints, matches, ran
from kernelscope.analysis.compiling import compile_times_of, compiles_of
from kernelscope.analysis.launches import LaunchPhases, launch_phases
from kernelscope.analysis.lines import gpu_by, known_sums
from kernelscope.analysis.processes import processes_of
from kernelscope.analysis.ranges import attribute, attribute_activities, open_at
from kernelscope.features.tasks import DOMAIN
from kernelscope.recording.model import Recording
from kernelscope.recording.time import duration_ns
from kernelscope.schema import UNKNOWN

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class TaskSummary:
    """The tasks of one key prefix that one process ran.

    Attributes
    ----------
    task : str
        The prefix.
    process_id : int or None
        The process; None where the recording knows of none.
    worker : str or None
        The process's name as a worker.
    tasks : int
        How many there were; one that was repeated counts each time.
    unfinished : int
        Those of them that did not end while it was recorded.
    task_ns : int or None
        How long the others took, together.
    launches : int
        Launches that they made and that ran.
    host_ns : int or None
        Own host time of these; None where it is known of none.
    compiles : int
        Compiles.
    compile_ns : int or None
        What those, and loads from a disk cache, took themselves; None where the end of none is known.
    gpu_ns : int or None
        How long their kernels, copies and memsets ran; None where the GPU was not recorded.
    """

    task: str
    process_id: int | None
    worker: str | None
    tasks: int
    unfinished: int
    task_ns: int | None
    launches: int
    host_ns: int | None
    compiles: int
    compile_ns: int | None
    gpu_ns: int | None


def task_summaries(recording: Recording, phases: LaunchPhases | None = None) -> list[TaskSummary]:
    """Summarize tasks by key prefix and process, in order of their time, longest first.

    `phases` is what `launch_phases` returns, where it is at hand.
    """
    is_task = matches(recording, "ranges", "domain", DOMAIN) & ~matches(recording, "ranges", "kind", "mark")
    tasks = np.flatnonzero(is_task)
    if not len(tasks):
        return []
    names: list[str] = recording.arrow("ranges").column("name").to_pylist()
    processes = processes_of(recording, "ranges")
    keys: dict[tuple[str, int], int] = {}
    group_at = np.full(len(is_task) + 1, UNKNOWN, np.int64)  # the last is that of no range
    for row in tasks.tolist():
        group_at[row] = keys.setdefault((names[row], int(processes[row])), len(keys))
    size = len(keys) + 1  # the last stands for what no task did
    group_at = _around(group_at, ints(recording, "ranges", "parent_range_id"))
    group_at[group_at < 0] = size - 1
    innermost = attribute(recording)
    launches, activities = group_at[innermost], group_at[attribute_activities(recording, innermost)]
    begun, = instants(recording, "compilations", "start_ns")
    compilations = group_at[open_at(recording, begun, ints(recording, "compilations", "thread_id"))]
    of_task = group_at[tasks]
    lasted = duration_ns(*instants(recording, "ranges", "start_ns", "end_ns"))[tasks]
    counts, unfinished = count_by(of_task, size), count_by(of_task, size, lasted < 0)
    task_ns = known_sums(of_task, lasted, size)
    launched = count_by(launches, size, ran(recording))
    totals = (phases or launch_phases(recording)).totals_by(launches, size)
    compiles = count_by(compilations, size, compiles_of(recording))
    compile_ns = known_sums(compilations, compile_times_of(recording).own_ns, size)
    gpu = gpu_by(recording, launches, activities, size)
    workers = [row["worker"] for row in recording.rows("processes")]
    found = [
        TaskSummary(
            task=name, process_id=None if process < 0 else process, worker=None if process < 0 else workers[process],
            tasks=int(counts[at]), unfinished=int(unfinished[at]), task_ns=task_ns[at], launches=int(launched[at]),
            host_ns=totals[at].host_ns, compiles=int(compiles[at]), compile_ns=compile_ns[at], gpu_ns=gpu[at][0])
        for (name, process), at in keys.items()
    ]
    return sorted(found, key=lambda each: -(each.task_ns or 0))


def by_task(recording: Recording) -> pd.DataFrame:
    """Return what the tasks of Dask did: a new DataFrame, one row a key prefix and process.

    Columns are the task's prefix, the process and its worker, how many tasks there were and how long they took,
    their launches with their host time, compiles, and the time of the GPU. A launch belongs to the task that ran on
    its thread; what no task did is left out. Times are in nanoseconds.
    """
    texts = ("task", "worker")
    names = ("task", "process_id", "worker", "tasks", "unfinished", "task_ns", "launches", "host_ns", "compiles",
             "compile_ns", "gpu_ns")
    return data_frame(task_summaries(recording), {name: "object" if name in texts else "Int64" for name in names}, {})


def _around(group_at: Ints, parents: Ints) -> Ints:
    """The group of each range: its own, or that of the nearest range around it that has one."""
    at = np.where(group_at >= 0, np.arange(len(group_at)), np.append(parents, UNKNOWN))
    # Each round twice as far as the one before: ranges may be inside each other by the thousand.
    while (unknown := (at >= 0) & (group_at[at] < 0)).any():
        at[unknown] = at[at[unknown]]
    return np.where(at >= 0, group_at[at], UNKNOWN)
