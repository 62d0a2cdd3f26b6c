"""Modules that are imported later: what is called when an import ends, and leaves no trace in the module.

The import system takes a lock of the module's name for as long as the module is imported, and asks every finder in
``sys.meta_path`` meanwhile. A finder of ours finds nothing: it has the lock's release call back. So specs, loaders and
modules are those of before, no frame of ours is below the module's code, and who only looks for a module
(`importlib.util.find_spec`) takes no lock and is given what is there.
"""

from __future__ import annotations

import _frozen_importlib
import importlib.util
import sys
from collections.abc import Callable
from threading import get_ident
from types import ModuleType
from typing import Any

#: For the name of each module that is being imported a weak reference to its lock.
_locks: dict[str, Callable[[], Any]] = vars(_frozen_importlib)["_module_locks"]
#: The type of a module that `importlib.util.LazyLoader` loads at the first use of an attribute.
LazyModule: type[ModuleType] = vars(importlib.util)["_LazyModule"]


def namespace_of(module: ModuleType) -> dict[str, Any]:
    """Return a module's namespace; a module that is loaded at the first use of an attribute stays unloaded."""
    return object.__getattribute__(module, "__dict__")


def imported(name: str) -> Any:
    """Return what stands in ``sys.modules`` under a name; None where that has not been loaded, or not to its end."""
    module: Any = sys.modules.get(name)
    if not issubclass(type(module), ModuleType):  # `isinstance` asks the module itself
        return module
    if type(module) is LazyModule or getattr(namespace_of(module).get("__spec__"), "_initializing", False):
        return None
    return module


def call_after_import(name: str, callback: Callable[[str, Any], None]) -> None:
    """Have `callback` called once when the import that is under way has ended, if it succeeds.

    Parameters
    ----------
    name : str
        The module's full name. Where no thread imports it, nothing happens.
    callback : callable
        Called with the name and the module in the importing thread, before other threads that import it go on.
    """
    lock = _locks.get(name, lambda: None)()
    if lock is None:
        return
    release = vars(lock).setdefault("release", _Release(lock, name))
    if callback not in release.callbacks:
        release.callbacks.append(callback)


class _Release:
    """Stands in for the method ``release`` of one module's lock, which lives as long as the import."""

    def __init__(self, lock: Any, name: str) -> None:
        self._lock = lock
        self._name = name
        self._release: Callable[[], None] = lock.release
        self.callbacks: list[Callable[[str, Any], None]] = []

    def __call__(self) -> None:
        try:
            module = imported(self._name)
            while module is not None and self.callbacks:
                self.callbacks.pop(0)(self._name, module)
        finally:
            self._release()
            if self._lock.owner != get_ident():  # else an import of the module within its own import has ended
                vars(self._lock).pop("release", None)
