"""Columns that probes of the GPU's side hand over."""

import numpy as np
import pytest

from kernelscope.probes.sink import GpuColumns, constant, translated


@pytest.mark.parametrize("values", [[], [5], [5, 5, 5], [7, 5, 7, 9, 5, -1]])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_each_value_is_translated_once_in_order_of_first_sight(values, dtype):
    asked = []
    found = translated(np.array(values, dtype), lambda value: asked.append(value) or value * 10)
    assert found.tolist() == [value * 10 for value in values]
    assert asked == list(dict.fromkeys(values))


def test_a_column_of_one_value_takes_no_memory_and_cannot_be_written_to():
    for column in (constant(3, 1_000), translated(np.full(1_000, 8), lambda value: 3)):
        assert column.tolist() == [3] * 1_000
        assert column.strides == (0,)
        with pytest.raises(ValueError, match="read-only"):
            column[0] = 4


def test_parts_are_joined_and_what_they_leave_out_is_unknown():
    columns = GpuColumns()
    columns.extend([{"kind": constant(0, 2), "regs": np.array([16, 24], np.int32)}], [])
    columns.extend([{"kind": constant(0, 1), "regs": np.array([32])}, {"kind": constant(3, 2)}], [])
    assert {len(values) for values in columns.activities.values()} == {5}
    assert columns.activities["kind"].tolist() == [0, 0, 0, 3, 3]
    assert columns.activities["regs"].tolist() == [16, 24, 32, -1, -1]
    assert columns.activities["size_bytes"].tolist() == [-1] * 5
    assert columns.activities["size_bytes"].strides == (0,)
    assert len(columns.calls["name"]) == 0
