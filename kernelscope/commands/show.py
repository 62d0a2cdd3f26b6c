"""``kernelscope show``: a ``.kscope`` file as text, as tables or as JSON; and finding one of its cells."""

from __future__ import annotations

import argparse
import os
import textwrap
from collections.abc import Sequence
from typing import Any

from kernelscope import registry
from kernelscope.analysis.redaction import redacted
from kernelscope.commands.output import loaded, print_answer, print_written
from kernelscope.commands.verb import Verb, add_redaction, number
from kernelscope.errors import UnknownCellError
from kernelscope.recording.model import Recording, select_cell
from kernelscope.recording.redact import shareable
from kernelscope.registry import importers
from kernelscope.suggestions import did_you_mean
from kernelscope.views.base import clean, shorten
from kernelscope.views.card.answer import recording_answer
from kernelscope.views.card.text import launches_table
from kernelscope.views.cells import cells_text
from kernelscope.views.lines import lines_text

_FORMATS = ", or ".join(importer.formats for importer in importers())
_FILES = f"a .kscope file, or the trace of another tool: {_FORMATS}" if _FORMATS else "a .kscope file"
_ABOUT = textwrap.fill(f"Show {_FILES}. Without an option, print the card as text.", 116) + """

--json prints what the card says as one object of at most 32 kB: schema and version, the verdict, what to do first,
health (complete or not, dropped, dry_run, own_cost), counts, then time, compiles with reasons and fixes, kernels,
lines, advice, and what else there is. left_out says how many rows each list has beside those; --limit ROWS changes
that. null is what was not recorded. kernelscope export --to parquet writes all rows of all tables."""

#: Launches that --launches prints where no number is given.
_LAUNCHES = 100


def _arguments(parser: argparse.ArgumentParser, in_notebook: bool) -> None:
    parser.add_argument("file", metavar="FILE.kscope")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--cells", action="store_true", help="one line a cell")
    what.add_argument("--launches", action="store_true", help="one line a launch")
    what.add_argument("--lines", action="store_true", help="one line a line of code that launched or compiled")
    for option in (option for feature in registry.features() for option in feature.show):
        what.add_argument(f"--{option.name}", dest="text", action="store_const", const=option.text, help=option.help)
    parser.set_defaults(text=None)
    what.add_argument("--json", action="store_true", help="what the card says as one JSON object, for programs")
    parser.add_argument("--cell", metavar="N", help="of one cell only: its execution count or name")
    parser.add_argument("--framework", metavar="NAME",
                        help="of one framework's kernels only, such as numba-cuda; driver for those that no probe "
                             "knows, or their library, such as PyTorch")
    add_redaction(parser)
    parser.add_argument("-o", "--output", metavar="OUT.kscope", help="with --redact or --no-texts: write it as a file")
    parser.add_argument("--limit", metavar="ROWS", type=number("a number of rows", 0),
                        help="how many launches --launches prints (default: 100), and how many rows each list of "
                             "--json has (default: as many as fit into 32 kB); 0 for all")


def main(arguments: argparse.Namespace) -> int:
    """Print the file in the chosen form; return the exit code."""
    if arguments.output is not None and not (arguments.redact or arguments.no_texts):
        arguments.parser.error("-o goes with --redact or --no-texts; kernelscope export writes other formats")
    if arguments.output is not None and (
            os.path.realpath(os.path.expanduser(arguments.output)) == os.path.realpath(arguments.file)):
        arguments.parser.error(f"-o {arguments.output} would replace what it is made from: name another file")
    recording = shareable(chosen(arguments))
    if arguments.output is not None:
        path = recording.save(arguments.output)
        without = f" without source, code and {'names' if arguments.redact else 'messages of exceptions'}"
        print_written(arguments, path, "kscope", without)
        return 0
    if arguments.json:
        print_answer(recording_answer(recording, arguments.limit))
    elif arguments.cells:
        print(cells_text([recording]))
    elif arguments.lines:
        print(lines_text(recording))
    elif arguments.text is not None:
        print(registry.loaded(arguments.text)(recording))
    elif arguments.launches:
        most = _LAUNCHES if arguments.limit is None else arguments.limit
        print(launches_table(recording, most or recording.arrow("launches").num_rows))
    else:
        print(recording.summary())
    return 0


def chosen(arguments: argparse.Namespace) -> Recording:
    """Return what a line names: a file's recording, or one cell of it, redacted where that was requested."""
    recording = loaded(arguments.file)
    if arguments.cell is not None:
        recording = find_cell([recording], arguments.cell)
    if arguments.framework is not None:
        recording = recording.select(framework=arguments.framework)
    return redacted(recording, names=arguments.redact) if arguments.redact or arguments.no_texts else recording


# Finding one of the recorded cells.

_LABEL_WIDTH = 40


def find_cell(recordings: Sequence[Recording], wanted: str | None = None) -> Recording:
    """Return the recording of one cell, the newest that fits.

    Parameters
    ----------
    recordings : sequence of Recording
        Where to look, the oldest first.
    wanted : str, optional
        The cell's execution count or name; without it, the newest recording.

    Raises
    ------
    UnknownCellError
        There is no such cell; the message lists those that there are.
    """
    if wanted is None and recordings:
        return recordings[-1]
    recording, row = find_cell_row(recordings, wanted)
    return recording if recording.arrow("cells").num_rows == 1 else select_cell(recording, row["cell_id"])


def find_cell_row(recordings: Sequence[Recording], wanted: str | None = None) -> tuple[Recording, dict[str, Any]]:
    """Return the newest cell that fits: its recording, and its row of ``cells``, the only table that is looked at.

    Parameters and errors are those of `find_cell`; without a wish it is the last cell of the newest recording.
    """
    for recording in reversed(recordings):
        for row in reversed(recording.rows("cells")):
            if wanted is None or wanted in (str(row["execution_count"]), row["name"]):
                return recording, row
        if wanted is None:
            raise UnknownCellError(f"recording {recording.name!r} has no cell")
    known = dict.fromkeys(_known(row) for recording in recordings for row in recording.rows("cells"))
    listed = ", ".join(known) or "none, since nothing was recorded yet"
    if wanted is None:
        raise UnknownCellError(f"no recorded cell: {listed}")
    names = {str(row["name"]) for recording in recordings for row in recording.rows("cells") if row["name"]}
    raise UnknownCellError(f"no recorded cell {wanted!r}; known: {listed}{did_you_mean(wanted, sorted(names))}")


def _known(row: dict[str, object]) -> str:
    number = "" if row["execution_count"] is None else str(row["execution_count"])
    name = "" if row["name"] is None else repr(clean(shorten(str(row["name"]), _LABEL_WIDTH)))
    return f"{number} ({name})" if number and name else number or name or "a cell without a name"


VERBS = {"show": Verb(_arguments, main, about=_ABOUT)}
