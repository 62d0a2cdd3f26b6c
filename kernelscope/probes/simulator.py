"""The probe of numba's CUDA simulator (``NUMBA_ENABLE_CUDASIM=1``): launches and configurations, no compiles.

There are no overloads, statistics or compile events in the simulator, and its durations say nothing about a GPU.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from kernelscope.probes.base import Probe
from kernelscope.probes.functions import function_facts
from kernelscope.probes.sink import Sink
from kernelscope.schema import UNKNOWN

FRAMEWORK = "simulator"


class SimulatorProbe(Probe):
    """Hooks ``FakeCUDAKernel`` where the simulator is imported, or as soon as it is.

    A kernel runs inside its launch, so that there is nothing to wait for. It takes milliseconds, so that what
    recording adds to it is not stated.
    """

    name = FRAMEWORK
    module = "numba.cuda.simulator.kernel"

    def hook(self, module: Any, sink: Sink) -> None:
        """Hook how kernels are configured and called. See `Probe.hook`."""
        streams = _Streams()

        def getitem(original: Callable[..., Any]) -> Callable[..., Any]:
            def __getitem__(kernel: Any, configuration: Any) -> Any:
                result = original(kernel, configuration)
                # The simulator keeps no stream: remember what the launch that follows was given.
                try:
                    streams.last = _handle(configuration[2]) if len(configuration) > 2 else 0
                except Exception as problem:
                    sink.guard(self.name, problem)
                    streams.last = 0
                return result

            return __getitem__

        def record(start: int, end: int, failure: str | None, kernel: Any, *args: Any) -> None:
            target = sink.target(_dispatcher(sink, kernel.fn), UNKNOWN, UNKNOWN, failure)
            configuration = sink.configuration(
                _dims(kernel.grid_dim), _dims(kernel.block_dim), kernel.dynshared_size, streams.last)
            sink.launch(start, end, target, configuration)

        def is_inside(kernel: Any, *args: Any) -> bool:
            """Whether it is a device function, or a call from inside a kernel."""
            return kernel._device or module._kernel_context is not None

        owner = vars(module)["FakeCUDAKernel"]
        self.patches.hook(owner, "__getitem__", getitem)
        self.hook_launches(sink, owner, "__call__", record, is_inside)

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
