"""The magics' lines: what ``%%kernelscope`` and ``%kernelscope`` accept, and how a recorded cell's text is read.

Everything here is a function of text. IPython calls input transformers more than once a cell, and for cells that it
never runs, so that nothing here may have an effect.
"""

from __future__ import annotations

import re
import shlex
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from IPython.core.error import UsageError
from IPython.core.inputtransformer2 import classic_prompt, ipython_prompt, leading_indent
from IPython.core.magic_arguments import argument, kwds, magic_arguments

from kernelscope.suggestions import did_you_mean, explained, see

#: Of a launch; the same words as `kernelscope.probes.base.DETAILS`, which costs NumPy's import to name.
DETAILS = ("launch", "phases")
#: The same words as `kernelscope.probes.make_log.MODES` and `kernelscope.probes.make_log.BACKENDS`.
MODES = ("grow", "ring", "stop")
BACKENDS = ("native", "python")


class Command(NamedTuple):
    """A sub-command of ``%kernelscope``.

    Attributes
    ----------
    arguments
        What follows it; brackets mean that it can be left out.
    summary
        What it does.
    """

    arguments: str
    summary: str


COMMANDS = {
    "on": Command("[-q] [--detail launch|phases] [--no-gpu|--events] [--code] [--mode grow|ring|stop] [--capacity N] "
                  "[--recorder native|python] [--journal [FOLDER]|--no-journal]",
                  "record every cell that follows; those that launch and compile nothing show no card"),
    "off": Command("", "record only cells that begin with %%kernelscope"),
    "status": Command("", "say what is on"),
    "cells": Command("", "list the recorded cells"),
    "report": Command("[CELL]", "show the card of a cell again, of the newest without a number or name"),
    "timeline": Command("[CELL]", "show the timeline of a cell, of the newest without a number or name"),
    "inspect": Command("[KERNEL]", "show the specializations, code and compiles of a kernel, of all recorded ones "
                                   "without a name"),
    "graph": Command("[ID]", "show a CUDA graph of the newest recording that has one; its only one without an ID"),
    "whatif": Command("graph [CELL]", "run a recorded cell AGAIN and compare its launches with one CUDA graph of them"),
    "study": Command("[launch|against|show|compare|anatomy|suite|clean] [OPTION ...]",
                     "measure what a launch costs the host, here and in other versions of numba-cuda; study --help "
                     "says how"),
    "save": Command("FILE", "write all recordings of this session into one file"),
    "load": Command("FILE", "read a file and show it"),
    "recover": Command("[FOLDER|NAME] [--remove] [--into FILE]",
                       "list what killed kernels left behind, bring the newest back or the one that is named, and "
                       "show it"),
    "export": Command("PATH [--to perfetto|html|parquet|csv]",
                      "write all recordings of this session as a Perfetto trace, an HTML page, or tables in a folder"),
    "dryrun": Command("", "switch the dry run on, in which kernels compile and launch on no GPU and do not execute"),
    "attach": Command("KERNEL", "follow one kernel by documented means, where a framework's version could not be "
                                "hooked"),
    "help": Command("[WORD]", "list these words, or say what follows one of them"),
}

#: Where to read more of a ``%%kernelscope`` line, and of a ``%kernelscope`` line.
CELL_HELP, LINE_HELP = "%%kernelscope?", "%kernelscope help"

_HELP_OPTIONS = ("-h", "--help")
_OPTIONS_OF_ON = ("quiet", "detail", "gpu", "code", "mode", "capacity", "recorder", "journal")
_MAGIC = re.compile(r"%%kernelscope(?: (?P<arguments>.*))?$")
_MANAGING = re.compile(r"%kernelscope\b|%(?:re|un)?load_ext +kernelscope$|#|$")

Transform = Callable[[list[str]], list[str]]


@dataclass(frozen=True)
class CellOptions:
    """What to do with one recorded cell.

    Attributes
    ----------
    name : str or None
        What to call the cell.
    output : str or None
        The file to save its recording in.
    returns : bool
        Whether the recording is the cell's value.
    quiet : bool
        Whether to show no card.
    detail : str
        ``phases`` or ``launch``.
    gpu : str
        ``cupti``, ``events`` or ``none``.
    charts : bool
        Whether to show charts under the card.
    timeline : bool
        Whether the timeline follows the card.
    code : bool
        Whether the recording holds the kernels' code.
    mode : str
        ``grow``, ``ring`` or ``stop``: which launches are kept.
    capacity : int or None
        How many, with ``ring`` and ``stop``.
    recorder : str or None
        ``native`` or ``python``; None for whichever is there.
    journal : bool, str or None
        The folder to keep a journal in, or True for the default one.
    """

    name: str | None = None
    output: str | None = None
    returns: bool = False
    quiet: bool = False
    detail: str = "phases"
    gpu: str = "cupti"
    charts: bool = False
    timeline: bool = True
    code: bool = False
    mode: str = "grow"
    capacity: int | None = None
    recorder: str | None = None
    journal: bool | str | None = None


@magic_arguments("%kernelscope")
@argument("-n", "--name", help="what to call the cell; quote a name with spaces")
@argument("-o", "--output", metavar="FILE", help="save the recording in this file; .kscope is added to a bare name")
@argument("-r", "--return", dest="returns", action="store_true", help="make the recording the cell's value")
@argument("-q", "--quiet", action="store_true", help="show no card")
@argument("--detail", choices=DETAILS, default="phases",
          help="record every phase of a launch, or its two ends at less than half the cost")
@argument("--no-gpu", dest="gpu", action="store_const", const="none", default="cupti",
          help="leave what the GPU did out: no CUPTI, and none of its cost")
@argument("--events", dest="gpu", action="store_const", const="events",
          help="time kernels with CUDA events where CUPTI cannot be had; this perturbs what it measures")
@argument("--charts", action="store_true",
          help="show charts under the card: time by phase, compile time, queue and execute, GPU busy")
@argument("--no-timeline", action="store_true", help="show the card alone")
@argument("--code", action="store_true",
          help="record the kernels' code too, from the source to the machine code; it may be private")
@argument("--mode", choices=MODES, default="grow", help="keep all launches (grow, the default), the newest (ring), or "
          "the first ones (stop)")
@argument("--capacity", metavar="N", type=int, help="how many launches ring and stop keep: 1000000 by default")
@argument("--recorder", choices=BACKENDS, help="which recorder; the native one where it is there")
@argument("--journal", nargs="?", const=True, metavar="FOLDER",
          help="keep what is recorded in files as well: if the kernel dies, %%kernelscope recover brings it back")
def cell_arguments() -> None:
    """Record every CUDA kernel launch of this cell and show them as a card and a timeline.

    The cell runs as it would without this line: its output, value, errors and variables are its own. The recording
    is also the variable ``_kernelscope``, a `kernelscope.Recording`.
    """


@magic_arguments("kernelscope")
@kwds(description="Record all cells, or look at what was recorded.\n\n" + "\n".join(
    f"{word}: {each.summary}" for word, each in COMMANDS.items()))
@argument("command", nargs="?", help="; ".join(f"{word} {each.arguments}".strip() for word, each in COMMANDS.items()))
@argument("target", nargs="?", help="the CELL (its number or name), FILE, FOLDER, KERNEL or ID of the command")
@argument("-q", "--quiet", action="store_true", default=None, help="on: show no cards")
@argument("--detail", choices=DETAILS, help="on: record phases of launches (the default), or their ends only")
@argument("--no-gpu", dest="gpu", action="store_const", const="none", help="on: leave what the GPU did out")
@argument("--events", dest="gpu", action="store_const", const="events", help="on: time kernels with CUDA events")
@argument("--code", action="store_true", default=None, help="on: record the kernels' code too")
@argument("--mode", choices=MODES, help="on: keep all launches of a cell, the newest, or the first")
@argument("--capacity", metavar="N", type=int, help="on: how many launches ring and stop keep")
@argument("--recorder", choices=BACKENDS, help="on: which recorder; the native one where it is there")
@argument("--journal", nargs="?", const=True, metavar="FOLDER",
          help="on: where to keep journals, from which recover brings back what a kernel that died had recorded")
@argument("--no-journal", dest="journal", action="store_const", const=False, help="on: keep no journal")
@argument("--to", choices=("perfetto", "html", "parquet", "csv"),
          help="export: the format; without it the one of the name: .pftrace, .json or .html")
def line_arguments() -> None:
    """Record all cells, or look at what was recorded."""


def parse_cell(line: str) -> CellOptions:
    """Return what a ``%%kernelscope`` line asks for; raises `UsageError` with one line that says what is wrong."""
    words = _words(line, CELL_HELP)
    found, unknown = _parsed(cell_arguments, words, CELL_HELP)
    if unknown:
        raise UsageError(see(_unexpected_in_cell(words, unknown), CELL_HELP))
    _check_capacity(found, CELL_HELP)
    return CellOptions(found.name or None, found.output, found.returns, found.quiet, found.detail, found.gpu,
                       found.charts, not found.no_timeline, found.code, found.mode, found.capacity, found.recorder,
                       found.journal)


def parse_line(line: str) -> Namespace:
    """Return ``command``, ``target``, ``to`` and the options of ``on`` of a ``%kernelscope`` line.

    Raises
    ------
    UsageError
        The line asks for what there is not; one line says what is wrong.
    """
    command, _, rest = line.strip().partition(" ")
    command, rest = "help" if command in _HELP_OPTIONS else command, rest.strip()
    if command and not command.startswith("-") and command not in COMMANDS:
        raise UsageError(_unknown_command(command))
    if command != "study" and not {*_HELP_OPTIONS}.isdisjoint(rest.split()):
        command, rest, line = "help", command, f"help {command}"
    # An expression keeps its quotes and spaces, and options that are another parser's stay whole.
    if command in ("attach", "inspect", "study", "whatif", "recover") and rest:
        return Namespace(command=command, target=rest, to=None, **dict.fromkeys(_OPTIONS_OF_ON))
    place = f"{LINE_HELP} {command}" if command in COMMANDS and command != "help" else LINE_HELP
    words = _words(f"{command} {rest}", place)
    found, unknown = _parsed(line_arguments, words, place)
    if unknown:
        raise UsageError(see(_unexpected_in_line(words, unknown), place))
    of_on = any(getattr(found, name) is not None for name in _OPTIONS_OF_ON)
    if of_on and found.command != "on":
        options = " ".join(word for word in words if word.startswith("-") and word != "--to")
        raise UsageError(see(f"{options} can follow 'on' only", f"{LINE_HELP} on"))
    if found.command is None:
        return found
    wanted = COMMANDS[found.command].arguments
    usage = f"%kernelscope {found.command} {wanted}".rstrip()
    takes_target = wanted.partition(" ")[0].strip("[]").isupper()
    if found.target is not None and not takes_target:
        raise UsageError(f"unexpected {found.target!r}; usage: {usage}" if found.command != "on" else
                         see(f"unexpected {found.target!r}", place))
    if found.target is None and takes_target and not wanted.startswith("["):
        raise UsageError(f"the {wanted.partition(' ')[0]} is missing; usage: {usage}")
    if found.to and found.command != "export":
        raise UsageError(see("--to can follow 'export' only", f"{LINE_HELP} export"))
    if found.command == "help" and found.target is not None and found.target not in COMMANDS:
        raise UsageError(_unknown_command(found.target))
    _check_capacity(found, place)
    return found


def help_text(word: str | None = None) -> str:
    """Return what ``%kernelscope help`` prints: a line for each sub-command, or all of one."""
    if word is None:
        width = max(map(len, COMMANDS))
        lines = [f"  {each.ljust(width)}  {command.summary}" for each, command in COMMANDS.items()]
        return "\n".join(["%kernelscope WORD, where WORD is one of:", *lines, "",
                          f"{LINE_HELP} WORD says what follows a word. {CELL_HELP} is about a cell that is recorded."])
    lines = [f"%kernelscope {word} {COMMANDS[word].arguments}".rstrip(), f"  {COMMANDS[word].summary}"]
    parser: Any = line_arguments.parser  # type: ignore[attr-defined]
    for action in parser._actions:
        about, _, said = (action.help or "").partition(": ")
        if about == word and action.option_strings:
            lines.append(f"  {', '.join(action.option_strings)}: {said}")
    return "\n".join(lines)


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
    except UsageError:
        return None


def without_heading(lines: list[str], one_line: Callable[[str], str] = str) -> list[str]:
    """Return a recorded cell's lines as IPython is to run them: as a cell of their own.

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
    """Whether the cell begins with a cell magic."""
    return bool(lines) and lines[0].startswith("%%")


def only_manages(lines: Sequence[str]) -> bool:
    """Whether a cell has nothing but ``%kernelscope`` lines, loading or unloading of the extension, and comments."""
    return all(_MANAGING.match(line.strip()) for line in lines)


def _words(line: str, place: str) -> list[str]:
    """A line's words; raises `UsageError` where a quotation is not closed."""
    try:
        # IPython's own splitting keeps quotes as part of a value: -n "warm up" would be called '"warm up"'.
        lexer = shlex.shlex(line, posix=True)
        lexer.whitespace_split = True
        lexer.commenters = ""
        return list(lexer)
    except ValueError as error:
        raise UsageError(see(f"{str(error).lower()} in {line.strip()!r}", place)) from None


def _parsed(function: Any, words: list[str], place: str) -> tuple[Namespace, list[str]]:
    """What the words ask for, and those that nothing takes."""
    try:
        found, unknown = function.parser.parse_known_args(words)
    except UsageError as error:
        raise UsageError(see(explained(function.parser, str(error)), place)) from None
    return found, unknown


def _unexpected_in_cell(words: list[str], unknown: list[str]) -> str:
    """What is wrong with a ``%%kernelscope`` line that has words which nothing takes."""
    message = f"unrecognized arguments: {' '.join(unknown)}"
    if unknown[0].startswith("-"):
        return explained(cell_arguments.parser, message)  # type: ignore[attr-defined]
    if words[0] in COMMANDS:
        return f"{message}; %kernelscope {words[0]} has one percent sign"
    return f"{message}; " + (_quoted(words, unknown[0]) or "code begins on the next line, and a name follows -n")


def _unexpected_in_line(words: list[str], unknown: list[str]) -> str:
    """What is wrong with a ``%kernelscope`` line that has words which nothing takes."""
    message = f"unrecognized arguments: {' '.join(unknown)}"
    if not unknown[0].startswith("-"):
        if len(words) > 2 and words[2] == unknown[0] and not words[1].startswith("-"):
            return f'{message}; quote what has spaces: %kernelscope {words[0]} "{" ".join(words[1:])}"'
        quoted = _quoted(words, unknown[0])
        return f"{message}; {quoted}" if quoted else message
    if unknown[0].partition("=")[0] in cell_arguments.parser._option_string_actions:  # type: ignore[attr-defined]
        return f"{message}; {unknown[0]} is an option of %%kernelscope, which records its cell"
    return explained(line_arguments.parser, message)  # type: ignore[attr-defined]


def _quoted(words: list[str], unknown: str) -> str | None:
    """What to write instead, where an option's value was followed by a word that nothing takes."""
    for place in (at for at, word in enumerate(words) if word == unknown):
        option = max((at for at in range(place) if words[at].startswith("-")), default=place)
        if option < place - 1:
            end = next((at for at in range(place, len(words)) if words[at].startswith("-")), len(words))
            return f'quote what has spaces: {words[option]} "{" ".join(words[option + 1:end])}"'
    return None


def _unknown_command(word: str) -> str:
    if not re.fullmatch(r"[\w-]+", word):
        return see(f"no sub-command {word!r}; to record a cell, begin it with %%kernelscope", LINE_HELP)
    return see(f"no sub-command {word!r}{did_you_mean(word, COMMANDS) or '; known: ' + ', '.join(COMMANDS)}", LINE_HELP)


def _check_capacity(found: Namespace, place: str) -> None:
    if found.capacity is not None and found.mode not in ("ring", "stop"):
        raise UsageError(see(f"--capacity {found.capacity} belongs to --mode ring or stop", place))
    if found.capacity is not None and found.capacity < 1:
        raise UsageError(see(f"--capacity {found.capacity} is no number of launches, from 1", place))
