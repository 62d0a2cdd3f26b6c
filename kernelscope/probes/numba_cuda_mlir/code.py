"""The code of numba-cuda-mlir's kernels as rows of the table ``code``: what ran, read from its compile results.

Nothing is compiled for it. MLIR is kept twice in one text, as MLIR tools write several modules: what the function was
lowered to, and what MLIR's own passes made of it. A kernel loaded from the disk cache has only the second.
"""

from __future__ import annotations

import base64
import json
from typing import Any

from kernelscope.probes.numba_cuda.code import CodeCapture as NumbaCodeCapture
from kernelscope.probes.numba_cuda.code import inferred_types
from kernelscope.probes.numba_cuda_mlir.facts import FRAMEWORK

#: Under which `Sink.stated` holds what could not be captured.
STATED = f"{FRAMEWORK} code"

_LOWERED = "// MLIR that the Python function was lowered to"
_OPTIMIZED = "// MLIR after its passes, in the dialects llvm and nvvm"
#: How MLIR tools part several modules in one file.
_PARTING = "// -----"


class CodeCapture(NumbaCodeCapture):
    """Adds the rows of each function and each specialization once."""

    framework = FRAMEWORK

    def _add_types(self, owner: int, number: int, name: str, kernel: Any) -> None:
        annotation = getattr(kernel.cres, "type_annotation", None)
        if annotation is None:
            return  # it was loaded from the disk cache
        try:
            self._add(owner, number, "types", json.dumps(inferred_types(annotation), ensure_ascii=False))
        except Exception as problem:
            self._failed(f"types cannot be read ({type(problem).__name__}: {problem})", name)

    def _add_llvm(self, owner: int, number: int, name: str, kernel: Any) -> None:
        """LLVM where the user has asked for it, which makes it; MLIR in any case."""
        llvm = kernel.metadata.get("llvmir")
        if llvm:
            self._add(owner, number, "llvm", llvm)
        text = mlir_text(kernel.metadata)
        if text:
            self._add(owner, number, "mlir", text)
        else:
            self._failed("MLIR is not to be found", name)

    def _add_machine_code(self, owner: int, number: int, name: str, kernel: Any) -> bytes | None:
        ptx = kernel.metadata.get("ptx") or kernel.metadata.get("lto_ptx")
        if ptx:
            self._add(owner, number, "ptx", ptx)
        _, code = self._facts.machine_code(kernel)
        if code is not None:
            self._add(owner, number, "cubin", base64.b64encode(code).decode("ascii"))
        return code


def mlir_text(metadata: Any) -> str:
    """Return the MLIR that a compile result's metadata holds; empty where there is none."""
    parts = [(_LOWERED, metadata.get("mlir_module_str")), (_OPTIMIZED, metadata.get("mlir_module_optimized"))]
    return f"{_PARTING}\n".join(f"{title}\n{text.rstrip()}\n" for title, text in parts if text)
