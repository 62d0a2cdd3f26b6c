"""The inspector's kernels as an answer for programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kernelscope.recording.model import Recording
from kernelscope.units import counted, listed
from kernelscope.views.answer import Facts, Many, answer
from kernelscope.views.base import shorten
from kernelscope.views.card.answer import health_of
from kernelscope.views.inspector.model import Compile, Kernel, Specialization, Use

Members = dict[str, Any]


def kernels_answer(recording: Recording, kernels: Sequence[Kernel], limit: int | None = None) -> Members:
    """Return some of a recording's kernels with their specializations, uses and compiles.

    It is bounded as `kernelscope.views.answer.answer` says.
    """
    specializations = sum(len(each.specializations) for each in kernels)
    names = listed([shorten(each.name, 40) for each in kernels])
    verdict = f"{counted(len(kernels), 'kernel')} in {counted(specializations, 'specialization')}"
    return answer("kernels", {"verdict": f"{verdict}{f': {names}' if names else ''}.", 
                              "health": health_of(recording), "kernels": Many(kernels, _kernel)}, limit)


def _kernel(each: Kernel) -> Members:
    return {
        "dispatcher_id": each.dispatcher_id, "name": each.name, "framework": each.framework, "module": each.module,
        "filename": each.filename, "lineno": each.lineno, "options": Facts(each.options),
        "arguments": Many(each.arguments, weight=2), "launches": each.launches, "compile_ns": each.compile_ns,
        "specializations": Many(each.specializations, _specialization),
    }


def _specialization(each: Specialization) -> Members:
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


def _use(each: Use) -> Members:
    return {
        **{name: dims and Many(dims, weight=3) for name, dims in (
            ("griddim", each.griddim), ("blockdim", each.blockdim), ("cluster", each.cluster))},
        "sharedmem_bytes": each.sharedmem_bytes,
        "launches": each.launches, "median_ns": each.median_ns, "execute_ns": each.execute_ns,
        "occupancy": each.occupancy, "active_blocks": each.active_blocks, "limited_by": Many(each.limited_by),
    }


def _compile(each: Compile) -> Members:
    steps = sorted(each.steps, key=lambda step: -step.duration_ns)
    return {
        "outcome": each.outcome, "trigger": each.trigger, "duration_ns": each.duration_ns,
        "reason_code": each.reason_code, "reason": each.reason, "fix": each.fix, "cell": each.cell,
        "cache_file": each.cache_file,
        "longest_steps": Many(steps, lambda step: {
            "kind": step.kind, "name": step.name, "duration_ns": step.duration_ns}),
    }
