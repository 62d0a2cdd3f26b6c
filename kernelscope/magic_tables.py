"""The table of recorded cells, and finding one of them: for ``%kernelscope``, and for the command line."""

from __future__ import annotations

from collections.abc import Sequence

from kernelscope.analysis.cells import CellSummary, by_cell
from kernelscope.analysis.phases import PHASES
from kernelscope.analysis.units import MISSING
from kernelscope.errors import UnknownCellError
from kernelscope.recording.model import Recording
from kernelscope.recording.select import select_cell
from kernelscope.renderers.base import clean, shorten, width_of

_HEADERS = ("cell", "launches", "kernels", "compiles", "hits", *(f"{phase} ms" for phase in PHASES), "host ms",
            "errors", "status")
_LABEL_WIDTH = 40


def cells_table(recordings: Sequence[Recording]) -> str:
    """Return one line a cell: launches, kernels, compiles, cache hits, host ms by phase, launches that raised, status.

    Hits are launches and compiles whose specialization was in memory or in the disk cache. What every output of a
    dry run or of the simulator must say stands first.
    """
    notices = dict.fromkeys(recording.notice for recording in recordings if recording.notice)
    rows = [_columns(cell) for recording in recordings for cell in by_cell(recording)]
    lines = [f"*** {clean(notice)} ***" for notice in notices]
    return "\n".join([*lines, *_aligned([_HEADERS, *rows])])


def find_cell(recordings: Sequence[Recording], wanted: str | None = None) -> Recording:
    """Return the recording of one cell, the newest that fits.

    Parameters
    ----------
    recordings : sequence of Recording
        Where to look, the oldest first.
    wanted : str, optional
        The cell's execution count or name; without it, the newest recording.

    Raises
    ------
    UnknownCellError
        There is no such cell; the message lists those that there are.
    """
    if wanted is None and recordings:
        return recordings[-1]
    for recording in reversed(recordings):
        cells = recording.rows("cells")
        for row in reversed(cells):
            if wanted in (str(row["execution_count"]), row["name"]):
                return recording if len(cells) == 1 else select_cell(recording, row["cell_id"])
    known = dict.fromkeys(_known(row) for recording in recordings for row in recording.rows("cells"))
    listed = ", ".join(known) or "none, since nothing was recorded yet"
    raise UnknownCellError(f"no recorded cell {wanted!r}; known: {listed}" if wanted else f"no recorded cell: {listed}")


def _known(row: dict[str, object]) -> str:
    number = "" if row["execution_count"] is None else str(row["execution_count"])
    name = "" if row["name"] is None else repr(clean(shorten(str(row["name"]), _LABEL_WIDTH)))
    return f"{number} ({name})" if number and name else number or name or "a cell without a name"


def _columns(cell: CellSummary) -> tuple[str, ...]:
    phases = [_milliseconds(cell.totals.phase(name)) for name in PHASES]
    return (
        shorten(clean(cell.label), _LABEL_WIDTH), f"{cell.launches:,}", f"{cell.kernels:,}", f"{cell.compiles:,}",
        f"{cell.memory_hits + cell.disk_hits:,}", *phases, _milliseconds(cell.totals.host_ns),
        f"{cell.errors + cell.failed_compiles:,}", cell.status,
    )


def _milliseconds(value: int | None) -> str:
    return MISSING if value is None else f"{value / 1e6:,.3f}"


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Numbers stand at the right of their column; the first and the last column are words."""
    widths = [max(width_of(row[place]) for row in rows) for place in range(len(rows[0]))]
    lines: list[str] = []
    for row in rows:
        cells = [" " * (width - width_of(text)) + text for text, width in zip(row, widths, strict=True)]
        cells[0] = row[0] + " " * (widths[0] - width_of(row[0]))
        cells[-1] = row[-1]
        lines.append("  ".join(cells).rstrip())
    return lines
