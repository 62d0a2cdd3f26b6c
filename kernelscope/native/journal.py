"""The layout of a journal: the folder's name and files, their headers, and the lock of its writer.

The recorder writes journals (`kernelscope.recorder.journal` and the C extension), `kernelscope.recording.journal`
reads them; neither knows the other, and both know this. It needs the standard library only, so that a notebook can look
for what a dead process left without loading NumPy.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import re
import stat
import struct
import time
from collections.abc import Generator
from pathlib import Path

from kernelscope.native.record import BYTES
from kernelscope.schema import RECORD_VERSION

#: Of ``journal.json``.
FORMAT = 1
FACTS, SLOTS, ROWS = "journal.json", "slots", "rows"
#: ``journal.json`` while it is written.
PART = "journal.json.part"
#: Everything that a journal's folder holds.
FILES = (FACTS, PART, SLOTS, ROWS)

MAGIC = b"kernelscope ring"
SLOT_VERSION = RECORD_VERSION
SLOT_BYTES = BYTES
SEGMENT_SLOTS = 4096
HEADER_BYTES = 4096
#: Magic, version, bytes a slot, slots a segment, mode, capacity, pid, host clock (ns) when it was made.
HEADER = struct.Struct("<16sIIIIQQq")
#: Where `COUNTERS` are.
COUNTERS_AT = 64
#: Index of the next launch, which may be up to `MOST_BEHIND` behind; launches that were not kept.
COUNTERS = struct.Struct("<QQ")
MOST_BEHIND = SEGMENT_SLOTS // 2

#: In front of each row: magic, bytes of the payload, its CRC-32, 0.
ROW = struct.Struct("<IIII")
ROW_MAGIC = 0x5752534B
#: A longer payload is no row; a cell's source may be long.
MAX_ROW_BYTES = 16 << 20

_NAME = re.compile(r"(?P<time>\d{8}-\d{6})-(?P<pid>\d{1,10})-[0-9a-f]{4,16}")
_MAX_BOOT_ID = 100
#: A recording makes its folder and locks its slots within this time.
_BEGINNING_S = 5.0


def default_folder() -> Path:
    """Return where journals are unless asked otherwise: below ``$XDG_STATE_HOME``, or below ``~/.local/state``."""
    state = os.environ.get("XDG_STATE_HOME", "")
    base = Path(state) if os.path.isabs(state) else Path.home() / ".local" / "state"
    return base / "kernelscope" / "journals"


@functools.cache
def boot_id() -> str | None:
    """Return what the system calls the time since it was started: a process id means nothing beyond it.

    It is read once: a Ctrl-C while a recording starts or stops finds no open file.
    """
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="utf-8") as file:
            return file.read(_MAX_BOOT_ID).strip() or None
    except (OSError, ValueError):
        return None


def pid_of(name: str) -> int | None:
    """Return the process id in a journal's name, or None where that is no journal's name."""
    found = _NAME.fullmatch(name)
    return int(found["pid"]) if found else None


def is_running(pid: int | None, boot: str | None) -> bool:
    """Return whether the process that had this id in that boot may still be there."""
    if pid is None or pid <= 0 or (boot is not None and boot != boot_id()):
        return False
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # it is somebody else's
        return True
    return not _is_zombie(pid)


def _is_zombie(pid: int) -> bool:
    """Return whether a process has ended but its parent has not waited for it."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read(4096).rpartition(b")")[2].split()[:1] == [b"Z"]
    except OSError:
        return False


def is_held(folder: Path) -> bool | None:
    """Return whether a process holds the lock on a journal's slots; None where that cannot be known."""
    try:
        with opened(folder / SLOTS) as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
            fcntl.flock(file, fcntl.LOCK_UN)
            return False
    except OSError:
        return None


@contextlib.contextmanager
def opened(path: Path) -> Generator[int]:
    """Open a regular file for reading, without following a link or waiting for a pipe; give its descriptor.

    Raises
    ------
    OSError
        There is none, it cannot be read, or it is no regular file.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(f"{path} is no regular file")
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def claimed(folder: Path) -> Generator[bool]:
    """Give whether nobody writes to a journal, and keep others from claiming it as long as the block runs."""
    with contextlib.ExitStack() as stack:
        try:
            fcntl.flock(stack.enter_context(opened(folder / SLOTS)), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except FileNotFoundError:
            pass
        except OSError:
            yield False
            return
        yield not _is_beginning(folder)


def is_free(folder: Path, pid: int | None = None, boot: str | None = None) -> bool:
    """Return whether nobody writes to a journal: its lock is free, or where that cannot be known its process is gone.

    The process's id is that in the folder's name where it is not given.
    """
    held = is_held(folder)
    if held is None:
        return not is_running(pid or pid_of(folder.name), boot)
    return not held and not _is_beginning(folder)


def left_behind(base: Path, most: int = 50) -> list[str]:
    """Return the names of journals in a folder that no process writes to, of the newest `most`: a quick look."""
    try:
        with os.scandir(base) as entries:
            names = sorted(entry.name for entry in entries if _NAME.fullmatch(entry.name))
    except OSError:
        return []
    return [name for name in names[-most:] if is_free(base / name)]


def _is_beginning(folder: Path) -> bool:
    """Return whether its process may be about to make the slots, or to lock them."""
    try:
        age = time.time() - folder.stat().st_mtime
    except OSError:
        return False
    return -1 < age < _BEGINNING_S and is_running(pid_of(folder.name), None)
