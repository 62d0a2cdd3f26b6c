"""Charts of a recording's aggregates, as Plotly figures that a notebook shows wherever it is read."""

from __future__ import annotations

import base64
import functools
import gzip
import html
import json
import secrets
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kernelscope.analysis.activities import busy_over_time, distinct, gpu_activities, is_gpu_recorded
from kernelscope.analysis.columns import (
    Ints,
    codes,
    in_order,
    instants,
    ints,
    matches,
    percentiles_by,
    row_count,
)
from kernelscope.analysis.compile_time import OTHER, WAIT, CompileTime, compile_times, total_parts
from kernelscope.analysis.launches import PHASES, launch_phases
from kernelscope.palette import PHASE_COLORS
from kernelscope.recording.model import Recording
from kernelscope.recording.redact import shareable
from kernelscope.recording.time import duration_ns
from kernelscope.units import counted, duration, percent
from kernelscope.views.base import clean, escape, shorten
from kernelscope.views.html import style_element
from kernelscope.views.parts import phase_label

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from kernelscope.views.notebook_figure import NotebookFigure


#: As many kernels as a chart has lines for; the others are one line together, or left out.
MOST_KERNELS = 20
#: As many marks as Plotly draws without being slow.
MOST_MARKS = 2_000
#: What is drawn of one color by device, and what no color says more of.
COLORS = ("#2b7bba", "#e69f00", "#5bbcea", "#a74882", "#8d8685")
UNSPLIT = "rgba(127,127,127,.45)"

_INK, _LINE = "#7b828c", "rgba(127,127,127,.28)"
_NAME_WIDTH = 44


def label(name: str) -> str:
    """Return a name as Plotly shows it literally: neither its HTML nor MathJax's formulas are taken for such."""
    return html.escape(clean(name), quote=False).replace("$", "&#36;")


def figure_of(title: str, height: int) -> NotebookFigure:
    """Return an empty figure with a transparent ground and ink that can be read on white and on black."""
    from kernelscope.views.notebook_figure import NotebookFigure

    figure = NotebookFigure()
    figure.update_layout(
        template="none", height=height, paper_bgcolor="rgba(0,0,0,0)", plot_bgcolor="rgba(0,0,0,0)",
        title={"text": f"<b>{title}</b>", "font": {"size": 13}, "x": 0, "xref": "container", "xanchor": "left", "y": 1,
               "yref": "container", "yanchor": "top", "pad": {"t": 10, "l": 8}},
        font={"color": _INK, "size": 12, "family": "system-ui, -apple-system, 'Segoe UI', sans-serif"},
        margin={"l": 8, "r": 16, "t": 40, "b": 44},
        legend={"orientation": "h", "x": 0, "y": 0, "yref": "container", "yanchor": "bottom",
                "traceorder": "normal", "font": {"size": 11.5}},
        modebar={"bgcolor": "rgba(0,0,0,0)", "color": _INK, "activecolor": COLORS[0]},
        hoverlabel={"font": {"family": "ui-monospace, monospace"}})
    grid: dict[str, Any] = {"gridcolor": _LINE, "zerolinecolor": _LINE, "linecolor": _LINE, "automargin": True}
    figure.update_xaxes(**grid)
    figure.update_yaxes(**grid)
    return figure


def kernel_lines(figure: go.Figure, labels: list[str]) -> None:
    """Label a line a kernel by its place, not by its name: two kernels may have one, and names may look like dates."""
    figure.update_yaxes(tickmode="array", tickvals=list(range(len(labels))), ticktext=labels, autorange="reversed",
                        showgrid=False, zeroline=False, ticksuffix=" ")


def sentence(title: str, text: str) -> NotebookFigure:
    """Return a figure that says why it has no data."""
    figure = figure_of(title, 84)
    figure.update_layout(margin={"t": 34, "b": 10})
    figure.update_xaxes(visible=False)
    figure.update_yaxes(visible=False)
    figure.add_annotation(text=label(text), x=0, y=0.5, xref="paper", yref="paper", xanchor="left", showarrow=False,
                          font={"size": 13})
    return figure


def labels_of(names: list[str]) -> list[str]:
    """Return names cut to a label's width, as `label` does."""
    return [label(shorten(clean(name), _NAME_WIDTH)) for name in names]


def unit_of(longest_ns: float) -> tuple[float, str]:
    """Return by how many nanoseconds to divide for a unit that suits the longest time, and the unit."""
    for scale, unit in ((1e9, "s"), (1e6, "ms"), (1e3, "µs")):
        if longest_ns >= scale:
            return scale, unit
    return 1.0, "ns"


# Charts of a recording's aggregates, as Plotly figures: `kernelscope.charts`.
#
# A figure holds sums, percentiles and shares, at most 2,000 marks, and never the events themselves. Its ground is
# transparent and its ink is a gray that can be read on white and on black. Names from user code are escaped, because
# Plotly takes some HTML in its labels.

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
    totals = launch_phases(recording).totals_by(dispatcher, row_count(recording, "dispatchers"))
    order = np.argsort(-totals.host_ns, kind="stable")
    order = order[totals.host_ns[order] > 0].tolist()
    title = "Host time in launches, by kernel and phase"
    if not order:
        return sentence(title, "No launch's end was recorded, so there is no host time to show.")
    shown, others = order[:MOST_KERNELS], order[MOST_KERNELS:]
    labels = labels_of([str(row["name"]) for _, row in in_order(recording, "dispatchers", shown)])
    parts = ["unsplit", *PHASES]
    values = {part: [dict(totals[at].segments).get(part, 0) for at in shown] for part in parts}
    if others:
        labels.append(f"{len(others)} other kernels")
        rest = {part: int(np.maximum(totals.phases[part][others], 0).sum()) for part in PHASES}
        rest["unsplit"] = max(int(totals.host_ns[others].sum()) - sum(rest.values()), 0)
        for part in parts:
            values[part].append(rest[part])
    scale, unit = unit_of(max(sum(values[part][at] for part in parts) for at in range(len(labels))))
    figure = figure_of(title, len(labels) * 26 + 130)
    for part in [*PHASES, "unsplit"]:
        if any(values[part]):
            figure.add_bar(
                x=[value / scale for value in values[part]], y=list(range(len(labels))), name=phase_label(part),
                orientation="h",
                marker={"color": PHASE_COLORS.get(part, UNSPLIT), "line": {"width": 0}}, customdata=labels,
                hovertemplate=f"%{{customdata}}<br>{phase_label(part)}: %{{x:,.4~g}} {unit}<extra></extra>")
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
        red, green, blue = (int(color[at:at + 2], 16) for at in (1, 3, 5))
        figure.add_box(
            y=lines, lowerfence=low, q1=first, median=middle, q3=third, upperfence=high, name=side, orientation="h",
            width=0.26, marker={"color": color}, line={"width": 1.4},
            fillcolor=f"rgba({red},{green},{blue},.35)", hoverinfo="skip")
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
    """Return kernel, execute and queue times of launches and of other kernels; -1 where unknown."""
    names = [str(row["name"]) for row in recording.rows("dispatchers")]
    kernel = ints(recording, "launches", "dispatcher_id")
    execute, queue = ints(recording, "launches", "execute_ns"), ints(recording, "launches", "queue_ns")
    lasted = duration_ns(*instants(recording, "activities", "start_ns", "end_ns"))
    alone = matches(recording, "activities", "kind", "kernel") & (ints(recording, "activities", "launch_id") < 0)
    alone &= lasted >= 0
    which, others = codes(recording, "activities", "name")
    # Those of a graph can be kernels of ours all the same.
    spec = ints(recording, "activities", "specialization_id")
    ours = np.append(ints(recording, "specializations", "dispatcher_id"), -1)[spec]
    which = np.where(ours >= 0, ours, which + len(names))
    return (np.concatenate((kernel, which[alone])), [*names, *others],
            np.concatenate((execute, lasted[alone])),
            np.concatenate((queue, np.full(int(alone.sum()), -1, dtype=np.int64))))


def _no_gpu(recording: Recording, otherwise: str) -> str:
    if recording.notice:
        return f"{recording.notice[0].upper()}{recording.notice[1:]}."
    if not is_gpu_recorded(recording):
        return "The GPU was not recorded, so there is nothing to show here."
    return f"There is nothing to show here: {otherwise}."


# Where compile time went, as a Plotly figure: `kernelscope.charts.compile_time`.
#
# Bars, and not an icicle of session, kernel, specialization and pass: that one was tried, and beyond some ten
# kernels its labels cannot be read, while bars of one scale compare at a glance.

#: As many passes as the lowest part of the chart names.
MOST_PASSES = 12

_TYPING, _LOWERING, _PASSES = "type inference", "lowering", "other passes"
# Numba's two long passes, each by what it does.
_LONG = {"nopython_type_inference": _TYPING, "cuda_native_lowering": _LOWERING, "native_lowering": _LOWERING,
         "mlir_type_inference": _TYPING, "mlir_backend": _LOWERING}
_COLORS = {
    WAIT: "rgba(127,127,127,.22)", _TYPING: "#2b7bba", _LOWERING: "#5bbcea", _PASSES: "#a9cfe8", "mlir": "#8a7a2f",
    "nvvm": "#e69f00", "lto": "#c66fa0", "link": "#9a6fb8", "load": "#4aa564", OTHER: UNSPLIT,
}
_LINE_HEIGHT = 26
_GAP = 52
_TOP, _BOTTOM = 40, 92
# What takes less is drawn, and not worth a place in the legend.
_LEAST_SHARE = 0.001


def compile_time(recording: Recording) -> go.Figure:
    """Return where compile time went: of the session, by kernel longest first, and by pass of numba's pipeline.

    Disk-cache loads and modules loaded later are in it; threads that waited for a compile of another are not. Link is
    without the lto inside it, and a pass is with the pipelines of device functions that ran inside it, so that the
    parts of a bar add up to the compiles' time; *other* is what no pass and no phase accounts for. Of the kernels, the
    20 that took longest are shown.
    """
    title = "Compile time, by kernel and part"
    recording = shareable(recording)
    times = [each for each in compile_times(recording) if each.duration_ns and each.outcome != "wait"]
    if not times:
        return sentence(title, "Nothing was compiled or loaded, so there is no compile time to show.")
    rows = _kernels(recording, times)
    passes = _passes(times)
    shown = rows[:MOST_KERNELS]
    heights = [1, len(shown), len(passes)]
    domains, height = _domains(heights)
    figure = figure_of(title, height + _TOP + _BOTTOM)
    figure.update_layout(barmode="stack", bargap=0.35, margin={"t": _TOP, "b": _BOTTOM})
    _bars(figure, [(f"all {counted(len(rows), 'kernel')}" if len(rows) > 1 else "all", times)], domains[0], "")
    _bars(figure, shown, domains[1], "2", f", the {len(shown)} longest" if len(rows) > len(shown) else "")
    if passes:
        _pass_bars(figure, passes, domains[2])
    return figure


def split(times: Iterable[CompileTime]) -> dict[str, int]:
    """Return the time of compiles by what a bar shows: nanoseconds, in order; they add up."""
    found: dict[str, int] = dict.fromkeys(_COLORS, 0)
    listed = list(times)
    for part in total_parts(listed):
        if part.kind != "passes":
            # A phase that is not known by name is shown with what is not known at all.
            found[part.name if part.name in found else OTHER] += part.duration_ns
    for name, spent in _passes(listed, most=None):
        found[_LONG.get(name, _PASSES)] += spent
    return {name: spent for name, spent in found.items() if spent}


def _kernels(recording: Recording, times: Sequence[CompileTime]) -> list[tuple[str, list[CompileTime]]]:
    """Return kernels with their compiles, longest first."""
    names = [str(row["name"]) for row in recording.rows("dispatchers")]
    found: dict[int | None, list[CompileTime]] = {}
    for each in times:
        found.setdefault(each.dispatcher_id, []).append(each)
    order = sorted(found, key=lambda at: -sum(each.duration_ns for each in found[at]))
    labels = labels_of(["modules of unknown kernels" if at is None else names[at] for at in order])
    return [(text, found[at]) for text, at in zip(labels, order, strict=True)]


def _passes(times: Iterable[CompileTime], most: int | None = MOST_PASSES) -> list[tuple[str, int]]:
    """Return Numba's passes over all compiles, longest first; those beyond `most` are combined."""
    totals: dict[str, int] = {}
    for each in times:
        for part in each.parts:
            for step in part.parts if part.kind == "passes" else ():
                totals[step.name] = totals.get(step.name, 0) + step.duration_ns
    found = sorted(totals.items(), key=lambda item: -item[1])
    if most is None or len(found) <= most:
        return found
    return [*found[:most], (f"{len(found) - most} other passes", sum(spent for _, spent in found[most:]))]


def _bars(
    figure: go.Figure, rows: Sequence[tuple[str, Sequence[CompileTime]]], domain: list[float], axis: str,
    note: str = "",
) -> None:
    """Return stacked bars of compiles by part, one a row; the first row's colors make the legend."""
    splits = [split(times) for _, times in rows]
    whole = sum(sum(each.values()) for each in splits)
    scale, unit = unit_of(max(sum(each.values()) for each in splits))
    labels = [f"{text}<br>{counted(len(times), 'compile or load', 'compiles and loads')}, "
              f"{duration(sum(each.duration_ns for each in times))}" for text, times in rows]
    for name, color in _COLORS.items():
        values = [each.get(name, 0) for each in splits]
        if not any(values):
            continue
        hover = [f"{text}<br>{name}: {duration(value)}, {percent(value / (sum(each.values()) or 1))}"
                 for text, value, each in zip(labels, values, splits, strict=True)]
        figure.add_bar(
            x=[value / scale for value in values], y=list(range(len(rows))), name=name, orientation="h",
            xaxis=f"x{axis}", yaxis=f"y{axis}", legendgroup=name, customdata=hover,
            showlegend=not axis and sum(values) > whole * _LEAST_SHARE,
            marker={"color": color, "line": {"width": 0}}, hovertemplate="%{customdata}<extra></extra>")
    _axes(figure, axis, domain, [text for text, _ in rows], unit + note)


def _pass_bars(figure: go.Figure, passes: Sequence[tuple[str, int]], domain: list[float]) -> None:
    scale, unit = unit_of(passes[0][1])
    hover = [f"{label(name)}: {duration(spent)}" for name, spent in passes]
    colors = [_COLORS[_LONG.get(name, _PASSES)] for name, _ in passes]
    figure.add_bar(
        x=[spent / scale for _, spent in passes], y=list(range(len(passes))), orientation="h", xaxis="x3", yaxis="y3",
        showlegend=False, marker={"color": colors, "line": {"width": 0}}, customdata=hover, name="passes",
        hovertemplate="%{customdata}<extra></extra>")
    _axes(figure, "3", domain, labels_of([name for name, _ in passes]), f"{unit} in passes of numba's pipeline")


def _axes(figure: go.Figure, axis: str, domain: list[float], labels: list[str], unit: str) -> None:
    lines: dict[str, Any] = {"automargin": True, "linecolor": "rgba(127,127,127,.28)"}
    grid = {"gridcolor": "rgba(127,127,127,.28)", "zerolinecolor": "rgba(127,127,127,.28)"}
    figure.update_layout({
        f"xaxis{axis}": {**lines, **grid, "anchor": f"y{axis}", "title": {"text": unit, "standoff": 4},
                         "rangemode": "tozero"},
        f"yaxis{axis}": {**lines, "anchor": f"x{axis}", "domain": domain, "tickmode": "array", "showgrid": False,
                         "tickvals": list(range(len(labels))), "ticktext": labels, "autorange": "reversed",
                         "zeroline": False, "ticksuffix": " "},
    })


def _domains(lines: Sequence[int]) -> tuple[list[list[float]], int]:
    """Return the vertical domains of the subplots from the top, and their total height."""
    whole = sum(lines) * _LINE_HEIGHT + _GAP * (sum(map(bool, lines)) - 1)
    top = 0
    domains: list[list[float]] = []
    for each in lines:
        bottom = min(top + each * _LINE_HEIGHT, whole)
        domains.append([1 - bottom / whole, 1 - min(top, bottom) / whole])
        top = bottom + _GAP
    return domains, whole


# The charts as a fragment of HTML that draws itself with no server, network, extension or CDN.
#
# Plotly's own ways into a notebook need one of these: its media type is drawn by a JupyterLab extension and by
# nothing in VS Code's or nbconvert's stead, and its HTML either loads plotly.js from a CDN or carries 4 to 5 MB
# of it. This fragment carries plotly.js compressed (1.5 to 2 MB), unpacks it in the browser, and keeps it out of
# the page's globals.

_SCRIPT = """
(async () => {
  const root = document.getElementById(%(id)s);
  if (!root || root.dataset.drawn) return;
  root.dataset.drawn = "1";
  const say = (text) => { root.querySelector(".ks-charts-note").textContent = text; };
  try {
    const read = (name) => root.querySelector('script[data-kind="' + name + '"]').textContent;
    const version = root.dataset.plotly;
    const held = (window.__kernelscopePlotly = window.__kernelscopePlotly || {});
    const source = root.querySelector('script[data-kind="plotly"]');
    if (!source) {
      say("This figure draws with the plotly.js of an earlier one, which is not on this page: run the notebook anew.");
      while (!held[version]) {
        await new Promise((done) => setTimeout(done, 200));
        if (!root.isConnected) return;
      }
    }
    held[version] = held[version] || (async () => {
      const packed = Uint8Array.from(atob(read("plotly")), (c) => c.charCodeAt(0));
      const unpacked = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
      const code = await new Response(unpacked).text();
      const module = { exports: {} };
      const before = Object.getOwnPropertyDescriptor(window, "Plotly");
      new Function("module", "exports", "define", code)(module, module.exports, undefined);
      // It sets this global all the same; another version of it may be the page's own.
      if (before) Object.defineProperty(window, "Plotly", before); else delete window.Plotly;
      return module.exports;
    })();
    const Plotly = await held[version];
    for (const figure of JSON.parse(read("figures"))) {
      const place = document.createElement("div");
      root.insertBefore(place, root.querySelector(".ks-charts-note"));
      await Plotly.newPlot(place, figure.data, figure.layout,
        { responsive: true, displaylogo: false, displayModeBar: "hover",
          modeBarButtonsToRemove: ["select2d", "lasso2d"] });
    }
    say("");
    root.dataset.drawn = "done";
  } catch (error) {
    delete root.dataset.drawn;
    say("The charts cannot be drawn here: " + error);
  }
})();
"""

# The text color of whatever theme surrounds the charts replaces the figures' own gray, also when the theme is switched.
_STYLE = """
.kscope-charts { max-width: 1180px; margin: 4px 0; color: var(--jp-ui-font-color1, var(--vscode-editor-foreground,
  var(--ks-charts-ink))); --ks-charts-ink: #1b1f24; font: 13px/1.45 var(--jp-ui-font-family, system-ui, sans-serif); }
@media (prefers-color-scheme: dark) { .kscope-charts { --ks-charts-ink: #e4e7eb; } }
.kscope-charts svg text:not(.hoverlayer text) { fill: currentColor !important; }
.kscope-charts > div + div { margin-top: 14px; }
.kscope-charts .ks-charts-note:empty { display: none; }
"""


def charts_html(recording: Recording, more: Sequence[go.Figure] = ()) -> str:
    """Return time by phase, compile time, queue and execute, and GPU busy as one self-contained fragment of HTML.

    It is 1.5 to 2 MB, nearly all of it plotly.js. Where scripts do not run it says so in a sentence. Further figures,
    such as a roofline's, come below.
    """
    return figures_html([*[each(recording) for each in (
        time_by_phase, compile_time, queue_and_execute, gpu_busy)], *more], recording.notice or "")


def figures_html(figures: Sequence[go.Figure], notice: str = "", *, with_library: bool = True) -> str:
    """Return Plotly figures as one self-contained fragment of HTML that draws itself.

    Parameters
    ----------
    figures : sequence of plotly.graph_objects.Figure
        What to draw, one below the other.
    notice : str
        What must be said about all of them where they cannot be drawn.
    with_library : bool
        Whether plotly.js is in it. Without, another fragment of the page must have it, before this one or after it.
    """
    name = f"ks-charts-{secrets.token_hex(6)}"
    packed, version = _plotly()
    note = f"{notice}. " if notice else ""
    library = f'<script type="text/plain" data-kind="plotly">{packed}</script>' if with_library else ""
    return (
        style_element(_STYLE) +
        f'<div class="kscope-charts" id="{name}" data-plotly="{escape(version)}">'
        f'<div class="ks-charts-note">{escape(note)}The charts need JavaScript: trust this notebook and run the cell '
        "again.</div>"
        f'<script type="application/json" data-kind="figures">{_json([each.to_plotly_json() for each in figures])}'
        "</script>"
        f"{library}</div>"
        f"<script>{_SCRIPT % {'id': _json(name)}}</script>"
    )


@functools.cache
def _plotly() -> tuple[str, str]:
    """Return plotly.js of the installed package as compressed base64 text, and its version."""
    import plotly
    from plotly.offline import get_plotlyjs

    return base64.b64encode(gzip.compress(get_plotlyjs().encode(), mtime=0)).decode("ascii"), plotly.__version__


def _json(value: Any) -> str:
    """Return JSON that cannot close the script element around it."""
    return json.dumps(value).replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
