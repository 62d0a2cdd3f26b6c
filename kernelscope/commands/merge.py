"""``merge``: what many processes recorded, as one file."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from kernelscope.commands.export import check_recording_name, progress_printer
from kernelscope.commands.output import written
from kernelscope.commands.verb import Verb

_INTERRUPTED = 130

_ABOUT = """\
Make one .kscope file of what many processes recorded: those that recorded themselves into a folder because
KERNELSCOPE_RECORD names it in their environment, or any .kscope files and journals.

Of a process that was killed its journal is recovered; of one that still records the launches so far are taken. What
cannot be read is named on standard error and left out: the exit code is 1 then, and the file has all the others."""


def _arguments(parser: argparse.ArgumentParser, in_notebook: bool) -> None:
    parser.add_argument("folders", metavar="FOLDER", nargs="+", help="a folder, a .kscope file or a journal")
    parser.add_argument("-o", "--output", metavar="FILE",
                        help="where to write; the first folder's name.kscope otherwise")
    parser.add_argument("-n", "--name", help="what to call the recording")


def main(arguments: argparse.Namespace) -> int:
    """Read, merge and write; return the exit code."""
    from kernelscope.recorder.children import collected

    folders = [Path(folder).expanduser() for folder in arguments.folders]
    output = arguments.output or f"{folders[0].resolve().stem or 'merged'}.kscope"
    check_recording_name(output)
    recording, gathered = collected(folders, arguments.name, progress_printer())
    for problem in gathered.left_out:
        print(f"kernelscope: left out: {' '.join(problem.split())}", file=sys.stderr)
    target = written(recording, output)
    print(f"{recording.summary()}\nwrote {target}", flush=True)
    if gathered.interrupt is not None:
        print(f"kernelscope: {gathered.notes[0]['message']}", file=sys.stderr)
        return _INTERRUPTED
    return 1 if gathered.left_out else 0


VERBS = {"merge": Verb(_arguments, main, about=_ABOUT)}
