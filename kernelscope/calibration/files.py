"""Calibrations in a file: ``$XDG_STATE_HOME/kernelscope/calibration.json``; ``~/.local/state`` stands for the variable.

A home folder may be that of many machines, and a machine may have many Pythons: the file holds a calibration for each
setting, and a new one takes the place of that of the same setting.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import platform
import re
import secrets
import stat
from collections.abc import Generator, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, cast

from kernelscope.calibration.model import Calibration, Setting
from kernelscope.errors import CalibrationError

FORMAT = 1
_LARGEST = 4 * 2**20
#: Of so many settings at most; the oldest go first.
_MOST = 500


@dataclass(frozen=True)
class Stored:
    """What the file holds.

    Attributes
    ----------
    path : Path
        The file.
    calibrations : tuple of Calibration
        The newest first.
    problems : tuple of str
        Why the file, or some of what is in it, is left out; a line each.
    is_newer : bool
        Whether a newer version of KernelScope wrote the file.
    """

    path: Path
    calibrations: tuple[Calibration, ...] = ()
    problems: tuple[str, ...] = ()
    is_newer: bool = False

    def find(self, here: Setting, today: datetime | None = None) -> Calibration | None:
        """Return the newest calibration that holds for a setting, or None."""
        today = today or datetime.now(UTC)
        for each in self.calibrations:
            if each.setting == here and each.objection(here, today) is None:
                return each
        return None


def calibration_file() -> Path:
    """Return where calibrations are stored; the file may not be there yet."""
    configured = os.environ.get("XDG_STATE_HOME", "")
    try:
        base = Path(configured) if os.path.isabs(configured) else Path.home() / ".local" / "state"
    except RuntimeError as error:
        raise CalibrationError(f"there is no home folder for calibrations ({error}): set XDG_STATE_HOME to a folder "
                               "that you can write") from None
    return base / "kernelscope" / "calibration.json"


def stored(path: Path | None = None) -> Stored:
    """Return what is stored; a file that is missing, damaged or no such file at all is never an error.

    Parameters
    ----------
    path : Path, optional
        Another file than `calibration_file`.
    """
    if path is None:
        try:
            path = calibration_file()
        except CalibrationError as error:
            return Stored(Path("calibration.json"), problems=(str(error),))
    try:
        held = _content(path)
    except FileNotFoundError:
        return Stored(path)
    except (OSError, ValueError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        return Stored(path, problems=(f"{path.name} cannot be read: {reason}",))
    if isinstance(held, dict) and isinstance(number := held.get("format"), int) and number > FORMAT:
        return Stored(path, is_newer=True, problems=(
            f"{path.name} has format {number} of a newer kernelscope, and this one reads format {FORMAT}: upgrade it",))
    rows: Any = cast("dict[str, Any]", held).get("calibrations") if isinstance(held, dict) else None
    if not isinstance(held, dict) or held.get("format") != FORMAT or not isinstance(rows, list):
        return Stored(path, problems=(f"{path.name} holds no calibrations of format {FORMAT}",))
    found: list[Calibration] = []
    problems: list[str] = []
    for place, row in enumerate(cast("list[Any]", rows), 1):
        try:
            found.append(Calibration.from_json(row))
        except (ValueError, RecursionError) as error:
            problems.append(f"{path.name}, calibration {place}: {error}")
    found.sort(key=lambda each: each.measured, reverse=True)
    return Stored(path, tuple(found), tuple(problems))


def store(new: Iterable[Calibration], path: Path | None = None) -> Path:
    """Add calibrations to the file, in the place of those of the same settings, and return where it is.

    Another process that stores at the same time is waited for, and nobody ever reads half a file.

    Raises
    ------
    CalibrationError
        The folder cannot be written, or the file is of a newer version.
    """
    path = calibration_file() if path is None else path
    new = list(new)
    with _writing(path), open(path.with_name("calibration.lock"), "ab") as lock:
        _locks(lock, wait=True)
        held = stored(path)
        if held.is_newer:
            raise CalibrationError(f"{held.problems[0]}, or remove {path}")
        replaced = {each.setting for each in new}
        kept = [each for each in held.calibrations if each.setting not in replaced]
        everything = sorted([*new, *kept], key=lambda each: each.measured, reverse=True)[:_MOST]
        text = json.dumps({"format": FORMAT, "calibrations": [each.to_json() for each in everything]}, indent=1)
        partial = path.with_name(f".{path.name}-{secrets.token_hex(6)}.partial")
        try:
            with open(partial, "x", encoding="utf-8") as file:
                file.write(text + "\n")
                file.flush()
                os.fsync(file.fileno())
            os.replace(partial, path)
        finally:
            partial.unlink(missing_ok=True)
    return path


@contextlib.contextmanager
def measuring(path: Path | None = None) -> Generator[None]:
    """Be the only one on this machine that calibrates: two would find each other's work on the processor.

    It finds out whether the folder can be written, too, before anything is measured for it.

    Raises
    ------
    CalibrationError
        Another calibration is under way, or the folder cannot be written.
    """
    path = calibration_file() if path is None else path
    name = re.sub(r"[^\w.-]", "_", platform.node() or "unnamed")
    trial = path.with_name(f".{path.name}-{secrets.token_hex(6)}.partial")
    with _writing(path):
        if (held := stored(path)).is_newer:
            raise CalibrationError(f"{held.problems[0]}, or remove {path}")
        trial.touch(exist_ok=False)
        trial.unlink()
        lock = open(path.with_name(f"calibrating-{name}.lock"), "ab")  # noqa: SIM115 - it is closed below
    with lock:
        if not _locks(lock, wait=False):
            raise CalibrationError("another calibration is under way on this machine, and two would disturb each "
                                   "other: wait until it has ended")
        yield


@contextlib.contextmanager
def _writing(path: Path) -> Generator[None]:
    """Make the file's folder, and turn what the system refuses into a `CalibrationError`."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise CalibrationError(f"the calibration cannot be stored in {path.parent}: {error.strerror or error}; set "
                               "XDG_STATE_HOME to a folder that you can write") from error


def _locks(file: IO[bytes], wait: bool) -> bool:
    """Lock a file until it is closed and return whether that went well; where there are no locks, go on without."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except OSError:
        pass
    return True


def _content(path: Path) -> Any:
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # opening a pipe would wait for ever
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise ValueError("it is no regular file")
        if status.st_size > _LARGEST:
            raise ValueError(f"it has {status.st_size} bytes, and {_LARGEST} is the most")
        return json.loads(file.read(_LARGEST).decode("utf-8"))
