"""``%kernelscope help``: lists the sub-commands, or shows the help of one."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from kernelscope.commands.verb import MAGICS, Verb, load_verb, notebook_parser, unknown_verb

if TYPE_CHECKING:
    from kernelscope.commands.session import NotebookSession


def _arguments(parser: argparse.ArgumentParser, in_notebook: bool) -> None:
    parser.add_argument("word", metavar="WORD", nargs="?", help="one of the sub-commands")


def _magic(session: NotebookSession, asked: argparse.Namespace) -> None:
    if asked.word is None:
        print(words_text())
    elif asked.word in MAGICS:
        notebook_parser(asked.word, load_verb(asked.word)).print_help()
    else:
        unknown_verb(asked.word)


def words_text() -> str:
    """Return the sub-commands, one on each line with its summary."""
    width = max(map(len, MAGICS))
    lines = [f"  {each.ljust(width)}  {summary}" for each, summary in MAGICS.items()]
    return "\n".join(["%kernelscope WORD, where WORD is one of:", *lines, "",
                      "%kernelscope help WORD shows the help of one. "
                      "%%kernelscope? is about a cell that is recorded."])


VERB = Verb(_arguments, magic=_magic)
