"""Recognizes what Nsight Systems writes: exports that are read, and what has to be exported first."""

from __future__ import annotations

from pathlib import Path

SQLITE_MAGIC = b"SQLite format 3\0"
#: What `nsys profile` writes, of whose content nothing is documented; and exports of it in other formats.
REPORTS, OTHER_EXPORTS = (".nsys-rep", ".qdrep", ".qdstrm"), (".arrow", ".h5", ".hdf")
#: Tables one of which every export has that says something of CUDA or NVTX.
TABLES = ("StringIds", "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS")


def is_trace(path: Path, head: bytes) -> bool:
    """Return whether it is a folder or a database with a table of an export."""
    if not head.startswith(SQLITE_MAGIC):
        return not head and has_file(path, "parquet")
    from kernelscope.importers.nsys.read import has_table

    return has_table(path, TABLES)


def may_be_trace(path: Path, head: bytes) -> bool:
    """Return whether it is another database, or a report or an export in a format that is not read."""
    if path.is_dir():
        return has_file(path, "arrow")
    return head.startswith(SQLITE_MAGIC) or path.suffix in REPORTS + OTHER_EXPORTS


def has_file(path: Path, suffix: str) -> bool:
    """Return whether a folder has a file of such a table."""
    return any((path / f"{name}.{suffix}").is_file() for name in TABLES)
