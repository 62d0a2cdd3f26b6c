"""``kernelscope show``: a ``.kscope`` file as text, as tables or as JSON; and finding one of its cells."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelscope.analysis.launches import PHASES, CellSummary, by_cell
from kernelscope.analysis.redaction import redacted
from kernelscope.commands.output import progress
from kernelscope.errors import UnknownCellError, UnknownGraphError
from kernelscope.recording.file import load
from kernelscope.recording.model import Recording, select_cell
from kernelscope.recording.redact import shareable
from kernelscope.schema import SCHEMA_VERSION, TABLES
from kernelscope.suggestions import did_you_mean
from kernelscope.views.base import clean, shorten
from kernelscope.views.card.text import launches_table
from kernelscope.views.cells import cells_text
from kernelscope.views.graph.model import known_graphs

if TYPE_CHECKING:
    from kernelscope.views.graph.widget import GraphWidget


# Rows of a table that are Python objects at once; a million launches would be gigabytes.
_ROWS_AT_ONCE = 10_000


def main(arguments: argparse.Namespace) -> int:
    """Print the file as it was asked for; return the exit code."""
    if arguments.output is not None and not (arguments.redact or arguments.no_texts):
        arguments.parser.error("-o goes with --redact or --no-texts; kernelscope export writes other formats")
    if arguments.output is not None and Path(arguments.output).expanduser().resolve() == Path(arguments.file).resolve():
        arguments.parser.error(f"-o {arguments.output} would replace what it is made from: name another file")
    recording = shareable(load(arguments.file, progress=progress(None, f"reading {arguments.file}")))
    if arguments.cell is not None:
        recording = find_cell([recording], arguments.cell)
    if arguments.redact or arguments.no_texts:
        recording = redacted(recording, names=arguments.redact)
    if arguments.output is not None:
        path = recording.save(arguments.output)
        print(f"wrote {path} without source, code and {'names' if arguments.redact else 'messages of exceptions'}")
        return 0
    if arguments.json:
        for part in json_parts(recording):
            sys.stdout.write(part)
    elif arguments.cells:
        print(cells_text([recording]))
    elif arguments.launches:
        print(launches_table(recording, arguments.limit or recording.arrow("launches").num_rows))
    else:
        print(recording.summary())
    return 0


def json_parts(recording: Recording) -> Iterator[str]:
    """Yield one JSON object in pieces: ``schema_version``, ``metadata``, ``summary`` by cell, and ``tables``."""
    head = {
        "schema_version": SCHEMA_VERSION,
        "metadata": dict(recording.metadata),
        "summary": [_summary(cell) for cell in by_cell(recording)],
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


def _summary(cell: CellSummary) -> dict[str, Any]:
    row = asdict(cell)
    totals = row.pop("totals")
    times = {"host_ns": totals["host_ns"], **{f"{name}_ns": totals[f"{name}_ns"] for name in PHASES}}
    return {"label": cell.label, **row, **times}


# Finding one of the recorded cells or graphs: for ``%kernelscope``, and for the command line.

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


def newest_graph(recordings: Sequence[Recording], wanted: str | None = None) -> GraphWidget:
    """Return the picture of a graph of the newest recording that has one.

    Parameters
    ----------
    recordings : sequence of Recording
        Where to look, the oldest first.
    wanted : str, optional
        The graph's row in the table ``graphs``; without it, the only graph.

    Raises
    ------
    UnknownGraphError
        There is no such graph, or several and none was named; the message lists those that there are.
    """
    from kernelscope.views.graph.widget import GraphWidget

    found = next((each for each in reversed(recordings) if each.arrow("graphs").num_rows), None)
    if found is None:
        raise UnknownGraphError("no recorded graph: no cell that was recorded built or launched a CUDA graph")
    if wanted is not None and not wanted.isdecimal():
        raise UnknownGraphError(f"{wanted!r} is no graph's number; {known_graphs(found)}")
    return GraphWidget(found, None if wanted is None else int(wanted))


def _known(row: dict[str, object]) -> str:
    number = "" if row["execution_count"] is None else str(row["execution_count"])
    name = "" if row["name"] is None else repr(clean(shorten(str(row["name"]), _LABEL_WIDTH)))
    return f"{number} ({name})" if number and name else number or name or "a cell without a name"
