"""The card: a recording as a self-contained fragment of HTML, and pages of cards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from kernelscope.analysis.activities import KernelExecution, Spread
from kernelscope.analysis.builds import BuildSummary, Miss
from kernelscope.analysis.compiles import CompilationSummary
from kernelscope.analysis.gpu import GpuSummary
from kernelscope.analysis.graphs import GraphSummary
from kernelscope.analysis.launches import (
    PHASES,
    CellSummary,
    KernelSummary,
    PhaseTotals,
    SpecializationSummary,
)
from kernelscope.analysis.ranges import RangeSummary
from kernelscope.analysis.signatures import parse_signature
from kernelscope.recording.model import Recording
from kernelscope.recording.redact import shareable
from kernelscope.units import MISSING, count, counted, duration, percent, size
from kernelscope.views.base import Makes, clean, defined_at, escape, shorten
from kernelscope.views.card import text
from kernelscope.views.card import text as card_text
from kernelscope.views.card.model import Overview, overview
from kernelscope.views.card.text import configuration_columns
from kernelscope.views.graph.svg import small
from kernelscope.views.html import (
    PAGE,
    bar,
    folded,
    heading,
    left_out,
    name_of,
    sentence,
    style,
    table_of,
    two,
)

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
            f'<div title="{escape(card_text.PHASE_MEANINGS[name])}"><span class="ks-key ks-{name}"></span>'
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
    notes = "".join(f"<small>{escape(note)}</small>" for note in card_text.launch_notes(kernel))
    place = escape(defined_at(kernel.framework, kernel.module, kernel.filename, kernel.lineno, frameworks))
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
    html = heading("Ranges", card_text.ranges_note(shown))
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
    notes = "".join(f'<div class="ks-soft">{escape(text)}</div>' for text in card_text.compile_notes(shown))
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
        f'<td class="ks-left">{escape(card_text.outcome(each))}<small>{escape(card_text.trigger(each))}</small></td>'
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
            f"{name_of(kernel.name)} {escape(card_text.resources(kernel))}",
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
            + f'<td class="ks-left">{escape(card_text.cell_problem(cell))}</td><td class="ks-phase">{phases}</td>'
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


# The card's part of the GPU's side: what it did, why it idled, copies, graph launches and other kernels.

MOST_GPU_ROWS = 200


def gpu_part(shown: Overview) -> str:
    """Return what the GPU did, where it was recorded and anything ran."""
    gpu = shown.gpu
    if gpu is None or not text.is_shown(shown):
        return ""
    html = heading("GPU", "in the time until the device was synchronized" if gpu.busy else "")
    idle = {each.device_id: each for each in gpu.idle}
    for busy in gpu.busy:
        where = text.device(shown, busy.device_id)
        if where:
            html += f'<div class="ks-soft ks-device">{escape(where)}</div>'
        segments = text.gpu_parts(busy)
        html += bar(segments, busy.window_ns, "ks-bar ks-large")
        lane = idle.get(busy.device_id)
        if lane is not None and lane.idle_ns:
            html += bar(text.states(lane), lane.idle_ns, "ks-bar ks-thin", "while idle: ")
        html += _legend(segments, busy.window_ns, "" if lane is None else text.idle_line(lane, busy.window_ns))
    lines = "".join(f"<li>{escape(line)}</li>" for line in text.gpu_lines(shown))
    html += f'<ul class="ks-list ks-facts">{lines}</ul>' if lines else ""
    return html + _others(gpu.others)


def _legend(segments: Sequence[tuple[str, int]], window: int, idle: str) -> str:
    entries = [
        f'<div title="{escape(text.PART_MEANINGS[name])}"><span class="ks-key ks-{name}"></span><b>{name}</b> '
        f"{escape(duration(value))}, {escape(percent(value / window if window else None))}</div>"
        for name, value in segments
    ]
    if idle:
        entries.append(f'<div class="ks-soft ks-wrap">thin bar: {escape(idle)}</div>')
    return f'<div class="ks-legend">{"".join(entries)}</div>'


def _others(kernels: Sequence[KernelExecution]) -> str:
    if not kernels:
        return ""
    columns = (
        ("", "Other kernel", ""), ("number", "Kernels", ""), ("time", "GPU time", "longest"), ("time", "Median", "p99"),
    )
    rows: list[str] = []
    for each in kernels[:MOST_GPU_ROWS]:
        run = each.execute
        rows.append(
            f'<td class="ks-left">{name_of(each.name)}</td><td>{escape(count(each.others))}</td>'
            + two(duration(run and run.total_ns), duration(run and run.max_ns))
            + two(duration(run and run.p50_ns), duration(run and run.p99_ns))
        )
    summary = f"<b>{escape(counted(len(kernels), 'other kernel'))}</b>"
    return folded(summary, table_of(columns, rows, dense=True) + left_out(len(kernels), MOST_GPU_ROWS))


# The card's parts about graphs and build caches.

#: How many rows stand outside a <details>, and how many at most inside it.
TOP_GRAPHS = 8
TOP_MISSES = 6
MOST_GRAPH_ROWS = 200
#: Nodes of a graph whose picture is shown at once.
MOST_OPEN = 12


def graphs_part(shown: Overview, picture: Callable[[int], str] | None = None) -> str:
    """Return the graphs, those of one topology in one row: what building and launching them cost, what was rebuilt.

    Parameters
    ----------
    shown : Overview
        What to show.
    picture : callable, optional
        Draws a graph, by its row in ``graphs``, as HTML that is escaped already.
    """
    if not shown.by_topology:
        return ""
    html = heading("Graphs", text.graphs_note(shown))
    html += _table(shown, shown.by_topology[:TOP_GRAPHS])
    if picture is not None:
        drawn = [each for each in shown.by_topology[:TOP_GRAPHS] if each.graph_ids]
        html += "".join(_drawn(each, picture(each.graph_ids[0]), len(drawn) == 1) for each in drawn)
    rest = shown.by_topology[TOP_GRAPHS:]
    if rest:
        html += folded(f"<b>{escape(counted(len(rest), 'more graph'))}</b>",
                       _table(shown, rest[:MOST_GRAPH_ROWS]) + left_out(len(rest), MOST_GRAPH_ROWS))
    if len(shown.by_graph) > len(shown.by_topology):
        html += folded(f"<b>{escape(counted(len(shown.by_graph), 'graph'))}</b> one by one",
                       _table(shown, shown.by_graph[:MOST_GRAPH_ROWS]) + left_out(len(shown.by_graph), MOST_GRAPH_ROWS))
    return html


def _drawn(graph: GraphSummary, picture: str, is_alone: bool) -> str:
    """The picture of a graph, which is open where it is the only one and small."""
    is_open = is_alone and (graph.nodes or 0) <= MOST_OPEN
    return folded(f"picture of <b>{escape(graph.name)}</b>", f'<div class="ks-graph">{picture}</div>', is_open)


def _table(shown: Overview, graphs: Sequence[GraphSummary]) -> str:
    columns = [
        ("", "Graph", "what happened"), ("built", "Builds", "median"), ("number", "Rebuilds", "all"),
        ("number", "Updates", "median"), ("word", "Launches", "host, median"),
    ]
    if shown.gpu is not None:
        columns.append(("time", "GPU time", "median"))
    return table_of(columns, [_row(each, shown) for each in graphs])


def _row(graph: GraphSummary, shown: Overview) -> str:
    cells = text.cells_of(graph, shown)
    lines = [text.graph_nodes(graph), *text.graph_notes(graph), *([f"in {cells}"] if cells else [])]
    below = "".join(f'<small class="ks-wrap">{escape(line)}</small>' for line in lines)
    kernels = text.graph_kernels(graph)
    named = f' <span class="ks-code">{escape(kernels)}</span>' if kernels else ""
    refused = f"{graph.refused:,} refused" if graph.refused else _median(graph.update)
    return (
        f'<td class="ks-left"><b>{escape(text.names(graph))}</b>{named}{below}</td>'
        + two(count(graph.builds), _median(graph.build))
        + two(count(graph.rebuilt), duration(graph.rebuild_ns) if graph.rebuilt else "")
        + two(count(graph.updates), refused)
        + two(count(graph.launches), _median(graph.launch))
        + ("" if shown.gpu is None else two(_total(graph.execute), _median(graph.execute)))
    )


def builds_part(shown: Overview) -> str:
    """Return the build caches by algorithm, and the requests that were no hits with why and what would avoid them."""
    if not shown.builds:
        return ""
    columns = (
        ("", "Algorithm", ""), ("requests", "Requests", ""), ("time", "Hits", "median"), ("time", "Misses", "median"),
        ("time", "Time", "building"),
    )
    html = heading("Build caches", text.builds_note(shown))
    html += table_of(columns, [_build_row(each) for each in shown.builds[:MOST_GRAPH_ROWS]])
    html += left_out(len(shown.builds), MOST_GRAPH_ROWS)
    misses = text.build_misses(shown)
    if misses:
        html += f'<div class="ks-sub">{_misses(shown, misses[:TOP_MISSES])}</div>'
    if len(misses) > TOP_MISSES:
        rest = misses[TOP_MISSES:]
        html += folded(f"<b>{len(rest):,} more</b> that were no hits",
                       _misses(shown, rest[:MOST_GRAPH_ROWS]) + left_out(len(rest), MOST_GRAPH_ROWS))
    return html


def _build_row(each: BuildSummary) -> str:
    below = ", ".join(part for part in (each.framework, text.build_outcomes(each)) if part)
    return (
        f'<td class="ks-left">{name_of(each.algorithm)}<small>{escape(below)}</small></td>'
        f"<td>{escape(count(each.requests))}</td>"
        + two(count(each.hits), _median(each.hit))
        + two(count(each.misses), _median(each.miss))
        + two(duration(each.host_ns), duration(each.build_ns))
    )


def _misses(shown: Overview, misses: Sequence[Miss]) -> str:
    labels = text.cell_labels(shown)
    columns = (("fifth", "Algorithm", ""), ("time", "Took", ""), ("word", "Outcome", ""), ("", "Why", "fix"))
    rows: list[str] = []
    for each in misses:
        fix = f'<span class="ks-fix"><b>Fix</b> {sentence(each.fix)}</span>' if each.fix else ""
        rows.append(
            f'<td class="ks-left">{name_of(each.algorithm)}</td><td>{escape(duration(each.duration_ns))}</td>'
            f'<td class="ks-left">{escape(text.miss_outcome(each, labels))}</td>'
            f'<td class="ks-left"><span class="ks-why">{sentence(text.why(each))}</span>{fix}</td>'
        )
    return table_of(columns, rows, left=(0, 2, 3))


def _median(spread: Spread | None) -> str:
    return "" if spread is None else duration(spread.p50_ns)


def _total(spread: Spread | None) -> str:
    return MISSING if spread is None else duration(spread.total_ns)


# The card: a recording as a self-contained fragment of HTML, and pages of cards.
#
# A fragment carries its style inside and needs no script, no network and no id, so that any number of cards stand
# in one notebook, and a saved or exported notebook shows them as they were.

MAKES = Makes("text/html", ".html")


def card(recording: Recording, *, paths: bool = False) -> str:
    """Return a self-contained fragment of HTML that shows what the recording holds.

    Parameters
    ----------
    recording : Recording
        What to show.
    paths : bool
        Keep full paths of this machine.
    """
    return f"<style>{style()}</style>{_of(recording, paths)}"


def page(recordings: Recording | Sequence[Recording], title: str) -> str:
    """Return a self-contained HTML document with one card a recording.

    Parameters
    ----------
    recordings : Recording or sequence of Recording
        What to show, in order.
    title : str
        The document's title and heading.
    """
    shown = [recordings] if isinstance(recordings, Recording) else recordings
    cards = "\n".join(map(_of, shown))
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{PAGE}{style()}</style></head>\n"
        f"<body><main><h1>{escape(title)}</h1>\n{cards}\n</main></body></html>\n"
    )


def _of(recording: Recording, paths: bool = False) -> str:
    shown = shareable(recording, paths=paths)
    return _body(overview(shown), partial(small, shown))


def _body(shown: Overview, picture: Callable[[int], str] | None = None) -> str:
    parts = [_head(shown)]
    if shown.is_empty:
        parts += [_empty(), ranges_part(shown)]
    else:
        parts += [
            _figures(shown), _phases(shown), gpu_part(shown), _advice(shown), cells_part(shown),
            kernels_part(shown), graphs_part(shown, picture), ranges_part(shown), compiles_part(shown),
            builds_part(shown), configurations_part(shown),
        ]
    parts.append(_foot(shown))
    return f'<div class="kscope">{"".join(parts)}</div>'


def _head(shown: Overview) -> str:
    chip = ""
    if shown.status:
        bad = "" if shown.status == "ok" else " ks-bad"
        chip = f'<span class="ks-chip{bad}">{escape(shown.status)}</span>'
    title = escape(shown.title)
    maker = escape(" · ".join(part for part in ("KernelScope", shown.device or "") if part))
    html = (
        f'<div class="ks-top"><span class="ks-title" role="heading" aria-level="3" title="{title}">{title}</span>'
        f'{chip}<span class="ks-maker">{maker}</span></div>'
    )
    if shown.notice:
        html += f'<div class="ks-notice" role="note">{escape(shown.notice)}</div>'
    if shown.error:
        html += f'<div class="ks-error">{escape(shown.error)}</div>'
    if shown.unfinished:
        html += f'<div class="ks-error">{escape(card_text.unfinished_note(shown))}</div>'
    return html


def _empty() -> str:
    checks = "".join(f"<li>{escape(check)}</li>" for check in card_text.EMPTY_CHECKS)
    return f'{heading(card_text.EMPTY, "check:")}<ul class="ks-list">{checks}</ul>'


def _figures(shown: Overview) -> str:
    figures = card_text.headline_figures(shown)
    tiles = "".join(
        f'<div><div class="ks-label">{escape(figure.label)}</div><div class="ks-value">{escape(figure.value)}</div>'
        f'<div class="ks-note">{escape(figure.note)}</div></div>'
        for figure in figures
    )
    waited = card_text.synchronize_note(shown)
    note = f'<div class="ks-soft">{escape(waited)}</div>' if waited else ""
    six = " ks-six" if len(figures) > 5 else ""
    return f'<div class="ks-figures{six}">{tiles}</div>{note}'


def _phases(shown: Overview) -> str:
    if not shown.totals.segments:
        return ""
    return f"{heading('Host time in launches by phase')}{bars(shown.totals, large=True)}{legend(shown.totals)}"


def _advice(shown: Overview) -> str:
    if not shown.advice:
        return ""
    lines = "".join(f"<li>{sentence(each.text)}</li>" for each in shown.advice)
    return f'{heading("Advice")}<ul class="ks-list">{lines}</ul>'


def _foot(shown: Overview) -> str:
    lines = [f"<div>{escape(card_text.cost(shown))}</div>"]
    for row in shown.health:
        facts = card_text.health(row)
        text = f"{row.probe}: {row.status}" + (f", {facts}" if facts else "")
        fix = f' <span class="ks-fix"><b>Fix</b> {escape(row.fix)}</span>' if row.fix else ""
        kind = ' class="ks-trouble"' if row.is_trouble else ""
        lines.append(f"<div{kind}>{escape(text)}{fix}</div>")
    return f'<div class="ks-foot">{"".join(lines)}</div>'
