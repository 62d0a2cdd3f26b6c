"""What a study's verdicts rest on, as Plotly figures: the values of processes, and batches over the study's time."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kernelscope.renderers.figures import MOST_MARKS, sentence, unit_of
from kernelscope.studies.figure_parts import (
    Look,
    Samples,
    Study,
    axes,
    cases_of,
    heading,
    looks_of,
    micros,
    named,
    samples_of,
    short,
    study_figure,
)

if TYPE_CHECKING:
    import plotly.graph_objects as go

#: As many cases as a figure has parts for, unless cases are named.
MOST_CASES = 12

_CASE_WIDTH = 34
_NARROW = 22
_BETWEEN = 66
_DRIFT_HEIGHT = 150
# Batches that took longer than so many deviations above their median are drawn at the upper edge: one that was
# interrupted would press all others into a line.
_DEVIATIONS = 8.0
_LEAST_MARGIN = 0.1


def distributions(result: Study, cases: Sequence[str] | None = None) -> go.Figure:
    """Return how processes of a target differ: a point a process, the median of its batches, over a box of quartiles.

    Each case is a part of its own, with its own scale. Processes are what intervals are made from: batches of one
    process are more alike than processes are. Of more than 12 cases the first ones are shown, unless `cases` names
    others.
    """
    title = "Launch overhead, by process"
    shown, more = _shown(result, cases)
    looks, samples = looks_of(result), samples_of(result.measured)
    if not shown or not samples:
        return sentence(title, "Nothing was measured, so there is nothing to show.")
    height = max(len(looks) * 26 + 14, 60)
    about = ["a point is a process: the median of its batches, in µs a launch", *more]
    # Each row has its target's name, which a legend would only repeat.
    figure, parts = _grid(title, about, shown, looks, result, height, has_legend=False)
    points = sum(len(samples[target, case].us) for case in shown for target in looks if (target, case) in samples)
    is_few = points + len(shown) * len(looks) <= MOST_MARKS
    for number, case, domain in parts:
        for place, (target, look) in enumerate(looks.items()):
            if (target, case) in samples:
                _strip(figure, samples[target, case], look, place, case, number, with_points=is_few)
        labels = [each.name for each in looks.values()] if not domain[0] else [""] * len(looks)
        axes(figure, number, {"domain": domain[:2], "nticks": 5},
             {"domain": domain[2:], "range": [len(looks) - 0.5, -0.5], "tickmode": "array", "showgrid": False,
              "tickvals": list(range(len(looks))), "ticktext": labels, "ticksuffix": " ", "zeroline": False})
    figure.update_layout(boxmode="overlay")
    return figure


def drift(result: Study, cases: Sequence[str] | None = None) -> go.Figure:
    """Return the batches that count over the time of the study, by target: what hits all alike is the machine's.

    Each case is a part of its own. Where there are more than 2,000 batches, a mark is the median of as many that
    follow each other in a process, or of as many processes, as it takes. What lies far above the others is marked at
    the upper edge.
    """
    title = "Launch overhead over the study's time"
    shown, more = _shown(result, cases)
    looks, samples = looks_of(result), samples_of(result.measured)
    if not shown or not samples:
        return sentence(title, "Nothing was measured, so there is nothing to show.")
    kept = {key: each for key, each in samples.items() if key[0] in looks and key[1] in shown}
    what, drawn = _thinned(kept)
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
                customdata=[f"{look.name}, {short(case, _CASE_WIDTH)}<br>at {start / scale:,.3g} {unit}: {micros(us)}"
                            for start, us in marks],
                hovertemplate="%{customdata}<extra></extra>", **named(number))
            in_legend.add(target)
        axes(figure, number,
             {"domain": domain[:2], "range": [-0.02 * last / scale, 1.02 * last / scale], "tickangle": 0,
              "nticks": 5 if unit == "s" else 3, "ticksuffix": f" {unit}", "zeroline": False},
             {"domain": domain[2:], "nticks": 6})
    figure.update_layout(legend_itemsizing="constant")
    return figure


def _shown(result: Study, cases: Sequence[str] | None) -> tuple[list[str], list[str]]:
    """The cases to show, and what there is to say of the others."""
    known = cases_of(result, cases)
    if cases is not None or len(known) <= MOST_CASES:
        return known, []
    return known[:MOST_CASES], [f"the first {MOST_CASES} of {len(known)} cases"]


def _grid(
    title: str, about: Sequence[str], cases: Sequence[str], looks: Mapping[str, Look], result: Study, height: int,
    *, has_legend: bool = True,
) -> tuple[go.Figure, Iterator[tuple[int, str, list[float]]]]:
    """A figure with a part a case, named above it; each with its number and its place: left, right, bottom, top."""
    columns = 1 if len(cases) == 1 else 2 if len(cases) in (2, 4) else 3
    lines = math.ceil(len(cases) / columns)
    whole = lines * height + (lines - 1) * _BETWEEN
    figure = study_figure(title, about, whole, looks, result, has_legend=has_legend)
    gap = 0.075 if columns == 3 else 0.05  # room for numbers like 0.19 where the figure is 600 pixels wide
    width = (1 - gap * (columns - 1)) / columns

    def parts() -> Iterator[tuple[int, str, list[float]]]:
        for at, case in enumerate(cases):
            line, column = divmod(at, columns)
            top = 1 - line * (height + _BETWEEN) / whole
            left = column * (width + gap)
            heading(figure, short(case, _NARROW if columns == 3 else _CASE_WIDTH), left, top)
            yield at + 1, case, [left, min(left + width, 1), max(top - height / whole, 0), top]

    return figure, parts()


def _strip(
    figure: go.Figure, samples: Samples, look: Look, place: int, case: str, number: int, *, with_points: bool,
) -> None:
    """A target's box and its points."""
    values = samples.us
    low, middle, high = (statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3)
    red, green, blue = (int(look.color[at:at + 2], 16) for at in (1, 3, 5))
    figure.add_box(
        y=[place], lowerfence=[min(values)], q1=[low], median=[middle], q3=[high], upperfence=[max(values)],
        name=look.name, orientation="h", width=0.62, marker={"color": look.color}, line={"width": 1.3},
        fillcolor=f"rgba({red},{green},{blue},.16)", hoverinfo="skip", whiskerwidth=0, **named(number))
    if with_points:
        # Spread by the golden ratio: evenly, and the same in every drawing.
        y = [place + ((process * 0.618034) % 1 - 0.5) * 0.5 for process in samples.process]
        hover = [f"{look.name}, {short(case, _CASE_WIDTH)}<br>process {process}: {micros(us)}"
                 for process, us in zip(samples.process, values, strict=True)]
        figure.add_scatter(x=values, y=y, mode="markers", name=look.name, customdata=hover,
                           marker={"color": look.color, "symbol": look.symbol, "size": 5, "opacity": 0.85},
                           hovertemplate="%{customdata}<extra></extra>", **named(number))


def _thinned(
    samples: Mapping[tuple[str, str], Samples],
) -> tuple[str, dict[tuple[str, str], list[tuple[float, float]]]]:
    """What a mark is, and the marks: when and µs a launch; not more than 2,000 of them."""
    processes = [each for of in samples.values() for each in of.batches]
    together = 1
    while sum(math.ceil(len(each) / together) for each in processes) > MOST_MARKS and len(processes) <= MOST_MARKS:
        together += 1
    if len(processes) <= MOST_MARKS:
        what = "a batch" if together == 1 else f"the median of {together} batches"
        return what, {key: [mark for batches in each.batches for mark in _medians(batches, together)]
                      for key, each in samples.items()}
    while sum(math.ceil(len(each.us) / together) for each in samples.values()) > MOST_MARKS:
        together += 1
    return f"the median of {together} processes", {
        key: _medians(list(zip(each.at_ns, each.us, strict=True)), together) for key, each in samples.items()}


def _medians(marks: Sequence[tuple[float, float]], together: int) -> list[tuple[float, float]]:
    """Marks that follow each other, as many as that together, as one: their middle in time and their median."""
    parts = [marks[at:at + together] for at in range(0, len(marks), together)]
    return [(statistics.fmean(at for at, _ in part), statistics.median(us for _, us in part)) for part in parts]


def _limit(targets: Sequence[Sequence[Any]]) -> float:
    """The most that is drawn in its place: the upper edge."""
    highest = 0.0
    for values in targets:
        middle = statistics.median(values)
        deviation = 1.4826 * statistics.median(abs(value - middle) for value in values)
        highest = max(highest, middle + max(_DEVIATIONS * deviation, _LEAST_MARGIN * middle))
    return highest
