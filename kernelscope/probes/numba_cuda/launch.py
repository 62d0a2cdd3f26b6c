"""The hooks on numba-cuda's launch path: in C, in Python, and by its documented callbacks only."""

from __future__ import annotations

import gc
import inspect
import sys
from collections.abc import Callable
from contextlib import ExitStack
from threading import get_ident
from types import CodeType, FrameType, FunctionType
from typing import Any

from kernelscope.errors import ProbeUnavailableError
from kernelscope.native.log import ThreadState, packing
from kernelscope.probes.base import Patches, hide_frame, hook_codes, ids, looked_up, settle
from kernelscope.probes.numba_cuda import hot
from kernelscope.probes.numba_cuda.events import EventTimer
from kernelscope.probes.numba_cuda.kernels import Facts
from kernelscope.probes.sink import Sink
from kernelscope.schema import UNKNOWN

# The native hooks on numba-cuda's launch path, and what they leave to Python: what is new, and what fails.
#
# They hook what `kernelscope.probes.numba_cuda.launch` hooks, with callables in C (``launch.c`` of the native
# recorder). A launch's slot is written where the launch begins, with its kernel and its launch configuration, so that
# a
# recording whose process dies has it.

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


# The hooks on numba-cuda's launch path, and everything that they leave to somebody else.
#
# ``CUDADispatcher.call`` begins and ends a launch. ``CUDADispatcher._update_launch_config_sensitivity``, which it
# calls as soon as it has a specialization, ends its dispatch and names that. The global ``launch`` of
# ``numba.cuda.dispatcher`` is the driver call; ``--detail launch`` leaves it alone. Where there are several devices,
# ``CUDACodeLibrary.get_cufunc`` is hooked too: each device has a function of its own, while the ``cuda.core.Kernel``
# behind it is one for all. They talk through the thread's `ThreadState`; one record is packed when the call ends. The
# hooks themselves are in `hot`.

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


# Recording one kernel by numba-cuda's documented seam only: `pre_launch_callbacks` and `capture_compile_config`.

class Attachments:
    """Dispatchers that were given to ``recorder.attach``, and how to let go of them."""

    def __init__(self, sink: Sink, facts: Facts, modules: Any) -> None:
        self._sink = sink
        self._facts = facts
        self._modules = modules
        self._undo = ExitStack()
        self._attached: set[int] = set()

    def attach(self, dispatcher: Any) -> None:
        """Add a callback to every launch that is configured from now on.

        Raises
        ------
        ProbeUnavailableError
            `dispatcher` is no kernel made by ``cuda.jit``.
        """
        if not hasattr(dispatcher, "configure") or not hasattr(dispatcher, "py_func"):
            raise ProbeUnavailableError(f"{dispatcher!r} is not a kernel made by numba.cuda.jit")
        if id(dispatcher) in self._attached:
            return
        self._attached.add(id(dispatcher))
        capture = self._undo.enter_context(self._modules.launchconfig.capture_compile_config(dispatcher))
        capture["hits"] = sum(dispatcher.stats.cache_hits.values())
        configured: list[Any] = []
        original = dispatcher.configure

        def launched(kernel: Any, launch_config: Any) -> None:
            try:
                self._launched(dispatcher, kernel, launch_config, capture)
            except Exception as problem:
                self._sink.swallow("numba-cuda", problem)

        def configure(*args: Any, **kwargs: Any) -> Any:
            try:
                launch_config = original(*args, **kwargs)
            except BaseException as error:
                hide_frame(error)
                raise
            if launched not in launch_config.pre_launch_callbacks:
                launch_config.pre_launch_callbacks.append(launched)
                configured.append(launch_config)
            return launch_config

        def release() -> None:
            if vars(dispatcher).get("configure") is configure:
                del dispatcher.configure
            for launch_config in configured:
                if launched in launch_config.pre_launch_callbacks:
                    launch_config.pre_launch_callbacks.remove(launched)

        dispatcher.configure = configure
        self._undo.callback(release)

    def detach(self) -> None:
        """Let go of every dispatcher, in reverse order."""
        self._attached.clear()
        self._undo.close()

    def _launched(self, dispatcher: Any, kernel: Any, launch_config: Any, capture: dict[str, Any]) -> None:
        """One launch is about to be made: its start is all that the callback can see. It must not call CUDA."""
        instant = self._sink.clock()
        specialization = self._facts.specialization(dispatcher, kernel)
        configuration = self._facts.configuration(launch_config)
        if capture["config"] is launch_config:
            capture["config"] = None
            hits = sum(dispatcher.stats.cache_hits.values())
            outcome = "disk" if hits > capture["hits"] else "compiled"
            capture["hits"] = hits
            self._sink.compilations.append({
                "dispatcher_id": self._facts.dispatcher(dispatcher), "specialization_id": specialization,
                "thread_id": self._sink.state().thread_id, "configuration_id": configuration,
                "trigger": "launch", "signature": self._facts.signature_text(kernel.argument_types),
                "start_ns": instant, "outcome": outcome,
            })
        target = self._sink.target(self._facts.dispatcher(dispatcher), specialization)
        self._sink.launch(instant, UNKNOWN, target, configuration)
