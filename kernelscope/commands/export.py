"""Exports of a recording by the name of a format: ``kernelscope export`` and ``%kernelscope export``."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelscope.analysis.redaction import redacted
from kernelscope.commands.output import progress
from kernelscope.commands.show import find_cell
from kernelscope.errors import KernelScopeError
from kernelscope.recording.file import load
from kernelscope.suggestions import did_you_mean
from kernelscope.views.base import checked

if TYPE_CHECKING:
    from kernelscope.recording.model import Recording


#: The formats, and what an export's name ends in; tables are a folder.
FORMATS = {"perfetto": ".pftrace", "html": ".html", "parquet": "-parquet", "csv": "-csv"}

_SUFFIXES = {".pftrace": "perfetto", ".json": "perfetto", ".html": "html", ".htm": "html"}
# Shorter exports end before one wonders.
_QUIET_S = 1.0
_BETWEEN_S = 1.0


def exported(recording: Recording, form: str, output: str | None, source: str | None = None) -> str:
    """Write the recording in one of `FORMATS` and return a line that says where.

    Parameters
    ----------
    recording : Recording
        What to write.
    form : str
        One of `FORMATS`.
    output : str, optional
        Where to; otherwise beside `source`, or in the working folder under the recording's name.
    source : str, optional
        The file that the recording was read from.

    Raises
    ------
    KernelScopeError
        The name is that of another format, or it cannot be written.
    """
    target = output or default_name(source or recording.name or "recording", form)
    said = _SUFFIXES.get(Path(target).suffix, form)
    if said != form:
        raise KernelScopeError(f"{target!r} is the name of a file in the format {said}, and --to says {form}: "
                               "change one of the two")
    if form == "html":
        written = recording.to_html(checked(target))
    else:
        write: Any = getattr(recording, f"to_{form}")
        written = write(target, progress=teller())
    if form == "perfetto" and written.suffix == ".json" and Path(target).suffix != ".json":
        return (f"wrote {written} (Chrome JSON, since the perfetto package is missing: "
                'pip install "kernelscope[perfetto]" makes smaller traces)')
    return f"wrote {written}"


def format_of(path: str) -> str:
    """Return the format that a file's name asks for.

    Raises
    ------
    KernelScopeError
        The name's suffix is not one of a format.
    """
    suffix = Path(path).suffix
    if suffix not in _SUFFIXES:
        near = did_you_mean(suffix, _SUFFIXES) if suffix else ""
        raise KernelScopeError(f"{path!r} does not say which format: end it in .pftrace, .json or .html, or add "
                               f"--to perfetto, html, parquet or csv{near}")
    return _SUFFIXES[suffix]


def check_recording_name(path: str) -> None:
    """Raise `KernelScopeError` for a recording that is to be called like an export."""
    suffix = Path(path).suffix.lower()
    if suffix in _SUFFIXES:
        raise KernelScopeError(f"{path!r} is the name of an export, and a recording's ends in .kscope: name it so, and "
                               f"export it to {_SUFFIXES[suffix]}")


def default_name(source: str, form: str) -> str:
    """Return the name beside `source` that an export gets when none is given."""
    path = Path(source)
    stem = path.stem if path.suffix == ".kscope" else path.name
    return str(path.with_name((stem or "recording") + FORMATS[form]))


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


# ``kernelscope export``: a ``.kscope`` file as a Perfetto trace, an HTML page, or tables in Parquet or CSV.

def main(arguments: argparse.Namespace) -> int:
    """Read the file, write it as it was asked for, and say where; return the exit code."""
    recording = load(arguments.file, progress=progress(None, f"reading {arguments.file}"))
    if arguments.cell is not None:
        recording = find_cell([recording], arguments.cell)
    if arguments.redact or arguments.no_texts:
        recording = redacted(recording, names=arguments.redact)
    print(exported(recording, arguments.to, arguments.output, arguments.file))
    return 0
