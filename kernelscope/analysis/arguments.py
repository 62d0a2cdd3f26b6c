"""Python names of a kernel's arguments, as a dispatcher's ``arguments`` has them."""

from __future__ import annotations

from kernelscope.analysis.signatures import parse_signature


def argument_names(text: str | None) -> tuple[str, ...]:
    """Read a dispatcher's ``arguments``, such as ``x, y, *rest``, into names."""
    return tuple(part.strip() for part in text.split(",")) if text else ()


def named_arguments(signature: str, names: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Return each argument of a signature as its name and its type; without a name ``argument 2`` stands for it."""
    types = parse_signature(signature)
    return tuple((argument_name(names, at), kind.text) for at, kind in enumerate(types))


def argument_name(names: tuple[str, ...], position: int) -> str:
    """Return the Python name of an argument; ``rest[1]`` for what ``*rest`` takes, ``argument 2`` where unknown."""
    return known_name(names, position) or f"argument {position}"


def known_name(names: tuple[str, ...], position: int) -> str | None:
    """Return the Python name of an argument; ``rest[1]`` for what ``*rest`` takes, None where unknown."""
    for at, name in enumerate(names):
        if name.startswith("*") and not name.startswith("**") and position >= at:
            return f"{name[1:]}[{position - at}]"
        if at == position:
            return name
    return None
