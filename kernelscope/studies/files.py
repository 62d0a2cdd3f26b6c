"""Studies as JSON: everything that is needed to check them, written whole or not at all, and read with suspicion.

An object with ``format`` and ``version``; ``targets`` and ``cases`` as `kernelscope.studies.measured` describes them;
``batches``, one list of whole numbers a column, in which ``target`` and ``case`` are places in those lists; ``host``,
``gpu`` and ``settings``; and ``found``, the estimates and differences, for programs that do not want to work them out.
What is read back is what was measured: estimates and differences are worked out anew from the batches.

No text has paths of the machine, as in a saved recording: see `without_paths`. Nothing in a file is code that reading
runs.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import stat
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

import kernelscope
from kernelscope.errors import RecordingFileError, StudyFileError
from kernelscope.recording.redact import shareable_code, shareable_values
from kernelscope.studies.measured import (
    BATCH,
    BatchRow,
    CaseReport,
    Difference,
    Estimate,
    Measured,
    TargetReport,
)
from kernelscope.suggestions import did_you_mean_file
from kernelscope.views.base import whole_file

FORMAT = "kernelscope-study"
VERSION = 2
SUFFIX = ".json"
#: A study of six targets and forty cases has a fiftieth of this.
MAX_FILE_BYTES = 64 << 20


def _with_noise(content: dict[str, Any]) -> dict[str, Any]:
    """Version 1 tells neither what was taken off the batches nor how fast the core was: 0 stands for not known."""
    batches: Any = content.get("batches")
    if isinstance(batches, dict) and isinstance(batches.get("host_ns"), list):  # else it is refused later
        unknown = [0] * len(batches["host_ns"])
        batches = {**batches, "waited_ns": unknown, "reference_ns": unknown}
    return {**content, "batches": batches}


#: What brings the content of an older version to the next one, by the older version. 1 is the first that was written.
UPGRADES: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {1: _with_noise}

_SOURCE = ("statement", "setup", "before", "after")
#: What is code, which keeps a path that its author typed, and what names things, which must stay the same everywhere.
CODE = (*_SOURCE, "label", "target", "baseline", "name", "case", "against")

_MAX_INT = 2**63 - 1
_MAX_DEPTH = 20
#: The least that a column may hold; 0 where it is not named.
_LEAST = {"loops": 1, "host_ns": 1}
#: The most; processes and rounds are counted, and a table of as many is made.
_MOST = {"process": 100_000, "round": 1_000_000}
_ADVICE = "it may be damaged; save the study again"

#: Rows of `Estimate` under ``estimates``, rows of `Difference` under ``differences``.
Found = Mapping[str, Sequence[Estimate | Difference]]

_Kind = TypeVar("_Kind")
_Check = Callable[[Any, str], Any]


def save(measured: Measured, path: str | Path, found: Found | None = None) -> Path:
    """Write a study to a JSON file and return its path; a file that was there is replaced.

    Parameters
    ----------
    measured : Measured
        What to write.
    path : str or Path
        Where to. ``~`` is the home folder, and ``.json`` is added to a name without a suffix.
    found : mapping, optional
        The estimates and differences, for readers that are not KernelScope.

    Raises
    ------
    StudyFileError
        It cannot be written there. Nothing is left behind then.
    """
    return write(path, to_json(measured, found).encode("ascii"), SUFFIX)


def write(path: str | Path, content: bytes, suffix: str) -> Path:
    """Write a file, whole or not at all, and return its path; a name without a suffix gets this one.

    Raises
    ------
    StudyFileError
        It cannot be written there. Nothing is left behind then.
    """
    target = Path(path)
    if not target.suffix and target.name:
        target = target.with_name(target.name + suffix)
    try:
        with whole_file(target) as file:
            file.write(content)
    except RecordingFileError as error:
        raise StudyFileError(str(error)) from error.__cause__
    return target.expanduser()


def load(path: str | Path) -> Measured:
    """Read a study from a JSON file, or refuse it.

    Raises
    ------
    StudyFileError
        There is no such file; it is no regular file, too large, torn, no study, of another version, or contradicts
        itself. The message says what is wrong and where.
    """
    return read(path, from_json)


def read(path: str | Path, parse: Callable[[bytes], _Kind]) -> _Kind:
    """Read a file with suspicion and return what `parse` makes of it; raises as `load` does."""
    shown = repr(str(path))
    try:
        source = Path(path).expanduser()
        shown = source.name or shown
        with open(source, "rb", opener=_without_waiting) as file:
            held = os.fstat(file.fileno())
            if not stat.S_ISREG(held.st_mode):
                raise StudyFileError(f"{shown} is no regular file")
            content = file.read(MAX_FILE_BYTES + 1)
    except (OSError, ValueError, RuntimeError) as error:
        said = error.strerror if isinstance(error, OSError) and error.strerror else error
        if isinstance(error, FileNotFoundError):
            said = f"{said}{did_you_mean_file(Path(path).expanduser(), '.json')}"
        raise StudyFileError(f"cannot read {shown}: {said}") from error
    if len(content) > MAX_FILE_BYTES:
        raise StudyFileError(f"{shown} has more than {MAX_FILE_BYTES:,} bytes: no study is so large")
    try:
        return parse(content)
    except StudyFileError as error:
        raise StudyFileError(f"{shown}: {error}") from error.__cause__


def to_json(measured: Measured, found: Found | None = None) -> str:
    """Return a study as JSON, in ASCII."""
    measured = without_paths(measured)
    targets = {each.label: place for place, each in enumerate(measured.targets)}
    cases = {each.name: place for place, each in enumerate(measured.cases)}
    columns: dict[str, list[Any]] = {
        name: [row[place] for row in measured.batches] for place, name in enumerate(BATCH)}
    columns["target"] = [targets[label] for label in columns["target"]]
    columns["case"] = [cases[name] for name in columns["case"]]
    facts = {each.name: getattr(measured, each.name) for each in dataclasses.fields(Measured)
             if each.name not in ("targets", "cases", "batches")}
    content: dict[str, Any] = {
        "format": FORMAT, "version": VERSION, "kernelscope": kernelscope.__version__, **facts,
        "targets": [dataclasses.asdict(each) for each in measured.targets],
        "cases": [dataclasses.asdict(each) for each in measured.cases],
        "found": {name: [dataclasses.asdict(each) for each in rows] for name, rows in (found or {}).items()},
    }
    content = shareable_values(_plain(content), CODE)
    # A column a line: indented, a study would have a number a line, and in one line nothing could be found.
    batches = ",\n".join(f'  {json.dumps(name)}: {json.dumps(_plain(column), separators=(",", ":"))}'
                         for name, column in columns.items())
    return f'{json.dumps(content, indent=1, allow_nan=False)[:-2]},\n "batches": {{\n{batches}\n }}\n}}\n'


def as_json(content: dict[str, Any]) -> str:
    """Return plain data as JSON, in ASCII: without paths of this machine, and null where a number is not finite."""
    return f"{json.dumps(shareable_values(_plain(content), CODE), indent=1, allow_nan=False)}\n"


def without_paths(measured: Measured) -> Measured:
    """Return a study without paths of this machine: what is shown, saved and written as a page is made of that.

    Labels of targets and names of cases are the user's, and stay: batches are of them.
    """
    def cut(row: Any, *names: str) -> dict[str, Any]:
        return {name: shareable_values(getattr(row, name)) for name in names}

    return dataclasses.replace(
        measured,
        targets=[dataclasses.replace(each, **cut(each, "source", "versions", "revision", "unavailable", "error",
                                                 "warnings")) for each in measured.targets],
        cases=[dataclasses.replace(each, **{name: shareable_code("source", getattr(each, name)) for name in _SOURCE})
               for each in measured.cases],
        **cut(measured, "host", "gpu", "settings", "ended", "notes"))


def from_json(text: str | bytes) -> Measured:
    """Return the study that JSON holds, or refuse it.

    Raises
    ------
    StudyFileError
        It is torn, no study, of another version, or contradicts itself; the message says what is wrong and where.
    """
    content = parsed(text)
    version = content.get("version")
    if type(version) is not int or version > _MAX_INT:
        raise StudyFileError("its 'version' is no whole number; it is no study of KernelScope")
    if version > VERSION:
        raise StudyFileError(f"it is of version {version}, and this KernelScope ({kernelscope.__version__}) reads "
                             f"version {VERSION}; update KernelScope")
    while version < VERSION:
        if version not in UPGRADES:
            raise StudyFileError(f"it is of version {version}, which no KernelScope can read; measure again")
        content = UPGRADES[version](content)
        version += 1
    measured = _build(Measured, {**content, "batches": []}, _STUDY, "the study")
    measured.batches = _batches(content.get("batches"), measured)
    return measured


def parsed(text: str | bytes, kind: str = FORMAT, what: str = "study", verb: str = "launch") -> dict[str, Any]:
    """Return the object that JSON holds, of a format that is told by its name, or raise `StudyFileError`."""
    try:
        content = json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_without_duplicates)
    except json.JSONDecodeError as error:
        raise StudyFileError(f"it is no JSON, or it is cut off: {error.msg} at line {error.lineno}, column "
                             f"{error.colno}") from None
    except UnicodeDecodeError as error:
        if text[:2] == b"PK":
            raise StudyFileError("it is a zip and no study; 'kernelscope show FILE.kscope' shows a recording") from None
        raise StudyFileError(f"it is no text: byte {error.start} is not UTF-8") from None
    except (ValueError, RecursionError) as error:
        raise StudyFileError(f"its JSON is refused: {str(error) or 'it is nested too deeply'}") from None
    if not isinstance(content, dict) or cast("dict[str, Any]", content).get("format") != kind:
        raise StudyFileError(f"it is JSON, but no {what} of KernelScope; 'kernelscope study {verb} -o FILE' writes one")
    return cast("dict[str, Any]", content)


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))
        raise ValueError(f"{twice[:60]!r} is there twice in one object")
    return content


def _batches(content: Any, measured: Measured) -> list[BatchRow]:
    held = _object(content, "'batches'")
    columns: list[list[Any]] = []
    most = {**_MOST, "target": len(measured.targets) - 1, "case": len(measured.cases) - 1}
    for name in BATCH:
        where = f"'batches.{name}'"
        if name not in held:
            raise StudyFileError(f"{where} is missing; {_ADVICE}")
        column = _list(held[name], where)
        low, high = _LEAST.get(name, 0), most.get(name, _MAX_INT)
        for place, value in enumerate(column):
            if type(value) is not int or not low <= value <= high:
                raise StudyFileError(f"{where} has {_shown(value)} at place {place}, and not a whole number from {low} "
                                     f"to {high}; {_ADVICE}")
        columns.append(column)
    if len({len(column) for column in columns}) != 1:
        lengths = ", ".join(f"{name} {len(column)}" for name, column in zip(BATCH, columns, strict=True))
        raise StudyFileError(f"the columns of 'batches' have different lengths ({lengths}); {_ADVICE}")
    labels, names = [each.label for each in measured.targets], [each.name for each in measured.cases]
    columns[0] = [labels[place] for place in columns[0]]
    columns[1] = [names[place] for place in columns[1]]
    return list(cast("zip[BatchRow]", zip(*columns, strict=True)))


def _build(kind: type[_Kind], content: Any, checks: Mapping[str, _Check], where: str) -> _Kind:
    """An object of a dataclass from JSON: what it does not know is left out, what may be missing has its default."""
    held = _object(content, where)
    prefix = "" if kind is Measured else f"{where}."
    values: dict[str, Any] = {}
    for each in dataclasses.fields(cast(Any, kind)):
        if each.name in held:
            values[each.name] = checks[each.name](held[each.name], f"{prefix}{each.name}")
        elif each.default is dataclasses.MISSING and each.default_factory is dataclasses.MISSING:
            raise StudyFileError(f"'{prefix}{each.name}' is missing; {_ADVICE}")
    return kind(**values)


def _object(content: Any, where: str) -> dict[str, Any]:
    if not isinstance(content, dict):
        raise StudyFileError(f"{where} is {_shown(content)}, and not an object; {_ADVICE}")
    return cast("dict[str, Any]", content)


def _list(content: Any, where: str) -> list[Any]:
    if not isinstance(content, list):
        raise StudyFileError(f"{where} is {_shown(content)}, and not a list; {_ADVICE}")
    return cast("list[Any]", content)


def _is(kind: type | tuple[type, ...], words: str) -> _Check:
    def check(content: Any, where: str) -> Any:
        # Python takes True for a whole number.
        if not isinstance(content, kind) or (isinstance(content, bool) and kind is not bool):
            raise StudyFileError(f"'{where}' is {_shown(content)}, and not {words}; {_ADVICE}")
        return content

    return check


def _text(content: Any, where: str) -> str:
    # Half of a surrogate pair, which a table cannot hold, becomes the escape that it was.
    return _any_text(content, where).encode("utf-8", "backslashreplace").decode()


def _count(content: Any, where: str) -> int:
    if type(content) is not int or not 0 <= content <= _MAX_INT:
        raise StudyFileError(f"'{where}' is {_shown(content)}, and not a count; {_ADVICE}")
    return content


def _seconds(content: Any, where: str) -> float:
    if type(content) not in (int, float) or not 0 <= content <= 1e12:
        raise StudyFileError(f"'{where}' is {_shown(content)}, and not a number of seconds; {_ADVICE}")
    return content


def _or_none(check: _Check) -> _Check:
    return lambda content, where: None if content is None else check(content, where)


def _each(check: _Check) -> _Check:
    return lambda content, where: [check(each, f"{where}[{place}]") for place, each in enumerate(_list(content, where))]


def _texts(content: Any, where: str) -> dict[str, str]:
    return {name: _text(value, f"{where}.{name[:60]}") for name, value in _object(content, where).items()}


def _facts(content: Any, where: str, depth: int = 0) -> Any:
    """Whatever JSON holds, in the bounds of what a table can show."""
    if depth > _MAX_DEPTH:
        raise StudyFileError(f"'{where}' is nested too deeply; {_ADVICE}")
    if isinstance(content, dict):
        held = cast("dict[str, Any]", content)
        return {name: _facts(value, f"{where}.{name[:60]}", depth + 1) for name, value in held.items()}
    if isinstance(content, list):
        held = cast("list[Any]", content)
        return [_facts(value, f"{where}[{place}]", depth + 1) for place, value in enumerate(held)]
    too_large = isinstance(content, int) and abs(content) > _MAX_INT
    if too_large or (isinstance(content, float) and not math.isfinite(content)):
        raise StudyFileError(f"'{where}' is {_shown(content)}, which is too large; {_ADVICE}")
    return content


def _facts_object(content: Any, where: str) -> dict[str, Any]:
    return _facts(_object(content, f"'{where}'"), where)


def _distinct(kind: type[Any], checks: Mapping[str, _Check], name: str) -> _Check:
    """A list of objects of a dataclass, which are told apart by `name`."""
    def check(content: Any, where: str) -> list[Any]:
        built = [_build(kind, each, checks, f"{where}[{place}]") for place, each in enumerate(_list(content, where))]
        seen: set[str] = set()
        for place, each in enumerate(built):
            said = getattr(each, name)
            if said in seen:
                raise StudyFileError(f"'{where}[{place}].{name}' is {_shown(said)}, as another one's; {_ADVICE}")
            seen.add(said)
        return built

    return check


def _plain(value: Any) -> Any:
    """A value as JSON can hold it: what is no finite number becomes null, what JSON does not know becomes text."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(each) for each in cast("list[Any]", value)]
    # NumPy's scalars and arrays.
    return _plain(value.tolist()) if hasattr(value, "tolist") else str(value)


def _shown(value: Any) -> str:
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    try:
        said = repr(value)
    except ValueError:  # a whole number of thousands of digits
        return "a number that is too large"
    return said if len(said) <= 60 else f"{said[:60]}..."


def _without_waiting(path: str, flags: int) -> int:
    # Opening a named pipe would wait for its writer.
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


_any_text = _is(str, "text")
_flag = _is(bool, "true or false")
_TARGET: dict[str, _Check] = {
    "label": _text, "kind": _text, "source": _text, "framework": _text, "versions": _texts, "revision": _or_none(_text),
    "unavailable": _texts, "error": _or_none(_text), "warnings": _each(_text), "processes": _count,
}
_CASE: dict[str, _Check] = {
    "name": _text, "statement": _text, "setup": _text, "args": _or_none(_count), "group": _text,
    "against": _or_none(_text), "before": _text, "after": _text,
}
_STUDY: dict[str, _Check] = {
    "targets": _distinct(TargetReport, _TARGET, "label"), "cases": _distinct(CaseReport, _CASE, "name"),
    "batches": _list, "host": _facts_object, "gpu": _facts_object, "settings": _facts_object, "created": _text,
    "seconds": _seconds, "ended": _text, "is_dry_run": _flag, "is_live": _flag, "notes": _each(_text),
}
