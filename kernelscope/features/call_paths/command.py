"""``%kernelscope flame``: the call paths of a cell as a flame graph."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from kernelscope.commands.recorded import cell_argument
from kernelscope.commands.show import find_cell
from kernelscope.commands.verb import Verb

if TYPE_CHECKING:
    from kernelscope.commands.session import NotebookSession


def _magic(session: NotebookSession, arguments: Namespace) -> None:
    from kernelscope.features.call_paths.view import flame

    flame(find_cell(session.recordings, arguments.cell))._ipython_display_()


VERBS = {"flame": Verb(cell_argument, magic=_magic)}
