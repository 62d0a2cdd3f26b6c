"""Calls of cuda.compute's algorithms, each a launch: of ``reduce_into`` and the like, and of what factories build.

Since Python 3.12 the calls of the library's own functions run through a hook in C (``algorithm.c``). Python 3.11 does
not let them: there the functions are given the code of a hook in Python, which writes to the same log.
"""

from __future__ import annotations

import contextlib
import inspect
import re
import sys
from collections.abc import Callable
from threading import get_ident
from types import FunctionType, ModuleType
from typing import Any

from kernelscope.native import core
from kernelscope.probes.base import Patches, copy_function, ids, looked_up
from kernelscope.probes.cuda_compute import hot
from kernelscope.probes.sink import Sink
from kernelscope.schema import UNKNOWN

FRAMEWORK = "cuda.compute"
# The classes that are not called as their algorithm is.
_NAMES = {"_Reduce": "reduce_into", "_Histogram": "histogram_even"}
_NOWHERE = float(UNKNOWN)
# Handles of streams: those whose ids are known are bounded.
_MOST_KNOWN = 1024


class Calls:
    """Writes each call as a launch: an algorithm's dispatcher, and a configuration of which the stream is known.

    Parameters
    ----------
    sink : Sink
        Where launches go.
    """

    def __init__(self, sink: Sink) -> None:
        self.sink = sink
        #: Idents of the threads that are in the middle of a call: what it calls itself is part of it.
        self.inside: set[int] = set()
        self._configurations: dict[int, int] = {}

    def install(self, patches: Patches, algorithms: ModuleType, modules: list[ModuleType]) -> int:
        """Hook every algorithm that has a factory, and what factories build; return how many functions were hooked."""
        hooked = 0
        for name in vars(algorithms).get("__all__", ()):
            function = _unwrapped(algorithms, name)
            if f"make_{name}" in vars(algorithms) and _is_plain(function):
                self.hook(patches, function, name)
                hooked += 1
        for module in modules:
            for each in list(vars(module).values()):
                if isinstance(each, type) and each.__module__ == module.__name__:
                    call = _unwrapped(each, "__call__")
                    if _is_plain(call):
                        alone = not each.__subclasses__() and not hasattr(each, "force_inclusive")
                        self.hook(patches, call, _name_of_class(each) if alone else None, method=True)
                        hooked += 1
        return hooked

    def hook(self, patches: Patches, function: FunctionType, name: str | None, *, method: bool = False) -> None:
        """Have calls of `function` written; a `method` without a name has an object that tells the algorithm."""
        if core.TAKES_FUNCTIONS:
            self._take(patches, function, name, method)
        else:
            self._lend(patches, function, name, method)

    def _take(self, patches: Patches, function: FunctionType, name: str | None, method: bool) -> None:
        """Have the function's calls run through a hook in C, which writes a launch where it begins."""

        def begin(built: Any, stream: Any) -> tuple[int, int] | None:
            handle = 0 if stream is None else handle_of(stream)
            found, users = looked_up(FRAMEWORK, self.sink, lambda: self.ids(name or name_of(built), handle))
            if users is not None:
                raise users from None
            if found is not None and handle is not None:
                _know(hook, (name, built), () if stream is None else (handle, 1), found)
            return found

        def end(built: Any, stream: Any, error: str | None) -> tuple[Any, ...] | None:
            handle = 0 if stream is None else handle_of(stream)
            return ids(FRAMEWORK, self.sink, lambda: self.ids(name or name_of(built), handle, error))

        asks = place_of(function, "temp_storage") if method else None
        hook = self.sink.log.hook("algorithm", function, begin, end, _MOST_KNOWN,
                                  (asks, place_of(function, "stream"), method and name is None))
        patches.take(f"{function.__module__}.{function.__qualname__}", hook)

    def _lend(self, patches: Patches, function: FunctionType, name: str | None, method: bool) -> None:
        """Have the function run the code of a hook in Python, which writes a launch where it ends."""
        hook = hot.call_template(function, method=method)
        hook.__kwdefaults__ = {
            **(hook.__kwdefaults__ or {}), "_ks_original": copy_function(function), "_ks_ident": get_ident,
            "_ks_inside": self.inside, "_ks_now": self.sink.seconds, "_ks_write": self._writer(name)}
        patches.lend(function, hook)

    def _writer(self, name: str | None) -> Callable[..., None]:
        """A function that writes one call; what it needs most is local to it."""
        sink, states = self.sink, self.sink.states
        known: dict[str, tuple[int, int]] = {}

        def write(me: int, start: float, end: float | None, stream: Any, built: Any) -> None:
            try:
                if end is not None and stream is None:
                    target, configuration = known[name or name_of(built)]
                    state = states[me]
                    under_way = state.launch_config
                    state.write(start, _NOWHERE, _NOWHERE, _NOWHERE, end, target, configuration)
                    state.launch_config = under_way
                    return
            except KeyError:  # the first of its algorithm, or of its thread
                pass
            except Exception as problem:
                sink.swallow(FRAMEWORK, problem)
            self._write_slowly(name, known, start, end, stream, built)

        return write

    def _write_slowly(self, name: str | None, known: dict[str, tuple[int, int]], start: float, end: float | None,
                      stream: Any, built: Any) -> None:
        """Write a call that failed, is on a stream, or is the first of its algorithm."""
        try:
            name = name or name_of(built)
            error = None
            if end is None:
                end = self.sink.seconds()
                raised = sys.exception()
                error = None if raised is None else type(raised).__name__
            target, configuration = self.ids(name, 0 if stream is None else handle_of(stream), error)
            if error is None and stream is None:
                known[name] = target, configuration
            state = self.sink.state()
            under_way = state.launch_config  # of a launch around this one, which `write` would take for written
            try:
                state.write(start, _NOWHERE, _NOWHERE, _NOWHERE, end, target, configuration)
            finally:
                state.launch_config = under_way
        except Exception as problem:
            self.sink.swallow(FRAMEWORK, problem)
            self.sink.dropped[FRAMEWORK] += 1

    def ids(self, name: str, stream: int | None, error: str | None = None) -> tuple[int, int]:
        """Return the target and the configuration of a call, on the stream with this handle."""
        return self.sink.target(self.dispatcher(name), error=error), self._configuration(stream)

    def dispatcher(self, name: str) -> int:
        """Return the row of an algorithm."""
        return self.sink.dispatchers.intern((FRAMEWORK, name), lambda: {"framework": FRAMEWORK, "name": name})

    def _configuration(self, stream: int | None) -> int:
        known = self._configurations.get(-1 if stream is None else stream)
        if known is None:
            known = self.sink.configuration(None, None, None, stream)
            self._configurations[-1 if stream is None else stream] = known
        return known


def _know(hook: Any, called: tuple[str | None, Any], words: tuple[int, ...], found: tuple[int, int]) -> None:
    """Have a hook know a call's ids: by the object's class and what makes it one algorithm or another."""
    name, built = called
    inclusive = None if name is not None else getattr(built, "force_inclusive", None)
    if inclusive is None or isinstance(inclusive, bool):
        kind = type(built) if name is None else hook.original
        with contextlib.suppress(TypeError):  # a handle that is none
            hook.know("launches", (kind, inclusive, *words), *found)


def place_of(function: FunctionType, name: str) -> int | None:
    """Return the place of a parameter among the arguments, -1 for one that is given by name only, or None."""
    code = function.__code__
    names = code.co_varnames[:code.co_argcount + code.co_kwonlyargcount]
    if name not in names:
        return None
    place = names.index(name)
    return place if place < code.co_argcount else -1


def name_of(built: Any) -> str:
    """Return the algorithm of what a factory has built."""
    inclusive = getattr(built, "force_inclusive", None)
    if inclusive is not None:
        return "inclusive_scan" if inclusive else "exclusive_scan"
    return _names.get(type(built)) or _name_of_class(type(built))


_names: dict[type, str] = {}


def _name_of_class(cls: type) -> str:
    name = _NAMES.get(cls.__name__) or re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", cls.__name__.strip("_")).lower()
    if cls.__module__.startswith("cuda.compute."):  # few, and there for good
        _names[cls] = name
    return name


def handle_of(stream: Any) -> int | None:
    """Return the handle of a stream; None for what is none, which the library refuses."""
    try:
        return int(stream.__cuda_stream__()[1])
    except Exception:
        return None


def _unwrapped(owner: Any, name: str) -> Any:
    """What `owner` itself has by that name, without the wrappers of others around it."""
    found = vars(owner).get(name)
    return None if found is None else inspect.unwrap(found)


def _is_plain(function: Any) -> bool:
    return isinstance(function, FunctionType) and function.__closure__ is None
