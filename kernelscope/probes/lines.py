"""Whose line of code something was done by: the user's cells and files, and nobody else's; and the call path to it."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import sys
import sysconfig
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path, PurePath
from types import CodeType
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

import kernelscope
from kernelscope.probes.functions import FRAMEWORKS
from kernelscope.schema import MAX_STACK_FRAMES

#: Whose a file of code is: somebody else's, the user's, or the user's where there is no other of the user's around it:
#: what ``exec`` runs is the line that calls it, and ``python -c`` has no such line.
OTHERS, USERS, USERS_IF_NO_OTHER = range(3)

# Names of code that has no file and was typed in: at a prompt, in a cell, in a cell of %%time.
_TYPED = re.compile(r"<(?:stdin|console|(?:ipython|python)-input-.*|doctest .*|timed exec|timed eval)>")
# The files that ipykernel and marimo say that a cell's code is from.
_CELL = re.compile(r".*(?:/ipykernel_\d+/\d+\.py|/__marimo__cell_\w*\.py)")
# What IPython runs a cell by, or the code that a magic is given: a call path begins inside of it.
_RUNS_CODE = re.compile(r".*/IPython/core/(?:interactiveshell\.py|magics?[/.].*)")
_INLINED = ("<listcomp>", "<dictcomp>", "<setcomp>")
_COMPREHENSION = re.compile(r"(?:\.<locals>)?\.?<(?:list|dict|set)comp>|(?:\.<locals>)?\.?<genexpr>")
_INSTALLED = {"site-packages", "dist-packages"}
_STANDARD_LIBRARY = {os.path.realpath(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib")}
_OWN = os.path.dirname(os.path.realpath(kernelscope.__file__ or ""))


#: Instructions whose places are kept.
_MOST_PLACES = 1 << 14


class Place(NamedTuple):
    """A line of code: the file's name as its code has it, the line, and the function that it is in, if any."""

    file: str
    line: int
    function: str | None


class Frame(NamedTuple):
    """A frame of a call path: where it is, and whether that is the user's code."""

    place: Place
    is_users: bool


class _File(NamedTuple):
    """What is known of a file: whose it is, whether it is KernelScope's, whether call paths begin inside of it."""

    whose: int
    is_own: bool
    runs_code: bool


class UserCode:
    """Says which files of code are the user's: cells, files of the working folder, packages installed editable.

    Parameters
    ----------
    packages : sequence of str
        Names of further packages, or folders, whose code counts as the user's.
    """

    def __init__(self, packages: Sequence[str] = ()) -> None:
        self._packages = packages
        self._known: dict[str, int] = {}
        self._files: dict[str, _File] = {}
        # With the code object, which is held: its address stands for no other then.
        self._places: dict[tuple[int, int], tuple[CodeType, Place, _File]] = {}
        self._folders: list[str] | None = None
        self._more: list[str] | None = None
        try:
            self._here = os.path.realpath(os.getcwd())
        except OSError:  # it was removed
            self._here = None

    def whose(self, file: str) -> int:
        """Return `OTHERS`, `USERS` or `USERS_IF_NO_OTHER` for the name of a file, as a code object has it."""
        found = self._known.get(file)
        if found is None:
            found = self._known[file] = self._whose(file)
        return found

    def call_path(self, frames: Sequence[tuple[CodeType, int]]) -> tuple[list[Frame], Place] | None:
        """Return the frames of a call path, outermost first, and the place that the path is the call of.

        The place is the innermost of the user's; the path begins at the outermost of the user's around it, inside
        of what runs a cell or a magic's code. KernelScope's own frames are left out, and as in newer versions of Python
        the functions that list, dict and set comprehensions are in.

        Parameters
        ----------
        frames : sequence of (code, int)
            Code objects and offsets as `place_of` takes them, innermost first; `MAX_STACK_FRAMES` are not all of them.

        Returns
        -------
        tuple or None
            None where no frame is the user's.
        """
        known = [self._place(code, offset) for code, offset in frames]
        whose = [file.whose for _, _, file in known]
        is_all = len(frames) < MAX_STACK_FRAMES
        users = USERS if USERS in whose else USERS_IF_NO_OTHER
        if users not in whose or (users != USERS and not is_all):
            return None
        innermost = outermost = whose.index(users)
        for at in range(innermost, len(known)):
            if known[at][2].runs_code:
                break
            if whose[at] == users:
                outermost = at
        path: list[Frame] = []
        within = None
        for at in range(outermost + 1):
            code, place, file = known[at]
            if not file.is_own and within not in _INLINED:
                path.append(Frame(place, whose[at] == users))
            within = code.co_name
        return path[::-1], known[innermost][1]

    def _place(self, code: CodeType, offset: int) -> tuple[CodeType, Place, _File]:
        found = self._places.get((id(code), offset))
        if found is None:
            name = code.co_filename
            file = self._files.get(name)
            if file is None:
                path = os.path.realpath(name) if os.path.isabs(name) else name
                runs_code = _RUNS_CODE.fullmatch(name) is not None or _is_in(path, os.path.join(_OWN, "commands"))
                file = self._files[name] = _File(self.whose(name), _is_in(path, _OWN), runs_code)
            if len(self._places) >= _MOST_PLACES:  # of code that is made anew again and again
                self._places.clear()
            found = self._places[id(code), offset] = code, place_of(code, offset), file
        return found

    def _whose(self, file: str) -> int:
        if _TYPED.fullmatch(file) or _CELL.fullmatch(file) or is_cell(file):
            return USERS
        if file.startswith("<"):
            return USERS_IF_NO_OTHER if file in ("<string>", "<magic-timeit>") else OTHERS
        # A launch waits for this the first time: the file system is asked only where names alone do not say it.
        if not self._packages and os.path.isabs(file):
            if not _INSTALLED.isdisjoint(file.split(os.sep)):
                return OTHERS
            if self._here and _is_in(os.path.normpath(file), self._here) and not any(
                    _is_in(file, folder) for folder in (_OWN, *_STANDARD_LIBRARY, *_framework_folders())):
                return USERS
        paths = {os.path.abspath(file), os.path.realpath(file)} if self._here or os.path.isabs(file) else {file}
        if any(_is_in(path, _OWN) for path in paths):
            return OTHERS
        if self._more is None:
            self._more = [os.path.realpath(each) for name in self._packages for each in _folders_of(name)]
        if any(_is_in(path, folder) for path in paths for folder in self._more):
            return USERS
        if any(_is_installed(path) for path in paths):
            return OTHERS
        if self._here and any(_is_in(path, self._here) for path in paths):
            return USERS if os.path.isabs(file) or os.path.exists(file) else USERS_IF_NO_OTHER
        if self._folders is None:
            self._folders = [*_editable(sys.path), *_main_folder()]
        return USERS if any(_is_in(path, folder) for path in paths for folder in self._folders) else OTHERS


def place_of(code: CodeType, offset: int) -> Place:
    """Return the line of an instruction: of a call of several lines that on which the call begins.

    Parameters
    ----------
    code : code
        The function, cell or module.
    offset : int
        As ``frame.f_lasti``.
    """
    position = next(islice(code.co_positions(), max(offset, 0) // 2, None), (None, None, None, None))
    name = _COMPREHENSION.sub("", code.co_qualname)
    is_body = name in ("", "<module>") or code.co_name.startswith("<cell line:")
    return Place(code.co_filename, position[0] or code.co_firstlineno, None if is_body else name)


def is_cell(file: str) -> bool:
    """Whether IPython knows a file's name as that of a cell."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    namer = getattr(getattr(shell, "compile", None), "format_code_name", None)
    return namer is not None and namer(file) is not None


def _is_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def _is_installed(path: str) -> bool:
    """Whether a file is of an installed package, of the standard library, or of a framework wherever that is."""
    if not _INSTALLED.isdisjoint(PurePath(path).parts):
        return True
    frameworks = [folder for each in _framework_folders() for folder in (each, os.path.realpath(each))]
    return any(_is_in(path, folder) for folder in (*_STANDARD_LIBRARY, *frameworks))


def _framework_folders() -> list[str]:
    """The folders of the frameworks that are loaded."""
    files = [getattr(sys.modules.get(name), "__file__", None) for name in FRAMEWORKS]
    return [os.path.dirname(file) for file in files if isinstance(file, str)]


def _main_folder() -> list[str]:
    """The folder of the script that runs, in which its own modules are; not that of an installed program."""
    file: Any = getattr(sys.modules.get("__main__"), "__file__", None)
    if not isinstance(file, str):
        return []
    folder = os.path.dirname(os.path.realpath(file))
    return [] if folder == os.path.realpath(sysconfig.get_path("scripts")) else [folder]


def _folders_of(name: str) -> list[str]:
    """The folders of a package, or the file of a module, without importing it; a folder's name is that folder."""
    if os.sep in name or name in (".", ".."):
        return [os.path.abspath(os.path.expanduser(name))]
    try:
        found = importlib.util.find_spec(name)
    except (ImportError, ValueError, AttributeError):
        return []
    if found is None:
        return []
    return list(found.submodule_search_locations or ([found.origin] if found.origin else []))


def _editable(path: Iterable[str]) -> list[str]:
    """The folders of packages that are installed editable: by what pip says, and by ``.pth`` files."""
    found: list[str] = []
    for folder in {each for each in path if not _INSTALLED.isdisjoint(PurePath(each).parts)}:
        try:
            names = os.listdir(folder)
        except OSError:
            continue
        for name in names:
            if name.endswith(".dist-info"):
                found += _editable_url(Path(folder, name, "direct_url.json"))
            elif name.endswith((".pth", ".egg-link")):
                found += _listed(Path(folder, name))
    return [os.path.realpath(each) for each in found]


def _editable_url(file: Path) -> list[str]:
    try:
        said: Any = json.loads(file.read_text(encoding="utf-8"))
        url = urlsplit(said["url"])
        return [unquote(url.path)] if url.scheme == "file" and said.get("dir_info", {}).get("editable") else []
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return []


def _listed(file: Path) -> list[str]:
    """The folders that a ``.pth`` file adds to the path."""
    try:
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    return [line.strip() for line in lines if os.path.isabs(line.strip()) and os.path.isdir(line.strip())]
