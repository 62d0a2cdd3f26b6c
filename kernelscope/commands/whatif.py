"""``%kernelscope whatif graph [CELL]``: runs a recorded cell again, and shows its launches against a graph."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from kernelscope.commands.show import find_cell
from kernelscope.commands.verb import Verb

if TYPE_CHECKING:
    from kernelscope.commands.session import NotebookSession


def _arguments(parser: argparse.ArgumentParser, in_notebook: bool) -> None:
    parser.add_argument("kind", choices=("graph",), metavar="graph",
                        help="what to try: one CUDA graph of the cell's launches")
    parser.add_argument("cell", metavar="CELL", nargs="?", help="the cell's number or name; the newest without")


def _magic(session: NotebookSession, asked: argparse.Namespace) -> None:
    """Run the cell again and show the result; what the cell's own code raises passes."""
    from kernelscope.graphs import from_recording

    shell, result = session.shell, from_recording(find_cell(session.recordings, asked.cell))
    data = {"text/plain": str(result)}
    if "text/html" in getattr(shell.display_formatter, "active_types", ()):
        data["text/html"] = result._repr_html_()
    shell.display_pub.publish(data=data, metadata={"kernelscope": {"whatif": True}})


VERB = Verb(_arguments, magic=_magic, runs_user_code=True)
