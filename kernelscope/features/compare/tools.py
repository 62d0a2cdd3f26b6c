"""The tools ``compare`` and ``history`` of ``kernelscope mcp``."""

from __future__ import annotations

from kernelscope.commands.mcp import Answered, Folder, View, row_limit, text_argument
from kernelscope.features.compare.command import compared, history_of, oldest_first
from kernelscope.progress import Progress, step_of
from kernelscope.views.answer import DEFAULT_LIMIT

#: More runs of a cell never fit into an answer, and each is a file to load.
_MAX_RUNS = 60


def compare(folder: Folder, progress: Progress | None, before: str, after: str, before_cell: str | None = None,
            after_cell: str | None = None, limit: int | None = None) -> Answered:
    """Say what differs in the second recording, the earlier one first: totals, new compiles, slower launches.

    A cell's name or number limits it to that cell: before_cell alone to the cell of that name of both.
    """
    def view() -> View:
        cells = [text_argument("cell", cell) for cell in (before_cell or after_cell, after_cell) if cell is not None]
        recordings = [folder.load(name, step_of(progress, step, 2)) for step, name in enumerate((before, after))]
        return compared(recordings, [before, after], cells)

    return folder.answer(view, limit)


def history(folder: Folder, progress: Progress | None, cell: str, limit: int | None = None) -> Answered:
    """List the runs of a cell, by name or number, in all recordings of the folder, the newest first."""
    def view() -> View:
        missing: list[str] = []
        name = text_argument("cell", cell)
        files = folder.recording_files(step_of(progress, 0, 2))
        sources = oldest_first(files, "the folder", missing, folder.cells_reader(), folder.read)
        most = DEFAULT_LIMIT if limit is None else min(row_limit(limit), _MAX_RUNS)
        return history_of(name, sources, missing, most, step_of(progress, 1, 2))

    return folder.answer(view, limit)
