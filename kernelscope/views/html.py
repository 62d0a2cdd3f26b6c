"""HTML that views share: a card's headings, bars, names and tables, all escaped; its style sheet; whole documents."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from functools import cache

from kernelscope.palette import GPU_COLORS, PART_COLORS, PHASE_COLORS
from kernelscope.units import duration, percent
from kernelscope.views.base import clean, cut, escape

# The card's style sheet, scoped to its class: it reads no font, image or script from anywhere.
#
# Colors follow JupyterLab's theme variables, then VS Code's, then the system's light or dark preference.

_VARIABLES = """
.kscope {
  --ks-system-ground: #ffffff; --ks-system-ink: #1b1f24; --ks-system-soft: #57606a; --ks-system-link: #0a5fb4;
  --ks-ground: var(--jp-layout-color1, var(--vscode-editor-background, var(--ks-system-ground)));
  --ks-ink: var(--jp-ui-font-color1, var(--vscode-editor-foreground, var(--ks-system-ink)));
  --ks-soft: var(--jp-ui-font-color2, var(--vscode-descriptionForeground, var(--ks-system-soft)));
  --ks-accent: var(--jp-content-link-color, var(--vscode-textLink-foreground, var(--ks-system-link)));
  --ks-line: rgba(127, 127, 127, .26);
  --ks-tint: rgba(127, 127, 127, .08);
  --ks-warn: #d98200; --ks-alarm: rgba(217, 130, 0, .14);
  --ks-font: var(--jp-ui-font-family, var(--vscode-font-family, system-ui, -apple-system, "Segoe UI", sans-serif));
  --ks-mono: var(--jp-code-font-family, var(--vscode-editor-font-family, ui-monospace, "SFMono-Regular", Menlo,
    Consolas, "DejaVu Sans Mono", monospace));
}
@media (prefers-color-scheme: dark) {
  .kscope {
    --ks-system-ground: #16191d; --ks-system-ink: #e4e7eb; --ks-system-soft: #a0a8b2; --ks-system-link: #6cb6ff;
  }
}
"""

_FRAME = """
.kscope {
  box-sizing: border-box; max-width: 1180px; margin: 4px 0; padding: 16px 18px 12px; text-align: left;
  font: 13px/1.45 var(--ks-font); color: var(--ks-ink); background: var(--ks-ground);
  border: 1px solid var(--ks-line); border-radius: 8px; container-type: inline-size;
  font-variant-numeric: tabular-nums; print-color-adjust: exact; -webkit-print-color-adjust: exact;
}
.kscope *, .kscope *::before { box-sizing: border-box; }
.kscope .ks-top { display: flex; flex-wrap: wrap; align-items: baseline; gap: 0 10px; margin: 0; }
.kscope .ks-title { flex: 0 1 auto; min-width: 0; font-size: 15px; font-weight: 600; overflow-wrap: anywhere;
  display: -webkit-box; -webkit-box-orient: vertical; -webkit-line-clamp: 2; overflow: hidden; }
.kscope .ks-maker { margin-left: auto; flex: none; max-width: 45%; color: var(--ks-soft); font-size: 12px;
  text-align: right; overflow-wrap: anywhere; }
.kscope .ks-chip { flex: none; padding: 0 8px; border: 1px solid var(--ks-line); border-radius: 9px;
  font-size: 11.5px; line-height: 18px; color: var(--ks-soft); white-space: nowrap; }
.kscope .ks-chip.ks-bad { border-color: var(--ks-warn); color: var(--ks-ink);
  background: var(--ks-alarm); }
.kscope .ks-notice { flex: 0 1 auto; padding: 0 8px; border: 1px solid var(--ks-warn); border-radius: 9px;
  background: var(--ks-alarm); font-size: 11.5px; line-height: 18px; font-weight: 600; }
.kscope div.ks-notice { display: inline-block; margin: 8px 0 0; }
.kscope .ks-error { margin: 8px 0 0; padding: 5px 12px; border-left: 3px solid var(--ks-warn); border-radius: 3px;
  background: var(--ks-alarm); overflow-wrap: anywhere; }
.kscope .ks-error { font-family: var(--ks-mono); font-size: 12px; }
.kscope .ks-verdict { margin: 8px 0 0; font-size: 14px; font-weight: 500; overflow-wrap: anywhere; }
.kscope .ks-said { margin: 4px 0 0; overflow-wrap: anywhere; }
.kscope .ks-figures { display: flex; flex-wrap: wrap; gap: 0 14px; color: var(--ks-soft);
  font-size: 12px; }
.kscope .ks-head { margin: 18px 0 4px; font-size: 13px; font-weight: 600; }
.kscope .ks-head span, .kscope .ks-soft { color: var(--ks-soft); font-weight: 400; }
.kscope .ks-soft { font-size: 12px; }
.kscope .ks-sections { display: flex; flex-wrap: wrap; gap: 4px 6px; margin: 9px 0 0; }
.kscope details.ks-part { flex: 0 1 auto; max-width: 100%; margin: 0; padding: 0; border: 1px solid var(--ks-line);
  border-radius: 5px; }
.kscope details.ks-part[open] { flex: 1 0 100%; min-width: 0; padding: 0 8px 6px; }
.kscope details.ks-part > summary { padding: 1px 7px 1px 4px; font-size: 12.5px; }
.kscope details.ks-part[open] > summary { margin: 0 -8px; padding: 3px 9px 3px 6px; }
.kscope .ks-finding { padding: 4px; overflow-wrap: anywhere; }
.kscope .ks-finding .ks-name { display: inline-flex; max-width: 40%; vertical-align: bottom; font-weight: 600; }
.kscope ul.ks-list { margin: 4px 0 0; padding: 0 0 0 18px; list-style: disc; }
.kscope ul.ks-list li { margin: 0 0 3px; padding: 0; overflow-wrap: anywhere; }
.kscope .ks-foot { padding: 2px 4px 0; color: var(--ks-soft); font-size: 12px; overflow-wrap: anywhere; }
.kscope .ks-foot div { margin: 0 0 2px; }
.kscope .ks-foot .ks-trouble { color: var(--ks-ink); padding-left: 9px; border-left: 3px solid var(--ks-warn); }
"""

_BARS = """
.kscope .ks-bar { display: flex; gap: 1px; height: 10px; margin: 0; overflow: hidden; border-radius: 2px; }
.kscope .ks-bar.ks-large { height: 14px; margin: 6px 0 8px; border-radius: 3px; }
.kscope .ks-bar.ks-thin { height: 4px; margin: 3px 0 0; border-radius: 1px; }
.kscope .ks-large + .ks-thin { height: 6px; margin: -4px 0 9px; }
.kscope .ks-bar span { min-width: 2px; }
.kscope .ks-histograms { display: flex; gap: 10px; margin: 4px 0 0; }
.kscope .ks-histogram { flex: 1 1 0; display: flex; align-items: flex-end; gap: 1px; height: 14px; }
.kscope .ks-histogram span { flex: 1 1 0; background: var(--ks-soft); }
.kscope .ks-legend { display: flex; flex-wrap: wrap; gap: 3px 20px; margin: 0; padding: 0; font-size: 12px; }
.kscope .ks-legend div { display: inline-flex; align-items: baseline; gap: 6px; }
.kscope .ks-legend b { font-weight: 600; }
.kscope .ks-key { display: inline-block; width: 9px; height: 9px; border-radius: 2px; }
.kscope .ks-share { display: grid; grid-template-columns: auto minmax(0, 1fr); gap: 0 10px; align-items: start;
  margin: 6px 0 0; }
.kscope .ks-share > .ks-device { font-size: 12px; line-height: 15px; min-width: 26px; }
.kscope .ks-share .ks-large { margin: 0 0 5px; }
.kscope ul.ks-facts { margin-top: 7px; }
.kscope .ks-idle, .kscope .ks-outside { background: rgba(127, 127, 127, .24); }
.kscope .ks-unsplit { background: repeating-linear-gradient(135deg, rgba(127, 127, 127, .75) 0 2px,
  rgba(127, 127, 127, .22) 2px 5px); }
"""

# A column is at least as wide as its numbers are in the page's font, and a table that has too little room then scrolls.
# Names and texts give way: a name is cut off in its middle, a text is broken.
_TABLES = """
.kscope .ks-x { overflow-x: auto; }
.kscope table.ks-table { display: table; width: 100%; margin: 0; border: 0; border-collapse: collapse;
  border-spacing: 0; table-layout: auto; font-size: 12.5px; color: inherit; background: none; }
.kscope table.ks-table tr:nth-child(n), .kscope table.ks-table thead, .kscope table.ks-table tbody tr:nth-child(n) {
  background: none; border: 0; }
.kscope table.ks-table tbody tr:nth-child(n):hover { background: var(--ks-tint); }
.kscope table.ks-table th, .kscope table.ks-table td { padding: 6px 0 6px 14px; border: 0; text-align: right;
  vertical-align: top; font-weight: 400; white-space: nowrap; max-width: none; line-height: 1.4; }
.kscope table.ks-table th:first-child, .kscope table.ks-table td:first-child { padding-left: 4px; }
.kscope table.ks-table th:last-child, .kscope table.ks-table td:last-child { padding-right: 4px; }
.kscope table.ks-table th { padding-top: 3px; padding-bottom: 4px; color: var(--ks-soft); font-size: 11.5px;
  vertical-align: bottom; border-bottom: 1px solid var(--ks-line); background: none; }
.kscope table.ks-table tbody tr + tr td { border-top: 1px solid var(--ks-line); }
.kscope table.ks-table .ks-left { text-align: left; white-space: normal; overflow-wrap: anywhere; min-width: 72px; }
.kscope table.ks-table .ks-left:first-child { min-width: 112px; }
.kscope table.ks-table :is(td, td > [data-ks-at]) > .ks-name { contain: inline-size; }
.kscope table.ks-table td > [data-ks-at] > .ks-name { contain-intrinsic-inline-size: 18ch; }
.kscope table.ks-table small { display: block; color: var(--ks-soft); font-size: 11.5px; font-weight: 400; }
.kscope table.ks-table.ks-dense td { padding-top: 2px; padding-bottom: 2px; }
.kscope table.ks-table .ks-phase { padding-top: 10px; }
.kscope :is(col.ks-number, col.ks-built, col.ks-requests) { width: 78px; }
.kscope col.ks-time, .kscope col.ks-gpu, .kscope col.ks-execute { width: 84px; }
.kscope col.ks-word { width: 104px; }
.kscope col.ks-phases { width: 22%; }
.kscope col.ks-share { width: 13%; }
.kscope .ks-name { display: flex; min-width: 0; font-family: var(--ks-mono); font-size: 12.5px;
  unicode-bidi: isolate; white-space: pre; }
.kscope .ks-name span:first-child { overflow: hidden; text-overflow: ellipsis; }
.kscope .ks-name span + span { flex: none; }
.kscope summary .ks-name { display: inline-flex; max-width: 60%; margin-right: 6px; vertical-align: bottom;
  color: var(--ks-ink); font-weight: 600; }
.kscope .ks-code { font-family: var(--ks-mono); font-size: 11.5px; unicode-bidi: isolate; }
.kscope .ks-arg { font-family: var(--ks-mono); font-size: 0.92em; font-weight: 600; unicode-bidi: isolate; }
.kscope table.ks-table small.ks-line { display: -webkit-box; -webkit-box-orient: vertical;
  -webkit-line-clamp: 2; overflow: hidden; white-space: normal; overflow-wrap: anywhere; }
.kscope .ks-go { display: none; }
.kscope details details { margin-left: 14px; }
.kscope .ks-fix { display: block; color: var(--ks-soft); }
.kscope .ks-fix b { color: var(--ks-accent); font-weight: 600; }
.kscope details { margin: 4px 0 0; padding: 0; }
.kscope summary { display: list-item;
  padding: 3px 4px; border-radius: 4px; color: var(--ks-soft); font-size: 12.5px; cursor: pointer; }
.kscope summary:hover { background: var(--ks-tint); color: var(--ks-ink); }
.kscope summary b { color: var(--ks-ink); font-weight: 600; }
.kscope .ks-scroll { max-height: 380px; margin: 2px 0 0; overflow: auto; }
.kscope .ks-scroll:has(> .ks-graph) { max-height: none; }
.kscope .ks-graph svg { display: block; max-width: 100%; height: auto; margin: 6px 0; }
:is([data-jp-theme-light=true], .vscode-light) .kscope img { color-scheme: light; }
:is([data-jp-theme-light=false], .vscode-dark) .kscope img { color-scheme: dark; }
.kscope .ks-sub { margin: 10px 0 0; }
"""

# Of code with a gutter: the column of the code takes what is left, and cuts lines off.
_LINES = """
.kscope .ks-scroll:has(> .ks-lines) { max-height: 520px; }
.kscope table.ks-lines thead :is(th, td) { position: sticky; top: 0; z-index: 1; background: var(--ks-ground);
  border-bottom: 1px solid var(--ks-line); }
.kscope table.ks-lines tbody tr:nth-child(n) td { border: 0; padding-top: 0; padding-bottom: 0; line-height: 19px; }
.kscope table.ks-lines :is(tbody, tfoot) td { vertical-align: baseline; }
.kscope table.ks-lines tfoot { position: sticky; bottom: 0; background: var(--ks-ground);
  box-shadow: 0 -1px var(--ks-line); }
.kscope table.ks-lines tfoot td:nth-child(n) { padding-top: 1px; padding-bottom: 1px; color: var(--ks-soft); }
.kscope table.ks-lines tbody th { border: 0; padding-top: 6px; color: var(--ks-ink); }
.kscope table.ks-lines .ks-src { width: 100%; max-width: 0; min-width: 170px; overflow: hidden; text-align: left;
  text-overflow: ellipsis; white-space: pre; }
.kscope table.ks-lines tbody td.ks-src { font: 12px/19px var(--ks-mono); unicode-bidi: isolate; direction: ltr; }
.kscope table.ks-lines .ks-src i { margin-right: 12px; color: var(--ks-soft); font-style: normal; }
.kscope table.ks-lines .ks-quiet, .kscope table.ks-lines .ks-quiet summary { color: var(--ks-soft); }
.kscope table.ks-lines details { margin: 0; }
.kscope table.ks-lines summary { display: block; padding: 0; font: inherit; }
.kscope table.ks-lines details div { overflow-x: auto; white-space: pre; }
.kscope table.ks-lines tbody .ks-heat { min-width: 66px; padding-left: 10px; font-size: 0; text-align: left;
  vertical-align: middle; }
.kscope table.ks-lines .ks-heat span { display: inline-block; height: 9px; vertical-align: middle; }
@container (max-width: 760px) {
  .kscope table.ks-lines :is(th, td) { padding-left: 6px; font-size: 12px; }
  .kscope table.ks-lines tbody .ks-heat { min-width: 32px; padding-left: 6px; }
}
"""

# Where so many columns leave the code too little room, a line has the whole width, and its numbers are below it.
_STACKED_LINES = """
@container (max-width: {width}px) {{
  .kscope {table}, .kscope {table} :is(thead, tbody, tfoot) {{ display: block; }}
  .kscope {table} thead {{ position: sticky; top: 0; z-index: 1; background: var(--ks-ground);
    border-bottom: 1px solid var(--ks-line); }}
  .kscope {table} tr {{ display: flex; flex-wrap: wrap; }}
  .kscope {table} tr:nth-child(n) > :is(th, td) {{ flex: 1 1 0; min-width: min-content; padding: 0 4px; border: 0; }}
  .kscope {table} tr:nth-child(n) > th {{ white-space: normal; }}
  .kscope {table} tbody tr:nth-child(n) > th {{ padding-top: 6px; }}
  .kscope {table} tr:nth-child(n) > td:nth-last-child(2) {{ flex-grow: .6; }}
  .kscope {table} tbody tr:has(.ks-heat):not(.ks-marked) {{ margin: 1px 0; background: var(--ks-tint); }}
  .kscope {table} tr:nth-child(n) > .ks-src {{ order: -1; flex: 1 0 100%; min-width: 0; max-width: 100%; }}
  .kscope {table} :is(tbody tr:not(:has(.ks-heat)) td:empty, thead .ks-left) {{ display: none; }}
}}
"""

#: The style sheet of code with a gutter, where there is any.
LINES_STYLE = _LINES + "".join([
    _STACKED_LINES.format(width=width, table=f"table.ks-lines:has(thead th:nth-of-type({columns + 1}))")
    for width, columns in ((760, 5), (560, 3))])

_SIZES = """
@container (max-width: 760px) {
  .kscope col.ks-number { width: 74px; }
  .kscope col.ks-time, .kscope col.ks-gpu, .kscope col.ks-execute { width: 70px; }
  .kscope col.ks-word { width: 92px; }
  .kscope col.ks-phases { width: 17%; }
  .kscope table.ks-table th, .kscope table.ks-table td { padding-left: 10px; }
}
@container (max-width: 680px) {
  .kscope .ks-top { flex-wrap: wrap; row-gap: 2px; }
  .kscope table.ks-table:has(col.ks-execute) :is(col, th, td):nth-child(4) { display: none; }
}
@container (max-width: 680px) {
  .kscope table.ks-table:has(col.ks-gpu + col.ks-phases) :is(col, th, td):last-child { display: none; }
}
@container (max-width: 560px) {
  .kscope table.ks-table .ks-left:first-child { min-width: 84px; }
  .kscope table.ks-table:has(col.ks-phases) :is(col, th, td):last-child { display: none; }
}
@media print {
  .kscope { break-inside: auto; max-width: none; }
  .kscope .ks-scroll { max-height: none; overflow: visible; }
  .kscope tr, .kscope .ks-figures { break-inside: avoid; }
}
"""

# Where a table with such a column is too narrow, a row's name is above its numbers, which share the width evenly.
_STACKED = """
@container (max-width: {width}px) {{
  .kscope {table} {{ display: block; }}
  .kscope {table} :is(thead, tbody) {{ display: block; }}
  .kscope {table} tr {{ display: flex; flex-wrap: wrap; }}
  .kscope {table} :is(th, td) {{ flex: 1 1 0; min-width: min-content; padding: 0 4px 6px; border: 0; }}
  .kscope {table} th {{ white-space: normal; }}
  .kscope {table} :is(th, td):first-child {{ flex: 1 0 100%; min-width: 0; padding-top: 6px; }}
  .kscope {table} thead tr:nth-child(n) {{ border-bottom: 1px solid var(--ks-line); }}
  .kscope {table} tbody tr + tr:nth-child(n) {{ border-top: 1px solid var(--ks-line); }}
  .kscope {table} tbody tr + tr td {{ border: 0; }}
}}
"""

#: A page of cards has one ground for all of them.
PAGE = """
:root { color-scheme: light dark; }
body { margin: 0; padding: 28px 20px; background: #f4f5f7; font: 14px/1.5 system-ui, sans-serif; color: #1b1f24; }
main { max-width: 1180px; margin: 0 auto; }
h1 { margin: 0 0 14px; font-size: 20px; font-weight: 600; overflow-wrap: anywhere; }
main .kscope { margin: 0 0 18px; }
@media (prefers-color-scheme: dark) { body { background: #0d0f12; color: #e4e7eb; } }
@media print { body { padding: 0; background: none; } }
"""

#: A further style of documents that a frame in another page shows.
FRAMED = """
body { padding: 0; background: none; }
main { max-width: none; }
main .kscope, main .ksv { max-width: none; margin: 0; }
"""


def style() -> str:
    """Return the style sheet of one or more cards."""
    colors = PHASE_COLORS | GPU_COLORS | PART_COLORS
    phases = "".join(
        f".kscope .ks-{name} {{ background: {color}; }}\n" for name, color in colors.items()
    ) + f".kscope .ks-histogram.ks-on-gpu span {{ background: {GPU_COLORS['kernel']}; }}\n"
    stacked = (_STACKED.format(width=width, table=f"table.ks-table:has({columns})")
               for width, columns in ((680, "col.ks-built"), (560, "col.ks-phases, col.ks-requests")))
    return "".join((_VARIABLES, _FRAME, _BARS, phases, _TABLES, _SIZES, *stacked))


def style_element(*sheets: str) -> str:
    """Return style sheets as an element, for a fragment of HTML.

    They are in a comment, which style sheets may have around them: what takes the element away, as hosts of notebooks
    do, would otherwise leave its text to be read.
    """
    return f"<style><!--\n{_compact(''.join(sheets))}\n--></style>"


@cache
def _compact(sheet: str) -> str:
    """Return a style sheet with no more spaces than it needs: each card of a notebook has it."""
    return re.sub(r" ?([{};,]) ?|(?<=:) ", r"\1", " ".join(sheet.split()))


# What the card's parts are made of.

#: A name's end that stays in sight when its middle is cut off.
_TAIL = 14
_QUOTED = re.compile(r"`([^`<>]+)`")
_LEFT = ' class="ks-left"'


def heading(text: str, note: str = "") -> str:
    """Return a part's heading. It is no <h4>: JupyterLab lists those in its table of contents."""
    more = f" <span>{escape(note)}</span>" if note else ""
    return f'<div class="ks-head" role="heading" aria-level="4">{escape(text)}{more}</div>'


def part(key: str, heading: str, number: str, inside: str, is_open: bool, explanation: str = "") -> str:
    """Return a part of a card that can be folded, under a heading that carries its number; `inside` is HTML."""
    title = f' title="{escape(explanation)}"' if explanation else ""
    figures = f': <span>{escape(number)}</span>' if number else ""
    return (f'<details class="ks-part" data-ks-part="{escape(key)}"{" open" * is_open}><summary{title}>'
            f'<b role="heading" aria-level="4">{escape(heading)}</b>{figures}</summary>{inside}</details>')


def histogram(counts: Sequence[int], *, on_gpu: bool = False) -> str:
    """Return a histogram as bars beside each other; an empty string where nothing was counted, or all in one bin.

    It is of the host time of launches, or with `on_gpu` of the time of kernels on the GPU.
    """
    if sum(each > 0 for each in counts) < 2:
        return ""
    most = max(counts)
    # A single launch among thousands is still seen.
    bars = "".join([f'<span style="height:{max(round(100 * each / most), 12) if each else 0}%"></span>'
                    for each in counts])
    what, kind = ("kernels ran how long on the GPU", " ks-on-gpu") if on_gpu else ("launches took how long", "")
    text = (f"how many of {sum(counts):,} {what}: from the shortest of all kernels to the longest, on a log scale"
            f"{'' if on_gpu else ', without compiles'}")
    return f'<div class="ks-histogram{kind}" role="img" aria-label="{text}" title="{text}">{bars}</div>'


def bar(parts: Sequence[tuple[str, str, int]], whole_ns: int, kind: str, prefix: str = "") -> str:
    """Return a bar of parts of a whole: exact numbers are its tooltips, and its text for screen readers.

    A part has the name that selects its color, a label and a duration in nanoseconds. What the parts lack of the whole
    stays empty.
    """
    whole = max(whole_ns, 1)
    rest = whole - sum(value for *_, value in parts)
    names = [f"{prefix}{label} {duration(value)} ({value:,} ns, {percent(value / whole)})" for _, label, value in parts]
    texts = [escape(each) for each in names]
    pieces = "".join([f'<span class="ks-{name}" style="flex:{value} 1 0" title="{text}"></span>'
                      for (name, _, value), text in zip(parts, texts, strict=True)])
    if rest > 0:
        pieces += f'<span style="flex:{rest} 1 0"></span>'
    return f'<div class="{kind}" role="img" aria-label="{", ".join(texts)}">{pieces}</div>'


def name_of(text: str) -> str:
    """Return a name that gives way in its middle where it has too little room; its title has all of it (`cut`)."""
    text = cut(text)
    shown = clean(text)
    if len(shown) <= 2 * _TAIL:
        return f'<span class="ks-name" title="{escape(text)}"><span>{escape(shown)}</span></span>'
    return (
        f'<span class="ks-name" title="{escape(text)}"><span>{escape(shown[:-_TAIL])}</span>'
        f"<span>{escape(shown[-_TAIL:])}</span></span>"
    )


def sentence(text: str) -> str:
    """Return a sentence of the analysis, in which names in `backticks` are set as code."""
    return _QUOTED.sub(r'<span class="ks-arg">\1</span>', escape(text))


def _lines(text: str) -> str:
    """Return lines for an attribute that is a tooltip."""
    return "&#10;".join([escape(line) for line in text.split("\n")])


def two(value: str, below: str) -> str:
    """Return a table's cell of two lines."""
    return f"<td>{escape(value)} <small>{escape(below)}</small></td>"


def table_of(
    columns: Sequence[tuple[str, str, str]], rows: Sequence[str], *, left: Sequence[int] = (0,), dense: bool = False,
    meanings: Sequence[str] = (), label: str = "", is_rest: bool = False,
) -> str:
    """Return a table of the card's kind.

    Columns are (class of width, label, label of the line below); rows are cells that are already HTML. A column is
    as wide as its class says, and wider where its numbers need it; the others share what is left. The `meanings` are
    those of the columns, and the `label` is what readers of the screen call the table. One that `is_rest` has further
    rows of the table before it, with which they are sorted.
    """
    widths = "".join([f'<col class="ks-{width}">' if width else "<col>" for width, _, _ in columns])
    titles = [f' title="{_lines(each)}"' if each else "" for each in meanings] or [""] * len(columns)
    labels = "".join([
        f'<th scope="col"{_LEFT if place in left else ""}{titles[place]}>{escape(label)}'
        + (f" <small>{escape(below)}</small>" if below else "") + "</th>"
        for place, (_, label, below) in enumerate(columns)
    ])
    named = (f' aria-label="{escape(label)}"' if label else "") + " data-ks-rest" * is_rest
    body = "".join([f"<tr>{row}</tr>" for row in rows])
    kind = "ks-table" + (" ks-dense" if dense else "")
    return (
        f'<div class="ks-x"><table class="{kind}"{named}><colgroup>{widths}</colgroup><thead><tr>{labels}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def folded(summary: str, inside: str, is_open: bool = False, *, scrolls: bool = True) -> str:
    """Return a part that is folded, or can be; it scrolls where it is high. The texts are HTML."""
    inside = f'<div class="ks-scroll">{inside}</div>' if scrolls else inside
    return f'<details{" open" * is_open}><summary>{summary}</summary>{inside}</details>'


def left_out(rows: int, *, is_sorted: bool = False) -> str:
    """Return how many rows a table lacks, if any; one that `is_sorted` by its columns says that these are not."""
    apart = ", which are not on this page: a click on a column sorts the others" if is_sorted else ""
    return f'<div class="ks-soft">and {rows:,} more{apart}</div>' if rows else ""


def image(svg: str, description: str, style: str, attributes: str = "") -> str:
    """Return an SVG document as an ``<img>``; `attributes` are HTML.

    JupyterLab shows no inline SVG of a notebook that it does not trust, but images with their data inside.
    """
    data = base64.b64encode(svg.encode("utf-8", "replace")).decode("ascii")
    return f'<img alt="{escape(description)}" {attributes} style="{style}" src="data:image/svg+xml;base64,{data}">'


def document(
    title: str, body: str, style: str = "", script: str = "", images: str = "", data: str = ""
) -> str:
    """Return a self-contained HTML document on the ground of `PAGE`.

    One with a script fetches nothing: its content security policy forbids every connection, and every script but this
    one and what its body holds as data.

    Parameters
    ----------
    title : str
        Plain text.
    body, style : str
        HTML, and a further style sheet.
    script : str
        A module that runs once the body is there, without `data`.
    images : str
        Where images may come from, as in ``data:``; with a script only.
    data : str
        HTML after the script, which the script does not wait for.
    """
    policy = ""
    if script:
        digest = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
        sources = f"img-src {images}; " if images else ""
        policy = (
            f"<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src 'sha256-{digest}'; "
            f"style-src 'unsafe-inline'; {sources}base-uri 'none'; form-action 'none'\">"
        )
        body += f'<script type="module"{" async" * bool(data)}>{script}</script>{data}'
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">{policy}'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{PAGE}{style}</style></head>\n<body>{body}</body></html>\n"
    )
