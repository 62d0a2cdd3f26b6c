"""The graphs of several recordings: equal ones become one, with its nodes and edges once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from kernelscope.recording.model import Recording
from kernelscope.recording.select import Renumbering, numbered, renumbered
from kernelscope.schema import UNKNOWN

#: What one recording may know of a node and another not.
_FACTS = ("specialization_id", "configuration_id")


def place_graphs(recordings: Sequence[Recording], places: Sequence[dict[str, Renumbering]]) -> None:
    """Tell `places` where each recording's graphs and nodes go.

    Graphs are equal that have one fingerprint and the same nodes, one beside the other; those that one recording keeps
    apart stay apart.
    """
    found: dict[Any, list[tuple[int, int]]] = {}
    graphs = nodes = 0
    for recording, place in zip(recordings, places, strict=True):
        rows = recording.rows("graphs")
        kinds = recording.column("graph_nodes", "kind")
        parents, bodies = (recording.column("graph_nodes", name) for name in ("parent_node_id", "body"))
        ends = np.cumsum(np.array([row["nodes"] for row in rows], np.int64)).tolist()
        new_graphs, new_nodes = [0] * len(rows), np.full(len(kinds), UNKNOWN, np.int64)
        taken: set[int] = set()
        for at, row in enumerate(rows):
            begin, end = ends[at] - row["nodes"], ends[at]
            inside = parents[begin:end]
            shape = (tuple(kinds[begin:end].tolist()), np.where(inside < 0, UNKNOWN, inside - begin).tobytes(),
                     bodies[begin:end].tobytes())
            same = found.setdefault((row["fingerprint"], row["topology"], row["edges"], shape), [])
            known = next((each for each in same if each[0] not in taken), None)
            if known is None:
                known = graphs, nodes
                graphs, nodes = graphs + 1, nodes + row["nodes"]
                same.append(known)
            taken.add(known[0])
            new_graphs[at] = known[0]
            new_nodes[begin:end] = np.arange(known[1], known[1] + row["nodes"])
        place["graphs"], place["graph_nodes"] = np.array(new_graphs, np.int64), new_nodes


def merged_graphs(recordings: Sequence[Recording], places: Sequence[dict[str, Renumbering]]) -> dict[str, pa.Table]:
    """Return the tables of graphs, their nodes and their edges: each of the first recording that has it.

    A node's specialization and configuration are those of the first recording that knows them.
    """
    graphs, nodes, edges = (_joined(name, recordings, places) for name in ("graphs", "graph_nodes", "graph_edges"))
    graph, node = (np.concatenate([place[name] for place in places]) for name in ("graphs", "graph_nodes"))
    first = np.unique(graph, return_index=True)[1]
    first_nodes = np.unique(node, return_index=True)[1]
    is_first = np.zeros(len(graph), bool)
    is_first[first] = True
    # Of an edge the graph in its own recording, to tell where it stands.
    offsets = np.cumsum([0, *(recording.arrow("graphs").num_rows for recording in recordings)]).tolist()
    of_edge = np.concatenate([recording.column("graph_edges", "graph_id").astype(np.int64) + offset
                              for recording, offset in zip(recordings, offsets, strict=False)])
    merged = nodes.take(pa.array(first_nodes))
    for name in _FACTS:
        column = np.full(len(first_nodes), UNKNOWN)
        values = np.asarray(nodes.column(name).fill_null(UNKNOWN).to_numpy(), np.int64)
        known = np.flatnonzero(values != UNKNOWN)[::-1]  # of several assignments to one place the last one stays
        column[node[known]] = values[known]
        field = merged.schema.field(name)
        index = merged.schema.get_field_index(name)
        merged = merged.set_column(index, field, pa.array(column, mask=column == UNKNOWN).cast(field.type))
    return {
        "graphs": numbered(graphs.take(pa.array(first)), "graphs"),
        "graph_nodes": numbered(merged, "graph_nodes"),
        "graph_edges": edges.take(pa.array(np.flatnonzero(is_first[of_edge]))),
    }


def _joined(table: str, recordings: Sequence[Recording], places: Sequence[dict[str, Renumbering]]) -> pa.Table:
    parts = [renumbered(recording.arrow(table), table, place)
             for recording, place in zip(recordings, places, strict=True)]
    return pa.concat_tables(parts).unify_dictionaries().combine_chunks()
