"""``%kernelscope on``: records every cell that follows."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from kernelscope.commands.recover import journal_for
from kernelscope.commands.verb import Verb, recording_options
from kernelscope.recorder.options import ON, add_arguments

if TYPE_CHECKING:
    from kernelscope.commands.session import NotebookSession


def _arguments(parser: argparse.ArgumentParser, in_notebook: bool) -> None:
    parser.add_argument("-q", "--quiet", action="store_true", help="show no cards")
    add_arguments(parser, ON)


def _magic(session: NotebookSession, asked: argparse.Namespace) -> None:
    from kernelscope.commands.cell import CellOptions

    recording_options(asked, asked.parser, journal=None)  # what does not go together makes no journal
    journal, problem = journal_for(asked.journal)
    session.always = CellOptions(recording_options(asked, asked.parser, journal=journal), quiet=asked.quiet)
    shown = "no cards are shown" if asked.quiet else "cells that launch and compile nothing show no card"
    print(f"kernelscope: every cell from the next one on is recorded; {shown}")
    if problem is not None:
        print(f"kernelscope: {problem}")


VERB = Verb(_arguments, magic=_magic)
