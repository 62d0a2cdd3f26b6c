"""Charts of a recording's aggregates, as Plotly figures: `kernelscope.charts`.

A figure holds sums, percentiles and shares, at most 2,000 marks, and never the events themselves. Its ground is
transparent and its ink is a gray that can be read on white and on black. Names from user code are escaped, because
Plotly takes some HTML in its labels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kernelscope.analysis.activities import distinct, gpu_activities, is_gpu_recorded
from kernelscope.analysis.busy import busy_over_time
from kernelscope.analysis.columns import Ints, codes, ints, matches, percentiles_by
from kernelscope.analysis.phases import PHASES, launch_phases
from kernelscope.analysis.units import duration
from kernelscope.recording.model import Recording
from kernelscope.recording.privacy import shareable
from kernelscope.renderers.compile_charts import compile_time as compile_time
from kernelscope.renderers.figures import (
    COLORS,
    MOST_KERNELS,
    MOST_MARKS,
    UNSPLIT,
    figure_of,
    kernel_lines,
    labels_of,
    sentence,
    unit_of,
)
from kernelscope.renderers.figures import label as label
from kernelscope.renderers.style import PHASE_COLORS

if TYPE_CHECKING:
    import plotly.graph_objects as go

_FILL = "rgba(43,123,186,.32)"
# What a logarithmic axis shows for a queue of 0: the kernel started before the driver call returned.
_LEAST_NS = 100
_SHARES = (0.05, 0.25, 0.5, 0.75, 0.95)


def time_by_phase(recording: Recording) -> go.Figure:
    """Return host time in launches as stacked bars: a bar a kernel, longest first, in it the phases.

    Times are own times: a launch inside another counts once. More than 20 kernels end in a bar of the others.
    """
    recording = shareable(recording)
    dispatcher = ints(recording, "launches", "dispatcher_id")
    names = [str(row["name"]) for row in recording.rows("dispatchers")]
    totals = launch_phases(recording).totals_by(dispatcher, len(names))
    order = sorted((at for at in range(len(names)) if totals[at].host_ns), key=lambda at: -(totals[at].host_ns or 0))
    title = "Host time in launches, by kernel and phase"
    if not order:
        return sentence(title, "No launch's end was recorded, so there is no host time to show.")
    shown, others = order[:MOST_KERNELS], order[MOST_KERNELS:]
    labels = labels_of([names[at] for at in shown])
    parts = ["unsplit", *PHASES]
    values = {part: [dict(totals[at].segments).get(part, 0) for at in shown] for part in parts}
    if others:
        labels.append(f"{len(others)} other kernels")
        for part in parts:
            values[part].append(sum(dict(totals[at].segments).get(part, 0) for at in others))
    scale, unit = unit_of(max(sum(values[part][at] for part in parts) for at in range(len(labels))))
    figure = figure_of(title, len(labels) * 26 + 130)
    for part in [*PHASES, "unsplit"]:
        if any(values[part]):
            figure.add_bar(
                x=[value / scale for value in values[part]], y=list(range(len(labels))), name=part, orientation="h",
                marker={"color": PHASE_COLORS.get(part, UNSPLIT), "line": {"width": 0}}, customdata=labels,
                hovertemplate=f"%{{customdata}}<br>{part}: %{{x:,.4~g}} {unit}<extra></extra>")
    figure.update_layout(barmode="stack", bargap=0.35)
    kernel_lines(figure, labels)
    figure.update_xaxes(title_text=unit, rangemode="tozero")
    return figure


def queue_and_execute(recording: Recording) -> go.Figure:
    """Return how long kernels waited and ran on the GPU: a box a kernel, 25 to 75 %, whiskers from 5 to 95 %.

    Kernels of graphs, and those that nothing recorded launched (of CuPy, of PyTorch), have no queue. The 20 kernels
    with the longest total time are shown.
    """
    title = "Queue and execute on the GPU, by kernel"
    recording = shareable(recording)
    kernel, names, execute, queue = _gpu_times(recording)
    if not bool((execute >= 0).any()):
        return sentence(title, _no_gpu(recording, "no kernel's time on the GPU is known"))
    total = np.bincount(kernel, weights=np.maximum(execute, 0), minlength=len(names))
    ran = np.bincount(kernel[execute >= 0], minlength=len(names))
    shown = [at for at in np.argsort(-total, kind="stable").tolist() if ran[at]][:MOST_KERNELS]
    labels = labels_of([names[at] for at in shown])
    sides = (("queue", queue, PHASE_COLORS["submit"]), ("execute", execute, PHASE_COLORS["dispatch"]))
    found = [(side, percentiles_by(kernel, np.where(values >= 0, np.maximum(values, _LEAST_NS), -1), len(names),
                                   _SHARES)[shown], color) for side, values, color in sides]
    found = [each for each in found if not bool(np.isnan(each[1]).all())]
    figure = figure_of(title, len(labels) * (14 + 18 * len(found)) + 130)
    for place, (side, shares, color) in enumerate(found):
        held = np.flatnonzero(~np.isnan(shares[:, 0]))
        low, first, middle, third, high = (shares[held] / 1_000).T.tolist()
        lines = (held + (place - (len(found) - 1) / 2) * 0.36).tolist()
        figure.add_box(
            y=lines, lowerfence=low, q1=first, median=middle, q3=third, upperfence=high, name=side, orientation="h",
            width=0.26, marker={"color": color}, line={"width": 1.4}, fillcolor=_faint(color), hoverinfo="skip")
        # A box's own hover is five slanted labels on top of each other.
        texts = [f"{labels[at]}<br>{side}: median {duration(row[2])}<br>25 to 75 %: {duration(row[1])} to "
                 f"{duration(row[3])}<br>5 to 95 %: {duration(row[0])} to {duration(row[4])}"
                 for at, row in zip(held.tolist(), np.rint(shares[held]).astype(np.int64).tolist(), strict=True)]
        figure.add_scatter(
            x=[value for row in (shares[held] / 1_000).tolist() for value in row], y=np.repeat(lines, 5).tolist(),
            customdata=np.repeat(texts, 5).tolist(), mode="markers", marker={"opacity": 0, "size": 14, "color": color},
            showlegend=False, hovertemplate="%{customdata}<extra></extra>")
    figure.update_layout(boxmode="overlay")
    kernel_lines(figure, labels)
    note = ", 0 drawn at 0.1" if bool(((queue >= 0) & (queue < _LEAST_NS)).any()) else ""
    figure.update_xaxes(type="log", title_text=f"µs{note}", exponentformat="none", dtick=1)
    return figure


def gpu_busy(recording: Recording, bins: int = 200) -> go.Figure:
    """Return the share of time in which each GPU had work (a kernel, a copy or a memset), over time.

    Parameters
    ----------
    recording : Recording
        What was recorded.
    bins : int
        Into how many parts to divide the time from the first cell's start to the last one's end, its wait for the
        device included; fewer where that would be more than 2,000 marks.

    Raises
    ------
    ValueError
        `bins` is below 1.
    """
    if bins < 1:
        raise ValueError(f"bins must be at least 1, not {bins}")
    title = "GPU busy over time"
    activities = gpu_activities(recording)
    if not len(activities):
        return sentence(title, _no_gpu(recording, "no activity of the GPU has a time"))
    devices = len(distinct(activities.device))
    busy = busy_over_time(recording, min(bins, max(MOST_MARKS // devices, 1)), activities=activities)
    if not busy:
        return sentence(title, _no_gpu(recording, "no time passed"))
    edges = busy[0].edges_ns
    first, last = int(edges[0]), int(edges[-1])
    scale, unit = unit_of(last - first)
    rows = recording.rows("devices")
    figure = figure_of(title, 260)
    for place, each in enumerate(busy):
        ordinal = None if each.device_id is None else rows[each.device_id]["ordinal"]
        name = "GPU" if each.device_id is None else f"GPU {each.device_id if ordinal is None else ordinal}"
        figure.add_scatter(
            x=((edges[:-1] - first) / scale).tolist(), y=(each.share * 100).tolist(), name=name, mode="lines",
            line={"shape": "hv", "width": 1.5, "color": COLORS[place % len(COLORS)]},
            fill="tozeroy" if len(busy) == 1 else None, fillcolor=_FILL,
            hovertemplate=f"at %{{x:,.4~g}} {unit}: %{{y:.0f}} %<extra>{name}</extra>")
    figure.update_layout(showlegend=len(busy) > 1)
    figure.update_yaxes(title_text="% busy", range=[0, 102])
    figure.update_xaxes(title_text=f"{unit} since the start", range=[0, (last - first) / scale])
    return figure


def _gpu_times(recording: Recording) -> tuple[Ints, list[str], Ints, Ints]:
    """Kernel, execute and queue of each launch and of each kernel that nothing recorded launched; -1 for unknown."""
    names = [str(row["name"]) for row in recording.rows("dispatchers")]
    kernel = ints(recording, "launches", "dispatcher_id")
    execute, queue = ints(recording, "launches", "execute_ns"), ints(recording, "launches", "queue_ns")
    start, end = ints(recording, "activities", "start_ns"), ints(recording, "activities", "end_ns")
    alone = matches(recording, "activities", "kind", "kernel") & (ints(recording, "activities", "launch_id") < 0)
    alone &= (start >= 0) & (end >= start)
    which, others = codes(recording, "activities", "name")
    # Those of a graph can be kernels of ours all the same.
    spec = ints(recording, "activities", "specialization_id")
    ours = np.append(ints(recording, "specializations", "dispatcher_id"), -1)[spec]
    which = np.where(ours >= 0, ours, which + len(names))
    return (np.concatenate((kernel, which[alone])), [*names, *others],
            np.concatenate((execute, (end - start)[alone])),
            np.concatenate((queue, np.full(int(alone.sum()), -1, dtype=np.int64))))


def _no_gpu(recording: Recording, otherwise: str) -> str:
    if recording.notice:
        return f"{recording.notice[0].upper()}{recording.notice[1:]}."
    if not is_gpu_recorded(recording):
        return "The GPU was not recorded, so there is nothing to show here."
    return f"There is nothing to show here: {otherwise}."


def _faint(color: str) -> str:
    red, green, blue = (int(color[at:at + 2], 16) for at in (1, 3, 5))
    return f"rgba({red},{green},{blue},.35)"
