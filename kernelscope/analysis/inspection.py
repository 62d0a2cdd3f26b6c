"""What the inspector shows: each kernel's specializations with their resources, configurations, compiles and code.

The same facts for every view: the widget, its static picture, the text of ``kernelscope inspect``, and the columns of
``Recording.specializations``. Nothing here needs a GPU, numba or the tools that disassemble.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

# Names of arguments are part of what the inspector's views are made from.
from kernelscope.analysis.arguments import argument_name as argument_name
from kernelscope.analysis.arguments import argument_names as argument_names
from kernelscope.analysis.arguments import named_arguments as named_arguments
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
from kernelscope.analysis.configurations import Dims, dims
from kernelscope.analysis.occupancy import limited_by
from kernelscope.analysis.phases import LaunchPhases, launch_phases
from kernelscope.analysis.reasons import explain
from kernelscope.recording.model import Recording

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
