"""The sentences of a summary about the GPU's side, as plain text: the card and its text twin print the same ones."""

from __future__ import annotations

from collections.abc import Sequence

from kernelscope.analysis.busy import Busy
from kernelscope.analysis.execution import KernelExecution
from kernelscope.analysis.gaps import LaneGaps
from kernelscope.analysis.gpu import GpuSummary
from kernelscope.analysis.host import LAUNCHING, STATES
from kernelscope.analysis.overlap import CopySummary
from kernelscope.analysis.overview import Overview
from kernelscope.analysis.units import count, counted, duration, percent, size
from kernelscope.renderers import graph_sentences
from kernelscope.renderers.base import clean, shorten

#: What the host was doing, by its state, as the end of "while the host was ...".
DOING = {
    "dispatch": "in dispatch",
    "compile": "compiling",
    "prepare": "preparing arguments",
    "submit": "submitting launches",
    "finish": "finishing launches",
    "unsplit": "in launches",
    "call": "in other driver calls",
    "wait": "waiting for the device",
    "outside": "outside of launches",
}

#: What each part of the GPU's time is.
PART_MEANINGS = {
    "kernel": "time in which a kernel ran",
    "copy": "time in which copies or memsets ran, and no kernel",
    "idle": "time in which the GPU had nothing to do",
}

EVENTS_NOTE = ("Kernels were timed with CUDA events, which adds work to each launch and so changes what it measures: "
               "these are the times of a perturbed run.")

_NAMED = 3
#: Names of C++ templates go on for lines; the table below has all of them.
_NAME = 44


def busy_figure(gpu: GpuSummary) -> tuple[str, str]:
    """Return the headline's figure of the GPU and its note."""
    if not gpu.busy:
        note = f"{duration(gpu.execute.total_ns)} of kernels" if gpu.execute else "nothing was seen on it"
        return percent(None if gpu.execute else 0.0), note
    if len(gpu.busy) == 1:
        only = gpu.busy[0]
        return percent(only.share), f"{duration(only.busy_ns)} of {duration(only.window_ns)}"
    shares = [each.share for each in gpu.busy if each.share is not None]
    if not shares:
        return percent(None), counted(len(gpu.busy), "device")
    return " to ".join(dict.fromkeys(percent(each) for each in (min(shares), max(shares)))), (
        f"{counted(len(gpu.busy), 'device')}, of {duration(gpu.busy[0].window_ns)}")


def parts(busy: Busy) -> tuple[tuple[str, int], ...]:
    """Return what a bar of the GPU's time shows: kernel, copy and idle, those that took time."""
    copies, idle = busy.busy_ns - busy.kernel_ns, busy.window_ns - busy.busy_ns
    found = (("kernel", busy.kernel_ns), ("copy", copies), ("idle", idle))
    return tuple((name, value) for name, value in found if value > 0)


def states(idle: LaneGaps) -> tuple[tuple[str, int], ...]:
    """Return what the host did while the GPU idled: states that took time."""
    return tuple((state, idle.by_state[state]) for state in STATES if idle.by_state[state] > 0)


def device(shown: Overview, device_id: int | None) -> str:
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
        return f"{line}: while the host was {DOING[state]}"
    # No phase of a launch may be much of it, and all of them together most of it.
    launching = sum(idle.by_state[each] for each in LAUNCHING)
    doing = DOING[state]
    if 2 * most < idle.idle_ns and launching > most:
        most, doing = launching, "making launches"
    how = "mostly" if 2 * most >= idle.idle_ns else "above all"
    return f"{line}: {how} while the host was {doing} ({duration(most)} of {duration(idle.idle_ns)})"


def lines(shown: Overview) -> list[str]:
    """Return everything else that there is to say about the GPU's side, one sentence a line."""
    gpu = shown.gpu
    if gpu is None:
        return []
    found = [EVENTS_NOTE] if gpu.source == "events" else []
    if gpu.kernels:
        found.append(_kernels(gpu))
    found += [_copies(each, device(shown, each.device_id)) for each in gpu.copies]
    in_graphs = graph_sentences.ran(shown)
    if in_graphs:
        found.append(in_graphs)
    if gpu.others:
        found.append(others(gpu.others))
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
    return gpu is not None and bool(gpu.kernels or gpu.copies or gpu.busy or missing_kernels(shown))


def others(kernels: Sequence[KernelExecution]) -> str:
    """Return the kernels that no recorded launch made: how many, for how long, and the first names."""
    total = sum(each.others for each in kernels)
    spent = [each.execute.total_ns for each in kernels if each.execute is not None]
    took = f", {duration(sum(spent))}" if spent else ""
    named = ", ".join(shorten(clean(each.name), _NAME) for each in kernels[:_NAMED])
    more = f" and {counted(len(kernels) - _NAMED, 'more name')}" if len(kernels) > _NAMED else ""
    return f"Other: {counted(total, 'kernel')}{took}, launched by libraries that no probe records: {named}{more}."


def _kernels(gpu: GpuSummary) -> str:
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
