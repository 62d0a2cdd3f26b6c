"""What the inspector shows: each kernel's specializations with resources, compiles, code and source lines."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np

from kernelscope.analysis.columns import (
    count_by,
    ints,
    json_object,
    percentiles_by,
    ran,
    row_count,
    sum_by,
    unique_pairs,
)
from kernelscope.analysis.compiles import explain
from kernelscope.analysis.launches import Dims, LaunchPhases, dims, launch_phases
from kernelscope.analysis.occupancy import limited_by
from kernelscope.analysis.signatures import argument_name as argument_name
from kernelscope.analysis.signatures import argument_names as argument_names
from kernelscope.analysis.signatures import named_arguments as named_arguments
from kernelscope.analysis.signatures import short_arguments
from kernelscope.errors import UnknownKernelError
from kernelscope.recording.model import Recording
from kernelscope.suggestions import did_you_mean

if TYPE_CHECKING:
    import pandas as pd


# Which source line each line of a kernel's code was made from, where the code has line information.
#
# PTX says it in ``.loc`` directives, SASS in the ``//## File`` comments of ``nvdisasm -g``, LLVM in ``!dbg``
# metadata, MLIR in the ``loc`` behind each operation, and the inferred types have it beside each of them. Only
# instructions have a line: labels, declarations and the directives themselves have none. Code of other functions
# that was inlined counts as of the line of the kernel that called them; where it stands itself is kept too.

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
    inner_file, inner_line : list of int
        The same, but of inlined code the line where it stands itself.
    """

    files: tuple[str, ...]
    file: list[int]
    line: list[int]
    inner_file: list[int]
    inner_line: list[int]

    @property
    def is_empty(self) -> bool:
        """Whether no line is known, as in code without line information."""
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
    return LineMap(tuple(files.numbers),
                   [outer[0] for outer, _ in places], [outer[1] for outer, _ in places],
                   [inner[0] for _, inner in places], [inner[1] for _, inner in places])


class _Files:
    """Numbers files in order of appearance."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def place(self, name: str | None, line: int) -> _Place:
        return _NOWHERE if name is None or line <= 0 else (self.numbers.setdefault(name, len(self.numbers)), line)


def _ptx(text: str, files: _Files) -> Iterator[tuple[_Place, _Place]]:
    lines = text.split("\n")
    # Files are declared after the functions that name them.
    declared = {int(found[1]): found[2] for found in map(_PTX_FILE.match, lines) if found}
    callers: dict[tuple[int, ...], tuple[int, ...]] = {}
    now = _NOWHERE, _NOWHERE
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
            now = files.place(declared.get(outer[0]), outer[1]), files.place(declared.get(here[0]), here[1])
            yield _NOWHERE, _NOWHERE
            continue
        stripped = line.partition("//")[0].strip()
        inside = depth > 0
        # A call's arguments and inline assembly have braces of their own, inside the function's.
        depth = max(0, depth + stripped.count("{") - stripped.count("}"))
        if not depth:
            now = _NOWHERE, _NOWHERE
        is_instruction = inside and stripped.strip("{}") and stripped[0] != "." and stripped[-1] != ":"
        yield now if is_instruction else (_NOWHERE, _NOWHERE)


def _sass(text: str, files: _Files) -> Iterator[tuple[_Place, _Place]]:
    outer = inner = _NOWHERE
    caller: _Place | None = None
    for line in text.split("\n"):
        if line.startswith((".text.", "//-----", "\t.section")):
            outer = inner = _NOWHERE
            caller = None
        found = _SASS_FILE.match(line)
        if found:
            here = files.place(found[1], int(found[2]))
            # What was inlined is followed by the lines of its callers, one after the other.
            inner, outer = (inner, here) if caller == here else (here, here)
            caller = None
            if found[3] is not None:
                caller = files.place(found[3], int(found[4]))
                outer = caller
        yield (outer, inner) if _SASS_INSTRUCTION.match(line) else (_NOWHERE, _NOWHERE)


def _llvm(text: str, files: _Files) -> Iterator[tuple[_Place, _Place]]:
    lines = text.split("\n")
    # Several modules one after the other, each with numbers of its own for its metadata, which comes at its end.
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
    known: dict[tuple[int, int], tuple[_Place, _Place]] = {}
    for module, line in zip(module_of, lines, strict=True):
        found = None if line.startswith(("!", "define", "declare")) else _LLVM_DBG.search(line)
        if found is None:
            yield _NOWHERE, _NOWHERE
            continue
        key = module, int(found[1])
        if key not in known:
            held = nodes[module]

            def caller(node: int, held: dict[int, dict[str, Any]] = held) -> int | None:
                return held.get(node, {}).get("inlinedAt")

            known[key] = (_llvm_place(_outermost(key[1], caller), held, files), _llvm_place(key[1], held, files))
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


def _mlir(text: str, files: _Files) -> Iterator[tuple[_Place, _Place]]:
    lines = text.split("\n")
    # Several modules one after the other, each with aliases of its own, before it and after it.
    aliases: list[dict[str, str]] = [{}]
    module_of: list[int] = []
    for line in lines:
        if line.startswith(_MLIR_PARTING):
            aliases.append({})
        module_of.append(len(aliases) - 1)
        found = _MLIR_ALIAS.match(line)
        if found:
            aliases[-1][found[1]] = found[2]
    known: dict[tuple[int, str], tuple[_Place, _Place]] = {}
    for module, line in zip(module_of, lines, strict=True):
        found = None if line.startswith("#") or line.lstrip().startswith("}") else _MLIR_LOC.search(line)
        if found is None:
            yield _NOWHERE, _NOWHERE
            continue
        key = module, found[1]
        if key not in known:
            known[key] = _mlir_places(found[1], aliases[module], files)
        yield known[key]


def _mlir_places(location: str, aliases: dict[str, str], files: _Files) -> tuple[_Place, _Place]:
    """The outermost caller's place, and the place itself: of a call site, what was called stands first."""
    outer = inner = location
    for _ in range(_DEEPEST):
        site = _MLIR_SITE.match(outer)
        following = site[2] if site else _alias_in(outer, aliases)
        if following is None:
            break
        outer = following
    for _ in range(_DEEPEST):
        site = _MLIR_SITE.match(inner)
        following = site[1] if site else _alias_in(inner, aliases)
        if following is None:
            break
        inner = following
    return _mlir_place(outer, files), _mlir_place(inner, files)


def _alias_in(location: str, aliases: dict[str, str]) -> str | None:
    """What the first alias of a location stands for, such as that of a name or of several places in one."""
    if _MLIR_PLACE.match(location):
        return None
    return next((aliases[name] for name in _MLIR_NAME.findall(location) if name in aliases), None)


def _mlir_place(location: str, files: _Files) -> _Place:
    found = _MLIR_PLACE.match(location)
    return _NOWHERE if found is None else files.place(found[1], int(found[2]))


def _types(text: str, files: _Files) -> Iterator[tuple[_Place, _Place]]:
    try:
        entries: Any = json.loads(text)
    except (ValueError, RecursionError):
        return
    for entry in cast("list[Any]", entries) if isinstance(entries, list) else []:
        line: Any = cast("dict[str, Any]", entry).get("line") if isinstance(entry, dict) else 0
        place = -1, line if isinstance(line, int) and line > 0 else 0
        yield place, place


def _nothing(text: str, files: _Files) -> Iterator[tuple[_Place, _Place]]:
    return iter([(_NOWHERE, _NOWHERE)] * len(text.split("\n")))


def _outermost(start: Any, caller: Callable[[Any], Any]) -> Any:
    """Follow callers from an inlined place to the function that was compiled."""
    for _ in range(_DEEPEST):
        following = caller(start)
        if following is None:
            break
        start = following
    return start


_READERS: dict[str, Callable[[str, _Files], Iterator[tuple[_Place, _Place]]]] = {
    "ptx": _ptx, "sass": _sass, "llvm": _llvm, "mlir": _mlir, "types": _types}


# Finding a kernel and one of its specializations by what a user types.

#: What kernels can be sorted by, largest first.
SORTS = ("launches", "compile", "registers")
Sort = Literal["launches", "compile", "registers"]

_MOST_NAMES = 12


def find_kernels(kernels: Sequence[Kernel], wanted: str) -> list[Kernel]:
    """Return the kernels of that name, of which there can be several.

    Parameters
    ----------
    kernels : sequence of Kernel
        Where to look.
    wanted : str
        The qualified name, or its last part, or the number of the kernel's row in ``dispatchers``.

    Raises
    ------
    UnknownKernelError
        There is none; the message lists those that there are.
    """
    whole = [each for each in kernels if each.name == wanted]
    found = whole or [each for each in kernels if each.name.rpartition(".")[2] == wanted]
    if not found and wanted.isdecimal():
        found = [each for each in kernels if each.dispatcher_id == int(wanted)]
    if not found:
        raise UnknownKernelError(
            f"no recorded kernel {wanted!r}; known: {listed_kernels(kernels)}{did_you_mean(wanted, names(kernels))}")
    return found


def names(kernels: Sequence[Kernel]) -> list[str]:
    """Return what a kernel can be called: its qualified name, and the last part of it."""
    return list(dict.fromkeys(name for each in kernels for name in (each.name, each.name.rpartition(".")[2])))


def listed_kernels(kernels: Sequence[Kernel]) -> str:
    """Return the first kernels' names for a message."""
    known = list(dict.fromkeys(each.name for each in kernels))
    more = f" and {len(known) - _MOST_NAMES} more" if len(known) > _MOST_NAMES else ""
    return ", ".join(repr(name) for name in known[:_MOST_NAMES]) + more or "none, since nothing was recorded"


def find_specialization(kernels: Sequence[Kernel], number: int) -> tuple[Kernel, Specialization]:
    """Return the specialization of that number of the only kernel of those given.

    Raises
    ------
    UnknownKernelError
        There are several kernels, or the kernel has no such specialization.
    """
    if not kernels:
        raise UnknownKernelError("no kernel was recorded, so there is no specialization")
    if len(kernels) > 1:
        listed = ", ".join(f"{each.name!r} (row {each.dispatcher_id})" for each in kernels[:_MOST_NAMES])
        raise UnknownKernelError(
            f"specializations are numbered by kernel: name one of {len(kernels)}, or its row: {listed}")
    for each in kernels[0].specializations:
        if each.number == number:
            return kernels[0], each
    count = len(kernels[0].specializations)
    known = "none" if not count else "1" if count == 1 else f"1 to {count}"
    raise UnknownKernelError(f"no specialization {number} of {kernels[0].name!r}; known: {known}")


def sort_kernels(kernels: Sequence[Kernel], by: Sort) -> list[Kernel]:
    """Return the kernels with most launches, longest compile time or most registers first; unknown ones last."""
    values = {"launches": lambda each: each.launches, "compile": lambda each: each.compile_ns,
              "registers": lambda each: -1 if each.regs is None else each.regs}
    return sorted(kernels, key=lambda each: -values[by](each))


# What the inspector shows: each kernel's specializations with their resources, configurations, compiles and code.
#
# The same facts for every view: the widget, its static picture, the text of ``kernelscope inspect``, and the columns
# of
# ``Recording.specializations``. Nothing here needs a GPU, numba or the tools that disassemble.

# Names of arguments are part of what the inspector's views are made from.


#: Forms of a specialization's code that a recording can hold, from the source down.
CODE_KINDS = ("source", "types", "mlir", "llvm", "ptx", "sass", "cubin")


@dataclass(frozen=True)
class Use:
    """One launch configuration that a specialization was launched with; its streams count as one.

    Attributes
    ----------
    griddim, blockdim : tuple of int, or None
        Blocks, and threads a block, along x, y, z; None where the framework hides them.
    cluster : tuple of int, or None
        Blocks a cluster; None without clusters.
    sharedmem_bytes : int or None
        Dynamic shared memory a block; None likewise.
    launches : int
        Launches with it that ran.
    median_ns, execute_ns : float or None
        Median own host time, and median time on the GPU, of a launch.
    occupancy : float or None
        Resident threads over the most that a multiprocessor holds, 0 to 1: theoretical, from the driver.
    active_blocks : int or None
        Blocks that a multiprocessor holds at once.
    limited_by : tuple of str
        What keeps it from holding more: threads, registers, shared memory, blocks. Empty where it is not known.
    """

    griddim: Dims | None
    blockdim: Dims | None
    cluster: Dims | None
    sharedmem_bytes: int | None
    launches: int
    median_ns: float | None
    execute_ns: float | None
    occupancy: float | None
    active_blocks: int | None
    limited_by: tuple[str, ...]


@dataclass(frozen=True)
class Step:
    """One compiler pass (kind ``pass``) or link phase (kind ``phase``: mlir, nvvm, lto, link, load) of a compile."""

    kind: str
    name: str
    duration_ns: int


@dataclass(frozen=True)
class Compile:
    """One compile or disk load of a specialization: the columns of ``compilations`` that the inspector shows."""

    compilation_id: int
    outcome: str
    trigger: str
    duration_ns: int
    reason_code: str
    reason: str
    fix: str | None
    cell: str | None
    cache_file: str | None
    cache_data_file: str | None
    cache_key: str | None
    lcs_marker: bool | None
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class Specialization:
    """One compiled overload; what was not recorded is None.

    Attributes
    ----------
    specialization_id : int
        Its row.
    number : int
        Its number among the kernel's, from 1, in order of appearance.
    signature : str
        Argument types as Numba prints them.
    arguments : tuple of (str, str)
        Each argument's Python name and type.
    compute_capability : str or None
        Such as 9.0.
    regs, max_threads : int or None
        Registers a thread; threads a block at most.
    static_shared_bytes, local_bytes, const_bytes, cubin_bytes : int or None
        Shared memory a block, local memory a thread, constant memory, machine code.
    spill_store_bytes, spill_load_bytes : int or None
        Bytes a thread that spilled registers store and load, summed over the instructions.
    origin : str
        compiled, disk, or before.
    launch_config_sensitive : bool or None
        Whether it depends on the launch configuration (LC-S).
    launch_config : dict or None
        The launch configuration that it is bound to: ``griddim``, ``blockdim``, ``sharedmem_bytes``.
    compile_ns : int or None
        What compiling or loading it took here; None where that was before.
    launches, captured, host_ns : int
        Launches that ran it; those that went into the capture of a graph; and the own host time of the former.
    median_ns : float or None
        Own host time a launch.
    uses : tuple of Use
        Launch configurations, most launches first.
    compiles : tuple of Compile
        In order.
    code : tuple of str
        Which of `CODE_KINDS` the recording holds for it, the function's source included.
    attributes : dict
        What only its framework has.
    """

    specialization_id: int
    number: int
    signature: str
    arguments: tuple[tuple[str, str], ...]
    compute_capability: str | None
    regs: int | None
    max_threads: int | None
    static_shared_bytes: int | None
    local_bytes: int | None
    const_bytes: int | None
    spill_store_bytes: int | None
    spill_load_bytes: int | None
    cubin_bytes: int | None
    origin: str
    launch_config_sensitive: bool | None
    launch_config: dict[str, Any] | None
    compile_ns: int | None
    launches: int
    captured: int
    host_ns: int
    median_ns: float | None
    uses: tuple[Use, ...]
    compiles: tuple[Compile, ...]
    code: tuple[str, ...]
    attributes: dict[str, Any]


@dataclass(frozen=True)
class Kernel:
    """One kernel function with its specializations, those of most launches first."""

    dispatcher_id: int
    framework: str
    name: str
    module: str | None
    filename: str | None
    lineno: int | None
    options: dict[str, Any]
    arguments: tuple[str, ...]
    specializations: tuple[Specialization, ...]

    @property
    def launches(self) -> int:
        """Launches of all its specializations."""
        return sum(each.launches for each in self.specializations)

    @property
    def compile_ns(self) -> int:
        """What compiling and loading all of them took here."""
        return sum(each.compile_ns or 0 for each in self.specializations)

    @property
    def regs(self) -> int | None:
        """Registers a thread of the specialization that needs most; None where none is known."""
        return max((each.regs for each in self.specializations if each.regs is not None), default=None)


def inspect_kernels(recording: Recording, phases: LaunchPhases | None = None) -> list[Kernel]:
    """Return every kernel of the recording with its specializations, most launches first."""
    recording = explain(recording)
    found = _specializations(recording, phases or launch_phases(recording))
    kernels = [
        Kernel(
            dispatcher_id=row["dispatcher_id"],
            framework=row["framework"],
            name=row["name"],
            module=row["module"],
            filename=row["filename"],
            lineno=row["lineno"],
            options=json_object(row["options"]),
            arguments=argument_names(row["arguments"]),
            specializations=tuple(found.get(row["dispatcher_id"], ())),
        )
        for row in recording.rows("dispatchers")
    ]
    return sorted(kernels, key=lambda each: (-each.launches, -each.compile_ns, each.dispatcher_id))


def code_text(recording: Recording, specialization_id: int, kind: str) -> str | None:
    """Return one form of a specialization's code, or None where the recording does not hold it.

    Parameters
    ----------
    recording : Recording
        Where it may be.
    specialization_id : int
        A row of ``specializations``.
    kind : str
        One of `CODE_KINDS`.

    Raises
    ------
    ValueError
        The kind is none of these.
    """
    if kind not in CODE_KINDS:
        raise ValueError(f"no code is called {kind!r}; known: {', '.join(CODE_KINDS)}")
    owner = int(ints(recording, "specializations", "dispatcher_id")[specialization_id])
    wanted = -1 if kind == "source" else specialization_id
    kinds: list[str] = recording.arrow("code").column("kind").to_pylist()
    owners, members = ints(recording, "code", "dispatcher_id"), ints(recording, "code", "specialization_id")
    for at, held in enumerate(kinds):
        if held == kind and owners[at] == owner and members[at] == wanted:
            return str(recording.arrow("code").column("text")[at].as_py())
    return None


def _specializations(recording: Recording, phases: LaunchPhases) -> dict[int, list[Specialization]]:
    size = row_count(recording, "specializations")
    launched = ints(recording, "launches", "specialization_id")
    run = ran(recording)
    launches, captured = count_by(launched, size, run), count_by(launched, size, ~run)
    host = sum_by(launched, phases.own_ns, size)
    medians = percentiles_by(launched, phases.own_ns, size, (0.5,))[:, 0] if size else np.empty(0)
    names = {row["dispatcher_id"]: argument_names(row["arguments"]) for row in recording.rows("dispatchers")}
    uses, compiles, code = _uses(recording, phases), _compiles(recording), _code(recording)
    result: dict[int, list[Specialization]] = {}
    for row in recording.rows("specializations"):
        at, owner = int(row["specialization_id"]), int(row["dispatcher_id"])
        own = result.setdefault(owner, [])
        made = compiles.get(at, [])
        # Threads that waited meanwhile did not compile.
        spent = [each.duration_ns for each in made if each.outcome != "wait"]
        held = code.get(at, set[str]()) | ({"source"} if -1 - owner in code else set[str]())
        bound = json_object(row["launch_config"])
        own.append(Specialization(
            specialization_id=at,
            number=len(own) + 1,
            signature=row["signature"],
            arguments=named_arguments(row["signature"], names.get(owner, ())),
            compute_capability=row["compute_capability"],
            regs=row["regs"],
            max_threads=row["max_threads"],
            static_shared_bytes=row["static_shared_bytes"],
            local_bytes=row["local_bytes"],
            const_bytes=row["const_bytes"],
            spill_store_bytes=row["spill_store_bytes"],
            spill_load_bytes=row["spill_load_bytes"],
            cubin_bytes=row["cubin_bytes"],
            origin=row["origin"],
            launch_config_sensitive=row["launch_config_sensitive"],
            launch_config=bound or None,
            compile_ns=sum(spent) if spent else None,
            launches=int(launches[at]),
            captured=int(captured[at]),
            host_ns=int(host[at]),
            median_ns=_finite(medians[at]),
            uses=tuple(uses.get(at, ())),
            compiles=tuple(made),
            code=tuple(kind for kind in CODE_KINDS if kind in held),
            attributes=json_object(row["attributes"]),
        ))
    return {owner: sorted(own, key=lambda each: (-each.launches, each.number)) for owner, own in result.items()}


def _uses(recording: Recording, phases: LaunchPhases) -> dict[int, list[Use]]:
    """Launch configurations by specialization; those that differ in their stream only are one."""
    rows = recording.rows("configurations")
    shapes: dict[Any, int] = {}
    shape_of = [shapes.setdefault(_shape(row), len(shapes)) for row in rows]
    configuration = ints(recording, "launches", "configuration_id")
    shape = np.where(configuration >= 0, np.array([*shape_of, -1], dtype=np.int64)[configuration], -1)
    pairs, pair = unique_pairs(ints(recording, "launches", "specialization_id"), shape)
    count = len(pairs)
    if not count:
        return {}
    launches = count_by(pair, count, ran(recording))
    host = percentiles_by(pair, phases.own_ns, count, (0.5,))[:, 0]
    executed = percentiles_by(pair, ints(recording, "launches", "execute_ns"), count, (0.5,))[:, 0]
    occupancy = {(row["specialization_id"], shape_of[row["configuration_id"]]): row
                 for row in recording.rows("occupancies")}
    devices, kernels = recording.rows("devices"), recording.rows("specializations")
    listed = list(shapes)
    result: dict[int, list[Use]] = {}
    for at, (specialization, which) in enumerate(pairs.tolist()):
        grid, block, cluster, shared = listed[which]
        known = occupancy.get((specialization, which), {})
        active = known.get("active_blocks_per_multiprocessor")
        result.setdefault(specialization, []).append(Use(
            griddim=grid, blockdim=block, cluster=cluster, sharedmem_bytes=shared, launches=int(launches[at]),
            median_ns=_finite(host[at]), execute_ns=_finite(executed[at]), occupancy=known.get("occupancy"),
            active_blocks=active,
            limited_by=() if active is None or block is None or shared is None else limited_by(
                devices[known["device_id"]], kernels[specialization], active, math.prod(block), shared),
        ))
    return {key: sorted(own, key=lambda use: (-use.launches, use.griddim or ())) for key, own in result.items()}


def _shape(row: dict[str, Any]) -> tuple[Dims | None, Dims | None, Dims | None, int | None]:
    return dims(row, "griddim"), dims(row, "blockdim"), dims(row, "cluster"), row["sharedmem_bytes"]


def _compiles(recording: Recording) -> dict[int, list[Compile]]:
    steps: dict[int, list[Step]] = {}
    for row in recording.rows("passes"):
        if row["compilation_id"] is not None:
            steps.setdefault(row["compilation_id"], []).append(Step(row["kind"], row["name"], row["duration_ns"]))
    cells = {row["cell_id"]: row["name"] or (
        None if row["execution_count"] is None else f"In[{row['execution_count']}]")
        for row in recording.rows("cells")}
    result: dict[int, list[Compile]] = {}
    for row in recording.rows("compilations"):
        if row["specialization_id"] is not None:
            result.setdefault(row["specialization_id"], []).append(Compile(
                compilation_id=row["compilation_id"], outcome=row["outcome"], trigger=row["trigger"],
                duration_ns=0 if row["end_ns"] is None else row["end_ns"] - row["start_ns"],
                reason_code=row["reason_code"], reason=row["reason"] or "", fix=row["fix"],
                cell=cells.get(row["cell_id"]), cache_file=row["cache_file"],
                cache_data_file=row["cache_data_file"], cache_key=row["cache_key"], lcs_marker=row["lcs_marker"],
                steps=tuple(steps.get(row["compilation_id"], ())),
            ))
    return result


def _code(recording: Recording) -> dict[int, set[str]]:
    """Kinds of code by specialization; a function's own source under -1 - dispatcher id."""
    kinds: list[str] = recording.arrow("code").column("kind").to_pylist()
    owners, members = ints(recording, "code", "dispatcher_id"), ints(recording, "code", "specialization_id")
    result: dict[int, set[str]] = {}
    for kind, owner, member in zip(kinds, owners.tolist(), members.tolist(), strict=True):
        result.setdefault(member if member >= 0 else -1 - owner, set()).add(kind)
    return result


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


# `Recording.specializations`: the facts of an inspector as a pandas DataFrame.

def specialization_table(recording: Recording) -> pd.DataFrame:
    """Return one row a specialization, in the order of the table, with what the other tables say of it.

    Parameters
    ----------
    recording : Recording
        What was recorded; without specializations the result has all columns and no row.

    Returns
    -------
    pandas.DataFrame
        The columns of the table ``specializations`` as `Recording.table` gives them, and behind them:

        ``kernel``, ``arguments``
            The kernel's name; each argument's name and type in short, as in ``x: float32[:] C, n: int64``.
        ``launches``, ``captured``, ``compile_ns``, ``median_ns``
            Launches that ran it, and those that went into the capture of a graph; what compiling or loading it took
            here, null where that was before; median own host time of a launch.
        ``configurations``, ``occupancy``, ``limited_by``
            How many launch configurations it was launched with, streams apart; the least theoretical occupancy of
            these, 0 to 1, and what limits it there.
        ``cache_file``, ``reason_code``
            The disk cache's index file, and why it was compiled or loaded first; null where that was before.
    """
    import pandas as pd

    frame: pd.DataFrame = recording.table("specializations")
    held = {each.specialization_id: (kernel, each)
            for kernel in inspect_kernels(recording) for each in kernel.specializations}
    rows = [_facts(*held[at]) for at in range(len(held))]
    for name, dtype in _COLUMNS.items():
        kind = frame["signature"].dtype if dtype == "text" else dtype
        frame[name] = pd.Series([row[name] for row in rows], dtype=kind)
    return frame


_COLUMNS = {
    "kernel": "text", "arguments": "text", "launches": "int64", "captured": "int64", "compile_ns": "Int64",
    "median_ns": "float64", "configurations": "int64", "occupancy": "float64", "limited_by": "text",
    "cache_file": "text", "reason_code": "text",
}


def _facts(kernel: Kernel, each: Specialization) -> dict[str, Any]:
    known = [use for use in each.uses if use.occupancy is not None]
    least = min(known, key=lambda use: use.occupancy or 0.0, default=None)
    made = next((made for made in each.compiles if made.outcome != "wait"), None)
    return {
        "kernel": kernel.name,
        "arguments": short_arguments(each.arguments),
        "launches": each.launches,
        "captured": each.captured,
        "compile_ns": each.compile_ns,
        "median_ns": float("nan") if each.median_ns is None else each.median_ns,
        "configurations": len(each.uses),
        "occupancy": float("nan") if least is None else least.occupancy,
        "limited_by": ", ".join(least.limited_by) or None if least is not None else None,
        "cache_file": made and made.cache_file,
        "reason_code": made and made.reason_code,
    }
