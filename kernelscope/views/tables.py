"""A recording's tables as files of their own, for other tools: Parquet and CSV."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from kernelscope.recording.model import Recording
from kernelscope.recording.redact import shareable
from kernelscope.schema import SCHEMA_VERSION, TABLES
from kernelscope.views.base import Progress, whole_folder

_METADATA = "metadata.json"
# What a spreadsheet program takes for the beginning of a formula, in its wide forms too.
_FORMULA = r"^\s*[=+\-@" + "\uff1d\uff0b\uff0d\uff20" + r"]|^[\t\r\n]"

_compute: Any = pc


def to_parquet(
    recording: Recording, folder: str | Path, *, paths: bool = False, progress: Progress | None = None
) -> Path:
    """Write one Parquet file a table, and ``metadata.json``, into a folder; return the folder.

    Parameters
    ----------
    recording : Recording
        What to write.
    folder : str or Path
        Where to; made if it is not there. One that is there is replaced if it holds nothing else than such files.
    paths : bool
        Keep full file paths of this machine.
    progress : callable, optional
        Called with a fraction from 0 to 1 and a text, once a table.

    Raises
    ------
    RecordingFileError
        It cannot be written, or the folder holds other files.
    """
    def write(table: pa.Table, path: Path) -> None:
        pyarrow.parquet.write_table(table, path, compression="zstd")

    return _write(recording, folder, ".parquet", write, paths, progress)


def to_csv(recording: Recording, folder: str | Path, *, paths: bool = False, progress: Progress | None = None) -> Path:
    """Write one CSV file a table, and ``metadata.json``, into a folder; return the folder.

    Null is an empty cell, and an empty text is ``""``. A text that a spreadsheet program would run as a formula (it
    begins with ``=``, ``+``, ``-`` or ``@``, perhaps after blanks, or with a tab or a line break) gets an apostrophe
    before it: names in a recording come from other people's programs.

    Parameters
    ----------
    recording : Recording
        What to write.
    folder : str or Path
        Where to; made if it is not there. One that is there is replaced if it holds nothing else than such files.
    paths : bool
        Keep full file paths of this machine.
    progress : callable, optional
        Called with a fraction from 0 to 1 and a text, once a table.

    Raises
    ------
    RecordingFileError
        It cannot be written, or the folder holds other files.
    """
    def write(table: pa.Table, path: Path) -> None:
        pyarrow.csv.write_csv(_without_formulas(table), path)

    return _write(recording, folder, ".csv", write, paths, progress)


def _write(
    recording: Recording, folder: str | Path, suffix: str, write: Callable[[pa.Table, Path], object], paths: bool,
    progress: Progress | None,
) -> Path:
    shown = shareable(recording, paths=paths)
    names = [f"{name}{suffix}" for name in TABLES]
    total = sum(shown.arrow(name).num_rows for name in TABLES) or 1
    done = 0
    with whole_folder(folder, [*names, _METADATA]) as place:
        for name in TABLES:
            table = shown.arrow(name)
            if progress:
                progress(done / total, f"writing {name}{suffix}")
            write(table, place / f"{name}{suffix}")
            done += table.num_rows
        held = {"schema_version": SCHEMA_VERSION, "metadata": dict(shown.metadata)}
        (place / _METADATA).write_text(json.dumps(held, indent=1), encoding="utf-8")
    target = Path(folder).expanduser()
    if progress:
        progress(1.0, f"wrote {target.name}")
    return target


def _without_formulas(table: pa.Table) -> pa.Table:
    """Return the table with plain texts, and an apostrophe before texts that look like formulas."""
    for index, field in enumerate(table.schema):
        column: Any = table.column(index)
        if pa.types.is_dictionary(field.type):
            column = column.cast(pa.string())
        elif not pa.types.is_string(field.type):
            continue
        quoted = _compute.binary_join_element_wise("'", column, "")
        column = _compute.if_else(_compute.match_substring_regex(column, _FORMULA), quoted, column)
        table = table.set_column(index, pa.field(field.name, pa.string(), field.nullable), column)
    return table
