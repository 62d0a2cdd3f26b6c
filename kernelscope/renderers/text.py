"""The text twin of the card: the same facts for a terminal, tests and exports to plain text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kernelscope.analysis.cells import CellSummary, by_cell
from kernelscope.analysis.columns import ints
from kernelscope.analysis.configurations import ConfigurationSummary
from kernelscope.analysis.kernels import KernelSummary
from kernelscope.analysis.overview import Overview, overview
from kernelscope.analysis.phases import PHASES, PhaseTotals, launch_phases
from kernelscope.analysis.units import MISSING, count, counted, duration, percent, size
from kernelscope.recording.model import Recording
from kernelscope.recording.privacy import shareable
from kernelscope.renderers import gpu_words, words
from kernelscope.renderers.base import (
    Makes,
    clean,
    dims,
    percents,
    shorten,
    span,
    stream,
    width_of,
)
from kernelscope.renderers.graph_summary import builds_lines, graphs_lines
from kernelscope.renderers.layout import INDENT as _INDENT
from kernelscope.renderers.layout import columns as _columns
from kernelscope.renderers.layout import rest as _rest
from kernelscope.renderers.layout import table as _table
from kernelscope.renderers.layout import with_notice as _with_notice
from kernelscope.renderers.layout import wrap as _wrap

MAKES = Makes("text/plain", ".txt")

#: How many rows of each part are printed before "and N more".
TOP_KERNELS = 12
TOP_COMPILES = 8
TOP_CONFIGURATIONS = 8
TOP_RANGES = 12

_WIDE = 96
_DULL = ("", MISSING, "default", "0 B")


def summary(recording: Recording, width: int | None = None) -> str:
    """Return the card as plain text.

    Parameters
    ----------
    recording : Recording
        What was recorded.
    width : int, optional
        Columns to keep to, at least 60; without it the terminal's, between 80 and 120.
    """
    columns = _columns(width)
    shown = overview(shareable(recording))
    parts = [_headline(shown, columns)]
    if shown.is_empty:
        checks = "\n".join(f"{_INDENT}- {check}" for check in words.EMPTY_CHECKS)
        parts.append(f"{words.EMPTY}; check:\n{checks}")
        parts.append(_ranges(shown, columns))
    else:
        parts += [
            _gpu(shown, columns),
            _kernels(shown, columns),
            graphs_lines(shown, columns),
            _phases(shown, columns),
            _ranges(shown, columns),
            _compiles(shown, columns),
            builds_lines(shown, columns),
            _configurations(shown, columns),
            _advice(shown, columns),
        ]
        if len(shown.by_cell) > 1:
            busy = None if shown.gpu is None else shown.gpu.by_cell
            parts.insert(1, "Cells\n" + cells_table(shown.by_cell, columns, busy))
    parts.append(_health(shown, columns))
    return "\n\n".join(part for part in parts if part)


def cells_table(
    source: Recording | Sequence[CellSummary], width: int | None = None, busy: Mapping[int, float] | None = None
) -> str:
    """Return one line a cell: launches, kernels, compiles, hits, host time by phase, wall time and status.

    Parameters
    ----------
    source : Recording or sequence of CellSummary
        A recording, or what `kernelscope.analysis.cells.by_cell` returned.
    width : int, optional
        Columns to keep to, as for `summary`.
    busy : mapping of int to float, optional
        The busy share of the GPU by cell, where it was recorded: a column of its own.
    """
    notice, rows = (source.notice, by_cell(shareable(source))) if isinstance(source, Recording) else ("", source)
    lines = [
        [
            clean(row.label), count(row.launches), count(row.kernels), count(row.compiles), count(row.disk_hits),
            count(row.memory_hits), duration(row.totals.host_ns), duration(row.wall_ns),
            *(() if busy is None else (percent(None if row.cell_id is None else busy.get(row.cell_id)),)),
            clean(words.cell_problem(row)),
        ]
        for row in rows
    ]
    gpu = () if busy is None else ("GPU",)
    headers = ["cell", "launches", "kernels", "compiled", "disk", "memory", "host", "wall", *gpu, "status"]
    return _with_notice(notice, _table(headers, lines, _columns(width), left=(0, len(headers) - 1)))


def launches_table(recording: Recording, limit: int = 20, width: int | None = None) -> str:
    """Return one line a launch, in the order in which they began.

    Parameters
    ----------
    recording : Recording
        What was recorded.
    limit : int
        How many launches to show, from the first.
    width : int, optional
        Columns to keep to, as for `summary`.
    """
    columns = _columns(width)
    recording = shareable(recording)
    total = len(ints(recording, "launches", "launch_id"))
    shown = min(total, max(limit, 0))
    if not total:
        return _with_notice(recording.notice, words.EMPTY)
    phases = launch_phases(recording)
    kernels = {row["dispatcher_id"]: str(row["name"]) for row in recording.rows("dispatchers")}
    configurations = {row["configuration_id"]: row for row in recording.rows("configurations")}
    lines: list[list[str]] = []
    for row in recording.arrow("launches").slice(0, shown).to_pylist():
        at = int(row["launch_id"])
        used = configurations[row["configuration_id"]]
        times = [phases.host_ns[at], *(phases.phases[name][at] for name in PHASES)]
        lines.append([
            count(at),
            clean(kernels.get(row["dispatcher_id"], "?")),
            dims([used[f"griddim_{axis}"] for axis in "xyz"]),
            dims([used[f"blockdim_{axis}"] for axis in "xyz"]),
            *(duration(None if time < 0 else float(time)) for time in times),
            clean(row["error"] or ("captured" if row["capture_event_id"] is not None else row["cache"]) or ""),
        ])
    headers = ["launch", "kernel", "grid", "block", "host", *PHASES, "from"]
    table = _table(headers, lines, columns, left=(1, 10), flexible=1)
    if shown < total:
        table += f"\n{_INDENT}and {counted(total - shown, 'more launch', 'more launches')}"
    return _with_notice(recording.notice, table)


def _headline(shown: Overview, width: int) -> str:
    status = f" ({clean(shown.status)})" if shown.status else ""
    lines = [shorten(f"KernelScope: {clean(shown.title)}{status}", width)]
    if shown.notice:
        lines.append(f"*** {clean(shown.notice)} ***")
    if shown.error:
        lines.append(_wrap(f"error: {clean(shown.error)}", width))
    if shown.unfinished:
        lines.append(_wrap(clean(words.unfinished_note(shown)), width))
    figures = [] if shown.is_empty else words.figures(shown)
    lines += [_wrap(f"{figure.label}: {figure.value} ({figure.note})", width) for figure in figures]
    waited = words.synchronize_note(shown)
    if waited:
        lines.append(waited)
    if shown.device:
        lines.append(shorten(f"device: {clean(shown.device)}", width))
    return "\n".join(lines)


def _kernels(shown: Overview, width: int) -> str:
    if not shown.by_kernel:
        return ""
    host = shown.totals.host_ns
    top = shown.by_kernel[:TOP_KERNELS]
    below = [_below(kernel, shown, width) for kernel in top]
    headers = ["kernel", "launches", "compiled", "disk", "memory", "host", "share", "median", "p95"]
    rows: list[list[str]] = []
    for kernel in top:
        share = kernel.host_ns / host if host and kernel.host_ns is not None else None
        rows.append([
            clean(kernel.name), count(kernel.launches), count(kernel.compiles), count(kernel.disk_hits),
            count(kernel.memory_hits), duration(kernel.host_ns), percent(share), duration(kernel.median_ns),
            duration(kernel.p95_ns),
        ])
    if width < _WIDE:
        headers, rows = headers[:-1], [row[:-1] for row in rows]
    table = _table(headers, rows, width, below=below)
    return f"Kernels by host time in launches\n{table}{_rest(len(shown.by_kernel), TOP_KERNELS, 'kernel')}"


def _below(kernel: KernelSummary, shown: Overview, width: int) -> list[str]:
    """A kernel's place and resources, on one line where they fit."""
    notes = "".join(f", {note}" for note in words.launch_notes(kernel))
    parts = [clean(words.place(kernel, shown.frameworks)), clean(words.resources(kernel) + notes)]
    room = width - 2 * len(_INDENT)
    joined = " · ".join(parts)
    return [joined] if width_of(joined) <= room else [shorten(part, room) for part in parts]


def _gpu(shown: Overview, width: int) -> str:
    gpu = shown.gpu
    if gpu is None or not gpu_words.is_shown(shown):
        return ""
    lines = ["GPU"]
    idle = {each.device_id: each for each in gpu.idle}
    for busy in gpu.busy:
        where = gpu_words.device(shown, busy.device_id)
        parts = ", ".join(f"{name} {duration(value)} ({percent(value / busy.window_ns)})"
                          for name, value in gpu_words.parts(busy))
        lines.append(_wrap(f"{where}: {parts}" if where else parts, width, 2))
        lane = idle.get(busy.device_id)
        if lane is not None and lane.idle_ns:
            lines.append(_wrap(gpu_words.idle_line(lane, busy.window_ns), width, 2))
            spent = ", ".join(f"{state} {duration(value)}" for state, value in gpu_words.states(lane))
            lines.append(_wrap(f"while idle: {spent}", width, 2))
    lines += [_wrap(f"- {clean(line)}", width, 2, hanging=2) for line in gpu_words.lines(shown)]
    headers = ["kernel", "ran", "total", "median", "p99", "longest", "queue"]
    rows = [
        [clean(each.name), count(each.kernels),
         *(duration(each.execute and getattr(each.execute, f"{name}_ns")) for name in ("total", "p50", "p99", "max")),
         duration(each.queue and each.queue.p50_ns)]
        for each in gpu.execution[:TOP_KERNELS]
    ]
    if rows:
        lines.append(_table(headers, rows, width) + _rest(len(gpu.execution), TOP_KERNELS, "kernel"))
    return "\n".join(lines)


def _phases(shown: Overview, width: int) -> str:
    if shown.totals.host_ns is None:
        return ""
    headers = ["kernel", *PHASES, "unsplit"]
    rows = [["all", *_phase_columns(shown.totals)]]
    if len(shown.by_kernel) > 1:
        rows += [[clean(kernel.name), *_phase_columns(kernel.totals)] for kernel in shown.by_kernel[:TOP_KERNELS]]
    if not shown.totals.unsplit_ns:
        headers, rows = headers[:-1], [row[:-1] for row in rows]
    return f"Host time in launches by phase\n{_table(headers, rows, width)}"


def _ranges(shown: Overview, width: int) -> str:
    if not shown.by_range and not shown.marks:
        return ""
    gpu = [] if shown.gpu is None else ["gpu"]
    headers = ["path", "ranges", "launches", "host", *gpu, *PHASES, "unsplit"]
    rows = [
        [clean(each.name), count(each.ranges), count(each.launches), duration(each.host_ns),
         *(duration(each.gpu_ns) for _ in gpu), *_phase_columns(each.totals)]
        for each in shown.by_range[:TOP_RANGES]
    ]
    if not any(each.totals.unsplit_ns for each in shown.by_range[:TOP_RANGES]):
        headers, rows = headers[:-1], [row[:-1] for row in rows]
    if width < _WIDE:
        kept = 4 + len(gpu)
        headers, rows = headers[:kept], [row[:kept] for row in rows]
    table = f"\n{_table(headers, rows, width)}" if rows else ""
    return f"Ranges ({words.ranges_note(shown)})" + table + _rest(len(shown.by_range), TOP_RANGES, "path")


def _phase_columns(totals: PhaseTotals) -> list[str]:
    return [*(duration(totals.phase(name)) for name in PHASES), duration(totals.unsplit_ns)]


def _compiles(shown: Overview, width: int) -> str:
    if not shown.compilations:
        return ""
    lines = [f"Compiles and disk-cache loads ({count(len(shown.compilations))}, {duration(shown.compile_ns)} in all)"]
    lines += [_wrap(clean(note), width, 2, hanging=2) for note in words.compile_notes(shown)]
    for each in shown.compilations[:TOP_COMPILES]:
        how = f"{words.outcome(each)} {clean(words.trigger(each))}"
        first = f"{duration(each.duration_ns):>8}  {how}: {clean(each.name)} "
        room = max(width - len(_INDENT) - width_of(first), 24)
        lines.append(_INDENT + shorten(first + shorten(clean(each.signature), room), width - len(_INDENT)))
        lines.append(_wrap(f"why: {clean(each.reason)}", width, 12))
        if each.fix:
            lines.append(_wrap(f"fix: {clean(each.fix)}", width, 12))
    rest = _rest(len(shown.compilations), TOP_COMPILES, "compile")
    return "\n".join(lines) + rest


def _configurations(shown: Overview, width: int) -> str:
    rows: list[list[str]] = []
    for kernel in shown.by_kernel[:TOP_KERNELS]:
        used = shown.configurations_used.of(kernel.dispatcher_id, TOP_CONFIGURATIONS)
        rows += [[clean(kernel.name), *configuration_columns(each)] for each in used]
        more = shown.configurations_used.count(kernel.dispatcher_id) - TOP_CONFIGURATIONS
        if more > 0:
            rows.append([clean(kernel.name), f"and {more:,} more", *[""] * 7])
    if not rows:
        return ""
    headers = ["kernel", "grid", "block", "shared", "stream", "launches", "median", "occupancy", "regs"]
    # A column in which every row has the default, or nothing was recorded, tells nothing.
    kept = [place for place in range(len(headers)) if any(row[place] not in _DULL for row in rows)]
    table = _table([headers[place] for place in kept], [[row[place] for place in kept] for row in rows], width)
    return f"Launch configurations\n{table}"


def configuration_columns(each: ConfigurationSummary) -> list[str]:
    """Return a launch configuration as text: grid, block, shared, stream, launches, median, occupancy, registers."""
    grid = dims(each.griddim)
    if each.cluster is not None:
        grid += f" in clusters of {dims(each.cluster)}"
    return [
        grid, dims(each.blockdim), size(each.sharedmem_bytes), stream(each.stream, each.device), launched(each),
        duration(each.median_ns), percents(each.occupancy), span(each.regs),
    ]


def launched(each: ConfigurationSummary) -> str:
    """Return how many launches ran, and how many were captured into a graph."""
    if not each.captured:
        return count(each.launches)
    return f"{count(each.launches)} + {count(each.captured)} captured" if each.launches else (
        f"{count(each.captured)} captured")


def _advice(shown: Overview, width: int) -> str:
    if not shown.advice:
        return ""
    lines = [_wrap(f"- {clean(each.text)}", width, 2, hanging=2) for each in shown.advice]
    return "Advice\n" + "\n".join(lines)


def _health(shown: Overview, width: int) -> str:
    lines = [_wrap(clean(words.cost(shown)), width, 2)]
    for row in shown.health:
        facts = words.health(row)
        line = f"{row.probe}: {row.status}" + (f", {facts}" if facts else "")
        lines.append(_wrap(clean(line), width, 2, hanging=2))
        if row.fix:
            lines.append(_wrap(f"fix: {clean(row.fix)}", width, 4, hanging=5))
    return "Recording\n" + "\n".join(lines)
