"""Whose line of code something was done by: the user's cells and files, and nobody else's; and the call path to it."""

from __future__ import annotations

import importlib.util
import json
import linecache
import os
import re
import sys
import sysconfig
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from pathlib import Path, PurePath
from types import CodeType, ModuleType
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

import kernelscope
from kernelscope.imports import namespace_of
from kernelscope.probes.functions import FRAMEWORKS
from kernelscope.schema import MAX_STACK_FRAMES, UNKNOWN

#: Whose a file of code is: somebody else's, the user's, or the user's where there is no other of the user's around it:
#: what ``exec`` runs is the line that calls it, and ``python -c`` has no such line.
OTHERS, USERS, USERS_IF_NO_OTHER = range(3)

#: So much is kept of a line's text.
MOST_LETTERS = 400

# Patterns are compiled when they are needed: a process that records itself would wait for it at its start.
# Names of code that has no file and was typed in: at a prompt, in a cell, in a cell of %%time.
_TYPED = r"<(?:stdin|console|(?:ipython|python)-input-.*|doctest .*|timed exec|timed eval)>"
# The files that ipykernel and marimo say that a cell's code is from.
_CELL = r".*(?:/ipykernel_\d+/\d+\.py|/__marimo__cell_\w*\.py)"
# What IPython runs a cell by, or the code that a magic is given: a call path begins inside of it.
_RUNS_CODE = r".*/IPython/core/(?:interactiveshell\.py|magics?[/.].*)"
_COMPREHENSION = r"(?:\.<locals>)?\.?<(?:list|dict|set)comp>|(?:\.<locals>)?\.?<genexpr>"
_INSTALLED = {"site-packages", "dist-packages"}
_STANDARD_LIBRARY = {os.path.realpath(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib")}
_OWN = os.path.dirname(os.path.realpath(kernelscope.__file__ or ""))


class Place(NamedTuple):
    """A line of code: the file's name as its code has it, the line, and the function that it is in, if any."""

    file: str
    line: int
    function: str | None


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

    def _whose(self, file: str) -> int:
        if re.fullmatch(f"{_TYPED}|{_CELL}", file) or is_cell(file):
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


class CallPaths:
    """Makes call paths of a thread's frames.

    Parameters
    ----------
    user_code : UserCode
        Says whose the frames are.
    line_of : callable
        Returns the id of a line: of its place, and whether it is the user's.
    """

    def __init__(self, user_code: UserCode, line_of: Callable[[Place, bool], int]) -> None:
        self._user_code, self._line_of = user_code, line_of
        self._files: dict[str, tuple[int, bool, bool]] = {}
        # By the code object's address, which stands for no other as long as it is held.
        self._frames: dict[tuple[int, int], _Frame] = {}

    def of(self, frames: Sequence[tuple[CodeType, int]]) -> tuple[list[int], int] | None:
        """Return the lines of a call path, outermost first, and the line that it is of: the user's innermost.

        The path begins at the outermost frame of the user's, inside of what runs a cell or a magic's code. Left out are
        KernelScope's own frames, and as in newer versions of Python the functions around frames of list, dict and set
        comprehensions.

        Parameters
        ----------
        frames : sequence of (code, int)
            Code objects and offsets as `place_of` takes them, innermost first; `MAX_STACK_FRAMES` are not all of them.

        Returns
        -------
        tuple or None
            None where no frame is the user's.
        """
        get = self._frames.get
        known = [get((id(code), offset)) or self._frame(code, offset) for code, offset in frames]
        whose = [frame.whose for frame in known]
        users = USERS if USERS in whose else USERS_IF_NO_OTHER
        if users not in whose or (users != USERS and len(frames) >= MAX_STACK_FRAMES):
            return None
        innermost = outermost = whose.index(users)
        for at in range(innermost, len(known)):
            if known[at].runs_code:
                break
            if whose[at] == users:
                outermost = at
        path: list[int] = []
        is_within = False
        for frame in known[:outermost + 1]:
            if not (is_within or frame.is_own):
                if frame.line == UNKNOWN or frame.whose == USERS_IF_NO_OTHER:
                    frame.line = self._line_of(frame.place, frame.whose == users)
                path.append(frame.line)
            is_within = frame.is_comprehension
        path.reverse()
        return path, self._line_of(known[innermost].place, True)

    def _frame(self, code: CodeType, offset: int) -> _Frame:
        name = code.co_filename
        if name not in self._files:
            path = os.path.realpath(name) if os.path.isabs(name) else name
            is_own = _is_in(path, _OWN)
            is_command = is_own and (_is_in(path, os.path.join(_OWN, "commands")) or path.endswith("command.py"))
            runs_code = re.fullmatch(_RUNS_CODE, name) is not None or is_command
            self._files[name] = self._user_code.whose(name), is_own, runs_code
        if len(self._frames) >= _MOST_FRAMES:  # of code that is made anew again and again
            self._frames.clear()
        made = self._frames[id(code), offset] = _Frame(code, place_of(code, offset), *self._files[name])
        return made


class _Frame:
    """An instruction of a code object, and what is known of its file."""

    __slots__ = ("code", "is_comprehension", "is_own", "line", "place", "runs_code", "whose")

    def __init__(self, code: CodeType, place: Place, whose: int, is_own: bool, runs_code: bool) -> None:
        self.code, self.place, self.whose, self.is_own, self.runs_code = code, place, whose, is_own, runs_code
        self.is_comprehension = code.co_name in ("<listcomp>", "<dictcomp>", "<setcomp>")
        self.line = UNKNOWN


#: Instructions that are known at once.
_MOST_FRAMES = 1 << 14


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
    name = re.sub(_COMPREHENSION, "", code.co_qualname)
    is_body = name in ("", "<module>") or code.co_name.startswith("<cell line:")
    return Place(code.co_filename, position[0] or code.co_firstlineno, None if is_body else name)


def text_of(file: str, line: int) -> str | None:
    """Return a line of code, its first `MOST_LETTERS`, as tracebacks find it; None where it is not known.

    It is that of the file as it is now.
    """
    if os.path.exists(file) and not os.path.isfile(file):  # nothing comes of a pipe
        return None
    linecache.checkcache(file)
    return linecache.getline(file, line).rstrip()[:MOST_LETTERS] or None


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
    modules: list[Any] = [sys.modules.get(name) for name in FRAMEWORKS]
    files = [namespace_of(each).get("__file__") for each in modules if issubclass(type(each), ModuleType)]
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
