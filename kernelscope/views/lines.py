"""The table of lines of the user's code: for ``%kernelscope lines`` and ``kernelscope show --lines``."""

from __future__ import annotations

import sys

from kernelscope.analysis.lines import LineSummary, annotated, by_line
from kernelscope.recording.model import Recording
from kernelscope.recording.redact import shareable
from kernelscope.units import MISSING, duration, listed, size
from kernelscope.views.base import INDENT, clean, escape, shorten, table
from kernelscope.views.card.html import printed_listing
from kernelscope.views.card.sections import code_listing
from kernelscope.views.html import LINES_STYLE, folded, heading, style, style_element, table_of

_HEADERS = ("line", "function", "launches", "host", "compiling", "CUDA calls", "GPU", "waiting", "copied",
            "kernels", "code")
_LEFT = (0, 1, 9, 10)
_MOST = 40
#: What is shown for what has no known line.
NO_LINE = "no known line"
_NONE = "no line of code is known: lines are recorded unless --no-lines or lines=False leaves them out"


def lines_text(recording: Recording) -> str:
    """Return one line a line of code: launches, host time, compiles, CUDA calls, GPU time, waits, copies, kernels.

    What every output of a dry run or of the simulator must say stands first.
    """
    rows = _shown(recording)
    body = [_NONE] if not rows else [
        line.removeprefix(INDENT) for line in table(_HEADERS, rows, sys.maxsize, left=_LEFT).split("\n")]
    return "\n".join([*([f"*** {clean(recording.notice)} ***"] if recording.notice else []), *body])


def lines_card(recording: Recording) -> str:
    """Return the code with what its lines did, and the same table, as a self-contained fragment of HTML."""
    shared = shareable(recording)
    found = by_line(shared)
    body = ["".join(f'<td class="ks-left">{escape(text)}</td>' if place in _LEFT else f"<td>{escape(text)}</td>"
                    for place, text in enumerate(_columns(each))) for each in found]
    columns = [("", header[0].upper() + header[1:], "") for header in _HEADERS]
    notice = f'<div class="ks-notice">{escape(recording.notice)}</div>' if recording.notice else ""
    code = annotated(shared, found)
    shown = escape(_NONE)
    if code is not None:
        table = table_of(columns, body, left=_LEFT, dense=True, label="Lines of code")
        listing = printed_listing(code_listing(code, len(shared.rows("cells"))))
        shown = f"{listing}{folded('<b>as a table</b>', table)}"
    return f'{style_element(style(), LINES_STYLE)}<div class="kscope">{notice}{heading("Lines of code")}{shown}</div>'


def _shown(recording: Recording) -> list[tuple[str, ...]]:
    return [_columns(each) for each in by_line(shareable(recording))]


def _columns(each: LineSummary) -> tuple[str, ...]:
    where = NO_LINE if each.line_id is None else f"{clean(each.file or '')}:{each.line}"
    return (
        where, shorten(clean(each.function or ""), _MOST), f"{each.launches:,}",
        *(_time(value) for value in (
            each.host_ns if each.launches else 0, each.compile_ns, each.call_ns, each.gpu_ns, each.wait_ns)),
        MISSING if each.copied_bytes is None else "" if not each.copied_bytes else size(each.copied_bytes),
        shorten(clean(listed(each.kernels)), _MOST), shorten(clean(each.text or ""), 2 * _MOST))


def _time(value: int | None) -> str:
    return MISSING if value is None else "" if not value else duration(value)
