"""Why Warp compiled a module, and what avoids it."""

from __future__ import annotations

from kernelscope.analysis.cache_keys import Change, Fixes

_CODE = ('nothing avoids it: new code has to be compiled; @wp.kernel(module="unique") leaves the other kernels of the '
         "module alone")


class WarpFixes(Fixes):
    """Fixes of modules, whose kernels are compiled together."""

    def kernel(self, change: Change) -> str:
        """See `Fixes.kernel`."""
        name = change.name
        return {"types": f"declare all types before the first launch: wp.overload({name}, [...]) for each",
                "added": f"define `{name}` before the first launch, or in a module of its own: "
                         '@wp.kernel(module="unique")',
                "gone": "keep the kernels of the module"}.get(change.aspect, _CODE)

    def constant(self, change: Change) -> str:
        """See `Fixes.constant`."""
        return (f"keep `{change.name}` at {change.known}; or pass it to the kernel as an argument, which needs no "
                "compile")

    def option(self, change: Change) -> str:
        """See `Fixes.option`."""
        if change.name == "block_dim":
            return f"launch with block_dim={change.known} every time"
        return f"set {change.name}={change.known} once, before the first launch"


FIXES = WarpFixes("Warp", "launch", "wp.load_module() before it matters; Warp's kernel cache keeps it for the next "
                  "process", "nothing avoids it: new code has to be compiled")
