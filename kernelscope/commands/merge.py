"""``merge``: what many processes recorded, as one file."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from kernelscope.commands.export import check_recording_name, progress_printer
from kernelscope.commands.output import loaded
from kernelscope.commands.verb import Verb
from kernelscope.errors import KernelScopeError

_ABOUT = """\
Make one .kscope file of what many processes recorded: those that recorded themselves into a folder because
KERNELSCOPE_RECORD names it in their environment, or any .kscope files and journals.

Of a process that was killed its journal is recovered; of one that still records the launches so far are taken. What
cannot be read is named on standard error and left out: the exit code is 1 then, and the file has all the others. Ctrl-C
ends the reading, and what was read is written."""


def _arguments(parser: argparse.ArgumentParser, in_notebook: bool) -> None:
    parser.add_argument("folders", metavar="FOLDER", nargs="+", help="a folder, a .kscope file or a journal")
    parser.add_argument("-o", "--output", metavar="FILE",
                        help="where to write; the first folder's name.kscope otherwise")
    parser.add_argument("-n", "--name", help="what to call the recording")


def main(arguments: argparse.Namespace) -> int:
    """Read, merge and write; return the exit code."""
    from kernelscope.recorder.children import found, read
    from kernelscope.recording.merge import merge_files

    folders = [Path(folder).expanduser() for folder in arguments.folders]
    output = arguments.output or f"{folders[0].resolve().stem or 'merged'}.kscope"
    check_recording_name(output)
    name = arguments.name or folders[0].resolve().stem
    try:
        merged = merge_files(found(folders), output, name=name, read=read, progress=progress_printer())
    except ValueError as error:  # of different kinds
        raise KernelScopeError(str(error)) from None
    for part, problem in merged.missing.items():
        said = problem.removeprefix(f"{part}: ")
        print(f"kernelscope: left out: {part}: {' '.join(said.split())}", file=sys.stderr)
    print(f"{loaded(str(merged.path)).summary()}\nwrote {merged.path}", flush=True)
    return 1 if merged.missing else 0


VERBS = {"merge": Verb(_arguments, main, about=_ABOUT)}
