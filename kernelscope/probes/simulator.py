"""The probe of numba's CUDA simulator (``NUMBA_ENABLE_CUDASIM=1``): launches and configurations, no compiles.

There are no overloads, statistics or compile events in the simulator, and its durations say nothing about a GPU.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any

from kernelscope.native.log import from_signal_handler
from kernelscope.probes.base import ImportHook, Patches, hook_codes
from kernelscope.probes.functions import function_facts
from kernelscope.probes.sink import Sink
from kernelscope.schema import UNKNOWN

FRAMEWORK = "simulator"


class SimulatorProbe:
    """Hooks ``FakeCUDAKernel`` where the simulator is imported, or as soon as it is."""

    name = FRAMEWORK

    def __init__(self) -> None:
        self._import_hook: ImportHook | None = None
        self._patches = Patches()
        self._enabled = False

    def install(self, sink: Sink, detail: str) -> None:
        """Hook the simulator, or wait for its import. See `Probe.install`."""
        self._enabled = True
        self._import_hook = ImportHook("numba.cuda.simulator.kernel", lambda module: self._hook(module, sink))
        self._import_hook.arm()

    def uninstall(self) -> None:
        """Undo every hook. See `Probe.uninstall`."""
        if self._import_hook is not None:
            self._import_hook.disarm()
        self._patches.undo()
        self._enabled = False

    def synchronize(self) -> str | None:
        """Have nothing to wait for: the simulator runs kernels inside the launch. See `Probe.synchronize`."""
        return None

    def describe(self, sink: Sink, used: Iterable[tuple[int, int]]) -> None:
        """Have nothing to ask for. See `Probe.describe`."""

    def attach(self, kernel: Any) -> str | None:
        """Have nothing to attach to: everything is recorded. See `Probe.attach`."""
        return None

    def cost_per_launch_ns(self, detail: str) -> float | None:
        """Say nothing: a simulated launch takes milliseconds. See `Probe.cost_per_launch_ns`."""
        return None

    def _hook(self, module: ModuleType, sink: Sink) -> None:
        try:
            owner = vars(module)["FakeCUDAKernel"]
            self._patches.hook(owner, "__getitem__", lambda original: self._getitem(original, sink))
            self._patches.hook(owner, "__call__", lambda original: self._call(original, module, sink))
        except Exception as problem:
            self._patches.undo()
            if from_signal_handler(problem):
                raise
            sink.swallow(self.name, problem)

    def _getitem(self, original: Callable[..., Any], sink: Sink) -> Callable[..., Any]:
        streams = _Streams()

        def __getitem__(kernel: Any, configuration: Any) -> Any:
            result = original(kernel, configuration)
            # The simulator keeps no stream: remember what the launch that follows was given.
            streams.last = _handle(configuration[2]) if len(configuration) > 2 else 0
            return result

        self._streams = streams
        hook_codes.add(__getitem__.__code__)
        return __getitem__

    def _call(self, original: Callable[..., Any], module: Any, sink: Sink) -> Callable[..., Any]:
        now = sink.clock

        def __call__(kernel: Any, *args: Any) -> Any:
            if not self._enabled or kernel._device or module._kernel_context is not None:
                return original(kernel, *args)  # a device function, or a call from inside a kernel
            failure: str | None = None
            start = now()
            try:
                return original(kernel, *args)
            except BaseException as error:
                failure = type(error).__name__
                raise
            finally:
                self._record(sink, kernel, start, now(), failure)

        hook_codes.add(__call__.__code__)
        return __call__

    def _record(self, sink: Sink, kernel: Any, start: int, end: int, failure: str | None) -> None:
        try:
            target = sink.target(_dispatcher(sink, kernel.fn), UNKNOWN, UNKNOWN, failure)
            configuration = sink.configuration(
                _dims(kernel.grid_dim), _dims(kernel.block_dim), kernel.dynshared_size, self._streams.last)
            sink.launch(start, end, target, configuration)
        except Exception as problem:
            sink.swallow(self.name, problem)


class _Streams(threading.local):
    """The handle of the stream in the thread's newest configuration."""

    last = 0


def _dispatcher(sink: Sink, function: Any) -> int:
    code = function.__code__
    return sink.dispatchers.intern((FRAMEWORK, id(function)), lambda: {
        "framework": FRAMEWORK,
        "name": function.__qualname__.replace("<locals>.", ""),
        "module": function.__module__,
        "filename": code.co_filename,
        "lineno": code.co_firstlineno,
        **function_facts(code),
    }, live=function)


def _dims(dims: Any) -> tuple[int, ...]:
    return tuple(dims) if isinstance(dims, tuple) else (1 if dims is None else int(dims),)


def _handle(stream: Any) -> int:
    handle = getattr(stream, "handle", stream)
    value = getattr(handle, "value", handle)
    return int(value) if isinstance(value, int) else 0
