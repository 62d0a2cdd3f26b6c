"""Waterfalls of a launch as Plotly figures: its parts one after the other, and from a baseline to a target."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from kernelscope.errors import StudyArgumentError
from kernelscope.intervals import FASTER, SLOWER
from kernelscope.studies import text as studies_text
from kernelscope.studies.breakdown import LAUNCH, UNATTRIBUTED, AnatomyResult, PartDifference, label_of
from kernelscope.studies.target import shown
from kernelscope.suggestions import did_you_mean
from kernelscope.views.base import clean, shorten
from kernelscope.views.charts import (
    COLORS,
    figure_of,
    kernel_lines,
    labels_of,
    sentence,
)
from kernelscope.views.charts import (
    label as chart_label,
)

if TYPE_CHECKING:
    import plotly.graph_objects as go

KINDS = ("waterfall", "difference")

_LINE_HEIGHT, _AROUND = 27, 130
_FIGURE_NAME_WIDTH = 34
_REST = "rgba(127,127,127,.5)"
_DIFFERENT = {SLOWER: "#d55e00", FASTER: "#009e73"}


def plot(result: AnatomyResult, kind: str = "waterfall", target: str | None = None,
         case: str | None = None) -> go.Figure:
    """Return a figure; `AnatomyResult.plot` describes them.

    Raises
    ------
    StudyError
        There is no figure, target or case of that name.
    """
    if kind not in KINDS:
        raise StudyArgumentError(
            f"no figure {shown(kind)} of an anatomy; known: {', '.join(KINDS)}{did_you_mean(str(kind), KINDS)}")
    labels = [each.label for each in result.measured.targets]
    names = [each.name for each in result.measured.cases]
    if target is not None and target not in labels:
        raise StudyArgumentError(f"no target {shown(target)} was measured; measured: "
                                 f"{', '.join(labels) or 'none'}{did_you_mean(str(target), labels)}")
    if case is not None and case not in names:
        raise StudyArgumentError(f"no case {shown(case)} was measured; measured: "
                                 f"{', '.join(names) or 'none'}{did_you_mean(str(case), names)}")
    case = case if case is not None else next(iter(names), "")
    if kind == "waterfall":
        return waterfall(result, target if target is not None else next(iter(labels), ""), case)
    return difference(result, target if target is not None else next(iter(labels[1:]), ""), case)


def waterfall(result: AnatomyResult, target: str, case: str) -> go.Figure:
    """Return the parts of one target's launch, each from where the one before it ended; at last the whole launch.

    Lines are 95 % intervals of the parts. What is gray is not attributed to a part.
    """
    title = f"Parts of a launch: {_trace_name(target)}, {_trace_name(case)}"
    parts = [each for each in result.of(target, case).values() if each.us is not None]
    if not parts:
        return sentence(title, "Nothing was measured, so there is nothing to show.")
    begun = 0.0
    bars: list[_Bar] = []
    for part in parts:
        us, base = part.us or 0.0, 0.0 if part.key == LAUNCH else begun
        bars.append(_Bar(label_of(part), us, base, _REST if part.key in (UNATTRIBUTED, LAUNCH) else COLORS[0],
                         (part.high_us or 0.0) - us,
                         f"{us:.3f} µs, {(part.share or 0) * 100:.1f} %"
                         f"<br>95 %: {part.low_us:.3f} to {part.high_us:.3f} µs"))
        begun += us
    figure = _figure(result, title, bars, "µs of the host")
    figure.update_xaxes(rangemode="tozero")
    return figure


def difference(result: AnatomyResult, target: str, case: str) -> go.Figure:
    """Return how the launch of a target comes to cost more, or less, than the baseline's: from part to part.

    Lines are intervals that hold for all differences together. Differences that were not seen are gray.
    """
    found = [each for each in result.differences if (each.target, each.case) == (target, case)]
    title = f"Where {_trace_name(target)} differs, {_trace_name(case)}"
    if not found:
        return sentence(title, "No part was compared with another target's, so there is no difference to show.")
    title = f"Where {_trace_name(target)} differs from {_trace_name(found[0].baseline)}, {_trace_name(case)}"
    whole = next(each for each in found if each.label == LAUNCH)
    steps = [(each.label, each.difference_us, each) for each in found if each.label != LAUNCH]
    rest = whole.difference_us - sum(value for _, value, _ in steps)
    rows: list[tuple[str, float, PartDifference | None]] = [*steps, (UNATTRIBUTED, rest, None),
                                                            (LAUNCH, whole.difference_us, whole)]
    begun = 0.0
    bars: list[_Bar] = []
    for name, value, each in rows:
        verdict = each.verdict if each is not None else "what is left over"
        interval = "" if each is None else f"<br>{each.low_us:+.3f} to {each.high_us:+.3f} µs"
        bars.append(_Bar(name, value, 0.0 if name == LAUNCH else begun, _DIFFERENT.get(verdict, _REST),
                         math.inf if each is None else each.high_us - each.difference_us,
                         f"{value:+.3f} µs, {verdict}{interval}"))
        begun += value
    figure = _figure(result, title, bars, "µs more than the baseline")
    figure.update_xaxes(zeroline=True, zerolinewidth=1.5)
    return figure


class _Bar(NamedTuple):
    """One row of a figure: from `base`, `value` long, with a line of `half` to both sides where that is finite."""

    label: str
    value: float
    base: float
    color: str
    half: float
    hover: str


def _figure(result: AnatomyResult, title: str, bars: Sequence[_Bar], unit: str) -> go.Figure:
    messages = chart_label(studies_text.notice(result.measured))
    notice = f"<br><span style='font-size:11px;font-weight:normal'>{messages}</span>"
    figure = figure_of(title + (notice if result.is_dry_run else ""), len(bars) * _LINE_HEIGHT + _AROUND)
    figure.update_layout(bargap=0.35, barmode="overlay", showlegend=False)
    if result.is_dry_run:
        figure.update_layout(margin={"t": 58})
    for place, bar in enumerate(bars):
        line = {"type": "data", "array": [bar.half], "color": "#7b828c", "thickness": 1.2, "width": 3}
        figure.add_bar(
            x=[bar.value], y=[place], base=[bar.base], orientation="h", showlegend=False,
            marker={"color": bar.color, "line": {"width": 0}}, error_x=line if math.isfinite(bar.half) else None,
            customdata=[chart_label(bar.label)], hovertemplate=f"%{{customdata}}<br>{bar.hover}<extra></extra>")
    kernel_lines(figure, labels_of([bar.label for bar in bars]))
    figure.update_xaxes(title={"text": unit, "font": {"size": 12}})
    return figure


def _trace_name(text: str) -> str:
    return chart_label(shorten(clean(text), _FIGURE_NAME_WIDTH))
