"""The card's tables and bars."""

from __future__ import annotations

from collections.abc import Sequence

from kernelscope.analysis.cells import CellSummary
from kernelscope.analysis.compilations import CompilationSummary
from kernelscope.analysis.execution import KernelExecution
from kernelscope.analysis.gpu import GpuSummary
from kernelscope.analysis.kernels import KernelSummary
from kernelscope.analysis.overview import Overview
from kernelscope.analysis.phases import PHASES, PhaseTotals
from kernelscope.analysis.ranges import RangeSummary
from kernelscope.analysis.signatures import parse_signature
from kernelscope.analysis.specializations import SpecializationSummary
from kernelscope.analysis.units import MISSING, count, counted, duration, percent, size
from kernelscope.renderers import words
from kernelscope.renderers.base import clean, escape, shorten
from kernelscope.renderers.elements import bar, folded, heading, left_out, name_of, sentence, table_of, two
from kernelscope.renderers.text import configuration_columns

#: How many rows stand outside a <details>, and how many at most inside it.
TOP_KERNELS = 12
TOP_COMPILES = 6
FEW_KERNELS = 5
TOP_CELLS = 12
TOP_RANGES = 12
MOST_ROWS = 500
MOST_DETAILS = 20

#: Of a cell's label, in the table of cells.
_CELL_WIDTH = 80


def bars(totals: PhaseTotals, *, large: bool = False) -> str:
    """Return a bar of host time by phase and, where a compile is in it, a thinner one of the time without it.

    A compile is so long that next to it nothing else of a launch can be seen.
    """
    html = bar(totals.segments, totals.host_ns or 0, "ks-bar ks-large" if large else "ks-bar")
    rest = tuple(each for each in totals.segments if each[0] != "compile")
    if rest and len(rest) < len(totals.segments):
        html += bar(rest, sum(value for _, value in rest), "ks-bar ks-thin", "without compile: ")
    return html


def _thin(totals: PhaseTotals) -> str:
    """The label of the thinner bars, where there are any."""
    return "without compile" if totals.compile_ns else ""


def legend(totals: PhaseTotals) -> str:
    """Return the phases' colors with their times and shares; phases that were not recorded say so."""
    host = totals.host_ns or 0
    entries: list[str] = []
    for name in (*PHASES, "unsplit"):
        value = totals.unsplit_ns if name == "unsplit" else totals.phase(name)
        if name == "unsplit" and not value:
            continue
        share = "not recorded" if value is None else "none"
        if value:
            share = f"{duration(value)}, {percent(value / host if host else None)}"
        entries.append(
            f'<div title="{escape(words.PHASE_MEANINGS[name])}"><span class="ks-key ks-{name}"></span>'
            f"<b>{name}</b> {escape(share)}</div>"
        )
    if totals.compile_ns and totals.compile_ns < host:
        rest = escape(duration(host - totals.compile_ns))
        entries.append(f'<div class="ks-soft">thin bar: the {rest} without compile</div>')
    return f'<div class="ks-legend">{"".join(entries)}</div>'


def kernels_part(shown: Overview) -> str:
    """Return the kernels by host time: the first ones in full, the rest folded."""
    if not shown.by_kernel:
        return ""
    host = shown.totals.host_ns
    top, rest = shown.by_kernel[:TOP_KERNELS], shown.by_kernel[TOP_KERNELS:]
    gpu = None if shown.gpu is None else shown.gpu.of_dispatcher()
    columns = [
        ("", "Kernel", ""), ("number", "Launches", "configs"), ("number", "Compiled", "specs"),
        ("number", "In memory", "from disk"), ("time", "Host time", "share"), ("time", "Median", "p95"),
        ("phases", "By phase", _thin(shown.totals)),
    ]
    if gpu is not None:
        columns.insert(6, ("execute", "GPU time", "median"))
    html = heading("Kernels", "by host time in launches")
    rows = [_kernel_row(kernel, shown.frameworks, host, gpu) for kernel in top]
    html += table_of(columns, rows, left=(0, len(columns) - 1))
    if rest:
        html += _more_kernels(rest, host)
    return html


def _kernel_row(
    kernel: KernelSummary, frameworks: Sequence[str], host: int | None, gpu: dict[int, KernelExecution] | None
) -> str:
    run = None if gpu is None or kernel.dispatcher_id not in gpu else gpu[kernel.dispatcher_id].execute
    notes = "".join(f"<small>{escape(note)}</small>" for note in words.launch_notes(kernel))
    place = escape(words.place(kernel, frameworks))
    share = kernel.host_ns / host if host and kernel.host_ns is not None else None
    phases = bars(kernel.totals) if kernel.totals.segments else MISSING
    return (
        f'<td class="ks-left">{name_of(kernel.name)}<small class="ks-line" title="{place}">{place}</small>{notes}</td>'
        + two(count(kernel.launches), count(kernel.configurations))
        + two(count(kernel.compiles), count(kernel.specializations))
        + two(count(kernel.memory_hits), count(kernel.disk_hits))
        + two(duration(kernel.host_ns), percent(share))
        + two(duration(kernel.median_ns), duration(kernel.p95_ns))
        + ("" if gpu is None else two(duration(run and run.total_ns), duration(run and run.p50_ns)))
        + f'<td class="ks-phase">{phases}</td>'
    )


def _more_kernels(rest: Sequence[KernelSummary], host: int | None) -> str:
    spent = sum(kernel.host_ns or 0 for kernel in rest)
    share = f", {percent(spent / host)} of the host time" if host else ""
    columns = (
        ("", "Kernel", ""), ("number", "Launches", ""), ("number", "Compiled", ""), ("number", "In memory", ""),
        ("time", "Host time", ""), ("time", "Median", ""),
    )
    rows = [
        f'<td class="ks-left">{name_of(kernel.name)}</td>' + "".join(f"<td>{escape(cell)}</td>" for cell in (
            count(kernel.launches), count(kernel.compiles), count(kernel.memory_hits), duration(kernel.host_ns),
            duration(kernel.median_ns),
        ))
        for kernel in rest[:MOST_ROWS]
    ]
    summary = f"<b>{escape(counted(len(rest), 'more kernel'))}</b>, {escape(duration(spent))}{escape(share)}"
    return folded(summary, table_of(columns, rows, dense=True) + left_out(len(rest), MOST_ROWS))


def ranges_part(shown: Overview) -> str:
    """Return the paths of NVTX ranges by host time, where there are any: the first ones in sight, the rest folded."""
    if not shown.by_range and not shown.marks:
        return ""
    html = heading("Ranges", words.ranges_note(shown))
    if not shown.by_range:
        return html
    columns = [
        ("", "Path", ""), ("number", "Ranges", ""), ("number", "Launches", ""), ("time", "Host time", "share"),
        ("phases", "By phase", _thin(shown.totals)),
    ]
    if shown.gpu is not None:
        columns.insert(4, ("gpu", "GPU time", "copies"))
    left = (0, len(columns) - 1)
    host = shown.totals.host_ns
    rows = [_range_row(each, host, shown.gpu is not None) for each in shown.by_range[:MOST_ROWS]]
    html += table_of(columns, rows[:TOP_RANGES], left=left)
    if len(rows) > TOP_RANGES:
        table = table_of(columns, rows[TOP_RANGES:], left=left) + left_out(len(shown.by_range), MOST_ROWS)
        html += folded(f"<b>{escape(counted(len(shown.by_range) - TOP_RANGES, 'more path'))}</b>", table)
    return html


def _range_row(each: RangeSummary, host: int | None, with_gpu: bool) -> str:
    share = each.host_ns / host if host and each.host_ns is not None else None
    phases = bars(each.totals) if each.totals.segments else MISSING
    return (
        f'<td class="ks-left">{name_of(each.name)}</td><td>{escape(count(each.ranges))}</td>'
        f"<td>{escape(count(each.launches))}</td>{two(duration(each.host_ns), percent(share))}"
        + (two(duration(each.gpu_ns), duration(each.copy_ns)) if with_gpu else "") +
        f'<td class="ks-phase">{phases}</td>'
    )


def compiles_part(shown: Overview) -> str:
    """Return the compiles, longest first, with why they were needed and what would avoid them."""
    if not shown.compilations:
        return ""
    top, rest = shown.compilations[:TOP_COMPILES], shown.compilations[TOP_COMPILES:]
    columns = (
        ("third", "Kernel", "signature"), ("time", "Took", ""), ("word", "Outcome", "asked for"), ("", "Why", "fix"),
    )
    note = f"and disk-cache loads: {counted(len(shown.compilations), 'request')}, {duration(shown.compile_ns)} in all"
    notes = "".join(f'<div class="ks-soft">{escape(text)}</div>' for text in words.compile_notes(shown))
    html = heading("Compiles", note) + notes + table_of(columns, [_compile_row(each) for each in top], left=(0, 2, 3))
    if rest:
        spent = duration(sum(each.duration_ns for each in rest))
        rows = [_compile_row(each) for each in rest[:MOST_ROWS]]
        html += folded(
            f"<b>{escape(counted(len(rest), 'more compile'))}</b>, {escape(spent)}",
            table_of(columns, rows, left=(0, 2, 3)) + left_out(len(rest), MOST_ROWS),
        )
    return html


def _compile_row(each: CompilationSummary) -> str:
    fix = f'<span class="ks-fix"><b>Fix</b> {sentence(each.fix)}</span>' if each.fix else ""
    return (
        f'<td class="ks-left">{name_of(each.name)}'
        f'<small class="ks-code ks-clip" title="{escape(each.signature)}">{_signature(each.signature)}</small></td>'
        f"<td>{escape(duration(each.duration_ns))}</td>"
        f'<td class="ks-left">{escape(words.outcome(each))}<small>{escape(words.trigger(each))}</small></td>'
        f'<td class="ks-left"><span class="ks-why">{sentence(each.reason)}</span>{fix}</td>'
    )


def configurations_part(shown: Overview) -> str:
    """Return launch configurations and specializations by kernel, folded."""
    used = shown.configurations_used
    kernels = [kernel for kernel in shown.by_kernel[:TOP_KERNELS] if used.count(kernel.dispatcher_id)]
    if not kernels:
        return ""
    inside = "".join(
        folded(
            f"{name_of(kernel.name)} {escape(words.resources(kernel))}",
            _configurations(shown, kernel) + _specializations(shown, kernel),
        )
        for kernel in kernels
    )
    if len(kernels) > FEW_KERNELS:
        count_all = sum(used.count(kernel.dispatcher_id) for kernel in kernels)
        of_all = f" of {len(shown.by_kernel):,}" if len(shown.by_kernel) > len(kernels) else ""
        summary = (f"<b>{escape(counted(len(kernels), 'kernel'))}</b>{of_all}, "
                   f"{escape(counted(count_all, 'configuration'))}")
        inside = f"<details><summary>{summary}</summary>{inside}</details>"
    return heading("Launch configurations", "and specializations") + inside


def _configurations(shown: Overview, kernel: KernelSummary) -> str:
    columns = (
        ("", "Grid", "blocks"), ("share", "Block", "threads"), ("share", "Shared", "dynamic"), ("share", "Stream", ""),
        ("time", "Launches", ""), ("time", "Median", "host"), ("time", "Occupancy", ""), ("time", "Registers", ""),
    )
    used = shown.configurations_used
    rows: list[str] = []
    for each in used.of(kernel.dispatcher_id, MOST_DETAILS):
        grid, *others = (escape(cell) for cell in configuration_columns(each))
        rows.append(f'<td class="ks-left">{grid}</td>' + "".join(f"<td>{cell}</td>" for cell in others))
    return table_of(columns, rows, dense=True) + left_out(used.count(kernel.dispatcher_id), MOST_DETAILS)


def _specializations(shown: Overview, kernel: KernelSummary) -> str:
    held = shown.by_specialization.get(kernel.dispatcher_id, [])
    if not held:
        return ""
    columns = (
        ("", "Specialization", ""), ("time", "Origin", ""), ("time", "Launches", ""), ("time", "Registers", ""),
        ("time", "Shared", "static"), ("time", "Local", ""), ("time", "Code", ""),
    )
    rows = [_specialization_row(each) for each in held[:MOST_DETAILS]]
    return f'<div class="ks-sub">{table_of(columns, rows, dense=True)}</div>' + left_out(len(held), MOST_DETAILS)


def _specialization_row(each: SpecializationSummary) -> str:
    notes = [f"for {each.compute_capability}"] if each.compute_capability else []
    if each.launch_config_sensitive:
        notes.append(f"launch-config sensitive {each.launch_config or ''}".strip())
    below = f"<small>{escape(', '.join(notes))}</small>" if notes else ""
    cells = (
        each.origin, count(each.launches), count(each.regs), size(each.static_shared_bytes), size(each.local_bytes),
        size(each.cubin_bytes),
    )
    return (
        f'<td class="ks-left"><span class="ks-code">{_signature(each.signature)}</span>{below}</td>'
        + "".join(f"<td>{escape(cell)}</td>" for cell in cells)
    )


def cells_part(shown: Overview) -> str:
    """Return the cells where the recording has several: the first ones in sight, the rest folded."""
    if len(shown.by_cell) < 2:
        return ""
    columns = [
        ("", "Cell", ""), ("number", "Launches", "kernels"), ("number", "Compiled", "from disk"),
        ("time", "Host time", "wall time"), ("word", "Status", ""), ("phases", "By phase", _thin(shown.totals)),
    ]
    gpu = shown.gpu
    if gpu is not None:
        columns.insert(4, ("gpu", "GPU busy", ""))
    left = (0, len(columns) - 2, len(columns) - 1)
    rows: list[str] = []
    for cell in shown.by_cell[:MOST_ROWS]:
        phases = bars(cell.totals) if cell.totals.segments else MISSING
        rows.append(
            f'<td class="ks-left" title="{escape(cell.label)}">{escape(shorten(cell.label, _CELL_WIDTH))}</td>'
            + two(count(cell.launches), count(cell.kernels))
            + two(count(cell.compiles), count(cell.disk_hits))
            + two(duration(cell.totals.host_ns), duration(cell.wall_ns))
            + ("" if gpu is None else f"<td>{escape(_cell_busy(gpu, cell))}</td>")
            + f'<td class="ks-left">{escape(words.cell_problem(cell))}</td><td class="ks-phase">{phases}</td>'
        )
    html = heading("Cells") + table_of(columns, rows[:TOP_CELLS], left=left)
    if len(rows) > TOP_CELLS:
        more = len(shown.by_cell) - TOP_CELLS
        table = table_of(columns, rows[TOP_CELLS:], left=left) + left_out(len(shown.by_cell), MOST_ROWS)
        html += folded(f"<b>{escape(counted(more, 'more cell'))}</b>", table)
    return html


def _cell_busy(gpu: GpuSummary, cell: CellSummary) -> str:
    return percent(None if cell.cell_id is None else gpu.by_cell.get(cell.cell_id))


def _signature(text: str) -> str:
    """A signature that breaks into lines between arguments, not inside an argument's type."""
    types = [clean(kind.text) for kind in parse_signature(text)]
    if clean(text) != f"({', '.join(types)})":
        return escape(text)
    return f"({', '.join(escape(kind).replace(' ', '&nbsp;') for kind in types)})"
