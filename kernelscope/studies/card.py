"""A study as a card and as a page: verdicts first, then every interval around the baseline, then the method."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kernelscope.renderers.base import escape
from kernelscope.renderers.charts_html import figures_html
from kernelscope.renderers.elements import folded, heading, name_of, table_of
from kernelscope.renderers.style import PAGE, style
from kernelscope.studies import forest, words
from kernelscope.studies.judged import FASTER, NO_DIFFERENCE, SLOWER, TOO_NOISY, Difference, Estimate
from kernelscope.studies.numbers import difference, difference_interval, median, median_interval, share
from kernelscope.studies.result import StudyResult

#: As many cases as are in sight; the others are folded.
MOST_CASES = 12
_SIGNS = {SLOWER: "▲", FASTER: "▼", NO_DIFFERENCE: "=", TOO_NOISY: "?"}
_COLUMNS = [("forest-of", "", ""), ("change", "difference", ""), ("verdict", "verdict", "")]
_CLASSES = {SLOWER: "ks-slower", FASTER: "ks-faster", TOO_NOISY: "ks-unsure"}
# Of the table of intervals: the target, its cost, the picture, the difference, the verdict.
_STYLE = """
.kscope .ks-study table.ks-table td { padding-top: 4px; padding-bottom: 4px; }
.kscope .ks-study table.ks-table tbody tr:nth-child(n) td { border-top: 0; }
.kscope .ks-study table.ks-table tbody tr.ks-first:nth-child(n + 2) td { border-top: 1px solid var(--ks-line); }
.kscope .ks-study table.ks-table tbody tr:not(.ks-first) td:first-child .ks-name { padding-left: 14px; }
.kscope .ks-study .ks-name { align-items: baseline; }
.kscope .ks-study .ks-key { flex: none; margin-right: 7px; }
.kscope .ks-study .ks-first .ks-case { font-weight: 600; }
.kscope .ks-study table.ks-table tbody tr.ks-first:nth-child(n) td { padding-bottom: 0; }
.kscope .ks-study .ks-cost { height: 3px; margin: 2px 0 0; border-radius: 1px; }
.kscope .ks-study .ks-more { color: var(--ks-soft); font-size: 11.5px; }
.kscope .ks-study .ks-slower { color: #d55e00; font-weight: 600; }
.kscope .ks-study .ks-faster { color: #009e73; font-weight: 600; }
.kscope .ks-study .ks-unsure { font-weight: 600; }
.kscope .ks-study td.ks-advice { padding: 0 4px 6px 18px; color: var(--ks-soft); font-size: 11.5px; }
.kscope .ks-study col.ks-cost-of { width: 148px; }
.kscope .ks-study col.ks-forest-of { width: 34%; }
.kscope .ks-study col.ks-change { width: 156px; }
.kscope .ks-study col.ks-verdict { width: 142px; }
.kscope .ks-study ul.ks-list b { font-weight: 600; }
@container (max-width: 860px) {
  .kscope .ks-study col.ks-cost-of { width: 72px; }
  .kscope .ks-study col.ks-change { width: 84px; }
  .kscope .ks-study table:has(col.ks-forest-of) .ks-more { display: none; }
}
@container (max-width: 560px) {
  .kscope .ks-study .ks-x > table.ks-table { min-width: 0; }
  .kscope .ks-study col.ks-forest-of { width: 30%; }
  .kscope .ks-study col.ks-verdict { width: 84px; }
  .kscope .ks-study td:last-child { white-space: normal; }
}
"""


def card(result: StudyResult) -> str:
    """Return the study as a self-contained fragment of HTML, for notebooks; it has no script and no id."""
    return f"<style>{style()}{forest.STYLE}{_STYLE}</style>{_body(result)}"


def page(result: StudyResult) -> str:
    """Return a self-contained HTML document: the card, and the study's figures."""
    figures = [result.plot(kind) for kind in ("intervals", "distributions", "drift")] if result.estimates else []
    title = escape(words.title(result.measured))
    drawn = figures_html(figures, words.notice(result.measured)) if figures else ""
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title><style>{PAGE}</style></head>\n"
        f"<body><main>{card(result)}\n{drawn}</main></body></html>\n"
    )


def _body(result: StudyResult) -> str:
    parts = [_head(result), _conclusions(result), _against(result), _within(result), _remarks(result),
             _targets(result), _foot(result)]
    return f'<div class="kscope"><div class="ks-study">{"".join(parts)}</div></div>'


def _head(result: StudyResult) -> str:
    title, ended = escape(words.title(result.measured)), words.ending(result.measured)
    chip = f'<span class="ks-chip ks-bad">{escape(ended)}</span>' if ended else ""
    gpu = result.gpu.get("name")
    maker = escape(" · ".join(part for part in ("KernelScope", words.name(gpu) if gpu else "") if part))
    notice = words.notice(result.measured)
    said = f'<div class="ks-notice" role="note">{escape(notice)}</div>' if notice else ""
    said += "".join(f'<div class="ks-error"><b>{escape(label)}</b> {escape(why)}</div>'
                    for label, why in words.failures(result.measured))
    return (f'<div class="ks-top"><span class="ks-title" role="heading" aria-level="3">{title}</span>{chip}'
            f'<span class="ks-maker">{maker}</span></div>{said}')


def _conclusions(result: StudyResult) -> str:
    said = [f"<li><b>{escape(label)}</b>: {escape(sentence)}</li>" for label, sentence in words.conclusions(result)]
    return f'<ul class="ks-list">{"".join(said)}</ul>' if said else ""


def _against(result: StudyResult) -> str:
    found = [each for each in result.differences if not each.within]
    cases = [each.name for each in result.cases if any((target.label, each.name) in result.by_place
                                                       for target in result.targets)]
    if not cases:
        return ""
    scale = forest.axis(found) if found else None
    shown, rest = cases[:MOST_CASES], cases[MOST_CASES:]
    note = ("medians of a launch, the picture in percent of the baseline, bars are intervals" if found
            else "medians of a launch, with their intervals of 95 %")
    html = heading("Host time of a launch", note) + _table(result, shown, scale)
    if rest:
        html += folded(f"<b>{len(rest)}</b> more cases", _table(result, rest, scale))
    return html


def _table(result: StudyResult, cases: Sequence[str], scale: forest.Axis | None) -> str:
    costs = [each.median_us for each in result.estimates]
    rows: list[str] = []
    for case in cases:
        rows.append(_case_row(_case(case), scale, 1))
        for place, target in enumerate(result.targets):
            estimate = result.by_place.get((target.label, case))
            if estimate is None and place and target.error is not None:
                continue
            name = _name(target.label, forest.color_of(place))
            cells = f'<td class="ks-left">{name}</td>{_cost(estimate, costs, forest.color_of(place))}'
            each = result.against_baseline.get((target.label, case))
            if scale is not None:
                why = target.unavailable.get(case, "") if estimate is None else ""
                cells += _picture(scale, each, place) + _change(each) + _verdict(each, not place, why)
            rows.append(f">{cells}")
            if each is not None and each.verdict == TOO_NOISY and each.advice:
                rows.append(f'><td class="ks-left ks-advice" colspan="5">{escape(each.advice)}</td>')
    columns = [("", "case, target", ""), ("cost-of", "µs", "")]
    if scale is not None:
        columns += _COLUMNS
    return _drawn(columns, rows, scale, 2)


def _within(result: StudyResult) -> str:
    found = [each for each in result.differences if each.within]
    if not found:
        return ""
    scale, rows = forest.axis(found), list[str]()
    places = {target.label: place for place, target in enumerate(result.targets)}
    pairs = list(dict.fromkeys((each.case, each.baseline) for each in found))
    for case, against in pairs:
        same = [each for each in found if (each.case, each.baseline) == (case, against)]
        said = f'<span class="ks-more ks-against">against {escape(words.name(against))}</span>'
        rows.append(_case_row(_case(case) + said, scale, 0))
        for each in same:
            color = forest.color_of(places.get(each.target, 0))
            rows.append(f'><td class="ks-left">{_name(each.target, color)}</td>{_picture(scale, each, 1, color)}'
                        f"{_change(each)}{_verdict(each, False, '')}")
    columns = [("", "case, target", ""), *_COLUMNS]
    return heading("Cases compared within a target") + _drawn(columns, rows, scale, 1)


def _case_row(name: str, scale: forest.Axis | None, before: int) -> str:
    """The row above those of a case's targets, with `before` columns between its name and the picture."""
    cells = "<td></td>" * (before if scale else 1)
    if scale is not None:
        cells += f'<td class="ks-forest">{forest.empty_row(scale)}</td><td></td><td></td>'
    return f' class="ks-first"><td class="ks-left">{name}</td>{cells}'


def _drawn(columns: Sequence[tuple[str, str, str]], rows: Sequence[str], scale: forest.Axis | None, place: int) -> str:
    """A table whose column at `place` has pictures, with the axis in its head; rows bring their own attributes."""
    html = table_of(columns, []).replace("<tbody></tbody>", "<tbody>" + "".join(f"<tr{row}</tr>" for row in rows)
                                         + "</tbody>")
    if scale is None:
        return html
    # The picture's heading is the only one without words.
    return html.replace("<th></th>", f'<th class="ks-forest">{forest.head(scale)}</th>', 1)


def _remarks(result: StudyResult) -> str:
    said = [f"<li>{f'<b>{escape(label)}</b>: ' if label else ''}{escape(sentence)}</li>"
            for label, sentence in words.remarks(result)]
    return f'{heading("To know")}<ul class="ks-list">{"".join(said)}</ul>' if said else ""


def _targets(result: StudyResult) -> str:
    rows = [f'<td class="ks-left">{_name(each.label, forest.color_of(place))}</td>'
            f'<td class="ks-left">{escape(words.source(each))}</td>'
            f'<td class="ks-left">{escape(words.versions(each))}</td><td>{each.processes}</td>'
            for place, each in enumerate(result.targets)]
    columns = [("", "target", ""), ("", "from", ""), ("third", "versions", ""), ("number", "processes", "")]
    summary = f"<b>{len(rows)}</b> target{'s' * (len(rows) != 1)}, their versions"
    return folded(summary, table_of(columns, rows, left=(0, 1, 2))) if rows else ""


def _foot(result: StudyResult) -> str:
    lines = [" ".join(words.method(result.measured)), words.machine(result.measured)]
    return f'<div class="ks-foot">{"".join(f"<div>{escape(line)}</div>" for line in lines if line)}</div>'


def _name(label: str, color: str) -> str:
    key = f'<i class="ks-key" style="background:{color}"></i>'
    return f'<span class="ks-name" title="{escape(label)}">{key}{_cut(label)}</span>'


def _case(name: str) -> str:
    return f'<span class="ks-name ks-case" title="{escape(name)}">{_cut(name)}</span>'


def _cut(text: str) -> str:
    """A name that gives way in its middle where it has too little room."""
    inside = name_of(text)
    return inside[inside.index(">") + 1:-len("</span>")]


def _cost(each: Estimate | None, costs: Sequence[float], color: str) -> str:
    if each is None:
        return f'<td><span class="ks-soft">{words.NOT_MEASURED}</span></td>'
    wide = forest.bar_width(each.median_us, costs)
    return (f'<td>{median(each)} <span class="ks-more">{median_interval(each)}</span>'
            f'<div class="ks-cost" style="width:{wide:.1f}%;background:{color}"></div></td>')


def _picture(scale: forest.Axis, each: Difference | None, place: int, color: str = "") -> str:
    draw: Callable[[forest.Axis], str] = forest.empty_row if place else forest.baseline_row
    inside = draw(scale) if each is None else forest.row(scale, each, color or forest.color_of(place))
    return f'<td class="ks-forest">{inside}</td>'


def _change(each: Difference | None) -> str:
    if each is None:
        return "<td></td>"
    title = f"{difference(each)} µs {difference_interval(each)}"
    interval = f"[{share(each.low_percent, signed=True)}, {share(each.high_percent, signed=True)}]"
    return (f'<td title="{escape(title)}">{escape(share(each.percent, signed=True))} % '
            f'<span class="ks-more">{escape(interval)}</span></td>')


def _verdict(each: Difference | None, is_baseline: bool, why: str) -> str:
    if each is None:
        said = "baseline" if is_baseline else "not available" if why else ""
        return f'<td title="{escape(why)}"><span class="ks-soft">{said}</span></td>'
    sign, kind = _SIGNS.get(each.verdict, ""), _CLASSES.get(each.verdict, "ks-soft")
    said = f'<span class="{kind}">{escape(f"{sign} {each.verdict}")}</span>'
    return f'<td title="{escape(each.advice)}">{said}</td>'
