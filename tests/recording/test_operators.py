"""Launches get the operator of PyTorch's that their thread was in."""

from __future__ import annotations

import numpy as np
import pytest

from kernelscope.recording.columns import THREAD_BITS
from kernelscope.recording.operators import RawOperators, add_operators
from kernelscope.schema import UNKNOWN


@pytest.mark.parametrize("known", [0x7F00_1234_5678, 0x7F00_1234_5678 & THREAD_BITS])
def test_a_thread_is_the_one_with_the_same_lower_bits(known: int) -> None:
    # Of a thread that only CUPTI saw, such as one that runs backward passes, the upper bits are not known.
    launches = {"thread_id": np.array([1, 1, 0], np.int32), "cell_id": np.zeros(3, np.int32)} | {
        name: np.array([120, 900, 120]) for name in ("submit_start_ns", "submit_end_ns")}
    events = np.array([[100, 0], [110, 1], [200, 0], [210, -1]], np.int64).tobytes()
    raw = RawOperators.from_rows(
        [(0x7F00_1234_5678, [(-1, "AddmmBackward0"), (0, "aten::mm")], events)], None, True)
    rows = add_operators(launches, {}, raw, [{"ident": 0x7F00_0000_0001}, {"ident": known}], [
        {"start_ns": 0, "end_ns": 1_000}])
    assert [(row["name"], row["path"], row["calls"], row["host_ns"]) for row in rows] == [
        ("aten::mm", "AddmmBackward0 / aten::mm", 1, 90)]
    assert launches["operator_id"].tolist() == [0, UNKNOWN, UNKNOWN]
