"""What graph launches ran on the GPU: the activities that carry a graph's id, by graph."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kernelscope.analysis.activities import KERNEL
from kernelscope.analysis.columns import count_by, distinct_by, ints, matches, sum_by
from kernelscope.recording.model import Recording
from kernelscope.schema import UNKNOWN


@dataclass(frozen=True)
class GraphLaunches:
    """The launches of one graph.

    Attributes
    ----------
    cupti_graph_id : int
        CUPTI's id of it.
    launches : int or None
        How often it was launched; None where no correlation id tells.
    kernels, others : int
        Kernels that ran in them, and copies and memsets.
    execute_ns : int or None
        Time of its kernels, summed; None where none was timed.
    """

    cupti_graph_id: int
    launches: int | None
    kernels: int
    others: int
    execute_ns: int | None


def by_graph(recording: Recording) -> list[GraphLaunches]:
    """Summarize each graph that was launched, in order of time on the GPU, longest first."""
    graph = ints(recording, "activities", "cupti_graph_id")
    rows = np.flatnonzero(graph >= 0)
    if not len(rows):
        return []
    ids, group = np.unique(graph[rows], return_inverse=True)
    size = len(ids)
    correlation = ints(recording, "activities", "correlation_id")[rows]
    _, dense = np.unique(correlation, return_inverse=True)
    launches = distinct_by(group, np.where(correlation >= 0, dense, UNKNOWN), size)
    is_kernel = matches(recording, "activities", "kind", KERNEL)[rows]
    start, end = ints(recording, "activities", "start_ns")[rows], ints(recording, "activities", "end_ns")[rows]
    lasted = np.where(is_kernel & (start >= 0) & (end >= start), end - start, UNKNOWN)
    kernels, timed = count_by(group, size, is_kernel), count_by(group, size, lasted >= 0)
    everything, spent = count_by(group, size), sum_by(group, lasted, size)
    found = [
        GraphLaunches(
            int(ids[at]), int(launches[at]) or None, int(kernels[at]), int(everything[at] - kernels[at]),
            int(spent[at]) if timed[at] else None,
        )
        for at in range(size)
    ]
    return sorted(found, key=lambda each: (-(each.execute_ns or 0), each.cupti_graph_id))
