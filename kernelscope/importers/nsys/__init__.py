"""Exports of Nsight Systems: SQLite, and a folder of Parquet files."""

from __future__ import annotations

from kernelscope.registry import Importer

_HERE = __name__

IMPORTER = Importer(
    "nsys",
    formats="an export of Nsight Systems (SQLite or Parquet)",
    producers={"nsys": "Nsight Systems"},
    is_trace=f"{_HERE}.recognize:is_trace",
    may_be_trace=f"{_HERE}.recognize:may_be_trace",
    read=f"{_HERE}.read:read",
    suffixes=("sqlite", "db", "parquetdir", "nsys-rep"),
)
