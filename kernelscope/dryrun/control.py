"""Counters of the null driver in this process, and adaptations that frameworks need to work with it."""

from __future__ import annotations

import ctypes
import importlib
import os
import re
import sys
from collections import Counter
from types import ModuleType
from typing import Any

from kernelscope.errors import DryRunError

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


# What CUDA's Python packages need besides a driver, to run on the null driver.
#
# - cuda.core makes three calls of the CUDA runtime. The runtime is linked into cuda.bindings and cannot start here: it
#   needs private tables of NVIDIA's driver. The driver's own API answers these calls as well.
# - numba looks for a driver once, when it is imported, and remembers that it found none.
# - Triton compiles a helper and links it with the driver, by the file: it is told where that is. It asks torch for the
#   device (``triton.py`` beside this file).
# - numba-cuda-mlir's native launcher does so too, and cannot be made to look again: its launches would crash.

def refuse_late() -> None:
    """Raise `DryRunError` where numba-cuda-mlir has looked for a driver already, and found none."""
    native = sys.modules.get("numba_cuda_mlir._cext")
    if native is not None and not getattr(native, "cuda_available", True):
        raise DryRunError("numba_cuda_mlir was imported before the dry run, and has found no CUDA driver: restart the "
                          "kernel, and call kernelscope.dryrun.enable() before anything imports numba_cuda_mlir")


def adapt(library: str) -> None:
    """Answer cuda.core's runtime calls, let numba look for the driver again, and tell Triton where `library` is."""
    os.environ.setdefault("TRITON_LIBCUDA_PATH", os.path.dirname(library))
    try:
        driver = importlib.import_module("cuda.bindings.driver")
        runtime = importlib.import_module("cuda.bindings.runtime")
    except ImportError:
        return  # no CUDA package that would need it
    _answer_runtime_calls(driver, runtime)
    for name, module in list(sys.modules.items()):
        if name.endswith(".cudadrv.driver"):
            found = getattr(module, "driver", None)
            if getattr(found, "initialization_error", None) is not None:
                found.__init__()


def _answer_runtime_calls(driver: ModuleType, runtime: ModuleType) -> None:
    error_type: Any = runtime.cudaError_t  # its codes are the driver's, for all that these calls can return

    def cudaDeviceSynchronize() -> tuple[Any]:
        (error,) = driver.cuCtxSynchronize()
        return (error_type(int(error)),)

    def cudaDeviceGetPCIBusId(len: int, device: int) -> tuple[Any, bytes]:
        error, text = driver.cuDeviceGetPCIBusId(len, device)
        return error_type(int(error)), text

    def cudaGetDeviceCount() -> tuple[Any, int]:
        error, count = driver.cuDeviceGetCount()
        return error_type(int(error)), count

    for answer in (cudaDeviceSynchronize, cudaDeviceGetPCIBusId, cudaGetDeviceCount):
        setattr(runtime, answer.__name__, answer)
