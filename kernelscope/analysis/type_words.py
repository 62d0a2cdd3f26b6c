"""Numba's types as an inspector shows them: ``float32[:, :] C`` instead of ``array(float32, 2d, C)``."""

from __future__ import annotations

from kernelscope.analysis.signatures import parse_type


def short_type(text: str) -> str:
    """Return one type in short; what is no array is returned as it is.

    Examples
    --------
    >>> short_type("readonly array(float32, 2d, A)")
    'float32[:, :] A readonly'
    """
    kind = parse_type(text)
    if kind.kind != "array":
        return text
    axes = ", ".join([":"] * kind.ndim) if kind.ndim <= 8 else f"{kind.ndim}d"
    flags = " readonly" * kind.readonly + " unaligned" * (not kind.aligned)
    return f"{kind.dtype}[{axes}] {kind.layout}{flags}"


def short_arguments(arguments: tuple[tuple[str, str], ...]) -> str:
    """Return named arguments, as `kernelscope.analysis.inspection` gives them, in one line.

    Such as ``x: float32[:] C, n: int64``.
    """
    return ", ".join(f"{name}: {short_type(kind)}" for name, kind in arguments) or "no arguments"
