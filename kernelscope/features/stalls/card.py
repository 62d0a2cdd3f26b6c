"""What is shown of the samples of warps: a section of the card, a member of answers, and sentences about lines."""

from __future__ import annotations

from typing import TypedDict

from kernelscope.features.stalls.analyse import KernelStalls, Stalled, by_kernel, reason_text
from kernelscope.units import counted, percent
from kernelscope.views.answer import Many
from kernelscope.views.base import clean, shorten
from kernelscope.views.card.blocks import (
    FIRST_LINES,
    FIRST_ROWS,
    KERNEL_WIDTH,
    Lines,
    Section,
    more_text,
    share_text,
)
from kernelscope.views.card.model import Overview

#: Lines of a kernel that are listed where it is the only one and where there are several, and the share of its samples
#: from which on a line is worth it.
MAX_LINES = FIRST_LINES
MAX_LINES_OF_SEVERAL = 3
LEAST_SHARE = 0.02
#: So much is shown of a line of code.
_CODE_WIDTH = 80
_NO_LINES = ("no source line is known: compile it with line information, with numba-cuda @cuda.jit(lineinfo=True), and "
             "have nvdisasm installed")


def section(overview: Overview) -> Section:
    """Return the lines at which the GPU's warps were when it was sampled, and why they waited, by kernel."""
    kernels = overview.result(by_kernel)
    is_only = len(kernels) == 1
    total = sum(kernel.samples for kernel in kernels)
    lines: list[str] = []
    for kernel in kernels[:FIRST_ROWS]:
        name = shorten(clean(kernel.kernel), KERNEL_WIDTH)
        share = "" if is_only else f" ({share_text(kernel.samples, total)} of all samples)"
        first, *others = stall_sentences(kernel, MAX_LINES if is_only else MAX_LINES_OF_SEVERAL)
        lines += [f"{name}{share}, {first}", *(f"{name}, {sentence}" for sentence in others)]
    more = more_text(len(kernels), FIRST_ROWS, "kernel")
    hottest = shorten(clean(kernels[0].kernel), KERNEL_WIDTH)
    return Section("stalls", "Stalls", f"{counted(total, 'sample')}, most in {hottest}",
                   (Lines((*lines, *([f"and {more}"] if more else []))),),
                   "where the warps of kernels were when the GPU was sampled, and why they did not go on")


def stall_sentences(kernel: KernelStalls, limit: int = MAX_LINES) -> list[str]:
    """Return a sentence on each of the hottest lines of a kernel; on instructions where no line is known."""
    if kernel.lines:
        return [stall_sentence(line) for rank, line in enumerate(kernel.lines[:limit])
                if rank == 0 or line.share >= LEAST_SHARE]
    hottest = [instruction for instruction in kernel.instructions[:limit] if instruction.share >= LEAST_SHARE]
    return [*map(stall_sentence, hottest), _NO_LINES]


def stall_sentence(line: Stalled) -> str:
    """Return a line's or an instruction's share of the kernel's samples, and why warps wait there, as a sentence."""
    if line.pc_offset is None:
        file = "" if not line.file else " of " + line.file.replace("\\", "/").rpartition("/")[2]
        where = f"line {line.line}{file}"
    else:
        where = f"instruction {line.pc_offset:#x}"
    text = line.text or ""
    text = text if len(text) <= _CODE_WIDTH else text[:_CODE_WIDTH - 1] + "…"
    code = f", `{text}`" if text else ""
    return f"{where}{code}: {percent(line.share)} of samples, {reason_text(line.main)}"


class StallReasonMembers(TypedDict):
    """A reason for which warps stalled."""

    reason: str
    samples: int
    not_issued: int


class StalledLineMembers(TypedDict):
    """A line of code at which warps stalled."""

    file: str | None
    line: int | None
    text: str | None
    samples: int
    share: float
    reason: str | None


class StallsMembers(TypedDict):
    """Why the warps of a kernel stalled, and where."""

    kernel: str
    samples: int
    share: float
    reasons: Many[StallReasonMembers]
    lines: Many[StalledLineMembers]


#: The type of the member ``stalls``.
Member = Many[StallsMembers]


def member(overview: Overview) -> Many[StallsMembers]:
    """Return the kernels with their hottest lines, for programs."""
    def line(stalled: Stalled) -> StalledLineMembers:
        return {"file": stalled.file, "line": stalled.line, "text": stalled.text, "samples": stalled.samples,
                "share": stalled.share, "reason": stalled.main or None}

    def row(kernel: KernelStalls) -> StallsMembers:
        return {"kernel": kernel.kernel, "samples": kernel.samples, "share": kernel.share,
                "reasons": Many(kernel.reasons, lambda reason: {
                    "reason": reason[0], "samples": reason[1], "not_issued": reason[2]}),
                "lines": Many(kernel.lines, line)}

    return Many(overview.result(by_kernel) if overview.has("pc_samples") else (), row)
