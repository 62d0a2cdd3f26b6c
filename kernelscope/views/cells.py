"""The table of all recorded cells: for ``%kernelscope cells`` and ``kernelscope show --cells``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kernelscope.analysis.activities import is_gpu_recorded
from kernelscope.analysis.gpu import gpu_summary
from kernelscope.analysis.launches import PHASES, CellSummary, by_cell
from kernelscope.recording.model import Recording
from kernelscope.recording.redact import shareable
from kernelscope.units import MISSING, counted, duration
from kernelscope.views.base import INDENT, clean, columns, escape, shorten, table, width_of
from kernelscope.views.card.blocks import Row, Table
from kernelscope.views.card.sections import cell_row, cells_table

_LABEL_WIDTH = 40


def cells_text(recordings: Sequence[Recording], width: int | None = None) -> str:
    """Return the cells with the figures that their cards have, and host time by phase below them.

    Where the terminal is too narrow for a table, each cell's figures are in lines below its name. What every output of
    a dry run or of the simulator must say stands first.

    Parameters
    ----------
    recordings : sequence of Recording
        What was recorded.
    width : int, optional
        Columns to keep to, at least 60; without it the terminal's, between 80 and 120.
    """
    notices, block = _shown(recordings)
    room = columns(width)
    names = [shorten(clean(row.name), _LABEL_WIDTH) for row in block.rows]
    values = [[clean(row.values[each.key]) for each in block.terminal] for row in block.rows]
    phases = [_pairs([(name, row.values[name]) for name in PHASES if row.values[name] not in (MISSING, duration(0))],
                     room - 2 * len(INDENT)) for row in block.rows]
    labels = [each.label for each in block.terminal]
    lines = table(["cell", *labels], [[name, *row] for name, row in zip(names, values, strict=True)], room,
                  left=(0, len(labels)), below=phases).split("\n")
    if max(map(width_of, lines)) > room:
        said = [_pairs(zip(labels, row, strict=True), room - len(INDENT)) for row in values]
        lines = [line for name, own, more in zip(names, said, phases, strict=True)
                 for line in (name, *(INDENT + text for text in own), *(INDENT * 2 + text for text in more))]
    else:
        lines = [line.removeprefix(INDENT) for line in lines]
    return "\n".join([*(f"*** {clean(notice)} ***" for notice in notices), *lines])


def _pairs(pairs: Iterable[tuple[str, str]], width: int) -> list[str]:
    """Return names with their values in lines of at most `width` columns, of which none ends within a value."""
    lines: list[str] = []
    for name, value in pairs:
        text = f"{name} {value}"
        if lines and width_of(lines[-1]) + width_of(text) + 3 <= width:
            lines[-1] += f", {text}"
        else:
            lines = [*lines[:-1], *([f"{lines[-1]},"] if lines else []), text]
    return lines


def cells_card(recordings: Sequence[Recording]) -> str:
    """Return the same table as a self-contained fragment of HTML, for notebooks: a row leads to its cell's card."""
    from kernelscope.views.card.html import printed_table  # what prints text needs no HTML
    from kernelscope.views.html import heading, style, style_element

    notices, block = _shown(recordings)
    notes = "".join(f'<div class="ks-notice" role="note">{escape(notice)}</div>' for notice in notices)
    inside = f'{notes}{heading("Recorded cells", counted(len(block.rows), "cell"))}{printed_table(block)}'
    return f'{style_element(style())}<div class="kscope ks-cells">{inside}</div>'


def _shown(recordings: Sequence[Recording]) -> tuple[list[str], Table]:
    """Return what must be said of the recordings, each once, and the table with a row for each cell."""
    notices = dict.fromkeys(recording.notice for recording in recordings if recording.notice)
    rows: list[Row] = []
    gpu = compiled = False
    for recording in map(shareable, recordings):
        summary = gpu_summary(recording) if is_gpu_recorded(recording) else None
        busy = {} if summary is None else summary.by_cell
        begun = {row["cell_id"]: row["start_ns"] for row in recording.rows("cells")}
        cells = by_cell(recording)
        rows += [cell_row(each, None if each.cell_id is None else busy.get(each.cell_id), *_link(each, begun),
                          is_imported=recording.is_imported) for each in cells]
        gpu, compiled = gpu or summary is not None, compiled or any(each.totals.compile_ns for each in cells)
    return [*notices], cells_table(rows, is_gpu=gpu, is_compiled=compiled)


def _link(cell: CellSummary, begun: dict[int, int]) -> tuple[str, str]:
    """Return what a row leads to: the cell's card, or the line that shows it; nothing for launches between cells."""
    if cell.cell_id is None:
        return "", ""
    return f"card:{begun[cell.cell_id]}", f"%kernelscope report {cell.wanted}" if cell.wanted else ""
