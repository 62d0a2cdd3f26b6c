"""Tables and paragraphs of text for a terminal: aligned columns, wrapped lines."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Sequence

from kernelscope.analysis.units import counted
from kernelscope.renderers.base import clean, shorten, width_of

INDENT = "  "


def table(
    headers: Sequence[str], rows: Sequence[Sequence[str]], width: int, *, left: Sequence[int] = (0,),
    flexible: int = 0, below: Sequence[Sequence[str]] | None = None, above: Sequence[str] | None = None,
) -> str:
    """Return aligned columns: numbers right, those in `left` left; the `flexible` one gives way where it is too wide.

    Lines of `below` come below their row, further in. A line of `above` comes above its row; an empty one does not.
    """
    widths = [
        max(width_of(header), *(width_of(row[place]) for row in rows)) if rows else width_of(header)
        for place, header in enumerate(headers)
    ]
    others = sum(each for place, each in enumerate(widths) if place != flexible)
    room = width - len(INDENT) - others - 2 * (len(widths) - 1)
    widths[flexible] = max(min(widths[flexible], room), min(widths[flexible], 12))

    def line(cells: Sequence[str]) -> str:
        padded: list[str] = []
        for place, cell in enumerate(cells):
            text = shorten(cell, widths[place])
            gap = " " * (widths[place] - width_of(text))
            padded.append(text + gap if place in left else gap + text)
        return (INDENT + "  ".join(padded)).rstrip()

    lines = [line(headers)]
    for place, row in enumerate(rows):
        if above is not None and above[place]:
            lines.append(INDENT + shorten(above[place], width - len(INDENT)))
        lines.append(line(row))
        if below is not None:
            lines += [INDENT * 2 + text for text in below[place]]
    return "\n".join(lines)


def rest(total: int, shown: int, noun: str) -> str:
    """Return the line that says how many are left out, behind a line break, or an empty string."""
    return f"\n{INDENT}and {counted(total - shown, f'more {noun}')}" if total > shown else ""


def wrap(text: str, width: int, indent: int = 0, hanging: int = 5) -> str:
    """Return text in lines of at most `width` columns, those after the first `hanging` columns further in."""
    return textwrap.fill(
        text, width, initial_indent=" " * indent, subsequent_indent=" " * (indent + hanging),
        break_on_hyphens=False,
    )


def with_notice(notice: str, text: str) -> str:
    """Return text below what every output of its recording must say."""
    return f"*** {clean(notice)} ***\n{text}" if notice else text


def columns(width: int | None) -> int:
    """Return the columns to keep to, at least 60; without a wish the terminal's, between 80 and 120."""
    if width is not None:
        return max(width, 60)
    return min(max(shutil.get_terminal_size((100, 24)).columns, 80), 120)
