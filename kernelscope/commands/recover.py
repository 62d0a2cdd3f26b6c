"""``recover``: journals of killed processes, as recordings."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypedDict

from kernelscope.commands import output
from kernelscope.commands.verb import Verb, add_json
from kernelscope.errors import JournalError, KernelScopeError
from kernelscope.native.journal import default_folder, left_behind
from kernelscope.units import MISSING, count, counted, size
from kernelscope.views.answer import Answer, HealthMembers, Many, WrittenMembers, answer
from kernelscope.views.answer import written as files_written
from kernelscope.views.base import clean, columns, table, wrap

if TYPE_CHECKING:
    from kernelscope.commands.session import NotebookSession
    from kernelscope.recording.journal import Journal
    from kernelscope.recording.model import Recording


_ABOUT = """\
List the journals that recordings of killed processes left behind, and write one of them as a .kscope file: the one that
is named, or the newest that no process writes to.

FOLDER is a folder of journals, a journal, or the name of one in the default folder. A journal that a process still
writes to is never changed or removed; where it is named, its launches so far are written.

--json prints one object: folder; journals with name, state, process and counts; recovered, written, removed,
and of what was recovered the verdict and its health."""

_HEADERS = ("journal", "recording", "process", "launches", "unfinished", "lost", "cells", "size", "state")


def journals_text(journals: Sequence[Journal], folder: str | Path, width: int | None = None) -> str:
    """Return a table with a line for each journal: its recording, launches, and state.

    Parameters
    ----------
    journals : sequence of Journal
        What was found.
    folder : str or Path
        Where.
    width : int, optional
        Columns to keep to, at least 60; without it the terminal's, between 80 and 120.
    """
    available = columns(width)
    if not journals:
        return wrap(f"no journals in {clean(str(folder))}: no recording was cut short there", available)
    rows = [[
        clean(each.name), clean(each.recording) or MISSING, MISSING if each.pid is None else str(each.pid),
        count(each.launches), _named(each), count(each.lost + each.missing), count(each.cells), size(each.size_bytes),
        state(each),
    ] for each in journals]
    below = [[wrap(clean(each.problem), available - 4)] if each.problem else [] for each in journals]
    found = table(_HEADERS, rows, available, left=(0, 1, len(_HEADERS) - 1), flexible=1, below=below)
    return f"Journals in {clean(str(folder))}\n{found}"


def state(journal: Journal) -> str:
    """Return a journal's state: being written, left behind, or cannot be read."""
    if journal.is_live:
        return "being written"
    return "cannot be read" if journal.problem else "left behind"


def _named(journal: Journal) -> str:
    if not journal.unfinished:
        return "0"
    names = ", ".join(clean(name) for name in journal.kernels[:2]) + (" ..." if len(journal.kernels) > 2 else "")
    return f"{count(journal.unfinished)} ({names})"


def _arguments(parser: argparse.ArgumentParser, in_notebook: bool) -> None:
    parser.add_argument("folder", metavar="FOLDER|NAME" if in_notebook else "FOLDER", nargs="?",
                        help="where to look, or the name of a journal; the default folder otherwise")
    if in_notebook:
        parser.add_argument("--into", dest="output", metavar="FILE", help="write the recording into this file too")
    else:
        parser.add_argument("--list", action="store_true", help="list what there is and do nothing else")
        parser.add_argument("-o", "--output", metavar="FILE",
                            help="where to write; the journal's name.kscope otherwise")
        add_json(parser)
    parser.add_argument("--remove", action="store_true", help="remove the journal when that is done")


def _chosen(folder: str | None, remove: bool) -> tuple[Journal, Recording]:
    """Return the journal that is named, or the newest, and its recording; one that is written to is never removed."""
    from kernelscope.recorder.recover import chosen, recovered

    journal = chosen(folder)
    if remove and journal.is_live:
        raise JournalError(f"{journal.folder} is still being written by process {journal.pid}: it is not removed")
    return journal, recovered(journal)


def _magic(session: NotebookSession, asked: argparse.Namespace) -> None:
    recording = recover_here(asked)
    if recording is not None:
        session.present(recording)


def recover_here(asked: argparse.Namespace) -> Recording | None:
    """List what was found, and return what was recovered; None where there is nothing to recover.

    Raises
    ------
    KernelScopeError
        What is named is not there or cannot be read, or a file cannot be written.
    """
    from kernelscope.recorder.recover import look_in
    from kernelscope.recording.journal import remove_journal

    found = look_in(asked.folder)
    print(journals_text(found, asked.folder or default_folder()))
    if asked.folder is None and all(each.is_live for each in found):
        if asked.output or asked.remove:
            raise KernelScopeError("there is nothing to recover")
        return None
    journal, recording = _chosen(asked.folder, asked.remove)
    print(f"kernelscope: recovered {journal.name}")
    if asked.output:
        print(f"kernelscope: {output.saved(recording, asked.output)}")
    if asked.remove:
        remove_journal(journal.folder)
        print(f"kernelscope: removed {journal.folder}")
    others = [each.name for each in found if each.name != journal.name and not each.is_live and not each.problem]
    if others:
        print(f"kernelscope: also there, %kernelscope recover NAME: {', '.join(others[-3:])}")
    return recording


def journal_for(asked: bool | str | None) -> tuple[bool | str | None, str | None]:
    """Return where ``%kernelscope on`` keeps journals, None for nowhere; and the problem if it cannot be as requested.

    By default there is a journal wherever the disk allows.
    """
    if asked is False:
        return None, None
    from kernelscope.recorder.journal import Journal, make_journal

    journal = Journal(asked or True)
    try:
        problem = make_journal(journal)
    finally:
        journal.close()
    return (asked or True, None) if problem is None else (None, str(problem["message"]))


def notice() -> str | None:
    """Return a line about journals of processes that died, or None if there are none. It takes well under 1 ms."""
    try:
        found = left_behind(default_folder())
    except (OSError, RuntimeError):  # RuntimeError: there is no home folder
        return None
    if not found:
        return None
    if len(found) == 1:
        return "kernelscope: a recording that was cut short is there: %kernelscope recover brings it back"
    return f"kernelscope: {len(found)} recordings that were cut short are there: %kernelscope recover lists them"


class JournalMembers(TypedDict):
    """The journal of a recording."""

    name: str
    state: str
    recording: str | None
    pid: int | None
    launches: int
    unfinished: int
    lost: int
    missing: int
    cells: int
    kernels: Many[str]
    size_bytes: int | None
    problem: str | None


class JournalsAnswer(Answer):
    """What kernelscope recover says."""

    folder: str
    journals: Many[JournalMembers]
    recovered: str | None
    written: Many[WrittenMembers]
    removed: bool
    health: Annotated[HealthMembers | None, "of what was recovered"]


def main(arguments: argparse.Namespace) -> int:
    """List, recover and remove as asked; return the exit code."""
    from kernelscope.recorder.recover import look_in

    if arguments.list and (arguments.output or arguments.remove):
        arguments.parser.error("--list only lists: it goes with neither --output nor --remove")
    found = look_in(arguments.folder)
    where = default_folder() if arguments.folder is None else arguments.folder
    report: JournalsAnswer = {
        "verdict": f"{counted(len(found), 'journal')} in {where}", "folder": str(where),
        "journals": Many(found, _as_json), "recovered": None, "written": Many(()), "removed": False, "health": None}
    if not arguments.json:
        print(journals_text(found, where))
    if not arguments.list:
        _recover(arguments, found, report)
    if arguments.json:
        output.print_answer(answer(JournalsAnswer, report, arguments.limit))
    return 0


def _recover(arguments: argparse.Namespace, found: list[Journal], report: JournalsAnswer) -> None:
    if not found and not arguments.json:
        return
    from kernelscope.recording.journal import remove_journal

    journal, recording = _chosen(arguments.folder, arguments.remove)
    written = output.written(recording, arguments.output or f"{journal.name}.kscope")
    if not arguments.json:
        print(f"\n{recording.summary()}\nwrote {written}")
    if arguments.remove:
        remove_journal(journal.folder)
        if not arguments.json:
            print(f"removed {journal.folder}")
    if arguments.json:
        from kernelscope.recording.redact import shareable
        from kernelscope.views.card.answer import head
        from kernelscope.views.card.model import Overview

        said = head(Overview(shareable(recording)), recording)
        report.update(verdict=f"recovered {journal.name}: {said['verdict']}", recovered=journal.name,
                      written=files_written([written], "kscope"), removed=bool(arguments.remove),
                      health=said["health"])


def _as_json(journal: Journal) -> JournalMembers:
    return {
        "name": journal.name, "state": state(journal), "recording": journal.recording or None, "pid": journal.pid,
        "launches": journal.launches, "unfinished": journal.unfinished, "lost": journal.lost,
        "missing": journal.missing, "cells": journal.cells, "kernels": Many(journal.kernels),
        "size_bytes": journal.size_bytes, "problem": journal.problem or None}


VERBS = {"recover": Verb(_arguments, main, _magic, about=_ABOUT)}
