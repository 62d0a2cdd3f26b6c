"""What a study is asked for: settings, which are checked, and targets, each a label and a version of a framework."""

from __future__ import annotations

import importlib.util
import math
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib.machinery import EXTENSION_SUFFIXES, PathFinder
from pathlib import Path
from typing import Any, cast

from kernelscope.errors import StudyArgumentError, StudyError
from kernelscope.suggestions import did_you_mean, nearest
from kernelscope.units import listed
from kernelscope.views.base import clean, shorten

MOST_PROCESSES = 10_000
MOST_LAUNCHES = 10_000_000
_WIDTH = 120


def shown(value: object) -> str:
    """Return a value as messages have it: on one line, and not too long."""
    try:
        return shorten(clean(repr(value)), _WIDTH)
    except Exception:  # a repr of somebody's own
        return f"a {type(value).__name__}"


def check_settings(**given: object) -> None:
    """Raise `StudyArgumentError` for settings of a wrong type or out of range.

    Parameters
    ----------
    **given
        Settings by the names of the parameters of `kernelscope.studies.launch_overhead`, `anatomy` and `suite`.

    Raises
    ------
    StudyArgumentError
        One is of another type or out of range; the message has the value and what is expected.
    """
    for name, value in given.items():
        is_right, expected = _SETTINGS[name]
        if not is_right(value):
            raise StudyArgumentError(f"{name}={shown(value)} is {expected}")


def check_paths(name: str, given: object) -> list[str]:
    """Return the paths that are meant: one, or several.

    Raises
    ------
    StudyArgumentError
        It is neither.
    """
    if not isinstance(given, str | os.PathLike | Iterable) or isinstance(given, bytes):
        raise StudyArgumentError(f"{name}={shown(given)} is no path and no list of paths")
    alone = isinstance(given, str | os.PathLike)
    found: list[Any] = [given] if alone else list(cast("Iterable[Any]", given))
    return [str(check_path(name, each)) for each in found]


def check_path(name: str, given: object) -> Path:
    """Return a path.

    Raises
    ------
    StudyArgumentError
        It is none.
    """
    if isinstance(given, str) or (isinstance(given, os.PathLike) and isinstance(os.fspath(given), str)):
        return Path(cast("str", given))
    raise StudyArgumentError(f"{name}={shown(given)} is no path")


def check_text(name: str, given: object, expected: str = "text") -> str:
    """Return text.

    Raises
    ------
    StudyArgumentError
        It is none.
    """
    if isinstance(given, str):
        return given
    raise StudyArgumentError(f"{name}={shown(given)} is no {expected}")


def is_number(value: object, least: float, most: float = math.inf) -> bool:
    """Return whether it is a finite number from `least` to `most`, and not a bool."""
    return (isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
            and least <= value <= most)


def is_whole(value: object, least: float, most: float = math.inf) -> bool:
    """Return whether it is a whole number from `least` to `most`, and not a bool."""
    return isinstance(value, int) and is_number(value, least, most)


def _is_flag(value: object) -> bool:
    return isinstance(value, bool)


def _is_seconds(value: object) -> bool:
    return is_number(value, 0) and value != 0


def _or_none(check: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: value is None or check(value)


_COUNT = (lambda value: is_whole(value, 1, MOST_PROCESSES), f"no number from 1 to {MOST_PROCESSES:,}")
_SECONDS = "no number of seconds above 0"
_FLAG = (_is_flag, "neither True nor False")
_SETTINGS: dict[str, tuple[Callable[[object], bool], str]] = {
    "repeats": _COUNT,
    "processes": _COUNT,
    "loops": (_or_none(lambda value: is_whole(value, 1, MOST_LAUNCHES)),
              f"no number of launches in a batch, from 1 to {MOST_LAUNCHES:,}"),
    "half_width": (_or_none(lambda value: is_number(value, 0, 1) and value not in (0, 1)),
                   "no share of a launch: 0.01 is 1 %, None is off"),
    "limit_s": (_or_none(_is_seconds), f"{_SECONDS}; None is no limit"),
    "timeout_s": (_is_seconds, _SECONDS),
    "max_time_s": (_is_seconds, _SECONDS),
    "seconds": (_is_seconds, _SECONDS),
    "seed": (_or_none(lambda value: is_whole(value, -math.inf)), "no whole number"),
    "repo": (lambda value: isinstance(value, str | os.PathLike), "no path of a repository"),
    "keyword": (_or_none(lambda value: isinstance(value, str)), "no text as pytest's -k takes it"),
    "install": _FLAG,
    "no_index": _FLAG,
    "pin": _FLAG,
    "dry_run": (_or_none(_is_flag), "neither True nor False, nor None for what this process does"),
    "progress": (lambda value: value is None or value is False or callable(value),
                 "no function of a share and a text; False shows nothing, None what suits"),
}


# Folders with the source of numba-cuda or numba-cuda-mlir: which it is, and how to use one that is not installed.
#
# As it is, a checkout lacks the compiled extensions of its framework, which are built on installation. Those of the
# installed framework do as well where the C sources are the same, which is what most changes of the launch path
# leave:
# the package is then copied, with the installed one's compiled extensions in it, and nothing is written to the
# checkout.

FRAMEWORKS = {"numba-cuda": "numba_cuda", "numba-cuda-mlir": "numba_cuda_mlir"}
"""The frameworks that can be measured, by their name on PyPI; each with the package that it installs."""

_NATIVE = (".c", ".cc", ".cpp", ".cxx", ".h", ".hh", ".hpp")
# Generated by CUDA's headers or read by a compiler at run time: no source of an extension.
_NOT_COMPILED = ("include", "tests")
_NOT_COPIED = shutil.ignore_patterns("__pycache__", "tests", ".git")
_INSTALL = "leave out --no-install (install=False) to have it built, or build it in place"


@dataclass(frozen=True)
class Package:
    """The package of a framework in a folder.

    Attributes
    ----------
    framework : str
        ``numba-cuda`` or ``numba-cuda-mlir``.
    path : Path
        The package's folder; its parent goes onto Python's path.
    """

    framework: str
    path: Path

    @property
    def version(self) -> str | None:
        """Return the contents of its file ``VERSION``, None if it has none."""
        file = self.path / "VERSION"
        return file.read_text(encoding="utf-8").strip() if file.is_file() else None


def find_package(folder: Path) -> Package | None:
    """Return the framework's package that a folder has the source of, or None."""
    for framework, name in FRAMEWORKS.items():
        for path in (folder / name, folder / "src" / name):
            if (path / "__init__.py").is_file():
                return Package(framework, path.absolute())
    return None


def installed_package(framework: str) -> Package | None:
    """Return the package of a framework that this environment has, without importing it, or None."""
    # The folder that one stands in is on the path of a notebook, may be a checkout, and is not on a target's path.
    paths = [path for path in sys.path if path and Path(path).resolve() != Path.cwd()]
    try:
        spec = PathFinder.find_spec(FRAMEWORKS[framework], paths) or importlib.util.find_spec(FRAMEWORKS[framework])
    except (ImportError, ValueError):
        return None
    if spec is None or not spec.origin:
        return None
    return Package(framework, Path(spec.origin).parent)


def usable_as_is(package: Package, scratch: Path) -> tuple[Package, list[str]]:
    """Return the package itself if its compiled extensions are in place, or a copy that has the installed one's.

    Parameters
    ----------
    package : Package
        Of a checkout.
    scratch : Path
        An empty folder for the copy.

    Returns
    -------
    tuple of Package and list of str
        What to use, and what there is to know about it.

    Raises
    ------
    StudyError
        The framework is not installed here, or its extensions are of other C sources than the checkout's.
    """
    installed = installed_package(package.framework)
    if installed is None:
        raise StudyError(f"{package.framework} is not installed in this environment, so that a checkout of it cannot "
                         f"be used as it is: {_INSTALL}")
    missing = [name for name in _compiled(installed.path) if not (package.path / name).exists()]
    if not missing or installed.path == package.path:
        return package, []
    notes = _compare_sources(package, installed)
    copy = scratch / package.path.name
    shutil.copytree(package.path, copy, ignore=_NOT_COPIED, dirs_exist_ok=True)
    for name in _to_borrow(installed.path, package.path, missing):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(installed.path / name, copy / name)
    return Package(package.framework, copy), notes


def _compare_sources(package: Package, installed: Package) -> list[str]:
    """Return notes on the installed extensions; raise `StudyError` if their sources are not the checkout's."""
    ours, theirs = _sources(package.path), _sources(installed.path)
    known = f"those of the installed {installed.framework} {installed.version or ''}".rstrip()
    if ours and theirs:
        differing = sorted(name for name in {*ours, *theirs} if ours.get(name) != theirs.get(name))
        if differing:
            raise StudyError(f"the checkout has no compiled extensions, and {known} are of other C sources "
                             f"({listed(differing)}): {_INSTALL}")
        return [f"Its compiled extensions are {known}, whose C sources are the same."]
    if package.version is None or package.version != installed.version:
        raise StudyError(f"the checkout, of version {package.version or 'unknown'}, has no compiled extensions, and "
                         f"cannot have {known}: {_INSTALL}")
    return [f"Its compiled extensions are {known}: changes of the checkout's C sources are not measured."]


def _compiled(package: Path) -> list[str]:
    """Return the extensions of a package that this Python loads, relative to it."""
    return sorted(name for name in _files(package) if name.endswith(tuple(EXTENSION_SUFFIXES)))


def _sources(package: Path) -> dict[str, bytes]:
    """Return the C and C++ sources of a package's extensions, relative to it."""
    # Those beside or under an extension's folder: other headers are for kernels.
    return {name: (package / name).read_bytes() for name in _files(package)
            if name.endswith(_NATIVE) and "cext" in Path(name).parts and not {*Path(name).parts} & {*_NOT_COMPILED}}


def _to_borrow(installed: Path, checkout: Path, missing: list[str]) -> Iterator[str]:
    """Return the missing extensions, and all files of folders that building the extensions makes."""
    made = {entry.name for entry in os.scandir(installed)
            if entry.is_dir() and entry.name not in ("tests", "__pycache__") and not (checkout / entry.name).exists()}
    yield from missing
    yield from (name for name in _files(installed) if Path(name).parts[0] in made and name not in missing)


def _files(package: Path) -> Iterator[str]:
    for folder, folders, names in os.walk(package):
        folders[:] = [each for each in folders if each not in ("tests", "__pycache__")]
        for name in names:
            yield str((Path(folder) / name).relative_to(package))


# Where it is measured.

KINDS = ("current", "checkout", "ref", "requirement", "python")

FORMS = ("current, a folder with the source of numba-cuda or numba-cuda-mlir, git:REF or git:FOLDER@REF, a requirement "
         "such as numba-cuda==0.29.0, or an interpreter or the folder of a virtual environment; with LABEL= before it")
"""What a target's text may be, for messages and help."""

# A label has nothing that a path, a git ref or a requirement has before its first equals sign.
_LABEL = re.compile(r"([^=<>!~/\\:@;\[\]\x00-\x1f]+)=(?!=)(.*)", re.DOTALL)
_REQUIREMENT = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)\s*(\[[^\]]*\])?\s*(?=[=<>!~@;(]|$)")
_GIT = "git:"
_LONGEST_LABEL = 60
_LONGEST_SPEC = 4000  # no path may have more


@dataclass(frozen=True)
class Target:
    """A target of a study: a label, and an environment, checkout, git ref, requirement or interpreter.

    Attributes
    ----------
    label : str
        What to call it; unique in a study.
    kind : str
        ``current``; ``checkout`` (a folder with the source of numba-cuda or numba-cuda-mlir); ``ref`` (a git ref of
        the repository `repo`); ``requirement`` (as pip takes it); ``python`` (an interpreter, or the folder of a
        virtual environment).
    value : str
        The folder, ref, requirement or interpreter, as it was given; empty for ``current``.
    repo : str or None
        Of a ref: the repository's folder.
    """

    label: str
    kind: str = "current"
    value: str = ""
    repo: str | None = None

    def __str__(self) -> str:
        if self.kind == "current":
            return "this environment"
        return f"{self.value} of {self.repo}" if self.kind == "ref" and self.repo else self.value


def parse_target(text: str, repo: str = ".") -> Target:
    """Read a target from its text, ``SPEC`` or ``LABEL=SPEC``.

    A spec is ``current``; ``git:REF`` or ``git:FOLDER@REF``, a ref of the repository in `repo` or in the folder; a
    folder or a file that exists: a checkout, an interpreter, a virtual environment, a wheel; or a requirement as pip
    takes it, of numba-cuda or numba-cuda-mlir. What is before the first ``=`` is a label, unless it is that of a
    requirement (``==``, ``>=``) or within a path. Without one a target is called after its folder, ref or requirement.

    Parameters
    ----------
    text : str
        Such as ``v2=../numba-cuda`` or ``numba-cuda==0.29.0``. A path may have spaces, and begin with ``~``.
    repo : str, optional
        The folder of the repository that ``git:REF`` means.

    Raises
    ------
    StudyArgumentError
        The text is none of these; the message has the value and the forms.
    """
    label, spec, repo = None, _text(text).strip(), _repo(repo)
    if "\0" in spec or len(spec) > _LONGEST_SPEC:
        raise StudyArgumentError(
            f"target {shorten(repr(spec), 200)} is too long, or has a zero in it: it must be {FORMS}")
    found = None if Path(spec).expanduser().exists() or spec.startswith(_GIT) else _LABEL.fullmatch(spec)
    if found:
        label, spec = found[1].strip(), found[2].strip()
    if not spec:
        raise StudyArgumentError(f"target {text!r} says nothing after its label: it must be {FORMS}" if found else
                                 f"target {text!r} is empty: it must be {FORMS}")
    if label is not None and len(label) > _LONGEST_LABEL:
        raise StudyArgumentError(
            f"target {text!r}: a label has at most {_LONGEST_LABEL} characters, and this one {len(label)}")
    kind, value, folder = _read(spec, repo)
    # A name that is no UTF-8 has what no table can hold.
    label = (label or _called(kind, value)).encode("utf-8", "backslashreplace").decode()
    return Target(label, kind, value, folder)


def parse_targets(texts: str | Path | Target | Iterable[str | Path | Target], repo: str = ".") -> tuple[Target, ...]:
    """Read the targets of a study, the first of which is its baseline.

    Parameters
    ----------
    texts : str, Path, Target, or iterable of them
        Each as in `parse_target`.
    repo : str, optional
        The folder of the repository that ``git:REF`` means.

    Raises
    ------
    StudyArgumentError
        One of them is wrong, there is none, or two have the same label.
    """
    given = cast("object", texts)
    if isinstance(given, str | Path | Target):
        texts = (given,)
    elif not isinstance(given, Iterable):
        raise StudyArgumentError(f"targets={shown(given)} is no target and no list of targets; one must be {FORMS}")
    wanted = cast("Iterable[object]", texts)
    targets = tuple(each if isinstance(each, Target) else parse_target(_text(each), repo) for each in wanted)
    if not targets:
        raise StudyArgumentError(f"a study needs a target: {FORMS}")
    by_label: dict[str, Target] = {}
    for target in targets:
        other = by_label.setdefault(target.label, target)
        if other is not target:
            raise StudyArgumentError(
                f"two targets are called {target.label!r} ({other} and {target}): give each a label of "
                f"its own, as in again={_spec(target)}")
    return targets


def framework_of(requirement: str) -> str | None:
    """Return which framework a requirement is of, ``numba-cuda`` or ``numba-cuda-mlir``, or None if of neither."""
    if requirement.split("[")[0].endswith(".whl"):
        name = os.path.basename(requirement).partition("-")[0]
    else:
        found = _REQUIREMENT.match(requirement.strip())
        name = found[1] if found else ""
    name = re.sub(r"[-_.]+", "-", name).lower()
    return name if name in FRAMEWORKS else None


def _text(given: object) -> str:
    if isinstance(given, str | Path):
        return str(given)
    raise StudyArgumentError(f"target {shown(given)} is no text: it must be {FORMS}")


def _repo(given: object) -> str:
    if isinstance(given, str | Path):
        return str(given)
    raise StudyArgumentError(f"repo={shown(given)} is no path of a repository")


def _read(spec: str, repo: str) -> tuple[str, str, str | None]:
    """Return the kind, the value and the repository of a target's text."""
    if spec == "current":
        return "current", "", None
    if spec.startswith(_GIT):
        return "ref", *_ref(spec[len(_GIT):].strip(), repo, spec)
    path = Path(spec).expanduser()
    if path.is_dir():
        return _kind_of_folder(path), spec, None
    if path.is_file():
        return _kind_of_file(path), spec, None
    if framework_of(spec):
        return "requirement", spec, None
    if spec.startswith((".", "~", "/")) or ("/" in spec and "://" not in spec):
        raise StudyArgumentError(f"target {spec!r}: there is no such file or folder (for a git ref write git:{spec})")
    name, version = re.fullmatch(r"([\w.-]*)(.*)", spec, re.DOTALL).groups()  # type: ignore[union-attr]
    near = did_you_mean(spec, [f"{each}{version}" for each in nearest(name, ["current", *FRAMEWORKS])])
    raise StudyArgumentError(f"target {spec!r} is none of the targets there are: {FORMS}{near}")


def _ref(text: str, repo: str, spec: str) -> tuple[str, str]:
    """Split ``FOLDER@REF`` where FOLDER exists; else it is a ref of `repo`, which may contain an ``@``."""
    at = text.find("@")
    while at > 0:
        if Path(text[:at]).expanduser().is_dir():
            if not text[at + 1:]:
                raise StudyArgumentError(f"target {spec!r} names no ref: write {_GIT}{text[:at]}@HEAD, for instance")
            return text[at + 1:], text[:at]
        at = text.find("@", at + 1)
    if text.startswith(("./", "../", "~", "/")):
        folder = text.partition("@")[0]
        raise StudyArgumentError(f"target {spec!r}: there is no folder {folder!r}" if "@" in text else
                                 f"target {spec!r} names no ref: write {spec}@HEAD, for instance")
    if not text:
        raise StudyArgumentError(f"target {spec!r} names no ref: write {_GIT}HEAD~, for instance")
    if text.startswith("-"):
        raise StudyArgumentError(f"target {spec!r}: a git ref cannot begin with a dash")
    return text, repo


def _kind_of_folder(folder: Path) -> str:
    if find_package(folder):
        return "checkout"
    if (folder / "bin" / "python").exists():
        return "python"
    raise StudyArgumentError(
        f"target {str(folder)!r} is a folder without the source of numba-cuda or numba-cuda-mlir (there "
        "is no numba_cuda, src/numba_cuda_mlir or the like in it), and no virtual environment")


def _kind_of_file(file: Path) -> str:
    if file.suffix == ".whl":
        if framework_of(file.name):
            return "requirement"
        raise StudyArgumentError(f"target {str(file)!r} is a wheel of neither numba-cuda nor numba-cuda-mlir")
    if os.access(file, os.X_OK):
        return "python"
    raise StudyArgumentError(
        f"target {str(file)!r} is a file that cannot be executed: name a Python interpreter or a folder")


def _called(kind: str, value: str) -> str:
    """Return the default label of a target."""
    if kind in ("checkout", "python"):
        path = Path(value).expanduser().absolute()
        venv = path.parent.parent
        if path.is_file() and (venv / "pyvenv.cfg").exists():
            path = venv  # every virtual environment has an interpreter called python
        return path.resolve().name if path.is_dir() else path.name
    if kind == "requirement" and value.split("[")[0].endswith(".whl"):
        return "-".join(os.path.basename(value.split("[")[0]).split("-")[:2])
    if kind == "requirement":
        return re.sub(r"\[[^\]]*\]|\s+", "", value.partition(";")[0].partition("@")[0])[:_LONGEST_LABEL]
    return value[:_LONGEST_LABEL] or kind


def _spec(target: Target) -> str:
    if target.kind == "ref":
        return f"{_GIT}{target.value}" if target.repo in (None, ".") else f"{_GIT}{target.repo}@{target.value}"
    return target.value or target.kind
