"""Where compile time went, as a Plotly figure: `kernelscope.charts.compile_time`.

Bars, and not an icicle of session, kernel, specialization and pass: that one was tried, and beyond some ten kernels its
labels cannot be read, while bars of one scale compare at a glance.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from kernelscope.analysis.compile_time import OTHER, WAIT, CompileTime, compile_times, total_parts
from kernelscope.analysis.units import counted, duration, percent
from kernelscope.recording.model import Recording
from kernelscope.recording.privacy import shareable
from kernelscope.renderers.figures import (
    MOST_KERNELS,
    UNSPLIT,
    figure_of,
    label,
    labels_of,
    sentence,
    unit_of,
)

if TYPE_CHECKING:
    import plotly.graph_objects as go

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

    Disk-cache loads and modules loaded later are in it. Link is without the lto inside it, and a pass is with the
    pipelines of device functions that ran inside it, so that the parts of a bar add up to the compiles' time; *other*
    is what no pass and no phase accounts for. Of the kernels, the 20 that took longest are shown.
    """
    title = "Compile time, by kernel and part"
    recording = shareable(recording)
    times = [each for each in compile_times(recording) if each.duration_ns]
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
    """Kernels with their compiles, longest first."""
    names = [str(row["name"]) for row in recording.rows("dispatchers")]
    found: dict[int | None, list[CompileTime]] = {}
    for each in times:
        found.setdefault(each.dispatcher_id, []).append(each)
    order = sorted(found, key=lambda at: -sum(each.duration_ns for each in found[at]))
    labels = labels_of(["modules of unknown kernels" if at is None else names[at] for at in order])
    return [(text, found[at]) for text, at in zip(labels, order, strict=True)]


def _passes(times: Iterable[CompileTime], most: int | None = MOST_PASSES) -> list[tuple[str, int]]:
    """Numba's passes over all compiles, longest first; those beyond `most` are one."""
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
    """A stacked bar a row, of compiles by part; the first one's colors are the legend's."""
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
    """Where the parts are, from above, with a gap between them for an axis; and how high they are together."""
    whole = sum(lines) * _LINE_HEIGHT + _GAP * (sum(map(bool, lines)) - 1)
    top = 0
    domains: list[list[float]] = []
    for each in lines:
        bottom = min(top + each * _LINE_HEIGHT, whole)
        domains.append([1 - bottom / whole, 1 - min(top, bottom) / whole])
        top = bottom + _GAP
    return domains, whole
