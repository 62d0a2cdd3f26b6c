"""Standing aside for torch.profiler.

CUPTI has one client a process. Where torch's profiler starts for the first time and finds us there it gets no GPU
events, then and until the process ends (seen with torch 2.11): so we let go before it starts.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from kernelscope.probes.base import ImportHook, Patches

_MODULE = "torch.autograd.profiler"


class TorchProfilerWatch:
    """Calls back when torch's profiler is about to start.

    Parameters
    ----------
    callback : callable
        Called without arguments, in the thread of the profiler; its exceptions do not reach the user.
    """

    def __init__(self, callback: Callable[[], None]) -> None:
        self._callback = callback
        self._patches = Patches()
        self._hook = ImportHook(_MODULE, self._imported)

    def begin(self) -> None:
        """Watch torch's profiler, from its import on where it is not imported yet."""
        self._hook.arm()

    def end(self) -> None:
        """Watch no more."""
        self._hook.disarm()
        self._patches.undo()

    def _imported(self, module: ModuleType) -> None:
        profile: Any = getattr(module, "profile", None)
        if profile is None or "_prepare_trace" not in vars(profile):
            return  # another torch: its profiler and our recording are then in each other's way, as without this

        def make(original: Any) -> Any:
            callback = self._callback

            def prepare(*args: Any, **kwargs: Any) -> Any:
                callback()
                return original(*args, **kwargs)

            return prepare

        self._patches.hook(profile, "_prepare_trace", make)
