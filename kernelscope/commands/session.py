"""The recordings of one IPython shell: the magics' lines, which cell is recorded, and what is shown of it."""

from __future__ import annotations

import re
import shlex
import sys
import threading
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from IPython.core.error import UsageError
from IPython.core.inputtransformer2 import classic_prompt, ipython_prompt, leading_indent
from IPython.core.magic_arguments import argument, kwds, magic_arguments

from kernelscope.commands import output
from kernelscope.suggestions import did_you_mean, explained, see
from kernelscope.views import exports

if TYPE_CHECKING:
    from kernelscope.recorder.recorder import Recorder
    from kernelscope.recording.model import Recording


# The magics' lines: what ``%%kernelscope`` and ``%kernelscope`` accept, and how a recorded cell's text is read.
#
# Everything here is a function of text. IPython calls input transformers more than once a cell, and for cells that it
# never runs, so that nothing here may have an effect.

#: Of a launch; the same words as `kernelscope.probes.base.DETAILS`, which costs NumPy's import to name.
DETAILS = ("launch", "phases")
#: The same words as `kernelscope.native.log.MODES` and `kernelscope.native.log.BACKENDS`.
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
    "export": Command(f"PATH [--to {'|'.join(exports.EXPORTERS)}]",
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
@argument("--to", choices=tuple(exports.EXPORTERS),
          help=f"export: the format; without it the one of the name: {exports.listed(exports.suffixes())}")
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


# Errors of a recorded cell look as they would without a recording: our frames are not in their tracebacks.

class TracebackFilter:
    """Takes the hooks' frames out of errors before IPython shows them, while a recorded cell runs.

    It puts a function of its own in the place of ``shell.showtraceback``: the one method that every way of showing
    an error goes through, before anything (``sys.last_traceback``, a handler for some exceptions, history) keeps the
    traceback. If somebody else replaces it meanwhile, ours stays behind theirs as a pass-through.

    Parameters
    ----------
    shell : InteractiveShell
        Where errors are shown.
    before : callable
        Called with each error before it is shown.
    """

    def __init__(self, shell: Any, before: Callable[[BaseException], None]) -> None:
        self._shell = shell
        self._before = before
        self._shown: BaseException | None = None
        self._installed: Callable[..., None] | None = None
        self._covered: Any = None

    def install(self) -> None:
        """Begin, if it has not begun."""
        if self._installed is not None:
            return
        self._covered = vars(self._shell).get("showtraceback")
        original = self._shell.showtraceback

        def showtraceback(exc_tuple: Any = None, *args: Any, **kwargs: Any) -> None:
            error = exc_tuple[1] if exc_tuple else sys.exc_info()[1]
            if self._installed is showtraceback and error is not None:
                if error is self._shown:
                    return
                hide_frames(error)
                self._before(error)
            original(exc_tuple, *args, **kwargs)

        self._installed = showtraceback
        self._shell.showtraceback = showtraceback

    def undo(self) -> None:
        """End, and restore the shell's method unless somebody else has replaced it meanwhile."""
        installed, self._installed, self._shown = self._installed, None, None
        if installed is not None and vars(self._shell).get("showtraceback") is installed:
            if self._covered is None:
                del self._shell.showtraceback
            else:
                self._shell.showtraceback = self._covered
        self._covered = None

    def mark_shown(self, error: BaseException) -> None:
        """Say that this error was shown: raised again by the cell around, it is not shown a second time."""
        self._shown = error


def hide_frames(error: BaseException) -> None:
    """Take the hooks' frames out of an error's traceback and out of those that it is chained to."""
    base = sys.modules.get("kernelscope.probes.base")
    if base is None or not base.hook_codes:
        return
    hidden = frozenset(base.hook_codes)
    for each in _chained(error):
        traceback = base.without_frames(each.__traceback__, hidden)
        if traceback is not each.__traceback__:
            each.__traceback__ = traceback


def _chained(error: BaseException) -> Iterator[BaseException]:
    """The error, its causes and contexts, and the members of groups; each once."""
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        each = waiting.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        yield each
        waiting += [each.__cause__, each.__context__]
        if isinstance(each, BaseExceptionGroup):
            waiting += each.exceptions


# The session of one IPython shell: which cell is recorded, from IPython's events, and what was recorded so far.
#
# A recorded cell is run by IPython itself. Its ``%%kernelscope`` line is emptied by an input transformer, the
# recorder starts in ``pre_run_cell`` and stops in ``post_run_cell``; so await at top level, ``Out``, errors and
# Ctrl-C are IPython's own. The cell magic as such runs only inside another magic's cell, where IPython has no
# events for us.

#: The variable that holds the newest recording.
VARIABLE = "_kernelscope"


@dataclass
class OpenCell:
    """A cell that runs, recorded or not.

    Attributes
    ----------
    info : ExecutionInfo or None
        IPython's object for this run; None while a magic is about to run its body.
    text : str
        The cell's source.
    number : int or None
        Its execution count.
    options : CellOptions or None
        How it is recorded; None if it is not.
    automatic : bool
        Whether it is recorded because of ``%kernelscope on``.
    by_magic : bool
        Whether the cell magic runs it as the body of its cell.
    has_ended : bool
        Whether the user's code has ended.
    """

    info: Any
    text: str
    number: int | None
    options: CellOptions | None = None
    automatic: bool = False
    by_magic: bool = False
    has_ended: bool = False
    recorder: Recorder | None = None
    recording: Recording | None = None
    thread: int = field(default_factory=threading.get_ident)

    def stop(self, error: BaseException | None) -> None:
        """Stop recording at the end of the user's code, with the exception that ended it.

        What follows is not the cell's time: showing a traceback, drawing figures, keeping its history.
        """
        recorder = self.recorder
        if recorder is None:
            return
        try:
            try:
                if not self.has_ended:
                    self.has_ended = True
                    recorder.end_cell(error)
            finally:
                self.recording = recorder.stop()
        except (Exception, KeyboardInterrupt) as problem:
            self.recording = recorder._recording  # a Ctrl-C leaves it whole where only registers or code were read
            output.report(problem)
        finally:
            if not recorder.is_recording:  # else a Ctrl-C came before anything was done: the cell's end stops it
                self.recorder = None


class NotebookSession:
    """Records the cells of one shell.

    Parameters
    ----------
    shell : InteractiveShell
        IPython's shell.

    Attributes
    ----------
    recordings : list of Recording
        Those of this session, in order.
    always : CellOptions or None
        How every cell is recorded, while `%kernelscope on` holds.
    """

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self.recordings: list[Recording] = []
        self.always: CellOptions | None = None
        self._latest: Recording | None = None
        self._open: list[OpenCell] = []
        self._attached: list[Any] = []
        self._errors = TracebackFilter(shell, self._error_is_shown)

    # ---- Into the shell and out of it ----

    def install(self) -> None:
        """Add the transformer and the callbacks, and the variable if there is a recording from before."""
        self._shell.input_transformers_cleanup.append(self.transform)
        for event, callback in self._callbacks():
            self._shell.events.register(event, callback)
        # First of all: what others do after the code, such as drawing figures, is not the cell's time.
        after = self._shell.events.callbacks["post_execute"]
        after.insert(0, after.pop(after.index(self.post_execute)))
        if self._latest is not None:
            self.keep(self._latest)

    def uninstall(self) -> None:
        """Take them out again; a cell that is being recorded is recorded until here."""
        ended, self._open = self._open, []
        for cell in ended:
            recording = self._finish(cell, None)
            if recording is not None:
                self._show(cell, recording)
        self._errors.undo()
        for event, callback in self._callbacks():
            if callback in self._shell.events.callbacks[event]:
                self._shell.events.unregister(event, callback)
        if self.transform in self._shell.input_transformers_cleanup:
            self._shell.input_transformers_cleanup.remove(self.transform)
        if self._latest is not None and self._shell.user_ns.get(VARIABLE) is self._latest:
            self._shell.drop_by_id({VARIABLE: self._latest})

    def _callbacks(self) -> list[tuple[str, Callable[..., None]]]:
        return [("pre_run_cell", self.pre_run_cell), ("post_execute", self.post_execute),
                ("post_run_cell", self.post_run_cell)]

    # ---- Cells that IPython runs ----

    def transform(self, lines: list[str]) -> list[str]:
        """Take the first line of a recorded cell away. IPython calls this, with the cell's lines."""
        # Inside a running cell, a magic may transform its body and run it without any event (%%time does).
        return lines if self._running() else without_heading(lines, self._shell.transform_cell)

    # It has none. IPython leaves such transformers out where it asks whether a cell is complete, so that in a
    # terminal the cell goes on until an empty line, as with any cell magic.
    vars(transform)["has_side_effects"] = True

    def pre_run_cell(self, info: Any) -> None:
        """Start recording, if this cell is to be recorded. IPython calls this."""
        running = self._running()
        if running and running[-1].by_magic and running[-1].info is None:
            running[-1].info = info  # The body of the magic's cell, whose recorder has started already.
            return
        number = self._shell.displayhook.prompt_count if info.store_history or running else None
        cell = OpenCell(info, info.raw_cell, number)
        lines = cleaned(info.raw_cell, self._shell.input_transformers_cleanup, self.transform)
        if heading(lines) is not None:
            cell.options = None if running else native_options(lines)
        elif self.always and not self.is_recording and not only_manages(lines):
            cell.options, cell.automatic = self.always, True
        self._open.append(cell)
        self._start(cell)

    def post_execute(self) -> None:
        """Mark the end of the cell's code. IPython calls this, also for messages that are no cells."""
        result = self._shell.last_execution_result
        for cell in self._open:
            if result is not None and cell.info is not None and result.info is cell.info:
                cell.stop(_error(result))

    def post_run_cell(self, result: Any) -> None:
        """Stop recording and show the card, after the cell's own traceback. IPython calls this."""
        cell = self._of(result)
        if cell is None or cell.by_magic:
            return
        self._open.remove(cell)
        if not self._open:
            self._errors.undo()
        error = KeyboardInterrupt() if result is None else _error(result)
        recording = self._finish(cell, error)
        if recording is None or cell.options is None:
            return
        try:
            if cell.options.returns and error is None and result is not None:
                result.result = recording
                output.give(self._shell, recording, cell.number, quiet=cell.options.quiet)
                self._show(cell, recording, card=False)
            else:
                self._show(cell, recording)
        except KeyboardInterrupt:  # it would be IPython's error in a callback, with its traceback
            output.report("interrupted while the card was shown: %kernelscope report shows it")
        except Exception as problem:
            output.report(problem)

    def _show(self, cell: OpenCell, recording: Recording, *, card: bool = True) -> None:
        """Show what the cell's line asks for; `card` is false where the card was shown already."""
        options = cell.options
        if options is None or options.quiet:
            return
        if card and (not cell.automatic or _has_news(recording)):
            output.show(self._shell, recording)
        if options.timeline:
            output.show_timeline(self._shell, recording)
        if options.charts:
            output.show_charts(self._shell, recording)

    def _of(self, result: Any) -> OpenCell | None:
        """The cell that has ended. A cancelled one has no result, and one in which IPython failed has another info."""
        running = self._running()
        if result is None:
            return running[-1] if running else None
        same = [cell for cell in self._open if cell.info is not None and cell.info is result.info]
        failed = [cell for cell in running if _error(result) is not None and cell.text == result.info.raw_cell]
        return next(iter([*same, *reversed(failed)]), None)

    # ---- Cells that the magic runs ----

    def run(self, options: CellOptions, body: str) -> Recording | None:
        """Record the body of a ``%%kernelscope`` cell inside another magic's cell; return its recording.

        An error of the body is shown as usual, then the card, and then it is raised again, so that the cell around
        it ends as it would without us.
        """
        running = self._running()
        self._forget_automatic(running)
        if running and running[0].text.lstrip().startswith("%%timeit"):
            raise UsageError("%%timeit repeats its body, and each repetition would be a recording of its own: "
                             "put %%kernelscope above %%timeit")
        number = running[-1].number if running else None
        cell = OpenCell(None, body, number, options, by_magic=True)
        hook = self._shell.displayhook
        outer_result = hook.exec_result
        error: BaseException | None = None
        try:
            self._start(cell)
            self._open.append(cell)
            error = _error(self._shell.run_cell(body, store_history=False))
        except BaseException as raised:
            error = raised
            raise
        finally:
            hook.exec_result = outer_result
            has_ended = cell not in self._open and cell.recorder is None  # by an %unload_ext in it
            if cell in self._open:
                self._open.remove(cell)
            recording = cell.recording if has_ended else self._finish(cell, error)
            if not has_ended and recording is not None and (error is not None or not options.returns):
                self._show(cell, recording)
            if self._open and error is not None:
                self._errors.mark_shown(error)
            elif not self._open:
                self._errors.undo()
        if error is not None:
            raise error
        return recording if options.returns else None

    def _forget_automatic(self, running: list[OpenCell]) -> None:
        """A cell with a %%kernelscope of its own is recorded once, as that says, and not by `%kernelscope on` too."""
        for cell in running:
            if cell.automatic and is_for_another_magic(cell.text.lstrip().splitlines()):
                self._discard(cell)

    # ---- What the sub-commands ask ----

    @property
    def is_recording(self) -> bool:
        """Whether a cell is being recorded."""
        return any(cell.recorder is not None for cell in self._open)

    def attach(self, kernel: Any) -> bool:
        """Attach the kernel to the recording that runs, or else to the next one; return whether one runs."""
        recorder = next((cell.recorder for cell in reversed(self._open) if cell.recorder is not None), None)
        if recorder is None:
            self._attached.append(kernel)
        else:
            recorder.attach(kernel)
        return recorder is not None

    def keep(self, recording: Recording) -> None:
        """Make the recording the newest one."""
        self._latest = recording
        self._shell.push({VARIABLE: recording}, interactive=False)

    # ---- Recorders ----

    def _running(self) -> list[OpenCell]:
        """The cells that run in this thread, each inside the one before it."""
        return [cell for cell in self._open if cell.thread == threading.get_ident()]

    def _start(self, cell: OpenCell) -> None:
        if cell.options is None:
            return
        try:
            from kernelscope.recorder.recorder import Recorder

            options = cell.options
            recorder = Recorder(options.name, detail=options.detail, gpu=options.gpu, code=options.code,
                                mode=options.mode, capacity=options.capacity, backend=options.recorder,
                                journal=options.journal or None)
            cell.recorder = recorder  # before it starts: the cell's end stops it, whatever comes in between
            recorder.start()
        except (Exception, KeyboardInterrupt) as problem:
            if cell.recorder is not None and not cell.recorder.is_recording:
                cell.recorder = None
            output.report(problem)
            return
        try:
            self._errors.install()
            attached, self._attached = self._attached, []
            for kernel in attached:
                recorder.attach(kernel)
        except (Exception, KeyboardInterrupt) as problem:
            output.report(problem)
        recorder.begin_cell(cell.options.name, execution_count=cell.number, source=cell.text)

    def _finish(self, cell: OpenCell, error: BaseException | None) -> Recording | None:
        """Stop if that was not done yet; keep and save the recording. None where there is none."""
        cell.stop(error)
        recording = cell.recording
        if recording is None or cell.options is None:
            return None
        self.recordings.append(recording)
        self.keep(recording)
        if cell.options.output is not None:
            try:
                print(f"kernelscope: {saved(recording, cell.options.output)}")
            except KeyboardInterrupt:
                output.report(f"interrupted: {cell.options.output} was not written")
            except Exception as problem:
                output.report(problem)
        return recording

    def _discard(self, cell: OpenCell) -> None:
        cell.stop(None)
        cell.recording = cell.options = None

    def _error_is_shown(self, error: BaseException) -> None:
        """The traceback of the running code is about to be shown: its time ends here."""
        result = self._shell.displayhook.exec_result
        if result is None or _error(result) is not error:
            return
        for cell in self._open:
            if cell.info is not None and cell.info is result.info:
                cell.stop(error)


def saved(recording: Recording, path: str) -> str:
    """Save the recording and return a line that says where; says meanwhile that a long one takes time."""
    from kernelscope.commands.export import check_recording_name
    from kernelscope.recording.file import save
    from kernelscope.units import size

    check_recording_name(path)
    target = save(recording, path, progress=output.progress(recording, f"kernelscope: writing {path}"))
    return f"wrote {target} ({size(target.stat().st_size)})"


def automatic(asked: Namespace) -> CellOptions:
    """Return how ``%kernelscope on`` records each cell: as `magic_line.parse_line` has read it."""
    return replace(CellOptions(), quiet=bool(asked.quiet), detail=asked.detail or "phases", gpu=asked.gpu or "cupti",
                   code=bool(asked.code), mode=asked.mode or "grow", capacity=asked.capacity, recorder=asked.recorder,
                   journal=asked.journal)


def _error(result: Any) -> BaseException | None:
    error: BaseException | None = result.error_before_exec or result.error_in_exec
    return error


def _has_news(recording: Recording) -> bool:
    """Whether a cell that nobody asked about in particular has anything to show."""
    if any(recording.arrow(name).num_rows for name in ("launches", "compilations", "graph_events", "builds")):
        return True
    return any(row["errors"] or row["dropped"] for row in recording.rows("health"))
