"""``%kernelscope timeline``: shows the timeline of a recorded cell."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from kernelscope.commands import output
from kernelscope.commands.show import find_cell
from kernelscope.commands.verb import Verb

if TYPE_CHECKING:
    from kernelscope.commands.session import NotebookSession


def _arguments(parser: argparse.ArgumentParser, in_notebook: bool) -> None:
    parser.add_argument("cell", metavar="CELL", nargs="?", help="the cell's number or name; the newest without")


def _magic(session: NotebookSession, asked: argparse.Namespace) -> None:
    output.show_timeline(session.shell, find_cell(session.recordings, asked.cell), asked=True)


VERB = Verb(_arguments, magic=_magic)
