"""Commands that a study runs for itself, git and pip: captured, and ended with everything that they started."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from kernelscope.errors import StudyError

# How long what was told to end may take before it is killed.
_GRACE_S = 3.0
_MOST_INTERRUPTIONS = 100
_ERROR = re.compile(r"^\s*(?:\w+\.)*(?:error|fatal|fatal error|\w*Error)\s*:", re.IGNORECASE)
_DIAGNOSIS = re.compile(r"^[^\s:]+:\d+(?::\d+)?:\s*(?:fatal )?error:")  # a compiler's, with file and line
# Lines of pip that only say that something failed, which an earlier line says better.
_VAGUE = re.compile(r"subprocess-exited-with-error|Failed (?:to build|building)|Could not build wheels|No matching "
                    r"distribution|metadata-generation-failed|failed-wheel-build|failed to build", re.IGNORECASE)
# What no other line says better: what comes after it only follows.
_FULL = re.compile(r"No space left on device|Disk quota exceeded|unable to write file")
_COLOR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_LONGEST = 300

COLORS = ("FORCE_COLOR", "CLICOLOR_FORCE", "CLICOLOR", "PY_COLORS")
"""What asks programs for colours although no terminal is there; a notebook's kernel sets some of them."""


class Finished(NamedTuple):
    """How a command ended: its exit status, and what it wrote."""

    status: int
    output: str
    errors: str


def run(command: Sequence[str | Path], *, cwd: Path | None = None, environ: Mapping[str, str] | None = None,
        timeout_s: float | None = None) -> Finished:
    """Run a command to its end, in a process group of its own.

    An exception meanwhile, such as Ctrl-C's, ends the whole group before it goes on.

    Raises
    ------
    StudyError
        It cannot be started, or did not end in `timeout_s` seconds.
    """
    try:
        process = subprocess.Popen(
            command, cwd=cwd, env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, encoding="utf-8", errors="replace", start_new_session=True)
    except OSError as problem:
        raise StudyError(f"{str(command[0])!r} cannot be run: {problem.strerror or problem}") from problem
    try:
        output, errors = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        end(process)
        raise StudyError(f"{str(command[0])!r} did not end in {timeout_s:g} seconds") from None
    except BaseException:
        end(process)
        raise
    return Finished(process.returncode, output, errors)


def end(process: subprocess.Popen[str]) -> None:
    """End a process that leads a group, and all of the group; first asked, then killed."""
    _signal(process, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_GRACE_S)
    _signal(process, signal.SIGKILL)
    process.wait()
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()


def to_the_end(action: Callable[[], object]) -> None:
    """Do what must be done however impatient the user is: after a Ctrl-C once more, and what was raised is raised then.

    One that is held down comes 30 times a second. `action` must be one that goes on where it was interrupted.
    """
    interrupted: KeyboardInterrupt | None = None
    for _ in range(_MOST_INTERRUPTIONS):
        try:
            action()
            break
        except KeyboardInterrupt as again:
            interrupted = again
    if interrupted is not None:
        raise interrupted


def last_words(finished: Finished) -> str:
    """Return the one line of a failed command's output that says best why it failed."""
    written = _COLOR.sub("", f"{finished.output}\n{finished.errors}")
    lines = [line.strip() for line in written.splitlines() if line.strip()]
    told = [line for line in lines if _ERROR.match(line)]
    clear = [line for line in told if not _VAGUE.search(line)]
    diagnosed = [line for line in lines if _DIAGNOSIS.match(line)][:1]  # those after it follow from it, mostly
    full = [line for line in lines if _FULL.search(line)]
    line = (full or diagnosed or clear or told or lines or [f"it ended with status {finished.status}"])[-1]
    line = re.sub(r"^(?:ERROR|error|fatal):\s*", "", line)
    line = re.sub(r"^Command '\['([^']+)'.*\]' returned", r"\1 returned", line)  # without pages of options
    line = re.sub(r"\(from versions: [^,()]+(?:, [^,()]+)+, ([^,()]+)\)", r"(the newest is \1)", line)  # or versions
    return line if len(line) <= _LONGEST else line[:_LONGEST - 1] + "…"


def _signal(process: subprocess.Popen[str], number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
