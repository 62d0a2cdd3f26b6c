"""``kernelscope show``: a ``.kscope`` file as text, as tables of text, or as JSON."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelscope.analysis.cells import CellSummary, by_cell
from kernelscope.analysis.phases import PHASES
from kernelscope.analysis.redaction import redacted
from kernelscope.magic_output import progress
from kernelscope.magic_tables import find_cell
from kernelscope.recording.io import load
from kernelscope.recording.privacy import shareable
from kernelscope.renderers.cells import cells_text
from kernelscope.renderers.text import launches_table
from kernelscope.schema import SCHEMA_VERSION, TABLES

if TYPE_CHECKING:
    from kernelscope.recording.model import Recording

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
