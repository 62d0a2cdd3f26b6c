"""The packages that are installed, by the names of their folders, in a tenth of importlib.metadata's time.

That reads and parses a file of every package; a process that records itself would wait for it at its start.
"""

from __future__ import annotations

import functools
import os
import re
import sys


def _folders() -> dict[str, tuple[str, str]] | None:
    return _folders_of(tuple(sys.path))


@functools.cache
def _folders_of(places: tuple[str, ...]) -> dict[str, tuple[str, str]] | None:
    """The version and the metadata's folder of each package by its normalized name; None where folders do not say.

    https://packaging.python.org/en/latest/specifications/recording-installed-packages/: NAME-VERSION.dist-info.
    """
    found: dict[str, tuple[str, str]] = {}
    for place in places:
        try:
            names = os.listdir(place or ".")
        except FileNotFoundError:
            continue
        except OSError:  # such as a zip file
            return None
        for name in names:
            stem, ending = os.path.splitext(name)
            package, _, version = stem.partition("-")
            if ending == ".dist-info" and version:
                found.setdefault(_normalized(package), (version, os.path.join(place, name)))
            elif ending in (".egg-info", ".egg-link", ".egg"):
                return None
    return found


def version(package: str) -> str | None:
    """Return the version of a package that is installed, or None."""
    folders = _folders()
    if folders is not None:
        return folders.get(_normalized(package), (None, ""))[0]
    from importlib import metadata

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def may_have_entry_points(group: str) -> bool:
    """Return whether it is worth asking importlib.metadata for the entry points of a group."""
    folders = _folders()
    return folders is None or any(_names(folder, group.encode()) for _, folder in folders.values())


def _names(folder: str, group: bytes) -> bool:
    try:
        with open(os.path.join(folder, "entry_points.txt"), "rb", buffering=0) as file:
            return group in file.read()
    except OSError:
        return False


def _normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "_", name).lower()
