"""An anatomy as text, as a card, and as Plotly figures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kernelscope.errors import StudyArgumentError
from kernelscope.studies import text as studies_text
from kernelscope.studies.arguments import shown
from kernelscope.studies.breakdown import (
    LAUNCH,
    UNATTRIBUTED,
    AnatomyResult,
    PartDifference,
    PartTime,
    unseen,
)
from kernelscope.studies.card import HEAD_STYLE, color_of
from kernelscope.studies.measured import FASTER, NO_DIFFERENCE, SLOWER
from kernelscope.studies.numbers import micros, share
from kernelscope.suggestions import did_you_mean
from kernelscope.units import counted
from kernelscope.views.base import clean, columns, escape, shorten, width_of, with_notice, wrap
from kernelscope.views.charts import COLORS, figure_of, figures_html, kernel_lines, labels_of, sentence
from kernelscope.views.charts import label as chart_label
from kernelscope.views.html import PAGE, folded, heading, style, table_of

if TYPE_CHECKING:
    import plotly.graph_objects as go


#: What each part is, from where to where.
MEANINGS = {
    "configure": "the statement, until the dispatcher is entered: k[grid, block], and the call of what it returns",
    "dispatch": "from argument types to the specialization; pre-launch callbacks",
    "set-up": "the specialization's function on this device, and what else comes before the arguments",
    "arguments": "each one to what the driver takes; host arrays are copied",
    "configuration object": "cuda.core's LaunchConfig",
    "submit": "the driver call",
    "finish": "until the statement is over: host arrays are copied back",
    "other": "between two boundaries whose parts cannot be told apart in this version",
    UNATTRIBUTED: "the launch without stamps less its parts: what stamps cost beyond what was taken off is negative",
}
_LABEL_WIDTH, _COMPARED_WIDTH, _NAME_WIDTH = 46, 64, 24


def text(result: AnatomyResult, width: int | None = None) -> str:
    """Return the anatomy as lines of text: where a target differs, the times, and what there is to know.

    Sentences keep to `width` columns, by default the terminal's, between 80 and 120; tables are as wide as they are.
    """
    width = columns(width)
    found = conclusions(result)
    lines = [title(result)]
    lines += [wrap(f"{label} {sentence}", width) for label, sentence in studies_text.failures(result.measured)]
    lines += [wrap(each, width) for each in found]
    for case in result.measured.cases:
        targets = [each.label for each in result.measured.targets if result.of(each.label, case.name)]
        if targets:
            lines += ["", f"{studies_text.name(case.name)}: µs/launch, with intervals of 95 %"]
            lines += _table(result, targets, case.name)
            for target in targets[1:]:
                lines += ["", *_differences(result, target, case.name)]
    lines += ["", "To know", *(wrap(each, width, 2, hanging=2) for each in sentences(result)[len(found):])]
    return with_notice(studies_text.notice(result.measured), "\n".join(lines))


def title(result: AnatomyResult) -> str:
    """Return what was taken apart."""
    measured = result.measured
    cases = counted(len(measured.cases), "case")
    return f"Anatomy of a launch: {counted(len(measured.targets), 'target')}, {cases}"


def sentences(result: AnatomyResult) -> list[str]:
    """Return what there is to say besides the times."""
    said = conclusions(result)
    for case in result.measured.cases:
        for target in result.measured.targets:
            for reason, keys in unseen(result.dissected, target.label, case.name).items():
                of = f" in {studies_text.name(case.name)}" if len(result.measured.cases) > 1 else ""
                said.append(f"{studies_text.name(target.label)}, not to be seen{of}: {_listed(keys)} "
                            f"({studies_text.name(reason)}).")
    keys = dict.fromkeys(part_kind(each.key) for each in result.parts if each.key != LAUNCH)
    said += [f"{key}: {MEANINGS[key]}." for key in keys if key in MEANINGS]
    said += [f"{label}: {why}".removeprefix(": ") for label, why in _remarks(result)]
    method = studies_text.method(result.measured)
    # The batches of the measured data are the rounds of an anatomy.
    return [*said, _amounts(result), *(sentence for sentence in method[1:] if sentence != studies_text.METHOD)]


def conclusions(result: AnatomyResult) -> list[str]:
    """Return where each target spends more, or less, than the baseline: a sentence a case and target."""
    said: list[str] = []
    for case in result.measured.cases:
        for target in result.measured.targets[1:]:
            found = [each for each in result.differences if (each.target, each.case) == (target.label, case.name)]
            if not found:
                continue
            whole = next(each for each in found if each.label == LAUNCH)
            parts = sorted((each for each in found if each.label != LAUNCH and each.verdict in ("slower", "faster")),
                           key=lambda each: -abs(each.difference_us))
            is_one = len(result.measured.cases) == 1
            what = studies_text.name(target.label) + ("" if is_one else f" in {studies_text.name(case.name)}")
            where = ", ".join(f"{each.label} {_signed(each)} µs" for each in parts[:4])
            much = (f"{whole.verdict} than {studies_text.name(whole.baseline)} by {abs(whole.difference_us):.2f} µs "
                    "a launch")
            overall = much if whole.verdict in ("slower", "faster") else f"the launch as a whole: {whole.verdict}"
            said.append(f"{what} is {much}: {where}." if whole.verdict in ("slower", "faster") and where else
                        f"{what}: {overall}; {where or 'no part differs'}.")
    return said


def part_kind(key: str) -> str:
    """Return the key under which a part is described."""
    return "arguments" if key.startswith("argument ") else key.partition(" ")[0] if key.startswith("other") else key


def label_of(part: PartTime) -> str:
    """Return a part's name, with what is known of it."""
    note = clean(part.note)
    return f"{part.key}, {note}" if note else part.key


def amount(part: PartTime | None) -> tuple[str, str]:
    """Return a part's time with half of its interval, and its share; empty texts where it was not timed."""
    if part is None or part.us is None or part.high_us is None:
        return "-", ""
    half = part.high_us - part.us
    percent = "" if part.share is None else share(part.share * 100)
    if not math.isfinite(half):  # one process is none that an interval is of
        return micros(part.us), percent
    return f"{micros(part.us, half)} +/- {micros(half, half)}", percent


def rows_of(result: AnatomyResult, targets: Sequence[str], case: str) -> list[tuple[str, list[PartTime | None]]]:
    """Return a row for each part that any of the targets has: its name, and its time in each of them."""
    held = [result.of(target, case) for target in targets]
    keys: list[str] = []
    for parts in held:
        for place, key in enumerate(parts):
            if key not in keys:
                # After the part that it follows in its own target.
                before = list(parts)[place - 1] if place else None
                keys.insert(keys.index(before) + 1 if before is not None else 0, key)
    rows: list[tuple[str, list[PartTime | None]]] = []
    for key in keys:
        found = [parts.get(key) for parts in held]
        if any(each is not None and each.us is not None for each in found):
            first = next(each for each in found if each is not None and each.us is not None)
            rows.append((label_of(first), found))
    return rows


def _table(result: AnatomyResult, targets: Sequence[str], case: str) -> list[str]:
    rows = [("part", [(shorten(clean(target), _NAME_WIDTH), "%") for target in targets])]
    for label, parts in rows_of(result, targets, case):
        rows.append((shorten(label, _LABEL_WIDTH), [amount(each) for each in parts]))
    first = max(width_of(label) for label, _ in rows)
    widths = [max(width_of(cells[place][0]) for _, cells in rows) for place in range(len(targets))]
    lines: list[str] = []
    for label, cells in rows:
        line = "  " + _padded(label, first)
        for width, (value, part) in zip(widths, cells, strict=True):
            line += f"  {_padded(value, width)} {part:>6}"
        lines.append(line.rstrip())
    return lines


def _differences(result: AnatomyResult, target: str, case: str) -> list[str]:
    found = [each for each in result.differences if (each.target, each.case) == (target, case)]
    if not found:
        return [f"{studies_text.name(target)} was not compared."]
    rows = [(shorten(each.label, _COMPARED_WIDTH), _signed(each), _interval(each), each.verdict) for each in found]
    widths = [max(width_of(row[place]) for row in rows) for place in range(3)]
    lines = [f"{studies_text.name(target)} less {studies_text.name(found[0].baseline)}, µs/launch:"]
    for row in rows:
        cells = [_padded(value, width) for value, width in zip(row, widths, strict=False)]
        lines.append(f"  {'  '.join(cells)}  {row[3]}".rstrip())
    return lines


def _amounts(result: AnatomyResult) -> str:
    rows = result.measured.batches
    if not rows:
        return "Nothing was measured."
    processes, rounds = len({row[2] for row in rows}), len({row[3] for row in rows})
    of = " of each target" if len(result.measured.targets) > 1 else ""
    loops = sorted({row[6] for row in rows})
    launches = f"{loops[0]:,} to {loops[-1]:,}" if len(loops) > 1 else f"{loops[0]:,}"
    return (f"{counted(processes, 'process', 'processes')}{of}, in each {counted(rounds, 'round')} with a dozen "
            f"batches a part, of {launches} launch{'es' * (loops[-1] > 1)}.")


def _remarks(result: AnatomyResult) -> list[tuple[str, str]]:
    said: list[tuple[str, str]] = []
    for target in result.measured.targets:
        said += [(studies_text.name(target.label), f"without {studies_text.name(case)}: {clean(why)}")
                 for case, why in target.unavailable.items()]
        said += [(studies_text.name(target.label), clean(warning)) for warning in target.warnings]
    return said + [("", clean(note)) for note in result.measured.notes]


def difference_texts(each: PartDifference) -> tuple[str, str]:
    """Return a difference and its interval, in microseconds."""
    return _signed(each), _interval(each)


def sign_of(verdict: str) -> str:
    """Return how a verdict is marked besides its word."""
    return {SLOWER: "▲", NO_DIFFERENCE: "="}.get(verdict, "▼" if verdict == "faster" else "?")


def _signed(each: PartDifference) -> str:
    return micros(each.difference_us, each.high_us - each.difference_us, signed=True)


def _interval(each: PartDifference) -> str:
    half = each.high_us - each.difference_us
    return f"[{micros(each.low_us, half, signed=True)}, {micros(each.high_us, half, signed=True)}]"


def _listed(keys: Sequence[str]) -> str:
    return ", ".join(dict.fromkeys(part_kind(key) for key in keys))


def _padded(value: str, width: int) -> str:
    return value + " " * (width - width_of(value))


# An anatomy as a card and as a page: each case a table of its parts, with a bar where each one lies in the launch.

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
    drawn = figures_html(figures, studies_text.notice(result.measured)) if figures else ""
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title(result))}</title><style>{PAGE}</style></head>\n"
        f"<body><main>{card(result)}\n{drawn}</main></body></html>\n"
    )


def _body(result: AnatomyResult) -> str:
    notice = studies_text.notice(result.measured)
    gpu = result.measured.gpu.get("name")
    maker = " · ".join(part for part in ("KernelScope", studies_text.name(gpu) if gpu else "") if part)
    head = (f'<div class="ks-top"><span class="ks-title" role="heading" aria-level="3">'
            f'{escape(title(result))}</span> <span class="ks-maker">{escape(maker)}</span></div>')
    head += f'<div class="ks-notice" role="note">{escape(notice)}</div>' if notice else ""
    head += "".join(f'<div class="ks-error"><b>{escape(label)}</b> {escape(why)}</div>'
                    for label, why in studies_text.failures(result.measured))
    said = conclusions(result)
    others = sentences(result)[len(said):]
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
    said = [f"{studies_text.name(each.target)}, compared as a whole: {each.label}: "
            f"{' '.join(difference_texts(each))} µs, {each.verdict}." for each in merged]
    statement = next(each.statement for each in result.measured.cases if each.name == case)
    note = studies_text.name(case) + (f": {studies_text.name(statement)}" if statement != case else "")
    return heading("Host time of a launch", note) + html + _list(said)


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
        difference, interval = difference_texts(compared)
        kind = _CLASSES.get(compared.verdict, "ks-soft")
        sign = sign_of(compared.verdict)
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


# Waterfalls of a launch, as Plotly figures: its parts one after the other, and from a baseline to a target.

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
    figure = _figure(result, title, len(parts))
    begun = 0.0
    for place, part in enumerate(parts):
        us = part.us or 0.0
        base = 0.0 if part.key == LAUNCH else begun
        figure.add_bar(
            x=[us], y=[place], base=[base], orientation="h", showlegend=False,
            marker={"color": _REST if part.key in (UNATTRIBUTED, LAUNCH) else COLORS[0], "line": {"width": 0}},
            error_x=_error((part.high_us or 0.0) - us), customdata=[chart_label(label_of(part))],
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
    title = f"Where {_trace_name(target)} differs, {_trace_name(case)}"
    if not found:
        return sentence(title, "No part was compared with another target's, so there is no difference to show.")
    title = f"Where {_trace_name(target)} differs from {_trace_name(found[0].baseline)}, {_trace_name(case)}"
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
            customdata=[chart_label(name)],
            hovertemplate=f"%{{customdata}}<br>{value:+.3f} µs, {verdict}{interval}<extra></extra>")
        begun += value
    kernel_lines(figure, labels_of([name for name, _, _ in rows]))
    figure.update_xaxes(title={"text": "µs more than the baseline", "font": {"size": 12}}, zeroline=True,
                        zerolinewidth=1.5)
    return figure


def _figure(result: AnatomyResult, title: str, rows: int) -> go.Figure:
    said = chart_label(studies_text.notice(result.measured))
    notice = f"<br><span style='font-size:11px;font-weight:normal'>{said}</span>"
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


def _trace_name(text: str) -> str:
    return chart_label(shorten(clean(text), _FIGURE_NAME_WIDTH))
