"""The samples of warps beside a kernel's code: of the lines of a form, by stall reason."""

from __future__ import annotations

import numpy as np

from kernelscope.analysis.code import Chain, sass_offsets
from kernelscope.errors import KernelScopeError
from kernelscope.features.stalls.analyse import by_kernel, samples_by_kernel
from kernelscope.features.stalls.card import stall_sentences
from kernelscope.features.stalls.tables import REASONS
from kernelscope.palette import KERNEL_COLORS
from kernelscope.recording.model import Recording
from kernelscope.schema import UNKNOWN
from kernelscope.units import counted
from kernelscope.views.inspector.counts import Category, CodeCounts, Group, LineCounts, Note
from kernelscope.views.inspector.model import Code, Kernel, Specialization, code_of

#: Groups of stall reasons, from what waits for memory to what is no stall.
GROUPS = (
    Group("memory", KERNEL_COLORS[5], "memory"),
    Group("shared", KERNEL_COLORS[1], "shared memory, special functions"),
    Group("barrier", KERNEL_COLORS[3], "barriers"),
    Group("math", KERNEL_COLORS[0], "math"),
    Group("code", KERNEL_COLORS[7], "its code"),
    Group("other", KERNEL_COLORS[4], "other stalls"),
    Group("ready", KERNEL_COLORS[6], "ready, another warp issued"),
    Group("issued", KERNEL_COLORS[2], "issuing"),
)


def _samples_by_line(recording: Recording, kernel: Kernel, specialization: Specialization, form: str,
                     code: Code) -> LineCounts | None:
    if code.text is None or form == "types":
        return None
    sampled = samples_by_kernel(recording, specialization.specialization_id)
    if not sampled:
        return None
    (_, entry), samples = next(iter(sampled.items()))
    try:
        sass = code if form == "sass" else code_of(recording, kernel, specialization, "sass")
    except KernelScopeError:  # there is no nvdisasm: the form's view says so
        return None
    if sass.text is None:
        return None
    line_of = sass_offsets(sass.text, entry)
    if form != "sass":
        samples = samples.at_barriers(sass.text, line_of)
    line = np.array([line_of.get(offset, UNKNOWN) for offset in samples.offsets.tolist()], np.int64)
    if form != "sass":
        if sass.ties is None:
            return None
        ties = np.where(line >= 0, sass.ties[line], UNKNOWN)
        first = _first_lines(code, form)
        line = np.array([*(_line_of(chain, first) for chain in sass.chains), UNKNOWN], np.int64)[ties]
    lines, groups = np.unique(line, return_inverse=True)
    counts, _ = samples.by_group(groups, len(lines))
    has_line = lines >= 0
    return LineCounts("samples of warps", "samples", int(samples.counts.sum()), GROUPS,
                      [*map(_category, samples.reasons)], lines[has_line], counts[has_line])


def _category(name: str) -> Category:
    reason = REASONS.get(name)
    return Category(name, "other", name, "") if reason is None else Category(name, *reason)


def _first_lines(code: Code, form: str) -> dict[Chain, int]:
    """Return by source line, and by innermost source line, the first line of the form that was made from it."""
    if code.ties is None:
        if form != "source" or code.text is None:
            return {}
        return {(("", code.first + line),): line for line in range(code.text.count("\n") + 1)}
    first: dict[Chain, int] = {}
    tied = [(code.chains[tie], line) for line, tie in enumerate(code.ties.tolist()) if tie >= 0]
    for chain, line in tied:
        first.setdefault(chain, line)
    for chain, line in tied:
        first.setdefault(chain[:1], line)
    return first


def _line_of(chain: Chain, first: dict[Chain, int]) -> int:
    """Return the line that stands for a source line; where the form has none, that of the call around it."""
    candidates = (chain, *((source_line,) for source_line in chain))
    return next((first[candidate] for candidate in candidates if candidate in first), UNKNOWN)


def _notes(recording: Recording) -> dict[int | None, Note]:
    return {kernel.dispatcher_id: Note("where its warps waited", counted(kernel.samples, "sample"),
                                       stall_sentences(kernel)) for kernel in by_kernel(recording)}


#: What the inspector draws.
COUNTS = CodeCounts(("pc_samples",), _samples_by_line, _notes)
