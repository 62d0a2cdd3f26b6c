"""``kernelscope run``: a script or module, run as Python runs it and recorded."""

from __future__ import annotations

import argparse
import runpy
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, TracebackType
from typing import NamedTuple

from kernelscope.errors import KernelScopeError

_INTERRUPTED = 130


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
        """What to call its recording."""
        return self.name if self.is_module else Path(self.name).name


def main(arguments: argparse.Namespace) -> int:
    """Run, record, print the summary and save; return the program's exit code."""
    program = read_program(arguments)
    from kernelscope import dryrun
    from kernelscope.recorder import Recorder

    if arguments.dryrun:
        dryrun.enable()
    name = arguments.name or program.label
    recorder = Recorder(name, detail=arguments.detail)
    _prepare(program)
    recorder.start()
    recorder.begin_cell(name)
    error: BaseException | None = None
    try:
        _runner(program)()
        _wait_for_threads()
    except BaseException as raised:
        error = raised
    # As `python -m` says it of a program that ended with exit(): that is no error of the cell.
    recorder.end_cell(None if _is_exit(error) else error)
    code = _exit_code(error)
    return _finish(recorder.stop(), program) or code if code == 0 else _finish(recorder.stop(), program) and code


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
        arguments.parser.error(f"there is no file {name!r}")
    if output is None:
        output = f"{name if is_module else Path(name).stem or 'script'}.kscope"
    folder = Path(output).expanduser().parent
    if not folder.is_dir():
        raise KernelScopeError(f"cannot write {output}: there is no folder {folder}")
    return Program(name, is_module, rest, output)
