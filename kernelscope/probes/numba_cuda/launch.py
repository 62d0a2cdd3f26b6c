"""The hooks on numba-cuda's launch path, and everything that they leave to somebody else.

``CUDADispatcher.call`` begins and ends a launch. ``CUDADispatcher._update_launch_config_sensitivity``, which it calls
as soon as it has a specialization, ends its dispatch and names that. The global ``launch`` of
``numba.cuda.dispatcher`` is the driver call; ``--detail launch`` leaves it alone. Where there are several devices,
``CUDACodeLibrary.get_cufunc`` is hooked too: each device has a function of its own, while the ``cuda.core.Kernel``
behind it is one for all. They talk through the thread's `ThreadState`; one record is packed when the call ends. The
hooks themselves are in `hot`.
"""

from __future__ import annotations

import gc
import inspect
import sys
from collections.abc import Callable
from threading import get_ident
from types import CodeType, FrameType, FunctionType
from typing import Any

from kernelscope.probes.base import Patches, hide_frame, hook_codes
from kernelscope.probes.launch_log import ThreadState, packing
from kernelscope.probes.numba_cuda import hot
from kernelscope.probes.numba_cuda.events import EventTimer
from kernelscope.probes.settling import settle
from kernelscope.probes.sink import Sink
from kernelscope.schema import UNKNOWN

# A launch configuration object may live for one launch only: the identity cache of them is bounded.
_MOST_CONFIGURATIONS_BY_IDENTITY = 1024


class LaunchHooks:
    """The hooks on the launch path, and what they do away from it.

    Parameters
    ----------
    sink : Sink
        Where records go.
    target_of : callable
        ``(dispatcher, kernel or None, error or None) -> target id``, asked once a kernel. The kernel is a
        ``_Kernel``, or the function that it was loaded as on one device.
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
        self.targets: dict[Any, int] = {}
        self.configurations: dict[Any, int] = {}
        self.call: Any = None
        self.submit: Any = None
        self.original_call: Any = None
        self._states: Any = sink.states
        self._only = ThreadState(UNKNOWN)
        self._shared = False
        self._originals: dict[str, Any] = {}
        self._running: dict[str, list[Any]] = {"call": [], "found": [], "load": []}
        self._submit_globals: dict[str, Any] = {}
        hook_codes.update(hot.CODES)
        sink.thread_listener = self.thread_came

    def install(self, patches: Patches, dispatcher: Any) -> None:
        """Put the hooks in: `dispatcher` is the module ``numba.cuda.dispatcher``."""
        code = inspect.unwrap(vars(dispatcher.CUDADispatcher)["call"]).__code__
        self._put(patches, dispatcher.CUDADispatcher, "call", "call")
        if _other_thread_runs(code):
            # It is past its call's beginning and would run the hooks for one thread in that one's state.
            self._shared = True
            self._publish()
        self._put(patches, dispatcher.CUDADispatcher, "_update_launch_config_sensitivity", "found")
        if self.sink.detail == "phases":
            patches.hook(dispatcher, "launch", self._make_submit, lend=False)
        elif self.timer is not None:
            patches.hook(dispatcher, "launch", self.timer.around, lend=False)

    def install_load(self, patches: Patches, library: Any) -> None:
        """Put the hook in that tells devices apart: `library` is ``CUDACodeLibrary``."""
        self._put(patches, library, "get_cufunc", "load")

    def thread_came(self, state: ThreadState) -> None:
        """A thread launches for the first time: with the second one, hooks begin to look up whose launch it is.

        The thread that comes is not past its call's beginning yet, so that it never runs a hook for one thread; the
        first one may be in the middle of one, which goes on in the first one's state.
        """
        if state.thread_id == 0:
            self._only = state
            if self._shared:
                return
        elif self._shared:
            return
        else:
            self._shared = True
        self._publish()

    def release(self) -> None:
        """Let go of the functions that run the hooks' code, before it is taken out of them.

        A thread whose first launch is in the middle of a hook must not put the hooks back in (`thread_came`).
        """
        with self.sink.lock:
            self.sink.thread_listener = None
            self._running = {name: functions[:1] for name, functions in self._running.items()}

    def disable(self) -> None:
        """Turn the hooks into pass-throughs, for wrappers that were put over those that replaced an attribute."""
        self.enabled = False
        idle = ThreadState(UNKNOWN)
        idle.launch_config = self  # never free, so that `call` takes the nested path, which passes through
        self._states, self._only = _Idle(idle), idle
        self._publish()

    def _put(self, patches: Patches, owner: Any, attribute: str, name: str) -> None:
        def make(original: Any) -> Any:
            self._originals[name] = original
            template = self._template(name)
            hook = FunctionType(template.__code__, {"__builtins__": __builtins__, "__name__": __name__},
                                attribute, self._defaults(name))
            self._running[name].append(hook)
            if name == "call":
                self.call, self.original_call = hook, original
            return hook

        swapped = patches.hook(owner, attribute, make)
        if swapped is not None:
            self._running[name].append(swapped)

    def _publish(self) -> None:
        """Have every function that runs a hook's code use the present states, and the code for their number."""
        for name, functions in self._running.items():
            for function in functions:
                function.__defaults__ = self._defaults(name)
                function.__code__ = self._template(name).__code__
        self._submit_globals.update(states=self._states, only=self._only)
        if self.submit is not None and self._shared:
            self.submit.__code__ = hot.submit_phases.__code__

    def _template(self, name: str) -> Any:
        phases = self.sink.detail == "phases"
        if name == "call":
            return hot.call_phases if phases else hot.call_ends
        if name == "found" and self._shared:
            return hot.found_phases if phases else hot.found_ends
        if name == "found":
            return hot.found_phases_alone if phases else hot.found_ends_alone
        return hot.load

    def _defaults(self, name: str) -> tuple[Any, ...]:
        """What the template's parameters behind the launch's own are."""
        common = (get_ident, self._states, self.sink.state)
        if name == "call":
            return (*common, self.sink.seconds, *packing(self.sink.log), self.targets, self.configurations,
                    self.nested, self.settle, self._originals[name])
        if name == "found":
            return (*common, self.sink.seconds, self._only, self._originals[name])
        return (*common, self._originals[name])

    def _make_submit(self, original: Any) -> Any:
        if self.timer is not None:
            original = self.timer.around(original)
        self._submit_globals = {**vars(hot), "ident": get_ident, "states": self._states, "only": self._only,
                                "new_state": self.sink.state, "now": self.sink.seconds, "original_submit": original}
        template = hot.submit_phases if self._shared else hot.submit_phases_alone
        self.submit = FunctionType(template.__code__, self._submit_globals, "launch")
        return self.submit

    def settle(self, state: ThreadState, dispatcher: Any, launch_config: Any, start: float, end: float,
               error: BaseException) -> bool:
        """Deal with an exception in `call`; return whether it was ours and the launch itself is fine."""
        return settle("numba-cuda", self.sink, state, end != 0.0, error,
                      lambda: self.write(state, dispatcher, launch_config, start, end or self.sink.seconds(),
                                         None if end else type(error).__name__))

    def write(self, state: ThreadState, dispatcher: Any, launch_config: Any, start: float, end: float,
              error: str | None) -> None:
        """Write a launch the slow way: kernels and configurations are looked at, phases checked for being new."""
        kernel = state.kernel
        dispatched = state.dispatch_end if state.dispatch_end >= start else UNKNOWN
        submitted = state.submit_start if state.submit_start >= start else UNKNOWN
        returned = state.submit_end if state.submit_end >= start else UNKNOWN
        target = self.target_of(dispatcher, kernel, error)
        if error is None and kernel is not None and ("load" not in self._originals or hasattr(kernel, "kernel")):
            self.targets[kernel] = target
        configuration = self.configuration_of(launch_config)
        if len(self.configurations) >= _MOST_CONFIGURATIONS_BY_IDENTITY:
            self.configurations.clear()
        self.configurations[launch_config] = configuration
        state.write(start, dispatched, submitted, returned, end, target, configuration)

    def nested(self, state: ThreadState, dispatcher: Any, args: Any, launch_config: Any) -> Any:
        """A call while the thread is in the middle of a launch: a hop of the same launch, or another one inside."""
        try:
            if not self.enabled:
                return self.original_call(dispatcher, args, launch_config)
            other = dispatcher is not launch_config.dispatcher
            if launch_config is state.launch_config and getattr(dispatcher, "_launch_config_is_specialized", other):
                # A launch-config sensitive dispatcher hands over to the one for this configuration.
                return self.original_call(dispatcher, args, launch_config)
            outer = (state.launch_config, state.kernel, state.dispatch_end, state.submit_start, state.submit_end)
            state.launch_config = None
            try:
                return self.call(dispatcher, args, launch_config)
            finally:
                (state.launch_config, state.kernel, state.dispatch_end, state.submit_start,
                 state.submit_end) = outer
        except BaseException as error:
            hide_frame(error)
            raise


def _other_thread_runs(code: CodeType) -> bool:
    """Whether a thread other than this one is in the middle of a function with that code."""
    for ident, frame in _current_frames().items():
        entry: FrameType | None = frame
        while entry is not None and ident != get_ident():
            if entry.f_code is code:
                return True
            entry = entry.f_back
    return False


def _current_frames() -> dict[int, FrameType]:
    """`sys._current_frames`, without a garbage collection in the middle of it.

    Python 3.11 holds its lock of threads there while it allocates, and a `threading.local` that is collected then,
    such as that of a finished recording, asks for the same lock: the process would stand still for ever.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        return sys._current_frames()
    finally:
        if enabled:
            gc.enable()


class _Idle:
    """Stands in for the threads' states once the hooks are disabled: one state that no launch can enter."""

    def __init__(self, state: ThreadState) -> None:
        self._state = state

    def __getitem__(self, ident: int) -> ThreadState:
        return self._state
