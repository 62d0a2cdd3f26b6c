"""The first lines of a card: where the time went, and which launches stand out, from the data alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kernelscope.analysis.compiles import CompilationSummary
from kernelscope.analysis.gpu import LAUNCHING, GpuSummary
from kernelscope.analysis.outliers import LongLaunch, Meanwhile, Outliers
from kernelscope.analysis.wall_time import WallTime
from kernelscope.units import count, counted, duration, percent, size
from kernelscope.views.base import clean, shorten
from kernelscope.views.card.labels import NEW
from kernelscope.views.parts import part_label

#: The parts of the wall time that a reader tells apart, in the order in which equal ones are listed.
GROUPS: Mapping[str, tuple[str, ...]] = {
    **{part: (part,) for part in ("python", "compile", "compile_wait")}, "launch": LAUNCHING,
    **{part: (part,) for part in ("autotuning", "measuring", "wait", "copy", "memset", "memory", "graph", "call", "gc",
                                  "threads", "recording")},
}

#: What is a smaller share of the wall time is not mentioned, but for the largest part.
_LEAST = 0.01
#: So many parts, and so many reasons, are mentioned.
_MOST = 4
_NAME = 40

_TIMES = {1: "", 2: " twice"}


def groups(time: WallTime) -> list[tuple[str, int]]:
    """Return the parts of a wall time as a reader tells them apart (`GROUPS`), those that took time, longest first."""
    found = [(name, sum(time.parts[part] for part in parts)) for name, parts in GROUPS.items()]
    return sorted(((name, value) for name, value in found if value > 0), key=lambda each: -each[1])


def verdict(time: WallTime | None, cells: int, compiled: Sequence[CompilationSummary], launches: int,
            gpu: GpuSummary | None, processes: int = 0, tuned: Sequence[str] = (), left_out: int = 0
            ) -> tuple[str, ...]:
    """Return where the time went: a sentence on the host, then one on other threads and one on the GPU.

    Parameters
    ----------
    time : WallTime or None
        The wall time of the cells together; None where none was recorded.
    cells : int
        How many there are.
    compiled : sequence of CompilationSummary
        What was compiled, or loaded from disk.
    launches : int
        How many launches ran.
    gpu : GpuSummary or None
        The GPU's side; None where it was not recorded.
    processes : int
        How many processes there are, where there are several: their times add up.
    tuned : sequence of str
        The kernel of each run of an autotuner.
    left_out : int
        How many of the cells were not looked into.
    """
    found: list[str] = []
    if time is not None and time.wall_ns:
        looked_into = cells - left_out
        begin = duration(time.wall_ns)
        if looked_into > 1:
            begin += f" in {counted(looked_into, 'cell')}"
        if processes > 1:
            begin += f" of {count(processes)} processes together"
        if left_out:
            begin += f", without {counted(left_out, 'cell')} of processes that did less"
        parts = groups(time)
        shown = [each for each in parts if each[1] >= _LEAST * time.wall_ns][:_MOST] or parts[:1]
        said = [f"{percent(value / time.wall_ns)} {_what(name, compiled, launches, tuned)}" for name, value in shown]
        found.append(f"{begin}: {', '.join(said)}.")
        if time.threads:
            busiest = time.threads[0]
            who = (f"{len(time.threads)} other threads" if len(time.threads) > 1
                   else f"Another thread ({clean(shorten(busiest.name, _NAME))})" if busiest.name else "Another thread")
            each = "up to " if len(time.threads) > 1 else ""
            of_each = " each" if len(time.threads) > 1 else ""
            found.append(f"{who} launched and called CUDA meanwhile, for {each}{duration(busiest.total_ns)}{of_each}.")
    if gpu is not None:
        found += _of_gpu(gpu)
    return tuple(found)


def _what(name: str, compiled: Sequence[CompilationSummary], launches: int, tuned: Sequence[str]) -> str:
    text = part_label(name)
    if name == "autotuning":
        return f"{text}{_kernels(tuned)}"
    if name == "measuring":
        return f"{text} with the GPU's counters"
    if name == "launch" and launches:
        return f"{text} {counted(launches, 'time')}" if launches > 1 else text
    return f"{text}{_compiles(compiled)}" if name == "compile" else text


def _compiles(compiled: Sequence[CompilationSummary]) -> str:
    """Return what was compiled, how often and why, as the end of a phrase: of one kernel, else of how many."""
    own = [each for each in compiled if each.outcome in ("compiled", "failed")]
    if not own:
        return " or loading code from disk" if compiled else ""
    is_one = len({each.name for each in own}) == 1
    reasons = [NEW[each.reason_code] for each in own if each.reason_code in NEW]
    why = f" ({_then(reasons)})" if is_one and len(reasons) == len(own) and len(own) <= _MOST else ""
    return _kernels([each.name for each in own]) + why


def _kernels(names: Sequence[str]) -> str:
    """Return which kernel something was done with and how often, as the end of a phrase; of several, how many."""
    different, times = dict.fromkeys(names), count(len(names))
    if len(different) > 1:
        return f" {counted(len(different), 'kernel')}{f', {times} times' if len(names) > len(different) else ''}"
    return "".join(f" {clean(shorten(name, _NAME))}{_TIMES.get(len(names), f' {times} times')}" for name in different)


def _then(reasons: Iterable[str]) -> str:
    """Return reasons in order, those that follow each other once."""
    told: list[str] = []
    for each in reasons:
        if not told or told[-1] != each:
            told.append(each)
    return ", then ".join(told)


def _of_gpu(gpu: GpuSummary) -> list[str]:
    if not gpu.busy:
        return [f"Kernels ran for {duration(gpu.execute.total_ns)}." if gpu.execute else "The GPU did nothing."]
    shares = [each.share for each in gpu.busy if each.share is not None]
    if not shares:
        return []
    if len(shares) == 1:
        tuning = ""
        if gpu.tuning is not None and gpu.tuning.total_ns:
            flush = f" ({duration(gpu.tuning.flush_ns)} to flush caches)" if gpu.tuning.flush_ns else ""
            tuning = f", {duration(gpu.tuning.total_ns)} of it in autotuning{flush}"
        return [f"The GPU worked {percent(shares[0])} of the time{tuning}." if shares[0] else "The GPU did nothing."]
    least, most = percent(min(shares)), percent(max(shares))
    often = f"{least} of the time each" if least == most else f"{least} to {most} of the time"
    return [f"The {len(shares)} GPUs worked {often}."]


def outliers_line(found: Outliers) -> str:
    """Return how many launches took long, how much of the time, and what is known of the longest."""
    took, longest = f"took {duration(found.spent_ns)} of {duration(found.of_ns)}", found.longest[0]
    if found.launches == 1:
        return f"1 of {count(found.of)} launches {took}: {_launch(longest, is_only=True)}."
    whose = f", all of {clean(shorten(found.kernel, _NAME))}," if found.kernel is not None else ""
    many = f"{count(found.launches)} of {count(found.of)} launches ({percent(found.launches / found.of)}){whose}"
    return f"{many} {took}; the longest, {_launch(longest)}."


def _launch(each: LongLaunch, is_only: bool = False) -> str:
    """Return which launch it is, how long it took unless that is known, where, and what else happened meanwhile."""
    took, where = [] if is_only else [duration(each.launching_ns)], []
    if each.phase is not None and each.phase_ns > _ALL * each.launching_ns:
        took = [" ".join([*took, "in", each.phase])]
    elif each.phase is not None:
        where = [f"{duration(each.phase_ns)} of it in {each.phase}"]
    what = [*(["its specialization's first"] if each.is_first else []), *map(_meanwhile, each.meanwhile[:_SAID])]
    line = ", ".join([f"launch {each.launch_id} ({clean(shorten(each.kernel, _NAME))})", *took, *where])
    return f"{line} ({', '.join(what)})" if what else line


#: A phase that is more of a launch is all of it, and so many things that happened meanwhile are mentioned.
_ALL, _SAID = 0.9, 3


def _meanwhile(each: Meanwhile) -> str:
    took = duration(each.duration_ns)
    match each.kind:
        case "load":
            return f"{took} loading code"
        case "copy":
            amount = "" if each.size_bytes is None else f" {size(each.size_bytes)}"
            return f"{took} copying{amount}"
        case "memset":
            return f"{took} filling memory"
        case "memory":
            return f"{took} in {counted(each.count, 'allocation or release', 'allocations and releases')}"
        case "gc" | "other_gc":
            of = "" if each.generation is None else f" (generation {each.generation})"
            return f"{took} of garbage collection{' on another thread' if each.kind == 'other_gc' else ''}{of}"
        case "compile":
            return f"another thread compiled for {took} of it"
        case _:
            return f"{counted(each.count, 'other thread')} launched for {took} of it"
