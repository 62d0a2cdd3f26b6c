"""What would avoid a compile: one sentence for each reason, true for numba-cuda."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from kernelscope.analysis.cache_reasons import CODES, fix_for_cache
from kernelscope.analysis.signatures import ArgumentType, Difference, declaration, parse_type

#: A compile this long is worth a place in the disk cache.
SLOW_COMPILE_NS = 100_000_000

_NUMPY_SCALAR = re.compile(r"^(?:u?int(?:8|16|32|64)|float(?:16|32|64)|complex(?:64|128))$")
_PYTHON_SCALAR = {"int64": "int", "float64": "float", "complex128": "complex", "bool": "bool"}


def fix_for(
    code: str, row: Mapping[str, Any], difference: Difference | None,
    attributes: Mapping[str, Any] | None = None,
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
    """
    if code == "failed" and (row["error"] or "").startswith("KeyboardInterrupt"):
        return "it was interrupted; the next launch compiles it"
    if code == "failed":
        return "correct what the error names; a failed compile leaves nothing behind, so each launch tries again"
    if code in ("first_signature", "unknown"):
        return _earlier(row)
    if code == "eager":
        return _CACHE if _is_slow_and_uncached(row) else None
    if code == "redefined":
        move = "keep the definition out of the cell that is run again"
        return move if row["cache_file"] else f"{move}; or {_CACHE}"
    if code == "launch_config":
        return (
            "launch it with fewer distinct configurations: grid, block and shared memory each count, the stream does "
            "not"
        )
    if code == "specialize":
        return "launch kernel[griddim, blockdim](...) instead of forall: such launches share their specializations"
    if code == "recompile":
        return "drop the call of recompile() unless a global that the kernel reads has changed"
    if code in CODES:
        return fix_for_cache(code, row, attributes)
    if code == "wait":
        return "launch once in one thread before the others start, or declare the signature in @cuda.jit"
    return None if difference is None else _align(difference)


_CACHE = "cache=True in @cuda.jit keeps it on disk for the next session"


def _earlier(row: Mapping[str, Any]) -> str:
    """A first compile cannot be avoided, but moved out of the launch or kept."""
    spelled = declaration(row["signature"])
    example = f'@cuda.jit(["{spelled}"])' if spelled and len(spelled) <= 100 else "a list of signatures in @cuda.jit"
    first = f"{example} compiles it at the definition, and no other types later"
    return first if row["cache_file"] else f"{first}; cache=True keeps it on disk"


def _is_slow_and_uncached(row: Mapping[str, Any]) -> bool:
    return not row["cache_file"] and row["end_ns"] - row["start_ns"] >= SLOW_COMPILE_NS


def _align(difference: Difference) -> str:
    """How to pass what the known signature has."""
    where = f"argument {difference.position}"
    if difference.position < 0:
        return "pass the same number of arguments in every launch"
    wanted, known = parse_type(difference.wanted), parse_type(difference.known)
    if difference.code == "new_dtype":
        if known.kind == "array":
            cast = f"array.astype(np.{known.dtype})" if _NUMPY_SCALAR.match(known.dtype) else known.dtype
            return f"pass {where} with one dtype in every launch, such as {cast}, if the values allow it"
        return f"pass {where} as one type in every launch, such as {_scalar(known.dtype)}, if the values allow it"
    if difference.code == "new_dimensions":
        if known.ndim == 1:
            return f"pass {where} with 1 dimension, as array.reshape(-1) does, or accept one specialization for each"
        return f"pass {where} with {known.ndim} dimensions in every launch, or accept one specialization for each"
    if difference.code == "new_layout":
        return _align_layout(where, wanted, known)
    return f"pass {where} as {known.text} in every launch"


def _align_layout(where: str, wanted: ArgumentType, known: ArgumentType) -> str:
    if wanted.layout == known.layout:
        if wanted.readonly != known.readonly:
            kind = "read-only" if known.readonly else "writable"
            return f"pass {where} {kind} in every launch: array.flags.writeable, or a copy, decides"
        return f"pass {where} with aligned elements in every launch: a copy aligns them"
    if known.layout == "C":
        return f"pass {where} C-contiguous: np.ascontiguousarray(array), or a copy on the device"
    if known.layout == "F":
        return f"pass {where} F-contiguous: np.asfortranarray(array), or a copy on the device"
    spelled = f"{known.dtype}[{', '.join([':'] * known.ndim)}]"
    return f"declare {where} as {spelled} in @cuda.jit's signatures, which takes every layout, or pass one layout"


def _scalar(dtype: str) -> str:
    if dtype in _PYTHON_SCALAR:
        return f"{_PYTHON_SCALAR[dtype]}(value)"
    return f"np.{dtype}(value)" if _NUMPY_SCALAR.match(dtype) else dtype
