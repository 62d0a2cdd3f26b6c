"""What to call graphs, their events, and requests to build caches, wherever they are drawn."""

from __future__ import annotations

import numpy as np

from kernelscope.analysis.columns import Ints, codes, ints
from kernelscope.analysis.graph_runs import GraphRuns
from kernelscope.analysis.units import counted
from kernelscope.recording.model import Recording
from kernelscope.schema import UNKNOWN

#: What a graph is called that nothing is known of but that it ran.
UNSEEN = "graph not seen being built"

_BUILDS = {"hit": "found", "miss": "build", "wait": "wait for", "failed": "failed build of"}


def graph_labels(recording: Recording) -> list[str]:
    """Return what to call each graph: ``graph 0 · 20 nodes``."""
    nodes = ints(recording, "graphs", "nodes").tolist()
    return [f"graph {at} · {counted(each, 'node')}" for at, each in enumerate(nodes)]


def cupti_label(cupti_graph_id: int) -> str:
    """Return what to call an executable graph of which only CUPTI's id is known."""
    return f"CUPTI graph {cupti_graph_id}"


def run_names(recording: Recording, runs: GraphRuns) -> tuple[Ints, list[str]]:
    """Return what to call the graph of each launch, as codes (int64) and the names that they stand for."""
    labels = graph_labels(recording)
    cupti, of = np.unique(np.append(runs.cupti_graph, UNKNOWN), return_inverse=True)
    found = np.where((runs.graph >= 0) & (runs.graph < len(labels)), runs.graph, len(labels) + of[:-1])
    return found, [*labels, *(UNSEEN if each < 0 else cupti_label(each) for each in cupti.tolist())]


def event_names(recording: Recording) -> tuple[Ints, list[str]]:
    """Return what to call each row of ``graph_events``, as codes (int64) and the names that they stand for.

    Such as ``instantiate graph 0 · 20 nodes`` and ``refused update of graph 0 · 20 nodes``.
    """
    labels = [*graph_labels(recording), UNSEEN]
    kind, kinds = codes(recording, "graph_events", "kind")
    outcome, outcomes = codes(recording, "graph_events", "outcome")
    graph, made = ints(recording, "graph_events", "graph_id"), ints(recording, "graph_events", "exec_id")
    # What has no graph of its own is of the graph that its executable graph was made from.
    owner = np.append(graph, UNKNOWN)[np.where(made < len(graph), made, UNKNOWN)]
    of = np.where(graph >= 0, graph, owner)
    of = np.where((of >= 0) & (of < len(labels) - 1), of, len(labels) - 1)
    wide, high = len(labels), len(outcomes) + 1
    keys, found = np.unique((kind * high + outcome + 1) * wide + of, return_inverse=True)
    names: list[str] = []
    for key in keys.tolist():
        word, how = kinds[key // wide // high], key // wide % high - 1
        went = "" if how < 0 or outcomes[how] == "ok" else f"{outcomes[how]} "
        names.append(f"{went}{word} {'of ' if went else ''}{labels[key % wide]}")
    return found.astype(np.int64), names


def build_names(recording: Recording) -> list[str]:
    """Return what to call each row of ``builds``: ``build reduce_into``, ``found reduce_into``."""
    return [f"{_BUILDS.get(row['outcome'], row['outcome'])} {row['algorithm']}" for row in recording.rows("builds")]
