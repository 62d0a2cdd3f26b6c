"""Why each compile of frameworks with a key of named parts was needed: see `kernelscope.registry.Framework.fixes`.

Their probes note with each specialization what it was compiled for: the arguments by name (dtype, dimensions, layout,
divisibility), constants, options, the target, and a hash of the code. A compile is compared with the known
specialization that differs in the fewest things, of several with the one with the most launches, then the earliest.
What a fix asks for is chosen once for a recording. Codes beside those of `kernelscope.analysis.compiles`:

``new_constexpr``
    An argument that is a constant has another value.
``divisibility``
    An address, a length or a stride is divisible by a power of two and was not, or the other way round.
``new_option``
    An option of the compiler, or a hint.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from kernelscope.analysis.columns import items, json_object, launch_counts, mapping, owner_of, texts
from kernelscope.analysis.common_types import common_dtype, is_number, most
from kernelscope.recording.model import Recording
from kernelscope.recording.time import row_end_ns
from kernelscope.registry import frameworks, loaded
from kernelscope.units import listed

_NEAREST = "the nearest known specialization"
#: So many differences are named beside the first.
_MOST = 3
#: The frameworks whose compiles have such keys.
FRAMEWORKS = tuple(framework.name for framework in frameworks() if framework.fixes)


@dataclass(frozen=True)
class Change:
    """How a specialization differs from a known one, in one thing.

    Attributes
    ----------
    kind : str
        ``target``, ``argument``, ``constant``, ``option``, ``code``, or of a module a ``kernel``.
    name : str
        The argument, the option, or the kernel.
    aspect : str
        Of an argument: ``type``, ``ndim``, ``layout``, ``index``, ``shape``, ``weak`` (a number of Python's),
        ``placement``, or what is divisible, as ``address``.
    known, wanted : object
        What it was and what it is; None where there was or is none.
    is_array : bool
        Whether it is about an array on both sides.
    """

    kind: str
    name: str = ""
    aspect: str = ""
    known: Any = None
    wanted: Any = None
    is_array: bool = False

    @property
    def code(self) -> str:
        """Return the reason code."""
        if self.kind == "kernel":
            return "new_type" if self.aspect == "types" else "redefined"
        if self.kind == "constant" and self.name == "reduction":
            return "new_layout"
        if self.kind != "argument":
            return {"target": "new_device", "constant": "new_constexpr", "option": "new_option"}.get(
                self.kind, "redefined")
        if self.aspect == "type":
            if None in (self.known, self.wanted) or "array" in f"{self.known} {self.wanted}":
                return "new_type"
            return "new_dtype" if self.is_array else "new_scalar"
        return {"ndim": "new_dimensions", "layout": "new_layout", "index": "new_type", "shape": "static_size",
                "weak": "new_scalar", "placement": "new_device"}.get(self.aspect, "divisibility")


_ORDER = ("target", "kernel", "code", "argument", "constant", "option")
_ASPECTS = ("type", "ndim", "shape", "weak", "index", "layout")


def compare(wanted: Mapping[str, Any], known: Mapping[str, Any]) -> tuple[Change, ...]:
    """Return how two specializations differ, worst first.

    Code that CuPy has generated counts only where nothing else differs: it has dtypes, dimensions and options in it.

    Parameters
    ----------
    wanted, known : mapping
        Their ``attributes``: ``arguments``, a mapping by name; ``constants`` and ``options``; ``target``; ``code``,
        and whether it is ``generated``.
    """
    found: list[Change] = []
    if wanted.get("target") != known.get("target"):
        found.append(Change("target", known=known.get("target"), wanted=wanted.get("target")))
    new, old = mapping(wanted.get("constants")), mapping(known.get("constants"))
    if "reduction" in new and "reduction" in old and new["reduction"] != old["reduction"]:  # another kernel altogether
        return (*found, Change("constant", "reduction", "", old["reduction"], new["reduction"]))
    new, old = mapping(wanted.get("arguments")), mapping(known.get("arguments"))
    for name in dict.fromkeys((*new, *old)):
        found += _argument(name, mapping(new.get(name)), mapping(old.get(name)))
    found += _kernels(mapping(wanted.get("kernels")), mapping(known.get("kernels")))
    for kind, part in (("constant", "constants"), ("option", "options")):
        new, old = mapping(wanted.get(part)), mapping(known.get(part))
        found += [Change(kind, name, "", old.get(name), new.get(name)) for name in dict.fromkeys((*new, *old))
                  if new.get(name) != old.get(name)]
    if wanted.get("code") != known.get("code") and not (found and wanted.get("generated")):
        found.append(Change("code"))
    return tuple(sorted(found, key=lambda each: _ORDER.index(each.kind)))


def _argument(name: str, new: Mapping[str, Any], old: Mapping[str, Any]) -> list[Change]:
    """How one argument differs: of another number of dimensions nothing else is told."""
    arrays = [bool({"ndim", "array"} & held.keys()) for held in (old, new)]
    if arrays[0] != arrays[1] or not new or not old:
        texts_of = [(f"{_ARRAY_OF}{held['type']}" if is_array else held.get("type")) if held else None
                    for held, is_array in zip((old, new), arrays, strict=True)]
        kinds = [None if "array" in f"{each}" else each for each in texts_of]
        if None in kinds:  # a number and an array, or nothing at all
            return [Change("argument", name, "type", texts_of[0], texts_of[1])]
    aspects = dict.fromkeys((*_ASPECTS, *new, *old))
    found = [Change("argument", name, aspect, old.get(aspect), new.get(aspect), all(arrays))
             for aspect in aspects if new.get(aspect) != old.get(aspect)]
    if any(each.aspect == "ndim" for each in found):
        found = [each for each in found if each.aspect in ("type", "ndim")]
    return found


def _kernels(new: Mapping[str, Any], old: Mapping[str, Any]) -> list[Change]:
    """How the kernels of a module differ, which are compiled together: by name and types, with a hash of their code."""
    before = {name.partition("(")[0] for name in old}
    found = [Change("kernel", name.partition("(")[0], "changed" if name in old else "types" if name.partition("(")[0]
                    in before else "added", old.get(name), "(" + name.partition("(")[2])
             for name, code in new.items() if old.get(name) != code]
    gone = [name.partition("(")[0] for name in old if name not in new]
    return found or [Change("kernel", name, "gone") for name in gone]


@dataclass
class _Kernel:
    """What a kernel had compiled so far, in order."""

    row: Mapping[str, Any]
    #: Signature, attributes, when the compile ended, and number of launches.
    known: list[tuple[str, Mapping[str, Any], int, int]] = field(
        default_factory=list[tuple[str, Mapping[str, Any], int, int]])
    #: Attributes of all specializations of the recording, with the launches of each.
    seen: list[tuple[Mapping[str, Any], int]] = field(default_factory=list[tuple[Mapping[str, Any], int]])

    def target(self, change: Change) -> Change:
        """Return a change whose known side is what all launches of the recording can have."""
        known, wanted = change.known, change.wanted
        main = max((launches for _, launches in self.seen), default=0)
        outweighing = sum(launches for _, launches in self.seen) + 1
        first = next((facts for facts, launches in self.seen if launches == main), None)
        values = [(_present(change, facts), launches + outweighing * (facts is first)) for facts, launches in self.seen]
        if change.kind in ("constant", "option"):
            return replace(change, known=most(values or [(known, 0)]))
        values = [(value, launches) for value, launches in values if value is not None] or [(known, 0)]
        if change.kind != "argument" or change.aspect in ("index", "weak", "placement"):
            return change
        if change.aspect == "shape":
            shapes = [items(value) for value, _ in values if len(items(value)) == len(items(known))]
            return replace(change, known=[_longest(lengths) for lengths in zip(*(*shapes, items(known)), strict=True)])
        if change.aspect == "layout":
            contiguous = [(value, launches) for value, launches in values
                          if "contiguous" in str(value) and not str(value).startswith("not")]
            return replace(change, known=most(contiguous or values))
        if change.aspect == "ndim":
            return replace(change, known=most(values))
        if change.aspect != "type":
            return change
        if known is None or wanted is None:
            return change
        arrays = [value for value in (known, wanted) if str(value).startswith(_ARRAY_OF)]
        if arrays:
            return replace(change, known=arrays[0])
        if all(is_number(str(value)) for value, _ in values):
            return replace(change, known=common_dtype([(str(value), launches) for value, launches in values]))
        return replace(change, known=most(values))


#: Begins how a change says the type of an array, where the other side has none.
_ARRAY_OF = "an array of "


def _present(change: Change, facts: Mapping[str, Any]) -> Any:
    """Return what a specialization has of what a change is about."""
    if change.kind == "argument":
        return mapping(mapping(facts.get("arguments")).get(change.name)).get(change.aspect)
    return mapping(facts.get(f"{change.kind}s")).get(change.name)


def _longest(lengths: Sequence[Any]) -> Any:
    """Return the greatest of the lengths in one dimension; the last where one is no number."""
    return max(lengths, key=lambda length: int(str(length))) if all(
        str(length).isdigit() for length in lengths) else lengths[-1]


@functools.cache
def fixes_of(framework: str) -> Fixes:
    """Return what avoids the compiles of one of `FRAMEWORKS`."""
    fixes: Fixes = loaded(next(candidate.fixes for candidate in frameworks() if candidate.name == framework))
    return fixes


def reasons(recording: Recording) -> dict[int, dict[str, Any]]:
    """Return the columns of a reason for each compile of these frameworks that has none, by its id.

    These are ``reason_code``, ``reason``, ``fix``, ``argument`` and ``nearest_signature``.
    """
    kernels = {row["dispatcher_id"]: _Kernel(row) for row in recording.rows("dispatchers")
               if row["framework"] in FRAMEWORKS}
    if not kernels:
        return {}
    launches = launch_counts(recording)
    held: dict[int, dict[str, Any]] = {}
    for row in recording.rows("specializations"):
        if row["dispatcher_id"] in kernels:
            number = row["specialization_id"]
            held[number] = json_object(row["attributes"])
            kernels[row["dispatcher_id"]].seen.append((held[number], launches.get(number, 0)))
    found: dict[int, dict[str, Any]] = {}
    for row in sorted(recording.rows("compilations"), key=lambda each: each["start_ns"]):
        kernel = kernels.get(row["dispatcher_id"])
        if kernel is None:
            continue
        attributes = json_object(row["attributes"])
        wanted = held.get(row["specialization_id"]) or mapping(attributes.get("requested"))
        if row["reason_code"] is None:
            code, sentence, fix, argument, nearest = _reason(row, attributes, wanted, kernel, list(kernels.values()))
            found[row["compilation_id"]] = {"reason_code": code, "reason": sentence, "fix": fix, "argument": argument,
                                            "nearest_signature": nearest}
        if row["outcome"] in ("compiled", "disk") and wanted:
            kernel.known.append((row["signature"], wanted, row_end_ns(row),
                                 launches.get(row["specialization_id"], 0)))
    return found


Reason = tuple[str, str, str | None, str | None, str | None]


def _reason(row: Mapping[str, Any], attributes: Mapping[str, Any], wanted: Mapping[str, Any], kernel: _Kernel,
            kernels: Sequence[_Kernel]) -> Reason:
    """Return code, sentence, fix, argument and nearest signature."""
    fixes = fixes_of(kernel.row["framework"])
    code, sentence, fix, argument, nearest = _cause(row, attributes, wanted, kernel, kernels, fixes)
    if row["outcome"] == "disk":
        because = "" if code in ("first_use", "recompile") else f"; it was asked for because {sentence}"
        return "disk", f"not compiled: {fixes.name}'s disk cache had it{because}", None, argument, nearest
    if owner_of(kernel.row) == "library" and code not in ("first_use", "unknown"):
        fix = fixes.of_library(code, attributes)
    if row["outcome"] == "failed":
        error = row["error"] or "it raised"
        sentence += f"; the compile failed: {error}"
        fix = (f"it was interrupted; the next {fixes.call} compiles it" if error.startswith("KeyboardInterrupt") else
               "correct what the error names; a failed compile leaves nothing behind, so each "
               f"{fixes.call} tries again")
    return code, sentence, fix, argument, nearest


def _cause(row: Mapping[str, Any], attributes: Mapping[str, Any], wanted: Mapping[str, Any], kernel: _Kernel,
           kernels: Sequence[_Kernel], fixes: Fixes) -> Reason:
    known, again = kernel.known, ""
    if not known:
        names = ("framework", "module", "name", *(("filename", "lineno") if kernel.row["name"] == "<lambda>" else ()))
        same = [each for each in kernels if each.known and all(each.row[name] == kernel.row[name] for name in names)]
        if not same:
            return "first_use", "the kernel had no specialization yet: this is its first", fixes.first, None, None
        earlier = max(same, key=lambda each: each.known[-1][2])
        known, kernel = earlier.known, replace(kernel, seen=[*earlier.seen, *kernel.seen])
        again = "the definition ran again"
    if not wanted:
        return "unknown", "the record does not tell what was new", None, None, None
    signature, nearest, ended, _ = min(known, key=lambda each: (*_distance(compare(wanted, each[1])), -each[3]))
    found = compare(wanted, nearest)
    if again and (not found or found[0].kind == "code"):
        how = "with new code, which has to be compiled" if found else (
            "with the same code: the new kernel has none of the specializations of the one before")
        fix = "nothing avoids it: new code has to be compiled" if found else (
            "keep the definition out of the cell, loop or function that runs again")
        return "redefined", f"{again} {how}", fix, None, signature
    if not found:
        if ended > row["start_ns"]:
            return ("recompile", "another thread compiled the same at the same time",
                    f"{fixes.call} once in one thread before the others start", None, signature)
        return "recompile", fixes.again(attributes), fixes.keep(attributes), None, signature
    others = found[1:]
    sentence = _described(found[0], attributes)
    if others:
        named = list(dict.fromkeys(f"`{each.name}`" for each in others if each.name not in ("", found[0].name)))
        sentence += f"; {listed(named, _MOST)} differ{'s' if len(named) == 1 else ''} too" if named else ""
    if found[0].kind == "code":
        return "redefined", sentence, fixes.new_code, None, signature
    of_all = fixes.of_all(wanted)
    if of_all is not None:
        return found[0].code, sentence, of_all, found[0].name or None, signature
    argument = found[0].name if found[0].kind in ("argument", "constant") and found[0].name != "reduction" else None
    sentences = list(dict.fromkeys(fixes.fix(kernel.target(change)) for change in found))
    return found[0].code, sentence, "; ".join(sentences[:_MOST]), argument, signature


def _distance(found: Sequence[Change]) -> tuple[int, bool]:
    """Return how far two specializations are apart; of one difference, new code with the same options is nearer."""
    return len(found), any(each.kind == "option" for each in found)


def _described(change: Change, attributes: Mapping[str, Any]) -> str:
    """Describe what is new, and what the nearest known specialization has."""
    name, new, old = f"`{change.name}`", change.wanted, change.known
    if change.kind == "target":
        return f"it was compiled for {new}; {_NEAREST} is for {old}"
    if change.kind == "kernel":
        return {"changed": f"{name} has new code, and all kernels of a module are compiled together",
                "types": f"kernel {name} was called with {new}; the module was compiled for other types",
                "added": f"kernel {name} was added to the module, whose kernels are compiled together",
                "gone": f"kernel {name} is no longer in the module"}[change.aspect]
    if change.kind == "constant" and change.name == "reduction":
        return f"it reduces with {new}; {_NEAREST} with {old}"
    if change.kind == "constant":
        return f"the constant {name} is {new}; {_NEAREST} has {old}"
    if change.kind == "option":
        present, was = ("not given" if each is None else "given" if each is True else f"{each}" for each in (new, old))
        return f"{change.name} is {present}; in {_NEAREST} it is {was}"
    if change.kind == "code":
        return f"its code is new; {_NEAREST} of this name has another one"
    if change.aspect == "type":
        return f"argument {name} is {new or 'gone'}; {_NEAREST} has {old or 'none'}"
    if change.aspect == "ndim":
        return f"argument {name} has {new} dimension{'s' * (new != 1)}; {_NEAREST} has {old}"
    if change.aspect == "shape":
        return f"argument {name} has the shape ({', '.join(new)}); {_NEAREST} has ({', '.join(old)})"
    if change.aspect == "weak":
        number, array = f"a number of Python's ({name} takes the type of what it meets)", "an array or a NumPy number"
        return f"argument {name} is {number if new else array}; {_NEAREST} is for {array if new else 'a number'}"
    if change.aspect == "placement":
        return f"argument {name} is on {new or 'no device of its own'}; {_NEAREST} is for {old or 'any'}"
    if change.aspect == "layout":
        return f"argument {name} is {new}; {_NEAREST} is for one that is {old}"
    if change.aspect == "index":
        return f"argument {name} is indexed with {new}; {_NEAREST} with {old}"
    shape = texts([str(each) for each in mapping(attributes.get("shapes")).get(change.name, ())])
    of = f" (its shape is {' x '.join(shape)})" if shape and change.aspect == "lengths" else ""
    what = {"address": "address", "lengths": "lengths", "strides": "strides"}.get(change.aspect, change.aspect)
    return (f"the {what} of argument {name}{of} {'is' if what == 'address' else 'are'} divisible by {_by(new)}; "
            f"{_NEAREST} is for {_by(old)}")


def _by(value: Any) -> str:
    return " x ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


@dataclass(frozen=True)
class Fixes:
    """What avoids the compiles of one framework, in the words of its users; a framework's own class says more.

    Attributes
    ----------
    name : str
        What its users call it.
    call : str
        What makes it compile: call, launch or compile.
    first : str
        What to do about the first compile of a kernel.
    new_code : str
        What to do about new code.
    """

    name: str
    call: str
    first: str
    new_code: str

    #: What its users import arrays' functions from.
    arrays: ClassVar[str] = "np"

    def again(self, attributes: Mapping[str, Any]) -> str:
        """Return why the same was compiled again, by the ``attributes`` of the compile."""
        return "the same was compiled before, and was not found any more"

    def keep(self, attributes: Mapping[str, Any]) -> str:
        """Return what avoids that."""
        return "keep the kernel object, and the folder of the disk cache"

    def of_library(self, code: str, attributes: Mapping[str, Any]) -> str:
        """Return what avoids a compile of a kernel that the library makes itself, whose arguments nobody passes."""
        return f"nothing avoids it in your code: {self.name} makes this kernel itself, for the types of its calls"

    def of_all(self, specialization: Mapping[str, Any]) -> str | None:
        """Return what avoids all compiles of a specialization, by its ``attributes``, whatever changes; or None."""
        return None

    def kernel(self, change: Change) -> str:
        """Return what avoids a compile of a module because one of its kernels changed."""
        return "nothing avoids it: new code has to be compiled"

    def constant(self, change: Change) -> str:
        """Return what avoids a compile for another value of a constant."""
        return f"{self.call} with {change.name}={change.known} every time"

    def option(self, change: Change) -> str:
        """Return what avoids a compile with another option."""
        return f"define the kernel with {change.name}={change.known}, and launch that one every time"

    def gone(self, change: Change) -> str:
        """Return what avoids a compile because an argument is new, or is no longer there."""
        return f"pass `{change.name}` as {change.known or change.wanted} in every {self.call}"

    def fix(self, change: Change) -> str:
        """Return what would avoid a compile for this change."""
        if change.kind == "target":
            return "nothing avoids it: each architecture needs machine code of its own"
        if change.kind in ("kernel", "constant", "option"):
            return {"kernel": self.kernel, "constant": self.constant, "option": self.option}[change.kind](change)
        return self._argument(change)

    def _argument(self, change: Change) -> str:
        name, old = change.name, change.known
        if change.aspect == "type":
            if old is None or change.wanted is None:
                return self.gone(change)
            if "array" in f"{old} {change.wanted}":
                return f"pass `{name}` as {old} in every {self.call}"
            kind = f"with the dtype {old}" if change.is_array else f"as {old}"
            return f"pass `{name}` {kind} in every {self.call}, if the values allow it"
        if change.aspect == "ndim":
            return f"pass `{name}` with {old} dimension{'s' * (old != 1)} in every {self.call}, as .reshape makes it"
        if change.aspect == "shape":
            return f"pad `{name}` to the shape ({', '.join(old)}), or to a few shapes, in every {self.call}"
        if change.aspect == "weak":
            return f"pass `{name}` in one way, as jnp.asarray({name}, dtype), in every {self.call}"
        if change.aspect == "placement":
            return f"pass `{name}` on {old or 'no device of its own'} in every {self.call}"
        if change.aspect == "layout":
            if "contiguous" in str(old) and not str(old).startswith("not"):
                return f"pass {self.arrays}.ascontiguousarray({name}) in every {self.call}"
            return f"pass `{name}` in one layout in every {self.call}"
        if change.aspect == "index":
            return f"nothing avoids it: an array of this size needs {change.wanted} for its indices"
        if change.aspect == "address":
            return f"slice `{name}` at a multiple of {_widest(change)} bytes in every {self.call}"
        if change.aspect == "lengths":
            return f"pad `{name}` to lengths of a multiple of {_widest(change)} in every {self.call}"
        return f"pass `{name}` with strides that are a multiple of {_widest(change)} in every {self.call}"


def _widest(change: Change) -> int:
    numbers = [value for each in (change.known, change.wanted)
               for value in (each if isinstance(each, list | tuple) else [each]) if isinstance(value, int)]
    return max(numbers, default=1)
