"""Numbers with their units, and names in brief, as text and tables print them."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

#: Shown for a value that was not recorded, and for what is no number.
MISSING = "–"  # noqa: RUF001 - a dash, as tables print it

_TOKENS = r"[<>()]|[^<>()]+"
_MOST_LETTERS = 20_000
_NAME = 40


def count(value: float | None) -> str:
    """Return a count: ``1,234``."""
    return _special(value) if value is None or not math.isfinite(value) else f"{round(value):,}"


def counted(value: int, noun: str, plural: str | None = None) -> str:
    """Return a count with its noun: ``1 launch``, ``1,234 launches``."""
    return f"{value:,} {noun if value == 1 else plural or noun + 's'}"


def listed(texts: Sequence[str], most: int = 3, more: int | None = None, between: str = ", ") -> str:
    """Return the first few of some texts and how many more there are: ``a, b, c and 2 more``.

    `more` is the number left out where the texts are those to show already.
    """
    left = len(texts) - most if more is None else more
    mark = "" if between == ", " else between.rstrip()
    return between.join(texts[:most]) + (f"{mark} and {left:,} more" if left > 0 else "")


def duration(value: float | None) -> str:
    """Return nanoseconds in the unit that suits: ``850 ns``, ``12.3 µs``, ``-1.23 ms``, ``4.56 s``."""
    if value is None or not math.isfinite(value):
        return _special(value)
    sign, value = _signed(value, 0.5)
    if round(value) < 1000:
        return f"{sign}{round(value)} ns"
    for scale, unit in ((1e3, "µs"), (1e6, "ms")):
        text = _three_digits(value / scale)
        if float(text) < 1000:
            return f"{sign}{text} {unit}"
    seconds = value / 1e9
    return f"{sign}{_three_digits(seconds)} s" if seconds < 1000 else f"{sign}{seconds:,.0f} s"


def size(value: float | None) -> str:
    """Return bytes in the unit that suits: ``96 B``, ``4.1 KiB``, ``-2.0 MiB``."""
    if value is None or not math.isfinite(value):
        return _special(value)
    sign, value = _signed(value, 0.5)
    if round(value) < 1024:
        return f"{sign}{round(value)} B"
    for unit in ("KiB", "MiB"):
        value /= 1024
        if value < 1023.95:
            return f"{sign}{value:,.1f} {unit}"
    return f"{sign}{value / 1024:,.1f} GiB"


def percent(share: float | None) -> str:
    """Return a share of 1 in percent: ``0.4 %``, ``-62 %``; of what is next to nothing ``< 0.1 %`` or ``> -0.1 %``."""
    if share is None or not math.isfinite(share):
        return _special(share)
    sign, value = _signed(share * 100)
    if 0 < value < 0.1:
        return "> -0.1 %" if sign else "< 0.1 %"
    return f"{sign}{value:.1f} %" if value < 9.95 and value != 0 else f"{sign}{value:,.0f} %"


def scaled(value: float | None, unit: str) -> str:
    """Return a number of some unit with the decimal prefix that suits: ``2.16 TB/s``, ``51.2 GFLOP/s``."""
    if value is None or not math.isfinite(value):
        return _special(value)
    sign, value = _signed(value, 0.005)
    for prefix in ("", "k", "M", "G", "T"):
        text = _three_digits(value)
        if float(text) < 1000:
            return f"{sign}{text} {prefix}{unit}"
        value /= 1000
    return f"{sign}{value:,.0f} P{unit}"


def cut(name: str) -> str:
    """Return a name from user code, cut in the middle where it is long."""
    return name if len(name) <= _NAME else f"{name[:_NAME // 2]}…{name[-_NAME // 2:]}"


def short_name(name: str) -> str:
    """Return a kernel's name without its return type, scopes, template arguments and parameters."""
    held = name[:_MOST_LETTERS]
    if "<locals>." in held:
        return held.rpartition("<locals>.")[2]
    if "::" not in held and "(" not in held and "<" not in held and not held.startswith("void "):
        return held
    kept, depth = "", 0
    for token in re.findall(_TOKENS, held.replace("(anonymous namespace)::", "")):
        if token in "<(":
            depth += 1
        elif token in ">)":
            depth = max(depth - 1, 0)
        elif not depth:
            kept += token
    return kept.strip().rpartition(" ")[2].rpartition("::")[2] or held


def brief(message: str, lines: int = 3) -> str:
    """Return the first lines of a message as one line; numba's messages go on for pages."""
    said = [" ".join(line.split()) for line in message.splitlines() if line.strip()]
    return " ".join(said[:lines]) + (" ..." if len(said) > lines else "")


def _special(value: float | None) -> str:
    """Return what stands for what is unknown, no number, or infinite."""
    return MISSING if value is None or math.isnan(value) else "∞" if value > 0 else "-∞"


def _signed(value: float, least: float = 0) -> tuple[str, float]:
    """Return the sign and the amount; what is not more than `least` is printed as a zero, which has no sign."""
    return "-" if value < -least else "", abs(value)


def _three_digits(value: float) -> str:
    """Return a positive number below 1000 with three significant digits; 1000 where it rounds up to that."""
    for decimals, limit in ((2, 9.995), (1, 99.95)):
        if value < limit:
            return f"{value:.{decimals}f}"
    return f"{value:.0f}"


def by_numbers(text: str) -> tuple[tuple[str, int], ...]:
    """Return what sorts texts with numbers in them by these: node2 before node10."""
    return tuple((word, int(number or 0)) for word, number in re.findall(r"(\D*)(\d{0,18})", text)[:-1])
