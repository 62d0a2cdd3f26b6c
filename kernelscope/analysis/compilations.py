"""Compiles and disk-cache loads with their reasons, one dataclass a row."""

from __future__ import annotations

from dataclasses import dataclass

from kernelscope.analysis.columns import ints, owner_of, union_ns
from kernelscope.analysis.reasons import explain
from kernelscope.recording.model import Recording


@dataclass(frozen=True)
class CompilationSummary:
    """One compile, or one load from the disk cache.

    Attributes
    ----------
    compilation_id, dispatcher_id : int
        Its row in ``compilations``, and the kernel.
    name, framework : str
        The kernel's qualified name, and its framework.
    signature : str
        Argument types that were asked for.
    trigger, outcome : str
        Who asked for it (launch, eager, specialize, recompile...), and what came of it (compiled, disk, wait,
        failed).
    duration_ns : int
        From asking to the end; 0 where the end was not seen.
    wait_ns : int or None
        Of that, waiting for numba's global compiler lock.
    configuration_id : int or None
        The launch configuration seen while compiling.
    reason_code : str
        See `kernelscope.analysis.reasons`.
    reason : str
        The same as a sentence.
    fix, error : str or None
        What would avoid it; the exception that it raised.
    launch_config_sensitive : bool or None
        Whether the result depends on the launch configuration.
    cached_on_disk : bool
        Whether the kernel has a disk cache.
    owner : str or None
        Whose kernel it is: see the table ``dispatchers``.
    """

    compilation_id: int
    dispatcher_id: int
    name: str
    signature: str
    trigger: str
    outcome: str
    duration_ns: int
    wait_ns: int | None
    configuration_id: int | None
    reason_code: str
    reason: str
    fix: str | None
    error: str | None
    launch_config_sensitive: bool | None
    cached_on_disk: bool
    framework: str = "numba-cuda"
    owner: str | None = None


def compilations(recording: Recording) -> list[CompilationSummary]:
    """Return every compile and disk-cache load with its reason, longest first."""
    recording = explain(recording)
    names = {row["dispatcher_id"]: str(row["name"]) for row in recording.rows("dispatchers")}
    frameworks = {row["dispatcher_id"]: str(row["framework"]) for row in recording.rows("dispatchers")}
    owners = {row["dispatcher_id"]: owner_of(row) for row in recording.rows("dispatchers")}
    summaries = [
        CompilationSummary(
            compilation_id=row["compilation_id"],
            dispatcher_id=row["dispatcher_id"],
            name=names.get(row["dispatcher_id"], "?"),
            signature=row["signature"],
            trigger=row["trigger"],
            outcome=row["outcome"],
            duration_ns=0 if row["end_ns"] is None else row["end_ns"] - row["start_ns"],
            wait_ns=row["wait_ns"],
            configuration_id=row["configuration_id"],
            reason_code=row["reason_code"],
            reason=row["reason"] or "",
            fix=row["fix"],
            error=row["error"],
            launch_config_sensitive=row["launch_config_sensitive"],
            cached_on_disk=row["cache_file"] is not None,
            framework=frameworks.get(row["dispatcher_id"], "?"),
            owner=owners.get(row["dispatcher_id"]),
        )
        for row in recording.rows("compilations")
    ]
    return sorted(summaries, key=lambda each: (-each.duration_ns, each.compilation_id))


def compile_ns(recording: Recording) -> int:
    """Return the time in which a thread was compiling or loading, a compile inside another counted once."""
    return union_ns(
        ints(recording, "compilations", "start_ns"),
        ints(recording, "compilations", "end_ns"),
        ints(recording, "compilations", "thread_id"),
    )
