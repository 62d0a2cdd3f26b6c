"""What all renderers share: what each one makes, neutralized names, numbers with their units, shortened text."""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

#: What stands for a value that was not recorded.
MISSING = "–"  # noqa: RUF001 - a dash, as tables print it

# Control characters (terminal escape sequences begin with one), line separators, invisible characters and bidi
# overrides, which show a name as something that it is not; and halves of surrogate pairs, which no output encodes.
_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)
_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_ELLIPSIS = "…"


@dataclass(frozen=True)
class Makes:
    """What a renderer makes.

    Attributes
    ----------
    media_type : str
        Such as ``text/html``.
    suffix : str
        Of a file of it, such as ``.html``.
    """

    media_type: str
    suffix: str


def clean(text: object) -> str:
    """Return text in which control, invisible and bidi characters are visible escapes, such as ``\\x1b``."""
    return _UNSAFE.sub(_escape, str(text))


def escape(text: object) -> str:
    """Return text as it can stand in HTML, in an element or in a quoted attribute: cleaned and escaped."""
    return html.escape(clean(text), quote=True)


def _escape(found: re.Match[str]) -> str:
    char = found.group()
    if char in _NAMED:
        return _NAMED[char]
    code = ord(char)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def count(value: float | None) -> str:
    """Return a count: ``1,234``."""
    return MISSING if value is None else f"{round(value):,}"


def counted(value: int, noun: str, plural: str | None = None) -> str:
    """Return a count with its noun: ``1 launch``, ``1,234 launches``."""
    return f"{value:,} {noun if value == 1 else plural or noun + 's'}"


def duration(value: float | None) -> str:
    """Return nanoseconds in the unit that suits: ``850 ns``, ``12.3 µs``, ``1.23 ms``, ``4.56 s``."""
    if value is None:
        return MISSING
    if round(value) < 1000:
        return f"{round(value)} ns"
    for scale, unit in ((1e3, "µs"), (1e6, "ms")):
        text = _three_digits(value / scale)
        if float(text) < 1000:
            return f"{text} {unit}"
    seconds = value / 1e9
    return f"{_three_digits(seconds)} s" if seconds < 1000 else f"{seconds:,.0f} s"


def size(value: float | None) -> str:
    """Return bytes in the unit that suits: ``96 B``, ``4.1 KiB``."""
    if value is None:
        return MISSING
    if value < 1024:
        return f"{round(value)} B"
    for unit in ("KiB", "MiB"):
        value /= 1024
        if value < 1023.95:
            return f"{value:,.1f} {unit}"
    return f"{value / 1024:,.1f} GiB"


def percent(share: float | None) -> str:
    """Return a share of 1 in percent: ``0.4 %``, ``62 %``."""
    if share is None:
        return MISSING
    value = share * 100
    if 0 < value < 0.1:
        return "< 0.1 %"
    return f"{value:.1f} %" if value < 9.95 and value != 0 else f"{value:,.0f} %"


def dims(values: Sequence[int]) -> str:
    """Return a grid or block without trailing ones: ``256``, ``16 × 16``."""
    kept = list(values)
    while len(kept) > 1 and kept[-1] == 1:
        kept.pop()
    return " × ".join(f"{each:,}" for each in kept)  # noqa: RUF001 - the sign of multiplication is meant


def span(pair: tuple[float, float] | None, unit: str = "") -> str:
    """Return a range of whole numbers: ``32``, ``32 to 40``."""
    if pair is None:
        return MISSING
    low, high = (f"{round(each):,}" for each in pair)
    return f"{low}{unit}" if low == high else f"{low} to {high}{unit}"


def percents(pair: tuple[float, float] | None) -> str:
    """Return a range of shares in whole percent: ``50 to 75 %``."""
    return span(None if pair is None else (pair[0] * 100, pair[1] * 100), " %")


def sizes(pair: tuple[int, int] | None) -> str:
    """Return a range of bytes: ``1.0 to 4.0 KiB`` as ``1.0 KiB to 4.0 KiB``."""
    if pair is None:
        return MISSING
    low, high = size(pair[0]), size(pair[1])
    return low if low == high else f"{low} to {high}"


def stream(handle: int | None) -> str:
    """Return a stream's handle as the CUDA driver names it."""
    if handle is None:
        return MISSING
    special = {0: "default", 1: "legacy default", 2: "per-thread default"}
    return special.get(handle) or hex(handle)


def width_of(text: str) -> int:
    """Return how many columns of a terminal the text takes."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.category(char) in ("Mn", "Me", "Cf")
        else 2 if unicodedata.east_asian_width(char) in "WF" else 1
        for char in text
    )


def shorten(text: str, width: int) -> str:
    """Return text that takes at most `width` columns, with an ellipsis in its middle where it was longer."""
    if width_of(text) <= width:
        return text
    if width <= 1:
        return _ELLIPSIS[:width]
    tail_width = (width - 1) // 2
    head = _fitting(text, width - 1 - tail_width)
    tail = _fitting(text[::-1], tail_width)[::-1]
    return f"{head}{_ELLIPSIS}{tail}"


def _fitting(text: str, width: int) -> str:
    taken = 0
    for at, char in enumerate(text):
        taken += width_of(char)
        if taken > width:
            return text[:at]
    return text


def _three_digits(value: float) -> str:
    """A number below 1000 with three digits that count; 1000 where it rounds up to that."""
    for decimals, limit in ((2, 9.995), (1, 99.95)):
        if value < limit:
            return f"{value:.{decimals}f}"
    return f"{value:.0f}"
