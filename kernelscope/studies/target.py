"""Where it is measured: a target is a label and what brings one version of numba-cuda or numba-cuda-mlir."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from kernelscope.errors import StudyArgumentError
from kernelscope.renderers.base import shorten
from kernelscope.studies.arguments import shown
from kernelscope.studies.checkouts import FRAMEWORKS, find_package
from kernelscope.suggestions import did_you_mean, nearest

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
    """A label, and one of: this environment, a checkout, a git ref, a requirement, an interpreter.

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
    """The kind, the value, and the repository of what a target's text says."""
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
    """Split ``FOLDER@REF`` where FOLDER exists, as a ref may have an ``@`` of its own; or it is a ref of `repo`."""
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
    """What to call a target that has no label."""
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
