"""JAX's profiler, which has CUPTI for itself while it runs, and gives it back."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from kernelscope.probes.base import ImportHook, Patches

_MODULE = "jax._src.profiler"
_STARTS, _STOPS = "start_trace", ("stop_trace", "stop_and_get_fdo_profile")

# XLA subscribes to CUPTI when a trace starts. Where somebody else has it, XLA goes on without the GPU's side and says
# so on stderr only: so we leave before. What a client of `jax.profiler.start_server` asks for starts in C++, unseen.


class XlaProfilerWatch:
    """Calls back when JAX's profiler is about to start, and when it has stopped.

    Parameters
    ----------
    starts, stopped : callable
        Called without arguments, in the thread of the profiler; their exceptions do not reach the user.
    """

    def __init__(self, starts: Callable[[], None], stopped: Callable[[], None]) -> None:
        self._starts, self._stopped = starts, stopped
        self._patches = Patches()
        self._hook = ImportHook(_MODULE, self._imported)

    def begin(self) -> None:
        """Watch JAX's profiler, from its import on where it is not imported yet."""
        self._hook.arm()

    def end(self) -> None:
        """Watch no more."""
        self._hook.disarm()
        self._patches.undo()

    def _imported(self, module: ModuleType) -> None:
        starts, stopped = self._starts, self._stopped

        def make_start(original: Any) -> Any:
            def start(*args: Any, **kwargs: Any) -> Any:
                starts()
                try:
                    return original(*args, **kwargs)
                finally:
                    if not is_running():  # it refused
                        stopped()

            return start

        def make_stop(original: Any) -> Any:
            def stop(*args: Any, **kwargs: Any) -> Any:
                try:
                    return original(*args, **kwargs)
                finally:
                    if not is_running():
                        stopped()

            return stop

        self._patches.hook_all([(module, _STARTS, make_start), *((module, name, make_stop) for name in _STOPS)])


def is_running() -> bool:
    """Return whether a trace of JAX's profiler is under way in this process."""
    state = getattr(sys.modules.get(_MODULE), "_profile_state", None)
    return getattr(state, "profile_session", None) is not None
