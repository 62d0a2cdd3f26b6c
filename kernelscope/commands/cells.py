"""``%kernelscope cells``: lists the recorded cells."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from kernelscope.commands.verb import Verb

if TYPE_CHECKING:
    from kernelscope.commands.session import NotebookSession


def _magic(session: NotebookSession, asked: argparse.Namespace) -> None:
    from kernelscope.views.cells import cells_card, cells_text

    if session.recordings:
        data = {"text/plain": cells_text(session.recordings), "text/html": cells_card(session.recordings)}
        session.shell.display_pub.publish(data=data)
    else:
        print("no cell was recorded yet")


VERB = Verb(magic=_magic)
