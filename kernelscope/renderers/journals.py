"""What a folder of journals holds, as text: for ``%kernelscope recover`` and ``kernelscope recover``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kernelscope.analysis.units import MISSING, count, size
from kernelscope.recording.journal import Journal
from kernelscope.renderers.base import clean
from kernelscope.renderers.layout import columns, table, wrap

_HEADERS = ("journal", "recording", "process", "launches", "unfinished", "lost", "cells", "size", "state")


def journals_text(journals: Sequence[Journal], folder: str | Path, width: int | None = None) -> str:
    """Return one line a journal: what recording it is of, its launches, and whether its process still writes to it.

    Parameters
    ----------
    journals : sequence of Journal
        What was found.
    folder : str or Path
        Where.
    width : int, optional
        Columns to keep to, at least 60; without it the terminal's, between 80 and 120.
    """
    room = columns(width)
    if not journals:
        return wrap(f"no journals in {clean(str(folder))}: no recording was cut short there", room)
    rows = [[
        clean(each.name), clean(each.recording) or MISSING, MISSING if each.pid is None else str(each.pid),
        count(each.launches), _named(each), count(each.lost + each.missing), count(each.cells), size(each.size_bytes),
        state(each),
    ] for each in journals]
    below = [[wrap(clean(each.problem), room - 4)] if each.problem else [] for each in journals]
    found = table(_HEADERS, rows, room, left=(0, 1, len(_HEADERS) - 1), flexible=1, below=below)
    return f"Journals in {clean(str(folder))}\n{found}"


def state(journal: Journal) -> str:
    """Return whether a journal can be recovered, in a few words."""
    if journal.is_live:
        return "being written"
    return "cannot be read" if journal.problem else "left behind"


def _named(journal: Journal) -> str:
    if not journal.unfinished:
        return "0"
    names = ", ".join(clean(name) for name in journal.kernels[:2]) + (" ..." if len(journal.kernels) > 2 else "")
    return f"{count(journal.unfinished)} ({names})"
