"""The roofline as a Plotly figure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from kernelscope.features.roofline.model import HEIGHT, LABEL, NOTHING, Panel, Shown, about, decades
from kernelscope.views.base import shorten, wrap
from kernelscope.views.charts import figure_of, label, sentence

if TYPE_CHECKING:
    import plotly.graph_objects as go

#: Panels of a row.
ABREAST = 2
_ROOF = "#7b828c"
_DASHES = {"copy": "solid", "dram": "dash", "l2": "dot", "compute": "solid"}
_ROWS = {"beside": "middle", "above": "top", "below": "bottom"}
_ABOVE, _BELOW, _NOTE = 52, 58, 15
# What a narrow page has room for below two panels, and below one.
_LETTERS, _LETTERS_ALONE = 52, 100
_UNITS = {3: "k", 6: "M", 9: "G", 12: "T", 15: "P"}


#: Where axes are on the figure's width and height, from 0 to 1.
_Domain: TypeAlias = tuple[tuple[float, float], tuple[float, float]]


def roofline_figure(shown: Shown) -> go.Figure:
    """Return the panels side by side, two in a row."""
    title = about(shown) + (f" ({label(shown.notice)})" if shown.notice else "")
    if not shown.panels:
        return sentence("Roofline", NOTHING)
    rows = -(-len(shown.panels) // ABREAST)
    letters = _LETTERS if len(shown.panels) > 1 else _LETTERS_ALONE
    notes = [[line for note in panel.notes for line in wrap(note, letters, hanging=2).split("\n")]
             for panel in shown.panels]
    below = [_BELOW + _NOTE * max(map(len, notes[row * ABREAST:(row + 1) * ABREAST])) for row in range(rows)]
    heights = [_ABOVE + HEIGHT + each for each in below]
    whole = sum(heights)
    figure = figure_of(title, whole + 84)
    figure.update_layout(margin={"l": 8, "r": 16, "t": 34, "b": 50}, hovermode="closest")
    for at, panel in enumerate(shown.panels):
        row, column = divmod(at, ABREAST)
        top = sum(heights[:row])
        abreast = min(len(shown.panels) - row * ABREAST, ABREAST)
        left, right = (0.0, 1.0) if abreast == 1 and len(shown.panels) == 1 else (
            (0.0, 0.46) if not column else (0.54, 1.0))
        upper = 1 - (top + _ABOVE) / whole
        domain = (left, right), (upper - HEIGHT / whole, upper)
        _panel(figure, panel, shown, "" if not at else str(at + 1), domain)
        _head(figure, panel, domain, 10 / whole)
        for place, line in enumerate(notes[at]):
            _text(figure, line, left, domain[1][0] - (50 + _NOTE * place) / whole, 11)
    return figure


def _panel(figure: go.Figure, panel: Panel, shown: Shown, axis: str,
           domain: _Domain) -> None:
    where = {"xaxis": f"x{axis}", "yaxis": f"y{axis}"}
    for roof in panel.roofs:
        is_level = roof.kind == "compute"
        figure.add_scatter(
            x=[roof.start[0], roof.end[0]], y=[roof.start[1], roof.end[1]], mode="lines+text" if is_level else "lines",
            text=["", f"{roof.label}\u2002"] if is_level else None, textposition="top left", textfont={"size": LABEL},
            **where,
            name=roof.label.partition(":")[0], legendgroup=roof.kind, showlegend=not is_level and not axis,
            line={"color": _ROOF, "width": 1.6 if _DASHES[roof.kind] == "solid" else 1.3, "dash": _DASHES[roof.kind]},
            customdata=[label(roof.label)] * 2, hovertemplate="%{customdata}<extra></extra>")
    for dot in panel.dots:
        if dot.roof is not None and dot.roof[1] > dot.flops_per_second:
            figure.add_scatter(x=[dot.roof[0]] * 2, y=[dot.flops_per_second, dot.roof[1]], mode="lines", **where,
                               line={"color": dot.color, "width": 1.2, "dash": "dot"}, showlegend=False,
                               hoverinfo="skip")
        if dot.l2_intensity:
            figure.add_scatter(x=[dot.intensity, dot.l2_intensity], y=[dot.flops_per_second] * 2, mode="lines", **where,
                               line={"color": dot.color, "width": 1}, opacity=0.6, showlegend=False, hoverinfo="skip")
    rings = [dot for dot in panel.dots if dot.l2_intensity]
    for dots, at, symbol, name in ((rings, "l2_intensity", "circle-open", "by bytes of L2"),
                                   (panel.dots, "intensity", "circle", "by bytes of DRAM")):
        if dots:
            figure.add_scatter(
                x=[getattr(dot, at) for dot in dots], y=[dot.flops_per_second for dot in dots], **where,
                mode="markers" if dots is rings else "markers+text", name=name, legendgroup=name,
                showlegend=not axis, text=None if dots is rings else [label(dot.label) for dot in dots],
                textposition=[_position(dot.side) for dot in dots], textfont={"size": LABEL}, cliponaxis=False,
                marker={"color": [dot.color for dot in dots], "size": 7 if dots is rings else 10, "symbol": symbol,
                        "line": {"width": 1.4 if dots is rings else 0}},
                customdata=["<br>".join(map(label, dot.lines)) for dot in dots],
                hovertemplate="%{customdata}<extra></extra>")
    line: dict[str, Any] = {"type": "log", "gridcolor": "rgba(127,127,127,.28)", "linecolor": "rgba(127,127,127,.28)",
                            "zeroline": False, "tickmode": "array", "showline": True, "mirror": True}
    figure.update_layout({
        f"xaxis{axis}": {**line, "anchor": f"y{axis}", "domain": domain[0], "range": shown.x,
                         "title": {"text": "FLOP/byte", "standoff": 4},
                         "tickvals": [10.0 ** each for each in decades(shown.x)],
                         "ticktext": [f"{10.0 ** each:,g}" for each in decades(shown.x)]},
        f"yaxis{axis}": {**line, "anchor": f"x{axis}", "domain": domain[1], "range": shown.y,
                         "title": {"text": "FLOP/s", "standoff": 4}, "automargin": True,
                         "tickvals": [10.0 ** each for each in decades(shown.y)],
                         "ticktext": [tick(each) for each in decades(shown.y)]},
    })


def _position(side: str) -> str:
    row, _, column = side.partition(" ")
    return f"{_ROWS[row]} {column}"


def tick(exponent: int) -> str:
    """Return a power of ten with its prefix: ``100 G``."""
    step = min(max(exponent // 3 * 3, 0), 15)
    return f"{10.0 ** (exponent - step):g} {_UNITS.get(step, '')}".strip()


def _head(figure: go.Figure, panel: Panel, domain: _Domain, line: float) -> None:
    title = shorten(panel.title, _LETTERS if domain[0] != (0.0, 1.0) else _LETTERS_ALONE)
    _text(figure, f"<b>{label(title)}</b>", domain[0][0], domain[1][1] + 3.6 * line, 12, is_markup=True)
    _text(figure, panel.about, domain[0][0], domain[1][1] + 2 * line, 11)


def _text(figure: go.Figure, text: str, x: float, y: float, size: int, *, is_markup: bool = False) -> None:
    figure.add_annotation(text=text if is_markup else label(text), x=x, y=y, xref="paper", yref="paper", xanchor="left",
                          yanchor="top", showarrow=False, align="left", font={"size": size})
