"""Why each compile of Triton was needed, by argument name, and what would avoid it.

Triton compiles a kernel for each combination of its arguments' types, its constexprs, the integers and pointers that
are divisible by 16, the integers that are 1, and its options. The probe notes these with each specialization, and with
each compile the integers, and the alignment of pointers, that decide on divisibility. A compile is compared with the
known specialization that differs in the fewest things, of several with the one with the most launches, then the
earliest. What a fix asks for is chosen once for each argument of a recording. The codes beside those of
`kernelscope.analysis.compiles`:

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

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kernelscope.analysis.columns import json_object, launch_counts, mapping, owner_of, texts
from kernelscope.analysis.common_types import common_dtype, holds, most
from kernelscope.analysis.tuning import tuned_for
from kernelscope.recording.model import Recording
from kernelscope.recording.time import row_end_ns
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
        ``device``, ``type``, ``length`` (of a tuple), ``constexpr``, ``option``, ``setting``, ``equal_to_1``,
        ``divisibility``, or ``bool`` (for a bool, where an annotation gives it the type of an integer).
    name : str
        The argument, the option or the variable.
    known, wanted : str
        What it was and what it is; for divisibility and 1 the type, with ``:16``, or as ``1`` or, where it is
        annotated, with ``=1`` where it is so; of a constexpr `NO_CONSTEXPR` where it is not one.
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
        if self.kind == "constexpr" and NO_CONSTEXPR in (self.known, self.wanted):
            return "new_type"
        named = {"device": "new_device", "constexpr": "new_constexpr", "option": "new_option", "setting": "new_setting",
                 "length": "tuple_arity", "bool": "new_scalar"}
        return named.get(self.kind, self.kind)

    @property
    def is_argument(self) -> bool:
        """Return whether it is about an argument of the kernel."""
        return self.kind not in ("device", "option", "setting")


#: What an argument has in place of a constant's value where it is not one.
NO_CONSTEXPR = "no constant"
_ORDER = ("device", "type", "length", "bool", "constexpr", "option", "setting", "equal_to_1", "divisibility")

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
    found: dict[Change, None] = {}
    for each in ("target", "device"):
        was, present = known.get(each), wanted.get(each)
        if was != present and not found and None not in (was, present):  # a failed compile's device is not known
            found[Change("device", each, str(was), str(present))] = None
    news, olds = _forms(wanted), _forms(known)
    for name in dict.fromkeys((*news, *olds)):
        change = _argument(name, news, olds)
        if change is not None:
            found[change] = None
    is_target = any(each.name == "target" for each in found)
    for kind, name, was, present in _chosen(wanted, known):
        if not (name == "arch" and is_target):
            found[Change(kind, name, _shown(was), _shown(present))] = None
    return tuple(sorted(found, key=lambda each: _ORDER.index(each.kind)))


def _chosen(wanted: Facts, known: Facts) -> Iterator[tuple[str, str, object, object]]:
    """Yield each option and variable of the environment that differs: kind, name, what it was and is."""
    for kind, group in (("option", "options"), ("setting", "environment")):
        were, are = mapping(known.get(group)), mapping(wanted.get(group))
        for name in dict.fromkeys((*are, *were)):
            if are.get(name) != were.get(name):
                yield kind, name, were.get(name), are.get(name)


def distance(wanted: Facts, known: Facts) -> int:
    """Return in how many things two specializations differ.

    An argument's type, its divisibility by 16, and that it is 1, count one each; a type of another kind, such as a
    float for an integer, counts two.
    """
    news, olds = _forms(wanted), _forms(known)
    arguments = sum(_form_distance(news.get(name), olds.get(name)) for name in {**news, **olds})
    devices = sum(each in wanted and each in known and wanted[each] != known[each] for each in ("target", "device"))
    return arguments + min(devices, 1) + sum(1 for _ in _chosen(wanted, known))


def _form_distance(new: Form | None, old: Form | None) -> int:
    if new == old:
        return 0
    if new is None or old is None or new[0] == old[0] == "constexpr":
        return 1
    if "constexpr" in (new[0], old[0]):
        return 2
    types = _type(new), _type(old)
    kinds = _type_kind(types[0]), _type_kind(types[1])
    apart = 2 * (kinds[0] != kinds[1]) or int(types[0] != types[1])
    return apart + (new[0] != old[0]) + (new[1].endswith(_DIVISIBLE) != old[1].endswith(_DIVISIBLE))


def changes(signature: str, nearest: str, names: tuple[str, ...]) -> str:
    """Return how the arguments of two signatures differ, in brief: ``x *fp32 → *fp64, BLOCK 256 → 512``."""
    new, old = signature.split(", "), nearest.split(", ")
    if not nearest or len(new) != len(old) or len(new) != len(names):
        return ""
    brief = [f"{name} {known.removeprefix(name + '=')} → {wanted.removeprefix(name + '=')}"
             for name, known, wanted in zip(names, old, new, strict=True) if known != wanted]
    return listed(brief, _MOST)


@dataclass(frozen=True)
class _KnownSpecialization:
    """A specialization that was compiled or loaded, with the attributes of its compile, and its number of launches."""

    signature: str
    facts: Facts
    attributes: Mapping[str, Any]
    launches: int


class _Seen:
    """What the launches of a kernel function had for each argument, option and variable, with the launches of each."""

    def __init__(self) -> None:
        self._forms: dict[str, list[tuple[Form, int]]] = {}
        self._chosen: dict[tuple[str, str], list[tuple[str, int]]] = {}
        self._values: dict[str, set[int]] = {}
        self._special: set[str] = set()

    def add(self, facts: Facts, launches: int, attributes: Mapping[str, Any], is_launch: bool) -> None:
        """Take in a specialization; `attributes` are those of its compile, `is_launch` says whether a launch asked."""
        forms = _forms(facts)
        for name, form in forms.items():
            self._forms.setdefault(name, []).append((form, launches))
            state = _value_state(name, form, attributes) if is_launch else None
            if state is not None:
                self._values.setdefault(name, set()).update(
                    value for value in [_value(name, attributes)] if value is not None)
                self._special.update([name] if state in ("bool", "one") else [])
        for kind, group in (("option", "options"), ("setting", "environment")):
            for name, value in mapping(facts.get(group)).items():
                self._chosen.setdefault((kind, name), []).append((_shown(value), launches))

    def add_change(self, change: Change) -> None:
        """Take in both sides of a change of what is not known, which is of another definition of the kernel."""
        if change.kind in ("option", "setting"):
            self._chosen.setdefault((change.kind, change.name), [(change.known, 0), (change.wanted, 0)])
        elif change.kind in ("type", "constexpr", "equal_to_1", "divisibility"):
            kind = "constexpr" if change.kind == "constexpr" else "type"
            sides = [text for text in (change.known, change.wanted) if text not in ("nothing", NO_CONSTEXPR, _TUPLE)]
            self._forms.setdefault(change.name, [
                (("1", "1") if text == "1" else (kind, text.removesuffix(_ANNOTATED_ONE)), 0) for text in sides])

    def most(self, change: Change) -> str:
        """Return the value of an option, a variable or a constant that the most launches had."""
        if change.kind == "constexpr":
            values = [(form[1], launches) for form, launches in self._forms[change.name] if form[0] == "constexpr"]
            return most(values or [(change.known, 0)])
        return most(self._chosen[change.kind, change.name])

    def length(self, name: str) -> int:
        """Return the number of elements of the longest tuple."""
        return max((int(other[len(name) + 1:].split("]")[0]) + 1 for other in self._forms
                    if other.startswith(f"{name}[")), default=0)

    def types(self, name: str) -> list[tuple[str, int]]:
        """Return the types of an argument without divisibility, with the launches of each; 1 has that of an integer."""
        return [(_type(form), launches) for form, launches in self._forms.get(name, ()) if form[0] != "constexpr"]

    def is_one(self, name: str) -> bool:
        """Return whether an argument was 1, or a bool that has an integer's type by annotation."""
        return name in self._special or any(form[0] == "1" for form, _ in self._forms.get(name, ()))

    def is_divisible_at_times(self, name: str) -> bool:
        """Return whether an argument was divisible by 16, and was not."""
        return len({form[1].endswith(_DIVISIBLE) for form, _ in self._forms.get(name, ()) if form[0] == "type"}) == 2

    def is_annotated_one(self, name: str) -> bool:
        """Return whether an argument with an integer's type by annotation was 1, or a bool."""
        return name in self._special

    def least(self, name: str) -> int:
        """Return the least integer that is known of an argument; 0 where all are greater."""
        return min((0, *self._values.get(name, ())))


@dataclass
class _Kernel:
    """What a kernel function had compiled so far, in order, and its row."""

    row: Mapping[str, Any]
    known: list[_KnownSpecialization] = field(default_factory=list["_KnownSpecialization"])
    #: What the recording will have compiled, and whether a launch asked for it.
    asked: list[tuple[_KnownSpecialization, bool]] = field(
        default_factory=list[tuple["_KnownSpecialization", bool]])
    seen: _Seen = field(default_factory=lambda: _Seen())
    definition: Mapping[str, Any] = field(default_factory=dict[str, Any])
    #: When its last compile ended, by specialization.
    ends: dict[int, int] = field(default_factory=dict[int, int])

    def look(self) -> None:
        """Take in what all launches of the recording had: what the most launched specialization has outweighs all.

        One that was compiled before the recording, which needs no compile, comes before the recording's own.
        """
        every = [*((each, False) for each in self.known), *self.asked]
        main = max(self.known or [each for each, _ in self.asked], key=lambda each: each.launches, default=None)
        outweighing = sum(each.launches for each, _ in every) + 1
        for each, is_launch in every:
            self.seen.add(each.facts, each.launches + outweighing * (each is main), each.attributes, is_launch)


def reasons(recording: Recording) -> dict[int, dict[str, Any]]:
    """Return the columns of a reason for each of Triton's compiles that has none, by its id.

    These are ``reason_code``, ``reason``, ``fix``, ``argument`` and ``nearest_signature``.
    """
    tuned = tuned_for(recording)
    return {row["compilation_id"]: _columns(row, reason, tuned.get(row["compilation_id"]))
            for row, reason in _explained(recording) if row["reason_code"] is None}


def type_fixes(recording: Recording) -> dict[int, tuple[Fix, ...]]:
    """Return what the fix of each of Triton's compiles has the user do, by the compile's id.

    All of them together leave a kernel one specialization, unless one is that nothing avoids it.
    """
    return {row["compilation_id"]: reason.fixes for row, reason in _explained(recording)}


def _explained(recording: Recording) -> Iterator[tuple[Mapping[str, Any], _Reason]]:
    """Yield each of Triton's compiles with its reason."""
    kernels = {row["dispatcher_id"]: _Kernel(row) for row in recording.rows("dispatchers")
               if row["framework"] == FRAMEWORK}
    if not kernels:
        return
    specializations = recording.rows("specializations")
    launches = launch_counts(recording)
    held = {row["specialization_id"]: json_object(row["attributes"]) for row in specializations
            if row["dispatcher_id"] in kernels}
    for row in specializations:
        if row["dispatcher_id"] in kernels and row["origin"] == "before":
            number = row["specialization_id"]
            kernels[row["dispatcher_id"]].known.append(
                _KnownSpecialization(row["signature"], held[number], {}, launches.get(number, 0)))
    compiles = [(row, json_object(row["attributes"])) for row in sorted(
        recording.rows("compilations"), key=lambda each: each["start_ns"]) if row["dispatcher_id"] in kernels]
    for row, attributes in compiles:
        if row["outcome"] != "failed":
            number = row["specialization_id"]
            kernels[row["dispatcher_id"]].asked.append((_KnownSpecialization(
                row["signature"], held.get(number) or {}, attributes, launches.get(number, 0)),
                row["trigger"] == "launch"))
    for kernel in kernels.values():
        kernel.look()
    for row, attributes in compiles:
        kernel = kernels[row["dispatcher_id"]]
        wanted = held.get(row["specialization_id"]) or mapping(attributes.get("requested"))
        reason = _reason(row, attributes, wanted, kernel, kernels.values())
        if owner_of(kernel.row) == "library":  # of inductor
            reason = reason._replace(fixes=(), fix="nothing avoids it in your code: torch.compile generates this "
                                                   "kernel, and its own compile says why")
        yield row, reason
        if row["outcome"] in ("compiled", "disk"):
            kernel.known.append(_KnownSpecialization(
                row["signature"], wanted, attributes, launches.get(row["specialization_id"], 0)))
            kernel.definition = mapping(attributes.get("definition")) or kernel.definition
            kernel.ends[row["specialization_id"]] = row_end_ns(row)


class _Reason(NamedTuple):
    """Why a compile was needed, with the fix as text and as data."""

    code: str
    sentence: str
    fix: str | None
    argument: str | None = None
    nearest: str | None = None
    fixes: tuple[Fix, ...] = ()


def _columns(row: Mapping[str, Any], reason: _Reason, tuned: str | None) -> dict[str, Any]:
    code, sentence, fix, argument, nearest, _ = reason
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


def _reason(row: Mapping[str, Any], attributes: Mapping[str, Any], wanted: Facts, kernel: _Kernel,
            kernels: Iterable[_Kernel]) -> _Reason:
    definition = mapping(attributes.get("definition"))
    known = kernel.known
    if not known:
        previous = _previous(attributes, kernel, kernels)
        if previous is not None and previous.definition != definition:
            return _Reason(*_redefined(definition, previous.definition))
        if previous is None:
            return _Reason("first_use", "the kernel had no specialization yet: this is its first",
                           "launch it once, or call its warmup(), before it matters; Triton's disk cache keeps it for "
                           "the next process")
        known = [each for each in previous.known if any(
            change.kind == "setting" for change in compare(wanted, each.facts))]
        if not known:
            return _Reason(*_redefined(definition, previous.definition))
    if not wanted:
        return _Reason("unknown", "the record does not tell what was new", None)
    nearest = min(known, key=lambda each: (distance(wanted, each.facts), -each.launches))
    found = compare(wanted, nearest.facts)
    if not found and row["trigger"] == "launch":
        found = _by_value(attributes, wanted, [each for each in known if not compare(wanted, each.facts)])
    if not found:
        return _Reason(*_again(row, attributes, nearest.attributes, kernel), nearest=nearest.signature)
    sentence = f"{_described(found[0], attributes, nearest.attributes)}{_others(found[1:])}"
    argument = found[0].name if found[0].is_argument else None
    made = fixes(found, kernel.seen)
    return _Reason(found[0].code, sentence, fix_text(found, made), argument, nearest.signature, made)


def _by_value(attributes: Mapping[str, Any], wanted: Facts,
              known: Sequence[_KnownSpecialization]) -> tuple[Change, ...]:
    """Return what Triton's key has of the values of annotated integers, which the specializations do not show.

    An annotation gives an argument its type. The key has still whether the value is 1, or a bool.
    """
    for name, form in _forms(wanted).items():
        state = _value_state(name, form, attributes)
        states = {_value_state(name, form, each.attributes) for each in known if each.attributes}
        if state is None or not states or state in states:
            continue
        if state == "bool" or states == {"bool"}:
            kinds = ("an integer", "a bool") if state == "bool" else ("a bool", "an integer")
            return (Change("bool", name, *kinds),)
        one = f"{_type(form)}{_ANNOTATED_ONE}"
        return (Change("equal_to_1", name, one if "one" in states else form[1], one if state == "one" else form[1]),)
    return ()


def _value_state(name: str, form: Form, attributes: Mapping[str, Any]) -> str | None:
    """Return what Triton's key has of an integer's value: ``one``, ``int`` or ``bool``; None of other arguments.

    The probe notes the values of integers, not those of bools.
    """
    if form[0] != "type" or _type_kind(_type(form)) != "integer":
        return None
    value = _value(name, attributes)
    return "bool" if value is None else "one" if value == 1 else "int"


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
    ended = kernel.ends.get(row["specialization_id"])
    if ended is not None and ended > row["start_ns"]:
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
    if change.kind == "constexpr" and NO_CONSTEXPR in (new, old):
        return (f"argument {name} is {f'the constant {new}' if old == NO_CONSTEXPR else new}; {_NEAREST} has "
                f"{f'the constant {old}' if new == NO_CONSTEXPR else old}")
    if change.kind == "constexpr":
        return f"the constexpr {name} is {new}; {_NEAREST} has {old}"
    if change.kind == "length":
        return f"the tuple {name} has {_elements(int(new))}; {_NEAREST} has {old}"
    if change.kind == "bool":
        return f"argument {name} is {new}; {_NEAREST} is for {old}, which Triton's key in memory tells apart"
    if change.kind in ("option", "setting"):
        return f"{change.name} is {new}; {_NEAREST} has {old}"
    value, was = _value(change.name, now), _value(change.name, before)
    if change.kind == "type":
        of = f" ({value})" if value is not None and new[:1] in "iu" else ""
        return f"argument {name} is {new}{of}; {_NEAREST} has {old}"
    like = "" if was is None else f", such as {was}"
    if change.kind == "equal_to_1":
        if new == "1":
            return f"argument {name} is 1, which Triton compiles as a constant; {_NEAREST} is for other integers{like}"
        if new.endswith(_ANNOTATED_ONE):
            return (f"argument {name} is specialized for the value 1, which an annotation does not prevent; {_NEAREST} "
                    f"is for other integers{like}")
        as_constant = ", as a constant" if old == "1" else ""
        return f"argument {name} is {_or(value, 'not 1')}; {_NEAREST} is for 1{as_constant}"
    if new.startswith("*"):
        if new.endswith(f":{_ALIGNED}"):
            made = "" if was is None else f" (it was made for one aligned at {_bytes(was)})"
            return f"pointer {name} is aligned at 16 bytes; {_NEAREST} is for any pointer{made}"
        at = "not aligned at 16 bytes" if value is None else f"aligned at {_bytes(value)}, not at 16"
        return f"pointer {name} is {at}; {_NEAREST} is for pointers aligned at 16 bytes"
    if new.endswith(f":{_ALIGNED}"):
        return (f"argument {name} is {_or(value, 'an integer')}, divisible by 16; {_NEAREST} is for integers that are "
                f"not{like}")
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


@dataclass(frozen=True)
class Fix:
    """One thing to do so that a kernel needs one specialization less.

    Attributes
    ----------
    what : str
        ``value`` (of a constexpr), ``option`` or ``setting``: give it this value every time. ``annotation``: annotate
        the argument so in the kernel. ``do_not_specialize`` or ``do_not_specialize_on_alignment``: name the argument
        there. ``dtype`` (of a pointer), ``type``, ``length`` (of a tuple): pass it so in every launch. ``argument``:
        pass an element of a tuple as an argument of its own, annotated so or, without a value, with do_not_specialize.
        ``divisible``: pass an element of a tuple as one that is divisible by 16.
        ``constexpr``: pass it as a constant in every launch, or in none. ``device``: launch it there before it
        matters. ``none``: nothing avoids it.
    name : str
        The argument, the option or the variable.
    value : str
        The value or the type.
    is_lossy : bool
        Whether values can change by it.
    """

    what: str
    name: str
    value: str = ""
    is_lossy: bool = False


def fixes(found: Sequence[Change], seen: _Seen | None = None) -> tuple[Fix, ...]:
    """Return what would avoid a compile that differs so from a known specialization.

    Parameters
    ----------
    found : sequence of Change
        All differences.
    seen : _Seen, optional
        What all launches of the kernel had: all fixes of a kernel come to the same.
    """
    seen = _Seen() if seen is None else seen
    made: list[Fix] = []
    for change in found:
        seen.add_change(change)
        if change.kind == "constexpr":
            made.append(Fix("constexpr", change.name) if NO_CONSTEXPR in (change.known, change.wanted) else
                        Fix("value", change.name, seen.most(change)))
        elif change.kind in ("option", "setting"):
            made.append(Fix(change.kind, change.name, seen.most(change)))
        elif change.kind == "device":
            made.append(Fix("device", change.name))
        elif change.kind == "length":
            longest = max(int(change.known), int(change.wanted), seen.length(change.name))
            made.append(Fix("length", change.name, str(longest)))
        elif change.kind == "divisibility" and _is_in_tuple(change.name):
            made.append(Fix("divisible", change.name))
        elif change.kind == "divisibility" and not seen.is_annotated_one(change.name):
            made.append(Fix("do_not_specialize_on_alignment", change.name))
        else:
            made += _type_fixes(change, seen)
    return tuple(made)


def _type_fixes(change: Change, seen: _Seen) -> list[Fix]:
    """Return what gives an argument one type, and one specialization whatever its value."""
    name = change.name
    types = [(text, launches) for text, launches in seen.types(name) if text not in ("None", "nothing")]
    if change.kind == "type" and "None" in (change.known, change.wanted):
        given = change.known if change.wanted == "None" else change.wanted
        target = _common(types) or given
        return [Fix("type", name, f"None or {target}" if target.startswith("*") else target)]
    if change.kind == "type" and _TUPLE in (change.known, change.wanted):
        return [Fix("type", name, _TUPLE)]
    target = _common(types)
    if target is None:
        return [Fix("type", name)]
    kinds = {_type_kind(text) for text, _ in types}
    is_lossy = not all(holds(_NUMPY.get(target.lstrip("*"), target), _NUMPY.get(text.lstrip("*"), text))
                       for text, _ in types)
    if not kinds <= {"integer", "bool", "float"}:
        if kinds == {"pointer"} and change.kind == "type":
            return [Fix("dtype", name, target[1:], is_lossy)]
        return [Fix("type", name, target, is_lossy)]
    if target == "u64" and seen.least(name) < 0:
        return [Fix("none", name)]
    is_one_type = len({text for text, _ in types}) == 1
    if _is_in_tuple(name):
        return [Fix("argument", name, "" if is_one_type else target, is_lossy)]
    made = [] if is_one_type else [Fix("annotation", name, target, is_lossy)]
    if _type_kind(target) == "integer":
        # Triton's key has of an annotated integer whether it is 1, a bool, or divisible by 16.
        if seen.is_one(name) or change.kind in ("bool", "equal_to_1", "divisibility") or (
                "bool" in kinds and len(kinds) > 1):
            made.append(Fix("do_not_specialize", name))
        elif seen.is_divisible_at_times(name):
            made.append(Fix("do_not_specialize_on_alignment", name))
    return made


def _common(types: Sequence[tuple[str, int]]) -> str | None:
    """Return the type whose range has the values of all; None where numbers and others, or none, are among them."""
    if not types:
        return None
    kinds = {_type_kind(text) for text, _ in types}
    pointers = [(text, launches) for text, launches in types if text.startswith("*")]
    if pointers:
        types = pointers
    elif not kinds <= {"integer", "bool", "float"}:
        return most(types)
    if len({text for text, _ in types}) == 1:
        return types[0][0]
    stars = "*" if pointers else ""
    dtype = common_dtype([(_NUMPY.get(text.lstrip("*"), text.lstrip("*")), launches) for text, launches in types])
    if not pointers and {"int64", "uint64"} >= {dtype} and any(text == "u64" for text, _ in types):
        dtype = "uint64"  # which integers have that int64 does not hold
    return stars + next((text for text, name in _NUMPY.items() if name == dtype), dtype)


#: Triton's types as NumPy calls them.
_NUMPY = {"i1": "bool", "u1": "bool", **{f"{letter}{bits}": f"{name}{bits}" for letter, name in (
    ("i", "int"), ("u", "uint"), ("fp", "float")) for bits in (8, 16, 32, 64) if (letter, bits) != ("fp", 8)},
    "bf16": "bfloat16"}
_ANNOTATIONS = {"i": "int", "u": "uint", "fp": "float", "bf": "bfloat"}


def fix_text(found: Sequence[Change], made: Sequence[Fix]) -> str:
    """Return the fixes of a compile as text, with what else helps where it is about divisibility by 16."""
    parts: list[str] = []
    same = [f"{each.name}={each.value}" for each in made if each.what in ("value", "option")]
    if same:
        parts.append(f"launch it with {', '.join(same)} every time")
        names = [f"`{each.name}`" for each in made if each.what == "value"
                 and each.value.lstrip("-").replace(".", "", 1).isdigit()]
        if names:
            parts[-1] += (f"; or, where the kernel does not need {' and '.join(names)} as a constant, drop "
                          "tl.constexpr there")
    parts += [text for each in made if (text := _single(each)) is not None]
    options = [f"{option}=[{', '.join(names)}]" for option in ("do_not_specialize", "do_not_specialize_on_alignment")
               if (names := [f'"{each.name}"' for each in made if each.what == option])]
    instead = [f"@triton.jit({', '.join(options)}) makes one kernel for all of them, {_SLOWER}"] if options else []
    instead += [_otherwise(each) for each in found if each.kind == "divisibility"]
    if instead:
        parts.append("; or ".join(instead))
    return "; ".join(parts)


def _single(fix: Fix) -> str | None:
    """Return one fix as text; None for those that are told together."""
    name, allowed = f"`{fix.name}`", ", if the values allow it" * fix.is_lossy
    if fix.what == "device":
        return "launch it once there before it matters: each device has its own kernels in memory"
    if fix.what == "setting":
        return f"keep {fix.name}={fix.value} for the whole process"
    if fix.what == "dtype":
        return f"pass {name} with the dtype {fix.value} in every launch{allowed}"
    if fix.what == "length":
        return f"pass {name} with {_elements(int(fix.value))} in every launch"
    if fix.what == "constexpr":
        return f"pass {name} as a tl.constexpr in every launch, or in none"
    if fix.what == "none":
        return (f"nothing avoids it: no integer type has the negative values of {name} and those of 2**63 and more")
    if fix.what == "annotation":
        numbers = "integers" if fix.value[0] in "iu" else (
            f"numbers{' (large integers are rounded)' * fix.is_lossy}")
        kind = _annotation(fix.value)
        return f"annotate it in the kernel, `{fix.name}: tl.{kind}`, which takes all of these {numbers}"
    if fix.what == "argument":
        how = f"annotated tl.{_annotation(fix.value)}" if fix.value else "with do_not_specialize in @triton.jit"
        return f"pass {name} as an argument of its own, {how}"
    if fix.what == "type" and fix.value.startswith("None or "):
        return f"pass a {fix.value.removeprefix('None or ')} as {name} in every launch: None is a constant"
    if fix.what == "type":
        return f"pass {name} as {fix.value or 'one type'} in every launch{allowed}"
    return None


def _annotation(kind: str) -> str:
    """Return the name in ``triton.language`` of a number's type."""
    letters = kind.rstrip("0123456789")
    return "int1" if kind in ("u1", "i1") else f"{_ANNOTATIONS[letters]}{kind[len(letters):]}"


def _is_in_tuple(name: str) -> bool:
    """Return whether an argument is an element of a tuple, which neither annotations nor the kernel's options reach."""
    return "[" in name


def _otherwise(change: Change) -> str:
    """Return what can be passed instead of what is not divisible by 16."""
    kind = change.wanted.removesuffix(_DIVISIBLE)
    if not kind.startswith("*"):
        return f"pass `{change.name}` padded to a multiple of 16 in every launch"
    size = _element_bytes(kind[1:])
    elements = "" if size is None else f" ({_elements(_ALIGNED // size)})"
    return f"slice `{change.name}` at a multiple of 16 bytes{elements} in every launch"


def _elements(count: int) -> str:
    """Return a number of elements as text."""
    return f"{count} element{'s' * (count != 1)}"


def _element_bytes(kind: str) -> int | None:
    kind = kind.removeprefix("k")
    for name, bits in _BITS.items():
        if kind.startswith(name):
            return max(bits // 8, 1)
    digits = kind.lstrip("fpiu")
    return int(digits) // 8 if digits.isdigit() and int(digits) >= 8 else None


#: Of an argument ``constexpr`` and its value, ``type`` and its type, with ``:16`` where it is divisible, or 1 twice.
Form = tuple[str, str]
_DIVISIBLE = f":{_ALIGNED}"
#: Ends the type of an annotated integer that is 1.
_ANNOTATED_ONE = "=1"
_TUPLE = "a tuple"
_TYPE = re.compile(r"^(?:[*k]*(?:[iu]\d+|fp\d+\w*|bf\d+)|None|nvTmaDesc|tensordesc.*)$", re.DOTALL)


def _argument(name: str, news: Mapping[str, Form], olds: Mapping[str, Form]) -> Change | None:
    new, old = news.get(name), olds.get(name)
    if new == old:
        return None
    if new is None or old is None:
        return _missing(name, news, olds)
    if "constexpr" in (new[0], old[0]):
        texts_of = [form[1] if form[0] == "constexpr" else NO_CONSTEXPR for form in (old, new)]
        return Change("constexpr", name, *texts_of)
    for one, other in ((new, old), (old, new)):
        if one[0] == "1" and _type_kind(_type(other)) == "integer":
            return Change("equal_to_1", name, old[1], new[1])
    if new[0] == old[0] == "type" and _type(new) == _type(old):
        return Change("divisibility", name, old[1], new[1])
    return Change("type", name, *(form[1].removesuffix(_DIVISIBLE) for form in (old, new)))


def _missing(name: str, news: Mapping[str, Form], olds: Mapping[str, Form]) -> Change:
    """Return the change where only one of two has an argument: a tuple has another length, or is a tuple at all."""
    outer = name
    while True:
        sides = [_text(forms[outer]) if outer in forms else _TUPLE if _length(outer, forms) else None
                 for forms in (olds, news)]
        if sides == [_TUPLE, _TUPLE] or (None in sides and outer != name and "[" not in outer):
            return Change("length", outer, str(_length(outer, olds)), str(_length(outer, news)))
        if None not in sides or "[" not in outer:
            return Change("type", outer, *(side or "nothing" for side in sides))
        outer = outer.rpartition("[")[0]


def _length(name: str, forms: Mapping[str, Form]) -> int:
    return len({other[len(name) + 1:].split("]")[0] for other in forms if other.startswith(f"{name}[")})


def _forms(held: Facts) -> dict[str, Form]:
    """Return the form of each argument of a specialization, by name."""
    constexprs, types, divisible = (
        mapping(held.get("constexprs")), mapping(held.get("types")), set(texts(held.get("divisible_by_16"))))
    found: dict[str, Form] = {}
    for name, kind in types.items():
        # Constants in tuples were once noted among the types.
        is_type = _TYPE.match(str(kind)) is not None
        found[name] = ("type" if is_type else "constexpr", f"{kind}{_DIVISIBLE if name in divisible else ''}")
    found |= {name: ("1", "1") for name in texts(held.get("equal_to_1"))}
    return found | {name: ("constexpr", str(value)) for name, value in constexprs.items()}


def _type(form: Form) -> str:
    """Return an argument's type without divisibility; a 1 that is a constant would be an i32."""
    return "i32" if form[0] == "1" else form[1].removesuffix(_DIVISIBLE)


def _type_kind(kind: str) -> str:
    """Return which types one can be passed instead of another: bool, integer, float or pointer; else the type."""
    if kind in ("i1", "u1"):
        return "bool"
    if kind.startswith("*"):
        return "pointer"
    return "integer" if re.match(r"^[iu]\d", kind) else "float" if kind.startswith(("fp", "bf")) else kind


def _text(form: Form) -> str:
    return form[1].removesuffix(_DIVISIBLE)


def _shown(value: object) -> str:
    return repr(value) if isinstance(value, bool | int | float | type(None)) else str(value)
