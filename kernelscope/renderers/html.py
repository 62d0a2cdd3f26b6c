"""The card: a recording as a self-contained fragment of HTML, and pages of cards.

A fragment carries its style inside and needs no script, no network and no id, so that any number of cards stand
in one notebook, and a saved or exported notebook shows them as they were.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from kernelscope.analysis.overview import Overview, overview
from kernelscope.recording.model import Recording
from kernelscope.recording.privacy import shareable
from kernelscope.renderers import words
from kernelscope.renderers.base import Makes, escape
from kernelscope.renderers.elements import heading, sentence
from kernelscope.renderers.gpu_parts import gpu_part
from kernelscope.renderers.graph_card import builds_part, graphs_part
from kernelscope.renderers.graph_svg import small
from kernelscope.renderers.parts import (
    bars,
    cells_part,
    compiles_part,
    configurations_part,
    kernels_part,
    legend,
    ranges_part,
)
from kernelscope.renderers.style import PAGE, style

MAKES = Makes("text/html", ".html")


def card(recording: Recording, *, paths: bool = False) -> str:
    """Return a self-contained fragment of HTML that shows what the recording holds.

    Parameters
    ----------
    recording : Recording
        What to show.
    paths : bool
        Keep full paths of this machine.
    """
    return f"<style>{style()}</style>{_of(recording, paths)}"


def page(recordings: Recording | Sequence[Recording], title: str) -> str:
    """Return a self-contained HTML document with one card a recording.

    Parameters
    ----------
    recordings : Recording or sequence of Recording
        What to show, in order.
    title : str
        The document's title and heading.
    """
    shown = [recordings] if isinstance(recordings, Recording) else recordings
    cards = "\n".join(map(_of, shown))
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{PAGE}{style()}</style></head>\n"
        f"<body><main><h1>{escape(title)}</h1>\n{cards}\n</main></body></html>\n"
    )


def _of(recording: Recording, paths: bool = False) -> str:
    shown = shareable(recording, paths=paths)
    return _body(overview(shown), partial(small, shown))


def _body(shown: Overview, picture: Callable[[int], str] | None = None) -> str:
    parts = [_head(shown)]
    if shown.is_empty:
        parts += [_empty(), ranges_part(shown)]
    else:
        parts += [
            _figures(shown), _phases(shown), gpu_part(shown), _advice(shown), cells_part(shown),
            kernels_part(shown), graphs_part(shown, picture), ranges_part(shown), compiles_part(shown),
            builds_part(shown), configurations_part(shown),
        ]
    parts.append(_foot(shown))
    return f'<div class="kscope">{"".join(parts)}</div>'


def _head(shown: Overview) -> str:
    chip = ""
    if shown.status:
        bad = "" if shown.status == "ok" else " ks-bad"
        chip = f'<span class="ks-chip{bad}">{escape(shown.status)}</span>'
    title = escape(shown.title)
    maker = escape(" · ".join(part for part in ("KernelScope", shown.device or "") if part))
    html = (
        f'<div class="ks-top"><span class="ks-title" role="heading" aria-level="3" title="{title}">{title}</span>'
        f'{chip}<span class="ks-maker">{maker}</span></div>'
    )
    if shown.notice:
        html += f'<div class="ks-notice" role="note">{escape(shown.notice)}</div>'
    if shown.error:
        html += f'<div class="ks-error">{escape(shown.error)}</div>'
    if shown.unfinished:
        html += f'<div class="ks-error">{escape(words.unfinished_note(shown))}</div>'
    return html


def _empty() -> str:
    checks = "".join(f"<li>{escape(check)}</li>" for check in words.EMPTY_CHECKS)
    return f'{heading(words.EMPTY, "check:")}<ul class="ks-list">{checks}</ul>'


def _figures(shown: Overview) -> str:
    figures = words.figures(shown)
    tiles = "".join(
        f'<div><div class="ks-label">{escape(figure.label)}</div><div class="ks-value">{escape(figure.value)}</div>'
        f'<div class="ks-note">{escape(figure.note)}</div></div>'
        for figure in figures
    )
    waited = words.synchronize_note(shown)
    note = f'<div class="ks-soft">{escape(waited)}</div>' if waited else ""
    six = " ks-six" if len(figures) > 5 else ""
    return f'<div class="ks-figures{six}">{tiles}</div>{note}'


def _phases(shown: Overview) -> str:
    if not shown.totals.segments:
        return ""
    return f"{heading('Host time in launches by phase')}{bars(shown.totals, large=True)}{legend(shown.totals)}"


def _advice(shown: Overview) -> str:
    if not shown.advice:
        return ""
    lines = "".join(f"<li>{sentence(each.text)}</li>" for each in shown.advice)
    return f'{heading("Advice")}<ul class="ks-list">{lines}</ul>'


def _foot(shown: Overview) -> str:
    lines = [f"<div>{escape(words.cost(shown))}</div>"]
    for row in shown.health:
        facts = words.health(row)
        text = f"{row.probe}: {row.status}" + (f", {facts}" if facts else "")
        fix = f' <span class="ks-fix"><b>Fix</b> {escape(row.fix)}</span>' if row.fix else ""
        kind = ' class="ks-trouble"' if row.is_trouble else ""
        lines.append(f"<div{kind}>{escape(text)}{fix}</div>")
    return f'<div class="ks-foot">{"".join(lines)}</div>'
