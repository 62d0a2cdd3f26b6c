"""``%kernelscope save``: writes all recordings of this session into one file."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from kernelscope.commands import output
from kernelscope.commands.verb import Verb

if TYPE_CHECKING:
    from kernelscope.commands.session import NotebookSession


def _arguments(parser: argparse.ArgumentParser, in_notebook: bool) -> None:
    parser.add_argument("file", metavar="FILE", help="where to write; .kscope is added to a bare name")


def _magic(session: NotebookSession, asked: argparse.Namespace) -> None:
    whole = session.whole("save")
    print(f"kernelscope: {output.saved(whole, asked.file)}, {output.counts(session.recordings)}")


VERB = Verb(_arguments, magic=_magic)
