from __future__ import annotations

import numpy as np
import pytest

from kernelscope.views.timeline.build import MOST_ROWS, combinations, ranked, rows_of


def rows(*intervals: tuple[int, int]) -> list[int]:
    start, end = np.array(intervals, dtype=np.int64).reshape(-1, 2).T
    return rows_of(start, end)[0].tolist()


@pytest.mark.parametrize(("intervals", "wanted"), [
    ([], []),
    ([(0, 5)], [0]),
    ([(0, 5), (5, 9)], [0, 0]),
    ([(0, 9), (1, 4), (2, 3), (5, 6)], [0, 1, 2, 1]),
    ([(0, 4), (2, 6), (4, 8), (6, 9)], [0, 1, 0, 1]),
    ([(0, 9), (3, 3), (3, 3)], [0, 1, 1]),
    ([(5, 2), (5, 8)], [0, 0]),
])
def test_rows(intervals: list[tuple[int, int]], wanted: list[int]) -> None:
    assert rows(*intervals) == wanted


@pytest.mark.parametrize("seed", range(5))
def test_as_few_rows_as_overlap(seed: int) -> None:
    random = np.random.default_rng(seed)
    start = np.sort(random.integers(0, 2_000, 300))
    end = start + random.integers(1, 60, 300)
    row, count = rows_of(start, end)
    open_at_once = max(int(((start <= at) & (end > at)).sum()) for at in start)
    assert count == min(open_at_once, MOST_ROWS) == row.max() + 1
    for each in range(count):
        mine = row == each
        assert (start[mine][1:] >= end[mine][:-1]).all()


def test_what_overlaps_too_deeply_shares_the_last_row() -> None:
    start = np.arange(100, dtype=np.int64)
    row, count = rows_of(start, np.full(100, 1_000))
    assert count == MOST_ROWS
    assert row[:MOST_ROWS].tolist() == list(range(MOST_ROWS))
    assert set(row[MOST_ROWS:].tolist()) == {MOST_ROWS - 1}


@pytest.mark.parametrize("scale", [1, 2**40, 2**61])
def test_combinations_are_those_of_rows(scale: int) -> None:
    random = np.random.default_rng(4)
    columns = [random.integers(-1, 3, 60), np.full(60, 5), random.integers(-1, 2, 60) * scale,
               random.integers(-1, 2, 60) * scale]
    codes, distinct = combinations(*columns)
    wanted, inverse = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)
    assert distinct.tolist() == wanted.tolist()
    assert codes.tolist() == inverse.reshape(-1).tolist()
    assert combinations(np.array([3, 3]), np.array([4, 4]))[1].tolist() == [[3, 4]]
    assert len(combinations(np.empty(0, dtype=np.int64))[1]) == 0


def test_ranked_by_the_time_that_they_took() -> None:
    codes, spent = np.array([0, 1, -1, 2, 1]), np.array([5, 4, 100, 5, 4])
    rank, order = ranked(codes, spent, 4)
    # Of equals the first comes first; what took nothing is last.
    assert order.tolist() == [1, 0, 2, 3]
    assert rank.tolist() == [1, 0, -1, 2, 0]
    assert ranked(np.array([-1]), np.array([0]), 0)[0].tolist() == [-1]
