"""The inspector's model: each kernel's specializations with resources, compiles and code, and how all is labelled.

Every view of the inspector prints it: the text of ``kernelscope inspect``, the static HTML of a saved notebook, the
widget's page, and the columns of ``Recording.specializations``. Nothing here needs a GPU, numba or a disassembler, but
for `code_of`, which disassembles machine code.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeGuard, TypeVar

import numpy as np
from numpy.typing import NDArray

from kernelscope.analysis.code import (
    CODE_KINDS,
    Chain,
    CodeRows,
    LineMap,
    line_map,
    type_entries,
    with_called,
    with_own_file,
)
from kernelscope.analysis.columns import (
    captured,
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
from kernelscope.analysis.launches import Dims, LaunchPhases, cell_label, dims, launch_phases
from kernelscope.analysis.occupancy import limited_by
from kernelscope.analysis.signatures import argument_names, named_arguments, short_arguments, short_type
from kernelscope.cubin import disassemble
from kernelscope.errors import CubinError, UnknownKernelError
from kernelscope.recording.model import Recording
from kernelscope.recording.time import row_duration_ns
from kernelscope.suggestions import did_you_mean
from kernelscope.units import count, counted, duration, listed, percent, size
from kernelscope.views import base

if TYPE_CHECKING:
    import pandas as pd

_Row = TypeVar("_Row")

NOT_RECORDED = "not recorded"
HOW_TO_RECORD_CODE = "record with --code, or code=True"


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
        Framework-specific values.
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

    @property
    def first_compile(self) -> Compile | None:
        """Return the first compile or load; a thread that only waited did not compile."""
        return next((made for made in self.compiles if made.outcome != "wait"), None)


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
    def place(self) -> str:
        """Return where it is defined, without this machine's path, as all views write it."""
        return base.defined_at(self.framework, self.module, self.filename, self.lineno)

    @property
    def launches(self) -> int:
        """Return launches of all its specializations."""
        return sum(each.launches for each in self.specializations)

    @property
    def compile_ns(self) -> int:
        """Return the time of compiling and loading all specializations in this recording."""
        return sum(each.compile_ns or 0 for each in self.specializations)

    @property
    def regs(self) -> int | None:
        """Return registers a thread of the specialization that needs most; None where none is known."""
        return max((each.regs for each in self.specializations if each.regs is not None), default=None)


def inspect_kernels(recording: Recording, phases: LaunchPhases | None = None) -> list[Kernel]:
    """Return every kernel of the recording with its specializations, most launches first."""
    recording = explain(recording)
    found = _specializations(recording, phases or launch_phases(recording))
    kernels = [
        _from_row(Kernel, row, options=json_object(row["options"]), arguments=argument_names(row["arguments"]),
                  specializations=tuple(found.get(row["dispatcher_id"], ())))
        for row in recording.rows("dispatchers")
    ]
    return sorted(kernels, key=lambda each: (-each.launches, -each.compile_ns, each.dispatcher_id))


def _from_row(kind: type[_Row], row: dict[str, Any], **more: Any) -> _Row:
    """Return a dataclass from the columns named as its fields, and from further values."""
    named: dict[str, Any] = {name: row[name] for name in kind.__annotations__ if name in row}
    return kind(**named | more)


def _specializations(recording: Recording, phases: LaunchPhases) -> dict[int, list[Specialization]]:
    size = row_count(recording, "specializations")
    launched = ints(recording, "launches", "specialization_id")
    launches, captures = count_by(launched, size, ran(recording)), count_by(launched, size, captured(recording))
    host = sum_by(launched, phases.own_ns, size)
    medians = percentiles_by(launched, phases.own_ns, size, (0.5,))[:, 0] if size else np.empty(0)
    names = {row["dispatcher_id"]: argument_names(row["arguments"]) for row in recording.rows("dispatchers")}
    uses, compiles, code = _uses(recording, phases), _compiles(recording), CodeRows(recording)
    result: dict[int, list[Specialization]] = {}
    for row in recording.rows("specializations"):
        at, owner = int(row["specialization_id"]), int(row["dispatcher_id"])
        own = result.setdefault(owner, [])
        made = compiles.get(at, [])
        # Threads that waited meanwhile did not compile.
        spent = [each.duration_ns for each in made if each.outcome != "wait"]
        own.append(_from_row(
            Specialization, row, number=len(own) + 1, arguments=named_arguments(row["signature"], names.get(owner, ())),
            launch_config=json_object(row["launch_config"]) or None, compile_ns=sum(spent) if spent else None,
            launches=int(launches[at]), captured=int(captures[at]), host_ns=int(host[at]),
            median_ns=_finite(medians[at]), uses=tuple(uses.get(at, ())), compiles=tuple(made),
            code=code.kinds(owner, at), attributes=json_object(row["attributes"])))
    return {owner: sorted(own, key=lambda each: (-each.launches, each.number)) for owner, own in result.items()}


def _uses(recording: Recording, phases: LaunchPhases) -> dict[int, list[Use]]:
    """Return launch configurations by specialization; those that differ only in the stream are merged."""
    rows = recording.rows("configurations")
    shapes: dict[Any, int] = {}
    shape_of = [shapes.setdefault((dims(row, "griddim"), dims(row, "blockdim"), dims(row, "cluster"),
                                   row["sharedmem_bytes"]), len(shapes)) for row in rows]
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


def _compiles(recording: Recording) -> dict[int, list[Compile]]:
    steps: dict[int, list[Step]] = {}
    for row in recording.rows("passes"):
        if row["compilation_id"] is not None:
            steps.setdefault(row["compilation_id"], []).append(Step(row["kind"], row["name"], row["duration_ns"]))
    cells = {row["cell_id"]: cell_label(row) for row in recording.rows("cells")}
    result: dict[int, list[Compile]] = {}
    for row in recording.rows("compilations"):
        if row["specialization_id"] is not None:
            result.setdefault(row["specialization_id"], []).append(_from_row(
                Compile, row, duration_ns=row_duration_ns(row) or 0,
                reason=row["reason"] or "", cell=cells.get(row["cell_id"]),
                steps=tuple(steps.get(row["compilation_id"], ()))))
    return result


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


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
    known = [*dict.fromkeys(repr(each.name) for each in kernels)]
    return listed(known, _MOST_NAMES) or "none, since nothing was recorded"


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


# What is said of a kernel, a specialization and a compile.

@dataclass(frozen=True)
class Field:
    """One thing that is known of a specialization or a compile.

    Attributes
    ----------
    label : str
        What it is.
    text : str or None
        Its value with its unit; None where it was not recorded.
    group : str
        The heading of what belongs together: where it is the label itself, the value needs no label below it.
    """

    label: str
    text: str | None
    group: str


def about(kernel: Kernel) -> list[str]:
    """Return what is known of a kernel itself: its place, its arguments, its options."""
    parts = [kernel.place]
    if kernel.arguments:
        parts.append(f"arguments {', '.join(kernel.arguments)}")
    if kernel.options:
        parts.append(f"options {json_text(kernel.options)}")
    return parts


def figures(kernel: Kernel) -> str:
    """Return how many specializations and launches a kernel has, and how long compiling them took."""
    parts = [counted(len(kernel.specializations), "specialization"), counted(kernel.launches, "launch", "launches")]
    if kernel.compile_ns:
        parts.append(f"{duration(kernel.compile_ns)} compiling and loading")
    return ", ".join(parts)


def fields(each: Specialization) -> list[Field]:
    """Return what every view says of a specialization, in order; those that are compared come first."""
    took = [] if each.compile_ns is None else [Field("took", duration(each.compile_ns), "origin")]
    extra = framework_fields(each)
    median = [Field("median host time", _known(duration, each.median_ns), "launches")] if each.launches else []
    return [
        Field("registers", _known(count, each.regs), "resources"),
        Field("static shared memory", _known(bytes_of, each.static_shared_bytes), "resources"),
        Field("local memory", _known(bytes_of, each.local_bytes), "resources"),
        Field("constant memory", _known(bytes_of, each.const_bytes), "resources"),
        Field("spills", _spills(each), "resources"),
        Field("most threads a block", _known(count, each.max_threads), "resources"),
        *extra,
        Field("machine code", _known(bytes_of, each.cubin_bytes), "machine code"),
        Field("compute capability", each.compute_capability, "machine code"),
        # Triton has no launch-config sensitive specializations.
        *([] if extra else [Field("LC-S", _sensitivity(each), "LC-S")]),
        Field("origin", _ORIGINS.get(each.origin, each.origin), "origin"),
        *took,
        Field("launches", _launches(each), "launches"),
        *median,
        Field("configurations", _configurations(each), "configurations"),
        Field("cache files", _cache_files(each), "cache files"),
    ]


def framework_fields(each: Specialization) -> list[Field]:
    """Return what only Triton has: the dynamic shared memory that its compiler chose, and warps, stages and CTAs."""
    found: list[Field] = []
    options = each.attributes.get("options")
    if isinstance(options, dict) and "num_warps" in options:
        shared = each.attributes.get("shared")
        found.append(Field("dynamic shared memory", bytes_of(shared) if isinstance(shared, int) else None, "resources"))
        said = [counted(options[name], label) for name, label in _OPTIONS.items() if isinstance(options.get(name), int)]
        found.append(Field("a block", ", ".join(said), "a block"))
    return found


def all_fields(each: Specialization) -> list[Field]:
    """Return everything that is known of a specialization but its compiles, which have `compile_fields`."""
    code = ", ".join(each.code) or f"{NOT_RECORDED}: {HOW_TO_RECORD_CODE}"
    return [Field("signature", each.signature, "signature"), *fields(each), Field("code", code, "code"),
            *(Field(name, json_text(value), name) for name, value in each.attributes.items())]


def compared(each: Specialization) -> list[str]:
    """Return types and resources as lines, for every specialization the same ones, so that two can be compared."""
    lines = [f"{name}: {short_type(kind)}" for name, kind in each.arguments]
    return lines + [f"{field.label}: {NOT_RECORDED if field.text is None else field.text}"
                    for field in fields(each) if field.group in _COMPARED and field.label != "took"]


def compile_title(each: Compile) -> str:
    """Return what a compile was, how long it took, what requested it and in which cell."""
    where = "" if each.cell is None else f", {each.cell}"
    what = _OUTCOMES.get(each.outcome, each.outcome)
    return f"{what} in {duration(each.duration_ns)}, requested by {_TRIGGERS.get(each.trigger, each.trigger)}{where}"


def compile_fields(each: Compile) -> list[Field]:
    """Return why a compile was needed, what would avoid it, and what the disk cache had of it."""
    found = {"why": f"{each.reason} ({each.reason_code})", **({"fix": each.fix} if each.fix else {})}
    if each.cache_file is None:
        found |= {"disk cache": "none"}
    else:
        marker = None if each.lcs_marker is None else f"there is {'an' if each.lcs_marker else 'no'} .lcs marker"
        found |= {"cache index": each.cache_file, "cache data": each.cache_data_file, "cache key": each.cache_key,
                  "LC-S marker": marker}
    return [Field(label, text, label) for label, text in found.items()]


#: Labels of the table of a specialization's launch configurations, in the order of `use_values`.
USE_LABELS = ("grid", "block", "cluster", "shared", "launches", "host", "GPU", "occupancy", "blocks/SM", "limited by")


def use_values(use: Use) -> list[str | None]:
    """Return a launch configuration's values under `USE_LABELS`; None for what was not recorded."""
    return [
        _known(base.dims, use.griddim), _known(base.dims, use.blockdim), _known(base.dims, use.cluster),
        _known(bytes_of, use.sharedmem_bytes), count(use.launches), _known(duration, use.median_ns),
        _known(duration, use.execute_ns), _known(percent, use.occupancy), _known(count, use.active_blocks),
        ", ".join(use.limited_by) or None,
    ]


def configuration_key(bound: Mapping[str, Any] | None) -> str | None:
    """Return a launch configuration that a specialization is bound to: ``[4, 128, 1,024 B shared]``."""
    if not bound:
        return None
    grid, block, shared = bound.get("griddim"), bound.get("blockdim"), bound.get("sharedmem_bytes")
    if not (_is_dims(grid) and _is_dims(block)):
        return json_text(dict(bound))
    tail = f", {bytes_of(shared)} shared" if isinstance(shared, int) and shared else ""
    return f"[{base.dims(grid)}, {base.dims(block)}{tail}]"


def bytes_of(value: int) -> str:
    """Return bytes in full below 10,000, for these are compared, and rounded above."""
    return f"{value:,} B" if value < 10_000 else size(value)


def json_text(value: object) -> str:
    """Return a JSON value on one line."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


#: Options of Triton's compiler that decide what a block is, and what they count.
_OPTIONS = {"num_warps": "warp", "num_stages": "stage", "num_ctas": "CTA"}
_COMPARED = ("resources", "a block", "machine code", "LC-S", "origin")
_ORIGINS = {"disk": "loaded from the disk cache", "before": "compiled before recording began"}
_OUTCOMES = {"disk": "loaded from the disk cache", "wait": "waited for another thread"}
_TRIGGERS = {"launch": "a launch", "eager": "@cuda.jit", "device": "a launch on another device"}
_MOST_USES = 3


def _known(shown: Any, value: Any) -> str | None:
    return None if value is None else shown(value)


def _spills(each: Specialization) -> str | None:
    """Return bytes that a thread stores and loads for registers that it spilled."""
    if each.spill_store_bytes is None or each.spill_load_bytes is None:
        return None
    if not each.spill_store_bytes and not each.spill_load_bytes:
        return "none"
    return f"{bytes_of(each.spill_store_bytes)} stored and {bytes_of(each.spill_load_bytes)} loaded"


def _launches(each: Specialization) -> str:
    if not each.launches:
        return f"{each.captured:,} captured into a graph" if each.captured else "none recorded"
    return f"{each.launches:,}" + (f" and {each.captured:,} more captured into a graph" if each.captured else "")


def _configurations(each: Specialization) -> str:
    """Return the launch configurations with most launches, each with its occupancy and what limits that."""
    found: list[str] = []
    for use in each.uses[:_MOST_USES]:
        limits = f" ({', '.join(use.limited_by)})" if use.limited_by else ""
        occupancy = "" if use.occupancy is None else f": {percent(use.occupancy)}{limits}"
        found.append(f"{base.dims(use.griddim)}, {base.dims(use.blockdim)}{occupancy}")
    return listed(found, _MOST_USES, len(each.uses) - _MOST_USES, "; ") or "not launched"


def _sensitivity(each: Specialization) -> str | None:
    """Describe whether it is launch-config sensitive, and the configuration that it is bound to."""
    if each.launch_config_sensitive is None:
        return None
    if not each.launch_config_sensitive:
        return "no: it does not depend on the launch configuration"
    key = configuration_key(each.launch_config)
    return f"bound to {key}" if key else "depends on the launch configuration; which one was not recorded"


def _cache_files(each: Specialization) -> str | None:
    if not each.compiles:
        return None
    files = [name for made in each.compiles for name in (made.cache_file, made.cache_data_file) if name]
    return ", ".join(dict.fromkeys(files)) or "none: the kernel has no disk cache"


def _is_dims(value: object) -> TypeGuard[list[int]]:
    return isinstance(value, list) and all(isinstance(each, int) for each in value)  # pyright: ignore[reportUnknownVariableType]


# One form of a specialization's code, as it was recorded, or why there is none.

#: Forms of code that are shown; the machine code is disassembled, and what a kernel calls is below its source.
FORMS = tuple(kind for kind in CODE_KINDS if kind not in ("functions", "cubin"))
_SUFFIXES = {"source": "py", "types": "json", "llvm": "ll"}
_FROM_DISK = {
    "types": "Numba infers types while it compiles; this kernel was loaded from the disk cache.",
    "llvm": "The disk cache keeps no LLVM IR; this kernel was loaded from it.",
}


@dataclass(frozen=True)
class Code:
    """One form of a specialization's code.

    Attributes
    ----------
    text : str or None
        The code; None where there is none.
    note, fix : str
        Why there is none, or what to know of it; and what to do. Empty where there is nothing to say.
    first : int
        The number of its first line.
    name : str
        What to call it, as a file's name.
    lines : ndarray or None, shape (lines of the text,), int32
        The source line that each line came from, 0 for none; None where the code has no line information. Of code that
        was inlined it is the line of the kernel's file that it was inlined at.
    chains : tuple of Chain
        The distinct places that its lines came from, an inlined function's first; the kernel's own file has no name.
    ties : ndarray or None, shape (lines of the text,), int32
        The place of each line, an index into `chains`; -1 for none.
    """

    text: str | None
    note: str = ""
    fix: str = ""
    first: int = 1
    name: str = ""
    lines: NDArray[np.int32] | None = None
    chains: tuple[Chain, ...] = ()
    ties: NDArray[np.int32] | None = None


def code_of(recording: Recording, kernel: Kernel, specialization: Specialization, form: str) -> Code:
    """Return one form of the code, as it was recorded, or why there is none.

    Parameters
    ----------
    recording : Recording
        What holds it.
    kernel, specialization
        Which one.
    form : str
        One of `FORMS`.

    Raises
    ------
    ValueError
        The form is none of these.
    CubinError, DisassemblerError
        The machine code is torn; or what disassembles it is not there, or failed.
    """
    if form not in FORMS:
        raise ValueError(f"no code is called {form!r}; known: {', '.join(FORMS)}")
    rows = CodeRows(recording)

    def row(kind: str) -> dict[str, Any] | None:
        return rows.row(kernel.dispatcher_id, specialization.specialization_id, kind)

    note = ""
    found: dict[str, Any] | None = row(form)
    if found is None and form == "sass" and (cubin := row("cubin")) is not None:
        found = {**cubin, "text": _disassembled(cubin["text"], specialization)}
        note = "Disassembled here, from the recorded machine code."
    if found is None:
        return _missing(recording, kernel, specialization, form)
    if json_object(found["attributes"]).get("before_lto"):
        note = "This is the PTX from before link-time optimization; the machine code came out of that."
    if form == "source" and (called := row("functions")) is not None:
        first = found["lineno"] or 1
        text, lines = with_called(found["text"], first, called["text"])
        return replace(_tied(Code(text, note, "", first, _name(kernel, form)), kernel, lines), lines=None)
    code = _with_lines(kernel, form, found["text"], found["lineno"] or 1, note, row("types"))
    if form == "sass" and code.ties is not None and (ptx := row("ptx")) is not None:
        return _with_calls(code, _with_lines(kernel, "ptx", ptx["text"], 1, "", row("types")))
    return code


def copied_code(recording: Recording, kernel: Kernel, specialization: Specialization, form: str,
                texts: Mapping[str, str]) -> Code:
    """Return one form of a copy that was compiled with line information: see `live.with_lineinfo`."""
    if form == "sass" and "sass" not in texts and "cubin" in texts:
        texts = {**texts, "sass": _disassembled(texts["cubin"], specialization)}
    if form not in texts:
        return Code(None, f"The copy has no {CODE_KINDS.get(form, form)}.")
    types = CodeRows(recording).row(kernel.dispatcher_id, specialization.specialization_id, "types")
    return _with_lines(kernel, form, texts[form], 1, "", types)


def _missing(recording: Recording, kernel: Kernel, specialization: Specialization, form: str) -> Code:
    held = bool(specialization.code)
    if not held and not recording.metadata.get("code"):
        return Code(None, "Recorded without code.", f"{HOW_TO_RECORD_CODE[0].upper()}{HOW_TO_RECORD_CODE[1:]}.")
    if form == "llvm" and "mlir" in specialization.code:
        return Code(None, "numba-cuda-mlir writes its LLVM IR down only when it is asked.",
                    "Call the kernel's inspect_llvm() before the recording ends.")
    if held and kernel.framework != "triton" and specialization.origin == "disk" and form in _FROM_DISK:
        return Code(None, _FROM_DISK[form], "Clear the cache and compile it anew to see it.")
    said = [f"This recording holds no {CODE_KINDS[form]} of this specialization"
            + (f"; it holds {', '.join(specialization.code)}." if held else ".")]
    maker = {"types": "Numba", "ttir": "Triton", "ttgir": "Triton"}.get(form)
    if maker is not None and (maker == "Triton") != (kernel.framework == "triton"):
        said = [f"{maker} makes {CODE_KINDS[form]}; this is a kernel of {kernel.framework}."]
    if held and form == "source":
        said.append("It could not be read when it was recorded: that of a function which exec() made is nowhere.")
    said += [f"{row['message']}." for row in recording.rows("health")
             if "the code of some kernels" in (row["message"] or "")]
    return Code(None, " ".join(said))


def _with_lines(kernel: Kernel, form: str, text: str, first: int, note: str, types: Mapping[str, Any] | None) -> Code:
    found = Code(text, note, "", first, _name(kernel, form))
    if form == "source":
        return found
    found = _tied(found, kernel, line_map(form, text))
    if found.lines is not None and form != "types" and types is not None:
        return _without_inlined(found, types["text"], kernel.lineno)
    return found


def _without_inlined(code: Code, types: str, first: int | None) -> Code:
    """Return the code without the lines of what was inlined from other files, and a note on ambiguous ones.

    numba-cuda's line information counts such a function's lines as the kernel's file's; the types know better.
    """
    entries = type_entries(types)
    places = [str(entry["from"]).rpartition(":") for entry in entries if entry.get("from")]
    other = {int(line) for _, _, line in places if line.isdigit()}
    if not other or code.lines is None or code.ties is None:
        return code
    own = {entry.get("line") for entry in entries if not entry.get("from")} | {first}
    isnt_own = np.isin(code.lines, list(other - own))
    lines = np.where(isnt_own, 0, code.lines).astype(np.int32)
    both = sorted(other & own & set(lines.tolist()))
    files = ", ".join(sorted({file for file, _, _ in places}))
    said = (f"Line {', '.join(map(str, both))} may be that of {files} too, of which functions are inlined: line "
            "information does not tell them apart.")
    note = " ".join(each for each in (code.note, said if both else "") if each)
    if not lines.any():
        return replace(code, note=note, lines=None, chains=(), ties=None)
    return replace(code, note=note, lines=lines, ties=np.where(isnt_own, -1, code.ties).astype(np.int32))


def _with_calls(code: Code, ptx: Code) -> Code:
    """Return SASS with the calls around inlined lines that only PTX has; as it is where several calls may be meant."""
    known: dict[tuple[str, int], set[Chain]] = {}
    for chain in ptx.chains:
        for at, place in enumerate(chain):
            known.setdefault(place, set()).add(chain[at + 1:])
    chains: list[Chain] = []
    for chain in code.chains:
        (around, *others) = known.get(chain[-1], {()})
        chains.append(chain if others else chain + around)
    return _placed(code, chains)


def _placed(code: Code, chains: Sequence[Chain]) -> Code:
    """Return the code with these places of its lines, and the lines of the kernel's file that follow from them."""
    # Where a compiler leaves out the calls, code of another file is all that is known.
    within = [next((line for name, line in reversed(chain) if not name), 0) for chain in chains]
    return replace(code, chains=tuple(chains), lines=np.array([*within, 0], dtype=np.int32)[code.ties])


def _name(kernel: Kernel, form: str) -> str:
    return f"{kernel.name.rpartition('.')[2]}.{_SUFFIXES.get(form, form)}"


def _tied(code: Code, kernel: Kernel, found: LineMap) -> Code:
    """Return the code with what each of its lines came from; as it is where it has no line information."""
    if found.is_empty:
        return code
    return _placed(replace(code, ties=np.array(found.chain, dtype=np.int32)), with_own_file(found, kernel.filename))


def _disassembled(text: str, specialization: Specialization) -> str:
    try:
        cubin = base64.b64decode(text, validate=True)
    except ValueError as error:
        raise CubinError(f"the machine code of specialization {specialization.number} is torn: {error}") from None
    return disassemble(cubin)


# `Recording.specializations`.

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
    rows = [_table_row(*held[at]) for at in range(len(held))]
    for name, dtype in _COLUMNS.items():
        kind = frame["signature"].dtype if dtype == "text" else dtype
        frame[name] = pd.Series([row[name] for row in rows], dtype=kind)
    return frame


_COLUMNS = {
    "kernel": "text", "arguments": "text", "launches": "int64", "captured": "int64", "compile_ns": "Int64",
    "median_ns": "float64", "configurations": "int64", "occupancy": "float64", "limited_by": "text",
    "cache_file": "text", "reason_code": "text",
}


def _table_row(kernel: Kernel, each: Specialization) -> dict[str, Any]:
    known = [use for use in each.uses if use.occupancy is not None]
    least = min(known, key=lambda use: use.occupancy or 0.0, default=None)
    made = each.first_compile
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
