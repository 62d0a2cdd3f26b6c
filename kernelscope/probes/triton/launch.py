"""Where the hooks on Triton's launch path are put, and what they ask."""

from __future__ import annotations

import contextlib
import gc
import inspect
from types import CodeType
from typing import Any

from kernelscope.probes.base import NativeHooks, Patches, ids, looked_up
from kernelscope.probes.sink import Sink
from kernelscope.probes.triton.kernels import FRAMEWORK, KernelRows
from kernelscope.schema import UNKNOWN

# The hooks on Triton's launch path are in C (``triton.c``); here is where they are put, and what they leave to Python:
# what is new, and what fails.
#
# ``JITFunction.run`` begins and ends a launch; ``kernel[grid](...)``, the autotuner and heuristics all end in it.
# ``CudaLauncher.__call__``, which it calls with the grid that it has evaluated, ends its dispatch and is its submit:
# marshalling is a part of that. Compiled kernels that are launched without ``run`` (``compiled[grid](...)``, torch's
# inductor) call the launcher alone, and are launches of their own. A launch's slot is written where the launch begins,
# with its kernel function.

#: What was launched: Triton's launcher, the grid, and the stream's handle.
Launched = tuple[Any, Any, Any, Any, Any]


class LaunchHooks(NativeHooks):
    """The hooks on the launch path.

    Parameters
    ----------
    sink : Sink
        Where launches go.
    rows : KernelRows
        Makes the rows of kernels and specializations.

    Attributes
    ----------
    has_launched : bool
        Whether anything was launched.
    run_code : CodeType
        The code of Triton's own ``JITFunction.run``, by which its frames are found.
    """

    outermost = "run"
    most = 4096  # launchers hold no argument and no machine code

    def __init__(self, sink: Sink, rows: KernelRows) -> None:
        super().__init__(sink)
        self.has_launched = False
        self.run_code: CodeType
        self._rows = rows
        #: By launcher, the target of what it launches, and the threads and memory of a block.
        self._kernels: dict[Any, tuple[int, tuple[Any, ...]]] = {}

    def install(self, patches: Patches, function: Any, launcher: Any) -> None:
        """Put the hooks in: into the classes ``JITFunction`` and ``CudaLauncher``."""
        self.run_code = inspect.unwrap(vars(function)["run"]).__code__
        patches.put(launcher, "__call__", self._make("launcher", self.begin_alone))
        patches.put(function, "run", self._make("run"))

    def disable(self) -> None:
        """Turn the hooks into pass-throughs. See `NativeHooks.disable`."""
        super().disable()
        self._kernels.clear()

    def begin(self, function: Any) -> tuple[int, int] | None:
        """Return the id of a target of a kernel function that is new; no configuration is known before the grid is.

        None where it cannot be had: the launch is not recorded then.
        """
        return self._begun(FRAMEWORK, function, lambda: (self._rows.target(function, None, None), UNKNOWN))

    def begin_alone(self, *launched: Any) -> tuple[int, int] | None:
        """Return the ids of what a launcher is called with by itself; None where they cannot be had."""
        found, users = looked_up(FRAMEWORK, self.sink, lambda: self._look_alone(launched))
        if users is not None:
            raise users from None
        return found

    def end(self, function: Any, kernel: Any, launched: Any, error: str | None) -> tuple[Any, ...] | None:
        """Return the ids of a launch that has failed, or of something new; None where nothing was launched. See `ids`.

        Parameters
        ----------
        function : JITFunction or None
            What was called; None for a launcher alone.
        kernel : CompiledKernel or None
            What that has returned.
        launched : tuple or None
            `Launched`, or the ids of target and configuration where they are known; None where no launcher was called.
        error : str or None
            The name of the class of what was raised.
        """
        return ids(FRAMEWORK, self.sink, lambda: self._look(function, kernel, launched, error))

    def _look(self, function: Any, kernel: Any, launched: Any, error: str | None) -> tuple[int, int] | None:
        if launched is None and kernel is None and error is None:  # a hook of the user's kept it from being compiled
            return None
        if launched is not None and len(launched) != 2:
            kernel = _kernel_of(launched[0]) if kernel is None else kernel
            launched = None if kernel is None else self._remember(launched, function, kernel)
        if launched is None:  # it failed before; or the driver has a launcher of its own
            compiled = None if kernel is None else self._rows.compiled(kernel)
            return self._rows.target(function, compiled, error), self.sink.configuration(None, None, None, None)
        target, configuration = launched
        if error is not None:
            row = self.sink.targets.rows[target]
            target = self.sink.target(row["dispatcher_id"], row["specialization_id"], row["device_id"], error)
        return target, configuration

    def _look_alone(self, launched: Launched) -> tuple[int, int] | None:
        kernel = _kernel_of(launched[0])
        if kernel is None:
            self.sink.dropped[FRAMEWORK] += 1
            return None
        return self._remember(launched, self._rows.function_of(kernel), kernel)

    def _remember(self, launched: Launched, function: Any, kernel: Any) -> tuple[int, int]:
        launcher, x, y, z, stream = launched
        held = self._kernels.get(launcher)
        if held is None:
            kernel = self._rows.compiled(kernel)
            held = self._rows.target(function, kernel, None), self._rows.shape(kernel)
            if len(self._kernels) >= self.most:
                self._kernels.clear()
            self._kernels[launcher] = held
        target, (block, shared, cluster) = held
        try:
            grid = (int(x), int(y), int(z))
        except (TypeError, ValueError):  # the launch fails of it
            grid = None
        configuration = self.sink.configuration(grid, (block,), shared, int(stream or 0), cluster)
        with contextlib.suppress(TypeError):  # such as a dimension that is no plain number: it is looked up each time
            self._know("launches", (launcher, None, x, y, z, stream), target, configuration, kind="launcher")
        self.has_launched = True
        return target, configuration


def _kernel_of(launcher: Any) -> Any:
    """Return the compiled kernel that holds a launcher, which does not tell: once for each that is launched alone."""
    for holder in gc.get_referrers(launcher):
        owners = [holder, *gc.get_referrers(holder)] if isinstance(holder, dict) else [holder]
        for each in owners:
            if type(each).__name__ == "CompiledKernel":
                return each
    return None
