"""Why each compile was needed, and what would avoid it.

`explain` reads what the probe noted about a compile (which signatures and launch configurations its dispatcher
had before) and writes ``reason_code``, ``reason``, ``argument``, ``nearest_signature`` and ``fix`` into
``compilations``. The codes:

``first_use``
    The dispatcher had no specialization.
``new_dtype``, ``new_dimensions``, ``new_layout``, ``new_access``, ``new_alignment``
    An array argument differs from the nearest known specialization's in its elements' type, its number of dimensions,
    its memory layout, in being read-only, or in its elements' alignment.
``new_scalar``
    A number is of another type, such as ``np.int32`` instead of a Python int.
``tuple_arity``, ``optional``, ``literal``, ``new_type``, ``argument_count``
    A tuple has another number of elements; an argument is None or was; a type stands for one value; an argument is
    something else altogether; there are more or fewer arguments.
``launch_config``
    The kernel is launch-config sensitive (LC-S) and had not been compiled for this launch configuration.
``specialize``, ``forall``
    ``specialize`` or ``forall`` made a dispatcher of its own, which shares no specialization with other launches.
``eager``
    The signature is declared in ``@cuda.jit``.
``redefined``
    The definition ran again, in this recording or an earlier one of the process, which makes a dispatcher without
    specializations.
``recompile``
    ``recompile()`` was called.
``wait``
    It was not compiled: another thread compiled it meanwhile.
``disk``, ``disk_unsafe``, ``cache_absent``, ``cache_stale``, ``cache_unwritable``, ``new_device``
    See `kernelscope.analysis.cache_reasons`.
``unknown``
    What was recorded does not tell.

A kernel that the user did not write (of a ufunc, of ``cuda.reduce``, or of a library) has the same codes; the sentences
are about what the user called. A reason that a probe has already filled in is kept.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kernelscope.analysis import cache_reasons
from kernelscope.analysis.arguments import argument_names, known_name
from kernelscope.analysis.columns import json_object, owner_of, with_columns
from kernelscope.analysis.differences import Difference, argument_count, differences
from kernelscope.analysis.fixes import (
    Kernel,
    changed_options,
    changes_of,
    fix_for,
    is_assignment,
    is_transpose,
    recompiled,
    refusal,
)
from kernelscope.analysis.nearest import Shape, ShapeIndex, SignatureIndex
from kernelscope.analysis.reason_words import differ, quoted
from kernelscope.analysis.signatures import parse_signature
from kernelscope.recording.model import Recording

#: Every reason code.
REASON_CODES = (
    "first_use", "new_dtype", "new_dimensions", "new_layout", "new_access", "new_alignment", "new_scalar",
    "tuple_arity", "optional", "literal", "new_type", "argument_count", "launch_config", "specialize", "forall",
    "eager", "redefined", "recompile", *cache_reasons.CODES, "wait", "unknown",
)

_NEAREST = "the nearest known specialization"


@dataclass(frozen=True)
class Reason:
    """Why a compile was needed.

    Attributes
    ----------
    code : str
        One of `REASON_CODES`.
    sentence : str
        The same with what was, and what is.
    fix : str or None
        What would avoid it.
    argument : str or None
        The Python name of the argument that made it necessary.
    nearest : str or None
        The known signature that it was compared with.
    found : tuple of Difference
        How the arguments differ from that signature's.
    """

    code: str
    sentence: str
    fix: str | None = None
    argument: str | None = None
    nearest: str | None = None
    found: tuple[Difference, ...] = ()


@dataclass
class _Known:
    """What one kernel function had compiled so far, in this recording and before."""

    signatures: SignatureIndex = field(default_factory=SignatureIndex)
    shapes: dict[str, ShapeIndex] = field(default_factory=dict[str, ShapeIndex])
    #: By `specialize` and `forall`, whose dispatchers keep their one specialization to themselves.
    specialized: SignatureIndex = field(default_factory=SignatureIndex)

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
        """The arguments' Python names."""
        return self.kernel.names


def explain(recording: Recording) -> Recording:
    """Return a copy of the recording in which every compilation has a reason.

    That is a code, a sentence, where it is about an argument's type the argument's name and the signature that it was
    compared with, and a fix where there is one.
    """
    rows = recording.rows("compilations")
    if all(row["reason_code"] is not None for row in rows):
        return recording
    shapes = {row["configuration_id"]: _shape(row) for row in recording.rows("configurations")}
    dispatchers = recording.rows("dispatchers")
    kernels = {row["dispatcher_id"]: _kernel(row) for row in dispatchers}
    same_code = _same_code(dispatchers)
    # numba-cuda-mlir keeps what depends on a launch configuration in memory, and says so once.
    in_memory_only = {row["dispatcher_id"] for row in dispatchers if row["framework"] == "numba-cuda-mlir"}
    known: dict[int, _Known] = {}
    for row in recording.rows("specializations"):
        if row["origin"] == "before":
            held = known.setdefault(row["dispatcher_id"], _Known())
            held.add(row["signature"], _noted_shape(row["launch_config"]))

    # Who waits for the compiler lock may have asked before the thread that compiles, and knows what that one made.
    for row in sorted(rows, key=lambda row: row["start_ns"] + (row["wait_ns"] or 0)):
        held = known.setdefault(row["dispatcher_id"], _Known())
        kernel = kernels.get(row["dispatcher_id"], Kernel())
        if row["launch_config_sensitive"] and row["dispatcher_id"] in in_memory_only:
            kernel = replace(kernel, cacheable=False)
        request = _Request(row, json_object(row["attributes"]), str(row["signature"]), kernel,
                           shapes.get(row["configuration_id"]), same_code.get(row["dispatcher_id"]))
        if row["reason_code"] is None:
            reason = _reason(request, held)
            row.update(reason_code=reason.code, reason=reason.sentence, fix=reason.fix, argument=reason.argument,
                       nearest_signature=reason.nearest)
        _remember(request, held)
    columns = ("reason_code", "reason", "fix", "argument", "nearest_signature")
    return with_columns(recording, "compilations", {name: [row[name] for row in rows] for name in columns})


def _kernel(row: Mapping[str, Any]) -> Kernel:
    """Whose kernel a row of ``dispatchers`` is."""
    declares = str(row["framework"]).startswith("numba")
    module, owner = str(row["module"] or ""), owner_of(row) or "user"
    root = module.partition(".")[0]
    package = {"numba": "numba-cuda", "numba_cuda": "numba-cuda", "numba_cuda_mlir": "numba-cuda-mlir"}.get(root, root)
    function = str(json_object(row["attributes"]).get("function") or row["name"])
    cacheable = declares and owner == "user" and cache_reasons.is_cacheable(row)
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
    for signature in _items(request.attributes.get("known_signatures")):
        held.signatures.add(str(signature))
    for noted in _items(request.attributes.get("known_configurations")):
        shape = _noted_shape(noted)
        if shape is not None:
            held.add(request.signature, shape)
    reason = _without_comparison(request) or _specialized(request, held) or _compared(request, held)
    row = request.row
    code, sentence = cache_reasons.with_disk(row, request.attributes, reason.code, reason.sentence)
    found = code
    if row["trigger"] == "compile" and row["outcome"] != "disk":
        sentence += "; kernel.compile() asked for it"
    if row["outcome"] == "failed" and not cache_reasons.failed_in_cache(request.attributes):
        sentence += f"; the compile failed: {row['error'] or 'it raised'}"
        code = "failed"
    attributes = request.attributes
    if code == "redefined" and request.same_code is not None and "same_code" not in changes_of(attributes):
        attributes = {**attributes, "redefined": {"same_code": request.same_code}}  # of a recording from before
    fix = fix_for(code, row, request.kernel, reason.found, attributes, reason.nearest)
    return Reason(found, sentence + _refused(request, reason.argument), fix, reason.argument, reason.nearest)


def _refused(request: _Request, named: str | None) -> str:
    """What is said of arguments that are compiled for, and that no launch takes; `named` is the one that is known."""
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
    """Causes that need no look at other signatures."""
    row, attributes = request.row, request.attributes
    outcome, trigger = row["outcome"], row["trigger"]
    if outcome == "disk":
        return Reason(*cache_reasons.disk_hit(attributes))
    if trigger == "device":
        return Reason(*cache_reasons.new_device(attributes))
    if outcome == "wait":
        return Reason("wait", "not compiled: another thread was compiling it for these types, and this one waited")
    if trigger == "eager":
        where = "@guvectorize" if request.kernel.owner == "ufunc" else "@cuda.jit"
        again = "; the definition ran again, which compiles it again" if attributes.get("redefined") else ""
        return Reason("eager", f"the signature is declared in {where}, which compiles it at the definition{again}")
    if trigger == "recompile":
        why = _recompiled(attributes)
        return Reason("recompile", f"recompile() was called: it compiles every signature again{why}")
    return None


def _recompiled(attributes: Mapping[str, Any]) -> str:
    is_unsafe, changed = recompiled(attributes)
    if is_unsafe:
        return "; what the disk cache had was made with other options or values"
    return f"; {_quoted(changed)} changed since the last compile" if changed else ""


def _specialized(request: _Request, held: _Known) -> Reason | None:
    """``specialize`` and ``forall``, whose dispatchers look at no other specialization."""
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
    """What is new against the known specializations and launch configurations."""
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
        return Reason("redefined", _redefined(request))
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


def _users(found: tuple[Difference, ...], kernel: Kernel) -> tuple[Difference, ...]:
    """Of all differences those in what the user passes: a ufunc's results and a reduction's scratch space are not."""
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
    """Whose kernel it is, where that is not the user's."""
    if is_assignment(kernel):
        return f"; it is {kernel.package}'s own, which assigns to a device array (x[...] = y)"
    if kernel.owner == "library":
        return f"; the kernel is of {kernel.package}, not of your code"
    return ""


def _same_code(dispatchers: list[dict[str, Any]]) -> dict[int, bool]:
    """By dispatcher, whether the last one before it of the same module and name has the same code."""
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


def _redefined(request: _Request) -> str:
    """What of a definition that ran again is as it was, and what is not."""
    kernel, changes = request.kernel, changes_of(request.attributes)
    if is_transpose(kernel):
        return _TRANSPOSED
    same: Any = changes.get("same_code", request.same_code)
    parts = {True: ["the same code"], False: ["other code"]}.get(same, [])
    parts += [f"{name}={present} instead of {was}" for name, (was, present) in changed_options(changes).items()]
    captured = [*changes.get("captured", ()), *changes.get("functions", ())]
    parts += [f"another value of the captured {_quoted(captured)}"] if captured else []
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


def _quoted(names: Sequence[str]) -> str:
    return " and ".join(f"`{name}`" for name in names)


def _argument(difference: Difference, names: tuple[str, ...]) -> str | None:
    return known_name(names, difference.position) if difference.position >= 0 else None


def _launch_config(shape: Shape | None, known: ShapeIndex) -> str:
    """Which of grid, block and shared memory is new for a launch-config sensitive kernel."""
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


def _listed(known: ShapeIndex, most: int = 3) -> str:
    shown = ", ".join(str(each) for each in known.last(most))
    return shown if len(known) <= most else f"{shown} and {len(known) - most:,} more"


def _shape(row: Mapping[str, Any]) -> Shape | None:
    """A row of ``configurations``; None where the framework hides the launch configuration."""
    if row["griddim_x"] is None or row["sharedmem_bytes"] is None:
        return None
    return Shape(_dims([row[f"griddim_{axis}"] for axis in "xyz"]), _dims([row[f"blockdim_{axis}"] for axis in "xyz"]),
                 row["sharedmem_bytes"])


def _noted_shape(value: object) -> Shape | None:
    """A launch configuration noted as JSON; None where it makes no sense."""
    if value is None:
        return None
    held = json_object(value if isinstance(value, str) else json.dumps(value))
    grid, block = held.get("griddim"), held.get("blockdim")
    shared = held.get("sharedmem_bytes", held.get("sharedmem", 0))
    if not isinstance(grid, list) or not isinstance(block, list) or not isinstance(shared, int):
        return None
    return Shape(_dims(_items(grid)), _dims(_items(block)), shared)


def _dims(dims: list[Any]) -> str:
    padded = [*dims, 1, 1][:3]
    while len(padded) > 1 and padded[-1] == 1:
        padded.pop()
    return str(padded[0]) if len(padded) == 1 else f"({', '.join(str(each) for each in padded)})"


def _items(value: object) -> list[Any]:
    return list(value) if isinstance(value, list) else []  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
