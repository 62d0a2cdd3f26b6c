"""``export``: a ``.kscope`` file, or what a notebook has recorded, as a trace, a page or tables."""

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
from kernelscope.commands.verb import Verb, add_redaction
from kernelscope.errors import KernelScopeError
from kernelscope.recording.file import load
from kernelscope.suggestions import did_you_mean
from kernelscope.views.base import checked

if TYPE_CHECKING:
    from kernelscope.commands.session import NotebookSession
    from kernelscope.recording.model import Recording

_ABOUT = """\
Write a .kscope file in another format, beside it unless -o says where.

  perfetto   a trace for https://ui.perfetto.dev: the timeline's lanes, with arrows from launches to kernels
             (out.pftrace; Chrome's JSON, out.json, where the perfetto package is missing or -o ends in .json)
  html       one page with the card and the timeline, which needs no network (out.html)
  parquet    a folder with one Parquet file a table (out-parquet)
  csv        a folder with one CSV file a table (out-csv)

An export of that name that is there is replaced. Paths of this machine are cut to the files' names, as in any saved
file."""

#: The formats, and what an export's name ends in; tables are a folder.
FORMATS = {"perfetto": ".pftrace", "html": ".html", "parquet": "-parquet", "csv": "-csv"}

_SUFFIXES = {".pftrace": "perfetto", ".json": "perfetto", ".html": "html", ".htm": "html"}
# Shorter exports end before one wonders.
_QUIET_S = 1.0
_BETWEEN_S = 1.0


def _arguments(parser: argparse.ArgumentParser, in_notebook: bool) -> None:
    if in_notebook:
        parser.add_argument("path", metavar="PATH", help="where to write: a file, or a folder for tables")
    else:
        parser.add_argument("file", metavar="FILE.kscope")
    without = "; without it the one of the name: .pftrace, .json or .html" if in_notebook else ""
    parser.add_argument("--to", required=not in_notebook, choices=tuple(FORMATS), help=f"the format{without}")
    if not in_notebook:
        parser.add_argument("-o", "--output", metavar="PATH", help="where to write: a file, or a folder for tables")
        parser.add_argument("--cell", metavar="N", help="of one cell only: its execution count or name")
        add_redaction(parser)


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


def main(arguments: argparse.Namespace) -> int:
    """Read the file, write it as it was asked for, and say where; return the exit code."""
    recording = load(arguments.file, progress=progress(None, f"reading {arguments.file}"))
    if arguments.cell is not None:
        recording = find_cell([recording], arguments.cell)
    if arguments.redact or arguments.no_texts:
        recording = redacted(recording, names=arguments.redact)
    print(exported(recording, arguments.to, arguments.output, arguments.file))
    return 0


def _magic(session: NotebookSession, asked: argparse.Namespace) -> None:
    print(f"kernelscope: {exported(session.whole('export'), asked.to or format_of(asked.path), asked.path)}")


VERB = Verb(_arguments, main, _magic, about=_ABOUT)
