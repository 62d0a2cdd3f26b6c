"""What the card's parts are made of: headings, bars, names, tables and folded parts. Everything is escaped here."""

from __future__ import annotations

import re
from collections.abc import Sequence

from kernelscope.analysis.units import duration, percent
from kernelscope.renderers.base import clean, escape

#: A name's end that stays in sight when its middle is cut off.
_TAIL = 14
_QUOTED = re.compile(r"`([^`<>]+)`")
_LEFT = ' class="ks-left"'


def heading(text: str, note: str = "") -> str:
    """Return a part's heading. It is no <h4>: JupyterLab lists those in its table of contents."""
    more = f" <span>{escape(note)}</span>" if note else ""
    return f'<div class="ks-head" role="heading" aria-level="4">{escape(text)}{more}</div>'


def bar(segments: Sequence[tuple[str, int]], whole: int, kind: str, prefix: str = "") -> str:
    """Return a bar of named parts of a whole: exact numbers are its tooltips, and its text for screen readers."""
    pieces: list[str] = []
    labels: list[str] = []
    for name, value in segments:
        label = f"{prefix}{name} {duration(value)} ({value:,} ns, {percent(value / whole if whole else None)})"
        labels.append(label)
        pieces.append(f'<span class="ks-{name}" style="flex:{value} 1 0" title="{escape(label)}"></span>')
    return f'<div class="{kind}" role="img" aria-label="{escape(", ".join(labels))}">{"".join(pieces)}</div>'


def name_of(text: str) -> str:
    """Return a name that gives way in its middle where it has too little room; its title has all of it."""
    shown = clean(text)
    if len(shown) <= 2 * _TAIL:
        return f'<span class="ks-name" title="{escape(text)}"><span>{escape(shown)}</span></span>'
    return (
        f'<span class="ks-name" title="{escape(text)}"><span>{escape(shown[:-_TAIL])}</span>'
        f"<span>{escape(shown[-_TAIL:])}</span></span>"
    )


def sentence(text: str) -> str:
    """Return a sentence of the analysis, in which names in `backticks` are set as code."""
    return _QUOTED.sub(r'<span class="ks-arg">\1</span>', escape(text))


def two(value: str, below: str) -> str:
    """Return a table's cell of two lines."""
    return f"<td>{escape(value)} <small>{escape(below)}</small></td>"


def table_of(
    columns: Sequence[tuple[str, str, str]], rows: Sequence[str], *, left: Sequence[int] = (0,), dense: bool = False,
) -> str:
    """Return a table of the card's kind.

    Columns are (class of width, label, label of the line below); rows are cells that are already HTML. A column is
    as wide as its class says, and wider where its numbers need it; the others share what is left.
    """
    widths = "".join(f'<col class="ks-{width}">' if width else "<col>" for width, _, _ in columns)
    labels = "".join(
        f"<th{_LEFT if place in left else ''}>{escape(label)}"
        + (f" <small>{escape(below)}</small>" if below else "") + "</th>"
        for place, (_, label, below) in enumerate(columns)
    )
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    kind = "ks-table" + (" ks-dense" if dense else "")
    return (
        f'<div class="ks-x"><table class="{kind}"><colgroup>{widths}</colgroup><thead><tr>{labels}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def folded(summary: str, inside: str, is_open: bool = False) -> str:
    """Return a part that is folded, or can be; the texts are HTML."""
    return f'<details{" open" * is_open}><summary>{summary}</summary><div class="ks-scroll">{inside}</div></details>'


def left_out(total: int, shown: int) -> str:
    """Return how many rows a table lacks, if any."""
    return f'<div class="ks-soft">and {total - shown:,} more</div>' if total > shown else ""
