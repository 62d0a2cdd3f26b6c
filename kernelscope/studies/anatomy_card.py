"""An anatomy as a card and as a page: each case a table of its parts, with a bar where each one lies in the launch."""

from __future__ import annotations

from collections.abc import Sequence

from kernelscope.renderers.base import clean, escape, shorten
from kernelscope.renderers.charts_html import figures_html
from kernelscope.renderers.elements import folded, heading, table_of
from kernelscope.renderers.style import PAGE, style
from kernelscope.studies import anatomy_text, words
from kernelscope.studies.anatomy_parts import LAUNCH, UNATTRIBUTED, PartDifference, PartTime
from kernelscope.studies.anatomy_result import AnatomyResult
from kernelscope.studies.card import HEAD_STYLE
from kernelscope.studies.forest import color_of
from kernelscope.studies.judged import FASTER, SLOWER

_CLASSES = {SLOWER: "ks-slower", FASTER: "ks-faster"}
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
    return (f"<style>{style()}{HEAD_STYLE}{_STYLE}</style>"
            f'<div class="kscope"><div class="ks-anatomy">{_body(result)}</div></div>')


def page(result: AnatomyResult) -> str:
    """Return a self-contained HTML document: the card, and the waterfalls."""
    figures = result.figures()
    drawn = figures_html(figures, words.notice(result.measured)) if figures else ""
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(anatomy_text.title(result))}</title><style>{PAGE}</style></head>\n"
        f"<body><main>{card(result)}\n{drawn}</main></body></html>\n"
    )


def _body(result: AnatomyResult) -> str:
    notice = words.notice(result.measured)
    gpu = result.measured.gpu.get("name")
    maker = " · ".join(part for part in ("KernelScope", words.name(gpu) if gpu else "") if part)
    head = (f'<div class="ks-top"><span class="ks-title" role="heading" aria-level="3">'
            f'{escape(anatomy_text.title(result))}</span> <span class="ks-maker">{escape(maker)}</span></div>')
    head += f'<div class="ks-notice" role="note">{escape(notice)}</div>' if notice else ""
    head += "".join(f'<div class="ks-error"><b>{escape(label)}</b> {escape(why)}</div>'
                    for label, why in words.failures(result.measured))
    said = anatomy_text.conclusions(result)
    others = anatomy_text.sentences(result)[len(said):]
    tables = "".join(_case(result, case.name) for case in result.measured.cases)
    return f"{head}{_list(said)}{tables}{folded('What the parts are, and how they were measured', _list(others))}"


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
    for _, parts in anatomy_text.rows_of(result, labels, case):
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
    said = [f"{words.name(each.target)}, compared as a whole: {each.label}: "
            f"{' '.join(anatomy_text.difference_texts(each))} µs, {each.verdict}." for each in merged]
    statement = next(each.statement for each in result.measured.cases if each.name == case)
    note = f"{words.name(case)}: {words.name(statement)}" if statement != case else words.name(case)
    return heading("Host time of a launch", note) + html + _list(said)


def _name(part: PartTime) -> str:
    whole = " ks-whole" if part.key == LAUNCH else ""
    note = f" <small>{escape(shorten(clean(part.note), 60))}</small>" if part.note else ""
    about = anatomy_text.MEANINGS.get(anatomy_text.part_kind(part.key), "the whole launch, without stamps")
    return f'<td class="ks-left{whole}" title="{escape(about)}">{escape(part.key)}{note}</td>'


def _time(part: PartTime | None, compared: PartDifference | None) -> str:
    value, percent = anatomy_text.amount(part)
    if part is None:
        return f'<td><span class="ks-soft">{words.NOT_MEASURED}</span></td>'
    if part.us is None:
        return f'<td title="{escape(part.reason or "")}"><span class="ks-soft">not seen</span></td>'
    below = f"{percent} %" if percent else ""
    title = f"{value} µs"
    if compared is not None:
        difference, interval = anatomy_text.difference_texts(compared)
        kind = _CLASSES.get(compared.verdict, "ks-soft")
        sign = anatomy_text.sign_of(compared.verdict)
        title += f"; {difference} {interval} µs against the baseline: {compared.verdict}"
        below = f'{escape(below)} <span class="{kind}">{escape(f"{sign} {difference}")}</span>'
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


def _list(said: Sequence[str]) -> str:
    items = "".join(f"<li>{escape(each)}</li>" for each in said)
    return f'<ul class="ks-list">{items}</ul>' if items else ""
