"""The three hooks on numba-cuda's launch path, and everything that they leave to somebody else.

``CUDADispatcher.call`` begins and ends a launch, ``_Kernel.launch`` ends its dispatch and names the specialization,
the global ``launch`` of ``numba.cuda.dispatcher`` is the driver call. They talk through the thread's `ThreadState`;
one record is packed when the call ends. ``--detail launch`` leaves the driver call alone. Where there are several
devices, ``CUDACodeLibrary.get_cufunc`` is hooked too: each device has a function of its own, while the
``cuda.core.Kernel`` behind it is one for all. The hooks themselves are in `hot`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from kernelscope.probes.base import hook_codes
from kernelscope.probes.numba_cuda import hot
from kernelscope.probes.sink import PHASES, Sink, ThreadState
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
        ``CUDADispatcher.call``, ``_Kernel.launch``, the global ``launch`` and ``CUDACodeLibrary.get_cufunc``.
    target_of : callable
        ``(dispatcher, kernel or None, error or None) -> target id``, asked once a kernel. The kernel is a
        ``_Kernel``, or the function that it was loaded as on one device.
    configuration_of : callable
        ``(launch configuration) -> configuration id``, asked once an object.
    """

    def __init__(
        self,
        sink: Sink,
        originals: tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any], Callable[..., Any]],
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
        self._namespace: dict[str, Any] = {
            **vars(hot), "states": sink.states, "only": ThreadState(UNKNOWN, sink.record),
            "new_state": sink.state, "now": sink.seconds, "targets": self.targets, "configurations": self.configurations, "settle": self.settle,
            "nested": self.nested,
            "original_call": originals[0], "original_launch": originals[1], "original_submit": originals[2],
            "original_load": originals[3],
        }
        self._templates = hot.PHASE_HOOKS if sink.record is PHASES else hot.END_HOOKS
        bound = [hot.bind(alone, self._namespace) for alone, _ in self._templates]
        self.call, self.launch, self.submit = bound if len(bound) == 3 else (*bound, None)
        self.load = hot.bind(hot.load, self._namespace)
        self._bound = bound
        hook_codes.update(hot.CODES)
        sink.thread_listener = self.thread_came

    def thread_came(self, state: ThreadState) -> None:
        """A thread launches for the first time: with the second one, hooks begin to look up whose launch it is.

        The thread that comes is not past its call's beginning yet, so that it never runs a hook for one thread; the
        first one may be in the middle of one, which goes on in the first one's state.
        """
        if state.thread_id == 0:
            self._namespace["only"] = state
            return
        for hook, (_, shared) in zip(self._bound, self._templates, strict=True):
            hook.__code__ = shared.__code__

    def disable(self) -> None:
        """Turn the hooks into pass-throughs, for callers that hold them and for wrappers put over them."""
        self.enabled = False
        idle = ThreadState(UNKNOWN, self.sink.record)
        idle.launch_config = self  # never free, so that `call` takes the nested path, which passes through
        self._namespace.update(states=_Idle(idle), only=idle)
        self.sink.thread_listener = None

    def settle(self, state: ThreadState, dispatcher: Any, launch_config: Any, start: float, end: float,
               error: BaseException) -> bool:
        """Deal with an exception in `call`; return whether it was ours and the launch itself is fine."""
        ours = end != 0.0 and isinstance(error, KeyError | struct.error)
        name = None if end else type(error).__name__
        try:
            if not (end and state.last_start() == start):
                self.write(state, dispatcher, launch_config, start, end or self.sink.seconds(), name)
        except Exception as problem:  # our own: the user's launch must not notice
            self.sink.swallow("numba-cuda", problem)
            self.sink.dropped["numba-cuda"] += 1
        finally:
            state.launch_config = None
        return ours

    def write(self, state: ThreadState, dispatcher: Any, launch_config: Any, start: float, end: float,
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
    """Stands in for the threads' states once the hooks are disabled: one state that no launch can enter."""

    def __init__(self, state: ThreadState) -> None:
        self._state = state

    def __getitem__(self, ident: int) -> ThreadState:
        return self._state
