"""``kernelscope show``: a ``.kscope`` file as text, as tables or as JSON; and finding one of its cells."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from kernelscope.analysis.launches import PHASES, CellSummary, by_cell
from kernelscope.analysis.redaction import redacted
from kernelscope.commands.output import loaded
from kernelscope.commands.verb import Verb, add_redaction, number
from kernelscope.errors import UnknownCellError
from kernelscope.recording.model import Recording, select_cell
from kernelscope.recording.redact import shareable
from kernelscope.schema import SCHEMA_VERSION, TABLES
from kernelscope.suggestions import did_you_mean
from kernelscope.views.base import clean, shorten
from kernelscope.views.card.text import launches_table
from kernelscope.views.cells import cells_text
from kernelscope.views.flame.text import call_paths_text
from kernelscope.views.lines import lines_text

_ABOUT = """\
Show a .kscope file, or the trace of another tool: an export of Nsight Systems (SQLite or Parquet), a trace of
torch.profiler, of JAX's profiler or another one in Chrome's JSON. Without an option, print the card as text.

--json prints one object:
  schema_version   version of the tables' columns, as the reference documents them
  metadata         versions, detail, clock, dry_run: what was on
  summary          one object a cell: label, status, launches, kernels, compiles, disk_hits, memory_hits,
                   failed_compiles, errors, wall_ns, host_ns and <phase>_ns
  tables           each table as a list of rows by column; null is what was not recorded"""

# Rows of a table that are Python objects at once; a million launches would be gigabytes.
_ROWS_AT_ONCE = 10_000


def _arguments(parser: argparse.ArgumentParser, in_notebook: bool) -> None:
    parser.add_argument("file", metavar="FILE.kscope")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--cells", action="store_true", help="one line a cell")
    what.add_argument("--launches", action="store_true", help="one line a launch")
    what.add_argument("--lines", action="store_true", help="one line a line of code that launched or compiled")
    what.add_argument("--stacks", action="store_true", help="the heaviest call paths, as a tree")
    what.add_argument("--json", action="store_true", help="everything, for programs")
    parser.add_argument("--cell", metavar="N", help="of one cell only: its execution count or name")
    parser.add_argument("--framework", metavar="NAME",
                        help="of one framework's kernels only, such as numba-cuda; driver for those that no probe "
                             "knows, or their library, such as PyTorch")
    add_redaction(parser)
    parser.add_argument("-o", "--output", metavar="OUT.kscope", help="with --redact or --no-texts: write it as a file")
    parser.add_argument("--limit", metavar="ROWS", type=number("a number of rows", 0), default=100,
                        help="how many launches --launches prints; 0 for all (default: 100)")


def main(arguments: argparse.Namespace) -> int:
    """Print the file in the chosen form; return the exit code."""
    if arguments.output is not None and not (arguments.redact or arguments.no_texts):
        arguments.parser.error("-o goes with --redact or --no-texts; kernelscope export writes other formats")
    if arguments.output is not None and Path(arguments.output).expanduser().resolve() == Path(arguments.file).resolve():
        arguments.parser.error(f"-o {arguments.output} would replace what it is made from: name another file")
    recording = shareable(chosen(arguments))
    if arguments.output is not None:
        path = recording.save(arguments.output)
        print(f"wrote {path} without source, code and {'names' if arguments.redact else 'messages of exceptions'}")
        return 0
    if arguments.json:
        for part in json_parts(recording):
            sys.stdout.write(part)
    elif arguments.cells:
        print(cells_text([recording]))
    elif arguments.lines:
        print(lines_text(recording))
    elif arguments.stacks:
        print(call_paths_text(recording))
    elif arguments.launches:
        print(launches_table(recording, arguments.limit or recording.arrow("launches").num_rows))
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


def json_parts(recording: Recording) -> Iterator[str]:
    """Yield one JSON object in pieces: ``schema_version``, ``metadata``, ``summary`` by cell, and ``tables``."""
    head = {
        "schema_version": SCHEMA_VERSION,
        "metadata": dict(recording.metadata),
        "summary": [_summary(cell) | (dict.fromkeys(_OF_COMPILES) if recording.is_imported else {})
                    for cell in by_cell(recording)],
    }
    yield json.dumps(head, indent=1)[:-2] + ',\n "tables": {'
    for place, name in enumerate(TABLES):
        yield f"{',' if place else ''}\n  {json.dumps(name)}: ["
        table = recording.arrow(name)
        for start in range(0, table.num_rows, _ROWS_AT_ONCE):
            rows = table.slice(start, _ROWS_AT_ONCE).to_pylist()
            yield ("," if start else "") + ",".join(f"\n   {json.dumps(row)}" for row in rows)
        yield "\n  ]" if table.num_rows else "]"
    yield "\n }\n}\n"


#: Of a summary, what the trace of another tool does not say.
_OF_COMPILES = ("compiles", "disk_hits", "memory_hits", "failed_compiles")


def _summary(cell: CellSummary) -> dict[str, Any]:
    row = asdict(cell)
    totals = row.pop("totals")
    times = {"host_ns": totals["host_ns"], **{f"{name}_ns": totals[f"{name}_ns"] for name in PHASES}}
    return {"label": cell.label, **row, **times}


# Finding one of the recorded cells: for ``%kernelscope``, and for the command line.

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
    for recording in reversed(recordings):
        cells = recording.rows("cells")
        for row in reversed(cells):
            if wanted in (str(row["execution_count"]), row["name"]):
                return recording if len(cells) == 1 else select_cell(recording, row["cell_id"])
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
