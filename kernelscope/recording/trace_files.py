"""Finds the importer that reads another tool's trace, by what is in the file or the folder."""

from __future__ import annotations

import stat
from pathlib import Path

from kernelscope.registry import Importer, importers, loaded

#: How many first bytes of a file importers are given.
HEAD_BYTES = 1 << 16


def importer_of(path: Path) -> Importer | None:
    """Return the importer that reads what is at `path`, told by its content; None for whatever else is there."""
    return _recognized(path)[0]


def is_trace(path: Path) -> bool:
    """Return whether another tool's trace is surely at `path`; what only looks like one has an importer too."""
    return _recognized(path)[1]


def _recognized(path: Path) -> tuple[Importer | None, bool]:
    """Return the importer, and whether it is sure."""
    try:
        mode = path.lstat().st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            return None, False
        head = b""
        if stat.S_ISREG(mode):
            with open(path, "rb") as file:
                head = file.read(HEAD_BYTES)
        for importer in importers():
            if loaded(importer.is_trace)(path, head):
                return importer, True
        for importer in importers():
            if importer.may_be_trace and loaded(importer.may_be_trace)(path, head):
                return importer, False
    except (OSError, ValueError):  # who opens it as a recording says what is wrong
        pass
    return None, False
