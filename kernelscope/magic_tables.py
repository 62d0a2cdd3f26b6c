"""Finding one of the recorded cells or graphs: for ``%kernelscope``, and for the command line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kernelscope.analysis.graph_nodes import known_graphs
from kernelscope.errors import UnknownCellError, UnknownGraphError
from kernelscope.recording.model import Recording
from kernelscope.recording.select import select_cell
from kernelscope.renderers.base import clean, shorten
from kernelscope.suggestions import did_you_mean

if TYPE_CHECKING:
    from kernelscope.widgets.graph import GraphWidget

_LABEL_WIDTH = 40


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
    if wanted is None:
        raise UnknownCellError(f"no recorded cell: {listed}")
    names = {str(row["name"]) for recording in recordings for row in recording.rows("cells") if row["name"]}
    raise UnknownCellError(f"no recorded cell {wanted!r}; known: {listed}{did_you_mean(wanted, sorted(names))}")


def newest_graph(recordings: Sequence[Recording], wanted: str | None = None) -> GraphWidget:
    """Return the picture of a graph of the newest recording that has one.

    Parameters
    ----------
    recordings : sequence of Recording
        Where to look, the oldest first.
    wanted : str, optional
        The graph's row in the table ``graphs``; without it, the only graph.

    Raises
    ------
    UnknownGraphError
        There is no such graph, or several and none was named; the message lists those that there are.
    """
    from kernelscope.widgets.graph import GraphWidget

    found = next((each for each in reversed(recordings) if each.arrow("graphs").num_rows), None)
    if found is None:
        raise UnknownGraphError("no recorded graph: no cell that was recorded built or launched a CUDA graph")
    if wanted is not None and not wanted.isdecimal():
        raise UnknownGraphError(f"{wanted!r} is no graph's number; {known_graphs(found)}")
    return GraphWidget(found, None if wanted is None else int(wanted))


def _known(row: dict[str, object]) -> str:
    number = "" if row["execution_count"] is None else str(row["execution_count"])
    name = "" if row["name"] is None else repr(clean(shorten(str(row["name"]), _LABEL_WIDTH)))
    return f"{number} ({name})" if number and name else number or name or "a cell without a name"
