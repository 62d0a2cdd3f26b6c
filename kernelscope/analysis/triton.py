"""Why each compile of Triton was needed, by argument name, and what would avoid it.

Triton compiles a kernel for each combination of its arguments' types, its constexprs, the integers and pointers that
are divisible by 16, the integers that are 1, and its options. The probe notes these with each specialization, and with
each compile the integers, and the alignment of pointers, that decide on divisibility. A compile is compared with the
known specialization that differs least. The codes beside those of `kernelscope.analysis.compiles`:

``new_constexpr``
    A ``tl.constexpr`` has another value.
``divisibility``
    An integer, or the address in a pointer, is divisible by 16 and was not, or the other way round.
``equal_to_1``
    An integer is 1, which is compiled as a constant, or was 1.
``new_option``, ``new_setting``
    ``num_warps`` or another option of the launch; a variable of the environment that Triton's key has.
``autotune``
    The autotuner tried a configuration.
``new_global``
    The definition ran again, and a constexpr that it reads from outside has another value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kernelscope.analysis.columns import json_object, mapping, owner_of, texts
from kernelscope.analysis.tuning import tuned_for
from kernelscope.recording.model import Recording
from kernelscope.units import listed

FRAMEWORK = "triton"

#: Codes that only Triton's compiles have.
CODES = ("new_constexpr", "divisibility", "equal_to_1", "new_option", "new_setting", "new_global", "autotune")

#: So many differences are named beside the first.
_MOST = 3
_NEAREST = "the nearest known specialization"
_SLOWER = "which may run slower than one made for it (not measured)"
_ALIGNED = 16
_BITS = {"i1": 1, "u1": 8, "fp8": 8, "bf16": 16}


@dataclass(frozen=True)
class Change:
    """How a specialization differs from a known one, in one thing.

    Attributes
    ----------
    kind : str
        ``device``, ``type``, ``constexpr``, ``option``, ``setting``, ``equal_to_1`` or ``divisibility``.
    name : str
        The argument, the option or the variable.
    known, wanted : str
        What it was and what it is; for divisibility and 1 the type, with ``:16`` or as ``1`` where it is so.
    """

    kind: str
    name: str
    known: str
    wanted: str

    @property
    def code(self) -> str:
        """Return the reason code."""
        if self.kind == "type":
            kinds = [text.startswith("*") for text in (self.known, self.wanted)]
            none = "None" in (self.known, self.wanted)
            return "new_type" if none or kinds[0] != kinds[1] else "new_dtype" if all(kinds) else "new_scalar"
        named = {"device": "new_device", "constexpr": "new_constexpr", "option": "new_option", "setting": "new_setting"}
        return named.get(self.kind, self.kind)

    @property
    def is_argument(self) -> bool:
        """Return whether it is about an argument of the kernel."""
        return self.kind in ("type", "constexpr", "equal_to_1", "divisibility")


_ORDER = ("device", "type", "constexpr", "option", "setting", "equal_to_1", "divisibility")

#: Options of ``@triton.jit`` with which arguments do not count in this respect.
_DECLARED = {"equal_to_1": "do_not_specialize", "divisibility": "do_not_specialize_on_alignment"}

Facts = Mapping[str, Any]


def compare(wanted: Facts, known: Facts) -> tuple[Change, ...]:
    """Return how two specializations differ, worst first.

    Parameters
    ----------
    wanted, known : mapping
        Their ``attributes``: see `kernelscope.probes.triton.kernels.facts`.
    """
    found: list[Change] = []
    for each in ("target", "device"):
        was, present = known.get(each), wanted.get(each)
        if was != present and not found:
            found.append(Change("device", each, str(was), str(present)))
    names = [name for held in (wanted, known) for part in ("types", "equal_to_1", "constexprs")
             for name in held.get(part) or ()]
    for name in dict.fromkeys(names):
        change = _argument(name, wanted, known)
        if change is not None:
            found.append(change)
    for kind, part in (("option", "options"), ("setting", "environment")):
        were, are = mapping(known.get(part)), mapping(wanted.get(part))
        for name in dict.fromkeys((*are, *were)):
            if are.get(name) != were.get(name) and not (name == "arch" and found[:1] and found[0].kind == "device"):
                found.append(Change(kind, name, _shown(were.get(name)), _shown(are.get(name))))
    return tuple(sorted(found, key=lambda each: _ORDER.index(each.kind)))


def changes(signature: str, nearest: str, names: tuple[str, ...]) -> str:
    """Return how the arguments of two signatures differ, in brief: ``x *fp32 → *fp64, BLOCK 256 → 512``."""
    new, old = signature.split(", "), nearest.split(", ")
    if not nearest or len(new) != len(old) or len(new) != len(names):
        return ""
    brief = [f"{name} {known.removeprefix(name + '=')} → {wanted.removeprefix(name + '=')}"
             for name, known, wanted in zip(names, old, new, strict=True) if known != wanted]
    return listed(brief, _MOST)


@dataclass
class _Kernel:
    """What a kernel function had compiled so far, newest last, and its row."""

    row: Mapping[str, Any]
    known: list[tuple[str, Facts, Mapping[str, Any]]] = field(
        default_factory=list[tuple[str, Facts, Mapping[str, Any]]])
    definition: Mapping[str, Any] = field(default_factory=dict[str, Any])
    #: When its last compile ended, by specialization.
    ends: dict[int, int] = field(default_factory=dict[int, int])


def reasons(recording: Recording) -> dict[int, dict[str, Any]]:
    """Return the columns of a reason for each of Triton's compiles that has none, by its id.

    These are ``reason_code``, ``reason``, ``fix``, ``argument`` and ``nearest_signature``.
    """
    kernels = {row["dispatcher_id"]: _Kernel(row) for row in recording.rows("dispatchers")
               if row["framework"] == FRAMEWORK}
    if not kernels:
        return {}
    specializations = recording.rows("specializations")
    held = {row["specialization_id"]: json_object(row["attributes"]) for row in specializations
            if row["dispatcher_id"] in kernels}
    for row in specializations:
        if row["dispatcher_id"] in kernels and row["origin"] == "before":
            kernels[row["dispatcher_id"]].known.append((row["signature"], held[row["specialization_id"]], {}))
    found: dict[int, dict[str, Any]] = {}
    tuned = tuned_for(recording)
    for row in sorted(recording.rows("compilations"), key=lambda each: each["start_ns"]):
        kernel = kernels.get(row["dispatcher_id"])
        if kernel is None:
            continue
        attributes = json_object(row["attributes"])
        wanted = held.get(row["specialization_id"]) or mapping(attributes.get("requested"))
        if row["reason_code"] is None:
            found[row["compilation_id"]] = _columns(
                row, attributes, wanted, kernel, kernels.values(), tuned.get(row["compilation_id"]))
        if row["outcome"] in ("compiled", "disk"):
            kernel.known.append((row["signature"], wanted, attributes))
            kernel.definition = mapping(attributes.get("definition")) or kernel.definition
            kernel.ends[row["specialization_id"]] = row["end_ns"] or row["start_ns"]
    return found


def _columns(row: Mapping[str, Any], attributes: Mapping[str, Any], wanted: Facts, kernel: _Kernel,
             kernels: Iterable[_Kernel], tuned: str | None) -> dict[str, Any]:
    code, sentence, fix, argument, nearest = _reason(row, attributes, wanted, kernel, kernels)
    if owner_of(kernel.row) == "library":  # of inductor
        fix = "nothing avoids it in your code: torch.compile generates this kernel, and its own compile says why"
    if tuned is not None:
        code, fix, argument = "autotune", None, None
        sentence = f"the autotuner was choosing a configuration{f' for {tuned}' if tuned else ''}"
    if row["outcome"] == "disk":
        because = "" if code in ("first_use", "recompile") else f"; it was asked for because {sentence}"
        code, fix = "disk", None
        sentence = f"not compiled: Triton's disk cache had it{because}"
    if row["trigger"] == "compile" and row["outcome"] != "disk":
        sentence += "; a warm-up or triton.compile asked for it"
    if row["outcome"] == "failed":
        error = row["error"] or "it raised"
        sentence += f"; the compile failed: {error}"
        fix = ("it was interrupted; the next launch compiles it" if error.startswith("KeyboardInterrupt") else
               "leave this configuration out, or prune it (prune_configs_by)" if tuned is not None else
               "correct what the error names; a failed compile leaves nothing behind, so each launch tries again")
    return {"reason_code": code, "reason": sentence, "fix": fix, "argument": argument, "nearest_signature": nearest}


Reason = tuple[str, str, str | None, str | None, str | None]


def _reason(row: Mapping[str, Any], attributes: Mapping[str, Any], wanted: Facts, kernel: _Kernel,
            kernels: Iterable[_Kernel]) -> Reason:
    """Return code, sentence, fix, argument and nearest signature."""
    definition = mapping(attributes.get("definition"))
    known = kernel.known
    if not known:
        previous = _previous(attributes, kernel, kernels)
        if previous is not None and previous.definition != definition:
            return *_redefined(definition, previous.definition), None, None
        if previous is None:
            return ("first_use", "the kernel had no specialization yet: this is its first",
                    "launch it once, or call its warmup(), before it matters; Triton's disk cache keeps it for the "
                    "next process", None, None)
        known = [each for each in previous.known if any(
            change.kind == "setting" for change in compare(wanted, each[1]))]
        if not known:
            return *_redefined(definition, previous.definition), None, None
    if not wanted:
        return "unknown", "the record does not tell what was new", None, None, None
    signature, nearest, seen = min(reversed(known), key=lambda each: _distance(compare(wanted, each[1])))
    found = compare(wanted, nearest)
    if not found:
        return *_again(row, attributes, seen, kernel), None, signature
    sentence = f"{_described(found[0], attributes, seen)}{_others(found[1:])}"
    argument = found[0].name if found[0].is_argument else None
    return found[0].code, sentence, fix_for(found), argument, signature


def _distance(changes: Sequence[Change]) -> tuple[int, int]:
    """Return how far apart two specializations are: by how many things, and of as many by how mild the worst is."""
    return len(changes), -_ORDER.index(changes[0].kind) if changes else 0


def _previous(attributes: Mapping[str, Any], kernel: _Kernel, kernels: Iterable[_Kernel]) -> _Kernel | None:
    """Return the definition before this one of the same name: of this recording, or as the probe remembered it."""
    same = [each for each in kernels if each is not kernel and each.known and each.definition
            and all(each.row[name] == kernel.row[name] for name in ("module", "name"))]
    if same:
        return max(same, key=lambda each: max(each.ends.values(), default=0))
    before = mapping(attributes.get("previous"))
    return _Kernel(kernel.row, definition=before) if before else None


def _redefined(now: Mapping[str, Any], before: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return code, sentence and fix for a definition that ran again."""
    again = "the definition ran again"
    if now.get("source") != before.get("source"):
        return ("redefined", f"{again} with new source, which has to be compiled",
                "nothing avoids it: new source has to be compiled")
    for part, code in (("globals", "new_global"), ("functions", "redefined")):
        were, are = mapping(before.get(part)), mapping(now.get(part))
        names = [name for name in dict.fromkeys((*are, *were)) if are.get(name) != were.get(name)]
        if not names:
            continue
        first = names[0]
        if code == "redefined":
            return code, (f"{again}, and the function `{first}`, which it calls, is another one"), (
                f"nothing avoids it where `{first}` has new source; else keep its definition out of what runs again")
        others = f", and so {'is' if len(names) == 2 else 'are'} {listed(names[1:], _MOST)}" if names[1:] else ""
        return code, (f"{again}, and the constexpr `{first}`, which it reads from outside, is {are.get(first)} instead "
                      f"of {were.get(first)}{others}"), (
            f"pass `{first}` as an argument that is no tl.constexpr, and define the kernel once")
    if now.get("line") != before.get("line"):
        return ("redefined", f"{again}, and has moved from line {before.get('line')} to line {now.get('line')}: "
                "Triton's key has the line", "keep the definition in a module, or above what is edited")
    return ("redefined", f"{again} with the same source: the new kernel has none of the specializations of the one "
            "before", "keep the definition out of the cell, loop or function that runs again")


def _again(row: Mapping[str, Any], attributes: Mapping[str, Any], seen: Mapping[str, Any],
           kernel: _Kernel) -> tuple[str, str, str]:
    """Return code, sentence and fix for a specialization that was known."""
    given, before = mapping(attributes.get("given")), mapping(seen.get("given"))
    names = [name for name in dict.fromkeys((*given, *before)) if (name in given) != (name in before)]
    if names and seen:
        how = "gives" if names[0] in given else "leaves out"
        value = given.get(names[0], before.get(names[0]))
        return ("new_option", f"the launch {how} {names[0]}={value}, which is the default: Triton's key in memory "
                "tells the two apart", f"give {names[0]} in every launch, or in none")
    if attributes.get("always_compile"):
        return ("recompile", "the same specialization was compiled before: TRITON_ALWAYS_COMPILE is set",
                "unset TRITON_ALWAYS_COMPILE")
    if kernel.ends.get(row["specialization_id"], 0) > row["start_ns"]:
        return ("recompile", "another thread compiled the same specialization at the same time: Triton lets both do "
                "it", "launch once in one thread before the others start")
    return ("recompile", "the same specialization was compiled before, and is not in the kernel's memory any more",
            "keep the kernel function's device_caches, and do not call warmup() or triton.compile for what is compiled")


def _described(change: Change, now: Mapping[str, Any], before: Mapping[str, Any]) -> str:
    """Describe what is new, with the value that did it, and what the nearest known specialization has."""
    name, new, old = f"`{change.name}`", change.wanted, change.known
    if change.kind == "device":
        return (f"it was compiled for {'device ' if change.name == 'device' else ''}{new}; {_NEAREST} is for "
                f"{'device ' if change.name == 'device' else ''}{old}")
    if change.kind == "constexpr":
        return f"the constexpr {name} is {new}; {_NEAREST} has {old}"
    if change.kind in ("option", "setting"):
        return f"{change.name} is {new}; {_NEAREST} has {old}"
    value, was = _value(change.name, now), _value(change.name, before)
    if change.kind == "type":
        of = f" ({value})" if value is not None and new[:1] in "iu" else ""
        return f"argument {name} is {new}{of}; {_NEAREST} has {old}"
    if change.kind == "equal_to_1":
        if new == "1":
            like = "" if was is None else f", such as {was}"
            return f"argument {name} is 1, which Triton compiles as a constant; {_NEAREST} is for other integers{like}"
        return f"argument {name} is {_or(value, 'not 1')}; {_NEAREST} is for 1, as a constant"
    if new.startswith("*"):
        if new.endswith(f":{_ALIGNED}"):
            made = "" if was is None else f" (it was made for one aligned at {_bytes(was)})"
            return f"pointer {name} is aligned at 16 bytes; {_NEAREST} is for any pointer{made}"
        at = "not aligned at 16 bytes" if value is None else f"aligned at {_bytes(value)}, not at 16"
        return f"pointer {name} is {at}; {_NEAREST} is for pointers aligned at 16 bytes"
    if new.endswith(f":{_ALIGNED}"):
        like = "" if was is None else f", such as {was}"
        return (f"argument {name} is {_or(value, 'an integer')}, divisible by 16; {_NEAREST} is for integers that are "
                f"not{like}")
    like = "" if was is None else f", such as {was}"
    return (f"argument {name} is {_or(value, 'an integer')}, not divisible by 16; {_NEAREST} is for integers that are"
            f"{like}")


def _value(name: str, attributes: Mapping[str, Any]) -> int | None:
    """Return an integer argument's value, or at how many bytes a pointer is aligned; None where that is not known."""
    for part in ("values", "alignments"):
        found = mapping(attributes.get(part)).get(name)
        if isinstance(found, int):
            return found
    return None


def _or(value: int | None, otherwise: str) -> str:
    return otherwise if value is None else str(value)


def _bytes(count: int) -> str:
    return f"{count} byte{'s' * (count != 1)}"


def _others(changes: Sequence[Change]) -> str:
    if not changes:
        return ""
    told = [f"{f'`{each.name}`' if each.is_argument else each.name} ({each.known} to {each.wanted})"
            for each in changes]
    return f"; {listed(told, _MOST)} differ{'s' * (len(changes) == 1)} too"


def fix_for(found: Sequence[Change]) -> str:
    """Return what would avoid a compile that differs so from a known specialization, for every difference."""
    parts: list[str] = []
    same = [f"{each.name}={each.known}" for each in found if each.kind in ("constexpr", "option")]
    if same:
        parts.append(f"launch it with {', '.join(same)} every time")
        names = [f"`{each.name}`" for each in found if each.kind == "constexpr" and _is_number(each.known)]
        if names:
            parts[-1] += (f"; or, where the kernel does not need {' and '.join(names)} as a constant, drop "
                          "tl.constexpr there")
    for each in found:
        if each.kind == "device":
            parts.append("launch it once there before it matters: each device has its own kernels in memory")
        elif each.kind == "setting":
            parts.append(f"keep {each.name}={each.known} for the whole process")
        elif each.kind == "type":
            parts.append(_for_type(each))
    own = [each for each in found if "[" not in each.name]
    options = [f"{option}=[{', '.join(names)}]" for kind, option in _DECLARED.items()
               if (names := [f'"{each.name}"' for each in own if each.kind == kind])]
    one = [f"@triton.jit({', '.join(options)}) makes one kernel for all of them, {_SLOWER}"] if options else []
    inside = [f"pass `{each.name}` as an argument of its own, with do_not_specialize in @triton.jit" for each in found
              if each.kind == "equal_to_1" and each not in own]  # Triton's options do not reach into tuples
    instead = [*one, *inside, *(_otherwise(each) for each in found if each.kind == "divisibility")]
    if instead:
        parts.append("; or ".join(instead))
    return "; ".join(parts)


def _for_type(change: Change) -> str:
    new, old, name = change.wanted, change.known, f"`{change.name}`"
    if "None" in (new, old):
        given = old if new == "None" else new
        return f"pass a {given} as {name} in every launch: None is a constant"
    if new.startswith("*") and old.startswith("*"):
        return f"pass {name} with the dtype {old[1:]} in every launch, if the values allow it"
    integers = ("i32", "i64", "u64")
    if new in integers and old in integers:
        wide = "int64" if "u64" not in (new, old) else "uint64"
        return f"annotate it in the kernel, `{change.name}: tl.{wide}`, which takes all of these integers"
    return f"pass {name} as {old} in every launch, if the values allow it"


def _otherwise(change: Change) -> str:
    """Return what can be passed instead of what is not divisible by 16."""
    kind = change.wanted.removesuffix(f":{_ALIGNED}")
    if not kind.startswith("*"):
        return f"pass `{change.name}` padded to a multiple of 16 in every launch"
    size = _element_bytes(kind[1:])
    elements = "" if size is None else f" ({counted_elements(_ALIGNED // size)})"
    return f"slice `{change.name}` at a multiple of 16 bytes{elements} in every launch"


def counted_elements(count: int) -> str:
    """Return a number of elements as text."""
    return f"{count} element{'s' * (count != 1)}"


def _element_bytes(kind: str) -> int | None:
    kind = kind.removeprefix("k")
    for name, bits in _BITS.items():
        if kind.startswith(name):
            return max(bits // 8, 1)
    digits = kind.lstrip("fpiu")
    return int(digits) // 8 if digits.isdigit() and int(digits) >= 8 else None


def _argument(name: str, wanted: Facts, known: Facts) -> Change | None:
    new, old = _form(name, wanted), _form(name, known)
    if new == old:
        return None
    if new is None or old is None:
        return Change("type", name, _text(old).split(":")[0], _text(new).split(":")[0])
    if new[0] == old[0] == "constexpr":
        return Change("constexpr", name, old[1], new[1])
    for one, other in ((new, old), (old, new)):
        if one[0] == "1" and other[0] == "type" and other[1].split(":")[0] in ("i32", "i64", "u64"):
            return Change("equal_to_1", name, _text(old), _text(new))
    if new[0] == old[0] == "type" and new[1].split(":")[0] == old[1].split(":")[0]:
        return Change("divisibility", name, old[1], new[1])
    return Change("type", name, _text(old).split(":")[0], _text(new).split(":")[0])


def _form(name: str, held: Facts) -> tuple[str, str] | None:
    constexprs, types = mapping(held.get("constexprs")), mapping(held.get("types"))
    if name in constexprs:
        return "constexpr", str(constexprs[name])
    if name in types:
        return "type", str(types[name]) + (f":{_ALIGNED}" if name in texts(held.get("divisible_by_16")) else "")
    return ("1", "1") if name in texts(held.get("equal_to_1")) else None


def _text(form: tuple[str, str] | None) -> str:
    return "nothing" if form is None else form[1]


def _shown(value: object) -> str:
    return repr(value) if isinstance(value, bool | int | float | type(None)) else str(value)


def _is_number(text: str) -> bool:
    return text.lstrip("-").replace(".", "", 1).isdigit()
