"""A recording's code of kernels: which forms it holds, and the source line that each line of a form came from."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, cast

from kernelscope.analysis.columns import ints
from kernelscope.recording.model import Recording
from kernelscope.schema import UNKNOWN

#: Forms of a specialization's code that a recording can hold, from the source down, and what messages call each.
CODE_KINDS = {"source": "source", "functions": "source of what it calls", "types": "inferred types", "mlir": "MLIR",
              "ttir": "TTIR", "ttgir": "TTGIR", "llvm": "LLVM IR", "ptx": "PTX", "sass": "SASS",
              "cubin": "machine code"}


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
# metadata, MLIR (Triton's TTIR and TTGIR too) in the ``loc`` behind each operation, and the inferred types have it
# beside each of them. Only instructions have a line: labels, declarations and the directives themselves have none.
# Code of other functions that was inlined keeps its file and line, followed by those of the calls that it was inlined
# at.

#: File and line number, from the inlined function out to the one that was compiled; empty where nothing is known.
Chain = tuple[tuple[str, int], ...]
#: Calls inlined into each other deeper than this are cut: a circle of them, which only a made-up file has.
_DEEPEST = 100

_PTX_FILE = re.compile(r'\s*\.file\s+(\d+)\s+"([^"]*)"')
_PTX_LOC = re.compile(r"\s*\.loc\s+(\d+)\s+(\d+)\s+(\d+)(?:.*\binlined_at\s+(\d+)\s+(\d+)\s+(\d+))?")
# Where LLVM writes no ``inlined_at``, as in Triton 3.4, it comments on it: // h.py:7:12 @[ k.py:26:18 ]
_PTX_COMMENTED = re.compile(r"@\[ (.+?):(\d+):\d+")
_SASS_FILE = re.compile(r'\s*//## File "([^"]*)", line (\d+)(?: inlined at "([^"]*)", line (\d+))?')
_SASS_INSTRUCTION = re.compile(r"\s*(?:\{\s*)?/\*[0-9a-f]{4,}\*/\s+\S")
_SASS_OFFSET = re.compile(r"\s*(?:\{\s*)?/\*([0-9a-f]{4,})\*/\s+\S")
_SASS_ROUTINE = re.compile(r"(\$\S+):$")
_SASS_CALL = re.compile(r"\bCALL\b[^`]*`\((\$[^)]+)\)")
_MLIR_PARTING = "// -----"
_MLIR_ALIAS = re.compile(r"(#loc\d*) = loc\((.*)\)\s*$")
_MLIR_NAME = re.compile(r"#loc\d*$")
_MLIR_PLACE = re.compile(r'"([^"]*)":(\d+):\d+$')
_MLIR_NAMED = re.compile(r'"(?:[^"\\]|\\.)*"\((.*)\)$')
_MLIR_FUSED = re.compile(r"fused(?:<.*>)?\[(.*)\]$")
_MLIR_FUNCTION = re.compile(r"\s*(?:builtin\.)?(?:module|\w+\.(?:module|func|binary))\b")
_LLVM_DBG = re.compile(r"!dbg !(\d+)")
_LLVM_NODE = re.compile(r"!(\d+) = (?:distinct )?!(DILocation|DISubprogram|DILexicalBlock\w*|DIFile)\((.*)\)")
_LLVM_FIELD = re.compile(r'\b(line|scope|file|inlinedAt|directory|filename): (?:!?(\d+)|"([^"]*)")')


@dataclass(frozen=True)
class LineMap:
    """The source lines of a code text.

    Attributes
    ----------
    chains : tuple of Chain
        The distinct places that its lines came from: file, as the text names it, and line, of an inlined function
        first, then those of the calls around it. In the kernel's own file of inferred types the name is empty.
    chain : list of int
        For each line of the text its place, an index into `chains`; -1 for none. For types there is one for each entry.
    """

    chains: tuple[Chain, ...]
    chain: list[int]

    @property
    def outermost(self) -> list[tuple[str, int]]:
        """Return for each line its place in the function that was compiled; an empty name and 0 for none."""
        return [self.chains[at][-1] if at >= 0 else ("", 0) for at in self.chain]

    @property
    def line(self) -> list[int]:
        """Return for each line its line in the function that was compiled; 0 for none."""
        return [line for _, line in self.outermost]

    @property
    def files(self) -> tuple[str, ...]:
        """Return the files of all places, in order of appearance."""
        return tuple(dict.fromkeys(name for chain in self.chains for name, _ in chain))

    @property
    def is_empty(self) -> bool:
        """Return whether no line is known, as in code without line information."""
        return not self.chains


def line_map(kind: str, text: str) -> LineMap:
    """Return the source line of each line of a code text.

    Parameters
    ----------
    kind : str
        ``ptx``, ``sass``, ``llvm``, ``mlir``, ``ttir``, ``ttgir`` or ``types``; every other kind has no lines.
    text : str
        The text, as a recording's table ``code`` has it.
    """
    numbers: dict[Chain, int] = {}
    chain = [numbers.setdefault(each, len(numbers)) if each else -1 for each in _READERS.get(kind, _nothing)(text)]
    return LineMap(tuple(numbers), chain)


def with_own_file(found: LineMap, filename: str | None) -> tuple[Chain, ...]:
    """Return the distinct places of a text, in which the kernel's own file has no name.

    Parameters
    ----------
    found : LineMap
        The places.
    filename : str or None
        The kernel's file, as the recording has it: a saved one keeps the base name only.
    """
    outermost = Counter(name for name, line in found.outermost if line)
    own = {name for name in found.files if not name or is_same_file(name, filename)}
    if outermost and own.isdisjoint(outermost):
        # A cell of a notebook is In [3] to its user, and a temporary file to the compiler: that of most lines.
        own.add(outermost.most_common(1)[0][0])
    return tuple(tuple(("" if name in own else name, line) for name, line in chain) for chain in found.chains)


def is_same_file(file: str, known: str | None) -> bool:
    """Return whether two names are of one file; a saved recording keeps the base name only."""
    if not known:
        return False
    return file == known or _base_name(file) == _base_name(known)


def sass_offsets(text: str, function: str | None = None) -> dict[int, int]:
    """Return the lines of SASS, from 0, by the offsets of their instructions in bytes from the function's first.

    Parameters
    ----------
    text : str
        What ``nvdisasm`` printed.
    function : str, optional
        The mangled name of the function; without it, or where it is not there, the first one.
    """
    functions: dict[str, dict[int, int]] = {}
    now: list[dict[int, int]] = [{}]
    for at, line in enumerate(text.split("\n")):
        if line.startswith(".text.") and line.rstrip().endswith(":"):
            now = [functions.setdefault(line.strip()[len(".text."):-1], {})]
        elif found := _SASS_ROUTINE.match(line):
            # Its instructions are the function's too, at the end of it.
            now = [now[0], functions.setdefault(found[1], {})]
        elif found := _SASS_OFFSET.match(line):
            for each in now:
                each[int(found[1], 16)] = at
    found = functions.get(function or "") or next(iter(functions.values()), now[0])
    first = min(found, default=0)
    return {offset - first: at for offset, at in found.items()}


def _ptx(text: str) -> Iterator[Chain]:
    lines = text.split("\n")
    # Files are declared after the functions that name them.
    declared = {int(found[1]): found[2] for found in map(_PTX_FILE.match, lines) if found}
    by_name = {_base_name(name): name for name in declared.values()}
    callers: dict[tuple[int, ...], tuple[int, ...]] = {}
    now: Chain = ()
    depth = 0
    for line in lines:
        found = _PTX_LOC.match(line)
        if found:
            here = tuple(int(part) for part in found.groups()[:3])
            if found[4] is not None:
                callers[here] = tuple(int(part) for part in found.groups()[3:])
            else:
                callers.pop(here, None)
            around = [(declared.get(at[0]), at[1]) for at in _followed(here, callers.get)]
            if len(around) == 1:
                around += [(by_name.get(name), int(number)) for name, number in _PTX_COMMENTED.findall(line)]
            now = _chain(around)
            yield ()
            continue
        stripped = line.partition("//")[0].strip()
        inside = depth > 0
        # A call's arguments and inline assembly have braces of their own, inside the function's.
        depth = max(0, depth + stripped.count("{") - stripped.count("}"))
        if not depth:
            now = ()
        is_instruction = inside and stripped.strip("{}") and stripped[0] != "." and stripped[-1] != ":"
        yield now if is_instruction else ()


def _sass(text: str) -> Iterator[Chain]:
    lines = text.split("\n")
    # The compiler's own subroutines, such as that of a division, have no lines: they are of the line that calls them.
    routines = {found[1] for found in map(_SASS_ROUTINE.match, lines) if found}
    found = list(_sass_lines(lines, routines))
    if not routines:
        return iter(found)
    callers: dict[str, set[Chain]] = {}
    for line, chain in zip(lines, found, strict=True):
        called = _SASS_CALL.search(line) if chain else None
        if called is not None:
            callers.setdefault(called[1], set()).add(chain)
    inside: Chain = ()
    for at, line in enumerate(lines):
        if line.startswith((".text.", "\t.section")):
            inside = ()
        elif line.endswith(":") and line[:-1] in routines:
            of = callers.get(line[:-1], set())
            inside = next(iter(of)) if len(of) == 1 else ()
        elif inside and not found[at] and _SASS_INSTRUCTION.match(line):
            found[at] = inside
    return iter(found)


def _sass_lines(lines: list[str], routines: set[str]) -> Iterator[Chain]:
    """Return the place of each line of SASS; of the compiler's own subroutines none."""
    now: list[tuple[str | None, int]] = []
    caller: tuple[str | None, int] | None = None
    has_run = True
    chain: Chain = ()
    for line in lines:
        found = _SASS_FILE.match(line)
        if line.startswith((".text.", "//-----", "\t.section")) or (routines and line[:-1] in routines):
            now, caller, chain = [], None, ()
        elif found:
            # What was inlined is followed by the lines of its callers, one after the other.
            here = found[1], int(found[2])
            now = [*now, here] if caller == here and not has_run else [here]
            caller = None if found[3] is None else (found[3], int(found[4]))
            has_run = False
        is_instruction = _SASS_INSTRUCTION.match(line) is not None
        if is_instruction and not has_run:
            chain = _chain([*now, *([] if caller is None else [caller])])
            has_run = True
        yield chain if is_instruction else ()


def _llvm(text: str) -> Iterator[Chain]:
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
    known: dict[tuple[int, int], Chain] = {}
    for module, line in zip(module_of, lines, strict=True):
        found = None if line.startswith(("!", "define", "declare")) else _LLVM_DBG.search(line)
        if found is None:
            yield ()
            continue
        key = module, int(found[1])
        if key not in known:
            held = nodes[module]

            def caller(node: int, held: dict[int, dict[str, Any]] = held) -> int | None:
                return held.get(node, {}).get("inlinedAt")

            known[key] = _chain(_llvm_place(each, held) for each in _followed(key[1], caller))
        yield known[key]


def _llvm_place(location: int, nodes: dict[int, dict[str, Any]]) -> tuple[str | None, int]:
    node: Any = nodes.get(location, {})
    line, file = node.get("line", 0), None
    for _ in range(_DEEPEST):
        if "file" in node or "scope" not in node:
            file = nodes.get(node.get("file"))
            break
        node = nodes.get(node["scope"], {})
    if not file or not isinstance(file.get("filename"), str) or not isinstance(line, int):
        return None, 0
    folder, name = file.get("directory"), file["filename"]
    return f"{folder}/{name}" if folder and not name.startswith("/") else name, line


def _mlir(text: str) -> Iterator[Chain]:
    lines = text.split("\n")
    # Several modules one after the other, each with separate aliases, before it and after it.
    modules = [_Locations()]
    module_of: list[int] = []
    for line in lines:
        if line.startswith(_MLIR_PARTING):
            modules.append(_Locations())
        module_of.append(len(modules) - 1)
        found = _MLIR_ALIAS.match(line)
        if found:
            modules[-1].aliases[found[1]] = found[2]
    chains: list[Chain] = [()] * len(lines)
    # Operations with regions, such as loops, have their location behind the last one's end.
    opened: list[int] = []
    for at, line in enumerate(lines):
        if line.startswith("#"):
            continue
        is_end = line.lstrip().startswith("}")
        begun = opened.pop() if is_end and opened else at
        if line.rstrip().endswith("{"):
            opened.append(begun)
        if _MLIR_FUNCTION.match(lines[begun]):
            continue
        location = _location_behind(line)
        if location is not None:
            chains[at] = chains[begun] = modules[module_of[at]].chain(location)
    yield from chains


def _location_behind(line: str) -> str | None:
    """Return what is in the ``loc(...)`` at a line's end; None where there is none."""
    text = line.rstrip().removesuffix("{").rstrip()
    begin = text.rfind(" loc(")
    if begin < 0 or not text.endswith(")"):
        return None
    inner = text[begin + 5:-1]
    return inner if len(_parted(inner, ")")) == 1 else None


class _Locations:
    """The locations of an MLIR module."""

    def __init__(self) -> None:
        self.aliases: dict[str, str] = {}
        self._known: dict[str, Chain] = {}

    def chain(self, location: str, depth: int = 0) -> Chain:
        """Return where a location is; of a call site the callee comes first, of several fused ones the first."""
        if location not in self._known:
            self._known[location] = ()  # a circle ends
            self._known[location] = self._read(location, depth + 1) if depth < _DEEPEST else ()
        return self._known[location]

    def _read(self, location: str, depth: int) -> Chain:
        if _MLIR_NAME.match(location):
            return self.chain(self.aliases[location], depth) if location in self.aliases else ()
        if found := _MLIR_PLACE.match(location):
            return _chain([(found[1], int(found[2]))])
        if found := _MLIR_NAMED.match(location):
            return self.chain(found[1], depth)
        if location.startswith("callsite(") and location.endswith(")"):
            parts = [self.chain(each, depth) for each in _parted(location[9:-1], " at ")]
            return tuple(place for part in parts for place in part)[-_DEEPEST:]
        if found := _MLIR_FUSED.match(location):
            return next(filter(None, (self.chain(each, depth) for each in _parted(found[1], ", "))), ())
        return ()


def _parted(text: str, sign: str) -> list[str]:
    """Return what stands between signs that are in neither quotes nor parentheses."""
    parts, depth, start, at = [], 0, 0, 0
    is_quoted = False
    while at < len(text):
        char = text[at]
        if is_quoted:
            is_quoted = char != '"'
            at += char == "\\"
        elif not depth and text.startswith(sign, at):
            parts.append(text[start:at])
            start = at + len(sign)
        elif char == '"':
            is_quoted = True
        else:
            depth += (char in "([<") - (char in ")]>")
        at += 1
    return [*parts, text[start:]]


def type_entries(text: str) -> list[dict[str, Any]]:
    """Return the entries of a text of types or functions, which is a list as JSON; none where it is no such text."""
    try:
        entries: Any = json.loads(text)
    except (ValueError, RecursionError):
        return []
    # What is no entry keeps its place: entries are lines of the form.
    return [entry if isinstance(entry, dict) else {} for entry in cast("list[Any]", entries)] if isinstance(
        entries, list) else []


def with_called(source: str, first: int, functions: str) -> tuple[str, LineMap]:
    """Return a kernel's source with that of the functions that it calls below, and the place of each line.

    Parameters
    ----------
    source : str
        The kernel's.
    first : int
        The number of its first line.
    functions : str
        A text of the kind ``functions``: JSON, with ``name``, ``file``, ``lineno`` and ``text`` of each.
    """
    lines = source.rstrip("\n").split("\n")
    places: list[tuple[str, int] | None] = [("", first + at) for at in range(len(lines))]
    for each in type_entries(functions):
        file, number, text = each.get("file"), each.get("lineno"), each.get("text")
        if isinstance(file, str) and isinstance(number, int) and isinstance(text, str):
            own = text.rstrip("\n").split("\n")
            lines += [f"# {_base_name(file)}:{number}", *own]
            places += [None, *((file, number + at) for at in range(len(own)))]
    distinct = {place: at for at, place in enumerate(dict.fromkeys(filter(None, places)))}
    chain = [-1 if place is None else distinct[place] for place in places]
    return "\n".join(lines) + "\n", LineMap(tuple((place,) for place in distinct), chain)


def _types(text: str) -> Iterator[Chain]:
    for entry in type_entries(text):
        line = entry.get("line")
        yield (("", line),) if isinstance(line, int) and line > 0 else ()


def _nothing(text: str) -> Iterator[Chain]:
    return iter([()] * len(text.split("\n")))


def _followed(start: Any, caller: Callable[[Any], Any]) -> list[Any]:
    """Return an inlined place and its callers, out to the function that was compiled."""
    found = [start]
    while len(found) <= _DEEPEST and (start := caller(start)) is not None:
        found.append(start)
    return found


def _chain(places: Iterable[tuple[str | None, int]]) -> Chain:
    """Return the places that are known."""
    return tuple((name, line) for name, line in places if name is not None and line > 0)


def _base_name(path: str) -> str:
    return path.replace("\\", "/").rpartition("/")[2]


_READERS: dict[str, Callable[[str], Iterator[Chain]]] = {
    "ptx": _ptx, "sass": _sass, "llvm": _llvm, "mlir": _mlir, "ttir": _mlir, "ttgir": _mlir, "types": _types}
