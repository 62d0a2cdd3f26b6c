"""The inspector as text: kernels, their specializations, why each was compiled, and two of them as a diff."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from itertools import groupby

from kernelscope.analysis.compile_time import OTHER, CompileTime, Part, compile_times
from kernelscope.analysis.signatures import short_arguments
from kernelscope.recording.model import Recording
from kernelscope.recording.redact import shareable
from kernelscope.units import MISSING, count, counted, duration, percent
from kernelscope.views.base import (
    clean,
    clean_code,
    columns,
    rest,
    shorten,
    table,
    width_of,
    with_notice,
    wrap,
)
from kernelscope.views.inspector.counts import Note, kernel_notes
from kernelscope.views.inspector.model import (
    NOT_RECORDED,
    USE_LABELS,
    Compile,
    Field,
    Kernel,
    Sort,
    Specialization,
    about,
    all_fields,
    compared,
    compile_fields,
    compile_title,
    fields,
    figures,
    find_kernels,
    find_specialization,
    inspect_kernels,
    sort_kernels,
    use_values,
)

#: How many specializations of a kernel, and launch configurations of a specialization, are printed.
MOST_SPECIALIZATIONS = 200
MOST_USES = 12
_MOST_STEPS = 12

_LABEL = 16
#: What features say of kernels, by dispatcher id.
_Notes = Mapping[int | None, Sequence[Note]]
_WIDE_LIST = 80


def inspection_text(
    recording: Recording, kernel: str | None = None, specialization: int | None = None, width: int | None = 100,
    sort: Sort = "launches",
) -> str:
    """Return the kernels, or one kernel's specializations, or all of one specialization, as text.

    Names and messages come from user code; their control characters are escaped.

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
    width = columns(width)
    recording = shareable(recording)
    kernels = sort_kernels(inspect_kernels(recording), sort)
    if kernel is not None:
        kernels = find_kernels(kernels, kernel)
    if kernel is None and specialization is None and len(kernels) != 1:
        return with_notice(recording.notice, _list(kernels, width))
    notes = kernel_notes(recording)
    if specialization is not None:
        owner, chosen = find_specialization(kernels, specialization)
        times = {each.compilation_id: each for each in compile_times(recording)}
        blocks = [_head(owner, width), _specialization(chosen, all_fields(chosen), width)]
        blocks += [_compile(each, times.get(each.compilation_id), width) for each in chosen.compiles]
        return with_notice(recording.notice, "\n\n".join([*blocks, *_notes(owner, notes, width)]))
    return with_notice(recording.notice, "\n\n".join(_kernel(each, notes, width) for each in kernels))


def _list(kernels: Sequence[Kernel], width: int) -> str:
    if not kernels:
        return "no kernels were recorded: none was launched, and none was compiled"
    headers = ["kernel", "row", "specializations", "launches", "compile", "registers", "defined"]
    rows = [
        [clean(each.name), str(each.dispatcher_id), count(len(each.specializations)), count(each.launches),
         duration(each.compile_ns) if each.compile_ns else MISSING, count(each.regs),
         # A narrow column: the file and the line of its place.
         shorten(clean(each.place.rpartition(" · ")[2]), max(width // 4, 16))]
        for each in kernels
    ]
    if width < _WIDE_LIST:
        headers, rows = headers[:-2], [row[:-2] for row in rows]
    return f"{counted(len(kernels), 'kernel')}\n" + table(headers, rows, width, left=(0, 6))


def _kernel(kernel: Kernel, notes: _Notes, width: int) -> str:
    shown = kernel.specializations[:MOST_SPECIALIZATIONS]
    blocks = [_head(kernel, width)]
    for each in shown:
        made = each.first_compile
        why = [] if made is None else [field for field in (
            Field("why", made.reason, "why"), Field("fix", made.fix, "fix")) if field.text]
        blocks.append(_specialization(each, [*fields(each), *why], width))
    blocks += _notes(kernel, notes, width)
    return "\n\n".join(blocks) + rest(len(kernel.specializations), len(shown), "specialization")


def _head(kernel: Kernel, width: int) -> str:
    lines = [wrap(clean(line), width, 2, hanging=2) for line in (" · ".join(about(kernel)), figures(kernel))]
    return "\n".join([shorten(clean(kernel.name), width), *lines])


def _notes(kernel: Kernel, notes: _Notes, width: int) -> list[str]:
    """Return what features say of a kernel, as blocks."""
    return ["\n".join([f"  {note.heading}, {note.figure}",
                       *(wrap(clean(line), width, 5, hanging=2) for line in note.sentences)])
            for note in notes.get(kernel.dispatcher_id, ())]


def _specialization(each: Specialization, said: Sequence[Field], width: int) -> str:
    """Return a heading with the arguments, a line a group of fields, and a table of configurations."""
    lines = [wrap(f"{each.number}  {clean(short_arguments(each.arguments))}", width, 2, hanging=3)]
    for group, members in groupby(said, lambda field: field.group):
        if group == "configurations" and each.uses:
            lines.append(_uses(each, width))
        else:
            lines.append(_line(group, list(members), width))
    return "\n".join(lines)


def _line(group: str, members: Sequence[Field], width: int) -> str:
    known = [field.text if field.label == group else f"{field.label} {field.text}" for field in members if field.text]
    missing = ", ".join(field.label for field in members if not field.text)
    text = ", ".join(known) or NOT_RECORDED
    if known and missing:
        text += f" ({NOT_RECORDED}: {missing})"
    return wrap(f"{clean(group):<{_LABEL}}{clean(text)}", width, 5, hanging=_LABEL)


def _uses(each: Specialization, width: int) -> str:
    """Return launch configurations as a table, without columns in which nothing was recorded."""
    rows = [[MISSING if value is None else value for value in use_values(use)] for use in each.uses[:MOST_USES]]
    kept = [at for at in range(len(USE_LABELS)) if any(row[at] not in (MISSING, "0 B") for row in rows)]
    text = ""
    # Below the other fields where there is room, else further out, else without what can be spared.
    for indent, spared in ((_LABEL + 3, ()), (3, ()), (3, ("blocks/SM",)), (3, ("blocks/SM", "GPU", "host"))):
        shown = [at for at in kept if USE_LABELS[at] not in spared]
        left = (0, *(place for place, at in enumerate(shown) if USE_LABELS[at] == "limited by"))
        text = table([USE_LABELS[at] for at in shown], [[row[at] for at in shown] for row in rows], width, left=left)
        text += rest(len(each.uses), MOST_USES, "configuration")
        text = "\n".join(" " * indent + line for line in text.split("\n"))
        if max(map(width_of, text.split("\n"))) <= width:
            break
    return text


def _compile(each: Compile, time: CompileTime | None, width: int) -> str:
    lines = [wrap(clean(compile_title(each)), width, 2, hanging=2)]
    lines += [_line(field.group, [field], width) for field in compile_fields(each)]
    if time is not None and time.duration_ns:
        lines += [_step(part, time.duration_ns, 0, width) for part in _by_time(time.parts)]
        inner = next((part.parts for part in time.parts if part.kind == "passes"), ())
        if inner:
            lines.append(f"     passes, the longest of {len(inner)}")
            lines += [_step(part, time.duration_ns, 2, width) for part in _by_time(inner)[:_MOST_STEPS]]
    return "\n".join(lines)


def _by_time(parts: Sequence[Part]) -> list[Part]:
    return sorted(parts, key=lambda part: (part.kind == OTHER, -part.duration_ns))


def _step(part: Part, whole: int, deeper: int, width: int) -> str:
    within = () if part.kind == "passes" else part.parts
    inner = ", ".join(f"{clean(each.name)} {duration(each.duration_ns)}" for each in within)
    name_width = min(38, width - 27) - deeper
    times = f"{duration(part.duration_ns):>9}  {percent(part.duration_ns / whole):>7}"
    line = f"     {' ' * deeper}{shorten(clean(part.name), name_width):<{name_width}}  {times}"
    return shorten(f"{line}  with {inner}", width) if inner and width_of(line) + 12 < width else line


def comparison(kernel: Kernel, left: Specialization, right: Specialization) -> str:
    """Return types and resources of two specializations as a unified diff with every line; none where all are equal."""
    before, after = compared(left), compared(right)
    return _diff(kernel, left, right, before, after, context=max(len(before), len(after)))


def code_diff(kernel: Kernel, left: Specialization, right: Specialization, texts: tuple[str, str], kind: str) -> str:
    """Return two texts of code as a unified diff; an empty string where they are equal."""
    return _diff(kernel, left, right, texts[0].splitlines(), texts[1].splitlines(), f" {kind}")


def _diff(
    kernel: Kernel, left: Specialization, right: Specialization, before: list[str], after: list[str], kind: str = "",
    context: int = 3,
) -> str:
    names = [f"{clean(kernel.name)} specialization {each.number}{kind}" for each in (left, right)]
    lines = difflib.unified_diff(before, after, *names, n=context, lineterm="")
    return "\n".join(clean_code(line) for line in lines)
