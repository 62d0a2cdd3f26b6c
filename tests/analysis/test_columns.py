from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kernelscope.analysis import columns
from kernelscope.recording.model import Recording

GROUPS = np.array([0, 2, 0, -1, 2, 2, 0])
VALUES = np.array([5, 1, 7, 9, 3, -1, 6])


def test_counts_sums_and_distinct_values_leave_out_what_is_unknown() -> None:
    assert columns.count_by(GROUPS, 4).tolist() == [3, 0, 3, 0]
    assert columns.count_by(GROUPS, 4, VALUES > 5).tolist() == [2, 0, 0, 0]
    assert columns.sum_by(GROUPS, VALUES, 4).tolist() == [18, 0, 4, 0]
    assert columns.distinct_by(GROUPS, np.array([1, 1, 1, 1, 2, -1, 3]), 4).tolist() == [2, 0, 2, 0]


def test_sums_of_nanoseconds_are_exact() -> None:
    values = np.array([2**50 + 1, 2**50 + 3])
    assert columns.sum_by(np.zeros(2, np.int64), values, 1).tolist() == [2**51 + 4]


@pytest.mark.parametrize("scale", [1, 2**55])
def test_percentiles_are_those_of_numpy(scale: int) -> None:
    random = np.random.default_rng(3)
    groups, values = random.integers(0, 100, 5_000), random.integers(0, 90, 5_000) * scale
    found = columns.percentiles_by(groups, values, 101, (0, 0.5, 0.95, 1))
    assert np.isnan(found[100]).all()
    for group in range(100):
        expected = np.percentile(values[groups == group], (0, 50, 95, 100))
        assert found[group] == pytest.approx(expected)


def test_unique_pairs_point_back_to_rows() -> None:
    pairs, pair = columns.unique_pairs(np.array([1, 0, 1, -1]), np.array([4, 4, 4, 4]))
    assert pairs.tolist() == [[0, 4], [1, 4]]
    assert pair.tolist() == [1, 0, 1, -1]
    assert columns.unique_pairs(np.array([-1]), np.array([2]))[0].shape == (0, 2)


def test_ranges_ignore_unknown_values() -> None:
    found = columns.ranges_by(np.array([0, 0, 1, -1]), np.array([3.0, 5.0, np.nan, 9.0]), 3)
    assert found == [(3.0, 5.0), None, None]


def test_union_counts_an_overlap_once_in_a_thread_and_twice_in_two() -> None:
    start, end = np.array([0, 2, 20, 0]), np.array([10, 5, 30, 10])
    assert columns.union_ns(start, end, np.array([0, 0, 0, 1])) == 30
    assert columns.union_ns(start, end, np.array([0, 0, 0, 0])) == 20
    assert columns.union_ns(start[:0], end[:0], start[:0]) == 0


def test_columns_of_tables(script: Any) -> None:
    made = script()
    made.kernel()
    made.specialization()
    made.configuration()
    made.launch(cache="disk")
    made.launch(cache=None)
    recording = made.recording()
    codes, words = columns.codes(recording, "launches", "cache")
    assert (codes.tolist(), words) == ([0, -1], ["disk"])
    assert columns.matches(recording, "launches", "cache", "disk").tolist() == [True, False]
    assert columns.matches(recording, "launches", "cache", "memory").tolist() == [False, False]
    assert columns.ints(recording, "launches", "parent_launch_id").tolist() == [-1, -1]
    assert columns.row_count(recording, "launches") == 2
    assert columns.codes(script().recording(), "launches", "cache")[0].tolist() == []


def test_categories_of_several_chunks_share_their_codes(script: Any) -> None:
    tables: list[Any] = []
    for cache in ("disk", "memory", "disk"):
        made = script()
        made.kernel()
        made.configuration()
        made.launch(cache=cache, specialization=None)
        tables.append(made.recording().arrow("launches"))
    recording = Recording({"launches": pa.concat_tables(tables)}, {})
    codes, words = columns.codes(recording, "launches", "cache")
    assert [words[code] for code in codes.tolist()] == ["disk", "memory", "disk"]
    assert columns.matches(recording, "launches", "cache", "disk").tolist() == [True, False, True]


def test_with_columns_leaves_the_recording_as_it_was(script: Any) -> None:
    made = script(name="kept")
    made.kernel()
    recording = made.recording()
    changed = columns.with_columns(recording, "dispatchers", {"name": ["other"]})
    assert (changed.rows("dispatchers")[0]["name"], changed.name) == ("other", "kept")
    assert recording.rows("dispatchers")[0]["name"] == "axpy"


@pytest.mark.parametrize("text", [None, "", "{", "[1]", "3"])
def test_json_that_is_no_object_is_an_empty_one(text: str | None) -> None:
    assert columns.json_object(text) == {}
