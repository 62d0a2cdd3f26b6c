"""Totals by specialization: which overloads exist, where they came from and how much they ran."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kernelscope.analysis.columns import count_by, ints, matches, percentiles_by, ran, row_count, sum_by
from kernelscope.analysis.phases import LaunchPhases, launch_phases
from kernelscope.recording.model import Recording


@dataclass(frozen=True)
class SpecializationSummary:
    """One compiled overload; what was not recorded is None.

    Attributes
    ----------
    specialization_id, dispatcher_id : int
        Its row in ``specializations``, and the kernel.
    signature : str
        Argument types.
    origin : str
        compiled, disk, or before (it was there when recording began).
    compute_capability : str or None
        What it was compiled for.
    launch_config_sensitive : bool or None
        Whether it depends on the launch configuration (LC-S).
    launch_config : str or None
        The launch configuration it is bound to, as JSON.
    launches, captured : int
        Launches that ran it, and those that went into the capture of a graph.
    host_ns : int
        Their own host time.
    median_ns : float or None
        Own host time a launch.
    compile_ns : int or None
        What compiling or loading it took here; None where that was before the recording.
    regs, max_threads : int or None
        Registers a thread, and threads a block at most.
    static_shared_bytes, local_bytes, const_bytes, cubin_bytes : int or None
        Shared memory a block, local memory a thread, constant memory, machine code.
    """

    specialization_id: int
    dispatcher_id: int
    signature: str
    origin: str
    compute_capability: str | None
    launch_config_sensitive: bool | None
    launch_config: str | None
    launches: int
    captured: int
    host_ns: int
    median_ns: float | None
    compile_ns: int | None
    regs: int | None
    max_threads: int | None
    static_shared_bytes: int | None
    local_bytes: int | None
    const_bytes: int | None
    cubin_bytes: int | None


def by_specialization(
    recording: Recording, phases: LaunchPhases | None = None
) -> dict[int, list[SpecializationSummary]]:
    """Summarize overloads by kernel (dispatcher id), most launches first."""
    size = row_count(recording, "specializations")
    if not size:
        return {}
    phases = phases or launch_phases(recording)
    launched = ints(recording, "launches", "specialization_id")
    run = ran(recording)
    launches, captured = count_by(launched, size, run), count_by(launched, size, ~run)
    host = sum_by(launched, phases.own_ns, size)
    medians = percentiles_by(launched, phases.own_ns, size, (0.5,))[:, 0]
    # Threads that waited meanwhile did not compile.
    waited = matches(recording, "compilations", "outcome", "wait")
    made = np.where(waited, -1, ints(recording, "compilations", "specialization_id"))
    spent = ints(recording, "compilations", "end_ns") - ints(recording, "compilations", "start_ns")
    compiled = count_by(made, size)
    compile_ns = sum_by(made, spent, size)

    result: dict[int, list[SpecializationSummary]] = {}
    rows = recording.rows("specializations")
    for row in sorted(rows, key=lambda row: (-launches[row["specialization_id"]], row["specialization_id"])):
        at = int(row["specialization_id"])
        result.setdefault(int(row["dispatcher_id"]), []).append(SpecializationSummary(
            specialization_id=at,
            dispatcher_id=int(row["dispatcher_id"]),
            signature=str(row["signature"]),
            origin=str(row["origin"]),
            compute_capability=row["compute_capability"],
            launch_config_sensitive=row["launch_config_sensitive"],
            launch_config=row["launch_config"],
            launches=int(launches[at]),
            captured=int(captured[at]),
            host_ns=int(host[at]),
            median_ns=float(medians[at]) if np.isfinite(medians[at]) else None,
            compile_ns=int(compile_ns[at]) if compiled[at] else None,
            regs=row["regs"],
            max_threads=row["max_threads"],
            static_shared_bytes=row["static_shared_bytes"],
            local_bytes=row["local_bytes"],
            const_bytes=row["const_bytes"],
            cubin_bytes=row["cubin_bytes"],
        ))
    return result
