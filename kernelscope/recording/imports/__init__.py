"""Traces of other tools as recordings: exports of Nsight Systems, traces of torch.profiler, XLA and others in JSON.

`reader_of` tells by a file's content what wrote it. ``nsys.py`` and ``chrome.py`` read one format each into columns,
`kernelscope.recording.imports.assembly` makes a recording of these, by the same joins as a recording of our own.
"""

from __future__ import annotations

import stat
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path

from kernelscope.errors import RecordingFileError
from kernelscope.progress import Progress
from kernelscope.recording.model import Recording

#: Reads a file, and reports how far it is.
Reader = Callable[[Path, Progress | None], Recording]

_SQLITE = b"SQLite format 3\0"
_GZIP = b"\x1f\x8b"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_HEAD = 256
#: What comes before the events of a trace, such as devices and a program's arguments, is shorter.
_LONG_HEAD = 1 << 16
#: What `nsys profile` writes, of whose content nothing is documented; and exports of it in other formats.
_REPORTS, _OTHER_EXPORTS = (".nsys-rep", ".qdrep", ".qdstrm"), (".arrow", ".h5", ".hdf")
#: Tables one of which every export has that says something of CUDA or NVTX.
_TABLES = ("StringIds", "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS")


def reader_of(path: Path) -> Reader | None:
    """Return what reads the trace of another tool at `path`, by its content; None for whatever else is there."""
    try:
        mode = path.lstat().st_mode
        if stat.S_ISDIR(mode):
            if any((path / f"{name}.parquet").is_file() for name in _TABLES):
                return partial(_read, "nsys", "read_folder")
            return _report if any((path / f"{name}.arrow").is_file() for name in _TABLES) else None
        if not stat.S_ISREG(mode):
            return None
        with open(path, "rb") as file:
            head = file.read(_HEAD)
    except (OSError, ValueError):  # who opens it as a recording says what is wrong
        return None
    if head.startswith(_SQLITE):
        return partial(_read, "nsys", "read_sqlite")
    if head.startswith(_GZIP) or head.removeprefix(_BYTE_ORDER_MARK).lstrip()[:1] in (b"{", b"["):
        return partial(_read, "chrome", "read_trace")
    return _report if path.suffix in _REPORTS + _OTHER_EXPORTS else None


def is_trace(path: Path) -> bool:
    """Return whether another tool's trace is surely at `path`: `reader_of` tells no trace from other JSON or SQLite.

    The beginning of a file is read, or the names of its tables.
    """
    if reader_of(path) in (None, _report):
        return False
    if path.is_dir():
        return True
    try:
        with open(path, "rb") as file:
            head = file.read(_LONG_HEAD)
    except OSError:
        return False
    if head.startswith(_SQLITE):
        from kernelscope.recording.imports.nsys import has_table

        return has_table(path, _TABLES)
    if head.startswith(_GZIP):
        try:
            head = zlib.decompressobj(wbits=31).decompress(head, _LONG_HEAD)
        except zlib.error:
            return False
    # A list of events alone has no head.
    is_list = head.removeprefix(_BYTE_ORDER_MARK).lstrip().startswith(b"[")
    return (b'"ph"' if is_list else b'"traceEvents"') in head


def _report(path: Path, progress: Progress | None) -> Recording:
    kind = "a report" if path.suffix in _REPORTS else "an export in another format"
    raise RecordingFileError(f"{path.name}: is {kind} of Nsight Systems: make a file that opens here with nsys export "
                             "--type sqlite or --type parquetdir")


def _read(module: str, function: str, path: Path, progress: Progress | None) -> Recording:
    import importlib

    return getattr(importlib.import_module(f"{__name__}.{module}"), function)(path, progress)
