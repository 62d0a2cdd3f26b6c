"""Waterfalls of a launch, as Plotly figures: its parts one after the other, and from a baseline to a target."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from kernelscope.errors import StudyArgumentError
from kernelscope.renderers.base import clean, shorten
from kernelscope.renderers.figures import COLORS, figure_of, kernel_lines, label, labels_of, sentence
from kernelscope.studies import words
from kernelscope.studies.anatomy_parts import LAUNCH, UNATTRIBUTED, PartDifference
from kernelscope.studies.anatomy_result import AnatomyResult
from kernelscope.studies.anatomy_text import label_of
from kernelscope.studies.arguments import shown
from kernelscope.studies.judged import FASTER, SLOWER
from kernelscope.suggestions import did_you_mean

if TYPE_CHECKING:
    import plotly.graph_objects as go

KINDS = ("waterfall", "difference")

_LINE_HEIGHT, _AROUND = 27, 130
_NAME_WIDTH = 34
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
    title = f"Parts of a launch: {_name(target)}, {_name(case)}"
    parts = [each for each in result.of(target, case).values() if each.us is not None]
    if not parts:
        return sentence(title, "Nothing was measured, so there is nothing to show.")
    figure = _figure(result, title, len(parts))
    begun = 0.0
    for place, part in enumerate(parts):
        us = part.us or 0.0
        base = 0.0 if part.key == LAUNCH else begun
        figure.add_bar(
            x=[us], y=[place], base=[base], orientation="h", showlegend=False,
            marker={"color": _REST if part.key in (UNATTRIBUTED, LAUNCH) else COLORS[0], "line": {"width": 0}},
            error_x=_error((part.high_us or 0.0) - us), customdata=[label(label_of(part))],
            hovertemplate=f"%{{customdata}}<br>{us:.3f} µs, {(part.share or 0) * 100:.1f} %"
                          f"<br>95 %: {part.low_us:.3f} to {part.high_us:.3f} µs<extra></extra>")
        begun += us
    kernel_lines(figure, labels_of([label_of(each) for each in parts]))
    figure.update_xaxes(title={"text": "µs of the host", "font": {"size": 12}}, rangemode="tozero")
    return figure


def difference(result: AnatomyResult, target: str, case: str) -> go.Figure:
    """Return how the launch of a target comes to cost more, or less, than the baseline's: from part to part.

    Lines are intervals that hold for all differences together. Differences that were not seen are gray.
    """
    found = [each for each in result.differences if (each.target, each.case) == (target, case)]
    title = f"Where {_name(target)} differs, {_name(case)}"
    if not found:
        return sentence(title, "No part was compared with another target's, so there is no difference to show.")
    title = f"Where {_name(target)} differs from {_name(found[0].baseline)}, {_name(case)}"
    whole = next(each for each in found if each.label == LAUNCH)
    steps = [(each.label, each.difference_us, each) for each in found if each.label != LAUNCH]
    rest = whole.difference_us - sum(value for _, value, _ in steps)
    rows: list[tuple[str, float, PartDifference | None]] = [*steps, (UNATTRIBUTED, rest, None),
                                                            (LAUNCH, whole.difference_us, whole)]
    figure = _figure(result, title, len(rows))
    begun = 0.0
    for place, (name, value, each) in enumerate(rows):
        base = 0.0 if name == LAUNCH else begun
        verdict = each.verdict if each is not None else "what is left over"
        interval = "" if each is None else f"<br>{each.low_us:+.3f} to {each.high_us:+.3f} µs"
        figure.add_bar(
            x=[value], y=[place], base=[base], orientation="h", showlegend=False,
            marker={"color": _DIFFERENT.get(verdict, _REST), "line": {"width": 0}},
            error_x=None if each is None else _error(each.high_us - each.difference_us),
            customdata=[label(name)],
            hovertemplate=f"%{{customdata}}<br>{value:+.3f} µs, {verdict}{interval}<extra></extra>")
        begun += value
    kernel_lines(figure, labels_of([name for name, _, _ in rows]))
    figure.update_xaxes(title={"text": "µs more than the baseline", "font": {"size": 12}}, zeroline=True,
                        zerolinewidth=1.5)
    return figure


def _figure(result: AnatomyResult, title: str, rows: int) -> go.Figure:
    notice = f"<br><span style='font-size:11px;font-weight:normal'>{label(words.notice(result.measured))}</span>"
    figure = figure_of(title + (notice if result.is_dry_run else ""), rows * _LINE_HEIGHT + _AROUND)
    figure.update_layout(bargap=0.35, barmode="overlay", showlegend=False)
    if result.is_dry_run:
        figure.update_layout(margin={"t": 58})
    return figure


def _error(half: float) -> dict[str, object] | None:
    """A line of half an interval to both sides; none for one process, which has no interval."""
    if not math.isfinite(half):
        return None
    return {"type": "data", "array": [half], "color": "#7b828c", "thickness": 1.2, "width": 3}


def _name(text: str) -> str:
    return label(shorten(clean(text), _NAME_WIDTH))
