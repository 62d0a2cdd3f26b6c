"""A recording's code of kernels: which forms it holds, and the source line that each line of a form came from."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, cast

from kernelscope.analysis.columns import ints
from kernelscope.recording.model import Recording
from kernelscope.schema import UNKNOWN

#: Forms of a specialization's code that a recording can hold, from the source down, and what messages call each.
CODE_KINDS = {"source": "source", "types": "inferred types", "mlir": "MLIR", "llvm": "LLVM IR", "ptx": "PTX",
              "sass": "SASS", "cubin": "machine code"}


class CodeRows:
    """The rows of the table ``code`` by what they are of; their texts are read one at a time."""

    def __init__(self, recording: Recording) -> None:
        self._table = recording.arrow("code")
        self._rows: dict[tuple[int, int], dict[str, int]] = {}
        kinds: list[str] = self._table.column("kind").to_pylist()
        owners, members = ints(recording, "code", "dispatcher_id"), ints(recording, "code", "specialization_id")
        for at, (owner, member, kind) in enumerate(zip(owners.tolist(), members.tolist(), kinds, strict=True)):
            self._rows.setdefault((owner, member), {})[kind] = at

    def kinds(self, dispatcher_id: int, specialization_id: int) -> tuple[str, ...]:
        """Return which of `CODE_KINDS` there are of a specialization, those of its function included."""
        held = self._held(dispatcher_id, specialization_id)
        return tuple(kind for kind in CODE_KINDS if kind in held)

    def row(self, dispatcher_id: int, specialization_id: int, kind: str) -> dict[str, Any] | None:
        """Return the row with one form of the code, or None where there is none."""
        at = self._held(dispatcher_id, specialization_id).get(kind)
        return None if at is None else self._table.slice(at, 1).to_pylist()[0]

    def _held(self, dispatcher_id: int, specialization_id: int) -> dict[str, int]:
        of_function = self._rows.get((dispatcher_id, UNKNOWN), {})
        return of_function | self._rows.get((dispatcher_id, specialization_id), {})


def code_text(recording: Recording, specialization_id: int, kind: str) -> str | None:
    """Return one form of a specialization's code as it was recorded, or None where the recording does not hold it.

    Parameters
    ----------
    recording : Recording
        Where it may be.
    specialization_id : int
        A row of ``specializations``.
    kind : str
        One of `CODE_KINDS`.
    """
    owner = int(ints(recording, "specializations", "dispatcher_id")[specialization_id])
    row = CodeRows(recording).row(owner, specialization_id, kind)
    return None if row is None else str(row["text"])


# Which source line each line of a kernel's code was made from, where the code has line information.
#
# PTX says it in ``.loc`` directives, SASS in the ``//## File`` comments of ``nvdisasm -g``, LLVM in ``!dbg``
# metadata, MLIR in the ``loc`` behind each operation, and the inferred types have it beside each of them. Only
# instructions have a line: labels, declarations and the directives themselves have none. Code of other functions
# that was inlined counts as of the line of the kernel that called them.

#: File (an index into `LineMap.files`, -1 for none) and line number (0 for none).
_Place = tuple[int, int]
_NOWHERE: _Place = (-1, 0)
#: Calls inlined into each other deeper than this are cut: a circle of them, which only a made-up file has.
_DEEPEST = 100

_PTX_FILE = re.compile(r'\s*\.file\s+(\d+)\s+"([^"]*)"')
_PTX_LOC = re.compile(r"\s*\.loc\s+(\d+)\s+(\d+)\s+(\d+)(?:.*\binlined_at\s+(\d+)\s+(\d+)\s+(\d+))?")
_SASS_FILE = re.compile(r'\s*//## File "([^"]*)", line (\d+)(?: inlined at "([^"]*)", line (\d+))?')
_SASS_INSTRUCTION = re.compile(r"\s*(?:\{\s*)?/\*[0-9a-f]{4,}\*/\s+\S")
_MLIR_PARTING = "// -----"
_MLIR_ALIAS = re.compile(r"(#loc\d*) = loc\((.*)\)\s*$")
_MLIR_LOC = re.compile(r"\bloc\((#loc\d*|\"[^\"]*\":\d+:\d+)\)\s*(?:\{\s*)?$")
_MLIR_NAME = re.compile(r"#loc\d*")
_MLIR_PLACE = re.compile(r'"([^"]*)":(\d+):\d+')
_MLIR_SITE = re.compile(r"callsite\((.*) at (.*)\)$")
_LLVM_DBG = re.compile(r"!dbg !(\d+)")
_LLVM_NODE = re.compile(r"!(\d+) = (?:distinct )?!(DILocation|DISubprogram|DILexicalBlock\w*|DIFile)\((.*)\)")
_LLVM_FIELD = re.compile(r'\b(line|scope|file|inlinedAt|directory|filename): (?:!?(\d+)|"([^"]*)")')


@dataclass(frozen=True)
class LineMap:
    """The source lines of a code text.

    Attributes
    ----------
    files : tuple of str
        The source files that it names, as it names them.
    file, line : list of int
        For each line of the code text the file (an index into `files`, -1 for none) and the line in it (0 for none);
        of inlined code, the line of the kernel that called it. For types there is one for each entry, and the file is
        the kernel's own: -1.
    """

    files: tuple[str, ...]
    file: list[int]
    line: list[int]

    @property
    def is_empty(self) -> bool:
        """Return whether no line is known, as in code without line information."""
        return not any(self.line)


def line_map(kind: str, text: str) -> LineMap:
    """Return the source line of each line of a code text.

    Parameters
    ----------
    kind : str
        ``ptx``, ``sass``, ``llvm``, ``mlir`` or ``types``; every other kind has no lines.
    text : str
        The text, as a recording's table ``code`` has it.
    """
    files = _Files()
    places = list(_READERS.get(kind, _nothing)(text, files))
    return LineMap(tuple(files.numbers), [file for file, _ in places], [line for _, line in places])


class _Files:
    """Numbers files in order of appearance."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def place(self, name: str | None, line: int) -> _Place:
        return _NOWHERE if name is None or line <= 0 else (self.numbers.setdefault(name, len(self.numbers)), line)


def _ptx(text: str, files: _Files) -> Iterator[_Place]:
    lines = text.split("\n")
    # Files are declared after the functions that name them.
    declared = {int(found[1]): found[2] for found in map(_PTX_FILE.match, lines) if found}
    callers: dict[tuple[int, ...], tuple[int, ...]] = {}
    now = _NOWHERE
    depth = 0
    for line in lines:
        found = _PTX_LOC.match(line)
        if found:
            here = tuple(int(part) for part in found.groups()[:3])
            if found[4] is not None:
                callers[here] = tuple(int(part) for part in found.groups()[3:])
            else:
                callers.pop(here, None)
            outer = _outermost(here, callers.get)
            now = files.place(declared.get(outer[0]), outer[1])
            yield _NOWHERE
            continue
        stripped = line.partition("//")[0].strip()
        inside = depth > 0
        # A call's arguments and inline assembly have braces of their own, inside the function's.
        depth = max(0, depth + stripped.count("{") - stripped.count("}"))
        if not depth:
            now = _NOWHERE
        is_instruction = inside and stripped.strip("{}") and stripped[0] != "." and stripped[-1] != ":"
        yield now if is_instruction else _NOWHERE


def _sass(text: str, files: _Files) -> Iterator[_Place]:
    now = _NOWHERE
    for line in text.split("\n"):
        if line.startswith((".text.", "//-----", "\t.section")):
            now = _NOWHERE
        found = _SASS_FILE.match(line)
        if found:
            # What was inlined is followed by the lines of its callers, one after the other: the last one counts.
            file, number = (found[1], found[2]) if found[3] is None else (found[3], found[4])
            now = files.place(file, int(number))
        yield now if _SASS_INSTRUCTION.match(line) else _NOWHERE


def _llvm(text: str, files: _Files) -> Iterator[_Place]:
    lines = text.split("\n")
    # Several modules one after the other, each with separate numbers for its metadata, which comes at its end.
    nodes: list[dict[int, dict[str, Any]]] = [{}]
    module_of: list[int] = []
    for line in lines:
        if line.startswith("; ModuleID"):
            nodes.append({})
        module_of.append(len(nodes) - 1)
        found = _LLVM_NODE.match(line) if line.startswith("!") else None
        if found:
            fields = _LLVM_FIELD.findall(found[3])
            nodes[-1][int(found[1])] = {name: int(number) if number else text for name, number, text in fields}
    known: dict[tuple[int, int], _Place] = {}
    for module, line in zip(module_of, lines, strict=True):
        found = None if line.startswith(("!", "define", "declare")) else _LLVM_DBG.search(line)
        if found is None:
            yield _NOWHERE
            continue
        key = module, int(found[1])
        if key not in known:
            held = nodes[module]

            def caller(node: int, held: dict[int, dict[str, Any]] = held) -> int | None:
                return held.get(node, {}).get("inlinedAt")

            known[key] = _llvm_place(_outermost(key[1], caller), held, files)
        yield known[key]


def _llvm_place(location: int, nodes: dict[int, dict[str, Any]], files: _Files) -> _Place:
    node: Any = nodes.get(location, {})
    line, file = node.get("line", 0), None
    for _ in range(_DEEPEST):
        if "file" in node or "scope" not in node:
            file = nodes.get(node.get("file"))
            break
        node = nodes.get(node["scope"], {})
    if not file or not isinstance(file.get("filename"), str) or not isinstance(line, int):
        return _NOWHERE
    folder, name = file.get("directory"), file["filename"]
    return files.place(f"{folder}/{name}" if folder and not name.startswith("/") else name, line)


def _mlir(text: str, files: _Files) -> Iterator[_Place]:
    lines = text.split("\n")
    # Several modules one after the other, each with separate aliases, before it and after it.
    aliases: list[dict[str, str]] = [{}]
    module_of: list[int] = []
    for line in lines:
        if line.startswith(_MLIR_PARTING):
            aliases.append({})
        module_of.append(len(aliases) - 1)
        found = _MLIR_ALIAS.match(line)
        if found:
            aliases[-1][found[1]] = found[2]
    known: dict[tuple[int, str], _Place] = {}
    for module, line in zip(module_of, lines, strict=True):
        found = None if line.startswith("#") or line.lstrip().startswith("}") else _MLIR_LOC.search(line)
        if found is None:
            yield _NOWHERE
            continue
        key = module, found[1]
        if key not in known:
            known[key] = _mlir_place(found[1], aliases[module], files)
        yield known[key]


def _mlir_place(location: str, aliases: dict[str, str], files: _Files) -> _Place:
    """Return the outermost caller's location; in a call site the callee comes first."""

    def caller(location: str) -> str | None:
        site = _MLIR_SITE.match(location)
        if site:
            return site[2]
        # The location of the first alias, such as that of a name or of several places in one.
        return None if _MLIR_PLACE.match(location) else next(
            (aliases[name] for name in _MLIR_NAME.findall(location) if name in aliases), None)

    found = _MLIR_PLACE.match(_outermost(location, caller))
    return _NOWHERE if found is None else files.place(found[1], int(found[2]))


def type_entries(text: str) -> list[dict[str, Any]]:
    """Return the entries of a text of inferred types: line, name, type, expression; none where it is no such text."""
    try:
        entries: Any = json.loads(text)
    except (ValueError, RecursionError):
        return []
    # What is no entry keeps its place: entries are lines of the form.
    return [entry if isinstance(entry, dict) else {} for entry in cast("list[Any]", entries)] if isinstance(
        entries, list) else []


def _types(text: str, files: _Files) -> Iterator[_Place]:
    for entry in type_entries(text):
        line = entry.get("line")
        yield -1, line if isinstance(line, int) and line > 0 else 0


def _nothing(text: str, files: _Files) -> Iterator[_Place]:
    return iter([_NOWHERE] * len(text.split("\n")))


def _outermost(start: Any, caller: Callable[[Any], Any]) -> Any:
    """Follow callers from an inlined place to the function that was compiled."""
    for _ in range(_DEEPEST):
        following = caller(start)
        if following is None:
            break
        start = following
    return start


_READERS: dict[str, Callable[[str, _Files], Iterator[_Place]]] = {
    "ptx": _ptx, "sass": _sass, "llvm": _llvm, "mlir": _mlir, "types": _types}
