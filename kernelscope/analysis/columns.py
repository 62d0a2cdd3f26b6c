"""Columns of a recording as NumPy arrays, and sums and percentiles by group.

Here alone the analysis touches Arrow's types, which have no type stubs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from kernelscope.recording.arrow import make_table
from kernelscope.recording.model import Recording
from kernelscope.schema import TABLES, UNFINISHED, UNKNOWN

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


def ints(recording: Recording, table: str, name: str) -> Ints:
    """Return an integer column as int64, with `kernelscope.schema.UNKNOWN` (-1) for null."""
    source: Any = recording
    return np.asarray(source.column(table, name), dtype=np.int64)


def floats(recording: Recording, table: str, name: str) -> Floats:
    """Return a float column, with NaN for null."""
    source: Any = recording
    return np.asarray(source.column(table, name), dtype=np.float64)


def codes(recording: Recording, table: str, name: str) -> tuple[Ints, list[str]]:
    """Return a category column as codes (int64, -1 for null) and the words that they stand for.

    The words are never decoded a row: that would cost 100,000 strings where four are distinct.
    """
    source: Any = recording
    column: Any = source.arrow(table).column(name).unify_dictionaries().combine_chunks()
    indices: Any = column.indices
    if indices.null_count:
        indices = indices.fill_null(UNKNOWN)
    words = cast(list[str], column.dictionary.to_pylist())
    return np.asarray(indices.to_numpy(zero_copy_only=False), dtype=np.int64), words


def matches(recording: Recording, table: str, name: str, word: str) -> Bools:
    """Return which rows of a category column are `word`."""
    values, words = codes(recording, table, name)
    if word not in words:
        return np.zeros(len(values), dtype=np.bool_)
    return values == words.index(word)


def ran(recording: Recording) -> Bools:
    """Return which launches ran: a launch that went into the capture of a graph only became a node of it."""
    source: Any = recording.arrow("launches").column("capture_event_id")
    if source.null_count == len(source):
        return np.ones(len(source), dtype=np.bool_)
    return ints(recording, "launches", "capture_event_id") < 0


def raised(recording: Recording) -> Bools:
    """Return which launches raised: of those that were under way when the process died that is not known."""
    failed, errors = codes(recording, "launches", "error")
    return (failed >= 0) & (failed != errors.index(UNFINISHED)) if UNFINISHED in errors else failed >= 0


def unfinished(recording: Recording) -> Bools:
    """Return which launches had begun and not returned when the process died."""
    return matches(recording, "launches", "error", UNFINISHED)


def row_count(recording: Recording, table: str) -> int:
    """Return how many rows the table has."""
    source: Any = recording
    return int(source.arrow(table).num_rows)


def with_columns(recording: Recording, table: str, columns: Mapping[str, Sequence[object]]) -> Recording:
    """Return a copy of the recording in which some columns of one table are replaced."""
    source: Any = recording
    tables = {name: source.arrow(name) for name in TABLES}
    held = tables[table]
    replaced = {name: held.column(name) for name in TABLES[table].names} | dict(columns)
    tables[table] = cast(Any, make_table)(table, replaced, rows=held.num_rows)
    return Recording(tables, recording.metadata)


def json_object(text: str | None) -> dict[str, Any]:
    """Read a column of JSON: an object, or an empty one for null, for another value and for what is torn."""
    if not text:
        return {}
    try:
        value: object = json.loads(text)
    except ValueError:
        return {}
    return cast(dict[str, Any], value) if isinstance(value, dict) else {}


def owner_of(dispatcher: Mapping[str, Any]) -> str | None:
    """Return whose kernel a row of ``dispatchers`` is: user, ufunc, reduce or library; None where that is unknown."""
    owner = json_object(dispatcher["attributes"]).get("owner")
    return owner if isinstance(owner, str) else None


def count_by(groups: Ints, size: int, where: Bools | None = None) -> Ints:
    """Count rows by group; groups below 0 are left out."""
    keep = groups >= 0
    if where is not None:
        keep &= where
    return np.bincount(groups[_selected(keep)], minlength=size)[:size].astype(np.int64)


def sum_by(groups: Ints, values: Ints, size: int) -> Ints:
    """Sum values by group; groups below 0 and unknown values (below 0) are left out.

    Sums run in float64, which is exact up to 2**53 ns, or 104 days.
    """
    keep = _selected((groups >= 0) & (values >= 0))
    totals = np.bincount(groups[keep], weights=values[keep], minlength=size)[:size]
    return np.rint(totals).astype(np.int64)


def distinct_by(groups: Ints, values: Ints, size: int) -> Ints:
    """Count distinct values by group; rows below 0 in either are left out."""
    keep = (groups >= 0) & (values >= 0)
    if not keep.any():
        return np.zeros(size, dtype=np.int64)
    width = int(values[keep].max()) + 1
    # Without the inverse, `unique` sorts values instead of indices, which is several times faster.
    keys = np.unique(groups[keep] * width + values[keep])
    return np.bincount(keys // width, minlength=size)[:size].astype(np.int64)


def unique_pairs(left: Ints, right: Ints) -> tuple[Ints, Ints]:
    """Return the distinct pairs, as rows (left, right) in order, and the pair of each row (-1 for none).

    A row that is below 0 in either has no pair.
    """
    keep = (left >= 0) & (right >= 0)
    pair_of_row = np.full(len(left), UNKNOWN, dtype=np.int64)
    if not keep.any():
        return np.empty((0, 2), dtype=np.int64), pair_of_row
    width = int(right[keep].max()) + 1
    keys, inverse = np.unique(left[keep] * width + right[keep], return_inverse=True)
    pair_of_row[keep] = inverse
    return np.stack([keys // width, keys % width], axis=1), pair_of_row


def percentiles_by(groups: Ints, values: Ints, size: int, shares: Sequence[float]) -> Floats:
    """Return percentiles by group, linearly interpolated as `numpy.percentile` does: NaN for an empty group.

    Parameters
    ----------
    groups, values : ndarray of int64
        Rows below 0 in either are left out.
    size : int
        How many groups there are.
    shares : sequence of float
        Which percentiles, from 0 to 1.

    Returns
    -------
    ndarray of float64, shape (size, len(shares))
    """
    keep = _selected((groups >= 0) & (values >= 0))
    groups, values = groups[keep], values[keep]
    ordered = _ordered(groups, values).astype(np.float64)
    counts = np.bincount(groups, minlength=size)[:size]
    starts = np.cumsum(counts) - counts
    result = np.full((size, len(shares)), np.nan)
    held = counts > 0
    for place, share in enumerate(shares):
        position = (counts[held] - 1) * share
        low = np.floor(position).astype(np.int64)
        high = np.ceil(position).astype(np.int64)
        below, above = ordered[starts[held] + low], ordered[starts[held] + high]
        result[held, place] = below + (above - below) * (position - low)
    return result


def _selected(keep: Bools) -> Bools | slice:
    """All rows as a slice where none is left out, for that copies nothing."""
    return slice(None) if keep.all() else keep


def _ordered(groups: Ints, values: Ints) -> Ints:
    """Values in order of group and value; one sort of joint keys where they fit, for it is the fastest."""
    if not len(values):
        return values
    width = int(values.max()) + 1
    if int(groups.max()) >= np.iinfo(np.int64).max // width:
        return values[np.lexsort((values, groups))]
    return np.sort(groups * width + values) % width


def ranges_by(groups: Ints, values: Floats, size: int) -> list[tuple[float, float] | None]:
    """Return the least and greatest value by group; None where no value is known (NaN)."""
    keep = (groups >= 0) & np.isfinite(values)
    least = np.full(size, np.inf)
    greatest = np.full(size, -np.inf)
    np.minimum.at(least, groups[keep], values[keep])
    np.maximum.at(greatest, groups[keep], values[keep])
    return [
        (float(low), float(high)) if low <= high else None
        for low, high in zip(least.tolist(), greatest.tolist(), strict=True)
    ]


def union_ns(start: Ints, end: Ints, lane: Ints) -> int:
    """Return the time that intervals cover, with an overlap inside one lane (a thread) counted once."""
    total = 0
    for which in np.unique(lane):
        order = np.argsort(start[lane == which], kind="stable")
        begins = start[lane == which][order]
        reach = np.maximum.accumulate(end[lane == which][order])
        before = np.concatenate(([np.iinfo(np.int64).min], reach[:-1]))
        total += int(np.maximum(reach - np.maximum(begins, before), 0).sum())
    return total
