"""What an inspector says of kernels, specializations and compiles: labels and sentences, as plain text."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeGuard

from kernelscope.analysis.inspection import Compile, Kernel, Specialization
from kernelscope.analysis.units import MISSING, counted, duration, size
from kernelscope.renderers.base import dims

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
