"""Finds frameworks: each is a folder of `kernelscope.frameworks`, which says what it is in its ``__init__``.

Nothing else names them, so that a folder that is not there is missed by nobody.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Framework:
    """What KernelScope knows of a framework without importing it, or anything that hooks or explains it.

    Attributes
    ----------
    name : str
        What recordings call it, in the column ``framework``.
    module : str
        The module whose import may start CUDA; empty for one that brings its own driver calls through another.
    probe : str
        The class of its probe, as ``module:name``; empty for one that is hooked elsewhere.
    fixes : str
        The `kernelscope.analysis.cache_keys.Fixes` for the reasons of its compiles, as ``module:name``.
    packages : mapping of str to str
        The distributions that it comes in, with what is recorded of it, for ``kernelscope doctor``.
    compiles : bool
        Whether it compiles what the user wrote for the arguments of each call.
    is_seen_by_cupti : bool
        Whether CUPTI alone sees its launches.
    remedies : mapping
        What its users can do, by the names of the tables of `kernelscope.analysis.remedies`.
    """

    name: str
    module: str = ""
    probe: str = ""
    fixes: str = ""
    packages: Mapping[str, str] = field(default_factory=dict[str, str])
    compiles: bool = True
    is_seen_by_cupti: bool = False
    remedies: Mapping[str, Any] = field(default_factory=dict[str, Any])


@functools.cache
def frameworks() -> tuple[Framework, ...]:
    """Return the frameworks that are folders of `kernelscope.frameworks`, in order of the folders' names."""
    package = importlib.import_module("kernelscope.frameworks")
    return tuple(importlib.import_module(f"{package.__name__}.{folder.name}").FRAMEWORK
                 for folder in pkgutil.iter_modules(package.__path__) if folder.ispkg)


def loaded(name: str) -> Any:
    """Return the object called ``module:name``, whose module is imported for it."""
    module, _, attribute = name.partition(":")
    return getattr(importlib.import_module(module), attribute)
