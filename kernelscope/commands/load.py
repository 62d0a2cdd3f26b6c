"""``%kernelscope load``: reads a file and shows it."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from kernelscope.commands import output
from kernelscope.commands.verb import Verb

if TYPE_CHECKING:
    from kernelscope.commands.session import NotebookSession


def _arguments(parser: argparse.ArgumentParser, in_notebook: bool) -> None:
    parser.add_argument("file", metavar="FILE", help="what to read")


def _magic(session: NotebookSession, asked: argparse.Namespace) -> None:
    from kernelscope.recording.file import load

    recording = load(asked.file, progress=output.progress(None, f"kernelscope: reading {asked.file}"))
    session.keep(recording)
    output.show(session.shell, recording)
    output.show_timeline(session.shell, recording)


VERB = Verb(_arguments, magic=_magic)
