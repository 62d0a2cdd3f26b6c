"""What is said of the samples of warps: the sentences that every view has."""

from __future__ import annotations

from kernelscope.analysis.stalls import KernelStalls, Stalled, reason_text
from kernelscope.units import percent

#: Lines of a kernel that are listed, and the share of its samples from which on a line is worth it.
MOST_LINES = 5
LEAST_SHARE = 0.02
#: What is shown of a line of code.
_MOST_TEXT = 80
_WITHOUT_LINES = ("no source line is known: compile it with line information, with numba-cuda "
                  "@cuda.jit(lineinfo=True), and have nvdisasm installed")


def stall_sentences(kernel: KernelStalls, most: int = MOST_LINES) -> list[str]:
    """Return a sentence on each of the hottest lines of a kernel; on instructions where no line is known."""
    if kernel.lines:
        return [sentence_of(each) for at, each in enumerate(kernel.lines[:most]) if not at or each.share >= LEAST_SHARE]
    found = [sentence_of(each) for each in kernel.instructions[:most] if each.share >= LEAST_SHARE]
    return [*found, _WITHOUT_LINES]


def sentence_of(each: Stalled) -> str:
    """Return a line's or an instruction's share of the kernel's samples, and why warps wait there, as a sentence."""
    if each.pc_offset is None:
        where = f"line {each.line}" + (f" of {_file(each.file)}" if each.file else "")
    else:
        where = f"instruction {each.pc_offset:#x}"
    text = each.text or ""
    text = text if len(text) <= _MOST_TEXT else text[:_MOST_TEXT - 1] + "…"
    code = f", `{text}`" if text else ""
    return f"{where}{code}: {percent(each.share)} of samples, {reason_text(each.main)}"


def _file(name: str) -> str:
    return name.replace("\\", "/").rpartition("/")[2]
