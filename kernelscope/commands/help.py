"""``%kernelscope help``: lists the verbs, or says what follows one of them."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from kernelscope.commands.verb import MAGICS, Verb, load_verb, notebook_parser, unknown_verb

if TYPE_CHECKING:
    from kernelscope.commands.session import NotebookSession


def _arguments(parser: argparse.ArgumentParser, in_notebook: bool) -> None:
    parser.add_argument("word", metavar="WORD", nargs="?", help="one of the words")


def _magic(session: NotebookSession, asked: argparse.Namespace) -> None:
    if asked.word is None:
        print(words_text())
    elif asked.word in MAGICS:
        notebook_parser(asked.word, load_verb(asked.word)).print_help()
    else:
        unknown_verb(asked.word)


def words_text() -> str:
    """Return the verbs with a line on each."""
    width = max(map(len, MAGICS))
    lines = [f"  {each.ljust(width)}  {summary}" for each, summary in MAGICS.items()]
    return "\n".join(["%kernelscope WORD, where WORD is one of:", *lines, "",
                      "%kernelscope help WORD says what follows a word. "
                      "%%kernelscope? is about a cell that is recorded."])


VERB = Verb(_arguments, magic=_magic)
