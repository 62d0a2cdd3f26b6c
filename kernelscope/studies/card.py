"""A study as a card and as a page: verdicts first, then every interval, then the method."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kernelscope.intervals import FASTER, NO_DIFFERENCE, SLOWER, TOO_NOISY
from kernelscope.studies import text
from kernelscope.studies.result import (
    Difference,
    Estimate,
    Measured,
    StudyResult,
)
from kernelscope.studies.text import difference, difference_interval, median, median_interval, share
from kernelscope.views.base import escape
from kernelscope.views.html import document, folded, heading, name_of, style, style_element, table_of

if TYPE_CHECKING:
    import plotly.graph_objects as go

# Intervals in the rows of a table, around a line at zero: a forest plot that needs no script and knows no theme.
#
# A row's picture is an SVG as wide and high as its cell: places are percent of the width, so that it fits cards of any
# width and its letters keep their size.

#: The baseline's color, and those of the other targets in their order; the colors of the study's figures.
TARGET_COLORS = ("#8a8f98", "#2b7bba", "#e69f00", "#009e73", "#c66fa0", "#5bbcea", "#d55e00", "#9a6fb8")

#: Where a color does not say it: what a row's sheet needs.
STYLE = """
.kscope table.ks-table :is(td, th).ks-forest { position: relative; min-width: 126px; }
.kscope .ks-forest svg { position: absolute; inset: 0 0 0 12px; width: calc(100% - 12px); height: 100%;
  overflow: hidden; }
.kscope .ks-forest svg svg { position: static; overflow: visible; }
.kscope th.ks-forest svg { top: auto; height: 18px; overflow: visible; }
.kscope .ks-forest line.ks-grid { stroke: var(--ks-line); stroke-width: 1; }
.kscope .ks-forest line.ks-zero { stroke: var(--ks-soft); stroke-width: 1; }
.kscope .ks-forest text { fill: var(--ks-soft); font-size: 11px; }
"""

# What every second number of a crowded axis has.
_OF_TWO = ' class="ks-odd"'

# The axis has at least this, so that noise of a tenth of a percent does not fill it.
_LEAST_PERCENT = 1.0
_MARGIN = 0.05
_MUCH_WIDER = 2.0
_MOST_TICKS = 5
_MOST_NARROW = 4
_EDGE = 9.0


@dataclass(frozen=True)
class Axis:
    """A horizontal axis of percent: its ends and its ticks."""

    low: float
    high: float
    ticks: tuple[float, ...]

    def place(self, value: float) -> float:
        """Return where a value is, in percent of the axis' width; what is beyond an end is at the end."""
        if math.isnan(value):
            return self.place(0.0)
        return 100 * (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)


def axis(differences: Iterable[Difference]) -> Axis:
    """Return an axis with room for all differences and their intervals, and for zero.

    Where others tell more, much wider intervals of what is too noisy are cut off at the ends.
    """
    held = list(differences)
    telling = [each for each in held if each.verdict != TOO_NOISY] or held
    values = [0.0, *(each.percent for each in held)]
    values += [value for each in telling for value in (each.low_percent, each.high_percent)]
    finite = [value for value in values if math.isfinite(value) and abs(value) < 1e9]
    most = _MUCH_WIDER * max(_LEAST_PERCENT, *map(abs, finite))
    finite += [value for each in held for value in (each.low_percent, each.high_percent) if abs(value) <= most]
    low, high = min(finite), max(finite)
    if high - low < 2 * _LEAST_PERCENT:
        low, high = min(low, -_LEAST_PERCENT), max(high, _LEAST_PERCENT)
    room = (high - low) * _MARGIN
    low, high = low - room, high + room
    step = _round_up((high - low) / _MOST_TICKS)
    return Axis(low, high, tuple(step * place for place in range(math.ceil(low / step), math.floor(high / step) + 1)))


def forest_head(scale: Axis) -> str:
    """Return the axis' ticks as an SVG for the table's head."""
    zero = scale.ticks.index(0)
    # A narrow table has no room for many numbers.
    crowded = len(scale.ticks) > _MOST_NARROW
    # Where a notebook is not trusted, its pictures are taken away and their texts are left.
    texts: list[str] = []
    for place, tick in enumerate(scale.ticks):
        x = scale.place(tick)
        # The labels at the ends stay inside the column.
        anchor = "start" if x < _EDGE else "end" if x > 100 - _EDGE else "middle"
        texts.append(f'<text{_OF_TWO * (crowded and (place - zero) % 2)} x="{x:.2f}%" y="12" '
                     f'text-anchor="{anchor}">{_tick(tick)}</text>')
    return f'<svg aria-hidden="true">{" ".join(texts)}</svg>'


def row(scale: Axis, each: Difference, color: str) -> str:
    """Return a difference with its interval as an SVG: hollow where no difference is established."""
    low, high = scale.place(each.low_percent), scale.place(each.high_percent)
    middle = scale.place(each.percent)
    dashes = ' stroke-dasharray="3 3"' if each.verdict == TOO_NOISY else ""
    fill = color if each.verdict in (SLOWER, FASTER) else "var(--ks-ground)"
    label = (f"{share(each.percent, signed=True)} %, interval {share(each.low_percent, signed=True)} to "
             f"{share(each.high_percent, signed=True)} %, {each.verdict}")
    return (
        f'<svg role="img" aria-label="{escape(label)}">{_grid(scale)}'
        f'<line x1="{low:.2f}%" x2="{high:.2f}%" y1="50%" y2="50%" stroke="{color}" stroke-width="2"{dashes}/>'
        f"{_end(low, each.low_percent < scale.low, color, -1)}{_end(high, each.high_percent > scale.high, color, 1)}"
        f'<circle cx="{middle:.2f}%" cy="50%" r="4" fill="{fill}" stroke="{color}" stroke-width="2"/></svg>'
    )


def baseline_row(scale: Axis) -> str:
    """Return the SVG of the baseline, a mark at zero."""
    zero = scale.place(0.0)
    mark = f'<path d="M0 -5 L5 0 L0 5 L-5 0 Z" fill="{TARGET_COLORS[0]}"/>'
    return f'<svg aria-hidden="true">{_grid(scale)}<svg x="{zero:.2f}%" y="50%">{mark}</svg></svg>'


def empty_row(scale: Axis) -> str:
    """Return the SVG of a row without a difference."""
    return f'<svg aria-hidden="true">{_grid(scale)}</svg>'


def color_of(place: int) -> str:
    """Return the color of a target by its place in the study."""
    return TARGET_COLORS[0] if not place else TARGET_COLORS[1 + (place - 1) % (len(TARGET_COLORS) - 1)]


def _grid(scale: Axis) -> str:
    return "".join(f'<line class="ks-{"grid" if tick else "zero"}" x1="{scale.place(tick):.2f}%" '
                   f'x2="{scale.place(tick):.2f}%" y1="0" y2="100%"/>' for tick in scale.ticks)


def _end(place: float, is_cut: bool, color: str, side: int) -> str:
    """Return the SVG of an interval's end: a bar, or an arrow where the interval exceeds the axis."""
    shape = f"M{-7 * side} -4 L0 0 L{-7 * side} 4" if is_cut else "M0 -4 L0 4"
    return f'<svg x="{place:.2f}%" y="50%"><path d="{shape}" fill="none" stroke="{color}" stroke-width="2"/></svg>'


def _round_up(value: float) -> float:
    size = 10.0 ** math.floor(math.log10(value))
    return next(size * part for part in (1, 2, 5, 10) if size * part >= value * 0.999)


def _tick(value: float) -> str:
    return f"{value:+,.10g} %" if value else "0"


def bar_width(value: float, values: Sequence[float]) -> float:
    """Return how wide a bar from zero is, in percent of the widest one's."""
    most = max((each for each in values if math.isfinite(each)), default=0.0)
    return 100 * min(max(value / most, 0.0), 1.0) if most > 0 and math.isfinite(value) else 0.0


# A study as a card and as a page.

#: As many cases as are in sight; the others are folded.
MOST_CASES = 12
SIGNS = {SLOWER: "▲", FASTER: "▼", NO_DIFFERENCE: "=", TOO_NOISY: "?"}
_UNIT = re.compile(r"(\d) (?=(?:%|ns|µs|ms|s|MHz)\b|%)")
#: Of a card's head, where it is narrow: all of the title, and what made it below.
HEAD_STYLE = """
@container (max-width: 680px) {
  .kscope :is(.ks-study, .ks-anatomy) .ks-top { flex-wrap: wrap; row-gap: 2px; }
  .kscope :is(.ks-study, .ks-anatomy) .ks-title { -webkit-line-clamp: none; display: block; }
  .kscope :is(.ks-study, .ks-anatomy) .ks-maker { max-width: 100%; }
}
"""
_COLUMNS = [("forest-of", "", ""), ("change", "difference", ""), ("verdict", "verdict", "")]
CLASSES = {SLOWER: "ks-slower", FASTER: "ks-faster", TOO_NOISY: "ks-unsure"}
# Of the table of intervals: the target, its cost, the picture, the difference, the verdict. Numbers and verdicts have
# the room that they need, the picture has a third, and names have the rest.
_STYLE = """
.kscope .ks-study table.ks-table td { padding-top: 4px; padding-bottom: 4px; }
.kscope .ks-study table.ks-table tbody tr:nth-child(n) td { border-top: 0; }
.kscope .ks-study table.ks-table tbody tr.ks-first:nth-child(n + 2) td { border-top: 1px solid var(--ks-line); }
.kscope .ks-study .ks-target { display: flex; align-items: baseline; gap: 7px; min-width: 0; contain: inline-size; }
.kscope .ks-study tr:not(.ks-first) .ks-target { padding-left: 14px; }
.kscope .ks-study .ks-key { flex: none; }
.kscope .ks-study .ks-first .ks-name { font-weight: 600; }
.kscope .ks-study table.ks-table tbody tr.ks-first:nth-child(n) td { padding-bottom: 0; }
.kscope .ks-study .ks-cost { height: 3px; margin: 2px 0 0; border-radius: 1px; }
.kscope .ks-study .ks-more { color: var(--ks-soft); font-size: 11.5px; }
.kscope .ks-study .ks-slower { color: #d55e00; font-weight: 600; }
.kscope .ks-study .ks-faster { color: #009e73; font-weight: 600; }
.kscope .ks-study .ks-unsure { font-weight: 600; }
.kscope .ks-study col.ks-cost-of { width: 84px; }
.kscope .ks-study :is(col.ks-change, col.ks-verdict) { width: 1px; }
.kscope .ks-study table.ks-table:has(col.ks-forest-of) .ks-left:first-child { min-width: 124px; }
.kscope .ks-study col.ks-cost-wide { width: 64%; }
.kscope .ks-study table:has(col.ks-cost-wide) :is(th, td):nth-child(2) { text-align: left; }
.kscope .ks-study col.ks-forest-of { width: 34%; }
.kscope .ks-study ul.ks-list b { font-weight: 600; }
@container (max-width: 860px) {
  .kscope .ks-study table:has(col.ks-forest-of) td:not(.ks-left) .ks-more { display: none; }
}
@container (max-width: 680px) {
  .kscope .ks-study col.ks-forest-of { width: 28%; }
  .kscope .ks-study .ks-odd { display: none; }
}
@container (max-width: 560px) {
  .kscope .ks-study .ks-name span + span { flex: 0 1 auto; overflow: hidden; text-overflow: ellipsis; }
}
"""


def card(result: StudyResult) -> str:
    """Return the study as a self-contained fragment of HTML, for notebooks; it has no script and no id."""
    measured = result.measured
    top = head(text.title(measured), measured, text.notice(measured), text.ending(measured))
    message = listed(text.remarks(result.measured, result.notes))
    lines = [" ".join(text.method(result.measured)), text.machine(result.measured)]
    foot = f'<div class="ks-foot">{"".join(f"<div>{_kept(line)}</div>" for line in lines if line)}</div>'
    return framed("".join([top, failed(measured), listed(text.conclusions(result)), _against(result), _within(result),
                           heading("To know") + message if message else "", _targets(result), foot]))


def page(result: StudyResult) -> str:
    """Return a self-contained HTML document: the card, and the study's figures."""
    return page_of(text.title(result.measured), card(result), result.figures(), text.notice(result.measured))


def page_of(title: str, card: str, figures: Sequence[go.Figure] = (), notice: str = "") -> str:
    """Return an HTML document of a card, and of figures below it."""
    drawn = ""
    if figures:
        from kernelscope.views.charts import figures_html

        drawn = figures_html(list(figures), notice)
    return document(title, f"<main>{card}\n{drawn}</main>")


def framed(inside: str) -> str:
    """Return a card of these parts, with its style."""
    return (style_element(style(), HEAD_STYLE, STYLE, _STYLE) +
            f'<div class="kscope"><div class="ks-study">{inside}</div></div>')


def head(title: str, measured: Measured, notice: str, ending: str = "") -> str:
    """Return a card's head: its title, how it ended where that was early, its GPU, and what must be said first."""
    chip = f'<span class="ks-chip ks-bad">{escape(ending)}</span>' if ending else ""
    gpu = measured.gpu.get("name")
    maker = escape(" · ".join(part for part in ("KernelScope", text.name(gpu) if gpu else "") if part))
    message = f'<div class="ks-notice" role="note">{escape(notice)}</div>' if notice else ""
    return (f'<div class="ks-top"><span class="ks-title" role="heading" aria-level="3">{escape(title)}</span>{chip}'
            f' <span class="ks-maker">{maker}</span></div>{message}')


def failed(measured: Measured) -> str:
    """Return the targets that did not finish, and why."""
    return "".join(f'<div class="ks-error"><b>{escape(label)}</b> {escape(why)}</div>'
                   for label, why in text.failures(measured))


def plain_list(sentences: Sequence[str]) -> str:
    """Return sentences as a list."""
    return listed([("", each) for each in sentences])


def listed(sentences: Sequence[tuple[str, str]]) -> str:
    """Return sentences as a list, each behind its label if it has one."""
    items = "".join(f"<li>{f'<b>{escape(label)}</b>: ' if label else ''}{_kept(each)}</li>"
                    for label, each in sentences)
    return f'<ul class="ks-list">{items}</ul>' if items else ""


def differences_table(
    found: Sequence[Difference], targets: Sequence[str], cost: Callable[[Difference], str] | None = None,
) -> str:
    """Return differences as a table, by case.

    Parameters
    ----------
    found : sequence of Difference
        At least one.
    targets : sequence of str
        All targets, which have their colors by their places.
    cost : callable, optional
        What stands between a target's name and its picture: text.
    """
    scale, rows = axis(found), list[str]()
    places = {target: place for place, target in enumerate(targets)}
    for case, against in dict.fromkeys((each.case, each.baseline if each.within else "") for each in found):
        message = f'<span class="ks-more">against {escape(text.name(against))}</span>' if against else ""
        rows.append(_case_row(name_of(case) + message, scale, 2 if cost else 1))
        for each in found:
            if (each.case, each.baseline if each.within else "") == (case, against):
                color = color_of(places.get(each.target, 0))
                shown = f"<td>{escape(cost(each))}</td>" if cost else ""
                rows.append(f'><td class="ks-left">{_name(each.target, color)}</td>{shown}'
                            f"{_picture(scale, each, color)}{_change(each)}{_verdict(each, False, '')}")
    columns = [("", "case, target", ""), *([("change", "µs", "old, new")] if cost else []), *_COLUMNS]
    return _drawn(columns, rows, scale)


def _against(result: StudyResult) -> str:
    found = [each for each in result.differences if not each.within]
    cases = [each.name for each in result.cases if any((target.label, each.name) in result.by_place
                                                       for target in result.targets)]
    if not cases:
        return ""
    scale = axis(found) if found else None
    shown, rest = cases[:MOST_CASES], cases[MOST_CASES:]
    note = ("medians of a launch, the picture in percent of the baseline, bars are intervals" if found
            else "medians of a launch, with their intervals of 95 %")
    html = heading("Host time of a launch", note) + _table(result, shown, scale)
    if rest:
        html += folded(f"<b>{len(rest)}</b> more cases", _table(result, rest, scale))
    return html


def _table(result: StudyResult, cases: Sequence[str], scale: Axis | None) -> str:
    costs = [each.median_us for each in result.estimates]
    rows: list[str] = []
    for case in cases:
        rows.append(_case_row(name_of(case), scale, 2))
        for place, target in enumerate(result.targets):
            estimate = result.by_place.get((target.label, case))
            if estimate is None and place and target.error is not None:
                continue
            name = _name(target.label, color_of(place))
            cells = f'<td class="ks-left">{name}</td>{_cost(estimate, costs, color_of(place))}'
            each = result.against_baseline.get((target.label, case))
            if scale is not None:
                why = target.unavailable.get(case, "") if estimate is None else ""
                color = color_of(place)
                cells += (_picture(scale, each, color, is_baseline=not place) + _change(each)
                          + _verdict(each, not place, why))
            rows.append(f">{cells}")
    columns = [("", "case, target", ""), ("cost-of" if scale else "cost-wide", "µs", "")]
    if scale is not None:
        columns += _COLUMNS
    return _drawn(columns, rows, scale)


def _within(result: StudyResult) -> str:
    found = [each for each in result.differences if each.within]
    if not found:
        return ""
    return heading("Cases compared within a target") + differences_table(found, [each.label for each in result.targets])


def _case_row(name: str, scale: Axis | None, columns: int) -> str:
    """Return the heading row of a case; its name spans the `columns` before the chart."""
    cells = f'<td class="ks-forest">{empty_row(scale)}</td><td></td><td></td>' if scale is not None else ""
    return f' class="ks-first"><td class="ks-left" colspan="{columns}">{name}</td>{cells}'


def _drawn(columns: Sequence[tuple[str, str, str]], rows: Sequence[str], scale: Axis | None) -> str:
    """Return a table whose chart column has the axis in its head; rows have their own attributes."""
    html = table_of(columns, []).replace("<tbody></tbody>", "<tbody>" + "".join(f"<tr{row}</tr>" for row in rows)
                                         + "</tbody>")
    if scale is None:
        return html
    # The picture's heading is the only one without words.
    return html.replace("<th></th>", f'<th class="ks-forest">{forest_head(scale)}</th>', 1)


def _targets(result: StudyResult) -> str:
    rows = [f'<td class="ks-left">{_name(each.label, color_of(place))}</td>'
            f'<td class="ks-left">{escape(text.source(each))}</td>'
            f'<td class="ks-left">{escape(text.versions(each))}</td><td>{each.processes}</td>'
            for place, each in enumerate(result.targets)]
    columns = [("", "target", ""), ("", "from", ""), ("third", "versions", ""), ("number", "processes", "")]
    summary = "<b>1</b> target, its versions" if len(rows) == 1 else f"<b>{len(rows)}</b> targets, their versions"
    return folded(summary, table_of(columns, rows, left=(0, 1, 2))) if rows else ""


def _kept(sentence: str) -> str:
    """Return a sentence with no-break spaces between numbers and units."""
    return _UNIT.sub("\\1\u00a0", escape(sentence))


def _name(label: str, color: str) -> str:
    return f'<span class="ks-target"><i class="ks-key" style="background:{color}"></i>{name_of(label)}</span>'


def _cost(each: Estimate | None, costs: Sequence[float], color: str) -> str:
    if each is None:
        return f'<td><span class="ks-soft">{text.NOT_MEASURED}</span></td>'
    wide = bar_width(each.median_us, costs)
    return (f'<td>{median(each)} <span class="ks-more">{median_interval(each)}</span>'
            f'<div class="ks-cost" style="width:{wide:.1f}%;background:{color}"></div></td>')


def _picture(scale: Axis, each: Difference | None, color: str, *, is_baseline: bool = False) -> str:
    if each is not None:
        return f'<td class="ks-forest">{row(scale, each, color)}</td>'
    return f'<td class="ks-forest">{baseline_row(scale) if is_baseline else empty_row(scale)}</td>'


def _change(each: Difference | None) -> str:
    if each is None:
        return "<td></td>"
    title = f"{difference(each)} µs {difference_interval(each)}"
    interval = f"[{share(each.low_percent, signed=True)}, {share(each.high_percent, signed=True)}]"
    return (f'<td title="{escape(title)}">{escape(share(each.percent, signed=True))} % '
            f'<span class="ks-more">{escape(interval)}</span></td>')


def _verdict(each: Difference | None, is_baseline: bool, why: str) -> str:
    if each is None:
        message = "baseline" if is_baseline else "not available" if why else ""
        return f'<td title="{escape(why)}"><span class="ks-soft">{message}</span></td>'
    sign, kind = SIGNS.get(each.verdict, ""), CLASSES.get(each.verdict, "ks-soft")
    message = f'<span class="{kind}">{escape(f"{sign} {each.verdict}")}</span>'
    return f'<td title="{escape(each.advice)}">{message}</td>'
