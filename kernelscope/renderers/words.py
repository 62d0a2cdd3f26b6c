"""The sentences of a summary, as plain text: the card and its text twin print the same ones."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from kernelscope.analysis.cells import CellSummary
from kernelscope.analysis.compilations import CompilationSummary
from kernelscope.analysis.kernels import KernelSummary
from kernelscope.analysis.overview import HealthRow, Overview
from kernelscope.analysis.units import MISSING, count, counted, duration, percent
from kernelscope.renderers import gpu_words
from kernelscope.renderers.base import percents, sizes, span

#: What each phase of a launch's host time is.
PHASE_MEANINGS = {
    "dispatch": "finding the specialization for the argument types",
    "compile": "compiling it, or loading it from the disk cache",
    "prepare": "marshalling arguments, copying host arrays in",
    "submit": "the driver's launch call",
    "finish": "copying host arrays back, debug checks",
    "unsplit": "host time of which no phase was recorded",
}

EMPTY = "no kernel launches in this cell"

#: What to check where nothing was launched.
EMPTY_CHECKS = (
    "a kernel runs only where it is launched: kernel[griddim, blockdim](...)",
    "launches before recording began, or after it ended, are not in it",
    "kernels of a library that no probe knows are not seen; the probes are listed below",
)

_LONG_WAIT_NS = 1_000_000
_NAMED = 5
_NOTEBOOK_FILE = re.compile(r"(?:^|[/\\])ipykernel_\d+[/\\][^/\\]+$")
_PROMPT_FILE = re.compile(r"^<ipython-input-(\d+)-")


@dataclass(frozen=True)
class Figure:
    """One figure of the headline: a label, a value, and what is below it."""

    label: str
    value: str
    note: str


def figures(shown: Overview) -> list[Figure]:
    """Return the headline's figures."""
    kernels = counted(shown.specializations, "specialization")
    compiles = [f"{duration(shown.compile_ns)} in all"] if shown.compilations else []
    if shown.failed_compiles:
        compiles.append(f"{count(shown.failed_compiles)} failed")
    hits = [f"{count(shown.disk_hits)} from disk"]
    if shown.waits:
        hits.append(counted(shown.waits, "wait"))
    gpu = [Figure("GPU busy", *gpu_words.busy_figure(shown.gpu))] if shown.gpu is not None else []
    return [
        Figure("Launches", count(shown.launches), launches_note(shown)),
        Figure("Kernels", count(shown.kernels), kernels),
        Figure("Compiles", count(shown.compiles), ", ".join(compiles) or "nothing compiled"),
        Figure("Found in memory", count(shown.memory_hits), ", ".join(hits)),
        Figure("Host time in launches", duration(shown.totals.host_ns), share_note(shown)),
        *gpu,
    ]


def launches_note(shown: Overview) -> str:
    """Return what is worth knowing about the launches: configurations, graphs, failures, nesting, threads."""
    notes = [counted(shown.configurations, "configuration")]
    if shown.captured:
        notes.append(f"{count(shown.captured)} captured")
    if shown.graph_launches:
        notes.append(counted(shown.graph_launches, "graph launch", "graph launches"))
    if shown.errors:
        notes.append(f"{count(shown.errors)} failed")
    if shown.unfinished:
        notes.append(f"{count(sum(shown.unfinished.values()))} unfinished")
    if shown.nested:
        notes.append(f"{count(shown.nested)} inside others")
    if shown.threads > 1:
        notes.append(f"{count(shown.threads)} threads")
    return ", ".join(notes)


def unfinished_note(shown: Overview) -> str:
    """Return which launches were under way when the process died, or an empty string."""
    if not shown.unfinished:
        return ""
    names = [name if number == 1 else f"{name} ({count(number)})" for name, number in shown.unfinished.items()]
    more = len(names) - _NAMED
    listed = ", ".join(names[:_NAMED]) + (f" and {count(more)} more" if more > 0 else "")
    return f"{counted(sum(shown.unfinished.values()), 'launch', 'launches')} unfinished: {listed}"


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


def place(kernel: KernelSummary, frameworks: Sequence[str] = ()) -> str:
    """Return where a kernel is defined: its module, file and line, without the path of this machine.

    Its framework stands first where it is another than numba-cuda, or one of several `frameworks`.
    """
    file = kernel.filename
    parts = [kernel.framework] if kernel.framework != "numba-cuda" or len(frameworks) > 1 else []
    # Beside a file or a cell, __main__ tells nothing.
    parts += [kernel.module] if kernel.module and not (file and kernel.module == "__main__") else []
    if file:
        prompt = _PROMPT_FILE.match(file)
        if prompt:
            name = f"In [{prompt[1]}]"
        elif _NOTEBOOK_FILE.search(file):
            name = "notebook cell"
        else:
            name = re.split(r"[/\\]", file)[-1]
        spoken = prompt is not None or name == "notebook cell"
        line = "" if kernel.lineno is None else f", line {kernel.lineno}" if spoken else f":{kernel.lineno}"
        parts.append(name + line)
    return " · ".join(parts) or MISSING


def launch_notes(kernel: KernelSummary) -> list[str]:
    """Return how many launches of a kernel were captured and did not run, failed, or did not return."""
    notes = [f"{counted(kernel.captured, 'launch', 'launches')} captured"] if kernel.captured else []
    for number, what in ((kernel.errors, "failed"), (kernel.unfinished, "unfinished")):
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


def ranges_note(shown: Overview) -> str:
    """Return how many ranges and marks there are, and how many ranges were never closed."""
    parts = [counted(sum(each.ranges for each in shown.by_range), "range")]
    if shown.marks:
        parts.append(counted(shown.marks, "mark"))
    unclosed = sum(each.unclosed for each in shown.by_range)
    if unclosed:
        parts.append(f"{count(unclosed)} still open at the end")
    return ", ".join(parts)


def outcome(each: CompilationSummary) -> str:
    """Return what came of a compile."""
    words = {"compiled": "compiled", "disk": "from disk", "wait": "waited", "failed": "failed"}
    return words.get(each.outcome, each.outcome)


def trigger(each: CompilationSummary) -> str:
    """Return who asked for a compile, and how long it waited for another one to end where that was long."""
    words = {
        "launch": "by a launch", "eager": "by @cuda.jit", "specialize": "by specialize", "recompile": "by recompile",
        "device": "by a launch",
    }
    asked = "by forall" if each.reason_code == "forall" else words.get(each.trigger, f"by {each.trigger}")
    if each.wait_ns is not None and each.wait_ns >= _LONG_WAIT_NS:
        asked += f" ({duration(each.wait_ns)} waiting for the compiler lock)"
    return asked


def compile_notes(shown: Overview) -> list[str]:
    """Return what compile time went into, and what a warm disk cache would have saved: a sentence each."""
    notes: list[str] = []
    known = [part for part in shown.compile_parts if part.duration_ns >= _LONG_WAIT_NS]
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
            low, high = (f"{'-' if end < 0 else ''}{duration(abs(end))}" for end in held.interval_ns)
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
    recorder = {"native": "native recorder", "python": "Python recorder"}.get(held.backend or "", "recorder")
    mode = f" in mode {held.mode}" if held.mode in ("ring", "stop") else ""
    lost = f"{count(held.lost)} lost" if held.lost else "none lost"
    return f"; {recorder}{mode}, {counted(held.launches, 'launch', 'launches')} kept, {lost}"


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
    if cell.errors:
        return f"{cell.status}, {counted(cell.errors, 'launch', 'launches')} failed"
    return cell.status
