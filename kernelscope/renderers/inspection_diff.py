"""Two specializations of a kernel as a unified diff: types, resources and code."""

from __future__ import annotations

import difflib

from kernelscope.analysis.inspection import Kernel, Specialization
from kernelscope.analysis.type_words import short_type
from kernelscope.renderers import inspection_words as words
from kernelscope.renderers.base import clean, clean_code


def facts_diff(kernel: Kernel, left: Specialization, right: Specialization) -> str:
    """Return types and resources of two specializations as a unified diff with every line; none where all are equal."""
    return _diff(kernel, left, right, _facts(left), _facts(right), whole=True)


def code_diff(kernel: Kernel, left: Specialization, right: Specialization, texts: tuple[str, str], kind: str) -> str:
    """Return two texts of code as a unified diff; an empty string where they are equal."""
    return _diff(kernel, left, right, texts[0].splitlines(), texts[1].splitlines(), kind)


def _diff(
    kernel: Kernel, left: Specialization, right: Specialization, before: list[str], after: list[str], kind: str = "",
    *, whole: bool = False,
) -> str:
    names = [f"{clean(kernel.name)} specialization {each.number}{f' {kind}' if kind else ''}" for each in (left, right)]
    context = max(len(before), len(after)) if whole else 3
    lines = difflib.unified_diff(before, after, *names, n=context, lineterm="")
    return "\n".join(clean_code(line) for line in lines)


def _facts(each: Specialization) -> list[str]:
    """One fact a line, the same facts for every specialization, so that they can be compared."""
    lines = [f"{name}: {short_type(kind)}" for name, kind in each.arguments]
    sizes = {
        "static shared memory": each.static_shared_bytes, "local memory": each.local_bytes,
        "constant memory": each.const_bytes, "spills stored": each.spill_store_bytes,
        "spills loaded": each.spill_load_bytes, "machine code": each.cubin_bytes,
    }
    lines += [f"compute capability: {_text(each.compute_capability)}", f"registers: {_text(each.regs)}"]
    lines += [f"{name}: {words.NOT_RECORDED if value is None else f'{value:,} B'}" for name, value in sizes.items()]
    lines += [f"most threads a block: {_text(each.max_threads)}", f"origin: {each.origin}",
              f"LC-S: {words.sensitivity(each)}"]
    return lines


def _text(value: object) -> str:
    return words.NOT_RECORDED if value is None else str(value)
