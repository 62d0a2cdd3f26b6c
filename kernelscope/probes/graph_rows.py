"""What probes of graphs hand over: graphs with their nodes and edges, events, and launches as columns of numbers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

#: Of one graph launch: the position in `GraphRows.events` of what made the executable graph (-1 unknown), the stream's
#: handle, the thread's ident (its lower 32 bits), when the call was entered and returned (ns), and its result.
LAUNCH = ("exec", "stream", "ident", "start_ns", "end_ns", "result")

Row = dict[str, Any]


@dataclass
class GraphRows:
    """Graphs and their lives, as a session sees them.

    Attributes
    ----------
    graphs, nodes, edges : list of dict
        Rows of the tables ``graphs``, ``graph_nodes`` and ``graph_edges``; ids are positions in these lists.
    events : list of dict
        Rows of ``graph_events`` but launches, as they happened, with ``thread_ident`` for the thread and stream handles
        as ``streams``, a list, for captures that others joined; ``exec_id``, ``source_event_id`` and ``rebuild_of`` are
        positions in this list.
    launches : dict of str to ndarray of int64
        `LAUNCH`, where they were seen otherwise than by CUPTI.
    execs : dict of int to int
        For CUPTI's id of an executable graph the position in `events` of what made it.
    nodes_of : dict of (int, int) to int
        For a graph's id and the number of a node in it that CUPTI gives to an activity, the position in `nodes`.
    """

    graphs: list[Row] = field(default_factory=list)
    nodes: list[Row] = field(default_factory=list)
    edges: list[Row] = field(default_factory=list)
    events: list[Row] = field(default_factory=list)
    launches: dict[str, np.ndarray] = field(
        default_factory=lambda: {name: np.empty(0, np.int64) for name in LAUNCH})
    execs: dict[int, int] = field(default_factory=dict)
    nodes_of: dict[tuple[int, int], int] = field(default_factory=dict)
