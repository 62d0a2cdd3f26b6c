"""``kernelscope run``: a script or module, run as Python runs it and recorded."""

from __future__ import annotations

import argparse
import os
import runpy
import sys
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING, NamedTuple, TextIO

from kernelscope.commands.output import report, reporting, written
from kernelscope.commands.tracebacks import hide_frames
from kernelscope.commands.verb import Verb, add_json, recording_options
from kernelscope.errors import KernelScopeError
from kernelscope.recorder.option import RUN
from kernelscope.recorder.options import add_arguments
from kernelscope.suggestions import did_you_mean_file

if TYPE_CHECKING:
    from kernelscope.recorder.recorder import Recorder
    from kernelscope.recording.model import Recording


_INTERRUPTED = 130

_ABOUT = """\
Run a Python script, or a module with -m, and record every CUDA kernel launch that it makes.

The program runs as with `python script.py`: sys.argv, sys.path, __main__, its exit code and its errors are its own.
Everything behind the script's name is passed to it, except a final `-o FILE.kscope`. The recording is saved however
the program ends. With --json what the program prints goes to stderr, so that stdout is one JSON object: what
`kernelscope show --json` prints of the recording, and where it is."""


def _arguments(parser: argparse.ArgumentParser, in_notebook: bool) -> None:
    parser.add_argument("-o", "--output", metavar="FILE", help="where to save; script.kscope in this folder otherwise")
    add_arguments(parser, RUN)
    parser.add_argument("--dryrun", action="store_true", help="run without a GPU: kernels compile and do not execute")
    add_json(parser)
    parser.add_argument("-m", dest="module", nargs=argparse.REMAINDER, metavar="module", help="run a module instead")
    parser.add_argument("script", nargs=argparse.REMAINDER, metavar="script.py", help="the script and its arguments")


class Program(NamedTuple):
    """What to run.

    Attributes
    ----------
    name
        A script's path, or a module's name.
    is_module
        Which of the two it is.
    arguments
        What it finds in ``sys.argv[1:]``.
    output
        Where to save the recording.
    """

    name: str
    is_module: bool
    arguments: list[str]
    output: str

    @property
    def label(self) -> str:
        """Return what to call its recording."""
        return self.name if self.is_module else Path(self.name).name


def main(arguments: argparse.Namespace) -> int:
    """Run, record, print the summary and save; return the program's exit code."""
    program = read_program(arguments)
    name = arguments.name or program.label
    options = reporting(recording_options(arguments, arguments.parser, name=name), lambda: sys.stderr)
    from kernelscope import dryrun
    from kernelscope.recorder.recorder import recorder_of

    if arguments.dryrun:
        dryrun.enable()
    recorder = recorder_of(options)
    run = _prepared(program)
    process, tell = os.getpid(), _telling(arguments) if arguments.json else _told_as_text
    try:
        return _record(recorder, name, run, program.output, tell)
    finally:
        if recorder.is_recording and os.getpid() == process:  # a signal handler has raised beside the program
            recorder.stop()


def _told_as_text(recording: Recording, target: Path | None) -> None:
    print(recording.summary() + ("" if target is None else f"\nwrote {target}"), flush=True)


def _telling(arguments: argparse.Namespace) -> Callable[[Recording, Path | None], None]:
    """Send what is printed from now on to stderr; return what prints the answer where it would have gone."""
    from kernelscope.views.answer import encoded, written
    from kernelscope.views.card.answer import recording_answer

    sys.stdout.flush()
    out: int | TextIO
    try:
        number = sys.stdout.fileno()
        out = os.dup(number)
        os.dup2(sys.stderr.fileno(), number)
    except (OSError, ValueError):  # stdout is no file, as in a test
        out, sys.stdout = sys.stdout, sys.stderr

    def tell(recording: Recording, target: Path | None) -> None:
        members = {"written": None if target is None else written([target], "kscope")}
        text = encoded(recording_answer(recording, arguments.limit, members=members))
        if isinstance(out, int):
            with open(out, "w", encoding="ascii") as file:
                print(text, file=file)
        else:
            print(text, file=out, flush=True)

    return tell


def _record(recorder: Recorder, name: str, run: Callable[[], object], output: str,
            tell: Callable[[Recording, Path | None], None]) -> int:
    """Run, record, save to `output` and tell what was recorded; return the program's exit code."""
    process = os.getpid()
    recorder.start()
    recorder.begin_cell(name)
    error: BaseException | None = None
    try:
        run()
    except BaseException as raised:
        error = raised
    code = _tell(error)
    if os.getpid() != process:  # A child of the program's os.fork() that came out here: the recording is its parent's.
        return code
    try:
        # Wait for the program's threads, as Python does before it ends: they may launch too.
        for thread in threading.enumerate():
            if not thread.daemon and thread is not threading.current_thread():
                thread.join()
    except KeyboardInterrupt as raised:
        error, code = raised, _INTERRUPTED
    # A program that ends with exit() has not failed; what it exits with is passed on.
    recorder.end_cell(None if isinstance(error, SystemExit) else error)
    try:
        try:
            recording = recorder.stop()
        except KeyboardInterrupt:
            recording, code = recorder.recording, _INTERRUPTED
        # Saved before anything is printed: whoever reads stdout may have gone, as in `| head`.
        try:
            target = written(recording, output)
        except KernelScopeError:
            tell(recording, None)
            raise
        tell(recording, target)
    except Exception as problem:
        if code == 0 and isinstance(problem, KernelScopeError | BrokenPipeError):
            raise
        report(problem)
        return code or 1
    return code


def read_program(arguments: argparse.Namespace) -> Program:
    """Return what the command line asks to run; a wrong one ends the process with exit code 2."""
    words = list(arguments.script if arguments.module is None else arguments.module)
    is_module = arguments.module is not None
    words = words[1:] if words[:1] == ["--"] else words
    if not words or not words[0]:
        arguments.parser.error(f"name a {'module' if is_module else 'script'} to run")
    name, rest, output = words[0], words[1:], arguments.output
    # `kernelscope run script.py -o out.kscope`: nothing else writes files of this suffix.
    if output is None and len(rest) >= 2 and rest[-2] in ("-o", "--output") and rest[-1].endswith(".kscope"):
        output, rest = rest[-1], rest[:-2]
    if not is_module and not Path(name).exists():
        arguments.parser.error(f"there is no file {name!r}{did_you_mean_file(name, '.py')}")
    if not is_module and name.endswith(".kscope"):
        arguments.parser.error(f"{name!r} is a recording, not a script; did you mean 'kernelscope show {name}'?")
    if not is_module and Path(name).is_dir() and not (Path(name) / "__main__.py").is_file():
        arguments.parser.error(f"{name!r} is a folder without a __main__.py")
    if output is None:
        output = f"{name if is_module else Path(name).stem or 'script'}.kscope"
    if not Path(output).name:
        raise KernelScopeError(f"{output!r} names no file")
    from kernelscope.commands.export import check_recording_name

    check_recording_name(output)
    folder = Path(output).expanduser().parent
    if not folder.is_dir():
        raise KernelScopeError(f"cannot write {output}: there is no folder {folder}")
    return Program(name, is_module, rest, output)


def _prepared(program: Program) -> Callable[[], object]:
    """Set up sys.argv and sys.path as ``python script.py`` does, and return what runs the program."""
    sys.argv = [program.name, *program.arguments]
    if program.is_module:
        sys.path[0] = str(Path.cwd())
        return lambda: runpy.run_module(program.name, run_name="__main__", alter_sys=True)
    path = Path(program.name)
    if not path.is_file() or zipfile.is_zipfile(path):  # a folder or a zip file with a __main__ in it
        return lambda: runpy.run_path(program.name, run_name="__main__")
    try:
        source = path.read_bytes()
    except OSError as error:
        raise KernelScopeError(f"cannot read {program.name}: {error.strerror or error}") from None
    sys.path[0] = str(path.resolve().parent)
    module = ModuleType("__main__")
    filename = os.path.abspath(path)
    vars(module).update(__file__=filename, __builtins__=__builtins__, __cached__=None)
    # It stays in place when the script has ended: exit handlers and threads look up names in it.
    sys.modules["__main__"] = module

    def run() -> None:
        exec(compile(source, filename, "exec", dont_inherit=True), vars(module))

    return run


def _tell(error: BaseException | None) -> int:
    """Show what ended the program as Python does, and return the exit code that Python ends with."""
    if sys.stdout is not None:  # as it is where the program was started with a closed stdout
        sys.stdout.flush()
    if error is None:
        return 0
    if isinstance(error, SystemExit):
        if error.code is None or isinstance(error.code, int):
            return error.code or 0
        print(error.code, file=sys.stderr)
        return 1
    error.__traceback__ = _own_frames(error.__traceback__)
    hide_frames(error)
    sys.excepthook(type(error), error, error.__traceback__)
    return _INTERRUPTED if isinstance(error, KeyboardInterrupt) else 1


def _own_frames(traceback: TracebackType | None) -> TracebackType | None:
    """Return the traceback from the program's first frame on."""
    ours = (__file__, runpy.__file__, "<frozen runpy>")
    while traceback is not None and traceback.tb_frame.f_code.co_filename in ours:
        traceback = traceback.tb_next
    return traceback


VERBS = {"run": Verb(_arguments, main, about=_ABOUT,
                     usage="kernelscope run [options] (script.py | -m module) [argument ...]")}
