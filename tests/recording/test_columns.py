"""Columns of one value, which take no memory, and lookups in parts."""

import numpy as np
import pyarrow as pa
import pytest

from kernelscope.recorder.session import _made
from kernelscope.recording import columns
from kernelscope.recording.columns import cell_finder, looked_up
from kernelscope.recording.parquet import integer_array, make_table

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


def test_no_rows_find_nothing():
    assert len(looked_up(np.empty(0, np.int32), {"any": np.empty(0, np.int32)})["any"]) == 0


@pytest.mark.parametrize("value", [-1, 0, 6])
@pytest.mark.parametrize("wanted", [pa.int32(), pa.int64()])
def test_a_column_of_one_value_is_as_if_each_row_had_been_written(value, wanted):
    made = integer_array(np.broadcast_to(np.int32(value), 100), wanted)
    made.validate(full=True)
    assert made.type == wanted
    assert made.equals(integer_array(np.full(100, value, np.int32), wanted))
    assert made.to_pylist() == [None if value == -1 else value] * 100


def test_only_minus_one_is_null():
    assert integer_array(np.array([-2, -1, 0, 1]), pa.int64()).to_pylist() == [-2, None, 0, 1]
    assert integer_array(np.empty(0, np.int64), pa.int32()).to_pylist() == []


def test_columns_that_are_left_out_are_nulls_of_their_types():
    table = make_table("launches", {
        name: np.zeros(50, np.int64) for name in ("launch_id", "thread_id", "dispatcher_id", "configuration_id",
                                                  "start_ns")})
    table.validate(full=True)
    assert table.column("queue_ns").to_pylist() == table.column("cache").to_pylist() == [None] * 50
    assert table.column("error").type == pa.dictionary(pa.int32(), pa.string())


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
