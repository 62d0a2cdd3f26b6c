"""Why CuTe DSL compiled, and what avoids it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kernelscope.analysis.cache_keys import Change, Fixes


class CuteFixes(Fixes):
    """Fixes of ``cute.compile``, which keeps nothing itself."""

    def again(self, attributes: Mapping[str, Any]) -> str:
        """See `Fixes.again`."""
        return "the same was compiled before: cute.compile keeps nothing for its next call"

    def keep(self, attributes: Mapping[str, Any]) -> str:
        """See `Fixes.keep`."""
        return "keep what cute.compile has returned, and call that"

    def constant(self, change: Change) -> str:
        """See `Fixes.constant`."""
        return f"call it with {change.name}={change.known} every time, or keep what was compiled for each value"

    def option(self, change: Change) -> str:
        """See `Fixes.option`."""
        how = "without " + change.name if change.known is None else f"with {change.name}={change.known}"
        return f"compile {how} every time, or keep what was compiled with each"


FIXES = CuteFixes("CuTe DSL", "call", "call cute.compile once before it matters, and keep what it returns",
                  "nothing avoids it: new code has to be compiled")
