"""Why cuda.core compiled a program, and what avoids it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kernelscope.analysis.cache_keys import Change, Fixes


class CudaCoreFixes(Fixes):
    """Fixes of ``Program.compile``, which keeps nothing itself."""

    def again(self, attributes: Mapping[str, Any]) -> str:
        """See `Fixes.again`."""
        return "the same was compiled before: a Program keeps nothing for its next compile"

    def keep(self, attributes: Mapping[str, Any]) -> str:
        """See `Fixes.keep`."""
        return ("keep the ObjectCode that compile() returned; or pass compile(cache=...) an InMemoryProgramCache or a "
                "FileStreamProgramCache of cuda.core.utils")

    def option(self, change: Change) -> str:
        """See `Fixes.option`."""
        return f"compile with {change.name}={change.known} every time, or keep one ObjectCode for each"


FIXES = CudaCoreFixes("cuda.core", "compile", "compile it once before it matters; compile(cache=...) with a "
                      "FileStreamProgramCache of cuda.core.utils keeps it for the next process",
                      "nothing avoids it: new code has to be compiled; what changes from compile to compile can be an "
                      "argument of the kernel instead of a part of its source")
