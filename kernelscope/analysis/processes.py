"""What each process of a recording did: its launches, compiles, GPU and waits, side by side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kernelscope.analysis.columns import Ints, count_by, data_frame, ints, ran
from kernelscope.analysis.launches import launch_phases
from kernelscope.analysis.lines import gpu_by, known_sums
from kernelscope.recording.model import Recording
from kernelscope.schema import UNKNOWN

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
    compiles : int
        Compiles and loads from the disk cache.
    compile_ns : int or None
        How long those took; None where the end of none is known.
    gpu_ns : int or None
        How long its kernels, copies and memsets ran, each for itself; None where the GPU was not recorded.
    wait_ns : int or None
        How long it waited for the GPU; None where the GPU was not recorded.
    first_ns, last_ns : int or None
        The first and the last known time of its cells, launches and activities.
    """

    process_id: int
    row: dict[str, Any]
    launches: int
    host_ns: int | None
    compiles: int
    compile_ns: int | None
    gpu_ns: int | None
    wait_ns: int | None
    first_ns: int | None
    last_ns: int | None

    @property
    def label(self) -> str:
        """Return what to call it: its worker's name, rank or pid."""
        row = self.row
        if row["worker"] is not None:
            return str(row["worker"])
        if row["rank"] is not None:
            return f"rank {row['rank']}"
        return f"process {self.process_id}" if row["pid"] is None else f"pid {row['pid']}"


def processes_of(recording: Recording, table: str) -> Ints:
    """Return the process of each row of a table, -1 where it is not known."""
    if "process_id" in recording.arrow(table).schema.names:
        return ints(recording, table, "process_id")
    return np.append(ints(recording, "threads", "process_id"), UNKNOWN)[ints(recording, table, "thread_id")]


def by_process(recording: Recording) -> list[ProcessSummary]:
    """Summarize each process, in order of the table ``processes``; none for files that know of none."""
    rows = recording.rows("processes")
    if not rows:
        return []
    size = len(rows) + 1  # the last stands for what has no known process
    groups: dict[str, Ints] = {}
    for table in ("cells", "launches", "compilations", "activities"):
        found = processes_of(recording, table)
        groups[table] = np.where(found >= 0, found, size - 1)
    totals = launch_phases(recording).totals_by(groups["launches"], size)
    start, end = (ints(recording, "compilations", name) for name in ("start_ns", "end_ns"))
    compile_ns = known_sums(groups["compilations"], np.where(end >= start, end - start, UNKNOWN), size)
    launches = count_by(groups["launches"], size, ran(recording))
    compiles = count_by(groups["compilations"], size)
    gpu = gpu_by(recording, groups["launches"], groups["activities"], size)
    first, last = _ends(recording, groups, size)
    return [
        ProcessSummary(
            process_id=at, row=row, launches=int(launches[at]), host_ns=totals[at].host_ns, compiles=int(compiles[at]),
            compile_ns=compile_ns[at], gpu_ns=gpu[at][0], wait_ns=gpu[at][2], first_ns=first[at], last_ns=last[at])
        for at, row in enumerate(rows)
    ]


def process_table(recording: Recording) -> pd.DataFrame:
    """Return `by_process` as a DataFrame; the index is the process's id."""
    named = ("host", "pid", "rank", "local_rank", "worker", "gpu_uuid", "status")
    texts = ("host", "worker", "gpu_uuid", "status")
    numbers = ("launches", "host_ns", "compiles", "compile_ns", "gpu_ns", "wait_ns", "first_ns", "last_ns")
    kinds = {"process_id": "Int64", **{name: "object" if name in texts else "Int64" for name in named},
             **dict.fromkeys(numbers, "Int64"), "own_cost_ns": "Float64"}
    taken = {name: lambda each, name=name: each.row[name] for name in (*named, "own_cost_ns")}
    return data_frame(by_process(recording), kinds, taken).set_index("process_id")


def _ends(recording: Recording, groups: dict[str, Ints], size: int) -> tuple[list[int | None], list[int | None]]:
    """The first and the last known time by process."""
    none = np.iinfo(np.int64)
    first, last = np.full(size, none.max), np.full(size, none.min)
    for table in ("cells", "launches", "activities"):
        for name in ("start_ns", "end_ns"):
            column = recording.arrow(table).column(name)
            known = column.is_valid().to_numpy()
            times, whose = column.fill_null(0).to_numpy()[known], groups[table][known]
            np.minimum.at(first, whose, times)
            np.maximum.at(last, whose, times)
    return ([None if each == none.max else each for each in first.tolist()],
            [None if each == none.min else each for each in last.tolist()])
