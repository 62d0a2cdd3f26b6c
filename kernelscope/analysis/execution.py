"""Execution by kernel: how long the kernels ran and queued on the GPU, with percentiles, whoever launched them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kernelscope.analysis.columns import Ints, codes, count_by, ints, percentiles_by, sum_by
from kernelscope.analysis.correlate import SOURCES, Joined, join, kernel_dispatchers
from kernelscope.recording.model import Recording
from kernelscope.schema import UNKNOWN

if TYPE_CHECKING:
    import pandas as pd

_SHARES = (0.5, 0.9, 0.99, 1.0)


@dataclass(frozen=True)
class Spread:
    """Percentiles of a duration, in nanoseconds.

    Attributes
    ----------
    count : int
        Of how many it is known.
    total_ns : int
        Their sum.
    p50_ns, p90_ns, p99_ns : float
        Percentiles, linearly interpolated.
    max_ns : float
        The longest.
    """

    count: int
    total_ns: int
    p50_ns: float
    p90_ns: float
    p99_ns: float
    max_ns: float

    @property
    def mean_ns(self) -> float:
        """The average: times `count` it is `total_ns`."""
        return self.total_ns / self.count


@dataclass(frozen=True)
class KernelExecution:
    """One kernel on the GPU.

    Attributes
    ----------
    dispatcher_id : int or None
        Its row in ``dispatchers``; None for kernels that no probe of a framework knows.
    name : str
        The dispatcher's name, or else the kernel's readable one.
    kernels : int
        How often it ran.
    launched, in_graphs, others : int
        Of that, by recorded launches, by graph launches, and by other libraries.
    execute, queue : Spread or None
        How long it ran, and queued after submit; None where that was not measured.
    """

    dispatcher_id: int | None
    name: str
    kernels: int
    launched: int
    in_graphs: int
    others: int
    execute: Spread | None
    queue: Spread | None


def by_execution(recording: Recording, joined: Joined | None = None) -> list[KernelExecution]:
    """Summarize each kernel that ran on the GPU, in order of total execution time, longest first.

    Kernels of one dispatcher are one row, those of its graph launches included; others are grouped by their names.
    Launches that were timed with CUDA events count as their kernels.

    Parameters
    ----------
    recording : Recording
        What was recorded.
    joined : Joined, optional
        `join` of it, where it is at hand.
    """
    joined = joined or join(recording)
    name, names = codes(recording, "activities", "name")
    called = [str(row["name"]) for row in recording.rows("dispatchers")]
    dispatcher = kernel_dispatchers(recording, joined)
    alone = np.flatnonzero((joined.kernel < 0) & (joined.execute_ns >= 0))
    # What the launches say goes before the kernels' own: it begins where their submit phase ended.
    launched = joined.launch >= 0
    of_launch = np.append(joined.queue_ns, UNKNOWN)[joined.launch]
    # A graph's kernels wait for those before them, and so do all of a call but its first: that is no queue.
    first = np.append(joined.kernel, UNKNOWN)[joined.launch] == joined.activity
    in_graph = joined.source == SOURCES.index("graph")
    queue = np.where(launched, np.where(first, of_launch, UNKNOWN), np.where(in_graph, UNKNOWN, joined.kernel_queue_ns))
    known = (dispatcher >= 0) & (dispatcher < len(called))
    key = np.where(known, dispatcher, len(called) + name[joined.activity])
    key = np.concatenate((key, ints(recording, "launches", "dispatcher_id")[alone]))
    source = np.concatenate((joined.source, np.zeros(len(alone), dtype=np.int64)))
    queue = np.concatenate((queue, joined.queue_ns[alone]))
    execute = np.concatenate((joined.kernel_execute_ns, joined.execute_ns[alone]))
    size = len(called) + len(names)
    counts = count_by(key, size)
    by_source = [count_by(key, size, source == place) for place in range(len(SOURCES))]
    executed, queued = spreads_by(key, execute, size), spreads_by(key, queue, size)
    found = [
        KernelExecution(
            at if at < len(called) else None, called[at] if at < len(called) else names[at - len(called)],
            int(counts[at]), int(by_source[0][at]), int(by_source[1][at]), int(by_source[2][at]),
            executed[at], queued[at],
        )
        for at in np.flatnonzero(counts).tolist()
    ]
    return sorted(found, key=lambda each: (-(each.execute.total_ns if each.execute else 0), -each.kernels, each.name))


def execution_table(recording: Recording) -> pd.DataFrame:
    """Return `by_execution` as a DataFrame.

    Its columns are ``name``, ``dispatcher_id``, ``kernels``, ``launched``, ``in_graphs``, ``others``, and for execute
    and for queue ``_total_ns``, ``_p50_ns``, ``_p90_ns``, ``_p99_ns`` and ``_max_ns``.
    """
    import pandas as pd

    rows = by_execution(recording)
    columns: dict[str, Any] = {"name": pd.Series([row.name for row in rows], dtype=object)}
    for name in ("dispatcher_id", "kernels", "launched", "in_graphs", "others"):
        columns[name] = pd.array([getattr(row, name) for row in rows], dtype="Int64")
    for what in ("execute", "queue"):
        held: list[Spread | None] = [getattr(row, what) for row in rows]
        for name in ("total_ns", "p50_ns", "p90_ns", "p99_ns", "max_ns"):
            columns[f"{what}_{name}"] = pd.array(
                [None if each is None else getattr(each, name) for each in held],
                dtype="Int64" if name == "total_ns" else "Float64")
    return pd.DataFrame(columns)


def spreads_by(groups: Ints, values: Ints, size: int) -> list[Spread | None]:
    """Return the spread of durations (int64, -1 unknown) by group; None for a group of which none is known."""
    counts = count_by(groups, size, values >= 0)
    totals = sum_by(groups, values, size)
    shares = percentiles_by(groups, values, size, _SHARES)
    return [
        Spread(int(counts[at]), int(totals[at]), *(float(each) for each in shares[at])) if counts[at] else None
        for at in range(size)
    ]


def spread(values: Ints) -> Spread | None:
    """Return the spread of durations (int64, -1 unknown); None where none is known."""
    return spreads_by(np.zeros(len(values), dtype=np.int64), values, 1)[0]
