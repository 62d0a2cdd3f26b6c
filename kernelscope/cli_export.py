"""``kernelscope export``: a ``.kscope`` file as a Perfetto trace, an HTML page, or tables in Parquet or CSV."""

from __future__ import annotations

import argparse

from kernelscope.analysis.redaction import redacted
from kernelscope.magic_export import exported
from kernelscope.magic_output import progress
from kernelscope.magic_tables import find_cell
from kernelscope.recording.io import load


def main(arguments: argparse.Namespace) -> int:
    """Read the file, write it as it was asked for, and say where; return the exit code."""
    recording = load(arguments.file, progress=progress(None, f"reading {arguments.file}"))
    if arguments.cell is not None:
        recording = find_cell([recording], arguments.cell)
    if arguments.redact or arguments.no_texts:
        recording = redacted(recording, names=arguments.redact)
    print(exported(recording, arguments.to, arguments.output, arguments.file))
    return 0
