from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from kernelscope.analysis.columns import Intervals, joined, union

LAST = 120


def made(*pairs: tuple[int, int]) -> Intervals:
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
    assert pairs(made((5, 9), (0, 3), (3, 4), (6, 7), (20, 20), (8, 12))) == [(0, 4), (5, 12)]
    assert pairs(made()) == []
    assert pairs(made((4, 4))) == []


def test_complement_between_and_span() -> None:
    held = made((5, 10), (20, 30))
    assert pairs(held.complement(0, 40)) == [(0, 5), (10, 20), (30, 40)]
    assert pairs(held.complement(7, 25)) == [(10, 20)]
    assert pairs(held.between()) == [(10, 20)]
    assert pairs(held.span) == [(5, 30)]
    assert pairs(made().complement(3, 8)) == [(3, 8)]
    assert (len(held), held.total_ns, made().total_ns) == (2, 15, 0)


def test_times_are_exact_where_a_float_is_not() -> None:
    base = 1_700_000_000_000_000_001
    held = made(*((base + 10 * at, base + 10 * at + 3) for at in range(100)))
    assert held.common(np.array([base + 11]), np.array([base + 500])).tolist() == [2 + 3 * 48]
    assert held.common(np.arange(base, base + 300), np.arange(base, base + 300) + 10).tolist() == [3.0] * 300


@pytest.mark.parametrize("seed", range(60))
def test_as_sets_of_moments(seed: int) -> None:
    random = np.random.default_rng(seed)
    # Of both sizes: few among many take other ways.
    left, right = (made(*random_pairs(random, most)) for most in ((60, 4), (4, 60), (20, 20))[seed % 3])
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
        expected_ns = [len(moments(left) & set(range(a, b))) for a, b in zip(start.tolist(), end.tolist(), strict=True)]
        assert left.common(start, end).tolist() == expected_ns
