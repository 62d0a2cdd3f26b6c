from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from handmade import Script

from kernelscope.analysis import columns
from kernelscope.analysis.columns import Intervals, joined, union
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


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_percentiles_of_many_rows_in_few_groups_are_those_of_numpy(dtype: Any) -> None:
    random = np.random.default_rng(4)
    groups, values = random.integers(-1, 3, 150_000).astype(dtype), random.gamma(2, 9_000, 150_000).astype(dtype)
    values[::7], values[::9_001], values[::11], values[::13] = -1, 2**31 - 1, 0, 1
    found = columns.percentiles_by(groups, values, 4, (0, 0.5, 0.99, 1))
    assert np.isnan(found[3]).all()
    for group in range(3):
        expected = np.percentile(values[(groups == group) & (values >= 0)].astype(np.int64), (0, 50, 99, 100))
        assert found[group] == pytest.approx(expected)


@pytest.mark.parametrize("size", [3, 70_000])
def test_many_rows_are_counted_as_one_by_one(size: int) -> None:
    random = np.random.default_rng(5)
    groups, values = random.integers(-1, size, 100_000).astype(np.int32), random.integers(-1, 50, 100_000)
    known = (groups >= 0) & (values >= 0)
    assert columns.count_by(groups, size).tolist() == np.bincount(groups[groups >= 0], minlength=size).tolist()
    sums = np.zeros(size, np.int64)
    np.add.at(sums, groups[known], values[known])
    assert columns.sum_by(groups, values, size).tolist() == sums.tolist()
    pairs, pair = columns.unique_pairs(groups, values)
    assert [*map(tuple, pairs.tolist())] == sorted({*zip(groups[known].tolist(), values[known].tolist(), strict=True)})
    assert (pairs[pair[known]] == np.stack([groups[known], values[known]], axis=1)).all() and (pair[~known] == -1).all()
    some = [size - 1, 0]
    logs = np.log2(np.maximum(values[known], 1))
    bins = np.clip(logs / (logs.max() / columns.BINS), 0, columns.BINS - 1).astype(int)
    assert columns.Histograms(groups, values, size).of(some).tolist() == [
        np.bincount(bins[groups[known] == at], minlength=columns.BINS).tolist() for at in some]


def test_unique_pairs_point_back_to_rows() -> None:
    pairs, pair = columns.unique_pairs(np.array([1, 0, 1, -1]), np.array([4, 4, 4, 4]))
    assert pairs.tolist() == [[0, 4], [1, 4]]
    assert pair.tolist() == [1, 0, 1, -1]
    assert columns.unique_pairs(np.array([-1]), np.array([2]))[0].shape == (0, 2)


def test_ranges_ignore_unknown_values() -> None:
    found = columns.ranges_by(np.array([0, 0, 1, -1]), np.array([3.0, 5.0, np.nan, 9.0]), 3)
    assert [found[group] for group in range(3)] == [(3.0, 5.0), None, None]


def test_columns_of_tables() -> None:
    made = Script()
    made.launchable()
    made.launch(cache="disk")
    made.launch(cache=None)
    recording = made.recording()
    codes, words = columns.codes(recording, "launches", "cache")
    assert (codes.tolist(), words) == ([0, -1], ["disk"])
    assert columns.matches(recording, "launches", "cache", "disk").tolist() == [True, False]
    assert columns.matches(recording, "launches", "cache", "memory").tolist() == [False, False]
    assert columns.ints(recording, "launches", "parent_launch_id").tolist() == [-1, -1]
    assert columns.row_count(recording, "launches") == 2
    assert columns.codes(Script().recording(), "launches", "cache")[0].tolist() == []


def test_categories_of_several_chunks_share_their_codes() -> None:
    tables: list[Any] = []
    for cache in ("disk", "memory", "disk"):
        made = Script()
        made.kernel()
        made.configuration()
        made.launch(cache=cache, specialization=None)
        tables.append(made.recording().arrow("launches"))
    recording = Recording({"launches": pa.concat_tables(tables)}, {})
    codes, words = columns.codes(recording, "launches", "cache")
    assert [words[code] for code in codes.tolist()] == ["disk", "memory", "disk"]
    assert columns.matches(recording, "launches", "cache", "disk").tolist() == [True, False, True]


def test_with_columns_leaves_the_recording_as_it_was() -> None:
    made = Script(name="kept")
    made.kernel()
    recording = made.recording()
    changed = columns.with_columns(recording, "dispatchers", {"name": ["other"]})
    assert (changed.rows("dispatchers")[0]["name"], changed.name) == ("other", "kept")
    assert recording.rows("dispatchers")[0]["name"] == "axpy"


@pytest.mark.parametrize("text", [None, "", "{", "[1]", "3"])
def test_json_that_is_no_object_is_an_empty_one(text: str | None) -> None:
    assert columns.json_object(text) == {}


LAST = 120


def intervals(*pairs: tuple[int, int]) -> Intervals:
    return union(np.array([a for a, _ in pairs], dtype=np.int64), np.array([b for _, b in pairs], dtype=np.int64))


def pairs(intervals: Intervals) -> list[tuple[int, int]]:
    return list(zip(intervals.start.tolist(), intervals.end.tolist(), strict=True))


def moments(intervals: Intervals) -> set[int]:
    return {at for first, last in pairs(intervals) for at in range(first, last)}


def random_pairs(random: np.random.Generator, most: int) -> list[tuple[int, int]]:
    starts = random.integers(0, LAST, int(random.integers(0, most)))
    return [(start, start + length) for start, length in
            zip(starts.tolist(), random.integers(0, 12, len(starts)).tolist(), strict=True)]


def is_proper(intervals: Intervals) -> bool:
    found = pairs(intervals)
    return all(a < b for a, b in found) and all(b < c for (_, b), (c, _) in pairwise(found))


def test_union_joins_what_overlaps_or_touches() -> None:
    assert pairs(intervals((5, 9), (0, 3), (3, 4), (6, 7), (20, 20), (8, 12))) == [(0, 4), (5, 12)]
    assert pairs(intervals()) == []
    assert pairs(intervals((4, 4))) == []


def test_complement_between_and_span() -> None:
    held = intervals((5, 10), (20, 30))
    assert pairs(held.complement(0, 40)) == [(0, 5), (10, 20), (30, 40)]
    assert pairs(held.complement(7, 25)) == [(10, 20)]
    assert pairs(held.between()) == [(10, 20)]
    assert pairs(held.span) == [(5, 30)]
    assert pairs(intervals().complement(3, 8)) == [(3, 8)]
    assert (len(held), held.total_ns, intervals().total_ns) == (2, 15, 0)


def test_times_are_exact_where_a_float_is_not() -> None:
    base = 1_700_000_000_000_000_001
    held = intervals(*((base + 10 * at, base + 10 * at + 3) for at in range(100)))
    assert held.common(np.array([base + 11]), np.array([base + 500])).tolist() == [2 + 3 * 48]
    assert held.common(np.arange(base, base + 300), np.arange(base, base + 300) + 10).tolist() == [3.0] * 300


def test_as_sets_of_moments() -> None:
    for seed in range(60):
        random = np.random.default_rng(seed)
        # Of both sizes: few among many take other ways.
        left, right = (intervals(*random_pairs(random, most)) for most in ((60, 4), (4, 60), (20, 20))[seed % 3])
        assert is_proper(left)
        assert is_proper(right)
        for result, expected in (
            (left.within(right), moments(left) & moments(right)),
            (left.minus(right), moments(left) - moments(right)),
            (joined(left, right), moments(left) | moments(right)),
            (left.complement(10, 90), set(range(10, 90)) - moments(left)),
        ):
            assert is_proper(result) or result is left.within(right)
            assert moments(result) == expected
        assert left.common_ns(right) == right.common_ns(left) == len(moments(left) & moments(right))
        for count in (3, 400):
            start = np.sort(random.integers(-5, LAST + 20, count))
            end = start + random.integers(0, 30, count)
            windows = zip(start.tolist(), end.tolist(), strict=True)
            assert left.common(start, end).tolist() == [len(moments(left) & set(range(a, b))) for a, b in windows], seed
