"""Functions that cannot lend their code, such as compiled ones: replaced wherever a name is bound to them.

``from library import launch`` copies a reference, so that replacing ``library.launch`` alone would miss it. Here every
namespace, closure and ``functools.partial`` that holds the function is given the hook instead, and gets the function
back. What holds it otherwise (a local variable of a running function, a tuple, an attribute of a slotted object) goes
on calling it.
"""

from __future__ import annotations

import functools
import gc
import sys
from collections.abc import Callable
from types import CellType, ModuleType
from typing import Any

from kernelscope._native import core
from kernelscope.probes.base import hook_codes

#: The attribute of a hook that names what it stands for.
_ORIGINAL = "_kernelscope_original"
#: Modules whose namespaces, and copies of them, are hooks' own.
_OUR_PROBES = "kernelscope.probes."


Place = tuple[Any, str]


class Bindings:
    """One function, replaced by a hook for a while.

    A search for what holds a function looks at every object that the garbage collector knows: 10 ms in a small process,
    100 ms in a large one. So the places are remembered, and are looked for again only where the function's reference
    count says that something has changed.

    Parameters
    ----------
    function : callable
        The function.
    hook : function
        What is called instead.
    kept : callable
        Given a namespace, returns whether it keeps the function: another probe records what it calls.
    """

    def __init__(self, function: Any, hook: Any, kept: Callable[[dict[str, Any]], bool] = lambda _: False) -> None:
        self._function = function
        self._hook = hook
        self._kept = kept
        self._own = {id(hook), *map(id, hook.__closure__ or ())}
        self._places: list[Place] = []
        self._left: list[Place] = []
        self._count = 0
        setattr(hook, _ORIGINAL, function)

    def put(self) -> None:
        """Replace the function by the hook everywhere."""
        known = _remembered.get(id(self._function))
        if known is not None and known[0] == sys.getrefcount(self._function) and _hold(self._function, known[1]):
            places = known[1]
        else:
            places = _search(self._function)
        # A native hook holds the function itself: kept among the places, it would be counted below.
        places = [place for place in places if id(place[0]) not in self._own]
        for place in places:
            if isinstance(place[0], dict) and self._kept(place[0]):
                self._left.append(place)
                continue
            self._places.append(place)  # before: what a Ctrl-C interrupts is taken back too
            _bind(place, self._hook)
        self._count = sys.getrefcount(self._hook)

    def take_back(self) -> None:
        """Replace the hook by the function everywhere, also where it was bound to a name meanwhile."""
        places = self._places
        if sys.getrefcount(self._hook) != self._count or not _hold(self._hook, places):
            places = _search(self._hook)
        for place in places:
            _bind(place, self._function)
        places = places + self._left  # which another recording may not keep
        self._places, self._left = [], []
        # Closures and namespaces of modules only: what others hold would be kept alive for it.
        modules = _namespaces()
        if all(id(holder) in modules or isinstance(holder, CellType) for holder, _ in places):
            _remembered[id(self._function)] = sys.getrefcount(self._function), places
        else:
            _remembered.pop(id(self._function), None)


#: For a function's id its reference count after a hook was taken back, and the places that held it.
_remembered: dict[int, tuple[int, list[Place]]] = {}


def without_hook(function: Any) -> Any:
    """Return what a hook stands for; any other function as it is, also one that was given a hook's attributes."""
    native = core is not None and isinstance(function, core.Hook)
    if native or getattr(function, "__code__", None) in hook_codes:
        return getattr(function, _ORIGINAL, function)
    return function


def _search(function: Any) -> list[Place]:
    """Each namespace with the name, each closure's cell, each partial and each earlier hook that holds a function."""
    modules = _namespaces()
    found: list[Place] = []
    for holder in gc.get_referrers(function):
        if isinstance(holder, dict):
            ours = str(holder.get("__name__")).startswith(_OUR_PROBES)
            if (id(holder) in modules or "__builtins__" in holder) and not ours:
                found += [(holder, name) for name, value in list(holder.items()) if value is function]
        elif isinstance(holder, CellType) or type(holder) is functools.partial or _is_hook(holder, function):
            found.append((holder, ""))
    return found


def _is_hook(holder: Any, function: Any) -> bool:
    """Whether it is a native hook that `Bindings` has put in, of a recording that somebody has kept it from."""
    if core is None or not isinstance(holder, core.Hook) or _ORIGINAL not in vars(holder):
        return False
    original = vars(holder)[_ORIGINAL]
    return original is function or original is getattr(function, _ORIGINAL, None)


def _namespaces() -> set[int]:
    """Identities of the modules' namespaces; anything may stand in `sys.modules`."""
    found: list[Any] = list(sys.modules.values())
    return {id(vars(module)) for module in found if isinstance(module, ModuleType)}


def _hold(function: Any, places: list[Place]) -> bool:
    return all(_bound(place) is function for place in places)


def _bound(place: Place) -> Any:
    holder, name = place
    if isinstance(holder, dict):
        return holder.get(name)
    if isinstance(holder, CellType):
        return holder.cell_contents
    return holder.func if isinstance(holder, functools.partial) else holder.original


def _bind(place: Place, function: Any) -> None:
    holder, name = place
    if isinstance(holder, dict):
        holder[name] = function
    elif isinstance(holder, CellType):
        holder.cell_contents = function
    elif core is not None and isinstance(holder, core.Hook):
        holder.original = function
    else:
        holder.__setstate__((function, holder.args, holder.keywords, holder.__dict__ or None))
