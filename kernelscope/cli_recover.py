"""``kernelscope recover``: lists what killed processes left behind, and writes it as a ``.kscope`` file."""

from __future__ import annotations

import argparse
import dataclasses
import json
from typing import Any

from kernelscope.errors import JournalError
from kernelscope.journal_layout import default_folder
from kernelscope.magic_output import progress
from kernelscope.recording.io import save
from kernelscope.recording.journal import Journal, remove_journal
from kernelscope.recovery import chosen, look_in, recovered
from kernelscope.renderers.journals import journals_text, state


def main(arguments: argparse.Namespace) -> int:
    """List, recover and remove as asked; return the exit code."""
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
