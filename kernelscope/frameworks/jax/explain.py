"""Why JAX compiled, and what avoids it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kernelscope.analysis.cache_keys import Change, Fixes

_EAGER = ("call it inside of a function that is jitted: outside, JAX compiles each operation by itself, once for each "
          "type and parameter")


class JaxFixes(Fixes):
    """Fixes of jitted functions; an operation that was called outside of one has a single fix for every reason."""

    def again(self, attributes: Mapping[str, Any]) -> str:
        """See `Fixes.again`."""
        return "the same was compiled before: JAX's caches were cleared or are full, or its configuration has changed"

    def keep(self, attributes: Mapping[str, Any]) -> str:
        """See `Fixes.keep`."""
        return "clear no caches, and set jax.config once, before the first call"

    def of_library(self, code: str, attributes: Mapping[str, Any]) -> str:
        """See `Fixes.of_library`."""
        return _EAGER

    def of_all(self, specialization: Mapping[str, Any]) -> str | None:
        """See `Fixes.of_all`."""
        return _EAGER if specialization.get("primitive") else None

    def constant(self, change: Change) -> str:
        """See `Fixes.constant`."""
        return (f"{self.call} it with {change.name}={change.known} every time; or, where its value does not decide "
                f"about the code, pass `{change.name}` as an argument that is not static")

    def option(self, change: Change) -> str:
        """See `Fixes.option`."""
        return f"jit the function with {change.name}={change.known} every time, or keep one function for each"

    def gone(self, change: Change) -> str:
        """See `Fixes.gone`."""
        return f"pass the same keys and items in every {self.call}"


FIXES = JaxFixes("JAX", "call", "call it once before it matters; with jax_compilation_cache_dir the next process finds "
                 "it", "nothing avoids it: new code has to be compiled")
