"""What all renderers share: what each one makes, neutralized names, numbers with their units, shortened text."""

from __future__ import annotations

import html
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from kernelscope.analysis.units import MISSING, size

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
    """Return text in which control, invisible and bidi characters are visible escapes of their codes."""
    return _UNSAFE.sub(_escape, str(text))


def clean_code(text: str) -> str:
    """Return lines of code as `clean` does, with their line breaks and tabs as they are."""
    return re.sub(r"[^\t\n]+", lambda found: clean(found.group()), text)


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


def dims(values: Sequence[int | None] | None) -> str:
    """Return a grid or block without trailing ones: ``256``, and 16 times 16; ``unknown`` for None."""
    kept = [each for each in values or () if each is not None]
    if not kept:
        return "unknown"
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
    """Return a range of bytes: ``4.0 KiB``, ``96 B to 4.0 KiB``."""
    if pair is None:
        return MISSING
    low, high = size(pair[0]), size(pair[1])
    return low if low == high else f"{low} to {high}"


def stream(handle: int | None, device: int | None = None) -> str:
    """Return a stream's handle as the CUDA driver names it, and its device where there are several."""
    if handle is None:
        return MISSING
    special = {0: "default", 1: "legacy default", 2: "per-thread default"}
    name = special.get(handle) or shorten(hex(handle), 12)
    return name if device is None else f"{name} on device {device}"


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


#: An attribute of a picture whose letters are as wide as `drawn_width` says; others are rounded to whole pixels.
EXACT_LETTERS = "text-rendering='geometricPrecision'"


def drawn_width(text: str, size: float, *, bold: bool = False) -> float:
    """Return how wide a text of a picture is at most: what is measured nowhere is taken to be in a wide font.

    Parameters
    ----------
    text : str
        One line.
    size : float
        The font's size in pixels.
    bold : bool
        Whether it is in bold type.

    Returns
    -------
    float
        Pixels: the width in DejaVu Sans. Verdana is as wide, and other fonts of screens are narrower.
    """
    advance = sum(_ADVANCES[ord(char) - 32] if " " <= char <= "~" else _OTHER_ADVANCES.get(char, 1000 * width_of(char))
                  for char in text)
    return advance * size / 1000 * (_BOLD if bold else 1.0)


def fitted(text: str, room: float, size: float, *, bold: bool = False) -> str:
    """Return text that takes at most `room` pixels of a picture, with an ellipsis in its middle where it was longer."""
    if drawn_width(text, size, bold=bold) <= room:
        return text
    # The lengths that fit come before those that do not.
    most = bisect_right(range(1, width_of(text)), room,
                        key=lambda width: drawn_width(shorten(text, width), size, bold=bold))
    return shorten(text, most)


# Of ASCII's printable characters, of others that pictures have often, and of bold letters over plain ones.
_ADVANCES = (
    318, 401, 460, 838, 636, 950, 780, 275, 390, 390, 500, 838, 318, 361, 318, 337, 636, 636, 636, 636, 636,
    636, 636, 636, 636, 636, 337, 337, 838, 838, 838, 531, 1000, 684, 686, 698, 770, 632, 575, 775, 752, 295,
    295, 656, 557, 863, 748, 787, 603, 787, 695, 635, 611, 732, 684, 989, 685, 611, 685, 390, 337, 390, 838,
    500, 500, 613, 635, 550, 635, 615, 352, 635, 634, 278, 278, 579, 278, 974, 634, 612, 635, 635, 411, 521,
    392, 634, 592, 818, 592, 592, 525, 636, 337, 636, 838,
)
_OTHER_ADVANCES = {"·": 318, "µ": 636, "×": 838}  # noqa: RUF001 - the sign of multiplication is meant
_BOLD = 1.16


def _fitting(text: str, width: int) -> str:
    taken = 0
    for at, char in enumerate(text):
        taken += width_of(char)
        if taken > width:
            return text[:at]
    return text
