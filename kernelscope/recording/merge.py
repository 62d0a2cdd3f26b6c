"""Several recordings as one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kernelscope.recording.integrity import FIRST, INSTANTS
from kernelscope.recording.model import Recording, Renumbering, numbered, renumbered
from kernelscope.recording.parquet import make_table, table_of_rows
from kernelscope.schema import MAX_COUNT, MAX_TIME_NS, TABLES, UNKNOWN

#: What one recording may know of a node and another not.
_GRAPH_COLUMNS = ("specialization_id", "configuration_id")


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
    graphs, nodes, edges = (
        _joined(name, recordings, places) for name in ("graphs", "graph_nodes", "graph_edges"))
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
    for name in _GRAPH_COLUMNS:
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


# Tables whose equal rows become one, each after those that it refers to; and columns that do not tell rows apart.
_SHARED = ("processes", "threads", "devices", "dispatchers", "configurations", "specializations")
_KEPT_FROM_FIRST = {
    "processes": ("end_ns", "status", "message", "clock_offset_ns", "clock_bound_ns", "clock_drift_ppb", "own_cost_ns"),
    "specializations": ("origin",),
}
# Facts that tell rows apart only where both recordings know them: one that looked later, or that was made by an older
# version, knows more or less of the same thing.
_FACTS = {
    "processes": ("host", "parent_pid", "rank", "local_rank", "worker", "launcher", "gpu_uuid"),
    "devices": (
        "name", "compute_capability", "multiprocessors", "max_threads_per_multiprocessor",
        "max_blocks_per_multiprocessor", "registers_per_multiprocessor", "shared_per_multiprocessor_bytes",
        "reserved_shared_bytes",
    ),
    "dispatchers": ("arguments", "code_sha256"),
    "lines": ("user_code",),
    "specializations": (
        "compute_capability", "regs", "static_shared_bytes", "local_bytes", "const_bytes", "spill_store_bytes",
        "spill_load_bytes", "max_threads", "launch_config_sensitive", "cubin_bytes", "entry_name",
    ),
}
_IN_ORDER = ("cells", "launches", "activities", "api_calls", "compilations", "builds", "graph_events", "ranges",
             "collections")
_FACT = ("process_id", "probe", "status", "message", "fix")
# The wall clock is adjusted now and then; recordings of one boot differ by that much and need no moving.
_SAME_CLOCK_NS = 2_000_000_000
# Clocks that began longer ago from another are none, and what is moved by less stays in the range of times.
_FURTHEST_NS = MAX_TIME_NS - 2**58
_SUMMED = ("dropped", "errors", "total_cost_ns")


def merge(recordings: Sequence[Recording], name: str | None = None) -> Recording:
    """Return one recording with the cells of all.

    Processes of one pid and start are the same one, and devices of one UUID; each process keeps its own threads.
    Threads, lines, dispatchers, configurations and specializations that are equal in content become one row too, and so
    do call paths, except that rows which one recording keeps apart stay apart, and lines of different recorded
    cells; a specialization's ``origin`` is the first's, and facts of a device, dispatcher or specialization that one
    recording lacks are those of another. Graphs of one fingerprint become one likewise, with its nodes and edges once.
    Equal facts of health of one process become one row with ``dropped``, ``errors`` and ``total_cost_ns`` added and the
    largest ``clock_error_ns``. Cells, launches, activities, API calls, compilations, builds, events of graphs, ranges
    and collections are in order of their start. Correlation ids stay: they tell rows of one process apart. Times are on
    the first recording's host clock: those of a recording whose clock began at another instant (another machine, or
    another boot) are moved by the wall clock, as ``clock`` in the metadata says.

    Parameters
    ----------
    recordings : sequence of Recording
        At least one; they are not changed.
    name : str, optional
        The name of the result; without one, the first's. The rest of the metadata is the first's, with the number of
        recordings as ``merged``, as ``recorder`` what all kept and lost, where every recording says it, and as
        ``own_cost`` what they have in common of how each probe's cost is known.

    Raises
    ------
    ValueError
        There is no recording, or a dry run or a simulator's recording is among others: their times do not compare.
    """
    if not recordings:
        raise ValueError("merge needs at least one recording")
    notices = {recording.notice or "recorded on a GPU": recording.name for recording in recordings}
    if len(notices) > 1:
        listed = "; ".join(f"{label!r} ({notice})" for notice, label in notices.items())
        raise ValueError(f"recordings of different kinds cannot be merged: {listed}")
    recordings = [recordings[0], *(_moved(recording, recordings[0]) for recording in recordings[1:])]
    tables: dict[str, pa.Table] = {}
    # For each recording and table, the rows of the result by its own ids.
    places: list[dict[str, Renumbering]] = [{} for _ in recordings]
    for table in _SHARED:
        tables[table] = _shared(table, recordings, places)
    place_graphs(recordings, places)
    for table in _IN_ORDER:
        _place_in_order(table, recordings, places)
    tables["lines"] = _shared("lines", recordings, places)  # they name cells
    tables["stacks"] = _shared_stacks(recordings, places)
    for table in _IN_ORDER:
        tables[table] = _ordered(table, recordings, places)
    tables |= merged_graphs(recordings, places)
    tables["passes"] = _joined("passes", recordings, places)
    occupancies = _joined("occupancies", recordings, places).to_pylist()
    tables["occupancies"] = table_of_rows("occupancies", _distinct(occupancies))
    tables["health"] = table_of_rows("health", _facts(recordings, places))
    tables["code"] = table_of_rows("code", _distinct(_joined("code", recordings, places).to_pylist()))
    metadata = dict(recordings[0].metadata)
    metadata["name"] = recordings[0].name if name is None else name
    if any("code" in recording.metadata for recording in recordings):
        metadata["code"] = any(bool(recording.metadata.get("code")) for recording in recordings)
    if any("own_cost" in recording.metadata for recording in recordings):
        metadata["own_cost"] = _own_cost(recordings)
    recorders = [recording.metadata.get("recorder") for recording in recordings]
    metadata.pop("recorder", None)
    if all(isinstance(each, dict) for each in recorders):
        metadata["recorder"] = _recorder(cast("list[dict[str, Any]]", recorders))
    metadata.pop("process", None)  # the table `processes` has them all
    metadata["merged"] = sum(_count(recording) for recording in recordings)
    return Recording(tables, metadata)


def _moved(recording: Recording, first: Recording) -> Recording:
    """The recording with its times on the host clock of `first`; the recording itself where that is its own."""
    origin, wanted = _origin_ns(recording), _origin_ns(first)
    boot = _clock(recording).get("boot")
    if boot is not None and boot == _clock(first).get("boot"):  # one clock, whatever the wall clock was set to
        return recording
    if origin is None or wanted is None or not _SAME_CLOCK_NS < abs(origin - wanted) < _FURTHEST_NS:
        return recording
    shift = origin - wanted
    tables: dict[str, pa.Table] = {}
    for name in TABLES:
        table = recording.arrow(name)
        for index, column in enumerate(TABLES[name].names):
            if column in INSTANTS:
                moved = pc.call_function("add", [table.column(index), pa.scalar(shift, pa.int64())])
                table = table.set_column(index, table.schema.field(index), moved)
        tables[name] = table
    return Recording(tables, recording.metadata)


def _origin_ns(recording: Recording) -> int | None:
    """The wall time at which the recording's host clock was 0; None where it does not say."""
    wall, host = (_clock(recording).get(name) for name in ("wall_ns", "host_ns"))
    return wall - host if isinstance(wall, int) and isinstance(host, int) else None


def _clock(recording: Recording) -> dict[str, Any]:
    clock = recording.metadata.get("clock")
    return cast("dict[str, Any]", clock) if isinstance(clock, dict) else {}


def _shared(table: str, recordings: Sequence[Recording], places: list[dict[str, Renumbering]]) -> pa.Table:
    """The distinct rows of one table; `places` is told where each recording's rows went."""
    own, facts = TABLES[table].names[0], _FACTS.get(table, ())
    ignored = {own, *_KEPT_FROM_FIRST.get(table, ()), *facts}
    rows: list[dict[str, Any]] = []
    found: dict[Any, list[int]] = {}
    for recording, place in zip(recordings, places, strict=True):
        # Rows that one recording keeps apart are different objects, such as a function that was defined again: the
        # second of them is the second of another recording.
        taken: set[int] = set()
        new: list[int] = []
        machine = _machine(recording) if table == "devices" else ""
        for row in renumbered(recording.arrow(table), table, place).to_pylist():
            key = tuple(value for column, value in row.items() if column not in ignored)
            if table == "devices":  # the same GPU can be another number in another process
                key = row["uuid"] or (machine, row["ordinal"])
            same = found.setdefault(key, [])
            at = next((each for each in same if each not in taken and _agree(rows[each], row, facts)), None)
            if at is None:
                at = len(rows)
                same.append(at)
                rows.append({**row, own: at})
            else:
                rows[at].update({fact: row[fact] for fact in facts if rows[at][fact] is None})
                if table == "processes":
                    _add_process(rows[at], row)
            taken.add(at)
            new.append(at)
        place[table] = np.array(new, dtype=np.int64)
    return table_of_rows(table, rows)


def _shared_stacks(recordings: Sequence[Recording], places: list[dict[str, Renumbering]]) -> pa.Table:
    """The distinct frames of call paths, each after the one that called it; `places` is told where they went."""
    found: dict[tuple[int, int], int] = {}
    for recording, place in zip(recordings, places, strict=True):
        new: list[int] = []
        lines = place["lines"][recording.column("stacks", "line_id")].tolist()
        for parent, line in zip(recording.column("stacks", "parent_stack_id").tolist(), lines, strict=True):
            new.append(found.setdefault((UNKNOWN if parent == UNKNOWN else new[parent], line), len(found)))
        place["stacks"] = np.array(new, np.int64)
    return make_table("stacks", {
        "stack_id": np.arange(len(found), dtype=np.int32),
        **{name: np.array([key[at] for key in found], np.int32) for at, name in enumerate(TABLES["stacks"].names[1:])}})


def _machine(recording: Recording) -> tuple[Any, ...]:
    """What machines a recording is of, as far as it says."""
    return tuple(sorted({row["host"] or "" for row in recording.rows("processes")}))


def _add_process(known: dict[str, Any], row: dict[str, Any]) -> None:
    """Add what a later recording says of the same process."""
    known["end_ns"] = max((each["end_ns"] for each in (known, row) if each["end_ns"] is not None), default=None)
    costs = [each["own_cost_ns"] for each in (known, row) if each["own_cost_ns"] is not None]
    known["own_cost_ns"] = sum(costs) if costs else None
    if row["status"] != "ok":
        known.update(status=row["status"], message=row["message"])


def _agree(known: dict[str, Any], row: dict[str, Any], facts: Sequence[str]) -> bool:
    """Whether two rows do not contradict each other."""
    return all(known[fact] == row[fact] or known[fact] is None or row[fact] is None for fact in facts)


def _place_in_order(table: str, recordings: Sequence[Recording], places: list[dict[str, Renumbering]]) -> None:
    """Tell `places` where the rows of one table go when those of all recordings are sorted by start."""
    starts = [recording.arrow(table).column("start_ns").fill_null(FIRST).to_numpy() for recording in recordings]
    order = np.argsort(np.concatenate(starts), kind="stable")
    new = np.empty(len(order), dtype=np.int64)
    new[order] = np.arange(len(order))
    ends = np.cumsum([len(start) for start in starts])[:-1]
    for place, part in zip(places, np.split(new, ends), strict=True):
        place[table] = part


def _ordered(table: str, recordings: Sequence[Recording], places: list[dict[str, Renumbering]]) -> pa.Table:
    """The rows of one table of all recordings at their places, with their ids renumbered."""
    whole = _joined(table, recordings, places)
    new = np.concatenate([place[table] for place in places])
    if (new[1:] < new[:-1]).any():
        order = np.empty(len(new), dtype=np.int64)
        order[new] = np.arange(len(new))
        whole = whole.take(pa.array(order))
    return numbered(whole, table)


def _joined(table: str, recordings: Sequence[Recording], places: Sequence[dict[str, Renumbering]]) -> pa.Table:
    parts = [
        renumbered(recording.arrow(table), table, place)
        for recording, place in zip(recordings, places, strict=True)
    ]
    # One dictionary a column and one chunk, so that rows can be taken at the speed of NumPy.
    return pa.concat_tables(parts).unify_dictionaries().combine_chunks()


def _facts(recordings: Sequence[Recording], places: Sequence[dict[str, Renumbering]]) -> list[dict[str, Any]]:
    """The rows of health, those of one fact combined."""
    facts: dict[Any, dict[str, Any]] = {}
    for recording, place in zip(recordings, places, strict=True):
        for row in renumbered(recording.arrow("health"), "health", place).to_pylist():
            fact = facts.setdefault(tuple(row[column] for column in _FACT), row)
            if fact is row:
                continue
            for column in _SUMMED:
                if row[column] is not None:
                    total = row[column] + (fact[column] or 0)
                    # Counts stop at the end of their type; that many are all the same to a reader.
                    fact[column] = total if column == "total_cost_ns" else min(MAX_COUNT, total)
            errors = [each["clock_error_ns"] for each in (fact, row) if each["clock_error_ns"] is not None]
            fact["clock_error_ns"] = max(errors, default=None)
            if fact["cost_ns"] is None:
                fact["cost_ns"] = row["cost_ns"]
    return list(facts.values())


def _own_cost(recordings: Sequence[Recording]) -> dict[str, Any]:
    """How the probes' costs are known; of one that is known in several ways, no more than that."""
    found: dict[str, Any] = {}
    for recording in recordings:
        held: Any = recording.metadata.get("own_cost")
        for probe, facts in cast("dict[str, Any]", held).items() if isinstance(held, dict) else ():
            first = found.setdefault(probe, facts)
            if first == facts:
                continue
            kinds = {str(each.get("kind")) if isinstance(each, dict) else "" for each in (first, facts)}
            found[probe] = {"kind": kinds.pop() if len(kinds) == 1 else "partly calibrated"}
    return found


def _recorder(recorders: list[dict[str, Any]]) -> dict[str, Any]:
    """What the recorders kept and lost together; how they kept it where all did it the same way."""
    found: dict[str, Any] = {}
    for name in ("mode", "capacity"):
        values = [each.get(name) for each in recorders]
        found[name] = values[0] if all(value == values[0] for value in values) else None
    for name in ("kept", "lost"):
        counts = [count for each in recorders if type(count := each.get(name)) is int]
        found[name] = sum(counts) if len(counts) == len(recorders) else None
    return found


def _distinct(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return list({tuple(row.values()): row for row in rows}.values())


def _count(recording: Recording) -> int:
    """How many recordings it was before: one that was merged counts as its parts."""
    merged = recording.metadata.get("merged")
    return merged if isinstance(merged, int) else 1
