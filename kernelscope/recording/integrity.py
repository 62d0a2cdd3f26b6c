"""What must hold between the tables of a recording, so that whoever reads one may index without checking."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kernelscope.errors import RecordingFileError
from kernelscope.recording.time import instants
from kernelscope.schema import (
    INSTANTS,
    JSON_COLUMNS,
    MAX_STACK_FRAMES,
    MAX_SUM,
    METADATA,
    RECORD_TIMES,
    REFERENCES,
    TABLES,
    UNKNOWN,
    Column,
    Metadatum,
)

# Numbers are in the range that the schema gives their column, and durations and sizes add up to an int64:
# analysis subtracts, adds and divides them. Enumerations have the values that the schema lists. Ids are row numbers: a
# table's own ids count its rows, and every other id column names a row that exists. Analysis takes rows by id and
# follows parents. A file in which that does not hold is refused.

#: The least and the greatest value of a column.
Ends = tuple[float, float]
#: JSON nested deeper than this is refused: readers walk it recursively.
MAX_JSON_DEPTH = 40

# Differences between clocks, which nobody adds up.
_NOT_ADDED = ("clock_offset_ns",)
# What is subtracted and added up: the first from the second.
_SPANS = (("start_ns", "end_ns"), *itertools.pairwise(RECORD_TIMES))
# Rows that stay in the processor's cache.
_PART = 1 << 15


def check_tables(tables: Mapping[str, pa.Table]) -> None:
    """Check tables of the schema's types against one another.

    Parameters
    ----------
    tables : mapping of str to pyarrow.Table
        All tables of `kernelscope.schema.TABLES`.

    Raises
    ------
    RecordingFileError
        A column that may have no nulls has some; a number is not in its column's range, or no number; a text is none of
        its enumeration's; times or sizes
        add up to too much; a table's own ids are not its row numbers; an id names a row that does not exist; launches,
        activities, API calls, compilations, builds, events of graphs, ranges or collections are not in order of their
        start; a launch is its own ancestor; a range or a frame comes before its parent; a call path is too
        deep; an ``attributes``, ``options``,
        ``launch_config`` or ``key_parts`` is not a JSON object; a graph is none: see `kernelscope.recording.integrity`.
    """
    rows = {name: table.num_rows for name, table in tables.items()}
    for name, table in tables.items():
        check_table(name, table, rows)
    for name, table in TABLES.items():
        if table.is_ordered:
            _check_order(name, tables[name].column("start_ns"))
    _check_parents(tables["launches"].column("parent_launch_id"))
    _check_range_parents(tables["ranges"].column("parent_range_id"))
    _check_stacks(_ids(tables["stacks"], "parent_stack_id"))
    check_graphs(tables)


def check_table(name: str, table: pa.Table, rows: Mapping[str, int]) -> None:
    """Check each column of the table called `name`, where all tables have so many `rows`; raises as `check_tables`."""
    if not table.num_rows:
        return
    key = TABLES[name].key
    ends: dict[str, Ends] = {}
    for column in TABLES[name].columns:
        values = table.column(column.name)
        if values.null_count and not column.nullable:
            raise RecordingFileError(f"column {name}.{column.name} has {values.null_count} nulls and may have none")
        if column.name == key:
            _check_own(name, column.name, values)
        elif column.name in JSON_COLUMNS:
            _check_json(name, column, values)
        elif column.is_enumeration:
            _check_values(name, column, values)
        elif column.low is not None and values.null_count < len(values):
            ends[column.name] = _ends(values)
            if column.name in REFERENCES:
                referred = REFERENCES[column.name]
                # A table that a file's schema did not have yet is empty.
                _check_reference(f"{name}.{column.name}", values, ends[column.name], referred, rows.get(referred, 0))
            else:
                _check_range(name, column, values, ends[column.name])
    for first, last in _SPANS:
        if first in ends and last in ends:
            longest = max(ends[last][1] - ends[first][0], ends[first][1] - ends[last][0])
            _check_spans(name, table, (first, last), longest)


def check_metadata(metadata: Mapping[str, Any]) -> None:
    """Check a recording's metadata against `kernelscope.schema.METADATA`; keys that are not there may hold anything.

    Raises
    ------
    RecordingFileError
        A value is not of its key's type, or not in its range.
    """
    for _, problem in _metadata_problems(metadata):
        raise RecordingFileError(problem)


def fitting_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata without the keys in which a value is not of its type, or not in its range."""
    wrong = {key for key, _ in _metadata_problems(metadata)}
    return {key: value for key, value in metadata.items() if key not in wrong}


def _metadata_problems(metadata: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the first part of a key, and what is wrong with the value, of every value that does not fit."""
    for entry in METADATA:
        for path, value in _values(metadata, entry.key.split(".")):
            if not _fits(entry, value):
                wanted = {"integer": "an integer", "list": "a list", "list of texts": "a list of texts"}.get(
                    entry.kind, f"a {entry.kind}")
                limits = "" if entry.low is None else f" from {entry.low} to {entry.high}"
                text = ascii(value)
                text = text if len(text) <= 40 else text[:37] + "..."
                yield path[0], (f"metadata {'.'.join(path)[:80]!a} is {text}, not {wanted}{limits}"
                                f"{' or null' if entry.nullable else ''}")


def _values(held: Any, parts: Sequence[str]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the path and the value of each key that the parts of a pattern stand for."""
    if not parts:
        yield (), held
    elif isinstance(held, Mapping):
        mapping = cast("Mapping[str, Any]", held)
        for key in mapping if parts[0] == "*" else {parts[0]} & mapping.keys():
            for path, value in _values(mapping[key], parts[1:]):
                yield (str(key), *path), value


def _fits(entry: Metadatum, value: Any) -> bool:
    if value is None:
        return entry.nullable
    if entry.kind == "list of texts":
        return isinstance(value, list | tuple) and all(isinstance(each, str) for each in cast("list[Any]", value))
    if not isinstance(value, _TYPES[entry.kind]) or (isinstance(value, bool) and entry.kind != "boolean"):
        return False
    return entry.low is None or entry.high is None or entry.low <= value <= entry.high  # neither is true of NaN


_TYPES: dict[str, tuple[type, ...]] = {"integer": (int,), "number": (int, float), "boolean": (bool,), "text": (str,),
                                       "list": (list, tuple), "mapping": (Mapping,)}


def check_depth(value: Any, what: str) -> None:
    """Raise `RecordingFileError` where JSON values are nested deeper than `MAX_JSON_DEPTH`."""
    layer = [value]
    for _ in range(MAX_JSON_DEPTH):
        inner: list[Any] = []
        for item in layer:
            if isinstance(item, dict):
                inner.extend(cast("dict[str, Any]", item).values())
            elif isinstance(item, list | tuple):
                inner.extend(cast("list[Any]", item))
        if not inner:
            return
        layer = inner
    raise RecordingFileError(f"{what} is nested deeper than {MAX_JSON_DEPTH} levels")


def _check_own(table: str, column: str, values: pa.ChunkedArray) -> None:
    place = 0
    for chunk in values.chunks:
        ids = chunk.to_numpy()
        for begin in range(0, len(ids), _PART):  # no copy of the whole column
            some = ids[begin:begin + _PART]
            wrong = np.flatnonzero(some != np.arange(place, place + len(some)))
            if len(wrong):
                row = int(wrong[0])
                raise RecordingFileError(
                    f"column {table}.{column} has {some[row]} in row {place + row}, not the row's number"
                )
            place += len(some)


def _check_reference(column: str, values: pa.ChunkedArray, ends: Ends, referred: str, rows: int) -> None:
    if ends[0] < 0 or ends[1] >= rows:
        wrong = ends[0] if ends[0] < 0 else ends[1]
        raise RecordingFileError(f"column {column} has {wrong} in row {_row_of(values, wrong)}, which is no row of "
                                 f"table {referred!r}: it has {rows} rows")


def _check_range(table: str, column: Column, values: pa.ChunkedArray, ends: Ends) -> None:
    low, high = cast("tuple[int, int]", (column.low, column.high))
    if not (ends[0] >= low and ends[1] <= high):  # neither is true of what is no number
        wrong = ends[1] if ends[0] >= low else ends[0]
        raise RecordingFileError(f"column {table}.{column.name} has {wrong} in row {_row_of(values, wrong)}, which is "
                                 f"not between {low} and {high}")
    # Of nearly every column the greatest times the rows is small enough, and no row is looked at.
    if column.unit and column.name not in (*INSTANTS, *_NOT_ADDED) and ends[1] * len(values) > MAX_SUM:
        _check_sum(f"column {table}.{column.name}", values.fill_null(0).to_numpy())


def _check_values(table: str, column: Column, values: pa.ChunkedArray) -> None:
    for text in values.unique().to_pylist():
        if text is not None and text not in column.values:
            row = values.cast(pa.string()).index(text).as_py()
            raise RecordingFileError(f"column {table}.{column.name} has {text[:40]!a} in row {row}, which is none of "
                                     f"{', '.join(column.values)}")


def _check_spans(name: str, table: pa.Table, between: tuple[str, str], longest: float) -> None:
    """Check that what lies between two instants adds up: a sum that wraps around would be shown as if it were one."""
    if longest * table.num_rows > MAX_SUM:
        first, last = (table.column(each) for each in between)
        _check_sum(f"table {name!r}: {between[1]} - {between[0]}",
                   pc.call_function("subtract", [last, first]).fill_null(0).to_numpy())


def _check_sum(what: str, values: np.ndarray) -> None:
    if np.abs(values).sum(dtype=np.float64) > MAX_SUM:
        row = int(np.abs(values).argmax())
        raise RecordingFileError(f"{what} adds up to more than {MAX_SUM}; it is {values[row]} in row {row}")


def _ends(values: pa.ChunkedArray) -> Ends:
    """The least and the greatest value; NaN where one is no number, which Arrow's own function passes over."""
    if pa.types.is_floating(values.type):
        held = values.drop_null().to_numpy()
        return float(held.min()), float(held.max())
    ends: dict[str, int] = pc.call_function("min_max", [values]).as_py()
    return ends["min"], ends["max"]


def _row_of(values: pa.ChunkedArray, wrong: float) -> int:
    """The first row that has this value."""
    if wrong != wrong:
        values, wrong = pc.call_function("is_nan", [values]), True
    return values.index(wrong).as_py()


def _check_json(table: str, column: Column, values: pa.ChunkedArray) -> None:
    for text in values.unique().to_pylist():
        if text is None:
            continue
        where = f"column {table}.{column.name}"
        try:
            content = json.loads(text)
        except (ValueError, RecursionError):
            raise RecordingFileError(f"{where} has a text that is not JSON: {text[:40]!a}") from None
        if not isinstance(content, dict):
            raise RecordingFileError(f"{where} has JSON that is not an object: {text[:40]!a}")
        check_depth(content, where)


def _check_order(table: str, values: pa.ChunkedArray) -> None:
    last: int | None = None
    place = 0
    for chunk in values.chunks:
        times = instants(chunk)
        if not len(times):
            continue
        # Compared, not subtracted: a difference of extreme times overflows.
        wrong = np.flatnonzero(times[1:] < times[:-1]) + 1
        if last is not None and times[0] < last:
            wrong = np.zeros(1, dtype=np.int64)
        if len(wrong):
            raise RecordingFileError(f"table {table!r} is not in order of start_ns at row {place + int(wrong[0])}")
        last = int(times[-1])
        place += len(times)


def _check_parents(values: pa.ChunkedArray) -> None:
    """Follow all launches to their ancestors at once, each round twice as far as the one before."""
    if values.null_count == len(values):
        return
    ancestors = values.fill_null(UNKNOWN).to_numpy().copy()
    for _ in range(len(ancestors).bit_length()):
        nested = np.flatnonzero(ancestors != UNKNOWN)
        if not len(nested):
            return
        ancestors[nested] = ancestors[ancestors[nested]]
    nested = np.flatnonzero(ancestors != UNKNOWN)
    if len(nested):
        raise RecordingFileError(f"launch {nested[0]} is inside itself: its parents lead in a circle")


def _check_range_parents(values: pa.ChunkedArray) -> None:
    """Ranges are in order of their start, so that a parent's row is above: then no parents lead in a circle."""
    parents = values.fill_null(UNKNOWN).to_numpy()
    wrong = np.flatnonzero(parents >= np.arange(len(parents)))
    if len(wrong):
        raise RecordingFileError(f"range {wrong[0]} is inside range {parents[wrong[0]]}, which begins no earlier")


def _check_stacks(parents: np.ndarray) -> None:
    """Frames stand after those that called them, so that no parents lead in a circle; paths are not too deep."""
    _refuse(parents >= np.arange(len(parents)), "stack {} was called by one that does not stand before it")
    depth, ancestors = np.ones(len(parents), np.int64), parents
    while (called := np.flatnonzero(ancestors != UNKNOWN)).size:  # each round twice as far as the one before
        depth[called] += depth[ancestors[called]]
        ancestors = np.append(ancestors, UNKNOWN)[ancestors]
    _refuse(depth > MAX_STACK_FRAMES, f"stack {{}} has more than {MAX_STACK_FRAMES} frames")


# What must hold of the graphs of a recording, so that whoever draws or counts them may follow ids without checking.
#
# The rows of ``graph_nodes`` are in order of their graphs, and a node's body stands after it; edges join nodes of one
# body and lead in no circle; an event names what made its executable graph.

#: Bodies and child graphs inside of each other: readers walk them recursively.
MAX_GRAPH_DEPTH = 40

#: For columns that name events: the kinds that those may be.
_KINDS = {
    ("graph_events", "exec_id"): ("instantiate", "before"),
    ("graph_events", "source_event_id"): ("capture", "define"),
    ("graph_events", "rebuild_of"): ("instantiate", "before"),
    ("launches", "capture_event_id"): ("capture",),
    ("activities", "graph_event_id"): ("launch",),
}


def check_graphs(tables: Mapping[str, pa.Table]) -> None:
    """Check graphs, nodes, edges and events against one another; their ids name rows that exist.

    Parameters
    ----------
    tables : mapping of str to pyarrow.Table
        All tables of `kernelscope.schema.TABLES`.

    Raises
    ------
    RecordingFileError
        Nodes are not in order of their graphs; a node is inside of one that stands after it or is of another graph, has
        a body and no parent, or is nested too deep; an edge joins nodes of different graphs or bodies; edges lead in a
        circle; a graph has another number of nodes or edges than it says; an event names one of a kind that cannot be
        meant, or what it rebuilds comes later.
    """
    graph, parent, body = (_ids(tables["graph_nodes"], name) for name in ("graph_id", "parent_node_id", "body"))
    _check_nodes(graph, parent, body)
    edges, first, then = (_ids(tables["graph_edges"], name) for name in ("graph_id", "from_node_id", "to_node_id"))
    _refuse((graph[first] != edges) | (graph[then] != edges), "edge {} joins nodes that are not of its graph")
    _refuse((parent[first] != parent[then]) | (body[first] != body[then]), "edge {} joins nodes of different bodies")
    _check_circles(first, then)
    for name, held in (("nodes", graph), ("edges", edges)):
        said = _ids(tables["graphs"], name)
        _refuse(said != np.bincount(held, minlength=len(said)), f"graph {{}} has another number of {name} than it says")
    _check_events(tables)


def _check_nodes(graph: np.ndarray, parent: np.ndarray, body: np.ndarray) -> None:
    _refuse(np.append(False, graph[1:] < graph[:-1]), "graph node {} is not in order of its graph")
    _refuse(parent >= np.arange(len(parent)), "graph node {} is inside of a node that is not before it")
    inside = parent != UNKNOWN
    around = graph[parent] if len(graph) else graph
    _refuse(inside & (around != graph), "graph node {} is inside of another graph's node")
    _refuse((body >= 0) != inside, "graph node {} must have a body and a parent, or neither")
    around = parent
    for _ in range(MAX_GRAPH_DEPTH):
        if (around == UNKNOWN).all():
            return
        around = np.append(parent, UNKNOWN)[around]
    _refuse(around != UNKNOWN, f"graph node {{}} is nested deeper than {MAX_GRAPH_DEPTH} levels")


def _check_circles(first: np.ndarray, then: np.ndarray) -> None:
    """Edges that all lead to later nodes cannot close a circle, and recorded graphs have no others."""
    if (first < then).all():
        return
    count = int(max(first.max(), then.max())) + 1
    waiting = np.bincount(then, minlength=count)
    begins = np.append(0, np.cumsum(np.bincount(first, minlength=count))).tolist()
    following: list[int] = then[np.argsort(first, kind="stable")].tolist()
    ready: list[int] = np.flatnonzero(waiting == 0).tolist()
    missing: list[int] = waiting.tolist()
    left = count - len(ready)
    # One step an edge: rounds of whole arrays would be as many as the longest path, which a file may make long.
    while ready:
        node = ready.pop()
        for after in following[begins[node]:begins[node + 1]]:
            missing[after] -= 1
            if not missing[after]:
                ready.append(after)
                left -= 1
    if left:
        node = next(at for at, number in enumerate(missing) if number)
        raise RecordingFileError(f"the edges of a graph lead in a circle that node {node} is in or behind")


def _check_events(tables: Mapping[str, pa.Table]) -> None:
    events = tables["graph_events"]
    kinds = events.column("kind").cast(pa.string()).to_numpy().astype(object)
    for (table, column), allowed in _KINDS.items():
        named = _ids(tables[table], column)
        if not len(kinds) or (named == UNKNOWN).all():
            continue
        right = np.append(np.isin(kinds, allowed), True)
        _refuse(~right[named], f"column {table}.{column} names an event in row {{}} that is no {' or '.join(allowed)}")
    row = np.arange(len(kinds))
    execs = _ids(events, "exec_id")
    makes = np.isin(kinds, ("instantiate", "before")) & (execs != UNKNOWN)
    _refuse(makes & (execs != row), "graph event {} makes an executable graph and names another one")
    _refuse(_ids(events, "rebuild_of") >= row, "graph event {} rebuilds one that comes no earlier")


def _refuse(wrong: np.ndarray, message: str) -> None:
    if wrong.any():
        raise RecordingFileError(message.format(int(np.flatnonzero(wrong)[0])))


def _ids(table: pa.Table, name: str) -> np.ndarray:
    column = table.column(name)
    return (column.fill_null(UNKNOWN) if column.null_count else column).to_numpy()
