"""Which graphs belong together: those of one topology or one fingerprint, with their events and launches."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelscope.analysis.columns import Ints, codes, ints
from kernelscope.analysis.graph_runs import GraphRuns
from kernelscope.recording.model import Recording
from kernelscope.schema import UNKNOWN

#: A key of a group: its kind (graph, executable or cupti), and the text or the number that it goes by.
Key = tuple[str, Any]


@dataclass(frozen=True)
class Groups:
    """Groups of graphs.

    Attributes
    ----------
    keys : list
        What each group is: graphs of one topology or fingerprint; or an executable graph that was not seen being built,
        by its event or by CUPTI's id.
    graph_ids : list of list of int
        By group its rows in ``graphs``.
    variants : list of int
        By group how many different fingerprints those have.
    cupti : list of int or None
        CUPTI's id, where nothing else is known.
    of_event, of_run : ndarray of int64
        The group of each row of ``graph_events`` and of each launch; -1 for none.
    """

    keys: list[Key]
    graph_ids: list[list[int]]
    variants: list[int]
    cupti: list[int | None]
    of_event: Ints
    of_run: Ints


def grouped(recording: Recording, runs: GraphRuns, column: str) -> Groups:
    """Return graphs in groups by a column of ``graphs``: topology or fingerprint."""
    found: dict[Key, int] = {}
    graph_ids: list[list[int]] = []
    table: Any = recording.arrow("graphs")
    texts: list[str] = table.column(column).to_pylist()
    prints: list[str] = table.column("fingerprint").to_pylist()
    of_graph = np.full(len(texts) + 1, UNKNOWN, dtype=np.int64)
    for graph, text in enumerate(texts):
        at = found.setdefault(("graph", text), len(found))
        if at == len(graph_ids):
            graph_ids.append([])
        graph_ids[at].append(graph)
        of_graph[graph] = at
    graph, made = ints(recording, "graph_events", "graph_id"), ints(recording, "graph_events", "exec_id")
    # What has no graph of its own is of the graph that its executable graph was made from.
    own = np.append(graph, UNKNOWN)
    own = np.where(own >= 0, own, np.append(own[_index(made, len(graph))], UNKNOWN))[:len(graph)]
    of_event = of_graph[_index(own, len(texts))]
    unseen = np.flatnonzero((of_event < 0) & (made >= 0))
    for at in unseen.tolist():
        of_event[at] = found.setdefault(("executable", int(made[at])), len(found))
    of_run = np.append(of_event, UNKNOWN)[_index(runs.event, len(of_event))]
    for at in np.flatnonzero((of_run < 0) & (runs.cupti_graph >= 0)).tolist():
        of_run[at] = found.setdefault(("cupti", int(runs.cupti_graph[at])), len(found))
    graph_ids += [[] for _ in range(len(found) - len(graph_ids))]
    return Groups(
        list(found), graph_ids, [len({prints[each] for each in ids}) for ids in graph_ids],
        [key[1] if key[0] == "cupti" else None for key in found], of_event, of_run,
    )


class Shapes:
    """Nodes by kind and kernels of graphs, looked up for as many as are asked for.

    Parameters
    ----------
    recording : Recording
        What was recorded.
    """

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._graphs = recording.rows("graphs")
        graph = ints(recording, "graph_nodes", "graph_id")
        self._order = np.argsort(graph, kind="stable")
        self._first = np.searchsorted(graph[self._order], np.arange(len(self._graphs) + 1))
        self._kind, self._kinds = codes(recording, "graph_nodes", "kind")
        dispatcher = [str(row["name"]) for row in recording.rows("dispatchers")]
        self._dispatchers: list[str | None] = [*dispatcher, None]
        owner = np.append(ints(recording, "specializations", "dispatcher_id"), UNKNOWN)
        self._owner = owner[_index(ints(recording, "graph_nodes", "specialization_id"), len(owner) - 1)]

    def of(self, graph_id: int) -> dict[str, Any]:
        """Return nodes, edges, kinds and kernels of a graph, as `kernelscope.analysis.graphs.GraphSummary` has them.

        A kernel that a recorded dispatcher compiled has the dispatcher's name.
        """
        row = self._graphs[graph_id]
        rows = self._order[int(self._first[graph_id]):int(self._first[graph_id + 1])]
        counts = Counter(self._kinds[at] for at in self._kind[rows].tolist())
        is_kernel = self._kind[rows] == (self._kinds.index("kernel") if "kernel" in self._kinds else len(self._kinds))
        kernels = rows[is_kernel]
        source: Any = self._recording.arrow("graph_nodes")
        held = source.select(["name", "entry_name"]).take(kernels).to_pylist()
        found = dict.fromkeys(
            self._dispatchers[at] or each["name"] or each["entry_name"] or "a kernel"
            for at, each in zip(self._owner[kernels].tolist(), held, strict=True))
        return {"nodes": row["nodes"], "edges": row["edges"], "kinds": dict(counts.most_common()),
                "kernels": tuple(found)}


def _index(ids: Ints, size: int) -> Ints:
    """Ids of a table of `size` rows; -1, which is the row behind the last one, for any other."""
    return np.where(ids < size, ids, UNKNOWN)
