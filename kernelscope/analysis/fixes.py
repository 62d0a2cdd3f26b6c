"""What would avoid a compile: one sentence for each reason, true for the framework of the compile."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kernelscope.analysis.cache_reasons import CODES, fix_for_cache
from kernelscope.analysis.differences import Difference
from kernelscope.analysis.reason_words import NUMPY_SCALAR, PYTHON_SCALAR, argument, short
from kernelscope.analysis.signatures import ArgumentType, declaration

#: A compile this long is worth a place in the disk cache.
SLOW_COMPILE_NS = 100_000_000


def fix_for(
    code: str, row: Mapping[str, Any], difference: Difference | None = None,
    attributes: Mapping[str, Any] | None = None, names: tuple[str, ...] = (), *, cacheable: bool = True,
    declares: bool = True,
) -> str | None:
    """Return what would avoid the compile, or None where nothing should.

    Parameters
    ----------
    code : str
        A reason code, or ``failed``.
    row : mapping
        The row of ``compilations``.
    difference : Difference, optional
        How the nearest known signature differs.
    attributes : mapping, optional
        The row's attributes.
    names : tuple of str
        The arguments' Python names, as far as they are known.
    cacheable : bool
        Whether ``cache=True`` can keep the kernel on disk: see `kernelscope.analysis.cache_reasons.is_cacheable`.
    declares : bool
        Whether the framework has ``@cuda.jit``, which takes signatures: numba-cuda and numba-cuda-mlir do.
    """
    can_cache = cacheable and not row["cache_file"]
    if code == "failed":
        return _after_failure(row, difference, names)
    if code in CODES:
        return fix_for_cache(code, row, attributes)
    if code in ("first_use", "unknown"):
        return _earlier(row, can_cache) if declares else None
    if code == "eager":
        return _CACHE if can_cache and row["end_ns"] - row["start_ns"] >= SLOW_COMPILE_NS else None
    if code == "redefined":
        return f"{_MOVE}; or {_CACHE}" if can_cache else _MOVE
    if code == "wait" and not declares:
        return _BEFORE_OTHERS
    if code in _PLAIN:
        return _PLAIN[code]
    return None if difference is None else _align(difference, names, declares)


_MOVE = "keep the definition out of the loop, and out of the cell that is run again"
_BEFORE_OTHERS = "launch once in one thread before the others start"
_PLAIN = {
    "launch_config": "launch it with fewer distinct configurations: grid, block and shared memory each count, the "
                     "stream does not",
    "specialize": "keep what specialize() returns and launch that, or launch kernel[griddim, blockdim](...): such "
                  "launches share their specializations",
    "forall": "launch kernel[griddim, blockdim](...) instead of forall: such launches share their specializations",
    "recompile": "drop the call of recompile() unless a global that the kernel reads has changed",
    "wait": f"{_BEFORE_OTHERS}, or declare the signature in @cuda.jit",
}
_CACHE = "cache=True in @cuda.jit keeps it on disk for the next session"


def _earlier(row: Mapping[str, Any], can_cache: bool) -> str | None:
    """A first compile cannot be avoided, but moved out of the launch or kept."""
    if row["launch_config_sensitive"]:  # a definition has no launch configuration that it could be compiled for
        return _CACHE if can_cache else None
    spelled = declaration(row["signature"])
    example = f'@cuda.jit(["{spelled}"])' if spelled and len(spelled) <= 100 else "a list of signatures in @cuda.jit"
    first = f"{example} compiles it at the definition, and no other types later"
    return f"{first}; cache=True keeps it on disk" if can_cache else first


def _after_failure(row: Mapping[str, Any], difference: Difference | None, names: tuple[str, ...]) -> str:
    if (row["error"] or "").startswith("KeyboardInterrupt"):
        return "it was interrupted; the next launch compiles it"
    if difference is not None and difference.code == "argument_count":
        return _align(difference, names)
    return "correct what the error names; a failed compile leaves nothing behind, so each launch tries again"


def _align(difference: Difference, names: tuple[str, ...], declares: bool = True) -> str:
    """How to pass what the known signature has."""
    wanted, known, code = difference.wanted, difference.known, difference.code
    where = argument(difference, names)
    if code == "argument_count":
        return "pass as many arguments in every launch; defaults in the definition are not filled in"
    if code == "new_dtype":
        dtype = _holding(wanted.dtype, known.dtype)
        if known.kind == "array" and NUMPY_SCALAR.match(dtype):
            cast = f"array.astype(np.{dtype})"
            return f"pass {where} with one dtype in every launch, such as {cast}, if the values allow it"
        return f"pass {where} with one dtype in every launch"
    if code == "new_scalar":
        cast = _scalar(_holding(wanted.dtype, known.dtype))
        return f"pass {where} as one type in every launch, such as {cast}, if the values allow it"
    if code == "new_dimensions":
        if known.ndim == 1:
            return f"pass {where} with 1 dimension, as array.reshape(-1) does, or accept one specialization for each"
        return (f"pass {where} with {known.ndim} dimension{'s' * (known.ndim != 1)} in every launch, or accept one "
                "specialization for each")
    if code == "new_layout":
        return _align_layout(where, known, declares)
    if code == "new_access":
        if wanted.readonly:
            return (f"pass {where} writable: array.flags.writeable = True, or .copy(); np.broadcast_to and "
                    "np.frombuffer of bytes make read-only arrays")
        return f"pass {where} read-only in every launch, or writable in every launch"
    if code == "new_alignment":
        return f"pass {where} with one np.dtype in every launch: align=True, or not, for all"
    if code == "tuple_arity":
        return f"pass {where} with one number of elements; an array takes any number"
    if code == "optional":
        return (f"pass {where} always: a kernel cannot be launched with None; an array of size 0, or a flag beside it, "
                "can stand for it")
    if code == "literal":
        return f"declare {where} by its plain type, such as int64: a literal type takes one value only"
    if "enum" in (wanted.kind, known.kind) and {wanted.kind, known.kind} <= {"enum", "scalar"}:
        return f"pass {where} as a number in every launch: member.value of an enum's member"
    return f"pass {where} as {short(known)} in every launch"


def _align_layout(where: str, known: ArgumentType, declares: bool) -> str:
    if known.layout == "C":
        return (f"pass {where} C-contiguous: np.ascontiguousarray(array) or array.copy(), of an array on the host "
                "before it goes to the device")
    if known.layout == "F":
        return (f"pass {where} F-contiguous: np.asfortranarray(array), of an array on the host before it goes to the "
                "device")
    spelled = known.declaration
    if spelled is None or not declares:
        return f"pass {where} in one layout in every launch"
    return f"declare {where} as {spelled} in @cuda.jit's signatures, which takes every layout, or pass one layout"


_RANKS = ("bool", "uint", "int", "float", "complex")


def _holding(wanted: str, known: str) -> str:
    """The known type, unless the wanted one is of a kind that holds more: a float's values do not fit into an int."""
    def rank(dtype: str) -> int:
        return next((at for at, kind in enumerate(_RANKS) if dtype.startswith(kind)), -1)

    return wanted if min(rank(wanted), rank(known)) >= 0 and rank(wanted) > rank(known) else known


def _scalar(dtype: str) -> str:
    if dtype in PYTHON_SCALAR:
        return f"{PYTHON_SCALAR[dtype]}(value)"
    return f"np.{dtype}(value)" if NUMPY_SCALAR.match(dtype) else dtype
