"""``merge``: what many processes recorded, as one file."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

from kernelscope.analysis.owners import process_names
from kernelscope.commands.export import check_recording_name
from kernelscope.commands.output import print_answer
from kernelscope.commands.verb import Verb, add_json
from kernelscope.units import counted, listed
from kernelscope.views.answer import Answer, Many, WrittenMembers, answer, written
from kernelscope.views.base import clean

if TYPE_CHECKING:
    from kernelscope.recording.merge import MergedFile

_ABOUT = """\
Make one .kscope file of what many processes recorded: those that recorded themselves into a folder because
KERNELSCOPE_RECORD names it in their environment, or any .kscope files and journals, or traces of other tools.

Of a process that was killed its journal is recovered; of one that still records the launches so far are taken. What
cannot be read is named on standard error and left out: the exit code is 1 then, and the file has all the others. Ctrl-C
ends the reading, and what was read is written."""


#: Processes that a line names.
_NAMED = 12


def _arguments(parser: argparse.ArgumentParser, in_notebook: bool) -> None:
    parser.add_argument("folders", metavar="FOLDER", nargs="+", help="a folder, a .kscope file or a journal")
    parser.add_argument("-o", "--output", metavar="FILE",
                        help="where to write; the first folder's name.kscope otherwise")
    parser.add_argument("-n", "--name", help="what to call the recording")
    add_json(parser)


def main(arguments: argparse.Namespace) -> int:
    """Read, merge and write; return the exit code."""
    from kernelscope.recorder.children import found, read
    from kernelscope.recording.merge import merge_files

    folders = [Path(folder).expanduser() for folder in arguments.folders]
    first = Path(os.path.realpath(folders[0])).stem  # Path.resolve raises where links lead in a circle
    output = arguments.output or f"{first or 'merged'}.kscope"
    check_recording_name(output)
    merged = merge_files(found(folders), output, name=arguments.name or first, read=read)
    if arguments.json:
        print_answer(_answer(merged, arguments.limit))
        return 1 if merged.missing else 0
    for part, problem in merged.missing.items():
        print(f"kernelscope: left out: {part}: {' '.join(problem.split())}", file=sys.stderr)
    print("\n".join([*map(clean, _told(merged)), f"wrote {merged.path}"]), flush=True)
    return 1 if merged.missing else 0


class EndedProcessMembers(TypedDict):
    """A process of the merged recording."""

    process: str
    status: str
    host: str | None
    pid: int | None


class MissingPartMembers(TypedDict):
    """A file or journal that could not be read."""

    part: str
    problem: str


class MergeAnswer(Answer):
    """What kernelscope merge says."""

    notice: str | None
    complete: Annotated[bool, "every part was read, and every process ended well"]
    written: Many[WrittenMembers]
    launches: int
    kernels: int
    compiles: int
    gpu_activities: int
    processes: Many[EndedProcessMembers]
    missing: Many[MissingPartMembers]


def _answer(merged: MergedFile, limit: int | None) -> dict[str, Any]:
    processes = merged.shared.rows("processes")
    missing = [*merged.missing.items()]
    return answer(MergeAnswer, {
        "verdict": ". ".join(_told(merged)) + ".", "notice": merged.shared.notice or None,
        "complete": not missing and all(row["status"] == "ok" for row in processes),
        "written": written([merged.path], "kscope"), "launches": merged.rows["launches"],
        "kernels": merged.rows["dispatchers"], "compiles": merged.rows["compilations"],
        "gpu_activities": merged.rows["activities"],
        "processes": Many([*zip(process_names(merged.shared), processes, strict=True)], lambda each: {
            "process": each[0], "status": each[1]["status"], "host": each[1]["host"], "pid": each[1]["pid"]}),
        "missing": Many(missing, lambda each: {"part": each[0], "problem": each[1]})}, limit)


def _told(merged: MergedFile) -> list[str]:
    """What was merged, in lines. The file is not read for it: a large one takes longer to load than to merge."""
    recording, rows = merged.shared, merged.rows
    processes = recording.rows("processes")
    hosts = {row["host"] for row in processes} - {None}
    on = f" on {counted(len(hosts), 'machine')}" if len(hosts) > 1 else ""
    devices = dict.fromkeys(row["name"] for row in recording.rows("devices") if row["name"] is not None)
    lines = [f"KernelScope: {recording.name}: " + ", ".join(
        [f"{counted(len(processes), 'process', 'processes')}{on}", *([listed([*devices])] if devices else [])])]
    if recording.notice:
        lines.append(f"*** {recording.notice} ***")
    counts = [(rows["launches"], "launch", "launches"), (rows["dispatchers"], "kernel", None),
              (rows["compilations"], "compile", None), (rows["activities"], "GPU activity", "GPU activities")]
    lines.append(", ".join(counted(*each) for each in counts if each[0]) or "no launches")
    ended: dict[str, list[str]] = {}
    for row, name in zip(processes, process_names(recording), strict=True):
        ended.setdefault(row["status"], []).append(name)
    lines += [f"{status}: {listed(names, _NAMED)}" for status, names in ended.items()]
    return lines


VERBS = {"merge": Verb(_arguments, main, about=_ABOUT)}
