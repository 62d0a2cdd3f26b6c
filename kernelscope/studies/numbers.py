"""Microseconds, percent and their intervals as a study prints them: with as many digits as the interval is worth."""

from __future__ import annotations

import math

from kernelscope.studies.measured import Difference, Estimate
from kernelscope.units import MISSING


def micros(value: float, half_width: float | None = None, *, signed: bool = False) -> str:
    """Return microseconds without their unit: ``4.10``; more digits where the value or its interval is small."""
    return _rounded(value, _decimals(abs(value) if half_width is None else half_width * 10), signed)


def difference(each: Difference) -> str:
    """Return a difference in microseconds, with its sign: ``+2.10``."""
    return micros(each.difference_us, _half(each.low_us, each.high_us), signed=True)


def difference_interval(each: Difference) -> str:
    """Return a difference's interval in microseconds: ``[+2.05, +2.15]``."""
    half = _half(each.low_us, each.high_us)
    return f"[{micros(each.low_us, half, signed=True)}, {micros(each.high_us, half, signed=True)}]"


def median(each: Estimate) -> str:
    """Return a median in microseconds: ``4.10``."""
    return micros(each.median_us, _half(each.low_us, each.high_us))


def median_interval(each: Estimate) -> str:
    """Return a median's interval in microseconds: ``[4.05, 4.15]``."""
    half = _half(each.low_us, each.high_us)
    return f"[{micros(each.low_us, half)}, {micros(each.high_us, half)}]"


def difference_percent(each: Difference, *, signed: bool = False) -> str:
    """Return a difference in percent of the baseline: ``51.2 %``; without `signed`, how large it is."""
    return f"{share(each.percent if signed else abs(each.percent), signed=signed)} %"


def percent_interval(each: Difference) -> str:
    """Return a difference's interval in percent: ``[+50.0, +52.4] %``."""
    return f"[{share(each.low_percent, signed=True)}, {share(each.high_percent, signed=True)}] %"


def share(value: float, *, signed: bool = False) -> str:
    """Return percent without the sign of percent: ``51.2``; whole numbers from 1000."""
    return _rounded(value, 0 if abs(value) >= 999.95 else 1, signed)


def plain_share(value: float) -> str:
    """Return percent in the form of the table of the field: ``+51.2%``."""
    return f"{share(value, signed=True)}%" if math.isfinite(value) else "?"


def _rounded(value: float, decimals: int, signed: bool) -> str:
    if math.isnan(value):
        return MISSING
    if math.isinf(value):
        return "+∞" if value > 0 else "-∞"
    text = f"{value:{'+' if signed else ''},.{decimals}f}"
    # Minus nothing is nothing.
    return text if any(digit in text for digit in "123456789") else text.lstrip("+-")


def _decimals(scale: float) -> int:
    """Two, and more where the interval, of which a tenth is to be seen, or the value is small."""
    if not math.isfinite(scale) or scale >= 0.1 or scale <= 0:
        return 2
    return min(2 + math.ceil(math.log10(0.1 / scale)), 5)


def _half(low: float, high: float) -> float:
    return (high - low) / 2
