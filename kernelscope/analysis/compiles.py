"""Why each compile was needed, and what would avoid it."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np

from kernelscope.analysis import cache_keys, caches, torch_reasons, triton, tuning
from kernelscope.analysis.caches import CODES, fix_for_cache
from kernelscope.analysis.columns import (
    items,
    json_object,
    launch_counts,
    mapping,
    matches,
    owner_of,
    rows_at,
    texts,
    with_columns,
)
from kernelscope.analysis.common_types import Conversion, common_signature, conversions, holds
from kernelscope.analysis.compiling import compile_times_of
from kernelscope.analysis.signatures import (
    ArgumentType,
    Difference,
    Shape,
    ShapeIndex,
    SignatureIndex,
    argument_count,
    argument_names,
    declaration,
    differences,
    is_reordered,
    known_name,
    noted_shape,
    parse_signature,
    parse_type,
    record_fields,
    record_layout,
    shape_of,
)
from kernelscope.recording.model import Recording
from kernelscope.units import listed


@dataclass(frozen=True)
class CompilationSummary:
    """One compile, or one load from the disk cache.

    Attributes
    ----------
    compilation_id, dispatcher_id : int
        Its row in ``compilations``, and the kernel.
    name, framework : str
        The kernel's qualified name, and its framework.
    signature : str
        Argument types that were asked for.
    trigger, outcome : str
        Who asked for it (launch, eager, specialize, recompile...), and what came of it (compiled, disk, wait,
        failed).
    duration_ns : int
        What the compile or load itself took (`kernelscope.analysis.compiling`); of a thread that waited for another's
        compile, how long it waited. 0 where the end was not seen.
    wait_ns : int or None
        How long it waited for numba's global compiler lock.
    configuration_id : int or None
        The launch configuration seen while compiling.
    reason_code : str
        See `kernelscope.analysis.compiles`.
    reason : str
        The same as a sentence.
    change : str
        How the arguments differ from those of the nearest known signature, in brief: ``out, x float32 → float64``; an
        empty string where there is none, or it is not about them.
    fix, error : str or None
        What would avoid it; the exception that it raised.
    launch_config_sensitive : bool or None
        Whether the result depends on the launch configuration.
    cached_on_disk : bool
        Whether the kernel has a disk cache.
    owner : str or None
        Whose kernel it is: see the table ``dispatchers``.
    notes : str
        What else there is to say of it, such as torch's graph breaks; or an empty string.
    kernels : tuple of str
        Names of the kernels that it has generated, where those are others than the function itself.
    is_trial : bool
        Whether an autotuner's benchmark asked for it.
    """

    compilation_id: int
    dispatcher_id: int
    name: str
    signature: str
    trigger: str
    outcome: str
    duration_ns: int
    wait_ns: int | None
    configuration_id: int | None
    reason_code: str
    reason: str
    change: str
    fix: str | None
    error: str | None
    launch_config_sensitive: bool | None
    cached_on_disk: bool
    framework: str = "numba-cuda"
    owner: str | None = None
    notes: str = ""
    kernels: tuple[str, ...] = ()
    is_trial: bool = False


_AS_RECORDED = ("compilation_id", "dispatcher_id", "signature", "trigger", "outcome", "wait_ns", "configuration_id",
                "reason_code", "fix", "error", "launch_config_sensitive")


def compilations(recording: Recording) -> list[CompilationSummary]:
    """Return every compile and disk-cache load with its reason, longest first."""
    recording = explain(recording)
    rows, times = recording.rows("compilations"), compile_times_of(recording)
    took = np.where(matches(recording, "compilations", "outcome", "wait"), times.wait_ns, times.own_ns).tolist()
    dispatchers = rows_at(recording, "dispatchers", [row["dispatcher_id"] for row in rows])
    arguments = {at: argument_names(row["arguments"]) for at, row in dispatchers.items()}
    summaries = [
        CompilationSummary(
            **{name: row[name] for name in _AS_RECORDED},
            name=str(dispatchers[row["dispatcher_id"]]["name"]),
            duration_ns=max(spent, 0),
            reason=row["reason"] or "",
            change="" if dispatchers[row["dispatcher_id"]]["framework"] in cache_keys.FRAMEWORKS else _changes(
                dispatchers[row["dispatcher_id"]])(
                row["signature"], row["nearest_signature"] or "", arguments[row["dispatcher_id"]]),
            notes=torch_reasons.notes(row["attributes"]),
            kernels=tuple(torch_reasons.kernels(row["attributes"])),
            cached_on_disk=row["cache_file"] is not None,
            framework=str(dispatchers[row["dispatcher_id"]]["framework"]),
            owner=owner_of(dispatchers[row["dispatcher_id"]]),
            is_trial=run >= 0,
        )
        for row, spent, run in zip(rows, took, tuning.asking_runs(recording), strict=True)
    ]
    return sorted(summaries, key=lambda each: (-each.duration_ns, each.compilation_id))


def _changes(dispatcher: Mapping[str, Any]) -> Callable[[str, str, tuple[str, ...]], str]:
    own = {torch_reasons.FRAMEWORK: torch_reasons.changes, triton.FRAMEWORK: triton.changes}
    return own.get(str(dispatcher["framework"]), changes)


def knows_compiles(recording: Recording) -> bool:
    """Return whether compiles were recorded: not by another tool, unless a recording was merged with its trace."""
    return not recording.is_imported or recording.arrow("compilations").num_rows > 0


def compile_ns(recording: Recording) -> int:
    """Return the time of all compiles and loads: a compile inside another counts once, waiting for one does not."""
    return compile_times_of(recording).total_ns


# How arguments differ, as words.

#: So many arguments are named beside the worst one.
_MOST = 3
#: And so many that differ alike.
_MOST_NAMES = 6
_LONG_TYPE, _LONG_NAME = 100, 40

NUMPY_SCALAR = re.compile(r"^(?:u?int(?:8|16|32|64)|float(?:16|32|64)|complex(?:64|128))$")
PYTHON_SCALAR = {"int64": "int", "float64": "float", "complex128": "complex", "bool": "bool", "boolean": "bool"}

_FROM_C = {"F": 'column-major, as of .T and order="F"', "A": "not contiguous"}
_FROM_F = {"C": "row-major, as NumPy's arrays are", "A": "not contiguous"}


def differ(found: Sequence[Difference], names: tuple[str, ...], where: str) -> str:
    """Return the sentence about all differences of two signatures, worst first.

    Parameters
    ----------
    found : sequence of signatures.Difference
        At least one, worst first.
    names : tuple of str
        The arguments' Python names, as far as they are known.
    where : str
        Where the known types are from, such as "the nearest known specialization".
    """
    worst = found[0]
    if worst.position < 0:
        return f"the kernel was given {worst.wanted.text}; {where} has {worst.known.text}"
    sentence = f"{argument(worst, names)} is {_described(worst.wanted)}; {where} has {_described(worst.known)}"
    explained = ", ".join(filter(None, (_aspect(each, worst.wanted, worst.known) for each in worst.aspects)))
    if explained:
        sentence += f": {explained}"
    others = found[1:]
    if others:
        told = listed([f"{quoted(each.position, each.path, names)} ({_brief(each)})" for each in others], _MOST)
        sentence += f"; {told} differ{'s' if len(others) == 1 else ''} too"
    return sentence


def changes(signature: str, nearest: str, names: tuple[str, ...]) -> str:
    """Return how the arguments of two signatures differ, in brief, those that differ alike together.

    Parameters
    ----------
    signature, nearest : str
        What is wanted, and what was known; without one of them nothing differs.
    names : tuple of str
        The arguments' Python names, as far as they are known.
    """
    if not signature or not nearest or signature == nearest:
        return ""
    alike: dict[str, list[str]] = {}
    for each in differences(parse_signature(signature), parse_signature(nearest)):
        if each.position < 0:
            return f"{each.known.text} → {each.wanted.text}"
        alike.setdefault(_brief(each, " → "), []).append(quoted(each.position, each.path, names).strip("`"))
    parts: list[str] = []
    for how, held in alike.items():
        parts.append(f"{listed(held, _MOST_NAMES)} {how}")
    return listed(parts, _MOST, between="; ")


def argument(difference: Difference, names: tuple[str, ...]) -> str:
    """Return how to call the argument: "argument `x`", "argument `t[1]`", or "argument 2" without a name."""
    return f"argument {quoted(difference.position, difference.path, names)}"


def quoted(position: int, path: Sequence[int], names: tuple[str, ...]) -> str:
    """Return an argument's name, or that of an element of it: "`x`", "`t[1]`", or its number where it has none."""
    name = known_name(names, position)
    inner = "".join(f"[{at}]" for at in path)
    if name is None:
        return f"{position}{inner}"
    cut = name if len(name) <= _LONG_NAME else f"{name[:_LONG_NAME - 1]}…"
    return f"`{cut}{inner}`"


def short(kind: ArgumentType) -> str:
    """Return a type as numba prints it, cut in the middle where it is long; records by their fields."""
    text = "None" if kind.kind == "none" else kind.text
    if kind.kind == "array":
        text = text.replace(kind.dtype, _dtype(kind.dtype), 1)
    elif kind.kind == "record":
        text = _dtype(text)
    return text if len(text) <= _LONG_TYPE else f"{text[:_LONG_TYPE // 2]}…{text[-_LONG_TYPE // 2:]}"


def scalar(dtype: str) -> str:
    """Return a scalar's type and what has it: "int64, as a Python int is", or "np.int32"."""
    python = PYTHON_SCALAR.get(dtype)
    if python == "bool":
        return "bool"
    if python:
        return f"{dtype}, as a Python {python} is"
    return f"np.{dtype}" if NUMPY_SCALAR.match(dtype) else dtype


def _aspect(aspect: str, new: ArgumentType, old: ArgumentType) -> str:
    if aspect == "new_dimensions":
        return f"other dimensions ({old.ndim} to {new.ndim})"
    if aspect == "new_dtype":
        fields = _changed_fields(new.dtype, old.dtype)
        return fields or f"another dtype ({_dtype(old.dtype)} to {_dtype(new.dtype)})"
    if aspect == "new_layout":
        return f"another layout ({_layout(new, old)})"
    if aspect == "new_access":
        return "read-only, not writable" if new.readonly else "writable, not read-only"
    if aspect == "new_alignment":
        return _alignment(new, old)
    if aspect == "tuple_arity":
        return f"another number of elements ({len(old.elements)} to {len(new.elements)})"
    return ""


def _brief(difference: Difference, to: str = " to ") -> str:
    """Describe a difference in brief, for the arguments after the first."""
    new, old = difference.wanted, difference.known
    if new.kind != "array" or old.kind != "array":
        return f"{short(old)}{to}{short(new)}"
    dtype = _changed_fields(new.dtype, old.dtype) or f"{_dtype(old.dtype)}{to}{_dtype(new.dtype)}"
    parts = {
        "new_dimensions": f"{old.ndim}{to}{new.ndim} dimensions", "new_dtype": dtype,
        "new_layout": f"layout {old.layout}{to}{new.layout}",
        "new_access": "read-only" if new.readonly else "writable",
        "new_alignment": "aligned" if new.aligned else "unaligned",
    }
    return ", ".join(parts[aspect] for aspect in difference.aspects)


def _layout(new: ArgumentType, old: ArgumentType) -> str:
    hint = {"C": _FROM_C, "F": _FROM_F}.get(old.layout, {}).get(new.layout)
    if old.layout == "A":
        hint = "contiguous; the known one is strided"
    return f"{old.layout} to {new.layout}" + (f": {hint}" if hint else "")


def _alignment(new: ArgumentType, old: ArgumentType) -> str:
    if record_fields(new.dtype) is None:
        return "aligned, not unaligned" if new.aligned else "unaligned, not aligned"
    layouts = record_layout(new.dtype), record_layout(old.dtype)
    if layouts[0] and layouts[1] and layouts[0].offsets == layouts[1].offsets and layouts[0].size != layouts[1].size:
        return f"records of {layouts[0].size} bytes, not of {layouts[1].size}, with the same fields"
    if new.aligned == old.aligned:
        return "the same fields at other places in memory"
    packed = "without align=True in its np.dtype"
    return f"records whose fields are aligned, not packed ({packed})" if new.aligned else (
        f"packed records ({packed}), not aligned ones")


def _changed_fields(new: str, old: str) -> str:
    """Describe the fields in which two record types differ; return an empty text for other types."""
    fields, known = record_fields(new), record_fields(old)
    if fields is None or known is None:
        return ""
    changed = [f"`{name}` {known[name]} to {kind}" for name, kind in fields.items()
               if name in known and known[name] != kind]
    changed += [f"`{name}` is new" for name in fields if name not in known]
    changed += [f"`{name}` is gone" for name in known if name not in fields]
    if not changed:
        return "its fields in another order"
    order = "; its fields in another order" if is_reordered(fields, known) else ""
    return f"another dtype (field {listed(changed, _MOST)}{order})"


def _dtype(text: str) -> str:
    fields = record_fields(text)
    if fields is None:
        return text if len(text) <= _LONG_TYPE else f"{text[:_LONG_TYPE]}…"
    return f"record({', '.join(f'{name} {kind}' for name, kind in list(fields.items())[:_MOST])}" + (
        f", {len(fields) - _MOST} more)" if len(fields) > _MOST else ")")


def _described(kind: ArgumentType) -> str:
    """Describe a type, and the Python value that has it where that is not obvious."""
    if kind.kind == "scalar":
        return scalar(kind.dtype)
    if kind.kind == "none":
        return "None"
    if kind.kind == "enum":
        return f"a member of an enum, {short(kind)}"
    if kind.text == "unicode_type":
        return "a str"
    if kind.kind == "tuple":
        return f"the {'named ' if kind.name else ''}tuple {short(kind)}"
    return short(kind)


# What would avoid a compile: one sentence for each reason, true for the framework of the compile.
#
# A fix can be applied as it is written, to what was passed and to code that the user has. Where nothing avoids a
# compile, it says so and why.

@dataclass(frozen=True)
class Kernel:
    """Whose kernel a compile is of, and what its framework can do.

    Attributes
    ----------
    owner : str
        ``user``, ``ufunc``, ``reduce`` or ``library``: see the table ``dispatchers``.
    function : str
        What the user wrote: the kernel, the ufunc, or the function that is reduced with.
    package : str
        Of a library its name.
    module : str
        The module that defines the kernel.
    names : tuple of str
        The arguments' Python names, as far as they are known.
    cacheable : bool
        Whether ``cache=True`` can keep the kernel on disk: see `kernelscope.analysis.caches.is_cacheable`.
    declares : bool
        Whether the framework has ``@cuda.jit``, which takes signatures: numba-cuda and numba-cuda-mlir do.
    """

    owner: str = "user"
    function: str = ""
    package: str = ""
    module: str = ""
    names: tuple[str, ...] = ()
    cacheable: bool = True
    declares: bool = True

    @property
    def call(self) -> str:
        """Return what the user does with the kernel: launch it, or call it."""
        return "launch" if self.owner == "user" else "call"


def fix_for(code: str, row: Mapping[str, Any], kernel: Kernel, found: Sequence[Difference] = (),
            attributes: Mapping[str, Any] | None = None, nearest: str | None = None,
            converted: Sequence[Conversion] = (), common: str | None = None) -> str | None:
    """Return what would avoid the compile, or that nothing does; None where there was no compile.

    Parameters
    ----------
    code : str
        A reason code, or ``failed``.
    row : mapping
        The row of ``compilations``.
    kernel : Kernel
        Whose it is.
    found : sequence of signatures.Difference
        How the nearest known signature differs.
    attributes : mapping, optional
        The row's attributes.
    nearest : str, optional
        The known signature that the row's was compared with.
    converted : sequence of common_types.Conversion
        What to convert so that all launches have the same types.
    common : str, optional
        The signature that all launches of the recording have then; None where there is none.
    """
    attributes = attributes or {}
    if code == "failed":
        if (row["error"] or "").startswith("KeyboardInterrupt"):
            return "it was interrupted; the next launch compiles it"
        if found and found[0].code == "argument_count":
            return _argument_count_fix(kernel)
        return "correct what the error names; a failed compile leaves nothing behind, so each launch tries again"
    if code in CODES:
        if kernel.owner == "library" and code == "cache_stale":
            return f"none is needed: it is saved for the present {kernel.package}"
        if kernel.owner == "library" and code == "disk_unsafe":
            return f"delete its file of the disk cache: the kernel is of {kernel.package}"
        return fix_for_cache(code, row, attributes)
    if kernel.owner != "user":
        return _for_others(code, kernel, found, converted, attributes)
    can_cache = kernel.cacheable and not row["cache_file"]
    refused = _refused_fix(row["signature"], kernel.names)
    if refused is not None:
        return refused
    if code == "first_use":
        return _earlier(row, can_cache, common or row["signature"]) if kernel.declares else None
    if code == "unknown":
        return "nothing that is known: the record does not tell why the specialization was not used"
    if code == "eager":
        fixes = [*([_MOVE] if attributes.get("redefined") else []), *([_CACHE] if can_cache else [])]
        return "; or ".join(fixes) or "nothing avoids it: a declared signature is compiled when the definition runs"
    if code == "redefined":
        return _redefined_fix(attributes, can_cache)
    if code == "recompile":
        return _recompile(attributes)
    if code in ("forall", "specialize"):
        return _own_dispatcher(code, kernel, found, converted, attributes, is_known=nearest == row["signature"])
    if code == "wait":
        return f"{_BEFORE_OTHERS}, or declare the signature in @cuda.jit" if kernel.declares else _BEFORE_OTHERS
    if code == "launch_config":
        return _FEWER_CONFIGURATIONS
    return align(found, converted, kernel, attributes) if found else None


_FEWER_CONFIGURATIONS = ("launch it with fewer distinct configurations, such as the nearest known one: grid, block and "
                         "shared memory each count, the stream does not")
_MOVE = "keep the definition out of the cell, loop or function that runs again"
_BEFORE_OTHERS = "launch once in one thread before the others start"
_CACHE = "cache=True in @cuda.jit keeps it on disk for the next session"
_ONE_EACH = "keep one kernel for each, as functools.cache on the function that defines it does"


def _earlier(row: Mapping[str, Any], can_cache: bool, signature: str) -> str:
    """Return how to move a first compile out of the launch, or to keep its result."""
    if row["launch_config_sensitive"]:  # a definition has no launch configuration that it could be compiled for
        return _CACHE if can_cache else "nothing avoids it: a launch-config sensitive kernel is compiled at a launch"
    spelled = declaration(signature)
    example = f'@cuda.jit(["{spelled}"])' if spelled and len(spelled) <= 100 else "a list of signatures in @cuda.jit"
    first = f"{example} compiles it at the definition, and no other types later"
    return f"{first}; cache=True keeps it on disk" if can_cache else first


def _redefined_fix(attributes: Mapping[str, Any], can_cache: bool) -> str:
    changes = changes_of(attributes)
    if changes.get("same_code") is False:
        return "nothing avoids it: new code has to be compiled"
    options, values, functions = changed_options(changes), changes.get("captured"), changes.get("functions")
    if options:
        names = ", ".join(options)
        return f"define it once with one set of options, or keep one kernel for each value of {names} and launch these"
    if values:
        return (f"pass {_names(values)} as an argument instead of capturing it, and define the kernel once; or, where "
                f"it has to be a constant, {_ONE_EACH}")
    if functions:
        return f"{_ONE_EACH}: another function {_names(functions)} is other code"
    once = "apply @cuda.jit to it once, and keep the kernel" if (
        attributes.get("another_dispatcher") or changes.get("same_function")) else _MOVE
    return f"{once}; or cache=True in @cuda.jit, with which a definition that runs again loads it" if can_cache else (
        once)


def changed_options(changes: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Return the compile options that a definition changed, each with what it was and is."""
    pairs: dict[str, tuple[Any, Any]] = {}
    for name, pair in mapping(changes.get("options")).items():
        if len(both := items(pair)) == 2:
            pairs[name] = both[0], both[1]
    if "debug" in pairs:
        pairs.pop("lto", None)  # which follows it
    return pairs


def _recompile(attributes: Mapping[str, Any]) -> str:
    is_unsafe, changed = recompiled(attributes)
    if is_unsafe:
        return "none is needed: it replaced what the disk cache had; drop the call of recompile() now"
    if changed:
        return f"pass {_names(changed)} as an argument: then a change of it compiles nothing"
    if changed is None:
        return "drop the call of recompile() unless a global that the kernel reads has changed"
    return "drop the call of recompile(): nothing that the kernel reads from outside has changed"


def recompiled(attributes: Mapping[str, Any]) -> tuple[bool, list[str] | None]:
    """Return what ``recompile()`` was good for.

    That is whether it replaced unsafe code from the disk cache, and the names of what had changed; None where that is
    not known.
    """
    what = mapping(attributes.get("recompiled"))
    captured = what.get("captured")
    return what.get("unsafe") is True, None if captured is None else texts(captured)


def _own_dispatcher(code: str, kernel: Kernel, found: Sequence[Difference], converted: Sequence[Conversion],
                    attributes: Mapping[str, Any], *, is_known: bool) -> str:
    if found:
        return align(found, converted, kernel, attributes)
    if not is_known:
        what = "forall" if code == "forall" else "what specialize() returns"
        return (f"nothing avoids a first compile: launch the kernel always by {what}, or always by "
                "kernel[griddim, blockdim](...), so that it stays the only one")
    instead = ("launch kernel[griddim, blockdim](...) instead of forall" if code == "forall" else
               "launch kernel[griddim, blockdim](...) instead of what specialize() returns")
    return f"{instead}: it has these types already"


_TRANSPOSE = ("transpose on the host and pass cuda.to_device(np.ascontiguousarray(host.T)), or keep what .T returns: "
              "each .T of a device array compiles again")
_ASSIGN = "copy whole arrays with x.copy_to_device(y), which launches no kernel, instead of x[:] = y"


def _for_others(code: str, kernel: Kernel, found: Sequence[Difference], converted: Sequence[Conversion],
                attributes: Mapping[str, Any]) -> str | None:
    """Return the fix for a library's kernel: a change in the user's own code."""
    if code == "wait":
        return "call it once in one thread before the others start"
    if is_transpose(kernel):
        return _TRANSPOSE
    if is_assignment(kernel):
        return _ASSIGN
    if kernel.owner == "library":
        if found:
            return (f"call {kernel.package} with the same types in every call, if the values allow it: "
                    f"the kernel is of {kernel.package}")
        if code == "redefined":
            return f"nothing avoids it in your code: {kernel.package} defines this kernel anew"
        return f"nothing avoids it in your code: the kernel is of {kernel.package}; call it once before it matters"
    if code == "redefined":
        what = "the ufunc's definition" if kernel.owner == "ufunc" else "the function and cuda.reduce"
        return f"keep {what} out of the cell, loop or function that runs again"
    if code == "eager":
        return "declare only the signatures that are called: each is compiled at the definition, and none kept on disk"
    if found:
        # A ufunc makes device arrays of what it is given, which are all that its kernel sees.
        return align(found, converted, kernel, {} if kernel.owner == "ufunc" else attributes)
    return ("nothing avoids it: " + {
        "ufunc": "a ufunc's kernel is compiled at its first call with these types, and none is kept on disk",
        "reduce": "cuda.reduce compiles its kernel at its first call with a dtype, and keeps none on disk",
    }[kernel.owner] + "; call it once before it matters")


def is_transpose(kernel: Kernel) -> bool:
    """Return whether it is numba-cuda's own kernel behind ``.T``."""
    return kernel.owner == "library" and kernel.module.endswith("cuda.kernels.transpose")


def is_assignment(kernel: Kernel) -> bool:
    """Return whether it is numba-cuda's own kernel behind ``x[...] = y`` of a device array."""
    return kernel.owner == "library" and kernel.module.endswith("cuda.cudadrv.devicearray")


def changes_of(attributes: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what a definition that ran again has changed; nothing where that was not recorded."""
    changes = mapping(attributes.get("redefined"))
    return {**changes, **{name: texts(changes.get(name)) for name in ("captured", "functions")}} if changes else {}


def _names(names: Sequence[str]) -> str:
    return " and ".join(f"`{name}`" for name in names)


# How a type that no launch takes is said; numba-cuda compiles for it and refuses it then.
_REFUSED = (
    (re.compile(r"^unicode_type$"), "a str", "pass numbers, such as np.frombuffer(text.encode(), np.uint8)"),
    (re.compile(r"^(?:bytes|Bytes|bytearray|ByteArray)\b"), "bytes", "pass np.frombuffer(data, np.uint8)"),
    (re.compile(r"^(?:reflected )?(?:list|List)\("), "a list", "pass an array or a tuple"),
    (re.compile(r"^(?:reflected )?(?:set|Set)\("), "a set", "pass an array"),
    (re.compile(r"^(?:DictType|dict)\b"), "a dict", "pass arrays or a record"),
    (re.compile(r"^(?:slice<|slice\d)"), "a slice", "pass its numbers"),
    (re.compile(r"^(?:none|NoneType)$"), "None",
     "pass an array of size 0, or a number that stands for it, in every launch"),
)


@lru_cache(maxsize=4096)
def refusal(text: str) -> tuple[str, str] | None:
    """Return what an argument of a type is that no launch takes, and what to pass instead; None for all others."""
    for pattern, what, instead in _REFUSED:
        if pattern.match(text):
            return what, instead
    inner = [refusal(each) for each in parse_type(text).elements]
    return next((each for each in inner if each is not None), None)


def _refused_fix(signature: str, names: tuple[str, ...]) -> str | None:
    """Return the fix for arguments that cannot be launched with."""
    clauses: list[str] = []
    for at, kind in enumerate(parse_signature(signature)):
        found = refusal(kind.text)
        if found is not None:
            argument = f"argument {quoted(at, (), names)}"
            clauses.append(f"a kernel cannot be launched with {found[0]} ({argument}): {found[1]}")
    return "; ".join(clauses) or None


@dataclass(frozen=True)
class _Clause:
    """What to do with an argument."""

    what: str
    verb: str = "pass"
    #: Whether it is for every launch, or says so itself.
    is_for_every: bool = True
    #: What is to be known of it, once for all arguments.
    notes: tuple[str, ...] = ()


def align(found: Sequence[Difference], converted: Sequence[Conversion], kernel: Kernel,
          attributes: Mapping[str, Any]) -> str:
    """Return how to pass all arguments that differ, so that every launch has the same types.

    Parameters
    ----------
    found : sequence of signatures.Difference
        How the signature differs from the nearest known one.
    converted : sequence of common_types.Conversion
        What to convert.
    kernel : Kernel
        Whose it is.
    attributes : mapping
        Of the row of ``compilations``.
    """
    if found[0].code == "argument_count":
        return _argument_count_fix(kernel)
    clauses: dict[_Clause, list[str]] = {}
    for each in converted:
        clause = _clause(each, kernel, _kind(attributes.get("passed"), each))
        clauses.setdefault(clause, []).append(quoted(each.position, each.path, kernel.names))
    covered = {each.position for each in converted}
    for each in found:
        if each.position not in covered:
            clauses.setdefault(_without_common(each), []).append(quoted(each.position, each.path, kernel.names))
    alike = [f"{_arguments(names)} {clause.what}" for clause, names in clauses.items() if clause.is_for_every]
    parts = [f"{clause.verb} {_arguments(names)} {clause.what}" for clause, names in clauses.items()
             if not clause.is_for_every]
    if alike:
        is_lossy = any(map(_is_lossy, converted))
        parts.insert(0, f"pass {', '.join(alike)} in every {kernel.call}" + ", if the values allow it" * is_lossy)
    return "; ".join((*parts, *dict.fromkeys(note for clause in clauses for note in clause.notes)))


def _argument_count_fix(kernel: Kernel) -> str:
    return f"pass as many arguments in every {kernel.call}; defaults in the definition are not filled in"


def _is_lossy(conversion: Conversion) -> bool:
    """Return whether a conversion can change values."""
    types = conversion.wanted, conversion.nearest
    return conversion.target.kind in ("array", "scalar") and not all(
        holds(conversion.target.dtype, kind.dtype) for kind in types if kind.kind in ("array", "scalar"))


def _arguments(names: Sequence[str]) -> str:
    if len(names) == 1:
        return f"argument {names[0]}"
    return f"arguments {', '.join(names[:-1])} and {names[-1]}"


def _kind(passed: Any, conversion: Conversion) -> str | None:
    """Return the array's library; see `kernelscope.probes.numba_cuda.compile.array_kind`."""
    for at in (conversion.position, *conversion.path):
        passed = [*items(passed)[at:], None][0]
    return passed if isinstance(passed, str) else None


_LITERAL = _Clause("by its plain type, such as int64: a literal type takes one value only", "declare", False)
_OPTIONAL = _Clause("by its plain type, which is not optional: no launch takes None", "declare", False)


def _clause(conversion: Conversion, kernel: Kernel, kind: str | None) -> _Clause:
    wanted, nearest, target = conversion.wanted, conversion.nearest, conversion.target
    kinds = {wanted.kind, nearest.kind}
    if conversion.aspects != ("type",):
        return _array(conversion, kernel, kind)
    if "optional" in kinds:
        return _OPTIONAL
    if "literal" in kinds:
        return _LITERAL
    if "enum" in kinds and kinds <= {"enum", "scalar"}:
        return _Clause("as a number", notes=("member.value is that of an enum's member",))
    if target.kind == "scalar":
        return _Clause(f"as {_scalar(target.dtype)}")
    if target.kind == "record":
        return _Clause(f"with one np.dtype, {_dtype(target.dtype)}", notes=_record_notes(wanted, nearest, target))
    if target.kind == "tuple":
        shared = {(each.name, each.elements[:len(target.elements)]) for each in (wanted, nearest)}
        if all(name == target.name and target.elements[:len(elements)] == elements for name, elements in shared):
            count = len(target.elements)
            return _Clause(f"with {count} element{'s' * (count != 1)}", notes=("an array takes any number",))
    return _Clause(f"as {short(target)}")


def _without_common(difference: Difference) -> _Clause:
    """Return the clause for an argument that has no type which all launches can pass."""
    if difference.code == "optional":
        return _OPTIONAL
    return _LITERAL if difference.code == "literal" else _Clause("with one type")


def _record_notes(*types: ArgumentType) -> tuple[str, ...]:
    """Return what to do where records of the same fields are laid out in different ways."""
    layouts = [layout for layout in (record_layout(kind.dtype) for kind in types) if layout is not None]
    if len({tuple(layout.fields.items()) for layout in layouts}) > 1:
        return ()
    if len({layout.offsets for layout in layouts}) > 1 or len({layout.aligned for layout in layouts}) > 1:
        return (_ALIGNED,)
    return (f"its itemsize has to be {layouts[-1].size} bytes",) if len({each.size for each in layouts}) > 1 else ()


_ALIGNED = "its records have to be laid out alike: align=True in np.dtype for all, or for none"
#: What makes arrays of another dtype, C-contiguous, F-contiguous and writable, of each library that is known.
_MAKING = {
    "host": ("{}.astype({})", "np.ascontiguousarray({})", "np.asfortranarray({})", "{}.copy()"),
    "cupy": ("{}.astype({})", "cupy.ascontiguousarray({})", "cupy.asfortranarray({})", "{}.copy()"),
    "torch": ("{}.to({})", "{}.contiguous()", "{}.mT.contiguous().mT", "{}.clone()"),
}
_PREFIX = {"cupy": "cupy.", "torch": "torch."}


def _array(conversion: Conversion, kernel: Kernel, kind: str | None) -> _Clause:
    """Return the clause that converts an array, in every aspect."""
    wanted, target, aspects = conversion.wanted, conversion.target, conversion.aspects
    if kind == "other":
        return _Clause(f"with one {' and one '.join(_ASPECTS[aspect] for aspect in aspects)}")
    making = _MAKING.get(kind or "", _MAKING["host"])
    expression = base = "host" if kind == "device" else "array"
    notes: list[str] = []
    if "new_dimensions" in aspects:
        expression += _reshaping(base, target.ndim)
        notes.append("or accept one specialization for each number of dimensions")
    is_cast = "new_dtype" in aspects or "new_alignment" in aspects
    if is_cast:
        expression = making[0].format(expression, _python_dtype(target.dtype, kind))
        if record_fields(target.dtype) is not None:
            notes.append(f"dtype is {_dtype(target.dtype)}")
            notes += _record_notes(wanted, conversion.nearest, target)
    layouts = {wanted.layout, conversion.nearest.layout, target.layout}
    if "new_layout" in aspects or ("new_dimensions" in aspects and layouts != {"C"}):
        expression = making[2 if target.layout == "F" else 1].format(expression)  # of another shape it may be another
    if "new_access" in aspects and not is_cast:
        expression = making[3].format(expression)  # what casts has made a writable array already
        if target.layout == "F" and kind != "torch":
            expression = expression.removesuffix(")") + 'order="F")'
    if kind == "device":
        expression = f"cuda.to_device({expression})"
        notes.append("convert it on the host: a device array has no astype" if ".astype" in expression else
                     "convert it on the host, before it goes to the device")
    elif kind is None:
        notes.append("convert a device array on the host, before it goes to the device")
    if aspects == ("new_layout",) and kernel.declares and kernel.owner == "user" and (
            declared := replace(target, layout="A").declaration):
        notes.append(f"or declare it in @cuda.jit's signatures as {declared}, which takes every layout")
    return _Clause(f"as {expression}", notes=tuple(notes))


_ASPECTS = {"new_dimensions": "number of dimensions", "new_dtype": "dtype", "new_layout": "layout",
            "new_access": "access (writable, or read-only)", "new_alignment": "np.dtype"}


def _reshaping(base: str, ndim: int) -> str:
    """Return the call that reshapes an array to `ndim` dimensions, at least one."""
    if ndim <= 1:
        return ".reshape(-1)"
    kept = f"{base}.shape[-1]" if ndim == 2 else f"*{base}.shape[{1 - ndim}:]"
    return f".reshape(-1, {kept})"


_TEXT = re.compile(r"^\[(unichr|char) x (\d+)\]$")
_DATE = re.compile(r"^(datetime|timedelta)64(?:\[(\w+)\])?$")


def _python_dtype(text: str, kind: str | None) -> str:
    """Return a dtype as a Python expression."""
    if NUMPY_SCALAR.match(text):
        return f"{_PREFIX.get(kind or '', 'np.')}{text}"
    if text in ("bool", "boolean"):
        return f"{_PREFIX.get(kind or '', 'np.')}{'bool' if kind == 'torch' else 'bool_'}"
    found = _TEXT.match(text)
    if found:
        return f'"{"U" if found[1] == "unichr" else "S"}{found[2]}"'
    if _DATE.match(text):
        return f'"{text}"'
    return "dtype"  # of records, which the user has a name for


def _scalar(dtype: str) -> str:
    if dtype in PYTHON_SCALAR:
        return f"{PYTHON_SCALAR[dtype]}(value)"
    found = _DATE.match(dtype)
    if found:
        return f'np.{found[1]}64(value, "{found[2]}")' if found[2] else f"np.{found[1]}64(value)"
    return f"np.{dtype}(value)" if NUMPY_SCALAR.match(dtype) else dtype


# Why each compile was needed, and what would avoid it.
#
# `explain` reads what the probe noted about a compile (which signatures and launch configurations its dispatcher
# had before) and writes ``reason_code``, ``reason``, ``argument``, ``nearest_signature`` and ``fix`` into
# ``compilations``. The codes:
#
# ``first_use``
#     The dispatcher had no specialization.
# ``new_dtype``, ``new_dimensions``, ``new_layout``, ``new_access``, ``new_alignment``
#     An array argument differs from the nearest known specialization's in its elements' type, its number of
#     dimensions, its memory layout, in being read-only, or in its elements' alignment.
# ``new_scalar``
#     A number is of another type, such as ``np.int32`` instead of a Python int.
# ``tuple_arity``, ``optional``, ``literal``, ``new_type``, ``argument_count``
#     A tuple has another number of elements; an argument is None or was; a type is that of one value; an argument is
#     something else altogether; there are more or fewer arguments.
# ``launch_config``
#     The kernel is launch-config sensitive (LC-S) and had not been compiled for this launch configuration.
# ``specialize``, ``forall``
#     ``specialize`` or ``forall`` made a separate dispatcher, which shares no specialization with other launches.
# ``eager``
#     The signature is declared in ``@cuda.jit``.
# ``redefined``
#     The definition ran again, in this recording or an earlier one of the process, which makes a dispatcher without
#     specializations.
# ``recompile``
#     ``recompile()`` was called.
# ``wait``
#     It was not compiled: another thread compiled it meanwhile.
# ``disk``, ``disk_unsafe``, ``cache_absent``, ``cache_stale``, ``cache_unwritable``, ``new_device``
#     See `kernelscope.analysis.caches`.
# ``new_constexpr``, ``divisibility``, ``equal_to_1``, ``new_option``, ``new_setting``, ``new_global``, ``autotune``
#     Of Triton, whose compiles are explained by `kernelscope.analysis.triton`; some of CuPy and cuTile, explained by
#     `kernelscope.analysis.cache_keys`.
# ``static_size`` and others
#     Of torch.compile: see `kernelscope.analysis.torch_reasons`.
# ``unknown``
#     What was recorded does not tell.
#
# A kernel that the user did not write (of a ufunc, of ``cuda.reduce``, or of a library) has the same codes; the
# sentences are about what the user called. A reason that a probe has already filled in is kept.

_NEAREST = "the nearest known specialization"
_Positioned = TypeVar("_Positioned", Difference, Conversion)


@dataclass(frozen=True)
class Reason:
    """Why a compile was needed.

    Attributes
    ----------
    code : str
        One of `kernelscope.schema.COMPILE_REASONS`.
    sentence : str
        The same with what was, and what is.
    fix : str or None
        What would avoid it.
    argument : str or None
        The Python name of the argument that made it necessary.
    nearest : str or None
        The known signature that it was compared with.
    found : tuple of signatures.Difference
        How the arguments differ from that signature's.
    converted : tuple of common_types.Conversion
        What to convert so that all launches have the same types.
    """

    code: str
    sentence: str
    fix: str | None = None
    argument: str | None = None
    nearest: str | None = None
    found: tuple[Difference, ...] = ()
    converted: tuple[Conversion, ...] = ()


@dataclass
class _Known:
    """What one kernel function had compiled so far, in this recording and before."""

    #: Number of launches of each signature that the recording has, in order of first appearance.
    launches: dict[str, int] = field(default_factory=dict[str, int])
    #: Signatures that were compiled before the recording.
    before: frozenset[str] = frozenset()
    signatures: SignatureIndex = field(init=False)
    shapes: dict[str, ShapeIndex] = field(default_factory=dict[str, ShapeIndex])
    #: By `specialize` and `forall`, whose dispatchers keep their one specialization to themselves.
    specialized: SignatureIndex = field(init=False)

    def __post_init__(self) -> None:
        self.signatures, self.specialized = SignatureIndex(self.launches), SignatureIndex(self.launches)
        self._common: dict[int, tuple[ArgumentType | None, ...]] = {}

    def common(self, arguments: int) -> tuple[ArgumentType | None, ...]:
        """Return the types that all launches with so many arguments can have; see `common_types`."""
        if arguments not in self._common:
            alike = {signature: launches for signature, launches in self.launches.items()
                     if len(parse_signature(signature)) == arguments}
            self._common[arguments] = common_signature(
                alike, parse_signature, lambda text: refusal(text) is None, self.before)
        return self._common[arguments]

    def add(self, signature: str, shape: Shape | None) -> None:
        self.signatures.add(signature)
        if shape is not None:
            self.shapes.setdefault(signature, ShapeIndex()).add(shape)


@dataclass(frozen=True)
class _Request:
    """One row of ``compilations``, read."""

    row: Mapping[str, Any]
    attributes: Mapping[str, Any]
    signature: str
    kernel: Kernel
    shape: Shape | None
    #: Whether the definition before this one of the same name has the same code; None where that is not known.
    same_code: bool | None

    @property
    def names(self) -> tuple[str, ...]:
        """Return the arguments' Python names."""
        return self.kernel.names


def explain(recording: Recording) -> Recording:
    """Return a copy of the recording in which every compilation has a reason.

    That is a code, a sentence, where it is about an argument's type the argument's name and the signature that it was
    compared with, and a fix where there is one.
    """
    rows = recording.rows("compilations")
    if all(row["reason_code"] is not None for row in rows):
        return recording
    of_others = {**triton.reasons(recording), **torch_reasons.reasons(recording), **cache_keys.reasons(recording)}
    for row in rows:
        row.update(of_others.get(row["compilation_id"], {}))
    for row, reason in _explained(recording, rows, of_others):
        if row["reason_code"] is None:
            row.update(reason_code=reason.code, reason=reason.sentence, fix=reason.fix, argument=reason.argument,
                       nearest_signature=reason.nearest)
    columns = ("reason_code", "reason", "fix", "argument", "nearest_signature")
    return with_columns(recording, "compilations", {name: [row[name] for row in rows] for name in columns})


def type_conversions(recording: Recording) -> dict[int, tuple[Conversion, ...]]:
    """Return what the fix of each compile of numba's has the user convert, by the compile's id.

    All of them together leave a kernel one specialization, where its arguments can be converted.
    """
    rows = recording.rows("compilations")
    frameworks = {row["dispatcher_id"]: str(row["framework"]) for row in recording.rows("dispatchers")}
    of_others = {row["compilation_id"] for row in rows if frameworks.get(row["dispatcher_id"]) in (
        triton.FRAMEWORK, torch_reasons.FRAMEWORK, *cache_keys.FRAMEWORKS)}
    return {row["compilation_id"]: reason.converted for row, reason in _explained(recording, rows, of_others)}


def _explained(recording: Recording, rows: Sequence[dict[str, Any]],
               of_others: Container[int]) -> Iterator[tuple[dict[str, Any], Reason]]:
    """Yield each row of ``compilations`` that no other framework explains, with its reason."""
    shapes = {row["configuration_id"]: _shape(row) for row in recording.rows("configurations")}
    dispatchers = recording.rows("dispatchers")
    kernels = {row["dispatcher_id"]: _kernel(row) for row in dispatchers}
    same_code = _same_code(dispatchers)
    # numba-cuda-mlir keeps what depends on a launch configuration in memory, and says so once.
    in_memory_only = {row["dispatcher_id"] for row in dispatchers if row["framework"] == "numba-cuda-mlir"}
    # Who waits for the compiler lock may have asked before the thread that compiles, and knows what that one made.
    ordered = sorted((row for row in rows if row["compilation_id"] not in of_others),
                     key=lambda row: row["start_ns"] + (row["wait_ns"] or 0))
    attributes = {row["compilation_id"]: json_object(row["attributes"]) for row in ordered}
    before: dict[int, list[dict[str, Any]]] = {}
    for row in recording.rows("specializations"):
        if row["origin"] == "before":
            before.setdefault(row["dispatcher_id"], []).append(row)
    known = {dispatcher: _Known(launches, frozenset(row["signature"] for row in before.get(dispatcher, ())))
             for dispatcher, launches in _signature_launches(recording, ordered, attributes).items()}
    for dispatcher in known.keys() & before.keys():
        for row in before[dispatcher]:
            known[dispatcher].add(row["signature"], noted_shape(row["launch_config"]))
    for row in ordered:
        held = known[row["dispatcher_id"]]
        kernel = kernels.get(row["dispatcher_id"], Kernel())
        if row["launch_config_sensitive"] and row["dispatcher_id"] in in_memory_only:
            kernel = replace(kernel, cacheable=False)
        request = _Request(row, attributes[row["compilation_id"]], str(row["signature"]), kernel,
                           shapes.get(row["configuration_id"]), same_code.get(row["dispatcher_id"]))
        yield row, _reason(request, held)
        _remember(request, held)


def _signature_launches(recording: Recording, ordered: Sequence[Mapping[str, Any]],
                        attributes: Mapping[int, Mapping[str, Any]]) -> dict[int, dict[str, int]]:
    """Return the signatures of each kernel that compiled, in order of first appearance, with how often each launched.

    Failed compiles are left out.
    """
    found: dict[int, dict[str, int]] = {row["dispatcher_id"]: {} for row in ordered}
    specializations = [row for row in recording.rows("specializations") if row["dispatcher_id"] in found]
    for row in specializations:
        if row["origin"] == "before":
            found[row["dispatcher_id"]][str(row["signature"])] = 0
    for row in ordered:
        for signature in items(attributes[row["compilation_id"]].get("known_signatures")):
            found[row["dispatcher_id"]].setdefault(str(signature), 0)
        if row["outcome"] != "failed":
            found[row["dispatcher_id"]].setdefault(str(row["signature"]), 0)
    launches = launch_counts(recording)
    for row in specializations:
        signatures = found[row["dispatcher_id"]]
        if row["signature"] in signatures:
            signatures[str(row["signature"])] += launches.get(row["specialization_id"], 0)
    return found


def _kernel(row: Mapping[str, Any]) -> Kernel:
    """Return the owner and framework of a row of ``dispatchers``."""
    declares = str(row["framework"]).startswith("numba")
    module, owner = str(row["module"] or ""), owner_of(row) or "user"
    root = module.partition(".")[0]
    package = {"numba": "numba-cuda", "numba_cuda": "numba-cuda", "numba_cuda_mlir": "numba-cuda-mlir"}.get(root, root)
    function = str(json_object(row["attributes"]).get("function") or row["name"])
    cacheable = declares and owner == "user" and caches.is_cacheable(row)
    return Kernel(owner, function, package, module, argument_names(row["arguments"]), cacheable, declares)


def _remember(request: _Request, held: _Known) -> None:
    row = request.row
    if row["outcome"] not in ("compiled", "disk"):
        return
    if row["trigger"] == "specialize" and request.kernel.owner == "user":
        held.specialized.add(request.signature)
    else:
        held.add(request.signature, request.shape if row["launch_config_sensitive"] else None)


def _reason(request: _Request, held: _Known) -> Reason:
    for signature in items(request.attributes.get("known_signatures")):
        held.signatures.add(str(signature))
    for noted in items(request.attributes.get("known_configurations")):
        shape = noted_shape(noted)
        if shape is not None:
            held.add(request.signature, shape)
    reason = _without_comparison(request) or _specialized(request, held) or _compared(request, held)
    row = request.row
    code, sentence = caches.with_disk(row, request.attributes, reason.code, reason.sentence)
    found = code
    if row["trigger"] == "compile" and row["outcome"] != "disk":
        sentence += "; kernel.compile() asked for it"
    if row["outcome"] == "failed" and not caches.failed_in_cache(request.attributes):
        sentence += f"; the compile failed: {row['error'] or 'it raised'}"
        code = "failed"
    attributes = request.attributes
    if code == "redefined" and request.same_code is not None and "same_code" not in changes_of(attributes):
        attributes = {**attributes, "redefined": {"same_code": request.same_code}}  # of a recording from before
    types = parse_signature(request.signature)
    common, converted = held.common(len(types)), ()
    if reason.found and reason.found[0].position >= 0 and reason.nearest is not None:
        converted = _users(conversions(types, parse_signature(reason.nearest), common, reason.found), request.kernel)
    every = [kind.text for kind in common if kind is not None]
    fix = fix_for(code, row, request.kernel, reason.found, attributes, reason.nearest, converted,
                  f"({', '.join(every)})" if len(every) == len(types) else None)
    return Reason(found, sentence + _refused_reason(request, reason.argument), fix, reason.argument, reason.nearest,
                  reason.found, converted)


def _refused_reason(request: _Request, named: str | None) -> str:
    """Return the sentence about arguments that compile but cannot be launched with; `named` is the first."""
    if request.row["trigger"] not in ("launch", "specialize"):
        return ""
    parts: list[str] = []
    for at, kind in enumerate(parse_signature(request.signature)):
        found = refusal(kind.text)
        if found is not None:
            is_named = named is not None and known_name(request.names, at) == named
            parts.append(f"no launch takes {found[0]}" if is_named else
                         f"argument {quoted(at, (), request.names)} is {found[0]}, which no launch takes")
    return "".join(f"; {each}" for each in parts)


def _without_comparison(request: _Request) -> Reason | None:
    """Explain a compile whose cause does not depend on other signatures."""
    row, attributes = request.row, request.attributes
    outcome, trigger = row["outcome"], row["trigger"]
    if outcome == "disk":
        return Reason(*caches.disk_hit(attributes))
    if trigger == "device":
        return Reason(*caches.new_device(attributes))
    if outcome == "wait":
        return Reason("wait", "not compiled: another thread was compiling it for these types, and this one waited")
    if trigger == "eager":
        where = "@guvectorize" if request.kernel.owner == "ufunc" else "@cuda.jit"
        again = "; the definition ran again, which compiles it again" if attributes.get("redefined") else ""
        return Reason("eager", f"the signature is declared in {where}, which compiles it at the definition{again}")
    if trigger == "recompile":
        is_unsafe, changed = recompiled(attributes)
        if is_unsafe:
            why = "; what the disk cache had was made with other options or values"
        else:
            why = f"; {_names(changed)} changed since the last compile" if changed else ""
        return Reason("recompile", f"recompile() was called: it compiles every signature again{why}")
    return None


def _specialized(request: _Request, held: _Known) -> Reason | None:
    """Explain a compile by ``specialize`` or ``forall``, whose dispatchers share no specialization."""
    if request.row["trigger"] != "specialize" or request.kernel.owner != "user":
        return None
    code = "forall" if request.attributes.get("forall") else "specialize"
    who = "forall" if code == "forall" else "specialize()"
    sentence = (f"{who} made a dispatcher of its own for these types, which shares no specialization with launches of "
                "kernel[griddim, blockdim]")
    signature = request.signature
    if signature in held.signatures:
        return Reason(code, f"{sentence}; these had compiled the same types already", nearest=signature)
    nearest = held.specialized.nearest(signature)
    if nearest is None or nearest == signature:
        return Reason(code, sentence, nearest=nearest)
    found = differences(parse_signature(signature), parse_signature(nearest))
    if not found:
        return Reason(code, sentence, nearest=nearest)
    return Reason(code, f"{sentence}; {differ(found, request.names, 'the nearest one of its kind')}",
                  argument=_argument(found[0], request.names), nearest=nearest, found=found)


def _compared(request: _Request, held: _Known) -> Reason:
    """Explain a compile by comparison with the known specializations and launch configurations."""
    signature, names = request.signature, request.names
    types = parse_signature(signature)
    if request.row["outcome"] == "failed" and names and len(types) != len(names):
        wrong = argument_count(len(types), len(names))
        listed = ", ".join(f"`{name}`" for name in names)
        return Reason("argument_count", f"the kernel was given {wrong.wanted.text} and takes {len(names)}: {listed}",
                      found=(wrong,))
    shapes = held.shapes.get(signature)
    if request.row["launch_config_sensitive"] and shapes and (request.shape is None or request.shape not in shapes):
        return Reason("launch_config", _launch_config(request.shape, shapes), nearest=signature)
    if request.attributes.get("another_dispatcher"):
        return Reason("redefined", f"@cuda.jit was applied to this function again: {_WITHOUT}")
    if request.attributes.get("redefined") and not held.signatures:
        return Reason("redefined", _redefined_reason(request))
    nearest = held.signatures.nearest(signature)
    if nearest is None:
        also = "; forall and specialize() had compiled these types, but for themselves alone"
        return Reason("first_use", _first_use(request.kernel) + (also if signature in held.specialized else ""))
    found = _users(differences(types, parse_signature(nearest)), request.kernel)
    if not found:
        return Reason("unknown", "the kernel had a specialization for these types already; the record tells no more",
                      nearest=nearest)
    return Reason(found[0].code, differ(found, names, _NEAREST) + _of(request.kernel),
                  argument=_argument(found[0], names), nearest=nearest, found=found)


def _users(found: tuple[_Positioned, ...], kernel: Kernel) -> tuple[_Positioned, ...]:
    """Return the differences, or conversions, of arguments that the user passes, without results and scratch space."""
    if kernel.owner == "reduce":
        own = tuple(each for each in found if each.position == 0)
    else:
        own = tuple(each for each in found if kernel.owner != "ufunc" or _argument(each, kernel.names) != "__out__")
    return own or found


def _first_use(kernel: Kernel) -> str:
    if is_transpose(kernel):
        return _TRANSPOSED
    return {
        "ufunc": f"the ufunc `{kernel.function}` had no kernel yet: this is its first",
        "reduce": f"cuda.reduce of `{kernel.function}` had no kernel yet: this is its first",
        "library": "the kernel had no specialization yet: this is its first",
    }.get(kernel.owner, "the kernel had no specialization yet: this is its first") + _of(kernel)


_TRANSPOSED = ("transposing a device array (.T) launches a kernel of numba-cuda, which each call defines and compiles "
               "anew")


def _of(kernel: Kernel) -> str:
    """Return a phrase that names the owner of a kernel that is not the user's."""
    if is_assignment(kernel):
        return f"; it is {kernel.package}'s own, which assigns to a device array (x[...] = y)"
    if kernel.owner == "library":
        return f"; the kernel is of {kernel.package}, not of your code"
    return ""


def _same_code(dispatchers: list[dict[str, Any]]) -> dict[int, bool]:
    """Return, for each dispatcher, whether the previous one of the same module and name has the same code."""
    result: dict[int, bool] = {}
    before: dict[tuple[Any, Any], str] = {}
    for row in dispatchers:
        key, code = (row["module"], row["name"]), row["code_sha256"]
        if code is not None:
            if key in before:
                result[row["dispatcher_id"]] = before[key] == code
            before[key] = code
    return result


_WITHOUT = "the new dispatcher has no specializations, and those of the one before are not used"


def _redefined_reason(request: _Request) -> str:
    """Describe what changed and what did not in a definition that ran again."""
    kernel, changes = request.kernel, changes_of(request.attributes)
    if is_transpose(kernel):
        return _TRANSPOSED
    same: Any = changes.get("same_code", request.same_code)
    parts = {True: ["the same code"], False: ["other code"]}.get(same, [])
    parts += [f"{name}={present} instead of {was}" for name, (was, present) in changed_options(changes).items()]
    captured = [*changes.get("captured", ()), *changes.get("functions", ())]
    parts += [f"another value of the captured {_names(captured)}"] if captured else []
    how = f" with {' and '.join(parts)}" if parts else ""
    if changes.get("same_function"):
        return f"@cuda.jit was applied to this function again{how}: {_WITHOUT}"
    if kernel.owner == "ufunc":
        return f"the ufunc `{kernel.function}` was defined again{how}: the kernels of the one before are not used"
    if kernel.owner == "reduce":
        return (f"the function `{kernel.function}` of cuda.reduce was defined again{how}: the kernels of the one "
                "before are not used")
    if kernel.owner == "library":
        return f"{kernel.package} defined its kernel again{how}: {_WITHOUT}{_of(kernel)}"
    return f"the definition ran again{how}: {_WITHOUT}"


def _argument(difference: Difference | Conversion, names: tuple[str, ...]) -> str | None:
    return known_name(names, difference.position) if difference.position >= 0 else None


def _launch_config(shape: Shape | None, known: ShapeIndex) -> str:
    """Describe which of grid, block and shared memory is new for a launch-config sensitive kernel."""
    beginning = "the kernel depends on its launch configuration (LC-S); "
    nearest = None if shape is None else known.nearest(shape)
    if shape is None or nearest is None:
        return f"{beginning}this one is new for these types, compiled before: {_listed(known)}"
    changed = [f"{name} {new} instead of {old}" for name, new, old in (
        ("griddim", shape.griddim, nearest.griddim), ("blockdim", shape.blockdim, nearest.blockdim),
        ("sharedmem", f"{shape.sharedmem_bytes:,} B", f"{nearest.sharedmem_bytes:,} B"),
    ) if new != old]
    sentence = f"{beginning}{shape} is new for these types: {', '.join(changed)}, against the nearest known {nearest}"
    return sentence if len(known) == 1 else f"{sentence}; compiled before: {_listed(known)}"


def _listed(known: ShapeIndex) -> str:
    return listed([str(each) for each in known.last(_MOST)], more=len(known) - _MOST)


def _shape(row: Mapping[str, Any]) -> Shape | None:
    """Return a row of ``configurations`` as a shape; None where the framework hides it."""
    if row["griddim_x"] is None or row["sharedmem_bytes"] is None:
        return None
    grid, block = ([row[f"{what}_{axis}"] for axis in "xyz"] for what in ("griddim", "blockdim"))
    return shape_of(grid, block, row["sharedmem_bytes"])
