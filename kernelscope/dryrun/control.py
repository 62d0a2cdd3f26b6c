"""Calls of the null driver that are ours: its counters, and the two that `enable` needs."""

from __future__ import annotations

import ctypes
import re
from collections import Counter

_NAME_BYTES = 128


def initialize(library: ctypes.CDLL) -> int:
    """Start the driver; returns CUDA's error code."""
    return library.cuInit(0)


def driver_version(library: ctypes.CDLL) -> int:
    """Return the CUDA version that the driver reports, such as 13000."""
    version = ctypes.c_int()
    library.cuDriverGetVersion(ctypes.byref(version))
    return version.value


def totals(library: ctypes.CDLL) -> tuple[int, int, int, int]:
    """Return launches, captured launches, graph launches and kernels in graph launches."""
    values = (ctypes.c_ulonglong * 4)()
    library.kernelscope_dryrun_totals(values)
    return values[0], values[1], values[2], values[3]


def calls(library: ctypes.CDLL) -> dict[str, int]:
    """Return how often each driver function was called; `cuMemAlloc_v2` counts as cuMemAlloc."""
    counted = Counter[str]()
    for name, count in _named_counts(library.kernelscope_dryrun_called_name):
        counted[re.sub(r"_v\d+$", "", name)] += count
    return dict(counted)


def missing(library: ctypes.CDLL) -> dict[str, int]:
    """Return how often each function was called that the driver does not have."""
    return dict(_named_counts(library.kernelscope_dryrun_missing_name))


def _named_counts(function: ctypes._NamedFuncPointer) -> list[tuple[str, int]]:  # pyright: ignore
    """Call a function of the form ``f(index, name, capacity, &count)`` until it says that there is no more."""
    found: list[tuple[str, int]] = []
    name, count = ctypes.create_string_buffer(_NAME_BYTES), ctypes.c_ulonglong()
    while function(len(found), name, ctypes.c_size_t(_NAME_BYTES), ctypes.byref(count)):
        found.append((name.value.decode(), count.value))
    return found
