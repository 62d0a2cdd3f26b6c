"""Why cuTile compiled, and what avoids it."""

from __future__ import annotations

from kernelscope.analysis.cache_keys import Change, Fixes


class CutileFixes(Fixes):
    """Fixes of kernels of tiles."""

    def constant(self, change: Change) -> str:
        """See `Fixes.constant`."""
        return (f"{self.call} with {change.name}={change.known} every time; or, where the kernel does not need "
                f"`{change.name}` as a constant, annotate it otherwise than with Constant")


FIXES = CutileFixes("cuTile", "launch", "launch it once before it matters; cuTile's disk cache keeps it for the next "
                    "process", "nothing avoids it: new code has to be compiled")
