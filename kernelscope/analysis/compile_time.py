"""Where compile time went: numba's passes, NVVM, link and load by compile; and what a warm disk cache would have saved.

What contains what, as found in numba-cuda 0.30: a kernel's compile runs one pipeline of passes, then ``nvvm``, then
``link`` with ``lto`` inside it, then ``load``. A device function's pipeline runs inside the pass of its caller that
infers types, and is recorded before the caller's: the last pipeline of a compile is the kernel's own, and holds all
others. Phases are put inside one another by their times. What neither accounts for is ``other``: the compiler's
own setup, which makes the first compile of a process long, and reading and writing the disk cache. numba-cuda-mlir has
a phase ``mlir`` between its passes and ``nvvm``: MLIR's own passes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

import numpy as np

from kernelscope.analysis.caches import is_cacheable
from kernelscope.analysis.columns import rows_at
from kernelscope.analysis.compiling import compile_times_of
from kernelscope.recording.model import Recording

#: Names of a compile's parts, in the order in which they run; an unknown phase comes before ``other``.
PART_NAMES = ("wait for the compiler lock", "passes", "mlir", "nvvm", "lto", "link", "load", "other")
WAIT, PASSES, OTHER = PART_NAMES[0], PART_NAMES[1], PART_NAMES[-1]

_TYPING = "nopython_type_inference"


@dataclass(frozen=True)
class Part:
    """One part of a compile's time.

    Attributes
    ----------
    kind : str
        wait (for numba's compiler lock), passes (the kernel's pipeline), pass, phase, device (pipelines of device
        functions inside a pass), or other.
    name : str
        Such as ``nvvm``.
    duration_ns : int
        How long it took, `parts` included.
    parts : tuple of Part
        What it contains; they take no longer than it does.
    """

    kind: str
    name: str
    duration_ns: int
    parts: tuple[Part, ...] = ()


@dataclass(frozen=True)
class CompileTime:
    """One compile or disk-cache load, or one module loaded outside of any.

    Attributes
    ----------
    compilation_id, dispatcher_id, specialization_id : int or None
        Its row, its kernel and what came of it; None where there is none.
    outcome, trigger, signature : str
        As in ``compilations``; ``load`` and no trigger for a module loaded later.
    duration_ns : int
        How long it took, without compiles inside it in the same thread: these are rows of their own. Waiting for a
        compile of another thread is one of its parts.
    parts : tuple of Part
        They take `duration_ns` together.
    """

    compilation_id: int | None
    dispatcher_id: int | None
    specialization_id: int | None
    outcome: str
    trigger: str
    signature: str
    duration_ns: int
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class WarmCache:
    """What a warm disk cache would have saved at most.

    Attributes
    ----------
    saved_ns : int
        Time of the compiles that it could have served, minus what loading would have cost: at most, since a kernel may
        hold what no cache takes, and for the reason of `setup_ns`.
    setup_ns : int
        Of that, what no pass and no phase accounts for. In a process's first compile that is numba's own setup, part
        of which the first load from a disk cache needs too: 0.2 of 0.4 s, as measured.
    compiles : int
        How many of them there are.
    left_out : int
        Other compiles: of ``specialize`` and ``forall``, which use no disk cache; of ``recompile``, which empties it;
        for another device; with linked files, and of functions without a file, which numba-cuda does not cache.
    load_ns : int
        What loading one was taken to cost.
    basis : str
        What that is: the shortest of this recording's disk-cache loads (the first one of a process is long by numba's
        setup), or the median of its module loads, or nothing.
    """

    saved_ns: int
    setup_ns: int
    compiles: int
    left_out: int
    load_ns: int
    basis: str


def compile_times(recording: Recording) -> list[CompileTime]:
    """Return every compile, disk-cache load and later module load with its parts, in the order of the tables."""
    steps: dict[int | None, list[dict[str, Any]]] = {}
    for row in recording.rows("passes"):
        steps.setdefault(row["compilation_id"], []).append(row)
    spent = compile_times_of(recording)
    took_ns = (np.maximum(spent.own_ns, 0) + np.maximum(spent.wait_ns, 0)).tolist()
    times: list[CompileTime] = []
    for row, took in zip(recording.rows("compilations"), took_ns, strict=True):
        at = int(row["compilation_id"])
        times.append(CompileTime(
            at, row["dispatcher_id"], row["specialization_id"], row["outcome"], row["trigger"], row["signature"], took,
            _parts(row, took, steps.get(at, [])),
        ))
    loads = steps.get(None, [])
    loaded = [step["specialization_id"] for step in loads if step["specialization_id"] is not None]
    specializations = rows_at(recording, "specializations", loaded)
    for step in loads:
        known = specializations.get(step["specialization_id"])
        part = Part("phase", step["name"], step["duration_ns"])
        times.append(CompileTime(
            None, None if known is None else known["dispatcher_id"], step["specialization_id"], "load", "",
            known["signature"] if known else "", step["duration_ns"], (part,),
        ))
    return times


def total_parts(times: Iterable[CompileTime]) -> tuple[Part, ...]:
    """Return the parts of several compiles added by name, in the order in which they run; link without its lto."""
    totals: dict[tuple[str, str], int] = {}

    def add(part: Part) -> None:
        inner = part.parts if part.kind == "phase" else ()
        key = (part.kind, part.name)
        totals[key] = totals.get(key, 0) + part.duration_ns - sum(each.duration_ns for each in inner)
        for each in inner:
            add(each)

    for time in times:
        for part in time.parts:
            add(part)
    found = [Part(kind, name, value) for (kind, name), value in totals.items() if value]
    return tuple(sorted(found, key=lambda part: (PART_NAMES.index(part.name) if part.name in PART_NAMES
                                                 else PART_NAMES.index(OTHER) - 0.5, part.name)))


def warm_cache(recording: Recording, times: Sequence[CompileTime] | None = None) -> WarmCache | None:
    """Return what a warm disk cache would have saved; None where nothing was compiled that it could have served."""
    times = compile_times(recording) if times is None else times
    compiled = [each for each in times if each.outcome == "compiled" and each.dispatcher_id is not None]
    kernels = rows_at(recording, "dispatchers", [each.dispatcher_id or 0 for each in compiled])
    served = [each for each in compiled if each.trigger not in ("specialize", "recompile", "device")
              and is_cacheable(kernels[each.dispatcher_id or 0])]
    loads = [_busy(each) for each in times if each.outcome == "disk"]
    modules = [part.duration_ns for each in times for part in each.parts if part.name == "load"]
    if loads:
        load_ns, basis = min(loads), "a load as long as the shortest disk-cache load here"
    elif modules:
        load_ns, basis = round(median(modules)), "a load as long as a module load here, without reading the file"
    else:
        load_ns, basis = 0, "a load as if it cost nothing: none was recorded"
    saved = [(max(_busy(each) - load_ns, 0), each) for each in served]
    setup = sum(min(_named(each, OTHER), most) for most, each in saved)
    total = sum(most for most, _ in saved)
    return WarmCache(total, setup, len(served), len(compiled) - len(served), load_ns, basis) if total else None


def _busy(each: CompileTime) -> int:
    return each.duration_ns - _named(each, WAIT)


def _named(each: CompileTime, name: str) -> int:
    return sum(part.duration_ns for part in each.parts if part.name == name)


def _parts(row: dict[str, Any], took: int, steps: list[dict[str, Any]]) -> tuple[Part, ...]:
    parts: list[Part] = []
    waited = took if row["outcome"] == "wait" and row["wait_ns"] is None else row["wait_ns"] or 0
    if waited:
        parts.append(Part("wait", WAIT, waited))
    pipeline = _pipeline([Part("pass", step["name"], step["duration_ns"]) for step in steps if step["kind"] == "pass"])
    if pipeline is not None:
        parts.append(pipeline)
    parts += _phases([step for step in steps if step["kind"] != "pass"])
    fitting = list(_fitted(parts, took))
    rest = took - sum(part.duration_ns for part in fitting)
    if rest:
        fitting.append(Part("other", OTHER, rest))
    return tuple(fitting)


def _pipeline(passes: list[Part]) -> Part | None:
    """Return the kernel's pipeline, the last one; those of device functions run inside type inference."""
    pipelines: list[list[Part]] = []
    for each in passes:
        # Every pipeline begins with the same pass.
        if not pipelines or each.name == passes[0].name:
            pipelines.append([])
        pipelines[-1].append(each)
    if not pipelines:
        return None
    roots: list[int] = []
    for pipeline in pipelines[:-1]:
        room = sum(each.duration_ns for each in pipeline if each.name == _TYPING)
        # Those just before it that fit were its own device functions.
        while roots and roots[-1] <= room:
            room -= roots.pop()
        roots.append(_total(pipeline))
    own = pipelines[-1]
    if roots:
        at = next((at for at, each in enumerate(own) if each.name == _TYPING), None)
        if at is not None:
            inner = Part("device", f"device functions ({len(pipelines) - 1})", min(sum(roots), own[at].duration_ns))
            own[at] = replace(own[at], parts=(inner,))
    return Part("passes", PASSES, _total(own), tuple(own))


def _total(parts: Iterable[Part]) -> int:
    return sum(part.duration_ns for part in parts)


def _phases(steps: list[dict[str, Any]]) -> list[Part]:
    """Nest phases by their times; a phase without a start is not nested."""
    found: list[Part] = []
    begun = sorted((step for step in steps if step["start_ns"] is not None),
                   key=lambda step: (step["start_ns"], -step["duration_ns"]))
    at = 0
    while at < len(begun):
        end = begun[at]["start_ns"] + begun[at]["duration_ns"]
        last = at + 1
        while last < len(begun) and begun[last]["start_ns"] + begun[last]["duration_ns"] <= end:
            last += 1
        found.append(Part("phase", begun[at]["name"], begun[at]["duration_ns"], tuple(_phases(begun[at + 1:last]))))
        at = last
    return found + [Part("phase", step["name"], step["duration_ns"]) for step in steps if step["start_ns"] is None]


def _fitted(parts: Sequence[Part], limit: int) -> tuple[Part, ...]:
    """Limit the sum of parts to `limit`: shorten the longest passes first, then the other parts.

    A phase may run inside a pass, of which no start is known, and clocks of two sources may differ a little.
    """
    excess = _total(parts) - limit
    if excess <= 0:
        return tuple(parts)
    cut = list(parts)
    for at in sorted(range(len(parts)), key=lambda at: (parts[at].kind != "passes", -parts[at].duration_ns)):
        taken = min(parts[at].duration_ns, excess)
        excess -= taken
        left = parts[at].duration_ns - taken
        cut[at] = replace(parts[at], duration_ns=left, parts=_fitted(parts[at].parts, left))
    return tuple(part for part in cut if part.duration_ns)
