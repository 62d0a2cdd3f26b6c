"""Exports of a recording by the name of a format: ``kernelscope export`` and ``%kernelscope export``."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from kernelscope.analysis.redaction import redacted
from kernelscope.commands.output import progress
from kernelscope.commands.show import find_cell
from kernelscope.errors import KernelScopeError
from kernelscope.recording.file import load
from kernelscope.views.base import checked
from kernelscope.views.exports import EXPORTERS, exporter_of

if TYPE_CHECKING:
    from kernelscope.recording.model import Recording


# Shorter exports end before one wonders.
_QUIET_S = 1.0
_BETWEEN_S = 1.0


def exported(recording: Recording, form: str, output: str | None, source: str | None = None) -> str:
    """Write the recording in one of `EXPORTERS` and return a line that says where.

    Parameters
    ----------
    recording : Recording
        What to write.
    form : str
        The exporter's name.
    output : str, optional
        Where to; otherwise beside `source`, or in the working folder under the recording's name.
    source : str, optional
        The file that the recording was read from.

    Raises
    ------
    KernelScopeError
        The name is that of another format, or it cannot be written.
    """
    exporter = EXPORTERS[form]
    target = output or exporter.default_name(source or recording.name or "recording")
    named = exporter_of(Path(target).suffix)
    if named is not None and named is not exporter:
        raise KernelScopeError(f"{target!r} is the name of a file in the format {named.name}, and --to says {form}: "
                               "change one of the two")
    written = exporter.write(recording, checked(target), progress=teller())
    return f"wrote {written}{exporter.note(target, written)}"


def check_recording_name(path: str) -> None:
    """Raise `KernelScopeError` for a recording that is to be called like an export."""
    named = exporter_of(Path(path).suffix.lower())
    if named is not None:
        raise KernelScopeError(f"{path!r} is the name of an export, and a recording's ends in .kscope: name it so, and "
                               f"export it to {named.name}")


def teller() -> Callable[[float, str], None]:
    """Return what tells on stderr how far a long export is, once a second; of a short one it tells nothing."""
    begun = told = time.monotonic()

    def tell(fraction: float, text: str) -> None:
        nonlocal told
        now = time.monotonic()
        if now - begun >= _QUIET_S and now - told >= _BETWEEN_S and fraction < 1 and sys.stderr is not None:
            told = now
            print(f"{text}: {fraction:.0%}", file=sys.stderr, flush=True)

    return tell


def main(arguments: argparse.Namespace) -> int:
    """Read the file, write it as it was asked for, and say where; return the exit code."""
    recording = load(arguments.file, progress=progress(None, f"reading {arguments.file}"))
    if arguments.cell is not None:
        recording = find_cell([recording], arguments.cell)
    if arguments.redact or arguments.no_texts:
        recording = redacted(recording, names=arguments.redact)
    print(exported(recording, arguments.to, arguments.output, arguments.file))
    return 0
