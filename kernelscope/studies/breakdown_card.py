"""An anatomy as a card and as a page: each case a table of its parts, with a bar where each one lies in the launch."""

from __future__ import annotations

from kernelscope.studies import text as studies_text
from kernelscope.studies.breakdown import (
    LAUNCH,
    MEANINGS,
    UNATTRIBUTED,
    AnatomyResult,
    PartDifference,
    PartTime,
    amount,
    conclusions,
    part_kind,
    rows_of,
    sentences,
    title,
)
from kernelscope.studies.card import CLASSES, HEAD_STYLE, SIGNS, color_of, failed, head, page_of, plain_list
from kernelscope.studies.text import difference as difference_text
from kernelscope.studies.text import difference_interval
from kernelscope.views.base import clean, escape, shorten
from kernelscope.views.html import folded, heading, style, style_element, table_of

_STYLE = """
.kscope .ks-anatomy table.ks-table td { padding-top: 3px; padding-bottom: 3px; }
.kscope .ks-anatomy table.ks-table :is(th, td):nth-child(2) { text-align: left; }
.kscope .ks-anatomy table.ks-table td { vertical-align: top; }
.kscope .ks-anatomy table.ks-table th { white-space: normal; overflow-wrap: anywhere; }
.kscope .ks-anatomy table.ks-table td.ks-fall { min-width: 112px; padding-top: 7px; vertical-align: middle; }
.kscope .ks-anatomy tr:has(.ks-whole) td { border-top: 1px solid var(--ks-line); font-weight: 600; }
.kscope .ks-anatomy .ks-fall div { height: 6px; margin: 0 0 2px; border-radius: 1px; background: var(--ks-tint); }
.kscope .ks-anatomy .ks-fall i { display: block; height: 6px; border-radius: 1px; min-width: 1px; }
.kscope .ks-anatomy .ks-key { display: inline-block; width: 9px; height: 9px; border-radius: 2px; margin-right: 5px; }
.kscope .ks-anatomy .ks-slower { color: #d55e00; font-weight: 600; }
.kscope .ks-anatomy .ks-faster { color: #009e73; font-weight: 600; }
.kscope .ks-anatomy table.ks-table .ks-left:first-child { min-width: 112px; }
.kscope .ks-anatomy col.ks-part { width: 25%; }
.kscope .ks-anatomy col.ks-fall { width: 28%; }
.kscope .ks-anatomy ul.ks-list b { font-weight: 600; }
"""


def card(result: AnatomyResult) -> str:
    """Return the anatomy as a self-contained fragment of HTML, for notebooks; it has no script and no id."""
    return (style_element(style(), HEAD_STYLE, _STYLE) +
            f'<div class="kscope"><div class="ks-anatomy">{_body(result)}</div></div>')


def page(result: AnatomyResult) -> str:
    """Return a self-contained HTML document: the card, and the waterfalls."""
    return page_of(title(result), card(result), result.figures(), studies_text.notice(result.measured))


def _body(result: AnatomyResult) -> str:
    top = head(title(result), result.measured, studies_text.notice(result.measured)) + failed(result.measured)
    messages = conclusions(result)
    others = sentences(result)[len(messages):]
    tables = "".join(_case(result, case.name) for case in result.measured.cases)
    return f"{top}{plain_list(messages)}{tables}" + folded("What the parts are, and how they were measured",
                                                        plain_list(others))


def _case(result: AnatomyResult, case: str) -> str:
    targets = [(place, each.label) for place, each in enumerate(result.measured.targets)
               if result.of(each.label, case)]
    if not targets:
        return ""
    labels = [label for _, label in targets]
    compared = {(each.target, each.label): each for each in result.differences if each.case == case}
    native = {label: result.of(label, case).get("arguments") for label in labels}
    longest = max(result.of(label, case)[LAUNCH].us or 0.0 for label in labels)
    begun = dict.fromkeys(labels, 0.0)
    rows: list[str] = []
    for _, parts in rows_of(result, labels, case):
        known = next(each for each in parts if each is not None and each.us is not None)
        bars = ""
        for (place, label), part in zip(targets, parts, strict=True):
            bars += _bar(part, begun[label], longest, color_of(place))
            begun[label] += (part.us or 0.0) if part is not None and part.key != LAUNCH else 0.0
        is_argument = known.key.startswith("argument ")
        cells = "".join(_time(part or (native[label] if is_argument else None), compared.get((label, known.key)))
                        for label, part in zip(labels, parts, strict=True))
        rows.append(f'{_name(known)}<td class="ks-fall">{bars}</td>{cells}')
    columns = [("part", "part", ""), ("fall", "where it lies in the launch", "")]
    html = table_of(columns + [("", "", "") for _ in labels], rows)
    for place, label in targets:
        key = f'<i class="ks-key" style="background:{color_of(place)}"></i>'
        named = shorten(clean(label), 40)
        html = html.replace("<th></th>", f'<th title="{escape(label)}">{key}{escape(named)} <small>µs</small></th>', 1)
    merged = [each for each in compared.values() if " + " in each.label]
    messages = [f"{studies_text.name(each.target)}, compared as a whole: {each.label}: "
            f"{difference_text(each)} {difference_interval(each)} µs, {each.verdict}." for each in merged]
    statement = next(each.statement for each in result.measured.cases if each.name == case)
    note = studies_text.name(case) + (f": {studies_text.name(statement)}" if statement != case else "")
    return heading("Host time of a launch", note) + html + plain_list(messages)


def _name(part: PartTime) -> str:
    whole = " ks-whole" if part.key == LAUNCH else ""
    note = f" <small>{escape(shorten(clean(part.note), 60))}</small>" if part.note else ""
    about = MEANINGS.get(part_kind(part.key), "the whole launch, without stamps")
    return f'<td class="ks-left{whole}" title="{escape(about)}">{escape(part.key)}{note}</td>'


def _time(part: PartTime | None, compared: PartDifference | None) -> str:
    value, percent = amount(part)
    if part is None:
        return f'<td><span class="ks-soft">{studies_text.NOT_MEASURED}</span></td>'
    if part.us is None:
        return f'<td title="{escape(part.reason or "")}"><span class="ks-soft">not seen</span></td>'
    below = f"{percent} %" if percent else ""
    title = f"{value} µs"
    if compared is not None:
        change = difference_text(compared)
        kind, sign = CLASSES.get(compared.verdict, "ks-soft"), SIGNS.get(compared.verdict, "?")
        title += f"; {change} {difference_interval(compared)} µs against the baseline: {compared.verdict}"
        below = f'{escape(below)} <span class="{kind}">{escape(f"{sign} {change}")}</span>'
    else:
        below = escape(below)
    return f'<td title="{escape(title)}">{escape(value.replace("+/-", "±"))} <small>{below}</small></td>'


def _bar(part: PartTime | None, begun: float, longest: float, color: str) -> str:
    """A bar from where the part begins to where it ends; less than nothing leans back from there."""
    if part is None or part.us is None or longest <= 0:
        return "<div></div>"
    begin = 0.0 if part.key == LAUNCH else begun
    left, right = sorted((begin, begin + part.us))
    left, right = max(0.0, min(left / longest, 1.0)), max(0.0, min(right / longest, 1.0))
    faint = ";opacity:.5" if part.key == UNATTRIBUTED else ""
    place = f"margin-left:{left * 100:.2f}%;width:{(right - left) * 100:.2f}%"
    return f'<div><i style="{place};background:{color}{faint}"></i></div>'
