"""Two recordings as one, as if two processes had made them at the same time: what views show of both together."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from kernelscope.analysis.columns import json_object
from kernelscope.analysis.owners import process_names
from kernelscope.recording.clocks import ClockFit, moved, span_of
from kernelscope.recording.merge import merge
from kernelscope.recording.model import Recording
from kernelscope.recording.parquet import table_of_rows
from kernelscope.schema import TABLES

#: What tells kernels apart that were defined again; of the second recording's the first one's count.
_DEFINITION = ("module", "filename", "lineno", "arguments", "options", "code_sha256", "attributes")
#: What says nothing of a recording that was moved to the time of another.
_MOVED = ("clock_offset_ns", "clock_bound_ns", "clock_drift_ppb")


def side_by_side(before: Recording, after: Recording, names: tuple[str, str]) -> Recording:
    """Return one recording of two: each is a process of that name, and both begin at the same time.

    The second one's times are moved, so that its first cell starts when the first one's does. Kernels of one framework
    and name are one kernel, with the specializations of both; which recording one is of is its attribute ``recording``.

    Parameters
    ----------
    before, after : Recording
        The two; they are not changed. Where they have several processes, these are named after the recording too.
    names : tuple of str
        What to call them; not the same.

    Raises
    ------
    ValueError
        One is of a dry run or the simulator and the other is not: their times do not compare.
    """
    spans = span_of(before), span_of(after)
    offset = spans[0][0] - spans[1][0] if spans[0] and spans[1] else 0
    first = _named(before, names[0])
    second = _named(moved(after, ClockFit(0, offset, 0.0, 0)), names[1], like=before)
    return merge([first, second], name=f"{names[0]} and {names[1]}")


def _named(recording: Recording, name: str, like: Recording | None = None) -> Recording:
    """Return a recording whose processes and specializations say its name."""
    tables = {table: recording.arrow(table) for table in TABLES}
    processes = recording.rows("processes")
    if not processes:  # a file of an older version
        processes = [dict.fromkeys(TABLES["processes"].names) | {"process_id": 0, "status": "ok"}]
        tables = {table: _owned(held) for table, held in tables.items()}
    labels = process_names(recording)
    for at, row in enumerate(processes):
        row["worker"] = name if len(processes) == 1 else f"{name}: {labels[at]}"
        row["launcher"] = None  # Dask's workers are called otherwise
        row |= dict.fromkeys(_MOVED)
    tables["processes"] = table_of_rows("processes", processes)
    specializations = recording.rows("specializations")
    for row in specializations:
        row["attributes"] = json.dumps(json_object(row["attributes"]) | {"recording": name})
    tables["specializations"] = table_of_rows("specializations", specializations)
    tables["code"] = table_of_rows("code", _code_of_each(recording.rows("code"), specializations))
    if like is not None:
        tables["dispatchers"] = table_of_rows("dispatchers", _defined_like(
            recording.rows("dispatchers"), like.rows("dispatchers")))
    # Each has a clock of its own, which is not that of the times any more.
    return Recording(tables, {key: value for key, value in recording.metadata.items() if key not in ("clock", "pings")})


def _owned(table: pa.Table) -> pa.Table:
    """Return a table whose rows are all of process 0, if they are of a process at all."""
    if "process_id" not in table.schema.names:
        return table
    at = table.schema.get_field_index("process_id")
    return table.set_column(at, table.schema.field(at), pa.array([0] * table.num_rows, table.schema.field(at).type))


def _code_of_each(code: Sequence[dict[str, Any]], specializations: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows of code in which the source is that of each specialization: the two recordings' can differ."""
    own: dict[int, list[int]] = {}
    for row in specializations:
        own.setdefault(row["dispatcher_id"], []).append(row["specialization_id"])
    return [{**row, "specialization_id": each} for row in code for each in (
        own.get(row["dispatcher_id"], []) if row["specialization_id"] is None else [row["specialization_id"]])]


def _defined_like(rows: Sequence[dict[str, Any]], others: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return kernels with the definitions of those of another recording that have their framework and name."""
    known: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in others:
        known.setdefault((row["framework"], row["name"]), []).append(row)
    found: list[dict[str, Any]] = []
    for row in rows:
        same = known.get((row["framework"], row["name"]))
        found.append({**row, **{key: same[0][key] for key in _DEFINITION}} if same else row)
        if same and len(same) > 1:  # the n-th definition is like the n-th
            same.pop(0)
    return found
