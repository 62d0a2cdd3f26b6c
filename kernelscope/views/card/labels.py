"""What a card says of each thing (a place in code, a launch configuration, a compile, a graph): plain text, said once.

The card's sections, its plain text, the inspector and the report for tests take it from here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kernelscope.analysis.activities import Busy, CopySummary, KernelExecution, MemsetSummary
from kernelscope.analysis.builds import BuildSummary, Miss
from kernelscope.analysis.cache_keys import FRAMEWORKS
from kernelscope.analysis.columns import Rows
from kernelscope.analysis.compiles import CompilationSummary
from kernelscope.analysis.compiling import LOCK_WAIT_NS
from kernelscope.analysis.gpu import LAUNCHING, STATES, GpuSummary, LaneGaps
from kernelscope.analysis.graphs import CHANGES, GraphSummary
from kernelscope.analysis.launches import CellSummary, ConfigurationSummary, KernelSummary
from kernelscope.analysis.processes import Comparison, ProcessSummary, RepeatedCompile
from kernelscope.analysis.ranges import RangeSummary
from kernelscope.analysis.tuning import Tuning, TuningGpu
from kernelscope.units import MISSING, count, counted, duration, listed, percent, short_name, size
from kernelscope.views.base import clean, dims, percents, shorten, sizes, span, stream
from kernelscope.views.card.model import HealthRow, Overview
from kernelscope.views.parts import doing

#: What each phase of a launch's host time is.
PHASE_MEANINGS = {
    "dispatch": "finding the specialization for the argument types",
    "compile": "compiling the specialization, or loading it from the disk cache",
    "compile_wait": "waiting until another thread had compiled the specialization, or released the compiler",
    "prepare": "marshalling the arguments, and copying host arrays to the device",
    "submit": "the driver's launch call",
    "measuring": "replays of the launch for the GPU's counters",
    "finish": "copying host arrays back to the host, and debug checks",
    "unsplit": "host time of which no phase was recorded",
}

#: What each part of the cells' time is.
TIME_MEANINGS = {
    "python": "what the main thread did outside of launches and CUDA calls: Python, and libraries",
    "compile": "compiling kernels, and loading them from a disk cache",
    "compile_wait": "waiting until another thread had compiled a kernel",
    "launch": "launches without compiles: dispatch, prepare, submit and finish",
    "autotuning": "runs of an autotuner without their compiles: benchmarks of the configurations",
    "measuring": "launches that were replayed for the GPU's counters",
    "wait": "calls that wait for the GPU, such as synchronize",
    "copy": "calls that copy between host and device, where CUPTI recorded them",
    "memset": "calls that fill memory (memsets), where CUPTI recorded them",
    "memory": "calls that allocate, free or map memory, where CUPTI recorded them",
    "graph": "capturing, building, updating and launching CUDA graphs",
    "call": "other calls of the driver or the runtime, such as loading modules",
    "gc": "Python's garbage collections outside of launches, compiles, autotuning and CUDA calls; one inside is time "
          "of those",
    "threads": "nothing is known of the main thread, while other threads of its process launched, compiled or called "
               "CUDA: it may have waited for them, as in backward() or join(), or run Python",
    "recording": "what recording itself cost: an estimate, taken out of Python's part",
}

#: What is a smaller share of the wall time is not noted.
_LEAST_NOTED = 0.01
#: A part of a compile that took less is not noted.
_LEAST_PART_NS = 1_000_000
_NAMED = 5


def launch_figures(shown: Overview) -> tuple[tuple[int, str, str], ...]:
    """Return what else is worth knowing of the launches: a number, the text with it, and what it means."""
    unfinished = sum(shown.unfinished.values())
    return (
        (shown.errors, f"{count(shown.errors)} failed", "launches that raised an exception"),
        (unfinished, f"{count(unfinished)} unfinished", "launches that had not returned when the process died"),
        (shown.captured, f"{count(shown.captured)} captured", "launches that went into a graph, and did not run"),
        (shown.trials, f"{count(shown.trials)} in autotuning", "launches of an autotuner's benchmarks, which are not "
         "among the others"),
        (shown.graph_launches, counted(shown.graph_launches, "graph launch", "graph launches"),
         "launches of whole CUDA graphs"),
        (shown.nested, f"{count(shown.nested)} inside others", "launches that another launch made"),
        (max(shown.threads - 1, 0), f"{count(shown.threads)} threads", "host threads that launched kernels"),
    )


def unfinished_note(shown: Overview) -> str:
    """Return which launches were under way when the process died, or an empty string."""
    if not shown.unfinished:
        return ""
    names = [name if number == 1 else f"{name} ({count(number)})" for name, number in shown.unfinished.items()]
    launches = counted(sum(shown.unfinished.values()), "launch", "launches")
    return f"{launches} unfinished: {listed(names, _NAMED)}"


def unchecked_notes(shown: Overview) -> list[str]:
    """Return which launches passed arguments of other types than the kernel's only signature has, and what to do."""
    notes: list[str] = []
    for each in shown.unchecked[:_NAMED]:
        what = (f"argument `{each.argument}` as {each.passed}, which is declared as {each.declared}"
                if each.argument is not None else f"{each.passed} of {each.declared}")
        notes.append(f"{counted(each.launches, 'launch', 'launches')} of {each.name} passed {what}: numba-cuda does "
                     f"not check it where a kernel has one signature, and the kernel reads wrong data; {each.fix}")
    more = len(shown.unchecked) - _NAMED
    return [*notes, *([f"and {more} more"] if more > 0 else [])]


def reversed_note(shown: Overview) -> str:
    """Return how many cells end before they start."""
    cells = counted(shown.reversed_cells, "cell")
    return f"{cells} left out of the wall time: the end is before the start, as after a jump of a clock"


def share_note(shown: Overview) -> str:
    """Return the host time's share of the cells' wall time."""
    if shown.wall_ns is None:
        return "wall time not recorded"
    if shown.host_share is None:
        return f"of {duration(shown.wall_ns)} wall time"
    return f"{percent(shown.host_share)} of {duration(shown.wall_ns)} wall time"


def synchronize_note(shown: Overview) -> str:
    """Return how long the device was waited for after the cell, or an empty string."""
    if shown.synchronize_ns is None:
        return ""
    return f"waited {duration(shown.synchronize_ns)} for the device after the cell's end"


def garbage_note(shown: Overview) -> str:
    """Return how much of launches, compiles and CUDA calls was garbage collection, or an empty string."""
    inside = 0 if shown.time is None else shown.time.gc_ns - shown.time.parts["gc"]
    if shown.time is None or inside < _LEAST_NOTED * shown.time.wall_ns or not inside:
        return ""
    return f"{duration(inside)} of garbage collection inside launches, compiles and CUDA calls is part of their time"


def launch_notes(kernel: KernelSummary) -> list[str]:
    """Return how many launches of a kernel were captured, were an autotuner's, failed, or did not return."""
    notes = [f"{counted(kernel.captured, 'launch', 'launches')} captured"] if kernel.captured else []
    for number, what in ((kernel.trials, "in autotuning"), (kernel.errors, "failed"),
                         (kernel.unfinished, "unfinished")):
        notes += [f"{counted(number, 'launch', 'launches')} {what}"] if number else []
    return notes


def resources(kernel: KernelSummary) -> str:
    """Return a kernel's configurations, specializations, registers, shared memory and occupancy."""
    parts = [counted(kernel.configurations, "configuration"), counted(kernel.specializations, "specialization")]
    if kernel.regs is not None and kernel.specializations:
        parts.append(f"{span(kernel.regs)} registers")
    if kernel.shared_bytes is not None and kernel.shared_bytes[1]:
        parts.append(f"{sizes(kernel.shared_bytes)} shared")
    if kernel.occupancy is not None:
        parts.append(f"occupancy {percents(kernel.occupancy)}")
    return ", ".join(parts)


#: How processes end that need attention: what lost the most first.
_ENDED = ("killed", "cut off", "unfinished", "terminated")


def worst_first(processes: Sequence[ProcessSummary]) -> list[ProcessSummary]:
    """Return the processes in order, but first those that did not end well."""
    order = dict(zip((*_ENDED, "ok"), range(-len(_ENDED), 1), strict=True))
    return sorted(processes, key=lambda each: order.get(each.row["status"], -1))


def process_number(found: Comparison) -> str:
    """Return how many processes there are, on how many machines, and how many did not end well."""
    parts = [count(len(found.processes))]
    machines = {each.row["host"] for each in found.processes} - {None}
    if len(machines) > 1:
        parts.append(f"{len(machines)} machines")
    ended: dict[str, list[str]] = {}
    for each in worst_first(found.processes):
        if each.row["status"] != "ok":
            ended.setdefault(each.row["status"], []).append(clean(each.label))
    parts += [f"{count(len(names))} {status} ({listed(names, 3)})" for status, names in ended.items()]
    if found.imbalance is not None:
        parts.append(f"imbalance {percent(found.imbalance.share)}")
    return ", ".join(parts)


#: So many specializations that several processes compiled are named.
_MOST_REPEATED = 3


def process_lines(found: Comparison) -> list[str]:
    """Return what only all processes together show: who was slowest, and what each compiled for itself."""
    lines: list[str] = []
    uneven = found.imbalance
    if uneven is not None:
        apart = " without exposed communication" if any(each.exposed_ns for each in found.processes) else ""
        what = f"GPU busy{apart}" if uneven.measure == "work" else "host time of launches"
        least: int | None = getattr(uneven.fastest, f"{uneven.measure}_ns")
        lines.append(f"slowest: {clean(uneven.slowest.label)}, {what} {duration(uneven.most_ns)}, "
                     f"{duration(uneven.most_ns - uneven.mean_ns)} above the mean; fastest: "
                     f"{clean(uneven.fastest.label)}, {duration(least)}; imbalance (max - mean) / max "
                     f"{percent(uneven.share)}")
    lines += [repeated_line(each, found) for each in found.repeated[:_MOST_REPEATED]]
    if len(found.repeated) > _MOST_REPEATED:
        rest = found.repeated[_MOST_REPEATED:]
        lines.append(f"{counted(len(rest), 'more specialization')} compiled by several processes, "
                     f"{duration(sum(each.avoidable_ns for each in rest))} too much")
    talking = [each for each in found.processes if each.communication_ns]
    if talking:
        total = sum(each.communication_ns or 0 for each in talking)
        exposed = sum(each.exposed_ns or 0 for each in talking)
        most = max(talking, key=lambda each: each.exposed_ns or 0)
        lines.append(f"communication: {duration(total)} in {counted(len(talking), 'process', 'processes')}, "
                     f"{duration(total - exposed)} of it hidden by kernels, {duration(exposed)} exposed; most in "
                     f"{clean(most.label)}: {duration(most.exposed_ns)}")
    return lines


def repeated_line(each: RepeatedCompile, found: Comparison) -> str:
    """Return what is so with a specialization that several processes compiled, and what would leave one compile."""
    text = (f"{each.processes} processes compiled {short_name(each.kernel)}, {each.compiles} x "
            f"{duration(each.median_ns)}: ")
    if each.at_once == each.compiles:
        text += "all at the same time; "
    elif each.at_once > 1:
        who = listed([clean(found.processes[at].label) for at in each.by], _MOST_REPEATED)
        text += f"{each.at_once} at the same time ({who}); "
    cache = "NUMBA_CACHE_DIR and cache=True" if each.framework.startswith("numba") else f"cache of {each.framework}"
    return text + f"a shared {cache} would leave one" + (
        " where one process compiles before the others" if each.at_once > 1 else "")


def ranges_note(shown: Overview) -> str:
    """Return how many ranges and marks there are, and how many ranges were never closed."""
    parts = [counted(sum(each.ranges for each in shown.by_range), "range")]
    if shown.marks:
        parts.append(counted(shown.marks, "mark"))
    unclosed = sum(each.unclosed for each in shown.by_range)
    if unclosed:
        parts.append(f"{count(unclosed)} still open at the end")
    return ", ".join(parts)


def range_notes(each: RangeSummary) -> list[str]:
    """Return how many ranges of a path were never closed, and how much of their GPU time are copies."""
    notes = [f"{count(each.unclosed)} still open at the end"] if each.unclosed else []
    return [*notes, f"own copies and memsets {duration(each.copy_ns)}"] if each.copy_ns else notes


#: What is new in a compile, by its reason; other reasons need a sentence.
NEW = {
    "first_use": "its first use", "new_dtype": "a new dtype", "new_dimensions": "another number of dimensions",
    "new_layout": "a new layout", "new_access": "a read-only array", "new_alignment": "another alignment",
    "new_scalar": "another type of number", "tuple_arity": "another length of a tuple", "optional": "an optional",
    "literal": "a new literal", "new_type": "a new type", "argument_count": "another number of arguments",
    "launch_config": "a new launch configuration", "redefined": "a new definition", "recompile": "recompile()",
    "new_constexpr": "another constexpr", "divisibility": "another divisibility by 16", "equal_to_1": "an integer of 1",
    "new_option": "another option", "new_setting": "another setting", "new_global": "another global",
}
#: Of these, what is new does not say why.
_NEEDS_SENTENCE = ("launch_config", "redefined", "recompile", "argument_count", "divisibility", "equal_to_1",
                   "new_option", "new_setting", "new_global")


def outcome(each: CompilationSummary) -> str:
    """Return what came of a compile, such as ``compiled again``."""
    if each.outcome == "compiled":
        return "compiled again" if each.reason_code not in (
            "first_use", "eager", "graph_break", "backward", "autotune", "unknown") else "compiled"
    said = {"disk": "loaded from disk", "wait": "waited for another thread's compile", "failed": "failed to compile"}
    return said.get(each.outcome, each.outcome)


def compile_reason(each: CompilationSummary) -> str:
    """Return why a compile was needed: what is new in brief where that says it all, else the whole sentence."""
    why = each.change or NEW.get(each.reason_code, "")
    is_said = each.reason_code in NEW and each.reason_code not in _NEEDS_SENTENCE and each.framework not in FRAMEWORKS
    if each.outcome != "compiled" or not is_said:
        why = each.reason
    return f"{why}; {each.notes}" if each.notes else why


def trigger(each: CompilationSummary) -> str:
    """Return who asked for a compile, and how long it waited for another one to end where that was long."""
    words = {
        "launch": "by a launch", "eager": "by @cuda.jit", "specialize": "by specialize", "recompile": "by recompile",
        "device": "by a launch",
    }
    asked = "by forall" if each.reason_code == "forall" else words.get(each.trigger, f"by {each.trigger}")
    if each.outcome != "wait" and each.wait_ns is not None and each.wait_ns >= LOCK_WAIT_NS:
        asked += f" ({duration(each.wait_ns)} waiting for the compiler lock)"
    return asked


def compile_counts(shown: Overview) -> str:
    """Return how many compiles there were, and what else asked for one: loads, failed ones, waits for another's."""
    others = ((shown.disk_hits, f"{count(shown.disk_hits)} from disk"),
              (shown.failed_compiles, f"{count(shown.failed_compiles)} failed"),
              (shown.waits, counted(shown.waits, "wait")))
    first = [count(shown.compiles)] if shown.compiles or shown.failed_compiles else []
    return ", ".join([*first, *(text for number, text in others if number)])


def compile_notes(shown: Overview) -> list[str]:
    """Return what compile time went into, and what a warm disk cache would have saved: a sentence each."""
    notes: list[str] = []
    known = [part for part in shown.compile_parts if part.duration_ns >= _LEAST_PART_NS]
    if any(part.kind != "other" for part in known):
        known.sort(key=lambda part: (part.kind == "other", -part.duration_ns))
        notes.append("time went into " + ", ".join(f"{part.name} {duration(part.duration_ns)}" for part in known))
    warm = shown.warm_cache
    if warm is not None:
        compiles = counted(warm.compiles, "compile")
        note = f"a warm disk cache would have saved at most {duration(warm.saved_ns)} of {compiles}"
        if warm.setup_ns * 5 > warm.saved_ns:
            note += f"; {duration(warm.setup_ns)} of that is the compiler's own setup, part of which a load needs too"
        notes.append(note)
    return notes


def cost(shown: Overview) -> str:
    """Return what recording itself cost, and how many launches it kept and lost."""
    held, of = shown.cost, kept(shown)
    if held is None:
        return f"Recording's own cost: not known{of}"
    about = "about" if held.is_seen else "at most"
    parts = [f"Recording's own cost: {about} {duration(held.total_ns)}"]
    if held.launch_ns is not None:
        each = f"{duration(held.launch_ns)} a launch"
        if held.interval_ns is not None:
            low, high = map(duration, held.interval_ns)
            each += f" ({low} to {high}{'' if held.is_seen else ': no difference seen'})"
        parts.append(each)
    if held.share is not None:
        parts.append(f"{percent(held.share)} of the wall time")
    if held.kind:
        parts.append(f"{held.kind} on {held.measured}" if held.measured else held.kind)
    return ", ".join(parts) + of


def kept(shown: Overview) -> str:
    """Return how many launches were kept and lost, as the end of a sentence; an empty string where it is not known."""
    held = shown.kept
    if held is None:
        return ""
    mode = f"mode {held.mode}, " if held.mode in ("ring", "stop") else ""
    lost = f"{count(held.lost)} lost" if held.lost else "none lost"
    return f"; {mode}{counted(held.launches, 'launch', 'launches')} kept, {lost}"


def health(row: HealthRow) -> str:
    """Return one fact about the recording itself, without its probe, status and fix."""
    parts = [row.message] if row.message else []
    if row.dropped:
        parts.append(f"{counted(row.dropped, 'record')} dropped")
    if row.errors:
        parts.append(f"{counted(row.errors, 'error')} inside KernelScope, counted and swallowed")
    return "; ".join(parts)


def cell_problem(cell: CellSummary) -> str:
    """Return what went wrong in a cell, in one word or more; an empty string where nothing did."""
    failed = [counted(number, *words) for number, words in (
        (cell.errors, ("launch", "launches")), (cell.failed_compiles, ("compile",))) if number]
    return f"{cell.status}, {' and '.join(failed)} failed" if failed else cell.status


# The GPU's side.

#: What each part of the GPU's time is.
PART_MEANINGS = {
    "kernel": "time in which a kernel ran",
    "graphs": "time in which graphs ran that were traced as a whole, and no kernel that is known",
    "copy": "time in which copies ran, and no kernel",
    "memset": "time in which memsets ran, and no kernel, graph or copy",
    "measuring": "time in which launches were replayed for the GPU's counters, whose kernels are not recorded",
    "idle": "time in which the GPU had nothing to do",
}

EVENTS_NOTE = ("Kernels were timed with CUDA events, which adds work to each launch and so changes what it measures: "
               "these are the times of a perturbed run.")

_NAMED_KERNELS = 3
#: Names of C++ templates go on for lines; the table below has all of them.
_NAME = 44


def gpu_parts(busy: Busy) -> tuple[tuple[str, int], ...]:
    """Return what a bar of the GPU's time shows, those of its parts that took time; they add up to it."""
    copies = busy.busy_ns - busy.kernel_ns - busy.graph_ns - busy.memset_ns
    found = (("kernel", busy.kernel_ns), ("graphs", busy.graph_ns), ("copy", copies), ("memset", busy.memset_ns),
             ("measuring", busy.measuring_ns), ("idle", busy.window_ns - busy.busy_ns - busy.measuring_ns))
    return tuple((name, value) for name, value in found if value > 0)


def states(idle: LaneGaps) -> tuple[tuple[str, int], ...]:
    """Return what the host did while the GPU idled: states that took time."""
    return tuple((state, idle.by_state[state]) for state in STATES if idle.by_state[state] > 0)


def device_name(shown: Overview, device_id: int | None) -> str:
    """Return what to call a device where there are several."""
    if shown.gpu is None or len(shown.gpu.busy) < 2:
        return ""
    return "unknown device" if device_id is None else shown.gpu.devices.get(device_id, f"device {device_id}")


def idle_line(idle: LaneGaps, window_ns: int) -> str:
    """Return how much the GPU idled, and what the host did for most of that time."""
    state = idle.dominant
    if state is None or not window_ns:
        return ""
    most = idle.by_state[state]
    line = f"idle {percent(idle.idle_ns / window_ns)} of the time"
    if most == idle.idle_ns:
        return f"{line}: while the host was {doing(state)}"
    # No phase of a launch may be much of it, and all of them together most of it.
    launching = sum(idle.by_state[each] for each in LAUNCHING)
    if 2 * most < idle.idle_ns and launching > most:
        state, most = "launch", launching
    how = "mostly" if 2 * most >= idle.idle_ns else "above all"
    return f"{line}: {how} while the host was {doing(state)} ({duration(most)} of {duration(idle.idle_ns)})"


def gpu_lines(shown: Overview) -> list[str]:
    """Return everything else that there is to say about the GPU's side, one sentence a line."""
    gpu = shown.gpu
    if gpu is None:
        return []
    found = [EVENTS_NOTE] if gpu.source == "events" else []
    if gpu.kernels:
        found.append(_other_kernels(gpu))
    found += [_copies(each, device_name(shown, each.device_id)) for each in gpu.copies]
    found += [_memsets(each, device_name(shown, each.device_id)) for each in gpu.memsets]
    found += filter(None, (graph_runs_line(shown), whole_graphs_line(shown)))
    if gpu.others:
        found.append(others_line(gpu.others))
    missing = missing_kernels(shown)
    if missing:
        have = counted(missing, "launch has", "launches have")
        # Where captures were seen, what went into them is not among these.
        why = "not recorded" if shown.captured else "captured into a graph, or not recorded"
        found.append(f"{have} no kernel: {why}.")
    if gpu.reversed:
        left_out = counted(gpu.reversed, "activity", "activities")
        found.append(f"{left_out} left out: the end is before the start, as after a jump of a clock.")
    if gpu.untimed and gpu.source == "cupti":
        found.append(f"{counted(gpu.untimed, 'activity was', 'activities were')} not timed.")
    if gpu.clock_error_ns is not None:
        found.append(f"GPU times are within {duration(gpu.clock_error_ns)} of the host clock.")
    return found


def missing_kernels(shown: Overview) -> int:
    """Return how many launches should have a kernel and have none."""
    if shown.gpu is None or shown.gpu.source != "cupti":
        return 0
    return max(shown.launches - shown.errors - shown.gpu.joined, 0)


def is_shown(shown: Overview) -> bool:
    """Return whether there is anything to say about the GPU's side."""
    gpu = shown.gpu
    return gpu is not None and bool(gpu.kernels or gpu.copies or gpu.memsets or gpu.busy or missing_kernels(shown))


def others_line(kernels: Rows[KernelExecution]) -> str:
    """Return the kernels whose launch is not known: how many, for how long, and the first names."""
    total, spent = kernels.total("others"), kernels.column("total_ns")
    took = f", {duration(kernels.total('total_ns'))}" if bool((spent >= 0).any()) else ""
    named = listed([shorten(clean(each.name), _NAME) for each in kernels[:_NAMED_KERNELS]],
                   more=len(kernels) - _NAMED_KERNELS)
    return f"Other: {counted(total, 'kernel')}{took}, whose launches were not recorded: {named}."


def _other_kernels(gpu: GpuSummary) -> str:
    line = counted(gpu.kernels, "kernel")
    if gpu.execute is not None:
        average = "" if gpu.execute.count == 1 else f" in all, {duration(gpu.execute.mean_ns)} each on average"
        line += f" ran for {duration(gpu.execute.total_ns)}{average}"
    if gpu.queue is not None:
        line += f"; launches queued for {duration(gpu.queue.p50_ns)} (median), {duration(gpu.queue.p99_ns)} (p99)"
    return line + "."


def _copies(each: CopySummary, where: str) -> str:
    moved = f"{size(each.size_bytes)} in " if each.size_bytes is not None else ""
    line = f"{each.direction}{f' on {where}' if where else ''}: {moved}{counted(each.copies, 'copy', 'copies')}"
    if each.copy_ns is not None:
        line += f", {duration(each.copy_ns)}"
        if each.bytes_per_second is not None:
            line += f" at {each.bytes_per_second / 1e9:,.1f} GB/s"
        line += f", {percent(each.hidden_share or 0)} hidden under kernels"
    if each.pageable:
        line += f"; {count(each.pageable)} with pageable memory of the host"
    return line + "."


def _memsets(each: MemsetSummary, where: str) -> str:
    filled = f", {size(each.size_bytes)} filled" if each.size_bytes is not None else ""
    took = f" in {duration(each.memset_ns)}" if each.memset_ns is not None else ""
    return f"{counted(each.memsets, 'memset')}{f' on {where}' if where else ''}{filled}{took}."


# Graphs and build caches.

_KINDS = {
    "kernel": ("kernel", "kernels"), "memcpy": ("copy", "copies"), "memset": ("memset", "memsets"),
    "host": ("host function", "host functions"), "empty": ("empty node", "empty nodes"),
    "event_record": ("event record", "event records"), "event_wait": ("event wait", "event waits"),
    "child": ("child graph", "child graphs"), "if": ("if", "ifs"), "while": ("while", "whiles"),
    "switch": ("switch", "switches"), "mem_alloc": ("allocation", "allocations"), "mem_free": ("free", "frees"),
    "other": ("other node", "other nodes"),
}
_CHANGED = {
    "none": "nothing changed", "arguments": "other arguments", "configuration": "another launch configuration or size",
    "topology": "other nodes or edges",
}
_OUTCOMES = {"miss": "built", "wait": "waited for another thread", "failed": "failed"}
_FEW = 3


def graph_nodes(graph: GraphSummary) -> str:
    """Return how many nodes a graph has, by kind."""
    if graph.nodes is None:
        return "its nodes were not seen"
    kinds = ", ".join(counted(number, *_KINDS.get(kind, (kind, kind))) for kind, number in graph.kinds.items())
    return f"{counted(graph.nodes, 'node')}{f' ({kinds})' if kinds else ''}, {counted(graph.edges or 0, 'edge')}"


def graph_kernels(graph: GraphSummary) -> str:
    """Return the names of its first kernels, and how many more there are; of mangled names the short ones."""
    return listed([*dict.fromkeys(short_name(name) if "(" in name else name for name in graph.kernels)], _FEW)


def graph_names(graph: GraphSummary) -> str:
    """Return what to call a graph, or several of one topology: ``graph 0``, ``graphs 0, 1``."""
    several = len(graph.graph_ids) > 1
    return f"graphs {listed([*map(str, graph.graph_ids)], _FEW)}" if several else graph.name


def graph_notes(graph: GraphSummary) -> list[str]:
    """Return what else there is to say of a graph, one sentence a line."""
    found: list[str] = []
    if graph.captured and graph.captures:
        into = counted(graph.captures, "capture")
        spent = "" if graph.capture is None else f", {duration(graph.capture.total_ns)}"
        found.append(f"{counted(graph.captured, 'launch', 'launches')} captured in {into}{spent}")
    if graph.rebuilt:
        found.append(_rebuilds(graph))
    if graph.before:
        found.append("built before recording began")
    if graph.variants > 1:
        found.append(f"{graph.variants:,} graphs of one topology, with other launch configurations or sizes")
    if graph.uploads:
        again = f", {count(graph.reuploads)} of them though it was there" if graph.reuploads else ""
        found.append(counted(graph.uploads, "upload") + again)
    if graph.failed:
        found.append(f"{counted(graph.failed, 'instantiate')} failed")
    return found


def _rebuilds(graph: GraphSummary) -> str:
    """Describe how many builds were rebuilds, and what had changed."""
    parts = [f"{graph.rebuilds[change]:,} with {_CHANGED[change]}" for change in CHANGES if change in graph.rebuilds]
    what = f" ({', '.join(graph.changes[:_FEW])}{' and more' if len(graph.changes) > _FEW else ''})" if (
        graph.changes) else ""
    kept = graph.rebuilt - sum(graph.replaced.values())
    beside = f"; {count(kept)} beside one that is kept" if kept else ""
    known = f": {', '.join(parts)}" if parts else ""
    return f"{counted(graph.rebuilt, 'rebuild')}, {duration(graph.rebuild_ns)}{known}{what}{beside}"


def graphs_note(shown: Overview) -> str:
    """Return the note after the heading of the graphs."""
    parts = [counted(len(shown.by_graph), "graph"), counted(sum(each.builds for each in shown.by_topology), "build"),
             counted(shown.graph_launches, "launch", "launches")]
    return ", ".join(parts)


def graph_runs_line(shown: Overview) -> str:
    """Return what launches of graphs did on the GPU, as one sentence; an empty string where nothing was seen."""
    kernel_runs = sum(each.kernel_runs for each in shown.by_topology)
    others = sum(each.other_runs for each in shown.by_topology)
    if not kernel_runs and not others:
        return ""
    times = [each.busy_ns for each in shown.by_topology if each.busy_ns is not None]
    took = f", {duration(sum(times))}" if times else ""
    more = f" and {counted(others, 'copy or memset', 'copies and memsets')}" if others else ""
    seen = [each for each in shown.by_graph if each.kernel_runs or each.other_runs]
    launches = sum(each.launches for each in seen)
    how = f"{counted(launches, 'graph launch', 'graph launches')} of " if launches else ""
    return f"{how}{counted(len(seen), 'graph')} ran {counted(kernel_runs, 'kernel')}{more}{took}."


def whole_graphs_line(shown: Overview) -> str:
    """Return which launches of graphs were traced as a whole, as one sentence; an empty string where none was."""
    graphs = [each for each in shown.by_graph if each.whole_runs]
    if not graphs:
        return ""
    spent = sum(each.execute.total_ns for each in graphs if each.execute is not None)
    return (f"{counted(sum(each.whole_runs for each in graphs), 'graph launch', 'graph launches')} of "
            f"{counted(len(graphs), 'graph')} ran for {duration(spent)}, traced as a whole: which kernels ran in them "
            "is not known.")


def builds_note(shown: Overview) -> str:
    """Return the note after the heading of the build caches."""
    requests = sum(each.requests for each in shown.builds)
    return f"{counted(requests, 'request')}, {duration(sum(each.host_ns for each in shown.builds))} in all"


def tunings_note(shown: Overview) -> str:
    """Return the note after the heading of the autotuners' runs."""
    total, compiling = (sum(getattr(each, name) for each in shown.tunings) for name in ("duration_ns", "compile_ns"))
    return (f"{counted(len(shown.tunings), 'run')}, {duration(total)} in all: compiling {duration(compiling)}, "
            f"benchmarking {duration(max(total - compiling, 0))}")


def _tuning_gpu(spent: TuningGpu | None) -> str:
    """Return what the GPU did for a benchmark, as the end of a phrase."""
    if spent is None or not spent.total_ns:
        return ""
    parts = ((spent.trials_ns, "trial kernels"), (spent.flush_ns, "cache flush"), (spent.others_ns, "other work"))
    return ", on the GPU " + " and ".join(f"{duration(each)} {what}" for each, what in parts if each)


def tuning_outcome(run: Tuning, cells: Mapping[int, str]) -> str:
    """Return what an autotuner did and what for, and in which cell where there are several."""
    where = "" if run.cell_id is None or len(cells) < 2 else f" in {cells.get(run.cell_id, 'a cell')}"
    key = f" for {run.key_text}" if run.key_text else ""
    word = {"disk": "autotuned from disk", "failed": "autotuning failed"}.get(run.outcome, "autotuned")
    return f"{word}{key}{where}"


def tuning_result(run: Tuning) -> str:
    """Return what was tried and chosen, and why the run was needed where it was not the first."""
    parts = [f"{count(number)} {word}" for number, word in ((run.failed, "failed"), (len(run.pruned), "pruned"))
             if number]
    tried = counted(len(run.trials), "configuration") + (f" ({', '.join(parts)})" if parts else "")
    if run.outcome != "disk":
        tried += f", compiling {duration(run.compile_ns)}, benchmarking {duration(run.bench_ns)}"
        tried += _tuning_gpu(run.gpu)
    best, second = run.best, run.next_best
    if best is not None and best.ms is not None:
        after = f"; next {milliseconds(second.ms)}" if second is not None and second.ms is not None else ""
        tried += f"; best {best.label} ({milliseconds(best.ms)}{after})"
    if run.error:
        tried += f"; {run.error}"
    return tried + (f". Why: {run.reason}" if run.reason and run.reason_code not in ("first_use", "disk") else "")


def tuning_detail(run: Tuning) -> str:
    """Return every configuration with its time, fastest first, one a line."""
    order = sorted(run.trials, key=lambda each: float("inf") if each.ms is None else each.ms)
    lines = [f"{each.label}: {each.error or 'failed' if each.ms is None else milliseconds(each.ms)}" for each in order]
    return "\n".join([*lines, *[f"{each.label}: pruned" for each in run.pruned]])


def milliseconds(value: float) -> str:
    """Return a time that a benchmark measured."""
    return duration(value * 1e6)


def build_misses(shown: Overview) -> list[Miss]:
    """Return all requests that were no hits, longest first."""
    found = (miss for each in shown.builds for miss in each.not_hits)
    return sorted(found, key=lambda each: (-(each.duration_ns or 0), each.build_id))


def build_outcomes(each: BuildSummary) -> str:
    """Return what went otherwise than a hit or a miss, and how much machine code was built."""
    parts = [counted(each.waits, "wait")] if each.waits else []
    parts += [f"{count(each.failed)} failed"] if each.failed else []
    parts += [f"{size(each.cubin_bytes)} of machine code"] if each.cubin_bytes else []
    return ", ".join(parts)


def miss_outcome(miss: Miss, cells: Mapping[int, str]) -> str:
    """Return what came of a request that was no hit, and in which cell where there are several."""
    where = "" if miss.cell_id is None or len(cells) < 2 else f" in {cells.get(miss.cell_id, 'a cell')}"
    return _OUTCOMES.get(miss.outcome, miss.outcome) + where


def miss_reason(miss: Miss) -> str:
    """Return why a request was no hit."""
    return miss.error or miss.reason or ("another thread was building the same" if miss.outcome == "wait" else
                                         MISSING if miss.reason_code is None else miss.reason_code)


def cell_labels(shown: Overview) -> dict[int, str]:
    """Return what to call each cell, by its id."""
    return {each.cell_id: each.label for each in shown.by_cell if each.cell_id is not None}


def cells_of(graph: GraphSummary, shown: Overview) -> str:
    """Return in which cells a graph was built or launched, where there are several; else an empty string."""
    labels = cell_labels(shown)
    return listed([labels.get(each, "?") for each in graph.cells], _FEW) if len(labels) > 1 else ""


def configuration_values(each: ConfigurationSummary) -> dict[str, str]:
    """Return a launch configuration as text: grid, block, shared, stream, launches, median, occupancy, registers."""
    grid = dims(each.griddim)
    if each.cluster is not None:
        grid += f" in clusters of {dims(each.cluster)}"
    return {
        "grid": grid, "block": dims(each.blockdim), "shared": size(each.sharedmem_bytes),
        "stream": stream(each.stream, each.device, each.owner), "launches": launched(each),
        "median": duration(each.median_ns), "occupancy": percents(each.occupancy), "registers": span(each.regs),
    }


def launched(each: ConfigurationSummary) -> str:
    """Return how many launches ran, and how many were captured into a graph."""
    if not each.captured:
        return count(each.launches)
    return f"{count(each.launches)} + {count(each.captured)} captured" if each.launches else (
        f"{count(each.captured)} captured")
