"""Whether a recorded test kept within its limits, and the message that says why it did not."""

from __future__ import annotations

import shutil
import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kernelscope.analysis.columns import ran
from kernelscope.analysis.compilations import CompilationSummary, compilations
from kernelscope.analysis.units import brief, count, counted, duration
from kernelscope.pytest_plugin.limits import Limits
from kernelscope.recording.model import Recording
from kernelscope.renderers import words
from kernelscope.renderers.base import clean, shorten, width_of
from kernelscope.suggestions import did_you_mean

#: How many compiles and kernels a message lists before "and N more".
TOP = 6

#: Reasons that a warm-up or a definition explains: they are told after those that something can be done about.
_EXPECTED = ("first_use", "eager", "disk", "wait")


@dataclass(frozen=True)
class KernelUse:
    """What a test's call did with one kernel function, all dispatchers made from it together.

    Attributes
    ----------
    name, module : str
        The function's qualified name, and the module that defines it.
    dispatchers : tuple of int
        Its rows in ``dispatchers``: more than one where the definition ran again.
    launches, captured : int
        Launches that ran, and those that went into the capture of a graph.
    specializations : tuple of int
        Rows of ``specializations`` that were launched, compiled or loaded.
    """

    name: str
    module: str
    dispatchers: tuple[int, ...]
    launches: int
    captured: int
    specializations: tuple[int, ...]

    def is_called(self, name: str) -> bool:
        """Whether a user's name means this kernel: its last part, its qualified name, or that after its module."""
        # Probes may leave "<locals>" out, which Python writes after a function's name.
        own, wanted = self.name.replace(".<locals>", ""), name.replace(".<locals>", "")
        return wanted in (own, own.rpartition(".")[2], f"{self.module}.{own}")


@dataclass(frozen=True)
class Excess:
    """One limit that was exceeded.

    Attributes
    ----------
    limit : str
        Its name, such as ``max_compiles``.
    text : str
        What was more than it allows, in one line.
    dispatchers : frozenset of int
        The kernels concerned, rows of ``dispatchers``.
    """

    limit: str
    text: str
    dispatchers: frozenset[int]


def kernels_used(recording: Recording) -> list[KernelUse]:
    """Return every kernel function that was launched, compiled or loaded, most launches first."""
    found: dict[tuple[Any, ...], list[int]] = {}
    rows = {row["dispatcher_id"]: row for row in recording.rows("dispatchers")}
    for at, row in rows.items():
        key = (row["framework"], row["module"], row["name"], row["filename"], row["lineno"])
        found.setdefault(key, []).append(at)
    owner, run = recording.column("launches", "dispatcher_id"), ran(recording)
    launches, captured = Counter[int](owner[run].tolist()), Counter[int](owner[~run].tolist())
    made: dict[int, set[int]] = {}
    for table in ("launches", "compilations"):
        owners = recording.column(table, "dispatcher_id").tolist()
        members = recording.column(table, "specialization_id").tolist()
        for owner, member in set(zip(owners, members, strict=True)):
            made.setdefault(owner, set()).update((member,) if member >= 0 else ())
    uses = [
        KernelUse(
            name=str(name), module=str(module or ""), dispatchers=tuple(ids),
            launches=sum(launches[each] for each in ids), captured=sum(captured[each] for each in ids),
            specializations=tuple(sorted(at for each in ids for at in made.get(each, ()))),
        )
        for (_, module, name, _, _), ids in found.items() if any(each in made for each in ids)
    ]
    return sorted(uses, key=lambda each: (-each.launches, each.name))


def exceeded(recording: Recording, limits: Limits) -> list[Excess]:
    """Return the limits that the recorded call exceeded, in the order in which they are documented."""
    used = kernels_used(recording)
    result: list[Excess] = []
    if limits.max_compiles is not None:
        compiled = [each for each in compilations(recording) if each.outcome == "compiled"]
        if len(compiled) > limits.max_compiles:
            result.append(Excess(
                "max_compiles", f"{counted(len(compiled), 'compile')}, at most {count(limits.max_compiles)} allowed",
                frozenset(each.dispatcher_id for each in compiled)))
    if isinstance(limits.max_specializations, Mapping):
        for name, most in limits.max_specializations.items():
            result += _by_name(name, most, used)
    elif limits.max_specializations is not None:
        result += _too_many(used, limits.max_specializations)
    launches = sum(each.launches for each in used)
    if limits.max_launches is not None and launches > limits.max_launches:
        text = f"{counted(launches, 'launch', 'launches')}, at most {count(limits.max_launches)} allowed"
        result.append(Excess("max_launches", text, frozenset()))
    return result


def message(recording: Recording, found: Sequence[Excess], width: int | None = None) -> str:
    """Return what a failed check prints: each limit, then each compile with its reason, argument, fix and duration.

    Parameters
    ----------
    recording : Recording
        What the test's call did.
    found : sequence of Excess
        What `exceeded` returned, at least one.
    width : int, optional
        Columns to keep to; without it the terminal's, between 80 and 120.
    """
    columns = width or min(max(shutil.get_terminal_size((100, 24)).columns, 80), 120)
    parts = [_filled(f"kernelscope: {each.text} ({each.limit})", columns, 0) for each in found]
    concerned = frozenset[int]().union(*(each.dispatchers for each in found))
    kinds = {each.limit for each in found}
    if concerned:
        parts.append(_compiles(recording, concerned, "max_specializations" in kinds, columns))
    used = kernels_used(recording)
    if "max_specializations" in kinds:
        parts += [_before(recording, each, columns) for each in used if concerned.intersection(each.dispatchers)]
    if "max_launches" in kinds:
        listed = [f"{clean(each.name)} {count(each.launches)}" for each in used if each.launches]
        parts.append(_filled(f"launches: {_few(listed)}", columns, 0))
    if recording.notice:
        parts.append(f"({clean(recording.notice)})")
    return "\n".join(part for part in parts if part)


def unrecorded(recording: Recording) -> str | None:
    """Return why launches could not be seen, in one line; None where they could, or where nothing launches."""
    rows = [row for row in recording.rows("health") if row["probe"] == "numba-cuda"]
    if any(row["cost_ns"] is not None for row in rows):  # calibrated, and so hooked
        return None
    for row in rows:
        if row["status"] in ("unavailable", "degraded", "failed"):
            return f"{clean(row['message'])}" + (f"; {clean(row['fix'])}" if row["fix"] else "")
    return None


def _by_name(name: str, most: int, used: Sequence[KernelUse]) -> list[Excess]:
    found = [each for each in used if each.is_called(name)]
    if found or not most:
        return _too_many(found, most)
    # A name that is never met would let the check pass for ever, be it mistyped or of a kernel that was renamed.
    seen = _few([f"{clean(each.module)}.{clean(each.name)}".lstrip(".") for each in used])
    near = did_you_mean(name, [clean(each.name) for each in used])
    text = f"no kernel {clean(name)!r} was launched or compiled; seen: {seen or 'none'}{near}"
    return [Excess("max_specializations", text, frozenset())]


def _too_many(used: Sequence[KernelUse], most: int) -> list[Excess]:
    return [
        Excess("max_specializations", (f"{clean(each.name)} has {counted(len(each.specializations), 'specialization')}"
                                       f"{_remade(each)}, at most {count(most)} allowed"), frozenset(each.dispatchers))
        for each in used if len(each.specializations) > most
    ]


def _remade(each: KernelUse) -> str:
    return f" of {len(each.dispatchers)} dispatchers, since its definition ran again" if each.dispatchers[1:] else ""


def _compiles(recording: Recording, concerned: frozenset[int], with_loads: bool, width: int) -> str:
    """The compiles of some kernels, those first that something can be done about, then the longest."""
    outcomes = ("compiled", "failed", "disk") if with_loads else ("compiled", "failed")
    arguments = {row["compilation_id"]: row["argument"] for row in recording.rows("compilations")}
    shown = [each for each in compilations(recording)
             if each.outcome in outcomes and (each.dispatcher_id in concerned or each.outcome == "failed")]
    shown.sort(key=lambda each: (each.outcome != "compiled", each.reason_code in _EXPECTED))
    lines: list[str] = []
    for each in shown[:TOP]:
        lines += _compile(each, arguments[each.compilation_id], width)
    if len(shown) > TOP:
        lines.append(f"  and {counted(len(shown) - TOP, 'more compile')}")
    return "\n".join(lines)


def _compile(each: CompilationSummary, argument: str | None, width: int) -> list[str]:
    first = f"{duration(each.duration_ns):>9}  {words.outcome(each)} {clean(words.trigger(each))}: {clean(each.name)} "
    code = each.reason_code + (f", argument {clean(argument)}" if argument else "")
    lines = [first + shorten(clean(each.signature), max(width - width_of(first), 24)),
             _filled(f"why: {clean(each.reason)} [{code}]", width, 11)]
    if each.fix:
        lines.append(_filled(f"fix: {clean(each.fix)}", width, 11))
    return lines


def _before(recording: Recording, used: KernelUse, width: int) -> str:
    """The specializations of a kernel that were launched and not compiled here."""
    here = set(recording.column("compilations", "specialization_id").tolist())
    rows = recording.rows("specializations")
    known = [clean(rows[at]["signature"]) for at in used.specializations if at not in here]
    return _filled(f"there before: {clean(used.name)} {_few(known)}", width, 2) if known else ""


def _few(texts: Sequence[str]) -> str:
    more = f" and {len(texts) - TOP} more" if len(texts) > TOP else ""
    return ", ".join(texts[:TOP]) + more


def _filled(text: str, width: int, indent: int) -> str:
    return textwrap.fill(text, width, initial_indent=" " * indent, subsequent_indent=" " * (indent + 5),
                         break_on_hyphens=False)


def entry(recording: Recording) -> dict[str, Any]:
    """Return what a report's JSON says of one recorded test; see the guide for its keys."""
    found = compilations(recording)
    arguments = {row["compilation_id"]: row["argument"] for row in recording.rows("compilations")}
    modules = {row["dispatcher_id"]: row["module"] for row in recording.rows("dispatchers")}
    outcomes = Counter(each.outcome for each in found)
    used = kernels_used(recording)
    return {
        "launches": sum(each.launches for each in used),
        "captured": sum(each.captured for each in used),
        "compiles": outcomes["compiled"],
        "compile_ns": sum(each.duration_ns for each in found if each.outcome == "compiled"),
        "disk_loads": outcomes["disk"],
        "waits": outcomes["wait"],
        "failed_compiles": outcomes["failed"],
        "kernels": [
            {"kernel": each.name, "module": each.module, "launches": each.launches, "captured": each.captured,
             "specializations": len(each.specializations), "dispatchers": len(each.dispatchers)} for each in used
        ],
        "compilations": [
            {"kernel": each.name, "module": modules.get(each.dispatcher_id), "signature": each.signature,
             "trigger": each.trigger, "outcome": each.outcome, "duration_ns": each.duration_ns,
             "reason_code": each.reason_code, "argument": arguments[each.compilation_id], "reason": each.reason,
             "fix": each.fix, "error": each.error and brief(each.error)} for each in found
        ],
    }
