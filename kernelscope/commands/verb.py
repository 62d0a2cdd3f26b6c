"""Verbs of the command line and of ``%kernelscope``: their declaration, their list, and their parsers.

`COMMANDS` and `MAGICS` list the core's verbs with a line on each, `command_verbs` and `magic_verbs` those of features
too. A file of this package has one of them, and is called like it, or several that are read together, as `TOGETHER`
says; its ``VERBS`` has a `Verb` for each. The file is loaded when a verb is used, so that help and ``%load_ext`` load
nothing heavy.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import math
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from kernelscope.registry import features, loaded
from kernelscope.suggestions import did_you_mean, explained, see

if TYPE_CHECKING:
    from kernelscope.commands.session import NotebookSession
    from kernelscope.recorder.options import RecordingOptions

#: The verbs of ``kernelscope``, and what each does.
COMMANDS = {
    "run": "run a script and record it",
    "show": "show a .kscope file",
    "inspect": "show a file's kernels, specializations and code",
    "graph": "show a file's CUDA graph: as text, SVG, HTML or Graphviz text",
    "export": "write a .kscope file as a Perfetto trace, HTML, call paths, Parquet or CSV",
    "study": "measure what a launch costs the host, in several versions",
    "recover": "bring back what a killed process had recorded",
    "merge": "make one file of the processes that recorded themselves into a folder",
    "mcp": "serve the recordings of a folder to an assistant, read only",
    "demo": "run the quickstart notebook and write it as HTML",
    "doctor": "say what is installed and what would work",
}

#: The verbs of ``%kernelscope``, and what each does.
MAGICS = {
    "on": "record every cell that follows; those that launch and compile nothing show no card",
    "off": "record only cells that begin with %%kernelscope",
    "status": "say what is on",
    "cells": "list the recorded cells",
    "report": "show the card of a cell again, of the newest without a number or name",
    "lines": "show what each line of a cell cost, of the newest without a number or name",
    "timeline": "show the timeline of a cell, of the newest without a number or name",
    "inspect": "show the specializations, code and compiles of a kernel, of all recorded ones without a name",
    "graph": "show a CUDA graph of the newest recording that has one; its only one without an ID",
    "whatif": "run a recorded cell AGAIN and compare its launches with one CUDA graph of them",
    "study": "measure what a launch costs the host, here and in other versions of numba-cuda",
    "save": "write all recordings of this session into one file",
    "load": "read a file and show it",
    "recover": "list what killed kernels left behind, bring the newest back or the one that is named, and show it",
    "export": "write all recordings of this session as a Perfetto trace, an HTML page, or tables in a folder",
    "dryrun": "switch the dry run on, in which kernels compile and launch on no GPU and do not execute",
    "attach": "follow one kernel by documented means, where a framework's version could not be hooked",
    "help": "list the sub-commands, or show the help of one",
}

#: Files of several verbs.
TOGETHER = {
    "switches": ("on", "off", "status", "attach", "dryrun"),
    "recorded": ("cells", "report", "lines", "timeline", "whatif", "save", "load"),
    "magics": ("help",),
}

#: What asks for help behind a verb.
HELP_OPTIONS = ("-h", "--help")


def no_arguments(parser: argparse.ArgumentParser, in_notebook: bool) -> None:
    """Add nothing: the verb takes no arguments."""


@dataclass(frozen=True)
class Verb:
    """One verb: what follows it, and what it does with that.

    Attributes
    ----------
    arguments : callable
        Adds the verb's arguments to a parser; the second argument says whether it is a notebook's.
    main : callable or None
        What the command line calls with the arguments; it prints, and returns the exit code. None for a magic's verb.
    magic : callable or None
        What ``%kernelscope`` calls with the session and the arguments. None for a verb of the command line only.
    about : str
        The help of the command line, where `COMMANDS` does not say all.
    usage : str or None
        The first line of the help, where argparse's would mislead.
    whole : str or None
        The name under which `magic` gets all that follows the verb as one text: an expression keeps its quotes.
    default : str
        The word that is meant where a notebook's line begins with none.
    runs_user_code : bool
        Whether errors may be the user's own, which are left as they are.
    """

    arguments: Callable[[argparse.ArgumentParser, bool], None] = no_arguments
    main: Callable[[argparse.Namespace], int] | None = None
    magic: Callable[[NotebookSession, argparse.Namespace], None] | None = None
    about: str = ""
    usage: str | None = None
    whole: str | None = None
    default: str = ""
    runs_user_code: bool = False


@functools.cache
def command_verbs() -> dict[str, str]:
    """Return all verbs of ``kernelscope``, and what they do."""
    return COMMANDS | {name: line for feature in features() for name, line in feature.commands.items()}


@functools.cache
def magic_verbs() -> dict[str, str]:
    """Return all verbs of ``%kernelscope``, and what they do."""
    return MAGICS | {name: line for feature in features() for name, line in feature.magics.items()}


def load_verb(name: str) -> Verb:
    """Return the verb of that name."""
    for feature in features():
        if name in feature.commands or name in feature.magics:
            return loaded(feature.verbs)[name]
    file = next((file for file, names in TOGETHER.items() if name in names), name)
    verb: Verb = importlib.import_module(f"kernelscope.commands.{file}").VERBS[name]
    return verb


class Parser(argparse.ArgumentParser):
    """Says in one line what is wrong with arguments, what was probably meant, and where to read more."""

    def error(self, message: str) -> NoReturn:
        """End with the message; `fail` says how."""
        self.fail(see(explained(self, message), self.more))

    @property
    def more(self) -> str:
        """Return where to read more."""
        return f"{self.prog} --help"

    def fail(self, line: str) -> NoReturn:
        """Print the line to stderr and end the process with exit code 2."""
        self.exit(2, f"{self.prog}: error: {line}\n")


class JsonParser(Parser):
    """Says what is wrong with arguments as JSON, to the program that reads stdout."""

    def fail(self, line: str) -> NoReturn:
        """Print the line as an error's answer and end the process with exit code 2."""
        from kernelscope.views.answer import encoded, error_answer

        print(encoded(error_answer(line, "UsageError")))
        self.exit(2)


class HelpAsked(Exception):
    """A notebook's line asks for help, which is the message."""


class NotebookParser(Parser):
    """Ends with an exception, and never the process: `UsageError`, or `HelpAsked` for help."""

    @property
    def more(self) -> str:
        """Return where to read more; ``%%kernelscope --help`` would need a body."""
        return f"{self.prog}?" if self.prog.startswith("%%") else f"{self.prog} --help"

    def fail(self, line: str) -> NoReturn:
        """Raise IPython's `UsageError`, which is shown as this line."""
        from IPython.core.error import UsageError

        raise UsageError(line)

    def print_help(self, file: Any = None) -> NoReturn:
        """Raise `HelpAsked`."""
        raise HelpAsked(self.format_help().rstrip())


def notebook_parser(name: str, verb: Verb) -> NotebookParser:
    """Return the parser of what follows ``%kernelscope NAME``."""
    parser = NotebookParser(prog=f"%kernelscope {name}", description=_sentence(magic_verbs()[name]))
    verb.arguments(parser, True)
    parser.set_defaults(parser=parser)
    return parser


def unknown_verb(word: str) -> NoReturn:
    """Raise IPython's `UsageError` for a word that is no verb of ``%kernelscope``."""
    from IPython.core.error import UsageError

    known = did_you_mean(word, magic_verbs()) or f"; known: {', '.join(magic_verbs())}"
    if not re.fullmatch(r"[\w-]+", word):
        known = "; to record a cell, begin it with %%kernelscope"
    raise UsageError(see(f"no sub-command {word!r}{known}", "%kernelscope help"))


def command_parser(name: str, verb: Verb, verbs: Any) -> None:
    """Add the parser of ``kernelscope NAME`` to those of the command line."""
    line = command_verbs()[name]
    parser = verbs.add_parser(name, help=line, description=verb.about or _sentence(line),
                              formatter_class=argparse.RawDescriptionHelpFormatter, usage=verb.usage)
    verb.arguments(parser, False)
    parser.set_defaults(parser=parser)


def words_of(line: str, parser: argparse.ArgumentParser) -> list[str]:
    """Return the words of a notebook's line; an unclosed quotation is a parser error."""
    # IPython's own splitting keeps quotes as part of a value: -n "warm up" would be called '"warm up"'.
    lexer = shlex.shlex(line, posix=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        return list(lexer)
    except ValueError as error:
        parser.error(f"{str(error).lower()} in {line.strip()!r}")


def quoted(words: list[str], unknown: str) -> str:
    """Return what to write instead, where a value was followed by a word that nothing takes; else nothing."""
    for place in (at for at, word in enumerate(words) if word == unknown):
        option = max((at for at in range(place) if words[at].startswith("-")), default=-1)
        if option < place - 1:
            end = next((at for at in range(place, len(words)) if words[at].startswith("-")), len(words))
            before = f"{words[option]} " if option >= 0 else ""
            return f'; quote what has spaces: {before}"{" ".join(words[option + 1:end])}"'
    return ""


def recording_options(arguments: argparse.Namespace, parser: argparse.ArgumentParser,
                      **others: Any) -> RecordingOptions:
    """Return the options of a recording that a line has; those that do not go together are the parser's error."""
    from kernelscope.recorder.options import RecordingOptions

    try:
        return RecordingOptions.of(arguments, **others)
    except ValueError as error:
        parser.error(str(error))


def number(what: str, least: int = 1) -> Callable[[str], int]:
    """Return a type of argument: whole numbers from `least` on, which the message calls `what`."""
    def read(text: str) -> int:
        if not re.fullmatch(r"[0-9]{1,9}", text) or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text!r} is not {what}")
        return int(text)

    return read


def decimal(what: str, unit: str, is_allowed: Callable[[float], bool]) -> Callable[[str], float]:
    """Return a type of argument: numbers, with or without the unit behind them, which the message calls `what`."""
    def read(text: str) -> float:
        try:
            value = float(text.strip().removesuffix(unit))
        except ValueError:
            value = math.nan
        if not (math.isfinite(value) and is_allowed(value)):
            raise argparse.ArgumentTypeError(f"{text!r} is not {what}")
        return value

    return read


def add_json(parser: argparse.ArgumentParser, *, rows: bool = True) -> None:
    """Add ``--json``, and with `rows` the ``--limit`` of its lists."""
    parser.add_argument("--json", action="store_true", help="print one JSON object for programs, of at most 32 kB")
    if rows:
        parser.add_argument("--limit", metavar="ROWS", type=number("a number of rows", 0),
                            help="how many rows each list of --json has; 0 for all (default: as many as fit)")


def add_redaction(parser: argparse.ArgumentParser) -> None:
    """Add ``--redact`` and ``--no-texts``."""
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--redact", action="store_true",
                      help="strip source, code and names; what is left stays readable under neutral names")
    what.add_argument("--no-texts", action="store_true",
                      help="strip the source of cells and lines, code, and the messages of exceptions; names stay")


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."
