"""The dry run: CUDA's host side on a machine without a GPU.

`enable` replaces NVIDIA's CUDA driver by a null driver in this process: numba-cuda, cuda.core and cuda.bindings
then compile, specialize, cache, capture graphs and launch as they do on a GPU, and the kernels do nothing. The
driver is a small C library in ``csrc``, built once with the machine's C compiler; ``csrc/driver.c`` begins with what
it promises and what it does not. There is no way back: a CUDA driver cannot be unloaded from a process.

Importing this package imports nothing of CUDA and loads no library.
"""

from __future__ import annotations

from kernelscope.dryrun.arrays import Array, array
from kernelscope.dryrun.switch import (
    BANNER,
    DryRunCounters,
    DryRunStatus,
    counters,
    enable,
    enable_from_environment,
    is_enabled,
    status,
)

__all__ = [
    "BANNER",
    "Array",
    "DryRunCounters",
    "DryRunStatus",
    "array",
    "counters",
    "enable",
    "enable_from_environment",
    "is_enabled",
    "status",
]
