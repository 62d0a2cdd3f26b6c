"""What of the frameworks runs code of ours."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


def still_hooked() -> list[str]:
    """Names of the hooked frameworks' functions that run code of ours."""
    owners: list[Any] = []
    nvtx = sys.modules.get("nvtx.nvtx")
    if nvtx is not None:
        owners += [nvtx, sys.modules["nvtx"], nvtx.annotate, nvtx.Domain, nvtx.DummyDomain]
    quadrants = sys.modules.get("quadrants.lang.kernel")
    if quadrants is not None:
        owners += [quadrants.Kernel, quadrants.KernelCxx, sys.modules["quadrants.lang.impl"].Program]
    jit = sys.modules.get("triton.runtime.jit")
    if jit is not None:
        owners += [jit.JITFunction, sys.modules["triton.backends.nvidia.driver"].CudaLauncher,
                   sys.modules["triton.compiler.compiler"]]
    dispatcher = sys.modules.get("numba.cuda.dispatcher")
    if dispatcher is not None:
        owners += _owners_of_numba(dispatcher)
    descriptor = sys.modules.get("numba_cuda_mlir.descriptor")
    if descriptor is not None and hasattr(descriptor, "MLIRDispatcher"):
        optimization = sys.modules.get("numba_cuda_mlir.mlir_optimization")  # imported by the first compile
        owners += [descriptor, descriptor.MLIRDispatcher, descriptor._ArgMarshaller]
        owners += [optimization] if optimization is not None else []
    found = []
    for owner in owners:
        for name, value in vars(owner).items():
            function = inspect.unwrap(value) if callable(value) else None
            code = getattr(function, "__code__", None)
            ours = code is not None and getattr(code, "co_filename", "").startswith(str(ROOT / "kernelscope"))
            if ours or (getattr(function, "__module__", None) or "").startswith("kernelscope"):
                found.append(f"{owner.__name__}.{name}")
    return found


def _owners_of_numba(dispatcher: Any) -> list[Any]:
    codegen, driver = sys.modules["numba.cuda.codegen"], sys.modules["numba.cuda.cudadrv.driver"]
    locks = sys.modules["numba.cuda.core.compiler_lock"]
    return [dispatcher, dispatcher.CUDADispatcher, dispatcher._Kernel, codegen.CUDACodeLibrary, driver.Context,
            type(locks.global_compiler_lock)]
