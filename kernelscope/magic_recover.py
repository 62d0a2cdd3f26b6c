"""``%kernelscope recover``: what a kernel that died has left behind, as a recording of this session."""

from __future__ import annotations

import shlex
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, NoReturn

from IPython.core.error import UsageError

from kernelscope.errors import JournalError, KernelScopeError
from kernelscope.journal_layout import default_folder, left_behind
from kernelscope.suggestions import explained, see

if TYPE_CHECKING:
    from kernelscope.recording.model import Recording

class _Parser(ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(see(explained(self, message), "%kernelscope help recover"))


def parse(line: str) -> Namespace:
    """Return ``target``, ``remove`` and ``into`` of what follows ``recover``; raises `UsageError`."""
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
    from kernelscope.magic_session import saved
    from kernelscope.recording.journal import remove_journal
    from kernelscope.recovery import chosen, look_in, recovered
    from kernelscope.renderers.journals import journals_text

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

    Without a word about it there is one wherever that is possible: with the native recorder, and where the disk allows.
    """
    if asked.journal is False:
        return None, None
    from kernelscope.probes.journal import Journal, make_journal
    from kernelscope.probes.make_log import chosen

    if chosen(asked.recorder) != "native":
        return asked.journal, None  # where it was asked for, each card says why there is none
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
