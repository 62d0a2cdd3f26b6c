"""The inspector's kernels as an answer for programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, TypedDict

from kernelscope.recording.model import Recording
from kernelscope.units import counted, listed
from kernelscope.views.answer import Answer, Facts, HealthMembers, Many, answer
from kernelscope.views.base import shorten
from kernelscope.views.card.answer import health_of
from kernelscope.views.inspector.model import Compile, Kernel, Specialization, Use


class StepMembers(TypedDict):
    """A step of a compile."""

    kind: str
    name: str
    duration_ns: int | None


class SpecializationCompileMembers(TypedDict):
    """A compile of a specialization."""

    outcome: str
    trigger: str
    duration_ns: int | None
    reason_code: str
    reason: str
    fix: str | None
    cell: str | None
    cache_file: str | None
    longest_steps: Many[StepMembers]


class UseMembers(TypedDict):
    """A launch configuration of a specialization."""

    griddim: Many[int] | None
    blockdim: Many[int] | None
    cluster: Many[int] | None
    sharedmem_bytes: int | None
    launches: int
    median_ns: float | None
    execute_ns: float | None
    occupancy: float | None
    active_blocks: int | None
    limited_by: Many[str]


class SpecializationMembers(TypedDict):
    """A specialization of a kernel."""

    number: int
    signature: str
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
    launch_config: Any
    compile_ns: int | None
    launches: int
    captured: int
    host_ns: int | None
    median_ns: float | None
    code: Annotated[Many[str], "the forms of code that the recording has"]
    uses: Many[UseMembers]
    compiles: Many[SpecializationCompileMembers]
    attributes: Annotated[Facts, "what the framework alone has"]


class InspectedKernelMembers(TypedDict):
    """A kernel, with its specializations."""

    dispatcher_id: int
    name: str
    framework: str
    module: str | None
    filename: str | None
    lineno: int | None
    options: Facts
    arguments: Many[str]
    launches: int
    compile_ns: int | None
    specializations: Many[SpecializationMembers]


class KernelsAnswer(Answer):
    """What kernelscope inspect says."""

    health: HealthMembers
    kernels: Many[InspectedKernelMembers]


def kernels_answer(recording: Recording, kernels: Sequence[Kernel], limit: int | None = None) -> dict[str, Any]:
    """Return some of a recording's kernels with their specializations, uses and compiles.

    It is bounded as `kernelscope.views.answer.answer` says.
    """
    specializations = sum(len(each.specializations) for each in kernels)
    names = listed([shorten(each.name, 40) for each in kernels])
    verdict = f"{counted(len(kernels), 'kernel')} in {counted(specializations, 'specialization')}"
    return answer(KernelsAnswer, {"verdict": f"{verdict}{f': {names}' if names else ''}.", 
                              "health": health_of(recording), "kernels": Many(kernels, _kernel)}, limit)


def _kernel(each: Kernel) -> InspectedKernelMembers:
    return {
        "dispatcher_id": each.dispatcher_id, "name": each.name, "framework": each.framework, "module": each.module,
        "filename": each.filename, "lineno": each.lineno, "options": Facts(each.options),
        "arguments": Many(each.arguments, weight=2), "launches": each.launches, "compile_ns": each.compile_ns,
        "specializations": Many(each.specializations, _specialization),
    }


def _specialization(each: Specialization) -> SpecializationMembers:
    return {
        "number": each.number, "signature": each.signature, "compute_capability": each.compute_capability,
        "regs": each.regs, "max_threads": each.max_threads, "static_shared_bytes": each.static_shared_bytes,
        "local_bytes": each.local_bytes, "const_bytes": each.const_bytes,
        "spill_store_bytes": each.spill_store_bytes, "spill_load_bytes": each.spill_load_bytes,
        "cubin_bytes": each.cubin_bytes, "origin": each.origin,
        "launch_config_sensitive": each.launch_config_sensitive,
        "launch_config": None if each.launch_config is None else Facts(each.launch_config),
        "compile_ns": each.compile_ns, "launches": each.launches, "captured": each.captured, "host_ns": each.host_ns,
        "median_ns": each.median_ns, "code": Many(each.code, weight=3), "uses": Many(each.uses, _use),
        "compiles": Many(each.compiles, _compile), "attributes": Facts(each.attributes),
    }


def _use(each: Use) -> UseMembers:
    return {
        "griddim": _dimensions(each.griddim), "blockdim": _dimensions(each.blockdim),
        "cluster": _dimensions(each.cluster), "sharedmem_bytes": each.sharedmem_bytes,
        "launches": each.launches, "median_ns": each.median_ns, "execute_ns": each.execute_ns,
        "occupancy": each.occupancy, "active_blocks": each.active_blocks, "limited_by": Many(each.limited_by),
    }


def _dimensions(values: Sequence[int] | None) -> Many[int] | None:
    return None if values is None else Many(values, weight=3)


def _compile(each: Compile) -> SpecializationCompileMembers:
    steps = sorted(each.steps, key=lambda step: -step.duration_ns)
    return {
        "outcome": each.outcome, "trigger": each.trigger, "duration_ns": each.duration_ns,
        "reason_code": each.reason_code, "reason": each.reason, "fix": each.fix, "cell": each.cell,
        "cache_file": each.cache_file,
        "longest_steps": Many(steps, lambda step: {
            "kind": step.kind, "name": step.name, "duration_ns": step.duration_ns}),
    }
