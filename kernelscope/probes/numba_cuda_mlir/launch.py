"""The hooks on numba-cuda-mlir's launch path."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kernelscope.probes.base import NativeHooks, Patches, ids
from kernelscope.probes.numba_cuda_mlir.kernels import FRAMEWORK
from kernelscope.probes.sink import Sink

# The hooks on numba-cuda-mlir's launch path are in C (``marshal.c``); here is where they are put, and what they leave
# to Python: what is new, and what fails.
#
# ``_ArgMarshaller.__call__`` begins and ends a launch; users hold these objects, and all launches go through the
# method. ``_ArgMarshaller._launch``, which it calls once the arguments are typed and on the device, names the types.
# What comes then is in numba-cuda-mlir's own C++: the specialization is found there, and the driver called. So of the
# boundaries inside a launch only the return from it is seen; on a GPU, CUPTI's record of the driver call brings the
# others. A launch's slot is written where the launch begins, with its dispatcher and its launch configuration.


class LaunchHooks(NativeHooks):
    """The hooks on the launch path.

    Parameters
    ----------
    sink : Sink
        Where launches go.
    target_of : callable
        ``(marshaller, argument types or None, error or None) -> target id``, asked once for each configured launch,
        without types, and once for each with types.
    configuration_of : callable
        ``(marshaller) -> configuration id``.
    """

    outermost = "marshal"
    most = 1024  # lists of argument types are new ones for launches with host arrays

    def __init__(self, sink: Sink, target_of: Callable[[Any, Any, str | None], int],
                 configuration_of: Callable[[Any], int]) -> None:
        super().__init__(sink)
        self.target_of = target_of
        self.configuration_of = configuration_of
        #: By the native launcher and the ids of the types themselves; the types keep their ids from being used again.
        self._by_types: dict[tuple[Any, ...], tuple[tuple[int, int], Any]] = {}

    def install(self, patches: Patches, descriptor: Any) -> None:
        """Put the hooks in: `descriptor` is the module ``numba_cuda_mlir.descriptor``."""
        patches.put(descriptor._ArgMarshaller, "_launch", self._make("types"))
        patches.put(descriptor._ArgMarshaller, "__call__", self._make("marshal"))

    def disable(self) -> None:
        """Turn the hooks into pass-throughs. See `NativeHooks.disable`."""
        super().disable()
        self._by_types.clear()

    def begin(self, marshaller: Any) -> tuple[int, int] | None:
        """Return the ids of configuration and target of a configured launch that is new, before its types are known.

        None where they cannot be had: the launch is not recorded then.
        """
        return self._begun(FRAMEWORK, marshaller._launcher, lambda: (
            self.configuration_of(marshaller), self.target_of(marshaller, None, None)))

    def end(self, marshaller: Any, types: Any, error: str | None) -> tuple[Any, ...] | None:
        """Return the ids of a launch that has failed, or whose types are new. See `ids`."""
        return ids(FRAMEWORK, self.sink, lambda: self._look(marshaller, types, error))

    def _look(self, marshaller: Any, types: Any, error: str | None) -> tuple[int, int]:
        if error is not None or types is None:
            return self.target_of(marshaller, types, error), self.configuration_of(marshaller)
        # Types are compared by identity: numba-cuda-mlir has one object of each, whose hash costs more than this.
        launcher = marshaller._launcher
        key = (launcher, *map(id, types))
        known = self._by_types.get(key)
        if known is None:
            known = (self.target_of(marshaller, types, None), self.configuration_of(marshaller)), tuple(types)
            if len(self._by_types) >= self.most:
                self._by_types.clear()
            self._by_types[key] = known
        self._know("launches", (launcher, types), *known[0])
        return known[0]
