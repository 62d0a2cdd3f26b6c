"""The inspector as static HTML: what a saved notebook shows, with the card's style and escaping.

All kernels with their specializations, resources, launch configurations and reasons, and folded away the code that
fits a limit; what is left out is said.
"""

from __future__ import annotations

from collections.abc import Sequence

from kernelscope.analysis.columns import ints
from kernelscope.analysis.signatures import short_arguments
from kernelscope.recording.model import Recording
from kernelscope.schema import UNKNOWN
from kernelscope.units import MISSING, count, counted, duration, percent, size
from kernelscope.views.base import dims, escape
from kernelscope.views.html import heading, name_of, sentence, style, table_of
from kernelscope.views.inspector import text as inspector_text
from kernelscope.views.inspector.model import Compile, Kernel, Specialization, Use
from kernelscope.views.inspector.wire import place

#: So many characters of code and of facts are in a saved notebook at most.
MOST_CODE = 200_000
MOST_FACTS = 300_000
_FORMS = {"source": "Source", "mlir": "MLIR", "ptx": "PTX", "sass": "SASS"}
_COLUMNS = (
    ("", "Arguments", ""), ("", "Regs", ""), ("", "Shared", "local, const"), ("", "Spills", ""),
    ("", "Threads", "at most"), ("", "Machine code", "CC"), ("", "Origin", "compile"),
    ("", "Launches", "host, median"), ("", "Configurations", "occupancy"), ("", "LC-S key", "cache file"),
)
_LEFT = (0, 8, 9)
_STYLE = """
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
    room, texts = _Room(limit), _Texts(recording)
    parts: list[str] = []
    written = 0
    for at, each in enumerate(kernels):
        if written > MOST_FACTS:
            parts.append(f'<div class="ks-soft">{counted(len(kernels) - at, "more kernel")} left out for size</div>')
            break
        parts.append(_kernel(each, texts, room, is_open=len(kernels) == 1))
        written += len(parts[-1]) - room.taken_last()
    if not kernels:
        parts.append(heading("There is no kernel in it"))
    if room.left_out:
        parts.append(f'<div class="ks-soft">Code left out for size: {counted(room.left_out, "text")} of '
                     f"{escape(size(room.left_out_size))}; the recording or the kernel has it.</div>")
    notice = f'<div class="ks-notice" role="note">{escape(recording.notice)}</div>' if recording.notice else ""
    title = " · ".join(["Inspector", *([recording.name] if recording.name else [])])
    return (
        f"<style>{style()}{_STYLE}</style>"
        f'<div class="kscope"><div class="ks-top"><span class="ks-title" role="heading" aria-level="3">{escape(title)}'
        f'</span> <span class="ks-maker">KernelScope</span></div>{notice}{"".join(parts)}</div>'
    )


class _Room:
    """How much code still fits."""

    def __init__(self, limit: int) -> None:
        self._left = limit
        self._taken = 0
        self.left_out = 0
        self.left_out_size = 0

    def takes(self, text: str) -> bool:
        """Whether a text fits; what does not is counted."""
        if len(text) > self._left:
            self.left_out += 1
            self.left_out_size += len(text)
            return False
        self._left -= len(text)
        self._taken += len(text)
        return True

    def taken_last(self) -> int:
        """How much was taken since this was last asked."""
        taken, self._taken = self._taken, 0
        return taken


class _Texts:
    """The texts of code, read one at a time."""

    def __init__(self, recording: Recording) -> None:
        self._texts = recording.arrow("code").column("text")
        kinds: list[str] = recording.arrow("code").column("kind").to_pylist()
        owners, members = ints(recording, "code", "dispatcher_id"), ints(recording, "code", "specialization_id")
        keys = zip(owners.tolist(), members.tolist(), kinds, strict=True)
        self._places = {key: at for at, key in enumerate(keys)}

    def of(self, kernel: Kernel, specialization: Specialization, form: str) -> str:
        """One form of a specialization's code; the source is its function's."""
        member = UNKNOWN if form == "source" else specialization.specialization_id
        at = self._places.get((kernel.dispatcher_id, member, form))
        return "" if at is None else str(self._texts[at].as_py())


def _kernel(kernel: Kernel, texts: _Texts, room: _Room, *, is_open: bool) -> str:
    about = [place(kernel)]
    if kernel.arguments:
        about.append(f"({', '.join(kernel.arguments)})")
    if kernel.options:
        about.append(", ".join(f"{name}={value}" for name, value in kernel.options.items()))
    figures = [counted(len(kernel.specializations), "specialization"), counted(kernel.launches, "launch", "launches")]
    if kernel.compile_ns:
        figures.append(f"{duration(kernel.compile_ns)} compiling and loading")
    rows = [_row(each) for each in kernel.specializations]
    table = f'<div class="ks-x">{table_of(_COLUMNS, rows, left=_LEFT)}</div>' if rows else ""
    return (
        f"<details{' open' if is_open else ''}><summary>{name_of(kernel.name)} {escape(', '.join(figures))}</summary>"
        f'<div class="ks-soft">{escape(" · ".join(about))}</div>'
        f"{table}{_reasons(kernel)}{_code(kernel, texts, room)}</details>"
    )


def _row(each: Specialization) -> str:
    title = escape(each.signature)
    arguments = escape(short_arguments(each.arguments))
    first = (f'<td class="ks-left" title="{title}"><span class="ks-code">{arguments}</span>'
             f" <small>#{each.number}</small></td>")
    cells = (
        (count(each.regs), "", ""),
        (size(each.static_shared_bytes), f"{size(each.local_bytes)}, {size(each.const_bytes)}", ""),
        (_spills(each), "", ""),
        (count(each.max_threads), "", ""),
        (size(each.cubin_bytes), each.compute_capability or MISSING, ""),
        ({"disk": "from disk"}.get(each.origin, each.origin), duration(each.compile_ns), ""),
        (count(each.launches), duration(each.median_ns), ""),
        ("; ".join(_use(use) for use in each.uses[:3]) or "not launched",
         f"and {len(each.uses) - 3:,} more" if len(each.uses) > 3 else "", "ks-left"),
        (inspector_text.configuration_key(each.launch_config) or ("yes" if each.launch_config_sensitive else "no"),
         _cache_file(each), "ks-left"),
    )
    made = "".join(
        f"<td{f' class={kind!r}' if kind else ''}>{escape(value)} <small>{escape(below)}</small></td>"
        for value, below, kind in cells
    )
    return f"<tr>{first}{made}</tr>"


def _use(use: Use) -> str:
    text = f"{dims(use.griddim)}, {dims(use.blockdim)}"
    if use.occupancy is None:
        return text
    limits = f" ({', '.join(use.limited_by)})" if use.limited_by else ""
    return f"{text}: {percent(use.occupancy)}{limits}"


def _spills(each: Specialization) -> str:
    if each.spill_store_bytes is None or each.spill_load_bytes is None:
        return MISSING
    return f"{size(each.spill_store_bytes)} / {size(each.spill_load_bytes)}" if (
        each.spill_store_bytes or each.spill_load_bytes) else "0"


def _cache_file(each: Specialization) -> str:
    files = [made.cache_data_file or made.cache_file for made in each.compiles]
    held = [file for file in files if file]
    return held[-1].replace("\\", "/").rpartition("/")[2] if held else MISSING


def _reasons(kernel: Kernel) -> str:
    lines = [_reason(each.number, made) for each in kernel.specializations for made in each.compiles if made.reason]
    if not lines:
        return ""
    return f'{heading("Why it was compiled")}<ul class="ks-list">{"".join(lines)}</ul>'


def _reason(number: int, made: Compile) -> str:
    fix = f' <span class="ks-fix"><b>Fix</b> {sentence(made.fix)}</span>' if made.fix else ""
    cell = f", {made.cell}" if made.cell else ""
    return f'<li>#{number}, {escape(duration(made.duration_ns) + cell)}: {sentence(made.reason)}{fix}</li>'


def _code(kernel: Kernel, texts: _Texts, room: _Room) -> str:
    parts: list[str] = []
    for each in kernel.specializations:
        for form, label in _FORMS.items():
            # The source is the function's, and the same for all of its specializations.
            if form not in each.code or (form == "source" and each is not kernel.specializations[0]):
                continue
            text = texts.of(kernel, each, form)
            which = label if form == "source" else f"{label} of #{each.number}"
            lines = counted(len(text.splitlines()), "line")
            if room.takes(text):
                parts.append(f"<details><summary>{escape(which)} <span>{lines}</span></summary>"
                             f'<pre class="ks-listing">{_listing(text)}</pre></details>')
            else:
                parts.append(f'<div class="ks-soft">{escape(which)}, {lines}: left out for size</div>')
    if not parts and kernel.specializations:
        why = f"{inspector_text.NOT_RECORDED}; {inspector_text.HOW_TO_RECORD_CODE}"
        return f'<div class="ks-soft">Code: {escape(why)}</div>'
    return "".join(parts)


def _listing(text: str) -> str:
    """Code escaped line by line, so that its line breaks and indentation stay."""
    return "\n".join(escape(line.expandtabs(4)) for line in text.splitlines())
