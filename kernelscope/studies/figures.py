"""A study as Plotly figures: intervals, distributions over processes, drift, and batches over time."""

from __future__ import annotations

import functools
import itertools
import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from kernelscope.errors import StudyArgumentError
from kernelscope.intervals import FASTER, SLOWER
from kernelscope.studies.card import color_of
from kernelscope.studies.result import Difference, Estimate, Measured, StudyResult
from kernelscope.studies.statistics import counting
from kernelscope.studies.target import shown
from kernelscope.suggestions import did_you_mean
from kernelscope.units import counted
from kernelscope.views.base import clean, shorten
from kernelscope.views.charts import MOST_MARKS, figure_of, label, sentence, unit_of

if TYPE_CHECKING:
    import plotly.graph_objects as go


#: Beside colors, for those who cannot tell them apart, and for more targets than colors. Each has an open twin.
SYMBOLS = ("circle", "diamond", "square", "triangle-up", "cross", "triangle-down", "hexagon", "star", "x")
#: What is drawn of grid and frames.
LINE = "rgba(127,127,127,.28)"

_NAME_WIDTH = 26
# What a page's width leaves for a figure, in pixels; only the height of the legend is reckoned from it.
_WIDTH = 760
_LETTER = 7.2
_LETTERS = 104
_LEGEND_LINE = 21
_DRY_RUN = "dry run: the driver call is a stub"


@dataclass(frozen=True)
class Look:
    """The color and symbol of a target.

    Attributes
    ----------
    name : str
        Its label, as Plotly shows it literally.
    color, symbol : str
        As Plotly has them.
    shift : float
        Where it is drawn beside the other targets, in the space of one row or argument count: from -0.5 to 0.5.
    """

    name: str
    color: str
    symbol: str
    shift: float

    def marker(self, *, filled: bool = True, size: float = 8) -> dict[str, Any]:
        """Return Plotly's marker; a hollow one where it is not `filled`."""
        symbol = self.symbol if filled else f"{self.symbol}-open"
        return {"color": self.color, "symbol": symbol, "size": size, "line": {"width": 0 if filled else 1.6}}


def looks_of(result: StudyResult, spread: float = 0.62) -> dict[str, Look]:
    """Return how each target that was measured is drawn, by its label and in the study's order."""
    known = [each.label for each in result.measured.targets]
    present = {each.target for each in result.estimates}
    shown = [each for each in known if each in present] + sorted(present - {*known})
    # A target keeps its color where another one failed.
    places = {name: at for at, name in enumerate([*known, *sorted(present - {*known})])}
    step = spread / max(len(shown), 1)
    return {
        name: Look(short(name), color_of(places[name]),
                   SYMBOLS[places[name] % len(SYMBOLS)], (at - (len(shown) - 1) / 2) * step)
        for at, name in enumerate(shown)
    }


def cases_of(result: StudyResult, wanted: Sequence[str] | None = None) -> list[str]:
    """Return the cases that were measured, in the order of the tables; of those that are `wanted`."""
    present = {each.case for each in result.estimates}
    known = [each.name for each in result.measured.cases if each.name in present]
    known += sorted(present - {*known})
    return known if wanted is None else [each for each in known if each in wanted]


def study_figure(
    title: str, about: Iterable[str], height: int, looks: Mapping[str, Look], result: StudyResult, *,
    has_legend: bool = True,
) -> go.Figure:
    """Return an empty figure with what is shown said below its title, and with room for the legend.

    `height` is that of the axes, in pixels.
    """
    lines = _joined([*about, *([_DRY_RUN] if result.measured.is_dry_run else [])])
    has_legend = has_legend and len(looks) > 1
    top, bottom = 56 + 15 * len(lines), 50 + (legend_height(looks) if has_legend else 0)
    figure = figure_of(title, height + top + bottom)
    small = "".join(f'<br><span style="font-size:11px">{label(line)}</span>' for line in lines)
    figure.update_layout(title_text=f"<b>{label(title)}</b>{small}", margin={"t": top, "b": bottom},
                         showlegend=has_legend)
    # Plotly aligns the middle of several lines where it would align one.
    figure.update_layout(title_pad_t=20)
    return figure


def _joined(notes: Iterable[str]) -> list[str]:
    """Return the lines, joined as far as they fit on a narrow page."""
    lines: list[str] = []
    for each in notes:
        if lines and len(lines[-1]) + len(each) < _LETTERS:
            lines[-1] += f"; {each}"
        else:
            lines.append(each)
    return lines


def legend_height(looks: Mapping[str, Look]) -> int:
    """Return how many pixels the legend takes at the width of a narrow page."""
    if len(looks) < 2:
        return 0
    widest = max(len(each.name) for each in looks.values()) * _LETTER + 44
    a_line = max(int(_WIDTH // widest), 1)
    return math.ceil(len(looks) / a_line) * _LEGEND_LINE


@functools.lru_cache(1000)
def short(name: str, width: int = _NAME_WIDTH) -> str:
    """Return a name cut to a label's width, as Plotly shows it literally."""
    return label(shorten(clean(name), width))


def axes(figure: go.Figure, number: int, x: Mapping[str, Any], y: Mapping[str, Any]) -> None:
    """Lay out the axes of one part of a figure, numbered from 1."""
    at = "" if number == 1 else str(number)
    shared = {"gridcolor": LINE, "zerolinecolor": LINE, "linecolor": LINE, "automargin": True}
    figure.update_layout({f"xaxis{at}": {**shared, "anchor": f"y{at}", **x},
                          f"yaxis{at}": {**shared, "anchor": f"x{at}", **y}})


def named(number: int) -> dict[str, str]:
    """Return which axes a trace of part `number` is drawn on."""
    return {"xaxis": f"x{number}" if number > 1 else "x", "yaxis": f"y{number}" if number > 1 else "y"}


def heading(figure: go.Figure, text: str, x: float, y: float) -> None:
    """Write a part's name above its upper left corner, at a place of the paper."""
    figure.add_annotation(text=f"<b>{text}</b>", x=x, y=y, xref="paper", yref="paper", xanchor="left",
                          yanchor="bottom", showarrow=False, font={"size": 11.5}, yshift=2)


#: Batches that count, by target and case, then by process: since the study's start in ns, and microseconds a launch.
Batches = dict[tuple[str, str], dict[int, list[tuple[float, float]]]]


def batches_of(measured: Measured) -> Batches:
    """Return the batches that count, in the order of time."""
    found: Batches = {}
    for target, case, process, _, _, start_ns, loops, host_ns, *_ in counting(measured):
        if loops:
            found.setdefault((target, case), {}).setdefault(process, []).append((start_ns, host_ns / loops / 1_000))
    return {key: {process: sorted(batches) for process, batches in sorted(by_process.items())}
            for key, by_process in found.items()}


def micros(value: float) -> str:
    """Return microseconds with the digits that count: ``4.10 µs``, ``123 µs``."""
    return f"{value:.{2 if abs(value) < 99.5 else 1 if abs(value) < 999.5 else 0}f} µs"


# What a study's verdicts rest on, as Plotly figures.

#: As many cases as a figure has parts for, unless cases are named.
MOST_CASES = 12

_BATCHES_WIDTH = 34
_NARROW = 22
_BATCHES_BETWEEN = 66
_DRIFT_HEIGHT = 150
# Batches that took longer than so many deviations above their median are drawn at the upper edge: one that was
# interrupted would press all others into a line.
_DEVIATIONS = 8.0
_LEAST_MARGIN = 0.1


def distributions(result: StudyResult, cases: Sequence[str] | None = None) -> go.Figure:
    """Return how processes of a target differ: a point a process, the median of its batches, over a box of quartiles.

    Each case is a part of its own, with its own scale. Processes are what intervals are made from: batches of one
    process are more alike than processes are. Of more than 12 cases the first ones are shown, unless `cases` names
    others.
    """
    title = "Launch overhead, by process"
    shown, more = _shown(result, cases)
    looks, batches = looks_of(result), batches_of(result.measured)
    if not shown or not batches:
        return sentence(title, "Nothing was measured, so there is nothing to show.")
    height = max(len(looks) * 26 + 14, 60)
    about = ["a point is a process: the median of its batches, in µs a launch", *more]
    # Each row has its target's name, which a legend would only repeat.
    figure, parts = _grid(title, about, shown, looks, result, height, has_legend=False)
    points = sum(len(batches.get((target, case), ())) for case in shown for target in looks)
    is_few = points + len(shown) * len(looks) <= MOST_MARKS
    for number, case, domain in parts:
        for place, (target, look) in enumerate(looks.items()):
            if (target, case) in batches:
                _strip(figure, batches[target, case], look, place, case, number, with_points=is_few)
        labels = [each.name for each in looks.values()] if not domain[0] else [""] * len(looks)
        axes(figure, number, {"domain": domain[:2], "nticks": 5},
             {"domain": domain[2:], "range": [len(looks) - 0.5, -0.5], "tickmode": "array", "showgrid": False,
              "tickvals": list(range(len(looks))), "ticktext": labels, "ticksuffix": " ", "zeroline": False})
    figure.update_layout(boxmode="overlay")
    return figure


def drift(result: StudyResult, cases: Sequence[str] | None = None) -> go.Figure:
    """Return the batches that count over the time of the study, by target: what hits all alike is the machine's.

    Each case is a part of its own. Where there are more than 2,000 batches, a mark is the median of as many that
    follow each other in a process, or of as many processes, as it takes. What lies far above the others is marked at
    the upper edge.
    """
    title = "Launch overhead over the study's time"
    shown, more = _shown(result, cases)
    looks, batches = looks_of(result), batches_of(result.measured)
    if not shown or not batches:
        return sentence(title, "Nothing was measured, so there is nothing to show.")
    what, drawn = _thinned({key: each for key, each in batches.items() if key[0] in looks and key[1] in shown})
    last = max(at for marks in drawn.values() for at, _ in marks)
    scale, unit = unit_of(last)
    quiet = " at quiet moments" if result.measured.host.get("quiet") is not None else ""
    figure, parts = _grid(title, [f"a mark is {what}{quiet}, in µs a launch; triangles lie above", *more], shown, looks,
                          result, _DRIFT_HEIGHT)
    in_legend: set[str] = set()
    for number, case, domain in parts:
        limit = _limit([[us for _, us in drawn[target, case]] for target in looks if (target, case) in drawn])
        for at, (target, look) in enumerate(looks.items()):
            if (target, case) not in drawn:
                continue
            marks = drawn[target, case]
            symbols = ["triangle-up-open" if us > limit else look.symbol for _, us in marks]
            figure.add_scatter(
                x=[start / scale for start, _ in marks], y=[min(us, limit) for _, us in marks], mode="markers",
                name=look.name, legendgroup=f"target {at}", showlegend=target not in in_legend,
                marker={"color": look.color, "symbol": symbols, "size": 5, "opacity": 0.75},
                customdata=[f"{look.name}, {short(case, _BATCHES_WIDTH)}<br>"
                            f"at {start / scale:,.3g} {unit}: {micros(us)}"
                            for start, us in marks],
                hovertemplate="%{customdata}<extra></extra>", **named(number))
            in_legend.add(target)
        axes(figure, number,
             {"domain": domain[:2], "range": [-0.02 * last / scale, 1.02 * last / scale], "tickangle": 0,
              "nticks": 5 if unit == "s" else 3, "ticksuffix": f" {unit}", "zeroline": False},
             {"domain": domain[2:], "nticks": 6})
    figure.update_layout(legend_itemsizing="constant")
    return figure


def _shown(result: StudyResult, cases: Sequence[str] | None) -> tuple[list[str], list[str]]:
    """Return the cases to show, and a note on the others."""
    known = cases_of(result, cases)
    if cases is not None or len(known) <= MOST_CASES:
        return known, []
    return known[:MOST_CASES], [f"the first {MOST_CASES} of {len(known)} cases"]


def _grid(
    title: str, about: Sequence[str], cases: Sequence[str], looks: Mapping[str, Look], result: StudyResult, height: int,
    *, has_legend: bool = True,
) -> tuple[go.Figure, Iterator[tuple[int, str, list[float]]]]:
    """Return a figure with a subplot for each case, and their numbers and places: left, right, bottom, top."""
    columns = 1 if len(cases) == 1 else 2 if len(cases) in (2, 4) else 3
    lines = math.ceil(len(cases) / columns)
    whole = lines * height + (lines - 1) * _BATCHES_BETWEEN
    figure = study_figure(title, about, whole, looks, result, has_legend=has_legend)
    gap = 0.075 if columns == 3 else 0.05  # room for numbers like 0.19 where the figure is 600 pixels wide
    width = (1 - gap * (columns - 1)) / columns

    def parts() -> Iterator[tuple[int, str, list[float]]]:
        for at, case in enumerate(cases):
            line, column = divmod(at, columns)
            top = 1 - line * (height + _BATCHES_BETWEEN) / whole
            left = column * (width + gap)
            heading(figure, short(case, _NARROW if columns == 3 else _BATCHES_WIDTH), left, top)
            yield at + 1, case, [left, min(left + width, 1), max(top - height / whole, 0), top]

    return figure, parts()


def _strip(
    figure: go.Figure, processes: Mapping[int, Sequence[tuple[float, float]]], look: Look, place: int, case: str,
    number: int, *, with_points: bool,
) -> None:
    """Add a target's box and its points."""
    values = [statistics.median(us for _, us in batches) for batches in processes.values()]
    low, middle, high = (statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3)
    red, green, blue = (int(look.color[at:at + 2], 16) for at in (1, 3, 5))
    figure.add_box(
        y=[place], lowerfence=[min(values)], q1=[low], median=[middle], q3=[high], upperfence=[max(values)],
        name=look.name, orientation="h", width=0.62, marker={"color": look.color}, line={"width": 1.3},
        fillcolor=f"rgba({red},{green},{blue},.16)", hoverinfo="skip", whiskerwidth=0, **named(number))
    if with_points:
        # Spread by the golden ratio: evenly, and the same in every drawing.
        y = [place + ((process * 0.618034) % 1 - 0.5) * 0.5 for process in processes]
        hover = [f"{look.name}, {short(case, _BATCHES_WIDTH)}<br>process {process}: {micros(us)}"
                 for process, us in zip(processes, values, strict=True)]
        figure.add_scatter(x=values, y=y, mode="markers", name=look.name, customdata=hover,
                           marker={"color": look.color, "symbol": look.symbol, "size": 5, "opacity": 0.85},
                           hovertemplate="%{customdata}<extra></extra>", **named(number))


def _thinned(batches: Batches) -> tuple[str, dict[tuple[str, str], list[tuple[float, float]]]]:
    """Return what one mark stands for, and at most 2,000 marks: time and µs a launch."""
    processes = [each for of in batches.values() for each in of.values()]
    together = 1
    if len(processes) <= MOST_MARKS:
        while sum(math.ceil(len(each) / together) for each in processes) > MOST_MARKS:
            together += 1
        what = "a batch" if together == 1 else f"the median of {together} batches"
        return what, {key: [mark for each in of.values() for mark in _medians(each, together)]
                      for key, of in batches.items()}
    while sum(math.ceil(len(of) / together) for of in batches.values()) > MOST_MARKS:
        together += 1
    return f"the median of {together} processes", {
        key: _medians([_medians(each, len(each))[0] for each in of.values()], together) for key, of in batches.items()}


def _medians(marks: Sequence[tuple[float, float]], together: int) -> list[tuple[float, float]]:
    """Return groups of successive marks as one mark each: their mean time and their median."""
    parts = [marks[at:at + together] for at in range(0, len(marks), together)]
    return [(statistics.fmean(at for at, _ in part), statistics.median(us for _, us in part)) for part in parts]


def _limit(targets: Sequence[Sequence[Any]]) -> float:
    """Return the upper edge: what is above it is drawn there."""
    highest = 0.0
    for values in targets:
        middle = statistics.median(values)
        deviation = 1.4826 * statistics.median(abs(value - middle) for value in values)
        highest = max(highest, middle + max(_DEVIATIONS * deviation, _LEAST_MARGIN * middle))
    return highest


# A study as Plotly figures: intervals by argument count and target, distributions over processes, drift over time.
#
# A figure holds at most 2,000 marks. Its ground is transparent, its ink can be read on white and on black, and labels
# of targets and cases are shown literally, whatever they hold.

TITLE = "Launch overhead"

_FOUND = (FASTER, SLOWER)
_GAP = 0.06
_LINES_HEIGHT = 290
_BETWEEN = 92
_FIGURE_CASE_WIDTH = 28
# Shares of the axis of argument counts: between the marks of two targets, and beside the outermost numbers.
_APART, _EDGE = 0.022, 0.07
# From here on a linear axis shows only the longest case.
_LOG_FROM = 30.0


def plot(result: StudyResult, kind: str = "intervals", **options: Any) -> go.Figure:
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


def intervals(result: StudyResult, cases: Sequence[str] | None = None) -> go.Figure:
    """Return what a launch costs, by case and target, and what differs from the baseline.

    On the left are medians in µs a launch with their 95 % intervals; on the right the differences from the baseline
    with the intervals that hold for all of them together, and a line at zero. A hollow mark is a difference that was
    not seen. Cases that differ by the number of arguments are placed by it; others have a row each. Cases that are
    compared with another case of the same target are below.
    """
    shown, looks = cases_of(result, cases), looks_of(result)
    if not shown:
        return sentence(TITLE, "Nothing was measured, so there is nothing to show.")
    # The number of arguments of each case; empty where these are not unique or far from each other.
    counts = {each.name: each.args for each in result.measured.cases if each.name in shown and each.args is not None}
    values = sorted(counts.values())
    is_axis = (len(counts) == len(shown) > 1 and len({*values}) == len(values)
               and values[-1] - values[0] < 3 * len(values))
    by_args = counts if is_axis and not _within(result, shown) else None
    return _lines(result, by_args, looks) if by_args else _rows(result, shown, looks)


KINDS = {"intervals": intervals, "distributions": distributions, "drift": drift}


def _within(result: StudyResult, cases: Sequence[str]) -> list[Difference]:
    return [each for each in result.differences if each.within and each.case in cases and _is_known(each.percent)]


def _across(result: StudyResult, cases: Sequence[str]) -> list[Difference]:
    return [each for each in result.differences if not each.within and each.case in cases and _is_known(each.percent)]


# ---- By the number of arguments ----


def _lines(result: StudyResult, by_args: Mapping[str, int], looks: Mapping[str, Look]) -> go.Figure:
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
    """Return the offset of each target from its number of arguments, and the ends of the axis.

    Targets lie as near to each other as marks can, and never so far away as to be taken for the next number's.
    """
    step, span = min(later - number for number, later in itertools.pairwise(numbers)), numbers[-1] - numbers[0]
    apart = min(span * _APART, step * 0.6 / max(len(targets), 1))
    middle = (len(targets) - 1) / 2
    edge = span * _EDGE + apart * middle
    return ({target: (place - middle) * apart for place, target in enumerate(targets)},
            [numbers[0] - edge, numbers[-1] + edge])


def _scale(result: StudyResult, cases: Sequence[str]) -> dict[str, Any]:
    """Return an axis of medians: logarithmic for a wide range of values, from zero where that needs little space."""
    values = [each.median_us for each in result.estimates if each.case in cases]
    if min(values) > 0 and max(values) > _LOG_FROM * min(values):
        decades = range(math.floor(math.log10(min(values))), math.ceil(math.log10(max(values))) + 1)
        # Not so many that one is written over another.
        ticks = [digit * 10.0**decade for decade in decades for digit in ((1, 2, 5) if len(decades) < 5 else (1,))]
        return {"type": "log", "tickmode": "array", "tickvals": ticks, "ticktext": [f"{each:,g}" for each in ticks]}
    return {"rangemode": "tozero" if min(values) < max(values) / 2 else "normal"}


# ---- By row ----


def _rows(result: StudyResult, cases: Sequence[str], looks: Mapping[str, Look]) -> go.Figure:
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
        texts = [f"{short(case, _FIGURE_CASE_WIDTH)}<br>against {short(against, _FIGURE_CASE_WIDTH)}"
                 for case, against in pairs]
        axes(figure, 3, {**_percent_axis(), "domain": [0, 1]}, {**_row_axis(len(pairs), texts), "domain": lower})
        heading(figure, "% against another case of the same target", 0, lower[1])
    return figure


def _estimate_rows(
    figure: go.Figure, result: StudyResult, cases: Sequence[str], looks: Mapping[str, Look], domain: list[float],
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
         {**_row_axis(len(cases), [short(each, _FIGURE_CASE_WIDTH) for each in cases]), "domain": domain})
    heading(figure, "µs a launch", 0, 1)


def _percent_axis() -> dict[str, Any]:
    return {"zerolinecolor": "#7b828c", "zerolinewidth": 1.6, "ticksuffix": " %", "rangemode": "tozero"}


def _row_axis(count: int, texts: Sequence[str] | None = None) -> dict[str, Any]:
    """Return an axis of rows from the top, by index: two may have the same name, and names may look like dates."""
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
    """Add differences with their intervals, with hollow marks where no difference was seen."""
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
    """Return how far an interval reaches below and above; 0 where that is not known."""
    below, above = middle - low, high - middle
    return (below if math.isfinite(below) and below > 0 else 0.0, above if math.isfinite(above) and above > 0 else 0.0)


def _bars(sides: Sequence[tuple[float, float]], look: Look) -> dict[str, Any]:
    return {"type": "data", "symmetric": False, "arrayminus": [low for low, _ in sides],
            "array": [high for _, high in sides], "color": look.color, "thickness": 1.5, "width": 3}


def _about(result: StudyResult, has_differences: bool) -> list[str]:
    notes = ["medians over processes, with 95 % intervals"]
    if has_differences:
        notes += ["differences with intervals that hold for all together", "hollow: no difference seen, or too noisy"]
    if result.measured.is_live:
        notes.append("one process")
    return notes


def _against(differences: Sequence[Difference]) -> str:
    return f"% against {short(differences[0].baseline, 22)}"


def _estimate_hover(each: Estimate, look: Look) -> str:
    interval = (f"95 %: {micros(each.low_us)} to {micros(each.high_us)}" if _is_known(each.low_us, each.high_us)
                else "its interval is not known")
    return "<br>".join((
        f"{look.name}, {short(each.case, _FIGURE_CASE_WIDTH)}", f"median {micros(each.median_us)} a launch", interval,
        f"mean {micros(each.mean_us)} ± {micros(each.sd_us)}",
        f"{counted(each.processes, 'process', 'processes')}, {counted(each.batches, 'batch', 'batches')}"))


def _difference_hover(each: Difference, look: Look) -> str:
    lines = [f"{look.name}, {short(each.case, _FIGURE_CASE_WIDTH)}",
             f"against {short(each.baseline, _FIGURE_CASE_WIDTH)}:"]
    if _is_known(each.low_percent, each.high_percent):
        lines += [f"{each.percent:+.1f} % ({each.low_percent:+.1f} to {each.high_percent:+.1f} %)",
                  f"{each.difference_us:+.3f} µs ({each.low_us:+.3f} to {each.high_us:+.3f} µs)"]
    else:
        lines += [f"{each.percent:+.1f} %, {each.difference_us:+.3f} µs", "its interval is not known"]
    return "<br>".join([*lines, label(each.verdict), *_folded(each.advice)])


def _is_known(*values: float) -> bool:
    return all(map(math.isfinite, values))


def _folded(text: str, width: int = 60) -> list[str]:
    """Return a sentence wrapped for a hover text, which Plotly does not wrap."""
    lines: list[str] = []
    for word in label(text).split():
        if lines and len(lines[-1]) + len(word) < width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines
