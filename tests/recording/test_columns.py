"""Columns of one value, which take no memory, lookups in parts, and spans against a slow search."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from kernelscope.recorder.session import _made
from kernelscope.recording import columns
from kernelscope.recording.columns import Spans, cell_finder, looked_up
from kernelscope.recording.parquet import integer_array
from kernelscope.recording.time import FOREVER

ROWS = 3 * columns._PART + 7


def test_each_row_gets_its_own_table_row_over_all_parts():
    rows = np.random.default_rng(7).integers(0, 5, ROWS).astype(np.int32)
    tables = {"one": np.array([3, -1, 4, 1, 5], np.int32), "two": np.array([0, 0, 0, 0, 2], np.int64)}
    found = looked_up(rows, tables)
    for name, values in tables.items():
        assert found[name].dtype == values.dtype
        np.testing.assert_array_equal(found[name], values[rows])


def test_what_is_the_same_in_all_rows_that_are_meant_takes_no_memory():
    rows = np.full(ROWS, 2, np.int32)
    rows[5] = 1
    found = looked_up(rows, {"same": np.array([9, 4, 4, 8], np.int32), "other": np.array([4, 4, 5, 5], np.int32)})
    assert found["same"].strides == (0,) and (found["same"] == 4).all() and len(found["same"]) == ROWS
    assert found["other"].strides == (4,) and found["other"][4:7].tolist() == [5, 4, 5]


@pytest.mark.parametrize("value", [-1, 0, 6])
@pytest.mark.parametrize("wanted", [pa.int32(), pa.int64()])
def test_a_column_of_one_value_is_as_if_each_row_had_been_written(value, wanted):
    made = integer_array(np.broadcast_to(np.int32(value), 100), wanted)
    made.validate(full=True)
    assert made.type == wanted
    assert made.equals(integer_array(np.full(100, value, np.int32), wanted))
    assert made.to_pylist() == [None if value == -1 else value] * 100


def test_a_cell_that_ran_all_the_time_takes_no_memory():
    cell_of = cell_finder([{"start_ns": 0, "end_ns": 1}, {"start_ns": 5, "end_ns": 9}, {"start_ns": 20, "end_ns": 30}])
    assert cell_of(np.arange(5, 10), in_order=True).tolist() == [1] * 5
    assert cell_of(np.arange(5, 10), in_order=True).strides == (0,)
    assert cell_of(np.arange(5, 11), in_order=True).tolist() == [1] * 5 + [-1]
    assert cell_of(np.arange(4, 10), in_order=True).tolist() == [-1] + [1] * 5
    assert cell_of(np.empty(0, np.int64), in_order=True).tolist() == []


@pytest.mark.parametrize(("targets", "configurations"), [(1, 1), (3, 5), (700, 40), (40_000, 50)])
def test_launches_are_counted_by_what_they_launched(targets, configurations):
    random = np.random.default_rng(7)
    target = random.integers(0, targets, ROWS).astype(np.int32)
    configuration = random.integers(0, configurations, ROWS).astype(np.int32)
    pairs, counts = np.unique(np.stack([target, configuration]), axis=1, return_counts=True)
    expected = dict(zip(map(tuple, pairs.T.tolist()), counts.tolist(), strict=True))
    assert _made({"target": target, "configuration": configuration}) == expected
    assert _made({"target": target[:0], "configuration": configuration[:0]}) == {}


@pytest.mark.parametrize("seed", range(40))
def test_as_the_slow_search(seed: int) -> None:
    chance = random.Random(seed)
    groups = [-1, 0, 7, 2**47]
    spans = []
    for _ in range(chance.randint(0, 30)):
        start = chance.randint(0, 40)
        spans.append((chance.choice(groups), start, chance.choice([start, start + chance.randint(0, 30), FOREVER])))
    group, start, end = np.array(spans, np.int64).reshape(-1, 3).T
    held = Spans(group, start, end)
    asked = [(chance.choice([*groups, 3]), chance.randint(-5, 80)) for _ in range(200)]
    of, time = np.array(asked, np.int64).T

    def last(inside: bool, of: int, time: int) -> tuple[int, ...]:
        found = [(begin, row) for row, (each, begin, done) in enumerate(spans)
                 if each == of and begin <= time and (done >= time or not inside)]
        return max(found, default=(-1, -1))

    assert held.before(of, time).tolist() == [last(False, *each)[1] for each in asked]
    assert held.around(of, time).tolist() == [last(True, *each)[1] for each in asked]
    place = held.place(of, time)
    for (group_asked, _), at, after, first in zip(
            asked, place.tolist(), held.following(place).tolist(), held.first(of).tolist(), strict=True):
        own = [row for row in held.rows.tolist() if spans[row][0] == group_asked]
        if at >= 0:
            behind = own[own.index(held.rows[at]) + 1:]
            assert (held.rows[after] if after >= 0 else None) == (behind[0] if behind else None)
        else:
            assert after == -1
        assert (held.rows[first] if first >= 0 else None) == (own[0] if own else None)


def test_no_spans() -> None:
    none = np.empty(0, np.int64)
    held = Spans(none, none, none)
    asked = np.array([1, 2])
    for found in (held.place(asked, asked), held.before(asked, asked), held.around(asked, asked), held.first(asked)):
        assert found.tolist() == [-1, -1]
    assert held.around(none, none).tolist() == []
