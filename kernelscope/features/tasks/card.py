"""What is shown of tasks: a section of the card, the meanings of its columns, and a member of answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypedDict

from kernelscope.features.tasks.analyse import TaskSummary, task_summaries
from kernelscope.units import count, counted, duration
from kernelscope.views.answer import Many
from kernelscope.views.base import clean
from kernelscope.views.card.blocks import (
    MOST_ROWS,
    Column,
    Row,
    Section,
    Table,
    first_and_folded,
    terminal_columns,
)
from kernelscope.views.card.meanings import HOST
from kernelscope.views.card.model import Overview

#: What the columns of the table mean.
MEANINGS: Mapping[str, Mapping[str, str]] = {"Task": {
    "": "the prefix of the tasks' keys, which Dask makes of the function's name; below it the workers",
    "tasks": "how many of them ran; one that was repeated counts each time",
    "time": "time from start to end of all of them",
    "launches": "kernel launches that they made",
    "compiles": "compiles in them",
    "host": HOST,
    "compile": "time of these compiles, and of loads from a disk cache",
    "gpu": "time of their kernels, copies and memsets on the GPU",
}}


def section(overview: Overview) -> Section | None:
    """Return the tasks by the prefix of their keys, each with its workers, where there are any."""
    tasks = () if overview.is_empty else task_summaries(overview.recording, overview.phases)
    if not tasks:
        return None
    of_prefix: dict[str, list[TaskSummary]] = {}
    for task in tasks:
        of_prefix.setdefault(task.task, []).append(task)
    names = [] if overview.processes is None else [process.label for process in overview.processes.processes]
    rows: list[Row] = []
    for prefix, same in of_prefix.items():
        unfinished = sum(task.unfinished for task in same)
        notes = (f"{count(unfinished)} not ended: recording ended before, or the worker died",) if unfinished else ()
        rows.append(Row(clean(prefix), _values(same), notes=notes, terminal=notes, at=f"name:{clean(prefix)}"))
        if len(same) > 1:
            rows += [Row(clean(names[task.process_id] if task.process_id is not None and names else str(task.worker)),
                         _values([task]), depth=1) for task in same]
    is_gpu = overview.gpu is not None
    columns = (
        Column("Tasks", "tasks"), Column("Time", "time", width="time"),
        Column("Launches", "launches", "compiles", "compiles"),
        Column("Host time", "host", "compiling", "compile", "time"),
        *([Column("GPU time", "gpu", width="time")] if is_gpu else []))
    terminal = terminal_columns("tasks", "time", "launches", "host", "compiles", ("compiling", "compile"),
                                *(["gpu"] if is_gpu else []))
    return Section("tasks", "Tasks", counts_text(tasks), first_and_folded(
        Table(("Task", ""), tuple(rows[:MOST_ROWS]), columns, terminal), len(rows), "row"),
        "Dask's tasks by the prefix of their keys and by worker, those that took longest first", is_open=True)


def counts_text(tasks: Sequence[TaskSummary]) -> str:
    """Return how many tasks there are, of how many prefixes, and how many did not end."""
    prefixes = {task.task for task in tasks}
    counts = [count(sum(task.tasks for task in tasks)), counted(len(prefixes), "prefix", "prefixes")]
    unfinished = sum(task.unfinished for task in tasks)
    return ", ".join([*counts, *([f"{count(unfinished)} not ended"] if unfinished else [])])


def _values(tasks: Sequence[TaskSummary]) -> dict[str, str]:
    def total(name: str) -> int | None:
        known = [value for task in tasks if (value := getattr(task, name)) is not None]
        return sum(known) if known else None

    return {"tasks": count(total("tasks")), "launches": count(total("launches")), "compiles": count(total("compiles")),
            "time": duration(total("task_ns")), "host": duration(total("host_ns")),
            "compile": duration(total("compile_ns")), "gpu": duration(total("gpu_ns"))}


class TaskMembers(TypedDict):
    """Tasks of one name on one worker."""

    task: str
    worker: str | None
    tasks: int
    unfinished: int
    task_ns: int | None
    launches: int
    host_ns: int | None
    compiles: int
    compile_ns: int | None
    gpu_ns: int | None


#: The type of the member ``tasks``.
Member = Many[TaskMembers]


def member(overview: Overview) -> Many[TaskMembers]:
    """Return the tasks of each prefix and worker, for programs."""
    return Many(task_summaries(overview.recording, overview.phases), lambda task: {
        "task": task.task, "worker": task.worker, "tasks": task.tasks, "unfinished": task.unfinished,
        "task_ns": task.task_ns, "launches": task.launches, "host_ns": task.host_ns, "compiles": task.compiles,
        "compile_ns": task.compile_ns, "gpu_ns": task.gpu_ns})
