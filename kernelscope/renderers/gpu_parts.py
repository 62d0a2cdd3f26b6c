"""The card's part of the GPU's side: what it did, why it idled, copies, graph launches and other kernels."""

from __future__ import annotations

from collections.abc import Sequence

from kernelscope.analysis.execution import KernelExecution
from kernelscope.analysis.overview import Overview
from kernelscope.analysis.units import count, counted, duration, percent
from kernelscope.renderers import gpu_words
from kernelscope.renderers.base import escape
from kernelscope.renderers.elements import bar, folded, heading, left_out, name_of, table_of, two

MOST_ROWS = 200


def gpu_part(shown: Overview) -> str:
    """Return what the GPU did, where it was recorded and anything ran."""
    gpu = shown.gpu
    if gpu is None or not gpu_words.is_shown(shown):
        return ""
    html = heading("GPU", "in the time until the device was synchronized" if gpu.busy else "")
    idle = {each.device_id: each for each in gpu.idle}
    for busy in gpu.busy:
        where = gpu_words.device(shown, busy.device_id)
        if where:
            html += f'<div class="ks-soft ks-device">{escape(where)}</div>'
        segments = gpu_words.parts(busy)
        html += bar(segments, busy.window_ns, "ks-bar ks-large")
        lane = idle.get(busy.device_id)
        if lane is not None and lane.idle_ns:
            html += bar(gpu_words.states(lane), lane.idle_ns, "ks-bar ks-thin", "while idle: ")
        html += _legend(segments, busy.window_ns, "" if lane is None else gpu_words.idle_line(lane, busy.window_ns))
    lines = "".join(f"<li>{escape(line)}</li>" for line in gpu_words.lines(shown))
    html += f'<ul class="ks-list ks-facts">{lines}</ul>' if lines else ""
    return html + _others(gpu.others)


def _legend(segments: Sequence[tuple[str, int]], window: int, idle: str) -> str:
    entries = [
        f'<div title="{escape(gpu_words.PART_MEANINGS[name])}"><span class="ks-key ks-{name}"></span><b>{name}</b> '
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
    for each in kernels[:MOST_ROWS]:
        run = each.execute
        rows.append(
            f'<td class="ks-left">{name_of(each.name)}</td><td>{escape(count(each.others))}</td>'
            + two(duration(run and run.total_ns), duration(run and run.max_ns))
            + two(duration(run and run.p50_ns), duration(run and run.p99_ns))
        )
    summary = f"<b>{escape(counted(len(kernels), 'other kernel'))}</b>"
    return folded(summary, table_of(columns, rows, dense=True) + left_out(len(kernels), MOST_ROWS))
