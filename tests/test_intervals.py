"""Intervals that hold together, without any launch."""

import math

import numpy as np
import pytest

from kernelscope.intervals import (
    SHARE_OF_ERROR,
    Column,
    Part,
    intervals,
    median_interval,
    student_below,
    student_quantile,
    trimmed,
)


def column(values, places=None, **options):
    values = np.asarray(values, dtype=float)
    return Column(Part(values, np.arange(len(values)) if places is None else np.asarray(places)), **options)


def held(middles, halves, truths):
    return bool(np.all(np.abs(middles - truths) <= halves))


@pytest.mark.parametrize(("probability", "degrees", "expected"), [
    (0.975, 1, 12.7062), (0.975, 2, 4.30265), (0.975, 3, 3.18245), (0.995, 4, 4.60409), (0.975, 5, 2.57058),
    (0.99, 6, 3.14267), (0.9995, 7, 5.40788), (0.975, 30, 2.04227), (0.95, 120, 1.65765),
])
def test_students_quantiles_are_those_of_the_tables(probability, degrees, expected):
    assert student_quantile(probability, degrees) == pytest.approx(expected, rel=1e-5)
    assert student_below(expected, degrees) == pytest.approx(probability, abs=1e-6)


def test_a_trimmed_mean_leaves_the_ends_out():
    values = np.array([5.0, 1, 2, 3, 4, 6, 7, 1000])
    middle, error = trimmed(values)
    assert middle == pytest.approx(np.mean([2, 3, 4, 5, 6, 7]))
    # Winsorized: 2, 2, 3, 4, 5, 6, 7, 7, of which six were kept.
    assert error == pytest.approx(math.sqrt(np.sum((np.array([2, 2, 3, 4, 5, 6, 7, 7]) - 4.5) ** 2) / (6 * 5)))


def test_few_values_are_not_trimmed():
    middle, error = trimmed(np.array([[1.0, 2, 6], [4, 4, 4]]))
    assert middle.tolist() == [3, 4]
    assert error == pytest.approx([np.std([1, 2, 6], ddof=1) / math.sqrt(3), 0])
    middle, error = trimmed(np.array([7.0]))
    assert middle == 7
    assert np.isnan(error)


def test_one_value_has_no_interval():
    middles, halves = intervals([column([3.0]), column([1.0, 2.0, 4.0])])
    assert middles[0] == 3
    assert halves[0] == math.inf
    assert 0 < halves[1] < 100


def test_few_values_get_students_interval_divided_by_their_number():
    columns = [column([1.0, 2, 4]), column([3.0, 3.5, 3.6])]
    _, halves = intervals(columns, 0.95)
    error = np.std([1, 2, 4], ddof=1) / math.sqrt(3)
    expected = student_quantile(1 - SHARE_OF_ERROR * 0.05 / 2 / 2, 2) * error
    assert halves[0] == pytest.approx(expected)


def test_the_same_values_give_the_same_intervals_and_another_seed_nearly_so():
    chance = np.random.default_rng(1)
    columns = [column(chance.normal(size=16)) for _ in range(4)]
    first, again, other = (intervals(columns, seed=seed)[1] for seed in (1, 1, 2))
    assert first.tolist() == again.tolist()
    assert first.tolist() != other.tolist()
    assert other == pytest.approx(first, rel=0.15)


def test_intervals_grow_with_their_number_but_not_for_copies():
    chance = np.random.default_rng(2)
    values = chance.normal(size=(20, 16))
    _, alone = intervals([column(values[0])])
    _, many = intervals([column(row) for row in values])
    _, copies = intervals([column(values[0])] * 20)
    assert many[0] > 1.15 * alone[0]
    # The signs of a generation are those of all columns, so that copies are no comparisons of their own.
    assert copies == pytest.approx(np.repeat(alone, 20), rel=1e-9)


def test_noise_is_pooled_in_units_of_the_scale():
    chance = np.random.default_rng(3)
    columns = [column(size * chance.normal(size=16), scale=size) for size in (1.0, 1.0, 1.0, 1.0, 100.0)]
    _, halves = intervals(columns)
    assert halves[4] == pytest.approx(100 * np.median(halves[:4]), rel=0.6)
    # Without scales, the loud one would widen the others.
    quiet = max(halves[:4])
    assert quiet < 1.5


def test_an_outlier_hardly_moves_the_middle():
    values = np.random.default_rng(4).normal(size=16)
    moved = values.copy()
    moved[3] = 1000
    calm, halves = intervals([column(values)])
    middles, wider = intervals([column(moved)])
    assert abs(middles[0] - calm[0]) < 0.5
    assert wider[0] < 2.5 * halves[0]


@pytest.mark.parametrize("sizes", [[2] * 3, [5] * 6, [8] * 6, [16] * 10, [16, 16, 16, 6, 6, 3]])
def test_all_intervals_hold_together(sizes):
    chance = np.random.default_rng(5)
    studies, truths = 200, np.arange(len(sizes))
    holding = 0
    for study in range(studies):
        shared = 0.7 * chance.normal(size=max(sizes))
        columns = [column(truth + shared[:size] + chance.normal(size=size))
                   for truth, size in zip(truths, sizes, strict=True)]
        holding += held(*intervals(columns, seed=study), truths)
    # 95 % is asked for; 200 studies tell it to 1.5 %.
    assert holding >= 0.94 * studies
    assert holding < studies


def test_differences_of_independent_samples_hold_together():
    chance = np.random.default_rng(6)
    studies, holding, narrow = 200, 0, []
    for study in range(studies):
        columns = []
        for _ in range(5):
            old, new = chance.normal(5, 1, size=12), chance.normal(6, 2, size=16)
            columns.append(Column(Part(new, np.arange(16)), Part(old, np.arange(12))))
        middles, halves = intervals(columns, seed=study)
        holding += held(middles, halves, 1)
        narrow.append(np.median(halves))
    assert holding >= 0.94 * studies
    assert np.median(narrow) < 2.6


@pytest.mark.parametrize("size", [2, 4, 6, 10, 16])
def test_the_interval_of_a_median_holds_it(size):
    chance = np.random.default_rng(size)
    holding = 0
    for _ in range(300):
        low, high = median_interval(chance.normal(10, 1, size=size))
        assert low <= high
        holding += low <= 10 <= high
    assert holding >= 0.92 * 300
    assert median_interval(np.array([3.0])) == (-math.inf, math.inf)
