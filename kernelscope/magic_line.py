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
from typing import Any

from IPython.core.error import UsageError
from IPython.core.magic_arguments import argument, magic_arguments

#: Of a launch; the same words as `kernelscope.probes.base.DETAILS`, which costs NumPy's import to name.
DETAILS = ("launch", "phases")
#: The same words as `kernelscope.probes.make_log.MODES` and `kernelscope.probes.make_log.BACKENDS`.
MODES = ("grow", "ring", "stop")
BACKENDS = ("native", "python")

#: The sub-commands of ``%kernelscope``, each with what follows it; brackets mean that it can be left out.
COMMANDS = {
    "on": "[-q] [--detail launch|phases] [--no-gpu|--events] [--code] [--mode grow|ring|stop] [--capacity N] "
          "[--recorder native|python] [--journal [FOLDER]|--no-journal]",
    "off": "",
    "status": "",
    "cells": "",
    "report": "[CELL]",
    "timeline": "[CELL]",
    "inspect": "[KERNEL]",
    "graph": "[ID]",
    "whatif": "graph [CELL]",
    "study": "[launch|against|show|compare|anatomy|suite] [OPTION ...]",
    "save": "FILE",
    "load": "FILE",
    "recover": "[FOLDER|NAME] [--remove] [--into FILE]",
    "export": "PATH [--to perfetto|html|parquet|csv]",
    "dryrun": "",
    "attach": "KERNEL",
}

CELL_USAGE = ("%%kernelscope [-n NAME] [-o FILE.kscope] [-r] [-q] [--detail launch|phases] [--no-gpu|--events] "
              "[--code] [--charts] [--no-timeline] [--mode grow|ring|stop] [--capacity N] [--recorder native|python] "
              "[--journal [FOLDER]]")
LINE_USAGE = "%kernelscope " + " | ".join(" ".join(part for part in pair if part) for pair in COMMANDS.items())

_OF_ON = "-q, --detail, --no-gpu, --events, --code, --mode, --capacity, --recorder and --journal"
_OPTIONS_OF_ON = ("quiet", "detail", "gpu", "code", "mode", "capacity", "recorder", "journal")
_MAGIC = re.compile(r"%%kernelscope(?: (?P<arguments>.*))?$")
_ANY_CELL_MAGIC = re.compile(r"%%\w")
_MANAGING = re.compile(r"%kernelscope\b|#|$")

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
@argument("command", nargs="?", help="; ".join(
    " ".join(part for part in pair if part) for pair in COMMANDS.items()))
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
    """Record all cells, or look at what was recorded.

    on: record every cell that follows; those that launch and compile nothing show no card.
    off: stop that.
    status: say what is on.
    cells: list the recorded cells.
    report: show the card of a cell again, of the newest without a number or name.
    timeline: show the timeline of a cell, of the newest without a number or name.
    graph: show a CUDA graph of the newest recording that has one; without an ID the only one of it.
    inspect: show the specializations, code and compiles of a kernel, of all recorded ones without a name.
    study: measure what a launch costs the host, here and in other versions of numba-cuda; study --help says how.
    whatif graph: run a recorded cell AGAIN and compare its launches with one CUDA graph of them.
    save: write all recordings of this session into one file.
    load: read a file and show it.
    recover: list what killed kernels left behind, bring the newest back or the one that is named, and show it.
    export: write all recordings of this session as a Perfetto trace, an HTML page, or tables in a folder.
    dryrun: switch the dry run on, in which kernels compile and launch on no GPU and do not execute.
    attach: follow one kernel by documented means, where a framework's version could not be hooked.
    """


def parse_cell(line: str) -> CellOptions:
    """Return what a ``%%kernelscope`` line asks for; raises `UsageError` with one line that says what is allowed."""
    found = _parsed(cell_arguments, line, CELL_USAGE)
    _check_capacity(found, CELL_USAGE)
    return CellOptions(found.name or None, found.output, found.returns, found.quiet, found.detail, found.gpu,
                       found.charts, not found.no_timeline, found.code, found.mode, found.capacity, found.recorder,
                       found.journal)


def parse_line(line: str) -> Namespace:
    """Return ``command``, ``target``, ``to`` and the options of ``on`` of a ``%kernelscope`` line.

    Raises
    ------
    UsageError
        The line asks for what there is not; one line says what there is.
    """
    command, _, rest = line.strip().partition(" ")
    # An expression keeps its quotes and spaces, and options that are another parser's stay whole.
    if command in ("attach", "inspect", "study", "whatif", "recover") and rest.strip():
        return Namespace(command=command, target=rest.strip(), to=None, **dict.fromkeys(_OPTIONS_OF_ON))
    found = _parsed(line_arguments, line, LINE_USAGE)
    of_on = any(getattr(found, name) is not None for name in _OPTIONS_OF_ON)
    if found.command is None:
        if of_on:
            raise UsageError(f"{_OF_ON} belong to 'on'; usage: {LINE_USAGE}")
        return found
    if found.command not in COMMANDS:
        raise UsageError(f"no sub-command {found.command!r}; known: {', '.join(COMMANDS)}")
    wanted = COMMANDS[found.command]
    usage = f"%kernelscope {found.command} {wanted}".rstrip()
    takes_target = wanted.partition(" ")[0].strip("[]").isupper()
    if found.target is not None and not takes_target:
        raise UsageError(f"{found.target!r} is too much; usage: {usage}")
    if found.target is None and takes_target and not wanted.startswith("["):
        raise UsageError(f"the {wanted.partition(' ')[0]} is missing; usage: {usage}")
    if found.to and found.command != "export":
        raise UsageError(f"--to belongs to 'export'; usage: {usage}")
    if of_on and found.command != "on":
        raise UsageError(f"{_OF_ON} belong to 'on'; usage: {usage}")
    _check_capacity(found, usage)
    return found


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


def without_heading(lines: list[str]) -> list[str]:
    """Return a recorded cell's lines as IPython is to run them.

    The first line is emptied, so that tracebacks keep their line numbers. Where another cell magic follows, the lines
    begin with that: only the first line can be a cell magic, and its body's lines are counted from there anyway.
    """
    if native_options(lines) is None:
        return lines
    first = next(place for place, line in enumerate(lines) if place and line.strip())
    return lines[first:] if is_for_another_magic(lines[first:]) else ["\n", *lines[1:]]


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
    return bool(lines) and bool(_ANY_CELL_MAGIC.match(lines[0]))


def only_manages(lines: Sequence[str]) -> bool:
    """Whether a cell has nothing but ``%kernelscope`` lines and comments."""
    return all(_MANAGING.match(line.strip()) for line in lines)


def _parsed(function: Any, line: str, usage: str) -> Namespace:
    try:
        # IPython's own splitting keeps quotes as part of a value: -n "warm up" would be called '"warm up"'.
        lexer = shlex.shlex(line, posix=True)
        lexer.whitespace_split = True
        lexer.commenters = ""
        found: Namespace = function.parser.parse_args(list(lexer))
    except UsageError as error:
        raise UsageError(f"{_one_line(error)}; usage: {usage}") from None
    except ValueError as error:
        raise UsageError(f"{_one_line(error).lower()} in {line.strip()!r}; usage: {usage}") from None
    return found


def _check_capacity(found: Namespace, usage: str) -> None:
    if found.capacity is not None and found.mode not in ("ring", "stop"):
        raise UsageError(f"--capacity {found.capacity} belongs to --mode ring or stop; usage: {usage}")
    if found.capacity is not None and found.capacity < 1:
        raise UsageError(f"--capacity {found.capacity} is no number of launches, from 1; usage: {usage}")


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())
