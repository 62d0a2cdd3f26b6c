"""What ``%kernelscope`` shows of what was recorded: ``cells``, ``report``, ``lines``...; and ``save`` and ``load``."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from kernelscope.commands import output
from kernelscope.commands.show import find_cell
from kernelscope.commands.verb import Verb

if TYPE_CHECKING:
    from kernelscope.commands.session import NotebookSession


def _cells(session: NotebookSession, asked: Namespace) -> None:
    from kernelscope.views.cells_widget import CellsWidget

    if session.recordings:
        CellsWidget(session.recordings)._ipython_display_()
    else:
        print("no cell was recorded yet")


def cell_argument(parser: ArgumentParser, in_notebook: bool) -> None:
    """Add the cell of a verb of notebooks."""
    parser.add_argument("cell", metavar="CELL", nargs="?", help="the cell's number or name; the newest without")


def _report(session: NotebookSession, asked: Namespace) -> None:
    output.show(session.shell, find_cell(session.recordings, asked.cell))


def _lines(session: NotebookSession, asked: Namespace) -> None:
    from kernelscope.views.lines import lines_card, lines_text

    recording = find_cell(session.recordings, asked.cell)
    output.publish(session.shell, lines_text(recording), lambda: lines_card(recording))


def _timeline(session: NotebookSession, asked: Namespace) -> None:
    output.show_timeline(session.shell, find_cell(session.recordings, asked.cell), asked=True)


def _whatif_arguments(parser: ArgumentParser, in_notebook: bool) -> None:
    parser.add_argument("kind", choices=("graph",), metavar="graph",
                        help="what to try: one CUDA graph of the cell's launches")
    cell_argument(parser, in_notebook)


def _whatif(session: NotebookSession, asked: Namespace) -> None:
    """Run the cell again and show the result; what the cell's own code raises passes."""
    from kernelscope.graphs import from_recording

    result = from_recording(find_cell(session.recordings, asked.cell))
    output.publish(session.shell, str(result), result._repr_html_, whatif=True)


def _save_arguments(parser: ArgumentParser, in_notebook: bool) -> None:
    parser.add_argument("file", metavar="FILE", help="where to write; .kscope is added to a bare name")


def _save(session: NotebookSession, asked: Namespace) -> None:
    whole = session.whole("save")
    print(f"kernelscope: {output.saved(whole, asked.file)}, {output.counts(session.recordings)}")


def _load_arguments(parser: ArgumentParser, in_notebook: bool) -> None:
    parser.add_argument("file", metavar="FILE", help="what to read")


def _load(session: NotebookSession, asked: Namespace) -> None:
    session.present(output.loaded(asked.file, "kernelscope: "))


VERBS = {
    "cells": Verb(magic=_cells),
    "report": Verb(cell_argument, magic=_report),
    "lines": Verb(cell_argument, magic=_lines),
    "timeline": Verb(cell_argument, magic=_timeline),
    "whatif": Verb(_whatif_arguments, magic=_whatif, runs_user_code=True),
    "save": Verb(_save_arguments, magic=_save),
    "load": Verb(_load_arguments, magic=_load),
}
