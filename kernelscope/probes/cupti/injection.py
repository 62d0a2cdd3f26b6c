"""Having NVTX's C interface, which torch, cupy and others call, report its ranges to CUPTI.

NVTX looks for a tool once in each library that has it built in, at its first call there. What calls it for the first
time while a recording lasts is seen then, and in later recordings; what did before is not. Ranges that Python's
``nvtx`` makes are recorded in Python, where nothing depends on who was first.
"""

from __future__ import annotations

import os

_VARIABLE = "NVTX_INJECTION64_PATH"


class NvtxInjection:
    """Names CUPTI as NVTX's tool in this process's environment; whatever is named there already stays."""

    def __init__(self) -> None:
        self._ours: str | None = None

    def offer(self, path: str) -> None:
        """Name the CUPTI library at `path`, which must be the one that records."""
        if _VARIABLE not in os.environ:
            os.environ[_VARIABLE] = self._ours = path

    def withdraw(self) -> None:
        """Take the name away again, if it is still ours; libraries that found it keep it."""
        if self._ours is not None and os.environ.get(_VARIABLE) == self._ours:
            del os.environ[_VARIABLE]
        self._ours = None
