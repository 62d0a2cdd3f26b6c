"""What a test's ``kernelscope`` marks allow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, cast

from kernelscope.suggestions import did_you_mean

if TYPE_CHECKING:
    import pytest


@dataclass(frozen=True)
class Limits:
    """What one call of a test may do; None is no limit.

    Attributes
    ----------
    max_compiles : int or None
        Compiles. Loads from the disk cache, waits for another thread's compile and failed compiles do not count.
    max_specializations : int, mapping of str to int, or None
        Distinct specializations of one kernel that are launched, compiled or loaded: the same for every kernel, or by
        the kernel's name, qualified or its last part.
    max_launches : int or None
        Launches of all kernels together.
    """

    max_compiles: int | None = None
    max_specializations: int | Mapping[str, int] | None = None
    max_launches: int | None = None

    def stated(self) -> dict[str, Any]:
        """Return the limits that there are, by name."""
        return {name: value for name, value in asdict(self).items() if value is not None}


class LimitError(ValueError):
    """A mark has a wrong argument; the message is one line that names the test."""


_NAMES = tuple(field.name for field in fields(Limits))


def limits_of(item: pytest.Item) -> Limits | None:
    """Return what a test's marks allow, or None where it has none.

    For each limit the closest mark that names it holds: the test's own, its class's, its module's. A limit of None
    lifts one from farther out.

    Raises
    ------
    LimitError
        A mark names no limit or an unknown one, or gives one that is no count.
    """
    found: dict[str, Any] = {}
    marks = list(item.iter_markers("kernelscope"))
    for mark in marks:
        problem = _problem(mark.args, mark.kwargs)
        if problem:
            raise LimitError(f"{item.nodeid}: @pytest.mark.kernelscope {problem}")
        for name, value in mark.kwargs.items():
            found.setdefault(name, value)
    return Limits(**found) if marks else None


def _problem(args: tuple[Any, ...], limits: Mapping[str, Any]) -> str | None:
    """What is wrong with a mark's arguments."""
    if args:
        return f"takes keyword arguments only ({', '.join(_NAMES)}), not {args[0]!r}"
    if not limits:
        return f"names no limit; there are {', '.join(_NAMES)}"
    for name, value in limits.items():
        if name not in _NAMES:
            return f"has an unknown limit {name!r}; known: {', '.join(_NAMES)}{did_you_mean(name, _NAMES)}"
        if value is None or _is_count(value):
            continue
        if name != "max_specializations":
            return f"{name}={value!r} is not a count: it takes an int of 0 or more"
        if not isinstance(value, Mapping):
            return f"{name}={value!r} is neither a count nor a dict of counts by kernel name"
        for kernel, most in cast("Mapping[Any, Any]", value).items():
            if not isinstance(kernel, str) or not kernel:
                return f"{name} is by kernel name, and {kernel!r} is none"
            if not _is_count(most):
                return f"{name}={{{kernel!r}: {most!r}}} is not a count: it takes an int of 0 or more"
    return None


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
