"""The card as an answer for programs: the same facts, as numbers with their units in the members' names.

Each member behind its head is a function of an `Overview`, listed in `PARTS` or declared by a feature: who needs one of
them asks for that alone.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Annotated, Any, TypedDict, cast

from kernelscope.analysis.activities import KernelExecution, Spread
from kernelscope.analysis.advice import Advice
from kernelscope.analysis.builds import BuildSummary, Miss
from kernelscope.analysis.compiles import CompilationSummary
from kernelscope.analysis.graphs import GraphSummary
from kernelscope.analysis.launches import CellSummary, KernelSummary
from kernelscope.analysis.lines import LineSummary, Source, SourceLine
from kernelscope.analysis.processes import Comparison, ProcessSummary
from kernelscope.analysis.ranges import RangeSummary, as_tree
from kernelscope.analysis.savings import GPU, NEXT_SESSION, WALL
from kernelscope.analysis.tuning import Tuning
from kernelscope.recording.driver import FRAMEWORK as DRIVER
from kernelscope.recording.model import Recording
from kernelscope.recording.redact import shareable
from kernelscope.registry import features, loaded
from kernelscope.units import listed
from kernelscope.views.answer import (
    Answer,
    HealthMembers,
    Long,
    Many,
    OneOf,
    ProbeMembers,
    WrittenMembers,
    answer,
)
from kernelscope.views.base import defined_at
from kernelscope.views.card import labels
from kernelscope.views.card.blocks import Card
from kernelscope.views.card.model import HealthRow, Overview
from kernelscope.views.card.sections import alike_compiles, card_from, ranked_lines
from kernelscope.views.card.verdict import groups
from kernelscope.views.parts import part_label


class CountsMembers(TypedDict):
    """How many of each there are in a recording."""

    launches: int
    kernels: int
    specializations: int
    configurations: int
    compiles: int | None
    failed_compiles: int | None
    memory_hits: int | None
    disk_hits: int | None
    waits: int
    errors: int
    captured: int
    trials: Annotated[int, "launches of an autotuner's benchmarks, not among the others"]
    nested: int
    graph_launches: int
    threads: int
    compile_ns: int | None
    compile_wait_ns: int | None
    launch_host_ns: int | None
    gpu_kernels: int | None
    synchronize_ns: int | None


class RecordingMembers(TypedDict):
    """What was recorded, where and how."""

    title: str
    status: str | None
    device: str | None
    schema_version: Annotated[int | None, "of the recording's tables"]
    detail: str | None
    redacted: bool
    frameworks: Many[str]
    cells: Annotated[int, "that have a wall time"]
    wall_ns: int | None


class FirstMembers(TypedDict):
    """What to do first: the advice with the largest effect."""

    text: str
    effect: Annotated[str | None, "at most what it saves"]


class TimePartMembers(TypedDict):
    """A part of the cells' wall time."""

    part: str
    what: str
    duration_ns: int
    share: Annotated[float, "of the wall time, 0 to 1"]


class TimeMembers(TypedDict):
    """Where the cells' wall time went."""

    wall_ns: int
    parts: Annotated[Many[TimePartMembers], "they add up to the wall time, longest first"]


class CompileMembers(TypedDict):
    """Compiles that are alike."""

    kernel: str
    outcome: str
    times: Annotated[int, "compiles that are alike are one row"]
    duration_ns: Annotated[int, "of all of them"]
    why: Annotated[str, "in brief"]
    fix: Annotated[str | None, "what would avoid it"]
    reason_code: str
    reason: str
    signature: str
    asked: Annotated[str, "who asked for it"]
    framework: str
    cached_on_disk: bool | None
    error: str | None


class KernelMembers(TypedDict):
    """A kernel, with its launches."""

    kernel: str
    framework: str
    place: Annotated[str, "where it is defined"]
    launches: int
    host_ns: int | None
    host_share: Annotated[float | None, "of the host time in all launches"]
    median_ns: Annotated[float | None, "of a launch on the host, without compiles"]
    p99_ns: Annotated[float | None, "of a launch on the host, without compiles"]
    max_ns: Annotated[float | None, "of a launch on the host, without compiles"]
    compiles: int | None
    compile_ns: int | None
    memory_hits: int | None
    disk_hits: int | None
    specializations: int
    configurations: int
    gpu_runs: int | None
    gpu_ns: Annotated[float | None, "of its runs on the GPU"]
    gpu_median_ns: Annotated[float | None, "of its runs on the GPU"]
    gpu_max_ns: Annotated[float | None, "of its runs on the GPU"]
    registers: Annotated[Sequence[float] | None, "least and most"]
    occupancy: Annotated[Sequence[float] | None, "least and most"]
    notes: Many[str]


class LineMembers(TypedDict):
    """A line of code, with what it took."""

    file: str
    line: int
    function: str | None
    text: Annotated[str | None, "the recorded line of code: data"]
    launches: int
    host_ns: int | None
    compiles: int
    compile_ns: int | None
    cuda_calls_ns: int | None
    gpu_ns: int | None
    wait_ns: int | None
    copied_bytes: int | None
    cost_ns: Annotated[int, "what it took on the host, by which lines are ordered"]
    kernels: Many[str]


class AdviceMembers(TypedDict):
    """What would save time."""

    code: str
    text: Long
    kernel: str | None
    saves_at_most_ns: float | None
    saves_of: Annotated[str, OneOf((WALL, GPU, NEXT_SESSION))]
    is_certain: bool


class DeviceMembers(TypedDict):
    """A GPU, with how busy it was."""

    device: str | None
    window_ns: int
    busy_ns: int
    kernel_ns: int
    graph_ns: Annotated[int,
        "time in which graphs ran that were traced as a whole, and no kernel that is known"]
    busy_share: float | None
    while_idle: Annotated[str | None, "what the host did while it idled"]


class CopyMembers(TypedDict):
    """Copies in one direction."""

    direction: str
    copies: int
    size_bytes: int | None
    copy_ns: int | None
    hidden_ns: Annotated[int | None, "while kernels ran"]
    pageable_bytes: int | None
    bytes_per_second: float | None


class GpuMembers(TypedDict):
    """What the GPU did."""

    source: str
    kernels: int
    execute_ns: float | None
    execute_median_ns: float | None
    execute_max_ns: float | None
    queue_ns: Annotated[float | None, "from a launch's submit to the kernel's start"]
    queue_median_ns: Annotated[float | None, "from a launch's submit to the kernel's start"]
    queue_max_ns: Annotated[float | None, "from a launch's submit to the kernel's start"]
    clock_error_ns: float | None
    devices: Many[DeviceMembers]
    copies: Many[CopyMembers]


class CellMembers(TypedDict):
    """A cell."""

    cell: str
    process: str | None
    status: str | None
    error: str | None
    launches: int
    kernels: int
    compiles: int | None
    memory_hits: int | None
    disk_hits: int | None
    host_ns: int | None
    wall_ns: int | None
    gpu_busy_share: float | None


class ProcessMembers(TypedDict):
    """A process."""

    process: str
    status: str
    host: str | None
    pid: int | None
    launches: int
    host_ns: int | None
    compiles: int | None
    compile_ns: int | None
    gpu_busy_ns: int | None
    wait_ns: int | None
    communication_ns: int | None
    exposed_communication_ns: int | None
    clock_bound_ns: float | None


class ProcessesMembers(TypedDict):
    """Processes of a merged recording."""

    facts: Many[str]
    processes: Annotated[Many[ProcessMembers], "those that did not end well first"]


class TuningMembers(TypedDict):
    """An autotuner's benchmarks of a kernel."""

    kernel: str
    outcome: str
    duration_ns: int
    compile_ns: int | None
    trials: int
    result: str
    gpu_trials_ns: int | None
    gpu_cache_flush_ns: int | None
    gpu_others_ns: int | None
    reason_code: str | None
    reason: str | None
    fix: str | None


class MissMembers(TypedDict):
    """A request to a build cache that was no hit."""

    outcome: str
    duration_ns: int | None
    why: str
    fix: str | None


class BuildMembers(TypedDict):
    """An algorithm, with the requests to its build cache."""

    algorithm: str
    framework: str
    requests: int
    hits: int
    misses: int
    waits: int
    failed: int
    host_ns: int | None
    build_ns: int | None
    not_hits: Many[MissMembers]


class GraphSummaryMembers(TypedDict):
    """CUDA graphs that are alike."""

    graph: str
    graph_ids: Many[int]
    nodes: int | None
    edges: int | None
    kernels: Many[str]
    builds: int
    rebuilds: int
    rebuild_ns: int | None
    updates: int
    refused_updates: int
    launches: int
    build_ns: float | None
    build_median_ns: float | None
    build_max_ns: float | None
    launch_ns: float | None
    launch_median_ns: float | None
    launch_max_ns: float | None
    gpu_ns: float | None
    gpu_median_ns: float | None
    gpu_max_ns: float | None
    notes: Many[str]


class RangeMembers(TypedDict):
    """A range that the program named."""

    path: str
    ranges: int
    unclosed: int
    inclusive_ns: int | None
    exclusive_ns: int | None
    median_ns: float | None
    max_ns: float | None
    launches: int
    host_ns: int | None
    gpu_ns: int | None
    other_launches: Annotated[int | None,
        "launches that other threads made while the range's own thread waited in it; in no other "
        "figure"]
    other_host_ns: int | None
    other_gpu_ns: int | None


class CallMembers(TypedDict):
    """Calls of one function of CUDA."""

    function: str
    calls: int
    total_ns: int | None
    median_ns: float | None
    max_ns: float | None


class LongLaunchMembers(TypedDict):
    """A launch that took far longer than others of its kernel."""

    launch_id: int
    kernel: str
    launching_ns: int
    phase: str | None
    phase_ns: int
    is_first: bool
    meanwhile: str | None


class OutliersMembers(TypedDict):
    """Launches that took far longer than others."""

    launches: int
    of: int
    spent_ns: int
    of_ns: int
    longest: Many[LongLaunchMembers]


class HeadMembers(Answer):
    """What an answer about a recording begins with."""

    stands_out: Annotated[str | None, "which launches took far longer than others"]
    first: FirstMembers | None
    problems: Many[str]
    recording: RecordingMembers
    health: HealthMembers
    counts: CountsMembers


class RecordingAnswer(HeadMembers, total=False):
    """What the card says of a recording: kernelscope show, run, and the tools of kernelscope mcp."""

    written: Many[WrittenMembers] | None
    time: TimeMembers | None
    compiles: Many[CompileMembers]
    kernels: Many[KernelMembers]
    lines: Many[LineMembers]
    advice: Many[AdviceMembers]
    gpu: GpuMembers | None
    cells: Many[CellMembers]
    processes: ProcessesMembers | None
    tunings: Many[TuningMembers]
    builds: Many[BuildMembers]
    graphs: Many[GraphSummaryMembers]
    ranges: Many[RangeMembers]
    calls: Many[CallMembers]
    outliers: OutliersMembers | None


def recording_answer(recording: Recording, limit: int | None = None, parts: Collection[str] | None = None,
                     members: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return what the card says of a recording, as `kernelscope.views.answer.answer` does.

    Parameters
    ----------
    recording : Recording
        What to say it of; paths of this machine are cut, as in any saved file.
    limit : int, optional
        How many rows a list may have.
    parts : collection of str, optional
        The members beside the head, by name; all that there is anything to say of by default.
    members : mapping, optional
        What else it says, behind the head: ``written``.
    """
    return answer(RecordingAnswer, recording_members(recording, parts, members), limit)


def recording_members(recording: Recording, parts: Collection[str] | None = None,
                      members: Mapping[str, Any] | None = None) -> RecordingAnswer:
    """Return the members of the same answer, with all rows that there are."""
    shown = Overview(shareable(recording))
    made = {name: part(shown) for name, part in {**PARTS, **_of_features()}.items() if parts is None or name in parts}
    # What a recording has nothing of is no part of a whole answer, but an answer to who asks for it.
    return cast(RecordingAnswer, {**head(shown, recording), **(members or {}), **{
        name: part for name, part in made.items() if parts is not None or _says(part)}})


def _says(part: Any) -> bool:
    return part is not None and (not isinstance(part, Many) or bool(cast(Many[Any], part).source))


def head(shown: Overview, recording: Recording) -> HeadMembers:
    """Return what every answer about a recording begins with: the verdict, how complete it is, and what it cost."""
    card = card_from(shown)
    return {
        "verdict": " ".join(card.verdict) or "The cells' wall time was not recorded.",
        "stands_out": card.stands_out or None,
        "first": None if card.action is None else {"text": card.action.text, "effect": card.action.effect or None},
        "problems": Many([f"{label}: {text}" if label else text for label, text in card.problems]),
        "recording": {
            "title": shown.title, "status": shown.status or None, "device": shown.device,
            "schema_version": recording.metadata.get("schema_version"), "detail": shown.detail,
            "redacted": recording.metadata.get("redacted") is True,
            "frameworks": Many(shown.frameworks), "cells": shown.timed_cells, "wall_ns": shown.wall_ns,
        },
        "health": _health(shown, card, recording),
        "counts": _counts(shown),
    }


def health_of(recording: Recording) -> HealthMembers:
    """Return whether a recording is complete, what it lacks, and what it cost, as every answer about one has it."""
    shown = Overview(shareable(recording))
    return _health(shown, card_from(shown), recording)


def _health(shown: Overview, card: Card, recording: Recording) -> HealthMembers:
    lost = None if shown.kept is None else shown.kept.lost
    dropped = sum(row.dropped or 0 for row in shown.health)
    is_whole = not (lost or dropped or shown.unfinished or shown.reversed_cells
                    or any(row.is_trouble for row in shown.health))
    cost = shown.cost
    return {
        "complete": is_whole, "dry_run": recording.is_dry_run, "simulated": recording.is_simulated,
        "notice": shown.notice or None, "dropped_records": dropped, "lost_launches": lost,
        "unfinished_launches": sum(shown.unfinished.values()),
        "own_cost": None if cost is None else {
            "total_ns": cost.total_ns, "launch_ns": cost.launch_ns, "share_of_wall": cost.share,
            "known_by": cost.kind or None},
        "lines": Many([f"{each.text} {each.fix}".strip() for each in card.health]),
        "probes": Many([*sorted(shown.health, key=lambda row: not row.is_trouble)], _probe),
    }


def _probe(row: HealthRow) -> ProbeMembers:
    return {"probe": row.probe, "status": row.status, "message": row.message, "fix": row.fix, "dropped": row.dropped,
            "errors": row.errors, "clock_error_ns": row.clock_error_ns, "process": row.process or None}


def _counts(shown: Overview) -> CountsMembers:
    def compiling(value: int | None) -> int | None:
        """Return a count of what the trace of another tool does not say."""
        return None if shown.is_imported else value

    return {
        "launches": shown.launches, "kernels": shown.kernels, "specializations": shown.specializations,
        "configurations": shown.configurations, "compiles": compiling(shown.compiles),
        "failed_compiles": compiling(shown.failed_compiles), "memory_hits": compiling(shown.memory_hits),
        "disk_hits": compiling(shown.disk_hits), "waits": shown.waits, "errors": shown.errors,
        "captured": shown.captured, "trials": shown.trials, "nested": shown.nested,
        "graph_launches": shown.graph_launches, "threads": shown.threads,
        "compile_ns": compiling(shown.compile_ns), "compile_wait_ns": compiling(shown.compile_wait_ns),
        "launch_host_ns": shown.totals.host_ns, "gpu_kernels": None if shown.gpu is None else shown.gpu.kernels,
        "synchronize_ns": shown.synchronize_ns}


def _time(shown: Overview) -> TimeMembers | None:
    """Return the parts of the cells' wall time, which add up to it, longest first."""
    time = shown.time
    if time is None or not time.wall_ns:
        return None
    return {"wall_ns": time.wall_ns, "parts": Many(groups(time), lambda each: {
        "part": each[0], "what": part_label(each[0]), "duration_ns": each[1], "share": each[1] / time.wall_ns})}


def _compiles(shown: Overview) -> Many[CompileMembers]:
    return Many(alike_compiles(shown), _compile)


def _compile(alike: Sequence[CompilationSummary]) -> CompileMembers:
    each = alike[0]
    return {
        "kernel": each.name, "outcome": labels.outcome(each), "times": len(alike),
        "duration_ns": sum(one.duration_ns for one in alike), "why": labels.compile_reason(each), "fix": each.fix,
        "reason_code": each.reason_code, "reason": each.reason, "signature": each.signature,
        "asked": labels.trigger(each), "framework": each.framework, "cached_on_disk": each.cached_on_disk,
        "error": each.error,
    }


def _kernels(shown: Overview) -> Many[KernelMembers]:
    host = shown.totals.host_ns
    runs: dict[int, KernelExecution] = {}

    def row(kernel: KernelSummary) -> KernelMembers:
        if shown.gpu is not None:
            runs.update(shown.gpu.execution.by_id([kernel.dispatcher_id]))
        ran = runs.get(kernel.dispatcher_id)
        gpu_ns, gpu_median_ns, gpu_max_ns = _spread(None if ran is None else ran.execute)
        is_hooked = kernel.framework != DRIVER
        return {
            "kernel": kernel.name, "framework": kernel.framework,
            "place": defined_at(kernel.framework, kernel.module, kernel.filename, kernel.lineno, shown.frameworks),
            "launches": kernel.launches, "host_ns": kernel.host_ns,
            "host_share": kernel.host_ns / host if host and kernel.host_ns is not None else None,
            "median_ns": kernel.median_ns, "p99_ns": kernel.p99_ns, "max_ns": kernel.max_ns,
            "compiles": kernel.compiles if is_hooked else None, "compile_ns": kernel.compile_ns if is_hooked else None,
            "memory_hits": kernel.memory_hits if is_hooked else None,
            "disk_hits": kernel.disk_hits if is_hooked else None,
            "specializations": kernel.specializations, "configurations": kernel.configurations,
            "gpu_runs": None if ran is None else ran.kernels, "gpu_ns": gpu_ns,
            "gpu_median_ns": gpu_median_ns, "gpu_max_ns": gpu_max_ns,
            "registers": kernel.regs, "occupancy": kernel.occupancy, "notes": Many(labels.launch_notes(kernel)),
        }

    return Many(shown.by_kernel, row)


def _spread(spread: Spread | None) -> tuple[float | None, float | None, float | None]:
    """Return the sum, the median and the largest."""
    return (None, None, None) if spread is None else (spread.total_ns, spread.p50_ns, spread.max_ns)


def _lines(shown: Overview) -> Many[LineMembers]:
    return Many([] if shown.code is None else ranked_lines(shown.code), _line)


def _line(found: tuple[Source, SourceLine, LineSummary]) -> LineMembers:
    source, line, done = found
    return {
        "file": source.file, "line": line.number, "function": done.function or source.function, "text": line.text,
        "launches": done.launches, "host_ns": done.host_ns, "compiles": done.compiles, "compile_ns": done.compile_ns,
        "cuda_calls_ns": done.call_ns, "gpu_ns": done.gpu_ns, "wait_ns": done.wait_ns,
        "copied_bytes": done.copied_bytes, "cost_ns": done.cost_ns, "kernels": Many(done.kernels),
    }


def _advice(shown: Overview) -> Many[AdviceMembers]:
    return Many(shown.advice, _advised)


def _advised(each: Advice) -> AdviceMembers:
    return {"code": each.code, "text": Long(each.text), "kernel": each.kernel or None,
            "saves_at_most_ns": each.saves_ns if each.saves_ns > 0 else None, "saves_of": each.saves_of,
            "is_certain": each.is_certain}


def _gpu(shown: Overview) -> GpuMembers | None:
    gpu = shown.gpu
    if gpu is None:
        return None
    execute_ns, execute_median_ns, execute_max_ns = _spread(gpu.execute)
    queue_ns, queue_median_ns, queue_max_ns = _spread(gpu.queue)
    idle = {each.device_id: each for each in gpu.idle}
    return {
        "source": gpu.source, "kernels": gpu.kernels, "execute_ns": execute_ns,
        "execute_median_ns": execute_median_ns, "execute_max_ns": execute_max_ns, "queue_ns": queue_ns,
        "queue_median_ns": queue_median_ns, "queue_max_ns": queue_max_ns, "clock_error_ns": gpu.clock_error_ns,
        "devices": Many(gpu.busy, lambda each: {
            "device": None if each.device_id is None else gpu.devices.get(each.device_id, str(each.device_id)),
            "window_ns": each.window_ns, "busy_ns": each.busy_ns, "kernel_ns": each.kernel_ns,
            "graph_ns": each.graph_ns, "busy_share": each.share,
            "while_idle": labels.idle_line(idle[each.device_id], each.window_ns) or None
            if each.device_id in idle and idle[each.device_id].idle_ns else None}),
        "copies": Many(gpu.copies, lambda each: {
            "direction": each.direction, "copies": each.copies, "size_bytes": each.size_bytes, "copy_ns": each.copy_ns,
            "hidden_ns": each.hidden_ns, "pageable_bytes": each.pageable_bytes,
            "bytes_per_second": each.bytes_per_second}),
    }


def _cells(shown: Overview) -> Many[CellMembers]:
    busy: Mapping[int, float] = {} if shown.gpu is None else shown.gpu.by_cell

    def row(each: CellSummary) -> CellMembers:
        return {
            "cell": each.label, "process": each.process or None, "status": each.status or None, "error": each.error,
            "launches": each.launches, "kernels": each.kernels,
            "compiles": None if shown.is_imported else each.compiles,
            "memory_hits": None if shown.is_imported else each.memory_hits,
            "disk_hits": None if shown.is_imported else each.disk_hits, "host_ns": each.totals.host_ns,
            "wall_ns": each.wall_ns, "gpu_busy_share": None if each.cell_id is None else busy.get(each.cell_id)}

    return Many(shown.by_cell, row)


def _processes(shown: Overview) -> ProcessesMembers | None:
    found: Comparison | None = shown.processes
    if found is None:
        return None

    def row(each: ProcessSummary) -> ProcessMembers:
        return {
            "process": each.label, "status": each.row["status"], "host": each.row["host"], "pid": each.row["pid"],
            "launches": each.launches, "host_ns": each.host_ns, "compiles": each.compiles,
            "compile_ns": each.compile_ns, "gpu_busy_ns": each.busy_ns, "wait_ns": each.wait_ns,
            "communication_ns": each.communication_ns, "exposed_communication_ns": each.exposed_ns,
            "clock_bound_ns": each.row["clock_bound_ns"]}

    return {"facts": Many(labels.process_lines(found)), "processes": Many(labels.worst_first(found.processes), row)}


def _tunings(shown: Overview) -> Many[TuningMembers]:
    cells = labels.cell_labels(shown)

    def row(each: Tuning) -> TuningMembers:
        return {"kernel": each.name, "outcome": labels.tuning_outcome(each, cells), "duration_ns": each.duration_ns,
                "compile_ns": each.compile_ns, "trials": len(each.trials), "result": labels.tuning_result(each),
                "gpu_trials_ns": None if each.gpu is None else each.gpu.trials_ns,
                "gpu_cache_flush_ns": None if each.gpu is None else each.gpu.flush_ns,
                "gpu_others_ns": None if each.gpu is None else each.gpu.others_ns,
                "reason_code": each.reason_code, "reason": each.reason, "fix": each.fix}

    return Many(sorted(shown.tunings, key=lambda each: (-each.duration_ns, each.build_id)), row)


def _builds(shown: Overview) -> Many[BuildMembers]:
    cells = labels.cell_labels(shown)

    def miss(each: Miss) -> MissMembers:
        return {"outcome": labels.miss_outcome(each, cells), "duration_ns": each.duration_ns,
                "why": labels.miss_reason(each), "fix": each.fix}

    def row(each: BuildSummary) -> BuildMembers:
        return {"algorithm": each.algorithm, "framework": each.framework, "requests": each.requests, "hits": each.hits,
                "misses": each.misses, "waits": each.waits, "failed": each.failed, "host_ns": each.host_ns,
                "build_ns": each.build_ns, "not_hits": Many(each.not_hits, miss)}

    return Many(shown.builds, row)


def _graphs(shown: Overview) -> Many[GraphSummaryMembers]:
    def row(each: GraphSummary) -> GraphSummaryMembers:
        build_ns, build_median_ns, build_max_ns = _spread(each.build)
        launch_ns, launch_median_ns, launch_max_ns = _spread(each.launch)
        gpu_ns, gpu_median_ns, gpu_max_ns = _spread(each.execute)
        return {
            "graph": labels.graph_names(each), "graph_ids": Many(each.graph_ids), "nodes": each.nodes,
            "edges": each.edges, "kernels": Many(each.kernels), "builds": each.builds, "rebuilds": each.rebuilt,
            "rebuild_ns": each.rebuild_ns, "updates": each.updates, "refused_updates": each.refused,
            "launches": each.launches, "build_ns": build_ns, "build_median_ns": build_median_ns,
            "build_max_ns": build_max_ns, "launch_ns": launch_ns, "launch_median_ns": launch_median_ns,
            "launch_max_ns": launch_max_ns, "gpu_ns": gpu_ns, "gpu_median_ns": gpu_median_ns,
            "gpu_max_ns": gpu_max_ns, "notes": Many(labels.graph_notes(each))}

    return Many(shown.by_topology, row)


def _ranges(shown: Overview) -> Many[RangeMembers]:
    def row(each: RangeSummary) -> RangeMembers:
        return {"path": " / ".join(each.path), "ranges": each.ranges, "unclosed": each.unclosed,
                "inclusive_ns": each.inclusive_ns, "exclusive_ns": each.exclusive_ns, "median_ns": each.median_ns,
                "max_ns": each.longest_ns, "launches": each.inclusive_launches, "host_ns": each.inclusive_host_ns,
                "gpu_ns": each.inclusive_gpu_ns, "other_launches": each.inclusive_other_launches,
                "other_host_ns": each.inclusive_other_host_ns, "other_gpu_ns": each.inclusive_other_gpu_ns}

    return Many(as_tree(shown.by_range), row)


def _calls(shown: Overview) -> Many[CallMembers]:
    return Many(shown.calls, lambda each: {
        "function": each.name, "calls": each.times.count, "total_ns": each.times.total_ns,
        "median_ns": each.times.p50_ns, "max_ns": each.times.max_ns})


def _outliers(shown: Overview) -> OutliersMembers | None:
    found = shown.outliers
    if found is None:
        return None
    return {"launches": found.launches, "of": found.of, "spent_ns": found.spent_ns, "of_ns": found.of_ns,
            "longest": Many(found.longest, lambda each: {
                "launch_id": each.launch_id, "kernel": each.kernel, "launching_ns": each.launching_ns,
                "phase": each.phase, "phase_ns": each.phase_ns, "is_first": each.is_first,
                "meanwhile": listed([one.kind for one in each.meanwhile]) or None})}


#: The parts of an answer behind its head, in order: where the time went, then what to do, then each subject.
PARTS: Mapping[str, Callable[[Overview], Any]] = {
    "time": _time, "compiles": _compiles, "kernels": _kernels, "lines": _lines, "advice": _advice, "gpu": _gpu,
    "cells": _cells, "processes": _processes, "tunings": _tunings, "builds": _builds, "graphs": _graphs,
    "ranges": _ranges, "calls": _calls, "outliers": _outliers,
}


def _of_features() -> dict[str, Callable[[Overview], Any]]:
    return {feature.name: loaded(feature.card.member) for feature in features()
            if feature.card is not None and feature.card.member}


def whole_answer() -> type[RecordingAnswer]:
    """Return the type of an answer about a recording with the members that features add."""
    members = {feature.name: loaded(feature.card.member_type) for feature in features()
               if feature.card is not None and feature.card.member}
    return types.new_class(RecordingAnswer.__name__, (RecordingAnswer,), {"total": False}, lambda namespace: (
        namespace.update(__annotations__=members, __doc__=RecordingAnswer.__doc__, __module__=__name__)))
