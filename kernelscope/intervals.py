"""Intervals of many differences that hold together, and what they say: what studies and comparisons judge by."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from kernelscope.units import percent

FASTER = "faster"
SLOWER = "slower"
NO_DIFFERENCE = "no difference seen"
TOO_NOISY = "too noisy"

#: Half of an interval may be this wide before it is too noisy, in microseconds a launch, whatever its share.
FLOOR_US = 0.05


def verdict_of(low: float, high: float, half: float, limit: float) -> str:
    """Return what an interval of a difference says: without zero `FASTER` or `SLOWER`, with it one of the others.

    Parameters
    ----------
    low, high : float
        Its ends; above 0 is slower.
    half : float
        Half of its width, as far as more measurements would make it narrower.
    limit : float
        It is `TOO_NOISY` where it holds zero and `half` is above this.
    """
    if low > 0 or high < 0:
        return SLOWER if low > 0 else FASTER
    return TOO_NOISY if half > limit else NO_DIFFERENCE


def ruled_out(low_percent: float, high_percent: float) -> str:
    """Return which difference an interval rules out."""
    most = max(-low_percent, high_percent)
    # Rounded up: what is written is outside of the interval.
    steps = 1000 if most < 9.9 else 100
    return f"more than {percent(math.ceil(most * steps / 100) / steps)} is ruled out"


# Intervals that hold together for many means of few values: a wild bootstrap-t with a common critical value.
#
# `intervals` is what the rest of the package calls; it knows nothing of launches. Its parts and where they come from:
#
# - The middle of values that are few and have outliers is a trimmed mean; its standard error comes from the
#   winsorized variance (Tukey and McLaughlin 1963; Yuen 1974).
# - Each standard error is drawn halfway towards the one that is usual among the columns, in units of each column's
#   scale: with 16 values each is known to a fifth only, and noise of one host is much alike (as in moderated t, Smyth
#   2004). What is lost where columns are unlike is power, not coverage, since the resamples are treated alike.
# - Each resample flips the signs of the deviations from the middle at random (the wild bootstrap: Wu 1986, Liu 1988,
#   Mammen 1993), the same signs in all columns of a generation, so that what makes columns alike stays. It needs
#   deviations that are as likely up as down, which differences between two processes of one kind are.
# - The critical value is the quantile of the largest studentized deviation of any column (max-T: Westfall and Young
#   1993; Romano and Wolf 2005), so that all intervals hold together.
# - Too few values have too few patterns of signs. They get Student's t, divided by the number of columns
#   (Bonferroni).

Values = npt.NDArray[np.float64]
Places = npt.NDArray[np.int64]

#: Of this many values, one is trimmed at each end.
TRIM_ONE_OF = 8
#: How far a standard error is drawn towards what is usual among the columns.
POOLED = 0.5
#: Critical values are taken at this share of the error that may be made: at 0.95, as if 0.97 were asked for. Sign flips
#: of 16 values with outliers miss a little more often than they say (6 % for 5 %), and so does a study that stops once
#: its intervals are narrow, which is where they came out too narrow.
SHARE_OF_ERROR = 0.6

_RESAMPLES = 2000
_MOST_RESAMPLES = 40_000
# At least this many resamples, and patterns of signs, should be beyond the critical value.
_BEYOND = 20
_PATTERNS_BEYOND = 3
_SIGNS = np.array([-1.0, 1.0])
# Numbers that one step of resampling holds at once: 32 MB.
_AT_ONCE = 4_000_000


@dataclass(frozen=True)
class Part:
    """The values of one sample, by process.

    Attributes
    ----------
    values : ndarray of float64, shape (n,)
        What was measured, one for each generation.
    places : ndarray of int64, shape (n,)
        Which generation each is of, from 0: those of one generation are resampled alike in all columns.
    """

    values: Values
    places: Places


@dataclass(frozen=True)
class Column:
    """The request for one interval: of the middle of one sample, or of the difference between the middles of two.

    Attributes
    ----------
    first : Part
        The sample.
    minus : Part or None
        The sample that is subtracted, independent of the first.
    scale : float
        In what size of numbers its noise is like that of others, such as the time that it is a difference of; above 0.
    """

    first: Part
    minus: Part | None = None
    scale: float = 1.0

    @property
    def parts(self) -> tuple[Part, ...]:
        """Return the samples, one or two."""
        return (self.first,) if self.minus is None else (self.first, self.minus)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Return the number of values of each sample."""
        return tuple(len(part.values) for part in self.parts)


def intervals(columns: Sequence[Column], confidence: float = 0.95, seed: int = 0) -> tuple[Values, Values]:
    """Return the middle of each column, and half of its interval's width.

    Parameters
    ----------
    columns : sequence of Column
        None may be without values. Columns with as many values as each other are treated together; each such group has
        a share of the error that is as large as its share of the columns.
    confidence : float
        How probable it is that all intervals hold.
    seed : int
        For the resampling: the same columns and seed give the same intervals.

    Returns
    -------
    middles, half_widths : ndarray of float64, shape (len(columns),)
        Infinitely wide where there is one value only.
    """
    middles, halves = np.zeros(len(columns)), np.full(len(columns), np.inf)
    groups: dict[tuple[int, ...], list[int]] = {}
    for index, column in enumerate(columns):
        groups.setdefault(column.sizes, []).append(index)
    for sizes, members in sorted(groups.items()):
        chosen = [columns[index] for index in members]
        centres, errors = _middles(chosen)
        middles[members] = centres
        if min(sizes) < 2:
            continue
        error = SHARE_OF_ERROR * (1 - confidence) * len(chosen) / len(columns)
        if 2 ** (min(sizes) - 1) * error < _PATTERNS_BEYOND:
            # With the fewer values as degrees of freedom, Welch's t for two samples is on the safe side.
            halves[members] = student_quantile(1 - error / len(chosen) / 2, min(sizes) - 1) * errors
        else:
            scales = np.array([column.scale for column in chosen])
            pooled = _pooled(errors, scales)
            critical = _critical(chosen, centres, scales, error, seed) if pooled.any() else 0.0
            halves[members] = [critical * each if each else 0.0 for each in pooled]  # an infinity times nothing
    return middles, halves


def trimmed(values: Values) -> tuple[Values, Values]:
    """Return the trimmed mean along the last axis, and its standard error (NaN for one value).

    One value in `TRIM_ONE_OF` is left out at each end; below that number, none is.

    Parameters
    ----------
    values : ndarray of float64, shape (..., n)
        At least one.
    """
    size = values.shape[-1]
    cut = size // TRIM_ONE_OF
    remaining = size - 2 * cut
    if cut:
        values = np.sort(values, axis=-1)
        inner = values[..., cut:size - cut]
        total = inner.sum(-1)
        # Winsorized: those that were cut count as the last that was kept.
        lowest, highest = inner[..., 0], inner[..., -1]
        winsorized = (total + cut * (lowest + highest)) / size
        squares = ((inner - winsorized[..., None]) ** 2).sum(-1)
        squares += cut * ((lowest - winsorized) ** 2 + (highest - winsorized) ** 2)
    else:
        total = values.sum(-1)
        squares = ((values - (total / size)[..., None]) ** 2).sum(-1)
    if size == 1:
        return total, np.full_like(total, np.nan)
    return total / remaining, np.sqrt(squares / (remaining * (remaining - 1)))


def student_quantile(probability: float, degrees: int) -> float:
    """Return the quantile of Student's t distribution for a whole number of degrees of freedom.

    Parameters
    ----------
    probability : float
        Above 0.5 and below 1.
    degrees : int
        At least 1.
    """
    low, high = 0.0, 1.0
    while student_below(high, degrees) < probability:
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        if student_below(middle, degrees) < probability:
            low = middle
        else:
            high = middle
    return high


def student_below(value: float, degrees: int) -> float:
    """Return how probable a value of Student's t below `value` is (Abramowitz and Stegun 1964, 26.7.3 and 26.7.4)."""
    angle = math.atan(value / math.sqrt(degrees))
    cosine = math.cos(angle) ** 2
    odd = degrees % 2
    term = series = 1.0
    for step in range(1 + odd, degrees - 1, 2):
        term *= cosine * step / (step + 1)
        series += term
    if not odd:
        within = math.sin(angle) * series
    elif degrees == 1:
        within = 2 * angle / math.pi
    else:
        within = 2 / math.pi * (angle + math.sin(angle) * math.cos(angle) * series)
    return 0.5 + within / 2


def median_interval(values: Values, confidence: float = 0.95, seed: int = 0) -> tuple[float, float]:
    """Return the bootstrap interval of a median, or Student's around it for fewer than 6 values.

    Its ends are percentiles of resampled medians, a little farther out than those that are asked for, since resamples
    of few values scatter too little (the expanded percentile interval: Hesterberg 2015). The whole range of 5 values
    holds the median with 94 % only, so that no resampling of them can reach 95 %.

    Parameters
    ----------
    values : ndarray of float64, shape (n,)
        At least one; for one, the interval is infinite.
    """
    middle = float(np.median(values))
    if len(values) < 2:
        return -math.inf, math.inf
    if len(values) < 6:
        half = student_quantile(0.5 + confidence / 2, len(values) - 1) * float(trimmed(values)[1])
        return middle - half, middle + half
    size = len(values)
    # Medians by their places among the sorted values: small numbers are sorted out faster than large ones.
    places = np.empty(size, np.int16)
    places[np.argsort(values)] = np.arange(size)
    lower, upper = (size - 1) // 2, size // 2
    drawn = np.partition(places[_drawn(size, seed)], (lower, upper), axis=1)
    ordered = np.sort(values)
    medians = (ordered[drawn[:, lower]] + ordered[drawn[:, upper]]) / 2
    farther = student_quantile(0.5 + confidence / 2, size - 1) * math.sqrt(size / (size - 1))
    outside = NormalDist().cdf(-farther)
    low, high = np.quantile(medians, [outside, 1 - outside])
    return float(low), float(high)


@functools.lru_cache(16)
def _drawn(size: int, seed: int) -> Places:
    """Return which of so many values each resample has; not to be changed."""
    return np.random.default_rng(seed).integers(0, size, (_RESAMPLES, size))


def _middles(columns: Sequence[Column],
             change: Callable[[int, Values, Places], Values] | None = None) -> tuple[Values, Values]:
    """Return the middles and standard errors of columns of the same sizes, on the last axis of both.

    `change` makes other values of those of a part: of its number, values of shape (columns, n) and their places.
    """
    middles: Values | None = None
    squares: Values | None = None
    for number in range(len(columns[0].parts)):
        values = np.stack([column.parts[number].values for column in columns])
        if change is not None:
            values = change(number, values, np.stack([column.parts[number].places for column in columns]))
        middle, error = trimmed(values)
        middles = middle if middles is None else middles - middle
        squares = error ** 2 if squares is None else squares + error ** 2
    assert middles is not None and squares is not None
    return middles, np.sqrt(squares)


def _pooled(errors: Values, scales: Values) -> Values:
    """Return standard errors of columns, on the last axis, drawn towards what is usual among them."""
    squares = (errors / scales) ** 2
    usual = np.median(squares, axis=-1, keepdims=True)
    return np.sqrt((1 - POOLED) * squares + POOLED * usual) * scales


def _critical(columns: Sequence[Column], centres: Values, scales: Values, error: float, seed: int) -> float:
    """Return what the largest studentized deviation of the columns exceeds with the probability `error`."""
    generator = np.random.default_rng(seed)
    count = min(max(_RESAMPLES, math.ceil(_BEYOND / error)), _MOST_RESAMPLES)
    parts = range(len(columns[0].parts))
    generations = [1 + max(int(column.parts[number].places.max()) for column in columns) for number in parts]
    own = [trimmed(np.stack([column.parts[number].values for column in columns]))[0] for number in parts]
    at_once = max(1, _AT_ONCE // (len(columns) * max(columns[0].sizes)))
    largest: list[Values] = []
    for begin in range(0, count, at_once):
        signs = [generator.choice(_SIGNS, (min(at_once, count - begin), size)) for size in generations]

        def flipped(number: int, values: Values, places: Places, signs: Sequence[Values] = signs) -> Values:
            return (values - own[number][:, None]) * signs[number][:, places]

        middles, errors = _middles(columns, flipped)
        errors = _pooled(errors, scales)
        # Where nothing scatters, either nothing deviates or all values do alike.
        ratios = np.divide(np.abs(middles), errors, out=np.where(middles == 0, 0.0, np.inf), where=errors > 0)
        largest.append(ratios.max(axis=1))
    return float(np.quantile(np.concatenate(largest), 1 - error, method="higher"))
