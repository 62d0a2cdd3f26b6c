"""Folders that belong to the user alone: code is loaded from no other, and nothing is recorded into another.

Whoever can write to a file of machine code, to its folder or to one that this is in, decides what runs in the processes
that load it. Recordings run nothing, so for them the folder itself counts, not those that it is in: these are often a
project's, or a container's.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

# As many links as Linux follows.
_MOST_LINKS = 40
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def make_private(folder: Path) -> None:
    """Make a folder, and those that it is in and are not there yet, for the user alone (mode 0700).

    Raises
    ------
    OSError
        It cannot be made.
    """
    for each in reversed([folder, *folder.parents]):
        if not os.path.lexists(each):
            each.mkdir(mode=0o700, exist_ok=True)


def why_not_private(path: Path) -> str | None:
    """Return why somebody else could change a file or folder; None where only the user, and root, can.

    It must belong to the user, and nobody else may write to it. The folders that it is in, and the links on the way,
    must belong to the user or to root; one that others can write to must be sticky, as ``/tmp`` is, so that they cannot
    rename what is not theirs. What does not exist is not looked at: where a folder was made, look again.

    Parameters
    ----------
    path : Path
        An absolute path.

    Returns
    -------
    str or None
        Such as ``/cache belongs to user 1001``.
    """
    found = _resolve(path)
    if isinstance(found, str):
        return found
    if found is None:
        return None
    real, status = found
    if status.st_uid != os.geteuid():
        return f"{real} belongs to user {status.st_uid}"
    return f"others can write to {real}" if _others_write(status) else None


def why_not_own(folder: Path, *, links: bool = True) -> str | None:
    """Return why somebody else owns a folder or can write to it; None where it is the user's alone.

    Others may read it. The folders that it is in are not looked at.

    Parameters
    ----------
    folder : Path
        It is there.
    links : bool
        Whether it may be a link to a folder: not where others can guess its name and make it first.

    Returns
    -------
    str or None
        Such as ``/scratch/run belongs to user 1001``.

    Raises
    ------
    OSError
        It cannot be looked at.
    """
    status = folder.stat() if links else folder.lstat()
    if not stat.S_ISDIR(status.st_mode):
        return f"{folder} is no folder"
    if status.st_uid != os.geteuid():
        return f"{folder} belongs to user {status.st_uid}"
    return f"others can write to {folder}" if _others_write(status) else None


def why_no_place(folder: Path) -> str | None:
    """Return why a new folder inside of this one would not be the user's alone; None where it would."""
    found = _resolve(folder)
    return found if isinstance(found, str) else None


def _resolve(path: Path) -> tuple[str, os.stat_result] | str | None:
    """Return the path and status that a path resolves to, None if there is nothing, or why it is unsafe."""
    left = list(reversed(path.absolute().parts))
    real, links = left.pop(), 0
    status = os.lstat(real)
    while True:
        if status.st_uid not in (0, os.geteuid()):
            return f"{real} belongs to user {status.st_uid}"
        if _others_write(status) and not (stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX):
            return f"others can write to {real}"
        if not left:
            return real, status
        part = left.pop()
        if part == "..":
            real = os.path.dirname(real)
            status = os.lstat(real)
            continue
        entry = os.path.join(real, part)
        try:
            found = os.lstat(entry)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except PermissionError:
            return f"{entry} cannot be looked at"
        if not stat.S_ISLNK(found.st_mode):
            real, status = entry, found
            continue
        links += 1
        if found.st_uid not in (0, os.geteuid()) or links > _MOST_LINKS:
            return f"the link {entry} belongs to user {found.st_uid}"
        target = Path(os.readlink(entry))
        left += reversed(target.parts)
        if target.is_absolute():
            real = left.pop()
            status = os.lstat(real)


def _others_write(status: os.stat_result) -> bool:
    """Return whether somebody else may write; a group whose only member is the user does not count."""
    writes = status.st_mode & _OTHERS_WRITE
    return bool(writes & stat.S_IWOTH) or (bool(writes) and not _is_own_group(status.st_gid))


def _is_own_group(gid: int) -> bool:
    """Return whether a group is the user's private group (umask 002) without another member."""
    import grp
    import pwd

    try:
        user, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(gid)
    except KeyError:
        return False
    return group.gr_name == user.pw_name and user.pw_gid == gid and set(group.gr_mem) <= {user.pw_name}
