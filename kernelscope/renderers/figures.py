"""What Plotly figures share: their ground, their ink, a line a kernel, labels that are shown literally."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any

from kernelscope.renderers.base import clean, shorten

if TYPE_CHECKING:
    import plotly.graph_objects as go

#: As many kernels as a chart has lines for; the others are one line together, or left out.
MOST_KERNELS = 20
#: As many marks as Plotly draws without being slow.
MOST_MARKS = 2_000
#: What is drawn of one color by device, and what no color says more of.
COLORS = ("#2b7bba", "#e69f00", "#5bbcea", "#c66fa0", "#8a8f98")
UNSPLIT = "rgba(127,127,127,.45)"

_INK, _LINE = "#7b828c", "rgba(127,127,127,.28)"
_NAME_WIDTH = 44


def label(name: str) -> str:
    """Return a name as Plotly shows it literally: neither its HTML nor MathJax's formulas are taken for such."""
    return html.escape(clean(name), quote=False).replace("$", "&#36;")


def figure_of(title: str, height: int) -> go.Figure:
    """Return an empty figure with a transparent ground and ink that can be read on white and on black."""
    from kernelscope.renderers.notebook_figure import NotebookFigure

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


def sentence(title: str, text: str) -> go.Figure:
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
