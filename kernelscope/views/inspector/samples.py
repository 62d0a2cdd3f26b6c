"""The samples of warps beside a kernel's code: of each line of a form, by stall reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelscope.analysis.code import Chain, sass_offsets
from kernelscope.analysis.columns import Ints, row_count
from kernelscope.analysis.stalls import REASONS, samples_by_kernel
from kernelscope.errors import KernelScopeError
from kernelscope.recording.model import Recording
from kernelscope.schema import UNKNOWN
from kernelscope.views.inspector.model import Code, Kernel, Specialization, code_of


@dataclass(frozen=True)
class CodeSamples:
    """The samples of the lines of one form of a specialization's code.

    Attributes
    ----------
    total : int
        Samples of the specialization, also those of instructions that no line of the form stands for.
    reasons : list of str
        Stall reasons by CUPTI's names.
    lines : ndarray of int64, shape (n,)
        The lines of the text that have samples, from 0, in order. Where several lines of a form were made from the same
        place of the source, the first of them stands for all.
    counts : ndarray of int64, shape (n, reasons)
        Their samples.
    """

    total: int
    reasons: list[str]
    lines: Ints
    counts: Ints

    def message(self) -> dict[str, Any]:
        """Return it as JSON values: see ``Samples`` in ``frontend/inspector/wire.ts``."""
        known = [REASONS.get(name) for name in self.reasons]
        return {
            "total": self.total,
            "reasons": [[name, "other" if each is None else each.group, name if each is None else each.label,
                         "" if each is None else each.meaning] for name, each in zip(self.reasons, known, strict=True)],
            "lines": self.lines.tolist(), "counts": self.counts.tolist(),
        }


def samples_of(recording: Recording, kernel: Kernel, specialization: Specialization, form: str,
               code: Code) -> CodeSamples | None:
    """Return the samples of the lines of a form; None where the specialization was not sampled.

    Parameters
    ----------
    recording : Recording
        What holds the samples.
    kernel, specialization
        Which one.
    form : str
        One of `kernelscope.views.inspector.model.FORMS`.
    code : Code
        That form, as `kernelscope.views.inspector.model.code_of` returns it.
    """
    if not row_count(recording, "pc_samples") or code.text is None or form == "types":
        return None
    held = samples_by_kernel(recording, specialization.specialization_id)
    if not held:
        return None
    ((_, entry), samples), = list(held.items())[:1]
    try:
        sass = code if form == "sass" else code_of(recording, kernel, specialization, "sass")
    except KernelScopeError:
        return None
    if sass.text is None:
        return None
    line_of = sass_offsets(sass.text, entry)
    if form != "sass":
        samples = samples.at_barriers(sass.text, line_of)
    at = np.array([line_of.get(offset, UNKNOWN) for offset in samples.offsets.tolist()], np.int64)
    if form != "sass":
        if sass.ties is None:
            return None
        ties = np.where(at >= 0, sass.ties[at], UNKNOWN)
        places = _lines_of(code, form)
        lines = np.array([*(_line(chain, places) for chain in sass.chains), UNKNOWN], np.int64)
        at = lines[ties]
    distinct, groups = np.unique(at, return_inverse=True)
    counts, _ = samples.at(groups, len(distinct))
    known = distinct >= 0
    return CodeSamples(int(samples.counts.sum()), samples.reasons, distinct[known], counts[known])


def _lines_of(code: Code, form: str) -> dict[Chain, int]:
    """The first line of each place, and of each innermost place."""
    if code.ties is None:
        if form != "source" or code.text is None:
            return {}
        return {(("", code.first + at),): at for at in range(code.text.count("\n") + 1)}
    found: dict[Chain, int] = {}
    tied = [(code.chains[tie], at) for at, tie in enumerate(code.ties.tolist()) if tie >= 0]
    for chain, at in tied:
        found.setdefault(chain, at)
    for chain, at in tied:
        found.setdefault(chain[:1], at)
    return found


def _line(chain: Chain, places: dict[Chain, int]) -> int:
    """The line of a place; of one that is not shown that of the call around it."""
    for each in (chain, *((place,) for place in chain)):
        if each in places:
            return places[each]
    return UNKNOWN
