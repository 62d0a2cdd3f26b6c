"""Advice: one line each, with the numbers that prove it. What the data does not prove is not said.

The numbers of a line can be multiplied and divided: a share is of a sum that stands beside it, and what one of them
took is the sum over their count, an average. Launches that took far longer than the others are in a line of their own,
and in no other sum: what would spare a usual launch does not spare them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from kernelscope.analysis.compilations import CompilationSummary
from kernelscope.analysis.gpu import GpuSummary
from kernelscope.analysis.host import LAUNCHING
from kernelscope.analysis.kernels import WARP, KernelSummary
from kernelscope.analysis.units import counted, duration, percent, size

#: A compile this long is worth a place in the disk cache.
SLOW_COMPILE_NS = 100_000_000
#: So many launches of one kernel are worth a word on what each of them costs.
MANY_LAUNCHES = 500
#: Launches that take this share of the wall time are what the cell does.
LARGE_SHARE = 0.25
#: A GPU that is busy for less of the time waits for something.
LOW_BUSY = 0.5
#: Copies that take this share of the time are worth a word.
LARGE_COPIES = 0.05
#: A launch that prepares its arguments for this long copies or converts something.
SLOW_PREPARE_NS = 50_000

_NAME = 40
#: What a launch that took long may have done in each phase.
_LONG_IN = {
    "dispatch": "which looks the argument types up and runs Python alone",
    "prepare": "where host arrays are copied in, and a first launch loads its module",
    "submit": "where a launch waits as long as the device's queue is full",
    "finish": "where host arrays are copied back",
}
#: How code is kept on disk, and what makes arrays that need no copy, by framework; others do as numba-cuda does.
_KEEPING, _ON_DEVICE = {"quadrants": "qd.init(offline_cache=True)"}, {"quadrants": "qd.ndarray"}


@dataclass(frozen=True)
class Advice:
    """One line of advice.

    Attributes
    ----------
    code : str
        The rule: argument_types, recreated, same_code, repeated_layouts, repeated_dtypes, repeated_scalars,
        repeated_tuples, launch_configurations, no_disk_cache, launch_bound, many_launches, long_launches,
        pageable_copies, slow_prepare, few_blocks or partial_warps; of graphs and build caches rebuilt_graph,
        unlaunched_graph, graph_launched_once, refused_updates, repeated_sequence, graph_fell_back or operator_names.
    kernel : str
        The kernel, the graph or the algorithm that it is about; empty for several.
    text : str
        What is so, with numbers, and what to do.
    weight_ns : float
        Host time that it is about: advice is sorted by it.
    """

    code: str
    kernel: str
    text: str
    weight_ns: float


def advise(
    kernels: Sequence[KernelSummary],
    compiled: Sequence[CompilationSummary],
    wall_ns: int | None,
    multiprocessors: int | None = None,
    gpu: GpuSummary | None = None,
    churn: Sequence[Advice] = (),
    graphs: Sequence[Advice] = (),
) -> list[Advice]:
    """Return the advice that the data proves, most host time first; one line a rule names the kernels it fits.

    Parameters
    ----------
    kernels, compiled
        What `by_kernel` and `compilations` return.
    wall_ns : int or None
        The cells' wall time.
    multiprocessors : int or None
        Multiprocessors of the one device that was launched on.
    gpu : GpuSummary, optional
        What `gpu_summary` returns, where the GPU was recorded.
    churn : sequence of Advice
        What `kernelscope.analysis.churn.churn_advice` returns.
    graphs : sequence of Advice
        What `kernelscope.analysis.graph_advice.graph_advice` returns.
    """
    named = {each.kernel for each in churn if each.code == "argument_types"}
    # What is said of one argument says more than that dtypes differ.
    repeated = [each for each in _repeated_compiles(compiled)
                if each.kernel not in named or each.code == "launch_configurations"]
    found = [*churn, *graphs, *repeated, *_no_disk_cache(compiled)]
    bound = _launch_bound(kernels, gpu)
    found += [*bound, *_pageable_copies(gpu, kernels)]
    for kernel in kernels:
        # Both say the same, and the one that knows the GPU proves it.
        found += [] if bound else _many_launches(kernel, wall_ns)
        found += _long_launches(kernel, wall_ns)
        found += _slow_prepare(kernel)
        found += _few_blocks(kernel, multiprocessors)
        found += _partial_warps(kernel)
    return _one_a_rule(sorted(found, key=lambda each: (-each.weight_ns, each.code, each.kernel)))


def _one_a_rule(found: Sequence[Advice]) -> list[Advice]:
    """Keep the first advice of each rule, and name the other kernels that it fits."""
    rules: dict[str, list[Advice]] = {}
    for each in found:
        rules.setdefault(each.code, []).append(each)
    kept: list[Advice] = []
    for first, *others in rules.values():
        text = first.text
        if others:
            text += f" The same goes for {listed([each.kernel for each in others])}."
        kept.append(replace(first, text=text))
    return kept


_REPEATED = {
    "new_layout": ("repeated_layouts", "memory layouts", "pass arrays of one layout"),
    "new_dtype": ("repeated_dtypes", "dtypes", "cast its arguments to one dtype before the launch"),
    "new_scalar": ("repeated_scalars", "types of numbers", "pass numbers of one type, such as int(value)"),
    "tuple_arity": ("repeated_tuples", "numbers of elements in a tuple", "pass an array, which takes any number"),
    "launch_config": (
        "launch_configurations", "launch configurations (it is launch-config sensitive)",
        "use fewer distinct grids, blocks and shared-memory sizes",
    ),
}


def _repeated_compiles(compiled: Sequence[CompilationSummary]) -> list[Advice]:
    counts: Counter[tuple[int, str]] = Counter()
    spent: Counter[tuple[int, str]] = Counter()
    names: dict[int, str] = {}
    for each in compiled:
        if each.outcome == "compiled" and each.reason_code in _REPEATED:
            key = (each.dispatcher_id, each.reason_code)
            counts[key] += 1
            spent[key] += each.duration_ns
            names[each.dispatcher_id] = each.name
    found: list[Advice] = []
    for (dispatcher, reason), count in counts.items():
        if count < 2:
            continue
        code, what, remedy = _REPEATED[reason]
        took = duration(spent[dispatcher, reason])
        text = (
            f"{cut(names[dispatcher])} was compiled {counted(count, 'more time')} for other {what}, {took} in all: "
            f"{remedy}."
        )
        found.append(Advice(code, names[dispatcher], text, float(spent[dispatcher, reason])))
    return found


def _no_disk_cache(compiled: Sequence[CompilationSummary]) -> list[Advice]:
    slow = [
        each for each in compiled
        if each.outcome == "compiled" and not each.cached_on_disk and each.duration_ns >= SLOW_COMPILE_NS
        and each.owner in (None, "user")
    ]
    if not slow:
        return []
    names = list(dict.fromkeys(each.name for each in slow))
    spent = sum(each.duration_ns for each in slow)
    by_remedy: dict[str, list[str]] = {}
    for each in slow:
        held = by_remedy.setdefault(_KEEPING.get(each.framework, "cache=True in @cuda.jit"), [])
        held += [each.name] if each.name not in held else []
    remedies = [f"{remedy} would spare the next session those of {listed(held)}" for remedy, held in by_remedy.items()]
    text = f"{counted(len(slow), 'compile')} took {duration(spent)} without a disk cache: {'; '.join(remedies)}."
    return [Advice("no_disk_cache", names[0] if len(names) == 1 else "", text, float(spent))]


def _many_launches(kernel: KernelSummary, wall_ns: int | None) -> list[Advice]:
    count, spent = kernel.usual_launches, kernel.usual.launching_ns
    if count < MANY_LAUNCHES or spent is None or not wall_ns or spent < LARGE_SHARE * wall_ns:
        return []
    text = (
        f"{count:,} launches of {cut(kernel.name)} took {duration(spent)} on the host, {percent(spent / wall_ns)} of "
        f"the wall time and {duration(spent / count)} each on average{_beside_long(kernel)}: launch less often with "
        "more work, or as a CUDA graph."
    )
    return [Advice("many_launches", kernel.name, text, float(spent))]


def _beside_long(kernel: KernelSummary) -> str:
    long = kernel.long
    if long is None:
        return ""
    return f", besides {counted(long.launches, 'longer one')} of {duration(long.totals.launching_ns)} in all"


def _long_launches(kernel: KernelSummary, wall_ns: int | None) -> list[Advice]:
    """A few launches of many that took much of the time."""
    long, usual = kernel.long, kernel.usual.launching_ns
    if long is None or long.phase is None or usual is None or not wall_ns:
        return []
    count, spent = kernel.usual_launches + long.launches, long.totals.launching_ns or 0
    if count < MANY_LAUNCHES or spent < LARGE_SHARE * wall_ns:
        return []
    which = "the longest took" if long.launches > 1 else "it took"
    text = (
        f"{long.launches:,} of {count:,} launches of {cut(kernel.name)} took {duration(spent)} of the "
        f"{duration(spent + usual)} of host time of all ({percent(spent / (spent + usual))}); {which} "
        f"{duration(long.longest_ns)}, {duration(long.phase_ns)} of it in {long.phase}, {_LONG_IN[long.phase]}. The "
        "timeline shows when. Neither fewer launches nor a CUDA graph is sure to spare that."
    )
    return [Advice("long_launches", kernel.name, text, float(spent))]


def _launch_bound(kernels: Sequence[KernelSummary], gpu: GpuSummary | None) -> list[Advice]:
    """The GPU idles because launches take longer on the host than their kernels on the GPU."""
    if gpu is None or len(gpu.busy) != 1 or not gpu.idle or gpu.execute is None:
        return []
    share, idle = gpu.busy[0].share, gpu.idle[0]
    launching = sum(idle.by_state[state] for state in LAUNCHING)
    # Some of the long launches' time was idle time: at most all of it.
    usually = launching - sum(kernel.long.totals.launching_ns or 0 for kernel in kernels if kernel.long is not None)
    if share is None or share >= LOW_BUSY or usually < 0.5 * idle.idle_ns:
        return []
    found = gpu.of_dispatcher()
    slow = [
        (kernel, spent, run.execute) for kernel in kernels
        if kernel.usual_launches >= MANY_LAUNCHES and (spent := kernel.usual.launching_ns)
        and (run := found.get(kernel.dispatcher_id)) and run.execute
        and run.execute.mean_ns < spent / kernel.usual_launches
    ]
    if not slow:
        return []
    kernel, spent, execute = slow[0]
    text = (
        f"the GPU was busy for {percent(share)} of the time only, and for {percent(launching / idle.idle_ns)} of its "
        f"idle time the host was making launches: {kernel.usual_launches:,} of {cut(kernel.name)} took "
        f"{duration(spent)} on the host, {duration(spent / kernel.usual_launches)} each on average"
        f"{_beside_long(kernel)}, and its {counted(execute.count, 'kernel')} ran for {duration(execute.total_ns)} on "
        f"the GPU, {duration(execute.mean_ns)} each. Give each launch more work, launch less often, or replay the "
        "launches as a CUDA graph."
    )
    return [Advice("launch_bound", kernel.name, text, float(usually))]


def _pageable_copies(gpu: GpuSummary | None, kernels: Sequence[KernelSummary]) -> list[Advice]:
    """Copies from or to pageable memory that take much of the time."""
    if gpu is None or not gpu.busy:
        return []
    window = gpu.busy[0].window_ns
    slow = [each for each in gpu.copies if (each.pageable_ns or 0) >= LARGE_COPIES * window]
    if not slow:
        return []
    copies, moved = sum(each.pageable for each in slow), sum(each.pageable_bytes for each in slow)
    spent = sum(each.pageable_ns or 0 for each in slow)
    directions = " and ".join(dict.fromkeys(each.direction for each in slow))
    is_numba = not kernels or any(kernel.framework.startswith("numba") for kernel in kernels)
    text = (
        f"{counted(copies, f'{directions} copy', f'{directions} copies')} from or to pageable memory took "
        f"{duration(spent)} ({size(moved)}); the driver copies such memory once more on the host: keep these arrays in "
        f"pinned memory{' (cuda.pinned_array)' if is_numba else ''}, or on the device."
    )
    return [Advice("pageable_copies", "", text, float(spent))]


def _slow_prepare(kernel: KernelSummary) -> list[Advice]:
    count, spent, prepare = kernel.usual_launches, kernel.usual.launching_ns, kernel.usual.prepare_ns
    if prepare is None or not spent or prepare < SLOW_PREPARE_NS * count:
        return []
    # Host arrays are copied back in finish: which of the two takes longer is chance.
    if prepare + (kernel.usual.finish_ns or 0) < 0.5 * spent:
        return []
    text = (
        f"{counted(count, 'launch', 'launches')} of {cut(kernel.name)} took {duration(spent)} on the host"
        f"{_beside_long(kernel)}, {duration(prepare)} of it ({percent(prepare / spent)}) in prepare, where host arrays "
        "are copied in and a first launch loads its module: if it takes host arrays, pass device arrays "
        f"({_ON_DEVICE.get(kernel.framework, 'cuda.to_device')})."
    )
    return [Advice("slow_prepare", kernel.name, text, float(prepare))]


def _few_blocks(kernel: KernelSummary, multiprocessors: int | None) -> list[Advice]:
    most = kernel.most_blocks
    if not multiprocessors or not most or kernel.launches < MANY_LAUNCHES or most * 4 > multiprocessors:
        return []
    text = (
        f"all {kernel.launches:,} launches of {cut(kernel.name)} have {counted(most, 'block')} at most, on a GPU "
        f"with {multiprocessors} multiprocessors: the others are idle unless launches overlap."
    )
    return [Advice("few_blocks", kernel.name, text, float(kernel.host_ns or 0))]


def _partial_warps(kernel: KernelSummary) -> list[Advice]:
    launches, threads = kernel.partial_warps
    if not launches:
        return []
    text = (
        f"{counted(launches, 'launch', 'launches')} of {cut(kernel.name)} had blocks that are no multiple of a "
        f"warp's {WARP} threads: in the largest, of {counted(threads, 'thread')}, {-threads % WARP} of the last warp's "
        "lanes idle."
    )
    return [Advice("partial_warps", kernel.name, text, 0.0)]


def listed(names: Sequence[str], most: int = 3) -> str:
    """Return the first few names, and how many more there are."""
    shown = ", ".join(cut(name) for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most:,} more"


def cut(name: str) -> str:
    """Return a name from user code, cut in the middle where it is long."""
    return name if len(name) <= _NAME else f"{name[:_NAME // 2]}…{name[-_NAME // 2:]}"
