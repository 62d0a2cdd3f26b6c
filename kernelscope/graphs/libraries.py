"""The libraries that graphs are made with, imported when they are first needed."""

from __future__ import annotations

import functools
import importlib
from typing import Any

from kernelscope.errors import GraphError


# Neither has types that a checker could follow, and their names move between versions: both are Any here.
@functools.cache
def core() -> Any:
    """Return the module ``cuda.core``."""
    return importlib.import_module("cuda.core")


@functools.cache
def driver() -> Any:
    """Return the module ``cuda.bindings.driver``."""
    return importlib.import_module("cuda.bindings.driver")


def require_cuda() -> None:
    """Refuse the CUDA simulator, which has no graphs.

    Raises
    ------
    GraphError
        numba runs kernels in its simulator.
    """
    if importlib.import_module("numba.core.config").ENABLE_CUDASIM:
        raise GraphError("the CUDA simulator has no graphs: unset NUMBA_ENABLE_CUDASIM")


@functools.cache
def numba_module(name: str) -> Any:
    """Return a module of numba-cuda: ``numba_module("dispatcher")`` is ``numba.cuda.dispatcher``."""
    return importlib.import_module(f"numba.cuda.{name}")
