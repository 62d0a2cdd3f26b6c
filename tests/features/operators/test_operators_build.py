"""Launches get the operator of PyTorch's that their thread was in."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kernelscope.features.operators.build import join_operators
from kernelscope.recording.build import RawRecording
from kernelscope.recording.columns import THREAD_BITS
from kernelscope.recording.paths import MOST_NAMES
from kernelscope.schema import UNKNOWN


def joined(launches: dict[str, Any], operators: list[dict[str, Any]], threads: list[dict[str, Any]],
           end_ns: int = 10**9) -> list[dict[str, Any]]:
    """The rows of operators, in one cell; launches get their ids."""
    raw = RawRecording(threads=threads, cells=[{"start_ns": 0, "end_ns": end_ns}],
                       rows={"operators": [{**row, "are_all": True} for row in operators]})
    return join_operators(raw, launches, {})["operators"]


def nested(count: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Launches in each of so many operators inside of each other, and the operators' rows."""
    starts = 100 * np.arange(count)
    launches = {name: starts.copy() for name in ("start_ns", "dispatch_end_ns", "submit_start_ns", "submit_end_ns")}
    launches |= {"end_ns": starts + 10, "thread_id": np.zeros(count, np.int32), "cell_id": np.zeros(count, np.int32)}
    nodes = [(at - 1, f"aten::op{at}") for at in range(count)]
    operators = {"ident": 1, "nodes": nodes, "events": np.stack((starts, np.arange(count)), axis=1)}
    return launches, joined(launches, [operators], [{"ident": 1}])


def test_operators_inside_each_other_by_the_thousand_have_short_paths() -> None:
    """In full, the paths of 20,000 would be 2 GB of text."""
    launches, rows = nested(20_000)
    assert launches["operator_id"].tolist() == [*range(20_000)]
    assert all(row["path"].count(" / ") <= MOST_NAMES for row in rows)
    assert rows[-1]["path"].startswith("aten::op0 / aten::op1 / ")
    assert rows[-1]["path"].endswith("(19,968 more) / " + " / ".join(f"aten::op{at}" for at in range(19_984, 20_000)))
    assert rows[MOST_NAMES - 1]["path"] == " / ".join(f"aten::op{at}" for at in range(MOST_NAMES))


def test_operators_whose_paths_differ_where_they_are_cut_are_two() -> None:
    """On two threads: what is not shown of a path tells them apart too."""
    starts = np.arange(2) * 100
    launches = {name: starts.copy() for name in ("start_ns", "dispatch_end_ns", "submit_start_ns", "submit_end_ns")}
    launches |= {"end_ns": starts + 10, "thread_id": np.arange(2), "cell_id": np.zeros(2, np.int32)}
    operators = [{"ident": ident, "nodes": [(at - 1, f"in {ident}" if at == 50 else f"op{at}") for at in range(100)],
                  "events": np.array([[100 * (ident - 1), 99]])} for ident in (1, 2)]
    rows = joined(launches, operators, [{"ident": 1}, {"ident": 2}])
    assert len(rows) == 2 and rows[0]["path"] == rows[1]["path"] and launches["operator_id"].tolist() == [0, 1]


@pytest.mark.parametrize("known", [0x7F00_1234_5678, 0x7F00_1234_5678 & THREAD_BITS])
def test_a_thread_is_the_one_with_the_same_lower_bits(known: int) -> None:
    # Of a thread that only CUPTI saw, such as one that runs backward passes, the upper bits are not known.
    launches = {"thread_id": np.array([1, 1, 0], np.int32), "cell_id": np.zeros(3, np.int32)} | {
        name: np.array([120, 900, 120]) for name in ("submit_start_ns", "submit_end_ns")}
    operators = {"ident": 0x7F00_1234_5678, "nodes": [(-1, "AddmmBackward0"), (0, "aten::mm")],
                 "events": np.array([[100, 0], [110, 1], [200, 0], [210, -1]])}
    rows = joined(launches, [operators], [{"ident": 0x7F00_0000_0001}, {"ident": known}], end_ns=1_000)
    assert [(row["name"], row["path"], row["calls"], row["host_ns"]) for row in rows] == [
        ("aten::mm", "AddmmBackward0 / aten::mm", 1, 90)]
    assert launches["operator_id"].tolist() == [0, UNKNOWN, UNKNOWN]
