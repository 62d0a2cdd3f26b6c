"""The native hooks on calls of cuda.compute's algorithms and on its factories, in C: ``algorithm.c``.

They take over the calls of the library's own functions, which CPython lets them since 3.12. With Python 3.11 the hooks
of `kernelscope.probes.cuda_compute.calls` and `requests` write to the native recorder's log too, call by call.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from types import FunctionType
from typing import Any

from kernelscope.native import core
from kernelscope.probes.base import Patches, ids, looked_up
from kernelscope.probes.cuda_compute.calls import FRAMEWORK, Calls, handle_of, name_of
from kernelscope.probes.cuda_compute.requests import Requests
from kernelscope.probes.sink import Sink

# Handles of streams: those whose ids are known are bounded.
_MOST_KNOWN = 1024


def takes_calls(sink: Sink) -> bool:
    """Whether the hooks of this module are those for the sink's log and this Python."""
    return core is not None and core.TAKES_FUNCTIONS and sink.log.backend == "native"


class NativeCalls(Calls):
    """Writes each call as a launch, where it begins. See `Calls`."""

    def hook(self, patches: Patches, function: FunctionType, name: str | None, *, method: bool = False) -> None:
        """Have calls of `function` written; a `method` without a name has an object that tells the algorithm."""

        def begin(built: Any, stream: Any) -> tuple[int, int] | None:
            handle = 0 if stream is None else handle_of(stream)
            found, users = looked_up(FRAMEWORK, self.sink, lambda: self.ids(name or name_of(built), handle))
            if users is not None:
                raise users from None
            if found is not None and handle is not None:
                self._know(hook, (name, built), () if stream is None else (handle, 1), found)
            return found

        def end(built: Any, stream: Any, error: str | None) -> tuple[Any, ...] | None:
            handle = 0 if stream is None else handle_of(stream)
            return ids(FRAMEWORK, self.sink, lambda: self.ids(name or name_of(built), handle, error))

        log: Any = self.sink.log
        asks = place_of(function, "temp_storage") if method else None
        hook = log.hook("algorithm", function, begin, end, _MOST_KNOWN,
                        (asks, place_of(function, "stream"), method and name is None))
        patches.take(f"{function.__module__}.{function.__qualname__}", hook)

    def _know(self, hook: Any, called: tuple[str | None, Any], words: tuple[int, ...], found: tuple[int, int]) -> None:
        """Have the hook know a call's ids: by the object's class and what makes it one algorithm or another."""
        name, built = called
        inclusive = None if name is not None else getattr(built, "force_inclusive", None)
        if inclusive is None or isinstance(inclusive, bool):
            kind = type(built) if name is None else hook.original
            with contextlib.suppress(TypeError):  # a handle that is none
                hook.know("launches", (kind, inclusive, *words), *found)


class NativeRequests(Requests):
    """Writes a row for each request. See `Requests`."""

    def _put(self, patches: Patches, factory: FunctionType, copy: FunctionType, settle: Callable[..., None],
             failed: Callable[..., None]) -> None:
        log: Any = self.sink.log
        tools = copy, self.known, self.sink.builds.append
        patches.take(f"{factory.__module__}.{factory.__qualname__}",
                     log.hook("request", factory, settle, failed, tools=tools))


def place_of(function: FunctionType, name: str) -> int | None:
    """Return the place of a parameter among the arguments, -1 for one that is given by name only, or None."""
    code = function.__code__
    names = code.co_varnames[:code.co_argcount + code.co_kwonlyargcount]
    if name not in names:
        return None
    place = names.index(name)
    return place if place < code.co_argcount else -1
