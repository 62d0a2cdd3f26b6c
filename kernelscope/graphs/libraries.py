"""The libraries that graphs are made with, imported when they are first needed."""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
from collections.abc import Sequence
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


def require_names(owner: Any, names: Sequence[str]) -> None:
    """Refuse a version of numba-cuda that lacks what is needed of it.

    Raises
    ------
    GraphError
        `owner` has not all of the attributes `names`.
    """
    missing = [name for name in names if not hasattr(owner, name)]
    if missing:
        version = importlib.metadata.version("numba-cuda")
        raise GraphError(f"numba-cuda {version} has no {missing[0]}, which graphs need; numba-cuda 0.30.4 was tried")


@functools.cache
def numba_module(name: str) -> Any:
    """Return a module of numba-cuda: ``numba_module("dispatcher")`` is ``numba.cuda.dispatcher``."""
    return importlib.import_module(f"numba.cuda.{name}")
