"""The hooks on numba-cuda-mlir's launch path."""

from __future__ import annotations

from collections.abc import Callable
from threading import get_ident
from types import FunctionType
from typing import Any

from kernelscope.native.log import ThreadState, packing
from kernelscope.probes.base import Patches, hide_frame, hook_codes, ids, looked_up, settle
from kernelscope.probes.numba_cuda_mlir import hot
from kernelscope.probes.numba_cuda_mlir.kernels import FRAMEWORK
from kernelscope.probes.sink import Sink
from kernelscope.schema import UNKNOWN

# The native hooks on numba-cuda-mlir's launch path, and what they leave to Python: what is new, and what fails.
#
# They hook what `kernelscope.probes.numba_cuda_mlir.launch` hooks, with callables in C (``marshal.c`` of the native
# recorder). A launch's slot is written where the launch begins, with its dispatcher and its launch configuration.

# Lists of argument types are new ones for launches with host arrays: those that are known, and held, are bounded.
_MOST_KNOWN = 1024


class NativeLaunchHooks:
    """The hooks on the launch path, in C. See `LaunchHooks`, which has the same methods.

    Parameters
    ----------
    sink : Sink
        Where launches go: its log is a `NativeLog`.
    target_of : callable
        ``(marshaller, argument types or None, error or None) -> target id``, asked once for each configured launch,
        without types, and once for each with types.
    configuration_of : callable
        ``(marshaller) -> configuration id``.
    """

    def __init__(self, sink: Sink, target_of: Callable[[Any, Any, str | None], int],
                 configuration_of: Callable[[Any], int]) -> None:
        self.sink = sink
        self.target_of = target_of
        self.configuration_of = configuration_of
        #: By the native launcher and the ids of the types themselves; the types keep their ids from being used again.
        self._by_types: dict[tuple[Any, ...], tuple[tuple[int, int], Any]] = {}
        self._hooks: dict[str, Any] = {}

    def install(self, patches: Patches, descriptor: Any) -> None:
        """Put the hooks in: `descriptor` is the module ``numba_cuda_mlir.descriptor``."""
        patches.put(descriptor._ArgMarshaller, "_launch", self._make("types"))
        patches.put(descriptor._ArgMarshaller, "__call__", self._make("marshal"))

    def disable(self) -> None:
        """Turn the hooks into pass-throughs, for wrappers that were put over them, and let go of what they hold."""
        for hook in self._hooks.values():
            hook.is_enabled = False
            hook.forget()
        self._hooks = {}  # they hold this
        self._by_types.clear()

    def begin(self, marshaller: Any) -> tuple[int, int] | None:
        """Return the ids of configuration and target of a configured launch that is new, before its types are known.

        None where they cannot be had: the launch is not recorded then.
        """
        launcher = marshaller._launcher
        found, users = looked_up(FRAMEWORK, self.sink, lambda: (
            self.configuration_of(marshaller), self.target_of(marshaller, None, None)))
        if users is not None:
            raise users from None
        if found is not None:
            self._know("configurations", launcher, *found)
        return found

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
            if len(self._by_types) >= _MOST_KNOWN:
                self._by_types.clear()
            self._by_types[key] = known
        self._know("launches", (launcher, types), *known[0])
        return known[0]

    def _know(self, table: str, key: Any, first: int, second: int) -> None:
        hook = self._hooks.get("marshal")
        if hook is not None:  # else the recording ended while this launch was under way
            hook.know(table, key, first, second)

    def _make(self, kind: str) -> Callable[[Any], Any]:
        def make(original: Any) -> Any:
            log: Any = self.sink.log
            self._hooks[kind] = log.hook(kind, original, self.begin, self.end, _MOST_KNOWN)
            return self._hooks[kind]

        return make


# The hooks on numba-cuda-mlir's launch path, and everything that they leave to somebody else.
#
# ``_ArgMarshaller.__call__`` begins and ends a launch; users hold these objects, and all launches go through the
# method.
# ``_ArgMarshaller._launch``, which it calls once the arguments are typed and on the device, names the types. What
# comes then is native: the specialization is found there, and the driver called. So of the boundaries inside a
# launch only the native launcher's return is seen; on a GPU, CUPTI's record of the driver call brings the others.

# Lists of argument types are new ones for launches with host arrays: the memory of known ones is bounded.


#: Why a launch is looked at again: target and configuration, and what keeps the ids in its key from being used again.
_Known = tuple[int, int, Any]


class LaunchHooks:
    """The hooks on the launch path, and what they do away from it, where the log is a `PythonLog`.

    Parameters
    ----------
    sink : Sink
        Where records go.
    target_of : callable
        ``(marshaller, argument types or None, error or None) -> target id``, asked once for each configured launch and
        types.
    configuration_of : callable
        ``(marshaller) -> configuration id``.
    """

    def __init__(self, sink: Sink, target_of: Callable[[Any, Any, str | None], int],
                 configuration_of: Callable[[Any], int]) -> None:
        self.sink = sink
        self.enabled = True
        self.target_of = target_of
        self.configuration_of = configuration_of
        #: By the native launcher and the id of a list of types, which numba-cuda-mlir keeps for later launches.
        self.known: dict[tuple[Any, int], _Known] = {}
        #: By the native launcher and the ids of the types themselves.
        self._by_types: dict[tuple[Any, ...], _Known] = {}
        self._originals: dict[str, Any] = {}
        self._running: dict[str, list[Any]] = {"call": [], "launch": []}
        self._states: Any = sink.states
        hook_codes.update(hot.CODES)

    def install(self, patches: Patches, descriptor: Any) -> None:
        """Put the hooks in: `descriptor` is the module ``numba_cuda_mlir.descriptor``."""
        self._put(patches, descriptor._ArgMarshaller, "_launch", "launch")
        self._put(patches, descriptor._ArgMarshaller, "__call__", "call")

    def disable(self) -> None:
        """Turn the hooks into pass-throughs, for wrappers that were put over those that replaced an attribute."""
        self.enabled = False
        idle = ThreadState(UNKNOWN)
        idle.launch_config = self  # never free, so that a call takes the nested path, which passes through
        self._states = _Idle(idle)
        for name, hooks in self._running.items():
            for hook in hooks:
                self._give(hook, name)

    def _put(self, patches: Patches, owner: Any, attribute: str, name: str) -> None:
        def make(original: Any) -> Any:
            self._originals[name] = original
            hook = FunctionType(self._template(name).__code__, {"__builtins__": __builtins__, "__name__": __name__},
                                attribute)
            self._give(hook, name)
            self._running[name].append(hook)
            return hook

        patches.hook(owner, attribute, make)

    def _template(self, name: str) -> Any:
        phases = self.sink.detail == "phases"
        if name == "call":
            return hot.call_phases if phases else hot.call_ends
        return hot.launch_phases if phases else hot.launch_ends

    def _give(self, hook: Any, name: str) -> None:
        """What the template works with: defaults, or the one keyword of a function that takes any arguments."""
        common = (get_ident, self._states, self.sink.state, self.sink.seconds)
        if name == "launch":
            hook.__defaults__ = (None, *common, self._originals[name])
            return
        hook.__kwdefaults__ = {"_kernelscope": (
            *common, *packing(self.sink.log), self.known, self.nested, self.settle, self._originals[name])}

    def settle(self, state: ThreadState, marshaller: Any, start: float, end: float, error: BaseException) -> bool:
        """Deal with an exception in a launch; return whether it was ours and the launch itself is fine."""
        return settle(FRAMEWORK, self.sink, state, end != 0.0, error,
                      lambda: self.write(state, marshaller, start, end or self.sink.seconds(),
                                         None if end else type(error).__name__))

    def write(self, state: ThreadState, marshaller: Any, start: float, end: float, error: str | None) -> None:
        """Write a launch the slow way: its types and its configuration are looked at."""
        types, returned = state.kernel, state.submit_end if state.submit_end >= start else UNKNOWN
        target, configuration = self._look(marshaller, types, error)
        state.write(start, UNKNOWN, UNKNOWN, returned, end, target, configuration)

    def _look(self, marshaller: Any, types: Any, error: str | None) -> tuple[int, int]:
        if error is not None or types is None:
            return self.target_of(marshaller, types, error), self.configuration_of(marshaller)
        # Types are compared by identity: numba-cuda-mlir has one object of each, whose hash costs more than this.
        key = (marshaller._launcher, *map(id, types))
        found = self._by_types.get(key)
        if found is None:
            found = (self.target_of(marshaller, types, None), self.configuration_of(marshaller), tuple(types))
            if len(self._by_types) >= _MOST_KNOWN:
                self._by_types.clear()
            self._by_types[key] = found
        if len(self.known) >= _MOST_KNOWN:
            self.known.clear()
        self.known[marshaller._launcher, id(types)] = (*found[:2], types)
        return found[:2]

    def nested(self, state: ThreadState, marshaller: Any, args: tuple[Any, ...]) -> Any:
        """A launch while the thread is in the middle of another one, such as from an extension."""
        try:
            if not self.enabled:
                return self._originals["call"](marshaller, *args)
            outer = (state.launch_config, state.kernel, state.dispatch_end, state.submit_start, state.submit_end)
            state.launch_config = None
            try:
                return self._running["call"][0](marshaller, *args)
            finally:
                (state.launch_config, state.kernel, state.dispatch_end, state.submit_start,
                 state.submit_end) = outer
        except BaseException as error:
            hide_frame(error)
            raise


class _Idle:
    """Stands in for the threads' states once the hooks are disabled: one state that no launch can enter."""

    def __init__(self, state: ThreadState) -> None:
        self._state = state

    def __getitem__(self, ident: int) -> ThreadState:
        return self._state
