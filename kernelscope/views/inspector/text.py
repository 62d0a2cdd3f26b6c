"""The inspector as text: kernels, specializations with all resources, reasons, and two as a diff."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeGuard

from kernelscope.analysis.compile_time import OTHER, CompileTime, Part, compile_times
from kernelscope.analysis.signatures import short_arguments, short_type
from kernelscope.recording.model import Recording
from kernelscope.recording.redact import shareable
from kernelscope.units import MISSING, count, counted, duration, percent, size
from kernelscope.views.base import (
    clean,
    clean_code,
    columns,
    dims,
    rest,
    shorten,
    table,
    width_of,
    with_notice,
    wrap,
)
from kernelscope.views.inspector.model import (
    Compile,
    Kernel,
    Sort,
    Specialization,
    find_kernels,
    find_specialization,
    inspect_kernels,
    sort_kernels,
)

#: Makes labels with their texts for a specialization of a kernel.
Facts = Callable[[Specialization, Kernel], list[tuple[str, str]]]

NOT_RECORDED = "not recorded"
HOW_TO_RECORD_CODE = "record with --code, or code=True"


def place(kernel: Kernel) -> str:
    """Return the file and line of a kernel's definition, without the path of this machine."""
    file = re.split(r"[/\\]", kernel.filename)[-1] if kernel.filename else kernel.module or ""
    return file if kernel.lineno is None or not kernel.filename else f"{file}:{kernel.lineno}"


def kernel_lines(kernel: Kernel) -> list[str]:
    """Return what is known of a kernel below its name."""
    first = [place(kernel), kernel.framework]
    if kernel.arguments:
        first.append(f"arguments {', '.join(kernel.arguments)}")
    if kernel.options:
        first.append(f"options {json_text(kernel.options)}")
    second = [counted(len(kernel.specializations), "specialization"), counted(kernel.launches, "launch", "launches")]
    if kernel.compile_ns:
        second.append(f"{duration(kernel.compile_ns)} compiling and loading")
    return [" · ".join(part for part in first if part), ", ".join(second)]


def brief_facts(each: Specialization, kernel: Kernel) -> list[tuple[str, str]]:
    """Return what a table of specializations shows of one: each fact with its label; what is not known says so."""
    return [
        ("resources", resources(each)),
        ("machine code", machine_code(each)),
        ("origin", origin(each)),
        ("launches", launches(each)),
        ("LC-S", sensitivity(each)),
        ("cache file", cache_files(each)),
        *_why(each),
    ]


def all_facts(each: Specialization, kernel: Kernel) -> list[tuple[str, str]]:
    """Return everything that is known of a specialization; its compiles have `compile_facts` of their own."""
    facts = [fact for fact in brief_facts(each, kernel) if fact[0] not in _IN_COMPILES]
    facts = [("signature", each.signature), *facts, ("code", code(each))]
    facts += [(name, json_text(value)) for name, value in each.attributes.items()]
    return facts


def resources(each: Specialization) -> str:
    """Return registers, memory, spills and the most threads."""
    known = {
        "registers": None if each.regs is None else counted(each.regs, "register"),
        "shared memory": each.static_shared_bytes is not None and f"{bytes_of(each.static_shared_bytes)} shared",
        "local memory": each.local_bytes is not None and f"{bytes_of(each.local_bytes)} local",
        "constant memory": each.const_bytes is not None and f"{bytes_of(each.const_bytes)} constant",
        "spills": spills(each),
        "most threads a block": each.max_threads is not None and f"at most {each.max_threads:,} threads a block",
    }
    text = ", ".join(str(value) for value in known.values() if value)
    missing = ", ".join(name for name, value in known.items() if not value)
    if not text:
        return NOT_RECORDED
    return f"{text} ({NOT_RECORDED}: {missing})" if missing else text


def spills(each: Specialization) -> str | None:
    """Return what a thread spills: bytes that it stores and loads; None where it is not known."""
    if each.spill_store_bytes is None or each.spill_load_bytes is None:
        return None
    if not each.spill_store_bytes and not each.spill_load_bytes:
        return "no spills"
    return f"spills {bytes_of(each.spill_store_bytes)} stored, {bytes_of(each.spill_load_bytes)} loaded"


def machine_code(each: Specialization) -> str:
    """Return the size of the machine code and what it is for."""
    parts = [] if each.cubin_bytes is None else [bytes_of(each.cubin_bytes)]
    if each.compute_capability:
        parts.append(f"for compute capability {each.compute_capability}")
    return " ".join(parts) or NOT_RECORDED


def origin(each: Specialization) -> str:
    """Return where the specialization came from, and how long that took."""
    took = "" if each.compile_ns is None else f" in {duration(each.compile_ns)}"
    words = {"compiled": f"compiled{took}", "disk": f"loaded from the disk cache{took}",
             "before": "compiled before recording began"}
    return words.get(each.origin, each.origin)


def launches(each: Specialization) -> str:
    """Return how often it was launched, and its host time a launch."""
    if not each.launches:
        return f"{each.captured:,} captured into a graph" if each.captured else "none recorded"
    median = "" if each.median_ns is None else f", median {duration(each.median_ns)} of host time"
    captured = f", {each.captured:,} more captured into a graph" if each.captured else ""
    return f"{each.launches:,}{median}{captured}"


def sensitivity(each: Specialization) -> str:
    """Return whether it depends on the launch configuration (LC-S), and the one that it is bound to."""
    if each.launch_config_sensitive is None:
        return NOT_RECORDED
    if not each.launch_config_sensitive:
        return "no: it does not depend on the launch configuration"
    key = configuration_key(each.launch_config)
    return f"bound to {key}" if key else "depends on the launch configuration; which one was not recorded"


def configuration_key(bound: Mapping[str, Any] | None) -> str:
    """Return a launch configuration that a specialization is bound to: ``[4, 128, 1.0 KiB shared]``."""
    if not bound:
        return ""
    grid, block, shared = bound.get("griddim"), bound.get("blockdim"), bound.get("sharedmem_bytes")
    if not (_is_dims(grid) and _is_dims(block)):
        return json_text(bound)
    tail = f", {bytes_of(shared)} shared" if isinstance(shared, int) and shared else ""
    return f"[{dims(grid)}, {dims(block)}{tail}]"


def cache_files(each: Specialization) -> str:
    """Return the disk cache's files of it."""
    if not each.compiles:
        return NOT_RECORDED
    files = [name for made in each.compiles for name in (made.cache_file, made.cache_data_file) if name]
    return ", ".join(dict.fromkeys(files)) or "none: the kernel has no disk cache"


def code(each: Specialization) -> str:
    """Return which forms of its code the recording holds."""
    return ", ".join(each.code) or f"{NOT_RECORDED}: {HOW_TO_RECORD_CODE}"


def compile_title(each: Compile) -> str:
    """Return what a compile was, how long it took and in which cell."""
    what = {"compiled": "compiled", "disk": "loaded from the disk cache", "wait": "waited for another thread",
            "failed": "failed"}.get(each.outcome, each.outcome)
    where = "" if each.cell is None else f", in {each.cell}"
    asked = {"launch": "by a launch", "eager": "by @cuda.jit", "device": "by a launch on another device"}.get(
        each.trigger, f"by {each.trigger}")
    return f"{what} in {duration(each.duration_ns)}, asked for {asked}{where}"


def compile_facts(each: Compile) -> list[tuple[str, str]]:
    """Return why a compile was needed, what would avoid it, and what the disk cache had of it."""
    facts = [("why", f"{each.reason} ({each.reason_code})"), ("fix", each.fix or "")]
    if each.cache_file is None:
        return [*facts, ("disk cache", "none")]
    marker = {True: "there is an .lcs marker", False: "there is no .lcs marker"}.get(each.lcs_marker or False, "")
    return [*facts, ("cache index", each.cache_file), ("cache data", each.cache_data_file or NOT_RECORDED),
            ("cache key", each.cache_key or NOT_RECORDED),
            ("LC-S marker", NOT_RECORDED if each.lcs_marker is None else marker)]


def bytes_of(value: int | None) -> str:
    """Return bytes in full below 10,000, for these are compared, and rounded above; a dash for None."""
    if value is None:
        return MISSING
    return f"{value:,} B" if value < 10_000 else size(value)


def json_text(value: object) -> str:
    """Return a JSON value on one line."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


_IN_COMPILES = ("why", "fix")


def _why(each: Specialization) -> list[tuple[str, str]]:
    """The reason of the first compile that was one; the others are in the list of all."""
    made = next((made for made in each.compiles if made.outcome != "wait"), None)
    if made is None:
        return []
    return [("why", made.reason), *([("fix", made.fix)] if made.fix else [])]


def _is_dims(value: object) -> TypeGuard[list[int]]:
    return isinstance(value, list) and all(isinstance(each, int) for each in value)  # pyright: ignore[reportUnknownVariableType]


# The inspector as text: kernels, their specializations with all resources, and why each was compiled.
#
# The same facts as the widget's, from `kernelscope.views.inspector.model`. Names and messages come from user code and
# are
# shown with their control characters escaped.

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
         shorten(clean(place(each)), max(width // 4, 16))]
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
        blocks.append(f"{heading}\n{_facts(each, kernel, width, brief_facts)}")
    more = rest(len(kernel.specializations), len(shown), "specialization")
    return "\n\n".join(blocks) + more


def _head(kernel: Kernel, width: int) -> str:
    lines = [shorten(clean(kernel.name), width)]
    lines += [wrap(clean(line), width, 2, hanging=2) for line in kernel_lines(kernel)]
    return "\n".join(lines)


def _all_of_one(
    kernel: Kernel, chosen: Specialization, times: dict[int | None, CompileTime], width: int
) -> str:
    heading = wrap(f"{chosen.number}  {clean(short_arguments(chosen.arguments))}", width, 2, hanging=3)
    blocks = [_head(kernel, width), f"{heading}\n{_facts(chosen, kernel, width, all_facts)}"]
    blocks += [_compile(each, times.get(each.compilation_id), width) for each in chosen.compiles]
    return "\n\n".join(blocks)


def _facts(each: Specialization, kernel: Kernel, width: int, facts: Facts) -> str:
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
         bytes_of(use.sharedmem_bytes), count(use.launches), duration(use.median_ns), duration(use.execute_ns),
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
    lines = [wrap(clean(compile_title(each)), width, 2, hanging=2)]
    lines += [_labelled(label, text, width) for label, text in compile_facts(each)]
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


# Two specializations of a kernel as a unified diff: types, resources and code.

def facts_diff(kernel: Kernel, left: Specialization, right: Specialization) -> str:
    """Return types and resources of two specializations as a unified diff with every line; none where all are equal."""
    return _diff(kernel, left, right, _compared_facts(left), _compared_facts(right), whole=True)


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


def _compared_facts(each: Specialization) -> list[str]:
    """One fact a line, the same facts for every specialization, so that they can be compared."""
    lines = [f"{name}: {short_type(kind)}" for name, kind in each.arguments]
    sizes = {
        "static shared memory": each.static_shared_bytes, "local memory": each.local_bytes,
        "constant memory": each.const_bytes, "spills stored": each.spill_store_bytes,
        "spills loaded": each.spill_load_bytes, "machine code": each.cubin_bytes,
    }
    lines += [f"compute capability: {_text(each.compute_capability)}", f"registers: {_text(each.regs)}"]
    lines += [f"{name}: {NOT_RECORDED if value is None else f'{value:,} B'}" for name, value in sizes.items()]
    lines += [f"most threads a block: {_text(each.max_threads)}", f"origin: {each.origin}",
              f"LC-S: {sensitivity(each)}"]
    return lines


def _text(value: object) -> str:
    return NOT_RECORDED if value is None else str(value)
