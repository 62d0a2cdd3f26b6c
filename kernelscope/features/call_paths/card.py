"""The section of the card: a flame graph on a page, the heaviest frames on a terminal."""

from __future__ import annotations

from functools import partial

from kernelscope.features.call_paths.flame import LABELS, flame_of
from kernelscope.features.call_paths.svg import element
from kernelscope.features.call_paths.text import rest, rows
from kernelscope.units import count
from kernelscope.views.card.blocks import FIRST_ROWS, Drawing, Row, Section, Table, TerminalColumn
from kernelscope.views.card.model import Overview


def section(overview: Overview) -> Section | None:
    """Return the call paths; None where nothing was launched, compiled or given to the GPU."""
    flame = overview.result(flame_of)
    if flame is None:
        return None
    frames = [Row(label, dict(zip(flame.metrics, values, strict=True)), depth=depth)
              for depth, label, values in rows(flame, FIRST_ROWS)]
    columns = tuple(TerminalColumn(LABELS[name].lower(), name) for name in flame.metrics)
    table = Table(("call path", ""), tuple(frames), terminal=columns, more=rest(flame, len(frames)))
    return Section("call_paths", "Call paths", count(flame.paths), (Drawing(partial(element, flame)), table),
                   "a flame graph: functions of Python below their callers, down to the kernels that they launched")
