"""A study as Plotly figures: intervals by argument count and target, distributions over processes, drift over time.

A figure holds at most 2,000 marks. Its ground is transparent, its ink can be read on white and on black, and labels of
targets and cases are shown literally, whatever they hold.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from kernelscope.analysis.units import counted
from kernelscope.errors import StudyArgumentError
from kernelscope.renderers.figures import label, sentence
from kernelscope.studies.arguments import shown
from kernelscope.studies.figure_parts import (
    LINE,
    Look,
    Study,
    axes,
    cases_of,
    heading,
    looks_of,
    micros,
    named,
    short,
    study_figure,
)
from kernelscope.studies.figures_batches import distributions as distributions
from kernelscope.studies.figures_batches import drift as drift
from kernelscope.studies.judged import FASTER, SLOWER, Difference, Estimate
from kernelscope.suggestions import did_you_mean

if TYPE_CHECKING:
    import plotly.graph_objects as go

TITLE = "Launch overhead"

_FOUND = (FASTER, SLOWER)
_GAP = 0.06
_LINES_HEIGHT = 290
_BETWEEN = 92
_CASE_WIDTH = 28
# Shares of the axis of argument counts: between the marks of two targets, and beside the outermost numbers.
_APART, _EDGE = 0.022, 0.07
# From here on a linear axis shows only the longest case.
_LOG_FROM = 30.0


def plot(result: Study, kind: str = "intervals", **options: Any) -> go.Figure:
    """Return one of a study's figures.

    Parameters
    ----------
    result : StudyResult
        What was measured and judged.
    kind : str
        ``intervals``, ``distributions`` or ``drift``.
    **options
        What that figure takes: ``cases``, the names of those to show.

    Raises
    ------
    StudyError
        There is no figure, or no case, of that name.
    """
    if not isinstance(cast("object", kind), str) or kind not in KINDS:
        raise StudyArgumentError(
            f"no figure {shown(kind)} of a study; known: {', '.join(KINDS)}{did_you_mean(str(kind), KINDS)}")
    wanted = options.get("cases")
    if wanted is not None:
        if not isinstance(wanted, Iterable):
            raise StudyArgumentError(f"cases={shown(wanted)} are no names of cases")
        options["cases"] = wanted = [wanted] if isinstance(wanted, str) else list(cast("Iterable[Any]", wanted))
        known = cases_of(result)
        unknown = [each for each in wanted if each not in known]
        if unknown:
            raise StudyArgumentError(f"no case {shown(unknown[0])} was measured; measured: "
                                     f"{', '.join(known) or 'none'}{did_you_mean(str(unknown[0]), known)}")
    return KINDS[kind](result, **options)


def intervals(result: Study, cases: Sequence[str] | None = None) -> go.Figure:
    """Return what a launch costs, by case and target, and what differs from the baseline.

    On the left are medians in µs a launch with their 95 % intervals; on the right the differences from the baseline
    with the intervals that hold for all of them together, and a line at zero. A hollow mark is a difference that was
    not seen. Cases that differ by the number of arguments are placed by it; others have a row each. Cases that are
    compared with another case of the same target are below.
    """
    shown, looks = cases_of(result, cases), looks_of(result)
    if not shown:
        return sentence(TITLE, "Nothing was measured, so there is nothing to show.")
    by_args = _by_args(result, shown)
    return _lines(result, by_args, looks) if by_args else _rows(result, shown, looks)


KINDS = {"intervals": intervals, "distributions": distributions, "drift": drift}


def _by_args(result: Study, cases: Sequence[str]) -> dict[str, int] | None:
    """The number of arguments of each case, where that tells them apart and they are near to another."""
    counts = {each.name: each.args for each in result.measured.cases if each.name in cases and each.args is not None}
    values = sorted(counts.values())
    is_axis = (len(counts) == len(cases) > 1 and len({*values}) == len(values)
               and values[-1] - values[0] < 3 * len(values))
    return counts if is_axis and not _within(result, cases) else None


def _within(result: Study, cases: Sequence[str]) -> list[Difference]:
    return [each for each in result.differences if each.within and each.case in cases and _is_known(each.percent)]


def _across(result: Study, cases: Sequence[str]) -> list[Difference]:
    return [each for each in result.differences if not each.within and each.case in cases and _is_known(each.percent)]


# ---- By the number of arguments ----


def _lines(result: Study, by_args: Mapping[str, int], looks: Mapping[str, Look]) -> go.Figure:
    differences = _across(result, list(by_args))
    figure = study_figure(f"{TITLE} by number of arguments", _about(result, bool(differences)), _LINES_HEIGHT, looks,
                          result)
    numbers = sorted(by_args.values())
    beside, edges = _beside(numbers, list(looks))
    for target, look in looks.items():
        found = sorted((each for each in result.estimates if each.target == target and each.case in by_args),
                       key=lambda each: by_args[each.case])
        figure.add_scatter(
            x=[by_args[each.case] + beside[target] for each in found], y=[each.median_us for each in found],
            error_y=_bars([_sides(each.median_us, each.low_us, each.high_us) for each in found], look),
            mode="lines+markers", name=look.name, legendgroup=target_key(looks, target), marker=look.marker(),
            line={"color": look.color, "width": 1.6}, customdata=[_estimate_hover(each, look) for each in found],
            hovertemplate="%{customdata}<extra></extra>")
    x: dict[str, Any] = {"title": {"text": "arguments", "standoff": 6, "font": {"size": 12}}, "zeroline": False,
                         "tickmode": "array", "tickvals": numbers, "ticktext": [str(each) for each in numbers],
                         "showgrid": False, "range": edges}
    right = 0.5 + _GAP if differences else 1.0
    axes(figure, 1, {**x, "domain": [0, 0.5 - _GAP / 4 if differences else 1.0]},
         _scale(result, list(by_args)))
    heading(figure, "µs a launch", 0, 1)
    if differences:
        # The baseline takes no room where it has no marks.
        beside, _ = _beside(numbers, [target for target in looks if any(each.target == target for each in differences)])
        for target, look in looks.items():
            found = sorted((each for each in differences if each.target == target), key=lambda each: by_args[each.case])
            _marks(figure, found, look, [by_args[each.case] + beside[target] for each in found], number=2,
                   upright=True, group=target_key(looks, target))
        axes(figure, 2, {**x, "domain": [right, 1]}, _percent_axis())
        heading(figure, _against(differences), right, 1)
    return figure


def _beside(numbers: Sequence[int], targets: Sequence[str]) -> tuple[dict[str, float], list[float]]:
    """How far from its number of arguments each target is drawn, and the ends of the axis.

    Targets lie as near to each other as marks can, and never so far away as to be taken for the next number's.
    """
    step, span = min(later - number for number, later in itertools.pairwise(numbers)), numbers[-1] - numbers[0]
    apart = min(span * _APART, step * 0.6 / max(len(targets), 1))
    middle = (len(targets) - 1) / 2
    edge = span * _EDGE + apart * middle
    return ({target: (place - middle) * apart for place, target in enumerate(targets)},
            [numbers[0] - edge, numbers[-1] + edge])


def _scale(result: Study, cases: Sequence[str]) -> dict[str, Any]:
    """An axis of medians: logarithmic where only the longest would be seen, from zero where that costs little."""
    values = [each.median_us for each in result.estimates if each.case in cases]
    if min(values) > 0 and max(values) > _LOG_FROM * min(values):
        decades = range(math.floor(math.log10(min(values))), math.ceil(math.log10(max(values))) + 1)
        # Not so many that one is written over another.
        ticks = [digit * 10.0**decade for decade in decades for digit in ((1, 2, 5) if len(decades) < 5 else (1,))]
        return {"type": "log", "tickmode": "array", "tickvals": ticks, "ticktext": [f"{each:,g}" for each in ticks]}
    return {"rangemode": "tozero" if min(values) < max(values) / 2 else "normal"}


# ---- By row ----


def _rows(result: Study, cases: Sequence[str], looks: Mapping[str, Look]) -> go.Figure:
    differences, within = _across(result, cases), _within(result, cases)
    pitch = max(28, 13 * len(looks) + 10)
    pairs = list(dict.fromkeys((each.case, each.baseline) for each in within))
    heights = [len(cases) * pitch, len(pairs) * max(pitch, 40)]
    whole = heights[0] + (heights[1] + _BETWEEN if pairs else 0)
    figure = study_figure(TITLE, _about(result, bool(differences or within)), whole, looks, result)
    upper, lower = [1 - heights[0] / whole, 1.0], [0.0, heights[1] / whole]
    _estimate_rows(figure, result, cases, looks, upper, 0.55 if differences else 1.0)
    if differences:
        places = {case: at for at, case in enumerate(cases)}
        for target, look in looks.items():
            found = [each for each in differences if each.target == target]
            _marks(figure, found, look, [places[each.case] + look.shift for each in found], number=2, upright=False,
                   group=target_key(looks, target))
        axes(figure, 2, {**_percent_axis(), "domain": [0.55 + _GAP, 1]},
             {**_row_axis(len(cases)), "showticklabels": False, "domain": upper})
        heading(figure, _against(differences), 0.55 + _GAP, 1)
    if pairs:
        places = {pair: at for at, pair in enumerate(pairs)}
        for target, look in looks.items():
            found = [each for each in within if each.target == target]
            _marks(figure, found, look, [places[each.case, each.baseline] + look.shift for each in found], number=3,
                   upright=False, group=target_key(looks, target))
        texts = [f"{short(case, _CASE_WIDTH)}<br>against {short(against, _CASE_WIDTH)}" for case, against in pairs]
        axes(figure, 3, {**_percent_axis(), "domain": [0, 1]}, {**_row_axis(len(pairs), texts), "domain": lower})
        heading(figure, "% against another case of the same target", 0, lower[1])
    return figure


def _estimate_rows(
    figure: go.Figure, result: Study, cases: Sequence[str], looks: Mapping[str, Look], domain: list[float],
    right: float,
) -> None:
    places = {case: at for at, case in enumerate(cases)}
    for target, look in looks.items():
        found = [each for each in result.estimates if each.target == target and each.case in places]
        figure.add_scatter(
            x=[each.median_us for each in found], y=[places[each.case] + look.shift for each in found],
            error_x=_bars([_sides(each.median_us, each.low_us, each.high_us) for each in found], look), mode="markers",
            name=look.name, legendgroup=target_key(looks, target), marker=look.marker(),
            customdata=[_estimate_hover(each, look) for each in found], hovertemplate="%{customdata}<extra></extra>")
    axes(figure, 1, {**_scale(result, cases), "domain": [0, right]},
         {**_row_axis(len(cases), [short(each, _CASE_WIDTH) for each in cases]), "domain": domain})
    heading(figure, "µs a launch", 0, 1)


def _percent_axis() -> dict[str, Any]:
    return {"zerolinecolor": "#7b828c", "zerolinewidth": 1.6, "ticksuffix": " %", "rangemode": "tozero"}


def _row_axis(count: int, texts: Sequence[str] | None = None) -> dict[str, Any]:
    """Rows from above, named by their place: two may have one name, and names may look like dates."""
    axis: dict[str, Any] = {"range": [count - 0.5, -0.5], "tickmode": "array", "showgrid": False, "zeroline": False,
                            "tickvals": list(range(count)), "ticksuffix": " ", "fixedrange": True,
                            # A line between rows: what belongs to one must not be read as the next one's.
                            "minor": {"tickmode": "array", "tickvals": [at + 0.5 for at in range(count - 1)],
                                      "showgrid": True, "gridcolor": LINE}}
    return axis if texts is None else {**axis, "ticktext": list(texts)}


# ---- Marks and what they say ----


def target_key(looks: Mapping[str, Look], target: str) -> str:
    """Return what ties a target's marks together; not its label, which is the user's text."""
    return f"target {list(looks).index(target)}"


def _marks(
    figure: go.Figure, found: Sequence[Difference], look: Look, places: Sequence[float], *, number: int, upright: bool,
    group: str,
) -> None:
    """Differences with their intervals: hollow where none was seen."""
    if not found:
        return
    values = [each.percent for each in found]
    bars = _bars([_sides(each.percent, each.low_percent, each.high_percent) for each in found], look)
    filled = [each.verdict in _FOUND for each in found]
    marker = look.marker()
    marker |= {"symbol": [look.marker(filled=each)["symbol"] for each in filled],
               "line": {"width": [0 if each else 1.6 for each in filled], "color": look.color}}
    figure.add_scatter(
        x=list(places) if upright else values, y=values if upright else list(places), mode="markers", name=look.name,
        legendgroup=group, showlegend=False, marker=marker, **{"error_y" if upright else "error_x": bars},
        customdata=[_difference_hover(each, look) for each in found], hovertemplate="%{customdata}<extra></extra>",
        **named(number))


def _sides(middle: float, low: float, high: float) -> tuple[float, float]:
    """How far an interval reaches below and above; 0 for what is not known."""
    below, above = middle - low, high - middle
    return (below if math.isfinite(below) and below > 0 else 0.0, above if math.isfinite(above) and above > 0 else 0.0)


def _bars(sides: Sequence[tuple[float, float]], look: Look) -> dict[str, Any]:
    return {"type": "data", "symmetric": False, "arrayminus": [low for low, _ in sides],
            "array": [high for _, high in sides], "color": look.color, "thickness": 1.5, "width": 3}


def _about(result: Study, has_differences: bool) -> list[str]:
    said = ["medians over processes, with 95 % intervals"]
    if has_differences:
        said += ["differences with intervals that hold for all together", "hollow: no difference seen, or too noisy"]
    if result.measured.is_live:
        said.append("one process")
    return said


def _against(differences: Sequence[Difference]) -> str:
    return f"% against {short(differences[0].baseline, 22)}"


def _estimate_hover(each: Estimate, look: Look) -> str:
    interval = (f"95 %: {micros(each.low_us)} to {micros(each.high_us)}" if _is_known(each.low_us, each.high_us)
                else "its interval is not known")
    return "<br>".join((
        f"{look.name}, {short(each.case, _CASE_WIDTH)}", f"median {micros(each.median_us)} a launch", interval,
        f"mean {micros(each.mean_us)} ± {micros(each.sd_us)}",
        f"{counted(each.processes, 'process', 'processes')}, {counted(each.batches, 'batch', 'batches')}"))


def _difference_hover(each: Difference, look: Look) -> str:
    lines = [f"{look.name}, {short(each.case, _CASE_WIDTH)}", f"against {short(each.baseline, _CASE_WIDTH)}:"]
    if _is_known(each.low_percent, each.high_percent):
        lines += [f"{each.percent:+.1f} % ({each.low_percent:+.1f} to {each.high_percent:+.1f} %)",
                  f"{each.difference_us:+.3f} µs ({each.low_us:+.3f} to {each.high_us:+.3f} µs)"]
    else:
        lines += [f"{each.percent:+.1f} %, {each.difference_us:+.3f} µs", "its interval is not known"]
    return "<br>".join([*lines, label(each.verdict), *_folded(each.advice)])


def _is_known(*values: float) -> bool:
    return all(map(math.isfinite, values))


def _folded(text: str, width: int = 60) -> list[str]:
    """A sentence as lines of a hover, which Plotly does not fold."""
    lines: list[str] = []
    for word in label(text).split():
        if lines and len(lines[-1]) + len(word) < width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines
