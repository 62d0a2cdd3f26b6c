"""``%%kernelscope``: what follows it on its line, and how a recorded cell's text is read.

Everything here is a function of text. IPython calls input transformers more than once a cell, and for cells that it
never runs, so that nothing here may have an effect.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from IPython.core.error import UsageError
from IPython.core.inputtransformer2 import classic_prompt, ipython_prompt, leading_indent

from kernelscope.commands.verb import (
    HelpAsked,
    NotebookParser,
    magic_verbs,
    quoted,
    recording_options,
    words_of,
)
from kernelscope.recorder.option import CELL
from kernelscope.recorder.options import RecordingOptions, add_arguments

_MAGIC = re.compile(r"%%kernelscope(?: (?P<arguments>.*))?$")
_MANAGING = re.compile(r"%kernelscope\b|%(?:re|un)?load_ext +kernelscope$|#|$")

Transform = Callable[[list[str]], list[str]]


@dataclass(frozen=True)
class CellOptions:
    """What to do with one recorded cell.

    Attributes
    ----------
    recording : RecordingOptions
        How it is recorded.
    output : str or None
        The file to save its recording in.
    returns : bool
        Whether the recording is the cell's value.
    quiet : bool
        Whether to show no card.
    charts : bool
        Whether to show charts under the card.
    timeline : bool
        Whether the timeline follows the card.
    dask : str or None
        The variable with the client of a Dask cluster whose workers are recorded too.
    px : str or None
        The variable with the view of ipyparallel's engines that are recorded too; empty for the view of ``%%px``.
    """

    recording: RecordingOptions = field(default_factory=RecordingOptions)
    output: str | None = None
    returns: bool = False
    quiet: bool = False
    charts: bool = False
    timeline: bool = True
    dask: str | None = None
    px: str | None = None


def cell_parser() -> NotebookParser:
    """Return the parser of what follows ``%%kernelscope``."""
    parser = NotebookParser(prog="%%kernelscope", description=(
        "Record every CUDA kernel launch of this cell and show them as a card and a timeline. The cell runs as it "
        "would without this line: its output, value, errors and variables are its own. The recording is also the "
        "variable _kernelscope, a kernelscope.Recording."))
    add_arguments(parser, CELL)
    parser.add_argument("-o", "--output", metavar="FILE",
                        help="save the recording in this file; .kscope is added to a bare name")
    parser.add_argument("-r", "--return", dest="returns", action="store_true",
                        help="make the recording the cell's value")
    parser.add_argument("-q", "--quiet", action="store_true", help="show no card")
    parser.add_argument("--charts", action="store_true",
                        help="show charts under the card: time by phase, compile time, queue and execute, GPU busy")
    parser.add_argument("--no-timeline", dest="timeline", action="store_false", help="show the card alone")
    parser.add_argument("--dask", metavar="CLIENT",
                        help="record all workers of a Dask cluster too: the variable that holds its client")
    parser.add_argument("--px", nargs="?", const="", metavar="VIEW",
                        help="record ipyparallel's engines too: those of %%%%px, or of the view or client that "
                             "this variable holds")
    return parser


def parse_cell(line: str) -> CellOptions:
    """Return what a ``%%kernelscope`` line asks for.

    Raises
    ------
    UsageError
        It is wrong: one line says what.
    HelpAsked
        It asks for help.
    """
    parser = cell_parser()
    words = words_of(line, parser)
    found, unknown = parser.parse_known_args(words)
    if unknown:
        _refuse(parser, words, unknown)
    if found.dask is not None and found.px is not None:
        parser.error("--dask and --px are two kinds of workers: a cell records one of them")
    recording = recording_options(found, parser, name=found.name or None)
    return CellOptions(recording, found.output, found.returns, found.quiet, found.charts, found.timeline,
                       found.dask, found.px)


def _refuse(parser: NotebookParser, words: list[str], unknown: list[str]) -> NoReturn:
    """Raise `UsageError` for words of a line that no option takes."""
    message = f"unrecognized arguments: {' '.join(unknown)}"
    if unknown[0].startswith("-"):
        parser.error(message)
    if words[0] in magic_verbs():
        parser.error(f"{message}; %kernelscope {words[0]} has one percent sign")
    more = quoted(words, unknown[0]) if words[0].startswith("-") else ""
    parser.error(message + (more or "; code begins on the next line, and a name follows -n"))


def heading(lines: Sequence[str]) -> str | None:
    """Return the arguments of the ``%%kernelscope`` line that the cell begins with, or None if it has none.

    `lines` are the cell's after IPython's cleanup: without leading empty lines, indentation and prompts.
    """
    match = _MAGIC.match(lines[0].rstrip()) if lines else None
    return None if match is None else match["arguments"] or ""


def native_options(lines: Sequence[str]) -> CellOptions | None:
    """Return the options of a cell that IPython can run without its first line, or None.

    It is left as it is where that line is wrong or nothing follows it: then the cell magic itself says what is wrong.
    """
    arguments = heading(lines)
    if arguments is None or not any(line.strip() for line in lines[1:]):
        return None
    try:
        return parse_cell(arguments)
    except (UsageError, HelpAsked):
        return None


def without_heading(lines: list[str], one_line: Callable[[str], str] = str) -> list[str]:
    """Return a recorded cell's lines as IPython is to run them: without the ``%%kernelscope`` line.

    The first line is emptied, so that tracebacks keep their line numbers. Where another cell magic follows, the lines
    begin with that: only the first line can be a cell magic, and its body's lines are counted from there anyway.

    Parameters
    ----------
    lines : list of str
        A cell's lines after IPython's cleanup.
    one_line : callable
        Called with the text of a cell whose only line follows the first: IPython reads such a cell in ways that
        depend on what its names mean, as ``pwd`` for ``%pwd``.
    """
    if native_options(lines) is None:
        return lines
    first = next(place for place, line in enumerate(lines) if place and line.strip())
    body = lines[first:]
    # IPython has made the first line the measure of the cell's indentation and prompts.
    for transform in (leading_indent, classic_prompt, ipython_prompt):
        body = transform(body)
    if is_for_another_magic(body):
        return body
    if not any(line.strip() for line in body[1:]):
        body = one_line(body[0]).splitlines(keepends=True)
    return ["\n"] * first + body


def cleaned(text: str, transforms: Sequence[Transform], stop: Transform) -> list[str]:
    """Return the lines that the input transformer `stop` gets for a cell, from those that come before it."""
    lines = text.splitlines(keepends=True)
    for transform in transforms:
        if transform == stop:
            break
        if not getattr(transform, "has_side_effects", False):
            lines = transform(lines)
    return lines


def is_for_another_magic(lines: Sequence[str]) -> bool:
    """Return whether the cell begins with a cell magic."""
    return bool(lines) and lines[0].startswith("%%")


def only_manages(lines: Sequence[str]) -> bool:
    """Return whether a cell has only ``%kernelscope`` lines, loading or unloading of the extension, and comments."""
    return all(_MANAGING.match(line.strip()) for line in lines)
