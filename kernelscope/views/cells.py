"""The table of all recorded cells: for ``%kernelscope cells`` and ``kernelscope show --cells``."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from kernelscope.analysis.launches import PHASES, CellSummary, by_cell
from kernelscope.recording.model import Recording
from kernelscope.recording.redact import shareable
from kernelscope.units import MISSING
from kernelscope.views.base import INDENT, clean, escape, shorten, table
from kernelscope.views.html import heading, style, style_element, table_of

_HEADERS = ("cell", "launches", "kernels", "compiles", "hits", *(f"{phase} ms" for phase in PHASES), "host ms",
            "errors", "status")
_LABEL_WIDTH = 40


def cells_text(recordings: Sequence[Recording]) -> str:
    """Return one line a cell: launches, kernels, compiles, cache hits, host ms by phase, launches that raised, status.

    Hits are launches and compiles whose specialization was in memory or in the disk cache. What every output of a
    dry run or of the simulator must say stands first.
    """
    notices, rows = _shown(recordings)
    text = table(_HEADERS, rows, sys.maxsize, left=(0, len(_HEADERS) - 1))
    return "\n".join([*(f"*** {clean(notice)} ***" for notice in notices), *map(_without_indent, text.split("\n"))])


def cells_card(recordings: Sequence[Recording]) -> str:
    """Return the same table as a self-contained fragment of HTML, for notebooks."""
    notices, rows = _shown(recordings)
    left = (0, len(_HEADERS) - 1)
    columns = [("", header.removesuffix(" ms"), "ms" if header.endswith(" ms") else "") for header in _HEADERS]
    body = ["".join(f'<td class="ks-left">{escape(text)}</td>' if place in left else f"<td>{escape(text)}</td>"
                    for place, text in enumerate(row)) for row in rows]
    notes = "".join(f'<div class="ks-notice">{escape(notice)}</div>' for notice in notices)
    inside = f'{notes}{heading("Recorded cells")}{table_of(columns, body, left=left, dense=True)}'
    return f'{style_element(style())}<div class="kscope">{inside}</div>'


def _shown(recordings: Sequence[Recording]) -> tuple[list[str], list[tuple[str, ...]]]:
    """Return what must be said of the recordings, each once, and a row for each cell."""
    notices = dict.fromkeys(recording.notice for recording in recordings if recording.notice)
    return [*notices], [_columns(cell) for recording in recordings for cell in by_cell(shareable(recording))]


def _without_indent(line: str) -> str:
    return line.removeprefix(INDENT)


def _columns(cell: CellSummary) -> tuple[str, ...]:
    phases = [_milliseconds(cell.totals.phase(name)) for name in PHASES]
    return (
        shorten(clean(cell.label), _LABEL_WIDTH), f"{cell.launches:,}", f"{cell.kernels:,}", f"{cell.compiles:,}",
        f"{cell.memory_hits + cell.disk_hits:,}", *phases, _milliseconds(cell.totals.host_ns),
        f"{cell.errors + cell.failed_compiles:,}", clean(cell.status),
    )


def _milliseconds(value: int | None) -> str:
    return MISSING if value is None else f"{value / 1e6:,.3f}"
