"""What would avoid a compile: one sentence for each reason, true for the framework of the compile.

A fix can be applied as it is written, to what was passed and to code that the user has. Where nothing avoids a compile,
it says so and why.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from kernelscope.analysis.cache_reasons import CODES, fix_for_cache
from kernelscope.analysis.differences import Difference
from kernelscope.analysis.reason_words import NUMPY_SCALAR, PYTHON_SCALAR, quoted, short
from kernelscope.analysis.signatures import declaration, parse_signature, parse_type


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
        Whether ``cache=True`` can keep the kernel on disk: see `kernelscope.analysis.cache_reasons.is_cacheable`.
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
        """What the user does with it."""
        return "launch" if self.owner == "user" else "call"


def fix_for(code: str, row: Mapping[str, Any], kernel: Kernel, found: Sequence[Difference] = (),
            attributes: Mapping[str, Any] | None = None, nearest: str | None = None) -> str | None:
    """Return what would avoid the compile, or that nothing does; None where there was no compile.

    Parameters
    ----------
    code : str
        A reason code, or ``failed``.
    row : mapping
        The row of ``compilations``.
    kernel : Kernel
        Whose it is.
    found : sequence of Difference
        How the nearest known signature differs.
    attributes : mapping, optional
        The row's attributes.
    nearest : str, optional
        The known signature that the row's was compared with.
    """
    attributes = attributes or {}
    if code == "failed":
        return _after_failure(row, found, kernel, attributes)
    if code in CODES:
        return _for_cache(code, row, kernel, attributes)
    if kernel.owner != "user":
        return _for_others(code, row, kernel, found, attributes)
    can_cache = kernel.cacheable and not row["cache_file"]
    refused = _refused(row["signature"], kernel.names)
    if refused is not None:
        return refused
    if code == "first_use":
        return _earlier(row, can_cache) if kernel.declares else None
    if code == "unknown":
        return "nothing that is known: the record does not tell why the specialization was not used"
    if code == "eager":
        return _eager(can_cache, bool(attributes.get("redefined")))
    if code == "redefined":
        return _redefined(attributes, can_cache)
    if code == "recompile":
        return _recompile(attributes)
    if code in ("forall", "specialize"):
        return _own_dispatcher(code, kernel, found, attributes, is_known=nearest == row["signature"])
    if code == "wait":
        return f"{_BEFORE_OTHERS}, or declare the signature in @cuda.jit" if kernel.declares else _BEFORE_OTHERS
    if code == "launch_config":
        return _FEWER_CONFIGURATIONS
    return align(found, kernel, attributes) if found else None


_FEWER_CONFIGURATIONS = ("launch it with fewer distinct configurations, such as the nearest known one: grid, block and "
                         "shared memory each count, the stream does not")
_MOVE = "keep the definition out of the cell, loop or function that runs again"
_BEFORE_OTHERS = "launch once in one thread before the others start"
_CACHE = "cache=True in @cuda.jit keeps it on disk for the next session"
_ONE_EACH = "keep one kernel for each, as functools.cache on the function that defines it does"


def _earlier(row: Mapping[str, Any], can_cache: bool) -> str:
    """A first compile cannot be avoided, but moved out of the launch or kept."""
    if row["launch_config_sensitive"]:  # a definition has no launch configuration that it could be compiled for
        return _CACHE if can_cache else "nothing avoids it: a launch-config sensitive kernel is compiled at a launch"
    spelled = declaration(row["signature"])
    example = f'@cuda.jit(["{spelled}"])' if spelled and len(spelled) <= 100 else "a list of signatures in @cuda.jit"
    first = f"{example} compiles it at the definition, and no other types later"
    return f"{first}; cache=True keeps it on disk" if can_cache else first


def _eager(can_cache: bool, is_redefined: bool) -> str:
    fixes = [*([_MOVE] if is_redefined else []), *([_CACHE] if can_cache else [])]
    return "; or ".join(fixes) or "nothing avoids it: a declared signature is compiled when the definition runs"


def _redefined(attributes: Mapping[str, Any], can_cache: bool) -> str:
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
    held: Any = changes.get("options")
    pairs: dict[str, tuple[Any, Any]] = {}
    for name, pair in held.items() if isinstance(held, dict) else ():  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
        if isinstance(pair, list) and len(pair) == 2:  # pyright: ignore[reportUnknownArgumentType]
            pairs[str(name)] = pair[0], pair[1]  # pyright: ignore[reportUnknownArgumentType]
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
    what: Any = attributes.get("recompiled")
    if not isinstance(what, dict):
        return False, None
    is_unsafe, captured = what.get("unsafe"), what.get("captured")  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return is_unsafe is True, None if captured is None else texts(captured)  # pyright: ignore[reportUnknownArgumentType]


def _own_dispatcher(code: str, kernel: Kernel, found: Sequence[Difference], attributes: Mapping[str, Any], *,
                    is_known: bool) -> str:
    if found:
        return align(found, kernel, attributes)
    if not is_known:
        what = "forall" if code == "forall" else "what specialize() returns"
        return (f"nothing avoids a first compile: launch the kernel always by {what}, or always by "
                "kernel[griddim, blockdim](...), so that it stays the only one")
    instead = ("launch kernel[griddim, blockdim](...) instead of forall" if code == "forall" else
               "launch kernel[griddim, blockdim](...) instead of what specialize() returns")
    return f"{instead}: it has these types already"


def _after_failure(row: Mapping[str, Any], found: Sequence[Difference], kernel: Kernel,
                   attributes: Mapping[str, Any]) -> str:
    if (row["error"] or "").startswith("KeyboardInterrupt"):
        return "it was interrupted; the next launch compiles it"
    if found and found[0].code == "argument_count":
        return align(found, kernel, attributes)
    return "correct what the error names; a failed compile leaves nothing behind, so each launch tries again"


def _for_cache(code: str, row: Mapping[str, Any], kernel: Kernel, attributes: Mapping[str, Any]) -> str | None:
    if kernel.owner == "library" and code == "cache_stale":
        return f"none is needed: it is saved for the present {kernel.package}"
    if kernel.owner == "library" and code == "disk_unsafe":
        return f"delete its file of the disk cache: the kernel is of {kernel.package}"
    return fix_for_cache(code, row, attributes)


_TRANSPOSE = ("transpose on the host and pass cuda.to_device(np.ascontiguousarray(host.T)), or keep what .T returns: "
              "each .T of a device array compiles again")
_ASSIGN = "copy whole arrays with x.copy_to_device(y), which launches no kernel, instead of x[:] = y"


def _for_others(code: str, row: Mapping[str, Any], kernel: Kernel, found: Sequence[Difference],
                attributes: Mapping[str, Any]) -> str | None:
    """Of a kernel that the user did not write: what to do in the user's own code."""
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
        return align(found, kernel, {} if kernel.owner == "ufunc" else attributes)
    return ("nothing avoids it: " + {
        "ufunc": "a ufunc's kernel is compiled at its first call with these types, and none is kept on disk",
        "reduce": "cuda.reduce compiles its kernel at its first call with a dtype, and keeps none on disk",
    }[kernel.owner] + "; call it once before it matters")


def is_transpose(kernel: Kernel) -> bool:
    """Whether it is numba-cuda's own kernel behind ``.T``."""
    return kernel.owner == "library" and kernel.module.endswith("cuda.kernels.transpose")


def is_assignment(kernel: Kernel) -> bool:
    """Whether it is numba-cuda's own kernel behind ``x[...] = y`` of a device array."""
    return kernel.owner == "library" and kernel.module.endswith("cuda.cudadrv.devicearray")


def changes_of(attributes: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what a definition that ran again has changed; nothing where that was not recorded."""
    found: Any = attributes.get("redefined")
    if not isinstance(found, dict):
        return {}
    changes: dict[str, Any] = {str(name): value for name, value in found.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return {**changes, **{name: texts(changes.get(name)) for name in ("captured", "functions")}}


def texts(value: object) -> list[str]:
    """Return a list of JSON as texts; nothing for what is no list."""
    return [str(each) for each in value] if isinstance(value, list) else []  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]


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


def _refused(signature: str, names: tuple[str, ...]) -> str | None:
    """What to pass for all arguments that no launch takes."""
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


def align(found: Sequence[Difference], kernel: Kernel, attributes: Mapping[str, Any]) -> str:
    """Return how to pass all arguments that differ, so that every launch has the same types."""
    if found[0].code == "argument_count":
        return f"pass as many arguments in every {kernel.call}; defaults in the definition are not filled in"
    clauses: dict[_Clause, list[str]] = {}
    for each in found:
        clause = _clause(each, kernel, _kind(attributes.get("passed"), each))
        clauses.setdefault(clause, []).append(quoted(each.position, each.path, kernel.names))
    alike = [f"{_arguments(names)} {clause.what}" for clause, names in clauses.items() if clause.is_for_every]
    parts = [f"{clause.verb} {_arguments(names)} {clause.what}" for clause, names in clauses.items()
             if not clause.is_for_every]
    if alike:
        is_cast = any("new_scalar" in each.aspects or "new_dtype" in each.aspects for each in found)
        parts.insert(0, f"pass {', '.join(alike)} in every {kernel.call}" + ", if the values allow it" * is_cast)
    return "; ".join((*parts, *dict.fromkeys(note for clause in clauses for note in clause.notes)))


def _arguments(names: Sequence[str]) -> str:
    if len(names) == 1:
        return f"argument {names[0]}"
    return f"arguments {', '.join(names[:-1])} and {names[-1]}"


def _kind(passed: Any, difference: Difference) -> str | None:
    """Of which library the array is: see `kernelscope.probes.numba_cuda.compile.array_kind`."""
    for at in (difference.position, *difference.path):
        if not isinstance(passed, list) or at >= len(passed):  # pyright: ignore[reportUnknownArgumentType]
            return None
        passed = passed[at]  # pyright: ignore[reportUnknownVariableType]
    return passed if isinstance(passed, str) else None


def _clause(difference: Difference, kernel: Kernel, kind: str | None) -> _Clause:
    wanted, known, code = difference.wanted, difference.known, difference.code
    if wanted.kind == known.kind == "array":
        return _array(difference, kernel, kind)
    if code == "new_scalar":
        return _Clause(f"as {_scalar(_holding(wanted.dtype, known.dtype))}")
    if code == "new_dtype":
        return _Clause("with one np.dtype")
    if code == "new_alignment":
        return _Clause("with one np.dtype", notes=(_ALIGNED,))
    if code == "tuple_arity":
        return _Clause("with one number of elements", notes=("an array takes any number",))
    if code == "optional":
        return _Clause("by its plain type, which is not optional: no launch takes None", "declare", False)
    if code == "literal":
        return _Clause("by its plain type, such as int64: a literal type takes one value only", "declare", False)
    if "enum" in (wanted.kind, known.kind) and {wanted.kind, known.kind} <= {"enum", "scalar"}:
        return _Clause("as a number", notes=("member.value is that of an enum's member",))
    return _Clause(f"as {short(known)}")


_ALIGNED = "its records have to be laid out alike: align=True in np.dtype for all, or for none"
#: What makes arrays of another dtype, C-contiguous, F-contiguous and writable, of each library that is known.
_MAKING = {
    "host": ("{}.astype({})", "np.ascontiguousarray({})", "np.asfortranarray({})", "{}.copy()"),
    "cupy": ("{}.astype({})", "cupy.ascontiguousarray({})", "cupy.asfortranarray({})", "{}.copy()"),
    "torch": ("{}.to({})", "{}.contiguous()", "{}.mT.contiguous().mT", "{}.clone()"),
}
_PREFIX = {"cupy": "cupy.", "torch": "torch."}


def _array(difference: Difference, kernel: Kernel, kind: str | None) -> _Clause:
    """How to make an array that every launch can be given, with all in which the two differ."""
    wanted, known, aspects = difference.wanted, difference.known, difference.aspects
    if kind == "other":
        return _Clause(f"with one {' and one '.join(_ASPECTS[aspect] for aspect in aspects)}")
    making = _MAKING.get(kind or "", _MAKING["host"])
    expression = base = "host" if kind == "device" else "array"
    notes: list[str] = []
    if "new_dimensions" in aspects:
        expression += _reshaping(base, min(wanted.ndim, known.ndim))
        notes.append("or accept one specialization for each number of dimensions")
    if "new_dtype" in aspects or "new_alignment" in aspects:
        dtype = _dtype(_holding(wanted.dtype, known.dtype), kind)
        expression = making[0].format(expression, dtype)
        notes += [_ALIGNED] * ("new_alignment" in aspects)
    if "new_dimensions" in aspects and (wanted.layout, known.layout) != ("C", "C"):
        expression = making[1].format(expression)  # another shape may be of another layout
    elif "new_layout" in aspects:
        expression = making[2 if known.layout == "F" else 1].format(expression)
    if (wanted.readonly or known.readonly) and making[0].split("(")[0].removeprefix("{}") not in expression:
        expression = making[3].format(expression)  # what casts has made a writable array already
    if kind == "device":
        expression = f"cuda.to_device({expression})"
        notes.append("it is made so on the host, for a device array has no astype" if ".astype" in expression else
                     "it is made so on the host, before it goes to the device")
    elif kind is None:
        notes.append("a device array is made so on the host, before it goes to the device")
    if aspects == ("new_layout",) and kernel.declares and kernel.owner == "user" and (
            declared := replace(known, layout="A").declaration):
        notes.append(f"or declare it in @cuda.jit's signatures as {declared}, which takes every layout")
    return _Clause(f"as {expression}", notes=tuple(notes))


_ASPECTS = {"new_dimensions": "number of dimensions", "new_dtype": "dtype", "new_layout": "layout",
            "new_access": "access (writable, or read-only)", "new_alignment": "np.dtype"}


def _reshaping(base: str, ndim: int) -> str:
    """What has an array of as many dimensions or more have as many, and at least one."""
    if ndim <= 1:
        return ".reshape(-1)"
    kept = f"{base}.shape[-1]" if ndim == 2 else f"*{base}.shape[{1 - ndim}:]"
    return f".reshape(-1, {kept})"


_TEXT = re.compile(r"^\[(unichr|char) x (\d+)\]$")
_DATE = re.compile(r"^(datetime|timedelta)64(?:\[(\w+)\])?$")


def _dtype(text: str, kind: str | None) -> str:
    """A dtype as Python has it."""
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


_RANKS = ("bool", "uint", "int", "float", "complex")


def _holding(wanted: str, known: str) -> str:
    """The known type, unless the wanted one is of a kind that holds more: a float's values do not fit into an int."""
    def rank(dtype: str) -> int:
        return next((at for at, kind in enumerate(_RANKS) if dtype.startswith(kind)), -1)

    texts = _TEXT.match(wanted), _TEXT.match(known)
    if texts[0] and texts[1]:
        return wanted if int(texts[0][2]) > int(texts[1][2]) else known
    return wanted if min(rank(wanted), rank(known)) >= 0 and rank(wanted) > rank(known) else known


def _scalar(dtype: str) -> str:
    if dtype in PYTHON_SCALAR:
        return f"{PYTHON_SCALAR[dtype]}(value)"
    found = _DATE.match(dtype)
    if found:
        return f'np.{found[1]}64(value, "{found[2]}")' if found[2] else f"np.{found[1]}64(value)"
    return f"np.{dtype}(value)" if NUMPY_SCALAR.match(dtype) else dtype

