"""The inspector as text: kernels, their specializations with all resources, and why each was compiled.

The same facts as the widget's, from `kernelscope.analysis.inspection`. Names and messages come from user code and are
shown with their control characters escaped.
"""

from __future__ import annotations

from collections.abc import Sequence

from kernelscope.analysis.compile_time import OTHER, CompileTime, Part, compile_times
from kernelscope.analysis.find_kernels import Sort, find_kernels, find_specialization, sort_kernels
from kernelscope.analysis.inspection import Compile, Kernel, Specialization, inspect_kernels
from kernelscope.analysis.type_words import short_arguments
from kernelscope.analysis.units import MISSING, count, counted, duration, percent
from kernelscope.recording.model import Recording
from kernelscope.recording.privacy import shareable
from kernelscope.renderers import inspection_words as words
from kernelscope.renderers.base import clean, dims, shorten, width_of
from kernelscope.renderers.layout import columns, rest, table, with_notice, wrap

#: How many specializations of a kernel, and launch configurations of a specialization, are printed.
MOST_SPECIALIZATIONS = 200
MOST_USES = 12
_MOST_STEPS = 12

_LABEL = 16
_WIDE_LIST = 80


def inspection_text(
    recording: Recording, kernel: str | None = None, specialization: int | None = None, width: int | None = 100,
    sort: Sort = "launches",
) -> str:
    """Return the kernels, or one kernel's specializations, or all of one specialization, as text.

    Parameters
    ----------
    recording : Recording
        What was recorded, or a snapshot of a live kernel.
    kernel : str, optional
        A kernel's qualified name, or its last part, or its row in ``dispatchers``. Without it all kernels are listed,
        and if there is only one its specializations are shown.
    specialization : int, optional
        Its number among the kernel's, from 1.
    width : int, optional
        Columns to keep to, at least 60; None is the terminal's.
    sort : str
        What kernels are sorted by, largest first: launches, compile or registers.

    Raises
    ------
    UnknownKernelError
        There is no such kernel or specialization.
    """
    room = columns(width)
    recording = shareable(recording)
    kernels = sort_kernels(inspect_kernels(recording), sort)
    if kernel is not None:
        kernels = find_kernels(kernels, kernel)
    if specialization is not None:
        owner, chosen = find_specialization(kernels, specialization)
        times = {each.compilation_id: each for each in compile_times(recording)}
        return with_notice(recording.notice, _all_of_one(owner, chosen, times, room))
    if kernel is None and len(kernels) != 1:
        return with_notice(recording.notice, _list(kernels, room))
    return with_notice(recording.notice, "\n\n".join(_kernel(each, room) for each in kernels))


def _list(kernels: Sequence[Kernel], width: int) -> str:
    if not kernels:
        return "no kernels were recorded: none was launched, and none was compiled"
    headers = ["kernel", "row", "specs", "launches", "compile", "registers", "defined"]
    rows = [
        [clean(each.name), str(each.dispatcher_id), count(len(each.specializations)), count(each.launches),
         duration(each.compile_ns) if each.compile_ns else MISSING, count(each.regs),
         shorten(clean(words.place(each)), max(width // 4, 16))]
        for each in kernels
    ]
    if width < _WIDE_LIST:
        headers, rows = headers[:-1], [row[:-1] for row in rows]
    return f"{counted(len(kernels), 'kernel')}\n" + table(headers, rows, width, left=(0, 6))


def _kernel(kernel: Kernel, width: int) -> str:
    shown = kernel.specializations[:MOST_SPECIALIZATIONS]
    blocks = [_head(kernel, width)]
    for each in shown:
        heading = wrap(f"{each.number}  {clean(short_arguments(each.arguments))}", width, 2, hanging=3)
        blocks.append(f"{heading}\n{_facts(each, kernel, width, words.brief_facts)}")
    more = rest(len(kernel.specializations), len(shown), "specialization")
    return "\n\n".join(blocks) + more


def _head(kernel: Kernel, width: int) -> str:
    lines = [shorten(clean(kernel.name), width)]
    lines += [wrap(clean(line), width, 2, hanging=2) for line in words.kernel_lines(kernel)]
    return "\n".join(lines)


def _all_of_one(
    kernel: Kernel, chosen: Specialization, times: dict[int | None, CompileTime], width: int
) -> str:
    heading = wrap(f"{chosen.number}  {clean(short_arguments(chosen.arguments))}", width, 2, hanging=3)
    blocks = [_head(kernel, width), f"{heading}\n{_facts(chosen, kernel, width, words.all_facts)}"]
    blocks += [_compile(each, times.get(each.compilation_id), width) for each in chosen.compiles]
    return "\n\n".join(blocks)


def _facts(each: Specialization, kernel: Kernel, width: int, facts: words.Facts) -> str:
    lines: list[str] = []
    for label, text in facts(each, kernel):
        lines.append(_labelled(label, text, width))
        if label == "launches" and each.uses:
            lines.append(_uses(each, width))
    return "\n".join(lines)


def _labelled(label: str, text: str, width: int) -> str:
    return wrap(f"{clean(label):<{_LABEL}}{clean(text)}", width, 5, hanging=_LABEL) if text else ""


def _uses(each: Specialization, width: int) -> str:
    """Launch configurations as a table; a column in which nothing was recorded is left out."""
    headers = ["grid", "block", "cluster", "shared", "launches", "host", "GPU", "occupancy", "blocks/SM", "limited by"]
    rows = [
        [dims(use.griddim), dims(use.blockdim), MISSING if use.cluster is None else dims(use.cluster),
         words.bytes_of(use.sharedmem_bytes), count(use.launches), duration(use.median_ns), duration(use.execute_ns),
         percent(use.occupancy), count(use.active_blocks), ", ".join(use.limited_by) or MISSING]
        for use in each.uses[:MOST_USES]
    ]
    kept = [at for at in range(len(headers)) if any(row[at] not in (MISSING, "0 B") for row in rows)]
    text = ""
    # Below the other facts where there is room, else further out, else without what can be spared.
    for indent, spared in ((_LABEL + 3, ()), (3, ()), (3, ("blocks/SM",)), (3, ("blocks/SM", "GPU", "host"))):
        shown = [at for at in kept if headers[at] not in spared]
        left = (0, *(place for place, at in enumerate(shown) if headers[at] == "limited by"))
        text = table([headers[at] for at in shown], [[row[at] for at in shown] for row in rows], width, left=left)
        text += rest(len(each.uses), MOST_USES, "configuration")
        text = "\n".join(" " * indent + line for line in text.split("\n"))
        if max(map(width_of, text.split("\n"))) <= width:
            break
    return text


def _compile(each: Compile, time: CompileTime | None, width: int) -> str:
    lines = [wrap(clean(words.compile_title(each)), width, 2, hanging=2)]
    lines += [_labelled(label, text, width) for label, text in words.compile_facts(each)]
    if time is not None and time.duration_ns:
        lines += [_step(part, time.duration_ns, 0, width) for part in _by_time(time.parts)]
        inner = next((part.parts for part in time.parts if part.kind == "passes"), ())
        if inner:
            lines.append(f"     passes, the longest of {len(inner)}")
            lines += [_step(part, time.duration_ns, 2, width) for part in _by_time(inner)[:_MOST_STEPS]]
    return "\n".join(line for line in lines if line)


def _by_time(parts: Sequence[Part]) -> list[Part]:
    return sorted(parts, key=lambda part: (part.kind == OTHER, -part.duration_ns))


def _step(part: Part, whole: int, deeper: int, width: int) -> str:
    within = () if part.kind == "passes" else part.parts
    inner = ", ".join(f"{clean(each.name)} {duration(each.duration_ns)}" for each in within)
    room = min(38, width - 27) - deeper
    times = f"{duration(part.duration_ns):>9}  {percent(part.duration_ns / whole):>7}"
    line = f"     {' ' * deeper}{shorten(clean(part.name), room):<{room}}  {times}"
    return shorten(f"{line}  with {inner}", width) if inner and width_of(line) + 12 < width else line
