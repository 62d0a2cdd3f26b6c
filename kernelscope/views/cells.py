"""The table of all recorded cells: for ``%kernelscope cells`` and ``kernelscope show --cells``."""

from __future__ import annotations

from collections.abc import Sequence

from kernelscope.analysis.launches import PHASES, CellSummary, by_cell
from kernelscope.recording.model import Recording
from kernelscope.recording.redact import shareable
from kernelscope.units import MISSING
from kernelscope.views.base import clean, escape, shorten, width_of
from kernelscope.views.html import heading, style, table_of

_HEADERS = ("cell", "launches", "kernels", "compiles", "hits", *(f"{phase} ms" for phase in PHASES), "host ms",
            "errors", "status")
_LABEL_WIDTH = 40


def cells_text(recordings: Sequence[Recording]) -> str:
    """Return one line a cell: launches, kernels, compiles, cache hits, host ms by phase, launches that raised, status.

    Hits are launches and compiles whose specialization was in memory or in the disk cache. What every output of a
    dry run or of the simulator must say stands first.
    """
    notices = dict.fromkeys(recording.notice for recording in recordings if recording.notice)
    rows = [_columns(cell) for recording in recordings for cell in by_cell(shareable(recording))]
    lines = [f"*** {clean(notice)} ***" for notice in notices]
    return "\n".join([*lines, *_aligned([_HEADERS, *rows])])


def cells_card(recordings: Sequence[Recording]) -> str:
    """Return the same table as a self-contained fragment of HTML, for notebooks."""
    notices = dict.fromkeys(recording.notice for recording in recordings if recording.notice)
    rows = [_columns(cell) for recording in recordings for cell in by_cell(shareable(recording))]
    last = len(_HEADERS) - 1
    columns = [("", header.removesuffix(" ms"), "ms" if header.endswith(" ms") else "")
               for header in _HEADERS]
    body = [
        "".join(f'<td class="ks-left">{escape(text)}</td>' if place in (0, last) else f"<td>{escape(text)}</td>"
                for place, text in enumerate(row))
        for row in rows
    ]
    notes = "".join(f'<div class="ks-notice">{escape(notice)}</div>' for notice in notices)
    table = table_of(columns, body, left=(0, last), dense=True)
    return f'<style>{style()}</style><div class="kscope">{notes}{heading("Recorded cells")}{table}</div>'


def _columns(cell: CellSummary) -> tuple[str, ...]:
    phases = [_milliseconds(cell.totals.phase(name)) for name in PHASES]
    return (
        shorten(clean(cell.label), _LABEL_WIDTH), f"{cell.launches:,}", f"{cell.kernels:,}", f"{cell.compiles:,}",
        f"{cell.memory_hits + cell.disk_hits:,}", *phases, _milliseconds(cell.totals.host_ns),
        f"{cell.errors + cell.failed_compiles:,}", clean(cell.status),
    )


def _milliseconds(value: int | None) -> str:
    return MISSING if value is None else f"{value / 1e6:,.3f}"


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Align columns: numbers right, the first and the last column left."""
    widths = [max(width_of(row[place]) for row in rows) for place in range(len(rows[0]))]
    lines: list[str] = []
    for row in rows:
        cells = [" " * (width - width_of(text)) + text for text, width in zip(row, widths, strict=True)]
        cells[0] = row[0] + " " * (widths[0] - width_of(row[0]))
        cells[-1] = row[-1]
        lines.append("  ".join(cells).rstrip())
    return lines
