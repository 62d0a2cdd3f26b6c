"""The inspector as static HTML, which a saved notebook shows: kernels, specializations, reasons and some code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kernelscope.analysis.code import CODE_KINDS, CodeRows
from kernelscope.analysis.signatures import short_arguments
from kernelscope.recording.model import Recording
from kernelscope.units import MISSING, counted, size
from kernelscope.views.base import escape
from kernelscope.views.html import heading, name_of, sentence, style, style_element, table_of
from kernelscope.views.inspector.counts import Note, kernel_notes
from kernelscope.views.inspector.model import (
    Compile,
    Kernel,
    Specialization,
    about,
    code_of,
    compile_title,
    fields,
    figures,
)
from kernelscope.views.keys import link_keys

#: So many characters of code and of facts are in a saved notebook at most.
MOST_CODE = 200_000
MOST_FACTS = 300_000
_FORMS = ("source", "mlir", "ttir", "ttgir", "ptx", "sass")
# The columns' labels: a value is above related ones.
_COLUMNS = (
    ("registers",), ("static shared memory", "local memory", "constant memory"), ("spills",),
    ("most threads a block",), ("machine code", "compute capability"), ("LC-S",), ("origin", "took"),
    ("launches", "median host time"), ("configurations",), ("cache files",),
)
_LEFT = (0, 6, 7, 9, 10)
_STYLE = """
.kscope table.ks-table[aria-label="Specializations"] :is(th, td):is(:nth-child(7), :nth-child(10)) { min-width: 104px; }
.kscope .ks-listing { max-height: 420px; margin: 2px 0 6px; padding: 8px 10px; overflow: auto; white-space: pre;
  border: 1px solid var(--ks-line); border-radius: 6px; color: inherit; background: none;
  font: 11.5px/1.45 var(--ks-mono); unicode-bidi: isolate; tab-size: 4; }
"""


def static_html(recording: Recording, kernels: Sequence[Kernel], limit: int = MOST_CODE) -> str:
    """Return a self-contained fragment of HTML that shows the kernels.

    Parameters
    ----------
    recording : Recording
        What holds their code.
    kernels : sequence of Kernel
        What `kernelscope.views.inspector.model.inspect_kernels` returns.
    limit : int
        So many characters of code go in at most; what does not fit is named.
    """
    limited, rows, keys = _Limit(limit), CodeRows(recording), link_keys(recording)
    notes = kernel_notes(recording)
    parts: list[str] = []
    written = 0
    for at, each in enumerate(kernels):
        if written > MOST_FACTS:
            parts.append(f'<div class="ks-soft">{counted(len(kernels) - at, "more kernel")} left out for size</div>')
            break
        parts.append(_kernel(recording, each, rows, limited, keys, notes, is_open=len(kernels) == 1))
        written += len(parts[-1]) - limited.taken_last()
    if not kernels:
        parts.append(heading("There is no kernel in it"))
    if limited.left_out:
        parts.append(f'<div class="ks-soft">Code left out for size: {counted(limited.left_out, "text")} of '
                     f"{escape(size(limited.left_out_size))}; the recording or the kernel has it.</div>")
    notice = f'<div class="ks-notice" role="note">{escape(recording.notice)}</div>' if recording.notice else ""
    title = " · ".join(["Inspector", *([recording.name] if recording.name else [])])
    return (
        f"{style_element(style(), _STYLE)}"
        f'<div class="kscope"><div class="ks-top"><span class="ks-title" role="heading" aria-level="3">{escape(title)}'
        f'</span> <span class="ks-maker">KernelScope</span></div>{notice}{"".join(parts)}</div>'
    )


class _Limit:
    """How much code still fits."""

    def __init__(self, limit: int) -> None:
        self._left = limit
        self._taken = 0
        self.left_out = 0
        self.left_out_size = 0

    def takes(self, text: str) -> bool:
        """Return whether a text fits, and count it if it does not."""
        if len(text) > self._left:
            self.left_out += 1
            self.left_out_size += len(text)
            return False
        self._left -= len(text)
        self._taken += len(text)
        return True

    def taken_last(self) -> int:
        """Return the amount taken since the last call."""
        taken, self._taken = self._taken, 0
        return taken


def _kernel(recording: Recording, kernel: Kernel, rows: CodeRows, limited: _Limit,
            keys: tuple[dict[int, str], dict[int, str]], notes: Mapping[int | None, Sequence[Note]], *,
            is_open: bool) -> str:
    columns = [("", "arguments", ""), *(("", first, ", ".join(below)) for first, *below in _COLUMNS)]
    cells = [_row(each, keys[1].get(each.specialization_id, "")) for each in kernel.specializations]
    table = table_of(columns, cells, left=_LEFT, label="Specializations") if cells else ""
    key = keys[0].get(kernel.dispatcher_id, "")
    name = f'<span data-ks-at="kernels:{kernel.dispatcher_id}">{name_of(kernel.name)}</span>'
    lines = [_reason(each.number, made) for each in kernel.specializations for made in each.compiles if made.reason]
    reasons = "" if not lines else f'{heading("Why it was compiled")}<ul class="ks-list">{"".join(lines)}</ul>'
    return (
        f"<details{' open' if is_open else ''}><summary{_keyed(key)}>{name} {escape(figures(kernel))}</summary>"
        f'<div class="ks-soft">{escape(" · ".join(about(kernel)))}</div>'
        f"{table}{reasons}{_notes(notes.get(kernel.dispatcher_id, ()))}"
        f"{_code(recording, kernel, rows, limited)}</details>"
    )


def _keyed(key: str) -> str:
    """Return the attribute by which other views of a page find a kernel or a specialization."""
    return f' data-ks-key="{key}"' if key else ""


def _row(each: Specialization, key: str) -> str:
    known = {field.label: field.text for field in fields(each)}
    cells = [f'<td class="ks-left" title="{escape(each.signature)}"{_keyed(key)}><span class="ks-code">'
             f"{escape(short_arguments(each.arguments))}</span> <small>#{each.number}</small></td>"]
    for at, labels in enumerate(_COLUMNS, 1):
        value, *below = (known.get(label) or MISSING for label in labels)
        kind = ' class="ks-left"' if at in _LEFT else ""
        cells.append(f"<td{kind}>{escape(value)} <small>{escape(', '.join(below))}</small></td>")
    return "".join(cells)


def _notes(notes: Sequence[Note]) -> str:
    parts: list[str] = []
    for note in notes:
        lines = "".join([f"<li>{sentence(line)}</li>" for line in note.sentences])
        parts.append(f'{heading(note.heading[:1].upper() + note.heading[1:])}<ul class="ks-list">{lines}</ul>')
    return "".join(parts)


def _reason(number: int, made: Compile) -> str:
    fix = f' <span class="ks-fix"><b>Fix</b> {sentence(made.fix)}</span>' if made.fix else ""
    title = f'<span data-ks-at="compiles:{made.compilation_id}">#{number}, {escape(compile_title(made))}</span>'
    return f"<li>{title}: {sentence(made.reason)}{fix}</li>"


def _code(recording: Recording, kernel: Kernel, rows: CodeRows, limited: _Limit) -> str:
    parts: list[str] = []
    for each in kernel.specializations:
        for form in _FORMS:
            # The source is the function's, and the same for all of its specializations.
            if form not in each.code or (form == "source" and each is not kernel.specializations[0]):
                continue
            row = rows.row(kernel.dispatcher_id, each.specialization_id, form)
            text = "" if row is None else str(row["text"])
            which = CODE_KINDS[form] if form == "source" else f"{CODE_KINDS[form]} of #{each.number}"
            lines = counted(len(text.splitlines()), "line")
            if limited.takes(text):
                # Code escaped line by line, so that its line breaks and indentation stay.
                listing = "\n".join(escape(line.expandtabs(4)) for line in text.splitlines())
                parts.append(f"<details><summary>{escape(which)} <span>{lines}</span></summary>"
                             f'<pre class="ks-listing">{listing}</pre></details>')
            else:
                parts.append(f'<div class="ks-soft">{escape(which)}, {lines}: left out for size</div>')
    if not parts and kernel.specializations:
        missing = code_of(recording, kernel, kernel.specializations[0], "source")
        return f'<div class="ks-soft">Code: {escape(f"{missing.note} {missing.fix}")}</div>'
    return "".join(parts)
