"""Whether somebody makes graphs where nothing tells of the driver's calls: then health says that they are not seen."""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any

from kernelscope.probes.base import ImportHook, Patches, hide_frame, hook_codes


class UnseenGraphs:
    """Counts graph builders that cuda.core makes.

    Attributes
    ----------
    count : int
        How many were made since recording began.
    """

    def __init__(self) -> None:
        self.count = 0
        self._patches = Patches()
        self._import = ImportHook("cuda.core", self._imported)

    def begin(self) -> None:
        """Count from now on, or from when cuda.core is imported."""
        self._import.arm()

    def end(self) -> None:
        """Count no more."""
        self._import.disarm()
        self._patches.undo()

    def _imported(self, module: ModuleType) -> None:
        device: Any = getattr(module, "Device", None)
        if device is not None and "create_graph_builder" in vars(device):
            self._patches.hook(device, "create_graph_builder", self._counting, lend=False)

    def _counting(self, original: Any) -> Any:
        def create_graph_builder(*args: Any, **kwargs: Any) -> Any:
            self.count += 1
            try:
                return original(*args, **kwargs)
            except BaseException as error:
                hide_frame(error)
                raise

        hook_codes.add(create_graph_builder.__code__)
        return functools.wraps(original)(create_graph_builder)
