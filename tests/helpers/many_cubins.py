"""Kernels with and without spilled registers, compiled for real, and what else a cubin can have."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
from numba import cuda, float32, float64, int64

CAPABILITIES = {"7.5": (7, 5, ""), "8.0": (8, 0, ""), "8.6": (8, 6, ""), "8.9": (8, 9, ""), "9.0": (9, 0, "a"),
                "10.0": (10, 0, "a"), "12.0": (12, 0, "a")}


def _many_registers(live: int) -> Any:
    """A kernel that has `live` values in flight at once."""
    source = ["def many(x, out):", "    i = cuda.grid(1)"]
    source += [f"    v{at} = x[i * {live} + {at}]" for at in range(live)]
    source += ["    for _ in range(100):"]
    source += [f"        v{at} = v{at} * v{(at * 7 + 3) % live} + v{(at * 5 + 1) % live}" for at in range(live)]
    source += [f"    out[i * {live} + {at}] = v{at}" for at in range(live)]
    names: dict[str, Any] = {"cuda": cuda}
    exec("\n".join(source), names)
    return names["many"]


def _local(x, out, n):
    a = cuda.local.array(64, np.float32)
    for j in range(64):
        a[j] = x[cuda.grid(1) + j]
    out[cuda.grid(1)] = a[n % 64]


def _local_and_spilled(x, out, n):
    a = cuda.local.array(64, np.float64)
    i = cuda.grid(1)
    for j in range(n):
        a[j] = x[i + j]
    total = 0.0
    for j in range(n):
        total += a[(j * n) % 64] * math.sin(x[j])
    out[i] = total


def _shared(x, out):
    held = cuda.shared.array(256, np.float64)
    i = cuda.threadIdx.x
    held[i] = x[i]
    cuda.syncthreads()
    out[i] = held[255 - i]


_F, _D = float32[::1], float64[::1]

#: By name: the function, its argument types, and compile options.
KERNELS: dict[str, tuple[Any, tuple[Any, ...], dict[str, Any]]] = {
    "plain": (_many_registers(8), (_F, _F), {}),
    "spilled": (_many_registers(40), (_F, _F), {"max_registers": 32}),
    "spilled_doubles": (_many_registers(28), (_D, _D), {"max_registers": 40}),
    "spilled_without_lto": (_many_registers(40), (_F, _F), {"max_registers": 32, "lto": False}),
    "local": (_local, (_F, _F, int64), {}),
    "local_and_spilled": (_local_and_spilled, (_D, _D, int64), {"max_registers": 24}),
    "shared": (_shared, (_D, _D), {}),
    "bounded": (_many_registers(8), (_F, _F), {"launch_bounds": (128, 4)}),
    "with_lines": (_local, (_F, _F, int64), {"lineinfo": True}),
}


@cache
def dispatcher(name: str) -> Any:
    """The dispatcher of one of `KERNELS`."""
    function, _, options = KERNELS[name]
    return cuda.jit(function, **options)  # as a decorator with arguments it drops lto


@cache
def compiled(name: str) -> Any:
    """The ``_Kernel`` of one of `KERNELS`, for the device that there is."""
    return dispatcher(name).compile(KERNELS[name][1])


@cache
def cubin(name: str, capability: str = "9.0") -> bytes:
    """The cubin of one of `KERNELS` for a compute capability."""
    return bytes(compiled(name)._codelibrary.get_cubin(CAPABILITIES[capability]).code)
