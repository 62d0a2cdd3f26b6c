"""The hooks on Triton's launch path."""

from __future__ import annotations

import gc
import inspect
from threading import get_ident
from types import CodeType, FunctionType
from typing import Any

from kernelscope.native.log import ThreadState, from_signal_handler
from kernelscope.probes.base import Patches, copy_function
from kernelscope.probes.sink import Sink
from kernelscope.probes.triton.kernels import FRAMEWORK, KernelRows
from kernelscope.schema import UNKNOWN

# What Triton's functions do while they are recorded.
#
# ``JITFunction.run`` begins and ends a launch; ``kernel[grid](...)``, the autotuner and heuristics all end in it.
# ``CudaLauncher.__call__``, which it calls with the grid that it has evaluated, ends its dispatch and is its submit:
# marshalling is a part of that. Compiled kernels that are launched without ``run`` (``compiled[grid](...)``, torch's
# inductor) call the launcher alone, and are launches of their own.
#
# `run` and `launch` are templates: Triton's own functions run their code, with `LaunchHooks` as a keyword's default and
# with Triton's globals. They hand on what they were given as it is, and look at no argument of the kernel.


def run(*args: Any, _kernelscope: Any = None, **kwargs: Any) -> Any:
    """In place of ``JITFunction.run``: one launch."""
    hooks = _kernelscope
    if not hooks.enabled or kwargs.get("warmup", True):
        try:
            return hooks.original_run(*args, **kwargs)
        except BaseException as error:
            error.__traceback__ = error.__traceback__.tb_next  # type: ignore[union-attr]
            raise
    try:
        state = hooks.states[hooks.ident()]
    except KeyError:
        state = hooks.new_state()
    outer = state.kernel
    state.kernel = hooks.inside
    start = hooks.now()
    try:
        result = hooks.original_run(*args, **kwargs)
    except BaseException as error:
        hooks.failed(state, args[0], start, error)
        state.kernel = outer
        error.__traceback__ = error.__traceback__.tb_next  # type: ignore[union-attr]
        raise
    end = hooks.now()
    launched = state.kernel
    state.kernel = outer
    try:
        ids = hooks.known.get(launched)
        if ids is None:
            ids = hooks.first(args[0], result, launched)
            if ids is None:
                return result
        if hooks.phases and launched is not hooks.inside:
            submitted = state.submit_start
            state.write(start, submitted, submitted, state.submit_end, end, ids[0], ids[1])
        else:
            state.write(start, -1.0, -1.0, -1.0, end, ids[0], ids[1])
    except Exception as problem:
        hooks.lost(problem)
    return result


def launch(*args: Any, _kernelscope: Any = None, **kwargs: Any) -> Any:
    """In place of ``CudaLauncher.__call__``: the submit of a launch, or a launch of its own."""
    hooks = _kernelscope
    if not hooks.enabled:
        try:
            return hooks.original_launch(*args, **kwargs)
        except BaseException as error:
            error.__traceback__ = error.__traceback__.tb_next  # type: ignore[union-attr]
            raise
    try:
        state = hooks.states[hooks.ident()]
    except KeyError:
        state = hooks.new_state()
    outer = state.kernel
    start = hooks.now()
    try:
        result = hooks.original_launch(*args, **kwargs)
    except BaseException as error:
        hooks.ended(state, outer, args[:5], start, error)
        error.__traceback__ = error.__traceback__.tb_next  # type: ignore[union-attr]
        raise
    if outer is hooks.inside:
        state.submit_end = hooks.now()
        state.submit_start = start
        state.kernel = args[:5]  # `Launched`: as Triton calls it, these have no names
    else:
        hooks.ended(state, outer, args[:5], start, None)
    return result


#: What was launched: Triton's launcher, the grid, and the stream's handle.
Launched = tuple[Any, int, int, int, int]
#: So many of them are known at most; they hold Triton's launchers, which hold no argument and no machine code.
_MOST = 4096


class LaunchHooks:
    """What the hooks work with, and what they do away from the path of a launch of something known.

    Parameters
    ----------
    sink : Sink
        Where launches go.
    rows : KernelRows
        Makes the rows of kernels and specializations.

    Attributes
    ----------
    known : dict
        The ids of target and launch configuration of what was launched.
    run_code : CodeType
        The code of Triton's own ``JITFunction.run``, by which its frames are found.
    """

    __slots__ = ("_kernels", "_rows", "_sink", "enabled", "ident", "inside", "known", "new_state", "now",
                 "original_launch", "original_run", "phases", "run_code", "states")

    def __init__(self, sink: Sink, rows: KernelRows) -> None:
        self._sink = sink
        self._rows = rows
        self.enabled = True
        self.states, self.ident, self.new_state = sink.states, get_ident, sink.state
        self.now = sink.seconds
        self.phases = sink.detail == "phases"
        self.known: dict[Launched, tuple[int, int]] = {}
        #: By launcher, the target of what it launches.
        self._kernels: dict[Any, tuple[int, tuple[Any, ...]]] = {}
        #: What a thread's `ThreadState.kernel` is while ``run`` has not come to the launcher.
        self.inside = object()
        self.run_code: CodeType

    def install(self, patches: Patches, function: Any, launcher: Any) -> None:
        """Put the hooks in: into the classes ``JITFunction`` and ``CudaLauncher``."""
        for owner, name, template in ((launcher, "__call__", launch), (function, "run", run)):
            own = inspect.unwrap(vars(owner)[name])
            original = copy_function(own)
            if template is run:
                self.original_run, self.run_code = original, original.__code__
            else:
                self.original_launch = original
            hook = FunctionType(template.__code__, template.__globals__, template.__name__)
            hook.__kwdefaults__ = {"_kernelscope": self}
            patches.lend(own, hook)

    def first(self, function: Any, kernel: Any, launched: Any) -> tuple[int, int] | None:
        """Return the ids of what is launched for the first time; None where nothing was launched."""
        if kernel is None:  # a hook of the user's kept it from being compiled
            return None
        if launched is self.inside:  # a driver with a launcher of its own
            target = self._rows.target(function, self._rows.compiled(kernel), None)
            return target, self._sink.configuration(None, None, None, None)
        return self._remember(launched, function, kernel)

    def failed(self, state: ThreadState, function: Any, start: float, error: BaseException) -> None:
        """Write a launch that raised."""
        try:
            end, launched = self.now(), state.kernel
            kernel, target, configuration = None, UNKNOWN, UNKNOWN
            submitted = -1.0
            if isinstance(launched, tuple):
                submitted = state.submit_start
                kernel = _kernel_of(launched[0])
            target = self._rows.target(function, kernel, type(error).__name__)
            configuration = self._sink.configuration(None, None, None, None) if kernel is None else (
                self._configuration(launched, self._rows.shape(kernel)))
            if not self.phases:
                submitted = -1.0
            state.write(start, submitted, submitted, -1.0, end, target, configuration)
        except Exception as problem:
            self.lost(problem)

    def ended(self, state: ThreadState, outer: Any, launched: Launched, start: float,
              error: BaseException | None) -> None:
        """Take note of a launcher's call that failed, or write one that no ``run`` is around."""
        if outer is self.inside:
            state.submit_start, state.submit_end, state.kernel = start, -1.0, launched
            return
        try:
            end = self.now()
            ids = self.known.get(launched) if error is None else None
            if ids is None:
                kernel = _kernel_of(launched[0])
                if kernel is None:
                    self._sink.dropped[FRAMEWORK] += 1
                    return
                function = self._rows.function_of(kernel)
                ids = self._remember(launched, function, kernel)
                if error is not None:
                    ids = self._rows.target(function, kernel, type(error).__name__), ids[1]
            known = (start, start, end if error is None else -1.0) if self.phases else (-1.0, -1.0, -1.0)
            state.write(start, *known, end, *ids)
        except Exception as problem:
            self.lost(problem)

    def lost(self, problem: Exception) -> None:
        """Count a launch that could not be written; raise what the user's signal handler raised in the middle of it."""
        if from_signal_handler(problem):
            raise problem
        self._sink.swallow(FRAMEWORK, problem)
        self._sink.dropped[FRAMEWORK] += 1

    def _remember(self, launched: Launched, function: Any, kernel: Any) -> tuple[int, int]:
        held = self._kernels.get(launched[0])
        if held is None:
            kernel = self._rows.compiled(kernel)
            held = self._rows.target(function, kernel, None), self._rows.shape(kernel)
            self._kernels[launched[0]] = held
        if len(self.known) >= _MOST:
            self.known.clear()
        ids = held[0], self._configuration(launched, held[1])
        self.known[launched] = ids
        return ids

    def _configuration(self, launched: Launched, shape: tuple[Any, ...]) -> int:
        block, shared, cluster = shape
        _, x, y, z, stream = launched
        return self._sink.configuration((int(x), int(y), int(z)), (block,), shared, int(stream or 0), cluster)


def _kernel_of(launcher: Any) -> Any:
    """Return the compiled kernel that holds a launcher, which does not tell: once for each that is launched alone."""
    for holder in gc.get_referrers(launcher):
        owners = [holder, *gc.get_referrers(holder)] if isinstance(holder, dict) else [holder]
        for each in owners:
            if type(each).__name__ == "CompiledKernel":
                return each
    return None
