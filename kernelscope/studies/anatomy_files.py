"""Anatomies as JSON: a study of the launches without stamps, the parts of a launch, and what each took.

An object with ``format`` and ``version``; ``study``, an object as `kernelscope.studies.files` writes it; ``parts``, as
`PartReport` describes them; and ``times``, one list a column, in which ``target`` and ``case`` are places in the
study's lists. What is read back is what was measured: estimates and differences are worked out anew.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import kernelscope
from kernelscope.errors import StudyFileError
from kernelscope.recording.privacy import shareable_values
from kernelscope.studies import files
from kernelscope.studies.anatomy_parts import LAUNCH, TIME, Dissected, PartReport
from kernelscope.studies.measured import Measured

FORMAT = "kernelscope-anatomy"
VERSION = 1

#: A launch has some ten parts and an argument each; more than this is no launch.
MOST_PARTS = 100_000
# What names things, and is the same everywhere.
_NAMES = ("target", "case", "key")
_ADVICE = "it may be damaged; save the anatomy again"
# A launch of an hour is none.
_MOST_NS = 3.6e12


def to_json(dissected: Dissected) -> str:
    """Return an anatomy as JSON, in ASCII."""
    study = json.loads(files.to_json(dissected.measured))
    labels = {each.label: place for place, each in enumerate(dissected.measured.targets)}
    names = {each.name: place for place, each in enumerate(dissected.measured.cases)}
    columns: dict[str, list[Any]] = {
        name: [row[place] for row in dissected.times] for place, name in enumerate(TIME)}
    columns["target"] = [labels[label] for label in columns["target"]]
    columns["case"] = [names[name] for name in columns["case"]]
    for name in ("part_ns", "stamps_ns"):
        columns[name] = [round(value, 3) for value in columns[name]]
    content = {"format": FORMAT, "version": VERSION, "kernelscope": kernelscope.__version__,
               "parts": shareable_values([dataclasses.asdict(part) for part in dissected.parts], _NAMES),
               "times": columns, "study": study}
    # A key a line: with everything in one line, nothing could be found.
    lines = ",\n".join(f" {json.dumps(name)}: {json.dumps(value, separators=(',', ':'), allow_nan=False)}"
                       for name, value in content.items())
    return f"{{\n{lines}\n}}\n"


def without_paths(dissected: Dissected) -> Dissected:
    """Return an anatomy without paths of this machine: see `kernelscope.studies.files.without_paths`."""
    parts = [dataclasses.replace(part, note=shareable_values(part.note), reason=shareable_values(part.reason))
             for part in dissected.parts]
    return Dissected(files.without_paths(dissected.measured), parts, dissected.times)


def is_anatomy(path: str | Path) -> bool:
    """Whether a file says that it is an anatomy; `load` finds out whether it is right."""
    try:
        return files.read(path, lambda content: f'"format": "{FORMAT}"'.encode() in content[:1000])
    except StudyFileError:
        return False


def load(path: str | Path) -> Dissected:
    """Read an anatomy from a JSON file, or refuse it.

    Raises
    ------
    StudyFileError
        There is no such file; it is torn, no anatomy, of another version, or contradicts itself.
    """
    return files.read(path, from_json)


def from_json(text: str | bytes) -> Dissected:
    """Return the anatomy that JSON holds, or refuse it.

    Raises
    ------
    StudyFileError
        It is torn, no anatomy, of another version, or contradicts itself; the message says what is wrong and where.
    """
    content = files.parsed(text, FORMAT, "anatomy", "anatomy")
    version = content.get("version")
    if version != VERSION or type(version) is not int:
        shown = version if type(version) is int and abs(version) < 10**9 else "an unknown version"
        raise StudyFileError(f"it is of version {shown}, and this KernelScope ({kernelscope.__version__}) reads "
                             f"version {VERSION}; update KernelScope, or measure again")
    measured = files.from_json(json.dumps(content.get("study")))
    return Dissected(measured, _parts(content.get("parts"), measured), _times(content.get("times"), measured))


def _parts(content: Any, measured: Measured) -> list[PartReport]:
    parts: list[PartReport] = []
    labels, names = {each.label for each in measured.targets}, {each.name for each in measured.cases}
    for place, each in enumerate(_list(content, "'parts'")):
        where = f"'parts[{place}]'"
        if not isinstance(each, dict):
            raise StudyFileError(f"{where} is no object; {_ADVICE}")
        held = cast("dict[str, Any]", each)
        values: dict[str, Any] = {}
        for field in dataclasses.fields(PartReport):
            value = held.get(field.name, "" if field.default is dataclasses.MISSING else field.default)
            if not isinstance(value, str) and not (field.name == "reason" and value is None):
                raise StudyFileError(f"{where} has a {field.name} that is no text; {_ADVICE}")
            values[field.name] = value
        part = PartReport(**values)
        if part.target not in labels or part.case not in names or not part.key:
            raise StudyFileError(f"{where} is of no target and case of its study; {_ADVICE}")
        parts.append(part)
    if len(parts) > MOST_PARTS:
        raise StudyFileError(f"'parts' has {len(parts):,} rows, which no launch has; {_ADVICE}")
    return parts


def _times(content: Any, measured: Measured) -> list[tuple[str, str, int, int, str, float, float]]:
    if not isinstance(content, dict):
        raise StudyFileError(f"'times' is no object; {_ADVICE}")
    held = cast("dict[str, Any]", content)
    columns = [_column(name, kind, held.get(name), measured) for name, kind in TIME.items()]
    if len({len(column) for column in columns}) != 1:
        raise StudyFileError(f"the columns of 'times' have different lengths; {_ADVICE}")
    return list(cast("zip[tuple[str, str, int, int, str, float, float]]", zip(*columns, strict=True)))


def _column(name: str, kind: str, content: Any, measured: Measured) -> Sequence[Any]:
    where = f"'times.{name}'"
    column = _list(content, where)
    if name in ("target", "case"):
        labels, names = [each.label for each in measured.targets], [each.name for each in measured.cases]
        known = labels if name == "target" else names
        if any(type(value) is not int or not 0 <= value < len(known) for value in column):
            raise StudyFileError(f"{where} has a value that is no place in the study's list; {_ADVICE}")
        return [known[value] for value in column]
    if kind == "str":
        if not all(isinstance(value, str) and value for value in column):
            raise StudyFileError(f"{where} has a value that is no name, such as {LAUNCH!r}; {_ADVICE}")
        return column
    if kind == "int64":
        if any(type(value) is not int or not 0 <= value <= 1_000_000 for value in column):
            raise StudyFileError(f"{where} has a value that is no count; {_ADVICE}")
        return column
    # A stamp may come out dearer than a part; not a second dearer.
    if any(type(value) not in (int, float) or not math.isfinite(value) or not -1e9 <= value <= _MOST_NS
           for value in column):
        raise StudyFileError(f"{where} has a value that is no time of a launch; {_ADVICE}")
    return [float(value) for value in column]


def _list(content: Any, where: str) -> list[Any]:
    if not isinstance(content, list):
        raise StudyFileError(f"{where} is no list; {_ADVICE}")
    return cast("list[Any]", content)
