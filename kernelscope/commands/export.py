"""``export``: a ``.kscope`` file, or what a notebook has recorded, as a trace, a page or tables."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from kernelscope.commands.output import print_written
from kernelscope.commands.show import chosen
from kernelscope.commands.verb import Verb, add_json, add_redaction
from kernelscope.errors import KernelScopeError
from kernelscope.views.base import checked
from kernelscope.views.exports import (
    Exporter,
    exporter_named_by,
    exporter_of,
    exporters,
    help_text,
    listed,
    suffixes,
)

if TYPE_CHECKING:
    from kernelscope.commands.session import NotebookSession
    from kernelscope.recording.model import Recording

_ABOUT = f"""\
Write a .kscope file, the trace of another tool, or a saved study, in another format, beside it unless -o says where.

{help_text()}

An export of that name that is there is replaced. Paths of this machine are cut to the files' names, as in any saved
file."""

# Shorter exports print no progress.
_QUIET_S = 1.0
_BETWEEN_S = 1.0


def _arguments(parser: argparse.ArgumentParser, in_notebook: bool) -> None:
    if in_notebook:
        parser.add_argument("path", metavar="PATH", help="where to write: a file, or a folder for tables")
    else:
        parser.add_argument("file", metavar="FILE.kscope",
                            help="a recording, or the trace of another tool; of a study its FILE.json")
    without = f"; without it the one of the name: {listed(suffixes())}" if in_notebook else ""
    parser.add_argument("--to", required=not in_notebook, choices=tuple(exporters()), help=f"the format{without}")
    parser.set_defaults(metric=None)
    with_metrics = [exporter for exporter in exporters().values() if exporter.metrics]
    if with_metrics:
        metrics = dict.fromkeys(metric for exporter in with_metrics for metric in exporter.metrics)
        about = [f"what the numbers of --to {exporter.name} are: {exporter.about_metrics}" for exporter in with_metrics]
        parser.add_argument("--metric", choices=tuple(metrics), help="; ".join(about))
    if not in_notebook:
        parser.add_argument("-o", "--output", metavar="PATH", help="where to write: a file, or a folder for tables")
        parser.add_argument("--cell", metavar="N", help="of one cell only: its execution count or name")
        parser.add_argument("--framework", metavar="NAME", help="of one framework's kernels only, such as driver")
        add_redaction(parser)
        add_json(parser, rows=False)


def exported(recording: Recording, form: str, output: str | None, source: str | None = None,
             metric: str | None = None) -> tuple[Path, str]:
    """Write the recording in one of the `exporters`; return where, and what is to be said behind that, if anything.

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
    metric : str, optional
        What the numbers are, in a format that has `Exporter.metrics`.

    Raises
    ------
    KernelScopeError
        The name is that of another format or of the source, or it cannot be written.
    """
    exporter = exporters()[form]
    target = _target(exporter, output, source or recording.name or "recording")
    place = checked(target)
    if source is not None and exporter.written_to(place).resolve() == Path(source).expanduser().resolve():
        raise KernelScopeError(f"{exporter.written_to(place).name!r} would replace the trace itself: name another file "
                               "with -o")
    options = {"metric": metric} if metric else {}
    written = exporter.write(recording, place, progress=progress_printer(), **options)
    return written, exporter.note(target, written)


def _target(exporter: Exporter, output: str | None, source: str) -> str:
    target = output or exporter.default_name(source)
    named = exporter_of(target)
    if named is not None and named is not exporter:
        raise KernelScopeError(f"{target!r} is the name of a file in the format {named.name}, and --to says "
                               f"{exporter.name}: change one of the two")
    return target


def _export_study(arguments: argparse.Namespace) -> Path:
    """Write a saved study in another format, and return where."""
    exporter = exporters()[arguments.to]
    if not exporter.of_studies:
        able = listed([each.name for each in exporters().values() if each.of_studies])
        arguments.parser.error(f"{arguments.file} is no .kscope file; a study can be written --to {able}")
    for name in ("cell", "framework", "redact", "no_texts"):
        if getattr(arguments, name):
            arguments.parser.error(f"--{name.replace('_', '-')} is about recordings, and {arguments.file} is a study")
    target = _target(exporter, arguments.output, arguments.file)
    if os.path.realpath(target) == os.path.realpath(arguments.file):
        arguments.parser.error(f"-o {target} would replace the study itself: name another file")
    return exporter.write_study(arguments.file, str(checked(target)))


def check_recording_name(path: str) -> None:
    """Raise `KernelScopeError` for a recording that is to be called like an export."""
    named = exporter_of(path.lower())
    if named is not None:
        raise KernelScopeError(f"{path!r} is the name of an export, and a recording's ends in .kscope: name it so, and "
                               f"export it to {named.name}")


def progress_printer() -> Callable[[float, str], None]:
    """Return a callback that prints a long export's progress on stderr, once a second; a short one prints nothing."""
    begun = printed = time.monotonic()

    def tell(fraction: float, text: str) -> None:
        nonlocal printed
        now = time.monotonic()
        if now - begun >= _QUIET_S and now - printed >= _BETWEEN_S and fraction < 1 and sys.stderr is not None:
            printed = now
            print(f"{text}: {fraction:.0%}", file=sys.stderr, flush=True)

    return tell


def main(arguments: argparse.Namespace) -> int:
    """Export the file and print where; return the exit code."""
    from kernelscope.studies.files import is_study  # only a file of JSON may be one

    _check_metric(arguments, arguments.to)
    if Path(arguments.file).suffix == ".json" and is_study(arguments.file):
        written, note = _export_study(arguments), ""
    else:
        written, note = exported(chosen(arguments), arguments.to, arguments.output, arguments.file, arguments.metric)
    print_written(arguments, written, arguments.to, note)
    return 0


def _magic(session: NotebookSession, asked: argparse.Namespace) -> None:
    form = asked.to or exporter_named_by(asked.path).name
    _check_metric(asked, form)
    written, note = exported(session.whole("export"), form, asked.path, metric=asked.metric)
    print(f"kernelscope: wrote {written}{note}")


def _check_metric(asked: argparse.Namespace, form: str) -> None:
    if asked.metric and not exporters()[form].metrics:
        with_metric = listed([each.name for each in exporters().values() if each.metrics])
        asked.parser.error(f"--metric chooses the numbers of --to {with_metric}, and this is {form}: leave it out")


VERBS = {"export": Verb(_arguments, main, _magic, about=_ABOUT)}
