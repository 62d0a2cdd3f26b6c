"""Journals that killed processes left behind, and the recordings that come of them."""

from __future__ import annotations

from pathlib import Path

from kernelscope.analysis.builds import explain_builds
from kernelscope.analysis.compiles import explain
from kernelscope.errors import JournalError
from kernelscope.native.journal import default_folder
from kernelscope.recording.journal import Journal, find_journals, is_journal, read_journal, remove_journal
from kernelscope.recording.model import Recording
from kernelscope.suggestions import did_you_mean

#: How many names an error lists.
_LISTED = 8


def journals(folder: str | Path | None = None) -> list[Journal]:
    """Return the journals in a folder, the oldest first, those that are still being written among them.

    Parameters
    ----------
    folder : str or Path, optional
        A folder of journals, or one journal; without it the folder that recordings use unless asked otherwise.

    Raises
    ------
    JournalError
        `folder` is no folder, or cannot be read.
    """
    return find_journals(folder)


def recover(journal: Journal | str | Path | None = None, *, remove: bool = False) -> Recording:
    """Return what a journal holds as a recording: all launches up to the last one that began.

    Launches that had not returned have no end and the error "unfinished"; what was damaged or lost is said in the
    table ``health`` and in ``metadata["recovered"]``. The journal stays as it is unless it is to be removed.

    Parameters
    ----------
    journal : Journal, str or Path, optional
        A journal, its folder, its name in the default folder, or a folder of journals, whose newest is meant. Without
        it the newest in the default folder. The newest is one that no process writes to; where one is named that is
        still being written, its launches so far are returned.
    remove : bool
        Remove the journal when the recording is made.

    Raises
    ------
    JournalError
        There is none, it cannot be read, is of another version, or is to be removed and still being written.
    """
    found = chosen(journal)
    if remove and found.is_live:
        raise JournalError(f"{found.folder} is still being written by process {found.pid}: it is not removed")
    recording = recovered(found)
    if remove:
        remove_journal(found.folder)
    return recording


def recovered(journal: Journal) -> Recording:
    """Return what a journal holds as a recording, with the reasons for its compiles.

    Raises
    ------
    JournalError
        It cannot be read, or is of another version.
    """
    return explain_builds(explain(read_journal(journal.folder)))


def chosen(journal: Journal | str | Path | None) -> Journal:
    """Return the journal that is meant: see `recover`.

    Raises
    ------
    JournalError
        There is none.
    """
    if isinstance(journal, Journal):
        return journal
    found = look_in(journal)
    if journal is not None:
        path = Path(journal).expanduser()
        if is_journal(path) or not path.is_dir():
            return found[0]
    left = sorted((each for each in found if not each.is_live), key=lambda each: each.problem is None)
    if not left:
        where = default_folder() if journal is None else journal
        live = f"; still being written: {', '.join(each.name for each in found[-_LISTED:])}" if found else ""
        raise JournalError(f"there is no journal to recover in {where}{live}")
    return left[-1]


def look_in(target: str | Path | None) -> list[Journal]:
    """Return the journals in a folder, or the one that is named: by its folder, or its name in the default folder.

    Raises
    ------
    JournalError
        There is neither such a folder nor such a journal.
    """
    if target is None:
        return find_journals()
    path = Path(target).expanduser()
    if path.is_dir():
        return find_journals(path)
    named = default_folder() / path.name
    if path.name == str(target) and is_journal(named):
        return find_journals(named)
    there = [each.name for each in find_journals()]
    raise JournalError(f"{str(target)!r} is no folder, and no journal in {default_folder()}; there: "
                       f"{', '.join(there[-_LISTED:]) or 'none'}{did_you_mean(str(target), there)}")
