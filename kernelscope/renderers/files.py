"""Files and folders that appear whole or not at all: written beside their place, then moved there."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable, Collection, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from kernelscope.errors import RecordingFileError
from kernelscope.recording.io import SUFFIX

#: Told how far a long export is: a fraction from 0 to 1, and what it is at.
Progress = Callable[[float, str], object]


@contextmanager
def whole_file(path: str | Path) -> Generator[IO[bytes]]:
    """Give a file to write; at the end of the block it takes the place of `path`, and of a file that was there.

    Raises
    ------
    RecordingFileError
        It cannot be written. Whatever ends the block early, Ctrl-C included, leaves nothing behind.
    """
    target = checked(path)
    if target.is_dir():
        raise RecordingFileError(f"cannot write {target}: a folder has that name")
    partial = _beside(target)
    try:
        with open(partial, "xb") as file:
            yield file
        os.replace(partial, target)
    except BaseException as error:
        partial.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise RecordingFileError(f"cannot write {target}: {error.strerror or error}") from error
        raise


@contextmanager
def whole_folder(path: str | Path, names: Collection[str]) -> Generator[Path]:
    """Give a folder to write `names` into; at the end of the block it takes the place of `path`.

    A folder that is there is replaced only if it holds nothing but files of these names, as an earlier export does.

    Raises
    ------
    RecordingFileError
        It cannot be written, or something else is in the way.
    """
    target = checked(path)
    if target.exists() and not target.is_dir():
        raise RecordingFileError(f"cannot write {target}: a file has that name; tables need a folder")
    foreign = sorted({each.name for each in target.iterdir()} - {*names}) if target.is_dir() else []
    if foreign:
        raise RecordingFileError(f"cannot write {target}: the folder holds {foreign[0]!r}, which is no part of such an "
                                 "export; give another folder")
    partial, old = _beside(target), _beside(target)
    try:
        partial.mkdir()
        yield partial
        if target.is_dir():
            os.rename(target, old)
        os.rename(partial, target)
    except BaseException as error:
        if old.exists() and not target.exists():
            os.rename(old, target)
        if isinstance(error, OSError):
            raise RecordingFileError(f"cannot write {target}: {error.strerror or error}") from error
        raise
    finally:
        for left in (partial, old):
            shutil.rmtree(left, ignore_errors=True)


def checked(path: str | Path) -> Path:
    """Return where to write, after what can be known beforehand has been checked.

    Raises
    ------
    RecordingFileError
        The path names nothing, its folder does not exist, or it would take the place of a recording.
    """
    try:
        target = Path(path).expanduser()
    except RuntimeError as error:
        raise RecordingFileError(f"cannot tell whose home folder {str(path)!r} means: {error}") from None
    if not target.name:
        raise RecordingFileError(f"{str(path)!r} names no file")
    if target.suffix == SUFFIX:
        raise RecordingFileError(f"{target.name!r} is a recording's name; give an export another suffix")
    if not target.parent.is_dir():
        raise RecordingFileError(f"cannot write {target.name}: there is no folder {target.parent}")
    return target


def _beside(target: Path) -> Path:
    return target.with_name(f".{target.name[:100]}-{secrets.token_hex(6)}.partial")
