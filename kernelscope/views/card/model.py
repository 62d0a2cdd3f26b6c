"""`Overview`: everything that a summary of a recording shows, as data. Text and HTML only print it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar, cast

import numpy as np

from kernelscope.analysis.activities import Joined, is_gpu_recorded, join
from kernelscope.analysis.advice import Advice, Evidence, advise
from kernelscope.analysis.builds import BuildSummary, by_algorithm
from kernelscope.analysis.columns import (
    Bools,
    Rows,
    captured,
    codes,
    distinct,
    ids,
    ints,
    raised,
    ran,
    trials,
)
from kernelscope.analysis.compile_time import (
    CompileTime,
    Part,
    WarmCache,
    compile_times,
    total_parts,
    warm_cache,
)
from kernelscope.analysis.compiles import CompilationSummary, compilations
from kernelscope.analysis.compiling import CompileTimes, compile_times_of
from kernelscope.analysis.gpu import CallSummary, GpuSummary, HostStates, by_call, gpu_summary, host_states
from kernelscope.analysis.graphs import GraphRuns, GraphSummary, by_graph, by_topology, graph_runs
from kernelscope.analysis.launches import (
    CellSummary,
    Configurations,
    Kept,
    KernelSummary,
    LaunchPhases,
    PhaseTotals,
    Specializations,
    by_cell,
    by_kernel,
    kept,
    launch_phases,
)
from kernelscope.analysis.lines import AnnotatedCode, annotated, by_line
from kernelscope.analysis.outliers import Outliers, outliers
from kernelscope.analysis.owners import process_names
from kernelscope.analysis.processes import Comparison, comparison
from kernelscope.analysis.ranges import RangeSummary, by_range, mark_count
from kernelscope.analysis.torch_reasons import functions_of_kernels
from kernelscope.analysis.tuning import Tuning, tunings
from kernelscope.analysis.unchecked import UncheckedLaunches, unchecked_launches
from kernelscope.analysis.wall_time import WallTime, cells_left_out, total, wall_times
from kernelscope.recording.model import Recording
from kernelscope.schema import UNFINISHED
from kernelscope.units import brief
from kernelscope.views.keys import link_keys

Result = TypeVar("Result")


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


class Overview:
    """What a summary shows of a recording, worked out when it is first asked for; what was not recorded is None.

    Attributes
    ----------
    recording : Recording
        What it is of.
    """

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self._results: dict[Any, Any] = {}

    def has(self, *tables: str) -> bool:
        """Return whether one of these tables has a row."""
        return any(self.recording.arrow(table).num_rows for table in tables)

    def result(self, analysis: Callable[[Recording], Result]) -> Result:
        """Return what an analysis says of the recording, which several sections need and is worked out once."""
        if analysis not in self._results:
            self._results[analysis] = analysis(self.recording)
        return self._results[analysis]

    @cached_property
    def start_ns(self) -> int | None:
        """Return when its only cell began; None where there are several, or none."""
        begun = [row["start_ns"] for row in self.recording.rows("cells")]
        return begun[0] if len(begun) == 1 else None

    @cached_property
    def title(self) -> str:
        """Return ``In [3] warm-up``, the recording's name, or how many cells it has."""
        return _title(self.recording, self.by_cell)

    @cached_property
    def notice(self) -> str:
        """Return what every output must say, or an empty string."""
        return self.recording.notice

    @cached_property
    def is_imported(self) -> bool:
        """Return whether it was opened from another tool's trace, which knows of no compiles."""
        return self.recording.is_imported

    @cached_property
    def status(self) -> str:
        """Return ok, error, interrupted or unfinished: the worst of the cells'."""
        return _worst(self.by_cell)

    @cached_property
    def error(self) -> str | None:
        """Return the exception that ended a cell, of several processes with the cell's."""
        return next((f"{cell.process}: {brief(cell.error)}" if cell.process else brief(cell.error)
                     for cell in self.by_cell if cell.error), None)

    @cached_property
    def detail(self) -> str | None:
        """Return how much was recorded of a launch."""
        return _text(self.recording, "detail")

    @cached_property
    def device(self) -> str | None:
        """Return the names of the devices launched on."""
        return _devices(self.recording)

    @cached_property
    def launches(self) -> int:
        """Return how many launches ran, without `captured` ones and `trials`."""
        return int(ran(self.recording).sum())

    @cached_property
    def captured(self) -> int:
        """Return how many launches went into the capture of a graph."""
        return int(captured(self.recording).sum())

    @cached_property
    def trials(self) -> int:
        """Return how many launches an autotuner's benchmarks made."""
        return int(self._tried.sum())

    @cached_property
    def nested(self) -> int:
        """Return how many launches were made inside another one, without `trials`."""
        return int(((ids(self.recording, "launches", "parent_launch_id") >= 0) & ~self._tried).sum())

    @cached_property
    def graph_launches(self) -> int:
        """Return how many launches of graphs there were."""
        return sum(graph.launches for graph in self.by_topology)

    @cached_property
    def kernels(self) -> int:
        """Return how many kernels were launched or compiled."""
        return len(self.by_kernel)

    @cached_property
    def configurations(self) -> int:
        """Return how many launch configurations there were."""
        return self.configurations_used.distinct

    @cached_property
    def specializations(self) -> int:
        """Return how many overloads were launched or compiled."""
        return self.by_kernel.total("specializations")

    @cached_property
    def compiles(self) -> int:
        """Return how many compiles there were."""
        return self.by_kernel.total("compiles")

    @cached_property
    def disk_hits(self) -> int:
        """Return how many overloads came from a disk cache."""
        return self.by_kernel.total("disk_hits")

    @cached_property
    def memory_hits(self) -> int:
        """Return how many launches found their overload in memory."""
        return self.by_kernel.total("memory_hits")

    @cached_property
    def waits(self) -> int:
        """Return how many times a thread waited for the compile of another."""
        return self.by_kernel.total("waits")

    @cached_property
    def failed_compiles(self) -> int:
        """Return how many compiles failed."""
        return self.by_kernel.total("failed_compiles")

    @cached_property
    def errors(self) -> int:
        """Return how many launches raised."""
        return int(raised(self.recording).sum())

    @cached_property
    def threads(self) -> int:
        """Return how many host threads launched."""
        return len(distinct(ids(self.recording, "launches", "thread_id")))

    @cached_property
    def compile_ns(self) -> int:
        """Return the time of compiles and disk-cache loads, inside launches and outside."""
        return self._compiling.total_ns

    @cached_property
    def compile_wait_ns(self) -> int:
        """Return how long threads waited for compiles of others."""
        return int(np.maximum(self._compiling.wait_ns, 0).sum())

    @cached_property
    def compile_parts(self) -> tuple[Part, ...]:
        """Return what that time went into: passes, nvvm, lto, link, load, other."""
        return tuple([part for part in total_parts(self._compile_times) if part.kind != "wait"])

    @cached_property
    def warm_cache(self) -> WarmCache | None:
        """Return what a warm disk cache would have saved; None where that is nothing."""
        return warm_cache(self.recording, self._compile_times)

    @cached_property
    def wall_ns(self) -> int | None:
        """Return the cells' time from start to end."""
        walls = [cell.wall_ns for cell in self.by_cell if cell.wall_ns is not None]
        return sum(walls) if walls else None

    @cached_property
    def time(self) -> WallTime | None:
        """Return where the cells' time went; None where it was not recorded."""
        return total(self._wall_times)

    @cached_property
    def cells_left_out(self) -> int:
        """Return how many cells that leaves out: those of processes that did less than `MOST_MAIN_THREADS` others."""
        return cells_left_out(self.recording, self._wall_times)

    @cached_property
    def outliers(self) -> Outliers | None:
        """Return the launches that stand out by their time; None where none do."""
        return outliers(self.recording, self.phases)

    @cached_property
    def synchronize_ns(self) -> int | None:
        """Return the time in which the device was waited for after the cells' ends."""
        waits = [cell.synchronize_ns for cell in self.by_cell if cell.synchronize_ns is not None]
        return sum(waits) if waits else None

    @cached_property
    def totals(self) -> PhaseTotals:
        """Return the host time of all launches, by phase."""
        return self.phases.total()

    @cached_property
    def by_kernel(self) -> Rows[KernelSummary]:
        """Return the kernels, whose rows are made when they are asked for."""
        kernels = by_kernel(self.recording, self.phases, self.configurations_used)
        happened = ("launches", "captured", "compiles", "disk_hits", "waits", "failed_compiles")
        return kernels.where(np.logical_or.reduce([kernels.column(name) > 0 for name in happened]))

    @cached_property
    def by_cell(self) -> tuple[CellSummary, ...]:
        """Return the cells."""
        return tuple(by_cell(self.recording, self.phases))

    @cached_property
    def by_range(self) -> tuple[RangeSummary, ...]:
        """Return the NVTX ranges by path."""
        return tuple(by_range(self.recording, self.phases, self._joined)) if self.has("ranges") else ()

    @cached_property
    def marks(self) -> int:
        """Return how many NVTX marks there are."""
        return mark_count(self.recording) if self.has("ranges") else 0

    @cached_property
    def code(self) -> AnnotatedCode | None:
        """Return the code, with what its lines did; None where no line is known."""
        return annotated(self.recording, by_line(self.recording, self.phases)) if self.has("lines") else None

    @cached_property
    def compilations(self) -> tuple[CompilationSummary, ...]:
        """Return the compiles and disk-cache loads."""
        return tuple(compilations(self.recording))

    @cached_property
    def configurations_used(self) -> Configurations:
        """Return the launch configurations by dispatcher id."""
        return Configurations(self.recording, self.phases)

    @cached_property
    def specializations_used(self) -> Specializations:
        """Return the overloads by dispatcher id."""
        return Specializations(self.recording, self.phases)

    @cached_property
    def unchecked(self) -> tuple[UncheckedLaunches, ...]:
        """Return the launches whose arguments a declared signature did not take."""
        return tuple(unchecked_launches(self.recording))

    @cached_property
    def advice(self) -> tuple[Advice, ...]:
        """Return the advice, that with the largest effect first."""
        return tuple(advise(Evidence(
            self.recording, self.phases, self.by_kernel, self.compilations, self.by_cell, self.by_topology, self.builds,
            self.tunings, wall_ns=self.wall_ns, host_ns=self.totals.host_ns, gpu=self.gpu)))

    @cached_property
    def cost(self) -> Cost | None:
        """Return what recording itself cost."""
        return _cost(self.recording, self.wall_ns)

    @cached_property
    def kept(self) -> Kept | None:
        """Return how many launches the recorder kept and lost; None where that is not known."""
        return kept(self.recording)

    @cached_property
    def health(self) -> tuple[HealthRow, ...]:
        """Return the facts about the recording itself."""
        names = process_names(self.recording)
        return tuple(
            HealthRow(row["probe"], row["status"], row["message"], row["fix"], row["dropped"], row["errors"],
                      row["clock_error_ns"],
                      "" if len(names) < 2 or row["process_id"] is None else names[row["process_id"]])
            for row in self.recording.rows("health"))

    @cached_property
    def gpu(self) -> GpuSummary | None:
        """Return the GPU's side; None where it was not recorded."""
        return None if self._joined is None else gpu_summary(self.recording, self._joined, self._host)

    @cached_property
    def calls(self) -> tuple[CallSummary, ...]:
        """Return recorded calls of the CUDA driver and runtime, by function."""
        return by_call(self.recording)

    @cached_property
    def by_topology(self) -> tuple[GraphSummary, ...]:
        """Return the graphs, those of one topology as one."""
        return () if self._runs is None else tuple(by_topology(self.recording, self._runs))

    @cached_property
    def by_graph(self) -> tuple[GraphSummary, ...]:
        """Return the graphs, one by one."""
        return () if self._runs is None else tuple(by_graph(self.recording, self._runs))

    @cached_property
    def builds(self) -> tuple[BuildSummary, ...]:
        """Return the requests to build caches, by algorithm."""
        return tuple(by_algorithm(self.recording)) if self.has("builds") else ()

    @cached_property
    def tunings(self) -> tuple[Tuning, ...]:
        """Return the runs of an autotuner."""
        return tuple(tunings(self.recording)) if self.has("builds") else ()

    @cached_property
    def processes(self) -> Comparison | None:
        """Return what all processes together show; None for a recording of one."""
        return comparison(self.recording, self.phases)

    @cached_property
    def compiled_functions(self) -> dict[str, tuple[str, ...]]:
        """Return the functions that torch has compiled to kernels of each name."""
        return functions_of_kernels(self.compilations)

    @cached_property
    def frameworks(self) -> tuple[str, ...]:
        """Return whose kernels these are, without repeats, in order of the kernels."""
        return _frameworks(self.recording, self.by_kernel)

    @cached_property
    def kernel_keys(self) -> dict[int, str]:
        """Return what the inspector knows kernels by; empty where there are many."""
        return self._link_keys[0]

    @cached_property
    def specialization_keys(self) -> dict[int, str]:
        """Return what the inspector knows overloads by; empty where there are many."""
        return self._link_keys[1]

    @cached_property
    def compile_keys(self) -> dict[int, str]:
        """Return what the inspector knows the overloads of compiles by; empty where there are many."""
        return _compile_keys(self.recording, self.kernel_keys, self.specialization_keys)

    @cached_property
    def phases(self) -> LaunchPhases:
        """Return the phases of all launches."""
        return launch_phases(self.recording)

    @cached_property
    def _tried(self) -> Bools:
        return trials(self.recording)

    @cached_property
    def _compiling(self) -> CompileTimes:
        return compile_times_of(self.recording)

    @cached_property
    def _compile_times(self) -> list[CompileTime]:
        return compile_times(self.recording)

    @cached_property
    def _joined(self) -> Joined | None:
        return join(self.recording) if is_gpu_recorded(self.recording) else None

    @cached_property
    def _host(self) -> HostStates | None:
        return None if self._joined is None else host_states(self.recording)

    @cached_property
    def _wall_times(self) -> list[WallTime]:
        return wall_times(self.recording, self._host)

    @cached_property
    def _runs(self) -> GraphRuns | None:
        return graph_runs(self.recording) if self.has("graphs", "graph_events", "activities") else None

    @cached_property
    def _link_keys(self) -> tuple[dict[int, str], dict[int, str]]:
        return link_keys(self.recording)

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
