"""Why CuPy compiled, and what avoids it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kernelscope.analysis.cache_keys import Change, Fixes


class CupyFixes(Fixes):
    """Fixes of kernels that CuPy generates, and of the user's in CUDA C++."""

    arrays = "cupy"

    def again(self, attributes: Mapping[str, Any]) -> str:
        """See `Fixes.again`."""
        if attributes.get("in_memory"):
            return "the same was compiled before: CUPY_CACHE_IN_MEMORY is set, which leaves the disk cache out"
        return super().again(attributes)

    def keep(self, attributes: Mapping[str, Any]) -> str:
        """See `Fixes.keep`."""
        if attributes.get("in_memory"):
            return "unset CUPY_CACHE_IN_MEMORY, or keep the kernel object"
        return super().keep(attributes)

    def of_library(self, code: str, attributes: Mapping[str, Any]) -> str:
        """See `Fixes.of_library`."""
        if code == "recompile" and attributes.get("in_memory"):
            return "unset CUPY_CACHE_IN_MEMORY"
        return super().of_library(code, attributes)

    def constant(self, change: Change) -> str:
        """See `Fixes.constant`."""
        if change.name == "reduction":
            return ("nothing avoids it: CuPy takes CUB where what is reduced is contiguous, and its own kernel "
                    "elsewhere")
        if change.name != "template":
            return "nothing avoids it: CuPy chooses it by how many elements are reduced"
        return ("nothing avoids it: each instance of a template is compiled; one RawModule that names them all in "
                "name_expressions compiles them at once")

    def option(self, change: Change) -> str:
        """See `Fixes.option`."""
        how = f"with {change.name}={change.known}" if change.known not in (None, True) else (
            f"with {change.name}" if change.known else f"without {change.name}")
        return f"make the kernel {how} every time, or keep one kernel for each"


FIXES = CupyFixes("CuPy", "call", "call it once before it matters; CuPy's disk cache keeps it for the next process",
                  "nothing avoids it: new code has to be compiled; what changes from call to call can be an argument "
                  "of the kernel instead of a part of its source")
