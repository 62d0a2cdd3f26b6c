"""The card as an answer for programs: the same facts, as numbers with their units in the members' names.

Each part of it is a function of an `Overview`, listed in `PARTS`, so that who needs one of them asks for that alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from kernelscope.analysis.activities import KernelExecution, Spread
from kernelscope.analysis.advice import Advice
from kernelscope.analysis.builds import BuildSummary, Miss
from kernelscope.analysis.compiles import CompilationSummary
from kernelscope.analysis.graphs import GraphSummary
from kernelscope.analysis.launches import CellSummary, KernelSummary
from kernelscope.analysis.lines import LineSummary, Source, SourceLine
from kernelscope.analysis.operators import OperatorSummary
from kernelscope.analysis.processes import Comparison, ProcessSummary
from kernelscope.analysis.ranges import RangeSummary, as_tree
from kernelscope.analysis.stalls import KernelStalls, Stalled
from kernelscope.analysis.tasks import TaskSummary
from kernelscope.analysis.tuning import Tuning
from kernelscope.recording.driver import FRAMEWORK as DRIVER
from kernelscope.recording.model import Recording
from kernelscope.recording.redact import shareable
from kernelscope.units import listed
from kernelscope.views.answer import Long, Many, answer
from kernelscope.views.base import defined_at
from kernelscope.views.card import labels
from kernelscope.views.card.model import HealthRow, Overview, overview
from kernelscope.views.card.sections import Card, alike_compiles, card_from, ranked_lines
from kernelscope.views.card.verdict import groups
from kernelscope.views.parts import part_label

Members = dict[str, Any]


def recording_answer(recording: Recording, limit: int | None = None, parts: Collection[str] | None = None,
                     members: Mapping[str, Any] | None = None) -> Members:
    """Return what the card says of a recording, as `kernelscope.views.answer.answer` does.

    Parameters
    ----------
    recording : Recording
        What to say it of; paths of this machine are cut, as in any saved file.
    limit : int, optional
        How many rows a list may have.
    parts : collection of str, optional
        The parts beside the head, of `PARTS`; all that there is anything to say of by default.
    members : mapping, optional
        What else it says, behind the head.
    """
    return answer("recording", recording_members(recording, parts, members), limit)


def recording_members(recording: Recording, parts: Collection[str] | None = None,
                      members: Mapping[str, Any] | None = None) -> Members:
    """Return the members of the same answer, with all rows that there are."""
    shown = overview(shareable(recording))
    made = {name: part(shown) for name, part in PARTS.items() if parts is None or name in parts}
    # What a recording has nothing of is no part of a whole answer, but an answer to who asks for it.
    return head(shown, recording) | dict(members or {}) | {
        name: part for name, part in made.items() if parts is not None or _says(part)}


def _says(part: Any) -> bool:
    return part is not None and (not isinstance(part, Many) or bool(part.source))


def head(shown: Overview, recording: Recording) -> Members:
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


def health_of(recording: Recording) -> Members:
    """Return whether a recording is complete, what it lacks, and what it cost, as every answer about one has it."""
    shown = overview(shareable(recording))
    return _health(shown, card_from(shown), recording)


def _health(shown: Overview, card: Card, recording: Recording) -> Members:
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


def _probe(row: HealthRow) -> Members:
    return {"probe": row.probe, "status": row.status, "message": row.message, "fix": row.fix, "dropped": row.dropped,
            "errors": row.errors, "clock_error_ns": row.clock_error_ns, "process": row.process or None}


def _counts(shown: Overview) -> Members:
    names = ("launches", "kernels", "specializations", "configurations", "compiles", "failed_compiles", "memory_hits",
             "disk_hits", "waits", "errors", "captured", "trials", "nested", "graph_launches", "threads", "compile_ns",
             "compile_wait_ns")
    unknown = dict.fromkeys(_OF_COMPILES) if shown.is_imported else {}
    return {name: getattr(shown, name) for name in names} | unknown | {
        "launch_host_ns": shown.totals.host_ns, "gpu_kernels": None if shown.gpu is None else shown.gpu.kernels,
        "synchronize_ns": shown.synchronize_ns}


#: Counts of what the trace of another tool does not say.
_OF_COMPILES = ("compiles", "failed_compiles", "memory_hits", "disk_hits", "compile_ns", "compile_wait_ns")


def _time(shown: Overview) -> Members | None:
    """Return the parts of the cells' wall time, which add up to it, longest first."""
    time = shown.time
    if time is None or not time.wall_ns:
        return None
    return {"wall_ns": time.wall_ns, "parts": Many(groups(time), lambda each: {
        "part": each[0], "what": part_label(each[0]), "duration_ns": each[1], "share": each[1] / time.wall_ns})}


def _compiles(shown: Overview) -> Many:
    return Many(alike_compiles(shown), _compile)


def _compile(alike: Sequence[CompilationSummary]) -> Members:
    each = alike[0]
    return {
        "kernel": each.name, "outcome": labels.outcome(each), "times": len(alike),
        "duration_ns": sum(one.duration_ns for one in alike), "why": labels.compile_reason(each), "fix": each.fix,
        "reason_code": each.reason_code, "reason": each.reason, "signature": each.signature,
        "asked": labels.trigger(each), "framework": each.framework, "cached_on_disk": each.cached_on_disk,
        "error": each.error,
    }


def _kernels(shown: Overview) -> Many:
    host = shown.totals.host_ns
    runs: dict[int, KernelExecution] = {}

    def row(kernel: KernelSummary) -> Members:
        if shown.gpu is not None:
            runs.update(shown.gpu.execution.by_id([kernel.dispatcher_id]))
        ran = runs.get(kernel.dispatcher_id)
        run = None if ran is None else ran.execute
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
            "gpu_runs": None if ran is None else ran.kernels, **_spread("gpu", run),
            "registers": kernel.regs, "occupancy": kernel.occupancy, "notes": Many(labels.launch_notes(kernel)),
        }

    return Many(shown.by_kernel, row)


def _spread(name: str, spread: Spread | None) -> Members:
    return {f"{name}_ns": spread and spread.total_ns, f"{name}_median_ns": spread and spread.p50_ns,
            f"{name}_max_ns": spread and spread.max_ns}


def _lines(shown: Overview) -> Many:
    return Many([] if shown.code is None else ranked_lines(shown.code), _line)


def _line(found: tuple[Source, SourceLine, LineSummary]) -> Members:
    source, line, done = found
    return {
        "file": source.file, "line": line.number, "function": done.function or source.function, "text": line.text,
        "launches": done.launches, "host_ns": done.host_ns, "compiles": done.compiles, "compile_ns": done.compile_ns,
        "cuda_calls_ns": done.call_ns, "gpu_ns": done.gpu_ns, "wait_ns": done.wait_ns,
        "copied_bytes": done.copied_bytes, "cost_ns": done.cost_ns, "kernels": Many(done.kernels),
    }


def _advice(shown: Overview) -> Many:
    return Many(shown.advice, _advised)


def _advised(each: Advice) -> Members:
    return {"code": each.code, "text": Long(each.text), "kernel": each.kernel or None,
            "saves_at_most_ns": each.saves_ns if each.saves_ns > 0 else None, "saves_of": each.saves_of,
            "is_certain": each.is_certain}


def _gpu(shown: Overview) -> Members | None:
    gpu = shown.gpu
    if gpu is None:
        return None
    idle = {each.device_id: each for each in gpu.idle}
    return {
        "source": gpu.source, "kernels": gpu.kernels, **_spread("execute", gpu.execute), **_spread("queue", gpu.queue),
        "clock_error_ns": gpu.clock_error_ns,
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


def _cells(shown: Overview) -> Many | None:
    busy: Mapping[int, float] = {} if shown.gpu is None else shown.gpu.by_cell

    def row(each: CellSummary) -> Members:
        return {
            "cell": each.label, "process": each.process or None, "status": each.status or None, "error": each.error,
            "launches": each.launches, "kernels": each.kernels,
            **{name: None if shown.is_imported else getattr(each, name)
               for name in ("compiles", "memory_hits", "disk_hits")}, "host_ns": each.totals.host_ns,
            "wall_ns": each.wall_ns, "gpu_busy_share": None if each.cell_id is None else busy.get(each.cell_id)}

    return Many(shown.by_cell, row)


def _processes(shown: Overview) -> Members | None:
    found: Comparison | None = shown.processes
    if found is None:
        return None

    def row(each: ProcessSummary) -> Members:
        return {
            "process": each.label, "status": each.row["status"], "host": each.row["host"], "pid": each.row["pid"],
            "launches": each.launches, "host_ns": each.host_ns, "compiles": each.compiles,
            "compile_ns": each.compile_ns, "gpu_busy_ns": each.busy_ns, "wait_ns": each.wait_ns,
            "communication_ns": each.communication_ns, "exposed_communication_ns": each.exposed_ns,
            "clock_bound_ns": each.row["clock_bound_ns"]}

    return {"facts": Many(labels.process_lines(found)), "processes": Many(labels.worst_first(found.processes), row)}


def _tasks(shown: Overview) -> Many:
    def row(each: TaskSummary) -> Members:
        return {"task": each.task, "worker": each.worker, "tasks": each.tasks, "unfinished": each.unfinished,
                "task_ns": each.task_ns, "launches": each.launches, "host_ns": each.host_ns, "compiles": each.compiles,
                "compile_ns": each.compile_ns, "gpu_ns": each.gpu_ns}

    return Many(shown.tasks, row)


def _operators(shown: Overview) -> Many:
    def row(each: OperatorSummary) -> Members:
        return {"operator": each.operator, "calls": each.calls, "host_ns": each.host_ns, "launches": each.launches,
                "launch_ns": each.launch_ns, "gpu_ns": each.gpu_ns, "kernels": Many(each.kernels)}

    return Many(shown.operators, row)


def _stalls(shown: Overview) -> Many:
    def line(each: Stalled) -> Members:
        return {"file": each.file, "line": each.line, "text": each.text, "samples": each.samples, "share": each.share,
                "reason": each.main or None}

    def row(each: KernelStalls) -> Members:
        return {"kernel": each.kernel, "samples": each.samples, "share": each.share,
                "reasons": Many(each.reasons, lambda one: {"reason": one[0], "samples": one[1], "not_issued": one[2]}),
                "lines": Many(each.lines, line)}

    return Many(shown.stalls, row)


def _tunings(shown: Overview) -> Many:
    cells = labels.cell_labels(shown)

    def row(each: Tuning) -> Members:
        return {"kernel": each.name, "outcome": labels.tuning_outcome(each, cells), "duration_ns": each.duration_ns,
                "compile_ns": each.compile_ns, "trials": len(each.trials), "result": labels.tuning_result(each),
                "gpu_trials_ns": None if each.gpu is None else each.gpu.trials_ns,
                "gpu_cache_flush_ns": None if each.gpu is None else each.gpu.flush_ns,
                "gpu_others_ns": None if each.gpu is None else each.gpu.others_ns,
                "reason_code": each.reason_code, "reason": each.reason, "fix": each.fix}

    return Many(sorted(shown.tunings, key=lambda each: (-each.duration_ns, each.build_id)), row)


def _builds(shown: Overview) -> Many:
    cells = labels.cell_labels(shown)

    def miss(each: Miss) -> Members:
        return {"outcome": labels.miss_outcome(each, cells), "duration_ns": each.duration_ns,
                "why": labels.miss_reason(each), "fix": each.fix}

    def row(each: BuildSummary) -> Members:
        return {"algorithm": each.algorithm, "framework": each.framework, "requests": each.requests, "hits": each.hits,
                "misses": each.misses, "waits": each.waits, "failed": each.failed, "host_ns": each.host_ns,
                "build_ns": each.build_ns, "not_hits": Many(each.not_hits, miss)}

    return Many(shown.builds, row)


def _graphs(shown: Overview) -> Many:
    def row(each: GraphSummary) -> Members:
        return {
            "graph": labels.graph_names(each), "graph_ids": Many(each.graph_ids), "nodes": each.nodes,
            "edges": each.edges, "kernels": Many(each.kernels), "builds": each.builds, "rebuilds": each.rebuilt,
            "rebuild_ns": each.rebuild_ns, "updates": each.updates, "refused_updates": each.refused,
            "launches": each.launches, **_spread("build", each.build), **_spread("launch", each.launch),
            **_spread("gpu", each.execute), "notes": Many(labels.graph_notes(each))}

    return Many(shown.by_topology, row)


def _ranges(shown: Overview) -> Many:
    def row(each: RangeSummary) -> Members:
        return {"path": " / ".join(each.path), "ranges": each.ranges, "unclosed": each.unclosed,
                "inclusive_ns": each.inclusive_ns, "exclusive_ns": each.exclusive_ns, "median_ns": each.median_ns,
                "max_ns": each.longest_ns, "launches": each.inclusive_launches, "host_ns": each.inclusive_host_ns,
                "gpu_ns": each.inclusive_gpu_ns, "other_launches": each.inclusive_other_launches,
                "other_host_ns": each.inclusive_other_host_ns, "other_gpu_ns": each.inclusive_other_gpu_ns}

    return Many(as_tree(shown.by_range), row)


def _calls(shown: Overview) -> Many:
    return Many(shown.calls, lambda each: {
        "function": each.name, "calls": each.times.count, "total_ns": each.times.total_ns,
        "median_ns": each.times.p50_ns, "max_ns": each.times.max_ns})


def _outliers(shown: Overview) -> Members | None:
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
    "cells": _cells, "processes": _processes, "tasks": _tasks, "operators": _operators, "stalls": _stalls,
    "tunings": _tunings, "builds": _builds, "graphs": _graphs, "ranges": _ranges, "calls": _calls,
    "outliers": _outliers,
}
