"""Finding one of the recorded cells: for ``%kernelscope``, and for the command line."""

from __future__ import annotations

from collections.abc import Sequence

from kernelscope.errors import UnknownCellError
from kernelscope.recording.model import Recording
from kernelscope.recording.select import select_cell
from kernelscope.renderers.base import clean, shorten

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
    raise UnknownCellError(f"no recorded cell {wanted!r}; known: {listed}")


def _known(row: dict[str, object]) -> str:
    number = "" if row["execution_count"] is None else str(row["execution_count"])
    name = "" if row["name"] is None else repr(clean(shorten(str(row["name"]), _LABEL_WIDTH)))
    return f"{number} ({name})" if number and name else number or name or "a cell without a name"
