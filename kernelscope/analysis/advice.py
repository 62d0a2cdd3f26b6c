"""Advice: one line each, with the numbers that prove it. What the data does not prove is not said."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kernelscope.analysis.compilations import CompilationSummary
from kernelscope.analysis.configurations import ConfigurationSummary
from kernelscope.analysis.fixes import SLOW_COMPILE_NS
from kernelscope.analysis.kernels import KernelSummary

#: So many launches of one kernel are worth a word on what each of them costs.
MANY_LAUNCHES = 500
#: Launches that take this share of the wall time are what the cell does.
LARGE_SHARE = 0.25
#: A launch that prepares its arguments for this long copies or converts something.
SLOW_PREPARE_NS = 50_000

_WARP = 32


@dataclass(frozen=True)
class Advice:
    """One line of advice.

    Attributes
    ----------
    code : str
        The rule: repeated_layouts, repeated_dtypes, launch_configurations, no_disk_cache, many_launches,
        slow_prepare, few_blocks or partial_warps.
    kernel : str
        The kernel that it is about; empty for several.
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
    configurations: Mapping[int, Sequence[ConfigurationSummary]],
    wall_ns: int | None,
    multiprocessors: int | None = None,
) -> list[Advice]:
    """Return the advice that the data proves, most host time first.

    Parameters
    ----------
    kernels, compiled, configurations
        What `by_kernel`, `compilations` and `by_configuration` return.
    wall_ns : int or None
        The cells' wall time.
    multiprocessors : int or None
        Multiprocessors of the one device that was launched on.
    """
    found = [*_repeated_compiles(compiled), *_no_disk_cache(compiled)]
    for kernel in kernels:
        used = configurations.get(kernel.dispatcher_id, ())
        found += _many_launches(kernel, wall_ns)
        found += _slow_prepare(kernel)
        found += _few_blocks(kernel, used, multiprocessors)
        found += _partial_warps(kernel, used)
    return sorted(found, key=lambda each: (-each.weight_ns, each.code, each.kernel))


_REPEATED = {
    "new_layout": ("repeated_layouts", "memory layouts", "pass arrays of one layout, or declare strided types"),
    "new_dtype": ("repeated_dtypes", "dtypes", "cast its arguments to one dtype before the launch"),
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
        took = _milliseconds(spent[dispatcher, reason])
        text = f"{names[dispatcher]} was compiled {count} more times for other {what}: {took}. To avoid it, {remedy}."
        found.append(Advice(code, names[dispatcher], text, float(spent[dispatcher, reason])))
    return found


def _no_disk_cache(compiled: Sequence[CompilationSummary]) -> list[Advice]:
    slow = [
        each for each in compiled
        if each.outcome == "compiled" and not each.cached_on_disk and each.duration_ns >= SLOW_COMPILE_NS
    ]
    if not slow:
        return []
    names = list(dict.fromkeys(each.name for each in slow))
    spent = sum(each.duration_ns for each in slow)
    shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    count = f"{len(slow)} compile{'' if len(slow) == 1 else 's'}"
    text = f"{count} took {_milliseconds(spent)} without a disk cache: cache=True on {shown} spares the next session."
    return [Advice("no_disk_cache", names[0] if len(names) == 1 else "", text, float(spent))]


def _many_launches(kernel: KernelSummary, wall_ns: int | None) -> list[Advice]:
    host = kernel.host_ns
    if kernel.launches < MANY_LAUNCHES or host is None or not wall_ns or kernel.median_ns is None:
        return []
    spent = host - (kernel.totals.compile_ns or 0)
    if spent < LARGE_SHARE * wall_ns:
        return []
    text = (
        f"{kernel.launches:,} launches of {kernel.name} took {spent / wall_ns:.0%} of the wall time on the host, "
        f"{kernel.median_ns / 1000:.1f} µs each (median): fewer launches with more work each, or a CUDA graph, "
        "would spare it."
    )
    return [Advice("many_launches", kernel.name, text, float(spent))]


def _slow_prepare(kernel: KernelSummary) -> list[Advice]:
    prepare, median = kernel.typical.get("prepare"), kernel.median_ns
    if prepare is None or not median or prepare < SLOW_PREPARE_NS or prepare < 0.5 * median:
        return []
    text = (
        f"a launch of {kernel.name} spends {prepare / 1000:,.0f} µs (median, {prepare / median:.0%} of its host time) "
        "preparing arguments, where host arrays are copied in: if it takes any, pass device arrays "
        "(cuda.to_device)."
    )
    return [Advice("slow_prepare", kernel.name, text, prepare * kernel.launches)]


def _few_blocks(
    kernel: KernelSummary, used: Sequence[ConfigurationSummary], multiprocessors: int | None
) -> list[Advice]:
    if not multiprocessors or not used or kernel.launches < MANY_LAUNCHES:
        return []
    most = max(each.blocks for each in used)
    if most * 4 > multiprocessors:
        return []
    text = (
        f"all {kernel.launches:,} launches of {kernel.name} have at most {most:,} block{'' if most == 1 else 's'}, on a "
        f"GPU with {multiprocessors} multiprocessors: the others are idle unless launches overlap."
    )
    return [Advice("few_blocks", kernel.name, text, float(kernel.host_ns or 0))]


def _partial_warps(kernel: KernelSummary, used: Sequence[ConfigurationSummary]) -> list[Advice]:
    partial = [each for each in used if each.threads_per_block % _WARP and each.blocks > 1]
    if not partial:
        return []
    worst = max(partial, key=lambda each: each.launches)
    idle = -worst.threads_per_block % _WARP
    text = (
        f"{sum(each.launches for each in partial):,} launches of {kernel.name} have blocks that are no multiple of a "
        f"warp's {_WARP} threads: of {worst.threads_per_block} threads' last warp {idle} lanes idle."
    )
    return [Advice("partial_warps", kernel.name, text, 0.0)]


def _milliseconds(value: int) -> str:
    return f"{value / 1e6:,.0f} ms" if value < 10_000_000_000 else f"{value / 1e9:,.1f} s"
