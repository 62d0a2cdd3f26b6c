"""`overview`: everything that a summary of a recording shows, as data. Text and HTML only print it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from kernelscope.analysis.activities import is_gpu_recorded, join
from kernelscope.analysis.advice import Advice, Evidence, advise
from kernelscope.analysis.builds import BuildSummary, by_algorithm
from kernelscope.analysis.columns import Rows, captured, codes, distinct, ids, ints, raised, ran, trials
from kernelscope.analysis.compile_time import Part, WarmCache, compile_times, total_parts, warm_cache
from kernelscope.analysis.compiles import CompilationSummary, compilations
from kernelscope.analysis.compiling import compile_times_of
from kernelscope.analysis.gpu import CallSummary, GpuSummary, by_call, gpu_summary, host_states
from kernelscope.analysis.graphs import GraphSummary, by_graph, by_topology, graph_runs
from kernelscope.analysis.launches import (
    CellSummary,
    Configurations,
    Kept,
    KernelSummary,
    PhaseTotals,
    Specializations,
    by_cell,
    by_kernel,
    kept,
    launch_phases,
)
from kernelscope.analysis.lines import AnnotatedCode, annotated, by_line
from kernelscope.analysis.operators import OperatorSummary, by_operator, operators_of_kernels
from kernelscope.analysis.outliers import Outliers, outliers
from kernelscope.analysis.owners import process_names
from kernelscope.analysis.processes import Comparison, comparison
from kernelscope.analysis.ranges import RangeSummary, by_range, mark_count
from kernelscope.analysis.stalls import KernelStalls
from kernelscope.analysis.stalls import by_kernel as by_stalls
from kernelscope.analysis.tasks import TaskSummary, by_task
from kernelscope.analysis.torch_reasons import functions_of_kernels
from kernelscope.analysis.tuning import Tuning, tunings
from kernelscope.analysis.unchecked import UncheckedLaunches, unchecked_launches
from kernelscope.analysis.wall_time import WallTime, cells_left_out, total, wall_times
from kernelscope.recording.model import Recording
from kernelscope.schema import UNFINISHED
from kernelscope.units import brief
from kernelscope.views.flame.model import Flame, flame_of
from kernelscope.views.keys import link_keys


@dataclass(frozen=True)
class HealthRow:
    """One fact about the recording itself, and of several processes whose; what was not recorded is None."""

    probe: str
    status: str
    message: str | None
    fix: str | None
    dropped: int | None
    errors: int | None
    clock_error_ns: float | None = None
    process: str = ""

    @property
    def is_trouble(self) -> bool:
        """Return whether something is missing, was lost or failed."""
        return self.status != "ok" or bool(self.dropped) or bool(self.errors)


@dataclass(frozen=True)
class Cost:
    """What recording itself cost.

    Attributes
    ----------
    launch_ns : float or None
        One launch's recording, the probes' together.
    total_ns : float
        All launches' recording.
    share : float or None
        The total over the cells' wall time, 0 to 1.
    kind : str
        How it is known: ``calibrated`` on the machine, ``estimated``, ``partly calibrated``, or empty where the
        recording does not tell.
    measured : str or None
        The day of the calibration.
    interval_ns : tuple of float or None
        That of the calibrated cost of a launch, where it is the only cost.
    is_seen : bool
        False where the calibration saw no difference: the cost is then at most this.
    """

    launch_ns: float | None
    total_ns: float
    share: float | None
    kind: str = ""
    measured: str | None = None
    interval_ns: tuple[float, float] | None = None
    is_seen: bool = True


@dataclass(frozen=True)
class Overview:
    """What a summary shows of a recording; what was not recorded is None.

    Attributes
    ----------
    start_ns : int or None
        When its only cell began; None where there are several, or none.
    title : str
        ``In [3] warm-up``, the recording's name, or how many cells it has.
    notice : str
        What every output must say, or an empty string.
    is_imported : bool
        Whether it was opened from another tool's trace, which knows of no compiles.
    status : str
        ok, error, interrupted or unfinished: the worst of the cells'.
    error : str or None
        The exception that ended a cell, of several processes with the cell's.
    detail, device : str or None
        How much was recorded, and the names of the devices launched on.
    launches, captured, trials, nested, kernels, configurations, specializations : int
        Launches that ran, those that went into the capture of a graph, those of an autotuner's benchmarks, which are
        not among the others, and how many of the first two were made inside another;
        kernels, launch configurations and overloads that were launched or compiled.
    graph_launches : int
        Launches of graphs.
    compiles, disk_hits, memory_hits, waits, failed_compiles, errors, threads : int
        Sums over the kernels; launches that raised; host threads that launched.
    compile_ns : int
        Own time of compiles and disk-cache loads, inside launches and outside.
    compile_wait_ns : int
        How long threads waited for compiles of others.
    compile_parts : tuple of Part
        What that time went into: passes, nvvm, lto, link, load, other.
    warm_cache : WarmCache or None
        What a warm disk cache would have saved; None where that is nothing.
    wall_ns : int or None
        The cells' time from start to end.
    time : WallTime or None
        Where the cells' time went; None where it was not recorded.
    cells_left_out : int
        How many cells that leaves out: those of processes that did less than `MOST_MAIN_THREADS` others.
    outliers : Outliers or None
        Launches that stand out by their time; None where none do.
    synchronize_ns : int or None
        Time in which the device was waited for after the cells' ends.
    totals : PhaseTotals
        Own host time of all launches, by phase.
    by_kernel, by_cell, by_range, compilations, unchecked, advice, health : sequence
        The rows of each part; kernels are made when they are asked for.
    marks : int
        NVTX marks.
    code : AnnotatedCode or None
        The code, with what its lines did; None where no line is known.
    configurations_used : Configurations
        Launch configurations by dispatcher id.
    specializations_used : Specializations
        Overloads by dispatcher id.
    cost : Cost or None
        What recording itself cost.
    kept : Kept or None
        How many launches the recorder kept and lost; None where that is not known.
    gpu : GpuSummary or None
        The GPU's side; None where it was not recorded.
    calls : tuple of CallSummary
        Recorded calls of the CUDA driver and runtime, by function.
    by_topology, by_graph : tuple of GraphSummary
        Graphs, those of one topology as one, and each by itself.
    builds : tuple of BuildSummary
        Requests to build caches, by algorithm.
    tunings : tuple of Tuning
        Runs of an autotuner.
    processes : Comparison or None
        What all processes together show; None for a recording of one.
    compiled_functions : dict of str to tuple of str
        The functions that torch has compiled to kernels of each name.
    operators : tuple of OperatorSummary
        PyTorch's operators; empty where they were not recorded.
    kernel_operators : dict of int to tuple of str
        Those that launched each kernel, by dispatcher id, the most frequent first.
    tasks : tuple of TaskSummary
        Dask's tasks by key prefix and process.
    flame : Flame or None
        The call paths; None where none were recorded.
    frameworks : tuple of str
        Whose kernels these are, each once, in order of the kernels.
    kernel_keys, specialization_keys, compile_keys : dict of int to str
        What the inspector knows kernels, overloads, and the overloads of compiles by; empty where there are many.
    """

    start_ns: int | None
    title: str
    notice: str
    is_imported: bool
    status: str
    error: str | None
    detail: str | None
    device: str | None
    launches: int
    captured: int
    trials: int
    graph_launches: int
    nested: int
    kernels: int
    configurations: int
    specializations: int
    compiles: int
    disk_hits: int
    memory_hits: int
    waits: int
    failed_compiles: int
    errors: int
    threads: int
    compile_ns: int
    compile_wait_ns: int
    compile_parts: tuple[Part, ...]
    warm_cache: WarmCache | None
    wall_ns: int | None
    time: WallTime | None
    cells_left_out: int
    outliers: Outliers | None
    synchronize_ns: int | None
    totals: PhaseTotals
    by_kernel: Rows[KernelSummary]
    by_cell: tuple[CellSummary, ...]
    by_range: tuple[RangeSummary, ...]
    marks: int
    code: AnnotatedCode | None
    stalls: tuple[KernelStalls, ...]
    compilations: tuple[CompilationSummary, ...]
    configurations_used: Configurations
    specializations_used: Specializations
    unchecked: tuple[UncheckedLaunches, ...]
    advice: tuple[Advice, ...]
    cost: Cost | None
    kept: Kept | None
    health: tuple[HealthRow, ...]
    gpu: GpuSummary | None
    calls: tuple[CallSummary, ...]
    by_topology: tuple[GraphSummary, ...]
    by_graph: tuple[GraphSummary, ...]
    builds: tuple[BuildSummary, ...]
    tunings: tuple[Tuning, ...]
    processes: Comparison | None
    compiled_functions: dict[str, tuple[str, ...]]
    operators: tuple[OperatorSummary, ...]
    kernel_operators: dict[int, tuple[str, ...]]
    tasks: tuple[TaskSummary, ...]
    flame: Flame | None
    frameworks: tuple[str, ...]
    kernel_keys: dict[int, str]
    specialization_keys: dict[int, str]
    compile_keys: dict[int, str]

    @property
    def is_empty(self) -> bool:
        """Return whether nothing was launched, compiled or built, and the GPU did nothing."""
        ran = self.gpu is not None and bool(self.gpu.kernels or self.gpu.copies or self.gpu.memsets)
        made = self.compilations or self.by_topology or self.builds or self.tunings
        return not self.launches and not self.captured and not made and not ran

    @property
    def unfinished(self) -> dict[str, int]:
        """Return the launches that had not returned when the process died, by kernel."""
        kernels = self.by_kernel.where(self.by_kernel.column("unfinished") > 0)
        return {kernel.name: kernel.unfinished for kernel in kernels}

    @property
    def host_share(self) -> float | None:
        """Return host time in the cells' launches over their wall time; above 1 where threads launched at once."""
        known = [cell.totals.host_ns for cell in self.by_cell if cell.wall_ns is not None]
        spent = [each for each in known if each is not None]
        return sum(spent) / self.wall_ns if spent and self.wall_ns else None

    @property
    def timed_cells(self) -> int:
        """Return how many cells have a wall time."""
        return sum(cell.wall_ns is not None for cell in self.by_cell)

    @property
    def reversed_cells(self) -> int:
        """Return how many cells end before they start, as after a jump of a clock: their wall time is not known."""
        return sum(cell.wall_ns is None and cell.cell_id is not None for cell in self.by_cell)


def overview(recording: Recording) -> Overview:
    """Return everything that a summary of the recording shows."""
    phases = launch_phases(recording)
    used = Configurations(recording, phases)
    kernels = by_kernel(recording, phases, used)
    happened = ("launches", "captured", "compiles", "disk_hits", "waits", "failed_compiles")
    kernels = kernels.where(np.logical_or.reduce([kernels.column(name) > 0 for name in happened]))
    cells = tuple(by_cell(recording, phases))
    compiled = tuple(compilations(recording))
    compiling, times, processes = compile_times_of(recording), compile_times(recording), process_names(recording)
    health = tuple(
        HealthRow(row["probe"], row["status"], row["message"], row["fix"], row["dropped"], row["errors"],
                  row["clock_error_ns"],
                  "" if len(processes) < 2 or row["process_id"] is None else processes[row["process_id"]])
        for row in recording.rows("health")
    )
    walls = [cell.wall_ns for cell in cells if cell.wall_ns is not None]
    waits = [cell.synchronize_ns for cell in cells if cell.synchronize_ns is not None]
    wall = sum(walls) if walls else None
    totals = phases.total()
    cost = _cost(recording, wall)
    # What was not recorded costs nothing.
    held = {name for name, table in recording.tables.items() if table.num_rows}
    joined = join(recording) if is_gpu_recorded(recording) else None
    host = None if joined is None else host_states(recording)
    gpu = None if joined is None else gpu_summary(recording, joined, host)
    runs = graph_runs(recording) if held & {"graphs", "graph_events", "activities"} else None
    graphs = () if runs is None else tuple(by_topology(recording, runs))
    builds, tuned = (tuple(by_algorithm(recording)), tuple(tunings(recording))) if "builds" in held else ((), ())
    tried = trials(recording)
    evidence = Evidence(
        recording, phases, kernels, compiled, cells, graphs, builds, tuned, wall_ns=wall, host_ns=totals.host_ns,
        gpu=gpu)
    kernel_keys, specialization_keys = link_keys(recording)
    split_walls = wall_times(recording, host)
    begun = [row["start_ns"] for row in recording.rows("cells")]
    return Overview(
        start_ns=begun[0] if len(begun) == 1 else None,
        title=_title(recording, cells),
        notice=recording.notice,
        is_imported=recording.is_imported,
        status=_worst(cells),
        error=next((f"{cell.process}: {brief(cell.error)}" if cell.process else brief(cell.error)
                    for cell in cells if cell.error), None),
        detail=_text(recording, "detail"),
        device=_devices(recording),
        launches=int(ran(recording).sum()),
        captured=int(captured(recording).sum()),
        trials=int(tried.sum()),
        graph_launches=sum(graph.launches for graph in graphs),
        nested=int(((ids(recording, "launches", "parent_launch_id") >= 0) & ~tried).sum()),
        kernels=len(kernels),
        configurations=used.distinct,
        specializations=kernels.total("specializations"),
        compiles=kernels.total("compiles"),
        disk_hits=kernels.total("disk_hits"),
        memory_hits=kernels.total("memory_hits"),
        waits=kernels.total("waits"),
        failed_compiles=kernels.total("failed_compiles"),
        errors=int(raised(recording).sum()),
        threads=len(distinct(ids(recording, "launches", "thread_id"))),
        compile_ns=compiling.total_ns,
        compile_wait_ns=int(np.maximum(compiling.wait_ns, 0).sum()),
        compile_parts=tuple([part for part in total_parts(times) if part.kind != "wait"]),
        warm_cache=warm_cache(recording, times),
        wall_ns=wall,
        time=total(split_walls),
        cells_left_out=cells_left_out(recording, split_walls),
        outliers=outliers(recording, phases),
        synchronize_ns=sum(waits) if waits else None,
        totals=totals,
        by_kernel=kernels,
        by_cell=cells,
        by_range=tuple(by_range(recording, phases, joined)) if "ranges" in held else (),
        marks=mark_count(recording) if "ranges" in held else 0,
        code=annotated(recording, by_line(recording, phases)) if "lines" in held else None,
        stalls=tuple(by_stalls(recording)) if "pc_samples" in held else (),
        compilations=compiled,
        configurations_used=used,
        specializations_used=Specializations(recording, phases),
        unchecked=tuple(unchecked_launches(recording)),
        advice=tuple(advise(evidence)),
        cost=cost,
        kept=kept(recording),
        health=health,
        gpu=gpu, calls=by_call(recording),
        by_topology=graphs,
        by_graph=() if runs is None else tuple(by_graph(recording, runs)),
        builds=builds,
        tunings=tuned,
        processes=comparison(recording, phases),
        compiled_functions=functions_of_kernels(compiled),
        operators=tuple(by_operator(recording, phases)) if "operators" in held else (),
        kernel_operators=operators_of_kernels(recording),
        tasks=tuple(by_task(recording, phases)),
        flame=flame_of(recording),
        frameworks=_frameworks(recording, kernels),
        kernel_keys=kernel_keys,
        specialization_keys=specialization_keys,
        compile_keys=_compile_keys(recording, kernel_keys, specialization_keys),
    )


def _compile_keys(recording: Recording, kernels: dict[int, str], specializations: dict[int, str]) -> dict[int, str]:
    """Return what the inspector shows of each compile: its specialization, or else its kernel."""
    made, owner = (ints(recording, "compilations", name).tolist() for name in ("specialization_id", "dispatcher_id"))
    return {at: specializations.get(each) or kernels.get(owner[at], "") for at, each in enumerate(made)}


def _title(recording: Recording, cells: tuple[CellSummary, ...]) -> str:
    named = [cell for cell in cells if cell.cell_id is not None]
    if len(named) == 1:
        cell = named[0]
        if cell.execution_count is None and not cell.name:
            return recording.name or "recording"
        if recording.name and recording.name != cell.name:
            return f"{recording.name}: {cell.label}"
        return cell.label
    counted = f"{len(named)} cells" if named else ""
    return ": ".join(part for part in (recording.name, counted) if part) or "recording"


def _frameworks(recording: Recording, kernels: Rows[KernelSummary]) -> tuple[str, ...]:
    """Return whose kernels these are, each once, in order of the kernels."""
    framework, names = codes(recording, "dispatchers", "framework")
    found, first = np.unique(framework[kernels.ids], return_index=True)
    return tuple([names[each] for each in found[np.argsort(first)].tolist()])


def _worst(cells: tuple[CellSummary, ...]) -> str:
    states = {cell.status for cell in cells}
    return next((state for state in (UNFINISHED, "error", "interrupted", "ok") if state in states), "")


def _text(recording: Recording, key: str) -> str | None:
    value = recording.metadata.get(key)
    return value if isinstance(value, str) else None


def _devices(recording: Recording) -> str | None:
    names = dict.fromkeys(str(row["name"]) for row in recording.rows("devices") if row["name"])
    return ", ".join(names) or None


def _cost(recording: Recording, wall: int | None) -> Cost | None:
    rows = [row for row in recording.rows("health") if row["total_cost_ns"] is not None]
    if not rows:
        return None
    total = sum(row["total_cost_ns"] for row in rows)
    # An estimate may exceed the time of the cells that have one.
    share = total / wall if wall and total <= wall else None
    counted = [row for row in rows if row["total_cost_ns"] > 0] or rows
    launch = _launch_cost([row for row in counted if row["cost_ns"] is not None])
    held: Any = recording.metadata.get("own_cost")
    known = cast("dict[str, Any]", held) if isinstance(held, dict) else {}
    facts = [known.get(probe) for probe in dict.fromkeys(row["probe"] for row in counted)]
    kinds = {str(fact.get("kind")) if isinstance(fact, dict) else "" for fact in facts}
    if not kinds <= {"calibrated", "estimated", "partly calibrated"}:
        return Cost(launch, total, share)
    kind = kinds.pop() if len(kinds) == 1 else "partly calibrated"
    if kind != "calibrated" or len(facts) > 1:
        return Cost(launch, total, share, kind)
    fact = cast("dict[str, Any]", facts[0])
    ends, measured = (fact.get("low_ns"), fact.get("high_ns")), fact.get("measured")
    is_known = all(isinstance(end, int | float) for end in ends)
    return Cost(launch, total, share, kind, measured[:10] if isinstance(measured, str) else None,
                cast("tuple[float, float]", ends) if is_known else None, fact.get("is_seen") is not False)


def _launch_cost(rows: list[dict[str, Any]]) -> float | None:
    """Return the cost of a launch, summed over probes; several of one probe are weighted by launches."""
    by_probe: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        by_probe.setdefault(row["probe"], []).append((row["cost_ns"], row["total_cost_ns"]))
    parts: list[float] = []
    for costs in by_probe.values():
        launches = sum(total / cost for cost, total in costs if cost)
        parts.append(sum(total for _, total in costs) / launches if launches else max(cost for cost, _ in costs))
    return sum(parts) if parts else None
