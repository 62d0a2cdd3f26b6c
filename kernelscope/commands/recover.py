"""``kernelscope recover`` and ``%kernelscope recover``: what killed processes left behind, as recordings."""

from __future__ import annotations

import argparse
import dataclasses
import json
import shlex
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from kernelscope.commands.output import progress
from kernelscope.errors import JournalError, KernelScopeError
from kernelscope.native.journal import default_folder, left_behind
from kernelscope.suggestions import explained, see
from kernelscope.units import MISSING, count, size
from kernelscope.views.base import clean, columns, table, wrap

if TYPE_CHECKING:
    from kernelscope.recording.journal import Journal
    from kernelscope.recording.model import Recording


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


# ``%kernelscope recover``: what a kernel that died has left behind, as a recording of this session.

class _Parser(ArgumentParser):
    def error(self, message: str) -> NoReturn:
        from IPython.core.error import UsageError

        raise UsageError(see(explained(self, message), "%kernelscope help recover"))


def parse(line: str) -> Namespace:
    """Return ``target``, ``remove`` and ``into`` of what follows ``recover``; raises `UsageError`."""
    from IPython.core.error import UsageError

    parser = _Parser(prog="%kernelscope recover", add_help=False, allow_abbrev=False)
    parser.add_argument("target", nargs="?")
    parser.add_argument("--remove", action="store_true")
    parser.add_argument("--into")
    try:
        return parser.parse_args(shlex.split(line))
    except ValueError as error:
        raise UsageError(see(f"{str(error).lower()} in {line!r}", "%kernelscope help recover")) from None


def run_recover(line: str | None) -> Recording | None:
    """List what was found, and return what was recovered; None where there is nothing to recover.

    Raises
    ------
    KernelScopeError
        What is named is not there or cannot be read, or a file cannot be written.
    """
    asked = parse(line or "")
    from kernelscope.commands.session import saved
    from kernelscope.recorder.recover import chosen, look_in, recovered
    from kernelscope.recording.journal import remove_journal

    found = look_in(asked.target)
    print(journals_text(found, asked.target or default_folder()))
    if asked.target is None and all(each.is_live for each in found):
        if asked.into or asked.remove:
            raise KernelScopeError("there is nothing to recover")
        return None
    journal = chosen(asked.target)
    if asked.remove and journal.is_live:
        raise JournalError(f"{journal.name} is still being written by process {journal.pid}: it is not removed")
    recording = recovered(journal)
    print(f"kernelscope: recovered {journal.name}")
    if asked.into:
        print(f"kernelscope: {saved(recording, asked.into)}")
    if asked.remove:
        remove_journal(journal.folder)
        print(f"kernelscope: removed {journal.folder}")
    others = [each.name for each in found if each.name != journal.name and not each.is_live and not each.problem]
    if others:
        print(f"kernelscope: also there, %kernelscope recover NAME: {', '.join(others[-3:])}")
    return recording


def journal_for(asked: Namespace) -> tuple[bool | str | None, str | None]:
    """Return where ``%kernelscope on`` keeps journals, None for nowhere; and what to say where it cannot be as asked.

    Without a word about it there is one wherever the disk allows.
    """
    if asked.journal is False:
        return None, None
    from kernelscope.recorder.journal import Journal, make_journal

    journal = Journal(asked.journal or True)
    try:
        problem = make_journal(journal)
    finally:
        journal.close()
    return (asked.journal or True, None) if problem is None else (None, str(problem["message"]))


def notice() -> str | None:
    """Return a line that says that a process which died has left a journal, or None: a look of well under 1 ms."""
    try:
        found = left_behind(default_folder())
    except (OSError, RuntimeError):  # RuntimeError: there is no home folder
        return None
    if not found:
        return None
    if len(found) == 1:
        return "kernelscope: a recording that was cut short is there: %kernelscope recover brings it back"
    return f"kernelscope: {len(found)} recordings that were cut short are there: %kernelscope recover lists them"


# ``kernelscope recover``: lists what killed processes left behind, and writes it as a ``.kscope`` file.

def main(arguments: argparse.Namespace) -> int:
    """List, recover and remove as asked; return the exit code."""
    from kernelscope.recorder.recover import look_in

    if arguments.list and (arguments.output or arguments.remove):
        arguments.parser.error("--list only lists: it goes with neither --output nor --remove")
    found = look_in(arguments.folder)
    where = default_folder() if arguments.folder is None else arguments.folder
    told: dict[str, Any] = {"folder": str(where), "journals": [_facts(each) for each in found],
                            "recovered": None, "written": None, "removed": False}
    if not arguments.json:
        print(journals_text(found, where))
    if not arguments.list:
        _recover(arguments, found, told)
    if arguments.json:
        print(json.dumps(told, indent=2))
    return 0


def _recover(arguments: argparse.Namespace, found: list[Journal], told: dict[str, Any]) -> None:
    if not found and not arguments.json:
        return
    from kernelscope.recorder.recover import chosen, recovered
    from kernelscope.recording.file import save
    from kernelscope.recording.journal import remove_journal

    journal = chosen(arguments.folder)
    if arguments.remove and journal.is_live:
        raise JournalError(f"{journal.folder} is still being written by process {journal.pid}: it is not removed")
    recording = recovered(journal)
    output = arguments.output or f"{journal.name}.kscope"
    written = save(recording, output, progress=progress(recording, f"writing {output}"))
    if not arguments.json:
        print(f"\n{recording.summary()}\nwrote {written}")
    if arguments.remove:
        remove_journal(journal.folder)
        if not arguments.json:
            print(f"removed {journal.folder}")
    told.update(recovered=journal.name, written=str(written), removed=bool(arguments.remove))


def _facts(journal: Journal) -> dict[str, Any]:
    return {"name": journal.name, "state": state(journal), **dataclasses.asdict(journal), "folder": str(journal.folder)}
