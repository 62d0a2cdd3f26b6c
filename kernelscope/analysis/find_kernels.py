"""Finding a kernel and one of its specializations by what a user types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from kernelscope.analysis.inspection import Kernel, Specialization
from kernelscope.errors import UnknownKernelError
from kernelscope.suggestions import did_you_mean

#: What kernels can be sorted by, largest first.
SORTS = ("launches", "compile", "registers")
Sort = Literal["launches", "compile", "registers"]

_MOST_NAMES = 12


def find_kernels(kernels: Sequence[Kernel], wanted: str) -> list[Kernel]:
    """Return the kernels of that name, of which there can be several.

    Parameters
    ----------
    kernels : sequence of Kernel
        Where to look.
    wanted : str
        The qualified name, or its last part, or the number of the kernel's row in ``dispatchers``.

    Raises
    ------
    UnknownKernelError
        There is none; the message lists those that there are.
    """
    whole = [each for each in kernels if each.name == wanted]
    found = whole or [each for each in kernels if each.name.rpartition(".")[2] == wanted]
    if not found and wanted.isdecimal():
        found = [each for each in kernels if each.dispatcher_id == int(wanted)]
    if not found:
        raise UnknownKernelError(
            f"no recorded kernel {wanted!r}; known: {listed_kernels(kernels)}{did_you_mean(wanted, names(kernels))}")
    return found


def names(kernels: Sequence[Kernel]) -> list[str]:
    """Return what a kernel can be called: its qualified name, and the last part of it."""
    return list(dict.fromkeys(name for each in kernels for name in (each.name, each.name.rpartition(".")[2])))


def listed_kernels(kernels: Sequence[Kernel]) -> str:
    """Return the first kernels' names for a message."""
    known = list(dict.fromkeys(each.name for each in kernels))
    more = f" and {len(known) - _MOST_NAMES} more" if len(known) > _MOST_NAMES else ""
    return ", ".join(repr(name) for name in known[:_MOST_NAMES]) + more or "none, since nothing was recorded"


def find_specialization(kernels: Sequence[Kernel], number: int) -> tuple[Kernel, Specialization]:
    """Return the specialization of that number of the only kernel of those given.

    Raises
    ------
    UnknownKernelError
        There are several kernels, or the kernel has no such specialization.
    """
    if not kernels:
        raise UnknownKernelError("no kernel was recorded, so there is no specialization")
    if len(kernels) > 1:
        listed = ", ".join(f"{each.name!r} (row {each.dispatcher_id})" for each in kernels[:_MOST_NAMES])
        raise UnknownKernelError(
            f"specializations are numbered by kernel: name one of {len(kernels)}, or its row: {listed}")
    for each in kernels[0].specializations:
        if each.number == number:
            return kernels[0], each
    count = len(kernels[0].specializations)
    known = "none" if not count else "1" if count == 1 else f"1 to {count}"
    raise UnknownKernelError(f"no specialization {number} of {kernels[0].name!r}; known: {known}")


def sort_kernels(kernels: Sequence[Kernel], by: Sort) -> list[Kernel]:
    """Return the kernels with most launches, longest compile time or most registers first; unknown ones last."""
    values = {"launches": lambda each: each.launches, "compile": lambda each: each.compile_ns,
              "registers": lambda each: -1 if each.regs is None else each.regs}
    return sorted(kernels, key=lambda each: -values[by](each))
