"""Studies and anatomies as JSON: everything that is needed to check them, written whole or not at all.

A study is an object with ``format`` and ``version``; ``targets`` and ``cases`` as `kernelscope.studies.result` has
them; ``batches``, one list of whole numbers a column, in which ``target`` and ``case`` are places in those lists;
``host``, ``gpu`` and ``settings``; and ``found``, the estimates and differences, for programs that do not want to work
them out. An anatomy has a ``format`` and ``version`` of its own; ``study``, such an object; ``parts``, as
`kernelscope.studies.breakdown.PartReport` describes them; and ``times``, one list a column. What is read back is what
was measured: estimates and differences are worked out anew.

No text has paths of the machine, as in a saved recording: see `without_paths`. What is read may be hostile: it is
checked as it is read, and nothing in a file is code that reading runs.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import re
import stat
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import kernelscope
from kernelscope.errors import RecordingFileError, StudyFileError
from kernelscope.recording.redact import shareable_code, shareable_values
from kernelscope.studies.result import (
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

if TYPE_CHECKING:
    from kernelscope.studies.breakdown import MeasuredBreakdown

FORMAT, ANATOMY_FORMAT = "kernelscope-study", "kernelscope-anatomy"
VERSION, ANATOMY_VERSION = 2, 1
SUFFIX = ".json"
#: A study of six targets and forty cases has a fiftieth of this.
MAX_FILE_BYTES = 64 << 20
#: The beginning of a file, in which its format is.
_HEAD_BYTES = 4096
#: The parts of an anatomy: a launch has some ten, and one for each argument.
MOST_PARTS = 100_000


def _with_noise(content: dict[str, Any]) -> dict[str, Any]:
    """Return a file of version 1 with the columns ``waited_ns`` and ``reference_ns``, where 0 means not known."""
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
_ADVICE = "it may be damaged; save it again"
_COUNTS = (int, 0, _MAX_INT)
#: What the columns of batches hold, besides places, and from where to where; processes and rounds are counted, and a
#: table of as many is made.
_BATCHES = {**dict.fromkeys(BATCH, _COUNTS), "process": (int, 0, 100_000), "round": (int, 0, 1_000_000),
            "loops": (int, 1, _MAX_INT), "host_ns": (int, 1, _MAX_INT)}
#: The same of an anatomy's times. A stamp may come out longer than a part, not a second longer; a launch of an hour is
#: none.
_TIMES = {"target": _COUNTS, "case": _COUNTS, "process": (int, 0, 1_000_000), "round": (int, 0, 1_000_000),
          "part": (str, 0, 0), "part_ns": (float, -1e9, 3.6e12), "stamps_ns": (float, -1e9, 3.6e12)}

#: Rows of `Estimate` under ``estimates``, rows of `Difference` under ``differences``.
Found = Mapping[str, Sequence[Estimate | Difference]]

_Kind = TypeVar("_Kind")
_Check = Callable[[Any, str], Any]


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


def is_study(path: str | Path) -> bool:
    """Return whether a file begins as a study or an anatomy does; False where it cannot be read."""
    try:
        with open(Path(path).expanduser(), "rb", opener=_without_waiting) as file:
            head = file.read(_HEAD_BYTES)
    except (OSError, ValueError, RuntimeError):
        return False
    return re.search(rf'"format"\s*:\s*"(?:{FORMAT}|{ANATOMY_FORMAT})"'.encode(), head) is not None


def load(path: str | Path) -> Measured | MeasuredBreakdown:
    """Read a study or an anatomy from a JSON file, or refuse it.

    Raises
    ------
    StudyFileError
        There is no such file; it is no regular file, too large, torn, neither of the two, of another version, or
        contradicts itself. The message says what is wrong and where.
    """
    return read(path, from_json)


def load_study(path: str | Path) -> Measured:
    """Read a study from a JSON file, or refuse it; raises as `load` does, also for an anatomy."""
    found = load(path)
    if not isinstance(found, Measured):
        raise StudyFileError(f"{Path(path).name}: it is an anatomy and no study; 'kernelscope study show' shows it")
    return found


def read(path: str | Path, parse: Callable[[bytes], _Kind], most_bytes: int | None = None) -> _Kind:
    """Read a file with suspicion and return what `parse` makes of it; raises as `load` does."""
    most_bytes = MAX_FILE_BYTES if most_bytes is None else most_bytes
    shown = repr(str(path))
    try:
        source = Path(path).expanduser()
        shown = source.name or shown
        with open(source, "rb", opener=_without_waiting) as file:
            fields = os.fstat(file.fileno())
            if not stat.S_ISREG(fields.st_mode):
                raise StudyFileError(f"{shown} is no regular file")
            content = file.read(most_bytes + 1)
    except (OSError, ValueError, RuntimeError) as error:
        said = error.strerror if isinstance(error, OSError) and error.strerror else error
        if isinstance(error, FileNotFoundError):
            said = f"{said}{did_you_mean_file(Path(path).expanduser(), '.json')}"
        raise StudyFileError(f"cannot read {shown}: {said}") from error
    if len(content) > most_bytes:
        raise StudyFileError(f"{shown} has more than {most_bytes:,} bytes: no study is so large")
    try:
        return parse(content)
    except StudyFileError as error:
        raise StudyFileError(f"{shown}: {error}") from error.__cause__


def to_json(measured: Measured, found: Found | None = None) -> str:
    """Return a study as JSON, in ASCII."""
    measured = without_paths(measured)
    metadata = {each.name: getattr(measured, each.name) for each in dataclasses.fields(Measured)
                if each.name not in ("targets", "cases", "batches")}
    content: dict[str, Any] = {
        "format": FORMAT, "version": VERSION, "kernelscope": kernelscope.__version__, **metadata,
        "targets": [dataclasses.asdict(each) for each in measured.targets],
        "cases": [dataclasses.asdict(each) for each in measured.cases],
        "found": {name: [dataclasses.asdict(each) for each in rows] for name, rows in (found or {}).items()},
    }
    content = shareable_values(_plain(content), CODE)
    # A column a line: indented, a study would have a number a line, and in one line nothing could be found.
    batches = ",\n".join(f'  {json.dumps(name)}: {json.dumps(_plain(column), separators=(",", ":"))}'
                         for name, column in _columns_of(measured.batches, BATCH, measured).items())
    return f'{json.dumps(content, indent=1, allow_nan=False)[:-2]},\n "batches": {{\n{batches}\n }}\n}}\n'


def anatomy_to_json(breakdown: MeasuredBreakdown) -> str:
    """Return an anatomy as JSON, in ASCII."""
    columns = _columns_of(breakdown.times, _TIMES, breakdown.measured)
    for name in ("part_ns", "stamps_ns"):
        columns[name] = [round(value, 3) for value in columns[name]]
    content = {"format": ANATOMY_FORMAT, "version": ANATOMY_VERSION, "kernelscope": kernelscope.__version__,
               "parts": shareable_values([dataclasses.asdict(part) for part in breakdown.parts],
                                         ("target", "case", "key")),
               "times": columns, "study": json.loads(to_json(breakdown.measured))}
    # A key a line: with everything in one line, nothing could be found.
    lines = ",\n".join(f" {json.dumps(name)}: {json.dumps(value, separators=(',', ':'), allow_nan=False)}"
                       for name, value in content.items())
    return f"{{\n{lines}\n}}\n"


def _columns_of(rows: Sequence[tuple[Any, ...]], names: Mapping[str, Any], measured: Measured) -> dict[str, list[Any]]:
    """Return rows as columns, with places in the study's lists for its targets and cases."""
    places = {"target": {each.label: place for place, each in enumerate(measured.targets)},
              "case": {each.name: place for place, each in enumerate(measured.cases)}}
    columns = {name: [row[place] for row in rows] for place, name in enumerate(names)}
    return columns | {name: [known[value] for value in columns[name]] for name, known in places.items()}


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


def from_json(text: str | bytes) -> Measured | MeasuredBreakdown:
    """Return the study or the anatomy that JSON holds, or refuse it.

    Raises
    ------
    StudyFileError
        It is torn, neither of the two, of another version, or contradicts itself; the message says what is wrong and
        where.
    """
    content = _parsed(text)
    return _breakdown(content) if content["format"] == ANATOMY_FORMAT else _study(content)


def _parsed(text: str | bytes) -> dict[str, Any]:
    """Return the object that JSON holds, of one of the two formats, or raise `StudyFileError`."""
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
    if not isinstance(content, dict) or cast("dict[str, Any]", content).get("format") not in (FORMAT, ANATOMY_FORMAT):
        raise StudyFileError("it is JSON, but no study of KernelScope; 'kernelscope study launch -o FILE' writes one")
    return cast("dict[str, Any]", content)


def _version(content: dict[str, Any], newest: int) -> int:
    version = content.get("version")
    if type(version) is not int or version > _MAX_INT:
        raise StudyFileError("its 'version' is no whole number; it is no study of KernelScope")
    if version > newest:
        raise StudyFileError(f"it is of version {version}, and this KernelScope ({kernelscope.__version__}) reads "
                             f"version {newest}; update KernelScope")
    if version < 1:
        raise StudyFileError(f"it is of version {version}, which no KernelScope can read; measure again")
    return version


def _study(content: dict[str, Any]) -> Measured:
    for version in range(_version(content, VERSION), VERSION):
        content = UPGRADES[version](content)
    measured = _build(Measured, {**content, "batches": []}, _STUDY, "the study")
    measured.batches = cast("list[BatchRow]", _rows(content.get("batches"), "batches", _BATCHES, measured))
    return measured


def _breakdown(content: dict[str, Any]) -> MeasuredBreakdown:
    from kernelscope.studies.breakdown import MeasuredBreakdown, PartReport

    _version(content, ANATOMY_VERSION)
    measured = _study(_object(content.get("study"), "'study'"))
    places = {(target.label, case.name) for target in measured.targets for case in measured.cases}
    fields = _list(content.get("parts"), "'parts'")
    if len(fields) > MOST_PARTS:
        raise StudyFileError(f"'parts' has {len(fields):,} rows, which no launch has; {_ADVICE}")
    parts = [_build(PartReport, each, _PART, f"parts[{place}]") for place, each in enumerate(fields)]
    for place, part in enumerate(parts):
        if (part.target, part.case) not in places or not part.key:
            raise StudyFileError(f"'parts[{place}]' is of no target and case of its study; {_ADVICE}")
    return MeasuredBreakdown(measured, parts, _rows(content.get("times"), "times", _TIMES, measured))


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))
        raise ValueError(f"{twice[:60]!r} is there twice in one object")
    return content


def _rows(content: Any, where: str, limits: Mapping[str, tuple[type, float, float]], measured: Measured) -> list[Any]:
    """Return the rows of a table that is held in columns, whose values have a type and lie between two limits."""
    fields = _object(content, f"'{where}'")
    known = {"target": [each.label for each in measured.targets], "case": [each.name for each in measured.cases]}
    columns: list[list[Any]] = []
    for name, (kind, low, high) in limits.items():
        if name not in fields:
            raise StudyFileError(f"'{where}.{name}' is missing; {_ADVICE}")
        column = _list(fields[name], f"'{where}.{name}'")
        high = len(known[name]) - 1 if name in known else high
        types = (int, float) if kind is float else (kind,)
        for place, value in enumerate(column):
            if type(value) not in types or not (value if kind is str else low <= value <= high):
                expected = "a name" if kind is str else \
                    f"a {'whole ' * (kind is int)}number from {low:.16g} to {high:.16g}".replace("+", "")
                raise StudyFileError(f"'{where}.{name}' has {_shown(value)} at place {place}, and not {expected}; "
                                     f"{_ADVICE}")
        columns.append([known[name][place] for place in column] if name in known else
                       [float(value) for value in column] if kind is float else column)
    if len({len(column) for column in columns}) != 1:
        lengths = ", ".join(f"{name} {len(column)}" for name, column in zip(limits, columns, strict=True))
        raise StudyFileError(f"the columns of '{where}' have different lengths ({lengths}); {_ADVICE}")
    return list(zip(*columns, strict=True))


def _build(kind: type[_Kind], content: Any, checks: Mapping[str, _Check], where: str) -> _Kind:
    """Return an object of a dataclass from JSON: unknown fields are ignored, missing ones have their defaults."""
    fields = _object(content, where)
    prefix = "" if kind is Measured else f"{where}."
    values: dict[str, Any] = {}
    for each in dataclasses.fields(cast(Any, kind)):
        if each.name in fields:
            values[each.name] = checks[each.name](fields[each.name], f"{prefix}{each.name}")
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


def _is(kind: type | tuple[type, ...], expected: str) -> _Check:
    def check(content: Any, where: str) -> Any:
        # Python takes True for a whole number.
        if not isinstance(content, kind) or (isinstance(content, bool) and kind is not bool):
            raise StudyFileError(f"'{where}' is {_shown(content)}, and not {expected}; {_ADVICE}")
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


def _any_json(content: Any, where: str, depth: int = 0) -> Any:
    """Return any JSON value, checked for size and depth."""
    if depth > _MAX_DEPTH:
        raise StudyFileError(f"'{where}' is nested too deeply; {_ADVICE}")
    if isinstance(content, dict):
        fields = cast("dict[str, Any]", content)
        return {name: _any_json(value, f"{where}.{name[:60]}", depth + 1) for name, value in fields.items()}
    if isinstance(content, list):
        fields = cast("list[Any]", content)
        return [_any_json(value, f"{where}[{place}]", depth + 1) for place, value in enumerate(fields)]
    too_large = isinstance(content, int) and abs(content) > _MAX_INT
    if too_large or (isinstance(content, float) and not math.isfinite(content)):
        raise StudyFileError(f"'{where}' is {_shown(content)}, which is too large; {_ADVICE}")
    return content


def _json_object(content: Any, where: str) -> dict[str, Any]:
    return _any_json(_object(content, f"'{where}'"), where)


def _distinct(kind: type[Any], checks: Mapping[str, _Check], name: str) -> _Check:
    """Return a list of objects of a dataclass, which must have different values of `name`."""
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
    """Return a value for JSON: numbers that are not finite become null, unknown types become text."""
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
_PART: dict[str, _Check] = {
    **dict.fromkeys(("target", "case", "key", "begin", "end", "note"), _text), "reason": _or_none(_text),
}
_STUDY: dict[str, _Check] = {
    "targets": _distinct(TargetReport, _TARGET, "label"), "cases": _distinct(CaseReport, _CASE, "name"),
    "batches": _list, "host": _json_object, "gpu": _json_object, "settings": _json_object, "created": _text,
    "seconds": _seconds, "ended": _text, "is_dry_run": _flag, "is_live": _flag, "notes": _each(_text),
}
