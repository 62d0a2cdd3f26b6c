"""The three hooks on numba-cuda's launch path: the only code of KernelScope that every launch pays for.

``CUDADispatcher.call`` begins and ends a launch, ``_Kernel.launch`` ends its dispatch and names the specialization,
the global ``launch`` of ``numba.cuda.dispatcher`` is the driver call. They talk through the thread's `ThreadState`;
one record is packed when the call ends. What `submit` is given, a ``cuda.core.Kernel``, is one specialization on one
device; where there is one device, ``--detail launch`` does without that hook. Everything that is not on that path (a kernel seen for the first time, a
full chunk, an exception, a launch within a launch) is in `LaunchHooks.settle` and `LaunchHooks.nested`.

The hooks spend no call, no lookup and no branch that was not measured: see ``benchmarks/``.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from kernelscope.clock import Clock
from kernelscope.probes.base import hook_codes
from kernelscope.probes.sink import ENDS, PHASES, Sink, ThreadState
from kernelscope.schema import UNKNOWN

# A launch configuration object may live for one launch only: the identity cache of them is bounded.
_MOST_CONFIGURATIONS_BY_IDENTITY = 1024


class LaunchHooks:
    """Replacements for the three functions, and what they do away from the hot path.

    Parameters
    ----------
    sink : Sink
        Where records go.
    originals : tuple of callable
        ``CUDADispatcher.call``, ``_Kernel.launch`` and the global ``launch``.
    target_of : callable
        ``(dispatcher, kernel or None, error or None) -> target id``, asked once a kernel. The kernel is a
        ``_Kernel``, or the ``cuda.core.Kernel`` that it was loaded as on one device.
    configuration_of : callable
        ``(launch configuration) -> configuration id``, asked once an object.
    """

    def __init__(
        self,
        sink: Sink,
        originals: tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]],
        target_of: Callable[[Any, Any, str | None], int],
        configuration_of: Callable[[Any], int],
    ) -> None:
        self.sink = sink
        self.enabled = True
        self.original_call = originals[0]
        self.target_of = target_of
        self.configuration_of = configuration_of
        self.targets: dict[Any, int] = {}
        self.configurations: dict[Any, int] = {}
        maker = _phase_hooks if sink.record is PHASES else _end_hooks
        self.call, self.launch, self.submit, self.detach = maker(self, sink.clock, *originals)

    def disable(self) -> None:
        """Turn the hooks into pass-throughs, for callers that hold them and for wrappers put over them."""
        self.enabled = False
        idle = ThreadState(UNKNOWN, self.sink.record)
        idle.launch_config = self  # never free, so that `call` takes the nested path, which passes through
        self.detach(_Idle(idle))

    def settle(self, state: ThreadState, dispatcher: Any, launch_config: Any, start: int, end: int,
               error: BaseException) -> bool:
        """Deal with an exception in `call`; return whether it was ours and the launch itself is fine."""
        ours = end != 0 and isinstance(error, KeyError | struct.error)
        name = None if end else type(error).__name__
        try:
            if not (end and state.last_start() == start):
                self.write(state, dispatcher, launch_config, start, end or self.sink.clock(), name)
        except Exception as problem:  # our own: the user's launch must not notice
            self.sink.swallow("numba-cuda", problem)
            self.sink.dropped["numba-cuda"] += 1
        finally:
            state.launch_config = None
        return ours

    def write(self, state: ThreadState, dispatcher: Any, launch_config: Any, start: int, end: int,
              error: str | None) -> None:
        """Write a launch the slow way: kernels and configurations are looked at, phases checked for being new."""
        kernel = state.kernel
        dispatched = state.dispatch_end if state.dispatch_end >= start else UNKNOWN
        submitted = state.submit_start if state.submit_start >= start else UNKNOWN
        returned = state.submit_end if state.submit_end >= start else UNKNOWN
        target = self.target_of(dispatcher, kernel, error)
        if error is None and kernel is not None:
            self.targets[kernel] = target
        configuration = self.configuration_of(launch_config)
        if len(self.configurations) >= _MOST_CONFIGURATIONS_BY_IDENTITY:
            self.configurations.clear()
        self.configurations[launch_config] = configuration
        state.write(start, dispatched, submitted, returned, end, target, configuration)

    def nested(self, state: ThreadState, dispatcher: Any, args: Any, launch_config: Any) -> Any:
        """A call while the thread is in the middle of a launch: a hop of the same launch, or another one inside."""
        if not self.enabled:
            return self.original_call(dispatcher, args, launch_config)
        if launch_config is state.launch_config and dispatcher is not launch_config.dispatcher:
            # A launch-config sensitive dispatcher hands over to the one for this configuration.
            return self.original_call(dispatcher, args, launch_config)
        outer = (state.launch_config, state.kernel, state.dispatch_end, state.submit_start, state.submit_end)
        state.launch_config = None
        try:
            return self.call(dispatcher, args, launch_config)
        finally:
            (state.launch_config, state.kernel, state.dispatch_end, state.submit_start,
             state.submit_end) = outer


class _Idle:
    """Stands in for the thread-local once the hooks are disabled: one state that no launch can enter."""

    def __init__(self, state: ThreadState) -> None:
        self.state = state


def _phase_hooks(
    hooks: LaunchHooks, now: Clock, original_call: Any, original_launch: Any, original_submit: Any
) -> tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any], Callable[[Any], None]]:
    """The hooks that take every phase boundary: five readings of the clock a launch."""
    local: Any = hooks.sink.local
    targets, configurations = hooks.targets, hooks.configurations
    write, size = PHASES.pack_into, PHASES.size
    settle, nested = hooks.settle, hooks.nested

    def call(self: Any, args: Any, launch_config: Any) -> Any:
        state = local.state
        if state.launch_config is not None:
            return nested(state, self, args, launch_config)
        state.launch_config = launch_config
        state.kernel = None
        end = 0
        start = now()
        try:
            result = original_call(self, args, launch_config)
            end = now()
            write(state.buffer, state.offset, start, state.dispatch_end, state.submit_start, state.submit_end,
                  end, targets[state.kernel], configurations[launch_config])
            state.offset += size
            state.launch_config = None
            return result
        except BaseException as error:
            if not settle(state, self, launch_config, start, end, error):
                raise
            return result  # type: ignore[possibly-unbound]

    def launch(self: Any, args: Any, griddim: Any, blockdim: Any, stream: Any = 0, sharedmem: Any = 0) -> Any:
        state = local.state
        state.kernel = self
        state.dispatch_end = now()
        return original_launch(self, args, griddim, blockdim, stream, sharedmem)

    def submit(*arguments: Any, **keywords: Any) -> Any:
        state = local.state
        state.kernel = arguments[2]
        state.submit_start = now()
        try:
            return original_submit(*arguments, **keywords)
        finally:
            state.submit_end = now()

    def detach(idle: Any) -> None:
        nonlocal local
        local = idle

    hook_codes.update(hook.__code__ for hook in (call, launch, submit))
    return call, launch, submit, detach


def _end_hooks(
    hooks: LaunchHooks, now: Clock, original_call: Any, original_launch: Any, original_submit: Any
) -> tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any], Callable[[Any], None]]:
    """The hooks that take a launch's two ends only; the driver call is left alone."""
    local: Any = hooks.sink.local
    targets, configurations = hooks.targets, hooks.configurations
    write, size = ENDS.pack_into, ENDS.size
    settle, nested = hooks.settle, hooks.nested

    def call(self: Any, args: Any, launch_config: Any) -> Any:
        state = local.state
        if state.launch_config is not None:
            return nested(state, self, args, launch_config)
        state.launch_config = launch_config
        state.kernel = None
        end = 0
        start = now()
        try:
            result = original_call(self, args, launch_config)
            end = now()
            write(state.buffer, state.offset, start, end, targets[state.kernel], configurations[launch_config])
            state.offset += size
            state.launch_config = None
            return result
        except BaseException as error:
            if not settle(state, self, launch_config, start, end, error):
                raise
            return result  # type: ignore[possibly-unbound]

    def launch(self: Any, args: Any, griddim: Any, blockdim: Any, stream: Any = 0, sharedmem: Any = 0) -> Any:
        local.state.kernel = self
        return original_launch(self, args, griddim, blockdim, stream, sharedmem)

    def submit(*arguments: Any, **keywords: Any) -> Any:
        # Only installed where there are several devices: the driver's kernel tells which.
        local.state.kernel = arguments[2]
        return original_submit(*arguments, **keywords)

    def detach(idle: Any) -> None:
        nonlocal local
        local = idle

    hook_codes.update(hook.__code__ for hook in (call, launch, submit))
    return call, launch, submit, detach
