"""The native hooks on numba-cuda's launch path, and what they leave to Python: what is new, and what fails.

They hook what `kernelscope.probes.numba_cuda.launch` hooks, with callables in C (``launch.c`` of the native
recorder). A launch's slot is written where the launch begins, with its kernel and its launch configuration, so that a
recording whose process dies has it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kernelscope.probes.base import Patches
from kernelscope.probes.numba_cuda.events import EventTimer
from kernelscope.probes.settling import ids, looked_up
from kernelscope.probes.sink import Sink

_PROBE = "numba-cuda"
# A launch configuration object may live for one launch only: those that are known, and held, are bounded.
_MOST_CONFIGURATIONS = 1024


class NativeLaunchHooks:
    """The hooks on the launch path, in C. See `LaunchHooks`, which has the same methods.

    Parameters
    ----------
    sink : Sink
        Where launches go: its log is a `NativeLog`.
    target_of : callable
        ``(dispatcher, kernel or None, error or None) -> target id``, asked once a kernel, and once a launch
        configuration without a kernel.
    configuration_of : callable
        ``(launch configuration) -> configuration id``, asked once an object.
    timer : EventTimer, optional
        Stands around the driver call.
    """

    def __init__(self, sink: Sink, target_of: Callable[[Any, Any, str | None], int],
                 configuration_of: Callable[[Any], int], timer: EventTimer | None = None) -> None:
        self.sink = sink
        self.enabled = True
        self.target_of = target_of
        self.configuration_of = configuration_of
        self.timer = timer
        self._hooks: dict[str, Any] = {}

    def install(self, patches: Patches, dispatcher: Any) -> None:
        """Put the hooks in: `dispatcher` is the module ``numba.cuda.dispatcher``."""
        patches.put(dispatcher.CUDADispatcher, "call", self._make("call"))
        patches.put(dispatcher.CUDADispatcher, "_update_launch_config_sensitivity", self._make("found"))
        if self.sink.detail == "phases":
            patches.put(dispatcher, "launch", self._make("submit"), take=self.timer is None)
        elif self.timer is not None:
            patches.hook(dispatcher, "launch", self.timer.around, lend=False)

    def install_load(self, patches: Patches, library: Any) -> None:
        """Put the hook in that tells devices apart: `library` is ``CUDACodeLibrary``."""
        patches.put(library, "get_cufunc", self._make("load"))

    def release(self) -> None:
        """Do nothing: threads that are in the middle of a hook hold it themselves."""

    def disable(self) -> None:
        """Turn the hooks into pass-throughs, for wrappers that were put over them, and let go of what they hold."""
        self.enabled = False
        for hook in self._hooks.values():
            hook.is_enabled = False
            hook.forget()
        self._hooks = {}  # they hold this: what they stand for is let go of now, not when garbage is collected

    def begin(self, dispatcher: Any, launch_config: Any) -> tuple[int, int] | None:
        """Return the ids of a launch configuration that is new and of the kernel as far as it is known.

        None where they cannot be had: the launch is not recorded then.
        """
        found, users = looked_up(_PROBE, self.sink, lambda: (
            self.configuration_of(launch_config), self.target_of(dispatcher, None, None)))
        if users is not None:
            raise users from None
        if found is not None:
            self._know("configurations", launch_config, *found)
        return found

    def end(self, dispatcher: Any, kernel: Any, launch_config: Any, error: str | None) -> tuple[Any, ...] | None:
        """Return the ids of a launch that has failed, or whose kernel is new; None where they cannot be had.

        What the user's signal handler raised meanwhile is a third value.
        """
        found = ids(_PROBE, self.sink, lambda: (
            self.target_of(dispatcher, kernel, error), self.configuration_of(launch_config)))
        if found is not None and error is None and kernel is not None and (
                "load" not in self._hooks or hasattr(kernel, "kernel")):
            self._know("targets", kernel, found[0], 0)
        return found

    def _know(self, table: str, key: Any, first: int, second: int) -> None:
        hook = self._hooks.get("call")
        if hook is not None:  # else the recording ended while this launch was under way
            hook.know(table, key, first, second)

    def _make(self, kind: str) -> Callable[[Any], Any]:
        def make(original: Any) -> Any:
            if kind == "submit" and self.timer is not None:
                original = self.timer.around(original)
            log: Any = self.sink.log
            self._hooks[kind] = log.hook(kind, original, self.begin, self.end, _MOST_CONFIGURATIONS)
            return self._hooks[kind]

        return make
